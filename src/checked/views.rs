//! The checked casts of views: the source is checked first, along its memory, and then cast.

use core::ops::ControlFlow;

use super::check::{Check, REPORT_TILE, memory_for};
use super::parts::CheckCasters;
use super::report::{CastReport, Marks, Stop, numbered};
use crate::cast::Caster;
use crate::error::Error;
use crate::formats::dtype::DType;
use crate::formats::layout::Packing;
use crate::kernels::strided::MOST;
use crate::parallel::{Parallel, Tasks, serial_below};
use crate::room::zeros;
use crate::threads::Lock;
use crate::views::{StridedView, StridedViewMut, copier};

impl Caster {
    /// Casts the elements of a view as [`cast_strided`](Self::cast_strided) does, and reports what that lost. Elements are
    /// counted in row-major order: the last index changes fastest.
    ///
    /// ```
    /// use lanecast::{views::{StridedView, StridedViewMut}, CastOptions, Caster, DType};
    /// // A matrix of 2 x 3, transposed.
    /// let src: Vec<u8> = [1i16, 2, 300, 4, -500, 6].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let (mut dst, shape) = ([0; 6], [3, 2]);
    /// let caster = Caster::new(DType::I16, DType::I8, &CastOptions::new())?;
    /// let columns = StridedView::new(&src, 0, &shape, &[2, 6]);
    /// let report = caster.cast_strided_checked(&columns, &mut StridedViewMut::new(&mut dst, 0, &shape, &[2, 1]))?;
    /// assert_eq!(dst, [1, 4, 2, 12, 44, 6]);
    /// assert_eq!((report.above, report.below, report.first), (1, 1, Some(3)));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Caster::cast_strided`], or there is no memory for the check. Nothing was written.
    pub fn cast_strided_checked(
        &self,
        src: &StridedView<'_>,
        dst: &mut StridedViewMut<'_>,
    ) -> Result<CastReport, Error> {
        self.checked_views(src, dst, None)
    }

    /// Casts the elements of a view, unless that loses one: see [`Caster::try_cast`].
    ///
    /// ```
    /// use lanecast::{views::{StridedView, StridedViewMut}, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I8, DType::U8, &CastOptions::new())?;
    /// let (src, mut dst) = ([1, 0xFF, 3, 4], [0; 2]);
    /// let mut to = StridedViewMut::new(&mut dst, 0, &[2], &[1]);
    /// caster.try_cast_strided(&StridedView::new(&src, 0, &[2], &[2]), &mut to)?;
    /// let error = caster.try_cast_strided(&StridedView::new(&src, 2, &[2], &[-1]), &mut to).unwrap_err();
    /// assert_eq!(error.to_string(), "element 1, -1, is below the range of uint8");
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first element in row-major order that is lost, or as [`Caster::cast_strided_checked`]. Nothing was written.
    pub fn try_cast_strided(&self, src: &StridedView<'_>, dst: &mut StridedViewMut<'_>) -> Result<(), Error> {
        self.checked_views(src, dst, Some(Stop::Lost)).map(drop)
    }

    /// Casts the elements of a view, unless that changes the value of one: see [`Caster::same_value`].
    ///
    /// ```
    /// use lanecast::{views::{StridedView, StridedViewMut}, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::F64, DType::F32, &CastOptions::new())?;
    /// let src = 0.1f64.to_ne_bytes();
    /// let mut dst = [0; 8];
    /// let mut to = StridedViewMut::new(&mut dst, 0, &[2], &[4]);
    /// let error = caster.same_value_strided(&StridedView::new(&src, 0, &[2], &[0]), &mut to).unwrap_err();
    /// assert_eq!(error.to_string(), "element 0, 0.1, is not exact in float32");
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first element in row-major order that changes, or as [`Caster::cast_strided_checked`]. Nothing was written.
    pub fn same_value_strided(
        &self,
        src: &StridedView<'_>,
        dst: &mut StridedViewMut<'_>,
    ) -> Result<(), Error> {
        self.checked_views(src, dst, Some(Stop::Inexact)).map(drop)
    }

    /// Returns what a cast of the elements of a view would lose. It needs no destination, whose packing does not matter, and less
    /// than 100 KiB of memory, whatever the size of the view.
    ///
    /// ```
    /// use lanecast::{views::StridedView, CastOptions, Caster, DType};
    /// // A column of a matrix of 3 x 2.
    /// let src: Vec<u8> = [1i16, 2, 300, 4, -500, 6].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let caster = Caster::new(DType::I16, DType::I8, &CastOptions::new())?;
    /// let report = caster.report_strided(&StridedView::new(&src, 0, &[3], &[4]))?;
    /// assert_eq!((report.elements, report.lost(), report.first), (3, 2, Some(1)));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The view does not fit its buffer, its elements are packed, or it has not one stride for each dimension; or there is no
    /// memory for the check.
    pub fn report_strided(&self, src: &StridedView<'_>) -> Result<CastReport, Error> {
        self.report_view(src, self.check_source(src)?, None)
    }

    /// As [`Caster::report_strided`], but on the threads, in chunks of about as many elements and with the callback of `how`.
    ///
    /// A chunk is a slice along one dimension. The report does not depend on threads and chunks. Each thread needs memory of its own.
    ///
    /// ```
    /// use lanecast::{parallel::Parallel, views::StridedView, CastOptions, Caster, DType};
    /// // Every second column, and the transpose of that.
    /// let (mut src, shape) = (vec![1; 4 << 20], [1 << 10, 2 << 10]);
    /// src[2 * (7 + 100 * (2 << 10))] = 0xFF;
    /// let caster = Caster::new(DType::I8, DType::U8, &CastOptions::new())?;
    /// for strides in [[4 << 10, 2], [2, 2 << 10]] {
    ///     let report = caster.par_report_strided_with(&StridedView::new(&src, 0, &shape, &strides), &Parallel::new())?;
    ///     assert_eq!(report.below, 1);
    /// }
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Caster::report_strided`], or the callback stopped it.
    pub fn par_report_strided_with(
        &self,
        src: &StridedView<'_>,
        how: &Parallel<'_>,
    ) -> Result<CastReport, Error> {
        let elements = self.check_source(src)?;
        let bytes = self.from().itemsize() + self.to().itemsize();
        let traffic = elements.saturating_mul(bytes);
        let tasks = Tasks::new(how, serial_below(self.isa()), traffic);
        if elements == 0 || tasks.are_one() {
            return self.report_view(src, elements, None);
        }
        let slices = Slices::new(
            src,
            elements,
            tasks.chunk(traffic, bytes),
            self.route().is_stochastic,
            tasks.threads(),
        );
        let found = Lock::new((CastReport { elements, ..CastReport::default() }, None));
        let report_slice = |i| {
            let (first, extent) = slices.place(i);
            let number = |element| slices.number(first, extent, element);
            let mut shape = slices.shape;
            shape[slices.along] = extent;
            let part = src.part(slices.way(first), &shape[..slices.dims], &slices.strides[..slices.dims]);
            match self.at(number(0)).report_view(&part, slices.elements(i), None) {
                Ok(report) => {
                    found.lock().0.merge(report, &number);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    found.lock().1 = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        let (done, _) = tasks.run(slices.count(), elements, &|i| slices.elements(i), &report_slice);
        let (report, error) = *found.lock();
        match error {
            Some(error) => Err(error),
            None if done < elements => Err(Error::Cancelled { done, elements }),
            None => Ok(report),
        }
    }

    fn checked_views(
        &self,
        src: &StridedView<'_>,
        dst: &mut StridedViewMut<'_>,
        stops: Option<Stop>,
    ) -> Result<CastReport, Error> {
        let elements = self.check_strided(src, dst)?;
        let report = self.report_view(src, elements, stops)?;
        self.cast_strided(src, dst)?;
        Ok(report)
    }

    /// Finds what a cast of the elements of a view would lose. The elements must be in memory.
    fn report_view(
        &self,
        src: &StridedView<'_>,
        elements: usize,
        stops: Option<Stop>,
    ) -> Result<CastReport, Error> {
        let marks = || Marks { drops_results: true, ..Marks::stopping(stops) };
        let casters = CheckCasters::default();
        casters.fill(self)?;
        let check = Check::new(self, elements, marks().counts_inexact(), &casters);
        if elements == 0 || check.finds_nothing() {
            return Ok(CastReport { elements, ..CastReport::default() });
        }
        // Along the memory of the source. Boxes are large: those of both passes have the same place on the stack.
        let (found, are_ordered) = {
            let mut boxes = self.boxes(src, self.route().is_stochastic);
            (self.report_boxes(src, &mut boxes, &check, marks(), &|_| false), boxes.are_ordered())
        };
        let is_settled = match &found {
            _ if are_ordered => true,
            Ok(found) => found.first.is_none() && found.first_inexact.is_none(),
            Err(error) => !matches!(error, Error::Lossy(_)),
        };
        if is_settled {
            return found;
        }
        // In row-major order, up to what is lost first.
        let has_first = |report: &CastReport| [report.first, report.first_inexact].map(|i| i.is_some());
        let both = found.as_ref().map_or([true; 2], has_first);
        let is_enough = |report: &CastReport| has_first(report) == both;
        let mut boxes = self.boxes(src, true);
        let first = self.report_boxes(src, &mut boxes, &check, marks(), &is_enough)?;
        Ok(CastReport { first: first.first, first_inexact: first.first_inexact, ..found? })
    }

    #[inline(never)]
    fn boxes(&self, src: &StridedView<'_>, are_ordered: bool) -> Boxes {
        let [from, to] = [self.from(), self.to()].map(DType::itemsize);
        Boxes::new(src, from, REPORT_TILE / from.max(to), are_ordered)
    }

    /// Finds what a cast of the elements of a view would lose, box by box, until that is enough. The elements must be in their buffer.
    #[inline(never)]
    fn report_boxes(
        &self,
        src: &StridedView<'_>,
        boxes: &mut Boxes,
        check: &Check<'_>,
        mut marks: Marks<'_>,
        is_enough: &dyn Fn(&CastReport) -> bool,
    ) -> Result<CastReport, Error> {
        let (from, [_, target]) = (self.from().itemsize(), self.layouts());
        let most = boxes.elements();
        let copier = copier(self.from(), Packing::OnePerByte, &self.options())?;
        let mut gathered = zeros(self.from(), if boxes.are_rows { 0 } else { most * from })?;
        let mut results = memory_for(self.to(), most, target.size(most))?;
        let mut report = CastReport { elements: src.shape().iter().product(), ..CastReport::default() };
        loop {
            let n = boxes.elements();
            let elements = if boxes.are_rows {
                #[allow(unsafe_code, reason = "elements are pointers and strides")]
                // SAFETY: they are contiguous elements of the view, and `check_strided` or `check_source` has seen that they are in memory.
                unsafe {
                    src.bytes_at(boxes.way(), n * from)
                }
            } else {
                boxes.gather(&copier, src, &mut gathered)?
            };
            let number = |i| boxes.number(i);
            let out = (&mut results.spare_capacity_mut()[..target.size(n)]).into();
            let found = check.part(elements, out, n, number(0), &mut marks);
            report.merge(found.map_err(|error| numbered(error, &number))?, &number);
            // Where boxes have no order, another pass finds which one is the first.
            marks.knows_inexact = report.first_inexact.is_some();
            if is_enough(&report) || !boxes.next() {
                return Ok(report);
            }
        }
    }
}

/// Slices of a view along one of its dimensions, for threads.
struct Slices {
    /// The dimensions that have several elements.
    shape: [usize; MOST],
    strides: [isize; MOST],
    dims: usize,
    along: usize,
    /// How many elements of that dimension a slice has. The last one may have fewer.
    step: usize,
    /// How many elements of the view belong to one index of that dimension and those outside of it.
    inner: usize,
    /// All elements of the view.
    all: usize,
}

impl Slices {
    /// Returns slices of about `chunk` elements. If `is_ordered`, they are cut along the outermost dimension, so that each is
    /// contiguous in row-major order.
    fn new(view: &StridedView<'_>, all: usize, chunk: usize, is_ordered: bool, threads: usize) -> Self {
        let mut new =
            Self { shape: [1; MOST], strides: [0; MOST], dims: 0, along: 0, step: 1, inner: 1, all };
        for (&extent, &stride) in view.shape().iter().zip(view.strides()).filter(|(extent, _)| **extent > 1) {
            (new.shape[new.dims], new.strides[new.dims]) = (extent, stride);
            new.dims += 1;
        }
        // A single element has no such dimension. It is taken as a dimension of one.
        new.dims = new.dims.max(1);
        let is_long = |&i: &usize| is_ordered || new.shape[i] >= 4 * threads;
        let longest = || (0..new.dims).rev().max_by_key(|&i| new.shape[i]);
        new.along = (0..new.dims).find(is_long).or_else(longest).unwrap_or(0);
        new.inner = new.shape[new.along + 1..].iter().product();
        let extent = new.shape[new.along];
        new.step = (chunk / (all / extent)).clamp(1, extent);
        new
    }

    fn count(&self) -> usize {
        self.shape[self.along].div_ceil(self.step)
    }

    /// Returns the first element of a slice along the dimension, and how many it has there.
    fn place(&self, i: usize) -> (usize, usize) {
        let first = i * self.step;
        (first, self.step.min(self.shape[self.along] - first))
    }

    fn elements(&self, i: usize) -> usize {
        self.all / self.shape[self.along] * self.place(i).1
    }

    /// Returns the bytes from the first element of the view to that of a slice. They do not wrap, because the elements are in memory.
    fn way(&self, first: usize) -> isize {
        self.strides[self.along].wrapping_mul(first as isize)
    }

    /// Returns the number of an element of a slice among those of the view, both in row-major order.
    fn number(&self, first: usize, extent: usize, element: usize) -> usize {
        let (outer, rest) = (element / (extent * self.inner), element % (extent * self.inner));
        (outer * self.shape[self.along] + first) * self.inner + rest
    }
}

/// A dimension of a view.
#[derive(Clone, Copy)]
struct Dim {
    extent: usize,
    stride: isize,
    /// Elements from one index along it to the next, counted in row-major order.
    number: usize,
    /// Elements of a box along it. The last box may have fewer.
    step: usize,
    /// The first element of this box along it, and how many it has there.
    at: usize,
    len: usize,
}

/// A view, taken box by box.
struct Boxes {
    /// The dimensions that have several elements, the densest one first. More than there is room for would be more elements
    /// than a usize can count.
    dims: [Dim; MOST],
    len: usize,
    /// Whether the elements of a box are contiguous.
    are_rows: bool,
}

impl Boxes {
    /// Returns boxes of at most `most` elements of `size` bytes. If they are ordered, their elements are in row-major order,
    /// and no element of another box comes between those of one.
    fn new(view: &StridedView<'_>, size: usize, most: usize, are_ordered: bool) -> Self {
        let one = Dim { extent: 1, stride: 0, number: 1, step: 1, at: 0, len: 1 };
        let mut new = Self { dims: [one; MOST], len: 0, are_rows: true };
        let mut number = 1;
        for (&extent, &stride) in
            view.shape().iter().zip(view.strides()).rev().filter(|(extent, _)| **extent > 1)
        {
            // A stride of 0 repeats an element, which lies nowhere near another one.
            let gap = |stride: isize| stride.unsigned_abs().wrapping_sub(1);
            let is_denser = |dim: &&Dim| are_ordered || gap(dim.stride) <= gap(stride);
            let at = new.dims[..new.len].iter().take_while(is_denser).count();
            new.dims.copy_within(at..new.len, at + 1);
            new.dims[at] = Dim { extent, stride, number, ..one };
            (new.len, number) = (new.len + 1, number * extent);
        }
        let mut n = 1;
        for dim in &mut new.dims[..new.len] {
            dim.step = dim.extent.min(most / n);
            dim.len = dim.step;
            new.are_rows &= dim.step == 1 || dim.stride == (n * size) as isize;
            n *= dim.step;
        }
        new
    }

    /// Whether the elements are in row-major order.
    fn are_ordered(&self) -> bool {
        self.dims().is_sorted_by_key(|dim| dim.number)
    }

    fn dims(&self) -> &[Dim] {
        &self.dims[..self.len]
    }

    /// Goes on to the next box. Returns false if there is none.
    fn next(&mut self) -> bool {
        for dim in &mut self.dims[..self.len] {
            let is_there = dim.extent - dim.at > dim.step;
            dim.at = if is_there { dim.at + dim.step } else { 0 };
            dim.len = dim.step.min(dim.extent - dim.at);
            if is_there {
                return true;
            }
        }
        false
    }

    /// Returns how many elements the box has.
    fn elements(&self) -> usize {
        self.dims().iter().map(|dim| dim.len).product()
    }

    /// Returns the number of an element of the box among those of the view, in row-major order.
    fn number(&self, mut element: usize) -> usize {
        let mut number = 0;
        for dim in self.dims() {
            number += (dim.at + element % dim.len) * dim.number;
            element /= dim.len;
        }
        number
    }

    /// Returns the bytes from the first element of the view to that of the box. They do not wrap, because the elements are in a buffer.
    fn way(&self) -> isize {
        let ways = self.dims().iter().map(|dim| dim.stride.wrapping_mul(dim.at as isize));
        ways.fold(0, isize::wrapping_add)
    }

    /// Copies the elements of the box to a buffer.
    fn gather<'a>(
        &self,
        copier: &Caster,
        src: &StridedView<'_>,
        buffer: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let (mut shape, mut strides, mut dense, mut stride) =
            ([1; MOST], [0; MOST], [0; MOST], copier.from().itemsize());
        for (i, dim) in self.dims().iter().enumerate() {
            (shape[i], strides[i], dense[i]) = (dim.len, dim.stride, stride as isize);
            stride *= dim.len;
        }
        let (shape, strides, dense) = (&shape[..self.len], &strides[..self.len], &dense[..self.len]);
        let mut to = StridedViewMut::new(buffer, 0, shape, dense);
        copier.cast_strided(&src.part(self.way(), shape, strides), &mut to)?;
        Ok(&buffer[..stride])
    }
}
