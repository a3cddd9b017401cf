//! The reference of scaled casts, on exact values: how the scale of a block follows from its data, and how one element is cast under
//! a scale, by lanecast's own rule and by the steps of each profile.

use super::error::Error;
use super::exact::Exact;
use super::scaling::{NonFinite, Profile, ScaleRule, Scaling, TensorScale};
use crate::formats::dtype::{DType, Kind};
use crate::formats::loss::Loss;
use crate::formats::options::{CastOptions, Overflow, Policy, Rounding};
use crate::formats::stochastic::Stochastic;
use crate::kernels::scalar;

/// The arithmetic of a quantisation. A profile has one or more, depending on its dtypes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Steps {
    Own,
    Onnx,
    TorchaoMx,
    TorchaoNvfp4,
    TorchaoBlockwise,
    TorchaoAffine,
    ModeloptNvfp4,
    ModeloptMxfp8,
    ModeloptMxfp4,
    CompressedNvfp4,
    CompressedMx,
    Compressed,
    HfFp8,
    ComfyNvfp4,
    ComfyMxfp8,
    ComfyFp8,
}

/// A quantisation apart from shape and data. It is decided once per quantizer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantize {
    pub(super) from: DType,
    pub(super) to: DType,
    pub(super) scale: DType,
    pub(super) steps: Steps,
    pub(super) rule: ScaleRule,
    pub(super) nonfinite: NonFinite,
    pub(super) int_rounding: Rounding,
    policy: Policy,
    precision: DType,
    /// The largest value of the target, in units of an element.
    max: Exact,
    /// Elements are int8 under float8_e8m0fnu scales by lanecast's own rule, where codes count 1/64.
    pub(super) is_mx_int: bool,
    pub(super) tensor: TensorScale,
    pub(super) stochastic: Option<Stochastic>,
}

/// How the elements of a block are divided by their scale.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// x / this, exact.
    Exact(Exact),
    /// x / this, rounded to the dtype.
    Divide(Exact, DType),
    /// x * this, rounded to the dtype.
    Times(Exact, DType),
    /// Every element is +0.
    Zero,
    /// Every element is NaN.
    NaN,
}

/// How the elements of a block are divided, and their zero point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) way: Way,
    /// 0 if there is none.
    pub(super) zero: i64,
    /// The code of the zero point, where zero points are floats.
    pub(super) float_zero: Option<u64>,
}

/// The blocks of the elements that are to be cast, by the index of their scale.
pub(super) struct Blocks<'a> {
    pub(super) each: &'a dyn Fn(usize) -> Block,
    /// For the way by float64: for each scale from `base` on, what its elements are divided by or multiplied with, or 0 if they
    /// are left to the reference. Empty if scales are decoded one by one, by `each`.
    pub(super) numbers: &'a [f64],
    pub(super) base: usize,
}

impl<'a> Blocks<'a> {
    /// Returns blocks that are decoded one by one.
    pub(super) fn each(each: &'a dyn Fn(usize) -> Block) -> Self {
        Self { each, numbers: &[], base: 0 }
    }
}

/// A scale that was found, with what follows from it for its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) code: u64,
    pub(super) block: Block,
}

/// The extremes of the data of a block, as the largest magnitudes on either side of zero. A NaN counts on both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extremes {
    /// The largest magnitude among negative elements.
    low: Exact,
    /// The largest magnitude among the other elements.
    high: Exact,
}

impl Extremes {
    pub(super) const NONE: Self = Self { low: Exact::ZERO, high: Exact::ZERO };

    /// Returns the extremes given the largest magnitudes of negative and of other elements, as bits of float64.
    #[cfg(isa = "vector")]
    #[inline(never)] // It is called for a block, not for an element.
    pub(super) fn of_f64([low, high]: [u64; 2]) -> Self {
        let [low, high] = [low, high].map(|bits| Exact::f64(f64::from_bits(bits)));
        Self { low, high }
    }

    pub(super) fn add(&mut self, x: Exact, nonfinite: NonFinite) {
        if nonfinite == NonFinite::Ignore && (x.is_nan() || x.is_inf()) {
            return;
        }
        let is_larger = |than: Exact| x.cmp_magnitude(than).is_gt();
        if (x.negative || x.is_nan()) && is_larger(self.low) {
            self.low = x.abs();
        }
        if (!x.negative || x.is_nan()) && is_larger(self.high) {
            self.high = x.abs();
        }
    }

    #[inline(never)]
    pub(super) fn merge(&mut self, other: Self) {
        if other.low.cmp_magnitude(self.low).is_gt() {
            self.low = other.low;
        }
        if other.high.cmp_magnitude(self.high).is_gt() {
            self.high = other.high;
        }
    }

    pub(super) fn amax(&self) -> Exact {
        if self.low.cmp_magnitude(self.high).is_gt() { self.low } else { self.high }
    }
}

/// Whether elements can be quantised to this dtype.
fn is_element(dtype: DType) -> bool {
    match dtype.kind() {
        Kind::Int(format) => (2..=32).contains(&format.bits),
        Kind::Float(format) => format.has_sign && format.bits() <= 32,
        Kind::Bool | Kind::Complex(_) => false,
    }
}

/// Whether data can be of this dtype.
fn is_data(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
}

/// Checks whether scales can be of this dtype.
pub(super) fn check_scale(dtype: DType) -> Result<(), Error> {
    match dtype.kind() {
        Kind::Float(format) if (8..=32).contains(&format.bits()) => Ok(()),
        _ => Err(Error::ScaleDType { dtype }),
    }
}

/// Checks that a tensor scale, if it is given, is finite and positive.
pub(super) fn check_tensor(tensor: TensorScale) -> Result<(), Error> {
    match tensor {
        TensorScale::Multiply(value) | TensorScale::Divide(value) if !is_factor(value) => {
            Err(Error::TensorScale { value })
        }
        _ => Ok(()),
    }
}

/// Whether a number is finite and positive. By its bits: to a comparison, subnormal numbers are zero where the caller's
/// floating-point environment says so.
fn is_factor(value: f32) -> bool {
    (1..f32::INFINITY.to_bits()).contains(&value.to_bits())
}

/// Returns the steps of a profile for these dtypes, or None if it does not support them.
fn steps(profile: Profile, scale: DType, to: DType) -> Option<Steps> {
    use DType::{F4E2M1, F8E4M3FN, F8E8M0};
    let steps = match (profile, scale) {
        (Profile::Lanecast | Profile::Ocp, _) => Steps::Own,
        (Profile::Onnx, _) => Steps::Onnx,
        (Profile::Torchao, F8E8M0) if !to.is_int() => Steps::TorchaoMx,
        (Profile::Torchao, F8E4M3FN) if to == F4E2M1 => Steps::TorchaoNvfp4,
        (Profile::Torchao, DType::F32) if to == F8E4M3FN => Steps::TorchaoBlockwise,
        (Profile::Torchao, DType::F16 | DType::BF16 | DType::F32) if to.is_int() && to.bits() <= 8 => {
            Steps::TorchaoAffine
        }
        (Profile::Modelopt, F8E4M3FN) if to == F4E2M1 => Steps::ModeloptNvfp4,
        (Profile::Modelopt, F8E8M0) if to == F8E4M3FN => Steps::ModeloptMxfp8,
        (Profile::Modelopt, F8E8M0) if to == F4E2M1 => Steps::ModeloptMxfp4,
        (Profile::CompressedTensors, F8E4M3FN) if to == F4E2M1 => Steps::CompressedNvfp4,
        (Profile::CompressedTensors, F8E8M0) if !to.is_int() => Steps::CompressedMx,
        (Profile::CompressedTensors, DType::F16 | DType::BF16 | DType::F32)
            if matches!(to, F8E4M3FN | DType::I8 | DType::I4) =>
        {
            Steps::Compressed
        }
        (Profile::HfFp8, DType::F32 | F8E8M0) if to == F8E4M3FN => Steps::HfFp8,
        (Profile::Comfy, F8E4M3FN) if to == F4E2M1 => Steps::ComfyNvfp4,
        (Profile::Comfy, F8E8M0) if to == F8E4M3FN => Steps::ComfyMxfp8,
        (Profile::Comfy, DType::F32) if matches!(to, F8E4M3FN | DType::F8E5M2) => Steps::ComfyFp8,
        _ => return None,
    };
    Some(steps)
}

/// Checks whether these steps support the scaling's tensor scale.
fn check_factor(steps: Steps, scaling: &Scaling) -> Result<(), Error> {
    let needs = |what| Err(Error::ProfileNeeds { profile: scaling.profile, what });
    let is_divisor = matches!(scaling.tensor_scale, TensorScale::Divide(_) | TensorScale::ComputeDivide);
    match steps {
        Steps::Own => {}
        Steps::CompressedNvfp4 if !is_divisor => {
            return needs("divides by a tensor scale in NVFP4: give one to divide by, or have it computed");
        }
        Steps::CompressedNvfp4 => {}
        Steps::ModeloptNvfp4 | Steps::ComfyNvfp4
            if is_divisor || scaling.tensor_scale == TensorScale::None =>
        {
            return needs(
                "multiplies by a tensor scale in NVFP4: give one to multiply by, or have it computed",
            );
        }
        Steps::TorchaoNvfp4 if is_divisor => {
            return needs("does not divide by a tensor scale in NVFP4: give one to multiply by, or none");
        }
        Steps::ModeloptNvfp4 | Steps::ComfyNvfp4 | Steps::TorchaoNvfp4 => {}
        _ if scaling.tensor_scale != TensorScale::None => {
            return needs("has no tensor scale for these dtypes: give none");
        }
        _ => {}
    }
    let is_computed =
        matches!(scaling.tensor_scale, TensorScale::ComputeMultiply | TensorScale::ComputeDivide);
    if is_computed && scaling.scale_dtype != DType::F8E4M3FN {
        return Err(Error::Unsupported {
            what: "a tensor scale can be computed only for scales of float8_e4m3fn; for others it must be given",
        });
    }
    Ok(())
}

impl Quantize {
    pub(super) fn new(
        from: DType,
        to: DType,
        scaling: &Scaling,
        options: &CastOptions,
    ) -> Result<Self, Error> {
        use DType::F8E8M0;
        let is_onnx = scaling.profile == Profile::Onnx;
        if !(is_data(from) || is_onnx && from == DType::I32) || !is_element(to) {
            return Err(Error::Pair { from, to, by: "quantize" });
        }
        let scale = scaling.scale_dtype;
        check_scale(scale)?;
        check_tensor(scaling.tensor_scale)?;
        let unsupported = |what| Err(Error::Unsupported { what });
        let rule = scaling.scale_rule();
        if (scale == F8E8M0) == (rule == ScaleRule::Amax) {
            return unsupported(
                "scales of float8_e8m0fnu need a rule other than amax; all other scales need the rule amax",
            );
        }
        let Some(steps) = steps(scaling.profile, scale, to) else {
            return Err(Error::Profile { profile: scaling.profile, dtype: to, scale, action: "quantize" });
        };
        check_factor(steps, scaling)?;
        let is_mx_int = to == DType::I8 && scale == F8E8M0 && steps == Steps::Own;
        let max = match to.kind() {
            Kind::Int(format) => Exact::int(format.max()),
            Kind::Float(format) => Exact::decode(to, format.max_code()),
            Kind::Bool | Kind::Complex(_) => Exact::ZERO,
        };
        let max = if is_mx_int { max.mul(Exact::power_of_two(-6)) } else { max };
        // Profiles round to nearest even and saturate, but `Onnx` saturates as the options say.
        let mut policy = match steps {
            Steps::Own => options.policy(DType::F64, to),
            Steps::Onnx => CastOptions { rounding: Rounding::NearestEven, ..*options }.policy(DType::F64, to),
            _ => CastOptions::new().nan_to_finite(options.nan_to_finite).policy(DType::F64, to),
        };
        if to.is_int() {
            policy = Policy::DEFAULT;
        }
        let int_rounding = if steps == Steps::Own { scaling.int_rounding } else { Rounding::NearestEven };
        let precision = match scaling.precision {
            Some(precision) if !is_data(precision) => {
                return unsupported("precision must be float16, bfloat16, float32 or float64");
            }
            Some(precision) => precision,
            None => wider(from, scale),
        };
        let (nonfinite, tensor) = (scaling.nonfinite, scaling.tensor_scale);
        let stochastic = options.stochastic.filter(|_| steps == Steps::Own && to.rounds_stochastically());
        Ok(Self {
            from,
            to,
            scale,
            steps,
            rule,
            nonfinite,
            int_rounding,
            policy,
            precision,
            max,
            is_mx_int,
            tensor,
            stochastic,
        })
    }

    /// Whether it follows lanecast's own rule and rounds to nearest even.
    pub(super) fn is_nearest(&self) -> bool {
        let rounding = if self.to.is_int() { self.int_rounding } else { self.policy.rounding };
        self.is_own() && rounding == Rounding::NearestEven && !self.is_mx_int && self.stochastic.is_none()
    }

    /// Returns the largest value of the target.
    pub(super) fn max_value(&self) -> f64 {
        f64::from_bits(self.max.encode(DType::F64, &Policy::DEFAULT))
    }

    /// Returns half the distance between the two largest values of the target.
    #[cfg(isa = "vector")]
    pub(super) fn half_step(&self) -> f64 {
        let exponent = (self.max_value().to_bits() >> 52) as i64 - i64::from(self.mantissa_bits()) - 1;
        f64::from_bits((exponent as u64) << 52)
    }

    /// Returns the mantissa bits of the target, for [`ScaleRule::Even`].
    pub(super) fn mantissa_bits(&self) -> u32 {
        mantissa_bits(self.to)
    }

    /// Returns what the code 1 is worth under the scale 1: 1/64 in MXINT8, else 1.
    #[cfg(isa = "vector")]
    pub(super) fn unit(&self) -> f64 {
        if self.is_mx_int { 1.0 / 64.0 } else { 1.0 }
    }

    /// Returns the codes of 1 and of the largest value in the dtype of the scales.
    pub(super) fn scale_limits(&self) -> (u64, u64) {
        let max = self.scale.float_format().map_or(0, |format| format.max_code());
        (self.scale_code(Exact::ONE), max)
    }

    /// Returns the dtype of the division in the profile `Onnx`.
    #[cfg(isa = "vector")]
    pub(super) fn precision(&self) -> DType {
        self.precision
    }

    /// Returns the code of a scale that is exact in the dtype of the scales.
    #[cfg(isa = "vector")]
    pub(super) fn code_of(&self, scale: f32) -> u64 {
        self.scale_code(Exact::f32(scale))
    }

    /// Checks whether scales, and with `zero_points` those too, can be found from the data.
    pub(super) fn check_found(&self, profile: Profile, zero_points: bool) -> Result<(), Error> {
        let what = match self.steps {
            _ if zero_points && self.finds_zero_points() => return Ok(()),
            _ if zero_points => {
                "finds no zero points for these dtypes: give them, or use the profile compressed_tensors, which finds those of int4 and int8, or onnx, which finds those of float32 to uint8"
            }
            Steps::Onnx | Steps::ComfyFp8 | Steps::TorchaoAffine => {
                "finds no scales for these dtypes: they must be given"
            }
            _ => return Ok(()),
        };
        Err(Error::ProfileNeeds { profile, what })
    }

    pub(super) fn is_own(&self) -> bool {
        self.steps == Steps::Own
    }

    /// Whether zero points of integers can be found, too: by compressed-tensors' steps, and by ONNX's DynamicQuantizeLinear.
    pub(super) fn finds_zero_points(&self) -> bool {
        let Self { from, scale, precision, .. } = *self;
        match self.steps {
            Steps::Compressed => self.to.is_int(),
            Steps::Onnx => self.to == DType::U8 && [from, scale, precision] == [DType::F32; 3],
            _ => false,
        }
    }

    pub(super) fn has_zero_points(&self) -> bool {
        self.to.is_int()
            || self.steps == Steps::Onnx && matches!(self.to, DType::F4E2M1 | DType::F6E2M3 | DType::F6E3M2)
    }

    /// Computes the tensor scale from its largest magnitude.
    pub(super) fn tensor_scale(&self, amax: Exact) -> f32 {
        if amax.is_zero() || amax.is_nan() || amax.is_inf() {
            return 1.0;
        }
        let top = Exact::int(448).mul(self.max);
        let factor = match (self.steps, self.tensor) {
            (Steps::CompressedNvfp4, _) => {
                let inverse = Exact::ONE.div(amax).rounded(self.from);
                inverse.mul(Exact::int(2688)).rounded(self.from)
            }
            (_, TensorScale::ComputeDivide) => top.div(amax),
            _ => amax.div(top),
        };
        let factor = factor.to_f32();
        if is_factor(factor) { factor } else { 1.0 }
    }

    /// Finds the scale and the zero point of a block. `tensor` is a given or an already computed factor.
    pub(super) fn find(&self, data: &Extremes, tensor: TensorScale, affine: bool) -> Found {
        let amax = data.amax();
        let f32 = |x: Exact| x.rounded(DType::F32);
        let as_f32 = f32(amax);
        let six = Exact::int(6);
        let code = match self.steps {
            Steps::Own => self.own_scale(amax, tensor),
            // These steps cannot find scales: `check_found` has refused them.
            Steps::ComfyFp8 | Steps::TorchaoAffine => 0,
            Steps::TorchaoMx if self.rule != ScaleRule::RoundUp => torchao_scale(as_f32, self.rule, self.to),
            Steps::TorchaoMx | Steps::ModeloptMxfp8 | Steps::ModeloptMxfp4 | Steps::ComfyMxfp8 => {
                e8m0_up(f32(as_f32.div(self.max)))
            }
            Steps::TorchaoNvfp4 => {
                let mut scale = f32(as_f32.div(six));
                if let TensorScale::Multiply(g) = tensor {
                    scale = f32(scale.div(Exact::f32(g)));
                }
                self.clamped(scale, Exact::power_of_two(-6))
            }
            Steps::ModeloptNvfp4 => {
                let scale = f32(as_f32.div(f32(six.mul(factor(tensor)))));
                self.clamped(if scale.is_zero() { Exact::ONE } else { scale }, Exact::power_of_two(-9))
            }
            Steps::CompressedNvfp4 => {
                let sixth = amax.div(six).rounded(self.from);
                let scale = self.clamped(f32(factor(tensor).mul(sixth)), Exact::ZERO);
                if scale == 0 { self.scale_code(Exact::power_of_two(-3)) } else { scale }
            }
            Steps::ComfyNvfp4 => {
                let scale = f32(f32(as_f32.div(six)).div(factor(tensor)));
                self.clamped(scale, Exact::ZERO)
            }
            Steps::CompressedMx => compressed_scale(amax.rounded(self.from), self.from, self.to),
            Steps::Compressed | Steps::Onnx => return self.of_range(data, affine),
            Steps::HfFp8 | Steps::TorchaoBlockwise => return self.by_inverse(amax),
        };
        let mut block = self.given(code, 0, tensor);
        if self.steps == Steps::ComfyMxfp8 && amax.is_zero() {
            block.way = Way::Zero;
        }
        Found { code, block }
    }

    /// Returns the code of a scale by lanecast's own rules.
    fn own_scale(&self, amax: Exact, tensor: TensorScale) -> u64 {
        if self.scale == DType::F8E8M0 {
            if amax.is_nan() {
                return 0xFF;
            }
            if amax.is_inf() {
                return 0xFE;
            }
            if amax.is_zero() {
                return 0;
            }
            let with = match tensor {
                TensorScale::Multiply(g) => amax.div(Exact::f32(g)),
                TensorScale::Divide(g) => amax.mul(Exact::f32(g)),
                _ => amax,
            };
            let top = self.max.floor_log2();
            let exponent = match self.rule {
                ScaleRule::Floor | ScaleRule::Amax => with.floor_log2() - top,
                ScaleRule::Ceil => with.ceil_log2() - top,
                ScaleRule::Even => with.even_log2(mantissa_bits(self.to)) - top,
                ScaleRule::RoundUp => with.div(self.max).ceil_log2(),
            };
            return (exponent.clamp(-127, 127) + 127) as u64;
        }
        if amax.is_zero() {
            return self.scale_code(Exact::ONE);
        }
        let scale = amax.div(self.max);
        let scale = match tensor {
            TensorScale::Multiply(g) => scale.div(Exact::f32(g)),
            TensorScale::Divide(g) => scale.mul(Exact::f32(g)),
            _ => scale,
        };
        let code = self.scale_code(scale);
        // The scale must not be zero: the smallest positive value has the code 1.
        if code == 0 { 1 } else { code }
    }

    /// Returns the code of a scale: rounded once, and the largest value if it is above the range.
    #[inline(never)]
    fn scale_code(&self, scale: Exact) -> u64 {
        let code = scale.encode(self.scale, &Policy::DEFAULT);
        match self.scale.kind() {
            Kind::Float(format) if !scale.is_nan() => code.min(format.max_code()),
            _ => code,
        }
    }

    /// Returns the code of a scale, raised to `least` if it is below.
    fn clamped(&self, scale: Exact, least: Exact) -> u64 {
        self.scale_code(if scale.cmp_magnitude(least).is_lt() { least } else { scale })
    }

    /// Finds compressed-tensors' scale and zero point, or those of ONNX's DynamicQuantizeLinear, in the dtype of the data.
    fn of_range(&self, data: &Extremes, affine: bool) -> Found {
        let round = |x: Exact| x.rounded(self.from);
        let (least, most) = self.int_limits().unwrap_or_default();
        let levels = (most - least).into();
        let mut scale = if affine {
            // The range of the data, extended to include zero.
            round(round(data.high.add(data.low)).div(Exact::int(levels)))
        } else if levels == 0 {
            round(data.amax().div(self.max))
        } else {
            // The divisor is half of `levels`: 127.5 for int8, 7.5 for int4.
            round(data.amax().mul(Exact::int(2)).div(Exact::int(levels)))
        };
        let is_onnx = self.steps == Steps::Onnx;
        // Of a range that is not 0, DynamicQuantizeLinear keeps a scale that underflows to 0.
        if scale.is_zero() && (!is_onnx || data.amax().is_zero()) {
            scale = if is_onnx { Exact::ONE } else { epsilon(self.from) };
        }
        let code = scale.encode(self.scale, &Policy::DEFAULT);
        let zero = if affine {
            let shifted = round(Exact::int(least.into()).add(round(data.low.div(scale))));
            match is_onnx && shifted.is_nan() {
                true => most,
                false => shifted.to_int(Rounding::NearestEven).clamp(least, most),
            }
        } else {
            0
        };
        Found { code, block: self.given(code, zero, TensorScale::None) }
    }

    /// Finds the scale of profiles that compute its inverse first and multiply elements with that.
    #[inline(never)] // It is called for a block, not for an element.
    fn by_inverse(&self, amax: Exact) -> Found {
        let f32 = |x: Exact| x.rounded(DType::F32);
        let max = Exact::int(448);
        if self.steps == Steps::TorchaoBlockwise {
            let f64 = |x: Exact| x.rounded(DType::F64);
            let least = Exact::f64(1e-12);
            let amax = if amax.cmp_magnitude(least).is_lt() { least } else { amax };
            let inverse = f32(f64(f64(Exact::ONE.div(amax)).mul(max)));
            let code = f32(Exact::ONE.div(inverse)).encode(self.scale, &Policy::DEFAULT);
            return Found {
                code,
                block: Block { way: Way::Times(inverse, DType::F32), zero: 0, float_zero: None },
            };
        }
        let mut inverse =
            if amax.is_zero() { Exact::ONE } else { f32(f32(Exact::ONE.div(f32(amax))).mul(max)) };
        let scale = f32(Exact::ONE.div(inverse));
        let code = if self.scale == DType::F8E8M0 {
            let code = e8m0_up(scale);
            inverse = f32(Exact::ONE.div(Exact::decode(self.scale, code)));
            code
        } else {
            scale.encode(self.scale, &Policy::DEFAULT)
        };
        Found { code, block: Block { way: Way::Times(inverse, DType::F32), zero: 0, float_zero: None } }
    }

    /// Returns how elements are divided under this scale and zero point.
    pub(super) fn given(&self, code: u64, zero: i64, tensor: TensorScale) -> Block {
        let f32 = |x: Exact| x.rounded(DType::F32);
        let s = Exact::decode(self.scale, code);
        let exponent = (code & 0xFF) as i32 - 127;
        let way = match self.steps {
            Steps::Own => {
                let s = match tensor {
                    TensorScale::Multiply(g) => s.mul(Exact::f32(g)),
                    TensorScale::Divide(g) => s.div(Exact::f32(g)),
                    _ => s,
                };
                Way::Exact(if self.is_mx_int { s.mul(Exact::power_of_two(-6)) } else { s })
            }
            Steps::Onnx => Way::Divide(s.rounded(self.precision), self.precision),
            Steps::TorchaoMx if self.rule == ScaleRule::RoundUp => match code {
                0xFF => Way::NaN,
                0 => Way::Times(Exact::ONE, DType::F32),
                _ => Way::Times(Exact::power_of_two(-exponent), DType::F32),
            },
            Steps::TorchaoMx => {
                let divisor = match code {
                    0xFF => Exact::INF,
                    _ => Exact::power_of_two(exponent.max(-126)),
                };
                Way::Divide(divisor, DType::F32)
            }
            Steps::TorchaoNvfp4 => {
                let inverse = match tensor {
                    TensorScale::Multiply(g) => f32(Exact::ONE.div(Exact::f32(g))),
                    _ => Exact::ONE,
                };
                Way::Times(f32(inverse.div(s)), DType::F32)
            }
            // The inverse is rounded to the dtype of the scale, the product to the wider of both.
            Steps::TorchaoAffine => {
                Way::Times(Exact::ONE.div(s).rounded(self.scale), wider(self.from, self.scale))
            }
            Steps::ModeloptNvfp4 => Way::Divide(f32(s.mul(factor(tensor))), DType::F32),
            Steps::ModeloptMxfp8 if code != 0xFF => Way::Times(Exact::power_of_two(-exponent), DType::F32),
            Steps::ModeloptMxfp8 => Way::NaN,
            Steps::ModeloptMxfp4 => Way::Divide(s, DType::F32),
            Steps::CompressedNvfp4 => Way::Divide(f32(s.div(factor(tensor))), DType::F32),
            Steps::CompressedMx => Way::Divide(s, self.from),
            Steps::Compressed => Way::Divide(s.rounded(self.from), self.from),
            Steps::HfFp8 | Steps::TorchaoBlockwise => Way::Times(f32(Exact::ONE.div(s)), DType::F32),
            Steps::ComfyNvfp4 if s.is_zero() => Way::Zero,
            Steps::ComfyNvfp4 => Way::Divide(f32(s.mul(factor(tensor))), DType::F32),
            Steps::ComfyMxfp8 => Way::Divide(s, DType::F32),
            Steps::ComfyFp8 => Way::Times(f32(Exact::ONE.div(s)).rounded(self.from), self.from),
        };
        Block { way, zero, float_zero: None }
    }

    /// Whether zeros of the data become +0 whatever their sign.
    pub(super) fn loses_sign(&self) -> bool {
        match self.steps {
            Steps::ModeloptNvfp4 | Steps::CompressedNvfp4 => true,
            Steps::CompressedMx => self.to == DType::F4E2M1,
            _ => false,
        }
    }

    /// Returns the quotient that is rounded to an element. A zero point that is an integer is added later, a float one here.
    fn quotient(&self, x: Exact, block: &Block) -> Exact {
        let x = if self.loses_sign() && x.is_zero() { Exact::ZERO } else { x };
        let v = match block.way {
            Way::Exact(s) => x.div(s),
            Way::Divide(by, dtype) => x.rounded(dtype).div(by).rounded(dtype),
            Way::Times(by, dtype) => x.rounded(dtype).mul(by).rounded(dtype),
            Way::Zero => Exact::ZERO,
            Way::NaN => Exact::NAN,
        };
        match block.float_zero {
            Some(code) => v.add(Exact::decode(self.to, code)).rounded(self.precision),
            // In scaled casts, stochastic rounding starts from the quotient rounded to float32.
            None if self.stochastic.is_some() => v.rounded(DType::F32),
            None => v,
        }
    }

    /// Returns the code of an element. `index` is its index among all elements, for stochastic rounding.
    pub(super) fn element(&self, x: Exact, block: &Block, index: usize) -> u64 {
        let v = self.quotient(x, block);
        match (self.to.kind(), self.steps) {
            (Kind::Int(format), _) => {
                let moved = self.clamped_to_codes(self.integer(v, block.zero));
                moved as u64 & (u64::MAX >> (64 - format.bits))
            }
            (_, Steps::ModeloptMxfp4) => self.ties_toward_zero(v),
            _ => match self.word(index) {
                Some(word) => scalar::encode_stochastic(self.to, v.value(), &self.policy, word),
                None => v.encode(self.to, &self.policy),
            },
        }
    }

    /// Whether a finite element lies, once rounded, beyond the largest or the smallest code.
    pub(super) fn saturates(&self, x: Exact, block: &Block, index: usize) -> bool {
        let v = self.quotient(x, block);
        if x.is_nan() || x.is_inf() || v.is_nan() {
            return false;
        }
        if self.to.is_int() {
            let moved = self.integer(v, block.zero);
            return moved != self.clamped_to_codes(moved);
        }
        if self.steps == Steps::ModeloptMxfp4 {
            // 7 is midway between 6 and what would come next: that tie goes toward zero.
            return v.cmp_magnitude(Exact::int(7)).is_gt();
        }
        match scalar::loss(self.to, v.value(), &self.policy, self.word(index)) {
            Some(Loss::Above | Loss::Below | Loss::Inf) => true,
            // The quotient of a finite element is Inf, as in a division by zero.
            _ => v.is_inf(),
        }
    }

    /// Returns the random word of an element, under stochastic rounding.
    fn word(&self, index: usize) -> Option<u32> {
        self.stochastic.map(|stochastic| stochastic.word(index as u64))
    }

    /// Returns the quotient as an integer, with the zero point added.
    fn integer(&self, v: Exact, zero: i64) -> i64 {
        if self.steps == Steps::Compressed && !v.is_nan() && !v.is_inf() {
            // compressed-tensors adds the zero point before it rounds.
            return v.add(Exact::int(zero.into())).rounded(self.from).to_int(self.int_rounding);
        }
        v.to_int(self.int_rounding).saturating_add(zero)
    }

    /// Clamps an integer to the range of the target.
    fn clamped_to_codes(&self, moved: i64) -> i64 {
        self.int_limits().map_or(moved, |(min, max)| moved.clamp(min, max))
    }

    /// Returns the smallest and the largest code, if the target is an integer.
    pub(super) fn int_limits(&self) -> Option<(i64, i64)> {
        let Kind::Int(format) = self.to.kind() else { return None };
        let (min, max) = (format.min() as i64, format.max() as i64);
        Some((if self.is_mx_int { -max } else { min }, max))
    }

    /// Returns the code of a float4, ties toward zero. Zeros of either sign become -0, as in ModelOpt.
    fn ties_toward_zero(&self, v: Exact) -> u64 {
        if v.is_nan() {
            return v.encode(self.to, &self.policy);
        }
        let truncated = v.encode(self.to, &Policy { rounding: Rounding::TowardZero, ..self.policy }) & 7;
        let above = (truncated + 1).min(7);
        let middle = Exact::decode(self.to, truncated).add(Exact::decode(self.to, above));
        let code = if v.mul(Exact::int(2)).cmp_magnitude(middle).is_gt() { above } else { truncated };
        if v.is_zero() || v.negative { code | 8 } else { code }
    }

    /// Returns the value of an element of the source.
    pub(super) fn source(&self, code: u64) -> Exact {
        Exact::decode(self.from, code)
    }
}

/// Returns the default precision of ONNX's division: the wider dtype of data and scales. For two different ones of 16 bits it
/// is float32. int32 data take float64 with scales of float32, since it holds both, and float32 with scales of 8 bits.
fn wider(data: DType, scale: DType) -> DType {
    match (data, scale) {
        (DType::I32, DType::F32 | DType::F64) => DType::F64,
        (DType::I32, scale) if is_data(scale) => scale,
        (DType::I32, _) => DType::F32,
        (data, DType::F8E8M0) => {
            if data.bits() < 32 {
                DType::F32
            } else {
                data
            }
        }
        (data, scale) if data == scale || data.bits() > scale.bits() => data,
        (_, scale) if scale.bits() == 32 => scale,
        _ => DType::F32,
    }
}

/// Returns the mantissa bits of a dtype; for integers, the bits below the leading one, as MXINT8 counts them.
fn mantissa_bits(dtype: DType) -> u32 {
    match dtype.kind() {
        Kind::Int(format) => format.bits - 1 - u32::from(format.signed),
        Kind::Float(format) => format.mantissa_bits,
        Kind::Bool | Kind::Complex(_) => 0,
    }
}

/// Returns the distance from 1 to the next larger value.
pub(super) fn epsilon(dtype: DType) -> Exact {
    Exact::power_of_two(-(mantissa_bits(dtype) as i32))
}

fn factor(tensor: TensorScale) -> Exact {
    match tensor {
        TensorScale::Multiply(g) | TensorScale::Divide(g) => Exact::f32(g),
        _ => Exact::ONE,
    }
}

/// Returns the code of ceil(log2 d) in float8_e8m0fnu. NaN gives FF, Inf FE and zero 00.
fn e8m0_up(d: Exact) -> u64 {
    match d {
        d if d.is_nan() => 0xFF,
        d if d.is_inf() => 0xFE,
        d if d.is_zero() => 0,
        d => (d.ceil_log2().clamp(-127, 127) + 127) as u64,
    }
}

/// Finds the code of a scale by torchao's `Floor`, `Ceil` and `Even`, on the bits of float32: subnormals count as exponent −127.
fn torchao_scale(amax: Exact, rule: ScaleRule, to: DType) -> u64 {
    if amax.is_nan() {
        return 0xFF;
    }
    let bits = amax.to_f32().to_bits();
    let field = match rule {
        ScaleRule::Even => (bits + ((1 << 22) >> mantissa_bits(to))) >> 23,
        ScaleRule::Ceil => (bits >> 23) + u32::from(bits & 0x7F_FFFF != 0),
        _ => bits >> 23,
    };
    let Kind::Float(format) = to.kind() else { return 0 };
    let top = Exact::decode(to, format.max_code()).floor_log2();
    (field as i32 - top).clamp(0, 255) as u64
}

/// Finds compressed-tensors' MX scales from the bits of the data. The mantissa width is that of float4 for all targets.
fn compressed_scale(amax: Exact, from: DType, to: DType) -> u64 {
    let (Kind::Float(source), Kind::Float(target)) = (from.kind(), to.kind()) else { return 0 };
    if amax.is_nan() {
        return 0xFF;
    }
    let top = Exact::decode(to, target.max_code()).floor_log2();
    let exponent = match amax {
        amax if amax.is_zero() => return 0,
        amax if amax.is_inf() => 1 + source.bias,
        amax if amax.floor_log2() < 1 - source.bias => return 0,
        amax => amax.even_log2(1),
    };
    (exponent - top + 127).clamp(0, 254) as u64
}

/// How the product of a code and its scale is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Product {
    /// Exact.
    Own,
    /// In float32.
    F32,
    /// In the dtype of the output.
    Output,
    GptOss,
}

/// A dequantisation apart from shape and data. It is decided once per dequantizer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dequantize {
    pub(super) from: DType,
    pub(super) to: DType,
    pub(super) scale: DType,
    pub(super) product: Product,
    policy: Policy,
    /// Code 8 of float4, which is -0, counts as +0.
    pub(super) loses_sign: bool,
    pub(super) is_mx_int: bool,
    pub(super) tensor: TensorScale,
}

impl Dequantize {
    pub(super) fn new(
        from: DType,
        to: DType,
        scaling: &Scaling,
        options: &CastOptions,
    ) -> Result<Self, Error> {
        let scale = scaling.scale_dtype;
        if !is_element(from) || !is_data(to) {
            return Err(Error::Pair { from, to, by: "dequantize" });
        }
        check_scale(scale)?;
        check_tensor(scaling.tensor_scale)?;
        if matches!(scaling.tensor_scale, TensorScale::ComputeMultiply | TensorScale::ComputeDivide) {
            return Err(Error::Unsupported {
                what: "to dequantize, the tensor scale must be given as a number",
            });
        }
        let product = match (scaling.profile, scale) {
            (Profile::Lanecast | Profile::Ocp, _) => Product::Own,
            (Profile::Onnx | Profile::F32 | Profile::HfFp8 | Profile::Modelopt, _) => Product::F32,
            (Profile::Torchao, DType::F8E8M0) => Product::Output,
            (Profile::Torchao, _) => Product::F32,
            (Profile::CompressedTensors, DType::F8E4M3FN) if from == DType::F4E2M1 => {
                if to != DType::BF16 || !matches!(scaling.tensor_scale, TensorScale::Divide(_)) {
                    return Err(Error::ProfileNeeds {
                        profile: scaling.profile,
                        what: "dequantizes NVFP4 only to bfloat16, and divides by a tensor scale, which must be given",
                    });
                }
                // The package has the factor as a tensor of one element, so what is computed with it is float32.
                Product::F32
            }
            (Profile::CompressedTensors | Profile::Comfy | Profile::Output, _) => Product::Output,
            (Profile::GptOss, DType::F8E8M0) if from == DType::F4E2M1 => Product::GptOss,
            (Profile::GptOss, _) => {
                let (profile, action) = (scaling.profile, "dequantize");
                return Err(Error::Profile { profile, dtype: from, scale, action });
            }
        };
        let policy = match product {
            Product::Own => options.policy(DType::F64, to),
            _ => Policy { overflow: Overflow::Wrap, ..Policy::DEFAULT },
        };
        Ok(Self {
            from,
            to,
            scale,
            product,
            policy,
            loses_sign: scaling.profile == Profile::Modelopt && from == DType::F4E2M1,
            is_mx_int: from == DType::I8 && scale == DType::F8E8M0 && product == Product::Own,
            tensor: scaling.tensor_scale,
        })
    }

    pub(super) fn is_own(&self) -> bool {
        self.product == Product::Own
    }

    /// Returns the policy of the last rounding.
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(super) fn has_zero_points(&self) -> bool {
        self.from.is_int()
    }

    /// Returns what the elements of a block are multiplied with, exact or as the profile rounds it.
    pub(super) fn given(&self, code: u64) -> Exact {
        let f32 = |x: Exact| x.rounded(DType::F32);
        let s = Exact::decode(self.scale, code);
        let tensor = |s: Exact| match self.tensor {
            TensorScale::Multiply(g) => s.mul(Exact::f32(g)),
            TensorScale::Divide(g) => s.div(Exact::f32(g)),
            _ => s,
        };
        match self.product {
            Product::Own if self.is_mx_int => tensor(s).mul(Exact::power_of_two(-6)),
            Product::Own => tensor(s),
            Product::F32 => f32(tensor(s)),
            Product::Output => {
                let s = s.rounded(self.to);
                match self.tensor {
                    TensorScale::Multiply(g) => s.mul(Exact::f32(g).rounded(self.to)).rounded(self.to),
                    TensorScale::Divide(g) => s.div(Exact::f32(g).rounded(self.to)).rounded(self.to),
                    _ => s,
                }
            }
            Product::GptOss if code == 0xFF => Exact::power_of_two(128),
            Product::GptOss => s,
        }
    }

    /// Returns the exact value of an element by lanecast's own rule.
    pub(super) fn value(&self, code: u64, s: Exact, zero: i64) -> Exact {
        self.difference(code, zero).mul(s)
    }

    /// Returns the code less the zero point.
    #[inline(never)]
    fn difference(&self, code: u64, zero: i64) -> Exact {
        match self.from.kind() {
            Kind::Int(format) => {
                Exact::int(i128::from(sign_extended(code, format.bits, format.signed) - zero))
            }
            _ => Exact::decode(self.from, code),
        }
    }

    /// Returns the dequantised element.
    pub(super) fn element(&self, code: u64, s: Exact, zero: i64) -> u64 {
        let c = match self.product {
            // This profile casts code and zero point to the dtype of the output before it subtracts.
            Product::Output if self.from.is_int() => {
                let z = Exact::int(zero.into()).rounded(self.to);
                self.difference(code, 0).rounded(self.to).add(z.neg()).rounded(self.to)
            }
            _ => self.difference(code, zero),
        };
        let c = if self.loses_sign && c.is_zero() { Exact::ZERO } else { c };
        let product = match self.product {
            Product::Own | Product::GptOss => c.mul(s),
            Product::F32 => c.rounded(DType::F32).mul(s).rounded(DType::F32),
            Product::Output => c.rounded(self.to).mul(s).rounded(self.to),
        };
        product.encode(self.to, &self.policy)
    }
}

/// Returns the significant bits of the elements of a dtype. The difference of two codes of an integer dtype has no more.
#[cfg(isa = "vector")]
pub(super) fn significant(dtype: DType) -> u32 {
    match dtype.kind() {
        Kind::Int(format) => format.bits,
        Kind::Float(format) => format.mantissa_bits + 1,
        Kind::Bool | Kind::Complex(_) => 64,
    }
}

/// Returns the integer that a code of `bits` bits stands for.
pub(super) fn sign_extended(code: u64, bits: u32, signed: bool) -> i64 {
    let unused = 64 - bits;
    if signed { ((code << unused) as i64) >> unused } else { code as i64 }
}

/// Returns a zero point from its code: the value of an integer, the code itself of a float.
pub(super) fn zero_point(dtype: DType, code: u64) -> i64 {
    match dtype.kind() {
        Kind::Int(format) => sign_extended(code, format.bits, format.signed),
        _ => code as i64,
    }
}
