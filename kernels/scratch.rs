//! Memory for the time of a call, where the stack, which may be small, has less: allocated, if there is some.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// So many bytes from a line of the caches on.
pub(crate) struct Scratch {
    first: NonNull<u8>,
    layout: Layout,
}

impl Scratch {
    /// None if there is no memory.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes, 64).ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: it has bytes.
        let first = NonNull::new(unsafe { alloc(layout) })?;
        Some(Self { first, layout })
    }

    pub(crate) fn bytes(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: so many bytes are allocated there, which nobody else has, and need not be initialised.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr().cast(), self.layout.size()) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nobody has it any more.
        unsafe { dealloc(self.first.as_ptr(), self.layout) };
    }
}
