//! The instruction sets that this build has kernels for and this machine can run.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::formats::isa::Isa;
use crate::kernels::backend::{BUILT, Backend};

impl Isa {
    /// The instruction sets that this build has kernels for and this machine can run, the slowest first.
    ///
    /// ```
    /// use lanecast::Isa;
    /// assert_eq!(Isa::available().first(), Some(&Isa::Scalar));
    /// ```
    pub fn available() -> &'static [Self] {
        /// How many entries of `BUILT` this machine runs; 0 before that is known. Threads that race here store the same number.
        static COUNT: AtomicU8 = AtomicU8::new(0);

        let count = match COUNT.load(Ordering::Relaxed) {
            0 => {
                // Entry 0 is the reference, which always runs.
                let count = 1 + BUILT[1..].iter().take_while(|isa| isa.detect()).count() as u8;
                COUNT.store(count, Ordering::Relaxed);
                count
            }
            known => known,
        };
        &BUILT[..usize::from(count)]
    }

    /// Whether this build has the kernels and this machine the instructions.
    ///
    /// On x86-64 two detections must agree. That of `detect.rs` can be tested for machines that are not at hand. The backend's `is_there`
    /// asks the standard library, which only knows this machine, but also knows where a process may not ask the CPU
    /// at all; so it comes first. A test checks that both give the same answer.
    fn detect(self) -> bool {
        let backend = Backend::of(self);
        backend.isa == self && (backend.is_there)() && self.is_run()
    }

    /// Whether `detect.rs` finds the instructions on this machine. Without the feature `std`, every machine of the target has them.
    fn is_run(self) -> bool {
        #[cfg(all(isa = "avx2", feature = "std"))]
        return crate::detect::Cpu::this().runs(self);
        #[cfg(not(all(isa = "avx2", feature = "std")))]
        true
    }

    /// Whether the instruction set is one of [`Isa::available`].
    ///
    /// ```
    /// assert!(lanecast::Isa::Scalar.is_available());
    /// ```
    pub fn is_available(self) -> bool {
        Self::available().contains(&self)
    }
}
