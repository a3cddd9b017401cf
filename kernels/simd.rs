//! What a vector instruction set offers to the codecs: the operations on registers, each with its contract.
//!
//! A block is as many elements as a register has bytes, so `n` elements of `w` bytes are `w` registers,
//! in the order of memory. Every operation keeps that order. A lane is as wide as the name says.
//!
//! Operations on floats round as the control register says, which [`super::environment`] has set before any
//! kernel runs: that is how the rounding modes reach them. Where instructions carry their rounding, they do without.

#![allow(
    clippy::needless_range_loop,
    reason = "kernels have no iterator adapters: those are not always inlined"
)]

use super::codec::Codec;
use super::codec::plane::{Fold, Words};
use super::drive::{RunRows, RunScaled};

/// What some CPUs with an instruction set have and others have not. A kernel's setup keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extras {
    /// An instruction that rounds to bfloat16, as [`Simd::f32_to_bf16`].
    pub(crate) bf16: bool,
    /// Those on lanes of f16, from [`Simd::HALVES`] on.
    pub(crate) fp16: bool,
}

impl Extras {
    /// Of this CPU. Not for kernels, which call nothing.
    pub(super) fn this() -> Self {
        #[cfg(isa = "neon")]
        return super::neon::extras();
        // One more bit of the CPU; that it has the registers is asked before any kernel runs.
        #[cfg(not(isa = "neon"))]
        Self { bf16: super::simd::has!(is_x86_feature_detected, "avx512bf16"), fp16: false }
    }
}

/// # Safety
/// Every function but `run` may only be called where the features of the instruction set are enabled and
/// available, that is from what `run` is given. Pointers must be good for a whole register.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// A register of any lanes.
    type V: Copy;
    /// One truth value for each lane of 32 bits.
    type M32: Copy;
    /// One truth value for each lane of 64 bits.
    type M64: Copy;

    /// Bytes in a register, elements in a block.
    const BYTES: usize;
    /// Bytes of a row of a view, as it is stored, from which on it goes past the caches if the whole view does: what begins
    /// and ends a row takes longer than a shorter one saves. (Measured with AVX2 alone: until it is elsewhere, a long row.)
    const ROW_STREAMS_FROM: usize = 16 << 10;

    unsafe fn load(p: *const u8) -> Self::V;
    unsafe fn store(p: *mut u8, v: Self::V);
    /// Copies `bytes` bytes, fewer than `registers` have, to a buffer of so many registers; the rest becomes 0.
    unsafe fn copy_in(p: *const u8, bytes: usize, buffer: *mut u8, registers: usize);
    /// Copies the first `bytes` bytes of a buffer of whole registers, and neither reads nor writes more.
    unsafe fn copy_out(buffer: *const u8, bytes: usize, p: *mut u8);
    /// The same operations, rounded as the control register says.
    type Turned: Simd;
    /// Do the instructions carry their rounding? What becomes a float is rounded to nearest even, and what becomes an
    /// integer is cut, whatever the control register says, and no flag is raised. Only [`Simd::round_f32`] and
    /// [`Simd::round_f64`] are as it says.
    const CARRIES_ROUNDING: bool = false;
    /// Does the control register leave subnormal numbers as they are?
    unsafe fn keeps_subnormals() -> bool {
        true
    }
    /// Copies `bytes` bytes, and reads and writes no others. None of them is among both.
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize);
    /// Asks for a line that will be read soon. Any address will do.
    unsafe fn prefetch(p: *const u8);
    /// The same to a cache that is larger than the first: for lines that lie a power of two apart, of which that one has
    /// room for few.
    unsafe fn prefetch_far(p: *const u8);
    /// A store past the caches. `p` is aligned to the register.
    unsafe fn stream(p: *mut u8, v: Self::V);
    /// After the last [`Simd::stream`]: other threads see it before what is stored next.
    unsafe fn fence();
    unsafe fn splat8(x: u8) -> Self::V;
    unsafe fn splat16(x: u16) -> Self::V;
    unsafe fn splat32(x: u32) -> Self::V;
    unsafe fn splat64(x: u64) -> Self::V;

    unsafe fn and(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn or(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn xor(a: Self::V, b: Self::V) -> Self::V;
    /// `!a & b`
    unsafe fn and_not(a: Self::V, b: Self::V) -> Self::V;
    /// The bits of `from` where `mask` is 1, and elsewhere those of `v`, which is 0 there.
    #[inline(always)]
    unsafe fn put(mask: Self::V, from: Self::V, v: Self::V) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { Self::or(v, Self::and(from, mask)) }
    }

    unsafe fn sub8(a: Self::V, b: Self::V) -> Self::V;
    /// `v`, but 0 in the bytes where `where_` is 0.
    unsafe fn zero_where_zero8(where_: Self::V, v: Self::V) -> Self::V;
    unsafe fn min_s8(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_s8(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min_u8(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_u8(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min_s16(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_s16(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min_u16(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_u16(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn shr16<const N: u32>(a: Self::V) -> Self::V;
    unsafe fn sub16(a: Self::V, b: Self::V) -> Self::V;
    /// All ones where that is true, else zeros.
    unsafe fn eq16(a: Self::V, b: Self::V) -> Self::V;
    /// The same, signed.
    unsafe fn gt16(a: Self::V, b: Self::V) -> Self::V;
    /// The top bit of each byte, that of the first in the lowest bit.
    unsafe fn top_bits(a: Self::V) -> u64;

    unsafe fn add32(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub32(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn shl32<const N: u32>(a: Self::V) -> Self::V;
    unsafe fn shr32<const N: u32>(a: Self::V) -> Self::V;
    /// Each lane by its own count; 0 from 32 on.
    unsafe fn shr32v(a: Self::V, counts: Self::V) -> Self::V;
    unsafe fn min_s32(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_s32(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min_u32(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_u32(a: Self::V, b: Self::V) -> Self::V;
    /// Are masks bits, and not lanes of registers? Then it is faster to count them than to make them lanes.
    const MASKS_ARE_BITS: bool = false;
    unsafe fn eq32(a: Self::V, b: Self::V) -> Self::M32;
    /// Signed.
    unsafe fn gt32(a: Self::V, b: Self::V) -> Self::M32;
    /// Lanes of `yes` where the mask is true.
    unsafe fn select32(mask: Self::M32, yes: Self::V, no: Self::V) -> Self::V;

    /// How many lanes are true.
    unsafe fn count32(mask: Self::M32) -> usize;

    unsafe fn add64(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub64(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn shr64<const N: u32>(a: Self::V) -> Self::V;
    /// Each lane by its own count, which is less than 2^32 or whose result does not matter; 0 from 64 on.
    unsafe fn shl64v(a: Self::V, counts: Self::V) -> Self::V;
    /// All ones where the lane is negative.
    unsafe fn sign64(a: Self::V) -> Self::V;
    unsafe fn min_s64(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_s64(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min_u64(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_u64(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn eq64(a: Self::V, b: Self::V) -> Self::M64;
    /// Signed.
    unsafe fn gt64(a: Self::V, b: Self::V) -> Self::M64;
    unsafe fn select64(mask: Self::M64, yes: Self::V, no: Self::V) -> Self::V;
    unsafe fn count64(mask: Self::M64) -> usize;

    /// The lower and the upper half of the lanes, widened.
    unsafe fn zext8(a: Self::V) -> [Self::V; 2];
    unsafe fn sext8(a: Self::V) -> [Self::V; 2];
    unsafe fn zext16(a: Self::V) -> [Self::V; 2];
    unsafe fn sext16(a: Self::V) -> [Self::V; 2];
    unsafe fn zext32(a: Self::V) -> [Self::V; 2];
    unsafe fn sext32(a: Self::V) -> [Self::V; 2];
    /// Lanes of 16 bits as the high halves of lanes of 32, above zeros.
    #[inline(always)]
    unsafe fn upper32(a: Self::V) -> [Self::V; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let wide = Self::zext16(a);
            [Self::shl32::<16>(wide[0]), Self::shl32::<16>(wide[1])]
        }
    }
    /// The low half of each lane of 16, 32 or 64 bits.
    unsafe fn low16(a: [Self::V; 2]) -> Self::V;
    unsafe fn low32(a: [Self::V; 2]) -> Self::V;
    unsafe fn low64(a: [Self::V; 2]) -> Self::V;
    /// The high half of each lane of 16 or 32 bits.
    unsafe fn high16(a: [Self::V; 2]) -> Self::V;
    unsafe fn high32(a: [Self::V; 2]) -> Self::V;
    /// The lowest byte of each lane of 32 bits.
    #[inline(always)]
    unsafe fn lowest32(a: [Self::V; 4]) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { Self::low16([Self::low32([a[0], a[1]]), Self::low32([a[2], a[3]])]) }
    }
    /// A byte for each lane of 16 or 32 bits, with the same top bit; what else it has is not said.
    #[inline(always)]
    unsafe fn signs16(a: [Self::V; 2]) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { Self::high16(a) }
    }
    #[inline(always)]
    unsafe fn signs32(a: [Self::V; 4]) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { Self::high16([Self::high32([a[0], a[1]]), Self::high32([a[2], a[3]])]) }
    }
    /// The lanes of 64 bits with even numbers.
    unsafe fn even64(a: [Self::V; 2]) -> Self::V;
    /// Lanes of two registers in turn.
    unsafe fn zip64(a: Self::V, b: Self::V) -> [Self::V; 2];
    /// As many pieces of 16 bytes as a register has, so many bytes apart.
    unsafe fn load_pieces(p: *const u8, apart: isize) -> Self::V;
    /// Lanes of `WIDTH` bytes in turn, within each piece of 16 bytes: those of the lower halves, and of the upper.
    unsafe fn zip_pieces<const WIDTH: usize>(a: Self::V, b: Self::V) -> [Self::V; 2];
    /// Bytes in the order that zips of pieces, until each is one of `WIDTH` bytes, turn into their own: each piece has as
    /// many of every register that is made, in the order of those.
    unsafe fn before_zips<const WIDTH: usize>(a: Self::V) -> Self::V;
    /// The bytes of each lane reversed.
    unsafe fn swap16(a: Self::V) -> Self::V;
    unsafe fn swap32(a: Self::V) -> Self::V;
    unsafe fn swap64(a: Self::V) -> Self::V;

    /// What is kept of a row of 64 bytes of a table: registers, or where there are too few of those, the place.
    type Row: Copy;
    unsafe fn row(p: *const u8) -> Self::Row;
    /// The byte at each index in a [plane](super::codec::plane::Plane).
    ///
    /// The fold says how its [`halves`](super::codec::plane::Plane::halves) go together, where those are looked at.
    unsafe fn lookup256(plane: [Self::Row; 4], fold: Fold, index: Self::V) -> Self::V;
    /// The same of two planes of elements of 16 bits whose fold is [`Fold::Negated`], in the order that zips of pieces
    /// leave: where there are [lines](Self::HAS_LINES).
    unsafe fn negated_words(_planes: [Self::Row; 2], _index: Self::V) -> [Self::V; 2] {
        unreachable!()
    }
    /// Among the first 128; the top bit of an index is ignored.
    unsafe fn lookup128(plane: [Self::Row; 2], index: Self::V) -> Self::V;
    /// Among the first 64; the top bits of an index are ignored.
    unsafe fn lookup64(row: Self::Row, index: Self::V) -> Self::V;
    /// Among the first 16, which the next 48 repeat; the top bits of an index are ignored.
    unsafe fn lookup16(row: Self::Row, index: Self::V) -> Self::V;

    /// Tables are looked at by rows of 16 bytes, so that it pays to look at few: elements that make a
    /// [line](super::codec::plane::Line) are computed.
    const HAS_LINES: bool = false;
    /// What is kept of a line.
    type Line: Copy;
    unsafe fn line(_table: *const Words) -> Self::Line {
        unreachable!()
    }
    /// The elements by their index, in the order that zips of pieces leave.
    unsafe fn on_line(_line: Self::Line, _index: Self::V) -> [Self::V; 2] {
        unreachable!()
    }

    /// Without its sign.
    #[inline(always)]
    unsafe fn abs_f32(x: Self::V) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { Self::and_not(Self::splat32(1 << 31), x) }
    }
    /// The smaller one; `x` where that is a NaN. `limit` is none.
    unsafe fn min_or_nan_f32(limit: Self::V, x: Self::V) -> Self::V;
    unsafe fn add_f32(a: Self::V, b: Self::V) -> Self::V;
    /// Neither operand is a NaN.
    unsafe fn min_f32(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_f32(a: Self::V, b: Self::V) -> Self::V;
    /// `x`, but 0 where it is a NaN.
    unsafe fn number_f32(x: Self::V) -> Self::V;
    unsafe fn trunc_f32(a: Self::V) -> Self::V;
    unsafe fn add_f64(a: Self::V, b: Self::V) -> Self::V;
    /// Neither operand is a NaN.
    unsafe fn min_f64(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_f64(a: Self::V, b: Self::V) -> Self::V;
    /// `x`, but 0 where it is a NaN.
    unsafe fn number_f64(x: Self::V) -> Self::V;
    unsafe fn trunc_f64(a: Self::V) -> Self::V;
    /// To an integer that stays a float.
    unsafe fn round_f64(a: Self::V) -> Self::V;

    unsafe fn f16_to_f32(a: Self::V) -> [Self::V; 2];
    /// A NaN is made quiet.
    #[inline(always)]
    unsafe fn bf16_to_f32(a: Self::V) -> [Self::V; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut wide = Self::upper32(a);
            for k in 0..2 {
                let x = wide[k];
                let nan = Self::gt32(Self::abs_f32(x), Self::splat32(0x7F80_0000));
                wide[k] = Self::select32(nan, Self::or(x, Self::splat32(0x40_0000)), x);
            }
            wide
        }
    }
    unsafe fn f32_to_f16(a: [Self::V; 2]) -> Self::V;
    /// Are the conversions of f16, but for [`Simd::f32_to_f16`], independent of the control register, and leave no
    /// flags there?
    const QUIET_F16: bool = false;
    /// Rounded to nearest even, if the control register says that or nothing depends on it.
    #[inline(always)]
    unsafe fn f32_to_nearest_f16(a: [Self::V; 2]) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { Self::f32_to_f16(a) }
    }
    /// Has it what [`ToNarrowByHalf`](super::codec::narrow::ToNarrowByHalf) and the codec by a table work with: shifts of 16-bit
    /// lanes by counts of their own, `sub_u16`, `select_above16`, and the roundings of their high bytes?
    const NARROWS_BY_HALF: bool = false;
    /// 0 where that would be negative.
    unsafe fn sub_u16(_a: Self::V, _b: Self::V) -> Self::V {
        unreachable!()
    }
    /// Each lane by its own count; 0 from 16 on.
    unsafe fn shl16v(_a: Self::V, _counts: Self::V) -> Self::V {
        unreachable!()
    }
    unsafe fn shr16v(_a: Self::V, _counts: Self::V) -> Self::V {
        unreachable!()
    }
    /// The high byte of each lane of 16 bits, rounded to nearest even by the low one; at most 255.
    unsafe fn nearest_high16(_a: [Self::V; 2]) -> Self::V {
        unreachable!()
    }
    /// The same, rounded to odd.
    unsafe fn odd_high16(_a: [Self::V; 2]) -> Self::V {
        unreachable!()
    }
    /// Lanes of `yes` where `a` is more than `limit`, unsigned.
    unsafe fn select_above16(_a: Self::V, _limit: Self::V, _yes: Self::V, _no: Self::V) -> Self::V {
        unreachable!()
    }
    /// Has it what [`ToNarrowByF16`](super::codec::narrow::ToNarrowByF16) works with: `add16`, `f32_to_cut_f16`,
    /// `select_above8`, and of 16-bit lanes `nearest_high16` and `select_above16`?
    const NARROWS_BY_F16: bool = false;
    unsafe fn add16(_a: Self::V, _b: Self::V) -> Self::V {
        unreachable!()
    }
    /// Cut, whatever the control register says.
    unsafe fn f32_to_cut_f16(_a: [Self::V; 2]) -> Self::V {
        unreachable!()
    }
    /// As [`Simd::select_above16`], of bytes.
    unsafe fn select_above8(_a: Self::V, _limit: Self::V, _yes: Self::V, _no: Self::V) -> Self::V {
        unreachable!()
    }
    unsafe fn f32_to_f64(a: Self::V) -> [Self::V; 2];
    unsafe fn f64_to_f32(a: [Self::V; 2]) -> Self::V;
    unsafe fn i32_to_f32(a: Self::V) -> Self::V;
    unsafe fn u32_to_f32(a: Self::V) -> Self::V;
    unsafe fn i32_to_f64(a: Self::V) -> [Self::V; 2];
    unsafe fn u32_to_f64(a: Self::V) -> [Self::V; 2];
    /// Has it instructions from 64-bit integers to float32: `i64_to_f32` and `u64_to_f32`?
    const LONG_TO_F32: bool;
    unsafe fn i64_to_f32(a: [Self::V; 2]) -> Self::V;
    unsafe fn u64_to_f32(a: [Self::V; 2]) -> Self::V;
    /// Are there instructions between floats and what an int32 does not hold?
    const CONVERTS_LONGS: bool = true;
    unsafe fn i64_to_f64(a: Self::V) -> Self::V;
    unsafe fn u64_to_f64(a: Self::V) -> Self::V;
    /// Below −2^31 the minimum; what 2^31 or more give is not said.
    unsafe fn f32_to_i32(a: Self::V) -> Self::V;
    /// 0 ≤ x < 2^32; what others give is not said.
    unsafe fn f32_to_u32(a: Self::V) -> Self::V;
    /// The nearest that there is, and 0 for a NaN: above `beyond`, which is the float below 2^31, it is `most`.
    #[inline(always)]
    unsafe fn f32_to_nearest_i32(x: Self::V, beyond: Self::V, most: Self::V) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe {
            let x = Self::number_f32(x);
            Self::select32(Self::gt32(x, beyond), most, Self::f32_to_i32(x))
        }
    }
    /// The same of 2^63.
    #[inline(always)]
    unsafe fn f64_to_nearest_i64(x: Self::V, beyond: Self::V, most: Self::V) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe {
            let x = Self::number_f64(x);
            Self::select64(Self::gt64(x, beyond), most, Self::f64_to_i64(x))
        }
    }
    /// Below −2^63 the minimum; what 2^63 or more give is not said.
    unsafe fn f64_to_i64(a: Self::V) -> Self::V;
    /// 0 ≤ x < 2^64; what others give is not said.
    unsafe fn f64_to_u64(a: Self::V) -> Self::V;
    /// Does [`Simd::f64_to_i32`] give the minimum for everything that is not in the range, a NaN too?
    const MINIMUM_IS_BEYOND: bool = false;
    /// What others give than those of the range is not said.
    #[inline(always)]
    unsafe fn f64_to_i32(a: [Self::V; 2]) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { Self::low64([Self::f64_to_i64(a[0]), Self::f64_to_i64(a[1])]) }
    }

    /// Two registers of f64 to one of f32, rounded to odd: with at least 15 significant bits, and no more than are
    /// exact from 2^-135 on. Beyond the range of f32, both ways, what comes out is one that a narrower float of 16
    /// bits or fewer rounds as it would round the f64. A NaN keeps the top 10 bits of its payload.
    ///
    /// Here with 15 bits.
    /// * They are at least two more than float16 and bfloat16 have, in every binade: of the subnormals of
    ///   bfloat16, down to 2^-133, the f32 has the ulp 2^-149, so 15 bits are exact from 2^-135 on, below which
    ///   nothing but "not zero, less than half" matters.
    /// * Above the range of f32 and below it the conversion rounds as the register says: to Inf or to the
    ///   largest number, to 0 or to the smallest, as the encoder will.
    /// * NaN: the bits that are cut off count as sticky, so it stays one; the 13 top payload bits stay.
    #[inline(always)]
    unsafe fn f64_to_odd_f32(a: [Self::V; 2]) -> Self::V {
        const LOW: u64 = (1 << 38) - 1;
        // SAFETY: the caller's promise.
        unsafe {
            let low = Self::splat64(LOW);
            let mut odd = a;
            for k in 0..2 {
                let sticky = Self::and(Self::add64(a[k], low), Self::splat64(LOW + 1));
                odd[k] = Self::or(Self::and_not(low, a[k]), sticky);
            }
            Self::f64_to_f32(odd)
        }
    }
    /// Two registers of f32 to one of bfloat16, rounded to nearest even. A NaN keeps its payload and is made quiet.
    #[inline(always)]
    unsafe fn f32_to_bf16(a: [Self::V; 2], _: Extras) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { Self::rounded_bf16(a) }
    }
    /// The same by integers: a bias is added, and the lower half dropped.
    #[inline(always)]
    unsafe fn rounded_bf16(a: [Self::V; 2]) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe {
            let mut rounded = a;
            for k in 0..2 {
                let (x, inf) = (a[k], Self::splat32(0x7F80_0000));
                let nan = Self::gt32(Self::and(x, Self::splat32(!(1 << 31))), inf);
                let odd = Self::and(Self::shr32::<16>(x), Self::splat32(1));
                let near = Self::add32(Self::add32(x, Self::splat32(0x7FFF)), odd);
                rounded[k] = Self::select32(nan, Self::or(x, Self::splat32(0x40_0000)), near);
            }
            Self::high32(rounded)
        }
    }
    /// May that be an operation on floats, which the environment has a say in?
    const FLOATS_TO_BF16: bool = false;

    /// The lanes of [`Simd::any16`], [`Simd::any32`] and [`Simd::any64`] that are not 0: this, or all ones.
    const TRUE: u32 = 0x0101_0101;
    /// Lanes that say whether `a` has any of `bits`: 0 if not, else as [`Simd::TRUE`] says.
    #[inline(always)]
    unsafe fn any16(a: Self::V, bits: Self::V) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { Self::min_u16(Self::and(a, bits), Self::splat16(1)) }
    }
    #[inline(always)]
    unsafe fn any32(a: Self::V, bits: Self::V) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { Self::min_u32(Self::and(a, bits), Self::splat32(1)) }
    }
    /// Of lanes of 64 bits, in their lower halves.
    #[inline(always)]
    unsafe fn any64(a: Self::V, bits: Self::V) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe {
            let v = Self::and(a, bits);
            Self::min_u32(Self::or(v, Self::shr64::<32>(v)), Self::splat32(1))
        }
    }

    /// Has it instructions that saturate as the contract does: floats to integers, by `cut_i32` to `cut_u64`, and wider integers
    /// to narrower ones, by `narrow_s16` to `narrow_s64_to_u32`?
    const SATURATES: bool = false;
    /// A float cut to an integer, the nearest that there is, of the lane's width; a NaN becomes 0.
    unsafe fn cut_i32(_: Self::V) -> Self::V {
        unreachable!()
    }
    unsafe fn cut_u32(_: Self::V) -> Self::V {
        unreachable!()
    }
    unsafe fn cut_i64(_: Self::V) -> Self::V {
        unreachable!()
    }
    unsafe fn cut_u64(_: Self::V) -> Self::V {
        unreachable!()
    }
    /// To an integer that stays a float, as the control register says.
    unsafe fn round_f32(_: Self::V) -> Self::V {
        unreachable!()
    }
    /// Lanes of half the width, the nearest that there are: signed, unsigned, and unsigned ones of signed ones.
    unsafe fn narrow_s16(_: [Self::V; 2]) -> Self::V {
        unreachable!()
    }
    unsafe fn narrow_u16(_: [Self::V; 2]) -> Self::V {
        unreachable!()
    }
    unsafe fn narrow_s16_to_u8(_: [Self::V; 2]) -> Self::V {
        unreachable!()
    }
    unsafe fn narrow_s32(_: [Self::V; 2]) -> Self::V {
        unreachable!()
    }
    unsafe fn narrow_u32(_: [Self::V; 2]) -> Self::V {
        unreachable!()
    }
    unsafe fn narrow_s32_to_u16(_: [Self::V; 2]) -> Self::V {
        unreachable!()
    }
    unsafe fn narrow_s64(_: [Self::V; 2]) -> Self::V {
        unreachable!()
    }
    unsafe fn narrow_u64(_: [Self::V; 2]) -> Self::V {
        unreachable!()
    }
    unsafe fn narrow_s64_to_u32(_: [Self::V; 2]) -> Self::V {
        unreachable!()
    }

    /// Has it, without [`Simd::SATURATES`], instructions that saturate signed lanes of 32 and 16 bits to half the width:
    /// `narrow_s16`, `narrow_s16_to_u8`, `narrow_s32` and `narrow_s32_to_u16`, and `min_or_nan_f64`? Then what is too small for an int32, or a NaN, becomes the minimum by [`Simd::f32_to_i32`] and [`Simd::f64_to_i32`].
    const PACKS: bool = false;
    /// The smaller one; `x` where that is a NaN. `limit` is none.
    unsafe fn min_or_nan_f64(_limit: Self::V, _x: Self::V) -> Self::V {
        unreachable!()
    }

    /// Does it find a NaN among registers faster than it replaces each: `any_nan_f32` and `any_nan_f64`? Then [`Simd::max_f32`] and [`Simd::max_f64`] are `b` where `a` is a NaN.
    const SEARCHES_NANS: bool = false;
    unsafe fn any_nan_f32(_x: [Self::V; 4]) -> bool {
        unreachable!()
    }
    unsafe fn any_nan_f64(_x: [Self::V; 8]) -> bool {
        unreachable!()
    }

    /// Has it operations on lanes of float16, from `round_f16` to `u16_to_f16`, on CPUs with [`Extras::fp16`]?
    const HALVES: bool = false;
    /// To an integer that stays a float, as the control register says.
    unsafe fn round_f16(_: Self::V) -> Self::V {
        unreachable!()
    }
    /// As [`Simd::cut_i32`].
    unsafe fn cut_i16(_: Self::V) -> Self::V {
        unreachable!()
    }
    unsafe fn cut_u16(_: Self::V) -> Self::V {
        unreachable!()
    }
    /// Rounded as the control register says.
    unsafe fn i16_to_f16(_: Self::V) -> Self::V {
        unreachable!()
    }
    unsafe fn u16_to_f16(_: Self::V) -> Self::V {
        unreachable!()
    }

    /// A block of packed elements of 2, 4 or 6 bits, the first at the low or at the high end of a byte, to
    /// one per byte. What a byte has above them is not said. No more is read than they have.
    unsafe fn unpack<const BITS: usize>(p: *const u8, high: bool) -> Self::V;
    /// The inverse, of bytes that are 0 above. No more is written than the elements have.
    unsafe fn pack<const BITS: usize>(p: *mut u8, v: Self::V, high: bool);

    /// The largest lane.
    unsafe fn most_u32(a: Self::V) -> u32;
    unsafe fn most_u16(a: Self::V) -> u32;
    unsafe fn mul_f32(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    unsafe fn mul_add_f32(a: Self::V, b: Self::V, c: Self::V) -> Self::V;

    /// Runs a function with the features enabled.
    ///
    /// # Safety
    /// The instruction set is available.
    unsafe fn run<T: Task>(task: T) -> T::Output;

    /// A codec on rows, as a function with the features enabled: a kernel.
    fn kernel<C: Codec<Self>>() -> RunRows;
    /// The same of a codec that reads elements under scales.
    fn scaled_kernel<C: Codec<Self>>() -> RunScaled;
}

/// What is to run with the features of an instruction set enabled, by [`Simd::run`].
pub(super) trait Task {
    type Output;

    /// `#[inline(always)]`, or it has no features: that is why it is no closure.
    fn call(self) -> Self::Output;
}

/// Has this CPU a feature? Without the standard library, which knows how to ask: must every CPU of the target have it?
macro_rules! has {
    ($detected:ident, $feature:tt) => {{
        #[cfg(feature = "std")]
        let has = std::arch::$detected!($feature);
        #[cfg(not(feature = "std"))]
        let has = cfg!(target_feature = $feature);
        has
    }};
}
pub(super) use has;

/// The token of an instruction set: the one list of its features, for detection and for `#[target_feature]` alike.
macro_rules! token {
    ($(#[$doc:meta])* $name:ident by $detected:ident { $($field:ident: $feature:tt),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[allow(dead_code, reason = "the fields are names: src/detect.rs has the same list")]
        pub(crate) struct $name {
            $(pub(crate) $field: (),)*
        }

        impl $name {
            /// Has this CPU all of them?
            pub(crate) fn is_available() -> bool {
                $(super::simd::has!($detected, $feature))&&*
            }
        }

        /// The entries, which are compiled with the features.
        mod entry {
            use super::super::codec::{Codec, Job};
            use super::super::drive::{Apart, Scale};
            use super::super::simd::{Simd, Task};
            use super::super::vector;

            /// # Safety
            /// The features are available.
            $(#[target_feature(enable = $feature)])*
            pub(in super::super) unsafe fn run<T: Task>(task: T) -> T::Output {
                task.call()
            }

            /// A method of the codec, because the compiler translates it with the module that the codec is of, and several
            /// modules at once.
            pub(in super::super) trait Kernel<I: Simd> {
                /// # Safety
                /// As for every `Core`.
                unsafe fn rows(job: &Job, src: *const u8, dst: *mut u8, n: usize, apart: &Apart) -> bool;
                /// # Safety
                /// As for every `RunScaled`.
                unsafe fn scaled(job: &Job, scale: &Scale, src: *const u8, dst: *mut u8, n: usize);
            }

            impl<I: Simd, C: Codec<I>> Kernel<I> for C {
                $(#[target_feature(enable = $feature)])*
                unsafe fn rows(job: &Job, src: *const u8, dst: *mut u8, n: usize, apart: &Apart) -> bool {
                    // SAFETY: the caller's promise; the features are enabled.
                    unsafe { vector::rows::<I, C>(job, src, dst, n, apart) }
                }
                $(#[target_feature(enable = $feature)])*
                unsafe fn scaled(job: &Job, scale: &Scale, src: *const u8, dst: *mut u8, n: usize) {
                    // SAFETY: the caller's promise; the features are enabled.
                    unsafe { vector::scaled::<I, C>(job, scale, src, dst, n) }
                }
            }
        }
    };
}
pub(super) use token;

/// Copies a few bytes, without the call of a function: by registers, of which the last two may overlap.
///
/// # Safety
/// `bytes` bytes are readable and writable, and none of them is among both. The features are enabled.
#[inline(always)]
pub(super) unsafe fn copy_short<I: Simd>(from: *const u8, to: *mut u8, bytes: usize) {
    /// The first and the last bytes, if there are as many as in a `T`.
    #[inline(always)]
    unsafe fn ends<T>(from: *const u8, to: *mut u8, bytes: usize) -> bool {
        let Some(last) = bytes.checked_sub(size_of::<T>()) else { return false };
        // SAFETY: the caller's promise: both begin and end within the bytes.
        unsafe {
            let values = [from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned()];
            let [low, high] = values;
            to.cast::<T>().write_unaligned(low);
            to.add(last).cast::<T>().write_unaligned(high);
        }
        true
    }
    // SAFETY: the caller's promise; a register is loaded and stored where there are as many bytes.
    unsafe {
        if bytes >= I::BYTES {
            let mut at = 0;
            while at + I::BYTES < bytes {
                I::store(to.add(at), I::load(from.add(at)));
                at += I::BYTES;
            }
            let last = I::load(from.add(bytes - I::BYTES));
            I::store(to.add(bytes - I::BYTES), last);
        } else if !ends::<u128>(from, to, bytes)
            && !ends::<u64>(from, to, bytes)
            && !ends::<u32>(from, to, bytes)
        {
            if bytes >= 2 {
                ends::<u16>(from, to, bytes);
            } else if bytes == 1 {
                *to = *from;
            }
        }
    }
}

/// Methods that are one expression. All of them are `#[inline(always)]`, without which a kernel would call
/// them through memory.
macro_rules! ops {
    ($($(<$(const $c:ident: $t:ty),*>)? $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name$(<$(const $c: $t),*>)?($($arg: $ty),*) -> $ret {
            #[allow(unused_unsafe, reason = "one or the other needs none")]
            // SAFETY: the trait's contract: the features are enabled where this is inlined to, and pointers
            // are good for a register.
            unsafe { $body }
        }
    )*};
}
pub(super) use ops;
