//! The instruction sets, each with what it has for the layers above.

use super::check::{Fused, Loops};
use super::drive::{Plan, Planned};
use super::moves::Moves;
#[cfg(isa = "vector")]
use super::{check, codec::table::Ways, vector};
use crate::formats::isa::Isa;

/// What one instruction set does.
pub(crate) struct Backend {
    pub(crate) isa: Isa,
    /// Has this CPU what its kernels are compiled for?
    pub(crate) is_there: fn() -> bool,
    /// A plan that is the reference's, with its kernels.
    pub(super) plan: fn(Plan) -> Plan,
    pub(super) moves: Moves,
    /// What looks at codes for what a cast loses; the reference has no such loops.
    pub(crate) loops: Option<Loops>,
    /// What casts and looks in one loop, if there is one for the cast. What is inexact is counted only on request.
    pub(crate) fused: fn(&Planned, bool) -> Option<Fused<'_>>,
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

/// The same by type: calls a function with the registers of an instruction set, which must be there; none for the reference.
#[cfg(isa = "vector")]
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

static REFERENCE: Backend = Backend {
    isa: Isa::Scalar,
    is_there: || true,
    plan: |plan| plan,
    moves: Moves::REFERENCE,
    loops: None,
    fused: |_, _| None,
};

#[cfg(isa = "vector")]
const fn vector<I: Ways>(isa: Isa, is_there: fn() -> bool) -> Backend {
    Backend {
        isa,
        is_there,
        plan: vector::plan::<I>,
        moves: Moves::of::<I>(),
        loops: Some(check::loops::<I>()),
        fused: check::fused::<I::Turned>,
    }
}

impl Backend {
    /// The one of this name; the reference, if the build has none.
    pub(crate) fn of(isa: Isa) -> &'static Self {
        BACKENDS.iter().find(|backend| backend.isa == isa).unwrap_or(&REFERENCE)
    }
}
