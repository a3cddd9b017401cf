//! To floats of 8 bits or fewer with mantissas. The two forms are those of [`super::float`].

use core::marker::PhantomData;

use super::super::once::Once;
use super::super::simd::Simd;
use super::float::{INF, SIGN, is_away};
use super::plane::Fold;
use super::source::{AsF32, AsHalf, F16};
use super::{Codec, Ends, Job, load16, registers, store_codes};
use crate::formats::dtype::{DType, FloatFormat, Kind};
use crate::formats::options::{NanToFinite, Policy, Rounding};
use crate::formats::route::Route;
use crate::kernels::scalar;

/// What a cast to a float of 8 bits or fewer makes; if it is none, anything. Computed with the job, once: in a kernel it would
/// take longer than to cast a few elements.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Target {
    mantissa_bits: u32,
    /// Exponent of the smallest normal.
    least: i32,
    /// Codes without their sign: the largest number, what overflow becomes, and NaN if there is one.
    max: u8,
    overflow: u8,
    nan: u8,
    sign: u8,
}

impl Target {
    /// Of nothing.
    pub(super) const NONE: Self = Self { mantissa_bits: 0, least: 0, max: 0, overflow: 0, nan: 0, sign: 0 };

    pub(super) fn new(to: Kind, policy: &Policy) -> Self {
        let format = match to {
            Kind::Float(format) if format.bits() <= 8 => format,
            _ => FloatFormat::E8M0,
        };
        let quiet = if format.has_inf { format.quiet_bit() } else { 0 };
        Self {
            mantissa_bits: format.mantissa_bits,
            least: format.min_exponent(),
            max: format.max_code() as u8,
            overflow: scalar::overflow(format, policy.saturate) as u8,
            nan: ((format.max_code() + 1) | quiet) as u8,
            sign: format.sign_bit() as u8,
        }
    }

    /// The f32 of a code, continued past the top: of a normal number.
    #[inline(always)]
    fn value_of(&self, code: u8) -> u32 {
        // A code is the exponent, counted from the smallest normal's, which is 1, and the mantissa.
        (u32::from(code) << (23 - self.mantissa_bits)).wrapping_add(((self.least - 1 + 127) as u32) << 23)
    }

    /// The exponents of what a key of [`ToNarrowByTable`] says, from that of half of the smallest subnormal on; and one
    /// behind the last.
    #[inline(always)]
    fn exponents(&self) -> [i32; 2] {
        let m = self.mantissa_bits;
        [self.least - m as i32 - 1, i32::from(self.max >> m) + self.least]
    }
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

impl<I: Simd, S: AsF32<I>, F: Family, const BITS: usize, const MODES: bool> Codec<I>
    for ToNarrow<S, F, BITS, MODES>
{
    type From = S;
    const DST: usize = BITS;
    const FLOATS: bool = true;
    type Setup = Narrow<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> Narrow<I::V> {
        let (to, policy) = (&job.narrow, &job.policy);
        let (max, limit) = (to.max, to.overflow);
        let finite = [false, true].map(|negative| match policy.rounding {
            Rounding::TowardZero => max,
            Rounding::Up if negative => max,
            Rounding::Down if !negative => max,
            _ => limit,
        });
        let nan = match policy.nan_to_finite {
            _ if F::NAN => to.value_of(to.nan),
            NanToFinite::NegZero => SIGN,
            NanToFinite::Max => to.value_of(max),
            NanToFinite::Zero => 0,
        };
        let least = ((to.least + 127) as u32) << 23;
        let drop = 23 - to.mantissa_bits;
        // SAFETY: the caller's promise.
        unsafe {
            Narrow {
                limit: I::splat32(to.value_of(limit)),
                finite: [I::splat32(to.value_of(finite[0])), I::splat32(to.value_of(finite[1]))],
                nan: I::splat32(nan),
                least: I::splat32(least),
                grow: I::splat32(drop << 23),
                drop: I::splat32(drop),
                base: I::splat8((least >> drop) as u8),
                sign: I::splat8(to.sign),
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
            let code = I::sub8(I::lowest32(codes), k.base);
            store_codes::<I, BITS>(signed::<I, F>(code, I::signs32(x), k.sign), ends, dst);
        }
    }
}

/// To a float of 8 bits with NaN, to nearest even, from 16 bits, in their lanes.
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
pub(in crate::kernels) struct ToNarrowByHalf<S, F>(PhantomData<(S, F)>);

/// Can that make this format from those floats? It shifts to the left alone.
pub(in crate::kernels) fn goes_by_half<I: Simd, S: AsHalf<I>>(format: FloatFormat) -> bool {
    format.has_nan && (S::MANTISSA == 7 || format.min_exponent() - format.mantissa_bits as i32 > -14)
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
    /// The code of NaN, as a high byte.
    nan: V,
    /// The sign bit of the code, in each byte.
    sign: V,
}

impl<I: Simd, S: AsHalf<I>, F: Family> Codec<I> for ToNarrowByHalf<S, F> {
    type From = S;
    const DST: usize = 8;
    const FLOATS: bool = false;
    type Setup = ByHalf<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> ByHalf<I::V> {
        let to = &job.narrow;
        let mantissa = S::MANTISSA;
        let bias = if mantissa == 7 { 127 } else { 15 };
        let drop = mantissa.saturating_sub(to.mantissa_bits);
        let least = (to.least + bias) as u16;
        let base = least.wrapping_sub(1) << mantissa;
        // SAFETY: the caller's promise.
        unsafe {
            ByHalf {
                limit: I::splat16((u16::from(to.overflow) << drop).wrapping_add(base)),
                base: I::splat16(base),
                least: I::splat16(least),
                implicit: I::splat16(1 << mantissa),
                mantissa: I::splat16((1 << mantissa) - 1),
                exponent_at: I::splat16(mantissa as u16),
                left: I::splat16(8u16.saturating_sub(drop as u16)),
                inf: I::splat16(if mantissa == 7 { 0x7F80 } else { 0x7C00 }),
                nan: I::splat16(u16::from(to.nan) << 8),
                sign: I::splat8(to.sign),
            }
        }
    }

    #[inline(always)]
    unsafe fn block(k: &ByHalf<I::V>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let x = S::half(src, ends);
            let codes = registers!(2, K => {
                let a = I::and(x[K], I::splat16(0x7FFF));
                let c = I::min_u16(a, k.limit);
                let normal = I::shl16v(I::sub_u16(c, k.base), k.left);
                let significand = I::or(I::and(c, k.mantissa), k.implicit);
                let missing = I::sub_u16(k.least, I::shr16v(c, k.exponent_at));
                let subnormal = I::shr16v(I::shl16v(significand, k.left), missing);
                I::select_above16(a, k.inf, k.nan, I::max_u16(normal, subnormal))
            });
            let code = I::nearest_high16(codes);
            I::store(dst, signed::<I, F>(code, I::signs16(x), k.sign));
        }
    }
}

/// To a float of 6 bits or fewer, to nearest even, from 16 bits, by a table of the few numbers that differ for it. (From
/// wider ones it takes as long to come to 16 bits as there is to gain.)
///
/// ```text
/// a = |x|                       as a code without its sign; a NaN is another number first
/// r = min(a - least, most)      or 0, where that would be negative: with it everything that becomes 0
/// key = r << left               its high byte, rounded to odd
/// code = table[key]             from the scalar reference
/// ```
/// * `least` is half of the smallest subnormal, which becomes 0 itself, and `most` the power of two behind the max.
/// * m + 2 bits of the mantissa are in the high byte, two more than the target has, and above them the exponent. Of those
///   there are no more than 5 with 3 such bits, 10 with 4, and 7 with 5.
pub(in crate::kernels) struct ToNarrowByTable<S, const BITS: usize>(PhantomData<S>);

/// Is it the codec of a route?
pub(in crate::kernels) fn goes_by_table<I: Simd>(route: &Route) -> bool {
    I::NARROWS_BY_HALF
        && matches!(route.from, DType::F16 | DType::BF16)
        && route.to.float_format().is_some_and(|format| !format.has_nan)
        && route.policy.rounding == Rounding::NearestEven
}

/// The code of every key, made once in a process. None if there is no memory for that.
pub(in crate::kernels) fn table(to: DType) -> Option<*const u8> {
    #[repr(C, align(64))]
    struct Codes([u8; 256]);
    static CODES: [Once<Codes>; 3] = [const { Once::new() }; 3];
    let target = Target::new(to.kind(), &Policy::DEFAULT);
    let mantissa = target.mantissa_bits;
    let codes = CODES[mantissa as usize - 1].get_or_make(|| {
        let least = (target.exponents()[0] + 127) as u64;
        Some(Codes(core::array::from_fn(|key| {
            let value = scalar::decode(DType::F32, (least << 23) + ((key as u64) << (21 - mantissa)));
            scalar::encode(to, value, &Policy::DEFAULT) as u8
        })))
    });
    codes.map(|codes| codes.0.as_ptr())
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByTable<I: Simd> {
    rows: [I::Row; 4],
    /// Inf, without the bit of the sign, which is shifted out.
    inf: I::V,
    /// The number that a NaN becomes.
    nan: I::V,
    least: I::V,
    most: I::V,
    left: I::V,
    /// The sign bit of the code, in each byte.
    sign: I::V,
}

impl<I: Simd, S: AsHalf<I>, const BITS: usize> Codec<I> for ToNarrowByTable<S, BITS> {
    type From = S;
    const DST: usize = BITS;
    const FLOATS: bool = false;
    type Setup = ByTable<I>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> ByTable<I> {
        let to = &job.narrow;
        let (bias, inf) = if S::MANTISSA == 7 { (127, 0x7F80) } else { (15, 0x7C00) };
        let [least, end] = to.exponents();
        let nan = match job.policy.nan_to_finite {
            NanToFinite::NegZero => 1 << 15,
            NanToFinite::Max => inf,
            NanToFinite::Zero => 0,
        };
        // SAFETY: the caller's promise; the job has the table of these formats.
        unsafe {
            ByTable {
                rows: registers!(4, K => I::row(job.table.add(64 * K))),
                inf: I::splat16(2 * inf),
                nan: I::splat16(nan),
                least: I::splat16(((least + bias) as u16) << (S::MANTISSA + 1)),
                most: I::splat16(((end - least) as u16) << (S::MANTISSA + 1)),
                left: I::splat16((to.mantissa_bits + 9).saturating_sub(S::MANTISSA) as u16),
                sign: I::splat8(to.sign),
            }
        }
    }

    #[inline(always)]
    unsafe fn block(k: &ByTable<I>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let x = load16::<I>(src);
            let x = registers!(2, K => I::select_above16(I::add16(x[K], x[K]), k.inf, k.nan, x[K]));
            let key = I::odd_high16(registers!(2, K => {
                let r = I::sub_u16(I::add16(x[K], x[K]), k.least);
                I::shl16v(I::min_u16(r, k.most), k.left)
            }));
            // Those of the smallest format are few.
            let code = match BITS {
                4 => I::lookup64(k.rows[0], key),
                _ => I::lookup256(k.rows, Fold::Apart, key),
            };
            store_codes::<I, BITS>(signed::<I, Finite>(code, I::signs16(x), k.sign), ends, dst);
        }
    }
}

/// To a float of 8 bits or fewer, to nearest even, by the float16 whose exponent is the code's.
///
/// ```text
/// y = x * 2^s                   the smallest normals are the same then: so are all the exponents
/// y |= 2^d, if any bit below it was cut off     rounded to odd, with d bits fewer than a float32
/// h = y as float16, cut         the code of y, but for bits that it has too many
/// code = h rounded to nearest even              at the bit behind the mantissa
/// ```
/// * The multiplication is exact, or the result rounds to zero.
/// * Odd with K = 24 - d bits, m + 3 <= K <= 10 - m. That is two more than the target has of a normal number. Of a
///   subnormal float16, which has bits down to 2^-24, the last of K bits is there from one half of the smallest subnormal
///   of the target on, 2^(-15 - m); below, all become 0.
/// * What the float16 has below the odd bit does not count, so that cutting it there changes nothing.
/// * Overflow is cut to the largest float16, which lies beyond every target; NaN stays above Inf.
pub(in crate::kernels) struct ToNarrowByF16<S, F, const BITS: usize, const M: u32, const SCALES: bool>(
    PhantomData<(S, F)>,
);

/// Can that make this format? Mantissas of 4 bits leave no K, and float8_e5m2fnuz has numbers where float16 has Inf.
pub(in crate::kernels) fn goes_by_f16<I: Simd>(format: FloatFormat) -> bool {
    I::NARROWS_BY_F16 && format.mantissa_bits <= 3 && format.exponent_bits < 5 + u32::from(format.has_inf)
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByF16<V> {
    scale: V,
    odd: V,
    below: V,
    /// What overflow and Inf count as.
    limit: V,
    /// The code of NaN; without NaN, the float16 that it becomes.
    nan: V,
    /// The sign bit of the code, in each byte.
    sign: V,
}

impl<I: Simd, S: AsF32<I>, F: Family, const BITS: usize, const M: u32, const SCALES: bool> Codec<I>
    for ToNarrowByF16<S, F, BITS, M, SCALES>
{
    type From = S;
    const DST: usize = BITS;
    const FLOATS: bool = true;
    type Setup = ByF16<I::V>;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> ByF16<I::V> {
        let to = &job.narrow;
        let scale = ((127 - 14 - to.least) as u32) << 23;
        let odd = 1u32 << (24 - (10 - M).min(8));
        let nan = match job.policy.nan_to_finite {
            NanToFinite::NegZero => 1 << 15,
            NanToFinite::Max => u16::from(to.max) << (10 - M),
            NanToFinite::Zero => 0,
        };
        // SAFETY: the caller's promise.
        unsafe {
            ByF16 {
                scale: I::splat32(scale),
                odd: I::splat32(odd),
                below: I::splat32(odd - 1),
                limit: I::splat8(to.overflow),
                nan: if F::NAN { I::splat8(to.nan) } else { I::splat16(nan) },
                sign: I::splat8(to.sign),
            }
        }
    }

    #[inline(always)]
    unsafe fn block(k: &ByF16<I::V>, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let x = S::f32(src, ends);
            let y = registers!(4, K => {
                let y = if SCALES { I::mul_f32(x[K], k.scale) } else { x[K] };
                I::or(y, I::and(I::add32(y, k.below), k.odd))
            });
            let mut h = registers!(2, K => I::f32_to_cut_f16([y[2 * K], y[2 * K + 1]]));
            let number = I::splat16(0x7FFF);
            if !F::NAN {
                h = registers!(2, K => I::select_above16(I::and(h[K], number), I::splat16(0x7C00), k.nan, h[K]));
            }
            // The last bit of the code is that of the high byte.
            let codes = registers!(2, K => match M {
                3 => I::add16(h[K], h[K]),
                2 => I::and(h[K], number),
                _ => I::shr16::<1>(I::and(h[K], number)),
            });
            let code = I::nearest_high16(codes);
            let mut limited = I::min_u8(code, k.limit);
            if F::NAN {
                // Between the codes of Inf and of a quiet NaN.
                let above = 0x7Du8 << (M - 2);
                limited = I::select_above8(code, I::splat8(above), k.nan, limited);
            }
            store_codes::<I, BITS>(signed::<I, F>(limited, I::signs16(h), k.sign), ends, dst);
        }
    }
}

/// A code with the sign that is the top bit of `top`.
#[inline(always)]
unsafe fn signed<I: Simd, F: Family>(code: I::V, top: I::V, sign: I::V) -> I::V {
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

impl<I: Simd> Codec<I> for F16ToE5m2 {
    type From = F16;
    const DST: usize = 8;
    const FLOATS: bool = false;
    type Setup = I::V;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> I::V {
        // SAFETY: the caller's promise.
        unsafe { I::splat16(u16::from(job.narrow.overflow) << 8) }
    }

    #[inline(always)]
    unsafe fn block(&limit: &I::V, _: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let x = load16::<I>(src);
            let codes = registers!(2, K => {
                let a = I::and(x[K], I::splat16(0x7FFF));
                I::select_above16(a, I::splat16(0x7C00), I::splat16(0x7E00), I::min_u16(a, limit))
            });
            let code = I::nearest_high16(codes);
            I::store(dst, signed::<I, Signed>(code, I::signs16(x), I::splat8(0x80)));
        }
    }
}

/// The top bit of each byte, moved to where the sign of a 6- or 4-bit code is (`sign` has that bit).
#[inline(always)]
unsafe fn sign_of_finite<I: Simd>(top: I::V, sign: I::V) -> I::V {
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
unsafe fn narrow<I: Simd, F: Family, const MODES: bool>(k: &Narrow<I::V>, x: I::V) -> I::V {
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
