//! Casts buffers of records field by field, each with the kernel of its pair of dtypes.

use alloc::vec::Vec;
use core::mem::MaybeUninit;

use super::dtype::{ItemBase, ItemDType, StructDType};
use super::error::StructError;
use crate::cast::Caster;
use crate::error::{Error, Side};
use crate::formats::layout::Packing;
use crate::formats::options::CastOptions;
use crate::numpy::OrderedDType;

/// The bytes of a tile on either side: two of them fit in L1.
const TILE: usize = 4096;

/// A resolved cast of records: which bytes of a record are cast to which, by which kernels. Make one,
/// and keep it.
///
/// Fields are cast by position, as [`ItemDType::casting_to`] says. A sub-array of another shape is cut, or
/// filled up with zeros; along a dimension that has extent 1 in the source, or that the source lacks, items are
/// repeated; of a dimension that the destination lacks, the first item is taken. Bytes of a record that belong to
/// no field become zero. Where fields overlap in the destination, the later one wins.
///
/// ```
/// use lanecast::{records::{RecordCaster, StructDType}, CastOptions};
///
/// let from: StructDType = "[('id', 'u1'), ('x', '>f4')]".parse()?;
/// let to: StructDType = "[('id', '<u2'), ('x', '<f2')]".parse()?;
/// let caster = RecordCaster::new(&from, &to, &CastOptions::new())?;
/// let src = [7, 0x3F, 0xC0, 0, 0, 8, 0xC0, 0, 0, 0];
/// let mut dst = [0; 8];
/// caster.cast(&src, &mut dst, 2)?;
/// assert_eq!(dst, [7, 0, 0x00, 0x3E, 8, 0, 0x00, 0xC0]); // 7, 1.5; 8, -2
/// # Ok::<(), lanecast::records::StructError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RecordCaster {
    from: usize,
    to: usize,
    leaves: Vec<Leaf>,
}

/// A field, or the elements of a sub-array: elements of one pair of dtypes at the same offsets in every record.
#[derive(Clone, Debug)]
struct Leaf {
    caster: Caster,
    /// The offset of the first element in a record of the source, and in one of the destination.
    src: usize,
    dst: usize,
    /// How many elements are contiguous on both sides.
    run: usize,
    /// The dimensions along which runs repeat.
    repeats: Vec<Repeat>,
}

/// One dimension of a sub-array, or that of the records: the number of items, and the bytes from one to the next on either side.
#[derive(Clone, Copy, Debug)]
struct Repeat {
    count: usize,
    src: usize,
    dst: usize,
    /// How many elements of the leaf lie between the starts of two consecutive items. It is found for each cast, as the random words
    /// of stochastic rounding depend on the number of an element.
    apart: usize,
}

impl RecordCaster {
    /// Resolves the cast of `from` to `to`. The options only decide values; the layout in memory is that of the
    /// dtypes.
    ///
    /// ```
    /// use lanecast::{records::{RecordCaster, StructDType}, CastOptions, DType};
    /// let record: StructDType = "i4,f4".parse()?;
    /// let error = RecordCaster::new(&record, DType::I32, &CastOptions::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "the source has 2 fields; fields are cast by position, and the destination needs 1");
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such cast at any level, or the instruction set that the options or `LANECAST_ISA` name is
    /// not available.
    pub fn new(
        from: impl Into<ItemDType>,
        to: impl Into<ItemDType>,
        options: &CastOptions,
    ) -> Result<Self, StructError> {
        let (from, to) = (from.into(), to.into());
        let mut plan = Planner { options, repeats: Vec::new(), leaves: Vec::new() };
        plan.item(&from, &to, 0, 0)?;
        Ok(Self { from: from.itemsize(), to: to.itemsize(), leaves: plan.leaves })
    }

    /// Casts `n` records.
    ///
    /// ```
    /// use lanecast::{records::{RecordCaster, StructDType}, CastOptions, DType};
    /// let pair: StructDType = "i1,f4".parse()?;
    /// let caster = RecordCaster::new(DType::U8, &pair, &CastOptions::new())?;
    /// let mut dst = [0; 5];
    /// caster.cast(&[3], &mut dst, 1)?;
    /// assert_eq!((dst[0], &dst[1..]), (3, &3f32.to_ne_bytes()[..]));
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size of `n` records. Nothing was written.
    pub fn cast(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<(), StructError> {
        self.check(src.len(), dst.len(), n)?;
        // No field writes padding, or the additional items of a larger sub-array.
        dst.fill(0);
        self.fields(src, dst, n)
    }

    /// As [`RecordCaster::cast`], to memory that need not be initialised and is returned initialised.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use lanecast::{records::{RecordCaster, StructDType}, CastOptions, DType};
    /// let pair: StructDType = "i1,u1".parse()?;
    /// let caster = RecordCaster::new(DType::U8, &pair, &CastOptions::new())?;
    /// let mut memory = [MaybeUninit::uninit(); 4];
    /// assert_eq!(caster.cast_uninit(&[3, 4], &mut memory, 2)?, [3, 3, 4, 4]);
    /// # Ok::<(), lanecast::records::StructError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`RecordCaster::cast`].
    pub fn cast_uninit<'a>(
        &self,
        src: &[u8],
        dst: &'a mut [MaybeUninit<u8>],
        n: usize,
    ) -> Result<&'a mut [u8], StructError> {
        self.check(src.len(), dst.len(), n)?;
        dst.fill(MaybeUninit::new(0));
        #[allow(unsafe_code, reason = "memory that nothing says is initialised")]
        // SAFETY: every byte was just written.
        let dst = unsafe { dst.assume_init_mut() };
        self.fields(src, dst, n)?;
        Ok(dst)
    }

    fn fields(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<(), StructError> {
        let records = Repeat { count: n, src: self.from, dst: self.to, apart: 0 };
        for leaf in &self.leaves {
            leaf.cast(src, dst, records)?;
        }
        Ok(())
    }

    /// Checks that the buffers have the sizes of `n` records.
    fn check(&self, src: usize, dst: usize, n: usize) -> Result<(), StructError> {
        for (side, itemsize, given) in [(Side::Source, self.from, src), (Side::Destination, self.to, dst)] {
            let needed = itemsize.checked_mul(n).ok_or(StructError::TooLarge)?;
            if needed != given {
                return Err(StructError::BufferSize { side, records: n, needed, given });
            }
        }
        Ok(())
    }
}

/// Collects the leaves of the dtypes on both sides, recursively.
struct Planner<'a> {
    options: &'a CastOptions,
    repeats: Vec<Repeat>,
    leaves: Vec<Leaf>,
}

impl Planner<'_> {
    /// Adds the leaves of a pair of items at these offsets, which may only wrap around if a dimension has no items, so that nothing is cast.
    fn item(&mut self, from: &ItemDType, to: &ItemDType, src: usize, dst: usize) -> Result<(), StructError> {
        match (from.as_record(), to.as_record()) {
            (Some(from), Some(to)) => self.record(from, to, src, dst)?,
            (None, Some(to)) => {
                for field in to.fields() {
                    self.item(from, &field.dtype, src, dst.wrapping_add(field.offset))?;
                }
            }
            (Some(record), None) => {
                let [field] = record.fields() else {
                    return Err(StructError::FieldCount { source: record.fields().len(), needed: 1 });
                };
                self.item(&field.dtype, to, src.wrapping_add(field.offset), dst)?;
            }
            (None, None) => {
                let outside = self.repeats.len();
                self.shape(from, to);
                match (from.base(), to.base()) {
                    (ItemBase::Element(from), ItemBase::Element(to)) => self.leaf(*from, *to, src, dst)?,
                    _ => self.item(&from.one(), &to.one(), src, dst)?,
                }
                self.repeats.truncate(outside);
            }
        }
        Ok(())
    }

    fn record(
        &mut self,
        from: &StructDType,
        to: &StructDType,
        src: usize,
        dst: usize,
    ) -> Result<(), StructError> {
        let (source, needed) = (from.fields().len(), to.fields().len());
        if source != needed {
            return Err(StructError::FieldCount { source, needed });
        }
        for (a, b) in from.fields().iter().zip(to.fields()) {
            let (src, dst) = (src.wrapping_add(a.offset), dst.wrapping_add(b.offset));
            self.item(&a.dtype, &b.dtype, src, dst)?;
        }
        Ok(())
    }

    /// Pushes the dimensions of a pair of sub-arrays, except those of one item: a shape may have any number of these, and `walk` recurses
    /// for each dimension. The shapes are matched from their last dimensions on, as in broadcasting; of a dimension that the destination
    /// lacks, the first item is taken.
    fn shape(&mut self, from: &ItemDType, to: &ItemDType) {
        let (mut src, mut dst) = (from.one().itemsize(), to.one().itemsize());
        let outside = self.repeats.len();
        let mut sources = from.shape().iter().rev();
        for &count in to.shape().iter().rev() {
            let source = sources.next().copied();
            let repeat = match source {
                None | Some(1) => Repeat { count, src: 0, dst, apart: 0 },
                Some(n) => Repeat { count: count.min(n), src, dst, apart: 0 },
            };
            if repeat.count != 1 {
                self.repeats.push(repeat);
            }
            // These may only wrap around if another dimension is 0, so that nothing is cast.
            src = src.wrapping_mul(source.unwrap_or(1));
            dst = dst.wrapping_mul(count);
        }
        if sources.any(|&n| n == 0) {
            self.repeats.push(Repeat { count: 0, src, dst, apart: 0 });
        }
        self.repeats[outside..].reverse();
    }

    fn leaf(&mut self, from: OrderedDType, to: OrderedDType, src: usize, dst: usize) -> Result<(), Error> {
        let options = self.options.src_order(from.order()).dst_order(to.order());
        let options = options.src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
        let caster = Caster::new(from.dtype(), to.dtype(), &options)?;
        if self.repeats.iter().any(|dim| dim.count == 0) {
            return Ok(());
        }
        let mut leaf = Leaf { caster, src, dst, run: 1, repeats: self.repeats.clone() };
        while let Some(&dim) = leaf.repeats.last()
            && (dim.src, dim.dst) == leaf.run_bytes()
        {
            leaf.run *= dim.count;
            leaf.repeats.pop();
        }
        self.leaves.push(leaf);
        Ok(())
    }
}

impl Leaf {
    /// The bytes of a run on either side.
    fn run_bytes(&self) -> (usize, usize) {
        (self.run * self.caster.from().itemsize(), self.run * self.caster.to().itemsize())
    }

    fn cast(&self, src: &[u8], dst: &mut [u8], records: Repeat) -> Result<(), Error> {
        let mut repeats = self.repeats.clone();
        repeats.insert(0, records);
        let mut apart = self.run;
        for dim in repeats.iter_mut().rev() {
            dim.apart = apart;
            apart = apart.saturating_mul(dim.count);
        }
        if records.count == 0 {
            return Ok(());
        }
        // The innermost loop is over the longest dimension, so that few records with large sub-arrays are as fast as many small records.
        let longest = (0..repeats.len()).max_by_key(|&i| repeats[i].count).unwrap_or(0);
        let inner = repeats.remove(longest);
        self.walk(&repeats, inner, &src[self.src..], &mut dst[self.dst..], 0)
    }

    /// Casts along the remaining dimensions `outer`, and `inner`. `first` is the number of the first element, counted over the elements of the
    /// leaf in all records.
    fn walk(
        &self,
        outer: &[Repeat],
        inner: Repeat,
        src: &[u8],
        dst: &mut [u8],
        first: usize,
    ) -> Result<(), Error> {
        let [dim, rest @ ..] = outer else { return self.strip(inner, src, dst, first) };
        (0..dim.count).try_for_each(|i| {
            let first = first + i * dim.apart;
            self.walk(rest, inner, &src[i * dim.src..], &mut dst[i * dim.dst..], first)
        })
    }

    /// Casts one dimension, a tile at a time: gathers the runs, casts the tile, and scatters the results. A side on which runs are
    /// contiguous is read or written in place.
    ///
    /// Not inlined into `walk`, which is recursive: each level would have the tiles on the stack.
    #[inline(never)]
    fn strip(
        &self,
        Repeat { count, src: src_step, dst: dst_step, apart }: Repeat,
        src: &[u8],
        dst: &mut [u8],
        first: usize,
    ) -> Result<(), Error> {
        let (from, to) = self.run_bytes();
        let (gathers, scatters) = (src_step != from, dst_step != to);
        // The random words of stochastic rounding depend on the numbers of elements: if those of a tile are not consecutive, each run
        // is cast by itself.
        let is_single = self.caster.route().is_stochastic && apart != self.run;
        if !gathers && !scatters && !is_single {
            return self.caster.at(first).cast(
                &src[..count * from],
                &mut dst[..count * to],
                count * self.run,
            );
        }
        let (mut sources, mut results) = ([0; TILE], [0; TILE]);
        // A run that is larger than a tile is cast in place.
        let whole = from.max(to) > TILE;
        let tile = if whole || is_single { 1 } else { TILE / from.max(to) };
        for start in (0..count).step_by(tile) {
            let n = tile.min(count - start);
            let caster = self.caster.at(first + start * apart);
            let src = &src[start * src_step..];
            let src = if whole || !gathers {
                &src[..n * from]
            } else {
                copy(src, src_step, &mut sources, from, from, n);
                &sources[..n * from]
            };
            let dst = &mut dst[start * dst_step..];
            if whole || !scatters {
                caster.cast(src, &mut dst[..n * to], n * self.run)?;
            } else {
                caster.cast(src, &mut results[..n * to], n * self.run)?;
                copy(&results, to, dst, dst_step, to, n);
            }
        }
        Ok(())
    }
}

/// Copies `n` pieces of `width` bytes, which are `src_step` and `dst_step` bytes apart.
fn copy(src: &[u8], src_step: usize, dst: &mut [u8], dst_step: usize, width: usize, n: usize) {
    /// With a constant width, a piece is copied with one load and one store.
    fn fixed<const W: usize>(src: &[u8], src_step: usize, dst: &mut [u8], dst_step: usize, n: usize) {
        for i in 0..n {
            dst[i * dst_step..][..W].copy_from_slice(&src[i * src_step..][..W]);
        }
    }
    match width {
        1 => fixed::<1>(src, src_step, dst, dst_step, n),
        2 => fixed::<2>(src, src_step, dst, dst_step, n),
        4 => fixed::<4>(src, src_step, dst, dst_step, n),
        8 => fixed::<8>(src, src_step, dst, dst_step, n),
        16 => fixed::<16>(src, src_step, dst, dst_step, n),
        _ => {
            for i in 0..n {
                dst[i * dst_step..][..width].copy_from_slice(&src[i * src_step..][..width]);
            }
        }
    }
}
