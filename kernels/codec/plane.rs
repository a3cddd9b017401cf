//! The tables of [`super::lookup`]: 256 elements, computed by the scalar reference, in the forms in which instruction sets look up best.

use core::mem::MaybeUninit;

use crate::formats::dtype::{DTYPES, DType, FloatFormat, Kind};
use crate::formats::layout::Packing;
use crate::formats::options::{Overflow, Policy};
use crate::formats::route::Route;
use crate::kernels::scalar::{DECODE, ENCODE, Value};

/// One byte of each of 256 elements; and the same bytes compressed, for instruction sets that look up in a row of 16 bytes at a
/// time. Aligned to a cache line, as is each row of 64, because a register that lies across two lines takes two loads.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Plane {
    /// In rows of 64, each of 4 rows of 16.
    pub(in crate::kernels) elements: [[[u8; 16]; 4]; 4],
    pub(in crate::kernels) halves: [PlaneHalf; 2],
    pub(in crate::kernels) fold: FoldNumbers,
}

/// How elements of the codes from 128 on are predicted from those below. The second half of a plane holds the elements xor
/// their predictions, which are mostly zeros, because opposite numbers become opposite numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernels) enum Fold {
    /// No prediction.
    None,
    /// The element of the code without its sign bit, with the sign bit flipped.
    Same,
    /// The negative of that element.
    Negated,
    /// The negative of that element, as an integer of fewer than 8 bits.
    Limited,
    /// Of integer codes: the element of the negated code, with the sign bit flipped.
    Magnitude,
    /// Zero.
    Positive,
}

impl Fold {
    /// All of them, in the order of their discriminants.
    pub(super) const ALL: [Self; 6] =
        [Self::None, Self::Same, Self::Negated, Self::Limited, Self::Magnitude, Self::Positive];

    /// The fold of the table of a pair.
    pub(super) fn of(from: DType, to: DType, policy: &Policy) -> Self {
        match (from.kind(), to.kind()) {
            _ if from.bits() != 8 => Self::None,
            (Kind::Float(from), Kind::Int(to)) if from.has_sign => match policy.overflow {
                Overflow::Saturate if !to.signed => Self::Positive,
                _ if to.bits < 8 => Self::Limited,
                _ => Self::Negated,
            },
            _ if to.bits() > 8 => Self::None,
            (Kind::Float(from), Kind::Float(to)) if from.has_sign && to.has_sign => Self::Same,
            (Kind::Int(from), Kind::Float(to)) if from.signed && to.has_sign => Self::Magnitude,
            _ => Self::None,
        }
    }
}

/// The numbers that a [`Fold`] needs, each repeated for 32 lanes. Those that it does not need have no effect.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(in crate::kernels) struct FoldNumbers {
    /// Added to an index, so that the codes of a NaN, which becomes 0, get a negative index, which finds nothing.
    pub(in crate::kernels) shift: [u8; 32],
    /// The greatest shifted index that is looked up: indices above have the same element.
    pub(in crate::kernels) last: [u8; 32],
    /// The largest integer of fewer than 8 bits. (The first half may hold one more than that, whose negative is the least integer.)
    pub(in crate::kernels) limit: [u8; 32],
    /// The bits of such an integer.
    pub(in crate::kernels) mask: [u8; 32],
    /// The sign bit of a float.
    pub(in crate::kernels) sign: [u8; 32],
}

impl FoldNumbers {
    const NONE: Self =
        Self { shift: [0; 32], last: [0x7F; 32], limit: [0x7F; 32], mask: [0xFF; 32], sign: [0; 32] };
}

/// A half of a plane, as the rows in which something changes: a lookup combines (by xor) the changes of all rows up to its own.
/// The elements are in order or, if that takes fewer rows, in reverse; for integers, the reverse order begins nearest to zero.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(in crate::kernels) struct PlaneHalf {
    /// Rows xor the row before, in pairs. The first row of a pair is not all zeros.
    pub(in crate::kernels) changes: [[[u8; 16]; 2]; 4],
    /// The index at which each pair begins, repeated for 32 lanes.
    pub(in crate::kernels) begin: [[u8; 32]; 4],
    /// What an index is xored with: those of this half become less than 128, others more.
    pub(in crate::kernels) flip: [u8; 32],
    /// How many pairs of changes there are.
    pub(in crate::kernels) pairs: usize,
}

impl PlaneHalf {
    const NONE: Self = Self { changes: [[[0; 16]; 2]; 4], begin: [[0; 32]; 4], flip: [0; 32], pairs: 0 };
}

/// The elements of a half in some order: that of index xor `flip`, from `start` on. Those before are 0.
#[derive(Clone, Copy)]
struct Order<'a> {
    elements: &'a [u8],
    flip: u8,
    start: usize,
}

impl<'a> Order<'a> {
    /// The order with the fewest pairs of rows.
    fn best(elements: &'a [u8], flip: u8) -> Self {
        let at_0 = Self { elements, flip, start: 0 };
        let starts = (0..16).take_while(|&start| (0..start).all(|i| at_0.at(i).is_none_or(|x| x == 0)));
        let orders = starts.map(|start| Self { start, ..at_0 });
        orders.min_by_key(|order| order.pairs().count()).unwrap_or(at_0)
    }

    fn at(&self, i: usize) -> Option<u8> {
        self.elements.get(i ^ usize::from(self.flip)).copied()
    }

    /// Returns a row, xored with the row before.
    fn change(&self, row: usize) -> [u8; 16] {
        let first = self.start + 16 * row;
        core::array::from_fn(|lane| match (self.at(first + lane), row) {
            (Some(element), 0) => element,
            (Some(element), 1..8) => element ^ self.at(first + lane - 16).unwrap_or(0),
            _ => 0,
        })
    }

    /// The index of the first row of each pair.
    fn pairs(self) -> impl Iterator<Item = usize> {
        let mut next = 0;
        core::iter::from_fn(move || {
            let row = (next..8).find(|&row| self.change(row) != [0; 16])?;
            next = row + 2;
            Some(row)
        })
    }

    /// Writes the order to a half that is [empty](PlaneHalf::NONE).
    fn write(self, half: &mut PlaneHalf) {
        half.flip = [self.flip; 32];
        for row in self.pairs() {
            half.changes[half.pairs] = [self.change(row), self.change(row + 1)];
            half.begin[half.pairs] = [(self.start + 16 * row) as u8; 32];
            half.pairs += 1;
        }
    }
}

/// Elements of 16 bits that lie on a line: base + index * step, with a sign. What floats of 8 bits become in float16 or
/// bfloat16 does, except for the 16 codes nearest to zero and the 16 codes that include Inf and NaN.
///
/// Every number is repeated for 32 bytes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line {
    /// The bits of an index that are its place on the line. The remaining bit, if any, is the sign.
    pub(in crate::kernels) magnitude: [u8; 32],
    pub(in crate::kernels) step: [u16; 16],
    pub(in crate::kernels) base: [u16; 16],
    /// The differences of the lowest 16 places from the line: their low and their high bytes.
    pub(in crate::kernels) near: [[u8; 16]; 2],
    /// The differences elsewhere, where the index, masked with `bits` and xored with `flip`, is below 16. They are xored with `near`.
    pub(in crate::kernels) bits: [u8; 32],
    pub(in crate::kernels) flip: [u8; 32],
    pub(in crate::kernels) far: [[u8; 16]; 2],
}

/// The table of elements of 16 bits.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct WordTable {
    pub(in crate::kernels) planes: [Plane; 2],
    pub(in crate::kernels) line: Line,
}

impl Plane {
    pub(super) const ZEROS: Self =
        Self { elements: [[[0; 16]; 4]; 4], halves: [PlaneHalf::NONE; 2], fold: FoldNumbers::NONE };

    /// Writes the plane of bytes without any prediction.
    pub(super) fn of_bytes<'a>(place: &'a mut MaybeUninit<Self>, elements: &[u8; 256]) -> &'a mut Self {
        Self::of(place, elements, 8, 256, Fold::None)
    }

    /// Writes the plane of elements of `bits` bits, for `codes` codes.
    fn of<'a>(
        place: &'a mut MaybeUninit<Self>,
        elements: &[u8; 256],
        bits: u32,
        codes: usize,
        fold: Fold,
    ) -> &'a mut Self {
        let (sign, mask) = (1 << (bits - 1), 0xFF >> (8 - bits));
        let mut first: [u8; 128] = core::array::from_fn(|code| elements[code]);
        let mut limit = i8::MAX;
        if fold == Fold::Limited {
            let signed = |element: u8| (element << (8 - bits)) as i8 >> (8 - bits);
            first = first.map(|element| signed(element) as u8);
            let negated: [u8; 128] =
                core::array::from_fn(|code| signed(elements[code | 0x80]).wrapping_neg() as u8);
            let most = first.iter().fold(0, |most, &element| most.max(element as i8));
            if first.iter().zip(&negated).all(|(&element, &other)| most.min(other as i8) == element as i8) {
                (first, limit) = (negated, most);
            }
        }
        let known = |code: u8| match fold {
            Fold::None | Fold::Positive => 0,
            Fold::Same => first[usize::from(code & 0x7F)] ^ sign,
            Fold::Negated => first[usize::from(code & 0x7F)].wrapping_neg(),
            Fold::Limited => limit.min(first[usize::from(code & 0x7F)].wrapping_neg() as i8) as u8 & mask,
            // The least integer has no negative.
            Fold::Magnitude if code == 0x80 => sign,
            Fold::Magnitude => first[usize::from(code.wrapping_neg())] ^ sign,
        };
        let second = core::array::from_fn(|code| elements[code | 0x80] ^ known(code as u8 | 0x80));
        let numbers =
            FoldNumbers { limit: [limit as u8; 32], mask: [mask; 32], sign: [sign; 32], ..FoldNumbers::NONE };
        Self::of_halves(place, elements, codes, fold, [&first, &second], numbers)
    }

    /// Writes the plane with these halves.
    #[inline(never)] // For the stack.
    fn of_halves<'a>(
        place: &'a mut MaybeUninit<Self>,
        elements: &[u8; 256],
        codes: usize,
        fold: Fold,
        [first, second]: [&[u8; 128]; 2],
        mut numbers: FoldNumbers,
    ) -> &'a mut Self {
        let mut shifted = *first;
        if matches!(fold, Fold::Negated | Fold::Limited | Fold::Positive) {
            // Zeros at the end of the first half are not stored.
            let shift = first.iter().rev().take_while(|&&element| element == 0).count() % 128;
            shifted = core::array::from_fn(|i| first[(i + 128 - shift) % 128]);
            let same = shifted.iter().rev().take_while(|&&element| element == shifted[127]).count();
            numbers.shift = [shift as u8; 32];
            numbers.last = [(128 - same) as u8 % 128; 32];
        }
        let used = codes.min(1 + usize::from(numbers.last[0]));
        // In its place, for the stack.
        let plane = place.write(Self::ZEROS);
        plane.elements.as_flattened_mut().as_flattened_mut().copy_from_slice(elements);
        plane.fold = numbers;
        Order::best(&shifted[..used], 0).write(&mut plane.halves[0]);
        let all: [u8; 256] =
            core::array::from_fn(|code| if code < 128 { first[code] } else { second[code - 128] });
        let [up, down] = [0x80, 0xFF].map(|flip| Order::best(&all[..codes], flip));
        let order = if down.pairs().count() < up.pairs().count() { down } else { up };
        order.write(&mut plane.halves[1]);
        plane
    }
}

impl WordTable {
    pub(super) const ZEROS: Self = Self { planes: [Plane::ZEROS; 2], line: Line::NONE };
}

// Only the first 16 elements and 16 of the last are off the line: subnormal numbers, and NaN.
const _: () = {
    let mut i = 0;
    while i < DTYPES {
        if let Some(format) = DType::ALL[i].float_format() {
            assert!(format.bits() != 8 || format.mantissa_bits <= 4, "a line has 16 subnormal numbers");
        }
        i += 1;
    }
};

impl Line {
    const NONE: Self = Self {
        magnitude: [0; 32],
        step: [0; 16],
        base: [0; 16],
        near: [[0; 16]; 2],
        bits: [0; 32],
        flip: [0; 32],
        far: [[0; 16]; 2],
    };

    /// The line of what the codes of a float become.
    fn new(from: FloatFormat, elements: &[u16; 256]) -> Self {
        let element = |code: u8| elements[usize::from(code)];
        let step = element(33).wrapping_sub(element(32));
        let base = element(32).wrapping_sub(step.wrapping_mul(32));
        let sign = if from.has_sign { 0x80 } else { 0 };
        // Where NaN is: in the place of -0; or in the places of the largest magnitudes, whatever the sign.
        let (bits, flip) = match (from.has_sign, from.has_neg_zero) {
            (true, false) => (0xFF, 0x80),
            (true, true) => (0x7F, 0x70),
            (false, _) => (0xFF, 0xF0),
        };
        let off = |code: u8| {
            let place = u16::from(code & !sign).wrapping_mul(step).wrapping_add(base);
            element(code).wrapping_sub(place) ^ u16::from(code & sign) << 8
        };
        let planes = |words: [u16; 16]| [words.map(|x| x as u8), words.map(|x| (x >> 8) as u8)];
        let near = core::array::from_fn(|i| off(i as u8));
        let far = core::array::from_fn(|i| {
            let code = flip ^ i as u8;
            off(code) ^ near.get(usize::from(code & !sign)).unwrap_or(&0)
        });
        Self {
            magnitude: [!sign; 32],
            step: [step; 16],
            base: [base; 16],
            near: planes(near),
            bits: [bits; 32],
            flip: [flip; 32],
            far: planes(far),
        }
    }
}

/// What each code of a dtype becomes, as 16 bits or fewer.
#[inline(never)] // For the stack.
fn elements(from: DType, to: DType, policy: &Policy) -> [u16; 256] {
    /// How many codes are converted at a time: few, because values are large.
    const STEP: usize = 16;
    let mask = 0xFF >> (8 - from.bits());
    let mut elements = [0; 256];
    for (i, some) in elements.chunks_exact_mut(STEP).enumerate() {
        let codes: [u64; STEP] = core::array::from_fn(|k| (STEP * i + k) as u64 & mask);
        let (mut values, mut results) = ([Value::ZERO; STEP], [0; STEP]);
        DECODE[from as usize](&codes, &mut values);
        ENCODE[to as usize](&values, &mut results, policy);
        some.iter_mut().zip(results).for_each(|(element, result)| *element = result as u16);
    }
    elements
}

/// What each byte of packed codes of 4 bits or fewer becomes, if those become 4 bits or fewer: 2 to 32 bits, packed as elements are.
#[inline(never)] // For the stack.
pub(super) fn tuples(route: &Route) -> [u32; 256] {
    let one = elements(route.from, route.to, &route.policy);
    let [from, to] = [route.from.bits(), route.to.bits()];
    let [src_high, dst_high] = [&route.src, &route.dst].map(|layout| layout.packing == Packing::HighFirst);
    // The bits of the results are filled from one end or the other.
    let unit = (8 / from * to).min(8);
    core::array::from_fn(|byte| {
        let element = |i: u32| {
            let shift = if src_high { 8 - from - i * from } else { i * from };
            let (code, at) = (byte >> shift & 0xFF >> (8 - from), i * to);
            u32::from(one[code])
                << (at - at % unit + if dst_high { unit - to - at % unit } else { at % unit })
        };
        (0..8 / from).fold(0, |tuple, i| tuple | element(i))
    })
}

/// Writes a table of elements of 8 bits or fewer.
pub(super) fn bytes(from: DType, to: DType, policy: &Policy, place: &mut MaybeUninit<Plane>) {
    let elements = elements(from, to, policy).map(|x| x as u8);
    Plane::of(place, &elements, to.bits(), 1 << from.bits(), Fold::of(from, to, policy));
}

/// Writes a table of elements of 16 bits: all of its fields.
pub(super) fn words(from: DType, to: DType, policy: &Policy, place: &mut MaybeUninit<WordTable>) {
    let elements = elements(from, to, policy);
    let fold = Fold::of(from, to, policy);
    let line = match from.float_format() {
        Some(format) if from.bits() == 8 => Line::new(format, &elements),
        _ => Line::NONE,
    };
    let place = place.as_mut_ptr();
    // SAFETY: the fields of a place that is borrowed exclusively.
    unsafe {
        (&raw mut (*place).line).write(line);
        for (byte, shift) in [0, 8].into_iter().enumerate() {
            let plane = &mut *(&raw mut (*place).planes[byte]).cast();
            plane_of(plane, &elements, shift, 1 << from.bits(), fold);
        }
    }
}

/// Writes the plane of a byte of elements.
#[inline(never)] // For the stack.
fn plane_of(place: &mut MaybeUninit<Plane>, elements: &[u16; 256], shift: u32, codes: usize, fold: Fold) {
    let byte = |x: u16| (x >> shift) as u8;
    let known = |code: usize| if fold == Fold::Negated { elements[code].wrapping_neg() } else { 0 };
    let first = core::array::from_fn(|code| byte(elements[code]));
    let second = core::array::from_fn(|code| byte(elements[code | 0x80] ^ known(code)));
    Plane::of_halves(place, &elements.map(byte), codes, fold, [&first, &second], FoldNumbers::NONE);
}
