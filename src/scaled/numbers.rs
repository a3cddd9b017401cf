//! The numbers of scales: how many are known at a time, and between which bounds a kernel is right for them.

use alloc::vec::Vec;
use core::iter::repeat_n;

use super::error::Error;
use super::memory::collect;
use super::shape::Grid;
use crate::kernels::scaled::{BLOCK, LEAST_GROUP};

/// Scales at a time: their numbers stay in L1.
pub(super) const SCALES: usize = 512;

/// Numbers of scales.
pub(super) type Numbers = [f32; SCALES + BLOCK];

pub(super) const NO_NUMBERS: Numbers = [0.0; SCALES + BLOCK];

/// What is known of scales, each at its number modulo how many there are places for: a power of two.
pub(super) struct Known<T> {
    places: Vec<(usize, T)>,
}

impl<T: Copy + Default> Known<T> {
    /// Where rows have scales of columns, those of a row are known for the next one.
    pub(super) fn new(grid: &Grid) -> Result<Self, Error> {
        let most = if grid.block() < LEAST_GROUP { 1 << 15 } else { 1 << 10 };
        let n = grid.scales.next_power_of_two().min(most);
        Ok(Self { places: collect(repeat_n((usize::MAX, T::default()), n))? })
    }

    /// What is known of a scale, or is found now.
    pub(super) fn get(&mut self, scale: usize, find: impl FnOnce() -> T) -> T {
        let place = scale & (self.places.len() - 1);
        let (of, known) = &mut self.places[place];
        if *of != scale {
            (*of, *known) = (scale, find());
        }
        *known
    }
}

/// So many zeros, if they are used.
pub(super) fn zeros<T: Clone>(zero: T, n: usize, is_used: bool) -> Result<Vec<T>, Error> {
    collect(repeat_n(zero, if is_used { n } else { 0 }))
}

/// Numbers of groups of `block` elements as such of `n` elements.
pub(super) fn expand<'a>(
    arrays: &mut [&'a [f32]],
    each: &'a mut [Numbers],
    groups: usize,
    n: usize,
    block: usize,
) {
    for (array, each) in arrays.iter_mut().zip(each).filter(|(array, _)| !array.is_empty()) {
        for (number, each) in array[..groups].iter().zip(each[..n].chunks_mut(block)) {
            each.fill(*number);
        }
        *array = &each[..];
    }
}

/// The bits of a float32 without its sign.
pub(super) fn magnitude(x: f32) -> u32 {
    x.to_bits() & (u32::MAX >> 1)
}

/// The bits of powers of two that bound the scales for which a kernel is right.
pub(super) const LEAST: u32 = (127 - 60) << 23;
pub(super) const MOST: u32 = (127 + 60) << 23;
