//! The reference model of the conversion contract: what the bits of a result are.
//!
//! It uses exact integer arithmetic only. A float format is a function from codes to exact values;
//! rounding searches the codes and then makes one exact comparison with a midpoint. Comments in
//! quotation marks quote the contract.

#![forbid(unsafe_code)]

mod cases;
mod exact;
mod loss;
pub mod packing;
pub mod scaled;
mod sweep;
mod types;

pub use cases::{interesting, modes};
pub use exact::Rounding;
pub use loss::{Loss, loss};
pub use sweep::{monotone_intervals, runs};
pub use types::Type;

use exact::{Dyadic, round_to_integer};
use types::{Format, Number, Specials, decode_integer, low_bits};

/// What an integer that does not fit becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    Saturate,
    Wrap,
}

impl Overflow {
    pub const ALL: [Overflow; 2] = [Overflow::Saturate, Overflow::Wrap];
}

/// What NaN becomes in the formats that have none (float4, float6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NanToFinite {
    NegZero,
    Max,
    Zero,
}

impl NanToFinite {
    pub const ALL: [NanToFinite; 3] = [NanToFinite::NegZero, NanToFinite::Max, NanToFinite::Zero];
}

/// How `float8_e8m0fnu` rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum E8m0Rounding {
    Up,
    Down,
    Nearest,
}

impl E8m0Rounding {
    pub const ALL: [E8m0Rounding; 3] =
        [E8m0Rounding::Up, E8m0Rounding::Down, E8m0Rounding::Nearest];
}

/// The options of the contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// Rounding to a float.
    pub rounding: Rounding,
    /// Rounding of a float to an integer.
    pub int_rounding: Rounding,
    /// Whether overflow saturates in floats of 8 bits or fewer.
    pub saturate: bool,
    pub float_to_int: Overflow,
    pub int_to_int: Overflow,
    pub nan_to_finite: NanToFinite,
    pub e8m0_rounding: E8m0Rounding,
    /// `int_rounding` for integers of fewer than 8 bits, where it differs.
    pub narrow_int_rounding: Option<Rounding>,
    /// `float_to_int` for integers of fewer than 8 bits, where it differs.
    pub narrow_float_to_int: Option<Overflow>,
}

impl Default for Mode {
    fn default() -> Mode {
        Mode {
            rounding: Rounding::NearestEven,    // "default nearest, ties to even"
            int_rounding: Rounding::TowardZero, // "default toward zero"
            saturate: true,                     // "the default, ONNX"
            float_to_int: Overflow::Saturate,   // "default; = Rust as, Arm, WebAssembly"
            int_to_int: Overflow::Wrap,         // "Wrap (default; low bits, two's complement)"
            nan_to_finite: NanToFinite::NegZero,
            e8m0_rounding: E8m0Rounding::Up, // "Up (default, ONNX)"
            narrow_int_rounding: None,       // "default: the same as the other integers"
            narrow_float_to_int: None,
        }
    }
}

impl Mode {
    /// "For targets of fewer than 8 bits alone `narrow_int_rounding` and `narrow_float_to_int` may
    /// say something else."
    fn int_rounding_for(&self, to: Type) -> Rounding {
        match self.narrow_int_rounding {
            Some(narrow) if to.bits() < 8 => narrow,
            _ => self.int_rounding,
        }
    }

    fn float_to_int_for(&self, to: Type) -> Overflow {
        match self.narrow_float_to_int {
            Some(narrow) if to.bits() < 8 => narrow,
            _ => self.float_to_int,
        }
    }
}

/// Returns the code of the result. A code is the bit pattern of an element, right-aligned; the real
/// part of a complex number is the low half, the imaginary part the high half. Bits of `code` above
/// the width of `from` are ignored.
pub fn convert(from: Type, to: Type, code: u128, mode: &Mode) -> u128 {
    let code = low_bits(code, from.bits());
    if from == to && from != Type::Bool {
        return code; // "Same dtype: the bits are copied, NaN payloads untouched"
    }
    let (re, im) = parts(from, code);
    if to == Type::Bool {
        // "complex: either part non-zero"; "bool is normalised"
        let either = is_true(from.part(), re) || from.is_complex() && is_true(from.part(), im);
        return either.into();
    }
    let convert_part = |code| convert_real(from.part(), to.part(), code, mode);
    match (from.is_complex(), to.is_complex()) {
        (_, false) => convert_part(re), // "complex -> real: the real part alone decides"
        (false, true) => convert_part(re), // "real -> complex: im = +0"
        (true, true) => convert_part(re) | convert_part(im) << (to.bits() / 2), // "part by part"
    }
}

/// Returns the codes of the real and the imaginary part; the latter is 0 for a real number.
fn parts(from: Type, code: u128) -> (u128, u128) {
    if from.is_complex() {
        let half = from.bits() / 2;
        (low_bits(code, half), code >> half)
    } else {
        (code, 0)
    }
}

/// "X -> bool: false for +-0 only; NaN, subnormals and every e8m0 code are true."
fn is_true(from: Type, code: u128) -> bool {
    match Number::decode(from, code) {
        Number::Nan { .. } | Number::Infinity { .. } => true,
        Number::Finite { magnitude, .. } => !magnitude.is_zero(),
    }
}

/// As `convert`, but neither dtype is complex, and `to` is not bool.
fn convert_real(from: Type, to: Type, code: u128, mode: &Mode) -> u128 {
    if from == to {
        return code; // "A part whose dtype does not change is copied bit for bit."
    }
    if to == Type::E8M0FNU {
        return to_e8m0(Number::decode(from, code), mode);
    }
    if let Some(format) = to.format() {
        return to_float(to, format, Number::decode(from, code), mode);
    }
    if from.is_float() {
        float_to_integer(to, Number::decode(from, code), mode)
    } else {
        integer_to_integer(to, decode_integer(from, code), mode)
    }
}

fn to_float(to: Type, format: Format, x: Number, mode: &Mode) -> u128 {
    if !format.has_sign() {
        return to_unsigned(to, format, x, mode);
    }
    to_signed(to, format, x, mode)
}

/// "float8_ue5m3: what is below zero is 00, or FF without saturation, in every mode; -0 is 00"; the
/// rest as in the formats with a sign.
fn to_unsigned(to: Type, format: Format, x: Number, mode: &Mode) -> u128 {
    let below = if mode.saturate { 0x00 } else { 0xFF };
    match x {
        Number::Nan { .. } => 0xFF,
        Number::Infinity { negative: true } => below,
        Number::Finite { magnitude, .. } if magnitude.is_zero() => 0x00,
        Number::Finite { negative: true, .. } => below,
        positive => to_signed(to, format, positive, mode),
    }
}

fn to_signed(to: Type, format: Format, x: Number, mode: &Mode) -> u128 {
    match x {
        Number::Nan { negative, fraction } => to_float_nan(to, format, negative, fraction, mode),
        // "A source +-Inf is not an overflow: it follows the saturate rules in every mode."
        Number::Infinity { negative } => beyond_max(to, format, negative, mode),
        Number::Finite {
            negative,
            magnitude,
        } => {
            let rounded = format.round(negative, magnitude, mode.rounding);
            if rounded <= format.max_finite() {
                // "a negative that underflows gives -0 where there is one"
                format.with_sign(negative, rounded)
            } else if mode.rounding.is_toward_zero(negative) {
                // "where the mode rounds toward zero for that sign, a finite overflow gives +-max,
                // saturate or not"
                format.with_sign(negative, format.max_finite())
            } else {
                beyond_max(to, format, negative, mode)
            }
        }
    }
}

/// Returns what Inf, or an overflow away from zero, becomes.
fn beyond_max(to: Type, format: Format, negative: bool, mode: &Mode) -> u128 {
    let max = format.with_sign(negative, format.max_finite());
    if format.specials == Specials::None {
        return max; // "Formats with neither Inf nor NaN (F4, F6): always clamp to +-max."
    }
    if to.bits() <= 8 && mode.saturate {
        return max; // "Targets of 8 bits or fewer with saturate = true: give +-max."
    }
    match format.infinity() {
        // "saturate = false: +-Inf where the format has it"; "Targets of 16 bits and more:
        // overflow gives +-Inf"
        Some(infinity) => format.with_sign(negative, infinity),
        // "else NaN with the sign (FNUZ: 80)"
        None => format.nan(negative),
    }
}

fn to_float_nan(to: Type, format: Format, negative: bool, fraction: u64, mode: &Mode) -> u128 {
    if !format.has_nan() {
        // "To F4/F6: option nan_to_finite = NegZero (default; code 8 / 20), Max (the positive max),
        // Zero; the NaN's own sign plays no part."
        return match mode.nan_to_finite {
            NanToFinite::NegZero => format.with_sign(true, 0),
            NanToFinite::Max => format.with_sign(false, format.max_finite()),
            NanToFinite::Zero => 0,
        };
    }
    let canonical = format.nan(negative);
    if to.bits() <= 8 {
        return canonical; // "To a format of 8 bits or fewer: its NaN code with the sign"
    }
    // "Between 16/32/64-bit floats: the sign is kept, the quiet bit set, the top payload bits kept."
    canonical | u128::from(fraction >> (64 - format.mantissa_bits))
}

/// The e8m0 table, row by row: "decided on the unrounded value, in this order".
fn to_e8m0(x: Number, mode: &Mode) -> u128 {
    let min = Dyadic::power_of_two(-127);
    let max = Dyadic::power_of_two(127);
    let saturated_else_nan = |saturated| if mode.saturate { saturated } else { 0xFF };
    match x {
        // "NaN | FF | FF"
        Number::Nan { .. } => 0xFF,
        // "x < 0, -Inf | 00 | FF"
        Number::Infinity { negative: true } => saturated_else_nan(0x00),
        Number::Finite {
            negative: true,
            magnitude,
        } if !magnitude.is_zero() => saturated_else_nan(0x00),
        // "+-0, 0 < x < 2^-127 | 00 | FF"
        Number::Finite { magnitude, .. } if magnitude < min => saturated_else_nan(0x00),
        // "x > 2^127, +Inf | FE | FF"
        Number::Infinity { negative: false } => saturated_else_nan(0xFE),
        Number::Finite { magnitude, .. } if magnitude > max => saturated_else_nan(0xFE),
        // "else e = floor(log2 x), f = x/2^e | e+127, plus 1 if (Up and f != 1) or (Nearest and
        // f >= 1.5) | same"
        Number::Finite { magnitude, .. } => {
            let e = magnitude.floor_log2();
            let plus_one = match mode.e8m0_rounding {
                E8m0Rounding::Up => magnitude != Dyadic::power_of_two(e),
                E8m0Rounding::Down => false,
                E8m0Rounding::Nearest => magnitude >= Dyadic::new(3, e - 1), // 1.5 * 2^e
            };
            (e + 127) as u128 + u128::from(plus_one)
        }
    }
}

fn float_to_integer(to: Type, x: Number, mode: &Mode) -> u128 {
    let (min, max) = to.integer_limits();
    let overflow = mode.float_to_int_for(to);
    match (x, overflow) {
        (Number::Nan { .. }, _) => 0, // "NaN to an integer: 0."
        // "Saturate: +-Inf to the limits"
        (Number::Infinity { negative: true }, Overflow::Saturate) => integer_code(to, min),
        (Number::Infinity { negative: false }, Overflow::Saturate) => integer_code(to, max),
        // "Wrap: NaN and Inf give 0"
        (Number::Infinity { .. }, Overflow::Wrap) => 0,
        (
            Number::Finite {
                negative,
                magnitude,
            },
            _,
        ) => {
            // "Round by int_rounding, then float_to_int"
            let rounded = round_to_integer(negative, magnitude, mode.int_rounding_for(to));
            match overflow {
                Overflow::Saturate => {
                    let limit = if negative { min } else { max }.unsigned_abs();
                    let clamped = rounded.min(Dyadic::new(limit, 0));
                    integer_code(to, signed(negative, clamped))
                }
                // "the low bits of the rounded value": multiples of 2^64 have none
                Overflow::Wrap if rounded.q >= 64 => 0,
                Overflow::Wrap => integer_code(to, signed(negative, rounded)),
            }
        }
    }
}

/// Returns the integer of this sign and magnitude, which must be below 2^127.
fn signed(negative: bool, magnitude: Dyadic) -> i128 {
    assert!(magnitude.is_zero() || (0..127).contains(&magnitude.floor_log2()));
    let magnitude = (magnitude.m << magnitude.q) as i128;
    if negative { -magnitude } else { magnitude }
}

fn integer_to_integer(to: Type, x: i128, mode: &Mode) -> u128 {
    match mode.int_to_int {
        // "Wrap (default; low bits, two's complement; 200i16 -> -56i8)"
        Overflow::Wrap => integer_code(to, x),
        Overflow::Saturate => {
            let (min, max) = to.integer_limits();
            integer_code(to, x.clamp(min, max))
        }
    }
}

/// Returns the low bits of an integer in two's complement, as many as `to` has.
fn integer_code(to: Type, x: i128) -> u128 {
    low_bits(x as u128, to.bits())
}
