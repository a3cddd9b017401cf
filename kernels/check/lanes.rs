//! The lanes that codes are, and what is done with a register of them.

use super::super::simd::Simd;

/// Lanes of 8, 16, 32 or 64 bits.
///
/// # Safety
/// As for the operations of [`Simd`].
pub(super) trait Lanes<I: Simd> {
    const BYTES: usize;

    unsafe fn splat(bits: u64) -> I::V;
    unsafe fn sub(a: I::V, b: I::V) -> I::V;
}

/// Lanes that are compared: all ones where that is true, else zeros.
///
/// # Safety
/// As for the operations of [`Simd`].
pub(super) trait Compared<I: Simd>: Lanes<I> {
    /// Signed.
    unsafe fn gt(a: I::V, b: I::V) -> I::V;
    unsafe fn eq(a: I::V, b: I::V) -> I::V;
    /// A byte for each lane of a block, all ones or zeros as the lane. Of the registers, the first that a block has.
    unsafe fn bytes(masks: [I::V; 8]) -> I::V;
}

/// Lanes of floats.
///
/// # Safety
/// As for the operations of [`Simd`].
pub(super) trait FloatLanes<I: Simd>: Compared<I> {
    /// Signed, and unsigned.
    unsafe fn max(a: I::V, b: I::V) -> I::V;
    unsafe fn min(a: I::V, b: I::V) -> I::V;
    /// How many lanes are not the same.
    unsafe fn differ(a: I::V, b: I::V) -> usize;
    unsafe fn trunc(x: I::V) -> I::V;
}

pub(super) struct Wide8;
pub(super) struct Wide16;
pub(super) struct Wide32;
pub(super) struct Wide64;

macro_rules! lanes {
    ($($lanes:ident as $lane:ty: $splat:ident, $sub:ident;)*) => {$(
        impl<I: Simd> Lanes<I> for $lanes {
            const BYTES: usize = size_of::<$lane>();

            #[inline(always)]
            unsafe fn splat(bits: u64) -> I::V {
                // SAFETY: the caller's promise.
                unsafe { I::$splat(bits as $lane) }
            }
            #[inline(always)]
            unsafe fn sub(a: I::V, b: I::V) -> I::V {
                // SAFETY: the caller's promise.
                unsafe { I::$sub(a, b) }
            }
        }
    )*};
}
lanes! {
    Wide8 as u8: splat8, sub8;
    Wide16 as u16: splat16, sub16;
    Wide32 as u32: splat32, sub32;
    Wide64 as u64: splat64, sub64;
}

impl<I: Simd> Compared<I> for Wide16 {
    #[inline(always)]
    unsafe fn gt(a: I::V, b: I::V) -> I::V {
        // SAFETY: the caller's promise.
        unsafe { I::gt16(a, b) }
    }
    #[inline(always)]
    unsafe fn eq(a: I::V, b: I::V) -> I::V {
        // SAFETY: the caller's promise.
        unsafe { I::eq16(a, b) }
    }
    #[inline(always)]
    unsafe fn bytes([a, b, ..]: [I::V; 8]) -> I::V {
        // SAFETY: the caller's promise.
        unsafe { I::signs16([a, b]) }
    }
}

macro_rules! float_lanes {
    ($($lanes:ident as $lane:ty:
        $gt:ident, $eq:ident, $select:ident, $max:ident, $min:ident, $count:ident, $trunc:ident,
        $masks:pat => $bytes:expr;
    )*) => {$(
        impl<I: Simd> Compared<I> for $lanes {
            #[inline(always)]
            unsafe fn gt(a: I::V, b: I::V) -> I::V {
                // SAFETY: the caller's promise.
                unsafe { I::$select(I::$gt(a, b), I::splat64(u64::MAX), I::splat64(0)) }
            }
            #[inline(always)]
            unsafe fn eq(a: I::V, b: I::V) -> I::V {
                // SAFETY: the caller's promise.
                unsafe { I::$select(I::$eq(a, b), I::splat64(u64::MAX), I::splat64(0)) }
            }
            #[inline(always)]
            unsafe fn bytes($masks: [I::V; 8]) -> I::V {
                // SAFETY: the caller's promise.
                unsafe { I::signs32($bytes) }
            }
        }

        impl<I: Simd> FloatLanes<I> for $lanes {
            #[inline(always)]
            unsafe fn max(a: I::V, b: I::V) -> I::V {
                // SAFETY: the caller's promise.
                unsafe { I::$max(a, b) }
            }
            #[inline(always)]
            unsafe fn min(a: I::V, b: I::V) -> I::V {
                // SAFETY: the caller's promise.
                unsafe { I::$min(a, b) }
            }
            #[inline(always)]
            unsafe fn differ(a: I::V, b: I::V) -> usize {
                // SAFETY: the caller's promise.
                I::BYTES / size_of::<$lane>() - unsafe { I::$count(I::$eq(a, b)) }
            }
            #[inline(always)]
            unsafe fn trunc(x: I::V) -> I::V {
                // SAFETY: the caller's promise.
                unsafe { I::$trunc(x) }
            }
        }
    )*};
}
float_lanes! {
    Wide32 as u32: gt32, eq32, select32, max_s32, min_u32, count32, trunc_f32,
        [a, b, c, d, ..] => [a, b, c, d];
    Wide64 as u64: gt64, eq64, select64, max_s64, min_u64, count64, trunc_f64,
        [a, b, c, d, e, f, g, h] => [I::low64([a, b]), I::low64([c, d]), I::low64([e, f]), I::low64([g, h])];
}

/// A register in memory.
#[repr(C, align(64))]
pub(super) struct Register(pub(super) [u64; 8]);

impl Register {
    /// # Safety
    /// As for the operations of [`Simd`].
    #[inline(always)]
    pub(super) unsafe fn new<I: Simd>(v: I::V) -> Self {
        const { assert!(I::BYTES <= size_of::<Self>()) };
        let mut register = Self([0; 8]);
        // SAFETY: a register has no more bytes.
        unsafe { I::store(register.0.as_mut_ptr().cast(), v) };
        register
    }

    /// The lane of so many bytes that begins with a byte.
    #[inline(always)]
    pub(super) fn lane(&self, at: usize, bytes: usize) -> u64 {
        self.0[at / 8] << (64 - 8 * (at % 8 + bytes)) >> (64 - 8 * bytes)
    }
}
