//! The normal form of a pair of views.

// A pair of views is checked here and brought to its normal form, a `Walk`: as few dimensions as possible, those along which the
// destination is densest first, and no negative strides in the destination. `kernels/strided.rs` casts walks. Under stochastic rounding,
// where the index of an element matters, the dimensions of a walk have the order of the views, the last one first.

use crate::cast::Caster;
use crate::error::{Error, Side};
use crate::formats::dtype::DType;
use crate::formats::route::Layout;
use crate::kernels::strided::{Along, Dim, in_order};

/// The range of bytes that a view reaches, relative to its first element. It is exact unless it saturates, which is far outside of
/// any buffer.
#[derive(Clone, Copy)]
pub(super) struct Reach {
    first: i128,
    end: i128,
}

impl Reach {
    pub(super) fn from(self, offset: usize) -> (i128, i128) {
        (self.first.saturating_add(offset as i128), self.end.saturating_add(offset as i128))
    }

    fn extend(&mut self, extent: usize, stride: isize) {
        // The factors are below 2^64 and 2^63 in magnitude.
        let way = (extent as i128 - 1) * stride as i128;
        let side = if way < 0 { &mut self.first } else { &mut self.end };
        *side = side.saturating_add(way);
    }
}

/// Checks that there are as many strides as dimensions.
fn check_strides(side: Side, shape: &[usize], strides: &[isize]) -> Result<(), Error> {
    if strides.len() == shape.len() {
        return Ok(());
    }
    Err(Error::StrideCount { side, dimensions: shape.len(), strides: strides.len() })
}

/// Checks that the elements of a side are whole bytes.
fn check_layout(side: Side, dtype: DType, layout: Layout) -> Result<(), Error> {
    if layout.byte_len(8) == Some(8 * dtype.itemsize()) {
        return Ok(());
    }
    Err(Error::ViewPacked { side, dtype })
}

/// The bytes that a source reaches, and how many elements it has; None if it has none.
pub(super) fn reach_of_source(
    caster: &Caster,
    shape: &[usize],
    strides: &[isize],
) -> Result<Option<(Reach, usize)>, Error> {
    let (side, dtype) = (Side::Source, caster.from());
    check_strides(side, shape, strides)?;
    let [layout, _] = caster.layouts();
    check_layout(side, dtype, layout)?;
    if shape.contains(&0) {
        return Ok(None);
    }
    let (mut reach, mut elements) = (Reach { first: 0, end: dtype.itemsize() as i128 }, 1usize);
    for (&extent, &stride) in shape.iter().zip(strides) {
        reach.extend(extent, stride);
        let too_many = Error::SizeOverflow { side, dtype, elements: usize::MAX };
        elements = elements.checked_mul(extent).ok_or(too_many)?;
    }
    Ok(Some((reach, elements)))
}

/// Two views in normal form.
pub(super) struct Walk<'a> {
    /// Room for dimensions, of which the first `len` are used.
    dims: &'a mut [Dim],
    len: usize,
    /// The distances in bytes from the first elements of the views to those of the walk.
    src_start: isize,
    dst_start: isize,
    pub(super) src_reach: Reach,
    pub(super) dst_reach: Reach,
    pub(super) elements: usize,
    pub(super) sizes: [usize; 2],
    /// Whether the dimensions have the order of the views, the last one first.
    is_ordered: bool,
}

impl<'a> Walk<'a> {
    /// The walk of a single element, to be filled in; `dims` is room for dimensions.
    pub(super) fn new(caster: &Caster, dims: &'a mut [Dim]) -> Self {
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
            is_ordered: caster.route().is_stochastic,
        }
    }

    /// Checks the shape of the views and the strides on both sides, and fills the walk in from them; it must have room for the dimensions.
    /// False if the views have no elements.
    pub(super) fn fill(
        &mut self,
        caster: &Caster,
        shape: &[usize],
        [src_strides, dst_strides]: [&[isize]; 2],
    ) -> Result<bool, Error> {
        check_strides(Side::Source, shape, src_strides)?;
        check_strides(Side::Destination, shape, dst_strides)?;
        let [src, dst] = caster.layouts();
        check_layout(Side::Source, caster.from(), src)?;
        check_layout(Side::Destination, caster.to(), dst)?;
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
            // More dimensions of at least 2 than there is room for would have more elements than a usize can count.
            self.elements = self.elements.checked_mul(extent).ok_or(Error::SizeOverflow {
                side: Side::Destination,
                dtype: caster.to(),
                elements: usize::MAX,
            })?;
            self.insert(Dim { extent, src, dst });
        }
        self.coalesce();
        Ok(true)
    }

    /// Inserts a dimension that comes behind the others in the views. Unless order matters, the dimensions along which the destination is
    /// denser come first.
    fn insert(&mut self, mut dim: Dim) {
        let mut at = 0;
        if !self.is_ordered {
            let Dim { extent, src, dst } = dim;
            if dst < 0 {
                // Starts from the other end. If this wraps, the view is outside of any buffer, and will be refused.
                let last = (extent - 1) as isize;
                self.src_start = self.src_start.wrapping_add(last.wrapping_mul(src));
                self.dst_start = self.dst_start.wrapping_add(last.wrapping_mul(dst));
                (dim.src, dim.dst) = (src.wrapping_neg(), dst.wrapping_neg());
            }
            let key = |dim: &Dim| (dim.dst, dim.src.unsigned_abs());
            at = self.dims[..self.len].iter().take_while(|other| key(other) <= key(&dim)).count();
        }
        self.dims.copy_within(at..self.len, at + 1);
        self.dims[at] = dim;
        self.len += 1;
    }

    /// Merges neighbouring dimensions that are contiguous on both sides.
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

    /// The dimensions: those along which the destination is denser first, unless order matters.
    pub(super) fn dims(&self) -> &[Dim] {
        &self.dims[..self.len]
    }

    /// Whether the dimensions have the order of the views, the last one first.
    pub(super) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// Casts the elements of the views, whose first ones are at `src` and `dst`.
    ///
    /// # Safety
    /// Every element of the source view is readable and every element of the destination view writable, and the views share no byte.
    #[allow(unsafe_code, reason = "the caller knows where the elements are")]
    pub(super) unsafe fn cast(&self, caster: &Caster, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise, because the elements of the walk are those of the views.
        unsafe { self.cast_box(caster, self.dims(), src, dst) }
    }

    /// Casts some elements of the walk: those along `dims`, from the elements at `src` and `dst` on.
    ///
    /// # Safety
    /// As for [`Self::cast`]; the dimensions are those of this walk, or shorter.
    #[allow(unsafe_code, reason = "the caller knows where the elements are")]
    pub(super) unsafe fn cast_box(&self, caster: &Caster, dims: &[Dim], src: *const u8, dst: *mut u8) {
        let (src, dst) = (src.wrapping_offset(self.src_start), dst.wrapping_offset(self.dst_start));
        // SAFETY: the caller's promise. The sizes are those of the plan's dtypes, whose elements are whole bytes, as `fill` has checked.
        unsafe {
            if self.is_ordered {
                in_order(caster.plan(), self.sizes, dims, src, dst);
            } else {
                Along::new(caster.plan(), dims, self.sizes, src, dst).cast();
            }
        }
    }
}
