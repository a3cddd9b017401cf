//! What can be wrong with a scaled cast.

use alloc::vec::Vec;
use core::fmt;

use super::scaling::Profile;
use crate::error::{Error as CastError, Side};
use crate::formats::dtype::DType;

/// Why a scaled cast could not be done. Nothing was written, but for what two of them say.
///
/// ```
/// use lanecast::scaled::{Dequantizer, Scaling};
/// use lanecast::{CastOptions, DType};
/// let d = Dequantizer::new(DType::F8E4M3FN, DType::F32, &Scaling::deepseek(), &CastOptions::new())?;
/// let error = d.dequantize(&[0; 300], &[2, 150], &[0; 4], None, &mut [0; 1200]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "data of [2, 150] in blocks of [128, 128] need [1, 2] scales of float32, which are 8 bytes; there are 4 bytes"
/// );
/// # Ok::<(), lanecast::scaled::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A combination of dtypes, rule and options that there is not.
    Unsupported {
        /// What is missing, or does not go together.
        what: &'static str,
    },
    /// A pair of dtypes that there is not.
    Pair {
        /// The dtype of the source.
        from: DType,
        /// That of the destination.
        to: DType,
        /// What does not take them.
        by: &'static str,
    },
    /// A dtype that no scale has here.
    ScaleDType {
        /// The dtype.
        dtype: DType,
    },
    /// A profile that does not have these dtypes.
    Profile {
        /// The profile.
        profile: Profile,
        /// The dtype of the quantised elements.
        dtype: DType,
        /// That of the scales.
        scale: DType,
        /// What it cannot do with them.
        action: &'static str,
    },
    /// A profile that needs what was not given, or has not what was asked for.
    ProfileNeeds {
        /// The profile.
        profile: Profile,
        /// What it does, and what helps.
        what: &'static str,
    },
    /// More than 8 dimensions.
    Dims {
        /// How many.
        dims: usize,
    },
    /// Blocks of more dimensions than the data.
    BlockDims {
        /// The shape of the data.
        shape: Vec<usize>,
        /// That of a block.
        block: Vec<usize>,
    },
    /// A dimension that the data do not have.
    Axis {
        /// The shape of the data.
        shape: Vec<usize>,
        /// The dimension.
        axis: usize,
    },
    /// A shape whose elements do not fit into the address space.
    ShapeOverflow {
        /// The shape.
        shape: Vec<usize>,
    },
    /// A data buffer that does not have the size its shape needs.
    DataBytes {
        /// `source` or `destination`.
        side: Side,
        /// The shape.
        shape: Vec<usize>,
        /// The dtype.
        dtype: DType,
        /// Bytes that it takes.
        needed: usize,
        /// Bytes that there are.
        given: usize,
    },
    /// A buffer of scales or zero points that does not have the size its shape needs.
    ScaleBytes {
        /// `scales` or `zero points`.
        what: &'static str,
        /// The shape of the data.
        shape: Vec<usize>,
        /// That of a block; 0 is the whole dimension.
        block: Vec<usize>,
        /// That of the scales.
        scales: Vec<usize>,
        /// Their dtype.
        dtype: DType,
        /// Bytes that they take.
        needed: usize,
        /// Bytes that there are.
        given: usize,
    },
    /// Scales or zero points of another shape than the data need.
    ScaleShape {
        /// `scales` or `zero points`.
        what: &'static str,
        /// The shape of the data.
        shape: Vec<usize>,
        /// That of a block; 0 is the whole dimension.
        block: Vec<usize>,
        /// The shape that is needed.
        needed: Vec<usize>,
        /// The shape that was given.
        given: Vec<usize>,
    },
    /// Rows that are longer than the distance between them.
    RowBytes {
        /// `elements` or `scales`.
        what: &'static str,
        /// Bytes of a row.
        needed: usize,
        /// Bytes between rows.
        given: usize,
    },
    /// Room for what was lost of more or fewer blocks than there are.
    Blocks {
        /// How many there are.
        needed: usize,
        /// For how many there is room.
        given: usize,
    },
    /// A factor of the tensor that is not finite and positive.
    TensorScale {
        /// The factor.
        value: f32,
    },
    /// The [progress callback](crate::parallel::Parallel::progress) has stopped it: the contents of the destination are unspecified.
    Cancelled,
    /// What is wrong with a plain cast: the instruction set is not available, a view leaves its buffer, or there is no memory. In
    /// the last case the contents of the destination are unspecified.
    Cast(CastError),
}

impl From<CastError> for Error {
    fn from(error: CastError) -> Self {
        Self::Cast(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { what } => f.write_str(what),
            Self::Pair { from, to, by } => write!(
                f,
                "{by} from {from} to {to}: there is no such; data are real floats of 16 bits or more, elements \
                 integers of 2 to 32 bits or floats with a sign of up to 32"
            ),
            Self::ScaleDType { dtype } => {
                write!(f, "scales of {dtype}: there are none; a scale is a real float of 8, 16 or 32 bits")
            }
            Self::Profile { profile, dtype, scale, action } => {
                write!(f, "the profile {profile} does not {action} {dtype} with scales of {scale}")
            }
            Self::ProfileNeeds { profile, what } => write!(f, "the profile {profile} {what}"),
            Self::Dims { dims } => write!(f, "{dims} dimensions; there can be 8"),
            Self::BlockDims { shape, block } => {
                write!(f, "blocks of {block:?} have more dimensions than data of {shape:?}")
            }
            Self::Axis { shape, axis } => write!(f, "data of {shape:?} have no dimension {axis}"),
            Self::ShapeOverflow { shape } => {
                write!(f, "data of {shape:?} do not fit into the address space")
            }
            Self::DataBytes { side, shape, dtype, needed, given } => {
                write!(f, "the {side} has {given} bytes; {shape:?} elements of {dtype} need exactly {needed}")
            }
            Self::ScaleBytes { what, shape, block, scales, dtype, needed, given } => write!(
                f,
                "data of {shape:?} in blocks of {block:?} need {scales:?} {what} of {dtype}, which are {needed} bytes; \
                 there are {given} bytes"
            ),
            Self::ScaleShape { what, shape, block, needed, given } => write!(
                f,
                "data of {shape:?} in blocks of {block:?} need {needed:?} {what}; there are {given:?}"
            ),
            Self::RowBytes { what, needed, given } => {
                write!(f, "a row of {what} takes {needed} bytes; there are {given} from one to the next")
            }
            Self::Blocks { needed, given } => {
                write!(f, "there are {needed} blocks; there is room for what was lost of {given}")
            }
            Self::TensorScale { value } => {
                write!(f, "the factor of a tensor must be finite and positive; it is {value}")
            }
            Self::Cancelled => f.write_str("cancelled"),
            Self::Cast(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}
