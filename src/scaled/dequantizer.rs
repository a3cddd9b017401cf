//! Dequantisation: elements under scales become floats.

use alloc::vec::Vec;
use core::fmt;
use core::mem::MaybeUninit;

use super::codes::Elements;
use super::engine::Dequantizing;
use super::error::Error;
use super::front::{alone, check_data, data_bytes, filled, given, rows};
#[cfg(isa = "vector")]
use super::multiply::{Decided, Multiply};
use super::rule::Dequantize;
use super::scaling::Scaling;
use super::shape::{Grid, code_bytes, code_bytes_of};
use crate::error::Side;
use crate::formats::dtype::DType;
use crate::formats::options::CastOptions;
use crate::kernels::memory::Destination;
#[cfg(isa = "vector")]
use crate::kernels::scaled::in_kernel_environment;
use crate::parallel::Parallel;

/// Casts elements under scales to floats. It is made once and kept, and any thread can use it.
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
#[derive(Clone, Copy)]
pub struct Dequantizer {
    pub(super) scaling: Scaling,
    pub(super) options: CastOptions,
    pub(super) dequantize: Dequantize,
    #[cfg(isa = "vector")]
    decided: Option<Decided>,
}

impl fmt::Debug for Dequantizer {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dequantizer")
            .field("from", &self.dequantize.from)
            .field("to", &self.dequantize.to)
            .field("scaling", &self.scaling)
            .field("options", &self.options)
            .finish()
    }
}

impl Dequantizer {
    /// Decides how to dequantise `from` to `to`, a float of 16 bits or more.
    ///
    /// Of the options, the packing of the elements, byte orders and `isa` apply, and by lanecast's own rule `rounding`;
    /// profiles round to nearest even. No other option applies, `stochastic` included.
    ///
    /// ```
    /// use lanecast::scaled::{Dequantizer, Scaling};
    /// use lanecast::{CastOptions, DType};
    /// assert!(Dequantizer::new(DType::F8E4M3FN, DType::I8, &Scaling::mx(), &CastOptions::new()).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// The pair, or the profile for it, does not exist; a tensor scale is not given as a finite, positive number; or
    /// the instruction set is not available.
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
            decided: in_kernel_environment(|| Decided::new(&dequantize, &read, &write)),
        })
    }

    /// Returns the dtype of the elements.
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

    /// Returns the dtype of the data.
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

    /// Returns the scaling that the dequantizer was made from.
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

    /// Returns the shape of the scales for data of this shape.
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
    /// The blocks do not fit the shape.
    pub fn scale_shape(&self, shape: &[usize]) -> Result<Vec<usize>, Error> {
        self.scaling.scale_shape(shape)
    }

    /// Returns how many bytes the scales take for data of this shape.
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

    /// Returns how many bytes the elements take for data of this shape.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Dequantizer, Scaling}};
    /// let d = Dequantizer::new(DType::F4E2M1, DType::F32, &Scaling::mx(), &CastOptions::new())?;
    /// assert_eq!(d.code_bytes(&[3, 40])?, 60);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Dequantizer::scale_shape`].
    pub fn code_bytes(&self, shape: &[usize]) -> Result<usize, Error> {
        code_bytes_of(shape, &self.scaling, self.dequantize.from, self.options.src_packing)
    }

    /// Casts elements of this shape to floats. Zero points are as in
    /// [`Quantizer::quantize_given`](crate::scaled::Quantizer::quantize_given).
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
    /// A buffer does not have the size that the shape needs, or there are zero points for floats. Nothing was written.
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

    /// As [`Dequantizer::dequantize`], but on all threads: see [`Caster::par_cast`](crate::Caster::par_cast).
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

    /// As [`Dequantizer::dequantize`], but on the threads of `how`.
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
    /// As [`Dequantizer::dequantize`], or the callback stopped the cast.
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

    /// As [`Dequantizer::par_dequantize_with`], but to memory that need not be initialised, which is returned initialised.
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
        let needed = code_bytes(shape, &grid, scaling, d.from, options.src_packing)?;
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
