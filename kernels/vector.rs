//! The loops of the vector kernels, and what surrounds them: the tail, the tables, the environment.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

use super::codec::{Codec, Ends, Job, group};
use super::drive::{self, Apart, Core, Plan};
use super::environment::{self, Environment};
use super::isa::Isa;
use super::moves;
use super::stage;
use crate::route::{Parts, Route};

/// Every block of a codec, and the tail of each row as a block of a buffer.
///
/// # Safety
/// As for every `Core`.
#[inline(always)]
pub(super) unsafe fn blocks<I: Isa, C: Codec<I>>(
    job: &Job,
    src: *const u8,
    dst: *mut u8,
    n: usize,
    apart: &Apart,
) {
    /// Not a closure: that could not be `#[inline(always)]`, and one that is not inlined has no features.
    struct AllBlocks<'a, I, C>(&'a Job, *const u8, *mut u8, usize, &'a Apart, PhantomData<(I, C)>);

    impl<I: Isa, C: Codec<I>> pulp::NullaryFnOnce for AllBlocks<'_, I, C> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self(job, src, dst, n, apart, _) = self;
            // SAFETY: the promise of the caller of `blocks`; `Isa::run` enables the features.
            unsafe { all_blocks::<I, C>(job, src, dst, n, apart) }
        }
    }

    // SAFETY: the caller's promise.
    unsafe { I::run(AllBlocks::<I, C>(job, src, dst, n, apart, PhantomData)) }
}

/// Bytes of a block of the widest elements in the widest registers.
const BLOCK: usize = 64 * 16;

#[repr(C, align(64))]
struct Block([MaybeUninit<u8>; BLOCK]);

impl Block {
    const fn new() -> Self {
        Self([MaybeUninit::uninit(); BLOCK])
    }

    fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// A cache line: what the destination is aligned to.
pub(super) const LINE: usize = 64;
/// Bytes of destination from which on aligning it pays: of less, the partial block costs more than it saves. Of registers
/// as wide as a line every store lies across two lines, of others only some do. (Measured on Zen 5, and on Zen 3.)
const fn aligns_from<I: Isa>() -> usize {
    if I::BYTES == LINE { 2 << 10 } else { 16 << 10 }
}

/// Bytes of `n` elements of `bits` bits in a row.
#[inline(always)]
const fn bytes(n: usize, bits: usize) -> usize {
    // Without overflow: no more than a buffer has.
    if bits >= 8 { n * (bits / 8) } else { n / 8 * bits + (n % 8 * bits).div_ceil(8) }
}

/// Elements of `to` bits from `dst` to the next line: 0 if an element lies across it, or if packed ones would
/// not end with a byte on both sides.
#[inline(always)]
pub(super) fn ahead(dst: *mut u8, from: usize, to: usize) -> usize {
    let bits = 8 * (dst.addr().wrapping_neg() % LINE);
    let unit = if from < 8 || to < 8 { 8 } else { 1 };
    if bits.is_multiple_of(unit * to) { bits / to } else { 0 }
}

/// The elements of a row that are left.
struct Left {
    src: *const u8,
    dst: *mut u8,
    n: usize,
}

impl Left {
    /// Behind a whole block.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    unsafe fn step<I: Isa, C: Codec<I>>(&mut self) {
        // SAFETY: the caller's promise.
        unsafe {
            self.src = self.src.add(const { bytes(I::BYTES, C::SRC) });
            self.dst = self.dst.add(const { bytes(I::BYTES, C::DST) });
        }
        self.n -= I::BYTES;
    }

    /// Casts the whole blocks.
    ///
    /// # Safety
    /// As for every `Core`, with the features enabled.
    #[inline(always)]
    unsafe fn whole_blocks<I: Isa, C: Codec<I>>(&mut self, setup: &C::Setup, ends: Ends<I>) {
        while self.n >= I::BYTES {
            // SAFETY: the caller's promise; there is a block.
            unsafe {
                C::block(setup, ends, self.src, self.dst);
                self.step::<I, C>();
            }
        }
    }
}

/// # Safety
/// As for every `Core`, with the features enabled.
#[inline(always)]
unsafe fn all_blocks<I: Isa, C: Codec<I>>(job: &Job, src: *const u8, dst: *mut u8, n: usize, apart: &Apart) {
    const { assert!(C::SRC.div_ceil(8) * I::BYTES <= BLOCK && C::DST.div_ceil(8) * I::BYTES <= BLOCK) };
    // SAFETY: the caller's promise. Every whole block is among the elements. A partial one goes through buffers
    // that have room for a whole one: its bytes are copied to one, and from the other only its own. Blocks begin
    // at whole bytes: after a multiple of 8 elements, or of elements that are whole bytes.
    unsafe {
        let (setup, ends) = (C::setup(job), Ends::of::<C::From>(job));
        let (mut room_src, mut room_dst) = (Block::new(), Block::new());
        let (room_src, room_dst) = (room_src.start(), room_dst.start());
        let (mut row_src, mut row_dst, mut rows) = (src, dst, apart.rows);
        while rows > 0 {
            // To a line of the destination, if there is one to come to; then to the end.
            let peeled = if bytes(n, C::DST) >= const { aligns_from::<I>() } {
                ahead(row_dst, C::SRC, C::DST) % I::BYTES
            } else {
                0
            };
            let (first, mut rest) = if peeled != 0 { (peeled, n - peeled) } else { (n, 0) };
            let mut left = Left { src: row_src, dst: row_dst, n: first };
            loop {
                if C::IS_SHORT {
                    let has_order = const { C::SRC > 8 || C::DST > 8 };
                    if has_order && ends.is_swapped() {
                        left.whole_blocks::<I, C>(&setup, ends);
                    } else {
                        left.whole_blocks::<I, C>(&setup, ends.native());
                    }
                }
                // Of the others, one call of the codec, for the space.
                let (mut from, mut to) = (left.src, left.dst);
                // A branch decides, not a minimum: through that, each block would wait for the one before.
                let is_partial = C::IS_SHORT || left.n < I::BYTES;
                if is_partial {
                    if left.n == 0 {
                        break;
                    }
                    I::copy_in(left.src, bytes(left.n, C::SRC), room_src, C::SRC.div_ceil(8));
                    (from, to) = (room_src, room_dst);
                }
                C::block(&setup, ends, from, to);
                if is_partial {
                    let made = bytes(left.n, C::DST);
                    if C::DST < 8 {
                        // Of the last byte, the bits of no element are 0.
                        let unused = 8 * made - left.n * C::DST;
                        let kept = if ends.dst_high { 0xFFu8 << unused } else { 0xFF >> unused };
                        *room_dst.add(made - 1) &= kept;
                    }
                    I::copy_out(room_dst, made, left.dst);
                    (left.src, left.dst) = (left.src.add(bytes(left.n, C::SRC)), left.dst.add(made));
                    (left.n, rest) = (rest, 0);
                } else {
                    // By constants, which they would not be after the branch.
                    left.step::<I, C>();
                }
            }
            rows -= 1;
            row_src = row_src.wrapping_offset(apart.src);
            row_dst = row_dst.wrapping_offset(apart.dst);
        }
    }
}

/// Bytes of a chunk, which is made in L1 and then streamed to memory, on the side where it is larger.
const CHUNK: usize = 2048;
/// Bytes of the source, behind those of a chunk, that memory is asked for while the chunk is streamed.
const AHEAD: usize = 4096;

/// Elements that are whole blocks, and end with a line where they become so many bits: a power of two.
const fn unit(to: usize) -> usize {
    if to < 8 { 512 } else { 64 }
}

/// Elements of so many bits on both sides in a chunk.
const fn chunk([from, to]: [usize; 2]) -> usize {
    let unit = unit(to);
    let most = 8 * CHUNK / if from > to { from } else { to };
    if most > unit { most / unit * unit } else { unit }
}

/// A core whose results go past the caches, by stores that do not read a line first. There is a chunk at least.
///
/// # Safety
/// As for every `Core`, whose elements have so many bits in memory.
unsafe fn streamed<I: Isa>(core: Core, job: &Job, bits: [usize; 2], src: *const u8, dst: *mut u8, n: usize) {
    #[repr(C, align(64))]
    struct Lines([MaybeUninit<u8>; LINE + CHUNK]);
    let mut lines = Lines([MaybeUninit::uninit(); LINE + CHUNK]);
    let lines = lines.0.as_mut_ptr().cast::<u8>();
    let [from, to] = bits;
    let mut first = ahead(dst, from, to);
    // Where elements do not end with a line, results are made as far behind one as the destination is, so that
    // lines of the buffer are lines of the destination. The last bytes wait for the next chunk.
    let behind = dst.wrapping_add(bytes(first, to)).addr() % LINE;
    // The last line is written in part, and so is the first of a next row, which is often behind it: if they are not
    // there by then, what is streamed next waits for them.
    let last = Ask::<I> { from: dst.wrapping_add(bytes(n, to)), bytes: 2 * LINE, isa: PhantomData };
    // SAFETY: the instruction set is available.
    unsafe { I::run(last) };
    // SAFETY: the caller's promise. The buffer has room for a line and a chunk of the widest elements; chunks are
    // whole lines, and those lines are streamed that are full.
    unsafe {
        core.run(job, src, dst, first);
        let mut line = dst.add(bytes(first, to)).wrapping_sub(behind);
        let mut begun = if behind == 0 { 0 } else { LINE };
        loop {
            // The last chunk may be shorter: stores that read a line first would take longer than all the others.
            let elements = ((n - first) & !(unit(to) - 1)).min(chunk(bits));
            if elements == 0 {
                break;
            }
            let chunk = bytes(elements, to);
            core.run(job, src.add(bytes(first, from)), lines.add(behind), elements);
            first += elements;
            ptr::copy_nonoverlapping(
                lines.add(behind),
                line.wrapping_add(behind),
                begun.saturating_sub(behind),
            );
            I::run(Stream::<I> {
                from: lines.add(begun),
                to: line.wrapping_add(begun),
                bytes: chunk - begun,
                next: src.wrapping_add(bytes(first, from) + AHEAD),
                step: LINE * from / to.max(1),
                isa: PhantomData,
            });
            ptr::copy_nonoverlapping(lines.add(chunk), lines, behind);
            line = line.wrapping_add(chunk);
            begun = 0;
        }
        fence::<I>();
        ptr::copy_nonoverlapping(lines, line, behind);
        core.run(job, src.add(bytes(first, from)), line.add(behind), n - first);
    }
}

/// Asks memory for bytes that will be read soon, whether they are there or not.
///
/// # Safety
/// The features are enabled.
#[inline(always)]
pub(super) unsafe fn ask<I: Isa>(from: *const u8, bytes: usize) {
    let mut at = 0;
    while at < bytes {
        // SAFETY: the caller's promise.
        unsafe { I::prefetch(from.wrapping_add(at)) };
        at += LINE;
    }
}

/// [`ask`]. (Not a closure: see `blocks`.)
struct Ask<I> {
    from: *const u8,
    bytes: usize,
    isa: PhantomData<I>,
}

impl<I: Isa> pulp::NullaryFnOnce for Ask<I> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        // SAFETY: `Isa::run` enables the features.
        unsafe { ask::<I>(self.from, self.bytes) }
    }
}

/// Streams whole lines, and meanwhile asks for as much of the source: else memory would have nothing to read while it
/// writes. (Not a closure: see `blocks`.)
struct Stream<I> {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    next: *const u8,
    /// Bytes of the source for a line.
    step: usize,
    isa: PhantomData<I>,
}

impl<I: Isa> pulp::NullaryFnOnce for Stream<I> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let (mut at, mut asked, mut due) = (0, 0, 0);
        while at < self.bytes {
            // SAFETY: whole registers of both, `to` is aligned, and `Isa::run` enables the features. What is asked
            // for need not be there.
            unsafe {
                for k in 0..LINE / I::BYTES {
                    let v = I::load(self.from.add(at + k * I::BYTES));
                    I::stream(self.to.add(at + k * I::BYTES), v);
                }
                due += self.step;
                while asked < due {
                    I::prefetch(self.next.wrapping_add(asked));
                    asked += LINE;
                }
            }
            at += LINE;
        }
    }
}

/// Orders streamed stores before what other threads are told of them.
///
/// # Safety
/// The instruction set is available.
pub(super) unsafe fn fence<I: Isa>() {
    /// Not a closure: see `blocks`.
    struct Fence<I>(PhantomData<I>);

    impl<I: Isa> pulp::NullaryFnOnce for Fence<I> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            // SAFETY: `Isa::run` enables the features.
            unsafe { I::fence() }
        }
    }

    // SAFETY: the caller's promise.
    unsafe { I::run(Fence::<I>(PhantomData)) }
}

/// A vector kernel for elements that a codec reads and writes as they are.
///
/// # Safety
/// As for every `Kernel`.
pub(super) unsafe fn plain<I: Isa>(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    match plan.ready {
        Some(core) if n < FEW => {
            let _environment = core.floats.then(|| Environment::new(plan.route.policy.rounding));
            let units = if plan.route.parts == Parts::Two { 2 * n } else { n };
            // SAFETY: the caller's promise; the table chose the core.
            unsafe { core.run(&plan.job, src, dst, units) }
        }
        // SAFETY: the caller's promise.
        _ => unsafe { many::<I>(plan, src, dst, n) },
    }
}

/// Elements from which on a cast has something to prepare: groups, and streams. Fewer pay for nothing of that.
const FEW: usize = 4096;

/// The core that alone is a cast of up to `n` elements, in the environment that it expects.
pub(super) fn ready(plan: &Plan, n: usize) -> Option<Core> {
    let route = &plan.route;
    let prepares = n >= FEW
        && (plan.groups.is_some() || streams(route, n, route.src.memory_bits() + route.dst.memory_bits()));
    plan.ready.filter(|_| !prepares)
}

/// [`plain`] of any number of elements.
///
/// # Safety
/// As for every `Kernel`.
#[inline(never)]
unsafe fn many<I: Isa>(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    let route = &plan.route;
    let mut bits = [&route.src, &route.dst].map(|layout| layout.memory_bits() as usize);
    let mut units = n;
    match route.parts {
        // Elements are their parts, one after the other.
        Parts::Two => units = 2 * n,
        // Of every second part nothing becomes anything.
        Parts::Real => bits[0] *= 2,
        _ => {}
    }
    // SAFETY: the caller's promise; the table chose the cores for this route and a machine that has its
    // instruction set. A multiple of 8 elements ends with a byte on both sides.
    unsafe {
        let mut grouped = 0;
        if n >= FEW
            && let Some(core) = plan.groups
        {
            grouped = n & !7;
            let table = group::make_table(route);
            let job = plan.job.with_table(table.0.as_ptr());
            let bits = [8, group::made_bits(route)];
            run::<I>(route, core, &job, bits, src, dst, grouped / group::per_byte(route));
        }
        if let Some(core) = plan.core {
            let _environment = environment(plan);
            let (src, dst) = (src.add(bytes(grouped, bits[0])), dst.add(bytes(grouped, bits[1])));
            run::<I>(route, core, &plan.job, bits, src, dst, units - grouped);
        }
    }
}

/// A core on elements of so many bits, past the caches if they do not keep the result.
///
/// # Safety
/// As for every `Core`.
unsafe fn run<I: Isa>(
    route: &Route,
    core: Core,
    job: &Job,
    bits: [usize; 2],
    src: *const u8,
    dst: *mut u8,
    n: usize,
) {
    let streams = streams(route, n, (bits[0] + bits[1]) as u32) && n >= 2 * chunk(bits);
    // SAFETY: the caller's promise.
    unsafe { if streams { streamed::<I>(core, job, bits, src, dst, n) } else { core.run(job, src, dst, n) } }
}

/// Are `n` elements of so many bits on both sides together more than the caches keep?
pub(super) fn streams(route: &Route, n: usize, bits: u32) -> bool {
    // Without overflow: 8 elements are as many bytes as one has bits.
    n / 8 * bits as usize >= route.stream_from.unwrap_or_else(environment::streaming_threshold)
}

/// A vector kernel for elements of any layout.
///
/// # Safety
/// As for every `Kernel`.
pub(super) unsafe fn shaped<I: Isa>(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    let _environment = environment(plan);
    // SAFETY: as in `plain`.
    unsafe { stage::staged::<I>(plan, src, dst, n) }
}

/// [`Work::Copy`](crate::route::Work::Copy), by registers where memcpy may be slow.
///
/// # Safety
/// As for every `Kernel`.
pub(super) unsafe fn copy<I: Isa>(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    unsafe fn bytes<I: Isa>(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if moves::lie_alike(from, to, bytes) {
                moves::copy_long::<I>(from, to, bytes);
            } else {
                ptr::copy_nonoverlapping(from, to, bytes);
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { drive::copy_by(bytes::<I>, plan, src, dst, n) }
}

/// The environment that the codecs of a cast expect, if they do.
fn environment(plan: &Plan) -> Option<Environment> {
    let hub = plan.hub.map(|(core, _)| core);
    let floats = [plan.core, hub].into_iter().flatten().any(|core| core.floats);
    floats.then(|| Environment::new(plan.route.policy.rounding))
}
