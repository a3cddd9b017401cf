//! The errors of reading and writing texts.

use alloc::string::String;
use core::fmt;

use crate::error::Error as CastError;
use crate::formats::dtype::DType;

/// Why a text is not an element of a dtype.
///
/// ```
/// use lanecast::text::{parse_slice, Error, Reason};
/// let error = parse_slice(&["256"], &mut [0u8]).unwrap_err();
/// assert!(matches!(error, Error::Element { reason: Reason::OutOfRange, .. }));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// It does not have the form of a number.
    NotANumber,
    /// It is a number, Inf or NaN that the integer dtype does not hold.
    OutOfRange,
}

/// Why texts could not be parsed, or numbers could not be formatted.
///
/// ```
/// use lanecast::text::{parse_slice, Error, Reason};
/// use lanecast::DType;
///
/// let error = parse_slice(&["1", "2.5 kg"], &mut [0f32; 2]).unwrap_err();
/// assert_eq!(error.to_string(), "element 1, \"2.5 kg\", is not a number");
/// let Error::Element { index, text, dtype, reason } = error else { unreachable!() };
/// assert_eq!((index, text.as_str(), dtype, reason), (1, "2.5 kg", DType::F32, Reason::NotANumber));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A text is not an element of the dtype; the first such text.
    Element {
        /// The index of the text.
        index: usize,
        /// The text.
        text: String,
        /// The dtype that it should be an element of.
        dtype: DType,
        /// What is wrong with it.
        reason: Reason,
    },
    /// The numbers of texts and of elements differ.
    LengthMismatch {
        /// How many texts there are.
        texts: usize,
        /// How many elements there are.
        elements: usize,
    },
    /// An offset is negative, less than the one before it, or beyond the bytes; or there are no offsets at all,
    /// where n texts need n + 1.
    Offset {
        /// The index of the offset.
        index: usize,
        /// The offset; None if there is none.
        offset: Option<i64>,
        /// The least that it may be: the offset before it, or 0.
        least: usize,
        /// The most that it may be: the number of bytes.
        bytes: usize,
    },
    /// A text is not UTF-8.
    NotUtf8 {
        /// The index of the text.
        index: usize,
    },
    /// The texts have more bytes than an offset can count.
    OffsetOverflow {
        /// How many bytes they have at least.
        bytes: usize,
    },
    /// There is no memory for the texts.
    Allocation {
        /// How many bytes of texts or offsets were needed at least.
        bytes: usize,
    },
    /// Complex numbers are not read or written as text.
    Complex {
        /// The complex dtype.
        dtype: DType,
    },
    /// A buffer has the wrong size, or an instruction set is not available.
    Cast(CastError),
}

/// How many bytes of a wrong text are shown.
const SHOWN: usize = 80;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Element { index, text, dtype, reason } => {
                let (head, rest) = text.split_at(text.floor_char_boundary(SHOWN));
                let dots = if rest.is_empty() { "" } else { "..." };
                write!(f, "element {index}, {head:?}{dots}, ")?;
                match reason {
                    Reason::NotANumber => f.write_str("is not a number"),
                    Reason::OutOfRange => write!(f, "is out of the range of {dtype}"),
                }
            }
            Self::LengthMismatch { texts, elements } => {
                write!(
                    f,
                    "there are {texts} texts and {elements} elements; there must be the same number of both"
                )
            }
            Self::Offset { offset: None, .. } => f.write_str("there are no offsets; n texts need n + 1"),
            Self::Offset { index, offset: Some(offset), least, bytes } => write!(
                f,
                "offset {index} is {offset}; it must be at least {least} and at most {bytes}, the number of bytes"
            ),
            Self::NotUtf8 { index } => write!(f, "text {index} is not UTF-8"),
            Self::OffsetOverflow { bytes } => {
                write!(f, "the texts have at least {bytes} bytes, more than their offsets can count")
            }
            Self::Allocation { bytes } => write!(f, "no memory for {bytes} bytes of texts or offsets"),
            Self::Complex { dtype } => {
                write!(f, "{dtype} is complex; complex numbers are not read or written as text")
            }
            Self::Cast(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

impl From<CastError> for Error {
    fn from(error: CastError) -> Self {
        Self::Cast(error)
    }
}
