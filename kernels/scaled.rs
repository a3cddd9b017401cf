//! Scaled casts, as the safe code runs them: elements under factors, the largest magnitudes of groups, and the arithmetic
//! on scales. All of it in the environment that kernels expect.

use core::ops::Range;

use super::backend::on;
use super::codec::job::{Job, Table};
use super::codec::lookup;
use super::codec::scaled;
use super::drive::{Apart, RunScaled, Scale};
use super::environment::Environment;
use super::memory::{Destination, bytes_of};
use super::present::Present;
use super::simd::{Extras, Simd, Task, fence};
use super::sizes::bytes;
use super::stream::{self, Maker};
use crate::formats::dtype::DType;
use crate::formats::options::{CastOptions, Rounding};
use crate::formats::route::route;

pub(crate) use super::drive::{By, How, LEAST_GROUP, Others, Table16, Table128};

/// Elements that the arrays of factors must reach to: whole blocks of every instruction set.
pub(crate) const BLOCK: usize = 64;

/// Which elements a factor is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Per {
    Element,
    /// So many that follow each other: a power of two, [`LEAST_GROUP`] at least.
    Group(usize),
    /// All of them.
    All,
}

impl Per {
    /// The factors of `n` elements, as many as there must be.
    pub(crate) fn factors(self, n: usize) -> usize {
        let whole = n.next_multiple_of(BLOCK);
        match self {
            Self::Element => whole,
            Self::Group(group) => whole.div_ceil(group),
            Self::All => 1,
        }
    }

    /// Can elements be looked up so?
    pub(crate) fn is_by(self, by: By) -> bool {
        match (by, self) {
            (_, Self::Element) => false,
            (By::Scale | By::Sixteen, Self::Group(group)) => group >= BLOCK,
            (By::Exponent, Self::Group(group)) => group > LEAST_GROUP,
            (By::Mantissa, per) => per == Self::Group(LEAST_GROUP),
            (_, Self::All) => true,
        }
    }

    fn shift(self) -> u32 {
        match self {
            Self::Element => Scale::EACH,
            Self::Group(group) => {
                assert!(group.is_power_of_two() && group >= LEAST_GROUP);
                group.trailing_zeros()
            }
            Self::All => Scale::ALL,
        }
    }
}

/// Factors of elements, as [`Scale`] has them. What is not used is empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors<'a> {
    pub(crate) per: Per,
    pub(crate) how: How,
    pub(crate) others: Others,
    /// To multiply: by what once more; 1 if by nothing.
    pub(crate) tensor: f32,
    pub(crate) scales: &'a [f32],
    pub(crate) rests: &'a [f32],
    pub(crate) inverses: &'a [f32],
    pub(crate) zeros: &'a [f32],
    /// What is looked up, in place of all these: by a table of each group or, with `deltas` of each, by one.
    pub(crate) tables: &'a [Table128],
    pub(crate) deltas: &'a [u32],
    /// Of each 16 elements.
    pub(crate) picks: &'a [u8],
    /// The words of each group, if those are looked up.
    pub(crate) sixteens: &'a [Table16],
    /// Bytes of the source from an element to one that will be read after these, and that memory is asked for meanwhile. 0 if none is.
    pub(crate) next: isize,
}

impl Factors<'_> {
    /// None.
    pub(crate) const NONE: Self = Self {
        per: Per::All,
        how: How::Near,
        others: Others::NONE,
        tensor: 1.0,
        scales: &[],
        rests: &[],
        inverses: &[],
        zeros: &[],
        tables: &[],
        deltas: &[],
        picks: &[],
        sixteens: &[],
        next: 0,
    };
}

/// So many rows, so many bytes from one to the next, that have the same factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) count: usize,
    pub(crate) src: usize,
    pub(crate) dst: usize,
}

/// A cast under scales on an instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    isa: Present,
    run: RunScaled,
    job: Job,
    /// Bits of an element in memory on both sides.
    bits: [usize; 2],
    /// How it looks up what elements become, if it does.
    by: Option<By>,
    /// It divides, by inverses where those are powers of two.
    divides: bool,
    /// Scales are those of groups.
    is_by_products: bool,
}

impl Kernel {
    /// Of codes that are multiplied, to nearest even: if there is a codec of these dtypes in these layouts.
    pub(crate) fn times(isa: Present, from: DType, to: DType, options: &CastOptions) -> Option<Self> {
        let route = route(from, to, options);
        if route.src.swapped || route.dst.swapped {
            return None;
        }
        let run = on!(isa, isa => scaled::times(isa, &route)).flatten()?;
        // As float32, whatever they become.
        let as_f32 = crate::formats::route::route(from, DType::F32, options);
        let table = if lookup::has_table(&as_f32) { lookup::table(&as_f32)? } else { Table::NONE };
        let bits = [route.src.memory_bits() as usize, route.dst.memory_bits() as usize];
        Some(Self {
            isa,
            run,
            job: Job::new(&route, table, Extras::this()),
            bits,
            by: None,
            divides: false,
            is_by_products: false,
        })
    }

    /// The same by the products of all codes under each scale: of groups, if that is faster.
    pub(crate) fn products(self, from: DType, to: DType, options: &CastOptions) -> Option<Self> {
        let run = on!(self.isa, isa => scaled::products(isa, &route(from, to, options))).flatten()?;
        Some(Self { run, is_by_products: true, ..self })
    }

    /// Of codes that are looked up, in tables that [`Kernel::fill`] makes, if that is faster.
    pub(crate) fn tabled(
        isa: Present,
        from: DType,
        to: DType,
        options: &CastOptions,
        by: By,
    ) -> Option<Self> {
        let route = route(from, to, options);
        if route.src.swapped || route.dst.swapped {
            return None;
        }
        let run = on!(isa, isa => scaled::tabled(isa, &route, by)).flatten()?;
        let bits = [route.src.memory_bits() as usize, route.dst.memory_bits() as usize];
        Some(Self {
            isa,
            run,
            job: Job::new(&route, Table::NONE, Extras::NONE),
            bits,
            by: Some(by),
            divides: false,
            is_by_products: false,
        })
    }

    /// Makes tables of words, of codes in the order of their numbers, 128 for each table. `words` is room for as many.
    pub(crate) fn fill(
        &self,
        codes: &[u8],
        words: &mut [u8],
        tables: &mut [Table128],
        factors: &Factors<'_>,
    ) {
        struct Each<'a>(&'a [u8], &'a mut [Table128]);

        impl<I> Task<I> for Each<'_> {
            type Output = ();

            #[inline(always)]
            fn call(self, _: I) {
                let Self(words, tables) = self;
                for (words, Table128([low, high])) in words.as_chunks::<256>().0.iter().zip(tables) {
                    for i in 0..128 {
                        (low[i], high[i]) = (words[2 * i], words[2 * i + 1]);
                    }
                }
            }
        }

        let one = Rows { count: 1, src: 0, dst: 0 };
        self.run(codes, (&mut *words).into(), 128 * tables.len(), &one, factors, false);
        let ran = on!(self.isa, isa => isa.run(Each(words, tables)));
        debug_assert!(ran.is_some());
    }

    /// The same of 16 words for each table.
    pub(crate) fn fill_sixteens(
        &self,
        codes: &[u8],
        words: &mut [u8],
        tables: &mut [Table16],
        factors: &Factors<'_>,
    ) {
        let one = Rows { count: 1, src: 0, dst: 0 };
        self.run(codes, (&mut *words).into(), 16 * tables.len(), &one, factors, false);
        for (words, Table16([low, high])) in words.as_chunks::<32>().0.iter().zip(tables) {
            for i in 0..16 {
                (low[i], high[i]) = (words[2 * i], words[2 * i + 1]);
            }
        }
    }

    /// Of floats that are divided, to nearest even.
    pub(crate) fn quotient(isa: Present, from: DType, to: DType, options: &CastOptions) -> Option<Self> {
        let route =
            route(from, to, &options.rounding(Rounding::NearestEven).int_rounding(Rounding::NearestEven));
        if route.src.swapped || route.dst.swapped {
            return None;
        }
        let run = on!(isa, isa => scaled::quotient(isa, &route)).flatten()?;
        let bits = [route.src.memory_bits() as usize, route.dst.memory_bits() as usize];
        Some(Self {
            isa,
            run,
            job: Job::new(&route, Table::NONE, Extras::this()),
            bits,
            by: None,
            divides: true,
            is_by_products: false,
        })
    }

    /// Casts rows of `n` elements; past the caches if it `streams`, after which [`Kernel::fence`] must follow.
    pub(crate) fn run(
        &self,
        src: &[u8],
        mut dst: Destination<'_, u8>,
        n: usize,
        rows: &Rows,
        factors: &Factors<'_>,
        streams: bool,
    ) {
        let [from, to] = self.bits;
        let Some(others) = rows.count.checked_sub(1) else { return };
        let fits = |size: usize, step: usize, row: usize| {
            others.checked_mul(step).and_then(|all| size.checked_sub(all)).is_some_and(|last| last >= row)
        };
        assert!(fits(src.len(), rows.src, bytes(n, from)) && fits(dst.size(), rows.dst, bytes(n, to)));
        /// Null of none.
        fn array<T>(array: &[T], needed: usize, is_used: bool) -> *const T {
            assert!(array.len() >= needed || array.is_empty() && !is_used);
            if array.is_empty() { core::ptr::null() } else { array.as_ptr() }
        }
        let needed = factors.per.factors(n);
        let numbers = |numbers: &[f32], is_used: bool| array(numbers, needed, is_used);
        assert!(self.by.is_none_or(|by| factors.per.is_by(by)));
        assert!(!self.is_by_products || factors.per != Per::Element);
        let picks = self.by == Some(By::Mantissa);
        let is_by_sixteen = self.by == Some(By::Sixteen);
        let adds = picks || self.by == Some(By::Exponent);
        let scale = Scale {
            scales: numbers(factors.scales, self.by.is_none()),
            rests: numbers(factors.rests, false),
            inverses: numbers(factors.inverses, self.divides && factors.how != How::Over),
            zeros: numbers(factors.zeros, false),
            tensor: factors.tensor,
            tables: array(factors.tables, if adds { 1 } else { needed }, self.by.is_some() && !is_by_sixteen),
            deltas: array(factors.deltas, needed, adds),
            picks: array(factors.picks, needed, picks),
            sixteens: array(factors.sixteens, needed, is_by_sixteen),
            shift: factors.per.shift(),
            is_alone: factors.zeros.is_empty()
                && factors.tensor == 1.0
                && factors.how == How::Near
                && (self.is_by_products || !factors.others.loses_sign),
            at: 0,
            how: factors.how,
            others: factors.others,
            apart: Apart { rows: rows.count, src: rows.src as isize, dst: rows.dst as isize },
            next: factors.next,
        };
        let (src, dst) = (src.as_ptr(), dst.reborrow().as_mut_ptr());
        let _environment = Environment::new(Rounding::NearestEven);
        // SAFETY: both buffers have the rows, the arrays a factor for every element of whole blocks, as was just asserted;
        // none of the destination is in the source, because it is borrowed for itself. The instruction set is available: it is
        // `Present`.
        unsafe {
            if streams {
                let make = |first: usize, src: *const u8, dst: *mut u8, n: usize| {
                    (self.run)(&self.job, src, dst, n, &Scale { at: first, apart: Apart::ONE, ..scale });
                };
                let maker = Maker::new(make, false);
                on!(self.isa, isa => stream::made(isa, &maker, self.bits, src, dst, n, &scale.apart));
            } else {
                (self.run)(&self.job, src, dst, n, &scale);
            }
        }
    }

    /// Orders what was streamed before what is stored next.
    pub(crate) fn fence(&self) {
        on!(self.isa, isa => fence(isa));
    }
}

/// Calls `work` in the environment that kernels expect, whatever the caller has set: what computes floats outside of kernels goes
/// this way, because the compiler moves an operation to where its result may not be needed, and there it may trap.
pub(crate) fn calmly<R>(work: impl FnOnce() -> R) -> R {
    /// Behind a call, which no operation is moved past: see [`Environment::new`].
    #[inline(never)]
    fn behind<R>(work: impl FnOnce() -> R) -> R {
        work()
    }

    let _environment = Environment::new(Rounding::NearestEven);
    behind(work)
}

/// What is done to numbers, one by one, and how they are rounded: to nearest even.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Multiply,
    Divide,
}

/// `values[i] op= by[i]`. On the reference, which has no registers, nothing may ask for it.
pub(crate) fn arithmetic(isa: Present, operation: Operation, values: &mut [f64], by: &[f64]) {
    /// Not a closure: see `Task`.
    struct Each<'a>(Operation, &'a mut [f64], &'a [f64]);

    impl<I> Task<I> for Each<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self, _: I) {
            let Self(operation, values, by) = self;
            let n = values.len().min(by.len());
            let (values, by) = (&mut values[..n], &by[..n]);
            match operation {
                Operation::Multiply => {
                    for i in 0..n {
                        values[i] *= by[i];
                    }
                }
                Operation::Divide => {
                    for i in 0..n {
                        values[i] /= by[i];
                    }
                }
            }
        }
    }

    let _environment = Environment::new(Rounding::NearestEven);
    let ran = on!(isa, isa => isa.run(Each(operation, values, by)));
    debug_assert!(ran.is_some());
}

/// `scales[i] op= tensor`, rounded to float32; or, where there is room for that, products that are cut, and what was cut off,
/// which has the same sign.
pub(crate) fn with_tensor(
    isa: Present,
    operation: Operation,
    tensor: f32,
    scales: &mut [f32],
    rests: &mut [f32],
) {
    /// What a product is more than what was made of it: exact, because in float64 the product is, and the difference.
    #[inline(always)]
    fn rest(s: f32, tensor: f32, made: f32) -> f32 {
        (f64::from(s) * f64::from(tensor) - f64::from(made)) as f32
    }

    struct Each<'a>(Operation, f32, &'a mut [f32], &'a mut [f32]);

    impl<I> Task<I> for Each<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self, _: I) {
            let Self(operation, tensor, scales, rests) = self;
            let splits = rests.len() == scales.len();
            for i in 0..scales.len() {
                let s = scales[i];
                let mut made = if operation == Operation::Divide { s / tensor } else { s * tensor };
                if splits {
                    let first = rest(s, tensor, made);
                    let is_beyond = first.to_bits() ^ made.to_bits() > u32::MAX >> 1 && first != 0.0;
                    made = f32::from_bits(made.to_bits() - u32::from(is_beyond));
                    // A zero, too.
                    rests[i] = rest(s, tensor, made).copysign(made);
                }
                scales[i] = made;
            }
        }
    }

    let _environment = Environment::new(Rounding::NearestEven);
    let ran = on!(isa, isa => isa.run(Each(operation, tensor, scales, rests)));
    debug_assert!(ran.is_some());
}

/// Of a scale: a kernel is not right for it.
pub(crate) const WRONG: u8 = 1;
/// Of a scale: [`Ties`].
pub(crate) const TIES: u8 = 2;

/// Scales for which a kernel is right.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// Their magnitudes, as bits.
    pub(crate) range: Range<u32>,
    /// So is zero.
    pub(crate) zero: bool,
    pub(crate) negative: bool,
}

/// Sets [`WRONG`] of scales that are out of bounds. Returns what was set.
pub(crate) fn bounded(isa: Present, scales: &[f32], bounds: &Bounds, flags: &mut [u8]) -> u8 {
    struct Each<'a>(&'a [f32], &'a Bounds, &'a mut [u8]);

    impl<I> Task<I> for Each<'_> {
        type Output = u8;

        #[inline(always)]
        fn call(self, _: I) -> u8 {
            let Self(scales, &Bounds { range: Range { start, end }, zero, negative }, flags) = self;
            let mask = if negative { u32::MAX >> 1 } else { u32::MAX };
            // Mostly all are right, and none is zero.
            let mut most = 0;
            for scale in scales {
                most = (scale.to_bits() & mask).wrapping_sub(start).max(most);
            }
            if most < end - start {
                return 0;
            }
            let mut all = 0;
            for (scale, flags) in scales.iter().zip(flags) {
                let bits = scale.to_bits() & mask;
                let is_right = (bits.wrapping_sub(start) < end - start) | (zero & (bits == 0));
                let set = if is_right { 0 } else { WRONG };
                *flags |= set;
                all |= set;
            }
            all
        }
    }

    let set = on!(isa, isa => isa.run(Each(scales, bounds, flags)));
    set.unwrap_or(WRONG)
}

/// Magnitudes of the elements of a block, of which none below the first saturates, and all above the second that are finite do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) safe: f64,
    pub(crate) beyond: f64,
}

/// What is found of elements that are finite and remain so, and of which it is clear whether they have saturated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calm {
    pub(crate) saturated: usize,
    pub(crate) underflowed: usize,
    pub(crate) max_error: f64,
}

/// Compares elements with what they became, both float64, and writes the error of each. None if some are not as [`Calm`] has them.
pub(crate) fn compared(
    isa: Present,
    xs: &[[u8; 8]],
    became: &[[u8; 8]],
    ends: &Ends,
    errors: &mut [f64],
) -> Option<Calm> {
    struct Each<'a>(&'a [[u8; 8]], &'a [[u8; 8]], &'a Ends, &'a mut [f64]);

    impl<I> Task<I> for Each<'_> {
        type Output = Option<Calm>;

        #[inline(always)]
        fn call(self, _: I) -> Option<Calm> {
            let Self(xs, became, &Ends { safe, beyond }, errors) = self;
            let (mut finite, mut not_safe, mut saturated) = (0u64, 0u64, 0u64);
            let (mut zeros, mut both_zeros, mut most) = (0u64, 0u64, 0u64);
            for ((&x, &y), error) in xs.iter().zip(became).zip(&mut *errors) {
                let (x, y) = (f64::from_ne_bytes(x), f64::from_ne_bytes(y));
                let magnitude = x.abs();
                let sum = magnitude + y.abs();
                finite += u64::from(sum < f64::INFINITY);
                not_safe += u64::from(magnitude >= safe);
                saturated += u64::from(magnitude > beyond);
                zeros += u64::from(y == 0.0);
                both_zeros += u64::from(sum == 0.0);
                *error = (x - y).abs();
                // Magnitudes compare as their bits do.
                most = most.max(error.to_bits());
            }
            let is_calm = finite == xs.len() as u64 && not_safe == saturated;
            is_calm.then(|| Calm {
                saturated: saturated as usize,
                underflowed: (zeros - both_zeros) as usize,
                max_error: f64::from_bits(most),
            })
        }
    }

    on!(isa, isa => isa.run(Each(xs, became, ends, errors))).flatten()
}

/// What positive scales add to the exponents of bfloat16, for [`Factors`]; of each also the first three bits of its mantissa, above
/// those of a code. Sets and returns [`WRONG`] as [`bounded`] does: zero and negative ones are.
pub(crate) fn deltas(
    isa: Present,
    scales: &[f32],
    bounds: &Range<u32>,
    deltas: &mut [u32],
    picks: &mut [u8],
    flags: &mut [u8],
) -> u8 {
    struct Each<'a>(&'a [f32], &'a Range<u32>, &'a mut [u32], &'a mut [u8], &'a mut [u8]);

    impl<I> Task<I> for Each<'_> {
        type Output = u8;

        #[inline(always)]
        fn call(self, _: I) -> u8 {
            let Self(scales, &Range { start, end }, deltas, picks, flags) = self;
            let mut most = 0;
            for ((scale, delta), pick) in scales.iter().zip(deltas).zip(picks) {
                let bits = scale.to_bits();
                // In place of the exponent of a bfloat16, which may be negative.
                let word = (bits >> 23).wrapping_sub(127) << 7 & 0xFFFF;
                *delta = word | word << 16;
                *pick = (bits >> 16) as u8 & 0x70;
                most = bits.wrapping_sub(start).max(most);
            }
            if most < end - start {
                return 0;
            }
            for (scale, flags) in scales.iter().zip(flags) {
                *flags |= if scale.to_bits().wrapping_sub(start) < end - start { 0 } else { WRONG };
            }
            WRONG
        }
    }

    let set = on!(isa, isa => isa.run(Each(scales, bounds, deltas, picks, flags)));
    set.unwrap_or(WRONG)
}

/// What makes a product of a scale and a code a tie of a narrower float when it is rounded to float32, and is none.
///
/// Of each code without its powers of two, the product is exact in a float64. A tie of bfloat16 is a one behind its 8 bits and
/// nothing more. Those of subnormal float16 may be anywhere from its 11 bits on: then nothing follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ties {
    /// The largest code without its powers of two.
    most: u32,
    tie: u64,
    /// The bits of a float64 below.
    below: u64,
}

impl Ties {
    /// Codes have so many significant bits. None if there are too many to look at.
    pub(crate) fn new(codes: u32, to: DType) -> Option<Self> {
        let (kept, tie) = if to == DType::BF16 { (7, 1 << 44) } else { (11, 0) };
        (codes <= 12).then(|| Self { most: (1 << codes) - 1, tie, below: (1 << (52 - kept)) - 1 })
    }
}

/// Sets [`TIES`] of scales of which that may be. Returns what was set.
pub(crate) fn ties(isa: Present, ties: Ties, scales: &[f32], flags: &mut [u8]) -> u8 {
    struct Each<'a>(Ties, &'a [f32], &'a mut [u8]);

    impl<I> Task<I> for Each<'_> {
        type Output = u8;

        #[inline(always)]
        fn call(self, _: I) -> u8 {
            const LANES: usize = 16;
            /// What is rounded off, or on, at most.
            const NEAR: u64 = 1 << 29;
            let Self(Ties { most, tie, below }, scales, flags) = self;
            let mut all = 0;
            for (scales, flags) in scales.chunks(LANES).zip(flags.chunks_mut(LANES)) {
                let mut exact = [0.0; LANES];
                for (exact, scale) in exact.iter_mut().zip(scales) {
                    *exact = f64::from(*scale);
                }
                let mut may = [0u64; LANES];
                let mut code = 3;
                while code <= most {
                    for i in 0..LANES {
                        let beyond = (exact[i] * f64::from(code)).to_bits().wrapping_sub(tie) & below;
                        let is_near = beyond.wrapping_add(NEAR) & below <= 2 * NEAR;
                        may[i] |= u64::from(is_near & (beyond != 0));
                    }
                    code += 2;
                }
                for (may, flags) in may.iter().zip(flags) {
                    let set = if *may != 0 { TIES } else { 0 };
                    *flags |= set;
                    all |= set;
                }
            }
            all
        }
    }

    let _environment = Environment::new(Rounding::NearestEven);
    let set = on!(isa, isa => isa.run(Each(ties, scales, flags)));
    set.unwrap_or(TIES)
}

/// The exponents of float8_e8m0fnu scales of magnitudes that are float32: of what they are when `added` is, less those of `top`, a
/// power of two.
pub(crate) fn exponents(isa: Present, magnitudes: &[u32], added: u32, top: u32, codes: &mut [u8]) {
    struct Each<'a>(&'a [u32], u32, u32, &'a mut [u8]);

    impl<I> Task<I> for Each<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self, _: I) {
            let Self(magnitudes, added, top, codes) = self;
            for (&bits, code) in magnitudes.iter().zip(codes) {
                // In the range of what a power of two is counted from, since no magnitude is negative.
                let exponent = ((bits + added) >> 23) as i32 - (top >> 23) as i32 + 127;
                *code = if bits == 0 { 0 } else { exponent.clamp(0, 254) as u8 };
            }
        }
    }

    let ran = on!(isa, isa => isa.run(Each(magnitudes, added, top, codes)));
    debug_assert!(ran.is_some());
}

/// The ties of a target, which are odd numbers, `most` at most, times powers of two; and how many significant bits elements have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    pub(crate) most: u32,
    pub(crate) bits: u32,
}

/// One over each scale. With the ties of a target, such that no product with one is on another side of a tie than the quotient, where
/// that is possible: [`TIES`] is set of the other scales, and returned how many those are. All are positive then.
///
/// ```text
/// x = t * S to so many bits     the one x that x / S may be near the tie t for: its neighbours are 2^-bits away
/// r = x - t * S                 of which the sign is exact: it says on which side of t the quotient is, or that it is t
/// d = x * v - t                 the same of the product: the larger one of two x has no smaller product
/// ```
/// v is the inverse, or 8 of its last of 24 bits more or less: no product is wrong by as many. Found scales are magnitudes that were
/// divided and rounded: all r of such a one have the same sign, or are 0.
pub(crate) fn inverses(
    isa: Present,
    scales: &[f32],
    rests: &[f32],
    inverses: &mut [f32],
    ties: Option<Near>,
    flags: &mut [u8],
) -> usize {
    struct Each<'a> {
        scales: &'a [f32],
        rests: &'a [f32],
        inverses: &'a mut [f32],
        ties: Option<Near>,
        flags: &'a mut [u8],
    }

    /// 1 and -1 of what is more and less than 0.
    #[inline(always)]
    fn sign<I: Simd>(isa: I, x: I::V) -> I::V {
        isa.max_s32(isa.min_s32(x, isa.splat32(1)), isa.splat32(u32::MAX))
    }

    /// Whether inverses must be larger somewhere, 1 if so, and smaller, -1.
    #[inline(always)]
    fn needed<I: Simd>(isa: I, Near { most, bits }: Near, [scale, rest, inverse]: [I::V; 3]) -> [I::V; 2] {
        let half = isa.splat32(1 << (23 - bits));
        let mask = isa.splat32(u32::MAX << (24 - bits));
        let [mut more, mut less] = [isa.splat32(0); 2];
        let mut tie = 1;
        while tie <= most {
            let t = isa.splat32((tie as f32).to_bits());
            let minus_t = isa.splat32((-(tie as f32)).to_bits());
            let x = isa.and(isa.add32(isa.mul_f32(t, scale), half), mask);
            let r = isa.mul_add_f32(minus_t, rest, isa.mul_add_f32(minus_t, scale, x));
            // Floats, as integers, have their sign; and those above 0 are in order.
            let d = isa.sub32(isa.mul_f32(x, inverse), t);
            let by = isa.sub32(sign(isa, r), sign(isa, d));
            (more, less) = (isa.max_s32(more, by), isa.min_s32(less, by));
            tie += 2;
        }
        [sign(isa, more), sign(isa, less)]
    }

    impl<I: Simd> Task<I> for Each<'_> {
        type Output = usize;

        #[inline(always)]
        fn call(self, isa: I) -> usize {
            let Self { scales, rests, inverses, ties, flags } = self;
            let Some(near) = ties else {
                for (scale, inverse) in scales.iter().zip(inverses) {
                    *inverse = 1.0 / scale;
                }
                return 0;
            };
            let lanes = const { I::BYTES / 4 };
            let zero = isa.splat32(0);
            let (mut scales, mut rests, mut left) = (bytes_of(scales), bytes_of(rests), 0);
            for (inverses, flags) in inverses.chunks_mut(lanes).zip(flags.chunks_mut(lanes)) {
                let Some(scale) = isa.load_next(&mut scales) else { break };
                let rest = isa.load_next(&mut rests).unwrap_or(zero);
                let inverse = isa.div_f32(isa.splat32(1f32.to_bits()), scale);
                let [more, less] = needed(isa, near, [scale, rest, inverse]);
                let other = isa.add32(inverse, isa.shl32::<3>(isa.add32(more, less)));
                let [other_more, other_less] = needed(isa, near, [scale, rest, other]);
                let is_right = isa.eq32(isa.or(more, less), zero);
                let other_is = isa.eq32(isa.or(other_more, other_less), zero);
                let made = isa.select32(is_right, inverse, isa.select32(other_is, other, inverse));
                let tie = isa.splat32(TIES.into());
                let set = isa.select32(is_right, zero, isa.select32(other_is, zero, tie));
                let (mut numbers, mut sets) = ([0; 64], [0; 64]);
                isa.store_next(&mut (&mut numbers[..]).into(), made);
                isa.store_next(&mut (&mut sets[..]).into(), set);
                for (inverse, number) in inverses.iter_mut().zip(numbers.as_chunks::<4>().0) {
                    *inverse = f32::from_ne_bytes(*number);
                }
                for (flags, set) in flags.iter_mut().zip(sets.as_chunks::<4>().0) {
                    let set = u32::from_ne_bytes(*set) as u8;
                    *flags |= set;
                    left += usize::from(set == TIES);
                }
            }
            left
        }
    }

    // Whole registers are read where ties are looked at.
    let whole = flags.len().next_multiple_of(LEAST_GROUP);
    assert!(ties.is_none() || scales.len() >= whole && (rests.is_empty() || rests.len() >= whole));
    let _environment = Environment::new(Rounding::NearestEven);
    let left = on!(isa, isa => isa.run(Each { scales, rests, inverses, ties, flags }));
    debug_assert!(left.is_some());
    left.unwrap_or(0)
}

/// Bytes read and written from which on a cast goes past the caches.
pub(crate) fn streaming_threshold() -> usize {
    super::environment::streaming_threshold()
}

/// The largest magnitude of each group of floats of 16 or 32 bits, as their bits without the sign: of those in `found` and of
/// the elements. (As integers they are in order: a NaN is the largest.)
pub(crate) fn magnitudes(isa: Present, src: &[u8], bits: u32, group: usize, found: &mut [u32]) {
    struct Groups<'a> {
        src: &'a [u8],
        bits: u32,
        group: usize,
        found: &'a mut [u32],
    }

    impl<I: Simd> Task<I> for Groups<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self, isa: I) {
            let Self { src, bits, group, found } = self;
            if group == 1 {
                // Each is its own.
                match bits {
                    32 => {
                        for (found, x) in found.iter_mut().zip(src.as_chunks::<4>().0) {
                            *found = (*found).max(u32::from_ne_bytes(*x) & (u32::MAX >> 1));
                        }
                    }
                    _ => {
                        for (found, x) in found.iter_mut().zip(src.as_chunks::<2>().0) {
                            *found = (*found).max(u32::from(u16::from_ne_bytes(*x) & (u16::MAX >> 1)));
                        }
                    }
                }
                return;
            }
            // The short ones first, as many as are whole.
            let size = bits as usize / 8 * group;
            let done = match (bits, 2 * size / I::BYTES, 2 * size % I::BYTES) {
                (16, 1, 0) => halves(isa, found, src),
                (16, 2, 0) => short::<I, 1>(isa, found, src),
                (16, 4, 0) => short::<I, 2>(isa, found, src),
                (32, 2, 0) => four::<I, 1>(isa, found, src),
                (32, 4, 0) => four::<I, 2>(isa, found, src),
                _ => 0,
            };
            let found = found.get_mut(done..).unwrap_or_default();
            let src = src.get(done * size..).unwrap_or_default();
            for (found, elements) in found.iter_mut().zip(src.chunks(size.max(1))) {
                let most = if bits == 32 { most::<I, 4>(isa, elements) } else { most::<I, 2>(isa, elements) };
                *found = (*found).max(most);
            }
        }
    }

    #[inline(always)]
    fn larger<I: Simd, const WIDTH: usize>(isa: I, a: I::V, b: I::V) -> I::V {
        if WIDTH == 4 { isa.max_u32(a, b) } else { isa.max_u16(a, b) }
    }

    /// Groups of so many registers of 16 bits. Returns how many there were.
    #[inline(always)]
    fn short<I: Simd, const REGISTERS: usize>(isa: I, found: &mut [u32], mut src: &[u8]) -> usize {
        let n = found.len().min(src.len() / const { REGISTERS * I::BYTES });
        let mask = isa.splat32(sign::<2>());
        for found in found.iter_mut().take(n) {
            let mut most = isa.splat32(0);
            for _ in 0..REGISTERS {
                let Some(x) = isa.load_next(&mut src) else { break };
                most = larger::<I, 2>(isa, most, isa.and(x, mask));
            }
            *found = (*found).max(isa.most_u16(most));
        }
        n
    }

    /// Groups of so many registers of 32 bits, four at a time: zips make of their registers one, of which every piece of 16 bytes
    /// has a lane of each. Returns how many there were.
    #[inline(always)]
    fn four<I: Simd, const REGISTERS: usize>(isa: I, found: &mut [u32], src: &[u8]) -> usize {
        let (fours, _) = found.as_chunks_mut::<4>();
        let size = const { 4 * REGISTERS * I::BYTES };
        let n = fours.len().min(src.len() / size);
        let mask = isa.splat32(sign::<4>());
        for (found, mut src) in fours.iter_mut().zip(src.chunks_exact(size)) {
            let mut all = [isa.splat32(0); 4];
            for most in &mut all {
                for _ in 0..REGISTERS {
                    let Some(x) = isa.load_next(&mut src) else { break };
                    *most = isa.max_u32(*most, isa.and(x, mask));
                }
            }
            let first = isa.zip_pieces::<4>(all[0], all[1]);
            let second = isa.zip_pieces::<4>(all[2], all[3]);
            let both = [isa.max_u32(first[0], first[1]), isa.max_u32(second[0], second[1])];
            let zipped = isa.zip_pieces::<8>(both[0], both[1]);
            let mut bytes = [0; 64];
            isa.store_next(&mut (&mut bytes[..]).into(), isa.max_u32(zipped[0], zipped[1]));
            for piece in bytes.as_chunks::<16>().0 {
                for (found, x) in found.iter_mut().zip(piece.as_chunks::<4>().0) {
                    *found = (*found).max(u32::from_ne_bytes(*x));
                }
            }
        }
        4 * n
    }

    /// Groups of 16 bits each of half a register: those of whole ones.
    #[inline(always)]
    fn halves<I: Simd>(isa: I, found: &mut [u32], mut src: &[u8]) -> usize {
        let (pairs, _) = found.as_chunks_mut::<2>();
        let n = pairs.len().min(src.len() / I::BYTES);
        let mask = isa.splat32(sign::<2>());
        for pair in pairs.iter_mut().take(n) {
            let Some(x) = isa.load_next(&mut src) else { break };
            let most = isa.most_u16_of_halves(isa.and(x, mask));
            *pair = [pair[0].max(most[0]), pair[1].max(most[1])];
        }
        2 * n
    }

    /// All but the signs.
    #[inline(always)]
    fn sign<const WIDTH: usize>() -> u32 {
        if WIDTH == 4 { u32::MAX >> 1 } else { 0x7FFF_7FFF }
    }

    #[inline(always)]
    fn most<I: Simd, const WIDTH: usize>(isa: I, mut elements: &[u8]) -> u32 {
        let sign = sign::<WIDTH>();
        let mask = isa.splat32(sign);
        let mut all = [isa.splat32(0); 2];
        while let Some((mut both, rest)) = elements.split_at_checked(2 * I::BYTES)
            && let (Some(a), Some(b)) = (isa.load_next(&mut both), isa.load_next(&mut both))
        {
            all[0] = larger::<I, WIDTH>(isa, all[0], isa.and(a, mask));
            all[1] = larger::<I, WIDTH>(isa, all[1], isa.and(b, mask));
            elements = rest;
        }
        if let Some(last) = isa.load_next(&mut elements) {
            all[0] = larger::<I, WIDTH>(isa, all[0], isa.and(last, mask));
        }
        let both = larger::<I, WIDTH>(isa, all[0], all[1]);
        let mut most = if WIDTH == 4 { isa.most_u32(both) } else { isa.most_u16(both) };
        for x in elements.as_chunks::<WIDTH>().0 {
            let mut bytes = [0; 4];
            bytes[..WIDTH].copy_from_slice(x);
            most = most.max(u32::from_le_bytes(bytes) & sign & (u32::MAX >> (32 - 8 * WIDTH)));
        }
        most
    }

    let ran = on!(isa, isa => isa.run(Groups { src, bits, group, found }));
    debug_assert!(ran.is_some());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_reach_to_whole_blocks() {
        assert_eq!(Per::Element.factors(1), BLOCK);
        assert_eq!(Per::Group(16).factors(65), 8);
        assert_eq!(Per::Group(128).factors(65), 1);
        assert_eq!(Per::All.factors(1 << 20), 1);
    }
}
