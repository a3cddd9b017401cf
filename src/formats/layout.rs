//! How elements lie in bytes: packing of the narrow dtypes, byte order of the wide ones.

use super::name::named;

/// How elements of fewer than 8 bits lie in bytes. Dtypes of 8 bits and more have only one packing.
///
/// Pad bits are ignored on input and zero on output.
///
/// ```
/// use lanecast::{CastOptions, DType, Packing, cast_bytes_with};
///
/// let codes = [0x1, 0x2, 0x3];
/// for (packing, bytes) in [
///     (Packing::LowFirst, &[0x21, 0x03][..]),
///     (Packing::OnePerByte, &[0x01, 0x02, 0x03]),
///     (Packing::HighFirst, &[0x12, 0x30]),
/// ] {
///     let mut out = vec![0xFF; DType::U4.byte_len(3, packing).unwrap()];
///     cast_bytes_with(&codes, DType::U8, &mut out, DType::U4, 3, &CastOptions::new().dst_packing(packing))?;
///     assert_eq!(out, bytes);
/// }
/// # Ok::<(), lanecast::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[repr(u8)]
pub enum Packing {
    /// One bit stream over the buffer, from the low bits of each byte up: element `i` of width `w`
    /// is the bits `i*w .. (i+1)*w`. The layout of ONNX, PyTorch and the OCP formats.
    LowFirst = 0,
    /// One element in the low bits of each byte. The layout of ml_dtypes.
    OnePerByte = 1,
    /// One bit stream, from the high bits of each byte down: of two 4-bit elements the first is the
    /// high nibble.
    HighFirst = 2,
}

/// The order of the bytes of an element (of a part of it, for the complex dtypes).
///
/// ```
/// use lanecast::{ByteOrder, CastOptions, DType, cast_bytes_with};
///
/// let mut out = [0u8; 4];
/// let to_big = CastOptions::new().dst_order(ByteOrder::Big);
/// cast_bytes_with(&1f64.to_ne_bytes(), DType::F64, &mut out, DType::F32, 1, &to_big)?;
/// assert_eq!(out, 1f32.to_be_bytes());
/// # Ok::<(), lanecast::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[repr(u8)]
pub enum ByteOrder {
    /// That of the machine.
    Native = 0,
    /// The low byte first.
    Little = 1,
    /// The high byte first.
    Big = 2,
}

named! {
    "packing": Packing { LowFirst = "low_first", OnePerByte = "one_per_byte", HighFirst = "high_first" }
    "byte order": ByteOrder { Native = "native", Little = "little", Big = "big" }
}

impl ByteOrder {
    /// Must the bytes of an element be reversed on this machine?
    #[inline]
    pub(crate) const fn is_swapped(self) -> bool {
        match self {
            Self::Native => false,
            Self::Little => cfg!(target_endian = "big"),
            Self::Big => cfg!(target_endian = "little"),
        }
    }
}

/// The bytes of `n` elements of so many bits, if they are in memory: without a look at an overflow. Narrow ones lie close
/// together, so that 8 of them are exactly `bits` bytes.
#[inline(always)]
pub(crate) const fn bytes(n: usize, bits: usize) -> usize {
    n / 8 * bits + (n % 8 * bits).div_ceil(8)
}

/// The same of any `n`; None if that overflows.
#[inline(always)]
pub(crate) const fn checked_bytes(n: usize, bits: usize) -> Option<usize> {
    if bits >= 8 { n.checked_mul(bits / 8) } else { Some(bytes(n, bits)) }
}
