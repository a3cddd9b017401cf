//! The loops of the vector kernels, and what surrounds them: the tail, the tables, the environment.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

use super::codec::{Codec, Job, lookup};
use super::drive::{self, Core, Plan};
use super::environment::{self, Environment};
use super::isa::Isa;
use super::stage;
use crate::route::Route;

/// Every block of a codec, and the tail as a block of a buffer.
///
/// # Safety
/// As for every `Core`.
pub(super) unsafe fn blocks<I: Isa, C: Codec<I>>(job: &Job, src: *const u8, dst: *mut u8, n: usize) {
    /// Not a closure: that could not be `#[inline(always)]`, and one that is not inlined has no features.
    struct AllBlocks<'a, I, C>(&'a Job, *const u8, *mut u8, usize, PhantomData<(I, C)>);

    impl<I: Isa, C: Codec<I>> pulp::NullaryFnOnce for AllBlocks<'_, I, C> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self(job, src, dst, n, _) = self;
            // SAFETY: the promise of the caller of `blocks`; `Isa::run` enables the features.
            unsafe { all_blocks::<I, C>(job, src, dst, n) }
        }
    }

    // SAFETY: the caller's promise.
    unsafe { I::run(AllBlocks::<I, C>(job, src, dst, n, PhantomData)) }
}

/// A block of the widest elements of the widest registers.
#[repr(C, align(64))]
struct Block([MaybeUninit<u8>; 64 * 8]);

impl Block {
    const fn new() -> Self {
        Self([MaybeUninit::uninit(); 64 * 8])
    }

    fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// A cache line: what the destination is aligned to.
const LINE: usize = 64;
/// Bytes of destination from which on aligning it pays: of less, the partial block costs more than it saves.
const ALIGNS_FROM: usize = 2 << 10;

/// Elements of `width` bytes from `dst` to the next line. If elements lie across lines there is nothing to gain.
fn ahead(dst: *mut u8, width: usize) -> usize {
    let bytes = dst.addr().wrapping_neg() % LINE;
    if bytes.is_multiple_of(width) { bytes / width } else { 0 }
}

/// # Safety
/// As for every `Core`, with the features enabled.
#[inline(always)]
unsafe fn all_blocks<I: Isa, C: Codec<I>>(job: &Job, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the caller's promise. Every whole block is among the elements. A partial one is copied to a buffer
    // that has room for a whole one, and of the result only its own elements are copied back.
    unsafe {
        let setup = C::setup(job);
        let mut first = 0;
        let mut end = if n * C::DST >= ALIGNS_FROM { ahead(dst, C::DST) } else { n };
        loop {
            // To the first line of the destination, and then to the end.
            while end - first >= I::BYTES {
                C::block(&setup, src.add(first * C::SRC), dst.add(first * C::DST));
                first += I::BYTES;
            }
            let rest = end - first;
            if rest != 0 {
                let (mut room_src, mut room_dst) = (Block::new(), Block::new());
                let (s, d) = (room_src.start(), room_dst.start());
                for k in 0..C::SRC {
                    let (at, bytes) = (k * I::BYTES, rest * C::SRC);
                    let from = src.add(first * C::SRC).wrapping_add(at);
                    I::store(s.add(at), I::load_first(from, bytes.saturating_sub(at)));
                }
                C::block(&setup, s, d);
                for k in 0..C::DST {
                    let (at, bytes) = (k * I::BYTES, rest * C::DST);
                    let to = dst.add(first * C::DST).wrapping_add(at);
                    I::store_first(to, bytes.saturating_sub(at), I::load(d.add(at)));
                }
                first = end;
            }
            if first == n {
                return;
            }
            end = n;
        }
    }
}

/// Elements that are made in L1 before they are streamed to memory.
const CHUNK: usize = 1024;

/// A core whose results go past the caches, by stores that do not read a line first.
///
/// # Safety
/// As for every `Core`, and of the dtypes of the job.
unsafe fn streamed<I: Isa>(core: Core, job: &Job, src: *const u8, dst: *mut u8, n: usize) {
    /// Not a closure: see `blocks`.
    struct Stream<I>(*const u8, *mut u8, usize, PhantomData<I>);

    impl<I: Isa> pulp::NullaryFnOnce for Stream<I> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self(from, to, bytes, _) = self;
            for at in (0..bytes).step_by(I::BYTES) {
                // SAFETY: whole registers of both, `to` is aligned, and `Isa::run` enables the features.
                unsafe { I::stream(to.add(at), I::load(from.add(at))) };
            }
        }
    }

    #[repr(C, align(64))]
    struct Results([MaybeUninit<u8>; CHUNK * 8]);
    let mut results = Results([MaybeUninit::uninit(); CHUNK * 8]);
    let results = results.0.as_mut_ptr().cast::<u8>();
    let [from, to] = [job.from, job.to].map(|dtype| (dtype.bits() as usize).div_ceil(8));
    let mut first = ahead(dst, to).min(n);
    // SAFETY: the caller's promise. The buffer has room for a chunk of the widest elements; from the first line
    // on, every chunk is whole lines, and the rest is stored as usual.
    unsafe {
        core(job, src, dst, first);
        while n - first >= CHUNK && dst.add(first * to).addr().is_multiple_of(LINE) {
            core(job, src.add(first * from), results, CHUNK);
            I::run(Stream::<I>(results, dst.add(first * to), CHUNK * to, PhantomData));
            first += CHUNK;
        }
        I::run(Fence::<I>(PhantomData));
        core(job, src.add(first * from), dst.add(first * to), n - first);
    }
}

/// Orders the streamed stores before what other threads are told of them.
struct Fence<I>(PhantomData<I>);

impl<I: Isa> pulp::NullaryFnOnce for Fence<I> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        // SAFETY: `Isa::run` enables the features.
        unsafe { I::fence() }
    }
}

/// A vector kernel for plain elements.
///
/// # Safety
/// As for every `Kernel`.
pub(super) unsafe fn plain<I: Isa>(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    // Elements are their parts, one after the other.
    let units = n * plan.route.src.parts;
    // SAFETY: the caller's promise; the table chose the core for this route and a machine that has its
    // instruction set.
    unsafe {
        prepared(plan, src, dst, n, |job| match plan.core {
            Some(core) if streams(&plan.route, units) => streamed::<I>(core, job, src, dst, units),
            Some(core) => core(job, src, dst, units),
            None => {}
        });
    }
}

/// Are `n` elements (parts, of a complex dtype) more than the caches keep?
fn streams(route: &Route, n: usize) -> bool {
    // Without overflow: 8 elements are as many bytes as one has bits.
    n / 8 * (route.src.bits + route.dst.bits) as usize >= environment::streaming_threshold()
}

/// A vector kernel for elements of any layout.
///
/// # Safety
/// As for every `Kernel`.
pub(super) unsafe fn shaped<I: Isa>(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: as in `plain`.
    unsafe {
        prepared(plan, src, dst, n, |job| stage::staged::<I>(&plan.route, job, plan.core, src, dst, n));
    }
}

/// Fewer elements than the reference casts while a table is made.
const NO_TABLE: usize = 256;

/// Runs a cast with its job, in the environment that the codecs expect.
///
/// # Safety
/// As for every `Kernel`, which this may call instead.
#[inline(always)]
unsafe fn prepared(plan: &Plan, src: *const u8, dst: *mut u8, n: usize, run: impl FnOnce(&Job)) {
    let Route { from, to, policy, .. } = plan.route;
    let mut room = MaybeUninit::<[u8; lookup::BYTES]>::uninit();
    let table = match plan.table {
        Some(table) => table.as_ptr(),
        None if from.bits() <= 8 && plan.core.is_some() => {
            if n < NO_TABLE {
                // SAFETY: the caller's promise.
                return unsafe { drive::scalar(plan, src, dst, n) };
            }
            let room = room.write([0; lookup::BYTES]);
            lookup::make_table(&plan.route, room);
            room.as_ptr()
        }
        None => ptr::null(),
    };
    let _environment = Environment::new(policy.rounding);
    run(&Job { from, to, policy, table });
}
