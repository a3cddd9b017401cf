//! Elements from one grid of places to another: what gathers a tile, scatters it, and transposes.
//!
//! How a grid is best walked is decided first, by [`Plan`]; what then runs with the features of an instruction set is
//! loops of constant strides, which the compiler makes shuffles of, and the transpose of a block by [`Isa`]'s zips.

#[cfg(isa = "vector")]
use core::marker::PhantomData;
use core::ptr;

use crate::isa::Isa as Which;

#[cfg(isa = "vector")]
use super::isa::Isa;

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

/// The moves of an instruction set.
pub(super) fn of(isa: Which) -> MoveElements {
    match isa {
        #[cfg(isa = "avx512")]
        Which::Avx512 => vector::<super::avx512::Avx512>,
        #[cfg(isa = "avx2")]
        Which::Avx2 => vector::<super::avx2::Avx2>,
        #[cfg(isa = "neon")]
        Which::Neon => vector::<super::neon::Neon>,
        _ => scalar,
    }
}

/// Bytes of a run that is copied as such: of a shorter one, the call takes longer than its elements.
const RUN: usize = 32;

/// A grid in the order in which it is walked: the first dimension innermost.
struct Plan {
    grid: Grid,
    /// The source is dense along the first dimension, and the destination along the second.
    transposes: bool,
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
            return Self { grid, transposes: true };
        }
        let longest = (0..grid.len()).max_by_key(|&i| grid[i].extent).unwrap_or(0);
        grid.swap(0, run.unwrap_or(longest));
        Self { grid, transposes: false }
    }
}

/// The transpose of a block of as many elements in a row as in a column.
trait Transpose {
    /// Elements of `W` bytes in a row of a block.
    fn side<const W: usize>() -> usize;

    /// The rows are so many bytes apart; elements of them lie behind each other.
    ///
    /// # Safety
    /// As for [`MoveElements`], where the features are enabled.
    unsafe fn block<const W: usize>(from: *const u8, row: isize, to: *mut u8, column: isize);
}

/// # Safety
/// As for [`MoveElements`].
unsafe fn scalar(grid: &Grid, size: usize, from: *const u8, to: *mut u8) {
    struct Plain;

    impl Transpose for Plain {
        #[inline(always)]
        fn side<const W: usize>() -> usize {
            8
        }

        #[inline(always)]
        unsafe fn block<const W: usize>(from: *const u8, row: isize, to: *mut u8, column: isize) {
            // SAFETY: the caller's promise.
            unsafe { block_of::<W, 8>(from, row, to, column) }
        }
    }

    // SAFETY: the caller's promise.
    unsafe { every::<Plain>(&Plan::new(grid, size), size, from, to) }
}

/// # Safety
/// As for [`MoveElements`].
#[cfg(isa = "vector")]
unsafe fn vector<I: Isa>(grid: &Grid, size: usize, from: *const u8, to: *mut u8) {
    /// Not a closure: see `vector::blocks`.
    struct Every<'a, I>(&'a Plan, usize, *const u8, *mut u8, PhantomData<I>);

    impl<I: Isa> pulp::NullaryFnOnce for Every<'_, I> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self(plan, size, from, to, _) = self;
            // SAFETY: the promise of the caller of `vector`; `Isa::run` enables the features.
            unsafe { every::<Zips<I>>(plan, size, from, to) }
        }
    }

    // Here, because a kernel calls nothing.
    let plan = Plan::new(grid, size);
    // SAFETY: the caller's promise.
    unsafe { I::run(Every::<I>(&plan, size, from, to, PhantomData)) }
}

/// A block whose rows are registers.
#[cfg(isa = "vector")]
struct Zips<I>(PhantomData<I>);

#[cfg(isa = "vector")]
impl<I: Isa> Transpose for Zips<I> {
    #[inline(always)]
    fn side<const W: usize>() -> usize {
        // There are no zips of 16 bytes, of which four are a line.
        if W == 16 { 4 } else { I::BYTES / W }
    }

    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "an iterator need not be inlined")]
    unsafe fn block<const W: usize>(from: *const u8, row: isize, to: *mut u8, column: isize) {
        /// Rows of bytes in the widest registers.
        const MOST: usize = 64;
        if W == 16 {
            // SAFETY: the caller's promise.
            return unsafe { block_of::<W, 4>(from, row, to, column) };
        }
        let side = I::BYTES / W;
        // SAFETY: the caller's promise. No register is used that was not loaded.
        unsafe {
            let zero = I::splat8(0);
            let (mut rows, mut zipped) = ([zero; MOST], [zero; MOST]);
            for i in 0..side {
                rows[i] = I::load(from.offset(i as isize * row));
            }
            // To zip a row with the one half of the rows further makes the first bit of the number of a row the last
            // one of a lane's, and the first one of the lane's the last one of the row's. After as many rounds as
            // these numbers have bits, each has become the other.
            let mut lanes = side;
            while lanes > 1 {
                for i in 0..side / 2 {
                    let (a, b) = (rows[i], rows[i + side / 2]);
                    [zipped[2 * i], zipped[2 * i + 1]] = match W {
                        1 => I::zip8(a, b),
                        2 => I::zip16(a, b),
                        4 => I::zip32(a, b),
                        _ => I::zip64(a, b),
                    };
                }
                rows = zipped;
                lanes /= 2;
            }
            for i in 0..side {
                I::store(to.offset(i as isize * column), rows[i]);
            }
        }
    }
}

/// A block of so many rows, element by element.
///
/// # Safety
/// As for [`Transpose::block`].
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
/// As for [`MoveElements`], where the features are enabled.
#[inline(always)]
unsafe fn every<T: Transpose>(plan: &Plan, size: usize, from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => elements::<T, 1>(plan, from, to),
            2 => elements::<T, 2>(plan, from, to),
            4 => elements::<T, 4>(plan, from, to),
            8 => elements::<T, 8>(plan, from, to),
            _ => elements::<T, 16>(plan, from, to),
        }
    }
}

/// # Safety
/// As for [`every`].
#[inline(always)]
unsafe fn elements<T: Transpose, const W: usize>(plan: &Plan, from: *const u8, to: *mut u8) {
    let [a, b, c, d] = plan.grid;
    for l in 0..d.extent as isize {
        for k in 0..c.extent as isize {
            // SAFETY: the caller's promise.
            unsafe {
                let (from, to) = (from.offset(l * d.from + k * c.from), to.offset(l * d.to + k * c.to));
                if plan.transposes {
                    plane::<T, W>(a, b, from, to);
                } else {
                    for j in 0..b.extent as isize {
                        line::<W>(a, from.offset(j * b.from), to.offset(j * b.to));
                    }
                }
            }
        }
    }
}

/// The source is dense along `a`, the destination along `b`.
///
/// # Safety
/// As for [`every`].
#[inline(always)]
unsafe fn plane<T: Transpose, const W: usize>(a: Move, b: Move, from: *const u8, to: *mut u8) {
    let width = W as isize;
    // SAFETY: the caller's promise: all places are among those of the plane.
    unsafe {
        // Planes to interleaved channels, and back.
        match (a.to == b.extent as isize * width, b.extent) {
            (true, 2) => return interleave::<W, 2>(a.extent, from, b.from, to),
            (true, 3) => return interleave::<W, 3>(a.extent, from, b.from, to),
            (true, 4) => return interleave::<W, 4>(a.extent, from, b.from, to),
            _ => {}
        }
        match (b.from == a.extent as isize * width, a.extent) {
            (true, 2) => return separate::<W, 2>(b.extent, from, to, a.to),
            (true, 3) => return separate::<W, 3>(b.extent, from, to, a.to),
            (true, 4) => return separate::<W, 4>(b.extent, from, to, a.to),
            _ => {}
        }
        let side = T::side::<W>();
        let (whole_a, whole_b) = (a.extent / side * side, b.extent / side * side);
        let mut i = 0;
        while i < whole_a {
            let mut j = 0;
            while j < whole_b {
                let (i_at, j_at) = (i as isize, j as isize);
                T::block::<W>(
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

/// `K` rows, so many bytes apart, to elements of each in turn.
///
/// # Safety
/// As for [`every`].
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
            (true, true) => run(from, to, n * W),
            (false, true) if from_step == 2 * width => steps::<W>(n, from, 2 * width, to, width),
            (false, true) if from_step == 3 * width => steps::<W>(n, from, 3 * width, to, width),
            (false, true) if from_step == 4 * width => steps::<W>(n, from, 4 * width, to, width),
            (false, true) if from_step == -width => steps::<W>(n, from, -width, to, width),
            (false, true) if from_step == 0 => steps::<W>(n, from, 0, to, width),
            (true, false) if to_step == 2 * width => steps::<W>(n, from, width, to, 2 * width),
            _ => steps::<W>(n, from, from_step, to, to_step),
        }
    }
}

/// Bytes from which on a run is left to memcpy: of fewer, the call takes longer.
const CALL: usize = 512;

/// # Safety
/// As for [`every`].
#[inline(always)]
unsafe fn run(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise. The last piece begins where a piece still fits.
    unsafe {
        if !(16..CALL).contains(&bytes) {
            return ptr::copy_nonoverlapping(from, to, bytes);
        }
        let mut at = 0;
        while at < bytes - 16 {
            copy::<16>(from.add(at), to.add(at));
            at += 16;
        }
        copy::<16>(from.add(bytes - 16), to.add(bytes - 16));
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
