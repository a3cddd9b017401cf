//! Quantising by way of float64: what there is no kernel for, some ten times as fast as by the reference.
//!
//! A quotient of float64s, rounded to nearest, is on the same side of a number as the exact one, and is no number that the exact
//! one is not, if the product of that number and the divisor is a float64, too: with that product the dividend would be one of
//! two neighbours, and their quotients are apart. So where divisors and what roundings hinge on (numbers of the target and what
//! is halfway between two of them) have no more than 53 significant bits together, rounding twice is rounding once.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::iter::repeat_n;
use core::mem::take;
use core::ops::Range;

use super::codes::{Elements, Scratch, TILE, cast};
use super::error::Error;
use super::exact::Exact;
use super::memory::{array, collect, once};
use super::numbers::Known;
use super::rule::{Block, Extremes, Quantize, Steps, Way, significant};
use super::scaling::{NonFinite, TensorScale};
use super::shape::Grid;
use crate::cast::Caster;
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
use crate::formats::layout::ByteOrder;
use crate::formats::options::{CastOptions, Rounding};
use crate::kernels::memory::Destination;
use crate::kernels::present::Present;
use crate::kernels::scales::{Operation, arithmetic};

/// Data between these magnitudes have quotients that neither over- nor underflow: divisors are between 2^-300 and 2^300.
const LEAST: u64 = (1023 - 700) << 52;
const MOST: u64 = (1023 + 700) << 52;
/// The bits of Inf, and all but the sign.
const INF: u64 = 0x7FF << 52;
const MAGNITUDE: u64 = u64::MAX >> 1;

/// How a quotient, as it is rounded by a profile, becomes an element.
#[derive(Clone, Copy, Debug)]
enum Last {
    Float(Caster),
    /// To float32 before, of which chance makes an element.
    Chance(Caster, Caster),
    /// The same of a number a little nearer to zero, and of -0 for 0: ties go there.
    TiesTowardZero(Caster),
    /// Rounded to an integer between two.
    Int {
        rounding: Rounding,
        min: f64,
        max: f64,
        /// Zero points are added to quotients, not to integers.
        adds_first: bool,
        cast: Caster,
    },
}

/// What is decided once of a quantisation by way of float64.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide {
    isa: Present,
    operation: Operation,
    /// To the dtype in which a profile computes, and back: of data, and of quotients.
    data: Option<[Caster; 2]>,
    quotients: Option<[Caster; 2]>,
    loses_sign: bool,
    is_own: bool,
    nonfinite: NonFinite,
    last: Last,
}

/// Room for tiles.
pub(super) struct WideRoom {
    /// Values, what they are divided by or multiplied with, and zero points.
    tiles: Box<[[f64; TILE]; 3]>,
    known: Known<Number>,
}

/// Loads data from one element on, exactly. False if they are for the reference.
pub(super) type Load<'a> = &'a mut dyn FnMut(usize, &mut [f64]) -> Result<bool, Error>;

impl WideRoom {
    /// Made if it is not there.
    #[inline(never)]
    pub(super) fn of<'a>(place: &'a mut Option<Self>, grid: &Grid) -> Result<&'a mut Self, Error> {
        once(place, || Ok(Self { tiles: array([0.0; TILE])?, known: Known::new(grid)? }))
    }
}

/// What the elements of a scale are divided by or multiplied with, and their zero point.
#[derive(Clone, Copy, Default)]
struct Number {
    /// 0 where the reference is asked.
    by: f64,
    zero: f64,
}

/// Values as a dtype has them.
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
    /// Of data of so many significant bits. None if float64 is not right for it, or if nothing is done by registers.
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
        Some(Self {
            isa,
            operation,
            data: through.filter(|_| !holds_data),
            quotients: through,
            loses_sign: quantize.loses_sign(),
            is_own: quantize.is_own(),
            nonfinite: quantize.nonfinite,
            last,
        })
    }

    /// Casts a tile of data, whose scales are known. False if some of it is for the reference.
    pub(super) fn cast(
        &self,
        tile: &Tile<'_>,
        load: Load<'_>,
        block: &dyn Fn(usize) -> Block,
        room: &mut WideRoom,
        scratch: &mut Scratch,
        dst: Destination<'_, u8>,
    ) -> Result<bool, Error> {
        let n = tile.n;
        let [values, by, zeros] = room.tiles.each_mut().map(|tile| &mut tile[..n]);
        let moved = self.moved(tile.tensor);
        let is_right = load(tile.first, values)?
            && are_calm(values)
            && numbers(tile, by, zeros, &mut room.known, &|scale| number(&block(scale), moved));
        if !is_right {
            return Ok(false);
        }
        if self.loses_sign {
            values.iter_mut().for_each(|value| *value += 0.0);
        }
        round(values, &self.data, scratch)?;
        if let Some(g) = moved {
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
                let whole = values.iter_mut().zip(zeros);
                if *rounding == Rounding::NearestEven {
                    whole.for_each(|(value, zero)| *value = between(nearest(*value) + *zero, *min, *max));
                } else {
                    whole.for_each(|(value, zero)| {
                        *value = between(integer(*value, *rounding) + *zero, *min, *max);
                    });
                }
                cast.fill(&*values, dst, n)?
            }
        };
        Ok(true)
    }

    /// What data are multiplied with, because a scale divided by it may have more bits than float64.
    fn moved(&self, tensor: TensorScale) -> Option<f64> {
        match tensor {
            TensorScale::Divide(g) if self.is_own => Some(g.into()),
            _ => None,
        }
    }

    /// The extremes of so many blocks, from scale `base` on, whose elements these are; without a first scale of all. None if they are
    /// for the reference.
    pub(super) fn extremes(
        &self,
        load: Load<'_>,
        grid: &Grid,
        elements: &mut dyn Iterator<Item = Range<usize>>,
        base: Option<usize>,
        blocks: usize,
        room: &mut WideRoom,
    ) -> Result<Option<Vec<Extremes>>, Error> {
        let mut found = collect(repeat_n([0; 2], blocks))?;
        for all in elements {
            for first in all.clone().step_by(TILE) {
                let n = TILE.min(all.end - first);
                let values = &mut room.tiles[0][..n];
                if !load(first, values)? {
                    return Ok(None);
                }
                match base {
                    Some(base) => grid.runs(first, n, |run, scale| {
                        add_largest(&values[run], &mut found[scale - base], self.nonfinite);
                    }),
                    None => add_largest(values, &mut found[0], self.nonfinite),
                }
            }
        }
        collect(found.into_iter().map(extremes)).map(Some)
    }
}

/// Elements of data, from one on.
pub(super) struct Tile<'a> {
    pub(super) grid: &'a Grid,
    pub(super) first: usize,
    pub(super) n: usize,
    /// The factor of the tensor, computed.
    pub(super) tensor: TensorScale,
}

/// The numbers of the scales of a tile. False if one is for the reference.
fn numbers(
    tile: &Tile<'_>,
    by: &mut [f64],
    zeros: &mut [f64],
    known: &mut Known<Number>,
    find: &dyn Fn(usize) -> Number,
) -> bool {
    let mut is_right = true;
    tile.grid.runs(tile.first, tile.n, |run, scale| {
        let number = known.get(scale, || find(scale));
        is_right &= number.by != 0.0;
        fill(&mut by[run.clone()], number.by);
        fill(&mut zeros[run], number.zero);
    });
    is_right
}

/// What elements of a scale are divided by or multiplied with, and their zero point.
fn number(block: &Block, moved: Option<f64>) -> Number {
    let by = match block.way {
        Way::Exact(s) => moved.map_or(s, |g| s.mul(Exact::f64(g))),
        Way::Divide(by, _) | Way::Times(by, _) => by,
        Way::Zero | Way::NaN => Exact::ZERO,
    };
    let by = by.to_f64();
    let is_right = by.is_finite() && block.float_zero.is_none();
    Number { by: if is_right { by } else { 0.0 }, zero: block.zero as f64 }
}

/// Have divisors and what roundings hinge on no more than 53 bits together?
fn is_right(quantize: &Quantize, bits: u32) -> bool {
    let Quantize { to, scale, steps, tensor, .. } = *quantize;
    // A profile rounds both, and the quotient to at most float32; or to float64, as the division does.
    if steps != Steps::Own {
        return true;
    }
    let is_power = |g: f32| g.to_bits() & 0x7F_FFFF == 0;
    let factor = match tensor {
        TensorScale::None => 0,
        TensorScale::Multiply(g) | TensorScale::Divide(g) if is_power(g) => 0,
        // Data are multiplied with what the scale is divided by: exactly.
        TensorScale::Divide(_) | TensorScale::ComputeDivide if bits + 24 > 53 => return false,
        TensorScale::Divide(_) | TensorScale::ComputeDivide => 0,
        TensorScale::Multiply(_) | TensorScale::ComputeMultiply => 24,
    };
    // One bit more for what is halfway, and one for a zero point.
    let hinges = match quantize.stochastic {
        Some(_) => 25,
        None => significant(to) + 2,
    };
    significant(scale) + factor + hinges <= 53
}

/// Extremes from the bits of the largest magnitudes below zero and above.
fn extremes([low, high]: [u64; 2]) -> Extremes {
    let mut all = Extremes::NONE;
    all.add(Exact::f64(f64::from_bits(low)).neg(), NonFinite::Propagate);
    all.add(Exact::f64(f64::from_bits(high)), NonFinite::Propagate);
    all
}

/// Adds values to the bits of the largest magnitudes of negative ones and of others.
#[inline(never)]
fn add_largest(values: &[f64], [low, high]: &mut [u64; 2], nonfinite: NonFinite) {
    let most = if nonfinite == NonFinite::Ignore { INF } else { u64::MAX };
    for value in values {
        let bits = value.to_bits();
        let magnitude = bits & MAGNITUDE;
        let counted = if magnitude < most { magnitude } else { 0 };
        let (below, above) = if bits > MAGNITUDE { (counted, 0) } else { (0, counted) };
        *low = below.max(*low);
        *high = above.max(*high);
    }
}

#[inline(never)]
fn fill(places: &mut [f64], value: f64) {
    places.fill(value);
}

/// Are all zeros, or of a magnitude that divides without over- and underflow?
fn are_calm(values: &[f64]) -> bool {
    let is_calm = |value: &f64| {
        let magnitude = value.to_bits() & MAGNITUDE;
        (magnitude == 0) | (magnitude.wrapping_sub(LEAST) < MOST - LEAST)
    };
    values.iter().fold(true, |all, value| all & is_calm(value))
}

/// The next float64 toward zero, which rounds as its neighbour does but where that is halfway; and -0 for 0.
fn nearer_to_zero(value: f64) -> f64 {
    if value == 0.0 { -0.0 } else { f64::from_bits(value.to_bits() - 1) }
}

/// The integer that is nearest, and of two the even one; far from 0 any.
fn nearest(value: f64) -> f64 {
    /// What has this added has no bits below one.
    const WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
    const FAR: f64 = (1u64 << 40) as f64;
    between(value, -FAR, FAR) + WHOLE - WHOLE
}

/// The integer that a number is rounded to.
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

/// A number that is no NaN, or the limit that it is beyond.
fn between(value: f64, min: f64, max: f64) -> f64 {
    let value = if value < min { min } else { value };
    if value > max { max } else { value }
}
