//! AVX-512, with the features that Ice Lake and Zen 4 have.

use core::arch::asm;
use core::arch::x86_64::*;

use super::avx2::Avx2;
use super::codec::plane::{Fold, Plane, WordTable};
use super::simd::{
    AtOnce, Bf16, ByLimits, ByWords, Bytes, Converts, Extras, Feature, Floats, Halves, Ints, Kernel, Longs,
    MarksBeyond, Memory, NarrowsByF16, NarrowsByWords, Packs, Quiet, Registers, Rows, RunKernel, Saturates,
    SearchesNans, Shorts, Simd, Tables, Tally, Task, Widths, memory_ops, ops, token,
};
use super::sizes::{FEW, bytes};
use crate::formats::isa::Isa;

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

impl Avx512 {
    /// The token of AVX2, whose features are among these.
    #[inline(always)]
    fn within(self) -> Avx2 {
        #[rustfmt::skip]
        let Self { sse, sse2, fxsr, sse3, ssse3, sse4_1, sse4_2, popcnt, avx, avx2, bmi1, bmi2, fma, lzcnt, f16c, .. } = self;
        Avx2 { sse, sse2, fxsr, sse3, ssse3, sse4_1, sse4_2, popcnt, avx, avx2, bmi1, bmi2, fma, lzcnt, f16c }
    }
}

/// The numbers `start`, `start + step`, and so on, one in each lane.
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

/// The numbers from `start` on, each of them in two lanes.
const fn doubled16(start: i16) -> [i16; 32] {
    let mut lanes = [0; 32];
    let mut i = 0;
    while i < 32 {
        lanes[i] = start + i as i16 / 2;
        i += 1;
    }
    lanes
}

/// The indices that zip two registers, from lane `start` of each.
const fn zipped64(start: i64) -> [i64; 8] {
    let mut lanes = [0; 8];
    let mut i = 0;
    while i < 8 {
        lanes[i] = start + i as i64 / 2 + if i % 2 == 1 { 8 } else { 0 };
        i += 1;
    }
    lanes
}

/// The indices that reverse the bytes of lanes of `width` bytes, within each 16 bytes.
const fn reversed(width: usize) -> [i8; 64] {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 64 {
        bytes[i] = (i % 16 / width * width + width - 1 - i % width) as i8;
        i += 1;
    }
    bytes
}

/// Aligned to cache lines: a register that straddles two takes twice as long to load.
#[repr(C, align(64))]
struct Aligned<T>(T);

/// A constant register of 64 bytes.
macro_rules! constant {
    ($lanes:ty, $value:expr) => {{
        static LANES: Aligned<$lanes> = Aligned($value);
        _mm512_load_si512((&raw const LANES).cast())
    }};
}

/// The constants by which elements of `BITS` bits are packed and unpacked.
struct Fields<const BITS: usize>;

impl<const BITS: usize> Fields<BITS> {
    /// For elements that begin at the low end of a byte, and at the high end. The latter are the former with the bytes and the
    /// elements of each group reversed.
    const CONSTANTS: [FieldConstants; 2] =
        [FieldConstants::new(BITS, false), FieldConstants::new(BITS, true)];
}

#[repr(C, align(64))]
struct FieldConstants {
    bytes: [u8; 64],
    shifts: [u8; 64],
    picks: [u8; 64],
    /// The factors by which two elements are multiplied to be added to a lane of 16 bits, and two such lanes to one of 32 bits.
    weights: [i32; 2],
}

impl FieldConstants {
    const fn new(bits: usize, high: bool) -> Self {
        let (mut bytes, mut shifts, mut picks) = ([0; 64], [0; 64], [0; 64]);
        if bits > 6 {
            // Not used, but this function is compiled for such widths.
            return Self { bytes, shifts, weights: [0; 2], picks };
        }
        // 8 elements have `bits` bytes, and 4 have half as many. (Single bits are packed by a mask, whose bits are in the order
        // of the bytes.)
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
            if bits == 1 {
                picks[i] = ((i % 16) ^ if high { 7 } else { 0 }) as u8;
            }
            i += 1;
        }
        let (one, two) = (1 << bits, 1 << (2 * bits));
        let weights = if high { [one | 1 << 8, two | 1 << 16] } else { [1 | one << 8, 1 | two << 16] };
        Self { bytes, shifts, weights, picks }
    }
}

/// The bits at which 16 packed elements of 4 bits begin, in lanes of 16 bits: for elements that begin at the low end of a byte,
/// and at the high end.
static SHIFTS4: [Aligned<[u16; 16]>; 2] = [
    Aligned([0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60]),
    Aligned([4, 0, 12, 8, 20, 16, 28, 24, 36, 32, 44, 40, 52, 48, 60, 56]),
];

/// Rounds as the control register says.
const REGISTER: i32 = _MM_FROUND_CUR_DIRECTION;
/// Raises no flags.
const QUIET: i32 = _MM_FROUND_NO_EXC;
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | QUIET;
const CUT: i32 = _MM_FROUND_TO_ZERO | QUIET;

/// The operations on registers. Conversions to floats and float arithmetic round as `TO_FLOAT` says, conversions to integers as
/// `TO_INTEGER` says, and `FLAGS` says whether operations that do not round, such as comparisons, raise flags.
#[derive(Clone, Copy)]
pub(crate) struct Zmm<const TO_FLOAT: i32 = NEAREST, const TO_INTEGER: i32 = CUT, const FLAGS: i32 = QUIET>(
    Avx512,
);

/// The operations, rounding as the control register says.
pub(crate) type Dynamic = Zmm<REGISTER, REGISTER, REGISTER>;

/// The instruction of AVX512_BF16, which flushes subnormals to 0. (The token does not have this feature; `Bf16` is the proof
/// that the CPU has it.)
#[inline]
#[target_feature(enable = "avx512f")]
fn nearest_bf16(_: Bf16, low: __m512i, high: __m512i) -> __m512i {
    let both;
    // SAFETY: the first argument proves that the CPU has the instruction, which has two source operands and no memory operand.
    unsafe {
        asm!(
            "vcvtne2ps2bf16 {}, {}, {}", lateout(zmm_reg) both, in(zmm_reg) high, in(zmm_reg) low,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    both
}

/// Helpers of the operations.
impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Zmm<TO_FLOAT, TO_INTEGER, FLAGS> {
    ops! {
        // The mask of the first `bytes` bytes.
        first(self, bytes: usize) -> __mmask64 = _bzhi_u64(u64::MAX, bytes.min(64) as u32);
        halves(self, a: __m512i) -> [__m256i; 2] = [_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64::<1>(a)];
        joined(self, low: __m256i, high: __m256i) -> __m512i = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        // Sets the last bit of lanes in which truncation has lost something.
        made_odd(self, cut: [__m256; 2], lost: [__mmask8; 2]) -> __m512i = {
            let cut = self.joined(_mm256_castps_si256(cut[0]), _mm256_castps_si256(cut[1]));
            _mm512_mask_or_epi32(cut, _mm512_kunpackb(lost[1].into(), lost[0].into()), cut, _mm512_set1_epi32(1))
        };
        // Orders the results of an instruction that packs each piece of 16 bytes, and of two such instructions in sequence.
        ordered(self, a: __m512i) -> __m512i = _mm512_permutexvar_epi64(constant!([i64; 8], [0, 2, 4, 6, 1, 3, 5, 7]), a);
        twice_ordered(self, a: __m512i) -> __m512i =
            _mm512_permutexvar_epi32(constant!([i32; 16], [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]), a);
        ps(self, a: __m512i) -> __m512 = _mm512_castsi512_ps(a);
        pd(self, a: __m512i) -> __m512d = _mm512_castsi512_pd(a);
        bits_ps(self, a: __m512) -> __m512i = _mm512_castps_si512(a);
        bits_pd(self, a: __m512d) -> __m512i = _mm512_castpd_si512(a);
        // Rounds lanes of 16 bits to nearest even at bit 8, by adding one half or a little less, saturating. The low bytes are arbitrary.
        nearest_high(self, a: __m512i) -> __m512i = {
            let odd = _mm512_test_epi16_mask(a, _mm512_set1_epi16(0x100));
            let rounded = _mm512_adds_epu16(a, _mm512_set1_epi16(0x7F));
            _mm512_mask_adds_epu16(rounded, odd, a, _mm512_set1_epi16(0x80))
        };
        // The mask of lanes that equal none of some others.
        <const N: usize> none_of16(self, a: __m512i, of: [__m512i; N]) -> __mmask32 = {
            let (mut others, mut k) = (u32::MAX, 0);
            while k < N {
                others = _mm512_mask_cmpneq_epi16_mask(others, a, of[k]);
                k += 1;
            }
            others
        };
        <const N: usize> none_of32(self, a: __m512i, of: [__m512i; N]) -> __mmask16 = {
            let (mut others, mut k) = (u16::MAX, 0);
            while k < N {
                others = _mm512_mask_cmpneq_epi32_mask(others, a, of[k]);
                k += 1;
            }
            others
        };
        // Each lane of 64 bits gets the bytes of 8 elements, and each byte in it the bits at which its element begins.
        <const BITS: usize> unpacked(self, packed: __m512i, high: bool) -> __m512i = {
            let fields = &Fields::<BITS>::CONSTANTS[usize::from(high)];
            let lanes = _mm512_permutexvar_epi8(self.load(fields.bytes.as_ptr()), packed);
            _mm512_multishift_epi64_epi8(self.load(fields.shifts.as_ptr()), lanes)
        };
        // Two elements are multiplied and added to one lane, and two of these lanes to another; then the bytes that have bits are picked.
        <const BITS: usize> packed(self, v: __m512i, high: bool) -> __m512i = {
            let fields = &Fields::<BITS>::CONSTANTS[usize::from(high)];
            let picks = self.load(fields.picks.as_ptr());
            if BITS == 1 {
                let bits = _mm512_test_epi8_mask(_mm512_shuffle_epi8(v, picks), _mm512_set1_epi8(1));
                return _mm512_zextsi128_si512(_mm_cvtsi64_si128(bits as i64));
            }
            let pairs = _mm512_maddubs_epi16(v, _mm512_set1_epi16(fields.weights[0] as i16));
            let quads = _mm512_madd_epi16(pairs, _mm512_set1_epi32(fields.weights[1]));
            _mm512_permutexvar_epi8(picks, quads)
        };
        subnormal(self, x: __m512i) -> __mmask16 = {
            let small = _mm512_testn_epi32_mask(x, _mm512_set1_epi32(0x7F80_0000));
            _mm512_mask_test_epi32_mask(small, x, _mm512_set1_epi32(0x7F_FFFF))
        };
        is_any_subnormal(self, a: [__m512i; 2]) -> bool = self.subnormal(a[0]) | self.subnormal(a[1]) != 0;
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Registers
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    type V = __m512i;
    const BYTES: usize = 64;

    memory_ops! {
        load(self, p: *const u8) -> __m512i = _mm512_loadu_si512(p.cast());
        store(self, p: *mut u8, v: __m512i) -> () = _mm512_storeu_si512(p.cast(), v);
        copy_in(self, p: *const u8, bytes: usize, buffer: *mut u8, registers: usize) -> () = {
            for k in 0..registers {
                let at = 64 * k;
                // A mask is only made if there is something to load.
                let v = if at < bytes {
                    _mm512_maskz_loadu_epi8(self.first(bytes - at), p.add(at).cast())
                } else {
                    _mm512_setzero_si512()
                };
                self.store(buffer.add(at), v);
            }
        };
        <const MOST: usize> load_few(self, p: *const u8, bytes: usize) -> __m512i = match MOST {
            _ if bytes < MOST.min(64) => _mm512_maskz_loadu_epi8(self.first(bytes), p.cast()),
            2 => _mm512_zextsi128_si512(_mm_cvtsi32_si128(p.cast::<u16>().read_unaligned().into())),
            4 => _mm512_zextsi128_si512(_mm_loadu_si32(p)),
            8 => _mm512_zextsi128_si512(_mm_loadu_si64(p)),
            12 => _mm512_zextsi128_si512(_mm_insert_epi32::<2>(_mm_loadu_si64(p), p.add(8).cast::<i32>().read_unaligned())),
            16 => _mm512_zextsi128_si512(_mm_loadu_si128(p.cast())),
            32 => _mm512_zextsi256_si512(_mm256_loadu_si256(p.cast())),
            _ => self.load(p),
        };
        <const MOST: usize> store_few(self, p: *mut u8, v: __m512i, bytes: usize) -> () = match MOST {
            _ if bytes < MOST.min(64) => _mm512_mask_storeu_epi8(p.cast(), self.first(bytes), v),
            2 => p.cast::<u16>().write_unaligned(_mm_cvtsi128_si32(_mm512_castsi512_si128(v)) as u16),
            4 => _mm_storeu_si32(p, _mm512_castsi512_si128(v)),
            8 => _mm_storeu_si64(p, _mm512_castsi512_si128(v)),
            12 => {
                _mm_storeu_si64(p, _mm512_castsi512_si128(v));
                p.add(8).cast::<i32>().write_unaligned(_mm_extract_epi32::<2>(_mm512_castsi512_si128(v)));
            }
            16 => _mm_storeu_si128(p.cast(), _mm512_castsi512_si128(v)),
            32 => _mm256_storeu_si256(p.cast(), _mm512_castsi512_si256(v)),
            _ => self.store(p, v),
        };
        copy_out(self, buffer: *const u8, bytes: usize, p: *mut u8) -> () = {
            let mut at = 0;
            while at < bytes {
                _mm512_mask_storeu_epi8(p.add(at).cast(), self.first(bytes - at), self.load(buffer.add(at)));
                at += 64;
            }
        };
    }

    ops! {
        splat8(self, x: u8) -> __m512i = _mm512_set1_epi8(x as i8);
        splat16(self, x: u16) -> __m512i = _mm512_set1_epi16(x as i16);
        splat32(self, x: u32) -> __m512i = _mm512_set1_epi32(x as i32);
        splat64(self, x: u64) -> __m512i = _mm512_set1_epi64(x as i64);
        and(self, a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        or(self, a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        xor(self, a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        and_not(self, a: __m512i, b: __m512i) -> __m512i = _mm512_andnot_si512(a, b);
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Memory
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    memory_ops! {
        copy(self, from: *const u8, to: *mut u8, bytes: usize) -> () = {
            let mut at = 0;
            while at + 64 <= bytes {
                self.store(to.add(at), self.load(from.add(at)));
                at += 64;
            }
            if at < bytes {
                let rest = self.first(bytes - at);
                let v = _mm512_maskz_loadu_epi8(rest, from.add(at).cast());
                _mm512_mask_storeu_epi8(to.add(at).cast(), rest, v);
            }
        };
        stream(self, p: *mut u8, v: __m512i) -> () = _mm512_stream_si512(p.cast(), v);
        load_pieces(self, p: *const u8, apart: isize) -> __m512i = {
            let mut v = _mm512_castsi128_si512(_mm_loadu_si128(p.cast()));
            v = _mm512_inserti32x4::<1>(v, _mm_loadu_si128(p.offset(apart).cast()));
            v = _mm512_inserti32x4::<2>(v, _mm_loadu_si128(p.offset(2 * apart).cast()));
            _mm512_inserti32x4::<3>(v, _mm_loadu_si128(p.offset(3 * apart).cast()))
        };
    }

    ops! {
        prefetch(self, p: *const u8) -> () = _mm_prefetch::<_MM_HINT_T0>(p.cast());
        prefetch_far(self, p: *const u8) -> () = _mm_prefetch::<_MM_HINT_T1>(p.cast());
        fence(self) -> () = _mm_sfence();
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Packs
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    memory_ops! {
        <const BITS: usize> unpack(self, p: *const u8, high: bool) -> __m512i = self.unpacked::<BITS>(match BITS {
            1 => _mm512_castsi128_si512(_mm_loadu_si64(p)),
            2 => _mm512_castsi128_si512(_mm_loadu_si128(p.cast())),
            4 => _mm512_castsi256_si512(_mm256_loadu_si256(p.cast())),
            _ => _mm512_inserti32x4::<2>(
                _mm512_castsi256_si512(_mm256_loadu_si256(p.cast())), _mm_loadu_si128(p.add(32).cast()),
            ),
        }, high);
        <const BITS: usize> unpack_few(self, p: *const u8, n: usize, high: bool) -> __m512i = {
            let bytes = bytes(n, BITS);
            self.unpacked::<BITS>(match BITS {
                1 => self.load_few::<{ FEW / 8 }>(p, bytes),
                2 => self.load_few::<{ FEW / 4 }>(p, bytes),
                4 => self.load_few::<{ FEW / 2 }>(p, bytes),
                _ => self.load_few::<{ FEW / 4 * 3 }>(p, bytes),
            }, high)
        };
        copy_packed(self, bits: usize, from: *const u8, bytes: usize, p: *mut u8) -> () = {
            let mask = self.first(bytes);
            match bits {
                1 => _mm_mask_storeu_epi8(p.cast(), mask as __mmask16, _mm_loadu_si64(from)),
                2 => _mm_mask_storeu_epi8(p.cast(), mask as __mmask16, _mm_loadu_si128(from.cast())),
                4 => _mm256_mask_storeu_epi8(p.cast(), mask as __mmask32, _mm256_loadu_si256(from.cast())),
                _ => {
                    _mm256_mask_storeu_epi8(p.cast(), mask as __mmask32, _mm256_loadu_si256(from.cast()));
                    if bytes > 32 {
                        let rest = _mm_loadu_si128(from.add(32).cast());
                        _mm_mask_storeu_epi8(p.add(32).cast(), (mask >> 32) as __mmask16, rest);
                    }
                }
            }
        };
        <const BITS: usize> pack_few(self, p: *mut u8, v: __m512i, n: usize, high: bool) -> () = {
            let (bytes, v) = (bytes(n, BITS), self.packed::<BITS>(_mm512_maskz_mov_epi8(self.first(n), v), high));
            match BITS {
                1 => self.store_few::<{ FEW / 8 }>(p, v, bytes),
                2 => self.store_few::<{ FEW / 4 }>(p, v, bytes),
                4 => self.store_few::<{ FEW / 2 }>(p, v, bytes),
                _ => self.store_few::<{ FEW / 4 * 3 }>(p, v, bytes),
            }
        };
        <const BITS: usize> pack(self, p: *mut u8, v: __m512i, high: bool) -> () = {
            let packed = self.packed::<BITS>(v, high);
            match BITS {
                1 => _mm_storeu_si64(p, _mm512_castsi512_si128(packed)),
                2 => _mm_storeu_si128(p.cast(), _mm512_castsi512_si128(packed)),
                4 => _mm256_storeu_si256(p.cast(), _mm512_castsi512_si256(packed)),
                _ => {
                    _mm256_storeu_si256(p.cast(), _mm512_castsi512_si256(packed));
                    _mm_storeu_si128(p.add(32).cast(), _mm512_extracti32x4_epi32::<2>(packed));
                }
            }
        };
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Bytes
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    ops! {
        sub8(self, a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi8(a, b);
        zero_where_zero8(self, where_: __m512i, v: __m512i) -> __m512i =
            _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(where_, where_), v);
        where_gt8(self, a: __m512i, b: __m512i, v: __m512i) -> __m512i =
            _mm512_maskz_mov_epi8(_mm512_cmpgt_epi8_mask(a, b), v);
        min_s8(self, a: __m512i, b: __m512i) -> __m512i = _mm512_min_epi8(a, b);
        max_s8(self, a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi8(a, b);
        min_u8(self, a: __m512i, b: __m512i) -> __m512i = _mm512_min_epu8(a, b);
        max_u8(self, a: __m512i, b: __m512i) -> __m512i = _mm512_max_epu8(a, b);
        top_bits(self, a: __m512i) -> u64 = _mm512_movepi8_mask(a);
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Shorts
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    ops! {
        min_s16(self, a: __m512i, b: __m512i) -> __m512i = _mm512_min_epi16(a, b);
        max_s16(self, a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi16(a, b);
        min_u16(self, a: __m512i, b: __m512i) -> __m512i = _mm512_min_epu16(a, b);
        max_u16(self, a: __m512i, b: __m512i) -> __m512i = _mm512_max_epu16(a, b);
        sub16(self, a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi16(a, b);
        eq16(self, a: __m512i, b: __m512i) -> __m512i = _mm512_movm_epi16(_mm512_cmpeq_epi16_mask(a, b));
        gt16(self, a: __m512i, b: __m512i) -> __m512i = _mm512_movm_epi16(_mm512_cmpgt_epi16_mask(a, b));
        <const N: u32> shr16(self, a: __m512i) -> __m512i = _mm512_srli_epi16::<N>(a);
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Ints for Zmm<TO_FLOAT, TO_INTEGER, FLAGS> {
    type M32 = __mmask16;

    ops! {
        add32(self, a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        sub32(self, a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
        <const N: u32> shl32(self, a: __m512i) -> __m512i = _mm512_slli_epi32::<N>(a);
        <const N: u32> shr32(self, a: __m512i) -> __m512i = _mm512_srli_epi32::<N>(a);
        shr32v(self, a: __m512i, counts: __m512i) -> __m512i = _mm512_srlv_epi32(a, counts);
        min_s32(self, a: __m512i, b: __m512i) -> __m512i = _mm512_min_epi32(a, b);
        max_s32(self, a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi32(a, b);
        min_u32(self, a: __m512i, b: __m512i) -> __m512i = _mm512_min_epu32(a, b);
        max_u32(self, a: __m512i, b: __m512i) -> __m512i = _mm512_max_epu32(a, b);
        eq32(self, a: __m512i, b: __m512i) -> __mmask16 = _mm512_cmpeq_epi32_mask(a, b);
        gt32(self, a: __m512i, b: __m512i) -> __mmask16 = _mm512_cmpgt_epi32_mask(a, b);
        select32(self, mask: __mmask16, yes: __m512i, no: __m512i) -> __m512i = _mm512_mask_blend_epi32(mask, no, yes);
        count32(self, mask: __mmask16) -> usize = mask.count_ones() as usize;
        all_have32(self, x: [__m512i; 4], bits: u32) -> bool = {
            let bits = self.splat32(bits);
            let have = _mm512_test_epi32_mask(x[0], bits);
            let have = _mm512_mask_test_epi32_mask(have, x[1], bits);
            let have = _mm512_mask_test_epi32_mask(have, x[2], bits);
            _mm512_mask_test_epi32_mask(have, x[3], bits) == !0
        };
        tally32(self, mask: __mmask16, tally: Tally<__m512i>) -> Tally<__m512i> =
            Tally { others: tally.others + self.count32(mask), ..tally };
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Longs
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    type M64 = __mmask8;

    ops! {
        most_u32(self, a: __m512i) -> u32 = _mm512_reduce_max_epu32(a);
        most_u16(self, a: __m512i) -> u32 = {
            let [low, high] = self.halves(a);
            let four = _mm256_max_epu16(low, high);
            let two = _mm_max_epu16(_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four));
            // The instruction finds the minimum, so lanes are inverted.
            let least = _mm_minpos_epu16(_mm_xor_si128(two, _mm_set1_epi16(-1)));
            !_mm_cvtsi128_si32(least) as u32 & 0xFFFF
        };
        add64(self, a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi64(a, b);
        sub64(self, a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi64(a, b);
        <const N: u32> shr64(self, a: __m512i) -> __m512i = _mm512_srli_epi64::<N>(a);
        shl64v(self, a: __m512i, counts: __m512i) -> __m512i = _mm512_sllv_epi64(a, counts);
        sign64(self, a: __m512i) -> __m512i = _mm512_srai_epi64::<63>(a);
        min_s64(self, a: __m512i, b: __m512i) -> __m512i = _mm512_min_epi64(a, b);
        max_s64(self, a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi64(a, b);
        min_u64(self, a: __m512i, b: __m512i) -> __m512i = _mm512_min_epu64(a, b);
        max_u64(self, a: __m512i, b: __m512i) -> __m512i = _mm512_max_epu64(a, b);
        eq64(self, a: __m512i, b: __m512i) -> __mmask8 = _mm512_cmpeq_epi64_mask(a, b);
        gt64(self, a: __m512i, b: __m512i) -> __mmask8 = _mm512_cmpgt_epi64_mask(a, b);
        select64(self, mask: __mmask8, yes: __m512i, no: __m512i) -> __m512i = _mm512_mask_blend_epi64(mask, no, yes);
        count64(self, mask: __mmask8) -> usize = mask.count_ones() as usize;
        tally64(self, mask: __mmask8, tally: Tally<__m512i>) -> Tally<__m512i> =
            Tally { others: tally.others + self.count64(mask), ..tally };
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Widths
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    ops! {
        zext8(self, a: __m512i) -> [__m512i; 2] =
            { let [l, h] = self.halves(a); [_mm512_cvtepu8_epi16(l), _mm512_cvtepu8_epi16(h)] };
        sext8(self, a: __m512i) -> [__m512i; 2] =
            { let [l, h] = self.halves(a); [_mm512_cvtepi8_epi16(l), _mm512_cvtepi8_epi16(h)] };
        zext16(self, a: __m512i) -> [__m512i; 2] =
            { let [l, h] = self.halves(a); [_mm512_cvtepu16_epi32(l), _mm512_cvtepu16_epi32(h)] };
        sext16(self, a: __m512i) -> [__m512i; 2] =
            { let [l, h] = self.halves(a); [_mm512_cvtepi16_epi32(l), _mm512_cvtepi16_epi32(h)] };
        zext32(self, a: __m512i) -> [__m512i; 2] =
            { let [l, h] = self.halves(a); [_mm512_cvtepu32_epi64(l), _mm512_cvtepu32_epi64(h)] };
        sext32(self, a: __m512i) -> [__m512i; 2] =
            { let [l, h] = self.halves(a); [_mm512_cvtepi32_epi64(l), _mm512_cvtepi32_epi64(h)] };
        upper32(self, a: __m512i) -> [__m512i; 2] = [
            _mm512_maskz_permutexvar_epi16(0xAAAA_AAAA, constant!([i16; 32], doubled16(0)), a),
            _mm512_maskz_permutexvar_epi16(0xAAAA_AAAA, constant!([i16; 32], doubled16(16)), a),
        ];
        low16(self, a: [__m512i; 2]) -> __m512i = _mm512_permutex2var_epi8(a[0], constant!([u8; 64], lanes8(0, 2)), a[1]);
        low32(self, a: [__m512i; 2]) -> __m512i = _mm512_permutex2var_epi16(a[0], constant!([i16; 32], lanes16(0, 2)), a[1]);
        low64(self, a: [__m512i; 2]) -> __m512i = _mm512_permutex2var_epi32(a[0], constant!([i32; 16], lanes32(0, 2)), a[1]);
        high16(self, a: [__m512i; 2]) -> __m512i =
            _mm512_permutex2var_epi8(a[0], constant!([u8; 64], lanes8(1, 2)), a[1]);
        high32(self, a: [__m512i; 2]) -> __m512i =
            _mm512_permutex2var_epi16(a[0], constant!([i16; 32], lanes16(1, 2)), a[1]);
        bits16(self, a: [__m512i; 2]) -> u64 =
            u64::from(_mm512_movepi16_mask(a[0])) | u64::from(_mm512_movepi16_mask(a[1])) << 32;
        bits32(self, a: [__m512i; 4]) -> u64 = {
            let [a, b, c, d] = a;
            let low = u64::from(_mm512_movepi32_mask(a)) | u64::from(_mm512_movepi32_mask(b)) << 16;
            low | u64::from(_mm512_movepi32_mask(c)) << 32 | u64::from(_mm512_movepi32_mask(d)) << 48
        };
        bits64(self, a: [__m512i; 8]) -> u64 = {
            let [a, b, c, d, e, f, g, h] = a;
            let low = u64::from(_mm512_movepi64_mask(a)) | u64::from(_mm512_movepi64_mask(b)) << 8;
            let low = low | u64::from(_mm512_movepi64_mask(c)) << 16 | u64::from(_mm512_movepi64_mask(d)) << 24;
            let high = u64::from(_mm512_movepi64_mask(e)) | u64::from(_mm512_movepi64_mask(f)) << 8;
            let high = high | u64::from(_mm512_movepi64_mask(g)) << 16 | u64::from(_mm512_movepi64_mask(h)) << 24;
            low | high << 32
        };
        <const N: usize> others8(self, a: __m512i, of: [__m512i; N]) -> u64 = {
            let (mut others, mut k) = (u64::MAX, 0);
            while k < N {
                others = _mm512_mask_cmpneq_epi8_mask(others, a, of[k]);
                k += 1;
            }
            others
        };
        <const N: usize> others16(self, a: [__m512i; 2], of: [__m512i; N]) -> u64 =
            u64::from(self.none_of16(a[0], of)) | u64::from(self.none_of16(a[1], of)) << 32;
        <const N: usize> others32(self, a: [__m512i; 4], of: [__m512i; N]) -> u64 = {
            let low = u64::from(self.none_of32(a[0], of)) | u64::from(self.none_of32(a[1], of)) << 16;
            low | u64::from(self.none_of32(a[2], of)) << 32 | u64::from(self.none_of32(a[3], of)) << 48
        };
        even64(self, a: [__m512i; 2]) -> __m512i = _mm512_permutex2var_epi64(a[0], constant!([i64; 8], lanes64(0, 2)), a[1]);
        zip64(self, a: __m512i, b: __m512i) -> [__m512i; 2] = [
            _mm512_permutex2var_epi64(a, constant!([i64; 8], zipped64(0)), b),
            _mm512_permutex2var_epi64(a, constant!([i64; 8], zipped64(4)), b),
        ];
        <const WIDTH: usize> zip_pieces(self, a: __m512i, b: __m512i) -> [__m512i; 2] = match WIDTH {
            1 => [_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)],
            2 => [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)],
            4 => [_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)],
            _ => [_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)],
        };
        <const WIDTH: usize> before_zips(self, a: __m512i) -> __m512i = match WIDTH {
            2 => _mm512_permutexvar_epi64(constant!([i64; 8], [0, 4, 1, 5, 2, 6, 3, 7]), a),
            _ => _mm512_permutexvar_epi32(
                constant!([i32; 16], [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]), a,
            ),
        };
        swap16(self, a: __m512i) -> __m512i = _mm512_shuffle_epi8(a, constant!([i8; 64], reversed(2)));
        swap32(self, a: __m512i) -> __m512i = _mm512_shuffle_epi8(a, constant!([i8; 64], reversed(4)));
        swap64(self, a: __m512i) -> __m512i = _mm512_shuffle_epi8(a, constant!([i8; 64], reversed(8)));
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Tables
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    type Plane = [__m512i; 4];
    type Line = [[__m512i; 4]; 2];

    ops! {
        plane(self, plane: &'static Plane) -> [__m512i; 4] = {
            let [a, b, c, d] = &plane.elements;
            [self.row_of(a), self.row_of(b), self.row_of(c), self.row_of(d)]
        };
        lookup256(self, plane: [__m512i; 4], _fold: Fold, index: __m512i) -> __m512i = _mm512_mask_blend_epi8(
            _mm512_movepi8_mask(index),
            _mm512_permutex2var_epi8(plane[0], index, plane[1]),
            _mm512_permutex2var_epi8(plane[2], index, plane[3]),
        );
        lookup128(self, plane: [__m512i; 4], index: __m512i) -> __m512i =
            _mm512_permutex2var_epi8(plane[0], index, plane[1]);
        lookup64(self, plane: [__m512i; 4], index: __m512i) -> __m512i = _mm512_permutexvar_epi8(index, plane[0]);
        lookup16(self, plane: [__m512i; 4], index: __m512i) -> __m512i = self.lookup64(plane, index);
        line(self, table: &'static WordTable) -> [[__m512i; 4]; 2] = [self.plane(&table.planes[0]), self.plane(&table.planes[1])];
        on_line(self, line: [[__m512i; 4]; 2], index: __m512i) -> [__m512i; 2] = self.zip_pieces::<1>(
            self.lookup256(line[0], Fold::None, index),
            self.lookup256(line[1], Fold::None, index),
        );
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Floats
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    ops! {
        min_or_nan_f32(self, limit: __m512i, x: __m512i) -> __m512i = self.bits_ps(_mm512_min_round_ps::<FLAGS>(self.ps(limit), self.ps(x)));
        add_f32(self, a: __m512i, b: __m512i) -> __m512i = self.bits_ps(_mm512_add_round_ps::<TO_FLOAT>(self.ps(a), self.ps(b)));
        mul_f32(self, a: __m512i, b: __m512i) -> __m512i = self.bits_ps(_mm512_mul_round_ps::<TO_FLOAT>(self.ps(a), self.ps(b)));
        div_f32(self, a: __m512i, b: __m512i) -> __m512i = self.bits_ps(_mm512_div_round_ps::<TO_FLOAT>(self.ps(a), self.ps(b)));
        mul_add_f32(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i =
            self.bits_ps(_mm512_fmadd_round_ps::<TO_FLOAT>(self.ps(a), self.ps(b), self.ps(c)));
        odd_product_f32(self, a: __m512i, b: __m512i) -> __m512i = {
            let cut = _mm512_mul_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.ps(a), self.ps(b));
            let rest = self.bits_ps(_mm512_fmsub_round_ps::<TO_FLOAT>(self.ps(a), self.ps(b), cut));
            let cut = self.bits_ps(cut);
            self.where_number_f32(rest, _mm512_or_si512(cut, _mm512_set1_epi32(1)), cut)
        };
        where_number_f32(self, x: __m512i, yes: __m512i, no: __m512i) -> __m512i = {
            const NAN_ZERO_INF: i32 = 0x81 | 0x06 | 0x18;
            _mm512_mask_mov_epi32(yes, _mm512_fpclass_ps_mask::<NAN_ZERO_INF>(self.ps(x)), no)
        };
        min_f32(self, a: __m512i, b: __m512i) -> __m512i = self.bits_ps(_mm512_min_round_ps::<FLAGS>(self.ps(a), self.ps(b)));
        max_f32(self, a: __m512i, b: __m512i) -> __m512i = self.bits_ps(_mm512_max_round_ps::<FLAGS>(self.ps(a), self.ps(b)));
        number_f32(self, x: __m512i) -> __m512i =
            _mm512_maskz_mov_epi32(_mm512_cmp_round_ps_mask::<_CMP_ORD_Q, FLAGS>(self.ps(x), self.ps(x)), x);
        trunc_f32(self, a: __m512i) -> __m512i =
            self.bits_ps(_mm512_roundscale_round_ps::<CUT, FLAGS>(self.ps(a)));
        add_f64(self, a: __m512i, b: __m512i) -> __m512i = self.bits_pd(_mm512_add_round_pd::<TO_FLOAT>(self.pd(a), self.pd(b)));
        min_f64(self, a: __m512i, b: __m512i) -> __m512i = self.bits_pd(_mm512_min_round_pd::<FLAGS>(self.pd(a), self.pd(b)));
        max_f64(self, a: __m512i, b: __m512i) -> __m512i = self.bits_pd(_mm512_max_round_pd::<FLAGS>(self.pd(a), self.pd(b)));
        number_f64(self, x: __m512i) -> __m512i =
            _mm512_maskz_mov_epi64(_mm512_cmp_round_pd_mask::<_CMP_ORD_Q, FLAGS>(self.pd(x), self.pd(x)), x);
        trunc_f64(self, a: __m512i) -> __m512i =
            self.bits_pd(_mm512_roundscale_round_pd::<CUT, FLAGS>(self.pd(a)));
        round_f32(self, a: __m512i) -> __m512i =
            self.bits_ps(_mm512_roundscale_round_ps::<REGISTER, FLAGS>(self.ps(a)));
        round_f64(self, a: __m512i) -> __m512i =
            self.bits_pd(_mm512_roundscale_round_pd::<REGISTER, FLAGS>(self.pd(a)));
        f32_to_f64(self, a: __m512i) -> [__m512i; 2] = {
            let [l, h] = self.halves(a);
            [
                self.bits_pd(_mm512_cvt_roundps_pd::<FLAGS>(_mm256_castsi256_ps(l))),
                self.bits_pd(_mm512_cvt_roundps_pd::<FLAGS>(_mm256_castsi256_ps(h))),
            ]
        };
        f64_to_f32(self, a: [__m512i; 2]) -> __m512i = self.joined(
            _mm256_castps_si256(_mm512_cvt_roundpd_ps::<TO_FLOAT>(self.pd(a[0]))),
            _mm256_castps_si256(_mm512_cvt_roundpd_ps::<TO_FLOAT>(self.pd(a[1]))),
        );
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Halves
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    type F16 = Quiet;
    type ToBf16 = Quiet;

    ops! {
        f16_to_f32(self, a: __m512i) -> [__m512i; 2] = {
            let [l, h] = self.halves(a);
            [self.bits_ps(_mm512_cvt_roundph_ps::<QUIET>(l)), self.bits_ps(_mm512_cvt_roundph_ps::<QUIET>(h))]
        };
        f32_to_f16(self, a: [__m512i; 2]) -> __m512i = self.joined(
            _mm512_cvt_roundps_ph::<TO_FLOAT>(self.ps(a[0])),
            _mm512_cvt_roundps_ph::<TO_FLOAT>(self.ps(a[1])),
        );
        f32_to_nearest_f16(self, a: [__m512i; 2]) -> __m512i = self.joined(
            _mm512_cvt_roundps_ph::<NEAREST>(self.ps(a[0])),
            _mm512_cvt_roundps_ph::<NEAREST>(self.ps(a[1])),
        );
        bf16_to_f32(self, a: __m512i) -> [__m512i; 2] = {
            let magnitude = _mm512_and_si512(a, _mm512_set1_epi16(0x7FFF));
            let nan = _mm512_cmpgt_epu16_mask(magnitude, _mm512_set1_epi16(0x7F80));
            let quiet = _mm512_or_si512(a, _mm512_set1_epi16(0x40));
            self.upper32(_mm512_mask_mov_epi16(a, nan, quiet))
        };
        // The instruction flushes subnormals, so there must be none. The branch must not depend on zeros, which data may have many of.
        f32_to_bf16(self, a: [__m512i; 2], extras: Extras) -> __m512i = {
            if let Some(bf16) = extras.bf16 {
                let made = nearest_bf16(bf16, a[0], a[1]);
                if !self.is_any_subnormal(a) {
                    return made;
                }
            }
            self.rounded_bf16(a)
        };
        normal_to_bf16(self, a: [__m512i; 2], extras: Extras) -> __m512i = match extras.bf16 {
            Some(bf16) => nearest_bf16(bf16, a[0], a[1]),
            None => self.rounded_bf16(a),
        };
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Converts
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    ops! {
        i32_to_f32(self, a: __m512i) -> __m512i = self.bits_ps(_mm512_cvt_roundepi32_ps::<TO_FLOAT>(a));
        u32_to_f32(self, a: __m512i) -> __m512i = self.bits_ps(_mm512_cvt_roundepu32_ps::<TO_FLOAT>(a));
        i32_to_f64(self, a: __m512i) -> [__m512i; 2] =
            { let [l, h] = self.halves(a); [self.bits_pd(_mm512_cvtepi32_pd(l)), self.bits_pd(_mm512_cvtepi32_pd(h))] };
        u32_to_f64(self, a: __m512i) -> [__m512i; 2] =
            { let [l, h] = self.halves(a); [self.bits_pd(_mm512_cvtepu32_pd(l)), self.bits_pd(_mm512_cvtepu32_pd(h))] };
        i64_to_f32(self, a: [__m512i; 2]) -> __m512i = self.joined(
            _mm256_castps_si256(_mm512_cvt_roundepi64_ps::<TO_FLOAT>(a[0])),
            _mm256_castps_si256(_mm512_cvt_roundepi64_ps::<TO_FLOAT>(a[1])),
        );
        u64_to_f32(self, a: [__m512i; 2]) -> __m512i = self.joined(
            _mm256_castps_si256(_mm512_cvt_roundepu64_ps::<TO_FLOAT>(a[0])),
            _mm256_castps_si256(_mm512_cvt_roundepu64_ps::<TO_FLOAT>(a[1])),
        );
        // Whether truncation has lost something shows when the result is converted back, which is exact.
        i64_to_odd_f32(self, a: [__m512i; 2]) -> __m512i = {
            let [low, high] = [_mm512_cvt_roundepi64_ps::<CUT>(a[0]), _mm512_cvt_roundepi64_ps::<CUT>(a[1])];
            let lost = [
                _mm512_cmpneq_epi64_mask(_mm512_cvtt_roundps_epi64::<QUIET>(low), a[0]),
                _mm512_cmpneq_epi64_mask(_mm512_cvtt_roundps_epi64::<QUIET>(high), a[1]),
            ];
            self.made_odd([low, high], lost)
        };
        u64_to_odd_f32(self, a: [__m512i; 2]) -> __m512i = {
            let [low, high] = [_mm512_cvt_roundepu64_ps::<CUT>(a[0]), _mm512_cvt_roundepu64_ps::<CUT>(a[1])];
            let lost = [
                _mm512_cmpneq_epi64_mask(_mm512_cvtt_roundps_epu64::<QUIET>(low), a[0]),
                _mm512_cmpneq_epi64_mask(_mm512_cvtt_roundps_epu64::<QUIET>(high), a[1]),
            ];
            self.made_odd([low, high], lost)
        };
        i64_to_f64(self, a: __m512i) -> __m512i = self.bits_pd(_mm512_cvt_roundepi64_pd::<TO_FLOAT>(a));
        u64_to_f64(self, a: __m512i) -> __m512i = self.bits_pd(_mm512_cvt_roundepu64_pd::<TO_FLOAT>(a));
        f32_to_nearest_i32(self, x: __m512i, beyond: __m512i, most: __m512i) -> __m512i = {
            let number = _mm512_cmp_round_ps_mask::<_CMP_ORD_Q, FLAGS>(self.ps(x), self.ps(x));
            let integer = _mm512_maskz_cvt_roundps_epi32::<TO_INTEGER>(number, self.ps(x));
            _mm512_mask_mov_epi32(integer, _mm512_cmp_round_ps_mask::<_CMP_GT_OQ, FLAGS>(self.ps(x), self.ps(beyond)), most)
        };
        f64_to_nearest_i64(self, x: __m512i, beyond: __m512i, most: __m512i) -> __m512i = {
            let number = _mm512_cmp_round_pd_mask::<_CMP_ORD_Q, FLAGS>(self.pd(x), self.pd(x));
            let integer = _mm512_maskz_cvt_roundpd_epi64::<TO_INTEGER>(number, self.pd(x));
            _mm512_mask_mov_epi64(integer, _mm512_cmp_round_pd_mask::<_CMP_GT_OQ, FLAGS>(self.pd(x), self.pd(beyond)), most)
        };
        asked_f32(self, x: __m512i) -> __m512i = if FLAGS == QUIET { self.round_f32(x) } else { x };
        asked_f64(self, x: __m512i) -> __m512i = if FLAGS == QUIET { self.round_f64(x) } else { x };
        f32_to_i32(self, a: __m512i) -> __m512i = _mm512_cvt_roundps_epi32::<TO_INTEGER>(self.ps(a));
        f32_to_u32(self, a: __m512i) -> __m512i = _mm512_cvt_roundps_epu32::<TO_INTEGER>(self.ps(a));
        f64_to_i64(self, a: __m512i) -> __m512i = _mm512_cvt_roundpd_epi64::<TO_INTEGER>(self.pd(a));
        f64_to_i32(self, a: [__m512i; 2]) -> __m512i = {
            let low = _mm512_cvt_roundpd_epi32::<TO_INTEGER>(self.pd(a[0]));
            let high = _mm512_cvt_roundpd_epi32::<TO_INTEGER>(self.pd(a[1]));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        };
        f64_to_i32_or_bits(self, a: [__m512i; 2], _whole: [__m512i; 2]) -> [__m512i; 2] =
            [self.f64_to_i32(a), _mm512_setzero_si512()];
        f64_to_u64(self, a: __m512i) -> __m512i = _mm512_cvt_roundpd_epu64::<TO_INTEGER>(self.pd(a));
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Saturates
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    // `low16` and `low32` permute two registers by one instruction, which on Intel is three operations. Packing saturates, so
    // it cannot take their place where lanes are truncated.
    ops! {
        narrow_s16(self, a: [__m512i; 2]) -> __m512i = self.ordered(_mm512_packs_epi16(a[0], a[1]));
        narrow_s16_to_u8(self, a: [__m512i; 2]) -> __m512i = self.ordered(_mm512_packus_epi16(a[0], a[1]));
        narrow_s32(self, a: [__m512i; 2]) -> __m512i = self.ordered(_mm512_packs_epi32(a[0], a[1]));
        narrow_s32_to_u16(self, a: [__m512i; 2]) -> __m512i = self.ordered(_mm512_packus_epi32(a[0], a[1]));
        narrow_s32_to_s8(self, a: [__m512i; 4]) -> __m512i =
            self.twice_ordered(_mm512_packs_epi16(_mm512_packs_epi32(a[0], a[1]), _mm512_packs_epi32(a[2], a[3])));
        narrow_s32_to_u8(self, a: [__m512i; 4]) -> __m512i =
            self.twice_ordered(_mm512_packus_epi16(_mm512_packs_epi32(a[0], a[1]), _mm512_packs_epi32(a[2], a[3])));
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Simd for Zmm<TO_FLOAT, TO_INTEGER, FLAGS> {
    type Token = Avx512;
    type Dynamic = Dynamic;
    // With AVX-512, the compiler uses scatters, which are slower than single stores.
    type Strided = Avx2;
    const ISA: Isa = Isa::Avx512;
    type Narrowing = ByWords;
    type Lookups = AtOnce;
    type Integers = ByLimits;
    const LOOPLESS: usize = if FLAGS == QUIET { FEW } else { 0 };
    const CUTS: bool = TO_INTEGER == CUT;

    fn needs_environment(depends: bool) -> bool {
        depends && FLAGS != QUIET
    }

    ops! {
        // Adds a subnormal number, with an exact result that is subnormal: it differs if operands or results are flushed to
        // zero. (If a compiler computed this sum, tests/environment.rs would fail.)
        keeps_subnormals(self) -> bool = FLAGS != QUIET || {
            let half = _mm_set_ss(const { f32::MIN_POSITIVE / 2.0 });
            let sum = _mm_add_round_ss::<NEAREST>(half, _mm_set_ss(-f32::MIN_POSITIVE));
            _mm_cvtsi128_si32(_mm_castps_si128(sum)) == const { (f32::MIN_POSITIVE / -2.0).to_bits() as i32 }
        };
    }

    #[inline(always)]
    fn run<T: Task<Self>>(self, task: T) -> T::Output {
        entry::run(self, task)
    }

    #[inline(always)]
    fn with(token: Avx512) -> Self {
        Self(token)
    }

    #[inline(always)]
    fn strided(self) -> Avx2 {
        self.0.within()
    }

    fn kernel<W, K: Kernel<Self, W>>() -> RunKernel<K::Job, W> {
        <K as entry::Entry<Self, W>>::enter
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> MarksBeyond
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    ops! {
        f32_to_i32_or_min(self, a: __m512i) -> __m512i = self.f32_to_i32(a);
        f32_to_nearest_i32_or_min(self, a: __m512i) -> __m512i = _mm512_cvt_roundps_epi32::<TO_FLOAT>(self.ps(a));
        f64_to_i32_or_min(self, a: [__m512i; 2]) -> __m512i = self.f64_to_i32(a);
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> SearchesNans
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    ops! {
        any_nan_f32(self, x: [__m512i; 4]) -> bool = {
            let low = _mm512_cmp_round_ps_mask::<_CMP_UNORD_Q, FLAGS>(self.ps(x[0]), self.ps(x[1]));
            let high = _mm512_cmp_round_ps_mask::<_CMP_UNORD_Q, FLAGS>(self.ps(x[2]), self.ps(x[3]));
            low | high != 0
        };
        any_nan_f64(self, x: [__m512i; 8]) -> bool = {
            let a = _mm512_cmp_round_pd_mask::<_CMP_UNORD_Q, FLAGS>(self.pd(x[0]), self.pd(x[1]));
            let b = _mm512_cmp_round_pd_mask::<_CMP_UNORD_Q, FLAGS>(self.pd(x[2]), self.pd(x[3]));
            let c = _mm512_cmp_round_pd_mask::<_CMP_UNORD_Q, FLAGS>(self.pd(x[4]), self.pd(x[5]));
            let d = _mm512_cmp_round_pd_mask::<_CMP_UNORD_Q, FLAGS>(self.pd(x[6]), self.pd(x[7]));
            a | b | c | d != 0
        };
        // If an operand is NaN, the instruction returns the second one.
        max_or_low_f32(self, x: __m512i, low: __m512i) -> __m512i = self.max_f32(x, low);
        max_or_low_f64(self, x: __m512i, low: __m512i) -> __m512i = self.max_f64(x, low);
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> Rows for Zmm<TO_FLOAT, TO_INTEGER, FLAGS> {
    ops! {
        lookup_pieces(self, table: __m512i, index: __m512i) -> __m512i = _mm512_shuffle_epi8(table, index);
        sub_u8(self, a: __m512i, b: __m512i) -> __m512i = _mm512_subs_epu8(a, b);
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> NarrowsByF16
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    memory_ops! {
        // By halves of registers, which is twice as fast. Only the lowest 4 bits of an index matter.
        pick_words(self, words: [__m512i; 2], src: *const u8, high: bool, dst: *mut u8) -> () = {
            let shifts = _mm256_load_si256(SHIFTS4[usize::from(high)].0.as_ptr().cast());
            let words = [self.halves(words[0]), self.halves(words[1])];
            for k in 0..4 {
                let codes = _mm256_set1_epi64x(src.add(8 * k).cast::<i64>().read_unaligned());
                let index = _mm256_multishift_epi64_epi8(shifts, codes);
                _mm256_storeu_si256(dst.add(32 * k).cast(), _mm256_permutexvar_epi16(index, words[k / 2][k % 2]));
            }
        };
        pick_from(self, tables: [&[[u8; 16]; 2]; 4], src: *const u8, high: bool, dst: *mut u8) -> () = {
            let shifts = _mm256_load_si256(SHIFTS4[usize::from(high)].0.as_ptr().cast());
            let shifts = self.joined(shifts, shifts);
            // The second half of a register looks up in the second table, because of the bit above the index.
            let (index_bits, second) = (_mm512_set1_epi16(0x0F), _mm512_maskz_set1_epi16(0xFFFF_0000, 0x10));
            for k in 0..2 {
                let codes = _mm512_castsi128_si512(_mm_loadu_si128(src.add(16 * k).cast()));
                let codes = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 0, 0, 1, 1, 1, 1), codes);
                let index = self.and(_mm512_multishift_epi64_epi8(shifts, codes), index_bits);
                let [low, high] = [tables[2 * k], tables[2 * k + 1]].map(|table| table.as_ptr().cast());
                let words = self.joined(_mm256_loadu_si256(low), _mm256_loadu_si256(high));
                self.store(dst.add(64 * k), _mm512_permutexvar_epi16(self.or(index, second), words));
            }
        };
    }

    ops! {
        nearest_high16(self, a: [__m512i; 2]) -> __m512i =
            _mm512_permutex2var_epi8(self.nearest_high(a[0]), constant!([u8; 64], lanes8(1, 2)), self.nearest_high(a[1]));
        select_above16(self, a: __m512i, limit: __m512i, yes: __m512i, no: __m512i) -> __m512i =
            _mm512_mask_blend_epi16(_mm512_cmpgt_epu16_mask(a, limit), no, yes);
        pieces_of(self, pieces: [&[u8; 16]; 4]) -> __m512i = {
            let [a, b, c, d] = pieces.map(|piece| _mm_loadu_si128(piece.as_ptr().cast()));
            let low = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
            _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(low, c), d)
        };
        add16(self, a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi16(a, b);
        f32_to_cut_f16(self, a: [__m512i; 2]) -> __m512i = self.joined(
            _mm512_cvt_roundps_ph::<CUT>(self.ps(a[0])),
            _mm512_cvt_roundps_ph::<CUT>(self.ps(a[1])),
        );
        select_above8(self, a: __m512i, limit: __m512i, yes: __m512i, no: __m512i) -> __m512i =
            _mm512_mask_blend_epi8(_mm512_cmpgt_epu8_mask(a, limit), no, yes);
    }
}

impl<const TO_FLOAT: i32, const TO_INTEGER: i32, const FLAGS: i32> NarrowsByWords
    for Zmm<TO_FLOAT, TO_INTEGER, FLAGS>
{
    ops! {
        sub_u16(self, a: __m512i, b: __m512i) -> __m512i = _mm512_subs_epu16(a, b);
        shl16v(self, a: __m512i, counts: __m512i) -> __m512i = _mm512_sllv_epi16(a, counts);
        shr16v(self, a: __m512i, counts: __m512i) -> __m512i = _mm512_srlv_epi16(a, counts);
        odd_high16(self, a: [__m512i; 2]) -> __m512i = {
            let sticky = _mm512_min_epu8(self.low16(a), _mm512_set1_epi8(1));
            _mm512_or_si512(self.high16(a), sticky)
        };
        lookup_two(self, table: [__m512i; 2], index: __m512i) -> __m512i =
            _mm512_permutex2var_epi8(table[0], index, table[1]);
        row_of(self, bytes: &[[u8; 16]; 4]) -> __m512i = _mm512_loadu_si512(bytes.as_ptr().cast());
        lookup_one(self, table: __m512i, index: __m512i) -> __m512i = _mm512_permutexvar_epi8(index, table);
        halves32(self, a: u32, b: u32) -> __m512i =
            _mm512_mask_set1_epi32(_mm512_set1_epi32(a as i32), 0xFF00, b as i32);
        add_exponents16(self, a: __m512i, b: __m512i, finite: bool) -> __m512i = {
            let is = if finite {
                _mm512_test_epi16_mask(a, _mm512_set1_epi16(i16::MAX))
            } else {
                // Doubled, and so without their signs, numbers other than 0 are between 1 and the double of the largest one.
                let below = _mm512_add_epi16(_mm512_add_epi16(a, a), _mm512_set1_epi16(-1));
                _mm512_cmplt_epu16_mask(below, _mm512_set1_epi16(0xFEFFu16 as i16))
            };
            _mm512_mask_add_epi16(a, is, a, b)
        };
    }
}
