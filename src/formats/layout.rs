//! How elements lie in bytes: the packing of narrow dtypes, and the byte order of wide ones.

use super::name::named;

/// How elements of fewer than 8 bits lie in bytes. It has no effect on dtypes of 8 bits or more.
///
/// Padding bits are ignored on input and zero on output.
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
    /// has the bits `i*w .. (i+1)*w`. The layout of ONNX, PyTorch and the OCP formats.
    LowFirst = 0,
    /// One element in the low bits of each byte. The layout of ml_dtypes.
    OnePerByte = 1,
    /// One bit stream, from the high bits of each byte down: the first of two 4-bit elements is in the
    /// high nibble.
    HighFirst = 2,
}

/// The order of the bytes of an element (of each part, for complex dtypes).
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
    /// The byte order of the machine.
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
    /// Whether the bytes of an element must be reversed on this machine.
    #[inline]
    pub(crate) const fn is_swapped(self) -> bool {
        match self {
            Self::Native => false,
            Self::Little => cfg!(target_endian = "big"),
            Self::Big => cfg!(target_endian = "little"),
        }
    }
}

/// The bytes of `n` elements of `bits` bits each, for elements that are in memory: overflow is not checked. Narrow elements are
/// packed, so that 8 of them take exactly `bits` bytes.
#[inline(always)]
pub(crate) const fn bytes(n: usize, bits: usize) -> usize {
    n / 8 * bits + (n % 8 * bits).div_ceil(8)
}

/// As [`bytes`], for any `n`; None if that overflows.
#[inline(always)]
pub(crate) const fn checked_bytes(n: usize, bits: usize) -> Option<usize> {
    if bits >= 8 { n.checked_mul(bits / 8) } else { Some(bytes(n, bits)) }
}
