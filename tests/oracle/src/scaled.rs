//! The exact rule of scaled casts, in rational numbers of any size.
//!
//! Quotients and products are fractions of big integers. They are compared with the values and midpoints of dtypes, which have
//! fewer than 64 significant bits. For that a fraction is cut to 120 bits, the last of which is sticky (set if anything was
//! cut off), so every such comparison gives what the fraction itself would give.

use core::ops::RangeInclusive;

use num_bigint::BigUint;

use crate::exact::{Dyadic, round_to_integer};
use crate::types::{Number, Type, decode_integer};
use crate::{Mode, Rounding, beyond_max, integer_code, to_float};

/// A non-negative fraction.
#[derive(Clone, Debug)]
struct Ratio {
    num: BigUint,
    den: BigUint,
}

impl Ratio {
    fn new(x: Dyadic) -> Self {
        let (num, one) = (BigUint::from(x.m), BigUint::from(1u8));
        match u32::try_from(x.q) {
            Ok(up) => Self {
                num: num << up,
                den: one,
            },
            Err(_) => Self {
                num,
                den: one << x.q.unsigned_abs(),
            },
        }
    }

    fn power_of_two(exponent: i32) -> Self {
        Self::new(Dyadic::power_of_two(exponent))
    }

    fn is_zero(&self) -> bool {
        self.num == BigUint::ZERO
    }

    fn times(&self, by: &Self) -> Self {
        Self {
            num: &self.num * &by.num,
            den: &self.den * &by.den,
        }
    }

    fn over(&self, by: &Self) -> Self {
        Self {
            num: &self.num * &by.den,
            den: &self.den * &by.num,
        }
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            num: &self.num * &other.den + &other.num * &self.den,
            den: &self.den * &other.den,
        }
    }

    fn is_less(&self, than: &Self) -> bool {
        &self.num * &than.den < &than.num * &self.den
    }

    /// Returns a number that compares as this one does with everything of at most 100 significant bits.
    fn dyadic(&self) -> Dyadic {
        if self.is_zero() {
            return Dyadic::ZERO;
        }
        let up = 120 + self.den.bits() as i32 - self.num.bits() as i32;
        let (mut num, mut den) = (self.num.clone(), self.den.clone());
        match u32::try_from(up) {
            Ok(up) => num <<= up,
            Err(_) => den <<= up.unsigned_abs(),
        }
        let whole = &num / &den;
        let cut = u128::from(&whole * &den != num);
        let digits = whole.to_u64_digits();
        let whole = u128::from(digits[0]) | u128::from(digits[1]) << 64;
        Dyadic::new(whole | cut, -up)
    }

    /// Returns `floor(log2(self))`, found by comparisons.
    fn floor_log2(&self) -> i32 {
        let mut guess = self.num.bits() as i32 - self.den.bits() as i32;
        while self.is_less(&Self::power_of_two(guess)) {
            guess -= 1;
        }
        while !self.is_less(&Self::power_of_two(guess + 1)) {
            guess += 1;
        }
        guess
    }

    fn ceil_log2(&self) -> i32 {
        let floor = self.floor_log2();
        if Self::power_of_two(floor).is_less(self) {
            floor + 1
        } else {
            floor
        }
    }
}

/// An exact number, Inf or NaN.
#[derive(Clone, Debug)]
enum Exact {
    NaN { negative: bool },
    Inf { negative: bool },
    Finite { negative: bool, ratio: Ratio },
}

impl Exact {
    fn new(dtype: Type, code: u128) -> Self {
        match Number::decode(dtype, code) {
            Number::Nan { negative, .. } => Self::NaN { negative },
            Number::Infinity { negative } => Self::Inf { negative },
            Number::Finite {
                negative,
                magnitude,
            } => Self::Finite {
                negative,
                ratio: Ratio::new(magnitude),
            },
        }
    }

    fn is_negative(&self) -> bool {
        let (Self::NaN { negative } | Self::Inf { negative } | Self::Finite { negative, .. }) =
            self;
        *negative
    }

    fn is_zero(&self) -> bool {
        matches!(self, Self::Finite { ratio, .. } if ratio.is_zero())
    }

    /// "NaN with its sign; else if S is NaN, or for 0/0, Inf/Inf, 0*Inf: +NaN."
    fn combine(&self, s: &Self, divides: bool) -> Self {
        let negative = self.is_negative() != s.is_negative();
        let nan = Self::NaN { negative: false };
        let zero = Self::Finite {
            negative,
            ratio: Ratio::new(Dyadic::ZERO),
        };
        match (self, s) {
            (Self::NaN { .. }, _) => self.clone(),
            (_, Self::NaN { .. }) => nan,
            (Self::Inf { .. }, Self::Inf { .. }) if divides => nan,
            (Self::Inf { .. }, s) if s.is_zero() && !divides => nan,
            (Self::Inf { .. }, _) => Self::Inf { negative },
            (x, Self::Inf { .. }) if x.is_zero() && !divides => nan,
            (_, Self::Inf { .. }) if divides => zero,
            (_, Self::Inf { .. }) => Self::Inf { negative },
            (x, s) if divides && s.is_zero() && x.is_zero() => nan,
            (_, s) if divides && s.is_zero() => Self::Inf { negative },
            (Self::Finite { ratio, .. }, Self::Finite { ratio: by, .. }) => {
                let ratio = if divides {
                    ratio.over(by)
                } else {
                    ratio.times(by)
                };
                Self::Finite { negative, ratio }
            }
        }
    }

    /// Returns the code of `to`, rounded once.
    fn to_float(&self, to: Type, mode: &Mode) -> u128 {
        let format = to.format().expect("a float");
        let number = match self {
            Self::NaN { negative } => Number::Nan {
                negative: *negative,
                fraction: 1 << 63,
            },
            Self::Inf { negative } => Number::Infinity {
                negative: *negative,
            },
            Self::Finite { negative, ratio } => Number::Finite {
                negative: *negative,
                magnitude: ratio.dyadic(),
            },
        };
        to_float(to, format, number, mode)
    }
}

impl Exact {
    /// Returns the value rounded to an integer, with the zero point added, within the limits.
    fn to_integer(&self, rounding: Rounding, zero: i128, limits: RangeInclusive<i128>) -> i128 {
        let (min, max) = limits.into_inner();
        let result = match self {
            Self::NaN { .. } => zero, // "NaN gives z"
            Self::Inf { negative } => return if *negative { min } else { max },
            Self::Finite { negative, ratio } => {
                let rounded = round_to_integer(*negative, ratio.dyadic(), rounding);
                // Far beyond the limits of every dtype.
                let huge = !rounded.is_zero() && rounded.floor_log2() > 100;
                let rounded = if huge {
                    1 << 100
                } else {
                    (rounded.m << rounded.q.max(0)) as i128
                };
                (if *negative { -rounded } else { rounded }) + zero
            }
        };
        result.clamp(min, max)
    }

    /// Returns the float32 that the value is rounded to.
    fn to_f32(&self) -> Self {
        Self::new(Type::F32, self.to_float(Type::F32, &Mode::default()))
    }
}

/// The tensor scale: the code of a float32, and whether it divides the scales or multiplies them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Factor {
    pub code: u32,
    pub divides: bool,
}

/// The rule by which scales are found from the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    Amax,
    Floor,
    Ceil,
    Even,
    RoundUp,
}

/// A scaling of one pair, without its shapes.
#[derive(Clone, Copy, Debug)]
pub struct Scaling {
    /// The dtype of the elements.
    pub element: Type,
    /// The dtype of the scales.
    pub scale: Type,
    pub rule: Rule,
    pub factor: Option<Factor>,
    /// Rounding of quotients to integers.
    pub int_rounding: Rounding,
    /// Whether NaN and Inf are ignored when a scale is found.
    pub ignores_nonfinite: bool,
}

impl Scaling {
    /// "MXINT8: S = s/64."
    fn counts_64ths(&self) -> bool {
        self.element == Type::I8 && self.scale == Type::E8M0FNU
    }

    /// "S = s, or s*g, or s/g, exact."
    fn exact_scale(&self, code: u128) -> Exact {
        let mut s = Exact::new(self.scale, code);
        if let Some(factor) = self.factor {
            s = s.combine(&Exact::new(Type::F32, factor.code.into()), factor.divides);
        }
        if self.counts_64ths() {
            let ratio = Ratio::power_of_two(-6);
            s = s.combine(
                &Exact::Finite {
                    negative: false,
                    ratio,
                },
                false,
            );
        }
        s
    }

    /// Returns the largest value that an element can have.
    fn max(&self) -> Ratio {
        let max = match self.element.format() {
            Some(format) => format.value(format.max_finite()),
            None => Dyadic::new(self.element.integer_limits().1 as u128, 0),
        };
        let max = Ratio::new(max);
        if self.counts_64ths() {
            max.times(&Ratio::power_of_two(-6))
        } else {
            max
        }
    }

    /// "(c - z) * S"; a difference of 0 is +0.
    fn value(&self, code: u128, scale: u128, zero: i128) -> Exact {
        let c = if self.element.is_float() {
            Exact::new(self.element, code)
        } else {
            let difference = decode_integer(self.element, code) - zero;
            let ratio = Ratio::new(Dyadic::new(difference.unsigned_abs(), 0));
            Exact::Finite {
                negative: difference < 0,
                ratio,
            }
        };
        c.combine(&self.exact_scale(scale), false)
    }

    /// Returns the code of a source value under a scale.
    fn quotient(&self, x: &Exact, scale: u128, zero: i128, mode: &Mode, word: Option<u32>) -> u128 {
        let v = x.combine(&self.exact_scale(scale), true);
        if self.element.is_float() {
            return match word {
                Some(word) => stochastic(&v, self.element, mode, word),
                None => v.to_float(self.element, mode),
            };
        }
        let (mut min, max) = self.element.integer_limits();
        if self.counts_64ths() {
            min = -max; // "127 is written, -128 is read"
        }
        integer_code(
            self.element,
            v.to_integer(self.int_rounding, zero, min..=max),
        )
    }

    /// "ComputeMultiply computes amax / (448 M), and ComputeDivide its inverse. The factor is rounded
    /// once to float32, is 1 where that is not finite and positive."
    fn computed(&self, values: &[Exact], divides: bool) -> Factor {
        let mut amax = Ratio::new(Dyadic::ZERO);
        let mut is_finite = true;
        for value in values {
            match value {
                Exact::Finite { ratio, .. } if amax.is_less(ratio) => amax = ratio.clone(),
                Exact::Finite { .. } => {}
                Exact::NaN { .. } | Exact::Inf { .. } => is_finite &= self.ignores_nonfinite,
            }
        }
        let one = Factor {
            code: 1f32.to_bits(),
            divides,
        };
        if amax.is_zero() || !is_finite {
            return one;
        }
        let most = self.max().times(&Ratio::new(Dyadic::new(448, 0)));
        let ratio = if divides {
            most.over(&amax)
        } else {
            amax.over(&most)
        };
        let factor = Exact::Finite {
            negative: false,
            ratio,
        };
        let code = factor.to_float(Type::F32, &Mode::default()) as u32;
        let is_positive = 0 < code && code < f32::INFINITY.to_bits();
        if is_positive {
            Factor { code, divides }
        } else {
            one
        }
    }

    /// Returns the scale of a block, from the exact values of its elements.
    fn find(&self, values: &[Exact]) -> u128 {
        let e8m0 = self.scale == Type::E8M0FNU;
        let mut amax = Ratio::new(Dyadic::ZERO);
        let (mut has_nan, mut has_inf) = (false, false);
        for value in values {
            match value {
                Exact::NaN { .. } => has_nan = true,
                Exact::Inf { .. } => has_inf = true,
                Exact::Finite { ratio, .. } if amax.is_less(ratio) => amax = ratio.clone(),
                Exact::Finite { .. } => {}
            }
        }
        let format = self.scale.format();
        if !self.ignores_nonfinite && (has_nan || has_inf) {
            return match (format, has_nan) {
                (None, true) => 0xFF,
                (None, false) => 0xFE,
                (Some(format), true) => format.nan(false),
                (Some(format), false) => format.with_sign(false, format.max_finite()),
            };
        }
        let one = Ratio::power_of_two(0);
        if amax.is_zero() {
            let one = Exact::Finite {
                negative: false,
                ratio: one,
            };
            return if e8m0 {
                0
            } else {
                one.to_float(self.scale, &Mode::default())
            };
        }
        if let Some(factor) = self.factor {
            let Exact::Finite { ratio, .. } = Exact::new(Type::F32, factor.code.into()) else {
                panic!("a factor is finite")
            };
            amax = if factor.divides {
                amax.times(&ratio)
            } else {
                amax.over(&ratio)
            };
        }
        let max = self.max();
        if let Some(format) = format {
            let scale = Exact::Finite {
                negative: false,
                ratio: amax.over(&max),
            };
            let Exact::Finite { ratio, .. } = &scale else {
                unreachable!()
            };
            let magnitude = format.round(false, ratio.dyadic(), Rounding::NearestEven);
            return format.with_sign(false, magnitude.clamp(1, format.max_finite()));
        }
        let mantissa = match self.element.format() {
            Some(format) => format.mantissa_bits as i32,
            // The bits below the leading bit of the largest integer: 6 of int8, 7 of uint8.
            None => self.element.bits() as i32 - 1 - i32::from(self.element.is_signed_integer()),
        };
        let floor = amax.floor_log2();
        let exponent = match self.rule {
            Rule::Amax => panic!("no rule of e8m0"),
            Rule::Floor => floor - max.floor_log2(),
            Rule::Ceil => amax.ceil_log2() - max.floor_log2(),
            Rule::Even => {
                let up = amax.plus(&Ratio::power_of_two(floor - mantissa - 1));
                let carries = !up.is_less(&Ratio::power_of_two(floor + 1));
                floor + i32::from(carries) - max.floor_log2()
            }
            Rule::RoundUp => amax.over(&max).ceil_log2(),
        };
        (exponent.clamp(-127, 127) + 127) as u128
    }
}

/// Rounds the quotient to a float32, then by chance to one of its two neighbours in `to`.
fn stochastic(v: &Exact, to: Type, mode: &Mode, word: u32) -> u128 {
    let rounded = Exact::new(Type::F32, v.to_float(Type::F32, &Mode::default()));
    by_chance(&rounded, to, mode, word)
}

/// Returns the code of an unscaled cast with stochastic rounding.
pub fn convert_stochastic(from: Type, to: Type, code: u128, mode: &Mode, word: u32) -> u128 {
    match Exact::new(from, code) {
        // "What is below zero is decided before that."
        Exact::Finite { negative: true, .. } if to.format().is_some_and(|to| !to.has_sign()) => {
            crate::convert(from, to, code, mode)
        }
        finite @ Exact::Finite { .. } => by_chance(&finite, to, mode, word),
        _ => crate::convert(from, to, code, mode),
    }
}

/// Returns the random word of element `n` under a seed, "in wrapping arithmetic".
pub fn word(seed: u64, n: u64) -> u32 {
    let mix64 = |x: u64| {
        let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    };
    let k = mix64(mix64(seed) ^ n >> 32);
    let mut x = (n as u32) ^ (k as u32);
    x = (x ^ x >> 17).wrapping_mul(0xED5A_D4BB);
    x = (x ^ x >> 11)
        .wrapping_add((k >> 32) as u32)
        .wrapping_mul(0xAC4C_1B51);
    x = (x ^ x >> 15).wrapping_mul(0x3184_8BAB);
    x ^ x >> 14
}

/// Returns one of the two neighbours of a value in `to`: the upper one if the value's position between
/// them, as a fraction of the gap, and the word, as a fraction of 2^32, add up to 1 or more.
fn by_chance(v: &Exact, to: Type, mode: &Mode, word: u32) -> u128 {
    let Exact::Finite { negative, ratio } = v else {
        return v.to_float(to, mode);
    };
    let format = to.format().expect("a float");
    let lower = format.lower_neighbour(ratio.dyadic());
    let (below, above) = (
        Ratio::new(format.value(lower)),
        Ratio::new(format.value(lower + 1)),
    );
    // floor((|x| - t) / (a - t) * 2^32): the position in units of 2^-32 of the gap.
    let common = |x: &Ratio| &x.num * ((&below.den * &above.den * &ratio.den) / &x.den);
    let (x, t, a) = (common(ratio), common(&below), common(&above));
    let part = ((x - &t) << 32u32) / (a - t);
    let up = part + BigUint::from(word) >= (BigUint::from(1u8) << 32u32);
    let magnitude = lower + u64::from(up);
    if magnitude > format.max_finite() {
        return beyond_max(to, format, *negative, mode);
    }
    format.with_sign(*negative, magnitude)
}

/// Returns the code of an element: of a value of `from` under a given scale and zero point.
pub fn quantize(
    scaling: &Scaling,
    from: Type,
    code: u128,
    scale: u128,
    zero: i128,
    mode: &Mode,
    word: Option<u32>,
) -> u128 {
    scaling.quotient(&Exact::new(from, code), scale, zero, mode, word)
}

/// Returns the scale of a block of codes of `from`.
pub fn find(scaling: &Scaling, from: Type, codes: &[u128]) -> u128 {
    let values: Vec<Exact> = codes.iter().map(|&code| Exact::new(from, code)).collect();
    scaling.find(&values)
}

/// Returns the tensor scale that is computed from all of its codes of `from`.
pub fn factor(scaling: &Scaling, from: Type, codes: &[u128], divides: bool) -> Factor {
    let values: Vec<Exact> = codes.iter().map(|&code| Exact::new(from, code)).collect();
    scaling.computed(&values, divides)
}

/// Returns the code of `to` that an element stands for.
pub fn dequantize(
    scaling: &Scaling,
    to: Type,
    code: u128,
    scale: u128,
    zero: i128,
    mode: &Mode,
) -> u128 {
    scaling.value(code, scale, zero).to_float(to, mode)
}

/// An element under a scaling: its code, its scale and its zero point.
pub type Scaled = (u128, u128, i128);

/// Returns the exact values of elements.
fn values(source: &Scaling, elements: &[Scaled]) -> Vec<Exact> {
    elements
        .iter()
        .map(|&(code, scale, zero)| source.value(code, scale, zero))
        .collect()
}

/// Returns the tensor scale whose elements had another scaling, `source`.
pub fn refactor(scaling: &Scaling, source: &Scaling, elements: &[Scaled], divides: bool) -> Factor {
    scaling.computed(&values(source, elements), divides)
}

/// Returns the scale of a block whose elements had another scaling, `source`.
pub fn refind(scaling: &Scaling, source: &Scaling, elements: &[Scaled]) -> u128 {
    scaling.find(&values(source, elements))
}

/// Returns the code of an element that had another scaling, `source`.
pub fn requantize(
    scaling: &Scaling,
    source: &Scaling,
    element: Scaled,
    scale: u128,
    mode: &Mode,
    word: Option<u32>,
) -> u128 {
    scaling.quotient(
        &source.value(element.0, element.1, element.2),
        scale,
        0,
        mode,
        word,
    )
}

/// Returns what ONNX's DynamicQuantizeLinear makes of codes of float32: the codes of `y`, `y_scale` and
/// `y_zero_point`. Each operation of its text is exact, then rounded to a float32.
pub fn dynamic_quantize(codes: &[u128]) -> (Vec<u128>, u128, u128) {
    let integer = |n: u128| Exact::Finite {
        negative: false,
        ratio: Ratio::new(Dyadic::new(n, 0)),
    };
    let values: Vec<Exact> = codes
        .iter()
        .map(|&code| Exact::new(Type::F32, code))
        .collect();
    // "minimum(0, min(x))" without its sign, or "maximum(0, max(x))".
    let farthest = |below: bool| {
        let mut found = integer(0);
        for x in values.iter().filter(|x| x.is_negative() == below) {
            match (&found, x) {
                (Exact::Finite { ratio: most, .. }, Exact::Finite { ratio, .. })
                    if most.is_less(ratio) =>
                {
                    found = Exact::Finite {
                        negative: false,
                        ratio: ratio.clone(),
                    };
                }
                (_, Exact::Inf { .. }) => found = Exact::Inf { negative: false },
                _ => {}
            }
        }
        found
    };
    let nan = Exact::NaN { negative: false };
    let has_nan = values.iter().any(|x| matches!(x, Exact::NaN { .. }));
    let (low, high) = (farthest(true), farthest(false));
    let range = match (&low, &high) {
        _ if has_nan => nan.clone(),
        (Exact::Finite { ratio: low, .. }, Exact::Finite { ratio: high, .. }) => Exact::Finite {
            negative: false,
            ratio: low.plus(high),
        },
        _ => Exact::Inf { negative: false },
    };
    // "All zeros, or no elements: the scale is 1."
    let scale = if range.is_zero() {
        integer(1)
    } else {
        range.to_f32().combine(&integer(255), true).to_f32()
    };
    // "qmin - min(x) / y_scale", where "NaN saturates to 255".
    let low = if has_nan { nan } else { low };
    let zero = match low.combine(&scale, true).to_f32() {
        Exact::NaN { .. } => 255,
        shifted => shifted.to_integer(Rounding::NearestEven, 0, 0..=255),
    };
    let y = values
        .iter()
        .map(|x| x.combine(&scale, true).to_f32())
        .map(|v| integer_code(Type::U8, v.to_integer(Rounding::NearestEven, zero, 0..=255)))
        .collect();
    (y, scale.to_float(Type::F32, &Mode::default()), zero as u128)
}
