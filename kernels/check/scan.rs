//! Scans, which find out whether all codes of a run fit.

use core::marker::PhantomData;

use super::super::environment::Environment;
use super::super::simd::{Simd, Task};
use super::found::{Codes, Fit, Found, Scan};
use super::lanes::{FloatLanes, Lanes, Register, Wide8, Wide16, Wide32, Wide64};
use crate::formats::options::Rounding;

pub(super) fn scan<I: Simd>(isa: I, codes: Codes<'_>, fit: &Fit, counts: bool) -> Found {
    let scan: fn(I, &[u8], &Fit) -> Found = match (codes.width, fit.scan) {
        (1, Scan::Integers) => run::<I, IntegerScan<I, Wide8>>,
        (2, Scan::Integers) => run::<I, IntegerScan<I, Wide16>>,
        (4, Scan::Integers) => run::<I, IntegerScan<I, Wide32>>,
        (8, Scan::Integers) => run::<I, IntegerScan<I, Wide64>>,
        (4, _) => floats::<I, Wide32>(fit.scan, counts),
        (8, _) => floats::<I, Wide64>(fit.scan, counts),
        _ => return Found { fits: false, inexact: 0 },
    };
    // Truncation may raise a flag. The compiler cannot move it out of the environment: the scan is called by pointer.
    let truncates = counts && matches!(fit.scan, Scan::Whole | Scan::Natural);
    let _environment = truncates.then(|| Environment::new(Rounding::NearestEven));
    scan(isa, codes.bytes, fit)
}

fn floats<I: Simd, L: FloatLanes<I>>(scan: Scan, counts: bool) -> fn(I, &[u8], &Fit) -> Found {
    match (scan, counts) {
        (Scan::Whole | Scan::Natural, true) => run::<I, FloatScan<I, L, true, true, true>>,
        (_, true) => run::<I, FloatScan<I, L, true, false, true>>,
        (Scan::Natural, false) => run::<I, FloatScan<I, L, true, true, false>>,
        (Scan::Positive, false) => run::<I, FloatScan<I, L, true, false, false>>,
        // Without counting, it does not matter whether a float is whole.
        (Scan::Floats | Scan::Whole | Scan::Integers, false) => {
            run::<I, FloatScan<I, L, false, false, false>>
        }
    }
}

/// A scan, one register at a time.
pub(super) trait Scanner<I: Simd> {
    type Lanes: Lanes<I>;

    fn new(isa: I, fit: &Fit) -> Self;
    fn at(&mut self, isa: I, codes: I::V);
    fn found(&self, isa: I, fit: &Fit) -> Found;
}

/// [`Scan::Integers`].
pub(super) struct IntegerScan<I: Simd, L> {
    low: I::V,
    /// The OR of all differences.
    any: I::V,
    lanes: PhantomData<L>,
}

impl<I: Simd, L: Lanes<I>> Scanner<I> for IntegerScan<I, L> {
    type Lanes = L;

    #[inline(always)]
    fn new(isa: I, fit: &Fit) -> Self {
        Self { low: L::splat(isa, fit.low), any: isa.splat64(0), lanes: PhantomData }
    }
    #[inline(always)]
    fn at(&mut self, isa: I, codes: I::V) {
        self.any = isa.or(self.any, L::sub(isa, codes, self.low));
    }
    #[inline(always)]
    fn found(&self, isa: I, fit: &Fit) -> Found {
        let beyond = Register::new(isa, isa.and(self.any, L::splat(isa, fit.limit)));
        Found { fits: beyond.any() == 0, inexact: 0 }
    }
}

/// The scan of floats. `SIGNS`: whether signs are examined. (Scans that count always do so, as they have enough to do anyway.)
struct FloatScan<I: Simd, L, const SIGNS: bool, const WHOLE: bool, const COUNTS: bool> {
    low: I::V,
    cut: I::V,
    /// The largest magnitude, the smallest one minus `low`, and the OR of all codes.
    largest: I::V,
    smallest: I::V,
    signs: I::V,
    /// Counted outside of vector registers, which have enough to do.
    inexact: usize,
    lanes: PhantomData<L>,
}

impl<I: Simd, L: FloatLanes<I>, const SIGNS: bool, const WHOLE: bool, const COUNTS: bool> Scanner<I>
    for FloatScan<I, L, SIGNS, WHOLE, COUNTS>
{
    type Lanes = L;

    #[inline(always)]
    fn new(isa: I, fit: &Fit) -> Self {
        let zero = isa.splat64(0);
        Self {
            low: L::splat(isa, fit.low),
            cut: L::splat(isa, fit.cut),
            largest: zero,
            smallest: isa.splat64(u64::MAX),
            signs: zero,
            inexact: 0,
            lanes: PhantomData,
        }
    }
    #[inline(always)]
    fn at(&mut self, isa: I, codes: I::V) {
        let magnitude = isa.and(codes, L::splat(isa, u64::MAX >> (65 - 8 * L::BYTES)));
        self.largest = L::max(isa, self.largest, magnitude);
        if SIGNS {
            self.signs = isa.or(self.signs, codes);
        }
        // If the target has a sign, numbers below the smallest magnitude are inexact, not lost.
        if !WHOLE && SIGNS {
            self.smallest = L::min(isa, self.smallest, L::sub(isa, magnitude, self.low));
        }
        if COUNTS {
            self.inexact += if WHOLE {
                L::differ(isa, L::trunc(isa, codes), codes)
            } else {
                L::differ(isa, isa.and(codes, self.cut), isa.splat64(0))
            };
        }
    }
    #[inline(always)]
    fn found(&self, isa: I, fit: &Fit) -> Found {
        let (largest, smallest) = (Register::new(isa, self.largest), Register::new(isa, self.smallest));
        let signs = Register::new(isa, self.signs);
        let may_be_negative = !matches!(fit.scan, Scan::Positive | Scan::Natural);
        let mut found = Found { fits: true, inexact: self.inexact };
        let mut at = 0;
        while at < I::BYTES {
            found.fits &= largest.lane(at, L::BYTES) <= fit.limit;
            found.fits &= smallest.lane(at, L::BYTES) >= fit.least || WHOLE;
            found.fits &= may_be_negative || signs.lane(at, L::BYTES) >> (8 * L::BYTES - 1) == 0;
            at += L::BYTES;
        }
        found
    }
}

/// Runs a scan over bytes, which are whole lanes.
fn run<I: Simd, L: Scanner<I>>(isa: I, bytes: &[u8], fit: &Fit) -> Found {
    struct Run<'a, L>(&'a [u8], &'a Fit, PhantomData<L>);

    impl<I: Simd, L: Scanner<I>> Task<I> for Run<'_, L> {
        type Output = Found;

        #[inline(always)]
        fn call(self, isa: I) -> Found {
            let Self(mut bytes, fit, _) = self;
            let mut scanner = L::new(isa, fit);
            while let Some(codes) = isa.load_next(&mut bytes) {
                scanner.at(isa, codes);
            }
            if !bytes.is_empty() {
                let mut room = Register::new(isa, L::Lanes::splat(isa, fit.inside));
                for (to, from) in room.bytes().iter_mut().zip(bytes) {
                    *to = *from;
                }
                if let Some(codes) = isa.load_next(&mut &*room.bytes()) {
                    scanner.at(isa, codes);
                }
            }
            scanner.found(isa, fit)
        }
    }

    isa.run(Run::<L>(bytes, fit, PhantomData))
}
