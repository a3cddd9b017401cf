//! Reads and writes numbers as text, and packs elements.

use lanecast::text::{self, Notation};
use lanecast::{CastOptions, Caster, Packing};
use numpy::npyffi::NPY_ORDER;
use numpy::{PyArray1, PyUntypedArray};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::cast::failed;
use crate::dtypes;
use crate::options;
use crate::view::{View, laid_out, order};

fn wrong(error: text::Error) -> PyErr {
    match error {
        text::Error::Complex { .. } => PyTypeError::new_err(error.to_string()),
        text::Error::Cast(error) => failed(error),
        error => PyValueError::new_err(error.to_string()),
    }
}

/// Parses texts to an array of a shape.
#[pyfunction]
#[pyo3(signature = (texts, like, dtype, options))]
pub(crate) fn parse<'py>(
    texts: Vec<pyo3::pybacked::PyBackedStr>,
    like: &Bound<'py, PyUntypedArray>,
    dtype: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = like.py();
    let options = options::read(options, &[])?;
    let (to, descr) = dtypes::read(dtype)?;
    let dst = View::new(like)?.like(&descr, NPY_ORDER::NPY_CORDER)?;
    let mut bytes = Vec::with_capacity(texts.iter().map(|text| text.len()).sum());
    let mut offsets = Vec::with_capacity(texts.len() + 1);
    offsets.push(0i64);
    for text in &texts {
        bytes.extend_from_slice(text.as_bytes());
        offsets.push(bytes.len() as i64);
    }
    let options = laid_out(&options, to, to);
    // SAFETY: the array is new and contiguous.
    let out = unsafe { core::slice::from_raw_parts_mut(dst.data, dst.len() * dst.itemsize()) };
    py.detach(|| text::parse_bytes_with(&offsets, &bytes, out, to.dtype, &options)).map_err(wrong)?;
    Ok(dst.array)
}

/// Formats the elements of an array as texts, in C order, and returns its shape, too.
#[pyfunction]
pub(crate) fn format(x: &Bound<'_, PyAny>, scientific: bool) -> PyResult<(Vec<String>, Py<PyTuple>)> {
    let py = x.py();
    let src = View::read(x)?.contiguous()?;
    let shape = PyTuple::new(py, &src.shape)?.unbind();
    let options = CastOptions::new().src_packing(Packing::OnePerByte).src_order(order(src.of));
    let (n, dtype) = (src.len(), src.of.dtype);
    // SAFETY: the array is contiguous.
    let bytes = unsafe { core::slice::from_raw_parts(src.data, n * src.itemsize()) };
    let notation = if scientific { Notation::Scientific } else { Notation::Plain };
    let mut all = Vec::with_capacity(n);
    // In parts, so that Ctrl-C is noticed between them.
    let itemsize = src.itemsize();
    for part in bytes.chunks(itemsize << 16) {
        py.check_signals()?;
        let texts = py.detach(|| {
            text::format_bytes_with::<i64>(part, dtype, part.len() / itemsize, &options, notation)
        });
        let (offsets, bytes) = texts.map_err(wrong)?;
        let text =
            |pair: &[i64]| String::from_utf8_lossy(&bytes[pair[0] as usize..pair[1] as usize]).into_owned();
        all.extend(offsets.windows(2).map(text));
    }
    Ok((all, shape))
}

fn packing(high_first: bool) -> Packing {
    if high_first { Packing::HighFirst } else { Packing::LowFirst }
}

type Packed<'py> = (Bound<'py, PyArray1<u8>>, &'static str, Bound<'py, PyTuple>);

/// Packs an array of a dtype of fewer than 8 bits: returns the bytes, the dtype and the shape.
#[pyfunction]
pub(crate) fn pack<'py>(x: &Bound<'py, PyAny>, high_first: bool) -> PyResult<Packed<'py>> {
    let py = x.py();
    let src = View::read(x)?.contiguous()?;
    let (n, dtype) = (src.len(), src.of.dtype);
    if !dtype.is_packed() {
        return Err(PyTypeError::new_err(format!(
            "x has dtype {dtype}; only dtypes of fewer than 8 bits can be packed"
        )));
    }
    let options = CastOptions::new().src_packing(Packing::OnePerByte).dst_packing(packing(high_first));
    let caster = Caster::new(dtype, dtype, &options).map_err(failed)?;
    let size = dtype.byte_len(n, packing(high_first)).unwrap_or(0);
    let mut bytes = vec![0u8; size];
    // SAFETY: the array is contiguous.
    let source = unsafe { core::slice::from_raw_parts(src.data, n) };
    py.detach(|| caster.cast(source, &mut bytes, n)).map_err(failed)?;
    Ok((PyArray1::from_vec(py, bytes), dtype.name(), PyTuple::new(py, &src.shape)?))
}
