//! The loops of the vector kernels, and what surrounds them: the tail, the tables, the environment.

use core::hint;
use core::mem::MaybeUninit;
use core::ptr;

use super::codec::{Codec, Ends, Job};
use super::drive::{self, Apart, Plan, Planned, Scale};
use super::environment::Environment;
use super::moves;
use super::simd::Simd;
use super::stage;
use super::stream;
use crate::formats::route::{Parts, Route};

/// Up to so many elements are cast without a tile, and by registers alone where an instruction set loads parts of them.
pub(super) const FEW: usize = 16;

/// Registers of a block of the widest elements: of the source, complex128, and of the destination, of which every part is one.
const WIDEST: [usize; 2] = [16, 8];

/// Room for so many registers.
struct Room<I: Simd, const N: usize>(MaybeUninit<[I::V; N]>);

impl<I: Simd, const N: usize> Room<I, N> {
    #[inline(always)]
    const fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    #[inline(always)]
    fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// A cache line: what the destination is aligned to.
pub(super) const LINE: usize = 64;
/// Bytes of destination from which on aligning it pays: of less, the partial block costs more than it saves. Of registers
/// as wide as a line every store lies across two lines, of others only some do. (Measured on Zen 5, and on Zen 3.)
const fn aligns_from<I: Simd>() -> usize {
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

/// Every block of a codec; what is no whole block of a row goes through a buffer.
///
/// # Safety
/// As for every `Core`, with the features enabled.
#[inline(always)]
pub(super) unsafe fn rows<I: Simd, C: Codec<I>>(
    job: &Job,
    src: *const u8,
    dst: *mut u8,
    n: usize,
    apart: &Apart,
) -> bool {
    const { assert!(C::SRC.div_ceil(8) <= WIDEST[0] && C::DST.div_ceil(8) <= WIDEST[1]) };
    // SAFETY: the caller's promise. Every whole block is among the elements. A partial one goes through buffers
    // that have room for a whole one: its bytes are copied to one, and from the other only its own. Blocks begin
    // at whole bytes: after a multiple of 8 elements, or of elements that are whole bytes.
    unsafe {
        // Instructions that carry their rounding depend on nothing else.
        if const { I::CARRIES_ROUNDING && C::FLOATS } && !I::keeps_subnormals() {
            return false;
        }
        let (setup, ends) = (C::setup(job), Ends::of::<C::From>(job));
        if const { I::CARRIES_ROUNDING }
            && n.wrapping_sub(1) < FEW
            && apart.rows == 1
            && (C::DST >= 8 || n.is_multiple_of(8))
        {
            few::<I, C>(&setup, ends, src, dst, n);
            return true;
        }
        let (mut room_src, mut room_dst) = (Room::<I, { WIDEST[0] }>::new(), Room::<I, { WIDEST[1] }>::new());
        let (room_src, room_dst) = (room_src.start(), room_dst.start());
        if C::DST < 8 {
            // The codec writes less than a register, and all of it is read.
            I::store(room_dst, I::splat8(0));
        }
        let (mut row_src, mut row_dst, mut rows) = (src, dst, apart.rows);
        while rows > 0 {
            // To a line of the destination, if there is one to come to; then to the end.
            let peeled = if bytes(n, C::DST) >= const { aligns_from::<I>() } {
                ahead(row_dst, C::SRC, C::DST) % I::BYTES
            } else {
                0
            };
            let (mut left, mut rest) = if peeled != 0 { (peeled, n - peeled) } else { (n, 0) };
            let (mut from, mut to) = (row_src, row_dst);
            // Where a partial block comes from and goes to, while the loop casts it in the buffers: the codec stands here
            // once, for the space.
            let mut outside: Option<(*const u8, *mut u8)> = None;
            loop {
                let mut blocks = if outside.is_none() { left / I::BYTES } else { 1 };
                while blocks > 0 {
                    C::block(&setup, ends, from, to);
                    from = from.add(const { bytes(I::BYTES, C::SRC) });
                    to = to.add(const { bytes(I::BYTES, C::DST) });
                    blocks -= 1;
                }
                left %= I::BYTES;
                if let Some((outside_src, outside_dst)) = outside.take() {
                    let made = bytes(left, C::DST);
                    if C::DST < 8 {
                        // Of the last byte, the bits of no element are 0.
                        let unused = 8 * made - left * C::DST;
                        let kept = if ends.dst_high { 0xFFu8 << unused } else { 0xFF >> unused };
                        *room_dst.add(made - 1) &= kept;
                    }
                    I::copy_out(room_dst, made, outside_dst);
                    (from, to) = (outside_src.add(bytes(left, C::SRC)), outside_dst.add(made));
                    (left, rest) = (rest, 0);
                    if left == 0 {
                        break;
                    }
                } else if left == 0 {
                    break;
                } else {
                    I::copy_in(from, bytes(left, C::SRC), room_src, C::SRC.div_ceil(8));
                    outside = Some((from, to));
                    (from, to) = (room_src, room_dst);
                }
            }
            rows -= 1;
            row_src = row_src.wrapping_offset(apart.src);
            row_dst = row_dst.wrapping_offset(apart.dst);
        }
    }
    true
}

/// Every block of a codec of elements under scales; the last, if it is no whole one, through a buffer.
///
/// # Safety
/// As for every `RunScaled`, with the features enabled.
#[inline(always)]
pub(super) unsafe fn scaled<I: Simd, C: Codec<I>>(
    job: &Job,
    scale: &Scale,
    src: *const u8,
    dst: *mut u8,
    n: usize,
) {
    // SAFETY: as in `rows`.
    unsafe {
        let setup = C::setup(job);
        let mut ends = Ends { scale: *scale, ..Ends::of::<C::From>(job) };
        let (mut room_src, mut room_dst) = (Room::<I, { WIDEST[0] }>::new(), Room::<I, { WIDEST[1] }>::new());
        let (mut from, mut to) = (src, dst);
        let (mut blocks, mut left) = (n / I::BYTES, n % I::BYTES);
        let mut outside: Option<*mut u8> = None;
        loop {
            while blocks > 0 {
                C::block(&setup, ends, from, to);
                from = from.add(const { bytes(I::BYTES, C::SRC) });
                to = to.add(const { bytes(I::BYTES, C::DST) });
                ends.scale.at += I::BYTES;
                blocks -= 1;
            }
            if let Some(outside) = outside {
                let made = bytes(left, C::DST);
                if C::DST < 8 {
                    // Of the last byte, the bits of no element are 0.
                    let unused = 8 * made - left * C::DST;
                    let kept = if ends.dst_high { 0xFFu8 << unused } else { 0xFF >> unused };
                    *room_dst.start().add(made - 1) &= kept;
                }
                I::copy_out(room_dst.start(), made, outside);
                left = 0;
            }
            if left == 0 {
                break;
            }
            if C::DST < 8 {
                // The codec writes less than a register, and all of it is read.
                I::store(room_dst.start(), I::splat8(0));
            }
            I::copy_in(from, bytes(left, C::SRC), room_src.start(), C::SRC.div_ceil(8));
            outside = Some(to);
            (from, to, blocks) = (room_src.start(), room_dst.start(), 1);
        }
    }
}

/// Are [`FEW`] elements of so many bits whole registers? Those are loaded and stored whole: to load what was just stored by a mask
/// takes long.
const fn is_whole<I: Simd>(bits: usize) -> bool {
    (FEW * bits).is_multiple_of(8 * I::BYTES)
}

/// One to [`FEW`] elements, whole bytes of them. The compiler sees which registers of a block have none, and what becomes of
/// those is not computed.
///
/// # Safety
/// As for every `Core`, with the features enabled.
#[inline(always)]
unsafe fn few<I: Simd, C: Codec<I>>(setup: &C::Setup, ends: Ends<I>, src: *const u8, dst: *mut u8, n: usize) {
    let (mut room_src, mut room_dst) = (Room::<I, { WIDEST[0] }>::new(), Room::<I, { WIDEST[1] }>::new());
    let (room_src, room_dst) = (room_src.start(), room_dst.start());
    // SAFETY: the caller's promise. The rooms are for a block; of what the codec writes, no more is read.
    unsafe {
        hint::assert_unchecked(n.wrapping_sub(1) < FEW);
        if n == FEW && const { is_whole::<I>(C::SRC) } {
            I::copy(src, room_src, const { bytes(FEW, C::SRC) });
            let mut at = const { bytes(FEW, C::SRC) };
            while at < C::SRC.div_ceil(8) * I::BYTES {
                I::store(room_src.add(at), I::splat8(0));
                at += I::BYTES;
            }
        } else {
            I::copy_in(src, bytes(n, C::SRC), room_src, C::SRC.div_ceil(8));
        }
        if C::DST < 8 {
            I::store(room_dst, I::splat8(0));
        }
        C::block(setup, ends, room_src, room_dst);
        if n == FEW && const { is_whole::<I>(C::DST) } {
            I::copy(room_dst, dst, const { bytes(FEW, C::DST) });
        } else {
            I::copy_out(room_dst, bytes(n, C::DST), dst);
        }
    }
}

/// A vector kernel for elements that a codec reads and writes as they are.
///
/// # Safety
/// As for every `Kernel`.
pub(super) unsafe fn plain<I: Simd>(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    let Some(step) = plan.ready() else {
        // SAFETY: the caller's promise.
        return unsafe { shaped::<I>(plan, src, dst, n) };
    };
    let (bits, units) = (core_bits(&plan.route), core_units(&plan.route, n));
    let _environment = environment(plan);
    // SAFETY: the caller's promise; the table chose the core for this route and a machine that has its instruction set.
    unsafe {
        if n >= MANY && plan.streams(units, bits[0] + bits[1]) && units >= 2 * stream::chunk(bits) {
            stream::rows::<I>(&step.core, &step.job, bits, src, dst, units, &Apart::ONE);
            if plan.fences() {
                stream::fence::<I>();
            }
        } else {
            step.run(src, dst, units);
        }
    }
}

/// Elements from which on results may go past the caches.
pub(super) const MANY: usize = 4096;

/// What a core takes for `n` elements: these, or their parts, one after the other.
#[inline(always)]
pub(super) fn core_units(route: &Route, n: usize) -> usize {
    if route.parts == Parts::Two { 2 * n } else { n }
}

/// The same where the parts are brought to elements afterwards.
#[inline(always)]
pub(super) fn core_units_of_tile(route: &Route, n: usize) -> usize {
    if matches!(route.parts, Parts::Two | Parts::Either) { 2 * n } else { n }
}

/// Bits of that on both sides.
pub(super) fn core_bits(route: &Route) -> [usize; 2] {
    let [from, to] = [&route.src, &route.dst].map(|layout| layout.memory_bits() as usize);
    // Of every second part nothing becomes anything.
    [if route.parts == Parts::Real { 2 * from } else { from }, to]
}

/// A vector kernel for elements of any layout.
///
/// # Safety
/// As for every `Kernel`.
pub(super) unsafe fn shaped<I: Simd>(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    let _environment = environment(plan);
    // SAFETY: as in `plain`.
    unsafe {
        if n.wrapping_sub(1) < FEW {
            return stage::few(plan, src, dst, n);
        }
        stage::staged::<I>(plan, src, dst, n);
    }
}

/// [`Work::Copy`](crate::formats::route::Work::Copy), by registers where memcpy may be slow.
///
/// # Safety
/// As for every `Kernel`.
pub(super) unsafe fn copy<I: Simd>(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    unsafe fn bytes<I: Simd>(from: *const u8, to: *mut u8, bytes: usize) {
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
    let floats = plan.steps.iter().any(|step| step.core.floats);
    floats.then(|| Environment::new(plan.route.policy.rounding))
}
