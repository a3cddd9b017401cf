//! The loops: pieces of the data, in which the scales are found, and tiles, in which elements are cast.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{ControlFlow, Range};

use super::codes::{Codes, Elements, Scales, Scratch, TILE, ZeroPoints};
use super::error::Error;
use super::exact::Exact;
use super::rule::{Block, Dequantize, Extremes, Quantize, zero_point};
use super::scaling::TensorScale;
use super::shape::{Grid, Piece};
use crate::kernels::memory::Destination;
use crate::parallel::{Parallel, Tasks};
use crate::threads::Lock;

/// Elements of a piece, if its blocks let it: few enough to stay in a cache between the two passes over them.
const PIECE: usize = 16 * TILE;

/// Room for a tile.
pub(super) struct Room {
    codes: Box<Codes>,
    scratch: Box<Scratch>,
    values: Vec<Exact>,
}

impl Room {
    pub(super) fn new() -> Self {
        Self {
            codes: Box::new([0; TILE]),
            scratch: Box::new([0; 8 * (TILE + 8)]),
            values: vec![Exact::ZERO; TILE],
        }
    }
}

/// Scales that are known, with their zero points.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) scales: Scales,
    pub(super) bytes: &'a [u8],
    pub(super) zero_points: Option<(ZeroPoints, &'a [u8])>,
}

impl Given<'_> {
    /// The code of a scale, and its zero point.
    fn get(&self, scale: usize) -> (u64, i64) {
        let zero = match self.zero_points {
            Some((zero_points, bytes)) => zero_point(zero_points.dtype, zero_points.get(bytes, scale)),
            None => 0,
        };
        (self.scales.get(self.bytes, scale), zero)
    }

    /// The code of a zero point that is a float.
    fn float_zero(&self, scale: usize) -> Option<u64> {
        let (zero_points, bytes) = self.zero_points.filter(|z| z.0.dtype.float_format().is_some())?;
        Some(zero_points.get(bytes, scale))
    }
}

/// Calls a function with each run of a tile: its place in the tile, and the scale of its elements.
fn runs(grid: &Grid, first: usize, n: usize, mut run: impl FnMut(Range<usize>, usize)) {
    let mut at = 0;
    while at < n {
        let (scale, length) = grid.run(first + at);
        let end = (at + length).min(n);
        run(at..end, scale);
        at = end;
    }
}

/// Where the exact values of a quantisation come from.
pub(super) trait Source: Sync {
    /// The elements from one on, to the front of the values.
    fn load(&self, first: usize, n: usize, room: &mut Room) -> Result<(), Error>;

    /// Bytes that are read.
    fn size(&self) -> usize;
}

/// A buffer of floats.
pub(super) struct Floats<'a> {
    pub(super) elements: Elements,
    pub(super) quantize: &'a Quantize,
    pub(super) bytes: &'a [u8],
}

impl Source for Floats<'_> {
    fn load(&self, first: usize, n: usize, room: &mut Room) -> Result<(), Error> {
        let Room { codes, scratch, values } = room;
        self.elements.load(self.bytes, first, &mut codes[..n], scratch)?;
        for (value, &code) in values.iter_mut().zip(&codes[..n]) {
            *value = self.quantize.source(code);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// A buffer of elements under another scaling.
pub(super) struct Scaled<'a> {
    pub(super) elements: Elements,
    pub(super) dequantize: &'a Dequantize,
    pub(super) bytes: &'a [u8],
    pub(super) grid: &'a Grid,
    pub(super) given: Given<'a>,
}

impl Source for Scaled<'_> {
    fn load(&self, first: usize, n: usize, room: &mut Room) -> Result<(), Error> {
        let Room { codes, scratch, values } = room;
        let mut done = 0;
        while done < n {
            let now = self.elements.tile(first + done, first + n);
            self.elements.load(self.bytes, first + done, &mut codes[done..done + now], scratch)?;
            done += now;
        }
        runs(self.grid, first, n, |run, scale| {
            let (code, zero) = self.given.get(scale);
            let s = self.dequantize.given(code);
            for (value, &code) in values[run.clone()].iter_mut().zip(&codes[run]) {
                *value = self.dequantize.value(code, s, zero);
            }
        });
        Ok(())
    }

    fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// Where the scales that are found go.
pub(super) enum Sink<'a> {
    /// To their buffer, from this scale on.
    Bytes(Scales, &'a mut [u8], usize),
    /// To codes, from this scale on, which somebody brings to their places.
    Codes(&'a mut [u64], usize),
}

impl Sink<'_> {
    fn set(&mut self, scale: usize, code: u64) {
        match self {
            Self::Bytes(scales, bytes, base) => scales.set(bytes, *base, scale, code),
            Self::Codes(codes, base) => codes[scale - *base] = code,
        }
    }
}

/// A quantisation of a buffer.
pub(super) struct Quantizing<'a, S> {
    pub(super) quantize: &'a Quantize,
    pub(super) grid: &'a Grid,
    pub(super) source: S,
    pub(super) write: Elements,
    /// The factor of the tensor, computed.
    pub(super) tensor: TensorScale,
    pub(super) affine: bool,
}

impl<S: Source> Quantizing<'_, S> {
    /// The extremes of some elements.
    fn extremes(&self, elements: Range<usize>, room: &mut Room) -> Result<Extremes, Error> {
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

    /// The extremes of all elements.
    pub(super) fn all_extremes(&self, how: &Parallel<'_>) -> Result<Extremes, Error> {
        let chunks: Vec<Range<usize>> = (0..self.grid.count)
            .step_by(PIECE)
            .map(|first| first..self.grid.count.min(first + PIECE))
            .collect();
        let all = Lock::new(Extremes::NONE);
        each(how, self.source.size(), chunks, |chunk| {
            let found = self.extremes(chunk, &mut Room::new())?;
            all.lock().merge(found);
            Ok(())
        })?;
        Ok(all.into_inner())
    }

    /// Finds the scales of a piece, and casts it. `dst` begins with the piece.
    fn found(
        &self,
        piece: &Piece,
        mut dst: Destination<'_, u8>,
        sink: &mut Sink<'_>,
        mut zeros: Option<&mut [i64]>,
        room: &mut Room,
    ) -> Result<(), Error> {
        let base = piece.scales.start;
        let mut data = vec![Extremes::NONE; piece.scales.len()];
        let all = piece.elements.clone();
        for first in all.clone().step_by(TILE) {
            let n = TILE.min(all.end - first);
            self.source.load(first, n, room)?;
            runs(self.grid, first, n, |run, scale| {
                for &x in &room.values[run] {
                    data[scale - base].add(x, self.quantize.nonfinite);
                }
            });
        }
        let mut blocks = Vec::with_capacity(data.len());
        for (i, data) in data.iter().enumerate() {
            let found = self.quantize.find(data, self.tensor, self.affine);
            sink.set(base + i, found.code);
            if let Some(zeros) = &mut zeros {
                zeros[i] = found.block.zero;
            }
            blocks.push(found.block);
        }
        let start = all.start;
        self.cast(all, &mut dst, start, room, |scale| blocks[scale - base])
    }

    /// Casts elements whose scales are known. `dst` begins with element `base`.
    fn cast(
        &self,
        elements: Range<usize>,
        dst: &mut Destination<'_, u8>,
        base: usize,
        room: &mut Room,
        block: impl Fn(usize) -> Block,
    ) -> Result<(), Error> {
        let mut first = elements.start;
        while first < elements.end {
            let n = self.write.tile(first, elements.end);
            self.source.load(first, n, room)?;
            let Room { codes, scratch, values } = &mut *room;
            runs(self.grid, first, n, |run, scale| {
                let block = block(scale);
                for i in run {
                    codes[i] = self.quantize.element(values[i], &block, first + i);
                }
            });
            self.write.store(&codes[..n], dst, base, first, scratch)?;
            first += n;
        }
        Ok(())
    }

    /// Finds all scales, and casts all elements.
    pub(super) fn run_found(
        &self,
        scales: &Scales,
        dst: Destination<'_, u8>,
        scale_bytes: &mut [u8],
        zeros: Option<&mut [i64]>,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        let grid = self.grid;
        if !scales.places.is_plain() {
            scale_bytes.fill(0);
        }
        if grid.scales == 1 {
            // Two passes over all of it.
            let data = self.all_extremes(how)?;
            let found = self.quantize.find(&data, self.tensor, self.affine);
            scales.set(scale_bytes, 0, 0, found.code);
            if let Some(zeros) = zeros {
                zeros[0] = found.block.zero;
            }
            return self.run_cast(dst, how, |_| found.block);
        }
        // Codes of scales that do not lie one after the other are brought to their places in the end.
        let mut codes = vec![0; if scales.places.is_plain() { 0 } else { grid.scales }];
        let is_plain = scales.places.is_plain();
        let (mut dst, mut bytes, mut rest) = (dst, &mut scale_bytes[..], &mut codes[..]);
        let mut zeros = zeros;
        let mut chunks = Vec::new();
        for piece in grid.pieces(PIECE) {
            let size = self.write.at(piece.elements.end) - self.write.at(piece.elements.start);
            let now;
            (now, dst) = dst.split_at(size);
            let (base, n) = (piece.scales.start, piece.scales.len());
            let sink = if is_plain {
                let here;
                (here, bytes) = bytes.split_at_mut(scales.places.at(base + n) - scales.places.at(base));
                Sink::Bytes(*scales, here, base)
            } else {
                let here;
                (here, rest) = rest.split_at_mut(n);
                Sink::Codes(here, base)
            };
            let zeros = zeros.as_mut().map(|zeros| {
                let (here, behind) = core::mem::take(zeros).split_at_mut(n);
                *zeros = behind;
                here
            });
            chunks.push((piece, now, sink, zeros));
        }
        let traffic = self.source.size().saturating_add(self.write.at(grid.count));
        each(how, traffic, chunks, |(piece, dst, mut sink, zeros)| {
            self.found(&piece, dst, &mut sink, zeros, &mut Room::new())
        })?;
        for (i, code) in codes.into_iter().enumerate() {
            scales.set(scale_bytes, 0, i, code);
        }
        Ok(())
    }

    /// Casts all elements, whose scales are known.
    pub(super) fn run_given(
        &self,
        given: &Given<'_>,
        dst: Destination<'_, u8>,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        self.run_cast(dst, how, |scale| {
            let (code, zero) = given.get(scale);
            let block = self.quantize.given(code, zero, self.tensor);
            let float_zero = given.float_zero(scale);
            Block { float_zero, zero: if float_zero.is_some() { 0 } else { zero }, ..block }
        })
    }

    fn run_cast(
        &self,
        dst: Destination<'_, u8>,
        how: &Parallel<'_>,
        block: impl Fn(usize) -> Block + Sync,
    ) -> Result<(), Error> {
        let traffic = self.source.size().saturating_add(self.write.at(self.grid.count));
        each(how, traffic, chunks(self.grid, &self.write, dst), |(elements, mut dst)| {
            let base = elements.start;
            self.cast(elements, &mut dst, base, &mut Room::new(), &block)
        })
    }
}

/// A dequantisation of a buffer.
pub(super) struct Dequantizing<'a> {
    pub(super) dequantize: &'a Dequantize,
    pub(super) grid: &'a Grid,
    pub(super) read: Elements,
    pub(super) bytes: &'a [u8],
    pub(super) write: Elements,
    pub(super) given: Given<'a>,
}

impl Dequantizing<'_> {
    pub(super) fn run(&self, dst: Destination<'_, u8>, how: &Parallel<'_>) -> Result<(), Error> {
        let traffic = self.bytes.len().saturating_add(dst.size());
        each(how, traffic, chunks(self.grid, &self.write, dst), |(elements, mut dst)| {
            let (mut room, base) = (Room::new(), elements.start);
            let mut first = elements.start;
            while first < elements.end {
                let n = self.read.tile(first, elements.end);
                self.read.load(self.bytes, first, &mut room.codes[..n], &mut room.scratch)?;
                runs(self.grid, first, n, |run, scale| {
                    let (code, zero) = self.given.get(scale);
                    let s = self.dequantize.given(code);
                    for code in &mut room.codes[run] {
                        *code = self.dequantize.element(*code, s, zero);
                    }
                });
                self.write.store(&room.codes[..n], &mut dst, base, first, &mut room.scratch)?;
                first += n;
            }
            Ok(())
        })
    }
}

/// Cuts a destination into chunks that begin with a byte, and at a row where rows do.
fn chunks<'a>(
    grid: &Grid,
    write: &Elements,
    dst: Destination<'a, u8>,
) -> Vec<(Range<usize>, Destination<'a, u8>)> {
    let step = write.chunk(PIECE);
    let mut rest = dst;
    let mut all = Vec::new();
    for first in (0..grid.count).step_by(step) {
        let end = grid.count.min(first.saturating_add(step));
        let now;
        (now, rest) = rest.split_at(write.at(end) - write.at(first));
        all.push((first..end, now));
    }
    all
}

/// Does every job, on the threads of `how`; the first error ends it.
fn each<J: Send>(
    how: &Parallel<'_>,
    traffic: usize,
    jobs: Vec<J>,
    run: impl Fn(J) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let jobs: Vec<Lock<Option<J>>> = jobs.into_iter().map(|job| Lock::new(Some(job))).collect();
    let error = Lock::new(None);
    let is_done = Tasks::new(how, traffic).run(jobs.len(), &|i| {
        let job = jobs[i].lock().take();
        match job.map_or(Ok(()), &run) {
            Ok(()) => ControlFlow::Continue(()),
            Err(found) => {
                error.lock().get_or_insert(found);
                ControlFlow::Break(())
            }
        }
    });
    match error.into_inner() {
        Some(error) => Err(error),
        None if is_done => Ok(()),
        None => Err(Error::Cancelled),
    }
}
