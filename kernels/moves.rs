//! Moves elements from one grid of places to another: gathers, scatters and transposes.
//!
//! [`Ordered`] first decides in which order a grid is moved. Then loops with constant strides run, compiled for an instruction
//! set, so that the compiler turns them into shuffles; blocks are transposed by the zips of [`Simd`].

#[cfg(isa = "vector")]
use core::marker::PhantomData;

use super::backend::on;
use super::present::Present;
use super::run::{Run, lie_alike};
#[cfg(isa = "vector")]
use super::simd::{Simd, Task, fence};
#[cfg(isa = "vector")]
use super::sizes::LINE;

/// A dimension of a walk: its extent, and the strides in bytes on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim {
    pub(crate) extent: usize,
    pub(crate) src: isize,
    /// Positive while elements are moved.
    pub(crate) dst: isize,
}

impl Dim {
    pub(crate) const ONE: Self = Self { extent: 1, src: 0, dst: 1 };
}

/// A dimension of a [`Grid`]: its extent, and the strides in bytes on both sides. (Unlike in a [`Dim`], both are strides of the
/// same elements, which are moved as they are.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Move {
    pub(super) extent: usize,
    pub(super) from: isize,
    pub(super) to: isize,
}

impl Move {
    pub(super) const ONE: Self = Self { extent: 1, from: 0, to: 0 };
}

/// Moves along up to four dimensions.
pub(super) type Grid = [Move; 4];

/// Rows of contiguous bytes, and how far apart they are on both sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteRows {
    pub(super) rows: usize,
    pub(super) bytes: usize,
    pub(super) from: isize,
    pub(super) to: isize,
}

/// Moves by an instruction set, or by the reference.
#[derive(Clone, Copy)]
pub(super) struct Moves(Present);

impl Moves {
    pub(super) const fn of(isa: Present) -> Self {
        Self(isa)
    }

    /// Bytes of a register, which is also the number of elements in a block; for the reference, any large number.
    pub(super) fn register(self) -> usize {
        on!(self.0, isa => bytes_of(isa)).unwrap_or(64)
    }

    /// The number of bytes of a row from which on it is streamed past the caches, if the whole view is.
    pub(super) fn row_streams_from(self) -> usize {
        on!(self.0, isa => row_streams_from(isa)).unwrap_or(usize::MAX)
    }

    /// Moves elements of `size` bytes: 1, 2, 4, 8 or 16.
    ///
    /// # Safety
    /// The elements are readable from `from` on and writable from `to` on, and no byte is both.
    #[inline(never)]
    pub(super) unsafe fn elements(self, grid: &Grid, size: usize, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's elements.
        let ordered = unsafe { &Ordered::new(grid, size, from, to) };
        on!(self.0, isa => vector(isa, ordered)).unwrap_or_else(|| scalar(ordered));
    }

    /// Copies rows, streaming their whole lines past the caches where there are such stores.
    ///
    /// # Safety
    /// The rows are readable from `from` on and writable from `to` on, and no byte is both.
    #[inline(never)]
    pub(super) unsafe fn stream(self, rows: &ByteRows, from: *const u8, to: *mut u8) {
        let along = Move { extent: rows.bytes, from: 1, to: 1 };
        let across = Move { extent: rows.rows, from: rows.from, to: rows.to };
        // SAFETY: the caller's rows.
        let runs = unsafe { Places::<1>::new(along, across, from, to) };
        on!(self.0, isa => isa.run(Stream(runs))).unwrap_or_else(|| runs.each_run(Run::plainly));
    }

    /// Orders streamed stores before later ones.
    pub(super) fn fence(self) {
        on!(self.0, isa => fence(isa)).unwrap_or(());
    }

    /// Prefetches the lines of rows to L2. The addresses need not be valid.
    #[cfg_attr(not(isa = "vector"), expect(unused_variables, reason = "there is none"))]
    #[inline(never)]
    pub(super) fn prefetch(self, rows: &ByteRows, from: *const u8) {
        on!(self.0, isa => isa.run(Prefetch(rows, from))).unwrap_or(());
    }
}

#[cfg(isa = "vector")]
const fn bytes_of<I: Simd>(_: I) -> usize {
    I::BYTES
}

#[cfg(isa = "vector")]
const fn row_streams_from<I: Simd>(_: I) -> usize {
    I::ROW_STREAMS_FROM
}

/// The number of bytes from which on a run is copied as one. For a shorter run, the call would take longer than the elements.
const RUN: usize = 16;

/// A grid in the order in which it is moved: its first dimension is innermost. All its places are readable or writable, and no
/// byte is on both sides.
struct Ordered {
    grid: Grid,
    pattern: Pattern,
    /// Bytes of an element.
    size: usize,
    from: *const u8,
    to: *mut u8,
}

/// What the first two dimensions of a grid look like.
#[derive(Clone, Copy)]
enum Pattern {
    /// Elements are contiguous along the first one on both sides. (Along it, the grid then counts bytes.)
    Runs,
    /// Elements are contiguous along the first one in the source, and along the second one in the destination.
    Blocks,
    /// As `Blocks`, where one of the two has 2 to 4 elements: pixels of interleaved channels on one side, planes on the other.
    Channels,
    /// None of these. The first one is the longest.
    Spread,
}

impl Ordered {
    /// Not inlined, so that the value is made in its place: a copy would load, as vectors, what has just been stored as words, and stall.
    ///
    /// # Safety
    /// The places are readable or writable, and no byte is on both sides, for as long as this is used.
    #[inline(never)]
    unsafe fn new(grid: &Grid, size: usize, from: *const u8, to: *mut u8) -> Self {
        let (grid, pattern) = Self::order(*grid, size);
        let size = if matches!(pattern, Pattern::Runs) { 1 } else { size };
        Self { grid, pattern, size, from, to }
    }

    fn order(mut grid: Grid, size: usize) -> (Grid, Pattern) {
        // Merge dimensions that are contiguous to each other on both sides.
        let mut last = 0;
        for i in 1..grid.len() {
            let (inner, outer) = (grid[last], grid[i]);
            let span = inner.extent as isize;
            if outer.extent == 1 {
                continue;
            }
            if inner.extent == 1 {
                grid[last] = outer;
            } else if (inner.from.checked_mul(span), inner.to.checked_mul(span))
                == (Some(outer.from), Some(outer.to))
            {
                grid[last].extent *= outer.extent;
            } else {
                last += 1;
                grid[last] = outer;
            }
        }
        grid[last + 1..].fill(Move::ONE);
        let dense = size as isize;
        let find = |test: &dyn Fn(&Move) -> bool| grid.iter().position(|one| one.extent > 1 && test(one));
        let run = find(&|one| one.from == dense && one.to == dense && one.extent * size >= RUN);
        let (from, to) = (find(&|one| one.from == dense), find(&|one| one.to == dense));
        if let (None, Some(from), Some(to)) = (run, from, to)
            && from != to
        {
            grid.swap(0, from);
            // The swap before may have moved the dimension `to`.
            grid.swap(1, if to == 0 { from } else { to });
            let [a, b, ..] = grid;
            let channels = |n: usize, across: isize| (2..=4).contains(&n) && across == n as isize * dense;
            let pattern = if channels(b.extent, a.to) || channels(a.extent, b.from) {
                Pattern::Channels
            } else {
                Pattern::Blocks
            };
            return (grid, pattern);
        }
        let longest = (0..grid.len()).max_by_key(|&i| grid[i].extent).unwrap_or(0);
        grid.swap(0, run.unwrap_or(longest));
        if (grid[0].from, grid[0].to) != (dense, dense) {
            return (grid, Pattern::Spread);
        }
        grid[0] = Move { extent: grid[0].extent * size, from: 1, to: 1 };
        (grid, Pattern::Runs)
    }
}

/// Elements of `W` bytes along two dimensions, with their places on both sides. All places are readable or writable, and no
/// byte is on both sides. Values that are derived from this one have some of these places.
#[derive(Clone, Copy)]
struct Places<const W: usize> {
    a: Move,
    b: Move,
    from: *const u8,
    to: *mut u8,
}

impl<const W: usize> Places<W> {
    /// # Safety
    /// The places are readable or writable, and no byte is on both sides, for as long as this is used.
    #[inline(always)]
    unsafe fn new(a: Move, b: Move, from: *const u8, to: *mut u8) -> Self {
        Self { a, b, from, to }
    }

    /// The elements along the first dimension at an index of the second; none if there is no such index.
    #[cfg(isa = "vector")]
    #[inline(always)]
    fn row(self, j: usize) -> Row<W> {
        let Self { a, b, from, to } = self;
        if j >= b.extent || a.extent == 0 {
            return Row { along: Move { extent: 0, ..a }, from, to };
        }
        let j = j as isize;
        Row {
            along: a,
            from: from.wrapping_offset(j.wrapping_mul(b.from)),
            to: to.wrapping_offset(j.wrapping_mul(b.to)),
        }
    }

    /// Copies all elements, the first dimension innermost.
    #[inline(always)]
    fn copy(self) {
        let Self { a, b, from, to } = self;
        for j in 0..b.extent as isize {
            for i in 0..a.extent as isize {
                // SAFETY: one of the elements. It is copied as an integer, so that the compiler sees a lane. The step along the
                // first dimension comes first: if that is a dimension of few channels, each channel then has a pointer of its own.
                unsafe {
                    let from = from.offset(i * a.from).offset(j * b.from);
                    let to = to.offset(i * a.to).offset(j * b.to);
                    match W {
                        1 => to.write(from.read()),
                        2 => to.cast::<u16>().write_unaligned(from.cast::<u16>().read_unaligned()),
                        4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
                        8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
                        _ => to.cast::<u128>().write_unaligned(from.cast::<u128>().read_unaligned()),
                    }
                }
            }
        }
    }
}

#[cfg(isa = "vector")]
impl<const W: usize> Places<W> {
    #[inline(always)]
    fn transposed(self) -> Self {
        Self { a: self.b, b: self.a, ..self }
    }

    /// A part of both dimensions from these indices on, if there is as much.
    #[inline(always)]
    fn part(self, [i, j]: [usize; 2], [n, m]: [usize; 2]) -> Self {
        let Self { mut a, mut b, from, to } = self;
        (a.extent, b.extent) = (a.extent.saturating_sub(i).min(n), b.extent.saturating_sub(j).min(m));
        let (i, j) = (i as isize, j as isize);
        let from = from.wrapping_offset(i.wrapping_mul(a.from).wrapping_add(j.wrapping_mul(b.from)));
        let to = to.wrapping_offset(i.wrapping_mul(a.to).wrapping_add(j.wrapping_mul(b.to)));
        Self { a, b, from, to }
    }

    /// Copies all elements if the dimensions are `a` and `b`. If these are constants, the compiler makes a separate loop for them.
    #[inline(always)]
    fn copy_along(self, a: Move, b: Move) {
        debug_assert!((self.a, self.b) == (a, b), "other dimensions");
        if (self.a, self.b) == (a, b) {
            Self { a, b, ..self }.copy();
        }
    }
}

/// Elements along one dimension.
#[cfg(isa = "vector")]
#[derive(Clone, Copy)]
struct Row<const W: usize> {
    along: Move,
    from: *const u8,
    to: *mut u8,
}

#[cfg(isa = "vector")]
impl<const W: usize> Row<W> {
    #[inline(always)]
    fn copy(self) {
        let Self { along, from, to } = self;
        Places::<W> { a: along, b: Move::ONE, from, to }.copy();
    }
}

#[cfg(isa = "vector")]
impl<const W: usize> Row<W> {
    /// The elements from an index on.
    #[inline(always)]
    fn after(self, i: usize) -> Self {
        let Self { mut along, from, to } = self;
        along.extent = along.extent.saturating_sub(i);
        let i = i as isize;
        let from = from.wrapping_offset(i.wrapping_mul(along.from));
        Self { along, from, to: to.wrapping_offset(i.wrapping_mul(along.to)) }
    }

    /// Copies the elements if the strides are these. If these are constants, the compiler turns the loop into shuffles.
    #[inline(always)]
    fn copy_steps(self, from: isize, to: isize) {
        debug_assert!((self.along.from, self.along.to) == (from, to), "other steps");
        if (self.along.from, self.along.to) == (from, to) {
            Self { along: Move { from, to, ..self.along }, ..self }.copy();
        }
    }
}

impl Places<1> {
    /// Calls `run` for each run of bytes, which are contiguous along the first dimension.
    #[inline(always)]
    fn each_run(self, run: impl Fn(Run)) {
        let Self { a, b, mut from, mut to } = self;
        for _ in 0..b.extent {
            // SAFETY: one of the runs, which have so many bytes.
            run(unsafe { Run::new(from, to, a.extent) });
            (from, to) = (from.wrapping_offset(b.from), to.wrapping_offset(b.to));
        }
    }
}

/// How bytes are moved: by registers, or by memcpy.
trait Means: Copy {
    /// Copies runs of a few bytes.
    fn runs(self, runs: Places<1>);
}

fn scalar(ordered: &Ordered) {
    #[derive(Clone, Copy)]
    struct Plain;

    impl Means for Plain {
        #[inline(always)]
        fn runs(self, runs: Places<1>) {
            runs.each_run(Run::plainly);
        }
    }

    match ordered.pattern {
        Pattern::Runs => every::<_, Runs>(Plain, ordered),
        // The reference is small rather than fast.
        Pattern::Blocks | Pattern::Channels | Pattern::Spread => every::<_, Singly>(Plain, ordered),
    }
}

#[cfg(isa = "vector")]
fn vector<I: Simd>(isa: I, ordered: &Ordered) {
    // There is a function for each pattern: in a single one, preparing all the loops takes longer than moving a tile.
    match ordered.pattern {
        Pattern::Runs => isa.run(Every::<Runs>(ordered, PhantomData)),
        Pattern::Blocks => isa.run(Every::<Blocks>(ordered, PhantomData)),
        Pattern::Channels => isa.run(Every::<Channels>(ordered, PhantomData)),
        Pattern::Spread => isa.strided().run(Every::<Spread>(ordered, PhantomData)),
    }
}

/// [`every`].
#[cfg(isa = "vector")]
struct Every<'a, P>(&'a Ordered, PhantomData<P>);

#[cfg(isa = "vector")]
impl<I: Simd, P: Inner<ByRegisters<I>>> Task<I> for Every<'_, P> {
    type Output = ();

    #[inline(always)]
    fn call(self, isa: I) {
        every::<_, P>(ByRegisters(isa), self.0);
    }
}

/// Moves by registers, which are also the rows of blocks.
#[cfg(isa = "vector")]
#[derive(Clone, Copy)]
struct ByRegisters<I>(I);

#[cfg(isa = "vector")]
impl<I: Simd> Means for ByRegisters<I> {
    #[inline(always)]
    fn runs(self, runs: Places<1>) {
        /// Copies runs whose length is this constant.
        #[inline(always)]
        fn of<I: Simd, const BYTES: usize>(isa: I, runs: Places<1>) {
            if runs.a.extent == BYTES {
                let runs = Places { a: Move { extent: BYTES, ..runs.a }, ..runs };
                runs.each_run(|run| run.shortly(isa));
            }
        }
        let (Self(isa), bytes) = (self, runs.a.extent);
        match bytes {
            16 => of::<I, 16>(isa, runs),
            32 => of::<I, 32>(isa, runs),
            64 => of::<I, 64>(isa, runs),
            128 => of::<I, 128>(isa, runs),
            _ if bytes < LONG * I::BYTES => runs.each_run(|run| run.shortly(isa)),
            _ => runs.each_run(|run| run.aligned(isa)),
        }
    }
}

#[cfg(isa = "vector")]
impl<I: Simd> ByRegisters<I> {
    /// Elements of `W` bytes in a row of a block of the transpose.
    #[inline(always)]
    fn side<const W: usize>() -> usize {
        // There are no zips of lanes of 16 bytes; four of these are a line.
        if W == 16 { 4 } else { I::BYTES / W }
    }

    /// Transposes a square block. Elements are contiguous along the first dimension in the source, along the second in the destination.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "an iterator need not be inlined")]
    fn block<const W: usize>(self, block: Places<W>) {
        /// Bytes of a piece. A square of elements has one piece in each of `PIECE / W` rows of a block.
        const PIECE: usize = 16;
        let Places { a, b, from, to } = block;
        let (row, column, all) = (b.from, a.to, Self::side::<W>());
        let [across, along] = [(all, W as isize, column), (all, row, W as isize)]
            .map(|(extent, from, to)| Move { extent, from, to });
        if W == PIECE {
            return block.copy_along(across, along);
        }
        debug_assert!((a, b) == (across, along), "no block");
        if (a, b) != (across, along) {
            return;
        }
        let (Self(isa), side) = (self, PIECE / W);
        // SAFETY: rows of the block are loaded, and columns stored. No register is used that was not loaded.
        unsafe {
            let zero = isa.splat8(0);
            let mut at = 0;
            while at < I::BYTES {
                let (mut rows, mut zipped) = ([zero; PIECE], [zero; PIECE]);
                // Squares side by side: each piece of a register belongs to another square.
                for i in 0..side {
                    rows[i] = isa.load_pieces(from.offset(i as isize * row).add(at), side as isize * row);
                }
                // A transpose in log2(side) rounds. Each round zips row i with row i + side / 2, which rotates the bits of an
                // element's index, its row number and its lane number, by one. After as many rounds as the row number has bits,
                // row and lane have changed places.
                let mut lanes = side;
                while lanes > 1 {
                    for i in 0..side / 2 {
                        [zipped[2 * i], zipped[2 * i + 1]] = isa.zip_pieces::<W>(rows[i], rows[i + side / 2]);
                    }
                    rows = zipped;
                    lanes /= 2;
                }
                for i in 0..side {
                    isa.store(to.offset((at / W + i) as isize * column), rows[i]);
                }
                at += PIECE;
            }
        }
    }
}

#[inline(always)]
fn every<T: Copy, P: Inner<T>>(means: T, ordered: &Ordered) {
    match ordered.size {
        1 => elements::<T, P, 1>(means, ordered),
        _ if P::OF_BYTES => {}
        2 => elements::<T, P, 2>(means, ordered),
        4 => elements::<T, P, 4>(means, ordered),
        8 => elements::<T, P, 8>(means, ordered),
        16 => elements::<T, P, 16>(means, ordered),
        _ => {}
    }
}

/// Moves the elements of a grid, if they have `W` bytes.
#[inline(always)]
fn elements<T: Copy, P: Inner<T>, const W: usize>(means: T, ordered: &Ordered) {
    let Ordered { grid: [a, b, c, d], from, to, size, .. } = *ordered;
    if size != W {
        return;
    }
    for l in 0..d.extent as isize {
        for k in 0..c.extent as isize {
            // SAFETY: elements of the grid, which are of so many bytes.
            let places = unsafe {
                let (from, to) = (from.offset(l * d.from + k * c.from), to.offset(l * d.to + k * c.to));
                Places::<W>::new(a, b, from, to)
            };
            P::walk(means, places);
        }
    }
}

/// The loop over the first two dimensions, with one implementation for each [`Pattern`].
trait Inner<T> {
    /// Whether it moves bytes, whatever the width of the elements.
    const OF_BYTES: bool = false;

    fn walk<const W: usize>(means: T, places: Places<W>);
}

struct Runs;

impl<T: Means> Inner<T> for Runs {
    const OF_BYTES: bool = true;

    #[inline(always)]
    fn walk<const W: usize>(means: T, Places { a, b, from, to }: Places<W>) {
        let runs = Places::<1> { a, b, from, to };
        if a.extent < CALL || lie_alike(from, to, a.extent) {
            means.runs(runs);
        } else {
            runs.each_run(Run::plainly);
        }
    }
}

/// Element by element.
struct Singly;

impl<T> Inner<T> for Singly {
    #[inline(always)]
    fn walk<const W: usize>(_: T, places: Places<W>) {
        places.copy();
    }
}

#[cfg(isa = "vector")]
struct Spread;

#[cfg(isa = "vector")]
impl<T> Inner<T> for Spread {
    #[inline(always)]
    fn walk<const W: usize>(_: T, places: Places<W>) {
        let (Places { a, b, .. }, width) = (places, W as isize);
        for j in 0..b.extent {
            let row = places.row(j);
            // Elements of 16 bytes are moved without shuffles.
            match (a.from == width, a.to == width) {
                (false, _) if W == 16 => row.copy(),
                (false, true) if a.from == 2 * width => row.copy_steps(2 * width, width),
                (false, true) if a.from == 3 * width => row.copy_steps(3 * width, width),
                (false, true) if a.from == 4 * width => row.copy_steps(4 * width, width),
                (false, true) if a.from == -width => row.copy_steps(-width, width),
                (false, true) if a.from == 0 => row.copy_steps(0, width),
                // For wider elements the compiler makes worse code of this.
                (false, true) if W == 1 => row.copy_steps(a.from, width),
                (true, false) if a.to == 2 * width => row.copy_steps(width, 2 * width),
                _ => row.copy(),
            }
        }
    }
}

#[cfg(isa = "vector")]
struct Channels;

#[cfg(isa = "vector")]
impl<T> Inner<T> for Channels {
    #[inline(always)]
    fn walk<const W: usize>(_: T, places: Places<W>) {
        let Places { a, b, .. } = places;
        match (a.to == (b.extent * W) as isize, b.extent, a.extent) {
            (true, 2, _) => interleave::<W, 2>(places),
            (true, 3, _) => interleave::<W, 3>(places),
            (true, 4, _) => interleave::<W, 4>(places),
            (_, _, 2) => separate::<W, 2>(places),
            (_, _, 3) => separate::<W, 3>(places),
            _ => separate::<W, 4>(places),
        }
    }
}

#[cfg(isa = "vector")]
struct Blocks;

#[cfg(isa = "vector")]
impl<I: Simd> Inner<ByRegisters<I>> for Blocks {
    #[inline(always)]
    fn walk<const W: usize>(means: ByRegisters<I>, places: Places<W>) {
        let (Places { a, b, .. }, side) = (places, ByRegisters::<I>::side::<W>());
        let (whole_a, whole_b) = (a.extent / side * side, b.extent / side * side);
        let mut i = 0;
        while i < whole_a {
            let mut j = 0;
            while j < whole_b {
                means.block(places.part([i, j], [side; 2]));
                j += side;
            }
            i += side;
        }
        // What is left beside the whole blocks: the end of every row of the destination, and the last rows.
        for i in 0..a.extent {
            let done = if i < whole_a { whole_b } else { 0 };
            if done < b.extent {
                places.transposed().row(i).after(done).copy_steps(b.from, W as isize);
            }
        }
    }
}

/// Interleaves `K` rows.
#[cfg(isa = "vector")]
#[inline(always)]
fn interleave<const W: usize, const K: usize>(places: Places<W>) {
    let (width, all) = (W as isize, (K * W) as isize);
    let Places { a, b, .. } = places;
    places.transposed().copy_along(Move { extent: K, to: width, ..b }, Move { from: width, to: all, ..a });
}

/// Deinterleaves into `K` rows.
#[cfg(isa = "vector")]
#[inline(always)]
fn separate<const W: usize, const K: usize>(places: Places<W>) {
    let (width, all) = (W as isize, (K * W) as isize);
    let Places { a, b, .. } = places;
    places.copy_along(Move { extent: K, from: width, ..a }, Move { from: all, to: width, ..b });
}

/// The number of bytes from which on a run is left to memcpy. For fewer, the call takes longer than registers.
pub(super) const CALL: usize = 4 << 10;
/// The number of registers of a run from which on it pays to align the stores. For fewer, the branch takes longer.
#[cfg(isa = "vector")]
const LONG: usize = 6;

#[cfg(isa = "vector")]
struct Stream(Places<1>);

#[cfg(isa = "vector")]
impl<I: Simd> Task<I> for Stream {
    type Output = ();

    #[inline(always)]
    fn call(self, isa: I) {
        self.0.each_run(|run| run.streamed(isa));
    }
}

#[cfg(isa = "vector")]
struct Prefetch<'a>(&'a ByteRows, *const u8);

#[cfg(isa = "vector")]
impl<I: Simd> Task<I> for Prefetch<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self, isa: I) {
        let Self(rows, from) = self;
        for i in 0..rows.rows as isize {
            let mut at = 0;
            while at < rows.bytes {
                isa.prefetch_far(from.wrapping_offset(i * rows.from).wrapping_add(at));
                at += LINE;
            }
        }
    }
}
