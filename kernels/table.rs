//! Which kernel an instruction set runs for a route.

use super::drive::{self, Kernel, Plan};
#[cfg(isa = "vector")]
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
#[cfg(isa = "vector")]
use crate::formats::route::Parts;
use crate::formats::route::{Route, Work};

/// What `isa` runs for `route`. `isa` must be one of [`Isa::available`].
pub(crate) fn plan(isa: Isa, route: Route) -> Plan {
    debug_assert!(isa.is_available());
    match (route.work, isa) {
        #[cfg(isa = "avx512")]
        (Work::Copy, Isa::Avx512) => other(route, super::vector::copy::<super::avx512::Zmm>),
        #[cfg(isa = "avx2")]
        (Work::Copy, Isa::Avx2) => other(route, super::vector::copy::<super::avx2::Avx2>),
        #[cfg(isa = "neon")]
        (Work::Copy, Isa::Neon) => other(route, super::vector::copy::<super::neon::Neon>),
        (Work::Copy, _) => other(route, drive::copy),
        #[cfg(isa = "avx512")]
        (_, Isa::Avx512) => vector::<super::avx512::Zmm>(route),
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
        job: super::codec::Job::new(&route, core::ptr::null(), super::isa::Extras::this()),
        #[cfg(isa = "vector")]
        ready: None,
        #[cfg(isa = "vector")]
        few: None,
        #[cfg(isa = "vector")]
        few_parts: None,
        #[cfg(isa = "vector")]
        stream_rows: None,
        #[cfg(isa = "vector")]
        fences: true,
    }
}

#[cfg(isa = "vector")]
fn vector<I: super::isa::Isa>(mut route: Route) -> Plan {
    use super::{codec, stage, stream, vector};
    if route.stream_from.is_none() && !keeps_up::<I>(&route) {
        route.stream_from = Some(usize::MAX);
    }
    let hub = codec::table::hub::<I>(&route);
    // Narrow codes are kept by a table that changes none, and those of a real part by the codec that takes it out.
    let converts = route.work == Work::Convert || route.src.bits < 8 || route.parts == Parts::Real;
    let core = match hub {
        Some((_, from)) => Some(codec::table::core::<I>(&Route { from, parts: Parts::One, ..route })),
        None if converts => Some(codec::table::core::<I>(&route)),
        None if route.src.swapped || route.dst.swapped => Some(codec::table::kept::<I>(route.src.bits)),
        None => None,
    };
    let is_plain = hub.is_none() && stage::is_plain(&route);
    let kernel = if is_plain { vector::plain::<I> } else { vector::shaped::<I> };
    let groups = codec::group::core::<I>(&route);
    let table = match core {
        Some(_) if codec::lookup::has_table(&route) => codec::lookup::table(&route),
        Some(_) if codec::narrow::goes_by_table::<I>(&route) => codec::narrow::table(route.to),
        _ => Some(core::ptr::null()),
    };
    // Where there is no memory for a table, the reference needs none.
    let Some(table) = table else { return other(route, drive::scalar) };
    let job = codec::Job::new(&route, table, super::isa::Extras::this());
    let ready = core.filter(|_| is_plain);
    let of_few = core.filter(|_| hub.is_none()).and_then(|_| few::<I>(&route));
    let (few, few_parts) = if is_plain { (of_few, None) } else { (None, of_few) };
    let stream_rows = Some(stream::rows::<I> as stream::Rows);
    Plan { route, kernel, core, hub, groups, job, ready, few, few_parts, stream_rows, fences: true }
}

/// What casts a few elements in native order, if its operations round as the route does.
#[cfg(isa = "vector")]
fn few<I: super::isa::Isa>(route: &Route) -> Option<drive::Core> {
    use super::isa::Isa;
    use crate::formats::dtype::Kind;
    use crate::formats::options::Rounding;
    if !I::Few::IS_FEW || route.src.swapped || route.dst.swapped {
        return None;
    }
    let core = super::codec::table::core::<I::Few>(route);
    let rounds_to = match route.to.kind() {
        Kind::Int(_) => Rounding::TowardZero,
        _ => Rounding::NearestEven,
    };
    Some(core).filter(|core| !core.floats || route.policy.rounding == rounds_to)
}

/// Does a codec keep up with memory? Then its results are better streamed. What computes for longer than memory moves
/// the same bytes had better leave them to the caches, which write them meanwhile.
///
/// Registers of 64 bytes keep up, and what writes an imaginary part of 0 beside each result. The others do not where they
/// look at a table row by row, round to a narrow float, or have no instruction for what they convert. None does where it
/// packs elements of 64 bits and more, or floats that take long to narrow: so little of that is written that to stream it
/// gains less than it costs. Measured both ways, on some eighty pairs of all these kinds.
#[cfg(isa = "vector")]
fn keeps_up<I: super::isa::Isa>(route: &Route) -> bool {
    use crate::formats::dtype::Kind;
    let (from, to) = (route.from, route.to);
    let floats = [from, to].map(|dtype| matches!(dtype.kind(), Kind::Float(_)));
    let is_table = from.bits() < 8 || floats[0] && from.bits() == 8;
    let has_no_instruction = match floats {
        [true, true] => from.bits() == 16 && to.bits() == 16,
        [true, false] => from.bits() == 16,
        [false, true] => to == DType::BF16 || from.bits() == 64 && to != DType::F64,
        [false, false] => false,
    };
    let is_narrow = floats[1] && to.bits() <= 8;
    let is_wide = route.src.memory_bits() as usize * route.src.parts >= 64;
    let is_slow = floats[0] && (from.bits() == 16 || from.bits() == 32 && floats[1]);
    let packs = route.dst.is_packed() && (is_wide || is_slow);
    let computes = I::BYTES < 64 && (is_table || is_narrow || has_no_instruction);
    !packs && !computes || route.parts == Parts::Extend || route.work == Work::Keep
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(not(isa = "vector"))]
    use crate::formats::dtype::DType;
    use crate::formats::options::CastOptions;
    use crate::formats::route::route;
    use crate::{ByteOrder, Overflow, Packing, Rounding};

    /// How a pair is cast: copied, by a vector kernel, or by the scalar reference.
    fn kind(isa: Isa, from: DType, to: DType, options: &CastOptions) -> char {
        let plan = plan(isa, route(from, to, options));
        let copies: &[Kernel] = &[
            drive::copy,
            #[cfg(isa = "avx512")]
            super::super::vector::copy::<super::super::avx512::Zmm>,
            #[cfg(isa = "avx2")]
            super::super::vector::copy::<super::super::avx2::Avx2>,
            #[cfg(isa = "neon")]
            super::super::vector::copy::<super::super::neon::Neon>,
        ];
        if copies.iter().any(|&copy| core::ptr::fn_addr_eq(plan.kernel, copy)) {
            'c'
        } else if core::ptr::fn_addr_eq(plan.kernel, drive::scalar as Kernel) {
            's'
        } else {
            'v'
        }
    }

    /// The table of what an instruction set has: `cargo test --lib support -- --nocapture` prints it.
    #[test]
    fn support() {
        for &isa in Isa::available() {
            println!("{isa}: rows are sources, columns targets in the same order; v: vector kernel, c: copy");
            for from in DType::ALL {
                let row: String =
                    DType::ALL.map(|to| kind(isa, from, to, &CastOptions::new())).iter().collect();
                println!("{from:>20} {row}");
            }
        }
    }

    /// Every pair has a vector kernel on every instruction set but the reference, in every mode and every layout,
    /// if it is not copied.
    #[test]
    fn nothing_is_left_to_the_reference() {
        let swapped = if cfg!(target_endian = "big") { ByteOrder::Little } else { ByteOrder::Big };
        let default = CastOptions::new();
        let options = [
            default,
            default.saturate(false).float_to_int(Overflow::Wrap).int_to_int(Overflow::Saturate),
            default.rounding(Rounding::Up).int_rounding(Rounding::NearestAway),
            default.rounding(Rounding::NearestAway).int_rounding(Rounding::NearestEven),
            default.src_packing(Packing::OnePerByte).dst_order(swapped),
            default.dst_packing(Packing::HighFirst).src_order(swapped),
        ];
        for &isa in Isa::available().iter().filter(|isa| **isa != Isa::Scalar) {
            for (from, to) in DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|to| (from, to))) {
                for options in &options {
                    let expected = if route(from, to, options).work == Work::Copy { 'c' } else { 'v' };
                    assert_eq!(kind(isa, from, to, options), expected, "{isa}: {from} -> {to}, {options:?}");
                }
            }
        }
    }

    /// Where an instruction set has a form for a few elements, it has it for every pair under the default options, and for
    /// integers in every mode: but for copies, and parts that stay as they are.
    #[cfg(isa = "vector")]
    #[test]
    fn a_few() {
        let default = CastOptions::new();
        let saturated = default.int_to_int(Overflow::Saturate);
        for &isa in Isa::available() {
            let has_few = |from, to, options: &CastOptions| {
                let plan = plan(isa, route(from, to, options));
                plan.core.is_none() || plan.few.is_some() || plan.few_parts.is_some()
            };
            if !has_few(DType::F32, DType::F16, &default) {
                println!("{isa}: no form for a few elements");
                continue;
            }
            for (from, to) in DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|to| (from, to))) {
                assert!(has_few(from, to, &default), "{isa}: {from} -> {to}");
                assert!(has_few(from, to, &saturated), "{isa}: {from} -> {to}, saturating");
            }
        }
    }

    /// Views may have more elements than there are bytes of memory.
    #[test]
    fn parts_of_more_than_memory() {
        for &isa in Isa::available() {
            let plan = plan(isa, route(DType::U8, DType::I8, &CastOptions::new()));
            for n in [usize::MAX / 2 + 1, usize::MAX] {
                assert_eq!(plan.part_of(n).route.from, DType::U8);
            }
        }
    }

    /// A CPU that has the instruction runs the other path for hardly anything, and one without it never runs this.
    #[cfg(isa = "vector")]
    #[test]
    fn bfloat16_is_the_same_without_its_instruction() {
        const LOW: [u32; 8] = [0, 1, 0x5555, 0x7FFF, 0x8000, 0x8001, 0xAAAA, 0xFFFF];
        let src: Vec<u32> = (0..1 << 16).flat_map(|high| LOW.map(|low| high << 16 | low)).collect();
        for &isa in Isa::available() {
            let with = plan(isa, route(DType::F32, DType::BF16, &CastOptions::new()));
            let mut without = with;
            without.job.extras.bf16 = false;
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
