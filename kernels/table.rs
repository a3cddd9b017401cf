//! Which kernel an instruction set runs for a route.

use super::drive::{self, Kernel, Plan};
use crate::isa::Isa;
#[cfg(isa = "vector")]
use crate::route::Parts;
use crate::route::{Route, Work};

/// What `isa` runs for `route`. `isa` must be one of [`Isa::available`].
pub(crate) fn plan(isa: Isa, route: Route) -> Plan {
    debug_assert!(isa.is_available());
    match (route.work, isa) {
        (Work::Copy, _) => other(route, drive::copy),
        #[cfg(isa = "avx512")]
        (_, Isa::Avx512) => vector::<super::avx512::Avx512>(route),
        #[cfg(isa = "avx2")]
        (_, Isa::Avx2) => vector::<super::avx2::Avx2>(route),
        #[cfg(isa = "neon")]
        (_, Isa::Neon) => vector::<super::neon::Neon>(route),
        _ => other(route, drive::scalar),
    }
}

/// A kernel that is no codec.
fn other(route: Route, kernel: Kernel) -> Plan {
    Plan {
        route,
        kernel,
        #[cfg(isa = "vector")]
        core: None,
        #[cfg(isa = "vector")]
        hub: None,
        #[cfg(isa = "vector")]
        groups: None,
        #[cfg(isa = "vector")]
        table: None,
    }
}

#[cfg(isa = "vector")]
fn vector<I: super::isa::Isa>(route: Route) -> Plan {
    use super::{codec, stage, vector};
    let hub = codec::table::hub::<I>(&route);
    // Codes are kept by moving bytes; but narrow ones by a table that changes none, and those of a real part by
    // the codec that takes it out.
    let converts = route.work == Work::Convert || route.src.bits < 8 || route.parts == Parts::Real;
    let core = converts.then(|| match hub {
        Some((_, from)) => codec::table::core::<I>(&Route { from, parts: Parts::One, ..route }),
        None => codec::table::core::<I>(&route),
    });
    let is_plain = hub.is_none() && stage::is_plain(&route);
    let kernel = if is_plain { vector::plain::<I> } else { vector::shaped::<I> };
    let groups = codec::group::core::<I>(&route);
    Plan { route, kernel, core, hub, groups, table: codec::lookup::default_table(&route) }
}
