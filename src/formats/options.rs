//! The options of casts, and the named profiles.

use super::dtype::{DTYPES, DType, Kind};
use super::isa::Isa;
use super::layout::{ByteOrder, Packing};
use super::name::{NameError, named};
use super::stochastic::Stochastic;

/// How a value between two representable ones is rounded.
///
/// ```
/// use lanecast::{CastOptions, Rounding, convert_with};
/// let round = |mode| convert_with::<f64, i32>(-2.5, &CastOptions::new().int_rounding(mode));
/// assert_eq!(Rounding::ALL.map(round), [-2, -3, -2, -2, -3]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[repr(u8)]
pub enum Rounding {
    /// To the nearest one; ties to the even code.
    NearestEven = 0,
    /// To the nearest one; ties away from zero.
    NearestAway = 1,
    /// Toward zero.
    TowardZero = 2,
    /// To the larger one.
    Up = 3,
    /// To the smaller one.
    Down = 4,
}

/// What becomes of a value that is beyond the range of an integer destination.
///
/// ```
/// use lanecast::{CastOptions, Overflow, convert_with};
/// let cast = |overflow| convert_with::<i16, i8>(200, &CastOptions::new().int_to_int(overflow));
/// assert_eq!([Overflow::Saturate, Overflow::Wrap].map(cast), [127, -56]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[repr(u8)]
pub enum Overflow {
    /// The nearest value that the destination holds.
    Saturate = 0,
    /// The low bits, in two's complement.
    Wrap = 1,
}

/// Which floats of 8 bits or fewer saturate: in these, overflow and ±Inf give ±max. In the others they give
/// ±Inf if the format has it, else NaN. Float4 and float6 have neither, and always
/// saturate.
///
/// ```
/// use lanecast::{bits::{F8E4M3FN, F8E5M2}, CastOptions, Saturation, convert_with};
/// let cast = |saturation| {
///     let options = CastOptions::new().saturation(saturation);
///     (convert_with::<f32, F8E4M3FN>(1e9, &options).to_f32(), convert_with::<f32, F8E5M2>(1e9, &options).to_f32())
/// };
/// assert_eq!(cast(Saturation::Always), (448.0, 57344.0));
/// assert_eq!(cast(Saturation::FnOnly), (448.0, f32::INFINITY));
/// assert_eq!(cast(Saturation::UnlessInf), (448.0, f32::INFINITY));
/// assert!(cast(Saturation::Never).0.is_nan());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[repr(u8)]
pub enum Saturation {
    /// None of them.
    Never = 0,
    /// All of them (ONNX, OCP).
    Always = 1,
    /// Only float8_e4m3fn (PyTorch).
    FnOnly = 2,
    /// Those that have no Inf (Zarr).
    UnlessInf = 3,
}

/// What a NaN becomes in float4 and float6, which have no NaN. Its sign has no effect.
///
/// ```
/// use lanecast::{bits::F4E2M1, CastOptions, NanToFinite, convert_with};
/// let cast = |to| convert_with::<f32, F4E2M1>(f32::NAN, &CastOptions::new().nan_to_finite(to)).to_bits();
/// assert_eq!([NanToFinite::NegZero, NanToFinite::Max, NanToFinite::Zero].map(cast), [0x8, 0x7, 0x0]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[repr(u8)]
pub enum NanToFinite {
    /// −0 (ml_dtypes, current ONNX).
    NegZero = 0,
    /// The largest finite value, positive (PTX, ONNX before 1.19).
    Max = 1,
    /// +0.
    Zero = 2,
}

/// How a value between two powers of two is rounded to float8_e8m0fnu, which only has powers of two.
///
/// ```
/// use lanecast::{bits::F8E8M0, CastOptions, E8m0Rounding, convert_with};
/// let cast = |mode| convert_with::<f32, F8E8M0>(1.25, &CastOptions::new().e8m0_rounding(mode)).to_f32();
/// assert_eq!([E8m0Rounding::Up, E8m0Rounding::Down, E8m0Rounding::Nearest].map(cast), [2.0, 1.0, 1.0]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[repr(u8)]
pub enum E8m0Rounding {
    /// To the larger power.
    Up = 0,
    /// To the smaller power.
    Down = 1,
    /// To the nearer power; a tie, which is 1.5 times a power, to the larger.
    Nearest = 2,
}

named! {
    "rounding": Rounding {
        NearestEven = "nearest_even", NearestAway = "nearest_away", TowardZero = "toward_zero", Up = "up", Down = "down",
    }
    "overflow": Overflow { Saturate = "saturate", Wrap = "wrap" }
    "saturation": Saturation { Never = "never", Always = "always", FnOnly = "fn_only", UnlessInf = "unless_inf" }
    "rule for NaN": NanToFinite { NegZero = "neg_zero", Max = "max", Zero = "zero" }
    "rounding to powers of two": E8m0Rounding { Up = "up", Down = "down", Nearest = "nearest" }
}

/// The options of a cast. It is `Copy`, and its setters are `const`.
///
/// The fields can be read and assigned; the methods of the same names return the options with another value. Options that do
/// not concern a pair of dtypes are ignored.
///
/// ```
/// use lanecast::{bits::F8E4M3FN, CastOptions, Saturation, convert, convert_with};
///
/// const TO_NAN: CastOptions = CastOptions::new().saturate(false);
/// assert_eq!(convert::<f32, F8E4M3FN>(1e6).to_f32(), 448.0);
/// assert!(convert_with::<f32, F8E4M3FN>(1e6, &TO_NAN).to_f32().is_nan());
/// assert_eq!(TO_NAN.saturation, Saturation::Never);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[non_exhaustive]
#[must_use = "options do nothing until a cast takes them"]
pub struct CastOptions {
    /// Rounding to floats other than float8_e8m0fnu. Default: nearest, ties to even.
    pub rounding: Rounding,
    /// Rounding of floats to integers. Default: toward zero.
    pub int_rounding: Rounding,
    /// Which floats of 8 bits or fewer saturate. Default: all of them.
    pub saturation: Saturation,
    /// What a float beyond the range of an integer becomes. Default: saturate. NaN gives 0 either way.
    pub float_to_int: Overflow,
    /// What an integer beyond the range of an integer becomes. Default: wrap.
    pub int_to_int: Overflow,
    /// What a NaN becomes in float4 and float6. Default: −0.
    pub nan_to_finite: NanToFinite,
    /// Rounding to float8_e8m0fnu. Default: up.
    pub e8m0_rounding: E8m0Rounding,
    /// The instruction set to run on. Default: None, which is [`Isa::best`].
    pub isa: Option<Isa>,
    /// The number of bytes, read and written together, from which on results are stored past the caches (non-temporal stores). Default: None. On
    /// x86-64 that is half of the largest cache, but from 1 to 16 MiB; for pairs that an instruction set converts more slowly than memory takes the
    /// results it is never, on a Zen 3 as many bytes all the same, or on Intel three times as many bytes (or as many, if results are wider than the source). Elsewhere it is never.
    pub stream_from: Option<usize>,
    /// How a source of fewer than 8 bits an element is packed. Default: low bits first.
    pub src_packing: Packing,
    /// How a destination of fewer than 8 bits an element is packed. Default: low bits first.
    pub dst_packing: Packing,
    /// The byte order of the source. Default: native.
    pub src_order: ByteOrder,
    /// The byte order of the destination. Default: native.
    pub dst_order: ByteOrder,
    /// Rounding of a float to an integer of fewer than 8 bits. Default: None, which is `int_rounding`.
    pub narrow_int_rounding: Option<Rounding>,
    /// What a float beyond the range of an integer of fewer than 8 bits becomes. Default: None, which is `float_to_int`.
    pub narrow_float_to_int: Option<Overflow>,
    /// Stochastic rounding to floats of 16 bits or fewer, in place of `rounding`. Default: None. See [`CastOptions::stochastic`].
    pub stochastic: Option<Stochastic>,
}

impl Default for CastOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Joins fields of 4 bits each to a key.
const fn join<const N: usize>(fields: [u8; N]) -> u64 {
    let (mut key, mut i) = (0, 0);
    while i < N {
        debug_assert!(fields[i] < 16);
        key = key << 4 | fields[i] as u64;
        i += 1;
    }
    key
}

/// The bits of a key that matter to casts from each dtype, and to casts to each dtype: the options that [`policy`](CastOptions::policy) reads,
/// and how elements lie in memory. The bits that are set in both matter to the pair.
static MATTERS: [[u64; DTYPES]; 2] = {
    const fn all(does: bool) -> u8 {
        if does { 15 } else { 0 }
    }
    let (mut matters, mut i) = ([[0; DTYPES]; 2], 0);
    while i < DTYPES {
        let dtype = DType::ALL[i];
        let (packing, order) = (all(dtype.bits() < 8), all(dtype.bits() > 8));
        let of_floats = all(matches!(dtype.kind(), Kind::Float(_) | Kind::Complex(_)));
        let of_ints = 15 - of_floats;
        matters[0][i] = join([
            15, of_floats, 15, of_floats, of_ints, 15, 15, packing, 15, order, 15, of_floats, of_floats, 15,
        ]);
        let (mut rounding, mut saturation, mut nan_to_finite, mut e8m0_rounding) = (0, 0, 0, 0);
        let (mut int, mut narrow) = (0, 0);
        match dtype.kind() {
            Kind::Bool => {}
            Kind::Int(format) => (int, narrow) = (15, all(format.bits < 8)),
            Kind::Float(format) => {
                (rounding, e8m0_rounding) = (all(format.has_zero()), all(!format.has_zero()));
                nan_to_finite = all(!format.has_nan);
                saturation = all(format.has_nan && format.bits() <= 8);
            }
            Kind::Complex(_) => rounding = 15,
        }
        matters[1][i] = join([
            rounding,
            int,
            saturation,
            int,
            int,
            nan_to_finite,
            e8m0_rounding,
            15,
            packing,
            15,
            order,
            narrow,
            narrow,
            all(dtype.rounds_stochastically()),
        ]);
        i += 1;
    }
    matters
};

impl CastOptions {
    /// All options but `isa`, `stream_from`, and the words of `stochastic`, as a number: casts of a pair whose options have the same key are the
    /// same. Options that cannot matter to the pair, by its kinds or by the width of its elements, are left out.
    #[inline(always)]
    pub(crate) const fn key(&self, from: DType, to: DType) -> u64 {
        // Every field is named, so that a new one that is forgotten here does not compile.
        let Self {
            isa: _,
            stream_from: _,
            rounding,
            int_rounding,
            saturation,
            float_to_int,
            int_to_int,
            nan_to_finite,
            e8m0_rounding,
            src_packing,
            dst_packing,
            src_order,
            dst_order,
            narrow_int_rounding,
            narrow_float_to_int,
            stochastic,
        } = *self;
        join([
            rounding as u8,
            int_rounding as u8,
            saturation as u8,
            float_to_int as u8,
            int_to_int as u8,
            nan_to_finite as u8,
            e8m0_rounding as u8,
            src_packing as u8,
            dst_packing as u8,
            src_order.is_swapped() as u8,
            dst_order.is_swapped() as u8,
            match narrow_int_rounding {
                Some(rounding) => 1 + rounding as u8,
                None => 0,
            },
            match narrow_float_to_int {
                Some(overflow) => 1 + overflow as u8,
                None => 0,
            },
            stochastic.is_some() as u8,
        ]) & MATTERS[0][from as usize]
            & MATTERS[1][to as usize]
    }

    /// Returns the defaults: those of ONNX where it defines the result, else those of Rust's `as`.
    ///
    /// ```
    /// use lanecast::{CastOptions, Rounding};
    /// assert_eq!(CastOptions::new().rounding, Rounding::NearestEven);
    /// assert_eq!(CastOptions::new(), CastOptions::default());
    /// ```
    pub const fn new() -> Self {
        Self {
            rounding: Rounding::NearestEven,
            int_rounding: Rounding::TowardZero,
            saturation: Saturation::Always,
            float_to_int: Overflow::Saturate,
            int_to_int: Overflow::Wrap,
            nan_to_finite: NanToFinite::NegZero,
            e8m0_rounding: E8m0Rounding::Up,
            isa: None,
            stream_from: None,
            src_packing: Packing::LowFirst,
            dst_packing: Packing::LowFirst,
            src_order: ByteOrder::Native,
            dst_order: ByteOrder::Native,
            narrow_int_rounding: None,
            narrow_float_to_int: None,
            stochastic: None,
        }
    }

    /// Sets the rounding to floats.
    ///
    /// ```
    /// use lanecast::{CastOptions, Rounding, convert_with};
    /// let up = CastOptions::new().rounding(Rounding::Up);
    /// assert_eq!(convert_with::<f64, f32>(0.1, &up), 0.1f32); // 0.1f32 lies above 0.1
    /// assert_eq!(convert_with::<f64, f32>(1.0 + 1e-12, &up), 1.0 + f32::EPSILON);
    /// ```
    pub const fn rounding(self, rounding: Rounding) -> Self {
        Self { rounding, ..self }
    }

    /// Sets the rounding of floats to integers.
    ///
    /// ```
    /// use lanecast::{CastOptions, Rounding, convert_with};
    /// let nearest = CastOptions::new().int_rounding(Rounding::NearestEven);
    /// assert_eq!(convert_with::<f32, u8>(2.5, &nearest), 2);
    /// ```
    pub const fn int_rounding(self, int_rounding: Rounding) -> Self {
        Self { int_rounding, ..self }
    }

    /// Sets whether floats of 8 bits or fewer saturate: all of them, or none.
    ///
    /// ```
    /// use lanecast::{bits::F8E5M2, CastOptions, convert_with};
    /// let inf = CastOptions::new().saturate(false);
    /// assert_eq!(convert_with::<f32, F8E5M2>(1e9, &inf).to_f32(), f32::INFINITY);
    /// ```
    pub const fn saturate(self, saturate: bool) -> Self {
        self.saturation(if saturate { Saturation::Always } else { Saturation::Never })
    }

    /// Sets which floats of 8 bits or fewer saturate.
    ///
    /// ```
    /// use lanecast::{bits::F8E5M2, CastOptions, Saturation, convert_with};
    /// let options = CastOptions::new().saturation(Saturation::UnlessInf);
    /// assert_eq!(convert_with::<f32, F8E5M2>(1e9, &options).to_f32(), f32::INFINITY);
    /// ```
    pub const fn saturation(self, saturation: Saturation) -> Self {
        Self { saturation, ..self }
    }

    /// Sets what a float beyond the range of an integer gives.
    ///
    /// ```
    /// use lanecast::{CastOptions, Overflow, convert_with};
    /// let wrap = CastOptions::new().float_to_int(Overflow::Wrap);
    /// assert_eq!(convert_with::<f32, u8>(257.9, &wrap), 1);
    /// ```
    pub const fn float_to_int(self, float_to_int: Overflow) -> Self {
        Self { float_to_int, ..self }
    }

    /// Sets what an integer beyond the range of an integer gives.
    ///
    /// ```
    /// use lanecast::{CastOptions, Overflow, convert_with};
    /// let saturate = CastOptions::new().int_to_int(Overflow::Saturate);
    /// assert_eq!(convert_with::<i32, u8>(-1, &saturate), 0);
    /// ```
    pub const fn int_to_int(self, int_to_int: Overflow) -> Self {
        Self { int_to_int, ..self }
    }

    /// Sets what a NaN gives in float4 and float6.
    ///
    /// ```
    /// use lanecast::{bits::F6E2M3, CastOptions, NanToFinite, convert_with};
    /// let max = CastOptions::new().nan_to_finite(NanToFinite::Max);
    /// assert_eq!(convert_with::<f32, F6E2M3>(f32::NAN, &max).to_f32(), 7.5);
    /// ```
    pub const fn nan_to_finite(self, nan_to_finite: NanToFinite) -> Self {
        Self { nan_to_finite, ..self }
    }

    /// Sets the rounding to float8_e8m0fnu.
    ///
    /// ```
    /// use lanecast::{bits::F8E8M0, CastOptions, E8m0Rounding, convert_with};
    /// let nearest = CastOptions::new().e8m0_rounding(E8m0Rounding::Nearest);
    /// assert_eq!(convert_with::<f32, F8E8M0>(3.0, &nearest).to_f32(), 4.0);
    /// ```
    pub const fn e8m0_rounding(self, e8m0_rounding: E8m0Rounding) -> Self {
        Self { e8m0_rounding, ..self }
    }

    /// Sets the instruction set to run on. If it is not available, [`Caster::new`](crate::Caster::new) returns
    /// an error.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType, Isa};
    /// let caster = Caster::new(DType::F32, DType::F16, &CastOptions::new().isa(Isa::Scalar))?;
    /// assert_eq!(caster.isa(), Isa::Scalar);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn isa(self, isa: Isa) -> Self {
        Self { isa: Some(isa), ..self }
    }

    /// Sets the number of bytes, read and written together, from which on results are stored past the caches. That
    /// is faster if the caches could not hold them; if they could, whatever reads them next is slower. No result
    /// depends on it. The reference always writes through the caches.
    ///
    /// ```
    /// use lanecast::{CastOptions, cast_slice_with};
    /// // Nobody will read the result soon.
    /// let once = CastOptions::new().stream_from(1 << 20);
    /// let mut out = vec![0f32; 300_000];
    /// cast_slice_with(&vec![1i16; 300_000], &mut out, &once)?;
    /// assert_eq!(out[299_999], 1.0);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn stream_from(self, bytes: usize) -> Self {
        Self { stream_from: Some(bytes), ..self }
    }

    /// Sets how a source of fewer than 8 bits an element is packed.
    ///
    /// ```
    /// use lanecast::{CastOptions, DType, Packing, cast_bytes_with};
    /// let high = CastOptions::new().src_packing(Packing::HighFirst);
    /// let mut out = [0u8; 2];
    /// cast_bytes_with(&[0x12], DType::U4, &mut out, DType::U8, 2, &high)?;
    /// assert_eq!(out, [1, 2]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn src_packing(self, src_packing: Packing) -> Self {
        Self { src_packing, ..self }
    }

    /// Sets how a destination of fewer than 8 bits an element is packed.
    ///
    /// ```
    /// use lanecast::{CastOptions, DType, Packing, cast_bytes_with};
    /// let single = CastOptions::new().dst_packing(Packing::OnePerByte);
    /// let mut out = [0u8; 2];
    /// cast_bytes_with(&[1, 2], DType::U8, &mut out, DType::U4, 2, &single)?;
    /// assert_eq!(out, [1, 2]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn dst_packing(self, dst_packing: Packing) -> Self {
        Self { dst_packing, ..self }
    }

    /// Sets the byte order of the source.
    ///
    /// ```
    /// use lanecast::{ByteOrder, CastOptions, DType, cast_bytes_with};
    /// let mut out = [0u8];
    /// let big = CastOptions::new().src_order(ByteOrder::Big);
    /// cast_bytes_with(&[0, 7], DType::U16, &mut out, DType::U8, 1, &big)?;
    /// assert_eq!(out, [7]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn src_order(self, src_order: ByteOrder) -> Self {
        Self { src_order, ..self }
    }

    /// Sets the byte order of the destination.
    ///
    /// ```
    /// use lanecast::{ByteOrder, CastOptions, DType, cast_bytes_with};
    /// let mut out = [0u8; 2];
    /// let big = CastOptions::new().dst_order(ByteOrder::Big);
    /// cast_bytes_with(&[7], DType::U8, &mut out, DType::U16, 1, &big)?;
    /// assert_eq!(out, [0, 7]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn dst_order(self, dst_order: ByteOrder) -> Self {
        Self { dst_order, ..self }
    }

    /// Sets the rounding of floats to integers of fewer than 8 bits only.
    ///
    /// ```
    /// use lanecast::{bits::I4, CastOptions, Rounding, convert_with};
    /// let up = CastOptions::new().narrow_int_rounding(Rounding::Up);
    /// assert_eq!(convert_with::<f32, I4>(1.5, &up).value(), 2);
    /// assert_eq!(convert_with::<f32, i8>(1.5, &up), 1);
    /// ```
    pub const fn narrow_int_rounding(self, rounding: Rounding) -> Self {
        Self { narrow_int_rounding: Some(rounding), ..self }
    }

    /// Sets what a float beyond the range of an integer of fewer than 8 bits gives.
    ///
    /// ```
    /// use lanecast::{bits::U4, CastOptions, Overflow, convert_with};
    /// let wrap = CastOptions::new().narrow_float_to_int(Overflow::Wrap);
    /// assert_eq!(convert_with::<f32, U4>(17.0, &wrap).value(), 1);
    /// assert_eq!(convert_with::<f32, u8>(257.0, &wrap), 255);
    /// ```
    pub const fn narrow_float_to_int(self, overflow: Overflow) -> Self {
        Self { narrow_float_to_int: Some(overflow), ..self }
    }

    /// Sets stochastic rounding, in place of `rounding`, to floats of 16 bits or fewer, but not to float8_e8m0fnu. A value between
    /// two codes becomes the upper one with a probability in proportion to its distance from the lower one, so sums are unbiased.
    ///
    /// The random words depend only on the seed and the number of an element (in row-major order, from `first` on), not on
    /// threads, chunks or instruction sets. A caller that casts in pieces passes as `first` where each of them begins.
    ///
    /// ```
    /// use lanecast::{CastOptions, bf16, cast_slice_with};
    /// let mut out = [bf16::ZERO; 1000];
    /// cast_slice_with(&[1.0f32 + 1.0 / 512.0; 1000], &mut out, &CastOptions::new().stochastic(7, 0))?;
    /// // A quarter of the way from 1 to the next: so many became that.
    /// assert_eq!(out.iter().filter(|x| x.to_f32() > 1.0).count(), 252);
    /// let mut end = [bf16::ZERO; 100];
    /// cast_slice_with(&[1.0f32 + 1.0 / 512.0; 100], &mut end, &CastOptions::new().stochastic(7, 900))?;
    /// assert_eq!(end, out[900..]);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn stochastic(self, seed: u64, first: u64) -> Self {
        Self { stochastic: Some(Stochastic::new(seed, first)), ..self }
    }

    /// The options of the ONNX operator `Cast`: the defaults, but floats are rounded to nearest even and wrap in
    /// integers of 2 or 4 bits.
    ///
    /// ```
    /// use lanecast::{bits::I4, CastOptions, convert_with};
    /// assert_eq!(convert_with::<f32, I4>(8.0, &CastOptions::onnx()).value(), -8);
    /// assert_eq!(convert_with::<f32, I4>(1.5, &CastOptions::onnx()).value(), 2);
    /// ```
    pub const fn onnx() -> Self {
        Self::new().narrow_int_rounding(Rounding::NearestEven).narrow_float_to_int(Overflow::Wrap)
    }

    /// The options of NumPy's `astype`. A float beyond the range of an integer, whose result is undefined there,
    /// saturates.
    ///
    /// ```
    /// use lanecast::{CastOptions, convert_with};
    /// assert_eq!(convert_with::<i16, i8>(200, &CastOptions::numpy()), -56);
    /// ```
    pub const fn numpy() -> Self {
        Self::new()
    }

    /// The options of ml_dtypes' `astype`: floats of 8 bits and fewer do not saturate, floats truncate and wrap
    /// in 2- and 4-bit integers, and float8_e8m0fnu takes the nearest power, and NaN for zero and
    /// negatives.
    ///
    /// ml_dtypes also stores 2-, 4- and 6-bit elements [one per byte](Packing::OnePerByte); a profile
    /// only decides values, so the packing remains what the caller sets.
    ///
    /// ```
    /// use lanecast::{bits::{F8E4M3FN, F8E8M0}, CastOptions, convert_with};
    /// assert!(convert_with::<f32, F8E4M3FN>(465.0, &CastOptions::ml_dtypes()).to_f32().is_nan());
    /// assert!(convert_with::<f32, F8E8M0>(0.0, &CastOptions::ml_dtypes()).to_f32().is_nan());
    /// ```
    pub const fn ml_dtypes() -> Self {
        Self::new().saturate(false).narrow_float_to_int(Overflow::Wrap).e8m0_rounding(E8m0Rounding::Nearest)
    }

    /// The options of PyTorch's `to` on the CPU: float8_e4m3fn saturates, float8_e5m2 overflows to Inf and the
    /// fnuz formats to NaN; float8_e8m0fnu takes the nearest power.
    ///
    /// A float beyond the range of an integer, whose result is undefined there, saturates. In float8_e8m0fnu,
    /// zero and negatives are NaN, where PyTorch gives the smallest power and drops the sign.
    ///
    /// candle's `to_dtype` is this, too, except that it rounds float64 to 16-bit floats and wide integers to bfloat16 twice, and for the
    /// bits of a NaN of float8.
    ///
    /// ```
    /// use lanecast::{bits::{F8E4M3FN, F8E5M2}, CastOptions, convert_with};
    /// assert_eq!(convert_with::<f32, F8E4M3FN>(f32::INFINITY, &CastOptions::torch()).to_f32(), 448.0);
    /// assert_eq!(convert_with::<f32, F8E5M2>(1e6, &CastOptions::torch()).to_f32(), f32::INFINITY);
    /// ```
    pub const fn torch() -> Self {
        Self::new().saturation(Saturation::FnOnly).e8m0_rounding(E8m0Rounding::Nearest)
    }

    /// The options of Rust's `as`, for the pairs of dtypes that it knows. Arrow's numeric casts are this, with the checked casts for
    /// [what they make null](crate::checked#arrow-arrays).
    ///
    /// ```
    /// use lanecast::{CastOptions, convert_with};
    /// assert_eq!(convert_with::<f32, u8>(-1.5, &CastOptions::rust_as()), -1.5f32 as u8);
    /// assert_eq!(convert_with::<i32, u8>(-1, &CastOptions::rust_as()), -1i32 as u8);
    /// ```
    pub const fn rust_as() -> Self {
        Self::new()
    }

    /// The options of the Zarr codec `cast_value` with its `rounding` and its `out_of_range` (`clamp` is
    /// [`Overflow::Saturate`]; `wrap` is for integers only). A finite value that is too large for a float
    /// becomes ±Inf if the format has it, else ±max. To powers of two (float8_e8m0fnu) both roundings to nearest
    /// take ties to the larger power.
    ///
    /// What is an error in Zarr (values out of range without `out_of_range`; NaN or Inf to an integer) is not one here.
    ///
    /// ```
    /// use lanecast::{bits::{F8E4M3FN, F8E5M2, F8E8M0}, CastOptions, Overflow, Rounding, convert_with};
    /// let zarr = CastOptions::zarr(Rounding::NearestAway, Overflow::Saturate);
    /// assert_eq!(convert_with::<f32, i8>(-2.5, &zarr), -3);
    /// assert_eq!(convert_with::<i32, u8>(256, &zarr), 255);
    /// assert_eq!(convert_with::<f32, F8E5M2>(1e9, &zarr).to_f32(), f32::INFINITY);
    /// assert_eq!(convert_with::<f32, F8E4M3FN>(1e9, &zarr).to_f32(), 448.0);
    /// assert_eq!([5.0, 6.0, 7.0].map(|x: f32| convert_with::<_, F8E8M0>(x, &zarr).to_f32()), [4.0, 8.0, 8.0]);
    /// assert_eq!(convert_with::<f32, F8E8M0>(7.0, &CastOptions::zarr(Rounding::Down, Overflow::Saturate)).to_f32(), 4.0);
    /// ```
    pub const fn zarr(rounding: Rounding, out_of_range: Overflow) -> Self {
        Self::new()
            .rounding(rounding)
            .int_rounding(rounding)
            .float_to_int(out_of_range)
            .int_to_int(out_of_range)
            .saturation(Saturation::UnlessInf)
            .e8m0_rounding(match rounding {
                Rounding::Up => E8m0Rounding::Up,
                Rounding::Down | Rounding::TowardZero => E8m0Rounding::Down,
                Rounding::NearestEven | Rounding::NearestAway => E8m0Rounding::Nearest,
            })
    }

    /// Returns the options of a system by name: `onnx`, `numpy`, `torch`, `ml_dtypes` or `rust_as`.
    ///
    /// ```
    /// use lanecast::CastOptions;
    /// assert_eq!(CastOptions::profile("torch")?, CastOptions::torch());
    /// let error = CastOptions::profile("pytorch").unwrap_err();
    /// assert_eq!(error.to_string(), "no profile is named \"pytorch\"; the names are onnx, numpy, torch, ml_dtypes, rust_as");
    /// # Ok::<(), lanecast::NameError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// No profile has that name.
    pub fn profile(name: &str) -> Result<Self, NameError> {
        let found = Self::PROFILES.into_iter().find(|(known, _)| *known == name);
        found
            .map(|(_, options)| options)
            .ok_or_else(|| NameError::new("profile", name, &Self::PROFILES.map(|(known, _)| known)))
    }

    /// The names and options that [`profile`](Self::profile) knows.
    ///
    /// ```
    /// assert!(lanecast::CastOptions::PROFILES.contains(&("onnx", lanecast::CastOptions::onnx())));
    /// ```
    pub const PROFILES: [(&'static str, Self); 5] = [
        ("onnx", Self::onnx()),
        ("numpy", Self::numpy()),
        ("torch", Self::torch()),
        ("ml_dtypes", Self::ml_dtypes()),
        ("rust_as", Self::rust_as()),
    ];

    /// The options that decide the values of one pair. The rest is as in [`Policy::DEFAULT`],
    /// so options that make no difference to a pair give the same policy.
    pub(crate) const fn policy(&self, from: DType, to: DType) -> Policy {
        let mut policy = Policy::DEFAULT;
        match (from.kind(), to.kind()) {
            (_, Kind::Bool) => {}
            (Kind::Bool | Kind::Int(_), Kind::Int(_)) => policy.overflow = self.int_to_int,
            (Kind::Float(_) | Kind::Complex(_), Kind::Int(format)) => {
                policy.rounding = self.int_rounding;
                policy.overflow = self.float_to_int;
                if format.bits < 8 {
                    if let Some(rounding) = self.narrow_int_rounding {
                        policy.rounding = rounding;
                    }
                    if let Some(overflow) = self.narrow_float_to_int {
                        policy.overflow = overflow;
                    }
                }
            }
            (_, Kind::Float(format)) => {
                if !format.has_zero() {
                    policy.e8m0_rounding = self.e8m0_rounding;
                } else {
                    policy.rounding = self.rounding;
                }
                if !format.has_nan {
                    policy.nan_to_finite = self.nan_to_finite;
                } else if format.bits() <= 8 {
                    policy.saturate = match self.saturation {
                        Saturation::Never => false,
                        Saturation::Always => true,
                        Saturation::FnOnly => matches!(to, DType::F8E4M3FN),
                        Saturation::UnlessInf => !format.has_inf,
                    };
                }
            }
            (_, Kind::Complex(_)) => policy.rounding = self.rounding,
        }
        policy
    }
}

/// The options that decide the values of one pair, as a kernel needs them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Policy {
    /// The rounding to a float other than e8m0, or of a float to an integer.
    pub(crate) rounding: Rounding,
    /// What a value beyond the range of an integer becomes.
    pub(crate) overflow: Overflow,
    /// Whether a float of 8 bits or fewer saturates.
    pub(crate) saturate: bool,
    /// What a NaN becomes in a float without NaN.
    pub(crate) nan_to_finite: NanToFinite,
    /// The rounding to e8m0.
    pub(crate) e8m0_rounding: E8m0Rounding,
}

impl Policy {
    pub(crate) const DEFAULT: Self = Self {
        rounding: Rounding::NearestEven,
        overflow: Overflow::Wrap,
        saturate: true,
        nan_to_finite: NanToFinite::NegZero,
        e8m0_rounding: E8m0Rounding::Up,
    };
}
