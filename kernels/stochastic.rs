//! Casts that round by chance: a tile of the source in a float that holds it exactly is rounded to the grid of the target, in
//! that float, and then cast, which has nothing left to round. The loops are plain ones, compiled for each instruction set.

use core::marker::PhantomData;

use super::drive::{self, Planned};
use super::simd::{Simd, Task};
use super::table;
use crate::formats::dtype::{DType, FloatFormat, Kind};
use crate::formats::layout::ByteOrder;
use crate::formats::options::{CastOptions, Rounding};
use crate::formats::stochastic::Key;

/// Elements of a tile: a multiple of 8.
const TILE: usize = 256;

/// A stochastic route.
///
/// # Safety
/// As for every [`Kernel`](drive::Kernel); the instruction set is available.
pub(super) unsafe fn kernel<I: Simd>(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let done = match plan.route.from.kind() {
            Kind::Bool => by_tiles::<I, Single>(plan, src, dst, n),
            Kind::Int(format) if format.bits <= 16 => by_tiles::<I, Single>(plan, src, dst, n),
            Kind::Int(format) if format.bits <= 32 => by_tiles::<I, Double>(plan, src, dst, n),
            Kind::Float(format) if format.bits() <= 32 => by_tiles::<I, Single>(plan, src, dst, n),
            Kind::Float(_) => by_tiles::<I, Double>(plan, src, dst, n),
            Kind::Int(_) | Kind::Complex(_) => false,
        };
        if !done {
            drive::stochastic(plan, src, dst, n);
        }
    }
}

/// False, and nothing is done, if there is no memory for the plans of the casts.
///
/// # Safety
/// As for [`kernel`]. The float holds the source exactly.
unsafe fn by_tiles<I: Simd, F: Float>(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) -> bool {
    let Kind::Float(format) = plan.route.to.kind() else { return false };
    // Nothing is left to round, and overflow is that of nearest.
    let options =
        CastOptions { rounding: Rounding::NearestEven, stream_from: Some(usize::MAX), ..plan.options };
    let (before, after) = (options.dst_order(ByteOrder::Native), options.src_order(ByteOrder::Native));
    let (Some(widen), Some(narrow)) = (
        table::plan(plan.isa, plan.from, F::DTYPE, &before),
        table::plan(plan.isa, F::DTYPE, plan.to, &after),
    ) else {
        return false;
    };
    let mut tile = [F::Code::default(); TILE];
    let room = tile.as_mut_ptr().cast::<u8>();
    for first in (0..n).step_by(TILE) {
        let len = TILE.min(n - first);
        // SAFETY: these elements are among those that the caller promises; `first` is a multiple of 8, so that they begin a
        // byte. The tile has room for them, and is nobody else's.
        unsafe {
            widen.run(src.add(plan.route.src.size(first)), room, len);
            round::<I, F>(&mut tile[..len], Grid::new(format), plan, first);
            narrow.run(room, dst.add(plan.route.dst.size(first)), len);
        }
    }
    true
}

/// Rounds the elements of a tile, which begins with element `first` of the plan.
///
/// # Safety
/// The instruction set is available.
unsafe fn round<I: Simd, F: Float>(tile: &mut [F::Code], grid: Grid<F>, plan: &Planned, first: usize) {
    let (words, first) = (plan.stochastic, first as u64);
    let number = words.first.wrapping_add(first) as u32;
    // The upper half of the number changes at most once.
    let left = (u32::MAX - number) as usize;
    let (same, next) = tile.split_at_mut(tile.len().min(left.saturating_add(1)));
    // SAFETY: the caller's promise.
    unsafe {
        let next_key = words.key(first.wrapping_add(same.len() as u64));
        I::run(Round::<F> { tile: same, grid, key: words.key(first), number });
        I::run(Round::<F> { tile: next, grid, key: next_key, number: 0 });
    }
}

/// The values of a target in the codes of a wider float.
#[derive(Clone, Copy)]
struct Grid<F> {
    /// Bits of a code below the last one of the target, from its smallest normal number on.
    drop: u32,
    /// The biased exponent of that.
    least: u32,
    /// Biased, the distance of the subnormal ones below.
    ulp: u32,
    float: PhantomData<F>,
}

impl<F: Float> Grid<F> {
    fn new(format: FloatFormat) -> Self {
        let least = format.min_exponent() + F::BIAS;
        Self {
            drop: F::MANTISSA - format.mantissa_bits,
            least: least as u32,
            // Not needed where it would be negative: bfloat16 has the exponents of float32.
            ulp: (least - format.mantissa_bits as i32).max(0) as u32,
            float: PhantomData,
        }
    }
}

/// A float that a tile is rounded in.
trait Float: Copy {
    type Code: Copy + Default;
    const DTYPE: DType;
    const MANTISSA: u32;
    const BIAS: i32;

    /// The magnitude of a code, without its exponent and with it.
    fn split(code: Self::Code) -> (u32, u64);

    /// A code cut after adding the word below the last bit that stays. Inf and NaN stay as they are.
    fn round(code: Self::Code, word: u32, drop: u32) -> Self::Code;

    /// A code of a number below the least exponent: so many units, with a sign.
    fn units(code: Self::Code, units: u32, ulp: u32) -> Self::Code;
}

/// float32.
#[derive(Clone, Copy)]
struct Single;

/// float64.
#[derive(Clone, Copy)]
struct Double;

impl Float for Single {
    type Code = u32;
    const DTYPE: DType = DType::F32;
    const MANTISSA: u32 = 23;
    const BIAS: i32 = 127;

    #[inline(always)]
    fn split(code: u32) -> (u32, u64) {
        (code >> 23 & 0xFF, u64::from(code & 0x7F_FFFF))
    }

    #[inline(always)]
    fn round(code: u32, word: u32, drop: u32) -> u32 {
        let rounded = code.wrapping_add(word >> (32 - drop)) & (u32::MAX << drop);
        if code & 0x7F80_0000 == 0x7F80_0000 { code } else { rounded }
    }

    #[inline(always)]
    fn units(code: u32, units: u32, ulp: u32) -> u32 {
        let value = units as f32 * f32::from_bits(ulp << 23);
        value.to_bits() | code & 0x8000_0000
    }
}

impl Float for Double {
    type Code = u64;
    const DTYPE: DType = DType::F64;
    const MANTISSA: u32 = 52;
    const BIAS: i32 = 1023;

    #[inline(always)]
    fn split(code: u64) -> (u32, u64) {
        ((code >> 52) as u32 & 0x7FF, code & 0xF_FFFF_FFFF_FFFF)
    }

    #[inline(always)]
    fn round(code: u64, word: u32, drop: u32) -> u64 {
        let rounded = code.wrapping_add(u64::from(word) << (drop - 32)) & (u64::MAX << drop);
        if code & 0x7FF0_0000_0000_0000 == 0x7FF0_0000_0000_0000 { code } else { rounded }
    }

    #[inline(always)]
    fn units(code: u64, units: u32, ulp: u32) -> u64 {
        let value = f64::from(units) * f64::from_bits(u64::from(ulp) << 52);
        value.to_bits() | code & (1 << 63)
    }
}

/// The loop over a tile, whose first element has this number.
struct Round<'a, F: Float> {
    tile: &'a mut [F::Code],
    grid: Grid<F>,
    key: Key,
    number: u32,
}

impl<F: Float> Task for Round<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { tile, grid, key, number } = self;
        let mut has_small = false;
        for &code in &*tile {
            let (field, mantissa) = F::split(code);
            has_small |= field.max(1) < grid.least && (field != 0 || mantissa != 0);
        }
        let small = if has_small { Some(grid.least) } else { None };
        for (i, code) in tile.iter_mut().enumerate() {
            let word = key.word(number.wrapping_add(i as u32));
            *code = match small {
                None => F::round(*code, word, grid.drop),
                Some(least) => {
                    let (field, mantissa) = F::split(*code);
                    let exponent = field.max(1);
                    let small = least.saturating_sub(exponent);
                    let significand = mantissa | u64::from(field != 0) << F::MANTISSA;
                    // In units of 2^-32 of the target's.
                    let shift = grid.drop + small;
                    let fixed = if F::MANTISSA < 32 {
                        (significand << 32) >> shift.min(63)
                    } else {
                        significand >> (shift - 32).min(63)
                    };
                    let units = ((fixed + u64::from(word)) >> 32) as u32;
                    match small {
                        0 => F::round(*code, word, grid.drop),
                        _ => F::units(*code, units, grid.ulp),
                    }
                }
            };
        }
    }
}
