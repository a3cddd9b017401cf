//! Random words for stochastic rounding: a function of a seed and the number of an element, so that no result depends on
//! the length, the chunks, the threads or the instruction set.

use super::dtype::{DType, Kind};

/// What determines the random words of a cast.
///
/// ```
/// use lanecast::{CastOptions, Stochastic};
/// let next = |words: Stochastic, elements: u64| words.first + elements;
/// let options = CastOptions::new().stochastic(7, 1000);
/// assert_eq!(options.stochastic.map(|words| (words.seed, next(words, 24))), Some((7, 1024)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stochastic {
    /// The seed, which makes the words of casts differ.
    pub seed: u64,
    /// The number of the first element. A caller that casts in pieces goes on counting with each.
    pub first: u64,
}

impl Stochastic {
    pub(crate) const fn new(seed: u64, first: u64) -> Self {
        Self { seed, first }
    }

    /// A placeholder for casts without stochastic rounding.
    pub(crate) const NONE: Self = Self { seed: 0, first: 0 };

    /// The random word of element `index` of the cast.
    pub(crate) const fn word(self, index: u64) -> u32 {
        self.key(index).word(self.first.wrapping_add(index) as u32)
    }

    /// The key of the words of element `index`, and of all elements whose numbers have the same upper half.
    pub(crate) const fn key(self, index: u64) -> Key {
        let number = self.first.wrapping_add(index);
        let key = mix64(mix64(self.seed) ^ (number >> 32));
        Key { low: key as u32, high: (key >> 32) as u32 }
    }

    /// The words of the elements from `index` on.
    pub(crate) const fn at(self, index: usize) -> Self {
        Self { first: self.first.wrapping_add(index as u64), ..self }
    }
}

/// What the words of 2^32 consecutive numbers, which have the same upper half, are made with.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    low: u32,
    high: u32,
}

impl Key {
    /// The word of the number with this lower half. It takes three multiplications of 32 bits: with two, words 4096 apart were correlated.
    #[inline(always)]
    pub(crate) const fn word(self, number: u32) -> u32 {
        let mut x = number ^ self.low;
        x ^= x >> 17;
        x = x.wrapping_mul(0xED5A_D4BB);
        x ^= x >> 11;
        x = x.wrapping_add(self.high);
        x = x.wrapping_mul(0xAC4C_1B51);
        x ^= x >> 15;
        x = x.wrapping_mul(0x3184_8BAB);
        x ^ (x >> 14)
    }
}

impl DType {
    /// Whether casts to this dtype are rounded stochastically under that option: floats of 16 bits or fewer except float8_e8m0fnu.
    pub(crate) const fn rounds_stochastically(self) -> bool {
        match self.kind() {
            Kind::Float(format) => format.has_zero() && format.bits() <= 16,
            _ => false,
        }
    }
}

/// The finalizer of SplitMix64.
const fn mix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::Stochastic;

    fn word(seed: u64, n: u64) -> u32 {
        Stochastic::new(seed, n).word(0)
    }

    #[test]
    fn words_are_those_of_the_contract() {
        assert_eq!(word(0, 0), 0x9F3B_5C47);
        assert_eq!(word(1, 2), 0x2E5E_BE3B);
        assert_eq!(word(u64::MAX, 1 << 32), 0x2383_0FED);
        let rows = include_str!("../../tests/fixtures/scaled.tsv");
        let mut n = 0;
        for row in rows.lines().filter_map(|row| row.strip_prefix("word\t-\t-\t")) {
            let [seed, index, expected]: [u64; 3] =
                row.split('\t').map(|x| x.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap();
            assert_eq!(u64::from(word(seed, index)), expected, "{row}");
            n += 1;
        }
        assert!(n >= 50, "{n} rows");
    }
}
