//! How safe code runs the kernels of scaled casts, in the floating-point environment that they expect. `operands.rs` is what they
//! multiply with or divide by. `scales.rs` computes these, `magnitudes.rs` finds the largest magnitudes of groups, and `float64.rs`
//! computes with elements as float64s.

pub(crate) mod float64;
pub(crate) mod magnitudes;
pub(super) mod operands;
pub(crate) mod scales;

use self::operands::{RunScaled, Scale};
use super::backend::on;
use super::codec::job::{Job, Table};
use super::codec::lookup;
use super::codec::scaled::{self, ScaledNarrowing, ScaledTables};
use super::environment::Environment;
use super::layout::Apart;
use super::memory::Destination;
use super::present::Present;
use super::simd::{Extras, Simd, Task, fence};
use super::sizes::{KERNEL_BLOCK, bytes};
use super::stream::{self, Maker};
use crate::formats::dtype::DType;
use crate::formats::options::{CastOptions, Rounding};
use crate::formats::route::{Route, route};

pub(crate) use self::operands::{By, Factor, How, LEAST_GROUP, Others, Place, Table16, Table128};
pub(crate) use super::codec::scaled::UNDIVIDED;

/// How many elements share a scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Per {
    Element,
    /// This number of adjacent elements: a power of two, [`LEAST_GROUP`] or more.
    Group(usize),
    /// All of them.
    All,
}

impl Per {
    /// How many numbers an array must have for `n` elements: those of whole blocks, on every instruction set.
    pub(crate) fn numbers(self, n: usize) -> usize {
        let whole = n.next_multiple_of(KERNEL_BLOCK);
        match self {
            Self::Element => whole,
            Self::Group(group) => whole.div_ceil(group),
            Self::All => 1,
        }
    }

    /// Whether elements can be looked up this way.
    pub(crate) fn is_by(self, by: By) -> bool {
        match (by, self) {
            (_, Self::Element) => false,
            (By::Scale | By::Sixteen, Self::Group(group)) => group >= KERNEL_BLOCK,
            (By::Exponent, Self::Group(group)) => group > LEAST_GROUP,
            (By::Code, per) => per == Self::Group(LEAST_GROUP),
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

/// The arrays of a [`Scale`] as slices. Arrays that are not used are empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaleArrays<'a> {
    pub(crate) per: Per,
    pub(crate) how: How,
    pub(crate) others: Others,
    /// The tensor scale.
    pub(crate) tensor: Factor,
    pub(crate) scales: &'a [f32],
    pub(crate) inverses: &'a [f32],
    pub(crate) zeros: &'a [f32],
    /// For look-ups, in place of the arrays above: a table for each group; or one for all, and `deltas` for each group.
    pub(crate) tables: &'a [Table128],
    pub(crate) deltas: &'a [u32],
    /// For look-ups in tables of 16 words: one for each group; or one for each of 256 codes, and `places` for each 16 elements.
    pub(crate) sixteens: &'a [Table16],
    pub(crate) places: &'a [Place],
    /// How many bytes ahead the source is prefetched; 0 if it is not.
    pub(crate) next: isize,
}

impl ScaleArrays<'_> {
    /// No arrays.
    pub(crate) const NONE: Self = Self {
        per: Per::All,
        how: How::Near,
        others: Others::NONE,
        tensor: Factor::NONE,
        scales: &[],
        inverses: &[],
        zeros: &[],
        tables: &[],
        deltas: &[],
        sixteens: &[],
        places: &[],
        next: 0,
    };
}

/// Rows that have the same scales: how many there are, and how many bytes apart on either side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) count: usize,
    pub(crate) src: usize,
    pub(crate) dst: usize,
}

/// A kernel of scaled casts on an instruction set.
#[derive(Clone, Copy)]
pub(crate) struct ScaledKernel {
    isa: Present,
    run: RunScaled,
    job: Job,
    /// Bits of an element in memory on both sides.
    bits: [usize; 2],
    /// How the kernel looks elements up, if it does.
    by: Option<By>,
    /// Whether the kernel divides. It then needs inverses, unless it is told [`How::Over`].
    divides: bool,
    /// Whether the kernel looks up the products of all codes with the scale of a group; it then takes no scale for each element.
    is_by_products: bool,
    /// Whether the kernel divides bfloat16s, exponents and mantissas apart: a table has the quotients of all mantissas, and
    /// `deltas` have an exponent for each scale. All scales share one table if they are powers of two.
    is_by_mantissas: bool,
}

impl ScaledKernel {
    /// Makes a kernel that multiplies, unless the caller changes its fields.
    fn new(isa: Present, run: RunScaled, route: &Route, table: Table, extras: Extras) -> Self {
        Self {
            isa,
            run,
            job: Job::new(route, table, extras),
            bits: [route.src.memory_bits() as usize, route.dst.memory_bits() as usize],
            by: None,
            divides: false,
            is_by_products: false,
            is_by_mantissas: false,
        }
    }

    /// The kernel that multiplies codes with scales, rounding to nearest even. None if there is none for these dtypes and layouts.
    pub(crate) fn times(isa: Present, from: DType, to: DType, options: &CastOptions) -> Option<Self> {
        let route = route(from, to, options);
        if route.src.swapped || route.dst.swapped {
            return None;
        }
        let run = on!(isa, isa => scaled::times(isa, &route)).flatten()?;
        // Codes of 8 bits or fewer are looked up as float32, whatever the target is.
        let as_f32 = crate::formats::route::route(from, DType::F32, options);
        let table = if lookup::has_table(&as_f32) { lookup::table(&as_f32)? } else { Table::NONE };
        Some(Self::new(isa, run, &route, table, Extras::this()))
    }

    /// A kernel that computes the products of all codes with the scale of a group and looks elements up in these, if that is faster.
    pub(crate) fn products(self, from: DType, to: DType, options: &CastOptions) -> Option<Self> {
        let run = on!(self.isa, isa => scaled::products(isa, &route(from, to, options))).flatten()?;
        Some(Self { run, is_by_products: true, ..self })
    }

    /// A kernel that looks codes up in tables that [`ScaledKernel::fill`] makes, if that is faster.
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
        Some(Self { by: Some(by), ..Self::new(isa, run, &route, Table::NONE, Extras::NONE) })
    }

    /// Fills tables by casting `codes`, 128 for each table. `words` has room for the results.
    pub(crate) fn fill(
        &self,
        codes: &[u8],
        words: &mut [u8],
        tables: &mut [Table128],
        arrays: &ScaleArrays<'_>,
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
        self.run(codes, (&mut *words).into(), 128 * tables.len(), &one, arrays, false);
        let ran = on!(self.isa, isa => isa.run(Each(words, tables)));
        debug_assert!(ran.is_some());
    }

    /// As [`ScaledKernel::fill`], for tables of 16 words.
    pub(crate) fn fill_sixteens(
        &self,
        codes: &[u8],
        words: &mut [u8],
        tables: &mut [Table16],
        arrays: &ScaleArrays<'_>,
    ) {
        let one = Rows { count: 1, src: 0, dst: 0 };
        self.run(codes, (&mut *words).into(), 16 * tables.len(), &one, arrays, false);
        for (words, Table16([low, high])) in words.as_chunks::<32>().0.iter().zip(tables) {
            for i in 0..16 {
                (low[i], high[i]) = (words[2 * i], words[2 * i + 1]);
            }
        }
    }

    /// As [`ScaledKernel::fill_sixteens`], for the tables of [`By::Code`].
    pub(crate) fn fill_coded(&self, codes: &[u8], tables: &mut [Table16], arrays: &ScaleArrays<'_>) {
        struct Each<'a>(&'a mut [Table16]);

        impl<I: Simd<Narrowing: ScaledNarrowing<I>>> Task<I> for Each<'_> {
            type Output = ();

            #[inline(always)]
            fn call(self, isa: I) {
                I::Narrowing::arrange(isa, self.0);
            }
        }

        let one = Rows { count: 1, src: 0, dst: 0 };
        let n = 16 * tables.len();
        self.run(codes, Destination::from(&mut *tables).bytes(), n, &one, arrays, false);
        let ran = on!(self.isa, isa => isa.run(Each(tables)));
        debug_assert!(ran.is_some());
    }

    /// The kernel that divides floats by scales, rounding to nearest even. None if there is none for these dtypes and layouts.
    pub(crate) fn quotient(isa: Present, from: DType, to: DType, options: &CastOptions) -> Option<Self> {
        let route =
            route(from, to, &options.rounding(Rounding::NearestEven).int_rounding(Rounding::NearestEven));
        if route.src.swapped || route.dst.swapped {
            return None;
        }
        let run = on!(isa, isa => scaled::quotient(isa, &route)).flatten()?;
        Some(Self { divides: true, ..Self::new(isa, run, &route, Table::NONE, Extras::this()) })
    }

    /// The kernel from bfloat16 to packed float4, with [`By::Code`]: tables say what each code of a scale makes of magnitudes.
    /// None if there is none for these dtypes and layouts.
    pub(crate) fn by_thresholds(isa: Present, from: DType, to: DType, options: &CastOptions) -> Option<Self> {
        let route = route(from, to, &options.rounding(Rounding::NearestEven));
        if route.src.swapped || route.dst.swapped {
            return None;
        }
        let run = on!(isa, isa => scaled::by_thresholds(isa, &route)).flatten()?;
        Some(Self { by: Some(By::Code), ..Self::new(isa, run, &route, Table::NONE, Extras::NONE) })
    }

    /// The kernel that divides bfloat16s, exponents and mantissas apart; and, for elements that are divided by 1, the first
    /// exponent that it looks up and how many follow. None if there is no such kernel for these dtypes and layouts.
    pub(crate) fn by_mantissas(isa: Present, to: DType, options: &CastOptions) -> Option<(Self, [u8; 2])> {
        let route = route(DType::BF16, to, &options.rounding(Rounding::NearestEven));
        if route.src.swapped || route.dst.swapped {
            return None;
        }
        let run = on!(isa, isa => scaled::by_mantissas(isa, &route)).flatten()?;
        let (table, exponents) = scaled::table_by_mantissas(&route)?;
        let kernel = Self { is_by_mantissas: true, ..Self::new(isa, run, &route, table, Extras::NONE) };
        Some((kernel, exponents))
    }

    /// Converts the quotients of 128 mantissas by each scale, as float32, to the tables of [`ScaledKernel::by_mantissas`] and
    /// the largest exponent of each.
    pub(crate) fn split(&self, quotients: &[u8], tables: &mut [Table128], exponents: &mut [u32]) {
        struct Each<'a>(&'a [u8], &'a mut [Table128], &'a mut [u32]);

        impl<I: Simd<Narrowing: ScaledNarrowing<I>>> Task<I> for Each<'_> {
            type Output = ();

            #[inline(always)]
            fn call(self, _: I) {
                I::Narrowing::split(self.0, self.1, self.2);
            }
        }

        let ran = on!(self.isa, isa => isa.run(Each(quotients, tables, exponents)));
        debug_assert!(ran.is_some());
    }

    /// Casts rows of `n` elements. If `streams`, results are streamed past the caches, and [`ScaledKernel::fence`] must follow.
    pub(crate) fn run(
        &self,
        src: &[u8],
        mut dst: Destination<'_, u8>,
        n: usize,
        rows: &Rows,
        arrays: &ScaleArrays<'_>,
        streams: bool,
    ) {
        let [from, to] = self.bits;
        let Some(others) = rows.count.checked_sub(1) else { return };
        let fits = |size: usize, step: usize, row: usize| {
            others.checked_mul(step).and_then(|all| size.checked_sub(all)).is_some_and(|last| last >= row)
        };
        assert!(fits(src.len(), rows.src, bytes(n, from)) && fits(dst.size(), rows.dst, bytes(n, to)));
        /// The pointer to an array, or a null pointer if it is empty.
        fn array<T>(array: &[T], needed: usize, is_used: bool) -> *const T {
            assert!(array.len() >= needed || array.is_empty() && !is_used);
            if array.is_empty() { core::ptr::null() } else { array.as_ptr() }
        }
        let needed = arrays.per.numbers(n);
        let numbers = |numbers: &[f32], is_used: bool| array(numbers, needed, is_used);
        assert!(self.by.is_none_or(|by| arrays.per.is_by(by)));
        assert!(!self.is_by_products || arrays.per != Per::Element);
        let [is_by_exponent, is_by_sixteen, is_by_code] =
            [By::Exponent, By::Sixteen, By::Code].map(|by| self.by == Some(by));
        let adds = is_by_exponent || self.is_by_mantissas;
        let has_one = is_by_exponent || self.is_by_mantissas && arrays.tables.len() == 1;
        let looks_up = self.by == Some(By::Scale) || adds;
        assert!(!self.is_by_mantissas || arrays.per.is_by(if has_one { By::Exponent } else { By::Scale }));
        let scale = Scale {
            scales: numbers(arrays.scales, self.by.is_none() && !self.is_by_mantissas),
            inverses: numbers(arrays.inverses, self.divides && arrays.how != How::Over),
            zeros: numbers(arrays.zeros, false),
            tensor: arrays.tensor,
            tables: array(arrays.tables, if has_one { 1 } else { needed }, looks_up),
            tables_shift: if has_one { Scale::ALL } else { arrays.per.shift() },
            deltas: array(arrays.deltas, needed, adds),
            sixteens: array(
                arrays.sixteens,
                if is_by_code { 256 } else { needed },
                is_by_sixteen || is_by_code,
            ),
            places: array(arrays.places, needed, is_by_code),
            shift: arrays.per.shift(),
            is_alone: arrays.zeros.is_empty()
                && arrays.tensor == Factor::NONE
                && arrays.how == How::Near
                && (self.is_by_products || !arrays.others.loses_sign),
            at: 0,
            how: arrays.how,
            others: arrays.others,
            apart: Apart { rows: rows.count, src: rows.src as isize, dst: rows.dst as isize },
            next: arrays.next,
        };
        let (src, dst) = (src.as_ptr(), dst.reborrow().as_mut_ptr());
        let _environment = Environment::new(Rounding::NearestEven);
        // SAFETY: both buffers have the rows, and the arrays a number for every element of whole blocks, as was just asserted. No byte
        // of the destination is in the source, because it is borrowed exclusively. The instruction set is available: it is `Present`.
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

    /// Orders streamed stores before later ones.
    pub(crate) fn fence(&self) {
        on!(self.isa, isa => fence(isa));
    }
}

/// Calls `work` in the environment that kernels expect, whatever the caller has set. Code outside of kernels that computes with
/// floats is run by this function: rounding mode and flags are then as that code needs them, and no operation traps.
pub(crate) fn in_kernel_environment<R>(work: impl FnOnce() -> R) -> R {
    /// A call that is not inlined, so that the compiler moves no float operation before it: see [`Environment::new`].
    #[inline(never)]
    fn behind<R>(work: impl FnOnce() -> R) -> R {
        work()
    }

    let _environment = Environment::new(Rounding::NearestEven);
    behind(work)
}

/// The number of bytes, read and written, from which on results are streamed past the caches.
pub(crate) fn streaming_threshold() -> usize {
    super::processor::streaming_threshold()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_reach_to_whole_blocks() {
        assert_eq!(Per::Element.numbers(1), KERNEL_BLOCK);
        assert_eq!(Per::Group(16).numbers(65), 8);
        assert_eq!(Per::Group(128).numbers(65), 1);
        assert_eq!(Per::All.numbers(1 << 20), 1);
    }
}
