//! Bits of many elements.

use crate::kernels::check::{Bits, Verdict};

impl Verdict {
    pub(super) fn new(lost: Bits, inexact: Bits) -> Self {
        Self { lost, inexact, losses: count_ones(&lost), inexacts: count_ones(&inexact) }
    }
}

/// The indices of what has a bit.
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

pub(super) fn first_one(bits: &Bits) -> Option<usize> {
    let word = bits.iter().position(|word| *word != 0)?;
    Some(64 * word + bits[word].trailing_zeros() as usize)
}

pub(super) fn count_ones(bits: &Bits) -> usize {
    bits.iter().map(|word| word.count_ones() as usize).sum()
}

/// Of pairs of bits, one each: the bits with even numbers.
pub(super) fn even(bits: &Bits) -> Bits {
    let half = |word: u64| {
        let mut word = word & 0x5555_5555_5555_5555;
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

/// The bits that have a bit in a word of each.
pub(super) fn zip(a: &Bits, b: &Bits, of: impl Fn(u64, u64) -> u64) -> Bits {
    let mut out = *a;
    for (a, b) in out.iter_mut().zip(b) {
        *a = of(*a, *b);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_pairs() {
        let mut bits = Bits::default();
        (bits[0], bits[1], bits[3]) = (0b1110_0110, 1 << 62 | 1, 1 << 63 | 1 << 62);
        assert_eq!(ones(&bits).collect::<Vec<_>>(), [1, 2, 5, 6, 7, 64, 126, 254, 255]);
        assert_eq!(count_ones(&bits), 9);
        assert_eq!(ones(&even(&bits)).collect::<Vec<_>>(), [1, 3, 32, 63, 127]);
    }
}
