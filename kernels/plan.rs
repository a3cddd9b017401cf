//! The plan of a cast: which kernels run, and in which steps. `plans.rs` makes plans and keeps them.

use core::ops::Deref;

#[cfg(isa = "vector")]
use super::codec::job::Job;
#[cfg(isa = "vector")]
use super::environment::Environment;
use super::layout::Apart;
use super::limits::Limits;
use super::once::Once;
use super::present::Present;
#[cfg(isa = "vector")]
use super::sizes::{codec_bits, codec_units};
use crate::formats::dtype::DType;
use crate::formats::options::CastOptions;
use crate::formats::route::{Layout, Route};
use crate::formats::stochastic::Stochastic;

/// A cast, down to the functions that run it; made once for a pair and its options, and kept.
pub(crate) struct Plan {
    pub(crate) from: DType,
    pub(crate) to: DType,
    pub(crate) isa: Present,
    /// The options without `stream_from` and `stochastic`, which each caster keeps for itself.
    pub(crate) options: CastOptions,
    pub(crate) route: Route,
    pub(crate) kernel: PlanKernel,
    /// The number of bytes, read and written, from which on results are streamed past the caches, unless the caster says otherwise.
    pub(super) stream_from: usize,
    /// The codecs that run one after the other, on the parts of elements (a complex element has two). Empty where bytes only move.
    #[cfg(isa = "vector")]
    pub(super) steps: &'static [Step],
    /// The only step, if it casts the elements as they are in memory.
    #[cfg(isa = "vector")]
    pub(super) ready: Option<&'static Step>,
    /// For many elements, a codec that takes several packed elements as one.
    #[cfg(isa = "vector")]
    pub(super) tuples: Option<&'static PackedTuple>,
    /// Whether a step needs the floating-point environment to be set.
    #[cfg(isa = "vector")]
    pub(super) floats: bool,
    /// Whether some step gains where subnormal numbers are flushed, and every result stays the same.
    #[cfg(isa = "vector")]
    pub(super) flushes: bool,
    /// The number of elements up to which only the codec is run: without setting an environment, and without streaming.
    #[cfg(isa = "vector")]
    pub(super) quick: usize,
    /// The kernel for no more than `quick` elements where there are several steps.
    #[cfg(isa = "vector")]
    pub(super) few: PlanKernel,
    /// For a stochastic route, the casts before and after the rounding, if that is done a tile at a time.
    #[cfg(isa = "vector")]
    pub(super) casts: Option<[Planned; 2]>,
    /// The loop that streams the results of a kernel past the caches.
    #[cfg(isa = "vector")]
    pub(super) stream_rows: Option<StreamRows>,
    /// The values from which on something is lost, and whether Inf and NaN are lost. Computed by the first checked cast.
    pub(crate) limits: Once<(Limits, [bool; 2])>,
}

impl Plan {
    /// Sets the environment in which the steps run, if they need one. (Flushing subnormal numbers does not pay for few elements.)
    #[cfg(isa = "vector")]
    #[inline(always)]
    pub(super) fn environment(&self, are_many: bool) -> Option<Environment> {
        let rounding = self.route.policy.rounding;
        if are_many && self.flushes {
            Some(Environment::flushing(rounding))
        } else {
            self.floats.then(|| Environment::new(rounding))
        }
    }

    /// Whether a single codec casts `n` elements without any preparation.
    #[inline(always)]
    pub(crate) fn casts_at_once(&self, n: usize) -> bool {
        #[cfg(isa = "vector")]
        return self.ready.is_some() && n.wrapping_sub(1) < self.quick;
        #[cfg(not(isa = "vector"))]
        {
            _ = n;
            false
        }
    }
}

/// A plan, with what the caster's options add to it.
#[derive(Clone, Copy)]
pub(crate) struct Planned {
    pub(crate) plan: &'static Plan,
    /// The number of bytes, read and written, from which on results are streamed; or [`ALL`](Self::ALL) or [`ROWS`](Self::ROWS).
    stream_from: usize,
    /// The random words, for a stochastic route.
    pub(super) stochastic: Stochastic,
}

impl Deref for Planned {
    type Target = Plan;

    #[inline(always)]
    fn deref(&self) -> &Plan {
        self.plan
    }
}

impl Planned {
    /// All results are streamed past the caches.
    const ALL: usize = 1;
    /// All results are streamed, and the kernel issues no fence afterwards: its caller does, once for all rows.
    const ROWS: usize = 0;

    #[inline(always)]
    pub(crate) fn new(plan: &'static Plan, options: &CastOptions) -> Self {
        let stream_from = options.stream_from.map_or(plan.stream_from, |from| from.max(Self::ALL));
        let stochastic = options.stochastic.unwrap_or(Stochastic::NONE);
        Self { plan, stream_from, stochastic }
    }

    /// This plan, for a buffer that begins with this element of the whole, and thus has other random words.
    pub(crate) fn at(self, element: usize) -> Self {
        Self { stochastic: self.stochastic.at(element), ..self }
    }

    /// The random words, if the route is stochastic.
    pub(crate) fn stochastic(&self) -> Option<Stochastic> {
        self.route.is_stochastic.then_some(self.stochastic)
    }

    /// Whether `n` elements are so few that only the codec is run.
    #[inline(always)]
    pub(crate) fn is_quick(&self, n: usize) -> bool {
        #[cfg(isa = "vector")]
        return n.wrapping_sub(1) < self.plan.quick;
        #[cfg(not(isa = "vector"))]
        {
            let _ = n;
            false
        }
    }

    /// Runs the kernel, or what is faster if there are few elements.
    ///
    /// # Safety
    /// As for a [`PlanKernel`].
    #[inline(always)]
    pub(crate) unsafe fn run(&self, src: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise; `vector::plan` chose the kernels for this route.
        unsafe {
            if self.is_quick(n) {
                self.run_quick(src, dst, n);
            } else {
                (self.kernel)(self, src, dst, n);
            }
        }
    }

    /// Runs the codec on few elements.
    ///
    /// # Safety
    /// As for a [`PlanKernel`]; and there are so few elements that [`Planned::is_quick`] says so.
    #[inline(always)]
    pub(crate) unsafe fn run_quick(&self, src: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise; `vector::plan` chose the kernels for this route.
        #[cfg(isa = "vector")]
        unsafe {
            match self.plan.ready {
                Some(step) => step.job.run_rows(src, dst, codec_units(&self.route, n), &Apart::ONE),
                None => (self.plan.few)(self, src, dst, n),
            }
        }
        #[cfg(not(isa = "vector"))]
        let _ = (src, dst, n);
    }

    /// Whether nothing has to be prepared for a row, so that short rows cost little.
    pub(super) fn is_ready(&self) -> bool {
        #[cfg(isa = "vector")]
        return self.ready.is_some();
        #[cfg(not(isa = "vector"))]
        false
    }

    /// Whether `n` elements, of `bits` bits on both sides together, are so many that results are streamed.
    pub(super) fn streams(&self, n: usize, bits: usize) -> bool {
        // 8 elements have as many bytes as one has bits. A view that repeats elements may have more of them than there is memory.
        (n / 8).saturating_mul(bits) >= self.stream_from
    }

    /// Whether all results are streamed.
    pub(super) fn streams_all(&self) -> bool {
        self.stream_from <= Self::ALL
    }

    /// The number of bytes from which on the caller's options want results to be streamed, if they say anything about that.
    pub(crate) fn stream_option(&self) -> Option<usize> {
        (self.stream_from != self.plan.stream_from).then_some(self.stream_from)
    }

    /// Whether the kernel issues a fence after it has streamed.
    #[cfg(isa = "vector")]
    pub(super) fn fences(&self) -> bool {
        self.stream_from != Self::ROWS
    }

    /// This plan, for parts of a cast of `n` elements: they are streamed if the whole would be.
    pub(crate) fn part_of(self, n: usize) -> Self {
        // 8 elements have as many bytes as one has bits.
        let bits = |layout: &Layout| layout.size(8);
        let streams = self.streams(n, bits(&self.route.src) + bits(&self.route.dst));
        Self { stream_from: if streams { Self::ALL } else { self.stream_from }, ..self }
    }

    /// As [`Planned::part_of`], for rows whose caller issues the fence.
    pub(super) fn of_rows(self, n: usize) -> Self {
        let part = self.part_of(n);
        Self { stream_from: if part.streams_all() { Self::ROWS } else { part.stream_from }, ..part }
    }

    /// This plan, for a tile, which stays in the caches.
    pub(super) fn of_tile(self) -> Self {
        Self { stream_from: usize::MAX, ..self }
    }
}

/// A cast of `n` elements from `src` to `dst`.
///
/// # Safety
/// The `n` elements of `route.src` are readable from `src` on, those of `route.dst` are writable from `dst` on, and no byte is
/// in both. Any alignment will do. After the call, every byte of the destination is initialised and every element is valid.
pub(crate) type PlanKernel = unsafe fn(plan: &Planned, src: *const u8, dst: *mut u8, n: usize);

/// A cast of many rows, for all of which what it needs is prepared once.
pub(super) struct RowCast<'a> {
    plan: &'a Planned,
    /// The loop that streams results, if they are streamed.
    #[cfg(isa = "vector")]
    stream: Option<StreamRows>,
    #[cfg(isa = "vector")]
    _environment: Option<Environment>,
}

impl<'a> RowCast<'a> {
    /// `plan` is that of a tile or of rows. The floating-point environment stays set until this is dropped.
    pub(super) fn new(plan: &'a Planned) -> Self {
        Self {
            plan,
            #[cfg(isa = "vector")]
            stream: plan.stream_rows.filter(|_| plan.streams_all()),
            #[cfg(isa = "vector")]
            _environment: plan.ready.and_then(|_| plan.environment(true)),
        }
    }

    /// Casts rows of `n` elements; the first row begins at `src` and `dst`.
    ///
    /// # Safety
    /// As for a [`PlanKernel`], for each of the rows.
    #[inline(always)]
    pub(super) unsafe fn cast(&self, src: *const u8, dst: *mut u8, n: usize, apart: &Apart) {
        // SAFETY: the caller's promise; `vector::plan` chose the kernels for this route.
        unsafe {
            #[cfg(isa = "vector")]
            if let Some(Step { job, .. }) = self.plan.ready {
                let route = &self.plan.route;
                let units = codec_units(route, n);
                if let Some(stream) = self.stream {
                    return stream(job, codec_bits(route), src, dst, units, apart);
                }
                return job.run_rows(src, dst, units, apart);
            }
            let (mut from, mut to) = (src, dst);
            for _ in 0..apart.rows {
                (self.plan.kernel)(self.plan, from, to, n);
                (from, to) = (from.wrapping_offset(apart.src), to.wrapping_offset(apart.dst));
            }
        }
    }
}

/// A loop that streams the results of a kernel.
#[cfg(isa = "vector")]
pub(super) type StreamRows =
    unsafe fn(job: &Job, bits: [usize; 2], src: *const u8, dst: *mut u8, n: usize, apart: &Apart);

/// A codec with its parameters.
#[cfg(isa = "vector")]
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) job: Job,
    /// Whether it needs the floating-point environment to be set, or may raise flags there.
    pub(super) floats: bool,
    pub(super) subnormals: Subnormals,
    /// Bits of an element that it writes, or of a part if that is complex.
    pub(super) bits: usize,
}

/// A step that takes a tuple of adjacent packed elements as one code. 8 elements are whole tuples, and whole bytes on both sides.
#[cfg(isa = "vector")]
#[derive(Clone, Copy)]
pub(super) struct PackedTuple {
    pub(super) step: Step,
    /// Bits of a tuple in the source.
    pub(super) bits: usize,
}

/// A list of steps while a plan is being made. It is on the stack, because a cast allocates nothing.
#[cfg(isa = "vector")]
#[derive(Clone, Copy)]
pub(super) struct Steps {
    steps: [Step; Self::MOST],
    len: usize,
}

#[cfg(isa = "vector")]
impl Steps {
    /// The number of steps from complex or swapped float16 to packed integers that wrap, the most of any pair.
    /// `tests/golden.rs` makes the plan of every pair in every mode, `tests/layouts.rs` those of every packing and every byte
    /// order: a pair with more steps would panic there, in [`Steps::push`].
    const MOST: usize = 9;

    pub(super) const NONE: Self = Self { steps: [Step::NONE; Self::MOST], len: 0 };

    pub(super) fn all(&self) -> &[Step] {
        &self.steps[..self.len]
    }

    pub(super) fn push(&mut self, step: Step) {
        self.steps[self.len] = step;
        self.len += 1;
    }
}

#[cfg(isa = "vector")]
impl Step {
    /// Fills unused places of the list.
    const NONE: Self = Self { job: Job::NONE, floats: false, subnormals: Subnormals::None, bits: 8 };
}

/// What a codec does about subnormal numbers.
#[cfg(isa = "vector")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Subnormals {
    /// It does not compute with floats.
    None,
    Kept,
    /// The results are the same when subnormal numbers are flushed, and then these take no longer than other numbers.
    Flushed,
}
