//! Which instruction sets this build has kernels for, and this machine runs.

use std::sync::OnceLock;

#[cfg(isa = "avx2")]
use crate::detect::Cpu;
use crate::formats::isa::Isa;

impl Isa {
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
}
