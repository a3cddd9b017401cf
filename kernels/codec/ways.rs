//! Which codecs a route takes: a single one where a pair is worth a kernel of its own; otherwise several, one after the other,
//! by way of dtypes that keep everything about an element that matters to the target.
//!
//! Pairs that are cast in bulk are direct. All others take steps, through buffers in L1:
//!
//! | what | its first step, or its last | why that is exact |
//! |---|---|---|
//! | bytes in the other order | swaps them | |
//! | the real part of complex elements, unless it becomes [another float](real) of 16 bits or more | takes it out | |
//! | to codes of fewer than 8 bits, unless the last codec [writes](writes_packed) them packed; from them, if they are kept | from or to one per byte | |
//! | single bits, packed | one per byte | |
//! | 8 bits or fewer to wider integers, except [these](reads_as_f32) and [these](widens) | what the table holds: 8 or 16 bits, or bfloat16 as a float32 | every result is one of these, or is made from it by the pair's own rule |
//! | elements of fewer than 8 bits, one per byte, to float64 | float32 | each is a float32 |
//! | integers to floats whose numbers end below 2^6: of 6 bits or fewer, float8_e3m4, float8_e4m3b11fnuz | the nearest int8 or uint8 | such floats end below what those hold |
//! | integers to floats of 8 bits for which they have [no way](integer_to_8), such as those without -0; anything rounded in another direction than the default one | float32, rounded to odd | it has two bits more than the target |
//! | integers of 32 and 64 bits to float32 in those directions | float64, rounded to odd | it has two bits more than the target |
//! | anything to integers of 1 or 2 bits, or of 4 bits one per byte | int8 or uint8, of the sign of the target, saturated or wrapped | the target's range is within theirs, and the low bits are the same |
//! | floats to integers that wrap | float64, and from there int64 | the low bits are the same |
//! | float16 and bfloat16 to float8_e8m0fnu, and to formats for which 16-bit lanes are no way | float32 | each is a float32 |
//! | float64 to floats of 8 bits or fewer | float32, rounded to odd | it has two bits more than the target |

use super::float::{CutBf16, Flushed, LongToF64, Odd, ToBf16, ToE8m0, ToF16, ToF32, ToF64, WideToF32};
use super::integer::{
    AsInteger, Integers, OtherSign, ToBool, ToInt32, ToIntegers, ToLong, ToShort, ToWrapped,
};
use super::job::{Job, RunRows, Table};
use super::lookup::{
    self, Entries, Floats, Limited, Lookup, LookupWords, Magnitude, Mirrored, Negated, Nibble, OnLine, Pairs,
    Positive, Same, Scope, SixBits, Truth, Unfolded, entries, fold, has_table, looked_up,
};
use super::narrow::{
    self, F16ToE5m2, Finite, Fnuz, ShortToNarrow, Signed, ToNarrow, ToNarrowByBytes, ToNarrowByF16,
    ToNarrowByHalf, ToNarrowByNibbles, ToNarrowByTable, Unsigned, goes_as_short, goes_by_bytes, goes_by_f16,
    goes_by_half, goes_by_nibbles, goes_by_table,
};
use super::plane::Fold;
use super::source::{
    AsBytes, AsF32, AsF64, AsHalf, Bf16, Clipped, F8, F16, F32, F64, I8, I16, I32, I64, Re32, Re64, Read, U8,
    U16, U32, U64, Within, bits,
};
use super::width::{Bits, Width};
use super::{Codec, Repacked, Swapped};
use crate::formats::dtype::{DTYPES, DType, FloatFormat, Kind};
use crate::formats::layout::Packing;
use crate::formats::options::{CastOptions, Overflow, Policy, Rounding};
use crate::formats::route::{Layout, Parts, Route, Work, route};
use crate::kernels::layout::Apart;
use crate::kernels::once;
use crate::kernels::plan::{PackedTuple, Step, Steps, Subnormals};
use crate::kernels::scalar::{DECODE, ENCODE, Value};
use crate::kernels::simd::{
    AtOnce, ByAddition, ByF16, ByRows, ByWords, Extras, NarrowsByF16, NarrowsByNibbles, NarrowsByWords, Simd,
};
use crate::kernels::sizes::widens_parts;

/// Adds the steps of a route: none, if elements are the same in memory on both sides. Returns None if there is no memory for a table.
#[inline(never)] // For the stack.
pub(in crate::kernels) fn find_steps<I: Ways>(route: &Route, steps: &mut Steps) -> Option<()> {
    let mut native = *route;
    (native.src.swapped, native.dst.swapped) = (false, false);
    if let Some(core) = real::<I>(route) {
        steps.push(step(core, route, route.dst.bits));
        return Some(());
    }
    if route.parts == Parts::Real {
        // Parts move as they are, in any byte order.
        steps.push(match route.src.bits {
            16 => as_integers::<I>(DType::U32, DType::U16),
            32 => step(run::<I, ToF32<Re32>>(), &native, 32),
            _ => step(run::<I, ToF64<Re64>>(), &native, 64),
        });
        native.src = Layout::native(route.from);
    }
    if route.src.swapped {
        steps.push(step(swapped::<I>(route.src.bits), &native, route.src.bits));
    }
    if route.work == Work::Convert || route.src.bits < 8 {
        convert::<I>(&native, steps)?;
    }
    if route.dst.swapped {
        steps.push(step(swapped::<I>(route.dst.bits), &native, route.dst.bits));
    }
    if widens_parts(route) {
        steps.push(as_integers::<I>(DType::U16, DType::U32));
    }
    Some(())
}

/// Casts complex elements of 32 bits as integers, whose lower half is the real part: takes that part out, or adds an imaginary part of 0.
fn as_integers<I: Ways>(from: DType, to: DType) -> Step {
    let route = route(from, to, &CastOptions::new());
    let core = if to.bits() == 16 { run::<I, Integers<U32, 16>>() } else { run::<I, Integers<U16, 32>>() };
    step(core, &route, to.bits())
}

/// The step that casts several elements of 4 bits or fewer at a time, as one code, where they are packed on both sides. None if there is
/// none, or no memory for it.
#[inline(never)] // For the stack.
pub(in crate::kernels) fn tuples<I: Ways>(route: &Route) -> Option<&'static PackedTuple> {
    if route.work != Work::Convert || route.parts != Parts::One {
        return None;
    }
    let [from, to] = [&route.src, &route.dst].map(|layout| if layout.is_packed() { layout.bits } else { 0 });
    let (core, code) = match (from, to) {
        (1, 1) | (2, 2) | (4, 4) => (run::<I, Lookup<Pairs, 8, 8>>(), 8),
        // With the high end first, the two bytes of each result would be in the other order.
        (1, 2) | (2, 4) if route.src.packing == Packing::LowFirst => (run::<I, Lookup<Pairs, 8, 16>>(), 8),
        (1, 2) | (2, 4) => (run::<I, Lookup<Nibble, 4, 8>>(), 4),
        (2, 1) | (4, 2) => (run::<I, Lookup<Pairs, 8, 4>>(), 8),
        (4, 1) => (run::<I, Lookup<Pairs, 8, 2>>(), 8),
        (1, 4) => (run::<I, Lookup<Nibble, 2, 8>>(), 2),
        _ => return None,
    };
    let step = step_with(core, route, code / from * to, lookup::tuple_table(route, code)?);
    once::keep(&[PackedTuple { step, bits: code as usize }])?.first()
}

/// The codec from native complex elements to another float of 16 bits or more, by their real parts, rounded to nearest even.
fn real<I: Ways>(route: &Route) -> Option<Core> {
    let is_native = !route.src.swapped && !route.dst.swapped;
    if route.parts != Parts::Real || !is_native || route.policy.rounding != Rounding::NearestEven {
        return None;
    }
    match (route.from, route.to) {
        (DType::F32, DType::F16) => Some(run::<I, ToF16<Re32, false>>()),
        (DType::F32, DType::BF16) => Some(run::<I, ToBf16<Re32, false>>()),
        (DType::F32, DType::F64) => Some(run::<I, ToF64<Re32>>()),
        (DType::F64, DType::F16) => Some(run::<I, ToF16<Re64, false>>()),
        (DType::F64, DType::BF16) => Some(run::<I, ToBf16<Re64, false>>()),
        (DType::F64, DType::F32) => Some(run::<I, WideToF32<Re64>>()),
        _ => None,
    }
}

fn step(core: Core, route: &Route, bits: u32) -> Step {
    step_with(core, route, bits, Table::NONE)
}

fn step_with(core: Core, route: &Route, bits: u32, table: Table) -> Step {
    Step {
        job: Job::new(route, table, Extras::this()).of(core.run),
        floats: core.floats,
        subnormals: core.subnormals,
        bits: bits as usize,
    }
}

/// Adds the steps from native elements to native elements.
fn convert<I: Ways>(route: &Route, steps: &mut Steps) -> Option<()> {
    let (from, to) = (route.from, route.to);
    let (src, dst) = (Layout::native(from), Layout::native(to));
    let is_kept = from == to && from.bits() < 8;
    if route.src.is_packed() && (is_kept || from.bits() == 1) {
        let one = of_one(route);
        let mut first = step(unpacked::<I>(from), route, 8);
        first.job.code_mask = one.unwrap_or(first.job.code_mask);
        steps.push(first);
        if one.is_none() && (route.dst.is_packed() || !is_kept) {
            convert::<I>(&Route { src, ..*route }, steps)?;
        }
    } else if route.dst.is_packed() && (is_kept || !ends_packed::<I>(route)) {
        if !is_kept && !is_low_bit(route) {
            convert::<I>(&Route { dst, ..*route }, steps)?;
        }
        steps.push(step(packed::<I>(to), &Route { from: to, ..*route }, to.bits()));
    } else if is_kept {
        steps.push(step(run::<I, Repacked<8, 8>>(), route, 8));
    } else if to.bits() < 8 && !route.dst.is_packed() && narrows_packed::<I>(route) {
        let low_first = Layout::packed(to);
        convert::<I>(&Route { dst: low_first, ..*route }, steps)?;
        steps.push(step(unpacked::<I>(to), &Route { from: to, src: low_first, ..*route }, 8));
    } else if let Some(Hub { dtype, first, policy }) = hub::<I>(route) {
        let there = Route { to: dtype, dst: Layout::native(dtype), policy, ..*route };
        match first {
            Some(core) => steps.push(step(core, &there, dtype.bits())),
            None => convert::<I>(&there, steps)?,
        }
        convert::<I>(&Route { from: dtype, src: Layout::native(dtype), ..*route }, steps)?;
    } else {
        let table = if I::Narrowing::short(route).is_some() {
            narrow::codes_of_shorts(to)?
        } else if reads_as_f32::<I>(route) {
            lookup::table(&Route { to: DType::F32, ..*route })?
        } else if has_table(route) {
            lookup::table(route)?
        } else if I::Narrowing::BY_WORDS && goes_by_table(route) {
            narrow::table(to)?
        } else if I::Narrowing::BY_WORDS && goes_by_bytes(route) {
            narrow::bytes(from, to)?
        } else {
            Table::NONE
        };
        steps.push(step_with(direct::<I>(route), route, route.dst.memory_bits(), table));
    }
    Some(())
}

/// The code of 8 bits that a packed single bit becomes if it is set, provided that a bit that is not set becomes 0: unpacking
/// writes it at once.
#[inline(never)] // One for all instruction sets.
fn of_one(route: &Route) -> Option<u8> {
    let (from, to) = (route.from, route.to);
    if from.bits() != 1 || to.bits() != 8 {
        return None;
    }
    let (mut values, mut codes) = ([Value::ZERO; 2], [0; 2]);
    DECODE[from as usize](&[0, 1], &mut values);
    ENCODE[to as usize](&values, &mut codes, &route.policy);
    (codes[0] == 0).then_some(codes[1] as u8)
}

/// Whether the result is just the lowest bit of the code, so that packing takes it from there.
fn is_low_bit(route: &Route) -> bool {
    let is_byte = matches!(route.from.kind(), Kind::Int(from) if from.bits == 8);
    is_byte && route.to.bits() == 1 && route.policy.overflow == Overflow::Wrap
}

/// Whether the last codec packs elements itself, whatever steps come before it.
fn ends_packed<I: Ways>(route: &Route) -> bool {
    if route.to.bits() == 1 {
        return false;
    }
    let by = |hub: Hub| Route { from: hub.dtype, src: Layout::native(hub.dtype), ..*route };
    writes_packed::<I>(route) || hub::<I>(route).is_some_and(|hub| ends_packed::<I>(&by(hub)))
}

// The codecs that pack are written for these formats and widths: `finite_by_f16` and `half_by_nibbles` go by the name of a
// float, integers by their bits.
const _: () = {
    let mut i = 0;
    while i < DTYPES {
        let dtype = DType::ALL[i];
        let is_known = match dtype.float_format() {
            Some(_) => matches!(dtype, DType::F4E2M1 | DType::F6E2M3 | DType::F6E3M2),
            None => matches!(dtype.bits(), 1 | 2 | 4),
        };
        assert!(
            dtype.bits() >= 8 || is_known,
            "elements of fewer than 8 bits need codecs that pack them, in this file"
        );
        i += 1;
    }
};

/// Whether there is a codec that packs elements itself.
fn writes_packed<I: Ways>(route: &Route) -> bool {
    if route.from.bits() < 8 {
        // The others are cast in tuples, unless there are few elements.
        return route.src.is_packed() && (route.from.bits() == 6 || route.to.bits() == 6);
    }
    match (route.from.kind(), route.to.kind()) {
        // Only where looking up in a whole table is as fast as in two of its elements.
        (Kind::Bool, Kind::Float(_)) => I::Lookups::IS_CHEAP,
        (Kind::Bool, _) => true,
        (Kind::Float(from), Kind::Int(_)) if from.bits() == 8 => true,
        // Floats that wrap become wider integers first.
        (Kind::Float(_), Kind::Int(to)) => to.bits == 4 && route.policy.overflow == Overflow::Saturate,
        (Kind::Int(from), Kind::Int(to)) => to.bits == 4 || from.bits == 8,
        (Kind::Float(_) | Kind::Int(_), Kind::Float(to)) if route.from.bits() == 8 => !to.has_nan,
        _ => narrows_packed::<I>(route),
    }
}

/// Whether floats become floats of 6 bits or fewer by a codec that exists only in a form that packs them.
fn narrows_packed<I: Ways>(route: &Route) -> bool {
    route.to.float_format().is_some_and(|format| !format.has_nan)
        && matches!(route.from, DType::F32 | DType::F16 | DType::BF16)
        && route.policy.rounding == Rounding::NearestEven
}

/// A dtype by way of which a route goes. It keeps everything about the elements that matters to the target.
struct Hub {
    dtype: DType,
    /// The codec to it, if that is not the direct one.
    first: Option<Core>,
    /// The policy of the cast to it.
    policy: Policy,
}

/// A codec as a function pointer.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Core {
    run: RunRows,
    /// Whether it needs the floating-point environment to be set, or may raise flags there.
    floats: bool,
    subnormals: Subnormals,
}

/// The hub of a route. None if the route is direct.
fn hub<I: Ways>(route: &Route) -> Option<Hub> {
    use DType::{BF16, F16, F32, F64};
    let (from, to, policy) = (route.from, route.to, route.policy);
    let by = |dtype, first| Some(Hub { dtype, first, policy });
    let via = |dtype| by(dtype, None);
    let byte_of = |signed| if signed { DType::I8 } else { DType::U8 };
    let is_dynamic = policy.rounding != Rounding::NearestEven;
    match (from.kind(), to.kind()) {
        (Kind::Bool, Kind::Bool | Kind::Int(_)) | (_, Kind::Bool) => None,
        _ if I::Narrowing::short(route).is_some() => None,
        (Kind::Int(format), Kind::Float(_)) if format.bits > 8 && has_table(route) => {
            let policy = Policy { overflow: Overflow::Saturate, ..policy };
            Some(Hub { dtype: byte_of(format.signed), first: None, policy })
        }
        _ if reads_as_f32::<I>(route) => None,
        _ if has_table(route) => match entries(route) {
            Entries::Elements => None,
            Entries::Bytes | Entries::Words if widens::<I>(route) => None,
            Entries::Bytes | Entries::Words => via(looked_up(route)),
            Entries::Bf16 if to == F32 || widens_to_64(route) => None,
            Entries::Bf16 => via(F32),
        },
        (Kind::Int(format), Kind::Int(to)) => {
            if to.bits < 8 && format.bits > 8 && !(to.bits == 4 && route.dst.is_packed()) {
                via(byte_of(to.signed))
            } else {
                None
            }
        }
        (Kind::Int(format), _) => match to {
            F32 if is_dynamic && format.bits >= 32 => by(F64, Some(odd_f64::<I>(from))),
            F32 => None,
            F64 => None,
            F16 | BF16 if !is_dynamic || format.bits == 8 => None,
            _ if integer_to_8::<I>(route).is_some() => None,
            _ if format.bits <= 16 => via(F32),
            F16 | BF16 | DType::F8E8M0 => by(F32, Some(odd_f32::<I>(from))),
            _ => by(F32, Some(clipped_f32::<I>(from))),
        },
        (_, Kind::Int(_)) if policy.overflow == Overflow::Wrap => match from {
            F64 if to.bits() == 64 => None,
            F64 => via(DType::I64),
            F32 => via(F64),
            _ => via(F32),
        },
        (_, Kind::Int(format)) => match format.bits {
            4 if route.dst.is_packed() => None,
            ..8 => via(byte_of(format.signed)),
            _ => None,
        },
        _ => match to {
            F32 => None,
            F64 => None,
            _ if from == F32 => None,
            F16 | BF16 if !is_dynamic => None,
            // Negative numbers must stay negative, however small they are.
            _ if from == F64 && to.float_format().is_some_and(|to| !to.has_sign && to.has_zero()) => {
                by(F32, Some(odd_f32_within::<I>()))
            }
            _ if from == F64 => by(F32, Some(odd_f32_of_f64::<I>(to, is_dynamic))),
            _ if is_dynamic || !narrows_half::<I>(route) => via(F32),
            _ => None,
        },
    }
}

/// The codec from integers of 16 bits and more to floats of 8 bits that have NaN and -0, to nearest even, if there is one.
fn integer_to_8<I: Ways>(route: &Route) -> Option<Core> {
    let is_nearest = route.policy.rounding == Rounding::NearestEven;
    let is_8 = route.to.bits() == 8;
    let to = route.to.float_format().filter(|to| is_8 && is_nearest && to.has_nan && to.has_neg_zero)?;
    match route.from {
        DType::U16 => I::Narrowing::short_integers::<U16>(to),
        DType::I16 => I::Narrowing::short_integers::<I16>(to),
        DType::U32 => I::Narrowing::integers::<Read<U32, Clipped>>(to),
        DType::I32 => I::Narrowing::integers::<Read<I32, Clipped>>(to),
        DType::U64 => I::Narrowing::integers::<Read<U64, Clipped>>(to),
        DType::I64 => I::Narrowing::integers::<Read<I64, Clipped>>(to),
        _ => None,
    }
}

/// Whether floats of 8 bits become wide integers by way of float32. Where looking up in whole tables is cheap, only if 16 bits
/// cannot hold the results.
fn reads_as_f32<I: Ways>(route: &Route) -> bool {
    let is_float = route.from.bits() == 8 && route.from.float_format().is_some();
    let saturates = route.policy.overflow == Overflow::Saturate;
    let is_wide = matches!(route.to.kind(), Kind::Int(to) if to.bits >= 32);
    is_float && saturates && is_wide && (!I::Lookups::IS_CHEAP || entries(route) == Entries::Bf16)
}

/// Whether there is a codec that looks up narrow integers and widens them: from packed sources; and where looking up in whole
/// tables is cheap, from floats of 8 bits, unless they are [read as float32](reads_as_f32).
fn widens<I: Ways>(route: &Route) -> bool {
    route.src.is_packed() || route.from.bits() == 8 && I::Lookups::IS_CHEAP
}

/// Whether there is a codec that looks elements up and makes float64 of them: from bool, floats of 8 bits, and packed sources.
fn widens_to_64(route: &Route) -> bool {
    route.to == DType::F64 && (route.from.bits() == 8 || route.src.is_packed())
}

/// Whether float16 and bfloat16 are narrowed directly.
fn narrows_half<I: Ways>(route: &Route) -> bool {
    let Some(to) = route.to.float_format().filter(|format| format.has_zero()) else { return false };
    if !to.has_sign {
        return I::Narrowing::BY_WORDS && route.from == DType::BF16;
    }
    if !to.has_nan {
        return true;
    }
    match (route.from, I::Narrowing::BY_WORDS) {
        (from, false) => to.has_neg_zero || goes_by_nibbles(from, to),
        (DType::F16, true) => route.to == DType::F8E5M2 || goes_by_half::<I, F16>(to),
        (_, true) => goes_by_half::<I, Bf16>(to),
    }
}

/// From integers to float32, rounded to odd.
fn odd_f32<I: Ways>(from: DType) -> Core {
    match from {
        DType::I32 => run::<I, ToF32<Read<I32, Odd>>>(),
        DType::U32 => run::<I, ToF32<Read<U32, Odd>>>(),
        DType::I64 => run::<I, ToF32<Read<I64, Odd>>>(),
        _ => run::<I, ToF32<Read<U64, Odd>>>(),
    }
}

/// As [`odd_f32`], for targets that end below 2^24.
fn clipped_f32<I: Ways>(from: DType) -> Core {
    match from {
        DType::I32 => run::<I, ToF32<Read<Read<I32, Clipped>, Odd>>>(),
        DType::U32 => run::<I, ToF32<Read<Read<U32, Clipped>, Odd>>>(),
        DType::I64 => run::<I, ToF32<Read<Read<I64, Clipped>, Odd>>>(),
        _ => run::<I, ToF32<Read<Read<U64, Clipped>, Odd>>>(),
    }
}

/// From integers to float64, rounded to odd.
fn odd_f64<I: Ways>(from: DType) -> Core {
    match from {
        DType::I32 => run::<I, ToF64<I32>>(),
        DType::U32 => run::<I, ToF64<U32>>(),
        DType::I64 => run::<I, ToF64<I64>>(),
        _ => run::<I, ToF64<U64>>(),
    }
}

/// From float64 to float32, rounded to odd. What overflows or is subnormal there is rounded as the cast rounds, unless the next
/// step makes zeros of all subnormals anyway.
fn odd_f32_of_f64<I: Ways>(to: DType, is_dynamic: bool) -> Core {
    match to {
        _ if is_dynamic => run::<I::Dynamic, ToF32<Read<F64, Odd>>>(),
        DType::F8E8M0 => run::<I, ToF32<Read<F64, Odd>>>(),
        _ => run::<I, ToF32<Read<F64, Flushed>>>(),
    }
}

/// As [`odd_f32_of_f64`], for targets with fewer exponents than float32.
fn odd_f32_within<I: Ways>() -> Core {
    run::<I, ToF32<Read<Read<F64, Within>, Odd>>>()
}

fn run<I: Simd, C: Codec<I>>() -> Core {
    core::<I, C>(I::needs_environment(C::FLOATS))
}

/// A codec as a function pointer. `floats`: whether it needs the floating-point environment to be set.
fn core<I: Simd, C: Codec<I>>(floats: bool) -> Core {
    let subnormals = match (C::FLOATS, C::FLUSHES) {
        (_, true) => Subnormals::Flushed,
        (true, false) => Subnormals::Kept,
        (false, false) => Subnormals::None,
    };
    Core { run: I::kernel::<Apart, C>(), floats, subnormals }
}

fn swapped<I: Ways>(bits: u32) -> Core {
    match bits {
        16 => run::<I, Swapped<16>>(),
        32 => run::<I, Swapped<32>>(),
        _ => run::<I, Swapped<64>>(),
    }
}

fn unpacked<I: Ways>(dtype: DType) -> Core {
    match dtype.bits() {
        1 => run::<I, Repacked<1, 8>>(),
        2 => run::<I, Repacked<2, 8>>(),
        4 => run::<I, Repacked<4, 8>>(),
        _ => run::<I, Repacked<6, 8>>(),
    }
}

fn packed<I: Ways>(dtype: DType) -> Core {
    match dtype.bits() {
        1 => run::<I, Repacked<8, 1>>(),
        2 => run::<I, Repacked<8, 2>>(),
        4 => run::<I, Repacked<8, 4>>(),
        _ => run::<I, Repacked<8, 6>>(),
    }
}

/// The codec of a route that has no [`hub`].
fn direct<I: Ways>(route: &Route) -> Core {
    if route.from == DType::Bool && matches!(route.to.kind(), Kind::Bool | Kind::Int(_)) {
        return bytes::<I, U8>(route);
    }
    if let Some(core) = I::Narrowing::short(route) {
        return core;
    }
    if reads_as_f32::<I>(route) {
        return I::Lookups::wide_integers(route);
    }
    if has_table(route) {
        return by_table::<I>(route);
    }
    if route.to == DType::Bool {
        return match route.from.bits() {
            8 => run::<I, ToBool<F8>>(),
            16 => run::<I, ToBool<F16>>(),
            32 => run::<I, ToBool<F32>>(),
            _ => run::<I, ToBool<F64>>(),
        };
    }
    match (route.from.kind(), route.to.kind()) {
        (_, Kind::Int(_)) => match route.from {
            DType::U8 => bytes::<I, U8>(route),
            DType::I8 => bytes::<I, I8>(route),
            DType::U16 => integers::<I, U16>(route),
            DType::I16 => integers::<I, I16>(route),
            DType::U32 => integers::<I, U32>(route),
            DType::I32 => integers::<I, I32>(route),
            DType::U64 => integers::<I, U64>(route),
            DType::I64 => integers::<I, I64>(route),
            DType::F64 => f64_to_integer::<I>(route),
            DType::F16 => float_to_integer::<I, F16>(route),
            DType::BF16 => float_to_integer::<I, Bf16>(route),
            _ => float_to_integer::<I, F32>(route),
        },
        (Kind::Int(_), _) => from_integer::<I>(route),
        _ => match route.to {
            DType::F64 => match route.from {
                DType::F16 => run::<I, ToF64<F16>>(),
                DType::BF16 => run::<I, ToF64<Bf16>>(),
                _ => run::<I, ToF64<F32>>(),
            },
            DType::F32 => match route.from {
                DType::F16 => run::<I, ToF32<F16>>(),
                DType::BF16 => run::<I, ToF32<Bf16>>(),
                _ if route.policy.rounding == Rounding::NearestEven => run::<I, WideToF32<F64>>(),
                _ => run::<I::Dynamic, WideToF32<F64>>(),
            },
            _ if route.policy.rounding != Rounding::NearestEven => dynamic::<I>(route),
            _ => to_small_float::<I>(route),
        },
    }
}

/// From integers of 8 bits to others, one per byte or packed.
fn bytes<I: Ways, S: AsInteger>(route: &Route) -> Core {
    if route.dst.memory_bits() == 2 { run::<I, Integers<S, 2>>() } else { integers::<I, S>(route) }
}

/// From integers to others, one per byte, or packed in 4 bits.
fn integers<I: Ways, S: AsInteger>(route: &Route) -> Core {
    match route.dst.memory_bits() {
        4 => run::<I, Integers<S, 4>>(),
        8 => run::<I, Integers<S, 8>>(),
        16 if const { bits::<S>() == 16 } => run::<I, OtherSign<16>>(),
        16 => run::<I, Integers<S, 16>>(),
        32 if const { bits::<S>() == 32 } => run::<I, OtherSign<32>>(),
        32 => run::<I, Integers<S, 32>>(),
        _ if const { bits::<S>() == 64 } => run::<I, OtherSign<64>>(),
        _ => run::<I, Integers<S, 64>>(),
    }
}

fn from_integer<I: Ways>(route: &Route) -> Core {
    if let Some(core) = integer_to_8::<I>(route) {
        return core;
    }
    let is_dynamic = route.policy.rounding != Rounding::NearestEven;
    match (route.from, route.to) {
        (DType::U8, DType::BF16) => run::<I, CutBf16<U8>>(),
        (DType::I8, DType::BF16) => run::<I, CutBf16<I8>>(),
        (DType::U8, DType::F16) => run::<I, ToF16<U8, false>>(),
        (DType::I8, DType::F16) => run::<I, ToF16<I8, false>>(),
        (DType::U16, DType::F16) => run::<I, ToF16<U16, false>>(),
        (DType::I16, DType::F16) => run::<I, ToF16<I16, false>>(),
        (DType::U32, DType::F16) => run::<I, ToF16<Read<U32, Clipped>, false>>(),
        (DType::I32, DType::F16) => run::<I, ToF16<Read<I32, Clipped>, false>>(),
        (DType::U64, DType::F16) => run::<I, ToF16<Read<U64, Clipped>, false>>(),
        (DType::I64, DType::F16) => run::<I, ToF16<Read<I64, Clipped>, false>>(),
        (DType::U16, DType::BF16) => run::<I, ToBf16<U16, false>>(),
        (DType::I16, DType::BF16) => run::<I, ToBf16<I16, false>>(),
        (DType::U32, DType::BF16) => run::<I, ToBf16<U32, false>>(),
        (DType::I32, DType::BF16) => run::<I, ToBf16<I32, false>>(),
        (DType::U64, DType::BF16) => run::<I, ToBf16<U64, false>>(),
        (DType::I64, DType::BF16) => run::<I, ToBf16<I64, false>>(),
        (DType::U8, DType::F64) => run::<I, ToF64<U8>>(),
        (DType::I8, DType::F64) => run::<I, ToF64<I8>>(),
        (DType::U16, DType::F64) => run::<I, ToF64<U16>>(),
        (DType::I16, DType::F64) => run::<I, ToF64<I16>>(),
        (DType::U8, _) => run::<I, ToF32<U8>>(),
        (DType::I8, _) => run::<I, ToF32<I8>>(),
        (DType::U16, _) => run::<I, ToF32<U16>>(),
        (DType::I16, _) => run::<I, ToF32<I16>>(),
        (DType::U32, DType::F32) => run::<I, ToF32<U32>>(),
        (DType::I32, DType::F32) => run::<I, ToF32<I32>>(),
        (DType::U64, DType::F32) => run::<I, ToF32<U64>>(),
        (DType::I64, DType::F32) => run::<I, ToF32<I64>>(),
        (DType::U32, _) => run::<I, ToF64<U32>>(),
        (DType::I32, _) => run::<I, ToF64<I32>>(),
        (DType::U64, _) if is_dynamic => run::<I::Dynamic, LongToF64<false>>(),
        (_, _) if is_dynamic => run::<I::Dynamic, LongToF64<true>>(),
        (DType::U64, _) => run::<I, LongToF64<false>>(),
        (_, _) => run::<I, LongToF64<true>>(),
    }
}

/// A codec to integers. Where instructions carry their rounding, it needs no environment to truncate.
fn run_to_integer<I: Simd, C: Codec<I>>(route: &Route) -> Core {
    let asks = !matches!(route.policy.rounding, Rounding::TowardZero | Rounding::NearestAway);
    core::<I, C>(if asks { C::FLOATS } else { I::needs_environment(C::FLOATS) })
}

/// From floats that are exact in float32 to integers, saturating.
fn float_to_integer<I: Ways, S: AsF32<I> + AsF64<I>>(route: &Route) -> Core {
    match route.dst.memory_bits() {
        4 => run_to_integer::<I, ToShort<S, 4>>(route),
        8 => run_to_integer::<I, ToShort<S, 8>>(route),
        16 => run_to_integer::<I, ToShort<S, 16>>(route),
        _ => float_to_wide_integer::<I, S>(route),
    }
}

/// As [`float_to_integer`], to integers of 32 and 64 bits.
fn float_to_wide_integer<I: Simd<Integers: ToIntegers<I>>, S: AsF32<I> + AsF64<I>>(route: &Route) -> Core {
    match route.to {
        DType::I32 => run_to_integer::<I, ToInt32<S, true>>(route),
        DType::U32 => run_to_integer::<I, ToInt32<S, false>>(route),
        DType::I64 => run_to_integer::<I, ToLong<S, 64, true>>(route),
        _ => run_to_integer::<I, ToLong<S, 64, false>>(route),
    }
}

fn f64_to_integer<I: Ways>(route: &Route) -> Core {
    match (route.policy.overflow, route.to) {
        (Overflow::Wrap, _) => run_to_integer::<I, ToWrapped>(route),
        (_, DType::I64) => run_to_integer::<I, ToLong<F64, 64, true>>(route),
        (_, DType::U64) => run_to_integer::<I, ToLong<F64, 64, false>>(route),
        (_, DType::I32 | DType::U32) => run_to_integer::<I, ToLong<F64, 32, true>>(route),
        _ if route.dst.is_packed() => run_to_integer::<I, ToLong<F64, 4, true>>(route),
        (_, DType::I16 | DType::U16) => run_to_integer::<I, ToLong<F64, 16, true>>(route),
        _ => run_to_integer::<I, ToLong<F64, 8, true>>(route),
    }
}

/// By a table of the elements, or of the bfloat16s from which they are made.
fn by_table<I: Ways>(route: &Route) -> Core {
    let (from, packed) = (route.from, route.src.is_packed());
    if from == DType::Bool && !route.dst.is_packed() {
        return match route.to {
            DType::F64 => run::<I, ToF64<Floats<Truth, 8>>>(),
            _ => looked_up_as::<I, Truth>(route),
        };
    }
    match (from.bits(), packed) {
        (2, true) => unpacked_as::<I, Nibble, 2>(route),
        (4, true) => unpacked_as::<I, Nibble, 4>(route),
        (6, true) if route.dst.memory_bits() <= 8 => to_codes::<I, SixBits, 6>(route),
        (6, true) => unpacked_as::<I, SixBits, 6>(route),
        (..8, _) => I::Lookups::one_per_byte(route),
        _ if route.to.bits() <= 8 => I::Lookups::codes(route),
        _ if matches!(route.to.kind(), Kind::Int(_)) => I::Lookups::integers(route),
        _ => I::Lookups::floats(route),
    }
}

/// The codecs that look up in tables, in the way that is best on an instruction set.
pub(in crate::kernels) trait Lookups<I: Simd> {
    /// Whether looking up in a whole table is so cheap that no shortcut pays. (This affects only speed; the results are the same bits.)
    const IS_CHEAP: bool;

    /// From fewer than 8 bits, one per byte.
    fn one_per_byte(route: &Route) -> Core;
    /// From 8 bits to 8 or fewer.
    fn codes(route: &Route) -> Core;
    /// From floats of 8 bits to integers of 16 bits, and to wider ones that are in the table as 16 bits.
    fn integers(route: &Route) -> Core;
    /// From 8 bits to wider floats.
    fn floats(route: &Route) -> Core;
    /// From floats of 8 bits to integers of 32 and 64 bits, [by way of float32](reads_as_f32).
    fn wide_integers(route: &Route) -> Core;
}

impl<I: Simd<Integers: ToIntegers<I>>> Lookups<I> for AtOnce {
    const IS_CHEAP: bool = true;

    fn one_per_byte(route: &Route) -> Core {
        // A table repeats for every value of the bits above a code.
        looked_up_as::<I, Unfolded>(route)
    }
    fn codes(route: &Route) -> Core {
        to_codes::<I, Unfolded, 8>(route)
    }
    fn integers(route: &Route) -> Core {
        match (entries(route), route.to.bits()) {
            (Entries::Bytes, _) => widened::<I, Unfolded, 8>(route),
            (Entries::Words, 32) => run::<I, LookupWords<Unfolded, 32>>(),
            (Entries::Words, _) => run::<I, LookupWords<Unfolded, 64>>(),
            _ => run::<I, Lookup<Unfolded, 8, 16>>(),
        }
    }
    fn floats(route: &Route) -> Core {
        if route.from.float_format().is_some_and(|format| format.has_neg_zero) {
            wide::<I, Mirrored>(route)
        } else {
            wide::<I, Unfolded>(route)
        }
    }
    fn wide_integers(route: &Route) -> Core {
        float_to_wide_integer::<I, Floats<Unfolded, 8>>(route)
    }
}

impl<I: Simd<Integers: ToIntegers<I>>> Lookups<I> for ByRows {
    const IS_CHEAP: bool = false;

    fn one_per_byte(route: &Route) -> Core {
        if route.from.bits() == 6 {
            looked_up_as::<I, SixBits>(route)
        } else {
            looked_up_as::<I, Nibble>(route)
        }
    }
    fn codes(route: &Route) -> Core {
        match fold(route) {
            Fold::None => to_codes::<I, Unfolded, 8>(route),
            Fold::Same => to_codes::<I, Same, 8>(route),
            Fold::Negated => run::<I, Lookup<Negated, 8, 8>>(),
            Fold::Limited => to_integers::<I, Limited, 8>(route),
            Fold::Magnitude => to_codes::<I, Magnitude, 8>(route),
            Fold::Positive => to_integers::<I, Positive, 8>(route),
        }
    }
    fn integers(route: &Route) -> Core {
        match fold(route) {
            Fold::Negated => run::<I, Lookup<Negated, 8, 16>>(),
            Fold::Positive => run::<I, Lookup<Positive, 8, 16>>(),
            _ => run::<I, Lookup<Unfolded, 8, 16>>(),
        }
    }
    fn floats(route: &Route) -> Core {
        // The only pair of this kind whose elements do not lie on a line, because float16 does not have all these numbers.
        if (route.from, route.to) == (DType::F8E8M0, DType::F16) {
            run::<I, Lookup<Unfolded, 8, 16>>()
        } else {
            wide::<I, OnLine>(route)
        }
    }
    fn wide_integers(route: &Route) -> Core {
        float_to_wide_integer::<I, Floats<OnLine, 8>>(route)
    }
}

/// From packed codes of `SRC` bits.
fn unpacked_as<I: Ways, R: Scope, const SRC: usize>(route: &Route) -> Core
where
    Bits<SRC>: Width<Block<I> = I::V>,
{
    match (route.to.bits(), route.to.kind()) {
        (6, _) if route.dst.is_packed() => run::<I, Lookup<R, SRC, 6>>(),
        (..=8, _) => run::<I, Lookup<R, SRC, 8>>(),
        (16, _) => run::<I, Lookup<R, SRC, 16>>(),
        (_, Kind::Int(_)) => widened::<I, R, SRC>(route),
        (32, _) => run::<I, ToF32<Floats<R, SRC>>>(),
        _ => run::<I, ToF64<Floats<R, SRC>>>(),
    }
}

/// To integers of 32 and 64 bits, which are made from bytes.
fn widened<I: Simd, R: Scope, const SRC: usize>(route: &Route) -> Core
where
    Bits<SRC>: Width<Block<I> = I::V>,
{
    if route.to.bits() == 32 { run::<I, Lookup<R, SRC, 32>>() } else { run::<I, Lookup<R, SRC, 64>>() }
}

/// From `SRC` bits to 8 or fewer.
fn to_codes<I: Simd, R: Scope, const SRC: usize>(route: &Route) -> Core
where
    Bits<SRC>: Width<Block<I> = I::V>,
{
    if route.dst.memory_bits() == 6 { run::<I, Lookup<R, SRC, 6>>() } else { to_integers::<I, R, SRC>(route) }
}

/// As [`to_codes`], to integers, which floats of 6 bits do not become this way.
fn to_integers<I: Simd, R: Scope, const SRC: usize>(route: &Route) -> Core
where
    Bits<SRC>: Width<Block<I> = I::V>,
{
    match route.dst.memory_bits() {
        2 => run::<I, Lookup<R, SRC, 2>>(),
        4 => run::<I, Lookup<R, SRC, 4>>(),
        _ => run::<I, Lookup<R, SRC, 8>>(),
    }
}

/// From 8 bits to wider floats.
fn wide<I: Simd, R: Scope>(route: &Route) -> Core {
    match route.to {
        DType::F64 => run::<I, ToF64<Floats<R, 8>>>(),
        DType::F32 => run::<I, ToF32<Floats<R, 8>>>(),
        _ => run::<I, Lookup<R, 8, 16>>(),
    }
}

fn looked_up_as<I: Simd, R: Scope>(route: &Route) -> Core {
    match route.to.bits() {
        32 => run::<I, ToF32<Floats<R, 8>>>(),
        16 => run::<I, Lookup<R, 8, 16>>(),
        _ => run::<I, Lookup<R, 8, 8>>(),
    }
}

/// From float32 to floats of 16 bits or fewer, in every rounding mode.
fn dynamic<I: Ways>(route: &Route) -> Core {
    match (route.to, route.to.float_format()) {
        (DType::F16, _) => run::<I::Dynamic, ToF16<F32, true>>(),
        (DType::BF16, _) => run::<I, ToBf16<F32, true>>(),
        (_, Some(format)) if !format.has_sign => run::<I::Dynamic, ToNarrow<F32, Unsigned, 8, true>>(),
        (_, Some(format)) if !format.has_nan => run::<I::Dynamic, ToNarrow<F32, Finite, 8, true>>(),
        (_, Some(format)) if !format.has_neg_zero => run::<I::Dynamic, ToNarrow<F32, Fnuz, 8, true>>(),
        _ => run::<I::Dynamic, ToNarrow<F32, Signed, 8, true>>(),
    }
}

/// From wider floats to floats of 16 bits or fewer, to nearest even.
fn to_small_float<I: Ways>(route: &Route) -> Core {
    match (route.from, route.to) {
        (DType::BF16, DType::F16) => run::<I, ToF16<Bf16, false>>(),
        (DType::F32, DType::F16) => run::<I, ToF16<F32, false>>(),
        (_, DType::F16) => run::<I, ToF16<F64, false>>(),
        (DType::F16, DType::BF16) => run::<I, ToBf16<F16, false>>(),
        (DType::F32, DType::BF16) => run::<I, ToBf16<F32, false>>(),
        (_, DType::BF16) => run::<I, ToBf16<F64, false>>(),
        (_, DType::F8E8M0) => run::<I, ToE8m0<F32>>(),
        (DType::F32, _) => narrow_wide::<I>(route),
        (_, to) if to.float_format().is_some_and(|to| !to.has_sign) => I::Narrowing::unsigned(route.from),
        (DType::F16, _) => I::Narrowing::half::<F16>(route),
        _ => I::Narrowing::half::<Bf16>(route),
    }
}

/// An instruction set with its choice of ways.
pub(in crate::kernels) trait Ways:
    Simd<Narrowing: Narrowing<Self>, Integers: ToIntegers<Self>, Lookups: Lookups<Self>>
{
}

impl<I: Simd<Narrowing: Narrowing<I>, Integers: ToIntegers<I>, Lookups: Lookups<I>>> Ways for I {}

/// The codecs to floats of 8 bits or fewer, to nearest even, in the way that is best on an instruction set. (An implementation
/// names only the codecs that it uses, because a program links all that are named.)
pub(in crate::kernels) trait Narrowing<I: Simd> {
    /// Whether float16 and bfloat16 are narrowed in lanes of 16 bits, by [`Narrowing::half`].
    const BY_WORDS: bool = false;

    /// From float32 to formats with NaN and without -0.
    fn fnuz(_: FloatFormat) -> Core {
        run::<I, ToNarrow<F32, Fnuz, 8, false>>()
    }
    /// To formats without a sign: from float32, and in lanes of 16 bits from bfloat16.
    fn unsigned(_: DType) -> Core {
        run::<I, ToNarrow<F32, Unsigned, 8, false>>()
    }
    /// To formats without NaN, packed.
    fn finite<S: AsF32<I>>(to: DType) -> Core {
        if to.bits() == 4 {
            run::<I, ToNarrow<S, Finite, 4, false>>()
        } else {
            run::<I, ToNarrow<S, Finite, 6, false>>()
        }
    }
    /// To formats with NaN and -0.
    fn signed<S: AsF32<I>>(_: FloatFormat) -> Core {
        run::<I, ToNarrow<S, Signed, 8, false>>()
    }
    /// As [`Narrowing::signed`], from integers. None if they become float32 first.
    fn integers<S: AsF32<I>>(format: FloatFormat) -> Option<Core> {
        Some(Self::signed::<S>(format))
    }
    /// From integers of 16 bits, where [`Narrowing::short`] has no codec.
    fn short_integers<S: AsF32<I>>(format: FloatFormat) -> Option<Core> {
        Self::integers::<S>(format)
    }
    /// From integers of 16 bits, in lanes of 16 bits.
    fn short(_: &Route) -> Option<Core> {
        None
    }
    /// From float16 and bfloat16.
    fn half<S: AsF32<I> + AsHalf<I> + AsBytes<I>>(route: &Route) -> Core;
    /// From any source to formats with -0.
    fn narrowed<S: AsF32<I>>(route: &Route) -> Core {
        match route.to.float_format() {
            Some(format) if format.has_nan => Self::signed::<S>(format),
            _ => Self::finite::<S>(route.to),
        }
    }
}

impl<I: NarrowsByNibbles> Narrowing<I> for ByAddition {
    fn half<S: AsF32<I> + AsHalf<I> + AsBytes<I>>(route: &Route) -> Core {
        half_by_nibbles::<I, S>(route)
    }
}

/// In lanes of 8 bits. (`goes_by_bytes` says for which routes.)
fn by_bytes<I: NarrowsByWords, S: AsBytes<I>>(route: &Route) -> Core {
    if route.to.float_format().is_some_and(|format| format.has_neg_zero) {
        run::<I, ToNarrowByBytes<S, Signed>>()
    } else {
        run::<I, ToNarrowByBytes<S, Fnuz>>()
    }
}

/// By way of float16, for the formats that this works for.
fn by_f16<I: NarrowsByF16, S: AsF32<I>>(format: FloatFormat) -> Option<Core> {
    goes_by_f16(format).then(|| match format.mantissa_bits {
        2 => run::<I, ToNarrowByF16<S, Signed, 8, 2, false>>(),
        _ => run::<I, ToNarrowByF16<S, Signed, 8, 3, true>>(),
    })
}

/// By way of float16, or else by addition.
fn signed_by_f16<I: NarrowsByF16, S: AsF32<I>>(format: FloatFormat) -> Core {
    by_f16::<I, S>(format).unwrap_or_else(run::<I, ToNarrow<S, Signed, 8, false>>)
}

/// To formats with NaN and without -0.
fn fnuz_by_f16<I: NarrowsByF16>(format: FloatFormat) -> Core {
    if goes_by_f16(format) {
        run::<I, ToNarrowByF16<F32, Fnuz, 8, 3, true>>()
    } else {
        run::<I, ToNarrow<F32, Fnuz, 8, false>>()
    }
}

/// To formats without NaN, packed.
fn finite_by_f16<I: NarrowsByF16, S: AsF32<I>>(to: DType) -> Core {
    match to {
        DType::F4E2M1 => run::<I, ToNarrowByF16<S, Finite, 4, 1, true>>(),
        DType::F6E3M2 => run::<I, ToNarrowByF16<S, Finite, 6, 2, true>>(),
        _ => run::<I, ToNarrowByF16<S, Finite, 6, 3, true>>(),
    }
}

/// From float16 and bfloat16, by nibbles for the formats that this works for; else by addition.
fn half_by_nibbles<I: NarrowsByNibbles, S: AsF32<I> + AsHalf<I>>(route: &Route) -> Core {
    match (route.to, route.to.float_format()) {
        (DType::F4E2M1, _) => run::<I, ToNarrowByNibbles<S, Finite, 4, 1>>(),
        (DType::F6E3M2, _) => run::<I, ToNarrowByNibbles<S, Finite, 6, 2>>(),
        (DType::F6E2M3, _) => run::<I, ToNarrowByNibbles<S, Finite, 6, 3>>(),
        (_, Some(format)) if goes_by_nibbles(route.from, format) => {
            match (format.mantissa_bits, format.has_neg_zero) {
                // From bfloat16 alone.
                (2, true) => run::<I, ToNarrowByNibbles<Bf16, Signed, 8, 2>>(),
                (2, false) => run::<I, ToNarrowByNibbles<Bf16, Fnuz, 8, 2>>(),
                (_, true) => run::<I, ToNarrowByNibbles<S, Signed, 8, 3>>(),
                (_, false) => run::<I, ToNarrowByNibbles<S, Fnuz, 8, 3>>(),
            }
        }
        _ => run::<I, ToNarrow<S, Signed, 8, false>>(),
    }
}

impl<I: NarrowsByF16 + NarrowsByNibbles> Narrowing<I> for ByF16 {
    fn fnuz(format: FloatFormat) -> Core {
        fnuz_by_f16::<I>(format)
    }
    fn finite<S: AsF32<I>>(to: DType) -> Core {
        finite_by_f16::<I, S>(to)
    }
    fn signed<S: AsF32<I>>(format: FloatFormat) -> Core {
        signed_by_f16::<I, S>(format)
    }
    fn integers<S: AsF32<I>>(format: FloatFormat) -> Option<Core> {
        by_f16::<I, S>(format)
    }
    fn half<S: AsF32<I> + AsHalf<I> + AsBytes<I>>(route: &Route) -> Core {
        match (route.from, route.to) {
            (DType::F16, DType::F8E5M2) => run::<I, F16ToE5m2>(),
            _ => half_by_nibbles::<I, S>(route),
        }
    }
}

impl<I: NarrowsByWords> Narrowing<I> for ByWords {
    const BY_WORDS: bool = true;

    fn fnuz(format: FloatFormat) -> Core {
        fnuz_by_f16::<I>(format)
    }
    fn unsigned(from: DType) -> Core {
        match from {
            DType::BF16 => run::<I, ToNarrowByHalf<Bf16, Unsigned>>(),
            _ => run::<I, ToNarrow<F32, Unsigned, 8, false>>(),
        }
    }
    fn finite<S: AsF32<I>>(to: DType) -> Core {
        finite_by_f16::<I, S>(to)
    }
    fn signed<S: AsF32<I>>(format: FloatFormat) -> Core {
        signed_by_f16::<I, S>(format)
    }
    fn integers<S: AsF32<I>>(format: FloatFormat) -> Option<Core> {
        by_f16::<I, S>(format)
    }
    fn short_integers<S: AsF32<I>>(_: FloatFormat) -> Option<Core> {
        None
    }
    fn short(route: &Route) -> Option<Core> {
        goes_as_short(route).then(run::<I, ShortToNarrow>)
    }
    fn half<S: AsF32<I> + AsHalf<I> + AsBytes<I>>(route: &Route) -> Core {
        match route.to.bits() {
            _ if (route.from, route.to) == (DType::F16, DType::F8E5M2) => run::<I, F16ToE5m2>(),
            4 => run::<I, ToNarrowByTable<Bits<16>, 4>>(),
            6 => run::<I, ToNarrowByTable<Bits<16>, 6>>(),
            _ if goes_by_bytes(route) => by_bytes::<I, S>(route),
            _ => run::<I, ToNarrowByHalf<S, Signed>>(),
        }
    }
}

/// From float32 to floats of 8 bits or fewer, to nearest even; those without NaN are packed.
fn narrow_wide<I: Ways>(route: &Route) -> Core {
    match route.to.float_format() {
        Some(format) if !format.has_sign => I::Narrowing::unsigned(route.from),
        Some(format) if format.has_nan && !format.has_neg_zero => I::Narrowing::fnuz(format),
        _ => I::Narrowing::narrowed::<F32>(route),
    }
}
