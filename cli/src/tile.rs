//! Tiles: parts of tensors that a worker reads, converts, compares with their source, and writes.

use std::ops::Range;

use lanecast::scaled::{Dequantizer, Profile, Quantizer, Requantizer, ScaleLayout, Scaling, TensorScale};
use lanecast::views::{StridedView, StridedViewMut};
use lanecast::{Caster, DType, Packing};
use multiversion::multiversion;
use safetensors::Dtype;

use crate::checkpoint::{Checkpoint, Tensor};
use crate::dtypes;
use crate::error::{Failure, Result};
use crate::layout::{Format, Layout, Weight};
use crate::loss::{Largest, Loss, Real};
use crate::packed;
use crate::plan::{Input, Job, Output, Target};

/// How many elements are converted and compared at a time, so that they stay in a cache.
const COMPARED: usize = 1 << 14;

/// How many bytes a tile of a tensor without scales has, so that it stays in a cache between its steps.
const PLAIN: u64 = 1 << 18;

/// By what factor tiles are larger that are transposed: each of them reads some columns of all rows.
const TURNED: u64 = 8;

/// From how many bytes on a tile's columns of a row are read on their own. Otherwise whole rows are read, several at once.
const ALONE: u64 = 1 << 9;

/// The most tiles of a tensor without scales, so that a list of them does not take much memory.
const MOST_TILES: u64 = 1 << 16;

/// The codes or values that a tile has written: the first `n` of `bytes`, at an offset of the file.
pub(crate) struct Main<'a> {
    pub(crate) offset: u64,
    pub(crate) bytes: &'a mut Vec<u8>,
    pub(crate) n: usize,
}

impl<'a> Main<'a> {
    fn write(offset: u64, bytes: &'a mut Vec<u8>, n: usize, write: &mut Write<'_>) -> Result<Self> {
        write(offset, &bytes[..n])?;
        Ok(Self { offset, bytes, n })
    }
}

/// Writes bytes at an offset of the file.
pub(crate) type Write<'a> = dyn FnMut(u64, &[u8]) -> Result<()> + 'a;

/// Buffers that a worker keeps from tile to tile.
#[derive(Default)]
pub(crate) struct Scratch {
    src: Vec<u8>,
    src_scales: Vec<u8>,
    zero_points: Vec<u8>,
    dst: Vec<u8>,
    dst_scales: Vec<u8>,
    /// The values of the source, and those of both sides that are being compared.
    values: Vec<u8>,
    from: Vec<u8>,
    to: Vec<u8>,
    /// Rows from which some columns are taken, and the result of a transposition.
    rows: Vec<u8>,
    turned: Vec<u8>,
}

impl Scratch {
    /// Returns a buffer that may be used between tiles.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.rows
    }
}

/// Returns the first `n` bytes of a buffer, with arbitrary contents. The buffer grows if it is too short.
fn room(buffer: &mut Vec<u8>, n: usize) -> &mut [u8] {
    if buffer.len() < n {
        buffer.resize(n, 0);
    }
    &mut buffer[..n]
}

/// A part of a tensor: `count` rows of a matrix, from `first` on. Without scales, `matrix` is 0, and elements are counted, or bytes for a
/// copy. If the tensor is transposed, columns are counted, or those of gpt-oss in groups of 32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) job: usize,
    pub(crate) matrix: u64,
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// A tensor as a number of matrices, which are its last two dimensions. A tensor without elements has none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrices {
    pub(crate) count: u64,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
}

impl Matrices {
    pub(crate) fn of(shape: &[usize]) -> Self {
        let n = shape.len();
        let at = |i: usize| if n >= i { shape[n - i] as u64 } else { 1 };
        let count = match shape.contains(&0) {
            true => 0,
            false => shape[..n.saturating_sub(2)].iter().map(|&n| n as u64).product(),
        };
        Self { count, rows: at(2), columns: at(1) }
    }
}

/// Returns how many bits an element has in packed codes.
fn bits(dtype: DType) -> u64 {
    u64::from(dtype.bits())
}

fn file_bits(tensor: &Tensor) -> u64 {
    tensor.dtype.bitsize() as u64
}

/// Divides a tensor into tiles of about `most` bytes.
pub(crate) fn tiles(index: usize, job: &Job, most: u64) -> Vec<Tile> {
    let mut tiles = Vec::new();
    let mut cut = |matrix: u64, all: u64, each: u64| {
        let mut first = 0;
        while first < all {
            let count = each.min(all - first);
            tiles.push(Tile { job: index, matrix, first, count });
            first += count;
        }
    };
    match (&job.input, &job.output) {
        (Input::Plain(tensor), Output::Copy) => {
            cut(0, tensor.len, most.min(PLAIN.max(tensor.len / MOST_TILES)));
        }
        (Input::Scaled(..), Output::Copy) => unreachable!("what is copied is taken as it lies"),
        (Input::Plain(tensor), Output::Cast(to)) => {
            let elements = tensor.shape.iter().product::<usize>() as u64;
            // Eight elements are whole bytes in every dtype.
            let bytes = most.min(PLAIN.max(tensor.len / MOST_TILES));
            let each = (bytes * 8 / file_bits(tensor).max(bits(*to))).next_multiple_of(8);
            cut(0, elements, each);
        }
        (input, output) => {
            let ((shape, from_rows), from) = match input {
                Input::Plain(tensor) => (logical(input), file_bits(tensor)),
                // If it is transposed, `turned` divides its columns.
                Input::Scaled(weight, ..) if matches!(output, Output::Cast(_)) => {
                    ((weight.shape.clone(), weight.format.block_rows as u64), bits(weight.format.elem))
                }
                // Codes become float64 on their way to other codes.
                Input::Scaled(weight, ..) => (logical(input), bits(weight.format.elem)),
            };
            let (rows, to) = match output {
                Output::Quantise(target) if matches!(input, Input::Plain(_)) => {
                    (target.format.block_rows as u64, from)
                }
                Output::Quantise(target) => (target.format.block_rows as u64, 64),
                Output::Cast(to) => (1, bits(*to)),
                Output::Copy => unreachable!("above"),
            };
            let whole = Matrices::of(&shape);
            if whole.count == 0 {
                return tiles;
            }
            // If the tensor is transposed, a tile has some columns of all rows, in whole groups if the source has groups of 32.
            let turned = match (input, output) {
                (Input::Scaled(weight, ..), Output::Cast(_)) if weight.transposed => Some(32),
                (_, Output::Quantise(target)) if target.transposed => Some(1),
                _ => None,
            };
            if let Some(columns) = turned {
                let each = (most * TURNED * 8 / (whole.rows * columns * to.max(16)).max(1)).max(1);
                for matrix in 0..whole.count {
                    cut(matrix, whole.columns / columns, each);
                }
                return tiles;
            }
            // Otherwise a tile has whole rows of blocks of both sides, which are columns of all rows of a source that is transposed.
            let block = least_common_multiple(rows, from_rows);
            let is_turned = matches!(input, Input::Scaled(weight, ..) if weight.transposed);
            let most = if is_turned { most * TURNED } else { most };
            let each = (most * 8 / (whole.columns * to.max(from)).max(1)).max(1);
            let each = if each < block { block } else { each / block * block };
            for matrix in 0..whole.count {
                cut(matrix, whole.rows, each);
            }
        }
    }
    tiles
}

pub(crate) fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

fn wrong(error: lanecast::scaled::Error) -> Failure {
    Failure::refused(error.to_string())
}

fn wrong_cast(error: lanecast::Error) -> Failure {
    Failure::refused(error.to_string())
}

/// Refuses scales that are NaN, infinite or negative.
pub(crate) fn check_scales(dtype: DType, bytes: &[u8], scales: &Tensor) -> Result<()> {
    let bad = if dtype == DType::F8E8M0 {
        bytes.contains(&0xFF).then(|| "NaN (FF)".to_owned())
    } else {
        let n = bytes.len() * 8 / dtype.bits() as usize;
        let mut wide = Vec::new();
        cast(dtype, Packing::LowFirst, bytes, n, DType::F64, &mut wide)?;
        f64::read(&wide).find(|&x| !(x.is_finite() && x >= 0.0)).map(|x| x.to_string())
    };
    match bad {
        None => Ok(()),
        Some(value) => Err(Failure::refused(format!("a scale is {value}")).tensor(&scales.name).help(
            "scales must be finite and not negative: the file is damaged, or has another layout (--from)",
        )),
    }
}

/// Rows of a matrix of codes, and the bytes of their scales.
struct Part {
    rows: Range<usize>,
    scales: Range<usize>,
}

/// Divides rows, whose scales have `scales` bytes, into parts whose values stay in a cache between the steps. With zero points there is one
/// part, because those of a part might begin within a byte.
fn parts_of(
    [rows, columns]: [usize; 2],
    format: &Format,
    scales: usize,
    has_zero_points: bool,
) -> Result<Vec<Part>> {
    let some = (COMPARED / columns.max(1)).max(1);
    if rows <= some || has_zero_points || format.scaling.layout != ScaleLayout::RowMajor {
        return Ok(vec![Part { rows: 0..rows, scales: 0..scales }]);
    }
    let block = format.block_rows;
    let each = format.scaling.scale_bytes(&[block, columns]).map_err(wrong)?;
    let is_shared = rows.div_ceil(block) * each != scales;
    let mut parts = Vec::new();
    let mut first = 0;
    while first < rows {
        // A part has whole rows of blocks, or some rows of one.
        let end = if some < block {
            (first + some).min((first / block + 1) * block)
        } else {
            first + some / block * block
        };
        let end = end.min(rows);
        let of_rows = first / block * each..end.div_ceil(block) * each;
        parts.push(Part { rows: first..end, scales: if is_shared { 0..scales } else { of_rows } });
        first = end;
    }
    Ok(parts)
}

/// Returns the range of bytes of `n` elements from `first` on, which begins at a byte.
fn bytes(dtype: DType, first: usize, n: usize) -> Range<usize> {
    let bits = bits(dtype) as usize;
    first * bits / 8..((first + n) * bits).div_ceil(8)
}

/// Casts elements to a dtype of whole bytes, little-endian.
fn cast<'a>(
    from: DType,
    packing: Packing,
    src: &[u8],
    n: usize,
    to: DType,
    dst: &'a mut Vec<u8>,
) -> Result<&'a [u8]> {
    let caster = Caster::new(from, to, &dtypes::options().src_packing(packing)).map_err(wrong_cast)?;
    let dst = room(dst, (n * bits(to) as usize).div_ceil(8));
    caster.cast(src, dst, n).map_err(wrong_cast)?;
    Ok(dst)
}

/// As [`cast`], but without a copy if the elements have the dtype already.
fn widen<'a>(from: DType, src: &'a [u8], n: usize, to: DType, dst: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    if from == to { Ok(src) } else { cast(from, Packing::LowFirst, src, n, to, dst) }
}

/// Reads the rows of codes of a tile, and their scales. Returns the shape of the codes.
fn read_rows(
    it: &Checkpoint,
    (weight, codes, scales): (&Weight, &Tensor, &Tensor),
    tile: &Tile,
    buffer: &mut Vec<u8>,
    scale_buffer: &mut Vec<u8>,
) -> Result<[usize; 2]> {
    let whole = Matrices::of(&weight.shape);
    let format = &weight.format;
    let row = whole.columns * bits(format.elem) / 8;
    buffer.resize((tile.count * row) as usize, 0);
    let at = codes.offset + (tile.matrix * whole.rows + tile.first) * row;
    it.shards[codes.shard].read(buffer, at)?;
    format.unbias(buffer);
    // The scales of these rows are contiguous in every layout.
    let each = bits(format.scaling.scale_dtype) / 8;
    let bytes = |rows: u64| -> Result<u64> {
        let shape = [rows as usize, whole.columns as usize];
        Ok(if rows == 0 { 0 } else { format.scaling.scale_bytes(&shape).map_err(wrong)? as u64 })
    };
    let of_tensor = scales.len == each && format.block_cols == 0;
    let (from, len) = if of_tensor {
        (0, each)
    } else {
        (tile.matrix * bytes(whole.rows)? + bytes(tile.first)?, bytes(tile.count)?)
    };
    if from + len > scales.len {
        return Err(Failure::refused(format!("scales {:?} end too early", scales.shape)).tensor(&scales.name));
    }
    scale_buffer.resize(len as usize, 0);
    it.shards[scales.shard].read(scale_buffer, scales.offset + from)?;
    check_scales(format.scaling.scale_dtype, scale_buffer, scales)?;
    Ok([tile.count as usize, whole.columns as usize])
}

/// Reads some columns of all rows of a matrix. The tile counts columns in units of `size` bytes.
pub(crate) fn read_columns(
    it: &Checkpoint,
    tensor: &Tensor,
    (rows, units, size): (u64, u64, u64),
    tile: &Tile,
    lines: &mut Vec<u8>,
    into: &mut Vec<u8>,
) -> Result<()> {
    into.clear();
    let [row, first, part] = [units, tile.first, tile.count].map(|units| units * size);
    let at = tensor.offset + tile.matrix * rows * row;
    if part >= ALONE && part <= row / 2 {
        for (line, i) in room(into, (rows * part) as usize).chunks_exact_mut(part as usize).zip(0..) {
            it.shards[tensor.shard].read(line, at + i * row + first)?;
        }
        return Ok(());
    }
    let some = ((1 << 20) / row.max(1)).max(1);
    let mut done = 0;
    while done < rows {
        let count = some.min(rows - done);
        let lines = room(lines, (count * row) as usize);
        it.shards[tensor.shard].read(lines, at + done * row)?;
        for line in lines.chunks_exact(row as usize) {
            into.extend(&line[first as usize..(first + part) as usize]);
        }
        done += count;
    }
    Ok(())
}

/// Reads some groups of columns of a gpt-oss weight: `[rows, groups, 16]` bytes of codes and `[rows, groups]` scales.
fn read_groups(
    it: &Checkpoint,
    (weight, codes, scales): (&Weight, &Tensor, &Tensor),
    tile: &Tile,
    lines: &mut Vec<u8>,
    buffer: &mut Vec<u8>,
    scale_buffer: &mut Vec<u8>,
) -> Result<[usize; 2]> {
    let whole = Matrices::of(&weight.shape);
    let (groups, rows) = (whole.columns / 32, whole.rows);
    read_columns(it, codes, (rows, groups, 16), tile, lines, buffer)?;
    read_columns(it, scales, (rows, groups, 1), tile, lines, scale_buffer)?;
    check_scales(DType::F8E8M0, scale_buffer, scales)?;
    Ok([rows as usize, tile.count as usize * 32])
}

/// Reads the codes of a tile, their scales and their zero points, whose buffer is empty if there are none. Returns the shape of the codes.
/// If the weight is transposed, the tile counts columns in groups of 32.
fn read_codes(
    it: &Checkpoint,
    parts: (&Weight, &Tensor, &Tensor),
    tile: &Tile,
    lines: &mut Vec<u8>,
    [buffer, scale_buffer, zero_points]: [&mut Vec<u8>; 3],
) -> Result<[usize; 2]> {
    let (weight, ..) = parts;
    match weight.layout {
        Layout::Awq | Layout::Gptq => {
            return packed::columns(it, parts, tile, lines, [buffer, scale_buffer, zero_points]);
        }
        _ => zero_points.clear(),
    }
    if weight.transposed {
        return read_groups(it, parts, tile, lines, buffer, scale_buffer);
    }
    if let Some(name) = &weight.zero_points {
        packed::zero_points_of_rows(it, weight, &it.tensors[name], tile, zero_points)?;
    }
    read_rows(it, parts, tile, buffer, scale_buffer)
}

/// Returns the zero points that [`read_codes`] has read, if any.
fn some(zero_points: &[u8]) -> Option<&[u8]> {
    (!zero_points.is_empty()).then_some(zero_points)
}

/// Transposes a matrix whose elements have `each` bytes.
fn transpose(bytes: &[u8], [rows, columns]: [usize; 2], each: usize, out: &mut Vec<u8>) -> Result<()> {
    let dtype = match each {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    };
    let out = room(out, bytes.len());
    let (shape, each) = ([columns, rows], each as isize);
    let (src, dst) = ([each, columns as isize * each], [rows as isize * each, each]);
    Caster::new(dtype, dtype, &dtypes::options())
        .and_then(|copier| {
            let to = &mut StridedViewMut::new(out, 0, &shape, &dst);
            copier.cast_strided(&StridedView::new(bytes, 0, &shape, &src), to)
        })
        .map_err(wrong_cast)
}

/// Returns the shape that the values of a source have without quantisation, and the rows of a block in that shape.
pub(crate) fn logical(input: &Input) -> (Vec<usize>, u64) {
    match input {
        Input::Plain(tensor) => (tensor.shape.to_vec(), 1),
        Input::Scaled(weight, ..) => {
            let rows = if weight.transposed { 32 } else { weight.format.block_rows as u64 };
            (weight.logical(), rows)
        }
    }
}

/// Returns the values of a tile of the source, which counts rows of the [`logical`] shape, as elements of a float dtype.
pub(crate) fn values(
    it: &Checkpoint,
    input: &Input,
    tile: &Tile,
    to: DType,
    scratch: &mut Scratch,
) -> Result<Vec<u8>> {
    let Scratch { src, src_scales, zero_points, dst, rows, .. } = scratch;
    match input {
        Input::Plain(tensor) => {
            let from = dtypes::of(tensor.dtype).expect("a float");
            let n = read_plain(it, tensor, tile, src)?;
            cast(from, Packing::LowFirst, src, n, to, dst).map(<[u8]>::to_vec)
        }
        Input::Scaled(weight, codes, scales) => {
            let format = &weight.format;
            let options = dtypes::options().src_packing(format.packing);
            let parts = (&**weight, &**codes, &**scales);
            let tile = match weight.transposed {
                true => Tile { first: tile.first / 32, count: tile.count / 32, ..*tile },
                false => *tile,
            };
            let shape = read_codes(it, parts, &tile, rows, [&mut *src, &mut *src_scales, &mut *zero_points])?;
            let each = bits(to) as usize / 8;
            let mut out = vec![0; shape[0] * shape[1] * each];
            let d = Dequantizer::new(format.elem, to, &format.scaling, &options).map_err(wrong)?;
            d.dequantize(src, &shape, src_scales, some(zero_points), &mut out).map_err(wrong)?;
            if weight.transposed {
                transpose(&out, shape, each, dst)?;
                let n = out.len();
                out.copy_from_slice(&dst[..n]);
            }
            Ok(out)
        }
    }
}

/// Reads a tile of a tensor that is not quantised, and returns how many elements it has.
fn read_plain(it: &Checkpoint, tensor: &Tensor, tile: &Tile, bytes: &mut Vec<u8>) -> Result<usize> {
    let whole = Matrices::of(&tensor.shape);
    let row = whole.columns * file_bits(tensor) / 8;
    bytes.resize((tile.count * row) as usize, 0);
    let at = tensor.offset + (tile.matrix * whole.rows + tile.first) * row;
    it.shards[tensor.shard].read(bytes, at)?;
    Ok((tile.count * whole.columns) as usize)
}

/// Returns an unquantised tensor as rows of 8 elements, or of 1, so that tiles can be of any size. None if such rows would not be whole
/// bytes.
pub(crate) fn flat(input: &Input) -> Option<Input> {
    let Input::Plain(tensor) = input else { return None };
    let n: usize = tensor.shape.iter().product();
    let shape = if n.is_multiple_of(8) { [n / 8, 8] } else { [n, 1] };
    let flat = Tensor { shape: shape.into(), ..(**tensor).clone() };
    (n.is_multiple_of(8) || tensor.dtype.bitsize() >= 8).then_some(Input::Plain(flat.into()))
}

/// Returns the index among the values of the element with an index among the codes, which differs if one side is the transpose of the
/// other. Losses have indices among the codes: of several that are equal, the same one is then reported however the tiles are cut.
pub(crate) fn among_values(job: &Job, at: u64) -> u64 {
    let codes = match (&job.input, &job.output) {
        (Input::Scaled(weight, ..), Output::Cast(_)) if weight.transposed => Matrices::of(&weight.shape),
        (input, Output::Quantise(target)) if target.transposed => {
            let Matrices { count, rows, columns } = Matrices::of(&logical(input).0);
            Matrices { count, rows: columns, columns: rows }
        }
        _ => return at,
    };
    let (row, column) = (at / codes.columns.max(1), at % codes.columns.max(1));
    let (matrix, row) = (row / codes.rows.max(1), row % codes.rows.max(1));
    (matrix * codes.columns + column) * codes.rows + row
}

/// Returns the largest magnitude of a tile as the bits of a float64, which compare as magnitudes do, with NaN as the largest.
pub(crate) fn amax(it: &Checkpoint, job: &Job, tile: &Tile, scratch: &mut Scratch) -> Result<u64> {
    if matches!(&job.input, Input::Plain(tensor) if tensor.dtype != Dtype::F64) {
        // They are exact as float32.
        let values = values(it, &job.input, tile, DType::F32, scratch)?;
        return Ok(f64::from(f32::from_bits(most(&values))).to_bits());
    }
    let values = values(it, &job.input, tile, DType::F64, scratch)?;
    Ok(f64::read(&values).map(|x| x.abs().to_bits()).max().unwrap_or(0))
}

/// Returns the bits of the largest magnitude of some float32.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn most(values: &[u8]) -> u32 {
    f32::read(values).map(|x| x.abs().to_bits()).fold(0, u32::max)
}

/// Returns the scale of a whole tensor, or its factor, for its largest magnitude: a tensor of this one element is quantised.
pub(crate) fn of_amax(target: &Target, amax: f64) -> Result<(Vec<u8>, Option<f32>)> {
    let format = &target.format;
    let mut scales = vec![0; format.scaling.scale_bytes(&[1, 1]).map_err(wrong)?];
    let q = Quantizer::new(DType::F64, format.elem, &format.scaling, &dtypes::options()).map_err(wrong)?;
    let mut codes = vec![0; q.code_bytes(&[1, 1]).map_err(wrong)?];
    let found = q.quantize(&amax.to_le_bytes(), &[1, 1], &mut codes, &mut scales).map_err(wrong)?;
    Ok((scales, found.tensor_scale))
}

/// Returns the tensor scale with a known factor in place of one to be computed.
fn with_factor(computed: TensorScale, factor: f32) -> TensorScale {
    match computed {
        TensorScale::ComputeMultiply => TensorScale::Multiply(factor),
        _ => TensorScale::Divide(factor),
    }
}

/// Quantises elements of a shape to codes and scales, or by the scale of the tensor, if it is given.
fn quantise_by(
    target: &Target,
    scaling: &Scaling,
    given: Option<&[u8]>,
    (from, src, shape): (DType, &[u8], &[usize]),
    dst: &mut [u8],
    scales: &mut [u8],
) -> Result<()> {
    let format = &target.format;
    let options = dtypes::options().dst_packing(format.packing);
    let q = Quantizer::new(from, format.elem, scaling, &options).map_err(wrong)?;
    match given {
        Some(scale) => q.quantize_given(src, shape, scale, None, dst).map_err(wrong),
        None => q.quantize(src, shape, dst, scales).map(drop).map_err(wrong),
    }
}

/// Quantises a few elements of a dtype, so that what a rule or a profile cannot do is an error before anything is written.
pub(crate) fn try_out(target: &Target, from: DType) -> Result<()> {
    let format = &target.format;
    let mut scaling = format.scaling;
    let mut given = None;
    if target.group.is_some() {
        let (scale, factor) = of_amax(target, 1.0)?;
        if let Some(factor) = factor.filter(|_| target.global) {
            scaling.tensor_scale = with_factor(scaling.tensor_scale, factor);
        }
        given = target.of_tensor.then_some(scale);
    }
    let shape = [1, format.block_cols.max(1)];
    let src = vec![0; shape[1] * from.itemsize()];
    let mut dst = vec![0; (shape[1] * bits(format.elem) as usize).div_ceil(8)];
    let mut scales = vec![0; scaling.scale_bytes(&shape).map_err(wrong)?];
    quantise_by(target, &scaling, given.as_deref(), (from, &src, &shape), &mut dst, &mut scales)
}

/// Checks that the profile of a weight's scaling can dequantise to a dtype.
pub(crate) fn try_out_dequantising(weight: &Weight, to: DType) -> Result<()> {
    let options = dtypes::options().src_packing(weight.format.packing);
    Dequantizer::new(weight.format.elem, by(to), &weight.format.scaling, &options).map(drop).map_err(wrong)
}

/// Returns the dtype to which scaled elements are dequantised. Floats of 8 bits without scales are then cast from float64, in which the
/// product of a code and its scale is exact.
fn by(to: DType) -> DType {
    if to.bits() <= 8 { DType::F64 } else { to }
}

/// Returns the dtype in which errors are computed: float32, if one side is exact in it and rounding the other adds little to the error.
fn compared_in(input: &Input, output: &Output) -> DType {
    let wide = match (input, output) {
        (Input::Plain(tensor), Output::Cast(DType::F64)) => tensor.dtype == Dtype::F64,
        (Input::Plain(tensor), _) => tensor.dtype == Dtype::F64,
        (Input::Scaled(..), Output::Cast(to)) => matches!(to, DType::F32 | DType::F64),
        (Input::Scaled(..), _) => false,
    };
    if wide { DType::F64 } else { DType::F32 }
}

impl Loss {
    fn compare(&mut self, first: u64, wide: DType, from: &[u8], to: &[u8]) {
        match wide {
            DType::F64 => self.add::<f64>(first, from, to),
            _ => self.add::<f32>(first, from, to),
        }
    }

    /// Compares elements of whole bytes, [`COMPARED`] at a time. If the result is codes, counts those that were clamped.
    fn elements(
        &mut self,
        (first, n, wide): (u64, usize, DType),
        (from, src): (DType, &[u8]),
        (to, dst): (DType, &[u8]),
        codes: Option<(&[u8], &Largest)>,
        [x, y]: [&mut Vec<u8>; 2],
    ) -> Result<()> {
        for at in (0..n).step_by(COMPARED) {
            let some = COMPARED.min(n - at);
            let part = |bits: u64| at * bits as usize / 8..((at + some) * bits as usize).div_ceil(8);
            let x = widen(from, &src[part(bits(from))], some, wide, x)?;
            let y = widen(to, &dst[part(bits(to))], some, wide, y)?;
            self.compare(first + at as u64, wide, x, y);
            if let Some((codes, largest)) = codes {
                let codes = &codes[part(largest.bits())];
                match wide {
                    DType::F64 => self.clamped::<f64>(x, y, codes, largest),
                    _ => self.clamped::<f32>(x, y, codes, largest),
                }
            }
        }
        Ok(())
    }
}

/// Converts a tile. `amax` is the largest magnitude of the group, if the target has one.
pub(crate) fn convert<'a>(
    it: &Checkpoint,
    job: &Job,
    tile: &Tile,
    amax: Option<f64>,
    scratch: &'a mut Scratch,
    write: &mut Write<'_>,
) -> Result<(Loss, Main<'a>)> {
    let done = match (&job.input, &job.output) {
        (Input::Plain(tensor), Output::Copy) => copy(it, job, tensor, tile, scratch, write),
        (Input::Scaled(..), Output::Copy) => unreachable!("what is copied is taken as it lies"),
        (Input::Plain(tensor), Output::Cast(to)) => plain(it, job, tensor, *to, tile, scratch, write),
        (Input::Scaled(weight, codes, scales), Output::Cast(to)) => {
            dequantise(it, job, (weight, codes, scales), *to, tile, scratch, write)
        }
        (_, Output::Quantise(target)) => quantise(it, job, target, tile, amax, scratch, write),
    };
    done.map_err(|failure| failure.tensor(&job.name))
}

fn copy<'a>(
    it: &Checkpoint,
    job: &Job,
    tensor: &Tensor,
    tile: &Tile,
    scratch: &'a mut Scratch,
    write: &mut Write<'_>,
) -> Result<(Loss, Main<'a>)> {
    let n = tile.count as usize;
    it.shards[tensor.shard].read(room(&mut scratch.src, n), tensor.offset + tile.first)?;
    let main = Main::write(job.outs[0].offset + tile.first, &mut scratch.src, n, write)?;
    Ok((Loss::default(), main))
}

fn plain<'a>(
    it: &Checkpoint,
    job: &Job,
    tensor: &Tensor,
    to: DType,
    tile: &Tile,
    scratch: &'a mut Scratch,
    write: &mut Write<'_>,
) -> Result<(Loss, Main<'a>)> {
    let Scratch { src, dst: made, from: x, to: y, .. } = scratch;
    let from = dtypes::of(tensor.dtype).expect("a float");
    let n = tile.count as usize;
    let src = room(src, (n * bits(from) as usize).div_ceil(8));
    it.shards[tensor.shard].read(src, tensor.offset + tile.first * bits(from) / 8)?;
    let dst = room(made, (n * bits(to) as usize).div_ceil(8));
    Caster::new(from, to, &dtypes::options()).and_then(|c| c.cast(src, dst, n)).map_err(wrong_cast)?;
    let wide = compared_in(&job.input, &job.output);
    let mut loss = Loss::default();
    let largest = Largest::of(to, Packing::LowFirst).filter(|_| dtypes::is_narrow(job.outs[0].dtype));
    let codes = largest.as_ref().map(|largest| (&*dst, largest));
    loss.elements((tile.first, n, wide), (from, src), (to, dst), codes, [x, y])?;
    let n = dst.len();
    Ok((loss, Main::write(job.outs[0].offset + tile.first * bits(to) / 8, made, n, write)?))
}

fn dequantise<'a>(
    it: &Checkpoint,
    job: &Job,
    parts: (&Weight, &Tensor, &Tensor),
    to: DType,
    tile: &Tile,
    scratch: &'a mut Scratch,
    write: &mut Write<'_>,
) -> Result<(Loss, Main<'a>)> {
    let Scratch {
        src,
        src_scales,
        zero_points,
        dst: made,
        values: x,
        from: none,
        to: y,
        rows: lines,
        turned,
        ..
    } = scratch;
    let weight = parts.0;
    let format = &weight.format;
    let shape = read_codes(it, parts, tile, lines, [&mut *src, &mut *src_scales, &mut *zero_points])?;
    let n = shape[0] * shape[1];
    let zeros = some(zero_points);
    let options = dtypes::options().src_packing(format.packing);
    let values = |dtype: DType, scaling: &Scaling| {
        Dequantizer::new(format.elem, dtype, scaling, &options).map_err(wrong)
    };
    let wide = compared_in(&job.input, &job.output);
    let narrow = dtypes::is_narrow(job.outs[0].dtype);
    let by = by(to);
    let (result, exact) =
        (values(by, &format.scaling)?, values(wide, &format.scaling.profile(Profile::Lanecast))?);
    let largest = Largest::of(to, Packing::LowFirst).filter(|_| narrow);
    let dst = room(made, n * bits(to) as usize / 8);
    let whole = Matrices::of(&weight.shape);
    let place = job.outs[0].offset;
    let first = if weight.transposed { 0 } else { (tile.matrix * whole.rows + tile.first) * whole.columns };
    let mut loss = Loss::default();
    for Part { rows, scales, .. } in parts_of(shape, format, src_scales.len(), zeros.is_some())? {
        let (at, n, shape) = (rows.start * shape[1], rows.len() * shape[1], [rows.len(), shape[1]]);
        let codes = &src[bytes(format.elem, at, n)];
        let scales = &src_scales[scales];
        let dst = &mut dst[bytes(to, at, n)];
        if narrow {
            let values = room(lines, n * bits(by) as usize / 8);
            result.dequantize(codes, &shape, scales, zeros, values).map_err(wrong)?;
            let caster = Caster::new(by, to, &dtypes::options());
            caster.and_then(|c| c.cast(values, dst, n)).map_err(wrong_cast)?;
        } else {
            result.dequantize(codes, &shape, scales, zeros, dst).map_err(wrong)?;
        }
        let x = room(x, n * bits(wide) as usize / 8);
        exact.dequantize(codes, &shape, scales, zeros, x).map_err(wrong)?;
        let clamped = largest.as_ref().map(|largest| (&*dst, largest));
        loss.elements((first + at as u64, n, wide), (wide, x), (to, dst), clamped, [&mut *none, &mut *y])?;
    }
    if weight.transposed {
        // The loss has an index within the tile, which becomes that among all codes.
        let (row, column) = (loss.at / shape[1] as u64, loss.at % shape[1] as u64);
        loss.at = (tile.matrix * whole.rows + row) * whole.columns + tile.first * 32 + column;
        transpose(dst, shape, bits(to) as usize / 8, turned)?;
        let at = (tile.matrix * whole.columns + tile.first * 32) * whole.rows * bits(to) / 8;
        let n = dst.len();
        Ok((loss, Main::write(place + at, turned, n, write)?))
    } else {
        let n = dst.len();
        Ok((loss, Main::write(place + first * bits(to) / 8, made, n, write)?))
    }
}

/// Returns the tensor scale for another layout: the nearest reciprocal, if one of the layouts multiplies by it and the other divides.
fn other_factor(from: TensorScale, to: TensorScale) -> Result<Option<TensorScale>> {
    let reciprocal = |x: f32| {
        let help = "convert it to f32, and that to the layout, which computes new scales";
        let wrong =
            || Failure::refused(format!("the global scale {x} has no reciprocal in float32")).help(help);
        Some(x.recip()).filter(|x| x.is_normal()).ok_or_else(wrong)
    };
    Ok(Some(match (from, to) {
        (TensorScale::Divide(_), TensorScale::ComputeDivide) => from,
        (TensorScale::Multiply(_), TensorScale::ComputeMultiply) => from,
        (TensorScale::Divide(x), TensorScale::ComputeMultiply) => TensorScale::Multiply(reciprocal(x)?),
        (TensorScale::Multiply(x), TensorScale::ComputeDivide) => TensorScale::Divide(reciprocal(x)?),
        _ => return Ok(None),
    }))
}

/// Brings scales of one byte to the order of another layout. Padding is 0.
fn reorder(
    from: &[u8],
    from_layout: ScaleLayout,
    to: &mut [u8],
    to_layout: ScaleLayout,
    [rows, columns]: [usize; 2],
) {
    to.fill(0);
    for row in 0..rows {
        for column in 0..columns {
            let at = |layout| match layout {
                // Tiles of 128 x 4 scales, in which the scales of rows that are 32 apart are adjacent.
                ScaleLayout::Swizzle32x4x4 => {
                    let tile = row / 128 * columns.div_ceil(4) + column / 4;
                    tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4
                }
                _ => row * columns + column,
            };
            to[at(to_layout)] = from[at(from_layout)];
        }
    }
}

/// Codes, scales and zero points of a tile.
type Source<'a> = (&'a [u8], &'a [u8], Option<&'a [u8]>);

/// The quantisation of a tile.
struct Quantising<'a> {
    job: &'a Job,
    target: &'a Target,
    tile: &'a Tile,
    /// The scaling of the target, with the tensor scale once that is known.
    scaling: Scaling,
    /// The scale of the whole tensor, if there is one.
    given: Option<Vec<u8>>,
    /// The shape of the tensor that is quantised, and that of the tile.
    whole: Matrices,
    part: [usize; 2],
    /// The dtype in which errors are computed.
    wide: DType,
}

impl<'a> Quantising<'a> {
    fn new(job: &'a Job, target: &'a Target, tile: &'a Tile) -> Self {
        let mut whole = Matrices::of(&logical(&job.input).0);
        if target.transposed {
            (whole.rows, whole.columns) = (whole.columns, whole.rows);
        }
        let part = [tile.count as usize, whole.columns as usize];
        let wide = compared_in(&job.input, &job.output);
        Self { job, target, tile, scaling: target.format.scaling, given: None, whole, part, wide }
    }

    fn n(&self) -> usize {
        self.part[0] * self.part[1]
    }

    /// Whether this is the first tile of its tensor, which writes the tensor's scale or factor.
    fn is_first(&self) -> bool {
        self.tile.matrix == 0 && self.tile.first == 0
    }

    /// Computes the scale or factor of the whole tensor; the first tile writes it.
    fn of_tensor(&mut self, amax: f64, write: &mut Write<'_>) -> Result<()> {
        let (scale, factor) = of_amax(self.target, amax)?;
        if let Some(factor) = factor.filter(|_| self.target.global) {
            self.scaling.tensor_scale = with_factor(self.scaling.tensor_scale, factor);
            if self.is_first() {
                write(self.job.outs[2].offset, &factor.to_le_bytes())?;
            }
        }
        if self.target.of_tensor {
            if self.is_first() {
                write(self.job.outs[1].offset, &scale)?;
            }
            self.given = Some(scale);
        }
        Ok(())
    }

    /// Reads the elements of an unquantised tile, transposed if the target is, and returns their dtype.
    fn read_elements(
        &self,
        it: &Checkpoint,
        tensor: &Tensor,
        [src, rows, turned]: [&mut Vec<u8>; 3],
    ) -> Result<DType> {
        let from = dtypes::of(tensor.dtype).expect("a float");
        if self.target.transposed {
            let size = bits(from) / 8;
            read_columns(it, tensor, (self.whole.columns, self.whole.rows, size), self.tile, rows, src)?;
            transpose(src, [self.part[1], self.part[0]], size as usize, turned)?;
            let n = src.len();
            src.copy_from_slice(&turned[..n]);
        } else {
            read_plain(it, tensor, self.tile, src)?;
        }
        if !dtypes::is_narrow(tensor.dtype) {
            return Ok(from);
        }
        // They are exact as float32.
        let wide = cast(from, Packing::LowFirst, src, self.n(), DType::F32, turned)?.to_vec();
        *src = wide;
        Ok(DType::F32)
    }

    /// Quantises elements to codes and scales.
    fn quantise(&self, from: DType, src: &[u8], dst: &mut [u8], scales: &mut [u8]) -> Result<()> {
        quantise_by(self.target, &self.scaling, self.given.as_deref(), (from, src, &self.part), dst, scales)
    }

    /// Copies codes and scales to the order of another layout. At most the tensor scale is computed.
    fn relabel(
        &mut self,
        weight: &Weight,
        (src, src_scales, _): Source<'_>,
        (dst, scales): (&mut [u8], &mut [u8]),
        write: &mut Write<'_>,
    ) -> Result<()> {
        let format = &self.target.format;
        dst.copy_from_slice(src);
        if weight.format.packing != format.packing {
            // The two codes of a byte are in the other order.
            dst.iter_mut().for_each(|byte| *byte = byte.rotate_left(4));
        }
        let from = &weight.format.scaling;
        if let Some(factor) = other_factor(from.tensor_scale, self.scaling.tensor_scale)? {
            self.scaling.tensor_scale = factor;
            if let (TensorScale::Divide(factor) | TensorScale::Multiply(factor), true) =
                (factor, self.is_first())
            {
                write(self.job.outs[2].offset, &factor.to_le_bytes())?;
            }
        }
        if self.target.of_tensor {
            if self.is_first() {
                write(self.job.outs[1].offset, src_scales)?;
            }
            self.given = Some(src_scales.to_vec());
        } else {
            let shape = [self.part[0], self.part[1] / format.block_cols];
            reorder(src_scales, from.layout, scales, self.scaling.layout, shape);
        }
        Ok(())
    }

    /// Requantises codes and scales to another layout, with one rounding. For given scales or the steps of another package, the values go
    /// by way of float64, in which the product of a code and a scale is exact.
    fn requantise(
        &self,
        weight: &Weight,
        (src, src_scales, zeros): Source<'_>,
        (dst, scales): (&mut [u8], &mut [u8]),
        values: &mut Vec<u8>,
    ) -> Result<()> {
        let (to, from) = (&self.target.format, &weight.format);
        if self.given.is_none() && self.scaling.profile == Profile::Lanecast {
            let options = dtypes::options().src_packing(from.packing).dst_packing(to.packing);
            let (from, to) = ((from.elem, &from.scaling), (to.elem, &self.scaling));
            let r = Requantizer::new(from, to, &options).map_err(wrong)?;
            return r.requantize(src, &self.part, src_scales, zeros, dst, scales).map(drop).map_err(wrong);
        }
        let values = self.dequantise(weight, (src, src_scales, zeros), DType::F64, values)?;
        self.quantise(DType::F64, values, dst, scales)
    }

    /// Returns the values of codes and scales of the source.
    fn dequantise<'v>(
        &self,
        weight: &Weight,
        (src, src_scales, zeros): Source<'_>,
        to: DType,
        values: &'v mut Vec<u8>,
    ) -> Result<&'v [u8]> {
        let format = &weight.format;
        let options = dtypes::options().src_packing(format.packing);
        let values = room(values, self.n() * bits(to) as usize / 8);
        let d = Dequantizer::new(format.elem, to, &format.scaling, &options).map_err(wrong)?;
        d.dequantize(src, &self.part, src_scales, zeros, values).map_err(wrong)?;
        Ok(values)
    }

    /// Writes the scales of blocks.
    fn write_scales(&self, scales: &[u8], write: &mut Write<'_>) -> Result<()> {
        let bytes = |rows: u64| -> Result<u64> {
            let shape = [rows as usize, self.part[1]];
            Ok(if rows == 0 { 0 } else { self.scaling.scale_bytes(&shape).map_err(wrong)? as u64 })
        };
        let at = self.tile.matrix * bytes(self.whole.rows)? + bytes(self.tile.first)?;
        write(self.job.outs[1].offset + at, scales)
    }

    /// Returns the index among all codes of the tile's first element.
    fn first(&self) -> u64 {
        (self.tile.matrix * self.whole.rows + self.tile.first) * self.whole.columns
    }

    /// Compares the values of the source with those of the result, which are dequantised exactly whatever the profile is.
    fn losses(
        &self,
        (from, values): (DType, &[u8]),
        (codes, scales): (&[u8], &[u8]),
        [y, x, none]: [&mut Vec<u8>; 3],
    ) -> Result<Loss> {
        let format = &self.target.format;
        let options = dtypes::options().src_packing(format.packing);
        let exact = self.scaling.profile(Profile::Lanecast);
        let d = Dequantizer::new(format.elem, self.wide, &exact, &options).map_err(wrong)?;
        let mut loss = Loss::default();
        let largest = Largest::of(format.elem, format.packing);
        for Part { rows, scales: of_rows } in parts_of(self.part, format, scales.len(), false)? {
            let columns = self.part[1];
            let (at, n, shape) = (rows.start * columns, rows.len() * columns, [rows.len(), columns]);
            let codes = &codes[bytes(format.elem, at, n)];
            let y = room(y, n * bits(self.wide) as usize / 8);
            d.dequantize(codes, &shape, &scales[of_rows], None, y).map_err(wrong)?;
            let clamped = largest.as_ref().map(|largest| (codes, largest));
            let place = (self.first() + at as u64, n, self.wide);
            let values = (from, &values[bytes(from, at, n)]);
            loss.elements(place, values, (self.wide, y), clamped, [&mut *x, &mut *none])?;
        }
        Ok(loss)
    }
}

fn quantise<'a>(
    it: &Checkpoint,
    job: &Job,
    target: &Target,
    tile: &Tile,
    amax: Option<f64>,
    scratch: &'a mut Scratch,
    write: &mut Write<'_>,
) -> Result<(Loss, Main<'a>)> {
    let turned_values = match &job.input {
        Input::Scaled(weight, ..) if weight.transposed => {
            // A difference of 4-bit codes times a float16 scale is exact as float32.
            let is_short = weight.format.elem == DType::U4 && weight.format.scaling.scale_dtype == DType::F16;
            let wide = if is_short { DType::F32 } else { DType::F64 };
            Some((wide, values(it, &job.input, tile, wide, scratch)?))
        }
        _ => None,
    };
    let Scratch {
        src,
        src_scales,
        zero_points,
        dst: main,
        dst_scales,
        values: y,
        from: x,
        to: none,
        rows,
        turned,
    } = scratch;
    let mut this = Quantising::new(job, target, tile);
    if target.group.is_some() {
        this.of_tensor(amax.unwrap_or(0.0), write)?;
    }
    let dst = room(main, (this.n() * bits(target.format.elem) as usize).div_ceil(8));
    let made = room(dst_scales, this.scaling.scale_bytes(&this.part).map_err(wrong)?);
    let (from, values) = match &job.input {
        Input::Plain(tensor) => {
            let from = this.read_elements(it, tensor, [&mut *src, rows, turned])?;
            this.quantise(from, src, dst, made)?;
            (from, &src[..])
        }
        Input::Scaled(weight, codes, scales) => match &turned_values {
            Some((wide, values)) => {
                this.quantise(*wide, values, dst, made)?;
                (*wide, &values[..])
            }
            None => {
                let parts = (&**weight, &**codes, &**scales);
                read_codes(it, parts, tile, rows, [&mut *src, &mut *src_scales, &mut *zero_points])?;
                let source = (&src[..], &src_scales[..], some(zero_points));
                if target.relabel {
                    this.relabel(weight, source, (&mut *dst, &mut *made), write)?;
                } else {
                    this.requantise(weight, source, (&mut *dst, &mut *made), turned)?;
                }
                (this.wide, this.dequantise(weight, source, this.wide, turned)?)
            }
        },
    };
    if this.given.is_none() {
        this.write_scales(made, write)?;
    }
    let scales = this.given.as_deref().unwrap_or(made);
    let loss = this.losses((from, values), (dst, scales), [y, x, none])?;
    target.format.unbias(dst);
    let (at, n) = (this.first() * bits(target.format.elem) / 8, dst.len());
    Ok((loss, Main::write(job.outs[0].offset + at, main, n, write)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns are the same, however few of a row they are: read on their own, or with whole rows.
    #[test]
    fn columns_are_read_alone_or_with_their_rows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.safetensors");
        // Two matrices of some rows.
        let (matrices, rows, row) = (2, 37, 4096);
        let bytes: Vec<u8> = (0..matrices * rows * row).map(|i: usize| (i * 31 + i / 251) as u8).collect();
        let shape = vec![matrices, rows, row];
        let tensor = safetensors::tensor::TensorView::new(Dtype::U8, shape, &bytes).unwrap();
        std::fs::write(&path, safetensors::serialize([("a", tensor)], None).unwrap()).unwrap();
        let it = Checkpoint::open(&path).unwrap();
        let (mut lines, mut into) = (Vec::new(), vec![7; 10]);
        for size in [1, 4] {
            let units = row as u64 / size;
            for [first, count] in
                [[0, units], [0, units / 2], [units / 4, 512 / size], [25, 511 / size], [units - 300, 300]]
            {
                for matrix in 0..matrices {
                    let tile = Tile { job: 0, matrix: matrix as u64, first, count };
                    let shape = (rows as u64, units, size);
                    read_columns(&it, &it.tensors["a"], shape, &tile, &mut lines, &mut into).unwrap();
                    let columns = (first * size) as usize..((first + count) * size) as usize;
                    let matrix = &bytes[matrix * rows * row..][..rows * row];
                    let expected: Vec<u8> =
                        matrix.chunks(row).flat_map(|row| &row[columns.clone()]).copied().collect();
                    assert!(into == expected, "{count} columns of {size} bytes from {first} on");
                }
            }
        }
    }
}
