//! Casts of arrays of the crate ndarray, along whatever strides they have.

use ndarray::{Array, ArrayRef, Dimension, ShapeBuilder};

use crate::cast::{Caster, typed};
use crate::error::Error;
use crate::formats::element::Element;
use crate::formats::options::CastOptions;
use crate::room::vec_with_capacity;
use crate::views::same_shape;

/// Casts of whole arrays and views of any dimensions (feature `ndarray`).
///
/// ```
/// use lanecast::{Lanecast, bf16};
/// use ndarray::{array, s};
///
/// let x = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// let columns = x.slice(s![.., ..;-2]).t().lanecast::<bf16>()?;
/// assert_eq!(columns, array![[3.0, 6.0], [1.0, 4.0]].mapv(bf16::from_f32));
/// # Ok::<(), lanecast::Error>(())
/// ```
pub trait Lanecast<Dim: Dimension> {
    /// Casts to a new array with the default options. Its elements lie in memory as those of this array do, if these have no gaps
    /// between them (as with `mapv`), else in the order of C.
    ///
    /// ```
    /// use lanecast::Lanecast;
    /// let x = ndarray::array![[1.5f32, 300.0], [-1.0, f32::NAN]];
    /// assert_eq!(x.lanecast::<u8>()?, ndarray::array![[1, 255], [0, 0]]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `LANECAST_ISA` names an instruction set that is not available, or there is no memory for the array.
    #[inline(always)]
    fn lanecast<D: Element>(&self) -> Result<Array<D, Dim>, Error> {
        self.lanecast_with(const { &CastOptions::new() })
    }

    /// Casts to a new array. As with slices, packings do not matter.
    ///
    /// ```
    /// use lanecast::{CastOptions, Lanecast, Rounding};
    /// let up = CastOptions::new().int_rounding(Rounding::Up);
    /// assert_eq!(ndarray::arr0(1.25f64).lanecast_with::<i8>(&up)?, ndarray::arr0(2));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The instruction set that the options or `LANECAST_ISA` name is not available, or there is no memory for the array.
    fn lanecast_with<D: Element>(&self, options: &CastOptions) -> Result<Array<D, Dim>, Error>;

    /// Casts into an array or view of the same shape, with the default options.
    ///
    /// ```
    /// use lanecast::Lanecast;
    /// let mut out = ndarray::Array2::<i16>::zeros((2, 4));
    /// ndarray::array![[1.0f32, 2.0], [3.0, 4.0]].lanecast_into(&mut out.slice_mut(ndarray::s![.., ..;2]))?;
    /// assert_eq!(out, ndarray::array![[1, 0, 2, 0], [3, 0, 4, 0]]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The shapes differ, or `LANECAST_ISA` names an instruction set that is not available. Nothing was written.
    fn lanecast_into<D: Element>(&self, dst: &mut ArrayRef<D, Dim>) -> Result<(), Error> {
        self.lanecast_into_with(dst, const { &CastOptions::new() })
    }

    /// Casts into an array or view of the same shape.
    ///
    /// ```
    /// use lanecast::{CastOptions, Error, Lanecast};
    /// let error = ndarray::array![1u8, 2].lanecast_into_with(&mut ndarray::array![0.0f32], &CastOptions::new());
    /// assert_eq!(error, Err(Error::ShapeMismatch { dimension: Some(0), source: 2, destination: 1 }));
    /// ```
    ///
    /// # Errors
    ///
    /// The shapes differ, or the instruction set that the options or `LANECAST_ISA` name is not available. Nothing was
    /// written.
    fn lanecast_into_with<D: Element>(
        &self,
        dst: &mut ArrayRef<D, Dim>,
        options: &CastOptions,
    ) -> Result<(), Error>;
}

impl<S: Element, Dim: Dimension> Lanecast<Dim> for ArrayRef<S, Dim> {
    // Inlined, so that the array is made where it is wanted: of few elements, it shows that one is moved.
    #[inline(always)]
    fn lanecast_with<D: Element>(&self, options: &CastOptions) -> Result<Array<D, Dim>, Error> {
        let mut strides = self.raw_dim();
        let elements = elements::<S, D, Dim>(self, &mut strides, options)?;
        #[allow(unsafe_code, reason = "strides may be negative, which the safe constructor refuses")]
        // SAFETY: by these strides, the elements of this shape are those of the vector, each at a place of its own.
        Ok(unsafe { Array::from_shape_vec_unchecked(self.raw_dim().strides(strides), elements) })
    }

    fn lanecast_into_with<D: Element>(
        &self,
        dst: &mut ArrayRef<D, Dim>,
        options: &CastOptions,
    ) -> Result<(), Error> {
        same_shape(self.shape(), dst.shape())?;
        let caster = typed::<S, D>(options)?;
        if let Some(from) = in_memory(self, &caster)
            && self.strides() == dst.strides()
            && let Some(to) = dst.as_slice_memory_order_mut()
        {
            return caster.fill(from, to.into(), from.len()).map(drop);
        }
        let strides = bytes::<D>(dst.strides().iter().copied());
        let first = dst.as_mut_ptr().cast();
        #[allow(unsafe_code, reason = "arrays are pointers and strides")]
        // SAFETY: the array has the shape of this one. It is borrowed mutably and this one borrowed, so they have no
        // element in common.
        unsafe {
            cast::<S, Dim>(&caster, self, first, &strides)
        }
    }
}

/// The elements of a new array, and its strides.
fn elements<S: Element, D: Element, Dim: Dimension>(
    src: &ArrayRef<S, Dim>,
    strides: &mut Dim,
    options: &CastOptions,
) -> Result<Vec<D>, Error> {
    let caster = typed::<S, D>(options)?;
    if src.is_empty() {
        // None leads outside of no elements, which is what the constructor asks of strides.
        strides.slice_mut().fill(0);
        return Ok(Vec::new());
    }
    if let Some(elements) = in_memory(src, &caster) {
        for (to, &stride) in strides.slice_mut().iter_mut().zip(src.strides()) {
            *to = stride as usize;
        }
        return caster.vec(elements, elements.len(), elements.len());
    }
    let no_memory = |_| Error::Allocation { dtype: D::DTYPE, elements: src.len() };
    let mut new = vec_with_capacity(src.len()).map_err(no_memory)?;
    // In the order of C: the last dimension is the densest.
    let mut stride = 1;
    for (to, &extent) in strides.slice_mut().iter_mut().zip(src.shape()).rev() {
        (*to, stride) = (stride, stride * extent);
    }
    let in_bytes = bytes::<D>(strides.slice().iter().map(|&stride| stride as isize));
    let first = new.spare_capacity_mut().as_mut_ptr().cast();
    #[allow(unsafe_code, reason = "the vector is made for what is cast")]
    // SAFETY: the vector has room for the elements of the array, in the order of C. The cast writes every one of them, as elements of
    // the dtype of `D`.
    unsafe {
        cast::<S, Dim>(&caster, src, first, &in_bytes)?;
        new.set_len(src.len());
    }
    Ok(new)
}

/// The elements of an array in the order of their addresses, if they lie there without gaps, and may be cast in that order: chance
/// rounds an element by its number, which is that in the order of C.
#[inline]
fn in_memory<'a, S, Dim: Dimension>(array: &'a ArrayRef<S, Dim>, caster: &Caster) -> Option<&'a [S]> {
    if caster.route().is_stochastic { array.as_slice() } else { array.as_slice_memory_order() }
}

/// Strides in bytes.
fn bytes<T>(strides: impl Iterator<Item = isize>) -> Vec<isize> {
    // Those along which there are several elements do not overflow: they are in memory.
    strides.map(|stride| stride.wrapping_mul(size_of::<T>() as isize)).collect()
}

/// # Safety
/// There are writable elements of the caster's target along the strides, in the shape of the source, and none is one of the source.
#[allow(unsafe_code, reason = "arrays are pointers and strides")]
unsafe fn cast<S: Element, Dim: Dimension>(
    caster: &Caster,
    src: &ArrayRef<S, Dim>,
    dst: *mut u8,
    strides: &[isize],
) -> Result<(), Error> {
    let source = (src.as_ptr().cast(), &bytes::<S>(src.strides().iter().copied())[..]);
    // SAFETY: the elements of an array are there; the rest is the caller's promise.
    unsafe { caster.cast_views(source, (dst, strides), src.shape()) }
}
