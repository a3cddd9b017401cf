//! Codecs to floats.
//!
//! Encoders have two forms. `MODES = false` is only for rounding to nearest even, `MODES = true` is for every rounding mode.
//! The directed modes are set in the control register. For ties away from zero, the last bit of the source, read as float32 or
//! float64, is set, and then it is rounded to nearest even: a tie is then above the middle, and because the source has at least
//! two bits more than the target, nothing else becomes another number.

use core::marker::PhantomData;

use super::super::simd::{Effect, Extras, Simd};
use super::job::Job;
use super::source::{AsF32, AsF64, Input, Read, Source, bits, is_guarded};
use super::width::{Bits, Code, registers};
use super::{Block, Codec};
use crate::formats::options::{E8m0Rounding, Policy, Rounding};

pub(super) const SIGN: u32 = 1 << 31;
pub(super) const INF: u32 = 0x7F80_0000;

/// Sets the bits of `away` (the last bit, if ties are rounded away from zero), but not in Inf, which would become a NaN.
#[inline(always)]
fn off_the_middle<I: Simd>(isa: I, x: I::V, away: I::V) -> I::V {
    let inf = isa.eq32(isa.and(x, isa.splat32(!SIGN)), isa.splat32(INF));
    isa.select32(inf, x, isa.or(x, away))
}

pub(super) fn is_away(policy: &Policy) -> bool {
    policy.rounding == Rounding::NearestAway
}

/// To float8_e8m0fnu, which is the exponent of a float32: an addition to the mantissa rounds, by carrying into the exponent.
pub(in crate::kernels) struct ToE8m0<S>(PhantomData<S>);

#[derive(Clone, Copy)]
pub(in crate::kernels) struct E8m0<V> {
    /// What is added to normal and to subnormal numbers before the mantissa is dropped.
    round: [V; 2],
    below: V,
    above: V,
}

impl<I: Simd, S: AsF32<I>> Codec<I> for ToE8m0<S> {
    type From = S;
    type To = Bits<8>;
    const FLOATS: bool = is_guarded::<I, S>();
    type Setup = E8m0<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> E8m0<I::V> {
        // For a subnormal number, half of that: the bit of 2^-127, the smallest value of the target, is one place lower there.
        let round: u32 = match job.policy.e8m0_rounding {
            E8m0Rounding::Up => 0x7F_FFFF,
            E8m0Rounding::Down => 0,
            E8m0Rounding::Nearest => 0x40_0000,
        };
        let (below, above) = if job.policy.saturate { (0x00, 0xFE) } else { (0xFF, 0xFF) };
        E8m0 {
            round: [isa.splat32(round), isa.splat32(round / 2)],
            below: isa.splat32(below),
            above: isa.splat32(above),
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &E8m0<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let x = S::f32(isa, src);
        let codes = registers!(4, K => {
            let a = isa.and(x[K], isa.splat32(!SIGN));
            let subnormal = isa.gt32(isa.splat32(0x80_0000), a);
            let round = isa.select32(subnormal, k.round[1], k.round[0]);
            let code = isa.shr32::<23>(isa.add32(a, round));
            let code = isa.select32(isa.gt32(a, isa.splat32(0x7F00_0000)), k.above, code);
            // Compared as signed integers, all negative numbers are below this limit, and so are zero and what is too small.
            let code = isa.select32(isa.gt32(isa.splat32(0x40_0000), x[K]), k.below, code);
            isa.select32(isa.gt32(a, isa.splat32(INF)), isa.splat32(0xFF), code)
        });
        Bits::<8>::of32::<I, false>(isa, codes, isa.splat32(u32::MAX))
    }
}

/// To float16, by the instruction for that, which rounds once, keeps subnormals, and makes NaNs quiet.
pub(in crate::kernels) struct ToF16<S, const MODES: bool>(PhantomData<S>);

impl<I: Simd, S: AsF32<I>, const MODES: bool> Codec<I> for ToF16<S, MODES> {
    type From = S;
    type To = Bits<16>;
    const FLOATS: bool = MODES || <I::F16 as Effect>::FLOATS || is_guarded::<I, S>();
    type Setup = (I::V, Extras);

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> (I::V, Extras) {
        (isa.splat32(is_away(&job.policy).into()), job.extras)
    }

    #[inline(always)]
    fn block(isa: I, &(away, extras): &(I::V, Extras), src: Input<I, Self::From>) -> Block<I, Self::To> {
        if !MODES
            && let Some((v, signed)) = S::short(isa, src)
            && let Some(halves) = isa.words_to_f16(extras, v, signed)
        {
            return halves;
        }
        let mut x = S::f32(isa, src);
        if MODES {
            x = registers!(4, K => off_the_middle(isa, x[K], away));
        }
        registers!(2, K => {
            let x = [x[2 * K], x[2 * K + 1]];
            if MODES { isa.f32_to_f16(x) } else { isa.f32_to_nearest_f16(x) }
        })
    }
}

/// To bfloat16, which is the upper half of a float32: a bias is added, and the lower half is dropped. A carry goes on into the
/// exponent, and from the largest number to Inf. NaN keeps the upper part of its payload and is made quiet.
pub(in crate::kernels) struct ToBf16<S, const MODES: bool>(PhantomData<S>);

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Bias<V> {
    /// What is added to positive and to negative numbers.
    bias: [V; 2],
    /// 1 if another 1 is added where the result would be odd, for ties to even.
    even: V,
    extras: Extras,
}

impl<I: Simd, S: AsF32<I>, const MODES: bool> Codec<I> for ToBf16<S, MODES> {
    type From = S;
    type To = Bits<16>;
    const FLOATS: bool = is_guarded::<I, S>() || <I::ToBf16 as Effect>::FLOATS && !MODES;
    type Setup = Bias<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> Bias<I::V> {
        let (positive, negative) = match job.policy.rounding {
            Rounding::NearestEven => (0x7FFF, 0x7FFF),
            Rounding::NearestAway => (0x8000, 0x8000),
            Rounding::TowardZero => (0, 0),
            Rounding::Up => (0xFFFF, 0),
            Rounding::Down => (0, 0xFFFF),
        };
        let even = job.policy.rounding == Rounding::NearestEven;
        let bias = [isa.splat32(positive), isa.splat32(negative)];
        Bias { bias, even: isa.splat32(even.into()), extras: job.extras }
    }

    #[inline(always)]
    fn block(isa: I, k: &Bias<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let x = S::f32(isa, src);
        if !MODES {
            return registers!(2, K => isa.f32_to_bf16([x[2 * K], x[2 * K + 1]], k.extras));
        }
        let x = registers!(4, K => {
            let nan = isa.gt32(isa.and(x[K], isa.splat32(!SIGN)), isa.splat32(INF));
            let bias = isa.select32(isa.gt32(isa.splat32(0), x[K]), k.bias[1], k.bias[0]);
            let odd = isa.and(isa.shr32::<16>(x[K]), k.even);
            let rounded = isa.add32(isa.add32(x[K], bias), odd);
            isa.select32(nan, isa.or(x[K], isa.splat32(0x40_0000)), rounded)
        });
        [isa.high32([x[0], x[1]]), isa.high32([x[2], x[3]])]
    }
}

/// To bfloat16, from sources that are exact there: the upper half of the float32.
pub(in crate::kernels) struct CutBf16<S>(PhantomData<S>);

impl<I: Simd, S: AsF32<I>> Codec<I> for CutBf16<S> {
    type From = S;
    type To = Bits<16>;
    const FLOATS: bool = is_guarded::<I, S>();
    type Setup = ();

    #[inline(always)]
    fn setup(_: I, _: &Job) {}

    #[inline(always)]
    fn block(isa: I, _: &(), src: Input<I, Self::From>) -> Block<I, Self::To> {
        let x = S::f32(isa, src);
        [isa.high32([x[0], x[1]]), isa.high32([x[2], x[3]])]
    }
}

/// To float32, from sources that are exact there, or that one instruction converts, which rounds as the control register says.
/// Not for ties away from zero.
pub(in crate::kernels) struct ToF32<S>(PhantomData<S>);

/// Sources that one instruction converts to float32; some of them by way of a float64 that is rounded to odd.
pub(in crate::kernels) trait NearF32<I: Simd>: Source {
    /// Whether some elements are rounded.
    const ROUNDS: bool;
    /// [`Codec::FLUSHES`].
    const FLUSHES: bool = false;
    fn near(isa: I, src: Input<I, Self>) -> [I::V; 4];
}

macro_rules! near_f32 {
    ($($source:ident($isa:ident, $src:ident) = $body:expr;)*) => {$(
        impl<I: Simd> NearF32<I> for super::source::$source {
            const ROUNDS: bool = bits::<Self>() == 32 || bits::<Self>() == 64 && Self::FLOATS;
            #[inline(always)]
            fn near($isa: I, $src: Input<I, Self>) -> [I::V; 4] {
                $body
            }
        }
    )*};
}

near_f32! {
    F16(isa, src) = Self::f32(isa, src);
    Bf16(isa, src) = {
        let v = src.block;
        let ([a, b], [c, d]) = (isa.bf16_to_f32(v[0]), isa.bf16_to_f32(v[1]));
        [a, b, c, d]
    };
    Re32(isa, src) = Self::f32(isa, src);
    I8(isa, src) = Self::f32(isa, src);
    U8(isa, src) = Self::f32(isa, src);
    I16(isa, src) = Self::f32(isa, src);
    U16(isa, src) = Self::f32(isa, src);
    I32(isa, src) = registers!(4, K => isa.i32_to_f32(src.block[K]));
    U32(isa, src) = registers!(4, K => isa.u32_to_f32(src.block[K]));
    I64(isa, src) = registers!(4, K => isa.i64_to_f32([src.block[2 * K], src.block[2 * K + 1]]));
    U64(isa, src) = registers!(4, K => isa.u64_to_f32([src.block[2 * K], src.block[2 * K + 1]]));
}

impl<I: Simd, S: NearF32<I>> Codec<I> for ToF32<S> {
    type From = S;
    type To = Bits<32>;
    const FLOATS: bool = S::ROUNDS || is_guarded::<I, S>();
    const FLUSHES: bool = S::FLUSHES;
    type Setup = ();

    #[inline(always)]
    fn setup(_: I, _: &Job) {}

    #[inline(always)]
    fn block(isa: I, _: &(), src: Input<I, Self::From>) -> Block<I, Self::To> {
        S::near(isa, src)
    }
}

/// Makes [`ToF32`] read a source as [`AsF32`] does, which may round to odd. It is the first of two steps; the second encodes 16
/// bits or fewer.
pub(in crate::kernels) enum Odd {}

impl<I: Simd, S: AsF32<I>> NearF32<I> for Read<S, Odd> {
    const ROUNDS: bool = false;
    #[inline(always)]
    fn near(isa: I, Input { block, loaded }: Input<I, Self>) -> [I::V; 4] {
        S::f32(isa, Input { block, loaded })
    }
}

/// As [`Odd`], in front of an encoder that [flushes](Codec::FLUSHES) subnormal numbers to zero, so that they may be flushed here, too.
pub(in crate::kernels) enum Flushed {}

impl<I: Simd, S: AsF32<I>> NearF32<I> for Read<S, Flushed> {
    const ROUNDS: bool = false;
    const FLUSHES: bool = true;
    #[inline(always)]
    fn near(isa: I, Input { block, loaded }: Input<I, Self>) -> [I::V; 4] {
        S::f32(isa, Input { block, loaded })
    }
}

/// To float32, from what is read as float64, exactly or rounded to odd. In every rounding mode.
pub(in crate::kernels) struct WideToF32<S>(PhantomData<S>);

impl<I: Simd, S: AsF64<I>> Codec<I> for WideToF32<S> {
    type From = S;
    type To = Bits<32>;
    const FLOATS: bool = true;
    type Setup = (I::V, bool);

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> (I::V, bool) {
        (isa.splat64(1), is_away(&job.policy))
    }

    #[inline(always)]
    fn block(isa: I, &(last, away): &(I::V, bool), src: Input<I, Self::From>) -> Block<I, Self::To> {
        let mut x = S::f64(isa, src);
        if away {
            let inf = isa.splat64(0x7FF0 << 48);
            x = registers!(8, K => {
                let is_inf = isa.eq64(isa.and(x[K], isa.splat64(u64::MAX >> 1)), inf);
                isa.select64(is_inf, x[K], isa.or(x[K], last))
            });
        }
        registers!(4, K => isa.f64_to_f32([x[2 * K], x[2 * K + 1]]))
    }
}

/// To float64, from sources that are exact there.
pub(in crate::kernels) struct ToF64<S>(PhantomData<S>);

impl<I: Simd, S: AsF64<I>> Codec<I> for ToF64<S> {
    type From = S;
    type To = Bits<64>;
    // The real parts of complex elements are float64 already.
    const FLOATS: bool = bits::<S>() < 128;
    type Setup = ();

    #[inline(always)]
    fn setup(_: I, _: &Job) {}

    #[inline(always)]
    fn block(isa: I, _: &(), src: Input<I, Self::From>) -> Block<I, Self::To> {
        S::f64(isa, src)
    }
}

/// From integers of 64 bits to float64, in every rounding mode.
pub(in crate::kernels) struct LongToF64<const SIGNED: bool>;

impl<I: Simd, const SIGNED: bool> Codec<I> for LongToF64<SIGNED> {
    type From = Bits<64>;
    type To = Bits<64>;
    const FLOATS: bool = true;
    type Setup = bool;

    #[inline(always)]
    fn setup(_: I, job: &Job) -> bool {
        is_away(&job.policy)
    }

    #[inline(always)]
    fn block(isa: I, &away: &bool, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let mut v = src.block;
        if away {
            v = registers!(8, K => long_off_the_middle::<I, SIGNED>(isa, v[K]));
        }
        registers!(8, K => if SIGNED { isa.i64_to_f64(v[K]) } else { isa.u64_to_f64(v[K]) })
    }
}

/// Moves integers of 64 bits that are ties between two float64 away from zero. From 2^54 on, at least two bits are rounded off: the last
/// one is set if any of the last 11 is. From 2^53 on, one bit is rounded off, which is the tie: it is added. Below, integers are exact.
#[inline(always)]
fn long_off_the_middle<I: Simd, const SIGNED: bool>(isa: I, x: I::V) -> I::V {
    let zero = isa.splat64(0);
    let one = isa.splat64(1);
    let sign = if SIGNED { isa.sign64(x) } else { zero };
    let m = isa.sub64(isa.xor(x, sign), sign);
    let exact = isa.eq64(isa.and(m, isa.splat64(0x7FF)), zero);
    let far = isa.select64(exact, m, isa.or(m, one));
    let near = isa.add64(m, isa.and(m, one));
    let m = isa.select64(
        isa.eq64(isa.shr64::<54>(m), zero),
        isa.select64(isa.eq64(isa.shr64::<53>(m), zero), m, near),
        far,
    );
    isa.sub64(isa.xor(m, sign), sign)
}
