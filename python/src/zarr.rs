//! The codec cast_value of Zarr.

use lanecast::zarr::{ValueCaster, ZarrError};
use lanecast::{CastOptions, Caster, DType, Kind, Overflow, Packing};
use numpy::npyffi::NPY_ORDER;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyTuple};

use crate::cast::failed;
use crate::dtypes::{self, Table};
use crate::options::{choose, roundings};
use crate::view::View;

/// How many elements are cast between two checks for signals.
const PART: usize = 1 << 22;

/// Casts by the rules of cast_value. Returns the array, and the index of the first element that is refused: the array's contents are
/// meaningless then.
#[pyfunction]
#[pyo3(signature = (x, dtype, rounding, out_of_range, entries))]
pub(crate) fn cast_value<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    rounding: &Bound<'py, PyAny>,
    out_of_range: Option<&str>,
    entries: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, Option<usize>)> {
    let py = x.py();
    let rounding = choose("rounding", rounding, &roundings(), &[])?;
    let out_of_range =
        out_of_range.map(|rule| if rule == "wrap" { Overflow::Wrap } else { Overflow::Saturate });
    let (to, descr) = dtypes::read(dtype)?;
    let src = native(View::read(x)?)?.contiguous()?;
    for (of, what) in [(src.of.dtype, "numpy"), (to.dtype, "target")] {
        if !matches!(of.kind(), Kind::Int(_) | Kind::Float(_)) {
            return Err(PyTypeError::new_err(format!("Unsupported {what} dtype: {of}")));
        }
    }
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    if let Some(entries) = entries {
        let mut add = |key: Bound<'_, PyAny>, value: Bound<'_, PyAny>| -> PyResult<()> {
            keys.push(number(&key, "source", src.of.dtype)?);
            values.push(number(&value, "target", to.dtype)?);
            Ok(())
        };
        let pairs = if entries.hasattr("items")? { entries.call_method0("items")? } else { entries.clone() };
        for pair in pairs.try_iter()? {
            let pair = pair?;
            if let Ok(pair) = pair.cast_exact::<PyTuple>()
                && pair.len() == 2
            {
                add(pair.get_item(0)?, pair.get_item(1)?)?;
                continue;
            }
            let pair = pair.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            let [key, value] = &pair[..] else {
                let message = format!("an entry of scalar_map has {} values; it must be a pair", pair.len());
                return Err(PyValueError::new_err(message));
            };
            add(key.clone(), value.clone())?;
        }
    }
    let map: Vec<_> = codes(keys, src.of.dtype)?.into_iter().zip(codes(values, to.dtype)?).collect();
    let caster = ValueCaster::new(src.of.dtype, to.dtype, rounding, out_of_range, &map).map_err(refused)?;
    let table = Table::get(py)?;
    let dst = src.like(&table.descr(py, to.dtype)?, NPY_ORDER::NPY_CORDER)?;
    // SAFETY: the array is new and contiguous.
    let bytes = unsafe { dst.bytes_mut() };
    let sizes = [src.itemsize(), dst.itemsize()];
    let parts = src.bytes().chunks(PART * sizes[0]).zip(bytes.chunks_mut(PART * sizes[1]));
    for (part, (from, to)) in parts.enumerate() {
        match py.detach(|| caster.cast(from, to, from.len() / sizes[0])) {
            Err(ZarrError::Refused(lossy)) => {
                return Ok((dst.array.into_any(), Some(part * PART + lossy.index)));
            }
            done => done.map_err(refused)?,
        }
        py.check_signals()?;
    }
    let result = if to.swapped { as_type(&dst.array, &descr)? } else { dst.array.into_any() };
    Ok((result, None))
}

fn refused(error: ZarrError) -> PyErr {
    match error {
        ZarrError::Cast(error) => failed(error),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// Returns the elements in the byte order of the machine.
fn native(view: View<'_>) -> PyResult<View<'_>> {
    if !view.of.swapped {
        return Ok(view);
    }
    let py = view.array.py();
    let array = as_type(&view.array, &Table::get(py)?.descr(py, view.of.dtype)?)?;
    View::new(array.cast()?)
}

/// Returns the elements in another byte order.
fn as_type<'py>(
    array: &Bound<'py, PyUntypedArray>,
    descr: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    array.call_method1("astype", (descr,))
}

/// Reads a number for a dtype: for an integer dtype as its code, without going by way of a float; otherwise as the bits of a float64.
fn number(number: &Bound<'_, PyAny>, what: &str, dtype: DType) -> PyResult<u64> {
    let py = number.py();
    let wrong = || {
        let number = number.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
        PyTypeError::new_err(format!(
            "scalar_map {what} value {number}: expected a value convertible to {what} dtype {dtype}"
        ))
    };
    if let Kind::Int(format) = dtype.kind() {
        // First as 64 bits: a wider int is read in parts, which takes longer than casting hundreds of elements.
        let whole = match number.cast_exact::<PyInt>().map(|number| number.extract::<i64>()) {
            Ok(Ok(whole)) => Ok(whole.into()),
            _ => number.call_method0("__index__").and_then(|whole| whole.extract::<i128>()),
        };
        let value = whole.ok().filter(|value| (format.min()..=format.max()).contains(value));
        return value.map(|value| value as u64).ok_or_else(wrong);
    }
    let value = match number.cast_exact::<PyFloat>() {
        Ok(number) => number.value(),
        Err(_) => {
            let float = py.get_type::<PyFloat>().call1((number,)).and_then(|float| float.extract::<f64>());
            float.map_err(|cause| {
                let error = wrong();
                error.set_cause(py, Some(cause));
                error
            })?
        }
    };
    Ok(value.to_bits())
}

/// Returns the codes in a dtype of numbers that [`number`] has read for it.
fn codes(numbers: Vec<u64>, dtype: DType) -> PyResult<Vec<u64>> {
    if numbers.is_empty() || dtype == DType::F64 || matches!(dtype.kind(), Kind::Int(_)) {
        return Ok(numbers);
    }
    let options = CastOptions::ml_dtypes().dst_packing(Packing::OnePerByte);
    let caster = Caster::new(DType::F64, dtype, &options).map_err(failed)?;
    let src: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let mut dst = vec![0; numbers.len() * dtype.itemsize()];
    caster.cast(&src, &mut dst, numbers.len()).map_err(failed)?;
    let code = |element: &[u8]| match *element {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        _ => 0,
    };
    Ok(dst.chunks_exact(dtype.itemsize()).map(code).collect())
}
