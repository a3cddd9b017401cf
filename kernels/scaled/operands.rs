//! The parameters of the kernels of scaled casts: what elements are multiplied with or divided by. `scaled/mod.rs` fills them in,
//! and `codec/scaled/` reads them.

use core::ptr;

use super::super::codec::job::Job;
use super::super::layout::Apart;
use super::super::memory::Plain;

/// The smallest number of elements that may share a scale.
pub(crate) const LEAST_GROUP: usize = 16;

/// What elements are multiplied with or divided by. An array has one number for each group of elements, or for each element.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(any(isa = "neon", isa = "simd128"), allow(dead_code, reason = "these look nothing up"))]
pub(in crate::kernels) struct Scale {
    /// The scales, without the tensor scale.
    pub(in crate::kernels) scales: *const f32,
    /// For division: the inverses, nearly exact, of scale and factor together.
    pub(in crate::kernels) inverses: *const f32,
    /// The zero points: dequantisation adds their negatives before it multiplies, quantisation adds them at the end. Null if there are none.
    pub(in crate::kernels) zeros: *const f32,
    /// The tensor scale. Dequantisation multiplies the products with it.
    pub(in crate::kernels) tensor: Factor,
    /// For look-ups: a table for each group, or one for all.
    pub(in crate::kernels) tables: *const Table128,
    /// 2^this is the number of elements that have the same table.
    pub(in crate::kernels) tables_shift: u32,
    /// For look-ups by the codes of scales: where the table of each 16 elements is.
    pub(in crate::kernels) places: *const Place,
    /// For each group. With [`By::Exponent`]: the exponent of the scale without its bias, times 2^7, where a bfloat16 has its
    /// exponent, in both halves of the u32; it is added to the words that are looked up. When exponents and mantissas are divided
    /// apart: the exponent of an element from which on quotients are looked up, in all bytes of the u32; for targets of fewer than
    /// 8 bits, that plus 1, in the high bytes of its words.
    pub(in crate::kernels) deltas: *const u32,
    /// For look-ups in tables of 16 words: a table for each group, or for each code of a scale.
    pub(in crate::kernels) sixteens: *const Table16,
    /// 2^this is the number of elements of a group, at least [`LEAST_GROUP`]; or this is [`Scale::EACH`] or [`Scale::ALL`].
    pub(in crate::kernels) shift: u32,
    /// For multiplication: elements are only multiplied with their scales, rounded to nearest, and nothing else happens.
    pub(in crate::kernels) is_alone: bool,
    /// The index of the first element of a block.
    pub(in crate::kernels) at: usize,
    pub(in crate::kernels) how: How,
    pub(in crate::kernels) others: Others,
    /// The rows. All of them have the same scales.
    pub(in crate::kernels) apart: Apart,
    /// How many bytes ahead the source is prefetched; 0 if it is not.
    pub(in crate::kernels) next: isize,
}

/// The tensor scale, with which all scales are multiplied, or by which they are divided. Positive.
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

    /// A scale multiplied with the factor or divided by it, rounded.
    #[inline(always)]
    pub(in crate::kernels) fn of(self, scale: f32) -> f32 {
        if self.divides { scale / self.by } else { scale * self.by }
    }
}

/// 128 words of 16 bits: all low bytes, then all high bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Table128(pub(in crate::kernels) [[u8; 128]; 2]);

impl Table128 {
    pub(crate) const ZEROS: Self = Self([[0; 128]; 2]);
}

/// 16 words of 16 bits: all low bytes, then all high bytes. Those of [`By::Code`] are in the order of the instruction set, or
/// are what `ByThresholds` in `codec/scaled/thresholds.rs` reads.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Table16(pub(in crate::kernels) [[u8; 16]; 2]);

impl Plain for Table16 {}

impl Table16 {
    /// Makes a table of these rows.
    pub(crate) const fn new(rows: [[u8; 16]; 2]) -> Self {
        Self(rows)
    }

    pub(crate) const ZEROS: Self = Self([[0; 16]; 2]);
}

/// The place of the table of a code, among the tables of all 256 codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u16);

impl Place {
    #[inline]
    pub(crate) const fn of(code: u8) -> Self {
        Self(size_of::<Table16>() as u16 * code as u16)
    }

    /// The table at this place.
    #[inline(always)]
    pub(in crate::kernels) fn among(self, tables: *const Table16) -> *const [[u8; 16]; 2] {
        tables.cast::<u8>().wrapping_add(self.0.into()).cast()
    }
}

/// How elements are looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// Each scale has a table of 128 words.
    Scale,
    /// All scales have one table of bfloat16; the exponent of the scale is added to that of the word.
    Exponent,
    /// Each code that a scale may have, of 8 bits, has a table of 16 words, for all codes of 4 bits.
    Code,
    /// Each scale has a table of 16 words: for all codes of 4 bits, or for mantissas of 8-bit codes, whose exponents are added.
    Sixteen,
}

/// How elements are multiplied with a scale, or divided by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// The product is rounded to float32, to nearest even. In division, it is the product with the inverse.
    Near,
    /// The product or quotient is rounded to odd, so that the encoder's rounding counts as the only one.
    Odd,
    /// In division, the quotient is rounded to float32, to nearest even.
    Over,
    /// As [`How::Over`], but by the product with the inverse where that is not near a tie, which is faster.
    OverAtTies,
}

/// Steps that the profiles of other packages add to the multiplication or division.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Others {
    /// Whether a quotient is rounded to the dtype of the data.
    pub(crate) keeps: bool,
    /// Whether the zero point is added to the quotient before the rounding to an integer.
    pub(crate) adds_first: bool,
    /// Whether -0 is read as 0.
    pub(crate) loses_sign: bool,
}

impl Others {
    pub(crate) const NONE: Self = Self { keeps: false, adds_first: false, loses_sign: false };
}

impl Scale {
    /// Arrays have a number for each element.
    pub(in crate::kernels) const EACH: u32 = u32::MAX;
    /// Arrays have one number for all elements.
    pub(in crate::kernels) const ALL: u32 = usize::BITS - 1;
    pub(in crate::kernels) const NONE: Self = Self {
        scales: ptr::null(),
        inverses: ptr::null(),
        zeros: ptr::null(),
        tensor: Factor::NONE,
        tables: ptr::null(),
        tables_shift: Self::ALL,
        places: ptr::null(),
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

/// Casts rows of `n` elements. The arrays reach to the end of the kernel's last block, even if `n` does not.
///
/// # Safety
/// As for [`RunRows`](crate::kernels::codec::job::RunRows); and the arrays have a number for every element of all blocks.
pub(in crate::kernels) type RunScaled =
    unsafe fn(job: &Job, src: *const u8, dst: *mut u8, n: usize, scale: &Scale);
