//! Times the most common casts, in registers from end to end and by way of a tile in L1, and what 64 elements cost in
//! cycles.

use std::fmt;
use std::hint::black_box;
use std::time::Instant;

use lanecast::{CastOptions, Caster, DType, Error, Isa};

use crate::data::{size, source};
use crate::race::{Length, race};

/// A pair, and a hub that holds every value of the source, to which and from which the tiled cast goes.
#[derive(Clone, Copy, Debug)]
pub struct Hot {
    /// The dtype of the source.
    pub from: DType,
    /// The dtype of the tile.
    pub hub: DType,
    /// The dtype of the destination.
    pub to: DType,
    /// The cycles for 64 elements of the best instruction sequence known for Zen 5, measured there; `None` if none was
    /// measured.
    pub zen5: Option<f64>,
}

impl Hot {
    const fn zen5(self, cycles: f64) -> Self {
        Self { zen5: Some(cycles), ..self }
    }

    /// Returns the cycles that the loads and stores of 64 elements take on Zen 5, which loads 128 bytes a cycle and stores
    /// 64. The data paths of Zen 4 are half as wide.
    fn data_paths(self) -> f64 {
        let bytes = |dtype| size(dtype, 64) as f64;
        (bytes(self.from) / 128.0).max(bytes(self.to) / 64.0)
    }
}

/// The casts of array libraries and model loaders. Where the hub is one of the two dtypes, one half of the tiled cast is a copy.
#[rustfmt::skip]
pub const HOT: &[Hot] = {
    use DType::*;
    const fn by(from: DType, hub: DType, to: DType) -> Hot {
        Hot { from, hub, to, zen5: None }
    }
    &[
        by(F32, F32, F16).zen5(3.0), by(F16, F32, F32).zen5(4.0), by(F32, F32, BF16).zen5(4.6), by(BF16, F32, F32).zen5(4.0),
        by(F32, F64, F64).zen5(8.0), by(F64, F64, F32).zen5(6.1), by(F16, F32, BF16), by(BF16, F32, F16),
        by(F32, F32, F8E4M3FN).zen5(11.6), by(F16, F32, F8E4M3FN).zen5(12.5), by(BF16, F32, F8E4M3FN).zen5(12.5),
        by(F32, F32, F8E5M2).zen5(10.2), by(F16, F32, F8E5M2).zen5(5.0), by(BF16, F32, F8E5M2).zen5(12.5),
        by(F8E4M3FN, F32, F32).zen5(4.2), by(F8E4M3FN, F32, F16).zen5(2.3), by(F8E4M3FN, F32, BF16).zen5(2.3),
        by(F8E5M2, F32, F32).zen5(4.2), by(F8E5M2, F32, F16).zen5(2.3), by(F8E5M2, F32, BF16).zen5(2.3),
        by(F8E4M3FN, F32, F8E5M2).zen5(1.2), by(F32, F32, I8).zen5(6.7), by(F32, F32, U8).zen5(6.9),
        by(I8, F32, F32).zen5(4.7), by(U8, F32, F32).zen5(4.7),
        by(F64, F64, I64).zen5(13.5), by(I64, I64, I32).zen5(5.6), by(I32, I64, I8).zen5(2.5),
        by(I4, F32, I8).zen5(1.4), by(U4, F32, U8).zen5(1.3), by(I4, F32, F16), by(U4, F32, BF16),
        by(F4E2M1, F32, F32).zen5(4.3), by(F4E2M1, F32, BF16), by(F32, F32, F4E2M1), by(U2, F32, I2),
        by(Bool, F32, F32).zen5(4.0), by(F32, F32, Bool).zen5(4.7),
    ]
};

/// The elements of a tile: few enough for source, tile and destination to fit in L1.
const TILE: usize = 1024;

/// The bytes of a cache line.
const LINE: usize = 64;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Gain {
    /// The time of the tiled cast divided by that of the direct one.
    pub over_tiled: f64,
    /// The cycles that the direct cast takes for 64 more elements.
    pub cycles: f64,
}

/// Times both on buffers that stay in L1 and begin at a cache line. `hertz` is the frequency of the CPU.
///
/// The cycles do not include the cost of a call and of the end of a buffer: they are those of 2048 elements minus those
/// of 512.
///
/// # Errors
///
/// The instruction set is not available.
pub fn gain(hot: Hot, isa: Isa, hertz: f64, length: Length) -> Result<Gain, Error> {
    let options = CastOptions::new().isa(isa);
    let Hot { from, hub, to, .. } = hot;
    let [direct, decode, encode] = [
        Caster::new(from, to, &options)?,
        Caster::new(from, hub, &options)?,
        Caster::new(hub, to, &options)?,
    ];
    let (n, few) = (2 * TILE, TILE / 2);
    let mut src = vec![0; size(from, n) + LINE];
    let (mut dst, mut tile) = (vec![0; size(to, n) + LINE], vec![0; size(hub, TILE)]);
    let [src_at, dst_at] = [&src, &dst].map(|buffer| buffer.as_ptr().align_offset(LINE));
    let (src, dst) = (&mut src[src_at..][..size(from, n)], &mut dst[dst_at..][..size(to, n)]);
    src.copy_from_slice(&source(from, n));
    let (src_tile, dst_tile) = (size(from, TILE), size(to, TILE));
    let seconds = race(3, length, |contender| {
        let (src, dst) = (black_box(&src[..]), black_box(&mut dst[..]));
        if contender == 0 {
            direct.cast(src, dst, n).expect("the sizes agree");
        } else if contender == 1 {
            direct.cast(&src[..size(from, few)], &mut dst[..size(to, few)], few).expect("the sizes agree");
        } else {
            for (src, dst) in src.chunks(src_tile).zip(dst.chunks_mut(dst_tile)) {
                decode.cast(src, &mut tile, TILE).expect("the sizes agree");
                encode.cast(&tile, dst, TILE).expect("the sizes agree");
            }
        }
    });
    let cycles = (seconds[0] - seconds[1]) * hertz * 64.0 / (n - few) as f64;
    Ok(Gain { over_tiled: seconds[2] / seconds[0], cycles })
}

/// Returns the present frequency of this CPU in Hz. It times a chain of `x = x * (x | 1)`, each step of which takes 4
/// cycles on the x86-64 and most Arm CPUs of this decade: 1 for the "or", 3 for the multiplication. The fastest of 20
/// runs counts.
pub fn hertz() -> f64 {
    const STEPS: u32 = 1 << 20;
    const CYCLES: f64 = 4.0;
    let run = || {
        let start = Instant::now();
        let mut x = black_box(3u64);
        for _ in 0..STEPS {
            x = x.wrapping_mul(x | 1);
        }
        black_box(x);
        start.elapsed().as_secs_f64()
    };
    let fastest = (0..20).map(|_| run()).fold(f64::MAX, f64::min);
    f64::from(STEPS) * CYCLES / fastest
}

/// Returns the table, for every available vector instruction set.
///
/// # Errors
///
/// Only if `LANECAST_ISA` names an instruction set that is not available.
pub fn table(length: Length) -> Result<String, Error> {
    let isas: Vec<Isa> = Isa::available().iter().copied().filter(|&isa| isa != Isa::Scalar).collect();
    let mut page = String::new();
    write_table(&mut page, &isas, length).map(|()| page)
}

fn write_table(page: &mut impl fmt::Write, isas: &[Isa], length: Length) -> Result<(), Error> {
    let mut head = "| pair | tile | best on Zen 5 | data paths |".to_owned();
    let mut line = "|---|---|---:|---:|".to_owned();
    for isa in isas {
        head += &format!(" {isa}: cycles for 64 | gain |");
        line += "---:|---:|";
    }
    let mut row = |text: &str| writeln!(page, "{text}").expect("a string takes everything");
    row(&head);
    row(&line);
    for &hot in HOT {
        let mut cells = String::new();
        for &isa in isas {
            // The frequency changes with the load of the machine, so it is measured each time.
            let gain = gain(hot, isa, hertz(), length)?;
            cells += &format!(" {:.1} | {:.2} |", gain.cycles, gain.over_tiled);
        }
        let zen5 = hot.zen5.map_or(String::new(), |cycles| format!("{cycles:.1}"));
        let text =
            format!("| {} to {} | {} | {zen5} | {:.1} |{cells}", hot.from, hot.to, hot.hub, hot.data_paths());
        row(&text);
    }
    Ok(())
}
