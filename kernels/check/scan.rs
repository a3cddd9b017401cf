//! Scans: is all well with a run of codes?

use core::marker::PhantomData;
use core::ptr;

use super::super::environment::Environment;
use super::super::simd::{Simd, Task};
use super::lanes::{FloatLanes, Lanes, Register, Wide8, Wide16, Wide32, Wide64};
use super::{Codes, Fit, Found, Scan};
use crate::formats::options::Rounding;

pub(super) fn scan<I: Simd>(codes: Codes<'_>, fit: &Fit, counts: bool) -> Found {
    let (p, bytes) = (codes.bytes.as_ptr(), codes.bytes.len());
    let scan: unsafe fn(*const u8, usize, &Fit) -> Found = match (codes.width, fit.scan) {
        (1, Scan::Integers) => run::<I, Integers<I, Wide8>>,
        (2, Scan::Integers) => run::<I, Integers<I, Wide16>>,
        (4, Scan::Integers) => run::<I, Integers<I, Wide32>>,
        (8, Scan::Integers) => run::<I, Integers<I, Wide64>>,
        (4, _) if counts => floats::<I, Wide32, true>(fit.scan),
        (4, _) => floats::<I, Wide32, false>(fit.scan),
        (8, _) if counts => floats::<I, Wide64, true>(fit.scan),
        (8, _) => floats::<I, Wide64, false>(fit.scan),
        _ => return Found { fits: false, inexact: 0 },
    };
    // Truncation may raise a flag. The compiler cannot move it out of here: it is behind a pointer.
    let truncates = counts && matches!(fit.scan, Scan::Whole | Scan::Natural);
    let _environment = truncates.then(|| Environment::new(Rounding::NearestEven));
    // SAFETY: the bytes of a slice, whole lanes; the instruction set is available.
    unsafe { scan(p, bytes, fit) }
}

fn floats<I: Simd, L: FloatLanes<I>, const COUNTS: bool>(
    scan: Scan,
) -> unsafe fn(*const u8, usize, &Fit) -> Found {
    match scan {
        Scan::Positive => run::<I, Floats<I, L, true, false, COUNTS>>,
        Scan::Whole => run::<I, Floats<I, L, false, true, COUNTS>>,
        Scan::Natural => run::<I, Floats<I, L, true, true, COUNTS>>,
        Scan::Floats | Scan::Integers => run::<I, Floats<I, L, false, false, COUNTS>>,
    }
}

/// A scan, a register at a time.
///
/// # Safety
/// The features of `I` are enabled.
pub(super) trait Look<I: Simd> {
    type Lanes: Lanes<I>;

    unsafe fn new(fit: &Fit) -> Self;
    unsafe fn at(&mut self, codes: I::V);
    unsafe fn found(&self, fit: &Fit) -> Found;
}

/// [`Scan::Integers`].
pub(super) struct Integers<I: Simd, L> {
    low: I::V,
    /// All bits of what was seen.
    any: I::V,
    lanes: PhantomData<L>,
}

impl<I: Simd, L: Lanes<I>> Look<I> for Integers<I, L> {
    type Lanes = L;

    #[inline(always)]
    unsafe fn new(fit: &Fit) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self { low: L::splat(fit.low), any: I::splat64(0), lanes: PhantomData } }
    }
    #[inline(always)]
    unsafe fn at(&mut self, codes: I::V) {
        // SAFETY: the caller's promise.
        self.any = unsafe { I::or(self.any, L::sub(codes, self.low)) };
    }
    #[inline(always)]
    unsafe fn found(&self, fit: &Fit) -> Found {
        // SAFETY: the caller's promise.
        let beyond = unsafe { Register::new::<I>(I::and(self.any, L::splat(fit.limit))) };
        let mut any = 0;
        for word in beyond.0 {
            any |= word;
        }
        Found { fits: any == 0, inexact: 0 }
    }
}

/// The scans of floats.
struct Floats<I: Simd, L, const POSITIVE: bool, const WHOLE: bool, const COUNTS: bool> {
    low: I::V,
    cut: I::V,
    /// The largest magnitude, the smallest one minus `low`, and all bits of what was seen.
    largest: I::V,
    smallest: I::V,
    signs: I::V,
    /// Counted outside of the registers, which have enough to do.
    inexact: usize,
    lanes: PhantomData<L>,
}

impl<I: Simd, L: FloatLanes<I>, const POSITIVE: bool, const WHOLE: bool, const COUNTS: bool> Look<I>
    for Floats<I, L, POSITIVE, WHOLE, COUNTS>
{
    type Lanes = L;

    #[inline(always)]
    unsafe fn new(fit: &Fit) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let zero = I::splat64(0);
            Self {
                low: L::splat(fit.low),
                cut: L::splat(fit.cut),
                largest: zero,
                smallest: I::splat64(u64::MAX),
                signs: zero,
                inexact: 0,
                lanes: PhantomData,
            }
        }
    }
    #[inline(always)]
    unsafe fn at(&mut self, codes: I::V) {
        // SAFETY: the caller's promise.
        unsafe {
            let magnitude = I::and(codes, L::splat(u64::MAX >> (65 - 8 * L::BYTES)));
            self.largest = L::max(self.largest, magnitude);
            if POSITIVE {
                self.signs = I::or(self.signs, codes);
            }
            // Of a target with a sign, only what is exact is from the smallest magnitude on.
            if !WHOLE && (COUNTS || POSITIVE) {
                self.smallest = L::min(self.smallest, L::sub(magnitude, self.low));
            }
            if COUNTS {
                self.inexact += if WHOLE {
                    L::differ(L::trunc(codes), codes)
                } else {
                    L::differ(I::and(codes, self.cut), I::splat64(0))
                };
            }
        }
    }
    #[inline(always)]
    unsafe fn found(&self, fit: &Fit) -> Found {
        // SAFETY: the caller's promise.
        unsafe {
            let (largest, smallest) = (Register::new::<I>(self.largest), Register::new::<I>(self.smallest));
            let signs = Register::new::<I>(self.signs);
            let mut found = Found { fits: true, inexact: self.inexact };
            let mut at = 0;
            while at < I::BYTES {
                found.fits &= largest.lane(at, L::BYTES) <= fit.limit;
                found.fits &= smallest.lane(at, L::BYTES) >= fit.least || WHOLE;
                found.fits &= signs.lane(at, L::BYTES) >> (8 * L::BYTES - 1) == 0;
                at += L::BYTES;
            }
            found
        }
    }
}

/// A scan of so many bytes.
///
/// # Safety
/// They are readable, and the instruction set is available.
unsafe fn run<I: Simd, L: Look<I>>(p: *const u8, bytes: usize, fit: &Fit) -> Found {
    /// Not a closure: see `vector::blocks`.
    struct Run<'a, I, L>(*const u8, usize, &'a Fit, PhantomData<(I, L)>);

    impl<I: Simd, L: Look<I>> Task for Run<'_, I, L> {
        type Output = Found;

        #[inline(always)]
        fn call(self) -> Found {
            let Self(p, bytes, fit, _) = self;
            // SAFETY: whole registers of the bytes; then the rest of them in a register's room. `Simd::run` enables
            // the features.
            unsafe {
                let mut look = L::new(fit);
                let rest = bytes % I::BYTES;
                for at in (0..bytes - rest).step_by(I::BYTES) {
                    look.at(I::load(p.add(at)));
                }
                if rest != 0 {
                    let mut room = Register::new::<I>(L::Lanes::splat(fit.inside));
                    ptr::copy_nonoverlapping(p.add(bytes - rest), room.0.as_mut_ptr().cast(), rest);
                    look.at(I::load(room.0.as_ptr().cast()));
                }
                look.found(fit)
            }
        }
    }

    // SAFETY: the caller's promise.
    unsafe { I::run(Run::<I, L>(p, bytes, fit, PhantomData)) }
}
