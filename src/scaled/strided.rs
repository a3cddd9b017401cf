//! Scaled casts of views. A view that is not contiguous in row-major order is copied to a buffer that is, or from one.

use alloc::vec::Vec;
use core::iter::repeat_n;
use core::mem::MaybeUninit;

use super::dequantizer::Dequantizer;
use super::error::Error;
use super::front::Quantized;
use super::memory::{collect, overflow};
use super::quantizer::Quantizer;
use super::requantizer::Requantizer;
use super::scaling::Scaling;
use crate::cast::Caster;
use crate::error::{Error as CastError, Side};
use crate::formats::dtype::DType;
use crate::formats::layout::Packing;
use crate::formats::options::CastOptions;
use crate::parallel::Parallel;
use crate::room::{vec_with_capacity, zeros};
use crate::views::{StridedView, StridedViewMut, copier, same_shape};

/// Returns the strides of a contiguous shape in row-major order, and its bytes.
fn row_major(shape: &[usize], dtype: DType) -> Result<(Vec<isize>, usize), Error> {
    let mut strides = collect(repeat_n(0, shape.len()))?;
    let (mut step, mut fits, mut is_empty) = (dtype.itemsize(), true, false);
    for (stride, &length) in strides.iter_mut().zip(shape).rev() {
        *stride = step as isize;
        let (next, wraps) = step.overflowing_mul(length);
        fits &= !wraps && next <= isize::MAX as usize;
        is_empty |= length == 0;
        step = next;
    }
    // A shape without elements is never too large.
    if !fits && !is_empty {
        return Err(overflow(shape));
    }
    Ok((strides, step))
}

/// Checks that the views have one shape, and that no scaling sets `row_bytes`.
fn check(src: &[usize], dst: &[usize], scalings: &[&Scaling]) -> Result<(), Error> {
    same_shape(src, dst)?;
    if scalings.iter().any(|scaling| scaling.row_bytes.is_some()) {
        return Err(Error::Unsupported {
            what: "row_bytes is not for views, whose strides say where rows begin",
        });
    }
    Ok(())
}

/// Returns the caster that copies elements of a view, and the strides and bytes of contiguous ones.
fn contiguous(
    shape: &[usize],
    (dtype, packing): (DType, Packing),
    options: &CastOptions,
) -> Result<(Caster, Vec<isize>, usize), Error> {
    let caster = copier(dtype, packing, options)?;
    let (strides, bytes) = row_major(shape, dtype)?;
    Ok((caster, strides, bytes))
}

/// Casts contiguous elements and returns the results.
type Run<'r> = &'r mut dyn for<'a> FnMut(&[u8], &'a mut [MaybeUninit<u8>]) -> Result<&'a mut [u8], Error>;

/// Casts the elements of a view, which are copied first unless they are contiguous. Results are written to the destination's
/// own memory if that is contiguous and no memory of the source, else to a buffer, from which they are copied.
fn cast_views(
    (src, from): (&StridedView<'_>, (DType, Packing)),
    (dst, to): (&mut StridedViewMut<'_>, (DType, Packing)),
    options: &CastOptions,
    how: &Parallel<'_>,
    run: Run<'_>,
) -> Result<(), Error> {
    // Errors of either view are reported here, before memory for a copy is allocated and before anything is written.
    let (gather, strides, bytes) = contiguous(src.shape(), from, options)?;
    gather.check_source(src)?;
    if to.0.bits() < 8 && to.1 != Packing::OnePerByte {
        return Err(CastError::ViewPacked { side: Side::Destination, dtype: to.0 }.into());
    }
    let (scatter, dst_strides, dst_bytes) = contiguous(dst.shape(), to, options)?;
    scatter.check_destination(dst, &dst_strides)?;
    let mut copy;
    let src = match src.dense(&strides, bytes) {
        Some(dense) => dense,
        None => {
            copy = zeros(from.0, bytes)?;
            let mut dense = StridedViewMut::new(&mut copy, 0, src.shape(), &strides);
            gather.par_cast_strided_with(src, &mut dense, &how.silent())?;
            &copy
        }
    };
    if let Some(dense) = dst.dense(&dst_strides, dst_bytes, src) {
        return run(src, dense).map(drop);
    }
    let no_memory = |_| CastError::Allocation { dtype: to.0, elements: dst_bytes / to.0.itemsize() };
    let mut room = vec_with_capacity(dst_bytes).map_err(no_memory)?;
    let results = run(src, &mut room.spare_capacity_mut()[..dst_bytes])?;
    let results = StridedView::new(results, 0, dst.shape(), &dst_strides);
    Ok(scatter.par_cast_strided_with(&results, dst, &how.silent())?)
}

impl Quantizer {
    /// Casts a view to another of the same shape, as [`Quantizer::quantize`] does.
    ///
    /// Elements of fewer than 8 bits must be [one per byte](crate::Packing::OnePerByte). A view that is not contiguous in
    /// row-major order is copied to a buffer that is, or from one.
    ///
    /// ```
    /// use lanecast::scaled::{Quantizer, Scaling};
    /// use lanecast::{CastOptions, DType, parallel::Parallel, views::{StridedView, StridedViewMut}};
    /// let q = Quantizer::new(DType::F32, DType::I8, &Scaling::per_axis(0), &CastOptions::new())?;
    /// // The columns of a matrix of 2 x 2, as rows.
    /// let data: Vec<u8> = [127f32, 254.0, 1.0, 4.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let (mut codes, mut scales) = ([0; 4], [0; 8]);
    /// let from = StridedView::new(&data, 0, &[2, 2], &[4, 8]);
    /// let mut to = StridedViewMut::new(&mut codes, 0, &[2, 2], &[2, 1]);
    /// q.quantize_strided(&from, &mut to, &mut scales, &Parallel::new())?;
    /// assert_eq!(codes, [127, 1, 127, 2]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize`] and [`Caster::cast_strided`](crate::Caster::cast_strided), or there is no memory for the buffers.
    pub fn quantize_strided(
        &self,
        src: &StridedView<'_>,
        dst: &mut StridedViewMut<'_>,
        scales: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<Quantized, Error> {
        let shape = src.shape();
        let mut done = Quantized::default();
        self.views(src, dst, how, &mut |src, dst| {
            let (codes, found) = self.quantize_uninit(src, shape, dst, scales, how)?;
            done = found;
            Ok(codes)
        })?;
        Ok(done)
    }

    /// As [`Quantizer::quantize_strided`], but under given scales, as in [`Quantizer::quantize_given`].
    ///
    /// ```
    /// use lanecast::scaled::{Quantizer, Scaling};
    /// use lanecast::{CastOptions, DType, parallel::Parallel, views::{StridedView, StridedViewMut}};
    /// let q = Quantizer::new(DType::F32, DType::I8, &Scaling::per_tensor(DType::F32), &CastOptions::new())?;
    /// let (data, mut codes) = (3f32.to_ne_bytes(), [0; 4]);
    /// let from = StridedView::new(&data, 0, &[2], &[0]);
    /// let mut to = StridedViewMut::new(&mut codes, 3, &[2], &[-2]);
    /// q.quantize_strided_with(&from, &0.5f32.to_ne_bytes(), None, &mut to, &Parallel::new())?;
    /// assert_eq!(codes, [0, 6, 0, 6]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize_given`] and [`Quantizer::quantize_strided`].
    pub fn quantize_strided_with(
        &self,
        src: &StridedView<'_>,
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut StridedViewMut<'_>,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        let shape = src.shape();
        self.views(src, dst, how, &mut |src, dst| {
            self.quantize_given_uninit(src, shape, scales, zero_points, dst, how)
        })
    }

    fn views(
        &self,
        src: &StridedView<'_>,
        dst: &mut StridedViewMut<'_>,
        how: &Parallel<'_>,
        run: Run<'_>,
    ) -> Result<(), Error> {
        check(src.shape(), dst.shape(), &[&self.scaling])?;
        let from = (self.from(), Packing::OnePerByte);
        cast_views((src, from), (dst, (self.to(), self.options.dst_packing)), &self.options, how, run)
    }
}

impl Dequantizer {
    /// Casts a view to another of the same shape, as [`Dequantizer::dequantize`] does. Views are as in [`Quantizer::quantize_strided`].
    ///
    /// ```
    /// use lanecast::scaled::{Dequantizer, Scaling};
    /// use lanecast::{CastOptions, DType, parallel::Parallel, views::{StridedView, StridedViewMut}};
    /// let d = Dequantizer::new(DType::I8, DType::F32, &Scaling::per_tensor(DType::F32), &CastOptions::new())?;
    /// let (codes, mut data) = ([1, 2, 3], [0; 12]);
    /// let from = StridedView::new(&codes, 2, &[3], &[-1]);
    /// let mut to = StridedViewMut::new(&mut data, 0, &[3], &[4]);
    /// d.dequantize_strided(&from, &0.5f32.to_ne_bytes(), None, &mut to, &Parallel::new())?;
    /// assert_eq!(data, [1.5f32, 1.0, 0.5].map(f32::to_ne_bytes).concat()[..]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Dequantizer::dequantize`] and [`Quantizer::quantize_strided`].
    pub fn dequantize_strided(
        &self,
        src: &StridedView<'_>,
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut StridedViewMut<'_>,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        let shape = src.shape();
        check(shape, dst.shape(), &[&self.scaling])?;
        let (from, to) = ((self.from(), self.options.src_packing), (self.to(), Packing::OnePerByte));
        cast_views((src, from), (dst, to), &self.options, how, &mut |src, dst| {
            self.dequantize_uninit(src, shape, scales, zero_points, dst, how)
        })
    }
}

impl Requantizer {
    /// Casts a view to another of the same shape, as [`Requantizer::requantize`] does. Views are as in [`Quantizer::quantize_strided`].
    ///
    /// ```
    /// use lanecast::scaled::{Requantizer, Scaling};
    /// use lanecast::{CastOptions, DType, parallel::Parallel, views::{StridedView, StridedViewMut}};
    /// let s = Scaling::mx();
    /// let r = Requantizer::new((DType::F8E5M2, &s), (DType::F8E4M3FN, &s), &CastOptions::new())?;
    /// let (codes, mut new, mut scales) = ([0x3C, 0, 0x40, 0], [0; 2], [0]);
    /// let from = StridedView::new(&codes, 0, &[2], &[2]);
    /// let mut to = StridedViewMut::new(&mut new, 0, &[2], &[1]);
    /// r.requantize_strided(&from, &[127], None, &mut to, &mut scales, &Parallel::new())?;
    /// assert_eq!((new, scales), ([0x70, 0x78], [127 + 1 - 8])); // 1 and 2
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Requantizer::requantize`] and [`Quantizer::quantize_strided`].
    pub fn requantize_strided(
        &self,
        src: &StridedView<'_>,
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut StridedViewMut<'_>,
        scales: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<Quantized, Error> {
        let shape = src.shape();
        check(shape, dst.shape(), &[&self.from, &self.to])?;
        let from = (self.from(), self.options.src_packing);
        let to = (self.to(), self.options.dst_packing);
        let mut done = Quantized::default();
        cast_views((src, from), (dst, to), &self.options, how, &mut |src, dst| {
            let (codes, found) =
                self.requantize_uninit(src, shape, src_scales, zero_points, dst, scales, how)?;
            done = found;
            Ok(codes)
        })?;
        Ok(done)
    }
}
