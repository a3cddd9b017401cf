//! Integers that other packages pack into 32-bit words: zero points of compressed-tensors, and weights of AWQ and GPTQ.

use super::tile::{Matrices, Tile, check_scales, read_columns};
use crate::checkpoint::{Checkpoint, Tensor};
use crate::error::{Failure, Result};
use crate::layout::{Layout, Less, Weight};

/// Reads the zero points of the rows of a tile of int4-group or int8-group, as elements in the order of the scales. They are packed by
/// rows, with half of their range added.
pub(crate) fn zero_points_of_rows(
    it: &Checkpoint,
    weight: &Weight,
    tensor: &Tensor,
    tile: &Tile,
    out: &mut Vec<u8>,
) -> Result<()> {
    let Matrices { rows: words, columns: groups, .. } = Matrices::of(&tensor.shape);
    // A word is four little-endian bytes, each of which holds one row or two.
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

/// Puts eight codes of AWQ in order: columns 0, 2, 4, 6 are the low half of a word, and 1, 3, 5, 7 the high half.
fn in_order(word: [u8; 4]) -> [u8; 4] {
    let [a, b, c, d] = word;
    [a & 0xF | c << 4, a >> 4 | c & 0xF0, b & 0xF | d << 4, b >> 4 | d & 0xF0]
}

/// Reads the group of every input from GPTQ's g_idx.
pub(crate) fn order(it: &Checkpoint, order: &Tensor) -> Result<Vec<u32>> {
    Ok(it.small(order)?.as_chunks().0.iter().map(|&group| u32::from_le_bytes(group)).collect())
}

/// Appends the codes of rows of GPTQ, of which each word holds one column, so that the elements of a row are adjacent.
fn rows_of_numbers<const BITS: usize>(numbers: &[[u8; 4]], out: &mut Vec<u8>) {
    for first in (0..32).step_by(BITS) {
        let code = |number: [u8; 4]| u32::from_le_bytes(number) >> first & ((1 << BITS) - 1);
        // Of the columns that share a byte, the first is in its lowest bits.
        let byte = |columns: &[[u8; 4]]| {
            columns.iter().rev().fold(0, |byte, &number| byte << BITS | code(number)) as u8
        };
        out.extend(numbers.chunks_exact(8 / BITS).map(byte));
    }
}

/// Returns as 4-bit elements 32 codes of three bits, which fill three words without gaps.
fn of_three([a, b, c]: [[u8; 4]; 3]) -> [u8; 16] {
    let [a, b, c] = [a, b, c].map(|number| u128::from(u32::from_le_bytes(number)));
    let all = a | b << 32 | c << 64;
    std::array::from_fn(|i| (all >> (6 * i) & 7 | (all >> (6 * i + 3) & 7) << 4) as u8)
}

/// Appends the codes of 32 rows of GPTQ, of which three words hold one column, as 4-bit elements.
fn rows_of_three(numbers: &[[u8; 4]], out: &mut Vec<u8>) {
    let (columns, first) = (numbers.len() / 3, out.len());
    out.resize(first + 16 * columns, 0);
    for column in 0..columns {
        let codes = of_three(std::array::from_fn(|i| numbers[i * columns + column]));
        for (i, pair) in codes.into_iter().enumerate() {
            for (row, code) in [(2 * i, pair & 7), (2 * i + 1, pair >> 4)] {
                out[first + (row * columns + column) / 2] |= code << (4 * (column % 2));
            }
        }
    }
}

/// Adds one to each element of a byte. The largest becomes 0.
const fn one_more(byte: u8, bits: u32) -> u8 {
    let ones = match bits {
        2 => 0x55,
        4 => 0x11,
        _ => 1,
    };
    // The highest bit of each element is added apart, without a carry into the next element.
    let high = ones << (bits - 1);
    ((byte & !high) + ones) ^ (byte & high)
}

/// Replaces the lines of groups by one for every input: that of its group.
fn spread(lines: &mut Vec<u8>, groups: usize, order: &[u32]) {
    let each = lines.len() / groups;
    let mut all = Vec::with_capacity(each * order.len());
    order.iter().for_each(|&group| all.extend_from_slice(&lines[group as usize * each..][..each]));
    *lines = all;
}

/// Reads some columns of all rows of a weight of AWQ or GPTQ, which is inputs by outputs: codes and zero points as packed elements. `tile`
/// counts columns in groups of 32. Returns the shape of the codes.
pub(crate) fn columns(
    it: &Checkpoint,
    (weight, codes, scales): (&Weight, &Tensor, &Tensor),
    tile: &Tile,
    lines: &mut Vec<u8>,
    [buffer, scale_buffer, zero_buffer]: [&mut Vec<u8>; 3],
) -> Result<[usize; 2]> {
    let Matrices { rows, columns, .. } = Matrices::of(&weight.shape);
    let bits = u64::from(weight.bits);
    let groups = Matrices::of(&scales.shape).rows;
    // 32 columns fill as many words as a code has bits.
    let part = |each: u64| Tile { first: tile.first * each, count: tile.count * each, ..*tile };
    let some = tile.count as usize * 32;
    let mut words = Vec::new();
    buffer.clear();
    if weight.layout == Layout::Awq {
        read_columns(it, codes, (rows, columns / 32 * bits, 4), &part(bits), lines, &mut words)?;
        buffer.extend(words.as_chunks::<4>().0.iter().flat_map(|&word| in_order(word)));
    } else {
        read_columns(it, codes, (rows * bits / 32, columns, 4), &part(32), lines, &mut words)?;
        for numbers in words.as_chunks::<4>().0.chunks_exact(if bits == 3 { 3 * some } else { some }) {
            match bits {
                2 => rows_of_numbers::<2>(numbers, buffer),
                3 => rows_of_three(numbers, buffer),
                4 => rows_of_numbers::<4>(numbers, buffer),
                _ => rows_of_numbers::<8>(numbers, buffer),
            }
        }
    }
    let size = u64::from(weight.format.scaling.scale_dtype.bits()) / 8;
    read_columns(it, scales, (groups, columns, size), &part(32), lines, scale_buffer)?;
    check_scales(weight.format.scaling.scale_dtype, scale_buffer, scales)?;
    zero_buffer.clear();
    if let Some(name) = &weight.zero_points {
        let zeros = &it.tensors[name];
        read_columns(it, zeros, (groups, columns / 32 * bits, 4), &part(bits), lines, &mut words)?;
        let numbers = words.as_chunks_mut::<4>().0;
        if let Less::Numbers(less) = weight.less {
            for (number, less) in numbers.iter_mut().zip(less.into_iter().cycle()) {
                *number = u32::from_le_bytes(*number).wrapping_add(less).to_le_bytes();
            }
        }
        match weight.layout {
            Layout::Awq => numbers.iter().for_each(|&number| zero_buffer.extend(in_order(number))),
            _ if bits == 3 => {
                numbers.as_chunks().0.iter().for_each(|&numbers| zero_buffer.extend(of_three(numbers)));
            }
            _ => zero_buffer.extend_from_slice(numbers.as_flattened()),
        }
        if weight.less == Less::One {
            // The largest code of three bits is 7, in an element of four.
            let most = if bits == 3 { 0x77 } else { 0xFF };
            zero_buffer.iter_mut().for_each(|byte| *byte = one_more(*byte, weight.format.elem.bits()) & most);
        }
    }
    if let Some(name) = &weight.group_of_input {
        let order = order(it, &it.tensors[name])?;
        if order.iter().any(|&group| u64::from(group) >= groups) {
            let what = "a group that is not there: the file was changed while it was read";
            return Err(Failure::refused(what).tensor(name));
        }
        spread(scale_buffer, groups as usize, &order);
        spread(zero_buffer, groups as usize, &order);
    }
    Ok([rows as usize, some])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use safetensors::tensor::{Dtype, TensorView};

    use super::columns;
    use crate::checkpoint::Checkpoint;
    use crate::layout::recognise;
    use crate::tile::Tile;

    /// A g_idx is read again with each tile, and no group is taken that is not there.
    #[test]
    fn groups_that_change_while_they_are_read_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.safetensors");
        let write = |last: u8| {
            let order: Vec<u8> = (0..8).flat_map(|i| [if i == 7 { last } else { i % 2 }, 0, 0, 0]).collect();
            let tensors = [
                ("l.qweight", Dtype::I32, vec![1, 32], vec![0x21; 128]),
                ("l.qzeros", Dtype::I32, vec![2, 4], vec![0; 32]),
                ("l.scales", Dtype::F16, vec![2, 32], vec![0x3C; 128]),
                ("l.g_idx", Dtype::I32, vec![8], order),
            ];
            let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
                (*name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
            });
            fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
        };
        write(1);
        let it = Checkpoint::open(&path).unwrap();
        let found = recognise(&it, None);
        let weight = &found.weights["l.qweight"];
        let parts = (&**weight, &*it.tensors[&weight.codes], &*it.tensors[&weight.scales]);
        let tile = Tile { job: 0, matrix: 0, first: 0, count: 1 };
        let mut buffers = [Vec::new(), Vec::new(), Vec::new()];
        let mut read = || columns(&it, parts, &tile, &mut Vec::new(), buffers.each_mut());
        assert_eq!(read().unwrap(), [8, 32]);
        write(2);
        let error = read().unwrap_err();
        assert!(error.message.contains("the file was changed while it was read"), "{}", error.message);
        assert_eq!(error.tensor.as_deref(), Some("l.g_idx"));
    }
}
