//! One cast of so many elements on one instruction set, and nothing else: what `ci/instructions` counts.
//!
//! `cargo run -p lanecast-trace -- neon float32 bfloat16 1024`

use lanecast::{CastOptions, Caster, DType, Isa, Packing};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, isa, from, to, n] = arguments.as_slice() else {
        return Err("usage: trace <isa> <from> <to> <elements>".into());
    };
    let (from, to, n): (DType, DType, usize) = (from.parse()?, to.parse()?, n.parse()?);
    let caster = Caster::new(from, to, &CastOptions::new().isa(isa.parse::<Isa>()?))?;
    let size = |dtype: DType| dtype.byte_len(n, Packing::LowFirst).ok_or("too many elements");
    let (src, mut dst) = (vec![0x3C; size(from)?], vec![0; size(to)? + 64]);
    // At a line, so that every block is a whole one.
    let ahead = dst.as_ptr().addr().wrapping_neg() % 64;
    caster.cast(&src, &mut dst[ahead..][..size(to)?], n)?;
    std::hint::black_box(&dst);
    Ok(())
}
