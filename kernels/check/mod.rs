//! What a cast loses, read from the codes of its source: loops, compiled for each instruction set.
//!
//! A *scan* says whether all is well with a run of elements, or may not be, in a few operations on each register. Where
//! it may not be, [`Loops::judge`] says of every element whether it is lost or inexact, and [`Loops::count`] of what
//! class those are. They look at native codes of 16, 32 or 64 bits; `src/checked/look.rs` brings other sources to those,
//! and `src/checked/range.rs` says where the limits are.
//!
//! [`Fused`] casts and looks in one loop, which loads the source once. There is one for the few pairs where that pays for
//! the code: those that the caches feed faster than two loops can look and cast. It looks at what the cast makes, which may be
//! cast back and compared.

#[cfg(isa = "vector")]
mod find;
mod found;
#[cfg(isa = "vector")]
mod fused;
#[cfg(isa = "vector")]
mod judge;
#[cfg(isa = "vector")]
mod lanes;
#[cfg(isa = "vector")]
mod scan;

use self::found::Counts;
pub(crate) use self::found::{Bits, Codes, Exact, Fit, Found, Fused, Kept, Key, MOST, Scan, Verdict};
use super::backend::on;
use super::limits::Limits;
use super::plan::Planned;
use super::present::Present;

/// Codes that are whole blocks of judges on every instruction set.
pub(crate) const BLOCK: usize = 64;

/// The loops of an instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loops(Present);

#[cfg_attr(not(isa = "vector"), expect(unused_variables, reason = "there are none"))]
impl Loops {
    /// None of the reference.
    pub(crate) fn of(isa: Present) -> Option<Self> {
        (isa != Present::REFERENCE).then_some(Self(isa))
    }

    /// Scans codes, of 8 bits too if they are integers. Counts what is inexact only on request.
    pub(crate) fn scan(self, codes: Codes<'_>, fit: &Fit, counts: bool) -> Found {
        let nothing = Found { fits: false, inexact: 0 };
        on!(self.0, isa => scan::scan(isa, codes, fit, counts)).unwrap_or(nothing)
    }

    /// Judges codes of 2, 4 or 8 bytes, no more than [`MOST`]. The verdict is an empty one.
    pub(crate) fn judge(self, codes: Codes<'_>, exact: Exact<'_>, limits: &Limits, verdict: &mut Verdict) {
        on!(self.0, isa => judge::judge(isa, codes, exact, limits, verdict, None)).unwrap_or(());
    }

    /// The same of integers, which are written as well: the low bytes of each, all of which are 0 if it is lost. Of whole blocks alone:
    /// else, and where floats are to be cut and cannot be, it says that nothing was done.
    pub(crate) fn keep(
        self,
        codes: Codes<'_>,
        limits: &Limits,
        verdict: &mut Verdict,
        kept: Kept<'_>,
    ) -> bool {
        let n = codes.bytes.len() / codes.width;
        let are_whole =
            n.is_multiple_of(BLOCK) && kept.dst.size() == n * kept.width && kept.width <= codes.width;
        if !are_whole || limits.is_float {
            return false;
        }
        let is_cut = kept.cut.is_some();
        on!(self.0, isa => {
            let can = !is_cut || judge::cuts(isa, codes.width);
            if can {
                judge::judge(isa, codes, Exact::All, limits, verdict, Some(kept));
            }
            can
        })
        .unwrap_or(false)
    }

    /// Counts the same by class.
    pub(crate) fn count(self, codes: Codes<'_>, limits: &Limits) -> Counts {
        on!(self.0, isa => judge::count(isa, codes, limits)).unwrap_or_default()
    }

    /// Which codes of 1, 2, 4 or 8 bytes, no more than [`MOST`], have any of the keys? The bits are zeros. How many those are, or more: some may be
    /// counted for several keys.
    pub(crate) fn find(self, codes: Codes<'_>, keys: &[Key], bits: &mut Bits) -> usize {
        on!(self.0, isa => find::find(isa, codes, keys, bits)).unwrap_or(0)
    }
}

/// What casts and looks in one loop, if there is one for the cast. What is inexact is counted only on request.
#[cfg_attr(not(isa = "vector"), expect(unused_variables, reason = "there is none"))]
pub(crate) fn fused(plan: &Planned, counts_inexact: bool) -> Option<Fused<'_>> {
    on!(plan.isa, isa => fused::fused(isa, plan, counts_inexact)).flatten()
}
