//! What a cast is to the kernels, the plain copy, and the scalar reference tile by tile. The loops of the
//! vector kernels are in `vector.rs`.

use core::ptr;

#[cfg(isa = "vector")]
use super::codec::Job;
use super::layout::{load, store};
use super::scalar::{DECODE, ENCODE, Value};
#[cfg(isa = "vector")]
use super::{environment, stream, vector};
#[cfg(isa = "vector")]
use crate::formats::dtype::DType;
use crate::formats::layout::Packing;
#[cfg(isa = "vector")]
use crate::formats::route::Layout;
use crate::formats::route::{Parts, Route, Work};

/// Elements in a tile: a multiple of 8, so that every tile of a packed buffer starts at a byte, and small, so
/// that one element does not pay for the zeroing of a large one (256 costs 100 ns there and gains nothing).
const TILE: usize = 64;

/// A cast, down to the functions that run it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) route: Route,
    pub(crate) kernel: Kernel,
    /// What the vector kernels run on the elements; None where the codes are kept.
    #[cfg(isa = "vector")]
    pub(super) core: Option<Core>,
    /// What makes elements of the core's source, and their dtype, if those of the route are none.
    #[cfg(isa = "vector")]
    pub(super) hub: Option<(Core, DType)>,
    /// The same on bytes of packed elements, where that is faster.
    #[cfg(isa = "vector")]
    pub(super) groups: Option<Core>,
    /// What the core and the hub need to know.
    #[cfg(isa = "vector")]
    pub(super) job: Job,
    /// The core, where it alone casts a few elements: without a hub.
    #[cfg(isa = "vector")]
    pub(super) ready: Option<Core>,
    /// What casts up to [`FEW`](vector::FEW) elements faster than the kernel, and needs no environment.
    #[cfg(isa = "vector")]
    pub(super) few: Option<Core>,
    /// The same for the parts of elements that have others, which the kernel moves.
    #[cfg(isa = "vector")]
    pub(super) few_parts: Option<Core>,
    /// What brings the results of a core past the caches.
    #[cfg(isa = "vector")]
    pub(super) stream_rows: Option<stream::Rows>,
    /// Does the kernel order what it streams before what is stored next? If not, its caller does.
    #[cfg(isa = "vector")]
    pub(super) fences: bool,
}

#[cfg_attr(
    not(isa = "vector"),
    expect(unused_mut, unused_variables, reason = "the reference does not stream")
)]
impl Plan {
    /// Are `n` elements so few that there is something faster for them?
    #[inline(always)]
    pub(crate) fn is_few(&self, n: usize) -> bool {
        #[cfg(isa = "vector")]
        return n.wrapping_sub(1) < vector::FEW && self.few.is_some();
        #[cfg(not(isa = "vector"))]
        false
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
        #[cfg(isa = "vector")]
        // SAFETY: the caller's promise; the table chose the core for this route.
        unsafe {
            if let Some(core) = self.few {
                core.run(&self.job, src, dst, vector::core_units(&self.route, n));
            }
        }
    }

    /// Does a row take no preparation, so that a short one costs little?
    pub(super) fn is_ready(&self) -> bool {
        #[cfg(isa = "vector")]
        return self.ready.is_some();
        #[cfg(not(isa = "vector"))]
        false
    }

    /// The plan of parts of `n` elements: results go past the caches if those of all elements would.
    pub(crate) fn part_of(mut self, n: usize) -> Self {
        #[cfg(isa = "vector")]
        {
            let bits = |layout: &Layout| layout.memory_bits() * layout.parts as u32;
            if vector::streams(&self.route, n, bits(&self.route.src) + bits(&self.route.dst)) {
                self.route.stream_from = Some(0);
            }
        }
        self
    }

    /// The same for parts that are rows: who casts them orders what is streamed once.
    pub(super) fn of_rows(self, n: usize) -> Self {
        #[cfg(isa = "vector")]
        return Self { fences: false, ..self.part_of(n) };
        #[cfg(not(isa = "vector"))]
        self
    }

    /// The plan of a tile, which stays in the caches.
    pub(super) fn of_tile(mut self) -> Self {
        #[cfg(isa = "vector")]
        {
            self.route.stream_from = Some(usize::MAX);
        }
        self
    }
}

/// A cast of `n` elements from `src` to `dst`.
///
/// # Safety
/// The `n` elements of `route.src` are readable from `src` on, those of `route.dst` writable from `dst` on,
/// and no byte is in both. Any alignment will do. After the call every byte of the destination is
/// initialised and every element valid.
pub(crate) type Kernel = unsafe fn(plan: &Plan, src: *const u8, dst: *mut u8, n: usize);

/// Casts of many rows of one plan, for which what a cast prepares is prepared once.
pub(super) struct Rows<'a> {
    plan: &'a Plan,
    /// What casts a row that needs nothing but the environment.
    #[cfg(isa = "vector")]
    ready: Option<Core>,
    /// What brings its results past the caches, if they go there.
    #[cfg(isa = "vector")]
    stream: Option<stream::Rows>,
    #[cfg(isa = "vector")]
    _environment: Option<environment::Environment>,
}

impl<'a> Rows<'a> {
    /// Until this is dropped, nothing but casts may depend on the environment. The plan is that of a tile, or of rows.
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            #[cfg(isa = "vector")]
            ready: plan.ready,
            #[cfg(isa = "vector")]
            stream: plan.stream_rows.filter(|_| plan.route.stream_from == Some(0)),
            #[cfg(isa = "vector")]
            _environment: plan
                .ready
                .filter(|core| core.floats)
                .map(|_| environment::Environment::new(plan.route.policy.rounding)),
        }
    }

    /// # Safety
    /// As for a [`Kernel`].
    #[inline(always)]
    pub(super) unsafe fn cast(&self, src: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.cast_all(src, dst, n, &Apart::ONE) }
    }

    /// Rows of `n` elements, of which the first begin at `src` and `dst`.
    ///
    /// # Safety
    /// As for a [`Kernel`].
    #[inline(always)]
    pub(super) unsafe fn cast_all(&self, src: *const u8, dst: *mut u8, n: usize, apart: &Apart) {
        // SAFETY: the caller's promise; the table chose the core.
        unsafe {
            #[cfg(isa = "vector")]
            if let Some(core) = self.ready {
                let (route, job) = (&self.plan.route, &self.plan.job);
                let units = vector::core_units(route, n);
                if let Some(stream) = self.stream {
                    return stream(&core, job, vector::core_bits(route), src, dst, units, apart);
                }
                return (core.run_rows)(job, src, dst, units, apart);
            }
            let (mut from, mut to) = (src, dst);
            for _ in 0..apart.rows {
                (self.plan.kernel)(self.plan, from, to, n);
                (from, to) = (from.wrapping_offset(apart.src), to.wrapping_offset(apart.dst));
            }
        }
    }
}

/// So many rows, so many bytes apart on either side.
#[derive(Clone, Copy)]
pub(super) struct Apart {
    pub(super) rows: usize,
    pub(super) src: isize,
    pub(super) dst: isize,
}

impl Apart {
    pub(super) const ONE: Self = Self { rows: 1, src: 0, dst: 0 };
}

/// A codec on native elements.
#[cfg(isa = "vector")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Core {
    /// Casts rows of `n` elements, of which the first begin at `src` and `dst`.
    ///
    /// # Safety
    /// As for a [`Kernel`]; the instruction set is available, the job has the dtypes of the codec, and its table
    /// is there if it needs one.
    pub(super) run_rows: unsafe fn(job: &Job, src: *const u8, dst: *mut u8, n: usize, apart: &Apart),
    /// It needs the floating-point environment set, or may leave traces there.
    pub(super) floats: bool,
}

#[cfg(isa = "vector")]
impl Core {
    /// Casts one row.
    ///
    /// # Safety
    /// As for `run_rows`.
    #[inline(always)]
    pub(super) unsafe fn run(&self, job: &Job, src: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { (self.run_rows)(job, src, dst, n, &Apart::ONE) }
    }
}

/// [`Work::Copy`].
///
/// # Safety
/// As for every [`Kernel`].
pub(super) unsafe fn copy(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_by(ptr::copy_nonoverlapping, plan, src, dst, n) }
}

/// The same by what copies so many bytes.
///
/// # Safety
/// As for every [`Kernel`]; the function may be called with what that promises.
#[inline(always)]
pub(super) unsafe fn copy_by(
    bytes: unsafe fn(*const u8, *mut u8, usize),
    plan: &Plan,
    src: *const u8,
    dst: *mut u8,
    n: usize,
) {
    let route = &plan.route;
    let bits = route.src.bits as usize * route.src.parts;
    if bits.is_multiple_of(8) {
        // SAFETY: that is the size of both buffers, which do not overlap.
        return unsafe { bytes(src, dst, n * (bits / 8)) };
    }
    // n * bits / 8 without overflow: 8 elements are `bits` bytes.
    let (whole, rest) = (n / 8 * bits + n % 8 * bits / 8, n % 8 * bits % 8);
    // SAFETY: `whole` bytes, and one more if `rest` bits remain, are the size of both buffers, which do
    // not overlap.
    unsafe {
        bytes(src, dst, whole);
        if rest != 0 {
            let used = match route.src.packing {
                Packing::HighFirst => !(0xFF >> rest),
                _ => !(0xFF << rest),
            };
            dst.add(whole).write(src.add(whole).read() & used);
        }
    }
}

/// Any route, on the scalar reference.
///
/// # Safety
/// As for every [`Kernel`].
pub(super) unsafe fn scalar(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    let route = &plan.route;
    let mut codes = [0; TILE];
    let mut other = [0; TILE];
    let mut values = [Value::ZERO; TILE];
    for first in (0..n).step_by(TILE) {
        let codes = &mut codes[..TILE.min(n - first)];
        let other = &mut other[..codes.len()];
        // SAFETY: the elements `first .. first + codes.len()` are among the `n` that the caller promises;
        // `first` is a multiple of 8, and every tile but the last is one of `TILE` elements. Every part of
        // every destination element is stored.
        unsafe {
            load(&route.src, src, first, 0, codes);
            convert(route, codes, &mut values);
            match route.parts {
                Parts::One | Parts::Real => {}
                Parts::Extend => store(&route.dst, dst, first, 1, other),
                Parts::Two => {
                    load(&route.src, src, first, 1, other);
                    convert(route, other, &mut values);
                    store(&route.dst, dst, first, 1, other);
                }
                Parts::Either => {
                    load(&route.src, src, first, 1, other);
                    convert(route, other, &mut values);
                    for (code, other) in codes.iter_mut().zip(&*other) {
                        *code |= other;
                    }
                }
            }
            store(&route.dst, dst, first, 0, codes);
        }
    }
}

fn convert(route: &Route, codes: &mut [u64], values: &mut [Value; TILE]) {
    if route.work == Work::Convert {
        let values = &mut values[..codes.len()];
        DECODE[route.from as usize](codes, values);
        ENCODE[route.to as usize](values, codes, &route.policy);
    }
}
