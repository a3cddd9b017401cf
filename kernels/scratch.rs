//! Memory for the time of a call, where the stack, which may be small, has less: allocated, if there is some.

use core::alloc::Layout;
use core::mem::MaybeUninit;

use super::once::Room;

/// So many bytes from a line of the caches on.
pub(crate) struct Scratch(Room);

impl Scratch {
    /// None if there is no memory.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        Some(Self(Room::allocated(Layout::from_size_align(bytes, 64).ok()?)?))
    }

    pub(crate) fn bytes(&mut self) -> &mut [MaybeUninit<u8>] {
        self.0.bytes()
    }
}
