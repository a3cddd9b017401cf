//! The operations on registers that an instruction set offers to the codecs, each with its contract.
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

use core::mem::MaybeUninit;

use super::codec::plane::{Fold, Plane, WordTable};
use super::memory::Destination;
use super::present::Present;
use super::sizes::bytes;
use crate::formats::isa::Isa;

/// Does this CPU have a feature? Without the standard library, which knows how to ask: does every CPU of the target have it? (On
/// WebAssembly there is nothing to ask.)
macro_rules! has {
    ($detected:ident, $feature:tt) => {{
        #[cfg(all(feature = "std", not(target_family = "wasm")))]
        let has = std::arch::$detected!($feature);
        #[cfg(not(all(feature = "std", not(target_family = "wasm"))))]
        let has = cfg!(target_feature = $feature);
        has
    }};
}
pub(super) use has;

/// Instructions that some CPUs with an instruction set have and others do not. They are kept in a kernel's setup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extras {
    /// An instruction that rounds to bfloat16, as [`Halves::f32_to_bf16`].
    pub(crate) bf16: Option<Bf16>,
    /// Instructions on lanes of float16, for [`Halves::f16_to_words`] and [`Halves::words_to_f16`].
    #[cfg_attr(not(isa = "neon"), expect(dead_code, reason = "no other instruction set here has them"))]
    pub(crate) fp16: Option<Fp16>,
}

/// The proof that this CPU has the instructions to bfloat16, AVX512_BF16 or FEAT_BF16.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bf16(());

/// The proof that it has FEAT_FP16.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fp16(());

impl Extras {
    pub(super) const NONE: Self = Self { bf16: None, fp16: None };

    /// What this CPU has. (Kernels must not call this, because they contain no calls.)
    pub(super) fn this() -> Self {
        #[cfg(isa = "neon")]
        let (bf16, fp16) =
            (has!(is_aarch64_feature_detected, "bf16"), has!(is_aarch64_feature_detected, "fp16"));
        #[cfg(isa = "avx2")]
        let (bf16, fp16) = (has!(is_x86_feature_detected, "avx512bf16"), false);
        #[cfg(isa = "simd128")]
        let (bf16, fp16) = (false, false);
        Self { bf16: bf16.then_some(Bf16(())), fp16: fp16.then_some(Fp16(())) }
    }
}

/// Whether an operation touches the floating-point environment: [`Quiet`] or [`Floating`].
pub(crate) trait Effect {
    /// May the result depend on the control register, or may a flag be raised?
    const FLOATS: bool;
}

/// It does not touch the environment.
pub(crate) struct Quiet;

impl Effect for Quiet {
    const FLOATS: bool = false;
}

/// It is an operation on floats, which does.
pub(crate) struct Floating;

impl Effect for Floating {
    const FLOATS: bool = true;
}

/// Counts how many lanes of masks are true: the sum of the lanes of a register and a number, of which an instruction set uses one.
#[derive(Clone, Copy)]
pub(crate) struct Tally<V> {
    pub(crate) lanes: V,
    pub(crate) others: usize,
}

/// A register, and its bits. A value of a type with this trait is the proof that the CPU has the features of an instruction set,
/// so operations are safe, but for those that touch memory.
///
/// # Safety
/// Of what touches memory: its pointers are good for as many registers, or bytes, as it says. Any alignment will do.
pub(crate) trait Registers: Copy + Send + Sync + 'static {
    /// A register of any lanes.
    type V: Copy;
    /// Bytes in a register, elements in a block.
    const BYTES: usize;
    unsafe fn load(self, p: *const u8) -> Self::V;
    unsafe fn store(self, p: *mut u8, v: Self::V);
    /// Copies `bytes` bytes, no more than `registers` have, to a buffer of so many registers; the rest becomes 0.
    unsafe fn copy_in(self, p: *const u8, bytes: usize, buffer: *mut u8, registers: usize);
    /// Copies the first `bytes` bytes of a buffer of whole registers, and neither reads nor writes any others.
    unsafe fn copy_out(self, buffer: *const u8, bytes: usize, p: *mut u8);
    /// Loads the first `bytes` bytes of a register; the others are 0. All of it, if `bytes` is more. `MOST` is an upper bound of `bytes`, which
    /// limits the width of accesses: bytes that were just stored by accesses of the same width are loaded faster.
    #[inline(always)]
    unsafe fn load_few<const MOST: usize>(self, p: *const u8, bytes: usize) -> Self::V {
        let mut room = MaybeUninit::<Self::V>::uninit();
        let room = room.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's promise, and a room of one register.
        unsafe {
            if bytes >= Self::BYTES {
                return self.load(p);
            }
            self.copy_in(p, bytes, room, 1);
            self.load(room)
        }
    }
    /// Stores the first `bytes` bytes of a register: the inverse of [`Registers::load_few`].
    #[inline(always)]
    unsafe fn store_few<const MOST: usize>(self, p: *mut u8, v: Self::V, bytes: usize) {
        let mut room = MaybeUninit::<Self::V>::uninit();
        let room = room.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's promise, and a room of one register.
        unsafe {
            self.store(room, v);
            self.copy_out(room, bytes.min(Self::BYTES), p);
        }
    }
    /// Takes the first register from some bytes. None if they are fewer.
    #[inline(always)]
    fn load_next(self, from: &mut &[u8]) -> Option<Self::V> {
        let (first, rest) = from.split_at_checked(Self::BYTES)?;
        *from = rest;
        // SAFETY: so many bytes are borrowed.
        Some(unsafe { self.load(first.as_ptr()) })
    }
    /// Stores a register to the first of some bytes, and takes those. Does nothing if they are fewer.
    #[inline(always)]
    fn store_next(self, to: &mut Destination<'_, u8>, v: Self::V) {
        if let Some(first) = to.take_all(Self::BYTES) {
            // SAFETY: so many bytes are borrowed, for this alone.
            unsafe { self.store(first.as_mut_ptr(), v) };
        }
    }
    /// Fills a buffer of whole registers with some bytes, and zeros behind them.
    #[inline(always)]
    fn fill(self, room: &mut [u8], with: &[u8]) {
        let registers = room.len() / Self::BYTES;
        // SAFETY: the bytes are borrowed, no more of them than the registers have; so is the room, for this alone.
        unsafe {
            let bytes = with.len().min(registers * Self::BYTES);
            self.copy_in(with.as_ptr(), bytes, room.as_mut_ptr(), registers);
        }
    }
    fn splat8(self, x: u8) -> Self::V;
    fn splat16(self, x: u16) -> Self::V;
    fn splat32(self, x: u32) -> Self::V;
    fn splat64(self, x: u64) -> Self::V;
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    fn or(self, a: Self::V, b: Self::V) -> Self::V;
    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
    /// `!a & b`
    fn and_not(self, a: Self::V, b: Self::V) -> Self::V;
    /// The bits of `from` where `mask` is 1, and elsewhere those of `v`, which is 0 there.
    #[inline(always)]
    fn put(self, mask: Self::V, from: Self::V, v: Self::V) -> Self::V {
        self.or(v, self.and(from, mask))
    }
}

/// How bytes move through the caches. As to safety, see [`Registers`].
pub(crate) trait Memory: Registers {
    /// Bytes of a stored row of a view from which on it is streamed if the whole view is. For shorter rows, the partial lines at both ends
    /// cost more than streaming saves. (Measured with AVX2 alone; a long row, until it is measured elsewhere.)
    const ROW_STREAMS_FROM: usize = 16 << 10;
    /// Copies `bytes` bytes, and reads and writes no others. Source and destination do not overlap.
    unsafe fn copy(self, from: *const u8, to: *mut u8, bytes: usize);
    /// Prefetches a line to L1. Any address will do.
    fn prefetch(self, p: *const u8);
    /// Prefetches a line to L2: for lines that are a power of two apart, of which L1 has room for few.
    fn prefetch_far(self, p: *const u8);
    /// Stores past the caches. `p` is aligned to the register.
    unsafe fn stream(self, p: *mut u8, v: Self::V);
    /// Orders streamed stores before later ones.
    fn fence(self);
    /// Loads as many pieces of 16 bytes as a register has, from places `apart` bytes apart.
    unsafe fn load_pieces(self, p: *const u8, apart: isize) -> Self::V;
}

/// Packed elements of 1, 2, 4 and 6 bits. As to safety, see [`Registers`].
pub(crate) trait Packs: Registers {
    /// A block of packed elements of 1, 2, 4 or 6 bits, the first at the low or at the high end of a byte, to
    /// one per byte. The bits above them are unspecified. Reads no bytes but those of the elements.
    unsafe fn unpack<const BITS: usize>(self, p: *const u8, high: bool) -> Self::V;
    /// The inverse of [`Packs::unpack`]; the bits above elements must be 0. Writes no bytes but those of the elements.
    unsafe fn pack<const BITS: usize>(self, p: *mut u8, v: Self::V, high: bool);
    /// [`Packs::unpack`] of one to [`FEW`](super::sizes::FEW) elements; the others are 0, but for what a byte has above.
    #[inline(always)]
    unsafe fn unpack_few<const BITS: usize>(self, p: *const u8, n: usize, high: bool) -> Self::V {
        let mut room = MaybeUninit::<Self::V>::uninit();
        let room = room.as_mut_ptr().cast::<u8>();
        // SAFETY: the elements are so many bytes, fewer than a register has. The room is for one, which has room for a block.
        unsafe {
            self.copy_in(p, bytes(n, BITS), room, 1);
            self.unpack::<BITS>(room, high)
        }
    }
    /// [`Packs::pack`] of one to [`FEW`](super::sizes::FEW) elements. Unused bits of the last byte become 0.
    #[inline(always)]
    unsafe fn pack_few<const BITS: usize>(self, p: *mut u8, v: Self::V, n: usize, high: bool) {
        let mut room = MaybeUninit::<Self::V>::uninit();
        let room = room.as_mut_ptr().cast::<u8>();
        let made = bytes(n, BITS);
        let unused = 8 * made - n * BITS;
        // SAFETY: as above; the last byte is one of those that were stored.
        unsafe {
            self.pack::<BITS>(room, v, high);
            *room.add(made - 1) &= if high { 0xFFu8 << unused } else { 0xFF >> unused };
            self.copy_packed(BITS, room, made, p);
        }
    }
    /// Copies the first `bytes` bytes of what `pack` has stored of elements of so many bits, and neither reads nor writes more: by
    /// loads as wide as its stores, because a wider one waits until all of them are in the cache.
    unsafe fn copy_packed(self, bits: usize, from: *const u8, bytes: usize, p: *mut u8);
}

/// Lanes of 8 bits.
pub(crate) trait Bytes: Registers {
    fn sub8(self, a: Self::V, b: Self::V) -> Self::V;
    /// `v`, but 0 in the bytes where `where_` is 0.
    fn zero_where_zero8(self, where_: Self::V, v: Self::V) -> Self::V;
    /// `v`, but 0 in the bytes where `a` is not greater than `b`, signed.
    fn where_gt8(self, a: Self::V, b: Self::V, v: Self::V) -> Self::V;
    fn min_s8(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_s8(self, a: Self::V, b: Self::V) -> Self::V;
    fn min_u8(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_u8(self, a: Self::V, b: Self::V) -> Self::V;
    /// The top bit of each byte, that of the first in the lowest bit.
    fn top_bits(self, a: Self::V) -> u64;
}

/// Lanes of 16 bits.
pub(crate) trait Shorts: Bytes {
    fn min_s16(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_s16(self, a: Self::V, b: Self::V) -> Self::V;
    fn min_u16(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_u16(self, a: Self::V, b: Self::V) -> Self::V;
    fn shr16<const N: u32>(self, a: Self::V) -> Self::V;
    fn sub16(self, a: Self::V, b: Self::V) -> Self::V;
    /// All ones where that is true, else zeros.
    fn eq16(self, a: Self::V, b: Self::V) -> Self::V;
    /// The same, signed.
    fn gt16(self, a: Self::V, b: Self::V) -> Self::V;
}

/// Lanes of 32 bits.
pub(crate) trait Ints: Shorts {
    /// One truth value for each lane of 32 bits.
    type M32: Copy;
    fn add32(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub32(self, a: Self::V, b: Self::V) -> Self::V;
    fn shl32<const N: u32>(self, a: Self::V) -> Self::V;
    fn shr32<const N: u32>(self, a: Self::V) -> Self::V;
    /// Shifts all lanes by the same count, which is below 32.
    fn shr32v(self, a: Self::V, counts: Self::V) -> Self::V;
    fn min_s32(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_s32(self, a: Self::V, b: Self::V) -> Self::V;
    fn min_u32(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_u32(self, a: Self::V, b: Self::V) -> Self::V;
    fn eq32(self, a: Self::V, b: Self::V) -> Self::M32;
    /// Signed.
    fn gt32(self, a: Self::V, b: Self::V) -> Self::M32;
    /// Lanes of `yes` where the mask is true.
    fn select32(self, mask: Self::M32, yes: Self::V, no: Self::V) -> Self::V;
    /// How many lanes are true.
    fn count32(self, mask: Self::M32) -> usize;
    /// Adds true lanes to a tally: in the lanes, or where masks are bits, in the number, which is faster.
    #[inline(always)]
    fn tally32(self, mask: Self::M32, tally: Tally<Self::V>) -> Tally<Self::V> {
        let trues = self.select32(mask, self.splat32(u32::MAX), self.splat32(0));
        Tally { lanes: self.sub32(tally.lanes, trues), ..tally }
    }
}

/// Lanes of 64 bits, and operations on lanes of any width.
pub(crate) trait Longs: Ints {
    /// The largest lane of 32 and of 16 bits, unsigned.
    fn most_u32(self, a: Self::V) -> u32;
    fn most_u16(self, a: Self::V) -> u32;
    /// One truth value for each lane of 64 bits.
    type M64: Copy;
    fn add64(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub64(self, a: Self::V, b: Self::V) -> Self::V;
    fn shr64<const N: u32>(self, a: Self::V) -> Self::V;
    /// Each lane by its own count, which is less than 2^32 or whose result does not matter; 0 from 64 on.
    fn shl64v(self, a: Self::V, counts: Self::V) -> Self::V;
    /// Joins the low 11 bits into one sticky bit above them, unless `above` is 0. (In two's complement it is the same for negative numbers.)
    #[inline(always)]
    fn odd64(self, v: Self::V, above: Self::V) -> Self::V {
        // What is added carries into the bit above the low ones, if any of those is set.
        let low = self.splat64(0x7FF);
        let odd = self.and_not(low, self.or(v, self.add64(self.and(v, low), low)));
        self.select64(self.eq64(above, self.splat64(0)), v, odd)
    }
    /// All ones where the lane is negative.
    fn sign64(self, a: Self::V) -> Self::V;
    fn min_s64(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_s64(self, a: Self::V, b: Self::V) -> Self::V;
    fn min_u64(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_u64(self, a: Self::V, b: Self::V) -> Self::V;
    fn eq64(self, a: Self::V, b: Self::V) -> Self::M64;
    /// Signed.
    fn gt64(self, a: Self::V, b: Self::V) -> Self::M64;
    fn select64(self, mask: Self::M64, yes: Self::V, no: Self::V) -> Self::V;
    fn count64(self, mask: Self::M64) -> usize;
    /// As [`Ints::tally32`].
    #[inline(always)]
    fn tally64(self, mask: Self::M64, tally: Tally<Self::V>) -> Tally<Self::V> {
        let trues = self.select64(mask, self.splat64(u64::MAX), self.splat64(0));
        Tally { lanes: self.sub64(tally.lanes, trues), ..tally }
    }
    /// The bits that [`Longs::any16`], [`Longs::any32`] and [`Longs::any64`] may set in lanes of every width: the lowest of each byte, as they
    /// make 1 of a lane; or all, where they leave the mask of a comparison.
    const TRUE: u32 = 0x0101_0101;
    /// Lanes that say whether `a` has any of `bits`: 0 if not, else as [`Longs::TRUE`] says.
    #[inline(always)]
    fn any16(self, a: Self::V, bits: Self::V) -> Self::V {
        self.min_u16(self.and(a, bits), self.splat16(1))
    }
    #[inline(always)]
    fn any32(self, a: Self::V, bits: Self::V) -> Self::V {
        self.min_u32(self.and(a, bits), self.splat32(1))
    }
    /// The same for lanes of 64 bits, in their lower halves.
    #[inline(always)]
    fn any64(self, a: Self::V, bits: Self::V) -> Self::V {
        let v = self.and(a, bits);
        self.min_u32(self.or(v, self.shr64::<32>(v)), self.splat32(1))
    }
}

/// Converts lanes to another width, or brings them to another order.
pub(crate) trait Widths: Longs {
    /// The lower and the upper half of the lanes, widened.
    fn zext8(self, a: Self::V) -> [Self::V; 2];
    fn sext8(self, a: Self::V) -> [Self::V; 2];
    fn zext16(self, a: Self::V) -> [Self::V; 2];
    fn sext16(self, a: Self::V) -> [Self::V; 2];
    fn zext32(self, a: Self::V) -> [Self::V; 2];
    fn sext32(self, a: Self::V) -> [Self::V; 2];
    /// Lanes of 16 bits as the high halves of lanes of 32 bits, above zeros.
    #[inline(always)]
    fn upper32(self, a: Self::V) -> [Self::V; 2] {
        let wide = self.zext16(a);
        [self.shl32::<16>(wide[0]), self.shl32::<16>(wide[1])]
    }
    /// The low half of each lane of 16, 32 or 64 bits.
    fn low16(self, a: [Self::V; 2]) -> Self::V;
    fn low32(self, a: [Self::V; 2]) -> Self::V;
    fn low64(self, a: [Self::V; 2]) -> Self::V;
    /// The high half of each lane of 16 or 32 bits.
    fn high16(self, a: [Self::V; 2]) -> Self::V;
    fn high32(self, a: [Self::V; 2]) -> Self::V;
    /// The lowest byte of each lane of 32 bits.
    #[inline(always)]
    fn lowest32(self, a: [Self::V; 4]) -> Self::V {
        self.low16([self.low32([a[0], a[1]]), self.low32([a[2], a[3]])])
    }
    /// A byte for each lane of 16 or 32 bits, with the same top bit; its other bits are unspecified.
    #[inline(always)]
    fn signs16(self, a: [Self::V; 2]) -> Self::V {
        self.high16(a)
    }
    #[inline(always)]
    fn signs32(self, a: [Self::V; 4]) -> Self::V {
        self.high16([self.high32([a[0], a[1]]), self.high32([a[2], a[3]])])
    }
    /// A bit for each lane of 16, 32 or 64 bits, all of which are all ones or zeros: that of the first in the lowest.
    #[inline(always)]
    fn bits16(self, a: [Self::V; 2]) -> u64 {
        self.top_bits(self.signs16(a))
    }
    #[inline(always)]
    fn bits32(self, a: [Self::V; 4]) -> u64 {
        self.top_bits(self.signs32(a))
    }
    #[inline(always)]
    fn bits64(self, [a, b, c, d, e, f, g, h]: [Self::V; 8]) -> u64 {
        self.bits32([self.low64([a, b]), self.low64([c, d]), self.low64([e, f]), self.low64([g, h])])
    }
    /// A mask of the lanes of 8, 16 or 32 bits that equal none of the values in `of`, each of which is splat: the first lane in the lowest
    /// bit. Where a block has fewer than 64 lanes, the bits above are unspecified.
    #[inline(always)]
    fn others8<const N: usize>(self, a: Self::V, of: [Self::V; N]) -> u64 {
        let mut least = self.splat8(u8::MAX);
        for k in 0..N {
            least = self.min_u8(least, self.xor(a, of[k]));
        }
        self.top_bits(self.zero_where_zero8(least, self.splat8(u8::MAX)))
    }
    #[inline(always)]
    fn others16<const N: usize>(self, mut a: [Self::V; 2], of: [Self::V; N]) -> u64 {
        for i in 0..2 {
            let mut least = self.splat16(u16::MAX);
            for k in 0..N {
                least = self.min_u16(least, self.xor(a[i], of[k]));
            }
            a[i] = self.eq16(least, self.splat16(0));
        }
        !self.bits16(a)
    }
    #[inline(always)]
    fn others32<const N: usize>(self, mut a: [Self::V; 4], of: [Self::V; N]) -> u64 {
        let (none, all) = (self.splat32(0), self.splat32(u32::MAX));
        for i in 0..4 {
            let mut least = all;
            for k in 0..N {
                least = self.min_u32(least, self.xor(a[i], of[k]));
            }
            a[i] = self.select32(self.eq32(least, none), none, all);
        }
        self.bits32(a)
    }
    /// The lanes of 64 bits with even indices, of one register and then of the other.
    fn even64(self, a: [Self::V; 2]) -> Self::V;
    /// Interleaves the lanes of 64 bits of two whole registers.
    fn zip64(self, a: Self::V, b: Self::V) -> [Self::V; 2];
    /// Interleaves the lanes of `WIDTH` bytes of two registers within each piece of 16 bytes, as PUNPCKL and PUNPCKH do: those of the
    /// lower halves of pieces, and those of the upper halves.
    fn zip_pieces<const WIDTH: usize>(self, a: Self::V, b: Self::V) -> [Self::V; 2];
    /// Bytes in the order that [zips of pieces](Widths::zip_pieces) undo: if those widen each byte to `WIDTH` bytes, the results are in
    /// the order of memory. Zips stay within pieces of 16 bytes, so each piece gets 16 / `WIDTH` consecutive bytes for each of the `WIDTH`
    /// registers that are made.
    fn before_zips<const WIDTH: usize>(self, a: Self::V) -> Self::V;
    /// The bytes of each lane reversed.
    fn swap16(self, a: Self::V) -> Self::V;
    fn swap32(self, a: Self::V) -> Self::V;
    fn swap64(self, a: Self::V) -> Self::V;
}

/// Looks up bytes and elements of 16 bits in tables.
pub(crate) trait Tables: Widths {
    /// What a kernel holds of a [`Plane`]: registers, or, where those are too few, a pointer.
    type Plane: Copy;
    fn plane(self, plane: &'static Plane) -> Self::Plane;
    /// The byte at each index.
    ///
    /// The fold says how its [`halves`](Plane::halves) go together, where those are looked at.
    fn lookup256(self, plane: Self::Plane, fold: Fold, index: Self::V) -> Self::V;
    /// Among the first 128; the top bit of an index is ignored.
    #[inline(always)]
    fn lookup128(self, plane: Self::Plane, index: Self::V) -> Self::V {
        self.lookup256(plane, Fold::None, self.and(index, self.splat8(0x7F)))
    }
    /// Among the first 64; the top bits of an index are ignored.
    fn lookup64(self, plane: Self::Plane, index: Self::V) -> Self::V;
    /// Among the first 16, which the next 48 repeat; the top bits of an index are ignored.
    fn lookup16(self, plane: Self::Plane, index: Self::V) -> Self::V;
    /// The elements of 16 bits at each index, in the order that zips of pieces leave, of two planes whose fold is
    /// [`Fold::Negated`].
    #[inline(always)]
    fn negated_words(self, planes: [Self::Plane; 2], index: Self::V) -> [Self::V; 2] {
        let [low, high] = planes;
        self.zip_pieces::<1>(
            self.lookup256(low, Fold::Negated, index),
            self.lookup256(high, Fold::Negated, index),
        )
    }
    /// What a kernel holds of a table whose elements lie on a line.
    type Line: Copy;
    fn line(self, table: &'static WordTable) -> Self::Line;
    /// Computes its elements, in the order that zips of pieces leave.
    fn on_line(self, line: Self::Line, index: Self::V) -> [Self::V; 2];
}

/// Lanes of float32 and float64. What rounds, rounds as the control register says, unless it [carries its rounding](Simd::needs_environment).
pub(crate) trait Floats: Widths {
    /// Without its sign.
    #[inline(always)]
    fn abs_f32(self, x: Self::V) -> Self::V {
        self.and_not(self.splat32(1 << 31), x)
    }
    /// The smaller one; `x` where that is a NaN. `limit` is not a NaN.
    fn min_or_nan_f32(self, limit: Self::V, x: Self::V) -> Self::V;
    fn add_f32(self, a: Self::V, b: Self::V) -> Self::V;
    /// The same where neither operand is a NaN, and the sum is none.
    #[inline(always)]
    fn add_numbers_f32(self, a: Self::V, b: Self::V) -> Self::V {
        self.add_f32(a, b)
    }
    fn mul_f32(self, a: Self::V, b: Self::V) -> Self::V;
    fn div_f32(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn mul_add_f32(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a * b`, rounded to odd: normal, Inf, NaN, or exact.
    #[inline(always)]
    fn odd_product_f32(self, a: Self::V, b: Self::V) -> Self::V {
        let near = self.mul_f32(a, b);
        let rest = self.mul_add_f32(a, b, self.xor(near, self.splat32(1 << 31)));
        let cut = self.sub32(near, self.shr32::<31>(self.xor(rest, near)));
        self.where_number_f32(rest, self.or(cut, self.splat32(1)), near)
    }
    /// `a / b` of a positive number, in the same way.
    #[inline(always)]
    fn odd_quotient_f32(self, a: Self::V, b: Self::V) -> Self::V {
        let near = self.div_f32(a, b);
        let rest = self.mul_add_f32(self.xor(near, self.splat32(1 << 31)), b, a);
        let cut = self.sub32(near, self.shr32::<31>(self.xor(rest, near)));
        self.where_number_f32(rest, self.or(cut, self.splat32(1)), near)
    }
    /// Lanes of `yes` where `x` is a number other than 0.
    #[inline(always)]
    fn where_number_f32(self, x: Self::V, yes: Self::V, no: Self::V) -> Self::V {
        let a = self.abs_f32(x);
        let not_zero = self.select32(self.gt32(a, self.splat32(0)), yes, no);
        self.select32(self.gt32(self.splat32(0x7F80_0000), a), not_zero, no)
    }
    /// Neither operand is a NaN.
    fn min_f32(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_f32(self, a: Self::V, b: Self::V) -> Self::V;
    /// `x`, but 0 where it is a NaN.
    fn number_f32(self, x: Self::V) -> Self::V;
    fn trunc_f32(self, a: Self::V) -> Self::V;
    fn add_f64(self, a: Self::V, b: Self::V) -> Self::V;
    /// Neither operand is a NaN.
    fn min_f64(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_f64(self, a: Self::V, b: Self::V) -> Self::V;
    /// `x`, but 0 where it is a NaN.
    fn number_f64(self, x: Self::V) -> Self::V;
    fn trunc_f64(self, a: Self::V) -> Self::V;
    /// To an integer that stays a float.
    fn round_f64(self, a: Self::V) -> Self::V;
    fn f32_to_f64(self, a: Self::V) -> [Self::V; 2];
    fn f64_to_f32(self, a: [Self::V; 2]) -> Self::V;
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
    fn f64_to_odd_f32(self, a: [Self::V; 2]) -> Self::V {
        const LOW: u64 = (1 << 38) - 1;
        let low = self.splat64(LOW);
        let mut odd = a;
        for k in 0..2 {
            let sticky = self.and(self.add64(a[k], low), self.splat64(LOW + 1));
            odd[k] = self.or(self.and_not(low, a[k]), sticky);
        }
        self.f64_to_f32(odd)
    }
    /// To an integer that stays a float, as the control register says.
    fn round_f32(self, x: Self::V) -> Self::V;
    /// The smaller one; `x` where that is a NaN. `limit` is not a NaN.
    #[inline(always)]
    fn min_or_nan_f64(self, limit: Self::V, x: Self::V) -> Self::V {
        let is_nan = self.gt64(self.and(x, self.splat64(u64::MAX >> 1)), self.splat64(0x7FF0 << 48));
        self.select64(is_nan, x, self.min_f64(limit, self.number_f64(x)))
    }
}

/// Lanes of float16 and bfloat16.
pub(crate) trait Halves: Floats {
    fn f16_to_f32(self, a: Self::V) -> [Self::V; 2];
    /// A NaN is made quiet.
    #[inline(always)]
    fn bf16_to_f32(self, a: Self::V) -> [Self::V; 2] {
        let mut wide = self.upper32(a);
        for k in 0..2 {
            let x = wide[k];
            let nan = self.gt32(self.abs_f32(x), self.splat32(0x7F80_0000));
            wide[k] = self.select32(nan, self.or(x, self.splat32(0x40_0000)), x);
        }
        wide
    }
    fn f32_to_f16(self, a: [Self::V; 2]) -> Self::V;
    /// Whether conversions of float16 touch the environment; except [`Halves::f32_to_f16`], which does, because it rounds.
    type F16: Effect;
    /// Rounded to nearest even, if the control register says that or nothing depends on it.
    #[inline(always)]
    fn f32_to_nearest_f16(self, a: [Self::V; 2]) -> Self::V {
        self.f32_to_f16(a)
    }
    /// Two registers of f32 to one of bfloat16, rounded to nearest even. A NaN keeps its payload and is made quiet.
    #[inline(always)]
    fn f32_to_bf16(self, a: [Self::V; 2], _: Extras) -> Self::V {
        self.rounded_bf16(a)
    }
    /// The same by integers: a bias is added, and the lower half dropped.
    #[inline(always)]
    fn rounded_bf16(self, a: [Self::V; 2]) -> Self::V {
        let mut rounded = a;
        for k in 0..2 {
            let (x, inf) = (a[k], self.splat32(0x7F80_0000));
            let nan = self.gt32(self.and(x, self.splat32(!(1 << 31))), inf);
            let odd = self.and(self.shr32::<16>(x), self.splat32(1));
            let near = self.add32(self.add32(x, self.splat32(0x7FFF)), odd);
            rounded[k] = self.select32(nan, self.or(x, self.splat32(0x40_0000)), near);
        }
        self.high32(rounded)
    }
    /// The same where results are not subnormal.
    #[inline(always)]
    fn normal_to_bf16(self, a: [Self::V; 2], extras: Extras) -> Self::V {
        self.f32_to_bf16(a, extras)
    }
    /// Whether [`Halves::f32_to_bf16`] touches the environment.
    type ToBf16: Effect;
    /// Floats of 16 bits as the nearest integers of as many, rounded as the control register says or cut; a NaN becomes 0. None
    /// if there is no instruction for that.
    #[inline(always)]
    fn f16_to_words(self, _: Extras, _: [Self::V; 2], _rounds: bool, _signed: bool) -> Option<[Self::V; 2]> {
        None
    }
    /// Integers of 16 bits as floats, rounded as the control register says. None if there is no instruction for that.
    #[inline(always)]
    fn words_to_f16(self, _: Extras, _: [Self::V; 2], _signed: bool) -> Option<[Self::V; 2]> {
        None
    }
}

/// Integers to floats and back.
pub(crate) trait Converts: Halves {
    fn i32_to_f32(self, a: Self::V) -> Self::V;
    fn u32_to_f32(self, a: Self::V) -> Self::V;
    fn i32_to_f64(self, a: Self::V) -> [Self::V; 2];
    fn u32_to_f64(self, a: Self::V) -> [Self::V; 2];
    /// Two registers of 64-bit integers, rounded once.
    #[inline(always)]
    fn i64_to_f32(self, a: [Self::V; 2]) -> Self::V {
        self.f64_to_f32([self.i64_to_odd_f64(a[0]), self.i64_to_odd_f64(a[1])])
    }
    #[inline(always)]
    fn u64_to_f32(self, a: [Self::V; 2]) -> Self::V {
        self.f64_to_f32([self.u64_to_odd_f64(a[0]), self.u64_to_odd_f64(a[1])])
    }
    /// Rounded to odd: from 2^49 on, 53 bits are left at most, which is exact, and 38 at least.
    #[inline(always)]
    fn i64_to_odd_f64(self, v: Self::V) -> Self::V {
        self.i64_to_f64(self.odd64(v, self.shr64::<50>(self.add64(v, self.splat64(1 << 49)))))
    }
    #[inline(always)]
    fn u64_to_odd_f64(self, v: Self::V) -> Self::V {
        self.u64_to_f64(self.odd64(v, self.shr64::<49>(v)))
    }
    /// Two registers to one of f32, rounded to odd.
    #[inline(always)]
    fn i64_to_odd_f32(self, a: [Self::V; 2]) -> Self::V {
        self.f64_to_odd_f32([self.i64_to_odd_f64(a[0]), self.i64_to_odd_f64(a[1])])
    }
    #[inline(always)]
    fn u64_to_odd_f32(self, a: [Self::V; 2]) -> Self::V {
        self.f64_to_odd_f32([self.u64_to_odd_f64(a[0]), self.u64_to_odd_f64(a[1])])
    }
    fn i64_to_f64(self, a: Self::V) -> Self::V;
    fn u64_to_f64(self, a: Self::V) -> Self::V;
    /// Below −2^31 the minimum; what 2^31 or more and NaN give is unspecified.
    fn f32_to_i32(self, a: Self::V) -> Self::V;
    /// What to pass to these conversions so that they round as the control register says: `x`, or, where instructions carry their rounding,
    /// `x` rounded before.
    #[inline(always)]
    fn asked_f32(self, x: Self::V) -> Self::V {
        x
    }
    #[inline(always)]
    fn asked_f64(self, x: Self::V) -> Self::V {
        x
    }
    /// 0 ≤ x < 2^32; what others give is unspecified.
    fn f32_to_u32(self, a: Self::V) -> Self::V;
    /// Saturates, and gives 0 for NaN. Above `beyond`, the float before 2^31, the result is `most`.
    #[inline(always)]
    fn f32_to_nearest_i32(self, x: Self::V, beyond: Self::V, most: Self::V) -> Self::V {
        let x = self.number_f32(x);
        self.select32(self.gt32(x, beyond), most, self.f32_to_i32(x))
    }
    /// The same for 2^63.
    #[inline(always)]
    fn f64_to_nearest_i64(self, x: Self::V, beyond: Self::V, most: Self::V) -> Self::V {
        let x = self.number_f64(x);
        self.select64(self.gt64(x, beyond), most, self.f64_to_i64(x))
    }
    /// Below −2^63 the minimum; what 2^63 or more give is unspecified.
    fn f64_to_i64(self, a: Self::V) -> Self::V;
    /// 0 ≤ x < 2^64; what others give is unspecified.
    fn f64_to_u64(self, a: Self::V) -> Self::V;
    /// What numbers out of range give is unspecified.
    #[inline(always)]
    fn f64_to_i32(self, a: [Self::V; 2]) -> Self::V {
        self.low64([self.f64_to_i64(a[0]), self.f64_to_i64(a[1])])
    }
    /// Converts `whole`, which is `a` rounded. Also returns bits that are zero, but for signs, if all elements fit, or those that do not became
    /// the minimum.
    #[inline(always)]
    fn f64_to_i32_or_bits(self, _a: [Self::V; 2], whole: [Self::V; 2]) -> [Self::V; 2] {
        let integers = self.f64_to_i32(whole);
        let back = self.i32_to_f64(integers);
        [integers, self.or(self.xor(back[0], whole[0]), self.xor(back[1], whole[1]))]
    }
}

/// Conversions to integers that saturate.
pub(crate) trait Saturates: Converts {
    /// Truncates floats to integers of the lane's width, saturating; NaN becomes 0.
    #[inline(always)]
    fn cut_i32(self, x: Self::V) -> Self::V {
        let (beyond, most) = (self.splat32(0x4EFF_FFFF), self.splat32(i32::MAX as u32));
        self.f32_to_nearest_i32(self.trunc_f32(self.number_f32(x)), beyond, most)
    }
    #[inline(always)]
    fn cut_u32(self, x: Self::V) -> Self::V {
        let x = self.trunc_f32(self.max_f32(self.number_f32(x), self.splat32(0)));
        let beyond = self.gt32(x, self.splat32(0x4F7F_FFFF));
        self.select32(beyond, self.splat32(u32::MAX), self.f32_to_u32(x))
    }
    #[inline(always)]
    fn cut_i64(self, x: Self::V) -> Self::V {
        let (beyond, most) = (self.splat64(0x43DF_FFFF_FFFF_FFFF), self.splat64(i64::MAX as u64));
        self.f64_to_nearest_i64(self.trunc_f64(self.number_f64(x)), beyond, most)
    }
    #[inline(always)]
    fn cut_u64(self, x: Self::V) -> Self::V {
        let x = self.trunc_f64(self.max_f64(self.number_f64(x), self.splat64(0)));
        let beyond = self.gt64(x, self.splat64(0x43EF_FFFF_FFFF_FFFF));
        self.select64(beyond, self.splat64(u64::MAX), self.f64_to_u64(x))
    }
    /// Narrows lanes to half the width, saturating: signed to signed, unsigned to unsigned, and signed to unsigned.
    #[inline(always)]
    fn narrow_s16(self, a: [Self::V; 2]) -> Self::V {
        let (low, high) = (self.splat16(i8::MIN as u16), self.splat16(i8::MAX as u16));
        self.low16([self.min_s16(self.max_s16(a[0], low), high), self.min_s16(self.max_s16(a[1], low), high)])
    }
    #[inline(always)]
    fn narrow_u16(self, a: [Self::V; 2]) -> Self::V {
        let high = self.splat16(u8::MAX.into());
        self.low16([self.min_u16(a[0], high), self.min_u16(a[1], high)])
    }
    #[inline(always)]
    fn narrow_s16_to_u8(self, a: [Self::V; 2]) -> Self::V {
        let low = self.splat16(0);
        self.narrow_u16([self.max_s16(a[0], low), self.max_s16(a[1], low)])
    }
    #[inline(always)]
    fn narrow_s32(self, a: [Self::V; 2]) -> Self::V {
        let (low, high) = (self.splat32(i16::MIN as u32), self.splat32(i16::MAX as u32));
        self.low32([self.min_s32(self.max_s32(a[0], low), high), self.min_s32(self.max_s32(a[1], low), high)])
    }
    #[inline(always)]
    fn narrow_u32(self, a: [Self::V; 2]) -> Self::V {
        let high = self.splat32(u16::MAX.into());
        self.low32([self.min_u32(a[0], high), self.min_u32(a[1], high)])
    }
    #[inline(always)]
    fn narrow_s32_to_u16(self, a: [Self::V; 2]) -> Self::V {
        let low = self.splat32(0);
        self.narrow_u32([self.max_s32(a[0], low), self.max_s32(a[1], low)])
    }
    /// Narrows four registers of signed lanes of 32 bits to one of bytes, saturating.
    #[inline(always)]
    fn narrow_s32_to_s8(self, a: [Self::V; 4]) -> Self::V {
        self.narrow_s16([self.narrow_s32([a[0], a[1]]), self.narrow_s32([a[2], a[3]])])
    }
    #[inline(always)]
    fn narrow_s32_to_u8(self, a: [Self::V; 4]) -> Self::V {
        self.narrow_s16_to_u8([self.narrow_s32([a[0], a[1]]), self.narrow_s32([a[2], a[3]])])
    }
    #[inline(always)]
    fn narrow_s64(self, a: [Self::V; 2]) -> Self::V {
        let (low, high) = (self.splat64(i32::MIN as u64), self.splat64(i32::MAX as u64));
        self.low64([self.min_s64(self.max_s64(a[0], low), high), self.min_s64(self.max_s64(a[1], low), high)])
    }
    #[inline(always)]
    fn narrow_u64(self, a: [Self::V; 2]) -> Self::V {
        let high = self.splat64(u32::MAX.into());
        self.low64([self.min_u64(a[0], high), self.min_u64(a[1], high)])
    }
    #[inline(always)]
    fn narrow_s64_to_u32(self, a: [Self::V; 2]) -> Self::V {
        let low = self.splat64(0);
        self.narrow_u64([self.max_s64(a[0], low), self.max_s64(a[1], low)])
    }
}

/// An instruction set: all operations that codecs use, and how kernels are compiled for it.
pub(crate) trait Simd: Memory + Packs + Tables + Saturates {
    /// The proof that the CPU has the features.
    type Token: Token;
    /// Its name.
    const ISA: Isa;
    /// How floats become floats of 8 bits or fewer: [`ByAddition`], [`ByF16`] or [`ByWords`].
    type Narrowing;
    /// How numbers become integers, saturating: [`BySaturating`], [`ByLimits`] or [`ByPacking`].
    type Integers;
    /// How elements are looked up in tables: [`AtOnce`] or [`ByRows`].
    type Lookups;
    /// The same operations with dynamic rounding: as the control register says, also where instructions could carry their own.
    type Dynamic: Simd;
    /// The instruction set for which loops with constant strides are compiled (the compiler turns them into shuffles): this one, or a
    /// narrower one that it includes.
    type Strided: Simd;
    /// Up to this many elements are cast without a loop, in the kernel itself. 0 where an environment has to be set around it.
    const LOOPLESS: usize = 0;
    /// Does [`Converts::f64_to_i64`] truncate, whatever the control register says, and give the minimum for all that an i64 does not hold,
    /// NaN included? (The test `keeps_its_word` checks that.)
    const CUTS: bool = false;
    /// Must the environment be set around a kernel whose operations depend on it or may raise flags? Not where the instructions carry their
    /// rounding: then floats are rounded to nearest even and integers truncated, whatever the control register says, and no flag is raised.
    /// Only [`Floats::round_f32`] and [`Floats::round_f64`] follow the control register.
    fn needs_environment(depends: bool) -> bool {
        depends
    }
    /// Does the control register leave subnormal numbers as they are, in the environment that a kernel is given?
    #[inline(always)]
    fn keeps_subnormals(self) -> bool {
        true
    }
    /// From the proof.
    fn with(token: Self::Token) -> Self;
    fn strided(self) -> Self::Strided;
    /// From the proof that some instruction set is present; None if that is another one.
    #[inline(always)]
    fn of(present: Present) -> Option<Self> {
        // SAFETY: the CPU has the instruction set of this name: [`Token::is_available`] has said so.
        (present.isa() == Self::ISA).then(|| unsafe { Self::assume() })
    }
    /// Without a proof: for kernels, to which it is promised.
    ///
    /// # Safety
    /// This CPU has the features.
    #[inline(always)]
    unsafe fn assume() -> Self {
        // SAFETY: that is the condition of this function, too.
        Self::with(unsafe { Self::Token::assumed() })
    }
    /// Runs a task with the features enabled: what is inlined into it is compiled with them.
    fn run<T: Task<Self>>(self, task: T) -> T::Output;
    /// A kernel as a function that is compiled with the features.
    fn kernel<W, K: Kernel<Self, W>>() -> RunKernel<K::Job, W>;
}

/// Floats become narrow ones by an addition that shifts and rounds ([`ToNarrow`](super::codec::narrow::ToNarrow)), and those of 16 bits as
/// bytes and nibbles ([`ToNarrowByNibbles`](super::codec::narrow::ToNarrowByNibbles)).
#[cfg_attr(
    all(feature = "scaled", feature = "zarr", not(any(isa = "neon", isa = "simd128"))),
    expect(dead_code, reason = "x86-64 has faster ways")
)]
pub(crate) struct ByAddition;
/// By the float16 whose exponent is the code's, where that can be ([`ToNarrowByF16`](super::codec::narrow::ToNarrowByF16)), and those of 16
/// bits as bytes and nibbles.
pub(crate) struct ByF16;
/// By that float16, too, and floats of 16 bits in their lanes: [`ToNarrowByHalf`](super::codec::narrow::ToNarrowByHalf), and by tables.
pub(crate) struct ByWords;

/// Looking up in a whole table is as fast as in a few elements of it.
pub(crate) struct AtOnce;
/// Tables are searched by rows of 16 bytes, so the fewer rows the better: elements that lie on a [line](super::codec::plane::Line) are
/// computed.
pub(crate) struct ByRows;

/// Numbers become integers by instructions that saturate: `cut_i32` to `cut_u64` of floats, `narrow_s16` to `narrow_s64_to_u32` of
/// integers.
#[cfg_attr(isa = "avx2", allow(dead_code, reason = "a way that x86-64 does not take"))]
pub(crate) struct BySaturating;
/// Floats are clamped to the limits of the target and then converted; NaNs are looked for. Lanes of 32 bits are packed as by [`ByPacking`]
/// if they were floats. Integers are clamped, too.
pub(crate) struct ByLimits;
/// Everything is converted to int32, which gives the minimum where it does not fit; that is looked for. Lanes of 32 and 16 bits are packed
/// by `narrow_s16`, `narrow_s16_to_u8`, `narrow_s32` and `narrow_s32_to_u16`. There are no instructions for longer integers.
pub(crate) struct ByPacking;

/// How NaNs are found in a block.
pub(crate) trait SearchesNans: Simd {
    fn any_nan_f32(self, x: [Self::V; 4]) -> bool;
    fn any_nan_f64(self, x: [Self::V; 8]) -> bool;
    /// The larger one; `low`, which is not a NaN, where `x` is one.
    fn max_or_low_f32(self, x: Self::V, low: Self::V) -> Self::V;
    fn max_or_low_f64(self, x: Self::V, low: Self::V) -> Self::V;
}

/// The operations of [`ByLimits`] and [`ByPacking`].
pub(crate) trait MarksBeyond: SearchesNans {
    /// What is out of range becomes the minimum, and so does a NaN.
    fn f32_to_i32_or_min(self, a: Self::V) -> Self::V;
    fn f64_to_i32_or_min(self, a: [Self::V; 2]) -> Self::V;
}

/// The operations of [`ByF16`] and [`ByWords`].
pub(crate) trait NarrowsByF16: Rows {
    fn add16(self, a: Self::V, b: Self::V) -> Self::V;
    /// Stores, of each 16 lanes of 16 bits, those whose numbers are in the next 16 packed elements of 4 bits, in their order.
    ///
    /// # Safety
    /// As many of those are readable, and of lanes writable.
    unsafe fn pick_words(self, words: [Self::V; 2], src: *const u8, high: bool, dst: *mut u8);
    /// The same of a block, each 16 elements of which have a table of their own, as [`NarrowsByF16::arrange`] makes it.
    ///
    /// # Safety
    /// A block of elements is readable, and of lanes writable.
    unsafe fn pick_from(self, tables: [&[[u8; 16]; 2]; 4], src: *const u8, high: bool, dst: *mut u8);
    /// A register of pieces of 16 bytes, of which there may be more than it has.
    fn pieces_of(self, pieces: [&[u8; 16]; 4]) -> Self::V;
    /// Makes a table for that of 16 words: what they are, by default.
    #[inline(always)]
    fn arrange(self, _words: &mut [[u8; 16]; 2]) {}
    /// Lanes of `yes` where `a` is more than `limit`, unsigned.
    fn select_above16(self, a: Self::V, limit: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    fn select_above8(self, a: Self::V, limit: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// The high byte of each lane of 16 bits, rounded to nearest even by the low one; at most 255.
    fn nearest_high16(self, a: [Self::V; 2]) -> Self::V;
    /// Truncates, whatever the control register says.
    fn f32_to_cut_f16(self, a: [Self::V; 2]) -> Self::V;
}

/// Looks up bytes in rows of 16.
pub(crate) trait Rows: Simd {
    /// The byte at each index below 16, among those of the same piece of 16 bytes of a table; 0 where the top bit of an index is set.
    /// Other indices find some byte of that piece, or 0.
    fn lookup_pieces(self, table: Self::V, index: Self::V) -> Self::V;
    /// a - b, or 0 where that would be negative.
    fn sub_u8(self, a: Self::V, b: Self::V) -> Self::V;
}

/// The operations of [`ToNarrowByNibbles`](super::codec::narrow::ToNarrowByNibbles).
pub(crate) trait NarrowsByNibbles: Rows {
    /// The 16 bytes in each piece of a register.
    fn row(self, bytes: &[u8; 16]) -> Self::V;
    /// Looks up in two rows, with indices below 32. No byte of the second row may be less than one of the first.
    #[inline(always)]
    fn lookup_rows(self, rows: [Self::V; 2], index: Self::V) -> Self::V {
        let second = self.sub8(index, self.splat8(16));
        self.max_u8(self.lookup_pieces(rows[0], index), self.lookup_pieces(rows[1], second))
    }
    /// Narrows signed lanes of 16 bits to unsigned bytes, saturating, in an order that [`NarrowsByNibbles::unzipped8`] undoes.
    #[inline(always)]
    fn zipped_u8(self, a: [Self::V; 2]) -> Self::V {
        self.narrow_s16_to_u8(a)
    }
    /// The same of lanes below 256.
    #[inline(always)]
    fn zipped_low8(self, a: [Self::V; 2]) -> Self::V {
        self.low16(a)
    }
    /// Of lanes that are all ones or 0.
    #[inline(always)]
    fn zipped_masks(self, a: [Self::V; 2]) -> Self::V {
        self.low16(a)
    }
    /// The top bits, above unspecified bits.
    #[inline(always)]
    fn zipped_signs(self, a: [Self::V; 2]) -> Self::V {
        self.signs16(a)
    }
    #[inline(always)]
    fn unzipped8(self, a: Self::V) -> Self::V {
        a
    }
    /// Bytes of `yes` where those of the mask are all ones, of `no` where they are 0.
    fn select8(self, mask: Self::V, yes: Self::V, no: Self::V) -> Self::V;
}

/// The further operations of [`ByWords`].
pub(crate) trait NarrowsByWords: NarrowsByF16 {
    /// a - b, or 0 where that would be negative, in lanes of 16 bits.
    fn sub_u16(self, a: Self::V, b: Self::V) -> Self::V;
    /// Each lane by its own count; 0 from 16 on.
    fn shl16v(self, a: Self::V, counts: Self::V) -> Self::V;
    fn shr16v(self, a: Self::V, counts: Self::V) -> Self::V;
    /// The high byte of each lane of 16 bits, rounded to odd.
    fn odd_high16(self, a: [Self::V; 2]) -> Self::V;
    /// Looks up in two registers of 64 bytes; the top bit of an index is ignored.
    fn lookup_two(self, table: [Self::V; 2], index: Self::V) -> Self::V;
    /// Looks up in one register; the two top bits of an index are ignored.
    fn lookup_one(self, table: Self::V, index: Self::V) -> Self::V;
    /// A register of bytes in memory.
    fn row_of(self, bytes: &[[u8; 16]; 4]) -> Self::V;
    /// Fills each half of the register with one of two words.
    fn halves32(self, a: u32, b: u32) -> Self::V;
    /// Adds lanes of 16 bits where `a` is a bfloat16 other than 0; and unless `finite`, other than Inf and NaN, too.
    fn add_exponents16(self, a: Self::V, b: Self::V, finite: bool) -> Self::V;
}

/// Code to run with the features of an instruction set enabled, by [`Simd::run`].
pub(super) trait Task<I> {
    type Output;

    /// Must be `#[inline(always)]`, or it is compiled without the features. (That is why this is not a closure.)
    fn call(self, isa: I) -> Self::Output;
}

/// Code that casts elements. `with` is said of all of them: how far apart their rows are, or what their scales are. [`Simd::kernel`] makes
/// a function of it.
pub(super) trait Kernel<I, W> {
    /// Its parameters.
    type Job;

    /// `#[inline(always)]`, or it is compiled without the features.
    ///
    /// # Safety
    /// As for the [`RunKernel`] that is made of it.
    unsafe fn run(isa: I, job: &Self::Job, src: *const u8, dst: *mut u8, n: usize, with: &W);
}

/// A [`Kernel`] as a function.
///
/// # Safety
/// The instruction set is available, and the job is one of the kernel's codec. Of every row that `with` speaks of, `n` elements are readable
/// from `src` on and writable from `dst` on, no byte is in both, and what `with` points to is there for all of them.
pub(super) type RunKernel<Job, W> = unsafe fn(job: &Job, src: *const u8, dst: *mut u8, n: usize, with: &W);

/// The proof that the CPU has one feature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feature(());

impl Feature {
    /// # Safety
    /// The CPU has it.
    #[inline(always)]
    pub(super) const unsafe fn assumed() -> Self {
        Self(())
    }
}

/// The features of an instruction set.
pub(crate) trait Token: Copy {
    /// Does this CPU have all of them?
    fn is_available() -> bool;

    /// # Safety
    /// The CPU has all of them.
    unsafe fn assumed() -> Self;
}

/// The token of an instruction set: its features, for detection and for `#[target_feature]` alike.
macro_rules! token {
    ($(#[$doc:meta])* $name:ident by $detected:ident { $($field:ident: $feature:tt),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[allow(dead_code, reason = "the fields are names: src/detect.rs has the same list")]
        pub(crate) struct $name {
            $(pub(crate) $field: Feature,)*
        }

        impl super::simd::Token for $name {
            fn is_available() -> bool {
                $(super::simd::has!($detected, $feature))&&*
            }

            #[inline(always)]
            unsafe fn assumed() -> Self {
                // SAFETY: that is the condition of this function, too.
                Self { $($field: unsafe { Feature::assumed() }),* }
            }
        }

        /// The entries, which are compiled with the features.
        mod entry {
            use super::super::simd::{self, Simd, Task};

            /// [`Simd::run`].
            #[inline(always)]
            #[allow(unused_unsafe, reason = "in WebAssembly every function has the features of the module")]
            pub(in super::super) fn run<I: Simd<Token = super::$name>, T: Task<I>>(isa: I, task: T) -> T::Output {
                // SAFETY: a value of this type is made of the token, which is the proof that the CPU has the features.
                unsafe { featured(isa, task) }
            }

            /// Never inlined: no floating-point operation moves out of the environment that is set around a call.
            #[inline(never)]
            $(#[target_feature(enable = $feature)])*
            fn featured<I: Simd, T: Task<I>>(isa: I, task: T) -> T::Output {
                task.call(isa)
            }

            /// (A method of the kernel, because the compiler then translates it together with the kernel's module, and several modules in
            /// parallel.)
            pub(in super::super) trait Entry<I: Simd, W>: simd::Kernel<I, W> {
                /// # Safety
                /// As for every `RunKernel`.
                unsafe fn enter(job: &Self::Job, src: *const u8, dst: *mut u8, n: usize, with: &W);
            }

            impl<I: Simd, W, K: simd::Kernel<I, W>> Entry<I, W> for K {
                $(#[target_feature(enable = $feature)])*
                unsafe fn enter(job: &K::Job, src: *const u8, dst: *mut u8, n: usize, with: &W) {
                    // SAFETY: the instruction set is available, and the memory is what the kernel asks for: that is
                    // promised to every `RunKernel`.
                    unsafe { K::run(I::assume(), job, src, dst, n, with) }
                }
            }
        }
    };
}
pub(super) use token;

/// Copies a few bytes, without the call of a function: by registers, of which the last two may overlap.
///
/// # Safety
/// `bytes` bytes are readable and writable, and none of them is among both.
#[inline(always)]
pub(super) unsafe fn copy_short<I: Simd>(isa: I, from: *const u8, to: *mut u8, bytes: usize) {
    // (What is longer than 16 bytes and shorter than a register is copied as its first and last 16.)
    const { assert!(I::BYTES <= 32) };
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
                isa.store(to.add(at), isa.load(from.add(at)));
                at += I::BYTES;
            }
            let last = isa.load(from.add(bytes - I::BYTES));
            isa.store(to.add(bytes - I::BYTES), last);
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

/// Orders streamed stores before what other threads are told of them.
pub(super) fn fence<I: Simd>(isa: I) {
    struct Fence;

    impl<I: Simd> Task<I> for Fence {
        type Output = ();

        #[inline(always)]
        fn call(self, isa: I) {
            isa.fence();
        }
    }

    isa.run(Fence);
}

/// Operations on registers, each one expression. All of them are `#[inline(always)]`, without which a kernel would call them
/// through memory.
macro_rules! ops {
    ($($(<$(const $c:ident: $t:ty),*>)? $name:ident($self:ident $(, $arg:ident: $ty:ty)*) -> $ret:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name$(<$(const $c: $t),*>)?($self $(, $arg: $ty)*) -> $ret {
            #[allow(unused_unsafe, reason = "some are made of other operations alone")]
            // SAFETY: `self` is the proof that the CPU has the features, and the intrinsics have no other condition, but those
            // that load: they are given references to as many bytes.
            unsafe { $body }
        }
    )*};
}
pub(super) use ops;

/// The same of operations on memory.
macro_rules! memory_ops {
    ($($(<$(const $c:ident: $t:ty),*>)? $name:ident($self:ident $(, $arg:ident: $ty:ty)*) -> $ret:ty = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name$(<$(const $c: $t),*>)?($self $(, $arg: $ty)*) -> $ret {
            // SAFETY: the pointers are good for what the operation says that it touches; as for the features, see `ops`.
            unsafe { $body }
        }
    )*};
}
pub(super) use memory_ops;

#[cfg(test)]
mod tests {
    use super::super::environment::Environment;
    use super::*;
    use crate::formats::isa::Isa;
    use crate::formats::options::Rounding;

    /// A register of lanes: of a set of narrower registers, the first ones.
    fn register<I: Simd, T: Copy>(isa: I, lanes: &[T]) -> I::V {
        assert!(size_of_val(lanes) >= I::BYTES);
        // SAFETY: so many bytes are there.
        unsafe { isa.load(lanes.as_ptr().cast()) }
    }

    /// The lanes of a register.
    fn lanes<I: Simd, T: Copy + Default>(isa: I, v: I::V) -> Vec<T> {
        let mut lanes = vec![T::default(); I::BYTES / size_of::<T>()];
        // SAFETY: the vector has as many bytes as the register.
        unsafe { isa.store(lanes.as_mut_ptr().cast(), v) };
        lanes
    }

    /// An operation on two registers that makes lanes of half the width.
    fn narrows<I: Simd, W: Copy, N: Copy + Default + PartialEq + core::fmt::Debug>(
        isa: I,
        wide: &[W],
        operation: impl Fn([I::V; 2]) -> I::V,
        expected: impl Fn(W) -> N,
    ) {
        let per = I::BYTES / size_of::<W>();
        for pair in wide.windows(128 / size_of::<W>()) {
            let (a, b) = (&pair[..per], &pair[per..2 * per]);
            let made = operation([register::<I, W>(isa, pair), register::<I, W>(isa, &pair[per..])]);
            let expected: Vec<N> = a.iter().chain(b).map(|&x| expected(x)).collect();
            assert_eq!(lanes::<I, N>(isa, made), expected);
        }
    }

    /// The same of one, of lanes of the same width.
    fn maps<I: Simd, T: Copy, R: Copy + Default + PartialEq + core::fmt::Debug>(
        isa: I,
        all: &[T],
        operation: impl Fn(I::V) -> I::V,
        expected: impl Fn(T) -> R,
    ) {
        for some in all.windows(64 / size_of::<T>()) {
            let expected: Vec<R> = some[..I::BYTES / size_of::<T>()].iter().map(|&x| expected(x)).collect();
            assert_eq!(lanes::<I, R>(isa, operation(register(isa, some))), expected);
        }
    }

    /// Numbers of all magnitudes, and others.
    fn singles() -> Vec<f32> {
        let bits = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, !(1 << bit), (3 << bit) + 1]);
        let mut singles: Vec<f32> = bits.flat_map(|x| [x as i64 as f32, x as f32 / 1e9]).collect();
        singles.extend([
            f32::NAN,
            f32::INFINITY,
            -f32::INFINITY,
            -0.0,
            4_294_967_296.0,
            2_147_483_648.0,
            -1.5,
            1e-40,
        ]);
        singles.extend_from_within(..64);
        singles
    }

    /// What an instruction set does itself, and what it is given by default, does what is said of it.
    fn keeps_its_word<I: Simd>(isa: I) {
        let bits: Vec<u64> = (0..64)
            .flat_map(|bit| {
                [1u64 << bit, (1 << bit) - 1, !(1 << bit), (3 << bit) + 1].map(|x| x.wrapping_mul(bit | 1))
            })
            .collect();
        let bytes: Vec<i8> = bits.iter().map(|&x| (x >> 11) as i8).chain([i8::MIN, i8::MAX, 3, 4]).collect();
        maps(isa, &bytes, |v| isa.where_gt8(v, isa.splat8(3), v), |x| if x > 3 { x } else { 0 });
        maps(isa, &bytes, |v| isa.where_gt8(isa.splat8(3), v, v), |x| if x < 3 { x } else { 0 });
        let shorts: Vec<i16> =
            bits.iter().map(|&x| (x >> 7) as i16).chain([i16::MIN, i16::MAX, -129, 255, 256]).collect();
        for some in shorts.windows(32) {
            let some: Vec<u16> = some[..I::BYTES / 2].iter().map(|&x| x as u16).collect();
            let most = |some: &[u16]| some.iter().map(|&x| u32::from(x)).max().unwrap_or(0);
            assert_eq!(isa.most_u16(register(isa, &some)), most(&some));
        }
        narrows(isa, &shorts, |v| isa.narrow_s16(v), |x| x.clamp(-128, 127) as i8);
        narrows(isa, &shorts, |v| isa.narrow_s16_to_u8(v), |x| x.clamp(0, 255) as u8);
        narrows(isa, &shorts, |v| isa.narrow_u16(v), |x| (x as u16).min(255) as u8);
        let ints: Vec<i32> =
            bits.iter().map(|&x| (x >> 3) as i32).chain([i32::MIN, i32::MAX, 65535, 65536]).collect();
        narrows(isa, &ints, |v| isa.narrow_s32(v), |x| x.clamp(i16::MIN.into(), i16::MAX.into()) as i16);
        narrows(isa, &ints, |v| isa.narrow_s32_to_u16(v), |x| x.clamp(0, 65535) as u16);
        narrows(isa, &ints, |v| isa.narrow_u32(v), |x| (x as u32).min(65535) as u16);
        let longs: Vec<i64> =
            bits.iter().map(|&x| x as i64).chain([i64::MIN, i64::MAX, 1 << 32, (1 << 32) - 1]).collect();
        narrows(isa, &longs, |v| isa.narrow_s64(v), |x| x.clamp(i32::MIN.into(), i32::MAX.into()) as i32);
        narrows(isa, &longs, |v| isa.narrow_s64_to_u32(v), |x| x.clamp(0, u32::MAX.into()) as u32);
        narrows(isa, &longs, |v| isa.narrow_u64(v), |x| (x as u64).min(u32::MAX.into()) as u32);
        narrows(isa, &longs, |v| isa.i64_to_f32(v), |x| (x as f32).to_bits());
        narrows(isa, &longs, |v| isa.u64_to_f32(v), |x| (x as u64 as f32).to_bits());

        let singles = singles();
        maps(isa, &singles, |v| isa.cut_i32(v), |x| x as i32);
        maps(isa, &singles, |v| isa.cut_u32(v), |x| x as u32);
        let whole: Vec<f64> = singles.iter().map(|x| x.trunc().into()).collect();
        for some in whole.windows(I::BYTES / 4) {
            let (low, high) = some.split_at(some.len() / 2);
            let x = [register(isa, low), register(isa, high)];
            let [integers, bits] = isa.f64_to_i32_or_bits(x, x);
            let (integers, bits) = (lanes::<I, i32>(isa, integers), lanes::<I, u64>(isa, bits));
            let is_said = bits.iter().any(|bits| bits << 1 != 0) || integers.contains(&i32::MIN);
            let fit = some.iter().zip(&integers).all(|(&x, &integer)| x == f64::from(integer));
            assert!(is_said || fit, "{some:?}: {integers:?}");
        }
        let numbers: Vec<f32> = singles.iter().copied().filter(|x| !x.is_nan()).collect();
        maps(isa, &numbers, |v| isa.div_f32(v, isa.splat32(3f32.to_bits())), |x| (x / 3.0).to_bits());
        let doubles: Vec<f64> =
            singles.iter().map(|&x| f64::from(x) * 3.0).chain([1.8446744073709552e19; 8]).collect();
        maps(isa, &doubles, |v| isa.cut_i64(v), |x| x as i64);
        maps(isa, &doubles, |v| isa.cut_u64(v), |x| x as u64);
        if I::CUTS {
            let fits = |x: f64| (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&x);
            let cut = |x: f64| if fits(x) { x as i64 } else { i64::MIN };
            maps(isa, &doubles, |v| isa.f64_to_i64(v), cut);
        }
        let limit = isa.splat64(1000f64.to_bits());
        let smaller = |x: f64| if x > 1000.0 { 1000f64.to_bits() } else { x.to_bits() };
        maps(isa, &doubles, |v| isa.min_or_nan_f64(limit, v), smaller);
    }

    /// What is [`Quiet`] is the same in every environment.
    fn is_quiet<I: Simd>(isa: I) {
        /// Of codes of 16 bits and of 32, all that is said to be quiet.
        struct Quietly([u32; 32]);

        impl<I: Simd> Task<I> for Quietly {
            type Output = Vec<u32>;

            #[inline(always)]
            fn call(self, isa: I) -> Vec<u32> {
                let x = [0, 1].map(|k| register(isa, &self.0[k * I::BYTES / 4..]));
                let mut made = Vec::new();
                if !<I::F16 as Effect>::FLOATS {
                    made.extend(isa.f16_to_f32(x[0]).map(|v| lanes::<I, u32>(isa, v)));
                    made.push(lanes(isa, isa.f32_to_nearest_f16(x)));
                }
                if !<I::ToBf16 as Effect>::FLOATS {
                    made.push(lanes(isa, isa.f32_to_bf16(x, Extras::NONE)));
                    made.push(lanes(isa, isa.f32_to_bf16(x, Extras::this())));
                }
                made.concat()
            }
        }

        let singles: Vec<u32> = singles().iter().map(|x| x.to_bits()).collect();
        let halves: Vec<u32> =
            (0..=u16::MAX).step_by(7).map(|x| u32::from(x) << 16 | u32::from(!x)).collect();
        for codes in singles.chunks_exact(32).chain(halves.chunks_exact(32)) {
            let made = |environment: fn(Rounding) -> Environment, rounding| {
                let _environment = environment(rounding);
                isa.run(Quietly(codes.try_into().unwrap()))
            };
            let calm = made(Environment::new, Rounding::NearestEven);
            for rounding in [Rounding::TowardZero, Rounding::Up, Rounding::Down] {
                assert_eq!(made(Environment::flushing, rounding), calm, "{rounding:?}");
            }
        }
    }

    /// A CPU that has the instruction takes the other way for hardly anything, and one without it never takes this.
    fn rounds_to_bf16<I: Simd>(isa: I) {
        const LOW: [u32; 8] = [0, 1, 0x5555, 0x7FFF, 0x8000, 0x8001, 0xAAAA, 0xFFFF];
        let codes: Vec<u32> = (0..1 << 16).flat_map(|high| LOW.map(|low| high << 16 | low)).collect();
        for some in codes.chunks_exact(32) {
            let made = |extras| {
                let x = [0, 1].map(|k| register(isa, &some[k * I::BYTES / 4..]));
                lanes::<I, u16>(isa, isa.f32_to_bf16(x, extras))
            };
            assert_eq!(made(Extras::this()), made(Extras::NONE), "{some:x?}");
        }
    }

    /// So does what the ways of x86-64 take.
    #[cfg(isa = "avx2")]
    fn searches_nans<I: SearchesNans>(isa: I) {
        let singles = singles();
        for four in singles.windows(64) {
            let registers = [0, 1, 2, 3].map(|k| register(isa, &four[k * I::BYTES / 4..]));
            assert_eq!(isa.any_nan_f32(registers), four[..I::BYTES].iter().any(|x| x.is_nan()));
        }
        let doubles: Vec<f64> = singles.iter().map(|&x| f64::from(x) * 3.0).collect();
        for eight in doubles.windows(64) {
            let registers = [0, 1, 2, 3, 4, 5, 6, 7].map(|k| register(isa, &eight[k * I::BYTES / 8..]));
            assert_eq!(isa.any_nan_f64(registers), eight[..I::BYTES].iter().any(|x| x.is_nan()));
        }
        let low = isa.splat32((-3f32).to_bits());
        maps(isa, &singles, |v| isa.max_or_low_f32(v, low), |x| if x > -3.0 { x } else { -3.0 }.to_bits());
        let low = isa.splat64((-3f64).to_bits());
        maps(isa, &doubles, |v| isa.max_or_low_f64(v, low), |x| if x > -3.0 { x } else { -3.0 }.to_bits());
    }

    #[cfg(isa = "avx2")]
    fn marks_beyond<I: MarksBeyond>(isa: I) {
        let whole: Vec<f32> = singles().iter().map(|x| x.trunc()).collect();
        let fits = |x: f64| (-2_147_483_648.0..2_147_483_648.0).contains(&x);
        let expected = |x: f64| if fits(x) { x as i32 } else { i32::MIN };
        maps(isa, &whole, |v| isa.f32_to_i32_or_min(v), |x| expected(x.into()));
        let whole: Vec<f64> = whole.iter().map(|&x| f64::from(x)).collect();
        narrows(isa, &whole, |v| isa.f64_to_i32_or_min(v), expected);
    }

    /// Those whose definition has cases that no cast may reach, or only on some instruction set. The others are what tests of casts see.
    #[test]
    fn operations_have_their_meanings() {
        fn check<I: Simd>(isa: Isa, checks: &[fn(I)]) {
            if isa.is_available() {
                // SAFETY: it is available.
                checks.iter().for_each(|check| check(unsafe { I::assume() }));
            } else {
                println!("NOT RUN: {isa}");
            }
        }
        #[cfg(isa = "avx512")]
        check::<super::super::avx512::Zmm>(
            Isa::Avx512,
            &[keeps_its_word, is_quiet, rounds_to_bf16, searches_nans],
        );
        #[cfg(isa = "avx2")]
        check::<super::super::avx2::Avx2>(
            Isa::Avx2,
            &[keeps_its_word, is_quiet, rounds_to_bf16, searches_nans, marks_beyond],
        );
        #[cfg(isa = "neon")]
        check::<super::super::neon::Neon>(Isa::Neon, &[keeps_its_word, is_quiet, rounds_to_bf16]);
        #[cfg(isa = "simd128")]
        check::<super::super::simd128::Simd128>(Isa::Simd128, &[keeps_its_word, is_quiet, rounds_to_bf16]);
    }
}
