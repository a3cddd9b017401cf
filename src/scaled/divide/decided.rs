//! What registers do of a quantisation: decided once, for all data.

use crate::cast::Caster;
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::options::{CastOptions, Rounding};
use crate::kernels::present::Present;
use crate::kernels::scaled::{How, Kernel, Others};
use crate::scaled::codes::{self, Elements};
use crate::scaled::rule::{Quantize, Steps};
use crate::scaled::scaling::ScaleRule;

/// What registers do of a quantisation.
#[derive(Clone, Copy)]
pub(in crate::scaled) struct Decided {
    pub(super) isa: Present,
    pub(super) kernel: Kernel,
    /// What makes elements of the quotients, if the kernel leaves them float32.
    pub(super) then: Option<Caster>,
    /// Elements of fewer than 8 bits share bytes.
    pub(super) is_packed: bool,
    /// Magnitudes to float32 and to float64, and scales from there and to float32.
    pub(super) half: Caster,
    pub(super) wide: Caster,
    pub(super) scale: Caster,
    pub(super) to_f32: Caster,
    /// Magnitudes that are divided by one number, to scales of few bits.
    pub(super) scales: Option<Kernel>,
    /// Scales that a profile finds as float32 to their dtype.
    pub(super) narrow: Option<Caster>,
    /// To the dtype in which a profile divides, and back, if that has 16 bits.
    pub(super) kept: Option<[Caster; 2]>,
    pub(super) how: How,
    pub(super) others: Others,
    /// What exponents of scales are made by: [`added`].
    pub(super) added: (u32, u32),
}

impl Decided {
    /// Of elements that are read and written so. None if the reference is as good.
    pub(in crate::scaled) fn new(quantize: &Quantize, read: &Elements, write: &Elements) -> Option<Self> {
        let Quantize { from, to, scale, steps, .. } = *quantize;
        let isa = read.present();
        if isa.isa() == Isa::Scalar || !matches!(from, DType::F32 | DType::BF16 | DType::F16) {
            return None;
        }
        let (how, others) = how(quantize)?;
        let written = write.options();
        // Integers saturate, whatever other casts do; and so do most profiles.
        let plain = CastOptions::new().isa(isa.isa());
        let options = match steps {
            Steps::Own | Steps::Onnx if to.float_format().is_some() => written,
            _ => plain.nan_to_finite(written.nan_to_finite),
        };
        let options = CastOptions { src_order: read.options().src_order, stochastic: None, ..options };
        let options = options.dst_packing(written.dst_packing).dst_order(written.dst_order);
        let cast = |from, to| codes::cast(from, to, &plain);
        let dtype = if steps == Steps::Onnx { quantize.precision() } else { from };
        let kept = if (others.keeps || steps == Steps::CompressedNvfp4) && dtype != DType::F32 {
            Some([cast(DType::F32, dtype)?, cast(dtype, DType::F32)?])
        } else {
            None
        };
        // A quotient is right for what has up to 8 significant bits.
        let may_follow = to.float_format().is_some_and(|format| format.mantissa_bits < 8);
        // To float32 it is no more than that.
        let direct = Kernel::quotient(isa, from, to, &options).filter(|_| to != DType::F32);
        let (kernel, then) = match direct {
            Some(kernel) => (kernel, None),
            None if may_follow => {
                let plain = options.dst_packing(Packing::OnePerByte).dst_order(ByteOrder::Native);
                let nearest = options.src_order(ByteOrder::Native).rounding(Rounding::NearestEven);
                let kernel = Kernel::quotient(isa, from, DType::F32, &plain)?;
                (kernel, Some(codes::cast(DType::F32, to, &nearest.isa(isa.isa()))?))
            }
            None => return None,
        };
        Some(Self {
            isa,
            kernel,
            then,
            is_packed: to.bits() < 8 && options.dst_packing != Packing::OnePerByte,
            half: cast(DType::F16, DType::F32)?,
            wide: cast(DType::F32, DType::F64)?,
            scale: cast(DType::F64, if scale == DType::F8E8M0 { DType::F32 } else { scale })?,
            to_f32: cast(scale, DType::F32)?,
            scales: if steps == Steps::Own && matches!(scale, DType::F8E4M3FN | DType::F8E5M2) {
                Kernel::quotient(isa, DType::F32, scale, &plain)
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

/// How elements are divided, and by what steps of others. None if by none that registers take.
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
        // Ties of theirs go toward zero.
        Steps::Onnx | Steps::ModeloptMxfp4 => return None,
        // By a power of two, of which the inverse is another.
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

/// What is added to the bits of a magnitude before its exponent is taken, by a rule, and the bits of the largest value.
///
/// Subnormal magnitudes, which have no exponent, give the least scale by any rule, because no target ends below 2.
fn added(rule: ScaleRule, max: f32, mantissa_bits: u32) -> (u32, u32) {
    const ONE: u32 = 1 << 23;
    let added = match rule {
        ScaleRule::Floor | ScaleRule::Amax => 0,
        ScaleRule::Ceil => ONE - 1,
        ScaleRule::Even => 1 << (22 - mantissa_bits),
        // A mantissa greater than that of the largest value carries.
        ScaleRule::RoundUp => ONE - 1 - (max.to_bits() & (ONE - 1)),
    };
    (added, max.to_bits())
}
