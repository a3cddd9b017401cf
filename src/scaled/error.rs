//! What can be wrong with a scaled cast.

use alloc::vec::Vec;
use core::fmt;

use super::scaling::Profile;
use crate::error::{Error as CastError, Side};
use crate::formats::dtype::DType;

/// Why a scaled cast failed. Nothing was written, except as [`Error::Cancelled`] and [`Error::Cast`] say.
///
/// ```
/// use lanecast::scaled::{Dequantizer, Scaling};
/// use lanecast::{CastOptions, DType};
/// let d = Dequantizer::new(DType::F8E4M3FN, DType::F32, &Scaling::deepseek(), &CastOptions::new())?;
/// let error = d.dequantize(&[0; 300], &[2, 150], &[0; 4], None, &mut [0; 1200]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "data of shape [2, 150] in blocks of [128, 128] need [1, 2] scales of float32, which take 8 bytes; there are 4 bytes"
/// );
/// # Ok::<(), lanecast::scaled::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A combination of dtypes, rule and options that does not exist.
    Unsupported {
        /// What is missing, or cannot be combined.
        what: &'static str,
    },
    /// A pair of dtypes that does not exist.
    Pair {
        /// The dtype of the source.
        from: DType,
        /// The dtype of the destination.
        to: DType,
        /// The action that does not take them.
        by: &'static str,
    },
    /// A dtype that scales cannot have.
    ScaleDType {
        /// The dtype.
        dtype: DType,
    },
    /// A profile that does not support these dtypes.
    Profile {
        /// The profile.
        profile: Profile,
        /// The dtype of the quantised elements.
        dtype: DType,
        /// The dtype of the scales.
        scale: DType,
        /// The action that it does not support for them.
        action: &'static str,
    },
    /// A profile that needs something that was not given, or does not support what was asked for.
    ProfileNeeds {
        /// The profile.
        profile: Profile,
        /// What the profile does, and what to do about it.
        what: &'static str,
    },
    /// More than 8 dimensions.
    Dims {
        /// How many there are.
        dims: usize,
    },
    /// Blocks of more dimensions than the data.
    BlockDims {
        /// The shape of the data.
        shape: Vec<usize>,
        /// The lengths of a block.
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
    /// A buffer of data that does not have the size that its shape needs.
    DataBytes {
        /// `source` or `destination`.
        side: Side,
        /// The shape.
        shape: Vec<usize>,
        /// The dtype.
        dtype: DType,
        /// The bytes that the data take.
        needed: usize,
        /// The bytes that there are.
        given: usize,
    },
    /// A buffer of scales or zero points that does not have the size that its shape needs.
    ScaleBytes {
        /// `scales` or `zero points`.
        what: &'static str,
        /// The shape of the data.
        shape: Vec<usize>,
        /// The lengths of a block; 0 is the whole dimension.
        block: Vec<usize>,
        /// The shape of the scales.
        scales: Vec<usize>,
        /// The dtype of what the buffer holds.
        dtype: DType,
        /// The bytes that they take.
        needed: usize,
        /// The bytes that there are.
        given: usize,
    },
    /// Scales or zero points of another shape than the data need.
    ScaleShape {
        /// `scales` or `zero points`.
        what: &'static str,
        /// The shape of the data.
        shape: Vec<usize>,
        /// The lengths of a block; 0 is the whole dimension.
        block: Vec<usize>,
        /// The shape that is needed.
        needed: Vec<usize>,
        /// The shape that was given.
        given: Vec<usize>,
    },
    /// Rows that are longer than the distance from one to the next.
    RowBytes {
        /// `elements` or `scales`.
        what: &'static str,
        /// The bytes of a row.
        needed: usize,
        /// The bytes from one row to the next.
        given: usize,
    },
    /// Room for the losses of more or fewer blocks than there are.
    Blocks {
        /// How many blocks there are.
        needed: usize,
        /// How many blocks there is room for.
        given: usize,
    },
    /// A tensor scale that is not finite and positive.
    TensorScale {
        /// The factor.
        value: f32,
    },
    /// The [progress callback](crate::parallel::Parallel::progress) stopped the cast: the contents of the destination, and of
    /// scales and zero points that it finds, are unspecified.
    Cancelled,
    /// An error of a plain cast: the instruction set is not available, a view leaves its buffer, or there is no memory. In the
    /// last case the contents of the destination are unspecified.
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
                "cannot {by} from {from} to {to}: data must be real floats of 16 bits or more (quantized under the profile \
                 onnx, also int32), and elements integers of 2 to 32 bits or signed floats of up to 32 bits"
            ),
            Self::ScaleDType { dtype } => {
                write!(f, "scales cannot be of {dtype}; they must be real floats of 8, 16 or 32 bits")
            }
            Self::Profile { profile, dtype, scale, action } => {
                write!(
                    f,
                    "the profile {profile} does not {action} with elements of {dtype} and scales of {scale}"
                )
            }
            Self::ProfileNeeds { profile, what } => write!(f, "the profile {profile} {what}"),
            Self::Dims { dims } => write!(f, "{dims} dimensions are too many; at most 8 are supported"),
            Self::BlockDims { shape, block } => {
                write!(f, "blocks of {block:?} have more dimensions than data of shape {shape:?}")
            }
            Self::Axis { shape, axis } => write!(f, "data of shape {shape:?} have no axis {axis}"),
            Self::ShapeOverflow { shape } => {
                write!(f, "a buffer for shape {shape:?} does not fit into the address space")
            }
            Self::DataBytes { side, shape, dtype, needed, given } => {
                write!(
                    f,
                    "the {side} has {given} bytes; elements of {dtype} of shape {shape:?} need exactly {needed}"
                )
            }
            Self::ScaleBytes { what, shape, block, scales, dtype, needed, given } => write!(
                f,
                "data of shape {shape:?} in blocks of {block:?} need {scales:?} {what} of {dtype}, which take {needed} \
                 bytes; there are {given} bytes"
            ),
            Self::ScaleShape { what, shape, block, needed, given } => write!(
                f,
                "data of shape {shape:?} in blocks of {block:?} need {what} of shape {needed:?}, not {given:?}"
            ),
            Self::RowBytes { what, needed, given } => {
                write!(f, "a row of {what} takes {needed} bytes, but rows begin only {given} bytes apart")
            }
            Self::Blocks { needed, given } => {
                write!(f, "there are {needed} blocks, but the buffer of their losses has {given} entries")
            }
            Self::TensorScale { value } => {
                write!(f, "the tensor scale must be finite and positive; it is {value}")
            }
            Self::Cancelled => f.write_str("cancelled"),
            Self::Cast(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}
