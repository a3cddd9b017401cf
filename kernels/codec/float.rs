//! To floats.
//!
//! Every encoder has two forms. `MODES = false` is for rounding to nearest even. `MODES = true` is for all
//! the others too: the control register has the direction, and ties away from zero become nearest even of
//! a value whose last bit is set. (What is exact in the target has at least two bits more in the hub, so it
//! stays; a tie is moved off the middle, away from zero; nothing else crosses one.)

use core::marker::PhantomData;

use super::super::isa::{Extras, Isa};
use super::source::{AsF32, AsF64, AsHalf, Bits, F16, Source, is_guarded, load2};
use super::{Codec, Ends, Job, narrow32, registers, store_codes, store32};
use crate::dtype::FloatFormat;
use crate::kernels::scalar;
use crate::options::{E8m0Rounding, NanToFinite, Policy, Rounding};

const SIGN: u32 = 1 << 31;
const INF: u32 = 0x7F80_0000;

/// Sets the last bit for ties away from zero (`away` has it), but not of Inf, which would become a NaN.
///
/// # Safety
/// As for the operations of [`Isa`]; so for the other functions here.
#[inline(always)]
unsafe fn off_the_middle<I: Isa>(x: I::V, away: I::V) -> I::V {
    // SAFETY: the caller's promise.
    unsafe {
        let inf = I::eq32(I::and(x, I::splat32(!SIGN)), I::splat32(INF));
        I::select32(inf, x, I::or(x, away))
    }
}

fn is_away(policy: &Policy) -> bool {
    policy.rounding == Rounding::NearestAway
}

/// To a float of 8 bits or fewer, by adding a power of two whose ulp is the target's.
///
/// ```text
/// c = min(|x|, limit)               overflow is at most the code after the max; NaN the code of NaN
/// e = max(exponent of c, that of the smallest normal)
/// s = c + e * 2^(23 - m)            the adder shifts and rounds: once, as the control register says
/// code = s + (e - smallest normal) >> (23 - m)          as integers, of which the low byte counts
/// ```
/// (What was added is a power of two, which has nothing in the low byte.)
/// A code without its sign counts the values from zero up, past the max too, so a carry, a subnormal, an
/// overflow and a NaN need no case of their own: the NaN is the f32 whose code it is.
///
/// In the directed modes the operands of the adder have the sign of x. Where that sign truncates, a finite
/// overflow is the max.
pub(in crate::kernels) struct ToNarrow<S, F, const BITS: usize, const MODES: bool>(PhantomData<(S, F)>);

/// What a family of narrow formats has.
pub(in crate::kernels) trait Family {
    /// NaN. Where there is none, it becomes a number first.
    const NAN: bool;
    /// −0.
    const NEG_ZERO: bool;
}

pub(in crate::kernels) struct Signed;
pub(in crate::kernels) struct Fnuz;
pub(in crate::kernels) struct Finite;

impl Family for Signed {
    const NAN: bool = true;
    const NEG_ZERO: bool = true;
}

impl Family for Fnuz {
    const NAN: bool = true;
    const NEG_ZERO: bool = false;
}

impl Family for Finite {
    const NAN: bool = false;
    const NEG_ZERO: bool = true;
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Narrow<V> {
    /// The value that overflow counts as, and Inf.
    limit: V,
    /// The same for finite values of either sign.
    finite: [V; 2],
    /// The value whose code is NaN; without NaN, the value that it becomes.
    nan: V,
    /// Exponent of the smallest normal, in place.
    least: V,
    /// 23 - m, in place of an exponent.
    grow: V,
    /// 23 - m, as a shift count.
    drop: V,
    /// `least >> drop`, in each byte: what every code is too large by.
    base: V,
    /// The sign bit of the code, in each byte.
    sign: V,
    away: V,
}

/// The f32 whose code is `code` in a format, continued past the top.
fn value_of(format: FloatFormat, code: u64) -> u32 {
    let (m, mantissa) = (format.mantissa_bits, code & ((1 << format.mantissa_bits) - 1));
    let exponent = (code >> m) as i32 - format.bias + 127;
    debug_assert!(code >> m != 0, "a normal number");
    (exponent as u32) << 23 | (mantissa as u32) << (23 - m)
}

impl<I: Isa, S: AsF32<I>, F: Family, const BITS: usize, const MODES: bool> Codec<I>
    for ToNarrow<S, F, BITS, MODES>
{
    type From = S;
    const DST: usize = BITS;
    const FLOATS: bool = true;
    type Setup = Narrow<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> Narrow<I::V> {
        let format = job.float();
        let policy = &job.policy;
        let max = format.max_code();
        let limit = scalar::overflow(format, policy.saturate);
        let finite = [false, true].map(|negative| match policy.rounding {
            Rounding::TowardZero => max,
            Rounding::Up if negative => max,
            Rounding::Down if !negative => max,
            _ => limit,
        });
        let nan = match policy.nan_to_finite {
            _ if F::NAN => value_of(format, nan_code(format)),
            NanToFinite::NegZero => SIGN,
            NanToFinite::Max => value_of(format, max),
            NanToFinite::Zero => 0,
        };
        let least = ((format.min_exponent() + 127) as u32) << 23;
        let drop = 23 - format.mantissa_bits;
        // SAFETY: the caller's promise.
        unsafe {
            Narrow {
                limit: I::splat32(value_of(format, limit)),
                finite: [I::splat32(value_of(format, finite[0])), I::splat32(value_of(format, finite[1]))],
                nan: I::splat32(nan),
                least: I::splat32(least),
                grow: I::splat32(drop << 23),
                drop: I::splat32(drop),
                base: I::splat8((least >> drop) as u8),
                sign: I::splat8(format.sign_bit() as u8),
                away: I::splat32(is_away(policy).into()),
            }
        }
    }

    #[inline(always)]
    unsafe fn block(k: &Narrow<I::V>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut x = S::f32(src, ends);
            if !F::NAN {
                x = registers!(4, K => {
                    let nan = I::gt32(I::and(x[K], I::splat32(!SIGN)), I::splat32(INF));
                    I::select32(nan, k.nan, x[K])
                });
            }
            let codes = registers!(4, K => narrow::<I, F, MODES>(k, x[K]));
            let code = I::sub8(I::low16(narrow32::<I>(codes)), k.base);
            // The sign is the top bit of the top byte.
            let top = I::high16([I::high32([x[0], x[1]]), I::high32([x[2], x[3]])]);
            store_codes::<I, BITS>(signed::<I, F>(code, top, k.sign), ends, dst);
        }
    }
}

/// To a float of 8 bits or fewer, to nearest even, from 16 bits, in their lanes.
///
/// ```text
/// c = min(|x|, limit)                                   as codes; a NaN is found in |x|
/// normal = c - base                                     counts the numbers from zero up, in ulps of c
/// subnormal = significand of c >> by how much its exponent is too small
/// code = the larger one, rounded to nearest even        shifted to the left, it is the high byte
/// ```
/// * 8 bits are two more than those of the target, of 5 at most, rounded to odd where there were more.
/// * Of a normal c the shift is 0, and its significand no more than its count. Of a smaller one, the count is 0 or
///   below the significand: half of that is more than the mantissa where the exponent is one too small.
/// * The code is m + 1 of the 8 bits away from the low byte. The shift loses bits of a subnormal only where it is
///   more than that: then it is less than one half of the smallest one, and becomes 0 without them.
/// * A subnormal of the source is read as if it had the bit that it lacks. It is less than half of the smallest one
///   in any case: that is why float8_e5m2 and float8_e5m2fnuz are not for float16.
pub(in crate::kernels) struct ToNarrowByHalf<S, F, const BITS: usize>(PhantomData<(S, F)>);

/// Can that make this format from those floats? It shifts to the left alone.
pub(in crate::kernels) fn goes_by_half<I: Isa, S: AsHalf<I>>(format: FloatFormat) -> bool {
    S::MANTISSA == 7 || format.mantissa_bits >= 2 && format.min_exponent() - format.mantissa_bits as i32 > -14
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByHalf<V> {
    /// What overflow counts as.
    limit: V,
    /// What is taken off a normal number's code.
    base: V,
    /// Exponent of the smallest normal.
    least: V,
    /// The lowest bit of an exponent, which a significand has.
    implicit: V,
    /// Of the mantissa.
    mantissa: V,
    exponent_at: V,
    /// From the last bit of the code to the high byte.
    left: V,
    inf: V,
    /// The code of NaN, as a high byte; without NaN, the half that it becomes.
    nan: V,
    /// The sign bit of the code, in each byte.
    sign: V,
}

impl<I: Isa, S: AsHalf<I>, F: Family, const BITS: usize> Codec<I> for ToNarrowByHalf<S, F, BITS> {
    type From = S;
    const DST: usize = BITS;
    const FLOATS: bool = false;
    type Setup = ByHalf<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> ByHalf<I::V> {
        let format = job.float();
        let mantissa = S::MANTISSA;
        let bias = if mantissa == 7 { 127 } else { 15 };
        let drop = mantissa.saturating_sub(format.mantissa_bits);
        let least = (format.min_exponent() + bias) as u16;
        let base = least.wrapping_sub(1) << mantissa;
        let half = |code: u64| ((code as u16) << drop).wrapping_add(base);
        let nan = match job.policy.nan_to_finite {
            _ if F::NAN => (nan_code(format) as u16) << 8,
            NanToFinite::NegZero => 1 << 15,
            NanToFinite::Max => half(format.max_code()),
            NanToFinite::Zero => 0,
        };
        // SAFETY: the caller's promise.
        unsafe {
            ByHalf {
                limit: I::splat16(half(scalar::overflow(format, job.policy.saturate))),
                base: I::splat16(base),
                least: I::splat16(least),
                implicit: I::splat16(1 << mantissa),
                mantissa: I::splat16((1 << mantissa) - 1),
                exponent_at: I::splat16(mantissa as u16),
                left: I::splat16(8u16.saturating_sub(drop as u16)),
                inf: I::splat16(if mantissa == 7 { 0x7F80 } else { 0x7C00 }),
                nan: I::splat16(nan),
                sign: I::splat8(format.sign_bit() as u8),
            }
        }
    }

    #[inline(always)]
    unsafe fn block(k: &ByHalf<I::V>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let number = I::splat16(0x7FFF);
            let mut x = S::half(src, ends);
            if !F::NAN {
                x = registers!(2, K => I::select_above16(I::and(x[K], number), k.inf, k.nan, x[K]));
            }
            let codes = registers!(2, K => {
                let a = I::and(x[K], number);
                let c = I::min_u16(a, k.limit);
                let normal = I::shl16v(I::sub_u16(c, k.base), k.left);
                let significand = I::or(I::and(c, k.mantissa), k.implicit);
                let missing = I::sub_u16(k.least, I::shr16v(c, k.exponent_at));
                let subnormal = I::shr16v(I::shl16v(significand, k.left), missing);
                let code = I::max_u16(normal, subnormal);
                if F::NAN { I::select_above16(a, k.inf, k.nan, code) } else { code }
            });
            let code = I::nearest_high16(codes);
            store_codes::<I, BITS>(signed::<I, F>(code, I::high16(x), k.sign), ends, dst);
        }
    }
}

/// The code of NaN, without the sign.
fn nan_code(format: FloatFormat) -> u64 {
    (format.max_code() + 1) | if format.has_inf { format.quiet_bit() } else { 0 }
}

/// A code with the sign that is the top bit of `top`.
#[inline(always)]
unsafe fn signed<I: Isa, F: Family>(code: I::V, top: I::V, sign: I::V) -> I::V {
    // SAFETY: the caller's promise.
    unsafe {
        if !F::NAN {
            // Its place in a code of fewer than 8 bits, all of which have −0.
            I::put(sign, sign_of_finite::<I>(top, sign), code)
        } else if F::NEG_ZERO {
            I::put(sign, top, code)
        } else {
            I::or(code, I::zero_where_zero8(code, I::and(top, sign)))
        }
    }
}

/// From float16 to float8_e5m2, to nearest even: the high byte.
pub(in crate::kernels) struct F16ToE5m2;

impl<I: Isa> Codec<I> for F16ToE5m2 {
    type From = F16;
    const DST: usize = 8;
    const FLOATS: bool = false;
    type Setup = I::V;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> I::V {
        let format = job.float();
        let limit = scalar::overflow(format, job.policy.saturate);
        // SAFETY: the caller's promise.
        unsafe { I::splat16((limit as u16) << 8) }
    }

    #[inline(always)]
    unsafe fn block(&limit: &I::V, _: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let x = registers!(2, K => I::load(src.add(K * I::BYTES)));
            let codes = registers!(2, K => {
                let a = I::and(x[K], I::splat16(0x7FFF));
                I::select_above16(a, I::splat16(0x7C00), I::splat16(0x7E00), I::min_u16(a, limit))
            });
            let code = I::nearest_high16(codes);
            I::store(dst, signed::<I, Signed>(code, I::high16(x), I::splat8(0x80)));
        }
    }
}

/// The top bit of each byte, moved to where the sign of a 6- or 4-bit code is (`sign` has that bit).
#[inline(always)]
unsafe fn sign_of_finite<I: Isa>(top: I::V, sign: I::V) -> I::V {
    // SAFETY: the caller's promise. Bits that come from the neighbouring byte are masked by the caller.
    unsafe {
        let six = I::shr16::<2>(top);
        let four = I::shr16::<4>(top);
        let is_six = I::eq32(sign, I::splat32(0x2020_2020));
        I::select32(is_six, six, four)
    }
}

/// The code of each lane, without sign and too large by the base.
#[inline(always)]
unsafe fn narrow<I: Isa, F: Family, const MODES: bool>(k: &Narrow<I::V>, x: I::V) -> I::V {
    // SAFETY: the caller's promise.
    unsafe {
        let (sign, inf) = (I::splat32(SIGN), I::splat32(INF));
        let a = I::abs_f32(x);
        let mut c = I::min_or_nan_f32(k.limit, a);
        let mut s = sign;
        if MODES {
            s = I::and(x, sign);
            let negative = I::eq32(s, sign);
            let finite = I::min_u32(a, I::select32(negative, k.finite[1], k.finite[0]));
            // Inf is the limit, and a NaN stays what it is.
            c = I::select32(I::gt32(inf, a), I::or(finite, k.away), c);
            // Not past the limit: it is finite here, but its code is the end of the scale.
            c = I::min_or_nan_f32(k.limit, c);
        }
        if F::NAN {
            c = I::min_u32(c, k.nan);
        }
        let e = I::max_u32(I::and(c, inf), k.least);
        let mut power = I::add32(e, k.grow);
        if MODES {
            c = I::or(c, s);
            power = I::or(power, s);
        }
        I::add32(I::add_f32(c, power), I::shr32v(e, k.drop))
    }
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

impl<I: Isa, S: AsF32<I>> Codec<I> for ToE8m0<S> {
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

impl<I: Isa, S: AsF32<I>, const MODES: bool> Codec<I> for ToF16<S, MODES> {
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
                    (16, _) => load2::<I>(src),
                    (_, true) => I::sext8(I::load(src)),
                    _ => I::zext8(I::load(src)),
                };
                let v = registers!(2, K => if signed { I::i16_to_f16(v[K]) } else { I::u16_to_f16(v[K]) });
                I::store(dst, v[0]);
                return I::store(dst.add(I::BYTES), v[1]);
            }
            let mut x = S::f32(src, ends);
            if MODES {
                x = registers!(4, K => off_the_middle::<I>(x[K], away));
            }
            for k in 0..2 {
                let x = [x[2 * k], x[2 * k + 1]];
                let half = if MODES { I::f32_to_f16(x) } else { I::f32_to_nearest_f16(x) };
                I::store(dst.add(k * I::BYTES), half);
            }
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

impl<I: Isa, S: AsF32<I>, const MODES: bool> Codec<I> for ToBf16<S, MODES> {
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
                I::store(dst, I::f32_to_bf16([x[0], x[1]], k.extras));
                return I::store(dst.add(I::BYTES), I::f32_to_bf16([x[2], x[3]], k.extras));
            }
            let x = registers!(4, K => {
                let nan = I::gt32(I::and(x[K], I::splat32(!SIGN)), I::splat32(INF));
                let bias = I::select32(I::gt32(I::splat32(0), x[K]), k.bias[1], k.bias[0]);
                let odd = I::and(I::shr32::<16>(x[K]), k.even);
                let rounded = I::add32(I::add32(x[K], bias), odd);
                I::select32(nan, I::or(x[K], I::splat32(0x40_0000)), rounded)
            });
            I::store(dst, I::high32([x[0], x[1]]));
            I::store(dst.add(I::BYTES), I::high32([x[2], x[3]]));
        }
    }
}

/// To bfloat16 what is exact there: the upper half of the float32.
pub(in crate::kernels) struct CutBf16<S>(PhantomData<S>);

impl<I: Isa, S: AsF32<I>> Codec<I> for CutBf16<S> {
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
            I::store(dst, I::high32([x[0], x[1]]));
            I::store(dst.add(I::BYTES), I::high32([x[2], x[3]]));
        }
    }
}

/// To float32 what is exact there, or is rounded by the instruction that makes it one: not for ties away.
pub(in crate::kernels) struct ToF32<S>(PhantomData<S>);

/// Sources that one instruction makes an f32, or of which it rounds an odd f64.
///
/// # Safety
/// As for the operations of [`Isa`].
pub(in crate::kernels) trait NearF32<I: Isa>: Source {
    /// Not exact.
    const ROUNDS: bool;
    unsafe fn near(src: *const u8, ends: Ends<I>) -> [I::V; 4];
}

macro_rules! near_f32 {
    ($($source:ident($src:ident, $ends:ident) = $body:expr;)*) => {$(
        impl<I: Isa> NearF32<I> for super::source::$source {
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
        let v = load2::<I>(src);
        let ([a, b], [c, d]) = (I::bf16_to_f32(v[0]), I::bf16_to_f32(v[1]));
        [a, b, c, d]
    };
    Re32(src, ends) = <Self as AsF32<I>>::f32(src, ends);
    I8(src, ends) = <Self as AsF32<I>>::f32(src, ends);
    U8(src, ends) = <Self as AsF32<I>>::f32(src, ends);
    I16(src, ends) = <Self as AsF32<I>>::f32(src, ends);
    U16(src, ends) = <Self as AsF32<I>>::f32(src, ends);
    I32(src, _ends) = registers!(4, K => I::i32_to_f32(I::load(src.add(K * I::BYTES))));
    U32(src, _ends) = registers!(4, K => I::u32_to_f32(I::load(src.add(K * I::BYTES))));
    I64(src, ends) = if I::LONG_TO_F32 {
        registers!(4, K => I::i64_to_f32([I::load(src.add(2 * K * I::BYTES)), I::load(src.add((2 * K + 1) * I::BYTES))]))
    } else {
        let x = <Self as AsF64<I>>::f64(src, ends);
        registers!(4, K => I::f64_to_f32([x[2 * K], x[2 * K + 1]]))
    };
    U64(src, ends) = if I::LONG_TO_F32 {
        registers!(4, K => I::u64_to_f32([I::load(src.add(2 * K * I::BYTES)), I::load(src.add((2 * K + 1) * I::BYTES))]))
    } else {
        let x = <Self as AsF64<I>>::f64(src, ends);
        registers!(4, K => I::f64_to_f32([x[2 * K], x[2 * K + 1]]))
    };
}

impl<I: Isa, S: NearF32<I>> Codec<I> for ToF32<S> {
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

impl<I: Isa, S: AsF32<I>> NearF32<I> for Odd<S> {
    const ROUNDS: bool = false;
    #[inline(always)]
    unsafe fn near(src: *const u8, ends: Ends<I>) -> [I::V; 4] {
        // SAFETY: the caller's promise.
        unsafe { S::f32(src, ends) }
    }
}

/// To float32 from f64, exact or rounded to odd: in every mode.
pub(in crate::kernels) struct WideToF32<S>(PhantomData<S>);

impl<I: Isa, S: AsF64<I>> Codec<I> for WideToF32<S> {
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

impl<I: Isa, S: AsF64<I>> Codec<I> for ToF64<S> {
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
            let x = S::f64(src, ends);
            for k in 0..8 {
                I::store(dst.add(k * I::BYTES), x[k]);
            }
        }
    }
}

/// Integers of 64 bits to float64, in every mode.
pub(in crate::kernels) struct LongToF64<const SIGNED: bool>;

impl<I: Isa, const SIGNED: bool> Codec<I> for LongToF64<SIGNED> {
    type From = Bits<64>;
    const DST: usize = 64;
    const FLOATS: bool = true;
    type Setup = bool;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> bool {
        is_away(&job.policy)
    }

    #[inline(always)]
    unsafe fn block(&away: &bool, _: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            for k in 0..8 {
                let mut x = I::load(src.add(k * I::BYTES));
                if away {
                    x = long_off_the_middle::<I, SIGNED>(x);
                }
                let x = if SIGNED { I::i64_to_f64(x) } else { I::u64_to_f64(x) };
                I::store(dst.add(k * I::BYTES), x);
            }
        }
    }
}

/// Moves the ties among integers away from zero. From 2^54 on two bits or more are cut off, and the last bit
/// is set where any is; from 2^53 on it is one bit, which is the tie, and is added. Below all are exact.
#[inline(always)]
unsafe fn long_off_the_middle<I: Isa, const SIGNED: bool>(x: I::V) -> I::V {
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
