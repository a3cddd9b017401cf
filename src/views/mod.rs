//! Casts of strided views: [`Caster::cast_strided`]; on several threads [`par_cast_strided_with`]; checked
//! [`cast_strided_checked`], [`try_cast_strided`] and [`same_value_strided`].
//!
//! ```
//! use lanecast::{views::{StridedView, StridedViewMut}, CastOptions, Caster, DType};
//! // A matrix of 2 x 3 bytes, transposed and widened.
//! let (src, mut dst) = ([1, 2, 3, 4, 5, 6], [0; 12]);
//! let caster = Caster::new(DType::U8, DType::U16, &CastOptions::new())?;
//! caster.cast_strided(
//!     &StridedView::new(&src, 0, &[3, 2], &[1, 3]),
//!     &mut StridedViewMut::new(&mut dst, 0, &[3, 2], &[4, 2]),
//! )?;
//! assert_eq!(dst, [1u16, 4, 2, 5, 3, 6].map(u16::to_ne_bytes).concat()[..]);
//! # Ok::<(), lanecast::Error>(())
//! ```
//!
//! Rows that are contiguous on both sides, and not short, are cast where they are. All else is gathered, cast and scattered a
//! tile at a time. Where the sides are contiguous along different dimensions, as in a transpose, blocks are transposed in
//! registers, so that both sides are read and written in whole lines. `cargo bench --bench views` measures it; results are in
//! `docs/performance/views-*.md`.
//!
//! [`par_cast_strided_with`]: Caster::par_cast_strided_with
//! [`cast_strided_checked`]: Caster::cast_strided_checked
//! [`try_cast_strided`]: Caster::try_cast_strided
//! [`same_value_strided`]: Caster::same_value_strided

mod overlap;
mod parallel;
mod walk;

use core::marker::PhantomData;
use core::mem::MaybeUninit;

use overlap::meet;
use walk::{Reach, Walk, reach_of_source};

use crate::cast::Caster;
use crate::error::{Error, Side};
use crate::formats::dtype::DType;
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::options::CastOptions;
use crate::kernels::strided::{Dim, FEW, MOST};

/// Elements of a buffer, with a stride in bytes along each dimension.
///
/// Strides may have any sign, and need not be multiples of the element size. A stride of 0 repeats elements. Views with an
/// extent of 0 have no elements, and may lie anywhere.
///
/// ```
/// use lanecast::{views::{StridedView, StridedViewMut}, CastOptions, Caster, DType};
///
/// // The last two of three columns, backwards, into the field at byte 1 of records of 6 bytes.
/// let src = [1, 2, 3, 4, 5, 6];
/// let mut dst = [0xEE; 24];
/// let (shape, dst_strides) = ([2, 2], [12, 6]);
/// let caster = Caster::new(DType::U8, DType::F32, &CastOptions::new())?;
/// caster.cast_strided(
///     &StridedView::new(&src, 2, &shape, &[3, -1]),
///     &mut StridedViewMut::new(&mut dst, 1, &shape, &dst_strides),
/// )?;
/// let field = |i: usize| f32::from_ne_bytes(dst[6 * i + 1..][..4].try_into().unwrap());
/// assert_eq!([0, 1, 2, 3].map(field), [3.0, 2.0, 6.0, 5.0]);
/// assert_eq!((dst[0], dst[5]), (0xEE, 0xEE));
/// # Ok::<(), lanecast::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StridedView<'a> {
    place: Place,
    shape: &'a [usize],
    strides: &'a [isize],
    borrow: PhantomData<&'a [u8]>,
}

#[allow(unsafe_code, reason = "a pointer, because bytes between the elements may be somebody else's")]
// SAFETY: a view is a shared borrow of elements.
unsafe impl Send for StridedView<'_> {}
#[allow(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Sync for StridedView<'_> {}

/// Where a view lies in memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    memory: *const u8,
    /// The bytes of the buffer at `memory`; None if the caller has promised that the elements are in memory.
    size: Option<usize>,
    /// The byte of the first element.
    offset: usize,
}

impl Place {
    /// A pointer to the first element.
    fn first(self) -> *const u8 {
        self.memory.wrapping_add(self.offset)
    }

    /// Checks that elements with this reach lie in the buffer, if there is one.
    fn check(self, side: Side, reach: Reach) -> Result<(), Error> {
        let (first, end) = reach.from(self.offset);
        match self.size {
            Some(given) if first < 0 || end > given as i128 => {
                Err(Error::ViewBounds { side, first, end, given })
            }
            _ => Ok(()),
        }
    }

    /// Whether there are `bytes` bytes from the first element on. Without a buffer, the caller has promised them.
    #[cfg(feature = "scaled")]
    fn has(self, bytes: usize) -> bool {
        let end = self.offset.checked_add(bytes);
        end.is_some_and(|end| self.size.is_none_or(|size| end <= size))
    }

    /// The first address that elements with this reach have and the one behind the last, if there can be memory there.
    fn hull(self, side: Side, dtype: DType, reach: Reach, elements: usize) -> Result<[i128; 2], Error> {
        let (first, end) = reach.from(self.offset);
        let [first, end] = [first, end].map(|byte| byte.saturating_add(self.memory.addr() as i128));
        let is_there = first >= 0 && end <= isize::MAX as i128 * 2 && end - first <= isize::MAX as i128;
        if is_there { Ok([first, end]) } else { Err(Error::SizeOverflow { side, dtype, elements }) }
    }
}

impl<'a> StridedView<'a> {
    /// The elements of `bytes` whose first one is at `offset`. Nothing is checked before there is a dtype.
    ///
    /// ```
    /// use lanecast::views::StridedView;
    /// let every_second = StridedView::new(&[1, 2, 3, 4], 0, &[2], &[2]);
    /// # _ = every_second;
    /// ```
    pub const fn new(bytes: &'a [u8], offset: usize, shape: &'a [usize], strides: &'a [isize]) -> Self {
        let place = Place { memory: bytes.as_ptr(), size: Some(bytes.len()), offset };
        Self { place, shape, strides, borrow: PhantomData }
    }

    /// The elements from `first` on, in memory that the caller does not own as a whole: bytes between the elements are not read.
    ///
    /// ```
    /// use lanecast::{views::{StridedView, StridedViewMut}, CastOptions, Caster, DType};
    /// // From one field of a record to another.
    /// let mut records = [(1u8, 0u8), (2, 0), (3, 0)];
    /// let first = records.as_mut_ptr().cast::<u8>();
    /// let caster = Caster::new(DType::U8, DType::I8, &CastOptions::new())?;
    /// // SAFETY: three bytes are read and three others written, all of them in the array.
    /// let (from, mut to) = unsafe {
    ///     (StridedView::from_ptr(first, &[3], &[2]), StridedViewMut::from_ptr(first.add(1), &[3], &[2]))
    /// };
    /// caster.cast_strided(&from, &mut to)?;
    /// assert_eq!(records, [(1, 1), (2, 2), (3, 3)]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Safety
    ///
    /// During each cast of the view, every element is readable and initialised, and nothing else writes it. A cast refuses a source and a
    /// destination that overlap; a scaled cast has read the whole source before it writes.
    #[allow(unsafe_code, reason = "memory that no borrow can describe")]
    pub const unsafe fn from_ptr(first: *const u8, shape: &'a [usize], strides: &'a [isize]) -> Self {
        Self { place: Place { memory: first, size: None, offset: 0 }, shape, strides, borrow: PhantomData }
    }

    pub(crate) fn shape(&self) -> &'a [usize] {
        self.shape
    }

    pub(crate) fn strides(&self) -> &'a [isize] {
        self.strides
    }

    /// A view of some of the elements, the first of which is `way` bytes from that of this view.
    pub(crate) fn part<'b>(&self, way: isize, shape: &'b [usize], strides: &'b [isize]) -> StridedView<'b>
    where
        'a: 'b,
    {
        let place = match self.place.size {
            Some(_) => Place { offset: self.place.offset.wrapping_add_signed(way), ..self.place },
            // Without a buffer, an offset has no byte 0 to count from.
            None => Place { memory: self.place.memory.wrapping_offset(way), ..self.place },
        };
        StridedView { place, shape, strides, borrow: PhantomData }
    }

    /// The `bytes` bytes that begin `way` bytes from the first element.
    ///
    /// # Safety
    /// They are elements of the view, which lie in its buffer, or in memory by the promise of `from_ptr`.
    #[allow(unsafe_code, reason = "elements are pointers and strides")]
    pub(crate) unsafe fn bytes_at(&self, way: isize, bytes: usize) -> &'a [u8] {
        // SAFETY: the caller's promise.
        unsafe { core::slice::from_raw_parts(self.place.first().wrapping_offset(way), bytes) }
    }

    /// The bytes of the view as a slice, if it has these strides and there are `bytes` bytes.
    #[cfg(feature = "scaled")]
    #[allow(unsafe_code, reason = "elements are pointers and strides")]
    pub(crate) fn dense(&self, strides: &[isize], bytes: usize) -> Option<&'a [u8]> {
        let is_there = self.place.has(bytes) && same_strides(self.shape, self.strides, strides);
        if is_there && bytes == 0 {
            // A view without elements may lie anywhere, even where no slice may.
            return Some(&[]);
        }
        // SAFETY: with these strides all bytes are elements, which lie in the buffer, or in memory by the promise of `from_ptr`.
        is_there.then(|| unsafe { self.bytes_at(0, bytes) })
    }
}

/// A [`StridedView`] to be written. Along dimensions of several elements, no stride may be smaller than an element.
///
/// If elements of different dimensions overlap (a stride of one leads into the reach of another), it is unspecified which of
/// them remains.
///
/// ```
/// use lanecast::{views::{StridedView, StridedViewMut}, CastOptions, Caster, DType};
/// let mut out = [0; 4];
/// let mut even = StridedViewMut::new(&mut out, 0, &[2], &[2]);
/// let caster = Caster::new(DType::U8, DType::I8, &CastOptions::new())?;
/// caster.cast_strided(&StridedView::new(&[7], 0, &[2], &[0]), &mut even)?;
/// assert_eq!(out, [7, 0, 7, 0]);
/// # Ok::<(), lanecast::Error>(())
/// ```
#[derive(Debug)]
pub struct StridedViewMut<'a> {
    place: Place,
    shape: &'a [usize],
    strides: &'a [isize],
    borrow: PhantomData<&'a mut [u8]>,
}

#[allow(unsafe_code, reason = "a pointer, because bytes between the elements may be somebody else's")]
// SAFETY: a view to be written is an exclusive borrow of elements.
unsafe impl Send for StridedViewMut<'_> {}
#[allow(unsafe_code, reason = "as above")]
// SAFETY: nothing can be read or written through a shared reference to one.
unsafe impl Sync for StridedViewMut<'_> {}

impl<'a> StridedViewMut<'a> {
    /// The elements of `bytes` whose first one is at `offset`. Nothing is checked before there is a dtype.
    ///
    /// ```
    /// use lanecast::views::StridedViewMut;
    /// let mut bytes = [1, 2, 3, 4];
    /// let backwards = StridedViewMut::new(&mut bytes, 3, &[4], &[-1]);
    /// # _ = backwards;
    /// ```
    pub const fn new(bytes: &'a mut [u8], offset: usize, shape: &'a [usize], strides: &'a [isize]) -> Self {
        let place = Place { memory: bytes.as_mut_ptr(), size: Some(bytes.len()), offset };
        Self { place, shape, strides, borrow: PhantomData }
    }

    /// As [`new`](Self::new), in memory that need not be initialised. A cast initialises the elements of the view, and no other bytes.
    ///
    /// ```
    /// use lanecast::{views::{StridedView, StridedViewMut}, CastOptions, Caster, DType};
    /// let mut columns = Vec::with_capacity(6);
    /// let (src, shape) = ([1, 2, 3, 4, 5, 6], [3, 2]);
    /// let caster = Caster::new(DType::U8, DType::I8, &CastOptions::new())?;
    /// let mut dst = StridedViewMut::uninit(columns.spare_capacity_mut(), 0, &shape, &[2, 1]);
    /// caster.cast_strided(&StridedView::new(&src, 0, &shape, &[1, 3]), &mut dst)?;
    /// // SAFETY: the view has no gaps: these are its elements.
    /// unsafe { columns.set_len(6) };
    /// assert_eq!(columns, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn uninit(
        bytes: &'a mut [MaybeUninit<u8>],
        offset: usize,
        shape: &'a [usize],
        strides: &'a [isize],
    ) -> Self {
        let place = Place { memory: bytes.as_mut_ptr().cast(), size: Some(bytes.len()), offset };
        Self { place, shape, strides, borrow: PhantomData }
    }

    /// The elements from `first` on, in memory that the caller does not own as a whole: bytes between the elements are neither read nor written.
    /// The memory need not be initialised. See [`StridedView::from_ptr`].
    ///
    /// ```
    /// use lanecast::{views::{StridedView, StridedViewMut}, CastOptions, Caster, DType};
    /// let mut out = [0u16; 4];
    /// let caster = Caster::new(DType::U8, DType::U16, &CastOptions::new())?;
    /// // SAFETY: two elements of the array, of which every second one is written.
    /// let mut to = unsafe { StridedViewMut::from_ptr(out.as_mut_ptr().cast(), &[2], &[4]) };
    /// caster.cast_strided(&StridedView::new(&[1, 2], 0, &[2], &[1]), &mut to)?;
    /// assert_eq!(out, [1, 0, 2, 0]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Safety
    ///
    /// During each cast to the view, every element is writable, and nothing else reads or writes it. For views that overlap, see there.
    #[allow(unsafe_code, reason = "memory that no borrow can describe")]
    pub const unsafe fn from_ptr(first: *mut u8, shape: &'a [usize], strides: &'a [isize]) -> Self {
        Self { place: Place { memory: first, size: None, offset: 0 }, shape, strides, borrow: PhantomData }
    }

    #[cfg(feature = "scaled")]
    pub(crate) fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The bytes of the view as a slice, if it has these strides, there are `bytes` bytes, and none of them is one of `others`.
    #[cfg(feature = "scaled")]
    #[allow(unsafe_code, reason = "elements are pointers and strides")]
    pub(crate) fn dense(
        &mut self,
        strides: &[isize],
        bytes: usize,
        others: &[u8],
    ) -> Option<&mut [MaybeUninit<u8>]> {
        if bytes == 0 || !self.place.has(bytes) || !same_strides(self.shape, self.strides, strides) {
            return None;
        }
        let first = self.place.first().cast_mut();
        // Where there are elements, no address overflows.
        let (start, others) = (first.addr(), others.as_ptr_range());
        let apart = start.saturating_add(bytes) <= others.start.addr() || others.end.addr() <= start;
        // SAFETY: with these strides all bytes are elements, which lie in the buffer, or in memory by the promise of `from_ptr`. They are
        // borrowed mutably.
        apart.then(|| unsafe { core::slice::from_raw_parts_mut(first.cast(), bytes) })
    }
}

/// Whether two sets of strides are the same, except along dimensions of one element, where they are not used.
#[cfg(feature = "scaled")]
fn same_strides(shape: &[usize], a: &[isize], b: &[isize]) -> bool {
    let same = |i: usize| shape[i] == 1 || a[i] == b[i];
    a.len() == shape.len() && b.len() == shape.len() && (0..shape.len()).all(same)
}

impl Caster {
    /// Casts the elements of a view to those of a view of the same shape.
    ///
    /// Elements of fewer than 8 bits must lie [one per byte](crate::Packing::OnePerByte).
    ///
    /// ```
    /// use lanecast::{views::{StridedView, StridedViewMut}, CastOptions, Caster, DType, Error, Side};
    ///
    /// // A transpose.
    /// let (src, mut dst) = ([1, 2, 3, 4, 5, 6], [0i8 as u8; 6]);
    /// let shape = [3, 2];
    /// let caster = Caster::new(DType::U8, DType::I8, &CastOptions::new())?;
    /// let columns = StridedView::new(&src, 0, &shape, &[1, 3]);
    /// caster.cast_strided(&columns, &mut StridedViewMut::new(&mut dst, 0, &shape, &[2, 1]))?;
    /// assert_eq!(dst, [1, 4, 2, 5, 3, 6]);
    ///
    /// let outside = StridedView::new(&src, 0, &shape, &[1, 4]);
    /// let error = caster.cast_strided(&outside, &mut StridedViewMut::new(&mut dst, 0, &shape, &[2, 1]));
    /// assert_eq!(error, Err(Error::ViewBounds { side: Side::Source, first: 0, end: 7, given: 6 }));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The shapes differ, a view has not one stride for each dimension, or leaves its buffer or the address space, elements are packed, or a
    /// stride of the destination is smaller than an element. Views given by pointers must not overlap, either; if that takes too long to find
    /// out, interleaved views are taken to overlap. Nothing was written.
    pub fn cast_strided(&self, src: &StridedView<'_>, dst: &mut StridedViewMut<'_>) -> Result<(), Error> {
        self.with_walk_of(src, dst, |walk| {
            let (from, to) = (src.place.first(), dst.place.first().cast_mut());
            #[allow(unsafe_code, reason = "the one place that casts views")]
            // SAFETY: every element lies in its buffer, which is borrowed as needed, or in memory by the promise of `from_ptr`. `with_walk_of`
            // has checked that the views do not overlap.
            unsafe {
                walk.cast(self, from, to);
            }
            Ok(())
        })
    }

    /// Returns the errors of a destination alone, for a source of its shape with the strides `src_strides`.
    #[cfg(feature = "scaled")]
    pub(crate) fn check_destination(
        &self,
        dst: &StridedViewMut<'_>,
        src_strides: &[isize],
    ) -> Result<(), Error> {
        self.with_walk(dst.shape, src_strides, dst.strides, |walk| {
            dst.place.check(Side::Destination, walk.dst_reach)?;
            dst.place.hull(Side::Destination, self.to(), walk.dst_reach, walk.elements).map(drop)
        })
    }

    /// Returns the errors of [`Caster::cast_strided`] without casting, or how many elements there are.
    pub(crate) fn check_strided(
        &self,
        src: &StridedView<'_>,
        dst: &StridedViewMut<'_>,
    ) -> Result<usize, Error> {
        let mut elements = 0;
        self.with_walk_of(src, dst, |walk| {
            elements = walk.elements;
            Ok(())
        })?;
        Ok(elements)
    }

    /// Returns the errors of a source alone, or how many elements it has.
    pub(crate) fn check_source(&self, src: &StridedView<'_>) -> Result<usize, Error> {
        let Some((reach, elements)) = reach_of_source(self, src.shape, src.strides)? else { return Ok(0) };
        src.place.check(Side::Source, reach)?;
        src.place.hull(Side::Source, self.from(), reach, elements)?;
        Ok(elements)
    }

    /// Checks a pair of views, and calls `then` with their normal form, unless they have no elements.
    fn with_walk_of(
        &self,
        src: &StridedView<'_>,
        dst: &StridedViewMut<'_>,
        then: impl FnOnce(&Walk<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        same_shape(src.shape, dst.shape)?;
        let strides = [src.strides, dst.strides];
        self.with_walk(src.shape, strides[0], strides[1], |walk| {
            let [from, to] = [src.place, dst.place];
            from.check(Side::Source, walk.src_reach)?;
            to.check(Side::Destination, walk.dst_reach)?;
            // Two buffers do not overlap, because one is borrowed and the other borrowed mutably.
            if from.size.is_none() || to.size.is_none() {
                let [start, end] = from.hull(Side::Source, self.from(), walk.src_reach, walk.elements)?;
                let dst = to.hull(Side::Destination, self.to(), walk.dst_reach, walk.elements)?;
                let distance = to.first().addr() as i128 - from.first().addr() as i128;
                if start < dst[1] && dst[0] < end && meet(src.shape, strides, distance, walk.sizes) {
                    return Err(Error::Overlap);
                }
            }
            then(walk)
        })
    }

    /// As [`Caster::cast_strided`], of [`StridedView::from_ptr`] and [`StridedViewMut::from_ptr`].
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    ///
    /// let mut records = [(1u8, 0u8), (2, 0), (3, 0)];
    /// let first = records.as_mut_ptr().cast::<u8>();
    /// let caster = Caster::new(DType::U8, DType::I8, &CastOptions::new())?;
    /// // SAFETY: three bytes are read and three others written, all of them in the array.
    /// unsafe { caster.cast_strided_raw(first, &[2], first.add(1), &[2], &[3])? };
    /// assert_eq!(records, [(1, 1), (2, 2), (3, 3)]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Safety
    ///
    /// Every source element is readable and initialised, every destination element is writable, and during the call
    /// nothing else writes the former, or reads or writes the latter.
    ///
    /// # Errors
    ///
    /// As [`Caster::cast_strided`].
    #[allow(unsafe_code, reason = "memory that no borrow can describe")]
    pub unsafe fn cast_strided_raw(
        &self,
        src: *const u8,
        src_strides: &[isize],
        dst: *mut u8,
        dst_strides: &[isize],
        shape: &[usize],
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let (src, mut dst) = unsafe {
            (
                StridedView::from_ptr(src, shape, src_strides),
                StridedViewMut::from_ptr(dst, shape, dst_strides),
            )
        };
        self.cast_strided(&src, &mut dst)
    }

    /// As [`Caster::cast_strided`], for views of one shape that are known not to overlap. [`meet`] may give up and suppose that they do.
    ///
    /// # Safety
    /// Every source element is readable, every destination element is writable, and the views share no byte.
    #[cfg(feature = "ndarray")]
    #[allow(unsafe_code, reason = "arrays of a crate that has checked them")]
    pub(crate) unsafe fn cast_strided_apart(
        &self,
        src: &StridedView<'_>,
        dst: &mut StridedViewMut<'_>,
    ) -> Result<(), Error> {
        self.with_walk(src.shape, src.strides, dst.strides, |walk| {
            // SAFETY: the caller's promise.
            unsafe { walk.cast(self, src.place.first(), dst.place.first().cast_mut()) };
            Ok(())
        })
    }

    /// Calls `then` with the normal form of a pair of views, unless they have no elements.
    fn with_walk(
        &self,
        shape: &[usize],
        src_strides: &[isize],
        dst_strides: &[isize],
        then: impl FnOnce(&Walk<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut few, mut most);
        let room: &mut [Dim] = if shape.len() <= FEW {
            few = [Dim::ONE; FEW];
            &mut few
        } else {
            most = [Dim::ONE; MOST];
            &mut most
        };
        let mut walk = Walk::new(self, room);
        if walk.fill(self, shape, [src_strides, dst_strides])? { then(&walk) } else { Ok(()) }
    }
}

/// A caster of a dtype to itself, which copies, on the instruction set of `options`.
pub(crate) fn copier(dtype: DType, packing: Packing, options: &CastOptions) -> Result<Caster, Error> {
    let options = CastOptions { isa: options.isa, ..CastOptions::new() };
    let options = options.src_packing(packing).dst_packing(packing);
    let options = options.src_order(ByteOrder::Native).dst_order(ByteOrder::Native);
    Caster::new(dtype, dtype, &options)
}

pub(crate) fn same_shape(source: &[usize], destination: &[usize]) -> Result<(), Error> {
    if source.len() != destination.len() {
        let (source, destination) = (source.len(), destination.len());
        return Err(Error::ShapeMismatch { dimension: None, source, destination });
    }
    match (0..source.len()).find(|&i| source[i] != destination[i]) {
        Some(i) => {
            let (source, destination) = (source[i], destination[i]);
            Err(Error::ShapeMismatch { dimension: Some(i), source, destination })
        }
        None => Ok(()),
    }
}
