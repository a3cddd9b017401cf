//! Working memory for a call that needs more than a small stack has.

use core::alloc::Layout;
use core::mem::MaybeUninit;

use super::once::Room;
use super::sizes::LINE;

/// Allocated bytes, aligned to a cache line.
pub(crate) struct Scratch(Room);

impl Scratch {
    /// Allocates bytes. None if there is no memory.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        Some(Self(Room::allocated(Layout::from_size_align(bytes, LINE).ok()?)?))
    }

    pub(crate) fn bytes(&mut self) -> &mut [MaybeUninit<u8>] {
        self.0.bytes()
    }
}
