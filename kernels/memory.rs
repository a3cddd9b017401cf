//! A destination that may be uninitialised, as the safe code in `src/` hands it over.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;

use crate::formats::element::Element;

/// Exclusively borrowed memory for elements. It can be made from initialised memory, too: safe code cannot write through it, so
/// it cannot leave that uninitialised.
pub(crate) struct Destination<'a, D> {
    first: *mut D,
    len: usize,
    borrow: PhantomData<&'a mut [D]>,
}

impl<'a, D> Destination<'a, D> {
    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The number of bytes.
    pub(crate) fn size(&self) -> usize {
        // No overflow: a slice of so many elements exists.
        self.len * size_of::<D>()
    }

    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        self.first.cast()
    }

    /// The same memory, for a shorter time.
    pub(crate) fn reborrow(&mut self) -> Destination<'_, D> {
        Destination { first: self.first, len: self.len, borrow: PhantomData }
    }

    /// The first `at` elements, or all if there are fewer, and the others.
    pub(crate) fn split_at(self, at: usize) -> (Self, Self) {
        let at = at.min(self.len);
        // No element is in both, and none is behind the borrowed ones.
        let behind = self.first.wrapping_add(at);
        (Self { len: at, ..self }, Self { first: behind, len: self.len - at, borrow: PhantomData })
    }

    /// Takes the first `n` elements, or all if there are fewer, and leaves the others.
    pub(crate) fn take(&mut self, n: usize) -> Self {
        let n = n.min(self.len);
        let front = Self { len: n, ..*self };
        // No element is in both, and none is behind the borrowed ones.
        (self.first, self.len) = (self.first.wrapping_add(n), self.len - n);
        front
    }

    /// Takes the first `n` elements and leaves the others. If there are fewer, takes none and returns None.
    #[cfg(isa = "vector")]
    #[inline(always)]
    pub(super) fn take_all(&mut self, n: usize) -> Option<Self> {
        let left = self.len.checked_sub(n)?;
        let front = Self { len: n, ..*self };
        // No element is in both, and none is behind the borrowed ones.
        (self.first, self.len) = (self.first.wrapping_add(n), left);
        Some(front)
    }

    /// Borrows some of the elements.
    pub(crate) fn part(&mut self, elements: Range<usize>) -> Destination<'_, D> {
        assert!(elements.start <= elements.end && elements.end <= self.len);
        // In the slice, as was just asserted, so nothing overflows.
        Destination {
            first: self.first.wrapping_add(elements.start),
            len: elements.len(),
            borrow: PhantomData,
        }
    }

    /// The memory as bytes.
    ///
    /// # Safety
    /// What is written there is valid elements.
    pub(crate) unsafe fn into_bytes(self) -> Destination<'a, u8> {
        Destination { first: self.first.cast(), len: self.size(), borrow: PhantomData }
    }

    /// The memory as elements.
    ///
    /// # Safety
    /// Every element is initialised and valid.
    pub(crate) unsafe fn assume_init(self) -> &'a mut [D] {
        // SAFETY: `first` and `len` come from a slice that is borrowed for 'a; the caller vouches for the elements.
        unsafe { core::slice::from_raw_parts_mut(self.first, self.len) }
    }
}

/// Types of which any bytes are a valid value.
#[cfg(isa = "vector")]
pub(crate) trait Plain {}
#[cfg(isa = "vector")]
impl Plain for f64 {}
#[cfg(isa = "vector")]
impl Plain for u64 {}

#[cfg(isa = "vector")]
impl<'a, D: Plain> Destination<'a, D> {
    /// The same memory as bytes.
    pub(crate) fn bytes(self) -> Destination<'a, u8> {
        Destination { first: self.first.cast(), len: self.size(), borrow: PhantomData }
    }
}

// SAFETY: it is an exclusive borrow of elements, which may be sent where the elements may.
unsafe impl<D: Send> Send for Destination<'_, D> {}

/// The bytes of elements.
pub(crate) fn bytes_of<S: Element>(elements: &[S]) -> &[u8] {
    // SAFETY: it is the memory of the slice, which stays borrowed. The types of elements are those of one list: numbers, bool,
    // and structures of these without padding, so every byte is initialised.
    unsafe { core::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

impl<'a, D> From<&'a mut [D]> for Destination<'a, D> {
    fn from(slice: &'a mut [D]) -> Self {
        Self { first: slice.as_mut_ptr(), len: slice.len(), borrow: PhantomData }
    }
}

impl<'a, D> From<&'a mut [MaybeUninit<D>]> for Destination<'a, D> {
    fn from(slice: &'a mut [MaybeUninit<D>]) -> Self {
        Self { first: slice.as_mut_ptr().cast(), len: slice.len(), borrow: PhantomData }
    }
}
