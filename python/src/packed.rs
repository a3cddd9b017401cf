//! Packed elements, which casts read as they read arrays.

use core::ffi::c_int;

use lanecast::{ByteOrder, Caster, DType, Packing};
use numpy::npyffi::{PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::cast::{count, failed, tuple};
use crate::dlpack::Handed;
use crate::dtypes::{Ordered, Table, meant};
use crate::view::{View, laid_out, order, to_array};

/// Packed elements, and the array of their bytes.
pub(crate) struct Packed<'py> {
    /// The contiguous bytes (uint8).
    pub(crate) data: View<'py>,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) high_first: bool,
}

impl<'py> Packed<'py> {
    /// Reads a `lanecast.PackedArray`, whose attributes may have been changed since it was made.
    pub(crate) fn new(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        let data = View::read(&given.getattr("data")?)?;
        let high_first = given.getattr("high_first")?.is_truthy()?;
        Self::of(data, &given.getattr("dtype")?, &given.getattr("shape")?, high_first)
    }

    /// Makes packed elements of a dtype and shape from these bytes.
    pub(crate) fn of(
        data: View<'py>,
        dtype: &Bound<'py, PyAny>,
        shape: &Bound<'py, PyAny>,
        high_first: bool,
    ) -> PyResult<Self> {
        let dtype = meant(dtype)?;
        let Ok(shape) = shape.extract::<Vec<usize>>() else {
            let given = shape.repr()?;
            return Err(PyValueError::new_err(format!(
                "shape is {given}; it must be a sequence of integers that are not negative"
            )));
        };
        Self { data, dtype, shape, high_first }.checked()
    }

    /// Checks that there are as many bytes as the shape needs.
    pub(crate) fn checked(self) -> PyResult<Self> {
        if self.data.of != Ordered::native(DType::U8) || !self.data.is_contiguous() {
            return Err(PyValueError::new_err("data of packed elements must be contiguous bytes (uint8)"));
        }
        if !self.dtype.is_packed() {
            return Err(PyValueError::new_err(format!(
                "{} has {} bits; only dtypes of fewer than 8 bits can be packed",
                self.dtype,
                self.dtype.bits()
            )));
        }
        let n = self.shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        let needed = n.and_then(|n| self.dtype.byte_len(n, self.packing()));
        if needed != Some(self.data.len()) {
            let needed = needed.map_or("more than there can be".to_owned(), |needed| needed.to_string());
            return Err(PyValueError::new_err(format!(
                "data has {}; shape {} of {} needs {needed}",
                count(self.data.len(), "byte"),
                tuple(&self.shape),
                self.dtype
            )));
        }
        Ok(self)
    }

    pub(crate) fn packing(&self) -> Packing {
        if self.high_first { Packing::HighFirst } else { Packing::LowFirst }
    }

    /// Makes a new array of the same shape.
    pub(crate) fn like(&self, descr: &Bound<'py, PyArrayDescr>) -> PyResult<View<'py>> {
        empty(&self.shape, descr)
    }

    /// Unpacks the elements to a new array.
    pub(crate) fn unpack(&self) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = self.data.array.py();
        let dst = self.like(&Table::get(py)?.descr(py, self.dtype)?)?;
        let options =
            laid_out(&lanecast::CastOptions::new(), self.data.of, dst.of).src_packing(self.packing());
        let caster = Caster::new(self.dtype, self.dtype, &options).map_err(failed)?;
        // SAFETY: the destination is a new array.
        caster.cast(self.data.bytes(), unsafe { dst.bytes_mut() }, dst.len()).map_err(failed)?;
        Ok(dst.array)
    }
}

/// Makes a new array in C order.
pub(crate) fn empty<'py>(shape: &[usize], descr: &Bound<'py, PyArrayDescr>) -> PyResult<View<'py>> {
    let py = descr.py();
    let lengths: Result<Vec<npy_intp>, _> = shape.iter().map(|&extent| npy_intp::try_from(extent)).collect();
    let Ok(mut lengths) = lengths else {
        return Err(PyValueError::new_err(format!("shape {} is too large", tuple(shape))));
    };
    // SAFETY: there are as many lengths as dimensions. The function takes over the reference to the dtype, and returns a new one to an
    // array.
    let array = unsafe {
        let descr = descr.clone().into_ptr().cast();
        let array = PY_ARRAY_API.PyArray_Empty(py, lengths.len() as c_int, lengths.as_mut_ptr(), descr, 0);
        Bound::from_owned_ptr_or_err(py, array)?
    };
    View::new(array.cast()?)
}

/// The source of a cast: an array, or packed elements.
pub(crate) enum Source<'py> {
    Array(View<'py>),
    Packed(Packed<'py>),
}

impl<'py> Source<'py> {
    /// Reads a `PackedArray`, a DLPack object, or anything else that can be read as an array.
    pub(crate) fn read(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(match to_array(given)? {
            Handed::Array(array) => Self::Array(View::new(&array)?),
            Handed::Packed(packed) => Self::Packed(packed),
        })
    }

    /// Returns the same elements contiguous, in C order: a copy, if they are not.
    pub(crate) fn contiguous(self) -> PyResult<Self> {
        Ok(match self {
            Self::Array(view) => Self::Array(view.contiguous()?),
            packed => packed,
        })
    }

    /// Returns the elements as an array. Packed elements are unpacked.
    pub(crate) fn into_view(self) -> PyResult<View<'py>> {
        match self {
            Self::Array(view) => Ok(view),
            Self::Packed(packed) => View::new(&packed.unpack()?),
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::Array(view) => view.of.dtype,
            Self::Packed(packed) => packed.dtype,
        }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Self::Array(view) => &view.shape,
            Self::Packed(packed) => &packed.shape,
        }
    }

    pub(crate) fn layout(&self) -> (Packing, ByteOrder) {
        match self {
            Self::Array(view) => (Packing::OnePerByte, order(view.of)),
            Self::Packed(packed) => (packed.packing(), ByteOrder::Native),
        }
    }

    /// Returns the bytes of contiguous elements.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Array(view) => view.bytes(),
            Self::Packed(packed) => packed.data.bytes(),
        }
    }
}

/// Whether an object is a `lanecast.PackedArray`.
pub(crate) fn is_packed_array(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    given.is_instance(CLASS.import(given.py(), "lanecast", "PackedArray")?)
}
