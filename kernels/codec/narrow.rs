//! To floats of 8 bits or fewer with mantissas. The two forms are those of [`super::float`].

use core::marker::PhantomData;

use super::super::once::Once;
use super::super::simd::{NarrowsByF16, NarrowsByNibbles, NarrowsByWords, Simd};
use super::float::{INF, SIGN, is_away};
use super::job::{Job, Table, Target};
use super::plane::{Fold, Plane};
use super::source::{AsBytes, AsF32, AsHalf, Bf16, F16, Half, Input};
use super::width::{Bits, Code, registers};
use super::{Block, Codec};
use crate::formats::dtype::{DTYPES, DType, FloatFormat};
use crate::formats::options::{NanToFinite, Policy, Rounding};
use crate::formats::route::Route;
use crate::kernels::scalar::{self, Value};

/// To a float of 8 bits or fewer, by adding a power of two whose ulp is the target's.
///
/// ```text
/// c = min(|x|, limit)               overflow is at most the code after the max; NaN the code of NaN
/// e = max(exponent of c, that of the smallest normal)
/// s = c + e * 2^(23 - m)            the adder shifts and rounds: once, as the control register says
/// code = s + (e - smallest normal) >> (23 - m)          as integers, of which the low byte counts
/// ```
/// (What was added is a power of two, which has nothing in the low byte.)
/// A code without its sign counts the values from zero up, past the max too, so a carry, a subnormal, an
/// overflow and a NaN need no case of their own: the NaN is the f32 whose code it is.
///
/// In the directed modes the operands of the adder have the sign of x. Where that sign truncates, a finite
/// overflow is the max.
pub(in crate::kernels) struct ToNarrow<S, F, const BITS: usize, const MODES: bool>(PhantomData<(S, F)>);

/// What a family of narrow formats has.
pub(in crate::kernels) trait Family {
    /// NaN. Where there is none, it becomes a number first.
    const NAN: bool;
    /// −0.
    const NEG_ZERO: bool;
    /// A sign. What is negative becomes 0 or NaN where there is none.
    const SIGN: bool = true;
}

pub(in crate::kernels) struct Signed;
pub(in crate::kernels) struct Fnuz;
pub(in crate::kernels) struct Finite;
pub(in crate::kernels) struct Unsigned;

impl Family for Signed {
    const NAN: bool = true;
    const NEG_ZERO: bool = true;
}

impl Family for Fnuz {
    const NAN: bool = true;
    const NEG_ZERO: bool = false;
}

impl Family for Finite {
    const NAN: bool = false;
    const NEG_ZERO: bool = true;
}

impl Family for Unsigned {
    const NAN: bool = true;
    const NEG_ZERO: bool = false;
    const SIGN: bool = false;
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Narrow<V> {
    /// The value that overflow counts as, and Inf.
    limit: V,
    /// The same for finite values of either sign.
    finite: [V; 2],
    /// The value whose code is NaN; without NaN, the value that it becomes.
    nan: V,
    /// Exponent of the smallest normal, in place.
    least: V,
    /// 23 - m, in place of an exponent.
    grow: V,
    /// 23 - m, as a shift count.
    drop: V,
    /// `least >> drop`, in each byte: what every code is too large by.
    base: V,
    /// The sign bit of the code, in each byte.
    sign: V,
    away: V,
    /// Where there is no sign, the value that what is below zero becomes.
    below: V,
}

impl<I: Simd, S: AsF32<I>, F: Family, const BITS: usize, const MODES: bool> Codec<I>
    for ToNarrow<S, F, BITS, MODES>
where
    Bits<BITS>: Code,
{
    type From = S;
    type To = Bits<BITS>;
    const FLOATS: bool = true;
    type Setup = Narrow<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> Narrow<I::V> {
        let (to, policy) = (&job.narrow, &job.policy);
        let (max, limit) = (to.max, to.overflow);
        // (Not by `map`, which need not be inlined.)
        let (positive, negative) = match policy.rounding {
            Rounding::TowardZero => (max, max),
            Rounding::Up => (limit, max),
            Rounding::Down => (max, limit),
            _ => (limit, limit),
        };
        let nan = match policy.nan_to_finite {
            _ if F::NAN => to.value_of(to.nan),
            NanToFinite::NegZero => SIGN,
            NanToFinite::Max => to.value_of(max),
            NanToFinite::Zero => 0,
        };
        let least = ((to.least + 127) as u32) << 23;
        let drop = 23 - to.mantissa_bits;
        Narrow {
            limit: isa.splat32(to.value_of(limit)),
            finite: [isa.splat32(to.value_of(positive)), isa.splat32(to.value_of(negative))],
            nan: isa.splat32(nan),
            least: isa.splat32(least),
            grow: isa.splat32(drop << 23),
            drop: isa.splat32(drop),
            base: isa.splat8((least >> drop) as u8),
            sign: isa.splat8(to.sign),
            away: isa.splat32(is_away(policy).into()),
            below: isa.splat32(if policy.saturate { 0 } else { u32::MAX }),
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &Narrow<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let mut x = S::f32(isa, src);
        if !F::NAN {
            x = registers!(4, K => {
                let nan = isa.gt32(isa.and(x[K], isa.splat32(!SIGN)), isa.splat32(INF));
                isa.select32(nan, k.nan, x[K])
            });
        }
        if !F::SIGN {
            // As integers, the numbers from −0 to −Inf are the least.
            x = registers!(4, K => {
                let below = isa.select32(isa.eq32(x[K], isa.splat32(SIGN)), isa.splat32(0), k.below);
                isa.select32(isa.gt32(isa.splat32(SIGN | (INF + 1)), x[K]), below, x[K])
            });
        }
        let codes = registers!(4, K => narrow::<I, F, MODES>(isa, k, x[K]));
        let code = isa.sub8(isa.lowest32(codes), k.base);
        if !F::SIGN {
            return Bits::<BITS>::of8::<I, false>(isa, code);
        }
        Bits::<BITS>::of8::<I, false>(isa, signed::<I, F>(isa, code, isa.signs32(x), k.sign))
    }
}

/// To a float of 8 bits with NaN, to nearest even, from 16 bits, in their lanes: what is not for [`ToNarrowByBytes`].
///
/// ```text
/// c = min(|x|, limit)                                   as codes; a NaN is found in |x|
/// normal = c - base                                     counts the numbers from zero up, in ulps of c
/// subnormal = significand of c >> by how much its exponent is too small
/// code = the larger one, rounded to nearest even        shifted to the left, it is the high byte
/// ```
/// * 8 bits are two more than those of the target, of 5 at most, rounded to odd where there were more.
/// * Of a normal c the shift is 0, and its significand no more than its count. Of a smaller one, the count is 0 or
///   below the significand: half of that is more than the mantissa where the exponent is one too small.
/// * The code is m + 1 of the 8 bits away from the low byte. The shift loses bits of a subnormal only where it is
///   more than that: then it is less than one half of the smallest one, and becomes 0 without them.
/// * A subnormal of the source is read as if it had the bit that it lacks. It is less than half of the smallest one
///   in any case: that is why float8_e5m2 and float8_e5m2fnuz are not for float16.
/// * Where there is no sign, what is below zero becomes 0 or a NaN first, and its NaN one without a sign.
pub(in crate::kernels) struct ToNarrowByHalf<S, F>(PhantomData<(S, F)>);

/// Can that make this format from those floats? It shifts to the left alone.
pub(in crate::kernels) fn goes_by_half<I: Simd, S: AsHalf<I>>(format: FloatFormat) -> bool {
    format.has_nan
        && (S::FORMAT.exponent_bits == 8 || format.min_exponent() - format.mantissa_bits as i32 > -14)
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByHalf<V> {
    /// What overflow counts as.
    limit: V,
    /// What is taken off a normal number's code.
    base: V,
    /// Exponent of the smallest normal.
    least: V,
    /// The lowest bit of an exponent, which a significand has.
    implicit: V,
    /// Of the mantissa.
    mantissa: V,
    exponent_at: V,
    /// From the last bit of the code to the high byte.
    left: V,
    inf: V,
    /// The code of NaN, as a high byte.
    nan: V,
    /// The sign bit of the code, in each byte.
    sign: V,
    /// Where there is no sign, what is below zero becomes.
    below: V,
}

impl<I: NarrowsByWords, S: AsHalf<I>, F: Family> Codec<I> for ToNarrowByHalf<S, F> {
    type From = S;
    type To = Bits<8>;
    const FLOATS: bool = false;
    type Setup = ByHalf<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> ByHalf<I::V> {
        let to = &job.narrow;
        let mantissa = S::MANTISSA;
        let drop = mantissa.saturating_sub(to.mantissa_bits);
        let least = (to.least + S::BIAS) as u16;
        let base = least.wrapping_sub(1) << mantissa;
        ByHalf {
            limit: isa.splat16((u16::from(to.overflow) << drop).wrapping_add(base)),
            base: isa.splat16(base),
            least: isa.splat16(least),
            implicit: isa.splat16(1 << mantissa),
            mantissa: isa.splat16((1 << mantissa) - 1),
            exponent_at: isa.splat16(mantissa as u16),
            left: isa.splat16(8u16.saturating_sub(drop as u16)),
            inf: isa.splat16(S::INF),
            nan: isa.splat16(u16::from(to.nan) << 8),
            sign: isa.splat8(to.sign),
            below: isa.splat16(if job.policy.saturate { 0 } else { 0x7FFF }),
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &ByHalf<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let mut x = S::half(isa, src.block);
        if !F::SIGN {
            let (sign, nan) = (isa.splat16(0x8000), isa.splat16(0x7FFF));
            x = registers!(2, K => {
                let below = isa.select_above16(x[K], sign, k.below, x[K]);
                isa.select_above16(x[K], isa.or(k.inf, sign), nan, below)
            });
        }
        let codes = registers!(2, K => {
            let a = isa.and(x[K], isa.splat16(0x7FFF));
            let c = isa.min_u16(a, k.limit);
            let normal = isa.shl16v(isa.sub_u16(c, k.base), k.left);
            let significand = isa.or(isa.and(c, k.mantissa), k.implicit);
            let missing = isa.sub_u16(k.least, isa.shr16v(c, k.exponent_at));
            let subnormal = isa.shr16v(isa.shl16v(significand, k.left), missing);
            isa.select_above16(a, k.inf, k.nan, isa.max_u16(normal, subnormal))
        });
        let code = isa.nearest_high16(codes);
        if F::SIGN { signed::<I, F>(isa, code, isa.signs16(x), k.sign) } else { code }
    }
}

/// From 16 bits to a float of 8 bits with NaN and a mantissa of 3 bits or fewer, to nearest even, in lanes of 8 bits: there are twice
/// as many of those. (From float32 it would be fewer operations, too, but more of those that only one port has.)
///
/// ```text
/// e, m = exponent and 7 bits of mantissa, rounded to odd; an exponent out of the range of the tables counts as the nearest in it
/// p = m as 5 bits, rounded to odd
/// code = bases[e] + steps[p and rows[e]]
/// ```
/// * `bases` has the codes of powers of two, and `steps` how many codes further a mantissa is, in four parts of 32. Of a row the
///   high bits choose the part, and the low ones say which bits of p count.
/// * p has two bits more than the target, of 3 at most. All normal numbers take the same steps, because their bases are even, and the
///   subnormals whose mantissas have 2 bits and 1 bit others.
/// * The first part has the step of half of the smallest subnormal: whatever is more than that half is one code further. The smallest
///   subnormal takes it by the first bit of p alone: what is one and a half of it or more is one code further, too. Of what becomes 0
///   or overflows no bit counts.
/// * The base behind the last exponent has a top bit: only then can there be a NaN. What overflow becomes is the largest code but NaN's.
/// * A subnormal of the source is less than half of the smallest one of the target: that is why float8_e5m2 and float8_e5m2fnuz are
///   not for float16.
pub(in crate::kernels) struct ToNarrowByBytes<S, F>(PhantomData<(S, F)>);

/// Is it the codec of a route, where there is one?
pub(in crate::kernels) fn goes_by_bytes(route: &Route) -> bool {
    let Some(to) = route.to.float_format() else { return false };
    let reaches = match route.from {
        DType::BF16 => true,
        DType::F16 => to.min_exponent() - to.mantissa_bits as i32 > -14,
        _ => false,
    };
    let is_meant = to.has_nan && to.has_sign && to.mantissa_bits <= 3;
    reaches && is_meant && route.policy.rounding == Rounding::NearestEven
}

/// Mantissas of 7 bits as 5 bits, rounded to odd; with all bits above them.
static PIECES: [[[u8; 16]; 4]; 2] = {
    let mut all = [[[0; 16]; 4]; 2];
    let mut m = 0;
    while m < 128 {
        all[m / 64][m / 16 % 4][m % 16] = 0xE0 | (m as u8 >> 3 << 1) | (m & 7 != 0) as u8;
        m += 1;
    }
    all
};

/// Exponents that the tables of a target have: the first, of what becomes 0, and the last, of what overflows.
fn exponents(to: &Target, bias: i32) -> [u8; 2] {
    let [half, end] = to.exponents();
    [half - 1, end].map(|exponent| (exponent + bias) as u8)
}

/// Steps, rows and bases, made once in a process. None if there is no memory for that.
#[inline(never)] // Its room is not that of every step that is found.
pub(in crate::kernels) fn bytes(from: DType, to: DType) -> Option<Table> {
    static TABLES: [[Once<Plane>; DTYPES]; 2] = [const { [const { Once::new() }; DTYPES] }; 2];
    let is_half = from == DType::F16;
    let target = Target::new(to.kind(), &Policy::DEFAULT);
    let [first, last] = exponents(&target, if is_half { F16::BIAS } else { Bf16::BIAS });
    let code = |exponent: u8, mantissa: u64| {
        let exponent = u64::from(exponent) + if is_half { (Bf16::BIAS - F16::BIAS) as u64 } else { 0 };
        let value = scalar::decode(DType::BF16, exponent << 7 | mantissa);
        scalar::encode(to, value, &Policy::DEFAULT) as u8
    };
    let table = TABLES[usize::from(is_half)][to as usize].get_or_make_in(|place| {
        let mut all = [0; 256];
        let (steps, rest) = all.split_at_mut(128);
        let (rows, bases) = rest.split_at_mut(64);
        // The parts: of half of the smallest subnormal, of subnormals of 1 and 2 bits, and of normal numbers.
        for (part, above) in [1, 3, 4, 5].into_iter().enumerate() {
            let exponent = first + above;
            for p in 0..32 {
                let further = code(exponent, (p as u64 >> 1 << 3) | (p as u64 & 1)) - code(exponent, 0);
                // What is subtracted: there is no other operation of bytes.
                steps[32 * part + p] = further.wrapping_neg();
            }
        }
        for exponent in first..=last {
            let at = usize::from(exponent % 64);
            bases[at] = if exponent == last { 0xFF } else { code(exponent, 0) };
            rows[at] = match exponent - first {
                _ if exponent == last => 0,
                0 => 0,
                1 => 0x1F,
                2 => 0x10,
                above => 0x1F | (above - 2).min(target.mantissa_bits as u8) << 5,
            };
        }
        Some(Plane::of_bytes(place, &all))
    });
    table.map(Table::of_bytes)
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByBytes<V> {
    pieces: [V; 2],
    steps: [V; 2],
    rows: V,
    bases: V,
    first: V,
    last: V,
    /// What overflow becomes.
    limit: V,
    nan: V,
    /// The sign bit of the code, in each byte.
    sign: V,
}

impl<I: NarrowsByWords, S: AsBytes<I>, F: Family> Codec<I> for ToNarrowByBytes<S, F> {
    type From = S;
    type To = Bits<8>;
    const FLOATS: bool = false;
    type Setup = ByBytes<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> ByBytes<I::V> {
        let to = &job.narrow;
        let [first, last] = exponents(to, S::BIAS);
        // The table is that of the target: `narrow::bytes` made it for this job.
        let [low, high, rows, bases] = &job.table.planes[0].elements;
        ByBytes {
            pieces: [isa.row_of(&PIECES[0]), isa.row_of(&PIECES[1])],
            steps: [isa.row_of(low), isa.row_of(high)],
            rows: isa.row_of(rows),
            bases: isa.row_of(bases),
            first: isa.splat8(first),
            last: isa.splat8(last),
            limit: isa.splat8(to.overflow),
            nan: isa.splat8(to.nan),
            sign: isa.splat8(to.sign),
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &ByBytes<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let [exponent, mantissa, top] = S::bytes(isa, src);
        let e = isa.min_u8(isa.max_u8(exponent, k.first), k.last);
        let p = isa.and(isa.lookup_two(k.pieces, mantissa), isa.lookup_one(k.rows, e));
        let base = isa.lookup_one(k.bases, e);
        let mut code = isa.min_u8(isa.sub8(base, isa.lookup_two(k.steps, p)), k.limit);
        if isa.top_bits(base) != 0 {
            let mantissa = isa.and(mantissa, isa.splat8(0x7F));
            let is_nan = isa.select_above8(exponent, isa.splat8(2 * S::BIAS as u8), mantissa, isa.splat8(0));
            code = isa.select_above8(is_nan, isa.splat8(0), k.nan, code);
        }
        signed::<I, F>(isa, code, top, k.sign)
    }
}

/// To a float of 6 bits or fewer, to nearest even, from 16 bits, by a table of the few numbers that differ for it. (From
/// wider ones it takes as long to come to 16 bits as there is to gain.)
///
/// ```text
/// a = |x|                       as a code without its sign; a NaN is another number first
/// r = min(a - least, most)      or 0, where that would be negative: with it everything that becomes 0
/// key = r << left               its high byte, rounded to odd
/// code = table[key]             from the scalar reference
/// ```
/// * `least` is half of the smallest subnormal, which becomes 0 itself, and `most` the power of two behind the max.
/// * m + 2 bits of the mantissa are in the high byte, two more than the target has, and above them the exponent. Of those
///   there are no more than 5 with 3 such bits, 10 with 4, and 7 with 5.
pub(in crate::kernels) struct ToNarrowByTable<const BITS: usize>;

/// Is it the codec of a route, where there is one?
pub(in crate::kernels) fn goes_by_table(route: &Route) -> bool {
    matches!(route.from, DType::F16 | DType::BF16)
        && route.to.float_format().is_some_and(|format| !format.has_nan)
        && route.policy.rounding == Rounding::NearestEven
}

/// The code of every key, made once in a process. None if there is no memory for that.
pub(in crate::kernels) fn table(to: DType) -> Option<Table> {
    static CODES: [Once<Plane>; 3] = [const { Once::new() }; 3];
    let target = Target::new(to.kind(), &Policy::DEFAULT);
    let mantissa = target.mantissa_bits;
    let codes = CODES[mantissa as usize - 1].get_or_make_in(|place| {
        let least = (target.exponents()[0] + 127) as u64;
        let codes = core::array::from_fn(|key| {
            let value = scalar::decode(DType::F32, (least << 23) + ((key as u64) << (21 - mantissa)));
            scalar::encode(to, value, &Policy::DEFAULT) as u8
        });
        Some(Plane::of_bytes(place, &codes))
    });
    codes.map(Table::of_bytes)
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByTable<I: Simd> {
    plane: I::Plane,
    /// Inf, without the bit of the sign, which is shifted out.
    inf: I::V,
    /// The number that a NaN becomes.
    nan: I::V,
    least: I::V,
    most: I::V,
    left: I::V,
    /// The sign bit of the code, in each byte.
    sign: I::V,
}

impl<I: NarrowsByWords, const BITS: usize> Codec<I> for ToNarrowByTable<BITS>
where
    Bits<BITS>: Code,
{
    type From = Bits<16>;
    type To = Bits<BITS>;
    const FLOATS: bool = false;
    type Setup = ByTable<I>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> ByTable<I> {
        let to = &job.narrow;
        // Their codes alone say which floats they are.
        let (mantissa, bias, inf) = if job.from == DType::BF16.kind() {
            (Bf16::MANTISSA, Bf16::BIAS, Bf16::INF)
        } else {
            (F16::MANTISSA, F16::BIAS, F16::INF)
        };
        let [least, end] = to.exponents();
        let nan = match job.policy.nan_to_finite {
            NanToFinite::NegZero => 1 << 15,
            NanToFinite::Max => inf,
            NanToFinite::Zero => 0,
        };
        ByTable {
            // The table is that of the target: `narrow::table` made it for this job.
            plane: isa.plane(job.table.planes[0]),
            inf: isa.splat16(2 * inf),
            nan: isa.splat16(nan),
            least: isa.splat16(((least + bias) as u16) << (mantissa + 1)),
            most: isa.splat16(((end - least) as u16) << (mantissa + 1)),
            left: isa.splat16((to.mantissa_bits + 9).saturating_sub(mantissa) as u16),
            sign: isa.splat8(to.sign),
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &ByTable<I>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let x = src.block;
        let x = registers!(2, K => isa.select_above16(isa.add16(x[K], x[K]), k.inf, k.nan, x[K]));
        let key = isa.odd_high16(registers!(2, K => {
            let r = isa.sub_u16(isa.add16(x[K], x[K]), k.least);
            isa.shl16v(isa.min_u16(r, k.most), k.left)
        }));
        // Those of the smallest format are few.
        let code = match BITS {
            4 => isa.lookup64(k.plane, key),
            _ => isa.lookup256(k.plane, Fold::None, key),
        };
        Bits::<BITS>::of8::<I, false>(isa, signed::<I, Finite>(isa, code, isa.signs16(x), k.sign))
    }
}

/// From integers of 16 bits to floats of 8 bits with a sign, to nearest even, in lanes of 16 bits and by a table.
///
/// ```text
/// left = 8, less, or 0              the most by which |x| can be shifted: those three are tried
/// key = |x| << left                 its high byte, rounded to odd
/// code = table[key] - (left << m)   a code grows by 2^m where its number is doubled; the table has 8 << m more
/// ```
/// * Every format has 1 and all powers of two from there up as normal numbers, so that is so of every integer but 0, whose key has the 8.
/// * A key that is not exact has m + 3 bits or more, two more than the target: `less` is 4 up to a mantissa of 2 bits, and 5 above, where what
///   is not shifted, with as few as 4 bits, is 2^11 or more, which overflows.
/// * Past the max, the table and the codes go on, up to what overflow becomes.
pub(in crate::kernels) struct ShortToNarrow;

/// By how much those are shifted that fill no byte, to this mantissa.
const fn less(mantissa: u32) -> u32 {
    if mantissa <= 2 { 4 } else { 5 }
}

/// Is it the codec of a route, where there is one?
pub(in crate::kernels) fn goes_as_short(route: &Route) -> bool {
    let Some(to) = route.to.float_format().filter(|to| to.has_sign && to.bits() == 8) else { return false };
    // The power of two after the max. What ends early is made faster of the nearest integer of 8 bits.
    let end = (to.max_code() >> to.mantissa_bits) as i32 - to.bias + 1;
    let is_meant = to.min_exponent() <= 0 && end > 6 && (to.mantissa_bits <= 2 || end <= 11);
    let is_short = matches!(route.from, DType::I16 | DType::U16);
    is_short && is_meant && route.policy.rounding == Rounding::NearestEven
}

/// The code of every key, and 8 << m, made once in a process. None if there is no memory for that.
pub(in crate::kernels) fn codes_of_shorts(to: DType) -> Option<Table> {
    static CODES: [Once<Plane>; DTYPES] = [const { Once::new() }; DTYPES];
    let codes = CODES[to as usize].get_or_make_in(|place| {
        let mantissa = Target::new(to.kind(), &Policy::DEFAULT).mantissa_bits;
        let policy = Policy { saturate: false, ..Policy::DEFAULT };
        let codes = core::array::from_fn(|key| {
            scalar::encode(to, Value::exact(false, key as u64, 0), &policy) as u8 + (8 << mantissa)
        });
        Some(Plane::of_bytes(place, &codes))
    });
    codes.map(Table::of_bytes)
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByKey<I: Simd> {
    plane: I::Plane,
    /// All ones if the source has no sign: nothing is negative then.
    positive: I::V,
    less: I::V,
    /// The most that is shifted by `less`.
    most: I::V,
    mantissa: I::V,
    /// What overflow becomes.
    limit: I::V,
    /// The sign bit of the code, in each byte; none if the source has no sign.
    sign: I::V,
}

impl<I: NarrowsByWords> Codec<I> for ShortToNarrow {
    type From = Bits<16>;
    type To = Bits<8>;
    const FLOATS: bool = false;
    type Setup = ByKey<I>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> ByKey<I> {
        let to = &job.narrow;
        let less = less(to.mantissa_bits);
        let has_sign = job.from == DType::I16.kind();
        ByKey {
            // The table is that of the target: `codes_of_shorts` made it for this job.
            plane: isa.plane(job.table.planes[0]),
            positive: isa.splat16(if has_sign { 0 } else { u16::MAX }),
            less: isa.splat16(less as u16),
            most: isa.splat16((1 << (16 - less)) - 1),
            mantissa: isa.splat16(to.mantissa_bits as u16),
            limit: isa.splat8(to.overflow),
            sign: isa.splat8(if has_sign { to.sign } else { 0 }),
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &ByKey<I>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let x = src.block;
        // Of a number and its negative, the magnitude is less without a sign.
        let a = registers!(2, K => {
            isa.min_u16(x[K], isa.or(isa.sub16(isa.splat16(0), x[K]), k.positive))
        });
        let left = registers!(2, K => {
            let left = isa.select_above16(a[K], isa.splat16(0xFF), k.less, isa.splat16(8));
            isa.select_above16(a[K], k.most, isa.splat16(0), left)
        });
        let key = isa.odd_high16(registers!(2, K => isa.shl16v(a[K], left[K])));
        let code = isa.lookup256(k.plane, Fold::None, key);
        let code = isa.min_u8(isa.sub8(code, isa.shl16v(isa.low16(left), k.mantissa)), k.limit);
        // (No integer but 0 becomes 0, so that no code is -0. Of one, the NaN of overflow has the sign.)
        isa.or(code, isa.and(isa.signs16(x), k.sign))
    }
}

/// To a float of 8 bits or fewer with a mantissa of `M` bits, 3 at most, to nearest even, from 16 bits, in lanes of 8 bits and by
/// rows of 16 bytes.
///
/// ```text
/// kept = |x| >> (mantissa of x - M) less that of half of the smallest subnormal, plus 1; all below is 0
/// l = the 4 bits behind those, rounded to odd
/// small = (row[kept] + l) >> 4
/// normal = kept - less + (l is more than a half, or a half behind an odd code)
/// code = min(max(small, normal), limit)
/// ```
/// * `kept` counts what the codes do, M bits of mantissa to an exponent, but goes on below the smallest normal, where the codes have
///   fewer bits of it. It is the code there and a constant more.
/// * `row` has, for each `kept` of subnormals and the first normals, the code 16 times, and as much as l needs to carry into it. It is
///   the same for all formats with such a mantissa.
/// * What is behind the rows finds some element of them, all of which are smaller than its normal. The smallest mantissa has but few
///   numbers, all in a row.
/// * A subnormal of the source is less than half of the smallest one of the target: that is why float8_e5m2 is not for float16.
pub(in crate::kernels) struct ToNarrowByNibbles<S, F, const BITS: usize, const M: u32>(PhantomData<(S, F)>);

/// Can that make this format, of 8 bits, from those floats, float16 or bfloat16?
pub(in crate::kernels) fn goes_by_nibbles(from: DType, format: FloatFormat) -> bool {
    match format.mantissa_bits {
        2 => from == DType::BF16,
        3 => format.has_sign && (from == DType::BF16 || format.min_exponent() - 3 > -14),
        _ => false,
    }
}

/// The rows of a mantissa of M bits, from the `kept` on that is 1.
const fn rows(mantissa: u32) -> [[u8; 16]; 2] {
    let mut rows = [[0; 16]; 2];
    let mut at = 0;
    while at < if mantissa == 3 { 32 } else { 16 } {
        let (exponent, digits) = (at >> mantissa, (1 << mantissa) + at % (1 << mantissa));
        // Subnormals lose bits, that of the least exponent all but its first one, which is a half; above them, codes go on.
        let (lost, first) = if exponent <= mantissa {
            (mantissa + 1 - exponent, 0)
        } else {
            (0, (exponent - mantissa - 1) << mantissa)
        };
        let (mut code, mut carries, mut l) = (0, 0, 0);
        while l < 16 {
            let exact = digits << 4 | l;
            let cut = exact >> (4 + lost);
            let rest = exact - (cut << (4 + lost));
            let half = 1 << (3 + lost);
            let rounded = first + cut + (rest > half || rest == half && cut % 2 == 1) as u32;
            if l == 0 {
                code = rounded;
            }
            carries += rounded - code;
            l += 1;
        }
        rows[at as usize / 16][at as usize % 16] = (code << 4 | carries) as u8;
        at += 1;
    }
    rows
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByNibbles<V> {
    rows: [V; 2],
    base: V,
    inf: V,
    /// What overflow becomes.
    limit: V,
    nan: V,
    /// The sign bit of the code, in each byte.
    sign: V,
}

impl<I: NarrowsByNibbles, S: AsHalf<I>, F: Family, const BITS: usize, const M: u32> Codec<I>
    for ToNarrowByNibbles<S, F, BITS, M>
where
    Bits<BITS>: Code,
{
    type From = S;
    type To = Bits<BITS>;
    const FLOATS: bool = false;
    type Setup = ByNibbles<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> ByNibbles<I::V> {
        let to = &job.narrow;
        let nan = match job.policy.nan_to_finite {
            _ if F::NAN => to.nan,
            NanToFinite::NegZero => to.sign,
            NanToFinite::Max => to.max,
            NanToFinite::Zero => 0,
        };
        let rows = const { &rows(M) };
        ByNibbles {
            rows: [isa.row(&rows[0]), isa.row(&rows[1])],
            base: isa.splat16((((to.exponents()[0] + S::BIAS) << M) - 1) as u16),
            inf: isa.splat16(S::INF),
            limit: isa.splat8(to.overflow),
            nan: isa.splat8(nan),
            sign: isa.splat8(to.sign),
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &ByNibbles<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let x = src.block;
        let behind = S::MANTISSA - M;
        let a = registers!(2, K => isa.and(x[K], isa.splat16(0x7FFF)));
        let kept = isa.zipped_u8(registers!(2, K => isa.sub16(cut16(isa, a[K], behind), k.base)));
        let rest = isa.zipped_low8(registers!(2, K => {
            let rest = isa.and(x[K], isa.splat16((1 << behind) - 1));
            // Of 9 bits the last one is odd, too.
            if behind > 8 { isa.or(isa.shr16::<1>(rest), isa.and(rest, isa.splat16(1))) } else { rest }
        }));
        let l = odd_nibble(isa, rest, if behind > 8 { 8 } else { behind });
        let is_nan = isa.zipped_masks(registers!(2, K => isa.gt16(a[K], k.inf)));
        let top = isa.zipped_signs(x);

        let at = isa.sub8(if M == 1 { isa.min_u8(kept, isa.splat8(16)) } else { kept }, isa.splat8(1));
        let row = if M == 3 { isa.lookup_rows(k.rows, at) } else { isa.lookup_pieces(k.rows[0], at) };
        let carried = isa.sub8(row, isa.sub8(isa.splat8(0), l));
        let mut code = isa.and(isa.shr16::<4>(carried), isa.splat8(0x0F));
        if M > 1 {
            // (There is no sum of bytes, only a difference.) Where `kept` is even, the code is odd.
            let is_even = isa.and(kept, isa.splat8(1));
            let stays = isa.where_gt8(isa.splat8(8), isa.sub8(l, is_even), isa.splat8(0xFF));
            let less = isa.sub8(isa.splat8((M << M) as u8), stays);
            code = isa.max_u8(code, isa.sub_u8(kept, less));
        }
        code = isa.min_u8(code, k.limit);
        if F::NAN {
            code = isa.select8(is_nan, k.nan, code);
        }
        code = match BITS {
            8 => signed::<I, F>(isa, code, top, k.sign),
            6 => isa.put(k.sign, isa.shr16::<2>(top), code),
            _ => isa.put(k.sign, isa.shr16::<4>(top), code),
        };
        if !F::NAN {
            code = isa.select8(is_nan, k.nan, code);
        }
        Bits::<BITS>::of8::<I, false>(isa, isa.unzipped8(code))
    }
}

/// Lanes of 16 bits without so many of their low bits.
#[inline(always)]
fn cut16<I: Simd>(isa: I, a: I::V, bits: u32) -> I::V {
    match bits {
        1 => isa.shr16::<1>(a),
        2 => isa.shr16::<2>(a),
        3 => isa.shr16::<3>(a),
        4 => isa.shr16::<4>(a),
        5 => isa.shr16::<5>(a),
        6 => isa.shr16::<6>(a),
        7 => isa.shr16::<7>(a),
        8 => isa.shr16::<8>(a),
        _ => isa.shr16::<9>(a),
    }
}

/// Bytes of so many bits, 4 to 8, as 4 bits, rounded to odd.
#[inline(always)]
fn odd_nibble<I: Simd>(isa: I, rest: I::V, bits: u32) -> I::V {
    if bits == 4 {
        return rest;
    }
    let (odd, low) = (1u8 << (bits - 4), (1u8 << (bits - 4)) - 1);
    // A sum carries into the odd bit, unless that is 1 anyway.
    let sticky = isa.and(isa.sub8(rest, isa.splat8(low.wrapping_neg())), isa.splat8(odd));
    isa.and(cut16(isa, isa.or(rest, sticky), bits - 4), isa.splat8(0x0F))
}

/// To a float of 8 bits or fewer, to nearest even, by the float16 whose exponent is the code's.
///
/// ```text
/// y = x * 2^s                   the smallest normals are the same then: so are all the exponents
/// y |= 2^d, if any bit below it was cut off     rounded to odd, with d bits fewer than a float32
/// h = y as float16, cut         the code of y, but for bits that it has too many
/// code = h rounded to nearest even              at the bit behind the mantissa
/// ```
/// * The multiplication is exact, or the result rounds to zero.
/// * Odd with K = 24 - d bits, m + 3 <= K <= 10 - m. That is two more than the target has of a normal number. Of a
///   subnormal float16, which has bits down to 2^-24, the last of K bits is there from one half of the smallest subnormal
///   of the target on, 2^(-15 - m); below, all become 0.
/// * What the float16 has below the odd bit does not count, so that cutting it there changes nothing.
/// * Overflow is cut to the largest float16, which lies beyond every target; NaN stays above Inf.
///
/// `M` is the target's m. It `SCALES` where s is not 0: where the smallest normal of the target is not float16's.
pub(in crate::kernels) struct ToNarrowByF16<S, F, const BITS: usize, const M: u32, const SCALES: bool>(
    PhantomData<(S, F)>,
);

/// Can that make this format? Mantissas of 4 bits leave no K, and float8_e5m2fnuz has numbers where float16 has Inf.
pub(in crate::kernels) fn goes_by_f16(format: FloatFormat) -> bool {
    format.mantissa_bits <= 3 && format.exponent_bits < 5 + u32::from(format.has_inf)
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByF16<V> {
    scale: V,
    odd: V,
    below: V,
    /// What overflow and Inf count as.
    limit: V,
    /// The code of NaN; without NaN, the float16 that it becomes.
    nan: V,
    /// The sign bit of the code, in each byte.
    sign: V,
}

impl<I: NarrowsByF16, S: AsF32<I>, F: Family, const BITS: usize, const M: u32, const SCALES: bool> Codec<I>
    for ToNarrowByF16<S, F, BITS, M, SCALES>
where
    Bits<BITS>: Code,
{
    type From = S;
    type To = Bits<BITS>;
    const FLOATS: bool = true;
    // A product below 2^-126 lies far below 2^-25, which no float16 rounds up from.
    const FLUSHES: bool = SCALES;
    type Setup = ByF16<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> ByF16<I::V> {
        let to = &job.narrow;
        let scale = ((127 - 14 - to.least) as u32) << 23;
        let odd = 1u32 << (24 - (10 - M).min(8));
        let nan = match job.policy.nan_to_finite {
            NanToFinite::NegZero => 1 << 15,
            NanToFinite::Max => u16::from(to.max) << (10 - M),
            NanToFinite::Zero => 0,
        };
        ByF16 {
            scale: isa.splat32(scale),
            odd: isa.splat32(odd),
            below: isa.splat32(odd - 1),
            limit: isa.splat8(to.overflow),
            nan: if F::NAN { isa.splat8(to.nan) } else { isa.splat16(nan) },
            sign: isa.splat8(to.sign),
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &ByF16<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let x = S::f32(isa, src);
        let y = registers!(4, K => {
            let y = if SCALES { isa.mul_f32(x[K], k.scale) } else { x[K] };
            isa.or(y, isa.and(isa.add32(y, k.below), k.odd))
        });
        let mut h = registers!(2, K => isa.f32_to_cut_f16([y[2 * K], y[2 * K + 1]]));
        let number = isa.splat16(0x7FFF);
        if !F::NAN {
            h = registers!(2, K => isa.select_above16(isa.and(h[K], number), isa.splat16(0x7C00), k.nan, h[K]));
        }
        // The last bit of the code is that of the high byte.
        let codes = registers!(2, K => match M {
            3 => isa.add16(h[K], h[K]),
            2 => isa.and(h[K], number),
            _ => isa.shr16::<1>(isa.and(h[K], number)),
        });
        let code = isa.nearest_high16(codes);
        let mut limited = isa.min_u8(code, k.limit);
        if F::NAN {
            // Between the codes of Inf and of a quiet NaN.
            let above = 0x7Du8 << (M - 2);
            limited = isa.select_above8(code, isa.splat8(above), k.nan, limited);
        }
        Bits::<BITS>::of8::<I, false>(isa, signed::<I, F>(isa, limited, isa.signs16(h), k.sign))
    }
}

/// A code with the sign that is the top bit of `top`.
#[inline(always)]
fn signed<I: Simd, F: Family>(isa: I, code: I::V, top: I::V, sign: I::V) -> I::V {
    if !F::NAN {
        // Its place in a code of fewer than 8 bits, all of which have −0.
        isa.put(sign, sign_of_finite(isa, top, sign), code)
    } else if F::NEG_ZERO {
        isa.put(sign, top, code)
    } else {
        isa.or(code, isa.zero_where_zero8(code, isa.and(top, sign)))
    }
}

/// From float16 to float8_e5m2, to nearest even: the high byte.
pub(in crate::kernels) struct F16ToE5m2;

impl<I: NarrowsByF16> Codec<I> for F16ToE5m2 {
    type From = F16;
    type To = Bits<8>;
    const FLOATS: bool = false;
    type Setup = I::V;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> I::V {
        isa.splat16(u16::from(job.narrow.overflow) << 8)
    }

    #[inline(always)]
    fn block(isa: I, &limit: &I::V, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let x = src.block;
        let codes = registers!(2, K => {
            let a = isa.and(x[K], isa.splat16(0x7FFF));
            isa.select_above16(a, isa.splat16(0x7C00), isa.splat16(0x7E00), isa.min_u16(a, limit))
        });
        let code = isa.nearest_high16(codes);
        signed::<I, Signed>(isa, code, isa.signs16(x), isa.splat8(0x80))
    }
}

/// The top bit of each byte, moved to where the sign of a 6- or 4-bit code is (`sign` has that bit).
#[inline(always)]
fn sign_of_finite<I: Simd>(isa: I, top: I::V, sign: I::V) -> I::V {
    // Bits that come from the neighbouring byte are masked by the caller.
    let six = isa.shr16::<2>(top);
    let four = isa.shr16::<4>(top);
    let is_six = isa.eq32(sign, isa.splat32(0x2020_2020));
    isa.select32(is_six, six, four)
}

/// The code of each lane, without sign and too large by the base.
#[inline(always)]
fn narrow<I: Simd, F: Family, const MODES: bool>(isa: I, k: &Narrow<I::V>, x: I::V) -> I::V {
    let (sign, inf) = (isa.splat32(SIGN), isa.splat32(INF));
    let a = isa.abs_f32(x);
    let mut c = isa.min_or_nan_f32(k.limit, a);
    let mut s = sign;
    if MODES {
        s = isa.and(x, sign);
        let negative = isa.eq32(s, sign);
        let finite = isa.min_u32(a, isa.select32(negative, k.finite[1], k.finite[0]));
        // Inf is the limit, and a NaN stays what it is.
        c = isa.select32(isa.gt32(inf, a), isa.or(finite, k.away), c);
        // Not past the limit: it is finite here, but its code is the end of the scale.
        c = isa.min_or_nan_f32(k.limit, c);
    }
    if F::NAN {
        c = isa.min_u32(c, k.nan);
    }
    let e = isa.max_u32(isa.and(c, inf), k.least);
    let mut power = isa.add32(e, k.grow);
    if MODES {
        c = isa.or(c, s);
        power = isa.or(power, s);
    }
    isa.add32(isa.add_numbers_f32(c, power), isa.shr32v(e, k.drop))
}
