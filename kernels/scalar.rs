//! The reference: what every element of every pair becomes, one at a time, in integer arithmetic.
//!
//! A cast is [`decode`] (code → exact [`Value`]) and then [`encode`] (value → code), which rounds once. Both are `const fn`, so
//! that tables can be computed from them at compile time. They use no floating-point operation, so that no rounding mode, FTZ
//! or DAZ of the caller reaches them.
//!
//! # Special values
//!
//! The table shows codes of the narrow formats on the left, and the f32 of the same value on the right. *Overflow from* is the smallest value
//! that does not round to the max under nearest-even; or, after "above", the tie that still rounds to it. Sources: IEEE 754-2019; OCP 8-bit
//! Floating Point (e4m3fn, e5m2); OCP Microscaling (e2m1, e2m3, e3m2, e8m0); arXiv 2206.02915 (fnuz); ml_dtypes (e3m4, e4m3, e4m3b11fnuz).
//!
//! | format | +0, −0 | min subnormal | min normal | max | overflow from | Inf | NaN out | NaN in |
//! |---|---|---|---|---|---|---|---|---|
//! | e2m1fn | 0, 8 | 1 = 3F000000 | 2 = 3F800000 | 7 = 40C00000 | 7 (40E00000) | – → 7 | – → 8 / 7 / 0 | – |
//! | e2m3fn | 00, 20 | 01 = 3E000000 | 08 = 3F800000 | 1F = 40F00000 | 7.75 (40F80000) | – → 1F | – → 20 / 1F / 00 | – |
//! | e3m2fn | 00, 20 | 01 = 3D800000 | 04 = 3E800000 | 1F = 41E00000 | 30 (41F00000) | – → 1F | – → 20 / 1F / 00 | – |
//! | e3m4 | 00, 80 | 01 = 3C800000 | 10 = 3E800000 | 6F = 41780000 | 15.75 (417C0000) | 70 | 78 | 71–7F |
//! | e4m3 | 00, 80 | 01 = 3B000000 | 08 = 3C800000 | 77 = 43700000 | 248 (43780000) | 78 | 7C | 79–7F |
//! | e4m3fn | 00, 80 | 01 = 3B000000 | 08 = 3C800000 | 7E = 43E00000 | above 464 (43E80000) | – → 7E / 7F | 7F | 7F |
//! | e4m3fnuz | 00, – | 01 = 3A800000 | 08 = 3C000000 | 7F = 43700000 | 248 (43780000) | – → 7F / 80 | 80 | 80 |
//! | e4m3b11fnuz | 00, – | 01 = 39000000 | 08 = 3A800000 | 7F = 41F00000 | 31 (41F80000) | – → 7F / 80 | 80 | 80 |
//! | e5m2 | 00, 80 | 01 = 37800000 | 04 = 38800000 | 7B = 47600000 | 61440 (47700000) | 7C | 7E | 7D–7F |
//! | e5m2fnuz | 00, – | 01 = 37000000 | 04 = 38000000 | 7F = 47600000 | 61440 (47700000) | – → 7F / 80 | 80 | 80 |
//! | e8m0fnu | –, – | – | 00 = 00400000 | FE = 7F000000 | above 2^127 | – → FE / FF | FF | FF |
//! | ue5m3 | 00, – | 01 = 37000000 | 08 = 38800000 | FE = 47E00000 | above 118784 (47E80000) | – → FE / FF | FF | FF |
//! | float16 | 0000, 8000 | 0001 = 33800000 | 0400 = 38800000 | 7BFF = 477FE000 | 65520 (477FF000) | 7C00 | 7E00 + payload | 7C01–7FFF |
//! | bfloat16 | 0000, 8000 | 0001 = 00010000 | 0080 = 00800000 | 7F7F = 7F7F0000 | 7F7F8000 | 7F80 | 7FC0 + payload | 7F81–7FFF |
//!
//! Where two results stand after an arrow, the first is with saturation, the second without. Three results are the choices of
//! [`NanToFinite`]. Inf and NaN take the sign of the source if the format has a sign.

use crate::formats::dtype::{DTYPES, DType, FloatFormat, IntFormat, Kind};
use crate::formats::list::dtypes;
use crate::formats::loss::Loss;
use crate::formats::options::{E8m0Rounding, NanToFinite, Overflow, Policy, Rounding};
use crate::formats::route::{Parts, Route, Work};

/// The exact value of an element, or of a part of it if it is complex.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) class: Class,
    pub(crate) negative: bool,
    /// For finite numbers, floor(log2 |x|).
    pub(crate) exponent: i32,
    /// For finite numbers, |x| / 2^exponent as a fixed-point number with 63 fraction bits, so the top bit is set. For NaN, the
    /// payload, from the top bit down.
    pub(crate) significand: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// ±0.
    Zero,
    /// Neither zero, Inf, nor NaN.
    Finite,
    Inf,
    NaN,
}

impl Value {
    pub(crate) const ZERO: Self = Self { class: Class::Zero, negative: false, exponent: 0, significand: 0 };

    /// ±magnitude * 2^scale, exactly.
    #[inline(always)]
    pub(crate) const fn exact(negative: bool, magnitude: u64, scale: i32) -> Self {
        if magnitude == 0 {
            return Self { negative, ..Self::ZERO };
        }
        let zeros = magnitude.leading_zeros();
        Self {
            class: Class::Finite,
            negative,
            exponent: scale + 63 - zeros as i32,
            significand: magnitude << zeros,
        }
    }

    const fn special(class: Class, negative: bool, payload: u64) -> Self {
        Self { class, negative, exponent: 0, significand: payload }
    }

    /// ±Inf.
    #[cfg(feature = "text")]
    pub(crate) const fn inf(negative: bool) -> Self {
        Self::special(Class::Inf, negative, 0)
    }

    /// A quiet NaN without payload.
    #[cfg(feature = "text")]
    pub(crate) const fn nan(negative: bool) -> Self {
        Self::special(Class::NaN, negative, 0)
    }

    /// A number between ±magnitude * 2^scale and the next multiple of 2^scale away from zero, for a target that has no value
    /// and no midpoint there. The magnitude is not zero, and is below 2^63.
    #[cfg(feature = "text")]
    pub(crate) const fn truncated(negative: bool, magnitude: u64, scale: i32) -> Self {
        let exact = Self::exact(negative, magnitude, scale);
        Self { significand: exact.significand | 1, ..exact }
    }

    const fn is_one(self) -> bool {
        !self.negative && self.exponent == 0 && self.significand == 1 << 63
    }

    /// Whether the value is below zero.
    pub(crate) const fn is_negative(self) -> bool {
        self.negative && !matches!(self.class, Class::Zero)
    }

    /// Returns |x| truncated to a multiple of 2^ulp, in units of 2^ulp, and what was cut off, in units of 2^-64 of that. A fraction too small
    /// for 64 bits is rounded up to the smallest one, which decides every rounding in the same way. The value must be below 2^(ulp + 64).
    #[inline(always)]
    const fn split(self, ulp: i32) -> (u64, u64) {
        let cut = ulp - self.exponent + 63;
        if cut < 64 {
            // In two shifts, because nothing may be shifted by 64.
            (self.significand >> cut, (self.significand << 1) << (63 - cut))
        } else {
            (0, if cut == 64 { self.significand } else { 1 })
        }
    }
}

/// A rounding mode as numbers: a magnitude of `whole` units and `fraction` / 2^64 of a unit rounds up if the fraction is above
/// a limit, which depends on the sign and on whether `whole` is odd.
#[derive(Clone, Copy)]
struct Thresholds {
    positive: u64,
    negative: u64,
    /// 1 if the limit of an odd `whole` is lower by one.
    even: u64,
}

impl Thresholds {
    #[inline(always)]
    const fn of(rounding: Rounding) -> Self {
        const HALF: u64 = 1 << 63;
        let (positive, negative) = match rounding {
            Rounding::NearestEven => (HALF, HALF),
            Rounding::NearestAway => (HALF - 1, HALF - 1),
            Rounding::TowardZero => (u64::MAX, u64::MAX),
            Rounding::Up => (0, u64::MAX),
            Rounding::Down => (u64::MAX, 0),
        };
        Self { positive, negative, even: matches!(rounding, Rounding::NearestEven) as u64 }
    }

    #[inline(always)]
    const fn limit(self, negative: bool) -> u64 {
        if negative { self.negative } else { self.positive }
    }

    #[inline(always)]
    const fn rounds_up(self, negative: bool, whole: u64, fraction: u64) -> bool {
        fraction > self.limit(negative) - (whole & self.even)
    }

    /// Whether no fraction of this sign rounds up.
    #[inline(always)]
    const fn truncates(self, negative: bool) -> bool {
        self.limit(negative) == u64::MAX
    }
}

/// Whether a magnitude of `whole` units and `fraction` / 2^64 of a unit rounds up to the next unit.
#[cfg(feature = "text")]
pub(crate) const fn rounds_up(rounding: Rounding, negative: bool, whole: u64, fraction: u64) -> bool {
    Thresholds::of(rounding).rounds_up(negative, whole, fraction)
}

/// Returns the value of a code. Complex dtypes have no code of their own, but their parts do.
#[inline(always)]
pub(crate) const fn decode(dtype: DType, code: u64) -> Value {
    match dtype.kind() {
        Kind::Bool => Value::exact(false, (code != 0) as u64, 0),
        Kind::Int(format) => decode_int(format, code),
        Kind::Float(format) | Kind::Complex(format) => decode_float(format, code),
    }
}

/// Returns the code of what `dtype` has nearest to a value, by the rules of `policy`.
#[inline(always)]
pub(crate) const fn encode(dtype: DType, value: Value, policy: &Policy) -> u64 {
    match dtype.kind() {
        Kind::Bool => !matches!(value.class, Class::Zero) as u64,
        Kind::Int(format) => encode_int(format, value, policy),
        Kind::Float(format) | Kind::Complex(format) => encode_float(format, value, policy),
    }
}

#[inline(always)]
const fn decode_int(format: IntFormat, code: u64) -> Value {
    let unused = 64 - format.bits;
    let top = (code << unused) as i64;
    let negative = format.signed && top < 0;
    let magnitude = if negative { (top >> unused).unsigned_abs() } else { code };
    Value::exact(negative, magnitude, 0)
}

/// NaN becomes 0. ±Inf become the limits, or 0 when wrapping. Everything else is first rounded to an integer, and then
/// saturated to the range or truncated to the low bits.
#[inline(always)]
const fn encode_int(format: IntFormat, value: Value, policy: &Policy) -> u64 {
    let mask = u64::MAX >> (64 - format.bits);
    let wraps = matches!(policy.overflow, Overflow::Wrap);
    // The magnitude of the result, truncated to 64 bits when wrapping.
    let magnitude = match value.class {
        Class::Zero | Class::NaN => return 0,
        Class::Inf => {
            if wraps {
                return 0;
            }
            u64::MAX
        }
        Class::Finite if value.exponent <= 63 => {
            let (whole, fraction) = value.split(0);
            // No overflow: a value with a fraction is below 2^63.
            whole + Thresholds::of(policy.rounding).rounds_up(value.negative, whole, fraction) as u64
        }
        Class::Finite if !wraps => u64::MAX,
        Class::Finite if value.exponent < 127 => value.significand << (value.exponent - 63),
        Class::Finite => 0,
    };
    if wraps {
        return (if value.negative { magnitude.wrapping_neg() } else { magnitude }) & mask;
    }
    let max = mask >> format.signed as u32;
    if !value.negative {
        if magnitude < max { magnitude } else { max }
    } else if !format.signed {
        0
    } else {
        let limit = max + 1;
        (if magnitude < limit { magnitude } else { limit }).wrapping_neg() & mask
    }
}

/// Decodes as the table of special values above says. NaN keeps its sign, and in formats of more than 8 bits its payload; the
/// one NaN of the fnuz formats is negative, that of e8m0 is positive.
#[inline(always)]
pub(crate) const fn decode_float(format: FloatFormat, code: u64) -> Value {
    let negative = code & format.sign_bit() != 0;
    let magnitude = code & !format.sign_bit();
    let mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    let exponent = (magnitude >> format.mantissa_bits) as i32;
    if magnitude > format.max_code() {
        if format.has_inf && mantissa == 0 {
            return Value::special(Class::Inf, negative, 0);
        }
        let payload = if format.bits() > 8 { mantissa << (64 - format.mantissa_bits) } else { 0 };
        return Value::special(Class::NaN, negative, payload);
    }
    if !format.has_zero() {
        return Value::exact(false, 1, exponent - format.bias);
    }
    if format.has_sign && !format.has_neg_zero && code == format.sign_bit() {
        return Value::special(Class::NaN, true, 0);
    }
    let ulp = format.min_exponent() - format.mantissa_bits as i32;
    if exponent == 0 {
        return Value::exact(negative, mantissa, ulp);
    }
    // As `Value::exact` of the mantissa with its hidden bit, whose place is known here.
    Value {
        class: Class::Finite,
        negative,
        exponent: exponent - format.bias,
        significand: (1 << 63) | mantissa << (63 - format.mantissa_bits),
    }
}

/// Rounds once, to the format as if it continued past its max; what is above the max then is overflow.
///
/// A code without its sign counts the values from zero up, so the rounded magnitude in units of the binade's ulp, plus `2^mantissa_bits`
/// for each binade below, *is* the code: a carry out of the mantissa goes into the exponent, and subnormals need no case of their own.
#[inline(always)]
pub(crate) const fn encode_float(format: FloatFormat, value: Value, policy: &Policy) -> u64 {
    if !format.has_zero() {
        return encode_e8m0(format, value, policy);
    }
    if !format.has_sign && value.is_negative() && !matches!(value.class, Class::NaN) {
        return below_zero(format, policy.saturate);
    }
    let limits = Thresholds::of(policy.rounding);
    let sign = if value.negative { format.sign_bit() } else { 0 };
    let max = format.max_code();
    let magnitude = match value.class {
        Class::NaN => return encode_nan(format, value, policy),
        Class::Inf => overflow(format, policy.saturate),
        Class::Zero => 0,
        Class::Finite => {
            let least = format.min_exponent();
            let exponent = if value.exponent < least { least } else { value.exponent };
            let (whole, fraction) = value.split(exponent - format.mantissa_bits as i32);
            let rounded = whole + limits.rounds_up(value.negative, whole, fraction) as u64;
            let code = (((exponent - least) as u64) << format.mantissa_bits) + rounded;
            if code <= max {
                code
            } else if limits.truncates(value.negative) {
                max
            } else {
                overflow(format, policy.saturate)
            }
        }
    };
    with_sign(format, sign, magnitude)
}

/// Makes a code of a sign and a magnitude, as far as a format has these.
#[inline(always)]
const fn with_sign(format: FloatFormat, sign: u64, magnitude: u64) -> u64 {
    if format.has_neg_zero || !format.has_sign {
        magnitude | sign
    } else if magnitude > format.max_code() {
        format.sign_bit() // the fnuz NaN
    } else if magnitude == 0 {
        0
    } else {
        magnitude | sign
    }
}

/// Whether a word, plus what a value has below a unit of `2^ulp`, in units of 2^-32 of that unit, carries into another unit.
const fn carries(value: Value, ulp: i32, word: u32) -> bool {
    // Below 2^-64 of a unit, `split` keeps only one bit.
    let cut = ulp - value.exponent + 63;
    let top = match cut {
        ..=64 => value.split(ulp).1 >> 32,
        65..=95 => value.significand >> (cut - 32),
        _ => 0,
    };
    top + word as u64 >= 1 << 32
}

/// The code of what is below zero in a format without a sign: 0, or NaN.
const fn below_zero(format: FloatFormat, saturate: bool) -> u64 {
    if saturate { 0 } else { format.max_code() + 1 }
}

/// As [`encode`] to a float that has a zero, but a value between two codes may become the upper one by chance: if the fraction
/// of the way to it, in units of 2^-32, and a random word are 2^32 or more together.
pub(crate) const fn encode_stochastic(dtype: DType, value: Value, policy: &Policy, word: u32) -> u64 {
    let Kind::Float(format) = dtype.kind() else { return encode(dtype, value, policy) };
    if !matches!(value.class, Class::Finite) || (!format.has_sign && value.negative) {
        return encode(dtype, value, policy);
    }
    let least = format.min_exponent();
    let exponent = if value.exponent < least { least } else { value.exponent };
    let ulp = exponent - format.mantissa_bits as i32;
    let rounded = value.split(ulp).0 + carries(value, ulp, word) as u64;
    let code = (((exponent - least) as u64) << format.mantissa_bits) + rounded;
    let magnitude = if code <= format.max_code() { code } else { overflow(format, policy.saturate) };
    with_sign(format, if value.negative { format.sign_bit() } else { 0 }, magnitude)
}

/// The code, without sign, of what is too large: the max, or the code after it, which is Inf if the format has one, and NaN if not.
pub(crate) const fn overflow(format: FloatFormat, saturate: bool) -> u64 {
    let clamps = !format.has_nan || (saturate && format.bits() <= 8);
    format.max_code() + !clamps as u64
}

/// NaN keeps its sign and is made quiet; formats of more than 8 bits keep the top bits of the payload.
const fn encode_nan(format: FloatFormat, value: Value, policy: &Policy) -> u64 {
    let sign = if value.negative { format.sign_bit() } else { 0 };
    if !format.has_nan {
        match policy.nan_to_finite {
            NanToFinite::NegZero => format.sign_bit(),
            NanToFinite::Max => format.max_code(),
            NanToFinite::Zero => 0,
        }
    } else if format.has_sign && !format.has_neg_zero {
        format.sign_bit()
    } else if !format.has_inf {
        sign | (format.max_code() + 1)
    } else if format.bits() <= 8 {
        sign | (format.max_code() + 1) | format.quiet_bit()
    } else {
        let payload = value.significand >> (64 - format.mantissa_bits);
        sign | (format.max_code() + 1) | format.quiet_bit() | payload
    }
}

/// float8_e8m0fnu: powers of two, no zero, no sign. The order of the tests is the contract's.
///
/// | x | saturate | no saturate |
/// |---|---|---|
/// | NaN | FF | FF |
/// | x < 0 | 00 | FF |
/// | ±0, below 2^-127 (00400000 as f32) | 00 | FF |
/// | above 2^127 (7F000000), +Inf | FE | FF |
/// | else | by the rounding | the same |
#[inline(always)]
const fn encode_e8m0(format: FloatFormat, value: Value, policy: &Policy) -> u64 {
    const ONE: u64 = 1 << 63;
    const ONE_AND_A_HALF: u64 = 3 << 62;
    let max = format.max_code();
    let nan = max + 1;
    let (below, above) = if policy.saturate { (0, max) } else { (nan, nan) };
    match value.class {
        Class::NaN => nan,
        Class::Zero => below,
        _ if value.negative => below,
        Class::Inf => above,
        Class::Finite if value.exponent < -format.bias => below,
        Class::Finite => {
            let code = (value.exponent + format.bias) as u64;
            if code > max || (code == max && value.significand != ONE) {
                return above;
            }
            let up = match policy.e8m0_rounding {
                E8m0Rounding::Up => value.significand != ONE,
                E8m0Rounding::Down => false,
                E8m0Rounding::Nearest => value.significand >= ONE_AND_A_HALF,
            };
            code + up as u64
        }
    }
}

/// What a conversion to `dtype` loses of a value, by the definitions in the contract's section on checked casts. This is decided
/// before saturation and wrapping, which only say what stands in for a lost value. For stochastic rounding, `word` decides.
pub(crate) const fn loss(dtype: DType, value: Value, policy: &Policy, word: Option<u32>) -> Option<Loss> {
    let beyond = if value.negative { Loss::Below } else { Loss::Above };
    match (dtype.kind(), value.class) {
        (Kind::Bool, Class::Zero) => None,
        (Kind::Bool, Class::Finite) if value.is_one() => None,
        (Kind::Bool, _) => Some(Loss::Inexact),
        (Kind::Int(_), Class::Zero) => None,
        (Kind::Int(_), Class::NaN) => Some(Loss::NaN),
        (Kind::Int(_), Class::Inf) => Some(Loss::Inf),
        (Kind::Int(_), Class::Finite) if value.exponent > 63 => Some(beyond),
        (Kind::Int(format), Class::Finite) => {
            let (whole, fraction) = value.split(0);
            // No overflow: a value with a fraction is below 2^63.
            let magnitude =
                whole + Thresholds::of(policy.rounding).rounds_up(value.negative, whole, fraction) as u64;
            let max = u64::MAX >> (64 - format.bits) >> format.signed as u32;
            let limit = match (value.negative, format.signed) {
                (false, _) => max,
                (true, true) => max + 1,
                (true, false) => 0,
            };
            if magnitude > limit { Some(beyond) } else { inexact(fraction != 0) }
        }
        (Kind::Float(format) | Kind::Complex(format), Class::NaN) if format.has_nan => None,
        (Kind::Float(_) | Kind::Complex(_), Class::NaN) => Some(Loss::NaN),
        (Kind::Float(format) | Kind::Complex(format), Class::Inf) => {
            let holds = format.has_inf && overflow(format, policy.saturate) > format.max_code();
            if holds { None } else { Some(Loss::Inf) }
        }
        (Kind::Float(format), class) if !format.has_zero() => {
            if matches!(class, Class::Zero) || value.negative || value.exponent < -format.bias {
                return Some(Loss::Below);
            }
            let (code, is_power) = ((value.exponent + format.bias) as u64, value.significand == 1 << 63);
            let max = format.max_code();
            if code > max || (code == max && !is_power) { Some(Loss::Above) } else { inexact(!is_power) }
        }
        (Kind::Float(_) | Kind::Complex(_), Class::Zero) => None,
        (Kind::Float(format), Class::Finite) if !format.has_sign && value.negative => Some(Loss::Below),
        (Kind::Float(format) | Kind::Complex(format), Class::Finite) => {
            // As `encode_float`.
            let least = format.min_exponent();
            let exponent = if value.exponent < least { least } else { value.exponent };
            let ulp = exponent - format.mantissa_bits as i32;
            let (whole, fraction) = value.split(ulp);
            let carries = match word {
                Some(word) => carries(value, ulp, word),
                None => Thresholds::of(policy.rounding).rounds_up(value.negative, whole, fraction),
            };
            let rounded = whole + carries as u64;
            let code = (((exponent - least) as u64) << format.mantissa_bits) + rounded;
            if code > format.max_code() { Some(beyond) } else { inexact(fraction != 0) }
        }
    }
}

const fn inexact(is: bool) -> Option<Loss> {
    if is { Some(Loss::Inexact) } else { None }
}

/// Casts one element: from the codes of its parts to the codes of the parts of the result.
#[inline(always)]
pub(crate) const fn convert(route: &Route, [re, im]: [u64; 2]) -> [u64; 2] {
    let re = part(route, re);
    match route.parts {
        Parts::One | Parts::Real | Parts::Extend => [re, 0],
        Parts::Two => [re, part(route, im)],
        Parts::Either => [re | part(route, im), 0],
    }
}

/// As [`convert`], for a stochastic route, whose target is real, with the random word of the element.
pub(crate) const fn convert_stochastic(route: &Route, [re, _]: [u64; 2], word: u32) -> [u64; 2] {
    [encode_stochastic(route.to, decode(route.from, re), &route.policy, word), 0]
}

#[inline(always)]
const fn part(route: &Route, code: u64) -> u64 {
    match route.work {
        Work::Copy | Work::Keep => code,
        Work::Convert => encode(route.to, decode(route.from, code), &route.policy),
    }
}

/// Decodes a run of codes of one dtype.
pub(crate) type Decode = fn(&[u64], &mut [Value]);
/// Encodes a run of values to one dtype.
pub(crate) type Encode = fn(&[Value], &mut [u64], &Policy);

fn decode_all<const CODE: u8>(codes: &[u64], values: &mut [Value]) {
    for (value, &code) in values.iter_mut().zip(codes) {
        *value = decode(DType::ALL[CODE as usize], code);
    }
}

fn encode_all<const CODE: u8>(values: &[Value], codes: &mut [u64], policy: &Policy) {
    for (code, &value) in codes.iter_mut().zip(values) {
        *code = encode(DType::ALL[CODE as usize], value, policy);
    }
}

macro_rules! tables {
    ($($variant:ident = $code:literal, $name:literal, $element:ty, $kind:expr;)*) => {
        /// The decoders by dtype. That of a complex dtype decodes a part.
        pub(crate) static DECODE: [Decode; DTYPES] = [$(decode_all::<$code>),*];
        /// The encoders by dtype. That of a complex dtype encodes a part.
        pub(crate) static ENCODE: [Encode; DTYPES] = [$(encode_all::<$code>),*];
    };
}
dtypes!(tables);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::options::CastOptions;
    use crate::formats::route::route;

    const fn const_table() -> [u8; 256] {
        let route = route(DType::F8E5M2, DType::F8E4M3FN, &CastOptions::new());
        let mut table = [0; 256];
        let mut code = 0;
        while code < 256 {
            table[code] = convert(&route, [code as u64, 0])[0] as u8;
            code += 1;
        }
        table
    }

    #[test]
    fn lookup_tables_can_be_computed_at_compile_time() {
        static TABLE: [u8; 256] = const_table();
        assert_eq!((TABLE[0x3C], TABLE[0x7B], TABLE[0x7E], TABLE[0x80]), (0x38, 0x7E, 0x7F, 0x80));
    }

    /// Checks the table of special values in the module's docs against the functions.
    #[test]
    fn documented_special_values_hold() {
        let doc = include_str!("scalar.rs");
        let mut rows = 0;
        for line in doc.lines().filter(|l| l.starts_with("//! | ") && l.contains(" = ")) {
            let cells: Vec<&str> = line.trim_start_matches("//! |").split('|').map(str::trim).collect();
            let name = cells[0];
            let dtype = DType::ALL
                .into_iter()
                .find(|t| t.name() == name || t.name().split_once('_').is_some_and(|(_, n)| n == name))
                .expect(name);
            for cell in &cells[2..5] {
                let Some((code, f32_bits)) = cell.split_once(" = ") else { continue };
                let code = u64::from_str_radix(code, 16).unwrap();
                let bits = u64::from_str_radix(f32_bits, 16).unwrap();
                let widened = encode(DType::F32, decode(dtype, code), &Policy::DEFAULT);
                assert_eq!(widened, bits, "{name} {code:02x}");
                assert_eq!(encode(dtype, decode(DType::F32, bits), &Policy::DEFAULT), code, "{name}");
            }
            let format = dtype.float_format().unwrap();
            let hex = |s: &str| u64::from_str_radix(s, 16).unwrap();
            let max = hex(cells[4].split_once(" = ").unwrap().0);
            assert_eq!(max, format.max_code(), "{name}");
            let open = Policy { saturate: false, ..Policy::DEFAULT };
            let past_max = format.max_code() + u64::from(format.has_nan);
            // A threshold in brackets is an f32. The number just below it still rounds to the max.
            if let Some((_, threshold)) = cells[5].split_once('(') {
                let above = u64::from(cells[5].starts_with("above"));
                let threshold = hex(threshold.trim_end_matches(')')) + above;
                let to = |bits| encode(dtype, decode(DType::F32, bits), &open);
                assert_eq!(to(threshold - 1), max, "{name}");
                let nan = if format.has_neg_zero || !format.has_sign { past_max } else { format.sign_bit() };
                assert_eq!(to(threshold), if format.has_nan { nan } else { max }, "{name}");
            }
            rows += 1;
        }
        assert_eq!(
            rows,
            DType::ALL.iter().filter(|t| t.float_format().is_some_and(|f| f.bits() <= 16)).count()
        );
    }
}
