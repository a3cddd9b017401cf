//! Quantisation by way of float64, for what has no kernel: some ten times as fast as the reference.
//!
//! Data are divided in float64, and the quotient is cast to the target, which rounds twice. The result is nevertheless that of one
//! rounding. The second rounding hinges on *boundaries*: the numbers of the target and the midpoints between two of them. Let b be a
//! boundary and d the divisor. If b·d is exact in float64, then the data x is less than, equal to or greater than b·d, and as both are
//! float64s, they differ by a whole ulp or not at all. So the rounded quotient x/d lies on the same side of b as the exact one, and
//! equals b only if the exact one does. Hence the condition: a divisor and a boundary have no more than 53 significant bits together.
//!
//! Scales are found in the same way: the largest magnitude of a block is divided by the largest value of the target and the
//! tensor scale, and the boundaries are those of the scale's dtype.

use alloc::boxed::Box;
use core::mem::take;
use core::ops::Range;

use super::codes::{Elements, Scratch, TILE, cast};
use super::error::Error;
use super::exact::Exact;
use super::memory::{array, collect, once};
use super::numbers::{Known, zeros};
use super::rule::{Block, Blocks, Quantize, Steps, Way, epsilon, significant};
use super::scaling::{NonFinite, ScaleRule, TensorScale};
use super::shape::Grid;
use crate::cast::Caster;
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
use crate::formats::layout::ByteOrder;
use crate::formats::options::{CastOptions, Rounding};
use crate::kernels::memory::{Destination, bytes_of};
use crate::kernels::present::Present;
use crate::kernels::scaled::float64::{Operation, arithmetic, between, integers, nearest, outside};
use crate::kernels::scaled::magnitudes::{Side, extremes, largest_f64};

/// Data of magnitudes in this range have quotients that neither overflow nor underflow, since divisors are between 2^-300 and 2^300.
const LEAST: u64 = (1023 - 700) << 52;
const MOST: u64 = (1023 + 700) << 52;
/// Data below this magnitude do not overflow when a profile rounds them to float32.
const MOST_F32: u64 = (1023 + 127) << 52;
/// Extremes from this magnitude on, 2^-100, have scales that are not 0 in float32.
const LEAST_EXTREME: u64 = (1023 - 100) << 52;
/// The least scale of float8_e8m0fnu: 2^-127.
const LEAST_POWER: u64 = (1023 - 127) << 52;
/// The bits of +Inf, and the mask of all bits but the sign.
const INF: u64 = 0x7FF << 52;
const MAGNITUDE: u64 = u64::MAX >> 1;

/// The last step: how a quotient becomes an element.
#[derive(Clone, Copy, Debug)]
enum Last {
    Float(Caster),
    /// Casts to float32, and from there by stochastic rounding.
    Chance(Caster, Caster),
    /// Rounds ties toward zero: the quotient is first moved to the next float64 toward zero. 0 becomes -0.
    TiesTowardZero(Caster),
    /// Rounds to an integer and clamps it.
    Int {
        rounding: Rounding,
        min: f64,
        max: f64,
        /// Whether the zero point is added before the quotient is rounded, not after.
        adds_first: bool,
        cast: Caster,
    },
}

/// How scales become what elements are divided by or multiplied with: the product with a factor, or the inverse.
#[derive(Clone, Copy, Debug)]
struct Scales {
    to_f64: Caster,
    /// What the profile uses for a scale of 2^-127.
    least: f64,
    inverts: bool,
    factor: f64,
}

/// How largest magnitudes become scales.
#[derive(Clone, Copy, Debug)]
struct Finding {
    /// Magnitudes below this other than 0, and those from `most` on, are left to the reference.
    least: u64,
    most: u64,
    /// What magnitudes are divided by, apart from the tensor scale.
    divisor: f64,
    made: Made,
}

/// How a magnitude that was divided becomes a scale.
#[derive(Clone, Copy, Debug)]
enum Made {
    /// A power of two: its exponent is that of the bits after `added` was added to them, less `top`.
    Exponent { added: u64, top: i64 },
    /// Rounded to nearest even to the dtype of the scales, and clamped.
    Nearest { least: f64, most: f64, cast: Caster },
}

/// How the extremes of blocks become scales and zero points.
#[derive(Clone, Copy, Debug)]
struct Affine {
    /// The smallest and the largest integer.
    least: f64,
    most: f64,
    /// The scale where the quotient is 0.
    epsilon: f64,
    /// Whether a scale that underflows to 0 stays so, unless all numbers are 0.
    keeps_zero: bool,
    /// Casts to the dtype of the scales.
    cast: Caster,
}

/// The steps of a quantisation by way of float64: decided once per [`Quantize`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide {
    isa: Present,
    operation: Operation,
    /// Casts to the dtype in which a profile computes, and back, which round the data (`data`) and the quotients to it.
    data: Option<[Caster; 2]>,
    quotients: Option<[Caster; 2]>,
    loses_sign: bool,
    is_own: bool,
    nonfinite: NonFinite,
    last: Last,
    /// How to decode many scales at a time. None if they are decoded one by one.
    scales: Option<Scales>,
    finding: Option<Finding>,
    /// None if the profile finds no zero points.
    affine: Option<Affine>,
}

/// The buffers for one tile.
pub(super) struct WideRoom {
    /// The values, what each is divided by or multiplied with, and its zero point.
    tiles: [Box<[f64; TILE]>; 3],
    /// A cache for scales that are decoded one by one, allocated when first needed.
    known: Option<Known<Number>>,
}

/// Loads data from an element on, exactly. Returns false if that is left to the reference.
pub(super) type Load<'a> = &'a mut dyn FnMut(usize, &mut [f64]) -> Result<bool, Error>;

impl WideRoom {
    /// Returns the buffers in `place`, allocated if there are none.
    #[inline(never)]
    pub(super) fn of(place: &mut Option<Self>) -> Result<&mut Self, Error> {
        once(place, || Ok(Self { tiles: [array(0.0)?, array(0.0)?, array(0.0)?], known: None }))
    }
}

/// What the elements of a block are divided by or multiplied with, and their zero point.
#[derive(Clone, Copy, Default)]
pub(super) struct Number {
    /// 0 if the block is left to the reference.
    pub(super) by: f64,
    zero: f64,
}

/// Rounds values to a dtype and casts them back.
fn round(values: &mut [f64], casts: &Option<[Caster; 2]>, room: &mut Scratch) -> Result<(), Error> {
    if let Some([there, back]) = casts {
        let n = values.len();
        let room = &mut room[..n * there.to().bits() as usize / 8];
        there.fill(&*values, (&mut *room).into(), n)?;
        back.fill(&*room, values.into(), n)?;
    }
    Ok(())
}

impl Wide {
    /// Decides the steps for data of `bits` significant bits. Returns None if float64 would not be exact enough, or on the
    /// scalar reference.
    pub(super) fn new(quantize: &Quantize, bits: u32, write: &Elements) -> Option<Self> {
        let Quantize { from, to, steps, .. } = *quantize;
        let (isa, write) = (write.present(), write.options());
        if isa.isa() == Isa::Scalar || !is_right(quantize, bits) {
            return None;
        }
        let plain = CastOptions::new().isa(isa.isa());
        let (operation, dtype) =
            match quantize.given(quantize.scale_limits().0, 0, TensorScale::Multiply(1.0)).way {
                Way::Exact(_) => (Operation::Divide, DType::F64),
                Way::Divide(_, dtype) => (Operation::Divide, dtype),
                Way::Times(_, dtype) => (Operation::Multiply, dtype),
                Way::Zero | Way::NaN => return None,
            };
        let through = if dtype == DType::F64 {
            None
        } else {
            Some([cast(DType::F64, dtype, &plain)?, cast(dtype, DType::F64, &plain)?])
        };
        let holds_data = dtype == from || dtype == DType::F32 && from.bits() == 16;
        let options = match steps {
            Steps::Own => write,
            Steps::Onnx => write.rounding(Rounding::NearestEven),
            _ => plain.nan_to_finite(write.nan_to_finite),
        };
        let options = options.isa(isa.isa()).dst_packing(write.dst_packing).dst_order(write.dst_order);
        let options = CastOptions { stochastic: quantize.stochastic, ..options }.src_order(ByteOrder::Native);
        let last = match quantize.int_limits() {
            Some((min, max)) => {
                let options = CastOptions { stochastic: None, ..plain };
                let options = options.dst_packing(write.dst_packing).dst_order(write.dst_order);
                let cast = cast(DType::F64, to, &options)?;
                Last::Int {
                    rounding: quantize.int_rounding,
                    min: min as f64,
                    max: max as f64,
                    adds_first: steps == Steps::Compressed,
                    cast,
                }
            }
            _ if steps == Steps::ModeloptMxfp4 => Last::TiesTowardZero(cast(DType::F64, to, &options)?),
            _ if quantize.stochastic.is_some() => {
                Last::Chance(cast(DType::F64, DType::F32, &plain)?, cast(DType::F32, to, &options)?)
            }
            _ => Last::Float(cast(DType::F64, to, &options)?),
        };
        let scales = Scales::new(quantize, cast(quantize.scale, DType::F64, &plain)?);
        let finding = scales.map(|_| Finding::new(quantize, &plain));
        let affine = match quantize.int_limits() {
            Some((min, max)) if quantize.finds_zero_points() => {
                let keeps_zero = steps == Steps::Onnx;
                Some(Affine {
                    least: min as f64,
                    most: max as f64,
                    // In ONNX the scale of zeros is 1.
                    epsilon: if keeps_zero { 1.0 } else { epsilon(from).to_f64() },
                    keeps_zero,
                    cast: cast(DType::F64, quantize.scale, &plain)?,
                })
            }
            _ => None,
        };
        Some(Self {
            isa,
            operation,
            data: through.filter(|_| !holds_data),
            quotients: through,
            loses_sign: quantize.loses_sign(),
            is_own: quantize.is_own(),
            nonfinite: quantize.nonfinite,
            last,
            scales,
            finding: finding.flatten(),
            affine,
        })
    }

    /// Casts a tile of data under known scales. Returns a bit for each 8 elements, which is 1 if they are left to the reference.
    pub(super) fn cast(
        &self,
        tile: &Tile<'_>,
        load: Load<'_>,
        blocks: &Blocks<'_>,
        room: &mut WideRoom,
        scratch: &mut Scratch,
        dst: Destination<'_, u8>,
    ) -> Result<u128, Error> {
        let n = tile.n;
        let [values, by, zeros] = room.tiles.each_mut().map(|tile| &mut tile[..n]);
        if !load(tile.first, values)? {
            return Ok(u128::MAX);
        }
        tile.numbers(by, zeros, blocks, &mut room.known, &|block| self.number(block, tile.tensor))?;
        let left = taken_out(self.isa, values, by);
        if self.loses_sign {
            values.iter_mut().for_each(|value| *value += 0.0);
        }
        round(values, &self.data, scratch)?;
        if let Some(g) = self.moved(tile.tensor) {
            values.iter_mut().for_each(|value| *value *= g);
        }
        arithmetic(self.isa, self.operation, values, by);
        round(values, &self.quotients, scratch)?;
        match &self.last {
            Last::Float(cast) => cast.fill(&*values, dst, n)?,
            Last::Chance(to_f32, cast) => {
                let room = &mut scratch[..4 * n];
                to_f32.fill(&*values, (&mut *room).into(), n)?;
                cast.at(tile.first).fill(&*room, dst, n)?
            }
            Last::TiesTowardZero(cast) => {
                values.iter_mut().for_each(|value| *value = nearer_to_zero(*value));
                cast.fill(&*values, dst, n)?
            }
            Last::Int { rounding, min, max, adds_first, cast } => {
                if *adds_first {
                    values.iter_mut().zip(zeros.iter_mut()).for_each(|(value, zero)| *value += take(zero));
                    round(values, &self.quotients, scratch)?;
                }
                if *rounding == Rounding::NearestEven {
                    integers(self.isa, values, zeros, [*min, *max]);
                } else {
                    values.iter_mut().zip(zeros).for_each(|(value, zero)| {
                        *value = between(integer(*value, *rounding) + *zero, *min, *max);
                    });
                }
                cast.fill(&*values, dst, n)?
            }
        };
        Ok(left)
    }

    /// Returns a factor that divides scales: the data are multiplied with it instead, since quotients of scales may not be
    /// exact in float64.
    fn moved(&self, tensor: TensorScale) -> Option<f64> {
        match tensor {
            TensorScale::Divide(g) if self.is_own => Some(g.into()),
            _ => None,
        }
    }

    /// Returns what the elements of a block are divided by or multiplied with, and their zero point.
    #[inline(never)] // It is called for a block, not for an element.
    pub(super) fn number(&self, block: &Block, tensor: TensorScale) -> Number {
        let by = match block.way {
            Way::Exact(s) => self.moved(tensor).map_or(s, |g| s.mul(Exact::f64(g))),
            Way::Divide(by, _) | Way::Times(by, _) => by,
            Way::Zero | Way::NaN => Exact::ZERO,
        };
        // An integer under a scale of Inf or NaN is its zero point: the quotient is 0, or a NaN, which counts as 0. (Data that are
        // rounded first may become Inf, whose quotient would be a NaN.)
        let otherwise = match (self.operation, &self.last) {
            (Operation::Divide, Last::Int { .. }) if self.data.is_none() => f64::INFINITY,
            _ => 0.0,
        };
        let by = by.to_f64();
        let by = if by.is_finite() { by } else { otherwise };
        Number { by: if block.float_zero.is_none() { by } else { 0.0 }, zero: block.zero as f64 }
    }

    /// Raises what is found on each side of zero, the largest magnitudes as bits of the blocks from scale `base` on, to those of these
    /// elements. Returns false if this is left to the reference.
    pub(super) fn largest(
        &self,
        load: Load<'_>,
        grid: &Grid,
        elements: &mut dyn Iterator<Item = Range<usize>>,
        base: usize,
        room: &mut WideRoom,
        sides: &mut [(Side, &mut [u64])],
    ) -> Result<bool, Error> {
        let limit = if self.nonfinite == NonFinite::Ignore { INF - 1 } else { MAGNITUDE };
        for all in elements {
            for first in all.clone().step_by(TILE) {
                let n = TILE.min(all.end - first);
                let values = &mut room.tiles[0][..n];
                if !load(first, values)? {
                    return Ok(false);
                }
                for (side, found) in &mut *sides {
                    match found {
                        [_] => largest_f64(self.isa, values, limit, *side, n, found),
                        _ => grid.stretches(first, n, &mut |places, scale| {
                            let (values, found) = (&values[places], &mut found[scale - base..]);
                            largest_f64(self.isa, values, limit, *side, grid.block(), found);
                        }),
                    }
                }
            }
        }
        Ok(true)
    }

    /// As [`Wide::largest`], of floats of 16 or 32 bits, in registers of their dtype. In `all` are the magnitudes of the negative
    /// elements, if there are `negative`, and then those of the others or of all. Returns false if an Inf or NaN must not count.
    #[inline(never)] // It is called for a piece.
    pub(super) fn largest_of_floats(
        &self,
        (bytes, to_f64): (&[u8], &Caster),
        grid: &Grid,
        elements: &mut dyn Iterator<Item = Range<usize>>,
        base: usize,
        all: &mut [u64],
        negative: usize,
    ) -> Result<bool, Error> {
        let bits = to_f64.from().bits();
        let width = bits as usize / 8;
        let mut found = zeros(0, all.len(), true)?;
        let (low, high) = found.split_at_mut(negative);
        for row in elements {
            grid.stretches(row.start, row.len(), &mut |places, scale| {
                let bytes = &bytes[width * (row.start + places.start)..width * (row.start + places.end)];
                let (at, group) =
                    if high.len() == 1 { (0, places.len()) } else { (scale - base, grid.block()) };
                let low = low.get_mut(at..).unwrap_or_default();
                extremes(self.isa, bytes, bits, group, low, &mut high[at..]);
            });
        }
        let halves;
        let codes = if width == 4 {
            bytes_of(&found)
        } else {
            halves = collect(found.iter().map(|x| *x as u16))?;
            bytes_of(&halves)
        };
        let n = all.len();
        to_f64.fill(codes, Destination::from(&mut *all).bytes(), n)?;
        let counts = |magnitude: &u64| self.nonfinite == NonFinite::Propagate || *magnitude < INF;
        Ok(all.iter().all(counts))
    }

    /// Whether [`Wide::zero_points`] can compute with this magnitude. ONNX keeps a scale that is 0, though not all numbers are.
    pub(super) fn can_find_zero_point(&self, magnitude: u64) -> bool {
        let from = if self.affine.is_some_and(|affine| affine.keeps_zero) { LEAST_EXTREME } else { LEAST };
        magnitude == 0 || (from..MOST_F32).contains(&magnitude)
    }

    /// Computes the codes of the scales and of the zero points of up to a tile of blocks from the largest magnitudes of their
    /// negative and of their other elements, by compressed-tensors' steps or DynamicQuantizeLinear's. They round to the dtype of the
    /// data after each operation; float64 is that dtype, or has more than twice its bits, so that to round twice changes nothing.
    /// Results are arbitrary where [`Wide::can_find_zero_point`] is false.
    pub(super) fn zero_points<'a>(
        &self,
        [low, high]: [&[u64]; 2],
        zeros: &mut [u8],
        room: &mut WideRoom,
        scratch: &'a mut Scratch,
    ) -> Result<&'a [u8], Error> {
        let (n, Some(Affine { least, most, epsilon, cast, .. })) = (low.len(), &self.affine) else {
            return Ok(&[]);
        };
        let [scales, shifted, by] = room.tiles.each_mut().map(|tile| &mut tile[..n]);
        for ((scale, shifted), (low, high)) in scales.iter_mut().zip(&mut *shifted).zip(low.iter().zip(high))
        {
            *shifted = f64::from_bits(*low);
            *scale = *shifted + f64::from_bits(*high);
        }
        round(scales, &self.quotients, scratch)?;
        fill(by, most - least);
        arithmetic(self.isa, Operation::Divide, scales, by);
        round(scales, &self.quotients, scratch)?;
        scales.iter_mut().for_each(|scale| *scale = if *scale == 0.0 { *epsilon } else { *scale });
        arithmetic(self.isa, Operation::Divide, shifted, scales);
        round(shifted, &self.quotients, scratch)?;
        shifted.iter_mut().for_each(|shifted| *shifted += least);
        round(shifted, &self.quotients, scratch)?;
        for (zero, shifted) in zeros.iter_mut().zip(shifted) {
            *zero = between(nearest(*shifted), *least, *most) as i64 as u8;
        }
        let codes = &mut scratch[..n * cast.to().bits() as usize / 8];
        cast.fill(&*scales, (&mut *codes).into(), n)?;
        Ok(codes)
    }

    /// Whether [`Wide::scales`] can compute the scale for this largest magnitude.
    pub(super) fn finds(&self, magnitude: u64) -> bool {
        let finds = |finding: Finding| magnitude == 0 || (finding.least..finding.most).contains(&magnitude);
        self.finding.is_some_and(finds)
    }

    /// Computes the codes of the scales for up to a tile of largest magnitudes, and in `numbers` what elements are divided by:
    /// see [`Wide::numbers`]. Results are arbitrary where [`Wide::finds`] is false.
    pub(super) fn scales<'a>(
        &self,
        largest: &[u64],
        tensor: TensorScale,
        numbers: &mut [f64],
        room: &mut WideRoom,
        scratch: &'a mut Scratch,
    ) -> Result<&'a [u8], Error> {
        let (n, Some(Finding { divisor, made, .. })) = (largest.len(), self.finding) else { return Ok(&[]) };
        let [values, by, _] = room.tiles.each_mut().map(|tile| &mut tile[..n]);
        for (value, &magnitude) in values.iter_mut().zip(largest) {
            *value = if self.finds(magnitude) { f64::from_bits(magnitude) } else { 0.0 };
        }
        round(values, &self.quotients, scratch)?;
        let (times, divisor) = match tensor {
            TensorScale::Multiply(g) => (1.0, divisor * f64::from(g)),
            TensorScale::Divide(g) => (f64::from(g), divisor),
            _ => (1.0, divisor),
        };
        values.iter_mut().for_each(|value| *value *= times);
        by.fill(divisor);
        arithmetic(self.isa, Operation::Divide, values, by);
        round(values, &self.quotients, scratch)?;
        let codes = match made {
            Made::Exponent { added, top } => {
                let codes = &mut scratch[..n];
                for (code, value) in codes.iter_mut().zip(values) {
                    let exponent = ((value.to_bits() + added) >> 52) as i64 - 1023 - top;
                    *code = (exponent.clamp(-127, 127) + 127) as u8;
                }
                codes
            }
            Made::Nearest { least, most, cast } => {
                // A block of zeros has the scale 1.
                values.iter_mut().for_each(|value| {
                    *value = if *value == 0.0 { 1.0 } else { between(*value, least, most) };
                });
                let codes = &mut scratch[..n * cast.to().bits() as usize / 8];
                cast.fill(&*values, (&mut *codes).into(), n)?;
                codes
            }
        };
        self.numbers(codes, tensor, numbers)?;
        Ok(codes)
    }

    /// Computes what elements are divided by or multiplied with from the codes of scales, in native byte order; 0 where that is
    /// left to the reference. Returns false if this scaling must decode scales one by one.
    #[inline(never)] // It is called for a tile.
    pub(super) fn numbers(
        &self,
        codes: &[u8],
        tensor: TensorScale,
        numbers: &mut [f64],
    ) -> Result<bool, Error> {
        let Some(Scales { to_f64, least, inverts, factor }) = self.scales else { return Ok(false) };
        let n = numbers.len();
        to_f64.fill(codes, (&mut *numbers).into(), n)?;
        let factor = if let TensorScale::Multiply(g) = tensor { factor * f64::from(g) } else { factor };
        for number in numbers {
            let s = if number.to_bits() == LEAST_POWER { least } else { *number };
            let by = if inverts { 1.0 / s } else { s * factor };
            *number = if by.is_finite() { by } else { 0.0 };
        }
        Ok(true)
    }
}

impl Scales {
    /// Returns None if this scaling must decode scales one by one.
    fn new(quantize: &Quantize, to_f64: Caster) -> Option<Self> {
        let rounds_up = quantize.rule == ScaleRule::RoundUp;
        let (least, inverts) = match quantize.steps {
            Steps::TorchaoMx if rounds_up => (1.0, true),
            Steps::TorchaoMx => (f64::from(f32::MIN_POSITIVE), false),
            Steps::ModeloptMxfp8 => (f64::from_bits(LEAST_POWER), true),
            Steps::Own | Steps::ModeloptMxfp4 | Steps::CompressedMx => (f64::from_bits(LEAST_POWER), false),
            _ => return None,
        };
        Some(Self { to_f64, least, inverts, factor: quantize.unit() })
    }
}

impl Finding {
    /// Returns None if there is no cast to the dtype of the scales.
    fn new(quantize: &Quantize, plain: &CastOptions) -> Option<Self> {
        let Quantize { scale, steps, rule, .. } = *quantize;
        let max = quantize.max_value();
        let most = if steps == Steps::Own { MOST } else { MOST_F32 };
        if scale != DType::F8E8M0 {
            let [least, largest] =
                [1, quantize.scale_limits().1].map(|code| Exact::decode(scale, code).to_f64());
            let made = Made::Nearest { least, most: largest, cast: cast(DType::F64, scale, plain)? };
            return Some(Self { least: LEAST, most, divisor: max, made });
        }
        let whole = (1 << 52) - 1;
        let (divisor, added) = match (steps, rule) {
            (Steps::CompressedMx, _) => (1.0, 1 << 50),
            (Steps::ModeloptMxfp4 | Steps::ModeloptMxfp8, _) | (_, ScaleRule::RoundUp) => (max, whole),
            (_, ScaleRule::Ceil) => (1.0, whole),
            (_, ScaleRule::Even) => (1.0, 1 << (51 - quantize.mantissa_bits())),
            (_, ScaleRule::Floor | ScaleRule::Amax) => (1.0, 0),
        };
        let top = if divisor == 1.0 { (max.to_bits() >> 52) as i64 - 1023 } else { 0 };
        // compressed-tensors ignores what is subnormal in the dtype of the data.
        let ignored = match quantize.from.float_format() {
            Some(format) if steps == Steps::CompressedMx => ((1023 + format.min_exponent()) as u64) << 52,
            _ => 0,
        };
        Some(Self { least: ignored.max(LEAST), most, divisor, made: Made::Exponent { added, top } })
    }
}

/// `n` elements from `first` on.
pub(super) struct Tile<'a> {
    pub(super) grid: &'a Grid,
    pub(super) first: usize,
    pub(super) n: usize,
    /// The tensor scale, already computed if it had to be.
    pub(super) tensor: TensorScale,
}

impl Tile<'_> {
    /// Fills `by` with what each element is divided by or multiplied with, and `zeros` with zero points.
    fn numbers(
        &self,
        by: &mut [f64],
        zeros: &mut [f64],
        blocks: &Blocks<'_>,
        known: &mut Option<Known<Number>>,
        find: &dyn Fn(&Block) -> Number,
    ) -> Result<(), Error> {
        let Self { grid, first, n, .. } = *self;
        if blocks.numbers.is_empty() {
            let known = once(known, || Known::new(grid))?;
            grid.runs(first, n, &mut |run, scale| {
                let number = known.get(scale, || find(&(blocks.each)(scale)));
                fill(&mut by[run.clone()], number.by);
                fill(&mut zeros[run], number.zero);
            });
            return Ok(());
        }
        grid.stretches(first, n, &mut |places, scale| {
            let (by, numbers) = (&mut by[places], &blocks.numbers[scale - blocks.base..]);
            if grid.block() == 1 {
                by.copy_from_slice(&numbers[..by.len()]);
                return;
            }
            for (by, number) in by.chunks_mut(grid.block()).zip(numbers) {
                by.fill(*number);
            }
        });
        zeros.fill(0.0);
        Ok(())
    }
}

/// Whether a divisor and a boundary have no more than 53 bits together: see the head of this file.
fn is_right(quantize: &Quantize, bits: u32) -> bool {
    let Quantize { to, scale, steps, tensor, .. } = *quantize;
    // The operands and quotients of a profile are float32 at most, for which float64 has more than twice the bits, or they are
    // float64 itself.
    if steps != Steps::Own {
        return true;
    }
    let is_power = |g: f32| g.to_bits() & 0x7F_FFFF == 0;
    let factor = match tensor {
        TensorScale::None => 0,
        TensorScale::Multiply(g) | TensorScale::Divide(g) if is_power(g) => 0,
        // Here the data are multiplied with the factor instead ([`Wide::moved`]), and the product must be exact.
        TensorScale::Divide(_) | TensorScale::ComputeDivide if bits + 24 > 53 => return false,
        TensorScale::Divide(_) | TensorScale::ComputeDivide => 0,
        TensorScale::Multiply(_) | TensorScale::ComputeMultiply => 24,
    };
    // Midpoints have one more bit, and a zero point takes another one among integers.
    let hinges = match quantize.stochastic {
        Some(_) => 25,
        None => significant(to) + 1 + u32::from(quantize.int_limits().is_some()),
    };
    significant(scale) + factor + hinges <= 53
}

#[inline(never)]
fn fill(places: &mut [f64], value: f64) {
    places.fill(value);
}

/// Finds the elements that are left to the reference: magnitudes that might overflow or underflow (but not zeros), and divisors
/// of zero. Returns a bit for each 8 elements, and replaces those by harmless values.
fn taken_out(isa: Present, values: &mut [f64], by: &mut [f64]) -> u128 {
    let all = outside(isa, values, LEAST..MOST, by);
    let mut left = all;
    while left != 0 {
        let first = 8 * left.trailing_zeros() as usize;
        left &= left - 1;
        let eight = first..values.len().min(first + 8);
        values[eight.clone()].fill(0.0);
        by[eight].fill(1.0);
    }
    all
}

/// Returns the next float64 toward zero, which rounds as `value` does unless `value` is a tie. 0 becomes -0.
fn nearer_to_zero(value: f64) -> f64 {
    if value == 0.0 { -0.0 } else { f64::from_bits(value.to_bits() - 1) }
}

/// Returns the integer that a number is rounded to.
fn integer(value: f64, rounding: Rounding) -> f64 {
    let nearest = nearest(value);
    let off = value - nearest;
    let (down, up) = match rounding {
        Rounding::NearestEven => (false, false),
        Rounding::NearestAway => (off == -0.5 && value < 0.0, off == 0.5 && value > 0.0),
        Rounding::TowardZero => (off < 0.0 && value > 0.0, off > 0.0 && value < 0.0),
        Rounding::Up => (false, off > 0.0),
        Rounding::Down => (off < 0.0, false),
    };
    nearest - f64::from(u8::from(down)) + f64::from(u8::from(up))
}
