//! What a quantisation has lost, read from the data and from what was written.

#[cfg(isa = "vector")]
use core::iter::repeat_n;
#[cfg(isa = "vector")]
use core::ops::Range;

use super::codes::{Elements, Scratch, TILE};
#[cfg(isa = "vector")]
use super::engine::Dequantizing;
use super::engine::Given;
use super::error::Error;
use super::exact::Exact;
#[cfg(isa = "vector")]
use super::fast::{Decided, Multiply};
use super::front::{Quantizer, Requantizer, given};
#[cfg(isa = "vector")]
use super::memory::collect;
use super::rule::{Block, Dequantize, Quantize};
use super::scaling::{Profile, Scaling, TensorScale};
use super::shape::Grid;
#[cfg(isa = "vector")]
use crate::cast::Caster;
use crate::formats::dtype::DType;
#[cfg(isa = "vector")]
use crate::formats::dtype::Kind;
#[cfg(isa = "vector")]
use crate::formats::layout::ByteOrder;
use crate::formats::options::CastOptions;
#[cfg(isa = "vector")]
use crate::formats::options::Policy;
#[cfg(isa = "vector")]
use crate::kernels::scaled::calmly;

/// What was lost of some elements: of a whole buffer, or of a block.
///
/// ```
/// use lanecast::scaled::{Quantizer, Scaling};
/// use lanecast::{CastOptions, DType};
///
/// let q = Quantizer::new(DType::F32, DType::F4E2M1, &Scaling::mx(), &CastOptions::new())?;
/// let data: Vec<u8> = [7.5f32, 2.2, 0.1].iter().flat_map(|x| x.to_ne_bytes()).collect();
/// let (mut codes, mut scales) = ([0; 2], [0; 1]);
/// q.quantize(&data, &[3], &mut codes, &mut scales)?;
/// let losses = q.losses(&data, &[3], &codes, &scales, None, None)?;
/// assert_eq!((losses.saturated, losses.underflowed), (1, 1)); // 7.5 became 6, and 0.1 became 0
/// assert_eq!(losses.max_error, 1.5);
/// # Ok::<(), lanecast::scaled::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Losses {
    /// Elements that were looked at.
    pub elements: usize,
    /// Finite elements that are, rounded, beyond the codes of their block: they became the largest or the smallest one, or Inf
    /// or NaN where the options do not saturate.
    pub saturated: usize,
    /// Finite elements that are not 0, and became 0.
    pub underflowed: usize,
    /// Elements that are no NaN, and became one.
    pub made_nan: usize,
    /// NaNs that became something else.
    pub lost_nan: usize,
    /// Elements that are finite, and became something finite: those of the errors.
    pub compared: usize,
    /// The largest distance from an element to what it became, in units of the data.
    pub max_error: f64,
    /// The sum of these distances.
    pub total_error: f64,
}

impl Losses {
    /// The mean distance from an element to what it became, in units of the data; 0 of no elements.
    ///
    /// ```
    /// assert_eq!(lanecast::scaled::Losses::default().mean_error(), 0.0);
    /// ```
    pub fn mean_error(&self) -> f64 {
        if self.compared == 0 { 0.0 } else { self.total_error / self.compared as f64 }
    }

    /// Adds an element and what it became. The errors are rounded to float64, each and their sum.
    fn add(&mut self, x: Exact, became: Exact, saturates: bool) {
        self.elements += 1;
        self.saturated += usize::from(saturates);
        self.made_nan += usize::from(became.is_nan() && !x.is_nan());
        self.lost_nan += usize::from(x.is_nan() && !became.is_nan());
        if x.is_nan() || x.is_inf() {
            return;
        }
        self.underflowed += usize::from(became.is_zero() && !x.is_zero());
        if became.is_nan() || became.is_inf() {
            return;
        }
        self.compared += 1;
        let rounded = |x: Exact| x.rounded(DType::F64);
        let error = rounded(rounded(x).add(rounded(became).neg())).abs();
        if error.cmp_magnitude(Exact::f64(self.max_error)).is_gt() {
            self.max_error = error.to_f64();
        }
        self.total_error = rounded(Exact::f64(self.total_error).add(error)).to_f64();
    }
}

/// What registers find of a loss: one pass over some elements.
#[cfg(isa = "vector")]
impl Losses {
    /// Adds an element and what it became, of which both are rounded to float64, as [`Losses::add`] does.
    fn add_f64(&mut self, x: f64, became: f64, saturates: bool) {
        self.elements += 1;
        self.saturated += usize::from(saturates);
        self.made_nan += usize::from(became.is_nan() && !x.is_nan());
        self.lost_nan += usize::from(x.is_nan() && !became.is_nan());
        if !x.is_finite() {
            return;
        }
        self.underflowed += usize::from(became == 0.0 && x != 0.0);
        if !became.is_finite() {
            return;
        }
        self.compared += 1;
        let error = (x - became).abs();
        if error > self.max_error {
            self.max_error = error;
        }
        self.total_error += error;
    }
}

/// Elements of a buffer as float64, rounded to nearest even, in native bytes. False if that is nothing for registers.
#[cfg(isa = "vector")]
type LoadF64<'a> = &'a mut dyn FnMut(Range<usize>, &mut [u8]) -> Result<bool, Error>;

/// Elements that are looked at together.
#[cfg(isa = "vector")]
const MANY: usize = 8 * TILE;

/// The elements of a buffer, from one on, as exact values.
type Load<'a> = &'a mut dyn FnMut(usize, &mut [Exact]) -> Result<(), Error>;

/// What was written, and by which rule.
struct Written<'a> {
    quantize: &'a Quantize,
    options: &'a CastOptions,
    scaling: &'a Scaling,
    codes: &'a [u8],
    scales: &'a [u8],
    zero_points: Option<&'a [u8]>,
}

impl Written<'_> {
    fn losses(
        &self,
        shape: &[usize],
        load: Load<'_>,
        #[cfg(isa = "vector")] load_f64: LoadF64<'_>,
        mut blocks: Option<&mut [Losses]>,
    ) -> Result<Losses, Error> {
        let (q, scaling) = (self.quantize, self.scaling);
        if matches!(q.tensor, TensorScale::ComputeMultiply | TensorScale::ComputeDivide) {
            return Err(Error::Unsupported {
                what: "to say what was lost, the factor of the tensor that was found must be given",
            });
        }
        let grid = Grid::new(shape, scaling)?;
        let packed = (q.to, self.options.dst_packing, self.options.dst_order);
        let zero_points = q.has_zero_points();
        let given = given(shape, &grid, scaling, packed, self.scales, self.zero_points, zero_points)?;
        if let Some(blocks) = &blocks
            && blocks.len() != grid.scales
        {
            return Err(Error::Blocks { needed: grid.scales, given: blocks.len() });
        }
        // What codes stand for: by the exact rule, whoever wrote them.
        let exact = Scaling { profile: Profile::Lanecast, ..*scaling };
        let read = Dequantize::new(q.to, DType::F64, &exact, &CastOptions::new())?;
        #[cfg(isa = "vector")]
        if let Some(all) = self.by_registers(&read, &grid, given, &mut *load, load_f64, &mut blocks)? {
            return Ok(all);
        }
        let mut became = Values::new(&self.codes_as_source(), &read, &grid, given, self.codes, scaling)?;
        let mut all = Losses::default();
        let (mut source, mut written) = ([Exact::ZERO; TILE], [Exact::ZERO; TILE]);
        let mut first = 0;
        while first < grid.count {
            let n = TILE.min(grid.count - first);
            load(first, &mut source[..n])?;
            became.load(first, &mut written[..n])?;
            let mut at = 0;
            while at < n {
                let (scale, length) = grid.run(first + at);
                let end = (at + length).min(n);
                let block = self.block(&given, scale);
                for i in at..end {
                    let saturates = q.saturates(source[i], &block, first + i);
                    all.add(source[i], written[i], saturates);
                    if let Some(blocks) = &mut blocks {
                        blocks[scale].add(source[i], written[i], saturates);
                    }
                }
                at = end;
            }
            first += n;
        }
        Ok(all)
    }

    /// The same by registers, to whose results all but what may have saturated is compared. None, and nothing was added, if that
    /// is nothing for them.
    #[cfg(isa = "vector")]
    fn by_registers(
        &self,
        read: &Dequantize,
        grid: &Grid,
        given: Given<'_>,
        load: Load<'_>,
        load_f64: LoadF64<'_>,
        blocks: &mut Option<&mut [Losses]>,
    ) -> Result<Option<Losses>, Error> {
        let options = self.codes_as_source();
        let codes = Elements::read(self.quantize.to, &options, super::front::rows(grid, self.scaling))?;
        let write = Elements::write(DType::F64, &options.dst_order(ByteOrder::Native), None)?;
        let job = Dequantizing { dequantize: read, grid, read: codes, bytes: self.codes, write, given };
        let Some(decided) = calmly(|| Decided::new(read, &codes, &write)) else { return Ok(None) };
        let Some(multiply) = Multiply::new(&job, &decided).filter(|_| !given.has_float_zeros()) else {
            return Ok(None);
        };
        let mut all = Losses::default();
        let n = MANY.min(grid.count);
        let (mut source, mut written) = (collect(repeat_n(0, 8 * n))?, collect(repeat_n(0, 8 * n))?);
        for first in (0..grid.count).step_by(MANY) {
            let elements = first..grid.count.min(first + MANY);
            let n = elements.len();
            let (source, written) = (&mut source[..8 * n], &mut written[..8 * n]);
            let is_done: Result<bool, Error> = calmly(|| {
                Ok(load_f64(elements.clone(), source)?
                    && multiply.run(elements.clone(), (&mut *written).into())?)
            });
            if !is_done? {
                // Of the first elements already, if at all.
                return Ok(None);
            }
            calmly(|| {
                let (xs, became) = (source.as_chunks::<8>().0, written.as_chunks::<8>().0);
                let mut at = 0;
                while at < n {
                    let (scale, length) = grid.run(first + at);
                    let end = (at + length).min(n);
                    let block = self.block(&given, scale);
                    let safe = self.safe(read, &given, scale);
                    for i in at..end {
                        let (x, y) = (f64::from_ne_bytes(xs[i]), f64::from_ne_bytes(became[i]));
                        // (A NaN is not below.)
                        let is_safe = x.abs() < safe;
                        let saturates = !is_safe && {
                            let mut exact = [Exact::ZERO];
                            load(first + i, &mut exact)?;
                            self.quantize.saturates(exact[0], &block, first + i)
                        };
                        all.add_f64(x, y, saturates);
                        if let Some(blocks) = blocks {
                            blocks[scale].add_f64(x, y, saturates);
                        }
                    }
                    at = end;
                }
                Ok::<(), Error>(())
            })?;
        }
        Ok(Some(all))
    }

    /// A magnitude below which no element of a block saturates, whatever the steps of a profile round; 0 if that cannot be said.
    #[cfg(isa = "vector")]
    fn safe(&self, read: &Dequantize, given: &Given<'_>, scale: usize) -> f64 {
        let (code, zero) = given.get(scale);
        let s = f64::from_bits(read.given(code).encode(DType::F64, &Policy::DEFAULT)).abs();
        // Where a profile rounds a scale to a subnormal number, that may be any other.
        let is_near = self.quantize.is_own()
            || self.quantize.from != DType::F16 && s >= f64::from_bits((1023 - 100) << 52);
        let max = match self.quantize.to.kind() {
            Kind::Int(format) => {
                let (min, max) = (format.min() as f64, format.max() as f64);
                (max - zero as f64).min(zero as f64 - min.max(-max))
            }
            _ => self.quantize.max_value(),
        };
        if is_near { 0.9 * max * s } else { 0.0 }
    }

    /// The options under which the codes are a source.
    fn codes_as_source(&self) -> CastOptions {
        self.options.src_packing(self.options.dst_packing).src_order(self.options.dst_order)
    }

    fn block(&self, given: &Given<'_>, scale: usize) -> Block {
        let (code, zero) = given.get(scale);
        let block = self.quantize.given(code, zero, self.quantize.tensor);
        let float_zero = given.float_zero(scale);
        Block { float_zero, zero: if float_zero.is_some() { 0 } else { zero }, ..block }
    }
}

/// The values of elements under scales.
struct Values<'a> {
    elements: Elements,
    dequantize: &'a Dequantize,
    grid: &'a Grid,
    given: Given<'a>,
    bytes: &'a [u8],
    codes: [u64; TILE],
    scratch: Scratch,
}

impl<'a> Values<'a> {
    fn new(
        options: &CastOptions,
        dequantize: &'a Dequantize,
        grid: &'a Grid,
        given: Given<'a>,
        bytes: &'a [u8],
        scaling: &Scaling,
    ) -> Result<Self, Error> {
        let elements = Elements::read(dequantize.from, options, super::front::rows(grid, scaling))?;
        let (codes, scratch) = ([0; TILE], [0; 8 * (TILE + 8)]);
        Ok(Self { elements, dequantize, grid, given, bytes, codes, scratch })
    }

    /// The values from one element on.
    fn load(&mut self, first: usize, values: &mut [Exact]) -> Result<(), Error> {
        let (mut at, n) = (0, values.len());
        while at < n {
            let now = self.elements.tile(first + at, first + n);
            self.elements.load(self.bytes, first + at, &mut self.codes[at..at + now], &mut self.scratch)?;
            at += now;
        }
        let mut at = 0;
        while at < n {
            let (scale, length) = self.grid.run(first + at);
            let end = (at + length).min(n);
            let (code, zero) = self.given.get(scale);
            let s = self.dequantize.given(code);
            let float_zero =
                self.given.float_zero(scale).map(|code| Exact::decode(self.dequantize.from, code));
            for (value, &code) in values[at..end].iter_mut().zip(&self.codes[at..end]) {
                *value = match float_zero {
                    Some(zero) => Exact::decode(self.dequantize.from, code).add(zero.neg()).mul(s),
                    None => self.dequantize.value(code, s, zero),
                };
            }
            at = end;
        }
        Ok(())
    }
}

impl Quantizer {
    /// What a quantisation has lost: of the data, and the codes, scales and zero points that were written or given. With blocks,
    /// of each block too, in the row-major order of the scales; they begin as [`Losses::default`]. What a code stands for is
    /// the exact product with its scale, whatever the profile. The factor of the tensor is that of the scaling: one that was computed must be
    /// given there.
    ///
    /// On the calling thread; by registers where codes are dequantised so, but for elements that may have saturated. Else this looks
    /// at every element exactly, and takes several times as long as the reference.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Losses, Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::I8, &Scaling::per_axis(0), &CastOptions::new())?;
    /// let data: Vec<u8> = [100f32, 1.0, 1.0, 0.5].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let scales: Vec<u8> = [0.5f32; 2].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let mut codes = [0; 4];
    /// q.quantize_with(&data, &[2, 2], &scales, None, &mut codes)?;
    /// let mut rows = [Losses::default(); 2];
    /// q.losses(&data, &[2, 2], &codes, &scales, None, Some(&mut rows))?;
    /// assert_eq!(rows.map(|row| (row.saturated, row.mean_error())), [(1, 18.25), (0, 0.0)]); // 100 became 63.5
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize_with`], or there are more or fewer blocks than scales.
    pub fn losses(
        &self,
        src: &[u8],
        shape: &[usize],
        codes: &[u8],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        blocks: Option<&mut [Losses]>,
    ) -> Result<Losses, Error> {
        self.grid(src.len(), shape, codes.len())?;
        let (quantize, options, scaling) = (&self.quantize, &self.options, &self.scaling);
        let elements = Elements::read(quantize.from, options, None)?;
        let (mut room, mut scratch) = ([0; TILE], [0; 8 * (TILE + 8)]);
        let mut load = |first: usize, values: &mut [Exact]| {
            elements.load(src, first, &mut room[..values.len()], &mut scratch)?;
            for (value, &code) in values.iter_mut().zip(&room) {
                *value = quantize.source(code);
            }
            Ok(())
        };
        #[cfg(isa = "vector")]
        let wide = Caster::new(quantize.from, DType::F64, &options.dst_order(ByteOrder::Native))?;
        #[cfg(isa = "vector")]
        let mut load_f64 = |range: Range<usize>, values: &mut [u8]| {
            let width = quantize.from.bits() as usize / 8;
            wide.cast(&src[range.start * width..range.end * width], values, range.len())?;
            Ok(true)
        };
        Written { quantize, options, scaling, codes, scales, zero_points }.losses(
            shape,
            &mut load,
            #[cfg(isa = "vector")]
            &mut load_f64,
            blocks,
        )
    }
}

impl Requantizer {
    /// What a requantisation has lost, as [`Quantizer::losses`] says it: of the exact values of the source.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Requantizer, Scaling}};
    /// let s = Scaling::mx();
    /// let r = Requantizer::new((DType::F8E4M3FN, &s), (DType::F4E2M1, &s), &CastOptions::new())?;
    /// let (mut codes, mut scales) = ([0], [0]);
    /// r.requantize(&[0x7E], &[1], &[127], None, &mut codes, &mut scales)?;
    /// let losses = r.losses(&[0x7E], &[1], &[127], None, (&codes, &scales), None)?;
    /// assert_eq!((losses.saturated, losses.max_error), (1, 64.0)); // 448 became 384
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Requantizer::requantize`], or there are more or fewer blocks than scales.
    pub fn losses(
        &self,
        src: &[u8],
        shape: &[usize],
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        (codes, scales): (&[u8], &[u8]),
        blocks: Option<&mut [Losses]>,
    ) -> Result<Losses, Error> {
        let (dequantize, quantize, options) = (&self.dequantize, &self.quantize, &self.options);
        let (from, _) = self.grids(src.len(), shape, codes.len())?;
        let packed = (dequantize.from, options.src_packing, options.src_order);
        let has_zeros = dequantize.has_zero_points();
        let given = given(shape, &from, &self.from, packed, src_scales, zero_points, has_zeros)?;
        let mut values = Values::new(options, dequantize, &from, given, src, &self.from)?;
        let written = Written { quantize, options, scaling: &self.to, codes, scales, zero_points: None };
        #[cfg(isa = "vector")]
        let read = Elements::read(dequantize.from, options, super::front::rows(&from, &self.from))?;
        #[cfg(isa = "vector")]
        let write = Elements::write(DType::F64, &options.dst_order(ByteOrder::Native), None)?;
        #[cfg(isa = "vector")]
        let job = Dequantizing { dequantize, grid: &from, read, bytes: src, write, given };
        #[cfg(isa = "vector")]
        let decided = calmly(|| Decided::new(dequantize, &read, &write));
        #[cfg(isa = "vector")]
        let multiply = decided.as_ref().and_then(|decided| Multiply::new(&job, decided));
        #[cfg(isa = "vector")]
        let mut load_f64 = |range: Range<usize>, values: &mut [u8]| match &multiply {
            Some(multiply) => multiply.run(range, values.into()),
            None => Ok(false),
        };
        written.losses(
            shape,
            &mut |first, into| values.load(first, into),
            #[cfg(isa = "vector")]
            &mut load_f64,
            blocks,
        )
    }
}
