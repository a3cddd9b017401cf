//! The error type of casts, and the element for which a checked cast was refused.

use core::fmt;

use crate::formats::dtype::{DType, Kind};
use crate::formats::element::Element;
use crate::formats::isa::Isa;
use crate::formats::loss::Loss;
use crate::formats::options::Policy;
use crate::kernels::scalar;

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
    /// The only one of a [cast in place](crate::Caster::cast_in_place).
    Both,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Source => "source",
            Self::Destination => "destination",
            Self::Both => "buffer",
        })
    }
}

/// Why a cast failed. Nothing was written, unless it was [cancelled](Error::Cancelled) or [lossy](Error::Lossy), or a checked cast
/// found no memory on its way ([`Error::PlanAllocation`]).
///
/// ```
/// use lanecast::{Error, cast_slice};
/// let mut out = [0u8; 3];
/// let error = cast_slice(&[1.0f32, 2.0], &mut out).unwrap_err();
/// assert_eq!(error, Error::LengthMismatch { source: 2, destination: 3 });
/// assert_eq!(error.to_string(), "the source has 2 elements and the destination has 3; they must have the same number");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The slices have different lengths.
    LengthMismatch {
        /// Elements in the source.
        source: usize,
        /// Elements in the destination.
        destination: usize,
    },
    /// A buffer does not have the size that its elements need.
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
    /// The size of a buffer overflows `usize`.
    SizeOverflow {
        /// Which buffer.
        side: Side,
        /// The dtype of its elements.
        dtype: DType,
        /// How many elements; `usize::MAX` if there are more than that.
        elements: usize,
    },
    /// This build has no kernels for the instruction set, or this machine cannot run it.
    IsaUnavailable {
        /// The one that was asked for.
        isa: Isa,
    },
    /// The environment variable `LANECAST_ISA` does not name an instruction set that is available.
    IsaOverride {
        /// The value of the variable.
        value: &'static str,
    },
    /// A bitmap does not have the size that the elements need.
    BitmapSize {
        /// Which buffer it belongs to.
        side: Side,
        /// How many elements it should have bits for.
        elements: usize,
        /// The bytes that they take: a minimum for a source, the exact size for a destination.
        needed: usize,
        /// The bytes that it has.
        given: usize,
    },
    /// A checked cast met an element that it would have lost. The contents of the destination are unspecified.
    Lossy(Lossy),
    /// The destination, or what a cast records about its elements, could not be allocated.
    Allocation {
        /// The dtype of its elements.
        dtype: DType,
        /// How many elements.
        elements: usize,
    },
    /// The plan for all casts of two dtypes under some options, which is kept, could not be allocated.
    PlanAllocation {
        /// The dtype of the source.
        from: DType,
        /// The dtype of the destination.
        to: DType,
    },
    /// The [progress callback](crate::parallel::Parallel::progress) has stopped the cast.
    Cancelled {
        /// How many elements had been cast; which ones is unspecified.
        done: usize,
        /// Elements of the whole cast.
        elements: usize,
    },
    /// The two views of a strided cast do not have the same shape.
    ShapeMismatch {
        /// The dimension that differs; None if the number of dimensions does.
        dimension: Option<usize>,
        /// Its extent in the source, or the number of dimensions of the source.
        source: usize,
        /// Its extent in the destination, or the number of dimensions of the destination.
        destination: usize,
    },
    /// A view does not have one stride for each dimension.
    StrideCount {
        /// Which view.
        side: Side,
        /// How many dimensions there are.
        dimensions: usize,
        /// How many strides it has.
        strides: usize,
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
    /// Elements of a destination overlap each other: a stride along a dimension of more than one element is
    /// 0, or smaller than an element.
    ViewOverlap {
        /// The dimension.
        dimension: usize,
        /// Its stride in bytes.
        stride: isize,
    },
    /// The source view and the destination view overlap.
    Overlap,
    /// The elements of a view are packed. Strides are whole bytes, so elements of fewer than 8 bits must lie
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
                "the source has {source} elements and the destination has {destination}; \
                 they must have the same number"
            ),
            Self::BufferSize { side, dtype, elements, needed, given } => write!(
                f,
                "the {side} has {given} bytes; {elements} elements of {dtype} need exactly {needed}"
            ),
            Self::SizeOverflow { side, dtype, elements: usize::MAX } => {
                write!(f, "the {side} has more elements of {dtype} than fit into the address space")
            }
            Self::SizeOverflow { side, dtype, elements } => {
                write!(f, "a {side} of {elements} elements of {dtype} would extend beyond the address space")
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
                let how =
                    if side == Side::Source { "from its offset on need at least" } else { "need exactly" };
                write!(f, "the bitmap of the {side} has {given} bytes; {elements} elements {how} {needed}")
            }
            Self::Lossy(lossy) => lossy.fmt(f),
            Self::Allocation { dtype, elements } => {
                write!(f, "no memory for {elements} elements of {dtype}")
            }
            Self::PlanAllocation { from, to } => {
                write!(f, "no memory to prepare casts from {from} to {to}")
            }
            Self::Cancelled { done, elements } => {
                write!(f, "cancelled after {done} of {elements} elements")
            }
            Self::ShapeMismatch { dimension: Some(dimension), source, destination } => write!(
                f,
                "dimension {dimension} has length {source} in the source and {destination} in the destination; \
                 they must have the same shape"
            ),
            Self::ShapeMismatch { dimension: None, source, destination } => {
                write!(
                    f,
                    "the source has {source} dimensions and the destination has {destination}; \
                     they must have the same shape"
                )
            }
            Self::StrideCount { side, dimensions, strides } => {
                write!(
                    f,
                    "the view of the {side} has {dimensions} dimensions and {strides} strides; it needs one for each dimension"
                )
            }
            Self::ViewBounds { side, first, end, given } => write!(
                f,
                "the view of the {side} covers the bytes {first}..{end}, beyond the bounds of a buffer of {given} bytes"
            ),
            Self::ViewOverlap { dimension, stride } => write!(
                f,
                "the elements of the destination overlap: its stride of {stride} bytes along dimension {dimension} \
                 is smaller than an element"
            ),
            Self::Overlap => f.write_str("the source and the destination overlap"),
            Self::ViewPacked { side, dtype } => {
                let option = if side == Side::Source { "src_packing" } else { "dst_packing" };
                write!(
                    f,
                    "the view of the {side} has packed elements of {dtype}; they must lie one per byte (option {option})"
                )
            }
        }
    }
}

fn write_available(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("available: ")?;
    // Written one by one, not from a list of names: an error must not need memory, which may be what is missing.
    for (i, isa) in Isa::available().iter().enumerate() {
        f.write_str(if i == 0 { "" } else { ", " })?;
        f.write_str(isa.name())?;
    }
    Ok(())
}

impl core::error::Error for Error {}

/// The element for which a checked cast was refused.
///
/// ```
/// use lanecast::{checked::{Loss, try_cast_slice}, DType, Error};
/// let Err(Error::Lossy(lossy)) = try_cast_slice(&[1i64, -2], &mut [0u8; 2]) else { unreachable!() };
/// assert_eq!((lossy.index, lossy.loss), (1, Loss::Below));
/// assert_eq!((lossy.from, lossy.to), (DType::I64, DType::U8));
/// assert_eq!(lossy.value(), Some(-2i64));
/// assert_eq!(lossy.to_string(), "element 1, -2, is below the range of uint8");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Lossy {
    /// The index of the element.
    pub index: usize,
    /// What the element would have lost.
    pub loss: Loss,
    /// The dtype of the element.
    pub from: DType,
    /// The dtype that it does not fit in.
    pub to: DType,
    pub(crate) codes: [u64; 2],
}

impl Lossy {
    /// The element itself; None if `S` is not the element type of [`from`](Self::from).
    ///
    /// ```
    /// use lanecast::{checked::try_cast_slice, Error};
    /// let Err(Error::Lossy(lossy)) = try_cast_slice(&[300u16], &mut [0i8]) else { unreachable!() };
    /// assert_eq!(lossy.value::<u16>(), Some(300));
    /// assert_eq!(lossy.value::<i32>(), None);
    /// ```
    pub fn value<S: Element>(&self) -> Option<S> {
        (S::DTYPE == self.from).then(|| S::from_codes(self.codes))
    }
}

impl fmt::Display for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, loss, from, to, codes } = *self;
        write!(f, "element {index}, ")?;
        match from.kind() {
            Kind::Bool => write!(f, "{}", codes[0] != 0)?,
            Kind::Int(format) if format.signed => {
                let unused = 64 - format.bits;
                write!(f, "{}", (codes[0] << unused) as i64 >> unused)?;
            }
            Kind::Int(_) => write!(f, "{}", codes[0])?,
            Kind::Float(_) => write_float(f, from, codes[0], false)?,
            Kind::Complex(_) => {
                write_float(f, from.part(), codes[0], false)?;
                write_float(f, from.part(), codes[1], true)?;
                f.write_str("i")?;
            }
        }
        match loss {
            Loss::Above => write!(f, ", is above the range of {to}"),
            Loss::Below => write!(f, ", is below the range of {to}"),
            Loss::NaN | Loss::Inf => write!(f, ", is not preserved in {to}"),
            Loss::Imaginary => write!(f, ", has an imaginary part, which {to} does not have"),
            Loss::Inexact => write!(f, ", is not exact in {to}"),
        }
    }
}

/// Writes a float in the precision of its dtype, or of f32 if the dtype has less.
fn write_float(f: &mut fmt::Formatter<'_>, dtype: DType, code: u64, signed: bool) -> fmt::Result {
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let code = scalar::encode(wide, scalar::decode(dtype, code), &Policy::DEFAULT);
    match (wide, signed) {
        (DType::F64, false) => write!(f, "{:?}", f64::from_bits(code)),
        (DType::F64, true) => write!(f, "{:+?}", f64::from_bits(code)),
        (_, false) => write!(f, "{:?}", f32::from_bits(code as u32)),
        (_, true) => write!(f, "{:+?}", f32::from_bits(code as u32)),
    }
}
