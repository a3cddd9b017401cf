//! Guarded memory on WebAssembly, which has no pages that fault. A source ends where the memory ends, so a read behind it traps and ends
//! the program. Stray writes are found by canaries when the memory is given back.

use core::arch::wasm32::{memory_grow, memory_size};
use core::slice;

/// The byte that surrounds and fills memory before a cast: one that few results contain.
pub(crate) const CANARY: u8 = 0xC5;

const PAGE: usize = 1 << 16;
/// Bytes of canaries on either side.
const MARGIN: usize = 4096;
/// Bytes that the tests may allocate while a source exists without growing the memory: a source must stay at its end.
const SLACK: usize = 64 << 20;

/// Memory between canaries; behind a source lies the end of memory instead.
pub(crate) struct Guarded {
    pub(crate) first: *mut u8,
    pub(crate) len: usize,
    is_source: bool,
}

impl Guarded {
    /// Allocates room for so many bytes, full of canaries.
    pub(crate) fn new(bytes: usize) -> Self {
        let len = bytes.next_multiple_of(4096);
        let room = vec![CANARY; MARGIN + len + MARGIN].leak();
        Self { first: room[MARGIN..].as_mut_ptr(), len, is_source: false }
    }

    /// Allocates a source of so many bytes, filled with bits that are the same in every run.
    pub(crate) fn source(bytes: usize) -> Self {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(SLACK)));
        let len = bytes.next_multiple_of(4096);
        let pages = (MARGIN + len).div_ceil(PAGE);
        let before = memory_grow::<0>(pages);
        assert_ne!(before, usize::MAX, "no memory");
        let end = (before + pages) * PAGE;
        let mut new = Self { first: core::ptr::with_exposed_provenance_mut(end - len), len, is_source: true };
        new.bytes_mut().copy_from_slice(&Self::bits(len));
        new
    }

    fn bits(len: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let words = (0..len / 8).map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.wrapping_mul(0x2545_F491_4F6C_DD1D)
        });
        words.flat_map(u64::to_le_bytes).collect()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `self` owns the memory, which is initialised, and the slice borrows it as `self` is borrowed.
        unsafe { slice::from_raw_parts(self.first, self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; new memory is initialised to zeros.
        unsafe { slice::from_raw_parts_mut(self.first, self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let canary = if self.is_source { 0 } else { CANARY };
        // SAFETY: the margin in front lies in the same memory, which is never freed.
        let before = unsafe { slice::from_raw_parts(self.first.wrapping_sub(MARGIN), MARGIN) };
        assert!(before.iter().all(|&byte| byte == canary), "written in front");
        if self.is_source {
            assert_eq!(
                self.first.addr() + self.len,
                memory_size::<0>() * PAGE,
                "the memory has grown behind a source"
            );
            assert!(*self.bytes() == *Self::bits(self.len), "a source is written");
        } else {
            // SAFETY: likewise the margin behind.
            let behind = unsafe { slice::from_raw_parts(self.first.wrapping_add(self.len), MARGIN) };
            assert!(behind.iter().all(|&byte| byte == canary), "written behind");
        }
    }
}
