//! The arithmetic of casts in registers, written once for all instruction sets.
//!
//! A [`Codec`] turns one block of a source into one block of a destination. Options are data to it: its [`Setup`](Codec::Setup) is some
//! registers, computed once per call from the format constants and the policy. The widths of a codec say whether codes of fewer than
//! 8 bits are packed in memory or one per byte; wider codes are in native byte order.
//!
//! `float.rs`, `integer.rs` and `narrow.rs` have the codecs, by target; `lookup.rs` and `plane.rs` those that look elements up in
//! tables. `source.rs` says how elements are read; `width.rs` has widths, loads and stores; `job.rs` the parameters of a kernel.
//! `ways.rs` chooses which codecs a route takes. `scaled/` has what differs under scales.

#![allow(
    clippy::needless_range_loop,
    reason = "kernels have no iterator adapters: those are not always inlined"
)]

pub(super) mod float;
pub(super) mod integer;
pub(super) mod job;
pub(super) mod lookup;
pub(super) mod narrow;
pub(super) mod plane;
#[cfg(feature = "scaled")]
pub(super) mod scaled;
pub(super) mod source;
pub(super) mod ways;
pub(super) mod width;

use self::job::Job;
use self::source::{Input, Source};
use self::width::{Bits, Code, Width};
use super::simd::Simd;

/// The registers of a block of elements of width `W`.
pub(super) type Block<I, W> = <W as Width>::Block<I>;

/// Turns a block of elements into a block of others.
pub(super) trait Codec<I: Simd>: Sized {
    type From: Source;
    type To: Width;
    /// Whether some operation depends on the floating-point environment, or may raise a flag there. (`tests/environment.rs`
    /// finds codecs that say no, but do.)
    const FLOATS: bool;
    /// Whether the results are the same if subnormal numbers are flushed to zero. If so, they are flushed, because some
    /// processors take many times as long for them.
    const FLUSHES: bool = false;
    type Setup: Copy;

    /// Returns the setup for a job. If the codec is not for the dtypes of the job, results are arbitrary.
    fn setup(isa: I, job: &Job) -> Self::Setup;
    fn block(isa: I, setup: &Self::Setup, src: Input<I, Self::From>) -> Block<I, Self::To>;

    /// Writes `made`, the results of the block at `src`, to `dst`. Called by the loop under scales alone: all others store `made`.
    /// `high`: whether packed elements begin at the high end of a byte, on either side.
    ///
    /// # Safety
    /// A block is readable from `src` on and writable from `dst` on. What the source has loaded of tables is right for that block.
    #[inline(always)]
    unsafe fn write(
        isa: I,
        _loaded: &<Self::From as Source>::Loaded<I>,
        made: Block<I, Self::To>,
        _src: *const u8,
        dst: *mut u8,
        high: [bool; 2],
    ) {
        // SAFETY: the caller's promise.
        unsafe { Self::To::store(isa, made, dst, high[1]) };
    }
}

/// Reverses the bytes of codes of `BITS` bits.
pub(super) struct Swapped<const BITS: usize>;

impl<I: Simd, const BITS: usize> Codec<I> for Swapped<BITS>
where
    Bits<BITS>: Code,
{
    type From = Bits<BITS>;
    type To = Bits<BITS>;
    const FLOATS: bool = false;
    type Setup = ();

    #[inline(always)]
    fn setup(_: I, _: &Job) {}

    #[inline(always)]
    fn block(isa: I, _: &(), src: Input<I, Bits<BITS>>) -> Block<I, Bits<BITS>> {
        Bits::<BITS>::swapped(isa, src.block)
    }
}

/// Packs or unpacks codes of fewer than 8 bits: from `SRC` bits in memory to `DST` bits, one of which is 8. In bytes, the bits
/// above a code are ignored, or written as 0. A single bit that is set becomes the job's code of 1.
pub(super) struct Repacked<const SRC: usize, const DST: usize>;

impl<I: Simd, const SRC: usize, const DST: usize> Codec<I> for Repacked<SRC, DST>
where
    Bits<SRC>: Width<Block<I> = I::V>,
    Bits<DST>: Code,
{
    type From = Bits<SRC>;
    type To = Bits<DST>;
    const FLOATS: bool = false;
    type Setup = I::V;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> I::V {
        isa.splat8(job.code_mask)
    }

    #[inline(always)]
    fn block(isa: I, &mask: &I::V, src: Input<I, Bits<SRC>>) -> Block<I, Bits<DST>> {
        let code = if SRC == 1 {
            let bit = isa.and(src.block, isa.splat8(1));
            isa.and(isa.sub8(isa.splat8(0), bit), mask)
        } else {
            isa.and(src.block, mask)
        };
        Bits::<DST>::of8::<I, false>(isa, code)
    }
}
