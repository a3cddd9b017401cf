//! Casts along strides: rows by the kernel of the cast where they are, unless they are short; everything else a tile
//! at a time, which is gathered, cast, and scattered.
//!
//! A tile is a box of the walk, as large as L1 likes. If the two sides are dense along different dimensions, it has
//! both of them, so that either side is touched by whole lines: then the elements are transposed on the side where
//! they are narrower, and in order on the other. Codes that are kept are moved, and cast nowhere. What a transpose
//! takes that is larger than the caches is in `panel.rs`.

use core::mem::MaybeUninit;

use super::layout::Apart;
pub(crate) use super::moves::Dim;
use super::moves::{self, Move, Moves};
use super::panel::{self, Transpose};
use super::plan::{Planned, RowCast};
use super::scratch::Scratch;
use crate::formats::route::Work;

/// Dimensions of more than one element that a view can have: each doubles its elements.
pub(crate) const MOST: usize = usize::BITS as usize;
/// Dimensions that nearly every view has at most. To make room for all of them takes longer than to cast a few elements.
pub(crate) const FEW: usize = 6;
/// Bytes of a tile on the side where it is larger. Both sides stay in L1.
const TILE: usize = 16 << 10;
/// The same on the stack, which may be small: for what has no more, and where there is no memory for larger ones.
const SMALL_TILE: usize = 2 << 10;
/// Elements of a row from which on it is cast where it is: of fewer, what a kernel prepares costs more than a tile.
const ROW: usize = 256;
/// Bytes of a cast row that takes preparation from which on it goes past the caches if the whole view does: of rows of 8 KiB,
/// float32 to complex64 takes a third longer that way, and more.
const STREAMS_FROM: usize = 16 << 10;
/// Elements that a tile of two dense dimensions has at least along that of the destination, if there are so many:
/// with as many along the other, both have whole lines.
const SIDE: usize = 64;
/// Dimensions of a tile.
const TILE_DIMS: usize = 4;
/// Tiles in a row that are cast before those of the next row, where there are two dense dimensions. Each row of a tile is
/// on a page of its own: these are as many as the machine can find without looking for them in memory.
const WINDOW: usize = 8;

#[repr(C, align(64))]
struct Tile([MaybeUninit<u8>; SMALL_TILE]);

impl Tile {
    const fn new() -> Self {
        Self([MaybeUninit::uninit(); SMALL_TILE])
    }
}

/// A cast of elements along dimensions, the first of which are at `src` and at `dst`.
///
/// Its ways are not inlined: with the frames of all of them, each would take a third more of the stack.
#[derive(Clone, Copy)]
pub(crate) struct Along<'a> {
    plan: &'a Planned,
    /// In the order of the destination.
    dims: &'a [Dim],
    /// Bytes of an element on either side.
    sizes: [usize; 2],
    src: *const u8,
    dst: *mut u8,
}

impl<'a> Along<'a> {
    /// # Safety
    /// Every element is readable from `src` on, or writable from `dst` on, and no byte is one of both sides, for as
    /// long as this is used. The plan is of elements of these sizes, whole bytes.
    pub(crate) unsafe fn new(
        plan: &'a Planned,
        dims: &'a [Dim],
        sizes: [usize; 2],
        src: *const u8,
        dst: *mut u8,
    ) -> Self {
        Self { plan, dims, sizes, src, dst }
    }

    /// Casts them.
    pub(crate) fn cast(self) {
        if self.dims.len() <= FEW { self.cast_up_to::<FEW>() } else { self.cast_many() }
    }

    #[inline(never)]
    fn cast_many(self) {
        self.cast_up_to::<MOST>();
    }

    /// The same of `N` dimensions at most: of one and more.
    fn cast_up_to<const N: usize>(mut self) {
        if self.dims.is_empty() {
            self.dims = &[Dim::ONE];
        }
        let Self { plan, dims, sizes, src, dst, .. } = self;
        let has_rows = [dims[0].src, dims[0].dst] == sizes.map(|size| size as isize);
        let n = dims[0].extent;
        if dims.len() == 1 && (has_rows || n == 1) {
            // SAFETY: all elements of the walk, which lie behind each other or are one.
            return unsafe { plan.run(src, dst, n) };
        }
        let walk = Steps { dims, step: [1; N], at: [0; N] };
        let moves = Moves::of(self.plan.isa);
        let copies = plan.route.work == Work::Copy;
        // Where a row takes no preparation, whole blocks of it cost less than to bring them to a tile.
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
                let plane = Transpose { across: dims[across], along: dims[along], sizes };
                let streams = || plan.part_of(self.elements()).streams_all();
                let room = if plane.has_panels() && streams() { Scratch::new(panel::ROOM) } else { None };
                match room {
                    Some(room) => self.cast_panels(walk, [across, along], plane, room),
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

    /// Rows where they are: the elements lie behind each other along the first dimension.
    #[inline(never)]
    fn cast_rows<const N: usize>(self, rows: &RowCast<'_>, mut walk: Steps<'_, N>) {
        let (n, outer) = (self.dims[0].extent, self.dims.get(1).copied().unwrap_or(Dim::ONE));
        walk.step[0] = n;
        walk.step[1] = outer.extent;
        let apart = Apart { rows: outer.extent, src: outer.src, dst: outer.dst };
        // SAFETY: rows are elements of the walk.
        walk.each(|src, dst, _| unsafe {
            rows.cast(self.src.wrapping_offset(src), self.dst.wrapping_offset(dst), n, &apart);
        });
    }

    /// A transpose past the caches, where the plane of these dimensions has panels, by a room of [so many](panel::ROOM) bytes.
    #[inline(never)]
    fn cast_panels<const N: usize>(
        self,
        mut walk: Steps<'_, N>,
        dense: [usize; 2],
        plane: Transpose,
        mut room: Scratch,
    ) {
        let room = room.bytes().as_mut_ptr().cast();
        for i in dense {
            walk.step[i] = self.dims[i].extent;
        }
        let plan = self.plan.of_tile();
        // SAFETY: planes are elements of the walk. A `Scratch` begins at a line.
        walk.each(|src, dst, _| unsafe {
            let (src, dst) = (self.src.wrapping_offset(src), self.dst.wrapping_offset(dst));
            panel::cast(&plan, Moves::of(self.plan.isa), plane, src, dst, room);
        });
    }

    /// Codes that are kept.
    #[inline(never)]
    fn move_all<const N: usize>(self, mut walk: Steps<'_, N>, moves: Moves) {
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

    /// Everything else.
    fn cast_tiles<const N: usize>(self, walk: Steps<'_, N>, moves: Moves) {
        let is_small = self.elements() <= SMALL_TILE / self.sizes[0].max(self.sizes[1]);
        if !is_small && let Some(mut room) = Scratch::new(2 * TILE) {
            let (gathered, results) = room.bytes().split_at_mut(TILE);
            return self.cast_tiles_in(walk, moves, [gathered, results]);
        }
        self.cast_small_tiles(walk, moves)
    }

    /// The same by tiles on the stack.
    #[inline(never)]
    fn cast_small_tiles<const N: usize>(self, walk: Steps<'_, N>, moves: Moves) {
        let (mut gathered, mut results) = (Tile::new(), Tile::new());
        self.cast_tiles_in(walk, moves, [&mut gathered.0, &mut results.0]);
    }

    /// The same by tiles that fill these rooms, of which the second is no smaller.
    #[inline(never)]
    fn cast_tiles_in<const N: usize>(
        self,
        mut walk: Steps<'_, N>,
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
            // What lies in order needs not be moved.
            let is_moved = |all: &[Move]| all.iter().any(|one| one.extent > 1 && one.from != one.to);
            // SAFETY: the elements of the tile are elements of the walk, and the buffers have room for them: of the
            // larger ones on either side there are no more than a tile has. The moves lead from the ones to the others.
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
            let mut tiles = Steps { dims: window, step, at: [0; N] };
            tiles.each(|src, dst, step| tile(src_at.wrapping_add(src), dst_at.wrapping_add(dst), step));
        });
    }
}

/// Elements of a tile of [`in_order`].
const NUMBERED: usize = 64;

/// Casts the elements of views of a shape in the order of their numbers, for plans that cast an element by its number.
///
/// # Safety
/// As for [`Along::cast`]; there are as many strides as dimensions on either side, and no more elements than a usize counts.
#[inline(never)]
pub(crate) unsafe fn in_order(
    plan: &Planned,
    sizes: [usize; 2],
    shape: &[usize],
    (mut src, src_strides): (*const u8, &[isize]),
    (mut dst, dst_strides): (*mut u8, &[isize]),
) {
    // Of dimensions of one element there may be any number, which lead nowhere.
    let (mut dims, mut len) = ([Dim::ONE; MOST], 0);
    for ((&extent, &src), &dst) in shape.iter().zip(src_strides).zip(dst_strides) {
        if extent != 1 {
            dims[len] = Dim { extent, src, dst };
            len += 1;
        }
    }
    let (row, outer) = dims[..len].split_last().unwrap_or((&Dim::ONE, &[]));
    let mut at = [0; MOST];
    for first in (0..).step_by(row.extent) {
        // SAFETY: the row is one of the views.
        unsafe { row_in_order(plan, sizes, row, src, dst, first) };
        // The next row, of which the last dimension that has one more.
        let mut i = outer.len();
        loop {
            if i == 0 {
                return;
            }
            i -= 1;
            let Dim { extent, src: from, dst: to } = outer[i];
            if at[i] < extent - 1 {
                at[i] += 1;
                (src, dst) = (src.wrapping_offset(from), dst.wrapping_offset(to));
                break;
            }
            // Without wrapping, as there are elements: they are in memory.
            let back = |stride: isize| stride.wrapping_mul(at[i] as isize).wrapping_neg();
            (src, dst) = (src.wrapping_offset(back(from)), dst.wrapping_offset(back(to)));
            at[i] = 0;
        }
    }
}

/// A row of those, of which the first element has a number.
///
/// # Safety
/// The elements of the row are readable, or writable, and no byte is one of both.
unsafe fn row_in_order(
    plan: &Planned,
    sizes: [usize; 2],
    row: &Dim,
    mut src: *const u8,
    mut dst: *mut u8,
    first: usize,
) {
    // SAFETY: every pointer is that of an element of the row. What is in tiles are elements of 16 bytes at most, for which
    // they have room.
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

/// A walk, box by box.
struct Steps<'a, const N: usize> {
    dims: &'a [Dim],
    /// Elements of a box along each dimension; at the end there are fewer.
    step: [usize; N],
    at: [usize; N],
}

impl<const N: usize> Steps<'_, N> {
    /// Sets the steps to those of a tile of so many bytes. The dimensions that it has, the one first along which its
    /// elements lie behind each other.
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
        // Short dimensions leave room for others.
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

    /// Makes windows of the steps of a tile: everything, or some tiles in a row along each of two dense dimensions.
    fn widen(&mut self) {
        let dense = self.dense();
        for (i, dim) in self.dims.iter().enumerate() {
            let tiles = if dense.is_some_and(|dense| dense.contains(&i)) { WINDOW } else { dim.extent };
            self.step[i] = dim.extent.min(self.step[i].saturating_mul(tiles));
        }
    }

    /// The dimensions along which the destination and the source are densest, if they are two.
    fn dense(&self) -> Option<[usize; 2]> {
        let density = |i: &usize| match self.dims[*i].src.unsigned_abs() {
            0 => usize::MAX,
            stride => stride,
        };
        let source = (0..self.dims.len()).min_by_key(density)?;
        (density(&source) < density(&0)).then_some([0, source])
    }

    /// Calls a function for every box: how many bytes its first element is from that of the walk on either side,
    /// and its extent along a dimension.
    fn each(&mut self, mut run: impl FnMut(isize, isize, &dyn Fn(usize) -> usize)) {
        let (mut src, mut dst) = (0, 0);
        loop {
            let extent = |i: usize| self.step[i].min(self.dims[i].extent - self.at[i]);
            run(src, dst, &extent);
            let mut i = 0;
            loop {
                let Some(dim) = self.dims.get(i) else { return };
                let step = self.step[i];
                // Without wrapping where there are elements: they are in memory.
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
