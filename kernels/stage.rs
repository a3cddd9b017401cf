//! Casts that take more than one codec, a tile at a time: those of several steps, and those to complex elements with more or
//! fewer parts than the source.
//!
//! The codecs run on the parts of a tile in L1, one after the other; in the end, the parts are brought to the layout of the destination.

use core::mem::MaybeUninit;
use core::ptr;

use super::layout::Apart;
use super::plan::Planned;
use super::simd::{Simd, Task};
use super::sizes::{FEW, KERNEL_BLOCK, LINE, ahead, codec_units_of_tile, widens_parts};
use super::stream;
use crate::formats::route::{Parts, Route};

/// Bytes of a tile in its widest form. There are two buffers of this size, on the stack, which may be small.
const TILE: usize = 2048;

/// The two buffers, or one of twice the size.
#[repr(C, align(64))]
struct Buffers([MaybeUninit<u8>; 2 * TILE]);

const _: () = assert!(align_of::<Buffers>() == LINE);

impl Buffers {
    const fn new() -> Self {
        Self([MaybeUninit::uninit(); 2 * TILE])
    }

    fn starts(&mut self) -> [*mut u8; 2] {
        let first = self.0.as_mut_ptr().cast::<u8>();
        [first, first.wrapping_add(TILE)]
    }
}

/// Whether a codec reads and writes these layouts as they are.
#[inline(always)]
pub(super) fn is_plain(route: &Route) -> bool {
    matches!(route.parts, Parts::One | Parts::Two | Parts::Real) || widens_parts(route)
}

/// Casts elements of any layout.
///
/// # Safety
/// As for every kernel.
pub(super) unsafe fn staged<I: Simd>(isa: I, plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    // Made outside of the task, because kernels contain no calls.
    isa.run(Tiles::new(plan, src, dst, n));
}

/// A cast in tiles. Its pointers and `n` are as [`staged`] was promised.
struct Tiles<'a> {
    plan: &'a Planned,
    src: *const u8,
    dst: *mut u8,
    n: usize,
    /// Elements in a tile, a multiple of [`KERNEL_BLOCK`]: as many as fit in the widest form that they have on the way.
    tile: usize,
    /// Whether results are streamed past the caches, from the first line on; a tile then has whole lines.
    streams: bool,
    /// Elements before that line.
    ahead: usize,
}

impl<'a> Tiles<'a> {
    /// Not inlined, so that the value is made in its place: a copy would load, as vectors, what has just been stored as words, and stall.
    #[inline(never)]
    fn new(plan: &'a Planned, src: *const u8, dst: *mut u8, n: usize) -> Self {
        let route = &plan.route;
        let [from, to] = [&route.src, &route.dst].map(|layout| layout.memory_bits() as usize * layout.parts);
        let ahead = ahead(dst, from, to);
        let line = dst.wrapping_add(route.dst.size(ahead));
        // With fewer elements than lie ahead of a line, no line begins among them.
        let may_stream = ahead <= n && plan.streams(n, from + to) && line.addr().is_multiple_of(LINE);
        // The last step writes to the destination itself, unless its results are streamed or reshaped afterwards.
        let kept = if may_stream || reshapes(route) {
            plan.steps
        } else {
            plan.steps.split_last().map_or(&[][..], |last| last.1)
        };
        // Each step makes this many parts of an element.
        let units = codec_units_of_tile(route, 1);
        let widest = kept.iter().map(|step| units * step.bits.div_ceil(8)).max().unwrap_or(1);
        // A single intermediate result may have the room of both buffers.
        let room = if kept.len() == 1 && !reshapes(route) { 2 * TILE } else { TILE };
        let tile = room / widest;
        // A tile of single bits may be less than a line.
        let streams = may_stream && route.dst.size(tile).is_multiple_of(LINE);
        Self { plan, src, dst, n, tile, streams, ahead }
    }
}

/// Whether the parts that the last step makes have to be brought to elements with more or fewer of them.
#[inline(always)]
fn reshapes(route: &Route) -> bool {
    !is_plain(route)
}

impl<I: Simd> Task<I> for Tiles<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self, isa: I) {
        let Self { plan, src, dst, n, tile, streams, ahead } = self;
        let route = &plan.route;
        let mut buffers = Buffers::new();
        let made = buffers.starts();
        // Steps alternate between the buffers. A source that has to be copied first goes to the buffer that the first step does
        // not write, and results that have to be copied go to the one that the last step has not written.
        let (raw_src, raw_dst) = (made[1], made[plan.steps.len() % 2]);
        let reshapes = reshapes(route);
        let mut first = 0;
        // Not `step_by`: it panics for 0, and the compiler cannot see that a tile is not 0.
        while first < n {
            let mut len = if streams && first < ahead { ahead } else { tile.min(n - first) };
            if reshapes && len > KERNEL_BLOCK {
                len -= len % KERNEL_BLOCK;
            }
            let padded = len.next_multiple_of(KERNEL_BLOCK);
            // SAFETY: the elements of `staged`. `first` is a multiple of 8, so a tile starts at a byte. What is moved by whole registers
            // goes through buffers that have room for these: of less than a block, the bytes are copied there and followed by zeros, and
            // only its own bytes are copied back. The buffers have room for what is made of a tile, and for a block of any elements.
            unsafe {
                let (mut s, d) = (src.add(route.src.size(first)), dst.add(route.dst.size(first)));
                // Only whole tiles are whole lines.
                let streams = streams && len == tile;
                if reshapes {
                    if padded != len {
                        let used = route.src.size(len);
                        ptr::copy_nonoverlapping(s, raw_src, used);
                        ptr::write_bytes(raw_src.add(used), 0, route.src.size(padded) - used);
                        s = raw_src;
                    }
                    let found = results_of(plan, s, made, None, padded);
                    if streams {
                        stream::ask(isa, s.wrapping_add(route.src.size(len)), route.src.size(len));
                    }
                    let to = if padded == len { d } else { raw_dst };
                    reshape(isa, route, found, to, padded, streams);
                    if padded != len {
                        ptr::copy_nonoverlapping(raw_dst, d, route.dst.size(len));
                    }
                } else {
                    let bytes = route.dst.size(len);
                    let to = (!streams).then_some(d);
                    let found = results_of(plan, s, made, to, len);
                    if streams {
                        stream::ask(isa, s.wrapping_add(route.src.size(len)), route.src.size(len));
                        for at in (0..bytes).step_by(I::BYTES) {
                            isa.stream(d.add(at), isa.load(found.add(at)));
                        }
                    }
                }
            }
            first += len;
        }
        if streams && plan.fences() {
            isa.fence();
        }
    }
}

/// Runs the codecs on the parts of `n` elements. The results are at `to`, or in one of the two buffers, or, without any step,
/// they are the source.
///
/// # Safety
/// As for every `RunRows`.
#[inline(always)]
unsafe fn results_of(
    plan: &Planned,
    mut from: *const u8,
    made: [*mut u8; 2],
    to: Option<*mut u8>,
    n: usize,
) -> *const u8 {
    let units = codec_units_of_tile(&plan.route, n);
    let last = plan.steps.len();
    for (i, step) in plan.steps.iter().enumerate() {
        let to = match to {
            Some(to) if i + 1 == last => to,
            _ => made[i % 2],
        };
        // SAFETY: the caller's promise; what a step makes, the next one takes, from one buffer to the other.
        unsafe { step.job.run_rows(from, to, units, &Apart::ONE) };
        from = to;
    }
    from
}

/// Casts one to [`FEW`] elements, for which tiles would take too long.
///
/// # Safety
/// As for every kernel.
pub(super) unsafe fn few(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    /// Writes each part with a zero behind it.
    unsafe fn extend<T: Default>(parts: *const T, dst: *mut T, n: usize) {
        for i in 0..n {
            // SAFETY: the caller has so many parts, and room for twice as many.
            unsafe {
                dst.add(2 * i).write_unaligned(parts.add(i).read_unaligned());
                dst.add(2 * i + 1).write_unaligned(T::default());
            }
        }
    }

    let route = &plan.route;
    let [mut even, mut odd] = [const { [MaybeUninit::<u64>::uninit(); 2 * FEW] }; 2];
    let made = [even.as_mut_ptr().cast(), odd.as_mut_ptr().cast()];
    // SAFETY: the caller's promise. The rooms have space for both parts of `FEW` elements, of 8 bytes each.
    unsafe {
        match (route.parts, route.dst.bits) {
            (Parts::Either, _) => {
                let parts = results_of(plan, src, made, None, n);
                for i in 0..n {
                    *dst.add(i) = *parts.add(2 * i) | *parts.add(2 * i + 1);
                }
            }
            (Parts::Extend, 32) => extend::<u32>(results_of(plan, src, made, None, n).cast(), dst.cast(), n),
            (Parts::Extend, 64) => extend::<u64>(results_of(plan, src, made, None, n).cast(), dst.cast(), n),
            _ => _ = results_of(plan, src, made, Some(dst), n),
        }
    }
}

/// Brings the results of `n` elements, a multiple of 64, to elements with more or fewer parts.
///
/// # Safety
/// The results are there, and `n` elements are writable; at a line, if they are to be streamed.
#[inline(always)]
unsafe fn reshape<I: Simd>(isa: I, route: &Route, results: *const u8, dst: *mut u8, n: usize, streams: bool) {
    let layout = &route.dst;
    // SAFETY: the caller's promise.
    unsafe {
        if route.parts == Parts::Either {
            for at in (0..n).step_by(I::BYTES) {
                let pair = [isa.load(results.add(2 * at)), isa.load(results.add(2 * at + I::BYTES))];
                let either =
                    [isa.or(pair[0], isa.shr16::<8>(pair[0])), isa.or(pair[1], isa.shr16::<8>(pair[1]))];
                isa.store(dst.add(at), isa.low16(either));
            }
            return;
        }
        let parts = layout.size(n) / 2;
        match (layout.bits == 32, streams) {
            (true, false) => extend::<I, 32, false>(isa, results, dst, parts),
            (true, true) => extend::<I, 32, true>(isa, results, dst, parts),
            (false, false) => extend::<I, 64, false>(isa, results, dst, parts),
            (false, true) => extend::<I, 64, true>(isa, results, dst, parts),
        }
    }
}

/// Writes lanes of `BITS` bits, each followed by a zero (which is zero in either byte order). There is a loop for each width:
/// to test the width within the loop takes longer than all else in it.
///
/// # Safety
/// As for [`reshape`].
#[inline(always)]
unsafe fn extend<I: Simd, const BITS: usize, const STREAMS: bool>(
    isa: I,
    results: *const u8,
    dst: *mut u8,
    bytes: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut at = 0;
        while at < bytes {
            let real = isa.load(results.add(at));
            let [a, b] = if BITS == 32 { isa.zext32(real) } else { isa.zip64(real, isa.splat32(0)) };
            let (a_to, b_to) = (dst.add(2 * at), dst.add(2 * at + I::BYTES));
            if STREAMS {
                isa.stream(a_to, a);
                isa.stream(b_to, b);
            } else {
                isa.store(a_to, a);
                isa.store(b_to, b);
            }
            at += I::BYTES;
        }
    }
}
