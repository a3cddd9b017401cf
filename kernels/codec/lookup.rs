//! From 8 bits or fewer to anything: a table of 256 elements, from the scalar reference. So the rounding,
//! overflow and NaN rules are data here, and right by construction.
//!
//! The table is kept as planes: first the lowest byte of every element, then the next, in the order of
//! significance.

use super::super::isa::Isa;
use super::{Codec, Job, registers};
use crate::dtype::DType;
use crate::kernels::scalar;
use crate::options::Policy;

/// The largest table.
pub(in crate::kernels) const BYTES: usize = 256 * 8;

/// Fills the planes of a table.
pub(in crate::kernels) fn fill(from: DType, to: DType, policy: &Policy, table: &mut [u8; BYTES]) {
    let width = (to.bits() as usize).div_ceil(8);
    let mask = 0xFF >> 8u32.saturating_sub(from.bits());
    for index in 0..256 {
        let value = scalar::decode(from, index as u64 & mask);
        let code = scalar::encode(to, value, policy).to_le_bytes();
        for plane in 0..width {
            table[plane * 256 + index] = code[plane];
        }
    }
}

/// To elements of `WIDTH` bytes.
pub(in crate::kernels) struct Lookup<const WIDTH: usize>;

impl<I: Isa, const WIDTH: usize> Codec<I> for Lookup<WIDTH> {
    const SRC: usize = 1;
    const DST: usize = WIDTH;
    type Setup = *const u8;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> *const u8 {
        job.table
    }

    #[inline(always)]
    unsafe fn block(&table: &*const u8, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise, and its table has `WIDTH` planes.
        unsafe {
            let index = I::load(src);
            if WIDTH == 1 {
                return I::store(dst, plane::<I>(table, 0, index));
            }
            let low = words::<I>(table, 0, index);
            if WIDTH == 2 {
                I::store(dst, low[0]);
                return I::store(dst.add(I::BYTES), low[1]);
            }
            let high = words::<I>(table, 2, index);
            let dwords = registers!(2, H => I::zip16(low[H], high[H]));
            if WIDTH == 4 {
                for k in 0..4 {
                    I::store(dst.add(k * I::BYTES), dwords[k / 2][k % 2]);
                }
                return;
            }
            let (low, high) = (words::<I>(table, 4, index), words::<I>(table, 6, index));
            let upper = registers!(2, H => I::zip16(low[H], high[H]));
            let qwords = registers!(4, K => I::zip32(dwords[K / 2][K % 2], upper[K / 2][K % 2]));
            for k in 0..8 {
                I::store(dst.add(k * I::BYTES), qwords[k / 2][k % 2]);
            }
        }
    }
}

/// # Safety
/// As for the operations of [`Isa`]; the table has the plane.
#[inline(always)]
unsafe fn plane<I: Isa>(table: *const u8, plane: usize, index: I::V) -> I::V {
    // SAFETY: the caller's promise.
    unsafe { I::lookup(&I::table(table.add(256 * plane)), index) }
}

/// Two planes, zipped.
///
/// # Safety
/// As for the operations of [`Isa`]; the table has both planes.
#[inline(always)]
unsafe fn words<I: Isa>(table: *const u8, first: usize, index: I::V) -> [I::V; 2] {
    // SAFETY: the caller's promise.
    unsafe { I::zip8(plane::<I>(table, first, index), plane::<I>(table, first + 1, index)) }
}
