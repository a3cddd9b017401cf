//! Codecs to floats of at most 8 bits that have a mantissa; it has `m` bits here. There are several algorithms with the same
//! results: [`super::ways`] says which instruction set uses which for what. `MODES` is explained in [`super::float`].
//!
//! Two facts are used throughout:
//! * A code without its sign bit counts the positive values in order: the next code is the next value. Codes may be counted on
//!   past the max, so that a carry of rounding, subnormals and overflow need no cases of their own.
//! * "Rounded to odd" means truncated, with the last bit set if any bit that was cut off is 1. What is rounded to odd with two
//!   bits more than the target has rounds to the same value of the target as the original does.

use core::marker::PhantomData;

use super::super::once::Once;
use super::super::simd::{NarrowsByF16, NarrowsByNibbles, NarrowsByWords, Simd};
use super::float::{INF, SIGN, is_away};
use super::job::{Job, Table, Target};
use super::plane::{Fold, Plane};
use super::source::{AsBytes, AsF32, AsHalf, AsQuotients, Bf16, F16, Half, Input};
use super::width::{Bits, Code, registers};
use super::{Block, Codec};
use crate::formats::dtype::{DTYPES, DType, FloatFormat};
use crate::formats::options::{NanToFinite, Policy, Rounding};
use crate::formats::route::Route;
use crate::kernels::scalar::{self, Value};

/// From anything that is read as float32, in any rounding mode: by adding a power of two whose ulp is that of the target.
///
/// ```text
/// c = min(|x|, limit)               overflow is at most the code after the max; NaN the code of NaN
/// e = max(exponent of c, that of the smallest normal)
/// s = c + e * 2^(23 - m)            the adder shifts and rounds: once, as the control register says
/// code = s + (e - smallest normal) >> (23 - m)          as integers, of which the low byte counts
/// ```
/// (The power of two that was added has no bit in the low byte.) A NaN is replaced by the float32 whose code is that of NaN.
///
/// In the directed modes both operands of the addition have the sign of x, on which the direction depends. Where numbers of that
/// sign are rounded toward zero, finite overflow becomes the max.
pub(in crate::kernels) struct ToNarrow<S, F, const BITS: usize, const MODES: bool>(PhantomData<(S, F)>);

/// Which special values the formats of a family have.
pub(in crate::kernels) trait Family {
    /// Whether there is a NaN. If not, a NaN of the source is first replaced by a number.
    const NAN: bool;
    /// Whether there is a −0.
    const NEG_ZERO: bool;
    /// Whether there is a sign. If not, negative numbers are first replaced by 0 or NaN.
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
    /// The value of the code that overflow and Inf become, as if codes went on past the max.
    limit: V,
    /// As `limit`, but for finite numbers, positive and negative, in the directed modes.
    finite: [V; 2],
    /// The float32 whose code is that of NaN. If there is no NaN, the number that replaces it.
    nan: V,
    /// The exponent of the smallest normal number of the target, in the bits of a float32's exponent.
    least: V,
    /// 23 - m, in the bits of a float32's exponent.
    grow: V,
    /// 23 - m, as a shift count.
    drop: V,
    /// `least >> drop`, in each byte: by how much every code is too large.
    base: V,
    /// The sign bit of the code, in each byte.
    sign: V,
    away: V,
    /// What replaces negative numbers if the target has no sign.
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
        // Not by `map`, which need not be inlined.
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
            // Compared as signed integers, the numbers from −0 to −Inf are the smallest.
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

/// From float16 and bfloat16 to floats of 8 bits that have NaN, to nearest even, in lanes of 16 bits: for those that
/// [`ToNarrowByBytes`] is not for.
///
/// ```text
/// c = min(|x|, limit)                             as integers; whether x is NaN is seen in |x|
/// normal = max(c - base, 0)                       the code if c is normal in the target, in ulps of the source
/// subnormal = significand of c >> max(exponent of the smallest normal - exponent of c, 0)
/// code = the larger one, rounded to nearest even  both are first shifted to the left such that the code is the high byte
/// ```
/// * The source has 8 significant bits (float16 is rounded to odd to 8): two more than the target, or more than two.
/// * The larger one is the right one. If c is normal in the target, the significand is not shifted, and is no more than `normal`, which
///   has the same mantissa below an exponent of 1 or more. If c is smaller, `normal` is 0; or if its exponent is one less, its mantissa,
///   which is less than half of the significand.
/// * The shift to the right loses bits of a subnormal only if it is less than half of the smallest one of the target: it becomes 0
///   whatever these bits are.
/// * A subnormal of the source counts as if it had an implicit bit. That does not matter if it is less than half of the smallest
///   subnormal of the target in any case, which is not so from float16 to float8_e5m2 and float8_e5m2fnuz.
/// * If the target has no sign, negative numbers are first replaced by 0 or NaN, and a negative NaN by a positive one.
pub(in crate::kernels) struct ToNarrowByHalf<S, F>(PhantomData<(S, F)>);

/// Whether [`ToNarrowByHalf`] can make this format from those floats.
pub(in crate::kernels) fn goes_by_half<I: Simd, S: AsHalf<I>>(format: FloatFormat) -> bool {
    format.has_nan
        && (S::FORMAT.exponent_bits == 8 || format.min_exponent() - format.mantissa_bits as i32 > -14)
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByHalf<V> {
    /// The source's code of the value that overflow becomes, as if the target's codes went on past the max.
    limit: V,
    /// The difference of the codes of a normal number in the source and, in the source's ulps, in the target.
    base: V,
    /// The exponent of the target's smallest normal number, with the source's bias.
    least: V,
    /// The implicit bit of a significand.
    implicit: V,
    /// The bits of the mantissa.
    mantissa: V,
    exponent_at: V,
    /// The shift that moves the last bit of the code to the last bit of the high byte.
    left: V,
    inf: V,
    /// The code of NaN, as a high byte.
    nan: V,
    /// The sign bit of the code, in each byte.
    sign: V,
    /// What replaces negative numbers if the target has no sign.
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

/// From float16 and bfloat16 to floats of 8 bits that have NaN, a sign and a mantissa of at most 3 bits, to nearest even, in lanes of
/// 8 bits, of which a register has twice as many. (From float32 this would take fewer operations than the others, too, but more of
/// those that only one port of the processor executes.)
///
/// ```text
/// e = exponent of x less that of the tables' beginning, clamped to their end
/// p = mantissa of x, rounded to odd to 5 bits
/// code = bases[e] + steps[p and rows[e]]           tables of 64, 128 and 64 bytes
/// ```
/// * `bases[e]` is the code of the power of two, and a step is by how many codes a mantissa goes beyond it. `steps` has four parts of
///   32 steps. The high bits of `rows[e]` choose the part, and its low bits mask the bits of p that matter.
/// * p has two bits more than the target's mantissa. The steps of all normal numbers are the same, as the codes of powers of two are
///   even; subnormals with 2 and with 1 bit of mantissa have a part each.
/// * The first part is for the exponents of the smallest subnormal and of half of it. Half of it is a tie and becomes 0: with any bit of
///   p it becomes 1. From the smallest one on only the first bit of p matters, as 1.5 times it is a tie, which becomes 2. Numbers that
///   become 0 or overflow have a mask of 0.
/// * `bases` is FF at the exponent after the last, which Inf and NaN have, too: NaNs are only looked for if a base has its top bit set.
///   Overflow is the minimum of the code and the limit.
/// * A subnormal of the source counts as if it had an implicit bit. That does not matter if it is less than half of the smallest
///   subnormal of the target in any case, which is not so from float16 to float8_e5m2 and float8_e5m2fnuz.
pub(in crate::kernels) struct ToNarrowByBytes<S, F>(PhantomData<(S, F)>);

/// Whether [`ToNarrowByBytes`] is for a route, on instruction sets that have it.
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

/// All mantissas of 7 bits, rounded to odd to 5 bits. The bits above these are 1, so that an entry of `rows` keeps its own there.
pub(super) static ROUNDED_MANTISSAS: [[[u8; 16]; 4]; 2] = {
    let mut all = [[[0; 16]; 4]; 2];
    let mut m = 0;
    while m < 128 {
        all[m / 64][m / 16 % 4][m % 16] = 0xE0 | (m as u8 >> 3 << 1) | (m & 7 != 0) as u8;
        m += 1;
    }
    all
};

/// The first and the last exponent of a target's tables, biased: that of numbers which become 0, and that of numbers which overflow.
pub(super) fn exponents(to: &Target, bias: i32) -> [u8; 2] {
    let [half, end] = to.exponents();
    [half - 1, end].map(|exponent| (exponent + bias) as u8)
}

/// The code of a number, for tables.
#[inline(never)] // It is larger than what calls it.
fn code_of(to: DType, value: Value, policy: &Policy) -> u8 {
    scalar::encode(to, value, policy) as u8
}

/// Steps, rows and bases, made once per process. None if there is no memory for them.
#[inline(never)] // Its room is not that of every step that is found.
pub(in crate::kernels) fn bytes(from: DType, to: DType) -> Option<Table> {
    static TABLES: [[Once<Plane>; DTYPES]; 2] = [const { [const { Once::new() }; DTYPES] }; 2];
    let is_half = from == DType::F16;
    let target = Target::new(to.kind(), &Policy::DEFAULT);
    let [first, last] = exponents(&target, if is_half { F16::BIAS } else { Bf16::BIAS });
    let code = |exponent: u8, mantissa: u64| {
        let exponent = u64::from(exponent) + if is_half { (Bf16::BIAS - F16::BIAS) as u64 } else { 0 };
        let value = scalar::decode(DType::BF16, exponent << 7 | mantissa);
        code_of(to, value, &Policy::DEFAULT)
    };
    let table = TABLES[usize::from(is_half)][to as usize].get_or_make_in(|place| {
        let mut all = [0; 256];
        let (steps, rest) = all.split_at_mut(128);
        let (rows, bases) = rest.split_at_mut(64);
        // The parts: half of the smallest subnormal, subnormals with mantissas of 1 and 2 bits, and normal numbers.
        for (part, above) in [1, 3, 4, 5].into_iter().enumerate() {
            let exponent = first + above;
            for p in 0..32 {
                let further = code(exponent, (p as u64 >> 1 << 3) | (p as u64 & 1)) - code(exponent, 0);
                // Negated, because the operations on registers include a subtraction of bytes, but no addition.
                steps[32 * part + p] = further.wrapping_neg();
            }
        }
        for exponent in first..=last {
            let at = usize::from(exponent - first);
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
    /// [`ROUNDED_MANTISSAS`].
    mantissas: [V; 2],
    steps: [V; 2],
    rows: V,
    bases: V,
    /// The first exponent of the tables, and how many follow.
    first: V,
    most: V,
    /// The code of overflow.
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
        // `narrow::bytes` made this table for the job.
        let [low, high, rows, bases] = &job.table.planes[0].elements;
        ByBytes {
            mantissas: [isa.row_of(&ROUNDED_MANTISSAS[0]), isa.row_of(&ROUNDED_MANTISSAS[1])],
            steps: [isa.row_of(low), isa.row_of(high)],
            rows: isa.row_of(rows),
            bases: isa.row_of(bases),
            first: isa.splat8(first),
            most: isa.splat8(last - first),
            limit: isa.splat8(to.overflow),
            nan: isa.splat8(to.nan),
            sign: isa.splat8(to.sign),
        }
    }

    #[inline(always)]
    fn block(isa: I, k: &ByBytes<I::V>, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let loaded = src.loaded;
        let [exponent, mantissa, top] = S::bytes(isa, src);
        let first = S::first(isa, &loaded, mantissa, k.first);
        let e = isa.min_u8(isa.sub_u8(exponent, first), k.most);
        let p =
            isa.and(isa.lookup_two(S::mantissas(&loaded, k.mantissas), mantissa), isa.lookup_one(k.rows, e));
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

/// From float16 and bfloat16 to floats of at most 6 bits, to nearest even, by one look-up: few numbers differ for these targets. (From
/// wider sources, rounding to 16 bits first takes as long as the look-up saves.)
///
/// ```text
/// a = |x|                          as an integer; NaN is replaced by a number first
/// r = clamp(a - least, 0, most)    0 for everything that becomes 0
/// key = r << left                  the high byte of that, rounded to odd
/// code = table[key]                from the scalar reference
/// ```
/// * `least` is half of the smallest subnormal, which is a tie and becomes 0; `least + most` is the power of two after the max.
/// * The key has m + 2 bits of mantissa, two more than the target, below the exponent. It fits into 8 bits: there are at most 5
///   exponents with 3 bits of mantissa, 10 with 4, and 7 with 5.
/// * Where the elements are divided by powers of two, `least` is that of each group.
pub(in crate::kernels) struct ToNarrowByTable<S, const BITS: usize>(PhantomData<S>);

/// Whether [`ToNarrowByTable`] is for a route, on instruction sets that have it.
pub(in crate::kernels) fn goes_by_table(route: &Route) -> bool {
    matches!(route.from, DType::F16 | DType::BF16)
        && route.to.float_format().is_some_and(|format| !format.has_nan)
        && route.policy.rounding == Rounding::NearestEven
}

/// The code of every key, made once per process. None if there is no memory for them.
pub(in crate::kernels) fn table(to: DType) -> Option<Table> {
    static CODES: [Once<Plane>; 3] = [const { Once::new() }; 3];
    let target = Target::new(to.kind(), &Policy::DEFAULT);
    let mantissa = target.mantissa_bits;
    let codes = CODES[mantissa as usize - 1].get_or_make_in(|place| {
        let least = (target.exponents()[0] + 127) as u64;
        let codes = core::array::from_fn(|key| {
            let value = scalar::decode(DType::F32, (least << 23) + ((key as u64) << (21 - mantissa)));
            code_of(to, value, &Policy::DEFAULT)
        });
        Some(Plane::of_bytes(place, &codes))
    });
    codes.map(Table::of_bytes)
}

/// The number of 16 bits that becomes what a NaN is to become.
pub(super) fn instead_of_nan(nan: NanToFinite, inf: u16) -> u16 {
    match nan {
        NanToFinite::NegZero => 1 << 15,
        NanToFinite::Max => inf,
        NanToFinite::Zero => 0,
    }
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByTable<I: Simd> {
    plane: I::Plane,
    /// The source's Inf, shifted to the left by one bit, as all numbers are in order to drop their signs.
    inf: I::V,
    /// The number that replaces a NaN.
    nan: I::V,
    least: I::V,
    most: I::V,
    left: I::V,
    /// The sign bit of the code, in each byte.
    sign: I::V,
}

impl<I: NarrowsByWords, S: AsQuotients<I>, const BITS: usize> Codec<I> for ToNarrowByTable<S, BITS>
where
    Bits<BITS>: Code,
{
    type From = S;
    type To = Bits<BITS>;
    const FLOATS: bool = false;
    type Setup = ByTable<I>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> ByTable<I> {
        let to = &job.narrow;
        // float16 and bfloat16 share one kernel: only these constants differ.
        let (mantissa, bias, inf) = if job.from == DType::BF16.kind() {
            (Bf16::MANTISSA, Bf16::BIAS, Bf16::INF)
        } else {
            (F16::MANTISSA, F16::BIAS, F16::INF)
        };
        let [least, end] = to.exponents();
        let nan = instead_of_nan(job.policy.nan_to_finite, inf);
        ByTable {
            // `narrow::table` made this table for the job.
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
        let x = S::read(isa, &src.loaded, src.block);
        let x = registers!(2, K => isa.select_above16(isa.add16(x[K], x[K]), k.inf, k.nan, x[K]));
        let least = S::least(isa, &src.loaded, k.least);
        let key = isa.odd_high16(registers!(2, K => {
            let r = isa.sub_u16(isa.add16(x[K], x[K]), least[K]);
            isa.shl16v(isa.min_u16(r, k.most), k.left)
        }));
        // float4 has fewer than 64 keys.
        let code = match BITS {
            4 => isa.lookup64(k.plane, key),
            _ => isa.lookup256(k.plane, Fold::None, key),
        };
        Bits::<BITS>::of8::<I, false>(isa, signed::<I, Finite>(isa, code, isa.signs16(x), k.sign))
    }
}

/// From integers of 16 bits to floats of 8 bits with a sign, to nearest even, in lanes of 16 bits and by a look-up.
///
/// ```text
/// left = 8, less or 0               the largest of the three for which |x| << left fits into 16 bits
/// key = |x| << left                 the high byte of that, rounded to odd
/// code = table[key] - (left << m)   as the code of a number is larger by 2^m than that of half of it
/// ```
/// * `table[key]` is the code of `key`, plus 8 << m: the number is `key << (8 - left)`.
/// * The target has 1 as a normal number, and so every integer is normal, except 0, which is shifted by 8 and whose entry is 8 << m.
/// * If bits were cut off, the key has at least m + 3 bits, two more than the target's mantissa with its implicit bit. `less` is 4 for
///   mantissas of up to 2 bits, and 5 for those of 3: keys of numbers that are not shifted may then have 4 bits only, but these are 2^11 or
///   more and overflow.
/// * The table and the codes go on past the max, up to the code of overflow.
pub(in crate::kernels) struct ShortToNarrow;

/// `less` of [`ShortToNarrow`], for mantissas of this many bits.
const fn less(mantissa: u32) -> u32 {
    if mantissa <= 2 { 4 } else { 5 }
}

/// Whether [`ShortToNarrow`] is for a route, on instruction sets that have it.
pub(in crate::kernels) fn goes_as_short(route: &Route) -> bool {
    let Some(to) = route.to.float_format().filter(|to| to.has_sign && to.bits() == 8) else { return false };
    // The exponent of the power of two after the max. If it is small, going by way of integers of 8 bits is faster.
    let end = (to.max_code() >> to.mantissa_bits) as i32 - to.bias + 1;
    let is_meant = to.min_exponent() <= 0 && end > 6 && (to.mantissa_bits <= 2 || end <= 11);
    let is_short = matches!(route.from, DType::I16 | DType::U16);
    is_short && is_meant && route.policy.rounding == Rounding::NearestEven
}

/// The code of every key, plus 8 << m, made once per process. None if there is no memory for them.
pub(in crate::kernels) fn codes_of_shorts(to: DType) -> Option<Table> {
    static CODES: [Once<Plane>; DTYPES] = [const { Once::new() }; DTYPES];
    let codes = CODES[to as usize].get_or_make_in(|place| {
        let mantissa = Target::new(to.kind(), &Policy::DEFAULT).mantissa_bits;
        let policy = Policy { saturate: false, ..Policy::DEFAULT };
        let codes = core::array::from_fn(|key| {
            code_of(to, Value::exact(false, key as u64, 0), &policy) + (8 << mantissa)
        });
        Some(Plane::of_bytes(place, &codes))
    });
    codes.map(Table::of_bytes)
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByKey<I: Simd> {
    plane: I::Plane,
    /// All ones if the source is unsigned, so that the minimum of x and -x is x.
    positive: I::V,
    less: I::V,
    /// The largest |x| that is shifted by `less`.
    most: I::V,
    mantissa: I::V,
    /// The code of overflow.
    limit: I::V,
    /// The sign bit of the code, in each byte; 0 if the source is unsigned.
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
            // `codes_of_shorts` made this table for the job.
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
        // |x| is the smaller one of x and -x, as unsigned numbers.
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
        // Only 0 becomes 0, so that no code is -0. The NaN of an overflow has the sign of the number.
        isa.or(code, isa.and(isa.signs16(x), k.sign))
    }
}

/// From float16 and bfloat16 to floats of at most 8 bits with a mantissa of `M` bits, at most 3, to nearest even, in lanes of 8 bits and
/// with look-ups in tables of 16 bytes, as most instruction sets have them.
///
/// ```text
/// kept = max((|x| >> (mantissa bits of the source - M)) - base, 0)      the exponent and M bits of mantissa
/// l = the next 4 bits of the mantissa, rounded to odd
/// small = (rows[kept - 1] + l) >> 4                                     the code of a subnormal; 0 if kept is 0
/// normal = kept - less + (l is more than half, or half and the code is odd)      the code of a normal number
/// code = min(max(small, normal), limit)
/// ```
/// * `base` is such that `kept` is 1 for half of the smallest subnormal of the target. From the smallest normal number on, `kept` is the
///   code plus the constant `less`. Below that, it counts numbers with M bits of mantissa, of which the target has only some.
/// * `rows` has, for each `kept` of subnormals and of the first normal numbers, 16 times the code, plus as much as makes l carry into it
///   when it is to be rounded up. The rows are the same for all formats with mantissas of M bits.
/// * A `kept` beyond the rows finds some entry of them, and these are all smaller than `normal`. If M is 1, the rows have all numbers.
/// * A subnormal of the source counts as if it had an implicit bit. That does not matter if it is less than half of the smallest
///   subnormal of the target in any case, which is not so from float16 to float8_e5m2.
pub(in crate::kernels) struct ToNarrowByNibbles<S, F, const BITS: usize, const M: u32>(PhantomData<(S, F)>);

/// Whether [`ToNarrowByNibbles`] can make this format of 8 bits from float16 or bfloat16.
pub(in crate::kernels) fn goes_by_nibbles(from: DType, format: FloatFormat) -> bool {
    match format.mantissa_bits {
        2 => from == DType::BF16,
        3 => format.has_sign && (from == DType::BF16 || format.min_exponent() - 3 > -14),
        _ => false,
    }
}

/// The rows for mantissas of this many bits. The first entry is that of `kept` = 1.
const fn rows(mantissa: u32) -> [[u8; 16]; 2] {
    let mut rows = [[0; 16]; 2];
    let mut at = 0;
    while at < if mantissa == 3 { 32 } else { 16 } {
        let (exponent, digits) = (at >> mantissa, (1 << mantissa) + at % (1 << mantissa));
        // `lost`: how many bits of `digits` the target lacks, because the number is subnormal there. `first`: by how much its
        // code exceeds the other bits.
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
    /// The code of overflow.
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
            // 9 bits are rounded to odd to 8.
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
            // The operations on registers include no addition of bytes, only a subtraction. The code is odd where `kept` is even.
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

/// Lanes of 16 bits shifted to the right by `bits`, from 1 to 9.
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

/// Bytes of `bits` bits, from 4 to 8, rounded to odd to 4 bits.
#[inline(always)]
fn odd_nibble<I: Simd>(isa: I, rest: I::V, bits: u32) -> I::V {
    if bits == 4 {
        return rest;
    }
    let (odd, low) = (1u8 << (bits - 4), (1u8 << (bits - 4)) - 1);
    // Adding as many ones as there are bits below the odd bit carries into it if one of these bits is 1.
    let sticky = isa.and(isa.sub8(rest, isa.splat8(low.wrapping_neg())), isa.splat8(odd));
    isa.and(cut16(isa, isa.or(rest, sticky), bits - 4), isa.splat8(0x0F))
}

/// From anything that is read as float32 to floats of at most 8 bits, to nearest even: by way of float16, which has the subnormals at
/// the same places.
///
/// ```text
/// y = x * 2^s                                   makes the target's smallest normal number that of float16, 2^-14
/// y |= 2^d if any bit below that is 1           rounded to odd, except that the bits below stay
/// h = y as float16, truncated                   the code, and some bits more
/// code = h rounded to nearest even              at the last bit of the target's mantissa
/// ```
/// * The multiplication is exact, or the result becomes 0.
/// * Rounding to odd keeps K = 24 - d significant bits, and m + 3 <= K <= 10 - m. The first says that these are two more than the target
///   has. The second says that a subnormal h has the odd bit, too, from half of the target's smallest subnormal on, 2^(-15 - m): the
///   last bit of float16 is 2^-24. Smaller numbers become 0.
/// * The bits of h below the odd bit have no influence, so that truncation does not matter.
/// * Overflow is truncated to the largest float16, which is beyond the max of every target. NaN is above Inf, as an integer.
///
/// `M` is m. `SCALES` says that s is not 0: that the smallest normal number of the target is not 2^-14.
pub(in crate::kernels) struct ToNarrowByF16<S, F, const BITS: usize, const M: u32, const SCALES: bool>(
    PhantomData<(S, F)>,
);

/// Whether [`ToNarrowByF16`] can make this format. With 4 bits of mantissa there is no such K, and float8_e5m2fnuz has numbers
/// with the exponent that is Inf in float16.
pub(in crate::kernels) fn goes_by_f16(format: FloatFormat) -> bool {
    format.mantissa_bits <= 3 && format.exponent_bits < 5 + u32::from(format.has_inf)
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct ByF16<V> {
    scale: V,
    odd: V,
    below: V,
    /// The code of overflow and Inf.
    limit: V,
    /// The code of NaN; if there is none, the float16 that replaces a NaN.
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
    // A subnormal product is far below 2^-25, and becomes 0 in any case.
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
        // Moves the last bit of the code to the last bit of the high byte.
        let codes = registers!(2, K => match M {
            3 => isa.add16(h[K], h[K]),
            2 => isa.and(h[K], number),
            _ => isa.shr16::<1>(isa.and(h[K], number)),
        });
        let code = isa.nearest_high16(codes);
        let mut limited = isa.min_u8(code, k.limit);
        if F::NAN {
            // A code between those that Inf and a quiet NaN have become.
            let above = 0x7Du8 << (M - 2);
            limited = isa.select_above8(code, isa.splat8(above), k.nan, limited);
        }
        Bits::<BITS>::of8::<I, false>(isa, signed::<I, F>(isa, limited, isa.signs16(h), k.sign))
    }
}

/// Gives codes the signs that are the top bits of `top`, except to zeros of formats that have no −0.
#[inline(always)]
pub(super) fn signed<I: Simd, F: Family>(isa: I, code: I::V, top: I::V, sign: I::V) -> I::V {
    if !F::NAN {
        // Formats without NaN have fewer than 8 bits, and −0.
        isa.put(sign, sign_of_finite(isa, top, sign), code)
    } else if F::NEG_ZERO {
        isa.put(sign, top, code)
    } else {
        isa.or(code, isa.zero_where_zero8(code, isa.and(top, sign)))
    }
}

/// From float16 to float8_e5m2, which is the high byte of it, rounded to nearest even.
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

/// Moves the top bit of each byte to the place of the sign in codes of 6 or 4 bits, which is the bit that is set in `sign`.
/// Other bits are arbitrary.
#[inline(always)]
fn sign_of_finite<I: Simd>(isa: I, top: I::V, sign: I::V) -> I::V {
    // Bits of the neighbouring byte are shifted in, which the caller masks.
    let six = isa.shr16::<2>(top);
    let four = isa.shr16::<4>(top);
    let is_six = isa.eq32(sign, isa.splat32(0x2020_2020));
    isa.select32(is_six, six, four)
}

/// The code of each float32 without its sign, plus [`Narrow::base`].
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
        // Inf has become the limit above, and a NaN stays what it is.
        c = isa.select32(isa.gt32(inf, a), isa.or(finite, k.away), c);
        // With the bit for ties away from zero, the limit may be exceeded.
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
