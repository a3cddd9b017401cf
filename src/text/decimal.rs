//! Exact comparisons of decimal numbers, as they are written, with binary ones.
//!
//! The standard library parses decimals, but does not say on which side of a binary number one lies.

use core::cmp::Ordering;
use core::fmt::{self, Write};

/// Of the digits beyond this many it only matters whether any is not 0: no midpoint of two neighbouring numbers of any dtype has
/// more than 767 significant digits.
const MOST_DIGITS: usize = 800;

/// `whole.fraction * 10^exponent`, without a sign. `fraction` does not end with a zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Splits a text that `f64::from_str` accepts, and that is neither Inf nor NaN.
    pub(super) fn of(text: &'a str) -> Self {
        let text = text.as_bytes();
        let text = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
        let (mantissa, exponent) = match text.iter().position(|b| matches!(b, b'e' | b'E')) {
            Some(e) => (&text[..e], exponent(&text[e + 1..])),
            None => (text, 0),
        };
        let point = mantissa.iter().position(|&b| b == b'.').unwrap_or(mantissa.len());
        let mut fraction = mantissa.get(point + 1..).unwrap_or_default();
        while let [rest @ .., b'0'] = fraction {
            fraction = rest;
        }
        let mut whole = &mantissa[..point];
        while let [b'0', rest @ ..] = whole {
            whole = rest;
        }
        Self { whole, fraction, exponent }
    }

    /// The significant digits, from the first that is not zero on.
    fn digits(self) -> impl Iterator<Item = u64> + Clone {
        let all = self.whole.iter().chain(self.fraction);
        all.map(|&b| u64::from(b - b'0')).skip_while(|&digit| digit == 0)
    }

    pub(super) fn is_zero(self) -> bool {
        self.digits().next().is_none()
    }

    /// The position of the point: the number is 0.d₁d₂… * 10^point, where d₁ is not zero.
    fn point(self) -> i64 {
        let zeros = match self.whole {
            [] => self.fraction.iter().take_while(|&&b| b == b'0').count(),
            _ => 0,
        };
        // A slice is no longer than i64::MAX.
        self.exponent.saturating_add(self.whole.len() as i64 - zeros as i64)
    }

    /// The number as text, or if it has more than [`MOST_DIGITS`] digits, that of another number that rounds alike.
    pub(super) fn shortened(self) -> Short<{ MOST_DIGITS + 16 }> {
        let mut digits = self.digits().map(|digit| b'0' + digit as u8);
        let mut text = Short::new(format_args!("0."));
        digits.by_ref().take(MOST_DIGITS).for_each(|digit| text.push(digit));
        if digits.any(|digit| digit != b'0') {
            text.push(b'1');
        }
        // Numbers with exponents beyond these are 0 or Inf in every dtype.
        _ = write!(text, "e{}", self.point().clamp(-9999, 9999));
        text
    }

    /// The number truncated to an integer, and the fraction in units of 2^-64. The fraction is exact if it is 0 or a half; any other is
    /// only on the right side of a half. None if the number has more than 20 digits before the point, which no integer dtype holds.
    pub(super) fn split(self) -> Option<(u128, u64)> {
        const HALF: u64 = 1 << 63;
        if self.is_zero() {
            return Some((0, 0));
        }
        let point = self.point();
        if point > 20 {
            return None;
        }
        let mut digits = self.digits();
        let whole = (0..point).fold(0, |n, _| 10 * n + u128::from(digits.next().unwrap_or(0)));
        let first = if point < 0 { 0 } else { digits.next().unwrap_or(0) };
        let more = digits.any(|digit| digit != 0);
        let fraction = match first {
            0..5 => u64::from(first != 0 || more),
            5 => HALF + u64::from(more),
            _ => HALF + 1,
        };
        Some((whole, fraction))
    }

    /// Compares exactly with `m * 2^q`. `m` is not zero, and the product is a number that an f64 holds, or the
    /// midpoint of two.
    pub(super) fn compare(self, m: u64, q: i32) -> Ordering {
        if self.is_zero() {
            return Ordering::Less;
        }
        // The arithmetic below takes time and memory that grow with the exponent, so numbers that are not near any f64 are decided first.
        match self.point() {
            400.. => return Ordering::Greater,
            ..-400 => return Ordering::Less,
            _ => {}
        }
        let mut digits = self.digits();
        let head = digits.clone().take(19).fold(0, |n, digit| 10 * n + digit);
        let count = digits.clone().count();
        if count <= 19 {
            // The point is within 400 digits, so the exponent is small.
            let scale = (self.exponent - self.fraction.len() as i64) as i32;
            if let Some(ordering) = compare_small(head, scale, m, q) {
                return ordering;
            }
        }
        let kept = count.min(MOST_DIGITS);
        let mut decimal = Big::ZERO;
        for _ in 0..kept {
            decimal.mul_add(10, digits.next().unwrap_or(0));
        }
        let mut scale = self.point() as i32 - kept as i32;
        if digits.any(|digit| digit != 0) {
            decimal.mul_add(10, 1);
            scale -= 1;
        }
        let mut binary = Big::ZERO;
        binary.mul_add(1, m);
        let tens = if scale < 0 { &mut binary } else { &mut decimal };
        (0..scale.unsigned_abs()).for_each(|_| tens.mul_add(5, 0));
        // 10^scale is 5^scale * 2^scale.
        let twos = q - scale;
        (if twos < 0 { &mut decimal } else { &mut binary }).shift_left(twos.unsigned_abs());
        decimal.compare(&binary)
    }
}

/// An ASCII text of at most `N` characters, which is not allocated. Further characters are dropped.
pub(super) struct Short<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Short<N> {
    pub(super) fn new(text: fmt::Arguments<'_>) -> Self {
        let mut short = Self { bytes: [0; N], len: 0 };
        _ = short.write_fmt(text);
        short
    }

    fn push(&mut self, byte: u8) {
        if let Some(next) = self.bytes.get_mut(self.len) {
            *next = byte;
            self.len += 1;
        }
    }

    pub(super) fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl<const N: usize> Write for Short<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}

/// Parses an exponent, and saturates one that does not fit.
fn exponent(text: &[u8]) -> i64 {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let magnitude = digits.iter().fold(0i64, |n, b| n.saturating_mul(10).saturating_add((b - b'0').into()));
    if negative { -magnitude } else { magnitude }
}

/// Compares `n * 10^scale` with `m * 2^q`; None if 128 bits are not enough for both, which they are for most texts.
fn compare_small(n: u64, scale: i32, m: u64, q: i32) -> Option<Ordering> {
    let zeros = m.trailing_zeros();
    let (mut decimal, mut binary) = (u128::from(n), u128::from(m >> zeros));
    let q = q + zeros as i32;
    let fives = 5u128.checked_pow(scale.unsigned_abs())?;
    let tens = if scale < 0 { &mut binary } else { &mut decimal };
    *tens = tens.checked_mul(fives)?;
    let twos = q - scale;
    let shifted = if twos < 0 { &mut decimal } else { &mut binary };
    if twos.unsigned_abs() > shifted.leading_zeros() {
        return None;
    }
    *shifted <<= twos.unsigned_abs();
    Some(decimal.cmp(&binary))
}

/// More than the limbs of the largest number that [`Decimal::compare`] makes, which is below 2^5100. A decimal has at most 801 digits, and its
/// first one is at most 400 places from the point, so the scale is at least -1201. That many factors of 5 times 64 bits of `m` are below
/// 2^2853, and the factors of 2 are at most 1201, and 1024 for `q`.
const LIMBS: usize = 96;

/// A natural number, as limbs from the lowest up, the highest of which is not 0.
#[derive(Debug)]
struct Big {
    limbs: [u64; LIMBS],
    len: usize,
}

impl Big {
    const ZERO: Self = Self { limbs: [0; LIMBS], len: 0 };

    fn limbs(&self) -> &[u64] {
        &self.limbs[..self.len]
    }

    fn mul_add(&mut self, factor: u64, term: u64) {
        let mut carry = u128::from(term);
        for limb in &mut self.limbs[..self.len] {
            carry += u128::from(*limb) * u128::from(factor);
            *limb = carry as u64;
            carry >>= 64;
        }
        if carry != 0
            && let Some(next) = self.limbs.get_mut(self.len)
        {
            *next = carry as u64;
            self.len += 1;
        }
    }

    fn shift_left(&mut self, bits: u32) {
        self.mul_add(1 << (bits % 64), 0);
        let (whole, len) = (bits as usize / 64, self.len);
        if len != 0 && len + whole <= LIMBS {
            self.limbs.copy_within(..len, whole);
            self.limbs[..whole].fill(0);
            self.len += whole;
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let by_limbs = || self.limbs().iter().rev().cmp(other.limbs().iter().rev());
        self.len.cmp(&other.len).then_with(by_limbs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_on_their_side_of_a_binary_number() {
        use Ordering::{Equal, Greater, Less};
        let nines = format!("0.{}", "9".repeat(1000));
        let one_and = format!("1.{}1", "0".repeat(1000));
        let small = format!("0.{}1e1000000", "0".repeat(999_999));
        for (text, m, q, expected) in [
            ("1", 1, 0, Equal),
            ("+1.", 4, -2, Equal),
            (".5", 1, -1, Equal),
            ("0.1", 0x0019_9999_9999_999A, -56, Less),
            ("0.1", 0x0019_9999_9999_9999, -56, Greater),
            ("1000000000000000000000000", 1, 80, Less),
            ("1208925819614629174706176", 1, 80, Equal),
            ("1208925819614629174706176.000", 1, 80, Equal),
            ("1208925819614629174706177e0", 1, 80, Greater),
            ("12089258196146291747061.76E+2", 1, 80, Equal),
            (&nines, 1, 0, Less),
            (&one_and, 1, 0, Greater),
            (&small, 1, 0, Equal),
            ("4e-324", 1, -1074, Less),
            ("5e-324", 1, -1074, Greater),
            ("1e99999999999999999999", u64::MAX >> 11, 971, Greater),
            ("1e-99999999999999999999", 1, -1074, Less),
            ("0e99999999999999999999", 1, 0, Less),
        ] {
            assert_eq!(Decimal::of(text).compare(m, q), expected, "{text:.60}");
        }
    }

    #[test]
    fn decimals_are_cut_to_integers() {
        const HALF: u64 = 1 << 63;
        for (text, expected) in [
            ("0", Some((0, 0))),
            ("-0.0e5", Some((0, 0))),
            ("100.5", Some((100, HALF))),
            ("100.50001", Some((100, HALF + 1))),
            ("1e3", Some((1000, 0))),
            ("0.000123e4", Some((1, 1))),
            ("0.06", Some((0, 1))),
            ("0.6", Some((0, HALF + 1))),
            ("5e-1", Some((0, HALF))),
            ("5e-2", Some((0, 1))),
            ("99999999999999999999.5", Some((99_999_999_999_999_999_999, HALF))),
            ("100000000000000000000", None),
            ("1e99999999999999999999", None),
        ] {
            assert_eq!(Decimal::of(text).split(), expected, "{text}");
        }
    }
}
