//! Which codes are in the range of a target: in closed form, for scans, and as found by the reference, for judging.

use crate::formats::dtype::{DType, FloatFormat, Kind};
use crate::formats::loss::Loss;
use crate::formats::options::{Policy, Rounding};
use crate::kernels::check::{Fit, Scan};
use crate::kernels::limits::Limits;
use crate::kernels::scalar;

/// Returns a dtype with codes of 16, 32 or 64 bits that holds every element of `dtype`, which must not be complex.
pub(super) fn home(dtype: DType) -> DType {
    match dtype.kind() {
        Kind::Bool => DType::U16,
        Kind::Int(format) if format.bits <= 8 && format.signed => DType::I16,
        Kind::Int(format) if format.bits <= 8 => DType::U16,
        Kind::Int(_) => dtype,
        Kind::Float(format) if format.bits() == 64 => dtype,
        Kind::Float(_) | Kind::Complex(_) => DType::F32,
    }
}

/// Whether the dtype has negative numbers. Bool counts as if it had, because nothing negative is lost to it.
pub(super) fn compares_signed(dtype: DType) -> bool {
    match dtype.kind() {
        Kind::Bool => true,
        Kind::Int(format) => format.signed,
        Kind::Float(format) | Kind::Complex(format) => format.has_sign,
    }
}

/// Whether no part loses anything. The options matter only to Inf.
pub(super) fn keeps(from: DType, to: DType, policy: &Policy) -> bool {
    let keeps_inf = from.float_format().is_none_or(|format| {
        !format.has_inf
            || scalar::loss(to, scalar::decode(from, format.max_code() + 1), policy, None).is_none()
    });
    from.is_lossless_to(to) && keeps_inf
}

/// Returns what a scan compares codes of `home` with: a part of the range of `to`, within which it can tell what is exact. It
/// is in closed form, because small casts have no time to search for the [`Limits`].
pub(super) fn fit(home: DType, to: DType, policy: &Policy) -> Fit {
    let Some(format) = home.float_format() else { return fit_of_integers(home, to) };
    let power = |exponent: i32| ((exponent + format.bias) as u64) << format.mantissa_bits;
    let fit = Fit { scan: Scan::Floats, low: 1, limit: power(0), least: 0, cut: 0, inside: 0 };
    // The largest value in the range, whatever else may be rounded to it. Its negative is in the range, too.
    let largest = |to: FloatFormat| match home {
        DType::F64 => to.max().to_bits(),
        _ if to.max() > f32::MAX.into() => format.max_code(),
        _ => u64::from((to.max() as f32).to_bits()),
    };
    match to.kind() {
        // Only 0 and 1 fit.
        Kind::Bool => Fit { scan: Scan::Positive, least: power(0) - 1, ..fit },
        Kind::Int(to) => {
            // The limit is below 2^digits by one step of `home`, by 0.5 and one step, or by 1, as the rounding has it; and by one
            // step where steps are 1 or more.
            let (digits, mantissa) = (to.bits - u32::from(to.signed), 1 << format.mantissa_bits);
            // int1 ends at 0, which is even: 0.5 is a tie that becomes 0, and 1 less than 2^0 is 0 itself.
            if digits == 0 {
                let limit = match policy.rounding {
                    Rounding::TowardZero | Rounding::Down => power(0) - 1,
                    Rounding::NearestEven => power(-1),
                    Rounding::NearestAway => power(-1) - 1,
                    Rounding::Up => 0,
                };
                return Fit { scan: Scan::Whole, limit, ..fit };
            }
            let below = match policy.rounding {
                Rounding::TowardZero | Rounding::Down => 1,
                Rounding::NearestEven | Rounding::NearestAway => (mantissa >> digits.min(63)) + 1,
                Rounding::Up => ((2 * mantissa) >> digits.min(63)).max(1),
            };
            // The range extends at least as far down as up, or has no negative numbers.
            let scan = if to.signed { Scan::Whole } else { Scan::Natural };
            Fit { scan, limit: power(digits as i32) - below, ..fit }
        }
        // From the smallest normal number of `home` on, powers of two have a mantissa of zeros.
        Kind::Float(to) if !to.has_zero() => Fit {
            scan: Scan::Positive,
            low: 0,
            limit: largest(to),
            least: power(to.min_exponent().max(format.min_exponent())),
            cut: (1 << format.mantissa_bits) - 1,
            inside: power(0),
        },
        Kind::Float(to) | Kind::Complex(to) => {
            // Below its smallest normal number, the target has coarser steps, unless `home` has them as well.
            let grows = to.min_exponent() > format.min_exponent();
            let least = if grows { power(to.min_exponent()) - 1 } else { 0 };
            let cut = format.mantissa_bits.saturating_sub(to.mantissa_bits);
            let scan = if to.has_sign { Scan::Floats } else { Scan::Positive };
            Fit { scan, limit: largest(to), least, cut: (1 << cut) - 1, ..fit }
        }
    }
}

/// As [`fit`], but between integers: a range of 2^k values, all of which are exact.
fn fit_of_integers(home: DType, to: DType) -> Fit {
    let (bits, signed) = (home.bits(), compares_signed(home));
    let most = (1i128 << (bits - u32::from(signed))) - 1;
    // How many bits are always exact, and the least and the greatest value of the range.
    let (exact, low, high) = match to.kind() {
        Kind::Bool => (1, 0, 1),
        Kind::Int(to) => (64, to.min(), to.max()),
        Kind::Float(to) | Kind::Complex(to) => {
            // Rounded toward zero. A maximum beyond i128 is larger than all integers.
            let high = to.max() as i128;
            (to.mantissa_bits + 1, if to.has_sign { -high } else { 0 }, high)
        }
    };
    // The largest power of two such that all values from 0 to below it fit.
    let reach = 1i128 << exact.min((high.min(most) + 1).ilog2());
    let (low, count) = match to.kind() {
        Kind::Float(to) if !to.has_zero() => (1, 1),
        _ if signed && low <= -reach => (-reach, 2 * reach),
        _ => (0, reach),
    };
    let all = u64::MAX >> (64 - bits);
    let limit = all & !((count - 1) as u64);
    Fit { scan: Scan::Integers, low: low as u64, limit, least: 0, cut: 0, inside: 0 }
}

/// Finds the limits of the classes for codes of `home`, by asking the reference (`loss`) about single codes. Also returns
/// whether Inf and NaN are lost.
pub(super) fn limits(home: DType, to: DType, loss: impl Fn(u64) -> Option<Loss>) -> (Limits, [bool; 2]) {
    let mut limits = Limits::new(home);
    if to == DType::Bool {
        return (limits, [false; 2]);
    }
    let all = u64::MAX >> (64 - home.bits());
    let one = |code: u64| if to.float_format().is_some_and(|to| !to.has_zero()) { code } else { 0 };
    let mut loses = [false; 2];
    // A key in the range of every target: that of 0 or of 1.
    let inside = match home.kind() {
        Kind::Float(format) | Kind::Complex(format) => {
            let inf = format.max_code() + 1;
            (limits.finite, limits.inf) = (inf as i64 - 1, inf as i64);
            loses = [inf, inf + 1].map(|code| loss(code).is_some());
            limits.kept = match loses {
                [_, true] => limits.kept,
                [true, false] => limits.inf,
                [false, false] => limits.finite,
            };
            one((format.bias as u64) << format.mantissa_bits) as i64
        }
        Kind::Int(format) if format.signed => one(1) as i64,
        _ => limits.low + one(1) as i64,
    };
    let ends = |end: i64, out: Loss| last(inside, end, |key| loss(limits.code(key) & all) != Some(out));
    (limits.high, limits.low) = (ends(limits.finite, Loss::Above), ends(-1 - limits.finite, Loss::Below));
    if !compares_signed(to) {
        limits.negative = limits.key_of_zero();
    }
    (limits, loses)
}

impl Limits {
    /// Returns limits that include every code of a dtype.
    pub(super) fn new(home: DType) -> Self {
        let sign = 1u64 << (home.bits() - 1);
        let (is_float, top) = (!matches!(home.kind(), Kind::Int(_)), (sign - 1) as i64);
        let all = u64::MAX >> (64 - home.bits());
        Self {
            is_float,
            flip: if is_float || compares_signed(home) { 0 } else { sign },
            nonzero: if is_float { sign - 1 } else { all },
            high: top,
            low: -1 - top,
            kept: top,
            finite: top,
            inf: top,
            negative: -1 - top,
        }
    }

    /// Returns the code of a key. The upper bits of the code do not matter.
    fn code(&self, key: i64) -> u64 {
        let reversed = if key < 0 { self.reverse() } else { 0 };
        key as u64 ^ reversed ^ self.flip
    }

    /// Returns the least key above those of all negative values.
    fn key_of_zero(&self) -> i64 {
        match (self.is_float, self.flip) {
            // −0 comes right before 0.
            (true, _) => -1,
            (_, 0) => 0,
            _ => self.negative,
        }
    }
}

/// Finds the last good key from `inside` to `end` by binary search. Beyond it no key is good.
fn last(inside: i64, end: i64, is_good: impl Fn(i64) -> bool) -> i64 {
    if is_good(end) {
        return end;
    }
    let (mut good, mut bad) = (i128::from(inside), i128::from(end));
    while good.abs_diff(bad) > 1 {
        let middle = (good + bad) / 2;
        // It fits, because it is between two i64s.
        *(if is_good(middle as i64) { &mut good } else { &mut bad }) = middle;
    }
    good as i64
}
