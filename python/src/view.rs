//! Arrays, and what can be read or written as one.

use core::ffi::{c_int, c_void};
use core::ptr;

use lanecast::{ByteOrder, CastOptions, Packing};
use numpy::npyffi::{NPY_ARRAY_WRITEABLE, NPY_ORDER, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyMemoryView};

use crate::dlpack::{self, Handed};
use crate::dtypes::{Ordered, Table, refused_array};
use crate::packed::{self, Packed};

/// The elements of an array, which lives as long as the view does.
pub(crate) struct View<'py> {
    pub(crate) array: Bound<'py, PyUntypedArray>,
    pub(crate) data: *mut u8,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<isize>,
    pub(crate) of: Ordered,
}

impl<'py> View<'py> {
    /// Of an array of one of our dtypes.
    pub(crate) fn new(array: &Bound<'py, PyUntypedArray>) -> PyResult<Self> {
        let descr = array.dtype();
        let Some(of) = Table::get(array.py())?.ordered(&descr) else {
            return Err(refused_array(&descr));
        };
        // SAFETY: it is an array.
        let data = unsafe { (*array.as_array_ptr()).fields.data }.cast();
        let (shape, strides) = (array.shape().to_vec(), array.strides().to_vec());
        Ok(Self { array: array.clone(), data, shape, strides, of })
    }

    /// Of what can be read as an array. What is packed is unpacked first.
    pub(crate) fn read(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        match to_array(given)? {
            Handed::Array(array) => Self::new(&array),
            Handed::Packed(packed) => Self::new(&packed.unpack()?),
        }
    }

    /// Of what can be written as one.
    pub(crate) fn write(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        let array = if let Ok(array) = given.cast::<PyUntypedArray>() {
            array.clone()
        } else if given.hasattr("__dlpack__")? {
            match dlpack::import(given)? {
                Handed::Array(array) => array,
                Handed::Packed(packed) => {
                    return Err(PyValueError::new_err(format!(
                        "out holds {} packed; it must have one element per byte",
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

    /// A new array of this shape; `order` as NumPy has it.
    pub(crate) fn like(&self, descr: &Bound<'py, PyArrayDescr>, order: NPY_ORDER) -> PyResult<Self> {
        let py = self.array.py();
        // SAFETY: the API takes the reference to the dtype that it is given, and returns a new one to an array.
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

    /// The bytes of elements that lie behind each other.
    pub(crate) fn bytes(&self) -> &[u8] {
        debug_assert!(self.is_contiguous() || self.len() == 0);
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: a contiguous array, which the view keeps. Python code that writes to it at the same time races, as with
        // NumPy.
        unsafe { core::slice::from_raw_parts(self.data, self.len() * self.itemsize()) }
    }

    /// The same, to be written.
    ///
    /// # Safety
    /// They lie behind each other, and nobody else has them: the array is new.
    #[expect(clippy::mut_from_ref, reason = "the memory is not that of the view")]
    pub(crate) unsafe fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: the caller's promise; of an array of no elements nothing is read or written, whatever its pointer is.
        unsafe { core::slice::from_raw_parts_mut(self.data, self.len() * self.itemsize()) }
    }

    /// Do the elements lie behind each other in C order?
    pub(crate) fn is_contiguous(&self) -> bool {
        self.array.is_c_contiguous()
    }

    /// The first byte of the elements, and the one behind the last.
    pub(crate) fn reach(&self) -> (usize, usize) {
        let (mut first, mut end) = (0, self.itemsize() as isize);
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let way = (extent as isize - 1) * stride;
            if way < 0 { first += way } else { end += way }
        }
        let at = |offset: isize| self.data.addr().wrapping_add_signed(offset);
        if self.len() == 0 { (0, 0) } else { (at(first), at(end)) }
    }

    /// An array of the same elements in C order: this one, if it is.
    pub(crate) fn contiguous(self) -> PyResult<Self> {
        if self.is_contiguous() {
            return Ok(self);
        }
        self.copy(NPY_ORDER::NPY_CORDER)
    }

    /// A copy.
    pub(crate) fn copy(&self, order: NPY_ORDER) -> PyResult<Self> {
        let py = self.array.py();
        // SAFETY: it is an array; what comes back is a new reference to one.
        let copy = unsafe {
            let copy = PY_ARRAY_API.PyArray_NewCopy(py, self.array.as_array_ptr(), order);
            Bound::from_owned_ptr_or_err(py, copy)?
        };
        Self::new(copy.cast()?)
    }
}

/// The options for arrays of these dtypes.
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

/// What can be read as an array: one itself, a `PackedArray`, what DLPack or a buffer hands over, nested lists and numbers.
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
    // Numbers of NumPy have buffers too, of which they say nothing for the dtypes of ml_dtypes.
    let is_scalar = given.is_instance(&py.import("numpy")?.getattr("generic")?)?;
    if !is_scalar && given.hasattr("__dlpack__")? {
        return dlpack::import(given);
    }
    Ok(Handed::Array(as_array(given)?))
}

fn as_array<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let array = given.py().import("numpy")?.call_method1("asarray", (given,))?;
    let array: Bound<'py, PyUntypedArray> = array.cast_into()?;
    // NumPy makes an element of whatever it does not know.
    if array.ndim() == 0 && array.dtype().kind() == b'O' {
        if given.is_instance_of::<PyInt>() {
            return Err(PyTypeError::new_err(
                "an int of more than 64 bits: no dtype holds it; float(x) does, rounded",
            ));
        }
        let what = given.get_type().qualname()?;
        return Err(PyTypeError::new_err(format!(
            "a {what} is no array; needed is an ndarray, a number, a nested list of them, a buffer or a DLPack object"
        )));
    }
    Ok(array)
}

/// An array of memory of somebody else, which `base` keeps.
///
/// # Safety
/// The elements that shape and strides lead to are readable, and writable if it says so, as long as `base` lives.
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
    // SAFETY: as many strides as dimensions. The dtype and the base are references that the API takes.
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
        // NumPy looks for the alignment only when it allocates.
        PY_ARRAY_API.PyArray_UpdateFlags(py, array.as_ptr().cast(), numpy::npyffi::NPY_ARRAY_ALIGNED);
        Ok(array.cast_into()?)
    }
}
