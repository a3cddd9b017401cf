//! What scaled casts of every kind check, and how a quantisation begins and ends.

use alloc::vec::Vec;
use core::iter::repeat_n;

use super::codes::{Elements, Scales, ZeroPoints};
use super::engine::{Given, Quantizing};
use super::error::Error;
use super::jobs::Registers;
use super::memory::{collect, kept, overflow};
use super::rule::check_scale;
use super::scaling::{Scaling, TensorScale};
use super::shape::{Grid, Places, block_lengths};
use crate::error::Side;
use crate::formats::dtype::DType;
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::options::CastOptions;
use crate::kernels::memory::Destination;
use crate::parallel::Parallel;

/// Returns threads that are the calling one alone.
pub(super) fn alone() -> Parallel<'static> {
    Parallel::new().threads(1)
}

/// What a quantisation found besides the scales.
///
/// ```
/// use lanecast::scaled::{Quantizer, Scaling, TensorScale};
/// use lanecast::{CastOptions, DType};
/// let scaling = Scaling::nvfp4().tensor_scale(TensorScale::ComputeMultiply);
/// let q = Quantizer::new(DType::F32, DType::F4E2M1, &scaling, &CastOptions::new())?;
/// let found = q.quantize(&2688f32.to_ne_bytes(), &[1], &mut [0], &mut [0])?;
/// assert_eq!(found.tensor_scale, Some(1.0));
/// # Ok::<(), lanecast::scaled::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Quantized {
    /// The tensor scale, if there is one, as it was given or computed.
    pub tensor_scale: Option<f32>,
}

/// Checks the size of a buffer of scales or of zero points.
fn check_scales(
    what: &'static str,
    shape: &[usize],
    scaling: &Scaling,
    grid: &Grid,
    dtype: DType,
    needed: usize,
    given: usize,
) -> Result<(), Error> {
    if needed == given {
        return Ok(());
    }
    let (block, scales) = (kept(&block_lengths(shape, scaling)?)?, kept(&grid.scale_shape)?);
    let shape = kept(shape)?;
    Err(Error::ScaleBytes { what, shape, block, scales, dtype, needed, given })
}

/// Checks the size of a buffer of data or elements.
pub(super) fn check_data(
    side: Side,
    shape: &[usize],
    dtype: DType,
    needed: usize,
    given: usize,
) -> Result<(), Error> {
    if needed == given {
        return Ok(());
    }
    Err(Error::DataBytes { side, shape: kept(shape)?, dtype, needed, given })
}

/// Checks that zero points are given only where the elements can have them.
pub(super) fn check_zero_points(are_given: bool, has_zero_points: bool) -> Result<(), Error> {
    if are_given && !has_zero_points {
        return Err(Error::Unsupported { what: "floats have no zero point" });
    }
    Ok(())
}

/// Returns the bytes of the data, on the side that is not quantised.
pub(super) fn data_bytes(shape: &[usize], grid: &Grid, dtype: DType) -> Result<usize, Error> {
    dtype.byte_len(grid.count, Packing::OnePerByte).ok_or_else(|| overflow(shape))
}

/// Returns the elements of a row and the bytes from one row to the next, if rows begin at bytes of their own.
pub(super) fn rows(grid: &Grid, scaling: &Scaling) -> Option<(usize, usize)> {
    scaling.row_bytes.filter(|_| grid.count > 0).map(|bytes| (grid.row, bytes))
}

/// Returns the tensor scale, if there is one and it is known.
pub(super) fn known(tensor: TensorScale) -> Option<f32> {
    match tensor {
        TensorScale::Multiply(value) | TensorScale::Divide(value) => Some(value),
        _ => None,
    }
}

/// Checks the sizes of given scales and zero points, and returns them.
pub(super) fn given<'a>(
    shape: &[usize],
    grid: &Grid,
    scaling: &Scaling,
    (element, packing, order): (DType, Packing, ByteOrder),
    scales: &'a [u8],
    zero_points: Option<&'a [u8]>,
    has_zero_points: bool,
) -> Result<Given<'a>, Error> {
    let places = Scales::new(grid, scaling, order)?;
    check_scales("scales", shape, scaling, grid, scaling.scale_dtype, places.places.bytes, scales.len())?;
    check_zero_points(zero_points.is_some(), has_zero_points)?;
    let zero_points = match zero_points {
        None => None,
        Some(bytes) => {
            let needed = element.byte_len(grid.scales, packing);
            let needed = needed.ok_or_else(|| overflow(shape))?;
            check_scales("zero points", shape, scaling, grid, element, needed, bytes.len())?;
            Some((ZeroPoints { dtype: element, packing, order }, bytes))
        }
    };
    Ok(Given { scales: places, bytes: scales, zero_points })
}

/// Returns the destination as initialised, after a cast has filled it.
#[allow(unsafe_code, reason = "every element was written, and so were the gaps between rows")]
pub(super) fn filled(dst: Destination<'_, u8>) -> &mut [u8] {
    // SAFETY: the chunks of a cast cover all of its elements, and each chunk is written whole: by `Elements::store` or by way of
    // float64, which also write the gap behind a row, or by the kernels, which take no destination with such gaps. The size was
    // checked to be that of the elements and the gaps.
    unsafe { dst.assume_init() }
}

/// Computes the tensor scale if that is wanted, finds the scales, and casts.
#[expect(clippy::too_many_arguments, reason = "what a cast takes, once more")]
pub(super) fn found(
    mut job: Quantizing<'_>,
    registers: Registers<'_>,
    scaling: &Scaling,
    options: &CastOptions,
    shape: &[usize],
    mut dst: Destination<'_, u8>,
    scales: &mut [u8],
    zero_points: Option<&mut [u8]>,
    how: &Parallel<'_>,
) -> Result<Quantized, Error> {
    let Quantizing { quantize, grid, .. } = job;
    if let Some(zero_points) = &zero_points {
        let needed = quantize.to.byte_len(grid.scales, options.dst_packing).unwrap_or(usize::MAX);
        check_scales("zero points", shape, scaling, grid, quantize.to, needed, zero_points.len())?;
    }
    let places = begun(&mut job, scaling, options, shape, scales.len(), how)?;
    let Some(zero_points) = zero_points else {
        job.run_found(registers, &places, dst, scales, None, how)?;
        return Ok(Quantized { tensor_scale: known(job.tensor) });
    };
    let mut zeros = collect(repeat_n(0, grid.scales))?;
    job.run_found(registers, &places, dst.reborrow(), scales, Some(&mut zeros), how)?;
    Elements::write(quantize.to, options, None)?.pack(&zeros, zero_points)?;
    // Elements are cast as under given scales and zero points.
    let how_packed = (quantize.to, options.dst_packing, options.dst_order);
    let given = given(shape, grid, scaling, how_packed, scales, Some(zero_points), true)?;
    Quantizing { affine: false, ..job }.run_given(registers, &given, dst, how)?;
    Ok(Quantized::default())
}

/// Checks the buffer of the scales, and computes the tensor scale if that is wanted. Returns where the scales go.
pub(super) fn begun(
    job: &mut Quantizing<'_>,
    scaling: &Scaling,
    options: &CastOptions,
    shape: &[usize],
    scales: usize,
    how: &Parallel<'_>,
) -> Result<Scales, Error> {
    let Quantizing { quantize, grid, .. } = *job;
    let places = Scales::new(grid, scaling, options.dst_order)?;
    check_scales("scales", shape, scaling, grid, scaling.scale_dtype, places.places.bytes, scales)?;
    match quantize.tensor {
        TensorScale::ComputeMultiply => {
            let g = quantize.tensor_scale(job.all_extremes(how)?.amax());
            job.tensor = TensorScale::Multiply(g);
        }
        TensorScale::ComputeDivide => {
            let g = quantize.tensor_scale(job.all_extremes(how)?.amax());
            job.tensor = TensorScale::Divide(g);
        }
        _ => {}
    }
    Ok(places)
}

impl Scaling {
    /// Returns the shape of the scales for data of this shape.
    ///
    /// ```
    /// use lanecast::scaled::Scaling;
    /// assert_eq!(Scaling::deepseek().scale_shape(&[7168, 512])?, [56, 4]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The blocks do not fit the shape.
    pub fn scale_shape(&self, shape: &[usize]) -> Result<Vec<usize>, Error> {
        kept(&Grid::new(shape, self)?.scale_shape)
    }

    /// Returns how many bytes the scales take for data of this shape.
    ///
    /// ```
    /// use lanecast::scaled::Scaling;
    /// assert_eq!(Scaling::deepseek().scale_bytes(&[7168, 512])?, 4 * 56 * 4);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Scaling::scale_shape`], or scales cannot be of that dtype.
    pub fn scale_bytes(&self, shape: &[usize]) -> Result<usize, Error> {
        check_scale(self.scale_dtype)?;
        Ok(Places::new(&Grid::new(shape, self)?, self)?.bytes)
    }

    /// Checks that `scales` is the shape of the scales for data of this shape. Scales are never broadcast.
    ///
    /// ```
    /// use lanecast::scaled::Scaling;
    /// let error = Scaling::deepseek().check_scale_shape(&[512, 7168], &[224, 4]).unwrap_err();
    /// assert_eq!(error.to_string(), "data of shape [512, 7168] in blocks of [128, 128] need scales of shape [4, 56], not [224, 4]");
    /// ```
    ///
    /// # Errors
    ///
    /// It is another shape, or the blocks do not fit the shape of the data.
    pub fn check_scale_shape(&self, shape: &[usize], scales: &[usize]) -> Result<(), Error> {
        let needed = self.scale_shape(shape)?;
        if needed == scales {
            return Ok(());
        }
        let (block, given) = (kept(&block_lengths(shape, self)?)?, kept(scales)?);
        Err(Error::ScaleShape { what: "scales", shape: kept(shape)?, block, needed, given })
    }
}
