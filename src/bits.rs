//! The element types of up to 8 bits that Rust does not have, each of which holds the bits of one element in a byte.
//!
//! ```
//! use lanecast::bits::{F8E4M3FN, I4};
//! assert_eq!(F8E4M3FN::from_f32(0.1).to_f32(), 0.1015625);
//! assert_eq!(I4::from_bits(0xF).value(), -1);
//! ```

use core::cmp::Ordering;
use core::fmt;
use core::num::FpCategory;

use crate::formats::dtype::{DType, FloatFormat};
use crate::formats::element::Element;
use crate::formats::list::{narrow_floats, narrow_ints};
use crate::formats::options::Policy;
use crate::kernels::scalar::{self, Class};

/// Constants, conversions and comparisons of the narrow floats, by the code of the reference.
macro_rules! floats {
    ($($name:ident, $example:literal, $value:literal, [$($special:ident)*], $what:literal;)*) => {$(
        pub use crate::formats::element::$name;

        impl $name {
            const FORMAT: FloatFormat = match Self::DTYPE.float_format() {
                Some(format) => format,
                None => panic!("it is a float"),
            };

            /// The largest finite value.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(f64::from(", stringify!($name), "::MAX.to_f32()), lanecast::DType::", stringify!($name), ".float_format().unwrap().max());")]
            /// ```
            pub const MAX: Self = Self::from_bits(Self::FORMAT.max_code() as u8);

            /// The smallest finite value: −[`MAX`](Self::MAX), or the value closest to zero in a format without negative values.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(f64::from(", stringify!($name), "::MIN.to_f32()), lanecast::DType::", stringify!($name), ".float_format().unwrap().min());")]
            /// ```
            pub const MIN: Self = Self::from_bits(if Self::FORMAT.has_sign { Self::MAX.to_bits() | Self::FORMAT.sign_bit() as u8 } else { 0 });

            /// The smallest normal value above zero.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(f64::from(", stringify!($name), "::MIN_POSITIVE.to_f32()), lanecast::DType::", stringify!($name), ".float_format().unwrap().min_positive());")]
            /// ```
            pub const MIN_POSITIVE: Self = Self::from_bits((Self::FORMAT.has_zero() as u8) << Self::FORMAT.mantissa_bits);

            /// The smallest value above zero, subnormals included.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(f64::from(", stringify!($name), "::MIN_POSITIVE_SUBNORMAL.to_f32()), lanecast::DType::", stringify!($name), ".float_format().unwrap().min_positive_subnormal());")]
            /// ```
            pub const MIN_POSITIVE_SUBNORMAL: Self = Self::from_bits(Self::FORMAT.has_zero() as u8);

            /// The distance from 1 to the next value above.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(f64::from(", stringify!($name), "::EPSILON.to_f32()), lanecast::DType::", stringify!($name), ".float_format().unwrap().epsilon());")]
            /// ```
            pub const EPSILON: Self = Self::from_f32(Self::FORMAT.epsilon() as f32);

            /// One.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::ONE.to_f32(), 1.0);")]
            /// ```
            pub const ONE: Self = Self::from_f32(1.0);

            /// Returns the value, which is always exact in an f32.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::from_bits(", $example, ").to_f32(), ", stringify!($value), " as f32);")]
            /// ```
            #[inline]
            pub const fn to_f32(self) -> f32 {
                let value = scalar::decode(Self::DTYPE, self.to_bits() as u64);
                f32::from_bits(scalar::encode(DType::F32, value, &Policy::DEFAULT) as u32)
            }

            /// Converts a value with the default options: to the nearest element. [`convert_with`](crate::convert_with) takes other options.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::from_f32(", stringify!($value), ").to_bits(), ", $example, ");")]
            /// ```
            #[inline]
            pub const fn from_f32(x: f32) -> Self {
                let value = scalar::decode(DType::F32, x.to_bits() as u64);
                Self::from_bits(scalar::encode(Self::DTYPE, value, &Policy::DEFAULT) as u8)
            }

            /// Returns the value, which is always exact in an f64.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::from_bits(", $example, ").to_f64(), ", stringify!($value), ");")]
            /// ```
            #[inline]
            pub const fn to_f64(self) -> f64 {
                let value = scalar::decode(Self::DTYPE, self.to_bits() as u64);
                f64::from_bits(scalar::encode(DType::F64, value, &Policy::DEFAULT))
            }

            /// Converts a value with the default options: to the nearest element, rounded once.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::from_f64(", stringify!($value), ").to_bits(), ", $example, ");")]
            /// ```
            #[inline]
            pub const fn from_f64(x: f64) -> Self {
                let value = scalar::decode(DType::F64, x.to_bits());
                Self::from_bits(scalar::encode(Self::DTYPE, value, &Policy::DEFAULT) as u8)
            }

            /// Whether the value is NaN.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert!(!", stringify!($name), "::MAX.is_nan());")]
            /// ```
            #[inline]
            pub const fn is_nan(self) -> bool {
                matches!(scalar::decode(Self::DTYPE, self.to_bits() as u64).class, Class::NaN)
            }

            /// Whether the value is ±Inf.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert!(!", stringify!($name), "::MAX.is_infinite());")]
            /// ```
            #[inline]
            pub const fn is_infinite(self) -> bool {
                matches!(scalar::decode(Self::DTYPE, self.to_bits() as u64).class, Class::Inf)
            }

            /// Whether the value is neither ±Inf nor NaN.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert!(", stringify!($name), "::MAX.is_finite());")]
            /// ```
            #[inline]
            pub const fn is_finite(self) -> bool {
                matches!(scalar::decode(Self::DTYPE, self.to_bits() as u64).class, Class::Zero | Class::Finite)
            }

            /// Whether the value is neither zero, subnormal, ±Inf nor NaN.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert!(", stringify!($name), "::MIN_POSITIVE.is_normal());")]
            /// ```
            #[inline]
            pub const fn is_normal(self) -> bool {
                matches!(self.classify(), FpCategory::Normal)
            }

            /// Returns the category of the value.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::ONE.classify(), std::num::FpCategory::Normal);")]
            /// ```
            #[inline]
            pub const fn classify(self) -> FpCategory {
                let magnitude = self.to_bits() as u64 & !Self::FORMAT.sign_bit();
                if self.is_nan() {
                    FpCategory::Nan
                } else if self.is_infinite() {
                    FpCategory::Infinite
                } else if !Self::FORMAT.has_zero() || magnitude >> Self::FORMAT.mantissa_bits != 0 {
                    FpCategory::Normal
                } else if magnitude != 0 {
                    FpCategory::Subnormal
                } else {
                    FpCategory::Zero
                }
            }

            /// Whether the sign bit is set, also of −0 and of a NaN that has a sign. False if the format has no sign.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert!(!", stringify!($name), "::ONE.is_sign_negative());")]
            /// ```
            #[inline]
            pub const fn is_sign_negative(self) -> bool {
                self.to_bits() as u64 & Self::FORMAT.sign_bit() != 0
            }

            /// Whether the sign bit is clear.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert!(", stringify!($name), "::ONE.is_sign_positive());")]
            /// ```
            #[inline]
            pub const fn is_sign_positive(self) -> bool {
                !self.is_sign_negative()
            }
        }

        $(special!($special $name);)*

        impl From<$name> for f32 {
            #[inline]
            fn from(x: $name) -> f32 {
                x.to_f32()
            }
        }

        impl PartialEq for $name {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl From<$name> for f64 {
            #[inline]
            fn from(x: $name) -> f64 {
                x.to_f64()
            }
        }
    )*};
}

/// Constants that only some of the formats have.
macro_rules! special {
    (zero $name:ident) => {
        impl $name {
            /// Zero.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::ZERO.to_f32(), 0.0);")]
            /// ```
            pub const ZERO: Self = Self::from_bits(0);
        }
    };
    (negative $name:ident) => {
        impl $name {
            /// −0.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert!(", stringify!($name), "::NEG_ZERO.is_sign_negative());")]
            /// ```
            pub const NEG_ZERO: Self = Self::from_bits(Self::FORMAT.sign_bit() as u8);
        }
    };
    (inf $name:ident) => {
        impl $name {
            /// Inf.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::INFINITY.to_f32(), f32::INFINITY);")]
            /// ```
            pub const INFINITY: Self = Self::from_bits(Self::FORMAT.max_code() as u8 + 1);
        }
    };
    (minus_inf $name:ident) => {
        impl $name {
            /// −Inf.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::NEG_INFINITY.to_f32(), f32::NEG_INFINITY);")]
            /// ```
            pub const NEG_INFINITY: Self =
                Self::from_bits(Self::INFINITY.to_bits() | Self::FORMAT.sign_bit() as u8);
        }
    };
    (nan $name:ident) => {
        impl $name {
            /// A quiet NaN, with a clear sign bit if it has one.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert!(", stringify!($name), "::NAN.is_nan());")]
            /// ```
            pub const NAN: Self = Self::from_f32(f32::NAN);
        }
    };
}

narrow_floats!(floats);

macro_rules! ints {
    ($($name:ident, $primitive:ty, $example:literal, $value:literal, $what:literal;)*) => {$(
        pub use crate::formats::element::$name;
    )*};
}
narrow_ints!(ints);
