//! AVX2, with the features of the first CPUs that had it: FMA, F16C, BMI2.

use core::arch::x86_64::*;

use super::codec::plane::{Fold, Plane, PlaneHalf, WordTable};
use super::simd::{
    ByF16, ByPacking, ByRows, Bytes, Converts, Extras, Feature, Floating, Floats, Halves, Ints, Kernel,
    Longs, MarksBeyond, Memory, NarrowsByF16, NarrowsByNibbles, Packs, Registers, Rows, RunKernel, Saturates,
    SearchesNans, Shorts, Simd, Tables, Task, Widths, copy_short, memory_ops, ops, token,
};
use crate::formats::isa::Isa;

token! {
    /// The token.
    Avx2 by is_x86_feature_detected {
        sse: "sse", sse2: "sse2", fxsr: "fxsr", sse3: "sse3",
        ssse3: "ssse3", sse4_1: "sse4.1", sse4_2: "sse4.2",
        popcnt: "popcnt", avx: "avx", avx2: "avx2", bmi1: "bmi1",
        bmi2: "bmi2", fma: "fma", lzcnt: "lzcnt", f16c: "f16c",
    }
}

/// The constants by which elements of `BITS` bits are packed and unpacked.
struct Fields<const BITS: usize>;

impl<const BITS: usize> Fields<BITS> {
    /// For elements that begin at the low end of a byte, and at the high end. The latter are the former with the bytes and the
    /// elements of each group reversed.
    const CONSTANTS: [FieldConstants; 2] =
        [FieldConstants::new(BITS, false), FieldConstants::new(BITS, true)];
    /// By how many bits the upper two of four elements move up, and then the upper one of two.
    const MOVES: [u32; 2] = if BITS < 8 { [16 - 2 * BITS as u32, 8 - BITS as u32] } else { [0; 2] };
    const MASK: u16 = if BITS < 8 { (1 << BITS) - 1 } else { 0 };
}

struct FieldConstants {
    bytes: [u8; 32],
    /// For single bits, the bit of each element.
    order: [u8; 32],
    /// The factors by which two elements are multiplied to be added to a lane of 16 bits, and two such lanes to one of 32 bits.
    weights: [i32; 2],
    picks: [u8; 32],
}

impl FieldConstants {
    const fn new(bits: usize, high: bool) -> Self {
        const NOTHING: u8 = 0x80;
        let (mut bytes, mut order, mut picks) = ([NOTHING; 32], [0; 32], [NOTHING; 32]);
        if bits > 6 {
            // Not used, but this function is compiled for such widths.
            return Self { bytes, order, weights: [0; 2], picks };
        }
        if bits == 1 {
            // To unpack, each of 8 elements gets their byte. To pack, the top bits of bytes are taken, in the order of the bits.
            let mut i = 0;
            while i < 32 {
                bytes[i] = (i / 8) as u8;
                order[i] = if high { 0x80 >> (i % 8) } else { 1 << (i % 8) };
                picks[i] = ((i % 16) ^ if high { 7 } else { 0 }) as u8;
                i += 1;
            }
            return Self { bytes, order, weights: [0; 2], picks };
        }
        // 4 elements have `count` bytes. Each half of a register has 16 of the bytes that were loaded.
        let count = bits / 2;
        let mut i = 0;
        while i < 32 {
            let (half, lane, byte) = (i / 16, i % 16 / 4, i % 4);
            let turned = if high { 3 - byte } else { byte };
            order[i] = (4 * lane + turned) as u8;
            // The second half begins at byte `4 * count`; for 6 bits, it is loaded from byte 8 on.
            let start = half * (4 * count - if bits == 6 { 8 } else { 0 });
            if byte < count {
                bytes[i] = (start + lane * count + if high { count - 1 - byte } else { byte }) as u8;
                // For 6 bits, the second half is stored in two parts, the first of them after the first half.
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

/// A plane whose elements of the first 16 codes are in a register.
#[derive(Clone, Copy)]
pub(crate) struct HeldPlane {
    first: __m256i,
    plane: &'static Plane,
}

/// The registers of a line: see [`Tables::on_line`].
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

/// Helpers of the operations.
impl Avx2 {
    ops! {
        halves(self, a: __m256i) -> [__m128i; 2] = [_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)];
        ps(self, a: __m256i) -> __m256 = _mm256_castsi256_ps(a);
        pd(self, a: __m256i) -> __m256d = _mm256_castsi256_pd(a);
        bits_ps(self, a: __m256) -> __m256i = _mm256_castps_si256(a);
        bits_pd(self, a: __m256d) -> __m256i = _mm256_castpd_si256(a);
        // Orders the results of unpack instructions, which zip each half of a register separately.
        in_order(self, low: __m256i, high: __m256i) -> [__m256i; 2] = [_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high)];
        // Orders one result of pack instructions in this way.
        packed(self, a: __m256i) -> __m256i = _mm256_permute4x64_epi64::<0b11_01_10_00>(a);
        // Orders the result of two pack instructions in sequence in this way.
        twice_packed(self, a: __m256i) -> __m256i = _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        // A constant count becomes an immediate of the shift.
        count(self, n: u32) -> __m128i = _mm_cvtsi32_si128(n as i32);
        // Converts integers to f64. Their halves become the mantissas of floats whose ulps are 1 and 2^32. The offsets of both
        // are subtracted, which is exact, and the sum rounds once. A zero becomes -0 if sums are rounded down.
        i64_sum(self, a: __m256i) -> __m256i = {
            let high = _mm256_xor_si256(_mm256_srli_epi64::<32>(a), _mm256_set1_epi64x(0x4530_0000_8000_0000));
            self.sum_of_halves(a, high, 0x4530_0000_8010_0000)
        };
        u64_sum(self, a: __m256i) -> __m256i = {
            let high = _mm256_or_si256(_mm256_srli_epi64::<32>(a), _mm256_set1_epi64x(0x4530_0000_0000_0000));
            self.sum_of_halves(a, high, 0x4530_0000_0010_0000)
        };
        sum_of_halves(self, a: __m256i, high: __m256i, offset: i64) -> __m256i = {
            let low = _mm256_blend_epi32::<0b10_10_10_10>(a, _mm256_set1_epi64x(0x4330_0000_0000_0000));
            self.bits_pd(_mm256_add_pd(_mm256_sub_pd(self.pd(high), self.pd(_mm256_set1_epi64x(offset))), self.pd(low)))
        };
        // Whether one of these f64 is in the middle between two f32. Only then may a number be wrong that was rounded to f64
        // and is next rounded to f32: otherwise it is on the same side of every such middle as its f64.
        are_in_the_middle(self, x: [__m256i; 2]) -> bool = {
            let low = self.bits_ps(_mm256_shuffle_ps::<0b10_00_10_00>(self.ps(x[0]), self.ps(x[1])));
            self.is_any(_mm256_cmpeq_epi32(_mm256_slli_epi32::<3>(low), _mm256_set1_epi32(i32::MIN)))
        };
        // Whether any bit is set.
        is_any(self, a: __m256i) -> bool = _mm256_testz_si256(a, a) == 0;
        // Reorders the bytes of each half.
        shuffled(self, a: __m256i, order: &[u8; 16]) -> __m256i = _mm256_shuffle_epi8(a, self.repeated(order));
        bytes_of(self, bytes: &[u8; 32]) -> __m256i = _mm256_loadu_si256(bytes.as_ptr().cast());
        words_of(self, words: &[u16; 16]) -> __m256i = _mm256_loadu_si256(words.as_ptr().cast());
        // A register with 16 bytes in both halves.
        repeated(self, bytes: &[u8; 16]) -> __m256i =
            _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast()));
        // The elements of one half of a plane, for indices below 128; 0 for others, whose top bit is set. A half stores each row of
        // 16 as the xor with the row before. `pshufb` looks an index up in every row from the first to its own, and the xor of what
        // it finds is the element. In rows behind its own, the index minus the row's begin is negative, and `pshufb` gives 0.
        among(self, half: &PlaneHalf, index: __m256i) -> __m256i = {
            let pairs = half.pairs;
            let mut found = _mm256_setzero_si256();
            // These branches always go the same way; the end of a loop would have to be predicted.
            for pair in 0..4 {
                if pairs > pair {
                    // Saturating, so that a negative index stays negative.
                    let mut within = _mm256_subs_epi8(index, self.bytes_of(&half.begin[pair]));
                    for k in 0..2 {
                        let changed = _mm256_shuffle_epi8(self.repeated(&half.changes[pair][k]), within);
                        found = _mm256_xor_si256(found, changed);
                        within = _mm256_subs_epi8(within, _mm256_set1_epi8(16));
                    }
                }
            }
            found
        };
        // Looks up in the first half of a plane, at indices that are shifted and limited as its fold says. 0 for a negative index.
        in_first_half(self, plane: &Plane, index: __m256i) -> __m256i = {
            let numbers = &plane.fold;
            let shifted = _mm256_add_epi8(index, self.bytes_of(&numbers.shift));
            let within = _mm256_min_epi8(shifted, self.bytes_of(&numbers.last));
            self.among(&plane.halves[0], within)
        };
        // Looks up, in the second half of a plane, what is combined with the result of the first half.
        unknown(self, half: &PlaneHalf, index: __m256i) -> __m256i = self.among(half, _mm256_xor_si256(index, self.bytes_of(&half.flip)));
        // Rounds lanes of 16 bits to nearest even at bit 8, saturating. The low bytes are arbitrary.
        nearest_high(self, a: __m256i) -> __m256i = {
            let odd = _mm256_and_si256(_mm256_srli_epi16::<8>(a), _mm256_set1_epi16(1));
            _mm256_adds_epu16(_mm256_adds_epu16(a, _mm256_set1_epi16(0x7F)), odd)
        };
    }
}

/// Indices that move the last bytes of a register of 16 bytes to its beginning, from any byte on.
const SHIFTS: [i8; 32] = {
    let mut shifts = [-1; 32];
    let mut i = 0;
    while i < 16 {
        shifts[i] = i as i8;
        i += 1;
    }
    shifts
};

impl Avx2 {
    memory_ops! {
        // Loads `bytes` bytes, 1 to 31, followed by zeros: by two loads that may overlap, the second of which is shifted to its place.
        partial(self, p: *const u8, bytes: usize) -> __m256i = {
            if bytes >= 16 {
                let low = _mm_loadu_si128(p.cast());
                let last = _mm_loadu_si128(p.add(bytes - 16).cast());
                let shift = _mm_loadu_si128(SHIFTS.as_ptr().add(32 - bytes).cast());
                return _mm256_set_m128i(_mm_shuffle_epi8(last, shift), low);
            }
            let (low, high) = if bytes >= 8 {
                let last = p.add(bytes - 8).cast::<u64>().read_unaligned();
                // In two steps, because a shift by 64 would be none.
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
        };
    }
}

impl Registers for Avx2 {
    type V = __m256i;
    const BYTES: usize = 32;

    memory_ops! {
        load(self, p: *const u8) -> __m256i = _mm256_loadu_si256(p.cast());
        store(self, p: *mut u8, v: __m256i) -> () = _mm256_storeu_si256(p.cast(), v);
        copy_in(self, p: *const u8, bytes: usize, buffer: *mut u8, registers: usize) -> () = {
            for k in 0..registers {
                self.store(buffer.add(32 * k), _mm256_setzero_si256());
            }
            let mut at = 0;
            while at + 32 <= bytes {
                self.store(buffer.add(at), self.load(p.add(at)));
                at += 32;
            }
            // Stored as a whole register, because a load waits until several smaller stores are in L1.
            if at < bytes {
                self.store(buffer.add(at), self.partial(p.add(at), bytes - at));
            }
        };
        copy_out(self, buffer: *const u8, bytes: usize, p: *mut u8) -> () = copy_short(self, buffer, p, bytes);
    }

    ops! {
        splat8(self, x: u8) -> __m256i = _mm256_set1_epi8(x as i8);
        splat16(self, x: u16) -> __m256i = _mm256_set1_epi16(x as i16);
        splat32(self, x: u32) -> __m256i = _mm256_set1_epi32(x as i32);
        splat64(self, x: u64) -> __m256i = _mm256_set1_epi64x(x as i64);
        and(self, a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        or(self, a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        xor(self, a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        and_not(self, a: __m256i, b: __m256i) -> __m256i = _mm256_andnot_si256(a, b);
    }
}

impl Memory for Avx2 {
    // On a Zen 3, rows of 1 KiB take as long with ordinary stores.
    const ROW_STREAMS_FROM: usize = 2 << 10;

    memory_ops! {
        copy(self, from: *const u8, to: *mut u8, bytes: usize) -> () = copy_short(self, from, to, bytes);
        stream(self, p: *mut u8, v: __m256i) -> () = _mm256_stream_si256(p.cast(), v);
        load_pieces(self, p: *const u8, apart: isize) -> __m256i = {
            let low = _mm256_castsi128_si256(_mm_loadu_si128(p.cast()));
            _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(p.offset(apart).cast()))
        };
    }

    ops! {
        prefetch(self, p: *const u8) -> () = _mm_prefetch::<_MM_HINT_T0>(p.cast());
        prefetch_far(self, p: *const u8) -> () = _mm_prefetch::<_MM_HINT_T1>(p.cast());
        fence(self) -> () = _mm_sfence();
    }
}

impl Packs for Avx2 {
    memory_ops! {
        copy_packed(self, _bits: usize, from: *const u8, bytes: usize, p: *mut u8) -> () = copy_short(self, from, p, bytes);
        // Each lane of 32 bits gets the bytes of 4 elements. The upper two of them are moved up, and then the upper one of each pair.
        <const BITS: usize> unpack(self, p: *const u8, high: bool) -> __m256i = {
            let fields = &Fields::<BITS>::CONSTANTS[usize::from(high)];
            if BITS == 1 {
                let all = _mm256_set1_epi32(p.cast::<i32>().read_unaligned());
                let bit = self.load(fields.order.as_ptr());
                let bytes = _mm256_shuffle_epi8(all, self.load(fields.bytes.as_ptr()));
                return self.and(_mm256_cmpeq_epi8(self.and(bytes, bit), bit), self.splat8(1));
            }
            if BITS == 4 {
                // Each lane of 16 bits gets two elements, which are moved to the low ends of its bytes.
                let (right, left) = if high { (4, 8) } else { (0, 4) };
                let pairs = _mm256_cvtepu8_epi16(_mm_loadu_si128(p.cast()));
                let moved = [_mm256_srl_epi16(pairs, self.count(right)), _mm256_sll_epi16(pairs, self.count(left))];
                return self.and(self.or(moved[0], moved[1]), self.splat8(0x0F));
            }
            let low = match BITS {
                2 => _mm256_set1_epi64x(p.cast::<i64>().read_unaligned()),
                _ => _mm256_set_m128i(_mm_loadu_si128(p.add(8).cast()), _mm_loadu_si128(p.cast())),
            };
            let quads = _mm256_shuffle_epi8(low, self.load(fields.bytes.as_ptr()));
            let pairs = _mm256_blend_epi16::<0b10_10_10_10>(quads, _mm256_sll_epi32(quads, self.count(Fields::<BITS>::MOVES[0])));
            let mask = Fields::<BITS>::MASK;
            let low = self.and(pairs, self.splat16(mask));
            let high = self.and(_mm256_sll_epi16(pairs, self.count(Fields::<BITS>::MOVES[1])), self.splat16(mask << 8));
            _mm256_shuffle_epi8(self.or(low, high), self.load(fields.order.as_ptr()))
        };
        // Two elements are multiplied and added to one lane, and two of these lanes to another; then the bytes that have bits are picked.
        <const BITS: usize> pack(self, p: *mut u8, v: __m256i, high: bool) -> () = {
            let fields = &Fields::<BITS>::CONSTANTS[usize::from(high)];
            if BITS == 1 {
                let turned = _mm256_shuffle_epi8(v, self.load(fields.picks.as_ptr()));
                let bits = _mm256_movemask_epi8(_mm256_slli_epi16::<7>(turned));
                return p.cast::<i32>().write_unaligned(bits);
            }
            let pairs = _mm256_maddubs_epi16(v, _mm256_set1_epi16(fields.weights[0] as i16));
            let quads = _mm256_madd_epi16(pairs, _mm256_set1_epi32(fields.weights[1]));
            let [l, h] = self.halves(_mm256_shuffle_epi8(quads, self.load(fields.picks.as_ptr())));
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
}

impl Bytes for Avx2 {
    ops! {
        sub8(self, a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi8(a, b);
        zero_where_zero8(self, where_: __m256i, v: __m256i) -> __m256i =
            _mm256_andnot_si256(_mm256_cmpeq_epi8(where_, _mm256_setzero_si256()), v);
        where_gt8(self, a: __m256i, b: __m256i, v: __m256i) -> __m256i = _mm256_and_si256(_mm256_cmpgt_epi8(a, b), v);
        min_s8(self, a: __m256i, b: __m256i) -> __m256i = _mm256_min_epi8(a, b);
        max_s8(self, a: __m256i, b: __m256i) -> __m256i = _mm256_max_epi8(a, b);
        min_u8(self, a: __m256i, b: __m256i) -> __m256i = _mm256_min_epu8(a, b);
        max_u8(self, a: __m256i, b: __m256i) -> __m256i = _mm256_max_epu8(a, b);
        top_bits(self, a: __m256i) -> u64 = u64::from(_mm256_movemask_epi8(a) as u32);
    }
}

impl Shorts for Avx2 {
    ops! {
        min_s16(self, a: __m256i, b: __m256i) -> __m256i = _mm256_min_epi16(a, b);
        max_s16(self, a: __m256i, b: __m256i) -> __m256i = _mm256_max_epi16(a, b);
        min_u16(self, a: __m256i, b: __m256i) -> __m256i = _mm256_min_epu16(a, b);
        max_u16(self, a: __m256i, b: __m256i) -> __m256i = _mm256_max_epu16(a, b);
        sub16(self, a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi16(a, b);
        eq16(self, a: __m256i, b: __m256i) -> __m256i = _mm256_cmpeq_epi16(a, b);
        gt16(self, a: __m256i, b: __m256i) -> __m256i = _mm256_cmpgt_epi16(a, b);
        <const N: u32> shr16(self, a: __m256i) -> __m256i = _mm256_srl_epi16(a, self.count(N));
    }
}

impl Ints for Avx2 {
    type M32 = __m256i;

    ops! {
        add32(self, a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
        sub32(self, a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
        <const N: u32> shl32(self, a: __m256i) -> __m256i = _mm256_sll_epi32(a, self.count(N));
        <const N: u32> shr32(self, a: __m256i) -> __m256i = _mm256_srl_epi32(a, self.count(N));
        shr32v(self, a: __m256i, counts: __m256i) -> __m256i = _mm256_srlv_epi32(a, counts);
        min_s32(self, a: __m256i, b: __m256i) -> __m256i = _mm256_min_epi32(a, b);
        max_s32(self, a: __m256i, b: __m256i) -> __m256i = _mm256_max_epi32(a, b);
        min_u32(self, a: __m256i, b: __m256i) -> __m256i = _mm256_min_epu32(a, b);
        max_u32(self, a: __m256i, b: __m256i) -> __m256i = _mm256_max_epu32(a, b);
        eq32(self, a: __m256i, b: __m256i) -> __m256i = _mm256_cmpeq_epi32(a, b);
        gt32(self, a: __m256i, b: __m256i) -> __m256i = _mm256_cmpgt_epi32(a, b);
        select32(self, mask: __m256i, yes: __m256i, no: __m256i) -> __m256i = _mm256_blendv_epi8(no, yes, mask);
        count32(self, mask: __m256i) -> usize = _mm256_movemask_ps(self.ps(mask)).count_ones() as usize;
    }
}

impl Longs for Avx2 {
    type M64 = __m256i;

    ops! {
        most_u32(self, a: __m256i) -> u32 = {
            let [low, high] = self.halves(a);
            let two = _mm_max_epu32(low, high);
            let one = _mm_max_epu32(two, _mm_shuffle_epi32::<0b_01_00_11_10>(two));
            _mm_cvtsi128_si32(_mm_max_epu32(one, _mm_shuffle_epi32::<0b_10_11_00_01>(one))) as u32
        };
        most_u16(self, a: __m256i) -> u32 = {
            let [low, high] = self.halves(a);
            // The instruction finds the minimum, so lanes are inverted.
            let least = _mm_minpos_epu16(_mm_xor_si128(_mm_max_epu16(low, high), _mm_set1_epi16(-1)));
            !_mm_cvtsi128_si32(least) as u32 & 0xFFFF
        };
        add64(self, a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi64(a, b);
        sub64(self, a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi64(a, b);
        <const N: u32> shr64(self, a: __m256i) -> __m256i = _mm256_srl_epi64(a, self.count(N));
        shl64v(self, a: __m256i, counts: __m256i) -> __m256i = _mm256_sllv_epi64(a, counts);
        sign64(self, a: __m256i) -> __m256i = _mm256_cmpgt_epi64(_mm256_setzero_si256(), a);
        min_s64(self, a: __m256i, b: __m256i) -> __m256i = _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
        max_s64(self, a: __m256i, b: __m256i) -> __m256i = _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
        // Unsigned numbers compare as signed ones do if the top bits are flipped.
        min_u64(self, a: __m256i, b: __m256i) -> __m256i = {
            let top = self.splat64(1 << 63);
            _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(self.xor(a, top), self.xor(b, top)))
        };
        max_u64(self, a: __m256i, b: __m256i) -> __m256i = {
            let top = self.splat64(1 << 63);
            _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(self.xor(a, top), self.xor(b, top)))
        };
        eq64(self, a: __m256i, b: __m256i) -> __m256i = _mm256_cmpeq_epi64(a, b);
        gt64(self, a: __m256i, b: __m256i) -> __m256i = _mm256_cmpgt_epi64(a, b);
        select64(self, mask: __m256i, yes: __m256i, no: __m256i) -> __m256i = _mm256_blendv_epi8(no, yes, mask);
        count64(self, mask: __m256i) -> usize = _mm256_movemask_pd(self.pd(mask)).count_ones() as usize;
    }
}

impl Widths for Avx2 {
    ops! {
        zext8(self, a: __m256i) -> [__m256i; 2] =
            { let [l, h] = self.halves(a); [_mm256_cvtepu8_epi16(l), _mm256_cvtepu8_epi16(h)] };
        sext8(self, a: __m256i) -> [__m256i; 2] =
            { let [l, h] = self.halves(a); [_mm256_cvtepi8_epi16(l), _mm256_cvtepi8_epi16(h)] };
        zext16(self, a: __m256i) -> [__m256i; 2] =
            { let [l, h] = self.halves(a); [_mm256_cvtepu16_epi32(l), _mm256_cvtepu16_epi32(h)] };
        sext16(self, a: __m256i) -> [__m256i; 2] =
            { let [l, h] = self.halves(a); [_mm256_cvtepi16_epi32(l), _mm256_cvtepi16_epi32(h)] };
        zext32(self, a: __m256i) -> [__m256i; 2] =
            { let [l, h] = self.halves(a); [_mm256_cvtepu32_epi64(l), _mm256_cvtepu32_epi64(h)] };
        sext32(self, a: __m256i) -> [__m256i; 2] =
            { let [l, h] = self.halves(a); [_mm256_cvtepi32_epi64(l), _mm256_cvtepi32_epi64(h)] };
        low16(self, a: [__m256i; 2]) -> __m256i = {
            let low = self.splat16(0xFF);
            self.packed(_mm256_packus_epi16(self.and(a[0], low), self.and(a[1], low)))
        };
        low32(self, a: [__m256i; 2]) -> __m256i = {
            let low = self.splat32(0xFFFF);
            self.packed(_mm256_packus_epi32(self.and(a[0], low), self.and(a[1], low)))
        };
        low64(self, a: [__m256i; 2]) -> __m256i =
            self.packed(self.bits_ps(_mm256_shuffle_ps::<0b10_00_10_00>(self.ps(a[0]), self.ps(a[1]))));
        high16(self, a: [__m256i; 2]) -> __m256i =
            self.packed(_mm256_packus_epi16(self.shr16::<8>(a[0]), self.shr16::<8>(a[1])));
        high32(self, a: [__m256i; 2]) -> __m256i =
            self.packed(_mm256_packus_epi32(self.shr32::<16>(a[0]), self.shr32::<16>(a[1])));
        lowest32(self, a: [__m256i; 4]) -> __m256i = {
            let low = self.splat32(0xFF);
            let ab = _mm256_packus_epi32(self.and(a[0], low), self.and(a[1], low));
            let cd = _mm256_packus_epi32(self.and(a[2], low), self.and(a[3], low));
            self.twice_packed(_mm256_packus_epi16(ab, cd))
        };
        // Narrowing saturates, and so keeps the sign.
        signs16(self, a: [__m256i; 2]) -> __m256i = self.packed(_mm256_packs_epi16(a[0], a[1]));
        signs32(self, a: [__m256i; 4]) -> __m256i =
            self.twice_packed(_mm256_packs_epi16(_mm256_packs_epi32(a[0], a[1]), _mm256_packs_epi32(a[2], a[3])));
        even64(self, a: [__m256i; 2]) -> __m256i = self.packed(_mm256_unpacklo_epi64(a[0], a[1]));
        zip64(self, a: __m256i, b: __m256i) -> [__m256i; 2] =
            self.in_order(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
        <const WIDTH: usize> zip_pieces(self, a: __m256i, b: __m256i) -> [__m256i; 2] = match WIDTH {
            1 => [_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)],
            2 => [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)],
            4 => [_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)],
            _ => [_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)],
        };
        <const WIDTH: usize> before_zips(self, a: __m256i) -> __m256i = match WIDTH {
            2 => _mm256_permute4x64_epi64::<0b11_01_10_00>(a),
            _ => _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7)),
        };
        swap16(self, a: __m256i) -> __m256i = self.shuffled(a, &[1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14]);
        swap32(self, a: __m256i) -> __m256i = self.shuffled(a, &[3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12]);
        swap64(self, a: __m256i) -> __m256i = self.shuffled(a, &[7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8]);
    }
}

impl Tables for Avx2 {
    type Plane = HeldPlane;
    type Line = Line;

    ops! {
        plane(self, plane: &'static Plane) -> HeldPlane = HeldPlane { first: self.repeated(&plane.elements[0][0]), plane };
        lookup256(self, held: HeldPlane, fold: Fold, index: __m256i) -> __m256i = {
            let plane = held.plane;
            let Plane { halves: [low, high], fold: numbers, .. } = plane;
            let magnitude = self.and(index, self.splat8(0x7F));
            let known = match fold {
                Fold::None => self.among(low, index),
                Fold::Same | Fold::Magnitude => {
                    let v = self.among(low, if fold == Fold::Same { magnitude } else { _mm256_abs_epi8(index) });
                    let is_negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), index);
                    self.xor(v, self.and(is_negative, self.bytes_of(&numbers.sign)))
                }
                Fold::Positive => self.in_first_half(plane, index),
                Fold::Negated | Fold::Limited => {
                    // `or`, because an index of 0 would make the result 0.
                    let v = _mm256_sign_epi8(self.in_first_half(plane, magnitude), self.or(index, self.splat8(1)));
                    if fold == Fold::Negated {
                        v
                    } else {
                        let limited = self.min_s8(v, self.bytes_of(&numbers.limit));
                        self.and(limited, self.bytes_of(&numbers.mask))
                    }
                }
            };
            if high.pairs == 0 { known } else { self.xor(known, self.unknown(high, index)) }
        };
        negated_words(self, planes: [HeldPlane; 2], index: __m256i) -> [__m256i; 2] = {
            let [low, high] = [planes[0].plane, planes[1].plane];
            let magnitude = self.and(index, self.splat8(0x7F));
            let words = self.zip_pieces::<1>(self.in_first_half(low, magnitude), self.in_first_half(high, magnitude));
            let sign = self.or(index, self.splat8(1));
            let signs = self.zip_pieces::<1>(sign, sign);
            let known = [_mm256_sign_epi16(words[0], signs[0]), _mm256_sign_epi16(words[1], signs[1])];
            let others = [&low.halves[1], &high.halves[1]];
            if others[0].pairs + others[1].pairs == 0 {
                return known;
            }
            let other = self.zip_pieces::<1>(self.unknown(others[0], index), self.unknown(others[1], index));
            [self.xor(known[0], other[0]), self.xor(known[1], other[1])]
        };
        lookup64(self, held: HeldPlane, index: __m256i) -> __m256i =
            self.among(&held.plane.halves[0], self.and(index, self.splat8(0x3F)));
        line(self, table: &'static WordTable) -> Line = {
            let line = &table.line;
            Line {
                magnitude: self.bytes_of(&line.magnitude),
                step: self.words_of(&line.step),
                base: self.words_of(&line.base),
                near: [self.repeated(&line.near[0]), self.repeated(&line.near[1])],
                bits: self.bytes_of(&line.bits),
                flip: self.bytes_of(&line.flip),
                far: [self.repeated(&line.far[0]), self.repeated(&line.far[1])],
            }
        };
        // In 16 bits that wrap: the place on the line, plus the difference of the element from it.
        on_line(self, line: Line, index: __m256i) -> [__m256i; 2] = {
            let place = self.and(index, line.magnitude);
            let sign = self.xor(index, place);
            let elsewhere = self.xor(self.and(index, line.bits), line.flip);
            // Indices from 16 on get their top bit set, and find 0.
            let past = self.splat8(0x70);
            let (near, far) = (_mm256_adds_epu8(place, past), _mm256_adds_epu8(elsewhere, past));
            let low = self.xor(_mm256_shuffle_epi8(line.near[0], near), _mm256_shuffle_epi8(line.far[0], far));
            let high = self.xor(_mm256_shuffle_epi8(line.near[1], near), _mm256_shuffle_epi8(line.far[1], far));
            let off = self.zip_pieces::<1>(low, self.xor(high, sign));
            let place = self.zip_pieces::<1>(place, _mm256_setzero_si256());
            [
                _mm256_add_epi16(_mm256_add_epi16(_mm256_mullo_epi16(place[0], line.step), line.base), off[0]),
                _mm256_add_epi16(_mm256_add_epi16(_mm256_mullo_epi16(place[1], line.step), line.base), off[1]),
            ]
        };
        lookup16(self, held: HeldPlane, index: __m256i) -> __m256i =
            _mm256_shuffle_epi8(held.first, self.and(index, self.splat8(0x0F)));
    }
}

impl Floats for Avx2 {
    ops! {
        min_or_nan_f32(self, limit: __m256i, x: __m256i) -> __m256i = self.bits_ps(_mm256_min_ps(self.ps(limit), self.ps(x)));
        add_f32(self, a: __m256i, b: __m256i) -> __m256i = self.bits_ps(_mm256_add_ps(self.ps(a), self.ps(b)));
        mul_f32(self, a: __m256i, b: __m256i) -> __m256i = self.bits_ps(_mm256_mul_ps(self.ps(a), self.ps(b)));
        div_f32(self, a: __m256i, b: __m256i) -> __m256i = self.bits_ps(_mm256_div_ps(self.ps(a), self.ps(b)));
        mul_add_f32(self, a: __m256i, b: __m256i, c: __m256i) -> __m256i =
            self.bits_ps(_mm256_fmadd_ps(self.ps(a), self.ps(b), self.ps(c)));
        min_f32(self, a: __m256i, b: __m256i) -> __m256i = self.bits_ps(_mm256_min_ps(self.ps(a), self.ps(b)));
        max_f32(self, a: __m256i, b: __m256i) -> __m256i = self.bits_ps(_mm256_max_ps(self.ps(a), self.ps(b)));
        number_f32(self, x: __m256i) -> __m256i = self.and(x, self.bits_ps(_mm256_cmp_ps::<_CMP_ORD_Q>(self.ps(x), self.ps(x))));
        trunc_f32(self, a: __m256i) -> __m256i =
            self.bits_ps(_mm256_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.ps(a)));
        add_f64(self, a: __m256i, b: __m256i) -> __m256i = self.bits_pd(_mm256_add_pd(self.pd(a), self.pd(b)));
        min_f64(self, a: __m256i, b: __m256i) -> __m256i = self.bits_pd(_mm256_min_pd(self.pd(a), self.pd(b)));
        max_f64(self, a: __m256i, b: __m256i) -> __m256i = self.bits_pd(_mm256_max_pd(self.pd(a), self.pd(b)));
        number_f64(self, x: __m256i) -> __m256i = self.and(x, self.bits_pd(_mm256_cmp_pd::<_CMP_ORD_Q>(self.pd(x), self.pd(x))));
        trunc_f64(self, a: __m256i) -> __m256i =
            self.bits_pd(_mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.pd(a)));
        round_f64(self, a: __m256i) -> __m256i =
            self.bits_pd(_mm256_round_pd::<{ _MM_FROUND_CUR_DIRECTION | _MM_FROUND_NO_EXC }>(self.pd(a)));
        f32_to_f64(self, a: __m256i) -> [__m256i; 2] = {
            let [l, h] = self.halves(a);
            [self.bits_pd(_mm256_cvtps_pd(_mm_castsi128_ps(l))), self.bits_pd(_mm256_cvtps_pd(_mm_castsi128_ps(h)))]
        };
        f64_to_f32(self, a: [__m256i; 2]) -> __m256i =
            self.bits_ps(_mm256_set_m128(_mm256_cvtpd_ps(self.pd(a[1])), _mm256_cvtpd_ps(self.pd(a[0]))));
        min_or_nan_f64(self, limit: __m256i, x: __m256i) -> __m256i = self.bits_pd(_mm256_min_pd(self.pd(limit), self.pd(x)));
        round_f32(self, a: __m256i) -> __m256i =
            self.bits_ps(_mm256_round_ps::<{ _MM_FROUND_CUR_DIRECTION | _MM_FROUND_NO_EXC }>(self.ps(a)));
    }
}

impl Halves for Avx2 {
    type F16 = Floating;
    type ToBf16 = Floating;

    ops! {
        f16_to_f32(self, a: __m256i) -> [__m256i; 2] =
            { let [l, h] = self.halves(a); [self.bits_ps(_mm256_cvtph_ps(l)), self.bits_ps(_mm256_cvtph_ps(h))] };
        f32_to_f16(self, a: [__m256i; 2]) -> __m256i = _mm256_set_m128i(
            _mm256_cvtps_ph::<_MM_FROUND_CUR_DIRECTION>(self.ps(a[1])),
            _mm256_cvtps_ph::<_MM_FROUND_CUR_DIRECTION>(self.ps(a[0])),
        );
        bf16_to_f32(self, a: __m256i) -> [__m256i; 2] = {
            let nan = _mm256_cmpgt_epi16(self.and(a, self.splat16(0x7FFF)), self.splat16(0x7F80));
            self.upper32(self.or(a, self.and(nan, self.splat16(0x40))))
        };
        // Both registers are searched for NaN together. If there is none, no lane has to be selected.
        f32_to_bf16(self, a: [__m256i; 2], _extras: Extras) -> __m256i = {
            if _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.ps(a[0]), self.ps(a[1]))) != 0 {
                return self.rounded_bf16(a);
            }
            let (below, one) = (self.splat32(0x7FFF), self.splat32(1));
            let odd = [self.and(self.shr32::<16>(a[0]), one), self.and(self.shr32::<16>(a[1]), one)];
            self.high32([
                self.add32(self.add32(a[0], below), odd[0]),
                self.add32(self.add32(a[1], below), odd[1]),
            ])
        };
    }
}

impl Converts for Avx2 {
    ops! {
        i32_to_f32(self, a: __m256i) -> __m256i = self.bits_ps(_mm256_cvtepi32_ps(a));
        // Both halves and the product are exact, and the sum rounds once.
        u32_to_f32(self, a: __m256i) -> __m256i = {
            let high = _mm256_cvtepi32_ps(self.shr32::<16>(a));
            let low = _mm256_cvtepi32_ps(self.and(a, self.splat32(0xFFFF)));
            self.bits_ps(_mm256_fmadd_ps(high, _mm256_set1_ps(65536.0), low))
        };
        i32_to_f64(self, a: __m256i) -> [__m256i; 2] =
            { let [l, h] = self.halves(a); [self.bits_pd(_mm256_cvtepi32_pd(l)), self.bits_pd(_mm256_cvtepi32_pd(h))] };
        // As mantissas of floats whose ulp is 1, from which the offset is subtracted exactly. A zero would be -0 if sums are rounded down.
        u32_to_f64(self, a: __m256i) -> [__m256i; 2] = {
            let [l, h] = self.zext32(a);
            let one = self.splat64(0x4330_0000_0000_0000);
            let number = self.splat64(u64::MAX >> 1);
            let x = [_mm256_sub_pd(self.pd(self.or(l, one)), self.pd(one)), _mm256_sub_pd(self.pd(self.or(h, one)), self.pd(one))];
            [self.and(self.bits_pd(x[0]), number), self.and(self.bits_pd(x[1]), number)]
        };
        // Below 2^53, the first rounding is exact. A zero would be -0 if sums are rounded down, here and in the next operation.
        i64_to_f32(self, a: [__m256i; 2]) -> __m256i = {
            let mut x = [self.i64_sum(a[0]), self.i64_sum(a[1])];
            if self.are_in_the_middle(x) {
                let end = self.splat64(1 << 53);
                let above = [self.shr64::<54>(self.add64(a[0], end)), self.shr64::<54>(self.add64(a[1], end))];
                if self.is_any(self.or(above[0], above[1])) {
                    x = [self.i64_sum(self.odd64(a[0], above[0])), self.i64_sum(self.odd64(a[1], above[1]))];
                }
            }
            let near = self.f64_to_f32(x);
            self.and_not(_mm256_cmpeq_epi32(near, self.splat32(1 << 31)), near)
        };
        u64_to_f32(self, a: [__m256i; 2]) -> __m256i = {
            let mut x = [self.u64_sum(a[0]), self.u64_sum(a[1])];
            if self.are_in_the_middle(x) {
                let above = [self.shr64::<53>(a[0]), self.shr64::<53>(a[1])];
                if self.is_any(self.or(above[0], above[1])) {
                    x = [self.u64_sum(self.odd64(a[0], above[0])), self.u64_sum(self.odd64(a[1], above[1]))];
                }
            }
            self.and(self.f64_to_f32(x), self.splat32(u32::MAX >> 1))
        };
        i64_to_f64(self, a: __m256i) -> __m256i =
            self.and_not(_mm256_cmpeq_epi64(a, _mm256_setzero_si256()), self.i64_sum(a));
        u64_to_f64(self, a: __m256i) -> __m256i = self.and(self.u64_sum(a), self.splat64(u64::MAX >> 1));
        f32_to_i32(self, a: __m256i) -> __m256i = _mm256_cvtps_epi32(self.ps(a));
        // From 2^31 on, all numbers are integers, so subtracting 2^31 is exact.
        f32_to_u32(self, a: __m256i) -> __m256i = {
            let half = self.splat32(0x4F00_0000);
            let upper = self.gt32(a, self.splat32(0x4EFF_FFFF));
            let rest = _mm256_sub_ps(self.ps(a), self.ps(self.and(upper, half)));
            self.xor(_mm256_cvtps_epi32(rest), self.and(upper, self.splat32(1 << 31)))
        };
        // Rounds, and then splits the integer exactly into its halves: the upper one is a floor, the lower one the rest. Each
        // becomes the low half of the mantissa of a float whose ulp is 1.
        f64_to_i64(self, a: __m256i) -> __m256i = {
            let x = _mm256_max_pd(self.pd(self.round_f64(a)), _mm256_set1_pd(-9_223_372_036_854_775_808.0));
            let scaled = _mm256_mul_pd(x, _mm256_set1_pd(1.0 / 4_294_967_296.0));
            let high = _mm256_round_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(scaled);
            let low = _mm256_fnmadd_pd(high, _mm256_set1_pd(4_294_967_296.0), x);
            let high = _mm256_add_pd(high, _mm256_set1_pd(6_755_399_441_055_744.0));
            let low = _mm256_add_pd(low, _mm256_set1_pd(4_503_599_627_370_496.0));
            _mm256_blend_epi32::<0b01_01_01_01>(_mm256_sll_epi64(self.bits_pd(high), self.count(32)), self.bits_pd(low))
        };
        f64_to_u64(self, a: __m256i) -> __m256i = self.f64_to_i64(a);
        f64_to_i32(self, a: [__m256i; 2]) -> __m256i =
            _mm256_set_m128i(_mm256_cvtpd_epi32(self.pd(a[1])), _mm256_cvtpd_epi32(self.pd(a[0])));
        f64_to_i32_or_bits(self, a: [__m256i; 2], _whole: [__m256i; 2]) -> [__m256i; 2] =
            [self.f64_to_i32(a), _mm256_setzero_si256()];
    }
}

impl Saturates for Avx2 {
    ops! {
        narrow_s16(self, a: [__m256i; 2]) -> __m256i = self.packed(_mm256_packs_epi16(a[0], a[1]));
        narrow_s16_to_u8(self, a: [__m256i; 2]) -> __m256i = self.packed(_mm256_packus_epi16(a[0], a[1]));
        narrow_s32(self, a: [__m256i; 2]) -> __m256i = self.packed(_mm256_packs_epi32(a[0], a[1]));
        narrow_s32_to_u16(self, a: [__m256i; 2]) -> __m256i = self.packed(_mm256_packus_epi32(a[0], a[1]));
        narrow_s32_to_s8(self, a: [__m256i; 4]) -> __m256i =
            self.twice_packed(_mm256_packs_epi16(_mm256_packs_epi32(a[0], a[1]), _mm256_packs_epi32(a[2], a[3])));
        narrow_s32_to_u8(self, a: [__m256i; 4]) -> __m256i =
            self.twice_packed(_mm256_packus_epi16(_mm256_packs_epi32(a[0], a[1]), _mm256_packs_epi32(a[2], a[3])));
    }
}

impl Simd for Avx2 {
    type Token = Self;
    type Dynamic = Self;
    type Strided = Self;
    const ISA: Isa = Isa::Avx2;
    type Narrowing = ByF16;
    type Lookups = ByRows;
    type Integers = ByPacking;

    #[inline(always)]
    fn run<T: Task<Self>>(self, task: T) -> T::Output {
        entry::run(self, task)
    }

    #[inline(always)]
    fn with(token: Self) -> Self {
        token
    }

    #[inline(always)]
    fn strided(self) -> Self {
        self
    }

    fn kernel<W, K: Kernel<Self, W>>() -> RunKernel<K::Job, W> {
        <K as entry::Entry<Self, W>>::enter
    }
}

impl SearchesNans for Avx2 {
    ops! {
        any_nan_f32(self, x: [__m256i; 4]) -> bool = {
            let low = _mm256_cmp_ps::<_CMP_UNORD_Q>(self.ps(x[0]), self.ps(x[1]));
            let high = _mm256_cmp_ps::<_CMP_UNORD_Q>(self.ps(x[2]), self.ps(x[3]));
            _mm256_movemask_ps(_mm256_or_ps(low, high)) != 0
        };
        any_nan_f64(self, x: [__m256i; 8]) -> bool = {
            let a = _mm256_cmp_pd::<_CMP_UNORD_Q>(self.pd(x[0]), self.pd(x[1]));
            let b = _mm256_cmp_pd::<_CMP_UNORD_Q>(self.pd(x[2]), self.pd(x[3]));
            let c = _mm256_cmp_pd::<_CMP_UNORD_Q>(self.pd(x[4]), self.pd(x[5]));
            let d = _mm256_cmp_pd::<_CMP_UNORD_Q>(self.pd(x[6]), self.pd(x[7]));
            _mm256_movemask_pd(_mm256_or_pd(_mm256_or_pd(a, b), _mm256_or_pd(c, d))) != 0
        };
        // If an operand is NaN, the instruction returns the second one.
        max_or_low_f32(self, x: __m256i, low: __m256i) -> __m256i = self.max_f32(x, low);
        max_or_low_f64(self, x: __m256i, low: __m256i) -> __m256i = self.max_f64(x, low);
    }
}

impl MarksBeyond for Avx2 {
    ops! {
        f32_to_i32_or_min(self, a: __m256i) -> __m256i = self.f32_to_i32(a);
        f64_to_i32_or_min(self, a: [__m256i; 2]) -> __m256i = self.f64_to_i32(a);
    }
}

impl Rows for Avx2 {
    ops! {
        lookup_pieces(self, table: __m256i, index: __m256i) -> __m256i = _mm256_shuffle_epi8(table, index);
        sub_u8(self, a: __m256i, b: __m256i) -> __m256i = _mm256_subs_epu8(a, b);
    }
}

impl NarrowsByF16 for Avx2 {
    memory_ops! {
        pick_words(self, words: [__m256i; 2], src: *const u8, high: bool, dst: *mut u8) -> () = {
            let index = self.and(self.unpack::<4>(src, high), self.splat8(0x0F));
            let low = _mm256_shuffle_epi8(self.low16(words), index);
            let high = _mm256_shuffle_epi8(self.high16(words), index);
            let [a, b] = self.in_order(_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high));
            self.store(dst, a);
            self.store(dst.add(32), b);
        };
        pick_from(self, tables: [&[[u8; 16]; 2]; 4], src: *const u8, high: bool, dst: *mut u8) -> () = {
            let index = self.and(self.unpack::<4>(src, high), self.splat8(0x0F));
            let low = _mm256_shuffle_epi8(self.pieces_of(tables.map(|[low, _]| low)), index);
            let high = _mm256_shuffle_epi8(self.pieces_of(tables.map(|[_, high]| high)), index);
            let [a, b] = self.in_order(_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high));
            self.store(dst, a);
            self.store(dst.add(32), b);
        };
    }

    ops! {
        // The low bytes, then the high ones.
        arrange(self, words: &mut [[u8; 16]; 2]) -> () = {
            let apart = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
            let [a, b] = words.each_mut().map(|bytes| bytes.as_mut_ptr().cast());
            let (low, high) = (_mm_shuffle_epi8(_mm_loadu_si128(a), apart), _mm_shuffle_epi8(_mm_loadu_si128(b), apart));
            _mm_storeu_si128(a, _mm_unpacklo_epi64(low, high));
            _mm_storeu_si128(b, _mm_unpackhi_epi64(low, high));
        };
        pieces_of(self, pieces: [&[u8; 16]; 4]) -> __m256i =
            _mm256_loadu2_m128i(pieces[1].as_ptr().cast(), pieces[0].as_ptr().cast());
        add16(self, a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi16(a, b);
        f32_to_cut_f16(self, a: [__m256i; 2]) -> __m256i = _mm256_set_m128i(
            _mm256_cvtps_ph::<_MM_FROUND_TO_ZERO>(self.ps(a[1])),
            _mm256_cvtps_ph::<_MM_FROUND_TO_ZERO>(self.ps(a[0])),
        );
        nearest_high16(self, a: [__m256i; 2]) -> __m256i = self.high16([self.nearest_high(a[0]), self.nearest_high(a[1])]);
        select_above16(self, a: __m256i, limit: __m256i, yes: __m256i, no: __m256i) -> __m256i =
            _mm256_blendv_epi8(yes, no, _mm256_cmpeq_epi16(_mm256_min_epu16(a, limit), a));
        select_above8(self, a: __m256i, limit: __m256i, yes: __m256i, no: __m256i) -> __m256i =
            _mm256_blendv_epi8(yes, no, _mm256_cmpeq_epi8(_mm256_min_epu8(a, limit), a));
    }
}

impl NarrowsByNibbles for Avx2 {
    ops! {
        row(self, bytes: &[u8; 16]) -> __m256i = self.repeated(bytes);
        zipped_u8(self, a: [__m256i; 2]) -> __m256i = _mm256_packus_epi16(a[0], a[1]);
        zipped_low8(self, a: [__m256i; 2]) -> __m256i = _mm256_packus_epi16(a[0], a[1]);
        zipped_masks(self, a: [__m256i; 2]) -> __m256i = _mm256_packs_epi16(a[0], a[1]);
        zipped_signs(self, a: [__m256i; 2]) -> __m256i = _mm256_packs_epi16(a[0], a[1]);
        unzipped8(self, a: __m256i) -> __m256i = self.packed(a);
        select8(self, mask: __m256i, yes: __m256i, no: __m256i) -> __m256i = _mm256_blendv_epi8(no, yes, mask);
    }
}
