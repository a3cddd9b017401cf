//! Computes with scales, many at a time: what a kernel multiplies with or divides by, and for which scales it is right. Runs in
//! the floating-point environment that kernels expect.

use core::ops::Range;

use super::super::backend::on;
use super::super::codec::scaled::rest;
use super::super::environment::Environment;
use super::super::memory::bytes_of;
use super::super::present::Present;
use super::super::simd::{Simd, Task};
use super::operands::{Factor, LEAST_GROUP};
use crate::formats::dtype::DType;
use crate::formats::options::Rounding;

/// Multiplies or divides scales by the tensor scale, rounding to float32.
pub(crate) fn with_tensor(isa: Present, factor: Factor, scales: &mut [f32]) {
    struct Each<'a>(Factor, &'a mut [f32]);

    impl<I> Task<I> for Each<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self, _: I) {
            let Self(factor, scales) = self;
            for s in scales {
                *s = factor.of(*s);
            }
        }
    }

    let _environment = Environment::new(Rounding::NearestEven);
    let ran = on!(isa, isa => isa.run(Each(factor, scales)));
    debug_assert!(ran.is_some());
}

/// A flag of a scale: the kernel would be wrong for it.
pub(crate) const WRONG: u8 = 1;
/// A flag of a scale: see [`Ties`] and [`inverses`].
pub(crate) const TIES: u8 = 2;

/// The scales for which a kernel is right.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// The range of their magnitudes, as bits.
    pub(crate) range: Range<u32>,
    /// Whether the kernel is right for zero, too.
    pub(crate) zero: bool,
    pub(crate) negative: bool,
}

/// Flags scales that are out of bounds as [`WRONG`]. Returns all flags that were set.
pub(crate) fn bounded(isa: Present, scales: &[f32], bounds: &Bounds, flags: &mut [u8]) -> u8 {
    struct Each<'a>(&'a [f32], &'a Bounds, &'a mut [u8]);

    impl<I> Task<I> for Each<'_> {
        type Output = u8;

        #[inline(always)]
        fn call(self, _: I) -> u8 {
            let Self(scales, &Bounds { range: Range { start, end }, zero, negative }, flags) = self;
            let mask = if negative { u32::MAX >> 1 } else { u32::MAX };
            // Usually all scales are right, and none is zero.
            let mut most = 0;
            for scale in scales {
                most = (scale.to_bits() & mask).wrapping_sub(start).max(most);
            }
            if most < end - start {
                return 0;
            }
            let mut all = 0;
            for (scale, flags) in scales.iter().zip(flags) {
                let bits = scale.to_bits() & mask;
                let is_right = (bits.wrapping_sub(start) < end - start) | (zero & (bits == 0));
                let set = if is_right { 0 } else { WRONG };
                *flags |= set;
                all |= set;
            }
            all
        }
    }

    let set = on!(isa, isa => isa.run(Each(scales, bounds, flags)));
    set.unwrap_or(WRONG)
}

/// For [`By::Exponent`](super::operands::By::Exponent): what each scale adds to the exponents of bfloat16. Flags scales as
/// [`bounded`] does; zero and negative scales are [`WRONG`].
pub(crate) fn deltas(
    isa: Present,
    scales: &[f32],
    bounds: &Range<u32>,
    deltas: &mut [u32],
    flags: &mut [u8],
) -> u8 {
    struct Each<'a>(&'a [f32], &'a Range<u32>, &'a mut [u32], &'a mut [u8]);

    impl<I> Task<I> for Each<'_> {
        type Output = u8;

        #[inline(always)]
        fn call(self, _: I) -> u8 {
            let Self(scales, &Range { start, end }, deltas, flags) = self;
            let mut most = 0;
            for (scale, delta) in scales.iter().zip(deltas) {
                let bits = scale.to_bits();
                // Shifted to where a bfloat16 has its exponent. It may be negative.
                let word = (bits >> 23).wrapping_sub(127) << 7 & 0xFFFF;
                *delta = word | word << 16;
                most = bits.wrapping_sub(start).max(most);
            }
            if most < end - start {
                return 0;
            }
            for (scale, flags) in scales.iter().zip(flags) {
                *flags |= if scale.to_bits().wrapping_sub(start) < end - start { 0 } else { WRONG };
            }
            WRONG
        }
    }

    let set = on!(isa, isa => isa.run(Each(scales, bounds, deltas, flags)));
    set.unwrap_or(WRONG)
}

/// Which products of a scale and a code are no ties of a narrower float, but become ties when they are rounded to float32.
///
/// Powers of two in a code do not matter, so only odd codes are tried; their products are exact in float64. A tie of bfloat16
/// has a one after the 8 bits of its significand, and zeros after that. Ties of subnormal float16s may be at any bit from the
/// 11th on, so a product counts as near a tie if the bits that follow these are only zeros or only ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ties {
    /// The largest odd code.
    most: u32,
    tie: u64,
    /// The mask of the bits of a float64 after those of the target.
    below: u64,
}

impl Ties {
    /// For codes of this many significant bits. None if there are too many of them to try.
    pub(crate) fn new(codes: u32, to: DType) -> Option<Self> {
        let (kept, tie) = if to == DType::BF16 { (7, 1 << 44) } else { (11, 0) };
        (codes <= 12).then(|| Self { most: (1 << codes) - 1, tie, below: (1 << (52 - kept)) - 1 })
    }

    /// How many codes are tried for each scale.
    pub(crate) fn tried(self) -> usize {
        self.most as usize / 2
    }
}

/// Flags scales that may have such products with [`TIES`]. Returns all flags that were set.
pub(crate) fn ties(isa: Present, ties: Ties, scales: &[f32], flags: &mut [u8]) -> u8 {
    struct Each<'a>(Ties, &'a [f32], &'a mut [u8]);

    impl<I> Task<I> for Each<'_> {
        type Output = u8;

        #[inline(always)]
        fn call(self, _: I) -> u8 {
            const LANES: usize = 16;
            /// Rounding to float32 changes the bits of a float64 by no more than this.
            const NEAR: u64 = 1 << 29;
            let Self(Ties { most, tie, below }, scales, flags) = self;
            let mut all = 0;
            for (scales, flags) in scales.chunks(LANES).zip(flags.chunks_mut(LANES)) {
                let mut exact = [0.0; LANES];
                for (exact, scale) in exact.iter_mut().zip(scales) {
                    *exact = f64::from(*scale);
                }
                let mut may = [0u64; LANES];
                let mut code = 3;
                while code <= most {
                    for i in 0..LANES {
                        let beyond = (exact[i] * f64::from(code)).to_bits().wrapping_sub(tie) & below;
                        let is_near = beyond.wrapping_add(NEAR) & below <= 2 * NEAR;
                        may[i] |= u64::from(is_near & (beyond != 0));
                    }
                    code += 2;
                }
                for (may, flags) in may.iter().zip(flags) {
                    let set = if *may != 0 { TIES } else { 0 };
                    *flags |= set;
                    all |= set;
                }
            }
            all
        }
    }

    let _environment = Environment::new(Rounding::NearestEven);
    let set = on!(isa, isa => isa.run(Each(ties, scales, flags)));
    set.unwrap_or(TIES)
}

/// Computes the codes of float8_e8m0fnu scales from float32 magnitudes: `added` is added to the bits, and the exponent of `top`
/// is subtracted from the exponent of the sum.
pub(crate) fn exponents(isa: Present, magnitudes: &[u32], added: u32, top: u32, codes: &mut [u8]) {
    struct Each<'a>(&'a [u32], u32, u32, &'a mut [u8]);

    impl<I> Task<I> for Each<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self, _: I) {
            let Self(magnitudes, added, top, codes) = self;
            for (&bits, code) in magnitudes.iter().zip(codes) {
                // No carry reaches the sign: magnitudes are not negative.
                let exponent = ((bits + added) >> 23) as i32 - (top >> 23) as i32 + 127;
                *code = if bits == 0 { 0 } else { exponent.clamp(0, 254) as u8 };
            }
        }
    }

    let ran = on!(isa, isa => isa.run(Each(magnitudes, added, top, codes)));
    debug_assert!(ran.is_some());
}

/// The ties of a target, which are odd numbers up to `most`, times powers of two; and the significant bits of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    pub(crate) most: u32,
    pub(crate) bits: u32,
}

/// Computes the inverse of each scale. With `ties`, where all scales must be positive, inverses are chosen such that no product of an
/// element lies on another side of a tie than the exact quotient. Scales for which that is not possible are flagged [`TIES`], and counted.
///
/// ```text
/// x = t * S in so many bits     the only x whose quotient x / S may be near the tie t: its neighbours are 2^-bits away
/// r = x - t * S                 its sign is exact, as `rest` says: the side of t on which the quotient lies, or 0 if it is t
/// d = x * v - t                 its sign says the same of the product. (The larger one of two x has no smaller product.)
/// ```
/// v is the rounded inverse, or that plus or minus 8 ulps, which is more than any product is off. (For a scale that was found,
/// which is a magnitude divided and rounded, all r have the same sign or are 0, so one direction serves all ties.)
pub(crate) fn inverses(
    isa: Present,
    scales: &[f32],
    factor: Factor,
    inverses: &mut [f32],
    ties: Option<Near>,
    flags: &mut [u8],
) -> usize {
    // With ties, whole registers of scales are read.
    let whole = flags.len().next_multiple_of(LEAST_GROUP);
    assert!(ties.is_none() || scales.len() >= whole);
    let _environment = Environment::new(Rounding::NearestEven);
    let left = on!(isa, isa => isa.run(Inverses { scales, factor, inverses, ties, flags }));
    debug_assert!(left.is_some());
    left.unwrap_or(0)
}

/// The arguments of [`inverses`].
struct Inverses<'a> {
    scales: &'a [f32],
    factor: Factor,
    inverses: &'a mut [f32],
    ties: Option<Near>,
    flags: &'a mut [u8],
}

/// 1 for positive numbers, -1 for negative ones, 0 for 0.
#[inline(always)]
fn sign<I: Simd>(isa: I, x: I::V) -> I::V {
    isa.max_s32(isa.min_s32(x, isa.splat32(1)), isa.splat32(u32::MAX))
}

/// Whether each inverse is too small for some tie (1), and whether it is too large for some tie (-1).
#[inline(always)]
fn needed<I: Simd>(
    isa: I,
    Near { most, bits }: Near,
    factor: Factor,
    [scale, whole, inverse]: [I::V; 3],
) -> [I::V; 2] {
    let half = isa.splat32(1 << (23 - bits));
    let mask = isa.splat32(u32::MAX << (24 - bits));
    let [mut more, mut less] = [isa.splat32(0); 2];
    let mut tie = 1;
    while tie <= most {
        let t = isa.splat32((tie as f32).to_bits());
        let minus_t = isa.splat32((-(tie as f32)).to_bits());
        let x = isa.and(isa.add32(isa.mul_f32(t, whole), half), mask);
        let r = rest(isa, factor, x, minus_t, scale);
        // As integers, positive floats compare as they do as floats.
        let d = isa.sub32(isa.mul_f32(x, inverse), t);
        let by = isa.sub32(sign(isa, r), sign(isa, d));
        (more, less) = (isa.max_s32(more, by), isa.min_s32(less, by));
        tie += 2;
    }
    [sign(isa, more), sign(isa, less)]
}

impl<I: Simd> Task<I> for Inverses<'_> {
    type Output = usize;

    #[inline(always)]
    fn call(self, isa: I) -> usize {
        let Self { scales, factor, inverses, ties, flags } = self;
        let Some(near) = ties else {
            for (scale, inverse) in scales.iter().zip(inverses) {
                *inverse = 1.0 / factor.of(*scale);
            }
            return 0;
        };
        let lanes = const { I::BYTES / 4 };
        let zero = isa.splat32(0);
        let (mut scales, mut left) = (bytes_of(scales), 0);
        let by = isa.splat32(factor.by.to_bits());
        for (inverses, flags) in inverses.chunks_mut(lanes).zip(flags.chunks_mut(lanes)) {
            let Some(scale) = isa.load_next(&mut scales) else { break };
            let whole = if factor.divides { isa.div_f32(scale, by) } else { isa.mul_f32(scale, by) };
            let inverse = isa.div_f32(isa.splat32(1f32.to_bits()), whole);
            let [more, less] = needed(isa, near, factor, [scale, whole, inverse]);
            let other = isa.add32(inverse, isa.shl32::<3>(isa.add32(more, less)));
            let [other_more, other_less] = needed(isa, near, factor, [scale, whole, other]);
            let is_right = isa.eq32(isa.or(more, less), zero);
            let other_is = isa.eq32(isa.or(other_more, other_less), zero);
            let made = isa.select32(is_right, inverse, isa.select32(other_is, other, inverse));
            let tie = isa.splat32(TIES.into());
            let set = isa.select32(is_right, zero, isa.select32(other_is, zero, tie));
            let (mut numbers, mut sets) = ([0; 64], [0; 64]);
            isa.store_next(&mut (&mut numbers[..]).into(), made);
            isa.store_next(&mut (&mut sets[..]).into(), set);
            for (inverse, number) in inverses.iter_mut().zip(numbers.as_chunks::<4>().0) {
                *inverse = f32::from_ne_bytes(*number);
            }
            for (flags, set) in flags.iter_mut().zip(sets.as_chunks::<4>().0) {
                let set = u32::from_ne_bytes(*set) as u8;
                *flags |= set;
                left += usize::from(set == TIES);
            }
        }
        left
    }
}
