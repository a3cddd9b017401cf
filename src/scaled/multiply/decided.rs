//! What registers do of a dequantisation: decided once, for all data.

use crate::cast::Caster;
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::options::{CastOptions, Rounding};
use crate::kernels::present::Present;
use crate::kernels::scaled::{self, By, Factor, Factors, How, Kernel, LEAST_GROUP, Others, Per, Table128};
use crate::kernels::scales::{self, Ties};
use crate::scaled::codes::{Elements, cast};
use crate::scaled::numbers::magnitude;
use crate::scaled::rule::{Dequantize, Product, significant};
use crate::scaled::scaling::TensorScale;

/// Inf.
pub(super) const INF: u32 = 0x7F80_0000;
/// The bounds of scales and of a factor of the tensor, whose product is multiplied with.
pub(super) const LEAST_OF_TWO: u32 = (127 - 45) << 23;
pub(super) const MOST_OF_TWO: u32 = (127 + 45) << 23;

/// Significant bits of the products of codes and scales. None of quotients, which have any number.
pub(in crate::scaled) fn product_bits(dequantize: &Dequantize) -> Option<u32> {
    let Dequantize { from, scale, tensor, .. } = *dequantize;
    let tensor_bits = match tensor {
        TensorScale::None => 0,
        TensorScale::Multiply(g) | TensorScale::Divide(g) if magnitude(g) & 0x7F_FFFF == 0 => 0,
        TensorScale::Multiply(_) => 24,
        _ => return None,
    };
    Some(significant(from) + significant(scale) + tensor_bits)
}

/// The codes of tables of so many in their order, as they lie in the source: one after the other for each 128.
pub(super) fn all_codes(from: DType, options: &CastOptions, of: u8, codes: &mut [u8]) -> Option<()> {
    let pack = CastOptions::new().src_packing(Packing::OnePerByte).dst_packing(options.src_packing);
    let pack = cast(from, from, &pack)?;
    let mask = u8::MAX >> (8 - from.bits().min(8)) & (of - 1);
    let all: [u8; 128] = core::array::from_fn(|code| code as u8 & mask);
    let n = from.bits() as usize * 128 / 8;
    let (last, rest) = codes.split_at_mut(n);
    pack.cast(&all, last, 128).ok()?;
    rest.chunks_exact_mut(n).for_each(|codes| codes.copy_from_slice(last));
    Some(())
}

/// The factor of the whole tensor: where it is applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor {
    /// What scales are multiplied with or divided by.
    pub(super) scales: TensorScale,
    /// What products are multiplied with once more, or divided by.
    pub(super) after: Factor,
    /// The significant bits that products have more by it.
    bits: u32,
}

impl Tensor {
    /// None if it is so large or small that something may over- or underflow.
    fn new(dequantize: &Dequantize) -> Option<Self> {
        let is_mx_int = dequantize.is_mx_int;
        if let TensorScale::Multiply(g) | TensorScale::Divide(g) = dequantize.tensor
            && !(LEAST_OF_TWO..MOST_OF_TWO).contains(&magnitude(g))
        {
            return None;
        }
        // MXINT8 counts 1/64.
        let tensor = match dequantize.tensor {
            TensorScale::None if is_mx_int => TensorScale::Multiply(1.0 / 64.0),
            TensorScale::Multiply(g) if is_mx_int => TensorScale::Multiply(g / 64.0),
            TensorScale::Divide(g) if is_mx_int => TensorScale::Divide(g * 64.0),
            tensor => tensor,
        };
        let is_power = match tensor {
            TensorScale::Multiply(g) | TensorScale::Divide(g) => magnitude(g) & 0x7F_FFFF == 0,
            TensorScale::None => true,
            _ => false,
        };
        let bits = if is_power { 0 } else { 24 };
        let of_products = |after| Self { scales: TensorScale::None, after, bits };
        Some(match tensor {
            TensorScale::Multiply(by) if is_own(dequantize) && !is_power => of_products(Factor::times(by)),
            TensorScale::Divide(by) if is_own(dequantize) && !is_power => of_products(Factor::over(by)),
            scales => Self { scales, after: Factor::NONE, bits },
        })
    }
}

/// By lanecast's own rule: one rounding.
fn is_own(dequantize: &Dequantize) -> bool {
    matches!(dequantize.product, Product::Own | Product::GptOss)
}

/// May a product become a tie of the target when it is rounded to float32, and be none?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MayTie {
    Never,
    /// That is a matter of the scale.
    Some(Ties),
    Always,
}

impl MayTie {
    fn new(dequantize: &Dequantize, tensor: &Tensor, isa: Present) -> Self {
        let Dequantize { from, to, scale, .. } = *dequantize;
        let (codes, scale) = (significant(from), significant(scale));
        if !is_own(dequantize) || to == DType::F32 || codes + scale + tensor.bits <= 24 {
            return Self::Never;
        }
        if tensor.after.divides {
            return Self::Always;
        }
        if tensor.after == Factor::NONE {
            return Ties::new(codes, to).map_or(Self::Always, Self::Some);
        }
        // Of the factor alone, and what else the products are of.
        match Ties::new(codes + scale, to) {
            Some(ties) if scales::ties(isa, ties, &[tensor.after.by], &mut [0]) == 0 => Self::Never,
            _ => Self::Always,
        }
    }
}

/// What elements become is looked up.
#[derive(Clone, Copy)]
pub(super) struct Tabling {
    pub(super) kernel: Kernel,
    /// What makes tables.
    pub(super) maker: Kernel,
    pub(super) by: By,
    /// The only one, if there is one.
    pub(super) table: Table128,
    /// Under every scale that is not out of range, or under positive ones alone.
    pub(super) any_scale: bool,
}

impl Tabling {
    /// One table for all scales, where these have one mantissa or eight: what they add to exponents is added.
    fn of_all(
        dequantize: &Dequantize,
        kernel: &Kernel,
        after: Factor,
        ties: MayTie,
        isa: Present,
        options: &CastOptions,
    ) -> Option<Self> {
        let Dequantize { from, to, scale, loses_sign, .. } = *dequantize;
        let maker = if to == DType::F32 { Kernel::times(isa, from, DType::BF16, options)? } else { *kernel };
        let (by, mantissas) = if scale == DType::F8E8M0 && after == Factor::NONE && to != DType::F16 {
            (By::Exponent, [1.0; 8])
        } else if scale == DType::F8E4M3FN && from.bits() == 4 && to == DType::BF16 {
            (By::Mantissa, [1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875])
        } else {
            return None;
        };
        let how = if ties == MayTie::Never { How::Near } else { How::Odd };
        let per = Per::Group(LEAST_GROUP);
        let others = Others { loses_sign, ..Others::NONE };
        let factors = Factors { per, how, others, tensor: after, scales: &mantissas, ..Factors::NONE };
        let (mut codes, mut words, mut table) = ([0; 128], [0; 256], [Table128::ZEROS]);
        all_codes(from, options, 128, &mut codes)?;
        maker.fill(&codes, &mut words, &mut table, &factors);
        let [table] = table;
        let kernel = Kernel::tabled(isa, from, to, options, by)?;
        Some(Self { kernel, maker, by, table, any_scale: true })
    }

    /// A table for each scale.
    fn of_each(dequantize: &Dequantize, maker: &Kernel, isa: Present, options: &CastOptions) -> Option<Self> {
        let Dequantize { from, to, loses_sign, .. } = *dequantize;
        if loses_sign {
            return None;
        }
        let (by, kernel) = [By::Sixteen, By::Scale]
            .into_iter()
            .find_map(|by| Some((by, Kernel::tabled(isa, from, to, options, by)?)))?;
        let any_scale = by == By::Scale || from.bits() < 8;
        Some(Self { kernel, maker: *maker, by, table: Table128::ZEROS, any_scale })
    }
}

/// What scales go through to be float32, one dtype after the other, and what their products with the factor of the tensor do.
fn roundings(dequantize: &Dequantize, plain: &CastOptions) -> ([Option<Caster>; 3], [Option<Caster>; 2]) {
    let Dequantize { to, scale, product, .. } = *dequantize;
    let cast = |from, to| cast(from, to, plain);
    match product {
        Product::Output if to != DType::F32 => {
            let there_and_back = [cast(DType::F32, to), cast(to, DType::F32)];
            // A power of two is a bfloat16.
            let is_kept = scale == DType::F8E8M0 && to == DType::BF16;
            let [narrow, wide] = if is_kept { [None; 2] } else { there_and_back };
            ([cast(scale, DType::F32), narrow, wide], there_and_back)
        }
        _ => ([cast(scale, DType::F32), None, None], [None; 2]),
    }
}

/// Codes to float64, scales to float64, and float64 to the target, if one rounding is left to the last.
fn by_f64(
    dequantize: &Dequantize,
    tensor: &Tensor,
    options: &CastOptions,
    plain: &CastOptions,
) -> Option<[Caster; 3]> {
    let Dequantize { from, to, scale, product, .. } = *dequantize;
    let bits = significant(from) + significant(scale);
    // A quotient is rounded to float64 first, which is far enough from every tie of all other targets.
    let bits = match tensor.after.divides {
        true if to == DType::F64 && dequantize.policy().rounding != Rounding::NearestEven => 64,
        true if to == DType::F64 => bits,
        true => bits + 5,
        false => bits + tensor.bits,
    };
    if bits > 53 || product != Product::Own {
        return None;
    }
    let codes = options.dst_order(ByteOrder::Native);
    let out = options.src_order(ByteOrder::Native);
    Some([cast(from, DType::F64, &codes)?, cast(scale, DType::F64, plain)?, cast(DType::F64, to, &out)?])
}

/// What registers do of a dequantisation.
#[derive(Clone, Copy)]
pub(in crate::scaled) struct Decided {
    pub(super) isa: Present,
    pub(super) kernel: Option<Kernel>,
    /// What is faster where groups have scales.
    pub(super) products: Option<Kernel>,
    pub(super) tabling: Option<Tabling>,
    /// Bytes from which on results go past the caches.
    pub(super) stream_from: usize,
    /// What scales go through to be float32.
    pub(super) to_f32: [Option<Caster>; 3],
    /// The same of the products with the factor of the tensor.
    pub(super) rounds: [Option<Caster>; 2],
    pub(super) tensor: Tensor,
    /// When a product may be rounded to a tie of the target.
    pub(super) ties: MayTie,
    /// No code is Inf, of which a zero makes a NaN.
    pub(super) zero_is_right: bool,
    /// By way of float64: codes, scales, and to the target.
    pub(super) exact: Option<[Caster; 3]>,
    pub(super) size: usize,
    /// Results are rounded to odd, all by the kernel, or none are right.
    pub(super) is_odd: bool,
}

impl Decided {
    /// The same with results that are rounded to odd, so that one more rounding is the only one: to float32, by the own rule.
    pub(in crate::scaled) fn odd(self) -> Option<Self> {
        self.kernel?;
        let ties = MayTie::Always;
        Some(Self { ties, tabling: None, stream_from: usize::MAX, is_odd: true, ..self })
    }

    /// Of elements that are read and written so. None if the reference is as good.
    pub(in crate::scaled) fn new(dequantize: &Dequantize, read: &Elements, write: &Elements) -> Option<Self> {
        let Dequantize { from, to, scale, product, .. } = *dequantize;
        let isa = read.present();
        if isa.isa() == Isa::Scalar || product == Product::GptOss && dequantize.tensor != TensorScale::None {
            return None;
        }
        let options = read.options().dst_order(write.options().dst_order);
        // Products are not rounded so.
        let options = CastOptions { stochastic: None, ..options };
        let plain = CastOptions::new().isa(isa.isa());
        let tensor = Tensor::new(dequantize)?;
        let is_own = is_own(dequantize);
        let is_nearest = dequantize.policy().rounding == Rounding::NearestEven;
        // Under a factor that comes after it, a product must be a float32.
        let is_right = if is_own {
            let is_exact = tensor.after == Factor::NONE || significant(from) + significant(scale) <= 24;
            is_nearest && is_exact
        } else {
            true
        };
        let kernel = Kernel::times(isa, from, to, &options).filter(|_| is_right);
        let exact = by_f64(dequantize, &tensor, &options, &plain);
        if kernel.is_none() && exact.is_none() {
            return None;
        }
        let ties = MayTie::new(dequantize, &tensor, isa);
        let tabling = kernel.and_then(|kernel| {
            // The products of what it is for need no rounding, or the own rule's.
            let is_plain = is_nearest && tensor.scales == TensorScale::None;
            let of_all = || Tabling::of_all(dequantize, &kernel, tensor.after, ties, isa, &options);
            let of_all = if is_plain { of_all() } else { None };
            of_all.or_else(|| Tabling::of_each(dequantize, &kernel, isa, &options))
        });
        let (to_f32, rounds) = roundings(dequantize, &plain);
        Some(Self {
            isa,
            kernel,
            products: kernel.and_then(|kernel| kernel.products(from, to, &options)),
            tabling,
            stream_from: options.stream_from.unwrap_or_else(scaled::streaming_threshold),
            to_f32,
            rounds,
            tensor,
            ties,
            zero_is_right: !from.float_format().is_some_and(|format| format.has_inf),
            exact,
            size: to.bits() as usize / 8,
            is_odd: false,
        })
    }
}
