//! Casts bfloat16 to codes of 4 bits by a table for each code of a scale.

use super::super::Codec;
use super::super::job::Job;
use super::super::narrow::{self, Finite};
use super::super::source::{Bf16, Half, Input};
use super::super::width::{Bits, registers};
use super::arrays::tables;
use super::under::{Scaled, Under, without_sign_of_zero};
use crate::kernels::simd::NarrowsByF16;

/// bfloat16s under scales of 8 bits, to packed float4. Each code of a scale has a table of thresholds: the magnitudes from
/// which on an element has the next code.
///
/// ```text
/// e = clamp(exponent - first, 0, 7)             0 for what becomes 0, 7 for what overflows
/// code = codes[e] - (m < thresholds[e]) - (m < thresholds[e + 8])
/// ```
/// * Of the seven thresholds, no three have the same exponent, because each is at least 1.4 times the one before.
/// * Mantissas are doubled. A threshold that an exponent does not have is 255.
/// * The rows of a table: first the 16 thresholds; then, for each `e`, the code of an element that is below neither of its two
///   thresholds, and `first`.
pub(in crate::kernels) struct ByThresholds;

/// The number that replaces a NaN, and the sign bit of a code.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct OfNan<V> {
    nan: V,
    sign: V,
}

impl<I: NarrowsByF16> Codec<I> for ByThresholds {
    type From = Scaled<Bits<16>>;
    type To = Bits<4>;
    const FLOATS: bool = false;
    type Setup = OfNan<I::V>;

    #[inline(always)]
    fn setup(isa: I, job: &Job) -> OfNan<I::V> {
        let nan = narrow::instead_of_nan(job.policy.nan_to_finite, Bf16::INF);
        OfNan { nan: isa.splat16(nan), sign: isa.splat8(job.narrow.sign) }
    }

    #[inline(always)]
    fn block(
        isa: I,
        k: &OfNan<I::V>,
        Input { block, loaded: Under { scale, .. } }: Input<I, Self::From>,
    ) -> I::V {
        let mut x = without_sign_of_zero(isa, scale.others.loses_sign, block);
        let doubled = registers!(2, K => isa.add16(x[K], x[K]));
        let (mut exponent, mut mantissa) = (isa.high16(doubled), isa.low16(doubled));
        // An exponent of 255 is that of Inf or NaN.
        if isa.top_bits(isa.sub_u8(exponent, isa.splat8(127))) != 0 {
            let inf = isa.splat16(2 * Bf16::INF);
            x = registers!(2, K => isa.select_above16(doubled[K], inf, k.nan, x[K]));
            let doubled = registers!(2, K => isa.add16(x[K], x[K]));
            (exponent, mantissa) = (isa.high16(doubled), isa.low16(doubled));
        }
        let tables = tables(&scale);
        let [thresholds, codes] = registers!(2, ROW => isa.pieces_of(registers!(4, K => &tables[K][ROW])));
        let first = isa.lookup_pieces(codes, isa.splat8(8));
        let e = isa.min_u8(isa.sub_u8(exponent, first), isa.splat8(7));
        let below = is_below(isa, mantissa, isa.lookup_pieces(thresholds, e));
        let below_next = is_below(isa, mantissa, isa.lookup_pieces(thresholds, isa.or(e, isa.splat8(8))));
        let code = isa.sub8(isa.sub8(isa.lookup_pieces(codes, e), below), below_next);
        narrow::signed::<I, Finite>(isa, code, isa.signs16(x), k.sign)
    }
}

/// 1 where a byte is below a threshold, else 0.
#[inline(always)]
fn is_below<I: NarrowsByF16>(isa: I, bytes: I::V, thresholds: I::V) -> I::V {
    isa.min_u8(isa.sub_u8(thresholds, bytes), isa.splat8(1))
}
