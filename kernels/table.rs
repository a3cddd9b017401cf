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
        job: super::codec::Job::new(&route, core::ptr::null(), false),
        #[cfg(isa = "vector")]
        ready: None,
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
    let table = codec::lookup::default_table(&route);
    let job = codec::Job::new(&route, table.map_or(core::ptr::null(), <[u8]>::as_ptr), I::has_bf16());
    let ready = core.filter(|_| is_plain && (table.is_some() || !codec::lookup::has_table(&route)));
    Plan { route, kernel, core, hub, groups, job, ready }
}

#[cfg(all(test, isa = "vector"))]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::options::CastOptions;
    use crate::route::route;

    /// A CPU that has the instruction runs the other path for hardly anything, and one without it never runs this.
    #[test]
    fn bfloat16_is_the_same_without_its_instruction() {
        const LOW: [u32; 8] = [0, 1, 0x5555, 0x7FFF, 0x8000, 0x8001, 0xAAAA, 0xFFFF];
        let src: Vec<u32> = (0..1 << 16).flat_map(|high| LOW.map(|low| high << 16 | low)).collect();
        for &isa in Isa::available() {
            let with = plan(isa, route(DType::F32, DType::BF16, &CastOptions::new()));
            let mut without = with;
            without.job.has_bf16 = false;
            let [expected, found] = [with, without].map(|plan| {
                let mut dst = vec![0u16; src.len()];
                // SAFETY: as many elements of both dtypes, in buffers of their own.
                unsafe { (plan.kernel)(&plan, src.as_ptr().cast(), dst.as_mut_ptr().cast(), src.len()) };
                dst
            });
            assert!(expected == found, "{isa}");
        }
    }
}
