//! Turns the largest magnitudes of blocks into the codes of their scales, and those into the numbers that the kernels divide by
//! or multiply with.

use super::decided::ByMantissas;
use super::{Buffers, Divide, Division};
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
use crate::kernels::memory::bytes_of;
use crate::kernels::scaled::float64::{self, Operation};
use crate::kernels::scaled::scales::{self, Bounds, Near, TIES, WRONG};
use crate::kernels::scaled::{Factor, How, LEAST_GROUP, Rows, ScaleArrays};
use crate::scaled::numbers::{LEAST, MOST, magnitude};
use crate::scaled::rule::{Quantize, Steps};
use crate::scaled::scaling::{ScaleRule, TensorScale};

impl Divide<'_> {
    /// Computes the codes of the scales from the magnitudes. Returns None if one is too small or too large to be computed here.
    pub(super) fn codes(&self, groups: usize, buffers: &mut Buffers) -> Option<()> {
        let quantize = self.job.quantize;
        self.magnitudes(groups, buffers)?;
        if !quantize.is_own() {
            return self.profile_codes(groups, buffers);
        }
        if quantize.scale == DType::F8E8M0 {
            let (added, top) = self.decided.added;
            let Buffers { amax, codes, .. } = buffers;
            scales::exponents(self.isa, &amax[..groups], added, top, &mut codes[..groups]);
            return Some(());
        }
        self.quotients(groups, buffers)?;
        let (one, max) = quantize.scale_limits();
        let width = quantize.scale.bits() as usize / 8;
        let (bytes, amax) = (&mut buffers.codes[..width * groups], &buffers.amax[..groups]);
        // A loop for each width, so that the compiler vectorises it.
        match width {
            1 => bytes.iter_mut().zip(amax).for_each(|(code, &amax)| {
                *code = if amax == 0 { one as u8 } else { (*code).clamp(1, max as u8) };
            }),
            2 => bytes.chunks_exact_mut(2).zip(amax).for_each(|(bytes, &amax)| {
                let code = u16::from_ne_bytes([bytes[0], bytes[1]]);
                let code = if amax == 0 { one as u16 } else { code.clamp(1, max as u16) };
                bytes.copy_from_slice(&code.to_ne_bytes());
            }),
            _ => bytes.chunks_exact_mut(4).zip(amax).for_each(|(bytes, &amax)| {
                let code = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                let code = if amax == 0 { one as u32 } else { code.clamp(1, max as u32) };
                bytes.copy_from_slice(&code.to_ne_bytes());
            }),
        }
        Some(())
    }

    /// Turns the magnitudes, which are bits of the data's dtype, into bits of float32.
    fn magnitudes(&self, groups: usize, buffers: &mut Buffers) -> Option<()> {
        let Buffers { amax, codes, scales, .. } = buffers;
        let amax = &mut amax[..groups];
        match self.job.quantize.from {
            DType::BF16 => amax.iter_mut().for_each(|amax| *amax <<= 16),
            DType::F16 => {
                let (halves, numbers) = (&mut codes[..2 * groups], &mut scales[..groups]);
                for (amax, half) in amax.iter().zip(halves.chunks_exact_mut(2)) {
                    half.copy_from_slice(&(*amax as u16).to_ne_bytes());
                }
                self.decided.half.fill(&*halves, (&mut *numbers).into(), groups).ok()?;
                for (amax, number) in amax.iter_mut().zip(numbers) {
                    *amax = number.to_bits();
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Divides the magnitudes by [`Divide::divisor`], rounding once to the dtype of the scales.
    fn quotients(&self, groups: usize, buffers: &mut Buffers) -> Option<()> {
        let quantize = self.job.quantize;
        let Buffers { amax, wide, by, codes, scales, .. } = buffers;
        let (amax, wide, by) = (&amax[..groups], &mut wide[..groups], &mut by[..groups]);
        let bytes = &mut codes[..quantize.scale.bits() as usize / 8 * groups];
        if let Some(kernel) =
            self.decided.scales.filter(|_| (LEAST..MOST).contains(&magnitude(self.divisor as f32)))
        {
            let arrays = ScaleArrays {
                how: How::Odd,
                tensor: self.factor,
                scales: &[quantize.max_value() as f32 * self.g],
                inverses: &[1.0 / self.divisor as f32],
                ..ScaleArrays::NONE
            };
            let one = Rows { count: 1, src: 0, dst: 0 };
            kernel.run(bytes_of(amax), bytes.into(), groups, &one, &arrays, false);
        } else if quantize.scale == DType::F32 {
            // The divisor is exact as a float32, unless a factor took it out of float32's range.
            let divisor = self.divisor as f32;
            if !divisor.is_normal() {
                return None;
            }
            let numbers = &mut scales[..groups];
            for (number, amax) in numbers.iter_mut().zip(amax) {
                *number = f32::from_bits(*amax);
            }
            scales::with_tensor(self.isa, Factor::over(divisor), numbers);
            bytes.copy_from_slice(bytes_of(numbers));
        } else {
            self.decided.wide.fill(amax, (&mut *wide).into(), groups).ok()?;
            by.fill(self.divisor);
            float64::arithmetic(self.isa, Operation::Divide, wide, by);
            self.decided.scale.fill(&*wide, bytes.into(), groups).ok()?;
        }
        Some(())
    }

    /// Computes the codes as a profile does, step by step. Steps that the profile takes in 16 bits are taken in float32 and
    /// then rounded to 16 bits, which gives the same result, as float32 has more than twice the precision.
    fn profile_codes(&self, groups: usize, buffers: &mut Buffers) -> Option<()> {
        let (quantize, tensor) = (self.job.quantize, self.job.tensor);
        let Buffers { amax, inverses, scales, codes, kept, .. } = buffers;
        let amax = &amax[..groups];
        if self.profile_exponents(amax, codes) {
            return Some(());
        }
        let (scales, inverses) = (&mut scales[..groups], &mut inverses[..groups]);
        let max = quantize.max_value() as f32;
        let g = match tensor {
            TensorScale::Multiply(g) | TensorScale::Divide(g) => g,
            _ => 1.0,
        };
        let each = |into: &mut [f32], make: &dyn Fn(f32) -> f32| {
            for (into, &amax) in into.iter_mut().zip(amax) {
                *into = make(f32::from_bits(amax));
            }
        };
        match quantize.steps {
            Steps::TorchaoNvfp4 if tensor == TensorScale::None => {
                each(scales, &|amax| (amax / 6.0).clamp(1.0 / 64.0, 448.0));
            }
            Steps::TorchaoNvfp4 => each(scales, &|amax| (amax / 6.0 / g).clamp(1.0 / 64.0, 448.0)),
            Steps::ModeloptNvfp4 => {
                let by = 6.0 * g;
                each(scales, &|amax| {
                    let scale = amax / by;
                    if scale == 0.0 { 1.0 } else { scale.clamp(1.0 / 512.0, 448.0) }
                });
            }
            Steps::ComfyNvfp4 => each(scales, &|amax| (amax / 6.0 / g).min(448.0)),
            Steps::CompressedNvfp4 => {
                each(scales, &|amax| amax / 6.0);
                self.keep(scales, kept)?;
                for scale in &mut *scales {
                    *scale = (*scale * g).min(448.0);
                }
            }
            Steps::Compressed => {
                // Integers are scaled so that the largest magnitude is half a step beyond the largest integer.
                let by = if quantize.to.float_format().is_some() { max } else { max + 0.5 };
                each(scales, &|amax| amax / by);
                self.keep(scales, kept)?;
                let least = least_step(quantize.from);
                for scale in &mut *scales {
                    *scale = if *scale == 0.0 { least } else { *scale };
                }
            }
            Steps::HfFp8 => {
                each(inverses, &|amax| if amax == 0.0 { 1.0 } else { 1.0 / amax * 448.0 });
                each_inverse(scales, inverses);
            }
            Steps::TorchaoBlockwise => {
                each(inverses, &|amax| (1.0 / f64::from(amax).max(1e-12) * 448.0) as f32);
                each_inverse(scales, inverses);
            }
            _ => return None,
        }
        if quantize.scale == DType::F8E8M0 {
            for ((scale, inverse), code) in scales.iter().zip(inverses).zip(codes) {
                *code = exponent_up(*scale);
                *inverse = 1.0 / power(*code);
            }
            return Some(());
        }
        let width = quantize.scale.bits() as usize / 8;
        let bytes = &mut codes[..width * groups];
        self.decided.narrow.as_ref()?.fill(&*scales, (&mut *bytes).into(), groups).ok()?;
        if quantize.steps == Steps::CompressedNvfp4 {
            let least = quantize.code_of(1.0 / 8.0) as u8;
            bytes.iter_mut().filter(|code| **code == 0).for_each(|code| *code = least);
        }
        Some(())
    }

    /// Computes the codes where the profile takes them from the exponents of the magnitudes. Returns false if it does not.
    fn profile_exponents(&self, amax: &[u32], codes: &mut [u8]) -> bool {
        let quantize = self.job.quantize;
        let max = quantize.max_value() as f32;
        match quantize.steps {
            Steps::TorchaoMx if quantize.rule != ScaleRule::RoundUp => {
                let (added, top) = self.decided.added;
                for (code, &bits) in codes.iter_mut().zip(amax) {
                    *code = (((bits + added) >> 23) as i32 - (top >> 23) as i32 + 127).clamp(0, 255) as u8;
                }
            }
            Steps::TorchaoMx | Steps::ModeloptMxfp8 | Steps::ComfyMxfp8 => {
                for (code, &bits) in codes.iter_mut().zip(amax) {
                    *code = exponent_up(f32::from_bits(bits) / max);
                }
            }
            Steps::CompressedMx => {
                // The profile ignores magnitudes that are subnormal in the dtype of the data.
                let (least, top) = (least_normal(quantize.from), max.to_bits() >> 23);
                for (code, &bits) in codes.iter_mut().zip(amax) {
                    let exponent = ((bits + (1 << 21)) >> 23) as i32 - top as i32 + 127;
                    *code = if bits < least { 0 } else { exponent.clamp(0, 254) as u8 };
                }
            }
            _ => return false,
        }
        true
    }

    /// Rounds numbers to the dtype in which a profile divides. `room` has two bytes for each.
    fn keep(&self, numbers: &mut [f32], room: &mut [u8]) -> Option<()> {
        if let Some([narrow, wide]) = &self.decided.kept {
            let n = numbers.len();
            let room = &mut room[..2 * n];
            narrow.fill(&*numbers, (&mut *room).into(), n).ok()?;
            wide.fill(&*room, numbers.into(), n).ok()?;
        }
        Some(())
    }

    /// Computes what a profile multiplies with or divides by, from its scales as float32. Some profiles compute it while they
    /// find the scale, and then it is there already.
    fn profile_numbers(&self, groups: usize, is_found: bool, buffers: &mut Buffers) -> Option<()> {
        let (quantize, tensor) = (self.job.quantize, self.job.tensor);
        let Buffers { scales, inverses, kept, .. } = buffers;
        let (scales, inverses) = (&mut scales[..groups], &mut inverses[..groups]);
        let g = match tensor {
            TensorScale::Multiply(g) | TensorScale::Divide(g) => g,
            _ => 1.0,
        };
        match quantize.steps {
            Steps::TorchaoMx => {
                let least = if quantize.rule == ScaleRule::RoundUp { 1.0 } else { power(1) };
                for scale in &mut *scales {
                    *scale = if *scale == power(0) { least } else { *scale };
                }
                each_inverse(inverses, scales);
            }
            Steps::TorchaoNvfp4 => {
                let one = 1.0 / g;
                for (inverse, scale) in inverses.iter_mut().zip(&*scales) {
                    *inverse = one / scale;
                }
            }
            Steps::ModeloptNvfp4 | Steps::ComfyNvfp4 => scales.iter_mut().for_each(|scale| *scale *= g),
            Steps::CompressedNvfp4 => scales.iter_mut().for_each(|scale| *scale /= g),
            Steps::Onnx | Steps::Compressed => self.keep(scales, kept)?,
            Steps::HfFp8 | Steps::TorchaoBlockwise if is_found => {}
            Steps::ComfyFp8 | Steps::TorchaoAffine => {
                each_inverse(inverses, scales);
                self.keep(inverses, kept)?;
            }
            _ => each_inverse(inverses, scales),
        }
        if let Some(inverse) = self.inverse {
            inverses.fill(inverse);
        }
        Some(())
    }

    /// Decodes the scales, computes what to divide by or multiply with, and flags each scale for which the kernel would be wrong.
    pub(super) fn numbers(
        &self,
        codes: &[u8],
        groups: usize,
        is_found: bool,
        buffers: &mut Buffers,
    ) -> Division {
        let how = self.decided.how;
        let bytes = &codes[..groups * self.job.quantize.scale.bits() as usize / 8];
        let scales = &mut buffers.scales[..groups];
        if self.decided.to_f32.fill(bytes, (&mut *scales).into(), groups).is_err() {
            scales.fill(f32::NAN);
        }
        if !self.job.quantize.is_own() {
            let is_done = self.profile_numbers(groups, is_found, buffers).is_some();
            let Buffers { scales, inverses, flags, amax, .. } = buffers;
            let flags = &mut flags[..groups];
            flags.fill(if is_done { 0 } else { WRONG });
            let by: &[f32] = if how == How::Over { scales } else { inverses };
            // The kernel takes positive finite numbers. What the profile's IEEE arithmetic makes of zero, negative numbers, Inf
            // and NaN is left to the reference.
            let bounds = Bounds { range: 1..0x7F80_0000, zero: false, negative: false };
            let mut wrong = scales::bounded(self.isa, &by[..groups], &bounds, flags);
            if is_found && self.job.quantize.steps == Steps::ComfyMxfp8 {
                // This profile writes +0 for all elements of a block of zeros, whatever their signs.
                for (flags, _) in flags.iter_mut().zip(amax).filter(|(_, amax)| **amax == 0) {
                    *flags |= WRONG;
                    wrong |= WRONG;
                }
            }
            let flags = if is_done { wrong } else { WRONG };
            let how = self.by_inverses(groups, buffers);
            return Division { how, flags, by_mantissas: false, next: 0 };
        }
        if self.g != 1.0 {
            scales::with_tensor(self.isa, Factor::times(self.g), scales);
        }
        let range = match self.decided.how {
            // 2^-127 to 2^127: the powers of two whose inverses are float32s, too.
            How::Near => 0x40_0000..0x7F00_0001,
            _ => LEAST..MOST,
        };
        let flags = &mut buffers.flags[..groups];
        flags.fill(0);
        let bounds = Bounds { range, zero: false, negative: false };
        let mut wrong = scales::bounded(self.isa, scales, &bounds, flags);
        if self.factor != Factor::NONE {
            // The product with the factor must be within the bounds, too.
            let numbers = &mut buffers.inverses[..groups];
            numbers.copy_from_slice(scales);
            scales::with_tensor(self.isa, self.factor, numbers);
            wrong |= scales::bounded(self.isa, numbers, &bounds, flags);
        }
        self.inverses(groups, wrong, buffers)
    }

    /// Returns how a profile divides by the scales, and computes their inverses where they serve for that.
    ///
    /// Where a profile rounds quotients to bfloat16, elements and scales are bfloat16s. Ties between normal bfloat16s have 9 bits and
    /// are odd, so no such quotient is one, or within 2^-17 of one, relative to it: the product with the inverse, which is nearer,
    /// is as good. (Among subnormals a quotient may be a tie, and the product is rounded to it, because float32 has few bits there,
    /// too.) Quotients of float16s may be as near as an ulp of float32.
    fn by_inverses(&self, groups: usize, buffers: &mut Buffers) -> How {
        let (how, Quantize { from, to, .. }) = (self.decided.how, *self.job.quantize);
        let keeps = self.decided.others.keeps && from != DType::F32;
        let by_inverses = match from {
            DType::BF16 if keeps => How::Near,
            _ if keeps => How::Over,
            // Registers of up to 32 bytes divide as fast as they find ties of floats. Floats of fewer than 8 bits mostly have short
            // blocks, for which inverses do not pay.
            _ if to.float_format().is_some() && (self.isa.isa() != Isa::Avx512 || to.bits() < 8) => How::Over,
            _ => How::OverAtTies,
        };
        let Buffers { scales, inverses, .. } = buffers;
        let scales = &scales[..groups];
        let is_within = |scale: &f32| (LEAST..MOST).contains(&scale.to_bits());
        if how != How::Over || by_inverses == how || !scales.iter().fold(true, |all, x| all & is_within(x)) {
            return how;
        }
        scales::inverses(self.isa, scales, Factor::NONE, &mut inverses[..groups], None, &mut []);
        by_inverses
    }

    /// Inverts the scales. Where that pays, each inverse is chosen such that no product of an element lands on the wrong side
    /// of a tie, so that elements need no check. Only scales that have no such inverse are flagged [`TIES`].
    fn inverses(&self, groups: usize, wrong: u8, buffers: &mut Buffers) -> Division {
        let (how, grid) = (self.decided.how, self.job.grid);
        let Buffers { scales, inverses, flags, .. } = buffers;
        let (inverses, flags) = (&mut inverses[..groups], &mut flags[..groups]);
        let elements = grid.count / grid.scales.max(1);
        // Choosing an inverse takes as long as casting some ten elements for each tie of the target.
        let pays = |near: &Near| {
            how == How::Odd
                && grid.block() >= LEAST_GROUP
                && elements / 16 >= near.most as usize
                && self.by_mantissas().is_none()
        };
        if let Some(near) = self.near().filter(pays) {
            let left = scales::inverses(self.isa, scales, self.factor, inverses, Some(near), flags);
            // A block that is cast again costs its elements and a call of the kernel, which is worth hundreds of elements.
            if left * (4 + 1024 / elements) <= groups {
                let flags = if left == 0 { wrong } else { wrong | TIES };
                return Division { how: How::Near, flags, by_mantissas: false, next: 0 };
            }
            flags.iter_mut().for_each(|flags| *flags &= WRONG);
        }
        scales::inverses(self.isa, &scales[..groups], self.factor, inverses, None, &mut []);
        Division { how, flags: wrong, by_mantissas: false, next: 0 }
    }

    /// Decodes the scales, and computes what the kernel that divides by them needs.
    pub(super) fn division(
        &self,
        codes: &[u8],
        groups: usize,
        is_found: bool,
        buffers: &mut Buffers,
    ) -> Division {
        if let Some(coded) = self.coded() {
            let Buffers { places, flags, .. } = buffers;
            let flags = coded.find(self.job.grid, &codes[..groups], places, &mut flags[..groups]);
            return Division { how: self.decided.how, flags, by_mantissas: false, next: 0 };
        }
        let Some(apart) = self.by_mantissas() else { return self.numbers(codes, groups, is_found, buffers) };
        if apart.are_powers {
            let by_mantissas = self.exponents(apart, &codes[..groups], is_found, buffers);
            let exact = Division { how: How::Near, flags: 0, by_mantissas, next: 0 };
            return if by_mantissas { exact } else { self.numbers(codes, groups, is_found, buffers) };
        }
        let division = self.numbers(codes, groups, is_found, buffers);
        let Buffers { scales, inverses, flags, tables, begins, .. } = buffers;
        let arrays = ScaleArrays {
            how: division.how,
            others: self.decided.others,
            tensor: self.factor,
            scales,
            inverses,
            ..ScaleArrays::NONE
        };
        apart.fill(&arrays, &mut tables[..groups], &mut begins[..groups]);
        let mut by_mantissas = true;
        for (begin, flags) in begins.iter_mut().zip(&flags[..groups]) {
            // What the reference casts again may become anything here.
            let found = apart.begins(*begin).or((flags & WRONG != 0).then_some(0));
            by_mantissas &= found.is_some();
            *begin = found.unwrap_or(0);
        }
        Division { by_mantissas, ..division }
    }

    /// Computes where the kernel that divides exponents and mantissas apart looks up quotients by powers of two. Returns false
    /// if it cannot divide by one of them.
    fn exponents(&self, apart: &ByMantissas, codes: &[u8], is_found: bool, buffers: &mut Buffers) -> bool {
        let Buffers { amax, begins, .. } = buffers;
        // This profile writes +0 for all elements of a block of zeros.
        if is_found && self.job.quantize.steps == Steps::ComfyMxfp8 || self.inverse.is_some() {
            return false;
        }
        let mut is_right = true;
        // Zeros are zeros under any scale. Where scales are given, magnitudes are not known, and none is 0 here.
        for ((begin, &code), &amax) in begins.iter_mut().zip(codes).zip(&*amax) {
            let found = apart.begins(254_u32.wrapping_sub(code.into()));
            is_right &= found.is_some() | (amax == 0);
            *begin = found.unwrap_or(0);
        }
        is_right
    }

    /// Returns how many ties the target has, and how many significant bits the data have. None for float32, which has so many
    /// numbers that some are near most ties.
    fn near(&self) -> Option<Near> {
        let Quantize { from, to, .. } = *self.job.quantize;
        let bits = match from {
            DType::BF16 => 8,
            DType::F16 => 11,
            _ => return None,
        };
        // A tie has one bit more than the target. A zero point doubles the range of an integer.
        let most = match to.float_format() {
            Some(format) => (4 << format.mantissa_bits) - 1,
            None => (2 << to.bits()) - 1,
        };
        Some(Near { most, bits })
    }
}

/// Sets `inverses[i]` to `1 / numbers[i]`.
fn each_inverse(inverses: &mut [f32], numbers: &[f32]) {
    for (inverse, number) in inverses.iter_mut().zip(numbers) {
        *inverse = 1.0 / number;
    }
}

/// Returns the value of a float8_e8m0fnu code other than FF, which is NaN.
fn power(code: u8) -> f32 {
    f32::from_bits(if code == 0 { 0x40_0000 } else { u32::from(code) << 23 })
}

/// Returns the float8_e8m0fnu code of the least power of two that is not less than `x`, which must not be negative.
fn exponent_up(x: f32) -> u8 {
    let bits = x.to_bits();
    if bits <= 0x40_0000 { 0 } else { ((bits + 0x7F_FFFF) >> 23).min(0xFE) as u8 }
}

/// Returns the smallest normal number of a float dtype, as bits of float32.
fn least_normal(dtype: DType) -> u32 {
    let exponent = dtype.float_format().map_or(0, |format| format.min_exponent());
    ((exponent + 127).max(1) as u32) << 23
}

/// Returns the distance from 1 to the next larger number of a float dtype.
fn least_step(dtype: DType) -> f32 {
    let mantissa = dtype.float_format().map_or(0, |format| format.mantissa_bits);
    f32::from_bits((127 - mantissa) << 23)
}
