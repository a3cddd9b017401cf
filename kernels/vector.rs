//! The loops of the vector kernels, and what surrounds them: the tail, the tables, the environment.

use core::hint;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

use super::codec::{Codec, Ends, Job, group};
use super::drive::{self, Apart, Core, Plan};
use super::environment::{self, Environment};
use super::isa::Isa;
use super::moves;
use super::stage;
use super::stream;
use crate::formats::options::Rounding;
use crate::formats::route::{Parts, Route};

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

/// Elements of which [`few`] is asked to cast no more.
pub(super) const FEW: usize = 16;

/// One or more elements, whole bytes of them in native order, in blocks of [`FEW`], of which nothing else is computed.
///
/// # Safety
/// As for every `Core`. `I` is the form of an instruction set that is for a few.
#[inline(always)]
pub(super) unsafe fn few<I: Isa, C: Codec<I>>(job: &Job, src: *const u8, dst: *mut u8, n: usize) {
    /// Not a closure: see [`blocks`].
    struct Few<'a, I, C>(&'a Job, *const u8, *mut u8, usize, PhantomData<(I, C)>);

    impl<I: Isa, C: Codec<I>> pulp::NullaryFnOnce for Few<'_, I, C> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self(job, mut src, mut dst, mut left, _) = self;
            // SAFETY: the promise of the caller of `few`; `Isa::run` enables the features. The buffers have room for a
            // block, and what is read of the second was written, by this or by the codec.
            unsafe {
                // Nothing but that changes what these operations do. None of them moves out of its scope: they take what
                // is loaded after it begins, and what they make is stored before it ends.
                let _environment = if C::FLOATS && !I::keeps_subnormals() {
                    Some(Environment::new(Rounding::NearestEven))
                } else {
                    None
                };
                let (setup, ends) = (C::setup(job), Ends::of::<C::From>(job).native());
                let (mut room_src, mut room_dst) = (Block::new(), Block::new());
                let (room_src, room_dst) = (room_src.start(), room_dst.start());
                if C::DST < 8 {
                    I::store(room_dst, I::splat8(0));
                }
                loop {
                    let n = if left < FEW { left } else { FEW };
                    // So the compiler knows which registers nobody reads.
                    hint::assert_unchecked(n.wrapping_sub(1) < FEW);
                    let (taken, made) = ((n * C::SRC).div_ceil(8), (n * C::DST).div_ceil(8));
                    I::copy_in(src, taken, room_src, C::SRC.div_ceil(8));
                    C::block(&setup, ends, room_src, room_dst);
                    let mut at = 0;
                    while at < made {
                        let mut v = I::load(room_dst.add(at));
                        if C::DST < 8 {
                            // Of the last byte, the bits of no element are 0.
                            let unused = 8 * made - n * C::DST;
                            let kept = if ends.dst_high { 0xFF << unused } else { 0xFF >> unused };
                            v = I::keep_of_byte(v, made - 1, kept);
                        }
                        I::store_first(dst.add(at), v, made - at);
                        at += I::BYTES;
                    }
                    left -= n;
                    if left == 0 {
                        break;
                    }
                    (src, dst) = (src.add(taken), dst.add(made));
                }
            }
        }
    }

    // SAFETY: the caller's promise.
    unsafe { I::run(Few::<I, C>(job, src, dst, n, PhantomData)) }
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
pub(super) const fn bytes(n: usize, bits: usize) -> usize {
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

/// A vector kernel for elements that a codec reads and writes as they are.
///
/// # Safety
/// As for every `Kernel`.
pub(super) unsafe fn plain<I: Isa>(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    match plan.ready {
        Some(core) if n < MANY => {
            let _environment = core.floats.then(|| Environment::new(plan.route.policy.rounding));
            // SAFETY: the caller's promise; the table chose the core.
            unsafe { core.run(&plan.job, src, dst, core_units(&plan.route, n)) }
        }
        // SAFETY: the caller's promise.
        _ => unsafe { many::<I>(plan, src, dst, n) },
    }
}

/// Elements from which on a cast has something to prepare: groups, and streams. Fewer pay for nothing of that.
const MANY: usize = 4096;

/// [`plain`] of any number of elements.
///
/// # Safety
/// As for every `Kernel`.
#[inline(never)]
unsafe fn many<I: Isa>(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    let route = &plan.route;
    let (bits, units) = (core_bits(route), core_units(route, n));
    // SAFETY: the caller's promise; the table chose the cores for this route and a machine that has its
    // instruction set. A multiple of 8 elements ends with a byte on both sides.
    unsafe {
        let mut grouped = 0;
        if n >= MANY
            && let Some(core) = plan.groups
        {
            grouped = n & !7;
            let table = group::make_table(route);
            let job = plan.job.with_table(table.0.as_ptr());
            let bits = [8, group::made_bits(route)];
            run::<I>(plan, core, &job, bits, src, dst, grouped / group::per_byte(route));
        }
        if let Some(core) = plan.core {
            let _environment = environment(plan);
            let (src, dst) = (src.add(bytes(grouped, bits[0])), dst.add(bytes(grouped, bits[1])));
            run::<I>(plan, core, &plan.job, bits, src, dst, units - grouped);
        }
    }
}

/// What a core takes for `n` elements: these, or their parts, one after the other.
#[inline(always)]
pub(super) fn core_units(route: &Route, n: usize) -> usize {
    if route.parts == Parts::Two { 2 * n } else { n }
}

/// Bits of that on both sides.
pub(super) fn core_bits(route: &Route) -> [usize; 2] {
    let [from, to] = [&route.src, &route.dst].map(|layout| layout.memory_bits() as usize);
    // Of every second part nothing becomes anything.
    [if route.parts == Parts::Real { 2 * from } else { from }, to]
}

/// A core on elements of so many bits, past the caches if they do not keep the result.
///
/// # Safety
/// As for every `Core`.
unsafe fn run<I: Isa>(
    plan: &Plan,
    core: Core,
    job: &Job,
    bits: [usize; 2],
    src: *const u8,
    dst: *mut u8,
    n: usize,
) {
    let streams = streams(&plan.route, n, (bits[0] + bits[1]) as u32) && n >= 2 * stream::chunk(bits);
    // SAFETY: the caller's promise.
    unsafe {
        if streams {
            stream::rows::<I>(&core, job, bits, src, dst, n, &Apart::ONE);
            if plan.fences {
                stream::fence::<I>();
            }
        } else {
            core.run(job, src, dst, n);
        }
    }
}

/// Are `n` elements of so many bits on both sides together more than the caches keep?
pub(super) fn streams(route: &Route, n: usize, bits: u32) -> bool {
    // 8 elements are as many bytes as one has bits. Those of a view may be more than there is memory: they repeat.
    (n / 8).saturating_mul(bits as usize)
        >= route.stream_from.unwrap_or_else(environment::streaming_threshold)
}

/// A vector kernel for elements of any layout.
///
/// # Safety
/// As for every `Kernel`.
pub(super) unsafe fn shaped<I: Isa>(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: as in `plain`.
    unsafe {
        if n.wrapping_sub(1) < FEW && plan.hub.is_none() {
            let _environment = if plan.few_parts.is_none() { environment(plan) } else { None };
            return stage::few(plan, src, dst, n);
        }
        let _environment = environment(plan);
        stage::staged::<I>(plan, src, dst, n);
    }
}

/// [`Work::Copy`](crate::formats::route::Work::Copy), by registers where memcpy may be slow.
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
