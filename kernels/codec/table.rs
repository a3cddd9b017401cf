//! Which codec casts which parts: there is one for every pair and policy.

use super::float::{CutBf16, LongToF64, NearF32, Odd, ToBf16, ToE8m0, ToF16, ToF32, ToF64, WideToF32};
use super::integer::{Integers, ToBool, ToInt32, ToLong, ToShort, ToWrapped};
use super::lookup::{
    Codes, Floats, Found, Limited, Lookup, Magnitude, Mirrored, NearByte, Negated, Nibble, OnLine, Positive,
    Rows, Same, Short, Truth, Whole, fold, found, has_table, widens_signed,
};
use super::narrow::{
    F16ToE5m2, Finite, Fnuz, Signed, ToNarrow, ToNarrowByF16, ToNarrowByHalf, ToNarrowByTable, goes_by_f16,
    goes_by_half, goes_by_table,
};
use super::plane::Fold;
use super::source::{
    AsF32, AsF64, AsHalf, AsInteger, Bf16, Clipped, F8, F16, F32, F64, I8, I16, I32, I64, Re32, Re64, U8,
    U16, U32, U64,
};
use super::{Codec, Kept};
use crate::formats::dtype::{DType, Kind};
use crate::formats::options::{Overflow, Rounding};
use crate::formats::route::{Parts, Route, Work};
use crate::kernels::drive::Core;
use crate::kernels::isa::Isa;

/// What comes before the codec of a route, and the dtype that it makes: where there would be a codec of its own
/// for every source of something rare. That is floats to integers that wrap, and what is rounded to a narrow float
/// in another direction than the default one.
///
/// The dtype holds the elements exactly, or rounded to odd with enough bits for the target.
pub(in crate::kernels) fn hub<I: Isa>(route: &Route) -> Option<(Core, DType)> {
    let converts = route.work == Work::Convert;
    let wraps = match (route.from.kind(), route.to.kind()) {
        (Kind::Float(_), Kind::Int(_)) if has_table(route) && found(route) != Found::Bf16 => false,
        (Kind::Float(_), Kind::Int(_)) => route.policy.overflow == Overflow::Wrap,
        _ => false,
    };
    let turns = match route.to.kind() {
        Kind::Float(to)
            if converts && to.has_sign && to.bits() <= 16 && route.from.bits() > 8 && !has_table(route) =>
        {
            route.policy.rounding != Rounding::NearestEven
        }
        _ => false,
    };
    Some(match (route.from, route.parts) {
        (DType::F64, Parts::Real) if turns => (run::<I, ToF32<Odd<Re64>>>(), DType::F32),
        (DType::F64, Parts::Real) if wraps => (run::<I, ToF64<Re64>>(), DType::F64),
        (DType::F32, Parts::Real) if wraps => (run::<I, ToF64<Re32>>(), DType::F64),
        (DType::F32, Parts::Real) if turns => (run::<I, ToF32<Re32>>(), DType::F32),
        (DType::F64, _) if wraps => return None,
        (DType::F32, _) if turns => return None,
        (DType::F64, _) if turns => (run::<I, ToF32<Odd<F64>>>(), DType::F32),
        (DType::I64, _) if turns => (run::<I, ToF32<Odd<I64>>>(), DType::F32),
        (DType::U64, _) if turns => (run::<I, ToF32<Odd<U64>>>(), DType::F32),
        (DType::I32, _) if turns => (run::<I, ToF32<Odd<I32>>>(), DType::F32),
        (DType::U32, _) if turns => (run::<I, ToF32<Odd<U32>>>(), DType::F32),
        _ if wraps => (core::<I>(&Route { to: DType::F64, ..*route }), DType::F64),
        _ if turns => (core::<I>(&Route { to: DType::F32, ..*route }), DType::F32),
        _ => return None,
    })
}

/// The codec of codes that are kept.
pub(in crate::kernels) fn kept<I: Isa>(bits: u32) -> Core {
    match bits {
        16 => run::<I, Kept<16>>(),
        32 => run::<I, Kept<32>>(),
        _ => run::<I, Kept<64>>(),
    }
}

/// The codec for the parts of a route; of one with a hub, from there.
pub(in crate::kernels) fn core<I: Isa>(route: &Route) -> Core {
    if route.to == DType::Bool && !has_table(route) {
        return to_bool::<I>(route.from);
    }
    match route.from {
        DType::F32 if route.parts == Parts::Real => from_float::<I, Re32>(route),
        DType::F64 if route.parts == Parts::Real => from_f64::<I, Re64>(route),
        DType::U8 if route.to == DType::BF16 => run::<I, CutBf16<U8>>(),
        DType::I8 if route.to == DType::BF16 => run::<I, CutBf16<I8>>(),
        // To floats of 8 bits or fewer a table is as good.
        DType::U8 if !has_table(route) => from_integer::<I, U8>(route, |_| run::<I, ToF16<U8, false>>()),
        DType::I8 if !has_table(route) => from_integer::<I, I8>(route, |_| run::<I, ToF16<I8, false>>()),
        DType::U16 => from_integer::<I, U16>(route, wider_integer::<I, U16, U16>),
        DType::I16 => from_integer::<I, I16>(route, wider_integer::<I, I16, I16>),
        DType::U32 => from_integer::<I, U32>(route, wider_integer::<I, U32, Clipped<U32>>),
        DType::I32 => from_integer::<I, I32>(route, wider_integer::<I, I32, Clipped<I32>>),
        DType::U64 => from_integer::<I, U64>(route, wider_integer::<I, U64, Clipped<U64>>),
        DType::I64 => from_integer::<I, I64>(route, wider_integer::<I, I64, Clipped<I64>>),
        DType::F16 => from_float::<I, F16>(route),
        DType::BF16 => from_float::<I, Bf16>(route),
        DType::F32 => from_float::<I, F32>(route),
        DType::F64 => from_f64::<I, F64>(route),
        DType::Bool => from_codes::<I, U8, Truth, 8>(route),
        from => match (from.kind(), route.src.memory_bits()) {
            (Kind::Float(_) | Kind::Int(_), 8)
                if from.bits() == 8 && I::HAS_LINES && route.to.bits() <= 8 =>
            {
                match fold(route) {
                    Fold::Apart => to_bytes::<I, Whole, 8>(route),
                    Fold::Same => to_bytes::<I, Same, 8>(route),
                    Fold::Negated => to_bytes::<I, Negated, 8>(route),
                    Fold::Short => to_bytes::<I, Limited, 8>(route),
                    Fold::Magnitude => to_bytes::<I, Magnitude, 8>(route),
                    Fold::Positive => to_bytes::<I, Positive, 8>(route),
                }
            }
            (Kind::Float(format), 8) if format.bits() == 8 && I::HAS_LINES => {
                // Alone of its kind, these two have not the same numbers.
                let has_line = (from, route.to) != (DType::F8E8M0, DType::F16);
                if has_line {
                    from_small_float::<I, OnLine, 8>(route)
                } else {
                    looked_up::<I, Whole, 8>(route)
                }
            }
            (Kind::Float(format), 8) if format.bits() == 8 && format.has_neg_zero => {
                from_small_float::<I, Mirrored, 8>(route)
            }
            (Kind::Float(format), 8) if format.bits() == 8 => from_small_float::<I, Whole, 8>(route),
            (Kind::Float(format), 8) if format.bits() == 6 => from_small_float::<I, Short, 8>(route),
            (Kind::Float(_), 8) => from_small_float::<I, Nibble, 8>(route),
            (Kind::Float(_), 6) => from_small_float::<I, Short, 6>(route),
            (Kind::Float(_), _) => from_small_float::<I, Nibble, 4>(route),
            (Kind::Int(format), 8) if format.bits == 8 => looked_up::<I, Whole, 8>(route),
            (Kind::Int(format), 8) if format.signed => from_codes::<I, I8, Nibble, 8>(route),
            (Kind::Int(format), 4) if format.signed => from_codes::<I, I8, Nibble, 4>(route),
            (Kind::Int(format), _) if format.signed => from_codes::<I, I8, Nibble, 2>(route),
            (_, 8) => from_codes::<I, U8, Nibble, 8>(route),
            (_, 4) => from_codes::<I, U8, Nibble, 4>(route),
            _ => from_codes::<I, U8, Nibble, 2>(route),
        },
    }
}

fn to_bool<I: Isa>(from: DType) -> Core {
    match from.bits() {
        8 => run::<I, ToBool<F8>>(),
        16 => run::<I, ToBool<F16>>(),
        32 => run::<I, ToBool<F32>>(),
        _ => run::<I, ToBool<F64>>(),
    }
}

pub(super) fn run<I: Isa, C: Codec<I>>() -> Core {
    Core { run_rows: C::rows, floats: C::FLOATS }
}

/// From integers of fewer than 8 bits, `S` when widened, or from bool.
fn from_codes<I: Isa, S: AsInteger<I>, R: Rows, const SRC: usize>(route: &Route) -> Core {
    match (found(route), route.to.bits()) {
        (Found::Elements, _) => looked_up::<I, R, SRC>(route),
        (Found::Bf16, 32) => run::<I, ToF32<Floats<R, SRC>>>(),
        (Found::Bf16, _) => run::<I, ToF64<Floats<R, SRC>>>(),
        (_, 16) => run::<I, Integers<Codes<S, R, SRC>, 16>>(),
        (_, 32) => run::<I, Integers<Codes<S, R, SRC>, 32>>(),
        _ => run::<I, Integers<Codes<S, R, SRC>, 64>>(),
    }
}

/// From floats of 8 bits or fewer.
fn from_small_float<I: Isa, R: Rows, const SRC: usize>(route: &Route) -> Core {
    fn widened<I: Isa, S: AsInteger<I>>(route: &Route) -> Core {
        if route.to.bits() == 32 { run::<I, Integers<S, 32>>() } else { run::<I, Integers<S, 64>>() }
    }
    match (found(route), widens_signed(route)) {
        (Found::Elements, _) => looked_up::<I, R, SRC>(route),
        (Found::Bytes, true) => widened::<I, Codes<I8, R::Signed, SRC>>(route),
        (Found::Bytes, false) => widened::<I, Codes<U8, R::Unsigned, SRC>>(route),
        (Found::Words, true) => widened::<I, Codes<I16, R::Signed, SRC>>(route),
        (Found::Words, false) => widened::<I, Codes<U16, R::Unsigned, SRC>>(route),
        (Found::Bf16, _) => match route.to {
            DType::F32 => run::<I, ToF32<Floats<R, SRC>>>(),
            DType::F64 => run::<I, ToF64<Floats<R, SRC>>>(),
            _ => to_wide_integer::<I, Floats<R, SRC>>(route),
        },
    }
}

fn looked_up<I: Isa, R: Rows, const SRC: usize>(route: &Route) -> Core {
    match route.to {
        to if to.bits() <= 8 => to_bytes::<I, R::Any, SRC>(route),
        // Only those have a sign in the top bit.
        DType::F16 | DType::BF16 => run::<I, Lookup<R, SRC, 16>>(),
        _ => match fold(route) {
            Fold::Negated => run::<I, Lookup<R::Signed, SRC, 16>>(),
            Fold::Positive => run::<I, Lookup<R::Unsigned, SRC, 16>>(),
            _ => run::<I, Lookup<R::Any, SRC, 16>>(),
        },
    }
}

/// To 8 bits or fewer.
fn to_bytes<I: Isa, R: Rows, const SRC: usize>(route: &Route) -> Core {
    match route.dst.memory_bits() {
        2 => run::<I, Lookup<R, SRC, 2>>(),
        4 => run::<I, Lookup<R, SRC, 4>>(),
        6 => run::<I, Lookup<R, SRC, 6>>(),
        _ => run::<I, Lookup<R, SRC, 8>>(),
    }
}

/// Integers that are looked up for nothing; to floats of 16 bits or fewer as `small` says.
fn from_integer<I: Isa, S: AsInteger<I> + AsF64<I>>(route: &Route, small: fn(&Route) -> Core) -> Core {
    match (route.to.kind(), route.to) {
        (Kind::Int(_), _) => match route.dst.memory_bits() {
            2 => run::<I, Integers<S, 2>>(),
            4 => run::<I, Integers<S, 4>>(),
            8 => run::<I, Integers<S, 8>>(),
            16 => run::<I, Integers<S, 16>>(),
            32 => run::<I, Integers<S, 32>>(),
            _ => run::<I, Integers<S, 64>>(),
        },
        (_, DType::F32) => to_f32::<I>(route),
        (_, DType::F64) => match route.from {
            DType::I64 => run::<I, LongToF64<true>>(),
            DType::U64 => run::<I, LongToF64<false>>(),
            _ => run::<I, ToF64<S>>(),
        },
        _ => small(route),
    }
}

/// Integers of more than 8 bits to floats of 16 bits or fewer: to the smallest ones by the nearest byte, and to those that
/// end below 2^24 as `C`.
fn wider_integer<I: Isa, S: AsInteger<I> + AsF32<I>, C: AsF32<I>>(route: &Route) -> Core {
    if has_table(route) {
        return match route.dst.memory_bits() {
            4 => run::<I, NearByte<S, 4>>(),
            6 => run::<I, NearByte<S, 6>>(),
            _ => run::<I, NearByte<S, 8>>(),
        };
    }
    to_small_float::<I, S, C>(route, |_| unreachable!("those without NaN end below 64, and have a table"))
}

/// Floats that are exact in an f32. To integers they saturate: those that wrap have a hub.
fn from_float<I: Isa, S: AsF32<I> + AsF64<I>>(route: &Route) -> Core {
    match (route.to.kind(), route.to) {
        (Kind::Int(_), _) => match route.dst.memory_bits() {
            2 => run::<I, ToShort<S, 2>>(),
            4 => run::<I, ToShort<S, 4>>(),
            8 => run::<I, ToShort<S, 8>>(),
            16 => run::<I, ToShort<S, 16>>(),
            _ => to_wide_integer::<I, S>(route),
        },
        (_, DType::F32) if route.parts == Parts::Real => run::<I, ToF32<Re32>>(),
        (_, DType::F32) => to_f32::<I>(route),
        (_, DType::F64) => run::<I, ToF64<S>>(),
        _ => to_small_float::<I, S, S>(route, finite::<I, S, false>),
    }
}

/// To integers of 32 or 64 bits, saturating.
fn to_wide_integer<I: Isa, S: AsF32<I> + AsF64<I>>(route: &Route) -> Core {
    match route.to {
        DType::I32 => run::<I, ToInt32<S, true>>(),
        DType::U32 => run::<I, ToInt32<S, false>>(),
        DType::I64 => run::<I, ToLong<S, 64, true>>(),
        _ => run::<I, ToLong<S, 64, false>>(),
    }
}

/// Sources that are an f64; but of integers that wrap, an f64 itself.
fn from_f64<I: Isa, S: AsF32<I> + AsF64<I>>(route: &Route) -> Core {
    match (route.to.kind(), route.policy.overflow, route.dst.memory_bits()) {
        (Kind::Int(_), Overflow::Saturate, 2) => run::<I, ToLong<S, 2, true>>(),
        (Kind::Int(_), Overflow::Saturate, 4) => run::<I, ToLong<S, 4, true>>(),
        (Kind::Int(_), Overflow::Saturate, 8) => run::<I, ToLong<S, 8, true>>(),
        (Kind::Int(_), Overflow::Saturate, 16) => run::<I, ToLong<S, 16, true>>(),
        (Kind::Int(_), Overflow::Saturate, 32) => run::<I, ToLong<S, 32, true>>(),
        (Kind::Int(to), Overflow::Saturate, _) if to.signed => run::<I, ToLong<S, 64, true>>(),
        (Kind::Int(_), Overflow::Saturate, _) => run::<I, ToLong<S, 64, false>>(),
        (Kind::Int(_), Overflow::Wrap, 2) => run::<I, ToWrapped<2>>(),
        (Kind::Int(_), Overflow::Wrap, 4) => run::<I, ToWrapped<4>>(),
        (Kind::Int(_), Overflow::Wrap, 8) => run::<I, ToWrapped<8>>(),
        (Kind::Int(_), Overflow::Wrap, 16) => run::<I, ToWrapped<16>>(),
        (Kind::Int(_), Overflow::Wrap, 32) => run::<I, ToWrapped<32>>(),
        (Kind::Int(_), Overflow::Wrap, _) => run::<I, ToWrapped<64>>(),
        _ if route.to == DType::F32 => run::<I, WideToF32<S>>(),
        _ if route.to == DType::F64 => run::<I, ToF64<S>>(),
        _ => to_small_float::<I, S, S>(route, finite::<I, S, false>),
    }
}

/// To floats of 16 bits or fewer; to those that end below 2^24 as `C`, and to those without NaN as `finite` says. What is
/// rounded in another direction than the default one has a hub, which is an f32; of 8 bits everything is exact in the
/// wider ones.
fn to_small_float<I: Isa, S: AsF32<I>, C: AsF32<I>>(route: &Route, finite: fn(&Route) -> Core) -> Core {
    let turns = route.policy.rounding != Rounding::NearestEven && route.from.bits() > 8;
    match (route.to, turns) {
        (DType::F8E8M0, _) => run::<I, ToE8m0<S>>(),
        (DType::F16, false) => run::<I, ToF16<C, false>>(),
        (DType::F16, true) => run::<I, ToF16<F32, true>>(),
        (DType::BF16, false) => run::<I, ToBf16<S, false>>(),
        (DType::BF16, true) => run::<I, ToBf16<F32, true>>(),
        (_, false) => half_to_narrow::<I>(route).unwrap_or_else(|| narrow::<I, C, false>(route, finite)),
        (_, true) => narrow::<I, F32, true>(route, self::finite::<I, F32, true>),
    }
}

fn narrow<I: Isa, S: AsF32<I>, const MODES: bool>(route: &Route, finite: fn(&Route) -> Core) -> Core {
    let Some(format) = route.to.float_format().filter(|format| format.has_nan) else { return finite(route) };
    match (!MODES && goes_by_f16::<I>(format), format.has_neg_zero, format.mantissa_bits) {
        (true, true, 2) => run::<I, ToNarrowByF16<S, Signed, 8, 2, false>>(),
        (true, true, _) => run::<I, ToNarrowByF16<S, Signed, 8, 3, true>>(),
        (true, false, _) => run::<I, ToNarrowByF16<S, Fnuz, 8, 3, true>>(),
        (false, true, _) => run::<I, ToNarrow<S, Signed, 8, MODES>>(),
        (false, false, _) => run::<I, ToNarrow<S, Fnuz, 8, MODES>>(),
    }
}

/// To floats without NaN.
fn finite<I: Isa, S: AsF32<I>, const MODES: bool>(route: &Route) -> Core {
    let by_f16 = !MODES && I::NARROWS_BY_F16;
    match (route.dst.memory_bits(), route.to.float_format().map(|format| format.mantissa_bits)) {
        (4, _) if by_f16 => run::<I, ToNarrowByF16<S, Finite, 4, 1, true>>(),
        (6, Some(2)) if by_f16 => run::<I, ToNarrowByF16<S, Finite, 6, 2, true>>(),
        (6, _) if by_f16 => run::<I, ToNarrowByF16<S, Finite, 6, 3, true>>(),
        (4, _) => run::<I, ToNarrow<S, Finite, 4, MODES>>(),
        (6, _) => run::<I, ToNarrow<S, Finite, 6, MODES>>(),
        // One per byte: rare.
        _ => run::<I, ToNarrow<S, Finite, 8, MODES>>(),
    }
}

/// The same to nearest even from 16 bits, where there are lanes for it. (From wider ones, it is no faster to come to
/// 16 bits first.)
fn half_to_narrow<I: Isa>(route: &Route) -> Option<Core> {
    fn narrow<I: Isa, S: AsHalf<I>>(route: &Route) -> Option<Core> {
        if goes_by_table::<I>(route) {
            return Some(match route.dst.memory_bits() {
                4 => run::<I, ToNarrowByTable<S, 4>>(),
                6 => run::<I, ToNarrowByTable<S, 6>>(),
                // One per byte: rare.
                _ => run::<I, ToNarrowByTable<S, 8>>(),
            });
        }
        let format = route.to.float_format().filter(|&format| goes_by_half::<I, S>(format))?;
        Some(match format.has_neg_zero {
            true => run::<I, ToNarrowByHalf<S, Signed>>(),
            false => run::<I, ToNarrowByHalf<S, Fnuz>>(),
        })
    }
    match (route.from, route.to) {
        _ if !I::NARROWS_BY_HALF => None,
        (DType::F16, DType::F8E5M2) => Some(run::<I, F16ToE5m2>()),
        (DType::F16, _) => narrow::<I, F16>(route),
        (DType::BF16, _) => narrow::<I, Bf16>(route),
        _ => None,
    }
}

fn to_f32<I: Isa>(route: &Route) -> Core {
    fn near<I: Isa, S: NearF32<I>>() -> Core {
        run::<I, ToF32<S>>()
    }
    let away = route.policy.rounding == Rounding::NearestAway;
    match route.from {
        DType::F16 => near::<I, F16>(),
        DType::BF16 => near::<I, Bf16>(),
        DType::I8 => near::<I, I8>(),
        DType::U8 => near::<I, U8>(),
        DType::I16 => near::<I, I16>(),
        DType::U16 => near::<I, U16>(),
        DType::I32 if !away => near::<I, I32>(),
        DType::U32 if !away => near::<I, U32>(),
        DType::I64 if !away => near::<I, I64>(),
        DType::U64 if !away => near::<I, U64>(),
        DType::I32 => run::<I, WideToF32<I32>>(),
        DType::U32 => run::<I, WideToF32<U32>>(),
        DType::I64 => run::<I, WideToF32<I64>>(),
        _ => run::<I, WideToF32<U64>>(),
    }
}
