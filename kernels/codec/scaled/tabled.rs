//! Casts codes by a table of 128 words.

use super::super::Codec;
use super::super::job::{Job, Table};
use super::super::source::Input;
use super::super::width::{Bits, Width, registers};
use super::arrays::delta;
use super::under::{Reads, Scaled, Under};
use crate::kernels::scaled::operands::Scale;
use crate::kernels::simd::{NarrowsByWords, Simd};

/// Elements of `BITS` bits with a [`Table128`](crate::kernels::scaled::operands::Table128) for each group, or one for all.
pub(in crate::kernels) struct With128<const BITS: usize>;

impl<const BITS: usize> Reads for With128<BITS>
where
    Bits<BITS>: Width,
{
    type Width = Bits<BITS>;
    /// The low bytes of the table, and the high ones.
    type Loaded<I: Simd> = [[I::V; 2]; 2];

    #[inline(always)]
    fn loaded<I: Simd>(isa: I, _: &Table) -> [[I::V; 2]; 2] {
        [[isa.splat32(0); 2]; 2]
    }

    #[inline(always)]
    fn begin<I: Simd>(isa: I, loaded: &mut [[I::V; 2]; 2], scale: &Scale, is_kept: bool) {
        if !is_kept || scale.at & ((1 << scale.tables_shift) - 1) == 0 {
            // SAFETY: whoever makes a scale promises that there are tables for all blocks, which the loop counts. Registers
            // have 64 bytes where this is called.
            unsafe {
                let table = scale.tables.add(scale.at >> scale.tables_shift).cast::<u8>();
                *loaded = registers!(2, P => registers!(2, K => isa.load(table.add(128 * P + K * I::BYTES))));
            }
        }
    }
}

/// Codes of `BITS` bits, by a table of 128 words for each group. With `ADDS`, there is one table of bfloat16 for all groups,
/// and what a group has is added to the exponents of its words. (The top bit of a code of 8 bits flips the sign of the word.)
pub(in crate::kernels) struct Tabled<const BITS: usize, const ADDS: bool>;

impl<I: NarrowsByWords, const BITS: usize, const ADDS: bool> Codec<I> for Tabled<BITS, ADDS>
where
    Bits<BITS>: Width<Block<I> = I::V>,
{
    type From = Scaled<With128<BITS>>;
    type To = Bits<16>;
    const FLOATS: bool = false;
    type Setup = ();

    #[inline(always)]
    fn setup(_: I, _: &Job) {}

    #[inline(always)]
    fn block(
        isa: I,
        _: &(),
        Input { block, loaded: Under { loaded, scale } }: Input<I, Self::From>,
    ) -> [I::V; 2] {
        let index = isa.before_zips::<2>(block);
        let (low, mut high) = (isa.lookup_two(loaded[0], index), isa.lookup_two(loaded[1], index));
        if BITS == 8 {
            high = isa.xor(high, isa.and(index, isa.splat8(0x80)));
        }
        let mut words = isa.zip_pieces::<1>(low, high);
        if ADDS {
            words = registers!(2, K => {
                let delta = isa.splat32(delta(&scale, K * I::BYTES / 2));
                isa.add_exponents16(words[K], delta, BITS < 8)
            });
        }
        words
    }
}
