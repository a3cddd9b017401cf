//! How kernels read the arrays of a scale.

use super::super::width::registers;
use crate::kernels::scaled::operands::{LEAST_GROUP, Scale};
use crate::kernels::simd::Simd;

/// The numbers for the elements of a block, from an array of a scale.
#[inline(always)]
pub(super) fn numbers<I: Simd>(isa: I, scale: &Scale, array: *const f32) -> [I::V; 4] {
    // SAFETY: whoever makes a scale promises that its arrays have a number for every element of the blocks, which the loop
    // counts. A group has at least as many elements as a register has lanes.
    unsafe {
        if scale.shift == Scale::EACH {
            let first = array.add(scale.at).cast::<u8>();
            return registers!(4, K => isa.load(first.add(K * I::BYTES)));
        }
        let splat = |at: usize| isa.splat32(array.add(at >> scale.shift).cast::<u32>().read());
        if scale.shift >= const { I::BYTES.trailing_zeros() } {
            // Blocks begin at multiples of their size, or all elements have the same number.
            return [splat(scale.at); 4];
        }
        registers!(4, K => splat(scale.at + K * I::BYTES / 4))
    }
}

/// The [`deltas`](Scale::deltas) of the element that lies `behind` elements after the first one of a block.
#[inline(always)]
pub(super) fn delta(scale: &Scale, behind: usize) -> u32 {
    // SAFETY: whoever makes a scale promises that its arrays have what all blocks need, which the loop counts.
    unsafe { scale.deltas.add((scale.at + behind) >> scale.shift).read() }
}

/// The tables for the groups of 16 elements of a block, found by the codes of their scales.
#[inline(always)]
pub(super) fn tables(scale: &Scale) -> [&[[u8; 16]; 2]; 4] {
    // SAFETY: whoever makes a scale promises that its arrays have what all blocks need, which the loop counts, and that there
    // are tables of all codes.
    unsafe {
        let places = scale.places.add(scale.at / LEAST_GROUP);
        registers!(4, K => &*places.add(K).read().among(scale.sixteens))
    }
}
