//! The sources of 16 bits and more and the bytes of integers, as lanes of f32, of f64 or of their own integers.
//!
//! Where a source does not fit, it is rounded to *odd*: cut, and the last bit that is kept is set if anything
//! was cut off. That keeps the source on its side of every number and every midpoint that a narrower format
//! has, so the encoder's rounding is the only one, in every mode. The proof of each step stands with it.

use core::marker::PhantomData;

use super::super::simd::Simd;
use super::lookup::Looks;
use super::{Ends, load16, load32, load64, registers};

/// Elements of memory. The functions read a block.
pub(in crate::kernels) trait Source {
    const BITS: usize;
    /// To read the elements is a matter of the floating-point environment. (Integers become floats exactly.)
    const FLOATS: bool;
    /// Integers of 16 bits or fewer, with a sign or not.
    const SHORT: Option<bool> = None;

    /// What it looks up, of a table that has it. If it looks at none, anything.
    ///
    /// # Safety
    /// As for the operations of [`Simd`].
    #[inline(always)]
    unsafe fn looks<I: Simd>(_table: *const u8) -> Looks<I> {
        // SAFETY: the caller's promise.
        unsafe { Looks::at_nothing() }
    }
}

/// Elements of so many bits, to a codec that reads them itself.
pub(in crate::kernels) struct Bits<const BITS: usize>;

impl<const BITS: usize> Source for Bits<BITS> {
    const BITS: usize = BITS;
    const FLOATS: bool = false;
}

/// Is it that, on this instruction set?
pub(in crate::kernels) const fn is_guarded<I: Simd, S: Source>() -> bool {
    S::FLOATS && !(S::BITS == 16 && I::QUIET_F16)
}

/// As f32: exact, or rounded to odd with enough bits for every float of 16 bits or fewer.
///
/// # Safety
/// As for the operations of [`Simd`]: also [`AsF64`] and [`AsInteger`].
pub(in crate::kernels) trait AsF32<I: Simd>: Source {
    unsafe fn f32(src: *const u8, ends: Ends<I>) -> [I::V; 4];
}

/// As floats of 16 bits with 8 significant ones: exact, or rounded to odd.
///
/// # Safety
/// As for the operations of [`Simd`].
pub(in crate::kernels) trait AsHalf<I: Simd>: Source {
    const MANTISSA: u32;
    unsafe fn half(src: *const u8, ends: Ends<I>) -> [I::V; 2];
}

/// As f64: exact, or rounded to odd with enough bits for f32 and everything narrower.
pub(in crate::kernels) trait AsF64<I: Simd>: Source {
    unsafe fn f64(src: *const u8, ends: Ends<I>) -> [I::V; 8];
}

macro_rules! sources {
    ($($name:ident: $bits:literal, $floats:literal $(, short $signed:literal)?;)*) => {$(
        pub(in crate::kernels) struct $name;
        impl Source for $name {
            const BITS: usize = $bits;
            const FLOATS: bool = $floats;
            $(const SHORT: Option<bool> = Some($signed);)?
        }
    )*};
}
// `Re32` and `Re64` are the real parts of complex elements.
sources! {
    F8: 8, false; F16: 16, true; Bf16: 16, false; F32: 32, false; F64: 64, true; Re32: 64, false; Re64: 128, true;
    I8: 8, false, short true; U8: 8, false, short false; I16: 16, false, short true; U16: 16, false, short false;
    I32: 32, false; U32: 32, false; I64: 64, true; U64: 64, true;
}

/// Of 16 bits, only float16 depends on the floating-point environment.
pub(super) const fn is_f16<S: Source>() -> bool {
    S::BITS == 16 && S::FLOATS
}

/// Four registers from two that widen.
macro_rules! widened {
    ($v:ident => $widen:expr) => {{
        let [a, b] = {
            let $v = $v[0];
            $widen
        };
        let [c, d] = {
            let $v = $v[1];
            $widen
        };
        [a, b, c, d]
    }};
}

macro_rules! as_f32 {
    ($($source:ident($src:ident, $ends:ident) = $body:expr;)*) => {$(
        impl<I: Simd> AsF32<I> for $source {
            #[inline(always)]
            unsafe fn f32($src: *const u8, $ends: Ends<I>) -> [I::V; 4] {
                // SAFETY: the caller's promise.
                unsafe { $body }
            }
        }
    )*};
}

as_f32! {
    F16(src, _ends) = { let v = load16::<I>(src); widened!(v => I::f16_to_f32(v)) };
    // The upper half of an f32.
    Bf16(src, _ends) = { let v = load16::<I>(src); widened!(v => I::upper32(v)) };
    F32(src, _ends) = load32::<I>(src);
    Re32(src, _ends) = {
        registers!(4, K => {
            let pair = src.add(2 * K * I::BYTES);
            I::low64([I::load(pair), I::load(pair.add(I::BYTES))])
        })
    };
    I8(src, _ends) = {
        let v = I::sext8(I::load(src));
        let v = widened!(v => I::sext16(v));
        registers!(4, K => I::i32_to_f32(v[K]))
    };
    U8(src, _ends) = {
        let v = I::zext8(I::load(src));
        let v = widened!(v => I::zext16(v));
        registers!(4, K => I::i32_to_f32(v[K]))
    };
    I16(src, _ends) = {
        let v = load16::<I>(src);
        let v = widened!(v => I::sext16(v));
        registers!(4, K => I::i32_to_f32(v[K]))
    };
    U16(src, _ends) = {
        let v = load16::<I>(src);
        let v = widened!(v => I::zext16(v));
        registers!(4, K => I::i32_to_f32(v[K]))
    };
    // Below 2^24 exact. From there on the low 8 bits make one sticky bit, so 17 to 24 bits are left, which
    // is exact in an f32 and at least two more than bfloat16 has; float16 and narrower overflow there.
    I32(src, _ends) = {
        let v = load32::<I>(src);
        registers!(4, K => I::i32_to_f32(odd32::<I>(v[K], I::shr32::<25>(I::add32(v[K], I::splat32(1 << 24))))))
    };
    U32(src, _ends) = {
        let v = load32::<I>(src);
        registers!(4, K => I::u32_to_f32(odd32::<I>(v[K], I::shr32::<24>(v[K]))))
    };
    F64(src, _ends) = odd_f32::<I>(load64::<I>(src));
    Re64(src, ends) = odd_f32::<I>(<Re64 as AsF64<I>>::f64(src, ends));
    I64(src, ends) = odd_f32::<I>(<I64 as AsF64<I>>::f64(src, ends));
    U64(src, ends) = odd_f32::<I>(<U64 as AsF64<I>>::f64(src, ends));
}

/// Integers to what ends far below 2^24: larger ones are as good as that, which an f32 holds exactly, and all before it.
pub(in crate::kernels) struct Clipped<S>(PhantomData<S>);

impl<S: Source> Source for Clipped<S> {
    const BITS: usize = S::BITS;
    const FLOATS: bool = false;
}

impl<I: Simd, S: AsInteger<I>> AsF32<I> for Clipped<S> {
    #[inline(always)]
    unsafe fn f32(src: *const u8, _: Ends<I>) -> [I::V; 4] {
        const END: u64 = 1 << 24;
        // SAFETY: the caller's promise.
        unsafe {
            let v = if S::BITS == 64 {
                let v = load64::<I>(src);
                let (low, high) = (I::splat64(END.wrapping_neg()), I::splat64(END));
                let v = registers!(8, K => match S::SIGNED {
                    true => I::min_s64(I::max_s64(v[K], low), high),
                    false => I::min_u64(v[K], high),
                });
                registers!(4, K => I::low64([v[2 * K], v[2 * K + 1]]))
            } else {
                let v = load32::<I>(src);
                let (low, high) = (I::splat32(END.wrapping_neg() as u32), I::splat32(END as u32));
                registers!(4, K => match S::SIGNED {
                    true => I::min_s32(I::max_s32(v[K], low), high),
                    false => I::min_u32(v[K], high),
                })
            };
            registers!(4, K => I::i32_to_f32(v[K]))
        }
    }
}

impl<I: Simd> AsHalf<I> for F16 {
    const MANTISSA: u32 = 10;

    #[inline(always)]
    unsafe fn half(src: *const u8, _: Ends<I>) -> [I::V; 2] {
        // SAFETY: the caller's promise. The low 3 bits become one above them, and nothing is carried further.
        unsafe {
            let v = load16::<I>(src);
            registers!(2, K => {
                let low = I::splat16(7);
                let sticky = I::and(I::add32(I::and(v[K], low), low), I::splat16(8));
                I::or(I::and_not(low, v[K]), sticky)
            })
        }
    }
}

impl<I: Simd> AsHalf<I> for Bf16 {
    const MANTISSA: u32 = 7;

    #[inline(always)]
    unsafe fn half(src: *const u8, _: Ends<I>) -> [I::V; 2] {
        // SAFETY: the caller's promise.
        unsafe { load16::<I>(src) }
    }
}

/// The low 8 bits as one sticky bit above them, unless `above` is 0. The odd neighbour is the same in two's complement.
///
/// # Safety
/// As for the operations of [`Simd`].
#[inline(always)]
unsafe fn odd32<I: Simd>(v: I::V, above: I::V) -> I::V {
    // SAFETY: the caller's promise. What is added carries into the bit above the low ones, if any of those is set.
    unsafe {
        let low = I::splat32(0xFF);
        let odd = I::and_not(low, I::or(v, I::add32(I::and(v, low), low)));
        I::select32(I::eq32(above, I::splat32(0)), v, odd)
    }
}

/// The same of the low 11 bits.
///
/// # Safety
/// As for the operations of [`Simd`].
#[inline(always)]
pub(in crate::kernels) unsafe fn odd64<I: Simd>(v: I::V, above: I::V) -> I::V {
    // SAFETY: as above.
    unsafe {
        let low = I::splat64(0x7FF);
        let odd = I::and_not(low, I::or(v, I::add64(I::and(v, low), low)));
        I::select64(I::eq64(above, I::splat64(0)), v, odd)
    }
}

/// f64 to f32, rounded to odd.
///
/// # Safety
/// As for the operations of [`Simd`].
#[inline(always)]
unsafe fn odd_f32<I: Simd>(v: [I::V; 8]) -> [I::V; 4] {
    // SAFETY: the caller's promise.
    unsafe { registers!(4, K => I::f64_to_odd_f32([v[2 * K], v[2 * K + 1]])) }
}

macro_rules! as_f64 {
    ($($source:ident($src:ident, $ends:ident) = $body:expr;)*) => {$(
        impl<I: Simd> AsF64<I> for $source {
            #[inline(always)]
            unsafe fn f64($src: *const u8, $ends: Ends<I>) -> [I::V; 8] {
                // SAFETY: the caller's promise.
                unsafe { $body }
            }
        }
    )*};
}

as_f64! {
    F16(src, ends) = from_f32::<I>(<F16 as AsF32<I>>::f32(src, ends));
    Bf16(src, ends) = from_f32::<I>(<Bf16 as AsF32<I>>::f32(src, ends));
    F32(src, _ends) = from_f32::<I>(load32::<I>(src));
    I8(src, ends) = from_f32::<I>(<I8 as AsF32<I>>::f32(src, ends));
    U8(src, ends) = from_f32::<I>(<U8 as AsF32<I>>::f32(src, ends));
    I16(src, ends) = from_f32::<I>(<I16 as AsF32<I>>::f32(src, ends));
    U16(src, ends) = from_f32::<I>(<U16 as AsF32<I>>::f32(src, ends));
    I32(src, _ends) = {
        let v = load32::<I>(src);
        let v = registers!(4, K => I::i32_to_f64(v[K]));
        registers!(8, K => v[K / 2][K % 2])
    };
    U32(src, _ends) = {
        let v = load32::<I>(src);
        let v = registers!(4, K => I::u32_to_f64(v[K]));
        registers!(8, K => v[K / 2][K % 2])
    };
    Re32(src, ends) = from_f32::<I>(<Re32 as AsF32<I>>::f32(src, ends));
    F64(src, _ends) = load64::<I>(src);
    Re64(src, _ends) = {
        registers!(8, K => {
            let pair = src.add(2 * K * I::BYTES);
            I::even64([I::load(pair), I::load(pair.add(I::BYTES))])
        })
    };
    // From 2^49 on, 53 bits are left at most, which is exact, and 38 at least.
    I64(src, _ends) = {
        let v = load64::<I>(src);
        registers!(8, K => I::i64_to_f64(odd64::<I>(v[K], I::shr64::<50>(I::add64(v[K], I::splat64(1 << 49))))))
    };
    U64(src, _ends) = {
        let v = load64::<I>(src);
        registers!(8, K => I::u64_to_f64(odd64::<I>(v[K], I::shr64::<49>(v[K]))))
    };
}

/// # Safety
/// As for the operations of [`Simd`].
#[inline(always)]
pub(super) unsafe fn from_f32<I: Simd>(v: [I::V; 4]) -> [I::V; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let v = registers!(4, K => I::f32_to_f64(v[K]));
        registers!(8, K => v[K / 2][K % 2])
    }
}

/// The integers as they are: how to clamp them and how to widen them.
///
/// # Safety
/// As for the operations of [`Simd`].
pub(in crate::kernels) trait AsInteger<I: Simd>: Source {
    const SIGNED: bool;

    /// A block of 8 bits or fewer.
    #[inline(always)]
    unsafe fn bytes(src: *const u8, _: Ends<I>) -> I::V {
        // SAFETY: the caller's promise.
        unsafe { I::load(src) }
    }

    /// The same, clamped and then widened.
    #[inline(always)]
    unsafe fn words(src: *const u8, ends: Ends<I>, low: I::V, high: I::V) -> [I::V; 2] {
        // SAFETY: the caller's promise.
        unsafe { Self::widen(Self::clamp(Self::bytes(src, ends), low, high)) }
    }

    unsafe fn splat(x: u64) -> I::V;
    unsafe fn clamp(v: I::V, low: I::V, high: I::V) -> I::V;
    /// As lanes of twice the width. Of 64 bits: never called.
    unsafe fn widen(v: I::V) -> [I::V; 2];
    /// Lanes of 16 and of 32 bits of this sign, widened.
    unsafe fn widen16(v: I::V) -> [I::V; 2];
    unsafe fn widen32(v: I::V) -> [I::V; 2];
}

macro_rules! as_integer {
    ($($source:ident($signed:literal): $splat:ident as $lane:ty, $min:ident, $max:ident, $widen:ident, $widen16:ident, $widen32:ident;)*) => {$(
        impl<I: Simd> AsInteger<I> for $source {
            const SIGNED: bool = $signed;

            #[inline(always)]
            unsafe fn splat(x: u64) -> I::V {
                // SAFETY: the caller's promise.
                unsafe { I::$splat(x as $lane) }
            }
            #[inline(always)]
            unsafe fn clamp(v: I::V, low: I::V, high: I::V) -> I::V {
                // SAFETY: the caller's promise.
                unsafe { I::$min(I::$max(v, low), high) }
            }
            #[inline(always)]
            unsafe fn widen(v: I::V) -> [I::V; 2] {
                // SAFETY: the caller's promise.
                unsafe { I::$widen(v) }
            }
            #[inline(always)]
            unsafe fn widen16(v: I::V) -> [I::V; 2] {
                // SAFETY: the caller's promise.
                unsafe { I::$widen16(v) }
            }
            #[inline(always)]
            unsafe fn widen32(v: I::V) -> [I::V; 2] {
                // SAFETY: the caller's promise.
                unsafe { I::$widen32(v) }
            }
        }
    )*};
}

as_integer! {
    I8(true): splat8 as u8, min_s8, max_s8, sext8, sext16, sext32;
    U8(false): splat8 as u8, min_u8, max_u8, zext8, zext16, zext32;
    I16(true): splat16 as u16, min_s16, max_s16, sext16, sext16, sext32;
    U16(false): splat16 as u16, min_u16, max_u16, zext16, zext16, zext32;
    I32(true): splat32 as u32, min_s32, max_s32, sext32, sext16, sext32;
    U32(false): splat32 as u32, min_u32, max_u32, zext32, zext16, zext32;
    I64(true): splat64 as u64, min_s64, max_s64, sext32, sext16, sext32;
    U64(false): splat64 as u64, min_u64, max_u64, zext32, zext16, zext32;
}
