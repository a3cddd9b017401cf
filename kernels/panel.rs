//! Transposes that are larger than the caches, a panel at a time.
//!
//! Memory is read fastest in long runs that are prefetched, and written fastest in whole lines past the caches. In a large
//! transpose, rows are pages apart on both sides, often by a power of two, so that a cache can hold only few lines of a column.
//! Hence panels: a long run of each of some rows of the source is copied to the caches without gaps, and cast on the way if that
//! makes it narrower. Then its columns, some at a time, become rows of the destination, which are streamed past the caches.
//!
//! These do not help: windows of rows, so that the pages of both sides stay in the TLB (within noise); smaller panels, which
//! fit into L1. Prefetching the next panel while one is written gains a tenth for bfloat16 to float32, and loses as often.

use super::layout::Apart;
use super::moves::{self, Dim, Move, Moves};
use super::plan::{Planned, RowCast};
use super::sizes::LINE;
use crate::formats::route::Work;

/// Bytes of a run of the source. Runs of half this length are read more slowly.
const SRC_RUN: usize = 512;
/// Bytes of a run of the destination: a few lines for each TLB entry.
const DST_RUN: usize = 512;
/// Bytes of a panel.
const PANEL: usize = 64 << 10;
/// Bytes of the columns that are transposed at once, and of those that are cast at once.
const TILE: usize = 16 << 10;
/// How many bytes ahead the source is prefetched.
const AHEAD: usize = 8 << 10;

/// Bytes of working memory: for a panel, for some columns of it, and for what these are cast to.
pub(super) const ROOM: usize = PANEL + 2 * TILE;

/// Elements along two dimensions.
#[derive(Clone, Copy)]
pub(super) struct Transpose {
    /// The dimension along which the destination is contiguous.
    pub(super) across: Dim,
    /// The dimension along which the source is contiguous.
    pub(super) along: Dim,
    pub(super) sizes: [usize; 2],
}

impl Transpose {
    /// Whether the runs of both sides are long enough. Those of the destination may be half of [`DST_RUN`].
    pub(super) fn has_panels(&self) -> bool {
        let [s, d] = self.sizes;
        (self.along.src, self.across.dst) == (s as isize, d as isize)
            && self.along.extent >= SRC_RUN / s
            && self.across.extent >= DST_RUN / 2 / d
    }
}

/// Casts a transpose that [has panels](Transpose::has_panels), past the caches.
///
/// # Safety
/// The elements are readable from `src` on, or writable from `dst` on, and no byte is on both sides. The plan is for elements of
/// these sizes, which are whole bytes, and does not stream. From `room` on there are [`ROOM`] bytes for this function, at a line.
#[inline(never)]
pub(super) unsafe fn cast(
    plan: &Planned,
    moves: Moves,
    transpose: Transpose,
    src: *const u8,
    dst: *mut u8,
    room: *mut u8,
) {
    let Transpose { across, along, sizes: [s, d] } = transpose;
    let rows = RowCast::new(plan);
    let casts = plan.route.work != Work::Copy;
    let casts_rows = casts && d < s && plan.is_ready();
    let width = if casts_rows { d } else { s };
    let panels = Panels { rows, moves, transpose, width, casts_rows, casts_tiles: casts && !casts_rows };
    // So many rows that a block of their columns fits into a tile.
    let height = (DST_RUN / d).min(TILE / LINE).max(LINE / width);
    let length = (SRC_RUN / s).min(PANEL / (height * width));
    let (panel, tiles) = (room, [room.wrapping_add(PANEL), room.wrapping_add(PANEL + TILE)]);
    let mut j = 0;
    while j < along.extent {
        let to_line = if j == 0 { ahead(src.addr(), across.src, s) } else { 0 };
        let columns = if to_line != 0 { to_line } else { length }.min(along.extent - j);
        let mut i = 0;
        while i < across.extent {
            let to_line = if i == 0 { ahead(dst.addr(), along.dst, d) } else { 0 };
            let count = if to_line != 0 { to_line } else { height }.min(across.extent - i);
            let from = src.wrapping_offset(i as isize * across.src + j as isize * along.src);
            let to = dst.wrapping_offset(i as isize * across.dst + j as isize * along.dst);
            // SAFETY: the elements of the panel are among those of the transpose. There are no more than `height` rows and
            // `length` columns, for which the buffer has room: what is ahead of a line is less than a line.
            unsafe {
                panels.fill(count, columns, from, panel);
                panels.empty(count, columns, panel, tiles, to);
            }
            i += count;
        }
        j += columns;
    }
    panels.moves.fence();
}

/// The number of elements before the first whole line of a row, if it is the same in every row; else 0.
fn ahead(first: usize, stride: isize, size: usize) -> usize {
    let bytes = first.wrapping_neg() % LINE;
    if stride.unsigned_abs().is_multiple_of(LINE) && bytes.is_multiple_of(size) { bytes / size } else { 0 }
}

/// What all panels of a transpose have in common.
struct Panels<'a> {
    rows: RowCast<'a>,
    moves: Moves,
    transpose: Transpose,
    /// Bytes of an element in a panel.
    width: usize,
    /// Whether elements are cast on the way into the panel. (If not, on the way out, unless codes do not change.)
    casts_rows: bool,
    casts_tiles: bool,
}

impl Panels<'_> {
    /// Bytes from one row of a panel to the next: a whole number of blocks.
    fn pitch(&self, columns: usize) -> usize {
        (columns * self.width).next_multiple_of(LINE)
    }

    /// Fills a panel from rows of the source.
    ///
    /// # Safety
    /// `columns` elements of `count` rows are readable from `from` on, and the panel has room for them.
    unsafe fn fill(&self, count: usize, columns: usize, from: *const u8, panel: *mut u8) {
        let (size, row, pitch) = (self.transpose.sizes[0], self.transpose.across.src, self.pitch(columns));
        let bytes = columns * size;
        let step = (AHEAD / bytes).clamp(1, count);
        let mut i = 0;
        while i < count {
            let some = step.min(count - i);
            let from = from.wrapping_offset((i as isize).wrapping_mul(row));
            let runs = moves::ByteRows { rows: some, bytes, from: row, to: pitch as isize };
            // SAFETY: the caller's promise. What is prefetched need not exist.
            unsafe {
                // After the last row of this panel comes the first row of the next.
                self.moves.prefetch(&runs, from.wrapping_offset((step as isize).wrapping_mul(row)));
                let panel = panel.add(i * pitch);
                if self.casts_rows {
                    let apart = Apart { rows: some, src: row, dst: pitch as isize };
                    self.rows.cast(from, panel, columns, &apart);
                } else {
                    let along = Move { extent: columns, from: size as isize, to: size as isize };
                    let across = Move { extent: some, from: row, to: pitch as isize };
                    self.moves.elements(&[along, across, Move::ONE, Move::ONE], size, from, panel);
                }
            }
            i += some;
        }
        // Whole blocks are cast, including what is no element in them.
        let used = columns * self.width;
        // SAFETY: the panel has room for whole blocks.
        unsafe {
            if used < pitch {
                for i in 0..count {
                    panel.add(i * pitch + used).write_bytes(0, pitch - used);
                }
            }
            let below = count.next_multiple_of(LINE / self.width) - count;
            panel.add(count * pitch).write_bytes(0, below * pitch);
        }
    }

    /// Empties a panel: its columns become rows of the destination.
    ///
    /// # Safety
    /// The panel has been filled with `columns` columns of `count` rows, and as many elements are writable from `to` on. The
    /// two tiles are at lines.
    unsafe fn empty(
        &self,
        count: usize,
        columns: usize,
        panel: *const u8,
        [tile, results]: [*mut u8; 2],
        to: *mut u8,
    ) {
        let (size, row, width) = (self.transpose.sizes[1], self.transpose.along.dst, self.width);
        // A line is also the side of a block that is transposed in registers.
        let block = LINE / width;
        let height = count.next_multiple_of(block);
        let length = TILE / (height * width) / block * block;
        let at_once = if self.casts_tiles { (TILE / (height * size)).min(length) } else { length };
        let mut j = 0;
        while j < columns {
            let some = length.min(columns - j);
            let along = Move {
                extent: some.next_multiple_of(block),
                from: width as isize,
                to: (height * width) as isize,
            };
            let across = Move { extent: height, from: self.pitch(columns) as isize, to: width as isize };
            // SAFETY: the caller's promise. A block of columns fits into a tile, and a column fits into the results: it has no
            // more than `DST_RUN` bytes, or a block. The panel has whole blocks.
            unsafe {
                self.moves.elements(
                    &[along, across, Move::ONE, Move::ONE],
                    width,
                    panel.add(j * width),
                    tile,
                );
                let mut k = 0;
                while k < some {
                    let made = at_once.min(some - k);
                    let mut from = tile.add(k * height * width);
                    if self.casts_tiles {
                        self.rows.cast(from, results, made * height, &Apart::ONE);
                        from = results;
                    }
                    let bytes = count * size;
                    let runs = moves::ByteRows { rows: made, bytes, from: (height * size) as isize, to: row };
                    self.moves.stream(&runs, from, to.wrapping_offset((j + k) as isize * row));
                    k += made;
                }
            }
            j += some;
        }
    }
}
