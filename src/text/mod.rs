//! Numbers as text: texts to elements, and elements to texts (feature `text`).
//!
//! | from, to | call |
//! |---|---|
//! | `&[impl AsRef<str>]` to a slice | [`parse_slice`], [`parse_slice_with`] |
//! | offsets and bytes, as Arrow has them, to a slice | [`parse_offsets`] |
//! | the same to bytes whose dtype is known at run time | [`parse_bytes`] |
//! | a slice to `Vec<String>` | [`format_slice`] |
//! | a slice to offsets and bytes | [`format_offsets`] |
//! | bytes whose dtype is known at run time to offsets and bytes | [`format_bytes`] |
//!
//! Every dtype but the complex ones has text. Large batches run on all threads of the rayon pool under the
//! feature `parallel`, with the same results and the same errors.
//!
//! # Reading
//!
//! ASCII whitespace around a number is skipped. A number is an optional sign and decimal digits with an optional
//! point (`5.` and `.5` too) and an optional exponent; or `inf`, `infinity` or `nan` in any case. There are no
//! hexadecimal numbers, no separators, and nothing may follow.
//!
//! | to | becomes |
//! |---|---|
//! | a float | the number, rounded once to the target by the options, from as many digits as there are; overflow, NaN and Inf as a cast of that number |
//! | an integer | the number, rounded by `int_rounding` (default: toward zero, 100.5 is 100, 1e3 is 1000); an error if it does not fit, and for NaN and Inf |
//! | bool | `true` and `false` in any case; else true unless the number is 0 |
//!
//! An error names the first wrong text and its place. What the destination holds then is not specified.
//!
//! # Writing
//!
//! A float is the shortest decimal that reads as the same element of *its own* dtype, and of those the nearest (of
//! two equally near the even one): a third is 0.33333334 as float32, 0.3333 as float16 and 0.34 as float8_e4m3fn. Its digits are written out
//! ([`Notation`]), with `.0` after a whole number. Special values are `NaN`, `INF`, `-INF` and `-0.0`. Integers are
//! decimal; bool is `1` or `0`.
//!
//! ```
//! use lanecast::{bits::F8E4M3FN, bf16, text};
//!
//! let mut out = [bf16::ZERO; 3];
//! text::parse_slice(&["3.14159", " -1e2 ", "nan"], &mut out)?;
//! assert_eq!(text::format_slice(&out)?, ["3.14", "-100.0", "NaN"]);
//!
//! // Rounded once. By way of a float32 this would be a tie, and become 1.
//! let mut out = [F8E4M3FN::default()];
//! text::parse_slice(&["1.06250000000000000001"], &mut out)?;
//! assert_eq!(out[0].to_f32(), 1.125);
//! # Ok::<(), text::Error>(())
//! ```

mod decimal;
mod error;
mod format;
mod packed;
mod parse;
mod source;

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::formats::dtype::{DType, Kind};
use crate::formats::element::Element;
use crate::formats::options::CastOptions;
use crate::threads;

pub use error::{Error, Reason};
pub use format::Notation;
pub use source::Offset;

use format::{LONGEST, Writer};
use parse::{Rules, parse};
use source::{Chunk, Each, Joined, Source};

/// Elements in a chunk, which one thread does at a time: a multiple of 8, so that chunks of packed elements are
/// whole bytes. It takes a thread some 100 us, against the 17 us that it can take to enter the pool.
const CHUNK: usize = 4096;

/// Parses texts into a slice with the default options.
///
/// ```
/// use lanecast::text::parse_slice;
/// let mut out = [0f32; 3];
/// parse_slice(&["0.1", "-INF", ".5e1"], &mut out)?;
/// assert_eq!(out, [0.1, f32::NEG_INFINITY, 5.0]);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// There are not as many texts as elements; a text is no number, or none of the dtype; the dtype is complex.
pub fn parse_slice<S: AsRef<str> + Sync, D: Element>(src: &[S], dst: &mut [D]) -> Result<(), Error> {
    parse_slice_with(src, dst, &CastOptions::new())
}

/// Parses texts into a slice.
///
/// Of the options, those of the roundings, of saturation and of NaN in float4 and float6 matter.
///
/// ```
/// use lanecast::{bits::F8E5M2, CastOptions, Rounding, text::parse_slice_with};
/// let mut out = [F8E5M2::default(); 2];
/// let options = CastOptions::new().saturate(false).rounding(Rounding::Up);
/// parse_slice_with(&["1.0000000000000000000001", "1e9"], &mut out, &options)?;
/// assert_eq!(out.map(|x| x.to_f32()), [1.25, f32::INFINITY]);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// As [`parse_slice`].
pub fn parse_slice_with<S: AsRef<str> + Sync, D: Element>(
    src: &[S],
    dst: &mut [D],
    options: &CastOptions,
) -> Result<(), Error> {
    parse_all(&Each(src), dst, options)
}

/// Parses texts that lie in one buffer, as Arrow has them: text `i` is `bytes[offsets[i]..offsets[i + 1]]`.
///
/// The first offset need not be 0.
///
/// ```
/// use lanecast::{CastOptions, text::parse_offsets};
/// let mut out = [0i16; 3];
/// parse_offsets(&[0i64, 2, 3, 8], b"-17100.5", &mut out, &CastOptions::new())?;
/// assert_eq!(out, [-1, 7, 100]);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// As [`parse_slice`]; or the offsets do not ascend, go beyond the bytes, or enclose what is not UTF-8.
pub fn parse_offsets<O: Offset, D: Element>(
    offsets: &[O],
    bytes: &[u8],
    dst: &mut [D],
    options: &CastOptions,
) -> Result<(), Error> {
    parse_all(&Joined::new(offsets, bytes)?, dst, options)
}

/// Parses texts that lie in one buffer into elements whose dtype is known at run time. The options say how
/// the destination is packed, and its byte order.
///
/// ```
/// use lanecast::{CastOptions, DType, text::parse_bytes};
/// let mut packed = [0u8; 2];
/// parse_bytes(&[0i32, 3, 5, 6], b"1.5-23", &mut packed, DType::F4E2M1, &CastOptions::new())?;
/// assert_eq!(packed, [0xC3, 0x05]);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// As [`parse_offsets`]; or the destination does not have the size of as many elements as there are texts, or
/// the instruction set that the options or `LANECAST_ISA` name is not available.
pub fn parse_bytes<O: Offset>(
    offsets: &[O],
    bytes: &[u8],
    dst: &mut [u8],
    to: DType,
    options: &CastOptions,
) -> Result<(), Error> {
    packed::parse(&Joined::new(offsets, bytes)?, dst, to, options)
}

/// Formats a slice, one string for each element.
///
/// ```
/// use lanecast::{f16, text::format_slice};
/// assert_eq!(format_slice(&[1.0 / 3.0, 1e-7, f64::INFINITY])?, ["0.3333333333333333", "0.0000001", "INF"]);
/// assert_eq!(format_slice(&[f16::MAX, f16::NEG_ZERO])?, ["65500.0", "-0.0"]);
/// assert_eq!(format_slice(&[u64::MAX])?, ["18446744073709551615"]);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// The dtype is complex.
pub fn format_slice<S: Element>(src: &[S]) -> Result<Vec<String>, Error> {
    refuse_complex(S::DTYPE)?;
    let writer = Writer::new(S::DTYPE, src.len(), Notation::Plain);
    let strings = |chunk: Range<usize>| {
        let mut text = Vec::new();
        let mut string = |&element: &S| {
            text.clear();
            writer.write(element, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        };
        Ok(src[chunk].iter().map(&mut string).collect::<Vec<_>>())
    };
    Ok(each_range(src.len(), strings)?.concat())
}

/// Formats a slice into one buffer, as Arrow has it: text `i` is `bytes[offsets[i]..offsets[i + 1]]`.
///
/// ```
/// use lanecast::text::{format_offsets, Notation};
/// let (offsets, bytes) = format_offsets::<f32, i32>(&[1.0, -0.25], Notation::Plain)?;
/// assert_eq!((&offsets[..], &bytes[..]), (&[0, 3, 8][..], &b"1.0-0.25"[..]));
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// The dtype is complex, there is more text than the offsets can count, or no memory for it.
pub fn format_offsets<S: Element, O: Offset>(
    src: &[S],
    notation: Notation,
) -> Result<(Vec<O>, Vec<u8>), Error> {
    refuse_complex(S::DTYPE)?;
    let writer = Writer::new(S::DTYPE, src.len(), notation);
    join(src.len(), &|chunk, texts| src[chunk].iter().try_for_each(|&element| texts.push(&writer, element)))
}

/// Formats `n` elements whose dtype is known at run time. The options say how the source is packed, and its
/// byte order.
///
/// ```
/// use lanecast::{CastOptions, DType, text::{format_bytes, Notation}};
/// let options = CastOptions::new();
/// let (offsets, bytes) = format_bytes::<i64>(&[0xC3, 0x05], DType::F4E2M1, 3, &options, Notation::Plain)?;
/// assert_eq!((&offsets[..], &bytes[..]), (&[0, 3, 7, 10][..], &b"1.5-2.03.0"[..]));
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// As [`format_offsets`]; or the source does not have the size of `n` elements, or the instruction set that the
/// options or `LANECAST_ISA` name is not available.
pub fn format_bytes<O: Offset>(
    src: &[u8],
    from: DType,
    n: usize,
    options: &CastOptions,
    notation: Notation,
) -> Result<(Vec<O>, Vec<u8>), Error> {
    packed::format(src, from, n, options, notation)
}

/// Are these the offsets of texts in these bytes?
#[cfg(feature = "onnx")]
pub(crate) fn check_offsets<O: Offset>(offsets: &[O], bytes: &[u8]) -> Result<(), Error> {
    let all = Joined::new(offsets, bytes)?;
    let chunk = all.chunk(0, all.len())?;
    if (0..all.len()).all(|index| chunk.get(index).is_some()) { Ok(()) } else { Err(chunk.fault()) }
}

fn refuse_complex(dtype: DType) -> Result<(), Error> {
    match dtype.kind() {
        Kind::Complex(_) => Err(Error::Complex { dtype }),
        _ => Ok(()),
    }
}

fn parse_all<D: Element>(src: &impl Source, dst: &mut [D], options: &CastOptions) -> Result<(), Error> {
    refuse_complex(D::DTYPE)?;
    if src.len() != dst.len() {
        return Err(Error::LengthMismatch { texts: src.len(), elements: dst.len() });
    }
    let rules = Rules::new(D::DTYPE, options);
    each_chunk(dst, CHUNK, &|first, chunk| parse_chunk(src, first, chunk, &rules))
}

/// Parses the texts from `first` on.
fn parse_chunk<D: Element>(
    src: &impl Source,
    first: usize,
    dst: &mut [D],
    rules: &Rules,
) -> Result<(), Error> {
    /// Kept out of the loop, whose registers it would take.
    #[cold]
    fn wrong(index: usize, text: &str, dtype: DType, reason: Reason) -> Error {
        Error::Element { index, text: text.to_owned(), dtype, reason }
    }

    let chunk = src.chunk(first, dst.len())?;
    for (i, element) in dst.iter_mut().enumerate() {
        let Some(text) = chunk.get(i) else { return Err(chunk.fault()) };
        match parse(text, rules) {
            Ok(parsed) => *element = parsed,
            Err(reason) => return Err(wrong(first + i, text, D::DTYPE, reason)),
        }
    }
    Ok(())
}

/// Texts in one buffer, and where each of them ends.
struct Texts<O> {
    ends: Vec<O>,
    bytes: Vec<u8>,
}

impl<O: Offset> Texts<O> {
    /// With room for the ends of so many.
    fn new(ends: usize) -> Result<Self, Error> {
        let mut texts = Self { ends: Vec::new(), bytes: Vec::new() };
        let reserved = texts.ends.try_reserve_exact(ends);
        reserved.map_err(|_| Error::Allocation { bytes: ends.saturating_mul(size_of::<O>()) })?;
        Ok(texts)
    }

    #[inline]
    fn push<S: Element>(&mut self, writer: &Writer, element: S) -> Result<(), Error> {
        if self.bytes.try_reserve(LONGEST).is_err() {
            return Err(Error::Allocation { bytes: self.bytes.len() });
        }
        writer.write(element, &mut self.bytes);
        // If the last fits, all do; `join` looks at the last.
        self.ends.push(O::of(self.bytes.len()));
        Ok(())
    }
}

/// What may fail on a part of the work. Behind a pointer, so that there is one of who calls it, and not one for each dtype.
type Part<'a, At, T> = &'a (dyn Fn(At, &mut T) -> Result<(), Error> + Sync);

/// Lets `write` append the texts of each range of `0..n`, and joins them.
fn join<O: Offset>(n: usize, write: Part<'_, Range<usize>, Texts<O>>) -> Result<(Vec<O>, Vec<u8>), Error> {
    let mut texts = Texts::new(n.saturating_add(1))?;
    texts.ends.push(O::of(0));
    if !pays(n.div_ceil(CHUNK)) {
        for start in (0..n).step_by(CHUNK) {
            write(start..n.min(start + CHUNK), &mut texts)?;
        }
    } else {
        let parts = each_range(n, |range| {
            let mut texts = Texts::new(range.len())?;
            write(range, &mut texts).map(|()| texts)
        })?;
        let bytes = parts.iter().map(|part| part.bytes.len()).sum();
        texts.bytes.try_reserve_exact(bytes).map_err(|_| Error::Allocation { bytes })?;
        for part in parts {
            let start = texts.bytes.len();
            texts.bytes.extend_from_slice(&part.bytes);
            texts.ends.extend(part.ends.iter().map(|end| O::of(start + end.place())));
        }
    }
    let bytes = texts.bytes.len();
    O::from_usize(bytes).ok_or(Error::OffsetOverflow { bytes })?;
    Ok((texts.ends, texts.bytes))
}

/// Calls `work` with each chunk and the place where it begins, on many threads if there are many chunks. The
/// error is that of the first chunk that has one.
fn each_chunk<T: Send>(data: &mut [T], size: usize, work: Part<'_, usize, [T]>) -> Result<(), Error> {
    if !pays(data.len().div_ceil(size)) {
        return data.chunks_mut(size).enumerate().try_for_each(|(i, chunk)| work(i * size, chunk));
    }
    let chunks: Vec<_> = data.chunks_mut(size).map(Mutex::new).collect();
    on_all_threads(chunks.len(), &|i| work(i * size, &mut unshared(&chunks[i])))
}

/// What `work` gives for the chunks of `0..n`, in order; or the error of the first that has one.
fn each_range<T: Send>(
    n: usize,
    work: impl Fn(Range<usize>) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let range = |i: usize| i * CHUNK..n.min((i + 1) * CHUNK);
    let chunks = 0..n.div_ceil(CHUNK);
    if !pays(chunks.len()) {
        return chunks.map(|i| work(range(i))).collect();
    }
    let results: Vec<_> = chunks.map(|_| Mutex::new(None)).collect();
    on_all_threads(results.len(), &|i| {
        *unshared(&results[i]) = Some(work(range(i))?);
        Ok(())
    })?;
    Ok(results.into_iter().filter_map(|one| one.into_inner().ok().flatten()).collect())
}

/// Calls `work` with the numbers of so many chunks, on all threads that there are. The error is that of the first chunk that
/// has one.
///
/// Behind a pointer, so that there is one of it, and not one for each dtype.
fn on_all_threads(chunks: usize, work: &(dyn Fn(usize) -> Result<(), Error> + Sync)) -> Result<(), Error> {
    /// A chunk that has an error, and that.
    type Wrong = Option<(usize, Error)>;

    let (first, wrong) = (AtomicUsize::new(usize::MAX), Mutex::new(Wrong::None));
    threads::each(chunks, &|i| {
        // Behind one that has an error, none matters.
        if i > first.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = work(i) {
            let mut wrong = unshared(&wrong);
            if wrong.as_ref().is_none_or(|&(other, _)| i < other) {
                first.store(i, Ordering::Relaxed);
                *wrong = Some((i, error));
            }
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    wrong.map_or(Ok(()), |(_, error)| Err(error))
}

/// What nobody panics under.
fn unshared<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Do so many chunks gain from a second thread, and is there one?
fn pays(chunks: usize) -> bool {
    chunks >= 4 && threads::count() > 1
}
