//! What a cast is to the kernels: its plan, and the steps of that. `plans.rs` makes and keeps them.

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
use super::sizes::{core_bits, core_units};
use crate::formats::dtype::DType;
use crate::formats::options::CastOptions;
use crate::formats::route::{Layout, Route};
use crate::formats::stochastic::Stochastic;

/// A cast, down to the functions that run it: made once for a pair and its options, and kept.
pub(crate) struct Plan {
    pub(crate) from: DType,
    pub(crate) to: DType,
    pub(crate) isa: Present,
    /// Without `stream_from` and `stochastic`, which are the caster's.
    pub(crate) options: CastOptions,
    pub(crate) route: Route,
    pub(crate) kernel: Kernel,
    /// Bytes from which on results go past the caches, if the caster does not say otherwise.
    pub(super) stream_from: usize,
    /// What the vector kernels run on the parts of elements, one after the other; nothing where codes are kept.
    #[cfg(isa = "vector")]
    pub(super) steps: &'static [Step],
    /// The only step, if it casts the elements as they are in memory.
    #[cfg(isa = "vector")]
    pub(super) ready: Option<&'static Step>,
    /// What casts many elements by groups of them.
    #[cfg(isa = "vector")]
    pub(super) groups: Option<&'static Group>,
    /// Does a step expect an environment?
    #[cfg(isa = "vector")]
    pub(super) floats: bool,
    /// Does some step gain where subnormal numbers are flushed, and is every result the same then?
    #[cfg(isa = "vector")]
    pub(super) flushes: bool,
    /// Up to so many elements, the steps are all there is to do: no environment, and nothing past the caches.
    #[cfg(isa = "vector")]
    pub(super) quick: usize,
    /// What runs several steps on so few.
    #[cfg(isa = "vector")]
    pub(super) few: Kernel,
    /// Of a stochastic route, the casts before what rounds and after it, where that is done a tile at a time.
    #[cfg(isa = "vector")]
    pub(super) casts: Option<[Planned; 2]>,
    /// What brings the results of a kernel past the caches.
    #[cfg(isa = "vector")]
    pub(super) stream_rows: Option<StreamRows>,
    /// Where its losses begin, found by the first checked cast that asks for it; and whether Inf and NaN are lost.
    pub(crate) limits: Once<(Limits, [bool; 2])>,
}

impl Plan {
    /// The environment in which the steps cast, if it is not the caller's. Of few elements, to flush costs more than it gains.
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

    /// Does a single step cast `n` elements without preparation?
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

/// A plan, and when its results go past the caches.
#[derive(Clone, Copy)]
pub(crate) struct Planned {
    pub(crate) plan: &'static Plan,
    /// From so many bytes on, read and written; or [`ALL`](Self::ALL), or [`ROWS`](Self::ROWS).
    stream_from: usize,
    /// The words of a stochastic route.
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
    /// Whatever their size, results go past the caches.
    const ALL: usize = 1;
    /// The same, and the kernel does not order what it streams before what is stored next: its caller does, once for all rows.
    const ROWS: usize = 0;

    #[inline(always)]
    pub(crate) fn new(plan: &'static Plan, options: &CastOptions) -> Self {
        let stream_from = options.stream_from.map_or(plan.stream_from, |from| from.max(Self::ALL));
        let stochastic = options.stochastic.unwrap_or(Stochastic::NONE);
        Self { plan, stream_from, stochastic }
    }

    /// The plan of what begins with an element of its own.
    pub(crate) fn at(self, element: usize) -> Self {
        Self { stochastic: self.stochastic.at(element), ..self }
    }

    /// The words, if chance rounds.
    pub(crate) fn stochastic(&self) -> Option<Stochastic> {
        self.route.is_stochastic.then_some(self.stochastic)
    }

    /// Are `n` elements so few that only their codec is to be run?
    #[inline(always)]
    pub(crate) fn is_few(&self, n: usize) -> bool {
        #[cfg(isa = "vector")]
        return n.wrapping_sub(1) < self.plan.quick;
        #[cfg(not(isa = "vector"))]
        {
            let _ = n;
            false
        }
    }

    /// Runs the kernel, or what is faster for so few elements.
    ///
    /// # Safety
    /// As for a [`Kernel`].
    #[inline(always)]
    pub(crate) unsafe fn run(&self, src: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise; the table chose the core for this route.
        unsafe {
            if self.is_few(n) {
                self.run_few(src, dst, n);
            } else {
                (self.kernel)(self, src, dst, n);
            }
        }
    }

    /// # Safety
    /// As for a [`Kernel`]. [They are few](Self::is_few).
    #[inline(always)]
    pub(crate) unsafe fn run_few(&self, src: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise; the table chose the core for this route.
        #[cfg(isa = "vector")]
        unsafe {
            match self.plan.ready {
                Some(step) => step.job.run_rows(src, dst, core_units(&self.route, n), &Apart::ONE),
                None => (self.plan.few)(self, src, dst, n),
            }
        }
        #[cfg(not(isa = "vector"))]
        let _ = (src, dst, n);
    }

    /// Does a row take no preparation, so that a short one costs little?
    pub(super) fn is_ready(&self) -> bool {
        #[cfg(isa = "vector")]
        return self.ready.is_some();
        #[cfg(not(isa = "vector"))]
        false
    }

    /// Are `n` elements of so many bits on both sides together more than the caches keep?
    pub(super) fn streams(&self, n: usize, bits: usize) -> bool {
        // 8 elements are as many bytes as one has bits. Those of a view may be more than there is memory: they repeat.
        (n / 8).saturating_mul(bits) >= self.stream_from
    }

    /// Do all of them go past the caches?
    pub(super) fn streams_all(&self) -> bool {
        self.stream_from <= Self::ALL
    }

    /// What the caller said about that, if it did.
    pub(crate) fn stream_option(&self) -> Option<usize> {
        (self.stream_from != self.plan.stream_from).then_some(self.stream_from)
    }

    /// Does the kernel order what it streams before what is stored next?
    #[cfg(isa = "vector")]
    pub(super) fn fences(&self) -> bool {
        self.stream_from != Self::ROWS
    }

    /// The plan of parts of `n` elements: results go past the caches if those of all elements would.
    pub(crate) fn part_of(self, n: usize) -> Self {
        // Of 8 elements, the bytes are the bits of one.
        let bits = |layout: &Layout| layout.size(8);
        let streams = self.streams(n, bits(&self.route.src) + bits(&self.route.dst));
        Self { stream_from: if streams { Self::ALL } else { self.stream_from }, ..self }
    }

    /// The same for parts that are rows: who casts them orders what is streamed once.
    pub(super) fn of_rows(self, n: usize) -> Self {
        let part = self.part_of(n);
        Self { stream_from: if part.streams_all() { Self::ROWS } else { part.stream_from }, ..part }
    }

    /// The plan of a tile, which stays in the caches.
    pub(super) fn of_tile(self) -> Self {
        Self { stream_from: usize::MAX, ..self }
    }
}

/// A cast of `n` elements from `src` to `dst`.
///
/// # Safety
/// The `n` elements of `route.src` are readable from `src` on, those of `route.dst` writable from `dst` on,
/// and no byte is in both. Any alignment will do. After the call every byte of the destination is
/// initialised and every element valid.
pub(crate) type Kernel = unsafe fn(plan: &Planned, src: *const u8, dst: *mut u8, n: usize);

/// Casts of many rows of one plan, for which what a cast prepares is prepared once.
pub(super) struct RowCast<'a> {
    plan: &'a Planned,
    /// What brings its results past the caches, if they go there.
    #[cfg(isa = "vector")]
    stream: Option<StreamRows>,
    #[cfg(isa = "vector")]
    _environment: Option<Environment>,
}

impl<'a> RowCast<'a> {
    /// Until this is dropped, nothing but casts may depend on the environment. The plan is that of a tile, or of rows.
    pub(super) fn new(plan: &'a Planned) -> Self {
        Self {
            plan,
            #[cfg(isa = "vector")]
            stream: plan.stream_rows.filter(|_| plan.streams_all()),
            #[cfg(isa = "vector")]
            _environment: plan.ready.and_then(|_| plan.environment(true)),
        }
    }

    /// Rows of `n` elements, of which the first begin at `src` and `dst`.
    ///
    /// # Safety
    /// As for a [`Kernel`].
    #[inline(always)]
    pub(super) unsafe fn cast(&self, src: *const u8, dst: *mut u8, n: usize, apart: &Apart) {
        // SAFETY: the caller's promise; the table chose the core.
        unsafe {
            #[cfg(isa = "vector")]
            if let Some(Step { job, .. }) = self.plan.ready {
                let route = &self.plan.route;
                let units = core_units(route, n);
                if let Some(stream) = self.stream {
                    return stream(job, core_bits(route), src, dst, units, apart);
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

/// What streams the results of a kernel.
#[cfg(isa = "vector")]
pub(super) type StreamRows =
    unsafe fn(job: &Job, bits: [usize; 2], src: *const u8, dst: *mut u8, n: usize, apart: &Apart);

/// A codec, and what it needs to know.
#[cfg(isa = "vector")]
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) job: Job,
    /// It needs the floating-point environment set by its caller, or may leave traces there.
    pub(super) floats: bool,
    pub(super) subnormals: Subnormals,
    /// Bits of an element that it writes; of complex ones, of a part.
    pub(super) bits: usize,
}

/// A step that takes groups of elements, packed on both sides, for codes: 8 elements are whole groups and, on both sides, whole
/// bytes.
#[cfg(isa = "vector")]
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) step: Step,
    /// Bits of a group in the source.
    pub(super) bits: usize,
}

/// Steps that are being found, one after the other: few, and on the stack, because a cast allocates nothing.
#[cfg(isa = "vector")]
#[derive(Clone, Copy)]
pub(super) struct Steps {
    steps: [Step; Self::MOST],
    len: usize,
}

#[cfg(isa = "vector")]
impl Steps {
    /// Complex or swapped float16 to packed integers that wrap: two, and float32, float64, int64, int8, and three more.
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
    /// In the place of none.
    const NONE: Self = Self { job: Job::NONE, floats: false, subnormals: Subnormals::None, bits: 8 };
}

/// The subnormal numbers that a codec makes or reads as floats.
#[cfg(isa = "vector")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Subnormals {
    /// It computes no floats.
    None,
    Kept,
    /// The results are the same where they are flushed, and take no longer then than others.
    Flushed,
}
