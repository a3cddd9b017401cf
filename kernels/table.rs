//! Which kernel an instruction set runs for a route: the plans, each made once and kept.

use super::drive::{self, Plan, Planned};
use super::once::Once;
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
use crate::formats::options::CastOptions;
#[cfg(isa = "vector")]
use crate::formats::route::{Parts, Route};
use crate::formats::route::{Work, route};

/// A plan, behind which are those that were made after it for the same pair.
struct Made {
    /// Of its options.
    key: u64,
    plan: Plan,
    others: Once<Made>,
}

const DTYPES: usize = DType::ALL.len();
/// One more than the number of every instruction set.
const ISAS: usize = 5;

/// The plans of every pair. They are made and never changed, nor freed.
static PLANS: [[[Once<Made>; DTYPES]; DTYPES]; ISAS] =
    [const { [const { [const { Once::new() }; DTYPES] }; DTYPES] }; ISAS];

/// What `isa` runs for a cast under some options. It must be one of [`Isa::available`]. None if there is no memory for that.
#[inline]
pub(crate) fn plan(isa: Isa, from: DType, to: DType, options: &CastOptions) -> Option<Planned> {
    debug_assert!(isa.is_available());
    let key = options.key(from, to);
    let mut plans = &PLANS[isa as usize][from as usize][to as usize];
    loop {
        let made = plans.get_or_make(|| {
            let options = CastOptions { stream_from: None, ..*options };
            Some(Made { key, plan: new(isa, from, to, options), others: Once::new() })
        })?;
        if made.key == key {
            return Some(Planned::new(&made.plan, options));
        }
        plans = &made.others;
    }
}

fn new(isa: Isa, from: DType, to: DType, options: CastOptions) -> Plan {
    let route = route(from, to, &options);
    let plan = Plan {
        from,
        to,
        isa,
        options: CastOptions { stochastic: None, ..options },
        route,
        kernel: match route.work {
            Work::Copy => drive::copy,
            Work::Convert if route.is_stochastic => drive::stochastic,
            _ => drive::scalar,
        },
        stream_from: usize::MAX,
        #[cfg(isa = "vector")]
        steps: &[],
        #[cfg(isa = "vector")]
        is_ready: false,
        #[cfg(isa = "vector")]
        quick: 0,
        #[cfg(isa = "vector")]
        stream_rows: None,
    };
    match isa {
        #[cfg(isa = "avx512")]
        Isa::Avx512 => vector::<super::avx512::Zmm>(plan),
        #[cfg(isa = "avx2")]
        Isa::Avx2 => vector::<super::avx2::Avx2>(plan),
        #[cfg(isa = "neon")]
        Isa::Neon => vector::<super::neon::Neon>(plan),
        _ => plan,
    }
}

/// The plan with the kernels of an instruction set.
#[cfg(isa = "vector")]
fn vector<I: super::simd::Simd>(plan: Plan) -> Plan {
    use super::{codec, environment, once, stage, stochastic, stream, vector};
    let route = &plan.route;
    if route.work == Work::Copy {
        return Plan { kernel: vector::copy::<I>, ..plan };
    }
    if route.is_stochastic {
        return Plan { kernel: stochastic::kernel::<I>, ..plan };
    }
    // Where there is no memory for that or for a table, the reference needs none.
    let mut found = drive::Steps::NONE;
    let Some(steps) = codec::table::find_steps::<I>(route, &mut found).and_then(|()| once::keep(found.all()))
    else {
        return plan;
    };
    let ready = match steps {
        [step] if stage::is_plain(route) => Some(*step),
        _ => None,
    };
    Plan {
        kernel: if ready.is_some() { vector::plain::<I> } else { vector::shaped::<I> },
        stream_from: if keeps_up::<I>(route) { environment::streaming_threshold() } else { usize::MAX },
        quick: ready.map_or(0, |step| if step.core.floats { 0 } else { vector::MANY - 1 }),
        is_ready: ready.is_some(),
        steps,
        stream_rows: Some(stream::rows::<I>),
        ..plan
    }
}

/// Does a codec keep up with memory? Then its results are better streamed. What computes for longer than memory moves
/// the same bytes had better leave them to the caches, which write them meanwhile.
///
/// Registers of 64 bytes keep up, and what writes an imaginary part of 0 beside each result. The others do not where they
/// look at a table row by row, round to a narrow float, or have no instruction for what they convert. None does where it
/// packs elements of 64 bits and more, or floats that take long to narrow: so little of that is written that to stream it
/// gains less than it costs. Measured both ways, on some eighty pairs of all these kinds.
#[cfg(isa = "vector")]
fn keeps_up<I: super::simd::Simd>(route: &Route) -> bool {
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
    use super::super::drive::Kernel;
    use super::*;
    use crate::{ByteOrder, Overflow, Packing, Rounding};

    /// How a pair is cast: copied, by a vector kernel, or by the scalar reference.
    fn kind(isa: Isa, from: DType, to: DType, options: &CastOptions) -> char {
        let plan = plan(isa, from, to, options).unwrap();
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

    /// Views may have more elements than there are bytes of memory.
    #[test]
    fn parts_of_more_than_memory() {
        for &isa in Isa::available() {
            let plan = plan(isa, DType::U8, DType::I8, &CastOptions::new()).unwrap();
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
            let plan = plan(isa, DType::F32, DType::BF16, &CastOptions::new()).unwrap();
            let Some(&with) = plan.ready() else { continue };
            let mut without = with;
            without.job.extras.bf16 = false;
            let [expected, found] = [with, without].map(|step| {
                let mut dst = vec![0u16; src.len()];
                let _environment = super::super::environment::Environment::new(Rounding::NearestEven);
                // SAFETY: as many elements of both dtypes, in buffers of their own.
                unsafe { step.run(src.as_ptr().cast(), dst.as_mut_ptr().cast(), src.len()) };
                dst
            });
            assert!(expected == found, "{isa}");
        }
    }
}
