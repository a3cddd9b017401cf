//! Judges codes one by one: which are lost, which are inexact, and how many there are of each class.

use core::marker::PhantomData;

use super::super::environment::Environment;
use super::super::limits::Limits;
use super::super::simd::{Simd, Task};
use super::found::{CodeRange, Codes, Counts, Exact, Kept, MAX_CODES, Verdict};
use super::lanes::{Compared, FloatLanes, Lanes, Sought, Wide16, Wide32, Wide64, narrowed};
use crate::formats::options::Rounding;

pub(super) fn judge<I: Simd>(
    isa: I,
    codes: Codes<'_>,
    exact: Exact<'_>,
    limits: &Limits,
    verdict: &mut Verdict,
    kept: Option<Kept<'_>>,
) {
    let n = codes.bytes.len() / codes.width;
    let back = if let Exact::Back(back) = exact { back } else { codes.bytes };
    assert!(back.len() == codes.bytes.len() && n <= MAX_CODES && matches!(codes.width, 2 | 4 | 8));
    let inside = Inside::new(limits, exact);
    let every = match (codes.width, exact, inside) {
        (2, ..) => all_or_back::<I, Wide16, 1>(exact),
        (4, Exact::Whole, _) => every::<I, Wide32, Whole, 2>,
        (4, _, Inside::One(_)) => all_or_back::<I, Wide32, 1>(exact),
        (4, _, Inside::Two(_)) => all_or_back::<I, Wide32, 2>(exact),
        (_, Exact::Whole, _) => every::<I, Wide64, Whole, 2>,
        (_, _, Inside::One(_)) => all_or_back::<I, Wide64, 1>(exact),
        (_, _, Inside::Two(_)) => all_or_back::<I, Wide64, 2>(exact),
    };
    // Truncation may raise a flag; the loop is called by pointer, as in `scan`.
    let _environment = matches!(exact, Exact::Whole).then(|| Environment::new(Rounding::NearestEven));
    every(isa, [codes.bytes, back], &inside.ranges(), limits, verdict, kept);
}

/// Whether codes of `width` bytes can be truncated as [`Kept`] asks.
pub(super) fn cuts<I: Simd>(_: I, width: usize) -> bool {
    I::CUTS && width == 8
}

type Every<I> = fn(I, [&[u8]; 2], &[CodeRange; 2], &Limits, &mut Verdict, Option<Kept<'_>>);

fn all_or_back<I: Simd, L: Compared<I>, const RANGES: usize>(exact: Exact<'_>) -> Every<I> {
    match exact {
        Exact::Back(_) => every::<I, L, Back, RANGES>,
        _ => every::<I, L, All, RANGES>,
    }
}

/// The ranges in which codes are not lost.
#[derive(Clone, Copy)]
enum Inside {
    One(CodeRange),
    Two([CodeRange; 2]),
}

impl Inside {
    fn new(limits: &Limits, exact: Exact<'_>) -> Self {
        if !limits.is_float {
            let (low, high) = (limits.low as u64 ^ limits.flip, limits.high as u64 ^ limits.flip);
            return Self::One(CodeRange { mask: u64::MAX, low, high });
        }
        let (low, high) = (limits.low as u64, limits.high as u64);
        let (kept, sign) = (limits.kept as u64 + 1, limits.nonzero + 1);
        // A range that is symmetric about 0 needs only magnitudes. Codes that are kept in addition (Inf, NaN) come just before
        // 0, if one counts on past the largest.
        if limits.low == -1 - limits.high && !matches!(exact, Exact::Whole) {
            return Self::One(CodeRange { mask: limits.nonzero, low: kept, high });
        }
        // In the same way, kept codes of one sign come just before the zero of the other sign.
        if limits.low < 0 {
            let above = CodeRange { mask: u64::MAX, low: kept ^ sign, high };
            return Self::Two([above, CodeRange { mask: u64::MAX, low: kept, high: low ^ limits.nonzero }]);
        }
        let range = CodeRange { mask: u64::MAX, low, high };
        let nothing_is_kept = kept == sign;
        let other = CodeRange { mask: limits.nonzero, low: kept, high: limits.nonzero };
        Self::Two([range, if nothing_is_kept { range } else { other }])
    }

    fn ranges(self) -> [CodeRange; 2] {
        match self {
            Self::One(range) => [range; 2],
            Self::Two(ranges) => ranges,
        }
    }
}

pub(super) fn count<I: Simd>(isa: I, codes: Codes<'_>, limits: &Limits) -> Counts {
    // An i16 can count that many.
    assert!(codes.bytes.len() / codes.width <= MAX_CODES && matches!(codes.width, 2 | 4 | 8));
    match codes.width {
        2 => isa.run(Classes::<i16, 2>(codes.bytes.as_chunks().0, limits, PhantomData)),
        4 => isa.run(Classes::<i32, 4>(codes.bytes.as_chunks().0, limits, PhantomData)),
        _ => isa.run(Classes::<i64, 8>(codes.bytes.as_chunks().0, limits, PhantomData)),
    }
}

/// How to tell whether codes are exact, in registers.
trait Rule<I: Simd, L: Lanes<I>> {
    /// All ones in the lanes of exact codes, zeros in the others. None if all codes are exact.
    fn exact(isa: I, code: I::V, back: I::V, nonzero: I::V) -> Option<I::V>;

    /// Whether all codes are exact, so that integers may be [`Kept`]. (A constant to the compiler.)
    #[inline(always)]
    fn is_everything(isa: I) -> bool {
        let any = isa.splat64(0);
        Self::exact(isa, any, any, any).is_none()
    }
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
struct Bounds<I: Simd, const RANGES: usize> {
    nonzero: I::V,
    kept: I::V,
    /// If codes are truncated, the code that is never lost.
    spared: I::V,
    ranges: [Sought<I>; RANGES],
}

impl<I: Simd, const RANGES: usize> Bounds<I, RANGES> {
    #[inline(always)]
    fn new<L: Lanes<I>>(isa: I, limits: &Limits, ranges: &[CodeRange; 2], spared: u64) -> Self {
        let mut sought = [Sought::new::<L>(isa, &ranges[0]); RANGES];
        sought[RANGES - 1] = Sought::new::<L>(isa, &ranges[RANGES - 1]);
        Self {
            nonzero: L::splat(isa, limits.nonzero),
            kept: L::splat(isa, limits.kept as u64),
            spared: isa.splat64(spared),
            ranges: sought,
        }
    }

    /// Two bits for each code of a block: whether it is lost, and whether it is inexact.
    #[inline(always)]
    fn block<L: Compared<I>, R: Rule<I, L>, const CUTS: bool>(
        &self,
        isa: I,
        mut codes: &[u8],
        mut back: &[u8],
        kept: &mut Option<Kept<'_>>,
    ) -> [u64; 2] {
        let [mut losses, mut inexact, mut keeps] = [[isa.splat64(0); 8]; 3];
        for k in 0..L::BYTES {
            let (Some(code), Some(back)) = (isa.load_next(&mut codes), isa.load_next(&mut back)) else {
                break;
            };
            losses[k] = isa.splat64(u64::MAX);
            let mut integer = code;
            if CUTS {
                integer = isa.f64_to_i64(code);
                losses[k] = isa.xor(L::eq(isa, code, self.spared), losses[k]);
            }
            for range in &self.ranges {
                losses[k] = range.where_not::<L>(isa, integer, losses[k]);
            }
            keeps[k] = isa.and_not(losses[k], integer);
            if let Some(exact) = R::exact(isa, code, back, self.nonzero) {
                // What is kept (Inf, NaN) counts as exact, whatever it becomes when it is cast back. (No integer is kept in this sense.)
                let kept = L::gt(isa, isa.and(code, self.nonzero), self.kept);
                let settled = isa.or(isa.or(losses[k], exact), kept);
                inexact[k] = isa.and_not(settled, isa.splat64(u64::MAX));
            }
        }
        if RANGES == 1
            && R::is_everything(isa)
            && let Some(kept) = kept
        {
            let made = narrowed(isa, keeps, L::BYTES, kept.width);
            for (k, made) in made.iter().enumerate().take(L::BYTES) {
                if k < kept.width {
                    isa.store_next(&mut kept.dst, *made);
                }
            }
        }
        [L::bits(isa, losses), L::bits(isa, inexact)]
    }
}

/// Judges `codes`: the codes themselves, and what they became when they were cast to the target and back.
fn every<I: Simd, L: Compared<I>, R: Rule<I, L>, const RANGES: usize>(
    isa: I,
    codes: [&[u8]; 2],
    ranges: &[CodeRange; 2],
    limits: &Limits,
    verdict: &mut Verdict,
    kept: Option<Kept<'_>>,
) {
    struct Judge<'a, L, R, const RANGES: usize> {
        codes: [&'a [u8]; 2],
        ranges: &'a [CodeRange; 2],
        limits: &'a Limits,
        verdict: &'a mut Verdict,
        kept: Option<Kept<'a>>,
        by: PhantomData<(L, R)>,
    }

    impl<I: Simd, L: Compared<I>, R: Rule<I, L>, const RANGES: usize> Task<I> for Judge<'_, L, R, RANGES> {
        type Output = ();

        #[inline(always)]
        fn call(self, isa: I) {
            let can_cut = I::CUTS && L::BYTES == 8 && RANGES == 1 && R::is_everything(isa);
            match self.kept.as_ref().and_then(|kept| kept.cut) {
                Some(spared) if can_cut => self.run::<I, true>(isa, spared),
                _ => self.run::<I, false>(isa, 0),
            }
        }
    }

    impl<L, R, const RANGES: usize> Judge<'_, L, R, RANGES> {
        /// With and without truncation, the loop is a separate one, as each has enough to do.
        #[inline(always)]
        fn run<I: Simd, const CUTS: bool>(self, isa: I, spared: u64)
        where
            L: Compared<I>,
            R: Rule<I, L>,
        {
            let Self { codes: [mut codes, mut back], ranges, limits, verdict, mut kept, .. } = self;
            let (bounds, block) =
                (Bounds::<I, RANGES>::new::<L>(isa, limits, ranges, spared), L::BYTES * I::BYTES);
            let [mut room, mut room_back] = [const { BlockRoom([0; 8 * 64]) }; 2];
            let mut at = 0;
            // The last block, if partial, is copied to a buffer, so that the code that judges is compiled only once.
            loop {
                let (some, first, first_back);
                match (codes.split_at_checked(block), back.split_at_checked(block)) {
                    (Some((whole, left)), Some((whole_back, left_back))) => {
                        (some, first, first_back) = (u64::MAX, whole, whole_back);
                        (codes, back) = (left, left_back);
                    }
                    _ => {
                        let rest = codes.len() / L::BYTES;
                        let (Some(rooms), Some(rooms_back)) =
                            (room.0.get_mut(..block), room_back.0.get_mut(..block))
                        else {
                            break;
                        };
                        if rest == 0 {
                            break;
                        }
                        isa.fill(rooms, codes);
                        isa.fill(rooms_back, back);
                        (some, first, first_back) = (u64::MAX >> (64 - rest), rooms, rooms_back);
                        (codes, back) = (&[], &[]);
                    }
                }
                let [lost, inexact] = bounds.block::<L, R, CUTS>(isa, first, first_back, &mut kept);
                verdict.add(at, [lost & some, inexact & some]);
                at += I::BYTES;
            }
        }
    }

    isa.run(Judge::<L, R, RANGES> { codes, ranges, limits, verdict, kept, by: PhantomData });
}

/// A buffer for a block of codes.
#[repr(C, align(64))]
pub(super) struct BlockRoom(pub(super) [u8; 8 * 64]);

/// A code of `BYTES` bytes.
trait Lane<const BYTES: usize>: Copy + Ord {
    const ZERO: Self;

    fn read(bytes: [u8; BYTES]) -> Self;
    /// The lane of these low bits.
    fn of(bits: u64) -> Self;
    fn and(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// All ones if it is negative, else 0.
    fn sign(self) -> Self;
    /// Adds 1 if `where_`.
    fn plus(self, where_: bool) -> Self;
    fn count(self) -> usize;
}

macro_rules! lane {
    ($($lane:ty)*) => {$(
        impl Lane<{ size_of::<$lane>() }> for $lane {
            const ZERO: Self = 0;

            #[inline(always)]
            fn read(bytes: [u8; size_of::<$lane>()]) -> Self {
                Self::from_ne_bytes(bytes)
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

/// Counts codes by class, of at most as many codes as an i16 can count. This is plain Rust, which the compiler vectorises where
/// [`Simd::run`] has enabled the features.
struct Classes<'a, L, const BYTES: usize>(&'a [[u8; BYTES]], &'a Limits, PhantomData<L>);

impl<I: Simd, L: Lane<BYTES>, const BYTES: usize> Task<I> for Classes<'_, L, BYTES> {
    type Output = Counts;

    #[inline(always)]
    fn call(self, _: I) -> Counts {
        let Self(lanes, limits, _) = self;
        let key = |key: i64| L::of(key as u64);
        let (flip, reverse) = (L::of(limits.flip), L::of(limits.reverse()));
        let (high, low, negative) = (key(limits.high), key(limits.low), key(limits.low.min(limits.negative)));
        let (finite, inf) = (key(limits.finite), key(limits.inf));
        let (minus_finite, minus_inf) = (key(-1 - limits.finite), key(-1 - limits.inf));
        let (mut above, mut below, mut negatives) = (L::ZERO, L::ZERO, L::ZERO);
        let (mut more, mut less, mut nan) = (L::ZERO, L::ZERO, L::ZERO);
        for &lane in lanes {
            let code = L::read(lane);
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
            // 0 where the target has a sign.
            negative: negatives.count().saturating_sub(less),
            nan,
            inf: more + less - nan,
        }
    }
}
