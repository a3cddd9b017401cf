//! Memory between pages that fault when touched.

use core::{ptr, slice};

/// The byte that fills memory before a cast: one that few results contain.
pub(crate) const CANARY: u8 = 0xC5;

/// Whole pages, with a page on either side that faults.
pub(crate) struct Guarded {
    pub(crate) first: *mut u8,
    pub(crate) len: usize,
}

impl Guarded {
    fn page() -> usize {
        // SAFETY: `sysconf` only returns a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(page).expect("the system has pages")
    }

    /// Maps room for so many bytes, full of canaries.
    pub(crate) fn new(bytes: usize) -> Self {
        let (page, len) = (Self::page(), bytes.next_multiple_of(Self::page()));
        let (kind, none) = (libc::MAP_PRIVATE | libc::MAP_ANON, libc::PROT_NONE);
        // SAFETY: maps new memory at an address that the system chooses.
        let whole = unsafe { libc::mmap(ptr::null_mut(), len + 2 * page, none, kind, -1, 0) };
        assert_ne!(whole, libc::MAP_FAILED);
        let mut new = Self { first: whole.cast::<u8>().wrapping_add(page), len };
        new.protect(libc::PROT_READ | libc::PROT_WRITE);
        new.bytes_mut().fill(CANARY);
        new
    }

    /// Maps a read-only source of so many bytes, filled with bits that are the same in every run.
    pub(crate) fn source(bytes: usize) -> Self {
        let mut new = Self::new(bytes);
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for word in new.bytes_mut().chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
        }
        new.protect(libc::PROT_READ);
        new
    }

    fn protect(&self, how: libc::c_int) {
        // SAFETY: these are the pages between the guards, which stay readable.
        assert_eq!(unsafe { libc::mprotect(self.first.cast(), self.len, how) }, 0);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the pages are mapped and initialised, and the slice borrows them as `self` is borrowed.
        unsafe { slice::from_raw_parts(self.first, self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; a new mapping is initialised to zeros.
        unsafe { slice::from_raw_parts_mut(self.first, self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let page = Self::page();
        // SAFETY: exactly what `new` has mapped; nothing borrows it any more.
        unsafe { libc::munmap(self.first.wrapping_sub(page).cast(), self.len + 2 * page) };
    }
}
