//! Which codec casts which parts: there is one for every pair and policy.

use super::Codec;
use super::float::{
    CutBf16, Finite, Fnuz, LongToF64, NearF32, Signed, ToBf16, ToE8m0, ToF16, ToF32, ToF64, ToNarrow,
    WideToF32,
};
use super::integer::{Integers, ToBool, ToInt32, ToLong, ToShort, ToWrapped};
use super::lookup::{
    Codes, Floats, Found, Lookup, Mirrored, Nibble, Rows, Short, Truth, Whole, found, has_table,
    widens_signed,
};
use super::source::{
    AsF32, AsF64, AsInteger, Bf16, F8, F16, F32, F64, I8, I16, I32, I64, Re32, Re64, Source, U8, U16, U32,
    U64,
};
use crate::dtype::{DType, Kind};
use crate::kernels::drive::Core;
use crate::kernels::isa::Isa;
use crate::kernels::vector;
use crate::options::{Overflow, Rounding};
use crate::route::{Parts, Route};

/// The codec for the parts of a route, in native byte order.
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
        DType::U8 if !has_table(route) => from_integer::<I, U8>(route),
        DType::I8 if !has_table(route) => from_integer::<I, I8>(route),
        DType::U16 => from_integer::<I, U16>(route),
        DType::I16 => from_integer::<I, I16>(route),
        DType::U32 => from_integer::<I, U32>(route),
        DType::I32 => from_integer::<I, I32>(route),
        DType::U64 => from_integer::<I, U64>(route),
        DType::I64 => from_integer::<I, I64>(route),
        DType::F16 => from_float::<I, F16>(route),
        DType::BF16 => from_float::<I, Bf16>(route),
        DType::F32 => from_float::<I, F32>(route),
        DType::F64 => from_f64::<I, F64>(route),
        DType::Bool => from_codes::<I, U8, Truth, 8>(route),
        from => match (from.kind(), route.src.memory_bits()) {
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
    Core { run: vector::blocks::<I, C>, floats: C::FLOATS }
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
        (Found::Bytes, true) => widened::<I, Codes<I8, R::Any, SRC>>(route),
        (Found::Bytes, false) => widened::<I, Codes<U8, R::Any, SRC>>(route),
        (Found::Words, true) => widened::<I, Codes<I16, R::Any, SRC>>(route),
        (Found::Words, false) => widened::<I, Codes<U16, R::Any, SRC>>(route),
        (Found::Bf16, _) => match route.to {
            DType::F32 => run::<I, ToF32<Floats<R, SRC>>>(),
            DType::F64 => run::<I, ToF64<Floats<R, SRC>>>(),
            _ => to_wide_integer::<I, Floats<R, SRC>>(route),
        },
    }
}

fn looked_up<I: Isa, R: Rows, const SRC: usize>(route: &Route) -> Core {
    match (route.to, route.dst.memory_bits()) {
        (_, 2) => run::<I, Lookup<R::Any, SRC, 2>>(),
        (_, 4) => run::<I, Lookup<R::Any, SRC, 4>>(),
        (_, 6) => run::<I, Lookup<R::Any, SRC, 6>>(),
        (_, 8) => run::<I, Lookup<R::Any, SRC, 8>>(),
        // Only those have a sign in the top bit.
        (DType::F16 | DType::BF16, _) => run::<I, Lookup<R, SRC, 16>>(),
        _ => run::<I, Lookup<R::Any, SRC, 16>>(),
    }
}

fn from_integer<I: Isa, S: AsInteger<I> + AsF32<I> + AsF64<I>>(route: &Route) -> Core {
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
        _ => to_small_float::<I, S>(route),
    }
}

/// Sources that are exact in an f32.
fn from_float<I: Isa, S: AsF32<I> + AsF64<I>>(route: &Route) -> Core {
    match (route.to.kind(), route.to) {
        (Kind::Int(_), _) if route.policy.overflow == Overflow::Saturate => match route.dst.memory_bits() {
            2 => run::<I, ToShort<S, 2>>(),
            4 => run::<I, ToShort<S, 4>>(),
            8 => run::<I, ToShort<S, 8>>(),
            16 => run::<I, ToShort<S, 16>>(),
            _ => to_wide_integer::<I, S>(route),
        },
        (Kind::Int(format), _) if format.bits > 16 => to_wide_integer::<I, S>(route),
        (_, DType::F32) if route.parts == Parts::Real => run::<I, ToF32<Re32>>(),
        (_, DType::F32) => to_f32::<I>(route),
        (_, DType::F64) => run::<I, ToF64<S>>(),
        _ => from_any_float::<I, S>(route),
    }
}

/// To integers of 32 or 64 bits.
fn to_wide_integer<I: Isa, S: AsF32<I> + AsF64<I>>(route: &Route) -> Core {
    match (route.policy.overflow, route.to) {
        (Overflow::Saturate, DType::I32) => run::<I, ToInt32<S, true>>(),
        (Overflow::Saturate, DType::U32) => run::<I, ToInt32<S, false>>(),
        (Overflow::Saturate, DType::I64) => run::<I, ToLong<S, 64, true>>(),
        (Overflow::Saturate, _) => run::<I, ToLong<S, 64, false>>(),
        (Overflow::Wrap, DType::I32 | DType::U32) => run::<I, ToWrapped<S, 32>>(),
        (Overflow::Wrap, _) => run::<I, ToWrapped<S, 64>>(),
    }
}

/// Sources that are an f64.
fn from_f64<I: Isa, S: AsF32<I> + AsF64<I>>(route: &Route) -> Core {
    match (route.to.kind(), route.to) {
        (Kind::Int(format), _) if route.policy.overflow == Overflow::Saturate => {
            match (route.dst.memory_bits(), format.signed) {
                (2, _) => run::<I, ToLong<S, 2, true>>(),
                (4, _) => run::<I, ToLong<S, 4, true>>(),
                (8, _) => run::<I, ToLong<S, 8, true>>(),
                (16, _) => run::<I, ToLong<S, 16, true>>(),
                (32, _) => run::<I, ToLong<S, 32, true>>(),
                (_, true) => run::<I, ToLong<S, 64, true>>(),
                (_, false) => run::<I, ToLong<S, 64, false>>(),
            }
        }
        (_, DType::F32) => run::<I, WideToF32<S>>(),
        (_, DType::F64) => run::<I, ToF64<S>>(),
        _ => from_any_float::<I, S>(route),
    }
}

fn from_any_float<I: Isa, S: Source + AsF32<I> + AsF64<I>>(route: &Route) -> Core {
    match route.to.kind() {
        Kind::Int(_) => match route.dst.memory_bits() {
            2 => run::<I, ToWrapped<S, 2>>(),
            4 => run::<I, ToWrapped<S, 4>>(),
            8 => run::<I, ToWrapped<S, 8>>(),
            16 => run::<I, ToWrapped<S, 16>>(),
            32 => run::<I, ToWrapped<S, 32>>(),
            _ => run::<I, ToWrapped<S, 64>>(),
        },
        _ => to_small_float::<I, S>(route),
    }
}

/// To floats of 16 bits or fewer.
fn to_small_float<I: Isa, S: AsF32<I>>(route: &Route) -> Core {
    let modes = route.policy.rounding != Rounding::NearestEven;
    match (route.to, modes) {
        (DType::F16, false) => run::<I, ToF16<S, false>>(),
        (DType::F16, true) => run::<I, ToF16<S, true>>(),
        (DType::BF16, false) => run::<I, ToBf16<S, false>>(),
        (DType::BF16, true) => run::<I, ToBf16<S, true>>(),
        (DType::F8E8M0, _) => run::<I, ToE8m0<S>>(),
        (to, false) => run_narrow::<I, S, false>(to, route.dst.memory_bits()),
        (to, true) => run_narrow::<I, S, true>(to, route.dst.memory_bits()),
    }
}

fn run_narrow<I: Isa, S: AsF32<I>, const MODES: bool>(to: DType, memory_bits: u32) -> Core {
    match (to.float_format().map(|format| (format.has_nan, format.has_neg_zero)), memory_bits) {
        (Some((true, true)), _) => run::<I, ToNarrow<S, Signed, 8, MODES>>(),
        (Some((true, false)), _) => run::<I, ToNarrow<S, Fnuz, 8, MODES>>(),
        (_, 4) => run::<I, ToNarrow<S, Finite, 4, MODES>>(),
        (_, 6) => run::<I, ToNarrow<S, Finite, 6, MODES>>(),
        _ => run::<I, ToNarrow<S, Finite, 8, MODES>>(),
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
