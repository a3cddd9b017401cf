//! Numbers as text: texts to elements, and elements to texts (feature `text`).
//!
//! | from, to | call |
//! |---|---|
//! | `&[impl AsRef<str>]` to a slice | [`parse_slice`], [`parse_slice_with`] |
//! | offsets and bytes, as in Arrow, to a slice | [`parse_offsets`] |
//! | offsets and bytes to bytes whose dtype is known at run time | [`parse_bytes`] |
//! | a slice to `Vec<String>` | [`format_slice`] |
//! | a slice to offsets and bytes | [`format_offsets`] |
//! | bytes whose dtype is known at run time to offsets and bytes | [`format_bytes`] |
//!
//! All dtypes but the complex ones can be read and written. Large batches run on all threads of the rayon pool with the
//! feature `parallel`, with the same results and the same errors. Nulls are not known here: the text of a null must be that of a
//! number, such as `0`, and a null is written as the number that lies there.
//!
//! # Reading
//!
//! ASCII whitespace around a number is skipped. A number is an optional sign and decimal digits with an optional
//! point (also `5.` and `.5`) and an optional exponent; or `inf`, `infinity` or `nan` in any case. There are no
//! hexadecimal numbers and no separators, and nothing may follow the number.
//!
//! | to | becomes |
//! |---|---|
//! | a float | the number, rounded once to the dtype by the options, from all of its digits; overflow, NaN and Inf as in a cast of that number |
//! | an integer | the number, rounded by `int_rounding` (also if it has 4 bits or fewer; default: toward zero, 100.5 is 100, 1e3 is 1000); an error if it does not fit, and for NaN and Inf |
//! | bool | true or false for `true` and `false` in any case; else true unless the number is 0 |
//!
//! An error names the first wrong text and its index; but the bytes of 4,096 texts at a time are checked to be UTF-8 before the first of these texts
//! is read. After an error the contents of the destination are unspecified.
//!
//! # Writing
//!
//! A float is written as the shortest decimal that reads as the same element of *its own* dtype (as if that had no largest value), and of several the
//! nearest, with ties to the even one: a third is 0.33333334 as float32, 0.3333 as float16 and 0.34 as float8_e4m3fn. Its digits are written out
//! ([`Notation`]), with `.0` after a whole number. Special values are `NaN`, `INF`, `-INF` and `-0.0`. Integers are
//! decimal; bool is `1` or `0`. `INF` only reads as Inf of float8 with `saturate(false)`: as in every cast, it becomes the largest value otherwise.
//! Texts of float8_e8m0fnu read back with the default options and with `E8m0Rounding::Nearest`; the smallest, 5e-39 for 2^-127, reads as NaN with
//! `saturate(false)`.
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

mod chunks;
mod decimal;
mod error;
mod format;
mod packed;
mod parse;
mod source;

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::formats::dtype::DType;
use crate::formats::element::Element;
use crate::formats::options::CastOptions;

pub use error::{Error, Reason};
pub use format::Notation;
pub use source::Offset;

use chunks::{CHUNK, each_chunk, each_range, join, no_memory, parse_chunk, refuse_complex, room};
use format::{LONGEST, Writer};
use parse::{Grammar, parse};
#[cfg(feature = "onnx")]
use source::Chunk;
use source::{Each, Joined, Source};

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
/// There are not as many texts as elements; a text is not a number, or not one that the dtype holds; or the dtype is complex.
pub fn parse_slice<S: AsRef<str> + Sync, D: Element>(src: &[S], dst: &mut [D]) -> Result<(), Error> {
    parse_slice_with(src, dst, &CastOptions::new())
}

/// Parses texts into a slice.
///
/// Only the options for rounding, saturation, and NaN in float4 and float6 have an effect.
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

/// Parses texts that lie in one buffer, as in Arrow, with the default options: text `i` is
/// `bytes[offsets[i]..offsets[i + 1]]`. The first offset need not be 0.
///
/// ```
/// use lanecast::text::parse_offsets;
/// let mut out = [0f64; 2];
/// parse_offsets(&[0i32, 2, 5], b"-17.5", &mut out)?;
/// assert_eq!(out, [-1.0, 7.5]);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// As [`parse_offsets_with`].
pub fn parse_offsets<O: Offset, D: Element>(offsets: &[O], bytes: &[u8], dst: &mut [D]) -> Result<(), Error> {
    parse_offsets_with(offsets, bytes, dst, &CastOptions::new())
}

/// Parses texts that lie in one buffer, as in Arrow: text `i` is `bytes[offsets[i]..offsets[i + 1]]`.
///
/// The first offset need not be 0.
///
/// ```
/// use lanecast::{CastOptions, text::parse_offsets_with};
/// let mut out = [0i16; 3];
/// parse_offsets_with(&[0i64, 2, 3, 8], b"-17100.5", &mut out, &CastOptions::new())?;
/// assert_eq!(out, [-1, 7, 100]);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// As [`parse_slice`]; or the offsets do not ascend, go beyond the bytes, or delimit bytes that are not UTF-8.
pub fn parse_offsets_with<O: Offset, D: Element>(
    offsets: &[O],
    bytes: &[u8],
    dst: &mut [D],
    options: &CastOptions,
) -> Result<(), Error> {
    parse_all(&Joined::new(offsets, bytes)?, dst, options)
}

/// Parses texts that lie in one buffer into elements whose dtype is known at run time, with the default options.
///
/// ```
/// use lanecast::{DType, text::parse_bytes};
/// let mut out = [0u8; 2];
/// parse_bytes(&[0i32, 3, 5], b"2551", &mut out, DType::U8).expect_err("behind the bytes");
/// parse_bytes(&[0i32, 3, 4], b"2551", &mut out, DType::U8)?;
/// assert_eq!(out, [255, 1]);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// As [`parse_bytes_with`].
pub fn parse_bytes<O: Offset>(offsets: &[O], bytes: &[u8], dst: &mut [u8], to: DType) -> Result<(), Error> {
    parse_bytes_with(offsets, bytes, dst, to, &CastOptions::new())
}

/// Parses texts that lie in one buffer into elements whose dtype is known at run time. The options say how
/// the destination is packed, and its byte order.
///
/// ```
/// use lanecast::{CastOptions, DType, text::parse_bytes_with};
/// let mut packed = [0u8; 2];
/// parse_bytes_with(&[0i32, 3, 5, 6], b"1.5-23", &mut packed, DType::F4E2M1, &CastOptions::new())?;
/// assert_eq!(packed, [0xC3, 0x05]);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// As [`parse_offsets`]; or the destination does not have the size of as many elements as there are texts, or
/// the instruction set that the options or `LANECAST_ISA` name is not available.
pub fn parse_bytes_with<O: Offset>(
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
/// The dtype is complex, or there is no memory for the texts.
pub fn format_slice<S: Element>(src: &[S]) -> Result<Vec<String>, Error> {
    format_slice_with(src, Notation::Plain)
}

/// Formats a slice in a notation, one string for each element.
///
/// ```
/// use lanecast::text::{format_slice_with, Notation};
/// assert_eq!(format_slice_with(&[1e-7, 0.5], Notation::Scientific)?, ["1e-7", "0.5"]);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// The dtype is complex, or there is no memory for the texts.
pub fn format_slice_with<S: Element>(src: &[S], notation: Notation) -> Result<Vec<String>, Error> {
    refuse_complex(S::DTYPE)?;
    let writer = Writer::new(S::DTYPE, src.len(), notation);
    let strings = |chunk: Range<usize>| {
        let (mut strings, mut text) = (room(chunk.len())?, room(LONGEST)?);
        for &element in &src[chunk] {
            text.clear();
            writer.write(S::DTYPE, element.to_codes()[0], &mut text);
            let mut string = String::new();
            string.try_reserve_exact(text.len()).map_err(|_| no_memory(text.len()))?;
            string.push_str(core::str::from_utf8(&text).unwrap_or_default());
            strings.push(string);
        }
        Ok(strings)
    };
    let mut parts = each_range(src.len(), strings)?;
    if parts.len() < 2 {
        return Ok(parts.pop().unwrap_or_default());
    }
    let mut all = room(src.len())?;
    all.extend(parts.into_iter().flatten());
    Ok(all)
}

/// Formats a slice into one buffer, as in Arrow: text `i` is `bytes[offsets[i]..offsets[i + 1]]`.
///
/// ```
/// use lanecast::text::format_offsets;
/// let (offsets, bytes) = format_offsets::<u8, i64>(&[7, 10])?;
/// assert_eq!((&offsets[..], &bytes[..]), (&[0, 1, 3][..], &b"710"[..]));
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// As [`format_offsets_with`].
pub fn format_offsets<S: Element, O: Offset>(src: &[S]) -> Result<(Vec<O>, Vec<u8>), Error> {
    format_offsets_with(src, Notation::Plain)
}

/// Formats a slice into one buffer in a notation, as in Arrow: text `i` is `bytes[offsets[i]..offsets[i + 1]]`.
///
/// ```
/// use lanecast::text::{format_offsets_with, Notation};
/// let (offsets, bytes) = format_offsets_with::<f32, i32>(&[1.0, -0.25], Notation::Plain)?;
/// assert_eq!((&offsets[..], &bytes[..]), (&[0, 3, 8][..], &b"1.0-0.25"[..]));
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// The dtype is complex, there is more text than the offsets can count, or there is no memory for it.
pub fn format_offsets_with<S: Element, O: Offset>(
    src: &[S],
    notation: Notation,
) -> Result<(Vec<O>, Vec<u8>), Error> {
    refuse_complex(S::DTYPE)?;
    let writer = Writer::new(S::DTYPE, src.len(), notation);
    join(src.len(), &|chunk, texts| {
        let mut elements = src[chunk].iter();
        elements.try_for_each(|x| texts.push(|out| writer.write(S::DTYPE, x.to_codes()[0], out)))
    })
}

/// Formats `n` elements whose dtype is known at run time, with the default options.
///
/// ```
/// use lanecast::{DType, text::format_bytes};
/// let (offsets, bytes) = format_bytes::<i32>(&[0x21, 0x03], DType::U4, 3)?;
/// assert_eq!((&offsets[..], &bytes[..]), (&[0, 1, 2, 3][..], &b"123"[..]));
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// As [`format_bytes_with`].
pub fn format_bytes<O: Offset>(src: &[u8], from: DType, n: usize) -> Result<(Vec<O>, Vec<u8>), Error> {
    format_bytes_with(src, from, n, &CastOptions::new(), Notation::Plain)
}

/// Formats `n` elements whose dtype is known at run time. The options say how the source is packed, and its
/// byte order.
///
/// ```
/// use lanecast::{CastOptions, DType, text::{format_bytes_with, Notation}};
/// let options = CastOptions::new();
/// let (offsets, bytes) = format_bytes_with::<i64>(&[0xC3, 0x05], DType::F4E2M1, 3, &options, Notation::Plain)?;
/// assert_eq!((&offsets[..], &bytes[..]), (&[0, 3, 7, 10][..], &b"1.5-2.03.0"[..]));
/// # Ok::<(), lanecast::text::Error>(())
/// ```
///
/// # Errors
///
/// As [`format_offsets`]; or the source does not have the size of `n` elements, or the instruction set that the
/// options or `LANECAST_ISA` name is not available.
pub fn format_bytes_with<O: Offset>(
    src: &[u8],
    from: DType,
    n: usize,
    options: &CastOptions,
    notation: Notation,
) -> Result<(Vec<O>, Vec<u8>), Error> {
    packed::format(src, from, n, options, notation)
}

/// Checks that these are the offsets of texts in these bytes.
#[cfg(feature = "onnx")]
pub(crate) fn check_offsets<O: Offset>(offsets: &[O], bytes: &[u8]) -> Result<(), Error> {
    let all = Joined::new(offsets, bytes)?;
    let chunk = all.chunk(0, all.len())?;
    if (0..all.len()).all(|index| chunk.get(index).is_some()) { Ok(()) } else { Err(chunk.fault()) }
}

fn parse_all<D: Element>(src: &impl Source, dst: &mut [D], options: &CastOptions) -> Result<(), Error> {
    refuse_complex(D::DTYPE)?;
    if src.len() != dst.len() {
        return Err(Error::LengthMismatch { texts: src.len(), elements: dst.len() });
    }
    let grammar = Grammar::new(D::DTYPE, options);
    each_chunk(dst, CHUNK, &|first, chunk| {
        parse_chunk(src, first, chunk, D::DTYPE, |text| parse(text, D::DTYPE, &grammar))
    })
}
