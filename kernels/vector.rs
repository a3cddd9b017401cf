//! The loops of the vector kernels, and what surrounds them: the ends of rows, tables, the environment.

use core::hint;
use core::mem::MaybeUninit;

use super::codec::job::Job;
#[cfg(feature = "scaled")]
use super::codec::scaled::{Reads, Scaled, Under};
use super::codec::source::{Input, Source, bits};
use super::codec::ways::Ways;
use super::codec::width::Width;
use super::codec::{self, Codec};
use super::drive;
use super::layout::Apart;
use super::plan::{Plan, Planned, Step, Steps, Subnormals};
use super::processor::{streaming_threshold, this_processor};
#[cfg(feature = "scaled")]
use super::scaled::operands::Scale;
use super::simd::{Kernel, Simd, fence};
use super::sizes::{FEW, LINE, ahead, bytes, codec_bits, codec_units};
use super::stage;
use super::stream;
use super::{once, stochastic};
use crate::formats::dtype::{DType, Kind};
use crate::formats::route::{Parts, Route, Work};

/// A buffer for a block: as many registers as an element has bytes, or one if an element has fewer than 8 bits.
struct Room<I: Simd, W: Width>(MaybeUninit<W::Block<I>>);

impl<I: Simd, W: Width> Room<I, W> {
    #[inline(always)]
    const fn new() -> Self {
        const { assert!(size_of::<W::Block<I>>() == W::BITS.div_ceil(8) * I::BYTES) };
        Self(MaybeUninit::uninit())
    }

    #[inline(always)]
    fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// The number of bytes of a destination from which on it pays to align the stores. For less, the partial blocks at both ends cost more
/// than aligning saves. Unaligned stores of whole lines always lie across two lines, narrower ones only sometimes. (Measured on Zen 4,
/// where 2 to 8 KiB take up to 1.8 times as long aligned, integers and floats of 32 bits to each other 0.87 times; and on Zen 3.)
const fn aligns_from<I: Simd>() -> usize {
    if I::BYTES == LINE { 8 << 10 } else { 16 << 10 }
}

impl<I: Simd, C: Codec<I>> Kernel<I, Apart> for C {
    type Job = Job;

    /// Casts every block. What is less than a block, at the beginning of a row (to align the stores) or at its end, goes through a
    /// buffer.
    #[inline(always)]
    unsafe fn run(isa: I, job: &Job, src: *const u8, dst: *mut u8, n: usize, apart: &Apart) {
        let (src_bits, dst_bits) = const { (bits::<C::From>(), <C::To as Width>::BITS) };
        // SAFETY: the caller's promise. Every whole block is among the elements. A partial block goes through two buffers that
        // have room for a whole one: only its own bytes are copied to the first, and only its own from the second. Blocks begin
        // at whole bytes: after a multiple of 8 elements, or of elements that are whole bytes. `few` gets from one to `LOOPLESS`
        // elements, which is 0 or `FEW`.
        unsafe {
            // Where no environment is set, the caller may have subnormals flushed: the kernel is run again in one that keeps them.
            if const { C::FLOATS && !C::FLUSHES } && !isa.keeps_subnormals() {
                return (job.rerun)(job, src, dst, n, apart);
            }
            let (setup, loaded) = (C::setup(isa, job), C::From::loaded(isa, &job.table));
            let &Job { src_high, dst_high, .. } = job;
            if const { I::LOOPLESS > 0 } && n.wrapping_sub(1) < I::LOOPLESS && apart.rows == 1 {
                few::<I, C>(isa, &setup, loaded, [src_high, dst_high], src, dst, n);
                return;
            }
            let (mut room_src, mut room_dst) =
                (Room::<I, <C::From as Source>::Width>::new(), Room::<I, C::To>::new());
            let (room_src, room_dst) = (room_src.start(), room_dst.start());
            let (mut row_src, mut row_dst, mut rows) = (src, dst, apart.rows);
            while rows > 0 {
                // First a partial block, if that pays, so that the stores of the blocks after it do not lie across two lines (those
                // of 6 bits may).
                let peeled = if bytes(n, dst_bits) >= const { aligns_from::<I>() } {
                    ahead(row_dst, src_bits, dst_bits) % I::BYTES
                } else {
                    0
                };
                let (mut left, mut rest) = if peeled != 0 { (peeled, n - peeled) } else { (n, 0) };
                let (mut from, mut to) = (row_src, row_dst);
                // Where a partial block comes from and goes to while the loop casts it in the buffers. (This way the codec is
                // compiled here once, not twice.)
                let mut outside: Option<(*const u8, *mut u8)> = None;
                loop {
                    let mut blocks = if outside.is_none() { left / I::BYTES } else { 1 };
                    while blocks > 0 {
                        let block = <C::From as Source>::Width::load(isa, from, src_high);
                        let made = C::block(isa, &setup, Input { block, loaded });
                        C::To::store(isa, made, to, dst_high);
                        from = from.add(const { bytes(I::BYTES, bits::<C::From>()) });
                        to = to.add(const { bytes(I::BYTES, <C::To as Width>::BITS) });
                        blocks -= 1;
                    }
                    left %= I::BYTES;
                    if let Some((outside_src, outside_dst)) = outside.take() {
                        let made = copy_out::<I, C::To>(isa, room_dst, left, dst_high, outside_dst);
                        (from, to) = (outside_src.add(bytes(left, src_bits)), outside_dst.add(made));
                        (left, rest) = (rest, 0);
                        if left == 0 {
                            break;
                        }
                    } else if left == 0 {
                        break;
                    } else {
                        isa.copy_in(from, bytes(left, src_bits), room_src, src_bits.div_ceil(8));
                        outside = Some((from, to));
                        (from, to) = (room_src, room_dst);
                    }
                }
                rows -= 1;
                row_src = row_src.wrapping_offset(apart.src);
                row_dst = row_dst.wrapping_offset(apart.dst);
            }
        }
    }
}

#[cfg(feature = "scaled")]
impl<I: Simd, R: Reads, C: Codec<I, From = Scaled<R>>> Kernel<I, Scale> for C {
    type Job = Job;

    /// Casts every block, without aligning the stores. The last block of a row goes through a buffer if it is partial.
    #[inline(always)]
    unsafe fn run(isa: I, job: &Job, src: *const u8, dst: *mut u8, n: usize, scale: &Scale) {
        let src_bits = const { bits::<C::From>() };
        let setup = C::setup(isa, job);
        let mut under = Under { loaded: R::loaded(isa, &job.table), scale: *scale };
        let &Job { src_high, dst_high, .. } = job;
        let (mut room_src, mut room_dst) =
            (Room::<I, <C::From as Source>::Width>::new(), Room::<I, C::To>::new());
        let (room_src, room_dst) = (room_src.start(), room_dst.start());
        // SAFETY: the rows are as in the loop of casts without scales. The arrays of `scale` reach to the end of the last
        // block, as `RunScaled` asks, and `at` counts the elements of those blocks.
        unsafe {
            let (mut row_src, mut row_dst, mut rows) = (src, dst, scale.apart.rows);
            while rows > 0 {
                under.scale.at = scale.at;
                R::begin(isa, &mut under.loaded, &under.scale, false);
                let (mut from, mut to) = (row_src, row_dst);
                let (mut blocks, left) = (n / I::BYTES, n % I::BYTES);
                let mut outside: Option<*mut u8> = None;
                loop {
                    while blocks > 0 {
                        R::begin(isa, &mut under.loaded, &under.scale, true);
                        // 0 except in quantisation, whose sources are floats of 16 bits or more: the constant condition spares loops over
                        // narrower codes a branch.
                        if const { bits::<C::From>() >= 16 } && scale.next != 0 {
                            let next = from.wrapping_offset(scale.next);
                            stream::ask_far(isa, next, const { bytes(I::BYTES, bits::<C::From>()) });
                        }
                        let block = <C::From as Source>::Width::load(isa, from, src_high);
                        let made = C::block(isa, &setup, Input { block, loaded: under });
                        C::write(isa, &under, made, from, to, [src_high, dst_high]);
                        from = from.add(const { bytes(I::BYTES, bits::<C::From>()) });
                        to = to.add(const { bytes(I::BYTES, <C::To as Width>::BITS) });
                        under.scale.at += I::BYTES;
                        blocks -= 1;
                    }
                    if let Some(outside) = outside {
                        copy_out::<I, C::To>(isa, room_dst, left, dst_high, outside);
                        break;
                    }
                    if left == 0 {
                        break;
                    }
                    isa.copy_in(from, bytes(left, src_bits), room_src, src_bits.div_ceil(8));
                    outside = Some(to);
                    (from, to, blocks) = (room_src, room_dst, 1);
                }
                rows -= 1;
                row_src = row_src.wrapping_offset(scale.apart.src);
                row_dst = row_dst.wrapping_offset(scale.apart.dst);
            }
        }
    }
}

/// Copies the first `n` elements of a block from its room to `dst`, and returns how many bytes they have.
///
/// # Safety
/// The block was stored in the room, and the elements are writable at `dst`.
#[inline(always)]
unsafe fn copy_out<I: Simd, W: Width>(isa: I, room: *mut u8, n: usize, high: bool, dst: *mut u8) -> usize {
    let made = bytes(n, W::BITS);
    // The unused bits of the last byte are 0.
    let unused = if W::BITS < 8 { 8 * made - n * W::BITS } else { 0 };
    // SAFETY: the last byte is one of those that were stored.
    unsafe {
        if unused != 0 {
            *room.add(made - 1) &= if high { 0xFFu8 << unused } else { 0xFF >> unused };
        }
        if W::BITS < 8 {
            isa.copy_packed(W::BITS, room, made, dst);
        } else {
            isa.copy_out(room, made, dst);
        }
    }
    made
}

/// Casts one to [`FEW`] elements without a buffer. The compiler sees which registers of a block are empty, and does not compute them.
///
/// # Safety
/// As for every `RunRows`; `n` is from 1 to [`FEW`].
#[inline(always)]
unsafe fn few<I: Simd, C: Codec<I>>(
    isa: I,
    setup: &C::Setup,
    loaded: <C::From as Source>::Loaded<I>,
    [src_high, dst_high]: [bool; 2],
    src: *const u8,
    dst: *mut u8,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        hint::assert_unchecked(n.wrapping_sub(1) < FEW);
        let block = <C::From as Source>::Width::load_few(isa, src, n, src_high);
        C::To::store_few(isa, C::block(isa, setup, Input { block, loaded }), dst, n, dst_high);
    }
}

/// Fills in the parts of a plan that depend on the instruction set.
#[inline(never)] // For size: plans are made once.
pub(super) fn plan<I: Ways>(_: I, plan: &mut Plan) {
    let route = &plan.route;
    if route.work == Work::Copy {
        (plan.kernel, plan.stream_from) = (copy::<I>, streaming_threshold());
        return;
    }
    if route.is_stochastic {
        plan.kernel = stochastic::kernel::<I>;
        return;
    }
    // Without memory for the steps or their tables, the reference casts, because it needs none.
    let mut found = Steps::NONE;
    let Some(steps) = codec::ways::find_steps::<I>(route, &mut found).and_then(|()| once::keep(found.all()))
    else {
        return;
    };
    // Without memory for tuples, the steps cast.
    plan.tuples = codec::ways::tuples::<I>(route);
    plan.ready = match steps {
        [step] if stage::is_plain(route) => Some(step),
        _ => None,
    };
    plan.steps = steps;
    plan.kernel = if plan.ready.is_some() { plain::<I> } else { shaped::<I> };
    plan.few = if plan.tuples.is_some() { shaped::<I> } else { stage::few };
    plan.stream_rows = Some(stream::rows::<I>);
    let [read, written] = [&route.src, &route.dst].map(|side| side.memory_bits() as usize * side.parts);
    plan.stream_from =
        this_processor().streams_from(streaming_threshold(), keeps_up::<I>(route), written > read);
    plan.floats = steps.iter().any(|step| step.floats);
    plan.quick = match plan.ready {
        _ if plan.floats => 0,
        Some(_) => MANY - 1,
        None => FEW,
    };
    let has = |subnormals| steps.iter().any(|step| step.subnormals == subnormals);
    plan.flushes = has(Subnormals::Flushed) && !has(Subnormals::Kept) && !this_processor().flushes_f16();
}

/// Whether a codec keeps up with memory. If so, its results are better streamed. If it computes for longer than memory takes,
/// it is better that the caches write the results meanwhile.
///
/// AVX-512 keeps up, and so does any codec that writes an imaginary part of 0 beside each result. Narrower registers do not
/// keep up where they search a table row by row, round to a narrow float, or have no instruction for a conversion. Packed
/// results of elements of 64 bits, or of floats that take long to narrow, have so few bytes that streaming them costs more than
/// it gains, except results of 4 or 6 bits on cores that gain. Measured both ways, on some eighty pairs of all these kinds.
fn keeps_up<I: Simd>(route: &Route) -> bool {
    let (from, to) = (route.from, route.to);
    let floats = [from, to].map(|dtype| matches!(dtype.kind(), Kind::Float(_)));
    let is_table = from.bits() < 8 || floats[0] && from.bits() == 8;
    let has_no_instruction = match floats {
        [true, true] => from.bits() == 16 && to.bits() == 16,
        [true, false] => from.bits() == 16,
        [false, true] => to == DType::BF16 || from.bits() == 64 && to != DType::F64,
        [false, false] => false,
    };
    let is_narrow = floats[1] && to.bits() <= 8;
    let is_wide = route.src.memory_bits() as usize * route.src.parts >= 64;
    let is_slow = floats[0] && (from.bits() == 16 || from.bits() == 32 && floats[1]);
    let packs = route.dst.is_packed()
        && (is_wide || is_slow)
        && !(this_processor().streams_packed() && to.bits() >= 4);
    let computes = I::BYTES < 64 && (is_table || is_narrow || has_no_instruction);
    !packs && !computes || route.parts == Parts::Extend || route.work == Work::Keep
}

/// The kernel for elements that a codec reads and writes as they are in memory.
///
/// # Safety
/// As for every [`PlanKernel`](super::plan::PlanKernel).
pub(super) unsafe fn plain<I: Simd>(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the elements are those of the caller, counted in the codec's units. `plan` chose the codecs for this route and
    // for a machine that has its instruction set.
    unsafe {
        let Some(step) = plan.ready else {
            return shaped::<I>(plan, src, dst, n);
        };
        let (bits, units) = (codec_bits(&plan.route), codec_units(&plan.route, n));
        let _environment = plan.environment(n >= MANY);
        let isa = I::assume();
        if n < MANY {
            return step.job.run_rows(src, dst, units, &Apart::ONE);
        }
        long(isa, plan, step, bits, src, dst, units);
    }
}

/// Runs one step on many elements, and streams the results if they are more than the caches keep. `bits` are those of an
/// element on both sides.
///
/// # Safety
/// As for every `RunRows`.
unsafe fn long<I: Simd>(
    isa: I,
    plan: &Planned,
    step: &Step,
    bits: [usize; 2],
    src: *const u8,
    dst: *mut u8,
    n: usize,
) {
    // SAFETY: the caller's elements.
    unsafe {
        if plan.streams(n, bits[0] + bits[1]) && n >= 2 * stream::chunk(bits) {
            stream::rows::<I>(&step.job, bits, src, dst, n, &Apart::ONE);
            if plan.fences() {
                fence(isa);
            }
        } else {
            step.job.run_rows(src, dst, n, &Apart::ONE);
        }
    }
}

/// The number of elements from which on results may be streamed.
pub(super) const MANY: usize = 4096;

/// The kernel for elements of any layout.
///
/// # Safety
/// As for every [`PlanKernel`](super::plan::PlanKernel).
pub(super) unsafe fn shaped<I: Simd>(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    let _environment = plan.environment(n >= MANY);
    // SAFETY: as in `plain`. With tuples, each 8 elements are whole bytes on both sides; what is left of the elements follows them.
    unsafe {
        let isa = I::assume();
        match plan.tuples {
            Some(tuple) if n >= 8 => {
                // 8 elements have as many bytes as one has bits.
                let (eights, left, [from, to]) = (n / 8, n % 8, codec_bits(&plan.route));
                let tuples = eights * (8 * from / tuple.bits);
                long(isa, plan, &tuple.step, [tuple.bits, tuple.step.bits], src, dst, tuples);
                if left > 0 {
                    stage::few(plan, src.add(eights * from), dst.add(eights * to), left);
                }
            }
            _ if n.wrapping_sub(1) < FEW => stage::few(plan, src, dst, n),
            _ => stage::staged(isa, plan, src, dst, n),
        }
    }
}

/// Runs [`Work::Copy`]: by memcpy, or by registers where memcpy may be slow or would not stream.
///
/// # Safety
/// As for every [`PlanKernel`](super::plan::PlanKernel).
pub(super) unsafe fn copy<I: Simd>(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let isa = I::assume();
        if n < MANY {
            return drive::copy_by(|run| run.by(isa), plan, src, dst, n);
        }
        let [from, to] = codec_bits(&plan.route);
        let streams = plan.streams(codec_units(&plan.route, n), from + to);
        drive::copy_by(|run| if streams { stream::copied(isa, run) } else { run.by(isa) }, plan, src, dst, n);
        if streams && plan.fences() {
            fence(isa);
        }
    }
}
