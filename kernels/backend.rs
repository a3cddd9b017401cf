//! The instruction sets, each with what it has for the layers above.

use super::check::{Fused, Loops};
use super::drive::{Plan, Planned};
use super::moves::Moves;
#[cfg(isa = "vector")]
use super::{check, codec::table::Ways, simd::Simd, vector};
use crate::formats::isa::Isa;

/// The same by type: calls a function with the registers of an instruction set, which must be there; none for the reference. What
/// not every program needs is asked so, and not by a field of [`Backend`], because a program links all that a field names.
macro_rules! on {
    ($isa:expr, $I:ident => $body:expr) => {
        match $isa {
            #[cfg(isa = "avx512")]
            Isa::Avx512 => {
                type $I = super::avx512::Zmm;
                Some($body)
            }
            #[cfg(isa = "avx2")]
            Isa::Avx2 => {
                type $I = super::avx2::Avx2;
                Some($body)
            }
            #[cfg(isa = "neon")]
            Isa::Neon => {
                type $I = super::neon::Neon;
                Some($body)
            }
            _ => None,
        }
    };
}
#[cfg(isa = "vector")]
pub(super) use on;

/// What one instruction set does.
pub(crate) struct Backend {
    pub(crate) isa: Isa,
    /// Has this CPU what its kernels are compiled for?
    pub(crate) is_there: fn() -> bool,
    /// A plan that is the reference's, with its kernels.
    pub(super) plan: fn(Plan) -> Plan,
}

/// What moves elements.
pub(super) fn moves(isa: Isa) -> Moves {
    on!(isa, I => Moves::of::<I>()).unwrap_or(Moves::REFERENCE)
}

/// What looks at codes for what a cast loses; the reference has no such loops.
pub(crate) fn loops(isa: Isa) -> Option<Loops> {
    on!(isa, I => check::loops::<I>())
}

/// What casts and looks in one loop, if there is one for the cast. What is inexact is counted only on request.
#[cfg_attr(not(isa = "vector"), expect(unused_variables, reason = "there is none"))]
pub(crate) fn fused(isa: Isa, plan: &Planned, counts_inexact: bool) -> Option<Fused<'_>> {
    on!(isa, I => check::fused::<<I as Simd>::Turned>(plan, counts_inexact)).flatten()
}

/// Those that this build has, the best first.
static BACKENDS: &[Backend] = &[
    #[cfg(isa = "avx512")]
    vector::<super::avx512::Zmm>(Isa::Avx512, super::avx512::Avx512::is_available),
    #[cfg(isa = "avx2")]
    vector::<super::avx2::Avx2>(Isa::Avx2, super::avx2::Avx2::is_available),
    #[cfg(isa = "neon")]
    vector::<super::neon::Neon>(Isa::Neon, super::neon::Neon::is_available),
];

static REFERENCE: Backend = Backend { isa: Isa::Scalar, is_there: || true, plan: |plan| plan };

#[cfg(isa = "vector")]
const fn vector<I: Ways>(isa: Isa, is_there: fn() -> bool) -> Backend {
    Backend { isa, is_there, plan: vector::plan::<I> }
}

impl Backend {
    /// The one of this name; the reference, if the build has none.
    pub(crate) fn of(isa: Isa) -> &'static Self {
        BACKENDS.iter().find(|backend| backend.isa == isa).unwrap_or(&REFERENCE)
    }
}
