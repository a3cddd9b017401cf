//! Elements from one grid of places to another: what gathers a tile, scatters it, and transposes.
//!
//! How a grid is best walked is decided first, by [`Plan`]; what then runs with the features of an instruction set is
//! loops of constant strides, which the compiler makes shuffles of, and the transpose of a block by [`Simd`]'s zips.

#[cfg(isa = "vector")]
use core::marker::PhantomData;
use core::ptr;

#[cfg(isa = "vector")]
use super::simd::{Simd, Task, fence};
#[cfg(isa = "vector")]
use super::sizes::LINE;

/// Elements along which both sides are as many bytes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim {
    pub(crate) extent: usize,
    pub(crate) src: isize,
    /// Positive.
    pub(crate) dst: isize,
}

impl Dim {
    pub(crate) const ONE: Self = Self { extent: 1, src: 0, dst: 1 };
}

/// Elements so many bytes apart on either side.
#[derive(Clone, Copy, Debug)]
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

/// Moves elements of `size` bytes: 1, 2, 4, 8 or 16.
///
/// # Safety
/// The elements are readable from `from` on and writable from `to` on, and no byte is both. The instruction set is
/// available.
pub(super) type MoveElements = unsafe fn(grid: &Grid, size: usize, from: *const u8, to: *mut u8);

/// Rows of so many bytes, so far apart on either side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) rows: usize,
    pub(super) bytes: usize,
    pub(super) from: isize,
    pub(super) to: isize,
}

/// What an instruction set moves.
#[derive(Clone, Copy)]
pub(super) struct Moves {
    /// Bytes of a register, elements of a block; of the reference, whatever is many.
    pub(super) register: usize,
    /// Bytes of a cast row from which on it goes past the caches if the whole view does.
    pub(super) row_streams_from: usize,
    pub(super) elements: MoveElements,
    /// Rows to memory: their whole lines go past the caches.
    ///
    /// # Safety
    /// The rows are readable from `from` on and writable from `to` on, and no byte is both. The instruction set is
    /// available.
    pub(super) stream: unsafe fn(rows: &Rows, from: *const u8, to: *mut u8),
    /// After the last of them: other threads see them before what is stored next.
    ///
    /// # Safety
    /// The instruction set is available.
    pub(super) fence: unsafe fn(),
    /// Has the lines of rows brought to the second cache. They need not be in memory.
    ///
    /// # Safety
    /// The instruction set is available.
    pub(super) prefetch: unsafe fn(rows: &Rows, from: *const u8),
}

impl Moves {
    /// Those of the reference.
    pub(super) const REFERENCE: Self = Self {
        register: 64,
        row_streams_from: usize::MAX,
        elements: scalar,
        stream: copy_rows,
        fence: no_fence,
        prefetch: no_prefetch,
    };

    /// Those of an instruction set.
    #[cfg(isa = "vector")]
    pub(super) const fn of<I: Simd>() -> Self {
        Self {
            register: I::BYTES,
            row_streams_from: I::ROW_STREAMS_FROM,
            elements: vector::<I>,
            stream: stream::<I>,
            fence: fence::<I>,
            prefetch: prefetch::<I>,
        }
    }
}

/// Bytes of a run that is copied as such: of a shorter one, the call takes longer than its elements.
const RUN: usize = 16;

/// A grid in the order in which it is walked: the first dimension innermost.
struct Plan {
    grid: Grid,
    kind: Kind,
}

/// What the first two dimensions of a grid are.
#[derive(Clone, Copy)]
enum Kind {
    /// Along the first one, elements lie behind each other on both sides. Here it is that of their bytes.
    Runs,
    /// Along the first one they do in the source, along the second one in the destination.
    Blocks,
    /// That, and one of the two is that of a few channels, behind which the others lie on its side.
    Channels,
    Lines,
}

impl Plan {
    fn new(grid: &Grid, size: usize) -> Self {
        let mut grid = *grid;
        // Dimensions that lie behind each other on both sides are one.
        let mut last = 0;
        for i in 1..grid.len() {
            let (inner, outer) = (grid[last], grid[i]);
            let span = inner.extent as isize;
            if outer.extent == 1 {
                continue;
            }
            if inner.extent == 1 {
                grid[last] = outer;
            } else if (inner.from * span, inner.to * span) == (outer.from, outer.to) {
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
            // Where the other one is now.
            grid.swap(1, if to == 0 { from } else { to });
            let [a, b, ..] = grid;
            let channels = |n: usize, across: isize| (2..=4).contains(&n) && across == n as isize * dense;
            let kind = if channels(b.extent, a.to) || channels(a.extent, b.from) {
                Kind::Channels
            } else {
                Kind::Blocks
            };
            return Self { grid, kind };
        }
        let longest = (0..grid.len()).max_by_key(|&i| grid[i].extent).unwrap_or(0);
        grid.swap(0, run.unwrap_or(longest));
        if (grid[0].from, grid[0].to) != (dense, dense) {
            return Self { grid, kind: Kind::Lines };
        }
        grid[0] = Move { extent: grid[0].extent * size, from: 1, to: 1 };
        Self { grid, kind: Kind::Runs }
    }
}

/// What a machine moves at once.
trait Means: Copy {
    /// Runs of a few bytes, so far apart on either side.
    ///
    /// # Safety
    /// As for [`MoveElements`].
    unsafe fn runs(self, bytes: usize, runs: Move, from: *const u8, to: *mut u8);

    /// Elements of `W` bytes in a row of a block.
    fn side<const W: usize>() -> usize;

    /// Transposes a block of as many elements in a row as in a column. The rows are so many bytes apart; elements of
    /// them lie behind each other.
    ///
    /// # Safety
    /// As for [`MoveElements`].
    unsafe fn block<const W: usize>(self, from: *const u8, row: isize, to: *mut u8, column: isize);
}

/// # Safety
/// As for [`MoveElements`].
unsafe fn scalar(grid: &Grid, size: usize, from: *const u8, to: *mut u8) {
    #[derive(Clone, Copy)]
    struct Plain;

    impl Means for Plain {
        #[inline(always)]
        unsafe fn runs(self, bytes: usize, runs: Move, from: *const u8, to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { copies(bytes, runs, from, to) }
        }

        #[inline(always)]
        fn side<const W: usize>() -> usize {
            1
        }

        #[inline(always)]
        unsafe fn block<const W: usize>(self, from: *const u8, row: isize, to: *mut u8, column: isize) {
            // SAFETY: the caller's promise.
            unsafe { block_of::<W, 1>(from, row, to, column) }
        }
    }

    let plan = &Plan::new(grid, size);
    // SAFETY: the caller's promise.
    unsafe {
        match plan.kind {
            Kind::Runs => every::<_, Runs>(Plain, plan, size, from, to),
            // The reference is small rather than fast.
            Kind::Blocks | Kind::Channels => every::<_, Blocks>(Plain, plan, size, from, to),
            Kind::Lines => every::<_, Lines>(Plain, plan, size, from, to),
        }
    }
}

/// # Safety
/// As for [`MoveElements`].
#[cfg(isa = "vector")]
unsafe fn vector<I: Simd>(grid: &Grid, size: usize, from: *const u8, to: *mut u8) {
    // Here, because a kernel calls nothing.
    let plan = &Plan::new(grid, size);
    // Functions of their own: together, what the loops of the others prepare takes longer than a tile.
    // SAFETY: the caller's promise.
    unsafe {
        match plan.kind {
            Kind::Runs => with::<I, Runs>(plan, size, from, to),
            Kind::Blocks => with::<I, Blocks>(plan, size, from, to),
            Kind::Channels => with::<I, Channels>(plan, size, from, to),
            Kind::Lines => with::<I, Lines>(plan, size, from, to),
        }
    }
}

/// # Safety
/// As for [`MoveElements`], and the plan is of the kind `P`.
#[cfg(isa = "vector")]
unsafe fn with<I: Simd, P: Plane>(plan: &Plan, size: usize, from: *const u8, to: *mut u8) {
    struct Every<'a, P>(&'a Plan, usize, *const u8, *mut u8, PhantomData<P>);

    impl<I: Simd, P: Plane> Task<I> for Every<'_, P> {
        type Output = ();

        #[inline(always)]
        fn call(self, isa: I) {
            let Self(plan, size, from, to, _) = self;
            // SAFETY: the elements are those of `with`.
            unsafe { every::<_, P>(Registers(isa), plan, size, from, to) }
        }
    }

    // SAFETY: the instruction set is available: that is promised to every `MoveElements`.
    let isa = unsafe { I::assume() };
    isa.run(Every::<P>(plan, size, from, to, PhantomData));
}

/// Registers, which are rows of blocks, too.
#[cfg(isa = "vector")]
#[derive(Clone, Copy)]
struct Registers<I>(I);

#[cfg(isa = "vector")]
impl<I: Simd> Means for Registers<I> {
    #[inline(always)]
    unsafe fn runs(self, bytes: usize, runs: Move, mut from: *const u8, mut to: *mut u8) {
        /// Copies that are all as long as this, which is a constant.
        #[inline(always)]
        unsafe fn of<I: Simd, const BYTES: usize>(isa: I, runs: Move, mut from: *const u8, mut to: *mut u8) {
            for _ in 0..runs.extent {
                // SAFETY: the caller's promise.
                unsafe { isa.copy(from, to, BYTES) };
                (from, to) = (from.wrapping_offset(runs.from), to.wrapping_offset(runs.to));
            }
        }
        let Self(isa) = self;
        // SAFETY: the caller's promise.
        unsafe {
            match bytes {
                16 => return of::<I, 16>(isa, runs, from, to),
                32 => return of::<I, 32>(isa, runs, from, to),
                64 => return of::<I, 64>(isa, runs, from, to),
                128 => return of::<I, 128>(isa, runs, from, to),
                _ => {}
            }
        }
        if bytes < LONG * I::BYTES {
            for _ in 0..runs.extent {
                // SAFETY: the caller's promise. Behind the last run nothing is touched.
                unsafe { isa.copy(from, to, bytes) };
                (from, to) = (from.wrapping_offset(runs.from), to.wrapping_offset(runs.to));
            }
            return;
        }
        for _ in 0..runs.extent {
            // SAFETY: as above.
            unsafe { aligned(isa, from, to, bytes) };
            (from, to) = (from.wrapping_offset(runs.from), to.wrapping_offset(runs.to));
        }
    }

    #[inline(always)]
    fn side<const W: usize>() -> usize {
        // There are no zips of 16 bytes, of which four are a line.
        if W == 16 { 4 } else { I::BYTES / W }
    }

    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "an iterator need not be inlined")]
    unsafe fn block<const W: usize>(self, from: *const u8, row: isize, to: *mut u8, column: isize) {
        /// Bytes of a piece: a piece of every row of a block is a square with as many rows of its own.
        const PIECE: usize = 16;
        if W == PIECE {
            // SAFETY: the caller's promise.
            return unsafe { block_of::<W, 4>(from, row, to, column) };
        }
        let (Self(isa), side) = (self, PIECE / W);
        // SAFETY: the caller's promise. No register is used that was not loaded.
        unsafe {
            let zero = isa.splat8(0);
            let mut at = 0;
            while at < I::BYTES {
                let (mut rows, mut zipped) = ([zero; PIECE], [zero; PIECE]);
                // Squares that lie behind each other: each piece of a register is of another one.
                for i in 0..side {
                    rows[i] = isa.load_pieces(from.offset(i as isize * row).add(at), side as isize * row);
                }
                // A transpose in log2(side) rounds. Each zips row i with row i + side / 2, which rotates the bits of the
                // index of an element, its row number and its lane number, by one. After as many rounds as the row number
                // has bits, row and lane have changed places.
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

/// A block of so many rows, element by element.
///
/// # Safety
/// As for [`Means::block`].
#[inline(always)]
unsafe fn block_of<const W: usize, const SIDE: usize>(
    from: *const u8,
    row: isize,
    to: *mut u8,
    column: isize,
) {
    for i in 0..SIDE {
        for j in 0..SIDE {
            // SAFETY: the caller's promise.
            unsafe {
                let place = to.offset(j as isize * column).add(i * W);
                copy::<W>(from.offset(i as isize * row).add(j * W), place);
            }
        }
    }
}

/// # Safety
/// As for [`MoveElements`], and the plan is of the kind `P`.
#[inline(always)]
unsafe fn every<T: Means, P: Plane>(means: T, plan: &Plan, size: usize, from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            _ if P::OF_BYTES => elements::<T, P, 1>(means, plan, from, to),
            1 => elements::<T, P, 1>(means, plan, from, to),
            2 => elements::<T, P, 2>(means, plan, from, to),
            4 => elements::<T, P, 4>(means, plan, from, to),
            8 => elements::<T, P, 8>(means, plan, from, to),
            _ => elements::<T, P, 16>(means, plan, from, to),
        }
    }
}

/// # Safety
/// As for [`every`].
#[inline(always)]
unsafe fn elements<T: Means, P: Plane, const W: usize>(means: T, plan: &Plan, from: *const u8, to: *mut u8) {
    let [a, b, c, d] = plan.grid;
    for l in 0..d.extent as isize {
        for k in 0..c.extent as isize {
            // SAFETY: the caller's promise.
            unsafe {
                let (from, to) = (from.offset(l * d.from + k * c.from), to.offset(l * d.to + k * c.to));
                P::plane::<T, W>(means, a, b, from, to);
            }
        }
    }
}

/// How the first two dimensions are walked: one for each [`Kind`].
trait Plane {
    /// Bytes are moved, whatever they are elements of.
    const OF_BYTES: bool = false;

    /// # Safety
    /// As for [`every`].
    unsafe fn plane<T: Means, const W: usize>(means: T, a: Move, b: Move, from: *const u8, to: *mut u8);
}

struct Runs;

impl Plane for Runs {
    const OF_BYTES: bool = true;

    #[inline(always)]
    unsafe fn plane<T: Means, const W: usize>(means: T, a: Move, b: Move, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { runs(means, a.extent, b, from, to) }
    }
}

struct Lines;

impl Plane for Lines {
    #[inline(always)]
    unsafe fn plane<T: Means, const W: usize>(_: T, a: Move, b: Move, from: *const u8, to: *mut u8) {
        for j in 0..b.extent as isize {
            // SAFETY: the caller's promise.
            unsafe { line::<W>(a, from.offset(j * b.from), to.offset(j * b.to)) };
        }
    }
}

#[cfg(isa = "vector")]
struct Channels;

#[cfg(isa = "vector")]
impl Plane for Channels {
    #[inline(always)]
    unsafe fn plane<T: Means, const W: usize>(_: T, a: Move, b: Move, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match (a.to == (b.extent * W) as isize, b.extent, a.extent) {
                (true, 2, _) => interleave::<W, 2>(a.extent, from, b.from, to),
                (true, 3, _) => interleave::<W, 3>(a.extent, from, b.from, to),
                (true, 4, _) => interleave::<W, 4>(a.extent, from, b.from, to),
                (_, _, 2) => separate::<W, 2>(b.extent, from, to, a.to),
                (_, _, 3) => separate::<W, 3>(b.extent, from, to, a.to),
                _ => separate::<W, 4>(b.extent, from, to, a.to),
            }
        }
    }
}

struct Blocks;

impl Plane for Blocks {
    #[inline(always)]
    unsafe fn plane<T: Means, const W: usize>(means: T, a: Move, b: Move, from: *const u8, to: *mut u8) {
        let width = W as isize;
        // SAFETY: the caller's promise: all places are among those of the plane.
        unsafe {
            let side = T::side::<W>();
            let (whole_a, whole_b) = (a.extent / side * side, b.extent / side * side);
            let mut i = 0;
            while i < whole_a {
                let mut j = 0;
                while j < whole_b {
                    let (i_at, j_at) = (i as isize, j as isize);
                    means.block::<W>(
                        from.offset(i_at * width + j_at * b.from),
                        b.from,
                        to.offset(i_at * a.to + j_at * width),
                        a.to,
                    );
                    j += side;
                }
                i += side;
            }
            // What is no block: the rest of every row of the destination, and the rows that are left.
            for i in 0..a.extent as isize {
                let done = if i < whole_a as isize { whole_b } else { 0 };
                if done == b.extent {
                    continue;
                }
                let at = done as isize;
                let (from, to) = (from.offset(i * width + at * b.from), to.offset(i * a.to + at * width));
                steps::<W>(b.extent - done, from, b.from, to, width);
            }
        }
    }
}

/// `K` rows, so many bytes apart, to elements of each in turn.
///
/// # Safety
/// As for [`every`].
#[cfg(isa = "vector")]
#[inline(always)]
unsafe fn interleave<const W: usize, const K: usize>(n: usize, from: *const u8, row: isize, to: *mut u8) {
    for i in 0..n {
        for k in 0..K {
            // SAFETY: the caller's promise.
            unsafe { copy::<W>(from.offset(k as isize * row).add(i * W), to.add((i * K + k) * W)) };
        }
    }
}

/// The inverse.
///
/// # Safety
/// As for [`every`].
#[cfg(isa = "vector")]
#[inline(always)]
unsafe fn separate<const W: usize, const K: usize>(n: usize, from: *const u8, to: *mut u8, row: isize) {
    for i in 0..n {
        for k in 0..K {
            // SAFETY: the caller's promise.
            unsafe { copy::<W>(from.add((i * K + k) * W), to.offset(k as isize * row).add(i * W)) };
        }
    }
}

/// # Safety
/// As for [`every`].
#[inline(always)]
unsafe fn line<const W: usize>(
    Move { extent: n, from: from_step, to: to_step }: Move,
    from: *const u8,
    to: *mut u8,
) {
    let width = W as isize;
    // SAFETY: the caller's promise: all places are among those of the line.
    unsafe {
        // There are no shuffles of 16 bytes to be made.
        match (from_step == width, to_step == width) {
            (false, _) if W == 16 => steps::<W>(n, from, from_step, to, to_step),
            (false, true) if from_step == 2 * width => steps::<W>(n, from, 2 * width, to, width),
            (false, true) if from_step == 3 * width => steps::<W>(n, from, 3 * width, to, width),
            (false, true) if from_step == 4 * width => steps::<W>(n, from, 4 * width, to, width),
            (false, true) if from_step == -width => steps::<W>(n, from, -width, to, width),
            (false, true) if from_step == 0 => steps::<W>(n, from, 0, to, width),
            // Of wider ones the compiler makes worse code then.
            (false, true) if W == 1 => steps::<W>(n, from, from_step, to, width),
            (true, false) if to_step == 2 * width => steps::<W>(n, from, width, to, 2 * width),
            _ => steps::<W>(n, from, from_step, to, to_step),
        }
    }
}

/// Bytes from which on a run is left to memcpy: of fewer, the call takes longer.
pub(super) const CALL: usize = 4 << 10;
/// Registers of a run from which on it pays to align them: of fewer, the branch takes longer.
#[cfg(isa = "vector")]
const LONG: usize = 6;

/// Do the bytes to be copied lie in their pages as those that they become do, but for a few bytes more? There memcpy may
/// take ten times as long: that of glibc 2.36 leaves so many bytes to one instruction, which is slow there on a Zen 3.
#[inline(always)]
pub(super) fn lie_alike(from: *const u8, to: *mut u8, bytes: usize) -> bool {
    (2 << 10..1 << 20).contains(&bytes) && (1..64).contains(&(to.addr().wrapping_sub(from.addr()) % 4096))
}

/// Copies bytes from where a register of the destination begins, and before that one that is not: what lies across two
/// lines is written twice. Some bytes are copied twice.
///
/// # Safety
/// As for [`Memory::copy`](super::simd::Memory::copy); there is a register at least.
#[cfg(isa = "vector")]
#[inline(always)]
unsafe fn aligned<I: Simd>(isa: I, from: *const u8, to: *mut u8, bytes: usize) {
    let ahead = to.addr().wrapping_neg() % I::BYTES;
    // SAFETY: the caller's promise.
    unsafe {
        isa.store(to, isa.load(from));
        isa.copy(from.add(ahead), to.add(ahead), bytes - ahead);
    }
}

/// Copies many bytes.
///
/// # Safety
/// They are readable and writable, and none of them is among both. The instruction set is available, and there is a
/// register at least.
#[cfg(isa = "vector")]
pub(super) unsafe fn copy_long<I: Simd>(from: *const u8, to: *mut u8, bytes: usize) {
    struct Copy(*const u8, *mut u8, usize);

    impl<I: Simd> Task<I> for Copy {
        type Output = ();

        #[inline(always)]
        fn call(self, isa: I) {
            // SAFETY: the bytes are those of `copy_long`.
            unsafe { aligned(isa, self.0, self.1, self.2) }
        }
    }

    // SAFETY: the instruction set is available.
    let isa = unsafe { I::assume() };
    isa.run(Copy(from, to, bytes));
}

/// # Safety
/// As for [`every`].
#[inline(always)]
unsafe fn runs<T: Means>(means: T, bytes: usize, runs: Move, from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        if bytes < CALL || lie_alike(from, to, bytes) {
            means.runs(bytes, runs, from, to)
        } else {
            copies(bytes, runs, from, to)
        }
    }
}

/// # Safety
/// As for [`every`].
#[inline(always)]
unsafe fn copies(bytes: usize, runs: Move, from: *const u8, to: *mut u8) {
    for i in 0..runs.extent as isize {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(from.offset(i * runs.from), to.offset(i * runs.to), bytes) };
    }
}

/// Inlined where the steps are constants, which makes shuffles of the loads.
///
/// # Safety
/// As for [`every`].
#[inline(always)]
unsafe fn steps<const W: usize>(n: usize, from: *const u8, from_step: isize, to: *mut u8, to_step: isize) {
    for i in 0..n as isize {
        // SAFETY: the caller's promise.
        unsafe { copy::<W>(from.offset(i * from_step), to.offset(i * to_step)) };
    }
}

/// An element.
///
/// # Safety
/// As for [`every`].
#[inline(always)]
unsafe fn copy<const W: usize>(from: *const u8, to: *mut u8) {
    // As an integer, so that the compiler sees a lane. SAFETY: the caller's promise.
    unsafe {
        match W {
            1 => to.write(from.read()),
            2 => to.cast::<u16>().write_unaligned(from.cast::<u16>().read_unaligned()),
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            _ => to.cast::<u128>().write_unaligned(from.cast::<u128>().read_unaligned()),
        }
    }
}

/// [`Moves::stream`] of what has no streams.
///
/// # Safety
/// As there.
unsafe fn copy_rows(rows: &Rows, from: *const u8, to: *mut u8) {
    for i in 0..rows.rows as isize {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(from.offset(i * rows.from), to.offset(i * rows.to), rows.bytes) };
    }
}

/// [`Moves::fence`] of that.
///
/// # Safety
/// None.
unsafe fn no_fence() {}

/// [`Moves::prefetch`] of what cannot.
///
/// # Safety
/// None.
unsafe fn no_prefetch(_: &Rows, _: *const u8) {}

/// # Safety
/// As for [`Moves::stream`].
#[cfg(isa = "vector")]
unsafe fn stream<I: Simd>(rows: &Rows, from: *const u8, to: *mut u8) {
    struct Stream<'a>(&'a Rows, *const u8, *mut u8);

    impl<I: Simd> Task<I> for Stream<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self, isa: I) {
            let Self(&Rows { rows, bytes, from: from_row, to: to_row }, from, to) = self;
            for i in 0..rows as isize {
                // SAFETY: the rows are those of `stream`. Only whole lines are streamed, which are aligned.
                unsafe {
                    let (from, to) = (from.offset(i * from_row), to.offset(i * to_row));
                    let ahead = (to.addr().wrapping_neg() % LINE).min(bytes);
                    let end = ahead + (bytes - ahead) / LINE * LINE;
                    isa.copy(from, to, ahead);
                    let mut at = ahead;
                    while at < end {
                        isa.stream(to.add(at), isa.load(from.add(at)));
                        at += I::BYTES;
                    }
                    isa.copy(from.add(end), to.add(end), bytes - end);
                }
            }
        }
    }

    // SAFETY: the instruction set is available.
    let isa = unsafe { I::assume() };
    isa.run(Stream(rows, from, to));
}

/// # Safety
/// As for [`Moves::prefetch`].
#[cfg(isa = "vector")]
unsafe fn prefetch<I: Simd>(rows: &Rows, from: *const u8) {
    struct Prefetch<'a>(&'a Rows, *const u8);

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

    // SAFETY: the instruction set is available.
    let isa = unsafe { I::assume() };
    isa.run(Prefetch(rows, from));
}
