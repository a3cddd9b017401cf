//! What a scaling is, as a value: blocks, scales, rules and layouts.

use crate::formats::dtype::DType;
use crate::formats::name::named;
use crate::formats::options::Rounding;

/// The most dimensions of data.
pub(super) const MAX_DIMS: usize = 8;

/// How the scale of a block follows from amax, the largest magnitude of its data, and M, the largest value of the target.
///
/// Among the profiles of packages, [`Profile::Torchao`] applies this rule to MX; the others find scales by rules of their own,
/// whatever is set here.
///
/// ```
/// use lanecast::scaled::{Quantizer, ScaleRule, Scaling};
/// use lanecast::{CastOptions, DType};
///
/// let scale = |rule| {
///     let scaling = Scaling::mx().rule(rule);
///     let q = Quantizer::new(DType::F32, DType::F8E4M3FN, &scaling, &CastOptions::new())?;
///     let mut scales = [0];
///     q.quantize(&464f32.to_ne_bytes(), &[1], &mut [0], &mut scales)?;
///     Ok::<_, lanecast::scaled::Error>(scales[0] as i32 - 127)
/// };
/// assert_eq!(scale(ScaleRule::Floor)?, 0); // 464 saturates to 448
/// assert_eq!(scale(ScaleRule::Ceil)?, 1);
/// assert_eq!(scale(ScaleRule::Even)?, 0);
/// assert_eq!(scale(ScaleRule::RoundUp)?, 1); // 464 > 448
/// # Ok::<(), lanecast::scaled::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
#[repr(u8)]
pub enum ScaleRule {
    /// amax / M, rounded once to the scale's dtype. For scales that are floats with a mantissa, whose default it is.
    Amax = 0,
    /// floor(log2 amax) − floor(log2 M), as the OCP formats define it. For float8_e8m0fnu, whose default it is.
    Floor = 1,
    /// ceil(log2 amax) − floor(log2 M).
    Ceil = 2,
    /// As `Floor`, but of amax rounded to the mantissa width of the target, halves up.
    Even = 3,
    /// ceil(log2(amax / M)), so that nothing saturates (RCEIL, cuBLAS).
    RoundUp = 4,
}

/// What a NaN or Inf does to the scale of its block.
///
/// ```
/// use lanecast::scaled::{NonFinite, Quantizer, Scaling};
/// use lanecast::{CastOptions, DType};
///
/// let data: Vec<u8> = [1f32, f32::NAN].iter().flat_map(|x| x.to_ne_bytes()).collect();
/// let scale = |nonfinite| {
///     let scaling = Scaling::mx().nonfinite(nonfinite);
///     let q = Quantizer::new(DType::F32, DType::F8E5M2, &scaling, &CastOptions::new())?;
///     let mut scales = [0];
///     q.quantize(&data, &[2], &mut [0; 2], &mut scales)?;
///     Ok::<_, lanecast::scaled::Error>(scales[0])
/// };
/// assert_eq!(scale(NonFinite::Propagate)?, 0xFF); // NaN
/// assert_eq!(scale(NonFinite::Ignore)?, 127 - 15);
/// # Ok::<(), lanecast::scaled::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[repr(u8)]
pub enum NonFinite {
    /// A NaN makes the scale NaN; without one, an Inf makes it the largest finite scale.
    #[default]
    Propagate = 0,
    /// NaN and Inf are ignored: the scale is that of the finite elements.
    Ignore = 1,
}

/// The tensor scale: a factor of the whole tensor, applied together with the scales of the blocks.
///
/// ```
/// use lanecast::scaled::{Dequantizer, Scaling, TensorScale};
/// use lanecast::{CastOptions, DType};
///
/// let value = |tensor| {
///     let scaling = Scaling::nvfp4().tensor_scale(tensor);
///     let d = Dequantizer::new(DType::F4E2M1, DType::F32, &scaling, &CastOptions::new())?;
///     let mut out = [0; 4];
///     d.dequantize(&[0x02], &[1], &[0x38], None, &mut out)?; // both are 1
///     Ok::<_, lanecast::scaled::Error>(f32::from_ne_bytes(out))
/// };
/// assert_eq!(value(TensorScale::Multiply(0.5))?, 0.5);
/// assert_eq!(value(TensorScale::Divide(0.5))?, 2.0);
/// # Ok::<(), lanecast::scaled::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum TensorScale {
    /// No tensor scale.
    #[default]
    None,
    /// The value of an element is code * scale * this.
    Multiply(f32),
    /// The value of an element is code * scale / this.
    Divide(f32),
    /// A factor to multiply by, computed from the data: amax / (M * 448).
    ComputeMultiply,
    /// A factor to divide by, computed from the data: M * 448 / amax.
    ComputeDivide,
}

/// Whose results a scaled cast gives bit for bit: those of lanecast's own rule, or those of a package, by the same steps. The
/// documentation of [the module](crate::scaled) says what each profile does.
///
/// ```
/// use lanecast::scaled::{Profile, Quantizer, Scaling};
/// use lanecast::{CastOptions, DType};
/// let scaling = Scaling::mx().profile(Profile::GptOss); // which only reads
/// let error = Quantizer::new(DType::F32, DType::F4E2M1, &scaling, &CastOptions::new()).unwrap_err();
/// assert!(error.to_string().contains("the profile gpt_oss"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
#[repr(u8)]
pub enum Profile {
    /// lanecast's own rule: the exact quotient or product is rounded once.
    #[default]
    Lanecast = 0,
    /// The OCP Microscaling formats: the same arithmetic as `Lanecast`.
    Ocp = 1,
    /// The operators of ONNX. Scales must be given, but for `DynamicQuantizeLinear`, by `quantize_affine` from float32 to uint8.
    Onnx = 2,
    /// torchao: MX with float8_e8m0fnu scales, NVFP4 with float8_e4m3fn scales, block float8 with float32 scales; and, as its
    /// `quantize_affine`, integers of up to 8 bits with given scales of 16 or 32 bits.
    Torchao = 3,
    /// NVIDIA ModelOpt: NVFP4, MXFP8, MXFP4.
    Modelopt = 4,
    /// compressed-tensors: NVFP4, MX, float8, int8, int4.
    CompressedTensors = 5,
    /// transformers' fine-grained float8.
    HfFp8 = 6,
    /// comfy-kitchen's eager backend.
    Comfy = 7,
    /// gpt-oss as transformers reads it: scale FF is 2^128. Dequantises only.
    GptOss = 8,
    /// The product is computed in float32, then cast to the dtype of the output. Dequantises only.
    F32 = 9,
    /// Code, zero point and scale are cast to the dtype of the output first, and multiplied there. Dequantises only.
    Output = 10,
}

/// How the scales are laid out in their buffer.
///
/// ```
/// use lanecast::scaled::{Quantizer, ScaleLayout, Scaling};
/// use lanecast::{CastOptions, DType};
/// let scaling = Scaling::mx().layout(ScaleLayout::Swizzle32x4x4);
/// let q = Quantizer::new(DType::BF16, DType::F8E4M3FN, &scaling, &CastOptions::new())?;
/// assert_eq!(q.scale_shape(&[200, 256])?, [200, 8]);
/// assert_eq!(q.scale_bytes(&[200, 256])?, 256 * 8);
/// # Ok::<(), lanecast::scaled::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
#[repr(u8)]
pub enum ScaleLayout {
    /// In the order of their shape, the last dimension varying fastest.
    #[default]
    RowMajor = 0,
    /// R x C scales with the first dimension varying fastest, where R is the product of all dimensions but the last.
    ColumnMajor = 1,
    /// R x C scales of one byte, padded with zero bytes to multiples of 128 and 4, in tiles of 512 bytes: the layout of the tensor cores.
    #[cfg_attr(feature = "serde", serde(rename = "swizzle_32x4x4"))]
    Swizzle32x4x4 = 2,
}

named! {
    "rule for scales" in "scaled": ScaleRule {
        Amax = "amax", Floor = "floor", Ceil = "ceil", Even = "even", RoundUp = "round_up",
    }
    "rule for NaN and Inf" in "scaled": NonFinite { Propagate = "propagate", Ignore = "ignore" }
    "profile" in "scaled": Profile {
        Lanecast = "lanecast", Ocp = "ocp", Onnx = "onnx", Torchao = "torchao", Modelopt = "modelopt",
        CompressedTensors = "compressed_tensors", HfFp8 = "hf_fp8", Comfy = "comfy", GptOss = "gpt_oss", F32 = "f32",
        Output = "output",
    }
    "layout of scales" in "scaled": ScaleLayout {
        RowMajor = "row_major", ColumnMajor = "column_major", Swizzle32x4x4 = "swizzle_32x4x4",
    }
}

/// Which elements share a scale.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "serialised::Elements", into = "serialised::Elements")
)]
pub(super) enum Sharing {
    /// The block lengths along the last dimensions: 0 is the whole dimension, and lengths that are missing in front are 1.
    Lengths { lengths: [usize; MAX_DIMS], dims: usize },
    /// All elements share one scale.
    Whole,
    /// Blocks of `length` along the dimension `axis`, and of `others` along all other dimensions.
    Axis { axis: usize, length: usize, others: usize },
    /// More dimensions than [`MAX_DIMS`].
    TooMany { dims: usize },
}

/// The serialised form of [`Sharing`]: which function of [`Scaling`] makes it, and with what arguments.
#[cfg(feature = "serde")]
mod serialised {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::{Scaling, Sharing};
    use crate::formats::dtype::DType;
    use crate::formats::options::Rounding;

    /// The default of the field `int_rounding`.
    pub(super) fn int_rounding() -> Rounding {
        Scaling::per_tensor(DType::F32).int_rounding
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Elements {
        PerTensor,
        Blocks(Vec<usize>),
        PerAxis(usize),
        AlongAxis(usize, usize),
    }

    impl From<Sharing> for Elements {
        fn from(sharing: Sharing) -> Self {
            match sharing {
                Sharing::Lengths { lengths, dims } => Self::Blocks(lengths[..dims].to_vec()),
                Sharing::Whole => Self::PerTensor,
                Sharing::Axis { axis, others: 0, .. } => Self::PerAxis(axis),
                Sharing::Axis { axis, length, .. } => Self::AlongAxis(axis, length),
                Sharing::TooMany { dims } => Self::Blocks(vec![0; dims]),
            }
        }
    }

    impl From<Elements> for Sharing {
        fn from(elements: Elements) -> Self {
            let scaling = match elements {
                Elements::PerTensor => Scaling::per_tensor(DType::F32),
                Elements::Blocks(lengths) => Scaling::blocks(&lengths, DType::F32),
                Elements::PerAxis(axis) => Scaling::per_axis(axis),
                Elements::AlongAxis(axis, length) => Scaling::along_axis(axis, length, DType::F32),
            };
            scaling.sharing
        }
    }
}

/// A scaling: which elements share a scale, what the scales are, and where they come from. It is `Copy`, and every constructor
/// and setter is `const`.
///
/// ```
/// use lanecast::scaled::{ScaleRule, Scaling};
/// use lanecast::DType;
/// const ROWS: Scaling = Scaling::blocks(&[1, 0], DType::F32);
/// const MX: Scaling = Scaling::mx().rule(ScaleRule::RoundUp);
/// assert_eq!((ROWS.scale_dtype, MX.scale_dtype), (DType::F32, DType::F8E8M0));
/// ```
///
/// With the feature `serde`, the field `elements` holds the name and the arguments of [`Scaling::blocks`] or another
/// constructor. It and the dtype are required:
/// ```
/// # #[cfg(feature = "serde")] {
/// use lanecast::scaled::Scaling;
/// let text = r#"{"scale_dtype": "float8_e8m0fnu", "elements": {"blocks": [32]}, "rule": "round_up"}"#;
/// let scaling: Scaling = serde_json::from_str(text)?;
/// assert_eq!(scaling, Scaling::mx().rule(lanecast::scaled::ScaleRule::RoundUp));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// The other values of `elements` are `"per_tensor"`, `{"per_axis": 0}` and `{"along_axis": [0, 16]}`.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct Scaling {
    /// The dtype of the scales.
    pub scale_dtype: DType,
    #[cfg_attr(feature = "serde", serde(rename = "elements"))]
    pub(super) sharing: Sharing,
    /// How scales follow from the data. Default: `None`, which is [`ScaleRule::Floor`] for float8_e8m0fnu and
    /// [`ScaleRule::Amax`] for the others.
    #[cfg_attr(feature = "serde", serde(default))]
    pub rule: Option<ScaleRule>,
    /// The tensor scale. Default: none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tensor_scale: TensorScale,
    /// What NaN and Inf do to the scale of their block. Default: [`NonFinite::Propagate`].
    #[cfg_attr(feature = "serde", serde(default))]
    pub nonfinite: NonFinite,
    /// Whose results the cast gives. Default: lanecast's own, by a single rounding.
    #[cfg_attr(feature = "serde", serde(default))]
    pub profile: Profile,
    /// How scales are laid out. Default: row-major.
    #[cfg_attr(feature = "serde", serde(default))]
    pub layout: ScaleLayout,
    /// Rounding of quotients to integers. Default: to nearest, ties to even, which is what the profiles of packages do whatever
    /// is set here.
    #[cfg_attr(feature = "serde", serde(default = "serialised::int_rounding"))]
    pub int_rounding: Rounding,
    /// Bytes from one row of quantised elements (along the last dimension) to the next. Default: `None`, no gaps: a row may
    /// begin within a byte.
    #[cfg_attr(feature = "serde", serde(default))]
    pub row_bytes: Option<usize>,
    /// Bytes from one row of scales to the next, for [`ScaleLayout::RowMajor`]. Default: `None`, no gaps.
    #[cfg_attr(feature = "serde", serde(default))]
    pub scale_row_bytes: Option<usize>,
    /// For [`Profile::Onnx`]: the dtype of the division. Default: `None`, the wider one of those of the data and the scales.
    #[cfg_attr(feature = "serde", serde(default))]
    pub precision: Option<DType>,
}

impl Scaling {
    const fn new(sharing: Sharing, scale_dtype: DType) -> Self {
        Self {
            scale_dtype,
            sharing,
            rule: None,
            tensor_scale: TensorScale::None,
            nonfinite: NonFinite::Propagate,
            profile: Profile::Lanecast,
            layout: ScaleLayout::RowMajor,
            int_rounding: Rounding::NearestEven,
            row_bytes: None,
            scale_row_bytes: None,
            precision: None,
        }
    }

    /// Returns a scaling by blocks of these lengths, at most 8.
    ///
    /// They are aligned to the last dimensions: 0 is the whole dimension, and lengths that are missing in front are 1. Blocks
    /// at the edges are shorter; nothing is padded.
    ///
    /// ```
    /// use lanecast::scaled::{Dequantizer, Scaling};
    /// use lanecast::{CastOptions, DType};
    /// let scaling = Scaling::blocks(&[128, 128], DType::F32);
    /// let d = Dequantizer::new(DType::F8E4M3FN, DType::BF16, &scaling, &CastOptions::new())?;
    /// assert_eq!(d.scale_shape(&[3, 500, 7168])?, [3, 4, 56]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn blocks(lengths: &[usize], scale_dtype: DType) -> Self {
        if lengths.len() > MAX_DIMS {
            return Self::new(Sharing::TooMany { dims: lengths.len() }, scale_dtype);
        }
        let mut all = [0; MAX_DIMS];
        let mut i = 0;
        while i < lengths.len() {
            all[i] = lengths[i];
            i += 1;
        }
        Self::new(Sharing::Lengths { lengths: all, dims: lengths.len() }, scale_dtype)
    }

    /// Returns a scaling with one scale for all elements.
    ///
    /// ```
    /// use lanecast::scaled::{Quantizer, Scaling};
    /// use lanecast::{CastOptions, DType};
    /// let scaling = Scaling::per_tensor(DType::F32);
    /// let q = Quantizer::new(DType::F32, DType::I8, &scaling, &CastOptions::new())?;
    /// assert_eq!(q.scale_shape(&[3, 4])?, [1, 1]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn per_tensor(scale_dtype: DType) -> Self {
        Self::new(Sharing::Whole, scale_dtype)
    }

    /// Returns a scaling with one float32 scale for each index along a dimension: per channel, per row or per token.
    ///
    /// ```
    /// use lanecast::scaled::{Quantizer, Scaling};
    /// use lanecast::{CastOptions, DType};
    /// let q = Quantizer::new(DType::F32, DType::I8, &Scaling::per_axis(1), &CastOptions::new())?;
    /// assert_eq!(q.scale_shape(&[3, 4, 5])?, [1, 4, 1]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn per_axis(axis: usize) -> Self {
        Self::new(Sharing::Axis { axis, length: 1, others: 0 }, DType::F32)
    }

    /// Returns a scaling by blocks of `length` elements along a dimension and of one along the others, as in ONNX.
    ///
    /// ```
    /// use lanecast::scaled::{Quantizer, Scaling};
    /// use lanecast::{CastOptions, DType};
    /// let scaling = Scaling::along_axis(0, 16, DType::F16);
    /// let q = Quantizer::new(DType::F32, DType::I4, &scaling, &CastOptions::new())?;
    /// assert_eq!(q.scale_shape(&[40, 5])?, [3, 5]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    pub const fn along_axis(axis: usize, length: usize, scale_dtype: DType) -> Self {
        Self::new(Sharing::Axis { axis, length, others: 1 }, scale_dtype)
    }

    /// Returns the scaling of the OCP Microscaling formats MXFP8, MXFP6, MXFP4 and MXINT8: one float8_e8m0fnu scale for each 32
    /// elements along the last dimension.
    ///
    /// int8 codes count 1/64 under float8_e8m0fnu scales, whichever elements share one, except by the profiles of packages.
    ///
    /// ```
    /// use lanecast::{DType, scaled::Scaling};
    /// assert_eq!(Scaling::mx().scale_dtype, DType::F8E8M0);
    /// ```
    pub const fn mx() -> Self {
        Self::blocks(&[32], DType::F8E8M0)
    }

    /// Returns the scaling of NVFP4: one float8_e4m3fn scale for each 16 elements along the last dimension. Its tensor
    /// scale is set by [`Scaling::tensor_scale`].
    ///
    /// ```
    /// use lanecast::{DType, scaled::Scaling};
    /// assert_eq!(Scaling::nvfp4().scale_dtype, DType::F8E4M3FN);
    /// ```
    pub const fn nvfp4() -> Self {
        Self::blocks(&[16], DType::F8E4M3FN)
    }

    /// Returns the scaling of DeepSeek's weights: one float32 scale for each block of 128 x 128.
    ///
    /// ```
    /// use lanecast::{DType, scaled::Scaling};
    /// assert_eq!(Scaling::deepseek(), Scaling::blocks(&[128, 128], DType::F32));
    /// ```
    pub const fn deepseek() -> Self {
        Self::blocks(&[128, 128], DType::F32)
    }

    /// Sets the dtype of the scales.
    ///
    /// ```
    /// use lanecast::{DType, scaled::Scaling};
    /// assert_eq!(Scaling::per_axis(0).scale(DType::BF16).scale_dtype, DType::BF16);
    /// ```
    #[must_use]
    pub const fn scale(self, scale_dtype: DType) -> Self {
        Self { scale_dtype, ..self }
    }

    /// Sets how scales follow from the data.
    ///
    /// ```
    /// use lanecast::scaled::{ScaleRule, Scaling};
    /// assert_eq!(Scaling::mx().rule(ScaleRule::Even).rule, Some(ScaleRule::Even));
    /// ```
    #[must_use]
    pub const fn rule(self, rule: ScaleRule) -> Self {
        Self { rule: Some(rule), ..self }
    }

    /// Sets the tensor scale.
    ///
    /// ```
    /// use lanecast::scaled::{Scaling, TensorScale};
    /// let scaling = Scaling::nvfp4().tensor_scale(TensorScale::ComputeMultiply);
    /// assert_eq!(scaling.tensor_scale, TensorScale::ComputeMultiply);
    /// ```
    #[must_use]
    pub const fn tensor_scale(self, tensor_scale: TensorScale) -> Self {
        Self { tensor_scale, ..self }
    }

    /// Sets what NaN and Inf do to the scale of their block.
    ///
    /// ```
    /// use lanecast::scaled::{NonFinite, Scaling};
    /// assert_eq!(Scaling::mx().nonfinite(NonFinite::Ignore).nonfinite, NonFinite::Ignore);
    /// ```
    #[must_use]
    pub const fn nonfinite(self, nonfinite: NonFinite) -> Self {
        Self { nonfinite, ..self }
    }

    /// Sets whose results the cast gives.
    ///
    /// ```
    /// use lanecast::scaled::{Profile, Scaling};
    /// assert_eq!(Scaling::mx().profile(Profile::Torchao).profile, Profile::Torchao);
    /// ```
    #[must_use]
    pub const fn profile(self, profile: Profile) -> Self {
        Self { profile, ..self }
    }

    /// Sets how scales are laid out.
    ///
    /// ```
    /// use lanecast::scaled::{ScaleLayout, Scaling};
    /// assert_eq!(Scaling::mx().layout(ScaleLayout::ColumnMajor).layout, ScaleLayout::ColumnMajor);
    /// ```
    #[must_use]
    pub const fn layout(self, layout: ScaleLayout) -> Self {
        Self { layout, ..self }
    }

    /// Sets the rounding of quotients to integers.
    ///
    /// ```
    /// use lanecast::{Rounding, scaled::Scaling};
    /// assert_eq!(Scaling::per_axis(0).int_rounding(Rounding::NearestAway).int_rounding, Rounding::NearestAway);
    /// ```
    #[must_use]
    pub const fn int_rounding(self, int_rounding: Rounding) -> Self {
        Self { int_rounding, ..self }
    }

    /// Sets the bytes from one row of quantised elements to the next, so that each row begins on a byte of its own. What is
    /// left over behind each row is written as zero.
    ///
    /// ```
    /// use lanecast::scaled::{Quantizer, Scaling};
    /// use lanecast::{CastOptions, DType};
    /// let scaling = Scaling::mx().row_bytes(4);
    /// let q = Quantizer::new(DType::F32, DType::F4E2M1, &scaling, &CastOptions::new())?;
    /// let data = 1f32.to_ne_bytes().repeat(2 * 7);
    /// let mut out = [0; 8];
    /// q.quantize_given(&data, &[2, 7], &[127; 2], None, &mut out)?;
    /// assert_eq!(out, [0x22, 0x22, 0x22, 0x02].repeat(2)[..]);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    #[must_use]
    pub const fn row_bytes(self, bytes: usize) -> Self {
        Self { row_bytes: Some(bytes), ..self }
    }

    /// Sets the bytes from one row of scales to the next. What is left over behind each row is written as zero.
    ///
    /// ```
    /// use lanecast::scaled::{Quantizer, Scaling};
    /// use lanecast::{CastOptions, DType};
    /// let scaling = Scaling::mx().scale_row_bytes(16);
    /// let q = Quantizer::new(DType::F32, DType::F8E4M3FN, &scaling, &CastOptions::new())?;
    /// assert_eq!(q.scale_bytes(&[3, 300])?, 48);
    /// # Ok::<(), lanecast::scaled::Error>(())
    /// ```
    #[must_use]
    pub const fn scale_row_bytes(self, bytes: usize) -> Self {
        Self { scale_row_bytes: Some(bytes), ..self }
    }

    /// Sets the dtype in which [`Profile::Onnx`] divides, which is ONNX's attribute `precision`.
    ///
    /// ```
    /// use lanecast::{DType, scaled::Scaling};
    /// assert_eq!(Scaling::per_axis(0).precision(DType::F16).precision, Some(DType::F16));
    /// ```
    #[must_use]
    pub const fn precision(self, precision: DType) -> Self {
        Self { precision: Some(precision), ..self }
    }

    /// Returns the rule, or the default one for the dtype of the scales.
    pub(super) const fn scale_rule(&self) -> ScaleRule {
        match self.rule {
            Some(rule) => rule,
            None if matches!(self.scale_dtype, DType::F8E8M0) => ScaleRule::Floor,
            None => ScaleRule::Amax,
        }
    }
}
