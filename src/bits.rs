//! The element types of fewer than 16 bits that Rust does not have: the bits of one element in a byte.
//!
//! ```
//! use lanecast::bits::{F8E4M3FN, I4};
//! assert_eq!(F8E4M3FN::from_f32(0.1).to_f32(), 0.1015625);
//! assert_eq!(I4::from_bits(0xF).value(), -1);
//! ```

use core::cmp::Ordering;
use core::fmt;

pub use crate::formats::element::{
    F4E2M1, F6E2M3, F6E3M2, F8E3M4, F8E4M3, F8E4M3B11FNUZ, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0,
    I2, I4, U2, U4,
};

use crate::formats::dtype::DType;
use crate::formats::element::Element;
use crate::formats::options::Policy;
use crate::kernels::scalar;

/// What a narrow float is as a number: the reference says.
macro_rules! floats {
    ($($name:ident, $example:literal, $value:literal;)*) => {$(
        impl $name {
            /// The value. Every one is exact in an f32.
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

            /// The nearest element, by the default options. Others: [`convert_with`](crate::convert_with).
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
        }

        impl From<$name> for f32 {
            fn from(x: $name) -> f32 {
                x.to_f32()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
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
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    )*};
}
floats! {
    F4E2M1, 0x3, 1.5;
    F6E2M3, 0xC, 1.5;
    F6E3M2, 0xE, 1.5;
    F8E3M4, 0x38, 1.5;
    F8E4M3, 0x3C, 1.5;
    F8E4M3FN, 0x3C, 1.5;
    F8E4M3FNUZ, 0x44, 1.5;
    F8E4M3B11FNUZ, 0x5C, 1.5;
    F8E5M2, 0x3E, 1.5;
    F8E5M2FNUZ, 0x42, 1.5;
    F8E8M0, 0x7E, 0.5;
}
