//! The loops of the reference and of the way by float64: over pieces of the data, to find scales, and over the tiles of a
//! piece, to cast its elements.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::iter::repeat_n;
use core::ops::Range;

use super::codes::{Codes, Elements, Scales, Scratch, TILE, ZeroPoints};
use super::error::Error;
use super::exact::Exact;
use super::memory::{array, collect};
#[cfg(isa = "vector")]
use super::numbers::zeros;
use super::rule::{Block, Blocks, Dequantize, Extremes, Quantize, zero_point};
use super::scaling::TensorScale;
use super::shape::Grid;
#[cfg(isa = "vector")]
use super::wide::{Load, Tile, Wide, WideRoom};
#[cfg(isa = "vector")]
use crate::cast::Caster;
#[cfg(isa = "vector")]
use crate::formats::isa::Isa;
use crate::kernels::memory::Destination;
#[cfg(isa = "vector")]
use crate::kernels::scaled::in_kernel_environment;
#[cfg(isa = "vector")]
use crate::kernels::scaled::magnitudes::Side;

/// The most elements of a requantisation that are brought to float32 at a time.
#[cfg(isa = "vector")]
const MOST_FLOATS: usize = 4 << 20;

/// The buffers for one tile.
pub(super) struct Room {
    codes: Box<Codes>,
    scratch: Box<Scratch>,
    values: Box<[Exact; TILE]>,
    /// For the way by float64, allocated when first needed.
    #[cfg(isa = "vector")]
    wide: Option<WideRoom>,
}

impl Room {
    #[inline(never)] // It is called from many places.
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self {
            codes: array(0)?,
            scratch: array(0)?,
            values: array(Exact::ZERO)?,
            #[cfg(isa = "vector")]
            wide: None,
        })
    }
}

/// Given scales, with their zero points.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) scales: Scales,
    pub(super) bytes: &'a [u8],
    pub(super) zero_points: Option<(ZeroPoints, &'a [u8])>,
}

impl Given<'_> {
    /// Returns the code of a scale, and the value of its zero point.
    pub(super) fn get(&self, scale: usize) -> (u64, i64) {
        let zero = match self.zero_points {
            Some((zero_points, bytes)) => zero_point(zero_points.dtype, zero_points.get(bytes, scale)),
            None => 0,
        };
        (self.scales.get(self.bytes, scale), zero)
    }

    /// Whether zero points are floats.
    #[cfg(isa = "vector")]
    pub(super) fn has_float_zeros(&self) -> bool {
        self.zero_points.is_some_and(|(zero_points, _)| zero_points.dtype.float_format().is_some())
    }

    /// Returns the code of a zero point, if zero points are floats.
    pub(super) fn float_zero(&self, scale: usize) -> Option<u64> {
        let (zero_points, bytes) = self.zero_points.filter(|z| z.0.dtype.float_format().is_some())?;
        Some(zero_points.get(bytes, scale))
    }

    /// Casts the zero points of `scales` to float32 by `to_f32`, to the front of `into`, which must have room for 7 more.
    #[cfg(isa = "vector")]
    pub(super) fn zeros(&self, to_f32: &Caster, scales: Range<usize>, into: &mut [f32]) -> Result<(), Error> {
        let Some((ZeroPoints { dtype, packing, .. }, bytes)) = self.zero_points else { return Ok(()) };
        let size = |n| dtype.byte_len(n, packing).unwrap_or(0);
        // A zero point within a byte is read together with those before it in that byte.
        let ahead = scales.start % 8;
        let (first, n) = (scales.start - ahead, scales.len() + ahead);
        to_f32.fill(&bytes[size(first)..size(first + n)], (&mut into[..n]).into(), n)?;
        into.copy_within(ahead..n, 0);
        Ok(())
    }

    /// Returns how the elements of a block are to be divided, from its scale and zero point.
    pub(super) fn block(&self, quantize: &Quantize, scale: usize, tensor: TensorScale) -> Block {
        let (code, zero) = self.get(scale);
        let block = quantize.given(code, zero, tensor);
        let float_zero = self.float_zero(scale);
        Block { float_zero, zero: if float_zero.is_some() { 0 } else { zero }, ..block }
    }
}

/// Where the values that are quantised come from: a buffer of floats, or one of elements under another scaling.
pub(super) trait Source: Sync {
    /// Loads `n` elements from `first` on, exactly, to the front of `room.values`.
    fn load(&self, first: usize, n: usize, room: &mut Room) -> Result<(), Error>;

    /// Returns how many bytes the source has.
    fn size(&self) -> usize;

    /// Returns floats that the vector kernels can quantise and that include the given elements, with the index of the first
    /// one: the buffer itself, or `room`, filled with them. None if the kernels cannot be used.
    #[cfg(isa = "vector")]
    fn floats<'a>(
        &'a self,
        _: &Range<usize>,
        _: &'a mut Vec<u8>,
    ) -> Result<Option<(&'a [u8], usize)>, Error> {
        Ok(None)
    }

    /// Loads elements from `first` on as float64, exactly. Returns false if that cannot be done.
    #[cfg(isa = "vector")]
    fn wide(&self, _: usize, _: &mut [f64]) -> Result<bool, Error> {
        Ok(false)
    }

    /// Returns the buffer, if it has the floats themselves.
    #[cfg(isa = "vector")]
    fn buffer(&self) -> Option<&Floats<'_>> {
        None
    }
}

/// A buffer of floats.
pub(super) struct Floats<'a> {
    pub(super) elements: Elements,
    pub(super) quantize: &'a Quantize,
    pub(super) bytes: &'a [u8],
    #[cfg(isa = "vector")]
    pub(super) to_f64: Option<Caster>,
}

impl Source for Floats<'_> {
    fn load(&self, first: usize, n: usize, room: &mut Room) -> Result<(), Error> {
        let Room { codes, scratch, values, .. } = room;
        self.elements.load(self.bytes, first, &mut codes[..n], scratch)?;
        for (value, &code) in values.iter_mut().zip(&codes[..n]) {
            *value = self.quantize.source(code);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.bytes.len()
    }

    #[cfg(isa = "vector")]
    fn floats<'a>(
        &'a self,
        _: &Range<usize>,
        _: &'a mut Vec<u8>,
    ) -> Result<Option<(&'a [u8], usize)>, Error> {
        Ok(self.readable().map(|bytes| (bytes, 0)))
    }

    #[cfg(isa = "vector")]
    fn wide(&self, first: usize, values: &mut [f64]) -> Result<bool, Error> {
        let Some(to_f64) = self.to_f64 else { return Ok(false) };
        let (n, width) = (values.len(), self.quantize.from.bits() as usize / 8);
        to_f64.fill(&self.bytes[first * width..][..n * width], values.into(), n)?;
        Ok(true)
    }

    #[cfg(isa = "vector")]
    fn buffer(&self) -> Option<&Floats<'_>> {
        Some(self)
    }
}

#[cfg(isa = "vector")]
impl Floats<'_> {
    /// Returns the bytes, if the kernels can read them.
    fn readable(&self) -> Option<&[u8]> {
        let is_right = self.elements.present().isa() != Isa::Scalar
            && self.quantize.from.bits() <= 32
            && !self.elements.options().src_order.is_swapped();
        is_right.then_some(self.bytes)
    }
}

/// Dequantisation as the first half of a requantisation: to float32, rounded to odd, or to float64, exactly.
#[cfg(isa = "vector")]
pub(super) trait ToFloats: Sync {
    /// Casts elements. `dst` begins with the first of them. Returns false if some could not be cast that way: the results are
    /// to be discarded.
    fn to_floats(&self, elements: Range<usize>, dst: Destination<'_, u8>) -> Result<bool, Error>;
}

/// A buffer of elements under another scaling.
pub(super) struct Scaled<'a> {
    pub(super) elements: Elements,
    pub(super) dequantize: &'a Dequantize,
    pub(super) bytes: &'a [u8],
    pub(super) grid: &'a Grid,
    pub(super) given: Given<'a>,
    /// The way to float32, rounded to odd, if there is a kernel.
    #[cfg(isa = "vector")]
    pub(super) odd: Option<&'a dyn ToFloats>,
    /// The way to float64, if every product is exact there.
    #[cfg(isa = "vector")]
    pub(super) exact: Option<&'a dyn ToFloats>,
}

impl Source for Scaled<'_> {
    fn load(&self, first: usize, n: usize, room: &mut Room) -> Result<(), Error> {
        let Room { codes, scratch, values, .. } = room;
        let mut done = 0;
        while done < n {
            let now = self.elements.tile(first + done, first + n);
            self.elements.load(self.bytes, first + done, &mut codes[done..done + now], scratch)?;
            done += now;
        }
        self.grid.runs(first, n, &mut |run, scale| {
            let (code, zero) = self.given.get(scale);
            let s = self.dequantize.given(code);
            for (value, &code) in values[run.clone()].iter_mut().zip(&codes[run]) {
                *value = self.dequantize.value(code, s, zero);
            }
        });
        Ok(())
    }

    #[cfg(isa = "vector")]
    fn floats<'a>(
        &'a self,
        elements: &Range<usize>,
        room: &'a mut Vec<u8>,
    ) -> Result<Option<(&'a [u8], usize)>, Error> {
        let Some(odd) = self.odd.filter(|_| elements.len() <= MOST_FLOATS) else { return Ok(None) };
        *room = collect(repeat_n(0, 4 * elements.len()))?;
        let is_done = odd.to_floats(elements.clone(), (&mut room[..]).into())?;
        Ok(is_done.then_some((&room[..], elements.start)))
    }

    #[cfg(isa = "vector")]
    fn wide(&self, first: usize, values: &mut [f64]) -> Result<bool, Error> {
        let Some(exact) = self.exact else { return Ok(false) };
        exact.to_floats(first..first + values.len(), Destination::from(values).bytes())
    }

    fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// Where the scales that are found are written.
pub(super) enum Sink<'a> {
    /// Their buffer, which begins with the scale of this index.
    Bytes(Scales, &'a mut [u8], usize),
    /// A list of codes, which begins with the scale of this index. The caller moves the codes to their places.
    Codes(Scales, &'a mut [u64], usize),
}

impl Sink<'_> {
    /// Returns the dtype and layout of the scales.
    #[cfg(isa = "vector")]
    pub(super) fn scales(&self) -> &Scales {
        match self {
            Self::Bytes(scales, ..) | Self::Codes(scales, ..) => scales,
        }
    }

    /// Writes `n` scales from `first` on. `codes` are in native byte order.
    #[cfg(isa = "vector")]
    pub(super) fn set_all(&mut self, first: usize, n: usize, codes: &[u8]) {
        match self {
            Self::Bytes(scales, bytes, base) => scales.set_all(bytes, *base, first..first + n, codes),
            Self::Codes(scales, all, base) => {
                for (i, code) in all[first - *base..][..n].iter_mut().enumerate() {
                    *code = scales.of_native(codes, i);
                }
            }
        }
    }

    pub(super) fn set(&mut self, scale: usize, code: u64) {
        match self {
            Self::Bytes(scales, bytes, base) => scales.set(bytes, *base, scale, code),
            Self::Codes(_, codes, base) => codes[scale - *base] = code,
        }
    }
}

/// The quantisation of one buffer.
pub(super) struct Quantizing<'a> {
    pub(super) quantize: &'a Quantize,
    pub(super) grid: &'a Grid,
    pub(super) source: &'a dyn Source,
    pub(super) write: Elements,
    /// The tensor scale, given or already computed.
    pub(super) tensor: TensorScale,
    pub(super) affine: bool,
    /// The way by float64, if there is one.
    #[cfg(isa = "vector")]
    pub(super) wide: Option<&'a Wide>,
}

/// A rectangle of elements, which is some columns of some rows, and the range of their scales.
pub(super) struct Rect {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    pub(super) scales: Range<usize>,
}

impl Rect {
    /// Returns contiguous elements as a rectangle of one row.
    pub(super) fn of(elements: Range<usize>, scales: Range<usize>) -> Self {
        Self { rows: 0..1, columns: elements, scales }
    }

    /// Returns the elements of each row as a range, in a grid whose rows have `width` elements.
    fn elements(&self, width: usize) -> impl Iterator<Item = Range<usize>> {
        let columns = &self.columns;
        self.rows.clone().map(move |row| row * width + columns.start..row * width + columns.end)
    }
}

impl Quantizing<'_> {
    /// Returns the extremes of some elements.
    pub(super) fn extremes(&self, elements: Range<usize>) -> Result<Extremes, Error> {
        // Without the room, which is large, if registers of the dtype of the data can find them.
        #[cfg(isa = "vector")]
        let rect = Rect::of(elements.clone(), 0..1);
        #[cfg(isa = "vector")]
        {
            let mut found = Largest::new(self.affine.into(), 1)?;
            if in_kernel_environment(|| self.largest_of_floats(&rect, &mut found))? {
                return Ok(found.extremes(0));
            }
        }
        let room = &mut Room::new()?;
        #[cfg(isa = "vector")]
        if let Some(found) = self.largest(&rect, room)? {
            return Ok(found.extremes(0));
        }
        let mut all = Extremes::NONE;
        for first in elements.clone().step_by(TILE) {
            let n = TILE.min(elements.end - first);
            self.source.load(first, n, room)?;
            for &x in &room.values[..n] {
                all.add(x, self.quantize.nonfinite);
            }
        }
        Ok(all)
    }

    /// Returns the extremes of each block of a rectangle.
    fn extremes_of(&self, rect: &Rect, room: &mut Room) -> Result<Vec<Extremes>, Error> {
        let mut data = collect(repeat_n(Extremes::NONE, rect.scales.len()))?;
        for all in rect.elements(self.grid.width()) {
            for first in all.clone().step_by(TILE) {
                let n = TILE.min(all.end - first);
                self.source.load(first, n, room)?;
                self.grid.runs(first, n, &mut |run, scale| {
                    for &x in &room.values[run] {
                        data[scale - rect.scales.start].add(x, self.quantize.nonfinite);
                    }
                });
            }
        }
        Ok(data)
    }

    /// Finds the scales of a rectangle and casts it. `dst` begins with element `base`.
    pub(super) fn found(
        &self,
        rect: &Rect,
        base: usize,
        dst: &mut Destination<'_, u8>,
        sink: &mut Sink<'_>,
        room: &mut Room,
    ) -> Result<(), Error> {
        let first = rect.scales.start;
        #[cfg(isa = "vector")]
        let data = match self.largest(rect, room)? {
            Some(largest) => {
                if let Some(numbers) = self.scales_by_f64(&largest, first, sink, room)? {
                    let each = |scale| {
                        self.quantize.find(&largest.extremes(scale - first), self.tensor, false).block
                    };
                    let blocks = Blocks { each: &each, numbers: &numbers, base: first };
                    return self.cast_rect(rect, base, dst, room, &blocks);
                }
                collect((0..rect.scales.len()).map(|i| largest.extremes(i)))?
            }
            None => self.extremes_of(rect, room)?,
        };
        #[cfg(not(isa = "vector"))]
        let data = self.extremes_of(rect, room)?;
        let blocks = collect(data.iter().enumerate().map(|(i, data)| {
            let found = self.quantize.find(data, self.tensor, false);
            sink.set(first + i, found.code);
            found.block
        }))?;
        self.cast_rect(rect, base, dst, room, &Blocks::each(&|scale| blocks[scale - first]))
    }

    /// Finds the scales and the zero points of a rectangle. `zeros` gets the codes of the latter, one to a byte.
    #[inline(never)]
    pub(super) fn zero_points(
        &self,
        rect: &Rect,
        sink: &mut Sink<'_>,
        zeros: &mut [u8],
        room: &mut Room,
    ) -> Result<(), Error> {
        #[cfg(isa = "vector")]
        if let Some(largest) = self.largest(rect, room)? {
            return self.zero_points_by_f64(&largest, rect.scales.start, sink, zeros, room);
        }
        let data = self.extremes_of(rect, room)?;
        for ((scale, data), zero) in rect.scales.clone().zip(&data).zip(zeros) {
            *zero = self.zero_point(data, scale, sink);
        }
        Ok(())
    }

    /// Finds a scale and its zero point, and returns the code of the latter.
    #[inline(never)] // It is called for a block.
    fn zero_point(&self, data: &Extremes, scale: usize, sink: &mut Sink<'_>) -> u8 {
        let found = self.quantize.find(data, self.tensor, true);
        sink.set(scale, found.code);
        found.block.zero as u8
    }

    fn cast_rect(
        &self,
        rect: &Rect,
        base: usize,
        dst: &mut Destination<'_, u8>,
        room: &mut Room,
        blocks: &Blocks<'_>,
    ) -> Result<(), Error> {
        rect.elements(self.grid.width()).try_for_each(|elements| self.cast(elements, dst, base, room, blocks))
    }

    /// Casts elements under known scales, by way of float64, and by the reference what that leaves. `dst` begins with element `base`.
    pub(super) fn cast(
        &self,
        elements: Range<usize>,
        dst: &mut Destination<'_, u8>,
        base: usize,
        room: &mut Room,
        blocks: &Blocks<'_>,
    ) -> Result<(), Error> {
        let mut first = elements.start;
        while first < elements.end {
            let n = self.write.tile(first, elements.end);
            #[cfg(isa = "vector")]
            let mut left = self.by_f64(first, n, dst, base, room, blocks)?;
            #[cfg(not(isa = "vector"))]
            let mut left = u128::MAX;
            while left != 0 {
                // Each bit stands for eight elements. A run of ones is cast in one go.
                let start = left.trailing_zeros();
                let end = start + (left >> start).trailing_ones();
                left &= u128::MAX.checked_shl(end).unwrap_or(0);
                let (start, end) = (8 * start as usize, n.min(8 * end as usize));
                self.by_reference(first + start, end - start, dst, base, room, blocks.each)?;
            }
            first += n;
        }
        Ok(())
    }

    /// Casts up to a tile of elements by the reference. The first one must begin at a byte.
    fn by_reference(
        &self,
        first: usize,
        n: usize,
        dst: &mut Destination<'_, u8>,
        base: usize,
        room: &mut Room,
        block: &dyn Fn(usize) -> Block,
    ) -> Result<(), Error> {
        self.source.load(first, n, room)?;
        let Room { codes, scratch, values, .. } = room;
        self.grid.runs(first, n, &mut |run, scale| {
            let block = block(scale);
            for i in run {
                codes[i] = self.quantize.element(values[i], &block, first + i);
            }
        });
        self.write.store(&codes[..n], dst, base, first, scratch)
    }
}

/// The largest magnitude of each block, as bits of float64.
#[cfg(isa = "vector")]
struct Largest {
    /// If zero points are to be found, those of the negative elements, and then those of the others. Else those of all elements.
    all: Vec<u64>,
    /// How many are of negative elements.
    negative: usize,
}

#[cfg(isa = "vector")]
impl Largest {
    fn new(negative: usize, n: usize) -> Result<Self, Error> {
        Ok(Self { all: zeros(0, negative + n, true)?, negative })
    }

    fn low(&self) -> &[u64] {
        &self.all[..self.negative]
    }

    fn high(&self) -> &[u64] {
        &self.all[self.negative..]
    }

    #[inline(never)] // It is called for a block.
    fn extremes(&self, i: usize) -> Extremes {
        Extremes::of_f64([self.low().get(i).copied().unwrap_or(0), self.high()[i]])
    }
}

#[cfg(isa = "vector")]
impl Quantizing<'_> {
    /// Casts a tile by way of float64. Returns a bit for each 8 elements, which is 1 if they are left to the reference.
    fn by_f64(
        &self,
        first: usize,
        n: usize,
        dst: &mut Destination<'_, u8>,
        base: usize,
        room: &mut Room,
        blocks: &Blocks<'_>,
    ) -> Result<u128, Error> {
        let Some(wide) = self.wide else { return Ok(u128::MAX) };
        let Room { wide: place, scratch, .. } = room;
        let room = WideRoom::of(place)?;
        let tile = Tile { grid: self.grid, first, n, tensor: self.tensor };
        let start = self.write.at(first) - self.write.at(base);
        let here = dst.part(start..start + self.write.size(n));
        let load: Load<'_> = &mut |first, values| self.source.wide(first, values);
        let left = in_kernel_environment(|| wide.cast(&tile, load, blocks, room, scratch, here))?;
        self.write.fill_gap(dst, base, first + n)?;
        Ok(left)
    }

    /// Finds the largest magnitudes of the blocks of a rectangle in registers of the dtype of the data. Returns false if no kernel reads
    /// that, or if there is an Inf or NaN that must not count.
    fn largest_of_floats(&self, rect: &Rect, Largest { all, negative }: &mut Largest) -> Result<bool, Error> {
        let (Some(wide), Some(floats)) = (self.wide, self.source.buffer()) else { return Ok(false) };
        let (Some(bytes), Some(to_f64)) = (floats.readable(), &floats.to_f64) else { return Ok(false) };
        let elements = &mut rect.elements(self.grid.width());
        wide.largest_of_floats((bytes, to_f64), self.grid, elements, rect.scales.start, all, *negative)
    }

    /// Finds the largest magnitudes of the blocks of a rectangle, in registers of the dtype of the data or by way of float64. A
    /// rectangle with one scale is taken as one block.
    fn largest(&self, rect: &Rect, room: &mut Room) -> Result<Option<Largest>, Error> {
        let Some(wide) = self.wide else { return Ok(None) };
        let n = rect.scales.len();
        let negative = if self.affine { n } else { 0 };
        let mut largest = Largest::new(negative, n)?;
        let is_done = in_kernel_environment(|| {
            if self.largest_of_floats(rect, &mut largest)? {
                return Ok(true);
            }
            largest.all.fill(0);
            let (low, high) = largest.all.split_at_mut(negative);
            let mut both = [(Side::Negative, low), (Side::Positive, high)];
            let sides = if self.affine { &mut both[..] } else { &mut both[1..] };
            if !self.affine {
                sides[0].0 = Side::All;
            }
            let load: Load<'_> = &mut |first, values| self.source.wide(first, values);
            let elements = &mut rect.elements(self.grid.width());
            wide.largest(load, self.grid, elements, rect.scales.start, WideRoom::of(&mut room.wide)?, sides)
        })?;
        Ok(is_done.then_some(largest))
    }

    /// Finds the scales from `first` on and the codes of their zero points, many at a time, and one by one where an extreme is out
    /// of bounds.
    fn zero_points_by_f64(
        &self,
        largest: &Largest,
        first: usize,
        sink: &mut Sink<'_>,
        zeros: &mut [u8],
        room: &mut Room,
    ) -> Result<(), Error> {
        let Some(wide) = self.wide else { return Ok(()) };
        let Room { wide: place, scratch, .. } = room;
        let room = WideRoom::of(place)?;
        let extremes = largest.low().chunks(TILE).zip(largest.high().chunks(TILE));
        for (i, ((low, high), zeros)) in extremes.zip(zeros.chunks_mut(TILE)).enumerate() {
            let codes = in_kernel_environment(|| wide.zero_points([low, high], zeros, room, scratch))?;
            sink.set_all(first + i * TILE, low.len(), codes);
        }
        let is_out = |i: &usize| {
            ![largest.low()[*i], largest.high()[*i]].into_iter().all(|x| wide.can_find_zero_point(x))
        };
        for i in (0..zeros.len()).filter(is_out) {
            zeros[i] = self.zero_point(&largest.extremes(i), first + i, sink);
        }
        Ok(())
    }

    /// Finds the scales from `first` on, many at a time, and returns what elements are divided by ([`Blocks::numbers`]). None
    /// if this scaling must find them one by one.
    #[inline(never)] // It is called for a piece.
    fn scales_by_f64(
        &self,
        largest: &Largest,
        first: usize,
        sink: &mut Sink<'_>,
        room: &mut Room,
    ) -> Result<Option<Vec<f64>>, Error> {
        let Some(wide) = self.wide.filter(|wide| wide.finds(0)) else { return Ok(None) };
        let Room { wide: place, scratch, .. } = room;
        let room = WideRoom::of(place)?;
        let high = largest.high();
        let mut numbers = collect(repeat_n(0.0, high.len()))?;
        for (i, (largest, numbers)) in high.chunks(TILE).zip(numbers.chunks_mut(TILE)).enumerate() {
            let first = first + i * TILE;
            let codes = in_kernel_environment(|| wide.scales(largest, self.tensor, numbers, room, scratch))?;
            sink.set_all(first, largest.len(), codes);
            for (i, magnitude) in largest.iter().enumerate().filter(|(_, magnitude)| !wide.finds(**magnitude))
            {
                let data = Extremes::of_f64([0, *magnitude]);
                let found = self.quantize.find(&data, self.tensor, false);
                sink.set(first + i, found.code);
                numbers[i] = in_kernel_environment(|| wide.number(&found.block, self.tensor).by);
            }
        }
        Ok(Some(numbers))
    }

    /// Returns what elements are divided by under given scales ([`Blocks::numbers`]), and the index of the first of these
    /// scales. Empty if this scaling must decode them one by one.
    #[inline(never)] // As `scales_by_f64`.
    pub(super) fn given_by_f64(
        &self,
        given: &Given<'_>,
        elements: &Range<usize>,
    ) -> Result<(Vec<f64>, usize), Error> {
        let none = (Vec::new(), 0);
        let is_right = given.zero_points.is_none();
        let Some(wide) = self.wide.filter(|_| is_right) else { return Ok(none) };
        let Some(scales) = self.grid.scales_of(elements) else { return Ok(none) };
        let base = scales.start;
        let mut numbers = collect(repeat_n(0.0, scales.len()))?;
        let mut room = collect(repeat_n(0, 4 * scales.len()))?;
        let codes = given.scales.native(given.bytes, scales, &mut room);
        let is_done = in_kernel_environment(|| wide.numbers(codes, self.tensor, &mut numbers))?;
        Ok(if is_done { (numbers, base) } else { none })
    }
}

/// The dequantisation of one buffer.
pub(super) struct Dequantizing<'a> {
    pub(super) dequantize: &'a Dequantize,
    pub(super) grid: &'a Grid,
    pub(super) read: Elements,
    pub(super) bytes: &'a [u8],
    pub(super) write: Elements,
    pub(super) given: Given<'a>,
}

impl Dequantizing<'_> {
    /// Casts elements by the reference. `dst` begins with element `base`.
    pub(super) fn by_reference(
        &self,
        elements: Range<usize>,
        base: usize,
        dst: &mut Destination<'_, u8>,
        room: &mut Room,
    ) -> Result<(), Error> {
        let mut first = elements.start;
        while first < elements.end {
            let n = self.read.tile(first, elements.end);
            self.read.load(self.bytes, first, &mut room.codes[..n], &mut room.scratch)?;
            self.grid.runs(first, n, &mut |run, scale| {
                let (code, zero) = self.given.get(scale);
                let s = self.dequantize.given(code);
                for code in &mut room.codes[run] {
                    *code = self.dequantize.element(*code, s, zero);
                }
            });
            self.write.store(&room.codes[..n], dst, base, first, &mut room.scratch)?;
            first += n;
        }
        Ok(())
    }
}
