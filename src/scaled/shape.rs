//! Which scale belongs to an element: shapes, blocks, and the places of scales in their buffer.

use core::iter::repeat_n;
use core::ops::{Deref, DerefMut, Range};

use super::error::Error;
use super::memory::{kept, overflow};
use super::scaling::{MAX_DIMS, ScaleLayout, Scaling, Sharing};
use crate::formats::dtype::DType;
use crate::formats::layout::Packing;

/// A length for each dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    lengths: [usize; MAX_DIMS],
    dims: usize,
}

impl Lengths {
    const NONE: Self = Self { lengths: [0; MAX_DIMS], dims: 0 };

    fn push(&mut self, length: usize) {
        self.lengths[self.dims] = length;
        self.dims += 1;
    }
}

impl Deref for Lengths {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.lengths[..self.dims]
    }
}

impl DerefMut for Lengths {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.lengths[..self.dims]
    }
}

/// Collects at most `MAX_DIMS` lengths, which was checked before.
impl FromIterator<usize> for Lengths {
    fn from_iter<I: IntoIterator<Item = usize>>(lengths: I) -> Self {
        let mut all = Self::NONE;
        lengths.into_iter().for_each(|length| all.push(length));
        all
    }
}

/// Returns the lengths of a block, one for each dimension of the shape. 0 is the whole dimension.
pub(super) fn block_lengths(shape: &[usize], scaling: &Scaling) -> Result<Lengths, Error> {
    if shape.len() > MAX_DIMS {
        return Err(Error::Dims { dims: shape.len() });
    }
    match scaling.sharing {
        Sharing::TooMany { dims } => Err(Error::Dims { dims }),
        Sharing::Lengths { lengths, dims } if dims > shape.len() => {
            Err(Error::BlockDims { shape: kept(shape)?, block: kept(&lengths[..dims])? })
        }
        Sharing::Lengths { lengths, dims } => {
            Ok(repeat_n(1, shape.len() - dims).chain(lengths[..dims].iter().copied()).collect())
        }
        Sharing::Whole => Ok(repeat_n(0, shape.len()).collect()),
        Sharing::Axis { axis, .. } if axis >= shape.len() => Err(Error::Axis { shape: kept(shape)?, axis }),
        Sharing::Axis { axis, length, others } => {
            Ok((0..shape.len()).map(|i| if i == axis { length } else { others }).collect())
        }
    }
}

/// A shape and its blocks, with dimensions merged where possible.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// The lengths of the dimensions, the outermost first. There is at least one.
    pub(super) dims: Lengths,
    /// The lengths of a block, each at least 1.
    pub(super) blocks: Lengths,
    /// The number of elements.
    pub(super) count: usize,
    /// The shape of the scales.
    pub(super) scale_shape: Lengths,
    /// The number of scales.
    pub(super) scales: usize,
    /// The elements of a row as the caller has them: along the last dimension.
    pub(super) row: usize,
}

impl Grid {
    pub(super) fn new(shape: &[usize], scaling: &Scaling) -> Result<Self, Error> {
        let lengths = block_lengths(shape, scaling)?;
        let too_large = || overflow(shape);
        let product = |lengths: &[usize]| match lengths.contains(&0) {
            true => Some(0),
            false => lengths.iter().try_fold(1usize, |n, &length| n.checked_mul(length)),
        };
        let count = product(shape).ok_or_else(too_large)?;
        let scale_shape: Lengths = shape
            .iter()
            .zip(lengths.iter())
            .map(|(&length, &block)| if block == 0 { length.min(1) } else { length.div_ceil(block) })
            .collect();
        let scales = product(&scale_shape).ok_or_else(too_large)?;
        let mut grid = Self {
            dims: Lengths::NONE,
            blocks: Lengths::NONE,
            count,
            scale_shape,
            scales,
            row: shape.last().copied().unwrap_or(1),
        };
        if count == 0 {
            grid.push(0, 1);
            return Ok(grid);
        }
        for (&length, &block) in shape.iter().zip(lengths.iter()) {
            grid.push(length, if block == 0 { length } else { block.min(length) });
        }
        grid.merge(scaling.row_bytes.is_some());
        Ok(grid)
    }

    fn push(&mut self, length: usize, block: usize) {
        self.dims.push(length);
        self.blocks.push(block);
    }

    /// Merges two dimensions if a block covers all of the inner one, if blocks have one element of the outer one and divide the
    /// inner one, or if the outer one has one element. The order of elements and scales stays the same.
    fn merge(&mut self, keeps_rows: bool) {
        let (dims, blocks) = (self.dims, self.blocks);
        (self.dims, self.blocks) = (Lengths::NONE, Lengths::NONE);
        let last = dims.len().wrapping_sub(1);
        for (i, (&length, &block)) in dims.iter().zip(blocks.iter()).enumerate() {
            let may = !(keeps_rows && i == last);
            match (self.dims.last_mut(), self.blocks.last_mut()) {
                (Some(outer), Some(outer_block)) if may && block == length => {
                    // The last block of a ragged outer dimension ends where the dimension does.
                    *outer *= length;
                    *outer_block *= length;
                }
                (Some(outer), Some(outer_block))
                    if may && *outer_block == 1 && length.is_multiple_of(block) =>
                {
                    *outer *= length;
                    *outer_block = block;
                }
                (Some(1), Some(outer_block)) if may => {
                    *self.dims.last_mut().expect("there is one") = length;
                    *outer_block = block;
                }
                _ => self.push(length, block),
            }
        }
        if self.dims.is_empty() {
            self.push(1, 1);
        }
    }

    /// Returns the elements of a row of the merged shape.
    pub(super) fn width(&self) -> usize {
        self.dims[self.dims.len() - 1]
    }

    /// Returns the elements of a block along a row.
    pub(super) fn block(&self) -> usize {
        self.blocks[self.blocks.len() - 1]
    }

    /// Returns the scales along a row.
    pub(super) fn columns(&self) -> usize {
        self.width().div_ceil(self.block())
    }
}

/// Where scales lie in their buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    layout: ScaleLayout,
    rows: usize,
    columns: usize,
    /// Bytes of a scale.
    width: usize,
    /// Bytes from one row to the next.
    row_bytes: usize,
    /// Bytes of all scales.
    pub(super) bytes: usize,
}

impl Places {
    pub(super) fn new(grid: &Grid, scaling: &Scaling) -> Result<Self, Error> {
        let width = scaling.scale_dtype.bits() as usize / 8;
        let columns = grid.scale_shape.last().copied().unwrap_or(1);
        let rows = grid.scales.checked_div(columns).unwrap_or(0);
        let too_large = || overflow(&grid.scale_shape);
        let tight = columns.checked_mul(width).ok_or_else(too_large)?;
        let row_bytes = match (scaling.layout, scaling.scale_row_bytes) {
            (ScaleLayout::RowMajor, Some(given)) if given < tight => {
                return Err(Error::RowBytes { what: "scales", needed: tight, given });
            }
            (ScaleLayout::RowMajor, Some(given)) => given,
            (_, Some(_)) => {
                return Err(Error::Unsupported {
                    what: "scale_row_bytes is only for scales in row-major order",
                });
            }
            (_, None) => tight,
        };
        let bytes = match scaling.layout {
            ScaleLayout::RowMajor => rows.checked_mul(row_bytes),
            ScaleLayout::ColumnMajor => rows.checked_mul(tight),
            ScaleLayout::Swizzle32x4x4 if width != 1 => {
                return Err(Error::Unsupported { what: "the swizzled layout is only for scales of 8 bits" });
            }
            ScaleLayout::Swizzle32x4x4 => rows
                .checked_next_multiple_of(128)
                .zip(columns.checked_next_multiple_of(4))
                .and_then(|(rows, columns)| rows.checked_mul(columns)),
        };
        let bytes = bytes.ok_or_else(too_large)?;
        Ok(Self { layout: scaling.layout, rows, columns, width, row_bytes, bytes })
    }

    /// Returns the byte at which a scale begins, given its index in row-major order.
    pub(super) fn at(&self, scale: usize) -> usize {
        if self.is_plain() {
            return scale * self.width;
        }
        let (row, column) = (scale / self.columns, scale % self.columns);
        match self.layout {
            ScaleLayout::RowMajor => row * self.row_bytes + column * self.width,
            ScaleLayout::ColumnMajor => (column * self.rows + row) * self.width,
            ScaleLayout::Swizzle32x4x4 => {
                let tile = row / 128 * self.columns.div_ceil(4) + column / 4;
                tile * 512 + row % 32 * 16 + row / 32 % 4 * 4 + column % 4
            }
        }
    }

    /// Whether scales are contiguous, in row-major order.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.layout, ScaleLayout::RowMajor) && self.row_bytes == self.columns * self.width
    }
}

/// As [`code_bytes`], but from the shape alone.
#[inline(never)]
pub(super) fn code_bytes_of(
    shape: &[usize],
    scaling: &Scaling,
    dtype: DType,
    packing: Packing,
) -> Result<usize, Error> {
    code_bytes(shape, &Grid::new(shape, scaling)?, scaling, dtype, packing)
}

/// Returns the bytes of the quantised elements. Each row may begin at a byte of its own.
pub(super) fn code_bytes(
    shape: &[usize],
    grid: &Grid,
    scaling: &Scaling,
    dtype: DType,
    packing: Packing,
) -> Result<usize, Error> {
    let too_large = || overflow(shape);
    let Some(given) = scaling.row_bytes else {
        return dtype.byte_len(grid.count, packing).ok_or_else(too_large);
    };
    let needed = dtype.byte_len(grid.row, packing).ok_or_else(too_large)?;
    if given < needed {
        return Err(Error::RowBytes { what: "elements", needed, given });
    }
    grid.count.checked_div(grid.row).unwrap_or(0).checked_mul(given).ok_or_else(too_large)
}

/// Contiguous elements that make up whole blocks, with their scales, which are contiguous, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) elements: Range<usize>,
    pub(super) scales: Range<usize>,
}

impl Grid {
    /// Returns the scale of an element, and how many elements of the row share it from this one on.
    pub(super) fn run(&self, element: usize) -> (usize, usize) {
        let (width, block) = (self.width(), self.block());
        let (row, at) = (element / width, element % width);
        let column = at / block;
        let end = (column * block).saturating_add(block).min(width);
        let mut scale = 0;
        let (mut rest, mut stride) = (row, self.columns());
        for (&length, &block) in self.dims.iter().zip(self.blocks.iter()).rev().skip(1) {
            scale += rest % length / block * stride;
            rest /= length;
            stride *= length.div_ceil(block);
        }
        (scale + column, end - at)
    }

    /// Returns how many adjacent rows, from this one on, have the same scales.
    pub(super) fn rows_alike(&self, row: usize) -> usize {
        let (mut rest, mut rows) = (row, 1);
        for (&length, &block) in self.dims.iter().zip(self.blocks.iter()).rev().skip(1) {
            let at = rest % length;
            let left = (block - at % block).min(length - at);
            rows *= left;
            if left < length {
                break;
            }
            rest /= length;
        }
        rows
    }

    /// Calls `run` for each run of elements of a tile that share a scale, with its range within the tile and the scale.
    pub(super) fn runs(&self, first: usize, n: usize, run: &mut dyn FnMut(Range<usize>, usize)) {
        let mut at = 0;
        while at < n {
            let (mut scale, mut length) = self.run(first + at);
            let row = n.min(at + self.width() - (first + at) % self.width());
            while at < row {
                let end = row.min(at + length);
                run(at..end, scale);
                (at, scale, length) = (end, scale + 1, self.block());
            }
        }
    }

    /// Calls `stretch` for each part of a tile that lies in one row, so that its scales are contiguous, with its range within
    /// the tile and the first scale. A part begins with a block, or is the rest of one.
    pub(super) fn stretches(&self, first: usize, n: usize, stretch: &mut dyn FnMut(Range<usize>, usize)) {
        let (width, mut at) = (self.width(), 0);
        while at < n {
            let (scale, length) = self.run(first + at);
            let column = (first + at) % width;
            let length = if column.is_multiple_of(self.block()) { width - column } else { length };
            let end = n.min(at + length);
            stretch(at..end, scale);
            at = end;
        }
    }

    /// Returns the range of the scales of some elements, if it has no more than a few others, so that decoding all of it pays.
    pub(super) fn scales_of(&self, elements: &Range<usize>) -> Option<Range<usize>> {
        if self.scales <= 1 || elements.is_empty() {
            None
        } else if self.is_in_order() {
            Some(self.run(elements.start).0..self.run(elements.end - 1).0 + 1)
        } else {
            // Where each column has a scale, every row has all of them.
            (self.block() == 1 && self.scales <= elements.len() / 4).then_some(0..self.scales)
        }
    }

    /// Whether contiguous elements have contiguous scales.
    pub(super) fn is_in_order(&self) -> bool {
        self.blocks[..self.blocks.len() - 1].iter().all(|&block| block == 1)
    }

    /// Returns how many elements and scales come before a band, which has the length of one block in the outermost dimension
    /// and all of the others.
    fn before(&self, band: usize) -> (usize, usize) {
        let inner: usize = self.dims[1..].iter().product();
        let scales: usize = self
            .dims
            .iter()
            .zip(self.blocks.iter())
            .skip(1)
            .map(|(length, block)| length.div_ceil(*block))
            .product();
        (band.saturating_mul(self.blocks[0]).min(self.dims[0]) * inner, band * scales)
    }

    /// Cuts the elements into pieces of whole bands, of about `wanted` elements each, that begin at multiples of 8 elements.
    pub(super) fn pieces(&self, wanted: usize) -> impl ExactSizeIterator<Item = Piece> {
        let bands = if self.count == 0 { 0 } else { self.dims[0].div_ceil(self.blocks[0]) };
        // Every eight bands begin at such a multiple.
        let band = self.before(1).0.max(1);
        let step = (wanted / band).max(1).next_multiple_of(if band.is_multiple_of(8) { 1 } else { 8 });
        (0..bands).step_by(step).map(move |first| {
            let (start, end) = (self.before(first), self.before((first + step).min(bands)));
            Piece { elements: start.0..end.0, scales: start.1..end.1 }
        })
    }
}
