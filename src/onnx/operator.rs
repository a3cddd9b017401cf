//! The operators and their versions.

use core::fmt;

/// Which operator.
///
/// ```
/// use lanecast::onnx::Operator;
/// assert_eq!(Operator::CastLike.versions(), [15, 19, 21, 23, 24, 25]);
/// assert_eq!(Operator::Cast.version(20), Some(19));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operator {
    /// The target type is an attribute.
    Cast,
    /// The target type is that of the second input.
    CastLike,
    /// Data over a scale, plus a zero point.
    QuantizeLinear,
    /// The way back.
    DequantizeLinear,
}

impl Operator {
    /// The opsets that brought another version of the operator.
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
        }
    }

    /// The version of the operator in an opset: the last that is not later. Opsets later than the last
    /// version have that one.
    ///
    /// ```
    /// use lanecast::onnx::Operator;
    /// assert_eq!(Operator::CastLike.version(28), Some(25));
    /// assert_eq!(Operator::CastLike.version(14), None);
    /// ```
    pub fn version(self, opset: u32) -> Option<u32> {
        self.versions().iter().copied().rfind(|&version| version <= opset)
    }

    /// The first version with what `Cast` has since this version of it.
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
        })
    }
}
