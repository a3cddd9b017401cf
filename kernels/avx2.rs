//! AVX2, with what came with it: FMA, F16C, BMI2.

use core::arch::x86_64::*;

use super::codec::Codec;
use super::codec::plane::{Fold, Half, Plane, Words};
use super::codec::source::odd64;
use super::drive::{RunRows, RunScaled};
use super::simd::{Extras, Simd, Task, copy_short, ops, token};

token! {
    /// The token.
    Avx2 by is_x86_feature_detected {
        sse: "sse", sse2: "sse2", fxsr: "fxsr", sse3: "sse3",
        ssse3: "ssse3", sse4_1: "sse4.1", sse4_2: "sse4.2",
        popcnt: "popcnt", avx: "avx", avx2: "avx2", bmi1: "bmi1",
        bmi2: "bmi2", fma: "fma", lzcnt: "lzcnt", f16c: "f16c",
    }
}

#[inline(always)]
unsafe fn halves(a: __m256i) -> [__m128i; 2] {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { [_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)] }
}

#[inline(always)]
unsafe fn ps(a: __m256i) -> __m256 {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm256_castsi256_ps(a) }
}

#[inline(always)]
unsafe fn pd(a: __m256i) -> __m256d {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm256_castsi256_pd(a) }
}

#[inline(always)]
unsafe fn bits_ps(a: __m256) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm256_castps_si256(a) }
}

#[inline(always)]
unsafe fn bits_pd(a: __m256d) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm256_castpd_si256(a) }
}

/// The unpack instructions zip the halves of a register each on its own; this puts them in order.
#[inline(always)]
unsafe fn in_order(low: __m256i, high: __m256i) -> [__m256i; 2] {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { [_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high)] }
}

/// The pack instructions, likewise.
#[inline(always)]
unsafe fn packed(a: __m256i) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm256_permute4x64_epi64::<0b11_01_10_00>(a) }
}

/// Both of two such in a row.
#[inline(always)]
unsafe fn twice_packed(a: __m256i) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)) }
}

/// A shift count that is a constant becomes one of the instruction.
#[inline(always)]
unsafe fn count(n: u32) -> __m128i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm_cvtsi32_si128(n as i32) }
}

/// Integers as f64, by their halves as mantissas of floats whose ulps are 1 and 2^32: the difference takes the offsets out,
/// exactly, and the sum rounds once. A zero is -0 where sums round down.
#[inline(always)]
unsafe fn i64_sum(a: __m256i) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe {
        let high = _mm256_xor_si256(_mm256_srli_epi64::<32>(a), _mm256_set1_epi64x(0x4530_0000_8000_0000));
        sum_of_halves(a, high, 0x4530_0000_8010_0000)
    }
}

#[inline(always)]
unsafe fn u64_sum(a: __m256i) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe {
        let high = _mm256_or_si256(_mm256_srli_epi64::<32>(a), _mm256_set1_epi64x(0x4530_0000_0000_0000));
        sum_of_halves(a, high, 0x4530_0000_0010_0000)
    }
}

#[inline(always)]
unsafe fn sum_of_halves(a: __m256i, high: __m256i, offset: i64) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe {
        let low = _mm256_blend_epi32::<0b10_10_10_10>(a, _mm256_set1_epi64x(0x4330_0000_0000_0000));
        bits_pd(_mm256_add_pd(_mm256_sub_pd(pd(high), pd(_mm256_set1_epi64x(offset))), pd(low)))
    }
}

/// Is any of these f64 in the middle between two f32? A number that is rounded to f64 and then to f32 is wrong only there:
/// otherwise it is on the same side of every middle as its f64.
#[inline(always)]
unsafe fn are_in_the_middle(x: [__m256i; 2]) -> bool {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe {
        let low = bits_ps(_mm256_shuffle_ps::<0b10_00_10_00>(ps(x[0]), ps(x[1])));
        is_any(_mm256_cmpeq_epi32(_mm256_slli_epi32::<3>(low), _mm256_set1_epi32(i32::MIN)))
    }
}

/// Is any bit set?
#[inline(always)]
unsafe fn is_any(a: __m256i) -> bool {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm256_testz_si256(a, a) == 0 }
}

/// The bytes of lanes of `width` bytes reversed.
#[inline(always)]
unsafe fn reversed(a: __m256i, pattern: [i8; 16]) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to; the pattern is 16 bytes.
    unsafe {
        let pattern = _mm_loadu_si128(pattern.as_ptr().cast());
        _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(pattern))
    }
}

/// What packed elements of `BITS` bits are moved by.
struct Fields<const BITS: usize>;

impl<const BITS: usize> Fields<BITS> {
    /// The first element at the low end of a byte, and at the high end. The latter is the former with the bytes
    /// of a group reversed, and the elements.
    const CONSTANTS: [FieldConstants; 2] =
        [FieldConstants::new(BITS, false), FieldConstants::new(BITS, true)];
    /// How far the upper two elements of four move up, and of two the upper one.
    const MOVES: [u32; 2] = if BITS < 8 { [16 - 2 * BITS as u32, 8 - BITS as u32] } else { [0; 2] };
    const MASK: u16 = if BITS < 8 { (1 << BITS) - 1 } else { 0 };
}

struct FieldConstants {
    bytes: [u8; 32],
    order: [u8; 32],
    /// Of two elements in a lane of 16 bits, and of two of those in one of 32.
    weights: [i32; 2],
    picks: [u8; 32],
}

impl FieldConstants {
    const fn new(bits: usize, high: bool) -> Self {
        const NOTHING: u8 = 0x80;
        let (mut bytes, mut order, mut picks) = ([NOTHING; 32], [0; 32], [NOTHING; 32]);
        if bits > 6 {
            // Of what is not packed: never used, but named.
            return Self { bytes, order, weights: [0; 2], picks };
        }
        // 4 elements are so many bytes. Each half of a register has 16 of what was loaded.
        let count = bits / 2;
        let mut i = 0;
        while i < 32 {
            let (half, lane, byte) = (i / 16, i % 16 / 4, i % 4);
            let turned = if high { 3 - byte } else { byte };
            order[i] = (4 * lane + turned) as u8;
            // The second half begins at byte `4 * count`, of 6 bits 8 bytes into the load.
            let start = half * (4 * count - if bits == 6 { 8 } else { 0 });
            if byte < count {
                bytes[i] = (start + lane * count + if high { count - 1 - byte } else { byte }) as u8;
                // Of 6 bits the second half is stored in two parts, the first of them behind the first half.
                let at = lane * count + byte;
                let at = if bits == 6 && half == 1 { (at + 12) % 16 } else { at };
                picks[16 * half + at] = (4 * lane + if high { count - 1 - byte } else { byte }) as u8;
            }
            i += 1;
        }
        let (one, two) = (1 << bits, 1 << (2 * bits));
        let weights = if high { [one | 1 << 8, two | 1 << 16] } else { [1 | one << 8, 1 | two << 16] };
        Self { bytes, order, weights, picks }
    }
}

/// So many bytes, 1 to 31, and zeros: of two loads that may overlap, the second one is moved to where it belongs.
#[inline(always)]
unsafe fn partial(p: *const u8, bytes: usize) -> __m256i {
    const SHIFTS: [i8; 32] = {
        let mut shifts = [-1; 32];
        let mut i = 0;
        while i < 16 {
            shifts[i] = i as i8;
            i += 1;
        }
        shifts
    };
    // SAFETY: the features are enabled where this is inlined to, and there are as many bytes.
    unsafe {
        if bytes >= 16 {
            let low = _mm_loadu_si128(p.cast());
            let last = _mm_loadu_si128(p.add(bytes - 16).cast());
            let shift = _mm_loadu_si128(SHIFTS.as_ptr().add(32 - bytes).cast());
            return _mm256_set_m128i(_mm_shuffle_epi8(last, shift), low);
        }
        let (low, high) = if bytes >= 8 {
            let last = p.add(bytes - 8).cast::<u64>().read_unaligned();
            // In two steps: a shift by 64 is none.
            (p.cast::<u64>().read_unaligned(), last >> 1 >> (8 * (15 - bytes) + 7))
        } else if bytes >= 4 {
            let last = u64::from(p.add(bytes - 4).cast::<u32>().read_unaligned());
            (u64::from(p.cast::<u32>().read_unaligned()) | last << (8 * (bytes - 4)), 0)
        } else {
            let [middle, last] = [bytes / 2, bytes - 1];
            let byte = |i: usize| u64::from(*p.add(i)) << (8 * i);
            (byte(0) | byte(middle) | byte(last), 0)
        };
        _mm256_zextsi128_si256(_mm_set_epi64x(high as i64, low as i64))
    }
}

/// 16 bytes, twice.
#[inline(always)]
unsafe fn repeated(p: *const [u8; 16]) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to, and there are 16 bytes.
    unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(p.cast())) }
}

/// The elements of one half of a plane, for indices below 128; 0 for others, whose top bit is set. A half stores each row of 16
/// as the xor with the row before. `pshufb` looks an index up in every row from the first to its own, and the xor of what it
/// finds is the element; in rows behind its own, the index minus the row's begin is negative, and `pshufb` gives 0.
#[inline(always)]
unsafe fn among(half: *const Half, index: __m256i) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to, and it is a half of a plane.
    unsafe {
        let pairs = (*half).pairs;
        let mut found = _mm256_setzero_si256();
        // Branches that always go the same way, and no loop, whose end would have to be foretold.
        for pair in 0..4 {
            if pairs > pair {
                // Saturating, so that what is negative stays so.
                let mut within = _mm256_subs_epi8(index, repeated(&raw const (*half).begin[pair]));
                for k in 0..2 {
                    let changed = _mm256_shuffle_epi8(repeated(&raw const (*half).changes[pair][k]), within);
                    found = _mm256_xor_si256(found, changed);
                    within = _mm256_subs_epi8(within, _mm256_set1_epi8(16));
                }
            }
        }
        found
    }
}

/// What is found in the first half of a plane within its window. For a negative index, 0.
#[inline(always)]
unsafe fn in_window(plane: *const Plane, index: __m256i) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to, and it is a plane.
    unsafe {
        let window = &raw const (*plane).window;
        let shifted = _mm256_add_epi8(index, repeated(&raw const (*window).shift));
        let within = _mm256_min_epi8(shifted, repeated(&raw const (*window).last));
        among(&raw const (*plane).halves[0], within)
    }
}

/// What the second half of a plane adds to what is known.
#[inline(always)]
unsafe fn unknown(half: *const Half, index: __m256i) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to, and it is a half of a plane.
    unsafe { among(half, _mm256_xor_si256(index, repeated(&raw const (*half).flip))) }
}

/// The high byte of each lane of 16 bits rounded to nearest even by the low one, in its place.
#[inline(always)]
unsafe fn nearest_high(a: __m256i) -> __m256i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe {
        let odd = _mm256_and_si256(_mm256_srli_epi16::<8>(a), _mm256_set1_epi16(1));
        _mm256_adds_epu16(_mm256_adds_epu16(a, _mm256_set1_epi16(0x7F)), odd)
    }
}

/// A line, in registers.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    magnitude: __m256i,
    step: __m256i,
    base: __m256i,
    near: [__m256i; 2],
    bits: __m256i,
    flip: __m256i,
    far: [__m256i; 2],
}

impl Simd for Avx2 {
    type Turned = Self;
    type V = __m256i;
    type M32 = __m256i;
    type M64 = __m256i;
    type Row = *const u8;
    type Line = Line;

    const BYTES: usize = 32;
    // On Zen 3, rows of 1 KiB take as long either way.
    const ROW_STREAMS_FROM: usize = 2 << 10;
    const FLOATS_TO_BF16: bool = true;
    const LONG_TO_F32: bool = true;
    const CONVERTS_LONGS: bool = false;
    const HAS_LINES: bool = true;
    const PACKS: bool = true;
    const MINIMUM_IS_BEYOND: bool = true;
    const SEARCHES_NANS: bool = true;
    const NARROWS_BY_F16: bool = true;

    ops! {
        load(p: *const u8) -> __m256i = _mm256_loadu_si256(p.cast());
        store(p: *mut u8, v: __m256i) -> () = _mm256_storeu_si256(p.cast(), v);
        copy_in(p: *const u8, bytes: usize, buffer: *mut u8, registers: usize) -> () = {
            for k in 0..registers {
                Self::store(buffer.add(32 * k), _mm256_setzero_si256());
            }
            let mut at = 0;
            while at + 32 <= bytes {
                Self::store(buffer.add(at), Self::load(p.add(at)));
                at += 32;
            }
            // As a whole register too: one that is loaded from smaller stores waits for them to be in L1.
            if at < bytes {
                Self::store(buffer.add(at), partial(p.add(at), bytes - at));
            }
        };
        copy_out(buffer: *const u8, bytes: usize, p: *mut u8) -> () = copy_short::<Self>(buffer, p, bytes);
        copy(from: *const u8, to: *mut u8, bytes: usize) -> () = copy_short::<Self>(from, to, bytes);
        prefetch(p: *const u8) -> () = _mm_prefetch::<_MM_HINT_T0>(p.cast());
        prefetch_far(p: *const u8) -> () = _mm_prefetch::<_MM_HINT_T1>(p.cast());
        stream(p: *mut u8, v: __m256i) -> () = _mm256_stream_si256(p.cast(), v);
        fence() -> () = _mm_sfence();
        splat8(x: u8) -> __m256i = _mm256_set1_epi8(x as i8);
        splat16(x: u16) -> __m256i = _mm256_set1_epi16(x as i16);
        splat32(x: u32) -> __m256i = _mm256_set1_epi32(x as i32);
        splat64(x: u64) -> __m256i = _mm256_set1_epi64x(x as i64);

        and(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        or(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        xor(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        and_not(a: __m256i, b: __m256i) -> __m256i = _mm256_andnot_si256(a, b);

        sub8(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi8(a, b);
        zero_where_zero8(where_: __m256i, v: __m256i) -> __m256i =
            _mm256_andnot_si256(_mm256_cmpeq_epi8(where_, _mm256_setzero_si256()), v);
        min_s8(a: __m256i, b: __m256i) -> __m256i = _mm256_min_epi8(a, b);
        max_s8(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epi8(a, b);
        min_u8(a: __m256i, b: __m256i) -> __m256i = _mm256_min_epu8(a, b);
        max_u8(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epu8(a, b);
        min_s16(a: __m256i, b: __m256i) -> __m256i = _mm256_min_epi16(a, b);
        max_s16(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epi16(a, b);
        min_u16(a: __m256i, b: __m256i) -> __m256i = _mm256_min_epu16(a, b);
        max_u16(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epu16(a, b);
        sub16(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi16(a, b);
        eq16(a: __m256i, b: __m256i) -> __m256i = _mm256_cmpeq_epi16(a, b);
        gt16(a: __m256i, b: __m256i) -> __m256i = _mm256_cmpgt_epi16(a, b);
        top_bits(a: __m256i) -> u64 = u64::from(_mm256_movemask_epi8(a) as u32);
        <const N: u32> shr16(a: __m256i) -> __m256i = _mm256_srl_epi16(a, count(N));

        add32(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
        sub32(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
        <const N: u32> shl32(a: __m256i) -> __m256i = _mm256_sll_epi32(a, count(N));
        <const N: u32> shr32(a: __m256i) -> __m256i = _mm256_srl_epi32(a, count(N));
        shr32v(a: __m256i, counts: __m256i) -> __m256i = _mm256_srlv_epi32(a, counts);
        min_s32(a: __m256i, b: __m256i) -> __m256i = _mm256_min_epi32(a, b);
        max_s32(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epi32(a, b);
        min_u32(a: __m256i, b: __m256i) -> __m256i = _mm256_min_epu32(a, b);
        max_u32(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epu32(a, b);
        eq32(a: __m256i, b: __m256i) -> __m256i = _mm256_cmpeq_epi32(a, b);
        gt32(a: __m256i, b: __m256i) -> __m256i = _mm256_cmpgt_epi32(a, b);
        select32(mask: __m256i, yes: __m256i, no: __m256i) -> __m256i = _mm256_blendv_epi8(no, yes, mask);
        count32(mask: __m256i) -> usize = _mm256_movemask_ps(ps(mask)).count_ones() as usize;

        add64(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi64(a, b);
        sub64(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi64(a, b);
        <const N: u32> shr64(a: __m256i) -> __m256i = _mm256_srl_epi64(a, count(N));
        shl64v(a: __m256i, counts: __m256i) -> __m256i = _mm256_sllv_epi64(a, counts);
        sign64(a: __m256i) -> __m256i = _mm256_cmpgt_epi64(_mm256_setzero_si256(), a);
        min_s64(a: __m256i, b: __m256i) -> __m256i = _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
        max_s64(a: __m256i, b: __m256i) -> __m256i = _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
        // Unsigned order is signed order with the top bit flipped.
        min_u64(a: __m256i, b: __m256i) -> __m256i = {
            let top = Self::splat64(1 << 63);
            _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(Self::xor(a, top), Self::xor(b, top)))
        };
        max_u64(a: __m256i, b: __m256i) -> __m256i = {
            let top = Self::splat64(1 << 63);
            _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(Self::xor(a, top), Self::xor(b, top)))
        };
        eq64(a: __m256i, b: __m256i) -> __m256i = _mm256_cmpeq_epi64(a, b);
        gt64(a: __m256i, b: __m256i) -> __m256i = _mm256_cmpgt_epi64(a, b);
        select64(mask: __m256i, yes: __m256i, no: __m256i) -> __m256i = _mm256_blendv_epi8(no, yes, mask);
        count64(mask: __m256i) -> usize = _mm256_movemask_pd(pd(mask)).count_ones() as usize;

        zext8(a: __m256i) -> [__m256i; 2] =
            { let [l, h] = halves(a); [_mm256_cvtepu8_epi16(l), _mm256_cvtepu8_epi16(h)] };
        sext8(a: __m256i) -> [__m256i; 2] =
            { let [l, h] = halves(a); [_mm256_cvtepi8_epi16(l), _mm256_cvtepi8_epi16(h)] };
        zext16(a: __m256i) -> [__m256i; 2] =
            { let [l, h] = halves(a); [_mm256_cvtepu16_epi32(l), _mm256_cvtepu16_epi32(h)] };
        sext16(a: __m256i) -> [__m256i; 2] =
            { let [l, h] = halves(a); [_mm256_cvtepi16_epi32(l), _mm256_cvtepi16_epi32(h)] };
        zext32(a: __m256i) -> [__m256i; 2] =
            { let [l, h] = halves(a); [_mm256_cvtepu32_epi64(l), _mm256_cvtepu32_epi64(h)] };
        sext32(a: __m256i) -> [__m256i; 2] =
            { let [l, h] = halves(a); [_mm256_cvtepi32_epi64(l), _mm256_cvtepi32_epi64(h)] };
        low16(a: [__m256i; 2]) -> __m256i = {
            let low = Self::splat16(0xFF);
            packed(_mm256_packus_epi16(Self::and(a[0], low), Self::and(a[1], low)))
        };
        low32(a: [__m256i; 2]) -> __m256i = {
            let low = Self::splat32(0xFFFF);
            packed(_mm256_packus_epi32(Self::and(a[0], low), Self::and(a[1], low)))
        };
        low64(a: [__m256i; 2]) -> __m256i =
            packed(bits_ps(_mm256_shuffle_ps::<0b10_00_10_00>(ps(a[0]), ps(a[1]))));
        high16(a: [__m256i; 2]) -> __m256i =
            packed(_mm256_packus_epi16(Self::shr16::<8>(a[0]), Self::shr16::<8>(a[1])));
        high32(a: [__m256i; 2]) -> __m256i =
            packed(_mm256_packus_epi32(Self::shr32::<16>(a[0]), Self::shr32::<16>(a[1])));
        lowest32(a: [__m256i; 4]) -> __m256i = {
            let low = Self::splat32(0xFF);
            let ab = _mm256_packus_epi32(Self::and(a[0], low), Self::and(a[1], low));
            let cd = _mm256_packus_epi32(Self::and(a[2], low), Self::and(a[3], low));
            twice_packed(_mm256_packus_epi16(ab, cd))
        };
        // What does not fit saturates, and keeps its sign.
        signs16(a: [__m256i; 2]) -> __m256i = packed(_mm256_packs_epi16(a[0], a[1]));
        signs32(a: [__m256i; 4]) -> __m256i =
            twice_packed(_mm256_packs_epi16(_mm256_packs_epi32(a[0], a[1]), _mm256_packs_epi32(a[2], a[3])));
        even64(a: [__m256i; 2]) -> __m256i = packed(_mm256_unpacklo_epi64(a[0], a[1]));
        zip64(a: __m256i, b: __m256i) -> [__m256i; 2] =
            in_order(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
        load_pieces(p: *const u8, apart: isize) -> __m256i = {
            let low = _mm256_castsi128_si256(_mm_loadu_si128(p.cast()));
            _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(p.offset(apart).cast()))
        };
        <const WIDTH: usize> zip_pieces(a: __m256i, b: __m256i) -> [__m256i; 2] = match WIDTH {
            1 => [_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)],
            2 => [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)],
            4 => [_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)],
            _ => [_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)],
        };
        <const WIDTH: usize> before_zips(a: __m256i) -> __m256i = match WIDTH {
            2 => _mm256_permute4x64_epi64::<0b11_01_10_00>(a),
            _ => _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7)),
        };
        swap16(a: __m256i) -> __m256i = reversed(a, [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14]);
        swap32(a: __m256i) -> __m256i = reversed(a, [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12]);
        swap64(a: __m256i) -> __m256i = reversed(a, [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8]);

        row(p: *const u8) -> *const u8 = p;
        lookup256(plane: [*const u8; 4], fold: Fold, index: __m256i) -> __m256i = {
            let plane = plane[0].cast::<Plane>();
            let [low, high] = [&raw const (*plane).halves[0], &raw const (*plane).halves[1]];
            let window = &raw const (*plane).window;
            let magnitude = Self::and(index, Self::splat8(0x7F));
            let known = match fold {
                Fold::Apart => among(low, index),
                Fold::Same | Fold::Magnitude => {
                    let v = among(low, if fold == Fold::Same { magnitude } else { _mm256_abs_epi8(index) });
                    let is_negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), index);
                    Self::xor(v, Self::and(is_negative, repeated(&raw const (*window).sign)))
                }
                Fold::Positive => in_window(plane, index),
                Fold::Negated | Fold::Short => {
                    // An index of 0 would make it 0.
                    let v = _mm256_sign_epi8(in_window(plane, magnitude), Self::or(index, Self::splat8(1)));
                    if fold == Fold::Negated {
                        v
                    } else {
                        let limited = Self::min_s8(v, repeated(&raw const (*window).limit));
                        Self::and(limited, repeated(&raw const (*window).mask))
                    }
                }
            };
            if (*high).pairs == 0 { known } else { Self::xor(known, unknown(high, index)) }
        };
        negated_words(planes: [*const u8; 2], index: __m256i) -> [__m256i; 2] = {
            let [low, high] = [planes[0].cast::<Plane>(), planes[1].cast::<Plane>()];
            let magnitude = Self::and(index, Self::splat8(0x7F));
            let words = Self::zip_pieces::<1>(in_window(low, magnitude), in_window(high, magnitude));
            let sign = Self::or(index, Self::splat8(1));
            let signs = Self::zip_pieces::<1>(sign, sign);
            let known = [_mm256_sign_epi16(words[0], signs[0]), _mm256_sign_epi16(words[1], signs[1])];
            let others = [&raw const (*low).halves[1], &raw const (*high).halves[1]];
            if (*others[0]).pairs + (*others[1]).pairs == 0 {
                return known;
            }
            let other = Self::zip_pieces::<1>(unknown(others[0], index), unknown(others[1], index));
            [Self::xor(known[0], other[0]), Self::xor(known[1], other[1])]
        };
        lookup128(_plane: [*const u8; 2], _index: __m256i) -> __m256i = unreachable!();
        lookup64(row: *const u8, index: __m256i) -> __m256i =
            among(&raw const (*row.cast::<Plane>()).halves[0], Self::and(index, Self::splat8(0x3F)));
        line(table: *const Words) -> Line = {
            let line = &raw const (*table).line;
            Line {
                magnitude: Self::load((&raw const (*line).magnitude).cast()),
                step: Self::load((&raw const (*line).step).cast()),
                base: Self::load((&raw const (*line).base).cast()),
                near: [repeated(&raw const (*line).near[0]), repeated(&raw const (*line).near[1])],
                bits: Self::load((&raw const (*line).bits).cast()),
                flip: Self::load((&raw const (*line).flip).cast()),
                far: [repeated(&raw const (*line).far[0]), repeated(&raw const (*line).far[1])],
            }
        };
        // Of 16 bits that wrap: the place on the line, and how far the element is from it.
        on_line(line: Line, index: __m256i) -> [__m256i; 2] = {
            let place = Self::and(index, line.magnitude);
            let sign = Self::xor(index, place);
            let elsewhere = Self::xor(Self::and(index, line.bits), line.flip);
            // From 16 on, the top bit is set, and nothing is found.
            let past = Self::splat8(0x70);
            let (near, far) = (_mm256_adds_epu8(place, past), _mm256_adds_epu8(elsewhere, past));
            let low = Self::xor(_mm256_shuffle_epi8(line.near[0], near), _mm256_shuffle_epi8(line.far[0], far));
            let high = Self::xor(_mm256_shuffle_epi8(line.near[1], near), _mm256_shuffle_epi8(line.far[1], far));
            let off = Self::zip_pieces::<1>(low, Self::xor(high, sign));
            let place = Self::zip_pieces::<1>(place, _mm256_setzero_si256());
            [
                _mm256_add_epi16(_mm256_add_epi16(_mm256_mullo_epi16(place[0], line.step), line.base), off[0]),
                _mm256_add_epi16(_mm256_add_epi16(_mm256_mullo_epi16(place[1], line.step), line.base), off[1]),
            ]
        };
        lookup16(p: *const u8, index: __m256i) -> __m256i = _mm256_shuffle_epi8(
            _mm256_broadcastsi128_si256(_mm_loadu_si128(p.cast())), Self::and(index, Self::splat8(0x0F)),
        );

        min_or_nan_f32(limit: __m256i, x: __m256i) -> __m256i = bits_ps(_mm256_min_ps(ps(limit), ps(x)));
        add_f32(a: __m256i, b: __m256i) -> __m256i = bits_ps(_mm256_add_ps(ps(a), ps(b)));
        min_f32(a: __m256i, b: __m256i) -> __m256i = bits_ps(_mm256_min_ps(ps(a), ps(b)));
        max_f32(a: __m256i, b: __m256i) -> __m256i = bits_ps(_mm256_max_ps(ps(a), ps(b)));
        number_f32(x: __m256i) -> __m256i = Self::and(x, bits_ps(_mm256_cmp_ps::<_CMP_ORD_Q>(ps(x), ps(x))));
        trunc_f32(a: __m256i) -> __m256i =
            bits_ps(_mm256_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(ps(a)));
        add_f64(a: __m256i, b: __m256i) -> __m256i = bits_pd(_mm256_add_pd(pd(a), pd(b)));
        min_f64(a: __m256i, b: __m256i) -> __m256i = bits_pd(_mm256_min_pd(pd(a), pd(b)));
        max_f64(a: __m256i, b: __m256i) -> __m256i = bits_pd(_mm256_max_pd(pd(a), pd(b)));
        number_f64(x: __m256i) -> __m256i = Self::and(x, bits_pd(_mm256_cmp_pd::<_CMP_ORD_Q>(pd(x), pd(x))));
        trunc_f64(a: __m256i) -> __m256i =
            bits_pd(_mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(pd(a)));
        round_f64(a: __m256i) -> __m256i =
            bits_pd(_mm256_round_pd::<{ _MM_FROUND_CUR_DIRECTION | _MM_FROUND_NO_EXC }>(pd(a)));

        f16_to_f32(a: __m256i) -> [__m256i; 2] =
            { let [l, h] = halves(a); [bits_ps(_mm256_cvtph_ps(l)), bits_ps(_mm256_cvtph_ps(h))] };
        f32_to_f16(a: [__m256i; 2]) -> __m256i = _mm256_set_m128i(
            _mm256_cvtps_ph::<_MM_FROUND_CUR_DIRECTION>(ps(a[1])),
            _mm256_cvtps_ph::<_MM_FROUND_CUR_DIRECTION>(ps(a[0])),
        );
        add16(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi16(a, b);
        most_u32(a: __m256i) -> u32 = {
            let [low, high] = halves(a);
            let two = _mm_max_epu32(low, high);
            let one = _mm_max_epu32(two, _mm_shuffle_epi32::<0b_01_00_11_10>(two));
            _mm_cvtsi128_si32(_mm_max_epu32(one, _mm_shuffle_epi32::<0b_10_11_00_01>(one))) as u32
        };
        most_u16(a: __m256i) -> u32 = {
            let [low, high] = halves(a);
            // The instruction finds the smallest.
            let least = _mm_minpos_epu16(_mm_xor_si128(_mm_max_epu16(low, high), _mm_set1_epi16(-1)));
            !_mm_cvtsi128_si32(least) as u32 & 0xFFFF
        };
        mul_f32(a: __m256i, b: __m256i) -> __m256i = bits_ps(_mm256_mul_ps(ps(a), ps(b)));
        mul_add_f32(a: __m256i, b: __m256i, c: __m256i) -> __m256i =
            bits_ps(_mm256_fmadd_ps(ps(a), ps(b), ps(c)));
        f32_to_cut_f16(a: [__m256i; 2]) -> __m256i = _mm256_set_m128i(
            _mm256_cvtps_ph::<_MM_FROUND_TO_ZERO>(ps(a[1])),
            _mm256_cvtps_ph::<_MM_FROUND_TO_ZERO>(ps(a[0])),
        );
        nearest_high16(a: [__m256i; 2]) -> __m256i = Self::high16([nearest_high(a[0]), nearest_high(a[1])]);
        select_above16(a: __m256i, limit: __m256i, yes: __m256i, no: __m256i) -> __m256i =
            _mm256_blendv_epi8(yes, no, _mm256_cmpeq_epi16(_mm256_min_epu16(a, limit), a));
        select_above8(a: __m256i, limit: __m256i, yes: __m256i, no: __m256i) -> __m256i =
            _mm256_blendv_epi8(yes, no, _mm256_cmpeq_epi8(_mm256_min_epu8(a, limit), a));
        bf16_to_f32(a: __m256i) -> [__m256i; 2] = {
            let nan = _mm256_cmpgt_epi16(Self::and(a, Self::splat16(0x7FFF)), Self::splat16(0x7F80));
            Self::upper32(Self::or(a, Self::and(nan, Self::splat16(0x40))))
        };
        // Both registers are searched for a NaN at once. Without one, none of them needs a second look.
        f32_to_bf16(a: [__m256i; 2], _extras: Extras) -> __m256i = {
            if _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(ps(a[0]), ps(a[1]))) != 0 {
                return Self::rounded_bf16(a);
            }
            let (below, one) = (Self::splat32(0x7FFF), Self::splat32(1));
            let odd = [Self::and(Self::shr32::<16>(a[0]), one), Self::and(Self::shr32::<16>(a[1]), one)];
            Self::high32([
                Self::add32(Self::add32(a[0], below), odd[0]),
                Self::add32(Self::add32(a[1], below), odd[1]),
            ])
        };
        f32_to_f64(a: __m256i) -> [__m256i; 2] = {
            let [l, h] = halves(a);
            [bits_pd(_mm256_cvtps_pd(_mm_castsi128_ps(l))), bits_pd(_mm256_cvtps_pd(_mm_castsi128_ps(h)))]
        };
        f64_to_f32(a: [__m256i; 2]) -> __m256i =
            bits_ps(_mm256_set_m128(_mm256_cvtpd_ps(pd(a[1])), _mm256_cvtpd_ps(pd(a[0]))));
        i32_to_f32(a: __m256i) -> __m256i = bits_ps(_mm256_cvtepi32_ps(a));
        // Both halves and the product are exact; the sum rounds once.
        u32_to_f32(a: __m256i) -> __m256i = {
            let high = _mm256_cvtepi32_ps(Self::shr32::<16>(a));
            let low = _mm256_cvtepi32_ps(Self::and(a, Self::splat32(0xFFFF)));
            bits_ps(_mm256_fmadd_ps(high, _mm256_set1_ps(65536.0), low))
        };
        i32_to_f64(a: __m256i) -> [__m256i; 2] =
            { let [l, h] = halves(a); [bits_pd(_mm256_cvtepi32_pd(l)), bits_pd(_mm256_cvtepi32_pd(h))] };
        // As mantissas of floats whose ulp is 1: the difference is exact. A zero would be -0 where sums round down.
        u32_to_f64(a: __m256i) -> [__m256i; 2] = {
            let [l, h] = Self::zext32(a);
            let one = Self::splat64(0x4330_0000_0000_0000);
            let number = Self::splat64(u64::MAX >> 1);
            let x = [_mm256_sub_pd(pd(Self::or(l, one)), pd(one)), _mm256_sub_pd(pd(Self::or(h, one)), pd(one))];
            [Self::and(bits_pd(x[0]), number), Self::and(bits_pd(x[1]), number)]
        };
        // Below 2^53 the first rounding is none. A zero would come out as -0 where sums round down: also of the next.
        i64_to_f32(a: [__m256i; 2]) -> __m256i = {
            let mut x = [i64_sum(a[0]), i64_sum(a[1])];
            if are_in_the_middle(x) {
                let end = Self::splat64(1 << 53);
                let above = [Self::shr64::<54>(Self::add64(a[0], end)), Self::shr64::<54>(Self::add64(a[1], end))];
                if is_any(Self::or(above[0], above[1])) {
                    x = [i64_sum(odd64::<Self>(a[0], above[0])), i64_sum(odd64::<Self>(a[1], above[1]))];
                }
            }
            let near = Self::f64_to_f32(x);
            Self::and_not(_mm256_cmpeq_epi32(near, Self::splat32(1 << 31)), near)
        };
        u64_to_f32(a: [__m256i; 2]) -> __m256i = {
            let mut x = [u64_sum(a[0]), u64_sum(a[1])];
            if are_in_the_middle(x) {
                let above = [Self::shr64::<53>(a[0]), Self::shr64::<53>(a[1])];
                if is_any(Self::or(above[0], above[1])) {
                    x = [u64_sum(odd64::<Self>(a[0], above[0])), u64_sum(odd64::<Self>(a[1], above[1]))];
                }
            }
            Self::and(Self::f64_to_f32(x), Self::splat32(u32::MAX >> 1))
        };
        i64_to_f64(a: __m256i) -> __m256i =
            Self::and_not(_mm256_cmpeq_epi64(a, _mm256_setzero_si256()), i64_sum(a));
        u64_to_f64(a: __m256i) -> __m256i = Self::and(u64_sum(a), Self::splat64(u64::MAX >> 1));
        f32_to_i32(a: __m256i) -> __m256i = _mm256_cvtps_epi32(ps(a));
        // From 2^31 on, all are integers: 2^31 less is exact.
        f32_to_u32(a: __m256i) -> __m256i = {
            let half = Self::splat32(0x4F00_0000);
            let upper = Self::gt32(a, Self::splat32(0x4EFF_FFFF));
            let rest = _mm256_sub_ps(ps(a), ps(Self::and(upper, half)));
            Self::xor(_mm256_cvtps_epi32(rest), Self::and(upper, Self::splat32(1 << 31)))
        };
        // Rounded first; then the halves, exactly: the upper by floor, the lower by what is left. Each is the low
        // half of the mantissa of a float with the ulp 1.
        f64_to_i64(a: __m256i) -> __m256i = {
            let x = _mm256_max_pd(pd(Self::round_f64(a)), _mm256_set1_pd(-9_223_372_036_854_775_808.0));
            let scaled = _mm256_mul_pd(x, _mm256_set1_pd(1.0 / 4_294_967_296.0));
            let high = _mm256_round_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(scaled);
            let low = _mm256_fnmadd_pd(high, _mm256_set1_pd(4_294_967_296.0), x);
            let high = _mm256_add_pd(high, _mm256_set1_pd(6_755_399_441_055_744.0));
            let low = _mm256_add_pd(low, _mm256_set1_pd(4_503_599_627_370_496.0));
            _mm256_blend_epi32::<0b01_01_01_01>(_mm256_sll_epi64(bits_pd(high), count(32)), bits_pd(low))
        };
        f64_to_u64(a: __m256i) -> __m256i = Self::f64_to_i64(a);
        f64_to_i32(a: [__m256i; 2]) -> __m256i =
            _mm256_set_m128i(_mm256_cvtpd_epi32(pd(a[1])), _mm256_cvtpd_epi32(pd(a[0])));

        narrow_s16(a: [__m256i; 2]) -> __m256i = packed(_mm256_packs_epi16(a[0], a[1]));
        narrow_s16_to_u8(a: [__m256i; 2]) -> __m256i = packed(_mm256_packus_epi16(a[0], a[1]));
        narrow_s32(a: [__m256i; 2]) -> __m256i = packed(_mm256_packs_epi32(a[0], a[1]));
        narrow_s32_to_u16(a: [__m256i; 2]) -> __m256i = packed(_mm256_packus_epi32(a[0], a[1]));
        min_or_nan_f64(limit: __m256i, x: __m256i) -> __m256i = bits_pd(_mm256_min_pd(pd(limit), pd(x)));
        any_nan_f32(x: [__m256i; 4]) -> bool = {
            let low = _mm256_cmp_ps::<_CMP_UNORD_Q>(ps(x[0]), ps(x[1]));
            let high = _mm256_cmp_ps::<_CMP_UNORD_Q>(ps(x[2]), ps(x[3]));
            _mm256_movemask_ps(_mm256_or_ps(low, high)) != 0
        };
        any_nan_f64(x: [__m256i; 8]) -> bool = {
            let a = _mm256_cmp_pd::<_CMP_UNORD_Q>(pd(x[0]), pd(x[1]));
            let b = _mm256_cmp_pd::<_CMP_UNORD_Q>(pd(x[2]), pd(x[3]));
            let c = _mm256_cmp_pd::<_CMP_UNORD_Q>(pd(x[4]), pd(x[5]));
            let d = _mm256_cmp_pd::<_CMP_UNORD_Q>(pd(x[6]), pd(x[7]));
            _mm256_movemask_pd(_mm256_or_pd(_mm256_or_pd(a, b), _mm256_or_pd(c, d))) != 0
        };

        // Each lane of 32 bits gets the bytes of 4 elements; the upper two move up, and of both pairs the upper one.
        <const BITS: usize> unpack(p: *const u8, high: bool) -> __m256i = {
            let fields = &Fields::<BITS>::CONSTANTS[usize::from(high)];
            let low = match BITS {
                2 => _mm256_set1_epi64x(p.cast::<i64>().read_unaligned()),
                4 => _mm256_broadcastsi128_si256(_mm_loadu_si128(p.cast())),
                _ => _mm256_set_m128i(_mm_loadu_si128(p.add(8).cast()), _mm_loadu_si128(p.cast())),
            };
            let quads = _mm256_shuffle_epi8(low, Self::load(fields.bytes.as_ptr()));
            let pairs = _mm256_blend_epi16::<0b10_10_10_10>(quads, _mm256_sll_epi32(quads, count(Fields::<BITS>::MOVES[0])));
            let mask = Fields::<BITS>::MASK;
            let low = Self::and(pairs, Self::splat16(mask));
            let high = Self::and(_mm256_sll_epi16(pairs, count(Fields::<BITS>::MOVES[1])), Self::splat16(mask << 8));
            _mm256_shuffle_epi8(Self::or(low, high), Self::load(fields.order.as_ptr()))
        };
        // Two elements are added to one, and two of those; then the bytes that have bits are picked.
        <const BITS: usize> pack(p: *mut u8, v: __m256i, high: bool) -> () = {
            let fields = &Fields::<BITS>::CONSTANTS[usize::from(high)];
            let pairs = _mm256_maddubs_epi16(v, _mm256_set1_epi16(fields.weights[0] as i16));
            let quads = _mm256_madd_epi16(pairs, _mm256_set1_epi32(fields.weights[1]));
            let [l, h] = halves(_mm256_shuffle_epi8(quads, Self::load(fields.picks.as_ptr())));
            match BITS {
                2 => _mm_storel_epi64(p.cast(), _mm_unpacklo_epi32(l, h)),
                4 => _mm_storeu_si128(p.cast(), _mm_unpacklo_epi64(l, h)),
                _ => {
                    _mm_storeu_si128(p.cast(), _mm_blend_epi32::<0b1000>(l, h));
                    _mm_storel_epi64(p.add(16).cast(), h);
                }
            }
        };
    }

    #[inline(always)]
    unsafe fn run<T: Task>(task: T) -> T::Output {
        // SAFETY: the caller says that the features are available.
        unsafe { entry::run(task) }
    }

    fn kernel<C: Codec<Self>>() -> RunRows {
        <C as entry::Kernel<Self>>::rows
    }

    fn scaled_kernel<C: Codec<Self>>() -> RunScaled {
        <C as entry::Kernel<Self>>::scaled
    }
}
