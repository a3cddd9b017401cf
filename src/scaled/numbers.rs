//! What kernels need of scales, as float32: how many are decoded at a time, and the bounds within which the kernels are exact.

use alloc::vec::Vec;
use core::iter::repeat_n;

use super::error::Error;
use super::memory::collect;
use super::shape::Grid;
use crate::kernels::scaled::LEAST_GROUP;
use crate::kernels::sizes::KERNEL_BLOCK;

/// How many scales are decoded at a time: few enough that their numbers stay in L1.
pub(super) const SCALES: usize = 512;

/// How many tables are in use at a time: few enough to stay in L1.
pub(super) const TABLES: usize = 64;

/// From this many elements per scale on, a table of 128 products or quotients for each scale pays.
pub(super) const TABLED: usize = 1024;

/// One number for each scale. A kernel reads whole blocks, hence the room behind.
pub(super) type Numbers = [f32; SCALES + KERNEL_BLOCK];

pub(super) const NO_NUMBERS: Numbers = [0.0; SCALES + KERNEL_BLOCK];

/// A cache of what was computed for scales: direct-mapped by the index of the scale, with a number of places that is a power of two.
pub(super) struct Known<T> {
    places: Vec<(usize, T)>,
}

impl<T: Copy + Default> Known<T> {
    /// Returns a cache so large that, where each column has a scale, those of one row are still there for the next.
    pub(super) fn new(grid: &Grid) -> Result<Self, Error> {
        let most = if grid.block() < LEAST_GROUP { 1 << 15 } else { 1 << 10 };
        let n = grid.scales.next_power_of_two().min(most);
        Ok(Self { places: collect(repeat_n((usize::MAX, T::default()), n))? })
    }

    /// Returns what is cached for a scale, or computes it.
    pub(super) fn get(&mut self, scale: usize, find: impl FnOnce() -> T) -> T {
        let place = scale & (self.places.len() - 1);
        let (of, known) = &mut self.places[place];
        if *of != scale {
            (*of, *known) = (scale, find());
        }
        *known
    }
}

/// Returns `n` zeros, or nothing if they are not used.
pub(super) fn zeros<T: Clone>(zero: T, n: usize, is_used: bool) -> Result<Vec<T>, Error> {
    collect(repeat_n(zero, if is_used { n } else { 0 }))
}

/// Spreads numbers of `groups` groups, which have `block` elements each, to numbers of `n` elements, `times` times one after
/// the other, in `each`.
pub(super) fn expand<'a>(
    arrays: &mut [&'a [f32]],
    each: &'a mut [Numbers],
    groups: usize,
    n: usize,
    block: usize,
    times: usize,
) {
    for (array, each) in arrays.iter_mut().zip(each).filter(|(array, _)| !array.is_empty()) {
        for (number, each) in array[..groups].iter().zip(each[..n].chunks_mut(block)) {
            each.fill(*number);
        }
        for time in 1..times {
            each.copy_within(..n, time * n);
        }
        *array = &each[..];
    }
}

/// Returns the bits of a float32 without its sign.
pub(super) fn magnitude(x: f32) -> u32 {
    x.to_bits() & (u32::MAX >> 1)
}

/// The bits of 2^-60 and 2^60 as float32: the kernels are exact for scales from the one to below the other.
pub(super) const LEAST: u32 = (127 - 60) << 23;
pub(super) const MOST: u32 = (127 + 60) << 23;
