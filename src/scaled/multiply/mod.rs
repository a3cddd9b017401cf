//! Dequantisation by the vector kernels, and what is left to the reference.
//!
//! * A kernel casts a run of elements under float32 scales. It is exact while the scale is within bounds in which no intermediate
//!   result overflows or underflows.
//! * Scales beyond those bounds, and dtypes and options without a kernel, go by way of float64: a plain cast to float64, a
//!   multiplication (exact, or with a quotient far enough from every tie), and a plain cast from float64. That is for lanecast's own
//!   rule, and for integers under profiles that multiply in float32, with a rounding to that before and after.
//! * Everything else, including scales of NaN and Inf, is left to the reference.

mod decided;
mod scales;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::slice;

use super::coded::{self, Coded};
use super::engine::{Dequantizing, Room, ToFloats};
use super::error::Error;
use super::memory::{array, once};
use super::numbers::{NO_NUMBERS, Numbers, SCALES, TABLED, TABLES, expand, zeros};
use super::scaling::TensorScale;
use super::segment::{Call, Region, Segment};
use crate::formats::isa::Isa;
use crate::kernels::memory::Destination;
use crate::kernels::scaled::float64::{Operation, arithmetic};
use crate::kernels::scaled::scales::{TIES, WRONG};
use crate::kernels::scaled::{
    By, How, Others, Per, Place, Rows, ScaleArrays, ScaledKernel, Table16, Table128,
};
use crate::kernels::sizes::KERNEL_BLOCK;
use decided::{ByF64, MayTie, Tabling};
pub(super) use decided::{Decided, product_bits};

/// From this many elements per scale on, a table of 16 products for each scale pays on AVX-512, where the alternative computes
/// the products of all codes in registers. Tables of 128 products pay from [`TABLED`] on.
const SIXTEEN: usize = 512;
/// How many tables are filled at a time, and the room for it: codes of up to one byte, and products of two.
const MADE: usize = 16;
type Made = [[u8; 128]; 3 * MADE];
/// How many elements go by way of float64 at a time.
const TILE: usize = 1024;

/// What is computed from the scales of one region.
struct Buffers {
    scales: Vec<f32>,
    zeros: Vec<f32>,
    codes: Vec<u8>,
    /// For each scale, [`WRONG`] if the kernel would be wrong for it, and [`TIES`] if the kernel must be told that products may
    /// become ties.
    flags: Vec<u8>,
    /// With one table for all scales: what each scale adds to exponents.
    deltas: Vec<u32>,
    /// With a table for each code of a scale: the place of the table of each 16 elements.
    places: Vec<Place>,
    /// The tables, if each scale has one.
    tables: Vec<Table128>,
    sixteens: Vec<Table16>,
    /// Room to fill tables, allocated when first needed.
    made: Option<Box<Made>>,
    /// The numbers of the scales, repeated for each element where blocks are too short for the kernel. Allocated when first needed.
    each: Option<Box<[Numbers; 2]>>,
    /// Room for the way by float64, allocated when first needed.
    tile: Option<Tile>,
}

struct Tile {
    codes: Box<[u8; 4 * TILE]>,
    values: Box<[f64; TILE + 8]>,
    by: Box<[f64; TILE]>,
}

impl Buffers {
    /// Returns buffers for `n` scales.
    fn new(n: usize, multiply: &Multiply<'_>) -> Result<Self, Error> {
        let by = multiply.tabling().map(|tabling| tabling.by);
        let whole = n + KERNEL_BLOCK;
        let has_kernel = multiply.decided.kernel.is_some();
        let is_coded = multiply.coded.is_some();
        Ok(Self {
            scales: zeros(0.0, whole, has_kernel && !is_coded)?,
            zeros: zeros(0.0, whole, multiply.job.given.zero_points.is_some())?,
            codes: zeros(0, if is_coded { n } else { 4 * n }, has_kernel)?,
            flags: zeros(0, n, has_kernel)?,
            deltas: zeros(0, whole, by == Some(By::Exponent))?,
            places: zeros(Place::of(0), coded::places(multiply.job.grid, n), is_coded)?,
            tables: zeros(Table128::ZEROS, n, by == Some(By::Scale))?,
            sixteens: zeros(Table16::ZEROS, n, by == Some(By::Sixteen))?,
            made: None,
            each: None,
            tile: None,
        })
    }
}

/// Clears the payloads of NaNs and keeps their signs.
fn canonical(values: &mut [f64]) {
    for value in values {
        if value.is_nan() {
            *value = f64::NAN.copysign(*value);
        }
    }
}

/// A dequantisation by the vector kernels.
pub(super) struct Multiply<'a> {
    job: &'a Dequantizing<'a>,
    decided: &'a Decided,
    kernel: Option<&'a ScaledKernel>,
    /// [`Decided::ties`] for this shape.
    ties: MayTie,
    /// The tables for each code of a scale, if those are used.
    coded: Option<Coded>,
    streams: bool,
}

impl<'a> Multiply<'a> {
    /// Returns None in cases that only the reference handles.
    pub(super) fn new(job: &'a Dequantizing<'a>, decided: &'a Decided) -> Option<Self> {
        // Some profiles round the difference of code and zero point to the dtype of the output before they multiply. That changes
        // nothing: there are kernels for integers of up to 8 bits, whose differences have no more, and bfloat16 has 8.
        let kernel = decided.kernel.as_ref();
        if kernel.is_none() && decided.exact.is_none() {
            return None;
        }
        let traffic = job.bytes.len().saturating_add(job.grid.count.saturating_mul(decided.size));
        let ties = decided.ties.of(job.grid.count / job.grid.scales.max(1));
        let streams = traffic >= decided.stream_from;
        let mut multiply = Self { job, decided, kernel, ties, coded: None, streams };
        if kernel.is_some() {
            multiply.coded = multiply.coded();
        }
        Some(multiply)
    }

    /// Returns the way by look-up tables, if it is faster for this shape.
    fn tabling(&self) -> Option<&'a Tabling> {
        let grid = self.job.grid;
        let is_wide = self.decided.isa.isa() == Isa::Avx512;
        self.decided.tabling.as_ref().filter(|tabling| {
            if tabling.by == By::Code {
                return self.coded.is_some();
            }
            let least = match tabling.by {
                By::Scale => TABLED,
                By::Sixteen if self.decided.products.is_some() && is_wide => SIXTEEN,
                By::Sixteen => KERNEL_BLOCK,
                By::Exponent | By::Code => 0,
            };
            // A table for each scale pays only if each scale covers whole blocks of the kernel.
            let block = grid.block();
            let is_whole = block >= KERNEL_BLOCK && (block.is_power_of_two() || block >= grid.width());
            self.job.given.zero_points.is_none()
                && (least == 0 || is_whole && grid.count / grid.scales.max(1) >= least)
        })
    }

    /// Casts elements. `dst` begins with the first of them. Returns false if the results must be discarded: see [`Decided::is_odd`].
    pub(super) fn run(&self, elements: Range<usize>, mut dst: Destination<'_, u8>) -> Result<bool, Error> {
        let mut is_right = true;
        let (grid, base) = (self.job.grid, elements.start);
        let most = grid.scales.min(match self.tabling().map(|tabling| tabling.by) {
            Some(By::Scale) => TABLES,
            Some(By::Code) => coded::TOGETHER,
            _ => SCALES,
        });
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

    /// Returns the distances between `count` rows, the first of which begins with the element `first`. None if a row does not
    /// begin at a byte.
    fn steps(&self, first: usize, count: usize) -> Option<Rows> {
        let (read, width) = (&self.job.read, self.job.grid.width());
        let start = read.byte(first)?;
        let src = if count == 1 { 0 } else { read.byte(first + width)? - start };
        Some(Rows { count, src, dst: width * self.decided.size })
    }

    /// Casts a segment by the kernel. The scales in `buffers` begin with the one of index `scale`. Groups flagged [`WRONG`] are
    /// then cast again by way of float64 or by the reference, groups flagged [`TIES`] by the kernel with one rounding.
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
        // If few groups have ties, only those are cast again; else the whole segment is cast in the slower way at once.
        let is_apart = matches!(segment.per, Per::Group(_)) && 8 * ties <= segment.groups;
        self.by_scales(segment, known, !is_apart && ties > 0, rows, base, dst, buffers)?;
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
                self.by_scales(&segment, known + group, true, rows, base, dst, buffers)?;
            }
        }
        Ok(())
    }

    /// Casts a segment by the kernel. Its scales begin at the index `known` of the buffers. `has_ties` asks for one rounding.
    #[expect(clippy::too_many_arguments, reason = "as above")]
    fn by_scales(
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
        let mut here = dst.part(at..at + (rows.count - 1) * rows.dst + segment.n * self.decided.size);
        let Buffers { scales, zeros, deltas, places, tables, sixteens, each, .. } = buffers;
        if let Some(Tabling { kernel, by, table, .. }) = self.tabling()
            && (*by == By::Code || segment.per.is_by(*by))
        {
            let none = ScaleArrays { per: segment.per, ..ScaleArrays::NONE };
            let one = ScaleArrays { tables: slice::from_ref(table), ..none };
            let arrays = match by {
                By::Scale => ScaleArrays { tables: &tables[known..], ..none },
                By::Exponent => ScaleArrays { deltas: &deltas[known..], ..one },
                By::Sixteen => ScaleArrays { sixteens: &sixteens[known..], ..none },
                By::Code => self.coded.as_ref().map_or(none, |coded| coded.arrays(job.grid, places, known)),
            };
            kernel.run(&job.bytes[start..], here, segment.n, rows, &arrays, self.streams);
            return Ok(());
        }
        let is_odd = has_ties || self.ties == MayTie::Always;
        let is_affine = job.given.zero_points.is_some();
        let mut numbers = [&scales[known..], if is_affine { &zeros[known..] } else { &[] }];
        let sizes = [job.read.whole(segment.n), Some(segment.n * self.decided.size)];
        let (joined, calls) = segment.calls(rows, sizes);
        let block = job.grid.block();
        if segment.per == Per::Element && (block > 1 || joined > 1) {
            let each = once(each, || array(NO_NUMBERS))?;
            expand(&mut numbers, &mut each[..], segment.groups, segment.n, block, joined);
        }
        let arrays = ScaleArrays {
            per: segment.per,
            how: if is_odd { How::Odd } else { How::Near },
            tensor: self.decided.tensor.after,
            scales: numbers[0],
            zeros: numbers[1],
            others: Others { loses_sign: job.dequantize.loses_sign, ..Others::NONE },
            ..ScaleArrays::NONE
        };
        let of_groups = self.decided.products.as_ref().filter(|_| segment.per != Per::Element);
        let kernel = of_groups.unwrap_or(kernel);
        for Call { first, rows: some, n } in calls {
            let src = &job.bytes[start + first * rows.src..];
            let at = first * rows.dst;
            let here = here.part(at..at + (some.count - 1) * some.dst + n * self.decided.size);
            kernel.run(src, here, n, &some, &arrays, self.streams);
        }
        Ok(())
    }

    /// Casts elements by way of float64, or by the reference.
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

    /// Casts `n` elements of one row by way of float64. Returns None if this is not exact for one of their scales.
    fn by_f64(
        &self,
        first: usize,
        n: usize,
        base: usize,
        dst: &mut Destination<'_, u8>,
        buffers: &mut Buffers,
    ) -> Option<()> {
        let ByF64 { casts: [codes, scales, out], rounds } = self.decided.exact?;
        let (job, grid) = (self.job, self.job.grid);
        let tile =
            once(&mut buffers.tile, || Ok(Tile { codes: array(0)?, values: array(0.0)?, by: array(0.0)? }));
        let Tile { codes: room, values: tile, by } = tile.ok()?;
        // The buffer first holds one scale for each group, then one for each element. They are spread from the last group on,
        // so that none is overwritten.
        let (scale, _) = grid.run(first);
        let groups = grid.run(first + n - 1).0 + 1 - scale;
        let bytes = job.given.scales.native(job.given.bytes, scale..scale + groups, &mut **room);
        scales.fill(bytes, (&mut by[..groups]).into(), groups).ok()?;
        let is_right = |s: f64| s.is_finite() & ((s != 0.0) | self.decided.zero_is_right);
        // Without a branch for each scale, so that the loop vectorises.
        if !by[..groups].iter().fold(true, |all, &s| all & is_right(s)) {
            return None;
        }
        let (block, at) = (grid.block(), first % grid.width());
        // Groups of one element need no spreading.
        let longer = if block > 1 { groups } else { 0 };
        for group in (0..longer).rev() {
            let start = if group == 0 { 0 } else { (at / block + group) * block - at };
            let end = ((at / block + group + 1) * block - at).min(n);
            let factor = by[group];
            by[start..end].fill(factor);
        }
        // A packed element within a byte is read together with those before it in that byte.
        let (start, ahead) = job.read.byte_before(first);
        let all = n + ahead;
        codes.fill(&job.bytes[start..start + job.read.size(all)], (&mut tile[..all]).into(), all).ok()?;
        let tile = &mut tile[ahead..all];
        if job.dequantize.from.bits() >= 16 {
            canonical(tile);
        }
        if job.given.zero_points.is_some() {
            grid.runs(first, n, &mut |run, scale| {
                let zero = job.given.get(scale).1 as f64;
                for value in &mut tile[run] {
                    *value -= zero;
                }
            });
        }
        let mut round = |tile: &mut [f64]| {
            if let Some([there, back]) = rounds {
                there.fill(&*tile, (&mut room[..4 * n]).into(), n).ok()?;
                back.fill(&room[..4 * n], tile.into(), n).ok()?;
            }
            Some(())
        };
        round(tile)?;
        arithmetic(self.decided.isa, Operation::Multiply, tile, &by[..n]);
        round(tile)?;
        let after = self.decided.tensor.after;
        let (operation, factor) = match self.decided.tensor.scales {
            TensorScale::Divide(g) => (Operation::Divide, g),
            TensorScale::Multiply(g) => (Operation::Multiply, g),
            _ if after.divides => (Operation::Divide, after.by),
            _ => (Operation::Multiply, after.by),
        };
        if factor != 1.0 {
            by[..n].fill(factor.into());
            arithmetic(self.decided.isa, operation, tile, &by[..n]);
        }
        let at = (first - base) * self.decided.size;
        out.fill(&*tile, dst.part(at..at + n * self.decided.size), n).ok()?;
        Some(())
    }
}

impl ToFloats for Multiply<'_> {
    fn to_floats(&self, elements: Range<usize>, dst: Destination<'_, u8>) -> Result<bool, Error> {
        self.run(elements, dst)
    }
}
