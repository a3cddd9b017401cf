//! The operators and their versions.

use core::fmt;

/// One of the operators.
///
/// ```
/// use lanecast::onnx::Operator;
/// assert_eq!(Operator::CastLike.versions(), [15, 19, 21, 23, 24, 25]);
/// assert_eq!(Operator::Cast.version(20), Some(19));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Operator {
    /// Casts to the type that an attribute gives.
    Cast,
    /// Casts to the type of the second input.
    CastLike,
    /// Quantises: data divided by a scale, plus a zero point.
    QuantizeLinear,
    /// Dequantises: the inverse of `QuantizeLinear`.
    DequantizeLinear,
    /// Quantises under a scale and a zero point that it finds from the data.
    DynamicQuantizeLinear,
}

impl Operator {
    /// The versions of the operator, each of which is the opset that introduced it.
    ///
    /// ```
    /// use lanecast::onnx::Operator;
    /// assert_eq!(Operator::Cast.versions(), [1, 6, 9, 13, 19, 21, 23, 24, 25, 28]);
    /// ```
    pub const fn versions(self) -> &'static [u32] {
        match self {
            Self::Cast => &[1, 6, 9, 13, 19, 21, 23, 24, 25, 28],
            Self::CastLike => &[15, 19, 21, 23, 24, 25],
            Self::QuantizeLinear | Self::DequantizeLinear => &[10, 13, 19, 21, 23, 24, 25, 28],
            Self::DynamicQuantizeLinear => &[11],
        }
    }

    /// The version of the operator in an opset: the last one that is not later than the opset. None if there is
    /// none yet.
    ///
    /// ```
    /// use lanecast::onnx::Operator;
    /// assert_eq!(Operator::CastLike.version(28), Some(25));
    /// assert_eq!(Operator::CastLike.version(14), None);
    /// ```
    pub fn version(self, opset: u32) -> Option<u32> {
        self.versions().iter().copied().rfind(|&version| version <= opset)
    }

    /// The first version of the operator with what `Cast` has from its version `cast` on.
    pub(super) fn since(self, cast: u32) -> Option<u32> {
        self.versions().iter().copied().find(|&version| version >= cast)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cast => "Cast",
            Self::CastLike => "CastLike",
            Self::QuantizeLinear => "QuantizeLinear",
            Self::DequantizeLinear => "DequantizeLinear",
            Self::DynamicQuantizeLinear => "DynamicQuantizeLinear",
        })
    }
}
