//! Which instruction sets this build has kernels for, and this machine runs.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::formats::isa::Isa;
use crate::kernels::backend::Backend;

impl Isa {
    /// What this build has kernels for and this machine can run, the slowest first.
    ///
    /// ```
    /// use lanecast::Isa;
    /// assert_eq!(Isa::available().first(), Some(&Isa::Scalar));
    /// ```
    pub fn available() -> &'static [Self] {
        /// Every choice of those behind the reference, and how many it has with that.
        static CHOICES: [([Isa; Isa::ALL.len()], usize); 1 << (Isa::ALL.len() - 1)] = {
            let mut choices = [(Isa::ALL, 1); 1 << (Isa::ALL.len() - 1)];
            let mut choice = 0;
            while choice < choices.len() {
                let (chosen, n) = &mut choices[choice];
                let mut i = 1;
                while i < Isa::ALL.len() {
                    if choice >> (i - 1) & 1 != 0 {
                        chosen[*n] = Isa::ALL[i];
                        *n += 1;
                    }
                    i += 1;
                }
                choice += 1;
            }
            choices
        };
        /// The choice of this machine, and one more; 0 before that is known. Whoever asks at the same time finds the same.
        static CHOICE: AtomicU8 = AtomicU8::new(0);

        let choice = match CHOICE.load(Ordering::Relaxed) {
            0 => {
                let behind = Self::ALL[1..].iter().enumerate();
                let choice = behind.fold(0, |choice, (i, isa)| choice | u8::from(isa.detect()) << i);
                CHOICE.store(choice + 1, Ordering::Relaxed);
                choice
            }
            known => known - 1,
        };
        let (chosen, n) = &CHOICES[usize::from(choice)];
        &chosen[..*n]
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
