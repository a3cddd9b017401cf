//! What happens to the elements in registers, once for every instruction set.
//!
//! A [`Codec`] turns one block of a source into one block of a destination. Options are data to it: a
//! [`Setup`](Codec::Setup) of registers, computed once per call from the format constants and the policy.
//! Codes of fewer than 8 bits are packed in memory or one per byte, as a codec's widths say; wider ones are native.

#![allow(
    clippy::needless_range_loop,
    reason = "kernels have no iterator adapters: those are not always inlined"
)]

pub(super) mod float;
pub(super) mod integer;
pub(super) mod lookup;
pub(super) mod narrow;
pub(super) mod plane;
pub(super) mod scaled;
pub(super) mod source;
pub(super) mod table;

use self::lookup::Looks;
use self::source::{Bits, Source};
use super::drive::Scale;
use super::simd::{Extras, Simd};
use crate::formats::dtype::{IntFormat, Kind};
use crate::formats::layout::Packing;
use crate::formats::options::Policy;
use crate::formats::route::{Layout, Route};

/// What a codec needs to know of a cast.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) from: Kind,
    pub(super) to: Kind,
    pub(super) policy: Policy,
    /// A table of `lookup` or of `narrow`, where the codec has one.
    pub(super) table: *const u8,
    /// Packed elements begin at the high end of a byte.
    pub(super) src_high: bool,
    pub(super) dst_high: bool,
    pub(super) extras: Extras,
    pub(super) narrow: narrow::Target,
    /// The bits of a byte that are those of a code of the source.
    pub(super) code_mask: u8,
}

// SAFETY: a table is made before the job that points to it, and nobody writes to it again; those of a caster are kept.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Of no cast.
    pub(super) const NONE: Self = Self {
        from: Kind::Bool,
        to: Kind::Bool,
        policy: Policy::DEFAULT,
        table: core::ptr::null(),
        src_high: false,
        dst_high: false,
        extras: Extras { bf16: false, fp16: false },
        narrow: narrow::Target::NONE,
        code_mask: 0,
    };

    pub(super) fn new(route: &Route, table: *const u8, extras: Extras) -> Self {
        let high = |layout: &Layout| layout.packing == Packing::HighFirst;
        Self {
            from: route.from.kind(),
            to: route.to.kind(),
            policy: route.policy,
            table,
            src_high: high(&route.src),
            dst_high: high(&route.dst),
            extras,
            narrow: narrow::Target::new(route.to.kind(), &route.policy),
            code_mask: u8::MAX >> 8u32.saturating_sub(route.from.bits()),
        }
    }

    /// The format of the integers that it makes; if it makes none, any.
    #[inline(always)]
    pub(super) fn integer(&self) -> IntFormat {
        match self.to {
            Kind::Int(format) => format,
            _ => IntFormat { bits: 8, signed: false },
        }
    }
}

/// What a codec needs to know of the memory on either end. By value, so that it stays in registers.
#[derive(Clone, Copy)]
pub(super) struct Ends<I: Simd> {
    /// Of the table of the source.
    pub(super) looks: Looks<I>,
    pub(super) src_high: bool,
    pub(super) dst_high: bool,
    /// Of a [scaled](scaled) source.
    pub(super) scale: Scale,
}

impl<I: Simd> Ends<I> {
    /// Those of a job whose source is an `S`. Its table is there if it needs one.
    ///
    /// # Safety
    /// As for the operations of [`Simd`].
    #[inline(always)]
    pub(super) unsafe fn of<S: Source>(job: &Job) -> Self {
        // SAFETY: the caller's promise.
        let looks = unsafe { S::looks::<I>(job.table) };
        let &Job { src_high, dst_high, .. } = job;
        Self { looks, src_high, dst_high, scale: Scale::NONE }
    }
}

/// # Safety
/// `setup` and `block` may be called where the features of `I` are enabled, with a job of dtypes that the
/// codec is for. `block` reads a block of `SRC` bits an element and writes one of `DST`.
pub(super) trait Codec<I: Simd>: Sized {
    type From: Source;
    /// Bits of an element of the source in memory: of fewer than 8, they are packed.
    const SRC: usize = Self::From::BITS;
    /// Bits of an element of the destination.
    const DST: usize;
    /// Some operation depends on the floating-point environment, or may raise a flag there.
    const FLOATS: bool;
    type Setup: Copy;

    unsafe fn setup(job: &Job) -> Self::Setup;
    unsafe fn block(setup: &Self::Setup, ends: Ends<I>, src: *const u8, dst: *mut u8);
}

/// Codes of `BITS` bits, their bytes in the other order.
pub(super) struct Swapped<const BITS: usize>;

impl<I: Simd, const BITS: usize> Codec<I> for Swapped<BITS> {
    type From = Bits<BITS>;
    const DST: usize = BITS;
    const FLOATS: bool = false;
    type Setup = ();

    #[inline(always)]
    unsafe fn setup(_: &Job) {}

    #[inline(always)]
    unsafe fn block(_: &(), _: Ends<I>, src: *const u8, dst: *mut u8) {
        for k in 0..BITS / 8 {
            // SAFETY: the caller's promise.
            unsafe {
                let v = I::load(src.add(k * I::BYTES));
                let swapped = match BITS {
                    16 => I::swap16(v),
                    32 => I::swap32(v),
                    _ => I::swap64(v),
                };
                I::store(dst.add(k * I::BYTES), swapped);
            }
        }
    }
}

/// Codes of fewer than 8 bits that are kept: from `SRC` bits in memory to `DST`, of which one is 8. There, the bits above
/// are ignored, and become 0.
pub(super) struct Repacked<const SRC: usize, const DST: usize>;

impl<I: Simd, const SRC: usize, const DST: usize> Codec<I> for Repacked<SRC, DST> {
    type From = Bits<SRC>;
    const DST: usize = DST;
    const FLOATS: bool = false;
    type Setup = I::V;

    #[inline(always)]
    unsafe fn setup(job: &Job) -> I::V {
        // SAFETY: the caller's promise.
        unsafe { I::splat8(job.code_mask) }
    }

    #[inline(always)]
    unsafe fn block(&mask: &I::V, ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { store_codes::<I, DST>(I::and(load_codes::<I, SRC>(src, ends), mask), ends, dst) }
    }
}

/// An array of registers from an expression in its index. (`array::from_fn` is not always inlined.)
macro_rules! registers {
    (2, $k:ident => $e:expr) => { [{ const $k: usize = 0; $e }, { const $k: usize = 1; $e }] };
    (4, $k:ident => $e:expr) => {
        [{ const $k: usize = 0; $e }, { const $k: usize = 1; $e }, { const $k: usize = 2; $e }, { const $k: usize = 3; $e }]
    };
    (8, $k:ident => $e:expr) => {
        [
            { const $k: usize = 0; $e }, { const $k: usize = 1; $e }, { const $k: usize = 2; $e }, { const $k: usize = 3; $e },
            { const $k: usize = 4; $e }, { const $k: usize = 5; $e }, { const $k: usize = 6; $e }, { const $k: usize = 7; $e },
        ]
    };
}
pub(super) use registers;

/// A block of lanes of 64 bits as one of 32: the low halves.
///
/// # Safety
/// As for the operations of [`Simd`]; so for the other functions here.
#[inline(always)]
pub(super) unsafe fn narrow64<I: Simd>(v: [I::V; 8]) -> [I::V; 4] {
    // SAFETY: the caller's promise.
    unsafe { registers!(4, K => I::low64([v[2 * K], v[2 * K + 1]])) }
}

#[inline(always)]
pub(super) unsafe fn narrow32<I: Simd>(v: [I::V; 4]) -> [I::V; 2] {
    // SAFETY: the caller's promise.
    unsafe { registers!(2, K => I::low32([v[2 * K], v[2 * K + 1]])) }
}

/// A block of elements of 16 bits in memory.
#[inline(always)]
pub(super) unsafe fn load16<I: Simd>(src: *const u8) -> [I::V; 2] {
    // SAFETY: the caller's promise.
    unsafe { registers!(2, K => I::load(src.add(K * I::BYTES))) }
}

#[inline(always)]
pub(super) unsafe fn load32<I: Simd>(src: *const u8) -> [I::V; 4] {
    // SAFETY: the caller's promise.
    unsafe { registers!(4, K => I::load(src.add(K * I::BYTES))) }
}

#[inline(always)]
pub(super) unsafe fn load64<I: Simd>(src: *const u8) -> [I::V; 8] {
    // SAFETY: the caller's promise.
    unsafe { registers!(8, K => I::load(src.add(K * I::BYTES))) }
}

/// A block of codes in memory, `BITS` bits each, as bytes. Of packed ones, what a byte has above is not said.
#[inline(always)]
pub(super) unsafe fn load_codes<I: Simd, const BITS: usize>(src: *const u8, ends: Ends<I>) -> I::V {
    // SAFETY: the caller's promise.
    unsafe { if BITS == 8 { I::load(src) } else { I::unpack::<BITS>(src, ends.src_high) } }
}

/// The inverse. Of packed ones, the bits above are 0.
#[inline(always)]
pub(super) unsafe fn store_codes<I: Simd, const BITS: usize>(v: I::V, ends: Ends<I>, dst: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { if BITS == 8 { I::store(dst, v) } else { I::pack::<BITS>(dst, v, ends.dst_high) } }
}

/// Stores a block of lanes of 64 bits as elements of `BITS` bits, their low bits. Of a byte, the mask is kept.
#[inline(always)]
pub(super) unsafe fn store64<I: Simd, const BITS: usize>(
    v: [I::V; 8],
    mask: I::V,
    ends: Ends<I>,
    dst: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if BITS == 64 {
            for k in 0..8 {
                I::store(dst.add(k * I::BYTES), v[k]);
            }
        } else {
            store32::<I, BITS>(narrow64::<I>(v), mask, ends, dst);
        }
    }
}

#[inline(always)]
pub(super) unsafe fn store32<I: Simd, const BITS: usize>(
    v: [I::V; 4],
    mask: I::V,
    ends: Ends<I>,
    dst: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if BITS == 32 {
            for k in 0..4 {
                I::store(dst.add(k * I::BYTES), v[k]);
            }
        } else if BITS == 16 {
            store16::<I, BITS>(narrow32::<I>(v), mask, ends, dst);
        } else {
            store_codes::<I, BITS>(I::and(I::lowest32(v), mask), ends, dst);
        }
    }
}

#[inline(always)]
pub(super) unsafe fn store16<I: Simd, const BITS: usize>(
    v: [I::V; 2],
    mask: I::V,
    ends: Ends<I>,
    dst: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if BITS == 16 {
            I::store(dst, v[0]);
            I::store(dst.add(I::BYTES), v[1]);
        } else {
            store_codes::<I, BITS>(I::and(I::low16(v), mask), ends, dst);
        }
    }
}
