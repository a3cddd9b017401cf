//! Python numbers as operands next to arrays, and the default dtypes of arrays made of them.

use super::set::DTypeSet;
use crate::formats::dtype::{DTYPES, DType, Kind};

/// The complex dtypes.
pub(super) const COMPLEX: DTypeSet = {
    let (mut set, mut i) = (DTypeSet::EMPTY, 0);
    while i < DTYPES {
        if let Kind::Complex(_) = DType::ALL[i].kind() {
            set = set.with(DType::ALL[i]);
        }
        i += 1;
    }
    set
};

/// The kind of a Python number that is an operand next to an array. Its value never matters.
///
/// ```
/// use lanecast::{promotion::{Rules, ScalarKind}, DType};
/// assert_eq!(Rules::NUMPY.with_scalar(DType::F16, ScalarKind::Int), Ok(DType::F16));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ScalarKind {
    /// `True`
    Bool,
    /// `1`
    Int,
    /// `1.0`
    Float,
    /// `1j`
    Complex,
}

impl ScalarKind {
    /// Every kind, from the lowest to the highest.
    ///
    /// ```
    /// assert_eq!(lanecast::promotion::ScalarKind::ALL.len(), 4);
    /// ```
    pub const ALL: [Self; 4] = [Self::Bool, Self::Int, Self::Float, Self::Complex];

    /// The name of the Python type.
    ///
    /// ```
    /// assert_eq!(lanecast::promotion::ScalarKind::Complex.name(), "complex");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Complex => "complex",
        }
    }

    /// The kind of the elements of a dtype.
    ///
    /// ```
    /// use lanecast::{promotion::ScalarKind, DType};
    /// assert_eq!(ScalarKind::of(DType::U4), ScalarKind::Int);
    /// ```
    pub const fn of(dtype: DType) -> Self {
        match dtype.kind() {
            Kind::Bool => Self::Bool,
            Kind::Int(_) => Self::Int,
            Kind::Float(_) => Self::Float,
            Kind::Complex(_) => Self::Complex,
        }
    }
}

/// The default dtypes: those of arrays that are made without naming a dtype.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub(super) int: Option<DType>,
    pub(super) float: Option<DType>,
    pub(super) complex: Option<DType>,
    pub(super) index: Option<DType>,
}
