//! From 8 bits or fewer: a table of 256 elements, from the scalar reference. So the rounding, overflow and NaN
//! rules are data here, and right by construction.
//!
//! The table is kept as [planes](Plane): first the lowest byte of every element, then the next, in the order of
//! significance. It is made when the first caster of its pair and options is (those of the default options made at compile
//! time cost every build 10 s and more).
//!
//! No element has more than two bytes in a table: wider ones are made of the bfloat16 or of the byte that they
//! are exact in.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

use super::super::once::Once;
use super::super::simd::Simd;
use super::float::NearF32;
use super::plane::{Fold, Plane, Words, bytes, words};
use super::source::{AsF32, AsF64, Source, from_f32};
use super::{Codec, Ends, Job, load_codes, registers, store_codes, store16};
use crate::formats::dtype::{DType, Kind};
use crate::formats::options::{Overflow, Policy};
use crate::formats::route::Route;

/// Every float and integer of 8 bits or fewer, and bool: what has tables.
const SOURCES: usize = 18;

/// The row of a source of 8 bits or fewer; as a target, its column.
fn row(dtype: DType) -> usize {
    let code = dtype.code() as usize;
    // The floats follow the integers, but for the integers of 16 bits and more in between.
    if code <= DType::I8.code() as usize { code } else { code - (DType::F4E2M1.code() as usize - 7) }
}

/// What the table of a route gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernels) enum Found {
    /// The elements themselves.
    Elements,
    /// Bfloat16, in which every source of 8 bits or fewer is exact.
    Bf16,
    /// Integers of 8 or 16 bits, in which every element is exact, to be widened.
    Bytes,
    Words,
}

pub(in crate::kernels) fn found(route: &Route) -> Found {
    match (route.from.kind(), route.to.kind()) {
        (Kind::Float(from), Kind::Int(to)) if to.bits > 16 => {
            // No number is rounded to more than the power of two after the max.
            match (from.max_code() >> from.mantissa_bits) as i32 - from.bias + 1 {
                _ if from.has_inf => Found::Bf16,
                ..=6 => Found::Bytes,
                7..=14 => Found::Words,
                _ => Found::Bf16,
            }
        }
        (Kind::Bool | Kind::Int(_), Kind::Int(to)) if to.bits > 8 => Found::Bytes,
        _ if matches!(route.to, DType::F32 | DType::F64) => Found::Bf16,
        _ => Found::Elements,
    }
}

/// Are the integers that a table gives to be widened as signed ones?
fn widens_signed(route: &Route) -> bool {
    match (route.from.kind(), route.to.kind()) {
        (Kind::Int(from), _) => from.signed,
        // What is negative saturates in the table, or wraps when it is widened.
        (Kind::Float(_), Kind::Int(to)) => to.signed || route.policy.overflow == Overflow::Wrap,
        _ => false,
    }
}

/// The dtype of what the table of a route gives.
pub(in crate::kernels) fn looked_up(route: &Route) -> DType {
    match (found(route), widens_signed(route)) {
        (Found::Elements, _) => route.to,
        (Found::Bf16, _) => DType::BF16,
        (Found::Bytes, true) => DType::I8,
        (Found::Bytes, false) => DType::U8,
        (Found::Words, true) => DType::I16,
        (Found::Words, false) => DType::U16,
    }
}

/// The codes that the table of a route is of. Of a float that ends far below 127, all that matters of a wider integer is
/// which integer of 8 bits is the nearest.
fn index(route: &Route) -> DType {
    match (route.from.kind(), route.to.kind()) {
        (Kind::Int(from), Kind::Float(to)) if from.bits > 8 && to.bits() <= 8 => {
            // The power of two after the max.
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

/// Does a route look anything up?
pub(in crate::kernels) fn has_table(route: &Route) -> bool {
    match (index(route), route.to.kind()) {
        // By instructions: other integers, wider floats, and bool of what has a zero.
        (DType::U8 | DType::I8, Kind::Float(to)) => to.bits() <= 8,
        (DType::U8 | DType::I8, _) => false,
        (from, _) if from.bits() > 8 => false,
        (from, Kind::Bool) => !from.float_format().is_some_and(|from| from.bits() == 8 && from.has_sign),
        _ => true,
    }
}

/// The tables of a pair, one for each policy that has been asked for: they are made once in a process, and kept.
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
static TO_WORDS: [[Tables<Words>; 4]; SOURCES] = unmade();

/// The table of a route that has one. None if there is no memory for it.
pub(in crate::kernels) fn table(route: &Route) -> Option<*const u8> {
    let (from, to) = (index(route), looked_up(route));
    let is_exact = match found(route) {
        Found::Elements => route.from == route.to,
        Found::Bf16 => true,
        Found::Bytes | Found::Words => route.from.float_format().is_none(),
    };
    // What is exact under one policy is so under all.
    let policy = if is_exact { Policy::DEFAULT } else { route.policy };
    fn made<T: Send + Sync>(
        mut tables: &'static Tables<T>,
        policy: Policy,
        make: impl Fn(&mut MaybeUninit<T>),
    ) -> Option<*const u8> {
        loop {
            let made = tables.get_or_make_in(|place| {
                let made = place.as_mut_ptr();
                // SAFETY: the fields of a place, which are written before it is said to be initialised: the table by `make`,
                // as all of them that are given to this.
                unsafe {
                    (&raw mut (*made).policy).write(policy);
                    (&raw mut (*made).others).write(Once::new());
                    make(&mut *(&raw mut (*made).table).cast());
                    Some(&mut *made)
                }
            })?;
            if made.policy == policy {
                return Some(ptr::from_ref(&made.table).cast());
            }
            tables = &made.others;
        }
    }
    let words_to =
        |column: usize| made(&TO_WORDS[row(from)][column], policy, |place| words(from, to, &policy, place));
    match to {
        DType::U16 => words_to(0),
        DType::I16 => words_to(1),
        DType::F16 => words_to(2),
        DType::BF16 => words_to(3),
        _ => made(&TO_BYTES[row(from)][row(to)], policy, |place| bytes(from, to, &policy, place)),
    }
}

/// What is kept of a plane.
type Kept<I> = [<I as Simd>::Row; 4];

/// What is kept of a table.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Looks<I: Simd> {
    planes: [Kept<I>; 2],
    line: MaybeUninit<I::Line>,
}

impl<I: Simd> Looks<I> {
    /// Of none.
    ///
    /// # Safety
    /// As for the operations of [`Simd`].
    #[inline(always)]
    pub(super) unsafe fn at_nothing() -> Self {
        static NOTHING: [u8; 64] = [0; 64];
        // SAFETY: the caller's promise.
        unsafe { Self { planes: [[I::row(NOTHING.as_ptr()); 4]; 2], line: MaybeUninit::uninit() } }
    }

    /// Of those rows of a table that are looked at, of its two planes or of one. They are read once for a call: the
    /// destination might be the table, for all that the compiler knows, so it would read them for each block.
    ///
    /// # Safety
    /// As for the operations of [`Simd`]; the table has as many planes.
    #[inline(always)]
    unsafe fn at<R: Rows>(table: *const u8, two: bool) -> Self {
        // SAFETY: the caller's promise; only a table of words has a line.
        unsafe {
            let planes = registers!(2, P => registers!(4, K => {
                // In the place of a plane and of a row that is not looked at, another.
                I::row(table.add(if two { P * size_of::<Plane>() } else { 0 } + K % R::ROWS * 64))
            }));
            let line = if R::LINE { MaybeUninit::new(I::line(table.cast())) } else { MaybeUninit::uninit() };
            Self { planes, line }
        }
    }
}

/// How much of a table there is to look at.
pub(in crate::kernels) trait Rows {
    /// Rows that are looked at.
    const ROWS: usize;
    /// What is looked at makes a [`Line`](super::plane::Line).
    const LINE: bool = false;

    /// The bytes of a plane; `top` if it is the highest one of the elements.
    ///
    /// # Safety
    /// As for the operations of [`Simd`].
    unsafe fn look<I: Simd>(plane: Kept<I>, top: bool, index: I::V) -> I::V;

    /// Both planes, zipped: elements in the order of an index that is [before zips](Simd::before_zips).
    ///
    /// # Safety
    /// As for the operations of [`Simd`].
    #[inline(always)]
    unsafe fn zipped<I: Simd>(looks: &Looks<I>, index: I::V) -> [I::V; 2] {
        // SAFETY: the caller's promise.
        unsafe { zipped_planes::<I, Self>(looks, index) }
    }
}

/// [`Rows::zipped`] of planes that say nothing of each other.
///
/// # Safety
/// As for the operations of [`Simd`].
#[inline(always)]
unsafe fn zipped_planes<I: Simd, R: Rows + ?Sized>(looks: &Looks<I>, index: I::V) -> [I::V; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let found = [R::look::<I>(looks.planes[0], false, index), R::look::<I>(looks.planes[1], true, index)];
        I::zip_pieces::<1>(found[0], found[1])
    }
}

/// All of it, with the [`Fold`] of this number.
pub(in crate::kernels) struct Folded<const FOLD: usize>;
pub(in crate::kernels) type Whole = Folded<{ Fold::Apart as usize }>;
pub(in crate::kernels) type Same = Folded<{ Fold::Same as usize }>;
pub(in crate::kernels) type Negated = Folded<{ Fold::Negated as usize }>;
pub(in crate::kernels) type Limited = Folded<{ Fold::Short as usize }>;
pub(in crate::kernels) type Magnitude = Folded<{ Fold::Magnitude as usize }>;
pub(in crate::kernels) type Positive = Folded<{ Fold::Positive as usize }>;
/// One half: the element of a code with the top bit set is that of the code without, and the sign.
pub(in crate::kernels) struct Mirrored;
/// None: the elements make a [`Line`](super::plane::Line).
pub(in crate::kernels) struct OnLine;
/// The codes of 6 bits or fewer.
pub(in crate::kernels) struct Short;
/// Those of 4 bits or fewer.
pub(in crate::kernels) struct Nibble;
/// 0 and 1: of a bool every other byte is as good as 1.
pub(in crate::kernels) struct Truth;

impl<const FOLD: usize> Rows for Folded<FOLD> {
    const ROWS: usize = 4;

    #[inline(always)]
    unsafe fn look<I: Simd>(plane: Kept<I>, _: bool, index: I::V) -> I::V {
        // SAFETY: the caller's promise.
        unsafe { I::lookup256(plane, const { Fold::ALL[FOLD] }, index) }
    }

    #[inline(always)]
    unsafe fn zipped<I: Simd>(looks: &Looks<I>, index: I::V) -> [I::V; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            if I::HAS_LINES && FOLD == Fold::Negated as usize {
                I::negated_words([looks.planes[0][0], looks.planes[1][0]], index)
            } else {
                zipped_planes::<I, Self>(looks, index)
            }
        }
    }
}

impl Rows for Mirrored {
    const ROWS: usize = 2;

    #[inline(always)]
    unsafe fn look<I: Simd>([a, b, ..]: Kept<I>, top: bool, index: I::V) -> I::V {
        // SAFETY: the caller's promise.
        unsafe {
            let v = I::lookup128([a, b], index);
            if top { I::put(I::splat8(0x80), index, v) } else { v }
        }
    }
}

impl Rows for OnLine {
    const ROWS: usize = 1;
    const LINE: bool = true;

    #[inline(always)]
    unsafe fn look<I: Simd>(plane: Kept<I>, _: bool, index: I::V) -> I::V {
        // SAFETY: the caller's promise.
        unsafe { I::lookup256(plane, Fold::Apart, index) }
    }

    #[inline(always)]
    unsafe fn zipped<I: Simd>(looks: &Looks<I>, index: I::V) -> [I::V; 2] {
        // SAFETY: the caller's promise; a line is kept of it.
        unsafe { I::on_line(looks.line.assume_init(), index) }
    }
}

impl Rows for Short {
    const ROWS: usize = 1;

    #[inline(always)]
    unsafe fn look<I: Simd>([row, ..]: Kept<I>, _: bool, index: I::V) -> I::V {
        // SAFETY: the caller's promise.
        unsafe { I::lookup64(row, index) }
    }
}

impl Rows for Nibble {
    const ROWS: usize = 1;

    #[inline(always)]
    unsafe fn look<I: Simd>([row, ..]: Kept<I>, _: bool, index: I::V) -> I::V {
        // SAFETY: the caller's promise. A table repeats for every value of the bits that are no part of a code.
        unsafe { I::lookup16(row, index) }
    }
}

impl Rows for Truth {
    const ROWS: usize = 1;

    #[inline(always)]
    unsafe fn look<I: Simd>([row, ..]: Kept<I>, _: bool, index: I::V) -> I::V {
        // SAFETY: the caller's promise. The index is 0 or 1, so it does not matter that the table does not repeat.
        unsafe { I::lookup16(row, I::min_u8(index, I::splat8(1))) }
    }
}

/// From codes of `SRC` bits in memory, which it reads itself, to elements of `DST` bits.
pub(in crate::kernels) struct Lookup<R, const SRC: usize, const DST: usize>(PhantomData<R>);

impl<R: Rows, const SRC: usize, const DST: usize> Source for Lookup<R, SRC, DST> {
    const BITS: usize = SRC;
    const FLOATS: bool = false;

    #[inline(always)]
    unsafe fn looks<I: Simd>(table: *const u8) -> Looks<I> {
        // SAFETY: the caller's promise.
        unsafe { Looks::at::<R>(table, DST > 8) }
    }
}

impl<I: Simd, R: Rows, const SRC: usize, const DST: usize> Codec<I> for Lookup<R, SRC, DST> {
    type From = Self;
    const DST: usize = DST;
    const FLOATS: bool = false;
    type Setup = ();

    #[inline(always)]
    unsafe fn setup(_: &Job) {}

    #[inline(always)]
    unsafe fn block(_: &(), ends: Ends<I>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise, and its table has as many planes as an element has bytes.
        unsafe {
            let index = load_codes::<I, SRC>(src, ends);
            if DST <= 8 {
                return store_codes::<I, DST>(R::look::<I>(ends.looks.planes[0], true, index), ends, dst);
            }
            let words = words_of::<I, R>(&ends.looks, index);
            store16::<I, 16>(words, I::splat32(u32::MAX), ends, dst);
        }
    }
}

/// Elements of 16 bits.
///
/// # Safety
/// As for the operations of [`Simd`].
#[inline(always)]
unsafe fn words_of<I: Simd, R: Rows>(looks: &Looks<I>, index: I::V) -> [I::V; 2] {
    // SAFETY: the caller's promise.
    unsafe { R::zipped::<I>(looks, I::before_zips::<2>(index)) }
}

/// Codes of `BITS` bits in memory as floats: each by the bfloat16 that is the upper half of a float32.
pub(in crate::kernels) struct Floats<R, const BITS: usize>(PhantomData<R>);

impl<R: Rows, const BITS: usize> Source for Floats<R, BITS> {
    const BITS: usize = BITS;
    const FLOATS: bool = false;

    #[inline(always)]
    unsafe fn looks<I: Simd>(table: *const u8) -> Looks<I> {
        // SAFETY: the caller's promise, and its table has two planes.
        unsafe { Looks::at::<R>(table, true) }
    }
}

impl<I: Simd, R: Rows, const BITS: usize> AsF32<I> for Floats<R, BITS> {
    #[inline(always)]
    unsafe fn f32(src: *const u8, ends: Ends<I>) -> [I::V; 4] {
        // SAFETY: the caller's promise, and its table has two planes.
        unsafe {
            let index = I::before_zips::<4>(load_codes::<I, BITS>(src, ends));
            let upper = R::zipped::<I>(&ends.looks, index);
            let zero = I::splat32(0);
            let x = registers!(2, H => I::zip_pieces::<2>(zero, upper[H]));
            registers!(4, K => x[K / 2][K % 2])
        }
    }
}

impl<I: Simd, R: Rows, const BITS: usize> AsF64<I> for Floats<R, BITS> {
    #[inline(always)]
    unsafe fn f64(src: *const u8, ends: Ends<I>) -> [I::V; 8] {
        // SAFETY: the caller's promise.
        unsafe { from_f32::<I>(<Self as AsF32<I>>::f32(src, ends)) }
    }
}

impl<I: Simd, R: Rows, const BITS: usize> NearF32<I> for Floats<R, BITS> {
    const ROUNDS: bool = false;

    #[inline(always)]
    unsafe fn near(src: *const u8, ends: Ends<I>) -> [I::V; 4] {
        // SAFETY: the caller's promise.
        unsafe { <Self as AsF32<I>>::f32(src, ends) }
    }
}
