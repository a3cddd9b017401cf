//! Codecs from 8 bits or fewer look elements up in a table of 256, which the scalar reference computes: here, the rules of
//! rounding, overflow and NaN are data, and right by construction.
//!
//! A table is kept as [planes](Plane): one for the low bytes of all elements, one for the high bytes. It is made together with the first
//! caster of its pair and options. (Computing the tables of the default options at compile time would cost every build 10 s and more.)
//!
//! Elements in a table have at most two bytes. Wider ones are made from a bfloat16 or an integer in which they are exact.

use core::marker::PhantomData;
use core::mem::MaybeUninit;

use super::super::once::{self, Once};
use super::super::simd::{self, Simd};
use super::float::NearF32;
use super::job::{Job, Table};
use super::plane::{Fold, Plane, WordTable, bytes, tuples, words};
use super::source::{AsF32, AsF64, Input, Source, from_f32};
use super::width::{Bits, Code, Width, registers};
use super::{Block, Codec};
use crate::formats::dtype::{DTYPES, DType, Kind};
use crate::formats::layout::Packing;
use crate::formats::options::{Overflow, Policy};
use crate::formats::route::Route;

/// How many dtypes have 8 bits or fewer, and thus tables; and the index of each among them.
const ROWS: (usize, [usize; DTYPES]) = {
    let (mut sources, mut rows, mut i) = (0, [0; DTYPES], 0);
    while i < DTYPES {
        if DType::ALL[i].bits() <= 8 {
            rows[i] = sources;
            sources += 1;
        }
        i += 1;
    }
    (sources, rows)
};
const SOURCES: usize = ROWS.0;

/// The index of a dtype of 8 bits or fewer: its row as a source, its column as a target.
fn index_of(dtype: DType) -> usize {
    static ROW: [usize; DTYPES] = ROWS.1;
    ROW[dtype as usize]
}

/// What the table of a route contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernels) enum Entries {
    /// The elements themselves.
    Elements,
    /// bfloat16s, in which every source of 8 bits or fewer is exact.
    Bf16,
    /// Integers of 8 or 16 bits, in which every element is exact, and which are widened.
    Bytes,
    Words,
}

pub(in crate::kernels) fn entries(route: &Route) -> Entries {
    match (route.from.kind(), route.to.kind()) {
        (Kind::Float(from), Kind::Int(to)) if to.bits > 16 => {
            // No number is rounded to more than the power of two after the largest one.
            match (from.max_code() >> from.mantissa_bits) as i32 - from.bias + 1 {
                _ if from.has_inf => Entries::Bf16,
                ..=6 => Entries::Bytes,
                7..=14 => Entries::Words,
                _ => Entries::Bf16,
            }
        }
        (Kind::Int(from), Kind::Int(to)) if from.bits < 8 && to.bits == 16 => Entries::Elements,
        (Kind::Bool | Kind::Int(_), Kind::Int(to)) if to.bits > 8 => Entries::Bytes,
        _ if matches!(route.to, DType::F32 | DType::F64) => Entries::Bf16,
        _ => Entries::Elements,
    }
}

/// Whether the integers in a table may be negative. If not, none has the top bit set, so all tables can be widened as signed integers.
fn widens_signed(route: &Route) -> bool {
    match (route.from.kind(), route.to.kind()) {
        // Negative numbers saturate in the table, or wrap when they are widened.
        (Kind::Int(_) | Kind::Float(_), Kind::Int(to)) => {
            to.signed || route.policy.overflow == Overflow::Wrap
        }
        _ => false,
    }
}

/// The dtype of what the table of a route contains.
pub(in crate::kernels) fn looked_up(route: &Route) -> DType {
    match (entries(route), widens_signed(route)) {
        (Entries::Elements, _) => route.to,
        (Entries::Bf16, _) => DType::BF16,
        (Entries::Bytes, true) => DType::I8,
        (Entries::Bytes, false) => DType::U8,
        (Entries::Words, true) => DType::I16,
        (Entries::Words, false) => DType::U16,
    }
}

/// The dtype of the codes that are looked up. (If the target is a float that ends far below 127, a wider integer is clamped to 8 bits first.)
fn index(route: &Route) -> DType {
    match (route.from.kind(), route.to.kind()) {
        (Kind::Int(from), Kind::Float(to)) if from.bits > 8 && to.bits() <= 8 => {
            // The power of two after the largest number.
            let end = (to.max_code() >> to.mantissa_bits) as i32 - to.bias + 1;
            match from.signed {
                _ if end > 6 => route.from,
                true => DType::I8,
                false => DType::U8,
            }
        }
        _ => route.from,
    }
}

/// The fold of the table of a route.
pub(in crate::kernels) fn fold(route: &Route) -> Fold {
    Fold::of(index(route), looked_up(route), &route.policy)
}

/// Whether a route looks anything up.
pub(in crate::kernels) fn has_table(route: &Route) -> bool {
    match (index(route), route.to.kind()) {
        // Instructions do the rest: integers of 8 bits to all but floats of at most 8, codes of more than 8 bits, and floats of 8
        // bits to bool, but those without a sign, which may have no zero.
        (DType::U8 | DType::I8, Kind::Float(to)) => to.bits() <= 8,
        (DType::U8 | DType::I8, _) => false,
        (from, _) if from.bits() > 8 => false,
        (from, Kind::Bool) => !from.float_format().is_some_and(|from| from.bits() == 8 && from.has_sign),
        _ => true,
    }
}

/// The tables of a pair, one for each policy that has been asked for. They are made once per process and kept.
type Tables<T> = Once<Made<T>>;

struct Made<T> {
    policy: Policy,
    table: T,
    others: Tables<T>,
}

const fn unmade<T: Send + Sync + 'static, const TARGETS: usize>() -> [[Tables<T>; TARGETS]; SOURCES] {
    [const { [const { Once::new() }; TARGETS] }; SOURCES]
}

static TO_BYTES: [[Tables<Plane>; SOURCES]; SOURCES] = unmade();
static TO_WORDS: [[Tables<WordTable>; 4]; SOURCES] = unmade();

/// The table of a route that has one. None if there is no memory for it.
pub(in crate::kernels) fn table(route: &Route) -> Option<Table> {
    let (from, to) = (index(route), looked_up(route));
    let is_exact = match entries(route) {
        Entries::Elements => route.from == route.to,
        Entries::Bf16 => true,
        // They are exact, unless negative numbers saturate.
        Entries::Bytes | Entries::Words => match route.from.kind() {
            Kind::Int(from) => !from.signed || widens_signed(route),
            kind => kind == Kind::Bool,
        },
    };
    // What is exact needs only one table for all policies.
    let policy = if is_exact { Policy::DEFAULT } else { route.policy };
    fn made<T: Send + Sync>(
        mut tables: &'static Tables<T>,
        policy: Policy,
        make: impl Fn(&mut MaybeUninit<T>),
    ) -> Option<&'static T> {
        loop {
            let made = tables.get_or_make_in(|place| {
                let made = place.as_mut_ptr();
                // SAFETY: the fields of a place, which are all written before it counts as initialised: the table by `make`, as
                // every function that is passed here does.
                unsafe {
                    (&raw mut (*made).policy).write(policy);
                    (&raw mut (*made).others).write(Once::new());
                    make(&mut *(&raw mut (*made).table).cast());
                    Some(&mut *made)
                }
            })?;
            if made.policy == policy {
                return Some(&made.table);
            }
            tables = &made.others;
        }
    }
    let words_to = |column: usize| {
        made(&TO_WORDS[index_of(from)][column], policy, |place| words(from, to, &policy, place))
    };
    Some(match to {
        DType::U16 => Table::of_words(words_to(0)?),
        DType::I16 => Table::of_words(words_to(1)?),
        DType::F16 => Table::of_words(words_to(2)?),
        DType::BF16 => Table::of_words(words_to(3)?),
        _ => Table::of_bytes(made(&TO_BYTES[index_of(from)][index_of(to)], policy, |place| {
            bytes(from, to, &policy, place);
        })?),
    })
}

/// The table of a route that is cast by [`PackedTuple`](crate::kernels::plan::PackedTuple)s, which are codes of `bits` bits.
/// Tuples of 8 bits are looked up by [halves](Pairs).
pub(in crate::kernels) fn tuple_table(route: &Route, bits: u32) -> Option<Table> {
    let tuples = tuples(route);
    let plane = |half: &dyn Fn(usize) -> u32, codes: usize| {
        let elements = core::array::from_fn(|byte| half(byte % codes) as u8);
        Some(&once::keep(&[*Plane::of_bytes(&mut MaybeUninit::uninit(), &elements)])?[0])
    };
    let [from, to] = [route.from.bits(), route.to.bits()];
    if bits < 8 {
        // Each tuple becomes a byte: the first one of what a byte that begins with the tuple becomes.
        let first = if route.src.packing == Packing::HighFirst { 8 - bits } else { 0 };
        let bytes = plane(&|code| tuples[code << first], 1 << bits)?;
        return Some(Table::of_planes([bytes; 2]));
    }
    if from < to {
        // Each half of a byte becomes a byte.
        let bytes = plane(&|half| tuples[half], 16)?;
        return Some(Table::of_planes([bytes; 2]));
    }
    // Each half becomes one half of a byte: the same one, if elements begin at the same end on both sides.
    let bits = 4 / from * to;
    let (one, all) = ((1 << bits) - 1, 0xFF >> (8 - 2 * bits));
    let low = if route.src.packing == route.dst.packing { one } else { all & !one };
    let planes = [plane(&|half| tuples[half] & low, 16)?, plane(&|half| tuples[half << 4] & all & !low, 16)?];
    Some(Table::of_planes(planes))
}

/// The planes of a table, loaded once per call. (Otherwise the compiler would load them again for each block, because for all it knows
/// the destination may be the table.)
type Planes<I> = [<I as simd::Tables>::Plane; 2];

/// Which part of a table is looked up in, and how.
pub(in crate::kernels) trait Scope {
    /// What is loaded of the table, once per call.
    type Loaded<I: Simd>: Copy;

    fn loaded<I: Simd>(isa: I, table: &Table) -> Self::Loaded<I>;
    /// Looks up codes of 8 bits or fewer.
    fn bytes<I: Simd>(isa: I, loaded: &Self::Loaded<I>, index: I::V) -> I::V;
    /// Looks up elements of 16 bits. The indices are in the order [before zips](simd::Widths::before_zips).
    fn words<I: Simd>(isa: I, loaded: &Self::Loaded<I>, index: I::V) -> [I::V; 2];
}

/// Looks up each plane on its own.
trait ByPlane {
    /// Looks up in a plane. `top`: whether the plane has the highest byte of the elements.
    fn look<I: Simd>(isa: I, plane: I::Plane, top: bool, index: I::V) -> I::V;

    /// Looks up in both planes.
    #[inline(always)]
    fn zipped<I: Simd>(isa: I, [low, high]: Planes<I>, index: I::V) -> [I::V; 2] {
        isa.zip_pieces::<1>(Self::look(isa, low, false, index), Self::look(isa, high, true, index))
    }
}

impl<L: ByPlane> Scope for L {
    type Loaded<I: Simd> = Planes<I>;

    #[inline(always)]
    fn loaded<I: Simd>(isa: I, table: &Table) -> Planes<I> {
        let [low, high] = table.planes;
        [isa.plane(low), isa.plane(high)]
    }

    #[inline(always)]
    fn bytes<I: Simd>(isa: I, &[plane, _]: &Planes<I>, index: I::V) -> I::V {
        L::look(isa, plane, true, index)
    }

    #[inline(always)]
    fn words<I: Simd>(isa: I, &planes: &Planes<I>, index: I::V) -> [I::V; 2] {
        L::zipped(isa, planes, index)
    }
}

/// The whole table, with the [`Fold`] of this discriminant.
pub(in crate::kernels) struct Folded<const FOLD: usize>;
pub(in crate::kernels) type Unfolded = Folded<{ Fold::None as usize }>;
pub(in crate::kernels) type Same = Folded<{ Fold::Same as usize }>;
pub(in crate::kernels) type Negated = Folded<{ Fold::Negated as usize }>;
pub(in crate::kernels) type Limited = Folded<{ Fold::Limited as usize }>;
pub(in crate::kernels) type Magnitude = Folded<{ Fold::Magnitude as usize }>;
pub(in crate::kernels) type Positive = Folded<{ Fold::Positive as usize }>;
/// The first half alone: the element of a code with the top bit set is that of the code without it, with the sign bit set.
pub(in crate::kernels) struct Mirrored;
/// No plane: the elements lie on a [`Line`](super::plane::Line).
pub(in crate::kernels) struct OnLine;
/// The codes of 6 bits or fewer.
pub(in crate::kernels) struct SixBits;
/// The codes of 4 bits or fewer.
pub(in crate::kernels) struct Nibble;
/// Bytes of packed codes of 4 bits or fewer.
pub(in crate::kernels) struct Pairs;
/// 0 and 1, for bool: any other byte counts as 1.
pub(in crate::kernels) struct Truth;

impl<const FOLD: usize> ByPlane for Folded<FOLD> {
    #[inline(always)]
    fn look<I: Simd>(isa: I, plane: I::Plane, _: bool, index: I::V) -> I::V {
        isa.lookup256(plane, const { Fold::ALL[FOLD] }, index)
    }

    #[inline(always)]
    fn zipped<I: Simd>(isa: I, planes: Planes<I>, index: I::V) -> [I::V; 2] {
        if FOLD == Fold::Negated as usize {
            return isa.negated_words(planes, index);
        }
        let [low, high] = planes;
        isa.zip_pieces::<1>(Self::look(isa, low, false, index), Self::look(isa, high, true, index))
    }
}

impl ByPlane for Mirrored {
    #[inline(always)]
    fn look<I: Simd>(isa: I, plane: I::Plane, top: bool, index: I::V) -> I::V {
        let v = isa.lookup128(plane, index);
        if top { isa.put(isa.splat8(0x80), index, v) } else { v }
    }
}

impl ByPlane for SixBits {
    #[inline(always)]
    fn look<I: Simd>(isa: I, plane: I::Plane, _: bool, index: I::V) -> I::V {
        isa.lookup64(plane, index)
    }
}

/// Bytes, by one plane for their low halves and one for their high halves.
impl Scope for Pairs {
    type Loaded<I: Simd> = Planes<I>;

    #[inline(always)]
    fn loaded<I: Simd>(isa: I, table: &Table) -> Planes<I> {
        let [low, high] = table.planes;
        [isa.plane(low), isa.plane(high)]
    }

    #[inline(always)]
    fn bytes<I: Simd>(isa: I, &[low, high]: &Planes<I>, index: I::V) -> I::V {
        let [a, b] = Self::halves(isa, index);
        isa.or(isa.lookup16(low, a), isa.lookup16(high, b))
    }

    #[inline(always)]
    fn words<I: Simd>(isa: I, &[low, high]: &Planes<I>, index: I::V) -> [I::V; 2] {
        let [a, b] = Self::halves(isa, index);
        isa.zip_pieces::<1>(isa.lookup16(low, a), isa.lookup16(high, b))
    }
}

impl Pairs {
    #[inline(always)]
    fn halves<I: Simd>(isa: I, index: I::V) -> [I::V; 2] {
        let half = isa.splat8(0x0F);
        [isa.and(index, half), isa.and(isa.shr16::<4>(index), half)]
    }
}

impl ByPlane for Nibble {
    #[inline(always)]
    fn look<I: Simd>(isa: I, plane: I::Plane, _: bool, index: I::V) -> I::V {
        // A table repeats for all values of the bits that do not belong to a code.
        isa.lookup16(plane, index)
    }
}

impl ByPlane for Truth {
    #[inline(always)]
    fn look<I: Simd>(isa: I, plane: I::Plane, _: bool, index: I::V) -> I::V {
        // With an index of 0 or 1, it does not matter that the table does not repeat.
        isa.lookup16(plane, isa.min_u8(index, isa.splat8(1)))
    }
}

/// Only for elements of 16 bits.
impl Scope for OnLine {
    type Loaded<I: Simd> = I::Line;

    #[inline(always)]
    fn loaded<I: Simd>(isa: I, table: &Table) -> I::Line {
        isa.line(table.words)
    }

    #[inline(always)]
    fn bytes<I: Simd>(isa: I, line: &I::Line, index: I::V) -> I::V {
        isa.low16(isa.on_line(*line, index))
    }

    #[inline(always)]
    fn words<I: Simd>(isa: I, line: &I::Line, index: I::V) -> [I::V; 2] {
        isa.on_line(*line, index)
    }
}

/// From codes of `SRC` bits in memory to elements of `DST` bits. Integers of 32 and 64 bits are made from integers of 8.
pub(in crate::kernels) struct Lookup<R, const SRC: usize, const DST: usize>(PhantomData<R>);

impl<R: Scope, const SRC: usize, const DST: usize> Source for Lookup<R, SRC, DST>
where
    Bits<SRC>: Width,
{
    type Width = Bits<SRC>;
    const FLOATS: bool = false;
    type Loaded<I: Simd> = R::Loaded<I>;

    #[inline(always)]
    fn loaded<I: Simd>(isa: I, table: &Table) -> R::Loaded<I> {
        R::loaded(isa, table)
    }
}

impl<I: Simd, R: Scope, const SRC: usize, const DST: usize> Codec<I> for Lookup<R, SRC, DST>
where
    Bits<SRC>: Width<Block<I> = I::V>,
    Bits<DST>: Code,
{
    type From = Self;
    type To = Bits<DST>;
    const FLOATS: bool = false;
    type Setup = ();

    #[inline(always)]
    fn setup(_: I, _: &Job) {}

    #[inline(always)]
    fn block(isa: I, _: &(), src: Input<I, Self>) -> Block<I, Bits<DST>> {
        if DST != 16 {
            return Bits::<DST>::of8::<I, true>(isa, R::bytes(isa, &src.loaded, src.block));
        }
        let words = R::words(isa, &src.loaded, isa.before_zips::<2>(src.block));
        Bits::<DST>::of16::<I, true>(isa, words, isa.splat32(u32::MAX))
    }
}

/// From codes of 8 bits to integers of `DST` bits, which are made from integers of 16.
pub(in crate::kernels) struct LookupWords<R, const DST: usize>(PhantomData<R>);

impl<I: Simd, R: Scope, const DST: usize> Codec<I> for LookupWords<R, DST>
where
    Bits<DST>: Code,
{
    type From = Lookup<R, 8, DST>;
    type To = Bits<DST>;
    const FLOATS: bool = false;
    type Setup = ();

    #[inline(always)]
    fn setup(_: I, _: &Job) {}

    #[inline(always)]
    fn block(isa: I, _: &(), src: Input<I, Self::From>) -> Block<I, Bits<DST>> {
        let words = R::words(isa, &src.loaded, isa.before_zips::<2>(src.block));
        Bits::<DST>::of16::<I, true>(isa, words, isa.splat32(u32::MAX))
    }
}

/// Codes of `BITS` bits in memory, read as float32: a bfloat16 is looked up, which is its upper half.
pub(in crate::kernels) struct Floats<R, const BITS: usize>(PhantomData<R>);

impl<R: Scope, const BITS: usize> Source for Floats<R, BITS>
where
    Bits<BITS>: Width,
{
    type Width = Bits<BITS>;
    const FLOATS: bool = false;
    type Loaded<I: Simd> = R::Loaded<I>;

    #[inline(always)]
    fn loaded<I: Simd>(isa: I, table: &Table) -> R::Loaded<I> {
        R::loaded(isa, table)
    }
}

/// The floats of a block of codes.
#[inline(always)]
pub(super) fn floats<I: Simd, R: Scope>(isa: I, loaded: &R::Loaded<I>, block: I::V) -> [I::V; 4] {
    let upper = R::words(isa, loaded, isa.before_zips::<4>(block));
    let zero = isa.splat32(0);
    let x = registers!(2, H => isa.zip_pieces::<2>(zero, upper[H]));
    registers!(4, K => x[K / 2][K % 2])
}

impl<I: Simd, R: Scope, const BITS: usize> AsF32<I> for Floats<R, BITS>
where
    Bits<BITS>: Width<Block<I> = I::V>,
{
    #[inline(always)]
    fn f32(isa: I, src: Input<I, Self>) -> [I::V; 4] {
        floats::<I, R>(isa, &src.loaded, src.block)
    }
}

impl<I: Simd, R: Scope, const BITS: usize> AsF64<I> for Floats<R, BITS>
where
    Bits<BITS>: Width<Block<I> = I::V>,
{
    #[inline(always)]
    fn f64(isa: I, src: Input<I, Self>) -> [I::V; 8] {
        from_f32(isa, Self::f32(isa, src))
    }
}

impl<I: Simd, R: Scope, const BITS: usize> NearF32<I> for Floats<R, BITS>
where
    Bits<BITS>: Width<Block<I> = I::V>,
{
    const ROUNDS: bool = false;

    #[inline(always)]
    fn near(isa: I, src: Input<I, Self>) -> [I::V; 4] {
        Self::f32(isa, src)
    }
}
