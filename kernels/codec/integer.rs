//! Codecs to integers and to bool.
//!
//! Floats are rounded by the instruction that converts them, as the control register says. Ties are rounded away from zero by
//! adding the largest number below one half and truncating, which is right for all values.

use core::marker::PhantomData;

use super::super::simd::{ByLimits, ByPacking, BySaturating, Extras, MarksBeyond, SearchesNans, Simd};
use super::float::SIGN;
use super::job::Job;
use super::source::{AsF32, AsF64, F64, I8, I16, I32, I64, Input, Source, U8, U16, U32, U64, bits};
use super::width::{Bits, Code, narrow_all32, narrow_all64, registers, wide32};
use super::{Block, Codec};
use crate::formats::dtype::Kind;
use crate::formats::options::Rounding;

const SIGN64: u64 = 1 << 63;

/// The setup of codecs from float32.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Clamp<V> {
    low: V,
    high: V,
    /// The largest number below one half, for ties away from zero.
    half: V,
    how: Rounds,
    signed: bool,
    /// Whether the target has 8, 16, 32 or 64 bits, and not fewer than it takes in memory.
    fills: bool,
    /// The limits of a target of at most 8 bits, in each byte.
    least: V,
    most: V,
    mask: V,
    extras: Extras,
}

/// How floats are rounded to integers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounds {
    /// Truncates.
    Cut,
    /// Rounds to nearest even, as the control register says then.
    Even,
    /// Rounds as the control register says.
    Rounded,
    /// Rounds to nearest, ties away from zero.
    Away,
}

impl Rounds {
    /// Whether conversions must round as the control register says.
    #[inline(always)]
    fn asks(self) -> bool {
        matches!(self, Self::Even | Self::Rounded)
    }

    fn new(job: &Job) -> Self {
        match job.policy.rounding {
            Rounding::TowardZero => Self::Cut,
            Rounding::NearestAway => Self::Away,
            Rounding::NearestEven => Self::Even,
            _ => Self::Rounded,
        }
    }
}

/// To integers of at most 16 bits, saturating, from sources that are exact in float32.
pub(in crate::kernels) struct ToShort<S, const BITS: usize>(PhantomData<S>);

impl<I: Simd<Integers: ToIntegers<I>>, S: AsF32<I>, const BITS: usize> Codec<I> for ToShort<S, BITS>
where
    Bits<BITS>: Code,
{
    type From = S;
    type To = Bits<BITS>;
    const FLOATS: bool = true;
    type Setup = Clamp<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> Clamp<I::V> {
        let to = &job.integer;
        Clamp {
            // Both are exact: comparing with an inexact one could raise a flag.
            low: isa.splat32((to.min as f32).to_bits()),
            high: isa.splat32((to.max as i64 as f32).to_bits()),
            half: isa.splat32(0.5f32.to_bits() - 1),
            how: Rounds::new(job),
            signed: to.signed,
            fills: to.fills,
            least: isa.splat8(to.min as u8),
            most: isa.splat8(to.max as u8),
            mask: isa.splat8(to.mask),
            extras: job.extras,
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &Clamp<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        if k.how != Rounds::Away
            && let Some(v) = S::f16(src)
            && let Some(v) = isa.f16_to_words(k.extras, v, k.how.asks(), k.signed)
        {
            return saturated16::<I, Bits<BITS>>(isa, v, [k.signed, k.fills], [k.least, k.most, k.mask]);
        }
        I::Integers::short::<Bits<BITS>>(isa, k, S::f32(isa, src))
    }
}

/// The codecs to integers of an instruction set: [`BySaturating`], [`ByLimits`] or [`ByPacking`].
pub(in crate::kernels) trait ToIntegers<I: Simd> {
    /// [`ToShort`], from float32.
    fn short<W: Code>(isa: I, k: &Clamp<I::V>, x: [I::V; 4]) -> Block<I, W>;

    /// [`ToInt32`].
    #[inline(always)]
    fn int32<S: AsF32<I>, const SIGNED: bool>(isa: I, k: &Clamp<I::V>, src: Input<I, S>) -> [I::V; 4] {
        let x = asked32(isa, S::f32(isa, src), k.how);
        if SIGNED && k.how != Rounds::Away {
            return registers!(4, K => isa.f32_to_nearest_i32(x[K], k.high, k.mask));
        }
        registers!(4, K => {
            let x = number32(isa, x[K], k.half, k.how == Rounds::Away);
            let beyond = isa.gt32(x, k.high);
            let integer = if SIGNED { isa.f32_to_i32(x) } else { isa.f32_to_u32(isa.max_f32(x, k.low)) };
            isa.select32(beyond, k.mask, integer)
        })
    }

    /// [`ToLong`] to 32 bits and fewer.
    fn int<W: Code>(isa: I, k: &Clamp64<I::V>, x: [I::V; 8]) -> Block<I, W>;

    /// [`ToLong`] to 64 bits.
    #[inline(always)]
    fn long<S: AsF32<I> + AsF64<I>, const SIGNED: bool>(
        isa: I,
        k: &Clamp64<I::V>,
        src: Input<I, S>,
    ) -> [I::V; 8] {
        let x = asked64(isa, S::f64(isa, src), k.how);
        if SIGNED && k.how != Rounds::Away {
            return registers!(8, K => isa.f64_to_nearest_i64(x[K], k.beyond, k.most));
        }
        registers!(8, K => {
            let x = number64(isa, x[K], k.half, k.how == Rounds::Away);
            let beyond = isa.gt64(x, k.beyond);
            let integer = if SIGNED { isa.f64_to_i64(x) } else { isa.f64_to_u64(isa.max_f64(x, k.low)) };
            isa.select64(beyond, k.most, integer)
        })
    }

    /// [`Integers`].
    #[inline(always)]
    fn narrowed<S: AsInteger, W: Code>(isa: I, k: &Range<I::V>, v: Block<I, S::Width>) -> Block<I, W> {
        // Minima of 64 bits are slower than a branch on whether they are needed; those of other widths are not.
        clamped::<I, S, W>(isa, k, v, bits::<S>() == 64 && k.all)
    }
}

#[cfg_attr(isa = "avx2", allow(dead_code, reason = "a way that x86-64 does not take"))]
impl<I: Simd> ToIntegers<I> for BySaturating {
    #[inline(always)]
    fn short<W: Code>(isa: I, k: &Clamp<I::V>, x: [I::V; 4]) -> Block<I, W> {
        let x = whole32(isa, x, k.half, k.how);
        let v = if k.signed {
            let v = registers!(4, K => isa.cut_i32(x[K]));
            registers!(2, K => isa.narrow_s32([v[2 * K], v[2 * K + 1]]))
        } else {
            let v = registers!(4, K => isa.cut_u32(x[K]));
            registers!(2, K => isa.narrow_u32([v[2 * K], v[2 * K + 1]]))
        };
        saturated16::<I, W>(isa, v, [k.signed, k.fills], [k.least, k.most, k.mask])
    }

    #[inline(always)]
    fn int32<S: AsF32<I>, const SIGNED: bool>(isa: I, k: &Clamp<I::V>, src: Input<I, S>) -> [I::V; 4] {
        let x = whole32(isa, S::f32(isa, src), k.half, k.how);
        registers!(4, K => if SIGNED { isa.cut_i32(x[K]) } else { isa.cut_u32(x[K]) })
    }

    #[inline(always)]
    fn int<W: Code>(isa: I, k: &Clamp64<I::V>, x: [I::V; 8]) -> Block<I, W> {
        let x = whole64(isa, x, k.half, k.how);
        let v = if k.signed {
            registers!(8, K => isa.cut_i64(x[K]))
        } else {
            registers!(8, K => isa.cut_u64(x[K]))
        };
        let v = narrow_all64(isa, v, k.signed, k.signed);
        if W::BITS == 32 {
            return W::of32::<I, false>(isa, v, k.mask);
        }
        let v = narrow_all32(isa, v, k.signed, k.signed);
        saturated16::<I, W>(isa, v, [k.signed, k.fills], [k.least8, k.most8, k.mask])
    }

    #[inline(always)]
    fn long<S: AsF32<I> + AsF64<I>, const SIGNED: bool>(
        isa: I,
        k: &Clamp64<I::V>,
        src: Input<I, S>,
    ) -> [I::V; 8] {
        let x = whole64(isa, S::f64(isa, src), k.half, k.how);
        registers!(8, K => if SIGNED { isa.cut_i64(x[K]) } else { isa.cut_u64(x[K]) })
    }

    #[inline(always)]
    fn narrowed<S: AsInteger, W: Code>(isa: I, k: &Range<I::V>, v: Block<I, S::Width>) -> Block<I, W> {
        if W::BITS >= 8 && bits::<S>() > W::BITS && k.fills && !k.all {
            return S::Width::saturated::<I, W>(isa, v, [S::SIGNED, k.signed], k.most, k.mask);
        }
        clamped::<I, S, W>(isa, k, v, k.all)
    }
}

impl<I: MarksBeyond> ToIntegers<I> for ByLimits {
    #[inline(always)]
    fn short<W: Code>(isa: I, k: &Clamp<I::V>, x: [I::V; 4]) -> Block<I, W> {
        if k.how == Rounds::Away {
            let v = registers!(4, K => within32(isa, k, number32(isa, x[K], k.half, true)));
            return W::of32::<I, false>(isa, v, k.mask);
        }
        let x = numbers32(isa, k, x);
        let v = if k.how == Rounds::Even {
            registers!(4, K => isa.f32_to_nearest_i32_or_min(isa.min_or_nan_f32(k.high, x[K])))
        } else {
            let x = asked32(isa, x, k.how);
            registers!(4, K => isa.f32_to_i32_or_min(isa.min_or_nan_f32(k.high, x[K])))
        };
        packed32::<I, W>(isa, v, k.signed, [k.least, k.mask])
    }

    #[inline(always)]
    fn int<W: Code>(isa: I, k: &Clamp64<I::V>, x: [I::V; 8]) -> Block<I, W> {
        let x = asked64(isa, x, k.how);
        let v = if k.how == Rounds::Away {
            registers!(8, K => isa.f64_to_i64(within64(isa, k, number64(isa, x[K], k.half, true))))
        } else {
            let x = numbers64(isa, k, x);
            registers!(8, K => isa.f64_to_i64(within64(isa, k, x[K])))
        };
        packed32::<I, W>(isa, Bits::<32>::of64(isa, v, k.mask), k.signed, [k.least8, k.mask])
    }
}

impl<I: MarksBeyond> ToIntegers<I> for ByPacking {
    #[inline(always)]
    fn short<W: Code>(isa: I, k: &Clamp<I::V>, x: [I::V; 4]) -> Block<I, W> {
        <ByLimits as ToIntegers<I>>::short::<W>(isa, k, x)
    }

    #[inline(always)]
    fn int32<S: AsF32<I>, const SIGNED: bool>(isa: I, k: &Clamp<I::V>, src: Input<I, S>) -> [I::V; 4] {
        // As in `long`: large numbers are rare.
        if !SIGNED
            && k.how != Rounds::Away
            && let Some(v) = fitting_int32::<I, S, false>(isa, src)
        {
            return v;
        }
        <ByLimits as ToIntegers<I>>::int32::<S, SIGNED>(isa, k, src)
    }

    #[inline(always)]
    fn int<W: Code>(isa: I, k: &Clamp64<I::V>, x: [I::V; 8]) -> Block<I, W> {
        if k.how == Rounds::Away {
            return <ByLimits as ToIntegers<I>>::int::<W>(isa, k, x);
        }
        let is_int32 = W::BITS < 32 || k.signed;
        if W::BITS >= 8 && k.fills && is_int32 {
            // Numbers beyond int32 and NaN are rare. Without them, narrowing from int32 saturates as needed.
            let v = registers!(4, K => isa.f64_to_i32_or_min([x[2 * K], x[2 * K + 1]]));
            if !has_minimum(isa, v) {
                return packed32::<I, W>(isa, v, k.signed, [k.least8, k.mask]);
            }
        }
        let x = numbers64(isa, k, x);
        if is_int32 {
            let x = registers!(8, K => isa.min_or_nan_f64(k.high, x[K]));
            let v = registers!(4, K => isa.f64_to_i32_or_min([x[2 * K], x[2 * K + 1]]));
            return packed32::<I, W>(isa, v, k.signed, [k.least8, k.mask]);
        }
        let v = registers!(8, K => small_long::<I, true>(isa, within64(isa, k, x[K])));
        W::of64(isa, v, k.mask)
    }

    #[inline(always)]
    fn long<S: AsF32<I> + AsF64<I>, const SIGNED: bool>(
        isa: I,
        k: &Clamp64<I::V>,
        src: Input<I, S>,
    ) -> [I::V; 8] {
        // Large numbers are rare: only blocks that contain some take the longer way.
        if k.how != Rounds::Away {
            if bits::<S>() > 32 {
                if let Some(v) = small_longs::<I, S, SIGNED>(isa, src) {
                    return v;
                }
            } else if let Some(v) = fitting_int32::<I, S, SIGNED>(isa, src) {
                return wide32::<I, true>(isa, v);
            }
        }
        <ByLimits as ToIntegers<I>>::long::<S, SIGNED>(isa, k, src)
    }
}

/// Prepares numbers such that conversions round them as the control register says ([`Rounds::asks`]).
#[inline(always)]
fn asked32<I: Simd>(isa: I, x: [I::V; 4], how: Rounds) -> [I::V; 4] {
    if how.asks() { registers!(4, K => isa.asked_f32(x[K])) } else { x }
}

#[inline(always)]
fn asked64<I: Simd>(isa: I, x: [I::V; 8], how: Rounds) -> [I::V; 8] {
    if how.asks() { registers!(8, K => isa.asked_f64(x[K])) } else { x }
}

/// Replaces NaN by 0 if the target is signed. (Conversions to unsigned integers themselves make 0 of a NaN, as of negative numbers.)
#[inline(always)]
fn numbers32<I: SearchesNans>(isa: I, k: &Clamp<I::V>, x: [I::V; 4]) -> [I::V; 4] {
    if k.signed && isa.any_nan_f32(x) { registers!(4, K => isa.number_f32(x[K])) } else { x }
}

#[inline(always)]
fn numbers64<I: SearchesNans>(isa: I, k: &Clamp64<I::V>, x: [I::V; 8]) -> [I::V; 8] {
    if k.signed && isa.any_nan_f64(x) { registers!(8, K => isa.number_f64(x[K])) } else { x }
}

/// Converts numbers to integers within the limits of the target; NaN becomes the lower limit.
#[inline(always)]
fn within32<I: SearchesNans>(isa: I, k: &Clamp<I::V>, x: I::V) -> I::V {
    isa.f32_to_i32(isa.min_f32(isa.max_or_low_f32(x, k.low), k.high))
}

/// Clamps numbers to the limits of the target, which are exact; NaN becomes the lower limit.
#[inline(always)]
fn within64<I: SearchesNans>(isa: I, k: &Clamp64<I::V>, x: I::V) -> I::V {
    isa.min_f64(isa.max_or_low_f64(x, k.low), k.high)
}

/// Replaces NaN by 0, and if `away`, rounds to integers, with ties away from zero.
#[inline(always)]
fn number32<I: Simd>(isa: I, x: I::V, half: I::V, away: bool) -> I::V {
    let x = isa.number_f32(x);
    if away { isa.trunc_f32(isa.add_f32(x, isa.or(half, isa.and(x, isa.splat32(SIGN))))) } else { x }
}

#[inline(always)]
fn number64<I: Simd>(isa: I, x: I::V, half: I::V, away: bool) -> I::V {
    let x = isa.number_f64(x);
    if away { isa.trunc_f64(isa.add_f64(x, isa.or(half, isa.and(x, isa.splat64(SIGN64))))) } else { x }
}

/// Rounds numbers to whole ones, for an instruction that truncates and saturates. If they are to be truncated, they stay as they are.
#[inline(always)]
fn whole32<I: Simd>(isa: I, x: [I::V; 4], half: I::V, how: Rounds) -> [I::V; 4] {
    match how {
        Rounds::Cut => x,
        Rounds::Even | Rounds::Rounded => registers!(4, K => isa.round_f32(x[K])),
        Rounds::Away => registers!(4, K => number32(isa, x[K], half, true)),
    }
}

#[inline(always)]
fn whole64<I: Simd>(isa: I, x: [I::V; 8], half: I::V, how: Rounds) -> [I::V; 8] {
    match how {
        Rounds::Cut => x,
        Rounds::Even | Rounds::Rounded => registers!(8, K => isa.round_f64(x[K])),
        Rounds::Away => registers!(8, K => number64(isa, x[K], half, true)),
    }
}

/// Narrows lanes of 16 bits, which are signed if the target is, to the bits of the target, saturating. `least`, `most` and
/// `mask` are those of targets of at most 8 bits.
#[inline(always)]
fn saturated16<I: Simd, W: Code>(
    isa: I,
    v: [I::V; 2],
    [signed, fills]: [bool; 2],
    [least, most, mask]: [I::V; 3],
) -> Block<I, W> {
    if W::BITS == 16 {
        return W::of16::<I, false>(isa, v, mask);
    }
    let bytes = if signed { isa.narrow_s16(v) } else { isa.narrow_u16(v) };
    if W::BITS == 8 && fills {
        return W::of8::<I, false>(isa, bytes);
    }
    let clamped = if signed { isa.min_s8(isa.max_s8(bytes, least), most) } else { isa.min_u8(bytes, most) };
    W::of8::<I, false>(isa, isa.and(clamped, mask))
}

/// Narrows signed lanes of 32 bits, none of which is above the target's max, to the bits of the target, saturating from below.
/// Not for uint32. `least` and `mask` are those of targets of at most 8 bits. A NaN has become the minimum of int32, which
/// becomes 0 if the target is unsigned.
#[inline(always)]
fn packed32<I: Simd, W: Code>(isa: I, v: [I::V; 4], signed: bool, [least, mask]: [I::V; 2]) -> Block<I, W> {
    if W::BITS == 32 {
        return W::of32::<I, false>(isa, v, mask);
    }
    if W::BITS == 16 && !signed {
        let v = registers!(2, K => isa.narrow_s32_to_u16([v[2 * K], v[2 * K + 1]]));
        return W::of16::<I, false>(isa, v, mask);
    }
    if W::BITS == 16 {
        return W::of16::<I, false>(isa, registers!(2, K => isa.narrow_s32([v[2 * K], v[2 * K + 1]])), mask);
    }
    let bytes = if signed { isa.max_s8(isa.narrow_s32_to_s8(v), least) } else { isa.narrow_s32_to_u8(v) };
    W::of8::<I, false>(isa, isa.and(bytes, mask))
}

/// To int32 or uint32, saturating, from sources that are exact in float32. The upper limit is not exact there, so numbers above
/// it are found by comparing bits as integers.
pub(in crate::kernels) struct ToInt32<S, const SIGNED: bool>(PhantomData<S>);

impl<I: Simd<Integers: ToIntegers<I>>, S: AsF32<I>, const SIGNED: bool> Codec<I> for ToInt32<S, SIGNED> {
    type From = S;
    type To = Bits<32>;
    const FLOATS: bool = true;
    type Setup = Clamp<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> Clamp<I::V> {
        // ±2^31, or 0 and 2^32.
        let (low, beyond) =
            if SIGNED { (-2_147_483_648f32, 2_147_483_648f32) } else { (0.0, 4_294_967_296.0) };
        Clamp {
            low: isa.splat32(low.to_bits()),
            high: isa.splat32(beyond.to_bits() - 1),
            half: isa.splat32(0.5f32.to_bits() - 1),
            how: Rounds::new(job),
            signed: SIGNED,
            fills: true,
            least: isa.splat8(0),
            most: isa.splat8(0),
            mask: isa.splat32(if SIGNED { i32::MAX as u32 } else { u32::MAX }),
            extras: job.extras,
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &Clamp<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        I::Integers::int32::<S, SIGNED>(isa, k, src)
    }
}

/// To integers of any width, saturating, from what is read as float64.
pub(in crate::kernels) struct ToLong<S, const BITS: usize, const SIGNED: bool>(PhantomData<S>);

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Clamp64<V> {
    low: V,
    high: V,
    /// For targets of 64 bits: a number whose bits are above these, compared as integers, becomes `most`.
    beyond: V,
    most: V,
    half: V,
    how: Rounds,
    signed: bool,
    /// Whether the target has 8, 16, 32 or 64 bits, and not fewer than it takes in memory.
    fills: bool,
    /// The limits of a target of at most 8 bits, in each byte.
    least8: V,
    most8: V,
    mask: V,
}

impl<I: Simd<Integers: ToIntegers<I>>, S: AsF32<I> + AsF64<I>, const BITS: usize, const SIGNED: bool> Codec<I>
    for ToLong<S, BITS, SIGNED>
where
    Bits<BITS>: Code,
{
    type From = S;
    type To = Bits<BITS>;
    const FLOATS: bool = true;
    type Setup = Clamp64<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> Clamp64<I::V> {
        let to = &job.integer;
        // 2^63 or 2^64.
        let beyond = if SIGNED { 9_223_372_036_854_775_808f64 } else { 18_446_744_073_709_551_616.0 };
        Clamp64 {
            // Both are exact: comparing with an inexact one could raise a flag. The upper limit of 64 bits is not exact, and not used.
            low: isa.splat64((to.min as f64).to_bits()),
            high: isa.splat64(if BITS < 64 { to.max as i64 as f64 } else { 0.0 }.to_bits()),
            beyond: isa.splat64(beyond.to_bits() - 1),
            most: isa.splat64(to.max),
            half: isa.splat64(0.5f64.to_bits() - 1),
            how: Rounds::new(job),
            signed: to.signed,
            fills: to.fills,
            least8: isa.splat8(to.min as u8),
            most8: isa.splat8(to.max as u8),
            mask: isa.splat8(to.mask),
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &Clamp64<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        if BITS == 64 {
            return Bits::<BITS>::of64(isa, I::Integers::long::<S, SIGNED>(isa, k, src), k.mask);
        }
        I::Integers::int::<Bits<BITS>>(isa, k, S::f64(isa, src))
    }
}

/// From this number up to twice it, neighbouring float64 are 1 apart: a small integer that is added becomes the low bits of the sum.
const ULP_1: f64 = 4_503_599_627_370_496.0;
/// The middle of that range, for integers that may be negative.
const ULP_1_MIDDLE: f64 = 1.5 * ULP_1;

/// Rounds numbers to integers of 64 bits: signed ones from -2^51 to 2^51, unsigned ones up to 2^52.
#[inline(always)]
fn small_long<I: Simd, const SIGNED: bool>(isa: I, x: I::V) -> I::V {
    let ulp_1 = if SIGNED { ULP_1_MIDDLE } else { ULP_1 }.to_bits();
    isa.sub64(isa.add_f64(isa.round_f64(x), isa.splat64(ulp_1)), isa.splat64(ulp_1))
}

/// Converts a block by [`small_long`], if all of its numbers are small enough and none is NaN.
#[inline(always)]
fn small_longs<I: Simd, S: AsF64<I>, const SIGNED: bool>(isa: I, src: Input<I, S>) -> Option<[I::V; 8]> {
    let x = S::f64(isa, src);
    let zero = isa.splat64(0);
    let v =
        registers!(8, K => small_long::<I, SIGNED>(isa, if SIGNED { x[K] } else { isa.max_f64(x[K], zero) }));
    // For any other number, the sum has another exponent.
    let past = registers!(8, K => if SIGNED { isa.add64(v[K], isa.splat64(1 << 51)) } else { v[K] });
    let pairs = registers!(4, K => isa.or(past[2 * K], past[2 * K + 1]));
    let all = isa.or(isa.or(pairs[0], pairs[1]), isa.or(pairs[2], pairs[3]));
    let has_other = isa.count64(isa.gt64(isa.shr64::<52>(all), zero)) != 0;
    if has_other { None } else { Some(v) }
}

/// Converts a block to int32, if all of its numbers fit and none is NaN.
#[inline(always)]
fn fitting_int32<I: MarksBeyond, S: AsF32<I>, const SIGNED: bool>(
    isa: I,
    src: Input<I, S>,
) -> Option<[I::V; 4]> {
    let x = S::f32(isa, src);
    let zero = isa.splat32(0);
    let v = registers!(4, K => isa.f32_to_i32_or_min(if SIGNED { x[K] } else { isa.max_f32(x[K], zero) }));
    if has_minimum(isa, v) { None } else { Some(v) }
}

/// Whether some integer is the minimum of int32, which is what conversions make of numbers that do not fit, and of NaN.
#[inline(always)]
fn has_minimum<I: Simd>(isa: I, v: [I::V; 4]) -> bool {
    let least = isa.min_s32(isa.min_s32(v[0], v[1]), isa.min_s32(v[2], v[3]));
    isa.count32(isa.eq32(least, isa.splat32(SIGN))) != 0
}

/// From float64 to integers of 64 bits, wrapping: the low bits of the rounded value, which from 2^63 on are the shifted
/// mantissa. For NaN and Inf, the exponent shifts all of the mantissa out.
pub(in crate::kernels) struct ToWrapped;

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Wrapped<V> {
    half: V,
    how: Rounds,
}

impl<I: Simd> Codec<I> for ToWrapped {
    type From = F64;
    type To = Bits<64>;
    const FLOATS: bool = true;
    type Setup = Wrapped<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> Wrapped<I::V> {
        Wrapped { half: isa.splat64(0.5f64.to_bits() - 1), how: Rounds::new(job) }
    }

    #[inline(always)]
    fn block(isa: I, k: &Wrapped<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        const HIDDEN: u64 = 1 << 52;
        let x = src.block;
        registers!(8, K => {
            let x = number64(isa, x[K], k.half, k.how == Rounds::Away);
            let near = isa.f64_to_i64(if k.how.asks() { isa.asked_f64(x) } else { x });
            let magnitude = isa.and(x, isa.splat64(!SIGN64));
            let mantissa = isa.or(isa.and(x, isa.splat64(HIDDEN - 1)), isa.splat64(HIDDEN));
            let shift = isa.sub64(isa.shr64::<52>(magnitude), isa.splat64(1023 + 52));
            let far = isa.shl64v(mantissa, shift);
            let sign = isa.sign64(x);
            let far = isa.sub64(isa.xor(far, sign), sign);
            let is_far = isa.gt64(magnitude, isa.splat64(9_223_372_036_854_775_808f64.to_bits() - 1));
            isa.select64(is_far, far, near)
        })
    }
}

/// Sources that are integers.
pub(in crate::kernels) trait AsInteger: Source<Width: Code> {
    const SIGNED: bool;
}

macro_rules! as_integer {
    ($($source:ident $signed:literal)*) => {$(
        impl AsInteger for $source {
            const SIGNED: bool = $signed;
        }
    )*};
}
as_integer! { I8 true U8 false I16 true U16 false I32 true U32 false I64 true U64 false }

/// From integers and bool to integers: clamps to what source and target have in common, if the cast saturates, and then narrows or
/// widens.
pub(in crate::kernels) struct Integers<S, const BITS: usize>(PhantomData<S>);

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Range<V> {
    low: V,
    high: V,
    mask: V,
    /// Whether nothing is to be clamped.
    all: bool,
    /// Whether the target has a sign.
    signed: bool,
    /// Whether the target has 8, 16, 32 or 64 bits, and not fewer than it takes in memory.
    fills: bool,
    /// The upper limit of the target, in each lane of the target.
    most: V,
}

impl<I: Simd<Integers: ToIntegers<I>>, S: AsInteger, const BITS: usize> Codec<I> for Integers<S, BITS>
where
    Bits<BITS>: Code,
{
    type From = S;
    type To = Bits<BITS>;
    const FLOATS: bool = false;
    type Setup = Range<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> Range<I::V> {
        let to = &job.integer;
        Range {
            low: S::Width::splat(isa, to.low as u64),
            high: S::Width::splat(isa, to.high),
            mask: isa.splat8(to.mask),
            all: to.all,
            signed: to.signed,
            fills: to.fills,
            most: Bits::<BITS>::splat(isa, to.max),
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &Range<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        I::Integers::narrowed::<S, Self::To>(isa, k, src.block)
    }
}

/// Narrows or widens integers, clamped to the limits unless they are known to be within them.
#[inline(always)]
fn clamped<I: Simd, S: AsInteger, W: Code>(
    isa: I,
    k: &Range<I::V>,
    v: Block<I, S::Width>,
    is_within: bool,
) -> Block<I, W> {
    if S::SIGNED {
        let v = if is_within { v } else { within::<I, S::Width, true, true>(isa, v, [k.low, k.high]) };
        S::Width::to::<I, W, true>(isa, v, k.mask)
    } else {
        let v = if is_within { v } else { within::<I, S::Width, false, false>(isa, v, [k.low, k.high]) };
        S::Width::to::<I, W, false>(isa, v, k.mask)
    }
}

/// Clamps integers to a lower limit, compared as signed integers if `LOW`, and an upper limit, compared as signed integers if `HIGH`.
#[inline(always)]
fn within<I: Simd, W: Code, const LOW: bool, const HIGH: bool>(
    isa: I,
    v: Block<I, W>,
    [low, high]: [I::V; 2],
) -> Block<I, W> {
    W::at_most::<I, HIGH>(isa, W::at_least::<I, LOW>(isa, v, low), high)
}

/// From signed integers of at least 16 bits to unsigned ones of the same size, or the reverse.
pub(in crate::kernels) struct OtherSign<const BITS: usize>;

impl<I: Simd, const BITS: usize> Codec<I> for OtherSign<BITS>
where
    Bits<BITS>: Code,
{
    type From = Bits<BITS>;
    type To = Bits<BITS>;
    const FLOATS: bool = false;
    /// The lower limit, compared as signed integers, and the upper limit, compared as unsigned integers: in either direction,
    /// one of them changes nothing. None if the cast wraps.
    type Setup = Option<[I::V; 2]>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> Option<[I::V; 2]> {
        let (to, all) = (&job.integer, u64::MAX >> (64 - BITS));
        let limits = if to.signed { [!(all >> 1), all >> 1] } else { [0, all] };
        (!to.all).then(|| [Bits::<BITS>::splat(isa, limits[0]), Bits::<BITS>::splat(isa, limits[1])])
    }

    #[inline(always)]
    fn block(isa: I, limits: &Option<[I::V; 2]>, src: Input<I, Bits<BITS>>) -> Block<I, Bits<BITS>> {
        match *limits {
            Some(limits) => within::<I, Bits<BITS>, true, false>(isa, src.block, limits),
            None => src.block,
        }
    }
}

/// To bool: whether a bit is set, other than the sign of a float with −0.
pub(in crate::kernels) struct ToBool<S>(PhantomData<S>);

impl<I: Simd, S: Source<Width: Code>> Codec<I> for ToBool<S> {
    type From = S;
    type To = Bits<8>;
    const FLOATS: bool = false;
    type Setup = I::V;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> I::V {
        let sign = u32::from(matches!(job.from, Kind::Float(format) if format.has_neg_zero));
        S::Width::splat(isa, u64::MAX >> (64 - bits::<S>() as u32 + sign))
    }

    #[inline(always)]
    fn block(isa: I, bits: &I::V, src: Input<I, Self::From>) -> Block<I, Self::To> {
        S::Width::any(isa, src.block, *bits)
    }
}
