//! What kernels need of scales, as float32: how many at a time, and the bounds within which the kernels are exact.

use alloc::vec::Vec;
use core::iter::repeat_n;

use super::error::Error;
use super::memory::collect;
use super::shape::Grid;
use crate::kernels::scaled::{BLOCK, LEAST_GROUP};

/// Scales that are decoded at a time: few enough that their numbers stay in L1.
pub(super) const SCALES: usize = 512;

/// Tables in use at a time: they stay in L1.
pub(super) const TABLES: usize = 64;

/// If a scale has at least so many elements, a table of 128 products or quotients for it pays.
pub(super) const TABLED: usize = 1024;

/// One number for each scale. A kernel reads whole blocks, hence the room behind.
pub(super) type Numbers = [f32; SCALES + BLOCK];

pub(super) const NO_NUMBERS: Numbers = [0.0; SCALES + BLOCK];

/// A cache of what was computed for scales: direct-mapped by the index of the scale, with a power of two of places.
pub(super) struct Known<T> {
    places: Vec<(usize, T)>,
}

impl<T: Copy + Default> Known<T> {
    /// Large enough that where each column has a scale, those of one row are still there for the next.
    pub(super) fn new(grid: &Grid) -> Result<Self, Error> {
        let most = if grid.block() < LEAST_GROUP { 1 << 15 } else { 1 << 10 };
        let n = grid.scales.next_power_of_two().min(most);
        Ok(Self { places: collect(repeat_n((usize::MAX, T::default()), n))? })
    }

    /// What is cached for a scale, or is computed now.
    pub(super) fn get(&mut self, scale: usize, find: impl FnOnce() -> T) -> T {
        let place = scale & (self.places.len() - 1);
        let (of, known) = &mut self.places[place];
        if *of != scale {
            (*of, *known) = (scale, find());
        }
        *known
    }
}

/// `n` zeros, or nothing if they are not used.
pub(super) fn zeros<T: Clone>(zero: T, n: usize, is_used: bool) -> Result<Vec<T>, Error> {
    collect(repeat_n(zero, if is_used { n } else { 0 }))
}

/// From numbers for each of `groups` groups to numbers for each of `n` elements, `times` times, in `each`; a group has `block` elements.
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

/// The bits of a float32 without its sign.
pub(super) fn magnitude(x: f32) -> u32 {
    x.to_bits() & (u32::MAX >> 1)
}

/// The kernels are exact for scales from 2^-60 to below 2^60: the bits of both, as float32.
pub(super) const LEAST: u32 = (127 - 60) << 23;
pub(super) const MOST: u32 = (127 + 60) << 23;
