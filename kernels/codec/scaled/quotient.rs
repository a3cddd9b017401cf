//! Elements divided by their scales.

use core::marker::PhantomData;

use super::super::float::{NearF32, SIGN};
use super::super::source::{AsF32, Input, Source, bits, format};
use super::super::width::registers;
use super::arrays::numbers;
use super::under::{Of, Scaled, Under};
use crate::formats::dtype::{DType, FloatFormat};
use crate::kernels::scaled::operands::{Factor, How, Scale};
use crate::kernels::simd::Simd;

/// Elements divided by their scales, in front of an encoder to a target whose ties are `T`.
///
/// ```text
/// q = x * (1 / S)           off by less than 4 units in the last of its 24 bits: see `may_tie`
/// ```
/// Where no q of a block is that near to a tie, rounding q gives what rounding the quotient gives. Otherwise, with 12 bits:
/// ```text
/// m = q in 12 bits          x / S lies between m and a neighbour of m
/// t = x - m * S             of which the sign is exact, because it is rounded once: see `rest`
/// q = m and a last bit      up or down, as the sign of t says, unless t is 0
/// ```
/// With [`How::OverAtTies`] such blocks are divided instead.
pub(in crate::kernels) type Quotient<S, T> = Scaled<Of<S, Divided<T>>>;

/// See [`Quotient`].
pub(in crate::kernels) struct Divided<T>(PhantomData<T>);

impl<I: Simd, S: AsF32<I>, T: Ties> AsF32<I> for Quotient<S, T> {
    #[inline(always)]
    fn f32(isa: I, Input { block, loaded: Under { loaded, scale } }: Input<I, Self>) -> [I::V; 4] {
        let mut x = S::f32(isa, Input { block, loaded });
        if scale.others.loses_sign {
            x = registers!(4, K => isa.add_f32(x[K], isa.splat32(0)));
        }
        let mut q = 'quotient: {
            if scale.how != How::Over {
                let s = numbers(isa, &scale, scale.inverses);
                let q = registers!(4, K => isa.mul_f32(x[K], s[K]));
                if scale.how == How::Near || !T::may_tie(isa, q) {
                    break 'quotient q;
                }
                if scale.how == How::Odd {
                    break 'quotient odd::<I, S>(isa, &scale, x, q);
                }
            }
            let s = numbers(isa, &scale, scale.scales);
            registers!(4, K => isa.div_f32(x[K], s[K]))
        };
        if scale.others.keeps {
            q = S::kept(isa, q);
        }
        if T::OF_INTEGERS && !scale.zeros.is_null() {
            let zeros = numbers(isa, &scale, scale.zeros);
            if scale.others.adds_first {
                return S::kept(isa, registers!(4, K => isa.add_f32(isa.number_f32(q[K]), zeros[K])));
            }
            // 1.5 * 2^23 has an ulp of 1, so a sum with it is rounded to an integer. Larger numbers saturate.
            let magic = isa.splat32(12_582_912f32.to_bits());
            let back = isa.splat32((-12_582_912f32).to_bits());
            q = registers!(4, K => {
                let integer = isa.add_f32(isa.add_f32(isa.number_f32(q[K]), magic), back);
                isa.add_f32(integer, zeros[K])
            });
        }
        q
    }
}

impl<I: Simd, S: AsF32<I>, T: Ties> NearF32<I> for Quotient<S, T> {
    const ROUNDS: bool = true;

    #[inline(always)]
    fn near(isa: I, src: Input<I, Self>) -> [I::V; 4] {
        Self::f32(isa, src)
    }
}

/// Rounds the quotients of `x` to odd. `q` are the products with the inverses.
#[inline(always)]
fn odd<I: Simd, S: Source>(isa: I, scale: &Scale, x: [I::V; 4], q: [I::V; 4]) -> [I::V; 4] {
    let scales = numbers(isa, scale, scale.scales);
    let m = registers!(4, K => {
        let near = isa.and(isa.add32(q[K], isa.splat32(0x800)), isa.splat32(!0xFFF));
        // The sum of 0x800 and the largest NaN is no longer a NaN. Sources of 16 bits have no NaN that large.
        if const { bits::<S>() < 32 } {
            near
        } else {
            let is_nan = isa.gt32(isa.abs_f32(q[K]), isa.splat32(0x7F80_0000));
            isa.select32(is_nan, q[K], near)
        }
    });
    let minus = registers!(4, K => isa.xor(m[K], isa.splat32(SIGN)));
    let t = registers!(4, K => rest(isa, scale.tensor, x[K], minus[K], scales[K]));
    registers!(4, K => towards(isa, x[K], m[K], t[K]))
}

/// x - m * (scale with factor), or a number of the same sign, where m has up to 12 bits.
///
/// ```text
/// x - m * s               without a factor: rounded once
/// x - m * s * g           m * s is exact, because a scale that has a factor has up to 12 bits, too
/// (x - m * s / g) * g     x * g - m * s, in the same way
/// ```
#[inline(always)]
pub(in crate::kernels) fn rest<I: Simd>(isa: I, factor: Factor, x: I::V, minus_m: I::V, scale: I::V) -> I::V {
    if factor == Factor::NONE {
        return isa.mul_add_f32(minus_m, scale, x);
    }
    let (product, by) = (isa.mul_f32(minus_m, scale), isa.splat32(factor.by.to_bits()));
    if factor.divides { isa.mul_add_f32(x, by, product) } else { isa.mul_add_f32(product, by, x) }
}

/// Rounds the quotient x / S to odd. `m` has its first 12 bits, and `t` has the sign of x - m * S.
#[inline(always)]
fn towards<I: Simd>(isa: I, x: I::V, m: I::V, t: I::V) -> I::V {
    // 1 if both have the same sign, else -1.
    let step = isa.sub32(isa.splat32(1), isa.and(isa.shr32::<30>(isa.xor(t, x)), isa.splat32(2)));
    // Inf and NaN stay as they are: t is a NaN then, or an Inf where x is finite and only its quotient overflows. Neither is a
    // number.
    isa.where_number_f32(t, isa.add32(m, step), m)
}

/// Where the ties of a target are.
pub(in crate::kernels) trait Ties {
    /// Whether the target is an integer, which may have zero points.
    const OF_INTEGERS: bool = false;

    /// Whether one of these quotients may be on the wrong side of a tie, or its exact value may be a tie.
    ///
    /// In `x * (1 / S)`, the error is below 2^-24 for each of S, which may be a scale with the tensor scale, the
    /// inverse, and the product: in all, less than 4 units in the last of 24 bits. (With [`How::OverAtTies`] there is no factor,
    /// and what counts is the quotient rounded to float32, which adds half a unit.)
    fn may_tie<I: Simd>(isa: I, q: [I::V; 4]) -> bool;
}

/// The ties of any target of up to 8 significant bits: every number of 9 bits counts as a tie.
pub(in crate::kernels) struct OfAny;

impl Ties for OfAny {
    #[inline(always)]
    fn may_tie<I: Simd>(isa: I, q: [I::V; 4]) -> bool {
        is_near(isa, q, 0, 1 << 15)
    }
}

/// The ties of integers of up to 8 bits: the middles between them.
///
/// ```text
/// s = q + 1.5 * 2^9 + 0.5 + 2^-14      in [2^9, 2^10), the ulps are 2^-14, and q is wrong by less than one of them
/// ```
/// Near a tie, s is 0 to 2 ulps above an integer, so that all bits from 2^-12 to 2^-1 are 0. If s is outside, q is below -2^8 or
/// above 2^8 - 1: it saturates, however it is rounded and whatever the zero point is.
pub(in crate::kernels) struct OfIntegers;

impl Ties for OfIntegers {
    const OF_INTEGERS: bool = true;

    #[inline(always)]
    fn may_tie<I: Simd>(isa: I, q: [I::V; 4]) -> bool {
        let more = isa.splat32(const { (768.5f32 + 1.0 / 16_384.0).to_bits() });
        let s = registers!(4, K => isa.add_f32(q[K], more));
        !isa.all_have32(s, (1 << 14) - (1 << 2))
    }
}

/// The ties of the float `DTYPE` (its index among the dtypes), whose smallest normal number is L.
///
/// ```text
/// s = |q| + max(|q|, L)     for a normal q, twice |q|; for a subnormal q, a number above L, where ulps are the same
/// ```
/// Ties have, in s, the bit behind the mantissa set, and no bit behind that.
pub(in crate::kernels) struct OfFloat<const DTYPE: usize>;

impl<const DTYPE: usize> OfFloat<DTYPE> {
    const FORMAT: FloatFormat = format(DType::ALL[DTYPE]);
}

impl<const DTYPE: usize> Ties for OfFloat<DTYPE> {
    #[inline(always)]
    fn may_tie<I: Simd>(isa: I, q: [I::V; 4]) -> bool {
        let mantissa = const { Self::FORMAT.mantissa_bits };
        let least = isa.splat32(const { ((Self::FORMAT.min_exponent() + 127) as u32) << 23 });
        let s = registers!(4, K => {
            let a = isa.and(q[K], isa.splat32(!SIGN));
            isa.add_f32(a, isa.max_u32(a, least))
        });
        is_near(isa, s, 1 << (22 - mantissa), 1 << (23 - mantissa))
    }
}

/// Whether any lane of four registers is within 7 of `at` plus a multiple of `every`, which is a power of two.
#[inline(always)]
fn is_near<I: Simd>(isa: I, x: [I::V; 4], at: u32, every: u32) -> bool {
    let added = isa.splat32(8u32.wrapping_sub(at));
    !isa.all_have32(registers!(4, K => isa.add32(x[K], added)), every - 16)
}
