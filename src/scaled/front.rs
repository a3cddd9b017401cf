//! The front door: casts that have been decided, and what they check.

use alloc::vec::Vec;
use core::iter::repeat_n;
use core::mem::MaybeUninit;

use super::codes::{Elements, Scales, ZeroPoints};
#[cfg(isa = "vector")]
use super::divide;
#[cfg(isa = "vector")]
use super::engine::ToOdd;
use super::engine::{Dequantizing, Floats, Given, Quantizing, Scaled, Source};
use super::error::Error;
use super::jobs::Registers;
use super::memory::{collect, kept, overflow};
#[cfg(isa = "vector")]
use super::multiply::{Decided, Multiply, is_exact};
use super::rule::{Dequantize, Quantize};
use super::scaling::{Scaling, TensorScale};
use super::shape::{Grid, Places, block_lengths, code_bytes};
use crate::error::Side;
use crate::formats::dtype::DType;
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::options::CastOptions;
use crate::kernels::memory::Destination;
#[cfg(isa = "vector")]
use crate::kernels::scaled::calmly;
use crate::parallel::Parallel;

/// One thread: the calling one.
pub(super) fn alone() -> Parallel<'static> {
    Parallel::new().threads(1)
}

/// What a quantisation has found beside the scales.
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
    /// The factor of the tensor, if there is one: as it was given, or as it was computed.
    pub tensor_scale: Option<f32>,
}

/// Must there be exactly so many bytes of scales or zero points?
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

/// Must the buffer of a shape have exactly so many bytes?
fn check_data(side: Side, shape: &[usize], dtype: DType, needed: usize, given: usize) -> Result<(), Error> {
    if needed == given {
        return Ok(());
    }
    Err(Error::DataBytes { side, shape: kept(shape)?, dtype, needed, given })
}

/// Bytes of data that are not quantised.
fn data_bytes(shape: &[usize], grid: &Grid, dtype: DType) -> Result<usize, Error> {
    dtype.byte_len(grid.count, Packing::OnePerByte).ok_or_else(|| overflow(shape))
}

/// Rows that begin on bytes of their own.
pub(super) fn rows(grid: &Grid, scaling: &Scaling) -> Option<(usize, usize)> {
    scaling.row_bytes.filter(|_| grid.count > 0).map(|bytes| (grid.row, bytes))
}

/// The factor of a tensor that is known.
pub(super) fn known(tensor: TensorScale) -> Option<f32> {
    match tensor {
        TensorScale::Multiply(value) | TensorScale::Divide(value) => Some(value),
        _ => None,
    }
}

/// Scales and zero points that are given, checked.
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
    let zero_points = match zero_points {
        None => None,
        Some(_) if !has_zero_points => {
            return Err(Error::Unsupported { what: "floats have no zero point" });
        }
        Some(bytes) => {
            let needed = element.byte_len(grid.scales, packing);
            let needed = needed.ok_or_else(|| overflow(shape))?;
            check_scales("zero points", shape, scaling, grid, element, needed, bytes.len())?;
            Some((ZeroPoints { dtype: element, packing, order }, bytes))
        }
    };
    Ok(Given { scales: places, bytes: scales, zero_points })
}

/// Casts floats to elements under scales: decided once, kept, used from any thread.
///
/// Data are bytes in row-major order and a shape. The options say rounding, saturation, NaN, packing and byte orders
/// (scales and zero points have that of the elements).
///
/// ```
/// use lanecast::scaled::{Quantizer, Scaling};
/// use lanecast::{CastOptions, DType};
///
/// let q = Quantizer::new(DType::F32, DType::F8E4M3FN, &Scaling::mx(), &CastOptions::new())?;
/// let data: Vec<u8> = (0..64).flat_map(|i| (i as f32).to_ne_bytes()).collect();
/// let (mut codes, mut scales) = ([0; 64], [0; 2]);
/// q.quantize(&data, &[64], &mut codes, &mut scales)?;
/// assert_eq!(scales, [127 + 4 - 8, 127 + 5 - 8]);
/// # Ok::<(), lanecast::scaled::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quantizer {
    pub(super) scaling: Scaling,
    pub(super) options: CastOptions,
    pub(super) quantize: Quantize,
    #[cfg(isa = "vector")]
    decided: Option<divide::Decided>,
}

impl Quantizer {
    /// Decides the quantisation of `from`, a float of 16 bits or more, to `to`.
    ///
    /// ```
    /// use lanecast::scaled::{Quantizer, Scaling};
    /// use lanecast::{CastOptions, DType};
    /// let error = Quantizer::new(DType::I8, DType::F4E2M1, &Scaling::mx(), &CastOptions::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "quantize from int8 to float4_e2m1fn: there is no such");
    /// ```
    ///
    /// # Errors
    ///
    /// This pair, rule or profile is not there, they do not go together, a factor of the tensor is not finite and positive, or
    /// the instruction set is not available.
    pub fn new(from: DType, to: DType, scaling: &Scaling, options: &CastOptions) -> Result<Self, Error> {
        let quantize = Quantize::new(from, to, scaling, options)?;
        let read = Elements::read(from, options, None)?;
        #[cfg(isa = "vector")]
        let write = Elements::write(to, options, None)?;
        #[cfg(not(isa = "vector"))]
        let _ = read;
        Ok(Self {
            scaling: *scaling,
            options: *options,
            quantize,
            #[cfg(isa = "vector")]
            decided: calmly(|| divide::Decided::new(&quantize, &read, &write)),
        })
    }

    /// The dtype of the data.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Quantizer, Scaling}};
    /// # let q = Quantizer::new(DType::F32, DType::I8, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!((q.from(), q.to()), (DType::F32, DType::I8));
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn from(&self) -> DType {
        self.quantize.from
    }

    /// The dtype of the elements.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Quantizer, Scaling}};
    /// # let q = Quantizer::new(DType::F32, DType::I8, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!(q.to(), DType::I8);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn to(&self) -> DType {
        self.quantize.to
    }

    /// The scaling it was made from.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Quantizer, Scaling}};
    /// # let q = Quantizer::new(DType::F32, DType::I8, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!(q.scaling(), &Scaling::mx());
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn scaling(&self) -> &Scaling {
        &self.scaling
    }

    /// The shape of the scales of data of a shape.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::I8, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!(q.scale_shape(&[5, 70])?, [5, 3]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The blocks do not go with the shape.
    pub fn scale_shape(&self, shape: &[usize]) -> Result<Vec<usize>, Error> {
        self.scaling.scale_shape(shape)
    }

    /// The bytes of the scales of data of a shape.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::I8, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!(q.scale_bytes(&[5, 70])?, 15);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::scale_shape`].
    pub fn scale_bytes(&self, shape: &[usize]) -> Result<usize, Error> {
        self.scaling.scale_bytes(shape)
    }

    /// The bytes of the elements of data of a shape.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::F4E2M1, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!(q.code_bytes(&[5, 70])?, 175);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::scale_shape`].
    pub fn code_bytes(&self, shape: &[usize]) -> Result<usize, Error> {
        let grid = Grid::new(shape, &self.scaling)?;
        code_bytes(&grid, &self.scaling, self.quantize.to, self.options.dst_packing)
    }

    /// Casts data, with scales that are found from them and written.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::I8, &Scaling::per_tensor(DType::F32), &CastOptions::new())?;
    /// let data: Vec<u8> = [0.5f32, -2.54].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let (mut codes, mut scale) = ([0; 2], [0; 4]);
    /// q.quantize(&data, &[2], &mut codes, &mut scale)?;
    /// assert_eq!((codes.map(|x| x as i8), f32::from_ne_bytes(scale)), ([25, -127], 0.02));
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size that the shape needs, or the profile takes scales that are given. Nothing was written.
    pub fn quantize(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: &mut [u8],
        scales: &mut [u8],
    ) -> Result<Quantized, Error> {
        self.found(src, shape, dst.into(), scales, None, &alone())
    }

    /// [`Quantizer::quantize`] on all threads, see [`Caster::par_cast`](crate::Caster::par_cast).
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::F4E2M1, &Scaling::mx(), &CastOptions::new())?;
    /// let (mut codes, mut scales) = ([0; 500], [0; 40]);
    /// q.par_quantize(&[0; 4000], &[10, 100], &mut codes, &mut scales)?;
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`].
    pub fn par_quantize(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: &mut [u8],
        scales: &mut [u8],
    ) -> Result<Quantized, Error> {
        self.found(src, shape, dst.into(), scales, None, &Parallel::new())
    }

    /// [`Quantizer::quantize`] on the threads of `how`. Its chunks do not matter here, but that there are any is enough to
    /// divide small work, too.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, parallel::Parallel, scaled::{Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::F4E2M1, &Scaling::mx(), &CastOptions::new())?;
    /// let (mut codes, mut scales) = ([0; 500], [0; 40]);
    /// q.par_quantize_with(&[0; 4000], &[10, 100], &mut codes, &mut scales, &Parallel::new().threads(2))?;
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`], or the callback has stopped it.
    pub fn par_quantize_with(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: &mut [u8],
        scales: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<Quantized, Error> {
        self.found(src, shape, dst.into(), scales, None, how)
    }

    /// The same to memory that need not be initialised, which is returned initialised.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, parallel::Parallel, scaled::{Quantizer, Scaling}};
    /// use core::mem::MaybeUninit;
    /// let q = Quantizer::new(DType::F32, DType::F4E2M1, &Scaling::mx(), &CastOptions::new())?;
    /// let (mut codes, mut scales) = ([MaybeUninit::uninit(); 4], [0; 1]);
    /// let (codes, _) = q.quantize_uninit(&[0; 32], &[8], &mut codes, &mut scales, &Parallel::new())?;
    /// assert_eq!(codes, [0; 4]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::par_quantize_with`].
    pub fn quantize_uninit<'a>(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: &'a mut [MaybeUninit<u8>],
        scales: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<(&'a mut [u8], Quantized), Error> {
        let mut dst = Destination::from(dst);
        let found = self.found(src, shape, dst.reborrow(), scales, None, how)?;
        Ok((filled(dst), found))
    }

    /// Casts data, with scales and zero points that are found from them and written: [`Profile::CompressedTensors`](super::Profile)
    /// to int4 and int8. Zero points are packed as the elements are.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Profile, Quantizer, Scaling}};
    /// let scaling = Scaling::per_axis(0).profile(Profile::CompressedTensors);
    /// let q = Quantizer::new(DType::F32, DType::I4, &scaling, &CastOptions::new())?;
    /// let data: Vec<u8> = [0f32, 15.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let (mut codes, mut scale, mut zero) = ([0], [0; 4], [0]);
    /// q.quantize_affine(&data, &[1, 2], &mut codes, &mut scale, &mut zero)?;
    /// assert_eq!((codes, f32::from_ne_bytes(scale), zero), ([0x78], 1.0, [0x08])); // -8 and 7
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`].
    pub fn quantize_affine(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: &mut [u8],
        scales: &mut [u8],
        zero_points: &mut [u8],
    ) -> Result<Quantized, Error> {
        self.quantize.check_affine()?;
        self.found(src, shape, dst.into(), scales, Some(zero_points), &alone())
    }

    /// Casts data under scales that are given, and zero points if the elements are integers: one for each scale, in the
    /// order of the shape of the scales, of the dtype of the elements and packed as they are.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::U8, &Scaling::per_tensor(DType::F32), &CastOptions::new())?;
    /// let data: Vec<u8> = [0.5f32, -2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let mut codes = [0; 2];
    /// q.quantize_given(&data, &[2], &0.25f32.to_ne_bytes(), Some(&[128]), &mut codes)?;
    /// assert_eq!(codes, [130, 120]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size that the shape needs; there are zero points of floats; the factor of the tensor is to be
    /// computed. Nothing was written.
    pub fn quantize_given(
        &self,
        src: &[u8],
        shape: &[usize],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut [u8],
    ) -> Result<(), Error> {
        self.given(src, shape, scales, zero_points, dst.into(), &alone())
    }

    /// [`Quantizer::quantize_given`] on the threads of `how`.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, parallel::Parallel, scaled::{Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::U8, &Scaling::per_axis(0), &CastOptions::new())?;
    /// let mut codes = [0];
    /// let scale = 0.5f32.to_ne_bytes();
    /// q.par_quantize_given(&3f32.to_ne_bytes(), &[1], &scale, None, &mut codes, &Parallel::new())?;
    /// assert_eq!(codes, [6]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize_given`], or the callback has stopped it.
    pub fn par_quantize_given(
        &self,
        src: &[u8],
        shape: &[usize],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        self.given(src, shape, scales, zero_points, dst.into(), how)
    }

    /// The same to memory that need not be initialised, which is returned initialised.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, parallel::Parallel, scaled::{Quantizer, Scaling}};
    /// use core::mem::MaybeUninit;
    /// let q = Quantizer::new(DType::F32, DType::U8, &Scaling::per_axis(0), &CastOptions::new())?;
    /// let mut codes = [MaybeUninit::uninit()];
    /// let scale = 0.5f32.to_ne_bytes();
    /// let codes =
    ///     q.quantize_given_uninit(&3f32.to_ne_bytes(), &[1], &scale, None, &mut codes, &Parallel::new())?;
    /// assert_eq!(codes, [6]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::par_quantize_given`].
    pub fn quantize_given_uninit<'a>(
        &self,
        src: &[u8],
        shape: &[usize],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &'a mut [MaybeUninit<u8>],
        how: &Parallel<'_>,
    ) -> Result<&'a mut [u8], Error> {
        let mut dst = Destination::from(dst);
        self.given(src, shape, scales, zero_points, dst.reborrow(), how)?;
        Ok(filled(dst))
    }

    pub(super) fn grid(&self, src: usize, shape: &[usize], dst: usize) -> Result<Grid, Error> {
        let grid = Grid::new(shape, &self.scaling)?;
        check_data(
            Side::Source,
            shape,
            self.quantize.from,
            data_bytes(shape, &grid, self.quantize.from)?,
            src,
        )?;
        let needed = code_bytes(&grid, &self.scaling, self.quantize.to, self.options.dst_packing)?;
        check_data(Side::Destination, shape, self.quantize.to, needed, dst)?;
        Ok(grid)
    }

    fn found(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: Destination<'_, u8>,
        scales: &mut [u8],
        zero_points: Option<&mut [u8]>,
        how: &Parallel<'_>,
    ) -> Result<Quantized, Error> {
        self.with_job(src, shape, dst.size(), zero_points.is_some(), |job| {
            found(job, self.registers(), &self.scaling, &self.options, shape, dst, scales, zero_points, how)
        })
    }

    /// Calls a function with a quantisation that finds scales, to so many bytes.
    pub(super) fn with_job<R>(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: usize,
        affine: bool,
        run: impl FnOnce(Quantizing<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.quantize.check_found()?;
        let grid = self.grid(src.len(), shape, dst)?;
        let source = self.floats(src)?;
        run(self.job(&grid, &source, affine)?)
    }

    fn given(
        &self,
        src: &[u8],
        shape: &[usize],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: Destination<'_, u8>,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        self.with_given(src, shape, dst.size(), scales, zero_points, |job, given| {
            job.run_given(self.registers(), &given, dst, how)
        })
    }

    /// Calls a function with a quantisation to so many bytes, and the scales that are given.
    pub(super) fn with_given<R>(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: usize,
        scales: &[u8],
        zero_points: Option<&[u8]>,
        run: impl FnOnce(Quantizing<'_>, Given<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let grid = self.grid(src.len(), shape, dst)?;
        let given = self.are_given(shape, &grid, scales, zero_points)?;
        let source = self.floats(src)?;
        run(self.job(&grid, &source, false)?, given)
    }

    /// Scales and zero points that are given, checked.
    fn are_given<'a>(
        &self,
        shape: &[usize],
        grid: &Grid,
        scales: &'a [u8],
        zero_points: Option<&'a [u8]>,
    ) -> Result<Given<'a>, Error> {
        let (q, options) = (&self.quantize, &self.options);
        if matches!(q.tensor, TensorScale::ComputeMultiply | TensorScale::ComputeDivide) {
            return Err(Error::Unsupported {
                what: "with scales that are given, the factor of the tensor must be given, too",
            });
        }
        let how_packed = (q.to, options.dst_packing, options.dst_order);
        given(shape, grid, &self.scaling, how_packed, scales, zero_points, q.has_zero_points())
    }

    /// Data.
    fn floats<'a>(&'a self, src: &'a [u8]) -> Result<Floats<'a>, Error> {
        let elements = Elements::read(self.quantize.from, &self.options, None)?;
        Ok(Floats { elements, quantize: &self.quantize, bytes: src })
    }

    pub(super) fn registers(&self) -> Registers<'_> {
        #[cfg(isa = "vector")]
        return self.decided.as_ref();
        #[cfg(not(isa = "vector"))]
        None
    }

    /// A quantisation of a buffer.
    fn job<'a>(
        &'a self,
        grid: &'a Grid,
        source: &'a dyn Source,
        affine: bool,
    ) -> Result<Quantizing<'a>, Error> {
        let (quantize, options) = (&self.quantize, &self.options);
        let write = Elements::write(quantize.to, options, rows(grid, &self.scaling))?;
        let tensor = quantize.tensor;
        Ok(Quantizing { quantize, grid, source, write, tensor, affine })
    }
}

/// The destination that a cast has filled.
#[allow(unsafe_code, reason = "every element was written, and so were the gaps between rows")]
fn filled(dst: Destination<'_, u8>) -> &mut [u8] {
    // SAFETY: the chunks of a cast are all of its elements, each is stored by `Elements::store`, which writes the bytes of
    // them and of the gap behind a row; the size was checked to be that of both.
    unsafe { dst.assume_init() }
}

/// Finds scales, and the factor of the tensor if it is to be computed, and casts.
#[expect(clippy::too_many_arguments, reason = "what a cast takes, once more")]
fn found(
    mut job: Quantizing<'_>,
    registers: Registers<'_>,
    scaling: &Scaling,
    options: &CastOptions,
    shape: &[usize],
    dst: Destination<'_, u8>,
    scales: &mut [u8],
    zero_points: Option<&mut [u8]>,
    how: &Parallel<'_>,
) -> Result<Quantized, Error> {
    let Quantizing { quantize, grid, affine, .. } = job;
    if let Some(zero_points) = &zero_points {
        let needed = quantize.to.byte_len(grid.scales, options.dst_packing).unwrap_or(usize::MAX);
        check_scales("zero points", shape, scaling, grid, quantize.to, needed, zero_points.len())?;
    }
    let places = begun(&mut job, scaling, options, shape, scales.len(), how)?;
    let mut zeros = collect(repeat_n(0, if affine { grid.scales } else { 0 }))?;
    job.run_found(registers, &places, dst, scales, affine.then_some(&mut zeros[..]), how)?;
    if let Some(zero_points) = zero_points {
        let codes = collect(zeros.iter().map(|&zero| zero as u8))?;
        let elements = Elements::write(quantize.to, options, None)?;
        elements.pack(&codes, zero_points)?;
    }
    Ok(Quantized { tensor_scale: known(job.tensor) })
}

/// Where the scales go that are to be found, of which there must be so many bytes. The factor of the tensor is found, if it is to
/// be computed.
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
    /// The shape of the scales of data of a shape.
    ///
    /// ```
    /// use lanecast::scaled::Scaling;
    /// assert_eq!(Scaling::deepseek().scale_shape(&[7168, 512])?, [56, 4]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The blocks do not go with the shape.
    pub fn scale_shape(&self, shape: &[usize]) -> Result<Vec<usize>, Error> {
        kept(&Grid::new(shape, self)?.scale_shape)
    }

    /// The bytes of the scales of data of a shape.
    ///
    /// ```
    /// use lanecast::scaled::Scaling;
    /// assert_eq!(Scaling::deepseek().scale_bytes(&[7168, 512])?, 4 * 56 * 4);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Scaling::scale_shape`].
    pub fn scale_bytes(&self, shape: &[usize]) -> Result<usize, Error> {
        Ok(Places::new(&Grid::new(shape, self)?, self)?.bytes)
    }

    /// Are scales of this shape those of data of that one? A scale is never broadcast.
    ///
    /// ```
    /// use lanecast::scaled::Scaling;
    /// let error = Scaling::deepseek().check_scale_shape(&[512, 7168], &[224, 4]).unwrap_err();
    /// assert_eq!(error.to_string(), "data 512x7168 in blocks of 128x128 need 4x56 scales; there are 224x4");
    /// ```
    ///
    /// # Errors
    ///
    /// They are not, or the blocks do not go with the shape.
    pub fn check_scale_shape(&self, shape: &[usize], scales: &[usize]) -> Result<(), Error> {
        let needed = self.scale_shape(shape)?;
        if needed == scales {
            return Ok(());
        }
        let (block, given) = (kept(&block_lengths(shape, self)?)?, kept(scales)?);
        Err(Error::ScaleShape { what: "scales", shape: kept(shape)?, block, needed, given })
    }
}

/// Casts elements under scales to floats: decided once, kept, used from any thread.
///
/// ```
/// use lanecast::scaled::{Dequantizer, Scaling};
/// use lanecast::{CastOptions, DType};
///
/// let d = Dequantizer::new(DType::F4E2M1, DType::F32, &Scaling::mx(), &CastOptions::new())?;
/// let mut out = [0; 16];
/// d.dequantize(&[0xF2, 0x10], &[4], &[127 + 3], None, &mut out)?;
/// let (out, _) = out.as_chunks();
/// assert_eq!(out.iter().map(|&x| f32::from_ne_bytes(x)).collect::<Vec<_>>(), [8.0, -48.0, 0.0, 4.0]);
/// # Ok::<(), lanecast::scaled::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dequantizer {
    pub(super) scaling: Scaling,
    pub(super) options: CastOptions,
    pub(super) dequantize: Dequantize,
    #[cfg(isa = "vector")]
    decided: Option<Decided>,
}

impl Dequantizer {
    /// Decides the dequantisation of `from` to `to`, a float of 16 bits or more.
    ///
    /// ```
    /// use lanecast::scaled::{Dequantizer, Scaling};
    /// use lanecast::{CastOptions, DType};
    /// assert!(Dequantizer::new(DType::F8E4M3FN, DType::I8, &Scaling::mx(), &CastOptions::new()).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// This pair, or the profile for it, is not there; a factor of the tensor is not given, finite and positive; the
    /// instruction set is not available.
    pub fn new(from: DType, to: DType, scaling: &Scaling, options: &CastOptions) -> Result<Self, Error> {
        let dequantize = Dequantize::new(from, to, scaling, options)?;
        let read = Elements::read(from, options, None)?;
        #[cfg(isa = "vector")]
        let write = Elements::write(to, options, None)?;
        #[cfg(not(isa = "vector"))]
        let _ = read;
        Ok(Self {
            scaling: *scaling,
            options: *options,
            dequantize,
            #[cfg(isa = "vector")]
            decided: calmly(|| Decided::new(&dequantize, &read, &write)),
        })
    }

    /// The dtype of the elements.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Dequantizer, Scaling}};
    /// # let d = Dequantizer::new(DType::I8, DType::F32, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!((d.from(), d.to()), (DType::I8, DType::F32));
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn from(&self) -> DType {
        self.dequantize.from
    }

    /// The dtype of the data.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Dequantizer, Scaling}};
    /// # let d = Dequantizer::new(DType::I8, DType::F32, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!(d.to(), DType::F32);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn to(&self) -> DType {
        self.dequantize.to
    }

    /// The scaling it was made from.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Dequantizer, Scaling}};
    /// # let d = Dequantizer::new(DType::I8, DType::F32, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!(d.scaling(), &Scaling::mx());
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn scaling(&self) -> &Scaling {
        &self.scaling
    }

    /// The shape of the scales of data of a shape.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Dequantizer, Scaling}};
    /// let d = Dequantizer::new(DType::I8, DType::F32, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!(d.scale_shape(&[3, 40])?, [3, 2]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The blocks do not go with the shape.
    pub fn scale_shape(&self, shape: &[usize]) -> Result<Vec<usize>, Error> {
        self.scaling.scale_shape(shape)
    }

    /// The bytes of the scales of data of a shape.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Dequantizer, Scaling}};
    /// let d = Dequantizer::new(DType::I8, DType::F32, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!(d.scale_bytes(&[3, 40])?, 6);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Dequantizer::scale_shape`].
    pub fn scale_bytes(&self, shape: &[usize]) -> Result<usize, Error> {
        self.scaling.scale_bytes(shape)
    }

    /// Casts elements of a shape. Zero points are as in [`Quantizer::quantize_given`].
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Dequantizer, Scaling}};
    /// let d = Dequantizer::new(DType::U8, DType::F32, &Scaling::per_tensor(DType::F32), &CastOptions::new())?;
    /// let mut out = [0; 4];
    /// d.dequantize(&[130], &[1], &0.25f32.to_ne_bytes(), Some(&[128]), &mut out)?;
    /// assert_eq!(f32::from_ne_bytes(out), 0.5);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size that the shape needs, or there are zero points of floats. Nothing was written.
    pub fn dequantize(
        &self,
        src: &[u8],
        shape: &[usize],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut [u8],
    ) -> Result<(), Error> {
        self.run(src, shape, scales, zero_points, dst.into(), &alone())
    }

    /// [`Dequantizer::dequantize`] on all threads, see [`Caster::par_cast`](crate::Caster::par_cast).
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Dequantizer, Scaling}};
    /// let d = Dequantizer::new(DType::I8, DType::F32, &Scaling::mx(), &CastOptions::new())?;
    /// let mut out = [0; 4];
    /// d.par_dequantize(&[64], &[1], &[127], None, &mut out)?;
    /// assert_eq!(f32::from_ne_bytes(out), 1.0);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Dequantizer::dequantize`].
    pub fn par_dequantize(
        &self,
        src: &[u8],
        shape: &[usize],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut [u8],
    ) -> Result<(), Error> {
        self.run(src, shape, scales, zero_points, dst.into(), &Parallel::new())
    }

    /// [`Dequantizer::dequantize`] on the threads of `how`.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, parallel::Parallel, scaled::{Dequantizer, Scaling}};
    /// let d = Dequantizer::new(DType::I8, DType::F32, &Scaling::mx(), &CastOptions::new())?;
    /// let mut out = [0; 4];
    /// d.par_dequantize_with(&[64], &[1], &[127], None, &mut out, &Parallel::new().threads(2))?;
    /// assert_eq!(f32::from_ne_bytes(out), 1.0);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Dequantizer::dequantize`], or the callback has stopped it.
    pub fn par_dequantize_with(
        &self,
        src: &[u8],
        shape: &[usize],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        self.run(src, shape, scales, zero_points, dst.into(), how)
    }

    /// The same to memory that need not be initialised, which is returned initialised.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, parallel::Parallel, scaled::{Dequantizer, Scaling}};
    /// use core::mem::MaybeUninit;
    /// let d = Dequantizer::new(DType::I8, DType::F32, &Scaling::mx(), &CastOptions::new())?;
    /// let mut out = [MaybeUninit::uninit(); 4];
    /// let out = d.dequantize_uninit(&[64], &[1], &[127], None, &mut out, &Parallel::new())?;
    /// assert_eq!(out, 1f32.to_ne_bytes());
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Dequantizer::par_dequantize_with`].
    pub fn dequantize_uninit<'a>(
        &self,
        src: &[u8],
        shape: &[usize],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &'a mut [MaybeUninit<u8>],
        how: &Parallel<'_>,
    ) -> Result<&'a mut [u8], Error> {
        let mut dst = Destination::from(dst);
        self.run(src, shape, scales, zero_points, dst.reborrow(), how)?;
        Ok(filled(dst))
    }

    fn run(
        &self,
        src: &[u8],
        shape: &[usize],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: Destination<'_, u8>,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        let (d, options, scaling) = (&self.dequantize, &self.options, &self.scaling);
        let grid = Grid::new(shape, scaling)?;
        let needed = code_bytes(&grid, scaling, d.from, options.src_packing)?;
        check_data(Side::Source, shape, d.from, needed, src.len())?;
        check_data(Side::Destination, shape, d.to, data_bytes(shape, &grid, d.to)?, dst.size())?;
        let how_packed = (d.from, options.src_packing, options.src_order);
        let given = given(shape, &grid, scaling, how_packed, scales, zero_points, d.has_zero_points())?;
        let read = Elements::read(d.from, options, rows(&grid, scaling))?;
        let write = Elements::write(d.to, options, None)?;
        let job = Dequantizing { dequantize: d, grid: &grid, read, bytes: src, write, given };
        #[cfg(isa = "vector")]
        if let Some(multiply) = self.decided.as_ref().and_then(|decided| Multiply::new(&job, decided)) {
            return job.run_by(&multiply, dst, how);
        }
        job.run(dst, how)
    }
}

/// Casts elements under one scaling to elements under another, in one pass and with one rounding: weights change their
/// format. (To floats without scales it is a [`Dequantizer`] that does.)
///
/// ```
/// use lanecast::scaled::{Requantizer, Scaling};
/// use lanecast::{CastOptions, DType};
///
/// let (from, to) = (Scaling::deepseek(), Scaling::mx());
/// let r = Requantizer::new((DType::F8E4M3FN, &from), (DType::F4E2M1, &to), &CastOptions::new())?;
/// let (mut codes, mut scales) = ([0; 1], [0; 1]);
/// r.requantize(&[0x38, 0x40], &[1, 2], &0.5f32.to_ne_bytes(), None, &mut codes, &mut scales)?;
/// assert_eq!((codes, scales), ([0x64], [127 - 2])); // 2 and 4, by 2^-2
/// # Ok::<(), lanecast::scaled::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Requantizer {
    pub(super) from: Scaling,
    pub(super) to: Scaling,
    pub(super) options: CastOptions,
    pub(super) dequantize: Dequantize,
    pub(super) quantize: Quantize,
    #[cfg(isa = "vector")]
    by_f32: Option<ByF32>,
}

/// What registers do of a requantisation: by way of float32, rounded to odd.
///
/// That is one rounding where the products of the source are float32, and where the scales of the target are powers of two: by
/// those, all that codes and scales tell apart is of few bits.
#[cfg(isa = "vector")]
#[derive(Clone, Copy, Debug)]
struct ByF32 {
    dequantize: Dequantize,
    odd: Decided,
    quantize: Quantize,
    decided: divide::Decided,
}

#[cfg(isa = "vector")]
impl ByF32 {
    /// None if the reference is as good.
    fn new(
        from: (DType, &Scaling),
        to: (DType, &Scaling),
        options: &CastOptions,
    ) -> Result<Option<Self>, Error> {
        let dequantize = Dequantize::new(from.0, DType::F32, from.1, options)?;
        let quantize = Quantize::new(DType::F32, to.0, to.1, options)?;
        if !is_exact(&dequantize) && to.1.scale_dtype != DType::F8E8M0 {
            return Ok(None);
        }
        let native = options.src_order(ByteOrder::Native).dst_order(ByteOrder::Native);
        let [codes, floats] = [(from.0, options), (DType::F32, &native)]
            .map(|(dtype, options)| Elements::read(dtype, options, None));
        let [made, written] = [(DType::F32, &native), (to.0, options)]
            .map(|(dtype, options)| Elements::write(dtype, options, None));
        let (codes, floats, made, written) = (codes?, floats?, made?, written?);
        Ok(calmly(|| {
            let odd = Decided::new(&dequantize, &codes, &made)?.odd()?;
            let decided = divide::Decided::new(&quantize, &floats, &written)?;
            Some(Self { dequantize, odd, quantize, decided })
        }))
    }
}

impl Requantizer {
    /// Decides the requantisation between two dtypes, each with its scaling. Both follow the exact rule.
    ///
    /// ```
    /// use lanecast::scaled::{Profile, Requantizer, Scaling};
    /// use lanecast::{CastOptions, DType};
    /// let (from, to) = (Scaling::mx(), Scaling::mx().profile(Profile::Torchao));
    /// assert!(Requantizer::new((DType::F4E2M1, &from), (DType::I8, &to), &CastOptions::new()).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::new`] and [`Dequantizer::new`]; or a scaling has a profile of other steps.
    pub fn new(from: (DType, &Scaling), to: (DType, &Scaling), options: &CastOptions) -> Result<Self, Error> {
        let dequantize = Dequantize::new(from.0, DType::F64, from.1, options)?;
        let quantize = Quantize::new(DType::F64, to.0, to.1, options)?;
        if !dequantize.is_own() || !quantize.is_own() {
            return Err(Error::Unsupported { what: "to requantize is to round once: there is no profile" });
        }
        Elements::read(from.0, options, None)?;
        Ok(Self {
            from: *from.1,
            to: *to.1,
            options: *options,
            dequantize,
            quantize,
            #[cfg(isa = "vector")]
            by_f32: ByF32::new(from, to, options)?,
        })
    }

    /// The dtype of the source.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Requantizer, Scaling}};
    /// # let s = Scaling::mx();
    /// let r = Requantizer::new((DType::F8E4M3FN, &s), (DType::F4E2M1, &s), &CastOptions::new())?;
    /// assert_eq!((r.from(), r.to()), (DType::F8E4M3FN, DType::F4E2M1));
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn from(&self) -> DType {
        self.dequantize.from
    }

    /// The dtype of the destination.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Requantizer, Scaling}};
    /// # let s = Scaling::mx();
    /// let r = Requantizer::new((DType::F8E4M3FN, &s), (DType::F4E2M1, &s), &CastOptions::new())?;
    /// assert_eq!(r.to(), DType::F4E2M1);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn to(&self) -> DType {
        self.quantize.to
    }

    /// Casts elements of a shape, with scales that are found from their exact values. The zero points are those of the source.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Requantizer, Scaling}};
    /// let (from, to) = (Scaling::mx(), Scaling::per_tensor(DType::F32));
    /// let r = Requantizer::new((DType::F4E2M1, &from), (DType::I8, &to), &CastOptions::new())?;
    /// let (mut codes, mut scale) = ([0; 2], [0; 4]);
    /// r.requantize(&[0xF2], &[2], &[127], None, &mut codes, &mut scale)?;
    /// assert_eq!(codes.map(|x| x as i8), [21, -127]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size that the shape needs. Nothing was written.
    pub fn requantize(
        &self,
        src: &[u8],
        shape: &[usize],
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut [u8],
        scales: &mut [u8],
    ) -> Result<Quantized, Error> {
        self.run(src, shape, src_scales, zero_points, dst.into(), scales, &alone())
    }

    /// [`Requantizer::requantize`] on all threads, see [`Caster::par_cast`](crate::Caster::par_cast).
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Requantizer, Scaling}};
    /// let s = Scaling::mx();
    /// let r = Requantizer::new((DType::F8E4M3FN, &s), (DType::F4E2M1, &s), &CastOptions::new())?;
    /// r.par_requantize(&[0x38], &[1], &[127], None, &mut [0], &mut [0])?;
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Requantizer::requantize`].
    pub fn par_requantize(
        &self,
        src: &[u8],
        shape: &[usize],
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut [u8],
        scales: &mut [u8],
    ) -> Result<Quantized, Error> {
        self.run(src, shape, src_scales, zero_points, dst.into(), scales, &Parallel::new())
    }

    /// [`Requantizer::requantize`] on the threads of `how`.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, parallel::Parallel, scaled::{Requantizer, Scaling}};
    /// let s = Scaling::mx();
    /// let r = Requantizer::new((DType::F8E4M3FN, &s), (DType::F4E2M1, &s), &CastOptions::new())?;
    /// r.par_requantize_with(&[0x38], &[1], &[127], None, &mut [0], &mut [0], &Parallel::new())?;
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Requantizer::requantize`], or the callback has stopped it.
    #[expect(clippy::too_many_arguments, reason = "two buffers on each side, a shape, and threads")]
    pub fn par_requantize_with(
        &self,
        src: &[u8],
        shape: &[usize],
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut [u8],
        scales: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<Quantized, Error> {
        self.run(src, shape, src_scales, zero_points, dst.into(), scales, how)
    }

    /// The same to memory that need not be initialised, which is returned initialised.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, parallel::Parallel, scaled::{Requantizer, Scaling}};
    /// use core::mem::MaybeUninit;
    /// let s = Scaling::mx();
    /// let r = Requantizer::new((DType::F8E4M3FN, &s), (DType::F4E2M1, &s), &CastOptions::new())?;
    /// let mut out = [MaybeUninit::uninit()];
    /// let (out, _) =
    ///     r.requantize_uninit(&[0x38], &[1], &[127], None, &mut out, &mut [0], &Parallel::new())?;
    /// assert_eq!(out, [0x06]); // 4, by 2^-2
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Requantizer::par_requantize_with`].
    #[expect(clippy::too_many_arguments, reason = "two buffers on each side, a shape, and threads")]
    pub fn requantize_uninit<'a>(
        &self,
        src: &[u8],
        shape: &[usize],
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &'a mut [MaybeUninit<u8>],
        scales: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<(&'a mut [u8], Quantized), Error> {
        let mut dst = Destination::from(dst);
        let found = self.run(src, shape, src_scales, zero_points, dst.reborrow(), scales, how)?;
        Ok((filled(dst), found))
    }

    /// Both grids, of buffers of so many bytes.
    pub(super) fn grids(&self, src: usize, shape: &[usize], dst: usize) -> Result<(Grid, Grid), Error> {
        let (d, q, options) = (&self.dequantize, &self.quantize, &self.options);
        let (from, to) = (Grid::new(shape, &self.from)?, Grid::new(shape, &self.to)?);
        let needed = code_bytes(&from, &self.from, d.from, options.src_packing)?;
        check_data(Side::Source, shape, d.from, needed, src)?;
        let needed = code_bytes(&to, &self.to, q.to, options.dst_packing)?;
        check_data(Side::Destination, shape, q.to, needed, dst)?;
        Ok((from, to))
    }

    #[expect(clippy::too_many_arguments, reason = "two buffers on each side, a shape, and threads")]
    fn run(
        &self,
        src: &[u8],
        shape: &[usize],
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: Destination<'_, u8>,
        scales: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<Quantized, Error> {
        let grids = self.grids(src.len(), shape, dst.size())?;
        self.with_job(src, shape, src_scales, zero_points, &grids, |job, registers| {
            found(job, registers, &self.to, &self.options, shape, dst, scales, None, how)
        })
    }

    /// Runs the job of both grids.
    pub(super) fn with_job<R>(
        &self,
        src: &[u8],
        shape: &[usize],
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        (from, to): &(Grid, Grid),
        run: impl FnOnce(Quantizing<'_>, Registers<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (d, q, options) = (&self.dequantize, &self.quantize, &self.options);
        let how_packed = (d.from, options.src_packing, options.src_order);
        let given = given(shape, from, &self.from, how_packed, src_scales, zero_points, d.has_zero_points())?;
        let elements = Elements::read(d.from, options, rows(from, &self.from))?;
        let write = Elements::write(q.to, options, rows(to, &self.to))?;
        #[cfg(isa = "vector")]
        let made = Elements::write(DType::F32, &options.dst_order(ByteOrder::Native), None)?;
        #[cfg(isa = "vector")]
        let by_f32 = self.by_f32.as_ref().map(|by| {
            let dequantize = &by.dequantize;
            (by, Dequantizing { dequantize, grid: from, read: elements, bytes: src, write: made, given })
        });
        #[cfg(isa = "vector")]
        let odd = by_f32.as_ref().and_then(|(by, job)| Multiply::new(job, &by.odd));
        let source = Scaled {
            elements,
            dequantize: d,
            bytes: src,
            grid: from,
            given,
            #[cfg(isa = "vector")]
            odd: odd.as_ref().map(|odd| odd as &dyn ToOdd),
        };
        #[cfg(isa = "vector")]
        let (quantize, decided) = match self.by_f32.as_ref().filter(|_| odd.is_some()) {
            Some(by) => (&by.quantize, Some(&by.decided)),
            None => (q, None),
        };
        #[cfg(not(isa = "vector"))]
        let (quantize, decided) = (q, None);
        let job = Quantizing { quantize, grid: to, source: &source, write, tensor: q.tensor, affine: false };
        run(job, decided)
    }
}
