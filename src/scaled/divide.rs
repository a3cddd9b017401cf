//! What registers do of a quantisation, from floats of 16 and 32 bits: by lanecast's own rule to nearest even, and by the steps
//! of the profiles.
//!
//! The largest magnitudes of the blocks are found, scales made of them many at a time, and the elements divided, of as many
//! rows and columns together as a cache holds. Blocks whose scale is not one the kernel is right for are the reference's.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::iter::repeat_n;
use core::mem::take;
use core::ops::Range;

use super::codes::Elements;
use super::engine::{Given, Quantizing, Room, Sink};
use super::error::Error;
use super::exact::Exact;
use super::fast::{LEAST, MOST, NO_NUMBERS, Numbers, Region, SCALES, Segment, expand, magnitude, zeros};
use super::memory::{array, collect, once};
use super::rule::{Block, Extremes, Quantize, Steps, Way};
use super::scaling::{NonFinite, ScaleRule, TensorScale};
use super::shape::Piece;
use crate::cast::Caster;
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::options::{CastOptions, Rounding};
use crate::kernels::memory::{Destination, bytes_of};
use crate::kernels::present::Present;
use crate::kernels::scaled::{
    self, BLOCK, Bounds, Factors, How, Kernel, LEAST_GROUP, Near, Operation, Others, Per, Rows, TIES, WRONG,
};

/// Bytes of data that stay in a cache between the two passes over them.
const CACHED: usize = 256 << 10;

/// Bytes of a row from which on rows that are far from each other are read as fast as one.
const APART: usize = 2 << 10;

/// Room for the numbers of scales.
struct Buffers {
    scales: Vec<f32>,
    rests: Vec<f32>,
    inverses: Vec<f32>,
    zeros: Vec<f32>,
    /// What is [`WRONG`] of scales, or what [`TIES`].
    flags: Vec<u8>,
    /// Of single elements, once there are such.
    each: Option<Box<[Numbers; 4]>>,
    amax: Vec<u32>,
    wide: Vec<f64>,
    by: Vec<f64>,
    codes: Vec<u8>,
    /// Scales in the dtype in which a profile divides, if that has 16 bits.
    kept: Vec<u8>,
    /// The quotients of a segment as float32, if something else makes elements of them.
    quotients: Vec<u8>,
}

impl Buffers {
    /// For so many scales.
    fn new(n: usize, divide: &Divide<'_>, is_found: bool, has_zeros: bool) -> Result<Self, Error> {
        let Divide { splits, decided, .. } = *divide;
        Ok(Self {
            kept: zeros(0, 2 * n, decided.kept.is_some())?,
            scales: zeros(0.0, n + BLOCK, true)?,
            rests: zeros(0.0, n + BLOCK, splits)?,
            inverses: zeros(0.0, n + BLOCK, true)?,
            zeros: zeros(0.0, n + BLOCK, has_zeros)?,
            flags: zeros(0, n, true)?,
            each: None,
            amax: zeros(0, n, is_found)?,
            wide: zeros(0.0, n, is_found)?,
            by: zeros(0.0, n, is_found)?,
            codes: zeros(0, 4 * n, true)?,
            quotients: Vec::new(),
        })
    }
}

/// What registers do of a quantisation: decided once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    isa: Present,
    kernel: Kernel,
    /// What makes elements of the quotients, if the kernel leaves them float32.
    then: Option<Caster>,
    /// Elements of fewer than 8 bits share bytes.
    is_packed: bool,
    /// Magnitudes to float32 and to float64, and scales from there and to float32.
    half: Caster,
    wide: Caster,
    scale: Caster,
    to_f32: Caster,
    /// Magnitudes that are divided by one number, to scales of few bits.
    scales: Option<Kernel>,
    /// Scales that a profile finds as float32 to their dtype.
    narrow: Option<Caster>,
    /// To the dtype in which a profile divides, and back, if that has 16 bits.
    kept: Option<[Caster; 2]>,
    how: How,
    others: Others,
    /// What exponents of scales are made by: [`added`].
    added: (u32, u32),
}

impl Decided {
    /// Of elements that are read and written so. None if the reference is as good.
    pub(super) fn new(quantize: &Quantize, read: &Elements, write: &Elements) -> Option<Self> {
        let Quantize { from, to, scale, steps, .. } = *quantize;
        let isa = read.present();
        if isa.isa() == Isa::Scalar || !matches!(from, DType::F32 | DType::BF16 | DType::F16) {
            return None;
        }
        let (how, others) = how(quantize)?;
        let written = write.options();
        // Integers saturate, whatever other casts do; and so do most profiles.
        let plain = CastOptions::new().isa(isa.isa());
        let options = match steps {
            Steps::Own | Steps::Onnx if to.float_format().is_some() => written,
            _ => plain.nan_to_finite(written.nan_to_finite),
        };
        let options = CastOptions { src_order: read.options().src_order, stochastic: None, ..options };
        let options = options.dst_packing(written.dst_packing).dst_order(written.dst_order);
        let cast = |from, to| Caster::new(from, to, &plain).ok();
        let dtype = if steps == Steps::Onnx { quantize.precision() } else { from };
        let kept = if (others.keeps || steps == Steps::CompressedNvfp4) && dtype != DType::F32 {
            Some([cast(DType::F32, dtype)?, cast(dtype, DType::F32)?])
        } else {
            None
        };
        // A quotient is right for what has up to 8 significant bits.
        let may_follow = to.float_format().is_some_and(|format| format.mantissa_bits < 8);
        // To float32 it is no more than that.
        let direct = Kernel::quotient(isa, from, to, &options).filter(|_| to != DType::F32);
        let (kernel, then) = match direct {
            Some(kernel) => (kernel, None),
            None if may_follow => {
                let plain = options.dst_packing(Packing::OnePerByte).dst_order(ByteOrder::Native);
                let nearest = options.src_order(ByteOrder::Native).rounding(Rounding::NearestEven);
                let kernel = Kernel::quotient(isa, from, DType::F32, &plain)?;
                (kernel, Some(Caster::new(DType::F32, to, &nearest.isa(isa.isa())).ok()?))
            }
            None => return None,
        };
        Some(Self {
            isa,
            kernel,
            then,
            is_packed: to.bits() < 8 && options.dst_packing != Packing::OnePerByte,
            half: cast(DType::F16, DType::F32)?,
            wide: cast(DType::F32, DType::F64)?,
            scale: cast(DType::F64, if scale == DType::F8E8M0 { DType::F32 } else { scale })?,
            to_f32: cast(scale, DType::F32)?,
            scales: if steps == Steps::Own && matches!(scale, DType::F8E4M3FN | DType::F8E5M2) {
                Kernel::quotient(isa, DType::F32, scale, &plain)
            } else {
                None
            },
            narrow: if steps == Steps::Own || scale == DType::F8E8M0 {
                None
            } else {
                Some(cast(DType::F32, scale)?)
            },
            kept,
            how,
            others,
            added: added(quantize.rule, quantize.max_value() as f32, quantize.mantissa_bits()),
        })
    }
}

/// How elements are divided, and by what steps of others. None if by none that registers take.
fn how(quantize: &Quantize) -> Option<(How, Others)> {
    let Quantize { from, to, steps, .. } = *quantize;
    let none = Others::NONE;
    let keeps = Others { keeps: true, ..none };
    let loses_sign = Others { loses_sign: true, ..none };
    Some(match steps {
        Steps::Own if !quantize.is_nearest() => return None,
        Steps::Own if quantize.scale == DType::F8E8M0 => (How::Near, none),
        Steps::Own => (How::Odd, none),
        Steps::Onnx if quantize.precision() == DType::F32 => (How::Over, none),
        Steps::Onnx if quantize.precision() == from => (How::Over, keeps),
        // Ties of theirs go toward zero.
        Steps::Onnx | Steps::ModeloptMxfp4 => return None,
        // By a power of two, of which the inverse is another.
        Steps::TorchaoMx | Steps::ModeloptMxfp8 | Steps::ComfyMxfp8 => (How::Near, none),
        Steps::CompressedMx => {
            (How::Near, if to == DType::F4E2M1 { Others { loses_sign: true, ..keeps } } else { keeps })
        }
        Steps::TorchaoNvfp4 | Steps::HfFp8 | Steps::TorchaoBlockwise => (How::Near, none),
        Steps::ComfyFp8 => (How::Near, keeps),
        Steps::TorchaoAffine if quantize.scale == DType::F32 => (How::Near, none),
        Steps::TorchaoAffine if quantize.scale == from => (How::Near, keeps),
        Steps::TorchaoAffine => return None,
        Steps::ModeloptNvfp4 | Steps::CompressedNvfp4 => (How::Over, loses_sign),
        Steps::ComfyNvfp4 => (How::Over, none),
        Steps::Compressed => (How::Over, Others { adds_first: true, ..keeps }),
    })
}

/// How the elements of a region are divided, and what is set among the flags of its scales.
#[derive(Clone, Copy)]
struct Division {
    how: How,
    flags: u8,
}

/// A quantisation by registers.
pub(super) struct Divide<'a> {
    job: &'a Quantizing<'a>,
    /// Data, and the number of their first element.
    bytes: &'a [u8],
    first: usize,
    decided: &'a Decided,
    isa: Present,
    /// Bytes of an element of the data.
    width: usize,
    splits: bool,
    /// What scales are amax divided by.
    divisor: f64,
    /// What the elements of the only block are multiplied with by a profile, if its scale is not all that says it.
    inverse: Option<f32>,
}

impl<'a> Divide<'a> {
    /// None if the reference is as good.
    pub(super) fn new(job: &'a Quantizing<'a>, decided: &'a Decided) -> Option<Self> {
        let Quantize { from, scale, steps, .. } = *job.quantize;
        // To whole bytes from whole bytes.
        let (width, block) = (job.grid.width(), job.grid.block());
        let is_one_row = job.grid.dims.len() == 1;
        let begins =
            (block.is_multiple_of(8) || block >= job.grid.count) && (is_one_row || width.is_multiple_of(8));
        if job.affine || job.write.has_rows() || decided.is_packed && !begins {
            return None;
        }
        let is_power = |x: f32| magnitude(x) & 0x7F_FFFF == 0;
        let (mut g, mut splits) = (1.0, false);
        if steps == Steps::Own {
            match job.tensor {
                TensorScale::None => {}
                TensorScale::Multiply(by) if (LEAST..MOST).contains(&magnitude(by)) => {
                    (g, splits) = (by, !is_power(by));
                }
                _ => return None,
            }
            // What is rounded to float64 first must be far enough from what the scale's dtype tells apart; exponents are
            // those of the magnitudes.
            if splits && scale.bits() == 32 || scale == DType::F8E8M0 && job.tensor != TensorScale::None {
                return None;
            }
        }
        Some(Self {
            job,
            bytes: &[],
            first: 0,
            decided,
            isa: decided.isa,
            width: from.bits() as usize / 8,
            splits,
            divisor: job.quantize.max_value() * f64::from(g),
            inverse: None,
        })
    }

    /// The same of data that begin with an element.
    pub(super) fn on<'b>(&'b self, bytes: &'b [u8], first: usize) -> Divide<'b> {
        Divide { bytes, first, ..*self }
    }

    /// Can it find scales? The rows of a block must follow each other: it looks at those that have the same scales together.
    pub(super) fn finds(&self) -> bool {
        let blocks = &self.job.grid.blocks;
        blocks.iter().rev().skip(2).all(|&block| block == 1)
    }

    /// With scales that are known, but what the only block was found to need is this. None if that is nothing for registers.
    pub(super) fn known(self, way: &Way) -> Option<Self> {
        match way {
            Way::Exact(_) | Way::Divide(..) => Some(self),
            Way::Times(by, _) => Some(Self { inverse: Some(by.to_f32()), ..self }),
            Way::Zero | Way::NaN => None,
        }
    }

    /// Finds the scales of a piece, and casts it. `dst` begins with the piece.
    pub(super) fn found(
        &self,
        piece: &Piece,
        dst: &mut Destination<'_, u8>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let grid = self.job.grid;
        let all = grid.scales.min(SCALES);
        let (mut buffers, mut room) = (Buffers::new(all, self, true, false)?, None);
        // As many columns as stay in a cache; all, where that are so few bytes of each row that memory is read in bits.
        let most = |rows: usize| {
            let bytes = self.width * grid.block();
            let cached = CACHED / rows.saturating_mul(bytes).clamp(1, CACHED);
            if cached.saturating_mul(bytes) < APART { all } else { cached.min(all) }
        };
        Region::each(grid, &piece.elements, &most, &mut |region| {
            self.region(region, &piece.elements, dst, sink, &mut buffers, &mut room)
        })
    }

    /// The same of a region.
    fn region(
        &self,
        region: &Region,
        elements: &Range<usize>,
        dst: &mut Destination<'_, u8>,
        sink: &mut Sink<'_>,
        buffers: &mut Buffers,
        room: &mut Option<Room>,
    ) -> Result<(), Error> {
        let (job, grid) = (self.job, self.job.grid);
        let (width, groups) = (grid.width(), region.groups(grid));
        let Region { rows, columns, scale } = region;
        buffers.amax[..groups].fill(0);
        for row in rows.clone() {
            let first = (row * width + columns.start - self.first) * self.width;
            let bytes = &self.bytes[first..first + columns.len() * self.width];
            let amax = &mut buffers.amax[..groups];
            scaled::magnitudes(self.isa, bytes, 8 * self.width as u32, grid.block(), amax);
        }
        let most = buffers.amax[..groups].iter().fold(0, |most, &amax| most.max(amax));
        if most >= inf(job.quantize.from) || self.codes(groups, buffers).is_none() {
            // The reference finds the scales, too.
            return self.region_by_reference(rows, columns, *scale, elements.start, dst, sink, room);
        }
        sink.set_all(*scale, groups, &buffers.codes);
        let codes = take(&mut buffers.codes);
        let division = self.numbers(&codes, groups, true, buffers);
        let code = |known: usize| sink.scales().of_native(&codes, known);
        let amax = take(&mut buffers.amax);
        let done = self.cast(region, division, elements, dst, buffers, room, &|number| {
            let i = number - scale;
            if job.quantize.is_own() {
                return job.quantize.given(code(i), 0, job.tensor);
            }
            // (As float32, by now.)
            let mut data = Extremes::NONE;
            data.add(Exact::f32(f32::from_bits(amax[i])), NonFinite::Propagate);
            job.quantize.find(&data, job.tensor, false).block
        });
        buffers.amax = amax;
        buffers.codes = codes;
        done
    }

    /// Casts a region whose scales are known; again what [`TIES`], looking at each element, and what is [`WRONG`] as the reference
    /// does, by the blocks of these numbers.
    #[expect(clippy::too_many_arguments, reason = "a region, where it goes, and room for both")]
    fn cast(
        &self,
        region: &Region,
        Division { how, flags }: Division,
        elements: &Range<usize>,
        dst: &mut Destination<'_, u8>,
        buffers: &mut Buffers,
        room: &mut Option<Room>,
        block: &dyn Fn(usize) -> Block,
    ) -> Result<(), Error> {
        let (job, grid) = (self.job, self.job.grid);
        let width = grid.width();
        let steps = Rows { count: 1, src: width * self.width, dst: job.write.size(width) };
        let apart = |_, count| Some(Rows { count, ..steps });
        let base = elements.start;
        region.segments(grid, elements, &apart, &mut |segment, rows| {
            let rows = rows.unwrap_or(steps);
            let known = segment.scale - region.scale;
            self.segment(segment, how, known, &rows, base, dst, buffers)?;
            if flags == 0 {
                return Ok(());
            }
            for group in 0..segment.groups {
                let flags = buffers.flags[known + group];
                if flags == 0 {
                    continue;
                }
                let elements = segment.group(grid, group);
                if flags == TIES {
                    let (first, n, scale) = (elements.start, elements.len(), segment.scale + group);
                    let again = Segment { first, n, scale, groups: 1, per: Per::All };
                    self.segment(&again, How::Odd, known + group, &rows, base, dst, buffers)?;
                    continue;
                }
                let block = block(segment.scale + group);
                let room = once(room, Room::new)?;
                for row in 0..rows.count {
                    let elements = elements.start + row * width..elements.end + row * width;
                    job.cast(elements, dst, base, room, &|_| block)?;
                }
            }
            Ok(())
        })
    }

    #[expect(clippy::too_many_arguments, reason = "as above")]
    fn region_by_reference(
        &self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        scale: usize,
        base: usize,
        dst: &mut Destination<'_, u8>,
        sink: &mut Sink<'_>,
        room: &mut Option<Room>,
    ) -> Result<(), Error> {
        let (job, width) = (self.job, self.job.grid.width());
        let room = once(room, Room::new)?;
        let all = rows.clone().map(|row| row * width + columns.start..row * width + columns.end);
        let groups = columns.len().div_ceil(job.grid.block());
        let data = job.extremes_of(all.clone(), scale, groups, room)?;
        let blocks = collect(data.iter().enumerate().map(|(i, data)| {
            let found = job.quantize.find(data, job.tensor, false);
            sink.set(scale + i, found.code);
            found.block
        }))?;
        for elements in all {
            job.cast(elements, dst, base, room, &|number| blocks[number - scale])?;
        }
        Ok(())
    }

    /// The codes of the scales of magnitudes. None if one is too small or too large for what is done here.
    fn codes(&self, groups: usize, buffers: &mut Buffers) -> Option<()> {
        let quantize = self.job.quantize;
        let Buffers { amax, wide, by, codes, scales, .. } = buffers;
        let (amax, wide, by) = (&mut amax[..groups], &mut wide[..groups], &mut by[..groups]);
        // As float32.
        match quantize.from {
            DType::BF16 => amax.iter_mut().for_each(|amax| *amax <<= 16),
            DType::F16 => {
                let (halves, numbers) = (&mut codes[..2 * groups], &mut scales[..groups]);
                for (amax, half) in amax.iter().zip(halves.chunks_exact_mut(2)) {
                    half.copy_from_slice(&(*amax as u16).to_ne_bytes());
                }
                self.decided.half.fill(&*halves, (&mut *numbers).into(), groups).ok()?;
                for (amax, number) in amax.iter_mut().zip(numbers) {
                    *amax = number.to_bits();
                }
            }
            _ => {}
        }
        if !quantize.is_own() {
            return self.profile_codes(groups, buffers);
        }
        if quantize.scale == DType::F8E8M0 {
            let (added, top) = self.decided.added;
            scaled::exponents(self.isa, amax, added, top, &mut codes[..groups]);
            return Some(());
        }
        let width = quantize.scale.bits() as usize / 8;
        let bytes = &mut codes[..width * groups];
        if let Some(kernel) =
            self.decided.scales.filter(|_| (LEAST..MOST).contains(&magnitude(self.divisor as f32)))
        {
            // Cut, and what was cut off, of which a few bits are left.
            let near = self.divisor as f32;
            let is_beyond = f64::from(near) > self.divisor;
            let top = f32::from_bits(near.to_bits() - u32::from(is_beyond));
            let rest = (self.divisor - f64::from(top)) as f32;
            let factors = Factors {
                how: How::Odd,
                scales: &[top],
                rests: &[rest],
                inverses: &[1.0 / top],
                ..Factors::NONE
            };
            let one = Rows { count: 1, src: 0, dst: 0 };
            kernel.run(bytes_of(amax), (&mut *bytes).into(), groups, &one, &factors, false);
        } else if quantize.scale == DType::F32 && !self.splits {
            // The divisor is a float32, too.
            let numbers = &mut scales[..groups];
            for (number, amax) in numbers.iter_mut().zip(&*amax) {
                *number = f32::from_bits(*amax);
            }
            scaled::with_tensor(self.isa, Operation::Divide, self.divisor as f32, numbers, &mut []);
            bytes.copy_from_slice(bytes_of(numbers));
        } else {
            self.decided.wide.fill(&*amax, (&mut *wide).into(), groups).ok()?;
            by.fill(self.divisor);
            scaled::arithmetic(self.isa, Operation::Divide, wide, by);
            self.decided.scale.fill(&*wide, (&mut *bytes).into(), groups).ok()?;
        }
        let (one, max) = quantize.scale_limits();
        // Beside each other, so that the loops are vectors.
        match width {
            1 => bytes.iter_mut().zip(&*amax).for_each(|(code, &amax)| {
                *code = if amax == 0 { one as u8 } else { (*code).clamp(1, max as u8) };
            }),
            2 => bytes.chunks_exact_mut(2).zip(&*amax).for_each(|(bytes, &amax)| {
                let code = u16::from_ne_bytes([bytes[0], bytes[1]]);
                let code = if amax == 0 { one as u16 } else { code.clamp(1, max as u16) };
                bytes.copy_from_slice(&code.to_ne_bytes());
            }),
            _ => bytes.chunks_exact_mut(4).zip(&*amax).for_each(|(bytes, &amax)| {
                let code = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                let code = if amax == 0 { one as u32 } else { code.clamp(1, max as u32) };
                bytes.copy_from_slice(&code.to_ne_bytes());
            }),
        }
        Some(())
    }

    /// The codes of the scales of magnitudes that are float32, step by step as a profile has them: of those whose steps are
    /// floats of 16 bits, a float32 rounded once more is the same, because it has more than twice as many bits.
    fn profile_codes(&self, groups: usize, buffers: &mut Buffers) -> Option<()> {
        let (quantize, tensor) = (self.job.quantize, self.job.tensor);
        let Buffers { amax, inverses, scales, codes, kept, .. } = buffers;
        let amax = &amax[..groups];
        let (scales, inverses) = (&mut scales[..groups], &mut inverses[..groups]);
        let max = quantize.max_value() as f32;
        let g = match tensor {
            TensorScale::Multiply(g) | TensorScale::Divide(g) => g,
            _ => 1.0,
        };
        let each = |into: &mut [f32], make: &dyn Fn(f32) -> f32| {
            for (into, &amax) in into.iter_mut().zip(amax) {
                *into = make(f32::from_bits(amax));
            }
        };
        match quantize.steps {
            Steps::TorchaoMx if quantize.rule != ScaleRule::RoundUp => {
                let (added, top) = self.decided.added;
                for (code, &bits) in codes.iter_mut().zip(amax) {
                    *code = (((bits + added) >> 23) as i32 - (top >> 23) as i32 + 127).clamp(0, 255) as u8;
                }
                return Some(());
            }
            Steps::TorchaoMx | Steps::ModeloptMxfp8 | Steps::ComfyMxfp8 => {
                for (code, &bits) in codes.iter_mut().zip(amax) {
                    *code = exponent_up(f32::from_bits(bits) / max);
                }
                return Some(());
            }
            Steps::CompressedMx => {
                // Subnormal ones of the dtype are not looked at.
                let (least, top) = (least_normal(quantize.from), max.to_bits() >> 23);
                for (code, &bits) in codes.iter_mut().zip(amax) {
                    let exponent = ((bits + (1 << 21)) >> 23) as i32 - top as i32 + 127;
                    *code = if bits < least { 0 } else { exponent.clamp(0, 254) as u8 };
                }
                return Some(());
            }
            Steps::TorchaoNvfp4 if tensor == TensorScale::None => {
                each(scales, &|amax| (amax / 6.0).clamp(1.0 / 64.0, 448.0));
            }
            Steps::TorchaoNvfp4 => each(scales, &|amax| (amax / 6.0 / g).clamp(1.0 / 64.0, 448.0)),
            Steps::ModeloptNvfp4 => {
                let by = 6.0 * g;
                each(scales, &|amax| {
                    let scale = amax / by;
                    if scale == 0.0 { 1.0 } else { scale.clamp(1.0 / 512.0, 448.0) }
                });
            }
            Steps::ComfyNvfp4 => each(scales, &|amax| (amax / 6.0 / g).min(448.0)),
            Steps::CompressedNvfp4 => {
                each(scales, &|amax| amax / 6.0);
                self.keep(scales, kept)?;
                for scale in &mut *scales {
                    *scale = (*scale * g).min(448.0);
                }
            }
            Steps::Compressed => {
                // The largest value, and one half more if that is an integer.
                let by = if quantize.to.float_format().is_some() { max } else { max + 0.5 };
                each(scales, &|amax| amax / by);
                self.keep(scales, kept)?;
                let least = least_step(quantize.from);
                for scale in &mut *scales {
                    *scale = if *scale == 0.0 { least } else { *scale };
                }
            }
            Steps::HfFp8 => {
                each(inverses, &|amax| if amax == 0.0 { 1.0 } else { 1.0 / amax * 448.0 });
                each_inverse(scales, inverses);
            }
            Steps::TorchaoBlockwise => {
                each(inverses, &|amax| (1.0 / f64::from(amax).max(1e-12) * 448.0) as f32);
                each_inverse(scales, inverses);
            }
            Steps::Own | Steps::Onnx | Steps::ModeloptMxfp4 | Steps::ComfyFp8 | Steps::TorchaoAffine => {
                return None;
            }
        }
        if quantize.scale == DType::F8E8M0 {
            for ((scale, inverse), code) in scales.iter().zip(inverses).zip(codes) {
                *code = exponent_up(*scale);
                *inverse = 1.0 / power(*code);
            }
            return Some(());
        }
        let width = quantize.scale.bits() as usize / 8;
        let bytes = &mut codes[..width * groups];
        self.decided.narrow.as_ref()?.fill(&*scales, (&mut *bytes).into(), groups).ok()?;
        if quantize.steps == Steps::CompressedNvfp4 {
            let least = quantize.code_of(1.0 / 8.0) as u8;
            bytes.iter_mut().filter(|code| **code == 0).for_each(|code| *code = least);
        }
        Some(())
    }

    /// Numbers as they are in the dtype in which a profile divides. `room` is for two bytes each.
    fn keep(&self, numbers: &mut [f32], room: &mut [u8]) -> Option<()> {
        if let Some([narrow, wide]) = &self.decided.kept {
            let n = numbers.len();
            let room = &mut room[..2 * n];
            narrow.fill(&*numbers, (&mut *room).into(), n).ok()?;
            wide.fill(&*room, numbers.into(), n).ok()?;
        }
        Some(())
    }

    /// What a profile multiplies with or divides by, of scales as float32. What it has found itself is known.
    fn profile_numbers(&self, groups: usize, is_found: bool, buffers: &mut Buffers) -> Option<()> {
        let (quantize, tensor) = (self.job.quantize, self.job.tensor);
        let Buffers { scales, inverses, kept, .. } = buffers;
        let (scales, inverses) = (&mut scales[..groups], &mut inverses[..groups]);
        let g = match tensor {
            TensorScale::Multiply(g) | TensorScale::Divide(g) => g,
            _ => 1.0,
        };
        match quantize.steps {
            Steps::TorchaoMx => {
                let least = if quantize.rule == ScaleRule::RoundUp { 1.0 } else { power(1) };
                for scale in &mut *scales {
                    *scale = if *scale == power(0) { least } else { *scale };
                }
                each_inverse(inverses, scales);
            }
            Steps::TorchaoNvfp4 => {
                let one = 1.0 / g;
                for (inverse, scale) in inverses.iter_mut().zip(&*scales) {
                    *inverse = one / scale;
                }
            }
            Steps::ModeloptNvfp4 | Steps::ComfyNvfp4 => scales.iter_mut().for_each(|scale| *scale *= g),
            Steps::CompressedNvfp4 => scales.iter_mut().for_each(|scale| *scale /= g),
            Steps::Onnx | Steps::Compressed => self.keep(scales, kept)?,
            Steps::HfFp8 | Steps::TorchaoBlockwise if is_found => {}
            Steps::ComfyFp8 | Steps::TorchaoAffine => {
                each_inverse(inverses, scales);
                self.keep(inverses, kept)?;
            }
            _ => each_inverse(inverses, scales),
        }
        if let Some(inverse) = self.inverse {
            inverses.fill(inverse);
        }
        Some(())
    }

    /// Scales, and what to multiply with in their place. Says of each whether the kernel is right for it.
    fn numbers(&self, codes: &[u8], groups: usize, is_found: bool, buffers: &mut Buffers) -> Division {
        let how = self.decided.how;
        let bytes = &codes[..groups * self.job.quantize.scale.bits() as usize / 8];
        let scales = &mut buffers.scales[..groups];
        if self.decided.to_f32.fill(bytes, (&mut *scales).into(), groups).is_err() {
            scales.fill(f32::NAN);
        }
        if !self.job.quantize.is_own() {
            let is_done = self.profile_numbers(groups, is_found, buffers).is_some();
            let Buffers { scales, inverses, flags, amax, .. } = buffers;
            let flags = &mut flags[..groups];
            flags.fill(if is_done { 0 } else { WRONG });
            let by = if self.decided.how == How::Over { scales } else { inverses };
            // Positive numbers: what IEEE arithmetic makes of the others is the reference's.
            let bounds = Bounds { range: 1..0x7F80_0000, zero: false, negative: false };
            let mut wrong = scaled::bounded(self.isa, &by[..groups], &bounds, flags);
            if is_found && self.job.quantize.steps == Steps::ComfyMxfp8 {
                // Blocks of zeros are zeros without a sign.
                for (flags, _) in flags.iter_mut().zip(amax).filter(|(_, amax)| **amax == 0) {
                    *flags |= WRONG;
                    wrong |= WRONG;
                }
            }
            return Division { how, flags: if is_done { wrong } else { WRONG } };
        }
        if let TensorScale::Multiply(g) = self.job.tensor {
            let rests = if self.splits { &mut buffers.rests[..groups] } else { &mut [] };
            scaled::with_tensor(self.isa, Operation::Multiply, g, scales, rests);
        }
        let range = match self.decided.how {
            // From 2^-127 to 2^127, of which the inverse is another.
            How::Near => 0x40_0000..0x7F00_0001,
            How::Odd | How::Over => LEAST..MOST,
        };
        let flags = &mut buffers.flags[..groups];
        flags.fill(0);
        let wrong = scaled::bounded(self.isa, scales, &Bounds { range, zero: false, negative: false }, flags);
        self.inverses(groups, wrong, buffers)
    }

    /// Inverses of scales: if that pays, such ones that elements need not be looked at but under a few of those scales.
    fn inverses(&self, groups: usize, wrong: u8, buffers: &mut Buffers) -> Division {
        let (how, grid) = (self.decided.how, self.job.grid);
        let Buffers { scales, rests, inverses, flags, .. } = buffers;
        let (inverses, flags) = (&mut inverses[..groups], &mut flags[..groups]);
        let elements = grid.count / grid.scales.max(1);
        // To find them takes as long as some ten elements for each tie.
        let pays = |near: &Near| {
            how == How::Odd && grid.block() >= LEAST_GROUP && elements / 16 >= near.most as usize
        };
        if let Some(near) = self.near().filter(pays) {
            let rests = if self.splits { &rests[..] } else { &[] };
            let left = scaled::inverses(self.isa, scales, rests, inverses, Some(near), flags);
            // Elements that are cast again take longer, and each call of the kernel as long as hundreds.
            if left * (4 + 1024 / elements) <= groups {
                return Division { how: How::Near, flags: if left == 0 { wrong } else { wrong | TIES } };
            }
            flags.iter_mut().for_each(|flags| *flags &= WRONG);
        }
        scaled::inverses(self.isa, &scales[..groups], &[], inverses, None, &mut []);
        Division { how, flags: wrong }
    }

    /// The ties of the target, and the elements: none if these have so many numbers that there are some near most ties.
    fn near(&self) -> Option<Near> {
        let Quantize { from, to, .. } = *self.job.quantize;
        let bits = match from {
            DType::BF16 => 8,
            DType::F16 => 11,
            _ => return None,
        };
        // Behind the bits of the target there is that of a tie. A zero point doubles what an integer may be.
        let most = match to.float_format() {
            Some(format) => (4 << format.mantissa_bits) - 1,
            None => (2 << to.bits()) - 1,
        };
        Some(Near { most, bits })
    }

    /// Casts a segment, whose first scale is this one of those that are known.
    #[expect(clippy::too_many_arguments, reason = "as above")]
    fn segment(
        &self,
        segment: &Segment,
        how: How,
        known: usize,
        rows: &Rows,
        base: usize,
        dst: &mut Destination<'_, u8>,
        buffers: &mut Buffers,
    ) -> Result<(), Error> {
        let job = self.job;
        let Buffers { scales, rests, inverses, zeros, each, quotients, .. } = buffers;
        let mut arrays = [
            &scales[known..],
            if rests.is_empty() { &[] } else { &rests[known..] },
            &inverses[known..],
            if zeros.is_empty() { &[] } else { &zeros[known..] },
        ];
        if segment.per == Per::Element && job.grid.block() > 1 {
            let each = once(each, || array(NO_NUMBERS))?;
            expand(&mut arrays, &mut each[..], segment.groups, segment.n, job.grid.block());
        }
        let factors = Factors {
            per: segment.per,
            how,
            others: self.decided.others,
            scales: arrays[0],
            rests: arrays[1],
            inverses: arrays[2],
            zeros: arrays[3],
            ..Factors::NONE
        };
        let at = job.write.at(segment.first) - job.write.at(base);
        let (n, size, kernel) = (segment.n, job.write.size(segment.n), &self.decided.kernel);
        let src = &self.bytes[(segment.first - self.first) * self.width..];
        let Some(then) = &self.decided.then else {
            let here = dst.part(at..at + (rows.count - 1) * rows.dst + size);
            kernel.run(src, here, n, rows, &factors, false);
            return Ok(());
        };
        let needed = 4 * n * rows.count;
        if quotients.len() < needed {
            *quotients = collect(repeat_n(0, needed))?;
        }
        let quotients = &mut quotients[..needed];
        kernel.run(src, (&mut *quotients).into(), n, &Rows { dst: 4 * n, ..*rows }, &factors, false);
        for (row, quotients) in quotients.chunks_exact((4 * n).max(1)).enumerate() {
            let at = at + row * rows.dst;
            then.fill(quotients, dst.part(at..at + size), n)?;
        }
        Ok(())
    }

    /// Casts elements under scales that are given. `dst` begins with the first of them.
    pub(super) fn given(
        &self,
        given: &Given<'_>,
        elements: Range<usize>,
        dst: &mut Destination<'_, u8>,
        block: &dyn Fn(usize) -> Block,
    ) -> Result<(), Error> {
        let grid = self.job.grid;
        let has_zeros = given.zero_points.is_some();
        let most = grid.scales.min(SCALES);
        let (mut buffers, mut room) = (Buffers::new(most, self, false, has_zeros)?, None);
        Region::each(grid, &elements, &|_| most, &mut |region| {
            let (scale, groups) = (region.scale, region.groups(grid));
            let mut codes = take(&mut buffers.codes);
            let bytes = given.scales.native(given.bytes, scale..scale + groups, &mut codes);
            let division = self.numbers(bytes, groups, false, &mut buffers);
            buffers.codes = codes;
            if has_zeros {
                for (group, zero) in buffers.zeros[..groups].iter_mut().enumerate() {
                    *zero = given.get(scale + group).1 as f32;
                }
            }
            self.cast(region, division, &elements, dst, &mut buffers, &mut room, block)
        })
    }
}

/// One over each.
fn each_inverse(inverses: &mut [f32], numbers: &[f32]) {
    for (inverse, number) in inverses.iter_mut().zip(numbers) {
        *inverse = 1.0 / number;
    }
}

/// A scale of float8_e8m0fnu but FF.
fn power(code: u8) -> f32 {
    f32::from_bits(if code == 0 { 0x40_0000 } else { u32::from(code) << 23 })
}

/// The code of ceil(log2 x) of a number that is not negative.
fn exponent_up(x: f32) -> u8 {
    let bits = x.to_bits();
    if bits <= 0x40_0000 { 0 } else { ((bits + 0x7F_FFFF) >> 23).min(0xFE) as u8 }
}

/// The bits of the smallest normal number of a float, as a float32.
fn least_normal(dtype: DType) -> u32 {
    let exponent = dtype.float_format().map_or(0, |format| format.min_exponent());
    ((exponent + 127).max(1) as u32) << 23
}

/// The distance of 1 to the next number of a float.
fn least_step(dtype: DType) -> f32 {
    let mantissa = dtype.float_format().map_or(0, |format| format.mantissa_bits);
    f32::from_bits((127 - mantissa) << 23)
}

/// The largest magnitude of some elements, as the bits of their dtype. None if there are no registers for that, or if it is no
/// number and such are not to count.
pub(super) fn amax(job: &Quantizing<'_>, elements: Range<usize>) -> Result<Option<u64>, Error> {
    let mut room = Vec::new();
    let Some((bytes, first)) = job.source.floats(&elements, &mut room)? else { return Ok(None) };
    let (isa, from) = (job.write.present(), job.quantize.from);
    let (mut found, width) = ([0], from.bits() as usize / 8);
    let bytes = &bytes[(elements.start - first) * width..(elements.end - first) * width];
    scaled::magnitudes(isa, bytes, from.bits(), elements.len().max(1), &mut found);
    let counts = found[0] < inf(from) || job.quantize.nonfinite == NonFinite::Propagate;
    Ok(counts.then_some(found[0].into()))
}

/// The bits of Inf.
fn inf(dtype: DType) -> u32 {
    match dtype {
        DType::F16 => 0x7C00,
        DType::BF16 => 0x7F80,
        _ => 0x7F80_0000,
    }
}

/// What is added to the bits of a magnitude before its exponent is taken, by a rule, and the bits of the largest value.
///
/// Subnormal magnitudes, which have no exponent, give the least scale by any rule, because no target ends below 2.
fn added(rule: ScaleRule, max: f32, mantissa_bits: u32) -> (u32, u32) {
    const ONE: u32 = 1 << 23;
    let added = match rule {
        ScaleRule::Floor | ScaleRule::Amax => 0,
        ScaleRule::Ceil => ONE - 1,
        ScaleRule::Even => 1 << (22 - mantissa_bits),
        // A mantissa greater than that of the largest value carries.
        ScaleRule::RoundUp => ONE - 1 - (max.to_bits() & (ONE - 1)),
    };
    (added, max.to_bits())
}
