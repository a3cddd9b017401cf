//! Writes an element as the shortest text that reads as that element again.
//!
//! f64 and f32 are written by zmij. The narrower floats have few codes: the shortest decimal of each is found once, by trying, and
//! the f64 nearest to it is kept. A decimal of up to 15 digits is the shortest one of its nearest f64, so zmij writes the same digits.
//!
//! Measured on 10^6 mixed doubles: zmij 1.0.23 22.6 ns, lexical-core 1.0.6 34.0 ns, ryu 1.0.23 38.1 ns, std 83.6 ns;
//! on 64-bit integers itoa 1.0.18 17.5 ns, std 28.7 ns.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::formats::dtype::{DTYPES, DType, FloatFormat, IntFormat, Kind};
use crate::formats::options::Policy;
use crate::kernels::once::Once;
use crate::kernels::scalar;

use super::decimal::{Decimal, Short};

/// How floats are written.
///
/// ```
/// use lanecast::text::{format_offsets_with, Notation};
/// let text = |notation| String::from_utf8(format_offsets_with::<f64, i32>(&[2.5e20], notation).unwrap().1).unwrap();
/// assert_eq!(text(Notation::Plain), "250000000000000000000.0");
/// assert_eq!(text(Notation::Scientific), "2.5e+20");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Notation {
    /// Never with an exponent, as in ONNX: up to 309 digits before the point, and 324 after it.
    #[default]
    Plain,
    /// With an exponent where there would be many zeros, as zmij writes it: below 1e-5, and from 1e16 up (in float32
    /// 1e-6 and 1e13).
    Scientific,
}

/// The most characters that a text has: a sign, `0.`, 307 zeros and 17 digits, for an f64 without an exponent.
pub(super) const LONGEST: usize = 1 + 2 + 307 + 17;

/// Magnitudes that zmij writes without an exponent, both as f32 and as f64. There are others beyond this range.
const PLAIN: core::ops::Range<f64> = 1e-4..1e12;

/// Writes elements of one dtype.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer {
    notation: Notation,
    /// For each code without a sign, the f64 nearest to its shortest decimal. None if a table is not worth making.
    narrow: Option<&'static [f64]>,
}

impl Writer {
    /// Makes the writer of `n` elements.
    pub(super) fn new(dtype: DType, n: usize, notation: Notation) -> Self {
        /// A table is made for at least a quarter as many elements as it has codes: making that of float16 takes as long as writing some ten
        /// thousand elements without it.
        const WORTH: usize = 4;
        static TABLES: [Once<Vec<f64>>; DTYPES] = [const { Once::new() }; DTYPES];

        let table = &TABLES[dtype.code() as usize];
        let narrow = match dtype.float_format() {
            Some(format) if format.bits() <= 16 => {
                let codes = format.max_code() as usize + 1;
                // If there is no memory for the table, the decimal of each element is found anew.
                let make = || {
                    let mut table = Vec::new();
                    table.try_reserve_exact(codes).ok()?;
                    table.extend((0..codes as u64).map(|code| shortest(format, code)));
                    Some(table)
                };
                if n >= codes / WORTH { table.get_or_make(make) } else { table.get() }
            }
            _ => None,
        };
        Self { notation, narrow: narrow.map(|table| &table[..]) }
    }

    /// Appends the text of a code: at most [`LONGEST`] characters. It is inlined for callers where `dtype` is a constant.
    #[inline(always)]
    pub(super) fn write(&self, dtype: DType, code: u64, out: &mut Vec<u8>) {
        match dtype.kind() {
            Kind::Bool => self.bool(code, out),
            Kind::Int(format) => self.int(format, code, out),
            Kind::Float(format) => match dtype {
                DType::F64 => self.wide(f64::from_bits(code), out),
                DType::F32 => self.wide(f32::from_bits(code as u32), out),
                _ => self.narrow(format, code, out),
            },
            // The public functions refuse these.
            Kind::Complex(_) => {}
        }
    }

    #[inline(always)]
    pub(super) fn bool(&self, code: u64, out: &mut Vec<u8>) {
        out.push(b'0' + u8::from(code != 0));
    }

    #[inline(always)]
    pub(super) fn int(&self, format: IntFormat, code: u64, out: &mut Vec<u8>) {
        let unused = 64 - format.bits;
        let mut buffer = itoa::Buffer::new();
        let text = match format.signed {
            true => buffer.format(((code << unused) as i64) >> unused),
            false => buffer.format(code),
        };
        out.extend_from_slice(text.as_bytes());
    }

    #[inline(always)]
    pub(super) fn wide<F: zmij::Float + Into<f64>>(&self, x: F, out: &mut Vec<u8>) {
        let wide = x.into();
        if PLAIN.contains(&wide.abs()) {
            out.extend_from_slice(zmij::Buffer::new().format_finite(x).as_bytes());
        } else {
            self.unusual(x, wide, out);
        }
    }

    /// Appends a number that zmij may write with an exponent, or Inf or NaN.
    #[inline(never)]
    fn unusual<F: zmij::Float>(&self, x: F, wide: f64, out: &mut Vec<u8>) {
        if wide.is_nan() {
            return out.extend_from_slice(b"NaN");
        }
        if wide.is_infinite() {
            return out.extend_from_slice(if wide > 0.0 { b"INF" } else { b"-INF" });
        }
        let mut buffer = zmij::Buffer::new();
        let text = buffer.format_finite(x).as_bytes();
        match text.iter().rposition(|&b| b == b'e') {
            Some(place) if self.notation == Notation::Plain => plain(&text[..place], &text[place + 1..], out),
            _ => out.extend_from_slice(text),
        }
    }

    #[inline(always)]
    pub(super) fn narrow(&self, format: FloatFormat, code: u64, out: &mut Vec<u8>) {
        let magnitude = code & !format.sign_bit();
        let is_nan = magnitude == 0 && code != 0 && !format.has_neg_zero;
        let x = if is_nan {
            f64::NAN
        } else if magnitude > format.max_code() {
            exact(format, code)
        } else {
            let x = match self.narrow {
                Some(table) => table[magnitude as usize],
                None => shortest(format, magnitude),
            };
            if code == magnitude { x } else { -x }
        };
        self.wide(x, out);
    }
}

/// Appends `mantissa * 10^exponent` without an exponent. The mantissa is in zmij's form: an optional sign, one digit, and
/// optionally a point and more digits.
fn plain(mantissa: &[u8], exponent: &[u8], out: &mut Vec<u8>) {
    let mantissa = match mantissa {
        [b'-', mantissa @ ..] => {
            out.push(b'-');
            mantissa
        }
        mantissa => mantissa,
    };
    let (first, rest) = (mantissa[0], mantissa.get(2..).unwrap_or_default());
    let places =
        exponent.iter().filter(|b| b.is_ascii_digit()).fold(0, |n, b| 10 * n + usize::from(b - b'0'));
    // All is filled with zeros before the digits are put in, so that the vector grows once.
    let start = out.len();
    if exponent.starts_with(b"-") {
        out.resize(start + places + 2 + rest.len(), b'0');
        let text = &mut out[start..];
        text[1] = b'.';
        text[places + 1] = first;
        text[places + 2..].copy_from_slice(rest);
    } else {
        out.resize(start + 2 + rest.len().max(places + 1), b'0');
        let text = &mut out[start..];
        let (whole, fraction) = rest.split_at(rest.len().min(places));
        text[0] = first;
        text[1..][..whole.len()].copy_from_slice(whole);
        text[places + 1] = b'.';
        text[places + 2..][..fraction.len()].copy_from_slice(fraction);
    }
}

/// The value of a code, which is exact as an f64.
fn exact(format: FloatFormat, code: u64) -> f64 {
    let value = scalar::decode_float(format, code);
    f64::from_bits(scalar::encode(DType::F64, value, &Policy::DEFAULT))
}

/// The f64 nearest to the shortest decimal of a code without a sign: of all decimals that round to its value, one with the fewest
/// digits, and of those the nearest.
fn shortest(format: FloatFormat, code: u64) -> f64 {
    let x = exact(format, code);
    if x == 0.0 {
        return x;
    }
    // Room for a sign, 17 digits, a point and an exponent.
    let of = Short::<32>::new;
    let interval = Interval::of(format, code);
    for digits in 0..17 {
        // The nearest decimal with one digit before the point and `digits` after it.
        let text = of(format_args!("{x:.digits$e}"));
        let text = text.as_str();
        if interval.contains(text) {
            return parse(text);
        }
        // The nearest decimal on the other side of the value may be farther away and still round to it: the interval is not symmetric
        // at a power of two, below which the next number is twice as near.
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (units, exponent) = (parse_digits(mantissa), exponent.parse().unwrap_or(0) - digits as i32);
        let text = if parse(text) < x {
            of(format_args!("{}e{exponent}", units + 1))
        } else if units == 10u64.pow(digits as u32) {
            // Below a power of ten, decimals with the same number of digits are ten times as close.
            of(format_args!("{}e{}", 10 * units - 1, exponent - 1))
        } else {
            of(format_args!("{}e{exponent}", units - 1))
        };
        if interval.contains(text.as_str()) {
            return parse(text.as_str());
        }
    }
    x
}

fn parse(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

fn parse_digits(text: &str) -> u64 {
    text.bytes().filter(u8::is_ascii_digit).fold(0, |n, b| 10 * n + u64::from(b - b'0'))
}

/// The numbers that round to a given one: those between `least` and `most`, each given as `m` and `q` of `m * 2^q`. The ends are
/// included if `closed`.
struct Interval {
    least: (u64, i32),
    most: (u64, i32),
    closed: bool,
}

impl Interval {
    /// The interval of a code without a sign. That of the largest value is as if the format had a next one.
    fn of(format: FloatFormat, code: u64) -> Self {
        let ulp = format.min_exponent() - format.mantissa_bits as i32;
        if !format.has_zero() {
            // float8_e8m0fnu, to which the default options round up: numbers that become this one both by rounding up and by rounding to
            // nearest, with saturation. Without it, the smallest value, 2^-127, would have no short text.
            let q = code as i32 - format.bias;
            return Self { least: (3, q - 2), most: (1, q), closed: true };
        }
        let hidden = 1 << format.mantissa_bits;
        let (exponent, mantissa) = ((code >> format.mantissa_bits) as i32, code & (hidden - 1));
        let m = if exponent == 0 { mantissa } else { mantissa | hidden };
        let q = ulp + (exponent - 1).max(0);
        // The distances to the ends are in quarters of a unit in the last place.
        let below = if mantissa == 0 && exponent > 1 { 1 } else { 2 };
        Self { least: (4 * m - below, q - 2), most: (4 * m + 2, q - 2), closed: code.is_multiple_of(2) }
    }

    fn contains(&self, text: &str) -> bool {
        let decimal = Decimal::of(text);
        let (least, most) =
            (decimal.compare(self.least.0, self.least.1), decimal.compare(self.most.0, self.most.1));
        match (least, most) {
            (Ordering::Greater, Ordering::Less) => true,
            (Ordering::Equal, _) | (_, Ordering::Equal) => self.closed,
            _ => false,
        }
    }
}
