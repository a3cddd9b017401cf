//! Elements under scales: sources that multiply or divide what another one reads, for the encoders that casts have.

use core::marker::PhantomData;

use super::super::drive::{How, RunScaled, Scale};
use super::super::simd::Simd;
use super::float::{INF, NearF32, SIGN, ToBf16, ToF16, ToF32};
use super::integer::ToShort;
use super::lookup::{Floats, Mirrored, Nibble, OnLine, Short};
use super::narrow::{Finite, Signed, ToNarrow, ToNarrowByF16};
use super::source::{AsF32, Bf16, F16, F32, I8, Source, U8};
use super::{Ends, registers};
use crate::formats::dtype::DType;
use crate::formats::route::Route;

/// The numbers of a block.
///
/// # Safety
/// As for the operations of [`Simd`]; the array has those of a whole block.
#[inline(always)]
unsafe fn numbers<I: Simd>(scale: &Scale, array: *const f32, first: usize) -> [I::V; 4] {
    // SAFETY: the caller's promise. A group has as many elements as a register has lanes, at least.
    unsafe {
        if scale.shift == Scale::ALL {
            // A value, which no store may change, so that it stays in a register.
            [I::splat32(scale.firsts[first].to_bits()); 4]
        } else if scale.shift == Scale::EACH {
            let first = array.add(scale.at).cast::<u8>();
            registers!(4, K => I::load(first.add(K * I::BYTES)))
        } else {
            registers!(4, K => {
                I::splat32(array.add((scale.at + K * I::BYTES / 4) >> scale.shift).cast::<u32>().read())
            })
        }
    }
}

/// Elements times their scales: the exact product, rounded once to f32.
///
/// A scale of more bits is the sum of two floats of the same sign: with c * rest, which is exact, the product is rounded once.
/// (An Inf times a rest of 0 would be none.)
pub(in crate::kernels) struct Times<S>(PhantomData<S>);

impl<S: Source> Source for Times<S> {
    const BITS: usize = S::BITS;
    const FLOATS: bool = true;

    #[inline(always)]
    unsafe fn looks<I: Simd>(table: *const u8) -> super::lookup::Looks<I> {
        // SAFETY: the caller's promise.
        unsafe { S::looks::<I>(table) }
    }
}

impl<I: Simd, S: AsF32<I>> AsF32<I> for Times<S> {
    #[inline(always)]
    unsafe fn f32(src: *const u8, ends: Ends<I>) -> [I::V; 4] {
        let scale = ends.scale;
        // SAFETY: the caller's promise.
        unsafe {
            let mut c = S::f32(src, ends);
            if !scale.zeros.is_null() {
                let zeros = numbers::<I>(&scale, scale.zeros, 3);
                c = registers!(4, K => I::add_f32(c[K], zeros[K]));
            }
            let s = numbers::<I>(&scale, scale.scales, 0);
            let rests = if scale.rests.is_null() {
                [I::splat32(0); 4]
            } else {
                let rests = numbers::<I>(&scale, scale.rests, 1);
                registers!(4, K => I::mul_f32(c[K], rests[K]))
            };
            let product = if scale.rests.is_null() {
                registers!(4, K => I::mul_f32(c[K], s[K]))
            } else {
                registers!(4, K => I::mul_add_f32(c[K], s[K], rests[K]))
            };
            match scale.how {
                How::Near => product,
                How::Odd => registers!(4, K => odd::<I>(c[K], s[K], rests[K], product[K])),
            }
        }
    }
}

impl<I: Simd, S: AsF32<I>> NearF32<I> for Times<S> {
    const ROUNDS: bool = true;

    #[inline(always)]
    unsafe fn near(src: *const u8, ends: Ends<I>) -> [I::V; 4] {
        // SAFETY: the caller's promise.
        unsafe { <Self as AsF32<I>>::f32(src, ends) }
    }
}

/// Elements divided by their scales, for encoders of 11 significant bits and fewer.
///
/// ```text
/// q = x * (1 / S)           right to 3 of the 24 bits behind the first
/// m = q to 12 bits          all that such an encoder tells apart are of 12 bits: so x / S lies between m and a neighbour of it
/// t = x - m * S             of which the sign is exact: m and a neighbour of it are nearer to each other than that loses
/// q = m and a last bit      up or down, as t says, unless it is 0
/// ```
pub(in crate::kernels) struct Quotient<S>(PhantomData<S>);

impl<S: Source> Source for Quotient<S> {
    const BITS: usize = S::BITS;
    const FLOATS: bool = true;
}

impl<I: Simd, S: AsF32<I>> AsF32<I> for Quotient<S> {
    #[inline(always)]
    unsafe fn f32(src: *const u8, ends: Ends<I>) -> [I::V; 4] {
        let scale = ends.scale;
        // SAFETY: the caller's promise.
        unsafe {
            let x = S::f32(src, ends);
            let mut q = match scale.how {
                How::Near => {
                    let inverses = numbers::<I>(&scale, scale.inverses, 2);
                    registers!(4, K => I::mul_f32(x[K], inverses[K]))
                }
                How::Odd => {
                    let inverses = numbers::<I>(&scale, scale.inverses, 2);
                    let (scales, rests) =
                        (numbers::<I>(&scale, scale.scales, 0), numbers::<I>(&scale, scale.rests, 1));
                    registers!(4, K => exact::<I>(x[K], scales[K], rests[K], inverses[K]))
                }
            };
            if !scale.zeros.is_null() {
                // 1.5 * 2^23, whose ulp is 1: a sum is rounded to an integer. What is larger saturates.
                let magic = I::splat32(12_582_912f32.to_bits());
                let back = I::splat32((-12_582_912f32).to_bits());
                let zeros = numbers::<I>(&scale, scale.zeros, 3);
                q = registers!(4, K => {
                    let integer = I::add_f32(I::add_f32(I::number_f32(q[K]), magic), back);
                    I::add_f32(integer, zeros[K])
                });
            }
            q
        }
    }
}

/// A product c * s + rest that was rounded to nearest, rounded to odd: what it is short of the exact one, or beyond, says which
/// neighbour that is.
///
/// # Safety
/// As for the operations of [`Simd`].
#[inline(always)]
unsafe fn odd<I: Simd>(c: I::V, s: I::V, rest: I::V, product: I::V) -> I::V {
    // SAFETY: the caller's promise.
    unsafe {
        let minus = I::xor(product, I::splat32(SIGN));
        let short = I::add_f32(I::mul_add_f32(c, s, minus), rest);
        let cut = I::sub32(product, I::shr32::<31>(I::xor(short, product)));
        let is_finite = I::gt32(I::splat32(INF), I::and(product, I::splat32(!SIGN)));
        let odd = I::select32(is_finite, I::or(cut, I::splat32(1)), product);
        // No sum of numbers is −0 but of two such.
        I::select32(I::eq32(I::add32(short, short), I::splat32(0)), product, odd)
    }
}

/// # Safety
/// As for the operations of [`Simd`].
#[inline(always)]
unsafe fn exact<I: Simd>(x: I::V, s: I::V, rest: I::V, inverse: I::V) -> I::V {
    // SAFETY: the caller's promise.
    unsafe {
        let q = I::mul_f32(x, inverse);
        let m = I::and(I::add32(q, I::splat32(0x800)), I::splat32(!0xFFF));
        let minus = I::xor(m, I::splat32(SIGN));
        let t = I::mul_add_f32(minus, rest, I::mul_add_f32(minus, s, x));
        // 1 if both have a sign, else -1.
        let step = I::sub32(I::splat32(1), I::and(I::shr32::<30>(I::xor(t, x)), I::splat32(2)));
        let is_exact = I::eq32(I::and(t, I::splat32(!SIGN)), I::splat32(0));
        // Inf stays as it is, and so does a NaN.
        let is_finite = I::gt32(I::splat32(INF), I::and(m, I::splat32(!SIGN)));
        I::select32(is_exact, m, I::select32(is_finite, I::add32(m, step), m))
    }
}

/// The codec of a route to a float of 16 or 32 bits under scales, if there is one.
pub(in crate::kernels) fn times<I: Simd>(route: &Route) -> Option<RunScaled> {
    let format = route.from.float_format();
    match (route.from.bits(), format) {
        (8, None) if route.from == DType::I8 => to_float::<I, I8>(route),
        (8, None) => to_float::<I, U8>(route),
        (8, Some(_)) if I::HAS_LINES => to_float::<I, Floats<OnLine, 8>>(route),
        (8, Some(format)) if format.has_neg_zero => to_float::<I, Floats<Mirrored, 8>>(route),
        (6, _) if route.src.is_packed() => to_float::<I, Floats<Short, 6>>(route),
        (4, _) if route.src.is_packed() => to_float::<I, Floats<Nibble, 4>>(route),
        _ => None,
    }
}

fn to_float<I: Simd, S: AsF32<I>>(route: &Route) -> Option<RunScaled> {
    match route.to {
        DType::F32 => Some(I::scaled_kernel::<ToF32<Times<S>>>()),
        DType::BF16 => Some(I::scaled_kernel::<ToBf16<Times<S>, false>>()),
        DType::F16 => Some(I::scaled_kernel::<ToF16<Times<S>, false>>()),
        _ => None,
    }
}

/// The codec of a route from a float of 16 or 32 bits, divided by scales, if there is one.
pub(in crate::kernels) fn quotient<I: Simd>(route: &Route) -> Option<RunScaled> {
    match route.from {
        DType::F32 => narrowed::<I, Quotient<F32>>(route),
        DType::BF16 => narrowed::<I, Quotient<Bf16>>(route),
        DType::F16 => narrowed::<I, Quotient<F16>>(route),
        _ => None,
    }
}

fn narrowed<I: Simd, S: AsF32<I>>(route: &Route) -> Option<RunScaled> {
    match route.to {
        DType::I8 | DType::U8 => Some(I::scaled_kernel::<ToShort<S, 8>>()),
        DType::I4 | DType::U4 if route.dst.is_packed() => Some(I::scaled_kernel::<ToShort<S, 4>>()),
        DType::F4E2M1 if !route.dst.is_packed() => None,
        DType::F4E2M1 if I::NARROWS_BY_F16 => {
            Some(I::scaled_kernel::<ToNarrowByF16<S, Finite, 4, 1, true>>())
        }
        DType::F4E2M1 => Some(I::scaled_kernel::<ToNarrow<S, Finite, 4, false>>()),
        DType::F8E4M3FN if I::NARROWS_BY_F16 => {
            Some(I::scaled_kernel::<ToNarrowByF16<S, Signed, 8, 3, true>>())
        }
        DType::F8E5M2 if I::NARROWS_BY_F16 => {
            Some(I::scaled_kernel::<ToNarrowByF16<S, Signed, 8, 2, false>>())
        }
        DType::F8E4M3FN | DType::F8E5M2 => Some(I::scaled_kernel::<ToNarrow<S, Signed, 8, false>>()),
        _ => None,
    }
}
