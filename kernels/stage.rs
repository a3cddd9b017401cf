//! Layouts that a codec does not know: packed, byte-swapped and complex elements, a tile at a time.
//!
//! A tile is brought to plain codes (one per byte, or native words), the codec runs on it in L1, and its
//! result is brought to the layout of the destination.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

use super::codec::{Job, registers};
use super::drive::Core;
use super::isa::Isa;
use crate::layout::Packing;
use crate::route::{Layout, Parts, Route, Work};

/// Bytes of a tile's widest form: a few of these stay in L1.
const TILE: usize = 4096;
/// Elements that a tile is rounded up to: whole blocks of every instruction set.
const BLOCK: usize = 64;

#[repr(C, align(64))]
struct Buffer([MaybeUninit<u8>; TILE]);

impl Buffer {
    const fn new() -> Self {
        Self([MaybeUninit::uninit(); TILE])
    }

    fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Bytes of `n` elements. No overflow: at most a tile, or as much as a buffer has.
fn size(layout: &Layout, n: usize) -> usize {
    match (layout.bits as usize, layout.packing) {
        (bits @ 8.., _) => n * layout.parts * bits / 8,
        (_, Packing::OnePerByte) => n,
        (bits, _) => n / 8 * bits + (n % 8 * bits).div_ceil(8),
    }
}

/// Elements in a tile: as many of the wider side as fit, and no more than 1024 of those that are narrow.
fn tile(route: &Route) -> usize {
    let bytes = |layout: &Layout| layout.parts * (layout.bits as usize).div_ceil(8);
    TILE / bytes(&route.src).max(bytes(&route.dst)).max(4)
}

fn is_stream(layout: &Layout) -> bool {
    layout.bits < 8 && layout.packing != Packing::OnePerByte
}

/// Does a codec read and write these layouts as they are?
pub(super) fn is_plain(route: &Route) -> bool {
    matches!(route.parts, Parts::One | Parts::Two)
        && route.work == Work::Convert
        && ![route.src, route.dst].iter().any(|layout| is_stream(layout) || layout.swapped)
}

/// A cast of any layout. Without a core the codes are kept.
///
/// # Safety
/// As for every kernel; the instruction set is available, and `core` is for the dtypes of the route.
pub(super) unsafe fn staged<I: Isa>(
    route: &Route,
    job: &Job,
    core: Option<Core>,
    src: *const u8,
    dst: *mut u8,
    n: usize,
) {
    /// Not a closure: see `drive::blocks`.
    struct Tiles<'a, I>(&'a Route, &'a Job, Option<Core>, *const u8, *mut u8, usize, PhantomData<I>);

    impl<I: Isa> pulp::NullaryFnOnce for Tiles<'_, I> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self(route, job, core, src, dst, n, _) = self;
            // SAFETY: the promise of the caller of `staged`; `Isa::run` enables the features.
            unsafe { tiles::<I>(route, job, core, src, dst, n) }
        }
    }

    // SAFETY: the caller's promise.
    unsafe { I::run(Tiles::<I>(route, job, core, src, dst, n, PhantomData)) }
}

/// # Safety
/// As [`staged`], with the features enabled.
#[inline(always)]
unsafe fn tiles<I: Isa>(
    route: &Route,
    job: &Job,
    core: Option<Core>,
    src: *const u8,
    dst: *mut u8,
    n: usize,
) {
    let [mut raw_src, mut codes, mut results, mut raw_dst] = [const { Buffer::new() }; 4];
    let (raw_src, codes) = (raw_src.start(), codes.start());
    let (results, raw_dst) = (results.start(), raw_dst.start());
    let tile = tile(route);
    let mut first = 0;
    // Not `step_by`: that panics for 0, and the compiler does not see that a tile is more.
    while first < n {
        let len = tile.min(n - first);
        let padded = len.next_multiple_of(BLOCK);
        // SAFETY: `first` is a multiple of 8, so a tile starts at a byte. A tile that is not whole blocks goes
        // through buffers that are: its bytes are copied and the rest is zero, and only its own bytes are
        // copied back. The buffers have room for a tile of the widest elements.
        unsafe {
            let (mut s, mut d) = (src.add(size(&route.src, first)), dst.add(size(&route.dst, first)));
            if padded != len {
                let used = size(&route.src, len);
                ptr::copy_nonoverlapping(s, raw_src, used);
                ptr::write_bytes(raw_src.add(used), 0, size(&route.src, padded) - used);
                s = raw_src;
                d = raw_dst;
            }
            let units = if matches!(route.parts, Parts::Two | Parts::Either) { 2 * padded } else { padded };
            let from = plain_source::<I>(route, s, codes, padded);
            let reshapes = route.dst.swapped
                || is_stream(&route.dst)
                || matches!(route.parts, Parts::Either | Parts::Extend);
            let to = if reshapes { results } else { d };
            match core {
                Some(core) => core(job, from, to, units),
                None => ptr::copy_nonoverlapping(from, to, units * (route.src.bits as usize).div_ceil(8)),
            }
            if reshapes {
                if is_stream(&route.dst) {
                    // What is beyond the last element becomes its pad bits.
                    ptr::write_bytes(to.add(len), 0, padded - len);
                }
                shape_destination::<I>(route, to, d, padded);
            }
            if padded != len {
                let used = size(&route.dst, len);
                ptr::copy_nonoverlapping(raw_dst, dst.add(size(&route.dst, first)), used);
            }
        }
        first += len;
    }
}

/// The codes of `n` elements in a row, a multiple of 64: where they are, or in `codes`.
///
/// # Safety
/// As for the operations of [`Isa`]. `n` elements are readable, and the buffer has room for their codes.
#[inline(always)]
unsafe fn plain_source<I: Isa>(route: &Route, src: *const u8, codes: *mut u8, n: usize) -> *const u8 {
    let layout = &route.src;
    // SAFETY: the caller's promise.
    unsafe {
        if is_stream(layout) {
            let high = layout.packing == Packing::HighFirst;
            match layout.bits {
                2 => unpack::<I, 2>(src, codes, n, high),
                4 => unpack::<I, 4>(src, codes, n, high),
                _ => unpack::<I, 6>(src, codes, n, high),
            }
            return codes;
        }
        if layout.bits < 8 && route.work == Work::Keep {
            let mask = I::splat32(((1 << layout.bits) - 1) * 0x0101_0101);
            for at in (0..n).step_by(I::BYTES) {
                I::store(codes.add(at), I::and(I::load(src.add(at)), mask));
            }
            return codes;
        }
        let mut from = src;
        if layout.swapped {
            swap::<I>(layout.bits, from, codes, size(layout, n));
            from = codes;
        }
        if route.parts == Parts::Real {
            // In place: what is written was read before.
            let bytes = size(layout, n) / 2;
            for at in (0..bytes).step_by(I::BYTES) {
                let pair = [I::load(from.add(2 * at)), I::load(from.add(2 * at + I::BYTES))];
                let parts = if layout.bits == 32 { I::low64(pair) } else { I::even64(pair) };
                I::store(codes.add(at), parts);
            }
            from = codes;
        }
        from
    }
}

/// Brings the results of `n` elements, a multiple of 64, to the layout of the destination.
///
/// # Safety
/// As for the operations of [`Isa`]. The results are there, and `n` elements are writable.
#[inline(always)]
unsafe fn shape_destination<I: Isa>(route: &Route, results: *mut u8, dst: *mut u8, n: usize) {
    let layout = &route.dst;
    // SAFETY: the caller's promise.
    unsafe {
        match route.parts {
            Parts::Either => {
                for at in (0..n).step_by(I::BYTES) {
                    let pair = [I::load(results.add(2 * at)), I::load(results.add(2 * at + I::BYTES))];
                    let either =
                        [I::or(pair[0], I::shr16::<8>(pair[0])), I::or(pair[1], I::shr16::<8>(pair[1]))];
                    I::store(dst.add(at), I::low16(either));
                }
            }
            Parts::Extend => {
                let bytes = size(layout, n) / 2;
                let zero = I::splat32(0);
                if layout.swapped {
                    swap::<I>(layout.bits, results, results, bytes);
                }
                for at in (0..bytes).step_by(I::BYTES) {
                    let real = I::load(results.add(at));
                    let [a, b] = if layout.bits == 32 { I::zip32(real, zero) } else { I::zip64(real, zero) };
                    I::store(dst.add(2 * at), a);
                    I::store(dst.add(2 * at + I::BYTES), b);
                }
            }
            _ if layout.swapped => swap::<I>(layout.bits, results, dst, size(layout, n)),
            _ => {
                let high = layout.packing == Packing::HighFirst;
                match layout.bits {
                    2 => pack::<I, 2>(results, dst, n, high),
                    4 => pack::<I, 4>(results, dst, n, high),
                    _ => pack::<I, 6>(results, dst, n, high),
                }
            }
        }
    }
}

/// Reverses the bytes of words of `bits` bits. From and to may be the same.
///
/// # Safety
/// As for the operations of [`Isa`]. `bytes` bytes, whole registers, are readable and writable.
#[inline(always)]
unsafe fn swap<I: Isa>(bits: u32, from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(I::BYTES) {
        // SAFETY: the caller's promise.
        unsafe {
            let v = I::load(from.add(at));
            let v = match bits {
                16 => I::swap16(v),
                32 => I::swap32(v),
                _ => I::swap64(v),
            };
            I::store(to.add(at), v);
        }
    }
}

/// The low `BITS` bits of each byte.
const fn fields<const BITS: usize>() -> u64 {
    0x0101_0101_0101_0101 * ((1 << BITS) - 1)
}

/// Packed elements to one per byte.
///
/// # Safety
/// As for the operations of [`Isa`]. `n` elements, a multiple of 64, are readable, `n` bytes writable.
#[inline(always)]
unsafe fn unpack<I: Isa, const BITS: usize>(src: *const u8, dst: *mut u8, n: usize, high: bool) {
    // SAFETY: the caller's promise; whole registers of both, or whole groups.
    unsafe {
        if BITS == 4 && (n / 2).is_multiple_of(I::BYTES) {
            for at in (0..n / 2).step_by(I::BYTES) {
                let [a, b] = halved::<I, 4>(I::load(src.add(at)), high);
                I::store(dst.add(2 * at), a);
                I::store(dst.add(2 * at + I::BYTES), b);
            }
        } else if BITS == 2 && (n / 4).is_multiple_of(I::BYTES) {
            for at in (0..n / 4).step_by(I::BYTES) {
                let pairs = halved::<I, 4>(I::load(src.add(at)), high);
                let quarters = registers!(2, H => halved::<I, 2>(pairs[H], high));
                for k in 0..4 {
                    I::store(dst.add(4 * at + k * I::BYTES), quarters[k / 2][k % 2]);
                }
            }
        } else {
            unpack_groups::<I, BITS>(src, dst, n, high);
        }
    }
}

/// Each byte, of `2 * BITS` bits, as two of `BITS`.
///
/// # Safety
/// As for the operations of [`Isa`].
#[inline(always)]
unsafe fn halved<I: Isa, const BITS: usize>(v: I::V, high: bool) -> [I::V; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let mask = I::splat8((1 << BITS) - 1);
        let words = I::zext8(v);
        let words = registers!(2, K => {
            let spread = if BITS == 4 { I::shl16::<4>(words[K]) } else { I::shl16::<6>(words[K]) };
            I::and(I::or(words[K], spread), mask)
        });
        if high { [I::swap16(words[0]), I::swap16(words[1])] } else { words }
    }
}

/// The inverse of [`unpack`], of bytes that have nothing above their low `BITS` bits.
///
/// # Safety
/// As for the operations of [`Isa`]. `n` bytes, a multiple of 64, are readable, `n` elements writable.
#[inline(always)]
unsafe fn pack<I: Isa, const BITS: usize>(src: *const u8, dst: *mut u8, n: usize, high: bool) {
    // SAFETY: the caller's promise; whole registers of both, or whole groups.
    unsafe {
        if BITS == 4 && (n / 2).is_multiple_of(I::BYTES) {
            for at in (0..n / 2).step_by(I::BYTES) {
                let pair = [I::load(src.add(2 * at)), I::load(src.add(2 * at + I::BYTES))];
                I::store(dst.add(at), joined::<I, 4>(pair, high));
            }
        } else if BITS == 2 && (n / 4).is_multiple_of(I::BYTES) {
            for at in (0..n / 4).step_by(I::BYTES) {
                let quad = registers!(4, K => I::load(src.add(4 * at + K * I::BYTES)));
                let pairs = registers!(2, H => joined::<I, 2>([quad[2 * H], quad[2 * H + 1]], high));
                I::store(dst.add(at), joined::<I, 4>(pairs, high));
            }
        } else {
            pack_groups::<I, BITS>(src, dst, n, high);
        }
    }
}

/// Two bytes of `BITS` bits as one.
///
/// # Safety
/// As for the operations of [`Isa`].
#[inline(always)]
unsafe fn joined<I: Isa, const BITS: usize>(v: [I::V; 2], high: bool) -> I::V {
    // SAFETY: the caller's promise.
    unsafe {
        let v = if high { [I::swap16(v[0]), I::swap16(v[1])] } else { v };
        I::low16(registers!(2, K => {
            let upper = if BITS == 4 { I::shr16::<4>(v[K]) } else { I::shr16::<6>(v[K]) };
            I::or(v[K], upper)
        }))
    }
}

/// Eight elements of `BITS` bits are `BITS` bytes: spread to eight bytes. High bits first is the same with
/// both sides reversed.
///
/// # Safety
/// As for the operations of [`Isa`]. `n` elements, a multiple of 8, are readable, `n` bytes writable.
#[inline(always)]
unsafe fn unpack_groups<I: Isa, const BITS: usize>(src: *const u8, dst: *mut u8, n: usize, high: bool) {
    for group in 0..n / 8 {
        // SAFETY: the caller's promise; a group is `BITS` bytes, and no more are read.
        unsafe {
            let mut bytes = [0; 8];
            ptr::copy_nonoverlapping(src.add(group * BITS), bytes.as_mut_ptr(), BITS);
            let word = u64::from_le_bytes(bytes);
            let word = if high { word.swap_bytes() >> (64 - 8 * BITS) } else { word };
            let word = I::spread(word, fields::<BITS>());
            let word = if high { word.swap_bytes() } else { word };
            dst.add(group * 8).cast::<[u8; 8]>().write(word.to_le_bytes());
        }
    }
}

/// The inverse of [`unpack_groups`], of bytes that have nothing above their low `BITS` bits.
///
/// # Safety
/// As for the operations of [`Isa`]. `n` bytes, a multiple of 8, are readable, `n` elements writable.
#[inline(always)]
unsafe fn pack_groups<I: Isa, const BITS: usize>(src: *const u8, dst: *mut u8, n: usize, high: bool) {
    for group in 0..n / 8 {
        // SAFETY: the caller's promise; a group is `BITS` bytes, and no more are written.
        unsafe {
            let word = u64::from_le_bytes(src.add(group * 8).cast::<[u8; 8]>().read());
            let word = if high { word.swap_bytes() } else { word };
            let word = I::gather(word, fields::<BITS>());
            let word = if high { word.swap_bytes() >> (64 - 8 * BITS) } else { word };
            ptr::copy_nonoverlapping(word.to_le_bytes().as_ptr(), dst.add(group * BITS), BITS);
        }
    }
}
