//! Streams results past the caches, by stores that do not read a line first.
//!
//! Streaming stores have to write whole lines, but codecs do not make whole lines. So a chunk of results is made in L1, and its
//! whole lines are streamed; the rest of a line waits for the next chunk, even if that is in the next row.

use core::mem::MaybeUninit;
use core::ptr;

use super::codec::job::Job;
use super::layout::Apart;
use super::processor::this_processor;
use super::run::Run;
use super::simd::{Simd, Task};
use super::sizes::{LINE, ahead, bytes};

/// Bytes of a chunk, on the side where elements are wider.
const CHUNK: usize = 2048;
/// How many bytes ahead of a chunk the source is prefetched while the chunk is streamed, where lines are prefetched once, to L1.
const AHEAD: usize = 4096;
/// These distances where lines are prefetched twice: to L1 and, earlier, to L2. (Measured on a Granite Rapids, where float64 to
/// int8 then takes 1/1.2 of the time on AVX-512, and 1/1.5 on AVX2.)
const TWICE: [usize; 2] = [2048, 12288];

/// A number of elements that is whole blocks, and whole lines of results of `to` bits. It is a power of two.
const fn unit(to: usize) -> usize {
    if to < 8 { 512 } else { 64 }
}

/// Elements in a chunk, by the bits of an element on both sides.
pub(super) const fn chunk([from, to]: [usize; 2]) -> usize {
    let unit = unit(to);
    let most = 8 * CHUNK / if from > to { from } else { to };
    if most > unit { most / unit * unit } else { unit }
}

/// Casts rows of `n` elements as [`Job::run_rows`] does. A [`fence`](super::simd::fence) must follow.
///
/// # Safety
/// As for every `RunRows`, and its elements have so many bits in memory: whole bytes, if there are several rows.
pub(super) unsafe fn rows<I: Simd>(
    job: &Job,
    bits: [usize; 2],
    src: *const u8,
    dst: *mut u8,
    n: usize,
    apart: &Apart,
) {
    // SAFETY: the caller's rows. What `made` asks `make` for are elements of these, written to their places or to a room for as
    // many. The instruction set is available: that is promised to every `RunRows`.
    unsafe {
        let isa = I::assume();
        let make = |_: usize, src: *const u8, dst: *mut u8, n: usize| job.run_rows(src, dst, n, &Apart::ONE);
        made(isa, &Maker::new(make, true), bits, src, dst, n, apart);
    }
}

/// A function that makes results of a row, from an element on.
pub(super) struct Maker<F> {
    make: F,
    peels: bool,
}

impl<F: Fn(usize, *const u8, *mut u8, usize)> Maker<F> {
    /// `peels`: whether the first chunk of a row may end at a line of the destination. If not, all chunks begin at multiples of [`unit()`].
    ///
    /// # Safety
    /// `make` reads and writes as many elements as it is told, and no others.
    pub(super) unsafe fn new(make: F, peels: bool) -> Self {
        Self { make, peels }
    }

    /// # Safety
    /// The `n` elements are readable from `src` on and writable from `dst` on.
    #[inline(always)]
    unsafe fn make(&self, first: usize, src: *const u8, dst: *mut u8, n: usize) {
        (self.make)(first, src, dst, n);
    }
}

/// As [`rows`], but with any maker of results.
///
/// # Safety
/// As for [`rows`], and `maker` makes these results.
pub(super) unsafe fn made<I: Simd>(
    isa: I,
    maker: &Maker<impl Fn(usize, *const u8, *mut u8, usize)>,
    bits: [usize; 2],
    src: *const u8,
    dst: *mut u8,
    n: usize,
    apart: &Apart,
) {
    #[repr(C, align(64))]
    struct Lines([MaybeUninit<u8>; LINE + CHUNK]);
    const _: () = assert!(align_of::<Lines>() == LINE);
    let mut lines = Lines([MaybeUninit::uninit(); LINE + CHUNK]);
    let lines = lines.0.as_mut_ptr().cast::<u8>();
    let [from, to] = bits;
    let asks = Asks::new(bits);
    let chunk = asks.chunk(bits);
    let row = bytes(n, to);
    let is_one = apart.dst == row as isize;
    let (mut row_src, mut row_dst) = (src, dst);
    // The first line of the buffer stands for this line of the destination. In the buffer, the bytes from `begun` to `held` are
    // results that are yet to be written.
    let (mut line, mut begun, mut held) = (dst, 0, 0);
    let mut left = apart.rows;
    while left > 0 {
        // SAFETY: the caller's promise. The buffer has room for a line and a chunk; whole lines of it are streamed to
        // lines of the destination, of which every byte is one of a row.
        unsafe {
            if left == apart.rows || !is_one {
                ptr::copy_nonoverlapping(lines.add(begun), line.wrapping_add(begun), held - begun);
                begun = row_dst.addr() % LINE;
                (line, held) = (row_dst.wrapping_sub(begun), begun);
                // The last line of a row is written in part, and so is the first line of the next row, which is often adjacent.
                // They are prefetched, so that later stores need not wait for them.
                isa.run(Ask { from: row_dst.wrapping_add(row), bytes: 2 * LINE });
            }
            // Makes the elements before the next line first, so that later ones begin at lines of the buffer. If an element lies
            // across the line, nothing is peeled, nor if the destination is aligned to a register already: chunks then begin at the
            // destination's offset from a line.
            let mut first = if !maker.peels || held.is_multiple_of(I::BYTES) {
                0
            } else {
                ahead(lines.add(held), from, to).min(n)
            };
            if first > 0 {
                maker.make(0, row_src, lines.add(held), first);
            }
            held += bytes(first, to);
            while first < n {
                let elements = (n - first).min(chunk);
                maker.make(first, row_src.add(bytes(first, from)), lines.add(held), elements);
                first += elements;
                let end = held + bytes(elements, to);
                let whole = end - end % LINE;
                if whole != 0 {
                    let mut partial = 0;
                    if begun != 0 {
                        partial = LINE;
                        ptr::copy_nonoverlapping(lines.add(begun), line.wrapping_add(begun), LINE - begun);
                    }
                    isa.run(Stream {
                        from: lines.add(partial),
                        to: line.wrapping_add(partial),
                        bytes: whole - partial,
                        asks: asks
                            .at(|ahead| further(row_src, bytes(first, from) + ahead, bytes(n, from), apart)),
                    });
                    ptr::copy_nonoverlapping(lines.add(whole), lines, end - whole);
                    line = line.wrapping_add(whole);
                    begun = 0;
                }
                held = end % LINE;
            }
        }
        left -= 1;
        row_src = row_src.wrapping_offset(apart.src);
        row_dst = row_dst.wrapping_offset(apart.dst);
    }
    // SAFETY: as above.
    unsafe { ptr::copy_nonoverlapping(lines.add(begun), line.wrapping_add(begun), held - begun) };
}

/// Copies bytes, streaming whole lines. A [`fence`](super::simd::fence) must follow.
#[inline(always)]
pub(super) fn copied<I: Simd>(isa: I, run: Run) {
    let asks = Asks::new([8, 8]);
    run.by_lines(|from, to, bytes| {
        isa.run(Stream { from, to, bytes, asks: asks.at(|ahead| from.wrapping_add(ahead)) });
    });
}

/// The place `bytes` bytes further along rows of `row` bytes.
fn further(src: *const u8, bytes: usize, row: usize, apart: &Apart) -> *const u8 {
    if bytes < row || apart.rows == 1 {
        return src.wrapping_add(bytes);
    }
    src.wrapping_offset(apart.src.wrapping_mul((bytes / row) as isize)).wrapping_add(bytes % row)
}

/// Prefetches bytes to L1. Their addresses need not be valid.
#[inline(always)]
pub(super) fn ask<I: Simd>(isa: I, from: *const u8, bytes: usize) {
    let mut at = 0;
    while at < bytes {
        isa.prefetch(from.wrapping_add(at));
        at += LINE;
    }
}

/// Prefetches bytes to L2. Their addresses need not be valid.
#[inline(always)]
pub(super) fn ask_far<I: Simd>(isa: I, from: *const u8, bytes: usize) {
    let mut at = 0;
    while at < bytes {
        isa.prefetch_far(from.wrapping_add(at));
        at += LINE;
    }
}

/// [`ask`] as a task.
struct Ask {
    from: *const u8,
    bytes: usize,
}

impl<I: Simd> Task<I> for Ask {
    type Output = ();

    #[inline(always)]
    fn call(self, isa: I) {
        ask(isa, self.from, self.bytes);
    }
}

/// What is prefetched while a chunk of results is streamed: first as distances in bytes, then as places.
#[derive(Clone, Copy)]
struct Asks<T> {
    /// Bytes of the source that are prefetched with each line of results.
    step: usize,
    /// Where to prefetch to L1.
    near: T,
    /// Where to prefetch to L2, if at all.
    far: Option<T>,
}

impl Asks<usize> {
    /// For casts between elements of these numbers of bits.
    #[inline(never)]
    fn new([from, to]: [usize; 2]) -> Self {
        let processor = this_processor();
        let step = if from >= to && processor.reads_ahead() { 0 } else { LINE * from / to };
        let [near, far] = TWICE;
        if from >= to && processor.asks_twice() {
            Self { step, near, far: Some(far) }
        } else {
            Self { step, near: AHEAD, far: None }
        }
    }

    /// Elements in a chunk. Where lines are prefetched twice, it is better to do so more often, in shorter chunks, unless there
    /// is little to compute: in casts that only halve 32 or 64 bits.
    #[inline(never)]
    fn chunk(&self, bits: [usize; 2]) -> usize {
        let [from, to] = bits;
        match (chunk(bits), unit(to)) {
            (most, unit) if self.far.is_some() && (from < 32 || from > 2 * to) => {
                (most / 2 / unit * unit).max(unit)
            }
            (most, _) => most,
        }
    }

    #[inline(always)]
    fn at(self, place: impl Fn(usize) -> *const u8) -> Asks<*const u8> {
        Asks { step: self.step, near: place(self.near), far: self.far.map(place) }
    }
}

/// Streams whole lines, and meanwhile prefetches the source where that gains: otherwise memory would not be read while it is written.
struct Stream {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    asks: Asks<*const u8>,
}

impl<I: Simd> Task<I> for Stream {
    type Output = ();

    #[inline(always)]
    fn call(self, isa: I) {
        let Asks { step, near, far } = self.asks;
        let (mut at, mut asked, mut due) = (0, 0, 0);
        while at < self.bytes {
            // SAFETY: whole registers of both, and `to` is aligned.
            unsafe {
                for k in 0..LINE / I::BYTES {
                    let v = isa.load(self.from.add(at + k * I::BYTES));
                    isa.stream(self.to.add(at + k * I::BYTES), v);
                }
            }
            due += step;
            while asked < due {
                isa.prefetch(near.wrapping_add(asked));
                if let Some(far) = far {
                    isa.prefetch_far(far.wrapping_add(asked));
                }
                asked += LINE;
            }
            at += LINE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_whole_units_and_have_room() {
        for from in [1, 2, 4, 6, 8, 16, 32, 64, 128] {
            for to in [1, 2, 4, 6, 8, 16, 32, 64, 128] {
                for far in [None, Some(TWICE[1])] {
                    let n = Asks { step: LINE, near: AHEAD, far }.chunk([from, to]);
                    assert!(n > 0 && n.is_multiple_of(unit(to)), "{from} to {to}: {n}");
                    assert!(bytes(n, to) <= CHUNK, "{from} to {to}: {n}");
                }
            }
        }
    }
}
