//! Casts of arrays of the crate ndarray, along whatever strides they have.

use core::mem::MaybeUninit;

use ndarray::{Array, ArrayRef, Dimension, ShapeBuilder};

use crate::cast::typed;
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
    /// Casts to a new array with the default options. Its elements are in the order of Fortran if those of this array
    /// are, else in that of C.
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
    fn lanecast<D: Element>(&self) -> Result<Array<D, Dim>, Error> {
        self.lanecast_with(&CastOptions::new())
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
        self.lanecast_into_with(dst, &CastOptions::new())
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
    fn lanecast_with<D: Element>(&self, options: &CastOptions) -> Result<Array<D, Dim>, Error> {
        let is_fortran = self.ndim() > 1 && self.t().is_standard_layout() && !self.is_standard_layout();
        let no_memory = || Error::Allocation { dtype: D::DTYPE, elements: self.len() };
        let mut room = vec_with_capacity::<MaybeUninit<D>>(self.len()).map_err(|_| no_memory())?;
        #[allow(unsafe_code, reason = "there is nothing to initialise")]
        // SAFETY: there is room for so many, and they need not be initialised.
        unsafe {
            room.set_len(self.len());
        }
        let mut new =
            Array::from_shape_vec(self.raw_dim().set_f(is_fortran), room).map_err(|_| no_memory())?;
        let strides = bytes::<D>(new.strides());
        let first = new.as_mut_ptr().cast::<u8>();
        #[allow(unsafe_code, reason = "the array is made for what is cast")]
        // SAFETY: the new array has the shape of this one, and its elements are its own. The cast writes every one
        // of them, as elements of the dtype of `D`.
        unsafe {
            cast::<S, D, Dim>(self, first, &strides, options)?;
            Ok(new.assume_init())
        }
    }

    fn lanecast_into_with<D: Element>(
        &self,
        dst: &mut ArrayRef<D, Dim>,
        options: &CastOptions,
    ) -> Result<(), Error> {
        same_shape(self.shape(), dst.shape())?;
        let strides = bytes::<D>(dst.strides());
        let first = dst.as_mut_ptr().cast();
        #[allow(unsafe_code, reason = "arrays are pointers and strides")]
        // SAFETY: the array has the shape of this one. It is borrowed mutably and this one borrowed, so they have no
        // element in common.
        unsafe {
            cast::<S, D, Dim>(self, first, &strides, options)
        }
    }
}

/// Strides in bytes.
fn bytes<T>(strides: &[isize]) -> Vec<isize> {
    // Those along which there are several elements do not overflow: they are in memory.
    strides.iter().map(|stride| stride.wrapping_mul(size_of::<T>() as isize)).collect()
}

/// # Safety
/// There are writable elements of `D` along the strides, in the shape of the source, and none is one of the source.
#[allow(unsafe_code, reason = "arrays are pointers and strides")]
unsafe fn cast<S: Element, D: Element, Dim: Dimension>(
    src: &ArrayRef<S, Dim>,
    dst: *mut u8,
    strides: &[isize],
    options: &CastOptions,
) -> Result<(), Error> {
    let caster = typed::<S, D>(options)?;
    let source = (src.as_ptr().cast(), &bytes::<S>(src.strides())[..]);
    // SAFETY: the elements of an array are there; the rest is the caller's promise.
    unsafe { caster.cast_views(source, (dst, strides), src.shape()) }
}
