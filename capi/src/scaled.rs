//! Scaled casts: to elements under scales, from them, and from one scaling to another.

use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;
use core::panic::UnwindSafe;

use rust::parallel::Parallel;
use rust::scaled::{
    Dequantizer, Error, Losses, NonFinite, Profile, Quantizer, Requantizer, ScaleLayout, ScaleRule, Scaling,
    TensorScale,
};
use rust::{DType, Packing, Rounding};

use super::views::{lanecast_parallel, on_threads};
use super::{
    LANECAST_ERR_CANCELLED, LANECAST_ERR_DTYPE, LANECAST_ERR_MEMORY, LANECAST_ERR_OPTIONS,
    LANECAST_ERR_SHAPE, LANECAST_ERR_SIZE, LANECAST_TENSOR_SCALE_COMPUTE_DIVIDE,
    LANECAST_TENSOR_SCALE_COMPUTE_MULTIPLY, LANECAST_TENSOR_SCALE_DIVIDE, LANECAST_TENSOR_SCALE_MULTIPLY,
    LANECAST_TENSOR_SCALE_NONE, dtype, guard, lanecast_dtype, lanecast_options, lanecast_status, memory,
    no_such, null, one_of, overlap, overlapping, read_name, read_options, read_sized, say, some_of, status,
    unknown,
};

/// A scaling: which elements share a scale, what the scales are, and where they come from. lanecast_scaling_init sets one by its
/// name.
///
/// New fields are only ever added at the end, and size says how much of the structure the caller knows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lanecast_scaling {
    /// How many bytes of the structure the caller has set, this field included. It may be more than the library knows, if the
    /// bytes that the library does not know are zero.
    pub size: u32,
    /// Whose results the cast gives bit for bit: LANECAST_PROFILE_*. Default: lanecast's own, by one rounding.
    pub profile: u8,
    /// The dtype of the scales.
    pub scale_dtype: lanecast_dtype,
    /// How scales follow from the data: LANECAST_RULE_*. Of the profiles of packages, torchao's follows it, for MX; the others
    /// have rules of their own.
    pub rule: u8,
    /// What a NaN or Inf does to the scale of its block: LANECAST_NONFINITE_*. Default: the scale becomes NaN, or the largest
    /// one.
    pub nonfinite: u8,
    /// How scales are laid out: LANECAST_SCALE_LAYOUT_*. Default: row-major.
    pub scale_layout: u8,
    /// Whether there is a tensor scale, and how it is applied: LANECAST_TENSOR_SCALE_*. Default: none.
    pub tensor_form: u8,
    /// Rounding of quotients to integers: LANECAST_ROUNDING_*. Default: nearest, ties to even, which is what the profiles of
    /// packages do in any case.
    pub int_rounding: u8,
    /// With LANECAST_PROFILE_ONNX: the dtype of the division, a float of 16 bits or more; 0: the wider one of the dtypes of the
    /// data and the scales (default).
    pub precision: lanecast_dtype,
    /// The tensor scale, if tensor_form says that it is given.
    pub tensor_scale: f32,
    /// Dimensions of a block, 8 at most; 0: one scale for all elements.
    pub ndim: u32,
    /// Lengths of a block. The last one belongs to the last dimension of the data; lengths that are missing in front are 1. A
    /// length of 0 is that of the whole dimension.
    pub block: [usize; 8],
    /// Bytes from one row of quantised elements to the next, so that each row begins at a byte of its own; 0: no gaps
    /// (default). Each row takes this many bytes, the last one too. The bytes behind its elements are written as zeros, so
    /// nothing else can be kept there.
    pub row_bytes: usize,
    /// Bytes from one row of row-major scales to the next; 0: no gaps (default). The last row has its gap, too. Gaps are written
    /// as zeros.
    pub scale_row_bytes: usize,
}

/// Returns the status of an error of a scaled cast, and keeps its message.
fn scaled_status(error: Error) -> lanecast_status {
    let status = match error {
        Error::Cast(error) => return status(error),
        Error::Pair { .. } | Error::ScaleDType { .. } => LANECAST_ERR_DTYPE,
        Error::Unsupported { .. }
        | Error::Profile { .. }
        | Error::ProfileNeeds { .. }
        | Error::TensorScale { .. } => LANECAST_ERR_OPTIONS,
        Error::ShapeOverflow { .. } => LANECAST_ERR_SIZE,
        Error::Cancelled => LANECAST_ERR_CANCELLED,
        // Too many dimensions, rows that are too long, and buffers of another size than the shape needs.
        _ => LANECAST_ERR_SHAPE,
    };
    say(status, &error)
}

fn read_fields(s: &lanecast_scaling) -> Result<Scaling, lanecast_status> {
    let scale = dtype(s.scale_dtype)?;
    let lengths = s.block.get(..s.ndim as usize);
    let lengths = lengths.ok_or_else(|| {
        say(LANECAST_ERR_OPTIONS, &format_args!("ndim is {}; a block has at most 8 dimensions", s.ndim))
    })?;
    let scaling =
        if lengths.is_empty() { Scaling::per_tensor(scale) } else { Scaling::blocks(lengths, scale) };
    let mut scaling = scaling
        .profile(one_of("profile", &Profile::ALL, s.profile)?)
        .nonfinite(one_of("nonfinite", &NonFinite::ALL, s.nonfinite)?)
        .layout(one_of("scale_layout", &ScaleLayout::ALL, s.scale_layout)?)
        .int_rounding(one_of("int_rounding", &Rounding::ALL, s.int_rounding)?)
        .tensor_scale(match s.tensor_form {
            LANECAST_TENSOR_SCALE_NONE => TensorScale::None,
            LANECAST_TENSOR_SCALE_MULTIPLY => TensorScale::Multiply(s.tensor_scale),
            LANECAST_TENSOR_SCALE_DIVIDE => TensorScale::Divide(s.tensor_scale),
            LANECAST_TENSOR_SCALE_COMPUTE_MULTIPLY => TensorScale::ComputeMultiply,
            LANECAST_TENSOR_SCALE_COMPUTE_DIVIDE => TensorScale::ComputeDivide,
            other => return Err(no_such("tensor_form", other, 4)),
        });
    if let Some(rule) = some_of("rule", &ScaleRule::ALL, s.rule)? {
        scaling = scaling.rule(rule);
    }
    if s.precision != 0 {
        scaling = scaling.precision(dtype(s.precision)?);
    }
    if s.row_bytes != 0 {
        scaling = scaling.row_bytes(s.row_bytes);
    }
    if s.scale_row_bytes != 0 {
        scaling = scaling.scale_row_bytes(s.scale_row_bytes);
    }
    Ok(scaling)
}

/// Reads the scaling of a caller. `what` is the name of the argument.
///
/// # Safety
/// `s` is NULL, or `size` bytes are readable.
unsafe fn read_scaling(what: &str, s: *const lanecast_scaling) -> Result<Scaling, lanecast_status> {
    // SAFETY: the caller's promise; all fields are numbers, for which zeros are a value.
    read_fields(&unsafe { read_sized(what, s, size_of::<lanecast_scaling>()) }?)
}

/// Returns the lengths of a caller's shape; `shape` may be NULL if there are none.
///
/// # Safety
/// `shape` is NULL, or readable for `ndim` numbers as long as the result is used.
unsafe fn read_shape<'a>(shape: *const usize, ndim: u32) -> Result<&'a [usize], lanecast_status> {
    if ndim == 0 {
        return Ok(&[]);
    }
    if ndim > 8 {
        return Err(scaled_status(Error::Dims { dims: ndim as usize }));
    }
    let lengths = memory("shape", shape, ndim as usize)?;
    // SAFETY: readable by the caller's promise; aligned and not NULL.
    Ok(unsafe { &*lengths })
}

/// Sets s to the scaling of a name, and size to the size of the structure. name is one of these:
/// - "mx": blocks of 32, float8_e8m0fnu scales
/// - "nvfp4": blocks of 16, float8_e4m3fn scales
/// - "deepseek": blocks of 128 x 128, float32 scales
/// - "per_tensor": one float32 scale
/// - "per_row": one float32 scale for each row along the last dimension
/// - a profile: "torchao", "modelopt", "compressed_tensors", "comfy" and "gpt_oss" have the blocks and scales of "mx", "onnx" has
///   those of "per_tensor", and "hf_fp8" those of "deepseek"
///
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (s, name), _NAME.
///
/// # Safety
/// s is NULL or writable; name is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_scaling_init(
    s: *mut lanecast_scaling,
    name: *const c_char,
) -> lanecast_status {
    guard(|| {
        if s.is_null() {
            return Err(null("s"));
        }
        type Named = (&'static str, Profile, DType, &'static [usize]);
        const NAMED: [Named; 12] = [
            ("mx", Profile::Lanecast, DType::F8E8M0, &[32]),
            ("nvfp4", Profile::Lanecast, DType::F8E4M3FN, &[16]),
            ("deepseek", Profile::Lanecast, DType::F32, &[128, 128]),
            ("per_tensor", Profile::Lanecast, DType::F32, &[]),
            ("per_row", Profile::Lanecast, DType::F32, &[0]),
            ("onnx", Profile::Onnx, DType::F32, &[]),
            ("torchao", Profile::Torchao, DType::F8E8M0, &[32]),
            ("modelopt", Profile::Modelopt, DType::F8E8M0, &[32]),
            ("compressed_tensors", Profile::CompressedTensors, DType::F8E8M0, &[32]),
            ("hf_fp8", Profile::HfFp8, DType::F32, &[128, 128]),
            ("comfy", Profile::Comfy, DType::F8E8M0, &[32]),
            ("gpt_oss", Profile::GptOss, DType::F8E8M0, &[32]),
        ];
        // SAFETY: the caller's promise.
        let name = unsafe { read_name("name", name) }?;
        let found = NAMED.into_iter().find(|named| named.0 == name);
        let (_, profile, scale, lengths) =
            found.ok_or_else(|| unknown("scaling", name, NAMED.iter().map(|named| named.0)))?;
        let mut block = [0; 8];
        block[..lengths.len()].copy_from_slice(lengths);
        let scaling = lanecast_scaling {
            size: size_of::<lanecast_scaling>() as u32,
            profile: profile as u8,
            scale_dtype: scale.code(),
            rule: 0,
            nonfinite: 0,
            scale_layout: 0,
            tensor_form: 0,
            int_rounding: 0,
            precision: 0,
            tensor_scale: 0.0,
            ndim: lengths.len() as u32,
            block,
            row_bytes: 0,
            scale_row_bytes: 0,
        };
        // SAFETY: not NULL, hence writable by the caller's promise.
        unsafe { s.write_unaligned(scaling) };
        Ok(())
    })
}

/// Writes the shape of the scales for data of a shape to out, and the size of their buffer in bytes to bytes. out receives ndim
/// lengths; shape may be NULL if ndim is 0. out and bytes may be NULL. In scaled casts ndim is a uint32_t, in
/// casts of strided views a size_t.
/// Returns LANECAST_OK, or LANECAST_ERR_NULL (shape, s), _DTYPE (of s), _OPTIONS (s), _SHAPE, _SIZE (shape), _MEMORY.
///
/// # Safety
/// shape is readable for ndim numbers; s points to s->size readable bytes, or is NULL, which is an error; out is NULL or writable
/// for ndim numbers, bytes is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_scale_shape(
    shape: *const usize,
    ndim: u32,
    s: *const lanecast_scaling,
    out: *mut usize,
    bytes: *mut usize,
) -> lanecast_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (shape, scaling) = unsafe { (read_shape(shape, ndim)?, read_scaling("s", s)?) };
        let lengths = scaling.scale_shape(shape).map_err(scaled_status)?;
        let size = scaling.scale_bytes(shape).map_err(scaled_status)?;
        // SAFETY: writable by the caller's promise.
        unsafe {
            for (i, length) in lengths.into_iter().enumerate().filter(|_| !out.is_null()) {
                out.add(i).write_unaligned(length);
            }
            if !bytes.is_null() {
                bytes.write_unaligned(size);
            }
        }
        Ok(())
    })
}

/// Borrows memory of a caller to read it. `what` is the name of the argument, which may be NULL if `n` is 0.
///
/// # Safety
/// It is readable for `n` bytes as long as the result is used.
unsafe fn read<'a>(what: &str, first: *const c_void, n: usize) -> Result<&'a [u8], lanecast_status> {
    if n == 0 {
        return Ok(&[]);
    }
    let bytes = memory(what, first.cast::<u8>(), n)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { &*bytes })
}

/// As [`read`], but None if the pointer is NULL.
///
/// # Safety
/// As for [`read`].
unsafe fn optional<'a>(
    what: &str,
    first: *const c_void,
    n: usize,
) -> Result<Option<&'a [u8]>, lanecast_status> {
    // SAFETY: the caller's promise.
    if first.is_null() { Ok(None) } else { unsafe { read(what, first, n) }.map(Some) }
}

/// Writes the tensor scale, if there is one and the caller wants it.
///
/// # Safety
/// `to` is NULL or writable.
unsafe fn write_factor(to: *mut f32, factor: Option<f32>) {
    if let Some(factor) = factor.filter(|_| !to.is_null()) {
        // SAFETY: not NULL, hence writable by the caller's promise.
        unsafe { to.write_unaligned(factor) };
    }
}

fn dtypes(codes: [lanecast_dtype; 2]) -> Result<[DType; 2], lanecast_status> {
    let [from, to] = codes.map(dtype);
    Ok([from?, to?])
}

/// Borrows memory of a caller to write it. `what` is the name of the argument, which may be NULL if `n` is 0.
///
/// # Safety
/// It is writable for `n` bytes, which nobody else uses as long as the result is used.
unsafe fn write<'a>(
    what: &str,
    first: *mut c_void,
    n: usize,
) -> Result<&'a mut [MaybeUninit<u8>], lanecast_status> {
    if n == 0 {
        return Ok(&mut []);
    }
    let bytes = memory(what, first.cast::<MaybeUninit<u8>>(), n)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { &mut *bytes.cast_mut() })
}

/// As [`write`], but sets the memory to zeros first.
///
/// # Safety
/// As for [`write`].
unsafe fn zeroed<'a>(what: &str, first: *mut c_void, n: usize) -> Result<&'a mut [u8], lanecast_status> {
    if n == 0 {
        return Ok(&mut []);
    }
    let bytes = memory(what, first.cast::<u8>(), n)?;
    // SAFETY: the caller's promise; every byte is initialised before the slice is made.
    unsafe {
        first.cast::<u8>().write_bytes(0, n);
        Ok(&mut *bytes.cast_mut())
    }
}

/// Checks that no two of these pieces of memory overlap. Each has its argument's name, its address and its bytes.
fn apart(pieces: &[(&str, *const c_void, usize)]) -> Result<(), lanecast_status> {
    for (i, &(a, first, n)) in pieces.iter().enumerate().filter(|(_, piece)| piece.2 > 0) {
        let this = memory(a, first.cast::<u8>(), n)?;
        for &(b, other, m) in pieces[..i].iter().filter(|piece| piece.2 > 0) {
            if overlap(this, core::ptr::slice_from_raw_parts(other.cast::<u8>(), m)) {
                return Err(overlapping(b, a));
            }
        }
    }
    Ok(())
}

/// Returns the status of a shape whose elements or scales no buffer can hold.
fn too_large() -> lanecast_status {
    say(LANECAST_ERR_SIZE, &"a buffer for the shape does not fit into the address space")
}

/// Returns the bytes of the elements of a shape, with the gaps between rows that the scaling says.
fn code_bytes(shape: &[usize], s: &Scaling, dtype: DType, o: Packing) -> Result<usize, lanecast_status> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = |lengths: &[usize]| lengths.iter().try_fold(1usize, |n, &length| n.checked_mul(length));
    let row = dtype.byte_len(shape.last().copied().unwrap_or(1), o).ok_or_else(too_large)?;
    if let Some(given) = s.row_bytes.filter(|&bytes| bytes < row) {
        return Err(scaled_status(Error::RowBytes { what: "elements", needed: row, given }));
    }
    let size = match (s.row_bytes, shape) {
        (Some(bytes), [rows @ .., _]) => product(rows).and_then(|rows| rows.checked_mul(bytes)),
        (Some(bytes), []) => Some(bytes),
        (None, shape) => product(shape).and_then(|n| dtype.byte_len(n, o)),
    };
    size.ok_or_else(too_large)
}

/// Casts floats of a shape to elements under scales.
///
/// compute is 0 or 1. 0: scales are given, and so are zero points, if zero_points is not NULL. 1: scales are found from the data
/// and written; so are zero points, if zero_points is not NULL, which is an error if the profile does not find them.
///
/// src holds the data in row-major order, and dst the elements. scales has the bytes that lanecast_scale_shape says. zero_points
/// has one element of dtype to for each scale, in row-major order without gaps, packed as dst is. Scales and zero points have the
/// byte order dst_order of the options. tensor_scale is NULL, or receives the tensor scale, if there is one. how may be
/// NULL for the calling thread. No two buffers may overlap. Buffers of no bytes may be NULL. After LANECAST_ERR_MEMORY, dst, and
/// scales and zero_points if they are found, have unspecified contents.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to, of s), _OPTIONS (s, o, how, compute, zero_points), _ISA, _NULL (shape, s, buffers),
/// _SHAPE, _SIZE (shape), _OVERLAP, _MEMORY, _CANCELLED (progress).
///
/// # Safety
/// src is readable and dst writable for elements of the shape; shape is readable for ndim numbers; scales is readable for the
/// bytes that lanecast_scale_shape says, and zero_points for as many elements as there are scales; both are writable if they are
/// found, or NULL where that is allowed; s, o and how point to as many readable bytes as their size says, or are NULL;
/// tensor_scale is NULL or writable.
#[allow(clippy::too_many_arguments, reason = "the signature is that of the interface")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_quantize(
    from: lanecast_dtype,
    src: *const c_void,
    to: lanecast_dtype,
    dst: *mut c_void,
    shape: *const usize,
    ndim: u32,
    s: *const lanecast_scaling,
    scales: *mut c_void,
    zero_points: *mut c_void,
    compute: u8,
    tensor_scale: *mut f32,
    o: *const lanecast_options,
    how: *const lanecast_parallel,
) -> lanecast_status {
    let a = Quantize { from, src, to, dst, shape, ndim, s, scales, zero_points, compute, tensor_scale, o };
    let quantize = |q: &Quantizer, shape: &[usize], sizes: &Sizes, how: &Parallel<'_>| {
        // SAFETY: the buffers have the sizes that the caller promises, and no two overlap. Scales and zero points that are found
        // are initialised first, and so is dst where zero points are found; else it need not be.
        unsafe {
            let src = read("src", src, sizes.data)?;
            if compute == 0 {
                let zeros = optional("zero_points", zero_points, sizes.zeros)?;
                let (scales, dst) = (read("scales", scales, sizes.scales)?, write("dst", dst, sizes.codes)?);
                let made = q.quantize_given_uninit(src, shape, scales, zeros, dst, how);
                return made.map(|_| None).map_err(scaled_status);
            }
            q.check_found(!zero_points.is_null()).map_err(scaled_status)?;
            let scales = zeroed("scales", scales, sizes.scales)?;
            let found = if zero_points.is_null() {
                let dst = write("dst", dst, sizes.codes)?;
                q.quantize_uninit(src, shape, dst, scales, how).map(|(_, found)| found)
            } else {
                let (zeros, dst) =
                    (zeroed("zero_points", zero_points, sizes.zeros)?, zeroed("dst", dst, sizes.codes)?);
                q.par_quantize_affine(src, shape, dst, scales, zeros, how)
            };
            found.map(|found| found.tensor_scale).map_err(scaled_status)
        }
    };
    // SAFETY: the caller's promise.
    unsafe { a.run(|q, shape, sizes| on_threads(how, |how| quantize(q, shape, sizes, how))?) }
}

/// The arguments that [`lanecast_quantize`] and [`lanecast_quantize_with_losses`] share.
struct Quantize {
    from: lanecast_dtype,
    src: *const c_void,
    to: lanecast_dtype,
    dst: *mut c_void,
    shape: *const usize,
    ndim: u32,
    s: *const lanecast_scaling,
    scales: *mut c_void,
    zero_points: *const c_void,
    compute: u8,
    tensor_scale: *mut f32,
    o: *const lanecast_options,
}

impl Quantize {
    /// Checks the arguments, calls `cast` with the sizes of the buffers, and writes the tensor scale: the one that `cast`
    /// found, or else the one that was given.
    ///
    /// # Safety
    /// As for `lanecast_quantize`.
    unsafe fn run(
        self,
        cast: impl FnOnce(&Quantizer, &[usize], &Sizes) -> Result<Option<f32>, lanecast_status> + UnwindSafe,
    ) -> lanecast_status {
        guard(|| {
            let [from, to] = dtypes([self.from, self.to])?;
            // SAFETY: the caller's promise.
            let (shape, scaling, options) = unsafe {
                (read_shape(self.shape, self.ndim)?, read_scaling("s", self.s)?, read_options(self.o)?)
            };
            let q = Quantizer::new(from, to, &scaling, &options).map_err(scaled_status)?;
            if self.compute > 1 {
                return Err(no_such("compute", self.compute, 1));
            }
            let mut sizes = Sizes::new(shape, &scaling, from, to, options.dst_packing)?;
            if self.zero_points.is_null() {
                sizes.zeros = 0;
            }
            apart(&[
                ("src", self.src, sizes.data),
                ("dst", self.dst, sizes.codes),
                ("scales", self.scales, sizes.scales),
                ("zero_points", self.zero_points, sizes.zeros),
            ])?;
            let given = match scaling.tensor_scale {
                TensorScale::Multiply(factor) | TensorScale::Divide(factor) => Some(factor),
                _ => None,
            };
            let factor = cast(&q, shape, &sizes)?.or(given);
            // SAFETY: the caller's promise.
            unsafe { write_factor(self.tensor_scale, factor) };
            Ok(())
        })
    }
}

/// Casts elements of a shape under scales to floats.
///
/// scales and zero_points are as in lanecast_quantize, but zero points have the dtype from and are packed as src is, and both have
/// the byte order src_order of the options. zero_points may be NULL, and how may be NULL for the calling thread. No two buffers
/// may overlap. Buffers of no bytes may be NULL. After LANECAST_ERR_MEMORY, dst has unspecified contents.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to, of s), _OPTIONS (s, o, how, zero_points), _ISA, _NULL (shape, s, buffers), _SHAPE,
/// _SIZE (shape), _OVERLAP, _MEMORY, _CANCELLED (progress).
///
/// # Safety
/// As for lanecast_quantize; all but dst is only read.
#[allow(clippy::too_many_arguments, reason = "the signature is that of the interface")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_dequantize(
    from: lanecast_dtype,
    src: *const c_void,
    to: lanecast_dtype,
    dst: *mut c_void,
    shape: *const usize,
    ndim: u32,
    s: *const lanecast_scaling,
    scales: *const c_void,
    zero_points: *const c_void,
    o: *const lanecast_options,
    how: *const lanecast_parallel,
) -> lanecast_status {
    guard(|| {
        let [from, to] = dtypes([from, to])?;
        // SAFETY: the caller's promise.
        let (shape, scaling, options) =
            unsafe { (read_shape(shape, ndim)?, read_scaling("s", s)?, read_options(o)?) };
        let d = Dequantizer::new(from, to, &scaling, &options).map_err(scaled_status)?;
        let sizes = Sizes::new(shape, &scaling, to, from, options.src_packing)?;
        let zeros = if zero_points.is_null() { 0 } else { sizes.zeros };
        apart(&[("dst", dst, sizes.data), ("src", src, sizes.codes)])?;
        apart(&[("dst", dst, sizes.data), ("scales", scales, sizes.scales)])?;
        apart(&[("dst", dst, sizes.data), ("zero_points", zero_points, zeros)])?;
        // SAFETY: the buffers have the sizes that the caller promises, and the destination overlaps none of the others.
        unsafe {
            let zeros = optional("zero_points", zero_points, zeros)?;
            let (src, scales) = (read("src", src, sizes.codes)?, read("scales", scales, sizes.scales)?);
            let dst = write("dst", dst, sizes.data)?;
            on_threads(how, |how| {
                d.dequantize_uninit(src, shape, scales, zeros, dst, how).map(drop).map_err(scaled_status)
            })?
        }
    })
}

/// Casts elements of a shape under one scaling to elements under another, whose scales are found and written to to_scales.
///
/// from_scales and zero_points are those of the source, as in lanecast_dequantize; zero_points may be NULL. tensor_scale is NULL,
/// or receives the new tensor scale, if there is one. how may be NULL for the calling thread. No two buffers may overlap.
/// Buffers of no bytes may be NULL. After LANECAST_ERR_MEMORY, dst and to_scales have unspecified contents.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to, of scalings), _OPTIONS (scalings, o, how, zero_points), _ISA,
/// _NULL (shape, scalings, buffers), _SHAPE, _SIZE (shape), _OVERLAP, _MEMORY, _CANCELLED (progress).
///
/// # Safety
/// As for lanecast_quantize; from_scales and zero_points are read, to_scales is written.
#[allow(clippy::too_many_arguments, reason = "the signature is that of the interface")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_requantize(
    from: lanecast_dtype,
    src: *const c_void,
    from_scaling: *const lanecast_scaling,
    from_scales: *const c_void,
    zero_points: *const c_void,
    to: lanecast_dtype,
    dst: *mut c_void,
    to_scaling: *const lanecast_scaling,
    to_scales: *mut c_void,
    shape: *const usize,
    ndim: u32,
    tensor_scale: *mut f32,
    o: *const lanecast_options,
    how: *const lanecast_parallel,
) -> lanecast_status {
    guard(|| {
        let [from, to] = dtypes([from, to])?;
        // SAFETY: the caller's promise.
        let (shape, source, target, options) = unsafe {
            (
                read_shape(shape, ndim)?,
                read_scaling("from_scaling", from_scaling)?,
                read_scaling("to_scaling", to_scaling)?,
                read_options(o)?,
            )
        };
        let r = Requantizer::new((from, &source), (to, &target), &options).map_err(scaled_status)?;
        let before = Sizes::new(shape, &source, DType::F32, from, options.src_packing)?;
        let after = Sizes::new(shape, &target, DType::F32, to, options.dst_packing)?;
        let zeros = if zero_points.is_null() { 0 } else { before.zeros };
        let given = [
            ("src", src, before.codes),
            ("from_scales", from_scales, before.scales),
            ("zero_points", zero_points, zeros),
        ];
        for piece in given {
            apart(&[("dst", dst, after.codes), ("to_scales", to_scales, after.scales), piece])?;
        }
        // SAFETY: the buffers have the sizes that the caller promises; those that are written overlap no other, and the new scales
        // are initialised first.
        let found = unsafe {
            let zeros = optional("zero_points", zero_points, zeros)?;
            let (src, from_scales) =
                (read("src", src, before.codes)?, read("from_scales", from_scales, before.scales)?);
            r.check_given(zeros.is_some()).map_err(scaled_status)?;
            on_threads(how, |how| {
                let (dst, to_scales) =
                    (write("dst", dst, after.codes)?, zeroed("to_scales", to_scales, after.scales)?);
                r.requantize_uninit(src, shape, from_scales, zeros, dst, to_scales, how)
                    .map(|(_, found)| found)
                    .map_err(scaled_status)
            })?
        };
        // SAFETY: writable by the caller's promise.
        unsafe { write_factor(tensor_scale, found?.tensor_scale) };
        Ok(())
    })
}

/// What a quantisation lost, of a whole tensor or of a block. Output only. There is no size, because this structure never gets
/// another field.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct lanecast_losses {
    /// Elements that were looked at.
    pub elements: u64,
    /// Finite elements that lie, once rounded, beyond the codes of their block.
    pub saturated: u64,
    /// Finite elements other than 0 that became 0.
    pub underflowed: u64,
    /// Elements other than NaN that became NaN.
    pub made_nan: u64,
    /// NaNs that became something else.
    pub lost_nan: u64,
    /// Finite elements that became finite values. The errors below are those of these elements.
    pub compared: u64,
    /// The largest distance from an element to what it became, in units of the data.
    pub max_error: f64,
    /// The sum of these distances.
    pub total_error: f64,
}

const _: () = assert!(size_of::<lanecast_losses>() == 64, "it never changes");

impl From<Losses> for lanecast_losses {
    fn from(losses: Losses) -> Self {
        Self {
            elements: losses.elements as u64,
            saturated: losses.saturated as u64,
            underflowed: losses.underflowed as u64,
            made_nan: losses.made_nan as u64,
            lost_nan: losses.lost_nan as u64,
            compared: losses.compared as u64,
            max_error: losses.max_error,
            total_error: losses.total_error,
        }
    }
}

/// Reports what a quantisation lost, from the data src, and from the codes, scales and zero_points that lanecast_quantize wrote or
/// was given. It is an exact pass of its own, on the calling thread.
///
/// zero_points is NULL if there are none. A tensor scale that was computed must be given in s. all is NULL, or receives the
/// losses of all elements. blocks is NULL, or receives those of each block: one for each scale, in their row-major order. Buffers
/// of no bytes may be NULL.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to, of s), _OPTIONS (s, o, zero_points), _ISA, _NULL (shape, s, buffers), _SHAPE,
/// _SIZE (shape), _MEMORY.
///
/// # Safety
/// As for lanecast_quantize; codes, scales and zero_points are read; all and blocks are NULL or writable.
#[allow(clippy::too_many_arguments, reason = "the signature is that of the interface")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_quantize_losses(
    from: lanecast_dtype,
    src: *const c_void,
    to: lanecast_dtype,
    codes: *const c_void,
    shape: *const usize,
    ndim: u32,
    s: *const lanecast_scaling,
    scales: *const c_void,
    zero_points: *const c_void,
    o: *const lanecast_options,
    all: *mut lanecast_losses,
    blocks: *mut lanecast_losses,
) -> lanecast_status {
    guard(|| {
        let [from, to] = dtypes([from, to])?;
        // SAFETY: the caller's promise.
        let (shape, scaling, options) =
            unsafe { (read_shape(shape, ndim)?, read_scaling("s", s)?, read_options(o)?) };
        let q = Quantizer::new(from, to, &scaling, &options).map_err(scaled_status)?;
        let sizes = Sizes::new(shape, &scaling, from, to, options.dst_packing)?;
        // SAFETY: the buffers have the sizes that the caller promises, and are only read. `all` and `blocks` are NULL or writable
        // by that promise, and nobody else's meanwhile.
        unsafe {
            let zeros = optional("zero_points", zero_points, sizes.zeros)?;
            let (src, codes) = (read("src", src, sizes.data)?, read("codes", codes, sizes.codes)?);
            let scales = read("scales", scales, sizes.scales)?;
            write_losses(sizes.count, all, blocks, |blocks| {
                q.losses(src, shape, codes, scales, zeros, blocks).map(|all| ((), all)).map_err(scaled_status)
            })
        }
    })
}

/// Casts as lanecast_quantize does, and reports what that lost, as lanecast_quantize_losses does, in one pass on the calling
/// thread: what was cast is compared while it is in a cache.
///
/// compute is 0 or 1. 0: scales are given, and so are zero points, if zero_points is not NULL. 1: scales are found from the data
/// and written, and zero_points must be NULL. tensor_scale is NULL, or receives the tensor scale, if there is one. all is
/// NULL, or receives the losses of all elements. blocks is NULL, or receives those of each block: one for each scale, in their
/// row-major order. After LANECAST_ERR_MEMORY, dst, and scales if they are found, have unspecified contents.
/// Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to, of s), _OPTIONS (s, o, compute, zero_points), _ISA, _NULL (shape, s, buffers), _SHAPE,
/// _SIZE (shape), _OVERLAP, _MEMORY.
///
/// # Safety
/// As for lanecast_quantize; all and blocks are NULL or writable.
#[allow(clippy::too_many_arguments, reason = "the signature is that of the interface")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanecast_quantize_with_losses(
    from: lanecast_dtype,
    src: *const c_void,
    to: lanecast_dtype,
    dst: *mut c_void,
    shape: *const usize,
    ndim: u32,
    s: *const lanecast_scaling,
    scales: *mut c_void,
    zero_points: *const c_void,
    compute: u8,
    tensor_scale: *mut f32,
    o: *const lanecast_options,
    all: *mut lanecast_losses,
    blocks: *mut lanecast_losses,
) -> lanecast_status {
    let a = Quantize { from, src, to, dst, shape, ndim, s, scales, zero_points, compute, tensor_scale, o };
    let quantize = |q: &Quantizer, shape: &[usize], sizes: &Sizes| {
        if compute == 1 && !zero_points.is_null() {
            return Err(say(
                LANECAST_ERR_OPTIONS,
                &"zero points are not found here; zero_points must be NULL where compute is 1",
            ));
        }
        let zeros = !zero_points.is_null();
        let checked = if compute == 0 { q.check_given(zeros) } else { q.check_found(zeros) };
        checked.map_err(scaled_status)?;
        // SAFETY: the buffers have the sizes that the caller promises, and no two overlap. Those that are written are initialised
        // first.
        unsafe {
            let src = read("src", src, sizes.data)?;
            write_losses(sizes.count, all, blocks, |blocks| {
                let dst = zeroed("dst", dst, sizes.codes)?;
                if compute == 0 {
                    let (scales, zeros) = (
                        read("scales", scales, sizes.scales)?,
                        optional("zero_points", zero_points, sizes.zeros)?,
                    );
                    let all = q.quantize_given_losses(src, shape, scales, zeros, dst, blocks);
                    return all.map(|all| (None, all)).map_err(scaled_status);
                }
                let scales = zeroed("scales", scales, sizes.scales)?;
                let made = q.quantize_losses(src, shape, dst, scales, blocks);
                made.map(|(found, all)| (found.tensor_scale, all)).map_err(scaled_status)
            })
        }
    };
    // SAFETY: the caller's promise.
    unsafe { a.run(quantize) }
}

/// Calls `run` with room for the losses of blocks, if the caller wants them, and writes the losses that the caller wants.
///
/// # Safety
/// `all` and `blocks` are NULL, or writable for one and for `count`.
unsafe fn write_losses<R>(
    count: usize,
    all: *mut lanecast_losses,
    blocks: *mut lanecast_losses,
    run: impl FnOnce(Option<&mut [Losses]>) -> Result<(R, Losses), lanecast_status>,
) -> Result<R, lanecast_status> {
    let mut of_blocks = Vec::new();
    let count = if blocks.is_null() { 0 } else { count };
    of_blocks.try_reserve_exact(count).map_err(|_| LANECAST_ERR_MEMORY)?;
    of_blocks.resize(count, Losses::default());
    let (made, losses) = run(if blocks.is_null() { None } else { Some(&mut of_blocks[..]) })?;
    // SAFETY: the caller's promise.
    unsafe {
        if !all.is_null() {
            all.write_unaligned(losses.into());
        }
        for (i, losses) in of_blocks.into_iter().enumerate() {
            blocks.add(i).write_unaligned(losses.into());
        }
    }
    Ok(made)
}

/// The bytes of the buffers of a scaled cast, and how many scales there are.
struct Sizes {
    data: usize,
    codes: usize,
    scales: usize,
    zeros: usize,
    count: usize,
}

impl Sizes {
    fn new(
        shape: &[usize],
        scaling: &Scaling,
        data: DType,
        element: DType,
        packing: Packing,
    ) -> Result<Self, lanecast_status> {
        let scales = scaling.scale_bytes(shape).map_err(scaled_status)?;
        let count = scaling.scale_shape(shape).map_err(scaled_status)?;
        let count = if count.contains(&0) { 0 } else { count.iter().product() };
        let n = if shape.contains(&0) {
            Some(0)
        } else {
            shape.iter().try_fold(1usize, |n, &x| n.checked_mul(x))
        };
        let data = n.and_then(|n| data.byte_len(n, Packing::OnePerByte)).ok_or_else(too_large)?;
        Ok(Self {
            data,
            codes: code_bytes(shape, scaling, element, packing)?,
            scales,
            zeros: element.byte_len(count, packing).ok_or_else(too_large)?,
            count,
        })
    }
}
