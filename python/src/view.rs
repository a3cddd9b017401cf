//! Arrays, and other objects that are read or written as arrays.

use core::ffi::{c_int, c_void};
use core::ptr;

use lanecast::{ByteOrder, CastOptions, Packing};
use numpy::npyffi::{NPY_ARRAY_WRITEABLE, NPY_ORDER, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyMemoryView, PyTuple};

use crate::dlpack::{self, Handed};
use crate::dtypes::{Ordered, Table, refused_array};
use crate::packed::{self, Packed};

/// A view of the elements of an array, which it keeps alive.
pub(crate) struct View<'py> {
    pub(crate) array: Bound<'py, PyUntypedArray>,
    pub(crate) data: *mut u8,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<isize>,
    pub(crate) of: Ordered,
}

impl<'py> View<'py> {
    /// Returns the view of an array whose dtype lanecast has.
    pub(crate) fn new(array: &Bound<'py, PyUntypedArray>) -> PyResult<Self> {
        let descr = array.dtype();
        let Some(of) = Table::get(array.py())?.ordered(&descr) else {
            return Err(refused_array(&descr));
        };
        // SAFETY: the object is an array.
        let data = unsafe { (*array.as_array_ptr()).fields.data }.cast();
        let (shape, strides) = (array.shape().to_vec(), array.strides().to_vec());
        Ok(Self { array: array.clone(), data, shape, strides, of })
    }

    /// Returns the view of anything that can be read as an array. Packed elements are unpacked first.
    pub(crate) fn read(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        match to_array(given)? {
            Handed::Array(array) => Self::new(&array),
            Handed::Packed(packed) => Self::new(&packed.unpack()?),
        }
    }

    /// Returns the view of anything that can be written as an array.
    pub(crate) fn write(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        let array = if let Ok(array) = given.cast::<PyUntypedArray>() {
            array.clone()
        } else if given.hasattr("__dlpack__")? {
            match dlpack::import(given)? {
                Handed::Array(array) => array,
                Handed::Packed(packed) => {
                    return Err(PyValueError::new_err(format!(
                        "out holds packed {}; it must have one element per byte",
                        packed.dtype
                    )));
                }
            }
        } else {
            let Ok(buffer) = PyMemoryView::from(given) else {
                let what = given.get_type().qualname()?;
                return Err(PyTypeError::new_err(format!(
                    "out is of type {what}; it must be an ndarray, a writable buffer or a DLPack object"
                )));
            };
            as_array(buffer.as_any())?
        };
        // SAFETY: it is an array.
        let flags = unsafe { (*array.as_array_ptr()).fields.flags };
        if flags & NPY_ARRAY_WRITEABLE == 0 {
            return Err(PyValueError::new_err("out is read-only"));
        }
        Self::new(&array)
    }

    /// Makes a new array of the same shape. `order` has NumPy's meaning.
    pub(crate) fn like(&self, descr: &Bound<'py, PyArrayDescr>, order: NPY_ORDER) -> PyResult<Self> {
        let py = self.array.py();
        // SAFETY: the function takes over the reference to the dtype, and returns a new one to an array.
        let array = unsafe {
            let descr = descr.clone().into_ptr().cast();
            let array = PY_ARRAY_API.PyArray_NewLikeArray(py, self.array.as_array_ptr(), order, descr, 0);
            Bound::from_owned_ptr_or_err(py, array)?
        };
        Self::new(array.cast()?)
    }

    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn itemsize(&self) -> usize {
        self.of.dtype.itemsize()
    }

    /// Returns the bytes of contiguous elements.
    pub(crate) fn bytes(&self) -> &[u8] {
        debug_assert!(self.is_contiguous() || self.len() == 0);
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: the array is contiguous, and the view keeps it alive. Python code that writes to it at the same time is a data race, as
        // with NumPy.
        unsafe { core::slice::from_raw_parts(self.data, self.len() * self.itemsize()) }
    }

    /// Returns the bytes of contiguous elements, to write to.
    ///
    /// # Safety
    /// The elements are contiguous, and nobody else uses them: the array is new.
    #[expect(clippy::mut_from_ref, reason = "the memory is not that of the view")]
    pub(crate) unsafe fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: the caller's promise. The pointer of an array without elements is not null, and not used.
        unsafe { core::slice::from_raw_parts_mut(self.data, self.len() * self.itemsize()) }
    }

    /// Whether the elements are contiguous in C order.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.array.is_c_contiguous()
    }

    /// Returns the address of the first byte of the elements, and that after the last.
    pub(crate) fn reach(&self) -> (usize, usize) {
        let (mut first, mut end) = (0, self.itemsize() as isize);
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let way = (extent as isize - 1) * stride;
            if way < 0 { first += way } else { end += way }
        }
        let at = |offset: isize| self.data.addr().wrapping_add_signed(offset);
        if self.len() == 0 { (0, 0) } else { (at(first), at(end)) }
    }

    /// Returns the same elements contiguous in C order: a copy, if they are not.
    pub(crate) fn contiguous(self) -> PyResult<Self> {
        if self.is_contiguous() {
            return Ok(self);
        }
        self.copy(NPY_ORDER::NPY_CORDER)
    }

    /// Returns a copy. `order` has NumPy's meaning.
    pub(crate) fn copy(&self, order: NPY_ORDER) -> PyResult<Self> {
        let py = self.array.py();
        // SAFETY: the object is an array, and the result is a new reference to one.
        let copy = unsafe {
            let copy = PY_ARRAY_API.PyArray_NewCopy(py, self.array.as_array_ptr(), order);
            Bound::from_owned_ptr_or_err(py, copy)?
        };
        Self::new(copy.cast()?)
    }
}

/// Returns the options with the byte orders of two arrays, and one element per byte.
pub(crate) fn laid_out(options: &CastOptions, src: Ordered, dst: Ordered) -> CastOptions {
    options
        .src_packing(Packing::OnePerByte)
        .dst_packing(Packing::OnePerByte)
        .src_order(order(src))
        .dst_order(order(dst))
}

pub(crate) fn order(of: Ordered) -> ByteOrder {
    match (of.swapped, cfg!(target_endian = "big")) {
        (false, _) => ByteOrder::Native,
        (true, true) => ByteOrder::Little,
        (true, false) => ByteOrder::Big,
    }
}

/// Reads an object as an array: an array, a `PackedArray`, an object with DLPack or a buffer, nested lists, or a number.
pub(crate) fn to_array<'py>(given: &Bound<'py, PyAny>) -> PyResult<Handed<'py>> {
    if let Ok(array) = given.cast::<PyUntypedArray>() {
        return Ok(Handed::Array(array.clone()));
    }
    if let Some(handed) = dlpack::import_tensor(given)? {
        return Ok(handed);
    }
    let py = given.py();
    if given.is_instance_of::<PyBytes>() || given.is_instance_of::<PyByteArray>() {
        let numpy = py.import("numpy")?;
        let array = numpy.call_method1("frombuffer", (given, numpy.getattr("uint8")?))?;
        return Ok(Handed::Array(array.cast_into()?));
    }
    if packed::is_packed_array(given)? {
        return Ok(Handed::Packed(Packed::new(given)?));
    }
    check_nulls(given)?;
    // Scalars of NumPy have buffers, too, but those of ml_dtypes have no format.
    let is_scalar = given.is_instance(&py.import("numpy")?.getattr("generic")?)?;
    if !is_scalar && given.hasattr("__dlpack__")? {
        return match dlpack::import(given) {
            // JAX exports no integers of 2 and 4 bits, and pyarrow no bools, but both make arrays of them.
            Err(error)
                if (error.is_instance_of::<PyRuntimeError>(py)
                    || error.is_instance_of::<PyTypeError>(py))
                    && given.hasattr("__array__")? =>
            {
                as_array(given)
                    .map(Handed::Array)
                    .map_err(|other| if of_lists(given).is_ok_and(|of| of.is_some()) { other } else { error })
            }
            other => other,
        };
    }
    Ok(Handed::Array(as_array(given)?))
}

/// Refuses an Arrow array, a column or a table (of pyarrow, polars or pandas) that has nulls, of which NumPy would make NaN.
fn check_nulls(given: &Bound<'_, PyAny>) -> PyResult<()> {
    if given.is_instance_of::<PyInt>() || given.is_instance_of::<PyFloat>() {
        return Ok(());
    }
    let columns = match given.cast::<PyList>() {
        // Most lists are of numbers or rows; this looks for lists of columns.
        Ok(list) => match list.get_item(0) {
            Ok(first) if first.hasattr(intern!(given.py(), "null_count"))? => Some(list.iter().collect()),
            _ => return Ok(()),
        },
        Err(_) => columns(given)?,
    };
    let one = columns.is_none();
    let mut nulls = 0;
    for column in columns.unwrap_or_else(|| vec![given.clone()]) {
        nulls += count_nulls(&column)?;
    }
    if nulls == 0 {
        return Ok(());
    }
    let of = match of_lists(given)? {
        Some(elements) => format!("({elements}, dtype)"),
        None if one => "(x, dtype)".to_owned(),
        None => " of each column".to_owned(),
    };
    Err(PyValueError::new_err(format!(
        "x has {nulls} null{}; lanecast.masked{of} gives the values, and which of them are not null",
        if nulls == 1 { "" } else { "s" }
    )))
}

/// Returns the columns of a table of pyarrow, polars or pandas. None if it is not one.
fn columns<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let py = given.py();
    for (method, of) in
        [(intern!(py, "itercolumns"), 0), (intern!(py, "iter_columns"), 0), (intern!(py, "items"), 1)]
    {
        let Some(columns) = given.getattr_opt(method)? else { continue };
        // A series of pandas has items, too: its elements. So has a dict.
        if given.hasattr(intern!(py, "dtype"))? || of == 1 && !given.hasattr(intern!(py, "dtypes"))? {
            continue;
        }
        let column = |item: PyResult<Bound<'py, PyAny>>| if of == 1 { item?.get_item(1) } else { item };
        return columns.call0()?.try_iter()?.map(column).collect::<PyResult<_>>().map(Some);
    }
    Ok(None)
}

fn count_nulls(column: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = column.py();
    if let Some(count) = column.getattr_opt(intern!(py, "null_count"))? {
        let count = if count.is_callable() { count.call0()? } else { count };
        return match count.extract().unwrap_or(0) {
            0 => nulls_within(column),
            nulls => Ok(nulls),
        };
    }
    // Columns of pandas can have nulls if their dtype is not NumPy's.
    let Some(is_null) = column.getattr_opt(intern!(py, "isna"))? else { return Ok(0) };
    match column.getattr_opt(intern!(py, "dtype"))? {
        // pyarrow counts the nulls of columns that pandas stores with it.
        Some(dtype) if dtype.hasattr(intern!(py, "pyarrow_dtype"))? => {
            let array = column.getattr_opt(intern!(py, "array"))?.unwrap_or_else(|| column.clone());
            count_nulls(&array.call_method0(intern!(py, "__arrow_array__"))?)
        }
        Some(dtype) if dtype.cast::<PyArrayDescr>().is_err() => {
            let sum = is_null.call0()?.call_method0(intern!(py, "sum"))?;
            py.get_type::<PyInt>().call1((sum,))?.extract()
        }
        _ => Ok(0),
    }
}

/// Counts the nulls that `null_count` leaves out: those among the values of a dictionary or of runs, of pyarrow, and those among the
/// elements of a column of arrays, of pyarrow or of polars.
fn nulls_within(column: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = column.py();
    let of = column.getattr_opt(intern!(py, "type"))?;
    for values in [intern!(py, "index_type"), intern!(py, "run_end_type")] {
        if of.as_ref().map_or(Ok(false), |of| of.hasattr(values))? {
            let (numpy, is_null) = (py.import("numpy")?, column.call_method0(intern!(py, "is_null"))?);
            let is_null = numpy.call_method1("asarray", (is_null,))?;
            return numpy.call_method1("count_nonzero", (is_null,))?.extract();
        }
    }
    if let Some(of) = column.getattr_opt(intern!(py, "type"))?
        && of.getattr_opt(intern!(py, "value_type"))?.is_some()
        && column.hasattr(intern!(py, "flatten"))?
    {
        return count_nulls(&column.call_method0(intern!(py, "flatten"))?);
    }
    match column.getattr_opt(intern!(py, "dtype"))? {
        Some(of) if of.hasattr(intern!(py, "inner"))? => {
            count_nulls(&column.call_method0(intern!(py, "explode"))?)
        }
        _ => Ok(0),
    }
}

/// Returns how a column of lists gives the elements of these, as an expression in Python. None if it is no such column.
fn of_lists(given: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    given.py().import("lanecast._api")?.call_method1("_of_lists", (given,))?.extract()
}

fn as_array<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let array = given.py().import("numpy")?.call_method1("asarray", (given,))?;
    let is_list = given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>();
    let array = match is_list {
        true => given.py().import("lanecast._api")?.call_method1("_of_integers", (given, array))?,
        false => array,
    };
    let array: Bound<'py, PyUntypedArray> = array.cast_into()?;
    if array.ndim() == 1
        && array.dtype().kind() == b'O'
        && let Some(elements) = of_lists(given)?
    {
        return Err(PyTypeError::new_err(format!(
            "cannot cast an array of lists; {elements} has their elements"
        )));
    }
    // NumPy makes an array of one object of anything that it does not know.
    if array.ndim() == 0 && array.dtype().kind() == b'O' {
        if given.is_instance_of::<PyInt>() {
            return Err(PyTypeError::new_err(
                "an int of more than 64 bits is too large for every integer dtype; float(x) rounds it",
            ));
        }
        let what = given.get_type().qualname()?;
        return Err(PyTypeError::new_err(format!(
            "cannot read a {what} as an array; lanecast needs an ndarray, a number, a nested list of numbers, a buffer or a DLPack object"
        )));
    }
    Ok(array)
}

/// Makes an array of memory that `base` owns.
///
/// # Safety
/// The elements of this shape with these strides are readable, and writable if `writable`, as long as `base` lives.
pub(crate) unsafe fn borrowed<'py>(
    descr: Bound<'py, PyArrayDescr>,
    shape: &[usize],
    strides: &[isize],
    data: *mut u8,
    writable: bool,
    base: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = base.py();
    let mut shape: Vec<npy_intp> = shape.iter().map(|&extent| extent as npy_intp).collect();
    let mut strides: Vec<npy_intp> = strides.iter().map(|&stride| stride as npy_intp).collect();
    let flags = if writable { NPY_ARRAY_WRITEABLE } else { 0 };
    // SAFETY: there are as many strides as dimensions. The functions take over the references to the dtype and the base.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            PyUntypedArray::type_object_raw(py),
            descr.into_ptr().cast(),
            shape.len() as c_int,
            shape.as_mut_ptr(),
            strides.as_mut_ptr(),
            data.cast::<c_void>(),
            flags,
            ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        // NumPy sets the flag of alignment only for memory that it has allocated.
        PY_ARRAY_API.PyArray_UpdateFlags(py, array.as_ptr().cast(), numpy::npyffi::NPY_ARRAY_ALIGNED);
        Ok(array.cast_into()?)
    }
}
