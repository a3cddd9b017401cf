//! Everything a caller may choose about a cast, and the named profiles.

use super::dtype::{DTYPES, DType, Kind};
use super::isa::Isa;
use super::layout::{ByteOrder, Packing};
use super::name::{NameError, named};
use super::stochastic::Stochastic;

/// Which neighbour a value between two representable ones becomes.
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
    /// The nearer one; of two equally near, the one with the even code.
    NearestEven = 0,
    /// The nearer one; of two equally near, the one away from zero.
    NearestAway = 1,
    /// The one nearer to zero.
    TowardZero = 2,
    /// The larger one.
    Up = 3,
    /// The smaller one.
    Down = 4,
}

/// What becomes of an integer that the target cannot hold.
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
    /// The nearest value that the target holds.
    Saturate = 0,
    /// The low bits, in two's complement.
    Wrap = 1,
}

/// Which floats of 8 bits or fewer saturate: there, overflow and ±Inf give ±max. In the others they give
/// ±Inf where the format has it, and NaN where it does not. (float4 and float6 have neither, and always
/// saturate.)
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
    /// float8_e4m3fn alone (PyTorch).
    FnOnly = 2,
    /// Those that have no Inf (Zarr).
    UnlessInf = 3,
}

/// What a NaN becomes in float4 and float6, which have none. The NaN's sign plays no part.
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

/// How a value between two powers of two becomes a float8_e8m0fnu, which holds nothing else.
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
    /// The larger power.
    Up = 0,
    /// The smaller power.
    Down = 1,
    /// The nearer power; 1.5 times a power goes up.
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

/// Everything a caller may choose about a cast. `Copy`, and every method is `const`.
///
/// The fields can be read; the methods of the same names set them. Options that do not concern a
/// pair of dtypes are ignored there.
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
    /// Rounding to a float (not to float8_e8m0fnu). Default: nearest, ties to even.
    pub rounding: Rounding,
    /// Rounding of a float to an integer. Default: toward zero.
    pub int_rounding: Rounding,
    /// Which floats of 8 bits or fewer saturate. Default: all of them.
    pub saturation: Saturation,
    /// A float beyond the range of an integer. Default: saturate. NaN gives 0 either way.
    pub float_to_int: Overflow,
    /// An integer beyond the range of an integer. Default: wrap.
    pub int_to_int: Overflow,
    /// A NaN to float4 or float6. Default: −0.
    pub nan_to_finite: NanToFinite,
    /// Rounding to float8_e8m0fnu. Default: up.
    pub e8m0_rounding: E8m0Rounding,
    /// The instruction set to run on. Default: None, which is [`Isa::best`].
    pub isa: Option<Isa>,
    /// Bytes read and written from which on the destination is written past the caches. Default: None, which on x86-64 is half of the largest
    /// cache, from 1 to 16 MiB; for pairs that an instruction set converts more slowly than memory takes them, never, or on Intel three
    /// times as many (as many, if results are wider than the source). Elsewhere it is never.
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
    /// A float beyond the range of an integer of fewer than 8 bits. Default: None, which is `float_to_int`.
    pub narrow_float_to_int: Option<Overflow>,
    /// Stochastic rounding to floats of 16 bits or fewer, in place of `rounding`. Default: None. See [`CastOptions::stochastic`].
    pub stochastic: Option<Stochastic>,
}

impl Default for CastOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Of the fields of a key, which are 4 bits each.
const fn join<const N: usize>(fields: [u8; N]) -> u64 {
    let (mut key, mut i) = (0, 0);
    while i < N {
        debug_assert!(fields[i] < 16);
        key = key << 4 | fields[i] as u64;
        i += 1;
    }
    key
}

/// The bits of a key that matter to casts from each dtype, and to each: those that [`policy`](CastOptions::policy) looks at, and how
/// elements lie. What is in both matters to the pair.
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
    /// All but `isa`, `stream_from`, and the words of `stochastic`, as a number: casts of a pair with the same are the same. What cannot
    /// matter to the pair, by its kinds or by the width of its elements, is not in it.
    #[inline(always)]
    pub(crate) const fn key(&self, from: DType, to: DType) -> u64 {
        // Every field by its name, so that none can be forgotten.
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

    /// The defaults: ONNX where ONNX defines the result, Rust's `as` where it does not.
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

    /// Sets the instruction set to run on. One that is missing here is an error of
    /// [`Caster::new`](crate::Caster::new).
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

    /// Sets from how many bytes, read and written together, the destination is written past the caches: that
    /// is faster where they could not keep it, and slower for who reads it next if they could. No result
    /// depends on it. The reference never does.
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

    /// Sets the rounding of floats to integers of fewer than 8 bits alone.
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

    /// Sets stochastic rounding, in place of `rounding`, to floats of 16 bits or fewer, but not to float8_e8m0fnu: a value between
    /// two codes becomes the upper one as often as it is nearer to it, so that sums stay what they are.
    ///
    /// The random words follow from the seed and the number of an element (in row-major order, from `first` on) and from
    /// nothing else: threads, chunks and instruction sets do not matter, and whoever casts in pieces says where each begins.
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

    /// What the ONNX operator `Cast` does: the defaults, but floats round to the nearest even 2- or
    /// 4-bit integer and wrap there.
    ///
    /// ```
    /// use lanecast::{bits::I4, CastOptions, convert_with};
    /// assert_eq!(convert_with::<f32, I4>(8.0, &CastOptions::onnx()).value(), -8);
    /// assert_eq!(convert_with::<f32, I4>(1.5, &CastOptions::onnx()).value(), 2);
    /// ```
    pub const fn onnx() -> Self {
        Self::new().narrow_int_rounding(Rounding::NearestEven).narrow_float_to_int(Overflow::Wrap)
    }

    /// What NumPy's `astype` does. A float beyond the range of an integer, which is undefined there,
    /// saturates.
    ///
    /// ```
    /// use lanecast::{CastOptions, convert_with};
    /// assert_eq!(convert_with::<i16, i8>(200, &CastOptions::numpy()), -56);
    /// ```
    pub const fn numpy() -> Self {
        Self::new()
    }

    /// What ml_dtypes' `astype` does: floats of 8 bits and fewer do not saturate, 2- and 4-bit
    /// integers truncate and wrap, and float8_e8m0fnu takes the nearest power and makes zero and
    /// negatives NaN.
    ///
    /// ml_dtypes also stores 2-, 4- and 6-bit elements [one per byte](Packing::OnePerByte); a profile
    /// says what the values are, so packing stays what the caller sets.
    ///
    /// ```
    /// use lanecast::{bits::{F8E4M3FN, F8E8M0}, CastOptions, convert_with};
    /// assert!(convert_with::<f32, F8E4M3FN>(465.0, &CastOptions::ml_dtypes()).to_f32().is_nan());
    /// assert!(convert_with::<f32, F8E8M0>(0.0, &CastOptions::ml_dtypes()).to_f32().is_nan());
    /// ```
    pub const fn ml_dtypes() -> Self {
        Self::new().saturate(false).narrow_float_to_int(Overflow::Wrap).e8m0_rounding(E8m0Rounding::Nearest)
    }

    /// What PyTorch's `to` does on the CPU: float8_e4m3fn saturates, float8_e5m2 overflows to Inf and the
    /// fnuz formats to NaN; float8_e8m0fnu takes the nearest power.
    ///
    /// A float beyond the range of an integer, which is undefined there, saturates. In float8_e8m0fnu,
    /// zero and negatives are NaN, where PyTorch gives the smallest power and drops the sign.
    ///
    /// ```
    /// use lanecast::{bits::{F8E4M3FN, F8E5M2}, CastOptions, convert_with};
    /// assert_eq!(convert_with::<f32, F8E4M3FN>(f32::INFINITY, &CastOptions::torch()).to_f32(), 448.0);
    /// assert_eq!(convert_with::<f32, F8E5M2>(1e6, &CastOptions::torch()).to_f32(), f32::INFINITY);
    /// ```
    pub const fn torch() -> Self {
        Self::new().saturation(Saturation::FnOnly).e8m0_rounding(E8m0Rounding::Nearest)
    }

    /// What Rust's `as` does, for the pairs of dtypes it knows.
    ///
    /// ```
    /// use lanecast::{CastOptions, convert_with};
    /// assert_eq!(convert_with::<f32, u8>(-1.5, &CastOptions::rust_as()), -1.5f32 as u8);
    /// assert_eq!(convert_with::<i32, u8>(-1, &CastOptions::rust_as()), -1i32 as u8);
    /// ```
    pub const fn rust_as() -> Self {
        Self::new()
    }

    /// What the Zarr codec `cast_value` does with its `rounding` and its `out_of_range` (`clamp` is
    /// [`Overflow::Saturate`]; `wrap` is for integers only). A finite value that is too large for a float
    /// becomes ±Inf where there is one, ±max where there is not. To powers of two (float8_e8m0fnu) both roundings to nearest
    /// take the larger one where two are as near.
    ///
    /// What Zarr calls an error (no `out_of_range`; NaN or Inf to an integer) is not one here.
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

    /// The options of a system by its name: `onnx`, `numpy`, `torch`, `ml_dtypes` or `rust_as`.
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
    /// None has that name.
    pub fn profile(name: &str) -> Result<Self, NameError> {
        let found = Self::PROFILES.into_iter().find(|(known, _)| *known == name);
        found
            .map(|(_, options)| options)
            .ok_or_else(|| NameError::new("profile", name, &Self::PROFILES.map(|(known, _)| known)))
    }

    /// What [`profile`](Self::profile) knows.
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

    /// What of these options decides the values of one pair. The rest is as in [`Policy::DEFAULT`],
    /// so two options that cannot be told apart on a pair have the same policy there.
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

/// The options as a kernel needs them: what decides the values of one pair, and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Policy {
    /// To a float other than e8m0, or from a float to an integer.
    pub(crate) rounding: Rounding,
    /// To an integer.
    pub(crate) overflow: Overflow,
    /// To a float of 8 bits or fewer.
    pub(crate) saturate: bool,
    /// To a float without NaN.
    pub(crate) nan_to_finite: NanToFinite,
    /// To e8m0.
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
