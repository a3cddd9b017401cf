//! Translates between the names of the codec and those of lanecast, and casts elements. Nothing here depends on zarrs.

use lanecast::zarr::{ValueCaster, ZarrError};
use lanecast::{DType, Kind, Overflow};
use serde::Deserialize;

/// How values that the target data type does not have are rounded.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// To the nearest, ties to even.
    #[default]
    NearestEven,
    /// Toward zero.
    TowardsZero,
    /// Up.
    TowardsPositive,
    /// Down.
    TowardsNegative,
    /// To the nearest, ties away from zero.
    NearestAway,
}

/// What values out of range become.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutOfRange {
    /// The nearest value, or infinity if the data type has it.
    Clamp,
    /// The integer that is equal modulo 2^bits.
    Wrap,
}

impl Rounding {
    /// The name in metadata.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NearestEven => "nearest-even",
            Self::TowardsZero => "towards-zero",
            Self::TowardsPositive => "towards-positive",
            Self::TowardsNegative => "towards-negative",
            Self::NearestAway => "nearest-away",
        }
    }
}

impl OutOfRange {
    /// The name in metadata.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Clamp => "clamp",
            Self::Wrap => "wrap",
        }
    }
}

impl From<Rounding> for lanecast::Rounding {
    fn from(rounding: Rounding) -> Self {
        match rounding {
            Rounding::NearestEven => Self::NearestEven,
            Rounding::NearestAway => Self::NearestAway,
            Rounding::TowardsZero => Self::TowardZero,
            Rounding::TowardsPositive => Self::Up,
            Rounding::TowardsNegative => Self::Down,
        }
    }
}

impl From<OutOfRange> for Overflow {
    fn from(rule: OutOfRange) -> Self {
        match rule {
            OutOfRange::Clamp => Self::Saturate,
            OutOfRange::Wrap => Self::Wrap,
        }
    }
}

/// Returns the dtype of a data type by its name, if the specification of the codec allows it.
pub(crate) fn dtype(name: &str) -> Option<DType> {
    const NAMES: &str = "int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 \
        float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2 \
        float8_e5m2fnuz float8_e8m0fnu bfloat16 float16 float32 float64";
    NAMES.split(' ').any(|known| known == name).then(|| name.parse().ok()).flatten()
}

/// Returns the bytes of an element; one of fewer than 8 bits takes a byte.
pub(crate) fn size(dtype: DType) -> usize {
    dtype.bits().div_ceil(8) as usize
}

/// Casts elements in native byte order.
pub(crate) fn cast(caster: &ValueCaster, src: &[u8]) -> Result<Vec<u8>, ZarrError> {
    let (from, to) = (size(caster.from()), size(caster.to()));
    let n = src.len() / from;
    let mut out = Vec::with_capacity(n * to);
    let room = &mut out.spare_capacity_mut()[..n * to];
    sign_extend(caster.to(), caster.cast_uninit(src, room, n)?);
    // SAFETY: the cast succeeded, so it has initialised all `n * to` bytes, for which there is capacity.
    unsafe { out.set_len(n * to) };
    Ok(out)
}

/// Whether two elements are the same value: a NaN is any other NaN, whatever its bits, and -0 is 0, as in maps. The specification compares numerical
/// values and asks for no payloads; no integer has a -0, and no fnuz format.
pub(crate) fn same(dtype: DType, one: &[u8], other: &[u8]) -> Result<bool, ZarrError> {
    if one == other || !matches!(dtype.kind(), Kind::Float(_)) {
        return Ok(one == other);
    }
    // float64 has every value of every float.
    let caster = ValueCaster::new(dtype, DType::F64, lanecast::Rounding::NearestEven, None, &[])?;
    let value = |bytes| Ok::<f64, ZarrError>(f64::from_bits(read(&cast(&caster, bytes)?)));
    let (one, other) = (value(one)?, value(other)?);
    Ok(one == other || one.is_nan() && other.is_nan())
}

/// Sign-extends signed integers of fewer than 8 bits to their byte, as zarrs has them; lanecast leaves the upper bits 0.
fn sign_extend(dtype: DType, bytes: &mut [u8]) {
    if let Kind::Int(format) = dtype.kind()
        && format.is_signed()
        && format.bits() < 8
    {
        let unused = 8 - format.bits();
        bytes.iter_mut().for_each(|byte| *byte = ((*byte << unused) as i8 >> unused) as u8);
    }
}

/// Reads a code of 1, 2, 4 or 8 bytes in native byte order.
pub(crate) fn read(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}
