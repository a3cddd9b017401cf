//! Codes between memory and tiles: widths, byte order, packing. No values here.

use core::ptr;

use crate::formats::layout::Packing;
use crate::formats::route::Layout;

/// So many rows, so many bytes apart on either side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    pub(super) rows: usize,
    pub(super) src: isize,
    pub(super) dst: isize,
}

impl Apart {
    pub(super) const ONE: Self = Self { rows: 1, src: 0, dst: 0 };
}

/// Reads the codes of consecutive elements: of their first part, or of part `part`.
///
/// # Safety
/// The elements `first .. first + codes.len()` of `layout` are readable from `src` on.
/// If `layout` packs several elements in a byte, `first` is a multiple of 8.
pub(crate) unsafe fn load(layout: &Layout, src: *const u8, first: usize, part: usize, codes: &mut [u64]) {
    // SAFETY: the caller's promise, passed on; `width` is the size of one part, so part `part` of
    // element `first` starts where computed.
    unsafe {
        let width = layout.bits as usize / 8;
        let at = |width| src.add((first * layout.parts + part) * width);
        match (layout.bits, layout.packing) {
            (8, _) => load_words::<1>(layout, at(1), codes),
            (16, _) => load_words::<2>(layout, at(2), codes),
            (32, _) => load_words::<4>(layout, at(4), codes),
            (64, _) => load_words::<8>(layout, at(8), codes),
            (bits, Packing::OnePerByte) => {
                load_words::<1>(layout, at(1), codes);
                for code in codes {
                    *code &= (1 << bits) - 1;
                }
            }
            (bits, packing) => {
                debug_assert!(first.is_multiple_of(8) && width == 0);
                load_stream(bits, packing, src.add(first / 8 * bits as usize), codes);
            }
        }
    }
}

/// Writes the codes of consecutive elements, like [`load`] reads them. A part that is not written stays
/// as it is; the pad bits of a last, partial byte become zero.
///
/// # Safety
/// The elements `first .. first + codes.len()` of `layout` are writable from `dst` on.
/// If `layout` packs several elements in a byte, `first` is a multiple of 8, and so is the number of codes
/// unless they are the last.
pub(crate) unsafe fn store(layout: &Layout, dst: *mut u8, first: usize, part: usize, codes: &[u64]) {
    // SAFETY: as in `load`.
    unsafe {
        let at = |width| dst.add((first * layout.parts + part) * width);
        match (layout.bits, layout.packing) {
            (8, _) | (_, Packing::OnePerByte) if layout.bits <= 8 => store_words::<1>(layout, at(1), codes),
            (16, _) => store_words::<2>(layout, at(2), codes),
            (32, _) => store_words::<4>(layout, at(4), codes),
            (64, _) => store_words::<8>(layout, at(8), codes),
            (bits, packing) => store_stream(bits, packing, dst.add(first / 8 * bits as usize), codes),
        }
    }
}

/// # Safety
/// `codes.len()` words of `WIDTH` bytes, one every `layout.parts` words, are readable from `src` on.
#[inline(always)]
unsafe fn load_words<const WIDTH: usize>(layout: &Layout, src: *const u8, codes: &mut [u64]) {
    let (stride, swapped) = (layout.parts * WIDTH, layout.swapped);
    for (i, code) in codes.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        // SAFETY: word `i` is one of those the caller promises; `bytes` has room for it.
        unsafe { ptr::copy_nonoverlapping(src.add(i * stride), bytes.as_mut_ptr().add(low(WIDTH)), WIDTH) };
        let word = u64::from_ne_bytes(bytes);
        *code = if swapped { swap::<WIDTH>(word) } else { word };
    }
}

/// # Safety
/// `codes.len()` words of `WIDTH` bytes, one every `layout.parts` words, are writable from `dst` on.
#[inline(always)]
unsafe fn store_words<const WIDTH: usize>(layout: &Layout, dst: *mut u8, codes: &[u64]) {
    let (stride, swapped) = (layout.parts * WIDTH, layout.swapped);
    for (i, &code) in codes.iter().enumerate() {
        let bytes = if swapped { swap::<WIDTH>(code) } else { code }.to_ne_bytes();
        // SAFETY: word `i` is one of those the caller promises; `bytes` has all of it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().add(low(WIDTH)), dst.add(i * stride), WIDTH) };
    }
}

/// Where the `width` low bytes of a u64 start in memory.
#[inline(always)]
const fn low(width: usize) -> usize {
    if cfg!(target_endian = "big") { 8 - width } else { 0 }
}

/// The `WIDTH` low bytes reversed.
#[inline(always)]
const fn swap<const WIDTH: usize>(word: u64) -> u64 {
    word.swap_bytes() >> (64 - 8 * WIDTH)
}

/// Eight elements of `bits` bits fill `bits` bytes: the unit of both streams.
const GROUP: usize = 8;

/// # Safety
/// `ceil(codes.len() * bits / 8)` bytes are readable from `src` on.
unsafe fn load_stream(bits: u32, packing: Packing, src: *const u8, codes: &mut [u64]) {
    for (i, group) in codes.chunks_mut(GROUP).enumerate() {
        let used = (group.len() * bits as usize).div_ceil(8);
        let mut bytes = [0u8; 8];
        // SAFETY: group `i` starts `i * bits` bytes in, and its `used` bytes are among those promised.
        unsafe { ptr::copy_nonoverlapping(src.add(i * bits as usize), bytes.as_mut_ptr(), used) };
        let word = match packing {
            Packing::HighFirst => u64::from_be_bytes(bytes),
            _ => u64::from_le_bytes(bytes),
        };
        for (k, code) in group.iter_mut().enumerate() {
            *code = (word >> shift(bits, packing, k)) & ((1 << bits) - 1);
        }
    }
}

/// # Safety
/// `ceil(codes.len() * bits / 8)` bytes are writable from `dst` on.
unsafe fn store_stream(bits: u32, packing: Packing, dst: *mut u8, codes: &[u64]) {
    for (i, group) in codes.chunks(GROUP).enumerate() {
        let used = (group.len() * bits as usize).div_ceil(8);
        let mut word = 0;
        for (k, &code) in group.iter().enumerate() {
            word |= code << shift(bits, packing, k);
        }
        let bytes = match packing {
            Packing::HighFirst => u64::to_be_bytes(word),
            _ => u64::to_le_bytes(word),
        };
        // SAFETY: group `i` starts `i * bits` bytes in, and its `used` bytes are among those promised.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), dst.add(i * bits as usize), used) };
    }
}

/// Where element `k` of a group lies in the 64-bit word that starts with the group's bytes.
#[inline(always)]
fn shift(bits: u32, packing: Packing, k: usize) -> u32 {
    match packing {
        Packing::HighFirst => 64 - bits * (k as u32 + 1),
        _ => bits * k as u32,
    }
}
