//! The Rust type of each dtype's elements.

use core::cmp::Ordering;
use core::fmt;

use half::{bf16, f16};
use num_complex::Complex;

use super::dtype::DType;
use super::list::{dtypes, narrow_floats, narrow_ints};

/// A Rust type whose values are the elements of a dtype. The trait is sealed.
///
/// | dtypes | elements |
/// |---|---|
/// | bool, integers of 8 bits and more, float32, float64 | the primitives |
/// | float16, bfloat16 | [`half::f16`], [`half::bf16`] |
/// | complex32, bcomplex32, complex64, complex128 | [`num_complex::Complex`] |
/// | narrower floats, 1-, 2- and 4-bit integers | the types of [`bits`](crate::bits) |
///
/// A slice of a type of fewer than 8 bits holds one element per byte. Packed data is passed as bytes and a number
/// of elements, to [`cast_bytes`](crate::cast_bytes) and [`Caster`](crate::Caster).
///
/// ```
/// use lanecast::{bits::F8E5M2, DType, Element};
///
/// fn dtype_of<T: Element>(_: &[T]) -> DType {
///     T::DTYPE
/// }
/// assert_eq!(dtype_of(&[F8E5M2::from_f32(1.0)]), DType::F8E5M2);
/// assert_eq!(dtype_of(&[1i64]), DType::I64);
/// ```
pub trait Element: Copy + Send + Sync + 'static + Codes {
    /// The dtype of the elements.
    ///
    /// ```
    /// use lanecast::{DType, Element};
    /// assert_eq!(<f32 as Element>::DTYPE, DType::F32);
    /// ```
    const DTYPE: DType;
}

pub(crate) mod sealed {
    /// Converts an element to the codes of its parts and back; a real element has only the first.
    pub trait Codes {
        fn to_codes(self) -> [u64; 2];
        fn from_codes(codes: [u64; 2]) -> Self;
    }
}
use sealed::Codes;

macro_rules! elements {
    ($($variant:ident = $code:literal, $name:literal, $element:ty, $kind:expr;)*) => {
        $(impl Element for $element {
            const DTYPE: DType = DType::$variant;
        })*
    };
}
dtypes!(elements);

/// Implements [`Codes`] for elements of one part, from the conversions to the code and from it.
macro_rules! codes {
    ($($element:ty: $to:expr, $from:expr;)*) => {
        $(impl Codes for $element {
            #[inline]
            fn to_codes(self) -> [u64; 2] {
                let to: fn($element) -> u64 = $to;
                [to(self), 0]
            }
            #[inline]
            fn from_codes([code, _]: [u64; 2]) -> Self {
                let from: fn(u64) -> $element = $from;
                from(code)
            }
        })*
    };
}
codes! {
    bool: |x| x.into(), |code| code != 0;
    u8: |x| x.into(), |code| code as Self;
    i8: |x| (x as u8).into(), |code| code as Self;
    u16: |x| x.into(), |code| code as Self;
    i16: |x| (x as u16).into(), |code| code as Self;
    u32: |x| x.into(), |code| code as Self;
    i32: |x| (x as u32).into(), |code| code as Self;
    u64: |x| x, |code| code;
    i64: |x| x as u64, |code| code as Self;
    f16: |x| x.to_bits().into(), |code| Self::from_bits(code as u16);
    bf16: |x| x.to_bits().into(), |code| Self::from_bits(code as u16);
    f32: |x| x.to_bits().into(), |code| Self::from_bits(code as u32);
    f64: |x| x.to_bits(), Self::from_bits;
}

impl<P: Codes> Codes for Complex<P> {
    #[inline]
    fn to_codes(self) -> [u64; 2] {
        [self.re.to_codes()[0], self.im.to_codes()[0]]
    }
    #[inline]
    fn from_codes([re, im]: [u64; 2]) -> Self {
        Self { re: P::from_codes([re, 0]), im: P::from_codes([im, 0]) }
    }
}

/// Defines the type of a narrow element: a byte, whose low bits are the code.
macro_rules! newtype {
    ($name:ident, $example:literal, $(#[$doc:meta])*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// Returns the element with this code. Bits above its width are dropped.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::from_bits(", $example, ").to_bits(), ", $example, ");")]
            /// ```
            #[inline]
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits & (0xFF >> (8 - Self::DTYPE.bits())))
            }

            /// Returns the code, in the low bits.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::from_bits(", $example, ").to_bits(), ", $example, ");")]
            /// ```
            #[inline]
            pub const fn to_bits(self) -> u8 {
                // Masked here too: in a slice that was reinterpreted, the bits above the code may be anything.
                Self::from_bits(self.0).0
            }
        }

        codes! { $name: |x| x.to_bits().into(), |code| Self::from_bits(code as u8); }

        #[cfg(feature = "serde")]
        super::serde::bits!($name);

        #[cfg(feature = "bytemuck")]
        #[allow(unsafe_code, reason = "the traits are unsafe")]
        // SAFETY: the type is a byte, for which 0 is valid.
        unsafe impl bytemuck::Zeroable for $name {}
        #[cfg(feature = "bytemuck")]
        #[allow(unsafe_code, reason = "the traits are unsafe")]
        // SAFETY: the type is a transparent struct of a byte, without padding or pointers. Every bit pattern is a valid element,
        // because `to_bits` drops the bits above the code.
        unsafe impl bytemuck::Pod for $name {}
    };
}

macro_rules! float_newtypes {
    ($($name:ident, $example:literal, $value:literal, [$($special:ident)*], $what:literal;)*) => {$(
        newtype! { $name, $example,
            #[doc = concat!("A ", $what, ".")]
            ///
            /// Compares as a number: NaN is unequal to itself, and −0 equals 0.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("let x = ", stringify!($name), "::from_f32(", stringify!($value), ");")]
            #[doc = concat!("assert_eq!(x.to_bits(), ", $example, ");")]
            #[doc = concat!("assert_eq!(format!(\"{x} {x:?}\"), \"", stringify!($value), " ", stringify!($value), "\");")]
            /// ```
        }
    )*};
}
narrow_floats!(float_newtypes);

macro_rules! int_newtypes {
    ($($name:ident, $primitive:ty, $example:literal, $value:literal, $what:literal;)*) => {$(
        newtype! { $name, $example,
            #[doc = concat!("A ", $what, ".")]
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("let x = ", stringify!($name), "::from_bits(", $example, ");")]
            #[doc = concat!("assert_eq!(format!(\"{x} {x:?}\"), \"", $value, " ", $value, "\");")]
            /// ```
        }

        impl $name {
            /// Returns the element with this value; None if it is out of range, where a cast would wrap.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::new(", $value, ").map(|x| x.to_bits()), Some(", $example, "));")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::new(100), None);")]
            /// ```
            #[inline]
            pub const fn new(value: $primitive) -> Option<Self> {
                let new = Self::from_bits(value as u8);
                if new.value() == value { Some(new) } else { None }
            }

            /// Returns the value.
            ///
            /// ```
            #[doc = concat!("use lanecast::bits::", stringify!($name), ";")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::from_bits(", $example, ").value(), ", $value, ");")]
            /// ```
            #[inline]
            pub const fn value(self) -> $primitive {
                let unused = 8 - Self::DTYPE.bits();
                ((self.0 << unused) as $primitive) >> unused
            }
        }

        impl From<$name> for $primitive {
            #[inline]
            fn from(x: $name) -> $primitive {
                x.value()
            }
        }

        impl PartialEq for $name {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                self.value() == other.value()
            }
        }

        impl Eq for $name {}

        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            #[inline]
            fn cmp(&self, other: &Self) -> Ordering {
                self.value().cmp(&other.value())
            }
        }

        impl core::hash::Hash for $name {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                self.value().hash(state);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.value(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
narrow_ints!(int_newtypes);
