//! Views: casts of elements that lie strides apart, by [`Caster::cast_strided`].
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

// Here a pair of views is checked and brought to a normal form, a `Walk`: as few dimensions as possible, those along which the
// destination is densest first, and none that goes backwards there. `kernels/strided.rs` casts walks.

use core::ops::RangeInclusive;

use crate::cast::Caster;
use crate::error::{Error, Side};
use crate::kernels::strided::{Along, Dim, FEW, MOST, in_order};

/// Elements of a buffer that lie so many bytes apart along each dimension.
///
/// Strides may have any sign, and need not be multiples of anything. A stride of 0 repeats a source. Views with an
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
    bytes: &'a [u8],
    offset: usize,
    shape: &'a [usize],
    strides: &'a [isize],
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
        Self { bytes, offset, shape, strides }
    }

    #[cfg(feature = "scaled")]
    pub(crate) fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Its bytes, if it has so many, with these strides.
    #[cfg(feature = "scaled")]
    pub(crate) fn dense(&self, strides: &[isize], bytes: usize) -> Option<&'a [u8]> {
        let end = self.offset.checked_add(bytes)?;
        if self.strides == strides { self.bytes.get(self.offset..end) } else { None }
    }
}

/// The same, to be written. No stride along a dimension of several elements may be smaller than an element.
///
/// Where other elements overlap (a stride of one dimension leads into what another has reached), it is unspecified which of
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
    bytes: &'a mut [u8],
    offset: usize,
    shape: &'a [usize],
    strides: &'a [isize],
}

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
        Self { bytes, offset, shape, strides }
    }

    #[cfg(feature = "scaled")]
    pub(crate) fn shape(&self) -> &'a [usize] {
        self.shape
    }
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
    /// The shapes differ, a view leaves its buffer, elements are packed, or a stride of the destination is smaller than
    /// an element. Nothing was written.
    pub fn cast_strided(&self, src: &StridedView<'_>, dst: &mut StridedViewMut<'_>) -> Result<(), Error> {
        let to = dst.bytes.as_mut_ptr().wrapping_add(dst.offset);
        self.with_walk_inside(src, dst, |walk| {
            let first = src.bytes.as_ptr().wrapping_add(src.offset);
            #[allow(unsafe_code, reason = "the one place that casts views in buffers")]
            // SAFETY: every byte that either view reaches lies in its buffer, one of which is borrowed and the other
            // borrowed mutably: they do not overlap.
            unsafe {
                walk.cast(self, first, to);
            }
        })
    }

    /// The errors of [`Caster::cast_strided`], without casting.
    #[cfg(feature = "scaled")]
    pub(crate) fn check_strided(&self, src: &StridedView<'_>, dst: &StridedViewMut<'_>) -> Result<(), Error> {
        self.with_walk_inside(src, dst, |_| {})
    }

    /// Checks a pair of views in their buffers, and calls `then` with their normal form, unless they have no elements.
    fn with_walk_inside(
        &self,
        src: &StridedView<'_>,
        dst: &StridedViewMut<'_>,
        then: impl FnOnce(&Walk<'_>),
    ) -> Result<(), Error> {
        same_shape(src.shape, dst.shape)?;
        self.with_walk(src.shape, src.strides, dst.strides, |walk| {
            let inside = |side, reach: Reach, offset: usize, given: usize| {
                let (first, end) = reach.from(offset);
                let is_inside = first >= 0 && end <= given as i128;
                if is_inside { Ok(()) } else { Err(Error::ViewBounds { side, first, end, given }) }
            };
            inside(Side::Source, walk.src_reach, src.offset, src.bytes.len())?;
            inside(Side::Destination, walk.dst_reach, dst.offset, dst.bytes.len())?;
            then(walk);
            Ok(())
        })
    }

    /// The same with pointers to the first elements, for memory that the caller does not own as a whole: bytes between the elements, on both
    /// sides, are neither read nor written. The destination need not be initialised.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    ///
    /// // From one field of a record to another.
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
    /// Every source element is readable, every destination element writable, and during the call nobody else writes
    /// the former or touches the latter.
    ///
    /// # Errors
    ///
    /// The number of strides is not that of dimensions, a view passes the end of the address space, elements are packed, or
    /// a stride of the destination is smaller than an element. Or elements of the views overlap; where that is hard to
    /// tell, it is supposed of views that lie between each other.
    #[allow(unsafe_code, reason = "memory that no borrow can describe")]
    pub unsafe fn cast_strided_raw(
        &self,
        src: *const u8,
        src_strides: &[isize],
        dst: *mut u8,
        dst_strides: &[isize],
        shape: &[usize],
    ) -> Result<(), Error> {
        self.with_walk(shape, src_strides, dst_strides, |walk| {
            let hull = |side, dtype, reach: Reach, start: usize| {
                let (first, end) = reach.from(start);
                let is_inside =
                    first >= 0 && end <= isize::MAX as i128 * 2 && end - first <= isize::MAX as i128;
                let elements = walk.elements;
                if is_inside { Ok((first, end)) } else { Err(Error::SizeOverflow { side, dtype, elements }) }
            };
            let from = hull(Side::Source, self.from(), walk.src_reach, src.addr())?;
            let to = hull(Side::Destination, self.to(), walk.dst_reach, dst.addr())?;
            let distance = dst.addr() as i128 - src.addr() as i128;
            if from.0 < to.1 && to.0 < from.1 && meet(shape, [src_strides, dst_strides], distance, walk.sizes)
            {
                return Err(Error::Overlap);
            }
            // SAFETY: the caller's promise for the elements, which do not overlap.
            unsafe { walk.cast(self, src, dst) };
            Ok(())
        })
    }

    /// The same for views that are in memory, and do not overlap.
    ///
    /// # Safety
    /// Every source element is readable, every destination element writable, and no byte is one of both.
    #[cfg(feature = "ndarray")]
    #[allow(unsafe_code, reason = "arrays of a crate that has checked them")]
    pub(crate) unsafe fn cast_views(
        &self,
        (src, src_strides): (*const u8, &[isize]),
        (dst, dst_strides): (*mut u8, &[isize]),
        shape: &[usize],
    ) -> Result<(), Error> {
        self.with_walk(shape, src_strides, dst_strides, |walk| {
            // SAFETY: the caller's promise.
            unsafe { walk.cast(self, src, dst) };
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
        let mut walk = Walk::new(self, room, shape, [src_strides, dst_strides]);
        if walk.fill(self)? { then(&walk) } else { Ok(()) }
    }
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

/// Do two views have a byte in common, if their first elements are `distance` bytes apart? (Not inlined, so that its stack is free again
/// while they are cast.)
#[inline(never)]
fn meet(shape: &[usize], [src, dst]: [&[isize]; 2], distance: i128, sizes: [usize; 2]) -> bool {
    Between::new(shape, src, dst).meet(distance, sizes)
}

/// All distances between elements of two views: that of the first ones, plus a multiple of each stride.
struct Between {
    /// In falling order of the strides, which are positive.
    strides: [Times; 2 * MOST],
    len: usize,
}

#[derive(Clone, Copy)]
struct Times {
    stride: i128,
    least: i128,
    most: i128,
}

impl Between {
    /// Steps of a search, after which it is given up.
    const PATIENCE: u32 = 1 << 14;

    fn new(shape: &[usize], src_strides: &[isize], dst_strides: &[isize]) -> Self {
        let none = Times { stride: 0, least: 0, most: 0 };
        let mut new = Self { strides: [none; 2 * MOST], len: 0 };
        for (&extent, (&src, &dst)) in shape.iter().zip(src_strides.iter().zip(dst_strides)) {
            // (Forward in the destination is as good as backward in the source.)
            new.add(extent, dst as i128);
            new.add(extent, -(src as i128));
        }
        new
    }

    fn add(&mut self, extent: usize, stride: i128) {
        let times = extent as i128 - 1;
        if times == 0 || stride == 0 {
            return;
        }
        let size = stride.abs();
        let at = self.strides[..self.len].iter().take_while(|times| times.stride > size).count();
        if self.strides[..self.len].get(at).is_none_or(|times| times.stride != size) {
            self.strides.copy_within(at..self.len, at + 1);
            self.strides[at] = Times { stride: size, least: 0, most: 0 };
            self.len += 1;
        }
        if stride > 0 {
            self.strides[at].most += times;
        } else {
            self.strides[at].least -= times;
        }
    }

    /// Do elements of these sizes have a byte in common, if the first ones are `distance` bytes apart?
    fn meet(&self, distance: i128, sizes: [usize; 2]) -> bool {
        let [source, destination] = sizes.map(|size| size as i128);
        let mut patience = Self::PATIENCE;
        search(&self.strides[..self.len], distance, 1 - destination..=source - 1, &mut patience)
    }
}

/// Can the distance be brought into a range by multiples of the strides? Yes, too, if it takes too long to find out.
fn search(strides: &[Times], distance: i128, range: RangeInclusive<i128>, patience: &mut u32) -> bool {
    let [times, smaller @ ..] = strides else { return range.contains(&distance) };
    // What the smaller strides can add bounds the multiples of this one. Usually a stride is larger than everything inside of it, so
    // few multiples are possible.
    let lowest: i128 = smaller.iter().map(|times| times.least * times.stride).sum();
    let highest: i128 = smaller.iter().map(|times| times.most * times.stride).sum();
    let from = -(distance + highest - range.start()).div_euclid(times.stride);
    let to = (range.end() - distance - lowest).div_euclid(times.stride);
    (from.max(times.least)..=to.min(times.most)).any(|n| {
        *patience = patience.saturating_sub(1);
        *patience == 0 || search(smaller, distance + n * times.stride, range.clone(), patience)
    })
}

/// The bytes that a view reaches, relative to its first element. Exact up to where it saturates, which is far outside of
/// any buffer.
#[derive(Clone, Copy)]
struct Reach {
    first: i128,
    end: i128,
}

impl Reach {
    fn from(self, offset: usize) -> (i128, i128) {
        (self.first.saturating_add(offset as i128), self.end.saturating_add(offset as i128))
    }

    fn extend(&mut self, extent: usize, stride: isize) {
        // The factors are below 2^64 and 2^63 in magnitude.
        let way = (extent as i128 - 1) * stride as i128;
        let side = if way < 0 { &mut self.first } else { &mut self.end };
        *side = side.saturating_add(way);
    }
}

/// Two views in normal form.
struct Walk<'a> {
    /// Room, the first `len` of which are dimensions.
    dims: &'a mut [Dim],
    len: usize,
    /// From the first elements of the views to those of the walk, in bytes.
    src_start: isize,
    dst_start: isize,
    src_reach: Reach,
    dst_reach: Reach,
    elements: usize,
    sizes: [usize; 2],
    /// What it is the normal form of: the shape, and the strides on both sides.
    shape: &'a [usize],
    strides: [&'a [isize]; 2],
}

impl<'a> Walk<'a> {
    /// The walk of a single element.
    fn new(caster: &Caster, dims: &'a mut [Dim], shape: &'a [usize], strides: [&'a [isize]; 2]) -> Self {
        let sizes = [caster.from().itemsize(), caster.to().itemsize()];
        let reach = |size: usize| Reach { first: 0, end: size as i128 };
        Self {
            dims,
            len: 0,
            src_start: 0,
            dst_start: 0,
            src_reach: reach(sizes[0]),
            dst_reach: reach(sizes[1]),
            elements: 1,
            sizes,
            shape,
            strides,
        }
    }

    /// Fills the walk in from the views, for whose dimensions there is room. False if they have no elements.
    fn fill(&mut self, caster: &Caster) -> Result<bool, Error> {
        let (shape, [src_strides, dst_strides]) = (self.shape, self.strides);
        for (side, strides) in [(Side::Source, src_strides.len()), (Side::Destination, dst_strides.len())] {
            if strides != shape.len() {
                return Err(Error::StrideCount { side, dimensions: shape.len(), strides });
            }
        }
        let sides = [(Side::Source, caster.from()), (Side::Destination, caster.to())];
        for ((side, dtype), layout) in sides.into_iter().zip(caster.layouts()) {
            if layout.byte_len(8) != Some(8 * dtype.itemsize()) {
                return Err(Error::ViewPacked { side, dtype });
            }
        }
        if shape.contains(&0) {
            return Ok(false);
        }
        for (dimension, ((&extent, &src), &dst)) in shape.iter().zip(src_strides).zip(dst_strides).enumerate()
        {
            if extent == 1 {
                continue;
            }
            if dst.unsigned_abs() < self.sizes[1] {
                return Err(Error::ViewOverlap { dimension, stride: dst });
            }
            self.src_reach.extend(extent, src);
            self.dst_reach.extend(extent, dst);
            // (More dimensions than there is room for would be more elements than a usize can count.)
            self.elements = self.elements.checked_mul(extent).ok_or(Error::SizeOverflow {
                side: Side::Destination,
                dtype: caster.to(),
                elements: usize::MAX,
            })?;
            self.insert(extent, src, dst);
        }
        self.coalesce();
        Ok(true)
    }

    /// Inserts a dimension in order: those along which the destination is denser come first.
    fn insert(&mut self, extent: usize, src: isize, dst: isize) {
        let mut dim = Dim { extent, src, dst };
        if dst < 0 {
            // Starts from the other end. (If that wraps, the view is outside of any buffer, and is not cast.)
            let last = (extent - 1) as isize;
            self.src_start = self.src_start.wrapping_add(last.wrapping_mul(src));
            self.dst_start = self.dst_start.wrapping_add(last.wrapping_mul(dst));
            (dim.src, dim.dst) = (src.wrapping_neg(), dst.wrapping_neg());
        }
        let before = |other: &Dim| (other.dst, other.src.unsigned_abs()) <= (dim.dst, dim.src.unsigned_abs());
        let at = self.dims[..self.len].iter().take_while(|other| before(other)).count();
        self.dims.copy_within(at..self.len, at + 1);
        self.dims[at] = dim;
        self.len += 1;
    }

    /// Merges dimensions that are contiguous to each other on both sides.
    fn coalesce(&mut self) {
        let mut kept = 0;
        for i in 1..self.len {
            let (inner, outer) = (self.dims[kept], self.dims[i]);
            let spans = |stride: isize| (inner.extent as isize).checked_mul(stride);
            if spans(inner.src) == Some(outer.src) && spans(inner.dst) == Some(outer.dst) {
                self.dims[kept].extent = inner.extent * outer.extent;
            } else {
                kept += 1;
                self.dims[kept] = outer;
            }
        }
        self.len = self.len.min(kept + 1);
    }

    /// # Safety
    /// Every element of the views, whose first ones are given, is readable or writable, and no byte is one of both.
    #[allow(unsafe_code, reason = "the caller knows where the elements are")]
    unsafe fn cast(&self, caster: &Caster, src: *const u8, dst: *mut u8) {
        if caster.route().is_stochastic {
            let [src_strides, dst_strides] = self.strides;
            let (src, dst) = ((src, src_strides), (dst, dst_strides));
            // SAFETY: as below.
            return unsafe { in_order(caster.plan(), self.sizes, self.shape, src, dst) };
        }
        let (src, dst) = (src.wrapping_offset(self.src_start), dst.wrapping_offset(self.dst_start));
        // SAFETY: the caller's promise: the walk has the elements of the views. The sizes are those of the dtypes
        // of the plan, whose elements are whole bytes: `fill` has seen to it.
        let along = unsafe { Along::new(caster.plan(), &self.dims[..self.len], self.sizes, src, dst) };
        along.cast();
    }
}

#[cfg(test)]
mod tests {
    use super::meet;

    /// The places of a view's bytes.
    fn places(start: i128, shape: &[usize], strides: &[isize], size: usize) -> Vec<i128> {
        let mut starts = vec![start];
        for (&extent, &stride) in shape.iter().zip(strides) {
            let further = |&at: &i128| (0..extent).map(move |i| at + i as i128 * stride as i128);
            starts = starts.iter().flat_map(further).collect();
        }
        starts.iter().flat_map(|&at| (0..size).map(move |i| at + i as i128)).collect()
    }

    #[test]
    fn views_meet_where_they_have_a_byte_in_common() {
        let mut state = 1_u64;
        let mut random = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        let mut found = [0; 2];
        for _ in 0..20_000 {
            let shape: Vec<usize> = (0..random(4)).map(|_| 1 + random(4)).collect();
            let few = random(2) == 0;
            let stride = |n: usize| if few { [1, -2, 4, 12][n % 4] } else { n as isize - 20 };
            let src: Vec<isize> = shape.iter().map(|_| stride(random(41))).collect();
            let dst: Vec<isize> = shape.iter().map(|_| stride(random(41))).collect();
            let (distance, sizes) = (random(81) as i128 - 40, [1 << random(3), 1 << random(3)]);
            let from = places(0, &shape, &src, sizes[0]);
            let is_met = places(distance, &shape, &dst, sizes[1]).iter().any(|at| from.contains(at));
            found[usize::from(is_met)] += 1;
            assert_eq!(
                meet(&shape, [&src, &dst], distance, sizes),
                is_met,
                "{shape:?} {src:?} {dst:?} {distance} {sizes:?}"
            );
        }
        assert!(found.iter().all(|&n| n > 1000), "{found:?}");
    }

    #[test]
    fn what_is_hard_to_tell_meets() {
        // Coprime strides of about the same size, whose sums fill everything but a few places.
        let shape = [1 << 20; 6];
        let strides = [1_000_003, 1_000_033, 1_000_037, 1_000_039, 1_000_081, 1_000_099];
        assert!(meet(&shape, [&strides, &strides.map(|s| s + 1)], 17, [1, 1]));
    }
}
