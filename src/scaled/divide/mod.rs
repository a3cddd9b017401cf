//! Quantisation by the vector kernels: floats of 16 or 32 bits to elements under scales, by lanecast's own rule (nearest
//! even) or by the steps of a profile.
//!
//! A region (as many rows and columns as a cache holds) is passed over twice: first to find the largest magnitude of each
//! block, from which the scales are computed, many at a time; then to divide the elements. The kernels are exact only while a
//! scale is within certain bounds; blocks with other scales are left to the reference.

mod decided;
mod scales;
mod thresholds;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::take;
use core::ops::Range;
use core::slice;

use super::coded::{self, Coded};
use super::engine::{Given, Quantizing, Rect, Room, Sink};
use super::error::Error;
use super::exact::Exact;
use super::memory::{array, once};
use super::numbers::{LEAST, MOST, NO_NUMBERS, Numbers, SCALES, TABLED, TABLES, expand, magnitude, zeros};
use super::rule::{Block, Blocks, Extremes, Quantize, Steps, Way};
use super::scaling::{NonFinite, TensorScale};
use super::segment::{Call, Region, Segment};
use super::shape::Piece;
use crate::formats::dtype::DType;
use crate::kernels::memory::Destination;
use crate::kernels::present::Present;
use crate::kernels::scaled::magnitudes;
use crate::kernels::scaled::scales::TIES;
use crate::kernels::scaled::{Factor, How, LEAST_GROUP, Per, Place, Rows, ScaleArrays, Table128, UNDIVIDED};
use crate::kernels::sizes::KERNEL_BLOCK;
use decided::ByMantissas;
pub(super) use decided::Decided;

/// The most bytes of a region of one row: they are still in the core's own cache on the second pass.
const CACHED: usize = 256 << 10;

/// The most bytes of a region of several rows, which stay in the shared cache: memory is read so much faster by whole rows than
/// by a part of each that this outweighs the slower second pass.
const SHARED: usize = 4 << 20;

/// If rows lie far apart, they are read as fast as contiguous memory from this many bytes of each on.
const APART: usize = 2 << 10;

/// Where the kernel stops at float32 quotients and a second cast turns those into elements ([`Decided::then`]): how many
/// quotients the buffer holds. It is a power of two, and two such buffers fit into L1.
const TOGETHER: usize = 2048;
const _: () = assert!(SCALES <= TOGETHER);

/// What is computed from the scales of one region.
struct Buffers {
    scales: Vec<f32>,
    inverses: Vec<f32>,
    zeros: Vec<f32>,
    /// For each scale, [`WRONG`](crate::kernels::scaled::scales::WRONG) if the kernel would be wrong for it, and [`TIES`] if the kernel
    /// must check for ties.
    flags: Vec<u8>,
    /// The numbers of the scales, repeated for each element where blocks are too short for the kernel. Allocated when first needed.
    each: Option<Box<[Numbers; 3]>>,
    /// The largest magnitude of each block, and before that those of the columns of short blocks. 1 if scales are given.
    amax: Vec<u32>,
    wide: Vec<f64>,
    by: Vec<f64>,
    codes: Vec<u8>,
    /// For division by mantissas: a table for each scale, and the exponent from which on the kernel looks up quotients by that scale.
    tables: Vec<Table128>,
    begins: Vec<u32>,
    /// With a table for each code of a scale: the place of the table of each 16 elements.
    places: Vec<Place>,
    /// Room for scales that are rounded to the dtype in which a profile divides, where that has 16 bits.
    kept: Vec<u8>,
    /// Quotients on their way to [`Decided::then`], allocated when first needed.
    quotients: Option<Box<[u8; 4 * TOGETHER]>>,
}

impl Buffers {
    /// Returns buffers for `n` scales.
    fn new(n: usize, divide: &Divide<'_>, is_found: bool, has_zeros: bool) -> Result<Self, Error> {
        let decided = divide.decided;
        Ok(Self {
            kept: zeros(0, 2 * n, decided.kept.is_some())?,
            scales: zeros(0.0, n + KERNEL_BLOCK, true)?,
            inverses: zeros(0.0, n + KERNEL_BLOCK, true)?,
            zeros: zeros(0.0, n + KERNEL_BLOCK, has_zeros)?,
            flags: zeros(0, n, true)?,
            each: None,
            amax: zeros(u32::from(!is_found), SCALES, is_found || divide.by_mantissas().is_some())?,
            wide: zeros(0.0, n, is_found)?,
            by: zeros(0.0, n, is_found)?,
            codes: zeros(0, 4 * n, true)?,
            tables: zeros(Table128::ZEROS, n, divide.by_mantissas().is_some_and(|apart| !apart.are_powers))?,
            begins: zeros(0, n + KERNEL_BLOCK, divide.by_mantissas().is_some())?,
            places: zeros(Place::of(0), coded::places(divide.job.grid, n), divide.coded().is_some())?,
            quotients: None,
        })
    }
}

/// How the elements of a region are divided, and the union of the flags of its scales.
#[derive(Clone, Copy)]
struct Division {
    how: How,
    flags: u8,
    /// Whether the kernel of [`Divide::by_mantissas`] divides them.
    by_mantissas: bool,
    /// How far ahead to prefetch, as in [`ScaleArrays`].
    next: isize,
}

/// Tables that belong to this quantisation, or to the one that it is a part of.
enum Held<'a> {
    None,
    Here(Coded),
    There(&'a Coded),
}

/// A quantisation by the vector kernels.
pub(super) struct Divide<'a> {
    job: &'a Quantizing<'a>,
    /// The data, and the index of the element with which they begin.
    bytes: &'a [u8],
    first: usize,
    decided: &'a Decided,
    isa: Present,
    /// Bytes of an element of the data.
    width: usize,
    /// The tensor scale, if its product with a scale may need more bits than a float32 has.
    factor: Factor,
    /// The tensor scale, if that product is exact, which is if the factor is a power of two.
    g: f32,
    /// What the largest magnitude of a block is divided by to give its scale.
    divisor: f64,
    /// What elements are multiplied with, if there is only one block and the profile does not derive this from the rounded scale.
    inverse: Option<f32>,
    /// The tables, if there is one for each code of a scale.
    coded: Held<'a>,
}

impl<'a> Divide<'a> {
    /// Returns None in cases that these kernels do not handle.
    pub(super) fn new(job: &'a Quantizing<'a>, decided: &'a Decided) -> Option<Self> {
        let Quantize { from, to, scale, steps, .. } = *job.quantize;
        // Every row of packed elements has to begin at a byte, and so has every block, except blocks so short that eight
        // elements are cast again together where one of their blocks is.
        let (width, block) = (job.grid.width(), job.grid.block());
        let is_one_row = job.grid.dims.len() == 1;
        let begins = (block.is_multiple_of(8) || block >= job.grid.count || 8 % block == 0)
            && (is_one_row || width.is_multiple_of(8));
        if job.affine || job.write.has_rows() || decided.is_packed && !begins {
            return None;
        }
        let is_power = |x: f32| magnitude(x) & 0x7F_FFFF == 0;
        let (mut g, mut factor) = (1.0, Factor::NONE);
        if steps == Steps::Own {
            match job.tensor {
                TensorScale::None => {}
                TensorScale::Multiply(by) | TensorScale::Divide(by)
                    if !(LEAST..MOST).contains(&magnitude(by)) =>
                {
                    return None;
                }
                TensorScale::Multiply(by) if is_power(by) => g = by,
                TensorScale::Divide(by) if is_power(by) => g = 1.0 / by,
                TensorScale::Multiply(by) => factor = Factor::times(by),
                // Without a kernel for scales, magnitudes would be divided by a number that is not exact in float64.
                TensorScale::Divide(by) if decided.scales.is_some() => factor = Factor::over(by),
                _ => return None,
            }
            // With a factor, the kernels are proved for scales of up to 12 significant bits and elements of up to 8 bits only.
            // Scales of float8_e8m0fnu are made of the exponents of the magnitudes, in which a factor has no part.
            if factor != Factor::NONE && (scale.bits() > 16 || to.bits() > 8)
                || scale == DType::F8E8M0 && job.tensor != TensorScale::None
            {
                return None;
            }
        }
        let max = job.quantize.max_value() * f64::from(g);
        let divisor = if factor.divides { max / f64::from(factor.by) } else { max * f64::from(factor.by) };
        if factor.divides && !(LEAST..MOST).contains(&magnitude(divisor as f32)) {
            return None;
        }
        let mut divide = Self {
            job,
            bytes: &[],
            first: 0,
            decided,
            isa: decided.isa,
            width: from.bits() as usize / 8,
            factor,
            g,
            divisor,
            inverse: None,
            coded: Held::None,
        };
        divide.coded = divide.code_tables().map_or(Held::None, Held::Here);
        Some(divide)
    }

    fn coded(&self) -> Option<&Coded> {
        match &self.coded {
            Held::None => None,
            Held::Here(coded) => Some(coded),
            Held::There(coded) => Some(coded),
        }
    }

    /// Returns the same quantisation, but of `bytes`, which begin with the element `first`.
    pub(super) fn on<'b>(&'b self, bytes: &'b [u8], first: usize) -> Divide<'b> {
        Divide { bytes, first, coded: self.coded().map_or(Held::None, Held::There), ..*self }
    }

    /// Whether it can find scales: only if the rows of a block are adjacent, because it looks at all rows of a block together.
    pub(super) fn finds(&self) -> bool {
        let blocks = &self.job.grid.blocks;
        blocks.iter().rev().skip(2).all(|&block| block == 1)
    }

    /// Returns the quantisation for the second pass over a single block, of which the first pass has found `way`. None if the
    /// block is left to the reference.
    pub(super) fn known(self, way: &Way) -> Option<Self> {
        match way {
            Way::Exact(_) | Way::Divide(..) => Some(self),
            Way::Times(by, _) => Some(Self { inverse: Some(by.to_f32()), ..self }),
            Way::Zero | Way::NaN => None,
        }
    }

    /// Returns the kernel that divides exponents and mantissas apart, if it is faster for this shape. Segments then never have
    /// a number for each element.
    fn by_mantissas(&self) -> Option<&'a ByMantissas> {
        let grid = self.job.grid;
        // A table for each scale pays only if each scale covers whole blocks of the kernel.
        let block = grid.block();
        let is_whole = |least| block >= grid.width() || block.is_power_of_two() && block >= least;
        let pays = is_whole(KERNEL_BLOCK) && grid.count / grid.scales.max(1) >= TABLED;
        let apart = self.decided.by_mantissas.as_ref()?;
        let can = if apart.are_powers { is_whole(2 * LEAST_GROUP) } else { pays };
        can.then_some(apart)
    }

    /// Returns how many scales a region may have.
    fn most(&self) -> usize {
        let has_tables = self.by_mantissas().is_some_and(|apart| !apart.are_powers);
        self.job.grid.scales.min(if has_tables { TABLES } else { SCALES })
    }

    /// Finds the scales of a piece and casts it. `dst` begins where the piece does.
    pub(super) fn found(
        &self,
        piece: &Piece,
        dst: &mut Destination<'_, u8>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let grid = self.job.grid;
        let all = self.most();
        let (mut buffers, mut room) = (Buffers::new(all, self, true, false)?, None);
        // As many columns as stay in a cache, but all of them if so few bytes of each row would be slow to read from memory.
        let most = |rows: usize| {
            let bytes = self.width * grid.block();
            let most = if rows == 1 { CACHED } else { SHARED };
            let cached = most / rows.saturating_mul(bytes).clamp(1, most);
            let cached = if cached.saturating_mul(bytes) < APART { all } else { cached.min(all) };
            // A region must begin at a byte, as every eight short blocks do.
            if grid.block() < 8 && cached < all { (cached & !7).max(8) } else { cached }
        };
        Region::each(grid, &piece.elements, &most, &mut |region| {
            self.region(region, &piece.elements, dst, sink, &mut buffers, &mut room)
        })
    }

    /// Finds the scales of one region and casts it.
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
        // For short blocks of several rows, the largest magnitude of each column is found first, and that of each block after
        // all rows. Rows that are short and contiguous are joined.
        let is_short = rows.len() > 1 && grid.block() < LEAST_GROUP && columns.len() <= SCALES;
        let joined = if is_short && columns.len() == width { SCALES / width } else { 1 };
        let (block, each) = if is_short { (1, columns.len()) } else { (grid.block(), groups) };
        let amax = &mut buffers.amax[..joined * each];
        amax.fill(0);
        for row in rows.clone().step_by(joined) {
            let first = (row * width + columns.start - self.first) * self.width;
            let n = joined.min(rows.end - row) * columns.len();
            let bytes = &self.bytes[first..first + n * self.width];
            magnitudes::largest(self.isa, bytes, 8 * self.width as u32, block, amax);
        }
        let (found, others) = amax.split_at_mut(each);
        for others in others.chunks_exact(each) {
            found.iter_mut().zip(others).for_each(|(found, other)| *found = (*found).max(*other));
        }
        if block < grid.block() {
            for group in 0..groups {
                let columns = group * grid.block()..each.min((group + 1) * grid.block());
                found[group] = found[columns].iter().fold(0, |most, &amax| most.max(amax));
            }
        }
        // Compared as signed integers, which is faster.
        let inf = inf(job.quantize.from) as i32;
        let is_finite = !buffers.amax[..groups].iter().fold(false, |any, &amax| any | (amax as i32 >= inf));
        if !is_finite || self.codes(groups, buffers).is_none() {
            // There is an Inf or NaN among the data, or a scale is out of bounds: the reference finds the scales, too.
            let scales = *scale..scale + groups;
            let rect = Rect { rows: rows.clone(), columns: columns.clone(), scales };
            return job.found(&rect, elements.start, dst, sink, once(room, Room::new)?);
        }
        sink.set_all(*scale, groups, &buffers.codes);
        let codes = take(&mut buffers.codes);
        let division = Division { next: self.next(region), ..self.division(&codes, groups, true, buffers) };
        let code = |known: usize| sink.scales().of_native(&codes, known);
        let amax = take(&mut buffers.amax);
        let done = self.cast(region, division, elements, dst, buffers, room, &|number| {
            let i = number - scale;
            if job.quantize.is_own() {
                return job.quantize.given(code(i), 0, job.tensor);
            }
            // `codes` has turned the magnitudes into float32.
            let mut data = Extremes::NONE;
            data.add(Exact::f32(f32::from_bits(amax[i])), NonFinite::Propagate);
            job.quantize.find(&data, job.tensor, false).block
        });
        buffers.amax = amax;
        buffers.codes = codes;
        done
    }

    /// Returns the distance in bytes from an element of this region to the same one of the next region, which is prefetched
    /// while this one is divided: as the second pass reads from the cache, memory is idle. 0 if there is no next region, or if
    /// it would not fit into the core's cache.
    fn next(&self, region: &Region) -> isize {
        let fits = self.width * region.rows.len() * region.columns.len() <= CACHED;
        let end = self.first + self.bytes.len() / self.width;
        let elements = region.next(self.job.grid, end).filter(|_| fits).unwrap_or(0);
        (elements * self.width) as isize
    }

    /// Casts a region whose scales are known. Blocks flagged [`TIES`] are cast again by a loop that checks each element for
    /// ties, blocks flagged [`WRONG`](crate::kernels::scaled::scales::WRONG) by way of float64 or by the reference, to which `block`
    /// gives them by the index of their scale.
    #[expect(clippy::too_many_arguments, reason = "a region, where it goes, and room for both")]
    fn cast(
        &self,
        region: &Region,
        division: Division,
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
            self.segment(segment, division, known, &rows, base, dst, buffers)?;
            if division.flags == 0 {
                return Ok(());
            }
            let mut cast_to = segment.first;
            for group in 0..segment.groups {
                let flags = buffers.flags[known + group];
                let elements = segment.group(grid, group);
                if flags == 0 || elements.end <= cast_to {
                    continue;
                }
                if flags == TIES {
                    let (first, n, scale) = (elements.start, elements.len(), segment.scale + group);
                    let again = Segment { first, n, scale, groups: 1, per: Per::All };
                    let division = Division { how: How::Odd, next: 0, ..division };
                    self.segment(&again, division, known + group, &rows, base, dst, buffers)?;
                    continue;
                }
                // What is cast again begins and ends at a byte, as rows do.
                let (start, end) = if self.decided.is_packed && grid.block() < 8 {
                    (elements.start & !7, elements.end.next_multiple_of(8).min(segment.first + segment.n))
                } else {
                    (elements.start, elements.end)
                };
                cast_to = end;
                let room = once(room, Room::new)?;
                for row in 0..rows.count {
                    let elements = start + row * width..end + row * width;
                    job.cast(elements, dst, base, room, &Blocks::each(block))?;
                }
            }
            Ok(())
        })
    }

    /// Casts a segment whose first scale is at the index `known` of the buffers.
    #[expect(clippy::too_many_arguments, reason = "as above")]
    fn segment(
        &self,
        segment: &Segment,
        Division { how, next, by_mantissas, .. }: Division,
        known: usize,
        rows: &Rows,
        base: usize,
        dst: &mut Destination<'_, u8>,
        buffers: &mut Buffers,
    ) -> Result<(), Error> {
        let job = self.job;
        let Buffers { scales, inverses, zeros, each, tables, begins, places, quotients, .. } = buffers;
        let mut numbers =
            [&scales[known..], &inverses[known..], if zeros.is_empty() { &[] } else { &zeros[known..] }];
        let block = job.grid.block();
        let sizes = [Some(segment.n * self.width), job.write.whole(segment.n)];
        let (joined, calls) = segment.calls(rows, sizes);
        if segment.per == Per::Element && (block > 1 || joined > 1) {
            let each = once(each, || array(NO_NUMBERS))?;
            expand(&mut numbers, &mut each[..], segment.groups, segment.n, block, joined);
        }
        let arrays = ScaleArrays {
            per: segment.per,
            how,
            others: self.decided.others,
            tensor: self.factor,
            scales: numbers[0],
            inverses: numbers[1],
            zeros: numbers[2],
            next,
            ..ScaleArrays::NONE
        };
        let at = job.write.at(segment.first) - job.write.at(base);
        let src = &self.bytes[(segment.first - self.first) * self.width..];
        let (mut kernel, mut then, mut arrays) = (&self.decided.kernel, &self.decided.then, arrays);
        if let (Some(coded), Some(by_thresholds)) = (self.coded(), &self.decided.by_thresholds) {
            let others = self.decided.others;
            arrays = ScaleArrays { others, next, ..coded.arrays(job.grid, places, known) };
            (kernel, then) = (by_thresholds, &None);
        } else if let Some(apart) = self.by_mantissas().filter(|_| by_mantissas) {
            let tables = if apart.are_powers { slice::from_ref(&UNDIVIDED) } else { &tables[known..] };
            let how = if apart.are_powers { How::Near } else { How::Odd };
            let (per, others, deltas) = (segment.per, self.decided.others, &begins[known..]);
            arrays = ScaleArrays { per, how, others, tables, deltas, next, ..ScaleArrays::NONE };
            (kernel, then) = (&apart.kernel, &None);
        }
        for Call { first, rows: some, n } in calls {
            let (src, at) = (&src[first * rows.src..], at + first * rows.dst);
            let Some(then) = then else {
                let here = dst.part(at..at + (some.count - 1) * some.dst + job.write.size(n));
                kernel.run(src, here, n, &some, &arrays, false);
                continue;
            };
            let quotients = once(quotients, || array(0))?;
            for start in (0..n).step_by(TOGETHER) {
                let n = TOGETHER.min(n - start);
                let (per, skipped) = match segment.per {
                    Per::Group(group) if group > TOGETHER => (Per::All, start / group),
                    Per::Group(group) => (Per::Group(group), start / group),
                    // A segment with a number for each element is short enough to be done in one part.
                    per => (per, 0),
                };
                let [scales, inverses, zeros] = numbers.map(|all| all.get(skipped..).unwrap_or(&[]));
                let arrays = ScaleArrays { per, scales, inverses, zeros, ..arrays };
                let (from, to) = (start * self.width, at + job.write.size(start));
                let (row, size) = (4 * n, job.write.size(n));
                let most = TOGETHER / n;
                for first in (0..some.count).step_by(most) {
                    let rows = Rows { count: most.min(some.count - first), dst: row, ..some };
                    let quotients = &mut quotients[..row * rows.count];
                    let src = &src[from + first * rows.src..];
                    kernel.run(src, (&mut *quotients).into(), n, &rows, &arrays, false);
                    if job.quantize.to == DType::BF16 {
                        clear_payloads(quotients);
                    }
                    for (i, quotients) in quotients.chunks_exact(row).enumerate() {
                        let to = to + (first + i) * some.dst;
                        then.fill(quotients, dst.part(to..to + size), n)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Casts elements under given scales. `dst` begins with the first of them.
    pub(super) fn given(
        &self,
        given: &Given<'_>,
        elements: Range<usize>,
        dst: &mut Destination<'_, u8>,
        block: &dyn Fn(usize) -> Block,
    ) -> Result<(), Error> {
        let grid = self.job.grid;
        let has_zeros = given.zero_points.is_some();
        let most = self.most();
        let (mut buffers, mut room) = (Buffers::new(most, self, false, has_zeros)?, None);
        Region::each(grid, &elements, &|_| most, &mut |region| {
            let (scale, groups) = (region.scale, region.groups(grid));
            let mut codes = take(&mut buffers.codes);
            let bytes = given.scales.native(given.bytes, scale..scale + groups, &mut codes);
            let division = self.division(bytes, groups, false, &mut buffers);
            buffers.codes = codes;
            if let Some(to_f32) = &self.decided.zeros {
                given.zeros(to_f32, scale..scale + groups, &mut buffers.zeros)?;
            }
            self.cast(region, division, &elements, dst, &mut buffers, &mut room, block)
        })
    }
}

/// Clears the payloads of NaNs in a buffer of float32 and keeps their signs: a cast to bfloat16 would keep payloads, too.
fn clear_payloads(values: &mut [u8]) {
    for value in values.as_chunks_mut().0 {
        let bits = u32::from_ne_bytes(*value);
        if bits & 0x7FFF_FFFF > 0x7F80_0000 {
            *value = (bits & 0x8000_0000 | 0x7FC0_0000).to_ne_bytes();
        }
    }
}

/// Returns the largest magnitude of some elements, as bits of their dtype. None if no kernel reads that dtype, or if there is
/// an Inf or NaN that must not count.
pub(super) fn amax(job: &Quantizing<'_>, elements: Range<usize>) -> Result<Option<u64>, Error> {
    let mut room = Vec::new();
    let Some((bytes, first)) = job.source.floats(&elements, &mut room)? else { return Ok(None) };
    let (isa, from) = (job.write.present(), job.quantize.from);
    let (mut found, width) = ([0], from.bits() as usize / 8);
    let bytes = &bytes[(elements.start - first) * width..(elements.end - first) * width];
    magnitudes::largest(isa, bytes, from.bits(), elements.len().max(1), &mut found);
    let counts = found[0] < inf(from) || job.quantize.nonfinite == NonFinite::Propagate;
    Ok(counts.then_some(found[0].into()))
}

/// Returns the bits of +Inf.
fn inf(dtype: DType) -> u32 {
    match dtype {
        DType::F16 => 0x7C00,
        DType::BF16 => 0x7F80,
        _ => 0x7F80_0000,
    }
}
