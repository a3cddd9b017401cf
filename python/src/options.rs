//! Reads keyword arguments as options.

use lanecast::{CastOptions, E8m0Rounding, NanToFinite, Overflow, Rounding, Saturation};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};

/// The values of an option, with their names.
pub(crate) fn named<T: Copy, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> [(&'static str, T); N] {
    all.map(|one| (name(one), one))
}

pub(crate) fn roundings() -> [(&'static str, Rounding); 5] {
    named(Rounding::ALL, Rounding::name)
}

fn overflows() -> [(&'static str, Overflow); 2] {
    named(Overflow::ALL, Overflow::name)
}

/// The values of `saturate` besides True and False.
const SATURATIONS: &[(&str, Saturation)] =
    &[("e4m3fn", Saturation::FnOnly), ("without_inf", Saturation::UnlessInf)];
const NAMES: &[&str] = &[
    "rounding",
    "int_rounding",
    "saturate",
    "float_to_int",
    "int_to_int",
    "nan_to_finite",
    "e8m0_rounding",
    "profile",
    "stochastic",
];

/// Reads the options among the keyword arguments. `others` are the other keywords of the function, which errors list.
pub(crate) fn read(given: Option<&Bound<'_, PyDict>>, others: &[&str]) -> PyResult<CastOptions> {
    let mut options = CastOptions::new();
    let Some(given) = given.filter(|given| !given.is_empty()) else { return Ok(options) };
    // What takes zero points takes a scaling, which has a profile of its own.
    let is_scaled = others.contains(&"zero_points");
    if let Some(profile) = given.get_item("profile")?
        && !profile.is_none()
    {
        options = choose("profile", &profile, &CastOptions::PROFILES, &[]).map_err(|error| match is_scaled {
            true => PyValueError::new_err(format!(
                "{}; whose steps a scaled cast follows, its scaling says, as in lanecast.Scaling.mx(profile='torchao')",
                error.value(given.py())
            )),
            false => error,
        })?;
    }
    for (name, value) in given {
        let name = name.extract::<String>()?;
        match name.as_str() {
            "profile" => {}
            "rounding" => options = options.rounding(choose(&name, &value, &roundings(), &[])?),
            // A profile may set another rounding to integers of fewer than 8 bits, which this changes, too.
            "int_rounding" => {
                let rounding = choose(&name, &value, &roundings(), &[])?;
                options = options.int_rounding(rounding).narrow_int_rounding(rounding);
            }
            "saturate" => {
                // Takes a bool of NumPy, too.
                options = match value.extract::<bool>() {
                    Ok(value) => options.saturate(value),
                    Err(_) => options.saturation(choose(&name, &value, SATURATIONS, &["True", "False"])?),
                }
            }
            "float_to_int" => {
                let overflow = choose(&name, &value, &overflows(), &[])?;
                options = options.float_to_int(overflow).narrow_float_to_int(overflow);
            }
            "int_to_int" => options = options.int_to_int(choose(&name, &value, &overflows(), &[])?),
            "nan_to_finite" => {
                options = options.nan_to_finite(choose(
                    &name,
                    &value,
                    &named(NanToFinite::ALL, NanToFinite::name),
                    &[],
                )?)
            }
            "e8m0_rounding" => {
                options = options.e8m0_rounding(choose(
                    &name,
                    &value,
                    &named(E8m0Rounding::ALL, E8m0Rounding::name),
                    &[],
                )?)
            }
            "stochastic" => options = stochastic(options, &value)?,
            _ => return Err(unknown(&name, others)),
        }
    }
    Ok(options)
}

/// Sets `stochastic`: a seed, or a seed and the number of the first element. None means no stochastic rounding.
fn stochastic(options: CastOptions, value: &Bound<'_, PyAny>) -> PyResult<CastOptions> {
    if value.is_none() {
        return Ok(options);
    }
    let message = format!(
        "stochastic is {}; it must be a seed, or (seed, number of the first element), each from 0 to 2**64 - 1",
        value.repr()?
    );
    let parts = value.cast::<PyTuple>().map_or_else(|_| vec![value.clone()], |pair| pair.iter().collect());
    for part in &parts {
        if is_bool(part)? {
            return Err(PyTypeError::new_err(message));
        }
    }
    if let Ok((seed, first)) = value.extract::<(u64, u64)>() {
        return Ok(options.stochastic(seed, first));
    }
    if let Ok(seed) = value.extract::<u64>() {
        return Ok(options.stochastic(seed, 0));
    }
    Err(PyValueError::new_err(message))
}

/// Whether a value is True or False, of Python or of NumPy.
pub(crate) fn is_bool(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let of_numpy = || value.is_instance(&value.py().import("numpy")?.getattr("bool_")?);
    if value.is_instance_of::<PyBool>() { Ok(true) } else { of_numpy() }
}

pub(crate) fn choose<T: Copy>(
    name: &str,
    value: &Bound<'_, PyAny>,
    known: &[(&str, T)],
    more: &[&str],
) -> PyResult<T> {
    let text = value.cast::<PyString>().ok().and_then(|text| text.to_cow().ok());
    if let Some((_, found)) = known.iter().find(|(name, _)| Some(*name) == text.as_deref()) {
        return Ok(*found);
    }
    let quoted = known.iter().map(|(name, _)| format!("'{name}'"));
    let valid: Vec<_> = more.iter().map(|name| (*name).to_owned()).chain(quoted).collect();
    let message = format!("{name} is {}; it must be one of {}", value.repr()?, valid.join(", "));
    Err(PyValueError::new_err(message))
}

fn unknown(name: &str, others: &[&str]) -> PyErr {
    // What quantises has those of integers in the scaling, or not at all.
    let quantises = others.contains(&"high_first");
    let is_taken =
        |name: &&&str| !(quantises && matches!(**name, "int_rounding" | "float_to_int" | "int_to_int"));
    let known = || NAMES.iter().filter(is_taken).chain(others).copied();
    let nearest = known().min_by_key(|known| distance(name, known)).unwrap_or_default();
    let all: Vec<_> = known().collect();
    let hint = if distance(name, nearest) <= 1 + nearest.len() / 3 {
        format!("did you mean '{nearest}'?")
    } else {
        format!("the options are {}", all.join(", "))
    };
    PyTypeError::new_err(format!("there is no option '{name}'; {hint}"))
}

/// Returns how many letters must be added, removed or replaced to get from one word to the other.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
