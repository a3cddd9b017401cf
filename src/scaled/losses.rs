//! What a quantisation has lost, found by comparing the data with the codes that were written.

use alloc::boxed::Box;
#[cfg(isa = "vector")]
use core::iter::repeat_n;
use core::ops::Range;

#[cfg(isa = "vector")]
use super::codes::TILE;
use super::codes::{Codes, Elements, Scales, Scratch};
#[cfg(isa = "vector")]
use super::engine::Dequantizing;
use super::engine::{Given, Quantizing};
use super::error::Error;
use super::exact::Exact;
use super::front::{Quantized, alone, begun, given, known, rows};
use super::jobs::Registers;
use super::memory::array;
#[cfg(isa = "vector")]
use super::memory::collect;
#[cfg(isa = "vector")]
use super::multiply::{Decided, Multiply};
#[cfg(isa = "vector")]
use super::numbers::Known;
use super::quantizer::Quantizer;
use super::requantizer::Requantizer;
#[cfg(isa = "vector")]
use super::rule::Steps;
use super::rule::{Block, Dequantize, Quantize};
use super::scaling::{Profile, Scaling, TensorScale};
use super::shape::Grid;
#[cfg(isa = "vector")]
use crate::cast::Caster;
use crate::formats::dtype::DType;
#[cfg(isa = "vector")]
use crate::formats::layout::ByteOrder;
use crate::formats::options::CastOptions;
#[cfg(isa = "vector")]
use crate::formats::options::Policy;
#[cfg(isa = "vector")]
use crate::kernels::scaled::float64::{Ends, Settled, compared};
#[cfg(isa = "vector")]
use crate::kernels::scaled::{LEAST_GROUP, in_kernel_environment};

/// What was lost from the elements of a whole buffer, or of one block.
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
    /// Finite elements that lie, once rounded, beyond the codes of their block. They became the largest or the smallest code,
    /// or Inf or NaN if the options do not saturate.
    pub saturated: usize,
    /// Finite elements other than 0 that became 0.
    pub underflowed: usize,
    /// Elements other than NaN that became NaN.
    pub made_nan: usize,
    /// NaNs that became something else.
    pub lost_nan: usize,
    /// Finite elements that became finite values, which are those that the errors cover.
    pub compared: usize,
    /// The largest distance from an element to what it became, in units of the data.
    pub max_error: f64,
    /// The sum of these distances.
    pub total_error: f64,
}

impl Losses {
    /// Returns the mean distance from an element to what it became, in units of the data; 0 if no elements were compared.
    ///
    /// ```
    /// assert_eq!(lanecast::scaled::Losses::default().mean_error(), 0.0);
    /// ```
    pub fn mean_error(&self) -> f64 {
        if self.compared == 0 { 0.0 } else { self.total_error / self.compared as f64 }
    }

    /// Adds an element and what it became. Each error, and their running sum, is rounded to float64.
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

/// Counting in float64.
#[cfg(isa = "vector")]
impl Losses {
    /// As [`Losses::add`], but with an element and what it became as float64.
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

    /// Adds elements that are all finite: the counts that a kernel found, and their errors, summed in order.
    fn add_settled(&mut self, found: &Settled, errors: &[f64]) {
        self.elements += errors.len();
        self.compared += errors.len();
        self.saturated += found.saturated;
        self.underflowed += found.underflowed;
        if found.max_error > self.max_error {
            self.max_error = found.max_error;
        }
        self.total_error = errors.iter().fold(self.total_error, |sum, error| sum + error);
    }
}

/// How many elements are compared in float64 at a time.
#[cfg(isa = "vector")]
const MANY: usize = 8 * TILE;
/// How many elements are compared exactly at a time. They are on the stack, with 48 bytes for each side.
const FEW: usize = 64;

/// Loads data, from the element of this index on, as exact values.
type LoadExact<'a> = &'a mut dyn FnMut(usize, &mut [Exact]) -> Result<(), Error>;
/// Loads data as float64 in native byte order, rounded to nearest even. Returns false if no kernel can do that.
#[cfg(isa = "vector")]
type LoadF64<'a> = &'a mut dyn FnMut(Range<usize>, &mut [u8]) -> Result<bool, Error>;

/// The data that are compared with what they became.
struct Data<'a> {
    exact: LoadExact<'a>,
    #[cfg(isa = "vector")]
    f64: LoadF64<'a>,
}

/// The counts: of all elements, and of each block if those are wanted.
struct Counted<'a> {
    all: Losses,
    blocks: Option<&'a mut [Losses]>,
}

impl<'a> Counted<'a> {
    /// Starts from zero, whatever the blocks hold. As this writes the blocks, all other checks come first.
    fn new(grid: &Grid, mut blocks: Option<&'a mut [Losses]>) -> Result<Self, Error> {
        if let Some(blocks) = &mut blocks {
            if blocks.len() != grid.scales {
                return Err(Error::Blocks { needed: grid.scales, given: blocks.len() });
            }
            blocks.fill(Losses::default());
        }
        Ok(Self { all: Losses::default(), blocks })
    }

    /// Adds to the total, and to the counts of a block.
    fn each(&mut self, block: usize, add: impl Fn(&mut Losses)) {
        add(&mut self.all);
        if let Some(blocks) = &mut self.blocks {
            add(&mut blocks[block]);
        }
    }
}

/// What has to be known of a quantisation to count its losses.
struct Written<'a> {
    quantize: Quantize,
    scaling: Scaling,
    options: &'a CastOptions,
    grid: &'a Grid,
    /// What codes stand for: their exact products with the scales, whatever the profile.
    read: Dequantize,
    /// How the codes are read back.
    codes: Elements,
    #[cfg(isa = "vector")]
    decided: Option<Decided>,
    #[cfg(isa = "vector")]
    write: Elements,
}

impl<'a> Written<'a> {
    /// Prepares to count. `tensor` is the tensor scale, given or already computed.
    fn new(
        quantize: &Quantize,
        scaling: &Scaling,
        options: &'a CastOptions,
        grid: &'a Grid,
        tensor: TensorScale,
    ) -> Result<Self, Error> {
        if matches!(tensor, TensorScale::ComputeMultiply | TensorScale::ComputeDivide) {
            return Err(Error::Unsupported {
                what: "to report losses, the tensor scale that was computed must be given as a number",
            });
        }
        let mut quantize = *quantize;
        quantize.tensor = tensor;
        let scaling = Scaling { tensor_scale: tensor, ..*scaling };
        let exact = Scaling { profile: Profile::Lanecast, ..scaling };
        let mut read = Dequantize::new(quantize.to, DType::F64, &exact, &CastOptions::new())?;
        // Codes count 1/64 by lanecast's own rule alone: by the profile `Onnx`, int8 under these scales counts 1.
        read.is_mx_int = quantize.is_mx_int;
        let source = options.src_packing(options.dst_packing).src_order(options.dst_order);
        let codes = Elements::read(quantize.to, &source, rows(grid, &scaling))?;
        #[cfg(isa = "vector")]
        let write = Elements::write(DType::F64, &source.dst_order(ByteOrder::Native), None)?;
        Ok(Self {
            quantize,
            scaling,
            options,
            grid,
            read,
            codes,
            #[cfg(isa = "vector")]
            decided: in_kernel_environment(|| Decided::new(&read, &codes, &write)),
            #[cfg(isa = "vector")]
            write,
        })
    }

    /// Returns the scales and zero points, as they were written or given.
    fn given<'b>(
        &self,
        shape: &[usize],
        scales: &'b [u8],
        zero_points: Option<&'b [u8]>,
    ) -> Result<Given<'b>, Error> {
        let packed = (self.quantize.to, self.options.dst_packing, self.options.dst_order);
        given(shape, self.grid, &self.scaling, packed, scales, zero_points, self.quantize.has_zero_points())
    }

    /// Quantises, and counts what each piece lost while it is in a cache.
    #[expect(clippy::too_many_arguments, reason = "what a cast takes, once more")]
    fn found(
        &self,
        job: &Quantizing<'_>,
        registers: Registers<'_>,
        places: &Scales,
        shape: &[usize],
        dst: &mut [u8],
        scales: &mut [u8],
        data: &mut Data<'_>,
        counted: &mut Counted<'_>,
    ) -> Result<(), Error> {
        job.run_found_in_turn(registers, places, dst, scales, &mut |elements, codes, scales| {
            let given = self.given(shape, scales, None)?;
            self.count(elements, codes, given, data, counted)
        })
    }

    /// Counts what some elements lost.
    fn count(
        &self,
        elements: Range<usize>,
        codes: &[u8],
        given: Given<'_>,
        data: &mut Data<'_>,
        counted: &mut Counted<'_>,
    ) -> Result<(), Error> {
        #[cfg(isa = "vector")]
        if self.by_registers(&elements, codes, given, data, counted)? {
            return Ok(());
        }
        let mut became = Values::new(&self.codes, &self.read, self.grid, given, codes)?;
        let (mut source, mut written) = ([Exact::ZERO; FEW], [Exact::ZERO; FEW]);
        for first in elements.clone().step_by(FEW) {
            let n = FEW.min(elements.end - first);
            (data.exact)(first, &mut source[..n])?;
            became.load(first, &mut written[..n])?;
            self.grid.runs(first, n, &mut |run, scale| {
                let block = self.block(&given, scale);
                for i in run {
                    let saturates = self.quantize.saturates(source[i], &block, first + i);
                    counted.each(scale, |losses| losses.add(source[i], written[i], saturates));
                }
            });
        }
        Ok(())
    }

    /// Counts in float64. Whether elements near the ends of the range saturated is decided by the exact rule. Returns false,
    /// with nothing counted, if no kernel dequantises the codes.
    #[cfg(isa = "vector")]
    fn by_registers(
        &self,
        elements: &Range<usize>,
        codes: &[u8],
        given: Given<'_>,
        data: &mut Data<'_>,
        counted: &mut Counted<'_>,
    ) -> Result<bool, Error> {
        let Some(decided) = &self.decided else { return Ok(false) };
        let (dequantize, read, write) = (&self.read, self.codes, self.write);
        let job = Dequantizing { dequantize, grid: self.grid, read, bytes: codes, write, given };
        let Some(multiply) = Multiply::new(&job, decided).filter(|_| !given.has_float_zeros()) else {
            return Ok(false);
        };
        let n = MANY.min(elements.len());
        let (mut source, mut written) = (collect(repeat_n(0, 8 * n))?, collect(repeat_n(0, 8 * n))?);
        let mut errors = collect(repeat_n(0.0, n))?;
        // Decoded scales of one byte by their code, and a cache of the bounds for scales of any width.
        let (mut bytes, mut known) = ([f64::NAN; 256], Known::<Ends>::new(self.grid)?);
        for first in elements.clone().step_by(MANY) {
            let now = first..elements.end.min(first + MANY);
            let n = now.len();
            let (xs, became) = (&mut source[..8 * n], &mut written[..8 * n]);
            let is_done: Result<bool, Error> = in_kernel_environment(|| {
                // If this is false, it is false for the first elements already, so that nothing was counted.
                Ok((data.f64)(now.clone(), xs)? && multiply.run(now, (&mut *became).into())?)
            });
            if !is_done? {
                return Ok(false);
            }
            let (xs, became) = (xs.as_chunks::<8>().0, became.as_chunks::<8>().0);
            in_kernel_environment(|| {
                let mut done = Ok(());
                self.grid.runs(first, n, &mut |run, scale| {
                    let ends = known.get(scale, || self.ends(&given, scale, &mut bytes));
                    let (xs, became) = (&xs[run.clone()], &became[run.clone()]);
                    let errors = &mut errors[..run.len()];
                    let found = if run.len() < LEAST_GROUP {
                        None
                    } else {
                        compared(self.codes.present(), xs, became, &ends, errors)
                    };
                    if let Some(found) = found {
                        return counted.each(scale, |losses| losses.add_settled(&found, errors));
                    }
                    for (i, (&x, &y)) in (first + run.start..).zip(xs.iter().zip(became)) {
                        let (x, y) = (f64::from_ne_bytes(x), f64::from_ne_bytes(y));
                        let saturates = if ends.is_safe(x) {
                            false
                        } else if ends.is_beyond(x) && x.is_finite() {
                            true
                        } else {
                            let mut exact = [Exact::ZERO];
                            match (data.exact)(i, &mut exact) {
                                Ok(()) => self.quantize.saturates(exact[0], &self.block(&given, scale), i),
                                Err(error) => return done = Err(error),
                            }
                        };
                        counted.each(scale, |losses| losses.add_f64(x, y, saturates));
                    }
                });
                done
            })?;
        }
        Ok(true)
    }

    /// Returns bounds of the elements of a block: none within `safe` saturates, whatever the steps of a profile round, and all
    /// beyond `beyond` do.
    #[cfg(isa = "vector")]
    fn ends(&self, given: &Given<'_>, scale: usize, known: &mut [f64; 256]) -> Ends {
        let q = &self.quantize;
        let (code, zero) = given.get(scale);
        let is_byte = q.scale.bits() == 8;
        let s = match known[code as usize & 0xFF] {
            s if is_byte && !s.is_nan() => s,
            _ if q.scale == DType::F32 && q.tensor == TensorScale::None => {
                f64::from(f32::from_bits(code as u32))
            }
            _ => f64::from_bits(self.read.given(code).encode(DType::F64, &Policy::DEFAULT)),
        };
        known[code as usize & 0xFF] = s;
        // Bounds cannot be given where a profile rounds a scale to a subnormal number, which may change it by any factor, or
        // rounds data or inverses to 16 bits, which may turn them into Inf.
        let is_half = q.steps == Steps::TorchaoAffine && q.scale == DType::F16;
        let is_near = q.is_own()
            || q.from != DType::F16
                && (q.precision() == q.from || q.precision().bits() > 16)
                && !is_half
                && s.abs() >= f64::from_bits((1023 - 100) << 52);
        if !is_near {
            return Ends { safe: [0.0; 2], beyond: [-f64::INFINITY, f64::INFINITY] };
        }
        // The range of quotients, and half the distance from its ends to what would be the next value.
        let (limits, half) = match q.int_limits() {
            Some((min, max)) => ([(min - zero) as f64, (max - zero) as f64], 0.5),
            None => ([-q.max_value(), q.max_value()], q.half_step()),
        };
        // Bounds of the relative errors of quotients: by lanecast's own rule, and by the steps of profiles.
        let (own, steps) = (1.0 / f64::from(1 << 20), 1.0 / 64.0);
        let wider = [limits[0] - half, limits[1] + half];
        let safe = if q.is_nearest() {
            wider.map(|end| end * (1.0 - own))
        } else if q.is_own() {
            limits.map(|end| end * (1.0 - own))
        } else if zero == 0 {
            wider.map(|end| end * (1.0 - steps))
        } else {
            limits.map(|end| 0.9 * end)
        };
        let beyond =
            if q.is_nearest() { wider.map(|end| end * (1.0 + own)) } else { [-f64::INFINITY, f64::INFINITY] };
        // Scales the bounds from quotients to data. A negative scale swaps the ends.
        let of_data = |ends: [f64; 2]| {
            let [a, b] = ends.map(|end| end * s);
            if s < 0.0 { [b, a] } else { [a, b] }
        };
        let mut safe = of_data(safe);
        if q.from == DType::F64 && !q.is_own() {
            // A profile rounds data beyond the range of float32 to Inf.
            let most = f64::from(f32::MAX);
            safe = [safe[0].max(-most), safe[1].min(most)];
        }
        Ends { safe, beyond: of_data(beyond) }
    }

    fn block(&self, given: &Given<'_>, scale: usize) -> Block {
        given.block(&self.quantize, scale, self.quantize.tensor)
    }
}

/// Loads the exact values of elements under scales.
struct Values<'a> {
    elements: Elements,
    dequantize: &'a Dequantize,
    grid: &'a Grid,
    given: Given<'a>,
    bytes: &'a [u8],
    codes: Box<Codes>,
    scratch: Box<Scratch>,
}

impl<'a> Values<'a> {
    fn new(
        elements: &Elements,
        dequantize: &'a Dequantize,
        grid: &'a Grid,
        given: Given<'a>,
        bytes: &'a [u8],
    ) -> Result<Self, Error> {
        let (codes, scratch) = (array(0)?, array(0)?);
        Ok(Self { elements: *elements, dequantize, grid, given, bytes, codes, scratch })
    }

    /// Loads the values of elements from `first` on.
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
    /// Returns what a quantisation has lost, given the data, and the codes, scales and zero points that were written or given.
    ///
    /// With `blocks`, the counts of each block are written there, in the row-major order of the scales, whatever it held
    /// before. A code stands for its exact product with its scale, whatever the profile. The tensor scale is that of
    /// the scaling: one that was computed must be given there.
    ///
    /// It runs on the calling thread. Where a kernel dequantises the codes, only elements that may have saturated are compared
    /// exactly; else all are, which takes several times as long as the reference.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Losses, Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::I8, &Scaling::per_axis(0), &CastOptions::new())?;
    /// let data: Vec<u8> = [100f32, 1.0, 1.0, 0.5].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let scales: Vec<u8> = [0.5f32; 2].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let mut codes = [0; 4];
    /// q.quantize_given(&data, &[2, 2], &scales, None, &mut codes)?;
    /// let mut rows = [Losses::default(); 2];
    /// q.losses(&data, &[2, 2], &codes, &scales, None, Some(&mut rows))?;
    /// assert_eq!(rows.map(|row| (row.saturated, row.mean_error())), [(1, 18.25), (0, 0.0)]); // 100 became 63.5
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Quantizer::quantize_given`], or the number of blocks is not that of the scales.
    pub fn losses(
        &self,
        src: &[u8],
        shape: &[usize],
        codes: &[u8],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        blocks: Option<&mut [Losses]>,
    ) -> Result<Losses, Error> {
        let grid = self.grid(src.len(), shape, codes.len())?;
        let written = self.written(&grid, self.quantize.tensor)?;
        let given = written.given(shape, scales, zero_points)?;
        let mut counted = Counted::new(&grid, blocks)?;
        self.with_data(src, &mut |data| written.count(0..grid.count, codes, given, data, &mut counted))?;
        Ok(counted.all)
    }

    /// Does [`Quantizer::quantize`] and [`Quantizer::losses`] in one go: what was cast is compared while it is in a cache. A
    /// tensor scale may be computed.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::F4E2M1, &Scaling::mx(), &CastOptions::new())?;
    /// let data: Vec<u8> = [7.5f32, 2.2, 0.1].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let (mut codes, mut scales) = ([0; 2], [0; 1]);
    /// let (_, losses) = q.quantize_losses(&data, &[3], &mut codes, &mut scales, None)?;
    /// assert_eq!(losses, q.losses(&data, &[3], &codes, &scales, None, None)?);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As those of both.
    pub fn quantize_losses(
        &self,
        src: &[u8],
        shape: &[usize],
        dst: &mut [u8],
        scales: &mut [u8],
        blocks: Option<&mut [Losses]>,
    ) -> Result<(Quantized, Losses), Error> {
        let (mut blocks, mut all) = (blocks, Losses::default());
        let found = self.with_job(src, shape, dst.len(), false, &mut |mut job| {
            let places = begun(&mut job, &self.scaling, &self.options, shape, scales.len(), &alone())?;
            let written = self.written(job.grid, job.tensor)?;
            let mut counted = Counted::new(job.grid, blocks.as_deref_mut())?;
            self.with_data(src, &mut |data| {
                written.found(&job, self.registers(), &places, shape, dst, scales, data, &mut counted)
            })?;
            all = counted.all;
            Ok(Quantized { tensor_scale: known(job.tensor) })
        })?;
        Ok((found, all))
    }

    /// Does [`Quantizer::quantize_given`] and [`Quantizer::losses`] in one go, as [`Quantizer::quantize_losses`] does.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Quantizer, Scaling}};
    /// let q = Quantizer::new(DType::F32, DType::U8, &Scaling::per_tensor(DType::F32), &CastOptions::new())?;
    /// let data: Vec<u8> = [0.5f32, -2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let mut codes = [0; 2];
    /// let losses =
    ///     q.quantize_given_losses(&data, &[2], &0.5f32.to_ne_bytes(), Some(&[3]), &mut codes, None)?;
    /// assert_eq!((codes, losses.saturated, losses.max_error), ([4, 0], 1, 0.5)); // -2 became -1.5
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As those of both.
    pub fn quantize_given_losses(
        &self,
        src: &[u8],
        shape: &[usize],
        scales: &[u8],
        zero_points: Option<&[u8]>,
        dst: &mut [u8],
        blocks: Option<&mut [Losses]>,
    ) -> Result<Losses, Error> {
        let (mut blocks, mut all) = (blocks, Losses::default());
        self.with_given(src, shape, dst.len(), scales, zero_points, &mut |job, given| {
            let written = self.written(job.grid, job.tensor)?;
            let mut counted = Counted::new(job.grid, blocks.as_deref_mut())?;
            self.with_data(src, &mut |data| {
                job.run_given_in_turn(self.registers(), &given, dst, &mut |elements, codes, _| {
                    written.count(elements, codes, given, data, &mut counted)
                })
            })?;
            all = counted.all;
            Ok(())
        })?;
        Ok(all)
    }

    fn written<'a>(&'a self, grid: &'a Grid, tensor: TensorScale) -> Result<Written<'a>, Error> {
        Written::new(&self.quantize, &self.scaling, &self.options, grid, tensor)
    }

    /// Calls `run` with the data of the source.
    fn with_data(
        &self,
        src: &[u8],
        run: &mut dyn FnMut(&mut Data<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (quantize, options) = (&self.quantize, &self.options);
        let elements = Elements::read(quantize.from, options, None)?;
        let (mut room, mut scratch): (Box<Codes>, Box<Scratch>) = (array(0)?, array(0)?);
        let mut exact = |first: usize, values: &mut [Exact]| {
            elements.load(src, first, &mut room[..values.len()], &mut scratch)?;
            for (value, &code) in values.iter_mut().zip(&*room) {
                *value = quantize.source(code);
            }
            Ok(())
        };
        #[cfg(isa = "vector")]
        let wide = Caster::new(quantize.from, DType::F64, &options.dst_order(ByteOrder::Native))?;
        #[cfg(isa = "vector")]
        let mut f64 = |range: Range<usize>, values: &mut [u8]| {
            let width = quantize.from.bits() as usize / 8;
            wide.fill(&src[range.start * width..range.end * width], values.into(), range.len())?;
            Ok(true)
        };
        run(&mut Data {
            exact: &mut exact,
            #[cfg(isa = "vector")]
            f64: &mut f64,
        })
    }
}

impl Requantizer {
    /// Returns what a requantisation has lost, compared with the exact values of the source, as [`Quantizer::losses`] does.
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
    /// As [`Requantizer::requantize`], or the number of blocks is not that of the scales.
    pub fn losses(
        &self,
        src: &[u8],
        shape: &[usize],
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        (codes, scales): (&[u8], &[u8]),
        blocks: Option<&mut [Losses]>,
    ) -> Result<Losses, Error> {
        let grids = self.grids(src.len(), shape, codes.len())?;
        let to = &grids.1;
        let written = Written::new(&self.quantize, &self.to, &self.options, to, self.quantize.tensor)?;
        let given = written.given(shape, scales, None)?;
        let mut counted = Counted::new(to, blocks)?;
        self.with_data(src, shape, src_scales, zero_points, &grids.0, &mut |data| {
            written.count(0..to.count, codes, given, data, &mut counted)
        })?;
        Ok(counted.all)
    }

    /// Does [`Requantizer::requantize`] and [`Requantizer::losses`] in one go, as [`Quantizer::quantize_losses`] does.
    ///
    /// ```
    /// # use lanecast::{CastOptions, DType, scaled::{Requantizer, Scaling}};
    /// let s = Scaling::mx();
    /// let r = Requantizer::new((DType::F8E4M3FN, &s), (DType::F4E2M1, &s), &CastOptions::new())?;
    /// let (mut codes, mut scales) = ([0], [0]);
    /// let made = (&mut codes[..], &mut scales[..]);
    /// let (_, losses) = r.requantize_losses(&[0x7E], &[1], &[127], None, made, None)?;
    /// assert_eq!(losses, r.losses(&[0x7E], &[1], &[127], None, (&codes, &scales), None)?);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As those of both.
    pub fn requantize_losses(
        &self,
        src: &[u8],
        shape: &[usize],
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        (dst, scales): (&mut [u8], &mut [u8]),
        blocks: Option<&mut [Losses]>,
    ) -> Result<(Quantized, Losses), Error> {
        let grids = self.grids(src.len(), shape, dst.len())?;
        let to = &grids.1;
        let (mut blocks, mut all) = (blocks, Losses::default());
        let found =
            self.with_job(src, shape, src_scales, zero_points, &grids, &mut |mut job, registers| {
                let places = begun(&mut job, &self.to, &self.options, shape, scales.len(), &alone())?;
                let tensor = if self.has_factor() { job.tensor } else { TensorScale::None };
                let written = Written::new(&self.quantize, &self.to, &self.options, to, tensor)?;
                let mut counted = Counted::new(to, blocks.as_deref_mut())?;
                self.with_data(src, shape, src_scales, zero_points, &grids.0, &mut |data| {
                    written.found(&job, registers, &places, shape, dst, scales, data, &mut counted)
                })?;
                all = counted.all;
                Ok(Quantized { tensor_scale: known(tensor) })
            })?;
        Ok((found, all))
    }

    /// Calls `run` with the values of the source.
    fn with_data(
        &self,
        src: &[u8],
        shape: &[usize],
        src_scales: &[u8],
        zero_points: Option<&[u8]>,
        from: &Grid,
        run: &mut dyn FnMut(&mut Data<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (dequantize, options) = (&self.dequantize, &self.options);
        let packed = (dequantize.from, options.src_packing, options.src_order);
        let has_zeros = dequantize.has_zero_points();
        let given = given(shape, from, &self.from, packed, src_scales, zero_points, has_zeros)?;
        let read = Elements::read(dequantize.from, options, rows(from, &self.from))?;
        let mut values = Values::new(&read, dequantize, from, given, src)?;
        #[cfg(isa = "vector")]
        let write = Elements::write(DType::F64, &options.dst_order(ByteOrder::Native), None)?;
        #[cfg(isa = "vector")]
        let job = Dequantizing { dequantize, grid: from, read, bytes: src, write, given };
        #[cfg(isa = "vector")]
        let decided = in_kernel_environment(|| Decided::new(dequantize, &read, &write));
        #[cfg(isa = "vector")]
        let multiply = decided.as_ref().and_then(|decided| Multiply::new(&job, decided));
        #[cfg(isa = "vector")]
        let mut f64 = |range: Range<usize>, values: &mut [u8]| match &multiply {
            Some(multiply) => multiply.run(range, values.into()),
            None => Ok(false),
        };
        run(&mut Data {
            exact: &mut |first, into| values.load(first, into),
            #[cfg(isa = "vector")]
            f64: &mut f64,
        })
    }
}
