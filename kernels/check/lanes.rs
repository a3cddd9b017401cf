//! Codes as lanes of registers: comparisons and masks.

use core::convert::Infallible;
use core::marker::PhantomData;

use super::super::simd::{Simd, Tally};
use super::found::CodeRange;

/// Lanes of 8, 16, 32 or 64 bits.
pub(super) trait Lanes<I: Simd> {
    const BYTES: usize;

    fn splat(isa: I, bits: u64) -> I::V;
    fn sub(isa: I, a: I::V, b: I::V) -> I::V;
}

/// Narrows the registers of a block of codes, of `from` bytes each, to the `to` low bytes of each code.
#[inline(always)]
pub(super) fn narrowed<I: Simd>(isa: I, mut codes: [I::V; 8], from: usize, to: usize) -> [I::V; 8] {
    if from == 8 && to < 8 {
        for k in 0..4 {
            codes[k] = isa.low64([codes[2 * k], codes[2 * k + 1]]);
        }
    }
    if from >= 4 && to < 4 {
        for k in 0..2 {
            codes[k] = isa.low32([codes[2 * k], codes[2 * k + 1]]);
        }
    }
    if from >= 2 && to < 2 {
        codes[0] = isa.low16([codes[0], codes[1]]);
    }
    codes
}

/// Lanes with comparisons: the result is all ones where they hold, and zeros elsewhere.
pub(super) trait Ordered<I: Simd>: Lanes<I> {
    /// a > b, as signed integers.
    fn gt(isa: I, a: I::V, b: I::V) -> I::V;
    /// `some` where a > b, else zeros.
    #[inline(always)]
    fn where_gt(isa: I, a: I::V, b: I::V, some: I::V) -> I::V {
        isa.and(some, Self::gt(isa, a, b))
    }
    /// A bit for each lane of a block, from masks. A block has the first `BYTES` of these registers.
    fn bits(isa: I, masks: [I::V; 8]) -> u64;
    /// Finds several codes in one pass, if there is a loop for that.
    type Singles: Singles<I>;
}

/// Codes to find.
pub(super) trait Among<I: Simd> {
    /// A bit for each lane of a block that is none of them. A block has the first `BYTES` of these registers.
    fn others(&self, isa: I, codes: [I::V; 8]) -> u64;
}

/// Up to [`SINGLES`] ranges of a single code each.
pub(super) trait Singles<I: Simd>: Among<I> + Sized {
    /// None if the ranges are not of that kind.
    fn new(isa: I, ranges: &[CodeRange]) -> Option<Self>;
}

/// The largest number of single codes to find in one pass.
pub(super) const SINGLES: usize = 3;

/// Single codes to find among lanes.
pub(super) struct SinglesOf<I: Simd, L>([I::V; SINGLES], PhantomData<L>);

impl<I: Simd, L: Lanes<I>> Singles<I> for SinglesOf<I, L>
where
    Self: Among<I>,
{
    #[inline(always)]
    fn new(isa: I, ranges: &[CodeRange]) -> Option<Self> {
        let first = ranges.first().filter(|range| range.is_single(L::BYTES))?;
        let mut of = [L::splat(isa, first.low); SINGLES];
        for (of, range) in of.iter_mut().zip(ranges) {
            *of = L::splat(isa, range.low);
        }
        Some(Self(of, PhantomData))
    }
}

macro_rules! singles {
    ($($lanes:ident: $others:ident, $block:pat => $registers:expr;)*) => {$(
        impl<I: Simd> Among<I> for SinglesOf<I, $lanes> {
            #[inline(always)]
            fn others(&self, isa: I, $block: [I::V; 8]) -> u64 {
                isa.$others($registers, self.0)
            }
        }
    )*};
}
singles! {
    Wide8: others8, [a, ..] => a;
    Wide16: others16, [a, b, ..] => [a, b];
    Wide32: others32, [a, b, c, d, ..] => [a, b, c, d];
}

/// None for lanes of 64 bits: their loop would be as long as all the others together.
impl<I: Simd> Among<I> for Infallible {
    #[inline(always)]
    fn others(&self, _: I, _: [I::V; 8]) -> u64 {
        match *self {}
    }
}

impl<I: Simd> Singles<I> for Infallible {
    #[inline(always)]
    fn new(_: I, _: &[CodeRange]) -> Option<Self> {
        None
    }
}

/// Lanes that can be compared for equality, too.
pub(super) trait Compared<I: Simd>: Ordered<I> {
    fn eq(isa: I, a: I::V, b: I::V) -> I::V;
}

/// Lanes of floats.
pub(super) trait FloatLanes<I: Simd>: Compared<I> {
    /// The maximum as signed integers; and below, the minimum as unsigned integers.
    fn max(isa: I, a: I::V, b: I::V) -> I::V;
    fn min(isa: I, a: I::V, b: I::V) -> I::V;
    /// How many lanes differ.
    fn differ(isa: I, a: I::V, b: I::V) -> usize;
    /// Adds the number of lanes that are equal to a tally.
    fn tally(isa: I, a: I::V, b: I::V, tally: Tally<I::V>) -> Tally<I::V>;
    fn trunc(isa: I, x: I::V) -> I::V;
}

pub(super) struct Wide8;
pub(super) struct Wide16;
pub(super) struct Wide32;
pub(super) struct Wide64;

macro_rules! lanes {
    ($($lanes:ident as $lane:ty: $splat:ident, $sub:ident;)*) => {$(
        impl<I: Simd> Lanes<I> for $lanes {
            const BYTES: usize = size_of::<$lane>();

            #[inline(always)]
            fn splat(isa: I, bits: u64) -> I::V {
                isa.$splat(bits as $lane)
            }
            #[inline(always)]
            fn sub(isa: I, a: I::V, b: I::V) -> I::V {
                isa.$sub(a, b)
            }
        }
    )*};
}
lanes! {
    Wide8 as u8: splat8, sub8;
    Wide16 as u16: splat16, sub16;
    Wide32 as u32: splat32, sub32;
    Wide64 as u64: splat64, sub64;
}

impl<I: Simd> Ordered<I> for Wide8 {
    type Singles = SinglesOf<I, Self>;

    #[inline(always)]
    fn gt(isa: I, a: I::V, b: I::V) -> I::V {
        isa.where_gt8(a, b, isa.splat64(u64::MAX))
    }
    #[inline(always)]
    fn where_gt(isa: I, a: I::V, b: I::V, some: I::V) -> I::V {
        isa.where_gt8(a, b, some)
    }
    #[inline(always)]
    fn bits(isa: I, [a, ..]: [I::V; 8]) -> u64 {
        isa.top_bits(a)
    }
}

impl<I: Simd> Ordered<I> for Wide16 {
    type Singles = SinglesOf<I, Self>;

    #[inline(always)]
    fn gt(isa: I, a: I::V, b: I::V) -> I::V {
        isa.gt16(a, b)
    }
    #[inline(always)]
    fn bits(isa: I, [a, b, ..]: [I::V; 8]) -> u64 {
        isa.bits16([a, b])
    }
}

impl<I: Simd> Compared<I> for Wide16 {
    #[inline(always)]
    fn eq(isa: I, a: I::V, b: I::V) -> I::V {
        isa.eq16(a, b)
    }
}

macro_rules! float_lanes {
    ($($lanes:ident as $lane:ty:
        $gt:ident, $eq:ident, $select:ident, $max:ident, $min:ident, $count:ident, $tally:ident, $trunc:ident,
        $bits:ident, $singles:ty, $block:pat => $registers:expr;
    )*) => {$(
        impl<I: Simd> Ordered<I> for $lanes {
            type Singles = $singles;

            #[inline(always)]
            fn gt(isa: I, a: I::V, b: I::V) -> I::V {
                isa.$select(isa.$gt(a, b), isa.splat64(u64::MAX), isa.splat64(0))
            }
            #[inline(always)]
            fn where_gt(isa: I, a: I::V, b: I::V, some: I::V) -> I::V {
                isa.$select(isa.$gt(a, b), some, isa.splat64(0))
            }
            #[inline(always)]
            fn bits(isa: I, $block: [I::V; 8]) -> u64 {
                isa.$bits($registers)
            }
        }

        impl<I: Simd> Compared<I> for $lanes {
            #[inline(always)]
            fn eq(isa: I, a: I::V, b: I::V) -> I::V {
                isa.$select(isa.$eq(a, b), isa.splat64(u64::MAX), isa.splat64(0))
            }
        }

        impl<I: Simd> FloatLanes<I> for $lanes {
            #[inline(always)]
            fn max(isa: I, a: I::V, b: I::V) -> I::V {
                isa.$max(a, b)
            }
            #[inline(always)]
            fn min(isa: I, a: I::V, b: I::V) -> I::V {
                isa.$min(a, b)
            }
            #[inline(always)]
            fn differ(isa: I, a: I::V, b: I::V) -> usize {
                I::BYTES / size_of::<$lane>() - isa.$count(isa.$eq(a, b))
            }
            #[inline(always)]
            fn tally(isa: I, a: I::V, b: I::V, tally: Tally<I::V>) -> Tally<I::V> {
                isa.$tally(isa.$eq(a, b), tally)
            }
            #[inline(always)]
            fn trunc(isa: I, x: I::V) -> I::V {
                isa.$trunc(x)
            }
        }
    )*};
}
float_lanes! {
    Wide32 as u32: gt32, eq32, select32, max_s32, min_u32, count32, tally32, trunc_f32,
        bits32, SinglesOf<I, Wide32>, [a, b, c, d, ..] => [a, b, c, d];
    Wide64 as u64: gt64, eq64, select64, max_s64, min_u64, count64, tally64, trunc_f64,
        bits64, Infallible, block => block;
}

/// A [`CodeRange`] in registers.
#[derive(Clone, Copy)]
pub(super) struct Sought<I: Simd> {
    mask: I::V,
    low: I::V,
    span: I::V,
}

impl<I: Simd> Sought<I> {
    #[inline(always)]
    pub(super) fn new<L: Lanes<I>>(isa: I, range: &CodeRange) -> Self {
        // To compare unsigned numbers as signed ones, the top bit is flipped.
        let top = 1 << (8 * L::BYTES - 1);
        Self {
            mask: L::splat(isa, range.mask),
            low: L::splat(isa, range.low ^ top),
            span: L::splat(isa, range.high.wrapping_sub(range.low) ^ top),
        }
    }
    /// `some` where the code does not lie in the range, zeros elsewhere.
    #[inline(always)]
    pub(super) fn where_not<L: Ordered<I>>(&self, isa: I, code: I::V, some: I::V) -> I::V {
        L::where_gt(isa, L::sub(isa, isa.and(code, self.mask), self.low), self.span, some)
    }
}

/// A register in memory.
#[repr(C, align(64))]
pub(super) struct Register([[u8; 8]; 8]);

impl Register {
    #[inline(always)]
    pub(super) fn new<I: Simd>(isa: I, v: I::V) -> Self {
        const { assert!(I::BYTES <= size_of::<Self>()) };
        let mut register = Self([[0; 8]; 8]);
        isa.store_next(&mut register.bytes().into(), v);
        register
    }

    #[inline(always)]
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.0.as_flattened_mut()
    }

    /// The OR of all words of the register.
    #[inline(always)]
    pub(super) fn any(&self) -> u64 {
        let mut any = 0;
        for word in self.0 {
            any |= u64::from_ne_bytes(word);
        }
        any
    }

    /// The lane of `bytes` bytes that begins at byte `at`.
    #[inline(always)]
    pub(super) fn lane(&self, at: usize, bytes: usize) -> u64 {
        u64::from_ne_bytes(self.0[at / 8]) << (64 - 8 * (at % 8 + bytes)) >> (64 - 8 * bytes)
    }
}
