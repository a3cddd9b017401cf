//! What registers do of a scaled cast, and what is left to the reference.
//!
//! * A kernel casts a run of elements under factors that are float32 (or the sum of two): it is right where those are in a
//!   range in which nothing under- or overflows on the way.
//! * What is not, and dtypes and options for which there is no kernel, are made by plain casts and float64 between them, in
//!   which products are exact and quotients far enough from every tie: by lanecast's own rule alone.
//! * The rest, and NaN or Inf as a scale, is the reference's.

use alloc::boxed::Box;
use core::ops::Range;

use super::engine::{Dequantizing, Room, runs};
use super::error::Error;
use super::memory::{array, once};
use super::rule::{Dequantize, Product};
use super::scaling::TensorScale;
use super::shape::Grid;
use crate::cast::Caster;
use crate::formats::dtype::{DType, Kind};
use crate::formats::isa::Isa;
use crate::formats::layout::ByteOrder;
use crate::formats::options::{CastOptions, Rounding};
use crate::kernels::memory::Destination;
use crate::kernels::scaled::{self, BLOCK, Factors, How, Kernel, LEAST_GROUP, Operation, Per};

/// Scales at a time: their numbers stay in L1.
pub(super) const SCALES: usize = 512;
/// Elements of a tile of float64.
const TILE: usize = 1024;

/// Numbers of scales.
pub(super) type Numbers = [f32; SCALES + BLOCK];

pub(super) const NO_NUMBERS: Numbers = [0.0; SCALES + BLOCK];

/// Room for the numbers of scales.
struct Buffers {
    scales: Numbers,
    rests: Numbers,
    zeros: Numbers,
    codes: [u8; 4 * SCALES],
    /// Of single elements, once there are such.
    each: Option<Box<[Numbers; 3]>>,
    /// For what is made by way of float64, once it is.
    tile: Option<Box<[Tile; 1]>>,
}

#[derive(Clone)]
struct Tile {
    codes: [u8; 4 * TILE],
    values: [f64; TILE + 8],
    by: [f64; TILE],
}

impl Buffers {
    fn new() -> Self {
        Self {
            scales: NO_NUMBERS,
            rests: NO_NUMBERS,
            zeros: NO_NUMBERS,
            codes: [0; 4 * SCALES],
            each: None,
            tile: None,
        }
    }
}

/// Elements that the kernel is given together: of a row, and of groups one after the other.
pub(super) struct Segment {
    pub(super) first: usize,
    pub(super) n: usize,
    /// Its first group, and how many there are.
    pub(super) scale: usize,
    pub(super) groups: usize,
    pub(super) per: Per,
}

impl Segment {
    /// From an element on.
    pub(super) fn new(grid: &Grid, first: usize, end: usize) -> Self {
        let (width, block) = (grid.width(), grid.block());
        let at = first % width;
        let row = (width - at).min(end - first);
        let (scale, run) = grid.run(first);
        let is_apart = block > SCALES && !block.is_power_of_two();
        let per = if is_apart || run >= row || !at.is_multiple_of(block) {
            Per::All
        } else if block.is_power_of_two() && block >= LEAST_GROUP {
            Per::Group(block)
        } else {
            Per::Element
        };
        let n = match per {
            Per::All => run.min(row),
            Per::Group(_) => row.min(SCALES.saturating_mul(block)),
            Per::Element => row.min(SCALES / block * block),
        };
        Self { first, n, scale, groups: (at + n).div_ceil(block) - at / block, per }
    }

    /// The elements of one of its groups.
    pub(super) fn group(&self, grid: &Grid, group: usize) -> Range<usize> {
        let block = grid.block();
        let at = self.first % grid.width();
        let start = if group == 0 { at } else { (at / block + group) * block };
        let end = ((at / block + group + 1) * block).min(at + self.n);
        self.first - at + start..self.first - at + end
    }
}

/// Numbers of groups of `block` elements as such of `n` elements.
pub(super) fn expand<'a>(
    arrays: &mut [&'a [f32]],
    each: &'a mut [Numbers],
    groups: usize,
    n: usize,
    block: usize,
) {
    for (array, each) in arrays.iter_mut().zip(each).filter(|(array, _)| !array.is_empty()) {
        for (number, each) in array[..groups].iter().zip(each[..n].chunks_mut(block)) {
            each.fill(*number);
        }
        *array = &each[..];
    }
}

/// The bits of a float32 without its sign.
pub(super) fn magnitude(x: f32) -> u32 {
    x.to_bits() & (u32::MAX >> 1)
}

/// The bits of powers of two that bound the scales for which a kernel is right.
pub(super) const LEAST: u32 = (127 - 60) << 23;
pub(super) const MOST: u32 = (127 + 60) << 23;

/// Significant bits of the elements of a dtype, also with a zero point taken off.
fn significant(dtype: DType) -> u32 {
    match dtype.kind() {
        Kind::Int(format) => format.bits,
        Kind::Float(format) => format.mantissa_bits + 1,
        Kind::Bool | Kind::Complex(_) => 64,
    }
}

/// NaNs without a payload, but with their signs.
fn canonical(values: &mut [f64]) {
    for value in values {
        if value.is_nan() {
            *value = f64::NAN.copysign(*value);
        }
    }
}

/// A dequantisation by registers.
pub(super) struct Multiply<'a> {
    job: &'a Dequantizing<'a>,
    isa: Isa,
    kernel: Option<Kernel>,
    streams: bool,
    /// To float32 by which scales come: one dtype after the other.
    to_f32: [Option<Caster>; 3],
    /// The same of the products with the factor of the tensor.
    rounds: [Option<Caster>; 2],
    /// What scales are multiplied with or divided by.
    tensor: TensorScale,
    /// Scales are the sum of two floats then.
    splits: bool,
    /// Significant bits of codes, where their products may be rounded to ties of the target.
    ties: Option<u32>,
    /// No code is Inf, of which a zero makes a NaN.
    zero_is_right: bool,
    /// Codes to float64, scales to float64, and float64 to the target.
    exact: Option<[Caster; 3]>,
    size: usize,
}

impl<'a> Multiply<'a> {
    /// None if the reference is as good.
    pub(super) fn new(job: &'a Dequantizing<'a>) -> Option<Self> {
        let Dequantize { from, to, scale, product, tensor, .. } = *job.dequantize;
        let options = job.read.options().dst_order(job.write.options().dst_order);
        // Products are not rounded so.
        let options = CastOptions { stochastic: None, ..options };
        let isa = job.read.isa();
        if isa == Isa::Scalar
            || job.dequantize.loses_sign
            || product == Product::GptOss && tensor != TensorScale::None
        {
            return None;
        }
        let has_zeros = job.given.zero_points.is_some();
        let is_own = matches!(product, Product::Own | Product::GptOss);
        let policy = job.dequantize.policy();
        let (codes, scale_bits) = (significant(from), significant(scale));
        if let TensorScale::Multiply(g) | TensorScale::Divide(g) = tensor
            && !(LEAST..MOST).contains(&magnitude(g))
        {
            return None;
        }
        // MXINT8 counts 1/64.
        let tensor = match tensor {
            TensorScale::None if job.dequantize.is_mx_int => TensorScale::Multiply(1.0 / 64.0),
            TensorScale::Multiply(g) if job.dequantize.is_mx_int => TensorScale::Multiply(g / 64.0),
            TensorScale::Divide(g) if job.dequantize.is_mx_int => TensorScale::Divide(g * 64.0),
            tensor => tensor,
        };
        let plain = CastOptions::new().isa(isa);
        let cast = |from, to| Caster::new(from, to, &plain).ok();
        let (mut to_f32, mut rounds) = ([None; 3], [None; 2]);
        match product {
            Product::Output | Product::Compressed if to != DType::F32 => {
                to_f32 = [cast(scale, DType::F32), cast(DType::F32, to), cast(to, DType::F32)];
                rounds = [to_f32[1], to_f32[2]];
            }
            _ => to_f32[0] = cast(scale, DType::F32),
        }
        let exact_tensor = match tensor {
            TensorScale::Multiply(g) => magnitude(g) & 0x7F_FFFF == 0,
            TensorScale::None => true,
            _ => false,
        };
        let splits = is_own && !exact_tensor && matches!(tensor, TensorScale::Multiply(_));
        let tensor_bits = if exact_tensor { 0 } else { 24 };
        let has_inf = from.float_format().is_some_and(|format| format.has_inf);
        let nearest = policy.rounding == Rounding::NearestEven;
        let mut kernel = (!is_own || nearest).then(|| Kernel::times(isa, from, to, &options)).flatten();
        if is_own && matches!(tensor, TensorScale::Divide(_))
            || splits && (codes + scale_bits > 24 || has_inf)
            // A difference that the target does not hold is rounded by itself.
            || product == Product::Output && has_zeros && to == DType::BF16
        {
            kernel = None;
        }
        // A quotient is rounded to float64 first, which is far enough from all but that.
        let bits = match tensor {
            TensorScale::Divide(_) if to == DType::F64 => 64,
            TensorScale::Divide(_) => codes + scale_bits + 5,
            _ => codes + scale_bits + tensor_bits,
        };
        let is_exact = bits <= 53 && product == Product::Own;
        let exact = if is_exact {
            let codes = options.dst_order(ByteOrder::Native);
            let out = options.src_order(ByteOrder::Native);
            [(from, DType::F64, codes), (scale, DType::F64, plain), (DType::F64, to, out)]
                .map(|(from, to, options)| Caster::new(from, to, &options).ok())
        } else {
            [None; 3]
        };
        let exact = match exact {
            [Some(codes), Some(scales), Some(out)] => Some([codes, scales, out]),
            _ => None,
        };
        if kernel.is_none() && exact.is_none() {
            return None;
        }
        let size = to.bits() as usize / 8;
        let traffic = job.bytes.len().saturating_add(job.grid.count.saturating_mul(size));
        Some(Self {
            job,
            isa,
            kernel,
            streams: traffic >= options.stream_from.unwrap_or_else(scaled::streaming_threshold),
            to_f32,
            rounds,
            tensor,
            splits,
            ties: (is_own && to != DType::F32 && codes + scale_bits + tensor_bits > 24).then_some(codes),
            zero_is_right: !has_inf,
            exact,
            size,
        })
    }

    /// Casts elements. `dst` begins with the first of them.
    pub(super) fn run(&self, elements: Range<usize>, mut dst: Destination<'_, u8>) -> Result<(), Error> {
        let base = elements.start;
        let (mut buffers, mut room) = (Buffers::new(), None);
        let mut first = elements.start;
        while first < elements.end {
            let segment = Segment::new(self.job.grid, first, elements.end);
            first += segment.n;
            let done = self.kernel.is_some_and(|kernel| {
                self.by_kernel(&kernel, &segment, base, &mut dst, &mut buffers).is_some()
            });
            if done {
                for group in 0..segment.groups {
                    if !self.is_right(buffers.scales[group]) {
                        let elements = segment.group(self.job.grid, group);
                        self.exactly(elements, base, &mut dst, &mut buffers, &mut room)?;
                    }
                }
            } else {
                self.exactly(segment.first..first, base, &mut dst, &mut buffers, &mut room)?;
            }
        }
        if let Some(kernel) = self.kernel.filter(|_| self.streams) {
            kernel.fence();
        }
        Ok(())
    }

    /// Is a scale one that the kernel is right for?
    fn is_right(&self, scale: f32) -> bool {
        let bits = magnitude(scale);
        (LEAST..MOST).contains(&bits) || bits == 0 && self.zero_is_right
    }

    /// May a product become a tie of the target when it is rounded to float32, and is none?
    fn may_tie(&self, scale: f32, rest: f32) -> bool {
        let Some(codes) = self.ties else { return false };
        // Of each code without its powers of two, the product is exact in a float64. A tie of bfloat16 is a one behind its 8
        // bits and nothing more. Those of subnormal float16 may be anywhere from its 11 bits on: then nothing follows.
        let (kept, tie) = if self.job.dequantize.to == DType::BF16 { (7, 1u64 << 44) } else { (11, 0) };
        let below = (1u64 << (52 - kept)) - 1;
        // What is rounded off, or on, at most.
        let near = 1u64 << 29;
        let exact = f64::from(scale) + f64::from(rest);
        (0..1u32 << (codes - 1)).any(|code| {
            let beyond = (exact * f64::from(2 * code + 1)).to_bits().wrapping_sub(tie) & below;
            beyond != 0 && beyond.wrapping_add(near) & below <= 2 * near
        })
    }

    /// The numbers of a segment's scales, and the cast by them. None if the kernel cannot do it; else what of its groups is
    /// [not right](Self::is_right) is to be done again.
    fn by_kernel(
        &self,
        kernel: &Kernel,
        segment: &Segment,
        base: usize,
        dst: &mut Destination<'_, u8>,
        buffers: &mut Buffers,
    ) -> Option<()> {
        let job = self.job;
        let start = job.read.byte(segment.first)?;
        let groups = segment.groups;
        self.numbers(segment, buffers)?;
        let Buffers { scales, rests, zeros, each, .. } = buffers;
        let mut numbers = scales[..groups].iter().zip(&rests[..groups]);
        // What is not right is no number, perhaps, of which no operation may be asked here.
        // Where there are many, that takes longer than it saves.
        let ties = self.ties.is_some()
            && (groups > segment.n / 64 && groups > 1
                || numbers.any(|(&scale, &rest)| self.is_right(scale) && self.may_tie(scale, rest)));
        let is_affine = job.given.zero_points.is_some();
        if is_affine {
            for (group, zero) in zeros[..groups].iter_mut().enumerate() {
                *zero = -(job.given.get(segment.scale + group).1 as f32);
            }
        }
        let mut arrays = [
            &scales[..],
            if self.splits { &rests[..] } else { &[] },
            if is_affine { &zeros[..] } else { &[] },
        ];
        if segment.per == Per::Element {
            let each = once(each, || array(NO_NUMBERS)).ok()?;
            expand(&mut arrays, &mut each[..], groups, segment.n, job.grid.block());
        }
        let factors = Factors {
            per: segment.per,
            how: if ties { How::Odd } else { How::Near },
            scales: arrays[0],
            rests: arrays[1],
            inverses: &[],
            zeros: arrays[2],
        };
        let at = (segment.first - base) * self.size;
        let here = dst.part(at..at + segment.n * self.size);
        kernel.run(&job.bytes[start..], here, segment.n, &factors, self.streams);
        Some(())
    }

    /// The scales of a segment as float32.
    fn numbers(&self, segment: &Segment, buffers: &mut Buffers) -> Option<()> {
        let (given, n) = (&self.job.given, segment.groups);
        let bytes = given.scales.native(given.bytes, segment.scale..segment.scale + n, &mut buffers.codes);
        let numbers = &mut buffers.scales[..n];
        let [first, narrow, wide] = self.to_f32;
        first?.fill(bytes, (&mut *numbers).into(), n).ok()?;
        let mut round = |numbers: &mut [f32], narrow: Option<Caster>, wide: Option<Caster>| {
            if let (Some(narrow), Some(wide)) = (narrow, wide) {
                let there = &mut buffers.codes[..2 * n];
                narrow.fill(&*numbers, (&mut *there).into(), n).ok()?;
                wide.fill(&*there, numbers.into(), n).ok()?;
            }
            Some(())
        };
        round(numbers, narrow, wide)?;
        match self.tensor {
            TensorScale::Multiply(g) | TensorScale::Divide(g) => {
                let mut factor = [g];
                if self.job.dequantize.product == Product::Output {
                    let mut one = [0u8; 2];
                    if let [Some(narrow), Some(wide)] = self.rounds {
                        narrow.fill(&factor[..], (&mut one[..]).into(), 1).ok()?;
                        wide.fill(&one[..], (&mut factor[..]).into(), 1).ok()?;
                    }
                }
                let operation = match self.tensor {
                    TensorScale::Divide(_) => Operation::Divide,
                    _ => Operation::Multiply,
                };
                let rests = if self.splits { &mut buffers.rests[..n] } else { &mut [] };
                scaled::with_tensor(self.isa, operation, factor[0], numbers, rests);
                let [narrow, wide] = self.rounds;
                round(numbers, narrow, wide)
            }
            _ => Some(()),
        }
    }

    /// The same by way of float64, or of the reference.
    fn exactly(
        &self,
        elements: Range<usize>,
        base: usize,
        dst: &mut Destination<'_, u8>,
        buffers: &mut Buffers,
        room: &mut Option<Room>,
    ) -> Result<(), Error> {
        let mut first = elements.start;
        while first < elements.end {
            let width = self.job.grid.width();
            let n = TILE.min(elements.end - first).min(width - first % width);
            if self.by_f64(first, n, base, dst, buffers).is_none() {
                let room = once(room, Room::new)?;
                self.job.by_reference(first..first + n, base, dst, room)?;
            }
            first += n;
        }
        Ok(())
    }

    /// None if a scale is not what float64 is right for.
    fn by_f64(
        &self,
        first: usize,
        n: usize,
        base: usize,
        dst: &mut Destination<'_, u8>,
        buffers: &mut Buffers,
    ) -> Option<()> {
        let [codes, scales, out] = self.exact?;
        let (job, grid) = (self.job, self.job.grid);
        let tile = once(&mut buffers.tile, || {
            array(Tile { codes: [0; 4 * TILE], values: [0.0; TILE + 8], by: [0.0; TILE] })
        });
        let [Tile { codes: room, values: tile, by }] = &mut **tile.ok()?;
        // Factors of groups, and from there of elements: from the last on, because one is made in the place of the other.
        let (scale, _) = grid.run(first);
        let groups = grid.run(first + n - 1).0 + 1 - scale;
        let bytes = job.given.scales.native(job.given.bytes, scale..scale + groups, room);
        scales.fill(bytes, (&mut by[..groups]).into(), groups).ok()?;
        let is_right = |s: f64| s.is_finite() && (s != 0.0 || self.zero_is_right);
        if !by[..groups].iter().all(|&s| is_right(s)) {
            return None;
        }
        let (block, at) = (grid.block(), first % grid.width());
        for group in (0..groups).rev() {
            let start = if group == 0 { 0 } else { (at / block + group) * block - at };
            let end = ((at / block + group + 1) * block - at).min(n);
            let factor = by[group];
            by[start..end].fill(factor);
        }
        // A packed element that does not begin a byte is read with those before it.
        let (start, ahead) = job.read.byte_before(first);
        let all = n + ahead;
        codes.fill(&job.bytes[start..start + job.read.size(all)], (&mut tile[..all]).into(), all).ok()?;
        let tile = &mut tile[ahead..all];
        if job.dequantize.from.bits() >= 16 {
            canonical(tile);
        }
        if job.given.zero_points.is_some() {
            runs(grid, first, n, |run, scale| {
                let zero = job.given.get(scale).1 as f64;
                for value in &mut tile[run] {
                    *value -= zero;
                }
            });
        }
        scaled::arithmetic(self.isa, Operation::Multiply, tile, &by[..n]);
        match self.tensor {
            TensorScale::Multiply(g) | TensorScale::Divide(g) => {
                by[..n].fill(g.into());
                let is_divisor = matches!(self.tensor, TensorScale::Divide(_));
                let operation = if is_divisor { Operation::Divide } else { Operation::Multiply };
                scaled::arithmetic(self.isa, operation, tile, &by[..n]);
            }
            _ => {}
        }
        let at = (first - base) * self.size;
        out.fill(&*tile, dst.part(at..at + n * self.size), n).ok()?;
        Some(())
    }
}
