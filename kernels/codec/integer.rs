//! To integers and to bool.
//!
//! Floats are rounded by the instruction that makes them integers, as the control register says; ties away
//! from zero by adding the number just below one half and cutting, which is right for every value.

use core::marker::PhantomData;

use super::super::simd::{Extras, Simd};
use super::source::{AsF32, AsF64, AsInteger, F64, Source, is_f16};
use super::{Codec, Ends, Job, load16, load32, load64, registers, store_codes, store16, store32, store64};
use crate::formats::dtype::{IntFormat, Kind};
use crate::formats::options::{Overflow, Rounding};

const SIGN: u32 = 1 << 31;
const SIGN64: u64 = 1 << 63;

/// The limits of a format. (Those of [`IntFormat`] have 128 bits, and every kernel would compute with them.)
#[inline(always)]
fn range(IntFormat { bits, signed }: IntFormat) -> (i64, u64) {
    let min = if signed { i64::MIN >> (64 - bits) } else { 0 };
    (min, u64::MAX >> (64 - bits + u32::from(signed)))
}

/// The same as floats, which must be exact: another one would leave a flag. So not the upper one of 64 bits, which nobody uses.
#[inline(always)]
fn limits(format: IntFormat) -> (f64, f64) {
    let (min, max) = range(format);
    (min as f64, if format.bits < 64 { max as f64 } else { 0.0 })
}

/// The low bits of each byte that belong to a code of fewer than 8 bits.
///
/// # Safety
/// As for the operations of [`Simd`]; so for the other functions here.
#[inline(always)]
unsafe fn byte_mask<I: Simd>(format: IntFormat) -> I::V {
    let byte = if format.bits < 8 { (1u32 << format.bits) - 1 } else { 0xFF };
    // SAFETY: the caller's promise.
    unsafe { I::splat32(byte * 0x0101_0101) }
}

/// What floats of 32 bits need to become integers.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Clamp<V> {
    low: V,
    high: V,
    /// The largest f below one half, for ties that go away from zero.
    half: V,
    how: How,
    signed: bool,
    /// The target has as many bits as it takes in memory.
    fills: bool,
    /// The limits of an integer of 8 bits or fewer, in each byte.
    least: V,
    most: V,
    mask: V,
    extras: Extras,
}

/// How a float becomes a whole number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// It is cut.
    Cut,
    /// As the control register says.
    Rounded,
    /// Ties go away from zero.
    Away,
}

impl How {
    fn new(job: &Job) -> Self {
        match job.policy.rounding {
            Rounding::TowardZero => Self::Cut,
            Rounding::NearestAway => Self::Away,
            _ => Self::Rounded,
        }
    }
}

/// To integers of 16 bits or fewer, saturating, from sources that are exact in an f32.
pub(in crate::kernels) struct ToShort<S, const BITS: usize>(PhantomData<S>);

impl<I: Simd, S: AsF32<I>, const BITS: usize> Codec<I> for ToShort<S, BITS> {
    type From = S;
    const DST: usize = BITS;
    const FLOATS: bool = true;
    type Setup = Clamp<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> Clamp<I::V> {
        let format = job.integer();
        // SAFETY: the caller's promise.
        unsafe {
            Clamp {
                low: I::splat32((limits(format).0 as f32).to_bits()),
                high: I::splat32((limits(format).1 as f32).to_bits()),
                half: I::splat32(0.5f32.to_bits() - 1),
                how: How::new(job),
                signed: format.signed,
                fills: format.bits as usize == BITS,
                least: I::splat8(range(format).0 as u8),
                most: I::splat8(range(format).1 as u8),
                mask: byte_mask::<I>(format),
                extras: job.extras,
            }
        }
    }

    #[inline(always)]
    unsafe fn block(k: &Clamp<I::V>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            if I::HALVES && is_f16::<S>() && k.extras.fp16 && k.how != How::Away {
                let mut v = load16::<I>(src);
                if k.how == How::Rounded {
                    v = registers!(2, K => I::round_f16(v[K]));
                }
                let v = registers!(2, K => if k.signed { I::cut_i16(v[K]) } else { I::cut_u16(v[K]) });
                return store_narrow16::<I, BITS>(
                    v,
                    [k.signed, k.fills],
                    [k.least, k.most, k.mask],
                    ends,
                    dst,
                );
            }
            let x = asked32::<I>(S::f32(src, ends), k.how);
            if I::SATURATES {
                let x = whole32::<I>(x, k.half, k.how);
                let v = if k.signed {
                    let v = registers!(4, K => I::cut_i32(x[K]));
                    registers!(2, K => I::narrow_s32([v[2 * K], v[2 * K + 1]]))
                } else {
                    let v = registers!(4, K => I::cut_u32(x[K]));
                    registers!(2, K => I::narrow_u32([v[2 * K], v[2 * K + 1]]))
                };
                return store_narrow16::<I, BITS>(
                    v,
                    [k.signed, k.fills],
                    [k.least, k.most, k.mask],
                    ends,
                    dst,
                );
            }
            if !I::SEARCHES_NANS || k.how == How::Away {
                let x = registers!(4, K => {
                    let x = number32::<I>(x[K], k.half, k.how == How::Away);
                    I::f32_to_i32(I::min_f32(I::max_f32(x, k.low), k.high))
                });
                return store32::<I, BITS>(x, k.mask, ends, dst);
            }
            // To an unsigned integer, a NaN becomes 0 as if it were negative.
            let mut x = x;
            if k.signed && I::any_nan_f32(x) {
                x = registers!(4, K => I::number_f32(x[K]));
            }
            if I::PACKS {
                let v = registers!(4, K => I::f32_to_i32(I::min_or_nan_f32(k.high, x[K])));
                return store_packed::<I, BITS>(v, k.signed, [k.least, k.mask], ends, dst);
            }
            let v = registers!(4, K => I::f32_to_i32(I::min_f32(I::max_f32(x[K], k.low), k.high)));
            store32::<I, BITS>(v, k.mask, ends, dst);
        }
    }
}

/// Rounded as the control register says, where the instruction that makes integers does not ask it.
#[inline(always)]
unsafe fn asked32<I: Simd>(x: [I::V; 4], how: How) -> [I::V; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        if I::CARRIES_ROUNDING && how == How::Rounded { registers!(4, K => I::round_f32(x[K])) } else { x }
    }
}

/// NaN becomes 0; ties that go away from zero are rounded.
#[inline(always)]
unsafe fn number32<I: Simd>(x: I::V, half: I::V, away: bool) -> I::V {
    // SAFETY: the caller's promise.
    unsafe {
        let x = I::number_f32(x);
        if away { I::trunc_f32(I::add_f32(x, I::or(half, I::and(x, I::splat32(SIGN))))) } else { x }
    }
}

#[inline(always)]
unsafe fn number64<I: Simd>(x: I::V, half: I::V, away: bool) -> I::V {
    // SAFETY: the caller's promise.
    unsafe {
        let x = I::number_f64(x);
        if away { I::trunc_f64(I::add_f64(x, I::or(half, I::and(x, I::splat64(SIGN64))))) } else { x }
    }
}

/// Whole numbers, which an instruction that cuts keeps, and saturates.
#[inline(always)]
unsafe fn whole32<I: Simd>(x: [I::V; 4], half: I::V, how: How) -> [I::V; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        match how {
            How::Cut => x,
            How::Rounded => registers!(4, K => I::round_f32(x[K])),
            How::Away => registers!(4, K => number32::<I>(x[K], half, true)),
        }
    }
}

#[inline(always)]
unsafe fn whole64<I: Simd>(x: [I::V; 8], half: I::V, how: How) -> [I::V; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        match how {
            How::Cut => x,
            How::Rounded => registers!(8, K => I::round_f64(x[K])),
            How::Away => registers!(8, K => number64::<I>(x[K], half, true)),
        }
    }
}

/// Lanes of 64 bits as the nearest of 32, by the instructions that saturate. Never to signed ones of unsigned ones.
#[inline(always)]
unsafe fn narrow_all64<I: Simd>(v: [I::V; 8], from_signed: bool, to_signed: bool) -> [I::V; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        match (from_signed, to_signed) {
            (true, true) => registers!(4, K => I::narrow_s64([v[2 * K], v[2 * K + 1]])),
            (true, false) => registers!(4, K => I::narrow_s64_to_u32([v[2 * K], v[2 * K + 1]])),
            _ => registers!(4, K => I::narrow_u64([v[2 * K], v[2 * K + 1]])),
        }
    }
}

#[inline(always)]
unsafe fn narrow_all32<I: Simd>(v: [I::V; 4], from_signed: bool, to_signed: bool) -> [I::V; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        match (from_signed, to_signed) {
            (true, true) => registers!(2, K => I::narrow_s32([v[2 * K], v[2 * K + 1]])),
            (true, false) => registers!(2, K => I::narrow_s32_to_u16([v[2 * K], v[2 * K + 1]])),
            _ => registers!(2, K => I::narrow_u32([v[2 * K], v[2 * K + 1]])),
        }
    }
}

/// Stores lanes of 16 bits, of the sign of the target, as the nearest of its bits, which may be fewer than the `BITS`
/// that it takes in memory. The limits are given, of 8 bits or fewer, and their mask.
#[inline(always)]
unsafe fn store_narrow16<I: Simd, const BITS: usize>(
    v: [I::V; 2],
    [signed, fills]: [bool; 2],
    [least, most, mask]: [I::V; 3],
    ends: Ends<I>,
    dst: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if BITS == 16 {
            return store16::<I, 16>(v, mask, ends, dst);
        }
        let bytes = if signed { I::narrow_s16(v) } else { I::narrow_u16(v) };
        if BITS == 8 && fills {
            return I::store(dst, bytes);
        }
        let clamped = if signed { I::min_s8(I::max_s8(bytes, least), most) } else { I::min_u8(bytes, most) };
        store_codes::<I, BITS>(I::and(clamped, mask), ends, dst);
    }
}

/// Stores lanes of 32 bits, no larger than the target holds, as the nearest of its bits, which may be fewer than the
/// `BITS` that it takes in memory: 32 or fewer, but not an unsigned one of 32. The lower limit is given, of 8 bits or
/// fewer, and their mask. The minimum, as which a NaN comes, is 0 if the target has no sign.
#[inline(always)]
unsafe fn store_packed<I: Simd, const BITS: usize>(
    v: [I::V; 4],
    signed: bool,
    [least, mask]: [I::V; 2],
    ends: Ends<I>,
    dst: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if BITS == 32 {
            return store32::<I, 32>(v, mask, ends, dst);
        }
        if BITS == 16 && !signed {
            let v = registers!(2, K => I::narrow_s32_to_u16([v[2 * K], v[2 * K + 1]]));
            return store16::<I, 16>(v, mask, ends, dst);
        }
        let v = registers!(2, K => I::narrow_s32([v[2 * K], v[2 * K + 1]]));
        if BITS == 16 {
            return store16::<I, 16>(v, mask, ends, dst);
        }
        let bytes = if signed { I::max_s8(I::narrow_s16(v), least) } else { I::narrow_s16_to_u8(v) };
        store_codes::<I, BITS>(I::and(bytes, mask), ends, dst);
    }
}

/// To int32 or uint32, saturating, from sources that are exact in an f32. The upper limit is none, so what
/// lies beyond is found by its bits.
pub(in crate::kernels) struct ToInt32<S, const SIGNED: bool>(PhantomData<S>);

impl<I: Simd, S: AsF32<I>, const SIGNED: bool> Codec<I> for ToInt32<S, SIGNED> {
    type From = S;
    const DST: usize = 32;
    const FLOATS: bool = true;
    type Setup = Clamp<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> Clamp<I::V> {
        // ±2^31, or 0 and 2^32.
        let (low, beyond) =
            if SIGNED { (-2_147_483_648f32, 2_147_483_648f32) } else { (0.0, 4_294_967_296.0) };
        // SAFETY: the caller's promise.
        unsafe {
            Clamp {
                low: I::splat32(low.to_bits()),
                high: I::splat32(beyond.to_bits() - 1),
                half: I::splat32(0.5f32.to_bits() - 1),
                how: How::new(job),
                signed: SIGNED,
                fills: true,
                least: I::splat8(0),
                most: I::splat8(0),
                mask: I::splat32(if SIGNED { i32::MAX as u32 } else { u32::MAX }),
                extras: job.extras,
            }
        }
    }

    #[inline(always)]
    unsafe fn block(k: &Clamp<I::V>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            if !I::CONVERTS_LONGS && !SIGNED && k.how != How::Away {
                // As in `ToLong`.
                if let Some(v) = fitting_int32::<I, S, false>(src, ends) {
                    return store32::<I, 32>(v, k.mask, ends, dst);
                }
            }
            let x = asked32::<I>(S::f32(src, ends), k.how);
            if I::SATURATES {
                let x = whole32::<I>(x, k.half, k.how);
                let x = registers!(4, K => if SIGNED { I::cut_i32(x[K]) } else { I::cut_u32(x[K]) });
                return store32::<I, 32>(x, k.mask, ends, dst);
            }
            if SIGNED && k.how != How::Away {
                let x = registers!(4, K => I::f32_to_nearest_i32(x[K], k.high, k.mask));
                return store32::<I, 32>(x, k.mask, ends, dst);
            }
            let x = registers!(4, K => {
                let x = number32::<I>(x[K], k.half, k.how == How::Away);
                let beyond = I::gt32(x, k.high);
                let integer = if SIGNED { I::f32_to_i32(x) } else { I::f32_to_u32(I::max_f32(x, k.low)) };
                I::select32(beyond, k.mask, integer)
            });
            store32::<I, 32>(x, k.mask, ends, dst);
        }
    }
}

/// To integers of any width, saturating, by 64-bit integers.
pub(in crate::kernels) struct ToLong<S, const BITS: usize, const SIGNED: bool>(PhantomData<S>);

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Clamp64<V> {
    low: V,
    high: V,
    /// 64 bits: from these bits on the result is `most`.
    beyond: V,
    most: V,
    half: V,
    how: How,
    signed: bool,
    /// The target has as many bits as it takes in memory.
    fills: bool,
    /// The limits of an integer of 8 bits or fewer, in each byte.
    least8: V,
    most8: V,
    mask: V,
}

impl<I: Simd, S: AsF32<I> + AsF64<I>, const BITS: usize, const SIGNED: bool> Codec<I>
    for ToLong<S, BITS, SIGNED>
{
    type From = S;
    const DST: usize = BITS;
    const FLOATS: bool = true;
    type Setup = Clamp64<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> Clamp64<I::V> {
        let format = job.integer();
        // 2^63 or 2^64.
        let beyond = if SIGNED { 9_223_372_036_854_775_808f64 } else { 18_446_744_073_709_551_616.0 };
        // SAFETY: the caller's promise.
        unsafe {
            Clamp64 {
                low: I::splat64(limits(format).0.to_bits()),
                high: I::splat64(limits(format).1.to_bits()),
                beyond: I::splat64(beyond.to_bits() - 1),
                most: I::splat64(range(format).1),
                half: I::splat64(0.5f64.to_bits() - 1),
                how: How::new(job),
                signed: format.signed,
                fills: format.bits as usize == BITS,
                least8: I::splat8(range(format).0 as u8),
                most8: I::splat8(range(format).1 as u8),
                mask: byte_mask::<I>(format),
            }
        }
    }

    #[inline(always)]
    unsafe fn block(k: &Clamp64<I::V>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            if !I::CONVERTS_LONGS && BITS == 64 && k.how != How::Away {
                // What is too large is rare, and costs a second look.
                if S::BITS > 32 {
                    if let Some(v) = small_longs::<I, S, SIGNED>(src, ends) {
                        return store64::<I, 64>(v, k.mask, ends, dst);
                    }
                } else if let Some(v) = fitting_int32::<I, S, SIGNED>(src, ends) {
                    let v = registers!(4, K => I::sext32(v[K]));
                    return store64::<I, 64>(registers!(8, K => v[K / 2][K % 2]), k.mask, ends, dst);
                }
            }
            let mut x = S::f64(src, ends);
            if I::CARRIES_ROUNDING && k.how == How::Rounded {
                x = registers!(8, K => I::round_f64(x[K]));
            }
            if I::SATURATES {
                let x = whole64::<I>(x, k.half, k.how);
                let signed = if BITS == 64 { SIGNED } else { k.signed };
                let v = if signed {
                    registers!(8, K => I::cut_i64(x[K]))
                } else {
                    registers!(8, K => I::cut_u64(x[K]))
                };
                if BITS == 64 {
                    return store64::<I, 64>(v, k.mask, ends, dst);
                }
                let v = narrow_all64::<I>(v, signed, signed);
                if BITS == 32 {
                    return store32::<I, 32>(v, k.mask, ends, dst);
                }
                let v = narrow_all32::<I>(v, signed, signed);
                return store_narrow16::<I, BITS>(
                    v,
                    [signed, k.fills],
                    [k.least8, k.most8, k.mask],
                    ends,
                    dst,
                );
            }
            if I::SEARCHES_NANS && BITS < 64 && k.how != How::Away {
                let mut x = x;
                if I::PACKS && BITS >= 8 && k.fills && (BITS < 32 || k.signed) {
                    // What is too large for an int32 is rare, and so is a NaN. The narrower ones are packed, which saturates.
                    let v = registers!(4, K => I::f64_to_i32([x[2 * K], x[2 * K + 1]]));
                    if !has_minimum::<I>(v) {
                        return store_packed::<I, BITS>(v, k.signed, [k.least8, k.mask], ends, dst);
                    }
                }
                if k.signed && I::any_nan_f64(x) {
                    x = registers!(8, K => I::number_f64(x[K]));
                }
                if I::PACKS && (BITS < 32 || k.signed) {
                    let x = registers!(8, K => I::min_or_nan_f64(k.high, x[K]));
                    let v = registers!(4, K => I::f64_to_i32([x[2 * K], x[2 * K + 1]]));
                    return store_packed::<I, BITS>(v, k.signed, [k.least8, k.mask], ends, dst);
                }
                // Exact limits.
                let v = registers!(8, K => {
                    let x = I::min_f64(I::max_f64(x[K], k.low), k.high);
                    if I::CONVERTS_LONGS { I::f64_to_i64(x) } else { small_long::<I, true>(x) }
                });
                return store64::<I, BITS>(v, k.mask, ends, dst);
            }
            if BITS == 64 && SIGNED && k.how != How::Away {
                let x = registers!(8, K => I::f64_to_nearest_i64(x[K], k.beyond, k.most));
                return store64::<I, 64>(x, k.mask, ends, dst);
            }
            let x = registers!(8, K => {
                let x = number64::<I>(x[K], k.half, k.how == How::Away);
                if BITS < 64 {
                    // Exact limits.
                    I::f64_to_i64(I::min_f64(I::max_f64(x, k.low), k.high))
                } else {
                    let beyond = I::gt64(x, k.beyond);
                    let integer = if SIGNED { I::f64_to_i64(x) } else { I::f64_to_u64(I::max_f64(x, k.low)) };
                    I::select64(beyond, k.most, integer)
                }
            });
            store64::<I, BITS>(x, k.mask, ends, dst);
        }
    }
}

/// The ulp of floats from here up to twice as much is 1: a small integer that is added becomes the low bits of the sum.
const ULP_1: f64 = 4_503_599_627_370_496.0;
/// The middle of them, to which negative ones may be added too.
const ULP_1_MIDDLE: f64 = 1.5 * ULP_1;

/// An f64 as the integer that it is rounded to: from -2^51 to 2^51, or without a sign to 2^52.
#[inline(always)]
unsafe fn small_long<I: Simd, const SIGNED: bool>(x: I::V) -> I::V {
    let ulp_1 = if SIGNED { ULP_1_MIDDLE } else { ULP_1 }.to_bits();
    // SAFETY: the caller's promise.
    unsafe { I::sub64(I::add_f64(I::round_f64(x), I::splat64(ulp_1)), I::splat64(ulp_1)) }
}

/// A block as integers of 64 bits, if all of them are so small, and none was NaN.
#[inline(always)]
unsafe fn small_longs<I: Simd, S: AsF64<I>, const SIGNED: bool>(
    src: *const u8,
    ends: Ends<I>,
) -> Option<[I::V; 8]> {
    // SAFETY: the caller's promise.
    unsafe {
        let x = S::f64(src, ends);
        let zero = I::splat64(0);
        let v =
            registers!(8, K => small_long::<I, SIGNED>(if SIGNED { x[K] } else { I::max_f64(x[K], zero) }));
        // Of every other one, the sum has another exponent.
        let past = registers!(8, K => if SIGNED { I::add64(v[K], I::splat64(1 << 51)) } else { v[K] });
        let pairs = registers!(4, K => I::or(past[2 * K], past[2 * K + 1]));
        let all = I::or(I::or(pairs[0], pairs[1]), I::or(pairs[2], pairs[3]));
        let has_other = I::count64(I::gt64(I::shr64::<52>(all), zero)) != 0;
        if has_other { None } else { Some(v) }
    }
}

/// A block as integers, if all of them fit in an int32, and none was NaN.
#[inline(always)]
unsafe fn fitting_int32<I: Simd, S: AsF32<I>, const SIGNED: bool>(
    src: *const u8,
    ends: Ends<I>,
) -> Option<[I::V; 4]> {
    // SAFETY: the caller's promise.
    unsafe {
        let x = S::f32(src, ends);
        let zero = I::splat32(0);
        let v = registers!(4, K => I::f32_to_i32(if SIGNED { x[K] } else { I::max_f32(x[K], zero) }));
        if has_minimum::<I>(v) { None } else { Some(v) }
    }
}

/// Is an integer the least of all? By an instruction that converts a float, what does not fit becomes that.
#[inline(always)]
unsafe fn has_minimum<I: Simd>(v: [I::V; 4]) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let least = I::min_s32(I::min_s32(v[0], v[1]), I::min_s32(v[2], v[3]));
        I::count32(I::eq32(least, I::splat32(SIGN))) != 0
    }
}

/// From f64 to integers of 64 bits, wrapping: the low bits of the rounded value, which from 2^63 on are those of
/// the mantissa, shifted. NaN and Inf have exponents that shift everything out.
pub(in crate::kernels) struct ToWrapped;

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Wrapped<V> {
    half: V,
    how: How,
}

impl<I: Simd> Codec<I> for ToWrapped {
    type From = F64;
    const DST: usize = 64;
    const FLOATS: bool = true;
    type Setup = Wrapped<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> Wrapped<I::V> {
        // SAFETY: the caller's promise.
        unsafe { Wrapped { half: I::splat64(0.5f64.to_bits() - 1), how: How::new(job) } }
    }

    #[inline(always)]
    unsafe fn block(k: &Wrapped<I::V>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        const HIDDEN: u64 = 1 << 52;
        // SAFETY: the caller's promise.
        unsafe {
            let x = load64::<I>(src);
            let x = registers!(8, K => {
                let x = number64::<I>(x[K], k.half, k.how == How::Away);
                let is_asked = !I::CARRIES_ROUNDING || k.how == How::Rounded;
                let near = I::f64_to_i64(if is_asked { I::round_f64(x) } else { x });
                let magnitude = I::and(x, I::splat64(!SIGN64));
                let mantissa = I::or(I::and(x, I::splat64(HIDDEN - 1)), I::splat64(HIDDEN));
                let shift = I::sub64(I::shr64::<52>(magnitude), I::splat64(1023 + 52));
                let far = I::shl64v(mantissa, shift);
                let sign = I::sign64(x);
                let far = I::sub64(I::xor(far, sign), sign);
                let is_far = I::gt64(magnitude, I::splat64(9_223_372_036_854_775_808f64.to_bits() - 1));
                I::select64(is_far, far, near)
            });
            store64::<I, 64>(x, I::splat32(u32::MAX), ends, dst);
        }
    }
}

/// Integers and bool to integers: clamped to what both hold, or not, and then the low bits or the extension.
pub(in crate::kernels) struct Integers<S, const BITS: usize>(PhantomData<S>);

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Range<V> {
    low: V,
    high: V,
    mask: V,
    /// The limits are those of the source: nothing saturates.
    all: bool,
    /// The target has a sign.
    signed: bool,
    /// The target has as many bits as it takes in memory.
    fills: bool,
    /// The upper limit of the target, in each lane of the target.
    most: V,
}

impl<I: Simd, S: AsInteger<I>, const BITS: usize> Codec<I> for Integers<S, BITS> {
    type From = S;
    const DST: usize = BITS;
    const FLOATS: bool = false;
    type Setup = Range<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> Range<I::V> {
        let to = job.integer();
        // What is no integer has become one, of the sign of `S`, that needs no limits.
        let from = match job.from {
            Kind::Int(format) => format,
            _ => IntFormat { bits: 8, signed: S::SIGNED },
        };
        let (from_range, to_range) = (range(from), range(to));
        let (mut low, mut high) = from_range;
        // Of a bool, every byte but 0 is as good as 1.
        if job.from == Kind::Bool {
            high = 1;
        }
        if job.policy.overflow == Overflow::Saturate && matches!(job.from, Kind::Int(_)) {
            (low, high) = (low.max(to_range.0), high.min(to_range.1));
        }
        // SAFETY: the caller's promise.
        unsafe {
            let most = match BITS {
                8 => I::splat8(to_range.1 as u8),
                16 => I::splat16(to_range.1 as u16),
                _ => I::splat32(to_range.1 as u32),
            };
            Range {
                low: S::splat(low as u64),
                high: S::splat(high),
                mask: byte_mask::<I>(to),
                all: (low, high) == from_range,
                signed: to.signed,
                fills: to.bits as usize == BITS,
                most,
            }
        }
    }

    #[inline(always)]
    unsafe fn block(k: &Range<I::V>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            if I::SATURATES && BITS >= 8 && S::BITS > BITS && k.fills && !k.all {
                saturated::<I, S, BITS>(k, ends, src, dst);
            } else if BITS <= 8 && S::BITS <= 8 {
                let v = limited::<I, S>(S::bytes(src, ends), k);
                store_codes::<I, BITS>(I::and(v, k.mask), ends, dst);
            } else if S::BITS <= 16 {
                let v = if S::BITS <= 8 {
                    S::words(src, ends, k.low, k.high)
                } else {
                    let v = load16::<I>(src);
                    registers!(2, K => limited::<I, S>(v[K], k))
                };
                if BITS <= 16 {
                    return store16::<I, BITS>(v, k.mask, ends, dst);
                }
                let v = registers!(2, K => S::widen16(v[K]));
                let v = registers!(4, K => v[K / 2][K % 2]);
                if BITS == 32 {
                    return store32::<I, 32>(v, k.mask, ends, dst);
                }
                let v = registers!(4, K => S::widen32(v[K]));
                store64::<I, 64>(registers!(8, K => v[K / 2][K % 2]), k.mask, ends, dst);
            } else if S::BITS == 32 {
                let v = load32::<I>(src);
                let v = registers!(4, K => limited::<I, S>(v[K], k));
                if BITS <= 32 {
                    return store32::<I, BITS>(v, k.mask, ends, dst);
                }
                let v = registers!(4, K => S::widen32(v[K]));
                store64::<I, 64>(registers!(8, K => v[K / 2][K % 2]), k.mask, ends, dst);
            } else {
                let mut v = load64::<I>(src);
                // One branch: minima of 64 bits are no cheap instructions.
                if !k.all {
                    v = registers!(8, K => S::clamp(v[K], k.low, k.high));
                }
                store64::<I, BITS>(v, k.mask, ends, dst);
            }
        }
    }
}

/// Within the limits, if there are any.
#[inline(always)]
unsafe fn limited<I: Simd, S: AsInteger<I>>(v: I::V, k: &Range<I::V>) -> I::V {
    // SAFETY: the caller's promise.
    unsafe { if I::SATURATES && k.all { v } else { S::clamp(v, k.low, k.high) } }
}

/// Wider integers to integers of 8, 16 or 32 bits, saturating, by the instructions that do.
#[inline(always)]
unsafe fn saturated<I: Simd, S: AsInteger<I>, const BITS: usize>(
    k: &Range<I::V>,
    ends: Ends<I>,
    src: *const u8,
    dst: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        // The last step changes the sign.
        let keeps = S::SIGNED == k.signed;
        if S::BITS == 16 {
            let v = load16::<I>(src);
            return store_saturated8::<I, S>(v, k, dst);
        }
        let v = if S::BITS == 32 {
            load32::<I>(src)
        } else {
            let v = load64::<I>(src);
            let v =
                narrow_all64::<I>(v, S::SIGNED, if BITS == 32 { S::SIGNED && k.signed } else { S::SIGNED });
            if BITS == 32 {
                let v = registers!(4, K => if keeps || S::SIGNED { v[K] } else { I::min_u32(v[K], k.most) });
                return store32::<I, 32>(v, k.mask, ends, dst);
            }
            v
        };
        let v = narrow_all32::<I>(v, S::SIGNED, if BITS == 16 { S::SIGNED && k.signed } else { S::SIGNED });
        if BITS == 16 {
            let v = registers!(2, K => if keeps || S::SIGNED { v[K] } else { I::min_u16(v[K], k.most) });
            return store16::<I, 16>(v, k.mask, ends, dst);
        }
        store_saturated8::<I, S>(v, k, dst);
    }
}

#[inline(always)]
unsafe fn store_saturated8<I: Simd, S: AsInteger<I>>(v: [I::V; 2], k: &Range<I::V>, dst: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let v = match (S::SIGNED, k.signed) {
            (true, true) => I::narrow_s16(v),
            (true, false) => I::narrow_s16_to_u8(v),
            (false, false) => I::narrow_u16(v),
            (false, true) => I::min_u8(I::narrow_u16(v), k.most),
        };
        I::store(dst, v);
    }
}

/// To bool: is any bit set but, in a float with −0, the sign?
pub(in crate::kernels) struct ToBool<S>(PhantomData<S>);

impl<I: Simd, S: Source> Codec<I> for ToBool<S> {
    type From = S;
    const DST: usize = 8;
    const FLOATS: bool = false;
    type Setup = I::V;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> I::V {
        let sign = u32::from(matches!(job.from, Kind::Float(format) if format.has_neg_zero));
        // SAFETY: the caller's promise.
        unsafe {
            match S::BITS {
                8 => I::splat8(u8::MAX >> sign),
                16 => I::splat16(u16::MAX >> sign),
                32 => I::splat32(u32::MAX >> sign),
                _ => I::splat64(u64::MAX >> sign),
            }
        }
    }

    #[inline(always)]
    unsafe fn block(bits: &I::V, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let truth = I::splat32(if I::TRUE == u32::MAX { 0x0101_0101 } else { u32::MAX });
            if S::BITS == 8 {
                I::store(dst, I::min_u8(I::and(I::load(src), *bits), I::splat8(1)));
            } else if S::BITS == 16 {
                let v = load16::<I>(src);
                let v = registers!(2, K => I::any16(v[K], *bits));
                store16::<I, 8>(v, truth, ends, dst);
            } else if S::BITS == 32 {
                let v = load32::<I>(src);
                let v = registers!(4, K => I::any32(v[K], *bits));
                store32::<I, 8>(v, truth, ends, dst);
            } else {
                let v = load64::<I>(src);
                let v = registers!(8, K => I::any64(v[K], *bits));
                store64::<I, 8>(v, truth, ends, dst);
            }
        }
    }
}
