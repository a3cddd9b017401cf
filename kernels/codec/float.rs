//! To floats.
//!
//! Every encoder has two forms. `MODES = false` is for rounding to nearest even. `MODES = true` is for all
//! the others too: the control register has the direction, and ties away from zero become nearest even of
//! a value whose last bit is set. (What is exact in the target has at least two bits more in the hub, so it
//! stays; a tie is moved off the middle, away from zero; nothing else crosses one.)

use core::marker::PhantomData;

use super::super::simd::{Extras, Simd};
use super::source::{AsF32, AsF64, Bits, Source, is_guarded};
use super::{Codec, Ends, Job, load16, load32, load64, registers, store16, store32, store64};
use crate::formats::options::{E8m0Rounding, Policy, Rounding};

pub(super) const SIGN: u32 = 1 << 31;
pub(super) const INF: u32 = 0x7F80_0000;

/// Sets the last bit for ties away from zero (`away` has it), but not of Inf, which would become a NaN.
///
/// # Safety
/// As for the operations of [`Simd`]; so for the other functions here.
#[inline(always)]
unsafe fn off_the_middle<I: Simd>(x: I::V, away: I::V) -> I::V {
    // SAFETY: the caller's promise.
    unsafe {
        let inf = I::eq32(I::and(x, I::splat32(!SIGN)), I::splat32(INF));
        I::select32(inf, x, I::or(x, away))
    }
}

pub(super) fn is_away(policy: &Policy) -> bool {
    policy.rounding == Rounding::NearestAway
}

/// To float8_e8m0fnu: the exponent of the f32, rounded by an addition.
pub(in crate::kernels) struct ToE8m0<S>(PhantomData<S>);

#[derive(Clone, Copy)]
pub(in crate::kernels) struct E8m0<V> {
    /// What is added to normal and to subnormal f32 before the mantissa is dropped.
    round: [V; 2],
    below: V,
    above: V,
}

impl<I: Simd, S: AsF32<I>> Codec<I> for ToE8m0<S> {
    type From = S;
    const DST: usize = 8;
    const FLOATS: bool = is_guarded::<I, S>();
    type Setup = E8m0<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> E8m0<I::V> {
        // Of a subnormal, 2^-127 is bit 22, so everything is half as large.
        let round: u32 = match job.policy.e8m0_rounding {
            E8m0Rounding::Up => 0x7F_FFFF,
            E8m0Rounding::Down => 0,
            E8m0Rounding::Nearest => 0x40_0000,
        };
        let (below, above) = if job.policy.saturate { (0x00, 0xFE) } else { (0xFF, 0xFF) };
        // SAFETY: the caller's promise.
        unsafe {
            E8m0 {
                round: [I::splat32(round), I::splat32(round / 2)],
                below: I::splat32(below),
                above: I::splat32(above),
            }
        }
    }

    #[inline(always)]
    unsafe fn block(k: &E8m0<I::V>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let x = S::f32(src, ends);
            let codes = registers!(4, K => {
                let a = I::and(x[K], I::splat32(!SIGN));
                let subnormal = I::gt32(I::splat32(0x80_0000), a);
                let round = I::select32(subnormal, k.round[1], k.round[0]);
                let code = I::shr32::<23>(I::add32(a, round));
                let code = I::select32(I::gt32(a, I::splat32(0x7F00_0000)), k.above, code);
                // Negative as an integer is negative as a float; as is zero, and what is too small.
                let code = I::select32(I::gt32(I::splat32(0x40_0000), x[K]), k.below, code);
                I::select32(I::gt32(a, I::splat32(INF)), I::splat32(0xFF), code)
            });
            store32::<I, 8>(codes, I::splat32(u32::MAX), ends, dst);
        }
    }
}

/// To float16, by the instruction: it rounds once, keeps subnormals, and makes a NaN quiet.
pub(in crate::kernels) struct ToF16<S, const MODES: bool>(PhantomData<S>);

impl<I: Simd, S: AsF32<I>, const MODES: bool> Codec<I> for ToF16<S, MODES> {
    type From = S;
    const DST: usize = 16;
    const FLOATS: bool = MODES || !I::QUIET_F16 || is_guarded::<I, S>();
    type Setup = (I::V, Extras);

    #[inline(always)]
    unsafe fn setup(job: &Job) -> (I::V, Extras) {
        // SAFETY: the caller's promise.
        unsafe { (I::splat32(is_away(&job.policy).into()), job.extras) }
    }

    #[inline(always)]
    unsafe fn block(&(away, extras): &(I::V, Extras), ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            if I::HALVES
                && !MODES
                && extras.fp16
                && let Some(signed) = S::SHORT
            {
                let v = match (S::BITS, signed) {
                    (16, _) => load16::<I>(src),
                    (_, true) => I::sext8(I::load(src)),
                    _ => I::zext8(I::load(src)),
                };
                let v = registers!(2, K => if signed { I::i16_to_f16(v[K]) } else { I::u16_to_f16(v[K]) });
                return store16::<I, 16>(v, I::splat32(u32::MAX), ends, dst);
            }
            let mut x = S::f32(src, ends);
            if MODES {
                x = registers!(4, K => off_the_middle::<I>(x[K], away));
            }
            let halves = registers!(2, K => {
                let x = [x[2 * K], x[2 * K + 1]];
                if MODES { I::f32_to_f16(x) } else { I::f32_to_nearest_f16(x) }
            });
            store16::<I, 16>(halves, I::splat32(u32::MAX), ends, dst);
        }
    }
}

/// To bfloat16, the upper half of an f32: a bias is added, and the lower half dropped. A carry runs into the
/// exponent, and past the largest number to Inf. NaN keeps its payload and is made quiet.
///
/// An instruction does the same to nearest even, but makes subnormals 0. Where there is a 0 among its results, a
/// look at the block tells whether that is what it was.
pub(in crate::kernels) struct ToBf16<S, const MODES: bool>(PhantomData<S>);

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Bias<V> {
    /// By the sign.
    bias: [V; 2],
    /// 1 if an odd result takes one more.
    even: V,
    extras: Extras,
}

impl<I: Simd, S: AsF32<I>, const MODES: bool> Codec<I> for ToBf16<S, MODES> {
    type From = S;
    const DST: usize = 16;
    const FLOATS: bool = is_guarded::<I, S>() || I::FLOATS_TO_BF16 && !MODES;
    type Setup = Bias<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> Bias<I::V> {
        let (positive, negative) = match job.policy.rounding {
            Rounding::NearestEven => (0x7FFF, 0x7FFF),
            Rounding::NearestAway => (0x8000, 0x8000),
            Rounding::TowardZero => (0, 0),
            Rounding::Up => (0xFFFF, 0),
            Rounding::Down => (0, 0xFFFF),
        };
        let even = job.policy.rounding == Rounding::NearestEven;
        // SAFETY: the caller's promise.
        unsafe {
            let bias = [I::splat32(positive), I::splat32(negative)];
            Bias { bias, even: I::splat32(even.into()), extras: job.extras }
        }
    }

    #[inline(always)]
    unsafe fn block(k: &Bias<I::V>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let x = S::f32(src, ends);
            if !MODES {
                let halves = registers!(2, K => I::f32_to_bf16([x[2 * K], x[2 * K + 1]], k.extras));
                return store16::<I, 16>(halves, I::splat32(u32::MAX), ends, dst);
            }
            let x = registers!(4, K => {
                let nan = I::gt32(I::and(x[K], I::splat32(!SIGN)), I::splat32(INF));
                let bias = I::select32(I::gt32(I::splat32(0), x[K]), k.bias[1], k.bias[0]);
                let odd = I::and(I::shr32::<16>(x[K]), k.even);
                let rounded = I::add32(I::add32(x[K], bias), odd);
                I::select32(nan, I::or(x[K], I::splat32(0x40_0000)), rounded)
            });
            let halves = [I::high32([x[0], x[1]]), I::high32([x[2], x[3]])];
            store16::<I, 16>(halves, I::splat32(u32::MAX), ends, dst);
        }
    }
}

/// To bfloat16 what is exact there: the upper half of the float32.
pub(in crate::kernels) struct CutBf16<S>(PhantomData<S>);

impl<I: Simd, S: AsF32<I>> Codec<I> for CutBf16<S> {
    type From = S;
    const DST: usize = 16;
    const FLOATS: bool = is_guarded::<I, S>();
    type Setup = ();

    #[inline(always)]
    unsafe fn setup(_: &Job) {}

    #[inline(always)]
    unsafe fn block(_: &(), ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let x = S::f32(src, ends);
            let halves = [I::high32([x[0], x[1]]), I::high32([x[2], x[3]])];
            store16::<I, 16>(halves, I::splat32(u32::MAX), ends, dst);
        }
    }
}

/// To float32 what is exact there, or is rounded by the instruction that makes it one: not for ties away.
pub(in crate::kernels) struct ToF32<S>(PhantomData<S>);

/// Sources that one instruction makes an f32, or of which it rounds an odd f64.
///
/// # Safety
/// As for the operations of [`Simd`].
pub(in crate::kernels) trait NearF32<I: Simd>: Source {
    /// Not exact.
    const ROUNDS: bool;
    unsafe fn near(src: *const u8, ends: Ends<I>) -> [I::V; 4];
}

macro_rules! near_f32 {
    ($($source:ident($src:ident, $ends:ident) = $body:expr;)*) => {$(
        impl<I: Simd> NearF32<I> for super::source::$source {
            const ROUNDS: bool = Self::BITS == 32 || Self::BITS == 64 && Self::FLOATS;
            #[inline(always)]
            unsafe fn near($src: *const u8, $ends: Ends<I>) -> [I::V; 4] {
                // SAFETY: the caller's promise.
                unsafe { $body }
            }
        }
    )*};
}

near_f32! {
    F16(src, ends) = <Self as AsF32<I>>::f32(src, ends);
    Bf16(src, _ends) = {
        let v = load16::<I>(src);
        let ([a, b], [c, d]) = (I::bf16_to_f32(v[0]), I::bf16_to_f32(v[1]));
        [a, b, c, d]
    };
    Re32(src, ends) = <Self as AsF32<I>>::f32(src, ends);
    I8(src, ends) = <Self as AsF32<I>>::f32(src, ends);
    U8(src, ends) = <Self as AsF32<I>>::f32(src, ends);
    I16(src, ends) = <Self as AsF32<I>>::f32(src, ends);
    U16(src, ends) = <Self as AsF32<I>>::f32(src, ends);
    I32(src, _ends) = { let v = load32::<I>(src); registers!(4, K => I::i32_to_f32(v[K])) };
    U32(src, _ends) = { let v = load32::<I>(src); registers!(4, K => I::u32_to_f32(v[K])) };
    I64(src, ends) = if I::LONG_TO_F32 {
        let v = load64::<I>(src);
        registers!(4, K => I::i64_to_f32([v[2 * K], v[2 * K + 1]]))
    } else {
        let x = <Self as AsF64<I>>::f64(src, ends);
        registers!(4, K => I::f64_to_f32([x[2 * K], x[2 * K + 1]]))
    };
    U64(src, ends) = if I::LONG_TO_F32 {
        let v = load64::<I>(src);
        registers!(4, K => I::u64_to_f32([v[2 * K], v[2 * K + 1]]))
    } else {
        let x = <Self as AsF64<I>>::f64(src, ends);
        registers!(4, K => I::f64_to_f32([x[2 * K], x[2 * K + 1]]))
    };
}

impl<I: Simd, S: NearF32<I>> Codec<I> for ToF32<S> {
    type From = S;
    const DST: usize = 32;
    const FLOATS: bool = S::ROUNDS || is_guarded::<I, S>();
    type Setup = ();

    #[inline(always)]
    unsafe fn setup(_: &Job) {}

    #[inline(always)]
    unsafe fn block(_: &(), ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { store32::<I, 32>(S::near(src, ends), I::splat32(u32::MAX), ends, dst) }
    }
}

/// A source as [`AsF32`] has it, for [`ToF32`]: a hub for encoders of 16 bits or fewer.
pub(in crate::kernels) struct Odd<S>(PhantomData<S>);

impl<S: Source> Source for Odd<S> {
    const BITS: usize = S::BITS;
    const FLOATS: bool = S::FLOATS;
}

impl<I: Simd, S: AsF32<I>> NearF32<I> for Odd<S> {
    const ROUNDS: bool = false;
    #[inline(always)]
    unsafe fn near(src: *const u8, ends: Ends<I>) -> [I::V; 4] {
        // SAFETY: the caller's promise.
        unsafe { S::f32(src, ends) }
    }
}

/// To float32 from f64, exact or rounded to odd: in every mode.
pub(in crate::kernels) struct WideToF32<S>(PhantomData<S>);

impl<I: Simd, S: AsF64<I>> Codec<I> for WideToF32<S> {
    type From = S;
    const DST: usize = 32;
    const FLOATS: bool = true;
    type Setup = (I::V, bool);

    #[inline(always)]
    unsafe fn setup(job: &Job) -> (I::V, bool) {
        // SAFETY: the caller's promise.
        unsafe { (I::splat64(1), is_away(&job.policy)) }
    }

    #[inline(always)]
    unsafe fn block(&(last, away): &(I::V, bool), ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut x = S::f64(src, ends);
            if away {
                let inf = I::splat64(0x7FF0 << 48);
                x = registers!(8, K => {
                    let is_inf = I::eq64(I::and(x[K], I::splat64(u64::MAX >> 1)), inf);
                    I::select64(is_inf, x[K], I::or(x[K], last))
                });
            }
            let x = registers!(4, K => I::f64_to_f32([x[2 * K], x[2 * K + 1]]));
            store32::<I, 32>(x, I::splat32(u32::MAX), ends, dst);
        }
    }
}

/// To float64 what is exact there.
pub(in crate::kernels) struct ToF64<S>(PhantomData<S>);

impl<I: Simd, S: AsF64<I>> Codec<I> for ToF64<S> {
    type From = S;
    const DST: usize = 64;
    const FLOATS: bool = true;
    type Setup = ();

    #[inline(always)]
    unsafe fn setup(_: &Job) {}

    #[inline(always)]
    unsafe fn block(_: &(), ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            store64::<I, 64>(S::f64(src, ends), I::splat32(u32::MAX), ends, dst);
        }
    }
}

/// Integers of 64 bits to float64, in every mode.
pub(in crate::kernels) struct LongToF64<const SIGNED: bool>;

impl<I: Simd, const SIGNED: bool> Codec<I> for LongToF64<SIGNED> {
    type From = Bits<64>;
    const DST: usize = 64;
    const FLOATS: bool = true;
    type Setup = bool;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> bool {
        is_away(&job.policy)
    }

    #[inline(always)]
    unsafe fn block(&away: &bool, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut v = load64::<I>(src);
            if away {
                v = registers!(8, K => long_off_the_middle::<I, SIGNED>(v[K]));
            }
            let x = registers!(8, K => if SIGNED { I::i64_to_f64(v[K]) } else { I::u64_to_f64(v[K]) });
            store64::<I, 64>(x, I::splat32(u32::MAX), ends, dst);
        }
    }
}

/// Moves the ties among integers away from zero. From 2^54 on two bits or more are cut off, and the last bit
/// is set where any is; from 2^53 on it is one bit, which is the tie, and is added. Below all are exact.
#[inline(always)]
unsafe fn long_off_the_middle<I: Simd, const SIGNED: bool>(x: I::V) -> I::V {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = I::splat64(0);
        let one = I::splat64(1);
        let sign = if SIGNED { I::sign64(x) } else { zero };
        let m = I::sub64(I::xor(x, sign), sign);
        let exact = I::eq64(I::and(m, I::splat64(0x7FF)), zero);
        let far = I::select64(exact, m, I::or(m, one));
        let near = I::add64(m, I::and(m, one));
        let m = I::select64(
            I::eq64(I::shr64::<54>(m), zero),
            I::select64(I::eq64(I::shr64::<53>(m), zero), m, near),
            far,
        );
        I::sub64(I::xor(m, sign), sign)
    }
}
