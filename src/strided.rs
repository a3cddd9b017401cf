//! Strided casts: views of any dimensions, whose elements lie where byte strides lead.
//!
//! Here a pair of views is checked and brought to a normal form, a [`Walk`]: the fewest dimensions, those first along
//! which the destination is densest, and none that leads backwards there. How such a walk is cast is in
//! `kernels/strided.rs`.

use crate::cast::Caster;
use crate::error::{Error, Side};
use crate::kernels::strided;

/// Dimensions of more than one element that a view can have: each doubles its elements.
const MOST: usize = usize::BITS as usize;

/// Elements of a buffer that lie so many bytes apart along each dimension.
///
/// Strides may have any sign, and need not be multiples of anything. A stride of 0 repeats a source. Views with an
/// extent of 0 have no elements, and may lie anywhere.
///
/// ```
/// use lanecast::{CastOptions, Caster, DType, StridedView, StridedViewMut};
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
    /// use lanecast::StridedView;
    /// let every_second = StridedView::new(&[1, 2, 3, 4], 0, &[2], &[2]);
    /// # _ = every_second;
    /// ```
    pub const fn new(bytes: &'a [u8], offset: usize, shape: &'a [usize], strides: &'a [isize]) -> Self {
        Self { bytes, offset, shape, strides }
    }
}

/// The same, to be written. No stride along a dimension of several elements may be smaller than an element.
///
/// Where other elements overlap (a stride of one dimension leads into what another has reached), it is not said which of
/// them remains.
///
/// ```
/// use lanecast::{CastOptions, Caster, DType, StridedView, StridedViewMut};
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
    /// use lanecast::StridedViewMut;
    /// let mut bytes = [1, 2, 3, 4];
    /// let backwards = StridedViewMut::new(&mut bytes, 3, &[4], &[-1]);
    /// # _ = backwards;
    /// ```
    pub const fn new(bytes: &'a mut [u8], offset: usize, shape: &'a [usize], strides: &'a [isize]) -> Self {
        Self { bytes, offset, shape, strides }
    }
}

impl Caster {
    /// Casts the elements of a view to those of a view of the same shape.
    ///
    /// Elements of fewer than 8 bits must lie [one per byte](crate::Packing::OnePerByte).
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType, Error, Side, StridedView, StridedViewMut};
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
        if let Some(dimension) = (0..src.shape.len()).find(|&i| dst.shape.get(i) != Some(&src.shape[i]))
            && src.shape.len() == dst.shape.len()
        {
            let (source, destination) = (src.shape[dimension], dst.shape[dimension]);
            return Err(Error::ShapeMismatch { dimension: Some(dimension), source, destination });
        }
        same_dimensions(src.shape.len(), dst.shape.len())?;
        let Some(walk) = Walk::new(self, src.shape, src.strides, dst.strides)? else { return Ok(()) };
        let inside = |side, reach: Reach, offset: usize, given: usize| {
            let (first, end) = reach.from(offset);
            let is_inside = first >= 0 && end <= given as i128;
            if is_inside { Ok(()) } else { Err(Error::ViewBounds { side, first, end, given }) }
        };
        inside(Side::Source, walk.src_reach, src.offset, src.bytes.len())?;
        inside(Side::Destination, walk.dst_reach, dst.offset, dst.bytes.len())?;
        let first = src.bytes.as_ptr().wrapping_add(src.offset);
        let to = dst.bytes.as_mut_ptr().wrapping_add(dst.offset);
        #[allow(unsafe_code, reason = "the one place that casts views in buffers")]
        // SAFETY: every byte that either view reaches lies in its buffer, one of which is borrowed and the other
        // borrowed mutably: they do not overlap.
        unsafe {
            walk.cast(self, first, to);
        }
        Ok(())
    }

    /// The same with pointers to the first elements, for memory that is no buffer of the caller's alone: the fields
    /// between the elements, on both sides, are neither read nor written. The destination need not be initialised.
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
    /// a stride of the destination is smaller than an element. Or the views overlap: that is said of all whose hulls
    /// do, but for elements that keep apart by lying at other places of a common stride, as fields of records do.
    #[allow(unsafe_code, reason = "memory that no borrow can describe")]
    pub unsafe fn cast_strided_raw(
        &self,
        src: *const u8,
        src_strides: &[isize],
        dst: *mut u8,
        dst_strides: &[isize],
        shape: &[usize],
    ) -> Result<(), Error> {
        let Some(walk) = Walk::new(self, shape, src_strides, dst_strides)? else { return Ok(()) };
        let hull = |side, dtype, reach: Reach, start: usize| {
            let (first, end) = reach.from(start);
            let is_inside = first >= 0 && end <= isize::MAX as i128 * 2 && end - first <= isize::MAX as i128;
            let elements = walk.elements;
            if is_inside { Ok((first, end)) } else { Err(Error::SizeOverflow { side, dtype, elements }) }
        };
        let from = hull(Side::Source, self.from(), walk.src_reach, src.addr())?;
        let to = hull(Side::Destination, self.to(), walk.dst_reach, dst.addr())?;
        let overlap = from.0 < to.1 && to.0 < from.1;
        if overlap && !walk.keeps_apart(src.addr(), dst.addr()) {
            return Err(Error::Overlap);
        }
        // SAFETY: the caller's promise for the elements, which do not overlap.
        unsafe { walk.cast(self, src, dst) };
        Ok(())
    }
}

fn same_dimensions(source: usize, destination: usize) -> Result<(), Error> {
    if source == destination {
        Ok(())
    } else {
        Err(Error::ShapeMismatch { dimension: None, source, destination })
    }
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
struct Walk {
    dims: [strided::Dim; MOST],
    len: usize,
    /// From the first elements of the views to those of the walk, in bytes.
    src_start: isize,
    dst_start: isize,
    src_reach: Reach,
    dst_reach: Reach,
    elements: usize,
    /// Every stride is a multiple of this; 0 if there are none.
    unit: usize,
    sizes: [usize; 2],
}

impl Walk {
    /// None if there are no elements.
    fn new(
        caster: &Caster,
        shape: &[usize],
        src_strides: &[isize],
        dst_strides: &[isize],
    ) -> Result<Option<Self>, Error> {
        same_dimensions(shape.len(), src_strides.len())?;
        same_dimensions(shape.len(), dst_strides.len())?;
        let sizes = [caster.from().itemsize(), caster.to().itemsize()];
        let sides = [(Side::Source, caster.from()), (Side::Destination, caster.to())];
        for ((side, dtype), layout) in sides.into_iter().zip(caster.layouts()) {
            if layout.byte_len(8) != Some(8 * dtype.itemsize()) {
                return Err(Error::ViewPacked { side, dtype });
            }
        }
        if shape.contains(&0) {
            return Ok(None);
        }
        let reach = |size: usize| Reach { first: 0, end: size as i128 };
        let mut walk = Self {
            dims: [strided::Dim::ONE; MOST],
            len: 0,
            src_start: 0,
            dst_start: 0,
            src_reach: reach(sizes[0]),
            dst_reach: reach(sizes[1]),
            elements: 1,
            unit: 0,
            sizes,
        };
        for (dimension, ((&extent, &src), &dst)) in shape.iter().zip(src_strides).zip(dst_strides).enumerate()
        {
            if extent == 1 {
                continue;
            }
            if dst.unsigned_abs() < sizes[1] {
                return Err(Error::ViewOverlap { dimension, stride: dst });
            }
            walk.src_reach.extend(extent, src);
            walk.dst_reach.extend(extent, dst);
            walk.unit = gcd(gcd(walk.unit, src.unsigned_abs()), dst.unsigned_abs());
            // More dimensions than there is room for have more elements than usize counts.
            walk.elements = walk.elements.checked_mul(extent).ok_or(Error::SizeOverflow {
                side: Side::Destination,
                dtype: caster.to(),
                elements: usize::MAX,
            })?;
            walk.insert(extent, src, dst);
        }
        walk.coalesce();
        Ok(Some(walk))
    }

    /// Adds a dimension where it belongs: those along which the destination is denser come first.
    fn insert(&mut self, extent: usize, src: isize, dst: isize) {
        let mut dim = strided::Dim { extent, src, dst };
        if dst < 0 {
            // From its other end. If that wraps, the view leaves every buffer, and is not cast.
            let last = (extent - 1) as isize;
            self.src_start = self.src_start.wrapping_add(last.wrapping_mul(src));
            self.dst_start = self.dst_start.wrapping_add(last.wrapping_mul(dst));
            (dim.src, dim.dst) = (src.wrapping_neg(), dst.wrapping_neg());
        }
        let before =
            |other: &strided::Dim| (other.dst, other.src.unsigned_abs()) <= (dim.dst, dim.src.unsigned_abs());
        let at = self.dims[..self.len].iter().take_while(|other| before(other)).count();
        self.dims[at..=self.len].rotate_right(1);
        self.dims[at] = dim;
        self.len += 1;
    }

    /// Makes one dimension of two that lie behind each other on both sides.
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

    /// Do the elements of both sides lie at different places of a stride that all of them have in common?
    fn keeps_apart(&self, src: usize, dst: usize) -> bool {
        if self.unit == 0 {
            return false;
        }
        let distance = (dst as i128 - src as i128).rem_euclid(self.unit as i128) as usize;
        distance >= self.sizes[0] && self.unit - distance >= self.sizes[1]
    }

    /// # Safety
    /// Every element of the views, whose first ones are given, is readable or writable, and no byte is one of both.
    #[allow(unsafe_code, reason = "the caller knows where the elements are")]
    unsafe fn cast(&self, caster: &Caster, src: *const u8, dst: *mut u8) {
        let (src, dst) = (src.wrapping_offset(self.src_start), dst.wrapping_offset(self.dst_start));
        // SAFETY: the caller's promise: the walk has the elements of the views. The sizes are those of the dtypes
        // of the plan, whose elements are whole bytes: `new` has seen to it.
        unsafe { strided::cast(caster.plan(), caster.isa(), &self.dims[..self.len], self.sizes, src, dst) }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
