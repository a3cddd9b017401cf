//! Elements under scales: sources that multiply or divide what another source reads, in front of the encoders that casts have.

use core::marker::PhantomData;

use super::super::scale::{By, Factor, How, LEAST_GROUP, RunScaled, Scale, Table16, Table128};
use super::super::simd::{ByAddition, ByF16, ByWords, Extras, NarrowsByF16, NarrowsByWords, Simd};
use super::super::sizes::bytes;
use super::super::stream::ask_far;
use super::float::{NearF32, SIGN, ToF16, ToF32};
use super::integer::{ToIntegers, ToShort};
use super::job::{Job, Table, Target};
use super::lookup::{Floats, Mirrored, Nibble, OnLine, Scope, Short, floats};
use super::narrow::{
    self, Finite, PIECES, Signed, ToNarrow, ToNarrowByBytes, ToNarrowByF16, ToNarrowByTable, goes_by_bytes,
    goes_by_table,
};
use super::source::{AsBytes, AsF32, Bf16, F16, F32, Half, I8, Input, Source, U8, Words, bits, format};
use super::ways::{Looking, Ways};
use super::width::{Bits, Width, registers};
use super::{Block, Codec};
use crate::formats::dtype::{DType, FloatFormat, Kind};
use crate::formats::route::Route;

/// What a source has loaded of a table, and the scales of a block.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Under<L> {
    looks: L,
    scale: Scale,
}

/// Sources under scales.
pub(in crate::kernels) trait Scalable: Source {
    /// The scales of the next block.
    fn scale<I: Simd>(looks: &mut Self::Looks<I>) -> &mut Scale;

    /// Loads what is needed for a group, if one begins with the next block, or if nothing `is_kept` yet.
    #[inline(always)]
    fn begin<I: Simd>(_: I, _: &mut Self::Looks<I>, _is_kept: bool) {}

    /// Prefetches what is [`next`](Scale::next), if anything, in the size of this block.
    #[inline(always)]
    fn ask<I: Simd>(_: I, _: &Scale, _block: *const u8) {}
}

macro_rules! scalable {
    ($($source:ident<S $(, $ties:ident)?>;)*) => {$(
        impl<S: Source $(, $ties: Ties)?> Source for $source<S $(, $ties)?> {
            type Width = S::Width;
            const FLOATS: bool = true;
            type Looks<I: Simd> = Under<S::Looks<I>>;

            #[inline(always)]
            fn looks<I: Simd>(isa: I, table: &Table) -> Under<S::Looks<I>> {
                Under { looks: S::looks(isa, table), scale: Scale::NONE }
            }
        }

    )*};
}
scalable! {
    Times<S>;
    Quotient<S, T>;
}

impl<S: Source> Scalable for Times<S> {
    #[inline(always)]
    fn scale<I: Simd>(looks: &mut Self::Looks<I>) -> &mut Scale {
        &mut looks.scale
    }
}

impl<S: Source, T: Ties> Scalable for Quotient<S, T> {
    #[inline(always)]
    fn scale<I: Simd>(looks: &mut Self::Looks<I>) -> &mut Scale {
        &mut looks.scale
    }

    #[inline(always)]
    fn ask<I: Simd>(isa: I, scale: &Scale, block: *const u8) {
        if scale.next != 0 {
            ask_far(isa, block.wrapping_offset(scale.next), const { bytes(I::BYTES, bits::<S>()) });
        }
    }
}

/// The numbers for a block from an array of a scale.
#[inline(always)]
fn numbers<I: Simd>(isa: I, scale: &Scale, array: *const f32) -> [I::V; 4] {
    // SAFETY: whoever makes a scale says that its arrays have a number for every element of the blocks, which the loop
    // counts. A group has as many elements as a register has lanes, at least.
    unsafe {
        if scale.shift == Scale::EACH {
            let first = array.add(scale.at).cast::<u8>();
            return registers!(4, K => isa.load(first.add(K * I::BYTES)));
        }
        let splat = |at: usize| isa.splat32(array.add(at >> scale.shift).cast::<u32>().read());
        if scale.shift >= const { I::BYTES.trailing_zeros() } {
            // (Blocks begin at multiples of their size, or all elements have the same number.)
            return [splat(scale.at); 4];
        }
        registers!(4, K => splat(scale.at + K * I::BYTES / 4))
    }
}

/// Elements times their scales: the product, rounded once to f32.
///
/// A tensor's factor follows, where the product is exact.
pub(in crate::kernels) struct Times<S>(PhantomData<S>);

impl<I: Simd, S: AsF32<I>> AsF32<I> for Times<S> {
    #[inline(always)]
    fn f32(isa: I, Input { block, looks: Under { looks, scale } }: Input<I, Self>) -> [I::V; 4] {
        let mut c = S::f32(isa, Input { block, looks });
        let s = numbers(isa, &scale, scale.scales);
        if scale.is_alone {
            return registers!(4, K => isa.mul_f32(c[K], s[K]));
        }
        if scale.others.loses_sign {
            c = registers!(4, K => isa.add_f32(c[K], isa.splat32(0)));
        }
        product(isa, c, s, &scale)
    }
}

/// Elements times their scales `s`.
#[inline(always)]
fn product<I: Simd>(isa: I, mut c: [I::V; 4], mut s: [I::V; 4], scale: &Scale) -> [I::V; 4] {
    if !scale.zeros.is_null() {
        let zeros = numbers(isa, scale, scale.zeros);
        c = registers!(4, K => isa.add_f32(c[K], zeros[K]));
    }
    if scale.tensor != Factor::NONE {
        c = registers!(4, K => isa.mul_f32(c[K], s[K]));
        s = [isa.splat32(scale.tensor.by.to_bits()); 4];
    }
    // (Nothing is divided by its scale here.)
    match (scale.how, scale.tensor.divides) {
        (How::Near, false) => registers!(4, K => isa.mul_f32(c[K], s[K])),
        (How::Near, true) => registers!(4, K => isa.div_f32(c[K], s[K])),
        (How::Odd | How::Over, false) => registers!(4, K => isa.odd_product_f32(c[K], s[K])),
        (How::Odd | How::Over, true) => registers!(4, K => isa.odd_quotient_f32(c[K], s[K])),
    }
}

impl<I: Simd, S: AsF32<I>> NearF32<I> for Times<S> {
    const ROUNDS: bool = true;

    #[inline(always)]
    fn near(isa: I, src: Input<I, Self>) -> [I::V; 4] {
        Self::f32(isa, src)
    }
}

/// Elements divided by their scales, in front of an encoder to a target whose ties are `T`.
///
/// ```text
/// q = x * (1 / S)           right to 4 of the 24 bits behind the first
/// ```
/// Where no q of a block is as near to a tie as that, what they are rounded to is what the quotients are. Else, of 12 bits:
/// ```text
/// m = q to 12 bits          x / S lies between m and a neighbour of it
/// t = x - m * S             of which the sign is exact: m and a neighbour of it are nearer to each other than that loses
/// q = m and a last bit      up or down, as t says, unless it is 0
/// ```
pub(in crate::kernels) struct Quotient<S, T>(PhantomData<(S, T)>);

/// Where the ties of a target are.
pub(in crate::kernels) trait Ties {
    /// It is one of integers, which may have zero points.
    const OF_INTEGERS: bool = false;

    /// May one of these quotients be on the wrong side of a tie, or its exact value be a tie?
    ///
    /// With `x * (1 / S)` the error is below 2^-24 each for S, which may be a scale with the factor of the tensor, for the inverse and for
    /// the product: in all less than 4 of the last of 24 bits.
    fn may_tie<I: Simd>(isa: I, q: [I::V; 4]) -> bool;
}

/// Ties of any target of up to 8 significant bits: every number of 9 bits counts as one.
pub(in crate::kernels) struct OfAny;

impl Ties for OfAny {
    #[inline(always)]
    fn may_tie<I: Simd>(isa: I, q: [I::V; 4]) -> bool {
        is_near::<I, 8>(isa, q, 0, 1 << 15)
    }
}

/// Ties of integers of up to 8 bits: the middles between them.
///
/// ```text
/// s = q + 1.5 * 2^9         in [2^9, 2^10), the ulps are 2^-14, and q is wrong by one of them at most
/// ```
/// Of another s, q is less than -2^8 or 2^8 at least: it saturates, whatever it is rounded to and the zero point is.
pub(in crate::kernels) struct OfIntegers;

impl Ties for OfIntegers {
    const OF_INTEGERS: bool = true;

    #[inline(always)]
    fn may_tie<I: Simd>(isa: I, q: [I::V; 4]) -> bool {
        let s = registers!(4, K => isa.add_f32(q[K], isa.splat32(768f32.to_bits())));
        is_near::<I, 2>(isa, s, 1 << 13, 1 << 14)
    }
}

/// Ties of the float `DTYPE` (its index among the dtypes), whose smallest normal number is L.
///
/// ```text
/// s = |q| + max(|q|, L)     of a normal q, twice it; of a subnormal one, a number above L, where ulps are the same
/// ```
/// Ties of s have the bit behind the mantissa, and nothing behind that.
pub(in crate::kernels) struct OfFloat<const DTYPE: usize>;

impl<const DTYPE: usize> OfFloat<DTYPE> {
    const FORMAT: FloatFormat = format(DType::ALL[DTYPE]);
}

impl<const DTYPE: usize> Ties for OfFloat<DTYPE> {
    #[inline(always)]
    fn may_tie<I: Simd>(isa: I, q: [I::V; 4]) -> bool {
        let mantissa = const { Self::FORMAT.mantissa_bits };
        let least = isa.splat32(const { ((Self::FORMAT.min_exponent() + 127) as u32) << 23 });
        let s = registers!(4, K => {
            let a = isa.and(q[K], isa.splat32(!SIGN));
            isa.add_f32(a, isa.max_u32(a, least))
        });
        is_near::<I, 8>(isa, s, 1 << (22 - mantissa), 1 << (23 - mantissa))
    }
}

/// Is any lane of four registers within `NEAR` of `at` plus a multiple of `every`, a power of two?
#[inline(always)]
fn is_near<I: Simd, const NEAR: u32>(isa: I, x: [I::V; 4], at: u32, every: u32) -> bool {
    let (added, mask) = (isa.splat32(NEAR.wrapping_sub(at)), isa.splat32(every - 1));
    let beyond = registers!(4, K => isa.and(isa.add32(x[K], added), mask));
    let least = isa.min_u32(isa.min_u32(beyond[0], beyond[1]), isa.min_u32(beyond[2], beyond[3]));
    isa.count32(isa.gt32(isa.splat32(2 * NEAR + 1), least)) != 0
}

impl<I: Simd, S: AsF32<I>, T: Ties> AsF32<I> for Quotient<S, T> {
    #[inline(always)]
    fn f32(isa: I, Input { block, looks: Under { looks, scale } }: Input<I, Self>) -> [I::V; 4] {
        let mut x = S::f32(isa, Input { block, looks });
        if scale.others.loses_sign {
            x = registers!(4, K => isa.add_f32(x[K], isa.splat32(0)));
        }
        let divides = scale.how == How::Over;
        let s = numbers(isa, &scale, if divides { scale.scales } else { scale.inverses });
        let mut q = if divides {
            registers!(4, K => isa.div_f32(x[K], s[K]))
        } else {
            registers!(4, K => isa.mul_f32(x[K], s[K]))
        };
        if scale.how == How::Odd && T::may_tie(isa, q) {
            let scales = numbers(isa, &scale, scale.scales);
            let m = registers!(4, K => {
                let near = isa.and(isa.add32(q[K], isa.splat32(0x800)), isa.splat32(!0xFFF));
                // (The sum of 0x800 and the largest NaN is no NaN any more. Sources of 16 bits have none that is so large.)
                if const { bits::<S>() < 32 } {
                    near
                } else {
                    let is_nan = isa.gt32(isa.abs_f32(q[K]), isa.splat32(0x7F80_0000));
                    isa.select32(is_nan, q[K], near)
                }
            });
            let minus = registers!(4, K => isa.xor(m[K], isa.splat32(SIGN)));
            let t = registers!(4, K => rest(isa, scale.tensor, x[K], minus[K], scales[K]));
            q = registers!(4, K => towards(isa, x[K], m[K], t[K]));
        }
        if scale.others.keeps {
            q = S::kept(isa, q);
        }
        if T::OF_INTEGERS && !scale.zeros.is_null() {
            let zeros = numbers(isa, &scale, scale.zeros);
            if scale.others.adds_first {
                return S::kept(isa, registers!(4, K => isa.add_f32(isa.number_f32(q[K]), zeros[K])));
            }
            // (1.5 * 2^23 has an ulp of 1: a sum with it is rounded to an integer. Larger numbers saturate.)
            let magic = isa.splat32(12_582_912f32.to_bits());
            let back = isa.splat32((-12_582_912f32).to_bits());
            q = registers!(4, K => {
                let integer = isa.add_f32(isa.add_f32(isa.number_f32(q[K]), magic), back);
                isa.add_f32(integer, zeros[K])
            });
        }
        q
    }
}

impl<I: Simd, S: AsF32<I>, T: Ties> NearF32<I> for Quotient<S, T> {
    const ROUNDS: bool = true;

    #[inline(always)]
    fn near(isa: I, src: Input<I, Self>) -> [I::V; 4] {
        Self::f32(isa, src)
    }
}

/// x - m * (scale with factor), or a number of the same sign, if m has up to 12 bits.
///
/// ```text
/// x - m * s               without a factor: rounded once
/// x - m * s * g           m * s is exact, because a scale that has a factor has up to 12 bits, too
/// (x - m * s / g) * g     x * g - m * s, in the same way
/// ```
#[inline(always)]
pub(in crate::kernels) fn rest<I: Simd>(isa: I, factor: Factor, x: I::V, minus_m: I::V, scale: I::V) -> I::V {
    if factor == Factor::NONE {
        return isa.mul_add_f32(minus_m, scale, x);
    }
    let (product, by) = (isa.mul_f32(minus_m, scale), isa.splat32(factor.by.to_bits()));
    if factor.divides { isa.mul_add_f32(x, by, product) } else { isa.mul_add_f32(product, by, x) }
}

/// Rounds the quotient x / S to odd: `m` is its first 12 bits, and `t` has the sign of x - m * S.
#[inline(always)]
fn towards<I: Simd>(isa: I, x: I::V, m: I::V, t: I::V) -> I::V {
    // 1 if the signs of both are equal, else -1.
    let step = isa.sub32(isa.splat32(1), isa.and(isa.shr32::<30>(isa.xor(t, x)), isa.splat32(2)));
    // (Inf and NaN stay as they are: t is NaN then.)
    isa.where_number_f32(t, isa.add32(m, step), m)
}

/// bfloat16s that are divided by their scales, exponents and mantissas apart, in front of the encoders that look up both.
///
/// ```text
/// x = 2^e * m                      m is one of 128 mantissas, from 1 to 2
/// m / S = 2^(E - less) * n         n from 1 to 2; E is the exponent of the largest quotient, that of 127 / 64, and `less` is 0 or 1
/// x / S = 2^(e + E - less) * n
/// ```
/// * The table of a scale has of each m the mantissa of n, rounded to odd to 5 bits, and -less.
/// * The encoders look up exponents from their first one on. `deltas` have the e that becomes that one, if `less` is 0.
/// * Quotients by powers of two have the mantissas of the elements, so that one table serves all.
/// * A subnormal x counts as if it had an implicit bit, and becomes 0 in any case; Inf and NaN have an exponent beyond the last one. For
///   scales of which either is not so there are other kernels.
pub(in crate::kernels) struct Parts;

/// The table of [`Parts`] for scales that are powers of two: mantissas stay as they are.
pub(crate) static UNDIVIDED: Table128 = {
    let mut mantissas = [0; 128];
    let mut m = 0;
    while m < 128 {
        mantissas[m] = PIECES[m / 64][m / 16 % 4][m % 16];
        m += 1;
    }
    Table128([mantissas, [0; 128]])
};

impl Source for Parts {
    type Width = Bits<16>;
    const FLOATS: bool = false;
    /// The mantissas, and -less.
    type Looks<I: Simd> = Under<[[I::V; 2]; 2]>;

    #[inline(always)]
    fn looks<I: Simd>(isa: I, _: &Table) -> Under<[[I::V; 2]; 2]> {
        Under { looks: [[isa.splat32(0); 2]; 2], scale: Scale::NONE }
    }
}

impl Scalable for Parts {
    #[inline(always)]
    fn scale<I: Simd>(looks: &mut Self::Looks<I>) -> &mut Scale {
        &mut looks.scale
    }

    #[inline(always)]
    fn begin<I: Simd>(isa: I, Under { looks, scale }: &mut Self::Looks<I>, is_kept: bool) {
        begin_table(isa, looks, scale, is_kept);
    }

    #[inline(always)]
    fn ask<I: Simd>(isa: I, scale: &Scale, block: *const u8) {
        Quotient::<Bf16, OfAny>::ask(isa, scale, block);
    }
}

impl Half for Parts {
    const FORMAT: FloatFormat = Bf16::FORMAT;
}

impl<I: NarrowsByWords> Words<I> for Parts {
    #[inline(always)]
    fn first(isa: I, Under { looks, scale }: &Self::Looks<I>, mantissa: I::V, _: I::V) -> I::V {
        let first = if scale.shift >= const { I::BYTES.trailing_zeros() } {
            isa.splat32(delta(scale, 0))
        } else {
            isa.halves32(delta(scale, 0), delta(scale, I::BYTES / 2))
        };
        // (Powers of two, by which all mantissas stay as they are.)
        if scale.how == How::Near {
            return first;
        }
        isa.sub8(first, isa.lookup_two(looks[1], mantissa))
    }

    #[inline(always)]
    fn pieces(Under { looks, .. }: &Self::Looks<I>, _: [I::V; 2]) -> [I::V; 2] {
        looks[0]
    }

    #[inline(always)]
    fn least(isa: I, Under { scale, .. }: &Self::Looks<I>, _: I::V) -> [I::V; 2] {
        registers!(2, K => isa.splat32(delta(scale, K * I::BYTES / 2)))
    }

    #[inline(always)]
    fn read(isa: I, Under { scale, .. }: &Self::Looks<I>, x: [I::V; 2]) -> [I::V; 2] {
        without_sign_of_zero(isa, scale.others.loses_sign, x)
    }
}

impl<I: NarrowsByWords> AsBytes<I> for Parts {
    #[inline(always)]
    fn bytes(isa: I, Input { block, .. }: Input<I, Self>) -> [I::V; 3] {
        Bf16::bytes(isa, Input { block, looks: () })
    }
}

/// The [`deltas`](Scale::deltas) of the element that is so many behind the first one of a block.
#[inline(always)]
fn delta(scale: &Scale, behind: usize) -> u32 {
    // SAFETY: whoever makes a scale says that its arrays have what all blocks need, which the loop counts.
    unsafe { scale.deltas.add((scale.at + behind) >> scale.shift).read() }
}

/// Loads the table of the elements at hand, if another one begins with them, or if nothing `is_kept` yet.
#[inline(always)]
fn begin_table<I: Simd>(isa: I, looks: &mut [[I::V; 2]; 2], scale: &Scale, is_kept: bool) {
    if !is_kept || scale.at & ((1 << scale.tables_shift) - 1) == 0 {
        // SAFETY: whoever makes a scale says that there are tables for all blocks, which the loop counts. Registers are of
        // 64 bytes where this is called.
        unsafe {
            let table = scale.tables.add(scale.at >> scale.tables_shift).cast::<u8>();
            *looks = registers!(2, P => registers!(2, K => isa.load(table.add(128 * P + K * I::BYTES))));
        }
    }
}

/// To bfloat16, to nearest even, where results are not subnormal.
pub(in crate::kernels) struct NormalToBf16<S>(PhantomData<S>);

impl<I: Simd, S: AsF32<I>> Codec<I> for NormalToBf16<S> {
    type From = S;
    type To = Bits<16>;
    const FLOATS: bool = true;
    type Setup = Extras;

    #[inline(always)]
    fn setup(_: I, job: &Job) -> Extras {
        job.extras
    }

    #[inline(always)]
    fn block(isa: I, &extras: &Extras, src: Input<I, Self::From>) -> Block<I, Self::To> {
        let x = S::f32(isa, src);
        registers!(2, K => isa.normal_to_bf16([x[2 * K], x[2 * K + 1]], extras))
    }
}

/// The products of all 16 codes of 4 bits with the scale of each group of 16 elements.
pub(in crate::kernels) struct Products;

impl Source for Products {
    type Width = Bits<4>;
    const FLOATS: bool = true;
    /// All codes as floats.
    type Looks<I: Simd> = Under<[I::V; 4]>;

    #[inline(always)]
    fn looks<I: Simd>(isa: I, table: &Table) -> Under<[I::V; 4]> {
        static CODES: [[u8; 16]; 4] = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]; 4];
        // SAFETY: a register has no more bytes than that.
        let codes = unsafe { isa.load(CODES.as_ptr().cast()) };
        Under { looks: floats::<I, Nibble>(isa, &Nibble::looks(isa, table), codes), scale: Scale::NONE }
    }
}

impl Scalable for Products {
    #[inline(always)]
    fn scale<I: Simd>(looks: &mut Self::Looks<I>) -> &mut Scale {
        &mut looks.scale
    }

    #[inline(always)]
    fn begin<I: Simd>(isa: I, Under { looks, scale }: &mut Self::Looks<I>, is_kept: bool) {
        if !is_kept && scale.others.loses_sign {
            *looks = registers!(4, K => isa.add_f32(looks[K], isa.splat32(0)));
        }
    }
}

/// Codes of 4 bits by the [products](Products) of all codes as words of float16 or bfloat16: each code picks its word.
pub(in crate::kernels) struct ByProducts;

/// What products become.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Halves {
    extras: Extras,
    /// They become float16, not bfloat16.
    are_f16: bool,
}

impl Halves {
    /// Products as words. None is a NaN, or a subnormal bfloat16.
    #[inline(always)]
    fn words<I: Simd>(self, isa: I, x: [I::V; 4]) -> [I::V; 2] {
        registers!(2, K => {
            let x = [x[2 * K], x[2 * K + 1]];
            if self.are_f16 { isa.f32_to_nearest_f16(x) } else { isa.normal_to_bf16(x, self.extras) }
        })
    }
}

impl<I: NarrowsByF16> Codec<I> for ByProducts {
    type From = Products;
    type To = Bits<16>;
    const FLOATS: bool = true;
    type Setup = Halves;

    #[inline(always)]
    fn setup(_: I, job: &Job) -> Halves {
        Halves { extras: job.extras, are_f16: job.to == DType::F16.kind() }
    }

    #[inline(always)]
    fn block(
        isa: I,
        &halves: &Halves,
        Input { looks: Under { looks, scale }, .. }: Input<I, Products>,
    ) -> [I::V; 2] {
        if !scale.is_alone {
            let s = numbers(isa, &scale, scale.scales);
            return halves.words(isa, product(isa, looks, s, &scale));
        }
        // SAFETY: as in `numbers`, of groups.
        let splat = |k: usize| unsafe {
            let at = scale.at + k * I::BYTES / 4;
            isa.splat32(scale.scales.add(at >> scale.shift).cast::<u32>().read())
        };
        if scale.shift > const { LEAST_GROUP.trailing_zeros() } {
            // (A second 16 elements of the same group have the same words.)
            let x = registers!(4, K => {
                let first = if I::BYTES == 64 { K & 2 } else { K & 1 };
                isa.mul_f32(looks[first], splat(first))
            });
            return halves.words(isa, x);
        }
        halves.words(isa, registers!(4, K => isa.mul_f32(looks[K], splat(K))))
    }

    #[inline(always)]
    unsafe fn write(
        isa: I,
        _: &Under<[I::V; 4]>,
        words: [I::V; 2],
        src: *const u8,
        dst: *mut u8,
        [high, _]: [bool; 2],
    ) {
        // SAFETY: the caller's promise.
        unsafe { isa.pick_words(words, src, high, dst) };
    }
}

/// Codes of `BITS` bits by a table of 128 words for each group. With `ADDS`, there is one table of bfloat16 for all groups, and a group
/// adds to the exponents of its words. (The top bit of a code of 8 bits flips the sign of the word.)
pub(in crate::kernels) struct Tabled<const BITS: usize, const ADDS: bool>;

impl<const BITS: usize, const ADDS: bool> Source for Tabled<BITS, ADDS>
where
    Bits<BITS>: Width,
{
    type Width = Bits<BITS>;
    const FLOATS: bool = false;
    /// The low bytes of the table, and the high ones.
    type Looks<I: Simd> = Under<[[I::V; 2]; 2]>;

    #[inline(always)]
    fn looks<I: Simd>(isa: I, _: &Table) -> Under<[[I::V; 2]; 2]> {
        Under { looks: [[isa.splat32(0); 2]; 2], scale: Scale::NONE }
    }
}

impl<const BITS: usize, const ADDS: bool> Scalable for Tabled<BITS, ADDS>
where
    Bits<BITS>: Width,
{
    #[inline(always)]
    fn scale<I: Simd>(looks: &mut Self::Looks<I>) -> &mut Scale {
        &mut looks.scale
    }

    #[inline(always)]
    fn begin<I: Simd>(isa: I, Under { looks, scale }: &mut Self::Looks<I>, is_kept: bool) {
        begin_table(isa, looks, scale, is_kept);
    }
}

impl<I: NarrowsByWords, const BITS: usize, const ADDS: bool> Codec<I> for Tabled<BITS, ADDS>
where
    Bits<BITS>: Width<Block<I> = I::V>,
{
    type From = Self;
    type To = Bits<16>;
    const FLOATS: bool = false;
    type Setup = ();

    #[inline(always)]
    fn setup(_: I, _: &Job) {}

    #[inline(always)]
    fn block(isa: I, _: &(), Input { block, looks: Under { looks, scale } }: Input<I, Self>) -> [I::V; 2] {
        let index = isa.before_zips::<2>(block);
        let (low, mut high) = (isa.lookup_two(looks[0], index), isa.lookup_two(looks[1], index));
        if BITS == 8 {
            high = isa.xor(high, isa.and(index, isa.splat8(0x80)));
        }
        let mut words = isa.zip_pieces::<1>(low, high);
        if ADDS {
            words = registers!(2, K => {
                let delta = isa.splat32(delta(&scale, K * I::BYTES / 2));
                isa.add_exponents16(words[K], delta, BITS < 8)
            });
        }
        words
    }
}

/// Codes of `BITS` bits by a table of 16 words for each group. A code of 4 bits is the index of its word. Codes of 8 bits, to bfloat16:
///
/// ```text
/// first = exponent of the code, but 1 if it is larger
/// word = words[first and the mantissa]       of one of the first codes, up to the end of those with exponent 1
/// word += exponent - first                   the product has the same significant bits, and is rounded as it was
/// ```
/// No product is subnormal or beyond the largest number, no scale is 0 or negative. NaN and Inf are the same under all scales.
///
/// Or, if groups of codes of 8 bits have deltas, all use the first 16 words of one table of bfloat16, and a group adds to the exponents of
/// words but 0.
pub(in crate::kernels) struct Sixteen<const BITS: usize>;

impl<const BITS: usize> Source for Sixteen<BITS>
where
    Bits<BITS>: Width,
{
    type Width = Bits<BITS>;
    const FLOATS: bool = false;
    /// The low bytes of the words, and the high ones.
    type Looks<I: Simd> = Under<[I::V; 2]>;

    #[inline(always)]
    fn looks<I: Simd>(isa: I, _: &Table) -> Under<[I::V; 2]> {
        Under { looks: [isa.splat32(0); 2], scale: Scale::NONE }
    }
}

impl<const BITS: usize> Scalable for Sixteen<BITS>
where
    Bits<BITS>: Width,
{
    #[inline(always)]
    fn scale<I: Simd>(looks: &mut Self::Looks<I>) -> &mut Scale {
        &mut looks.scale
    }

    #[inline(always)]
    fn begin<I: Simd>(isa: I, Under { looks, scale }: &mut Self::Looks<I>, is_kept: bool) {
        let is_one = BITS == 8 && !scale.deltas.is_null();
        let group = if is_one { Scale::ALL } else { scale.shift };
        if !is_kept || scale.at & ((1 << group) - 1) == 0 {
            // SAFETY: whoever makes a scale says that there are words for all blocks, which the loop counts.
            unsafe {
                let (low, all) = if is_one {
                    (scale.tables.cast::<u8>(), size_of::<Table128>())
                } else {
                    (scale.sixteens.add(scale.at >> group).cast::<u8>(), size_of::<Table16>())
                };
                let high = low.add(all / 2);
                *looks = [isa.load_pieces(low, 0), isa.load_pieces(high, 0)];
            }
        }
    }
}

/// Codes of 4 bits under scales of 8 bits: each code of a scale has a table of 16 words, in which those of its groups pick theirs.
pub(in crate::kernels) struct Coded;

impl Source for Coded {
    type Width = Bits<4>;
    const FLOATS: bool = false;
    type Looks<I: Simd> = Under<()>;

    #[inline(always)]
    fn looks<I: Simd>(_: I, _: &Table) -> Under<()> {
        Under { looks: (), scale: Scale::NONE }
    }
}

impl Scalable for Coded {
    #[inline(always)]
    fn scale<I: Simd>(looks: &mut Self::Looks<I>) -> &mut Scale {
        &mut looks.scale
    }
}

impl<I: NarrowsByF16> Codec<I> for Coded {
    type From = Self;
    type To = Bits<16>;
    const FLOATS: bool = false;
    type Setup = ();

    #[inline(always)]
    fn setup(_: I, _: &Job) {}

    /// Nothing: elements are read and written at once.
    #[inline(always)]
    fn block(isa: I, _: &(), _: Input<I, Self>) -> [I::V; 2] {
        [isa.splat8(0); 2]
    }

    #[inline(always)]
    unsafe fn write(
        isa: I,
        Under { scale, .. }: &Under<()>,
        _: [I::V; 2],
        src: *const u8,
        dst: *mut u8,
        [high, _]: [bool; 2],
    ) {
        // SAFETY: the caller's promise.
        unsafe { isa.pick_from(tables(scale), src, high, dst) };
    }
}

/// The tables of the codes of the scales of a block, in groups of 16 elements.
#[inline(always)]
fn tables(scale: &Scale) -> [&[[u8; 16]; 2]; 4] {
    // SAFETY: whoever makes a scale says that its arrays have what all blocks need, which the loop counts, and that there are tables of
    // all codes.
    unsafe {
        let places = scale.places.add(scale.at / LEAST_GROUP);
        registers!(4, K => &*places.add(K).read().among(scale.sixteens))
    }
}

/// bfloat16s under scales of 8 bits to packed float4: each code of a scale has a table of the magnitudes from which on the code of an
/// element is the next one.
///
/// ```text
/// e = clamp(exponent - first, 0, 7)             0 for what becomes 0, 7 for what overflows
/// code = codes[e] - (m < steps[e]) - (m < steps[e + 8])
/// ```
/// * Of seven steps no three have the same exponent: each is at least 1.4 times the one before.
/// * Mantissas are doubled. A step that an exponent does not have is 255.
/// * The rows of a table: the 16 steps; the 8 codes of what is not below a step, and `first`.
pub(in crate::kernels) struct Stepped;

impl Source for Stepped {
    type Width = Bits<16>;
    const FLOATS: bool = false;
    type Looks<I: Simd> = Under<()>;

    #[inline(always)]
    fn looks<I: Simd>(_: I, _: &Table) -> Under<()> {
        Under { looks: (), scale: Scale::NONE }
    }
}

impl Scalable for Stepped {
    #[inline(always)]
    fn scale<I: Simd>(looks: &mut Self::Looks<I>) -> &mut Scale {
        &mut looks.scale
    }

    #[inline(always)]
    fn ask<I: Simd>(isa: I, scale: &Scale, block: *const u8) {
        Quotient::<Bf16, OfAny>::ask(isa, scale, block);
    }
}

/// The number that replaces a NaN, and the sign bit of a code.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct OfNan<V> {
    nan: V,
    sign: V,
}

impl<I: NarrowsByF16> Codec<I> for Stepped {
    type From = Self;
    type To = Bits<4>;
    const FLOATS: bool = false;
    type Setup = OfNan<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> OfNan<I::V> {
        let nan = narrow::instead_of_nan(job.policy.nan_to_finite, Bf16::INF);
        OfNan { nan: isa.splat16(nan), sign: isa.splat8(job.narrow.sign) }
    }

    #[inline(always)]
    fn block(isa: I, k: &OfNan<I::V>, Input { block, looks: Under { scale, .. } }: Input<I, Self>) -> I::V {
        let mut x = without_sign_of_zero(isa, scale.others.loses_sign, block);
        let doubled = registers!(2, K => isa.add16(x[K], x[K]));
        let (mut exponent, mut mantissa) = (isa.high16(doubled), isa.low16(doubled));
        // (An exponent of 255 is that of Inf or NaN.)
        if isa.top_bits(isa.sub_u8(exponent, isa.splat8(127))) != 0 {
            let inf = isa.splat16(2 * Bf16::INF);
            x = registers!(2, K => isa.select_above16(doubled[K], inf, k.nan, x[K]));
            let doubled = registers!(2, K => isa.add16(x[K], x[K]));
            (exponent, mantissa) = (isa.high16(doubled), isa.low16(doubled));
        }
        let tables = tables(&scale);
        let [steps, codes] = registers!(2, ROW => isa.pieces_of(registers!(4, K => &tables[K][ROW])));
        let first = isa.lookup_pieces(codes, isa.splat8(8));
        let e = isa.min_u8(isa.sub_u8(exponent, first), isa.splat8(7));
        let below = is_below(isa, mantissa, isa.lookup_pieces(steps, e));
        let below_next = is_below(isa, mantissa, isa.lookup_pieces(steps, isa.or(e, isa.splat8(8))));
        let code = isa.sub8(isa.sub8(isa.lookup_pieces(codes, e), below), below_next);
        narrow::signed::<I, Finite>(isa, code, isa.signs16(x), k.sign)
    }
}

/// 1 where a byte is below a step, else 0.
#[inline(always)]
fn is_below<I: NarrowsByF16>(isa: I, bytes: I::V, steps: I::V) -> I::V {
    isa.min_u8(isa.sub_u8(steps, bytes), isa.splat8(1))
}

/// Elements of 16 bits, of which -0 has become 0 if it `loses` its sign.
#[inline(always)]
fn without_sign_of_zero<I: NarrowsByF16>(isa: I, loses: bool, x: [I::V; 2]) -> [I::V; 2] {
    if !loses {
        return x;
    }
    // (Doubled, only 0 and -0 are 0.)
    registers!(2, K => {
        let magnitude = isa.add16(x[K], x[K]);
        isa.select_above16(magnitude, isa.splat16(0), x[K], isa.splat16(0))
    })
}

/// Masks of the bits of a code, and what codes of 8 bits need.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct CodeParts<V> {
    /// All bits but the sign, where zeros have one.
    magnitude: V,
    mantissa: V,
    exponent: V,
    /// The lowest bit of an exponent.
    first: V,
    /// The shift from there to the exponent of a bfloat16, in the high byte of a word.
    right: V,
    /// The code of the largest number: Inf and NaN are above.
    most: V,
    /// The distance of Inf from that; 0 if there is none.
    inf: V,
}

impl<I: NarrowsByF16, const BITS: usize> Codec<I> for Sixteen<BITS>
where
    Bits<BITS>: Width<Block<I> = I::V>,
{
    type From = Self;
    type To = Bits<16>;
    const FLOATS: bool = false;
    type Setup = CodeParts<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> CodeParts<I::V> {
        let Target { mantissa_bits, max, nan, .. } = job.source;
        let first = 1u8 << (mantissa_bits & 7);
        let has_sign = matches!(job.from, Kind::Float(_));
        CodeParts {
            magnitude: isa.splat8(u8::MAX >> (8 - BITS) >> u32::from(has_sign)),
            mantissa: isa.splat8(first - 1),
            exponent: isa.splat8(0x80 - first),
            first: isa.splat8(first),
            right: isa.splat32(mantissa_bits + 1),
            most: isa.splat8(max),
            inf: isa.splat8(u8::from(nan != max + 1)),
        }
    }

    #[inline(always)]
    fn block(
        isa: I,
        k: &CodeParts<I::V>,
        Input { block, looks: Under { looks: [low, high], scale } }: Input<I, Self>,
    ) -> Block<I, Bits<16>> {
        // (The bits above a code of 4 bits are arbitrary.)
        let code = isa.and(isa.before_zips::<2>(block), isa.splat8(u8::MAX >> (8 - BITS)));
        let magnitude = isa.and(code, k.magnitude);
        let mut words;
        if BITS < 8 {
            words = isa.zip_pieces::<1>(isa.lookup_pieces(low, code), isa.lookup_pieces(high, code));
        } else {
            let exponent = isa.and(code, k.exponent);
            let first = isa.min_u8(exponent, k.first);
            let index = isa.or(isa.and(code, k.mantissa), first);
            let mut bytes = [isa.lookup_pieces(low, index), isa.lookup_pieces(high, index)];
            let mut more = isa.sub8(exponent, first);
            if isa.top_bits(isa.sub8(k.most, magnitude)) != 0 {
                let is_nan = isa.sub8(isa.sub8(magnitude, k.most), k.inf);
                let quiet = isa.or(isa.splat8(0x80), isa.zero_where_zero8(is_nan, isa.splat8(0x40)));
                bytes = [
                    isa.select_above8(magnitude, k.most, quiet, bytes[0]),
                    isa.select_above8(magnitude, k.most, isa.splat8(0x7F), bytes[1]),
                ];
                more = isa.select_above8(magnitude, k.most, isa.splat8(0), more);
            }
            let [low, high] = bytes;
            let more = isa.zip_pieces::<1>(isa.splat8(0), more);
            words = isa.zip_pieces::<1>(low, isa.xor(high, isa.and(code, isa.splat8(0x80))));
            words = registers!(2, K => isa.add16(words[K], isa.shr32v(more[K], k.right)));
        }
        if BITS == 8 && !scale.deltas.is_null() {
            let delta = isa.splat32(delta(&scale, 0));
            let adds = isa.zero_where_zero8(magnitude, isa.splat8(u8::MAX));
            let adds = isa.select_above8(magnitude, k.most, isa.splat8(0), adds);
            let adds = isa.zip_pieces::<1>(adds, adds);
            words = registers!(2, K => isa.add16(words[K], isa.and(adds[K], delta)));
        }
        words
    }
}

/// The kernel that looks elements up in a table, if there is one: for packed codes, or codes of 8 bits with -0.
pub(in crate::kernels) fn tabled<I: Simd<Narrowing: ScaledNarrowing<I>>>(
    _: I,
    route: &Route,
    by: By,
) -> Option<RunScaled> {
    let format = route.from.float_format();
    if !route.src.is_packed() && !format.is_some_and(|format| format.has_neg_zero) {
        return None;
    }
    // (With 3 mantissa bits, codes up to exponent 1 are at most 16.)
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

/// The kernel that multiplies, of a route to a float of 16 or 32 bits, if there is one.
pub(in crate::kernels) fn times<I: Ways>(_: I, route: &Route) -> Option<RunScaled> {
    let format = route.from.float_format();
    match (route.from.bits(), format) {
        (8, None) if route.from == DType::I8 => to_float::<I, I8>(route),
        (8, None) => to_float::<I, U8>(route),
        (8, Some(_)) if !I::Looking::IS_CHEAP => to_float::<I, Floats<OnLine, 8>>(route),
        (8, Some(format)) if format.has_neg_zero => to_float::<I, Floats<Mirrored, 8>>(route),
        (6, _) if route.src.is_packed() => to_float::<I, Floats<Short, 6>>(route),
        (4, _) if route.src.is_packed() => to_float::<I, Floats<Nibble, 4>>(route),
        _ => None,
    }
}

/// The same by the products of all codes with each scale, if that is faster. For scales of 16 elements or more.
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
        DType::F32 => Some(run::<I, ToF32<Times<S>>>()),
        DType::BF16 => Some(run::<I, NormalToBf16<Times<S>>>()),
        DType::F16 => Some(run::<I, ToF16<Times<S>, false>>()),
        _ => None,
    }
}

/// The kernel that divides, of a route from a float of 16 or 32 bits, if there is one.
pub(in crate::kernels) fn quotient<I: Simd<Narrowing: ScaledNarrowing<I>, Integers: ToIntegers<I>>>(
    _: I,
    route: &Route,
) -> Option<RunScaled> {
    match route.from {
        // (By way of float32: float16, which has the exponents of this target; and bfloat16, where most go by parts.)
        _ if route.to == DType::F8E5M2 => match route.from {
            DType::F32 => Some(I::Narrowing::signed_2::<ToE5m2<F32>>()),
            DType::BF16 if const { !I::Narrowing::BY_PARTS } => {
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
        DType::I8 | DType::U8 => Some(run::<I, ToShort<Quotient<S, OfIntegers>, 8>>()),
        DType::I4 | DType::U4 if route.dst.is_packed() => {
            Some(run::<I, ToShort<Quotient<S, OfIntegers>, 4>>())
        }
        DType::F4E2M1 if !route.dst.is_packed() => None,
        DType::F4E2M1 => Some(I::Narrowing::finite_4::<ToE2m1<S>>()),
        DType::F8E4M3FN => Some(I::Narrowing::signed_3::<ToE4m3<S>>()),
        // For a cast that comes afterwards.
        DType::F32 => Some(run::<I, ToF32<Quotient<S, OfAny>>>()),
        _ => None,
    }
}

type ToE2m1<S> = Quotient<S, OfFloat<{ DType::F4E2M1 as usize }>>;
type ToE4m3<S> = Quotient<S, OfFloat<{ DType::F8E4M3FN as usize }>>;
type ToE5m2<S> = Quotient<S, OfFloat<{ DType::F8E5M2 as usize }>>;

/// The kernel from bfloat16 to packed float4 by steps that are looked up, if there is one.
pub(in crate::kernels) fn stepped<I: Simd<Narrowing: ScaledNarrowing<I>>>(
    _: I,
    route: &Route,
) -> Option<RunScaled> {
    let is_meant = route.from == DType::BF16 && route.to == DType::F4E2M1 && route.dst.is_packed();
    if is_meant { I::Narrowing::stepped() } else { None }
}

/// The kernel that divides bfloat16s by parts, to a float of 8 bits with NaN and -0, or to packed ones of fewer, if there is one.
pub(in crate::kernels) fn parts<I: Simd<Narrowing: ScaledNarrowing<I>>>(
    _: I,
    route: &Route,
) -> Option<RunScaled> {
    let is_mirrored = route.to.float_format().is_some_and(|to| to.has_neg_zero);
    if !is_mirrored || route.dst.memory_bits() != route.to.bits() {
        return None;
    }
    (goes_by_bytes(route) || goes_by_table(route)).then(|| I::Narrowing::parts(route.to.bits())).flatten()
}

/// The table of that kernel, the exponent from which on it looks up what is divided by 1, and how many follow. None if there is no memory
/// for it.
pub(in crate::kernels) fn table_of_parts(route: &Route) -> Option<(Table, [u8; 2])> {
    let table =
        if goes_by_bytes(route) { narrow::bytes(DType::BF16, route.to) } else { narrow::table(route.to) };
    let [first, last] = narrow::exponents(&Target::new(route.to.kind(), &route.policy), Bf16::BIAS);
    Some((table?, [first, last - first]))
}

fn run<I: Simd, C: Codec<I, From: Scalable>>() -> RunScaled {
    I::kernel::<Scale, C>()
}

/// The scaled kernels of a way to narrow floats.
pub(in crate::kernels) trait ScaledNarrowing<I: Simd> {
    fn finite_4<S: AsF32<I> + Scalable>() -> RunScaled {
        run::<I, ToNarrow<S, Finite, 4, false>>()
    }
    fn signed_3<S: AsF32<I> + Scalable>() -> RunScaled {
        run::<I, ToNarrow<S, Signed, 8, false>>()
    }
    fn signed_2<S: AsF32<I> + Scalable>() -> RunScaled {
        run::<I, ToNarrow<S, Signed, 8, false>>()
    }
    /// The kernel by [`Products`], if there is one.
    fn products() -> Option<RunScaled> {
        None
    }
    /// The kernel by [`Sixteen`], if there is one.
    fn sixteen<const BITS: usize>() -> Option<RunScaled>
    where
        Bits<BITS>: Width<Block<I> = I::V>,
    {
        None
    }
    /// The kernel by [`Coded`], if there is one.
    fn coded() -> Option<RunScaled> {
        None
    }
    /// Makes its tables of words as they are cast.
    fn arrange(_: I, _tables: &mut [Table16]) {}
    /// The kernel by [`Stepped`], if there is one.
    fn stepped() -> Option<RunScaled> {
        None
    }
    /// The kernel by [`Tabled`], if there is one.
    fn tabled<const BITS: usize, const ADDS: bool>() -> Option<RunScaled>
    where
        Bits<BITS>: Width<Block<I> = I::V>,
    {
        None
    }
    /// Has it the kernels of [`Parts`]?
    const BY_PARTS: bool = false;
    /// The kernel to floats of so many bits, if it has.
    fn parts(_bits: u32) -> Option<RunScaled> {
        None
    }
    /// Makes its tables: see [`split`].
    fn split(_quotients: &[u8], _tables: &mut [Table128], _exponents: &mut [u32]) {}
}

/// From the quotients of 128 mantissas by each scale, float32s, to the tables of [`Parts`] and the largest exponent of each.
#[inline(always)]
fn split(quotients: &[u8], tables: &mut [Table128], exponents: &mut [u32]) {
    let quotients = quotients.as_chunks::<4>().0.as_chunks::<128>().0;
    for ((quotients, table), exponent) in quotients.iter().zip(tables).zip(exponents) {
        let largest = u32::from_ne_bytes(quotients[127]) >> 23;
        *exponent = largest;
        let Table128([mantissas, less]) = table;
        for ((q, mantissa), less) in quotients.iter().zip(mantissas).zip(less) {
            let q = u32::from_ne_bytes(*q);
            let sticky = u32::from(q & 0x7_FFFF != 0);
            // (The bits above are 1: see `PIECES`.)
            *mantissa = (0xE0 | q >> 18 & 0x1E | sticky) as u8;
            *less = (q >> 23).wrapping_sub(largest) as u8;
        }
    }
}

impl<I: Simd> ScaledNarrowing<I> for ByAddition {}

/// Implements a way that differs from this one only for floats of 16 bits.
macro_rules! by_f16 {
    ($($way:ident: $bound:ident, $sixteen:expr, $tabled:expr, $by_parts:expr, $parts:expr, $split:expr;)*) => {$(
        impl<I: $bound> ScaledNarrowing<I> for $way {
            fn finite_4<S: AsF32<I> + Scalable>() -> RunScaled {
                run::<I, ToNarrowByF16<S, Finite, 4, 1, true>>()
            }
            fn signed_3<S: AsF32<I> + Scalable>() -> RunScaled {
                run::<I, ToNarrowByF16<S, Signed, 8, 3, true>>()
            }
            fn signed_2<S: AsF32<I> + Scalable>() -> RunScaled {
                run::<I, ToNarrowByF16<S, Signed, 8, 2, false>>()
            }
            fn products() -> Option<RunScaled> {
                Some(run::<I, ByProducts>())
            }
            fn sixteen<const BITS: usize>() -> Option<RunScaled>
            where
                Bits<BITS>: Width<Block<I> = I::V>,
            {
                $sixteen
            }
            fn coded() -> Option<RunScaled> {
                Some(run::<I, Coded>())
            }
            fn stepped() -> Option<RunScaled> {
                Some(run::<I, Stepped>())
            }
            #[inline(always)]
            fn arrange(isa: I, tables: &mut [Table16]) {
                for Table16(table) in tables {
                    isa.arrange(table);
                }
            }
            fn tabled<const BITS: usize, const ADDS: bool>() -> Option<RunScaled>
            where
                Bits<BITS>: Width<Block<I> = I::V>,
            {
                $tabled
            }
            const BY_PARTS: bool = $by_parts;
            fn parts(bits: u32) -> Option<RunScaled> {
                $parts(bits)
            }
            #[inline(always)]
            fn split(quotients: &[u8], tables: &mut [Table128], exponents: &mut [u32]) {
                $split(quotients, tables, exponents)
            }
        }
    )*};
}
by_f16! {
    ByF16: NarrowsByF16, Some(run::<I, Sixteen<BITS>>()), None, false, |_| None, |_, _, _| ();
    // (Tables of 128 words are as fast as those of 16 here, and need no exponents added.)
    ByWords: NarrowsByWords,
        if BITS < 8 { Some(run::<I, Sixteen<4>>()) } else { None },
        Some(run::<I, Tabled<BITS, ADDS>>()),
        true,
        |bits| match bits {
            4 => Some(run::<I, ToNarrowByTable<Parts, 4>>()),
            6 => Some(run::<I, ToNarrowByTable<Parts, 6>>()),
            _ => Some(run::<I, ToNarrowByBytes<Parts, Signed>>()),
        },
        split;
}
