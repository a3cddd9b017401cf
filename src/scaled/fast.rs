//! What registers do of a scaled cast, and what is left to the reference.
//!
//! * A kernel casts a run of elements under factors that are float32 (or the sum of two): it is right where those are in a
//!   range in which nothing under- or overflows on the way.
//! * What is not, and dtypes and options for which there is no kernel, are made by plain casts and float64 between them, in
//!   which products are exact and quotients far enough from every tie: by lanecast's own rule alone.
//! * The rest, and NaN or Inf as a scale, is the reference's.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::iter::repeat_n;
use core::ops::Range;
use core::slice;

use super::codes::Elements;
use super::engine::{Dequantizing, Room, ToOdd, runs};
use super::error::Error;
use super::memory::{array, collect, once};
use super::rule::{Dequantize, Product};
use super::scaling::TensorScale;
use super::shape::Grid;
use crate::cast::Caster;
use crate::formats::dtype::{DType, Kind};
use crate::formats::isa::Isa;
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::options::{CastOptions, Rounding};
use crate::kernels::memory::Destination;
use crate::kernels::present::Present;
use crate::kernels::scaled::{
    self, BLOCK, Bounds, By, Factors, How, Kernel, LEAST_GROUP, Operation, Others, Per, Rows, TIES, Table16,
    Table128, Ties, WRONG,
};

/// Scales at a time: their numbers stay in L1.
pub(super) const SCALES: usize = 512;
/// Tables at a time: they stay in L1.
const TABLES: usize = 64;
/// Elements of a scale from which on a table of its own takes less time.
const TABLED: usize = 1024;
/// Codes for so many tables, of a byte at most, and words.
const MADE: usize = 16;
type Made = [[u8; 128]; 3 * MADE];
/// Elements of a tile of float64.
const TILE: usize = 1024;

/// Numbers of scales.
pub(super) type Numbers = [f32; SCALES + BLOCK];

pub(super) const NO_NUMBERS: Numbers = [0.0; SCALES + BLOCK];

/// So many zeros, if they are used.
pub(super) fn zeros<T: Clone>(zero: T, n: usize, is_used: bool) -> Result<Vec<T>, Error> {
    collect(repeat_n(zero, if is_used { n } else { 0 }))
}

/// Room for the numbers of scales.
struct Buffers {
    scales: Vec<f32>,
    zeros: Vec<f32>,
    codes: Vec<u8>,
    /// What is [`WRONG`] of scales, or what [`TIES`].
    flags: Vec<u8>,
    /// What scales add to exponents, and what they pick of the table.
    deltas: Vec<u32>,
    picks: Vec<u8>,
    /// Of scales, where each has one.
    tables: Vec<Table128>,
    sixteens: Vec<Table16>,
    /// What those are made of, and from.
    made: Option<Box<Made>>,
    /// Of single elements, once there are such.
    each: Option<Box<[Numbers; 2]>>,
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
    /// For so many scales.
    fn new(n: usize, multiply: &Multiply<'_>) -> Result<Self, Error> {
        let by = multiply.tabling().map(|tabling| tabling.by);
        let whole = n + BLOCK;
        let has_kernel = multiply.decided.kernel.is_some();
        Ok(Self {
            scales: zeros(0.0, whole, has_kernel)?,
            zeros: zeros(0.0, whole, multiply.job.given.zero_points.is_some())?,
            codes: zeros(0, 4 * n, has_kernel)?,
            flags: zeros(0, n, has_kernel)?,
            deltas: zeros(0, whole, matches!(by, Some(By::Exponent | By::Mantissa)))?,
            picks: zeros(0, whole, matches!(by, Some(By::Exponent | By::Mantissa)))?,
            tables: zeros(Table128::ZEROS, n, by == Some(By::Scale))?,
            sixteens: zeros(Table16::ZEROS, n, by == Some(By::Sixteen))?,
            made: None,
            each: None,
            tile: None,
        })
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

/// Casts a segment of rows, if those can be cast together.
type CastSegment<'a> = dyn FnMut(&Segment, Option<Rows>) -> Result<(), Error> + 'a;

/// Rows that have the same scales, of which so many columns: from the beginning of a block on.
pub(super) struct Region {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    /// The first scale.
    pub(super) scale: usize,
}

impl Region {
    /// Calls a function with the regions of some elements; of so many rows, those have at most so many scales.
    pub(super) fn each(
        grid: &Grid,
        elements: &Range<usize>,
        most: &dyn Fn(usize) -> usize,
        call: &mut dyn FnMut(&Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (width, block) = (grid.width(), grid.block());
        let mut rows = elements.start / width..0;
        while rows.start * width < elements.end {
            let scale = grid.run(rows.start * width).0;
            rows.end = rows.start + 1;
            while rows.end * width < elements.end && grid.run(rows.end * width).0 == scale {
                rows.end += 1;
            }
            let (mut column, mut end) = (0, width);
            if rows.len() == 1 {
                column = elements.start.saturating_sub(rows.start * width) / block * block;
                end = width.min(elements.end - rows.start * width);
            }
            let step = most(rows.len()).max(1).saturating_mul(block);
            while column < end {
                let columns = column..column.saturating_add(step).min(end);
                column = columns.end;
                let scale = scale + columns.start / block;
                call(&Self { rows: rows.clone(), columns, scale })?;
            }
            rows.start = rows.end;
        }
        Ok(())
    }

    /// Its scales.
    pub(super) fn groups(&self, grid: &Grid) -> usize {
        self.columns.len().div_ceil(grid.block())
    }

    /// Calls a function with its segments, as far as they are among some elements, and with the rows that each is of: how far
    /// those are apart is known of a first element and a number of rows, if they can be cast together.
    pub(super) fn segments(
        &self,
        grid: &Grid,
        elements: &Range<usize>,
        apart: &dyn Fn(usize, usize) -> Option<Rows>,
        call: &mut CastSegment<'_>,
    ) -> Result<(), Error> {
        let (width, columns) = (grid.width(), &self.columns);
        let first = self.rows.start * width + columns.start;
        let segment = Segment::new(grid, first, first + columns.len());
        if elements.start <= first
            && (self.rows.end - 1) * width + columns.end <= elements.end
            && segment.n == columns.len()
            && let Some(rows) = apart(first, self.rows.len())
        {
            return call(&segment, Some(rows));
        }
        for row in self.rows.clone() {
            let mut first = elements.start.max(row * width + columns.start);
            let end = elements.end.min(row * width + columns.end);
            while first < end {
                let segment = Segment::new(grid, first, end);
                call(&segment, apart(first, 1))?;
                first += segment.n;
            }
        }
        Ok(())
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
/// Inf.
const INF: u32 = 0x7F80_0000;
/// The bounds of scales and of a factor of the tensor, whose product is multiplied with.
const LEAST_OF_TWO: u32 = (127 - 45) << 23;
const MOST_OF_TWO: u32 = (127 + 45) << 23;

/// Is every product of a code and its scale a float32?
pub(super) fn is_exact(dequantize: &Dequantize) -> bool {
    let Dequantize { from, scale, tensor, .. } = *dequantize;
    let tensor_bits = match tensor {
        TensorScale::None => 0,
        TensorScale::Multiply(g) if magnitude(g) & 0x7F_FFFF == 0 => 0,
        _ => 24,
    };
    significant(from) + significant(scale) + tensor_bits <= 24
}

/// Significant bits of the elements of a dtype, also with a zero point taken off.
fn significant(dtype: DType) -> u32 {
    match dtype.kind() {
        Kind::Int(format) => format.bits,
        Kind::Float(format) => format.mantissa_bits + 1,
        Kind::Bool | Kind::Complex(_) => 64,
    }
}

/// The codes of tables of so many in their order, as they lie in the source: one after the other for each 128.
fn all_codes(from: DType, options: &CastOptions, of: u8, codes: &mut [u8]) -> Option<()> {
    let pack = CastOptions::new().src_packing(Packing::OnePerByte).dst_packing(options.src_packing);
    let pack = Caster::new(from, from, &pack).ok()?;
    let mask = u8::MAX >> (8 - from.bits().min(8)) & (of - 1);
    let all: [u8; 128] = core::array::from_fn(|code| code as u8 & mask);
    let n = from.bits() as usize * 128 / 8;
    let (last, rest) = codes.split_at_mut(n);
    pack.cast(&all, last, 128).ok()?;
    rest.chunks_exact_mut(n).for_each(|codes| codes.copy_from_slice(last));
    Some(())
}

/// NaNs without a payload, but with their signs.
fn canonical(values: &mut [f64]) {
    for value in values {
        if value.is_nan() {
            *value = f64::NAN.copysign(*value);
        }
    }
}

/// May a product become a tie of the target when it is rounded to float32, and be none?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MayTie {
    Never,
    /// That is a matter of the scale.
    Some(Ties),
    Always,
}

/// What elements become is looked up.
#[derive(Clone, Copy, Debug)]
struct Tabling {
    kernel: Kernel,
    /// What makes tables.
    maker: Kernel,
    by: By,
    /// The only one, if there is one.
    table: Table128,
    /// Under every scale that is not out of range, or under positive ones alone.
    any_scale: bool,
}

/// What registers do of a dequantisation: decided once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    isa: Present,
    kernel: Option<Kernel>,
    tabling: Option<Tabling>,
    /// Bytes from which on results go past the caches.
    stream_from: usize,
    /// To float32 by which scales come: one dtype after the other.
    to_f32: [Option<Caster>; 3],
    /// The same of the products with the factor of the tensor.
    rounds: [Option<Caster>; 2],
    /// What scales are multiplied with or divided by.
    tensor: TensorScale,
    /// What products are multiplied with once more; 1 if with nothing.
    after: f32,
    /// When a product may be rounded to a tie of the target.
    ties: MayTie,
    /// No code is Inf, of which a zero makes a NaN.
    zero_is_right: bool,
    /// Codes to float64, scales to float64, and float64 to the target.
    exact: Option<[Caster; 3]>,
    size: usize,
    /// Results are rounded to odd, all by the kernel, or none are right.
    is_odd: bool,
}

impl Decided {
    /// The same with results that are rounded to odd, so that one more rounding is the only one: to float32, by the own rule.
    pub(super) fn odd(self) -> Option<Self> {
        self.kernel?;
        let ties = MayTie::Always;
        Some(Self { ties, tabling: None, stream_from: usize::MAX, is_odd: true, ..self })
    }

    /// Of elements that are read and written so. None if the reference is as good.
    pub(super) fn new(dequantize: &Dequantize, read: &Elements, write: &Elements) -> Option<Self> {
        let Dequantize { from, to, scale, product, tensor, .. } = *dequantize;
        let options = read.options().dst_order(write.options().dst_order);
        // Products are not rounded so.
        let options = CastOptions { stochastic: None, ..options };
        let isa = read.present();
        if isa.isa() == Isa::Scalar || product == Product::GptOss && tensor != TensorScale::None {
            return None;
        }
        let is_own = matches!(product, Product::Own | Product::GptOss);
        let policy = dequantize.policy();
        let (codes, scale_bits) = (significant(from), significant(scale));
        if let TensorScale::Multiply(g) | TensorScale::Divide(g) = tensor
            && !(LEAST_OF_TWO..MOST_OF_TWO).contains(&magnitude(g))
        {
            return None;
        }
        // MXINT8 counts 1/64.
        let tensor = match tensor {
            TensorScale::None if dequantize.is_mx_int => TensorScale::Multiply(1.0 / 64.0),
            TensorScale::Multiply(g) if dequantize.is_mx_int => TensorScale::Multiply(g / 64.0),
            TensorScale::Divide(g) if dequantize.is_mx_int => TensorScale::Divide(g * 64.0),
            tensor => tensor,
        };
        let plain = CastOptions::new().isa(isa.isa());
        let cast = |from, to| Caster::new(from, to, &plain).ok();
        let (mut to_f32, mut rounds) = ([None; 3], [None; 2]);
        match product {
            Product::Output if to != DType::F32 => {
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
        let tensor_bits = if exact_tensor { 0 } else { 24 };
        let (tensor, after) = match tensor {
            TensorScale::Multiply(g) if is_own && !exact_tensor => (TensorScale::None, g),
            tensor => (tensor, 1.0),
        };
        let has_inf = from.float_format().is_some_and(|format| format.has_inf);
        let nearest = policy.rounding == Rounding::NearestEven;
        let mut kernel = (!is_own || nearest).then(|| Kernel::times(isa, from, to, &options)).flatten();
        if is_own && matches!(tensor, TensorScale::Divide(_)) || after != 1.0 && codes + scale_bits > 24 {
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
        let ties = if !is_own || to == DType::F32 || codes + scale_bits + tensor_bits <= 24 {
            MayTie::Never
        } else if after == 1.0 {
            Ties::new(codes, to).map_or(MayTie::Always, MayTie::Some)
        } else {
            // Of the factor alone, and what else the products are of.
            match Ties::new(codes + scale_bits, to) {
                Some(ties) if scaled::ties(isa, ties, &[after], &mut [0]) == 0 => MayTie::Never,
                _ => MayTie::Always,
            }
        };
        let is_plain = is_own && nearest && tensor == TensorScale::None;
        let by_one = kernel.filter(|_| is_plain).and_then(|kernel| {
            let maker =
                if to == DType::F32 { Kernel::times(isa, from, DType::BF16, &options)? } else { kernel };
            let (by, mantissas) = if scale == DType::F8E8M0 && after == 1.0 && to != DType::F16 {
                (By::Exponent, [1.0; 8])
            } else if scale == DType::F8E4M3FN && from.bits() == 4 && to == DType::BF16 {
                (By::Mantissa, [1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875])
            } else {
                return None;
            };
            let how = if ties == MayTie::Never { How::Near } else { How::Odd };
            let per = Per::Group(LEAST_GROUP);
            let factors = Factors { per, how, tensor: after, scales: &mantissas, ..Factors::NONE };
            let (mut codes, mut words, mut table) = ([0; 128], [0; 256], [Table128::ZEROS]);
            all_codes(from, &options, 128, &mut codes)?;
            maker.fill(&codes, &mut words, &mut table, &factors);
            let [table] = table;
            let kernel = Kernel::tabled(isa, from, to, &options, by)?;
            Some(Tabling { kernel, maker, by, table, any_scale: true })
        });
        let by_scale = || {
            let maker = kernel.filter(|_| !dequantize.loses_sign)?;
            let sixteen = Kernel::tabled(isa, from, to, &options, By::Sixteen);
            let scale = || Kernel::tabled(isa, from, to, &options, By::Scale);
            let (by, kernel) =
                sixteen.map(|kernel| (By::Sixteen, kernel)).or_else(|| Some((By::Scale, scale()?)))?;
            let any_scale = by == By::Scale || from.bits() < 8;
            Some(Tabling { kernel, maker, by, table: Table128::ZEROS, any_scale })
        };
        let tabling = by_one.or_else(by_scale);
        Some(Self {
            isa,
            kernel,
            tabling,
            stream_from: options.stream_from.unwrap_or_else(scaled::streaming_threshold),
            to_f32,
            rounds,
            tensor,
            after,
            ties,
            zero_is_right: !has_inf,
            exact,
            size: to.bits() as usize / 8,
            is_odd: false,
        })
    }
}

/// A dequantisation by registers.
pub(super) struct Multiply<'a> {
    job: &'a Dequantizing<'a>,
    decided: &'a Decided,
    kernel: Option<&'a Kernel>,
    streams: bool,
}

impl<'a> Multiply<'a> {
    /// None if the reference is as good.
    pub(super) fn new(job: &'a Dequantizing<'a>, decided: &'a Decided) -> Option<Self> {
        // A difference that the target does not hold is rounded by itself.
        let rounds_twice = job.given.zero_points.is_some()
            && job.dequantize.product == Product::Output
            && job.dequantize.to == DType::BF16;
        let kernel = decided.kernel.as_ref().filter(|_| !rounds_twice);
        if kernel.is_none() && decided.exact.is_none() {
            return None;
        }
        let traffic = job.bytes.len().saturating_add(job.grid.count.saturating_mul(decided.size));
        Some(Self { job, decided, kernel, streams: traffic >= decided.stream_from })
    }

    /// What looks elements up, if that is faster.
    fn tabling(&self) -> Option<&'a Tabling> {
        let grid = self.job.grid;
        self.decided.tabling.as_ref().filter(|tabling| {
            let least = match tabling.by {
                By::Scale => TABLED,
                By::Sixteen => BLOCK,
                By::Exponent | By::Mantissa => 0,
            };
            // Those of each scale are made in vain where not a whole block of elements has it.
            let block = grid.block();
            let is_whole = block >= BLOCK && (block.is_power_of_two() || block >= grid.width());
            self.job.given.zero_points.is_none()
                && (least == 0 || is_whole && grid.count / grid.scales.max(1) >= least)
        })
    }

    /// Casts elements. `dst` begins with the first of them. False if some are not rounded as they are to be.
    pub(super) fn run(&self, elements: Range<usize>, mut dst: Destination<'_, u8>) -> Result<bool, Error> {
        let mut is_right = true;
        let (grid, base) = (self.job.grid, elements.start);
        let is_by_scale = self.tabling().is_some_and(|tabling| tabling.by == By::Scale);
        let most = grid.scales.min(if is_by_scale { TABLES } else { SCALES });
        let (mut buffers, mut room) = (Buffers::new(most, self)?, None);
        let (buffers, room, dst) = (&mut buffers, &mut room, &mut dst);
        Region::each(grid, &elements, &|_| most, &mut |region| {
            let (scale, apart) = (region.scale, |first, count| self.steps(first, count));
            let flags = self.numbers(scale, region.groups(grid), buffers)?;
            let has_kernel = flags.is_some_and(|flags| flags & WRONG == 0);
            is_right &= has_kernel || !self.decided.is_odd;
            if !is_right {
                return Ok(());
            }
            region.segments(grid, &elements, &apart, &mut |segment, rows| {
                if let (Some(flags), Some(rows)) = (flags, rows) {
                    return self.by_kernel(segment, scale, flags, &rows, base, dst, buffers, room);
                }
                is_right &= !self.decided.is_odd;
                for row in 0..rows.map_or(1, |rows| rows.count) {
                    let first = segment.first + row * grid.width();
                    self.exactly(first..first + segment.n, base, dst, buffers, room)?;
                }
                Ok(())
            })
        })?;
        if let Some(kernel) = self.kernel.filter(|_| self.streams) {
            kernel.fence();
        }
        Ok(is_right)
    }

    /// How rows follow each other of which the first has an element. None if one does not begin a byte.
    fn steps(&self, first: usize, count: usize) -> Option<Rows> {
        let (read, width) = (&self.job.read, self.job.grid.width());
        let start = read.byte(first)?;
        let src = if count == 1 { 0 } else { read.byte(first + width)? - start };
        Some(Rows { count, src, dst: width * self.decided.size })
    }

    /// Casts a segment of rows, whose scales are known from `scale` on; what of it is [`WRONG`], or has [`TIES`], once more.
    #[expect(clippy::too_many_arguments, reason = "rows, scales, where they go, and room for both")]
    fn by_kernel(
        &self,
        segment: &Segment,
        scale: usize,
        flags: u8,
        rows: &Rows,
        base: usize,
        dst: &mut Destination<'_, u8>,
        buffers: &mut Buffers,
        room: &mut Option<Room>,
    ) -> Result<(), Error> {
        let known = segment.scale - scale;
        let of = |group: usize, flag: u8, buffers: &Buffers| buffers.flags[known + group] & flag != 0;
        let has_ties =
            flags & TIES != 0 && self.tabling().is_none_or(|tabling| !segment.per.is_by(tabling.by));
        let ties = if has_ties { (0..segment.groups).filter(|&i| of(i, TIES, buffers)).count() } else { 0 };
        // Groups by themselves, if they are few and begin at bytes.
        let is_apart = matches!(segment.per, Per::Group(_)) && 8 * ties <= segment.groups;
        self.by_factors(segment, known, !is_apart && ties > 0, rows, base, dst, buffers)?;
        let again = if is_apart && ties > 0 { WRONG | TIES } else { WRONG };
        if flags & again == 0 {
            return Ok(());
        }
        for group in 0..segment.groups {
            let elements = segment.group(self.job.grid, group);
            if of(group, WRONG, buffers) {
                for row in 0..rows.count {
                    let ahead = row * self.job.grid.width();
                    self.exactly(elements.start + ahead..elements.end + ahead, base, dst, buffers, room)?;
                }
            } else if of(group, again, buffers) {
                let (first, n, scale) = (elements.start, elements.len(), segment.scale + group);
                let segment = Segment { first, n, scale, groups: 1, per: Per::All };
                self.by_factors(&segment, known + group, true, rows, base, dst, buffers)?;
            }
        }
        Ok(())
    }

    /// The same by the numbers of its scales, from this one on, with one rounding where there are ties.
    #[expect(clippy::too_many_arguments, reason = "as above")]
    fn by_factors(
        &self,
        segment: &Segment,
        known: usize,
        has_ties: bool,
        rows: &Rows,
        base: usize,
        dst: &mut Destination<'_, u8>,
        buffers: &mut Buffers,
    ) -> Result<(), Error> {
        let (job, Some(kernel), Some(start)) = (self.job, self.kernel, self.job.read.byte(segment.first))
        else {
            return Ok(());
        };
        let at = (segment.first - base) * self.decided.size;
        let here = dst.part(at..at + (rows.count - 1) * rows.dst + segment.n * self.decided.size);
        let Buffers { scales, zeros, deltas, picks, tables, sixteens, each, .. } = buffers;
        if let Some(Tabling { kernel, by, table, .. }) = self.tabling()
            && segment.per.is_by(*by)
        {
            let none = Factors { per: segment.per, ..Factors::NONE };
            let one = Factors { tables: slice::from_ref(table), ..none };
            let factors = match by {
                By::Scale => Factors { tables: &tables[known..], ..none },
                By::Exponent => Factors { deltas: &deltas[known..], ..one },
                By::Sixteen => Factors { sixteens: &sixteens[known..], ..none },
                By::Mantissa => Factors { deltas: &deltas[known..], picks: &picks[known..], ..one },
            };
            kernel.run(&job.bytes[start..], here, segment.n, rows, &factors, self.streams);
            return Ok(());
        }
        let is_odd = has_ties || self.decided.ties == MayTie::Always;
        let is_affine = job.given.zero_points.is_some();
        let mut arrays = [&scales[known..], if is_affine { &zeros[known..] } else { &[] }];
        let block = job.grid.block();
        if segment.per == Per::Element && block > 1 {
            let each = once(each, || array(NO_NUMBERS))?;
            expand(&mut arrays, &mut each[..], segment.groups, segment.n, block);
        }
        let factors = Factors {
            per: segment.per,
            how: if is_odd { How::Odd } else { How::Near },
            tensor: self.decided.after,
            scales: arrays[0],
            zeros: arrays[1],
            others: Others { loses_sign: job.dequantize.loses_sign, ..Others::NONE },
            ..Factors::NONE
        };
        kernel.run(&job.bytes[start..], here, segment.n, rows, &factors, self.streams);
        Ok(())
    }

    /// Finds what kernels need of so many scales, from one on, and what is to be said of them; None if there is no kernel.
    fn numbers(&self, scale: usize, n: usize, buffers: &mut Buffers) -> Result<Option<u8>, Error> {
        let Some(mut flags) = self.factors(scale, n, buffers) else { return Ok(None) };
        let decided = self.decided;
        let Buffers { scales, flags: all, deltas, picks, tables, sixteens, made, .. } = buffers;
        let Some(Tabling { by, maker, any_scale, .. }) = self.tabling() else { return Ok(Some(flags)) };
        let each = match by {
            By::Exponent | By::Mantissa => {
                let (deltas, picks) = (&mut deltas[..n], &mut picks[..n]);
                let range = LEAST..MOST;
                flags |= scaled::deltas(decided.isa, &scales[..n], &range, deltas, picks, &mut all[..n]);
                return Ok(Some(flags));
            }
            By::Scale => 128,
            By::Sixteen => 16,
        };
        if !any_scale {
            let positive = Bounds { range: 1..INF, zero: false, negative: false };
            flags |= scaled::bounded(decided.isa, &scales[..n], &positive, &mut all[..n]);
        }
        let is_new = made.is_none();
        let made = once(made, || array([0; 128]))?;
        let (codes, words) = made.as_flattened_mut().split_at_mut(MADE * 128);
        let options = self.job.read.options();
        if is_new && all_codes(self.job.dequantize.from, &options, each, codes).is_none() {
            return Ok(None);
        }
        let is_odd = decided.ties == MayTie::Always || flags & TIES != 0;
        let how = if is_odd { How::Odd } else { How::Near };
        let factors = Factors { per: Per::Group(each.into()), how, tensor: decided.after, ..Factors::NONE };
        if *by == By::Sixteen {
            const TOGETHER: usize = MADE * 128 / 16;
            for (tables, scales) in sixteens[..n].chunks_mut(TOGETHER).zip(scales.chunks(TOGETHER)) {
                maker.fill_sixteens(codes, words, tables, &Factors { scales, ..factors });
            }
        } else {
            for (tables, scales) in tables[..n].chunks_mut(MADE).zip(scales.chunks(MADE)) {
                maker.fill(codes, words, tables, &Factors { scales, ..factors });
            }
        }
        Ok(Some(flags))
    }

    /// So many scales, from one on, as float32, with their zero points.
    fn factors(&self, scale: usize, n: usize, buffers: &mut Buffers) -> Option<u8> {
        self.kernel?;
        let given = &self.job.given;
        let bytes = given.scales.native(given.bytes, scale..scale + n, &mut buffers.codes);
        let numbers = &mut buffers.scales[..n];
        let [first, narrow, wide] = self.decided.to_f32;
        first?.fill(bytes, (&mut *numbers).into(), n).ok()?;
        let flags = &mut buffers.flags[..n];
        flags.fill(0);
        let range = if self.decided.after == 1.0 && self.decided.tensor == TensorScale::None {
            LEAST..MOST
        } else {
            LEAST_OF_TWO..MOST_OF_TWO
        };
        let bounds = Bounds { range, zero: self.decided.zero_is_right, negative: true };
        let mut all = scaled::bounded(self.decided.isa, numbers, &bounds, flags);
        if given.zero_points.is_some() {
            for (group, zero) in buffers.zeros[..n].iter_mut().enumerate() {
                *zero = -(given.get(scale + group).1 as f32);
            }
        }
        let mut round = |numbers: &mut [f32], narrow: Option<Caster>, wide: Option<Caster>| {
            if let (Some(narrow), Some(wide)) = (narrow, wide) {
                let there = &mut buffers.codes[..2 * n];
                narrow.fill(&*numbers, (&mut *there).into(), n).ok()?;
                wide.fill(&*there, numbers.into(), n).ok()?;
            }
            Some(())
        };
        round(numbers, narrow, wide)?;
        match self.decided.tensor {
            TensorScale::Multiply(g) | TensorScale::Divide(g) => {
                let mut factor = [g];
                if self.job.dequantize.product == Product::Output {
                    let mut one = [0u8; 2];
                    if let [Some(narrow), Some(wide)] = self.decided.rounds {
                        narrow.fill(&factor[..], (&mut one[..]).into(), 1).ok()?;
                        wide.fill(&one[..], (&mut factor[..]).into(), 1).ok()?;
                    }
                }
                let operation = match self.decided.tensor {
                    TensorScale::Divide(_) => Operation::Divide,
                    _ => Operation::Multiply,
                };
                scaled::with_tensor(self.decided.isa, operation, factor[0], numbers, &mut []);
                let [narrow, wide] = self.decided.rounds;
                round(numbers, narrow, wide)?;
            }
            _ => {}
        }
        if narrow.is_some() || self.decided.tensor != TensorScale::None {
            all |=
                scaled::bounded(self.decided.isa, numbers, &Bounds { range: LEAST..MOST, ..bounds }, flags);
        }
        if let MayTie::Some(ties) = self.decided.ties {
            all |= scaled::ties(self.decided.isa, ties, numbers, flags);
        }
        Some(all)
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
        let [codes, scales, out] = self.decided.exact?;
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
        let is_right = |s: f64| s.is_finite() && (s != 0.0 || self.decided.zero_is_right);
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
        scaled::arithmetic(self.decided.isa, Operation::Multiply, tile, &by[..n]);
        let (operation, factor) = match self.decided.tensor {
            TensorScale::Divide(g) => (Operation::Divide, g),
            TensorScale::Multiply(g) => (Operation::Multiply, g),
            _ => (Operation::Multiply, self.decided.after),
        };
        if factor != 1.0 {
            by[..n].fill(factor.into());
            scaled::arithmetic(self.decided.isa, operation, tile, &by[..n]);
        }
        let at = (first - base) * self.decided.size;
        out.fill(&*tile, dst.part(at..at + n * self.decided.size), n).ok()?;
        Some(())
    }
}

impl ToOdd for Multiply<'_> {
    fn to_odd(&self, elements: Range<usize>, dst: Destination<'_, u8>) -> Result<bool, Error> {
        Ok(self.run(elements, dst)? && self.decided.is_odd)
    }
}
