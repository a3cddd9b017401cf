//! Packed elements of 4 bits under scales of 8 bits. Both have so few codes that what elements become is kept in tables, one
//! for each code of a scale.

use alloc::boxed::Box;
use core::ops::Range;

use super::shape::Grid;
use crate::kernels::scaled::scales::WRONG;
use crate::kernels::scaled::{LEAST_GROUP, Per, Place, ScaleArrays, Table16};
use crate::kernels::sizes::KERNEL_BLOCK;

/// How many codes a scale has.
pub(super) const ALL: usize = 256;
/// How many scales are looked up at a time.
pub(super) const TOGETHER: usize = 4096;
/// The most elements that may share a scale.
const MOST_GROUP: usize = 64;

/// Every code of a scale.
pub(super) static EVERY: [u8; ALL] = {
    let mut all = [0; ALL];
    let mut code = 0;
    while code < ALL {
        all[code] = code as u8;
        code += 1;
    }
    all
};

/// Whether elements in such blocks can be looked up.
pub(super) fn is_for(grid: &Grid) -> bool {
    grid.block().is_power_of_two() && (LEAST_GROUP..=MOST_GROUP).contains(&grid.block())
}

/// Returns how many places `n` scales take, with those behind them that kernels read.
pub(super) fn places(grid: &Grid, n: usize) -> usize {
    n * repeats(grid) + KERNEL_BLOCK / LEAST_GROUP
}

/// Returns how many times [`LEAST_GROUP`] elements a block has.
fn repeats(grid: &Grid) -> usize {
    grid.block() / LEAST_GROUP
}

/// A table for each code of a scale.
pub(super) struct Coded {
    tables: Box<[Table16; ALL]>,
    /// The first code that the tables are right for, and how many follow.
    first: u8,
    most: u8,
}

impl Coded {
    /// Returns tables that are right for a range of codes, or None if that is empty.
    pub(super) fn new(tables: Box<[Table16; ALL]>, right: Range<usize>) -> Option<Self> {
        let most = right.len().checked_sub(1)?;
        Some(Self { tables, first: right.start as u8, most: most as u8 })
    }

    /// Returns the first run of codes that are not flagged [`WRONG`].
    pub(super) fn right(flags: &[u8; ALL]) -> Range<usize> {
        let is_right = |flags: &u8| flags & WRONG == 0;
        let first = flags.iter().position(is_right).unwrap_or(ALL);
        first..first + flags[first..].iter().take_while(|flags| is_right(flags)).count()
    }

    /// Finds the places of the tables of some scales, one for each 16 elements, and flags scales for which the tables are
    /// [`WRONG`]. Returns the union of the flags.
    #[inline(never)]
    pub(super) fn find(&self, grid: &Grid, codes: &[u8], places: &mut [Place], flags: &mut [u8]) -> u8 {
        let mut all = 0;
        for (code, flags) in codes.iter().zip(flags) {
            *flags = if code.wrapping_sub(self.first) <= self.most { 0 } else { WRONG };
            all |= *flags;
        }
        // Loops that the compiler vectorises, for the blocks that most formats have.
        match repeats(grid) {
            1 => codes.iter().zip(places).for_each(|(&code, place)| *place = Place::of(code)),
            2 => {
                let pairs = places.as_chunks_mut().0;
                codes.iter().zip(pairs).for_each(|(&code, pair)| *pair = [Place::of(code); 2]);
            }
            n => codes.iter().zip(places.chunks_mut(n)).for_each(|(&code, all)| all.fill(Place::of(code))),
        }
        all
    }

    /// Returns what the kernel needs of the scales from index `known` on, whose places were found.
    pub(super) fn arrays<'a>(&'a self, grid: &Grid, places: &'a [Place], known: usize) -> ScaleArrays<'a> {
        let places = &places[known * repeats(grid)..];
        ScaleArrays { per: Per::Group(LEAST_GROUP), sixteens: &self.tables[..], places, ..ScaleArrays::NONE }
    }
}
