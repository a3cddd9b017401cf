//! The instruction set that casts run on, and the environment variable that says another.

use std::ffi::OsStr;
use std::sync::OnceLock;

use crate::error::Error;
use crate::formats::isa::Isa;

impl Isa {
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
pub(crate) fn best_of(variable: Option<&OsStr>, available: &[Isa]) -> Result<Isa, Error> {
    let Some(name) = variable.filter(|name| !name.is_empty()) else {
        return Ok(*available.last().expect("the scalar kernels are always available"));
    };
    let wanted = name.to_str().and_then(|name| name.parse().ok());
    let available = wanted.filter(|isa| available.contains(isa));
    // Leaked once per process at most: errors are `Copy`, and the text lives as long as the answer.
    available.ok_or_else(|| Error::IsaOverride { value: name.to_string_lossy().into_owned().leak() })
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
