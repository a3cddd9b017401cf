//! The reports of checked casts, the bitmaps that they read and write, and what to do about losses.

use crate::error::{Error, Lossy, Side};
use crate::formats::loss::Loss;
use crate::kernels::check::Bits;

/// What a cast lost: how many elements of each class, and which was the first.
///
/// An element is in one class at most; only `negative` counts some of `below` again. The default is the report of no elements.
///
/// ```
/// use lanecast::{checked, CastOptions};
/// let mut out = [0u8; 6];
/// let report = checked::cast_slice_with(&[1.0f32, 1.5, 300.0, -7.0, f32::NAN, -0.0], &mut out, &CastOptions::new())?;
/// assert_eq!(out, [1, 1, 255, 0, 0, 0]); // as an unchecked cast
/// assert_eq!((report.elements, report.above, report.below, report.negative), (6, 1, 1, 1));
/// assert_eq!((report.nan, report.inf, report.imaginary, report.inexact), (1, 0, 0, 1));
/// assert_eq!((report.first, report.first_inexact), (Some(2), Some(1)));
/// # Ok::<(), lanecast::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
#[must_use = "it says what was lost"]
pub struct CastReport {
    /// Elements that were checked.
    pub elements: usize,
    /// [`Loss::Above`].
    pub above: usize,
    /// [`Loss::Below`].
    pub below: usize,
    /// Those of `below` that are negative, where the target has no sign.
    pub negative: usize,
    /// [`Loss::NaN`].
    pub nan: usize,
    /// [`Loss::Inf`].
    pub inf: usize,
    /// [`Loss::Imaginary`].
    pub imaginary: usize,
    /// [`Loss::Inexact`].
    pub inexact: usize,
    /// The index of the first element that is in any class but `inexact`.
    pub first: Option<usize>,
    /// The index of the first element that is inexact.
    pub first_inexact: Option<usize>,
}

impl CastReport {
    /// Returns how many elements are lost: those of every class but `inexact`.
    ///
    /// ```
    /// use lanecast::{checked, CastOptions};
    /// let report = checked::cast_slice_with(&[-1i32, 256, 7], &mut [0u8; 3], &CastOptions::new())?;
    /// assert_eq!(report.lost(), 2);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn lost(&self) -> usize {
        let [numbers, others] = [self.above.saturating_add(self.below), self.nan.saturating_add(self.inf)];
        numbers.saturating_add(others).saturating_add(self.imaginary)
    }

    /// Whether every element has kept its value.
    ///
    /// ```
    /// use lanecast::{checked, CastOptions};
    /// let options = CastOptions::new();
    /// assert!(checked::cast_slice_with(&[0.5f64, -0.0], &mut [0f32; 2], &options)?.is_exact());
    /// assert!(!checked::cast_slice_with(&[0.1f64, -0.0], &mut [0f32; 2], &options)?.is_exact());
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn is_exact(&self) -> bool {
        self.lost() == 0 && self.inexact == 0
    }

    /// Adds the report of the elements that follow these, as for a buffer that is cast in pieces.
    ///
    /// ```
    /// use lanecast::{checked::{self, CastReport}, CastOptions};
    /// let mut report = CastReport::default();
    /// for piece in [[1i32, 2], [3, 256], [-1, 4]] {
    ///     report.append(checked::cast_slice_with(&piece, &mut [0u8; 2], &CastOptions::new())?);
    /// }
    /// assert_eq!((report.elements, report.lost(), report.first), (6, 2, Some(3)));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub fn append(&mut self, next: Self) {
        let before = self.elements;
        self.elements = before.saturating_add(next.elements);
        self.merge(next, &|index| before.saturating_add(index));
    }

    /// Adds the report of some of these elements. `number` turns their indices into those among all.
    pub(super) fn merge(&mut self, part: Self, number: &dyn Fn(usize) -> usize) {
        let Self { elements: _, above, below, negative, nan, inf, imaginary, inexact, first, first_inexact } =
            part;
        let earlier =
            |one: Option<usize>, other: Option<usize>| one.into_iter().chain(other.map(number)).min();
        self.first = earlier(self.first, first);
        self.first_inexact = earlier(self.first_inexact, first_inexact);
        let sums = [
            (&mut self.above, above),
            (&mut self.below, below),
            (&mut self.negative, negative),
            (&mut self.nan, nan),
            (&mut self.inf, inf),
            (&mut self.imaginary, imaginary),
            (&mut self.inexact, inexact),
        ];
        // A file that is cast in pieces may have more elements than a 32-bit `usize` can count.
        sums.into_iter().for_each(|(sum, n)| *sum = sum.saturating_add(n));
    }

    /// Counts an element of a class other than inexact ones.
    pub(super) fn add(&mut self, loss: Loss, is_negative: bool) {
        match loss {
            Loss::Above => self.above += 1,
            Loss::Below => {
                self.below += 1;
                self.negative += usize::from(is_negative);
            }
            Loss::NaN => self.nan += 1,
            Loss::Inf => self.inf += 1,
            Loss::Imaginary => self.imaginary += 1,
            Loss::Inexact => {}
        }
    }
}

/// Returns the error of some elements with the index among all, which `number` makes of theirs.
pub(super) fn numbered(error: Error, number: &dyn Fn(usize) -> usize) -> Error {
    match error {
        Error::Lossy(lossy) => Error::Lossy(Lossy { index: number(lossy.index), ..lossy }),
        error => error,
    }
}

/// Which elements of a source are not null: a bitmap, with the first element in the lowest bit of the first byte, as in Arrow.
/// An element whose bit is 0 is null.
///
/// ```
/// use lanecast::{checked::{self, Validity}, CastOptions};
/// let mut out = [0i8; 3];
/// let mut valid = [0u8; 1];
/// // The bits of the three elements begin at the second one.
/// let source = Validity::new(&[0b1010]).from_bit(1);
/// let nulls = checked::cast_slice_validity_with(&[7i32, 8, 900], Some(source), &mut out, &mut valid, &CastOptions::new())?;
/// assert_eq!((out[0], valid, nulls), (7, [0b001], 2));
/// # Ok::<(), lanecast::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "it says nothing until a cast takes it"]
pub struct Validity<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Validity<'a> {
    /// Takes a bitmap whose first bit is that of the first element. It may have more bits than there are elements.
    ///
    /// ```
    /// let all_of_eight = lanecast::checked::Validity::new(&[0xFF]);
    /// ```
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Returns the same bitmap, but with the bit of the first element at `offset`.
    ///
    /// ```
    /// let last_of_eight = lanecast::checked::Validity::new(&[0xFF]).from_bit(7);
    /// ```
    pub const fn from_bit(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// Returns the 64 bits from that of an element on, with 0 behind the end.
    fn word(&self, element: usize) -> u64 {
        let bit = self.offset + element;
        let bytes = self.bytes.get(bit / 8..).unwrap_or_default();
        // Nine bytes, because the first bit may be anywhere in the first one.
        let (mut low, mut high) = ([0; 8], 0);
        match bytes {
            [a, b, c, d, e, f, g, h, rest @ ..] => {
                low = [*a, *b, *c, *d, *e, *f, *g, *h];
                high = rest.first().copied().unwrap_or(0);
            }
            _ => low.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from),
        }
        // Shifted in two steps, because there is no shift by 64.
        u64::from_le_bytes(low) >> (bit % 8) | u64::from(high) << 57 << (7 - bit % 8)
    }

    /// ANDs these bits into a bitmap, from its first bit on.
    fn and_into(&self, bitmap: &mut [u8]) {
        let (mut next, shift) = (self.bytes.get(self.offset / 8..).unwrap_or_default(), self.offset % 8);
        let (words, rest) = bitmap.as_chunks_mut();
        let mut done = 0;
        for word in words.iter_mut() {
            // This needs a byte behind those of the word.
            let Some((&low, [high, ..])) = next.split_first_chunk() else { break };
            let there = u64::from_le_bytes(low) >> shift | u64::from(*high) << 57 << (7 - shift);
            *word = (u64::from_le_bytes(*word) & there).to_le_bytes();
            (next, done) = (&next[8..], done + 1);
        }
        for (i, word) in words.iter_mut().enumerate().skip(done) {
            *word = (u64::from_le_bytes(*word) & self.word(64 * i)).to_le_bytes();
        }
        let there = self.word(64 * words.len()).to_le_bytes();
        rest.iter_mut().zip(there).for_each(|(byte, there)| *byte &= there);
    }
}

/// What to do about lost elements.
#[derive(Default)]
pub(crate) struct Marks<'a> {
    /// Whether they are counted by class.
    pub(super) counts: bool,
    /// Which elements of the source are not null.
    pub(super) source: Option<Validity<'a>>,
    /// Where to write which elements are not null afterwards.
    pub(super) validity: Option<&'a mut [u8]>,
    /// Whether zeros are written for them.
    pub(super) clears: bool,
    /// Which elements are refused, if any.
    pub(super) stops: Option<Stop>,
    /// Whether nobody wants the results.
    pub(super) drops_results: bool,
    /// Whether, with `drops_results`, the first inexact element need not be found, either.
    pub(super) knows_inexact: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Lost,
    /// Lost or inexact elements.
    Inexact,
}

impl<'a> Marks<'a> {
    pub(crate) const REPORT: Self = Self {
        counts: true,
        source: None,
        validity: None,
        clears: false,
        stops: None,
        drops_results: false,
        knows_inexact: false,
    };

    /// Returns marks for a report, or for an error where some elements are refused.
    pub(super) fn stopping(stops: Option<Stop>) -> Self {
        Self { counts: stops.is_none(), stops, ..Self::default() }
    }

    pub(crate) fn nulls(source: Option<Validity<'a>>, validity: &'a mut [u8]) -> Self {
        Self { source, validity: Some(validity), clears: true, ..Self::default() }
    }

    /// Whether inexact elements matter.
    pub(super) fn counts_inexact(&self) -> bool {
        self.counts || self.stops == Some(Stop::Inexact)
    }

    /// Checks that the bitmaps have the size of `n` elements.
    pub(super) fn check(&self, n: usize) -> Result<(), Error> {
        if let Some(source) = &self.source {
            let bits = n.checked_add(source.offset);
            let needed = bits.map_or(usize::MAX, |bits| bits.div_ceil(8));
            let given = source.bytes.len();
            if given < needed {
                return Err(Error::BitmapSize { side: Side::Source, elements: n, needed, given });
            }
        }
        match &self.validity {
            Some(bits) if bits.len() != n.div_ceil(8) => {
                let (needed, given) = (n.div_ceil(8), bits.len());
                Err(Error::BitmapSize { side: Side::Destination, elements: n, needed, given })
            }
            _ => Ok(()),
        }
    }

    /// Returns those of `elements` that are not null in the source. The first bit is that of the element `first`, a multiple of 8.
    pub(super) fn there(&self, first: usize, mut elements: Bits) -> Bits {
        if let Some(source) = &self.source {
            for (i, word) in elements.iter_mut().enumerate().filter(|(_, word)| **word != 0) {
                *word &= source.word(first + 64 * i);
            }
        }
        elements
    }

    /// Writes the bits of `n` elements from `first` on, a multiple of 8.
    pub(super) fn write(&mut self, first: usize, n: usize, lost: Option<&Bits>) {
        let Some(validity) = &mut self.validity else { return };
        let bytes = &mut validity[first / 8..(first + n).div_ceil(8)];
        match lost {
            None => bytes.fill(0xFF),
            Some(lost) => {
                let (words, rest) = bytes.as_chunks_mut();
                let mut lost = lost.iter().map(|word| (!word).to_le_bytes());
                words.iter_mut().zip(&mut lost).for_each(|(word, valid)| *word = valid);
                rest.iter_mut().zip(lost.next().unwrap_or_default()).for_each(|(byte, valid)| *byte = valid);
            }
        }
        if let Some(source) = &self.source {
            source.from_bit(source.offset + first).and_into(bytes);
        }
    }

    /// Clears unused bits, and returns how many of `n` elements are null. `lost` of them were lost.
    pub(super) fn finish(self, n: usize, lost: usize) -> usize {
        let Some(validity) = self.validity else { return 0 };
        if let (Some(last), rest @ 1..) = (validity.last_mut(), n % 8) {
            *last &= (1 << rest) - 1;
        }
        if self.source.is_none() {
            return lost;
        }
        let (words, rest) = validity.as_chunks();
        let ones = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones());
        n - ones.chain(rest.iter().map(|byte| byte.count_ones())).map(|ones| ones as usize).sum::<usize>()
    }
}
