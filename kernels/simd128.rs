//! WebAssembly's registers of 128 bits, for modules that are compiled with them. An engine that does not have them does not
//! load such a module, so nothing is detected at run time.
//!
//! Three things differ from the other instruction sets:
//! * Instructions round to nearest even, and there is no control register. `environment.rs` keeps the rounding mode, and [`Dynamic`]
//!   corrects results: it computes the difference to the exact result, which shows whether a neighbour is the right one.
//! * The bits of a NaN that an operation on floats returns are unspecified. Where there may be a NaN, its bits are made by
//!   integer operations ([`quiet`]).
//! * There is no float16. It is made by integer operations, and its subnormals by a sum of floats.

use core::arch::wasm32::*;

use super::codec::plane::{Fold, Plane, PlaneHalf, WordTable};
use super::environment::rounding;
use super::simd::{
    ByAddition, ByRows, BySaturating, Bytes, Converts, Feature, Floats, Halves, Ints, Kernel, Longs, Memory,
    NarrowsByNibbles, Packs, Quiet, Registers, Rows, RunKernel, Saturates, Shorts, Simd, Tables, Task,
    Widths, copy_short, memory_ops, ops, token,
};
use super::sizes::FEW;
use crate::formats::isa::Isa;
use crate::formats::options::Rounding;

token! {
    /// The token.
    Compiled by is_wasm_feature_detected {
        simd128: "simd128",
    }
}

/// The operations on registers. The token is their proof.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wasm<const DYNAMIC: bool>(Compiled);

/// The operations, rounding to nearest even.
pub(crate) type Simd128 = Wasm<false>;

/// The operations, rounding as `environment.rs` says.
pub(crate) type Dynamic = Wasm<true>;

/// Masks of the lanes in which a result is larger than the exact one, and of those in which it is smaller.
#[derive(Clone, Copy)]
struct Off {
    above: v128,
    below: v128,
}

/// What is to be added to the bits of floats that were rounded to nearest, and what is to be subtracted from them, so that they
/// are rounded as the mode says: 1, -1 or 0. `sign` is all ones where a float is negative, and `ones` has a 1 in each lane.
/// (The next float away from zero has the next bits, even after the largest number.)
#[inline(always)]
fn step(sign: v128, ones: v128, Off { above, below }: Off) -> [v128; 2] {
    // 1 or -1, which leads to the next larger float.
    let up = v128_or(sign, ones);
    let none = v128_xor(ones, ones);
    match rounding() {
        Rounding::Up => [v128_and(up, below), none],
        Rounding::Down => [none, v128_and(up, above)],
        Rounding::TowardZero => [none, v128_and(ones, v128_bitselect(below, above, sign))],
        Rounding::NearestEven | Rounding::NearestAway => [none, none],
    }
}

/// Corrects floats of 16, 32 or 64 bits that were rounded to nearest, so that they are rounded as the mode says.
#[inline(always)]
fn turned16(near: v128, off: Off) -> v128 {
    let [more, less] = step(i16x8_shr(near, 15), i16x8_splat(1), off);
    i16x8_sub(i16x8_add(near, more), less)
}

#[inline(always)]
fn turned32(near: v128, off: Off) -> v128 {
    let [more, less] = step(i32x4_shr(near, 31), i32x4_splat(1), off);
    i32x4_sub(i32x4_add(near, more), less)
}

#[inline(always)]
fn turned64(near: v128, off: Off) -> v128 {
    let [more, less] = step(i64x2_shr(near, 63), i64x2_splat(1), off);
    i64x2_sub(i64x2_add(near, more), less)
}

/// Narrows lanes of 64 bits to 32 bits. These are masks, or numbers whose upper half does not matter.
#[inline(always)]
fn low_halves(a: v128, b: v128) -> v128 {
    i32x4_shuffle::<0, 2, 4, 6>(a, b)
}

/// Narrows lanes of 32 bits to 16 bits in the same way.
#[inline(always)]
fn low_quarters(a: v128, b: v128) -> v128 {
    i16x8_shuffle::<0, 2, 4, 6, 8, 10, 12, 14>(a, b)
}

/// Replaces a NaN in the result of an operation by the first operand that is NaN, made quiet; or by a positive NaN if no operand is one.
#[inline(always)]
fn quiet(result: v128, a: v128, b: v128) -> v128 {
    let is_nan = f32x4_ne(result, result);
    if !v128_any_true(is_nan) {
        return result;
    }
    let bit = u32x4_splat(0x40_0000);
    let of_b = v128_bitselect(v128_or(b, bit), u32x4_splat(0x7FC0_0000), f32x4_ne(b, b));
    let of_a = v128_bitselect(v128_or(a, bit), of_b, f32x4_ne(a, a));
    v128_bitselect(of_a, result, is_nan)
}

/// What a sum of floats has lost by rounding: the exact sum minus `sum`.
#[inline(always)]
fn lost_f32(a: v128, b: v128, sum: v128) -> v128 {
    let of_b = f32x4_sub(sum, a);
    f32x4_add(f32x4_sub(a, f32x4_sub(sum, of_b)), f32x4_sub(b, of_b))
}

#[inline(always)]
fn lost_f64(a: v128, b: v128, sum: v128) -> v128 {
    let of_b = f64x2_sub(sum, a);
    f64x2_add(f64x2_sub(a, f64x2_sub(sum, of_b)), f64x2_sub(b, of_b))
}

/// `a * b + c` of f32, in lanes of f64, rounded to odd, with 29 bits more than an f32 has.
#[inline(always)]
fn odd_mul_add(a: v128, b: v128, c: v128) -> v128 {
    // Exact: it has 48 bits, and is far within the range.
    let product = f64x2_mul(a, b);
    let sum = f64x2_add(product, c);
    let lost = lost_f64(product, c, sum);
    let zero = f64x2_splat(0.0);
    // False for NaN.
    let is_off = v128_or(f64x2_gt(lost, zero), f64x2_lt(lost, zero));
    // If the magnitude of a sum is too large and its bits are even, the odd neighbour is the one below.
    let too_large = i64x2_shr(v128_xor(lost, sum), 63);
    let even = v128_andnot(i64x2_splat(1), sum);
    let odd = i64x2_add(sum, v128_and(even, v128_or(too_large, i64x2_splat(1))));
    v128_bitselect(odd, sum, is_off)
}

/// Widens the lower two lanes of f32 to f64, and makes NaNs quiet.
#[inline(always)]
fn f64_of_low(a: v128) -> v128 {
    let wide = f64x2_promote_low_f32x4(a);
    let is_nan = f64x2_ne(wide, wide);
    if !v128_any_true(is_nan) {
        return wide;
    }
    let bits = u64x2_extend_low_u32x4(a);
    let payload = v128_or(i64x2_shl(v128_and(bits, i64x2_splat(0x7F_FFFF)), 29), i64x2_splat(0x7FF8 << 48));
    let nan = v128_or(payload, i64x2_shl(u64x2_shr(bits, 31), 63));
    v128_bitselect(nan, wide, is_nan)
}

/// Rounds two f64 to f32 in the lower lanes, to nearest even.
#[inline(always)]
fn f32_of(a: v128) -> v128 {
    let near = f32x4_demote_f64x2_zero(a);
    let is_nan = f64x2_ne(a, a);
    if !v128_any_true(is_nan) {
        return near;
    }
    let payload = v128_or(v128_and(u64x2_shr(a, 29), i64x2_splat(0x7F_FFFF)), i64x2_splat(0x7FC0_0000));
    let nan = v128_or(payload, i64x2_shl(u64x2_shr(a, 63), 31));
    low_halves(v128_bitselect(nan, u64x2_extend_low_u32x4(near), is_nan), i64x2_splat(0))
}

/// Rounds f32 to f16 in lanes of 32 bits, to nearest even.
///
/// Subnormals are added to 1/2, whose ulp is that of subnormal f16, so that the last bits of the sum are the code. To other
/// numbers, half of the last bit is added, less one unless that bit is odd, and 13 bits are cut off.
#[inline(always)]
fn near_f16(x: v128) -> v128 {
    let a = v128_and(x, i32x4_splat(0x7FFF_FFFF));
    // Larger numbers become Inf. NaN is replaced below.
    let c = u32x4_min(a, u32x4_splat(0x4780_0000));
    let half = f32x4_splat(0.5);
    let subnormal = i32x4_sub(f32x4_add(c, half), half);
    let odd = v128_and(u32x4_shr(c, 13), i32x4_splat(1));
    let normal = u32x4_shr(i32x4_add(i32x4_add(c, i32x4_splat(0xFFF - (112 << 23))), odd), 13);
    let number = v128_bitselect(subnormal, normal, i32x4_lt(c, i32x4_splat(113 << 23)));
    let nan = v128_or(v128_and(u32x4_shr(a, 13), i32x4_splat(0x3FF)), i32x4_splat(0x7E00));
    let code = v128_bitselect(nan, number, i32x4_gt(a, i32x4_splat(0x7F80_0000)));
    v128_or(code, v128_and(u32x4_shr(x, 16), i32x4_splat(0x8000)))
}

/// Converts f16 in lanes of 32 bits to f32, exactly, and makes NaNs quiet.
#[inline(always)]
fn f32_of_f16(h: v128) -> v128 {
    let a = i32x4_shl(v128_and(h, i32x4_splat(0x7FFF)), 13);
    let normal = i32x4_add(a, i32x4_splat(112 << 23));
    // A subnormal: its mantissa with the exponent of the smallest normal number, minus that number.
    let least = i32x4_splat(113 << 23);
    let subnormal = f32x4_sub(i32x4_add(a, least), least);
    let number = v128_bitselect(subnormal, normal, i32x4_lt(a, i32x4_splat(1 << 23)));
    let special = i32x4_gt(a, i32x4_splat((31 << 23) - 1));
    let number = i32x4_add(number, v128_and(special, i32x4_splat(112 << 23)));
    let nan = v128_and(i32x4_gt(a, i32x4_splat(31 << 23)), i32x4_splat(0x40_0000));
    v128_or(v128_or(number, nan), i32x4_shl(v128_and(h, i32x4_splat(0x8000)), 16))
}

/// The registers of a line: see [`Tables::on_line`](super::simd::Tables::on_line).
#[derive(Clone, Copy)]
pub(crate) struct Line {
    magnitude: v128,
    step: v128,
    base: v128,
    near: [v128; 2],
    bits: v128,
    flip: v128,
    far: [v128; 2],
}

impl<const DYNAMIC: bool> Wasm<DYNAMIC> {
    ops! {
        row(self, bytes: &[u8; 16]) -> v128 = v128_load(bytes.as_ptr().cast());
        // The elements of one half of a plane, for indices below 128; 0 for others, whose top bit is set. A half stores each row
        // of 16 as the xor with the row before: an index is looked up by its low bits in every row from the first to its own, and
        // the xor of what is found is the element. In rows behind its own, the index minus the row's begin is negative.
        among(self, half: &PlaneHalf, index: v128) -> v128 = {
            let pairs = half.pairs;
            let mut found = i8x16_splat(0);
            for pair in 0..4 {
                if pairs > pair {
                    // Saturating, so that a negative index stays negative.
                    let mut within = i8x16_sub_sat(index, u8x16_splat(half.begin[pair][0]));
                    for k in 0..2 {
                        let at = v128_and(within, u8x16_splat(0x8F));
                        found = v128_xor(found, i8x16_swizzle(self.row(&half.changes[pair][k]), at));
                        within = i8x16_sub_sat(within, i8x16_splat(16));
                    }
                }
            }
            found
        };
        // Looks up in the first half of a plane, at indices that are shifted and limited as its fold says. 0 for a negative index.
        in_first_half(self, plane: &Plane, index: v128) -> v128 = {
            let numbers = &plane.fold;
            let shifted = i8x16_add(index, u8x16_splat(numbers.shift[0]));
            self.among(&plane.halves[0], i8x16_min(shifted, u8x16_splat(numbers.last[0])))
        };
        // Looks up, in the second half of a plane, what is combined with the result of the first half.
        unknown(self, half: &PlaneHalf, index: v128) -> v128 = self.among(half, v128_xor(index, u8x16_splat(half.flip[0])));
        // Negates the lanes in which the top bit of the index is set.
        with_sign8(self, a: v128, index: v128) -> v128 = {
            let sign = i8x16_shr(index, 7);
            i8x16_sub(v128_xor(a, sign), sign)
        };
        f64_of_ints(self, low: v128, high: v128) -> v128 = {
            // Both are exact, and the sum is rounded once.
            let high = f64x2_mul(high, f64x2_splat(4_294_967_296.0));
            self.add_f64(high, f64x2_convert_low_u32x4(low))
        };
    }
}

impl<const DYNAMIC: bool> Registers for Wasm<DYNAMIC> {
    type V = v128;
    const BYTES: usize = 16;

    memory_ops! {
        load(self, p: *const u8) -> v128 = v128_load(p.cast());
        store(self, p: *mut u8, v: v128) -> () = v128_store(p.cast(), v);
        copy_in(self, p: *const u8, bytes: usize, buffer: *mut u8, registers: usize) -> () = {
            for k in 0..registers {
                self.store(buffer.add(16 * k), u8x16_splat(0));
            }
            copy_short(self, p, buffer, bytes);
        };
        copy_out(self, buffer: *const u8, bytes: usize, p: *mut u8) -> () = copy_short(self, buffer, p, bytes);
    }

    ops! {
        splat8(self, x: u8) -> v128 = u8x16_splat(x);
        splat16(self, x: u16) -> v128 = u16x8_splat(x);
        splat32(self, x: u32) -> v128 = u32x4_splat(x);
        splat64(self, x: u64) -> v128 = u64x2_splat(x);
        and(self, a: v128, b: v128) -> v128 = v128_and(a, b);
        or(self, a: v128, b: v128) -> v128 = v128_or(a, b);
        xor(self, a: v128, b: v128) -> v128 = v128_xor(a, b);
        and_not(self, a: v128, b: v128) -> v128 = v128_andnot(b, a);
    }
}

impl<const DYNAMIC: bool> Memory for Wasm<DYNAMIC> {
    memory_ops! {
        copy(self, from: *const u8, to: *mut u8, bytes: usize) -> () = copy_short(self, from, to, bytes);
        stream(self, p: *mut u8, v: v128) -> () = v128_store(p.cast(), v);
        load_pieces(self, p: *const u8, _apart: isize) -> v128 = self.load(p);
    }

    ops! {
        // There is no such instruction, and no store past the caches.
        prefetch(self, _p: *const u8) -> () = ();
        prefetch_far(self, _p: *const u8) -> () = ();
        fence(self) -> () = ();
    }
}

impl<const DYNAMIC: bool> Packs for Wasm<DYNAMIC> {
    memory_ops! {
        copy_packed(self, _bits: usize, from: *const u8, bytes: usize, p: *mut u8) -> () = self.copy_out(from, bytes, p);
        // Bytes with several elements are copied, and each copy is shifted such that one element is at the low end of its byte.
        <const BITS: usize> unpack(self, p: *const u8, high: bool) -> v128 = match BITS {
            1 => {
                let both = i16x8_splat(p.cast::<i16>().read_unaligned());
                let bytes = i8x16_shuffle::<0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1>(both, both);
                let bit = u64x2_splat(if high { 0x0102_0408_1020_4080 } else { 0x8040_2010_0804_0201 });
                v128_and(i8x16_eq(v128_and(bytes, bit), bit), u8x16_splat(1))
            }
            2 => {
                let bytes = v128_load32_zero(p.cast());
                let b = u32x4_extend_low_u16x8(u16x8_extend_low_u8x16(bytes));
                if high {
                    v128_or(v128_or(u32x4_shr(b, 6), i32x4_shl(b, 4)), v128_or(i32x4_shl(b, 14), i32x4_shl(b, 24)))
                } else {
                    v128_or(v128_or(b, i32x4_shl(b, 6)), v128_or(i32x4_shl(b, 12), i32x4_shl(b, 18)))
                }
            }
            4 => {
                let b = u16x8_load_extend_u8x8(p);
                if high {
                    v128_or(u16x8_shr(b, 4), i16x8_shl(b, 8))
                } else {
                    v128_or(b, i16x8_shl(b, 4))
                }
            }
            _ => {
                let bytes = v128_load32_lane::<2>(v128_load64_zero(p.cast()), p.add(8).cast());
                let t = if high {
                    i8x16_shuffle::<2, 1, 0, 16, 5, 4, 3, 16, 8, 7, 6, 16, 11, 10, 9, 16>(bytes, u8x16_splat(0))
                } else {
                    i8x16_shuffle::<0, 1, 2, 16, 3, 4, 5, 16, 6, 7, 8, 16, 9, 10, 11, 16>(bytes, u8x16_splat(0))
                };
                let low = v128_or(v128_and(t, u32x4_splat(0x3F)), v128_and(i32x4_shl(t, 2), u32x4_splat(0x3F00)));
                let upper = v128_and(i32x4_shl(t, 4), u32x4_splat(0x3F_0000));
                let top = v128_and(i32x4_shl(t, 6), u32x4_splat(0x3F00_0000));
                let v = v128_or(low, v128_or(upper, top));
                if high { self.swap32(v) } else { v }
            }
        };
        // The inverse of `unpack`.
        <const BITS: usize> pack(self, p: *mut u8, v: v128, high: bool) -> () = match BITS {
            1 => {
                let v = if high { self.swap64(v) } else { v };
                p.cast::<u16>().write_unaligned(u8x16_bitmask(i8x16_shl(v, 7)));
            }
            2 => {
                let b = if high {
                    v128_or(v128_or(i32x4_shl(v, 6), u32x4_shr(v, 4)), v128_or(u32x4_shr(v, 14), u32x4_shr(v, 24)))
                } else {
                    v128_or(v128_or(v, u32x4_shr(v, 6)), v128_or(u32x4_shr(v, 12), u32x4_shr(v, 18)))
                };
                let bytes = i8x16_shuffle::<0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12>(b, b);
                v128_store32_lane::<0>(bytes, p.cast());
            }
            4 => {
                let b = if high {
                    v128_or(i16x8_shl(v, 4), u16x8_shr(v, 8))
                } else {
                    v128_or(v, u16x8_shr(v, 4))
                };
                v128_store64_lane::<0>(self.low16([b, b]), p.cast());
            }
            _ => {
                let v = if high { self.swap32(v) } else { v };
                let low = v128_or(v128_and(v, u32x4_splat(0x3F)), v128_and(u32x4_shr(v, 2), u32x4_splat(0xFC0)));
                let upper = v128_and(u32x4_shr(v, 4), u32x4_splat(0x3_F000));
                let top = v128_and(u32x4_shr(v, 6), u32x4_splat(0xFC_0000));
                let t = v128_or(low, v128_or(upper, top));
                let bytes = if high {
                    i8x16_shuffle::<2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, 0, 0, 0, 0>(t, t)
                } else {
                    i8x16_shuffle::<0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0, 0, 0, 0>(t, t)
                };
                v128_store64_lane::<0>(bytes, p.cast());
                v128_store32_lane::<2>(bytes, p.add(8).cast());
            }
        };
    }
}

impl<const DYNAMIC: bool> Bytes for Wasm<DYNAMIC> {
    ops! {
        sub8(self, a: v128, b: v128) -> v128 = u8x16_sub(a, b);
        zero_where_zero8(self, where_: v128, v: v128) -> v128 = v128_and(v, u8x16_ne(where_, u8x16_splat(0)));
        where_gt8(self, a: v128, b: v128, v: v128) -> v128 = v128_and(v, i8x16_gt(a, b));
        min_s8(self, a: v128, b: v128) -> v128 = i8x16_min(a, b);
        max_s8(self, a: v128, b: v128) -> v128 = i8x16_max(a, b);
        min_u8(self, a: v128, b: v128) -> v128 = u8x16_min(a, b);
        max_u8(self, a: v128, b: v128) -> v128 = u8x16_max(a, b);
        top_bits(self, a: v128) -> u64 = u8x16_bitmask(a).into();
    }
}

impl<const DYNAMIC: bool> Shorts for Wasm<DYNAMIC> {
    ops! {
        min_s16(self, a: v128, b: v128) -> v128 = i16x8_min(a, b);
        max_s16(self, a: v128, b: v128) -> v128 = i16x8_max(a, b);
        min_u16(self, a: v128, b: v128) -> v128 = u16x8_min(a, b);
        max_u16(self, a: v128, b: v128) -> v128 = u16x8_max(a, b);
        sub16(self, a: v128, b: v128) -> v128 = u16x8_sub(a, b);
        eq16(self, a: v128, b: v128) -> v128 = u16x8_eq(a, b);
        gt16(self, a: v128, b: v128) -> v128 = i16x8_gt(a, b);
        <const N: u32> shr16(self, a: v128) -> v128 = u16x8_shr(a, N);
    }
}

impl<const DYNAMIC: bool> Ints for Wasm<DYNAMIC> {
    type M32 = v128;

    ops! {
        add32(self, a: v128, b: v128) -> v128 = u32x4_add(a, b);
        sub32(self, a: v128, b: v128) -> v128 = u32x4_sub(a, b);
        <const N: u32> shl32(self, a: v128) -> v128 = u32x4_shl(a, N);
        <const N: u32> shr32(self, a: v128) -> v128 = u32x4_shr(a, N);
        shr32v(self, a: v128, counts: v128) -> v128 = u32x4_shr(a, u32x4_extract_lane::<0>(counts));
        min_s32(self, a: v128, b: v128) -> v128 = i32x4_min(a, b);
        max_s32(self, a: v128, b: v128) -> v128 = i32x4_max(a, b);
        min_u32(self, a: v128, b: v128) -> v128 = u32x4_min(a, b);
        max_u32(self, a: v128, b: v128) -> v128 = u32x4_max(a, b);
        eq32(self, a: v128, b: v128) -> v128 = u32x4_eq(a, b);
        gt32(self, a: v128, b: v128) -> v128 = i32x4_gt(a, b);
        select32(self, mask: v128, yes: v128, no: v128) -> v128 = v128_bitselect(yes, no, mask);
        count32(self, mask: v128) -> usize = u32x4_bitmask(mask).count_ones() as usize;
    }
}

impl<const DYNAMIC: bool> Longs for Wasm<DYNAMIC> {
    type M64 = v128;

    ops! {
        most_u32(self, a: v128) -> u32 = {
            let two = u32x4_max(a, i32x4_shuffle::<2, 3, 0, 1>(a, a));
            u32x4_extract_lane::<0>(u32x4_max(two, i32x4_shuffle::<1, 0, 1, 0>(two, two)))
        };
        most_u16(self, a: v128) -> u32 = {
            let four = u16x8_max(a, i16x8_shuffle::<4, 5, 6, 7, 0, 1, 2, 3>(a, a));
            let two = u16x8_max(four, i16x8_shuffle::<2, 3, 0, 1, 0, 1, 0, 1>(four, four));
            u16x8_extract_lane::<0>(u16x8_max(two, i16x8_shuffle::<1, 0, 1, 0, 1, 0, 1, 0>(two, two))).into()
        };
        add64(self, a: v128, b: v128) -> v128 = u64x2_add(a, b);
        sub64(self, a: v128, b: v128) -> v128 = u64x2_sub(a, b);
        <const N: u32> shr64(self, a: v128) -> v128 = u64x2_shr(a, N);
        shl64v(self, a: v128, counts: v128) -> v128 = {
            let one = |x: u64, count: u64| x.checked_shl(count as u32).unwrap_or(0);
            u64x2(
                one(u64x2_extract_lane::<0>(a), u64x2_extract_lane::<0>(counts)),
                one(u64x2_extract_lane::<1>(a), u64x2_extract_lane::<1>(counts)),
            )
        };
        sign64(self, a: v128) -> v128 = i64x2_shr(a, 63);
        min_s64(self, a: v128, b: v128) -> v128 = v128_bitselect(b, a, i64x2_gt(a, b));
        max_s64(self, a: v128, b: v128) -> v128 = v128_bitselect(a, b, i64x2_gt(a, b));
        // Unsigned numbers compare as signed ones do if the top bits are flipped.
        min_u64(self, a: v128, b: v128) -> v128 = {
            let top = self.splat64(1 << 63);
            v128_bitselect(b, a, i64x2_gt(v128_xor(a, top), v128_xor(b, top)))
        };
        max_u64(self, a: v128, b: v128) -> v128 = {
            let top = self.splat64(1 << 63);
            v128_bitselect(a, b, i64x2_gt(v128_xor(a, top), v128_xor(b, top)))
        };
        eq64(self, a: v128, b: v128) -> v128 = u64x2_eq(a, b);
        gt64(self, a: v128, b: v128) -> v128 = i64x2_gt(a, b);
        select64(self, mask: v128, yes: v128, no: v128) -> v128 = v128_bitselect(yes, no, mask);
        count64(self, mask: v128) -> usize = u64x2_bitmask(mask).count_ones() as usize;
    }
}

impl<const DYNAMIC: bool> Widths for Wasm<DYNAMIC> {
    ops! {
        zext8(self, a: v128) -> [v128; 2] = [u16x8_extend_low_u8x16(a), u16x8_extend_high_u8x16(a)];
        sext8(self, a: v128) -> [v128; 2] = [i16x8_extend_low_i8x16(a), i16x8_extend_high_i8x16(a)];
        zext16(self, a: v128) -> [v128; 2] = [u32x4_extend_low_u16x8(a), u32x4_extend_high_u16x8(a)];
        sext16(self, a: v128) -> [v128; 2] = [i32x4_extend_low_i16x8(a), i32x4_extend_high_i16x8(a)];
        zext32(self, a: v128) -> [v128; 2] = [u64x2_extend_low_u32x4(a), u64x2_extend_high_u32x4(a)];
        sext32(self, a: v128) -> [v128; 2] = [i64x2_extend_low_i32x4(a), i64x2_extend_high_i32x4(a)];
        upper32(self, a: v128) -> [v128; 2] = self.zip_pieces::<2>(u8x16_splat(0), a);
        low16(self, a: [v128; 2]) -> v128 =
            i8x16_shuffle::<0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30>(a[0], a[1]);
        low32(self, a: [v128; 2]) -> v128 = low_quarters(a[0], a[1]);
        low64(self, a: [v128; 2]) -> v128 = low_halves(a[0], a[1]);
        high16(self, a: [v128; 2]) -> v128 =
            i8x16_shuffle::<1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31>(a[0], a[1]);
        high32(self, a: [v128; 2]) -> v128 = i16x8_shuffle::<1, 3, 5, 7, 9, 11, 13, 15>(a[0], a[1]);
        // Narrowing saturates, and so keeps the sign.
        signs16(self, a: [v128; 2]) -> v128 = i8x16_narrow_i16x8(a[0], a[1]);
        signs32(self, a: [v128; 4]) -> v128 =
            i8x16_narrow_i16x8(i16x8_narrow_i32x4(a[0], a[1]), i16x8_narrow_i32x4(a[2], a[3]));
        even64(self, a: [v128; 2]) -> v128 = i64x2_shuffle::<0, 2>(a[0], a[1]);
        zip64(self, a: v128, b: v128) -> [v128; 2] = [i64x2_shuffle::<0, 2>(a, b), i64x2_shuffle::<1, 3>(a, b)];
        <const WIDTH: usize> zip_pieces(self, a: v128, b: v128) -> [v128; 2] = match WIDTH {
            1 => [
                i8x16_shuffle::<0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23>(a, b),
                i8x16_shuffle::<8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31>(a, b),
            ],
            2 => [i16x8_shuffle::<0, 8, 1, 9, 2, 10, 3, 11>(a, b), i16x8_shuffle::<4, 12, 5, 13, 6, 14, 7, 15>(a, b)],
            4 => [i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<2, 6, 3, 7>(a, b)],
            _ => self.zip64(a, b),
        };
        // A register is one piece of 16 bytes.
        <const WIDTH: usize> before_zips(self, a: v128) -> v128 = a;
        swap16(self, a: v128) -> v128 = i8x16_shuffle::<1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14>(a, a);
        swap32(self, a: v128) -> v128 = i8x16_shuffle::<3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12>(a, a);
        swap64(self, a: v128) -> v128 = i8x16_shuffle::<7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8>(a, a);
    }
}

impl<const DYNAMIC: bool> Tables for Wasm<DYNAMIC> {
    type Plane = &'static Plane;
    type Line = Line;

    ops! {
        plane(self, plane: &'static Plane) -> &'static Plane = plane;
        lookup256(self, plane: &'static Plane, fold: Fold, index: v128) -> v128 = {
            let Plane { halves: [low, high], fold: numbers, .. } = plane;
            let magnitude = v128_and(index, u8x16_splat(0x7F));
            let known = match fold {
                Fold::None => self.among(low, index),
                Fold::Same | Fold::Magnitude => {
                    let v = self.among(low, if fold == Fold::Same { magnitude } else { i8x16_abs(index) });
                    v128_xor(v, v128_and(i8x16_shr(index, 7), u8x16_splat(numbers.sign[0])))
                }
                Fold::Positive => self.in_first_half(plane, index),
                Fold::Negated => self.with_sign8(self.in_first_half(plane, magnitude), index),
                Fold::Limited => {
                    let v = self.with_sign8(self.in_first_half(plane, magnitude), index);
                    v128_and(i8x16_min(v, u8x16_splat(numbers.limit[0])), u8x16_splat(numbers.mask[0]))
                }
            };
            if high.pairs == 0 { known } else { v128_xor(known, self.unknown(high, index)) }
        };
        negated_words(self, planes: [&'static Plane; 2], index: v128) -> [v128; 2] = {
            let [low, high] = planes;
            let magnitude = v128_and(index, u8x16_splat(0x7F));
            let words = self.zip_pieces::<1>(self.in_first_half(low, magnitude), self.in_first_half(high, magnitude));
            let sign = i8x16_shr(index, 7);
            let signs = self.zip_pieces::<1>(sign, sign);
            let known = [
                i16x8_sub(v128_xor(words[0], signs[0]), signs[0]),
                i16x8_sub(v128_xor(words[1], signs[1]), signs[1]),
            ];
            let others = [&low.halves[1], &high.halves[1]];
            if others[0].pairs + others[1].pairs == 0 {
                return known;
            }
            let other = self.zip_pieces::<1>(self.unknown(others[0], index), self.unknown(others[1], index));
            [v128_xor(known[0], other[0]), v128_xor(known[1], other[1])]
        };
        lookup64(self, plane: &'static Plane, index: v128) -> v128 =
            self.among(&plane.halves[0], v128_and(index, u8x16_splat(0x3F)));
        lookup16(self, plane: &'static Plane, index: v128) -> v128 =
            i8x16_swizzle(self.row(&plane.elements[0][0]), v128_and(index, u8x16_splat(0x0F)));
        line(self, table: &'static WordTable) -> Line = {
            // All lanes are the same.
            let line = &table.line;
            Line {
                magnitude: u8x16_splat(line.magnitude[0]),
                step: u16x8_splat(line.step[0]),
                base: u16x8_splat(line.base[0]),
                near: [self.row(&line.near[0]), self.row(&line.near[1])],
                bits: u8x16_splat(line.bits[0]),
                flip: u8x16_splat(line.flip[0]),
                far: [self.row(&line.far[0]), self.row(&line.far[1])],
            }
        };
        // In 16 bits that wrap: the place on the line, plus the difference of the element from it. Indices from 16 on find 0.
        on_line(self, line: Line, index: v128) -> [v128; 2] = {
            let place = v128_and(index, line.magnitude);
            let sign = v128_xor(index, place);
            let elsewhere = v128_xor(v128_and(index, line.bits), line.flip);
            let low = v128_xor(i8x16_swizzle(line.near[0], place), i8x16_swizzle(line.far[0], elsewhere));
            let high = v128_xor(i8x16_swizzle(line.near[1], place), i8x16_swizzle(line.far[1], elsewhere));
            let off = self.zip_pieces::<1>(low, v128_xor(high, sign));
            let place = self.zext8(place);
            [
                i16x8_add(i16x8_add(i16x8_mul(place[0], line.step), line.base), off[0]),
                i16x8_add(i16x8_add(i16x8_mul(place[1], line.step), line.base), off[1]),
            ]
        };
    }
}

impl<const DYNAMIC: bool> Floats for Wasm<DYNAMIC> {
    ops! {
        // These instructions return one of the operands, whose bits stay as they are.
        min_or_nan_f32(self, limit: v128, x: v128) -> v128 = f32x4_pmin(x, limit);
        min_or_nan_f64(self, limit: v128, x: v128) -> v128 = f64x2_pmin(x, limit);
        min_f32(self, a: v128, b: v128) -> v128 = f32x4_pmin(a, b);
        max_f32(self, a: v128, b: v128) -> v128 = f32x4_pmax(a, b);
        min_f64(self, a: v128, b: v128) -> v128 = f64x2_pmin(a, b);
        max_f64(self, a: v128, b: v128) -> v128 = f64x2_pmax(a, b);
        number_f32(self, x: v128) -> v128 = v128_and(x, f32x4_eq(x, x));
        number_f64(self, x: v128) -> v128 = v128_and(x, f64x2_eq(x, x));
        add_numbers_f32(self, a: v128, b: v128) -> v128 = {
            let sum = f32x4_add(a, b);
            if !DYNAMIC {
                return sum;
            }
            let (lost, zero) = (lost_f32(a, b, sum), f32x4_splat(0.0));
            let sum = turned32(sum, Off { above: f32x4_lt(lost, zero), below: f32x4_gt(lost, zero) });
            if rounding() != Rounding::Down {
                return sum;
            }
            // The sum of two opposite numbers is -0 if sums are rounded down.
            let is_zero = f32x4_eq(sum, zero);
            v128_or(sum, v128_and(is_zero, v128_and(v128_or(a, b), u32x4_splat(1 << 31))))
        };
        add_f32(self, a: v128, b: v128) -> v128 = quiet(self.add_numbers_f32(a, b), a, b);
        mul_f32(self, a: v128, b: v128) -> v128 = {
            let near = quiet(f32x4_mul(a, b), a, b);
            if !DYNAMIC {
                return near;
            }
            let (a, b, back) = (self.f32_to_f64(a), self.f32_to_f64(b), self.f32_to_f64(near));
            let exact = [f64x2_mul(a[0], b[0]), f64x2_mul(a[1], b[1])];
            turned32(near, Off {
                above: low_halves(f64x2_gt(back[0], exact[0]), f64x2_gt(back[1], exact[1])),
                below: low_halves(f64x2_lt(back[0], exact[0]), f64x2_lt(back[1], exact[1])),
            })
        };
        div_f32(self, a: v128, b: v128) -> v128 = {
            let near = quiet(f32x4_div(a, b), a, b);
            if !DYNAMIC {
                return near;
            }
            // If the divisor is positive, the remainder says whether the quotient is too large or too small.
            let (sign, zero) = (v128_and(b, u32x4_splat(1 << 31)), f32x4_splat(0.0));
            let left = self.mul_add_f32(f32x4_neg(near), v128_xor(b, sign), v128_xor(a, sign));
            turned32(near, Off { above: f32x4_lt(left, zero), below: f32x4_gt(left, zero) })
        };
        mul_add_f32(self, a: v128, b: v128, c: v128) -> v128 = {
            let (x, y, z) = (self.f32_to_f64(a), self.f32_to_f64(b), self.f32_to_f64(c));
            let odd = [odd_mul_add(x[0], y[0], z[0]), odd_mul_add(x[1], y[1], z[1])];
            let sum = self.f64_to_f32(odd);
            v128_bitselect(sum, u32x4_splat(0x7FC0_0000), f32x4_eq(sum, sum))
        };
        trunc_f32(self, a: v128) -> v128 = f32x4_trunc(a);
        trunc_f64(self, a: v128) -> v128 = f64x2_trunc(a);
        round_f32(self, a: v128) -> v128 = match rounding() {
            Rounding::Up => f32x4_ceil(a),
            Rounding::Down => f32x4_floor(a),
            Rounding::TowardZero => f32x4_trunc(a),
            Rounding::NearestEven | Rounding::NearestAway => f32x4_nearest(a),
        };
        round_f64(self, a: v128) -> v128 = match rounding() {
            Rounding::Up => f64x2_ceil(a),
            Rounding::Down => f64x2_floor(a),
            Rounding::TowardZero => f64x2_trunc(a),
            Rounding::NearestEven | Rounding::NearestAway => f64x2_nearest(a),
        };
        // Only used for numbers: integers, and remainders of mantissas.
        add_f64(self, a: v128, b: v128) -> v128 = {
            let sum = f64x2_add(a, b);
            if !DYNAMIC {
                return sum;
            }
            let (lost, zero) = (lost_f64(a, b, sum), f64x2_splat(0.0));
            turned64(sum, Off { above: f64x2_lt(lost, zero), below: f64x2_gt(lost, zero) })
        };
        f32_to_f64(self, a: v128) -> [v128; 2] = [f64_of_low(a), f64_of_low(i64x2_shuffle::<1, 0>(a, a))];
        f64_to_f32(self, a: [v128; 2]) -> v128 = {
            let halves = [f32_of(a[0]), f32_of(a[1])];
            let near = i64x2_shuffle::<0, 2>(halves[0], halves[1]);
            if !DYNAMIC {
                return near;
            }
            let back = [f64x2_promote_low_f32x4(halves[0]), f64x2_promote_low_f32x4(halves[1])];
            turned32(near, Off {
                above: low_halves(f64x2_gt(back[0], a[0]), f64x2_gt(back[1], a[1])),
                below: low_halves(f64x2_lt(back[0], a[0]), f64x2_lt(back[1], a[1])),
            })
        };
    }
}

impl<const DYNAMIC: bool> Halves for Wasm<DYNAMIC> {
    type F16 = Quiet;
    type ToBf16 = Quiet;

    ops! {
        f16_to_f32(self, a: v128) -> [v128; 2] = {
            let magnitude = v128_and(a, u16x8_splat(0x7FFF));
            // Subnormal, Inf or NaN.
            let is_special = u16x8_ge(u16x8_sub(magnitude, u16x8_splat(0x400)), u16x8_splat(0x7800));
            if v128_any_true(v128_and(is_special, u16x8_ne(magnitude, u16x8_splat(0)))) {
                return [f32_of_f16(u32x4_extend_low_u16x8(a)), f32_of_f16(u32x4_extend_high_u16x8(a))];
            }
            // The exponent is too small by 112, which a multiplication corrects.
            let power = u32x4_splat((127 + 112) << 23);
            let signs = self.upper32(v128_xor(a, magnitude));
            let low = f32x4_mul(u32x4_shl(u32x4_extend_low_u16x8(magnitude), 13), power);
            let high = f32x4_mul(u32x4_shl(u32x4_extend_high_u16x8(magnitude), 13), power);
            [v128_or(low, signs[0]), v128_or(high, signs[1])]
        };
        f32_to_f16(self, a: [v128; 2]) -> v128 = {
            let near = self.f32_to_nearest_f16(a);
            if !DYNAMIC {
                return near;
            }
            let back = self.f16_to_f32(near);
            turned16(near, Off {
                above: low_quarters(f32x4_gt(back[0], a[0]), f32x4_gt(back[1], a[1])),
                below: low_quarters(f32x4_lt(back[0], a[0]), f32x4_lt(back[1], a[1])),
            })
        };
        f32_to_nearest_f16(self, a: [v128; 2]) -> v128 = low_quarters(near_f16(a[0]), near_f16(a[1]));
    }
}

impl<const DYNAMIC: bool> Converts for Wasm<DYNAMIC> {
    ops! {
        i32_to_f32(self, a: v128) -> v128 =
            if DYNAMIC { self.f64_to_f32(self.i32_to_f64(a)) } else { f32x4_convert_i32x4(a) };
        u32_to_f32(self, a: v128) -> v128 =
            if DYNAMIC { self.f64_to_f32(self.u32_to_f64(a)) } else { f32x4_convert_u32x4(a) };
        i32_to_f64(self, a: v128) -> [v128; 2] =
            [f64x2_convert_low_i32x4(a), f64x2_convert_low_i32x4(i64x2_shuffle::<1, 0>(a, a))];
        u32_to_f64(self, a: v128) -> [v128; 2] =
            [f64x2_convert_low_u32x4(a), f64x2_convert_low_u32x4(i64x2_shuffle::<1, 0>(a, a))];
        i64_to_f64(self, a: v128) -> v128 = {
            let high = f64x2_convert_low_i32x4(i32x4_shuffle::<1, 3, 1, 3>(a, a));
            self.f64_of_ints(low_halves(a, a), high)
        };
        u64_to_f64(self, a: v128) -> v128 = {
            let high = f64x2_convert_low_u32x4(i32x4_shuffle::<1, 3, 1, 3>(a, a));
            self.f64_of_ints(low_halves(a, a), high)
        };
        asked_f32(self, x: v128) -> v128 = if DYNAMIC { x } else { self.round_f32(x) };
        asked_f64(self, x: v128) -> v128 = if DYNAMIC { x } else { self.round_f64(x) };
        f32_to_i32(self, a: v128) -> v128 = i32x4_trunc_sat_f32x4(if DYNAMIC { self.round_f32(a) } else { a });
        f32_to_u32(self, a: v128) -> v128 = u32x4_trunc_sat_f32x4(if DYNAMIC { self.round_f32(a) } else { a });
        f64_to_i64(self, a: v128) -> v128 = self.cut_i64(if DYNAMIC { self.round_f64(a) } else { a });
        f64_to_u64(self, a: v128) -> v128 = self.cut_u64(if DYNAMIC { self.round_f64(a) } else { a });
    }
}

impl<const DYNAMIC: bool> Saturates for Wasm<DYNAMIC> {
    ops! {
        cut_i32(self, a: v128) -> v128 = i32x4_trunc_sat_f32x4(a);
        cut_u32(self, a: v128) -> v128 = u32x4_trunc_sat_f32x4(a);
        // There is no vector instruction for this.
        cut_i64(self, a: v128) -> v128 = i64x2(f64x2_extract_lane::<0>(a) as i64, f64x2_extract_lane::<1>(a) as i64);
        cut_u64(self, a: v128) -> v128 = u64x2(f64x2_extract_lane::<0>(a) as u64, f64x2_extract_lane::<1>(a) as u64);
        narrow_s16(self, a: [v128; 2]) -> v128 = i8x16_narrow_i16x8(a[0], a[1]);
        narrow_s16_to_u8(self, a: [v128; 2]) -> v128 = u8x16_narrow_i16x8(a[0], a[1]);
        narrow_s32(self, a: [v128; 2]) -> v128 = i16x8_narrow_i32x4(a[0], a[1]);
        narrow_s32_to_u16(self, a: [v128; 2]) -> v128 = u16x8_narrow_i32x4(a[0], a[1]);
    }
}

impl<const DYNAMIC: bool> Simd for Wasm<DYNAMIC> {
    type Token = Compiled;
    type Dynamic = Dynamic;
    type Strided = Self;
    const ISA: Isa = Isa::Simd128;
    type Narrowing = ByAddition;
    type Lookups = ByRows;
    type Integers = BySaturating;
    const LOOPLESS: usize = if DYNAMIC { 0 } else { FEW };

    fn needs_environment(depends: bool) -> bool {
        depends && DYNAMIC
    }

    #[inline(always)]
    fn run<T: Task<Self>>(self, task: T) -> T::Output {
        entry::run(self, task)
    }

    #[inline(always)]
    fn with(token: Compiled) -> Self {
        Self(token)
    }

    #[inline(always)]
    fn strided(self) -> Self {
        self
    }

    fn kernel<W, K: Kernel<Self, W>>() -> RunKernel<K::Job, W> {
        <K as entry::Entry<Self, W>>::enter
    }
}

impl Rows for Simd128 {
    ops! {
        lookup_pieces(self, table: v128, index: v128) -> v128 = u8x16_swizzle(table, index);
        sub_u8(self, a: v128, b: v128) -> v128 = u8x16_sub_sat(a, b);
    }
}

impl NarrowsByNibbles for Simd128 {
    ops! {
        row(self, bytes: &[u8; 16]) -> v128 = v128_load(bytes.as_ptr().cast());
        // Lanes that fit need no mask.
        zipped_low8(self, a: [v128; 2]) -> v128 = u8x16_narrow_i16x8(a[0], a[1]);
        zipped_masks(self, a: [v128; 2]) -> v128 = i8x16_narrow_i16x8(a[0], a[1]);
        select8(self, mask: v128, yes: v128, no: v128) -> v128 = v128_bitselect(yes, no, mask);
    }
}
