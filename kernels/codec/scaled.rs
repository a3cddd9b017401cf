//! Elements under scales: sources that multiply or divide what another one reads, for the encoders that casts have.

use core::marker::PhantomData;

use super::super::drive::{How, RunScaled, Scale};
use super::super::simd::{ByAddition, ByF16, ByWords, NarrowsByF16, Simd};
use super::Codec;
use super::float::{INF, NearF32, SIGN, ToBf16, ToF16, ToF32};
use super::integer::ToShort;
use super::job::Table;
use super::lookup::{Floats, Mirrored, Nibble, OnLine, Short};
use super::narrow::{Finite, Signed, ToNarrow, ToNarrowByF16};
use super::source::{AsF32, Bf16, F16, F32, I8, Input, Source, U8};
use super::width::registers;
use crate::formats::dtype::DType;
use crate::formats::route::Route;

/// What a source keeps of a table, and the scales of a block.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Under<L> {
    looks: L,
    scale: Scale,
}

/// Sources under scales.
pub(in crate::kernels) trait Scalable: Source {
    /// The scales of the next block.
    fn scale<I: Simd>(looks: &mut Self::Looks<I>) -> &mut Scale;
}

macro_rules! scalable {
    ($($source:ident)*) => {$(
        impl<S: Source> Source for $source<S> {
            type Width = S::Width;
            const FLOATS: bool = true;
            type Looks<I: Simd> = Under<S::Looks<I>>;

            #[inline(always)]
            fn looks<I: Simd>(isa: I, table: &Table) -> Under<S::Looks<I>> {
                Under { looks: S::looks(isa, table), scale: Scale::NONE }
            }
        }

        impl<S: Source> Scalable for $source<S> {
            #[inline(always)]
            fn scale<I: Simd>(looks: &mut Under<S::Looks<I>>) -> &mut Scale {
                &mut looks.scale
            }
        }
    )*};
}
scalable! { Times Quotient }

/// The numbers of a block, of an array of a scale.
#[inline(always)]
fn numbers<I: Simd>(isa: I, scale: &Scale, array: *const f32, first: usize) -> [I::V; 4] {
    if scale.shift == Scale::ALL {
        // A value, which no store may change, so that it stays in a register.
        return [isa.splat32(scale.firsts[first].to_bits()); 4];
    }
    // SAFETY: whoever makes a scale says that its arrays have a number for every element of the blocks, which the loop
    // counts. A group has as many elements as a register has lanes, at least.
    unsafe {
        if scale.shift == Scale::EACH {
            let first = array.add(scale.at).cast::<u8>();
            registers!(4, K => isa.load(first.add(K * I::BYTES)))
        } else {
            registers!(4, K => {
                isa.splat32(array.add((scale.at + K * I::BYTES / 4) >> scale.shift).cast::<u32>().read())
            })
        }
    }
}

/// Elements times their scales: the exact product, rounded once to f32.
///
/// A scale of more bits is the sum of two floats of the same sign: with c * rest, which is exact, the product is rounded once.
/// (An Inf times a rest of 0 would be none.)
pub(in crate::kernels) struct Times<S>(PhantomData<S>);

impl<I: Simd, S: AsF32<I>> AsF32<I> for Times<S> {
    #[inline(always)]
    fn f32(isa: I, Input { block, looks: Under { looks, scale } }: Input<I, Self>) -> [I::V; 4] {
        let mut c = S::f32(isa, Input { block, looks });
        if !scale.zeros.is_null() {
            let zeros = numbers(isa, &scale, scale.zeros, 3);
            c = registers!(4, K => isa.add_f32(c[K], zeros[K]));
        }
        let s = numbers(isa, &scale, scale.scales, 0);
        let rests = if scale.rests.is_null() {
            [isa.splat32(0); 4]
        } else {
            let rests = numbers(isa, &scale, scale.rests, 1);
            registers!(4, K => isa.mul_f32(c[K], rests[K]))
        };
        let product = if scale.rests.is_null() {
            registers!(4, K => isa.mul_f32(c[K], s[K]))
        } else {
            registers!(4, K => isa.mul_add_f32(c[K], s[K], rests[K]))
        };
        match scale.how {
            How::Near => product,
            How::Odd => registers!(4, K => odd(isa, c[K], s[K], rests[K], product[K])),
        }
    }
}

impl<I: Simd, S: AsF32<I>> NearF32<I> for Times<S> {
    const ROUNDS: bool = true;

    #[inline(always)]
    fn near(isa: I, src: Input<I, Self>) -> [I::V; 4] {
        Self::f32(isa, src)
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

impl<I: Simd, S: AsF32<I>> AsF32<I> for Quotient<S> {
    #[inline(always)]
    fn f32(isa: I, Input { block, looks: Under { looks, scale } }: Input<I, Self>) -> [I::V; 4] {
        let x = S::f32(isa, Input { block, looks });
        let mut q = match scale.how {
            How::Near => {
                let inverses = numbers(isa, &scale, scale.inverses, 2);
                registers!(4, K => isa.mul_f32(x[K], inverses[K]))
            }
            How::Odd => {
                let inverses = numbers(isa, &scale, scale.inverses, 2);
                let (scales, rests) =
                    (numbers(isa, &scale, scale.scales, 0), numbers(isa, &scale, scale.rests, 1));
                registers!(4, K => exact(isa, x[K], scales[K], rests[K], inverses[K]))
            }
        };
        if !scale.zeros.is_null() {
            // 1.5 * 2^23, whose ulp is 1: a sum is rounded to an integer. What is larger saturates.
            let magic = isa.splat32(12_582_912f32.to_bits());
            let back = isa.splat32((-12_582_912f32).to_bits());
            let zeros = numbers(isa, &scale, scale.zeros, 3);
            q = registers!(4, K => {
                let integer = isa.add_f32(isa.add_f32(isa.number_f32(q[K]), magic), back);
                isa.add_f32(integer, zeros[K])
            });
        }
        q
    }
}

/// A product c * s + rest that was rounded to nearest, rounded to odd: what it is short of the exact one, or beyond, says which
/// neighbour that is.
#[inline(always)]
fn odd<I: Simd>(isa: I, c: I::V, s: I::V, rest: I::V, product: I::V) -> I::V {
    let minus = isa.xor(product, isa.splat32(SIGN));
    let short = isa.add_f32(isa.mul_add_f32(c, s, minus), rest);
    let cut = isa.sub32(product, isa.shr32::<31>(isa.xor(short, product)));
    let is_finite = isa.gt32(isa.splat32(INF), isa.and(product, isa.splat32(!SIGN)));
    let odd = isa.select32(is_finite, isa.or(cut, isa.splat32(1)), product);
    // No sum of numbers is −0 but of two such.
    isa.select32(isa.eq32(isa.add32(short, short), isa.splat32(0)), product, odd)
}

#[inline(always)]
fn exact<I: Simd>(isa: I, x: I::V, s: I::V, rest: I::V, inverse: I::V) -> I::V {
    let q = isa.mul_f32(x, inverse);
    let m = isa.and(isa.add32(q, isa.splat32(0x800)), isa.splat32(!0xFFF));
    let minus = isa.xor(m, isa.splat32(SIGN));
    let t = isa.mul_add_f32(minus, rest, isa.mul_add_f32(minus, s, x));
    // 1 if both have a sign, else -1.
    let step = isa.sub32(isa.splat32(1), isa.and(isa.shr32::<30>(isa.xor(t, x)), isa.splat32(2)));
    let is_exact = isa.eq32(isa.and(t, isa.splat32(!SIGN)), isa.splat32(0));
    // Inf stays as it is, and so does a NaN.
    let is_finite = isa.gt32(isa.splat32(INF), isa.and(m, isa.splat32(!SIGN)));
    isa.select32(is_exact, m, isa.select32(is_finite, isa.add32(m, step), m))
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
        DType::F32 => Some(run::<I, ToF32<Times<S>>>()),
        DType::BF16 => Some(run::<I, ToBf16<Times<S>, false>>()),
        DType::F16 => Some(run::<I, ToF16<Times<S>, false>>()),
        _ => None,
    }
}

/// The codec of a route from a float of 16 or 32 bits, divided by scales, if there is one.
pub(in crate::kernels) fn quotient<I: Simd<Narrowing: Narrowing<I>>>(route: &Route) -> Option<RunScaled> {
    match route.from {
        DType::F32 => narrowed::<I, Quotient<F32>>(route),
        DType::BF16 => narrowed::<I, Quotient<Bf16>>(route),
        DType::F16 => narrowed::<I, Quotient<F16>>(route),
        _ => None,
    }
}

fn narrowed<I: Simd<Narrowing: Narrowing<I>>, S: AsF32<I> + Scalable>(route: &Route) -> Option<RunScaled> {
    match route.to {
        DType::I8 | DType::U8 => Some(run::<I, ToShort<S, 8>>()),
        DType::I4 | DType::U4 if route.dst.is_packed() => Some(run::<I, ToShort<S, 4>>()),
        DType::F4E2M1 if !route.dst.is_packed() => None,
        DType::F4E2M1 => Some(I::Narrowing::finite_4::<S>()),
        DType::F8E4M3FN => Some(I::Narrowing::signed_3::<S>()),
        DType::F8E5M2 => Some(I::Narrowing::signed_2::<S>()),
        _ => None,
    }
}

fn run<I: Simd, C: Codec<I, From: Scalable>>() -> RunScaled {
    I::kernel::<Scale, C>()
}

/// The codecs of a way to the narrow floats that there are scales for.
pub(in crate::kernels) trait Narrowing<I: Simd> {
    fn finite_4<S: AsF32<I> + Scalable>() -> RunScaled {
        run::<I, ToNarrow<S, Finite, 4, false>>()
    }
    fn signed_3<S: AsF32<I> + Scalable>() -> RunScaled {
        run::<I, ToNarrow<S, Signed, 8, false>>()
    }
    fn signed_2<S: AsF32<I> + Scalable>() -> RunScaled {
        run::<I, ToNarrow<S, Signed, 8, false>>()
    }
}

impl<I: Simd> Narrowing<I> for ByAddition {}

/// Those of a way that is this one, but for floats of 16 bits.
macro_rules! by_f16 {
    ($($way:ident)*) => {$(
        impl<I: NarrowsByF16> Narrowing<I> for $way {
            fn finite_4<S: AsF32<I> + Scalable>() -> RunScaled {
                run::<I, ToNarrowByF16<S, Finite, 4, 1, true>>()
            }
            fn signed_3<S: AsF32<I> + Scalable>() -> RunScaled {
                run::<I, ToNarrowByF16<S, Signed, 8, 3, true>>()
            }
            fn signed_2<S: AsF32<I> + Scalable>() -> RunScaled {
                run::<I, ToNarrowByF16<S, Signed, 8, 2, false>>()
            }
        }
    )*};
}
by_f16! { ByF16 ByWords }
