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

mod found;
#[cfg(isa = "vector")]
mod fused;
#[cfg(isa = "vector")]
mod judge;
#[cfg(isa = "vector")]
mod lanes;
#[cfg(isa = "vector")]
mod scan;

pub(crate) use self::found::{Bits, Codes, Exact, Fit, Found, Fused, Loops, MOST, Scan, Verdict};
#[cfg(isa = "vector")]
pub(super) use self::fused::fused;
#[cfg(isa = "vector")]
use super::simd::Simd;

/// The loops of an instruction set.
#[cfg(isa = "vector")]
pub(super) const fn loops<I: Simd>() -> Loops {
    Loops { scan: scan::scan::<I>, judge: judge::judge::<I>, count: judge::count::<I> }
}
