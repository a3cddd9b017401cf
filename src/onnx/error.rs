//! The errors of operators and of their inputs.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::data_type::DataType;
use super::operator::Operator;
use crate::error::Error as CastError;
use crate::scaled::Error as ScaledError;
use crate::text;

/// Why an operator is not valid, or could not run. If another version of the operator allows what was asked, the
/// error names that version.
///
/// ```
/// use lanecast::onnx::{Cast, DataType, Error, Operator};
///
/// let error = Cast::new(13, DataType::Float8E5M2, &[]).unwrap_err();
/// let (operator, data_type) = (Operator::Cast, DataType::Float8E5M2);
/// assert_eq!(error, Error::DataType { operator, version: 13, data_type, place: "", since: Some(19) });
/// assert_eq!(error.to_string(), "Cast-13 does not support FLOAT8E5M2; Cast-19 and later do");
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operator is not in this version of the operator set.
    Opset {
        /// Which operator.
        operator: Operator,
        /// The version that was given.
        opset: u32,
    },
    /// The operator has no such attribute in this version.
    Attribute {
        /// Which operator.
        operator: Operator,
        /// The version of the operator.
        version: u32,
        /// The attribute.
        name: String,
        /// The first version that has it, if there is one.
        since: Option<u32>,
    },
    /// The attribute has another type.
    AttributeType {
        /// Which operator.
        operator: Operator,
        /// The version of the operator.
        version: u32,
        /// The attribute.
        name: String,
        /// The type that it must have: `INT` or `STRING`.
        expected: &'static str,
        /// A version in which it has the given type, if there is one.
        other: Option<u32>,
    },
    /// The attribute cannot have this value.
    AttributeValue {
        /// The attribute.
        name: String,
        /// The value that was given.
        value: String,
        /// The values that it can have.
        expected: &'static str,
    },
    /// The attribute was given twice.
    Repeated {
        /// The attribute.
        name: String,
    },
    /// The operator does not take or return this type in this version.
    DataType {
        /// Which operator.
        operator: Operator,
        /// The version of the operator.
        version: u32,
        /// The type.
        data_type: DataType,
        /// The input, output or attribute that has the type; empty if it may be any of them.
        place: &'static str,
        /// The first version that takes it, if there is one.
        since: Option<u32>,
    },
    /// The shape has more elements than `usize` can count.
    ShapeOverflow {
        /// The shape.
        shape: Vec<usize>,
    },
    /// The shape does not have as many elements as there are strings.
    Strings {
        /// How many elements the shape has.
        elements: usize,
        /// How many strings there are.
        strings: usize,
    },
    /// Bytes were given for strings, or strings where numbers are needed.
    NotBytes,
    /// A string is not a number, or not one that the target type holds.
    Text(text::Error),
    /// A cast of elements failed, for example because of a buffer of the wrong size.
    Cast(CastError),
    /// Two types must be the same, and are not.
    Types {
        /// The type of the input, or of the zero point.
        first: DataType,
        /// The type of the scale, or of the zero point, or an attribute.
        second: DataType,
    },
    /// Scales or zero points do not have the shape that the input and the attributes need. Nothing is broadcast.
    ScaleShape {
        /// The shape that is needed; empty for a scalar.
        needed: Vec<usize>,
        /// The shape of the tensor.
        given: Vec<usize>,
    },
    /// The scaled cast does not exist, or failed.
    Scaled(Box<ScaledError>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opset { operator, opset } => write!(
                f,
                "opset {opset} has no operator {operator}; {operator}-{} is its first version",
                operator.versions()[0]
            ),
            Self::Attribute { operator, version, name, since } => {
                write!(f, "{operator}-{version} has no attribute {name:?}; ")?;
                match since {
                    Some(since) => write!(f, "{operator}-{since} and later have it"),
                    None => write!(f, "no version of {operator} has it"),
                }
            }
            Self::AttributeType { operator, version, name, expected, other } => {
                write!(f, "the attribute {name:?} of {operator}-{version} must be of type {expected}")?;
                match other {
                    Some(other) => write!(f, "; in {operator}-{other} it has the type that was given"),
                    None => Ok(()),
                }
            }
            Self::AttributeValue { name, value, expected } => {
                write!(f, "the attribute {name:?} is {value}; it must be {expected}")
            }
            Self::Repeated { name } => write!(f, "the attribute {name:?} is given twice"),
            Self::DataType { operator, version, data_type, place, since } => {
                let of = if place.is_empty() { "" } else { " as " };
                write!(f, "{operator}-{version} does not support {data_type}{of}{place}; ")?;
                match since {
                    Some(since) => write!(f, "{operator}-{since} and later do"),
                    None => write!(f, "no version of {operator} does"),
                }
            }
            Self::ShapeOverflow { shape } => {
                write!(f, "a tensor of shape {shape:?} does not fit into the address space")
            }
            Self::Strings { elements, strings } => {
                write!(f, "the shape has {elements} elements, but there are {strings} strings")
            }
            Self::NotBytes => {
                f.write_str("a tensor of strings is not made from bytes; make it with Tensor::strings")
            }
            Self::Text(error) => error.fmt(f),
            Self::Cast(error) => error.fmt(f),
            Self::Types { first, second } => {
                write!(f, "the types {first} and {second} differ; they must be the same")
            }
            Self::ScaleShape { needed, given } => {
                write!(
                    f,
                    "the scales or zero points have the shape {given:?}; they need the shape {needed:?}"
                )
            }
            Self::Scaled(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

impl From<text::Error> for Error {
    fn from(error: text::Error) -> Self {
        Self::Text(error)
    }
}

impl From<CastError> for Error {
    fn from(error: CastError) -> Self {
        Self::Cast(error)
    }
}

impl From<ScaledError> for Error {
    fn from(error: ScaledError) -> Self {
        Self::Scaled(Box::new(error))
    }
}
