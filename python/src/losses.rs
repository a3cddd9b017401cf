//! Checked casts: with reports, errors, and masks.

use lanecast::checked::{CastReport, Loss, Validity};
use lanecast::parallel::Parallel;
use lanecast::views::{StridedView, StridedViewMut};
use lanecast::{CastOptions, Caster, Error};
use numpy::PyUntypedArray;
use numpy::npyffi::NPY_ORDER;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::cast::{
    How, LARGE, Raw, count, detached, each_part, failed, read_progress, read_threads, tuple, watched,
};
use crate::dtypes::{self, Ordered};
use crate::options;
use crate::view::{View, laid_out};

/// How many elements are cast between two checks for signals.
const PART: usize = 1 << 20;

/// What is done about losses.
#[derive(Clone, Copy)]
pub(crate) enum Losses {
    /// They are counted.
    Count,
    /// The first loss of more than digits is an error.
    Refuse,
    /// The first loss of any kind is an error.
    RefuseChanges,
}

type Numbers = (usize, usize, usize, usize, usize, usize, usize, usize, Option<usize>, Option<usize>);

/// Returns the numbers of a report, as its class in Python takes them.
fn numbers(r: CastReport) -> Numbers {
    (r.elements, r.above, r.below, r.negative, r.nan, r.inf, r.imaginary, r.inexact, r.first, r.first_inexact)
}

/// Casts, and counts what is lost. Returns the array, and the numbers of a report.
#[pyfunction]
#[pyo3(signature = (x, dtype, threads, progress, options))]
pub(crate) fn checked<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    threads: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<(Bound<'py, PyUntypedArray>, Numbers)> {
    let how = How { threads: read_threads(threads)?, progress: read_progress(progress)? };
    let (src, dst, options) = new_array(x, dtype, options, OWN)?;
    let report = cast(x.py(), src, &dst, &options, &how, Losses::Count)?;
    Ok((dst.array, numbers(report)))
}

/// Casts, and raises a LossError if an element loses more than digits.
#[pyfunction]
#[pyo3(signature = (x, dtype, threads, progress, options))]
pub(crate) fn try_cast<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    threads: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let how = How { threads: read_threads(threads)?, progress: read_progress(progress)? };
    let (src, dst, options) = new_array(x, dtype, options, OWN)?;
    cast(x.py(), src, &dst, &options, &how, Losses::Refuse).map(drop)?;
    Ok(dst.array)
}

/// The numbers of a report of what a cast would lose.
#[pyfunction]
#[pyo3(signature = (x, dtype, threads, progress, options))]
pub(crate) fn report<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    threads: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Numbers> {
    let how = How { threads: read_threads(threads)?, progress: read_progress(progress)? };
    let options = options::read(options, OWN)?;
    let (to, _) = dtypes::read(dtype)?;
    let src = View::read(x)?;
    Ok(numbers(look(x.py(), &src, to, &laid_out(&options, src.of, to), &how)?))
}

/// Keywords of checked casts that are not options.
const OWN: &[&str] = &["threads", "progress"];

/// Reads a source, and makes a new array in C order for what it becomes.
fn new_array<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyDict>>,
    own: &[&'static str],
) -> PyResult<(View<'py>, View<'py>, CastOptions)> {
    let options = options::read(options, own)?;
    let (to, descr) = dtypes::read(dtype)?;
    let src = View::read(x)?;
    let dst = src.like(&descr, NPY_ORDER::NPY_CORDER)?;
    let options = laid_out(&options, src.of, to);
    Ok((src, dst, options))
}

/// Casts an array to a new one. Returns what that lost, or a LossError, after which the contents of the new one are unspecified.
pub(crate) fn cast<'py>(
    py: Python<'py>,
    src: View<'py>,
    dst: &View<'py>,
    options: &CastOptions,
    how: &How<'py>,
    losses: Losses,
) -> PyResult<CastReport> {
    if !(src.is_contiguous() && dst.is_contiguous()) {
        return look_and_cast(py, src, dst, options, how, losses);
    }
    let n = src.len();
    let caster = Caster::new(src.of.dtype, dst.of.dtype, options).map_err(failed)?;
    // SAFETY: the new array is contiguous.
    let (source, result) = unsafe { (src.bytes(), dst.bytes_mut()) };
    let traffic = source.len() + result.len();
    let done = |done: Result<(), Error>| done.map(|()| CastReport::default());
    let done = if traffic < LARGE && how.progress.is_none() {
        detached(py, traffic, || match losses {
            Losses::Count => caster.cast_checked(source, result, n),
            Losses::Refuse => done(caster.try_cast(source, result, n)),
            Losses::RefuseChanges => done(caster.same_value(source, result, n)),
        })
    } else {
        let run = |parallel: &Parallel<'_>| match losses {
            Losses::Count => caster.par_cast_checked_with(source, result, n, parallel),
            Losses::Refuse => done(caster.par_try_cast_with(source, result, n, parallel)),
            Losses::RefuseChanges => done(caster.par_same_value_with(source, result, n, parallel)),
        };
        watched(py, how, "element", run)?
    };
    done.map_err(|error| loss_error(py, error, &src, dst.of, options, None))
}

/// Looks at what a cast to another array would lose, and then casts, or returns a LossError without writing. Progress is that of the look.
pub(crate) fn look_and_cast<'py>(
    py: Python<'py>,
    src: View<'py>,
    dst: &View<'py>,
    options: &CastOptions,
    how: &How<'py>,
    losses: Losses,
) -> PyResult<CastReport> {
    let report = look(py, &src, dst.of, options, how)?;
    let refused = match losses {
        Losses::Count => None,
        Losses::Refuse => report.first,
        Losses::RefuseChanges => report.first.into_iter().chain(report.first_inexact).min(),
    };
    if let Some(first) = refused {
        return Err(refusal(py, &src, dst.of, options, first, report));
    }
    crate::cast::cast(py, src, dst, options, &How { threads: how.threads, progress: None })?;
    Ok(report)
}

/// Returns what a cast of an array would lose.
fn look<'py>(
    py: Python<'py>,
    src: &View<'py>,
    to: Ordered,
    options: &CastOptions,
    how: &How<'py>,
) -> PyResult<CastReport> {
    let caster = Caster::new(src.of.dtype, to.dtype, options).map_err(failed)?;
    let traffic = src.len().saturating_mul(src.itemsize() + to.dtype.itemsize());
    let (first, shape, strides) = (Raw(src.data), &src.shape, &src.strides);
    // SAFETY: these are elements of the array, which the caller keeps. Python code that writes to them at the same time is a data race, as
    // with NumPy.
    let view = || unsafe { StridedView::from_ptr({ first }.0, shape, strides) };
    let found = if traffic < LARGE && how.progress.is_none() {
        detached(py, traffic, || caster.report_strided(&view()))
    } else {
        watched(py, how, "element", |parallel| caster.par_report_strided_with(&view(), parallel))?
    };
    found.map_err(failed)
}

/// Returns the LossError of the first element that a cast would change. The report is known already.
fn refusal(
    py: Python<'_>,
    src: &View<'_>,
    to: Ordered,
    options: &CastOptions,
    first: usize,
    report: CastReport,
) -> PyErr {
    let (mut way, mut rest) = (0isize, first);
    for (&extent, &stride) in src.shape.iter().zip(&src.strides).rev() {
        way = way.wrapping_add(stride.wrapping_mul((rest % extent) as isize));
        rest /= extent;
    }
    let changes = || {
        let caster = caster_at(src.of, to, options, first)?;
        // SAFETY: this is an element of the array, which the view keeps.
        let element = unsafe { StridedView::from_ptr(src.data.wrapping_offset(way), &[], &[]) };
        let mut room = [0; 16];
        let out = &mut StridedViewMut::new(&mut room, 0, &[], &[]);
        caster.same_value_strided(&element, out)
    };
    match changes() {
        Err(Error::Lossy(mut lossy)) => {
            lossy.index = first;
            loss_error(py, Error::Lossy(lossy), src, to, options, Some(report))
        }
        Err(error) => failed(error),
        // Other code has written to it.
        Ok(()) => {
            PyValueError::new_err(format!("element {first} was changed by other code while it was cast"))
        }
    }
}

/// Returns a caster for the elements from this one on, whose random words continue those of the elements before.
fn caster_at(from: Ordered, to: Ordered, options: &CastOptions, before: usize) -> Result<Caster, Error> {
    let options = match options.stochastic {
        Some(words) => options.stochastic(words.seed, words.first.wrapping_add(before as u64)),
        None => *options,
    };
    Caster::new(from.dtype, to.dtype, &options)
}

/// Casts, and makes elements null that are lost. Returns the array, and its bitmap of ceil(n / 8) bytes. `shape` is the shape of the mask
/// from which `valid` was made. None: there is none.
#[pyfunction]
#[pyo3(signature = (x, dtype, valid, shape, threads, progress, options))]
pub(crate) fn masked<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    valid: Option<Vec<u8>>,
    shape: Option<Vec<usize>>,
    threads: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<(Bound<'py, PyUntypedArray>, Vec<u8>)> {
    let py = x.py();
    let how = How { threads: read_threads(threads)?, progress: read_progress(progress)? };
    let (src, dst, options) = new_array(x, dtype, options, &["bitmap", "threads", "progress"])?;
    let (src, n) = (src.contiguous()?, dst.len());
    if let Some(shape) = shape.filter(|shape| *shape != src.shape) {
        let [given, needed] = [&shape, &src.shape].map(|shape| tuple(shape));
        return Err(PyValueError::new_err(format!("valid has shape {given}; it must be {needed}")));
    }
    let mut bits = vec![0u8; n.div_ceil(8)];
    if let Some(valid) = &valid
        && valid.len() < bits.len()
    {
        return Err(PyValueError::new_err(format!(
            "valid has {}; {n} elements need at least {}",
            count(valid.len(), "byte"),
            bits.len(),
        )));
    }
    let sizes = [src.itemsize(), dst.itemsize()];
    // SAFETY: the new array is contiguous.
    let (source, result) = unsafe { (src.bytes(), dst.bytes_mut()) };
    let (from, to, valid) = (src.of, dst.of, valid.as_deref());
    let traffic = source.len() + result.len();
    let elements = (0..n).step_by(PART).map(|first| first..n.min(first + PART));
    let parts =
        source.chunks(PART * sizes[0]).zip(result.chunks_mut(PART * sizes[1])).zip(bits.chunks_mut(PART / 8));
    each_part(py, &how, (n, traffic), elements.zip(parts), |elements, ((source, result), bits)| {
        let valid = valid.map(|valid| Validity::new(valid).from_bit(elements.start));
        let caster = caster_at(from, to, &options, elements.start)?;
        caster.cast_validity(source, valid, result, bits, elements.len()).map(drop)
    })?;
    Ok((dst.array, bits))
}

/// Returns the exception for an error: if an element is lost, a LossError with a report of all that are.
fn loss_error(
    py: Python<'_>,
    error: Error,
    src: &View<'_>,
    to: Ordered,
    options: &CastOptions,
    report: Option<CastReport>,
) -> PyErr {
    let Error::Lossy(lossy) = error else { return failed(error) };
    let raise = || -> PyResult<PyErr> {
        let loss = match lossy.loss {
            Loss::Above => "above",
            Loss::Below => "below",
            Loss::NaN => "nan",
            Loss::Inf => "inf",
            Loss::Imaginary => "imaginary",
            Loss::Inexact => "inexact",
            _ => return Ok(failed(error)),
        };
        let value = src.array.as_any().getattr("flat")?.get_item(lossy.index)?;
        let mut index = vec![0; src.shape.len()];
        let mut rest = lossy.index;
        for (at, &extent) in index.iter_mut().zip(&src.shape).rev() {
            (*at, rest) = (rest % extent, rest / extent);
        }
        let index = PyTuple::new(py, index)?;
        let module = py.import("lanecast")?;
        let instance =
            module.getattr("LossError")?.call1((lossy.to_string(), lossy.index, index, value, loss))?;
        let report = report.map_or_else(|| look(py, src, to, options, &How::default()), Ok)?;
        instance.setattr("report", module.getattr("Report")?.call1(numbers(report))?)?;
        Ok(PyErr::from_value(instance))
    };
    raise().unwrap_or_else(|error| error)
}
