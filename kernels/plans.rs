//! Which kernel an instruction set runs for a route: the plans, each made once and kept.

use super::backend::Backend;
use super::drive;
use super::once::Once;
use super::plan::Plan;
#[cfg(any(isa = "vector", test))]
use super::plan::Planned;
use super::present::Present;
#[cfg(isa = "vector")]
use super::stochastic;
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
#[cfg(isa = "vector")]
use crate::formats::layout::ByteOrder;
use crate::formats::options::CastOptions;
#[cfg(isa = "vector")]
use crate::formats::options::Rounding;
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
const ISAS: usize = Isa::ALL.len() + 1;

/// The plans of every pair. They are made and never changed, nor freed.
static PLANS: [[[Once<Made>; DTYPES]; DTYPES]; ISAS] =
    [const { [const { [const { Once::new() }; DTYPES] }; DTYPES] }; ISAS];

/// What `isa` runs for a cast under some options. It must be one of [`Isa::available`]. None if there is no memory for that.
#[inline]
pub(crate) fn plan(isa: Isa, from: DType, to: DType, options: &CastOptions) -> Option<&'static Plan> {
    debug_assert!(isa.is_available());
    let key = options.key(from, to);
    let mut plans = &PLANS[isa as usize][from as usize][to as usize];
    while let Some(made) = plans.get() {
        if made.key == key {
            return Some(&made.plan);
        }
        plans = &made.others;
    }
    make(plans, key, isa, from, to, options)
}

/// The same by the code of an instruction set and a key, if it is the first that was made for its pair. (What is known when the caller is compiled
/// takes no time, and no call.)
#[inline(always)]
pub(crate) fn first(isa: u8, from: DType, to: DType, key: u64) -> Option<&'static Plan> {
    let made = PLANS.get(usize::from(isa))?[from as usize][to as usize].get()?;
    (made.key == key).then_some(&made.plan)
}

/// The plan with a key, which was not among those that are kept before `plans`.
#[cold]
#[inline(never)]
fn make(
    mut plans: &'static Once<Made>,
    key: u64,
    isa: Isa,
    from: DType,
    to: DType,
    options: &CastOptions,
) -> Option<&'static Plan> {
    loop {
        let made = plans.get_or_make(|| {
            let options = CastOptions { stream_from: None, ..*options };
            Some(Made { key, plan: new(isa, from, to, options), others: Once::new() })
        })?;
        if made.key == key {
            return Some(&made.plan);
        }
        plans = &made.others;
    }
}

fn new(isa: Isa, from: DType, to: DType, options: CastOptions) -> Plan {
    let route = route(from, to, &options);
    let present = Backend::present(isa).unwrap_or(Present::REFERENCE);
    let plan = Plan {
        from,
        to,
        isa: present,
        options: CastOptions { stochastic: None, ..options },
        route,
        kernel: match route.work {
            Work::Copy => drive::copy,
            _ => drive::scalar,
        },
        stream_from: usize::MAX,
        #[cfg(isa = "vector")]
        steps: &[],
        #[cfg(isa = "vector")]
        ready: None,
        #[cfg(isa = "vector")]
        groups: None,
        #[cfg(isa = "vector")]
        floats: false,
        #[cfg(isa = "vector")]
        flushes: false,
        #[cfg(isa = "vector")]
        quick: 0,
        #[cfg(isa = "vector")]
        few: drive::scalar,
        #[cfg(isa = "vector")]
        casts: if route.is_stochastic { casts(isa, from, to, &options) } else { None },
        #[cfg(isa = "vector")]
        stream_rows: None,
        limits: Once::new(),
    };
    (Backend::of(present.isa()).plan)(plan)
}

/// The casts of a stochastic route to the float in which it rounds, and from there: nothing is left to round, and overflow is
/// that of nearest.
#[cfg(isa = "vector")]
fn casts(isa: Isa, from: DType, to: DType, options: &CastOptions) -> Option<[Planned; 2]> {
    let home = stochastic::home(from)?;
    let options = CastOptions {
        rounding: Rounding::NearestEven,
        stochastic: None,
        stream_from: Some(usize::MAX),
        ..*options
    };
    let there = plan(isa, from, home, &options.dst_order(ByteOrder::Native))?;
    let back = plan(isa, home, to, &options.src_order(ByteOrder::Native))?;
    Some([there, back].map(|plan| Planned::new(plan, &options)))
}

#[cfg(test)]
mod tests {
    use super::super::plan::Kernel;
    use super::*;
    use crate::{ByteOrder, NanToFinite, Overflow, Packing, Rounding};

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
            #[cfg(isa = "simd128")]
            super::super::vector::copy::<super::super::simd128::Simd128>,
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

    /// Options that do not concern a pair make no plan of their own.
    #[test]
    fn plans_are_kept_by_what_matters_to_the_pair() {
        let default = CastOptions::new();
        for (from, to, others) in [
            (
                DType::F32,
                DType::I8,
                [default.rounding(Rounding::Up).saturate(false), default.stochastic(7, 0)],
            ),
            (
                DType::F32,
                DType::F16,
                [default.float_to_int(Overflow::Wrap), default.nan_to_finite(NanToFinite::Max)],
            ),
            (
                DType::I64,
                DType::U8,
                [default.int_rounding(Rounding::Up), default.narrow_int_rounding(Rounding::Up)],
            ),
            (DType::F8E5M2, DType::Bool, [default.saturate(false), default.dst_packing(Packing::OnePerByte)]),
        ] {
            let kept = plan(Isa::Scalar, from, to, &default).unwrap();
            for seed in 0..100 {
                for options in &others {
                    let seeded =
                        if options.stochastic.is_some() { options.stochastic(seed, 0) } else { *options };
                    let other = plan(Isa::Scalar, from, to, &seeded).unwrap();
                    assert!(core::ptr::eq(kept, other), "{from} -> {to}, {seeded:?}");
                }
            }
        }
    }

    /// Views may have more elements than there are bytes of memory.
    #[test]
    fn parts_of_more_than_memory() {
        for &isa in Isa::available() {
            let options = CastOptions::new();
            let plan = Planned::new(plan(isa, DType::U8, DType::I8, &options).unwrap(), &options);
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
            let Some(&with) = plan.ready else { continue };
            let mut without = with;
            without.job.extras.bf16 = None;
            let [expected, found] = [with, without].map(|step| {
                let mut dst = vec![0u16; src.len()];
                let _environment = super::super::environment::Environment::new(Rounding::NearestEven);
                // SAFETY: as many elements of both dtypes, in buffers of their own.
                unsafe {
                    step.job.run_rows(
                        src.as_ptr().cast(),
                        dst.as_mut_ptr().cast(),
                        src.len(),
                        &super::super::layout::Apart::ONE,
                    );
                }
                dst
            });
            assert!(expected == found, "{isa}");
        }
    }
}
