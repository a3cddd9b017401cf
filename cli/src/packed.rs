//! Integers that other packages pack into numbers of 32 bits: compressed-tensors' zero points, and AWQ's and GPTQ's weights of 4 bits.

use super::tile::{Matrices, Tile, read_columns};
use crate::checkpoint::{Checkpoint, Tensor};
use crate::error::Result;
use crate::layout::{Layout, Weight};

/// The zero points of the rows of a tile of int4-group or int8-group, as elements in the order of the scales. They are packed by rows, with half
/// of their range added.
pub(crate) fn zero_points_of_rows(
    it: &Checkpoint,
    weight: &Weight,
    tensor: &Tensor,
    tile: &Tile,
    out: &mut Vec<u8>,
) -> Result<()> {
    let Matrices { rows: words, columns: groups, .. } = Matrices::of(&tensor.shape);
    // (In four little-endian bytes, each of one row or of two.)
    let bits = weight.format.elem.bits() as usize;
    let rows = 32 / bits;
    let (first, end) = (tile.first / rows as u64, (tile.first + tile.count).div_ceil(rows as u64));
    let mut packed = vec![0; ((end - first) * groups * 4) as usize];
    it.shards[tensor.shard].read(&mut packed, tensor.offset + (tile.matrix * words + first) * groups * 4)?;
    let n = (tile.count * groups) as usize;
    out.clear();
    out.resize((n * bits).div_ceil(8), 0);
    let (groups, each) = (groups as usize, rows / 4);
    for i in 0..n {
        let (row, group) = (i / groups + tile.first as usize % rows, i % groups);
        let byte = packed[(row / rows * groups + group) * 4 + row % rows / each];
        let code = byte >> (bits * (row % each)) & (0xFF >> (8 - bits));
        out[i / each] |= code << (bits * (i % each));
    }
    weight.format.unbias(out);
    Ok(())
}

/// Eight codes of AWQ in their order: columns 0, 2, 4, 6 are the low half of a number, and 1, 3, 5, 7 the high one.
fn in_order(word: [u8; 4]) -> [u8; 4] {
    let [a, b, c, d] = word;
    [a & 0xF | c << 4, a >> 4 | c & 0xF0, b & 0xF | d << 4, b >> 4 | d & 0xF0]
}

/// Reads some columns of all rows of a weight of AWQ or GPTQ, which are inputs by outputs: codes and zero points as elements of 4 bits, two in a
/// byte. `tile` counts columns in groups of 32. Returns the shape of the codes.
pub(crate) fn columns(
    it: &Checkpoint,
    (weight, codes, scales): (&Weight, &Tensor, &Tensor),
    tile: &Tile,
    lines: &mut Vec<u8>,
    [buffer, scale_buffer, zero_buffer]: [&mut Vec<u8>; 3],
) -> Result<[usize; 2]> {
    let Matrices { rows, columns, .. } = Matrices::of(&weight.shape);
    let groups = rows / weight.format.block_rows as u64;
    let part = |units: u64| Tile { first: tile.first * 32 / units, count: tile.count * 32 / units, ..*tile };
    let some = tile.count as usize * 32;
    let mut words = Vec::new();
    buffer.clear();
    if weight.layout == Layout::Awq {
        read_columns(it, codes, (rows, columns / 8, 4), &part(8), lines, &mut words)?;
        buffer.extend(words.as_chunks::<4>().0.iter().flat_map(|&word| in_order(word)));
    } else {
        // (A number has eight rows of one column.)
        read_columns(it, codes, (rows / 8, columns, 4), &part(1), lines, &mut words)?;
        for words in words.chunks_exact(some * 4) {
            for row in 0..8 {
                let code = |word: &[u8; 4]| word[row / 2] >> (4 * (row % 2)) & 0xF;
                let pairs = words.as_chunks::<4>().0.as_chunks::<2>().0;
                buffer.extend(pairs.iter().map(|[low, high]| code(low) | code(high) << 4));
            }
        }
    }
    let size = u64::from(weight.format.scaling.scale_dtype.bits()) / 8;
    read_columns(it, scales, (groups, columns, size), &part(1), lines, scale_buffer)?;
    zero_buffer.clear();
    if let Some(name) = &weight.zero_points {
        read_columns(it, &it.tensors[name], (groups, columns / 8, 4), &part(8), lines, &mut words)?;
        for &word in words.as_chunks::<4>().0 {
            let word = if weight.layout == Layout::Awq { in_order(word) } else { word };
            zero_buffer.extend(word.map(|byte| match weight.is_less_one {
                // (One is added to each of the two, and 15 becomes 0.)
                true => (byte & 0xF0).wrapping_add(0x10) | (byte & 0xF).wrapping_add(1) & 0xF,
                false => byte,
            }));
        }
    }
    Ok([rows as usize, some])
}
