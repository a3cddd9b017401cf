//! Which kernels and plain casts make up a dequantisation: decided once per [`Dequantize`], for any data.

use crate::cast::Caster;
use crate::formats::dtype::DType;
use crate::formats::isa::Isa;
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::options::{CastOptions, Rounding};
use crate::kernels::present::Present;
use crate::kernels::scaled::scales::{self, Ties};
use crate::kernels::scaled::{
    self, By, Factor, How, LEAST_GROUP, Others, Per, ScaleArrays, ScaledKernel, Table128,
};
use crate::scaled::codes::{Elements, cast};
use crate::scaled::numbers::magnitude;
use crate::scaled::rule::{Dequantize, Product, significant};
use crate::scaled::scaling::TensorScale;

/// The bits of +Inf.
pub(super) const INF: u32 = 0x7F80_0000;
/// The bounds of a scale, and of the tensor scale, where elements are multiplied with the product of both.
pub(super) const LEAST_OF_TWO: u32 = (127 - 45) << 23;
pub(super) const MOST_OF_TWO: u32 = (127 + 45) << 23;

/// Returns how many significant bits the product of a code and a scale has at most. None if a factor divides it that is no
/// power of two, as quotients have any number of bits.
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

/// Fills `codes` with the codes 0 to `of` - 1, over and over, packed as in the source, in groups of 128 elements. The kernel
/// casts them once to make a look-up table.
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

/// Where the tensor scale is applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor {
    /// The factor that is applied to the scales, before elements are multiplied with those.
    pub(super) scales: TensorScale,
    /// The factor that is applied to the products of elements and scales.
    pub(super) after: Factor,
    /// How many significant bits the factor adds to the products.
    bits: u32,
}

impl Tensor {
    /// Returns None if the factor is so large or small that a product on the way might overflow or underflow.
    fn new(dequantize: &Dequantize) -> Option<Self> {
        let is_mx_int = dequantize.is_mx_int;
        if let TensorScale::Multiply(g) | TensorScale::Divide(g) = dequantize.tensor
            && !(LEAST_OF_TWO..MOST_OF_TWO).contains(&magnitude(g))
        {
            return None;
        }
        // The integers of MXINT8 count 1/64.
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

/// Whether it follows lanecast's own rule, a single rounding.
fn is_own(dequantize: &Dequantize) -> bool {
    matches!(dequantize.product, Product::Own | Product::GptOss)
}

/// Whether rounding a product to float32 may turn it into a tie of the target, so that rounding the tie would round twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MayTie {
    Never,
    /// It depends on the scale. Looking for such products pays if a scale has at least this number of elements.
    Some(Ties, usize),
    Always,
}

impl MayTie {
    /// Returns what holds where a scale has this number of elements.
    pub(super) fn of(self, elements: usize) -> Self {
        match self {
            Self::Some(_, pays_from) if elements < pays_from => Self::Always,
            ties => ties,
        }
    }

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
            // For each code that it tries, the search takes as long as a single rounding adds to the cast of this many elements.
            // (On Zen 4; to float16 it adds next to nothing.)
            let pays_from = match to {
                DType::F16 => 16,
                _ if isa.isa() == Isa::Avx512 => 4,
                _ => 2,
            };
            return Ties::new(codes, to)
                .map_or(Self::Always, |ties| Self::Some(ties, pays_from * ties.tried()));
        }
        // The factor is known here, so that all products with it can be searched for one that may become a tie.
        match Ties::new(codes + scale, to) {
            Some(ties) if scales::ties(isa, ties, &[tensor.after.by], &mut [0]) == 0 => Self::Never,
            _ => Self::Always,
        }
    }
}

/// Dequantisation by looking up codes in tables of products.
#[derive(Clone, Copy)]
pub(super) struct Tabling {
    pub(super) kernel: ScaledKernel,
    /// The kernel that fills tables by casting every code.
    pub(super) maker: ScaledKernel,
    pub(super) by: By,
    /// The table, where one serves all scales.
    pub(super) table: Table128,
    /// Whether it is right for scales of both signs, or for positive ones only.
    pub(super) any_scale: bool,
}

impl Tabling {
    /// Returns the way by one table for all scales, where those are powers of two: their exponents are added to the bits that
    /// are looked up.
    fn of_all(
        dequantize: &Dequantize,
        kernel: &ScaledKernel,
        after: Factor,
        ties: MayTie,
        isa: Present,
        options: &CastOptions,
    ) -> Option<Self> {
        let Dequantize { from, to, scale, loses_sign, .. } = *dequantize;
        if scale != DType::F8E8M0 || after != Factor::NONE || to != DType::BF16 {
            return None;
        }
        let tabled = ScaledKernel::tabled(isa, from, to, options, By::Exponent)?;
        let how = if ties == MayTie::Never { How::Near } else { How::Odd };
        let per = Per::Group(LEAST_GROUP);
        let others = Others { loses_sign, ..Others::NONE };
        let arrays = ScaleArrays { per, how, others, tensor: after, scales: &[1.0; 8], ..ScaleArrays::NONE };
        let (mut codes, mut words, mut table) = ([0; 128], [0; 256], [Table128::ZEROS]);
        all_codes(from, options, 128, &mut codes)?;
        kernel.fill(&codes, &mut words, &mut table, &arrays);
        let [table] = table;
        Some(Self { kernel: tabled, maker: *kernel, by: By::Exponent, table, any_scale: true })
    }

    /// Returns the way by a table for each code of a scale.
    fn of_codes(
        dequantize: &Dequantize,
        maker: &ScaledKernel,
        isa: Present,
        options: &CastOptions,
    ) -> Option<Self> {
        let Dequantize { from, to, scale, .. } = *dequantize;
        let kernel = ScaledKernel::tabled(isa, from, to, options, By::Code).filter(|_| scale.bits() == 8)?;
        Some(Self { kernel, maker: *maker, by: By::Code, table: Table128::ZEROS, any_scale: true })
    }

    /// Returns the way by a table of its own for each scale.
    fn of_each(
        dequantize: &Dequantize,
        maker: &ScaledKernel,
        isa: Present,
        options: &CastOptions,
    ) -> Option<Self> {
        let Dequantize { from, to, loses_sign, .. } = *dequantize;
        if loses_sign {
            return None;
        }
        let (by, kernel) = [By::Sixteen, By::Scale]
            .into_iter()
            .find_map(|by| Some((by, ScaledKernel::tabled(isa, from, to, options, by)?)))?;
        let any_scale = by == By::Scale || from.bits() < 8;
        Some(Self { kernel, maker: *maker, by, table: Table128::ZEROS, any_scale })
    }
}

/// Returns the casts that bring scales to float32 (one, and for some profiles two more, to the dtype of the output and back),
/// and those that round their products with the tensor scale.
fn roundings(dequantize: &Dequantize, plain: &CastOptions) -> ([Option<Caster>; 3], [Option<Caster>; 2]) {
    let Dequantize { to, scale, product, .. } = *dequantize;
    let cast = |from, to| cast(from, to, plain);
    match product {
        Product::Output if to != DType::F32 => {
            let there_and_back = [cast(DType::F32, to), cast(to, DType::F32)];
            // Powers of two are exact in bfloat16.
            let is_kept = scale == DType::F8E8M0 && to == DType::BF16;
            let [narrow, wide] = if is_kept { [None; 2] } else { there_and_back };
            ([cast(scale, DType::F32), narrow, wide], there_and_back)
        }
        _ => ([cast(scale, DType::F32), None, None], [None; 2]),
    }
}

/// The way by float64: the casts of codes to float64, of scales to float64, and of float64 to the target; and those to float32 and back,
/// where a profile rounds to that before and after it multiplies.
#[derive(Clone, Copy)]
pub(super) struct ByF64 {
    pub(super) casts: [Caster; 3],
    pub(super) rounds: Option<[Caster; 2]>,
}

/// Returns None if the product might not be exact in float64, so that the casts after it would not be the only roundings.
fn by_f64(
    dequantize: &Dequantize,
    tensor: &Tensor,
    options: &CastOptions,
    plain: &CastOptions,
) -> Option<ByF64> {
    let Dequantize { from, to, scale, product, .. } = *dequantize;
    let bits = significant(from) + significant(scale);
    // A quotient is rounded to float64 first. Five bits to spare keep it away from every tie of a narrower target.
    let bits = match tensor.after.divides {
        true if to == DType::F64 && dequantize.policy().rounding != Rounding::NearestEven => 64,
        true if to == DType::F64 => bits,
        true => bits + 5,
        false => bits + tensor.bits,
    };
    // Integers rounded to float32 have a product with a scale that is a float64.
    let rounds = product == Product::F32 && from.is_int() && dequantize.tensor == TensorScale::None;
    if !rounds && (bits > 53 || product != Product::Own) {
        return None;
    }
    let out = if rounds { *plain } else { *options };
    let out = out.src_order(ByteOrder::Native).dst_order(options.dst_order);
    Some(ByF64 {
        casts: [
            cast(from, DType::F64, &options.dst_order(ByteOrder::Native))?,
            cast(scale, DType::F64, plain)?,
            cast(DType::F64, to, &out)?,
        ],
        rounds: if rounds {
            Some([cast(DType::F64, DType::F32, plain)?, cast(DType::F32, DType::F64, plain)?])
        } else {
            None
        },
    })
}

/// The kernels and plain casts of a dequantisation.
#[derive(Clone, Copy)]
pub(in crate::scaled) struct Decided {
    pub(super) isa: Present,
    pub(super) kernel: Option<ScaledKernel>,
    /// A faster kernel where whole groups share a scale.
    pub(super) products: Option<ScaledKernel>,
    pub(super) tabling: Option<Tabling>,
    /// From how many bytes read and written on results are streamed past the caches.
    pub(super) stream_from: usize,
    /// Bring scales to float32 in up to three casts: see [`roundings`].
    pub(super) to_f32: [Option<Caster>; 3],
    /// Casts zero points to float32.
    pub(super) zeros: Option<Caster>,
    /// Round products of scales with the tensor scale: see [`roundings`].
    pub(super) rounds: [Option<Caster>; 2],
    pub(super) tensor: Tensor,
    /// Whether a product may be rounded to a tie of the target.
    pub(super) ties: MayTie,
    /// Whether a scale of zero needs no care, since no code is Inf (Inf times zero is NaN).
    pub(super) zero_is_right: bool,
    /// The way by float64.
    pub(super) exact: Option<ByF64>,
    pub(super) size: usize,
    /// Whether results are to be rounded to odd. Only the kernel does that: if it is wrong for a scale, all results are discarded.
    pub(super) is_odd: bool,
}

impl Decided {
    /// Returns this with results rounded to odd, so that a later rounding counts as the only one. For float32 results by
    /// lanecast's own rule.
    pub(in crate::scaled) fn odd(self) -> Option<Self> {
        self.kernel?;
        let ties = MayTie::Always;
        Some(Self { ties, tabling: None, stream_from: usize::MAX, is_odd: true, ..self })
    }

    /// Returns None in cases that only the reference handles.
    pub(in crate::scaled) fn new(dequantize: &Dequantize, read: &Elements, write: &Elements) -> Option<Self> {
        let Dequantize { from, to, scale, product, .. } = *dequantize;
        let isa = read.present();
        if isa.isa() == Isa::Scalar || product == Product::GptOss && dequantize.tensor != TensorScale::None {
            return None;
        }
        let options = read.options().dst_order(write.options().dst_order);
        // Products are never rounded stochastically.
        let options = CastOptions { stochastic: None, ..options };
        let plain = CastOptions::new().isa(isa.isa());
        let tensor = Tensor::new(dequantize)?;
        let is_own = is_own(dequantize);
        let is_nearest = dequantize.policy().rounding == Rounding::NearestEven;
        // If the factor is applied to the products, these must be exact in float32.
        let is_right = if is_own {
            let is_exact = tensor.after == Factor::NONE || significant(from) + significant(scale) <= 24;
            is_nearest && is_exact
        } else {
            true
        };
        let kernel = ScaledKernel::times(isa, from, to, &options).filter(|_| is_right);
        let exact = by_f64(dequantize, &tensor, &options, &plain);
        if kernel.is_none() && exact.is_none() {
            return None;
        }
        let ties = MayTie::new(dequantize, &tensor, isa);
        let tabling = kernel.and_then(|kernel| {
            // One table for all scales holds products that are exact, or rounded by lanecast's own rule.
            let is_plain = is_nearest && tensor.scales == TensorScale::None;
            let of_all = || Tabling::of_all(dequantize, &kernel, tensor.after, ties, isa, &options);
            let of_all = if is_plain { of_all() } else { None };
            Tabling::of_codes(dequantize, &kernel, isa, &options)
                .or(of_all)
                .or_else(|| Tabling::of_each(dequantize, &kernel, isa, &options))
        });
        let (to_f32, rounds) = roundings(dequantize, &plain);
        let as_read = plain.src_packing(options.src_packing).src_order(options.src_order);
        let zeros = dequantize.has_zero_points().then(|| cast(from, DType::F32, &as_read));
        Some(Self {
            isa,
            kernel,
            products: kernel.and_then(|kernel| kernel.products(from, to, &options)),
            tabling,
            stream_from: options.stream_from.unwrap_or_else(scaled::streaming_threshold),
            to_f32,
            zeros: zeros.flatten(),
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
