//! What happens to the elements in registers, once for every instruction set.
//!
//! A [`Codec`] turns one block of a source into one block of a destination. Options are data to it: a
//! [`Setup`](Codec::Setup) of registers, computed once per call from the format constants and the policy.
//! Codes of fewer than 8 bits are packed in memory or one per byte, as a codec's widths say; wider ones are native.

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

/// A block of registers of an instruction set, and what is made of it.
pub(super) type Block<I, W> = <W as Width>::Block<I>;

/// What turns a block of elements into another.
pub(super) trait Codec<I: Simd>: Sized {
    type From: Source;
    type To: Width;
    /// Some operation depends on the floating-point environment, or may raise a flag there: `tests/environment.rs` finds one of which that
    /// is not said.
    const FLOATS: bool;
    /// What is so small that some operation makes or reads a subnormal number becomes zero anyway: the result is the same where
    /// those are flushed, and processors that take many times as long for them do not.
    const FLUSHES: bool = false;
    type Setup: Copy;

    /// Of a job of dtypes that the codec is for; of another, the results mean nothing.
    fn setup(isa: I, job: &Job) -> Self::Setup;
    fn block(isa: I, setup: &Self::Setup, src: Input<I, Self::From>) -> Block<I, Self::To>;

    /// Writes what was made of a block, which begins at `src`. `high`: packed elements there, and here, begin at the high end of
    /// a byte.
    ///
    /// # Safety
    /// A block is readable, and one is writable.
    #[inline(always)]
    unsafe fn write(isa: I, made: Block<I, Self::To>, _src: *const u8, dst: *mut u8, high: [bool; 2]) {
        // SAFETY: the caller's promise.
        unsafe { Self::To::store(isa, made, dst, high[1]) };
    }
}

/// Codes of `BITS` bits, their bytes in the other order.
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

/// Codes of fewer than 8 bits that are kept: from `SRC` bits in memory to `DST`, of which one is 8. There, the bits above
/// are ignored, and become 0. Single bits become what the job says that 1 is.
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
