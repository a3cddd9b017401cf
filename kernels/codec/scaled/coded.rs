//! Casts codes of 4 bits by a table for each code of a scale.

use super::super::Codec;
use super::super::job::Job;
use super::super::source::Input;
use super::super::width::Bits;
use super::arrays::tables;
use super::under::{Scaled, Under};
use crate::kernels::simd::NarrowsByF16;

/// Codes of 4 bits under scales of 8 bits. Each code of a scale has a table of 16 words, in which the codes of its groups pick theirs.
pub(in crate::kernels) struct Coded;

impl<I: NarrowsByF16> Codec<I> for Coded {
    type From = Scaled<Bits<4>>;
    type To = Bits<16>;
    const FLOATS: bool = false;
    type Setup = ();

    #[inline(always)]
    fn setup(_: I, _: &Job) {}

    /// Makes nothing: [`Codec::write`] reads and writes the elements at once.
    #[inline(always)]
    fn block(isa: I, _: &(), _: Input<I, Self::From>) -> [I::V; 2] {
        [isa.splat8(0); 2]
    }

    #[inline(always)]
    unsafe fn write(
        isa: I,
        Under { scale, .. }: &Under<()>,
        _: [I::V; 2],
        src: *const u8,
        dst: *mut u8,
        [high, _]: [bool; 2],
    ) {
        // SAFETY: the caller's promise.
        unsafe { isa.pick_from(tables(scale), src, high, dst) };
    }
}
