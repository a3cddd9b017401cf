//! Sources of 16 bits and more, and integers of 8 bits, read as lanes of float32 or float64, or as their own integers.
//!
//! A source that does not fit is rounded to *odd*: it is truncated, and the last bit that is kept is set if any bit was cut
//! off. So it stays on its side of every number and every midpoint of a narrower format, and only the encoder's rounding
//! counts, in every mode. The proof of each step is beside it.

use core::marker::PhantomData;

use super::super::simd::{Effect, Simd};
use super::job::Table;
use super::width::{Bits, Code, Width, registers, wide16};
use crate::formats::dtype::{DType, FloatFormat};

/// How elements are read from memory.
pub(in crate::kernels) trait Source: Sized {
    type Width: Width;
    /// Whether reading the elements depends on the floating-point environment. (Integers become floats exactly.)
    const FLOATS: bool;
    /// What is loaded of a table, if the source has one.
    type Loaded<I: Simd>: Copy;

    fn loaded<I: Simd>(isa: I, table: &Table) -> Self::Loaded<I>;
}

/// Bits of an element in memory.
pub(in crate::kernels) const fn bits<S: Source>() -> usize {
    S::Width::BITS
}

/// A block of a source, with what is loaded of the source's table.
pub(in crate::kernels) struct Input<I: Simd, S: Source> {
    pub(in crate::kernels) block: <S::Width as Width>::Block<I>,
    pub(in crate::kernels) loaded: S::Loaded<I>,
}

impl<I: Simd, S: Source> Clone for Input<I, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<I: Simd, S: Source> Copy for Input<I, S> {}

/// Elements of `BITS` bits, for codecs that read them themselves.
impl<const BITS: usize> Source for Bits<BITS>
where
    Self: Width,
{
    type Width = Self;
    const FLOATS: bool = false;
    type Loaded<I: Simd> = ();

    #[inline(always)]
    fn loaded<I: Simd>(_: I, _: &Table) {}
}

/// [`Source::FLOATS`] on this instruction set: reading float16 touches the environment only where its conversions do.
pub(in crate::kernels) const fn is_guarded<I: Simd, S: Source>() -> bool {
    S::FLOATS && (bits::<S>() != 16 || <I::F16 as Effect>::FLOATS)
}

/// Reads elements as float32: exactly, or rounded to odd with enough bits for every float of 16 bits or fewer.
pub(in crate::kernels) trait AsF32<I: Simd>: Source {
    fn f32(isa: I, src: Input<I, Self>) -> [I::V; 4];

    /// The elements, if they are float16.
    #[inline(always)]
    fn f16(_: Input<I, Self>) -> Option<[I::V; 2]> {
        None
    }

    /// Rounds results of arithmetic to the dtype of the elements, to nearest even, if that dtype is a float.
    #[inline(always)]
    fn kept(_: I, x: [I::V; 4]) -> [I::V; 4] {
        x
    }

    /// Reads integers of 16 bits or fewer as lanes of 16 bits, and returns whether they are signed. None for others.
    #[inline(always)]
    fn short(_: I, _: Input<I, Self>) -> Option<([I::V; 2], bool)> {
        None
    }
}

/// Floats of 16 bits.
pub(in crate::kernels) trait Half: Source<Width = Bits<16>> {
    const FORMAT: FloatFormat;
    const MANTISSA: u32 = Self::FORMAT.mantissa_bits;
    const BIAS: i32 = Self::FORMAT.bias;
    /// The code of Inf.
    const INF: u16 = Self::FORMAT.max_code() as u16 + 1;
}

impl Half for F16 {
    const FORMAT: FloatFormat = format(DType::F16);
}

impl Half for Bf16 {
    const FORMAT: FloatFormat = format(DType::BF16);
}

/// The format of a float.
#[inline] // Constants take it, and nothing else.
pub(super) const fn format(dtype: DType) -> FloatFormat {
    dtype.float_format().expect("a float")
}

/// Reads elements as floats of 16 bits with 8 significant bits: exactly, or rounded to odd.
pub(in crate::kernels) trait AsHalf<I: Simd>: Half {
    fn half(isa: I, v: [I::V; 2]) -> [I::V; 2];
}

/// Elements of 16 bits, divided by their scales if they have some, in the form that codecs that narrow by look-ups need. Each
/// method is given its result for elements without a scale, and returns that by default.
pub(in crate::kernels) trait AsQuotients<I: Simd>: Source<Width = Bits<16>> {
    /// In each byte, the exponent of elements whose quotients have the first exponent of the target's tables.
    #[inline(always)]
    fn first(_: I, _: &Self::Loaded<I>, _mantissa: I::V, first: I::V) -> I::V {
        first
    }

    /// The table from the mantissas of elements to those of their quotients, rounded to odd to 5 bits.
    #[inline(always)]
    fn mantissas(_: &Self::Loaded<I>, mantissas: [I::V; 2]) -> [I::V; 2] {
        mantissas
    }

    /// Twice the magnitude of elements whose quotient is half of the smallest number of the target: a tie, which becomes 0.
    #[inline(always)]
    fn least(_: I, _: &Self::Loaded<I>, least: I::V) -> [I::V; 2] {
        [least; 2]
    }

    /// Elements as they are read: -0 may lose its sign.
    #[inline(always)]
    fn read(_: I, _: &Self::Loaded<I>, x: [I::V; 2]) -> [I::V; 2] {
        x
    }
}

impl<I: Simd> AsQuotients<I> for F16 {}
impl<I: Simd> AsQuotients<I> for Bf16 {}
impl<I: Simd> AsQuotients<I> for Bits<16> {}

/// Reads elements as exponents, mantissas of 7 bits, and signs.
pub(in crate::kernels) trait AsBytes<I: Simd>: Half + AsQuotients<I> {
    /// Returns, each in bytes, the exponents; the mantissas, exact or rounded to odd, below an unspecified bit; and the signs,
    /// above unspecified bits.
    fn bytes(isa: I, src: Input<I, Self>) -> [I::V; 3];
}

/// Reads elements as float64: exactly, or rounded to odd with enough bits for float32 and everything narrower.
pub(in crate::kernels) trait AsF64<I: Simd>: Source {
    fn f64(isa: I, src: Input<I, Self>) -> [I::V; 8];
}

macro_rules! sources {
    ($($name:ident: $bits:literal, $floats:literal;)*) => {$(
        pub(in crate::kernels) struct $name;
        impl Source for $name {
            type Width = Bits<$bits>;
            const FLOATS: bool = $floats;
            type Loaded<I: Simd> = ();

            #[inline(always)]
            fn loaded<I: Simd>(_: I, _: &Table) {}
        }
    )*};
}
// `Re32` and `Re64` are the real parts of complex elements.
sources! {
    F8: 8, false; F16: 16, true; Bf16: 16, false; F32: 32, false; F64: 64, true; Re32: 64, false; Re64: 128, true;
    I8: 8, false; U8: 8, false; I16: 16, false; U16: 16, false; I32: 32, false; U32: 32, false; I64: 64, true; U64: 64, true;
}

/// Widens two registers to four.
macro_rules! widened {
    ($v:ident => $widen:expr) => {{
        let [a, b] = {
            let $v = $v[0];
            $widen
        };
        let [c, d] = {
            let $v = $v[1];
            $widen
        };
        [a, b, c, d]
    }};
}

impl<I: Simd> AsF32<I> for F16 {
    #[inline(always)]
    fn f32(isa: I, Input { block: v, .. }: Input<I, Self>) -> [I::V; 4] {
        widened!(v => isa.f16_to_f32(v))
    }

    #[inline(always)]
    fn f16(src: Input<I, Self>) -> Option<[I::V; 2]> {
        Some(src.block)
    }

    #[inline(always)]
    fn kept(isa: I, x: [I::V; 4]) -> [I::V; 4] {
        let halves = registers!(2, K => isa.f32_to_nearest_f16([x[2 * K], x[2 * K + 1]]));
        widened!(halves => isa.f16_to_f32(halves))
    }
}

/// The upper half of a float32.
impl<I: Simd> AsF32<I> for Bf16 {
    #[inline(always)]
    fn f32(isa: I, Input { block: v, .. }: Input<I, Self>) -> [I::V; 4] {
        widened!(v => isa.upper32(v))
    }

    #[inline(always)]
    fn kept(isa: I, x: [I::V; 4]) -> [I::V; 4] {
        let halves = registers!(2, K => isa.rounded_bf16([x[2 * K], x[2 * K + 1]]));
        widened!(halves => isa.upper32(halves))
    }
}

/// Integers of 8 and 16 bits.
macro_rules! short_as_f32 {
    ($($source:ident: $bits:literal, $signed:literal;)*) => {$(
        impl<I: Simd> AsF32<I> for $source {
            #[inline(always)]
            fn f32(isa: I, src: Input<I, Self>) -> [I::V; 4] {
                let words = Bits::<16>::of::<I, Bits<$bits>, $signed>(isa, src.block);
                let v = wide16::<I, $signed>(isa, words);
                registers!(4, K => isa.i32_to_f32(v[K]))
            }

            #[inline(always)]
            fn short(isa: I, src: Input<I, Self>) -> Option<([I::V; 2], bool)> {
                Some((Bits::<16>::of::<I, Bits<$bits>, $signed>(isa, src.block), $signed))
            }
        }

        impl<I: Simd> AsF64<I> for $source {
            #[inline(always)]
            fn f64(isa: I, src: Input<I, Self>) -> [I::V; 8] {
                from_f32(isa, Self::f32(isa, src))
            }
        }
    )*};
}
short_as_f32! { I8: 8, true; U8: 8, false; I16: 16, true; U16: 16, false; }

macro_rules! as_f32 {
    ($($source:ident($isa:ident, $v:ident) = $body:expr;)*) => {$(
        impl<I: Simd> AsF32<I> for $source {
            #[inline(always)]
            fn f32($isa: I, Input { block: $v, .. }: Input<I, Self>) -> [I::V; 4] {
                $body
            }
        }
    )*};
}

as_f32! {
    F32(_isa, v) = v;
    Re32(isa, v) = registers!(4, K => isa.low64([v[2 * K], v[2 * K + 1]]));
    // Below 2^24 this is exact. From there on, the low 8 bits make one sticky bit, so 17 to 24 bits are left, which are exact
    // in an f32 and at least two more than bfloat16 has; float16 and narrower floats overflow there.
    I32(isa, v) = registers!(4, K => {
        isa.i32_to_f32(odd32(isa, v[K], isa.shr32::<25>(isa.add32(v[K], isa.splat32(1 << 24)))))
    });
    U32(isa, v) = registers!(4, K => isa.u32_to_f32(odd32(isa, v[K], isa.shr32::<24>(v[K]))));
    F64(isa, v) = odd_f32(isa, v);
    Re64(isa, v) = odd_f32(isa, real64(isa, v));
    I64(isa, v) = registers!(4, K => isa.i64_to_odd_f32([v[2 * K], v[2 * K + 1]]));
    U64(isa, v) = registers!(4, K => isa.u64_to_odd_f32([v[2 * K], v[2 * K + 1]]));
}

/// A source that is read in another way: `Odd` (in `float.rs`), [`Within`] or [`Clipped`].
pub(in crate::kernels) struct Read<S, Way>(PhantomData<(S, Way)>);

impl<S: Source, Way> Source for Read<S, Way> {
    type Width = S::Width;
    const FLOATS: bool = S::FLOATS;
    type Loaded<I: Simd> = S::Loaded<I>;

    #[inline(always)]
    fn loaded<I: Simd>(isa: I, table: &Table) -> S::Loaded<I> {
        S::loaded(isa, table)
    }
}

/// Reads float64 as float32, for targets with a smaller range. Numbers beyond the normal ones of float32 are clamped to those,
/// so that none becomes 0 or Inf. This matters where negative numbers are one error and Inf is another.
pub(in crate::kernels) enum Within {}

impl<I: Simd, S: AsF64<I>> AsF32<I> for Read<S, Within> {
    #[inline(always)]
    fn f32(isa: I, Input { block, loaded }: Input<I, Self>) -> [I::V; 4] {
        let x = S::f64(isa, Input { block, loaded });
        let magnitude = isa.splat64(u64::MAX >> 1);
        let (least, most) = const { ((f32::MIN_POSITIVE as f64).to_bits(), (f32::MAX as f64).to_bits()) };
        let x = registers!(8, K => {
            let m = isa.and(x[K], magnitude);
            let within = isa.min_s64(isa.max_s64(m, isa.splat64(least)), isa.splat64(most));
            let is_finite = isa.gt64(isa.splat64(f64::INFINITY.to_bits()), m);
            let m = isa.select64(isa.eq64(m, isa.splat64(0)), m, isa.select64(is_finite, within, m));
            isa.or(m, isa.and_not(magnitude, x[K]))
        });
        odd_f32(isa, x)
    }
}

/// Reads integers as float32, for targets that end far below 2^24. Integers are clamped to 2^24, up to which float32 is exact.
pub(in crate::kernels) enum Clipped {}

/// Integers of 32 and of 64 bits.
pub(in crate::kernels) trait Clips<I: Simd>: Source {
    /// Reads integers as int32, clamped to 2^24.
    fn clipped(isa: I, block: <Self::Width as Width>::Block<I>) -> [I::V; 4];
}

impl<I: Simd, S: Clips<I>> AsF32<I> for Read<S, Clipped> {
    #[inline(always)]
    fn f32(isa: I, src: Input<I, Self>) -> [I::V; 4] {
        let v = S::clipped(isa, src.block);
        registers!(4, K => isa.i32_to_f32(v[K]))
    }
}

const CLIP: u64 = 1 << 24;

macro_rules! clips {
    ($($source:ident: $registers:tt, $isa:ident, $v:ident => $clipped:expr;)*) => {$(
        impl<I: Simd> Clips<I> for $source {
            #[inline(always)]
            fn clipped($isa: I, $v: [I::V; $registers]) -> [I::V; 4] {
                let $v = registers!($registers, K => {
                    let $v = $v[K];
                    $clipped
                });
                Bits::<32>::of::<I, <Self as Source>::Width, false>($isa, $v)
            }
        }
    )*};
}
clips! {
    I32: 4, isa, v => isa.min_s32(isa.max_s32(v, isa.splat32(CLIP.wrapping_neg() as u32)), isa.splat32(CLIP as u32));
    U32: 4, isa, v => isa.min_u32(v, isa.splat32(CLIP as u32));
    I64: 8, isa, v => isa.min_s64(isa.max_s64(v, isa.splat64(CLIP.wrapping_neg())), isa.splat64(CLIP));
    U64: 8, isa, v => isa.min_u64(v, isa.splat64(CLIP));
}

impl<I: Simd> AsHalf<I> for F16 {
    #[inline(always)]
    fn half(isa: I, v: [I::V; 2]) -> [I::V; 2] {
        // The low 3 bits are replaced by one sticky bit above them; nothing is carried further.
        registers!(2, K => {
            let low = isa.splat16(7);
            let sticky = isa.and(isa.add32(isa.and(v[K], low), low), isa.splat16(8));
            isa.or(isa.and_not(low, v[K]), sticky)
        })
    }
}

impl<I: Simd> AsHalf<I> for Bf16 {
    #[inline(always)]
    fn half(_: I, v: [I::V; 2]) -> [I::V; 2] {
        v
    }
}

impl<I: Simd> AsBytes<I> for Bf16 {
    #[inline(always)]
    fn bytes(isa: I, src: Input<I, Self>) -> [I::V; 3] {
        let x = src.block;
        [isa.low16(registers!(2, K => isa.shr16::<7>(x[K]))), isa.low16(x), isa.signs16(x)]
    }
}

impl<I: Simd> AsBytes<I> for F16 {
    #[inline(always)]
    fn bytes(isa: I, src: Input<I, Self>) -> [I::V; 3] {
        let x = src.block;
        let exponent = isa.low16(registers!(2, K => isa.shr16::<10>(x[K])));
        let mantissa = isa.low16(registers!(2, K => {
            let low = isa.splat16(7);
            let sticky = isa.add32(isa.and(x[K], low), low);
            isa.shr16::<3>(isa.or(x[K], sticky))
        }));
        [isa.and(exponent, isa.splat8(0x1F)), mantissa, isa.signs16(x)]
    }
}

/// Replaces the low 8 bits by one sticky bit just above them, unless `above` is 0. (In two's complement, this is right for
/// negative numbers, too.)
#[inline(always)]
fn odd32<I: Simd>(isa: I, v: I::V, above: I::V) -> I::V {
    // The sum carries into the bit above the low ones if any of these is set.
    let low = isa.splat32(0xFF);
    let odd = isa.and_not(low, isa.or(v, isa.add32(isa.and(v, low), low)));
    isa.select32(isa.eq32(above, isa.splat32(0)), v, odd)
}

/// Converts f64 to f32, rounded to odd.
#[inline(always)]
fn odd_f32<I: Simd>(isa: I, v: [I::V; 8]) -> [I::V; 4] {
    registers!(4, K => isa.f64_to_odd_f32([v[2 * K], v[2 * K + 1]]))
}

macro_rules! as_f64 {
    ($($source:ident($isa:ident, $v:ident) = $body:expr;)*) => {$(
        impl<I: Simd> AsF64<I> for $source {
            #[inline(always)]
            fn f64($isa: I, Input { block: $v, .. }: Input<I, Self>) -> [I::V; 8] {
                $body
            }
        }
    )*};
}

as_f64! {
    F16(isa, v) = from_f32(isa, widened!(v => isa.f16_to_f32(v)));
    Bf16(isa, v) = from_f32(isa, widened!(v => isa.upper32(v)));
    F32(isa, v) = from_f32(isa, v);
    I32(isa, v) = {
        let v = registers!(4, K => isa.i32_to_f64(v[K]));
        registers!(8, K => v[K / 2][K % 2])
    };
    U32(isa, v) = {
        let v = registers!(4, K => isa.u32_to_f64(v[K]));
        registers!(8, K => v[K / 2][K % 2])
    };
    F64(_isa, v) = v;
    Re32(isa, v) = from_f32(isa, registers!(4, K => isa.low64([v[2 * K], v[2 * K + 1]])));
    Re64(isa, v) = real64(isa, v);
    I64(isa, v) = registers!(8, K => isa.i64_to_odd_f64(v[K]));
    U64(isa, v) = registers!(8, K => isa.u64_to_odd_f64(v[K]));
}

/// The real parts of complex elements in 16 registers.
#[inline(always)]
fn real64<I: Simd>(isa: I, v: [[I::V; 8]; 2]) -> [I::V; 8] {
    registers!(8, K => isa.even64([v[K / 4][2 * K % 8], v[K / 4][2 * K % 8 + 1]]))
}

#[inline(always)]
pub(super) fn from_f32<I: Simd>(isa: I, v: [I::V; 4]) -> [I::V; 8] {
    let v = registers!(4, K => isa.f32_to_f64(v[K]));
    registers!(8, K => v[K / 2][K % 2])
}
