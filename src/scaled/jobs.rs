//! Cuts a scaled cast into pieces and chunks for several threads. The vector kernels or the reference cast each.

#[cfg(isa = "vector")]
use alloc::vec::Vec;
use core::iter::repeat_n;
use core::ops::{ControlFlow, Range};

use super::codes::{Elements, Scales, TILE};
#[cfg(isa = "vector")]
use super::divide::{self, Divide};
use super::engine::{Dequantizing, Given, Quantizing, Rect, Room, Sink};
use super::error::Error;
use super::memory::collect;
#[cfg(isa = "vector")]
use super::multiply::Multiply;
use super::rule::{Block, Blocks, Extremes, Way};
#[cfg(isa = "vector")]
use super::scaling::NonFinite;
use super::shape::{Grid, Piece};
use crate::kernels::memory::Destination;
#[cfg(isa = "vector")]
use crate::kernels::scaled::in_kernel_environment;
use crate::parallel::{Parallel, SERIAL_BELOW, Tasks};
use crate::threads::Lock;

/// Elements of a piece, unless a single block has more: few enough to stay in a cache between finding the scales and casting.
const PIECE: usize = 16 * TILE;
/// Elements of a chunk for the kernels, which have a fixed cost per chunk.
#[cfg(isa = "vector")]
const LONG: usize = 256 * TILE;

/// The kernels of a quantisation, if there are any.
#[cfg(isa = "vector")]
pub(super) type Registers<'a> = Option<&'a divide::Decided>;
#[cfg(not(isa = "vector"))]
pub(super) type Registers<'a> = Option<&'a ()>;
/// The kernels of the quantisation of one buffer, if there are any.
#[cfg(isa = "vector")]
type Dividing<'a, 'b> = Option<&'b Divide<'a>>;
#[cfg(not(isa = "vector"))]
type Dividing<'a, 'b> = Option<&'b &'a ()>;

/// Called after each piece with the range of its elements, and with all codes and all scales so far.
pub(super) type Look<'a> = &'a mut dyn FnMut(Range<usize>, &[u8], &[u8]) -> Result<(), Error>;
/// As [`Look`], but without the scales.
type LookAtCodes<'a> = &'a mut dyn FnMut(Range<usize>, &[u8]) -> Result<(), Error>;

impl Quantizing<'_> {
    /// Returns the elements of a chunk for the kernels: fewer if the source has to be brought to a buffer first, so that this
    /// stays in a cache.
    #[cfg(isa = "vector")]
    fn long(&self) -> usize {
        if self.source.buffer().is_some() { LONG } else { 2 * PIECE }
    }

    /// Returns the extremes of all elements.
    #[inline(never)] // It is called from two places.
    pub(super) fn all_extremes(&self, how: &Parallel<'_>) -> Result<Extremes, Error> {
        let count = self.grid.count;
        let chunks = (0..count).step_by(PIECE).map(|first| first..count.min(first.saturating_add(PIECE)));
        let all = Lock::new(Extremes::NONE);
        each(how, false, self.source.size(), chunks, &|chunk| {
            #[cfg(isa = "vector")]
            if !self.affine
                && let Some(amax) = in_kernel_environment(|| divide::amax(self, chunk.clone()))?
            {
                let mut found = Extremes::NONE;
                found.add(self.quantize.source(amax), NonFinite::Propagate);
                all.lock().merge(found);
                return Ok(());
            }
            let found = self.extremes(chunk)?;
            all.lock().merge(found);
            Ok(())
        })?;
        Ok(all.into_inner())
    }

    /// Finds all scales and casts all elements. With zero points, finds those and the scales, and casts nothing: `zeros` gets
    /// their codes, one to a byte.
    pub(super) fn run_found(
        &self,
        registers: Registers<'_>,
        scales: &Scales,
        dst: Destination<'_, u8>,
        scale_bytes: &mut [u8],
        zeros: Option<&mut [u8]>,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        let grid = self.grid;
        if grid.scales == 1 {
            let (code, block) = self.find_only(scales, scale_bytes, how)?;
            if let Some(zeros) = zeros {
                zeros[0] = block.zero as u8;
                return Ok(());
            }
            let given = Given { scales: *scales, bytes: &code, zero_points: None };
            return self.run_cast(registers, &given, dst, how, Some(&block.way), &|_| block);
        }
        if !scales.places.is_plain() {
            scale_bytes.fill(0);
        }
        let divide = self.finding(registers);
        let divide = divide.as_ref();
        #[cfg(isa = "vector")]
        let wanted = if divide.is_some() || self.wide.is_some() { self.long() } else { PIECE };
        #[cfg(not(isa = "vector"))]
        let wanted = PIECE;
        // Where scales are not contiguous, pieces write their codes side by side, and these are moved to their places at the end.
        let is_plain = scales.places.is_plain();
        let mut codes = collect(repeat_n(0, if is_plain { 0 } else { grid.scales }))?;
        let (mut dst, mut bytes, mut rest) = (dst, &mut scale_bytes[..], &mut codes[..]);
        let (is_last, mut zeros) = (zeros.is_none(), zeros);
        let chunks = grid.pieces(wanted).map(|piece| {
            let size = self.write.at(piece.elements.end) - self.write.at(piece.elements.start);
            let now = dst.take(size);
            let (base, n) = (piece.scales.start, piece.scales.len());
            let sink = if is_plain {
                let size = scales.places.at(base + n) - scales.places.at(base);
                let here = bytes.split_off_mut(..size).unwrap_or_default();
                Sink::Bytes(*scales, here, base)
            } else {
                let here = rest.split_off_mut(..n).unwrap_or_default();
                Sink::Codes(*scales, here, base)
            };
            let zeros = zeros.as_mut().map(|zeros| zeros.split_off_mut(..n).unwrap_or_default());
            (piece, now, sink, zeros)
        });
        let traffic = self.source.size().saturating_add(self.write.at(grid.count));
        each(how, is_last, traffic, chunks, &|(piece, dst, mut sink, zeros)| {
            self.piece(divide, &piece, dst, &mut sink, zeros)
        })?;
        for (i, code) in codes.into_iter().enumerate() {
            scales.set(scale_bytes, 0, i, code);
        }
        Ok(())
    }

    /// As [`Self::run_found`], but on the calling thread. `look` is called after each piece.
    pub(super) fn run_found_in_turn(
        &self,
        registers: Registers<'_>,
        scales: &Scales,
        dst: &mut [u8],
        scale_bytes: &mut [u8],
        look: Look<'_>,
    ) -> Result<(), Error> {
        if self.grid.scales == 1 {
            let (code, block) = self.find_only(scales, scale_bytes, &Parallel::new().threads(1))?;
            let given = Given { scales: *scales, bytes: &code, zero_points: None };
            let way = Some(&block.way);
            return self.run_cast_in_turn(registers, &given, dst, way, &|_| block, &mut |elements, codes| {
                look(elements, codes, scale_bytes)
            });
        }
        if !scales.places.is_plain() {
            scale_bytes.fill(0);
        }
        let divide = self.finding(registers);
        for piece in self.grid.pieces(PIECE) {
            let here = self.write.at(piece.elements.start)..self.write.at(piece.elements.end);
            let (base, n) = (piece.scales.start, piece.scales.len());
            let mut codes = collect(repeat_n(0, if scales.places.is_plain() { 0 } else { n }))?;
            let mut sink = if codes.is_empty() {
                Sink::Bytes(*scales, scale_bytes, 0)
            } else {
                Sink::Codes(*scales, &mut codes, base)
            };
            self.piece(divide.as_ref(), &piece, (&mut dst[here]).into(), &mut sink, None)?;
            for (i, code) in codes.into_iter().enumerate() {
                scales.set(scale_bytes, 0, base + i, code);
            }
            look(piece.elements, dst, scale_bytes)?;
        }
        Ok(())
    }

    /// Returns the kernels, if they can find the scales, too.
    #[cfg(isa = "vector")]
    fn finding<'b>(&'b self, registers: Registers<'b>) -> Option<Divide<'b>> {
        in_kernel_environment(|| Divide::new(self, registers?).filter(Divide::finds))
    }

    /// There are no kernels.
    #[cfg(not(isa = "vector"))]
    fn finding<'b>(&'b self, _: Registers<'b>) -> Option<&'b ()> {
        None
    }

    /// Finds the only scale, in a pass of its own. Returns its code as bytes, and how elements are divided.
    fn find_only(
        &self,
        scales: &Scales,
        scale_bytes: &mut [u8],
        how: &Parallel<'_>,
    ) -> Result<([u8; 8], Block), Error> {
        if !scales.places.is_plain() {
            scale_bytes.fill(0);
        }
        let data = self.all_extremes(how)?;
        let found = self.quantize.find(&data, self.tensor, self.affine);
        scales.set(scale_bytes, 0, 0, found.code);
        let mut code = [0; 8];
        scales.set(&mut code, 0, 0, found.code);
        Ok((code, found.block))
    }

    /// Finds the scales of a piece and casts it, or finds zero points, too, and casts nothing. `dst` begins where the piece does.
    fn piece(
        &self,
        divide: Dividing<'_, '_>,
        piece: &Piece,
        mut dst: Destination<'_, u8>,
        sink: &mut Sink<'_>,
        zeros: Option<&mut [u8]>,
    ) -> Result<(), Error> {
        #[cfg(isa = "vector")]
        if let Some(divide) = divide {
            let mut room = Vec::new();
            let is_done = in_kernel_environment(|| {
                let floats = self.source.floats(&piece.elements, &mut room)?;
                let Some((bytes, first)) = floats else { return Ok(false) };
                divide.on(bytes, first).found(piece, &mut dst, sink).map(|()| true)
            });
            if is_done? {
                return Ok(());
            }
        }
        let _ = divide;
        let rect = Rect::of(piece.elements.clone(), piece.scales.clone());
        let mut room = Room::new()?;
        match zeros {
            Some(zeros) => self.zero_points(&rect, sink, zeros, &mut room),
            None => self.found(&rect, piece.elements.start, &mut dst, sink, &mut room),
        }
    }

    /// Casts all elements under given scales.
    pub(super) fn run_given(
        &self,
        registers: Registers<'_>,
        given: &Given<'_>,
        dst: Destination<'_, u8>,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        let block = |scale| given.block(self.quantize, scale, self.tensor);
        self.run_cast(registers, given, dst, how, None, &block)
    }

    /// As [`Self::run_given`], but on the calling thread. `look` is called after each part.
    pub(super) fn run_given_in_turn(
        &self,
        registers: Registers<'_>,
        given: &Given<'_>,
        dst: &mut [u8],
        look: Look<'_>,
    ) -> Result<(), Error> {
        let block = |scale| given.block(self.quantize, scale, self.tensor);
        self.run_cast_in_turn(registers, given, dst, None, &block, &mut |elements, codes| {
            look(elements, codes, given.bytes)
        })
    }

    fn run_cast(
        &self,
        registers: Registers<'_>,
        given: &Given<'_>,
        dst: Destination<'_, u8>,
        how: &Parallel<'_>,
        found: Option<&Way>,
        block: &(dyn Fn(usize) -> Block + Sync),
    ) -> Result<(), Error> {
        let traffic = self.source.size().saturating_add(self.write.at(self.grid.count));
        let divide = self.casting(registers, given, found);
        let divide = divide.as_ref();
        #[cfg(isa = "vector")]
        let wanted = if divide.is_some() || self.wide.is_some() { self.long() } else { PIECE };
        #[cfg(not(isa = "vector"))]
        let wanted = PIECE;
        each(how, true, traffic, chunks(self.grid, &self.write, dst, wanted), &|(elements, dst)| {
            self.part(divide, given, elements, dst, block)
        })
    }

    fn run_cast_in_turn(
        &self,
        registers: Registers<'_>,
        given: &Given<'_>,
        dst: &mut [u8],
        found: Option<&Way>,
        block: &dyn Fn(usize) -> Block,
        look: LookAtCodes<'_>,
    ) -> Result<(), Error> {
        let divide = self.casting(registers, given, found);
        let count = self.grid.count;
        let step = self.write.chunk(PIECE);
        for first in (0..count).step_by(step) {
            let elements = first..count.min(first.saturating_add(step));
            let here = self.write.at(elements.start)..self.write.at(elements.end);
            self.part(divide.as_ref(), given, elements.clone(), (&mut dst[here]).into(), block)?;
            look(elements, dst)?;
        }
        Ok(())
    }

    /// Returns the kernels for scales that are given, or for the only scale, which was found before.
    #[cfg(isa = "vector")]
    fn casting<'b>(
        &'b self,
        registers: Registers<'b>,
        given: &Given<'_>,
        found: Option<&Way>,
    ) -> Option<Divide<'b>> {
        in_kernel_environment(|| {
            let divide = Divide::new(self, registers?).filter(|_| !given.has_float_zeros())?;
            if let Some(way) = found { divide.known(way) } else { Some(divide) }
        })
    }

    /// There are no kernels.
    #[cfg(not(isa = "vector"))]
    fn casting<'b>(&'b self, _: Registers<'b>, _: &Given<'_>, _: Option<&Way>) -> Option<&'b ()> {
        None
    }

    /// Casts elements whose scales are known. `dst` begins with the first of them.
    fn part(
        &self,
        divide: Dividing<'_, '_>,
        given: &Given<'_>,
        elements: Range<usize>,
        mut dst: Destination<'_, u8>,
        block: &dyn Fn(usize) -> Block,
    ) -> Result<(), Error> {
        #[cfg(isa = "vector")]
        if let Some(divide) = divide {
            let mut room = Vec::new();
            let is_done = in_kernel_environment(|| {
                let floats = self.source.floats(&elements, &mut room)?;
                let Some((bytes, first)) = floats else { return Ok(false) };
                divide.on(bytes, first).given(given, elements.clone(), &mut dst, block).map(|()| true)
            });
            if is_done? {
                return Ok(());
            }
        }
        let _ = (divide, given);
        #[cfg(isa = "vector")]
        let (numbers, base) = self.given_by_f64(given, &elements)?;
        #[cfg(isa = "vector")]
        let blocks = Blocks { each: block, numbers: &numbers, base };
        #[cfg(not(isa = "vector"))]
        let blocks = Blocks::each(block);
        let base = elements.start;
        self.cast(elements, &mut dst, base, &mut Room::new()?, &blocks)
    }
}

impl Dequantizing<'_> {
    /// Casts all elements by the kernels.
    #[cfg(isa = "vector")]
    pub(super) fn run_by(
        &self,
        multiply: &Multiply<'_>,
        dst: Destination<'_, u8>,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        let traffic = self.bytes.len().saturating_add(dst.size());
        let chunks = chunks(self.grid, &self.write, dst, LONG);
        each(how, true, traffic, chunks, &|(elements, dst)| {
            in_kernel_environment(|| multiply.run(elements, dst)).map(drop)
        })
    }

    /// Casts all elements by the reference.
    pub(super) fn run(&self, dst: Destination<'_, u8>, how: &Parallel<'_>) -> Result<(), Error> {
        let traffic = self.bytes.len().saturating_add(dst.size());
        each(how, true, traffic, chunks(self.grid, &self.write, dst, PIECE), &|(elements, mut dst)| {
            let base = elements.start;
            self.by_reference(elements, base, &mut dst, &mut Room::new()?)
        })
    }
}

/// Cuts a destination into chunks that begin at a byte, and at a row if rows begin at bytes of their own.
fn chunks<'a>(
    grid: &Grid,
    write: &Elements,
    dst: Destination<'a, u8>,
    wanted: usize,
) -> impl ExactSizeIterator<Item = (Range<usize>, Destination<'a, u8>)> {
    let step = write.chunk(wanted);
    let mut rest = dst;
    (0..grid.count).step_by(step).map(move |first| {
        let end = grid.count.min(first.saturating_add(step));
        (first..end, rest.take(write.at(end) - write.at(first)))
    })
}

/// Runs every job on the threads of `how`. The first error stops it, and so does the progress callback, unless all is done and
/// this pass is the last one.
fn each<J: Send>(
    how: &Parallel<'_>,
    is_last: bool,
    traffic: usize,
    jobs: impl ExactSizeIterator<Item = J>,
    run: &(dyn Fn(J) -> Result<(), Error> + Sync),
) -> Result<(), Error> {
    let jobs = collect(jobs.map(|job| Lock::new(Some(job))))?;
    let error = Lock::new(None);
    let (done, is_stopped) =
        Tasks::new(how, SERIAL_BELOW, traffic).run(jobs.len(), jobs.len(), &|_| 1, &|i| {
            let job = jobs[i].lock().take();
            match job.map_or(Ok(()), run) {
                Ok(()) => ControlFlow::Continue(()),
                Err(found) => {
                    error.lock().get_or_insert(found);
                    ControlFlow::Break(())
                }
            }
        });
    match error.into_inner() {
        Some(error) => Err(error),
        None if done == jobs.len() && (is_last || !is_stopped) => Ok(()),
        None => Err(Error::Cancelled),
    }
}
