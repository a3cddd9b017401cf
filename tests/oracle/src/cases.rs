//! The options and the source codes that are worth trying for a pair of dtypes.

use crate::exact::{Dyadic, Rounding};
use crate::types::{Format, Specials, low_bits};
use crate::{E8m0Rounding, Mode, NanToFinite, Overflow, Type};

// ---- modes ----------------------------------------------------------------------------------

/// The properties of the values of a real dtype that decide which rules can apply.
struct Span {
    /// Significant bits of a value, at most.
    precision: u32,
    /// Every value is a multiple of 2^quantum.
    quantum: i32,
    max: Dyadic,
    has_negatives: bool,
    has_inf: bool,
    has_nan: bool,
}

impl Span {
    fn of(t: Type) -> Span {
        if let Some(format) = t.format() {
            Span {
                precision: format.mantissa_bits + 1,
                quantum: 1 - format.bias - format.mantissa_bits as i32,
                max: format.value(format.max_finite()),
                has_negatives: format.has_sign(),
                has_inf: format.infinity().is_some(),
                has_nan: format.has_nan(),
            }
        } else if t == Type::E8M0FNU {
            Span {
                precision: 1,
                quantum: -127,
                max: Dyadic::power_of_two(127),
                has_negatives: false,
                has_inf: false,
                has_nan: true,
            }
        } else {
            let (min, max) = match t {
                Type::Bool => (0, 1),
                _ => t.integer_limits(),
            };
            Span {
                // The largest magnitude of a signed integer is a power of two: 1 bit.
                precision: 128 - max.leading_zeros(),
                quantum: 0,
                max: Dyadic::new(max.max(-min).unsigned_abs(), 0),
                has_negatives: min < 0,
                has_inf: false,
                has_nan: false,
            }
        }
    }

    fn is_exact_in(&self, to: &Span) -> bool {
        self.precision <= to.precision && self.quantum >= to.quantum && self.max <= to.max
    }
}

/// Replaces the modes by their product with the values of one more option.
fn product<T: Copy>(modes: &mut Vec<Mode>, values: &[T], set: impl Fn(&mut Mode, T)) {
    let with = |(mode, value): (&Mode, T)| {
        let mut mode = *mode;
        set(&mut mode, value);
        mode
    };
    *modes = values
        .iter()
        .flat_map(|value| modes.iter().map(move |mode| (mode, *value)))
        .map(with)
        .collect();
}

/// Returns every mode that can change a result of this pair, each once, the default first. Options
/// that do not concern the pair stay at their defaults.
pub fn modes(from: Type, to: Type) -> Vec<Mode> {
    use {E8m0Rounding as E, NanToFinite as N, Overflow as O, Rounding as R};
    let mut modes = vec![Mode::default()];
    let (from, to) = (from.part(), to.part());
    if from == to || to == Type::Bool {
        return modes;
    }
    let source = Span::of(from);
    if to == Type::E8M0FNU {
        if source.precision > 1 {
            product(&mut modes, &E::ALL, |mode, v| mode.e8m0_rounding = v);
        }
        product(&mut modes, &[true, false], |mode, v| mode.saturate = v);
    } else if let Some(format) = to.format() {
        let target = Span::of(to);
        if !source.is_exact_in(&target) {
            product(&mut modes, &R::ALL, |mode, v| mode.rounding = v);
        }
        let overflows = source.max > target.max
            || source.has_inf
            || source.has_negatives && !target.has_negatives;
        if to.bits() <= 8 && format.specials != Specials::None && overflows {
            product(&mut modes, &[true, false], |mode, v| mode.saturate = v);
        }
        if source.has_nan && !target.has_nan {
            product(&mut modes, &N::ALL, |mode, v| mode.nan_to_finite = v);
        }
    } else {
        let (min, max) = to.integer_limits();
        let overflows = source.max > Dyadic::new(max.unsigned_abs(), 0)
            || source.has_inf
            || source.has_negatives && min == 0;
        if from.is_float() {
            float_to_integer_modes(&mut modes, to, overflows);
        } else if overflows {
            product(&mut modes, &[O::Wrap, O::Saturate], |mode, v| {
                mode.int_to_int = v
            });
        }
    }
    modes
}

fn float_to_integer_modes(modes: &mut Vec<Mode>, to: Type, overflows: bool) {
    use {Overflow as O, Rounding as R};
    let roundings = [
        R::TowardZero,
        R::NearestEven,
        R::NearestAway,
        R::Up,
        R::Down,
    ];
    product(modes, &roundings, |mode, v| mode.int_rounding = v);
    if overflows {
        product(modes, &[O::Saturate, O::Wrap], |mode, v| {
            mode.float_to_int = v
        });
    }
    if to.bits() >= 8 {
        return;
    }
    // The same modes set by the narrow options, which must win over general ones that differ.
    let general = modes.clone();
    for mode in &general {
        modes.push(Mode {
            int_rounding: other_rounding(mode.int_rounding),
            float_to_int: other_overflow(mode.float_to_int),
            narrow_int_rounding: Some(mode.int_rounding),
            narrow_float_to_int: Some(mode.float_to_int),
            ..*mode
        });
    }
    // Only one of the two narrow options.
    modes.push(Mode {
        narrow_int_rounding: Some(R::NearestEven),
        ..Mode::default()
    });
    if overflows {
        modes.push(Mode {
            narrow_float_to_int: Some(O::Wrap),
            ..Mode::default()
        });
    }
}

fn other_rounding(rounding: Rounding) -> Rounding {
    match rounding {
        Rounding::TowardZero => Rounding::NearestAway,
        Rounding::NearestEven => Rounding::TowardZero,
        Rounding::NearestAway => Rounding::NearestEven,
        Rounding::Up => Rounding::Down,
        Rounding::Down => Rounding::Up,
    }
}

fn other_overflow(overflow: Overflow) -> Overflow {
    match overflow {
        Overflow::Saturate => Overflow::Wrap,
        Overflow::Wrap => Overflow::Saturate,
    }
}

// ---- source codes ---------------------------------------------------------------------------

/// Returns interesting source codes for a pair, sorted, each once: all codes of a source of 16 bits
/// or fewer.
pub fn interesting(from: Type, to: Type) -> Vec<u128> {
    let mut codes = if from.bits() <= 16 {
        return (0..1 << from.bits()).collect();
    } else if from.is_complex() {
        complex_codes(from, to)
    } else {
        Collector::new(from).collect(to)
    };
    if from.bits() <= 64 {
        // Sorting u64 takes half the time of u128. The stable sort merges runs that are in order already.
        let mut narrow: Vec<u64> = codes.into_iter().map(|code| code as u64).collect();
        narrow.sort();
        narrow.dedup();
        return narrow.into_iter().map(u128::from).collect();
    }
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// Returns the interesting real parts, each with various imaginary parts.
fn complex_codes(from: Type, to: Type) -> Vec<u128> {
    let part = from.part();
    let half = part.bits();
    let join = |re: u128, im: u128| re | im << half;
    let reals = interesting(part, to.part());
    let zero = Dyadic::ZERO;
    let one = Dyadic::power_of_two(0);
    let format = part.format().expect("the parts are floats");
    let code = |negative, x| format.with_sign(negative, format.lower_neighbour(x));
    let infinity = format.infinity().expect("the parts have infinities");
    let imaginary = [
        code(false, zero),
        code(true, zero),
        format.nan(false),
        format.nan(true),
        format.with_sign(false, infinity + 1), // signalling
        code(false, one),
        code(true, one),
        format.with_sign(false, infinity),
        format.with_sign(true, 1),
    ];
    let mut out = Vec::new();
    for (i, &im) in imaginary.iter().enumerate() {
        let some = reals.iter().skip(i).step_by(imaginary.len());
        out.extend(some.map(|&re| join(re, im)));
    }
    for (i, &re) in reals.iter().enumerate() {
        let other = (i as u64 * 7919 + 1) % reals.len() as u64;
        out.push(join(re, reals[other as usize]));
    }
    for (i, &re) in special_codes(format).iter().enumerate() {
        for &im in imaginary.iter().chain(&special_codes(format)[i..]) {
            out.push(join(re, im));
            out.push(join(im, re));
        }
    }
    out
}

/// Returns zeros, extremes and every class of Inf and NaN of an IEEE format, in both signs.
fn special_codes(format: Format) -> Vec<u128> {
    let infinity = format.infinity().expect("an IEEE format");
    let quiet = 1 << (format.mantissa_bits - 1);
    let all = format.mantissa_mask();
    let magnitudes = [
        0,
        1,                                  // smallest subnormal
        format.mantissa_mask(),             // largest subnormal
        format.mantissa_mask() + 1,         // smallest normal
        format.max_finite(),                // largest
        infinity,                           // Inf
        infinity | 1,                       // signalling, lowest payload bit
        infinity | quiet >> 1,              // signalling, highest payload bit
        infinity | (quiet - 1),             // signalling, all payload bits
        infinity | quiet,                   // quiet
        infinity | quiet | 1,               // quiet, lowest payload bit
        infinity | quiet | quiet >> 1,      // quiet, highest payload bit
        infinity | 0x5555_5555_5555 & all,  // alternating bits
        infinity | !0x5555_5555_5555 & all, // the complementary bits
        infinity | all,                     // all ones
    ];
    let both_signs = |m: u64| [format.with_sign(false, m), format.with_sign(true, m)];
    let mut codes: Vec<u128> = magnitudes.into_iter().flat_map(both_signs).collect();
    // Each payload bit alone, and with all bits below it set: one of them is where a payload is cut off.
    for bit in 0..format.mantissa_bits {
        let (one, run) = (infinity | 1 << bit, infinity | ((2 << bit) - 1));
        codes.extend(both_signs(one));
        codes.extend(both_signs(run));
        codes.extend(both_signs(one | quiet));
    }
    codes
}

/// Collects codes of one source dtype of 32 or 64 bits.
struct Collector {
    from: Type,
    codes: Vec<u128>,
    /// Of a float source: magnitudes, each of which gives a code of either sign.
    magnitudes: Vec<u64>,
    random: Random,
}

impl Collector {
    fn new(from: Type) -> Collector {
        Collector {
            from,
            codes: Vec::new(),
            magnitudes: Vec::new(),
            random: Random(0x1234_5678_9ABC_DEF1),
        }
    }

    fn collect(mut self, to: Type) -> Vec<u128> {
        if let Some(format) = self.from.format() {
            self.codes.extend(special_codes(format));
        } else {
            self.codes
                .extend([0, low_bits(u128::MAX, self.from.bits())]);
        }
        self.powers_and_limits();
        for point in boundaries(to.part(), &mut self.random) {
            self.around(point);
        }
        if self.from.bits() == 64 {
            for point in sampled_boundaries(to.part(), &mut self.random) {
                self.near(point);
            }
        }
        self.random_codes(to.part());
        if let Some(format) = self.from.format() {
            self.magnitudes.sort();
            self.magnitudes.dedup();
            for negative in [false, true] {
                let code = |&magnitude: &u64| format.with_sign(negative, magnitude);
                self.codes.extend(self.magnitudes.iter().map(code));
            }
        }
        self.codes
    }

    /// Adds powers of two and the limits of the integers: `2^k`, `2^k + n/2`, `1.5 * 2^k`.
    fn powers_and_limits(&mut self) {
        for k in -1100..=1025 {
            self.around(Dyadic::power_of_two(k));
            self.around(Dyadic::new(3, k - 1));
        }
        for k in 0..=65 {
            for half_steps in -5..=5 {
                let m = (2_i128 << k) + half_steps;
                self.around(Dyadic::new(m.max(0).unsigned_abs(), -1));
            }
            self.near(Dyadic::power_of_two(k));
            self.near(Dyadic::new(3, k - 1));
        }
    }

    /// Adds the source codes at `x` and a few ulps away, and the same for `-x`.
    fn around(&mut self, x: Dyadic) {
        self.offsets(x, &[-2, -1, 0, 1, 2, 3]);
    }

    /// Adds the source codes that are `±2^j` ulps from `x`, and the same for `-x`.
    fn near(&mut self, x: Dyadic) {
        let powers = (0..63).flat_map(|j| [1 << j, -(1 << j)]);
        self.offsets(x, &powers.collect::<Vec<i128>>());
    }

    fn offsets(&mut self, x: Dyadic, offsets: &[i128]) {
        let bits = self.from.bits();
        if let Some(format) = self.from.format() {
            let infinity = format.infinity().expect("wide formats have infinities");
            if !x.is_zero() && x.floor_log2() > format.value(infinity).floor_log2() {
                return;
            }
            let base = format.lower_neighbour(x).min(infinity);
            for offset in offsets {
                let magnitude = i128::from(base) + offset;
                if (0..=i128::from(infinity)).contains(&magnitude) {
                    self.magnitudes.push(magnitude as u64);
                }
            }
        } else {
            if !x.is_zero() && x.floor_log2() > 65 {
                return;
            }
            let base = if x.q >= 0 {
                x.m << x.q
            } else {
                x.m.checked_shr(x.q.unsigned_abs()).unwrap_or(0)
            };
            let (min, max) = self.from.integer_limits();
            for offset in offsets {
                let magnitude = base as i128 + offset;
                for value in [magnitude, -magnitude] {
                    if (min..=max).contains(&value) {
                        self.codes.push(low_bits(value as u128, bits));
                    }
                }
            }
        }
    }

    fn random_codes(&mut self, to: Type) {
        const COUNT: usize = 20_000;
        let bits = self.from.bits();
        for _ in 0..COUNT {
            let code = self.random.next();
            self.codes.push(low_bits(code.into(), bits));
            // Integers with any number of significant bits.
            self.codes
                .push(low_bits((code >> (code % 64)).into(), bits));
        }
        // Floats whose exponents matter to the target.
        let (Some(format), span) = (self.from.format(), Span::of(to)) else {
            return;
        };
        let (low, high) = (span.quantum - 2, span.max.floor_log2() + 3);
        for _ in 0..COUNT {
            let exponent = low + (self.random.next() % (high - low) as u64) as i32;
            let mantissa = u128::from(self.random.next()) | 1 << 64;
            let x = Dyadic::new(mantissa, exponent - 64);
            let magnitude = format.lower_neighbour(x);
            if magnitude <= format.max_finite() {
                let negative = self.random.next() % 2 == 1;
                self.codes.push(format.with_sign(negative, magnitude));
            }
        }
    }
}

/// Returns the magnitudes at which the result of a conversion to `to` changes: every value and every
/// midpoint of neighbours, including one past the top. Targets of 32 and 64 bits get a sample.
fn boundaries(to: Type, random: &mut Random) -> Vec<Dyadic> {
    if let Some(format) = to.format() {
        let magnitudes: Vec<u64> = if to.bits() <= 16 {
            (0..=format.max_finite() + 2).collect()
        } else {
            sampled_magnitudes(format, 24, random)
        };
        magnitudes
            .into_iter()
            .flat_map(|m| with_midpoint(format, m))
            .collect()
    } else if to == Type::E8M0FNU {
        let thresholds = |e| {
            let quarter = e - 2; // 1, 1.25, 1.5, 1.75
            (4..8).map(move |m| Dyadic::new(m, quarter))
        };
        (-130..=130).flat_map(thresholds).collect()
    } else {
        // Integers and the midpoints between them. `powers_and_limits` adds those of wide targets.
        let top = if to.bits() <= 16 {
            1 << to.bits()
        } else {
            1 << 10
        };
        (0..2 * top + 4).map(|m| Dyadic::new(m, -1)).collect()
    }
}

/// Returns some of the boundaries, for callers that add many codes for each.
fn sampled_boundaries(to: Type, random: &mut Random) -> Vec<Dyadic> {
    match to.format() {
        Some(format) if to.bits() > 8 => sampled_magnitudes(format, 2, random)
            .into_iter()
            .flat_map(|m| with_midpoint(format, m))
            .collect(),
        _ => boundaries(to, random)
            .into_iter()
            .filter(|x| x.m <= 600 || x.m % 511 == 0)
            .collect(),
    }
}

fn with_midpoint(format: Format, magnitude: u64) -> [Dyadic; 2] {
    let (value, next) = (format.value(magnitude), format.value(magnitude + 1));
    [value, Dyadic::midpoint(value, next)]
}

/// Returns magnitudes for the exponent fields (a part of them where there are many): the ends of each
/// field, patterns, and random ones.
fn sampled_magnitudes(format: Format, randoms: usize, random: &mut Random) -> Vec<u64> {
    let all = format.mantissa_mask();
    let fields = 0..(1_u64 << format.exponent_bits);
    let mut out = Vec::new();
    for field in fields {
        let near_one = field.abs_diff(format.bias as u64) < 140;
        if !near_one && field % 16 != 0 && field > 2 && field < fields_end(format) {
            continue;
        }
        let base = field << format.mantissa_bits;
        out.extend([0, 1, 2, all / 2, all / 2 + 1, all / 3, all - 1, all].map(|m| base | m));
        out.extend((0..randoms).map(|_| base | random.next() & all));
    }
    out.retain(|&m| m <= format.max_finite() + 2);
    out
}

/// Returns the first of the top exponent fields, which are never left out.
fn fields_end(format: Format) -> u64 {
    (1 << format.exponent_bits) - 3
}

/// A small generator with a fixed seed (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}
