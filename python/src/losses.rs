//! Checked casts: with reports, errors, and masks.

use lanecast::checked::{CastReport, Loss, Validity};
use lanecast::{CastOptions, Caster, Error};
use numpy::PyUntypedArray;
use numpy::npyffi::NPY_ORDER;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cast::{failed, tuple};
use crate::dtypes;
use crate::options;
use crate::view::{View, laid_out};

/// How many elements are cast between two checks for signals.
const PART: usize = 1 << 22;

type Numbers = (usize, usize, usize, usize, usize, usize, usize, usize, Option<usize>, Option<usize>);

/// Casts, and counts what is lost. Returns the array, and the numbers of a report.
#[pyfunction]
#[pyo3(signature = (x, dtype, options))]
pub(crate) fn checked<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<(Bound<'py, PyUntypedArray>, Numbers)> {
    let py = x.py();
    let cast = Cast::new(x, dtype, options)?;
    let mut all = CastReport::default();
    cast.each_part(py, |caster, src, dst, n, before| {
        let report = caster.cast_checked(src, dst, n)?;
        all.elements += report.elements;
        all.above += report.above;
        all.below += report.below;
        all.negative += report.negative;
        all.nan += report.nan;
        all.inf += report.inf;
        all.imaginary += report.imaginary;
        all.inexact += report.inexact;
        all.first = all.first.or(report.first.map(|first| before + first));
        all.first_inexact = all.first_inexact.or(report.first_inexact.map(|first| before + first));
        Ok(())
    })?
    .map_err(failed)?;
    let r = all;
    let numbers = (
        r.elements,
        r.above,
        r.below,
        r.negative,
        r.nan,
        r.inf,
        r.imaginary,
        r.inexact,
        r.first,
        r.first_inexact,
    );
    Ok((cast.dst.array, numbers))
}

/// Casts, and raises a LossError if an element loses more than digits.
#[pyfunction]
#[pyo3(signature = (x, dtype, options))]
pub(crate) fn try_cast<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = x.py();
    let cast = Cast::new(x, dtype, options)?;
    let done = cast.each_part(py, |caster, src, dst, n, before| {
        caster.try_cast(src, dst, n).map_err(|error| match error {
            Error::Lossy(mut lossy) => {
                lossy.index += before;
                Error::Lossy(lossy)
            }
            other => other,
        })
    })?;
    match done {
        Ok(()) => Ok(cast.dst.array),
        Err(error) => {
            let shape = cast.src.shape.clone();
            Err(loss_error(py, error, &cast.src, &shape))
        }
    }
}

/// Casts, and makes elements null that are lost. Returns the array, and its bitmap of ceil(n / 8) bytes. `shape` is the shape of the mask
/// from which `valid` was made. None: there is none.
#[pyfunction]
#[pyo3(signature = (x, dtype, valid, shape, options))]
pub(crate) fn masked<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    valid: Option<Vec<u8>>,
    shape: Option<Vec<usize>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<(Bound<'py, PyUntypedArray>, Vec<u8>)> {
    let py = x.py();
    let cast = Cast::new(x, dtype, options)?;
    if let Some(shape) = shape.filter(|shape| *shape != cast.src.shape) {
        let [given, needed] = [&shape, &cast.src.shape].map(|shape| tuple(shape));
        return Err(PyValueError::new_err(format!("valid has shape {given}, needed is {needed}")));
    }
    let mut bits = vec![0u8; cast.src.len().div_ceil(8)];
    if let Some(valid) = &valid
        && valid.len() < bits.len()
    {
        return Err(PyValueError::new_err(format!(
            "valid has {} bytes, needed are {} for {} elements",
            valid.len(),
            bits.len(),
            cast.src.len()
        )));
    }
    cast.each_part(py, |caster, src, dst, n, before| {
        let valid = valid.as_deref().map(|valid| Validity::new(valid).from_bit(before));
        caster.cast_validity(src, valid, dst, &mut bits[before / 8..(before + n).div_ceil(8)], n).map(drop)
    })?
    .map_err(failed)?;
    Ok((cast.dst.array, bits))
}

/// A cast in C order to a new array.
struct Cast<'py> {
    src: View<'py>,
    dst: View<'py>,
    caster: Caster,
    options: CastOptions,
}

impl<'py> Cast<'py> {
    fn new(
        x: &Bound<'py, PyAny>,
        dtype: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let options = options::read(options, &[])?;
        let (to, descr) = dtypes::read(dtype)?;
        let src = View::read(x)?.contiguous()?;
        let dst = src.like(&descr, NPY_ORDER::NPY_CORDER)?;
        let options = laid_out(&options, src.of, to);
        let caster = Caster::new(src.of.dtype, to.dtype, &options).map_err(failed)?;
        Ok(Self { src, dst, caster, options })
    }

    /// Calls `work` with the bytes of one part after the other, how many elements these are, and how many came before. The outer error is
    /// that of a signal.
    fn each_part(
        &self,
        py: Python<'py>,
        mut work: impl FnMut(&Caster, &[u8], &mut [u8], usize, usize) -> Result<(), Error> + Send,
    ) -> PyResult<Result<(), Error>> {
        let n = self.src.len();
        let sizes = [self.src.itemsize(), self.dst.itemsize()];
        let mut before = 0;
        while before < n {
            let part = PART.min(n - before);
            // SAFETY: both arrays are contiguous, and the destination is new.
            let (src, dst) = unsafe {
                (
                    core::slice::from_raw_parts(self.src.data.add(before * sizes[0]), part * sizes[0]),
                    core::slice::from_raw_parts_mut(self.dst.data.add(before * sizes[1]), part * sizes[1]),
                )
            };
            let caster = match self.options.stochastic {
                // (The random words continue those of the part before.)
                Some(words) if before > 0 => {
                    let first = words.first.wrapping_add(before as u64);
                    let options = self.options.stochastic(words.seed, first);
                    Caster::new(self.src.of.dtype, self.dst.of.dtype, &options).map_err(failed)?
                }
                _ => self.caster,
            };
            if let Err(error) = py.detach(|| work(&caster, src, dst, part, before)) {
                return Ok(Err(error));
            }
            py.check_signals()?;
            before += part;
        }
        Ok(Ok(()))
    }
}

/// The exception of an error: a LossError, if an element is lost.
pub(crate) fn loss_error(py: Python<'_>, error: Error, src: &View<'_>, shape: &[usize]) -> PyErr {
    let Error::Lossy(lossy) = error else { return failed(error) };
    let raise = || -> PyResult<PyErr> {
        let loss = match lossy.loss {
            Loss::Above => "above",
            Loss::Below => "below",
            Loss::NaN => "nan",
            Loss::Inf => "inf",
            Loss::Imaginary => "imaginary",
            Loss::Inexact => "inexact",
        };
        let value = src.array.as_any().getattr("flat")?.get_item(lossy.index)?;
        let mut index = vec![0; shape.len()];
        let mut rest = lossy.index;
        for (at, &extent) in index.iter_mut().zip(shape).rev() {
            (*at, rest) = (rest % extent, rest / extent);
        }
        let index = pyo3::types::PyTuple::new(py, index)?;
        let class = py.import("lanecast")?.getattr("LossError")?;
        let instance = class.call1((lossy.to_string(), lossy.index, index, value, loss))?;
        Ok(PyErr::from_value(instance))
    };
    raise().unwrap_or_else(|error| error)
}
