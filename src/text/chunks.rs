//! Divides batches of texts into chunks, and divides these among the threads if that is faster.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::error::{Error, Reason};
use super::format::LONGEST;
use super::source::{Chunk, Offset, Source};
use crate::formats::dtype::{DType, Kind};
use crate::formats::element::Element;
use crate::threads::{self, Lock};

/// Elements per chunk: a multiple of 8, so that chunks of packed elements are whole bytes. A chunk takes a thread some 100 µs;
/// handing one to the pool takes up to 17 µs.
pub(super) const CHUNK: usize = 4096;

pub(super) fn refuse_complex(dtype: DType) -> Result<(), Error> {
    match dtype.kind() {
        Kind::Complex(_) => Err(Error::Complex { dtype }),
        _ => Ok(()),
    }
}

/// Parses the texts from `first` on with `parse`, and stores the codes as elements of `to`, or as u64s.
pub(super) fn parse_chunk<D: Element>(
    src: &impl Source,
    first: usize,
    dst: &mut [D],
    to: DType,
    parse: impl Fn(&str) -> Result<u64, Reason>,
) -> Result<(), Error> {
    /// Not inlined, because it would take registers from the loop.
    #[cold]
    fn wrong(index: usize, text: &str, dtype: DType, reason: Reason) -> Error {
        Error::Element { index, text: text.to_owned(), dtype, reason }
    }

    let chunk = src.chunk(first, dst.len())?;
    for (i, element) in dst.iter_mut().enumerate() {
        let Some(text) = chunk.get(i) else { return Err(chunk.fault()) };
        match parse(text) {
            Ok(code) => *element = D::from_codes([code, 0]),
            Err(reason) => return Err(wrong(first + i, text, to, reason)),
        }
    }
    Ok(())
}

/// Texts in one buffer, and the offset at which each of them ends.
pub(super) struct Texts<O> {
    ends: Vec<O>,
    bytes: Vec<u8>,
}

impl<O: Offset> Texts<O> {
    /// No texts yet, with room for the offsets of `ends` texts.
    fn new(ends: usize) -> Result<Self, Error> {
        Ok(Self { ends: room(ends)?, bytes: Vec::new() })
    }

    /// Appends the text that `write` appends to its argument: at most [`LONGEST`] bytes.
    #[inline]
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        if self.bytes.try_reserve(LONGEST).is_err() {
            return Err(no_memory(self.bytes.len()));
        }
        write(&mut self.bytes);
        // This may wrap around: `join` checks the last offset, which is the largest.
        self.ends.push(O::of(self.bytes.len()));
        Ok(())
    }
}

/// The work of one chunk, which may fail. It is a trait object, so that the functions below are not compiled once for each dtype.
type Part<'a, At, T> = &'a (dyn Fn(At, &mut T) -> Result<(), Error> + Sync);

/// Calls `write` for each chunk of `0..n` to append its texts, and joins the texts of all chunks.
pub(super) fn join<O: Offset>(
    n: usize,
    write: Part<'_, Range<usize>, Texts<O>>,
) -> Result<(Vec<O>, Vec<u8>), Error> {
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
        texts.bytes.try_reserve_exact(bytes).map_err(|_| no_memory(bytes))?;
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

/// Calls `work` with each chunk of `data`, of `size` items, and the index of its first item, on several threads if there are many
/// chunks. Of several errors, that of the first chunk is returned.
pub(super) fn each_chunk<T: Send>(
    data: &mut [T],
    size: usize,
    work: Part<'_, usize, [T]>,
) -> Result<(), Error> {
    if !pays(data.len().div_ceil(size)) {
        return data.chunks_mut(size).enumerate().try_for_each(|(i, chunk)| work(i * size, chunk));
    }
    let parts = data.chunks_mut(size).map(Lock::new);
    let mut chunks = room(parts.len())?;
    chunks.extend(parts);
    on_all_threads(chunks.len(), &|i| work(i * size, &mut chunks[i].lock()))
}

/// Calls `work` with each chunk of `0..n`, and returns the results in order, or the error of the first chunk that has one.
pub(super) fn each_range<T: Send>(
    n: usize,
    work: impl Fn(Range<usize>) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let range = |i: usize| i * CHUNK..n.min((i + 1) * CHUNK);
    let chunks = 0..n.div_ceil(CHUNK);
    let mut done = room(chunks.len())?;
    if !pays(chunks.len()) {
        for i in chunks {
            done.push(work(range(i))?);
        }
        return Ok(done);
    }
    let mut results = room(chunks.len())?;
    results.extend(chunks.map(|_| Lock::new(None)));
    on_all_threads(results.len(), &|i| {
        *results[i].lock() = Some(work(range(i))?);
        Ok(())
    })?;
    done.extend(results.into_iter().filter_map(Lock::into_inner));
    Ok(done)
}

/// An empty vector with room for `len` items.
pub(super) fn room<T>(len: usize) -> Result<Vec<T>, Error> {
    let mut room = Vec::new();
    match room.try_reserve_exact(len) {
        Ok(()) => Ok(room),
        Err(_) => Err(no_memory(len.saturating_mul(size_of::<T>()))),
    }
}

#[cold]
pub(super) fn no_memory(bytes: usize) -> Error {
    Error::Allocation { bytes }
}

/// Calls `work` with every number below `chunks`, on all threads. Of several errors, that of the first chunk is returned.
fn on_all_threads(chunks: usize, work: &(dyn Fn(usize) -> Result<(), Error> + Sync)) -> Result<(), Error> {
    /// The first chunk so far that has an error, and the error.
    type Wrong = Option<(usize, Error)>;

    let (first, wrong) = (AtomicUsize::new(usize::MAX), Lock::new(Wrong::None));
    threads::each(chunks, &|i| {
        // Chunks after one with an error are skipped.
        if i > first.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = work(i) {
            let mut wrong = wrong.lock();
            if wrong.as_ref().is_none_or(|&(other, _)| i < other) {
                first.store(i, Ordering::Relaxed);
                *wrong = Some((i, error));
            }
        }
    });
    let wrong = wrong.into_inner();
    wrong.map_or(Ok(()), |(_, error)| Err(error))
}

/// Whether there are enough chunks for a second thread, and there is one.
fn pays(chunks: usize) -> bool {
    chunks >= 4 && threads::count() > 1
}
