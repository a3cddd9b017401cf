//! Python numbers next to arrays, and the dtypes of what is made of them alone.

use super::{DTypeSet, PromotionError, Rules};
use crate::dtype::{DTYPES, DType, Kind};

pub(super) const COMPLEX: DTypeSet = DTypeSet::EMPTY.with(DType::C64).with(DType::C128);

/// A Python number next to an array. Its value never matters, its kind does.
///
/// ```
/// use lanecast::{DType, Rules, ScalarKind};
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
    /// assert_eq!(lanecast::ScalarKind::ALL.len(), 4);
    /// ```
    pub const ALL: [Self; 4] = [Self::Bool, Self::Int, Self::Float, Self::Complex];

    /// What Python calls it.
    ///
    /// ```
    /// assert_eq!(lanecast::ScalarKind::Complex.name(), "complex");
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
    /// use lanecast::{DType, ScalarKind};
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

/// The dtypes of what is made without naming one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub(super) int: Option<DType>,
    pub(super) float: Option<DType>,
    pub(super) complex: Option<DType>,
    pub(super) index: Option<DType>,
}

impl Rules {
    /// The dtype that an array and a Python number become: that of the array, unless the number is of a
    /// higher kind. Then it is the complex dtype of a float, or the default of the number's kind.
    ///
    /// ```
    /// use lanecast::{DType::*, Rules, ScalarKind};
    /// assert_eq!(Rules::TORCH.with_scalar(I8, ScalarKind::Int), Ok(I8));
    /// assert_eq!(Rules::TORCH.with_scalar(I8, ScalarKind::Float), Ok(F32));
    /// assert_eq!(Rules::NUMPY.with_scalar(F32, ScalarKind::Complex), Ok(C64));
    /// ```
    ///
    /// # Errors
    ///
    /// The ruleset does not have the dtype, or defines no result.
    pub const fn with_scalar(&self, dtype: DType, scalar: ScalarKind) -> Result<DType, PromotionError> {
        let rules = self.name;
        if self.above(dtype).is_empty() {
            return Err(PromotionError::UnknownDType { rules, dtype });
        }
        let array = ScalarKind::of(dtype);
        let taken = matches!(self.scalars, Some(highest) if scalar as u8 <= highest as u8);
        let combines = !self.numbers_as_arrays
            || matches!(self.default_dtype(scalar), Some(default) if self.promote(dtype, default).is_ok());
        let bools_agree = matches!(array, ScalarKind::Bool) == matches!(scalar, ScalarKind::Bool);
        let result = if !taken || !combines || !(self.bool_mixes || bools_agree) {
            None
        } else if scalar as u8 <= array as u8 {
            Some(dtype)
        } else if matches!((array, scalar), (ScalarKind::Float, ScalarKind::Complex)) {
            let defined = !self.foreign_complex.contains(dtype);
            if defined { self.above(dtype).intersection(COMPLEX).first() } else { None }
        } else {
            match self.default_dtype(scalar) {
                Some(default) if self.leads_to(dtype, default) => Some(default),
                _ => None,
            }
        };
        match result {
            Some(result) => Ok(result),
            None => Err(PromotionError::UndefinedScalar { rules, dtype, scalar }),
        }
    }

    /// May a dtype become another, at once or by way of a third? Where nothing was cut, that is the same.
    const fn leads_to(&self, from: DType, to: DType) -> bool {
        let mut i = 0;
        while i < DTYPES {
            if self.above(from).contains(DType::ALL[i]) && self.up[i].contains(to) {
                return true;
            }
            i += 1;
        }
        false
    }

    /// The dtype of an array that is made of Python numbers of a kind. None where the system says nothing.
    ///
    /// ```
    /// use lanecast::{DType, Rules, ScalarKind};
    /// assert_eq!(Rules::NUMPY.default_dtype(ScalarKind::Float), Some(DType::F64));
    /// assert_eq!(Rules::TORCH.default_dtype(ScalarKind::Float), Some(DType::F32));
    /// ```
    pub const fn default_dtype(&self, kind: ScalarKind) -> Option<DType> {
        match kind {
            ScalarKind::Bool => self.dtypes().intersection(DTypeSet::EMPTY.with(DType::Bool)).first(),
            ScalarKind::Int => self.defaults.int,
            ScalarKind::Float => self.defaults.float,
            ScalarKind::Complex => self.defaults.complex,
        }
    }

    /// The dtype of the indices that the system returns. None where it says nothing.
    ///
    /// ```
    /// use lanecast::{DType, Rules};
    /// assert_eq!(Rules::MEGENGINE.index_dtype(), Some(DType::I32));
    /// ```
    pub const fn index_dtype(&self) -> Option<DType> {
        self.defaults.index
    }
}
