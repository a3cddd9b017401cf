//! What registers do of a quantisation: by lanecast's own rule to nearest even, from floats of 16 and 32 bits.
//!
//! The largest magnitudes of the blocks are found, scales made of them many at a time, and the elements divided, of as many
//! rows and columns together as a cache holds. Blocks whose scale is not one the kernel is right for are the reference's.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::take;
use core::ops::Range;

use super::engine::{Given, Quantizing, Room, Sink};
use super::error::Error;
use super::fast::{LEAST, MOST, NO_NUMBERS, Numbers, Region, SCALES, Segment, expand, magnitude, zeros};
use super::memory::{array, collect, once};
use super::rule::{Block, Quantize};
use super::scaling::{NonFinite, ScaleRule, TensorScale};
use super::shape::Piece;
use crate::cast::Caster;
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
use crate::formats::layout::Packing;
use crate::formats::options::CastOptions;
use crate::kernels::memory::Destination;
use crate::kernels::scaled::{self, BLOCK, Bounds, Factors, How, Kernel, Operation, Per, Rows};

/// Bytes of data that stay in a cache between the two passes over them.
const CACHED: usize = 256 << 10;

/// Room for the numbers of scales.
struct Buffers {
    scales: Vec<f32>,
    rests: Vec<f32>,
    inverses: Vec<f32>,
    zeros: Vec<f32>,
    /// What is [`WRONG`].
    flags: Vec<u8>,
    /// Of single elements, once there are such.
    each: Option<Box<[Numbers; 4]>>,
    amax: Vec<u32>,
    wide: Vec<f64>,
    by: Vec<f64>,
    codes: Vec<u8>,
}

impl Buffers {
    /// For so many scales.
    fn new(n: usize, splits: bool, is_found: bool, has_zeros: bool) -> Result<Self, Error> {
        Ok(Self {
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
        })
    }
}

/// A quantisation by registers.
pub(super) struct Divide<'a> {
    job: &'a Quantizing<'a>,
    bytes: &'a [u8],
    isa: Isa,
    kernel: Kernel,
    /// Bytes of an element of the data.
    width: usize,
    /// Magnitudes to float32 and to float64, and scales from there and to float32.
    half: Caster,
    wide: Caster,
    scale: Caster,
    to_f32: Caster,
    how: How,
    splits: bool,
    /// What scales are amax divided by.
    divisor: f64,
    /// What exponents of scales are made by: [`added`].
    added: (u32, u32),
}

impl<'a> Divide<'a> {
    /// None if the reference is as good.
    pub(super) fn new(job: &'a Quantizing<'a>) -> Option<Self> {
        let (read, bytes) = job.source.floats()?;
        let Quantize { from, to, scale, .. } = *job.quantize;
        let isa = read.isa();
        let written = job.write.options();
        // Integers saturate, whatever other casts do.
        let options = if to.float_format().is_some() { written } else { CastOptions::new().isa(isa) };
        let options = CastOptions { src_order: read.options().src_order, stochastic: None, ..options };
        let options = options.dst_packing(written.dst_packing).dst_order(written.dst_order);
        if isa == Isa::Scalar || from == DType::F64 || job.affine || !job.quantize.is_nearest() {
            return None;
        }
        // To whole bytes from whole bytes.
        let (width, block) = (job.grid.width(), job.grid.block());
        let is_packed = to.bits() < 8 && options.dst_packing != Packing::OnePerByte;
        let is_one_row = job.grid.dims.len() == 1;
        let begins =
            (block.is_multiple_of(8) || block >= job.grid.count) && (is_one_row || width.is_multiple_of(8));
        if job.write.has_rows() || is_packed && !begins {
            return None;
        }
        let is_power = |x: f32| magnitude(x) & 0x7F_FFFF == 0;
        let (g, splits) = match job.tensor {
            TensorScale::None => (1.0, false),
            TensorScale::Multiply(g) if (LEAST..MOST).contains(&magnitude(g)) => (g, !is_power(g)),
            _ => return None,
        };
        // What is rounded to float64 first must be far enough from what the scale's dtype tells apart; exponents are those of
        // the magnitudes.
        if splits && scale.bits() == 32 || scale == DType::F8E8M0 && job.tensor != TensorScale::None {
            return None;
        }
        let plain = CastOptions::new().isa(isa);
        let cast = |from, to| Caster::new(from, to, &plain).ok();
        Some(Self {
            job,
            bytes,
            isa,
            kernel: Kernel::quotient(isa, from, to, &options)?,
            width: from.bits() as usize / 8,
            half: cast(DType::F16, DType::F32)?,
            wide: cast(DType::F32, DType::F64)?,
            scale: cast(DType::F64, if scale == DType::F8E8M0 { DType::F32 } else { scale })?,
            to_f32: cast(scale, DType::F32)?,
            how: if scale == DType::F8E8M0 { How::Near } else { How::Odd },
            splits,
            divisor: job.quantize.max_value() * f64::from(g),
            added: added(job.quantize.rule, job.quantize.max_value() as f32, job.quantize.mantissa_bits()),
        })
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
        let (mut buffers, mut room) = (Buffers::new(all, self.splits, true, false)?, None);
        // As many columns as stay in a cache.
        let most = |rows: usize| (CACHED / (rows * self.width * grid.block()).clamp(1, CACHED)).min(all);
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
            let first = (row * width + columns.start) * self.width;
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
        let wrong = self.numbers(&codes, groups, buffers);
        let code = |known: usize| sink.scales().of_native(&codes, known);
        let done = self.cast(region, wrong, elements, dst, buffers, room, &|number| {
            job.quantize.given(code(number - scale), 0, job.tensor)
        });
        buffers.codes = codes;
        done
    }

    /// Casts a region whose scales are known; what is [`WRONG`] as the reference does, by the blocks of these numbers.
    #[expect(clippy::too_many_arguments, reason = "a region, where it goes, and room for both")]
    fn cast(
        &self,
        region: &Region,
        wrong: u8,
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
            self.segment(segment, known, &rows, base, dst, buffers)?;
            if wrong == 0 {
                return Ok(());
            }
            for group in (0..segment.groups).filter(|group| buffers.flags[known + group] != 0) {
                let elements = segment.group(grid, group);
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
                self.half.fill(&*halves, (&mut *numbers).into(), groups).ok()?;
                for (amax, number) in amax.iter_mut().zip(numbers) {
                    *amax = number.to_bits();
                }
            }
            _ => {}
        }
        if quantize.scale == DType::F8E8M0 {
            let (added, top) = self.added;
            scaled::exponents(self.isa, amax, added, top, &mut codes[..groups]);
            return Some(());
        }
        self.wide.fill(&*amax, (&mut *wide).into(), groups).ok()?;
        by.fill(self.divisor);
        scaled::arithmetic(self.isa, Operation::Divide, wide, by);
        let width = quantize.scale.bits() as usize / 8;
        let bytes = &mut codes[..width * groups];
        self.scale.fill(&*wide, (&mut *bytes).into(), groups).ok()?;
        let is_zero = |i: usize| amax[i] == 0;
        let (one, max) = quantize.scale_limits();
        match width {
            1 => bytes.iter_mut().enumerate().for_each(|(i, code)| {
                *code = if is_zero(i) { one as u8 } else { (*code).clamp(1, max as u8) };
            }),
            2 => bytes.chunks_exact_mut(2).enumerate().for_each(|(i, bytes)| {
                let code = u16::from_ne_bytes([bytes[0], bytes[1]]);
                let code = if is_zero(i) { one as u16 } else { code.clamp(1, max as u16) };
                bytes.copy_from_slice(&code.to_ne_bytes());
            }),
            _ => bytes.chunks_exact_mut(4).enumerate().for_each(|(i, bytes)| {
                let code = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                let code = if is_zero(i) { one as u32 } else { code.clamp(1, max as u32) };
                bytes.copy_from_slice(&code.to_ne_bytes());
            }),
        }
        Some(())
    }

    /// Scales, and what to multiply with in their place. Returns [`WRONG`] if the kernel is not right for one.
    fn numbers(&self, codes: &[u8], groups: usize, buffers: &mut Buffers) -> u8 {
        let bytes = &codes[..groups * self.job.quantize.scale.bits() as usize / 8];
        let scales = &mut buffers.scales[..groups];
        if self.to_f32.fill(bytes, (&mut *scales).into(), groups).is_err() {
            scales.fill(f32::NAN);
        }
        if let TensorScale::Multiply(g) = self.job.tensor {
            let rests = if self.splits { &mut buffers.rests[..groups] } else { &mut [] };
            scaled::with_tensor(self.isa, Operation::Multiply, g, scales, rests);
        }
        scaled::inverses(self.isa, scales, &mut buffers.inverses[..groups]);
        let range = match self.how {
            // From 2^-127 to 2^127, of which the inverse is another.
            How::Near => 0x40_0000..0x7F00_0001,
            How::Odd => LEAST..MOST,
        };
        let flags = &mut buffers.flags[..groups];
        flags.fill(0);
        scaled::bounded(self.isa, scales, &Bounds { range, zero: false, negative: false }, flags)
    }

    /// Casts a segment, whose first scale is this one of those that are known.
    fn segment(
        &self,
        segment: &Segment,
        known: usize,
        rows: &Rows,
        base: usize,
        dst: &mut Destination<'_, u8>,
        buffers: &mut Buffers,
    ) -> Result<(), Error> {
        let job = self.job;
        let Buffers { scales, rests, inverses, zeros, each, .. } = buffers;
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
            how: self.how,
            scales: arrays[0],
            rests: arrays[1],
            inverses: arrays[2],
            zeros: arrays[3],
            ..Factors::NONE
        };
        let at = job.write.at(segment.first) - job.write.at(base);
        let here = dst.part(at..at + (rows.count - 1) * rows.dst + job.write.size(segment.n));
        self.kernel.run(&self.bytes[segment.first * self.width..], here, segment.n, rows, &factors, false);
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
        let (mut buffers, mut room) = (Buffers::new(most, self.splits, false, has_zeros)?, None);
        Region::each(grid, &elements, &|_| most, &mut |region| {
            let (scale, groups) = (region.scale, region.groups(grid));
            let mut codes = take(&mut buffers.codes);
            let bytes = given.scales.native(given.bytes, scale..scale + groups, &mut codes);
            let wrong = self.numbers(bytes, groups, &mut buffers);
            buffers.codes = codes;
            if has_zeros {
                for (group, zero) in buffers.zeros[..groups].iter_mut().enumerate() {
                    *zero = given.get(scale + group).1 as f32;
                }
            }
            self.cast(region, wrong, &elements, dst, &mut buffers, &mut room, block)
        })
    }
}

/// The largest magnitude of some elements, as the bits of their dtype. None if there are no registers for that, or if it is no
/// number and such are not to count.
pub(super) fn amax(job: &Quantizing<'_>, elements: Range<usize>) -> Option<u64> {
    let (read, bytes) = job.source.floats()?;
    let (isa, from) = (read.isa(), job.quantize.from);
    if isa == Isa::Scalar || from.bits() > 32 || read.options().src_order.is_swapped() {
        return None;
    }
    let (mut found, width) = ([0], from.bits() as usize / 8);
    let bytes = &bytes[elements.start * width..elements.end * width];
    scaled::magnitudes(isa, bytes, from.bits(), elements.len().max(1), &mut found);
    (found[0] < inf(from) || job.quantize.nonfinite == NonFinite::Propagate).then_some(found[0].into())
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
