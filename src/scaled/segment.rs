//! The order in which the kernels walk a grid. A *region* is some adjacent rows with the same scales, and some of their
//! columns; a *segment* is the part of it for which a kernel is called once.

use core::ops::Range;

use super::error::Error;
use super::numbers::SCALES;
use super::shape::Grid;
use crate::kernels::scaled::{LEAST_GROUP, Per, Rows};

/// Elements of a row for which a kernel is called once: those of one group, or of several adjacent ones.
pub(super) struct Segment {
    pub(super) first: usize,
    pub(super) n: usize,
    /// The scale of its first group, and how many groups there are.
    pub(super) scale: usize,
    pub(super) groups: usize,
    pub(super) per: Per,
}

impl Segment {
    /// Returns the longest segment from the element `first` on, before `end`.
    pub(super) fn new(grid: &Grid, first: usize, end: usize) -> Self {
        let (width, block) = (grid.width(), grid.block());
        let at = first % width;
        let row = (width - at).min(end - first);
        let (scale, run) = grid.run(first);
        let is_apart = block > SCALES && !block.is_power_of_two();
        let per = if is_apart || run >= row || !at.is_multiple_of(block) {
            Per::All
        } else if has_groups(block) {
            Per::Group(block)
        } else {
            Per::Element
        };
        let n = match per {
            Per::All => run.min(row),
            // A region has no more groups than its caller has numbers for.
            Per::Group(_) => row,
            Per::Element => row.min(SCALES / block * block),
        };
        Self { first, n, scale, groups: (at + n).div_ceil(block) - at / block, per }
    }

    /// Returns the elements of one of its groups.
    pub(super) fn group(&self, grid: &Grid, group: usize) -> Range<usize> {
        let block = grid.block();
        let at = self.first % grid.width();
        let start = if group == 0 { at } else { (at / block + group) * block };
        let end = (at / block + group + 1).saturating_mul(block).min(at + self.n);
        self.first - at + start..self.first - at + end
    }
}

/// Some rows of a segment, for one call of a kernel.
pub(super) struct Call {
    /// How many rows of the segment come before these.
    pub(super) first: usize,
    pub(super) rows: Rows,
    /// Elements of a row.
    pub(super) n: usize,
}

impl Segment {
    /// Returns the calls of a kernel for all rows, and how many rows the first of them joins into one. Short rows whose
    /// elements have a number each are joined if nothing lies between them. `sizes` are the bytes of a row on either side, None
    /// if it does not end with a byte.
    pub(super) fn calls(
        &self,
        rows: &Rows,
        sizes: [Option<usize>; 2],
    ) -> (usize, impl Iterator<Item = Call>) {
        let is_contiguous = [Some(rows.src), Some(rows.dst)] == sizes;
        let can_join = self.per == Per::Element && rows.count > 1 && is_contiguous;
        let joined = if can_join { (SCALES / self.n).clamp(1, rows.count) } else { 1 };
        let call = |first: usize, count: usize, joined: usize| Call {
            first,
            rows: Rows { count, src: joined * rows.src, dst: joined * rows.dst },
            n: joined * self.n,
        };
        let (whole, rest) = (rows.count / joined, rows.count % joined);
        let last = (rest > 0).then(|| call(whole * joined, 1, rest));
        (joined, [Some(call(0, whole, joined)), last].into_iter().flatten())
    }
}

/// Whether kernels look up the scales of such blocks themselves. If not, they get one for each element.
fn has_groups(block: usize) -> bool {
    block.is_power_of_two() && block >= LEAST_GROUP
}

/// Casts a segment of one row, or of all `Rows` if those can be cast together.
type CastSegment<'a> = dyn FnMut(&Segment, Option<Rows>) -> Result<(), Error> + 'a;

/// Adjacent rows that have the same scales, and a range of their columns that begins with a block.
pub(super) struct Region {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    /// Its first scale.
    pub(super) scale: usize,
}

impl Region {
    /// Calls `call` with the regions that cover some elements. A region of `rows` rows has at most `most(rows)` scales.
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
            rows.end =
                rows.start.saturating_add(grid.rows_alike(rows.start)).min(elements.end.div_ceil(width));
            let (mut column, mut end) = (0, width);
            if rows.len() == 1 {
                column = elements.start.saturating_sub(rows.start * width) / block * block;
                end = width.min(elements.end - rows.start * width);
            }
            // Several rows are cast together if one segment has all columns of the region. The numbers of short blocks are then
            // repeated for each element once for all rows.
            let is_short = (2..=SCALES).contains(&block) && !has_groups(block);
            let most =
                if rows.len() > 1 && is_short { SCALES / block } else { usize::MAX }.min(most(rows.len()));
            let step = most.max(1).saturating_mul(block);
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

    /// Returns the distance in elements to the next region, if one begins before `end`.
    pub(super) fn next(&self, grid: &Grid, end: usize) -> Option<usize> {
        let (width, columns) = (grid.width(), &self.columns);
        let apart = if columns.end < width { columns.len() } else { self.rows.len() * width - columns.start };
        (self.rows.start * width + columns.start + apart < end).then_some(apart)
    }

    /// Returns how many scales it has.
    pub(super) fn groups(&self, grid: &Grid) -> usize {
        self.columns.len().div_ceil(grid.block())
    }

    /// Calls `call` with the segments that cover the region's share of some elements. `apart` returns, for a first element and
    /// a number of rows, how far the rows are apart, or None if they cannot be cast in one call.
    pub(super) fn segments(
        &self,
        grid: &Grid,
        elements: &Range<usize>,
        apart: &dyn Fn(usize, usize) -> Option<Rows>,
        call: &mut CastSegment<'_>,
    ) -> Result<(), Error> {
        let (width, columns) = (grid.width(), &self.columns);
        // Chunks may begin and end within rows. Those that are whole are cast together.
        let from = elements.start.saturating_sub(columns.start).div_ceil(width);
        let from = from.clamp(self.rows.start, self.rows.end);
        let until = elements.end.checked_sub(columns.end).map_or(0, |end| end / width + 1);
        let until = until.clamp(from, self.rows.end);
        let first = from * width + columns.start;
        let segment = Segment::new(grid, first, first + columns.len());
        let is_one = from < until && segment.n == columns.len();
        if let Some(rows) = is_one.then(|| apart(first, until - from)).flatten() {
            self.row_by_row(self.rows.start..from, grid, elements, apart, call)?;
            call(&segment, Some(rows))?;
            return self.row_by_row(until..self.rows.end, grid, elements, apart, call);
        }
        self.row_by_row(self.rows.clone(), grid, elements, apart, call)
    }

    /// Calls `call` as [`segments`](Self::segments) does, for some of the rows, with one call or more for each.
    fn row_by_row(
        &self,
        rows: Range<usize>,
        grid: &Grid,
        elements: &Range<usize>,
        apart: &dyn Fn(usize, usize) -> Option<Rows>,
        call: &mut CastSegment<'_>,
    ) -> Result<(), Error> {
        let (width, columns) = (grid.width(), &self.columns);
        for row in rows {
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
