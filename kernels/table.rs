//! Which kernel an instruction set runs for a route.

use super::drive::{self, Kernel};
use crate::isa::Isa;
use crate::route::{Route, Work};

/// The kernel of `isa` for `route`. `isa` must be one of [`Isa::available`].
pub(crate) fn kernel(isa: Isa, route: &Route) -> Kernel {
    debug_assert!(isa.is_available());
    match route.work {
        Work::Copy => drive::copy,
        // Every tier that has kernels gets its arm here; what it leaves out the reference does.
        Work::Keep | Work::Convert => drive::scalar,
    }
}
