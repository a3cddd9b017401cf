//! Parses and formats elements whose dtype is known at run time. Each chunk is held as codes, one per u64, which are made integers of
//! the size of the dtype and back; a cast of the dtype to itself packs them and swaps their bytes. So the loops are compiled for each kind, not
//! for each dtype.

use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::cast::{Caster, check_size, loader, storer};
use crate::error::Side;
use crate::formats::dtype::{DType, FloatFormat, IntFormat, Kind};
use crate::formats::element::Element;
use crate::formats::options::CastOptions;

use super::chunks::{CHUNK, each_chunk, join, parse_chunk, room};
use super::error::{Error, Reason};
use super::format::{Notation, Writer};
use super::parse::{Grammar, parse_bool, parse_float, parse_int, parse_wide};
use super::source::{Joined, Offset, Source};

/// How dtypes of one kind are read and written.
trait Spelling: Copy + Sync {
    fn parse(self, text: &str, grammar: &Grammar) -> Result<u64, Reason>;
    fn write(self, writer: &Writer, code: u64, out: &mut Vec<u8>);
}

#[derive(Clone, Copy)]
struct Bool;

impl Spelling for Bool {
    #[inline(always)]
    fn parse(self, text: &str, grammar: &Grammar) -> Result<u64, Reason> {
        parse_bool(text, grammar)
    }

    #[inline(always)]
    fn write(self, writer: &Writer, code: u64, out: &mut Vec<u8>) {
        writer.bool(code, out);
    }
}

/// Integers, with their width in bits.
#[derive(Clone, Copy)]
struct Int<const SIGNED: bool>(u32);

impl<const SIGNED: bool> Spelling for Int<SIGNED> {
    #[inline(always)]
    fn parse(self, text: &str, grammar: &Grammar) -> Result<u64, Reason> {
        parse_int(text, IntFormat { bits: self.0, signed: SIGNED }, grammar)
    }

    #[inline(always)]
    fn write(self, writer: &Writer, code: u64, out: &mut Vec<u8>) {
        writer.int(IntFormat { bits: self.0, signed: SIGNED }, code, out);
    }
}

/// Floats of at most 16 bits.
#[derive(Clone, Copy)]
struct Narrow(DType, FloatFormat);

impl Spelling for Narrow {
    #[inline(always)]
    fn parse(self, text: &str, grammar: &Grammar) -> Result<u64, Reason> {
        parse_float(text, self.0, grammar)
    }

    #[inline(always)]
    fn write(self, writer: &Writer, code: u64, out: &mut Vec<u8>) {
        writer.narrow(self.1, code, out);
    }
}

#[derive(Clone, Copy)]
struct F32;

impl Spelling for F32 {
    #[inline(always)]
    fn parse(self, text: &str, grammar: &Grammar) -> Result<u64, Reason> {
        parse_wide::<f32>(text, grammar)
    }

    #[inline(always)]
    fn write(self, writer: &Writer, code: u64, out: &mut Vec<u8>) {
        writer.wide(f32::from_bits(code as u32), out);
    }
}

#[derive(Clone, Copy)]
struct F64;

impl Spelling for F64 {
    #[inline(always)]
    fn parse(self, text: &str, grammar: &Grammar) -> Result<u64, Reason> {
        parse_wide::<f64>(text, grammar)
    }

    #[inline(always)]
    fn write(self, writer: &Writer, code: u64, out: &mut Vec<u8>) {
        writer.wide(f64::from_bits(code), out);
    }
}

/// A pass over the elements of a dtype. [`Pass::of`] is generic over the spelling of their kind.
trait Pass: Sized {
    type Output;

    fn of(self, spelling: impl Spelling) -> Self::Output;

    /// Calls `of` for a dtype. None if it is complex.
    fn run(self, dtype: DType) -> Option<Self::Output> {
        Some(match dtype.kind() {
            Kind::Bool => self.of(Bool),
            Kind::Int(IntFormat { bits, signed: true }) => self.of(Int::<true>(bits)),
            Kind::Int(IntFormat { bits, signed: false }) => self.of(Int::<false>(bits)),
            Kind::Float(format) => match format.bits() {
                ..=16 => self.of(Narrow(dtype, format)),
                32 => self.of(F32),
                _ => self.of(F64),
            },
            Kind::Complex(_) => return None,
        })
    }
}

pub(super) fn parse<O: Offset>(
    src: &Joined<'_, O>,
    dst: &mut [u8],
    to: DType,
    options: &CastOptions,
) -> Result<(), Error> {
    let parsing = Parsing { src, dst, to, options };
    parsing.run(to).unwrap_or(Err(Error::Complex { dtype: to }))
}

struct Parsing<'a, S> {
    src: &'a S,
    dst: &'a mut [u8],
    to: DType,
    options: &'a CastOptions,
}

impl<S: Source> Pass for Parsing<'_, S> {
    type Output = Result<(), Error>;

    fn of(self, spelling: impl Spelling) -> Result<(), Error> {
        let Self { src, dst, to, options } = self;
        check_size(Side::Destination, to, options.dst_packing, src.len(), dst.len())?;
        let grammar = Grammar::new(to, options);
        // This does not overflow: a chunk is small.
        let bytes = to.byte_len(CHUNK, options.dst_packing).unwrap_or(CHUNK);
        let storer = storer(to, options)?;
        each_chunk(dst, bytes, &|first_byte, chunk| {
            let first = first_byte / bytes * CHUNK;
            let mut codes = zeros(CHUNK.min(src.len() - first))?;
            parse_chunk(src, first, &mut codes, to, |text| spelling.parse(text, &grammar))?;
            store(&storer, &codes, chunk)
        })
    }
}

pub(super) fn format<O: Offset>(
    src: &[u8],
    from: DType,
    n: usize,
    options: &CastOptions,
    notation: Notation,
) -> Result<(Vec<O>, Vec<u8>), Error> {
    let formatting = Formatting { src, from, n, options, notation, offsets: PhantomData };
    formatting.run(from).unwrap_or(Err(Error::Complex { dtype: from }))
}

struct Formatting<'a, O> {
    src: &'a [u8],
    from: DType,
    n: usize,
    options: &'a CastOptions,
    notation: Notation,
    offsets: PhantomData<O>,
}

impl<O: Offset> Pass for Formatting<'_, O> {
    type Output = Result<(Vec<O>, Vec<u8>), Error>;

    fn of(self, spelling: impl Spelling) -> Self::Output {
        let Self { src, from, n, options, notation, .. } = self;
        check_size(Side::Source, from, options.src_packing, n, src.len())?;
        let writer = Writer::new(from, n, notation);
        let bytes = |n| from.byte_len(n, options.src_packing).unwrap_or(src.len());
        let loader = loader(from, options)?;
        join(n, &|chunk, all| {
            let codes = load(&loader, &src[bytes(chunk.start)..bytes(chunk.end)], chunk.len())?;
            codes.iter().try_for_each(|&code| all.push(|out| spelling.write(&writer, code, out)))
        })
    }
}

/// Stores codes as elements.
#[inline(never)] // Once, not for each kind: to save code size.
fn store(storer: &Caster, codes: &[u64], dst: &mut [u8]) -> Result<(), Error> {
    fn of<E: Element>(storer: &Caster, codes: &[u64], dst: &mut [u8]) -> Result<(), Error> {
        let mut elements = zeros::<E>(codes.len())?;
        elements.iter_mut().zip(codes).for_each(|(element, &code)| *element = E::from_codes([code, 0]));
        Ok(storer.fill(&elements, dst.into(), codes.len()).map(drop)?)
    }

    match storer.to().itemsize() {
        1 => of::<u8>(storer, codes, dst),
        2 => of::<u16>(storer, codes, dst),
        4 => of::<u32>(storer, codes, dst),
        _ => of::<u64>(storer, codes, dst),
    }
}

/// Loads the codes of `n` elements.
#[inline(never)] // Once, not for each kind: to save code size.
fn load(loader: &Caster, src: &[u8], n: usize) -> Result<Vec<u64>, Error> {
    fn of<E: Element>(loader: &Caster, src: &[u8], n: usize) -> Result<Vec<u64>, Error> {
        let (mut elements, mut codes) = (zeros::<E>(n)?, zeros(n)?);
        loader.fill(src, (&mut elements[..]).into(), n)?;
        codes.iter_mut().zip(elements).for_each(|(code, element)| *code = element.to_codes()[0]);
        Ok(codes)
    }

    match loader.from().itemsize() {
        1 => of::<u8>(loader, src, n),
        2 => of::<u16>(loader, src, n),
        4 => of::<u32>(loader, src, n),
        _ => of::<u64>(loader, src, n),
    }
}

/// A vector of `len` codes, which are 0.
#[inline(never)] // Once for each width.
fn zeros<T: Element>(len: usize) -> Result<Vec<T>, Error> {
    let mut codes = room(len)?;
    codes.resize(len, T::from_codes([0; 2]));
    Ok(codes)
}
