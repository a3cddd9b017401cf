//! Casts under scales: quantize, dequantize, requantize.

#![expect(clippy::result_large_err, reason = "the errors of the crate name whole shapes")]

use lanecast::parallel::Parallel;
use lanecast::scaled::{
    Dequantizer, Error, NonFinite, Profile, Quantizer, Requantizer, ScaleLayout, ScaleRule, Scaling,
    TensorScale,
};
use lanecast::{ByteOrder, CastOptions, DType, Packing};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::cast::{How, count, failed, read_progress, read_threads, tuple, wanted_out, watched};
use crate::dtypes::{self, Table, meant, meant_ordered};
use crate::options::{self, choose, named, roundings};
use crate::packed::{Source, empty};
use crate::view::{self, View};

fn wrong(error: Error) -> PyErr {
    match error {
        Error::Cast(error) => failed(error),
        Error::TensorScale { value } => {
            PyValueError::new_err(format!("tensor_scale is {value}; it must be finite and positive"))
        }
        Error::Pair { .. } | Error::ScaleDType { .. } | Error::Profile { .. } => {
            PyTypeError::new_err(error.to_string())
        }
        error => PyValueError::new_err(error.to_string()),
    }
}

/// Reads the dtype of codes, which must be in the machine's byte order.
fn native(dtype: &Bound<'_, PyAny>) -> PyResult<DType> {
    let of = meant_ordered(dtype)?;
    if of.swapped {
        let text =
            format!("dtype is {}; codes must have the machine's byte order: '{}'", dtype.str()?, of.dtype);
        return Err(PyTypeError::new_err(text));
    }
    Ok(of.dtype)
}

/// Reads a `lanecast.Scaling`, for data with a number of dimensions.
fn read(given: &Bound<'_, PyAny>, dims: usize) -> PyResult<Scaling> {
    let py = given.py();
    macro_rules! field {
        ($name:literal) => {
            given.getattr(intern!(py, $name))
        };
    }
    let scale = meant(&field!("scale_dtype")?)?;
    let axis = field!("axis")?;
    let axis = if axis.is_none() { None } else { Some(read_axis(&axis, dims)?) };
    let lengths = field!("block")?.extract::<Option<Vec<usize>>>()?;
    let scaling = match (axis, lengths.as_deref()) {
        (None, None) => Scaling::per_tensor(scale),
        (None, Some(lengths)) => Scaling::blocks(lengths, scale),
        (Some(axis), None) => Scaling::per_axis(axis).scale(scale),
        (Some(axis), Some([length])) => Scaling::along_axis(axis, *length, scale),
        (Some(_), Some(lengths)) => {
            return Err(PyValueError::new_err(format!(
                "block is {lengths:?}; with an axis it must be one length"
            )));
        }
    };
    let rule = field!("rule")?;
    let scaling = if rule.is_none() {
        scaling
    } else {
        scaling.rule(choose("rule", &rule, &named(ScaleRule::ALL, ScaleRule::name), &[])?)
    };
    let precision = field!("precision")?;
    let scaling = if precision.is_none() { scaling } else { scaling.precision(meant(&precision)?) };
    Ok(scaling
        .tensor_scale(read_tensor_scale(given)?)
        .nonfinite(choose("nonfinite", &field!("nonfinite")?, &named(NonFinite::ALL, NonFinite::name), &[])?)
        .profile(choose("profile", &field!("profile")?, &named(Profile::ALL, Profile::name), &[])?)
        .layout(choose("layout", &field!("layout")?, &named(ScaleLayout::ALL, ScaleLayout::name), &[])?)
        .int_rounding(choose("int_rounding", &field!("int_rounding")?, &roundings(), &[])?))
}

/// Reads the number of a dimension, which is counted from the last one if it is negative.
fn read_axis(given: &Bound<'_, PyAny>, dims: usize) -> PyResult<usize> {
    let all = dims as isize;
    // An integer that is too large for this type is no dimension.
    match given.extract::<isize>() {
        Ok(axis) if (-all..all).contains(&axis) => Ok(axis.rem_euclid(all) as usize),
        _ => {
            let needed = if dims == 0 {
                String::new()
            } else {
                format!(", so it must be from -{dims} to {}", dims - 1)
            };
            let message =
                format!("axis is {}; the data have {}{needed}", given.repr()?, count(dims, "dimension"));
            Err(PyValueError::new_err(message))
        }
    }
}

fn read_tensor_scale(scaling: &Bound<'_, PyAny>) -> PyResult<TensorScale> {
    let value = scaling.getattr(intern!(scaling.py(), "tensor_scale"))?;
    if value.is_none() {
        return Ok(TensorScale::None);
    }
    let divides = scaling.getattr("tensor_scale_divides")?.extract::<bool>()?;
    if value.extract::<String>().is_ok_and(|text| text == "compute") {
        return Ok(if divides { TensorScale::ComputeDivide } else { TensorScale::ComputeMultiply });
    }
    let Ok(number) = value.extract::<f64>() else {
        let value = value.repr()?;
        return Err(PyValueError::new_err(format!(
            "tensor_scale is {value}; it must be a number, 'compute' or None"
        )));
    };
    let value = number as f32;
    if (value == 0.0) != (number == 0.0) || value.is_finite() != number.is_finite() {
        return Err(PyValueError::new_err(format!(
            "tensor_scale is {number:e}, which is 0 or infinite as a float32"
        )));
    }
    Ok(if divides { TensorScale::Divide(value) } else { TensorScale::Multiply(value) })
}

/// The shape of the scales, and that of their buffer. Users see scales in the first; those in tiles are shown as they are in the buffer.
struct Shown {
    scale_shape: Vec<usize>,
    buffer: Vec<usize>,
    layout: ScaleLayout,
}

impl Shown {
    fn new(scaling: &Scaling, shape: &[usize]) -> PyResult<Self> {
        let scale_shape = scaling.scale_shape(shape).map_err(wrong)?;
        let buffer = match scaling.layout {
            ScaleLayout::RowMajor => scale_shape.clone(),
            ScaleLayout::ColumnMajor => {
                let mut turned = scale_shape.clone();
                turned.rotate_right(1.min(scale_shape.len()));
                turned
            }
            // Tiles are shown as they are in the buffer.
            _ => vec![scaling.scale_bytes(shape).map_err(wrong)?],
        };
        Ok(Self { scale_shape, buffer, layout: scaling.layout })
    }

    /// Returns the array that users see: in the shape of the scales, whatever their order in the buffer.
    fn show<'py>(&self, buffer: &View<'py>) -> PyResult<Bound<'py, PyAny>> {
        let array = buffer.array.as_any();
        match self.layout {
            ScaleLayout::ColumnMajor if self.scale_shape.len() > 1 => {
                array.py().import("numpy")?.call_method1("moveaxis", (array, 0, -1))
            }
            _ => Ok(array.clone()),
        }
    }

    /// Reads given scales or zero points, and brings them to the order that is needed. Dimensions of length 1 may be left out; with as many
    /// dimensions as needed, all must agree.
    fn read<'py>(
        &self,
        what: &str,
        given: &Bound<'py, PyAny>,
        dtype: DType,
        shape: &[usize],
        (layout, order): (ScaleLayout, ByteOrder),
    ) -> PyResult<Source<'py>> {
        let source = Source::read(given)?;
        let has = source.dtype();
        if has != dtype {
            // Checkpoints store such scales as bytes if they have no dtype for them.
            let are_bytes = has == DType::U8 && dtype.bits() == 8 && dtype.float_format().is_some();
            let help = if are_bytes {
                // `view` of torch does not take strings.
                let is_tensor = given.get_type().module()?.to_string().starts_with("torch");
                let named = if is_tensor { format!("torch.{dtype}") } else { format!("'{dtype}'") };
                format!("; if they are its codes, pass {what}.view({named})")
            } else {
                String::new()
            };
            return Err(PyTypeError::new_err(format!("{what} have dtype {has}; it must be {dtype}{help}")));
        }
        let needed = if layout == ScaleLayout::Swizzle32x4x4 { &self.buffer } else { &self.scale_shape };
        let real = |shape: &[usize]| shape.iter().copied().filter(|&extent| extent != 1).collect::<Vec<_>>();
        let (has, as_many) = (source.shape(), source.shape().len() == needed.len());
        if real(has) != real(needed) || as_many && has != needed.as_slice() {
            return Err(PyValueError::new_err(format!(
                "{what} have shape {}; it must be {} for data of shape {}",
                tuple(source.shape()),
                tuple(needed),
                tuple(shape)
            )));
        }
        let source = match source {
            Source::Array(view) if layout == ScaleLayout::ColumnMajor && self.scale_shape.len() > 1 => {
                let numpy = given.py().import("numpy")?;
                let full =
                    view.array.as_any().call_method1("reshape", (PyTuple::new(given.py(), needed)?,))?;
                let turned = numpy.call_method1("moveaxis", (full, -1, 0))?;
                Source::Array(View::read(&turned)?)
            }
            source => source,
        };
        // Scales must have the byte order of the elements.
        match source {
            Source::Array(view) if view::order(view.of) != order && view.of.dtype.part().bits() > 8 => {
                let descr = view.array.as_any().getattr("dtype")?.call_method0("newbyteorder")?;
                let native = view.array.as_any().call_method1("astype", (descr,))?;
                Source::Array(View::read(&native)?)
            }
            source => source,
        }
        .contiguous()
    }

    /// Reads the given scales and zero points of elements.
    fn given<'py>(
        &self,
        scaling: &Scaling,
        scales: &Bound<'py, PyAny>,
        zero_points: Option<&Bound<'py, PyAny>>,
        shape: &[usize],
        (dtype, packing, order): (DType, Packing, ByteOrder),
    ) -> PyResult<(Source<'py>, Option<Source<'py>>)> {
        let scales = self.read("scales", scales, scaling.scale_dtype, shape, (scaling.layout, order))?;
        let Some(zeros) = zero_points else { return Ok((scales, None)) };
        let may_have = dtype.float_format().is_none() || scaling.profile == Profile::Onnx && dtype.bits() < 8;
        if !may_have {
            return Err(PyValueError::new_err(format!(
                "zero_points are for integers; elements of {dtype} have no zero points, so leave them out"
            )));
        }
        let zeros = self.read("zero_points", zeros, dtype, shape, (ScaleLayout::RowMajor, order))?;
        if zeros.layout().0 != packing {
            return Err(PyValueError::new_err(match packing {
                Packing::OnePerByte => {
                    "zero_points are packed; they must have one element per byte, as the elements do"
                }
                Packing::LowFirst => {
                    "zero_points must be packed, as the elements are: lanecast.pack(zero_points)"
                }
                Packing::HighFirst => {
                    "zero_points must be packed, as the elements are: lanecast.pack(zero_points, high_first=True)"
                }
            }));
        }
        Ok((scales, Some(zeros)))
    }
}

/// Makes a new buffer for elements, one per byte or packed.
fn codes_buffer<'py>(
    py: Python<'py>,
    dtype: DType,
    packing: Packing,
    shape: &[usize],
) -> PyResult<View<'py>> {
    match packing {
        Packing::OnePerByte => empty(shape, &Table::get(py)?.descr(py, dtype)?),
        _ => {
            let n = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
            let bytes = n.and_then(|n| dtype.byte_len(n, packing));
            let bytes =
                bytes.ok_or_else(|| PyValueError::new_err(format!("shape {} is too large", tuple(shape))))?;
            empty(&[bytes], &Table::get(py)?.descr(py, DType::U8)?)
        }
    }
}

/// Returns the packing that `packed` means: None is one element per byte; a bool says whether the high bits come first.
fn packing_of(dtype: DType, packed: Option<bool>) -> PyResult<Packing> {
    match packed {
        None => Ok(Packing::OnePerByte),
        Some(_) if !dtype.is_packed() => Err(PyTypeError::new_err(format!(
            "{dtype} cannot be packed; only dtypes of fewer than 8 bits can be"
        ))),
        Some(false) => Ok(Packing::LowFirst),
        Some(true) => Ok(Packing::HighFirst),
    }
}

fn how<'py>(threads: Option<&Bound<'py, PyAny>>, progress: Option<&Bound<'py, PyAny>>) -> PyResult<How<'py>> {
    Ok(How { threads: read_threads(threads)?, progress: read_progress(progress)? })
}

/// Runs a scaled cast without the GIL, on several threads.
fn run<T: Send>(
    py: Python<'_>,
    how: &How<'_>,
    cast: impl FnOnce(&Parallel<'_>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    watched(py, how, "piece", cast)?.map_err(wrong)
}

/// Returns the options of a cast between two layouts.
fn laid_out(options: &CastOptions, from: (Packing, ByteOrder), to: (Packing, ByteOrder)) -> CastOptions {
    options.src_packing(from.0).src_order(from.1).dst_packing(to.0).dst_order(to.1)
}

const NATIVE: ByteOrder = ByteOrder::Native;

/// The results of quantising: the shape of the data, codes, scales, zero points, and the tensor scale.
type Made<'py> =
    (Bound<'py, PyTuple>, Bound<'py, PyAny>, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<f32>);

/// Quantises, with scales that are given or found from the data (with zero points, if `affine`).
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "what the function of the package takes")]
#[pyo3(signature = (x, dtype, scaling, scales, zero_points, affine, packed, threads, progress, options))]
pub(crate) fn quantize<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    scaling: &Bound<'py, PyAny>,
    scales: Option<&Bound<'py, PyAny>>,
    zero_points: Option<&Bound<'py, PyAny>>,
    affine: bool,
    packed: Option<bool>,
    threads: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Made<'py>> {
    let py = x.py();
    let options = options::read(options, OF_QUANTIZE)?;
    let to = native(dtype)?;
    let packing = packing_of(to, packed)?;
    let how = how(threads, progress)?;
    let src = Source::read(x)?.contiguous()?;
    let shape = src.shape().to_vec();
    let scaling = read(scaling, shape.len())?;
    let options = laid_out(&options, src.layout(), (packing, NATIVE));
    let quantizer = Quantizer::new(src.dtype(), to, &scaling, &options).map_err(wrong)?;
    let shown = Shown::new(&scaling, &shape)?;
    let codes = codes_buffer(py, to, packing, &shape)?;
    // SAFETY: a new array that nobody else knows.
    let result = unsafe { codes.bytes_mut() };
    let source = src.bytes();
    if let Some(scales) = scales {
        let (given, zeros) = shown.given(&scaling, scales, zero_points, &shape, (to, packing, NATIVE))?;
        let (factors, offsets) = (given.bytes(), zeros.as_ref().map(Source::bytes));
        run(py, &how, |parallel| {
            quantizer.par_quantize_given(source, &shape, factors, offsets, result, parallel)
        })?;
        return Ok((PyTuple::new(py, &shape)?, codes.array.into_any(), scales.clone(), None, None));
    }
    let found = empty(&shown.buffer, &Table::get(py)?.descr(py, scaling.scale_dtype)?)?;
    // SAFETY: a new array that nobody else knows.
    let factors = unsafe { found.bytes_mut() };
    let (zeros, tensor) = if affine {
        let zeros = codes_buffer(py, to, packing, &shown.scale_shape)?;
        // SAFETY: a new array that nobody else knows.
        let offsets = unsafe { zeros.bytes_mut() };
        let done = run(py, &how, |parallel| {
            quantizer.par_quantize_affine(source, &shape, result, factors, offsets, parallel)
        })?;
        (Some(zeros.array.into_any()), done.tensor_scale)
    } else {
        let done =
            run(py, &how, |parallel| quantizer.par_quantize_with(source, &shape, result, factors, parallel))?;
        (None, done.tensor_scale)
    };
    Ok((PyTuple::new(py, &shape)?, codes.array.into_any(), shown.show(&found)?, zeros, tensor))
}

/// The arguments that each function takes besides the options of a cast.
const OF_QUANTIZE: &[&str] =
    &["scales", "zero_points", "affine", "packed", "high_first", "threads", "progress"];
const OF_DEQUANTIZE: &[&str] = &["zero_points", "out", "threads", "progress"];
const OF_REQUANTIZE: &[&str] = &["zero_points", "packed", "high_first", "threads", "progress"];

/// Reads the scales and zero points of elements.
fn given<'py>(
    codes: &Source<'py>,
    scaling: &Scaling,
    scales: &Bound<'py, PyAny>,
    zero_points: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Source<'py>, Option<Source<'py>>)> {
    let (packing, order) = codes.layout();
    let shape = codes.shape();
    Shown::new(scaling, shape)?.given(scaling, scales, zero_points, shape, (codes.dtype(), packing, order))
}

/// The shape of the scales of data of a shape.
#[pyfunction]
pub(crate) fn scale_shape<'py>(
    py: Python<'py>,
    scaling: &Bound<'py, PyAny>,
    shape: Vec<usize>,
) -> PyResult<Bound<'py, PyTuple>> {
    let shown = Shown::new(&read(scaling, shape.len())?, &shape)?;
    // The shape that users see and give.
    let is_swizzled = shown.layout == ScaleLayout::Swizzle32x4x4;
    PyTuple::new(py, if is_swizzled { shown.buffer } else { shown.scale_shape })
}

/// Dequantises.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "what the function of the package takes")]
#[pyo3(signature = (codes, scales, scaling, dtype, zero_points, out, threads, progress, options))]
pub(crate) fn dequantize<'py>(
    codes: &Bound<'py, PyAny>,
    scales: &Bound<'py, PyAny>,
    scaling: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    zero_points: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
    threads: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = codes.py();
    let options = options::read(options, OF_DEQUANTIZE)?;
    let (to, descr) = dtypes::read(dtype)?;
    let how = how(threads, progress)?;
    let src = Source::read(codes)?.contiguous()?;
    let shape = src.shape().to_vec();
    let scaling = read(scaling, shape.len())?;
    let options = laid_out(&options, src.layout(), (Packing::OnePerByte, view::order(to)));
    let dequantizer = Dequantizer::new(src.dtype(), to.dtype, &scaling, &options).map_err(wrong)?;
    let (factors, zeros) = given(&src, &scaling, scales, zero_points)?;
    let wanted = out.map(|out| wanted_out(out, to, &descr, &shape)).transpose()?;
    let dst = empty(&shape, &descr)?;
    // SAFETY: a new array that nobody else knows.
    let result = unsafe { dst.bytes_mut() };
    let (source, factors, zeros) = (src.bytes(), factors.bytes(), zeros.as_ref().map(Source::bytes));
    run(py, &how, |parallel| {
        dequantizer.par_dequantize_with(source, &shape, factors, zeros, result, parallel)
    })?;
    let Some((wanted, out)) = wanted.zip(out) else { return Ok(dst.array.into_any()) };
    py.import("numpy")?.call_method1("copyto", (&wanted.array, &dst.array))?;
    Ok(out.clone())
}

/// Requantises: elements under one scaling to elements under another.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "what the function of the package takes")]
#[pyo3(signature = (codes, scales, scaling, dtype, to_scaling, zero_points, packed, threads, progress, options))]
pub(crate) fn requantize<'py>(
    codes: &Bound<'py, PyAny>,
    scales: &Bound<'py, PyAny>,
    scaling: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    to_scaling: &Bound<'py, PyAny>,
    zero_points: Option<&Bound<'py, PyAny>>,
    packed: Option<bool>,
    threads: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Made<'py>> {
    let py = codes.py();
    let options = options::read(options, OF_REQUANTIZE)?;
    let to = native(dtype)?;
    let packing = packing_of(to, packed)?;
    let how = how(threads, progress)?;
    let src = Source::read(codes)?.contiguous()?;
    let shape = src.shape().to_vec();
    let [scaling, to_scaling] = [read(scaling, shape.len())?, read(to_scaling, shape.len())?];
    let options = laid_out(&options, src.layout(), (packing, NATIVE));
    let requantizer =
        Requantizer::new((src.dtype(), &scaling), (to, &to_scaling), &options).map_err(wrong)?;
    let (factors, zeros) = given(&src, &scaling, scales, zero_points)?;
    let shown = Shown::new(&to_scaling, &shape)?;
    let codes = codes_buffer(py, to, packing, &shape)?;
    let found = empty(&shown.buffer, &Table::get(py)?.descr(py, to_scaling.scale_dtype)?)?;
    // SAFETY: new arrays that nobody else knows.
    let (result, new_factors) = unsafe { (codes.bytes_mut(), found.bytes_mut()) };
    let (source, factors, zeros) = (src.bytes(), factors.bytes(), zeros.as_ref().map(Source::bytes));
    let done = run(py, &how, |parallel| {
        requantizer.par_requantize_with(source, &shape, factors, zeros, result, new_factors, parallel)
    })?;
    Ok((PyTuple::new(py, &shape)?, codes.array.into_any(), shown.show(&found)?, None, done.tensor_scale))
}
