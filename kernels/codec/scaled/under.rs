//! Sources under scales: how they are read, and what is loaded for them.

use core::marker::PhantomData;

use super::super::job::Table;
use super::super::source::Source;
use super::super::width::{Bits, Width, registers};
use crate::kernels::scaled::operands::Scale;
use crate::kernels::simd::{NarrowsByF16, Simd};

/// Elements under scales; `R` says how they are read.
pub(in crate::kernels) struct Scaled<R>(PhantomData<R>);

/// How elements under scales are read.
pub(in crate::kernels) trait Reads {
    type Width: Width;
    const FLOATS: bool = false;
    /// What is loaded of tables: of that of the job, and of those of groups.
    type Loaded<I: Simd>: Copy;

    /// Loads what is needed of the job's table, and leaves room for the tables of groups.
    fn loaded<I: Simd>(isa: I, table: &Table) -> Self::Loaded<I>;

    /// Loads what is needed for a group, if one begins with the next block, or if nothing has been loaded for this row yet.
    /// `is_kept` says whether something has.
    #[inline(always)]
    fn begin<I: Simd>(_: I, _: &mut Self::Loaded<I>, _: &Scale, _is_kept: bool) {}
}

/// What the source `S` reads, with the arithmetic `A`.
pub(in crate::kernels) struct Of<S, A>(PhantomData<(S, A)>);

impl<S: Source, A> Reads for Of<S, A> {
    type Width = S::Width;
    const FLOATS: bool = true;
    type Loaded<I: Simd> = S::Loaded<I>;

    #[inline(always)]
    fn loaded<I: Simd>(isa: I, table: &Table) -> S::Loaded<I> {
        S::loaded(isa, table)
    }
}

/// Elements of `BITS` bits, for codecs that themselves look up what they need.
impl<const BITS: usize> Reads for Bits<BITS>
where
    Self: Width,
{
    type Width = Self;
    type Loaded<I: Simd> = ();

    #[inline(always)]
    fn loaded<I: Simd>(_: I, _: &Table) {}
}

/// What is loaded of tables for a source, and the scales of a block.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Under<L> {
    pub(in crate::kernels) loaded: L,
    pub(in crate::kernels) scale: Scale,
}

impl<R: Reads> Source for Scaled<R> {
    type Width = R::Width;
    const FLOATS: bool = R::FLOATS;
    type Loaded<I: Simd> = Under<R::Loaded<I>>;

    #[inline(always)]
    fn loaded<I: Simd>(isa: I, table: &Table) -> Self::Loaded<I> {
        Under { loaded: R::loaded(isa, table), scale: Scale::NONE }
    }
}

/// Elements of 16 bits. If `loses`, -0 becomes 0.
#[inline(always)]
pub(super) fn without_sign_of_zero<I: NarrowsByF16>(isa: I, loses: bool, x: [I::V; 2]) -> [I::V; 2] {
    if !loses {
        return x;
    }
    // Doubled, only 0 and -0 are 0.
    registers!(2, K => {
        let magnitude = isa.add16(x[K], x[K]);
        isa.select_above16(magnitude, isa.splat16(0), x[K], isa.splat16(0))
    })
}
