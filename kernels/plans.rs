//! Makes the plans of casts and keeps them, each once per process.

use super::backend::{Backend, on};
use super::drive;
use super::once::Once;
use super::plan::Plan;
#[cfg(any(isa = "vector", test))]
use super::plan::Planned;
use super::present::Present;
#[cfg(isa = "vector")]
use super::{stochastic, vector};
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
#[cfg(isa = "vector")]
use crate::formats::layout::ByteOrder;
use crate::formats::options::CastOptions;
#[cfg(isa = "vector")]
use crate::formats::options::Rounding;
use crate::formats::route::{Work, route};

/// A plan, in a linked list of the plans of the same pair.
struct Made {
    /// The key of the options; equal keys have equal plans.
    key: u64,
    plan: Plan,
    others: Once<Made>,
}

const DTYPES: usize = DType::ALL.len();
/// More than every `Isa as usize`.
const ISAS: usize = Isa::ALL.len() + 1;

/// The plans of every pair. Once made, they are neither changed nor freed.
static PLANS: [[[Once<Made>; DTYPES]; DTYPES]; ISAS] =
    [const { [const { [const { Once::new() }; DTYPES] }; DTYPES] }; ISAS];

/// The plan of a cast under some options on `isa`, which must be one that the CPU has. None if there is no memory for it.
#[inline]
pub(crate) fn plan(isa: Isa, from: DType, to: DType, options: &CastOptions) -> Option<&'static Plan> {
    debug_assert!(Backend::present(isa).is_some());
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

/// The plan with this key, if it is the first of its pair in the list. `isa` is the code of an instruction set. Inlined: where
/// pair and options are constants, nothing is computed and nothing called.
#[inline(always)]
pub(crate) fn first(isa: u8, from: DType, to: DType, key: u64) -> Option<&'static Plan> {
    let made = PLANS.get(usize::from(isa))?[from as usize][to as usize].get()?;
    (made.key == key).then_some(&made.plan)
}

/// Makes the plan with this key, which was not found in the list before `plans`.
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
        let made = plans.get_or_make_in(|place| {
            let options = CastOptions { stream_from: None, ..*options };
            Some(place.write(Made { key, plan: new(isa, from, to, options), others: Once::new() }))
        })?;
        if made.key == key {
            return Some(&made.plan);
        }
        plans = &made.others;
    }
}

fn new(isa: Isa, from: DType, to: DType, options: CastOptions) -> Plan {
    let present = Backend::present(isa).unwrap_or(Present::REFERENCE);
    #[cfg_attr(not(isa = "vector"), allow(unused_mut, reason = "nothing is added to it"))]
    let mut plan = Plan { isa: present, ..reference(from, to, options) };
    // Filled in place, because a copy would take stack.
    let _: Option<()> = on!(present, token => {
        if plan.route.is_stochastic {
            plan.casts = casts(isa, from, to, &options);
        }
        vector::plan(token, &mut plan);
    });
    plan
}

/// The plan of the reference.
fn reference(from: DType, to: DType, options: CastOptions) -> Plan {
    let route = route(from, to, &options);
    Plan {
        from,
        to,
        isa: Present::REFERENCE,
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
        tuples: None,
        #[cfg(isa = "vector")]
        floats: false,
        #[cfg(isa = "vector")]
        flushes: false,
        #[cfg(isa = "vector")]
        quick: 0,
        #[cfg(isa = "vector")]
        few: drive::scalar,
        #[cfg(isa = "vector")]
        casts: None,
        #[cfg(isa = "vector")]
        stream_rows: None,
        limits: Once::new(),
    }
}

/// How a cast is run, for `Debug`.
#[derive(Debug)]
pub(crate) enum By {
    /// The bytes are copied.
    Copy,
    /// This number of kernels, one after the other.
    Kernels(#[expect(dead_code, reason = "it is said by `Debug`")] usize),
    Reference,
}

impl Plan {
    pub(crate) fn by(&self) -> By {
        #[cfg(isa = "vector")]
        let kernels = match &self.casts {
            Some([there, back]) => there.steps.len() + 1 + back.steps.len(),
            // Without steps, one kernel moves bytes.
            None if self.stream_rows.is_some() => self.steps.len().max(1),
            None => 0,
        };
        #[cfg(not(isa = "vector"))]
        let kernels = 0;
        match kernels {
            _ if self.route.work == Work::Copy => By::Copy,
            0 => By::Reference,
            n => By::Kernels(n),
        }
    }
}

/// The casts of a stochastic route to the float in which it rounds, and from there to the target. Neither rounds anything;
/// overflow is handled as in rounding to nearest even.
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
    use super::*;

    /// Parts stream as the whole would, even of a view that has more elements than there are bytes of memory.
    #[test]
    fn parts_of_more_than_memory() {
        static PLAN: Once<Plan> = Once::new();
        let options = CastOptions::new();
        let make = || Plan { stream_from: 1 << 24, ..reference(DType::U8, DType::I8, options) };
        let plan = PLAN.get_or_make(|| Some(make())).expect("there is memory");
        let planned = Planned::new(plan, &options);
        for n in [usize::MAX / 2 + 1, usize::MAX] {
            assert!(planned.part_of(n).streams_all());
        }
        assert!(!planned.part_of(1 << 20).streams_all());
    }
}
