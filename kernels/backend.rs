//! The list of instruction sets, and how the layers above call one.

use super::present::Present;
#[cfg(isa = "vector")]
use super::simd::{Simd, Token};
use crate::formats::isa::Isa;

/// Evaluates an expression with the token of an instruction set that is [`Present`], as `Some`; `None` for the reference.
/// (Functions of an instruction set are not fields of [`Backend`], because a program links everything that a field names.)
#[cfg(isa = "vector")]
macro_rules! on {
    ($present:expr, $isa:ident => $body:expr) => {
        match $present.isa() {
            #[cfg(isa = "avx512")]
            $crate::formats::isa::Isa::Avx512 => {
                <$crate::kernels::avx512::Zmm as $crate::kernels::simd::Simd>::of($present).map(|$isa| $body)
            }
            #[cfg(isa = "avx2")]
            $crate::formats::isa::Isa::Avx2 => {
                <$crate::kernels::avx2::Avx2 as $crate::kernels::simd::Simd>::of($present).map(|$isa| $body)
            }
            #[cfg(isa = "neon")]
            $crate::formats::isa::Isa::Neon => {
                <$crate::kernels::neon::Neon as $crate::kernels::simd::Simd>::of($present).map(|$isa| $body)
            }
            #[cfg(isa = "simd128")]
            $crate::formats::isa::Isa::Simd128 => {
                <$crate::kernels::simd128::Simd128 as $crate::kernels::simd::Simd>::of($present)
                    .map(|$isa| $body)
            }
            _ => None,
        }
    };
}
#[cfg(not(isa = "vector"))]
macro_rules! on {
    ($present:expr, $isa:ident => $body:expr) => {{
        let _ = $present;
        None
    }};
}
pub(super) use on;

/// An instruction set that this build has kernels for.
pub(crate) struct Backend {
    pub(crate) isa: Isa,
    /// Whether this CPU has the features that the kernels are compiled for.
    pub(crate) is_there: fn() -> bool,
}

/// The instruction sets of this build, the slowest first. A CPU that has one also has those before it.
const BACKENDS: &[Backend] = &[
    Backend { isa: Isa::Scalar, is_there: || true },
    #[cfg(isa = "neon")]
    vector::<super::neon::Neon>(),
    #[cfg(isa = "simd128")]
    vector::<super::simd128::Simd128>(),
    #[cfg(isa = "avx2")]
    vector::<super::avx2::Avx2>(),
    #[cfg(isa = "avx512")]
    vector::<super::avx512::Zmm>(),
];

/// The names of the instruction sets of this build.
pub(crate) static BUILT: [Isa; BACKENDS.len()] = {
    let mut all = [Isa::Scalar; BACKENDS.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = BACKENDS[i].isa;
        i += 1;
    }
    all
};

#[cfg(isa = "vector")]
const fn vector<I: Simd>() -> Backend {
    Backend { isa: I::ISA, is_there: I::Token::is_available }
}

impl Backend {
    /// Returns the instruction set of this name, or the reference if the build does not have it.
    pub(crate) fn of(isa: Isa) -> &'static Self {
        BACKENDS.iter().find(|backend| backend.isa == isa).unwrap_or(&BACKENDS[0])
    }

    /// Returns the proof that the CPU has an instruction set. None if it does not, or if the build has no kernels for it.
    pub(crate) fn present(isa: Isa) -> Option<Present> {
        let backend = Self::of(isa);
        // SAFETY: `is_there` has just asked the CPU for the features of the token.
        (backend.isa == isa && (backend.is_there)()).then(|| unsafe { Present::new(isa) })
    }
}
