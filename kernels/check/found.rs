//! What is asked of codes, and what is found.

use super::super::memory::Destination;
use super::super::plan::Planned;

/// What a [`Scan`] compares with. Of integers, codes minus `low` have no bit of `limit` and above; of floats,
/// magnitudes are no larger than `limit`, and 0 or no smaller than `least`.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(isa = "vector"), expect(dead_code, reason = "the reference has no loops"))]
pub(crate) struct Fit {
    pub(crate) scan: Scan,
    /// Of integers, what is subtracted; of floats, what is subtracted from a magnitude before it is compared with
    /// `least`, so that 0 wraps and passes (1), or not (0).
    pub(crate) low: u64,
    /// Of integers, the bits that no difference has; of floats, the largest magnitude.
    pub(crate) limit: u64,
    /// Of floats, the smallest magnitude minus `low`.
    pub(crate) least: u64,
    /// Of floats, the bits that are 0 in what is exact.
    pub(crate) cut: u64,
    /// What stands in the lanes of a register behind the last element: a code that is in the range and exact, 0 or that of 1. (Of integers to
    /// float8_e8m0fnu, which has no 0, it is not: then such a register does not fit, and its elements are judged.)
    pub(crate) inside: u64,
}

/// What to look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scan {
    /// Integers of a range.
    Integers,
    /// Floats of a range that have only so many bits.
    Floats,
    /// The same, and none is negative.
    Positive,
    /// Floats of a range that are integers.
    Whole,
    /// The same, and none is negative.
    Natural,
}

/// What a scan found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// Every element is in the range, so that the count is right.
    pub(crate) fits: bool,
    /// Elements that are in the range, but not exact.
    pub(crate) inexact: usize,
}

/// The codes of so many lanes of some bytes, native.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) width: usize,
}

/// Codes that are looked for: from `low` to `high`, of which some bits do not count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) mask: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Key {
    /// Is it one code of so many bytes?
    pub(crate) fn is_one(&self, bytes: usize) -> bool {
        self.low == self.high && self.mask == u64::MAX >> (64 - 8 * bytes)
    }

    pub(crate) fn has(&self, code: u64) -> bool {
        (code & self.mask).wrapping_sub(self.low) <= self.high - self.low
    }
}

/// What says of codes whether they are exact.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(isa = "vector"), expect(dead_code, reason = "the reference has no loops"))]
pub(crate) enum Exact<'a> {
    /// All of them are.
    All,
    /// Floats that are integers.
    Whole,
    /// Those that were cast there and back again to these bytes.
    Back(&'a [u8]),
}

/// Where integers go that are judged, as no wider ones of so many bytes each.
pub(crate) struct Kept<'a> {
    pub(crate) dst: Destination<'a, u8>,
    pub(crate) width: usize,
    /// The integers are float64, cut to int64: of what that does not hold, the minimum, but where the code is this one, it is never lost.
    pub(crate) cut: Option<u64>,
}

/// The most codes that are judged at a time.
pub(crate) const MOST: usize = 2048;

/// A bit for each code, the first in the lowest bit of the first word.
pub(crate) type Bits = [u64; MOST / 64];

/// Which codes are lost, and which are not, but inexact; and how many.
#[derive(Default, Debug)]
pub(crate) struct Verdict {
    pub(crate) lost: Bits,
    pub(crate) inexact: Bits,
    pub(crate) losses: usize,
    pub(crate) inexacts: usize,
}

#[cfg(isa = "vector")]
impl Verdict {
    /// Adds the bits of a block of lanes from a number on, which end within a word: the lost, and the inexact.
    #[inline(always)]
    pub(super) fn add(&mut self, at: usize, [lost, inexact]: [u64; 2]) {
        if let (Some(losts), Some(inexacts)) = (self.lost.get_mut(at / 64), self.inexact.get_mut(at / 64)) {
            *losts |= lost << (at % 64);
            *inexacts |= inexact << (at % 64);
            self.losses += lost.count_ones() as usize;
            self.inexacts += inexact.count_ones() as usize;
        }
    }
}

/// How many codes are in which class. Of Inf and NaN there are as many, whether they are lost or not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) above: usize,
    pub(crate) below: usize,
    pub(crate) negative: usize,
    pub(crate) nan: usize,
    pub(crate) inf: usize,
}

/// A cast and a scan in one loop.
#[derive(Clone, Copy)]
pub(crate) struct Fused<'a> {
    pub(super) plan: &'a Planned,
    /// Elements of a block.
    pub(super) block: usize,
    /// Casts the blocks that both sides have.
    pub(super) run: fn(plan: &Planned, fit: &Fit, src: &[u8], dst: Destination<'_, u8>) -> Found,
}

impl Fused<'_> {
    /// Casts whole blocks, as many as there are, and says how many elements those were. If not all of them fit, what
    /// was written is not said.
    pub(crate) fn cast(&self, fit: &Fit, src: &[u8], dst: &mut Destination<'_, u8>) -> (usize, Found) {
        let route = &self.plan.route;
        let blocks = (src.len() / route.src.size(self.block)).min(dst.size() / route.dst.size(self.block));
        (blocks * self.block, (self.run)(self.plan, fit, src, dst.reborrow()))
    }
}
