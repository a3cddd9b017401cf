//! Loads codes from memory to tiles and stores them: widths, byte orders, packing. This module knows nothing of values.

use core::mem::MaybeUninit;

use crate::formats::layout::Packing;
use crate::formats::route::Layout;

/// How many rows there are, and how many bytes apart they are on both sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    pub(super) rows: usize,
    pub(super) src: isize,
    pub(super) dst: isize,
}

impl Apart {
    pub(super) const ONE: Self = Self { rows: 1, src: 0, dst: 0 };
}

/// Reads the codes of part `part` of consecutive elements. Packed elements begin with a byte.
#[inline(never)]
pub(crate) fn load(layout: &Layout, src: &[u8], part: usize, codes: &mut [u64]) {
    match (layout.bits, layout.packing) {
        (8, _) => load_words::<1>(layout, src, part, codes),
        (16, _) => load_words::<2>(layout, src, part, codes),
        (32, _) => load_words::<4>(layout, src, part, codes),
        (64, _) => load_words::<8>(layout, src, part, codes),
        (bits, Packing::OnePerByte) => {
            load_words::<1>(layout, src, part, codes);
            for code in &mut *codes {
                *code &= (1 << bits) - 1;
            }
        }
        (bits, packing) => load_stream(bits as usize, packing, src, codes),
    }
    if layout.swapped {
        codes.iter_mut().for_each(|code| *code = code.swap_bytes() >> (64 - layout.bits));
    }
}

/// Writes the codes of consecutive elements, in the form in which [`load`] reads them. A part that is not written stays as it
/// is; the pad bits of a last, partial byte become zero.
#[inline(never)]
pub(crate) fn store(layout: &Layout, dst: &mut [MaybeUninit<u8>], part: usize, codes: &[u64]) {
    match (layout.bits, layout.packing) {
        (8, _) | (_, Packing::OnePerByte) if layout.bits <= 8 => store_words::<1>(layout, dst, part, codes),
        (16, _) => store_words::<2>(layout, dst, part, codes),
        (32, _) => store_words::<4>(layout, dst, part, codes),
        (64, _) => store_words::<8>(layout, dst, part, codes),
        (bits, packing) => store_stream(bits as usize, packing, dst, codes),
    }
}

/// Loads words of `WIDTH` bytes in native order, one of every `layout.parts`. (By index: with iterators that skip and slices
/// that are copied, the reference takes 1.5 to 1.8 times as long where those are not inlined, as in tests.)
#[inline(always)]
fn load_words<const WIDTH: usize>(layout: &Layout, src: &[u8], part: usize, codes: &mut [u64]) {
    let (words, _) = src.as_chunks::<WIDTH>();
    let mut at = part;
    for code in codes {
        let (Some(word), mut bytes) = (words.get(at), [0; 8]) else { return };
        if let Some(place) = bytes[low(WIDTH)..].first_chunk_mut() {
            *place = *word;
        }
        *code = u64::from_ne_bytes(bytes);
        at += layout.parts;
    }
}

/// Stores words in the byte order of the layout.
#[inline(always)]
fn store_words<const WIDTH: usize>(layout: &Layout, dst: &mut [MaybeUninit<u8>], part: usize, codes: &[u64]) {
    let (words, _) = dst.as_chunks_mut::<WIDTH>();
    let mut at = part;
    for code in codes {
        let (Some(word), bytes) = (words.get_mut(at), code.to_ne_bytes()) else { return };
        let mut i = 0;
        while i < WIDTH {
            word[i].write(bytes[low(WIDTH) + i]);
            i += 1;
        }
        if layout.swapped {
            word.reverse();
        }
        at += layout.parts;
    }
}

/// Where the `width` low bytes of a u64 start in memory.
#[inline(always)]
const fn low(width: usize) -> usize {
    if cfg!(target_endian = "big") { 8 - width } else { 0 }
}

/// Eight elements of `bits` bits fill `bits` bytes: the unit of both streams.
const EIGHT: usize = 8;

fn load_stream(bits: usize, packing: Packing, src: &[u8], codes: &mut [u64]) {
    for (group, packed) in codes.chunks_mut(EIGHT).zip(src.chunks(bits)) {
        let mut bytes = [0u8; 8];
        bytes[..packed.len()].copy_from_slice(packed);
        let word = match packing {
            Packing::HighFirst => u64::from_be_bytes(bytes),
            _ => u64::from_le_bytes(bytes),
        };
        for (k, code) in group.iter_mut().enumerate() {
            *code = (word >> shift(bits, packing, k)) & ((1 << bits) - 1);
        }
    }
}

fn store_stream(bits: usize, packing: Packing, dst: &mut [MaybeUninit<u8>], codes: &[u64]) {
    for (group, packed) in codes.chunks(EIGHT).zip(dst.chunks_mut(bits)) {
        let mut word = 0;
        for (k, &code) in group.iter().enumerate() {
            word |= code << shift(bits, packing, k);
        }
        let bytes = match packing {
            Packing::HighFirst => u64::to_be_bytes(word),
            _ => u64::to_le_bytes(word),
        };
        packed.write_copy_of_slice(&bytes[..packed.len()]);
    }
}

/// Where element `k` of a group lies in the 64-bit word that starts with the bytes of the group.
#[inline(always)]
fn shift(bits: usize, packing: Packing, k: usize) -> usize {
    match packing {
        Packing::HighFirst => 64 - bits * (k + 1),
        _ => bits * k,
    }
}
