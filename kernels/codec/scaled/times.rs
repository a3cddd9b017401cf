//! Elements multiplied with their scales.

use core::marker::PhantomData;

use super::super::float::NearF32;
use super::super::job::Job;
use super::super::source::{AsF32, Input};
use super::super::width::{Bits, registers};
use super::super::{Block, Codec};
use super::arrays::numbers;
use super::under::{Of, Scaled, Under};
use crate::kernels::scaled::operands::{Factor, How, Scale};
use crate::kernels::simd::{Extras, Simd};

/// Elements multiplied with their scales, rounded once to f32.
///
/// If the tensor has a factor, the product with the scale is exact, and the factor follows.
pub(in crate::kernels) type Times<S> = Scaled<Of<S, Multiplied>>;

/// See [`Times`].
pub(in crate::kernels) struct Multiplied;

impl<I: Simd, S: AsF32<I>> AsF32<I> for Times<S> {
    #[inline(always)]
    fn f32(isa: I, Input { block, loaded: Under { loaded, scale } }: Input<I, Self>) -> [I::V; 4] {
        let mut c = S::f32(isa, Input { block, loaded });
        let s = numbers(isa, &scale, scale.scales);
        if scale.is_alone {
            return registers!(4, K => isa.mul_f32(c[K], s[K]));
        }
        if scale.others.loses_sign {
            c = registers!(4, K => isa.add_f32(c[K], isa.splat32(0)));
        }
        product(isa, c, s, &scale)
    }
}

/// Multiplies elements with their scales `s`, and does what else `scale` asks for.
#[inline(always)]
pub(super) fn product<I: Simd>(isa: I, mut c: [I::V; 4], mut s: [I::V; 4], scale: &Scale) -> [I::V; 4] {
    if !scale.zeros.is_null() {
        let zeros = numbers(isa, scale, scale.zeros);
        c = registers!(4, K => isa.add_f32(c[K], zeros[K]));
    }
    if scale.tensor != Factor::NONE {
        c = registers!(4, K => isa.mul_f32(c[K], s[K]));
        s = [isa.splat32(scale.tensor.by.to_bits()); 4];
    }
    // `How::Over` and `How::OverAtTies` do not occur: nothing is divided by its scale here.
    match (scale.how, scale.tensor.divides) {
        (How::Near, false) => registers!(4, K => isa.mul_f32(c[K], s[K])),
        (How::Near, true) => registers!(4, K => isa.div_f32(c[K], s[K])),
        (_, false) => registers!(4, K => isa.odd_product_f32(c[K], s[K])),
        (_, true) => registers!(4, K => isa.odd_quotient_f32(c[K], s[K])),
    }
}

impl<I: Simd, S: AsF32<I>> NearF32<I> for Times<S> {
    const ROUNDS: bool = true;

    #[inline(always)]
    fn near(isa: I, src: Input<I, Self>) -> [I::V; 4] {
        Self::f32(isa, src)
    }
}

/// To bfloat16, to nearest even, where results are not subnormal.
pub(in crate::kernels) struct NormalToBf16<S>(PhantomData<S>);

impl<I: Simd, S: AsF32<I>> Codec<I> for NormalToBf16<S> {
    type From = S;
    type To = Bits<16>;
    const FLOATS: bool = true;
    type Setup = Extras;

    #[inline(always)]
    fn setup(_: I, job: &Job) -> Extras {
        job.extras
    }

    #[inline(always)]
    fn block(isa: I, &extras: &Extras, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let x = S::f32(isa, src);
        registers!(2, K => isa.normal_to_bf16([x[2 * K], x[2 * K + 1]], extras))
    }
}
