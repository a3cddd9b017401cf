//! What elements are multiplied with or divided by: what the kernels of scaled casts are told. `scaled.rs` chooses it, `codec/scaled.rs` reads it.

use core::ptr;

use super::codec::job::Job;
use super::layout::Apart;

/// The fewest elements of a group.
pub(crate) const LEAST_GROUP: usize = 16;

/// What elements are multiplied with or divided by. Arrays have one number for each group of elements, or for each element.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(any(isa = "neon", isa = "simd128"), allow(dead_code, reason = "these look nothing up"))]
pub(super) struct Scale {
    /// The scale, without the factor of the tensor.
    pub(super) scales: *const f32,
    /// To divide: what to multiply with in place of both, about.
    pub(super) inverses: *const f32,
    /// What is added: to dequantise, the negative zero points, before; to quantise, zero points, after. Null if there are none.
    pub(super) zeros: *const f32,
    /// That of the tensor. To multiply it is a factor once more, in all rows.
    pub(super) tensor: Factor,
    /// To look up: the table of a group, or the only one.
    pub(super) tables: *const Table128,
    /// The bits of an index above those of a code, of each 16 elements.
    pub(super) picks: *const u8,
    /// What a group adds to the words of its elements, twice.
    pub(super) deltas: *const u32,
    /// To look up by 16 words: those of a group.
    pub(super) sixteens: *const Table16,
    /// A group has 2^this elements, [`LEAST_GROUP`] at least; or [`Scale::EACH`], or [`Scale::ALL`].
    pub(super) shift: u32,
    /// To multiply: by the scale and nothing else, to nearest.
    pub(super) is_alone: bool,
    /// The number of the first element of a block.
    pub(super) at: usize,
    pub(super) how: How,
    pub(super) others: Others,
    /// Rows that have the same scales.
    pub(super) apart: Apart,
    /// Bytes from an element that is read to one that will be, and that memory is asked for meanwhile. 0 if none is.
    pub(super) next: isize,
}

/// What all scales of a tensor are multiplied with, or divided by: a positive number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Factor {
    pub(crate) by: f32,
    pub(crate) divides: bool,
}

impl Factor {
    pub(crate) const NONE: Self = Self::times(1.0);

    pub(crate) const fn times(by: f32) -> Self {
        Self { by, divides: false }
    }

    pub(crate) const fn over(by: f32) -> Self {
        Self { by, divides: true }
    }

    /// A scale with it, rounded.
    #[inline(always)]
    pub(super) fn of(self, scale: f32) -> f32 {
        if self.divides { scale / self.by } else { scale * self.by }
    }
}

/// 128 words: their low bytes, and their high ones.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Table128(pub(super) [[u8; 128]; 2]);

impl Table128 {
    pub(crate) const ZEROS: Self = Self([[0; 128]; 2]);
}

/// 16 words: their low bytes, and their high ones.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Table16(pub(super) [[u8; 16]; 2]);

impl Table16 {
    pub(crate) const ZEROS: Self = Self([[0; 16]; 2]);
}

/// How elements are looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// By the table of their scale.
    Scale,
    /// By one table, of bfloat16 to whose exponents that of the scale is added.
    Exponent,
    /// By one in which, besides, the mantissa of their scale picks a part.
    Mantissa,
    /// By the 16 words of their scale: those of all codes of 4 bits, or of the first ones of 8, to which exponents are added.
    Sixteen,
}

/// How elements are multiplied with a scale, or divided by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// The product is rounded to f32, to nearest even. To divide, that with the inverse, a power of two, which is exact.
    Near,
    /// To odd, so that the encoder's rounding is the only one.
    Odd,
    /// To divide: the quotient is rounded to f32, to nearest even.
    Over,
}

/// The steps that others take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Others {
    /// A quotient is rounded to the dtype of the data.
    pub(crate) keeps: bool,
    /// The zero point is added before a quotient is rounded to an integer, and the sum is rounded as it is.
    pub(crate) adds_first: bool,
    /// -0 is read as 0.
    pub(crate) loses_sign: bool,
}

impl Others {
    pub(crate) const NONE: Self = Self { keeps: false, adds_first: false, loses_sign: false };
}

impl Scale {
    /// An array has a number for each element.
    pub(super) const EACH: u32 = u32::MAX;
    /// It has one for all.
    pub(super) const ALL: u32 = usize::BITS - 1;
    pub(super) const NONE: Self = Self {
        scales: ptr::null(),
        inverses: ptr::null(),
        zeros: ptr::null(),
        tensor: Factor::NONE,
        tables: ptr::null(),
        picks: ptr::null(),
        deltas: ptr::null(),
        sixteens: ptr::null(),
        shift: Self::EACH,
        is_alone: false,
        at: 0,
        how: How::Near,
        others: Others::NONE,
        apart: Apart::ONE,
        next: 0,
    };
}

/// Casts rows of `n` elements. A group of a partial block has a number in the arrays as if the block were whole.
///
/// # Safety
/// As for [`RunRows`]. The arrays have a number for every element of all blocks.
pub(super) type RunScaled =
    unsafe fn(job: &Job, src: *const u8, dst: *mut u8, n: usize, scale: &Scale) -> bool;
