//! Why operands have no common dtype.

use core::fmt;

use super::scalar::ScalarKind;
use super::set::DTypeSet;
use crate::error::Error;
use crate::formats::dtype::DType;

/// Why operands have no common dtype, or could not be cast to it. Nothing was written.
///
/// ```
/// use lanecast::{promotion::{PromotionError, Rules}, DType};
/// let error = Rules::NUMPY.promote(DType::I8, DType::BF16).unwrap_err();
/// assert!(matches!(error, PromotionError::UnknownDType { rules: "numpy", dtype: DType::BF16, .. }));
/// assert!(error.to_string().starts_with("numpy has no bfloat16; it has bool, uint8, "));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PromotionError {
    /// There are no operands, so there is no common dtype.
    NoOperands,
    /// The system of the ruleset does not have this dtype.
    UnknownDType {
        /// The ruleset.
        rules: &'static str,
        /// The dtype that it lacks.
        dtype: DType,
        /// The dtypes that it has.
        known: DTypeSet,
    },
    /// The ruleset defines no common dtype of the operands.
    Undefined {
        /// The ruleset.
        rules: &'static str,
        /// The operands.
        operands: DTypeSet,
    },
    /// The ruleset defines no common dtype of an array and a Python number.
    UndefinedScalar {
        /// The ruleset.
        rules: &'static str,
        /// The dtype of the array.
        dtype: DType,
        /// The kind of the number.
        scalar: ScalarKind,
    },
    /// A cast to the common dtype failed.
    Cast(Error),
}

impl fmt::Display for PromotionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoOperands => f.write_str("there are no operands; promotion needs at least one"),
            Self::UnknownDType { rules, dtype, known } => write!(f, "{rules} has no {dtype}; it has {known}"),
            Self::Undefined { rules, operands } => {
                write!(f, "{rules} defines no common dtype of {operands}")
            }
            Self::UndefinedScalar { rules, dtype, scalar } => {
                write!(f, "{rules} defines no common dtype of {dtype} and a Python {}", scalar.name())
            }
            Self::Cast(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PromotionError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Cast(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for PromotionError {
    fn from(error: Error) -> Self {
        Self::Cast(error)
    }
}
