//! Sets of elements as bits, and zeros for the elements of a set.

use crate::formats::layout::Packing;
use crate::formats::route::Layout;
use crate::kernels::check::{Bits, MAX_CODES, Verdict};

impl Verdict {
    pub(super) fn new(lost: Bits, inexact: Bits) -> Self {
        Self { lost, inexact, losses: count_ones(&lost), inexacts: count_ones(&inexact) }
    }
}

/// Returns the indices of the bits that are set.
pub(super) fn ones(bits: &Bits) -> impl Iterator<Item = usize> {
    bits.iter().enumerate().flat_map(|(i, word)| {
        let mut left = *word;
        core::iter::from_fn(move || {
            let bit = (left != 0).then(|| 64 * i + left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            bit
        })
    })
}

/// Calls `f` with the indices of the bits that are set, in order, some at a time. A loop over the bits of each word, like that
/// of [`ones`], cannot be predicted by the CPU, because words differ in how many bits they have. Here words with any bits are
/// collected first, and then two indices at a time are written for each, whether two bits are left or one.
#[inline(never)] // To save code size.
pub(crate) fn each_some(words: &[u64], f: &mut dyn FnMut(&[u16])) {
    let mut with_any = [0u8; MAX_CODES / 64 + 1];
    let mut words_with_any = 0;
    for (i, &word) in words.iter().enumerate() {
        with_any[words_with_any] = i as u8;
        words_with_any += usize::from(word != 0);
    }
    // At most 64 indices are noted before a word, which adds up to 64, and up to two are written beyond.
    let mut noted = [0u16; 64 + 64 + 2];
    let mut n = 0;
    for &i in &with_any[..words_with_any] {
        let mut left = words[usize::from(i)];
        while left != 0 {
            for _ in 0..2 {
                // The top bit changes nothing while a bit is left, and saves a check for zero on CPUs that would need one.
                noted[n] = 64 * u16::from(i) + (left | 1 << 63).trailing_zeros() as u16;
                n += usize::from(left != 0);
                left &= left.wrapping_sub(1);
            }
        }
        if n > 64 {
            f(&noted[..n]);
            n = 0;
        }
    }
    if n > 0 {
        f(&noted[..n]);
    }
}

pub(super) fn first_one(bits: &Bits) -> Option<usize> {
    let word = bits.iter().position(|word| *word != 0)?;
    Some(64 * word + bits[word].trailing_zeros() as usize)
}

#[inline(never)] // To save code size, as below: a loop over so few words would be unrolled.
pub(super) fn count_ones(bits: &Bits) -> usize {
    bits.iter().map(|word| word.count_ones() as usize).sum()
}

/// Returns one bit for each pair of bits: whether either is set.
#[inline(never)]
pub(super) fn either(bits: &Bits) -> Bits {
    let half = |word: u64| {
        let mut word = (word | word >> 1) & 0x5555_5555_5555_5555;
        for (shift, mask) in [
            (1, 0x3333_3333_3333_3333),
            (2, 0x0F0F_0F0F_0F0F_0F0F),
            (4, 0x00FF_00FF_00FF_00FF),
            (8, 0x0000_FFFF_0000_FFFF),
            (16, 0x0000_0000_FFFF_FFFF),
        ] {
            word = (word | word >> shift) & mask;
        }
        word
    };
    let mut out = Bits::default();
    for (word, pair) in out.iter_mut().zip(bits.chunks_exact(2)) {
        *word = half(pair[0]) | half(pair[1]) << 32;
    }
    out
}

/// Returns the elements that are in either set.
#[inline(never)]
pub(super) fn or(a: &Bits, b: &Bits) -> Bits {
    let mut out = *a;
    out.iter_mut().zip(b).for_each(|(a, b)| *a |= *b);
    out
}

/// Returns the elements that are in the first set only.
#[inline(never)]
pub(super) fn without(a: &Bits, b: &Bits) -> Bits {
    let mut out = *a;
    out.iter_mut().zip(b).for_each(|(a, b)| *a &= !*b);
    out
}

/// Writes zeros for lost elements.
#[inline(never)] // To save code size.
pub(super) fn clear(layout: &Layout, dst: &mut [u8], lost: &Bits) {
    match (layout.size(8), layout.packing) {
        (8 | 16 | 32 | 64 | 128, _) => {
            let size = layout.size(8) / 8;
            each_some(&lost[..(dst.len() / size).div_ceil(64)], &mut |some| {
                // By width, so that the compiler knows the size of a store.
                match size {
                    1 => clear_each::<1>(dst, some),
                    2 => clear_each::<2>(dst, some),
                    4 => clear_each::<4>(dst, some),
                    8 => clear_each::<8>(dst, some),
                    _ => clear_each::<16>(dst, some),
                }
            });
        }
        (bits, packing) => {
            for bit in ones(lost).flat_map(|i| i * bits..(i + 1) * bits) {
                let in_byte = if packing == Packing::HighFirst { 7 - bit % 8 } else { bit % 8 };
                dst[bit / 8] &= !(1 << in_byte);
            }
        }
    }
}

/// Writes zeros for some elements of `SIZE` bytes.
fn clear_each<const SIZE: usize>(dst: &mut [u8], some: &[u16]) {
    let (elements, _) = dst.as_chunks_mut::<SIZE>();
    some.iter().for_each(|&i| elements[usize::from(i)] = [0; SIZE]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_pairs() {
        let mut bits = Bits::default();
        (bits[0], bits[1], bits[3]) = (0b1110_0110, 1 << 62 | 1, 1 << 63 | 1 << 62);
        assert_eq!(ones(&bits).collect::<Vec<_>>(), [1, 2, 5, 6, 7, 64, 126, 254, 255]);
        let mut each = Vec::new();
        each_some(&bits, &mut |some| each.extend(some.iter().map(|&i| usize::from(i))));
        assert_eq!(each, [1, 2, 5, 6, 7, 64, 126, 254, 255]);
        let words = [u64::MAX, 0, 1, u64::MAX >> 1, u64::MAX, 1 << 63 | 1 << 40];
        each.clear();
        each_some(&words, &mut |some| each.extend(some.iter().map(|&i| usize::from(i))));
        assert!(each.iter().copied().eq((0..384).filter(|i| words[i / 64] >> (i % 64) & 1 == 1)));
        assert_eq!(count_ones(&bits), 9);
        assert_eq!(ones(&either(&bits)).collect::<Vec<_>>(), [0, 1, 2, 3, 32, 63, 127]);
        let other = either(&bits);
        assert_eq!(
            ones(&or(&bits, &other)).collect::<Vec<_>>(),
            [0, 1, 2, 3, 5, 6, 7, 32, 63, 64, 126, 127, 254, 255]
        );
        assert_eq!(ones(&without(&bits, &other)).collect::<Vec<_>>(), [5, 6, 7, 64, 126, 254, 255]);
    }
}
