//! Casts of arrays: `astype`.

use core::ops::{ControlFlow, Range};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Instant;

use lanecast::numpy::OrderedDType;
use lanecast::parallel::Parallel;
use lanecast::promotion::Casting;
use lanecast::views::{StridedView, StridedViewMut};
use lanecast::{CastOptions, Caster, Error};
use numpy::PyArrayDescr;
use numpy::npyffi::NPY_ORDER;
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::dtypes::{self, Ordered};
use crate::losses::{self, Losses};
use crate::options;
use crate::packed::{Packed, Source};
use crate::view::{View, laid_out, order};
use crate::{Cancelled, warn};

/// From this many bytes read and written on, the GIL is released: releasing and taking it takes as long as casting a few KiB.
const DETACHED: usize = 16 << 10;
/// From this many bytes read and written on, several threads cast, and Ctrl-C is listened for.
pub(crate) const LARGE: usize = 4 << 20;
/// From this many bytes read and written on, starting threads pays off.
const STARTED: usize = 16 << 20;
/// The bytes of a part of a long cast, after which signals are checked and progress is reported.
const PART: usize = 1 << 20;
const ORDERS: &[(&str, NPY_ORDER)] = &[
    ("K", NPY_ORDER::NPY_KEEPORDER),
    ("C", NPY_ORDER::NPY_CORDER),
    ("F", NPY_ORDER::NPY_FORTRANORDER),
    ("A", NPY_ORDER::NPY_ANYORDER),
];
/// How many milliseconds pass between two checks for signals.
const SIGNALS: u64 = 50;

/// Casts an array to another dtype: every pair of the dtypes of NumPy and ml_dtypes, rounded once.
///
/// x: an ndarray, a buffer (bytes are uint8), a DLPack object (a tensor of torch, also of its float8 dtypes) or a
///     nested list. Strides, byte orders and alignments do not matter, and x is not copied first, unless out overlaps it other than in place.
///     Subclasses become ndarrays; the mask of a masked array is ignored (lanecast.masked takes it).
/// dtype: what NumPy takes as a dtype, a type of ml_dtypes, a dtype of torch, or a name.
/// out: where to write the result: an ndarray, a writable buffer or a DLPack object of that shape and dtype. It may be a
///     view of x.
/// order: "K", "C", "F" or "A", as in numpy.ndarray.astype.
/// casting: "no", "equiv", "safe", "same_kind", "same_value" or "unsafe"; "same_value" refuses values that would
///     change, with a LossError.
/// threads: how many; None: as many as pay off, at most LANECAST_NUM_THREADS.
/// progress: called with the number of elements done and of all elements; if it returns False, Cancelled is raised.
/// options: rounding, int_rounding, saturate, float_to_int, int_to_int, nan_to_finite, e8m0_rounding, profile; stochastic: a
///     seed, or (seed, number of the first element): floats of 16 bits or fewer are rounded by chance.
///
/// >>> import numpy as np, lanecast
/// >>> print(lanecast.astype([1.0, 0.3, 1e9], "float8_e4m3fn"))
/// [1 0.3125 448]
/// >>> lanecast.astype(np.float32([2.5, -1.5]), "int8", int_rounding="nearest_away")
/// array([ 3, -2], dtype=int8)
/// >>> print(lanecast.astype(np.float32([465]), "float8_e4m3fn", profile="ml_dtypes"))
/// [nan]
#[pyfunction]
#[pyo3(signature = (x, dtype, *, out=None, order=None, casting=None, threads=None, progress=None, **options),
       text_signature = "(x, dtype, *, out=None, order='K', casting='unsafe', threads=None, progress=None, **options)")]
#[expect(clippy::too_many_arguments, reason = "keywords")]
pub(crate) fn astype<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
    order: Option<&Bound<'py, PyAny>>,
    casting: Option<&Bound<'py, PyAny>>,
    threads: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = options::read(options, &["out", "order", "casting", "threads", "progress"])?;
    let (to, descr) = dtypes::read(dtype)?;
    let order = match order {
        None => NPY_ORDER::NPY_KEEPORDER,
        Some(order) => options::choose("order", order, ORDERS, &[])?,
    };
    let level = match casting {
        None => Casting::Unsafe,
        Some(casting) => read_casting(casting)?,
    };
    let how = How { threads: read_threads(threads)?, progress: read_progress(progress)? };
    let src = Source::read(x)?;
    let src = match src {
        // Packed elements are in C order, and are only cast to that: for Fortran order they are unpacked first.
        Source::Packed(_) if order == NPY_ORDER::NPY_FORTRANORDER => Source::Array(src.into_view()?),
        src => src,
    };
    let from = match &src {
        Source::Array(view) => view.of,
        Source::Packed(packed) => Ordered::native(packed.dtype),
    };
    if level != Casting::SameValue && !of_ours(from).can_cast(of_ours(to), level) {
        return Err(PyTypeError::new_err(format!(
            "a cast of {} to {}{} is refused by casting='{}'; it needs casting={}",
            from.dtype,
            to.dtype,
            if from.dtype == to.dtype { " in the other byte order" } else { "" },
            level.name(),
            match of_ours(from).casting_to(of_ours(to)) {
                Casting::SameValue => "'unsafe', or 'same_value' if no value changes".to_owned(),
                needed => format!("'{}'", needed.name()),
            }
        )));
    }
    let options = laid_out(&options, from, to);
    let is_new = out.is_none();
    let (dst, result) = match out {
        None => {
            let dst = match &src {
                Source::Array(view) => view.like(&descr, order)?,
                Source::Packed(packed) => packed.like(&descr)?,
            };
            let result = dst.array.clone().into_any();
            (dst, result)
        }
        Some(out) => (wanted_out(out, to, &descr, src.shape())?, out.clone()),
    };
    match src {
        Source::Packed(packed) if level != Casting::SameValue && can_read_packed(&packed, &dst) => {
            cast_packed(py, &packed, &dst, &options, &how)?;
        }
        _ if level == Casting::SameValue && is_new => {
            losses::cast(py, src.into_view()?, &dst, &options, &how, Losses::RefuseChanges).map(drop)?;
        }
        _ if level == Casting::SameValue => {
            let losses = Losses::RefuseChanges;
            losses::look_and_cast(py, src.into_view()?, &dst, &options, &how, losses).map(drop)?;
        }
        _ => cast(py, src.into_view()?, &dst, &options, &how)?,
    }
    Ok(result)
}

/// Whether packed elements can be cast as they are: the destination is contiguous, and does not overlap them.
fn can_read_packed(packed: &Packed<'_>, dst: &View<'_>) -> bool {
    let (from, to) = (packed.data.reach(), dst.reach());
    dst.is_contiguous() && (from.1 <= to.0 || to.1 <= from.0)
}

/// Casts packed elements to an array in C order that does not overlap them.
fn cast_packed(
    py: Python<'_>,
    packed: &Packed<'_>,
    dst: &View<'_>,
    options: &CastOptions,
    how: &How<'_>,
) -> PyResult<()> {
    let caster =
        Caster::new(packed.dtype, dst.of.dtype, &options.src_packing(packed.packing())).map_err(failed)?;
    let n = dst.len();
    // SAFETY: the arrays are contiguous. Python code that writes to them at the same time is a data race, as with NumPy.
    let (source, result) = unsafe { (packed.data.bytes(), dst.bytes_mut()) };
    let traffic = source.len() + result.len();
    if traffic < LARGE && how.progress.is_none() {
        return detached(py, traffic, || caster.cast(source, result, n)).map_err(failed);
    }
    watched(py, how, "element", |parallel| caster.par_cast_with(source, result, n, parallel))?.map_err(failed)
}

/// Reads the argument `out`, which must have the dtype and shape of the result.
pub(crate) fn wanted_out<'py>(
    out: &Bound<'py, PyAny>,
    of: Ordered,
    descr: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<View<'py>> {
    let dst = View::write(out)?;
    if dst.of != of {
        let given = dst.array.as_any().getattr("dtype")?;
        return Err(PyValueError::new_err(format!("out has dtype {given}; it must be {descr}")));
    }
    if dst.shape != shape {
        let [given, needed] = [&dst.shape, shape].map(tuple);
        return Err(PyValueError::new_err(format!("out has shape {given}; it must be {needed}")));
    }
    Ok(dst)
}

/// Formats a shape as Python does.
pub(crate) fn tuple(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Formats a number of things, whose plural ends in s: `1 byte`.
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

pub(crate) fn of_ours(of: Ordered) -> OrderedDType {
    OrderedDType::new(of.dtype, order(of))
}

pub(crate) fn read_casting(given: &Bound<'_, PyAny>) -> PyResult<Casting> {
    options::choose("casting", given, &Casting::ALL.map(|level| (level.name(), level)), &[])
}

pub(crate) fn read_threads(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<usize>> {
    let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(None) };
    let message = || -> PyResult<String> {
        let given = given.repr()?;
        Ok(format!("threads is {given}; it must be a positive integer, or None for as many as pay off"))
    };
    match given.extract::<usize>() {
        // True is an integer of Python.
        Ok(threads) if threads > 0 && !given.is_instance_of::<PyBool>() => Ok(Some(threads)),
        _ if options::is_bool(given)? => Err(PyTypeError::new_err(message()?)),
        _ => Err(PyValueError::new_err(message()?)),
    }
}

/// Reads the argument `progress`, which must be callable: this is checked before the cast begins.
pub(crate) fn read_progress<'py>(given: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match given {
        None => Ok(None),
        Some(given) if given.is_none() => Ok(None),
        Some(given) if given.is_callable() => Ok(Some(given.clone())),
        Some(given) => Err(PyTypeError::new_err(format!(
            "progress is {}; it must be a function of two numbers, what is done and the total, or None",
            given.repr()?
        ))),
    }
}

/// The arguments `threads` and `progress`.
#[derive(Default)]
pub(crate) struct How<'py> {
    pub(crate) threads: Option<usize>,
    pub(crate) progress: Option<Bound<'py, PyAny>>,
}

/// Runs a parallel cast without the GIL, on the threads that were asked for, and checks for signals meanwhile.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    how: &How<'_>,
    unit: &'static str,
    run: impl FnOnce(&Parallel<'_>) -> T + Send,
) -> PyResult<T> {
    let watch = Watch { unit, ..Watch::new(how.progress.as_ref()) };
    let threads = how.threads.or_else(wanted_threads(py)?);
    let done = py.detach(|| {
        let progress = |progress: lanecast::parallel::Progress| watch.look(progress.done, progress.total);
        let parallel = Parallel::new().progress(&progress);
        run(&threads.map_or(parallel, |threads| parallel.threads(threads)))
    });
    match watch.into_error() {
        Some(error) => Err(error),
        None => Ok(done),
    }
}

/// Casts `n` elements in parts, of which `work` does one, on the threads that were asked for, and checks for signals meanwhile.
pub(crate) fn each_part<T>(
    py: Python<'_>,
    how: &How<'_>,
    (n, traffic): (usize, usize),
    parts: impl ExactSizeIterator<Item = (Range<usize>, T)> + Send,
    work: impl Fn(Range<usize>, T) -> Result<(), Error> + Sync,
) -> PyResult<()> {
    let (watch, wanted) = (Watch::new(how.progress.as_ref()), wanted_threads(py)?);
    let threads = match how.threads {
        Some(threads) => threads,
        None if traffic < STARTED => 1,
        None => wanted().unwrap_or_else(cores),
    };
    let threads = threads.min(parts.len());
    let (parts, done) = (Mutex::new(parts), AtomicUsize::new(0));
    let (ends, failure) = (AtomicBool::new(false), Mutex::new(None));
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while !ends.load(Ordering::Relaxed)
            && let Some((elements, part)) = next()
        {
            let len = elements.len();
            let is_over = match work(elements, part) {
                Ok(()) => watch.look(done.fetch_add(len, Ordering::Relaxed) + len, n).is_break(),
                Err(error) => {
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    true
                }
            };
            ends.fetch_or(is_over, Ordering::Relaxed);
        }
    };
    detached(py, traffic, || {
        thread::scope(|scope| {
            for _ in 1..threads {
                // This thread does what is left if the system starts no more.
                drop(thread::Builder::new().spawn_scoped(scope, run));
            }
            run();
        });
    });
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    watch.into_error().or(failure.map(failed)).map_or(Ok(()), Err)
}

/// Casts an array to another one of the same shape, which may be a view of it.
pub(crate) fn cast<'py>(
    py: Python<'py>,
    mut src: View<'py>,
    dst: &View<'py>,
    options: &CastOptions,
    how: &How<'py>,
) -> PyResult<()> {
    let n = dst.len();
    if n == 0 {
        return Ok(());
    }
    let caster = Caster::new(src.of.dtype, dst.of.dtype, options).map_err(failed)?;
    let (from, to) = (src.reach(), dst.reach());
    // An element's random word depends on its number in C order, not on where it is in memory.
    let is_in_order = options.stochastic.is_none() || src.is_contiguous() && dst.is_contiguous();
    let is_dense = is_in_order && dense(&src, dst);
    if from.0 < to.1 && to.0 < from.1 {
        if is_dense && from.0 == to.0 {
            let (buffer, sizes) = (Raw(dst.data), [src.itemsize(), dst.itemsize()]);
            // SAFETY: both arrays begin at the same byte, and keep their memory. Python code that writes to it at the same time is a
            // data race, as with NumPy.
            let run = |elements: Range<usize>| unsafe { cast_in_place(&caster, buffer, elements, sizes) };
            let is_large = n * (sizes[0] + sizes[1]) >= LARGE || how.progress.is_some();
            // Random words begin with the first element of a call, so stochastic rounding is one call.
            if !is_large || options.stochastic.is_some() {
                return detached(py, n * (sizes[0] + sizes[1]), || run(0..n)).map_err(failed);
            }
            let step = PART / sizes[0].max(sizes[1]);
            let watch = Watch::new(how.progress.as_ref());
            let done = py.detach(|| {
                let mut done = 0;
                while done < n {
                    let elements = part_in_place(n, done, step, sizes);
                    done += elements.len();
                    run(elements)?;
                    if watch.look(done, n).is_break() {
                        break;
                    }
                }
                Ok(())
            });
            return watch.into_error().map_or_else(|| done.map_err(failed), Err);
        }
        // The arrays overlap in another way: a copy of the source is cast.
        src = src.copy(NPY_ORDER::NPY_KEEPORDER)?;
        return cast(py, src, dst, options, how);
    }
    let traffic = n.saturating_mul(src.itemsize() + dst.itemsize());
    let job = Job {
        caster,
        src: src.data,
        dst: dst.data,
        shape: &dst.shape,
        strides: [&src.strides, &dst.strides],
        n,
        sizes: [src.itemsize(), dst.itemsize()],
    };
    let is_large = traffic >= LARGE || how.progress.is_some();
    if !is_large {
        return detached(py, traffic, || job.all(is_dense)).map_err(failed);
    }
    if is_dense {
        // SAFETY: the arrays are dense, and this is the only call.
        let (src, dst) = unsafe { job.slices() };
        return watched(py, how, "element", |parallel| job.caster.par_cast_with(src, dst, n, parallel))?
            .map_err(failed);
    }
    watched(py, how, "element", |parallel| {
        let (src, mut dst) = job.views();
        job.caster.par_cast_strided_with(&src, &mut dst, parallel)
    })?
    .map_err(failed)
}

/// Returns the next elements, at most `step`, of a cast in place of which `done` elements are done. In this order no element is overwritten
/// before it is read, and all parts but the first are read from other bytes than they are written to.
fn part_in_place(n: usize, done: usize, step: usize, [from, to]: [usize; 2]) -> Range<usize> {
    if from >= to {
        return done..n.min(done + step);
    }
    let end = n - done;
    if end <= step { 0..end } else { end - step.min(end / 2)..end }
}

/// Casts some elements of a buffer in place: source and destination begin at its first byte.
///
/// # Safety
/// The elements are those of a part by `part_in_place`. Their bytes are readable and writable, and nobody else uses them.
unsafe fn cast_in_place(
    caster: &Caster,
    buffer: Raw,
    elements: Range<usize>,
    [from, to]: [usize; 2],
) -> Result<(), Error> {
    let (start, n) = (elements.start, elements.len());
    // SAFETY: the caller's promise. Elements that keep their size, and the first part of others, are cast in place. In any other part,
    // source and destination do not overlap: it has at most as many elements as come before it, and one side's are at least twice as wide.
    unsafe {
        let (src, dst) = (buffer.0.add(start * from), buffer.0.add(start * to));
        if start == 0 || from == to {
            return caster.cast_in_place(core::slice::from_raw_parts_mut(src, n * from.max(to)), n);
        }
        let source = core::slice::from_raw_parts(src, n * from);
        caster.cast(source, core::slice::from_raw_parts_mut(dst, n * to), n)
    }
}

/// A pointer that may be used on another thread.
#[derive(Clone, Copy)]
pub(crate) struct Raw(pub(crate) *mut u8);
// SAFETY: those who dereference it prove that they may.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

/// Runs a function, without the GIL if it takes longer than releasing the GIL.
pub(crate) fn detached<T: Send>(py: Python<'_>, traffic: usize, run: impl FnOnce() -> T + Send) -> T {
    if traffic < DETACHED { run() } else { py.detach(run) }
}

/// Whether the elements of both arrays lie without gaps, in the same order.
fn dense(src: &View<'_>, dst: &View<'_>) -> bool {
    let mut dims: Vec<(isize, usize, isize)> = (dst.strides.iter().zip(&dst.shape).zip(&src.strides))
        .filter(|((_, extent), _)| **extent != 1)
        .map(|((&to, &extent), &from)| (to, extent, from))
        .collect();
    dims.sort_unstable();
    let (mut to, mut from) = (dst.itemsize() as isize, src.itemsize() as isize);
    dims.into_iter().all(|dim| {
        let is_dense = dim.0 == to && dim.2 == from;
        to = to.wrapping_mul(dim.1 as isize);
        from = from.wrapping_mul(dim.1 as isize);
        is_dense
    })
}

/// A cast of arrays that do not overlap.
struct Job<'a> {
    caster: Caster,
    src: *const u8,
    dst: *mut u8,
    shape: &'a [usize],
    /// The strides of the source and of the destination.
    strides: [&'a [isize]; 2],
    n: usize,
    sizes: [usize; 2],
}

// SAFETY: the caller of `cast` keeps the arrays, and each element is cast by one thread.
unsafe impl Send for Job<'_> {}
// SAFETY: as above.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    /// Casts all elements on this thread.
    fn all(&self, is_dense: bool) -> Result<(), Error> {
        if is_dense {
            // SAFETY: the arrays are dense, and this is the only call.
            let (src, dst) = unsafe { self.slices() };
            return self.caster.cast(src, dst, self.n);
        }
        let (src, mut dst) = self.views();
        self.caster.cast_strided(&src, &mut dst)
    }

    /// Returns the arrays as views.
    fn views(&self) -> (StridedView<'_>, StridedViewMut<'_>) {
        // SAFETY: the elements belong to arrays, which the caller of `cast` keeps. Python code that writes to them at the same time is a
        // data race, as with NumPy.
        unsafe {
            (
                StridedView::from_ptr(self.src, self.shape, self.strides[0]),
                StridedViewMut::from_ptr(self.dst, self.shape, self.strides[1]),
            )
        }
    }

    /// Returns the bytes of dense arrays, from the first elements on.
    ///
    /// # Safety
    /// The arrays are dense, and nobody else has the slices.
    #[expect(clippy::mut_from_ref, reason = "the memory is not that of the job")]
    unsafe fn slices(&self) -> (&[u8], &mut [u8]) {
        // SAFETY: the caller's promise. The arrays have `n` elements and do not overlap.
        unsafe {
            (
                core::slice::from_raw_parts(self.src, self.n * self.sizes[0]),
                core::slice::from_raw_parts_mut(self.dst, self.n * self.sizes[1]),
            )
        }
    }
}

/// What was reported to `progress` about work whose parts may end in any order.
#[derive(Default)]
struct Told {
    total: usize,
    /// How many parts have ended.
    parts: usize,
    most: usize,
}

impl Told {
    /// Returns what to report when a thread has counted `done` of `total`: at least as much as another thread has reported. Some casts
    /// begin anew, which shows in that more than `total` parts end.
    fn next(&mut self, done: usize, total: usize) -> usize {
        if self.total != total || self.parts == total {
            *self = Self { total, ..Self::default() };
        }
        self.parts += 1;
        self.most = self.most.max(done);
        self.most
    }
}

/// Checks for signals during a long cast, and reports progress.
struct Watch<'a> {
    progress: Option<Py<PyAny>>,
    /// What progress counts.
    unit: &'static str,
    start: Instant,
    /// When signals were last checked, in milliseconds from the start.
    last: AtomicU64,
    told: Mutex<Told>,
    error: Mutex<Option<PyErr>>,
    _of: core::marker::PhantomData<&'a ()>,
}

impl<'a> Watch<'a> {
    fn new(progress: Option<&'a Bound<'_, PyAny>>) -> Self {
        let progress = progress.map(|progress| progress.clone().unbind());
        let (last, told, error) = (AtomicU64::new(0), Mutex::default(), Mutex::new(None));
        let start = Instant::now();
        Self { progress, unit: "element", start, last, told, error, _of: core::marker::PhantomData }
    }

    /// Checks for signals and reports progress. To be called after each part of the work, on any thread.
    fn look(&self, done: usize, total: usize) -> ControlFlow<()> {
        let now = self.start.elapsed().as_millis() as u64;
        let is_due = now - self.last.load(Ordering::Relaxed).min(now) >= SIGNALS;
        if !is_due && self.progress.is_none() {
            return ControlFlow::Continue(());
        }
        self.last.store(now, Ordering::Relaxed);
        // Locked until the report is made, so that nothing less is reported afterwards. Threads that wait here do not hold the GIL.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = Python::attach(|py| {
            // Does nothing on threads other than the main one.
            py.check_signals()?;
            let Some(progress) = &self.progress else { return Ok(()) };
            let done = told.next(done, total);
            let answer = progress.bind(py).call1((done, total))?;
            // `extract` also takes a bool of NumPy, which comparisons of its numbers return.
            if answer.extract::<bool>().is_ok_and(|goes_on| !goes_on) {
                return Err(Cancelled::new_err(format!(
                    "progress returned False after {done} of {}",
                    count(total, self.unit)
                )));
            }
            Ok(())
        });
        match looked {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    }

    fn into_error(self) -> Option<PyErr> {
        self.error.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of threads in `LANECAST_NUM_THREADS`, which is read once. None if it is not set.
fn wanted_threads(py: Python<'_>) -> PyResult<impl FnOnce() -> Option<usize>> {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    static READ: Once = Once::new();
    let mut bad = None;
    READ.call_once(|| {
        let Ok(text) = std::env::var("LANECAST_NUM_THREADS") else { return };
        match text.trim().parse::<usize>() {
            Ok(threads) if threads > 0 => THREADS.store(threads, Ordering::Relaxed),
            _ => bad = Some(text),
        }
    });
    if let Some(text) = bad {
        warn(
            py,
            &format!("LANECAST_NUM_THREADS is '{text}', which is ignored; it must be a positive integer"),
        )?;
    }
    let threads = THREADS.load(Ordering::Relaxed);
    Ok(move || {
        // Asking for the number of cores takes longer than casting some thousand elements, so it is done when needed.
        (threads > 0).then(|| threads.min(cores()))
    })
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// Returns the exception for an error of the crate.
pub(crate) fn failed(error: Error) -> PyErr {
    match error {
        Error::Allocation { .. } | Error::PlanAllocation { .. } | Error::SizeOverflow { .. } => {
            PyMemoryError::new_err(error.to_string())
        }
        Error::IsaUnavailable { .. } | Error::IsaOverride { .. } => {
            PyRuntimeError::new_err(error.to_string())
        }
        Error::ViewOverlap { .. } => PyValueError::new_err(format!("out overlaps itself: {error}")),
        Error::Cancelled { .. } => PyKeyboardInterrupt::new_err(()),
        _ => PyValueError::new_err(error.to_string()),
    }
}
