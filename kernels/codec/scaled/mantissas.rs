//! Divides bfloat16 by scales, exponents and mantissas apart.

use super::super::narrow::ROUNDED_MANTISSAS;
use super::super::source::{AsBytes, AsQuotients, Bf16, Half, Input};
use super::super::width::registers;
use super::arrays::delta;
use super::tabled::With128;
use super::under::{Scaled, Under, without_sign_of_zero};
use crate::formats::dtype::FloatFormat;
use crate::kernels::scaled::operands::{How, Table128};
use crate::kernels::simd::NarrowsByWords;

/// bfloat16s divided by their scales, exponents and mantissas apart, in front of the encoders that look up both.
///
/// ```text
/// x = 2^e * m                      m is one of 128 mantissas, from 1 to 2
/// m / S = 2^(E - less) * n         n from 1 to 2; E is the exponent of the largest quotient, that of 127 / 64, and `less` is 0 or 1
/// x / S = 2^(e + E - less) * n
/// ```
/// * For each m, the table of a scale has the mantissa of n, rounded to odd to 5 bits, and -less.
/// * The encoders look up exponents from a first one on. `deltas` have the e that becomes this first exponent if `less` is 0.
/// * Quotients by powers of two have the mantissas of the elements, so that one table serves all such scales.
/// * A subnormal x counts as if it had an implicit bit, and becomes 0 in any case; Inf and NaN have an exponent beyond the last
///   one. Scales for which either does not hold have other kernels.
pub(in crate::kernels) type Mantissas = Scaled<With128<16>>;

/// The table of [`Mantissas`] for scales that are powers of two: mantissas stay as they are.
pub(crate) static UNDIVIDED: Table128 = {
    let mut mantissas = [0; 128];
    let mut m = 0;
    while m < 128 {
        mantissas[m] = ROUNDED_MANTISSAS[m / 64][m / 16 % 4][m % 16];
        m += 1;
    }
    Table128([mantissas, [0; 128]])
};

impl Half for Mantissas {
    const FORMAT: FloatFormat = Bf16::FORMAT;
}

impl<I: NarrowsByWords> AsQuotients<I> for Mantissas {
    #[inline(always)]
    fn first(isa: I, Under { loaded, scale }: &Self::Loaded<I>, mantissa: I::V, _: I::V) -> I::V {
        let first = if scale.shift >= const { I::BYTES.trailing_zeros() } {
            isa.splat32(delta(scale, 0))
        } else {
            isa.halves32(delta(scale, 0), delta(scale, I::BYTES / 2))
        };
        // Powers of two, for which all mantissas stay as they are.
        if scale.how == How::Near {
            return first;
        }
        isa.sub8(first, isa.lookup_two(loaded[1], mantissa))
    }

    #[inline(always)]
    fn mantissas(Under { loaded, .. }: &Self::Loaded<I>, _: [I::V; 2]) -> [I::V; 2] {
        loaded[0]
    }

    #[inline(always)]
    fn least(isa: I, Under { scale, .. }: &Self::Loaded<I>, _: I::V) -> [I::V; 2] {
        registers!(2, K => isa.splat32(delta(scale, K * I::BYTES / 2)))
    }

    #[inline(always)]
    fn read(isa: I, Under { scale, .. }: &Self::Loaded<I>, x: [I::V; 2]) -> [I::V; 2] {
        without_sign_of_zero(isa, scale.others.loses_sign, x)
    }
}

impl<I: NarrowsByWords> AsBytes<I> for Mantissas {
    #[inline(always)]
    fn bytes(isa: I, Input { block, .. }: Input<I, Self>) -> [I::V; 3] {
        Bf16::bytes(isa, Input { block, loaded: () })
    }
}

/// Converts the quotients of 128 mantissas by each scale, as float32, to the tables of [`Mantissas`] and the largest exponent of each.
#[inline(always)]
pub(super) fn split(quotients: &[u8], tables: &mut [Table128], exponents: &mut [u32]) {
    let quotients = quotients.as_chunks::<4>().0.as_chunks::<128>().0;
    for ((quotients, table), exponent) in quotients.iter().zip(tables).zip(exponents) {
        let largest = u32::from_ne_bytes(quotients[127]) >> 23;
        *exponent = largest;
        let Table128([mantissas, less]) = table;
        for ((q, mantissa), less) in quotients.iter().zip(mantissas).zip(less) {
            let q = u32::from_ne_bytes(*q);
            let sticky = u32::from(q & 0x7_FFFF != 0);
            // The bits above are 1: see `ROUNDED_MANTISSAS`.
            *mantissa = (0xE0 | q >> 18 & 0x1E | sticky) as u8;
            *less = (q >> 23).wrapping_sub(largest) as u8;
        }
    }
}
