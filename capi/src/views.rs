//! Casts on several threads, casts in place, and casts of strided views.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ops::ControlFlow;
use std::panic::AssertUnwindSafe;

use rust::checked::CastReport;
use rust::parallel::{Parallel, ParallelFor, Progress};
use rust::views::{StridedView, StridedViewMut};
use rust::{Caster, Error, Side};

#[cfg(unix)]
use super::threads::{Pool, Started, cores};
use super::{
    caster, guard, lanecast_dtype, lanecast_options, lanecast_report, lanecast_status, memory, null,
    read_sized, reported, status, whole_buffers,
};

/// A task of a parallel loop. job is what the loop got together with the task, and index is the number of the task.
pub type lanecast_task = Option<unsafe extern "C" fn(job: *mut c_void, index: usize)>;

/// A parallel loop of the caller's. It calls task(job, i) for every i below tasks, on any threads and in any order, and returns
/// when all calls have returned. Tasks that it does not call are done after that by the thread that called the cast.
pub type lanecast_parallel_for =
    Option<unsafe extern "C" fn(context: *mut c_void, tasks: usize, task: lanecast_task, job: *mut c_void)>;

/// A progress callback. It is called after each chunk, on the thread that cast the chunk.
///
/// done elements of total are cast. In a scaled cast both count pieces of work; they start again, perhaps with another total,
/// after a pass that only finds something: the tensor scale, the one scale of all elements, or scales with zero points. Calls
/// come from several threads, so a smaller done may follow a larger one. Any result but 0 stops the cast: no further chunk
/// begins, and what was written stays.
pub type lanecast_progress =
    Option<unsafe extern "C" fn(context: *mut c_void, done: usize, total: usize) -> c_int>;

/// On which threads to cast, in which chunks, and whom to tell. lanecast_parallel_init sets the defaults.
///
/// New fields are only ever added at the end, and size says how much of the structure the caller knows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lanecast_parallel {
    /// How many bytes of the structure the caller has set, this field included. It may be more than the library knows, if the
    /// bytes that the library does not know are zero.
    pub size: u32,
    /// 0: as many threads as there are cores; on Unix they are a pool, kept for the next cast (default). Else this many threads,
    /// started for this cast. With parallel_for, the number of its threads, from which the size of a chunk follows; 0: as many
    /// as there are cores.
    pub threads: u32,
    /// Elements of a chunk; 0: as many as are useful (default). Scaled casts have pieces of their own size.
    pub chunk: usize,
    /// A loop of the caller's, in place of threads of the library; NULL for none (default).
    pub parallel_for: lanecast_parallel_for,
    /// The first argument of parallel_for.
    pub parallel_for_context: *mut c_void,
    /// A progress callback, which may be called from several threads at once; NULL for none (default).
    pub progress: lanecast_progress,
    /// The first argument of progress.
    pub progress_context: *mut c_void,
}

/// Sets every field to its default, and size to the size of the structure.
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (p).
///
/// # Safety
/// p is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_parallel_init(p: *mut lanecast_parallel) -> lanecast_status {
    guard(|| {
        if p.is_null() {
            return Err(null("p"));
        }
        let defaults = lanecast_parallel {
            size: size_of::<lanecast_parallel>() as u32,
            threads: 0,
            chunk: 0,
            parallel_for: None,
            parallel_for_context: core::ptr::null_mut(),
            progress: None,
            progress_context: core::ptr::null_mut(),
        };
        // A field that is added to the structure must not be written here: programs of today's header have no room for it.
        // (`capi/tests/abi/program.c` checks that nothing is written behind the structure.)
        // SAFETY: not NULL, hence writable by the caller's promise.
        unsafe { p.write_unaligned(defaults) };
        Ok(())
    })
}

/// Casts n elements as lanecast_cast does, on several threads. The result is the same.
///
/// threads is 0 for as many threads as there are cores, which on Unix are a pool that is kept; else this many are started for
/// this cast. (In Rust, Parallel::threads(0) is the calling thread alone.) The calling thread casts alone if there are too few
/// elements to gain from threads, if threads cannot be started, and, with threads 0, in a forked child of the process that
/// started the pool.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src, dst), _SIZE (n), _OVERLAP, _MEMORY.
///
/// # Safety
/// As for lanecast_cast.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_cast_parallel(
    from: lanecast_dtype,
    src: *const c_void,
    to: lanecast_dtype,
    dst: *mut c_void,
    n: usize,
    o: *const lanecast_options,
    threads: u32,
) -> lanecast_status {
    guard(|| {
        let buffers = unsafe {
            // SAFETY: the caller's promise.
            whole_buffers(from, src, 0, to, dst, n, o)
        };
        let Some((caster, src, dst)) = buffers? else { return Ok(()) };
        on(threads, |how| caster.par_cast_uninit_with(src, dst, n, how).map(drop).map_err(status))
    })
}

/// Calls a function with a way to cast on this many threads; 0 is the pool.
fn on<T>(threads: u32, then: impl FnOnce(&Parallel<'_>) -> T) -> T {
    #[cfg(unix)]
    match threads as usize {
        0 => then(&Parallel::new().host(&Pool).threads(cores())),
        threads => then(&Parallel::new().host(&Started(threads)).threads(threads)),
    }
    #[cfg(not(unix))]
    then(&Parallel::new().threads(if threads == 0 { cores() } else { threads as usize }))
}

#[cfg(not(unix))]
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, core::num::NonZero::get)
}

/// Casts n elements as lanecast_cast does, on the threads, in the chunks and with the progress callback that how says. how must
/// not be NULL: lanecast_parallel_init sets the defaults.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o, how), _ISA, _NULL (src, dst, how), _SIZE (n), _OVERLAP, _MEMORY,
/// _CANCELLED (progress).
///
/// # Safety
/// As for lanecast_cast; how points to how->size readable bytes, or is NULL, which is an error; its callbacks do what their
/// types say, and do not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_cast_parallel_with(
    from: lanecast_dtype,
    src: *const c_void,
    to: lanecast_dtype,
    dst: *mut c_void,
    n: usize,
    o: *const lanecast_options,
    how: *const lanecast_parallel,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (how, buffers) = unsafe {
            (
                read_sized("how", how, size_of::<lanecast_parallel>())?,
                whole_buffers(from, src, 0, to, dst, n, o)?,
            )
        };
        let Some((caster, src, dst)) = buffers else { return Ok(()) };
        as_said(&how, |how| caster.par_cast_uninit_with(src, dst, n, how).map(drop).map_err(status))
    })
}

/// Casts as lanecast_cast_parallel_with does, and reports what that loses, as lanecast_cast_checked does. The report does not
/// depend on the threads. report may be NULL.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o, how), _ISA, _NULL (src, dst, how), _SIZE (n), _OVERLAP, _MEMORY,
/// _CANCELLED (progress), _LOSSY.
///
/// # Safety
/// As for lanecast_cast_parallel_with; report is NULL or writable.
#[allow(clippy::too_many_arguments, reason = "the signature is that of the interface")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_cast_checked_parallel(
    from: lanecast_dtype,
    src: *const c_void,
    to: lanecast_dtype,
    dst: *mut c_void,
    n: usize,
    o: *const lanecast_options,
    how: *const lanecast_parallel,
    report: *mut lanecast_report,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (how, buffers) = unsafe {
            (
                read_sized("how", how, size_of::<lanecast_parallel>())?,
                whole_buffers(from, src, 0, to, dst, n, o)?,
            )
        };
        let found = match buffers {
            None => CastReport::default(),
            Some((caster, src, dst)) => {
                as_said(&how, |how| caster.par_cast_checked_uninit_with(src, dst, n, how).map_err(status))?.1
            }
        };
        // SAFETY: the caller's promise.
        unsafe { reported(found, report) }
    })
}

/// Calls `run` with a way to cast on the threads of a caller's structure.
fn as_said<T>(how: &lanecast_parallel, run: impl FnOnce(&Parallel<'_>) -> T) -> T {
    let host = how.parallel_for.map(|run| Host { run, context: how.parallel_for_context });
    let listener = how.progress.map(|call| Listener { call, context: how.progress_context });
    let progress =
        |progress: Progress| listener.as_ref().map_or(ControlFlow::Continue(()), |it| it.tell(progress));
    let then = |parallel: &Parallel<'_>| {
        let mut parallel = *parallel;
        if how.chunk > 0 {
            parallel = parallel.chunk(how.chunk);
        }
        if listener.is_some() {
            parallel = parallel.progress(&progress);
        }
        run(&parallel)
    };
    match (&host, how.threads) {
        (Some(host), 0) => then(&Parallel::new().host(host).threads(cores())),
        (Some(host), threads) => then(&Parallel::new().host(host).threads(threads as usize)),
        (None, threads) => on(threads, then),
    }
}

/// Reads the structure of a caller, and calls `run` with a way to cast on its threads; if `how` is NULL, on the calling thread.
///
/// # Safety
/// `how` points to `how->size` readable bytes, or is NULL; its callbacks do what they should, and do not unwind.
pub(super) unsafe fn on_threads<T>(
    how: *const lanecast_parallel,
    run: impl FnOnce(&Parallel<'_>) -> T,
) -> Result<T, lanecast_status> {
    if how.is_null() {
        return Ok(run(&Parallel::new().threads(1)));
    }
    // SAFETY: the caller's promise.
    let how = unsafe { read_sized("how", how, size_of::<lanecast_parallel>()) }?;
    Ok(as_said(&how, run))
}

/// A loop of the caller's.
struct Host {
    run: unsafe extern "C" fn(*mut c_void, usize, lanecast_task, *mut c_void),
    context: *mut c_void,
}

// SAFETY: the loop is called from the thread that called the cast, and from no other.
unsafe impl Sync for Host {}

impl ParallelFor for Host {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        type Task<'a> = &'a (dyn Fn(usize) + Sync);

        unsafe extern "C" fn call(job: *mut c_void, index: usize) {
            // SAFETY: it is the job that `run` passed, which lives until `run` returns. Any thread may call the task.
            let task = unsafe { *job.cast::<Task<'_>>() };
            // No panic may go through a caller's frames. The work that it leaves undone is noticed in the end.
            _ = std::panic::catch_unwind(AssertUnwindSafe(|| task(index)));
        }

        let mut job: Task<'_> = task;
        // SAFETY: the caller of the cast promises a loop that calls the task with its job, and returns when all calls have
        // returned.
        unsafe { (self.run)(self.context, tasks, Some(call), (&raw mut job).cast()) };
    }
}

/// A progress callback of the caller's.
struct Listener {
    call: unsafe extern "C" fn(*mut c_void, usize, usize) -> c_int,
    context: *mut c_void,
}

// SAFETY: the header says that the callback may be called from several threads at once.
unsafe impl Sync for Listener {}

impl Listener {
    fn tell(&self, progress: Progress) -> ControlFlow<()> {
        // SAFETY: the caller of the cast promises a function that can be called with this context and these numbers.
        match unsafe { (self.call)(self.context, progress.done, progress.total) } {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }
}

/// Casts the first n elements of a buffer in place.
///
/// buf_bytes is the size of n elements of from or of to, whichever is larger. Bytes behind the n results stay as they are. buf
/// may be NULL if n is 0.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (buf), _SIZE (buf_bytes), _MEMORY.
///
/// # Safety
/// buf is writable for buf_bytes bytes, and readable for n elements of from; o is NULL or points to o->size readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_cast_in_place(
    from: lanecast_dtype,
    to: lanecast_dtype,
    buf: *mut c_void,
    buf_bytes: usize,
    n: usize,
    o: *const lanecast_options,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (caster, _) = unsafe { caster(from, to, o) }?;
        if n == 0 {
            let (side, dtype, given) = (Side::Both, caster.from(), buf_bytes);
            let error = Error::BufferSize { side, dtype, elements: 0, needed: 0, given };
            return if buf_bytes == 0 { Ok(()) } else { Err(status(error)) };
        }
        let buffer = memory("buf", buf.cast::<MaybeUninit<u8>>(), buf_bytes)?;
        // SAFETY: the caller's promise.
        unsafe { caster.cast_in_place_uninit(&mut *buffer.cast_mut(), n).map_err(status) }
    })
}

/// Casts the elements of a strided view to those of another view of the same shape.
///
/// src and dst point to the element of each view whose indices are all 0. shape has ndim lengths, and src_strides and
/// dst_strides have ndim strides; ndim is a size_t here, and a uint32_t in scaled casts. A stride is the number of bytes from
/// an element to the next along its dimension. It may be negative and need not be a multiple of the alignment; a stride of 0
/// repeats elements of a source. Elements of fewer than 8 bits must lie one per byte (src_packing and dst_packing of the
/// options). What lies between elements is neither read nor written.
///
/// Along a dimension of several elements, no stride of the destination may be smaller than an element. If elements of the
/// destination overlap in other ways, it is unspecified which of them remains. Elements of one view may lie between those of the
/// other, but must not overlap them. If there are no elements, src and dst may be NULL; if ndim is 0, shape and the strides may
/// be.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _PACKED, _NULL (src, dst, shape, strides), _SIZE, _OVERLAP,
/// _MEMORY.
///
/// # Safety
/// Every element of src is readable and every one of dst writable; shape and the strides are readable for ndim numbers; o is NULL
/// or points to o->size readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_cast_strided(
    from: lanecast_dtype,
    src: *const c_void,
    src_strides: *const isize,
    to: lanecast_dtype,
    dst: *mut c_void,
    dst_strides: *const isize,
    shape: *const usize,
    ndim: usize,
    o: *const lanecast_options,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let views = unsafe { views(from, (src, src_strides), to, (dst, dst_strides), shape, ndim, o) };
        let (caster, src, mut dst) = views?;
        caster.cast_strided(&src, &mut dst).map_err(status)
    })
}

/// Casts as lanecast_cast_strided does, on several threads, which take slices along one dimension. If elements of the destination
/// overlap, the calling thread casts alone. how must not be NULL: lanecast_parallel_init sets the defaults.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o, how), _ISA, _PACKED, _NULL (src, dst, shape, strides, how), _SIZE,
/// _OVERLAP, _MEMORY, _CANCELLED (progress).
///
/// # Safety
/// As for lanecast_cast_strided, from every thread; how as for lanecast_cast_parallel_with.
#[allow(clippy::too_many_arguments, reason = "the signature is that of the interface")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_cast_strided_parallel(
    from: lanecast_dtype,
    src: *const c_void,
    src_strides: *const isize,
    to: lanecast_dtype,
    dst: *mut c_void,
    dst_strides: *const isize,
    shape: *const usize,
    ndim: usize,
    o: *const lanecast_options,
    how: *const lanecast_parallel,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (how, views) = unsafe {
            let how = read_sized("how", how, size_of::<lanecast_parallel>())?;
            (how, views(from, (src, src_strides), to, (dst, dst_strides), shape, ndim, o))
        };
        let (caster, src, mut dst) = views?;
        as_said(&how, |how| caster.par_cast_strided_with(&src, &mut dst, how)).map_err(status)
    })
}

/// Casts as lanecast_cast_strided does, and reports what that loses, as lanecast_cast_checked does. Elements are counted in
/// row-major order: the last index changes fastest. report may be NULL.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _PACKED, _NULL (src, dst, shape, strides), _SIZE, _OVERLAP,
/// _MEMORY, _LOSSY.
///
/// # Safety
/// As for lanecast_cast_strided; report is NULL or writable.
#[allow(clippy::too_many_arguments, reason = "the signature is that of the interface")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_cast_strided_checked(
    from: lanecast_dtype,
    src: *const c_void,
    src_strides: *const isize,
    to: lanecast_dtype,
    dst: *mut c_void,
    dst_strides: *const isize,
    shape: *const usize,
    ndim: usize,
    o: *const lanecast_options,
    report: *mut lanecast_report,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let views = unsafe { views(from, (src, src_strides), to, (dst, dst_strides), shape, ndim, o) };
        let (caster, src, mut dst) = views?;
        let found = caster.cast_strided_checked(&src, &mut dst).map_err(status)?;
        // SAFETY: the caller's promise.
        unsafe { reported(found, report) }
    })
}

/// Reports what a cast of a strided view would lose, as lanecast_cast_strided_checked does, but casts nothing and needs no room
/// for results. dst_packing of the options does not matter. report may be NULL.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _PACKED, _NULL (src, shape, src_strides), _SIZE, _MEMORY,
/// _LOSSY.
///
/// # Safety
/// Every element of src is readable; shape and src_strides are readable for ndim numbers; o is NULL or points to o->size readable
/// bytes; report is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_check_strided(
    from: lanecast_dtype,
    src: *const c_void,
    src_strides: *const isize,
    to: lanecast_dtype,
    shape: *const usize,
    ndim: usize,
    o: *const lanecast_options,
    report: *mut lanecast_report,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise, as long as the view is used.
        let (caster, src) = unsafe {
            let (caster, _) = caster(from, to, o)?;
            let shape = numbers("shape", shape, ndim)?;
            (caster, source_view((src, src_strides), shape)?)
        };
        let found = caster.report_strided(&src).map_err(status)?;
        // SAFETY: the caller's promise.
        unsafe { reported(found, report) }
    })
}

/// Returns the caster of a cast of views, and both views.
///
/// # Safety
/// As for `lanecast_cast_strided`, as long as the views are used.
unsafe fn views<'a>(
    from: lanecast_dtype,
    (src, src_strides): (*const c_void, *const isize),
    to: lanecast_dtype,
    (dst, dst_strides): (*mut c_void, *const isize),
    shape: *const usize,
    ndim: usize,
    o: *const lanecast_options,
) -> Result<(Caster, StridedView<'a>, StridedViewMut<'a>), lanecast_status> {
    // SAFETY: the caller's promise, for the options, the numbers and the elements. Views that overlap are refused when they are
    // cast.
    unsafe {
        let (caster, _) = caster(from, to, o)?;
        let shape = numbers("shape", shape, ndim)?;
        let src = source_view((src, src_strides), shape)?;
        let strides = numbers("dst_strides", dst_strides, ndim)?;
        if dst.is_null() && !shape.contains(&0) {
            return Err(null("dst"));
        }
        Ok((caster, src, StridedViewMut::from_ptr(dst.cast(), shape, strides)))
    }
}

/// Returns the view of a source. `src` may be NULL if there are no elements.
///
/// # Safety
/// As for `lanecast_cast_strided`, as long as the view is used.
unsafe fn source_view<'a>(
    (src, strides): (*const c_void, *const isize),
    shape: &'a [usize],
) -> Result<StridedView<'a>, lanecast_status> {
    // SAFETY: the caller's promise, for the strides and the elements.
    unsafe {
        let strides = numbers("src_strides", strides, shape.len())?;
        if src.is_null() && !shape.contains(&0) {
            return Err(null("src"));
        }
        Ok(StridedView::from_ptr(src.cast(), shape, strides))
    }
}

/// Returns `n` lengths or strides of a caller; `first` may be NULL if there are none.
///
/// # Safety
/// `first` is NULL, or `n` numbers are readable as long as the result is used.
unsafe fn numbers<'a, T>(what: &str, first: *const T, n: usize) -> Result<&'a [T], lanecast_status> {
    if n == 0 {
        return Ok(&[]);
    }
    let numbers = memory(what, first, n)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { &*numbers })
}
