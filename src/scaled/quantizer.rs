//! Quantisation: floats become elements under scales.

use alloc::vec::Vec;
use core::fmt;
use core::mem::MaybeUninit;

use super::codes::Elements;
#[cfg(isa = "vector")]
use super::codes::cast;
#[cfg(isa = "vector")]
use super::divide::Decided;
use super::engine::{Floats, Given, Quantizing, Source};
use super::error::Error;
use super::front::{Quantized, alone, check_data, check_zero_points, data_bytes, filled, found, given, rows};
use super::jobs::Registers;
use super::rule::Quantize;
#[cfg(isa = "vector")]
use super::rule::significant;
use super::scaling::{Scaling, TensorScale};
use super::shape::{Grid, code_bytes, code_bytes_of};
#[cfg(isa = "vector")]
use super::wide::Wide;
#[cfg(isa = "vector")]
use crate::cast::Caster;
use crate::error::Side;
use crate::formats::dtype::DType;
#[cfg(isa = "vector")]
use crate::formats::layout::ByteOrder;
use crate::formats::options::CastOptions;
use crate::kernels::memory::Destination;
#[cfg(isa = "vector")]
use crate::kernels::scaled::in_kernel_environment;
use crate::parallel::Parallel;

/// Casts floats to elements under scales. It is made once and kept, and any thread can use it.
///
/// Data are given as bytes in row-major order, with a shape. The options set rounding, saturation, NaN, packing and byte orders
/// (scales and zero points have the byte order of the elements); [`Quantizer::new`] says which of them apply when.
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
#[derive(Clone, Copy)]
pub struct Quantizer {
    pub(super) scaling: Scaling,
    pub(super) options: CastOptions,
    pub(super) quantize: Quantize,
    #[cfg(isa = "vector")]
    decided: Option<Decided>,
    #[cfg(isa = "vector")]
    wide: Option<Wide>,
    /// Casts data to float64.
    #[cfg(isa = "vector")]
    to_f64: Option<Caster>,
}

impl fmt::Debug for Quantizer {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quantizer")
            .field("from", &self.quantize.from)
            .field("to", &self.quantize.to)
            .field("scaling", &self.scaling)
            .field("options", &self.options)
            .finish()
    }
}

impl Quantizer {
    /// Decides how to quantise `from`, a float of 16 bits or more, to `to`. By [`Profile::Onnx`](super::Profile), `from` can be int32, too.
    ///
    /// Packing, byte orders and `isa` of the options always apply, and `nan_to_finite` if `to` is a float. To floats, lanecast's own rule
    /// also follows `rounding`, `saturation` and, up to 16 bits, `stochastic`; [`Profile::Onnx`](super::Profile) follows `saturation`; the
    /// other profiles round and saturate as their systems do. Integers saturate and are rounded as [`Scaling::int_rounding`] says, by
    /// profiles to nearest even: `int_rounding`, `float_to_int` and `stochastic` of the options do not apply to them.
    ///
    /// ```
    /// # use lanecast::scaled::{Quantizer, Scaling};
    /// # use lanecast::{CastOptions, DType, Rounding};
    /// let code = |scaling: &Scaling, options: &CastOptions| {
    ///     let mut code = [0];
    ///     let q = Quantizer::new(DType::F32, DType::I8, scaling, options)?;
    ///     q.quantize_given(&2.5f32.to_ne_bytes(), &[1], &1f32.to_ne_bytes(), None, &mut code)?;
    ///     Ok::<_, lanecast::scaled::Error>(code[0])
    /// };
    /// let (scaling, options) = (Scaling::per_tensor(DType::F32), CastOptions::new());
    /// assert_eq!(code(&scaling, &options.int_rounding(Rounding::Up))?, 2); // to nearest even all the same
    /// assert_eq!(code(&scaling.int_rounding(Rounding::Up), &options)?, 3);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// ```
    /// use lanecast::scaled::{Quantizer, Scaling};
    /// use lanecast::{CastOptions, DType};
    /// let error = Quantizer::new(DType::I8, DType::F4E2M1, &Scaling::mx(), &CastOptions::new()).unwrap_err();
    /// assert!(error.to_string().starts_with("cannot quantize from int8 to float4_e2m1fn: data must be real floats"));
    /// ```
    ///
    /// # Errors
    ///
    /// The pair, rule or profile does not exist, they cannot be combined, a tensor scale is not finite and positive, or
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
            decided: in_kernel_environment(|| Decided::new(&quantize, &read, &write)),
            #[cfg(isa = "vector")]
            wide: Wide::new(&quantize, significant(from), &write),
            #[cfg(isa = "vector")]
            to_f64: cast(from, DType::F64, &read.options().dst_order(ByteOrder::Native)),
        })
    }

    /// Returns the dtype of the data.
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

    /// Returns the dtype of the elements.
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

    /// Returns the scaling that the quantizer was made from.
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

    /// Returns the shape of the scales for data of this shape.
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
    /// The blocks do not fit the shape.
    pub fn scale_shape(&self, shape: &[usize]) -> Result<Vec<usize>, Error> {
        self.scaling.scale_shape(shape)
    }

    /// Returns how many bytes the scales take for data of this shape.
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

    /// Returns how many bytes the elements take for data of this shape.
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
        code_bytes_of(shape, &self.scaling, self.quantize.to, self.options.dst_packing)
    }

    /// Casts data under scales that are found from the data and written to `scales`.
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
    /// A buffer does not have the size that the shape needs, or the profile requires given scales. Nothing was written.
    pub fn quantize(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: &mut [u8],
        scales: &mut [u8],
    ) -> Result<Quantized, Error> {
        self.found(src, shape, dst.into(), scales, None, &alone())
    }

    /// As [`Quantizer::quantize`], but on all threads: see [`Caster::par_cast`](crate::Caster::par_cast).
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

    /// As [`Quantizer::quantize`], but on the threads of `how`. The length of its chunks has no effect here, but setting one divides small
    /// work, too.
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
    /// As [`Quantizer::quantize`], or the callback stopped the cast.
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

    /// As [`Quantizer::par_quantize_with`], but to memory that need not be initialised, which is returned initialised.
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

    /// Casts data under scales and zero points that are found from the data and written.
    ///
    /// Two profiles do this: [`Profile::CompressedTensors`](super::Profile) to int4 and int8, and [`Profile::Onnx`](super::Profile) from
    /// float32 to uint8 with scales of float32, as `DynamicQuantizeLinear`. Zero points are packed as the elements are.
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
        self.par_quantize_affine(src, shape, dst, scales, zero_points, &alone())
    }

    /// As [`Quantizer::quantize_affine`], but on the threads of `how`.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, parallel::Parallel, scaled::{Profile, Quantizer, Scaling}};
    /// let scaling = Scaling::per_axis(0).profile(Profile::CompressedTensors);
    /// let q = Quantizer::new(DType::F32, DType::I8, &scaling, &CastOptions::new())?;
    /// let (mut codes, mut scale, mut zero) = ([0], [0; 4], [0]);
    /// q.par_quantize_affine(&2f32.to_ne_bytes(), &[1, 1], &mut codes, &mut scale, &mut zero, &Parallel::new())?;
    /// assert_eq!((codes[0] as i8, zero[0] as i8), (127, -128));
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`], or the callback stopped the cast.
    pub fn par_quantize_affine(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: &mut [u8],
        scales: &mut [u8],
        zero_points: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<Quantized, Error> {
        self.found(src, shape, dst.into(), scales, Some(zero_points), how)
    }

    /// Casts data under given scales, and given zero points if the elements are integers (by [`Profile::Onnx`](super::Profile)
    /// float4 and float6, too).
    ///
    /// There is one zero point for each scale, in row-major order of the shape of the scales. Zero points have the dtype of the
    /// elements and are packed as they are.
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
    /// A buffer does not have the size that the shape needs, there are zero points for floats, or the tensor scale is
    /// one to be computed. Nothing was written.
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

    /// As [`Quantizer::quantize_given`], but on the threads of `how`.
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
    /// As [`Quantizer::quantize_given`], or the callback stopped the cast.
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

    /// As [`Quantizer::par_quantize_given`], but to memory that need not be initialised, which is returned initialised.
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

    /// Checks whether scales, and with `zero_points` those too, can be found. It needs no buffer, so that callers can ask
    /// before they prepare one.
    #[doc(hidden)]
    pub fn check_found(&self, zero_points: bool) -> Result<(), Error> {
        if zero_points {
            check_zero_points(true, self.to().is_int())?;
        }
        self.quantize.check_found(self.scaling.profile, zero_points)
    }

    /// Checks whether scales, and with `zero_points` those too, can be given. It needs no buffer, as [`Quantizer::check_found`].
    #[doc(hidden)]
    pub fn check_given(&self, zero_points: bool) -> Result<(), Error> {
        if matches!(self.quantize.tensor, TensorScale::ComputeMultiply | TensorScale::ComputeDivide) {
            return Err(Error::Unsupported {
                what: "where scales are given, the tensor scale must be given as a number, too",
            });
        }
        check_zero_points(zero_points, self.quantize.has_zero_points())
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
        let needed = code_bytes(shape, &grid, &self.scaling, self.quantize.to, self.options.dst_packing)?;
        check_data(Side::Destination, shape, self.quantize.to, needed, dst)?;
        Ok(grid)
    }

    fn found(
        &self,
        src: &[u8],
        shape: &[usize],
        mut dst: Destination<'_, u8>,
        scales: &mut [u8],
        mut zero_points: Option<&mut [u8]>,
        how: &Parallel<'_>,
    ) -> Result<Quantized, Error> {
        self.with_job(src, shape, dst.size(), zero_points.is_some(), &mut |job| {
            let (dst, zeros) = (dst.reborrow(), zero_points.as_deref_mut());
            found(job, self.registers(), &self.scaling, &self.options, shape, dst, scales, zeros, how)
        })
    }

    /// Calls `run` with a quantisation that finds scales, to a destination of `dst` bytes.
    pub(super) fn with_job(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: usize,
        affine: bool,
        run: &mut dyn FnMut(Quantizing<'_>) -> Result<Quantized, Error>,
    ) -> Result<Quantized, Error> {
        self.check_found(affine)?;
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
        mut dst: Destination<'_, u8>,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        self.with_given(src, shape, dst.size(), scales, zero_points, &mut |job, given| {
            job.run_given(self.registers(), &given, dst.reborrow(), how)
        })
    }

    /// Calls `run` with a quantisation to a destination of `dst` bytes, and with the given scales.
    pub(super) fn with_given(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: usize,
        scales: &[u8],
        zero_points: Option<&[u8]>,
        run: &mut dyn FnMut(Quantizing<'_>, Given<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let grid = self.grid(src.len(), shape, dst)?;
        let given = self.are_given(shape, &grid, scales, zero_points)?;
        let source = self.floats(src)?;
        run(self.job(&grid, &source, false)?, given)
    }

    /// Checks given scales and zero points, and returns them.
    fn are_given<'a>(
        &self,
        shape: &[usize],
        grid: &Grid,
        scales: &'a [u8],
        zero_points: Option<&'a [u8]>,
    ) -> Result<Given<'a>, Error> {
        self.check_given(zero_points.is_some())?;
        let (q, options) = (&self.quantize, &self.options);
        let how_packed = (q.to, options.dst_packing, options.dst_order);
        given(shape, grid, &self.scaling, how_packed, scales, zero_points, q.has_zero_points())
    }

    /// Returns the data as the source of a quantisation.
    fn floats<'a>(&'a self, src: &'a [u8]) -> Result<Floats<'a>, Error> {
        let elements = Elements::read(self.quantize.from, &self.options, None)?;
        Ok(Floats {
            elements,
            quantize: &self.quantize,
            bytes: src,
            #[cfg(isa = "vector")]
            to_f64: self.to_f64,
        })
    }

    pub(super) fn registers(&self) -> Registers<'_> {
        #[cfg(isa = "vector")]
        return self.decided.as_ref();
        #[cfg(not(isa = "vector"))]
        None
    }

    /// Returns the quantisation of one buffer.
    fn job<'a>(
        &'a self,
        grid: &'a Grid,
        source: &'a dyn Source,
        affine: bool,
    ) -> Result<Quantizing<'a>, Error> {
        let (quantize, options) = (&self.quantize, &self.options);
        let write = Elements::write(quantize.to, options, rows(grid, &self.scaling))?;
        let tensor = quantize.tensor;
        Ok(Quantizing {
            quantize,
            grid,
            source,
            write,
            tensor,
            affine,
            #[cfg(isa = "vector")]
            wide: self.wide.as_ref(),
        })
    }
}
