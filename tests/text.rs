//! Texts, parsed and formatted, against exact rational arithmetic.
//!
//! `LANECAST_TEXT=all` runs 10^7 random decimals and 2^24 random floats instead of a share of them (minutes).

#![cfg(feature = "text")]

use std::fmt::Debug;
use std::ops::Range;

use lanecast::text::{self, Error, Notation, Reason};
use lanecast::{bits::*, *};
use num_bigint::BigUint;

/// A float format, defined independently of the crate's.
struct Format {
    dtype: DType,
    mantissa: u32,
    bias: i32,
    max: u64,
    /// The code, without sign, of a number that is too large.
    overflow: u64,
    sign: u64,
    has_neg_zero: bool,
}

#[rustfmt::skip]
const FORMATS: [Format; 14] = {
    const fn f(dtype: DType, mantissa: u32, bias: i32, max: u64, overflow: u64, sign: u64, neg_zero: bool) -> Format {
        Format { dtype, mantissa, bias, max, overflow, sign, has_neg_zero: neg_zero }
    }
    use DType::*;
    [
        f(F4E2M1,         1,    1, 0x7,    0x7,    0x8,    true),
        f(F6E2M3,         3,    1, 0x1F,   0x1F,   0x20,   true),
        f(F6E3M2,         2,    3, 0x1F,   0x1F,   0x20,   true),
        f(F8E3M4,         4,    3, 0x6F,   0x6F,   0x80,   true),
        f(F8E4M3,         3,    7, 0x77,   0x77,   0x80,   true),
        f(F8E4M3FN,       3,    7, 0x7E,   0x7E,   0x80,   true),
        f(F8E4M3FNUZ,     3,    8, 0x7F,   0x7F,   0x80,   false),
        f(F8E4M3B11FNUZ,  3,   11, 0x7F,   0x7F,   0x80,   false),
        f(F8E5M2,         2,   15, 0x7B,   0x7B,   0x80,   true),
        f(F8E5M2FNUZ,     2,   16, 0x7F,   0x7F,   0x80,   false),
        f(F16,           10,   15, 0x7BFF, 0x7C00, 0x8000, true),
        f(BF16,           7,  127, 0x7F7F, 0x7F80, 0x8000, true),
        f(F32,           23,  127, 0x7F7F_FFFF, 0x7F80_0000, 0x8000_0000, true),
        f(F64,           52, 1023, 0x7FEF_FFFF_FFFF_FFFF, 0x7FF0_0000_0000_0000, 1 << 63, true),
    ]
};

impl Format {
    fn of(dtype: DType) -> &'static Self {
        FORMATS.iter().find(|f| f.dtype == dtype).expect("a signed float")
    }

    /// Returns the value of a magnitude `m * 2^q`, as `(m, q)`.
    fn value(&self, code: u64) -> (u64, i32) {
        let (e, m) = (code >> self.mantissa, code & ((1 << self.mantissa) - 1));
        let hidden = u64::from(e > 0) << self.mantissa;
        (m | hidden, e.max(1) as i32 - self.bias - self.mantissa as i32)
    }
}

/// A non-negative rational number.
#[derive(Clone, Debug)]
struct Rational {
    numerator: BigUint,
    denominator: BigUint,
}

impl Rational {
    /// Returns `digits * 10^exponent`.
    fn decimal(digits: BigUint, exponent: i64) -> Self {
        let power = BigUint::from(10u32).pow(exponent.unsigned_abs().try_into().unwrap());
        match exponent < 0 {
            true => Self { numerator: digits, denominator: power },
            false => Self { numerator: digits * power, denominator: 1u32.into() },
        }
    }

    /// Returns the sign (whether negative) and the magnitude of a number in the grammar of the module.
    fn parse(text: &str) -> (bool, Self) {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i64 = exponent.parse().unwrap();
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i64);
        (text.starts_with('-'), Self::decimal(digits.parse().unwrap(), exponent - fraction))
    }

    fn is_zero(&self) -> bool {
        self.numerator == BigUint::ZERO
    }

    /// Divides the number by 2^exponent: returns the integer part, and how the remainder compares with a half, or
    /// `None` if there is none.
    fn divide(&self, exponent: i32) -> (BigUint, Option<std::cmp::Ordering>) {
        let shift = exponent.unsigned_abs();
        let (n, d) = match exponent < 0 {
            true => (&self.numerator << shift, self.denominator.clone()),
            false => (self.numerator.clone(), &self.denominator << shift),
        };
        let whole = &n / &d;
        let rest = n - &whole * &d;
        (whole, (rest != BigUint::ZERO).then(|| (rest * 2u32).cmp(&d)))
    }

    fn floor_log2(&self) -> i32 {
        let estimate = self.numerator.bits() as i32 - self.denominator.bits() as i32;
        if self.divide(estimate).0 == BigUint::ZERO { estimate - 1 } else { estimate }
    }
}

fn rounds_up(rounding: Rounding, negative: bool, odd: bool, rest: Option<std::cmp::Ordering>) -> bool {
    let Some(half) = rest else { return false };
    match rounding {
        Rounding::NearestEven => half.is_gt() || half.is_eq() && odd,
        Rounding::NearestAway => half.is_ge(),
        Rounding::TowardZero => false,
        Rounding::Up => !negative,
        Rounding::Down => negative,
    }
}

/// Returns the code of a number, rounded by exact division.
fn exact(format: &Format, negative: bool, x: &Rational, rounding: Rounding) -> u64 {
    let magnitude = if x.is_zero() {
        0
    } else {
        let exponent = x.floor_log2().max(1 - format.bias);
        let (whole, rest) = x.divide(exponent - format.mantissa as i32);
        let whole = u64::try_from(whole).unwrap();
        let up = rounds_up(rounding, negative, whole % 2 == 1, rest);
        let binades = u128::try_from(exponent - 1 + format.bias).unwrap() << format.mantissa;
        let code = binades + u128::from(whole) + u128::from(up);
        // Too large, unless the direction is toward zero.
        let inward = matches!(
            (rounding, negative),
            (Rounding::TowardZero, _) | (Rounding::Up, true) | (Rounding::Down, false)
        );
        match u64::try_from(code) {
            Ok(code) if code <= format.max => code,
            _ if inward => format.max,
            _ => format.overflow,
        }
    };
    let sign = if negative { format.sign } else { 0 };
    if magnitude == 0 && !format.has_neg_zero { 0 } else { magnitude | sign }
}

/// Returns the codes of texts, all of which must be numbers.
fn parsed(to: DType, texts: &[String], options: &CastOptions) -> Vec<u64> {
    let (offsets, bytes) = joined(texts);
    let width = to.bits().div_ceil(8) as usize;
    let mut out = vec![0; width * texts.len()];
    let options = options.dst_order(ByteOrder::Little).dst_packing(Packing::OnePerByte);
    text::parse_bytes_with(&offsets, &bytes, &mut out, to, &options).unwrap();
    out.chunks_exact(width).map(|b| b.iter().rev().fold(0, |code, &b| code << 8 | u64::from(b))).collect()
}

fn joined<S: AsRef<str>>(texts: &[S]) -> (Vec<i64>, Vec<u8>) {
    let (mut offsets, mut bytes) = (vec![0], Vec::new());
    for text in texts {
        bytes.extend_from_slice(text.as_ref().as_bytes());
        offsets.push(bytes.len() as i64);
    }
    (offsets, bytes)
}

/// Asserts that every text becomes what exact arithmetic gives, in these roundings.
fn check(to: DType, texts: &[String], roundings: &[Rounding]) {
    let format = Format::of(to);
    let numbers: Vec<(bool, Rational)> = texts.iter().map(|text| Rational::parse(text)).collect();
    for &rounding in roundings {
        let got = parsed(to, texts, &CastOptions::new().rounding(rounding));
        for ((text, (negative, x)), got) in texts.iter().zip(&numbers).zip(got) {
            let expected = exact(format, *negative, x, rounding);
            assert!(got == expected, "{text} -> {to} {rounding:?}: {got:#x}, not {expected:#x}");
        }
    }
}

/// SplitMix64
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn of(&mut self, range: Range<i64>) -> i64 {
        range.start + self.below((range.end - range.start) as u64) as i64
    }
}

fn is_full() -> bool {
    match std::env::var("LANECAST_TEXT").as_deref() {
        Err(_) | Ok("") => false,
        Ok("all") => true,
        Ok(other) => panic!("LANECAST_TEXT is {other:?}; it can be \"all\""),
    }
}

/// Returns a random decimal of some number of digits, mostly in the range of the format.
fn random_decimal(format: &Format, random: &mut Random) -> String {
    let digits = match random.below(16) {
        0 => 1 + random.below(60),
        1..4 => 17 + random.below(4),
        _ => 1 + random.below(17),
    };
    let digits: String = (0..digits).map(|_| char::from(b'0' + random.below(10) as u8)).collect();
    let (least, most) = (1 - format.bias - format.mantissa as i32 - 2, format.bias + 2);
    let place = random.of((least.into())..(most.into())) as f64 * std::f64::consts::LOG10_2;
    let exponent = place as i64 - digits.len() as i64 + 1;
    let sign = ["", "-", "+"][random.below(3) as usize];
    match random.below(4) {
        // With a point inside or in front, or without an exponent if that is short.
        0 => {
            let point = random.below(digits.len() as u64 + 1) as usize;
            let (whole, fraction) = digits.split_at(point);
            format!("{sign}{whole}.{fraction}e{}", exponent + fraction.len() as i64)
        }
        1 if (-40..=0).contains(&exponent) => {
            let padded = format!("{digits:0>width$}", width = exponent.unsigned_abs() as usize + 1);
            let (whole, fraction) = padded.split_at(padded.len() - exponent.unsigned_abs() as usize);
            format!("{sign}{whole}.{fraction}")
        }
        _ => format!("{sign}{digits}E{exponent:+}"),
    }
}

/// Returns all digits of `m * 2^q`.
fn expanded(m: u64, q: i32) -> String {
    if q >= 0 {
        return (BigUint::from(m) << q as u32).to_string();
    }
    // m / 2^k is m * 5^k / 10^k.
    let digits = BigUint::from(m) * BigUint::from(5u32).pow(q.unsigned_abs());
    format!("{digits}e{q}")
}

/// Returns `m * 2^q` as a decimal, and two that differ from it by one in a place far behind its last.
fn with_neighbours(m: u64, q: i32) -> [String; 3] {
    let text = expanded(m, q);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent = exponent.parse::<i64>().unwrap() - 30;
    let below = BigUint::from(10u32).pow(30) * digits.parse::<BigUint>().unwrap() - 1u32;
    [format!("{digits}{:030}e{exponent}", 1), format!("{below}e{exponent}"), text]
}

#[test]
fn random_decimals_are_rounded_once() {
    let all = if is_full() { 10_000_000 } else { 1_000_000 };
    for (i, format) in FORMATS.iter().enumerate() {
        let mut random = Random(i as u64);
        let mut left = all / FORMATS.len();
        while left > 0 {
            let n = left.min(50_000);
            let texts: Vec<String> = (0..n).map(|_| random_decimal(format, &mut random)).collect();
            check(format.dtype, &texts, &[Rounding::NearestEven]);
            left -= n;
        }
        let texts: Vec<String> = (0..2000).map(|_| random_decimal(format, &mut random)).collect();
        check(format.dtype, &texts, &Rounding::ALL);
    }
}

/// Every value and every midpoint of the narrow formats, with their neighbours, where double rounding would show;
/// for wide formats, those at the ends and some in between.
#[test]
fn boundaries_are_rounded_once() {
    for format in &FORMATS {
        let mut random = Random(format.max);
        let codes: Vec<u64> = match format.max {
            max @ ..=0xFF => (0..=max).collect(),
            max => {
                let smallest = 1 << format.mantissa;
                let ends = [0, 1, 2, 3, smallest - 1, smallest, smallest + 1, max - 1, max];
                ends.into_iter().chain((0..150).map(|_| random.below(max))).collect()
            }
        };
        let mut texts = vec![];
        for code in codes {
            let (m, q) = format.value(code);
            texts.extend(with_neighbours(2 * m + 1, q - 1));
            if m > 0 {
                texts.extend(with_neighbours(m, q));
            }
        }
        texts.extend(texts.clone().into_iter().map(|text| format!("-{text}")));
        check(format.dtype, &texts, &Rounding::ALL);
    }
}

/// The generators of Rust's test-float-parse that random decimals do not cover.
#[test]
fn systematic_decimals_are_rounded_once() {
    let mut texts: Vec<String> = vec![];
    // Few digits with every exponent.
    for exponent in -345..=310 {
        texts.extend([1u64, 5, 9, 17, 123, 9_007_199_254_740_993].map(|n| format!("{n}e{exponent}")));
    }
    // Powers of two and their neighbours.
    for power in 0..1030u32 {
        let n = BigUint::from(1u32) << power;
        texts.extend([n.to_string(), (&n + 1u32).to_string()]);
        if power > 0 {
            texts.push((n - 1u32).to_string());
        }
    }
    // Repeated digits, whole and behind the point.
    for n in [1, 2, 15, 16, 17, 18, 19, 20, 38, 39, 100, 767, 768, 800, 801, 802, 2000] {
        for digit in ["1", "3", "5", "9"] {
            texts.push(digit.repeat(n));
            texts.push(format!("0.{}", digit.repeat(n)));
            texts.push(format!("0.{}{digit}", "0".repeat(n)));
            texts.push(format!("1.{}{digit}", "0".repeat(n)));
            texts.push(format!("1.5{}{digit}e-5", "0".repeat(n)));
        }
    }
    // Many zeros, and exponents that cancel them.
    for n in [0, 1, 20, 400, 5000] {
        let zeros = "0".repeat(n);
        texts.extend([format!("{zeros}0.0"), format!("-0{zeros}e99"), format!("{zeros}1.25")]);
        texts.extend([format!("1{zeros}e-{n}"), format!("0.{zeros}1e{n}"), format!("1{zeros}e{n}")]);
    }
    texts.extend(["1e1000", "1e-1000", "-1e5000", "-1e-5000", "0e5000"].map(str::to_owned));
    for format in &FORMATS {
        check(format.dtype, &texts, &[Rounding::NearestEven, Rounding::Up]);
    }
}

/// Exponents that no exact arithmetic can expand, and texts longer than those that `f64::from_str` gets right.
#[test]
fn extreme_exponents_are_right() {
    let zeros = "0".repeat(700_000);
    for (text, expected) in [
        (format!("0.{zeros}1e700001"), 1.0),
        (format!("-25{zeros}e-700001"), -2.5),
        (format!("1.{zeros}1"), 1.0),
        ("1e99999999999999999999999".to_owned(), f64::INFINITY),
        ("-1e-99999999999999999999999".to_owned(), -0.0),
        ("0e99999999999999999999999".to_owned(), 0.0),
        ("  1024  ".to_owned(), 1024.0),
    ] {
        let texts = [text];
        let mut wide = [0f64];
        text::parse_slice(&texts, &mut wide).unwrap();
        assert_eq!(wide[0].to_bits(), expected.to_bits(), "{:.40}", texts[0]);
        let mut half = [f16::ZERO];
        text::parse_slice(&texts, &mut half).unwrap();
        assert_eq!(half[0].to_bits(), convert::<f64, f16>(expected).to_bits(), "{:.40}", texts[0]);
        let up = CastOptions::new().rounding(Rounding::Up);
        text::parse_slice_with(&texts, &mut half, &up).unwrap();
        let above = texts[0].ends_with("01") && texts[0].starts_with("1.");
        assert_eq!(half[0].to_f64() > expected, above, "{:.40}", texts[0]);
    }
    let mut int = [0u8];
    text::parse_slice(&[format!("0.{zeros}99e700002")], &mut int).unwrap();
    assert_eq!(int, [99]);
}

#[test]
fn float8_e8m0_is_decided_on_the_decimal() {
    let up = |text: &str, mode: E8m0Rounding| {
        let mut out = [F8E8M0::default()];
        text::parse_slice_with(&[text], &mut out, &CastOptions::new().e8m0_rounding(mode)).unwrap();
        out[0].to_bits()
    };
    for (text, expected) in [
        ("1", [0x7F, 0x7F, 0x7F]),
        ("1.00000000000000000000000000001", [0x80, 0x7F, 0x7F]),
        ("1.49999999999999999999999999999", [0x80, 0x7F, 0x7F]),
        ("1.5", [0x80, 0x7F, 0x80]),
        ("1.99999999999999999999999999999", [0x80, 0x7F, 0x80]),
        ("5.877471754111437539843682686111228389093e-39", [0x00, 0x00, 0x00]), // just below 2^-127
        ("170141183460469231731687303715884105728", [0xFE, 0xFE, 0xFE]),
        ("170141183460469231731687303715884105728.1", [0xFE, 0xFE, 0xFE]),
        ("-1", [0x00, 0x00, 0x00]),
        ("0", [0x00, 0x00, 0x00]),
        ("nan", [0xFF, 0xFF, 0xFF]),
    ] {
        let modes = [E8m0Rounding::Up, E8m0Rounding::Down, E8m0Rounding::Nearest];
        assert_eq!(modes.map(|mode| up(text, mode)), expected, "{text}");
    }
    let mut out = [F8E8M0::default(); 3];
    let strict = CastOptions::new().saturate(false);
    let texts =
        ["170141183460469231731687303715884105728.1", "5.877471754111437539843682686111228389093e-39", "0"];
    text::parse_slice_with(&texts, &mut out, &strict).unwrap();
    assert_eq!(out.map(F8E8M0::to_bits), [0xFF; 3]);
}

#[test]
fn without_saturation_what_is_too_large_is_inf_or_nan() {
    let strict = CastOptions::new().saturate(false);
    let texts = ["464", "464.00000000000000000000001", "-1e400", "inf", "-nan"];
    let mut out = [F8E4M3FN::default(); 5];
    text::parse_slice_with(&texts, &mut out, &strict).unwrap();
    assert_eq!(out.map(F8E4M3FN::to_bits), [0x7E, 0x7F, 0xFF, 0x7F, 0xFF]);
    let texts = ["61439.99999999999999999999999", "61440", "-1e400", "inf", "-nan"];
    let mut out = [F8E5M2::default(); 5];
    text::parse_slice_with(&texts, &mut out, &strict).unwrap();
    assert_eq!(out.map(F8E5M2::to_bits), [0x7B, 0x7C, 0xFC, 0x7C, 0xFE]);
    // A literal infinity is no overflow: rounded toward zero, it stays infinite.
    let mut out = [0f32; 2];
    let inward = CastOptions::new().rounding(Rounding::TowardZero);
    text::parse_slice_with(&["1e400", "inf"], &mut out, &inward).unwrap();
    assert_eq!(out, [f32::MAX, f32::INFINITY]);
}

fn integers() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|dtype| matches!(dtype.kind(), Kind::Int(_)))
}

#[test]
fn integers_are_rounded_exactly_or_refused() {
    let mut random = Random(7);
    let mut refused = 0;
    for to in integers() {
        let Kind::Int(format) = to.kind() else { unreachable!() };
        let mut texts = vec![];
        for n in [format.min(), format.max(), 0] {
            for n in [n - 1, n, n + 1] {
                for fraction in ["", ".", ".0", ".49999999999999999999", ".5", ".50000000000000000001", ".9"]
                {
                    texts.push(format!("{n}{fraction}"));
                }
                texts.extend([
                    format!("{n}e0"),
                    format!("{n}0E-1"),
                    format!("{n}00000000000000000000000e-23"),
                ]);
            }
        }
        for _ in 0..3000 {
            let n = random.next() >> random.below(64);
            let exponent = random.of(-25..4);
            let sign = if random.below(2) == 0 { "-" } else { "" };
            texts.push(format!("{sign}{n}.{}e{exponent}", random.below(1000)));
        }
        for text in texts {
            let (negative, x) = Rational::parse(&text);
            let (whole, rest) = x.divide(0);
            for rounding in Rounding::ALL {
                let up = rounds_up(rounding, negative, whole.bit(0), rest);
                let magnitude = i128::try_from(&whole + BigUint::from(up)).unwrap();
                let n = if negative { -magnitude } else { magnitude };
                let options = CastOptions::new().int_rounding(rounding).dst_order(ByteOrder::Little);
                let (offsets, bytes) = joined(&[&text]);
                let mut out = vec![0; to.byte_len(1, Packing::LowFirst).unwrap()];
                let result = text::parse_bytes_with(&offsets, &bytes, &mut out, to, &options);
                if (format.min()..=format.max()).contains(&n) {
                    assert_eq!(result, Ok(()), "{text} -> {to} {rounding:?}");
                    let code = out.iter().rev().fold(0, |code, &b| code << 8 | u64::from(b));
                    let mask = u64::MAX >> (64 - format.bits());
                    assert_eq!(code, n as u64 & mask, "{text} -> {to} {rounding:?}");
                } else {
                    let error = Error::Element {
                        index: 0,
                        text: text.clone(),
                        dtype: to,
                        reason: Reason::OutOfRange,
                    };
                    assert_eq!(result, Err(error), "{text} -> {to} {rounding:?}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 10_000, "{refused}");
}

/// Parses one text, or returns why it is no number, and asserts that the error names the text.
fn parse<D: Element>(text: &str) -> Result<D, Reason> {
    let mut out = [convert::<u8, D>(0)];
    match text::parse_slice(&[text], &mut out) {
        Ok(()) => Ok(out[0]),
        Err(Error::Element { index: 0, text: named, dtype, reason }) => {
            assert_eq!((named.as_str(), dtype), (text, D::DTYPE));
            Err(reason)
        }
        Err(error) => panic!("{error}"),
    }
}

/// Texts that are no number, for every kind of dtype.
#[test]
fn what_is_no_number() {
    for text in [
        "",
        " ",
        "+",
        "-",
        ".",
        "e5",
        ".e5",
        "1e",
        "1e+",
        "1.5abc",
        "abc",
        "1,000",
        "1_000",
        "0x10",
        "1 2",
        "--1",
        "+-1",
        "1.5.2",
        "1e1.5",
        "infin",
        "nanx",
        "i",
        "١",
        "1\u{a0}",
        "\u{feff}1",
        "1f32",
        "truefalse",
        "\0",
        "1\0",
    ] {
        assert_eq!(parse::<f64>(text), Err(Reason::NotANumber), "{text:?}");
        assert_eq!(parse::<f32>(text), Err(Reason::NotANumber), "{text:?}");
        assert_eq!(parse::<bf16>(text), Err(Reason::NotANumber), "{text:?}");
        assert_eq!(parse::<F8E5M2>(text), Err(Reason::NotANumber), "{text:?}");
        assert_eq!(parse::<i64>(text), Err(Reason::NotANumber), "{text:?}");
        assert_eq!(parse::<U2>(text), Err(Reason::NotANumber), "{text:?}");
        assert_eq!(parse::<bool>(text), Err(Reason::NotANumber), "{text:?}");
    }
}

/// Texts that are numbers, for every kind of dtype.
#[test]
fn the_grammar() {
    for (text, expected) in [
        ("1", 1.0),
        ("+1", 1.0),
        ("-1.50", -1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("5.e1", 50.0),
        ("+.5E+1", 5.0),
        ("1e-1", 0.1),
        (" \t\r\n\u{c}2 ", 2.0),
        ("000012", 12.0),
        ("INF", f64::INFINITY),
        ("+inf", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
        ("-0", -0.0),
        ("1e400", f64::INFINITY),
        ("-1e-400", -0.0),
    ] {
        assert_eq!(parse::<f64>(text).map(f64::to_bits), Ok(expected.to_bits()), "{text:?}");
        assert_eq!(parse::<f32>(text).map(f32::to_bits), Ok((expected as f32).to_bits()), "{text:?}");
        assert_eq!(parse::<F4E2M1>(text), Ok(convert::<f64, F4E2M1>(expected)), "{text:?}");
        assert_eq!(parse::<bool>(text), Ok(expected != 0.0 || text == "-1e-400"), "{text:?}");
    }
    for (text, bits) in [("nan", 0x7FF8 << 48), ("+NaN", 0x7FF8 << 48), ("-NAN", 0xFFF8u64 << 48)] {
        assert_eq!(parse::<f64>(text).map(f64::to_bits), Ok(bits), "{text:?}");
        assert_eq!(
            parse::<f16>(text).map(f16::to_bits),
            Ok((bits >> 48) as u16 & 0xFE00 | 0x7E00),
            "{text:?}"
        );
        assert_eq!(parse::<bool>(text), Ok(true));
        assert_eq!(parse::<u16>(text), Err(Reason::OutOfRange));
    }
    for text in ["inf", "-INFINITY", "1e400", "1e20", "65536", "-1"] {
        assert_eq!(parse::<u16>(text), Err(Reason::OutOfRange), "{text:?}");
    }
    for (text, expected) in
        [("-0", 0), ("100.5", 100), ("1e3", 1000), (" 7 ", 7), ("-0.9", 0), ("+65535", 65535)]
    {
        assert_eq!(parse::<u16>(text), Ok(expected), "{text:?}");
    }
    for (text, expected) in
        [("true", true), (" FALSE ", false), ("0", false), ("-0.0e7", false), ("1e-4000", true)]
    {
        assert_eq!(parse::<bool>(text), Ok(expected), "{text:?}");
    }
}

/// Every element of a dtype of 16 bits or fewer, formatted and parsed, is that element again.
#[test]
fn narrow_elements_survive_being_text() {
    fn survives<E: Element + Debug>(elements: impl Iterator<Item = E>) {
        let elements: Vec<E> = elements.collect();
        let texts = text::format_slice(&elements).unwrap();
        let mut back = vec![elements[0]; elements.len()];
        text::parse_slice(&texts, &mut back).unwrap();
        for ((element, text), back) in elements.iter().zip(&texts).zip(&back) {
            // Debug shows only the value of a float; codes are compared below by `to_bits`.
            assert_eq!(format!("{element:?}"), format!("{back:?}"), "{} {text}", E::DTYPE);
        }
    }
    macro_rules! every_code {
        ($($t:ty),*) => {$(
            let bits = <$t as Element>::DTYPE.bits();
            let codes: Vec<u16> = (0..=u16::MAX >> (16 - bits)).collect();
            let elements: Vec<$t> = codes.iter().map(|&code| <$t>::from_bits(code as _)).collect();
            let texts = text::format_slice(&elements).unwrap();
            let mut back = vec![<$t>::from_bits(0); elements.len()];
            // Without saturation ±Inf comes back as well; only its text tells it from NaN.
            text::parse_slice_with(&texts, &mut back, &CastOptions::new().saturate(<$t as Element>::DTYPE == DType::F8E8M0)).unwrap();
            for ((&element, text), &back) in elements.iter().zip(&texts).zip(&back) {
                let nan = text == "NaN" && back.to_f32().is_nan() && element.to_f32().is_nan();
                assert!(nan || back.to_bits() == element.to_bits(), "{} {text}", <$t as Element>::DTYPE);
            }
        )*};
    }
    every_code!(
        F4E2M1,
        F6E2M3,
        F6E3M2,
        F8E3M4,
        F8E4M3,
        F8E4M3FN,
        F8E4M3FNUZ,
        F8E4M3B11FNUZ,
        F8E5M2,
        F8E5M2FNUZ
    );
    every_code!(F8E8M0, f16, bf16);
    survives((0..4).map(U2::from_bits));
    survives((0..4).map(I2::from_bits));
    survives((0..16).map(U4::from_bits));
    survives((0..16).map(I4::from_bits));
    survives(0..=u8::MAX);
    survives(i8::MIN..=i8::MAX);
    survives(0..=u16::MAX);
    survives(i16::MIN..=i16::MAX);
    survives([false, true].into_iter());
    survives([0, 1, u32::MAX].into_iter());
    survives([i32::MIN, -1, i32::MAX].into_iter());
    survives([0, 1, u64::MAX].into_iter());
    survives([i64::MIN, -1, i64::MAX].into_iter());
}

/// Returns the number of significant digits of a number in either notation.
fn digits(text: &str) -> usize {
    let digits: String = text.split('e').next().unwrap().chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').len()
}

/// No decimal with one digit fewer rounds to the same code, and none with equally many is nearer.
#[test]
fn narrow_floats_are_as_short_as_can_be() {
    for format in FORMATS.iter().filter(|format| format.max <= 0xFFFF) {
        let (to, width) = (format.dtype, format.dtype.bits().div_ceil(8) as usize);
        // With unbounded range, so that no number stands for others by clamping or as Inf.
        let open = Format { max: u64::MAX, overflow: u64::MAX, ..*format };
        let source: Vec<u8> =
            (1..=format.max).flat_map(|code| code.to_le_bytes().into_iter().take(width)).collect();
        let options = CastOptions::new().src_order(ByteOrder::Little).src_packing(Packing::OnePerByte);
        let n = format.max as usize;
        let (offsets, bytes) =
            text::format_bytes_with::<i64>(&source, to, n, &options, Notation::Plain).unwrap();
        let texts = str::from_utf8(&bytes).unwrap();
        for code in 1..=format.max {
            let i = code as usize - 1;
            let text = &texts[offsets[i] as usize..offsets[i + 1] as usize];
            let (m, q) = format.value(code);
            let x = Rational::parse(&expanded(m, q)).1;
            let printed = Rational::parse(text).1;
            assert_eq!(exact(&open, false, &printed, Rounding::NearestEven), code, "{to} {code:#x} {text}");
            // The two decimals of n digits next to x are floor(x / unit) and its successor.
            let value = m as f64 * f64::from(q).exp2();
            let first = (format!("{value:e}").split_once('e').unwrap().1).parse::<i64>().unwrap();
            let neighbours = |n: usize| {
                let exponent = first - n as i64 + 1;
                let unit = Rational::decimal(1u32.into(), exponent);
                let below = (&x.numerator * &unit.denominator) / (&x.denominator * &unit.numerator);
                [below.clone(), below + 1u32].map(|digits| Rational::decimal(digits, exponent))
            };
            let stands = |y: &Rational| !y.is_zero() && exact(&open, false, y, Rounding::NearestEven) == code;
            let n = digits(text);
            if n > 1 {
                assert!(!neighbours(n - 1).iter().any(stands), "{to} {code:#x}: {text} has digits to spare");
            }
            // |a - x| <= |b - x|, by cross multiplication.
            let distance = |y: &Rational| {
                let (a, b) = (&y.numerator * &x.denominator, &x.numerator * &y.denominator);
                let numerator = if a > b { a - b } else { b - a };
                Rational { numerator, denominator: &x.denominator * &y.denominator }
            };
            let ours = distance(&printed);
            for y in neighbours(n).iter().filter(|y| stands(y)) {
                let theirs = distance(y);
                let nearer = &theirs.numerator * &ours.denominator < &ours.numerator * &theirs.denominator;
                assert!(!nearer, "{to} {code:#x}: {text} is not the nearest");
            }
        }
    }
}

#[test]
fn wide_floats_survive_being_text() {
    let n = if is_full() { 1 << 24 } else { 1 << 20 };
    let mut random = Random(42);
    for chunk in (0..n).step_by(1 << 18) {
        let codes: Vec<u64> = (chunk..n.min(chunk + (1 << 18))).map(|_| random.next()).collect();
        let singles: Vec<f32> = codes.iter().map(|&code| f32::from_bits(code as u32)).collect();
        let doubles: Vec<f64> = codes.iter().map(|&code| f64::from_bits(code)).collect();
        for notation in [Notation::Plain, Notation::Scientific] {
            let (offsets, bytes) = text::format_offsets_with::<_, i64>(&singles, notation).unwrap();
            let mut back = vec![0f32; singles.len()];
            text::parse_offsets_with(&offsets, &bytes, &mut back, &CastOptions::new()).unwrap();
            let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(singles.iter().zip(&back).all(same), "{notation:?}");
            assert_eq!(bytes.contains(&b'e'), notation == Notation::Scientific);

            let (offsets, bytes) = text::format_offsets_with::<_, i64>(&doubles, notation).unwrap();
            let mut back = vec![0f64; doubles.len()];
            text::parse_offsets_with(&offsets, &bytes, &mut back, &CastOptions::new()).unwrap();
            let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(doubles.iter().zip(&back).all(same), "{notation:?}");
        }
    }
}

#[test]
fn numbers_are_written_as_documented() {
    #[rustfmt::skip]
    let table: [(f64, &str, &str); 22] = [
        (0.0, "0.0", "0.0"), (-0.0, "-0.0", "-0.0"), (1.0, "1.0", "1.0"), (-1.5, "-1.5", "-1.5"),
        (314.15926, "314.15926", "314.15926"), (1e-4, "0.0001", "0.0001"), (1e-5, "0.00001", "0.00001"),
        (9.5e-6, "0.0000095", "9.5e-6"), (-1e-7, "-0.0000001", "-1e-7"), (1.25e-10, "0.000000000125", "1.25e-10"),
        (999999999999999.9, "999999999999999.9", "999999999999999.9"), (1e15, "1000000000000000.0", "1000000000000000.0"),
        (1e16, "10000000000000000.0", "1e+16"), (1.5e16, "15000000000000000.0", "1.5e+16"),
        (-1.2345678901234567e16, "-12345678901234568.0", "-1.2345678901234568e+16"),
        (1.2345678901234567e17, "123456789012345660.0", "1.2345678901234566e+17"), (1e22, "10000000000000000000000.0", "1e+22"),
        (f64::INFINITY, "INF", "INF"), (f64::NEG_INFINITY, "-INF", "-INF"), (f64::NAN, "NaN", "NaN"), (-f64::NAN, "NaN", "NaN"),
        (1e-300 * 0.0, "0.0", "0.0"),
    ];
    for (x, plain, scientific) in table {
        let text = |notation| {
            String::from_utf8(text::format_offsets_with::<_, i32>(&[x], notation).unwrap().1).unwrap()
        };
        assert_eq!(
            (text(Notation::Plain).as_str(), text(Notation::Scientific).as_str()),
            (plain, scientific)
        );
        assert_eq!(text::format_slice(&[x]).unwrap(), [plain]);
    }
    let all = text::format_slice(&[f64::MAX, f64::from_bits(1)]).unwrap();
    assert_eq!((all[0].len(), all[1].len()), (311, 326));
    assert_eq!(
        text::format_slice(&[f32::MAX, 1e15, 16777216.0, 0.1]).unwrap()[1..],
        ["1000000000000000.0", "16777216.0", "0.1"]
    );
    assert_eq!(text::format_slice(&[bf16::from_f32(1.0 / 3.0)]).unwrap(), ["0.334"]);
    assert_eq!(
        text::format_slice(&[F8E4M3FN::from_bits(0x7E), F8E4M3FN::from_bits(0xFF)]).unwrap(),
        ["450.0", "NaN"]
    );
    assert_eq!(
        text::format_slice(&[F8E5M2::from_bits(0xFC), F8E5M2::from_bits(0x80)]).unwrap(),
        ["-INF", "-0.0"]
    );
    assert_eq!(text::format_slice(&[F8E4M3FNUZ::from_bits(0x80)]).unwrap(), ["NaN"]);
    assert_eq!(text::format_slice(&[true, false]).unwrap(), ["1", "0"]);
}

/// All functions agree: for single texts, joined, typed, packed, few and many.
#[test]
fn all_entries_agree() {
    for n in [0, 1, 2, 4095, 4096, 4097, 16_385, 20_001] {
        let doubles: Vec<f64> = (0..n).map(|i| (f64::from(i) - 99.5) * 0.0625).collect();
        let texts = text::format_slice(&doubles).unwrap();
        let (offsets, bytes) = text::format_offsets_with::<_, i32>(&doubles, Notation::Plain).unwrap();
        let (long, same) = text::format_offsets_with::<_, i64>(&doubles, Notation::Plain).unwrap();
        assert_eq!((bytes.as_slice(), texts.concat().as_bytes()), (same.as_slice(), bytes.as_slice()));
        assert!(offsets.iter().copied().map(i64::from).eq(long.iter().copied()));
        assert_eq!((long.clone(), same.clone()), joined(&texts));
        for to in DType::ALL.into_iter().filter(|to| !matches!(to.kind(), Kind::Complex(_))) {
            let options = CastOptions::new().dst_order(ByteOrder::Big).src_order(ByteOrder::Big);
            for packing in [Packing::LowFirst, Packing::OnePerByte, Packing::HighFirst] {
                let options = options.dst_packing(packing).src_packing(packing);
                // Texts that integers refuse are replaced by two numbers in turns, which float64 has, too.
                let whole = |i: usize| match to.kind() {
                    Kind::Int(format) => Some([format.min(), format.max() - format.max() / 2][i % 2]),
                    _ => None,
                };
                let texts: Vec<String> = texts
                    .iter()
                    .enumerate()
                    .map(|(i, t)| whole(i).map_or_else(|| t.clone(), |n| n.to_string()))
                    .collect();
                let (offsets, bytes) = joined(&texts);
                let mut out = vec![0; to.byte_len(texts.len(), packing).unwrap()];
                text::parse_bytes_with(&offsets, &bytes, &mut out, to, &options).unwrap();
                let values: Vec<f64> =
                    doubles.iter().enumerate().map(|(i, &x)| whole(i).map_or(x, |n| n as f64)).collect();
                let mut expected = vec![0; out.len()];
                let native: Vec<u8> = values.iter().flat_map(|x| x.to_be_bytes()).collect();
                cast_bytes_with(&native, DType::F64, &mut expected, to, texts.len(), &options).unwrap();
                assert_eq!(out, expected, "{to} {packing:?}");
                let again =
                    text::format_bytes_with::<i64>(&out, to, texts.len(), &options, Notation::Plain).unwrap();
                let mut back = vec![0; out.len()];
                text::parse_bytes_with(&again.0, &again.1, &mut back, to, &options).unwrap();
                assert_eq!(back, out, "{to} {packing:?}");
            }
        }
    }
}

/// The error names the first wrong text, whichever thread finds one first.
#[test]
fn the_first_error_is_the_one_reported() {
    let mut texts = vec!["1"; 100_000];
    for wrong in [99_999, 70_000, 20_000, 4097, 4096, 4095, 0] {
        texts[wrong] = "x";
        let error = Error::Element {
            index: wrong,
            text: "x".to_owned(),
            dtype: DType::F32,
            reason: Reason::NotANumber,
        };
        assert_eq!(text::parse_slice(&texts, &mut vec![0f32; texts.len()]), Err(error.clone()));
        let (offsets, bytes) = joined(&texts);
        let mut out = vec![0; 4 * texts.len()];
        let options = CastOptions::new();
        assert_eq!(text::parse_bytes_with(&offsets, &bytes, &mut out, DType::F32, &options), Err(error));
    }
    let long = "y".repeat(1000);
    let error = text::parse_slice(&[&long], &mut [0u8]).unwrap_err();
    assert_eq!(error.to_string(), format!("element 0, {:?}..., is not a number", &long[..80]));
}

#[test]
fn what_is_no_batch_is_refused() {
    let options = CastOptions::new();
    let parse = |offsets: &[i32], bytes: &[u8]| {
        let mut out = vec![0u8; offsets.len().saturating_sub(1)];
        text::parse_offsets_with(offsets, bytes, &mut out, &options).map(|()| out)
    };
    assert_eq!(parse(&[0, 1, 3], b"123"), Ok(vec![1, 23]));
    assert_eq!(parse(&[1, 2, 3], b"x12y"), Ok(vec![1, 2]), "a slice of a longer buffer");
    assert_eq!(parse(&[1, 2, 3], b"\xFF12\xFF"), Ok(vec![1, 2]), "what the offsets leave out is not read");
    assert_eq!(parse(&[3], b"123"), Ok(vec![]));
    let wrong = |index, offset, least, bytes| Err(Error::Offset { index, offset, least, bytes });
    assert_eq!(parse(&[], b""), wrong(0, None, 0, 0));
    assert_eq!(parse(&[-1, 1], b"1"), wrong(0, Some(-1), 0, 1));
    assert_eq!(parse(&[0, 2, 1], b"12"), wrong(2, Some(1), 2, 2));
    assert_eq!(parse(&[0, 4], b"123"), wrong(1, Some(4), 0, 3));
    let text = |offsets: &[i32]| parse(offsets, b"123").unwrap_err().to_string();
    assert_eq!(text(&[]), "there are no offsets; n texts need n + 1");
    assert_eq!(text(&[0, 2, 1]), "offset 2 is 1; it must be at least 2 and at most 3, the number of bytes");
    // An offset whose low 32 bits are within the bytes.
    let error = text::parse_offsets(&[0, (1i64 << 32) + 1, 3], b"123", &mut [0u8; 2]);
    assert_eq!(error, Err(Error::Offset { index: 1, offset: Some((1 << 32) + 1), least: 0, bytes: 3 }));
    assert_eq!(parse(&[0, 1, 2, 3], b"1\xFF3"), Err(Error::NotUtf8 { index: 1 }));
    assert_eq!(parse(&[0, 0, 1, 1, 2], b"1\xFF"), Err(Error::NotUtf8 { index: 3 }));
    assert_eq!(parse(&[0, 1, 2], "é".as_bytes()), Err(Error::NotUtf8 { index: 0 }), "half a character each");
    assert_eq!(parse(&[1, 2], "é".as_bytes()), Err(Error::NotUtf8 { index: 0 }));
    let error = text::parse_slice(&["1", "2"], &mut [0u8; 3]).unwrap_err();
    assert_eq!(error, Error::LengthMismatch { texts: 2, elements: 3 });
    let error = text::parse_bytes_with(&[0i64, 1], b"1", &mut [0; 3], DType::F32, &options).unwrap_err();
    assert!(matches!(error, Error::Cast(lanecast::Error::BufferSize { needed: 4, given: 3, .. })), "{error}");
    let error =
        text::format_bytes_with::<i32>(&[0; 3], DType::F32, 1, &options, Notation::Plain).unwrap_err();
    assert!(matches!(error, Error::Cast(lanecast::Error::BufferSize { needed: 4, given: 3, .. })), "{error}");
    let complex = Err(Error::Complex { dtype: DType::C64 });
    assert_eq!(text::parse_slice(&["1"], &mut [Complex::new(0f32, 0.0)]), complex);
    assert_eq!(text::format_slice(&[Complex::new(0f32, 0.0)]).map(drop), complex);
    assert_eq!(text::parse_bytes_with(&[0i64], b"", &mut [], DType::C64, &options), complex);
    assert_eq!(
        text::format_bytes_with::<i32>(&[], DType::C64, 0, &options, Notation::Plain).map(drop),
        complex
    );
}

/// The first offset is checked even if there are no texts.
#[test]
fn offsets_of_no_texts() {
    let none: &mut [i8] = &mut [];
    for (offset, expected) in [
        (0, Ok(())),
        (3, Ok(())),
        (4, Err(Error::Offset { index: 0, offset: Some(4), least: 0, bytes: 3 })),
        (-1, Err(Error::Offset { index: 0, offset: Some(-1), least: 0, bytes: 3 })),
    ] {
        assert_eq!(
            text::parse_offsets_with(&[offset], b"123", none, &CastOptions::new()),
            expected,
            "{offset}"
        );
        assert_eq!(
            text::parse_bytes_with(&[i64::from(offset)], b"123", &mut [], DType::U4, &CastOptions::new()),
            expected
        );
    }
}

/// No text is longer than the room reserved for one.
#[test]
fn the_longest_texts() {
    let longest = [-f64::MAX, -f64::MIN_POSITIVE, -5e-324, -2.225073858507201e-308, -1.2345678901234567e-300];
    let (offsets, bytes) = text::format_offsets_with::<f64, i32>(&longest, Notation::Plain).unwrap();
    assert_eq!(bytes.len(), offsets[longest.len()] as usize);
    let most = offsets.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert_eq!(most, Some(327));
}
