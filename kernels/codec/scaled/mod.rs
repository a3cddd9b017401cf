//! Elements under scales: sources that multiply or divide what another source reads, in front of the encoders of casts; and
//! codecs that look up what an element becomes. This file says which kernel is for what.
//!
//! | how | multiply | divide |
//! |---|---|---|
//! | arithmetic | `times.rs` | `quotient.rs` |
//! | a table of 128 for each scale, or one for all | `tabled.rs` | `mantissas.rs` |
//! | 16 products with each scale: made before, or in registers | `sixteen.rs`, `products.rs` | |
//! | a table for each code that a scale may have | `coded.rs` | `thresholds.rs` |
//!
//! `under.rs` has what all sources under scales have in common; `arrays.rs` reads the arrays of a [`Scale`].

mod arrays;
mod coded;
mod mantissas;
mod products;
mod quotient;
mod sixteen;
mod tabled;
mod thresholds;
mod times;
mod under;

pub(crate) use self::mantissas::UNDIVIDED;
pub(in crate::kernels) use self::quotient::rest;
pub(in crate::kernels) use self::under::{Reads, Scaled, Under};

use self::coded::Coded;
use self::mantissas::Mantissas;
use self::products::ByProducts;
use self::quotient::{Divided, OfAny, OfFloat, OfIntegers, Quotient};
use self::sixteen::Sixteen;
use self::tabled::Tabled;
use self::thresholds::ByThresholds;
use self::times::{NormalToBf16, Times};
use self::under::Of;
use super::Codec;
use super::float::{ToF16, ToF32};
use super::integer::{ToIntegers, ToShort};
use super::job::{Table, Target};
use super::lookup::{Floats, Mirrored, Nibble, OnLine, SixBits};
use super::narrow::{
    self, Finite, Signed, ToNarrow, ToNarrowByBytes, ToNarrowByF16, ToNarrowByTable, goes_by_bytes,
    goes_by_table,
};
use super::source::{AsF32, Bf16, F16, F32, Half, I8, U8};
use super::ways::{Lookups, Ways};
use super::width::{Bits, Width};
use crate::formats::dtype::DType;
use crate::formats::route::Route;
use crate::kernels::scaled::operands::{By, RunScaled, Scale, Table16, Table128};
use crate::kernels::simd::{ByAddition, ByF16, ByWords, NarrowsByF16, NarrowsByWords, Simd};

/// The kernel that looks elements up in a table, if there is one: for packed codes, and for codes of 8 bits with -0.
pub(in crate::kernels) fn tabled<I: Simd<Narrowing: ScaledNarrowing<I>>>(
    _: I,
    route: &Route,
    by: By,
) -> Option<RunScaled> {
    let format = route.from.float_format();
    if !route.src.is_packed() && !format.is_some_and(|format| format.has_neg_zero) {
        return None;
    }
    // With 3 mantissa bits, codes up to exponent 1 are at most 16.
    let is_short = format.is_some_and(|format| format.mantissa_bits <= 3);
    if by == By::Sixteen {
        return match (route.src.memory_bits(), route.to) {
            (4, DType::BF16 | DType::F16) => I::Narrowing::sixteen::<4>(),
            (8, DType::BF16) if is_short => I::Narrowing::sixteen::<8>(),
            _ => None,
        };
    }
    match (route.src.memory_bits(), route.to.bits(), by) {
        (8, 16, By::Scale) => I::Narrowing::tabled::<8, false>(),
        (8, 16, By::Exponent) => I::Narrowing::tabled::<8, true>()
            .or_else(|| if is_short { I::Narrowing::sixteen::<8>() } else { None }),
        (6, 16, By::Exponent) => I::Narrowing::tabled::<6, true>(),
        (4, 16, By::Code) => I::Narrowing::coded(),
        _ => None,
    }
}

/// The kernel that multiplies, for a route to a float of 16 or 32 bits, if there is one.
pub(in crate::kernels) fn times<I: Ways>(_: I, route: &Route) -> Option<RunScaled> {
    let format = route.from.float_format();
    match (route.from.bits(), format) {
        (8, None) if route.from == DType::I8 => to_float::<I, I8>(route),
        (8, None) => to_float::<I, U8>(route),
        (8, Some(_)) if !I::Lookups::IS_CHEAP => to_float::<I, Floats<OnLine, 8>>(route),
        (8, Some(format)) if format.has_neg_zero => to_float::<I, Floats<Mirrored, 8>>(route),
        (6, _) if route.src.is_packed() => to_float::<I, Floats<SixBits, 6>>(route),
        (4, _) if route.src.is_packed() => to_float::<I, Floats<Nibble, 4>>(route),
        _ => None,
    }
}

/// The kernel that multiplies by the products of all codes with each scale, if that is faster. For scales of 16 elements or more.
pub(in crate::kernels) fn products<I: Simd<Narrowing: ScaledNarrowing<I>>>(
    _: I,
    route: &Route,
) -> Option<RunScaled> {
    let is_meant =
        route.src.is_packed() && route.from.bits() == 4 && matches!(route.to, DType::BF16 | DType::F16);
    if is_meant { I::Narrowing::products() } else { None }
}

fn to_float<I: Simd, S: AsF32<I>>(route: &Route) -> Option<RunScaled> {
    match route.to {
        DType::F32 => Some(run::<I, ToF32<Times<S>>, _>()),
        DType::BF16 => Some(run::<I, NormalToBf16<Times<S>>, _>()),
        DType::F16 => Some(run::<I, ToF16<Times<S>, false>, _>()),
        _ => None,
    }
}

/// The kernel that divides, for a route from a float of 16 or 32 bits, if there is one.
pub(in crate::kernels) fn quotient<I: Simd<Narrowing: ScaledNarrowing<I>, Integers: ToIntegers<I>>>(
    _: I,
    route: &Route,
) -> Option<RunScaled> {
    match route.from {
        // Where this returns None, elements go by way of float32: float16, which has the exponents of this target; and
        // bfloat16, if most of it is divided by mantissas.
        _ if route.to == DType::F8E5M2 => match route.from {
            DType::F32 => Some(I::Narrowing::signed_2::<ToE5m2<F32>>()),
            DType::BF16 if const { !I::Narrowing::BY_MANTISSAS } => {
                Some(I::Narrowing::signed_2::<ToE5m2<Bf16>>())
            }
            _ => None,
        },
        DType::F32 => narrowed::<I, F32>(route),
        DType::BF16 => narrowed::<I, Bf16>(route),
        DType::F16 => narrowed::<I, F16>(route),
        _ => None,
    }
}

fn narrowed<I: Simd<Narrowing: ScaledNarrowing<I>, Integers: ToIntegers<I>>, S: AsF32<I>>(
    route: &Route,
) -> Option<RunScaled> {
    match route.to {
        DType::I8 | DType::U8 => Some(run::<I, ToShort<Quotient<S, OfIntegers>, 8>, _>()),
        DType::I4 | DType::U4 if route.dst.is_packed() => {
            Some(run::<I, ToShort<Quotient<S, OfIntegers>, 4>, _>())
        }
        DType::F4E2M1 if !route.dst.is_packed() => None,
        DType::F4E2M1 => Some(I::Narrowing::finite_4::<ToE2m1<S>>()),
        DType::F8E4M3FN => Some(I::Narrowing::signed_3::<ToE4m3<S>>()),
        // For a cast that follows.
        DType::F32 => Some(run::<I, ToF32<Quotient<S, OfAny>>, _>()),
        _ => None,
    }
}

type ToE2m1<S> = Of<S, Divided<OfFloat<{ DType::F4E2M1 as usize }>>>;
type ToE4m3<S> = Of<S, Divided<OfFloat<{ DType::F8E4M3FN as usize }>>>;
type ToE5m2<S> = Of<S, Divided<OfFloat<{ DType::F8E5M2 as usize }>>>;

/// The kernel from bfloat16 to packed float4 that looks thresholds up, if there is one.
pub(in crate::kernels) fn by_thresholds<I: Simd<Narrowing: ScaledNarrowing<I>>>(
    _: I,
    route: &Route,
) -> Option<RunScaled> {
    let is_meant = route.from == DType::BF16 && route.to == DType::F4E2M1 && route.dst.is_packed();
    if is_meant { I::Narrowing::by_thresholds() } else { None }
}

/// The kernel that divides bfloat16s, exponents and mantissas apart, to a float of 8 bits with NaN and -0, or to a packed one
/// of fewer bits, if there is one.
pub(in crate::kernels) fn by_mantissas<I: Simd<Narrowing: ScaledNarrowing<I>>>(
    _: I,
    route: &Route,
) -> Option<RunScaled> {
    let is_mirrored = route.to.float_format().is_some_and(|to| to.has_neg_zero);
    if !is_mirrored || route.dst.memory_bits() != route.to.bits() {
        return None;
    }
    (goes_by_bytes(route) || goes_by_table(route))
        .then(|| I::Narrowing::by_mantissas(route.to.bits()))
        .flatten()
}

/// The table of that kernel, and, for elements that are divided by 1, the first exponent that it looks up and how many follow.
/// None if there is no memory for the table.
pub(in crate::kernels) fn table_by_mantissas(route: &Route) -> Option<(Table, [u8; 2])> {
    let table =
        if goes_by_bytes(route) { narrow::bytes(DType::BF16, route.to) } else { narrow::table(route.to) };
    let [first, last] = narrow::exponents(&Target::new(route.to.kind(), &route.policy), Bf16::BIAS);
    Some((table?, [first, last - first]))
}

fn run<I: Simd, C: Codec<I, From = Scaled<R>>, R: Reads>() -> RunScaled {
    I::kernel::<Scale, C>()
}

/// The scaled kernels for a way to narrow floats.
pub(in crate::kernels) trait ScaledNarrowing<I: Simd>: ScaledTables<I> {
    fn finite_4<R: Reads>() -> RunScaled
    where
        Scaled<R>: AsF32<I>,
    {
        run::<I, ToNarrow<Scaled<R>, Finite, 4, false>, _>()
    }
    fn signed_3<R: Reads>() -> RunScaled
    where
        Scaled<R>: AsF32<I>,
    {
        run::<I, ToNarrow<Scaled<R>, Signed, 8, false>, _>()
    }
    fn signed_2<R: Reads>() -> RunScaled
    where
        Scaled<R>: AsF32<I>,
    {
        run::<I, ToNarrow<Scaled<R>, Signed, 8, false>, _>()
    }
    /// The kernel [`ByProducts`], if there is one.
    fn products() -> Option<RunScaled> {
        None
    }
    /// The kernel by [`Coded`], if there is one.
    fn coded() -> Option<RunScaled> {
        None
    }
    /// Brings tables of words to the form that [`Coded`] reads.
    fn arrange(_: I, _tables: &mut [Table16]) {}
    /// The kernel by [`ByThresholds`], if there is one.
    fn by_thresholds() -> Option<RunScaled> {
        None
    }
}

/// The scaled kernels that have a table for each scale, or one for all.
pub(in crate::kernels) trait ScaledTables<I: Simd> {
    /// The kernel by [`Sixteen`], if there is one.
    fn sixteen<const BITS: usize>() -> Option<RunScaled>
    where
        Bits<BITS>: Width<Block<I> = I::V>,
    {
        None
    }
    /// The kernel by [`Tabled`], if there is one.
    fn tabled<const BITS: usize, const ADDS: bool>() -> Option<RunScaled>
    where
        Bits<BITS>: Width<Block<I> = I::V>,
    {
        None
    }
    /// Whether there are the kernels of [`Mantissas`].
    const BY_MANTISSAS: bool = false;
    /// The kernel by [`Mantissas`] to floats of this many bits, if there is one.
    fn by_mantissas(_bits: u32) -> Option<RunScaled> {
        None
    }
    /// Makes the tables of [`Mantissas`]: see [`mantissas::split`].
    fn split(_quotients: &[u8], _tables: &mut [Table128], _exponents: &mut [u32]) {}
}

impl<I: Simd> ScaledNarrowing<I> for ByAddition {}
impl<I: Simd> ScaledTables<I> for ByAddition {}

/// Ways by float16.
trait OverF16 {}

impl OverF16 for ByF16 {}
impl OverF16 for ByWords {}

impl<I: NarrowsByF16, W: OverF16 + ScaledTables<I>> ScaledNarrowing<I> for W {
    fn finite_4<R: Reads>() -> RunScaled
    where
        Scaled<R>: AsF32<I>,
    {
        run::<I, ToNarrowByF16<Scaled<R>, Finite, 4, 1, true>, _>()
    }
    fn signed_3<R: Reads>() -> RunScaled
    where
        Scaled<R>: AsF32<I>,
    {
        run::<I, ToNarrowByF16<Scaled<R>, Signed, 8, 3, true>, _>()
    }
    fn signed_2<R: Reads>() -> RunScaled
    where
        Scaled<R>: AsF32<I>,
    {
        run::<I, ToNarrowByF16<Scaled<R>, Signed, 8, 2, false>, _>()
    }
    fn products() -> Option<RunScaled> {
        Some(run::<I, ByProducts, _>())
    }
    fn coded() -> Option<RunScaled> {
        Some(run::<I, Coded, _>())
    }
    #[inline(always)]
    fn arrange(isa: I, tables: &mut [Table16]) {
        for Table16(table) in tables {
            isa.arrange(table);
        }
    }
    fn by_thresholds() -> Option<RunScaled> {
        Some(run::<I, ByThresholds, _>())
    }
}

impl<I: NarrowsByF16> ScaledTables<I> for ByF16 {
    fn sixteen<const BITS: usize>() -> Option<RunScaled>
    where
        Bits<BITS>: Width<Block<I> = I::V>,
    {
        Some(run::<I, Sixteen<BITS>, _>())
    }
}

impl<I: NarrowsByWords> ScaledTables<I> for ByWords {
    /// (Here, tables of 128 words are as fast as those of 16, and need no exponents added.)
    fn sixteen<const BITS: usize>() -> Option<RunScaled>
    where
        Bits<BITS>: Width<Block<I> = I::V>,
    {
        if BITS < 8 { Some(run::<I, Sixteen<4>, _>()) } else { None }
    }
    fn tabled<const BITS: usize, const ADDS: bool>() -> Option<RunScaled>
    where
        Bits<BITS>: Width<Block<I> = I::V>,
    {
        Some(run::<I, Tabled<BITS, ADDS>, _>())
    }
    const BY_MANTISSAS: bool = true;
    fn by_mantissas(bits: u32) -> Option<RunScaled> {
        Some(match bits {
            4 => run::<I, ToNarrowByTable<Mantissas, 4>, _>(),
            6 => run::<I, ToNarrowByTable<Mantissas, 6>, _>(),
            _ => run::<I, ToNarrowByBytes<Mantissas, Signed>, _>(),
        })
    }
    #[inline(always)]
    fn split(quotients: &[u8], tables: &mut [Table128], exponents: &mut [u32]) {
        mantissas::split(quotients, tables, exponents);
    }
}
