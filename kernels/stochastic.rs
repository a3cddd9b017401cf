//! Stochastic rounding. A tile is cast to a float that holds the source exactly; there it is rounded stochastically to values of the
//! target; then it is cast to the target, with nothing left to round. The loops are plain Rust, compiled for each instruction set.

use core::marker::PhantomData;

use super::drive;
use super::plan::Planned;
use super::simd::{Simd, Task};
use crate::formats::dtype::{DType, FloatFormat, Kind};
use crate::formats::stochastic::Key;

/// The number of elements of a tile, a multiple of 8.
const TILE: usize = 256;

/// The kernel of a stochastic route.
///
/// # Safety
/// As for every [`PlanKernel`](super::plan::PlanKernel); the instruction set is available.
pub(super) unsafe fn kernel<I: Simd>(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let isa = I::assume();
        match (&plan.casts, home(plan.from), plan.route.to.kind()) {
            (Some(casts), Some(DType::F32), Kind::Float(to)) => {
                by_tiles(plan, casts, Grid::<Single>::new(to), isa, src, dst, n);
            }
            (Some(casts), Some(_), Kind::Float(to)) => {
                by_tiles(plan, casts, Grid::<Double>::new(to), isa, src, dst, n);
            }
            _ => drive::scalar(plan, src, dst, n),
        }
    }
}

/// The float in which a source is rounded: one that holds it exactly. None if there is none.
pub(super) fn home(from: DType) -> Option<DType> {
    match from.kind() {
        Kind::Bool => Some(DType::F32),
        Kind::Int(format) if format.bits <= 16 => Some(DType::F32),
        Kind::Int(format) if format.bits <= 32 => Some(DType::F64),
        Kind::Float(format) if format.bits() <= 32 => Some(DType::F32),
        Kind::Float(_) => Some(DType::F64),
        Kind::Int(_) | Kind::Complex(_) => None,
    }
}

/// # Safety
/// As for [`kernel`]. The casts lead to a float that holds the source exactly, and from it.
unsafe fn by_tiles<I: Simd, F: Float>(
    plan: &Planned,
    [widen, narrow]: &[Planned; 2],
    grid: Grid<F>,
    isa: I,
    src: *const u8,
    dst: *mut u8,
    n: usize,
) {
    let mut tile = [F::Code::default(); TILE];
    let room = tile.as_mut_ptr().cast::<u8>();
    for first in (0..n).step_by(TILE) {
        let len = TILE.min(n - first);
        // SAFETY: these elements are among those that the caller promises; `first` is a multiple of 8, so that they begin at a
        // byte. The tile has room for them, and nobody else has it.
        unsafe {
            widen.run(src.add(plan.route.src.size(first)), room, len);
            round(isa, &mut tile[..len], grid, plan, first);
            narrow.run(room, dst.add(plan.route.dst.size(first)), len);
        }
    }
}

/// Rounds the elements of a tile, the first of which has the index `first`.
fn round<I: Simd, F: Float>(isa: I, tile: &mut [F::Code], grid: Grid<F>, plan: &Planned, first: usize) {
    let (words, first) = (plan.stochastic, first as u64);
    let number = words.first.wrapping_add(first) as u32;
    // The upper half of the index changes at most once in a tile.
    let left = (u32::MAX - number) as usize;
    let (same, next) = tile.split_at_mut(tile.len().min(left.saturating_add(1)));
    let next_key = words.key(first.wrapping_add(same.len() as u64));
    isa.run(Round::<F> { tile: same, grid, key: words.key(first), number });
    isa.run(Round::<F> { tile: next, grid, key: next_key, number: 0 });
}

/// Where the values of a target lie among the codes of a wider float.
#[derive(Clone, Copy)]
struct Grid<F> {
    /// How many low bits of a code the target does not have, for its normal numbers.
    drop: u32,
    /// The biased exponent of its smallest normal number.
    least: u32,
    /// The biased exponent of the step between its subnormal numbers.
    ulp: u32,
    /// Whether negative numbers stay as they are, because the target has no sign.
    keeps_negative: bool,
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
            keeps_negative: !format.has_sign,
            float: PhantomData,
        }
    }
}

/// A float in which a tile is rounded.
trait Float: Copy {
    type Code: Copy + Default;
    const MANTISSA: u32;
    const BIAS: i32;

    /// Returns the biased exponent of a code, and its mantissa bits.
    fn split(code: Self::Code) -> (u32, u64);

    fn is_negative(code: Self::Code) -> bool;

    /// Adds a random word below the last bit that is kept, and truncates to this bit. Inf and NaN stay as they are.
    fn round(code: Self::Code, word: u32, drop: u32) -> Self::Code;

    /// The code of a number below the smallest normal one: `units` steps, with the sign of `code`.
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
    const MANTISSA: u32 = 23;
    const BIAS: i32 = 127;

    #[inline(always)]
    fn split(code: u32) -> (u32, u64) {
        (code >> 23 & 0xFF, u64::from(code & 0x7F_FFFF))
    }

    #[inline(always)]
    fn is_negative(code: u32) -> bool {
        (code as i32) < 0
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
    const MANTISSA: u32 = 52;
    const BIAS: i32 = 1023;

    #[inline(always)]
    fn split(code: u64) -> (u32, u64) {
        ((code >> 52) as u32 & 0x7FF, code & 0xF_FFFF_FFFF_FFFF)
    }

    #[inline(always)]
    fn is_negative(code: u64) -> bool {
        (code as i64) < 0
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

/// The loop over a tile. `number` is the index of the first element, for its random word.
struct Round<'a, F: Float> {
    tile: &'a mut [F::Code],
    grid: Grid<F>,
    key: Key,
    number: u32,
}

impl<I, F: Float> Task<I> for Round<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call(self, _: I) {
        let Self { tile, grid, key, number } = self;
        let mut has_small = false;
        for &code in &*tile {
            let (field, mantissa) = F::split(code);
            has_small |= field.max(1) < grid.least && (field != 0 || mantissa != 0);
        }
        let small = if has_small { Some(grid.least) } else { None };
        for (i, code) in tile.iter_mut().enumerate() {
            let word = key.word(number.wrapping_add(i as u32));
            let rounded = match small {
                None => F::round(*code, word, grid.drop),
                Some(least) => {
                    let (field, mantissa) = F::split(*code);
                    let exponent = field.max(1);
                    let small = least.saturating_sub(exponent);
                    let significand = mantissa | u64::from(field != 0) << F::MANTISSA;
                    // In units of 2^-32 of the target's step.
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
            if !(grid.keeps_negative && F::is_negative(*code)) {
                *code = rounded;
            }
        }
    }
}
