//! How much a cast between two dtypes may lose: NumPy's levels, and whether anything can be lost at all.

use core::fmt;
use core::str::FromStr;

use super::rules::Rules;
use crate::formats::dtype::{DType, Kind};
use crate::formats::name::NameError;

/// How much a cast may lose, from least to most. Each level allows all that the levels before it allow.
///
/// ```
/// use lanecast::{promotion::Casting, DType};
/// assert!(DType::I64.can_cast(DType::F64, Casting::Safe));
/// assert!(!DType::I64.can_cast(DType::I32, Casting::Safe));
/// assert!(DType::I64.can_cast(DType::I32, Casting::SameKind));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Casting {
    /// Nothing changes.
    No,
    /// At most the byte order or the padding changes.
    Equiv,
    /// What NumPy calls safe: every value is kept, or a 64-bit integer becomes a float64. With a dtype that
    /// NumPy lacks, nothing may be lost ([`DType::is_lossless_to`]).
    Safe,
    /// The kind does not become a lower one, in the order bool, unsigned, signed, float, complex.
    SameKind,
    /// Any cast that keeps the values in the array. That depends on the values, so between dtypes this level allows everything.
    SameValue,
    /// Any cast.
    Unsafe,
}

impl Casting {
    /// Every level, from least to most.
    ///
    /// ```
    /// assert!(lanecast::promotion::Casting::ALL.is_sorted());
    /// ```
    pub const ALL: [Self; 6] =
        [Self::No, Self::Equiv, Self::Safe, Self::SameKind, Self::SameValue, Self::Unsafe];

    /// The name, as in NumPy.
    ///
    /// ```
    /// assert_eq!(lanecast::promotion::Casting::SameKind.name(), "same_kind");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Equiv => "equiv",
            Self::Safe => "safe",
            Self::SameKind => "same_kind",
            Self::SameValue => "same_value",
            Self::Unsafe => "unsafe",
        }
    }
}

impl fmt::Display for Casting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Casting {
    type Err = NameError;

    /// Returns the level with this name, which must match exactly.
    fn from_str(name: &str) -> Result<Self, NameError> {
        let found = Self::ALL.into_iter().find(|level| level.name() == name);
        found.ok_or_else(|| NameError::new("level of casting", name, &Self::ALL.map(Self::name)))
    }
}

impl DType {
    /// Whether the level allows a cast to `to`, as NumPy's `can_cast` says for its dtypes.
    ///
    /// ```
    /// use lanecast::{promotion::Casting, DType};
    /// assert!(DType::U64.can_cast(DType::I8, Casting::SameKind));
    /// assert!(!DType::I8.can_cast(DType::U64, Casting::SameKind));
    /// assert!(DType::F8E5M2.can_cast(DType::F16, Casting::Safe));
    /// ```
    pub const fn can_cast(self, to: Self, level: Casting) -> bool {
        self.casting_to(to) as u8 <= level as u8
    }

    /// The least level that allows a cast to `to`.
    ///
    /// ```
    /// use lanecast::{promotion::Casting, DType};
    /// assert_eq!(DType::I8.casting_to(DType::F16), Casting::Safe);
    /// assert_eq!(DType::F16.casting_to(DType::I8), Casting::SameValue);
    /// ```
    pub const fn casting_to(self, to: Self) -> Casting {
        if self as u8 == to as u8 {
            Casting::No
        } else if Rules::NUMPY.above(self).contains(to) || self.is_lossless_to(to) {
            Casting::Safe
        } else if self.rank() <= to.rank() {
            Casting::SameKind
        } else {
            Casting::SameValue
        }
    }

    const fn rank(self) -> u8 {
        match self.kind() {
            Kind::Bool => 0,
            Kind::Int(format) => 1 + format.signed as u8,
            Kind::Float(_) => 3,
            Kind::Complex(_) => 4,
        }
    }

    /// Whether a cast to `to` keeps every value, ±Inf, NaN (as a NaN) and −0.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert!(DType::U8.is_lossless_to(DType::F16));
    /// assert!(!DType::I64.is_lossless_to(DType::F64));
    /// assert!(!DType::F8E4M3.is_lossless_to(DType::F8E4M3FN)); // no Inf there
    /// ```
    pub const fn is_lossless_to(self, to: Self) -> bool {
        use Kind::*;
        match (self.kind(), to.kind()) {
            (Bool, Float(to)) => to.has_zero(),
            (Bool, Int(to)) => to.max() > 0,
            (Bool, _) => true,
            (Int(a), Bool) => a.min() >= 0 && a.max() <= 1,
            (Int(a), Int(b)) => a.min() >= b.min() && a.max() <= b.max(),
            // With a precision of p = mantissa + 1 bits, an integer of at most p bits is exact if it is in range, and so is -2^p.
            // 1 is never too small: every float that has a zero also has steps of 1 or less.
            (Int(a), Float(b) | Complex(b)) => {
                let digits = a.bits - a.signed as u32;
                let largest = if a.signed { -a.min() } else { a.max() };
                b.has_zero()
                    && (b.has_sign || !a.signed)
                    && digits <= b.mantissa_bits + 1
                    && largest as f64 <= b.max()
            }
            // No value of `a` has more bits, a larger exponent or a smaller last bit than `b` allows.
            (Float(a), Float(b) | Complex(b)) | (Complex(a), Complex(b)) => {
                // The limits are compared as codes, which have the same order. Comparing floats sets an exception flag if
                // one is subnormal, and checked casts, which must not set any, call this.
                a.mantissa_bits <= b.mantissa_bits
                    && a.max().to_bits() <= b.max().to_bits()
                    && a.min_positive_subnormal().to_bits() >= b.min_positive_subnormal().to_bits()
                    && (b.has_sign || !a.has_sign)
                    && (b.has_inf || !a.has_inf)
                    && (b.has_nan || !a.has_nan)
                    && (b.has_neg_zero || !a.has_neg_zero)
            }
            _ => false,
        }
    }
}
