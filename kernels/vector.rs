//! The loops of the vector kernels, and what surrounds them: the tail, the tables, the environment.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

use super::codec::{Codec, Job, lookup};
use super::drive::{self, Plan};
use super::environment::Environment;
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

/// # Safety
/// As for every `Core`, with the features enabled.
#[inline(always)]
unsafe fn all_blocks<I: Isa, C: Codec<I>>(job: &Job, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the caller's promise. Every whole block is among the elements. The tail is copied to a buffer that
    // has room for a block, and of the result only the tail's elements are copied back.
    unsafe {
        let setup = C::setup(job);
        let [mut tail_src, mut tail_dst] = [const { Block([MaybeUninit::uninit(); 64 * 8]) }; 2];
        let mut first = 0;
        while first < n {
            let left = n - first;
            let (mut s, mut d) = (src.add(first * C::SRC), dst.add(first * C::DST));
            // One call of the codec for both: it is inlined here, and once is enough.
            if left < I::BYTES {
                let room = tail_src.0.as_mut_ptr().cast::<u8>();
                ptr::write_bytes(room, 0, I::BYTES * C::SRC);
                ptr::copy_nonoverlapping(s, room, left * C::SRC);
                (s, d) = (room, tail_dst.0.as_mut_ptr().cast());
            }
            C::block(&setup, s, d);
            if left < I::BYTES {
                ptr::copy_nonoverlapping(d, dst.add(first * C::DST), left * C::DST);
            }
            first += I::BYTES;
        }
    }
}

/// A vector kernel for plain elements.
///
/// # Safety
/// As for every `Kernel`.
pub(super) unsafe fn plain(plan: &Plan, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the caller's promise; the table chose the core for this route and a machine that has its
    // instruction set.
    unsafe {
        prepared(plan, src, dst, n, |job| {
            if let Some(core) = plan.core {
                core(job, src, dst, n);
            }
        });
    }
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
