//! What a cast loses, read from the codes of its source: loops, compiled for each instruction set.
//!
//! A *scan* says whether all is well with a run of elements, or may not be, in a few operations on each register.
//! Only where it may not be, [`classes`] says what is lost of every element. Both look at native codes of 16, 32 or
//! 64 bits; `src/checked.rs` brings other sources to those, and says where the limits are.
//!
//! [`Fused`] is a scan and a codec in one loop, which loads the source once, and the codec may count on elements that
//! fit. There is one for the few pairs where that pays for the code: those that the caches feed faster than two
//! loops can look and cast. (float64 to int32 in L2: 1.4 times the time of the cast alone, where two loops take 1.7.)

use super::drive::Plan;
use super::memory::Destination;
use crate::isa::Isa as Name;
use crate::route::Layout;

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
    /// A code that is in the range and exact: what stands behind the last element in a register.
    pub(crate) inside: u64,
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

/// A cast and a scan in one loop.
#[derive(Clone, Copy)]
pub(crate) struct Fused<'a> {
    plan: &'a Plan,
    /// Elements of a block.
    block: usize,
    /// # Safety
    /// So many blocks of the plan's source are readable, and of its destination writable.
    run: unsafe fn(plan: &Plan, fit: &Fit, src: *const u8, dst: *mut u8, blocks: usize) -> Found,
}

impl<'a> Fused<'a> {
    /// None if there is no such loop for the cast.
    pub(crate) fn new(isa: Name, plan: &'a Plan) -> Option<Self> {
        debug_assert!(isa.is_available());
        match isa {
            #[cfg(isa = "avx512")]
            Name::Avx512 => loops::fused::<super::avx512::Avx512>(plan),
            #[cfg(isa = "avx2")]
            Name::Avx2 => loops::fused::<super::avx2::Avx2>(plan),
            #[cfg(isa = "neon")]
            Name::Neon => loops::fused::<super::neon::Neon>(plan),
            _ => {
                let _ = plan;
                None
            }
        }
    }

    /// Casts whole blocks, as many as there are, and says how many elements those were. If not all of them fit, what
    /// was written is not said.
    pub(crate) fn cast(&self, fit: &Fit, src: &[u8], dst: &mut Destination<'_, u8>) -> (usize, Found) {
        let route = &self.plan.route;
        let size = |layout: &Layout| layout.byte_len(self.block).unwrap_or(usize::MAX);
        let blocks = (src.len() / size(&route.src)).min(dst.size() / size(&route.dst));
        // SAFETY: so many blocks are in both, one borrowed, the other borrowed mutably.
        let found = unsafe { (self.run)(self.plan, fit, src.as_ptr(), dst.as_mut_ptr(), blocks) };
        (blocks * self.block, found)
    }
}

#[cfg(isa = "vector")]
mod loops {
    use core::marker::PhantomData;
    use core::ptr;

    use super::{Codes, Fit, Found, Fused, Limits, Plan, Scan, class};
    use crate::dtype::DType;
    use crate::kernels::codec::float::{ToF16, WideToF32};
    use crate::kernels::codec::integer::ToFittingInt32;
    use crate::kernels::codec::source::{F32, F64, I64};
    use crate::kernels::codec::{self, Codec, Ends, Job};
    use crate::kernels::environment::Environment;
    use crate::kernels::isa::Isa;
    use crate::kernels::stage;
    use crate::options::Rounding;
    use crate::route::Parts;

    pub(super) fn scan<I: Isa>(codes: Codes<'_>, fit: &Fit) -> Option<Found> {
        let (p, bytes) = (codes.bytes.as_ptr(), codes.bytes.len());
        let scan: unsafe fn(*const u8, usize, &Fit) -> Found = match (codes.width, fit.scan) {
            (2, Scan::Integers) => run::<I, Integers<I, Wide16>>,
            (4, Scan::Integers) => run::<I, Integers<I, Wide32>>,
            (8, Scan::Integers) => run::<I, Integers<I, Wide64>>,
            (4, Scan::Floats) => run::<I, Floats<I, Wide32, false, false>>,
            (8, Scan::Floats) => run::<I, Floats<I, Wide64, false, false>>,
            (4, Scan::Positive) => run::<I, Floats<I, Wide32, true, false>>,
            (8, Scan::Positive) => run::<I, Floats<I, Wide64, true, false>>,
            (4, Scan::Whole) => run::<I, Floats<I, Wide32, false, true>>,
            (8, Scan::Whole) => run::<I, Floats<I, Wide64, false, true>>,
            (4, Scan::Natural) => run::<I, Floats<I, Wide32, true, true>>,
            (8, Scan::Natural) => run::<I, Floats<I, Wide64, true, true>>,
            _ => return None,
        };
        // Truncation may raise a flag. The compiler cannot move it out of here: it is behind a pointer.
        let is_float = matches!(fit.scan, Scan::Whole | Scan::Natural);
        let _environment = is_float.then(|| Environment::new(Rounding::NearestEven));
        // SAFETY: the bytes of a slice, whole lanes; the instruction set is available.
        Some(unsafe { scan(p, bytes, fit) })
    }

    /// The pairs that have a loop for both.
    pub(super) fn fused<I: Isa>(plan: &Plan) -> Option<Fused<'_>> {
        let route = &plan.route;
        if !stage::is_plain(route) || route.parts != Parts::One || route.src.swapped {
            return None;
        }
        let run: unsafe fn(&Plan, &Fit, *const u8, *mut u8, usize) -> Found =
            match (route.from, route.to, route.policy.rounding) {
                (_, _, Rounding::NearestAway) => return None,
                (DType::I64, DType::I32, _) => {
                    blocks::<I, Integers<I, Wide64>, codec::integer::Integers<I64, 32>>
                }
                (DType::F64, DType::I32, _) => blocks::<I, Floats<I, Wide64, false, true>, ToFittingInt32>,
                (DType::F64, DType::F32, _) => blocks::<I, Floats<I, Wide64, false, false>, WideToF32<F64>>,
                (DType::F32, DType::F16, Rounding::NearestEven) => {
                    blocks::<I, Floats<I, Wide32, false, false>, ToF16<F32, false>>
                }
                _ => return None,
            };
        Some(Fused { plan, block: I::BYTES, run })
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

    /// A scan, a register at a time.
    ///
    /// # Safety
    /// The features of `I` are enabled.
    trait Look<I: Isa> {
        type Lanes: Lanes<I>;

        unsafe fn new(fit: &Fit) -> Self;
        unsafe fn at(&mut self, codes: I::V);
        unsafe fn found(&self, fit: &Fit) -> Found;
    }

    /// Lanes of 16, 32 or 64 bits.
    ///
    /// # Safety
    /// As for the operations of [`Isa`].
    trait Lanes<I: Isa> {
        const BYTES: usize;

        unsafe fn splat(bits: u64) -> I::V;
        unsafe fn sub(a: I::V, b: I::V) -> I::V;
    }

    /// Lanes of floats.
    ///
    /// # Safety
    /// As for the operations of [`Isa`].
    trait FloatLanes<I: Isa>: Lanes<I> {
        /// Signed, and unsigned.
        unsafe fn max(a: I::V, b: I::V) -> I::V;
        unsafe fn min(a: I::V, b: I::V) -> I::V;
        /// How many lanes are not the same.
        unsafe fn differ(a: I::V, b: I::V) -> usize;
        unsafe fn trunc(x: I::V) -> I::V;
        /// The lane at an address.
        unsafe fn read(p: *const u8) -> u64;
    }

    struct Wide16;
    struct Wide32;
    struct Wide64;

    macro_rules! lanes {
        ($($lanes:ident as $lane:ty: $splat:ident, $sub:ident;)*) => {$(
            impl<I: Isa> Lanes<I> for $lanes {
                const BYTES: usize = size_of::<$lane>();

                #[inline(always)]
                unsafe fn splat(bits: u64) -> I::V {
                    // SAFETY: the caller's promise.
                    unsafe { I::$splat(bits as $lane) }
                }
                #[inline(always)]
                unsafe fn sub(a: I::V, b: I::V) -> I::V {
                    // SAFETY: the caller's promise.
                    unsafe { I::$sub(a, b) }
                }
            }
        )*};
    }
    lanes! {
        Wide16 as u16: splat16, sub16;
        Wide32 as u32: splat32, sub32;
        Wide64 as u64: splat64, sub64;
    }

    macro_rules! float_lanes {
        ($($lanes:ident as $lane:ty: $max:ident, $min:ident, $eq:ident, $count:ident, $trunc:ident;)*) => {$(
            impl<I: Isa> FloatLanes<I> for $lanes {
                #[inline(always)]
                unsafe fn max(a: I::V, b: I::V) -> I::V {
                    // SAFETY: the caller's promise.
                    unsafe { I::$max(a, b) }
                }
                #[inline(always)]
                unsafe fn min(a: I::V, b: I::V) -> I::V {
                    // SAFETY: the caller's promise.
                    unsafe { I::$min(a, b) }
                }
                #[inline(always)]
                unsafe fn differ(a: I::V, b: I::V) -> usize {
                    // SAFETY: the caller's promise.
                    I::BYTES / size_of::<$lane>() - unsafe { I::$count(I::$eq(a, b)) }
                }
                #[inline(always)]
                unsafe fn trunc(x: I::V) -> I::V {
                    // SAFETY: the caller's promise.
                    unsafe { I::$trunc(x) }
                }
                #[inline(always)]
                unsafe fn read(p: *const u8) -> u64 {
                    // SAFETY: the caller's promise.
                    u64::from(unsafe { p.cast::<$lane>().read_unaligned() })
                }
            }
        )*};
    }
    float_lanes! {
        Wide32 as u32: max_s32, min_u32, eq32, count32, trunc_f32;
        Wide64 as u64: max_s64, min_u64, eq64, count64, trunc_f64;
    }

    /// A register in memory.
    #[repr(C, align(64))]
    struct Register([u64; 8]);

    impl Register {
        /// # Safety
        /// As for the operations of [`Isa`].
        #[inline(always)]
        unsafe fn new<I: Isa>(v: I::V) -> Self {
            const { assert!(I::BYTES <= size_of::<Self>()) };
            let mut register = Self([0; 8]);
            // SAFETY: a register has no more bytes.
            unsafe { I::store(register.0.as_mut_ptr().cast(), v) };
            register
        }

        /// The address of a byte.
        #[inline(always)]
        fn at(&self, byte: usize) -> *const u8 {
            self.0.as_ptr().cast::<u8>().wrapping_add(byte)
        }
    }

    /// [`Scan::Integers`].
    struct Integers<I: Isa, L> {
        low: I::V,
        /// All bits of what was seen.
        any: I::V,
        lanes: PhantomData<L>,
    }

    impl<I: Isa, L: Lanes<I>> Look<I> for Integers<I, L> {
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

    /// The other scans: of what is not negative, and of what is whole.
    struct Floats<I: Isa, L, const POSITIVE: bool, const WHOLE: bool> {
        low: I::V,
        cut: I::V,
        largest: I::V,
        smallest: I::V,
        signs: I::V,
        /// Counted outside of the registers, which have enough to do: float32 to float16 takes 1.3 times the time of the
        /// cast alone, and 1.5 times with a count in each lane.
        inexact: usize,
        lanes: PhantomData<L>,
    }

    impl<I: Isa, L: FloatLanes<I>, const POSITIVE: bool, const WHOLE: bool> Look<I>
        for Floats<I, L, POSITIVE, WHOLE>
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
                self.inexact += if WHOLE {
                    L::differ(L::trunc(codes), codes)
                } else {
                    self.smallest = L::min(self.smallest, L::sub(magnitude, self.low));
                    L::differ(I::and(codes, self.cut), I::splat64(0))
                };
            }
        }
        #[inline(always)]
        unsafe fn found(&self, fit: &Fit) -> Found {
            // SAFETY: the caller's promise; lanes of registers.
            unsafe {
                let (largest, smallest) =
                    (Register::new::<I>(self.largest), Register::new::<I>(self.smallest));
                let signs = Register::new::<I>(self.signs);
                let mut found = Found { fits: true, inexact: self.inexact };
                for at in (0..I::BYTES).step_by(L::BYTES) {
                    found.fits &= L::read(largest.at(at)) <= fit.limit;
                    found.fits &= WHOLE || L::read(smallest.at(at)) >= fit.least;
                    found.fits &= L::read(signs.at(at)) >> (8 * L::BYTES - 1) == 0;
                }
                found
            }
        }
    }

    /// A scan of so many bytes.
    ///
    /// # Safety
    /// They are readable, and the instruction set is available.
    unsafe fn run<I: Isa, L: Look<I>>(p: *const u8, bytes: usize, fit: &Fit) -> Found {
        /// Not a closure: see `vector::blocks`.
        struct All<'a, I, L>(*const u8, usize, &'a Fit, PhantomData<(I, L)>);

        impl<I: Isa, L: Look<I>> pulp::NullaryFnOnce for All<'_, I, L> {
            type Output = Found;

            #[inline(always)]
            fn call(self) -> Found {
                let Self(p, bytes, fit, _) = self;
                // SAFETY: whole registers of the bytes; then the rest of them in a register's room. `Isa::run` enables
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
                        look.at(I::load(room.at(0)));
                    }
                    look.found(fit)
                }
            }
        }

        // SAFETY: the caller's promise.
        unsafe { I::run(All::<I, L>(p, bytes, fit, PhantomData)) }
    }

    /// A scan and a codec on so many blocks.
    ///
    /// # Safety
    /// They are readable and writable, the plan is one of the codec, and the instruction set is available.
    unsafe fn blocks<I: Isa, L: Look<I>, C: Codec<I>>(
        plan: &Plan,
        fit: &Fit,
        src: *const u8,
        dst: *mut u8,
        blocks: usize,
    ) -> Found {
        /// Not a closure: see `vector::blocks`.
        struct Blocks<'a, I, L, C>(&'a Job, &'a Fit, *const u8, *mut u8, usize, PhantomData<(I, L, C)>);

        impl<I: Isa, L: Look<I>, C: Codec<I>> pulp::NullaryFnOnce for Blocks<'_, I, L, C> {
            type Output = Found;

            #[inline(always)]
            fn call(self) -> Found {
                const { assert!(C::SRC == 8 * L::Lanes::BYTES && C::DST.is_multiple_of(8)) };
                let Self(job, fit, mut src, mut dst, blocks, _) = self;
                // SAFETY: the promise of the caller of `blocks`, block by block; `Isa::run` enables the features.
                unsafe {
                    let (setup, ends, mut look) = (C::setup(job), Ends::of::<C::From>(job), L::new(fit));
                    for _ in 0..blocks {
                        for k in 0..L::Lanes::BYTES {
                            look.at(I::load(src.add(k * I::BYTES)));
                        }
                        C::block(&setup, ends, src, dst);
                        src = src.add(L::Lanes::BYTES * I::BYTES);
                        dst = dst.add(C::DST / 8 * I::BYTES);
                    }
                    look.found(fit)
                }
            }
        }

        let _environment = Environment::new(plan.route.policy.rounding);
        // SAFETY: the caller's promise.
        unsafe { I::run(Blocks::<I, L, C>(&plan.job, fit, src, dst, blocks, PhantomData)) }
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
            }
        )*};
    }
    lane!(i16 i32 i64);

    /// The class of every lane: plain Rust, which the compiler vectorises where [`Isa::run`] has enabled the features.
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
