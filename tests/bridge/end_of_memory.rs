//! Memory of WebAssembly, which has no pages that fault: but behind its last one there is none, so a source ends there, and what is read
//! behind it is a trap, which ends the program. What is written elsewhere is found by canaries when the memory is given back.

use core::arch::wasm32::{memory_grow, memory_size};
use core::slice;

/// What no cast may leave behind, and no result is likely to be.
pub(crate) const CANARY: u8 = 0xC5;

const PAGE: usize = 1 << 16;
/// Bytes of canaries on either side.
const MARGIN: usize = 4096;
/// What the tests may allocate without that the memory grows, so that a source is at its end until it is given back.
const SLACK: usize = 64 << 20;

/// Room between canaries or, behind, the end of memory.
pub(crate) struct Guarded {
    pub(crate) first: *mut u8,
    pub(crate) len: usize,
    is_source: bool,
}

impl Guarded {
    /// Room for so many bytes, full of canaries.
    pub(crate) fn new(bytes: usize) -> Self {
        let len = bytes.next_multiple_of(4096);
        let room = vec![CANARY; MARGIN + len + MARGIN].leak();
        Self { first: room[MARGIN..].as_mut_ptr(), len, is_source: false }
    }

    /// Room for so many bytes, full of bits that are the same in every run.
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
        // SAFETY: memory of its own, initialised, and borrowed as `self` is.
        unsafe { slice::from_raw_parts(self.first, self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; new memory is zeros.
        unsafe { slice::from_raw_parts_mut(self.first, self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let canary = if self.is_source { 0 } else { CANARY };
        // SAFETY: the margins, of memory that is not given back.
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
            // SAFETY: as above.
            let behind = unsafe { slice::from_raw_parts(self.first.wrapping_add(self.len), MARGIN) };
            assert!(behind.iter().all(|&byte| byte == canary), "written behind");
        }
    }
}
