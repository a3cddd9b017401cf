//! The arguments of the loops in this directory, and their results.

use super::super::memory::Destination;
use super::super::plan::Planned;

/// What a [`Scan`] compares with. Integers fit if code - `low` has none of the bits of `limit`; floats if their magnitude is at most
/// `limit`, and either 0 or at least `least`.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(isa = "vector"), expect(dead_code, reason = "the reference has no loops"))]
pub(crate) struct Fit {
    pub(crate) scan: Scan,
    /// For integers, what is subtracted. For floats, what is subtracted from a magnitude before it is compared with `least`: 1, so that 0
    /// wraps and passes, or 0.
    pub(crate) low: u64,
    /// For integers, the bits that no difference may have. For floats, the largest magnitude.
    pub(crate) limit: u64,
    /// For floats, the smallest magnitude minus `low`.
    pub(crate) least: u64,
    /// For floats, the bits that are 0 if the target has the number exactly.
    pub(crate) cut: u64,
    /// Fills the lanes of a register behind the last element: a code that fits and is exact, that of 0 or 1. (For integers to
    /// float8_e8m0fnu, which has no 0, it does not fit; the elements of such a register are then judged.)
    pub(crate) inside: u64,
}

/// What a scan asks of the elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scan {
    /// Integers: are they in a range?
    Integers,
    /// Floats: are they in a range, and do they have no more bits than the target?
    Floats,
    /// Floats: are they in a range, with no more bits than the target, and is none negative?
    Positive,
    /// Floats: are they in a range, and whole?
    Whole,
    /// Floats: are they in a range, whole, and is none negative?
    Natural,
}

/// The result of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// Whether every element is in the range. If not, the count is arbitrary.
    pub(crate) fits: bool,
    /// How many elements are in the range, but not exact.
    pub(crate) inexact: usize,
}

/// Codes in native byte order, of `width` bytes each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) width: usize,
}

/// Codes to find: those that, after masking, lie between `low` and `high`, both included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeRange {
    pub(crate) mask: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl CodeRange {
    /// Whether the range is a single code of `bytes` bytes.
    pub(crate) fn is_single(&self, bytes: usize) -> bool {
        self.low == self.high && self.mask == u64::MAX >> (64 - 8 * bytes)
    }

    pub(crate) fn has(&self, code: u64) -> bool {
        (code & self.mask).wrapping_sub(self.low) <= self.high - self.low
    }
}

/// How to tell whether codes are exact.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(isa = "vector"), expect(dead_code, reason = "the reference has no loops"))]
pub(crate) enum Exact<'a> {
    /// All of them are exact.
    All,
    /// Floats are exact if they are whole.
    Whole,
    /// Codes are exact if they equal these bytes, which they became when they were cast to the target and back.
    Back(&'a [u8]),
}

/// Where integers are written while they are judged, truncated to `width` bytes each.
pub(crate) struct Kept<'a> {
    pub(crate) dst: Destination<'a, u8>,
    pub(crate) width: usize,
    /// The codes are float64s, which are truncated to int64 first. What int64 does not hold becomes its minimum and is lost,
    /// except this code.
    pub(crate) cut: Option<u64>,
}

/// The largest number of codes that are judged at a time.
pub(crate) const MAX_CODES: usize = 2048;

/// A bit for each code, the first in the lowest bit of the first word.
pub(crate) type Bits = [u64; MAX_CODES / 64];

/// Which codes are lost, which of the others are inexact, and how many there are of each.
#[derive(Default, Debug)]
pub(crate) struct Verdict {
    pub(crate) lost: Bits,
    pub(crate) inexact: Bits,
    pub(crate) losses: usize,
    pub(crate) inexacts: usize,
}

#[cfg(isa = "vector")]
impl Verdict {
    /// Adds the bits of a block of codes, which begins at index `at` and lies within one word: the lost ones, and the inexact ones.
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

/// How many codes are in each class. Inf and NaN are counted whether they are lost or not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) above: usize,
    pub(crate) below: usize,
    pub(crate) negative: usize,
    pub(crate) nan: usize,
    pub(crate) inf: usize,
}

/// A loop that casts and scans.
#[derive(Clone, Copy)]
pub(crate) struct Fused<'a> {
    pub(super) plan: &'a Planned,
    /// How many elements a block has.
    pub(super) block: usize,
    /// Casts all blocks that both buffers have.
    pub(super) run: fn(plan: &Planned, fit: &Fit, src: &[u8], dst: Destination<'_, u8>) -> Found,
}

impl Fused<'_> {
    /// Casts all whole blocks, and returns how many elements those were. If not all of them fit, the destination is arbitrary.
    pub(crate) fn cast(&self, fit: &Fit, src: &[u8], dst: &mut Destination<'_, u8>) -> (usize, Found) {
        let route = &self.plan.route;
        let blocks = (src.len() / route.src.size(self.block)).min(dst.size() / route.dst.size(self.block));
        (blocks * self.block, (self.run)(self.plan, fit, src, dst.reborrow()))
    }
}
