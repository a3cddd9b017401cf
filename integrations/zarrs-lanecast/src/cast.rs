//! What zarrs and lanecast call by different names. Nothing here knows a trait of zarrs.

use lanecast::zarr::{ValueCaster, ZarrError};
use lanecast::{DType, Kind, Overflow};
use serde::Deserialize;

/// How what a data type does not have is rounded.
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

/// What becomes of what is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutOfRange {
    /// The nearest value, or infinity where there is one.
    Clamp,
    /// What is the same modulo 2 to the bits of an integer.
    Wrap,
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

/// The dtype of a data type's name, if the specification lets it be cast.
pub fn dtype(name: &str) -> Option<DType> {
    const NAMES: &str = "int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 \
        float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2 \
        float8_e5m2fnuz float8_e8m0fnu bfloat16 float16 float32 float64";
    NAMES.split(' ').any(|known| known == name).then(|| name.parse().ok()).flatten()
}

/// Bytes of an element: those of fewer than 8 bits have one each.
pub(crate) fn size(dtype: DType) -> usize {
    dtype.bits().div_ceil(8) as usize
}

/// Casts elements in native bytes.
pub(crate) fn cast(caster: &ValueCaster, src: &[u8]) -> Result<Vec<u8>, ZarrError> {
    let (from, to) = (size(caster.from()), size(caster.to()));
    let n = src.len() / from;
    let mut out = Vec::with_capacity(n * to);
    let room = &mut out.spare_capacity_mut()[..n * to];
    sign_extend(caster.to(), caster.cast_uninit(src, room, n)?);
    // SAFETY: the cast has initialised all of it.
    unsafe { out.set_len(n * to) };
    Ok(out)
}

/// Integers of fewer than 8 bits have their sign in all upper bits of their byte in zarrs, and zeros there in lanecast.
fn sign_extend(dtype: DType, bytes: &mut [u8]) {
    if let Kind::Int(format) = dtype.kind()
        && format.is_signed()
        && format.bits() < 8
    {
        let unused = 8 - format.bits();
        bytes.iter_mut().for_each(|byte| *byte = ((*byte << unused) as i8 >> unused) as u8);
    }
}

/// A native code of up to 8 bytes.
pub(crate) fn read(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}
