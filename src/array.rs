//! Casts of arrays of the crate ndarray, with any strides.

use core::mem::MaybeUninit;

use ndarray::{Array, ArrayRef, Dimension, ShapeBuilder};

use crate::cast::{Caster, few_by_default, typed, typed_by_default};
use crate::error::Error;
use crate::formats::element::Element;
use crate::formats::options::CastOptions;
use crate::parallel::Parallel;
use crate::room::vec_with_capacity;
use crate::views::{StridedView, StridedViewMut, same_shape};

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
    /// Casts to a new array with the default options. Its memory layout is that of this array if there are no gaps between the
    /// elements (as with `mapv`), else C order.
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
    /// `LANECAST_ISA` names an instruction set that is not available, or there is no memory for the array or for the plan, which the first
    /// cast of a pair makes.
    #[inline(always)]
    fn lanecast<D: Element>(&self) -> Result<Array<D, Dim>, Error> {
        self.lanecast_with(const { &CastOptions::new() })
    }

    /// Casts to a new array. As with slices, the packing options have no effect.
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
    /// The instruction set that the options or `LANECAST_ISA` name is not available, or there is no memory for the array or for the plan,
    /// which the first cast of a pair makes.
    fn lanecast_with<D: Element>(&self, options: &CastOptions) -> Result<Array<D, Dim>, Error>;

    /// Casts to a new array as [`lanecast`](Self::lanecast) does, unless that loses an element: see [`Caster::try_cast`].
    ///
    /// ```
    /// use lanecast::Lanecast;
    /// let x = ndarray::array![[1.5f32, 300.0], [1.0, 4.0]];
    /// assert_eq!(x.try_lanecast::<i16>()?, ndarray::array![[1, 300], [1, 4]]);
    /// assert_eq!(x.try_lanecast::<u8>().unwrap_err().to_string(), "element 1, 300.0, is above the range of uint8");
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An element is lost (the error names the first one in C order), or as [`lanecast`](Self::lanecast).
    fn try_lanecast<D: Element>(&self) -> Result<Array<D, Dim>, Error> {
        self.try_lanecast_with(const { &CastOptions::new() })
    }

    /// As [`try_lanecast`](Self::try_lanecast), with options.
    ///
    /// ```
    /// use lanecast::{CastOptions, Lanecast, Rounding};
    /// let up = CastOptions::new().int_rounding(Rounding::Up);
    /// assert!(ndarray::array![255.5f64].try_lanecast_with::<u8>(&up).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// An element is lost (the error names the first one in C order), or as [`lanecast_with`](Self::lanecast_with).
    fn try_lanecast_with<D: Element>(&self, options: &CastOptions) -> Result<Array<D, Dim>, Error>;

    /// Casts to a new array as [`lanecast_with`](Self::lanecast_with) does, on the threads of `how`.
    ///
    /// ```
    /// use lanecast::{CastOptions, Lanecast, parallel::Parallel};
    /// let x = ndarray::Array2::<f32>::ones((1000, 500));
    /// let y = x.t().par_lanecast_with::<u8>(&CastOptions::new(), &Parallel::new())?;
    /// assert_eq!(y, ndarray::Array2::<u8>::ones((500, 1000)));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`lanecast_with`](Self::lanecast_with), or the callback of `how` has stopped the cast.
    fn par_lanecast_with<D: Element>(
        &self,
        options: &CastOptions,
        how: &Parallel<'_>,
    ) -> Result<Array<D, Dim>, Error>;

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
    /// The shapes differ, `LANECAST_ISA` names an instruction set that is not available, or there is no memory for the plan, which the first
    /// cast of a pair makes. Nothing was written.
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
    /// The shapes differ, the instruction set that the options or `LANECAST_ISA` name is not available, or there is no memory for the plan,
    /// which the first cast of a pair makes. Nothing was written.
    fn lanecast_into_with<D: Element>(
        &self,
        dst: &mut ArrayRef<D, Dim>,
        options: &CastOptions,
    ) -> Result<(), Error>;
}

impl<S: Element, Dim: Dimension> Lanecast<Dim> for ArrayRef<S, Dim> {
    // Inlined, because for few elements every call takes noticeable time, and so does moving an array.
    #[inline(always)]
    fn lanecast<D: Element>(&self) -> Result<Array<D, Dim>, Error> {
        let few = match self.as_slice_memory_order() {
            Some(elements) => few_by_default(elements).map(|new| (new, strides_of(self))),
            None => few(self, |elements| {
                few_by_default(elements).or_else(|| typed_by_default::<S, D>().ok()?.new_vec(elements))
            })
            .map(|new| (new, order_of_c(self))),
        };
        let (elements, strides) = match few {
            Some(few) => few,
            None => elements(self, typed_by_default::<S, D>)?,
        };
        Ok(array(self, elements, strides))
    }

    fn lanecast_with<D: Element>(&self, options: &CastOptions) -> Result<Array<D, Dim>, Error> {
        let (elements, strides) = elements(self, || typed::<S, D>(options))?;
        Ok(array(self, elements, strides))
    }

    fn try_lanecast_with<D: Element>(&self, options: &CastOptions) -> Result<Array<D, Dim>, Error> {
        let caster = typed::<S, D>(options)?;
        let (elements, strides) = by_views(self, |src, dst| caster.try_cast_strided(src, dst))?;
        Ok(array(self, elements, strides))
    }

    fn par_lanecast_with<D: Element>(
        &self,
        options: &CastOptions,
        how: &Parallel<'_>,
    ) -> Result<Array<D, Dim>, Error> {
        let caster = typed::<S, D>(options)?;
        let (elements, strides) = by_views(self, |src, dst| caster.par_cast_strided_with(src, dst, how))?;
        Ok(array(self, elements, strides))
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
        let (from_strides, to_strides) =
            (bytes::<S>(self.strides().iter().copied()), bytes::<D>(dst.strides().iter().copied()));
        #[allow(unsafe_code, reason = "arrays are pointers and strides")]
        // SAFETY: the elements of both arrays exist, and the arrays share none: one is borrowed, the other borrowed mutably.
        unsafe {
            let from = StridedView::from_ptr(self.as_ptr().cast(), self.shape(), &from_strides);
            let first = dst.as_mut_ptr().cast();
            caster.cast_strided_apart(&from, &mut StridedViewMut::from_ptr(first, self.shape(), &to_strides))
        }
    }
}

/// Returns the elements of a new array and its strides, made by a cast of views to elements of the type `D`.
fn by_views<S: Element, D: Element, Dim: Dimension>(
    src: &ArrayRef<S, Dim>,
    cast: impl FnOnce(&StridedView<'_>, &mut StridedViewMut<'_>) -> Result<(), Error>,
) -> Result<(Vec<D>, Dim), Error> {
    if src.is_empty() {
        // For an array without elements, the constructor demands strides of 0.
        return Ok((Vec::new(), Dim::zeros(src.ndim())));
    }
    let has_gaps = src.as_slice_memory_order().is_none();
    let strides = if has_gaps { order_of_c(src) } else { strides_of(src) };
    let in_bytes = bytes::<D>(strides.slice().iter().map(|stride| stride.cast_signed()));
    // Elements along a negative stride lie before the first one.
    let ways = in_bytes.iter().zip(src.shape()).filter(|(stride, _)| **stride < 0);
    let before: usize = ways.map(|(stride, extent)| stride.unsigned_abs() * (extent - 1)).sum();
    let no_memory = |_| Error::Allocation { dtype: D::DTYPE, elements: src.len() };
    let mut new = vec_with_capacity(src.len()).map_err(no_memory)?;
    let first = new.spare_capacity_mut().as_mut_ptr().cast::<u8>().wrapping_add(before);
    let from_strides = bytes::<S>(src.strides().iter().copied());
    #[allow(unsafe_code, reason = "arrays are pointers and strides")]
    // SAFETY: the elements of an array exist, and the vector has room for as many. The strides leave no gaps, so a cast that returns no
    // error has written all of them, as elements of the dtype of `D`.
    unsafe {
        let from = StridedView::from_ptr(src.as_ptr().cast(), src.shape(), &from_strides);
        cast(&from, &mut StridedViewMut::from_ptr(first, src.shape(), &in_bytes))?;
        new.set_len(src.len());
    }
    Ok((new, strides))
}

/// An array with the shape of `src`, and these elements and strides.
#[inline(always)]
fn array<S, D, Dim: Dimension>(src: &ArrayRef<S, Dim>, elements: Vec<D>, strides: Dim) -> Array<D, Dim> {
    #[allow(unsafe_code, reason = "strides may be negative, which the safe constructor refuses")]
    // SAFETY: with this shape and these strides, the elements are those of the vector, each at a place of its own.
    unsafe {
        Array::from_shape_vec_unchecked(src.raw_dim().strides(strides), elements)
    }
}

/// The strides of an array, in elements. They also fit a vector of its elements in the order of their addresses.
#[inline(always)]
fn strides_of<S, Dim: Dimension>(src: &ArrayRef<S, Dim>) -> Dim {
    let mut strides = src.raw_dim();
    for (to, &stride) in strides.slice_mut().iter_mut().zip(src.strides()) {
        *to = stride as usize;
    }
    strides
}

/// The strides of an array of this shape in C order, in which the last dimension is the densest.
#[inline(always)]
fn order_of_c<S, Dim: Dimension>(src: &ArrayRef<S, Dim>) -> Dim {
    let (mut strides, mut stride) = (src.raw_dim(), 1);
    for (to, &extent) in strides.slice_mut().iter_mut().zip(src.shape()).rev() {
        (*to, stride) = (stride, stride * extent);
    }
    strides
}

/// Casts an array, and returns the elements of the new one and its strides.
#[inline(never)]
fn elements<S: Element, D: Element, Dim: Dimension>(
    src: &ArrayRef<S, Dim>,
    caster: impl FnOnce() -> Result<Caster, Error>,
) -> Result<(Vec<D>, Dim), Error> {
    let caster = &caster()?;
    if src.is_empty() {
        // For an array without elements, the constructor demands strides of 0.
        return Ok((Vec::new(), Dim::zeros(src.ndim())));
    }
    if let Some(elements) = in_memory(src, caster) {
        return Ok((caster.vec(elements, elements.len(), elements.len())?, strides_of(src)));
    }
    if !caster.route().is_stochastic
        && let Some(elements) = few(src, |elements| caster.new_vec(elements)).or_else(|| rows(src, caster))
    {
        return Ok((elements, order_of_c(src)));
    }
    by_views(src, |src, dst| caster.cast_strided(src, dst))
}

/// How many elements are gathered before they are cast: few enough to be still in L1.
const GATHERED: usize = 512;

/// Whether an array is best gathered row by row: the last dimension is the densest, and its rows are not long and contiguous.
fn has_rows<S, Dim: Dimension>(src: &ArrayRef<S, Dim>) -> bool {
    /// The fewest elements of a row for which the work per row does not matter.
    const LEAST: usize = 8;
    /// Rows of at least this many contiguous elements are cast without being gathered.
    const DENSE: usize = 64;
    let ([.., step], [.., n]) = (src.strides(), src.shape()) else { return false };
    let dense = |(&stride, &extent): (&isize, &usize)| {
        extent < 2 || stride == 0 || stride.unsigned_abs() >= step.unsigned_abs()
    };
    let is_row = size_of::<S>() > 1 && *n >= LEAST && *step != 0 && (*step != 1 || *n < DENSE);
    is_row && src.strides().iter().zip(src.shape()).all(dense)
}

/// Gathers the elements of an array in C order, if there are at most [`GATHERED`], and casts them to a new vector. None if `cast` cannot.
#[inline(never)]
#[allow(
    unsafe_code,
    reason = "a bound that is checked for each element makes the loop up to 1.8 times as long"
)]
fn few<S: Element, D: Element, Dim: Dimension>(
    src: &ArrayRef<S, Dim>,
    cast: impl FnOnce(&[S]) -> Option<Vec<D>>,
) -> Option<Vec<D>> {
    if !(1..=GATHERED).contains(&src.len()) {
        return None;
    }
    let mut room = [const { MaybeUninit::uninit() }; GATHERED];
    let mut to = room.as_mut_ptr();
    src.iter().for_each(|&x| {
        // SAFETY: the iterator of an array yields `src.len()` elements, for which there is room.
        unsafe { to.write(MaybeUninit::new(x)) };
        to = to.wrapping_add(1);
    });
    // SAFETY: these elements were written.
    cast(unsafe { room[..src.len()].assume_init_ref() })
}

/// Casts an array row by row to a new vector, if [`has_rows`] says so and there is memory. With ndarray's own iterator over rows this
/// takes up to three times as long if the number of dimensions is not known at compile time.
#[inline(never)]
#[allow(unsafe_code, reason = "rows are pointers and strides")]
fn rows<S: Element, D: Element, Dim: Dimension>(src: &ArrayRef<S, Dim>, caster: &Caster) -> Option<Vec<D>> {
    let ([outer @ .., extent], [strides @ .., step]) = (src.shape(), src.strides()) else { return None };
    let mut new = has_rows(src).then(|| vec_with_capacity(src.len()).ok())??;
    let mut room = [const { MaybeUninit::uninit() }; GATHERED / 2];
    let (mut row, mut gathered, mut at) = (src.as_ptr(), 0, Dim::zeros(src.ndim()));
    loop {
        let (mut from, mut left) = (row, *extent);
        while left > 0 {
            let n = left.min(room.len() - gathered);
            // SAFETY: at least `n` elements of the row are left.
            unsafe { copy_row(from, *step, &mut room[gathered..gathered + n]) };
            from = from.wrapping_offset(step.wrapping_mul(n as isize));
            (left, gathered) = (left - n, gathered + n);
            if gathered == room.len() {
                // SAFETY: all elements of the room were written.
                caster.append(unsafe { room.assume_init_ref() }, &mut new);
                gathered = 0;
            }
        }
        // On to the next row: steps along the last dimension that is not at its end, and goes back to 0 in those behind it.
        let next = outer.iter().zip(strides).zip(at.slice_mut()).rev().any(|((&extent, &stride), at)| {
            let is_there = *at + 1 < extent;
            // This does not wrap, because the elements are in memory.
            let way = if is_there { stride } else { stride.wrapping_mul(*at as isize).wrapping_neg() };
            row = row.wrapping_offset(way);
            *at = if is_there { *at + 1 } else { 0 };
            is_there
        });
        if !next {
            break;
        }
    }
    if gathered > 0 {
        // SAFETY: these elements were written.
        caster.append(unsafe { room[..gathered].assume_init_ref() }, &mut new);
    }
    (new.len() == src.len()).then_some(new)
}

/// Copies elements that are `step` elements apart.
///
/// # Safety
/// From `from` on, as many elements are readable as `room` holds.
#[inline(always)]
#[allow(unsafe_code, reason = "rows are pointers and strides")]
unsafe fn copy_row<S: Element>(from: *const S, step: isize, room: &mut [MaybeUninit<S>]) {
    /// Inlined with a constant step, for which the compiler makes shuffles.
    #[inline(always)]
    unsafe fn by<S: Element>(from: *const S, step: isize, room: &mut [MaybeUninit<S>]) {
        for (i, to) in room.iter_mut().enumerate() {
            // SAFETY: this is one of the elements that the caller promises.
            to.write(unsafe { from.offset(i as isize * step).read() });
        }
    }
    // SAFETY: the caller's promise: only elements of the row are read.
    unsafe {
        match step {
            1 => by(from, 1, room),
            2 => by(from, 2, room),
            3 => by(from, 3, room),
            4 => by(from, 4, room),
            -1 => by(from, -1, room),
            _ => {
                let (fours, rest) = room.as_chunks_mut::<4>();
                // Four elements at a time, which takes fewer stores.
                for (i, four) in fours.iter_mut().enumerate() {
                    let from = from.offset(4 * i as isize * step);
                    *four = [0, 1, 2, 3].map(|k| MaybeUninit::new(from.offset(k * step).read()));
                }
                by(from.wrapping_offset(4 * fours.len() as isize * step), step, rest);
            }
        }
    }
}

/// The elements of an array as a slice, if there are no gaps between them. They are in the order of their addresses, or, under stochastic
/// rounding, in C order, which gives the index of an element there: in any other order the result is None.
#[inline]
fn in_memory<'a, S, Dim: Dimension>(array: &'a ArrayRef<S, Dim>, caster: &Caster) -> Option<&'a [S]> {
    if caster.route().is_stochastic { array.as_slice() } else { array.as_slice_memory_order() }
}

/// Converts strides in elements of `T` to strides in bytes.
fn bytes<T>(strides: impl Iterator<Item = isize>) -> Vec<isize> {
    // A stride between elements does not overflow, because they are in memory. A stride along a dimension of one element may wrap: it is not used.
    strides.map(|stride| stride.wrapping_mul(size_of::<T>() as isize)).collect()
}
