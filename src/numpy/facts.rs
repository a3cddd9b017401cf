//! What NumPy and the Array API say about a dtype: its limits, category and character.

use core::fmt;
use core::str::FromStr;

use crate::formats::dtype::{DType, Kind};
use crate::formats::name::NameError;
use crate::promotion::{Dialect, Rules};

/// The limits of an integer dtype, as in NumPy's `iinfo`; see [`DType::iinfo`].
///
/// ```
/// let info = lanecast::DType::I4.iinfo().unwrap();
/// assert_eq!((info.bits, info.min, info.max), (4, -8, 7));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IntInfo {
    /// Width in bits.
    pub bits: u32,
    /// The smallest value.
    pub min: i128,
    /// The largest value.
    pub max: i128,
}

/// The limits of a floating-point dtype, as in NumPy's `finfo`; see [`DType::finfo`]. All of them are exact.
///
/// ```
/// let info = lanecast::DType::F8E4M3FN.finfo().unwrap();
/// assert_eq!((info.eps, info.max, info.tiny), (0.125, 448.0, 0.015625));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FloatInfo {
    /// Width in bits.
    pub bits: u32,
    /// The distance from 1 to the next value above.
    pub eps: f64,
    /// The smallest finite value. In float8_e8m0fnu, which has no zero and no negative values, it is above zero.
    pub min: f64,
    /// The largest finite value.
    pub max: f64,
    /// The smallest normal value above zero, which NumPy also calls `smallest_normal`.
    pub tiny: f64,
    /// The smallest value above zero, subnormals included.
    pub smallest_subnormal: f64,
}

/// A category of the Array API's `isdtype`.
///
/// ```
/// use lanecast::{numpy::Category, DType};
/// assert!(DType::BF16.is_kind("real floating".parse()?));
/// assert!(!DType::Bool.is_kind(Category::Numeric));
/// # Ok::<(), lanecast::NameError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Category {
    /// `bool`
    Bool,
    /// `signed integer`
    SignedInteger,
    /// `unsigned integer`
    UnsignedInteger,
    /// `integral`: signed or unsigned integer.
    Integral,
    /// `real floating`
    RealFloating,
    /// `complex floating`
    ComplexFloating,
    /// `numeric`: anything but bool.
    Numeric,
}

impl Category {
    /// Every category.
    ///
    /// ```
    /// use lanecast::{numpy::Category, DType};
    /// let of_u8: Vec<_> = Category::ALL.into_iter().filter(|&c| DType::U8.is_kind(c)).map(Category::name).collect();
    /// assert_eq!(of_u8, ["unsigned integer", "integral", "numeric"]);
    /// ```
    pub const ALL: [Self; 7] = [
        Self::Bool,
        Self::SignedInteger,
        Self::UnsignedInteger,
        Self::Integral,
        Self::RealFloating,
        Self::ComplexFloating,
        Self::Numeric,
    ];

    /// The name in the standard.
    ///
    /// ```
    /// assert_eq!(lanecast::numpy::Category::RealFloating.name(), "real floating");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::SignedInteger => "signed integer",
            Self::UnsignedInteger => "unsigned integer",
            Self::Integral => "integral",
            Self::RealFloating => "real floating",
            Self::ComplexFloating => "complex floating",
            Self::Numeric => "numeric",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Category {
    type Err = NameError;

    /// Returns the category with this name, which must match exactly.
    fn from_str(name: &str) -> Result<Self, NameError> {
        let found = Self::ALL.into_iter().find(|category| category.name() == name);
        found.ok_or_else(|| NameError::new("category", name, &Self::ALL.map(Self::name)))
    }
}

impl DType {
    /// Whether the dtype is in a category of the Array API.
    ///
    /// ```
    /// use lanecast::{numpy::Category, DType};
    /// assert!(DType::U2.is_kind(Category::Integral) && !DType::U2.is_kind(Category::SignedInteger));
    /// ```
    pub const fn is_kind(self, category: Category) -> bool {
        match category {
            Category::Bool => matches!(self.kind(), Kind::Bool),
            Category::SignedInteger => matches!(self.kind(), Kind::Int(format) if format.signed),
            Category::UnsignedInteger => matches!(self.kind(), Kind::Int(format) if !format.signed),
            Category::Integral => matches!(self.kind(), Kind::Int(_)),
            Category::RealFloating => matches!(self.kind(), Kind::Float(_)),
            Category::ComplexFloating => matches!(self.kind(), Kind::Complex(_)),
            Category::Numeric => !matches!(self.kind(), Kind::Bool),
        }
    }

    /// NumPy's character for the dtype. None for the dtypes of ml_dtypes, whose characters are not unique.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!(DType::C64.char(), Some('F'));
    /// ```
    pub fn char(self) -> Option<char> {
        let core = Rules::NUMPY.dtypes().contains(self);
        let names = self.names_in(Dialect::NumPy).filter(|name| core && name.len() == 1);
        names.flat_map(|name| name.chars().next()).next()
    }

    /// The limits of an integer dtype; None for any other dtype.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!(DType::U64.iinfo().unwrap().max, u64::MAX.into());
    /// assert!(DType::Bool.iinfo().is_none());
    /// ```
    pub const fn iinfo(self) -> Option<IntInfo> {
        match self.kind() {
            Kind::Int(format) => Some(IntInfo { bits: format.bits, min: format.min(), max: format.max() }),
            _ => None,
        }
    }

    /// The limits of a float, or of a part of a complex dtype; None for any other dtype.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!(DType::C64.finfo(), DType::F32.finfo());
    /// assert_eq!(DType::F64.finfo().unwrap().eps, f64::EPSILON);
    /// ```
    pub const fn finfo(self) -> Option<FloatInfo> {
        match self.kind() {
            Kind::Float(format) | Kind::Complex(format) => Some(FloatInfo {
                bits: format.bits(),
                eps: format.epsilon(),
                min: format.min(),
                max: format.max(),
                tiny: format.min_positive(),
                smallest_subnormal: format.min_positive_subnormal(),
            }),
            _ => None,
        }
    }
}
