//! Which kernels and plain casts make up a quantisation: decided once per [`Quantize`], for any data.

use crate::cast::Caster;
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::options::{CastOptions, Rounding};
use crate::kernels::present::Present;
use crate::kernels::scaled::{How, Others, Per, Rows, ScaleArrays, ScaledKernel, Table128};
use crate::scaled::codes::{self, Elements};
use crate::scaled::rule::{Quantize, Steps};
use crate::scaled::scaling::ScaleRule;

/// The kernels and plain casts of a quantisation.
#[derive(Clone, Copy)]
pub(in crate::scaled) struct Decided {
    pub(super) isa: Present,
    pub(super) kernel: ScaledKernel,
    /// Casts float32 quotients to elements, where there is no kernel that goes all the way.
    pub(super) then: Option<Caster>,
    /// A faster kernel for many elements under one scale, or for scales that are powers of two.
    pub(super) by_mantissas: Option<ByMantissas>,
    /// A faster kernel for scales of 8 bits, by a table for each code of a scale.
    pub(super) by_thresholds: Option<ScaledKernel>,
    /// Whether several elements share a byte.
    pub(super) is_packed: bool,
    /// Casts of magnitudes: from float16 to float32 (`half`), on to float64 (`wide`), and from there to scales (`scale`); and
    /// of scales to float32.
    pub(super) half: Caster,
    pub(super) wide: Caster,
    pub(super) scale: Caster,
    pub(super) to_f32: Caster,
    /// Casts zero points to float32.
    pub(super) zeros: Option<Caster>,
    /// Divides float32 magnitudes by one number, straight to float8 scales.
    pub(super) scales: Option<ScaledKernel>,
    /// Casts scales from float32, in which a profile finds them, to their dtype.
    pub(super) narrow: Option<Caster>,
    /// Rounds float32 to the 16-bit dtype in which a profile divides, by a cast there and one back.
    pub(super) kept: Option<[Caster; 2]>,
    /// Never [`How::OverAtTies`]: the scales at hand decide whether `Over` becomes that.
    pub(super) how: How,
    pub(super) others: Others,
    /// How exponents become scales of float8_e8m0fnu: see [`added`].
    pub(super) added: (u32, u32),
}

impl Decided {
    /// Returns None in cases that these kernels do not handle.
    pub(in crate::scaled) fn new(quantize: &Quantize, read: &Elements, write: &Elements) -> Option<Self> {
        let Quantize { from, to, scale, steps, .. } = *quantize;
        let isa = read.present();
        if isa.isa() == Isa::Scalar || !matches!(from, DType::F32 | DType::BF16 | DType::F16) {
            return None;
        }
        let (how, others) = how(quantize)?;
        let written = write.options();
        // Quantised integers always saturate, whatever the options say of plain casts, and so do most profiles.
        let plain = CastOptions::new().isa(isa.isa());
        let options = match steps {
            Steps::Own | Steps::Onnx if to.float_format().is_some() => written,
            _ => plain.nan_to_finite(written.nan_to_finite),
        };
        let options = CastOptions { src_order: read.options().src_order, stochastic: None, ..options };
        let options = options.dst_packing(written.dst_packing).dst_order(written.dst_order);
        let cast = |from, to| codes::cast(from, to, &plain);
        let as_written = plain.src_packing(written.dst_packing).src_order(written.dst_order);
        let dtype = if steps == Steps::Onnx { quantize.precision() } else { from };
        let kept = if (others.keeps || steps == Steps::CompressedNvfp4) && dtype != DType::F32 {
            Some([cast(DType::F32, dtype)?, cast(dtype, DType::F32)?])
        } else {
            None
        };
        // The float32 quotient is near enough to the exact one to be rounded once more to up to 8 significant bits, except to
        // bfloat16, whose subnormals are also those of float32. (The steps of other packages do round to these.)
        let is_exact = steps == Steps::Own && to == DType::BF16;
        let may_follow = to.float_format().is_some_and(|format| format.mantissa_bits < 8) && !is_exact;
        // The float32 quotient itself would not be correctly rounded as a result.
        let direct = ScaledKernel::quotient(isa, from, to, &options).filter(|_| to != DType::F32);
        let (kernel, then) = match direct {
            Some(kernel) => (kernel, None),
            None if may_follow => {
                let plain = options.dst_packing(Packing::OnePerByte).dst_order(ByteOrder::Native);
                let nearest = options.src_order(ByteOrder::Native).rounding(Rounding::NearestEven);
                let kernel = ScaledKernel::quotient(isa, from, DType::F32, &plain)?;
                (kernel, Some(codes::cast(DType::F32, to, &nearest.isa(isa.isa()))?))
            }
            None => return None,
        };
        Some(Self {
            isa,
            kernel,
            then,
            by_thresholds: ScaledKernel::by_thresholds(isa, from, to, &options)
                .filter(|_| !quantize.has_zero_points()),
            by_mantissas: ByMantissas::new(
                isa,
                quantize,
                (how, others),
                [&options, &plain.src_order(options.src_order)],
            ),
            is_packed: to.bits() < 8 && options.dst_packing != Packing::OnePerByte,
            half: cast(DType::F16, DType::F32)?,
            wide: cast(DType::F32, DType::F64)?,
            scale: cast(DType::F64, if scale == DType::F8E8M0 { DType::F32 } else { scale })?,
            to_f32: cast(scale, DType::F32)?,
            zeros: if quantize.has_zero_points() {
                Some(codes::cast(to, DType::F32, &as_written)?)
            } else {
                None
            },
            scales: if steps == Steps::Own && matches!(scale, DType::F8E4M3FN | DType::F8E5M2) {
                ScaledKernel::quotient(isa, DType::F32, scale, &plain)
            } else {
                None
            },
            narrow: if steps == Steps::Own || scale == DType::F8E8M0 {
                None
            } else {
                Some(cast(DType::F32, scale)?)
            },
            kept,
            how,
            others,
            added: added(quantize.rule, quantize.max_value() as f32, quantize.mantissa_bits()),
        })
    }
}

/// Division of bfloat16s with exponents and mantissas apart: the head of `Mantissas` in kernels/codec/scaled/mantissas.rs says how.
#[derive(Clone, Copy)]
pub(in crate::scaled) struct ByMantissas {
    pub(super) kernel: ScaledKernel,
    /// The kernel that divides the mantissas.
    maker: ScaledKernel,
    /// The exponent from which on the kernel looks up quotients by 1, and how many exponents follow.
    first: u8,
    most: u8,
    /// How the kernel reads such an exponent: multiplied by a factor that repeats it, and with a number added to that.
    repeats: u32,
    plus: u32,
    /// Whether scales are powers of two, which share one table. Else each scale has its own.
    pub(super) are_powers: bool,
}

/// The bfloat16s from 1 to below 2, once for each of the scales that are done together.
static MANTISSAS: [[[u8; 2]; 128]; 4] = {
    let mut all = [[0; 2]; 128];
    let mut i = 0;
    while i < 128 {
        all[i] = (0x3F80 | i as u16).to_ne_bytes();
        i += 1;
    }
    [all; 4]
};

impl ByMantissas {
    /// Returns None if there is no such kernel.
    fn new(
        isa: Present,
        quantize: &Quantize,
        (how, others): (How, Others),
        [options, plain]: [&CastOptions; 2],
    ) -> Option<Self> {
        let Quantize { from, to, scale, .. } = *quantize;
        let are_powers = scale == DType::F8E8M0 && how == How::Near;
        // Elements of fewer than 8 bits are looked up by exponent and mantissa together: there only the exponents can differ.
        let (has_kernel, is_byte) = (from == DType::BF16, to.bits() == 8);
        let can = if is_byte { !others.loses_sign } else { are_powers };
        if !has_kernel || !can || quantize.has_zero_points() {
            return None;
        }
        let (kernel, [first, most]) = ScaledKernel::by_mantissas(isa, to, options)?;
        let maker = ScaledKernel::quotient(isa, from, DType::F32, plain)?;
        // (By tables of keys it is in the high byte of doubled words, and 1 is added: numbers of the first exponent become 0 and
        // have no key.)
        let (repeats, plus) = if is_byte { (0x0101_0101, 0) } else { (0x0100_0100, 0x0100_0100) };
        Some(Self { kernel, maker, first, most, repeats, plus, are_powers })
    }

    /// Makes the tables of some scales, and finds the largest exponent of the quotients of each.
    pub(super) fn fill(&self, arrays: &ScaleArrays<'_>, tables: &mut [Table128], exponents: &mut [u32]) {
        const TOGETHER: usize = MANTISSAS.len();
        let mut quotients = [0; 4 * 128 * TOGETHER];
        let rows = Rows { count: 1, src: 0, dst: 0 };
        let each = tables.chunks_mut(TOGETHER).zip(exponents.chunks_mut(TOGETHER)).enumerate();
        for (i, (tables, exponents)) in each {
            let [scales, inverses] = [arrays.scales, arrays.inverses].map(|all| &all[TOGETHER * i..]);
            let arrays = ScaleArrays { per: Per::Group(128), scales, inverses, ..*arrays };
            let n = 128 * tables.len();
            let mantissas = MANTISSAS.as_flattened().as_flattened();
            self.maker.run(mantissas, (&mut quotients[..4 * n]).into(), n, &rows, &arrays, false);
            self.kernel.split(&quotients, tables, exponents);
        }
    }

    /// Returns the exponent from which on the kernel looks up quotients by a scale. `largest` is the largest exponent among the
    /// quotients of the mantissas by that scale. None if a subnormal or an Inf would come out wrong.
    pub(super) fn begins(&self, largest: u32) -> Option<u32> {
        let begin = (u32::from(self.first) + 127).checked_sub(largest)?;
        // The exponent of Inf is 255; and 1 is subtracted where the exponent of the quotient is one less.
        (begin + 1 + u32::from(self.most) <= 255).then_some(begin * self.repeats + self.plus)
    }
}

/// Returns how elements are divided, and which steps of other packages are taken on the way. None if no kernel has them.
fn how(quantize: &Quantize) -> Option<(How, Others)> {
    let Quantize { from, to, steps, .. } = *quantize;
    let none = Others::NONE;
    let keeps = Others { keeps: true, ..none };
    let loses_sign = Others { loses_sign: true, ..none };
    Some(match steps {
        Steps::Own if !quantize.is_nearest() => return None,
        Steps::Own if quantize.scale == DType::F8E8M0 => (How::Near, none),
        Steps::Own => (How::Odd, none),
        Steps::Onnx if quantize.precision() == DType::F32 => (How::Over, none),
        Steps::Onnx if quantize.precision() == from => (How::Over, keeps),
        // No kernel divides in another precision, or rounds ties toward zero as ModelOpt's MXFP4 does.
        Steps::Onnx | Steps::ModeloptMxfp4 => return None,
        // Scales are powers of two, and so are their inverses: multiplying is exact.
        Steps::TorchaoMx | Steps::ModeloptMxfp8 | Steps::ComfyMxfp8 => (How::Near, none),
        Steps::CompressedMx => {
            (How::Near, if to == DType::F4E2M1 { Others { loses_sign: true, ..keeps } } else { keeps })
        }
        Steps::TorchaoNvfp4 | Steps::HfFp8 | Steps::TorchaoBlockwise => (How::Near, none),
        Steps::ComfyFp8 => (How::Near, keeps),
        Steps::TorchaoAffine if quantize.scale == DType::F32 => (How::Near, none),
        Steps::TorchaoAffine if quantize.scale == from => (How::Near, keeps),
        Steps::TorchaoAffine => return None,
        Steps::ModeloptNvfp4 | Steps::CompressedNvfp4 => (How::Over, loses_sign),
        Steps::ComfyNvfp4 => (How::Over, none),
        Steps::Compressed => (How::Over, Others { adds_first: true, ..keeps }),
    })
}

/// Returns what a rule adds to the float32 bits of a block's largest magnitude before the exponent is taken, and the bits of
/// the largest value of the elements, whose exponent is subtracted.
///
/// A subnormal magnitude has no exponent of its own, but gives the least scale by any rule, since every element dtype reaches 2.
fn added(rule: ScaleRule, max: f32, mantissa_bits: u32) -> (u32, u32) {
    const ONE: u32 = 1 << 23;
    let added = match rule {
        ScaleRule::Floor | ScaleRule::Amax => 0,
        ScaleRule::Ceil => ONE - 1,
        ScaleRule::Even => 1 << (22 - mantissa_bits),
        // Carries into the exponent if the mantissa is greater than that of the largest value.
        ScaleRule::RoundUp => ONE - 1 - (max.to_bits() & (ONE - 1)),
    };
    (added, max.to_bits())
}
