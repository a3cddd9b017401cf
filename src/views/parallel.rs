//! Casts of views on several threads: a view is cut into slices along one dimension.

use core::ops::ControlFlow;

use super::walk::Walk;
use super::{StridedView, StridedViewMut};
use crate::cast::Caster;
use crate::error::Error;
use crate::kernels::strided::{Dim, MOST};
use crate::parallel::{Parallel, Tasks, serial_below};

/// The least bytes of a slice along a dimension in which either side is contiguous, so that it is still read or written in long runs.
const RUN: usize = 512;

impl Caster {
    /// Casts as [`Caster::cast_strided`] does, on the threads and with the callback of `how`. A chunk is a slice of the views along one
    /// dimension, of about as many elements as `how` says. If elements of the destination overlap, the calling thread casts alone.
    ///
    /// ```
    /// use lanecast::{parallel::Parallel, views::{StridedView, StridedViewMut}, CastOptions, Caster, DType};
    /// // A large transpose.
    /// let (rows, columns) = (1 << 11, 1 << 10);
    /// let (src, mut dst) = (vec![3; rows * columns], vec![0; 4 * rows * columns]);
    /// let caster = Caster::new(DType::U8, DType::F32, &CastOptions::new())?;
    /// caster.par_cast_strided_with(
    ///     &StridedView::new(&src, 0, &[columns, rows], &[1, columns as isize]),
    ///     &mut StridedViewMut::new(&mut dst, 0, &[columns, rows], &[4 * rows as isize, 4]),
    ///     &Parallel::new(),
    /// )?;
    /// assert!(dst == 3f32.to_ne_bytes().repeat(rows * columns));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Caster::cast_strided`], and nothing was written; or the callback has stopped the cast.
    pub fn par_cast_strided_with(
        &self,
        src: &StridedView<'_>,
        dst: &mut StridedViewMut<'_>,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        self.with_walk_of(src, dst, |walk| {
            let (from, to) = (src.place.first(), dst.place.first().cast_mut());
            #[allow(unsafe_code, reason = "the one place that casts slices of views")]
            // SAFETY: as in `cast_strided`.
            unsafe {
                par_cast(walk, self, from, to, how)
            }
        })
    }
}

/// Casts the elements of a walk, whose views have their first elements at `src` and `dst`.
///
/// # Safety
/// As for [`Walk::cast`], from every thread.
#[allow(unsafe_code, reason = "the caller knows where the elements are")]
unsafe fn par_cast(
    walk: &Walk<'_>,
    caster: &Caster,
    src: *const u8,
    dst: *mut u8,
    how: &Parallel<'_>,
) -> Result<(), Error> {
    let bytes = walk.sizes[0] + walk.sizes[1];
    let traffic = walk.elements.saturating_mul(bytes);
    let tasks = Tasks::new(how, serial_below(caster.isa()), traffic);
    let chunk = if tasks.are_one() { usize::MAX } else { tasks.chunk(traffic, bytes) };
    let slices = Slices::new(walk, caster, src, dst, chunk, tasks.threads());
    let cast = |i| {
        // SAFETY: the caller's promise. No two slices share a byte of the destination.
        unsafe { slices.cast(i) };
        ControlFlow::Continue(())
    };
    match tasks.run(slices.count(), walk.elements, &|i| slices.elements(i), &cast) {
        (done, _) if done < walk.elements => Err(Error::Cancelled { done, elements: walk.elements }),
        _ => Ok(()),
    }
}

/// Slices of a walk along one dimension.
struct Slices<'a> {
    walk: &'a Walk<'a>,
    caster: Caster,
    src: *const u8,
    dst: *mut u8,
    /// The index of the dimension.
    along: usize,
    /// The extent of a slice along it; the last slice may have less.
    step: usize,
}

#[allow(unsafe_code, reason = "pointers to elements that the threads share")]
// SAFETY: the pointers are only dereferenced by `cast`, whose caller makes the promise that it needs.
unsafe impl Sync for Slices<'_> {}

impl<'a> Slices<'a> {
    /// Makes slices of about `chunk` elements, for `threads` threads; only one slice if elements of the destination overlap.
    fn new(
        walk: &'a Walk<'a>,
        caster: &Caster,
        src: *const u8,
        dst: *mut u8,
        chunk: usize,
        threads: usize,
    ) -> Self {
        let dims = walk.dims();
        let mut slices =
            Self { walk, caster: caster.part_of(walk.elements), src, dst, along: 0, step: usize::MAX };
        if chunk >= walk.elements || !is_apart(dims, walk.sizes[1]) {
            return slices;
        }
        // Cuts the outermost dimension that is long enough for all threads, so that slices are far from each other, or else the longest one.
        // If the elements are numbered in the order of the walk, only the outermost can be cut.
        let is_long = |&i: &usize| walk.is_ordered() || dims[i].extent >= 4 * threads;
        let longest = || (0..dims.len()).rev().max_by_key(|&i| dims[i].extent);
        let Some(along) = (0..dims.len()).rev().find(is_long).or_else(longest) else { return slices };
        let dim = dims[along];
        // If either side is contiguous along the dimension, slices are whole runs, provided there are enough runs for the threads.
        let is_dense = |side: usize| [dim.src, dim.dst][side].unsigned_abs() == walk.sizes[side];
        let run = (0..2).filter(|&side| is_dense(side)).map(|side| RUN / walk.sizes[side]).max().unwrap_or(1);
        let unit = if dim.extent / run >= 4 * threads { run } else { 1 };
        let step = chunk / (walk.elements / dim.extent);
        (slices.along, slices.step) = (along, step.max(1).next_multiple_of(unit));
        slices
    }

    fn dim(&self) -> Dim {
        self.walk.dims().get(self.along).copied().unwrap_or(Dim::ONE)
    }

    fn count(&self) -> usize {
        self.dim().extent.div_ceil(self.step)
    }

    /// The first element of a slice along the dimension, and how many it has.
    fn place(&self, i: usize) -> (usize, usize) {
        let first = i * self.step;
        (first, self.step.min(self.dim().extent - first))
    }

    /// How many elements a slice has.
    fn elements(&self, i: usize) -> usize {
        self.walk.elements / self.dim().extent * self.place(i).1
    }

    /// Casts a slice.
    ///
    /// # Safety
    /// As for [`Walk::cast`].
    #[allow(unsafe_code, reason = "the caller knows where the elements are")]
    unsafe fn cast(&self, i: usize) {
        let ((first, extent), dim, len) = (self.place(i), self.dim(), self.walk.dims().len());
        let mut room = [Dim::ONE; MOST];
        let dims = &mut room[..len];
        dims.copy_from_slice(self.walk.dims());
        if let Some(dim) = dims.get_mut(self.along) {
            dim.extent = extent;
        }
        // This does not wrap, because the elements are in memory.
        let way = |stride: isize| stride.wrapping_mul(first as isize);
        let (src, dst) = (self.src.wrapping_offset(way(dim.src)), self.dst.wrapping_offset(way(dim.dst)));
        let caster = self.caster.at(self.walk.elements / dim.extent * first);
        // SAFETY: the caller's promise, because the elements of the slice are elements of the walk.
        unsafe { self.walk.cast_box(&caster, dims, src, dst) };
    }
}

/// Whether no two elements of a destination, of `size` bytes each, overlap: each stride must lead beyond the reach of the denser dimensions.
fn is_apart(dims: &[Dim], size: usize) -> bool {
    dims.iter().enumerate().all(|(i, dim)| {
        let stride = dim.dst.unsigned_abs();
        let denser = |(j, other): &(usize, &Dim)| *j != i && other.dst.unsigned_abs() <= stride;
        let ways = dims.iter().enumerate().filter(denser);
        let reach = ways.fold(size, |sum, (_, other)| {
            sum.saturating_add((other.extent - 1).saturating_mul(other.dst.unsigned_abs()))
        });
        reach <= stride
    })
}
