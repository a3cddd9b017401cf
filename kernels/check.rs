//! What a cast loses, read from the codes of its source: two loops, compiled for each instruction set.
//!
//! A *scan* says whether all is well with a run of elements, or may not be, in a few operations each. Only where it
//! may not be, [`classes`] says what is lost of every element. Both look at native codes of 16, 32 or 64 bits;
//! `src/checked.rs` brings other sources to those, and says where the limits are.
//!
//! The loops are plain Rust, which the compiler vectorises where [`Isa::run`] has enabled the features: a lane
//! is read, compared and added up. `ci/hygiene` holds them to no calls.

use crate::isa::Isa as Name;

/// What a [`Scan`] compares with. Of integers, codes minus `low` have no bit of `limit` and above; of floats,
/// magnitudes are no larger than `limit`, and 0 or no smaller than `least`.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(isa = "vector"), expect(dead_code, reason = "the reference has no loops"))]
pub(crate) struct Fit {
    pub(crate) scan: Scan,
    /// Of integers, what is subtracted; of floats, what is subtracted from a magnitude before it is compared with
    /// `least`, so that 0 wraps and passes (1), or not (0).
    pub(crate) low: u64,
    /// Of integers, the bits that no difference has; of floats, the largest magnitude.
    pub(crate) limit: u64,
    /// Of floats, the smallest magnitude minus `low`.
    pub(crate) least: u64,
    /// Of floats, the bits that are 0 in what is exact.
    pub(crate) cut: u64,
}

/// What to look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scan {
    /// Integers of a range.
    Integers,
    /// Floats of a range that have only so many bits.
    Floats,
    /// The same, and none is negative.
    Positive,
    /// Floats of a range that are integers.
    Whole,
    /// The same, and none is negative.
    Natural,
}

/// What a scan found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// Every element is in the range, so that the count is right.
    pub(crate) fits: bool,
    /// Elements that are in the range, but not exact.
    pub(crate) inexact: usize,
}

/// Where the classes begin, as keys: codes in the order of their values, as signed integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Exclusive-ored with a code to make its key: the sign bit of unsigned integers.
    pub(crate) flip: u64,
    /// The bits of a negative code that are reversed to make its key: the magnitude of floats.
    pub(crate) reverse: u64,
    /// The bits that are 0 in a zero.
    pub(crate) nonzero: u64,
    /// The largest and the smallest key that is in range.
    pub(crate) high: i64,
    pub(crate) low: i64,
    /// The largest finite key, and that of Inf. Those of the negative ones are −1 minus them.
    pub(crate) finite: i64,
    pub(crate) inf: i64,
    /// Keys below that, if they are too low, are those of negative values.
    pub(crate) negative: i64,
    /// What Inf and NaN are.
    pub(crate) inf_class: u8,
    pub(crate) nan_class: u8,
}

/// What is lost of an element: bits, so that those of many can be joined.
pub(crate) mod class {
    pub(crate) const ABOVE: u8 = 1;
    pub(crate) const BELOW: u8 = 2;
    /// Together with `BELOW`.
    pub(crate) const NEGATIVE: u8 = 4;
    pub(crate) const NAN: u8 = 8;
    pub(crate) const INF: u8 = 16;
    pub(crate) const IMAGINARY: u8 = 32;
    pub(crate) const INEXACT: u8 = 64;
}

/// The codes of so many lanes of 2, 4 or 8 bytes, native.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(isa = "vector"), expect(dead_code, reason = "the reference has no loops"))]
pub(crate) struct Codes<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) width: usize,
}

/// Scans codes; None if this instruction set has no loop for that.
pub(crate) fn scan(isa: Name, codes: Codes<'_>, fit: &Fit) -> Option<Found> {
    debug_assert!(isa.is_available());
    match isa {
        #[cfg(isa = "avx512")]
        Name::Avx512 => loops::scan::<super::avx512::Avx512>(codes, fit),
        #[cfg(isa = "avx2")]
        Name::Avx2 => loops::scan::<super::avx2::Avx2>(codes, fit),
        #[cfg(isa = "neon")]
        Name::Neon => loops::scan::<super::neon::Neon>(codes, fit),
        _ => {
            let _ = (codes, fit);
            None
        }
    }
}

/// The classes of codes, which without `back` are never inexact. `back` has the codes of what was cast there and back
/// again: what is exact has the same. Says the joined classes; None if this instruction set has no loop for that.
pub(crate) fn classes(
    isa: Name,
    codes: Codes<'_>,
    back: Option<&[u8]>,
    limits: &Limits,
    classes: &mut [u8],
) -> Option<u8> {
    debug_assert!(isa.is_available());
    match isa {
        #[cfg(isa = "avx512")]
        Name::Avx512 => loops::classes::<super::avx512::Avx512>(codes, back, limits, classes),
        #[cfg(isa = "avx2")]
        Name::Avx2 => loops::classes::<super::avx2::Avx2>(codes, back, limits, classes),
        #[cfg(isa = "neon")]
        Name::Neon => loops::classes::<super::neon::Neon>(codes, back, limits, classes),
        _ => {
            let _ = (codes, back, limits, classes);
            None
        }
    }
}

#[cfg(isa = "vector")]
mod loops {
    use core::marker::PhantomData;

    use super::{Codes, Fit, Found, Limits, Scan, class};
    use crate::kernels::environment::Environment;
    use crate::kernels::isa::Isa;
    use crate::options::Rounding;

    pub(super) fn scan<I: Isa>(codes: Codes<'_>, fit: &Fit) -> Option<Found> {
        let (p, n) = (codes.bytes.as_ptr(), codes.bytes.len() / codes.width);
        let scan: unsafe fn(*const u8, usize, &Fit) -> Found = match (codes.width, fit.scan) {
            (2, Scan::Integers) => integers::<I, i16>,
            (4, Scan::Integers) => integers::<I, i32>,
            (8, Scan::Integers) => integers::<I, i64>,
            (4, Scan::Floats) => floats::<I, i32, true, false, false>,
            (8, Scan::Floats) => floats::<I, i64, true, false, false>,
            (4, Scan::Positive) => floats::<I, i32, true, true, false>,
            (8, Scan::Positive) => floats::<I, i64, true, true, false>,
            (4, Scan::Whole) => floats::<I, i32, false, false, true>,
            (8, Scan::Whole) => floats::<I, i64, false, false, true>,
            (4, Scan::Natural) => floats::<I, i32, false, true, true>,
            (8, Scan::Natural) => floats::<I, i64, false, true, true>,
            _ => return None,
        };
        // Truncation may raise a flag. The compiler cannot move it out of here: it is behind a pointer.
        let is_float = matches!(fit.scan, Scan::Whole | Scan::Natural);
        let _environment = is_float.then(|| Environment::new(Rounding::NearestEven));
        // SAFETY: the lanes of a slice; the instruction set is available.
        Some(unsafe { scan(p, n, fit) })
    }

    pub(super) fn classes<I: Isa>(
        codes: Codes<'_>,
        back: Option<&[u8]>,
        limits: &Limits,
        classes: &mut [u8],
    ) -> Option<u8> {
        let back = back.unwrap_or(codes.bytes);
        let n = codes.bytes.len() / codes.width;
        assert!(back.len() == codes.bytes.len() && classes.len() == n);
        let classify: unsafe fn(*const u8, *const u8, usize, &Limits, *mut u8) -> u8 = match codes.width {
            2 => every::<I, i16>,
            4 => every::<I, i32>,
            8 => every::<I, i64>,
            _ => return None,
        };
        // SAFETY: the lanes of two slices, and as many bytes of another; the instruction set is available.
        Some(unsafe { classify(codes.bytes.as_ptr(), back.as_ptr(), n, limits, classes.as_mut_ptr()) })
    }

    /// A code of some width.
    trait Lane: Copy + Ord {
        const ZERO: Self;
        /// All but the sign.
        const MAGNITUDE: Self;

        /// # Safety
        /// The lane is readable.
        unsafe fn read(p: *const u8) -> Self;
        /// The low bits.
        fn of(bits: u64) -> Self;
        fn bits(self) -> u64;
        fn and(self, other: Self) -> Self;
        fn or(self, other: Self) -> Self;
        fn xor(self, other: Self) -> Self;
        fn sub(self, other: Self) -> Self;
        fn add_if(self, condition: bool) -> Self;
        /// All ones if negative.
        fn sign(self) -> Self;
        fn unsigned_min(self, other: Self) -> Self;
        /// Is the float with this code an integer? ±Inf and NaN do not matter.
        fn is_whole(self) -> bool;
    }

    macro_rules! lanes {
        ($($lane:ty, $unsigned:ty, $x:ident => $whole:expr;)*) => {$(
            impl Lane for $lane {
                const ZERO: Self = 0;
                const MAGNITUDE: Self = Self::MAX;

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
                fn bits(self) -> u64 {
                    u64::from(self as $unsigned)
                }
                #[inline(always)]
                fn and(self, other: Self) -> Self {
                    self & other
                }
                #[inline(always)]
                fn or(self, other: Self) -> Self {
                    self | other
                }
                #[inline(always)]
                fn xor(self, other: Self) -> Self {
                    self ^ other
                }
                #[inline(always)]
                fn sub(self, other: Self) -> Self {
                    self.wrapping_sub(other)
                }
                #[inline(always)]
                fn add_if(self, condition: bool) -> Self {
                    self.wrapping_add(Self::from(condition))
                }
                #[inline(always)]
                fn sign(self) -> Self {
                    self >> (Self::BITS - 1)
                }
                #[inline(always)]
                fn unsigned_min(self, other: Self) -> Self {
                    (self as $unsigned).min(other as $unsigned) as Self
                }
                #[inline(always)]
                fn is_whole(self) -> bool {
                    let $x = self as $unsigned;
                    $whole
                }
            }
        )*};
    }
    lanes! {
        i16, u16, _x => false;
        i32, u32, x => f32::from_bits(x).trunc().to_bits() == x;
        i64, u64, x => f64::from_bits(x).trunc().to_bits() == x;
    }

    /// [`Scan::Integers`].
    ///
    /// # Safety
    /// `n` lanes are readable, and the instruction set is available.
    unsafe fn integers<I: Isa, L: Lane>(p: *const u8, n: usize, fit: &Fit) -> Found {
        struct Integers<'a, I, L>(*const u8, usize, &'a Fit, PhantomData<(I, L)>);

        impl<I: Isa, L: Lane> pulp::NullaryFnOnce for Integers<'_, I, L> {
            type Output = Found;

            #[inline(always)]
            fn call(self) -> Found {
                let Self(p, n, fit, _) = self;
                let low = L::of(fit.low);
                let mut any = L::ZERO;
                for i in 0..n {
                    // SAFETY: one of the lanes that the caller promises.
                    let code = unsafe { L::read(p.add(i * size_of::<L>())) };
                    any = any.or(code.sub(low));
                }
                Found { fits: any.bits() & fit.limit == 0, inexact: 0 }
            }
        }

        // SAFETY: the caller's promise.
        unsafe { I::run(Integers::<I, L>(p, n, fit, PhantomData)) }
    }

    /// The other scans.
    ///
    /// # Safety
    /// `n` lanes are readable, and the instruction set is available.
    unsafe fn floats<I: Isa, L: Lane, const LEAST: bool, const POSITIVE: bool, const WHOLE: bool>(
        p: *const u8,
        n: usize,
        fit: &Fit,
    ) -> Found {
        struct Floats<'a, I, L, const LEAST: bool, const POSITIVE: bool, const WHOLE: bool>(
            *const u8,
            usize,
            &'a Fit,
            PhantomData<(I, L)>,
        );

        impl<I: Isa, L: Lane, const LEAST: bool, const POSITIVE: bool, const WHOLE: bool> pulp::NullaryFnOnce
            for Floats<'_, I, L, LEAST, POSITIVE, WHOLE>
        {
            type Output = Found;

            #[inline(always)]
            fn call(self) -> Found {
                let Self(p, n, fit, _) = self;
                let (low, cut) = (L::of(fit.low), L::of(fit.cut));
                let (mut largest, mut signs, mut inexact) = (L::ZERO, L::ZERO, L::ZERO);
                let mut smallest = L::of(u64::MAX);
                for i in 0..n {
                    // SAFETY: one of the lanes that the caller promises.
                    let code = unsafe { L::read(p.add(i * size_of::<L>())) };
                    let magnitude = code.and(L::MAGNITUDE);
                    largest = largest.max(magnitude);
                    if LEAST {
                        smallest = smallest.unsigned_min(magnitude.sub(low));
                    }
                    if POSITIVE {
                        signs = signs.or(code);
                    }
                    inexact = inexact.add_if(if WHOLE { !code.is_whole() } else { code.and(cut) != L::ZERO });
                }
                let fits = largest.bits() <= fit.limit
                    && (!LEAST || smallest.bits() >= fit.least)
                    && signs >= L::ZERO;
                Found { fits, inexact: inexact.bits() as usize }
            }
        }

        // SAFETY: the caller's promise.
        unsafe { I::run(Floats::<I, L, LEAST, POSITIVE, WHOLE>(p, n, fit, PhantomData)) }
    }

    /// The class of every lane.
    ///
    /// # Safety
    /// `n` lanes are readable at two places, as many bytes writable, and the instruction set is available.
    unsafe fn every<I: Isa, L: Lane>(
        p: *const u8,
        back: *const u8,
        n: usize,
        limits: &Limits,
        to: *mut u8,
    ) -> u8 {
        struct Every<'a, I, L>(*const u8, *const u8, usize, &'a Limits, *mut u8, PhantomData<(I, L)>);

        impl<I: Isa, L: Lane> pulp::NullaryFnOnce for Every<'_, I, L> {
            type Output = u8;

            #[inline(always)]
            fn call(self) -> u8 {
                let Self(p, back, n, limits, to, _) = self;
                let key = |key: i64| L::of(key as u64);
                let (flip, reverse, nonzero) =
                    (L::of(limits.flip), L::of(limits.reverse), L::of(limits.nonzero));
                let (high, low, negative) = (key(limits.high), key(limits.low), key(limits.negative));
                let (finite, inf) = (key(limits.finite), key(limits.inf));
                let (minus_finite, minus_inf) = (key(-1 - limits.finite), key(-1 - limits.inf));
                let (inf_class, nan_class) = (limits.inf_class, limits.nan_class);
                let mut joined = 0;
                for i in 0..n {
                    let at = i * size_of::<L>();
                    // SAFETY: one of the lanes that the caller promises, in both places.
                    let (code, back) = unsafe { (L::read(p.add(at)), L::read(back.add(at))) };
                    let key = code.xor(flip);
                    let key = key.xor(key.sign().and(reverse));
                    // Not `&&` and `||`: with branches the compiler does not vectorise every width.
                    let is_inexact = (code != back) & (code.and(nonzero) != L::ZERO);
                    let mut class = if is_inexact { class::INEXACT } else { 0 };
                    class = if key > high { class::ABOVE } else { class };
                    let below = if key < negative { class::BELOW | class::NEGATIVE } else { class::BELOW };
                    class = if key < low { below } else { class };
                    class = if (key > finite) | (key < minus_finite) { inf_class } else { class };
                    class = if (key > inf) | (key < minus_inf) { nan_class } else { class };
                    joined |= class;
                    // SAFETY: one of the bytes that the caller promises.
                    unsafe { to.add(i).write(class) };
                }
                joined
            }
        }

        // SAFETY: the caller's promise.
        unsafe { I::run(Every::<I, L>(p, back, n, limits, to, PhantomData)) }
    }
}
