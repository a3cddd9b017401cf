//! Which codes are lost, which are inexact, and how many there are of each class.

use core::marker::PhantomData;

use super::super::environment::Environment;
use super::super::limits::Limits;
use super::super::simd::{Simd, Task};
use super::found::{Codes, Counts, Exact, MOST, Verdict};
use super::lanes::{Compared, FloatLanes, Lanes, Register, Wide16, Wide32, Wide64};
use crate::formats::options::Rounding;

pub(super) fn judge<I: Simd>(codes: Codes<'_>, exact: Exact<'_>, limits: &Limits, verdict: &mut Verdict) {
    let n = codes.bytes.len() / codes.width;
    let back = if let Exact::Back(back) = exact { back } else { codes.bytes };
    assert!(back.len() == codes.bytes.len() && n <= MOST && matches!(codes.width, 2 | 4 | 8));
    let judge = match (codes.width, limits.is_float) {
        (2, _) => every_integer::<I, Wide16>(exact),
        (4, false) => every_integer::<I, Wide32>(exact),
        (4, true) => every_float::<I, Wide32>(exact, limits),
        (_, false) => every_integer::<I, Wide64>(exact),
        (_, true) => every_float::<I, Wide64>(exact, limits),
    };
    // As in `scan`.
    let _environment = matches!(exact, Exact::Whole).then(|| Environment::new(Rounding::NearestEven));
    // SAFETY: the lanes of two slices, no more than a verdict has bits; the instruction set is available.
    unsafe { judge(codes.bytes.as_ptr(), back.as_ptr(), n, limits, verdict) }
}

type Every = unsafe fn(*const u8, *const u8, usize, &Limits, &mut Verdict);

fn every_integer<I: Simd, L: Compared<I>>(exact: Exact<'_>) -> Every {
    match exact {
        Exact::Back(_) => every::<I, L, Plain, Back>,
        _ => every::<I, L, Plain, All>,
    }
}

fn every_float<I: Simd, L: FloatLanes<I>>(exact: Exact<'_>, limits: &Limits) -> Every {
    let is_symmetric = limits.low == -1 - limits.high;
    match exact {
        Exact::All if is_symmetric => every::<I, L, Magnitudes, All>,
        Exact::All => every::<I, L, Reversed, All>,
        Exact::Whole => every::<I, L, Reversed, Whole>,
        Exact::Back(_) if is_symmetric => every::<I, L, Magnitudes, Back>,
        Exact::Back(_) => every::<I, L, Reversed, Back>,
    }
}

pub(super) fn count<I: Simd>(codes: Codes<'_>, limits: &Limits) -> Counts {
    let n = codes.bytes.len() / codes.width;
    assert!(n <= MOST && matches!(codes.width, 2 | 4 | 8));
    let count: unsafe fn(*const u8, usize, &Limits) -> Counts = match codes.width {
        2 => tally::<I, i16>,
        4 => tally::<I, i32>,
        _ => tally::<I, i64>,
    };
    // SAFETY: the lanes of a slice, no more than an i16 can count; the instruction set is available.
    unsafe { count(codes.bytes.as_ptr(), n, limits) }
}

/// What is exact.
trait Rule<I: Simd, L: Lanes<I>> {
    /// All ones where that is so; none if everything is.
    fn exact(isa: I, code: I::V, back: I::V, nonzero: I::V) -> Option<I::V>;
}

/// [`Exact::All`], [`Exact::Back`] and [`Exact::Whole`].
struct All;
struct Back;
struct Whole;

impl<I: Simd, L: Lanes<I>> Rule<I, L> for All {
    #[inline(always)]
    fn exact(_: I, _: I::V, _: I::V, _: I::V) -> Option<I::V> {
        None
    }
}

impl<I: Simd, L: Compared<I>> Rule<I, L> for Back {
    #[inline(always)]
    fn exact(isa: I, code: I::V, back: I::V, nonzero: I::V) -> Option<I::V> {
        Some(isa.or(L::eq(isa, code, back), L::eq(isa, isa.and(code, nonzero), isa.splat64(0))))
    }
}

impl<I: Simd, L: FloatLanes<I>> Rule<I, L> for Whole {
    #[inline(always)]
    fn exact(isa: I, code: I::V, _: I::V, _: I::V) -> Option<I::V> {
        Some(L::eq(isa, L::trunc(isa, code), code))
    }
}

/// [`Limits`] in registers.
struct Bounds<I: Simd> {
    flip: I::V,
    nonzero: I::V,
    high: I::V,
    low: I::V,
    kept: I::V,
}

impl<I: Simd> Bounds<I> {
    #[inline(always)]
    fn new<L: Lanes<I>>(isa: I, limits: &Limits) -> Self {
        Self {
            flip: L::splat(isa, limits.flip),
            nonzero: L::splat(isa, limits.nonzero),
            high: L::splat(isa, limits.high as u64),
            low: L::splat(isa, limits.low as u64),
            kept: L::splat(isa, limits.kept as u64),
        }
    }

    /// A bit for each code of a block: is it lost, is it inexact?
    ///
    /// # Safety
    /// A block of codes is readable at both places.
    #[inline(always)]
    unsafe fn block<L: Compared<I>, O: Order<I, L>, R: Rule<I, L>>(
        &self,
        isa: I,
        codes: *const u8,
        back: *const u8,
    ) -> [u64; 2] {
        let (mut losses, mut inexact) = ([isa.splat64(0); 8], [isa.splat64(0); 8]);
        for k in 0..L::BYTES {
            // SAFETY: a register of the block at each place.
            let (code, back) =
                unsafe { (isa.load(codes.add(k * I::BYTES)), isa.load(back.add(k * I::BYTES))) };
            let [lost, settled] = O::lost(isa, self, code);
            losses[k] = lost;
            if let Some(exact) = R::exact(isa, code, back, self.nonzero) {
                inexact[k] = isa.and_not(isa.or(settled, exact), isa.splat64(u64::MAX));
            }
        }
        [isa.top_bits(L::bytes(isa, losses)), isa.top_bits(L::bytes(isa, inexact))]
    }
}

/// How codes make keys.
trait Order<I: Simd, L: Compared<I>> {
    /// All ones where a code is lost; and where it is that, or kept whatever comes back.
    fn lost(isa: I, bounds: &Bounds<I>, code: I::V) -> [I::V; 2];
}

/// Integers.
struct Plain;
/// Floats.
struct Reversed;
/// Floats, of a range that reaches as far down as up: their magnitudes are enough.
struct Magnitudes;

impl<I: Simd, L: Compared<I>> Order<I, L> for Plain {
    #[inline(always)]
    fn lost(isa: I, bounds: &Bounds<I>, code: I::V) -> [I::V; 2] {
        let key = isa.xor(code, bounds.flip);
        [isa.or(L::gt(isa, key, bounds.high), L::gt(isa, bounds.low, key)); 2]
    }
}

impl<I: Simd, L: Compared<I>> Order<I, L> for Reversed {
    #[inline(always)]
    fn lost(isa: I, bounds: &Bounds<I>, code: I::V) -> [I::V; 2] {
        let key = isa.xor(code, isa.and(L::gt(isa, isa.splat64(0), code), bounds.nonzero));
        let out = isa.or(L::gt(isa, key, bounds.high), L::gt(isa, bounds.low, key));
        let kept = L::gt(isa, isa.and(code, bounds.nonzero), bounds.kept);
        [isa.and_not(kept, out), isa.or(out, kept)]
    }
}

impl<I: Simd, L: Compared<I>> Order<I, L> for Magnitudes {
    #[inline(always)]
    fn lost(isa: I, bounds: &Bounds<I>, code: I::V) -> [I::V; 2] {
        let magnitude = isa.and(code, bounds.nonzero);
        let out = L::gt(isa, magnitude, bounds.high);
        [isa.and_not(L::gt(isa, magnitude, bounds.kept), out), out]
    }
}

/// Judges so many lanes.
///
/// # Safety
/// They are readable at two places, a verdict has bits for them, and the instruction set is available.
unsafe fn every<I: Simd, L: Compared<I>, O: Order<I, L>, R: Rule<I, L>>(
    codes: *const u8,
    back: *const u8,
    n: usize,
    limits: &Limits,
    verdict: &mut Verdict,
) {
    struct Judge<'a, L, O, R>(
        *const u8,
        *const u8,
        usize,
        &'a Limits,
        &'a mut Verdict,
        PhantomData<(L, O, R)>,
    );

    impl<I: Simd, L: Compared<I>, O: Order<I, L>, R: Rule<I, L>> Task<I> for Judge<'_, L, O, R> {
        type Output = ();

        #[inline(always)]
        fn call(self, isa: I) {
            let Self(codes, back, n, limits, verdict, _) = self;
            let (lost, inexact) = (verdict.lost.as_mut_ptr(), verdict.inexact.as_mut_ptr());
            let mut counts = [0; 2];
            // SAFETY: blocks of the lanes; then the rest of them in room for one. Their bits are within a word.
            unsafe {
                let bounds = Bounds::new::<L>(isa, limits);
                let mut at = 0;
                while at + I::BYTES <= n {
                    let bytes = at * L::BYTES;
                    let bits = bounds.block::<L, O, R>(isa, codes.add(bytes), back.add(bytes));
                    *lost.add(at / 64) |= bits[0] << (at % 64);
                    *inexact.add(at / 64) |= bits[1] << (at % 64);
                    counts = [counts[0] + bits[0].count_ones(), counts[1] + bits[1].count_ones()];
                    at += I::BYTES;
                }
                if at < n {
                    let mut room = [const { Register([0; 8]) }; 16];
                    let (bytes, rest) = (at * L::BYTES, (n - at) * L::BYTES);
                    let rooms = room.as_mut_ptr().cast::<u8>();
                    let second = rooms.add(8 * I::BYTES);
                    isa.copy_in(codes.add(bytes), rest, rooms, L::BYTES);
                    isa.copy_in(back.add(bytes), rest, second, L::BYTES);
                    let some = u64::MAX >> (64 - (n - at));
                    let bits = bounds.block::<L, O, R>(isa, rooms, second);
                    let bits = [bits[0] & some, bits[1] & some];
                    *lost.add(at / 64) |= bits[0] << (at % 64);
                    *inexact.add(at / 64) |= bits[1] << (at % 64);
                    counts = [counts[0] + bits[0].count_ones(), counts[1] + bits[1].count_ones()];
                }
                (verdict.losses, verdict.inexacts) = (counts[0] as usize, counts[1] as usize);
            }
        }
    }

    // SAFETY: the instruction set is available.
    let isa = unsafe { I::assume() };
    isa.run(Judge::<L, O, R>(codes, back, n, limits, verdict, PhantomData));
}

/// A code of some width.
trait Lane: Copy + Ord {
    const ZERO: Self;

    /// # Safety
    /// The lane is readable.
    unsafe fn read(p: *const u8) -> Self;
    /// The low bits.
    fn of(bits: u64) -> Self;
    fn and(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// All ones if negative.
    fn sign(self) -> Self;
    /// One more where something is so.
    fn plus(self, where_: bool) -> Self;
    fn count(self) -> usize;
}

macro_rules! lane {
    ($($lane:ty)*) => {$(
        impl Lane for $lane {
            const ZERO: Self = 0;

            #[inline(always)]
            unsafe fn read(p: *const u8) -> Self {
                // SAFETY: the caller's promise.
                unsafe { p.cast::<Self>().read_unaligned() }
            }
            #[inline(always)]
            fn of(bits: u64) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn sign(self) -> Self {
                self >> (Self::BITS - 1)
            }
            #[inline(always)]
            fn plus(self, where_: bool) -> Self {
                self.wrapping_add(Self::from(where_))
            }
            #[inline(always)]
            fn count(self) -> usize {
                self as usize
            }
        }
    )*};
}
lane!(i16 i32 i64);

/// The classes of so many lanes: plain Rust, which the compiler vectorises where [`Simd::run`] has enabled the features.
///
/// # Safety
/// They are readable, no more than an i16 counts, and the instruction set is available.
unsafe fn tally<I: Simd, L: Lane>(p: *const u8, n: usize, limits: &Limits) -> Counts {
    struct Tally<'a, L>(*const u8, usize, &'a Limits, PhantomData<L>);

    impl<I: Simd, L: Lane> Task<I> for Tally<'_, L> {
        type Output = Counts;

        #[inline(always)]
        fn call(self, _: I) -> Counts {
            let Self(p, n, limits, _) = self;
            let key = |key: i64| L::of(key as u64);
            let (flip, reverse) = (L::of(limits.flip), L::of(limits.reverse()));
            let (high, low, negative) =
                (key(limits.high), key(limits.low), key(limits.low.min(limits.negative)));
            let (finite, inf) = (key(limits.finite), key(limits.inf));
            let (minus_finite, minus_inf) = (key(-1 - limits.finite), key(-1 - limits.inf));
            let (mut above, mut below, mut negatives) = (L::ZERO, L::ZERO, L::ZERO);
            let (mut more, mut less, mut nan) = (L::ZERO, L::ZERO, L::ZERO);
            for i in 0..n {
                // SAFETY: one of the lanes that the caller promises.
                let code = unsafe { L::read(p.add(i * size_of::<L>())) };
                let key = code.xor(flip);
                let key = key.xor(key.sign().and(reverse));
                above = above.plus(key > high);
                below = below.plus(key < low);
                negatives = negatives.plus(key < negative);
                more = more.plus(key > finite);
                less = less.plus(key < minus_finite);
                nan = nan.plus((key > inf) | (key < minus_inf));
            }
            let (more, less, nan) = (more.count(), less.count(), nan.count());
            Counts {
                above: above.count() - more,
                below: below.count() - less,
                // None is where the target has a sign.
                negative: negatives.count().saturating_sub(less),
                nan,
                inf: more + less - nan,
            }
        }
    }

    // SAFETY: the instruction set is available.
    let isa = unsafe { I::assume() };
    isa.run(Tally::<L>(p, n, limits, PhantomData))
}
