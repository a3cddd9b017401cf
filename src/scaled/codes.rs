//! Loads the codes of elements, scales and zero points from any packing, byte order and layout to tiles, and stores them back.

use core::ops::Range;

use super::error::Error;
use super::scaling::Scaling;
use super::shape::{Grid, Places};
use crate::cast::Caster;
use crate::formats::dtype::DType;
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::options::CastOptions;
use crate::kernels::memory::Destination;
use crate::kernels::present::Present;

/// Returns a plain cast, if there is one. It is not inlined, because it is called in many places.
#[cfg(isa = "vector")]
#[inline(never)]
pub(super) fn cast(from: DType, to: DType, options: &CastOptions) -> Option<Caster> {
    Caster::new(from, to, options).ok()
}

/// Elements in a tile: a multiple of 8.
pub(super) const TILE: usize = 1024;

/// The codes of a tile, one for each element.
pub(super) type Codes = [u64; TILE];

/// Where the elements of a buffer lie, and how their codes are loaded and stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    caster: Caster,
    /// The options that the caster was made with; the caster keeps only those that matter to its own pair.
    options: CastOptions,
    dtype: DType,
    packing: Packing,
    /// The elements of a row and the bytes from one row to the next, if rows begin at bytes of their own.
    rows: Option<(usize, usize)>,
}

/// The bytes of the codes of a tile, and of 8 more.
pub(super) type Scratch = [u8; 8 * (TILE + 8)];

impl Elements {
    /// Returns the elements of a source.
    pub(super) fn read(
        dtype: DType,
        options: &CastOptions,
        rows: Option<(usize, usize)>,
    ) -> Result<Self, Error> {
        let to_tile = options.dst_packing(Packing::OnePerByte).dst_order(ByteOrder::Native);
        let caster = Caster::new(dtype, dtype, &to_tile)?;
        Ok(Self { caster, options: to_tile, dtype, packing: options.src_packing, rows })
    }

    /// Returns the elements of a destination.
    pub(super) fn write(
        dtype: DType,
        options: &CastOptions,
        rows: Option<(usize, usize)>,
    ) -> Result<Self, Error> {
        let from_tile = options.src_packing(Packing::OnePerByte).src_order(ByteOrder::Native);
        let caster = Caster::new(dtype, dtype, &from_tile)?;
        Ok(Self { caster, options: from_tile, dtype, packing: options.dst_packing, rows })
    }

    /// Returns the options of the buffer.
    pub(super) fn options(&self) -> CastOptions {
        self.options.isa(self.caster.isa())
    }

    /// Returns the instruction set.
    pub(super) fn present(&self) -> Present {
        self.caster.present()
    }

    /// Whether rows begin at bytes of their own.
    pub(super) fn has_rows(&self) -> bool {
        self.rows.is_some()
    }

    /// Returns the byte at which an element begins, or None if it begins within one.
    pub(super) fn byte(&self, element: usize) -> Option<usize> {
        let (byte, ahead) = self.byte_before(element);
        (self.dtype.bits() >= 8 || self.packing == Packing::OnePerByte || ahead == 0)
            .then(|| byte + self.size(ahead))
    }

    /// Returns the nearest byte at which this element or one of the 7 before it begins, and how many elements lie between.
    pub(super) fn byte_before(&self, element: usize) -> (usize, usize) {
        let ahead = match self.rows {
            Some((row, _)) => element % row % 8,
            None => element % 8,
        };
        (self.at(element - ahead), ahead)
    }

    /// Returns the bytes of a code in a [`Scratch`].
    fn width(&self) -> usize {
        (self.dtype.bits() as usize).div_ceil(8)
    }

    /// Returns the bytes of `n` elements.
    pub(super) fn size(&self, n: usize) -> usize {
        self.dtype.byte_len(n, self.packing).unwrap_or(0)
    }

    /// Returns the bytes of `n` contiguous elements, or None if those do not end with a byte.
    pub(super) fn whole(&self, n: usize) -> Option<usize> {
        let is_whole =
            self.packing == Packing::OnePerByte || (n % 8 * self.dtype.bits() as usize).is_multiple_of(8);
        is_whole.then(|| self.size(n))
    }

    /// Returns the byte at which an element begins, counted from the beginning of the buffer.
    pub(super) fn at(&self, element: usize) -> usize {
        match self.rows {
            Some((row, bytes)) => element / row * bytes + self.size(element % row),
            None => self.size(element),
        }
    }

    /// Returns about `wanted`, such that chunks of this many elements begin at bytes.
    pub(super) fn chunk(&self, wanted: usize) -> usize {
        self.rows.map_or(wanted, |(row, _)| row * (wanted / row).max(1))
    }

    /// Returns how many elements from this one on make a tile: fewer at the end of a row, as a gap may follow.
    pub(super) fn tile(&self, element: usize, end: usize) -> usize {
        let n = (end - element).min(TILE);
        self.rows.map_or(n, |(row, _)| n.min(row - element % row))
    }

    /// Loads the codes of elements from `first` on.
    pub(super) fn load(
        &self,
        src: &[u8],
        first: usize,
        codes: &mut [u64],
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        // A packed element within a byte is read together with those before it in that byte.
        let (start, ahead) = self.byte_before(first);
        let n = codes.len() + ahead;
        let tile = &mut scratch[..n * self.width()];
        self.caster.cast(&src[start..start + self.size(n)], tile, n)?;
        let tile = &tile[ahead * self.width()..];
        match self.width() {
            1 => spread::<1>(tile, codes),
            2 => spread::<2>(tile, codes),
            4 => spread::<4>(tile, codes),
            _ => spread::<8>(tile, codes),
        }
        Ok(())
    }

    /// Stores the codes of elements from `first` on, which must begin at a byte. `dst` begins with element `base`.
    pub(super) fn store(
        &self,
        codes: &[u64],
        dst: &mut Destination<'_, u8>,
        base: usize,
        first: usize,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let n = codes.len();
        let tile = &mut scratch[..n * self.width()];
        match self.width() {
            1 => gather::<1>(codes, tile),
            2 => gather::<2>(codes, tile),
            4 => gather::<4>(codes, tile),
            _ => gather::<8>(codes, tile),
        }
        let start = self.at(first) - self.at(base);
        let end = start + self.size(n);
        self.caster.fill(tile, dst.part(start..end), n)?;
        self.fill_gap(dst, base, first + n)
    }

    /// Stores codes of one byte each.
    pub(super) fn pack(&self, codes: &[u8], dst: &mut [u8]) -> Result<(), Error> {
        Ok(self.caster.cast(codes, dst, codes.len())?)
    }

    /// If `end` is the end of a row, writes zeros to the gap behind it.
    pub(super) fn fill_gap(
        &self,
        dst: &mut Destination<'_, u8>,
        base: usize,
        end: usize,
    ) -> Result<(), Error> {
        let Some((row, bytes)) = self.rows.filter(|(row, _)| end.is_multiple_of(*row)) else { return Ok(()) };
        let until = end / row * bytes - self.at(base);
        let mut gap = dst.part(until - (bytes - self.size(row))..until);
        let zeros = Caster::new(DType::U8, DType::U8, &CastOptions::new())?;
        while gap.len() > 0 {
            let n = gap.len().min(64);
            let (now, later) = gap.split_at(n);
            zeros.fill(&[0u8; 64][..n], now, n)?;
            gap = later;
        }
        Ok(())
    }
}

fn spread<const WIDTH: usize>(tile: &[u8], codes: &mut [u64]) {
    for (code, bytes) in codes.iter_mut().zip(tile.as_chunks::<WIDTH>().0) {
        *code = word(bytes);
    }
}

fn gather<const WIDTH: usize>(codes: &[u64], tile: &mut [u8]) {
    for (&code, bytes) in codes.iter().zip(tile.as_chunks_mut::<WIDTH>().0) {
        let all = code.to_le_bytes();
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = all[if cfg!(target_endian = "little") { i } else { WIDTH - 1 - i }];
        }
    }
}

/// Returns a code from its bytes in native order.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let join = |word, byte: &u8| word << 8 | u64::from(*byte);
    if cfg!(target_endian = "little") { bytes.iter().rev().fold(0, join) } else { bytes.iter().fold(0, join) }
}

/// Loads and stores scales in their layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scales {
    pub(super) places: Places,
    width: usize,
    is_swapped: bool,
}

impl Scales {
    pub(super) fn new(grid: &Grid, scaling: &Scaling, order: ByteOrder) -> Result<Self, Error> {
        let width = scaling.scale_dtype.bits() as usize / 8;
        Ok(Self { places: Places::new(grid, scaling)?, width, is_swapped: order.is_swapped() })
    }

    /// Returns the code of a scale. `bytes` are those of all scales.
    pub(super) fn get(&self, bytes: &[u8], scale: usize) -> u64 {
        let at = self.places.at(scale);
        let code = word(&bytes[at..at + self.width]);
        if self.is_swapped { code.swap_bytes() >> (64 - 8 * self.width) } else { code }
    }

    /// Returns the bytes of some scales side by side and in native order: in place if they lie so, else copied to `room`.
    pub(super) fn native<'a>(&self, bytes: &'a [u8], scales: Range<usize>, room: &'a mut [u8]) -> &'a [u8] {
        if self.places.is_plain() && !self.is_swapped {
            return &bytes[scales.start * self.width..scales.end * self.width];
        }
        let n = scales.len() * self.width;
        for (scale, place) in scales.zip(room.chunks_exact_mut(self.width)) {
            let at = self.places.at(scale);
            place.copy_from_slice(&bytes[at..at + self.width]);
            if self.is_swapped {
                place.reverse();
            }
        }
        &room[..n]
    }

    /// Stores contiguous scales. `codes` are in native byte order, `bytes` begins with scale `base`.
    pub(super) fn set_all(&self, bytes: &mut [u8], base: usize, scales: Range<usize>, codes: &[u8]) {
        let n = scales.len() * self.width;
        let here = &mut bytes[(scales.start - base) * self.width..][..n];
        here.copy_from_slice(&codes[..n]);
        if self.is_swapped {
            here.chunks_exact_mut(self.width).for_each(<[u8]>::reverse);
        }
    }

    /// Returns the code of the `i`th of some scales in native byte order.
    pub(super) fn of_native(&self, codes: &[u8], i: usize) -> u64 {
        word(&codes[i * self.width..][..self.width])
    }

    /// Stores a scale. `bytes` begins with scale `base`, which is 0 unless scales are contiguous.
    pub(super) fn set(&self, bytes: &mut [u8], base: usize, scale: usize, code: u64) {
        let at = self.places.at(scale) - self.places.at(base);
        let code = if self.is_swapped { code.swap_bytes() >> (64 - 8 * self.width) } else { code };
        let all = code.to_ne_bytes();
        let from = if cfg!(target_endian = "little") { 0 } else { 8 - self.width };
        bytes[at..at + self.width].copy_from_slice(&all[from..from + self.width]);
    }
}

/// Zero points, which are packed as the elements are.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZeroPoints {
    pub(super) dtype: DType,
    pub(super) packing: Packing,
    pub(super) order: ByteOrder,
}

impl ZeroPoints {
    /// Returns the code of a zero point.
    pub(super) fn get(&self, bytes: &[u8], i: usize) -> u64 {
        let bits = self.dtype.bits() as usize;
        if bits >= 8 || self.packing == Packing::OnePerByte {
            let width = bits.div_ceil(8);
            let code = word(&bytes[i * width..][..width]);
            let code = if self.order.is_swapped() { code.swap_bytes() >> (64 - 8 * width) } else { code };
            return code & (u64::MAX >> (64 - bits));
        }
        (0..bits).fold(0, |code, bit| {
            let (place, shift) = match self.packing {
                Packing::HighFirst => (i * bits + bits - 1 - bit, 7),
                _ => (i * bits + bit, 0),
            };
            let value = bytes[place / 8] >> ((place % 8) ^ shift) & 1;
            code | u64::from(value) << bit
        })
    }
}
