//! `lanecast bench`: measures casts against memcpy, in one run, on one thread.

use std::hint::black_box;
use std::ops::{Deref, DerefMut, Range};
use std::time::Instant;

use lanecast::scaled::{Dequantizer, Quantizer, Scaling};
use lanecast::{CastOptions, Caster, DType};
use serde_json::json;

use crate::args::Bench;
use crate::error::{Failure, Result};
use crate::out;

/// What is measured: a cast, or one under scales.
enum Work {
    Cast(DType, DType),
    Dequantise(DType, Scaling, DType),
    Quantise(DType, DType, Scaling),
}

fn all() -> Vec<(&'static str, Work)> {
    use DType::{BF16, F4E2M1, F8E4M3FN, F16, F32, I8};
    use Work::{Cast, Dequantise, Quantise};
    let rows = Scaling::per_axis(0);
    vec![
        ("f32 -> bf16", Cast(F32, BF16)),
        ("bf16 -> f32", Cast(BF16, F32)),
        ("f32 -> f16", Cast(F32, F16)),
        ("bf16 -> f16", Cast(BF16, F16)),
        ("f32 -> e4m3", Cast(F32, F8E4M3FN)),
        ("e4m3 -> bf16", Cast(F8E4M3FN, BF16)),
        ("fp8-block -> bf16", Dequantise(F8E4M3FN, Scaling::deepseek(), BF16)),
        ("mxfp4 -> bf16", Dequantise(F4E2M1, Scaling::mx(), BF16)),
        ("int8-channel -> bf16", Dequantise(I8, rows, BF16)),
        ("bf16 -> fp8-block", Quantise(BF16, F8E4M3FN, Scaling::deepseek())),
        ("bf16 -> mxfp4", Quantise(BF16, F4E2M1, Scaling::mx())),
        ("bf16 -> int8-channel", Quantise(BF16, I8, rows)),
    ]
}

/// The columns of matrices.
const COLUMNS: usize = 4096;

/// Returns how many bytes per second are read and written, in the best of some runs.
fn speed(bytes: usize, mut act: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    let all = Instant::now();
    for turn in 0..1000 {
        let began = Instant::now();
        act();
        best = best.min(began.elapsed().as_secs_f64());
        let seconds = all.elapsed().as_secs_f64();
        if seconds > 0.4 || turn >= 4 && seconds > 0.1 {
            break;
        }
    }
    bytes as f64 / best
}

/// Bytes that begin at a page. An allocation may begin anywhere, and on some CPUs memcpy then takes several times as long.
pub(crate) struct Buffer {
    room: Vec<u8>,
    bytes: Range<usize>,
}

const PAGE: usize = 4096;

impl Buffer {
    /// Makes a buffer of a repeated pattern.
    pub(crate) fn of(pattern: &[u8], bytes: usize) -> Self {
        let mut room = vec![0; bytes + PAGE];
        let first = room.as_ptr().align_offset(PAGE).min(PAGE);
        let bytes = first..first + bytes;
        room[bytes.clone()].iter_mut().zip(pattern.iter().cycle()).for_each(|(byte, &x)| *byte = x);
        Self { room, bytes }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.room[self.bytes.clone()]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.bytes.clone()]
    }
}

fn memcpy(bytes: usize) -> f64 {
    let (src, mut dst) = (Buffer::of(&[1], bytes), Buffer::of(&[0], bytes));
    speed(2 * bytes, || {
        dst.copy_from_slice(black_box(&src[..]));
        black_box(&mut dst);
    })
}

/// Returns how many bytes `n` elements have.
fn size(dtype: DType, n: usize) -> usize {
    n * dtype.bits() as usize / 8
}

fn measure(work: &Work, n: usize) -> Result<f64> {
    let wrong = |error: lanecast::scaled::Error| Failure::usage(error.to_string());
    let options = CastOptions::new();
    let shape = [n / COLUMNS, COLUMNS];
    // 1.0 as float32, and some number in the other dtypes.
    let filled = |dtype: DType| Buffer::of(&[0, 0, 0x80, 0x3F], size(dtype, n));
    let room = |dtype: DType| Buffer::of(&[0], size(dtype, n));
    Ok(match work {
        Work::Cast(from, to) => {
            let caster =
                Caster::new(*from, *to, &options).map_err(|error| Failure::usage(error.to_string()))?;
            let (src, mut dst) = (filled(*from), room(*to));
            speed(src.len() + dst.len(), || {
                caster.cast(black_box(&src), &mut dst, n).expect("the sizes fit");
                black_box(&mut dst);
            })
        }
        Work::Dequantise(from, scaling, to) => {
            let d = Dequantizer::new(*from, *to, scaling, &options).map_err(wrong)?;
            let (src, mut dst) = (filled(*from), room(*to));
            // Scales as weights have them: 1 as a power of two, 0.75 as float32. 2^-64 would be beyond the range of the kernels.
            let one = if *scaling == Scaling::mx() { 0x7F } else { 0x3F };
            let scales = vec![one; d.scale_bytes(&shape).map_err(wrong)?];
            speed(src.len() + dst.len() + scales.len(), || {
                d.dequantize(black_box(&src), &shape, &scales, None, &mut dst).expect("the sizes fit");
                black_box(&mut dst);
            })
        }
        Work::Quantise(from, to, scaling) => {
            let q = Quantizer::new(*from, *to, scaling, &options).map_err(wrong)?;
            let (src, mut dst) = (filled(*from), room(*to));
            let mut scales = vec![0; q.scale_bytes(&shape).map_err(wrong)?];
            speed(src.len() + dst.len() + scales.len(), || {
                q.quantize(black_box(&src), &shape, &mut dst, &mut scales).expect("the sizes fit");
                black_box(&mut dst);
            })
        }
    })
}

pub(crate) fn run(args: &Bench) -> Result<()> {
    // How many elements fit into an L2 cache, and into none.
    let places = [("L2", 128 * COLUMNS / 4), ("memory", 4096 * COLUMNS)];
    let mut found = Vec::new();
    for (name, work) in all() {
        let mut ratios = [0.0; 2];
        for (ratio, (_, n)) in ratios.iter_mut().zip(places) {
            // Just before the casts, so that what slows them down slows this down, too.
            let copy = memcpy(size(DType::BF16, n));
            let speed = measure(&work, n)?;
            *ratio = (speed / copy.max(memcpy(size(DType::BF16, n))) * 1000.0).round() / 1000.0;
        }
        found.push((name, ratios));
    }
    if args.json {
        let all: Vec<_> = found
            .iter()
            .map(|(name, [l2, memory])| json!({ "cast": name, "l2": l2, "memory": memory }))
            .collect();
        return out::json(&json!({ "of_memcpy": all }));
    }
    out::line(format_args!(
        "Bytes read and written per second, relative to memcpy (1: as fast), on one thread"
    ))?;
    let mut rows = vec![["cast", places[0].0, places[1].0].map(str::to_owned)];
    rows.extend(
        found
            .iter()
            .map(|(name, [l2, memory])| [(*name).to_owned(), format!("{l2:.3}"), format!("{memory:.3}")]),
    );
    out::table(rows)
}

#[cfg(test)]
mod tests {
    use lanecast::{DType, Isa};

    use super::{COLUMNS, all, measure, memcpy, size};

    /// No row is cast by the reference, as it would be under scales that are out of the kernels' bounds: it reaches a hundredth of memcpy,
    /// and the slowest row a tenth (AVX-512).
    #[test]
    fn by_kernels() {
        if Isa::available() == [Isa::Scalar] {
            return;
        }
        let n = 32 * COLUMNS;
        let copy = memcpy(size(DType::BF16, n));
        for (name, work) in all() {
            let ratio = measure(&work, n).unwrap() / copy;
            assert!(ratio > 0.025, "{name}: {ratio:.4} of memcpy");
        }
    }
}
