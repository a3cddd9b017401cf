//! Casts of strided views. Rows that are contiguous on both sides, and not short, are cast in place, row by row. Everything
//! else is cast a tile at a time: gathered, cast, and scattered.
//!
//! A tile is a box of the walk that fits into L1. If the two sides are dense along different dimensions, it extends along both
//! of these, so that both sides are touched by whole lines; the elements are then transposed on the side where they are
//! narrower. Codes that do not change are only moved. Transposes that are larger than the caches are in `panel.rs`.

use core::mem::MaybeUninit;

use super::layout::Apart;
pub(crate) use super::moves::Dim;
use super::moves::{self, Move, Moves};
use super::panel::{self, Transpose};
use super::plan::{Planned, RowCast};
use super::scratch::Scratch;
use super::sizes::LINE;
use crate::formats::route::Work;

/// The largest number of dimensions of more than one element that a view can have, since each doubles the number of elements.
pub(crate) const MOST: usize = usize::BITS as usize;
/// Nearly every view has no more dimensions than this. (Setting up [`MOST`] of them takes longer than casting a few elements.)
pub(crate) const FEW: usize = 6;
/// Bytes of a tile, on the side where elements are wider. Both sides stay in L1.
const TILE: usize = 16 << 10;
/// Bytes of a tile on the stack, which may be small: for small views, and where there is no memory for larger tiles.
const SMALL_TILE: usize = 2 << 10;
/// The number of elements of a row from which on it is cast in place. For fewer, what a kernel prepares costs more than gathering.
const ROW: usize = 256;
/// The number of bytes of a row from which on it is streamed past the caches, if the whole view is, where a row takes
/// preparation. (With rows of 8 KiB, float32 to complex64 took a third longer streamed.)
const STREAMS_FROM: usize = 16 << 10;
/// The smallest number of elements that a tile with two dense dimensions has along that of the destination. With as many along
/// the other, both sides have whole lines.
const SIDE: usize = 64;
/// The largest number of dimensions of a tile.
const TILE_DIMS: usize = 4;
/// How many tiles in a row are cast before those of the next row, where there are two dense dimensions. Each row of a tile is
/// on a page of its own; this many are within reach of the TLB.
const WINDOW: usize = 8;

#[repr(C, align(64))]
struct Tile([MaybeUninit<u8>; SMALL_TILE]);

const _: () = assert!(align_of::<Tile>() == LINE);

impl Tile {
    const fn new() -> Self {
        Self([MaybeUninit::uninit(); SMALL_TILE])
    }
}

/// A cast of the elements of a walk; the first of them is at `src` and `dst`.
///
/// (The functions for the different kinds of walks are not inlined: with the frames of all of them, each would take a third more stack.)
#[derive(Clone, Copy)]
pub(crate) struct Along<'a> {
    plan: &'a Planned,
    /// The dimensions, in the order of the destination.
    dims: &'a [Dim],
    /// Bytes of an element on either side.
    sizes: [usize; 2],
    src: *const u8,
    dst: *mut u8,
}

impl<'a> Along<'a> {
    /// # Safety
    /// Every element is readable from `src` on, or writable from `dst` on, and no byte is on both sides, for as long as this is
    /// used. The plan is for elements of these sizes, which are whole bytes.
    pub(crate) unsafe fn new(
        plan: &'a Planned,
        dims: &'a [Dim],
        sizes: [usize; 2],
        src: *const u8,
        dst: *mut u8,
    ) -> Self {
        Self { plan, dims, sizes, src, dst }
    }

    /// Casts the elements.
    pub(crate) fn cast(self) {
        if self.dims.len() <= FEW { self.cast_up_to::<FEW>() } else { self.cast_many() }
    }

    #[inline(never)]
    fn cast_many(self) {
        self.cast_up_to::<MOST>();
    }

    /// Casts the elements of walks of one to `N` dimensions.
    fn cast_up_to<const N: usize>(mut self) {
        if self.dims.is_empty() {
            self.dims = &[Dim::ONE];
        }
        let Self { plan, dims, sizes, src, dst, .. } = self;
        let has_rows = [dims[0].src, dims[0].dst] == sizes.map(|size| size as isize);
        let n = dims[0].extent;
        if dims.len() == 1 && (has_rows || n == 1) {
            // SAFETY: these are all elements of the walk; they are contiguous, or there is only one.
            return unsafe { plan.run(src, dst, n) };
        }
        let walk = Boxes { dims, step: [1; N], at: [0; N] };
        let moves = Moves::of(self.plan.isa);
        let copies = plan.route.work == Work::Copy;
        // If a row takes no preparation, casting whole blocks of it in place costs less than gathering them.
        if has_rows && n >= moves.register() {
            let from = if plan.is_ready() { moves.row_streams_from() } else { STREAMS_FROM };
            let streams = n.saturating_mul(sizes[1]) >= from;
            let plan = if streams { plan.of_rows(self.elements()) } else { plan.of_tile() };
            let rows = RowCast::new(&plan);
            let from = if copies { moves::CALL / sizes[0] } else { ROW };
            if plan.is_ready() || n >= from {
                self.cast_rows(&rows, walk);
                if streams {
                    moves.fence();
                }
                return;
            }
        }
        match walk.dense() {
            Some([across, along]) => {
                let transpose = Transpose { across: dims[across], along: dims[along], sizes };
                let streams = || plan.part_of(self.elements()).streams_all();
                let room = if transpose.has_panels() && streams() { Scratch::new(panel::ROOM) } else { None };
                match room {
                    Some(room) => self.cast_panels(walk, [across, along], transpose, room),
                    None => self.cast_tiles(walk, moves),
                }
            }
            None if copies => self.move_all(walk, moves),
            None => self.cast_tiles(walk, moves),
        }
    }

    fn elements(&self) -> usize {
        self.dims.iter().fold(1, |n, dim| n.saturating_mul(dim.extent))
    }

    /// Casts rows in place: elements are contiguous along the first dimension.
    #[inline(never)]
    fn cast_rows<const N: usize>(self, rows: &RowCast<'_>, mut walk: Boxes<'_, N>) {
        let (n, outer) = (self.dims[0].extent, self.dims.get(1).copied().unwrap_or(Dim::ONE));
        walk.step[0] = n;
        walk.step[1] = outer.extent;
        let apart = Apart { rows: outer.extent, src: outer.src, dst: outer.dst };
        // SAFETY: rows are elements of the walk.
        walk.each(|src, dst, _| unsafe {
            rows.cast(self.src.wrapping_offset(src), self.dst.wrapping_offset(dst), n, &apart);
        });
    }

    /// Casts large transposes along the two `dense` dimensions, which can be cut into panels. `room` has [`panel::ROOM`] bytes.
    #[inline(never)]
    fn cast_panels<const N: usize>(
        self,
        mut walk: Boxes<'_, N>,
        dense: [usize; 2],
        transpose: Transpose,
        mut room: Scratch,
    ) {
        let room = room.bytes().as_mut_ptr().cast();
        for i in dense {
            walk.step[i] = self.dims[i].extent;
        }
        let plan = self.plan.of_tile();
        // SAFETY: transposes are elements of the walk. A `Scratch` begins at a line.
        walk.each(|src, dst, _| unsafe {
            let (src, dst) = (self.src.wrapping_offset(src), self.dst.wrapping_offset(dst));
            panel::cast(&plan, Moves::of(self.plan.isa), transpose, src, dst, room);
        });
    }

    /// Moves codes that do not change.
    #[inline(never)]
    fn move_all<const N: usize>(self, mut walk: Boxes<'_, N>, moves: Moves) {
        let mut grid = [Move::ONE; TILE_DIMS];
        for (i, (dim, one)) in self.dims.iter().zip(&mut grid).enumerate() {
            walk.step[i] = dim.extent;
            *one = Move { extent: dim.extent, from: dim.src, to: dim.dst };
        }
        // SAFETY: the grid has elements of the walk.
        walk.each(|src, dst, _| unsafe {
            moves.elements(
                &grid,
                self.sizes[0],
                self.src.wrapping_offset(src),
                self.dst.wrapping_offset(dst),
            );
        });
    }

    /// Casts everything else, in tiles.
    fn cast_tiles<const N: usize>(self, walk: Boxes<'_, N>, moves: Moves) {
        let is_small = self.elements() <= SMALL_TILE / self.sizes[0].max(self.sizes[1]);
        if !is_small && let Some(mut room) = Scratch::new(2 * TILE) {
            let (gathered, results) = room.bytes().split_at_mut(TILE);
            return self.cast_tiles_in(walk, moves, [gathered, results]);
        }
        self.cast_small_tiles(walk, moves)
    }

    /// Casts with tiles on the stack.
    #[inline(never)]
    fn cast_small_tiles<const N: usize>(self, walk: Boxes<'_, N>, moves: Moves) {
        let (mut gathered, mut results) = (Tile::new(), Tile::new());
        self.cast_tiles_in(walk, moves, [&mut gathered.0, &mut results.0]);
    }

    /// Casts with tiles in these buffers, the second of which is at least as large as the first.
    #[inline(never)]
    fn cast_tiles_in<const N: usize>(
        self,
        mut walk: Boxes<'_, N>,
        moves: Moves,
        rooms: [&mut [MaybeUninit<u8>]; 2],
    ) {
        let bytes = rooms[0].len().min(rooms[1].len());
        let [gathered, results] = rooms.map(|room| room.as_mut_ptr().cast::<u8>());
        let Self { dims, sizes, .. } = self;
        let copies = self.plan.route.work == Work::Copy;
        let order = walk.choose_tile(sizes, bytes);
        let step = walk.step;
        walk.widen();
        let plan = self.plan.of_tile();
        let rows = RowCast::new(&plan);
        let tile = |src_at: isize, dst_at: isize, step: &dyn Fn(usize) -> usize| {
            let mut from = self.src.wrapping_offset(src_at);
            let to = self.dst.wrapping_offset(dst_at);
            let mut gather = [Move::ONE; TILE_DIMS];
            let mut scatter = [Move::ONE; TILE_DIMS];
            let mut n = 1;
            for (i, dim) in order.iter().enumerate().filter_map(|(i, dim)| Some((i, (*dim)?))) {
                let extent = step(dim);
                let packed = sizes.map(|size| (n * size) as isize);
                gather[i] = Move { extent, from: dims[dim].src, to: packed[0] };
                scatter[i] = Move { extent, from: packed[1], to: dims[dim].dst };
                n *= extent;
            }
            // What is in order already is not moved.
            let is_moved = |all: &[Move]| all.iter().any(|one| one.extent > 1 && one.from != one.to);
            // SAFETY: the elements of the tile are elements of the walk, and the buffers have room for them: on either side,
            // there are no more than fit into a tile at the larger size. The moves lead from the ones to the others.
            unsafe {
                if is_moved(&gather) {
                    moves.elements(&gather, sizes[0], from, gathered);
                    from = gathered;
                }
                if !is_moved(&scatter) {
                    return rows.cast(from, to, n, &Apart::ONE);
                }
                if !copies {
                    rows.cast(from, results, n, &Apart::ONE);
                    from = results;
                }
                moves.elements(&scatter, sizes[1], from, to);
            }
        };
        if (0..dims.len()).all(|i| step[i] == dims[i].extent) {
            return tile(0, 0, &|i| dims[i].extent);
        }
        let mut window = [Dim::ONE; N];
        let window = &mut window[..dims.len()];
        window.copy_from_slice(dims);
        walk.each(|src_at, dst_at, extent| {
            for (i, dim) in window.iter_mut().enumerate() {
                dim.extent = extent(i);
            }
            let mut tiles = Boxes { dims: window, step, at: [0; N] };
            tiles.each(|src, dst, step| tile(src_at.wrapping_add(src), dst_at.wrapping_add(dst), step));
        });
    }
}

/// The number of elements of a tile in [`in_order`].
const NUMBERED: usize = 64;

/// Casts the elements of a walk in the order of the walk, for stochastic plans, in which the index of an element matters.
///
/// # Safety
/// As for [`Along::cast`]; strides may have any sign.
#[inline(never)]
pub(crate) unsafe fn in_order(
    plan: &Planned,
    sizes: [usize; 2],
    dims: &[Dim],
    mut src: *const u8,
    mut dst: *mut u8,
) {
    let (row, outer) = dims.split_first().unwrap_or((&Dim::ONE, &[]));
    let mut at = [0; MOST];
    for first in (0..).step_by(row.extent) {
        // SAFETY: the row is one of the walk.
        unsafe { row_in_order(plan, sizes, row, src, dst, first) };
        // On to the next row, along the first dimension that is not at its end.
        let mut dims = outer.iter().zip(&mut at);
        loop {
            let Some((&Dim { extent, src: from, dst: to }, at)) = dims.next() else { return };
            if *at < extent - 1 {
                *at += 1;
                (src, dst) = (src.wrapping_offset(from), dst.wrapping_offset(to));
                break;
            }
            // Nothing wraps, because the elements are in memory.
            let back = |stride: isize| stride.wrapping_mul(*at as isize).wrapping_neg();
            (src, dst) = (src.wrapping_offset(back(from)), dst.wrapping_offset(back(to)));
            *at = 0;
        }
    }
}

/// Casts a row of [`in_order`], whose first element has the index `first`.
///
/// # Safety
/// The elements of the row are readable, or writable, and no byte is on both sides.
unsafe fn row_in_order(
    plan: &Planned,
    sizes: [usize; 2],
    row: &Dim,
    mut src: *const u8,
    mut dst: *mut u8,
    first: usize,
) {
    // SAFETY: every pointer is to an element of the row. The tiles have room for so many elements, which have 16 bytes at most.
    unsafe {
        if row.extent == 1 || [row.src, row.dst] == sizes.map(|size| size as isize) {
            return plan.at(first).run(src, dst, row.extent);
        }
        let mut tiles = [[0u8; 16 * NUMBERED]; 2];
        let [gathered, results] = tiles.each_mut().map(|tile| tile.as_mut_ptr());
        for begin in (0..row.extent).step_by(NUMBERED) {
            let n = NUMBERED.min(row.extent - begin);
            for i in 0..n {
                src.copy_to_nonoverlapping(gathered.add(i * sizes[0]), sizes[0]);
                src = src.wrapping_offset(row.src);
            }
            plan.at(first + begin).run(gathered, results, n);
            for i in 0..n {
                results.add(i * sizes[1]).copy_to_nonoverlapping(dst, sizes[1]);
                dst = dst.wrapping_offset(row.dst);
            }
        }
    }
}

/// A walk that is divided into boxes.
struct Boxes<'a, const N: usize> {
    dims: &'a [Dim],
    /// The number of elements of a box along each dimension. The last box may have fewer.
    step: [usize; N],
    at: [usize; N],
}

impl<const N: usize> Boxes<'_, N> {
    /// Sets the boxes to tiles of at most `bytes` bytes. Returns the dimensions of a tile, beginning with the one along which
    /// its elements are contiguous.
    fn choose_tile(&mut self, sizes: [usize; 2], bytes: usize) -> [Option<usize>; TILE_DIMS] {
        let dims = self.dims;
        let room = bytes / sizes[0].max(sizes[1]);
        let mut order = [None; TILE_DIMS];
        let mut n;
        if let Some([dense_dst, dense_src]) = self.dense() {
            let (across, along) = (dims[dense_dst].extent, dims[dense_src].extent);
            self.step[dense_src] = along.min(room / across.min(SIDE));
            self.step[dense_dst] = across.min(room / self.step[dense_src]);
            n = self.step[dense_src] * self.step[dense_dst];
            let in_order_of_src = sizes[1] < sizes[0];
            (order[0], order[1]) = match in_order_of_src {
                true => (Some(dense_src), Some(dense_dst)),
                false => (Some(dense_dst), Some(dense_src)),
            };
        } else {
            self.step[0] = dims[0].extent.min(room);
            n = self.step[0];
            order[0] = Some(0);
        }
        // If dimensions are short, the tile extends along further ones.
        for (i, dim) in dims.iter().enumerate().skip(1) {
            if self.step[i] > 1 {
                continue;
            }
            let Some(free) = order.iter().position(Option::is_none) else { break };
            let step = dim.extent.min(room / n);
            if step < 2 {
                break;
            }
            self.step[i] = step;
            n *= step;
            order[free] = Some(i);
        }
        order
    }

    /// Widens the boxes from tiles to windows: some tiles along each of two dense dimensions; or, if there are no such two, everything.
    fn widen(&mut self) {
        let dense = self.dense();
        for (i, dim) in self.dims.iter().enumerate() {
            let tiles = if dense.is_some_and(|dense| dense.contains(&i)) { WINDOW } else { dim.extent };
            self.step[i] = dim.extent.min(self.step[i].saturating_mul(tiles));
        }
    }

    /// The dimensions along which destination and source are densest, if they are different ones.
    fn dense(&self) -> Option<[usize; 2]> {
        let density = |i: &usize| match self.dims[*i].src.unsigned_abs() {
            0 => usize::MAX,
            stride => stride,
        };
        let source = (0..self.dims.len()).min_by_key(density)?;
        (density(&source) < density(&0)).then_some([0, source])
    }

    /// Calls `run` for each box, with the distances in bytes of its first element from the first element of the walk on both
    /// sides, and with a function that returns its extent along a dimension.
    fn each(&mut self, mut run: impl FnMut(isize, isize, &dyn Fn(usize) -> usize)) {
        let (mut src, mut dst) = (0, 0);
        loop {
            let extent = |i: usize| self.step[i].min(self.dims[i].extent - self.at[i]);
            run(src, dst, &extent);
            let mut i = 0;
            loop {
                let Some(dim) = self.dims.get(i) else { return };
                let step = self.step[i];
                // Nothing wraps where there are elements, because those are in memory.
                let way = |stride: isize, elements: usize| stride.wrapping_mul(elements as isize);
                if step < dim.extent - self.at[i] {
                    self.at[i] += step;
                    src = way(dim.src, step).wrapping_add(src);
                    dst = way(dim.dst, step).wrapping_add(dst);
                    break;
                }
                src = src.wrapping_sub(way(dim.src, self.at[i]));
                dst = dst.wrapping_sub(way(dim.dst, self.at[i]));
                self.at[i] = 0;
                i += 1;
            }
        }
    }
}
