//! Finds the codes that lie in one of some ranges.

use core::marker::PhantomData;

use super::super::simd::{Simd, Task};
use super::found::{Bits, CodeRange, Codes, MAX_CODES};
use super::judge::BlockRoom;
use super::lanes::{Among, Ordered, SINGLES, Singles, Sought, Wide8, Wide16, Wide32, Wide64};

pub(super) fn find<I: Simd>(isa: I, codes: Codes<'_>, ranges: &[CodeRange], bits: &mut Bits) -> usize {
    let Codes { bytes, width } = codes;
    assert!(bytes.len() / width <= MAX_CODES && matches!(width, 1 | 2 | 4 | 8));
    // Single codes of 64 bits are searched for as ranges are.
    let is_single = |range: &&CodeRange| width < 8 && range.is_single(width);
    let (singles, others) = ranges.split_at(ranges.iter().take_while(is_single).count());
    let mut found = 0;
    for ranges in singles.chunks(SINGLES).chain(others.chunks(RANGES)) {
        found += match width {
            1 => isa.run(Find::<Wide8>(bytes, ranges, bits, PhantomData)),
            2 => isa.run(Find::<Wide16>(bytes, ranges, bits, PhantomData)),
            4 => isa.run(Find::<Wide32>(bytes, ranges, bits, PhantomData)),
            _ => isa.run(Find::<Wide64>(bytes, ranges, bits, PhantomData)),
        };
    }
    found
}

/// The number of ranges that are searched for in one pass: as many as registers hold.
const RANGES: usize = 4;

struct Find<'a, L>(&'a [u8], &'a [CodeRange], &'a mut Bits, PhantomData<L>);

impl<I: Simd, L: Ordered<I>> Task<I> for Find<'_, L> {
    type Output = usize;

    #[inline(always)]
    fn call(self, isa: I) -> usize {
        let Self(codes, ranges, bits, _) = self;
        match L::Singles::new(isa, ranges) {
            Some(singles) => each_block::<I, L, _>(isa, codes, &singles, bits),
            None => each_block::<I, L, _>(isa, codes, &Ranges::<I, L>::new(isa, ranges), bits),
        }
    }
}

/// Ranges of any width.
struct Ranges<I: Simd, L> {
    sought: [Sought<I>; RANGES],
    n: usize,
    lanes: PhantomData<L>,
}

impl<I: Simd, L: Ordered<I>> Ranges<I, L> {
    #[inline(always)]
    fn new(isa: I, ranges: &[CodeRange]) -> Self {
        let none = Sought::new::<L>(isa, &CodeRange { mask: 0, low: 1, high: 1 });
        let mut all = Self { sought: [none; RANGES], n: ranges.len(), lanes: PhantomData };
        for (sought, range) in all.sought.iter_mut().zip(ranges) {
            *sought = Sought::new::<L>(isa, range);
        }
        all
    }
}

impl<I: Simd, L: Ordered<I>> Among<I> for Ranges<I, L> {
    #[inline(always)]
    fn others(&self, isa: I, codes: [I::V; 8]) -> u64 {
        let mut others = [isa.splat64(u64::MAX); 8];
        for range in self.sought.iter().take(self.n) {
            for k in 0..L::BYTES {
                others[k] = range.where_not::<L>(isa, codes[k], others[k]);
            }
        }
        L::bits(isa, others)
    }
}

#[inline(always)]
fn each_block<I: Simd, L: Ordered<I>, A: Among<I>>(
    isa: I,
    mut codes: &[u8],
    among: &A,
    bits: &mut Bits,
) -> usize {
    let mut room = BlockRoom([0; 8 * 64]);
    let (mut at, mut count) = (0, 0);
    while !codes.is_empty() {
        // Less than a whole block is copied to the room.
        let (some, mut block);
        match codes.split_at_checked(L::BYTES * I::BYTES) {
            Some((whole, left)) => (some, block, codes) = (I::BYTES, whole, left),
            None => {
                isa.fill(&mut room.0, codes);
                (some, block, codes) = (codes.len() / L::BYTES, &room.0, &[]);
            }
        }
        let mut lanes = [isa.splat64(0); 8];
        for lane in lanes.iter_mut().take(L::BYTES) {
            if let Some(codes) = isa.load_next(&mut block) {
                *lane = codes;
            }
        }
        let found = !among.others(isa, lanes) & (u64::MAX >> (64 - some));
        if let Some(word) = bits.get_mut(at / 64) {
            *word |= found << (at % 64);
        }
        count += found.count_ones() as usize;
        at += I::BYTES;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::{Bits, CodeRange, Codes, Loops, MAX_CODES};
    use crate::formats::isa::Isa;
    use crate::kernels::backend::Backend;

    /// Every instruction set finds, among codes of every width, those that lie in the ranges.
    #[test]
    fn as_ranges_say() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31) ^ 0xBF58_476D_1CE4_E5B9;
            state
        };
        for loops in Isa::available().iter().filter_map(|&isa| Loops::of(Backend::present(isa)?)) {
            let mut found = [0; 2];
            for (width, n) in [1, 2, 4, 8].into_iter().flat_map(|width| {
                [0, 1, 15, 16, 17, 31, 63, 64, 65, 127, 128, 200, MAX_CODES - 1, MAX_CODES]
                    .map(|n| (width, n))
            }) {
                let all = u64::MAX >> (64 - 8 * width);
                // Few values, so that some are found: about 0, about the sign bit, and about all ones.
                let codes: Vec<u64> = (0..n)
                    .map(|_| (random() % 9).wrapping_sub(4) ^ ((random() & 1) * (all / 2 + 1)))
                    .collect();
                let bytes: Vec<u8> = codes.iter().flat_map(|code| native(*code, width)).collect();
                let [one, other] = [random() % 9, random() % 9].map(|code| code.wrapping_sub(4) & all);
                let sets = [
                    vec![],
                    vec![CodeRange { mask: all, low: one, high: one }],
                    vec![
                        CodeRange { mask: all / 2, low: 0, high: 0 },
                        CodeRange { mask: all, low: other, high: other },
                    ],
                    vec![CodeRange { mask: all / 2, low: all / 2 - 2, high: all / 2 }],
                    vec![CodeRange { mask: all, low: 1, high: all - 1 }],
                    [one, other, one].map(|code| CodeRange { mask: all, low: code, high: code }).to_vec(),
                    (0..5).map(|code| CodeRange { mask: all, low: code, high: code }).collect(),
                    vec![
                        CodeRange { mask: all, low: all, high: all },
                        CodeRange { mask: all, low: one, high: one },
                        CodeRange { mask: all, low: all / 2, high: all / 2 + 2 },
                    ],
                    vec![CodeRange { mask: all, low: 0, high: all }],
                ];
                for ranges in sets {
                    let mut bits = Bits::default();
                    let count = loops.find(Codes { bytes: &bytes, width }, &ranges, &mut bits);
                    assert_eq!(count, bits.iter().map(|word| word.count_ones() as usize).sum());
                    for i in 0..MAX_CODES {
                        let is_found = bits[i / 64] >> (i % 64) & 1 == 1;
                        let expected = i < n && ranges.iter().any(|range| range.has(codes[i] & all));
                        assert_eq!(is_found, expected, "{loops:?}: {i} of {n}, {width} bytes, {ranges:?}");
                        found[usize::from(is_found)] += 1;
                    }
                }
            }
            assert!(found[0] > 1000 && found[1] > 1000, "{loops:?}: {found:?}");
        }
    }

    fn native(code: u64, width: usize) -> Vec<u8> {
        let all = code.to_ne_bytes();
        if cfg!(target_endian = "big") { all[8 - width..].to_vec() } else { all[..width].to_vec() }
    }
}
