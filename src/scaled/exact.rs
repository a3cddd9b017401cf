//! Exact arithmetic on the values of elements and scales, and the IEEE operations that profiles are made of.
//!
//! No floating-point operation runs here, so that no rounding mode, FTZ or DAZ setting of the caller affects a result.
//! Operations are never inlined: profiles are made of dozens, and each copy would take up to a kilobyte.

use core::cmp::Ordering;

use crate::formats::dtype::DType;
use crate::formats::options::{Overflow, Policy, Rounding};
use crate::kernels::scalar::{self, Class, Value};

/// ±num / den * 2^exp, or a special value. The denominator has at most 72 bits, or 80 where scales and factors, of 24 bits, are
/// made from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    pub(super) class: Class,
    pub(super) negative: bool,
    /// Odd, if the value is finite and not zero.
    num: u128,
    den: u128,
    exp: i32,
}

impl Exact {
    pub(super) const ZERO: Self = Self { class: Class::Zero, negative: false, num: 0, den: 1, exp: 0 };
    pub(super) const NAN: Self = Self { class: Class::NaN, ..Self::ZERO };
    pub(super) const INF: Self = Self { class: Class::Inf, ..Self::ZERO };
    pub(super) const ONE: Self = Self { class: Class::Finite, num: 1, ..Self::ZERO };

    /// Returns the value of a code.
    pub(super) fn decode(dtype: DType, code: u64) -> Self {
        let value = scalar::decode(dtype, code);
        match value.class {
            Class::Finite => Self::finite(value.negative, value.significand.into(), 1, value.exponent - 63),
            class => Self { class, negative: value.negative, ..Self::ZERO },
        }
    }

    pub(super) fn int(value: i128) -> Self {
        Self::finite(value < 0, value.unsigned_abs(), 1, 0)
    }

    pub(super) fn power_of_two(exp: i32) -> Self {
        Self { exp, ..Self::ONE }
    }

    pub(super) fn f32(value: f32) -> Self {
        Self::decode(DType::F32, value.to_bits().into())
    }

    pub(super) fn f64(value: f64) -> Self {
        Self::decode(DType::F64, value.to_bits())
    }

    #[inline(never)]
    fn finite(negative: bool, num: u128, den: u128, exp: i32) -> Self {
        if num == 0 {
            return Self { negative, ..Self::ZERO };
        }
        let zeros = num.trailing_zeros();
        Self { class: Class::Finite, negative, num: num >> zeros, den, exp: exp + zeros as i32 }
    }

    pub(super) fn is_nan(self) -> bool {
        self.class == Class::NaN
    }

    pub(super) fn is_zero(self) -> bool {
        self.class == Class::Zero
    }

    pub(super) fn is_inf(self) -> bool {
        self.class == Class::Inf
    }

    pub(super) fn abs(self) -> Self {
        Self { negative: false, ..self }
    }

    pub(super) fn neg(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// Multiplies. A NaN times a number keeps its sign; a number times a NaN, and 0 * Inf, are +NaN.
    #[inline(never)]
    pub(super) fn mul(self, by: Self) -> Self {
        let negative = self.negative != by.negative;
        match (self.class, by.class) {
            (Class::NaN, _) => self,
            (_, Class::NaN) => Self::NAN,
            (Class::Inf, Class::Zero) | (Class::Zero, Class::Inf) => Self::NAN,
            (Class::Inf, _) | (_, Class::Inf) => Self { negative, ..Self::INF },
            (Class::Zero, _) | (_, Class::Zero) => Self { negative, ..Self::ZERO },
            (Class::Finite, Class::Finite) => {
                Self::finite(negative, self.num * by.num, self.den * by.den, self.exp + by.exp)
            }
        }
    }

    /// Divides. A NaN keeps its sign; a number over a NaN, 0/0 and Inf/Inf are +NaN; x/0 is ±Inf.
    #[inline(never)]
    pub(super) fn div(self, by: Self) -> Self {
        let negative = self.negative != by.negative;
        match (self.class, by.class) {
            (Class::NaN, _) => self,
            (_, Class::NaN) => Self::NAN,
            (Class::Inf, Class::Inf) | (Class::Zero, Class::Zero) => Self::NAN,
            (Class::Inf, _) | (_, Class::Zero) => Self { negative, ..Self::INF },
            (Class::Zero, _) | (_, Class::Inf) => Self { negative, ..Self::ZERO },
            (Class::Finite, Class::Finite) => {
                Self::finite(negative, self.num * by.den, self.den * by.num, self.exp - by.exp)
            }
        }
    }

    /// Adds two values without denominators, exactly to 120 bits. Bits below are joined into the last one (rounding to odd), so
    /// that a later rounding gives what it gives of the exact sum.
    #[inline(never)]
    pub(super) fn add(self, other: Self) -> Self {
        match (self.class, other.class) {
            (Class::NaN, _) => return self,
            (_, Class::NaN) => return other,
            (Class::Inf, Class::Inf) if self.negative != other.negative => return Self::NAN,
            (Class::Inf, _) => return self,
            (_, Class::Inf) => return other,
            (Class::Zero, Class::Zero) => {
                return Self { negative: self.negative && other.negative, ..Self::ZERO };
            }
            (Class::Zero, _) => return other,
            (_, Class::Zero) => return self,
            (Class::Finite, Class::Finite) => {}
        }
        debug_assert!(self.den == 1 && other.den == 1);
        let (large, small) =
            if self.cmp_magnitude(other) == Ordering::Less { (other, self) } else { (self, other) };
        // The top bit of the larger one is moved to 2^124, so that the sum fits.
        let shift = large.num.leading_zeros() as i32 - 3;
        let (num, exp) = (large.num << shift, large.exp - shift);
        let down = exp - small.exp;
        let aligned = if down <= 0 {
            small.num << -down
        } else if down < 128 {
            let kept = small.num >> down;
            kept | u128::from(kept << down != small.num)
        } else {
            1
        };
        if large.negative == small.negative {
            Self::finite(large.negative, num + aligned, 1, exp)
        } else if num == aligned {
            Self::ZERO
        } else {
            Self::finite(large.negative, num - aligned, 1, exp)
        }
    }

    /// Compares magnitudes: NaN is above Inf, and Inf above finite values, which must have the same denominator.
    pub(super) fn cmp_magnitude(self, other: Self) -> Ordering {
        debug_assert!(self.den == other.den || self.class != Class::Finite || other.class != Class::Finite);
        let rank = |x: Self| match x.class {
            Class::Zero => 0,
            Class::Finite => 1,
            Class::Inf => 2,
            Class::NaN => 3,
        };
        rank(self).cmp(&rank(other)).then_with(|| {
            if self.class != Class::Finite {
                return Ordering::Equal;
            }
            let top = |x: Self| x.exp - x.num.leading_zeros() as i32;
            let aligned = |x: Self| x.num << x.num.leading_zeros();
            top(self).cmp(&top(other)).then_with(|| aligned(self).cmp(&aligned(other)))
        })
    }

    /// Returns the value for an encoder, whose significand has 64 bits. Bits below are joined into the last one (rounding to odd), which is
    /// right for any target of up to 53 bits if the denominator has 72 bits. One of 80 bits leaves 48, which are enough for 24.
    pub(super) fn value(self) -> Value {
        if self.class != Class::Finite {
            return Value { class: self.class, negative: self.negative, exponent: 0, significand: 0 };
        }
        let shift = self.num.leading_zeros() as i32;
        let num = self.num << shift;
        let (quotient, rest) = if self.den == 1 { (num, 0) } else { (num / self.den, num % self.den) };
        let zeros = quotient.leading_zeros() as i32;
        let aligned = quotient << zeros;
        let below = rest != 0 || aligned as u64 != 0;
        Value {
            class: Class::Finite,
            negative: self.negative,
            exponent: self.exp - shift + 127 - zeros,
            significand: (aligned >> 64) as u64 | u64::from(below),
        }
    }

    /// Returns the code of this value in a dtype, rounded as the policy says.
    pub(super) fn encode(self, dtype: DType, policy: &Policy) -> u64 {
        scalar::encode(dtype, self.value(), policy)
    }

    /// Rounds to an integer. NaN gives 0, and values beyond i64 give its limits.
    pub(super) fn to_int(self, rounding: Rounding) -> i64 {
        let policy = Policy { rounding, overflow: Overflow::Saturate, ..Policy::DEFAULT };
        self.encode(DType::I64, &policy) as i64
    }

    /// Rounds to nearest even to a float of 16 bits or more, as an IEEE operation does with its exact result.
    #[inline(never)]
    pub(super) fn rounded(self, dtype: DType) -> Self {
        if self.class != Class::Finite {
            return self;
        }
        Self::decode(dtype, self.encode(dtype, &Policy::DEFAULT))
    }

    /// Returns floor(log2 |x|) of a finite value other than zero.
    pub(super) fn floor_log2(self) -> i32 {
        self.value().exponent
    }

    /// Returns ceil(log2 |x|) of a finite value other than zero.
    pub(super) fn ceil_log2(self) -> i32 {
        let value = self.value();
        value.exponent + i32::from(value.significand != 1 << 63)
    }

    /// Returns the exponent of |x| after rounding to this many mantissa bits, ties up.
    pub(super) fn even_log2(self, mantissa_bits: u32) -> i32 {
        let value = self.value();
        let (_, carries) = value.significand.overflowing_add(1 << (62 - mantissa_bits));
        value.exponent + i32::from(carries)
    }

    pub(super) fn to_f64(self) -> f64 {
        f64::from_bits(self.encode(DType::F64, &Policy::DEFAULT))
    }

    pub(super) fn to_f32(self) -> f32 {
        f32::from_bits(self.encode(DType::F32, &Policy::DEFAULT) as u32)
    }
}
