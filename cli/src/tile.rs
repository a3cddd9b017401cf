//! A piece of a tensor: read, converted, compared, and handed over for writing.

use lanecast::scaled::{Dequantizer, Quantizer, TensorScale};
use lanecast::{Caster, DType, Packing};

use crate::checkpoint::{Checkpoint, Tensor};
use crate::dtypes;
use crate::error::{Failure, Result};
use crate::loss::Loss;
use crate::plan::{Input, Job, Output, Target};

/// Elements that are compared at a time: what a cache holds.
const COMPARED: usize = 1 << 14;

/// A part of a tensor: elements (or bytes, of a copy) of what is no matrix for this purpose, rows of what is one; columns
/// in groups of 32 where rows become columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) job: usize,
    pub(crate) matrix: u64,
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// How a tensor divides into matrices of rows.
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
        let count = shape[..n.saturating_sub(2)].iter().map(|&n| n as u64).product();
        Self { count, rows: at(2), columns: at(1) }
    }
}

/// Bytes that belong at an offset of the file.
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Bits of an element of codes, packed.
fn bits(dtype: DType) -> u64 {
    u64::from(dtype.bits())
}

fn file_bits(tensor: &Tensor) -> u64 {
    tensor.dtype.bitsize() as u64
}

/// Divides a tensor in tiles of about so many bytes.
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
        (Input::Plain(tensor), Output::Copy) => cut(0, tensor.len, most),
        (Input::Scaled(..), Output::Copy) => unreachable!("what is copied is taken as it lies"),
        (Input::Plain(tensor), Output::Cast(to)) => {
            let elements = tensor.shape.iter().product::<usize>() as u64;
            // Eight elements are whole bytes of every dtype.
            let each = (most * 8 / file_bits(tensor).max(bits(*to))).next_multiple_of(8);
            cut(0, elements, each);
        }
        (input, output) => {
            let (shape, from_rows, from) = match input {
                Input::Plain(tensor) => (&tensor.shape, 1, file_bits(tensor)),
                // Codes become float64 on the way to other codes.
                Input::Scaled(weight, ..) => {
                    (&weight.shape, weight.format.block_rows as u64, bits(weight.format.elem))
                }
            };
            let (rows, to) = match output {
                Output::Quantise(target) if matches!(input, Input::Plain(_)) => {
                    (target.format.block_rows as u64, from)
                }
                Output::Quantise(target) => (target.format.block_rows as u64, 64),
                Output::Cast(to) => (1, bits(*to)),
                Output::Copy => unreachable!("above"),
            };
            let whole = Matrices::of(shape);
            if matches!(input, Input::Scaled(weight, ..) if weight.transposed) {
                let each = (most * 8 / (whole.rows * 32 * to).max(1)).max(1);
                for matrix in 0..whole.count {
                    cut(matrix, whole.columns / 32, each);
                }
                return tiles;
            }
            // Blocks stay whole: 1, 128, or what a configuration says.
            let block = least_common_multiple(rows, from_rows);
            let each = (most * 8 / (whole.columns * to.max(from)).max(1)).max(1);
            let each = if each < block { block } else { each / block * block };
            if whole.columns > 0 {
                for matrix in 0..whole.count {
                    cut(matrix, whole.rows, each);
                }
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

/// Codes and scales of some rows of a matrix.
struct Rows {
    codes: Vec<u8>,
    scales: Vec<u8>,
    shape: [usize; 2],
}

fn wrong(error: lanecast::scaled::Error) -> Failure {
    Failure::refused(error.to_string())
}

fn wrong_cast(error: lanecast::Error) -> Failure {
    Failure::refused(error.to_string())
}

/// Refuses scales that would make every value of their block wrong.
fn check_scales(dtype: DType, bytes: &[u8], scales: &Tensor) -> Result<()> {
    let bad = if dtype == DType::F8E8M0 {
        bytes.iter().position(|&byte| byte == 0xFF).map(|at| (at, "NaN (FF)".to_owned()))
    } else {
        let n = bytes.len() * 8 / dtype.bits() as usize;
        let values = to_f64(dtype, Packing::LowFirst, bytes, n)?;
        values.iter().position(|&x| !(x.is_finite() && x >= 0.0)).map(|at| (at, values[at].to_string()))
    };
    match bad {
        None => Ok(()),
        Some((_, value)) => Err(Failure::refused(format!("a scale is {value}"))
            .tensor(&scales.name)
            .help("scales are finite and not negative: the file is damaged, or of another layout (--from)")),
    }
}

/// Elements as float64, which is exact.
pub(crate) fn to_f64(dtype: DType, packing: Packing, bytes: &[u8], n: usize) -> Result<Vec<f64>> {
    let options = dtypes::options().src_packing(packing);
    let caster = Caster::new(dtype, DType::F64, &options).map_err(wrong_cast)?;
    let mut out = vec![0u8; n * 8];
    caster.cast(bytes, &mut out, n).map_err(wrong_cast)?;
    Ok(floats(&out))
}

fn floats(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|&x| f64::from_le_bytes(x)).collect()
}

/// Reads some rows of a quantised weight.
fn read_rows(it: &Checkpoint, input: &Input, tile: &Tile) -> Result<Rows> {
    let Input::Scaled(weight, codes, scales) = input else {
        unreachable!("only scaled weights have rows of codes")
    };
    let whole = Matrices::of(&weight.shape);
    let format = &weight.format;
    let shape = [tile.count as usize, whole.columns as usize];
    let row = whole.columns * bits(format.elem) / 8;
    let mut buffer = vec![0; (tile.count * row) as usize];
    let at = codes.offset + (tile.matrix * whole.rows + tile.first) * row;
    it.shards[codes.shard].read(&mut buffer, at)?;
    // The scales of these rows lie together, in whatever layout they are.
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
    let mut scale_buffer = vec![0; len as usize];
    if from + len > scales.len {
        return Err(Failure::refused(format!("scales {:?} end too early", scales.shape)).tensor(&scales.name));
    }
    it.shards[scales.shard].read(&mut scale_buffer, scales.offset + from)?;
    check_scales(format.scaling.scale_dtype, &scale_buffer, scales)?;
    Ok(Rows { codes: buffer, scales: scale_buffer, shape })
}

/// Some groups of columns of a gpt-oss weight: `[rows, groups, 16]` codes and `[rows, groups]` scales.
fn read_groups(it: &Checkpoint, input: &Input, tile: &Tile) -> Result<Rows> {
    let Input::Scaled(weight, codes, scales) = input else { unreachable!("only scaled weights have groups") };
    let whole = Matrices::of(&weight.shape);
    let (groups, rows) = (whole.columns / 32, whole.rows);
    let mut out =
        Rows { codes: Vec::new(), scales: Vec::new(), shape: [rows as usize, tile.count as usize * 32] };
    let gather = |tensor: &Tensor, each: u64, into: &mut Vec<u8>| -> Result<()> {
        let row = groups * each;
        let some = ((1 << 20) / row.max(1)).max(1);
        let mut buffer = Vec::new();
        let mut first = 0;
        while first < rows {
            let count = some.min(rows - first);
            buffer.resize((count * row) as usize, 0);
            it.shards[tensor.shard].read(&mut buffer, tensor.offset + (tile.matrix * rows + first) * row)?;
            for line in buffer.chunks_exact(row as usize) {
                into.extend(&line[(tile.first * each) as usize..((tile.first + tile.count) * each) as usize]);
            }
            first += count;
        }
        Ok(())
    };
    gather(codes, 16, &mut out.codes)?;
    gather(scales, 1, &mut out.scales)?;
    check_scales(DType::F8E8M0, &out.scales, scales)?;
    Ok(out)
}

/// `[rows, columns]` to `[columns, rows]`, of elements of so many bytes.
fn transpose(bytes: &[u8], [rows, columns]: [usize; 2], each: usize) -> Vec<u8> {
    let mut out = vec![0; bytes.len()];
    for (row, line) in bytes.chunks_exact((columns * each).max(1)).enumerate() {
        for (column, element) in line.chunks_exact(each).enumerate() {
            let at = (column * rows + row) * each;
            out[at..at + each].copy_from_slice(element);
        }
    }
    out
}

/// The values of a tile of the source, as float64.
pub(crate) fn values(it: &Checkpoint, input: &Input, tile: &Tile) -> Result<Vec<f64>> {
    match input {
        Input::Plain(tensor) => {
            let (bytes, n) = read_plain(it, tensor, tile)?;
            to_f64(dtypes::of(tensor.dtype).expect("a float"), Packing::LowFirst, &bytes, n)
        }
        Input::Scaled(weight, ..) => {
            let rows = read_rows(it, input, tile)?;
            let format = &weight.format;
            let options = dtypes::options().src_packing(format.packing);
            let mut out = vec![0; rows.shape[0] * rows.shape[1] * 8];
            let d = Dequantizer::new(format.elem, DType::F64, &format.scaling, &options).map_err(wrong)?;
            d.dequantize(&rows.codes, &rows.shape, &rows.scales, None, &mut out).map_err(wrong)?;
            Ok(floats(&out))
        }
    }
}

/// Rows of a matrix that is not quantised.
fn read_plain(it: &Checkpoint, tensor: &Tensor, tile: &Tile) -> Result<(Vec<u8>, usize)> {
    let whole = Matrices::of(&tensor.shape);
    let row = whole.columns * file_bits(tensor) / 8;
    let mut bytes = vec![0; (tile.count * row) as usize];
    let at = tensor.offset + (tile.matrix * whole.rows + tile.first) * row;
    it.shards[tensor.shard].read(&mut bytes, at)?;
    Ok((bytes, (tile.count * whole.columns) as usize))
}

/// A plain tensor as rows of a length that suits tiles: elements lie one after the other.
pub(crate) fn flat(input: &Input) -> Option<Input> {
    let Input::Plain(tensor) = input else { return None };
    let n: usize = tensor.shape.iter().product();
    let mut tensor = tensor.clone();
    tensor.shape = if n.is_multiple_of(8) { vec![n / 8, 8] } else { vec![n, 1] };
    (n.is_multiple_of(8) || tensor.dtype.bitsize() >= 8).then_some(Input::Plain(tensor))
}

/// The largest magnitude of a tile, as bits that compare as the numbers do; NaN is the largest.
pub(crate) fn amax(it: &Checkpoint, job: &Job, tile: &Tile) -> Result<u64> {
    let values = values(it, &job.input, tile)?;
    Ok(values.iter().map(|x| x.abs().to_bits()).max().unwrap_or(0))
}

/// The scale of a whole tensor, or its factor, from its amax: what quantising a tensor of that one element finds.
pub(crate) fn of_amax(target: &Target, amax: f64) -> Result<(Vec<u8>, Option<f32>)> {
    let format = &target.format;
    let mut scales = vec![0; format.scaling.scale_bytes(&[1, 1]).map_err(wrong)?];
    let q = Quantizer::new(DType::F64, format.elem, &format.scaling, &dtypes::options()).map_err(wrong)?;
    let mut codes = vec![0; q.code_bytes(&[1, 1]).map_err(wrong)?];
    let found = q.quantize(&amax.to_le_bytes(), &[1, 1], &mut codes, &mut scales).map_err(wrong)?;
    Ok((scales, found.tensor_scale))
}

/// The largest code, and how much larger a value must be to count as clamped.
fn largest(elem: DType) -> (f64, f64) {
    match elem {
        DType::I8 => (127.0, 127.5 / 127.0),
        DType::F4E2M1 => (6.0, 7.0 / 6.0),
        DType::F8E4M3FN => (448.0, 464.0 / 448.0),
        DType::F8E5M2 => (57344.0, 61440.0 / 57344.0),
        _ => (f64::MAX, f64::MAX),
    }
}

/// Converts a tile. `amax` is that of the group, where the target has one.
pub(crate) fn convert(
    it: &Checkpoint,
    job: &Job,
    tile: &Tile,
    amax: Option<f64>,
) -> Result<(Vec<Piece>, Loss)> {
    run(it, job, tile, amax).map_err(|failure| failure.tensor(&job.name))
}

fn run(it: &Checkpoint, job: &Job, tile: &Tile, amax: Option<f64>) -> Result<(Vec<Piece>, Loss)> {
    let mut loss = Loss::default();
    let place = job.outs[0].offset;
    match (&job.input, &job.output) {
        (Input::Plain(tensor), Output::Copy) => {
            let mut bytes = vec![0; tile.count as usize];
            it.shards[tensor.shard].read(&mut bytes, tensor.offset + tile.first)?;
            Ok((vec![Piece { offset: place + tile.first, bytes }], loss))
        }
        (Input::Scaled(..), Output::Copy) => unreachable!("what is copied is taken as it lies"),
        (Input::Plain(tensor), Output::Cast(to)) => {
            let from = dtypes::of(tensor.dtype).expect("a float");
            let n = tile.count as usize;
            let mut src = vec![0; (tile.count * file_bits(tensor)).div_ceil(8) as usize];
            it.shards[tensor.shard].read(&mut src, tensor.offset + tile.first * file_bits(tensor) / 8)?;
            let mut dst = vec![0; (tile.count * bits(*to)).div_ceil(8) as usize];
            let caster = Caster::new(from, *to, &dtypes::options()).map_err(wrong_cast)?;
            caster.cast(&src, &mut dst, n).map_err(wrong_cast)?;
            let clamps = dtypes::is_narrow(job.outs[0].dtype).then(|| largest(*to));
            for first in (0..n).step_by(COMPARED) {
                let some = COMPARED.min(n - first);
                let part = |dtype: DType, bytes: &[u8]| {
                    let from = first * dtype.bits() as usize / 8;
                    let to = from + (some * dtype.bits() as usize).div_ceil(8);
                    to_f64(dtype, Packing::LowFirst, &bytes[from..to], some)
                };
                let (x, y) = (part(from, &src)?, part(*to, &dst)?);
                loss.add(
                    tile.first + first as u64,
                    &x,
                    &y,
                    clamps.map(|(max, factor)| (&y[..], max, factor)),
                );
            }
            Ok((vec![Piece { offset: place + tile.first * bits(*to) / 8, bytes: dst }], loss))
        }
        (Input::Scaled(weight, ..), Output::Cast(to)) => {
            let format = &weight.format;
            let rows = if weight.transposed {
                read_groups(it, &job.input, tile)?
            } else {
                read_rows(it, &job.input, tile)?
            };
            let [height, width] = rows.shape;
            let options = dtypes::options().src_packing(format.packing);
            let mut dst = vec![0; height * width * bits(*to) as usize / 8];
            let d = Dequantizer::new(format.elem, *to, &format.scaling, &options).map_err(wrong)?;
            d.dequantize(&rows.codes, &rows.shape, &rows.scales, None, &mut dst).map_err(wrong)?;
            let exact = format.scaling.profile(lanecast::scaled::Profile::Lanecast);
            let mut wide = vec![0; height * width * 8];
            let d = Dequantizer::new(format.elem, DType::F64, &exact, &options).map_err(wrong)?;
            d.dequantize(&rows.codes, &rows.shape, &rows.scales, None, &mut wide).map_err(wrong)?;
            let (x, y) = (floats(&wide), to_f64(*to, Packing::LowFirst, &dst, height * width)?);
            let whole = Matrices::of(&weight.shape);
            let first = (tile.matrix * whole.rows + tile.first) * whole.columns;
            if weight.transposed {
                loss.add(0, &x, &y, None);
                // From the place in the tile to the place in the result.
                let (row, column) = (loss.at / width as u64, loss.at % width as u64);
                loss.at = (tile.matrix * whole.columns + tile.first * 32 + column) * whole.rows + row;
                let out = transpose(&dst, rows.shape, bits(*to) as usize / 8);
                let at = (tile.matrix * whole.columns + tile.first * 32) * whole.rows * bits(*to) / 8;
                return Ok((vec![Piece { offset: place + at, bytes: out }], loss));
            }
            loss.add(first, &x, &y, None);
            Ok((vec![Piece { offset: place + first * bits(*to) / 8, bytes: dst }], loss))
        }
        (input, Output::Quantise(target)) => quantise(it, job, input, target, tile, amax),
    }
}

fn quantise(
    it: &Checkpoint,
    job: &Job,
    input: &Input,
    target: &Target,
    tile: &Tile,
    amax: Option<f64>,
) -> Result<(Vec<Piece>, Loss)> {
    let format = &target.format;
    let shape = match input {
        Input::Plain(tensor) => &tensor.shape,
        Input::Scaled(weight, ..) => &weight.shape,
    };
    let whole = Matrices::of(shape);
    let part = [tile.count as usize, whole.columns as usize];
    let n = part[0] * part[1];
    // What is quantised already goes by way of float64, which holds every product of a code and a scale.
    let (from, src, x) = match input {
        Input::Plain(tensor) => {
            let (bytes, n) = read_plain(it, tensor, tile)?;
            let from = dtypes::of(tensor.dtype).expect("a float");
            let x = to_f64(from, Packing::LowFirst, &bytes, n)?;
            if dtypes::is_narrow(tensor.dtype) {
                let wide = x.iter().flat_map(|x| x.to_le_bytes()).collect();
                (DType::F64, wide, x)
            } else {
                (from, bytes, x)
            }
        }
        Input::Scaled(..) => {
            let x = values(it, input, tile)?;
            (DType::F64, x.iter().flat_map(|x| x.to_le_bytes()).collect(), x)
        }
    };
    let mut scaling = format.scaling;
    let mut pieces = Vec::new();
    let mut given = None;
    if target.group.is_some() {
        let (scale, factor) = of_amax(target, amax.unwrap_or(0.0))?;
        if let Some(factor) = factor.filter(|_| target.global) {
            scaling = scaling.tensor_scale(TensorScale::Divide(factor));
            if tile.matrix == 0 && tile.first == 0 {
                pieces.push(Piece { offset: job.outs[2].offset, bytes: factor.to_le_bytes().to_vec() });
            }
        }
        if target.of_tensor {
            if tile.matrix == 0 && tile.first == 0 {
                pieces.push(Piece { offset: job.outs[1].offset, bytes: scale.clone() });
            }
            given = Some(scale);
        }
    }
    let options = dtypes::options().src_packing(format.packing).dst_packing(format.packing);
    let q = Quantizer::new(from, format.elem, &scaling, &options).map_err(wrong)?;
    let mut codes = vec![0; q.code_bytes(&part).map_err(wrong)?];
    let scales = if let Some(scale) = given {
        q.quantize_with(&src, &part, &scale, None, &mut codes).map_err(wrong)?;
        scale
    } else {
        let mut scales = vec![0; scaling.scale_bytes(&part).map_err(wrong)?];
        q.quantize(&src, &part, &mut codes, &mut scales).map_err(wrong)?;
        let whole_rows = |rows: u64| -> Result<u64> {
            let shape = [rows as usize, part[1]];
            Ok(if rows == 0 { 0 } else { scaling.scale_bytes(&shape).map_err(wrong)? as u64 })
        };
        let at = tile.matrix * whole_rows(whole.rows)? + whole_rows(tile.first)?;
        pieces.push(Piece { offset: job.outs[1].offset + at, bytes: scales.clone() });
        scales
    };
    let mut wide = vec![0; n * 8];
    let exact = scaling.profile(lanecast::scaled::Profile::Lanecast);
    let d = Dequantizer::new(format.elem, DType::F64, &exact, &options).map_err(wrong)?;
    d.dequantize(&codes, &part, &scales, None, &mut wide).map_err(wrong)?;
    let bare = to_f64(format.elem, format.packing, &codes, n)?;
    let (max, factor) = largest(format.elem);
    let first = (tile.matrix * whole.rows + tile.first) * whole.columns;
    let mut loss = Loss::default();
    loss.add(first, &x, &floats(&wide), Some((&bare, max, factor)));
    let at = first * bits(format.elem) / 8;
    pieces.push(Piece { offset: job.outs[0].offset + at, bytes: codes });
    Ok((pieces, loss))
}
