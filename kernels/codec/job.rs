//! The parameters of a codec.

use core::mem::ManuallyDrop;

use super::super::environment::Environment;
use super::super::layout::Apart;
use super::super::simd::Extras;
use super::plane::{Plane, WordTable};
use crate::formats::dtype::{FloatFormat, IntFormat, Kind};
use crate::formats::layout::Packing;
use crate::formats::options::{Overflow, Policy, Rounding};
use crate::formats::route::{Layout, Route};
use crate::kernels::scalar;

/// The parameters of a codec: dtypes, policy and table of a cast, prepared once for its plan.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Job {
    pub(super) from: Kind,
    pub(super) to: Kind,
    pub(super) policy: Policy,
    /// The table of codecs that look elements up.
    pub(in crate::kernels) table: Table,
    /// Whether packed elements begin at the high end of a byte.
    pub(in crate::kernels) src_high: bool,
    pub(in crate::kernels) dst_high: bool,
    pub(in crate::kernels) extras: Extras,
    pub(super) narrow: Target,
    /// The source, if that is a float of 8 bits or fewer.
    pub(super) source: Target,
    pub(super) integer: IntegerTarget,
    /// The mask of the bits of a byte that belong to a code of the source.
    pub(super) code_mask: u8,
    /// The kernel; and what it calls instead of itself if the caller has subnormal numbers flushed: a function that runs the
    /// kernel in the right environment. (Both are pointers, so that kernels contain no calls.)
    run: RunRows,
    pub(in crate::kernels) rerun: RunRows,
}

/// Casts rows of `n` elements, of which the first begin at `src` and `dst`.
///
/// # Safety
/// As for a [`PlanKernel`](crate::kernels::plan::PlanKernel), for every row; the instruction set is available, the job has the
/// dtypes of the codec, and its table is there if the codec needs one.
pub(in crate::kernels) type RunRows =
    unsafe fn(job: &Job, src: *const u8, dst: *mut u8, n: usize, apart: &Apart);

/// Runs the kernel of a job in the environment that kernels expect.
///
/// # Safety
/// As for [`RunRows`].
#[cold]
unsafe fn rerun(job: &Job, src: *const u8, dst: *mut u8, n: usize, apart: &Apart) {
    // Restored explicitly, because kernels do not unwind.
    let environment = ManuallyDrop::new(Environment::new(Rounding::NearestEven));
    // SAFETY: the caller's elements, for the kernel of this job. No operation moves across a call by pointer.
    unsafe { (job.run)(job, src, dst, n, apart) };
    drop(ManuallyDrop::into_inner(environment));
}

/// Stands in for a kernel where there is none.
///
/// # Safety
/// None.
unsafe fn nothing(_: &Job, _: *const u8, _: *mut u8, _: usize, _: &Apart) {}

/// A table, which is made once per process and kept.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Table {
    /// The low and the high bytes of elements. If elements have one byte, both planes are of that.
    pub(super) planes: [&'static Plane; 2],
    /// For elements of 16 bits.
    pub(super) words: &'static WordTable,
}

static NOTHING: WordTable = WordTable::ZEROS;

impl Table {
    pub(in crate::kernels) const NONE: Self = Self { planes: [&NOTHING.planes[0]; 2], words: &NOTHING };

    /// The table of elements of 8 bits or fewer.
    pub(super) fn of_bytes(plane: &'static Plane) -> Self {
        Self { planes: [plane; 2], ..Self::NONE }
    }

    /// The table of bytes that are looked up in two planes.
    pub(super) fn of_planes(planes: [&'static Plane; 2]) -> Self {
        Self { planes, ..Self::NONE }
    }

    /// The table of elements of 16 bits.
    pub(super) fn of_words(words: &'static WordTable) -> Self {
        Self { planes: words.planes.each_ref(), words }
    }
}

impl Job {
    /// The job of no cast.
    pub(in crate::kernels) const NONE: Self = Self {
        from: Kind::Bool,
        to: Kind::Bool,
        policy: Policy::DEFAULT,
        table: Table::NONE,
        src_high: false,
        dst_high: false,
        extras: Extras::NONE,
        narrow: Target::NONE,
        source: Target::NONE,
        integer: IntegerTarget::NONE,
        code_mask: 0,
        run: nothing,
        rerun: nothing,
    };

    pub(in crate::kernels) fn new(route: &Route, table: Table, extras: Extras) -> Self {
        let high = |layout: &Layout| layout.packing == Packing::HighFirst;
        Self {
            from: route.from.kind(),
            to: route.to.kind(),
            policy: route.policy,
            table,
            src_high: high(&route.src),
            dst_high: high(&route.dst),
            extras,
            narrow: Target::new(route.to.kind(), &route.policy),
            source: Target::new(route.from.kind(), &route.policy),
            integer: IntegerTarget::new(route),
            code_mask: u8::MAX >> 8u32.saturating_sub(route.from.bits()),
            ..Self::NONE
        }
    }

    /// This job, with the kernel that runs it.
    pub(super) fn of(self, run: RunRows) -> Self {
        Self { run, rerun, ..self }
    }

    /// Casts rows of `n` elements.
    ///
    /// # Safety
    /// As for [`RunRows`].
    #[inline(always)]
    pub(in crate::kernels) unsafe fn run_rows(&self, src: *const u8, dst: *mut u8, n: usize, apart: &Apart) {
        // SAFETY: the caller's elements.
        unsafe { (self.run)(self, src, dst, n, apart) }
    }
}

/// The target, if it is an integer or bool; otherwise arbitrary. Computed with the job, as [`Target`] is.
#[derive(Clone, Copy)]
pub(super) struct IntegerTarget {
    /// The least and the greatest integer of the target.
    pub(super) min: i64,
    pub(super) max: u64,
    /// The limits that integers of the source are clamped to.
    pub(super) low: i64,
    pub(super) high: u64,
    /// Whether these are the limits of the source itself, so that nothing saturates.
    pub(super) all: bool,
    /// Whether the target has a sign.
    pub(super) signed: bool,
    /// Whether the target has as many bits as it occupies in memory.
    pub(super) fills: bool,
    /// The bits of each byte that belong to a code of fewer than 8 bits.
    pub(super) mask: u8,
}

impl IntegerTarget {
    /// For a target that is not an integer.
    const NONE: Self =
        Self { min: 0, max: 0, low: 0, high: 0, all: true, signed: false, fills: true, mask: u8::MAX };

    fn new(route: &Route) -> Self {
        let to = match route.to.kind() {
            Kind::Int(format) => format,
            _ => IntFormat { bits: 8, signed: false },
        };
        let range = |IntFormat { bits, signed }: IntFormat| {
            let min = if signed { i64::MIN >> (64 - bits) } else { 0 };
            (min, u64::MAX >> (64 - bits) >> u32::from(signed))
        };
        let (min, max) = range(to);
        let (from, clamped) = match route.from.kind() {
            Kind::Int(from) => {
                let (low, high) = range(from);
                let saturates = route.policy.overflow == Overflow::Saturate;
                ((low, high), if saturates { (low.max(min), high.min(max)) } else { (low, high) })
            }
            // Any byte but 0 counts as true.
            _ => {
                let saturates = route.policy.overflow == Overflow::Saturate;
                ((0, u8::MAX.into()), (0, if saturates { max.min(1) } else { 1 }))
            }
        };
        Self {
            min,
            max,
            low: clamped.0,
            high: clamped.1,
            all: clamped == from,
            signed: to.signed,
            fills: to.bits == route.dst.memory_bits(),
            mask: u8::MAX >> 8u32.saturating_sub(to.bits),
        }
    }
}

/// The target, if it is a float of 8 bits or fewer; otherwise arbitrary. Computed with the job, because computing it in a
/// kernel would take longer than casting a few elements.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) mantissa_bits: u32,
    /// Exponent of the smallest normal.
    pub(super) least: i32,
    /// Codes without their sign: the largest number, what overflow becomes, and NaN if there is one.
    pub(super) max: u8,
    pub(super) overflow: u8,
    pub(super) nan: u8,
    pub(super) sign: u8,
}

impl Target {
    /// For a target that is not such a float.
    const NONE: Self = Self { mantissa_bits: 0, least: 0, max: 0, overflow: 0, nan: 0, sign: 0 };

    pub(super) fn new(to: Kind, policy: &Policy) -> Self {
        let format = match to {
            Kind::Float(format) if format.bits() <= 8 => format,
            _ => FloatFormat::E8M0,
        };
        let quiet = if format.has_inf { format.quiet_bit() } else { 0 };
        Self {
            mantissa_bits: format.mantissa_bits,
            least: format.min_exponent(),
            max: format.max_code() as u8,
            overflow: scalar::overflow(format, policy.saturate) as u8,
            nan: ((format.max_code() + 1) | quiet) as u8,
            sign: format.sign_bit() as u8,
        }
    }

    /// The float32 of the code of a normal number. Past the largest code, the series is continued.
    #[inline(always)]
    pub(super) fn value_of(&self, code: u8) -> u32 {
        // A code is an exponent, which is 1 for the smallest normal number, followed by the mantissa.
        (u32::from(code) << (23 - self.mantissa_bits)).wrapping_add(((self.least - 1 + 127) as u32) << 23)
    }

    /// The exponents in the keys of [`ToNarrowByTable`](super::narrow::ToNarrowByTable): from that of half of the smallest
    /// subnormal number to one after the last.
    #[inline(always)]
    pub(super) fn exponents(&self) -> [i32; 2] {
        let m = self.mantissa_bits;
        [self.least - m as i32 - 1, i32::from(self.max >> m) + self.least]
    }
}
