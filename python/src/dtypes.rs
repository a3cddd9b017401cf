//! Maps dtypes of NumPy and ml_dtypes to those of lanecast, and back.

use core::ffi::c_int;

use lanecast::DType;
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};

use crate::options::distance;

/// The dtypes of NumPy's type numbers, and NumPy's dtypes.
pub(crate) struct Table {
    numbers: Vec<(c_int, DType)>,
    /// NumPy's dtypes, by code. None if the installed ml_dtypes does not have it.
    descrs: [Option<Py<PyArrayDescr>>; DType::ALL.len()],
}

/// A dtype and its byte order, as an array has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ordered {
    pub(crate) dtype: DType,
    /// Whether the bytes are not in the machine's order.
    pub(crate) swapped: bool,
}

impl Ordered {
    pub(crate) fn native(dtype: DType) -> Self {
        Self { dtype, swapped: false }
    }
}

impl Table {
    /// Returns the table of this process.
    pub(crate) fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static TABLE: PyOnceLock<Table> = PyOnceLock::new();
        TABLE.get_or_try_init(py, || Self::new(py))
    }

    fn new(py: Python<'_>) -> PyResult<Self> {
        let (numpy, ml_dtypes) = (py.import("numpy")?, py.import("ml_dtypes")?);
        let mut table = Self { numbers: Vec::new(), descrs: [const { None }; DType::ALL.len()] };
        for dtype in DType::ALL {
            let name = match dtype {
                DType::Bool => "bool_",
                DType::F8UE5M3 => "float8_e5m3fnu",
                _ => dtype.name(),
            };
            let found = numpy.getattr(name).or_else(|_| ml_dtypes.getattr(name));
            let Ok(scalar) = found else { continue };
            let descr = PyArrayDescr::new(py, scalar)?;
            table.numbers.push((descr.num(), dtype));
            table.descrs[usize::from(dtype.code())] = Some(descr.unbind());
        }
        // C has several integer types of the same size.
        for (name, signed) in [
            ("intc", true),
            ("long", true),
            ("longlong", true),
            ("uintc", false),
            ("ulong", false),
            ("ulonglong", false),
        ] {
            let descr = PyArrayDescr::new(py, numpy.getattr(name)?)?;
            let known = match (descr.itemsize(), signed) {
                (4, true) => DType::I32,
                (4, false) => DType::U32,
                (8, true) => DType::I64,
                (8, false) => DType::U64,
                _ => continue,
            };
            if !table.numbers.iter().any(|&(number, _)| number == descr.num()) {
                table.numbers.push((descr.num(), known));
            }
        }
        Ok(table)
    }

    /// Returns the dtype of a type number.
    pub(crate) fn of_number(&self, number: c_int) -> Option<DType> {
        self.numbers.iter().find(|(known, _)| *known == number).map(|(_, dtype)| *dtype)
    }

    /// Returns the type numbers and their dtypes.
    pub(crate) fn numbers(&self) -> &[(c_int, DType)] {
        &self.numbers
    }

    /// Returns NumPy's dtype, in the machine's byte order.
    pub(crate) fn descr<'py>(&self, py: Python<'py>, dtype: DType) -> PyResult<Bound<'py, PyArrayDescr>> {
        match &self.descrs[usize::from(dtype.code())] {
            Some(descr) => Ok(descr.bind(py).clone()),
            None => Err(PyTypeError::new_err(format!(
                "the installed ml_dtypes has no {dtype}, which arrays of it need; a newer release may have it"
            ))),
        }
    }

    /// Returns the dtype and byte order of a dtype of NumPy, if lanecast has it.
    pub(crate) fn ordered(&self, descr: &Bound<'_, PyArrayDescr>) -> Option<Ordered> {
        let dtype = self.of_number(descr.num())?;
        let swapped = match descr.byteorder() {
            b'>' => cfg!(target_endian = "little"),
            b'<' => cfg!(target_endian = "big"),
            _ => false,
        };
        Some(Ordered { dtype, swapped: swapped && dtype.part().bits() > 8 })
    }
}

/// How many characters of an argument errors show.
const LONGEST: usize = 80;

/// Returns the error of a dtype that lanecast does not have.
pub(crate) fn refused(what: &str, descr: &Bound<'_, PyAny>) -> PyErr {
    let text = descr.str().map_or_else(|_| "?".to_owned(), |text| text.to_string());
    let meant = match descr.cast::<PyArrayDescr>() {
        Ok(descr) if matches!(descr.kind(), b'U' | b'S' | b'T') => {
            Some("lanecast.format writes numbers as texts".to_owned())
        }
        Ok(_) => None,
        // An array, or a tensor.
        Err(_) if descr.hasattr("dtype").is_ok_and(|has| has) => Some("did you mean its dtype?".to_owned()),
        Err(_) if text.eq_ignore_ascii_case("nf4") => Some(
            "NF4 is a table of 16 numbers; dtypes of 4 bits are float4_e2m1fn, int4 and uint4".to_owned(),
        ),
        Err(_) => nearest(&text).map(|name| format!("did you mean '{name}'?")),
    };
    // It may be any object, with a long text.
    let text = match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ..", &text[..end]),
        None => text,
    };
    let rest = meant.unwrap_or_else(|| {
        let names: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        format!("lanecast casts {}", names.join(", "))
    });
    let text = if text.is_empty() { "''" } else { &text };
    PyTypeError::new_err(format!("{what} {text}; {rest}"))
}

/// Returns the error of an array whose dtype lanecast does not have, with what helps.
pub(crate) fn refused_array(descr: &Bound<'_, PyArrayDescr>) -> PyErr {
    let hint = match descr.kind() {
        b'O' => "give its elements a dtype first: numpy.asarray(x, float)",
        b'U' | b'T' => "lanecast.parse reads numbers from texts",
        b'S' => "lanecast.parse reads numbers from texts, which x.astype(str) are",
        b'f' => "x.astype('float64') rounds its numbers",
        b'c' => "x.astype('complex128') rounds its numbers",
        b'M' | b'm' => "its numbers are numpy.asarray(x).view('int64')",
        b'V' if descr.has_fields() => "each field is an array of its own: x['name']",
        // NumPy reads such an array from a file that was saved with a dtype of ml_dtypes.
        b'V' if descr.itemsize() == 1 => "say which dtype its bytes are, as in x.view('float8_e4m3fn')",
        b'V' if descr.itemsize() == 2 => "say which dtype its bytes are, as in x.view('bfloat16')",
        b'V' => "its bytes are x.view('uint8')",
        _ => return refused("cannot cast an array of", descr),
    };
    let text = descr.str().map_or_else(|_| "?".to_owned(), |text| text.to_string());
    PyTypeError::new_err(format!("cannot cast an array of {text}; {hint}"))
}

/// Returns the name that is probably meant by a short one, by another library's dtype (`torch.bfloat16`), or by a misspelt one.
fn nearest(given: &str) -> Option<&'static str> {
    const SHORT: &[(&str, DType)] = &[
        ("bf16", DType::BF16),
        ("fp16", DType::F16),
        ("f32", DType::F32),
        ("fp32", DType::F32),
        ("half", DType::F16),
        ("halffloat", DType::F16),
        ("f64", DType::F64),
        ("double", DType::F64),
        ("fp64", DType::F64),
        ("bfloat", DType::BF16),
        ("fp8", DType::F8E4M3FN),
        ("float8", DType::F8E4M3FN),
        ("e4m3", DType::F8E4M3FN),
        ("e5m2", DType::F8E5M2),
        ("e8m0", DType::F8E8M0),
        ("fp4", DType::F4E2M1),
        ("float4", DType::F4E2M1),
        ("e2m1", DType::F4E2M1),
        ("float4_e2m1fn_x2", DType::F4E2M1),
        // As ml_dtypes calls it.
        ("float8_e5m3fnu", DType::F8UE5M3),
    ];
    let name = given.rsplit('.').next().unwrap_or(given).to_lowercase();
    if let Some((_, dtype)) = SHORT.iter().find(|(short, _)| *short == name) {
        return Some(dtype.name());
    }
    // By exponent and mantissa: e5m2fnuz, fp8_e5m2fnuz, F8E5M2FNUZ.
    if let Some(start) =
        name.find('e').filter(|&start| name[start + 1..].starts_with(|c: char| c.is_ascii_digit()))
    {
        let is_it = |known: &&str| known.split_once('_').is_some_and(|(_, format)| format == &name[start..]);
        let whole = DType::ALL.map(DType::name).into_iter().find(is_it);
        let without_fn = || {
            DType::ALL.map(DType::name).into_iter().find(|known| {
                known
                    .split_once('_')
                    .is_some_and(|(_, format)| format.strip_suffix("fn") == Some(&name[start..]))
            })
        };
        if let Some(known) = whole.or_else(without_fn) {
            return Some(known);
        }
    }
    let close = DType::ALL.map(DType::name).into_iter().min_by_key(|known| distance(&name, known))?;
    (distance(&name, close) <= 1 + name.len() / 7).then_some(close)
}

/// Reads an argument `dtype`: a dtype of NumPy or something that NumPy takes for one, a type of ml_dtypes, a name of lanecast, or a
/// dtype of torch.
pub(crate) fn read<'py>(given: &Bound<'py, PyAny>) -> PyResult<(Ordered, Bound<'py, PyArrayDescr>)> {
    let py = given.py();
    let table = Table::get(py)?;
    let descr = if let Ok(descr) = given.cast::<PyArrayDescr>() {
        descr.clone()
    } else if let Some(dtype) = named(given) {
        table.descr(py, dtype)?
    } else if given.is_none() {
        return Err(PyTypeError::new_err("dtype is None; it must be a dtype, a type or a name"));
    } else {
        PyArrayDescr::new(py, given).map_err(|_| refused("there is no dtype", given))?
    };
    match table.ordered(&descr) {
        Some(ordered) => Ok((ordered, descr)),
        // NumPy takes every class that it does not know for `object`.
        None if descr.kind() == b'O' && is_other_class(given) => Err(refused("there is no dtype", given)),
        None => Err(refused("cannot cast to", &descr)),
    }
}

fn is_other_class(given: &Bound<'_, PyAny>) -> bool {
    given.is_instance_of::<PyType>() && !given.is(given.py().get_type::<PyAny>())
}

/// Returns the dtype of a canonical name, or of another library's dtype whose text is its module and such a name (`torch.bfloat16`).
pub(crate) fn named(given: &Bound<'_, PyAny>) -> Option<DType> {
    if let Ok(name) = given.cast::<PyString>() {
        return name.to_cow().ok()?.parse().ok();
    }
    // Most arguments are NumPy's types, as `np.float16`, which the caller reads.
    if given.is_instance_of::<PyType>() {
        return None;
    }
    let class = given.get_type();
    if !class.name().ok()?.to_cow().ok()?.eq_ignore_ascii_case("dtype") {
        return None;
    }
    let (module, text) = (class.module().ok()?, given.str().ok()?);
    text.to_cow().ok()?.strip_prefix(&*module.to_cow().ok()?)?.strip_prefix('.')?.parse().ok()
}

/// Reads an argument `dtype` that may also be a packed dtype, or one that the installed ml_dtypes does not have.
pub(crate) fn meant(given: &Bound<'_, PyAny>) -> PyResult<DType> {
    Ok(meant_ordered(given)?.dtype)
}

/// As [`meant`], with the byte order.
pub(crate) fn meant_ordered(given: &Bound<'_, PyAny>) -> PyResult<Ordered> {
    match named(given) {
        Some(dtype) => Ok(Ordered::native(dtype)),
        None => Ok(read(given)?.0),
    }
}

/// NumPy's dtype of an argument `dtype`.
#[pyfunction]
pub(crate) fn dtype<'py>(name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArrayDescr>> {
    read(name).map(|(_, descr)| descr)
}

/// All names, with NumPy's dtypes.
#[pyfunction]
pub(crate) fn dtypes(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let (table, all) = (Table::get(py)?, PyDict::new(py));
    for dtype in DType::ALL {
        all.set_item(dtype.name(), table.descrs[usize::from(dtype.code())].as_ref())?;
    }
    Ok(all)
}
