//! Requantisation: elements under one scaling become elements under another.

use alloc::vec::Vec;
use core::fmt;
use core::mem::MaybeUninit;

use super::codes::Elements;
#[cfg(isa = "vector")]
use super::divide;
#[cfg(isa = "vector")]
use super::engine::{Dequantizing, ToFloats};
use super::engine::{Quantizing, Scaled};
use super::error::Error;
use super::front::{Quantized, alone, check_data, check_zero_points, filled, found, given, rows};
use super::jobs::Registers;
#[cfg(isa = "vector")]
use super::multiply::{Decided, Multiply, product_bits};
use super::rule::{Dequantize, Quantize};
use super::scaling::{Scaling, TensorScale};
use super::shape::{Grid, code_bytes, code_bytes_of};
#[cfg(isa = "vector")]
use super::wide::Wide;
use crate::error::Side;
use crate::formats::dtype::DType;
#[cfg(isa = "vector")]
use crate::formats::layout::ByteOrder;
use crate::formats::options::CastOptions;
use crate::kernels::memory::Destination;
#[cfg(isa = "vector")]
use crate::kernels::scaled::in_kernel_environment;
use crate::parallel::Parallel;

/// Casts elements under one scaling to elements under another, in one pass and with one rounding, as when weights change their format.
///
/// To floats without scales, a [`Dequantizer`](crate::scaled::Dequantizer) casts them.
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
#[derive(Clone, Copy)]
pub struct Requantizer {
    pub(super) from: Scaling,
    pub(super) to: Scaling,
    pub(super) options: CastOptions,
    pub(super) dequantize: Dequantize,
    pub(super) quantize: Quantize,
    /// Both halves as they are cast: see [`moved`].
    cast: (Dequantize, Quantize),
    #[cfg(isa = "vector")]
    by_f32: Option<ByF32>,
    #[cfg(isa = "vector")]
    by_f64: Option<ByF64>,
}

/// Requantisation by the vector kernels, by way of float32 that is rounded to odd.
///
/// The result is that of a single rounding in two cases: the products of the source are exact in float32; or the scales of the
/// target are powers of two, without a factor, as then every boundary of a code or a scale has few bits, and rounding to odd crosses
/// none.
#[cfg(isa = "vector")]
#[derive(Clone, Copy)]
struct ByF32 {
    dequantize: Dequantize,
    odd: Decided,
    quantize: Quantize,
    decided: divide::Decided,
}

#[cfg(isa = "vector")]
impl ByF32 {
    /// Returns None where this way does not apply.
    fn new(
        from: (DType, &Scaling),
        to: (DType, &Scaling),
        options: &CastOptions,
    ) -> Result<Option<Self>, Error> {
        let dequantize = Dequantize::new(from.0, DType::F32, from.1, options)?;
        let quantize = Quantize::new(DType::F32, to.0, to.1, options)?;
        let are_powers = to.1.scale_dtype == DType::F8E8M0 && to.1.tensor_scale == TensorScale::None;
        if product_bits(&dequantize).is_none_or(|bits| bits > 24) && !are_powers {
            return Ok(None);
        }
        let native = options.src_order(ByteOrder::Native).dst_order(ByteOrder::Native);
        let [codes, floats] = [(from.0, options), (DType::F32, &native)]
            .map(|(dtype, options)| Elements::read(dtype, options, None));
        let [made, written] = [(DType::F32, &native), (to.0, options)]
            .map(|(dtype, options)| Elements::write(dtype, options, None));
        let (codes, floats, made, written) = (codes?, floats?, made?, written?);
        Ok(in_kernel_environment(|| {
            let odd = Decided::new(&dequantize, &codes, &made)?.odd()?;
            let decided = divide::Decided::new(&quantize, &floats, &written)?;
            Some(Self { dequantize, odd, quantize, decided })
        }))
    }
}

/// Requantisation by way of float64, where the products of the source are exact.
#[cfg(isa = "vector")]
#[derive(Clone, Copy)]
struct ByF64 {
    exact: Decided,
    wide: Wide,
}

#[cfg(isa = "vector")]
impl ByF64 {
    /// Returns None where this way does not apply.
    fn new(
        dequantize: &Dequantize,
        quantize: &Quantize,
        options: &CastOptions,
    ) -> Result<Option<Self>, Error> {
        let Some(bits) = product_bits(dequantize).filter(|&bits| bits <= 53) else { return Ok(None) };
        let codes = Elements::read(dequantize.from, options, None)?;
        let made = Elements::write(DType::F64, &options.dst_order(ByteOrder::Native), None)?;
        let written = Elements::write(quantize.to, options, None)?;
        Ok(in_kernel_environment(|| {
            let exact = Decided::new(dequantize, &codes, &made)?;
            Some(Self { exact, wide: Wide::new(quantize, bits, &written)? })
        }))
    }
}

/// Moves a factor that divides the source to the scales of the target, where it multiplies. The quotient stays the same, and
/// the products of the source become exact, as the way by float64 requires. Nothing is moved if the factor is a power of two,
/// since products are exact then; if the scales of the target are, since these have the way by float32; or if the target has a
/// factor of its own.
fn moved(mut dequantize: Dequantize, mut quantize: Quantize) -> (Dequantize, Quantize) {
    if let (TensorScale::Divide(g), TensorScale::None) = (dequantize.tensor, quantize.tensor)
        && quantize.scale != DType::F8E8M0
        && g.to_bits() & 0x7F_FFFF != 0
    {
        dequantize.tensor = TensorScale::None;
        quantize.tensor = TensorScale::Multiply(g);
    }
    (dequantize, quantize)
}

impl fmt::Debug for Requantizer {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requantizer")
            .field("from", &(self.dequantize.from, &self.from))
            .field("to", &(self.quantize.to, &self.to))
            .field("options", &self.options)
            .finish()
    }
}

impl Requantizer {
    /// Decides how to requantise between two dtypes, each with its scaling. Both scalings must follow lanecast's own rule.
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
    /// As [`Quantizer::new`](crate::scaled::Quantizer::new) and [`Dequantizer::new`](crate::scaled::Dequantizer::new); or a scaling has another
    /// profile than [`Lanecast`](crate::scaled::Profile::Lanecast) and [`Ocp`](crate::scaled::Profile::Ocp).
    pub fn new(from: (DType, &Scaling), to: (DType, &Scaling), options: &CastOptions) -> Result<Self, Error> {
        let dequantize = Dequantize::new(from.0, DType::F64, from.1, options)?;
        let quantize = Quantize::new(DType::F64, to.0, to.1, options)?;
        for (is_own, scaling) in [(dequantize.is_own(), from.1), (quantize.is_own(), to.1)] {
            if !is_own {
                let what = "does not requantize, which rounds only once: use the profile lanecast or ocp, or dequantize and quantize";
                return Err(Error::ProfileNeeds { profile: scaling.profile, what });
            }
        }
        Elements::read(from.0, options, None)?;
        let cast = moved(dequantize, quantize);
        Ok(Self {
            from: *from.1,
            to: *to.1,
            options: *options,
            dequantize,
            quantize,
            cast,
            #[cfg(isa = "vector")]
            by_f32: ByF32::new(from, to, options)?,
            #[cfg(isa = "vector")]
            by_f64: ByF64::new(&cast.0, &cast.1, options)?,
        })
    }

    /// Returns the dtype of the source.
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

    /// Returns the dtype of the destination.
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

    /// Returns the shape of the scales that are written for this shape.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Requantizer, Scaling}};
    /// let (from, to) = (Scaling::deepseek(), Scaling::mx());
    /// let r = Requantizer::new((DType::F8E4M3FN, &from), (DType::F4E2M1, &to), &CastOptions::new())?;
    /// assert_eq!((r.scale_shape(&[128, 256])?, r.scale_bytes(&[128, 256])?), (vec![128, 8], 1024));
    /// assert_eq!(r.code_bytes(&[128, 256])?, 16384);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The blocks do not fit the shape.
    pub fn scale_shape(&self, shape: &[usize]) -> Result<Vec<usize>, Error> {
        self.to.scale_shape(shape)
    }

    /// Returns how many bytes the scales take that are written for this shape.
    ///
    /// # Errors
    ///
    /// As [`Requantizer::scale_shape`].
    pub fn scale_bytes(&self, shape: &[usize]) -> Result<usize, Error> {
        self.to.scale_bytes(shape)
    }

    /// Returns how many bytes the elements take that are written for this shape.
    ///
    /// # Errors
    ///
    /// As [`Requantizer::scale_shape`].
    pub fn code_bytes(&self, shape: &[usize]) -> Result<usize, Error> {
        code_bytes_of(shape, &self.to, self.quantize.to, self.options.dst_packing)
    }

    /// Casts elements of this shape under scales that are found from their exact values. The zero points are those of the source.
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

    /// As [`Requantizer::requantize`], but on all threads: see [`Caster::par_cast`](crate::Caster::par_cast).
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

    /// As [`Requantizer::requantize`], but on the threads of `how`.
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
    /// As [`Requantizer::requantize`], or the callback stopped the cast.
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

    /// As [`Requantizer::par_requantize_with`], but to memory that need not be initialised, which is returned initialised.
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

    /// Checks whether zero points of the source can be given. It needs no buffer, as [`Quantizer::check_found`](crate::scaled::Quantizer).
    #[doc(hidden)]
    pub fn check_given(&self, zero_points: bool) -> Result<(), Error> {
        check_zero_points(zero_points, self.dequantize.has_zero_points())
    }

    /// Checks the sizes of both buffers of elements, and returns the grids of the source and the target.
    pub(super) fn grids(&self, src: usize, shape: &[usize], dst: usize) -> Result<(Grid, Grid), Error> {
        let (d, q, options) = (&self.dequantize, &self.quantize, &self.options);
        let (from, to) = (Grid::new(shape, &self.from)?, Grid::new(shape, &self.to)?);
        let needed = code_bytes(shape, &from, &self.from, d.from, options.src_packing)?;
        check_data(Side::Source, shape, d.from, needed, src)?;
        let needed = code_bytes(shape, &to, &self.to, q.to, options.dst_packing)?;
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
        mut dst: Destination<'_, u8>,
        scales: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<Quantized, Error> {
        let grids = self.grids(src.len(), shape, dst.size())?;
        self.with_job(src, shape, src_scales, zero_points, &grids, &mut |job, registers| {
            let dst = dst.reborrow();
            let found = found(job, registers, &self.to, &self.options, shape, dst, scales, None, how)?;
            Ok(Quantized { tensor_scale: found.tensor_scale.filter(|_| self.has_factor()) })
        })
    }

    /// Whether the target has a tensor scale. The factor in a job does not tell, as it may be the source's: see [`moved`].
    pub(super) fn has_factor(&self) -> bool {
        self.quantize.tensor != TensorScale::None
    }

    /// Calls `run` with the job of both grids.
    pub(super) fn with_job(
        &self,
        src: &[u8],
        shape: &[usize],
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        (from, to): &(Grid, Grid),
        run: &mut dyn FnMut(Quantizing<'_>, Registers<'_>) -> Result<Quantized, Error>,
    ) -> Result<Quantized, Error> {
        let ((d, q), options) = (&self.cast, &self.options);
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
        #[cfg(isa = "vector")]
        let by_f64 = self.by_f64.as_ref();
        #[cfg(isa = "vector")]
        let exact_job = Dequantizing {
            dequantize: d,
            grid: from,
            read: elements,
            bytes: src,
            write: Elements::write(DType::F64, &options.dst_order(ByteOrder::Native), None)?,
            given,
        };
        #[cfg(isa = "vector")]
        let exact = by_f64.and_then(|by| Multiply::new(&exact_job, &by.exact));
        let source = Scaled {
            elements,
            dequantize: d,
            bytes: src,
            grid: from,
            given,
            #[cfg(isa = "vector")]
            odd: odd.as_ref().map(|odd| odd as &dyn ToFloats),
            #[cfg(isa = "vector")]
            exact: exact.as_ref().map(|exact| exact as &dyn ToFloats),
        };
        #[cfg(isa = "vector")]
        let (quantize, decided) = match self.by_f32.as_ref().filter(|_| odd.is_some()) {
            Some(by) => (&by.quantize, Some(&by.decided)),
            None => (q, None),
        };
        #[cfg(not(isa = "vector"))]
        let (quantize, decided) = (q, None);
        let job = Quantizing {
            quantize,
            grid: to,
            source: &source,
            write,
            tensor: q.tensor,
            affine: false,
            #[cfg(isa = "vector")]
            wide: by_f64.map(|by| &by.wide),
        };
        run(job, decided)
    }
}
