//! The dtypes and what their codes mean, after the table of the contract.

use crate::exact::{Dyadic, Rounding};

/// Defines the dtypes, one line each: its name here, its canonical name, the bits of an element, its class.
macro_rules! types {
    ($($t:ident, $name:literal, $bits:literal, $class:expr;)*) => {
        /// A dtype. The order is that of the codes of the contract.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Type {
            $($t,)*
        }

        impl Type {
            pub const ALL: [Type; [$($bits),*].len()] = [$(Type::$t),*];

            /// The canonical name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Type::$t => $name,)*
                }
            }

            /// The number of bits of an element.
            pub fn bits(self) -> u32 {
                match self {
                    $(Type::$t => $bits,)*
                }
            }

            fn class(self) -> Class {
                match self {
                    $(Type::$t => $class,)*
                }
            }
        }
    };
}

types! {
    Bool, "bool", 8, Class::Bool;
    U2, "uint2", 2, Class::Unsigned;
    I2, "int2", 2, Class::Signed;
    U4, "uint4", 4, Class::Unsigned;
    I4, "int4", 4, Class::Signed;
    U8, "uint8", 8, Class::Unsigned;
    I8, "int8", 8, Class::Signed;
    U16, "uint16", 16, Class::Unsigned;
    I16, "int16", 16, Class::Signed;
    U32, "uint32", 32, Class::Unsigned;
    I32, "int32", 32, Class::Signed;
    U64, "uint64", 64, Class::Unsigned;
    I64, "int64", 64, Class::Signed;
    E2M1FN, "float4_e2m1fn", 4, float(2, 1, 1, Specials::None);
    E2M3FN, "float6_e2m3fn", 6, float(2, 3, 1, Specials::None);
    E3M2FN, "float6_e3m2fn", 6, float(3, 2, 3, Specials::None);
    E3M4, "float8_e3m4", 8, float(3, 4, 3, Specials::InfAndNan);
    E4M3, "float8_e4m3", 8, float(4, 3, 7, Specials::InfAndNan);
    E4M3FN, "float8_e4m3fn", 8, float(4, 3, 7, Specials::NanAllOnes);
    E4M3FNUZ, "float8_e4m3fnuz", 8, float(4, 3, 8, Specials::NanInsteadOfNegativeZero);
    E4M3B11FNUZ, "float8_e4m3b11fnuz", 8, float(4, 3, 11, Specials::NanInsteadOfNegativeZero);
    E5M2, "float8_e5m2", 8, float(5, 2, 15, Specials::InfAndNan);
    E5M2FNUZ, "float8_e5m2fnuz", 8, float(5, 2, 16, Specials::NanInsteadOfNegativeZero);
    E8M0FNU, "float8_e8m0fnu", 8, Class::Power;
    F16, "float16", 16, float(5, 10, 15, Specials::InfAndNan);
    BF16, "bfloat16", 16, float(8, 7, 127, Specials::InfAndNan);
    F32, "float32", 32, float(8, 23, 127, Specials::InfAndNan);
    F64, "float64", 64, float(11, 52, 1023, Specials::InfAndNan);
    C64, "complex64", 64, Class::Complex(F32);
    C128, "complex128", 128, Class::Complex(F64);
    U1, "uint1", 1, Class::Unsigned;
    I1, "int1", 1, Class::Signed;
    UE5M3, "float8_ue5m3", 8, float(5, 3, 15, Specials::NanAllOnesNoSign);
    C32, "complex32", 32, Class::Complex(F16);
    BC32, "bcomplex32", 32, Class::Complex(BF16);
}

use Type::*;

/// The kind of an element.
enum Class {
    Bool,
    Unsigned,
    Signed,
    Float(Format),
    /// A power of two, or NaN.
    Power,
    /// Two parts of this dtype.
    Complex(Type),
}

fn float(exponent_bits: u32, mantissa_bits: u32, bias: i32, specials: Specials) -> Class {
    Class::Float(Format {
        exponent_bits,
        mantissa_bits,
        bias,
        specials,
    })
}

impl Type {
    /// Returns the dtype of a canonical name.
    pub fn from_name(name: &str) -> Option<Type> {
        Type::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Whether this is a real floating-point dtype, `float8_e8m0fnu` included.
    pub fn is_float(self) -> bool {
        matches!(self.class(), Class::Float(_) | Class::Power)
    }

    /// Whether this is a signed or unsigned integer; bool is not.
    pub fn is_integer(self) -> bool {
        self.is_unsigned_integer() || self.is_signed_integer()
    }

    pub fn is_unsigned_integer(self) -> bool {
        matches!(self.class(), Class::Unsigned)
    }

    pub fn is_signed_integer(self) -> bool {
        matches!(self.class(), Class::Signed)
    }

    pub fn is_complex(self) -> bool {
        matches!(self.class(), Class::Complex(_))
    }

    /// Returns the dtype of the parts of a complex dtype, and any other dtype itself.
    pub fn part(self) -> Type {
        match self.class() {
            Class::Complex(part) => part,
            _ => self,
        }
    }

    /// Whether the code is a NaN, or either part of a complex one is.
    pub fn is_nan_code(self, code: u128) -> bool {
        let code = low_bits(code, self.bits());
        if self.is_complex() {
            let half = self.bits() / 2;
            return self.part().is_nan_code(code) || self.part().is_nan_code(code >> half);
        }
        self.is_float() && matches!(Number::decode(self, code), Number::Nan { .. })
    }

    /// Returns the layout of sign, exponent and mantissa, or `None` for a dtype without them.
    pub(crate) fn format(self) -> Option<Format> {
        match self.class() {
            Class::Float(format) => Some(format),
            _ => None,
        }
    }

    /// Returns the smallest and the largest value of an integer dtype.
    pub(crate) fn integer_limits(self) -> (i128, i128) {
        let bits = self.bits();
        if self.is_signed_integer() {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            assert!(self.is_unsigned_integer());
            (0, (1 << bits) - 1)
        }
    }
}

/// The low `bits` bits of `code`.
pub(crate) fn low_bits(code: u128, bits: u32) -> u128 {
    if bits == 128 {
        code
    } else {
        code & ((1 << bits) - 1)
    }
}

/// Which codes of a float are not numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Specials {
    /// IEEE 754: the top exponent field is Inf (mantissa zero) and NaN (mantissa not zero).
    InfAndNan,
    /// "fn": no Inf; the code with all magnitude bits set is NaN.
    NanAllOnes,
    /// "fnuz": no Inf, no -0; the code of -0 is the only NaN.
    NanInsteadOfNegativeZero,
    /// No sign bit and no Inf; the code with all bits set is NaN.
    NanAllOnesNoSign,
    /// Every code is a number.
    None,
}

/// A format with sign (if any), exponent and mantissa, in this order from the most significant bit.
///
/// A *magnitude* is a code without its sign bit. Magnitudes do not stop at the top of the format:
/// [`Format::value`] goes on as if the exponent field had more bits, because "overflow is decided
/// on the value after rounding with unbounded exponent".
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub exponent_bits: u32,
    pub mantissa_bits: u32,
    pub bias: i32,
    pub specials: Specials,
}

impl Format {
    /// Returns the value of a magnitude. Exponent field 0 has no hidden bit and the exponent of field 1.
    pub fn value(self, magnitude: u64) -> Dyadic {
        let field = magnitude >> self.mantissa_bits;
        let mantissa = magnitude & self.mantissa_mask();
        let hidden = 1 << self.mantissa_bits;
        let ulp = |field: u64| field as i32 - self.bias - self.mantissa_bits as i32;
        if field == 0 {
            Dyadic::new(mantissa.into(), ulp(1))
        } else {
            Dyadic::new((hidden | mantissa).into(), ulp(field))
        }
    }

    pub fn mantissa_mask(self) -> u64 {
        (1 << self.mantissa_bits) - 1
    }

    pub fn magnitude_bits(self) -> u32 {
        self.exponent_bits + self.mantissa_bits
    }

    /// Returns the magnitude of Inf, if there is one: top exponent field, mantissa zero.
    pub fn infinity(self) -> Option<u64> {
        (self.specials == Specials::InfAndNan)
            .then(|| ((1 << self.exponent_bits) - 1) << self.mantissa_bits)
    }

    /// Returns the magnitude of the largest finite number.
    pub fn max_finite(self) -> u64 {
        let all_ones = (1 << self.magnitude_bits()) - 1;
        match self.specials {
            Specials::InfAndNan => (((1 << self.exponent_bits) - 1) << self.mantissa_bits) - 1,
            Specials::NanAllOnes | Specials::NanAllOnesNoSign => all_ones - 1,
            Specials::NanInsteadOfNegativeZero | Specials::None => all_ones,
        }
    }

    pub fn has_sign(self) -> bool {
        self.specials != Specials::NanAllOnesNoSign
    }

    pub fn has_nan(self) -> bool {
        self.specials != Specials::None
    }

    /// Returns the code of a magnitude with a sign. "-0 is kept where the target has it, else it
    /// becomes 0."
    pub fn with_sign(self, negative: bool, magnitude: u64) -> u128 {
        assert!(self.has_sign() || !negative, "there is no sign");
        let no_negative_zero = self.specials == Specials::NanInsteadOfNegativeZero;
        if !negative || (magnitude == 0 && no_negative_zero) {
            magnitude.into()
        } else {
            1 << self.magnitude_bits() | u128::from(magnitude)
        }
    }

    /// Returns the canonical (quiet) NaN with a sign. "Its NaN code with the sign (e4m3fn 7F, e5m2 7E,
    /// e4m3 7C, e3m4 78; FNUZ 80)."
    pub fn nan(self, negative: bool) -> u128 {
        match self.specials {
            Specials::InfAndNan => {
                let top_exponent = ((1 << self.exponent_bits) - 1) << self.mantissa_bits;
                let quiet = 1 << (self.mantissa_bits - 1);
                self.with_sign(negative, top_exponent | quiet)
            }
            Specials::NanAllOnes => self.with_sign(negative, (1 << self.magnitude_bits()) - 1),
            Specials::NanAllOnesNoSign => (1 << self.magnitude_bits()) - 1,
            Specials::NanInsteadOfNegativeZero => 1 << self.magnitude_bits(),
            Specials::None => panic!("this format has no NaN"),
        }
    }

    /// Returns the largest magnitude whose value is `<= x`: `x` truncated to units in the last place,
    /// whose size follows from the exponent of `x`. Asserts that the result meets this definition.
    pub fn lower_neighbour(self, x: Dyadic) -> u64 {
        if x.is_zero() {
            return 0;
        }
        let field = (x.floor_log2() + self.bias).max(0) as u64;
        let first = self.value(field << self.mantissa_bits);
        let lower = (field << self.mantissa_bits) + (x.units(first.q) - first.m) as u64;
        assert!(self.value(lower) <= x && x < self.value(lower + 1));
        lower
    }

    /// Rounds `x` to a magnitude, with unbounded exponent: "The exact source value is rounded once".
    pub fn round(self, negative: bool, x: Dyadic, rounding: Rounding) -> u64 {
        let lower = self.lower_neighbour(x);
        let (below, above) = (self.value(lower), self.value(lower + 1));
        let middle = Dyadic::midpoint(below, above);
        // The last mantissa bit is the last bit of the code.
        let up = rounding.picks_successor(negative, x, below, middle, lower % 2 == 1);
        lower + u64::from(up)
    }
}

/// What the code of a real element stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// `fraction` is the mantissa field with the quiet bit set, moved to the top of the 64 bits.
    Nan { negative: bool, fraction: u64 },
    /// Plus or minus infinity.
    Infinity { negative: bool },
    /// `negative` is also the sign of a zero.
    Finite { negative: bool, magnitude: Dyadic },
}

impl Number {
    /// Returns the meaning of a code, whose bits above the dtype's width must be zero.
    pub fn decode(from: Type, code: u128) -> Number {
        const QUIET: u64 = 1 << 63;
        if let Some(format) = from.format() {
            let negative = format.has_sign() && code >> format.magnitude_bits() != 0;
            let magnitude = low_bits(code, format.magnitude_bits()) as u64;
            if format.specials == Specials::NanInsteadOfNegativeZero && code == format.nan(true) {
                // "FNUZ 80 is a negative NaN."
                let (negative, fraction) = (true, QUIET);
                return Number::Nan { negative, fraction };
            }
            if magnitude <= format.max_finite() {
                let magnitude = format.value(magnitude);
                return Number::Finite {
                    negative,
                    magnitude,
                };
            }
            if format.infinity() == Some(magnitude) {
                return Number::Infinity { negative };
            }
            // "Between 16/32/64-bit floats: the sign is kept, the quiet bit set, the top payload
            // bits kept." "From a format of 8 bits or fewer: the canonical quiet NaN with the sign
            // bit of the code."
            let field = magnitude & format.mantissa_mask();
            let payload = match from.bits() {
                16.. => field << (64 - format.mantissa_bits),
                _ => 0,
            };
            let fraction = payload | QUIET;
            return Number::Nan { negative, fraction };
        }
        if from == E8M0FNU {
            // "0-8-0, bias 127, NaN FF"; "e8m0 FF, which has no sign bit, a positive one".
            return match code {
                0xFF => Number::Nan {
                    negative: false,
                    fraction: QUIET,
                },
                _ => Number::Finite {
                    negative: false,
                    magnitude: Dyadic::power_of_two(code as i32 - 127),
                },
            };
        }
        let value = decode_integer(from, code);
        Number::Finite {
            negative: value < 0,
            magnitude: Dyadic::new(value.unsigned_abs(), 0),
        }
    }
}

/// Returns the value of an integer code; "bool counts as 0/1", "any non-zero byte is true".
pub(crate) fn decode_integer(from: Type, code: u128) -> i128 {
    if from == Bool {
        return (code != 0).into();
    }
    assert!(from.is_integer());
    let bits = from.bits();
    if from.is_signed_integer() && code >> (bits - 1) != 0 {
        code as i128 - (1 << bits) // two's complement
    } else {
        code as i128
    }
}
