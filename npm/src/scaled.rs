//! Scaled casts: `scaled_prepare` reads the job, the host fills the buffers of the sources, and after `scaled_run` it reads those of the
//! results. Unlike plain casts they take whole tensors, because a scale may belong to any of the elements.

use std::cell::RefCell;

use lanecast::scaled::{
    Dequantizer, Error, NonFinite, Profile, Quantizer, Requantizer, ScaleLayout, ScaleRule, Scaling,
    TensorScale,
};
use lanecast::{CastOptions, DType, Packing};

use crate::{fail, named, one_of, rounding, set, source, with_destination};

/// A scaled cast: quantisation with scales (or scales and zero points) that are found, or given; dequantisation; requantisation.
enum Cast {
    Found(Quantizer),
    Affine(Quantizer),
    Given(Quantizer),
    Dequantize(Dequantizer),
    Requantize(Box<Requantizer>),
}

/// The number of buffers. The first half are sources, the second half results.
const BUFFERS: usize = 6;

struct Job {
    cast: Cast,
    shape: Vec<usize>,
    /// Whether zero points are given.
    has_zeros: bool,
    /// The dtype of scales that are read.
    scales_read: DType,
    /// The dtype and the shape of the scales that are written, or if none are, of those that are read.
    scales: (DType, Vec<usize>),
    /// The elements, scales and zero points that are read, then those that are written.
    buffers: [Vec<u8>; BUFFERS],
    tensor_scale: Option<f32>,
}

thread_local! {
    static JOB: RefCell<Option<Job>> = const { RefCell::new(None) };
}

/// The fields of a scaling in JavaScript, as text.
#[derive(Clone, Default)]
struct Fields<'a> {
    format: Option<&'a str>,
    scale_dtype: Option<&'a str>,
    block: Option<&'a str>,
    axis: Option<&'a str>,
    tensor_scale: Option<&'a str>,
    divides: bool,
    others: Vec<(&'a str, &'a str)>,
}

/// The options that do not apply under scales: integers saturate, and `intRounding` is a field of the scaling.
const OF_INTEGERS: [&str; 3] = ["intRounding", "floatToInt", "intToInt"];

const FIELDS: &str = "format, scaleDtype, block, axis, rule, tensorScale, tensorScaleDivides, nonfinite, profile, layout, \
                      intRounding, precision";

impl<'a> Fields<'a> {
    fn read(&mut self, name: &'a str, value: &'a str) -> Result<(), String> {
        match name {
            "format" => self.format = Some(value),
            "scaleDtype" => self.scale_dtype = Some(value),
            "block" => self.block = Some(value),
            "axis" => self.axis = Some(value),
            "tensorScale" => self.tensor_scale = Some(value),
            "tensorScaleDivides" => self.divides = one_of(name, value, &[("true", true), ("false", false)])?,
            _ => self.others.push((name, value)),
        }
        Ok(())
    }

    fn scaling(&self) -> Result<Scaling, String> {
        let dtype = |name: &str| name.parse::<DType>().map_err(|error| error.to_string());
        let scale = self.scale_dtype.map_or(Ok(DType::F32), dtype)?;
        let lengths = self.block.map(|text| numbers("block", text)).transpose()?;
        let axis = self.axis.map(|text| number("axis", text)).transpose()?;
        let mut scaling = match (self.format, axis, lengths.as_deref()) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
                return Err("a scaling with a format cannot have a block or an axis".into());
            }
            (Some(format), ..) => {
                let all = [
                    ("mx", Scaling::mx()),
                    ("nvfp4", Scaling::nvfp4()),
                    ("deepseek", Scaling::deepseek()),
                    ("perTensor", Scaling::per_tensor(DType::F32)),
                    ("perRow", Scaling::blocks(&[0], DType::F32)),
                ];
                let found = one_of("scaling", format, &all)?;
                if self.scale_dtype.is_some() { found.scale(scale) } else { found }
            }
            (None, None, None) => Scaling::per_tensor(scale),
            (None, None, Some(lengths)) => Scaling::blocks(lengths, scale),
            (None, Some(axis), None) => Scaling::per_axis(axis).scale(scale),
            (None, Some(axis), Some(&[length])) => Scaling::along_axis(axis, length, scale),
            (None, Some(_), Some(lengths)) => {
                return Err(format!("block is {lengths:?}; with an axis it must be one length"));
            }
        };
        for &(name, value) in &self.others {
            scaling = match name {
                "rule" => scaling.rule(named(name, value, ScaleRule::ALL, ScaleRule::name)?),
                "nonfinite" => scaling.nonfinite(named(name, value, NonFinite::ALL, NonFinite::name)?),
                // Not in camel case: profiles have the names of packages, like those of plain casts.
                "profile" => {
                    scaling.profile(one_of(name, value, &Profile::ALL.map(|one| (one.name(), one)))?)
                }
                "layout" => scaling.layout(named(name, value, ScaleLayout::ALL, ScaleLayout::name)?),
                "intRounding" => scaling.int_rounding(rounding(name, value)?),
                "precision" => scaling.precision(dtype(value)?),
                _ => return Err(format!("a scaling has no field {name:?}; its fields are {FIELDS}")),
            };
        }
        Ok(scaling.tensor_scale(match (self.tensor_scale, self.divides) {
            (None, _) => TensorScale::None,
            (Some("compute"), false) => TensorScale::ComputeMultiply,
            (Some("compute"), true) => TensorScale::ComputeDivide,
            (Some(text), divides) => {
                let wrong = |_| format!("tensorScale is {text:?}; it must be a number or 'compute'");
                let factor = text.parse::<f64>().map_err(wrong)? as f32;
                if divides { TensorScale::Divide(factor) } else { TensorScale::Multiply(factor) }
            }
        }))
    }
}

fn number(name: &str, text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{name} is {text}; it must be a non-negative integer below 2^32"))
}

fn numbers(name: &str, text: &str) -> Result<Vec<usize>, String> {
    text.split(',').filter(|text| !text.is_empty()).map(|text| number(name, text)).collect()
}

/// Reads a job from text: the kind of cast, two dtypes, a shape, and then a name and a value, on a line each.
fn job(text: &[u8]) -> Result<Job, String> {
    let text = core::str::from_utf8(text).map_err(|error| error.to_string())?;
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap_or("");
    let what = next();
    let mut dtype = || next().parse::<DType>().map_err(|error| error.to_string());
    let (from, to) = (dtype()?, dtype()?);
    let shape = numbers("shape", next())?;
    let (mut options, mut has_zeros) = (CastOptions::new(), false);
    let others = match what {
        "dequantize" | "requantize" => "zeroPoints",
        _ => "scales, zeroPoints, affine",
    };
    let mut fields = [Fields::default(), Fields::default()];
    for line in lines {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        match name.split_once('.') {
            Some(("from", field)) => fields[0].read(field, value)?,
            Some((_, field)) => fields[1].read(field, value)?,
            None if name == "zeroPoints" => has_zeros = true,
            None if name == "profile" => {
                return Err(
                    "profile is a field of the scaling here, as in { format: 'mx', profile: 'torchao' }"
                        .into(),
                );
            }
            None if matches!(name, "floatToInt" | "intToInt") => {
                return Err(format!(
                    "{name} is an option of casts without scales; quantised integers saturate"
                ));
            }
            None => options = set(options, name, value, others, &OF_INTEGERS)?,
        }
    }
    let [scaling, to_scaling] = [fields[0].scaling()?, fields[1].scaling()?];
    let (mut scales, mut result) = (scaling, [0; 3]);
    let cast = match what {
        "dequantize" => {
            let count = shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length));
            let bytes = count.and_then(|count| to.byte_len(count, Packing::OnePerByte));
            result[0] = bytes.unwrap_or(usize::MAX);
            Cast::Dequantize(said(Dequantizer::new(from, to, &scaling, &options))?)
        }
        "requantize" => {
            let r = said(Requantizer::new((from, &scaling), (to, &to_scaling), &options))?;
            result[..2].copy_from_slice(&[said(r.code_bytes(&shape))?, said(r.scale_bytes(&shape))?]);
            scales = to_scaling;
            Cast::Requantize(Box::new(r))
        }
        _ => {
            let q = said(Quantizer::new(from, to, &scaling, &options))?;
            result[0] = said(q.code_bytes(&shape))?;
            if what == "given" {
                Cast::Given(q)
            } else {
                result[1] = said(q.scale_bytes(&shape))?;
                if what == "affine" {
                    let count = said(q.scale_shape(&shape))?.iter().product();
                    result[2] = to.byte_len(count, options.dst_packing).unwrap_or(usize::MAX);
                    Cast::Affine(q)
                } else {
                    Cast::Found(q)
                }
            }
        }
    };
    let tensor_scale = match scaling.tensor_scale {
        TensorScale::Multiply(factor) | TensorScale::Divide(factor) if what == "given" => Some(factor),
        _ => None,
    };
    let scale_shape = said(scales.scale_shape(&shape))?;
    let (scales_read, scales) = (scaling.scale_dtype, (scales.scale_dtype, scale_shape));
    let buffers = Default::default();
    let mut job = Job { cast, shape, has_zeros, scales_read, scales, buffers, tensor_scale };
    for (buffer, bytes) in job.buffers[BUFFERS / 2..].iter_mut().zip(result) {
        take(buffer, bytes)?;
    }
    Ok(job)
}

fn said<T>(done: Result<T, Error>) -> Result<T, String> {
    done.map_err(|error| error.to_string())
}

/// Replaces a buffer by one of `bytes` zeros.
fn take(buffer: &mut Vec<u8>, bytes: usize) -> Result<(), String> {
    *buffer = Vec::new();
    let refused = |_| format!("no memory for {bytes} bytes; a module has at most 4 GiB");
    buffer.try_reserve_exact(bytes).map_err(refused)?;
    buffer.resize(bytes, 0);
    Ok(())
}

impl Job {
    fn run(&mut self) -> Result<(), Error> {
        let Self { shape, has_zeros, buffers, .. } = self;
        let [data, scales, zeros, result, found, zeros_found] = buffers;
        let zeros = has_zeros.then_some(&zeros[..]);
        let done = match &self.cast {
            Cast::Found(q) => q.quantize(data, shape, result, found)?.tensor_scale,
            Cast::Affine(q) => q.quantize_affine(data, shape, result, found, zeros_found)?.tensor_scale,
            Cast::Given(q) => {
                q.quantize_given(data, shape, scales, zeros, result)?;
                None
            }
            Cast::Dequantize(d) => {
                d.dequantize(data, shape, scales, zeros, result)?;
                None
            }
            Cast::Requantize(r) => r.requantize(data, shape, scales, zeros, result, found)?.tensor_scale,
        };
        self.tensor_scale = done.or(self.tensor_scale);
        Ok(())
    }
}

fn or_fail<T: Default>(done: Result<T, String>) -> T {
    done.unwrap_or_else(|error| {
        fail(&error);
        T::default()
    })
}

fn with_job<T: Default>(run: impl FnOnce(&mut Job) -> Result<T, String>) -> T {
    or_fail(JOB.with_borrow_mut(|job| job.as_mut().ok_or_else(|| "no job".into()).and_then(run)))
}

/// Reads a job from `length` bytes of text. Writes the dtype of scales that it reads, and dtype and shape of those of its result to the
/// destination's room, a line each, and returns the bytes of that text, or 0 for an error.
#[unsafe(no_mangle)]
pub extern "C" fn scaled_prepare(length: usize) -> usize {
    let made =
        source().get(..length).ok_or_else(|| "more text than there is room for".to_string()).and_then(job);
    let Some(job) = or_fail(made.map(Some)) else { return 0 };
    let (dtype, shape) = &job.scales;
    let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
    let said = format!("{}\n{dtype}\n{}", job.scales_read, shape.join(","));
    with_destination(|room| room[..said.len()].copy_from_slice(said.as_bytes()));
    JOB.set(Some(job));
    said.len()
}

/// Makes the source buffer `which` one of `bytes` zeros, and returns its address, or NULL for an error.
#[unsafe(no_mangle)]
pub extern "C" fn scaled_source(which: usize, bytes: usize) -> *mut u8 {
    let at = with_job(|job| {
        let buffer = job.buffers[..BUFFERS / 2].get_mut(which).ok_or("no such buffer")?;
        take(buffer, bytes)?;
        Ok(Some(buffer.as_mut_ptr()))
    });
    at.unwrap_or(core::ptr::null_mut())
}

/// Runs the job. Returns 1, or 0 for an error.
#[unsafe(no_mangle)]
pub extern "C" fn scaled_run() -> u32 {
    with_job(|job| said(job.run()).map(|()| 1))
}

/// The address of the result buffer `which`.
#[unsafe(no_mangle)]
pub extern "C" fn scaled_result(which: usize) -> *const u8 {
    let at = with_job(|job| Ok(job.buffers.get(BUFFERS / 2 + which).map(|buffer| buffer.as_ptr())));
    at.unwrap_or(core::ptr::null())
}

/// The bytes of the result buffer `which`.
#[unsafe(no_mangle)]
pub extern "C" fn scaled_length(which: usize) -> usize {
    with_job(|job| Ok(job.buffers.get(BUFFERS / 2 + which).map_or(0, Vec::len)))
}

/// The factor for the whole tensor, or -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn scaled_tensor() -> f64 {
    with_job(|job| Ok(job.tensor_scale.map(f64::from))).unwrap_or(-1.0)
}

/// Ends the job and frees its buffers.
#[unsafe(no_mangle)]
pub extern "C" fn scaled_end() {
    JOB.set(None);
}
