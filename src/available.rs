//! Which instruction sets this build has kernels for, and this machine runs.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::formats::isa::Isa;
use crate::kernels::backend::{BUILT, Backend};

impl Isa {
    /// What this build has kernels for and this machine can run, the slowest first.
    ///
    /// ```
    /// use lanecast::Isa;
    /// assert_eq!(Isa::available().first(), Some(&Isa::Scalar));
    /// ```
    pub fn available() -> &'static [Self] {
        /// How many of the build's this machine runs; 0 before that is known. Whoever asks at the same time finds the same.
        static COUNT: AtomicU8 = AtomicU8::new(0);

        let count = match COUNT.load(Ordering::Relaxed) {
            0 => {
                // (The reference always runs.)
                let count = 1 + BUILT[1..].iter().take_while(|isa| isa.detect()).count() as u8;
                COUNT.store(count, Ordering::Relaxed);
                count
            }
            known => known,
        };
        &BUILT[..usize::from(count)]
    }

    /// Has this build the kernels, and this machine the instructions?
    ///
    /// Of x86-64 two must say so. `detect.rs` is the one that can be tested for machines that are not at hand. The token
    /// asks the standard library, which nobody can ask about another machine, but which knows where a process
    /// may not ask the CPU at all: it comes first. A test holds the two to the same answer.
    fn detect(self) -> bool {
        let backend = Backend::of(self);
        backend.isa == self && (backend.is_there)() && self.is_run()
    }

    /// Does `detect.rs` say so of this machine? Without the feature `std` the target has said it of all machines.
    fn is_run(self) -> bool {
        #[cfg(all(isa = "avx2", feature = "std"))]
        return crate::detect::Cpu::this().runs(self);
        #[cfg(not(all(isa = "avx2", feature = "std")))]
        true
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
