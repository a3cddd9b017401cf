//! Loops that find what a cast loses by examining the codes of its source, compiled for each instruction set.
//!
//! A *scan* finds out, with a few operations per register, whether all elements of a run fit the target. If they do not, [`Loops::judge`]
//! decides for each element whether it is lost or inexact, and [`Loops::count`] counts elements by class. They read native codes of 16,
//! 32 or 64 bits; `src/checked/parts.rs` brings other sources to that form, and `src/checked/range.rs` computes the limits.
//!
//! [`Fused`] casts and checks in one loop, which loads the source once. There is such a loop for the few pairs where that is worth its
//! code: those whose data the caches deliver faster than two loops can check and cast. It checks the results, for example by casting back.

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
pub(crate) use self::found::{
    Bits, CodeRange, Codes, Exact, Fit, Found, Fused, Kept, MAX_CODES, Scan, Verdict,
};
use super::backend::on;
use super::limits::Limits;
use super::plan::Planned;
use super::present::Present;
use super::sizes::KERNEL_BLOCK;

/// The loops of an instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loops(Present);

#[cfg_attr(not(isa = "vector"), expect(unused_variables, reason = "there are none"))]
impl Loops {
    /// The loops of an instruction set. None for the reference, which has no loops.
    pub(crate) fn of(isa: Present) -> Option<Self> {
        (isa != Present::REFERENCE).then_some(Self(isa))
    }

    /// Scans codes; those of integers may have 8 bits, too. Counts inexact elements only on request.
    pub(crate) fn scan(self, codes: Codes<'_>, fit: &Fit, counts: bool) -> Found {
        let nothing = Found { fits: false, inexact: 0 };
        on!(self.0, isa => scan::scan(isa, codes, fit, counts)).unwrap_or(nothing)
    }

    /// Judges up to [`MAX_CODES`] codes of 2, 4 or 8 bytes, and writes the result to `verdict`, which must be empty.
    pub(crate) fn judge(self, codes: Codes<'_>, exact: Exact<'_>, limits: &Limits, verdict: &mut Verdict) {
        on!(self.0, isa => judge::judge(isa, codes, exact, limits, verdict, None)).unwrap_or(());
    }

    /// As [`Loops::judge`], but for integers; also writes the low bytes of each code, or 0 if it is lost. Does nothing and
    /// returns false if the codes are not whole blocks, or if they are floats to be truncated and there is no loop for that.
    pub(crate) fn keep(
        self,
        codes: Codes<'_>,
        limits: &Limits,
        verdict: &mut Verdict,
        kept: Kept<'_>,
    ) -> bool {
        let n = codes.bytes.len() / codes.width;
        let are_whole =
            n.is_multiple_of(KERNEL_BLOCK) && kept.dst.size() == n * kept.width && kept.width <= codes.width;
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

    /// Counts codes by class.
    pub(crate) fn count(self, codes: Codes<'_>, limits: &Limits) -> Counts {
        on!(self.0, isa => judge::count(isa, codes, limits)).unwrap_or_default()
    }

    /// Finds which of up to [`MAX_CODES`] codes of 1, 2, 4 or 8 bytes lie in any of the ranges. `bits` must be zeros. Returns how
    /// many do, or more: a code may be counted once for each range.
    pub(crate) fn find(self, codes: Codes<'_>, ranges: &[CodeRange], bits: &mut Bits) -> usize {
        on!(self.0, isa => find::find(isa, codes, ranges, bits)).unwrap_or(0)
    }
}

/// Returns the loop that casts and checks, if the cast has one. It counts inexact elements only on request.
#[cfg_attr(not(isa = "vector"), expect(unused_variables, reason = "there is none"))]
pub(crate) fn fused(plan: &Planned, counts_inexact: bool) -> Option<Fused<'_>> {
    on!(plan.isa, isa => fused::fused(isa, plan, counts_inexact)).flatten()
}
