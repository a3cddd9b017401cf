//! Promotion, and facts about dtypes. Dtypes are names here.

use lanecast::promotion::{PromotionError, Rules, ScalarKind};
use lanecast::{DType, Isa, Kind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::cast::{failed, of_ours, read_casting};
use crate::dtypes::{meant, meant_ordered};

fn rules_of(given: &Bound<'_, PyAny>) -> PyResult<&'static Rules> {
    let Ok(name) = given.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!(
            "rules is {}; it must be the name of a ruleset, such as 'numpy'",
            given.repr()?
        )));
    };
    Rules::from_name(&name.to_cow()?).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn undefined(py: Python<'_>, error: impl ToString) -> PyErr {
    let raise = || -> PyResult<PyErr> {
        let class = py.import("lanecast")?.getattr("PromotionError")?;
        Ok(PyErr::from_value(class.call1((error.to_string(),))?))
    };
    raise().unwrap_or_else(|error| error)
}

/// The name of the dtype that some dtypes become together.
#[pyfunction]
pub(crate) fn promote(
    py: Python<'_>,
    dtypes: Vec<Bound<'_, PyAny>>,
    rules: &Bound<'_, PyAny>,
) -> PyResult<&'static str> {
    let rules = rules_of(rules)?;
    let dtypes = dtypes.iter().map(meant).collect::<PyResult<Vec<_>>>()?;
    rules.promote_all(dtypes.iter().copied()).map(DType::name).map_err(|error| {
        // NumPy's rules, which are the default, have none of ml_dtypes' dtypes.
        let others = Rules::ALL.into_iter().filter(|rules| rules.promote_all(dtypes.iter().copied()).is_ok());
        let others: Vec<_> = others.map(|rules| format!("'{}'", rules.name())).collect();
        match error {
            PromotionError::UnknownDType { .. } if !others.is_empty() => {
                undefined(py, format!("{error}; rules that define it: {}", others.join(", ")))
            }
            error => undefined(py, error),
        }
    })
}

fn kind_of(name: &str) -> PyResult<ScalarKind> {
    let found = ScalarKind::ALL.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("there is no kind of number named '{name}'")))
}

/// The name of the dtype that an array and a Python number become.
#[pyfunction]
pub(crate) fn with_scalar(
    py: Python<'_>,
    dtype: &Bound<'_, PyAny>,
    kind: &str,
    rules: &Bound<'_, PyAny>,
) -> PyResult<&'static str> {
    let (rules, dtype, kind) = (rules_of(rules)?, meant(dtype)?, kind_of(kind)?);
    rules.with_scalar(dtype, kind).map(DType::name).map_err(|error| undefined(py, error))
}

/// The name of the dtype of an array of Python numbers, if the rules define one.
#[pyfunction]
pub(crate) fn default_dtype(kind: &str, rules: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    Ok(rules_of(rules)?.default_dtype(kind_of(kind)?).map(DType::name))
}

/// Whether a cast is allowed at a level.
#[pyfunction]
pub(crate) fn can_cast(
    from: &Bound<'_, PyAny>,
    to: &Bound<'_, PyAny>,
    casting: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let [from, to] = [meant_ordered(from)?, meant_ordered(to)?].map(of_ours);
    Ok(from.can_cast(to, read_casting(casting)?))
}

/// The facts about a dtype.
#[pyfunction]
pub(crate) fn facts<'py>(py: Python<'py>, dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let dtype = meant(dtype)?;
    let facts = PyDict::new(py);
    facts.set_item("name", dtype.name())?;
    facts.set_item("bits", dtype.bits())?;
    match dtype.kind() {
        Kind::Bool => facts.set_item("kind", "bool")?,
        Kind::Int(_) => facts.set_item("kind", "int")?,
        Kind::Float(_) => facts.set_item("kind", "float")?,
        Kind::Complex(_) => {
            facts.set_item("kind", "complex")?;
            facts.set_item("part", dtype.part().name())?;
        }
    }
    if let Some(info) = dtype.iinfo() {
        facts.set_item("min", info.min)?;
        facts.set_item("max", info.max)?;
    }
    if let (Some(info), Some(format)) = (dtype.part().finfo(), dtype.part().float_format()) {
        facts.set_item("eps", info.eps)?;
        facts.set_item("min", info.min)?;
        facts.set_item("max", info.max)?;
        facts.set_item("tiny", info.tiny)?;
        facts.set_item("smallest_subnormal", info.smallest_subnormal)?;
        facts.set_item("nmant", format.mantissa_bits())?;
        facts.set_item("nexp", format.exponent_bits())?;
        facts.set_item("has_inf", format.has_inf())?;
        facts.set_item("has_nan", format.has_nan())?;
        facts.set_item("has_neg_zero", format.has_neg_zero())?;
    }
    Ok(facts)
}

/// The instruction set that casts use, and those that are available.
#[pyfunction]
pub(crate) fn isa() -> PyResult<(&'static str, Vec<&'static str>)> {
    let best = Isa::best().map_err(failed)?;
    Ok((best.name(), Isa::available().iter().map(|isa| isa.name()).collect()))
}
