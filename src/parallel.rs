//! Large casts on several threads ([`Caster::par_cast`]): which threads, in which chunks, and how progress is reported.
//!
//! No result depends on these, because each chunk is a cast of its own.
//!
//! ```
//! use lanecast::{parallel::Parallel, CastOptions, Caster, DType};
//! let caster = Caster::new(DType::U8, DType::F32, &CastOptions::new())?;
//! let mut out = vec![0; 4 << 20];
//! caster.par_cast(&vec![3; 1 << 20], &mut out, 1 << 20)?; // on the rayon pool
//! caster.par_cast_with(&vec![3; 1 << 20], &mut out, 1 << 20, &Parallel::new().threads(2))?;
//! # Ok::<(), lanecast::Error>(())
//! ```

// Each worker is given a contiguous part of the buffers and casts it chunk by chunk, so that a second cast of the same buffers
// finds them in the caches of the same cores. A worker that has finished its part takes chunks from the ends of the other parts.
// The calling thread is one of the workers and starts at once. Chunks are taken under a lock, so that each is cast exactly once.

use alloc::vec::Vec;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::{ControlFlow, Range};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::cast::Caster;
use crate::error::{Error, Lossy};
use crate::formats::isa::Isa;
use crate::formats::route::Layout;
use crate::kernels::memory::Destination;
use crate::kernels::sizes::LINE;
use crate::threads::{self, Lock};

/// The calling thread casts alone if fewer bytes than this are read and written together. Measured with `benches/views.rs`: waking
/// threads and waiting for them takes 15 to 40 µs, in which one thread casts 1 to 3 MiB from its caches. From this size on two
/// threads were faster for each pair of that benchmark; at half of it, some took a third longer than one thread.
pub(crate) const SERIAL_BELOW: usize = 4 << 20;
/// As [`SERIAL_BELOW`], where threads have to be started first: two threads took up to twice as long as one for 4 MiB, up to 1.5 times
/// as long for 8 MiB, and were faster for each pair at 16 MiB.
const SERIAL_BELOW_STARTED: usize = 16 << 20;
/// As [`SERIAL_BELOW`], for the reference, which is more than ten times slower.
const SERIAL_BELOW_SCALAR: usize = 256 << 10;
/// Bytes read and written per chunk: enough that the time to take a chunk is negligible, and few enough that all threads end at
/// about the same time.
const CHUNK: core::ops::RangeInclusive<usize> = 256 << 10..=4 << 20;
/// The length of a chunk is a multiple of this many elements, which fill whole cache lines whatever their width.
const LINES: usize = 512;
/// The limit of [`Parallel::threads`].
const MOST_THREADS: usize = 1024;

/// A parallel loop on the threads of a host, for libraries that have threads of their own.
///
/// ```
/// use lanecast::{parallel::{Parallel, ParallelFor}, CastOptions, Caster, DType};
///
/// /// A thread for each task. A real one has threads that wait.
/// struct Host;
///
/// impl ParallelFor for Host {
///     fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
///         std::thread::scope(|scope| {
///             for i in 0..tasks {
///                 scope.spawn(move || task(i));
///             }
///         });
///     }
/// }
///
/// let caster = Caster::new(DType::U8, DType::F32, &CastOptions::new())?;
/// let mut out = vec![0; 4000];
/// caster.par_cast_with(&[3; 1000], &mut out, 1000, &Parallel::new().host(&Host).chunk(300))?;
/// assert_eq!(out, 3f32.to_ne_bytes().repeat(1000));
/// # Ok::<(), lanecast::Error>(())
/// ```
pub trait ParallelFor: Sync {
    /// Calls `task` with every number below `tasks`, from any threads and in any order, and returns when all
    /// calls have returned.
    ///
    /// A number only says where a call had better look for work first: numbers may repeat, as long as there are `tasks` calls. Leaving calls out
    /// only costs time: the thread that called the cast does what is left.
    ///
    /// ```
    /// use rayon::prelude::*;
    ///
    /// struct Rayon;
    ///
    /// impl lanecast::parallel::ParallelFor for Rayon {
    ///     fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    ///         (0..tasks).into_par_iter().for_each(task);
    ///     }
    /// }
    /// ```
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));

    /// Whether threads are started only when they are asked for work. The caller then casts alone below 16 MiB, as with
    /// [`Parallel::threads`]; if threads wait for work, below 4 MiB.
    ///
    /// ```
    /// use lanecast::parallel::ParallelFor;
    ///
    /// struct Scope;
    ///
    /// impl ParallelFor for Scope {
    ///     fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    ///         std::thread::scope(|scope| (0..tasks).for_each(|i| _ = scope.spawn(move || task(i))));
    ///     }
    ///     fn starts_threads(&self) -> bool {
    ///         true
    ///     }
    /// }
    ///
    /// assert!(Scope.starts_threads());
    /// ```
    fn starts_threads(&self) -> bool {
        false
    }
}

/// How far a cast has come.
///
/// ```
/// use std::ops::ControlFlow;
/// use lanecast::{parallel::{Parallel, Progress}, CastOptions, Caster, DType};
///
/// let report = |progress: Progress| {
///     println!("{} of {} elements", progress.done, progress.total);
///     ControlFlow::Continue(())
/// };
/// let caster = Caster::new(DType::U8, DType::I8, &CastOptions::new())?;
/// caster.par_cast_with(&[1; 9], &mut [0; 9], 9, &Parallel::new().chunk(3).progress(&report))?;
/// # Ok::<(), lanecast::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// How many elements have been cast. In scaled casts it counts pieces of the work, and begins again at 0, perhaps with
    /// another total, after a pass that only finds something: the tensor scale, the one scale of all elements, or scales with
    /// zero points.
    pub done: usize,
    /// The value of `done` at the end of the cast.
    pub total: usize,
}

/// On which threads a cast runs, in which chunks, and what is told of its progress. No result depends on it.
///
/// ```
/// use lanecast::{parallel::Parallel, CastOptions, Caster, DType};
/// let caster = Caster::new(DType::U8, DType::BF16, &CastOptions::new())?;
/// let mut out = vec![0; 2000];
/// caster.par_cast_with(&[1; 1000], &mut out, 1000, &Parallel::new().threads(3).chunk(64))?;
/// assert_eq!(out, [0x3F80u16.to_ne_bytes(); 1000].concat());
/// # Ok::<(), lanecast::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
#[must_use = "options do nothing until a cast takes them"]
pub struct Parallel<'a> {
    threads: Option<usize>,
    chunk: Option<usize>,
    host: Option<&'a dyn ParallelFor>,
    progress: Option<&'a (dyn Fn(Progress) -> ControlFlow<()> + Sync)>,
}

impl fmt::Debug for Parallel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parallel")
            .field("threads", &self.threads)
            .field("chunk", &self.chunk)
            .field("host", &self.host.is_some())
            .field("progress", &self.progress.is_some())
            .finish()
    }
}

impl<'a> Parallel<'a> {
    /// Runs on the calling thread and on threads of its rayon pool, or else of the global pool: as many in all as the pool
    /// has, if there is enough work.
    /// Without the feature `parallel`, where the pool cannot be started, and in a forked child, which has no other threads,
    /// the calling thread casts alone.
    ///
    /// ```
    /// use lanecast::{parallel::Parallel, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::U8, DType::I8, &CastOptions::new())?;
    /// let mut out = [0];
    /// caster.par_cast_with(&[1], &mut out, 1, &Parallel::new())?;
    /// assert_eq!(out, [1]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn new() -> Self {
        Self { threads: None, chunk: None, host: None, progress: None }
    }

    /// Runs on the calling thread and `threads - 1` threads that are started for this cast, instead of a pool. Fewer are started
    /// if there are fewer chunks or if starting one fails, and none for less than 16 MiB (256 KiB on the reference), read and
    /// written together, unless [`Parallel::chunk`] says how to divide the cast. 0 means 1. (In C, 0 means a
    /// pool: here that is [`Parallel::new`] without this method.)
    ///
    /// ```
    /// use lanecast::{parallel::Parallel, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::U8, DType::I8, &CastOptions::new())?;
    /// let mut out = vec![0; 1 << 21];
    /// caster.par_cast_with(&vec![1; 1 << 21], &mut out, 1 << 21, &Parallel::new().threads(2))?;
    /// assert!(out.iter().all(|&x| x == 1));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Sets the number of elements of a chunk, and lifts the minimum of work for several threads. It is rounded up to
    /// whole bytes of packed elements, and from 512 on to a multiple of 512, which fill whole cache lines.
    ///
    /// ```
    /// use lanecast::{parallel::Parallel, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::U4, DType::U8, &CastOptions::new())?;
    /// let mut out = [0; 20];
    /// caster.par_cast_with(&[0x21; 10], &mut out, 20, &Parallel::new().threads(2).chunk(1))?;
    /// assert_eq!(out, [1, 2].repeat(10)[..]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn chunk(self, elements: usize) -> Self {
        Self { chunk: Some(elements), ..self }
    }

    /// Runs on the threads of a host. [`Parallel::threads`] then only says how many these are, for the size of a chunk.
    ///
    /// ```
    /// use lanecast::{parallel::{Parallel, ParallelFor}, CastOptions, Caster, DType};
    ///
    /// struct Serial;
    /// impl ParallelFor for Serial {
    ///     fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    ///         (0..tasks).for_each(task);
    ///     }
    /// }
    ///
    /// let caster = Caster::new(DType::U8, DType::I8, &CastOptions::new())?;
    /// let mut out = [0; 3];
    /// caster.par_cast_with(&[1, 2, 3], &mut out, 3, &Parallel::new().host(&Serial).chunk(1))?;
    /// assert_eq!(out, [1, 2, 3]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn host(self, host: &'a dyn ParallelFor) -> Self {
        Self { host: Some(host), ..self }
    }

    /// Calls `progress` after every chunk, on the thread that has cast it. Calls of several threads may come in any order, so `done`
    /// may be less than in the call before. After [`ControlFlow::Break`] no further chunk is begun.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use lanecast::{parallel::Parallel, CastOptions, Caster, DType, Error};
    ///
    /// let caster = Caster::new(DType::U8, DType::I8, &CastOptions::new())?;
    /// let stop = |progress: lanecast::parallel::Progress| match progress.done {
    ///     0..500 => ControlFlow::Continue(()),
    ///     _ => ControlFlow::Break(()),
    /// };
    /// let how = Parallel::new().threads(1).chunk(100).progress(&stop);
    /// let error = caster.par_cast_with(&[7; 1000], &mut [0; 1000], 1000, &how).unwrap_err();
    /// assert_eq!(error, Error::Cancelled { done: 500, elements: 1000 });
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn progress(self, progress: &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync)) -> Self {
        Self { progress: Some(progress), ..self }
    }
}

impl Caster {
    /// Casts as [`Caster::cast`] does, on all threads of the rayon pool that the caller is in, or of the global pool, if that is
    /// faster: the calling thread casts alone if less than 4 MiB (256 KiB on the reference) is read and written together. It does
    /// not wait for threads that are busy with something else; those that become idle in time take part.
    ///
    /// The first call outside of a pool starts the global one, if it has not been started: a program that configures it does so
    /// before. If the global pool is busy, that call may wait for it for a tenth of a second, and then casts alone.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::F32, DType::F16, &CastOptions::new())?;
    /// let src = 1.5f32.to_ne_bytes().repeat(1 << 20);
    /// let mut dst = vec![0; 2 << 20];
    /// caster.par_cast(&src, &mut dst, 1 << 20)?;
    /// assert!(dst == 0x3E00u16.to_ne_bytes().repeat(1 << 20));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size of `n` elements. Nothing was written.
    pub fn par_cast(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<(), Error> {
        self.par_cast_with(src, dst, n, &Parallel::new())
    }

    /// Casts as [`Caster::cast`] does, on the threads, in the chunks and with the callback of `how`.
    ///
    /// ```
    /// use lanecast::{parallel::Parallel, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I32, DType::I8, &CastOptions::new())?;
    /// let mut dst = [0; 2];
    /// caster.par_cast_with(&[1, 0, 0, 0, 1, 0, 0, 0], &mut dst, 2, &Parallel::new().threads(2))?;
    /// # if cfg!(target_endian = "little") {
    /// assert_eq!(dst, [1, 1]);
    /// # }
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size of `n` elements, and nothing was written; or the callback has stopped the cast.
    pub fn par_cast_with(
        &self,
        src: &[u8],
        dst: &mut [u8],
        n: usize,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        run(self, src, dst.into(), n, how, &cast)
    }

    /// As [`Caster::par_cast_with`], to memory that need not be initialised and is returned initialised.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use lanecast::{parallel::Parallel, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I16, DType::I8, &CastOptions::new())?;
    /// let mut memory = [MaybeUninit::uninit(); 1];
    /// let out = caster.par_cast_uninit_with(&7i16.to_ne_bytes(), &mut memory, 1, &Parallel::new())?;
    /// assert_eq!(out, [7]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Caster::par_cast_with`].
    pub fn par_cast_uninit_with<'a>(
        &self,
        src: &[u8],
        dst: &'a mut [MaybeUninit<u8>],
        n: usize,
        how: &Parallel<'_>,
    ) -> Result<&'a mut [u8], Error> {
        let mut dst = Destination::from(dst);
        run(self, src, dst.reborrow(), n, how, &cast)?;
        #[allow(unsafe_code, reason = "the chunks are the whole")]
        // SAFETY: `run` has cast all elements, whose bytes together are the whole destination: the chunks were split off it
        // one after the other, and `Caster::fill` has initialised every byte of each chunk.
        Ok(unsafe { dst.assume_init() })
    }
}

impl Parallel<'_> {
    /// The same threads for work other than the cast itself, without progress reports and with the default chunks.
    #[cfg(feature = "scaled")]
    pub(crate) fn silent(&self) -> Self {
        Self { progress: None, chunk: None, ..*self }
    }

    /// Whether there is so little work that the calling thread does it alone, and how many threads share it at most. `traffic` is the
    /// number of bytes read and written, `serial_below` the number from which it is worth waking threads that wait.
    fn share(&self, serial_below: usize, traffic: usize) -> (bool, usize) {
        let starts = self.host.map_or(self.threads.is_some(), ParallelFor::starts_threads);
        // Starting threads takes longer than waking them. For a cast by the reference this difference is negligible.
        let enough = if starts && serial_below == SERIAL_BELOW { SERIAL_BELOW_STARTED } else { serial_below };
        let is_small = self.chunk.is_none() && traffic < enough;
        let most = match (self.threads, self.host) {
            _ if is_small => 1,
            (Some(threads), _) => threads.clamp(1, MOST_THREADS),
            (None, Some(_)) => threads::cores(),
            (None, None) => threads::count(),
        };
        (is_small, most)
    }
}

/// The number of bytes read and written from which it is worth waking waiting threads for a cast.
pub(crate) fn serial_below(isa: Isa) -> usize {
    if isa == Isa::Scalar { SERIAL_BELOW_SCALAR } else { SERIAL_BELOW }
}

/// What is done with a chunk. The arguments are its caster, source, destination and number of elements, and the number of elements before it,
/// which the index of an [`Error::Lossy`] includes.
pub(crate) type Work<'a> =
    dyn Fn(&Caster, &[u8], Destination<'_, u8>, usize, usize) -> Result<(), Error> + Sync + 'a;

fn cast(caster: &Caster, src: &[u8], dst: Destination<'_, u8>, n: usize, _: usize) -> Result<(), Error> {
    caster.fill(src, dst, n).map(drop)
}

/// Calls `work` for all chunks. If elements are lost, the error is that of the first of them.
pub(crate) fn run(
    caster: &Caster,
    src: &[u8],
    dst: Destination<'_, u8>,
    n: usize,
    how: &Parallel<'_>,
    work: &Work<'_>,
) -> Result<(), Error> {
    caster.check(src.len(), dst.size(), n)?;
    // Slices have at most `isize::MAX` bytes, so this sum cannot overflow.
    let traffic = src.len().saturating_add(dst.size());
    let (is_small, most) = how.share(serial_below(caster.isa()), traffic);
    if is_small && how.progress.is_none() {
        return work(caster, src, dst, n, 0);
    }
    let lengths = Lengths::new(caster.layouts(), how.chunk, most, traffic, dst.as_mut_ptr().addr(), n);
    let chunks = lengths.chunks();
    let workers = most.min(chunks);
    let job = Job::new(caster, src, dst, lengths, workers, how, work);
    if let Some(host) = how.host.filter(|_| chunks > 1 && !is_small) {
        // Consecutive tasks take chunks from the same part. Once that is empty, they take chunks of other parts.
        let each = chunks.div_ceil(workers);
        host.run(chunks, &|task| _ = job.step(task / each));
    } else if how.threads.is_some() {
        threads::start(workers, &|worker| job.work(worker));
    } else {
        threads::run(workers, &|worker| job.work(worker));
    }
    // Chunks that no thread has taken.
    job.work(0);
    job.outcome()
}

/// Work in numbered pieces other than the chunks of a cast. Each thread that is free takes the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tasks<'a> {
    how: Parallel<'a>,
    threads: usize,
    is_small: bool,
}

impl<'a> Tasks<'a> {
    /// For work that reads and writes `traffic` bytes; from `serial_below` on, waiting threads are worth waking.
    pub(crate) fn new(how: &Parallel<'a>, serial_below: usize, traffic: usize) -> Self {
        let (is_small, threads) = how.share(serial_below, traffic);
        Self { how: *how, threads, is_small }
    }

    /// How many threads share the work at most.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// The number of elements of a chunk, for elements of `bytes` bytes on both sides together.
    pub(crate) fn chunk(&self, traffic: usize, bytes: usize) -> usize {
        self.how.chunk.unwrap_or_else(|| chunk_bytes(traffic, self.threads) / bytes).max(1)
    }

    /// Whether the work need not be divided: it is small, and no progress is reported.
    pub(crate) fn are_one(&self) -> bool {
        self.is_small && self.how.progress.is_none()
    }

    /// Calls `task` with every number below `count`, on several threads. `size` says how much of `total` each task is. Returns how much
    /// was done, and whether a task or the progress callback has stopped the work, perhaps when all was done.
    pub(crate) fn run(
        &self,
        count: usize,
        total: usize,
        size: &(dyn Fn(usize) -> usize + Sync),
        task: &(dyn Fn(usize) -> ControlFlow<()> + Sync),
    ) -> (usize, bool) {
        let (next, done, stopped) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let step = || {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count || stopped.load(Ordering::Relaxed) {
                return false;
            }
            let mut flow = task(i);
            let done = done.fetch_add(size(i), Ordering::AcqRel) + size(i);
            if let Some(progress) = self.how.progress
                && flow.is_continue()
            {
                flow = progress(Progress { done, total });
            }
            if flow.is_break() {
                stopped.store(true, Ordering::Relaxed);
            }
            true
        };
        let work = |_worker: usize| while step() {};
        let workers = self.threads.min(count);
        match self.how.host {
            Some(host) if count > 1 && !self.is_small => host.run(workers, &work),
            _ if workers <= 1 => {}
            _ if self.how.threads.is_some() => threads::start(workers, &work),
            _ => threads::run(workers, &work),
        }
        // The calling thread does what no other thread has taken.
        work(0);
        (done.into_inner(), stopped.into_inner())
    }
}

/// The bytes that a chunk reads and writes: there are four chunks per thread, so that no thread has to be waited for long if it started late.
fn chunk_bytes(traffic: usize, threads: usize) -> usize {
    (traffic / (4 * threads)).clamp(*CHUNK.start(), *CHUNK.end())
}

/// The numbers of elements of the first chunk, of each other chunk (the last may have fewer), and of all chunks together.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    first: usize,
    others: usize,
    total: usize,
}

impl Lengths {
    fn new(
        layouts: [Layout; 2],
        chunk: Option<usize>,
        threads: usize,
        traffic: usize,
        dst: usize,
        n: usize,
    ) -> Self {
        let bits = layouts.map(|layout| layout.size(8));
        let is_packed = bits.iter().any(|&bits| bits < 8);
        // Nothing overflows: a chunk has at most a few MiB.
        let wanted =
            chunk.unwrap_or_else(|| (chunk_bytes(traffic, threads) * 8 / (bits[0] + bits[1])).max(LINES));
        let wanted = wanted.clamp(1, n.max(1));
        if wanted < LINES {
            let length = if is_packed { wanted.next_multiple_of(8) } else { wanted };
            return Self { first: length, others: length, total: n };
        }
        // With a 32-bit usize this may overflow: there can be so many elements of one bit.
        let others = wanted.checked_next_multiple_of(LINES).unwrap_or(wanted);
        // The first chunk is longer, so that each of the others begins at a cache line of the destination, unless an element straddles
        // the boundary.
        let ahead = 8 * (dst.wrapping_neg() % LINE);
        let unit = if is_packed { 8 * bits[1] } else { bits[1] };
        let ahead = if ahead.is_multiple_of(unit) { ahead / bits[1] } else { 0 };
        Self { first: others + ahead, others, total: n }
    }

    fn chunks(&self) -> usize {
        usize::from(self.total > 0) + self.total.saturating_sub(self.first).div_ceil(self.others)
    }

    /// How many elements come before a chunk.
    fn before(&self, chunk: usize) -> usize {
        match chunk.checked_sub(1) {
            None => 0,
            // `others * self.others` may overflow for the index after the last chunk.
            Some(others) => others.saturating_mul(self.others).saturating_add(self.first).min(self.total),
        }
    }
}

/// Consecutive chunks that no worker has taken yet, and their bytes.
struct Part<'a> {
    chunks: Range<usize>,
    src: &'a [u8],
    dst: Destination<'a, u8>,
}

impl Part<'_> {
    fn none() -> Self {
        Part { chunks: 0..0, src: &[], dst: Destination::from(&mut [0u8; 0][..]) }
    }
}

/// A cast that several threads do together.
struct Job<'a> {
    caster: Caster,
    work: &'a Work<'a>,
    progress: Option<&'a (dyn Fn(Progress) -> ControlFlow<()> + Sync)>,
    lengths: Lengths,
    done: AtomicUsize,
    stopped: AtomicBool,
    /// The first element that is known to be lost; chunks behind it are skipped. `usize::MAX` if there is none.
    lost: AtomicUsize,
    rest: Lock<Rest<'a>>,
}

struct Rest<'a> {
    /// The part of the first worker, and those of the others. If there is no memory for `others`, `first` has all chunks.
    first: Part<'a>,
    others: Vec<Part<'a>>,
    error: Option<Error>,
}

impl<'a> Rest<'a> {
    fn part(&mut self, worker: usize) -> Option<&mut Part<'a>> {
        match worker.checked_sub(1) {
            None => Some(&mut self.first),
            Some(other) => self.others.get_mut(other),
        }
    }

    fn longest(&mut self) -> &mut Part<'a> {
        let longest = self.others.iter_mut().max_by_key(|part| part.chunks.len());
        match longest {
            Some(part) if part.chunks.len() > self.first.chunks.len() => part,
            _ => &mut self.first,
        }
    }
}

impl<'a> Job<'a> {
    /// Divides the chunks among the workers, equally.
    fn new(
        caster: &Caster,
        src: &'a [u8],
        dst: Destination<'a, u8>,
        lengths: Lengths,
        workers: usize,
        how: &Parallel<'a>,
        work: &'a Work<'a>,
    ) -> Self {
        let job = Self {
            caster: caster.part_of(lengths.total),
            work,
            progress: how.progress,
            lengths,
            done: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            lost: AtomicUsize::new(usize::MAX),
            rest: Lock::new(Rest { first: Part::none(), others: Vec::new(), error: None }),
        };
        let chunks = lengths.chunks();
        let mut rest = Part { chunks: 0..chunks, src, dst };
        let mut parts = job.rest.lock();
        let workers = match parts.others.try_reserve_exact(workers.saturating_sub(1)) {
            Ok(()) => workers,
            Err(_) => 1,
        };
        for worker in 0..workers {
            let end = rest.chunks.start + rest.chunks.len() / (workers - worker);
            let part;
            (part, rest) = job.split(rest, end);
            if worker == 0 {
                parts.first = part;
            } else {
                parts.others.push(part);
            }
        }
        drop(parts);
        job
    }

    /// Splits a part into the chunks before `chunk`, and the others.
    fn split(&self, part: Part<'a>, chunk: usize) -> (Part<'a>, Part<'a>) {
        let Range { start, end } = part.chunks;
        let n = self.lengths.before(chunk) - self.lengths.before(start);
        let [from, to] = self.caster.layouts().map(|layout| layout.size(n));
        let (src, src_behind) = part.src.split_at(from.min(part.src.len()));
        let (dst, dst_behind) = part.dst.split_at(to);
        (
            Part { chunks: start..chunk, src, dst },
            Part { chunks: chunk..end, src: src_behind, dst: dst_behind },
        )
    }

    /// Takes the next chunk for a worker: the first of its own part, or if its part is empty, the last of the longest part.
    fn take(&self, worker: usize) -> Option<Part<'a>> {
        let mut rest = self.rest.lock();
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let has_own = rest.part(worker).is_some_and(|part| !part.chunks.is_empty());
        let from = if has_own { rest.part(worker) } else { Some(rest.longest()) };
        let part = from.filter(|part| !part.chunks.is_empty())?;
        let all = core::mem::replace(part, Part::none());
        let Range { start, end } = all.chunks;
        let taken;
        if has_own {
            (taken, *part) = self.split(all, start + 1);
        } else {
            (*part, taken) = self.split(all, end - 1);
        }
        Some(taken)
    }

    /// Takes a chunk and casts it. False if there was none, or if an error ends the work.
    fn step(&self, worker: usize) -> bool {
        let Some(Part { chunks, src, dst }) = self.take(worker) else { return false };
        let first = self.lengths.before(chunks.start);
        let n = self.lengths.before(chunks.end) - first;
        if first > self.lost.load(Ordering::Relaxed) {
            return true;
        }
        if let Err(error) = (self.work)(&self.caster.at(first), src, dst, n, first) {
            return self.fail(error);
        }
        // The bytes become visible to the caller when it joins the threads, or when the host does.
        let done = self.done.fetch_add(n, Ordering::AcqRel) + n;
        if let Some(progress) = self.progress
            && progress(Progress { done, total: self.lengths.total }).is_break()
        {
            self.stopped.store(true, Ordering::Relaxed);
        }
        true
    }

    /// Keeps an error, and returns whether the work goes on. It does after a lost element: an earlier element may be lost, too.
    #[cold]
    fn fail(&self, error: Error) -> bool {
        let mut rest = self.rest.lock();
        let Error::Lossy(Lossy { index, .. }) = error else {
            rest.error = Some(error);
            self.stopped.store(true, Ordering::Relaxed);
            return false;
        };
        if index < self.lost.load(Ordering::Relaxed) && !self.stopped.load(Ordering::Relaxed) {
            rest.error = Some(error);
            self.lost.store(index, Ordering::Relaxed);
        }
        true
    }

    /// Casts chunks until there are no more.
    fn work(&self, worker: usize) {
        while self.step(worker) {}
    }

    /// The result, once all workers have ended.
    fn outcome(&self) -> Result<(), Error> {
        let (done, total) = (self.done.load(Ordering::Acquire), self.lengths.total);
        match self.rest.lock().error {
            // The work was stopped, so this need not be the first element that is lost.
            Some(Error::Lossy(_)) if self.stopped.load(Ordering::Relaxed) => {
                Err(Error::Cancelled { done, elements: total })
            }
            Some(error) => Err(error),
            None if done < total => Err(Error::Cancelled { done, elements: total }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::dtype::DType;
    use crate::formats::options::CastOptions;
    use crate::formats::route::route;

    /// The chunks together are all elements, and each is whole bytes on both sides. All chunks but the first begin at a cache line of the
    /// destination, and all but the first and last are multiples of 512 elements, unless fewer than 512 elements are wanted or an
    /// element straddles a cache line.
    #[test]
    fn chunks_begin_at_lines() {
        for (from, to) in DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|to| (from, to))) {
            let route = route(from, to, &CastOptions::new());
            let layouts = [route.src, route.dst];
            let [src_bits, dst_bits] = layouts.map(|layout| layout.size(8));
            for (n, threads, chunk) in
                [(1 << 22, 2, None), (100_001, 3, Some(5000)), (777, 16, Some(7)), (1, 4, None), (0, 2, None)]
            {
                let traffic = n / 8 * (src_bits + dst_bits);
                for dst in [0, 1, 3, 8, 48, 62, 63].map(|further| 4096 + further) {
                    let lengths = Lengths::new(layouts, chunk, threads, traffic, dst, n);
                    let what = || format!("{from} -> {to}, {n} to {dst}, chunks of {chunk:?}, {lengths:?}");
                    let begins: Vec<usize> = (0..=lengths.chunks()).map(|i| lengths.before(i)).collect();
                    assert_eq!((begins[0], begins.last()), (0, Some(&n)), "{}", what());
                    assert!(begins.is_sorted_by(|a, b| a < b), "{}", what());
                    // Packed elements that end with a line may not end with a byte of the source.
                    let unit = if src_bits.min(dst_bits) < 8 { 8 * dst_bits } else { dst_bits };
                    let has_lines = (8 * (dst.wrapping_neg() % LINE)).is_multiple_of(unit);
                    let wants_lines = chunk.is_none_or(|chunk| chunk >= LINES);
                    for &begin in &begins[..lengths.chunks()] {
                        let bits = [begin * src_bits, begin * dst_bits];
                        assert!(bits.iter().all(|bits| bits.is_multiple_of(8)), "{}", what());
                        if begin > 0 && has_lines && wants_lines {
                            assert!((dst + bits[1] / 8).is_multiple_of(LINE), "{}", what());
                            assert!((begin - lengths.first).is_multiple_of(LINES), "{}", what());
                        }
                    }
                }
            }
        }
    }
}
