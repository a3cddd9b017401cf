//! Copies runs of bytes.

use core::ptr;

#[cfg(isa = "vector")]
use super::processor::this_processor;
#[cfg(isa = "vector")]
use super::simd::{Simd, Task};
#[cfg(isa = "vector")]
use super::sizes::LINE;

/// Up to this many registers are copied without a call of memcpy.
#[cfg(isa = "vector")]
const SHORT: usize = 4;

/// Bytes to be copied: those of the source are readable, those of the destination writable, and no byte is in both.
#[derive(Clone, Copy)]
pub(super) struct Run {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

impl Run {
    /// # Safety
    /// The bytes are as [`Run`] says, for as long as this is used.
    #[inline(always)]
    pub(super) unsafe fn new(from: *const u8, to: *mut u8, bytes: usize) -> Self {
        Self { from, to, bytes }
    }

    /// Copies by memcpy.
    #[inline(always)]
    pub(super) fn plainly(self) {
        // SAFETY: that is what a run is.
        unsafe { ptr::copy_nonoverlapping(self.from, self.to, self.bytes) };
    }

    /// Copies by registers where memcpy may be slow, or where calling it takes longer than copying; else by memcpy.
    #[cfg(isa = "vector")]
    #[inline(always)]
    pub(super) fn by<I: Simd>(self, isa: I) {
        struct Copy(Run);

        impl<I: Simd> Task<I> for Copy {
            type Output = ();

            #[inline(always)]
            fn call(self, isa: I) {
                if self.0.bytes <= SHORT * I::BYTES { self.0.shortly(isa) } else { self.0.aligned(isa) }
            }
        }

        // Where memcpy is not slow, registers of 64 bytes are as fast; those of 32 bytes take up to twice as long.
        let is_faster = || I::BYTES == LINE || this_processor().copies_alike_slowly();
        let goes_by_registers = lie_alike(self.from, self.to, self.bytes) && is_faster();
        if self.bytes <= SHORT * I::BYTES || goes_by_registers { isa.run(Copy(self)) } else { self.plainly() }
    }
}

/// Whether the source is at nearly the same offset in its page as the destination. Then memcpy may take ten times as long:
/// glibc 2.36 leaves copies of this size to `rep movsb`, which is slow in that case on a Zen 3.
#[inline(always)]
pub(super) fn lie_alike(from: *const u8, to: *mut u8, bytes: usize) -> bool {
    (2 << 10..1 << 20).contains(&bytes) && (1..64).contains(&(to.addr().wrapping_sub(from.addr()) % 4096))
}

#[cfg(isa = "vector")]
impl Run {
    /// Copies by a few registers.
    #[inline(always)]
    pub(super) fn shortly<I: Simd>(self, isa: I) {
        // SAFETY: that is what a run is.
        unsafe { isa.copy(self.from, self.to, self.bytes) };
    }

    /// Copies by registers aligned in the destination, after a first unaligned one that overlaps them.
    #[inline(always)]
    pub(super) fn aligned<I: Simd>(self, isa: I) {
        let Self { from, to, bytes } = self;
        let ahead = to.addr().wrapping_neg() % I::BYTES;
        if bytes < I::BYTES {
            return self.shortly(isa);
        }
        // SAFETY: a register at the start of the run, and what follows its first `ahead` bytes, which are less than a register.
        unsafe {
            isa.store(to, isa.load(from));
            isa.copy(from.add(ahead), to.add(ahead), bytes - ahead);
        }
    }

    /// Copies, but leaves the whole lines of the destination to `lines`, which gets their source, destination and length.
    #[inline(always)]
    pub(super) fn by_lines(self, lines: impl FnOnce(*const u8, *mut u8, usize)) {
        let Self { from, to, bytes } = self;
        let ahead = (to.addr().wrapping_neg() % LINE).min(bytes);
        let whole = (bytes - ahead) / LINE * LINE;
        let part = |at, bytes| Self { from: from.wrapping_add(at), to: to.wrapping_add(at), bytes };
        part(0, ahead).plainly();
        lines(from.wrapping_add(ahead), to.wrapping_add(ahead), whole);
        part(ahead + whole, bytes - ahead - whole).plainly();
    }

    /// Copies, streaming whole lines past the caches.
    #[inline(always)]
    pub(super) fn streamed<I: Simd>(self, isa: I) {
        let Self { from, to, bytes } = self;
        let ahead = (to.addr().wrapping_neg() % LINE).min(bytes);
        let end = ahead + (bytes - ahead) / LINE * LINE;
        // SAFETY: parts of the run. Only whole lines are streamed, which are aligned.
        unsafe {
            isa.copy(from, to, ahead);
            let mut at = ahead;
            while at < end {
                isa.stream(to.add(at), isa.load(from.add(at)));
                at += I::BYTES;
            }
            isa.copy(from.add(end), to.add(end), bytes - end);
        }
    }
}
