//! AVX-512 as Ice Lake and Zen 4 have it.

use core::arch::asm;
use core::arch::x86_64::*;

use super::codec::Codec;
use super::codec::plane::Fold;
use super::drive::{RunRows, RunScaled};
use super::simd::{Extras, Simd, Task, ops, token};

token! {
    /// The token.
    Avx512 by is_x86_feature_detected {
        sse: "sse", sse2: "sse2", fxsr: "fxsr", sse3: "sse3",
        ssse3: "ssse3", sse4_1: "sse4.1", sse4_2: "sse4.2",
        popcnt: "popcnt", avx: "avx", avx2: "avx2", bmi1: "bmi1",
        bmi2: "bmi2", fma: "fma", lzcnt: "lzcnt", f16c: "f16c",
        avx512f: "avx512f", avx512bw: "avx512bw", avx512dq: "avx512dq",
        avx512vl: "avx512vl", avx512vbmi: "avx512vbmi",
        avx512vbmi2: "avx512vbmi2",
    }
}

/// Lane numbers from `start`, every `step`th.
const fn lanes16(start: i16, step: i16) -> [i16; 32] {
    let mut lanes = [0; 32];
    let mut i = 0;
    while i < 32 {
        lanes[i] = start + step * i as i16;
        i += 1;
    }
    lanes
}

const fn lanes32(start: i32, step: i32) -> [i32; 16] {
    let mut lanes = [0; 16];
    let mut i = 0;
    while i < 16 {
        lanes[i] = start + step * i as i32;
        i += 1;
    }
    lanes
}

const fn lanes64(start: i64, step: i64) -> [i64; 8] {
    let mut lanes = [0; 8];
    let mut i = 0;
    while i < 8 {
        lanes[i] = start + step * i as i64;
        i += 1;
    }
    lanes
}

const fn lanes8(start: u8, step: u8) -> [u8; 64] {
    let mut lanes = [0; 64];
    let mut i = 0;
    while i < 64 {
        lanes[i] = start + step * i as u8;
        i += 1;
    }
    lanes
}

/// Each lane twice, from `start` on.
const fn doubled16(start: i16) -> [i16; 32] {
    let mut lanes = [0; 32];
    let mut i = 0;
    while i < 32 {
        lanes[i] = start + i as i16 / 2;
        i += 1;
    }
    lanes
}

/// Lanes of two registers in turn, from `start` of each.
const fn zipped64(start: i64) -> [i64; 8] {
    let mut lanes = [0; 8];
    let mut i = 0;
    while i < 8 {
        lanes[i] = start + i as i64 / 2 + if i % 2 == 1 { 8 } else { 0 };
        i += 1;
    }
    lanes
}

/// The bytes of lanes of `width` bytes reversed, in each 16 bytes.
const fn reversed(width: usize) -> [i8; 64] {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 64 {
        bytes[i] = (i % 16 / width * width + width - 1 - i % width) as i8;
        i += 1;
    }
    bytes
}

/// At a line: a register that lies across two takes twice as long to load.
#[repr(C, align(64))]
struct Line<T>(T);

/// A constant register of some lanes.
macro_rules! constant {
    ($lanes:ty, $value:expr) => {{
        static LANES: Line<$lanes> = Line($value);
        _mm512_load_si512((&raw const LANES).cast())
    }};
}

/// What packed elements of `BITS` bits are moved by.
struct Fields<const BITS: usize>;

impl<const BITS: usize> Fields<BITS> {
    /// The first element at the low end of a byte, and at the high end. The latter is the former with the bytes
    /// of a group reversed, and the elements.
    const CONSTANTS: [FieldConstants; 2] =
        [FieldConstants::new(BITS, false), FieldConstants::new(BITS, true)];
}

#[repr(C, align(64))]
struct FieldConstants {
    bytes: [u8; 64],
    shifts: [u8; 64],
    picks: [u8; 64],
    /// Of two elements in a lane of 16 bits, and of two of those in one of 32.
    weights: [i32; 2],
}

impl FieldConstants {
    const fn new(bits: usize, high: bool) -> Self {
        let (mut bytes, mut shifts, mut picks) = ([0; 64], [0; 64], [0; 64]);
        if bits > 6 {
            // Of what is not packed: never used, but named.
            return Self { bytes, shifts, weights: [0; 2], picks };
        }
        // 8 elements are `bits` bytes, 4 are half as many.
        let half = bits / 2;
        let mut i = 0;
        while i < 64 {
            let (group, byte) = (i / 8, i % 8);
            if byte < bits {
                bytes[i] = (group * bits + if high { bits - 1 - byte } else { byte }) as u8;
            }
            shifts[i] = (bits * if high { 7 - byte } else { byte }) as u8;
            if i < 16 * half {
                picks[i] = (i / half * 4 + if high { half - 1 - i % half } else { i % half }) as u8;
            }
            i += 1;
        }
        let (one, two) = (1 << bits, 1 << (2 * bits));
        let weights = if high { [one | 1 << 8, two | 1 << 16] } else { [1 | one << 8, 1 | two << 16] };
        Self { bytes, shifts, weights, picks }
    }
}

/// The mask of the first `bytes` bytes.
#[inline(always)]
unsafe fn first(bytes: usize) -> __mmask64 {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _bzhi_u64(u64::MAX, bytes.min(64) as u32) }
}

#[inline(always)]
unsafe fn halves(a: __m512i) -> [__m256i; 2] {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { [_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64::<1>(a)] }
}

#[inline(always)]
unsafe fn joined(low: __m256i, high: __m256i) -> __m512i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high) }
}

#[inline(always)]
unsafe fn ps(a: __m512i) -> __m512 {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm512_castsi512_ps(a) }
}

#[inline(always)]
unsafe fn pd(a: __m512i) -> __m512d {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm512_castsi512_pd(a) }
}

#[inline(always)]
unsafe fn bits_ps(a: __m512) -> __m512i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm512_castps_si512(a) }
}

#[inline(always)]
unsafe fn bits_pd(a: __m512d) -> __m512i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe { _mm512_castpd_si512(a) }
}

/// As the control register says.
const REGISTER: i32 = _MM_FROUND_CUR_DIRECTION;
/// What is said in the instruction raises no flags.
const QUIET: i32 = _MM_FROUND_NO_EXC;
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | QUIET;
const CUT: i32 = _MM_FROUND_TO_ZERO | QUIET;

/// The operations on its registers: what becomes a float is rounded as `TO_FLOAT` says, what becomes an integer as
/// `TO_INTEGER`, and what rounds nothing raises flags as `FLAGS` says.
#[derive(Clone, Copy)]
pub(crate) struct Zmm<const TO_FLOAT: i32 = NEAREST, const TO_INTEGER: i32 = CUT, const FLAGS: i32 = QUIET>;

/// The same, as the control register says.
pub(crate) type Turned = Zmm<REGISTER, REGISTER, REGISTER>;

/// Lanes of 16 bits to nearest even multiples of 256, at most one of 65280: plus one half, or a little less.
#[inline(always)]
unsafe fn nearest_high(a: __m512i) -> __m512i {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe {
        let odd = _mm512_test_epi16_mask(a, _mm512_set1_epi16(0x100));
        let rounded = _mm512_adds_epu16(a, _mm512_set1_epi16(0x7F));
        _mm512_mask_adds_epu16(rounded, odd, a, _mm512_set1_epi16(0x80))
    }
}

#[inline(always)]
unsafe fn is_any_subnormal(x: __m512i) -> bool {
    // SAFETY: the features are enabled where this is inlined to.
    unsafe {
        let small = _mm512_testn_epi32_mask(x, _mm512_set1_epi32(0x7F80_0000));
        _mm512_mask_test_epi32_mask(small, x, _mm512_set1_epi32(0x7F_FFFF)) != 0
    }
}

/// The instruction of AVX512_BF16, which is no feature of the token: the CPU has been asked for it. It makes
/// subnormals 0.
///
/// # Safety
/// [`Extras::bf16`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn nearest_bf16(low: __m512i, high: __m512i) -> __m512i {
    let both;
    // SAFETY: the caller's promise; registers alone.
    unsafe {
        asm!(
            "vcvtne2ps2bf16 {}, {}, {}", lateout(zmm_reg) both, in(zmm_reg) high, in(zmm_reg) low,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    both
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Simd for Zmm<TO_FLOAT, TO_INTEGER, FLAGS> {
    type Turned = Turned;
    type V = __m512i;
    type M32 = __mmask16;
    type M64 = __mmask8;
    type Row = __m512i;
    type Line = ();

    const BYTES: usize = 64;
    const CARRIES_ROUNDING: bool = FLAGS == QUIET;
    const LONG_TO_F32: bool = true;
    const QUIET_F16: bool = true;
    const NARROWS_BY_HALF: bool = true;
    const NARROWS_BY_F16: bool = true;
    const MINIMUM_IS_BEYOND: bool = true;
    const MASKS_ARE_BITS: bool = true;
    const SEARCHES_NANS: bool = true;

    ops! {
        load(p: *const u8) -> __m512i = _mm512_loadu_si512(p.cast());
        store(p: *mut u8, v: __m512i) -> () = _mm512_storeu_si512(p.cast(), v);
        copy_in(p: *const u8, bytes: usize, buffer: *mut u8, registers: usize) -> () = {
            for k in 0..registers {
                let at = 64 * k;
                // Masks are made where there is something to load.
                let v = if at < bytes {
                    _mm512_maskz_loadu_epi8(first(bytes - at), p.add(at).cast())
                } else {
                    _mm512_setzero_si512()
                };
                Self::store(buffer.add(at), v);
            }
        };
        copy_out(buffer: *const u8, bytes: usize, p: *mut u8) -> () = {
            let mut at = 0;
            while at < bytes {
                _mm512_mask_storeu_epi8(p.add(at).cast(), first(bytes - at), Self::load(buffer.add(at)));
                at += 64;
            }
        };
        copy(from: *const u8, to: *mut u8, bytes: usize) -> () = {
            let mut at = 0;
            while at + 64 <= bytes {
                Self::store(to.add(at), Self::load(from.add(at)));
                at += 64;
            }
            if at < bytes {
                let rest = first(bytes - at);
                let v = _mm512_maskz_loadu_epi8(rest, from.add(at).cast());
                _mm512_mask_storeu_epi8(to.add(at).cast(), rest, v);
            }
        };
        // A sum without a rounding, of a subnormal number, that is one: flushed to zero, either gives another. (No compiler may
        // compute it, or tests/environment.rs fails.)
        keeps_subnormals() -> bool = {
            let half = _mm_set_ss(const { f32::MIN_POSITIVE / 2.0 });
            let sum = _mm_add_round_ss::<NEAREST>(half, _mm_set_ss(-f32::MIN_POSITIVE));
            _mm_cvtsi128_si32(_mm_castps_si128(sum)) == const { (f32::MIN_POSITIVE / -2.0).to_bits() as i32 }
        };
        prefetch(p: *const u8) -> () = _mm_prefetch::<_MM_HINT_T0>(p.cast());
        prefetch_far(p: *const u8) -> () = _mm_prefetch::<_MM_HINT_T1>(p.cast());
        stream(p: *mut u8, v: __m512i) -> () = _mm512_stream_si512(p.cast(), v);
        fence() -> () = _mm_sfence();
        splat8(x: u8) -> __m512i = _mm512_set1_epi8(x as i8);
        splat16(x: u16) -> __m512i = _mm512_set1_epi16(x as i16);
        splat32(x: u32) -> __m512i = _mm512_set1_epi32(x as i32);
        splat64(x: u64) -> __m512i = _mm512_set1_epi64(x as i64);

        and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        and_not(a: __m512i, b: __m512i) -> __m512i = _mm512_andnot_si512(a, b);

        sub8(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi8(a, b);
        zero_where_zero8(where_: __m512i, v: __m512i) -> __m512i =
            _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(where_, where_), v);
        min_s8(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epi8(a, b);
        max_s8(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi8(a, b);
        min_u8(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epu8(a, b);
        max_u8(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epu8(a, b);
        min_s16(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epi16(a, b);
        max_s16(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi16(a, b);
        min_u16(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epu16(a, b);
        max_u16(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epu16(a, b);
        sub16(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi16(a, b);
        eq16(a: __m512i, b: __m512i) -> __m512i = _mm512_movm_epi16(_mm512_cmpeq_epi16_mask(a, b));
        gt16(a: __m512i, b: __m512i) -> __m512i = _mm512_movm_epi16(_mm512_cmpgt_epi16_mask(a, b));
        top_bits(a: __m512i) -> u64 = _mm512_movepi8_mask(a);
        <const N: u32> shr16(a: __m512i) -> __m512i = _mm512_srli_epi16::<N>(a);

        add32(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        sub32(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
        <const N: u32> shl32(a: __m512i) -> __m512i = _mm512_slli_epi32::<N>(a);
        <const N: u32> shr32(a: __m512i) -> __m512i = _mm512_srli_epi32::<N>(a);
        shr32v(a: __m512i, counts: __m512i) -> __m512i = _mm512_srlv_epi32(a, counts);
        min_s32(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epi32(a, b);
        max_s32(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi32(a, b);
        min_u32(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epu32(a, b);
        max_u32(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epu32(a, b);
        eq32(a: __m512i, b: __m512i) -> __mmask16 = _mm512_cmpeq_epi32_mask(a, b);
        gt32(a: __m512i, b: __m512i) -> __mmask16 = _mm512_cmpgt_epi32_mask(a, b);
        select32(mask: __mmask16, yes: __m512i, no: __m512i) -> __m512i = _mm512_mask_blend_epi32(mask, no, yes);
        count32(mask: __mmask16) -> usize = mask.count_ones() as usize;

        add64(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi64(a, b);
        sub64(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi64(a, b);
        <const N: u32> shr64(a: __m512i) -> __m512i = _mm512_srli_epi64::<N>(a);
        shl64v(a: __m512i, counts: __m512i) -> __m512i = _mm512_sllv_epi64(a, counts);
        sign64(a: __m512i) -> __m512i = _mm512_srai_epi64::<63>(a);
        min_s64(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epi64(a, b);
        max_s64(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi64(a, b);
        min_u64(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epu64(a, b);
        max_u64(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epu64(a, b);
        eq64(a: __m512i, b: __m512i) -> __mmask8 = _mm512_cmpeq_epi64_mask(a, b);
        gt64(a: __m512i, b: __m512i) -> __mmask8 = _mm512_cmpgt_epi64_mask(a, b);
        select64(mask: __mmask8, yes: __m512i, no: __m512i) -> __m512i = _mm512_mask_blend_epi64(mask, no, yes);
        count64(mask: __mmask8) -> usize = mask.count_ones() as usize;

        zext8(a: __m512i) -> [__m512i; 2] =
            { let [l, h] = halves(a); [_mm512_cvtepu8_epi16(l), _mm512_cvtepu8_epi16(h)] };
        sext8(a: __m512i) -> [__m512i; 2] =
            { let [l, h] = halves(a); [_mm512_cvtepi8_epi16(l), _mm512_cvtepi8_epi16(h)] };
        zext16(a: __m512i) -> [__m512i; 2] =
            { let [l, h] = halves(a); [_mm512_cvtepu16_epi32(l), _mm512_cvtepu16_epi32(h)] };
        sext16(a: __m512i) -> [__m512i; 2] =
            { let [l, h] = halves(a); [_mm512_cvtepi16_epi32(l), _mm512_cvtepi16_epi32(h)] };
        zext32(a: __m512i) -> [__m512i; 2] =
            { let [l, h] = halves(a); [_mm512_cvtepu32_epi64(l), _mm512_cvtepu32_epi64(h)] };
        sext32(a: __m512i) -> [__m512i; 2] =
            { let [l, h] = halves(a); [_mm512_cvtepi32_epi64(l), _mm512_cvtepi32_epi64(h)] };
        upper32(a: __m512i) -> [__m512i; 2] = [
            _mm512_maskz_permutexvar_epi16(0xAAAA_AAAA, constant!([i16; 32], doubled16(0)), a),
            _mm512_maskz_permutexvar_epi16(0xAAAA_AAAA, constant!([i16; 32], doubled16(16)), a),
        ];
        low16(a: [__m512i; 2]) -> __m512i = _mm512_permutex2var_epi8(a[0], constant!([u8; 64], lanes8(0, 2)), a[1]);
        low32(a: [__m512i; 2]) -> __m512i = _mm512_permutex2var_epi16(a[0], constant!([i16; 32], lanes16(0, 2)), a[1]);
        low64(a: [__m512i; 2]) -> __m512i = _mm512_permutex2var_epi32(a[0], constant!([i32; 16], lanes32(0, 2)), a[1]);
        high16(a: [__m512i; 2]) -> __m512i =
            _mm512_permutex2var_epi8(a[0], constant!([u8; 64], lanes8(1, 2)), a[1]);
        high32(a: [__m512i; 2]) -> __m512i =
            _mm512_permutex2var_epi16(a[0], constant!([i16; 32], lanes16(1, 2)), a[1]);
        even64(a: [__m512i; 2]) -> __m512i = _mm512_permutex2var_epi64(a[0], constant!([i64; 8], lanes64(0, 2)), a[1]);
        zip64(a: __m512i, b: __m512i) -> [__m512i; 2] = [
            _mm512_permutex2var_epi64(a, constant!([i64; 8], zipped64(0)), b),
            _mm512_permutex2var_epi64(a, constant!([i64; 8], zipped64(4)), b),
        ];
        load_pieces(p: *const u8, apart: isize) -> __m512i = {
            let mut v = _mm512_castsi128_si512(_mm_loadu_si128(p.cast()));
            v = _mm512_inserti32x4::<1>(v, _mm_loadu_si128(p.offset(apart).cast()));
            v = _mm512_inserti32x4::<2>(v, _mm_loadu_si128(p.offset(2 * apart).cast()));
            _mm512_inserti32x4::<3>(v, _mm_loadu_si128(p.offset(3 * apart).cast()))
        };
        <const WIDTH: usize> zip_pieces(a: __m512i, b: __m512i) -> [__m512i; 2] = match WIDTH {
            1 => [_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)],
            2 => [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)],
            4 => [_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)],
            _ => [_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)],
        };
        <const WIDTH: usize> before_zips(a: __m512i) -> __m512i = match WIDTH {
            2 => _mm512_permutexvar_epi64(constant!([i64; 8], [0, 4, 1, 5, 2, 6, 3, 7]), a),
            _ => _mm512_permutexvar_epi32(
                constant!([i32; 16], [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]), a,
            ),
        };
        swap16(a: __m512i) -> __m512i = _mm512_shuffle_epi8(a, constant!([i8; 64], reversed(2)));
        swap32(a: __m512i) -> __m512i = _mm512_shuffle_epi8(a, constant!([i8; 64], reversed(4)));
        swap64(a: __m512i) -> __m512i = _mm512_shuffle_epi8(a, constant!([i8; 64], reversed(8)));

        row(p: *const u8) -> __m512i = Self::load(p);
        lookup256(plane: [__m512i; 4], _fold: Fold, index: __m512i) -> __m512i = _mm512_mask_blend_epi8(
            _mm512_movepi8_mask(index),
            _mm512_permutex2var_epi8(plane[0], index, plane[1]),
            _mm512_permutex2var_epi8(plane[2], index, plane[3]),
        );
        lookup128(plane: [__m512i; 2], index: __m512i) -> __m512i =
            _mm512_permutex2var_epi8(plane[0], index, plane[1]);
        lookup64(row: __m512i, index: __m512i) -> __m512i = _mm512_permutexvar_epi8(index, row);
        lookup16(row: __m512i, index: __m512i) -> __m512i = Self::lookup64(row, index);

        min_or_nan_f32(limit: __m512i, x: __m512i) -> __m512i = bits_ps(_mm512_min_round_ps::<FLAGS>(ps(limit), ps(x)));
        add_f32(a: __m512i, b: __m512i) -> __m512i = bits_ps(_mm512_add_round_ps::<TO_FLOAT>(ps(a), ps(b)));
        min_f32(a: __m512i, b: __m512i) -> __m512i = bits_ps(_mm512_min_round_ps::<FLAGS>(ps(a), ps(b)));
        max_f32(a: __m512i, b: __m512i) -> __m512i = bits_ps(_mm512_max_round_ps::<FLAGS>(ps(a), ps(b)));
        number_f32(x: __m512i) -> __m512i =
            _mm512_maskz_mov_epi32(_mm512_cmp_round_ps_mask::<_CMP_ORD_Q, FLAGS>(ps(x), ps(x)), x);
        trunc_f32(a: __m512i) -> __m512i =
            bits_ps(_mm512_roundscale_round_ps::<CUT, FLAGS>(ps(a)));
        add_f64(a: __m512i, b: __m512i) -> __m512i = bits_pd(_mm512_add_round_pd::<TO_FLOAT>(pd(a), pd(b)));
        min_f64(a: __m512i, b: __m512i) -> __m512i = bits_pd(_mm512_min_round_pd::<FLAGS>(pd(a), pd(b)));
        max_f64(a: __m512i, b: __m512i) -> __m512i = bits_pd(_mm512_max_round_pd::<FLAGS>(pd(a), pd(b)));
        number_f64(x: __m512i) -> __m512i =
            _mm512_maskz_mov_epi64(_mm512_cmp_round_pd_mask::<_CMP_ORD_Q, FLAGS>(pd(x), pd(x)), x);
        trunc_f64(a: __m512i) -> __m512i =
            bits_pd(_mm512_roundscale_round_pd::<CUT, FLAGS>(pd(a)));
        round_f32(a: __m512i) -> __m512i =
            bits_ps(_mm512_roundscale_round_ps::<REGISTER, FLAGS>(ps(a)));
        round_f64(a: __m512i) -> __m512i =
            bits_pd(_mm512_roundscale_round_pd::<REGISTER, FLAGS>(pd(a)));

        f16_to_f32(a: __m512i) -> [__m512i; 2] = {
            let [l, h] = halves(a);
            [bits_ps(_mm512_cvt_roundph_ps::<QUIET>(l)), bits_ps(_mm512_cvt_roundph_ps::<QUIET>(h))]
        };
        f32_to_f16(a: [__m512i; 2]) -> __m512i = joined(
            _mm512_cvt_roundps_ph::<TO_FLOAT>(ps(a[0])),
            _mm512_cvt_roundps_ph::<TO_FLOAT>(ps(a[1])),
        );
        f32_to_nearest_f16(a: [__m512i; 2]) -> __m512i = joined(
            _mm512_cvt_roundps_ph::<NEAREST>(ps(a[0])),
            _mm512_cvt_roundps_ph::<NEAREST>(ps(a[1])),
        );
        bf16_to_f32(a: __m512i) -> [__m512i; 2] = {
            let magnitude = _mm512_and_si512(a, _mm512_set1_epi16(0x7FFF));
            let nan = _mm512_cmpgt_epu16_mask(magnitude, _mm512_set1_epi16(0x7F80));
            let quiet = _mm512_or_si512(a, _mm512_set1_epi16(0x40));
            Self::upper32(_mm512_mask_mov_epi16(a, nan, quiet))
        };
        sub_u16(a: __m512i, b: __m512i) -> __m512i = _mm512_subs_epu16(a, b);
        shl16v(a: __m512i, counts: __m512i) -> __m512i = _mm512_sllv_epi16(a, counts);
        shr16v(a: __m512i, counts: __m512i) -> __m512i = _mm512_srlv_epi16(a, counts);
        nearest_high16(a: [__m512i; 2]) -> __m512i =
            _mm512_permutex2var_epi8(nearest_high(a[0]), constant!([u8; 64], lanes8(1, 2)), nearest_high(a[1]));
        odd_high16(a: [__m512i; 2]) -> __m512i = {
            let sticky = _mm512_min_epu8(Self::low16(a), _mm512_set1_epi8(1));
            _mm512_or_si512(Self::high16(a), sticky)
        };
        select_above16(a: __m512i, limit: __m512i, yes: __m512i, no: __m512i) -> __m512i =
            _mm512_mask_blend_epi16(_mm512_cmpgt_epu16_mask(a, limit), no, yes);
        add16(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi16(a, b);
        most_u32(a: __m512i) -> u32 = _mm512_reduce_max_epu32(a);
        most_u16(a: __m512i) -> u32 = {
            let [low, high] = halves(a);
            let four = _mm256_max_epu16(low, high);
            let two = _mm_max_epu16(_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four));
            // The instruction finds the smallest.
            let least = _mm_minpos_epu16(_mm_xor_si128(two, _mm_set1_epi16(-1)));
            !_mm_cvtsi128_si32(least) as u32 & 0xFFFF
        };
        mul_f32(a: __m512i, b: __m512i) -> __m512i = bits_ps(_mm512_mul_round_ps::<TO_FLOAT>(ps(a), ps(b)));
        mul_add_f32(a: __m512i, b: __m512i, c: __m512i) -> __m512i =
            bits_ps(_mm512_fmadd_round_ps::<TO_FLOAT>(ps(a), ps(b), ps(c)));
        f32_to_cut_f16(a: [__m512i; 2]) -> __m512i = joined(
            _mm512_cvt_roundps_ph::<CUT>(ps(a[0])),
            _mm512_cvt_roundps_ph::<CUT>(ps(a[1])),
        );
        select_above8(a: __m512i, limit: __m512i, yes: __m512i, no: __m512i) -> __m512i =
            _mm512_mask_blend_epi8(_mm512_cmpgt_epu8_mask(a, limit), no, yes);
        // Where there is a 0 among what the instruction makes, a look tells whether it was one or a subnormal.
        f32_to_bf16(a: [__m512i; 2], extras: Extras) -> __m512i = {
            if extras.bf16 {
                let made = nearest_bf16(a[0], a[1]);
                let zeros = _mm512_testn_epi16_mask(made, _mm512_set1_epi16(i16::MAX));
                if zeros == 0 || !(is_any_subnormal(a[0]) || is_any_subnormal(a[1])) {
                    return made;
                }
            }
            Self::rounded_bf16(a)
        };
        f32_to_f64(a: __m512i) -> [__m512i; 2] = {
            let [l, h] = halves(a);
            [
                bits_pd(_mm512_cvt_roundps_pd::<FLAGS>(_mm256_castsi256_ps(l))),
                bits_pd(_mm512_cvt_roundps_pd::<FLAGS>(_mm256_castsi256_ps(h))),
            ]
        };
        f64_to_f32(a: [__m512i; 2]) -> __m512i = joined(
            _mm256_castps_si256(_mm512_cvt_roundpd_ps::<TO_FLOAT>(pd(a[0]))),
            _mm256_castps_si256(_mm512_cvt_roundpd_ps::<TO_FLOAT>(pd(a[1]))),
        );
        i32_to_f32(a: __m512i) -> __m512i = bits_ps(_mm512_cvt_roundepi32_ps::<TO_FLOAT>(a));
        u32_to_f32(a: __m512i) -> __m512i = bits_ps(_mm512_cvt_roundepu32_ps::<TO_FLOAT>(a));
        i32_to_f64(a: __m512i) -> [__m512i; 2] =
            { let [l, h] = halves(a); [bits_pd(_mm512_cvtepi32_pd(l)), bits_pd(_mm512_cvtepi32_pd(h))] };
        u32_to_f64(a: __m512i) -> [__m512i; 2] =
            { let [l, h] = halves(a); [bits_pd(_mm512_cvtepu32_pd(l)), bits_pd(_mm512_cvtepu32_pd(h))] };
        i64_to_f32(a: [__m512i; 2]) -> __m512i = joined(
            _mm256_castps_si256(_mm512_cvt_roundepi64_ps::<TO_FLOAT>(a[0])),
            _mm256_castps_si256(_mm512_cvt_roundepi64_ps::<TO_FLOAT>(a[1])),
        );
        u64_to_f32(a: [__m512i; 2]) -> __m512i = joined(
            _mm256_castps_si256(_mm512_cvt_roundepu64_ps::<TO_FLOAT>(a[0])),
            _mm256_castps_si256(_mm512_cvt_roundepu64_ps::<TO_FLOAT>(a[1])),
        );
        i64_to_f64(a: __m512i) -> __m512i = bits_pd(_mm512_cvt_roundepi64_pd::<TO_FLOAT>(a));
        u64_to_f64(a: __m512i) -> __m512i = bits_pd(_mm512_cvt_roundepu64_pd::<TO_FLOAT>(a));
        any_nan_f32(x: [__m512i; 4]) -> bool = {
            let low = _mm512_cmp_round_ps_mask::<_CMP_UNORD_Q, FLAGS>(ps(x[0]), ps(x[1]));
            let high = _mm512_cmp_round_ps_mask::<_CMP_UNORD_Q, FLAGS>(ps(x[2]), ps(x[3]));
            low | high != 0
        };
        any_nan_f64(x: [__m512i; 8]) -> bool = {
            let a = _mm512_cmp_round_pd_mask::<_CMP_UNORD_Q, FLAGS>(pd(x[0]), pd(x[1]));
            let b = _mm512_cmp_round_pd_mask::<_CMP_UNORD_Q, FLAGS>(pd(x[2]), pd(x[3]));
            let c = _mm512_cmp_round_pd_mask::<_CMP_UNORD_Q, FLAGS>(pd(x[4]), pd(x[5]));
            let d = _mm512_cmp_round_pd_mask::<_CMP_UNORD_Q, FLAGS>(pd(x[6]), pd(x[7]));
            a | b | c | d != 0
        };
        f32_to_nearest_i32(x: __m512i, beyond: __m512i, most: __m512i) -> __m512i = {
            let number = _mm512_cmp_round_ps_mask::<_CMP_ORD_Q, FLAGS>(ps(x), ps(x));
            let integer = _mm512_maskz_cvt_roundps_epi32::<TO_INTEGER>(number, ps(x));
            _mm512_mask_mov_epi32(integer, _mm512_cmp_round_ps_mask::<_CMP_GT_OQ, FLAGS>(ps(x), ps(beyond)), most)
        };
        f64_to_nearest_i64(x: __m512i, beyond: __m512i, most: __m512i) -> __m512i = {
            let number = _mm512_cmp_round_pd_mask::<_CMP_ORD_Q, FLAGS>(pd(x), pd(x));
            let integer = _mm512_maskz_cvt_roundpd_epi64::<TO_INTEGER>(number, pd(x));
            _mm512_mask_mov_epi64(integer, _mm512_cmp_round_pd_mask::<_CMP_GT_OQ, FLAGS>(pd(x), pd(beyond)), most)
        };
        f32_to_i32(a: __m512i) -> __m512i = _mm512_cvt_roundps_epi32::<TO_INTEGER>(ps(a));
        f32_to_u32(a: __m512i) -> __m512i = _mm512_cvt_roundps_epu32::<TO_INTEGER>(ps(a));
        f64_to_i64(a: __m512i) -> __m512i = _mm512_cvt_roundpd_epi64::<TO_INTEGER>(pd(a));
        f64_to_i32(a: [__m512i; 2]) -> __m512i = {
            let low = _mm512_cvt_roundpd_epi32::<TO_INTEGER>(pd(a[0]));
            let high = _mm512_cvt_roundpd_epi32::<TO_INTEGER>(pd(a[1]));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        };
        f64_to_u64(a: __m512i) -> __m512i = _mm512_cvt_roundpd_epu64::<TO_INTEGER>(pd(a));

        // Each lane of 64 bits gets the bytes of 8 elements, and each of its bytes the field that begins at a bit.
        <const BITS: usize> unpack(p: *const u8, high: bool) -> __m512i = {
            let fields = &Fields::<BITS>::CONSTANTS[usize::from(high)];
            let low = match BITS {
                2 => _mm512_castsi128_si512(_mm_loadu_si128(p.cast())),
                4 => _mm512_castsi256_si512(_mm256_loadu_si256(p.cast())),
                _ => _mm512_inserti32x4::<2>(
                    _mm512_castsi256_si512(_mm256_loadu_si256(p.cast())), _mm_loadu_si128(p.add(32).cast()),
                ),
            };
            let lanes = _mm512_permutexvar_epi8(Self::load(fields.bytes.as_ptr()), low);
            _mm512_multishift_epi64_epi8(Self::load(fields.shifts.as_ptr()), lanes)
        };
        // Two elements are added to one, and two of those; then the bytes that have bits are picked.
        <const BITS: usize> pack(p: *mut u8, v: __m512i, high: bool) -> () = {
            let fields = &Fields::<BITS>::CONSTANTS[usize::from(high)];
            let pairs = _mm512_maddubs_epi16(v, _mm512_set1_epi16(fields.weights[0] as i16));
            let quads = _mm512_madd_epi16(pairs, _mm512_set1_epi32(fields.weights[1]));
            let packed = _mm512_permutexvar_epi8(Self::load(fields.picks.as_ptr()), quads);
            match BITS {
                2 => _mm_storeu_si128(p.cast(), _mm512_castsi512_si128(packed)),
                4 => _mm256_storeu_si256(p.cast(), _mm512_castsi512_si256(packed)),
                _ => {
                    _mm256_storeu_si256(p.cast(), _mm512_castsi512_si256(packed));
                    _mm_storeu_si128(p.add(32).cast(), _mm512_extracti32x4_epi32::<2>(packed));
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
