//! NEON, which every 64-bit Arm CPU has, and the optional features FEAT_BF16 and FEAT_FP16.
//!
//! Instructions of those features are in `asm!`, in kernels with the one token: a second token would mean a second copy of
//! every kernel. Whether the CPU has them is known before a kernel runs ([`Extras`]).
//!
//! What could be added, and where. FEAT_FP8 (`FCVTN` from f32 to 8 bits, `F1CVTL` back): an extra, and an operation for `ToNarrow`
//! in front of the integer form. It has one NaN, so the sign must be put back; and FPMR, which selects the format, must be saved
//! with FPCR in `environment.rs`. SVE2: a token of its own beside this one. `BYTES` is a constant, because a block has as many
//! elements as a register has bytes, so the kernels would be for one length of registers (read by `rdvl` at detection).

use core::arch::aarch64::*;
use core::arch::asm;

use super::codec::plane::{Fold, Plane, WordTable};
use super::simd::{
    AtOnce, ByAddition, BySaturating, Bytes, Converts, Extras, Feature, Floating, Floats, Fp16, Halves, Ints,
    Kernel, Longs, Memory, NarrowsByNibbles, Packs, Registers, Rows, RunKernel, Saturates, Shorts, Simd,
    Tables, Task, Widths, copy_short, memory_ops, ops, token,
};
use crate::formats::isa::Isa;

token! {
    /// The token.
    Neon by is_aarch64_feature_detected {
        neon: "neon",
    }
}

/// Defines reinterpretations: from the bits of a register to lanes, and back.
macro_rules! lanes {
    ($($to:ident -> $lanes:ty = $there:ident, $from:ident = $back:ident;)*) => {$(
        #[inline(always)]
        fn $to(a: uint8x16_t) -> $lanes {
            // SAFETY: every 64-bit Arm CPU has NEON.
            unsafe { $there(a) }
        }

        #[inline(always)]
        fn $from(a: $lanes) -> uint8x16_t {
            // SAFETY: as above.
            unsafe { $back(a) }
        }
    )*};
}

lanes! {
    s8 -> int8x16_t = vreinterpretq_s8_u8, of_s8 = vreinterpretq_u8_s8;
    s16 -> int16x8_t = vreinterpretq_s16_u8, of_s16 = vreinterpretq_u8_s16;
    u16 -> uint16x8_t = vreinterpretq_u16_u8, of_u16 = vreinterpretq_u8_u16;
    s32 -> int32x4_t = vreinterpretq_s32_u8, of_s32 = vreinterpretq_u8_s32;
    u32 -> uint32x4_t = vreinterpretq_u32_u8, of_u32 = vreinterpretq_u8_u32;
    s64 -> int64x2_t = vreinterpretq_s64_u8, of_s64 = vreinterpretq_u8_s64;
    u64 -> uint64x2_t = vreinterpretq_u64_u8, of_u64 = vreinterpretq_u8_u64;
    f16 -> float16x8_t = vreinterpretq_f16_u8, of_f16 = vreinterpretq_u8_f16;
    f32 -> float32x4_t = vreinterpretq_f32_u8, of_f32 = vreinterpretq_u8_f32;
    f64 -> float64x2_t = vreinterpretq_f64_u8, of_f64 = vreinterpretq_u8_f64;
}

/// Defines functions for instructions of FEAT_FP16, on 8 lanes.
macro_rules! halves {
    ($($name:ident: $instruction:literal;)*) => {$(
        #[inline(always)]
        fn $name(_: Fp16, a: uint8x16_t) -> uint8x16_t {
            let result: uint8x16_t;
            // SAFETY: the first argument proves that the CPU has the instruction, which has one source operand and no memory operand.
            unsafe {
                asm!(
                    ".arch_extension fp16",
                    concat!($instruction, " {result:v}.8h, {a:v}.8h"),
                    result = lateout(vreg) result,
                    a = in(vreg) a,
                    // Not `pure`: it rounds as FPCR says. Not `preserves_flags`: it may raise flags of FPSR.
                    options(nomem, nostack),
                );
            }
            result
        }
    )*};
}

halves! {
    frinti: "frinti";
    fcvtzs: "fcvtzs";
    fcvtzu: "fcvtzu";
    scvtf: "scvtf";
    ucvtf: "ucvtf";
}

/// The constants by which elements of `BITS` bits are packed and unpacked.
struct Fields<const BITS: usize>;

impl<const BITS: usize> Fields<BITS> {
    /// For elements that begin at the low end of a byte, and at the high end.
    const CONSTANTS: [FieldConstants; 2] =
        [FieldConstants::new(BITS, false), FieldConstants::new(BITS, true)];
}

struct FieldConstants {
    /// The byte in which each element begins, and by how many bits this is shifted to the left; to the right if negative.
    bytes: [u8; 16],
    moves: [i8; 16],
    /// The byte in which each element ends, if that is another one, and its shift.
    next_bytes: [u8; 16],
    next_moves: [i8; 16],
    /// Which bytes of lanes of 32 bits become the packed bytes.
    picks: [u8; 16],
}

impl FieldConstants {
    const fn new(bits: usize, high: bool) -> Self {
        /// An index past the end of a table, which finds 0.
        const NOTHING: u8 = 0xFF;
        let (mut bytes, mut moves, mut next_bytes) = ([NOTHING; 16], [0; 16], [NOTHING; 16]);
        let (mut next_moves, mut picks) = ([0; 16], [NOTHING; 16]);
        if bits > 6 {
            // Not used, but this function is compiled for such widths.
            return Self { bytes, moves, next_bytes, next_moves, picks };
        }
        let mut i = 0;
        while i < 16 {
            let (first, last) = (i * bits / 8, ((i + 1) * bits - 1) / 8);
            let within = (i * bits % 8) as i8;
            bytes[i] = first as u8;
            moves[i] = if high { within + bits as i8 - 8 } else { -within };
            if last != first {
                next_bytes[i] = last as u8;
                next_moves[i] = if high { moves[i] - 8 } else { moves[i] + 8 };
            }
            // 4 elements have `count` bytes in a lane of 32 bits.
            let count = bits / 2;
            if i < 4 * count {
                let (lane, byte) = (i / count, i % count);
                picks[i] = (4 * lane + if high { count - 1 - byte } else { byte }) as u8;
            }
            i += 1;
        }
        // An element that ends in the next byte gets its other bits from there.
        Self { bytes, moves, next_bytes, next_moves, picks }
    }
}

/// Helpers of the operations.
impl Neon {
    ops! {
        // Loads 64 bytes.
        row_of(self, bytes: &[[u8; 16]; 4]) -> uint8x16x4_t = vld1q_u8_x4(bytes.as_ptr().cast());
        // Bits of `yes` where the mask is 1, and of `no` elsewhere. (In `asm!`, because the compiler makes three operations of
        // the intrinsic if an operand is constant. It has three operands, none of them in memory.)
        bsl(self, mask: uint8x16_t, yes: uint8x16_t, no: uint8x16_t) -> uint8x16_t = {
            let mut result = mask;
            asm!(
                "bsl {result:v}.16b, {yes:v}.16b, {no:v}.16b",
                result = inout(vreg) result,
                yes = in(vreg) yes,
                no = in(vreg) no,
                options(pure, nomem, nostack, preserves_flags),
            );
            result
        };
        // Bits of `from` where the mask is 1, and of `v` elsewhere. (The mask stays in its register.)
        bit(self, v: uint8x16_t, from: uint8x16_t, mask: uint8x16_t) -> uint8x16_t = {
            let mut result = v;
            asm!(
                "bit {result:v}.16b, {from:v}.16b, {mask:v}.16b",
                result = inout(vreg) result,
                from = in(vreg) from,
                mask = in(vreg) mask,
                options(pure, nomem, nostack, preserves_flags),
            );
            result
        };
        // Rounds each f32 to nearest even in its upper half: half of the last bit there is added, less one unless that bit is
        // odd. A NaN keeps its payload and is made quiet. (The instruction has two operands, none of them in memory.)
        near_bf16(self, x: uint8x16_t) -> uint8x16_t = {
            let mut near = vaddq_u32(u32(x), vdupq_n_u32(0x7FFF));
            asm!(
                "usra {near:v}.4s, {odd:v}.4s, #31",
                near = inout(vreg) near,
                odd = in(vreg) vshlq_n_u32::<15>(u32(x)),
                options(pure, nomem, nostack, preserves_flags),
            );
            let quiet = vorrq_u8(x, of_u32(vdupq_n_u32(0x40_0000)));
            self.bsl(of_u32(vceqq_f32(f32(x), f32(x))), of_u32(near), quiet)
        };
    }
}

impl Registers for Neon {
    type V = uint8x16_t;
    const BYTES: usize = 16;

    memory_ops! {
        load(self, p: *const u8) -> uint8x16_t = vld1q_u8(p);
        store(self, p: *mut u8, v: uint8x16_t) -> () = vst1q_u8(p, v);
        copy_in(self, p: *const u8, bytes: usize, buffer: *mut u8, registers: usize) -> () = {
            for k in 0..registers {
                self.store(buffer.add(16 * k), vdupq_n_u8(0));
            }
            copy_short(self, p, buffer, bytes);
        };
        copy_out(self, buffer: *const u8, bytes: usize, p: *mut u8) -> () = copy_short(self, buffer, p, bytes);
    }

    ops! {
        splat8(self, x: u8) -> uint8x16_t = vdupq_n_u8(x);
        splat16(self, x: u16) -> uint8x16_t = of_u16(vdupq_n_u16(x));
        splat32(self, x: u32) -> uint8x16_t = of_u32(vdupq_n_u32(x));
        splat64(self, x: u64) -> uint8x16_t = of_u64(vdupq_n_u64(x));
        and(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = vandq_u8(a, b);
        or(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = vorrq_u8(a, b);
        xor(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = veorq_u8(a, b);
        and_not(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = vbicq_u8(b, a);
        put(self, mask: uint8x16_t, from: uint8x16_t, v: uint8x16_t) -> uint8x16_t = self.bit(v, from, mask);
    }
}

impl Memory for Neon {
    memory_ops! {
        copy(self, from: *const u8, to: *mut u8, bytes: usize) -> () = copy_short(self, from, to, bytes);
        stream(self, p: *mut u8, v: uint8x16_t) -> () = vst1q_u8(p, v);
        load_pieces(self, p: *const u8, _apart: isize) -> uint8x16_t = self.load(p);
    }

    ops! {
        // The only store past the caches writes two registers, and is a hint. Cores recognise long sequences of whole lines
        // themselves, so nothing is streamed here by default: see `streaming_threshold`.
        prefetch(self, p: *const u8) -> () =
            asm!("prfm pldl1keep, [{}]", in(reg) p, options(readonly, nostack, preserves_flags));
        prefetch_far(self, p: *const u8) -> () =
            asm!("prfm pldl2keep, [{}]", in(reg) p, options(readonly, nostack, preserves_flags));
        // Streamed stores are ordinary ones here.
        fence(self) -> () = ();
    }
}

impl Packs for Neon {
    memory_ops! {
        copy_packed(self, _bits: usize, from: *const u8, bytes: usize, p: *mut u8) -> () = self.copy_out(from, bytes, p);
        // Each byte gets the byte in which its element begins, shifted to its place, combined with the one in which it ends.
        <const BITS: usize> unpack(self, p: *const u8, high: bool) -> uint8x16_t = {
            let fields = &Fields::<BITS>::CONSTANTS[usize::from(high)];
            let packed = match BITS {
                1 => of_u16(vsetq_lane_u16::<0>(p.cast::<u16>().read_unaligned(), vdupq_n_u16(0))),
                2 => of_u32(vsetq_lane_u32::<0>(p.cast::<u32>().read_unaligned(), vdupq_n_u32(0))),
                4 => vcombine_u8(vld1_u8(p), vdup_n_u8(0)),
                _ => of_u32(vsetq_lane_u32::<2>(
                    p.add(8).cast::<u32>().read_unaligned(),
                    u32(vcombine_u8(vld1_u8(p), vdup_n_u8(0))),
                )),
            };
            let bytes = vqtbl1q_u8(packed, vld1q_u8(fields.bytes.as_ptr()));
            let elements = vshlq_u8(bytes, vld1q_s8(fields.moves.as_ptr()));
            if BITS == 6 {
                let bytes = vqtbl1q_u8(packed, vld1q_u8(fields.next_bytes.as_ptr()));
                vorrq_u8(elements, vshlq_u8(bytes, vld1q_s8(fields.next_moves.as_ptr())))
            } else {
                elements
            }
        };
        // Two elements are joined to a lane of 16 bits, and two of these to one of 32; then the bytes that have bits are
        // picked. If the first element is at the high end, lanes are reversed before that, and bytes after it.
        <const BITS: usize> pack(self, p: *mut u8, v: uint8x16_t, high: bool) -> () = {
            if BITS == 4 {
                let pairs = u16(v);
                let bytes = if high {
                    vshrn_n_u16::<8>(vsliq_n_u16::<12>(pairs, pairs))
                } else {
                    vmovn_u16(vsraq_n_u16::<4>(pairs, pairs))
                };
                vst1_u8(p, bytes);
            } else if BITS == 1 {
                // Each element is moved to its bit; the sum of eight bytes has all of them.
                let fields = &Fields::<BITS>::CONSTANTS[usize::from(high)];
                let bits = vshlq_u8(v, vnegq_s8(vld1q_s8(fields.moves.as_ptr())));
                *p = vaddv_u8(vget_low_u8(bits));
                *p.add(1) = vaddv_u8(vget_high_u8(bits));
            } else {
                let fields = &Fields::<BITS>::CONSTANTS[usize::from(high)];
                let v = u16(if high { vrev32q_u8(v) } else { v });
                let upper = vshrq_n_u16::<8>(v);
                let packed = if BITS == 2 {
                    let pairs = u32(of_u16(vsliq_n_u16::<2>(v, upper)));
                    vsliq_n_u32::<4>(pairs, vshrq_n_u32::<16>(pairs))
                } else {
                    let pairs = u32(of_u16(vsliq_n_u16::<6>(v, upper)));
                    vsliq_n_u32::<12>(pairs, vshrq_n_u32::<16>(pairs))
                };
                let bytes = vqtbl1q_u8(of_u32(packed), vld1q_u8(fields.picks.as_ptr()));
                if BITS == 2 {
                    p.cast::<u32>().write_unaligned(vgetq_lane_u32::<0>(u32(bytes)));
                } else {
                    vst1_u8(p, vget_low_u8(bytes));
                    p.add(8).cast::<u32>().write_unaligned(vgetq_lane_u32::<2>(u32(bytes)));
                }
            }
        };
    }
}

impl Bytes for Neon {
    ops! {
        sub8(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = vsubq_u8(a, b);
        zero_where_zero8(self, where_: uint8x16_t, v: uint8x16_t) -> uint8x16_t = vandq_u8(vtstq_u8(where_, where_), v);
        where_gt8(self, a: uint8x16_t, b: uint8x16_t, v: uint8x16_t) -> uint8x16_t = vandq_u8(vcgtq_s8(s8(a), s8(b)), v);
        min_s8(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_s8(vminq_s8(s8(a), s8(b)));
        max_s8(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_s8(vmaxq_s8(s8(a), s8(b)));
        min_u8(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = vminq_u8(a, b);
        max_u8(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = vmaxq_u8(a, b);
        // Each byte keeps one bit, according to its place, so that the bytes of a half can be added.
        top_bits(self, a: uint8x16_t) -> u64 = {
            let places = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
            let bits = vandq_u8(vcltzq_s8(vreinterpretq_s8_u8(a)), places);
            u64::from(vaddv_u8(vget_low_u8(bits))) | u64::from(vaddv_u8(vget_high_u8(bits))) << 8
        };
    }
}

impl Shorts for Neon {
    ops! {
        min_s16(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_s16(vminq_s16(s16(a), s16(b)));
        max_s16(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_s16(vmaxq_s16(s16(a), s16(b)));
        min_u16(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_u16(vminq_u16(u16(a), u16(b)));
        max_u16(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_u16(vmaxq_u16(u16(a), u16(b)));
        sub16(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_u16(vsubq_u16(u16(a), u16(b)));
        eq16(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_u16(vceqq_u16(u16(a), u16(b)));
        gt16(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_u16(vcgtq_s16(s16(a), s16(b)));
        <const N: u32> shr16(self, a: uint8x16_t) -> uint8x16_t = of_u16(vshlq_u16(u16(a), vdupq_n_s16(-(N as i16))));
    }
}

impl Ints for Neon {
    type M32 = uint32x4_t;

    ops! {
        add32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_u32(vaddq_u32(u32(a), u32(b)));
        sub32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_u32(vsubq_u32(u32(a), u32(b)));
        // A constant count becomes an immediate of the shift.
        <const N: u32> shl32(self, a: uint8x16_t) -> uint8x16_t = of_u32(vshlq_u32(u32(a), vdupq_n_s32(N as i32)));
        <const N: u32> shr32(self, a: uint8x16_t) -> uint8x16_t = of_u32(vshlq_u32(u32(a), vdupq_n_s32(-(N as i32))));
        shr32v(self, a: uint8x16_t, counts: uint8x16_t) -> uint8x16_t = of_u32(vshlq_u32(u32(a), vnegq_s32(s32(counts))));
        min_s32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_s32(vminq_s32(s32(a), s32(b)));
        max_s32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_s32(vmaxq_s32(s32(a), s32(b)));
        min_u32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_u32(vminq_u32(u32(a), u32(b)));
        max_u32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_u32(vmaxq_u32(u32(a), u32(b)));
        eq32(self, a: uint8x16_t, b: uint8x16_t) -> uint32x4_t = vceqq_u32(u32(a), u32(b));
        gt32(self, a: uint8x16_t, b: uint8x16_t) -> uint32x4_t = vcgtq_s32(s32(a), s32(b));
        select32(self, mask: uint32x4_t, yes: uint8x16_t, no: uint8x16_t) -> uint8x16_t = self.bsl(of_u32(mask), yes, no);
        count32(self, mask: uint32x4_t) -> usize = vaddvq_u32(vshrq_n_u32::<31>(mask)) as usize;
    }
}

impl Longs for Neon {
    type M64 = uint64x2_t;
    const TRUE: u32 = u32::MAX;

    ops! {
        most_u32(self, a: uint8x16_t) -> u32 = vmaxvq_u32(u32(a));
        most_u16(self, a: uint8x16_t) -> u32 = vmaxvq_u16(u16(a)).into();
        add64(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_u64(vaddq_u64(u64(a), u64(b)));
        sub64(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_u64(vsubq_u64(u64(a), u64(b)));
        <const N: u32> shr64(self, a: uint8x16_t) -> uint8x16_t = of_u64(vshlq_u64(u64(a), vdupq_n_s64(-i64::from(N))));
        // The instruction uses only the low byte of a count.
        shl64v(self, a: uint8x16_t, counts: uint8x16_t) -> uint8x16_t =
            of_u64(vshlq_u64(u64(a), s64(self.min_u32(counts, self.splat32(64)))));
        sign64(self, a: uint8x16_t) -> uint8x16_t = of_u64(vcltzq_s64(s64(a)));
        min_s64(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = self.select64(self.gt64(a, b), b, a);
        max_s64(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = self.select64(self.gt64(a, b), a, b);
        min_u64(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = self.select64(vcgtq_u64(u64(a), u64(b)), b, a);
        max_u64(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = self.select64(vcgtq_u64(u64(a), u64(b)), a, b);
        eq64(self, a: uint8x16_t, b: uint8x16_t) -> uint64x2_t = vceqq_u64(u64(a), u64(b));
        gt64(self, a: uint8x16_t, b: uint8x16_t) -> uint64x2_t = vcgtq_s64(s64(a), s64(b));
        select64(self, mask: uint64x2_t, yes: uint8x16_t, no: uint8x16_t) -> uint8x16_t = self.bsl(of_u64(mask), yes, no);
        count64(self, mask: uint64x2_t) -> usize = vaddvq_u64(vshrq_n_u64::<63>(mask)) as usize;
        any16(self, a: uint8x16_t, bits: uint8x16_t) -> uint8x16_t = of_u16(vtstq_u16(u16(a), u16(bits)));
        any32(self, a: uint8x16_t, bits: uint8x16_t) -> uint8x16_t = of_u32(vtstq_u32(u32(a), u32(bits)));
        any64(self, a: uint8x16_t, bits: uint8x16_t) -> uint8x16_t = of_u64(vtstq_u64(u64(a), u64(bits)));
    }
}

impl Widths for Neon {
    ops! {
        zext8(self, a: uint8x16_t) -> [uint8x16_t; 2] = [of_u16(vmovl_u8(vget_low_u8(a))), of_u16(vmovl_high_u8(a))];
        sext8(self, a: uint8x16_t) -> [uint8x16_t; 2] =
            [of_s16(vmovl_s8(vget_low_s8(s8(a)))), of_s16(vmovl_high_s8(s8(a)))];
        zext16(self, a: uint8x16_t) -> [uint8x16_t; 2] =
            [of_u32(vmovl_u16(vget_low_u16(u16(a)))), of_u32(vmovl_high_u16(u16(a)))];
        sext16(self, a: uint8x16_t) -> [uint8x16_t; 2] =
            [of_s32(vmovl_s16(vget_low_s16(s16(a)))), of_s32(vmovl_high_s16(s16(a)))];
        zext32(self, a: uint8x16_t) -> [uint8x16_t; 2] =
            [of_u64(vmovl_u32(vget_low_u32(u32(a)))), of_u64(vmovl_high_u32(u32(a)))];
        sext32(self, a: uint8x16_t) -> [uint8x16_t; 2] =
            [of_s64(vmovl_s32(vget_low_s32(s32(a)))), of_s64(vmovl_high_s32(s32(a)))];
        upper32(self, a: uint8x16_t) -> [uint8x16_t; 2] = self.zip_pieces::<2>(vdupq_n_u8(0), a);
        low16(self, a: [uint8x16_t; 2]) -> uint8x16_t = vuzp1q_u8(a[0], a[1]);
        low32(self, a: [uint8x16_t; 2]) -> uint8x16_t = of_u16(vuzp1q_u16(u16(a[0]), u16(a[1])));
        low64(self, a: [uint8x16_t; 2]) -> uint8x16_t = of_u32(vuzp1q_u32(u32(a[0]), u32(a[1])));
        high16(self, a: [uint8x16_t; 2]) -> uint8x16_t = vuzp2q_u8(a[0], a[1]);
        high32(self, a: [uint8x16_t; 2]) -> uint8x16_t = of_u16(vuzp2q_u16(u16(a[0]), u16(a[1])));
        even64(self, a: [uint8x16_t; 2]) -> uint8x16_t = of_u64(vuzp1q_u64(u64(a[0]), u64(a[1])));
        zip64(self, a: uint8x16_t, b: uint8x16_t) -> [uint8x16_t; 2] =
            [of_u64(vzip1q_u64(u64(a), u64(b))), of_u64(vzip2q_u64(u64(a), u64(b)))];
        <const WIDTH: usize> zip_pieces(self, a: uint8x16_t, b: uint8x16_t) -> [uint8x16_t; 2] = match WIDTH {
            1 => [vzip1q_u8(a, b), vzip2q_u8(a, b)],
            2 => [of_u16(vzip1q_u16(u16(a), u16(b))), of_u16(vzip2q_u16(u16(a), u16(b)))],
            4 => [of_u32(vzip1q_u32(u32(a), u32(b))), of_u32(vzip2q_u32(u32(a), u32(b)))],
            _ => self.zip64(a, b),
        };
        // A register is one piece of 16 bytes.
        <const WIDTH: usize> before_zips(self, a: uint8x16_t) -> uint8x16_t = a;
        swap16(self, a: uint8x16_t) -> uint8x16_t = vrev16q_u8(a);
        swap32(self, a: uint8x16_t) -> uint8x16_t = vrev32q_u8(a);
        swap64(self, a: uint8x16_t) -> uint8x16_t = vrev64q_u8(a);
    }
}

impl Tables for Neon {
    type Plane = [uint8x16x4_t; 4];
    type Line = [[uint8x16x4_t; 4]; 2];

    ops! {
        // `vqtbx` leaves the previous result if an index is past the 64 bytes of a table.
        plane(self, plane: &'static Plane) -> [uint8x16x4_t; 4] = {
            let [a, b, c, d] = &plane.elements;
            [self.row_of(a), self.row_of(b), self.row_of(c), self.row_of(d)]
        };
        lookup256(self, plane: [uint8x16x4_t; 4], _fold: Fold, index: uint8x16_t) -> uint8x16_t = {
            let found = vqtbl4q_u8(plane[0], index);
            let found = vqtbx4q_u8(found, plane[1], vsubq_u8(index, vdupq_n_u8(64)));
            let found = vqtbx4q_u8(found, plane[2], vsubq_u8(index, vdupq_n_u8(128)));
            vqtbx4q_u8(found, plane[3], vsubq_u8(index, vdupq_n_u8(192)))
        };
        lookup128(self, plane: [uint8x16x4_t; 4], index: uint8x16_t) -> uint8x16_t = {
            let index = vandq_u8(index, vdupq_n_u8(0x7F));
            vqtbx4q_u8(vqtbl4q_u8(plane[0], index), plane[1], vsubq_u8(index, vdupq_n_u8(64)))
        };
        lookup64(self, plane: [uint8x16x4_t; 4], index: uint8x16_t) -> uint8x16_t =
            vqtbl4q_u8(plane[0], vandq_u8(index, vdupq_n_u8(0x3F)));
        lookup16(self, plane: [uint8x16x4_t; 4], index: uint8x16_t) -> uint8x16_t =
            vqtbl1q_u8(plane[0].0, vandq_u8(index, vdupq_n_u8(0x0F)));
        line(self, table: &'static WordTable) -> [[uint8x16x4_t; 4]; 2] =
            [self.plane(&table.planes[0]), self.plane(&table.planes[1])];
        on_line(self, line: [[uint8x16x4_t; 4]; 2], index: uint8x16_t) -> [uint8x16_t; 2] = self.zip_pieces::<1>(
            self.lookup256(line[0], Fold::None, index),
            self.lookup256(line[1], Fold::None, index),
        );
    }
}

impl Floats for Neon {
    ops! {
        abs_f32(self, x: uint8x16_t) -> uint8x16_t = of_f32(vabsq_f32(f32(x)));
        // If an operand is NaN, it is the result, made quiet.
        min_or_nan_f32(self, limit: uint8x16_t, x: uint8x16_t) -> uint8x16_t = of_f32(vminq_f32(f32(limit), f32(x)));
        add_f32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_f32(vaddq_f32(f32(a), f32(b)));
        mul_f32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_f32(vmulq_f32(f32(a), f32(b)));
        div_f32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_f32(vdivq_f32(f32(a), f32(b)));
        mul_add_f32(self, a: uint8x16_t, b: uint8x16_t, c: uint8x16_t) -> uint8x16_t =
            of_f32(vfmaq_f32(f32(c), f32(a), f32(b)));
        min_f32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_f32(vminq_f32(f32(a), f32(b)));
        max_f32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_f32(vmaxq_f32(f32(a), f32(b)));
        number_f32(self, x: uint8x16_t) -> uint8x16_t = vandq_u8(x, of_u32(vceqq_f32(f32(x), f32(x))));
        trunc_f32(self, a: uint8x16_t) -> uint8x16_t = of_f32(vrndq_f32(f32(a)));
        add_f64(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_f64(vaddq_f64(f64(a), f64(b)));
        min_f64(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_f64(vminq_f64(f64(a), f64(b)));
        max_f64(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = of_f64(vmaxq_f64(f64(a), f64(b)));
        number_f64(self, x: uint8x16_t) -> uint8x16_t = vandq_u8(x, of_u64(vceqq_f64(f64(x), f64(x))));
        trunc_f64(self, a: uint8x16_t) -> uint8x16_t = of_f64(vrndq_f64(f64(a)));
        round_f64(self, a: uint8x16_t) -> uint8x16_t = of_f64(vrndiq_f64(f64(a)));
        f32_to_f64(self, a: uint8x16_t) -> [uint8x16_t; 2] =
            [of_f64(vcvt_f64_f32(vget_low_f32(f32(a)))), of_f64(vcvt_high_f64_f32(f32(a)))];
        f64_to_f32(self, a: [uint8x16_t; 2]) -> uint8x16_t =
            of_f32(vcvt_high_f32_f64(vcvt_f32_f64(f64(a[0])), f64(a[1])));
        // FCVTXN rounds to odd to 24 bits; subnormals, to fewer, which are still at least two more than any narrower float has
        // there. Overflow becomes the largest number, which is odd, and underflow the smallest.
        f64_to_odd_f32(self, a: [uint8x16_t; 2]) -> uint8x16_t =
            of_f32(vcvtx_high_f32_f64(vcvtx_f32_f64(f64(a[0])), f64(a[1])));
        round_f32(self, a: uint8x16_t) -> uint8x16_t = of_f32(vrndiq_f32(f32(a)));
    }
}

impl Halves for Neon {
    type F16 = Floating;
    type ToBf16 = Floating;

    ops! {
        f16_to_f32(self, a: uint8x16_t) -> [uint8x16_t; 2] =
            [of_f32(vcvt_f32_f16(vget_low_f16(f16(a)))), of_f32(vcvt_high_f32_f16(f16(a)))];
        bf16_to_f32(self, a: uint8x16_t) -> [uint8x16_t; 2] = {
            let magnitude = vandq_u16(u16(a), vdupq_n_u16(0x7FFF));
            let nan = vcgtq_u16(magnitude, vdupq_n_u16(0x7F80));
            self.upper32(of_u16(vorrq_u16(u16(a), vandq_u16(nan, vdupq_n_u16(0x40)))))
        };
        f32_to_f16(self, a: [uint8x16_t; 2]) -> uint8x16_t =
            of_f16(vcvt_high_f16_f32(vcvt_f16_f32(f32(a[0])), f32(a[1])));
        f32_to_bf16(self, a: [uint8x16_t; 2], extras: Extras) -> uint8x16_t = if extras.bf16.is_some() {
            let (low, high) = (f32(a[0]), f32(a[1]));
            let both: uint16x8_t;
            // The condition proves that the CPU has the instruction, which has two operands, none of them in memory.
            asm!(
                ".arch_extension bf16",
                "bfcvtn {both:v}.4h, {low:v}.4s",
                "bfcvtn2 {both:v}.8h, {high:v}.4s",
                both = out(vreg) both,
                low = in(vreg) low,
                high = in(vreg) high,
                options(pure, nomem, nostack),
            );
            of_u16(both)
        } else {
            of_u16(vuzp2q_u16(u16(self.near_bf16(a[0])), u16(self.near_bf16(a[1]))))
        };
        f16_to_words(self, extras: Extras, a: [uint8x16_t; 2], rounds: bool, signed: bool) -> Option<[uint8x16_t; 2]> = {
            let fp16 = extras.fp16?;
            let a = if rounds { [frinti(fp16, a[0]), frinti(fp16, a[1])] } else { a };
            Some(if signed {
                [fcvtzs(fp16, a[0]), fcvtzs(fp16, a[1])]
            } else {
                [fcvtzu(fp16, a[0]), fcvtzu(fp16, a[1])]
            })
        };
        words_to_f16(self, extras: Extras, a: [uint8x16_t; 2], signed: bool) -> Option<[uint8x16_t; 2]> = {
            let fp16 = extras.fp16?;
            Some(if signed {
                [scvtf(fp16, a[0]), scvtf(fp16, a[1])]
            } else {
                [ucvtf(fp16, a[0]), ucvtf(fp16, a[1])]
            })
        };
    }
}

impl Converts for Neon {
    ops! {
        i32_to_f32(self, a: uint8x16_t) -> uint8x16_t = of_f32(vcvtq_f32_s32(s32(a)));
        u32_to_f32(self, a: uint8x16_t) -> uint8x16_t = of_f32(vcvtq_f32_u32(u32(a)));
        i32_to_f64(self, a: uint8x16_t) -> [uint8x16_t; 2] =
            { let [l, h] = self.sext32(a); [self.i64_to_f64(l), self.i64_to_f64(h)] };
        u32_to_f64(self, a: uint8x16_t) -> [uint8x16_t; 2] =
            { let [l, h] = self.zext32(a); [self.u64_to_f64(l), self.u64_to_f64(h)] };
        i64_to_f64(self, a: uint8x16_t) -> uint8x16_t = of_f64(vcvtq_f64_s64(s64(a)));
        u64_to_f64(self, a: uint8x16_t) -> uint8x16_t = of_f64(vcvtq_f64_u64(u64(a)));
        // Conversions have their rounding in the instruction; FRINTI rounds as the control register says.
        f32_to_i32(self, a: uint8x16_t) -> uint8x16_t = of_s32(vcvtq_s32_f32(vrndiq_f32(f32(a))));
        f32_to_u32(self, a: uint8x16_t) -> uint8x16_t = of_u32(vcvtq_u32_f32(vrndiq_f32(f32(a))));
        f64_to_i64(self, a: uint8x16_t) -> uint8x16_t = of_s64(vcvtq_s64_f64(vrndiq_f64(f64(a))));
        f64_to_u64(self, a: uint8x16_t) -> uint8x16_t = of_u64(vcvtq_u64_f64(vrndiq_f64(f64(a))));
    }
}

impl Saturates for Neon {
    ops! {
        cut_i32(self, a: uint8x16_t) -> uint8x16_t = of_s32(vcvtq_s32_f32(f32(a)));
        cut_u32(self, a: uint8x16_t) -> uint8x16_t = of_u32(vcvtq_u32_f32(f32(a)));
        cut_i64(self, a: uint8x16_t) -> uint8x16_t = of_s64(vcvtq_s64_f64(f64(a)));
        cut_u64(self, a: uint8x16_t) -> uint8x16_t = of_u64(vcvtq_u64_f64(f64(a)));
        narrow_s16(self, a: [uint8x16_t; 2]) -> uint8x16_t = of_s8(vqmovn_high_s16(vqmovn_s16(s16(a[0])), s16(a[1])));
        narrow_u16(self, a: [uint8x16_t; 2]) -> uint8x16_t = vqmovn_high_u16(vqmovn_u16(u16(a[0])), u16(a[1]));
        narrow_s16_to_u8(self, a: [uint8x16_t; 2]) -> uint8x16_t = vqmovun_high_s16(vqmovun_s16(s16(a[0])), s16(a[1]));
        narrow_s32(self, a: [uint8x16_t; 2]) -> uint8x16_t = of_s16(vqmovn_high_s32(vqmovn_s32(s32(a[0])), s32(a[1])));
        narrow_u32(self, a: [uint8x16_t; 2]) -> uint8x16_t = of_u16(vqmovn_high_u32(vqmovn_u32(u32(a[0])), u32(a[1])));
        narrow_s32_to_u16(self, a: [uint8x16_t; 2]) -> uint8x16_t =
            of_u16(vqmovun_high_s32(vqmovun_s32(s32(a[0])), s32(a[1])));
        narrow_s64(self, a: [uint8x16_t; 2]) -> uint8x16_t = of_s32(vqmovn_high_s64(vqmovn_s64(s64(a[0])), s64(a[1])));
        narrow_u64(self, a: [uint8x16_t; 2]) -> uint8x16_t = of_u32(vqmovn_high_u64(vqmovn_u64(u64(a[0])), u64(a[1])));
        narrow_s64_to_u32(self, a: [uint8x16_t; 2]) -> uint8x16_t =
            of_u32(vqmovun_high_s64(vqmovun_s64(s64(a[0])), s64(a[1])));
    }
}

impl Simd for Neon {
    type Token = Self;
    type Dynamic = Self;
    type Strided = Self;
    const ISA: Isa = Isa::Neon;
    type Narrowing = ByAddition;
    type Lookups = AtOnce;
    type Integers = BySaturating;

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

impl Rows for Neon {
    ops! {
        lookup_pieces(self, table: uint8x16_t, index: uint8x16_t) -> uint8x16_t = vqtbl1q_u8(table, index);
        sub_u8(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t = vqsubq_u8(a, b);
    }
}

impl NarrowsByNibbles for Neon {
    ops! {
        row(self, bytes: &[u8; 16]) -> uint8x16_t = vld1q_u8(bytes.as_ptr());
        lookup_rows(self, rows: [uint8x16_t; 2], index: uint8x16_t) -> uint8x16_t = vqtbl2q_u8(uint8x16x2_t(rows[0], rows[1]), index);
        select8(self, mask: uint8x16_t, yes: uint8x16_t, no: uint8x16_t) -> uint8x16_t = vbslq_u8(mask, yes, no);
    }
}
