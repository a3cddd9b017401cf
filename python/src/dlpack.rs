//! Imports and exports DLPack tensors.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use lanecast::DType;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyTuple, PyType};

use crate::dtypes::Table;
use crate::packed::Packed;
use crate::view::{View, borrowed};

const OLD: &CStr = c"dltensor";
const OLD_USED: &CStr = c"used_dltensor";
const NEW: &CStr = c"dltensor_versioned";
const NEW_USED: &CStr = c"used_dltensor_versioned";
const EXCHANGE: &CStr = c"dlpack_exchange_api";
const CPU: i32 = 1;
/// Devices whose memory is the host's, pinned for a GPU: those of CUDA and of ROCm.
const PINNED: [i32; 2] = [3, 11];
const READ_ONLY: u64 = 1;
/// The flag for memory that is a copy, which nobody else has.
const COPIED: u64 = 2;
/// The flag for elements of fewer than 8 bits that have a byte each.
const PADDED: u64 = 4;
/// The most dimensions that an array of NumPy has.
const MOST_DIMENSIONS: usize = 64;

#[repr(C)]
#[derive(Clone, Copy)]
struct Tensor {
    data: *mut c_void,
    device: [i32; 2],
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// An imported tensor. Its deleter is called when this is dropped.
#[pyclass(frozen, module = "lanecast._lanecast")]
struct Imported(Which);

enum Which {
    Old(*mut Managed),
    New(*mut Versioned),
}

// SAFETY: any thread may delete a tensor, and after the import the pointers serve nothing else.
unsafe impl Send for Imported {}
// SAFETY: as above. A shared reference does nothing.
unsafe impl Sync for Imported {}

impl Drop for Imported {
    fn drop(&mut self) {
        // Deleters may set or clear an exception, so one that is being raised is kept. Without an interpreter, the memory need not be
        // freed.
        _ = Python::try_attach(|py| {
            let error = PyErr::take(py);
            // SAFETY: the capsule of the tensor was renamed, so nobody else deletes it.
            unsafe {
                match self.0 {
                    Which::Old(tensor) => (*tensor).deleter.into_iter().for_each(|delete| delete(tensor)),
                    Which::New(tensor) => (*tensor).deleter.into_iter().for_each(|delete| delete(tensor)),
                }
            }
            if let Some(error) = error {
                error.restore(py);
            }
        });
    }
}

fn device_name(kind: i32, id: i32) -> String {
    let name = match kind {
        2 => "cuda",
        4 => "opencl",
        7 => "vulkan",
        8 => "metal",
        10 => "rocm",
        13 => "cuda (managed)",
        14 => "oneapi",
        _ => return format!("device {kind}:{id} of DLPack"),
    };
    format!("{name}:{id}")
}

/// What was imported: an array, or packed elements.
pub(crate) enum Handed<'py> {
    Array(Bound<'py, PyUntypedArray>),
    Packed(Packed<'py>),
}

/// The C functions that types have since DLPack 1.3, as far as they are used here.
#[repr(C)]
struct Exchange {
    version: [u32; 2],
    _older: *const Exchange,
    _allocate: *const c_void,
    export: Option<Export>,
}

/// Exports an object, and stores a pointer to the tensor; returns 0, or sets an exception.
type Export = unsafe extern "C" fn(*mut ffi::PyObject, *mut *mut Versioned) -> c_int;

/// The types of torch, once it is imported.
struct Torch {
    tensor: Py<PyType>,
    parameter: Py<PyType>,
    /// Does what `__dlpack__` does without a call in Python, which takes as long as casting some ten thousand elements.
    export: Option<Export>,
}

impl Torch {
    fn get(py: Python<'_>) -> PyResult<Option<&'static Self>> {
        static TORCH: PyOnceLock<Option<Torch>> = PyOnceLock::new();
        if let Some(torch) = TORCH.get(py) {
            return Ok(torch.as_ref());
        }
        // SAFETY: the interpreter has the dictionary of modules, and lends it.
        let modules = unsafe { Bound::from_borrowed_ptr(py, ffi::PyImport_GetModuleDict()) };
        let Some(torch) = modules.cast::<PyDict>()?.get_item(intern!(py, "torch"))? else { return Ok(None) };
        // While torch is being imported, some of it is missing.
        let Some(torch) = Self::of(&torch)? else { return Ok(None) };
        Ok(TORCH.get_or_init(py, || Some(torch)).as_ref())
    }

    fn of(torch: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some(tensor) = torch.getattr_opt("Tensor")? else { return Ok(None) };
        let Some(parameter) = torch.getattr_opt("nn")?.map(|nn| nn.getattr_opt("Parameter")).transpose()?
        else {
            return Ok(None);
        };
        let (Ok(tensor), Some(Ok(parameter))) =
            (tensor.cast_into::<PyType>(), parameter.map(Bound::cast_into::<PyType>))
        else {
            return Ok(None);
        };
        let mut export = None;
        if let Some(capsule) = tensor.getattr_opt("__dlpack_c_exchange_api__")? {
            // SAFETY: a capsule of this name has a pointer to functions that live as long as the process.
            unsafe {
                if ffi::PyCapsule_IsValid(capsule.as_ptr(), EXCHANGE.as_ptr()) == 1 {
                    let found =
                        ffi::PyCapsule_GetPointer(capsule.as_ptr(), EXCHANGE.as_ptr()).cast::<Exchange>();
                    if (*found).version[0] == 1 {
                        export = (*found).export;
                    }
                }
            }
        }
        Ok(Some(Self { tensor: tensor.unbind(), parameter: parameter.unbind(), export }))
    }
}

/// Imports a tensor of torch on the CPU without a call of `__dlpack__` in Python. None if it is something else, a subclass with its own
/// `__dlpack__`, or a tensor that `__dlpack__` refuses.
pub(crate) fn import_tensor<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Handed<'py>>> {
    let py = given.py();
    let Some(torch) = Torch::get(py)? else { return Ok(None) };
    let of = given.get_type();
    let is_plain = of.is(&torch.tensor) || of.is(&torch.parameter);
    if !is_plain && !of.is_subclass(torch.tensor.bind(py))? {
        return Ok(None);
    }
    // torch would export the elements without the pending change of sign.
    if given.call_method0(intern!(py, "is_neg")).is_ok_and(|is_neg| is_neg.is_truthy().unwrap_or(false)) {
        return Err(PyBufferError::new_err(
            "the tensor has its negative bit set, so that its memory holds the opposite values; call resolve_neg() first",
        ));
    }
    let Some(export) = torch.export.filter(|_| is_plain) else { return Ok(None) };
    if given.getattr(intern!(py, "requires_grad"))?.is_truthy()?
        || given.call_method0(intern!(py, "is_conj"))?.is_truthy()?
    {
        return Ok(None);
    }
    let mut tensor = ptr::null_mut();
    // SAFETY: the object has the type whose function this is. The tensor that it makes is ours to delete.
    let done = unsafe { export(given.as_ptr(), &raw mut tensor) };
    if done != 0 || tensor.is_null() {
        // A sparse tensor, or one on the device `meta`: the error of `__dlpack__` says so.
        _ = PyErr::take(py);
        return Ok(None);
    }
    // SAFETY: as above.
    unsafe { own(py, tensor) }.map(Some)
}

/// Imports an object that has `__dlpack__`, without a copy.
pub(crate) fn import<'py>(given: &Bound<'py, PyAny>) -> PyResult<Handed<'py>> {
    let py = given.py();
    if let Some(handed) = import_tensor(given)? {
        return Ok(handed);
    }
    if !given.hasattr("__dlpack__")? {
        let what = given.get_type().qualname()?;
        return Err(PyTypeError::new_err(format!(
            "x is of type {what}; it must be an object with __dlpack__"
        )));
    }
    if given.hasattr("__dlpack_device__")? {
        let device: Bound<'py, PyAny> = given.call_method0("__dlpack_device__")?;
        let read = || -> PyResult<(i32, i32)> {
            let (kind, id) = (device.get_item(0)?, device.get_item(1)?);
            // The kind may be an enumeration.
            Ok((kind.call_method0("__int__")?.extract()?, id.extract()?))
        };
        let Ok((kind, id)) = read() else {
            return Err(PyBufferError::new_err(format!(
                "__dlpack_device__ returned {}; it must return the type of a device and its number, as two integers",
                device.repr()?
            )));
        };
        on_cpu(kind, id)?;
    }
    let version = PyDict::new(py);
    version.set_item("max_version", (1, 1))?;
    // A capsule without a version does not say whether it may be written. It is taken for read-only, as NumPy does, except from torch,
    // whose older versions give no other capsules and nothing that is read-only.
    let module = given.get_type().module()?;
    let unsaid = if module.to_str()?.split('.').next() == Some("torch") { 0 } else { READ_ONLY };
    let capsule = match given.call_method("__dlpack__", (), Some(&version)) {
        // It does not know the argument. An exception of a class derived from TypeError says something else.
        Err(error) if error.get_type(py).is(py.get_type::<PyTypeError>()) => {
            given.call_method0("__dlpack__")?
        }
        other => other?,
    };
    let capsule = capsule.cast_into::<PyCapsule>().map_err(|_| {
        PyBufferError::new_err("__dlpack__ returned something other than a capsule with a DLPack tensor")
    })?;
    take(&capsule, unsaid)
}

fn on_cpu(kind: i32, id: i32) -> PyResult<()> {
    if kind == CPU || PINNED.contains(&kind) {
        return Ok(());
    }
    let device = device_name(kind, id);
    Err(PyBufferError::new_err(format!(
        "the tensor is on {device}; lanecast casts in CPU memory, so copy it there first (with .cpu() in torch)"
    )))
}

/// Imports the tensor in a capsule. `unsaid` are the flags of a tensor that has none.
fn take<'py>(capsule: &Bound<'py, PyCapsule>, unsaid: u64) -> PyResult<Handed<'py>> {
    let py = capsule.py();
    let raw = capsule.as_ptr();
    // SAFETY: a capsule of this name has a pointer to this struct. Once the capsule is renamed, `Imported` deletes the tensor, and the
    // capsule does not.
    unsafe {
        if ffi::PyCapsule_IsValid(raw, NEW.as_ptr()) == 1 {
            let tensor = ffi::PyCapsule_GetPointer(raw, NEW.as_ptr()).cast::<Versioned>();
            if ffi::PyCapsule_SetName(raw, NEW_USED.as_ptr()) != 0 {
                return Err(PyErr::fetch(py));
            }
            own(py, tensor)
        } else if ffi::PyCapsule_IsValid(raw, OLD.as_ptr()) == 1 {
            let tensor = ffi::PyCapsule_GetPointer(raw, OLD.as_ptr()).cast::<Managed>();
            if ffi::PyCapsule_SetName(raw, OLD_USED.as_ptr()) != 0 {
                return Err(PyErr::fetch(py));
            }
            let known = (*tensor).tensor;
            hand_over(py, Imported(Which::Old(tensor)), &known, unsaid)
        } else {
            Err(PyBufferError::new_err(
                "the capsule of __dlpack__ holds no DLPack tensor, or one that was consumed before: its name is neither \
                 'dltensor' nor 'dltensor_versioned'",
            ))
        }
    }
}

/// Imports a tensor.
///
/// # Safety
/// The pointer is to a tensor that nobody else deletes.
unsafe fn own<'py>(py: Python<'py>, tensor: *mut Versioned) -> PyResult<Handed<'py>> {
    let imported = Imported(Which::New(tensor));
    // SAFETY: the version of any tensor can be read, and the rest if the major version is 1.
    let (major, known) = unsafe {
        let major = (*tensor).version[0];
        (major, (major == 1).then(|| ((*tensor).tensor, (*tensor).flags)))
    };
    let Some((tensor, flags)) = known else {
        return Err(PyBufferError::new_err(format!(
            "the tensor has version {major} of DLPack; lanecast reads version 1, and tensors without a version"
        )));
    };
    hand_over(py, imported, &tensor, flags)
}

/// The layout of the elements of a tensor.
struct Layout {
    shape: Vec<usize>,
    /// In bytes or, for packed elements, in units of the tensor.
    strides: Vec<isize>,
    elements: i128,
}

/// Reads and checks the shape and the strides of a tensor. DLPack's strides count elements.
fn layout(tensor: &Tensor, itemsize: usize) -> PyResult<Layout> {
    let refuse = |message: String| Err(PyBufferError::new_err(message));
    let ndim = usize::try_from(tensor.ndim).ok().filter(|&ndim| ndim <= MOST_DIMENSIONS);
    let Some(ndim) = ndim else {
        return refuse(format!(
            "the tensor has {} dimensions; lanecast reads 0 to {MOST_DIMENSIONS}",
            tensor.ndim
        ));
    };
    if ndim > 0 && tensor.shape.is_null() {
        return refuse("the tensor has dimensions, but its shape is NULL".to_owned());
    }
    let size = itemsize as i128;
    let mut shape = Vec::with_capacity(ndim);
    let mut strides = vec![0isize; ndim];
    for i in 0..ndim {
        // SAFETY: the shape has `ndim` lengths.
        let extent = unsafe { *tensor.shape.add(i) };
        let Ok(extent) = usize::try_from(extent) else {
            return refuse(format!(
                "dimension {i} of the tensor has {extent} elements; it must have 0 or more"
            ));
        };
        shape.push(extent);
    }
    // The elements must be within the address space, or offsets that NumPy computes would overflow.
    let mut elements: i128 = 1;
    let (mut span, mut dense): (i128, i128) = (size, size);
    for i in (0..ndim).rev() {
        let stride = match tensor.strides.is_null() {
            true => dense,
            // SAFETY: there are `ndim` strides.
            false => i128::from(unsafe { *tensor.strides.add(i) }) * size,
        };
        let extent = shape[i] as i128;
        elements = elements.saturating_mul(extent);
        dense = dense.saturating_mul(extent.max(1));
        span = span.saturating_add((extent - 1).max(0).saturating_mul(stride.abs()));
        match isize::try_from(stride) {
            Ok(stride) => strides[i] = stride,
            Err(_) => {
                return refuse(format!(
                    "dimension {i} of the tensor has a stride of {stride} bytes, which leads out of the address space"
                ));
            }
        }
    }
    if elements > 0 && (span.max(dense) > isize::MAX as i128 || tensor.data.is_null()) {
        return refuse("the tensor is not in memory: its data is NULL, or its shape and strides lead out of the address space".to_owned());
    }
    Ok(Layout { shape, strides, elements })
}

fn hand_over<'py>(py: Python<'py>, imported: Imported, tensor: &Tensor, flags: u64) -> PyResult<Handed<'py>> {
    on_cpu(tensor.device[0], tensor.device[1])?;
    let refuse = |message: String| Err(PyBufferError::new_err(message));
    let Some(dtype) = DType::from_dlpack(tensor.code, tensor.bits, 1) else {
        let (code, bits) = (tensor.code, tensor.bits);
        return refuse(format!(
            "the tensor has the DLPack type of code {code} and {bits} bits, which lanecast does not cast"
        ));
    };
    let is_packed = dtype.is_packed() && flags & PADDED == 0;
    // Lanes that together are one byte, as in torch's float4_e2m1fn_x2, are packed elements.
    let lanes = usize::from(tensor.lanes);
    let are_bytes = is_packed && lanes * usize::from(tensor.bits) == 8 && tensor.ndim > 0;
    if lanes != 1 && !are_bytes {
        return refuse(format!(
            "the tensor has {lanes} lanes; it must have one, or as many as are packed into one byte"
        ));
    }
    let Layout { mut shape, strides, elements } = layout(tensor, dtype.itemsize())?;
    // From here on, the deleter is called when `base` is freed.
    let base = Bound::new(py, imported)?.into_any();
    let data = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
    let writable = flags & READ_ONLY == 0;
    if !is_packed {
        let descr = Table::get(py)?.descr(py, dtype)?;
        // SAFETY: the producer's promise, as long as the tensor is not deleted. The memory is the host's.
        return unsafe { borrowed(descr, &shape, &strides, data, writable, base) }.map(Handed::Array);
    }
    let mut dense = 1;
    for (&extent, &stride) in shape.iter().zip(&strides).rev() {
        if extent > 1 && stride != dense && elements > 0 {
            return refuse(format!(
                "the tensor holds packed {dtype} with strides; packed elements must be contiguous (call contiguous() first)"
            ));
        }
        dense *= extent as isize;
    }
    if let Some(last) = shape.last_mut() {
        // Saturates only if there are no elements.
        *last = last.saturating_mul(lanes);
    }
    let bits = elements.saturating_mul(i128::from(tensor.lanes)).saturating_mul(i128::from(dtype.bits()));
    let bytes = usize::try_from((bits + 7) / 8).unwrap_or(usize::MAX);
    // SAFETY: as above. Packed elements without gaps have that many bytes.
    let data =
        unsafe { borrowed(Table::get(py)?.descr(py, DType::U8)?, &[bytes], &[1], data, writable, base)? };
    let packed = Packed { data: View::new(&data)?, dtype, shape, high_first: false };
    Ok(Handed::Packed(packed.checked()?))
}

/// What an exported tensor refers to.
struct Exported {
    _owner: Py<PyAny>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// Exports an array in a capsule. Of packed elements, `array` is the bytes, and `packed` the dtype and shape.
#[pyfunction]
#[pyo3(signature = (array, versioned, copied, packed=None))]
pub(crate) fn dlpack_capsule<'py>(
    array: &Bound<'py, PyUntypedArray>,
    versioned: bool,
    copied: bool,
    packed: Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let view = View::new(array)?;
    // SAFETY: it is an array.
    let writable = unsafe { (*array.as_array_ptr()).fields.flags } & numpy::npyffi::NPY_ARRAY_WRITEABLE != 0;
    if view.of.swapped {
        return Err(PyBufferError::new_err(
            "the array is not in the byte order of the machine, which DLPack needs; pass a.astype(a.dtype.newbyteorder('='))",
        ));
    }
    let mut flags = if writable { 0 } else { READ_ONLY };
    let mut pairs = 1;
    let (dtype, shape, strides) = match packed {
        Some((dtype, shape)) => {
            // The attributes may have been changed since the PackedArray was made, so they are checked again.
            let Packed { dtype, shape, .. } = Packed::of(View::new(array)?, &dtype, &shape, false)?;
            let mut shape: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
            // float4 is exported as bytes of two lanes, which is how torch imports packed elements.
            if let (DType::F4E2M1, Some(last)) = (dtype, shape.last_mut())
                && *last % 2 == 0
            {
                (*last, pairs) = (*last / 2, 2);
            }
            let mut strides = vec![1i64; shape.len()];
            for i in (1..shape.len()).rev() {
                strides[i - 1] = strides[i] * shape[i].max(1);
            }
            (dtype, shape, strides)
        }
        None => {
            let size = view.itemsize() as isize;
            // Where there is nothing to step to, strides may be anything.
            let steps = |&(extent, _): &(&usize, &isize)| *extent > 1;
            let is_empty = view.shape.contains(&0);
            let mut steps = view.shape.iter().zip(&view.strides).filter(steps);
            if !is_empty && steps.any(|(_, stride)| stride % size != 0) {
                return Err(PyBufferError::new_err(
                    "the strides are not multiples of the element size, which DLPack needs; pass a copy (a.copy())",
                ));
            }
            if view.of.dtype.is_packed() {
                flags |= PADDED;
            }
            let shape = view.shape.iter().map(|&extent| extent as i64).collect();
            (view.of.dtype, shape, view.strides.iter().map(|&stride| (stride / size) as i64).collect())
        }
    };
    if !versioned && flags != 0 {
        let what = if flags & READ_ONLY != 0 {
            "a read-only array"
        } else {
            "an array with one element of fewer than 8 bits per byte"
        };
        return Err(PyBufferError::new_err(format!(
            "{what} needs DLPack 1.0, but the consumer did not ask for it with max_version"
        )));
    }
    let Some((code, bits, lanes)) = dtype.to_dlpack() else {
        return Err(PyBufferError::new_err(format!("DLPack has no {dtype}")));
    };
    let mut owned = Box::new(Exported { _owner: array.clone().into_any().unbind(), shape, strides });
    let tensor = Tensor {
        data: view.data.cast(),
        device: [CPU, 0],
        ndim: owned.shape.len() as i32,
        code,
        bits,
        lanes: lanes * pairs,
        shape: owned.shape.as_mut_ptr(),
        strides: owned.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let flags = if copied { flags | COPIED } else { flags };
    capsule(py, tensor, owned, versioned.then_some(flags))
}

/// Makes the capsule of a tensor, which owns what the tensor refers to: with a version and flags, or without, as before DLPack 1.0.
fn capsule(
    py: Python<'_>,
    tensor: Tensor,
    owned: Box<Exported>,
    flags: Option<u64>,
) -> PyResult<Bound<'_, PyAny>> {
    let context = Box::into_raw(owned).cast();
    // SAFETY: the pointers are to boxes that only the deleter frees, which is called once: by the consumer, or by the capsule.
    unsafe {
        let capsule = if let Some(flags) = flags {
            let made = Versioned { version: [1, 1], context, deleter: Some(delete_new), flags, tensor };
            ffi::PyCapsule_New(Box::into_raw(Box::new(made)).cast(), NEW.as_ptr(), Some(drop_new))
        } else {
            let made = Managed { tensor, context, deleter: Some(delete_old) };
            ffi::PyCapsule_New(Box::into_raw(Box::new(made)).cast(), OLD.as_ptr(), Some(drop_old))
        };
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

unsafe extern "C" fn delete_new(tensor: *mut Versioned) {
    // SAFETY: `capsule` has made both boxes, and a tensor is deleted once.
    unsafe {
        let tensor = Box::from_raw(tensor);
        let owned = Box::from_raw(tensor.context.cast::<Exported>());
        _ = Python::try_attach(|_| drop(owned));
    }
}

unsafe extern "C" fn delete_old(tensor: *mut Managed) {
    // SAFETY: as `delete_new`.
    unsafe {
        let tensor = Box::from_raw(tensor);
        let owned = Box::from_raw(tensor.context.cast::<Exported>());
        _ = Python::try_attach(|_| drop(owned));
    }
}

unsafe extern "C" fn drop_new(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that still has this name has the tensor that `capsule` made.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NEW.as_ptr()) == 1 {
            delete_new(ffi::PyCapsule_GetPointer(capsule, NEW.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn drop_old(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that still has this name has the tensor that `capsule` made.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, OLD.as_ptr()) == 1 {
            delete_old(ffi::PyCapsule_GetPointer(capsule, OLD.as_ptr()).cast());
        }
    }
}

/// Imports an object that has `__dlpack__` as an array; or packed elements as bytes, dtype and shape.
#[pyfunction]
pub(crate) fn from_dlpack<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match import(x)? {
        Handed::Array(array) => Ok(array.into_any()),
        Handed::Packed(packed) => {
            let shape = PyTuple::new(x.py(), &packed.shape)?;
            Ok((packed.data.array, packed.dtype.name(), shape).into_pyobject(x.py())?.into_any())
        }
    }
}
