//! The operations on registers that an instruction set offers to the codecs, each with its contract.
//!
//! A block has as many elements as a register has bytes, so a block of elements of `w` bytes is `w` registers, in the order of
//! memory. Every operation keeps that order. Lanes are as wide as the name of the operation says.
//!
//! Operations on floats round as the control register says: this is how the rounding modes reach them. [`super::environment`]
//! sets it before a kernel runs. Where instructions carry their rounding, the register need not be set.

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

/// Whether this CPU has a feature. Without the standard library, which can detect features: whether every CPU of the target has
/// it. (On WebAssembly there is nothing to detect.)
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

/// Instructions that only some of the CPUs with an instruction set have. They are kept in a kernel's setup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extras {
    /// An instruction that rounds to bfloat16, as [`Halves::f32_to_bf16`].
    pub(crate) bf16: Option<Bf16>,
    /// Instructions on lanes of float16, for [`Halves::f16_to_words`] and [`Halves::words_to_f16`].
    #[cfg_attr(not(isa = "neon"), expect(dead_code, reason = "no other instruction set here has them"))]
    pub(crate) fp16: Option<Fp16>,
}

/// The proof that this CPU has the instructions that convert to bfloat16: AVX512_BF16 or FEAT_BF16.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bf16(());

/// The proof that this CPU has FEAT_FP16.
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
    /// Whether the result may depend on the control register, or a flag may be raised.
    const FLOATS: bool;
}

/// Operations that do not touch the environment.
pub(crate) struct Quiet;

impl Effect for Quiet {
    const FLOATS: bool = false;
}

/// Operations on floats, which touch the environment.
pub(crate) struct Floating;

impl Effect for Floating {
    const FLOATS: bool = true;
}

/// A count of the true lanes of masks: the sum of the lanes of a register, plus a number. An instruction set uses one of the two.
#[derive(Clone, Copy)]
pub(crate) struct Tally<V> {
    pub(crate) lanes: V,
    pub(crate) others: usize,
}

/// A register, and operations on its bits. A value of a type with this trait is the proof that the CPU has the features of an
/// instruction set, so operations are safe, except for those that touch memory.
///
/// # Safety
/// For operations that touch memory: the pointers are valid for as many registers, or bytes, as the operation says. Any alignment will do.
pub(crate) trait Registers: Copy + Send + Sync + 'static {
    /// A register, of lanes of any width.
    type V: Copy;
    /// Bytes in a register, elements in a block.
    const BYTES: usize;
    unsafe fn load(self, p: *const u8) -> Self::V;
    unsafe fn store(self, p: *mut u8, v: Self::V);
    /// Copies `bytes` bytes to a buffer of `registers` registers, which has room for them; the rest of the buffer becomes 0.
    unsafe fn copy_in(self, p: *const u8, bytes: usize, buffer: *mut u8, registers: usize);
    /// Copies the first `bytes` bytes of a buffer of whole registers to `p`, and neither reads nor writes any others.
    unsafe fn copy_out(self, buffer: *const u8, bytes: usize, p: *mut u8);
    /// Loads the first `bytes` bytes of a register and sets the others to 0; loads a whole register if `bytes` is that many or more. `MOST`
    /// is an upper bound of `bytes`, and limits the width of accesses: bytes just stored by accesses of the same width are loaded faster.
    #[inline(always)]
    unsafe fn load_few<const MOST: usize>(self, p: *const u8, bytes: usize) -> Self::V {
        let mut room = MaybeUninit::<Self::V>::uninit();
        let room = room.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's promise; `room` has the size of one register.
        unsafe {
            if bytes >= Self::BYTES {
                return self.load(p);
            }
            self.copy_in(p, bytes, room, 1);
            self.load(room)
        }
    }
    /// Stores the first `bytes` bytes of a register, or all of it: the inverse of [`Registers::load_few`].
    #[inline(always)]
    unsafe fn store_few<const MOST: usize>(self, p: *mut u8, v: Self::V, bytes: usize) {
        let mut room = MaybeUninit::<Self::V>::uninit();
        let room = room.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's promise; `room` has the size of one register.
        unsafe {
            self.store(room, v);
            self.copy_out(room, bytes.min(Self::BYTES), p);
        }
    }
    /// Loads a register from the beginning of a slice and advances the slice. None if it is shorter.
    #[inline(always)]
    fn load_next(self, from: &mut &[u8]) -> Option<Self::V> {
        let (first, rest) = from.split_at_checked(Self::BYTES)?;
        *from = rest;
        // SAFETY: `first` borrows as many bytes as a register has.
        Some(unsafe { self.load(first.as_ptr()) })
    }
    /// Stores a register to the beginning of a destination and advances the destination. Does nothing if it is shorter.
    #[inline(always)]
    fn store_next(self, to: &mut Destination<'_, u8>, v: Self::V) {
        if let Some(first) = to.take_all(Self::BYTES) {
            // SAFETY: `first` borrows as many bytes as a register has, exclusively.
            unsafe { self.store(first.as_mut_ptr(), v) };
        }
    }
    /// Fills a buffer of whole registers with some bytes, followed by zeros.
    #[inline(always)]
    fn fill(self, room: &mut [u8], with: &[u8]) {
        let registers = room.len() / Self::BYTES;
        // SAFETY: the bytes are borrowed, and no more are copied than the registers have; the room is borrowed exclusively.
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
    /// The bits of `from` where `mask` is 1, and those of `v` elsewhere. `v` must be 0 where `mask` is 1.
    #[inline(always)]
    fn put(self, mask: Self::V, from: Self::V, v: Self::V) -> Self::V {
        self.or(v, self.and(from, mask))
    }
}

/// How bytes move through the caches. For safety, see [`Registers`].
pub(crate) trait Memory: Registers {
    /// The number of bytes of a stored row of a view from which on the row is streamed, if the whole view is. For shorter rows, the partial
    /// lines at both ends cost more than streaming saves. (Measured with AVX2 alone; elsewhere, a long row until that is measured.)
    const ROW_STREAMS_FROM: usize = 16 << 10;
    /// Copies `bytes` bytes, and reads and writes no others. Source and destination do not overlap.
    unsafe fn copy(self, from: *const u8, to: *mut u8, bytes: usize);
    /// Prefetches a line to L1. The address need not be valid.
    fn prefetch(self, p: *const u8);
    /// Prefetches a line to L2: far ahead, or for lines that are a power of two apart, of which L1 can hold only few.
    fn prefetch_far(self, p: *const u8);
    /// Stores past the caches. `p` is aligned to the register.
    unsafe fn stream(self, p: *mut u8, v: Self::V);
    /// Orders streamed stores before later ones.
    fn fence(self);
    /// Loads as many pieces of 16 bytes as fill a register, each `apart` bytes after the one before.
    unsafe fn load_pieces(self, p: *const u8, apart: isize) -> Self::V;
}

/// Packed elements of 1, 2, 4 and 6 bits. For safety, see [`Registers`].
pub(crate) trait Packs: Registers {
    /// Unpacks a block of packed elements of 1, 2, 4 or 6 bits to one per byte. The first of a byte is at its low end, or with
    /// `high`, at its high end. The bits above an unpacked element are unspecified. Reads no bytes but those of the elements.
    unsafe fn unpack<const BITS: usize>(self, p: *const u8, high: bool) -> Self::V;
    /// Packs a block: the inverse of [`Packs::unpack`]. The bits above elements must be 0. Writes no bytes but those of the elements.
    unsafe fn pack<const BITS: usize>(self, p: *mut u8, v: Self::V, high: bool);
    /// As [`Packs::unpack`], but for one to [`FEW`](super::sizes::FEW) elements. The other bytes are 0, except for what unused
    /// bits of the last byte become.
    #[inline(always)]
    unsafe fn unpack_few<const BITS: usize>(self, p: *const u8, n: usize, high: bool) -> Self::V {
        let mut room = MaybeUninit::<Self::V>::uninit();
        let room = room.as_mut_ptr().cast::<u8>();
        // SAFETY: the elements are so many bytes, fewer than a register has. `room` is a register, and thus has room for a packed block.
        unsafe {
            self.copy_in(p, bytes(n, BITS), room, 1);
            self.unpack::<BITS>(room, high)
        }
    }
    /// As [`Packs::pack`], but for one to [`FEW`](super::sizes::FEW) elements. Unused bits of the last byte become 0.
    #[inline(always)]
    unsafe fn pack_few<const BITS: usize>(self, p: *mut u8, v: Self::V, n: usize, high: bool) {
        let mut room = MaybeUninit::<Self::V>::uninit();
        let room = room.as_mut_ptr().cast::<u8>();
        let made = bytes(n, BITS);
        let unused = 8 * made - n * BITS;
        // SAFETY: as in `unpack_few`; the last byte is one of those that were stored.
        unsafe {
            self.pack::<BITS>(room, v, high);
            *room.add(made - 1) &= if high { 0xFFu8 << unused } else { 0xFF >> unused };
            self.copy_packed(BITS, room, made, p);
        }
    }
    /// Copies the first `bytes` bytes of what `pack` has stored for elements of `bits` bits, and neither reads nor writes more.
    /// Its loads are as wide as those stores, because a wider load would wait until all of them are in the cache.
    unsafe fn copy_packed(self, bits: usize, from: *const u8, bytes: usize, p: *mut u8);
}

/// Lanes of 8 bits.
pub(crate) trait Bytes: Registers {
    fn sub8(self, a: Self::V, b: Self::V) -> Self::V;
    /// `v`, but 0 in the bytes in which `where_` is 0.
    fn zero_where_zero8(self, where_: Self::V, v: Self::V) -> Self::V;
    /// `v`, but 0 in the bytes in which `a` is not greater than `b`, signed.
    fn where_gt8(self, a: Self::V, b: Self::V, v: Self::V) -> Self::V;
    fn min_s8(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_s8(self, a: Self::V, b: Self::V) -> Self::V;
    fn min_u8(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_u8(self, a: Self::V, b: Self::V) -> Self::V;
    /// The top bit of each byte; that of the first byte is the lowest bit.
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
    /// All ones in the lanes in which `a` equals `b`, and zeros in the others.
    fn eq16(self, a: Self::V, b: Self::V) -> Self::V;
    /// All ones in the lanes in which `a` is greater than `b`, signed, and zeros in the others.
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
    /// Shifts all lanes to the right by the same count, which is below 32.
    fn shr32v(self, a: Self::V, counts: Self::V) -> Self::V;
    fn min_s32(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_s32(self, a: Self::V, b: Self::V) -> Self::V;
    fn min_u32(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_u32(self, a: Self::V, b: Self::V) -> Self::V;
    fn eq32(self, a: Self::V, b: Self::V) -> Self::M32;
    /// Whether `a` is greater than `b`, signed.
    fn gt32(self, a: Self::V, b: Self::V) -> Self::M32;
    /// Lanes of `yes` where the mask is true, and of `no` elsewhere.
    fn select32(self, mask: Self::M32, yes: Self::V, no: Self::V) -> Self::V;
    /// How many lanes are true.
    fn count32(self, mask: Self::M32) -> usize;
    /// Whether all lanes of all registers have some of these bits, which are not negative.
    #[inline(always)]
    fn all_have32(self, x: [Self::V; 4], bits: u32) -> bool {
        let bits = self.splat32(bits);
        let low = self.min_u32(self.and(x[0], bits), self.and(x[1], bits));
        let high = self.min_u32(self.and(x[2], bits), self.and(x[3], bits));
        let least = self.min_u32(low, high);
        self.count32(self.gt32(self.splat32(1), least)) == 0
    }
    /// Adds the number of true lanes to a tally: lane by lane; or, where masks are bits, to its number, which is faster.
    #[inline(always)]
    fn tally32(self, mask: Self::M32, tally: Tally<Self::V>) -> Tally<Self::V> {
        let trues = self.select32(mask, self.splat32(u32::MAX), self.splat32(0));
        Tally { lanes: self.sub32(tally.lanes, trues), ..tally }
    }
}

/// Lanes of 64 bits, and operations on lanes of any width.
pub(crate) trait Longs: Ints {
    /// The largest lane of 32 bits, and of 16 bits, unsigned.
    fn most_u32(self, a: Self::V) -> u32;
    fn most_u16(self, a: Self::V) -> u32;
    /// One truth value for each lane of 64 bits.
    type M64: Copy;
    fn add64(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub64(self, a: Self::V, b: Self::V) -> Self::V;
    fn shr64<const N: u32>(self, a: Self::V) -> Self::V;
    /// Shifts each lane to the left by its own count; the result is 0 from 64 on. A count of 2^32 or more is allowed only where
    /// the result does not matter.
    fn shl64v(self, a: Self::V, counts: Self::V) -> Self::V;
    /// Replaces the low 11 bits by one sticky bit just above them, unless `above` is 0. (In two's complement, this is right for
    /// negative numbers, too.)
    #[inline(always)]
    fn odd64(self, v: Self::V, above: Self::V) -> Self::V {
        // The sum carries into the bit above the low ones if any of these is set.
        let low = self.splat64(0x7FF);
        let odd = self.and_not(low, self.or(v, self.add64(self.and(v, low), low)));
        self.select64(self.eq64(above, self.splat64(0)), v, odd)
    }
    /// All ones in the lanes that are negative, and zeros in the others.
    fn sign64(self, a: Self::V) -> Self::V;
    fn min_s64(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_s64(self, a: Self::V, b: Self::V) -> Self::V;
    fn min_u64(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_u64(self, a: Self::V, b: Self::V) -> Self::V;
    fn eq64(self, a: Self::V, b: Self::V) -> Self::M64;
    /// Whether `a` is greater than `b`, signed.
    fn gt64(self, a: Self::V, b: Self::V) -> Self::M64;
    fn select64(self, mask: Self::M64, yes: Self::V, no: Self::V) -> Self::V;
    fn count64(self, mask: Self::M64) -> usize;
    /// As [`Ints::tally32`], for lanes of 64 bits.
    #[inline(always)]
    fn tally64(self, mask: Self::M64, tally: Tally<Self::V>) -> Tally<Self::V> {
        let trues = self.select64(mask, self.splat64(u64::MAX), self.splat64(0));
        Tally { lanes: self.sub64(tally.lanes, trues), ..tally }
    }
    /// The bits that [`Longs::any16`], [`Longs::any32`] and [`Longs::any64`] may set in a lane, for every width: the lowest of
    /// each byte, if they set a lane to 1; or all bits, if they leave the mask of a comparison.
    const TRUE: u32 = 0x0101_0101;
    /// Whether each lane of `a` has any of `bits`: 0 if not, else as [`Longs::TRUE`] says.
    #[inline(always)]
    fn any16(self, a: Self::V, bits: Self::V) -> Self::V {
        self.min_u16(self.and(a, bits), self.splat16(1))
    }
    #[inline(always)]
    fn any32(self, a: Self::V, bits: Self::V) -> Self::V {
        self.min_u32(self.and(a, bits), self.splat32(1))
    }
    /// As [`Longs::any32`], for lanes of 64 bits; the result is in their lower halves.
    #[inline(always)]
    fn any64(self, a: Self::V, bits: Self::V) -> Self::V {
        let v = self.and(a, bits);
        self.min_u32(self.or(v, self.shr64::<32>(v)), self.splat32(1))
    }
}

/// Converts lanes to another width, or reorders them.
pub(crate) trait Widths: Longs {
    /// The lower and the upper half of the lanes, widened by zeros (`zext`) or by the sign (`sext`).
    fn zext8(self, a: Self::V) -> [Self::V; 2];
    fn sext8(self, a: Self::V) -> [Self::V; 2];
    fn zext16(self, a: Self::V) -> [Self::V; 2];
    fn sext16(self, a: Self::V) -> [Self::V; 2];
    fn zext32(self, a: Self::V) -> [Self::V; 2];
    fn sext32(self, a: Self::V) -> [Self::V; 2];
    /// Widens lanes of 16 bits to 32, as their high halves above zeros.
    #[inline(always)]
    fn upper32(self, a: Self::V) -> [Self::V; 2] {
        let wide = self.zext16(a);
        [self.shl32::<16>(wide[0]), self.shl32::<16>(wide[1])]
    }
    /// The low half of each lane of 16, 32 or 64 bits of two registers.
    fn low16(self, a: [Self::V; 2]) -> Self::V;
    fn low32(self, a: [Self::V; 2]) -> Self::V;
    fn low64(self, a: [Self::V; 2]) -> Self::V;
    /// The high half of each lane of 16 or 32 bits of two registers.
    fn high16(self, a: [Self::V; 2]) -> Self::V;
    fn high32(self, a: [Self::V; 2]) -> Self::V;
    /// The lowest byte of each lane of 32 bits.
    #[inline(always)]
    fn lowest32(self, a: [Self::V; 4]) -> Self::V {
        self.low16([self.low32([a[0], a[1]]), self.low32([a[2], a[3]])])
    }
    /// A byte for each lane of 16 or 32 bits, with the top bit of the lane; its other bits are unspecified.
    #[inline(always)]
    fn signs16(self, a: [Self::V; 2]) -> Self::V {
        self.high16(a)
    }
    #[inline(always)]
    fn signs32(self, a: [Self::V; 4]) -> Self::V {
        self.high16([self.high32([a[0], a[1]]), self.high32([a[2], a[3]])])
    }
    /// A bit for each lane of 16, 32 or 64 bits, which must be all ones or zeros; that of the first lane is the lowest.
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
    /// A mask of the lanes of 8, 16 or 32 bits that equal none of the values `of`, each of which is splat to a register. The
    /// first lane is the lowest bit. Where a block has fewer than 64 lanes, the bits above are unspecified.
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
    /// The lanes of 64 bits with even indices: those of the first register, then those of the second.
    fn even64(self, a: [Self::V; 2]) -> Self::V;
    /// Interleaves the lanes of 64 bits of two whole registers.
    fn zip64(self, a: Self::V, b: Self::V) -> [Self::V; 2];
    /// Interleaves the lanes of `WIDTH` bytes of two registers within each piece of 16 bytes, as PUNPCKL and PUNPCKH do: first
    /// those of the lower halves of all pieces, then those of the upper halves.
    fn zip_pieces<const WIDTH: usize>(self, a: Self::V, b: Self::V) -> [Self::V; 2];
    /// Brings bytes to the order that [zips of pieces](Widths::zip_pieces) undo: if those widen each byte to `WIDTH` bytes, the
    /// results are in the order of memory. Zips stay within pieces of 16 bytes, so each piece gets 16 / `WIDTH` consecutive
    /// bytes for each of the `WIDTH` registers that are made.
    fn before_zips<const WIDTH: usize>(self, a: Self::V) -> Self::V;
    /// Reverses the bytes of each lane.
    fn swap16(self, a: Self::V) -> Self::V;
    fn swap32(self, a: Self::V) -> Self::V;
    fn swap64(self, a: Self::V) -> Self::V;
}

/// Looks up bytes and elements of 16 bits in tables.
pub(crate) trait Tables: Widths {
    /// What a kernel holds of a [`Plane`]: registers, or, where those are too few, a pointer.
    type Plane: Copy;
    fn plane(self, plane: &'static Plane) -> Self::Plane;
    /// Looks up the byte at each index.
    ///
    /// `fold` says how the [`halves`](Plane::halves) of the plane are combined, on instruction sets that look up in these.
    fn lookup256(self, plane: Self::Plane, fold: Fold, index: Self::V) -> Self::V;
    /// As [`Tables::lookup256`], among the first 128 bytes; the top bit of an index is ignored.
    #[inline(always)]
    fn lookup128(self, plane: Self::Plane, index: Self::V) -> Self::V {
        self.lookup256(plane, Fold::None, self.and(index, self.splat8(0x7F)))
    }
    /// As [`Tables::lookup256`], among the first 64 bytes; the top bits of an index are ignored.
    fn lookup64(self, plane: Self::Plane, index: Self::V) -> Self::V;
    /// As [`Tables::lookup256`], among the first 16 bytes, which the next 48 must repeat; the top bits of an index are ignored.
    fn lookup16(self, plane: Self::Plane, index: Self::V) -> Self::V;
    /// Looks up elements of 16 bits in the two planes of a table whose fold is [`Fold::Negated`]. The results are in the order
    /// that zips of pieces leave.
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
    /// Computes the elements of such a table at each index. The results are in the order that zips of pieces leave.
    fn on_line(self, line: Self::Line, index: Self::V) -> [Self::V; 2];
}

/// Lanes of float32 and float64. Operations that round do so as the control register says, unless the instruction set [carries
/// its rounding](Simd::needs_environment).
pub(crate) trait Floats: Widths {
    /// The magnitude of `x`: `x` without its sign.
    #[inline(always)]
    fn abs_f32(self, x: Self::V) -> Self::V {
        self.and_not(self.splat32(1 << 31), x)
    }
    /// The smaller one of the two; `x` where that is a NaN. `limit` is not a NaN.
    fn min_or_nan_f32(self, limit: Self::V, x: Self::V) -> Self::V;
    fn add_f32(self, a: Self::V, b: Self::V) -> Self::V;
    /// As [`Floats::add_f32`], where neither an operand nor the sum is a NaN.
    #[inline(always)]
    fn add_numbers_f32(self, a: Self::V, b: Self::V) -> Self::V {
        self.add_f32(a, b)
    }
    fn mul_f32(self, a: Self::V, b: Self::V) -> Self::V;
    fn div_f32(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn mul_add_f32(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a * b`, rounded to odd, where that is normal, Inf, NaN, or exact.
    #[inline(always)]
    fn odd_product_f32(self, a: Self::V, b: Self::V) -> Self::V {
        let near = self.mul_f32(a, b);
        let rest = self.mul_add_f32(a, b, self.xor(near, self.splat32(1 << 31)));
        let cut = self.sub32(near, self.shr32::<31>(self.xor(rest, near)));
        self.where_number_f32(rest, self.or(cut, self.splat32(1)), near)
    }
    /// `a / b`, rounded to odd, in the same way; `b` is positive.
    #[inline(always)]
    fn odd_quotient_f32(self, a: Self::V, b: Self::V) -> Self::V {
        let near = self.div_f32(a, b);
        let rest = self.mul_add_f32(self.xor(near, self.splat32(1 << 31)), b, a);
        let cut = self.sub32(near, self.shr32::<31>(self.xor(rest, near)));
        self.where_number_f32(rest, self.or(cut, self.splat32(1)), near)
    }
    /// Lanes of `yes` where `x` is a number other than 0, and of `no` elsewhere.
    #[inline(always)]
    fn where_number_f32(self, x: Self::V, yes: Self::V, no: Self::V) -> Self::V {
        let a = self.abs_f32(x);
        let not_zero = self.select32(self.gt32(a, self.splat32(0)), yes, no);
        self.select32(self.gt32(self.splat32(0x7F80_0000), a), not_zero, no)
    }
    /// The minimum, where neither operand is a NaN.
    fn min_f32(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_f32(self, a: Self::V, b: Self::V) -> Self::V;
    /// `x`, but 0 where it is a NaN.
    fn number_f32(self, x: Self::V) -> Self::V;
    fn trunc_f32(self, a: Self::V) -> Self::V;
    fn add_f64(self, a: Self::V, b: Self::V) -> Self::V;
    /// The minimum, where neither operand is a NaN.
    fn min_f64(self, a: Self::V, b: Self::V) -> Self::V;
    fn max_f64(self, a: Self::V, b: Self::V) -> Self::V;
    /// `x`, but 0 where it is a NaN.
    fn number_f64(self, x: Self::V) -> Self::V;
    fn trunc_f64(self, a: Self::V) -> Self::V;
    /// Rounds to an integer that stays a float.
    fn round_f64(self, a: Self::V) -> Self::V;
    fn f32_to_f64(self, a: Self::V) -> [Self::V; 2];
    fn f64_to_f32(self, a: [Self::V; 2]) -> Self::V;
    /// Converts two registers of f64 to one of f32, rounded to odd: to at least 15 significant bits, and to no more than are
    /// exact from 2^-135 on. What lies above or below the range of f32 becomes an f32 that a narrower float of 16 bits or fewer
    /// rounds as it would round the f64. A NaN keeps the top 10 bits of its payload.
    ///
    /// This default rounds to 15 bits.
    /// * These are at least two more than float16 and bfloat16 have, in every binade. Subnormals of bfloat16 go down to 2^-133; there,
    ///   f32 has the ulp 2^-149, so 15 bits are exact from 2^-135 on, below which nothing but "not zero, less than half" matters.
    /// * Above and below the range of f32, the conversion rounds as the register says: to Inf or to the largest number, to 0 or
    ///   to the smallest, as the encoder will.
    /// * NaN: the bits that are cut off count as sticky, so it stays a NaN; the 13 top payload bits stay.
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
    /// Rounds to an integer that stays a float, as the control register says.
    fn round_f32(self, x: Self::V) -> Self::V;
    /// The smaller one of the two; `x` where that is a NaN. `limit` is not a NaN.
    #[inline(always)]
    fn min_or_nan_f64(self, limit: Self::V, x: Self::V) -> Self::V {
        let is_nan = self.gt64(self.and(x, self.splat64(u64::MAX >> 1)), self.splat64(0x7FF0 << 48));
        self.select64(is_nan, x, self.min_f64(limit, self.number_f64(x)))
    }
}

/// Lanes of float16 and bfloat16.
pub(crate) trait Halves: Floats {
    fn f16_to_f32(self, a: Self::V) -> [Self::V; 2];
    /// Widens bfloat16. A NaN is made quiet.
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
    /// Whether conversions of float16 touch the environment, other than [`Halves::f32_to_f16`], which always does, because it rounds.
    type F16: Effect;
    /// Rounds to nearest even, if the control register says that or the conversion does not depend on it.
    #[inline(always)]
    fn f32_to_nearest_f16(self, a: [Self::V; 2]) -> Self::V {
        self.f32_to_f16(a)
    }
    /// Converts two registers of f32 to one of bfloat16, rounded to nearest even. A NaN keeps its payload and is made quiet.
    #[inline(always)]
    fn f32_to_bf16(self, a: [Self::V; 2], _: Extras) -> Self::V {
        self.rounded_bf16(a)
    }
    /// As [`Halves::f32_to_bf16`], by integer operations: adds a bias and drops the lower half.
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
    /// As [`Halves::f32_to_bf16`], where no result is subnormal.
    #[inline(always)]
    fn normal_to_bf16(self, a: [Self::V; 2], extras: Extras) -> Self::V {
        self.f32_to_bf16(a, extras)
    }
    /// Whether [`Halves::f32_to_bf16`] touches the environment.
    type ToBf16: Effect;
    /// Converts floats of 16 bits to integers of 16 bits, saturating: rounded as the control register says, or else truncated.
    /// A NaN becomes 0. None if there is no instruction for that.
    #[inline(always)]
    fn f16_to_words(self, _: Extras, _: [Self::V; 2], _rounds: bool, _signed: bool) -> Option<[Self::V; 2]> {
        None
    }
    /// Converts integers of 16 bits to floats, rounded as the control register says. None if there is no instruction for that.
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
    /// Converts two registers of 64-bit integers, rounded once.
    #[inline(always)]
    fn i64_to_f32(self, a: [Self::V; 2]) -> Self::V {
        self.f64_to_f32([self.i64_to_odd_f64(a[0]), self.i64_to_odd_f64(a[1])])
    }
    #[inline(always)]
    fn u64_to_f32(self, a: [Self::V; 2]) -> Self::V {
        self.f64_to_f32([self.u64_to_odd_f64(a[0]), self.u64_to_odd_f64(a[1])])
    }
    /// Converts, rounded to odd: from 2^49 on, at most 53 bits are left, so the conversion is exact, and at least 38.
    #[inline(always)]
    fn i64_to_odd_f64(self, v: Self::V) -> Self::V {
        self.i64_to_f64(self.odd64(v, self.shr64::<50>(self.add64(v, self.splat64(1 << 49)))))
    }
    #[inline(always)]
    fn u64_to_odd_f64(self, v: Self::V) -> Self::V {
        self.u64_to_f64(self.odd64(v, self.shr64::<49>(v)))
    }
    /// Converts two registers to one of f32, rounded to odd.
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
    /// Converts to an integer: the minimum below −2^31. For 2^31 or more and for NaN, the result is unspecified.
    fn f32_to_i32(self, a: Self::V) -> Self::V;
    /// What to pass to these conversions so that they round as the control register says: `x` itself, or, where instructions
    /// carry their rounding, `x` already rounded.
    #[inline(always)]
    fn asked_f32(self, x: Self::V) -> Self::V {
        x
    }
    #[inline(always)]
    fn asked_f64(self, x: Self::V) -> Self::V {
        x
    }
    /// Converts 0 ≤ x < 2^32. For others, the result is unspecified.
    fn f32_to_u32(self, a: Self::V) -> Self::V;
    /// Converts, saturating; a NaN becomes 0. Above `beyond`, the float before 2^31, the result is `most`.
    #[inline(always)]
    fn f32_to_nearest_i32(self, x: Self::V, beyond: Self::V, most: Self::V) -> Self::V {
        let x = self.number_f32(x);
        self.select32(self.gt32(x, beyond), most, self.f32_to_i32(x))
    }
    /// As [`Converts::f32_to_nearest_i32`]; `beyond` is the float before 2^63.
    #[inline(always)]
    fn f64_to_nearest_i64(self, x: Self::V, beyond: Self::V, most: Self::V) -> Self::V {
        let x = self.number_f64(x);
        self.select64(self.gt64(x, beyond), most, self.f64_to_i64(x))
    }
    /// Converts to an integer: the minimum below −2^63. For 2^63 or more, the result is unspecified.
    fn f64_to_i64(self, a: Self::V) -> Self::V;
    /// Converts 0 ≤ x < 2^64. For others, the result is unspecified.
    fn f64_to_u64(self, a: Self::V) -> Self::V;
    /// Converts to int32. For numbers out of range, the result is unspecified.
    #[inline(always)]
    fn f64_to_i32(self, a: [Self::V; 2]) -> Self::V {
        self.low64([self.f64_to_i64(a[0]), self.f64_to_i64(a[1])])
    }
    /// Converts `whole`, which is `a` rounded. Also returns bits that are all zero, except for signs, only if each element fits
    /// or has become the minimum.
    #[inline(always)]
    fn f64_to_i32_or_bits(self, _a: [Self::V; 2], whole: [Self::V; 2]) -> [Self::V; 2] {
        let integers = self.f64_to_i32(whole);
        let back = self.i32_to_f64(integers);
        [integers, self.or(self.xor(back[0], whole[0]), self.xor(back[1], whole[1]))]
    }
}

/// Conversions to integers that saturate.
pub(crate) trait Saturates: Converts {
    /// Truncates floats to integers of the lane's width, saturating; a NaN becomes 0.
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
    /// The name of the instruction set.
    const ISA: Isa;
    /// How floats become floats of 8 bits or fewer: [`ByAddition`], [`ByF16`] or [`ByWords`].
    type Narrowing;
    /// How numbers become integers, saturating: [`BySaturating`], [`ByLimits`] or [`ByPacking`].
    type Integers;
    /// How elements are looked up in tables: [`AtOnce`] or [`ByRows`].
    type Lookups;
    /// This type with dynamic rounding: operations round as the control register says, even where instructions could carry a rounding.
    type Dynamic: Simd;
    /// The instruction set for which loops with constant strides are compiled (the compiler turns them into shuffles): this one, or a
    /// narrower one that it includes.
    type Strided: Simd;
    /// The number of elements up to which the kernel itself casts without a loop. 0 where an environment has to be set around it.
    const LOOPLESS: usize = 0;
    /// Whether [`Converts::f64_to_i64`] truncates, whatever the control register says, and gives the minimum for everything
    /// that an i64 does not hold, NaN included. (The test `keeps_its_word` checks that.)
    const CUTS: bool = false;
    /// Whether the environment must be set around a kernel. `depends`: its operations depend on the environment or may raise flags. Not
    /// where instructions carry their rounding: there, floats are rounded to nearest even and integers truncated, whatever the control
    /// register says, and no flag is raised; only [`Floats::round_f32`] and [`Floats::round_f64`] follow the control register.
    fn needs_environment(depends: bool) -> bool {
        depends
    }
    /// Whether the control register leaves subnormal numbers as they are, in the environment that a kernel is given.
    #[inline(always)]
    fn keeps_subnormals(self) -> bool {
        true
    }
    /// Makes a value from the proof.
    fn with(token: Self::Token) -> Self;
    fn strided(self) -> Self::Strided;
    /// Makes a value from the proof that some instruction set is present; None if that is another one.
    #[inline(always)]
    fn of(present: Present) -> Option<Self> {
        // SAFETY: the CPU has the instruction set of this name: `present` is the proof, for which [`Token::is_available`] was asked.
        (present.isa() == Self::ISA).then(|| unsafe { Self::assume() })
    }
    /// Makes a value without a proof: for kernels, whose callers promise the features.
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
    /// Returns a kernel as a function that is compiled with the features.
    fn kernel<W, K: Kernel<Self, W>>() -> RunKernel<K::Job, W>;
}

/// Floats become narrow ones by an addition that shifts and rounds ([`ToNarrow`](super::codec::narrow::ToNarrow)); those of 16
/// bits, as bytes and nibbles ([`ToNarrowByNibbles`](super::codec::narrow::ToNarrowByNibbles)).
#[cfg_attr(
    all(feature = "scaled", feature = "zarr", not(any(isa = "neon", isa = "simd128"))),
    expect(dead_code, reason = "x86-64 has faster ways")
)]
pub(crate) struct ByAddition;
/// Floats become narrow ones by way of the float16 whose exponent is the code's, where that is possible
/// ([`ToNarrowByF16`](super::codec::narrow::ToNarrowByF16)); those of 16 bits, as bytes and nibbles.
pub(crate) struct ByF16;
/// Floats become narrow ones by way of that float16, too; those of 16 bits, in their lanes
/// ([`ToNarrowByHalf`](super::codec::narrow::ToNarrowByHalf)) and by tables.
pub(crate) struct ByWords;

/// Looking up in a whole table is as fast as in a few of its elements.
pub(crate) struct AtOnce;
/// Tables are searched by rows of 16 bytes, so the fewer rows the better. Elements that lie on a
/// [line](super::codec::plane::Line) are computed.
pub(crate) struct ByRows;

/// Numbers become integers by instructions that saturate: `cut_i32` to `cut_u64` of floats, `narrow_s16` to `narrow_s64_to_u32` of
/// integers.
#[cfg_attr(isa = "avx2", allow(dead_code, reason = "a way that x86-64 does not take"))]
pub(crate) struct BySaturating;
/// Floats are clamped to the limits of the target and then converted; NaNs are searched for. What were floats is packed from
/// lanes of 32 bits as by [`ByPacking`]. Integers are clamped, too.
pub(crate) struct ByLimits;
/// Numbers are converted to int32 by instructions that give the minimum for what does not fit; this minimum is searched for.
/// Lanes of 32 and 16 bits are packed by `narrow_s16`, `narrow_s16_to_u8`, `narrow_s32` and `narrow_s32_to_u16`. There are no
/// instructions for longer integers.
pub(crate) struct ByPacking;

/// How NaNs are found in a block.
pub(crate) trait SearchesNans: Simd {
    fn any_nan_f32(self, x: [Self::V; 4]) -> bool;
    fn any_nan_f64(self, x: [Self::V; 8]) -> bool;
    /// The larger one of the two; `low` where `x` is a NaN. `low` is not a NaN.
    fn max_or_low_f32(self, x: Self::V, low: Self::V) -> Self::V;
    fn max_or_low_f64(self, x: Self::V, low: Self::V) -> Self::V;
}

/// The operations of [`ByLimits`] and [`ByPacking`].
pub(crate) trait MarksBeyond: SearchesNans {
    /// Converts; what is out of range becomes the minimum, and so does a NaN.
    fn f32_to_i32_or_min(self, a: Self::V) -> Self::V;
    /// As that, but rounds to nearest even, as the control register must say.
    #[inline(always)]
    fn f32_to_nearest_i32_or_min(self, a: Self::V) -> Self::V {
        self.f32_to_i32_or_min(self.asked_f32(a))
    }
    fn f64_to_i32_or_min(self, a: [Self::V; 2]) -> Self::V;
}

/// The operations of [`ByF16`] and [`ByWords`].
pub(crate) trait NarrowsByF16: Rows {
    fn add16(self, a: Self::V, b: Self::V) -> Self::V;
    /// Looks words up by packed elements of 4 bits: each 16 elements are indices among the 16 lanes of 16 bits at their place.
    /// Stores the words that they find, in the order of the elements.
    ///
    /// # Safety
    /// A block of packed elements is readable, and a block of lanes is writable.
    unsafe fn pick_words(self, words: [Self::V; 2], src: *const u8, high: bool, dst: *mut u8);
    /// As [`NarrowsByF16::pick_words`], but each 16 elements of a block have a table of their own, in the form that
    /// [`NarrowsByF16::arrange`] makes.
    ///
    /// # Safety
    /// A block of packed elements is readable, and a block of lanes is writable.
    unsafe fn pick_from(self, tables: [&[[u8; 16]; 2]; 4], src: *const u8, high: bool, dst: *mut u8);
    /// A register made of pieces of 16 bytes. Pieces for which it has no room are left out.
    fn pieces_of(self, pieces: [&[u8; 16]; 4]) -> Self::V;
    /// Brings a table of 16 words to the form of [`NarrowsByF16::pick_from`]: by default, they stay as they are.
    #[inline(always)]
    fn arrange(self, _words: &mut [[u8; 16]; 2]) {}
    /// Lanes of `yes` where `a` is above `limit`, unsigned, and of `no` elsewhere.
    fn select_above16(self, a: Self::V, limit: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    fn select_above8(self, a: Self::V, limit: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// The high byte of each lane of 16 bits, rounded to nearest even by the low byte; at most 255.
    fn nearest_high16(self, a: [Self::V; 2]) -> Self::V;
    /// Converts, truncated, whatever the control register says.
    fn f32_to_cut_f16(self, a: [Self::V; 2]) -> Self::V;
}

/// Looks up bytes in rows of 16.
pub(crate) trait Rows: Simd {
    /// Looks up the byte at each index below 16 in the piece of 16 bytes of the table that has the place of the index; 0 where
    /// the top bit of an index is set. Other indices find some byte of that piece, or 0.
    fn lookup_pieces(self, table: Self::V, index: Self::V) -> Self::V;
    /// a - b, or 0 where that would be negative.
    fn sub_u8(self, a: Self::V, b: Self::V) -> Self::V;
}

/// The operations of [`ToNarrowByNibbles`](super::codec::narrow::ToNarrowByNibbles).
pub(crate) trait NarrowsByNibbles: Rows {
    /// A register that has these 16 bytes in each piece.
    fn row(self, bytes: &[u8; 16]) -> Self::V;
    /// Looks up in two rows, with indices below 32. No byte of the second row may be less than any of the first.
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
    /// As [`NarrowsByNibbles::zipped_u8`], for lanes below 256.
    #[inline(always)]
    fn zipped_low8(self, a: [Self::V; 2]) -> Self::V {
        self.low16(a)
    }
    /// As [`NarrowsByNibbles::zipped_u8`], for lanes that are all ones or 0, and stay so.
    #[inline(always)]
    fn zipped_masks(self, a: [Self::V; 2]) -> Self::V {
        self.low16(a)
    }
    /// As [`NarrowsByNibbles::zipped_u8`], of the top bit of each lane; the other bits of a byte are unspecified.
    #[inline(always)]
    fn zipped_signs(self, a: [Self::V; 2]) -> Self::V {
        self.signs16(a)
    }
    #[inline(always)]
    fn unzipped8(self, a: Self::V) -> Self::V {
        a
    }
    /// Bytes of `yes` where those of the mask are all ones, and of `no` where they are 0.
    fn select8(self, mask: Self::V, yes: Self::V, no: Self::V) -> Self::V;
}

/// The further operations of [`ByWords`].
pub(crate) trait NarrowsByWords: NarrowsByF16 {
    /// a - b, or 0 where that would be negative, in lanes of 16 bits.
    fn sub_u16(self, a: Self::V, b: Self::V) -> Self::V;
    /// Shifts each lane by its own count; the result is 0 from 16 on.
    fn shl16v(self, a: Self::V, counts: Self::V) -> Self::V;
    fn shr16v(self, a: Self::V, counts: Self::V) -> Self::V;
    /// The high byte of each lane of 16 bits, rounded to odd by the low byte.
    fn odd_high16(self, a: [Self::V; 2]) -> Self::V;
    /// Looks up in two registers of 64 bytes; the top bit of an index is ignored.
    fn lookup_two(self, table: [Self::V; 2], index: Self::V) -> Self::V;
    /// Looks up in one register; the two top bits of an index are ignored.
    fn lookup_one(self, table: Self::V, index: Self::V) -> Self::V;
    /// Loads a register of bytes.
    fn row_of(self, bytes: &[[u8; 16]; 4]) -> Self::V;
    /// Fills each half of the register with one of two words.
    fn halves32(self, a: u32, b: u32) -> Self::V;
    /// Adds in the lanes of 16 bits in which `a` is a bfloat16 other than 0 and, unless `finite`, other than Inf and NaN.
    /// Elsewhere, the result is `a`.
    fn add_exponents16(self, a: Self::V, b: Self::V, finite: bool) -> Self::V;
}

/// Code to run with the features of an instruction set enabled, by [`Simd::run`].
pub(super) trait Task<I> {
    type Output;

    /// Must be `#[inline(always)]`; else it is compiled without the features. (A closure could not be marked so.)
    fn call(self, isa: I) -> Self::Output;
}

/// Code that casts elements. `with` applies to all of them: how far apart their rows are, or what their scales are.
/// [`Simd::kernel`] makes a function of it.
pub(super) trait Kernel<I, W> {
    /// The parameters.
    type Job;

    /// Must be `#[inline(always)]`; else it is compiled without the features.
    ///
    /// # Safety
    /// As for the [`RunKernel`] that is made of it.
    unsafe fn run(isa: I, job: &Self::Job, src: *const u8, dst: *mut u8, n: usize, with: &W);
}

/// A [`Kernel`] as a function.
///
/// # Safety
/// The instruction set is available, and the job is one of the kernel's codec. In every row that `with` describes, `n` elements are
/// readable from `src` on and writable from `dst` on. No byte is in both, and what `with` points to is there for all of these elements.
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
    /// Whether this CPU has all of them.
    fn is_available() -> bool;

    /// # Safety
    /// The CPU has all of them.
    unsafe fn assumed() -> Self;
}

/// Defines the token of an instruction set: its features, for detection and for `#[target_feature]` alike.
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
                // SAFETY: a value of type `I` is made of the token, which is the proof that the CPU has the features.
                unsafe { featured(isa, task) }
            }

            /// Never inlined, so that no floating-point operation moves out of the environment that is set around a call.
            #[inline(never)]
            $(#[target_feature(enable = $feature)])*
            fn featured<I: Simd, T: Task<I>>(isa: I, task: T) -> T::Output {
                task.call(isa)
            }

            /// A kernel's entry. It is a method of the kernel, so that the compiler translates it together with the kernel's
            /// module, and several modules in parallel.
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

/// Copies a few bytes without a function call: by registers, of which the last two may overlap.
///
/// # Safety
/// `bytes` bytes are readable from `from` on and writable from `to` on, and none of them is in both.
#[inline(always)]
pub(super) unsafe fn copy_short<I: Simd>(isa: I, from: *const u8, to: *mut u8, bytes: usize) {
    // More than 16 bytes, but less than a register, are copied as the first 16 and the last 16.
    const { assert!(I::BYTES <= 32) };
    /// Copies the first and the last `T`, which may overlap; returns false if there are fewer bytes than in a `T`.
    #[inline(always)]
    unsafe fn ends<T>(from: *const u8, to: *mut u8, bytes: usize) -> bool {
        let Some(last) = bytes.checked_sub(size_of::<T>()) else { return false };
        // SAFETY: the caller's promise: both values lie within the bytes.
        unsafe {
            let values = [from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned()];
            let [low, high] = values;
            to.cast::<T>().write_unaligned(low);
            to.add(last).cast::<T>().write_unaligned(high);
        }
        true
    }
    // SAFETY: the caller's promise; a register is loaded and stored only where there are as many bytes.
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

/// Orders streamed stores before later ones, by which other threads may be told of them.
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

/// Defines operations on registers, each by one expression. All of them are `#[inline(always)]`, without which a kernel would
/// call them and pass registers through memory.
macro_rules! ops {
    ($($(<$(const $c:ident: $t:ty),*>)? $name:ident($self:ident $(, $arg:ident: $ty:ty)*) -> $ret:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name$(<$(const $c: $t),*>)?($self $(, $arg: $ty)*) -> $ret {
            #[allow(unused_unsafe, reason = "some are made of other operations alone")]
            // SAFETY: `self` is the proof that the CPU has the features. The intrinsics have no other condition, except those
            // that load: they are given references to as many bytes.
            unsafe { $body }
        }
    )*};
}
pub(super) use ops;

/// As `ops`, for operations on memory.
macro_rules! memory_ops {
    ($($(<$(const $c:ident: $t:ty),*>)? $name:ident($self:ident $(, $arg:ident: $ty:ty)*) -> $ret:ty = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name$(<$(const $c: $t),*>)?($self $(, $arg: $ty)*) -> $ret {
            // SAFETY: the pointers are valid for what the operation says that it touches; as for the features, see `ops`.
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

    /// A register of these lanes; only the first ones, if the register is shorter.
    fn register<I: Simd, T: Copy>(isa: I, lanes: &[T]) -> I::V {
        assert!(size_of_val(lanes) >= I::BYTES);
        // SAFETY: as many bytes as a register has are there, as was just checked.
        unsafe { isa.load(lanes.as_ptr().cast()) }
    }

    /// The lanes of a register.
    fn lanes<I: Simd, T: Copy + Default>(isa: I, v: I::V) -> Vec<T> {
        let mut lanes = vec![T::default(); I::BYTES / size_of::<T>()];
        // SAFETY: the vector has as many bytes as the register.
        unsafe { isa.store(lanes.as_mut_ptr().cast(), v) };
        lanes
    }

    /// Checks an operation that narrows the lanes of two registers to half the width.
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

    /// Checks an operation on one register that keeps the width of its lanes.
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

    /// Numbers of all magnitudes, and special values.
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

    /// Checks that operations of an instruction set, its own and the default ones, do what their definitions say.
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
        for (some, bits) in ints.windows(64).zip([1u32, 0x3FFC, 0x7FFF_FFFF, 1 << 20].into_iter().cycle()) {
            let registers = [0, 1, 2, 3].map(|k| register(isa, &some[k * I::BYTES / 4..]));
            let expected = some[..I::BYTES].iter().all(|&x| x as u32 & bits != 0);
            assert_eq!(isa.all_have32(registers, bits), expected, "{some:x?} {bits:x}");
            for lane in 0..I::BYTES {
                let mut some = [-1i32; 64];
                some[lane] = !(bits as i32);
                let registers = [0, 1, 2, 3].map(|k| register(isa, &some[k * I::BYTES / 4..]));
                assert!(!isa.all_have32(registers, bits), "{lane}");
            }
            assert!(isa.all_have32([isa.splat32(bits & bits.wrapping_neg()); 4], bits));
        }
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

    /// Checks that operations that are [`Quiet`] give the same results in every environment.
    fn is_quiet<I: Simd>(isa: I) {
        /// Runs all operations on codes of 16 and 32 bits that are said to be quiet.
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

    /// Compares rounding to bfloat16 by the instruction with rounding without it: a CPU that has the instruction hardly ever
    /// takes the other way, and one without it never takes this.
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

    /// Checks the further operations that the ways of x86-64 take.
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
        /// Converts some numbers in the environment that is set.
        struct Nearest([f32; 16]);

        impl<I: MarksBeyond> Task<I> for Nearest {
            type Output = Vec<i32>;

            #[inline(always)]
            fn call(self, isa: I) -> Vec<i32> {
                lanes(isa, isa.f32_to_nearest_i32_or_min(register(isa, &self.0)))
            }
        }

        let whole: Vec<f32> = singles().iter().map(|x| x.trunc()).collect();
        let fits = |x: f64| (-2_147_483_648.0..2_147_483_648.0).contains(&x);
        let expected = |x: f64| if fits(x) { x as i32 } else { i32::MIN };
        maps(isa, &whole, |v| isa.f32_to_i32_or_min(v), |x| expected(x.into()));
        let nearest = |x: f32| expected(f64::from(x).round_ties_even());
        maps(isa, &singles(), |v| isa.f32_to_nearest_i32_or_min(v), nearest);
        if !I::needs_environment(true) {
            // Kernels call it in their caller's environment then.
            for some in singles().chunks_exact(16) {
                let made = |rounding| {
                    let _environment = Environment::flushing(rounding);
                    isa.run(Nearest(some.try_into().unwrap()))
                };
                let calm = made(Rounding::NearestEven);
                for rounding in [Rounding::TowardZero, Rounding::Up, Rounding::Down] {
                    assert_eq!(made(rounding), calm, "{rounding:?}");
                }
            }
        }
        let whole: Vec<f64> = whole.iter().map(|&x| f64::from(x)).collect();
        narrows(isa, &whole, |v| isa.f64_to_i32_or_min(v), expected);
    }

    /// Checks the operations whose definition has cases that no cast may reach, or only on some instruction set. The tests of
    /// casts see the others.
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
            &[keeps_its_word, is_quiet, rounds_to_bf16, searches_nans, marks_beyond],
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
