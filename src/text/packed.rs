//! Elements as bytes, of a dtype that is known at run time: a chunk at a time becomes elements of its type,
//! and a cast to the same dtype does the layout.

use alloc::vec::Vec;

use half::{bf16, f16};
use num_complex::Complex;

use crate::cast::{check_size, loader, storer};
use crate::error::Side;
use crate::formats::dtype::DType;
use crate::formats::element::*;
use crate::formats::list::dtypes;
use crate::formats::options::CastOptions;

use super::chunks::{CHUNK, each_chunk, join, parse_chunk, refuse_complex, room};
use super::error::Error;
use super::format::{Notation, Writer};
use super::parse::Grammar;
use super::source::{Joined, Offset, Source};

pub(super) fn parse<O: Offset>(
    src: &Joined<'_, O>,
    dst: &mut [u8],
    to: DType,
    options: &CastOptions,
) -> Result<(), Error> {
    macro_rules! by_dtype {
        ($($variant:ident = $code:literal, $name:literal, $element:ty, $kind:expr;)*) => {
            match to { $(DType::$variant => parse_to::<$element>(src, dst, options),)* }
        };
    }
    dtypes!(by_dtype)
}

fn parse_to<D: Element>(src: &impl Source, dst: &mut [u8], options: &CastOptions) -> Result<(), Error> {
    refuse_complex(D::DTYPE)?;
    check_size(Side::Destination, D::DTYPE, options.dst_packing, src.len(), dst.len())?;
    let grammar = Grammar::new(D::DTYPE, options);
    // No dtype has elements so large that a chunk of them overflows.
    let bytes = D::DTYPE.byte_len(CHUNK, options.dst_packing).unwrap_or(CHUNK);
    let storer = storer(D::DTYPE, options)?;
    each_chunk(dst, bytes, &|first_byte, chunk| {
        let first = first_byte / bytes * CHUNK;
        let mut elements = zeros::<D>(CHUNK.min(src.len() - first))?;
        parse_chunk(src, first, &mut elements, &grammar)?;
        Ok(storer.fill(&elements, chunk.into(), elements.len()).map(drop)?)
    })
}

pub(super) fn format<O: Offset>(
    src: &[u8],
    from: DType,
    n: usize,
    options: &CastOptions,
    notation: Notation,
) -> Result<(Vec<O>, Vec<u8>), Error> {
    macro_rules! by_dtype {
        ($($variant:ident = $code:literal, $name:literal, $element:ty, $kind:expr;)*) => {
            match from { $(DType::$variant => format_from::<$element, O>(src, n, options, notation),)* }
        };
    }
    dtypes!(by_dtype)
}

fn format_from<S: Element, O: Offset>(
    src: &[u8],
    n: usize,
    options: &CastOptions,
    notation: Notation,
) -> Result<(Vec<O>, Vec<u8>), Error> {
    refuse_complex(S::DTYPE)?;
    check_size(Side::Source, S::DTYPE, options.src_packing, n, src.len())?;
    let writer = Writer::new(S::DTYPE, n, notation);
    let bytes = |n| S::DTYPE.byte_len(n, options.src_packing).unwrap_or(src.len());
    let loader = loader(S::DTYPE, options)?;
    join(n, &|chunk, texts| {
        let mut elements = zeros::<S>(chunk.len())?;
        loader.fill(&src[bytes(chunk.start)..bytes(chunk.end)], (&mut elements[..]).into(), chunk.len())?;
        elements.iter().try_for_each(|&element| texts.push(&writer, element))
    })
}

/// Room for the elements of a chunk.
fn zeros<T: Element>(len: usize) -> Result<Vec<T>, Error> {
    let mut elements = room(len)?;
    elements.resize(len, T::from_codes([0; 2]));
    Ok(elements)
}
