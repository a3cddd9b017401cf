//! The instruction sets kernels exist for, which of them this machine has, and the override.

use core::fmt;
use core::str::FromStr;
use std::sync::OnceLock;

#[cfg(isa = "avx2")]
use crate::detect::Cpu;
use crate::error::Error;

/// An instruction set that kernels are written for.
///
/// Results never depend on it; speed does.
///
/// ```
/// use lanecast::Isa;
/// for isa in Isa::ALL {
///     println!("{isa}: {}", if isa.is_available() { "available" } else { "not here" });
/// }
/// assert!(Isa::Scalar.is_available());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[repr(u8)]
pub enum Isa {
    /// The reference: integer arithmetic, one element at a time, on every machine.
    Scalar = 1,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2 = 2,
    /// x86-64 with AVX-512 as Ice Lake and Zen 4 have it.
    Avx512 = 3,
    /// 64-bit Arm.
    Neon = 4,
}

impl Isa {
    /// Every instruction set there could be kernels for, available here or not.
    ///
    /// ```
    /// assert_eq!(lanecast::Isa::ALL.map(|isa| isa.name()), ["scalar", "avx2", "avx512", "neon"]);
    /// ```
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Neon];

    /// The name, as `LANECAST_ISA` spells it.
    ///
    /// ```
    /// assert_eq!(lanecast::Isa::Avx512.name(), "avx512");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }

    /// What this build has kernels for and this machine can run, the slowest first.
    ///
    /// ```
    /// use lanecast::Isa;
    /// assert_eq!(Isa::available().first(), Some(&Isa::Scalar));
    /// ```
    pub fn available() -> &'static [Self] {
        static AVAILABLE: OnceLock<Vec<Isa>> = OnceLock::new();
        AVAILABLE.get_or_init(|| Self::ALL.into_iter().filter(|isa| isa.detect()).collect())
    }

    /// Has this build the kernels, and this machine the instructions?
    ///
    /// Of x86-64 two must say so. `detect.rs` is the one that can be tested for machines that are not at hand. The token
    /// asks the standard library, which nobody can ask about another machine, but which knows where a process
    /// may not ask the CPU at all: it comes first. A test holds the two to the same answer.
    fn detect(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(isa = "avx2")]
            Self::Avx2 => crate::kernels::avx2::Avx2::is_available() && Cpu::this().runs(self),
            #[cfg(isa = "avx512")]
            Self::Avx512 => crate::kernels::avx512::Avx512::is_available() && Cpu::this().runs(self),
            #[cfg(isa = "neon")]
            Self::Neon => crate::kernels::neon::Neon::is_available(),
            _ => false,
        }
    }

    /// Is it one of [`Isa::available`]?
    ///
    /// ```
    /// assert!(lanecast::Isa::Scalar.is_available());
    /// ```
    pub fn is_available(self) -> bool {
        Self::available().contains(&self)
    }

    /// The one that casts run on unless [`CastOptions::isa`](crate::CastOptions::isa) names another:
    /// what the environment variable `LANECAST_ISA` says, else the fastest that is available.
    ///
    /// The variable is read once, at the first use. If it names no available instruction set, this and
    /// every cast that relies on it are an error: a silent fallback would hide a misspelt test run.
    ///
    /// ```
    /// use lanecast::Isa;
    /// assert!(Isa::best()?.is_available());
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub fn best() -> Result<Self, Error> {
        static BEST: OnceLock<Result<Isa, Error>> = OnceLock::new();
        *BEST.get_or_init(|| best_of(std::env::var_os("LANECAST_ISA").as_deref(), Self::available()))
    }
}

/// [`Isa::best`] as a function of what it depends on.
pub(crate) fn best_of(variable: Option<&std::ffi::OsStr>, available: &[Isa]) -> Result<Isa, Error> {
    let Some(name) = variable.filter(|name| !name.is_empty()) else {
        return Ok(*available.last().expect("the scalar kernels are always available"));
    };
    let wanted = name.to_str().and_then(|name| name.parse().ok());
    let available = wanted.filter(|isa| available.contains(isa));
    // Leaked once per process at most: errors are `Copy`, and the text lives as long as the answer.
    available.ok_or_else(|| Error::IsaOverride { value: name.to_string_lossy().into_owned().leak() })
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no instruction set's, see [`Isa`]'s `FromStr`.
///
/// ```
/// let error = "sse9".parse::<lanecast::Isa>().unwrap_err();
/// assert_eq!(error.to_string(), "no instruction set is named \"sse9\"; the names are scalar, avx2, avx512, neon");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseIsaError {
    name: String,
}

impl fmt::Display for ParseIsaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Isa::ALL.map(Isa::name).join(", ");
        write!(f, "no instruction set is named {:?}; the names are {names}", self.name)
    }
}

impl std::error::Error for ParseIsaError {}

impl FromStr for Isa {
    type Err = ParseIsaError;

    /// The instruction set of a name, spelt exactly.
    fn from_str(name: &str) -> Result<Self, ParseIsaError> {
        let found = Self::ALL.into_iter().find(|isa| isa.name() == name);
        found.ok_or_else(|| ParseIsaError { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_override_is_obeyed_or_an_error() {
        let all = [Isa::Scalar, Isa::Avx2];
        let best = |name: Option<&str>| best_of(name.map(AsRef::as_ref), &all);
        assert_eq!(best(None), Ok(Isa::Avx2));
        assert_eq!(best(Some("")), Ok(Isa::Avx2));
        assert_eq!(best(Some("scalar")), Ok(Isa::Scalar));
        assert_eq!(best(Some("avx2")), Ok(Isa::Avx2));
        for wrong in ["neon", "AVX2", "avx2 "] {
            assert_eq!(best(Some(wrong)), Err(Error::IsaOverride { value: wrong }));
        }
    }
}
