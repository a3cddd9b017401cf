//! Where texts come from: a slice of strings, or one buffer with offsets.

use core::fmt;

use super::error::Error;

/// The type of the offsets of an Arrow-style buffer: i32 (Arrow's `Utf8`) or i64 (`LargeUtf8`). Sealed.
///
/// ```
/// use lanecast::text::parse_offsets;
/// let mut out = [0u8; 2];
/// parse_offsets(&[0i32, 1, 3], b"712", &mut out)?;
/// assert_eq!(out, [7, 12]);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
pub trait Offset: Copy + Ord + Send + Sync + fmt::Debug + sealed::Offset {}

pub(crate) mod sealed {
    /// Conversions between offsets and indices of bytes.
    pub trait Offset: Sized {
        fn to_usize(self) -> Option<usize>;
        fn from_usize(place: usize) -> Option<Self>;
        /// Converts an index that is known to fit.
        fn of(place: usize) -> Self;
        /// The index of an offset; for one that is negative or does not fit, an index beyond all bytes.
        fn place(self) -> usize;
        /// The value, for errors.
        fn value(self) -> i64;
    }
}

macro_rules! offsets {
    ($($t:ty),*) => {$(
        impl Offset for $t {}

        impl sealed::Offset for $t {
            #[inline]
            fn to_usize(self) -> Option<usize> {
                self.try_into().ok()
            }
            #[inline]
            fn from_usize(place: usize) -> Option<Self> {
                place.try_into().ok()
            }
            #[inline]
            fn of(place: usize) -> Self {
                place as Self
            }
            #[inline]
            fn place(self) -> usize {
                // An offset that does not fit in a usize of 32 bits is beyond all bytes.
                if size_of::<usize>() < size_of::<Self>() {
                    self.try_into().unwrap_or(usize::MAX)
                } else {
                    self as usize
                }
            }
            fn value(self) -> i64 {
                self.into()
            }
        }
    )*};
}
offsets!(i32, i64);

/// A source of texts, which is read in chunks.
pub(super) trait Source: Sync {
    fn len(&self) -> usize;
    /// The `n` texts from `first` on.
    fn chunk(&self, first: usize, n: usize) -> Result<impl Chunk, Error>;
}

/// Some consecutive texts.
pub(super) trait Chunk {
    /// The text at an index of the chunk. None if its offsets or bytes are wrong: [`fault`](Chunk::fault) returns the error.
    fn get(&self, index: usize) -> Option<&str>;
    fn fault(&self) -> Error;
}

/// A slice of strings.
pub(super) struct Each<'a, S>(pub(super) &'a [S]);

impl<S: AsRef<str> + Sync> Source for Each<'_, S> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn chunk(&self, first: usize, n: usize) -> Result<impl Chunk, Error> {
        Ok(Each(&self.0[first..first + n]))
    }
}

impl<S: AsRef<str>> Chunk for Each<'_, S> {
    #[inline]
    fn get(&self, index: usize) -> Option<&str> {
        self.0.get(index).map(AsRef::as_ref)
    }

    fn fault(&self) -> Error {
        Error::NotUtf8 { index: 0 }
    }
}

/// Texts in one buffer: text `i` lies between the offsets `i` and `i + 1`.
#[derive(Clone, Copy)]
pub(super) struct Joined<'a, O> {
    offsets: &'a [O],
    bytes: &'a [u8],
}

impl<'a, O: Offset> Joined<'a, O> {
    pub(super) fn new(offsets: &'a [O], bytes: &'a [u8]) -> Result<Self, Error> {
        // Checks the first offset, because no text is read if there is no other. The others are checked when texts are read.
        match offsets.first().and_then(|first| first.to_usize()) {
            Some(place) if place <= bytes.len() => Ok(Self { offsets, bytes }),
            _ => Err(Self::wrong(offsets, 0, 0, bytes)),
        }
    }

    /// The error of a wrong offset.
    #[cold]
    fn wrong(offsets: &[O], index: usize, least: usize, bytes: &[u8]) -> Error {
        let offset = offsets.get(index).map(|offset| offset.value());
        Error::Offset { index, offset, least, bytes: bytes.len() }
    }

    /// Finds the error in the texts from `first` on, after one could not be read.
    #[cold]
    fn fault(&self, first: usize) -> Error {
        let mut last = 0;
        for (index, offset) in self.offsets.iter().enumerate().skip(first) {
            match offset.to_usize() {
                Some(place) if last <= place && place <= self.bytes.len() => last = place,
                _ => return Self::wrong(self.offsets, index, last, self.bytes),
            }
        }
        // This also finds two texts that share the bytes of one character.
        let is_text =
            |pair: &[O]| core::str::from_utf8(&self.bytes[pair[0].place()..pair[1].place()]).is_ok();
        let wrong = self.offsets[first..].windows(2).position(|pair| !is_text(pair));
        Error::NotUtf8 { index: first + wrong.unwrap_or(0) }
    }
}

impl<O: Offset> Source for Joined<'_, O> {
    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Checks that a chunk as a whole is UTF-8, just before it is parsed, so that it is then in the cache. Slicing it for each text
    /// checks that the offsets ascend and lie between characters.
    fn chunk(&self, first: usize, n: usize) -> Result<impl Chunk, Error> {
        let offsets = &self.offsets[first..=first + n];
        let places = (offsets[0].to_usize(), offsets[n].to_usize());
        let (Some(start), Some(end)) = places else { return Err(self.fault(first)) };
        let text = self.bytes.get(start..end).and_then(|bytes| core::str::from_utf8(bytes).ok());
        let text = text.ok_or_else(|| self.fault(first))?;
        Ok(Part { all: self, first, offsets, text, start })
    }
}

/// A chunk of texts in one buffer.
struct Part<'a, O> {
    all: &'a Joined<'a, O>,
    first: usize,
    offsets: &'a [O],
    /// The bytes from the first offset to the last, which are UTF-8.
    text: &'a str,
    start: usize,
}

impl<O: Offset> Chunk for Part<'_, O> {
    #[inline]
    fn get(&self, index: usize) -> Option<&str> {
        // An offset below the first wraps around to a place beyond the end of `text`.
        let place = |index: usize| self.offsets[index].place().wrapping_sub(self.start);
        self.text.get(place(index)..place(index + 1))
    }

    fn fault(&self) -> Error {
        self.all.fault(self.first)
    }
}
