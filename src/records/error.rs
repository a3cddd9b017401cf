//! The errors of structured dtypes and of casts of records.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::error::{Error, Side};
use crate::formats::name::NameError;
use crate::promotion::PromotionError;

/// Why a structured dtype could not be made, promoted or cast. Nothing was written.
///
/// ```
/// use lanecast::{promotion::Rules, records::StructDType};
/// let [a, b]: [StructDType; 2] = ["[('x', 'i4')]".parse()?, "[('y', 'i4')]".parse()?];
/// let error = a.promote(&b, &Rules::NUMPY).unwrap_err();
/// assert_eq!(error.to_string(), "the fields are named [\"x\"] and [\"y\"]; to promote, names and order must agree");
/// # Ok::<(), lanecast::records::StructError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StructError {
    /// A text is not a dtype.
    Syntax {
        /// The text.
        text: String,
        /// The byte at which it is wrong.
        at: usize,
        /// What is needed there.
        needed: &'static str,
    },
    /// A type string does not name a dtype.
    Name(NameError),
    /// Two fields share a name or title.
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A size overflows `usize`.
    TooLarge,
    /// Records are nested too deep.
    TooDeep {
        /// How deep they are nested.
        levels: usize,
        /// How deep they may be nested.
        most: usize,
    },
    /// A field ends behind its record.
    OutOfBounds {
        /// The name of the field.
        field: String,
        /// The byte behind the field.
        end: usize,
        /// The bytes of the record.
        itemsize: usize,
    },
    /// A field is not at a multiple of its alignment, in a record that is to be aligned.
    Misaligned {
        /// The name of the field.
        field: String,
    },
    /// A field starts before the end of the one before it, which a list of fields cannot express.
    NoDescr {
        /// The name of the field.
        field: String,
    },
    /// A field has an empty name, for which a list of fields would give it a name by its number.
    NoName,
    /// Records to promote have different names, or the names in a different order.
    FieldNames {
        /// The names of both.
        names: [Vec<String>; 2],
    },
    /// Two fields to promote have different titles.
    FieldTitles {
        /// The name of the field.
        field: String,
    },
    /// Sub-arrays to promote have different shapes.
    Shapes {
        /// Both shapes.
        shapes: [Vec<usize>; 2],
    },
    /// A record does not promote with an element.
    RecordAndElement,
    /// A cast is between records with different numbers of fields, or from several fields to one element.
    FieldCount {
        /// How many fields the source has.
        source: usize,
        /// How many fields the destination needs.
        needed: usize,
    },
    /// A buffer does not have the size that its records need.
    BufferSize {
        /// Which buffer.
        side: Side,
        /// How many records it should hold.
        records: usize,
        /// The bytes that they take.
        needed: usize,
        /// The bytes that it has.
        given: usize,
    },
    /// Two elements do not promote.
    Promotion(PromotionError),
    /// A cast of elements failed.
    Cast(Error),
}

impl fmt::Display for StructError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { text, at, needed } => {
                write!(f, "cannot parse {text:?}: expected {needed} at byte {at}")
            }
            Self::Name(error) => error.fmt(f),
            Self::DuplicateName { name } => {
                write!(f, "the name or title {name:?} occurs twice; each must be unique")
            }
            Self::TooLarge => f.write_str("the size overflows the address space"),
            Self::TooDeep { levels, most } => {
                write!(f, "records are nested {levels} levels deep; at most {most} are supported")
            }
            Self::OutOfBounds { field, end, itemsize } => {
                write!(f, "the field {field:?} ends at byte {end}, but the record has {itemsize} bytes")
            }
            Self::Misaligned { field } => {
                write!(
                    f,
                    "the field {field:?} is not at a multiple of its alignment, which an aligned record needs"
                )
            }
            Self::NoDescr { field } => {
                write!(
                    f,
                    "the field {field:?} starts before the previous one ends, which a list of fields cannot express"
                )
            }
            Self::NoName => f.write_str(
                "a field has an empty name, which a list of fields would replace by one with its number",
            ),
            Self::FieldNames { names: [a, b] } => {
                write!(f, "the fields are named {a:?} and {b:?}; to promote, names and order must agree")
            }
            Self::FieldTitles { field } => {
                write!(f, "the titles of the field {field:?} differ; to promote, they must agree")
            }
            Self::Shapes { shapes: [a, b] } => {
                write!(f, "the shapes are {a:?} and {b:?}; to promote, they must agree")
            }
            Self::RecordAndElement => f.write_str(
                "a record and an element have no common dtype; both must be records, or both elements",
            ),
            Self::FieldCount { source, needed } => {
                write!(
                    f,
                    "the source has {source} fields; fields are cast by position, and the destination needs {needed}"
                )
            }
            Self::BufferSize { side, records, needed, given } => {
                write!(f, "the {side} has {given} bytes; {records} records need exactly {needed}")
            }
            Self::Promotion(error) => error.fmt(f),
            Self::Cast(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StructError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Name(error) => Some(error),
            Self::Promotion(error) => Some(error),
            Self::Cast(error) => Some(error),
            _ => None,
        }
    }
}

impl From<NameError> for StructError {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl From<PromotionError> for StructError {
    fn from(error: PromotionError) -> Self {
        Self::Promotion(error)
    }
}

impl From<Error> for StructError {
    fn from(error: Error) -> Self {
        Self::Cast(error)
    }
}
