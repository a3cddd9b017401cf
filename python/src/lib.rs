//! The extension module of the Python package: arrays of NumPy and ml_dtypes, cast by lanecast.

mod cast;
mod dlpack;
mod dtypes;
mod losses;
mod options;
mod packed;
mod patch;
mod rules;
mod scaled;
mod text;
mod view;
mod zarr;

use std::ffi::CString;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeWarning};
use pyo3::prelude::*;

create_exception!(
    lanecast,
    Cancelled,
    PyException,
    "A cast was stopped by its progress callback.

>>> import lanecast
>>> lanecast.astype([1.0, 2.0], \"int8\", progress=lambda done, total: False)
Traceback (most recent call last):
lanecast.Cancelled: progress returned False after 2 of 2 elements
"
);

/// Issues a Python warning.
fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    let message = CString::new(message)?;
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &message, 2)
}

/// Runs a command line of the program `lanecast`, and returns its exit code.
#[pyfunction]
fn program(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| lanecast_cli::run_program(arguments))
}

#[pymodule(gil_used = false)]
fn _lanecast(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Cancelled", module.py().get_type::<Cancelled>())?;
    module.add_function(wrap_pyfunction!(cast::astype, module)?)?;
    module.add_function(wrap_pyfunction!(program, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_capsule, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::from_dlpack, module)?)?;
    module.add_function(wrap_pyfunction!(dtypes::dtype, module)?)?;
    module.add_function(wrap_pyfunction!(dtypes::dtypes, module)?)?;
    module.add_function(wrap_pyfunction!(losses::checked, module)?)?;
    module.add_function(wrap_pyfunction!(losses::masked, module)?)?;
    module.add_function(wrap_pyfunction!(losses::report, module)?)?;
    module.add_function(wrap_pyfunction!(losses::try_cast, module)?)?;
    module.add_function(wrap_pyfunction!(patch::leave_few, module)?)?;
    module.add_function(wrap_pyfunction!(patch::patch, module)?)?;
    module.add_function(wrap_pyfunction!(patch::patch_state, module)?)?;
    module.add_function(wrap_pyfunction!(patch::unpatch, module)?)?;
    module.add_function(wrap_pyfunction!(rules::can_cast, module)?)?;
    module.add_function(wrap_pyfunction!(rules::facts, module)?)?;
    module.add_function(wrap_pyfunction!(rules::isa, module)?)?;
    module.add_function(wrap_pyfunction!(rules::promote, module)?)?;
    module.add_function(wrap_pyfunction!(rules::default_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(rules::with_scalar, module)?)?;
    module.add_function(wrap_pyfunction!(scaled::dequantize, module)?)?;
    module.add_function(wrap_pyfunction!(scaled::quantize, module)?)?;
    module.add_function(wrap_pyfunction!(scaled::requantize, module)?)?;
    module.add_function(wrap_pyfunction!(scaled::scale_shape, module)?)?;
    module.add_function(wrap_pyfunction!(text::format, module)?)?;
    module.add_function(wrap_pyfunction!(text::pack, module)?)?;
    module.add_function(wrap_pyfunction!(text::parse, module)?)?;
    module.add_function(wrap_pyfunction!(zarr::cast_value, module)?)?;
    Ok(())
}
