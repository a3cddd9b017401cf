//! The proof that this CPU has an instruction set.

use crate::formats::isa::Isa;

/// An instruction set that this CPU has: the proof for the token of it, or the name of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Present(Isa);

impl Present {
    pub(super) const REFERENCE: Self = Self(Isa::Scalar);

    /// # Safety
    /// The CPU has the features of the token of this name, if there is one.
    pub(super) const unsafe fn new(isa: Isa) -> Self {
        Self(isa)
    }

    pub(crate) const fn isa(self) -> Isa {
        self.0
    }
}
