//! Casts codes by a table of 16 words.

use super::super::job::{Job, Table, Target};
use super::super::source::Input;
use super::super::width::{Bits, Width, registers};
use super::super::{Block, Codec};
use super::arrays::delta;
use super::under::{Reads, Scaled, Under};
use crate::formats::dtype::Kind;
use crate::kernels::scaled::operands::{Scale, Table16, Table128};
use crate::kernels::simd::{NarrowsByF16, Simd};

/// Codes of `BITS` bits, by a table of 16 words for each group. A code of 4 bits is the index of its word. For codes of 8 bits, to bfloat16:
///
/// ```text
/// first = exponent of the code, but 1 if it is larger
/// word = words[first and the mantissa]       of one of the first codes, up to the end of those with exponent 1
/// word += exponent - first                   the product has the same significant bits, and is rounded in the same way
/// ```
/// No product is subnormal or beyond the largest number, and no scale is 0 or negative. NaN and Inf are the same under all scales.
///
/// If groups of codes of 8 bits have deltas, all of them use the first 16 words of one table of bfloat16 instead, and the delta
/// of a group is added to the exponents of words other than 0.
pub(in crate::kernels) struct Sixteen<const BITS: usize>;

impl<const BITS: usize> Reads for Sixteen<BITS>
where
    Bits<BITS>: Width,
{
    type Width = Bits<BITS>;
    /// The low bytes of the words, and the high ones.
    type Loaded<I: Simd> = [I::V; 2];

    #[inline(always)]
    fn loaded<I: Simd>(isa: I, _: &Table) -> [I::V; 2] {
        [isa.splat32(0); 2]
    }

    #[inline(always)]
    fn begin<I: Simd>(isa: I, loaded: &mut [I::V; 2], scale: &Scale, is_kept: bool) {
        let is_one = BITS == 8 && !scale.deltas.is_null();
        let group = if is_one { Scale::ALL } else { scale.shift };
        if !is_kept || scale.at & ((1 << group) - 1) == 0 {
            // SAFETY: whoever makes a scale promises that there are words for all blocks, which the loop counts.
            unsafe {
                let (low, all) = if is_one {
                    (scale.tables.cast::<u8>(), size_of::<Table128>())
                } else {
                    (scale.sixteens.add(scale.at >> group).cast::<u8>(), size_of::<Table16>())
                };
                let high = low.add(all / 2);
                *loaded = [isa.load_pieces(low, 0), isa.load_pieces(high, 0)];
            }
        }
    }
}

/// Masks of the bits of a code, and what codes of 8 bits need.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct CodeParts<V> {
    /// All bits but the sign, if codes have one.
    magnitude: V,
    mantissa: V,
    exponent: V,
    /// The lowest bit of an exponent.
    first: V,
    /// The shift from there to the exponent of a bfloat16, in the high byte of a word.
    right: V,
    /// The code of the largest number. Inf and NaN are above it.
    most: V,
    /// The distance of Inf from the largest number; 0 if there is no Inf.
    inf: V,
}

impl<I: NarrowsByF16, const BITS: usize> Codec<I> for Sixteen<BITS>
where
    Bits<BITS>: Width<Block<I> = I::V>,
{
    type From = Scaled<Self>;
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
        Input { block, loaded: Under { loaded: [low, high], scale } }: Input<I, Self::From>,
    ) -> Block<I, Bits<16>> {
        // The bits above a code of 4 bits are arbitrary.
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
