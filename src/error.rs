//! The one error type.

use core::fmt;

use crate::checked::Lossy;
use crate::dtype::DType;
use crate::isa::Isa;

/// Which of the two buffers of a cast.
///
/// ```
/// assert_eq!(lanecast::Side::Destination.to_string(), "destination");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// The one that is read.
    Source,
    /// The one that is written.
    Destination,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Source => "source",
            Self::Destination => "destination",
        })
    }
}

/// Why a cast could not be done. Nothing was written, unless it was [cancelled](Error::Cancelled) or [lossy](Error::Lossy).
///
/// ```
/// use lanecast::{cast_slice, Error};
/// let mut out = [0u8; 3];
/// let error = cast_slice(&[1.0f32, 2.0], &mut out).unwrap_err();
/// assert_eq!(error, Error::LengthMismatch { source: 2, destination: 3 });
/// assert_eq!(error.to_string(), "the source has 2 elements and the destination 3; they must have the same number");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Two slices of different lengths.
    LengthMismatch {
        /// Elements in the source.
        source: usize,
        /// Elements in the destination.
        destination: usize,
    },
    /// A buffer that does not have the size that its elements need.
    BufferSize {
        /// Which buffer.
        side: Side,
        /// The dtype of its elements.
        dtype: DType,
        /// How many elements it should hold.
        elements: usize,
        /// The bytes that they take.
        needed: usize,
        /// The bytes that it has.
        given: usize,
    },
    /// The size of a buffer of so many elements overflows `usize`.
    SizeOverflow {
        /// Which buffer.
        side: Side,
        /// The dtype of its elements.
        dtype: DType,
        /// How many elements.
        elements: usize,
    },
    /// There are no kernels for this instruction set on this machine or in this build.
    IsaUnavailable {
        /// The one that was asked for.
        isa: Isa,
    },
    /// The environment variable `LANECAST_ISA` names no instruction set that is available.
    IsaOverride {
        /// What it says.
        value: &'static str,
    },
    /// A bitmap that does not have the size that the elements need.
    BitmapSize {
        /// That of which buffer.
        side: Side,
        /// How many elements it should have bits for.
        elements: usize,
        /// The bytes that they take: of a source at least, of a destination exactly.
        needed: usize,
        /// The bytes that it has.
        given: usize,
    },
    /// A checked cast met an element that it would have lost. What is in the destination is not said.
    Lossy(Lossy),
    /// The destination could not be allocated.
    Allocation {
        /// The dtype of its elements.
        dtype: DType,
        /// How many elements.
        elements: usize,
    },
    /// The [progress callback](crate::Parallel::progress) has stopped the cast.
    Cancelled {
        /// Elements that had been cast; which ones they are is not said.
        done: usize,
        /// Elements of the whole cast.
        elements: usize,
    },
    /// The two views of a strided cast do not have the same shape, or a view does not have one stride for each
    /// dimension.
    ShapeMismatch {
        /// The dimension that differs; None if their number does.
        dimension: Option<usize>,
        /// Its extent in the source, or the number of dimensions.
        source: usize,
        /// The same of the destination, or the number of strides.
        destination: usize,
    },
    /// A view leaves its buffer.
    ViewBounds {
        /// Which view.
        side: Side,
        /// The first byte of its elements, relative to the buffer.
        first: i128,
        /// The byte behind the last one.
        end: i128,
        /// The bytes that the buffer has.
        given: usize,
    },
    /// Elements of a destination that lie over each other: a stride along a dimension of more than one element is
    /// 0, or smaller than an element.
    ViewOverlap {
        /// The dimension.
        dimension: usize,
        /// Its stride in bytes.
        stride: isize,
    },
    /// Views that overlap.
    Overlap,
    /// A view of packed elements. Strides are whole bytes, so elements of fewer than 8 bits must lie
    /// [one per byte](crate::Packing::OnePerByte).
    ViewPacked {
        /// Which view.
        side: Side,
        /// The dtype of its elements.
        dtype: DType,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LengthMismatch { source, destination } => write!(
                f,
                "the source has {source} elements and the destination {destination}; \
                 they must have the same number"
            ),
            Self::BufferSize { side, dtype, elements, needed, given } => write!(
                f,
                "the {side} has {given} bytes; {elements} elements of {dtype} need exactly {needed}"
            ),
            Self::SizeOverflow { side, dtype, elements } => {
                write!(f, "a {side} of {elements} elements of {dtype} does not fit into the address space")
            }
            Self::IsaUnavailable { isa } => {
                write!(f, "{isa} is not available here; ")?;
                write_available(f)
            }
            Self::IsaOverride { value } => {
                write!(f, "LANECAST_ISA is {value:?}, which is not available here; ")?;
                write_available(f)
            }
            Self::BitmapSize { side, elements, needed, given } => {
                let how = if side == Side::Source { "at least" } else { "exactly" };
                write!(
                    f,
                    "the bitmap of the {side} has {given} bytes; {elements} elements need {how} {needed}"
                )
            }
            Self::Lossy(lossy) => lossy.fmt(f),
            Self::Allocation { dtype, elements } => {
                write!(f, "no memory for {elements} elements of {dtype}")
            }
            Self::Cancelled { done, elements } => {
                write!(f, "cancelled after {done} of {elements} elements")
            }
            Self::ShapeMismatch { dimension: Some(dimension), source, destination } => write!(
                f,
                "dimension {dimension} has {source} elements in the source and {destination} in the destination"
            ),
            Self::ShapeMismatch { dimension: None, source, destination } => {
                write!(f, "{source} dimensions do not go with {destination}")
            }
            Self::ViewBounds { side, first, end, given } => write!(
                f,
                "the view of the {side} goes from byte {first} to byte {end} of a buffer of {given} bytes"
            ),
            Self::ViewOverlap { dimension, stride } => write!(
                f,
                "the elements of the destination overlap: its stride is {stride} bytes along dimension {dimension}"
            ),
            Self::Overlap => f.write_str("the source and the destination overlap"),
            Self::ViewPacked { side, dtype } => {
                write!(f, "the {side} is a view of packed {dtype}; strides need one element per byte")
            }
        }
    }
}

fn write_available(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let names: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
    write!(f, "available: {}", names.join(", "))
}

impl std::error::Error for Error {}
