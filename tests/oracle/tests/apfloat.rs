//! The oracle against LLVM's APFloat (`rustc_apfloat`), for every format that it has, in all rounding modes.

use lanecast_oracle::{Mode, Overflow, Rounding, Type, convert, interesting};
use rustc_apfloat::ieee::{BFloat, Double, Float8E4M3FN, Float8E5M2, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round, Status};

fn apfloat_round(rounding: Rounding) -> Round {
    match rounding {
        Rounding::NearestEven => Round::NearestTiesToEven,
        Rounding::NearestAway => Round::NearestTiesToAway,
        Rounding::TowardZero => Round::TowardZero,
        Rounding::Up => Round::TowardPositive,
        Rounding::Down => Round::TowardNegative,
    }
}

/// Returns the interesting codes of a pair, and random ones. Wide sources have thousands, in groups of six around a boundary,
/// of which every seventh is taken: another place in each group. With `LANECAST_TESTS=all` all are taken, and ten times as
/// many random ones.
fn codes(from: Type, to: Type) -> Vec<u128> {
    let is_whole = std::env::var_os("LANECAST_TESTS").is_some();
    let mut codes = interesting(from, to);
    if !is_whole && from.bits() > 16 {
        codes = codes.into_iter().step_by(7).collect();
    }
    if from.bits() > 16 {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ u64::from(to.bits());
        let random = if is_whole { 200_000 } else { 20_000 };
        for _ in 0..random {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let high = state >> 32;
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            codes.push(u128::from(high << 32 | state >> 32) & ((1 << from.bits()) - 1));
        }
    }
    codes
}

fn apfloat_convert<S: FloatConvert<T>, T: Float>(
    from: Type,
    to: Type,
    code: u128,
    rounding: Rounding,
) -> u128 {
    let convert = |code, round| S::from_bits(code).convert_r(round, &mut false).value;
    let round = apfloat_round(rounding);
    let x = S::from_bits(code);
    if to == Type::E4M3FN && x.is_negative() && !x.is_nan() {
        // rustc_apfloat 0.2.3 does not mirror the rounding direction where a negative number overflows
        // by less than a binade (-480 rounded up gives NaN, -1e9 gives -448). So convert -x, rounded the
        // other way, and negate the result.
        let sign = 1 << (from.bits() - 1);
        return (-convert(code ^ sign, -round)).to_bits();
    }
    convert(code, round).to_bits()
}

fn float_to_float<S: FloatConvert<T>, T: Float>(from: Type, to: Type) {
    let codes = codes(from, to);
    for rounding in Rounding::ALL {
        let mode = Mode {
            rounding,
            saturate: false,
            ..Mode::default()
        };
        for &code in &codes {
            let ours = convert(from, to, code, &mode);
            let theirs = apfloat_convert::<S, T>(from, to, code, rounding);
            if from.is_nan_code(code) && (from.bits() <= 8 || to.bits() <= 8) {
                // The contract gives the canonical NaN for these formats, but APFloat keeps payloads.
                let sign = |t: Type, code: u128| code >> (t.bits() - 1);
                assert!(to.is_nan_code(ours) && to.is_nan_code(theirs));
                assert_eq!(sign(from, code), sign(to, ours));
                continue;
            }
            assert_eq!(ours, theirs, "{from:?} -> {to:?} {rounding:?} {code:#x}");
        }
    }
}

macro_rules! float_pairs {
    ($($test:ident: $source:ty, $from:ident;)*) => {$(
        #[test]
        fn $test() {
            float_pairs!(@to $source, $from, Double, F64);
            float_pairs!(@to $source, $from, Single, F32);
            float_pairs!(@to $source, $from, Half, F16);
            float_pairs!(@to $source, $from, BFloat, BF16);
            float_pairs!(@to $source, $from, Float8E5M2, E5M2);
            float_pairs!(@to $source, $from, Float8E4M3FN, E4M3FN);
        }
    )*};
    (@to $source:ty, $from:ident, $target:ty, $to:ident) => {
        if Type::$from != Type::$to {
            float_to_float::<$source, $target>(Type::$from, Type::$to);
        }
    };
}

float_pairs! {
    from_float64: Double, F64;
    from_float32: Single, F32;
    from_float16: Half, F16;
    from_bfloat16: BFloat, BF16;
    from_float8_e5m2: Float8E5M2, E5M2;
    from_float8_e4m3fn: Float8E4M3FN, E4M3FN;
}

const INTEGERS: [Type; 12] = [
    Type::U2,
    Type::I2,
    Type::U4,
    Type::I4,
    Type::U8,
    Type::I8,
    Type::U16,
    Type::I16,
    Type::U32,
    Type::I32,
    Type::U64,
    Type::I64,
];

/// Returns the value of an integer code, by a shift to the top and back.
fn integer_value(t: Type, code: u128) -> i128 {
    let unused = 128 - t.bits();
    if t.is_signed_integer() {
        (code << unused) as i128 >> unused
    } else {
        code as i128
    }
}

fn integers_to_float<T: Float>(to: Type) {
    for from in INTEGERS {
        let codes = codes(from, to);
        for rounding in Rounding::ALL {
            let mode = Mode {
                rounding,
                saturate: false,
                ..Mode::default()
            };
            for &code in &codes {
                let value = integer_value(from, code);
                let theirs = T::from_i128_r(value, apfloat_round(rounding)).value;
                let ours = convert(from, to, code, &mode);
                assert_eq!(
                    ours,
                    theirs.to_bits(),
                    "{from:?} -> {to:?} {rounding:?} {value}"
                );
            }
        }
    }
}

#[test]
fn integers_to_floats() {
    integers_to_float::<Double>(Type::F64);
    integers_to_float::<Single>(Type::F32);
    integers_to_float::<Half>(Type::F16);
    integers_to_float::<BFloat>(Type::BF16);
    integers_to_float::<Float8E5M2>(Type::E5M2);
    integers_to_float::<Float8E4M3FN>(Type::E4M3FN);
}

fn float_to_integers<S: Float>(from: Type) {
    for to in INTEGERS {
        let codes = codes(from, to);
        let width = to.bits() as usize;
        let mask = (1 << width) - 1;
        for rounding in Rounding::ALL {
            let saturate = Mode {
                int_rounding: rounding,
                ..Mode::default()
            };
            let wrap = Mode {
                float_to_int: Overflow::Wrap,
                ..saturate
            };
            for &code in &codes {
                let x = S::from_bits(code);
                let round = apfloat_round(rounding);
                // Out of range, APFloat gives the nearest limit and says "invalid"; NaN is 0.
                let (status, theirs) = if to.is_signed_integer() {
                    let result = x.to_i128_r(width, round, &mut false);
                    (result.status, result.value as u128 & mask)
                } else {
                    let result = x.to_u128_r(width, round, &mut false);
                    (result.status, result.value)
                };
                let ours = convert(from, to, code, &saturate);
                let what = || format!("{from:?} -> {to:?} {rounding:?} {code:#x}");
                assert_eq!(ours, theirs, "{}", what());
                let wrapped = convert(from, to, code, &wrap);
                if !status.contains(Status::INVALID_OP) {
                    assert_eq!(wrapped, theirs, "{}", what());
                    continue;
                }
                // A value that fits in 127 bits wraps to its low bits.
                let wide = x.to_i128_r(127, round, &mut false);
                if !wide.status.contains(Status::INVALID_OP) {
                    assert_eq!(wrapped, wide.value as u128 & mask, "{}", what());
                } else {
                    // NaN, Inf, or a multiple of 2^64.
                    assert_eq!(wrapped, 0, "{}", what());
                }
            }
        }
    }
}

#[test]
fn floats_to_integers() {
    float_to_integers::<Double>(Type::F64);
    float_to_integers::<Single>(Type::F32);
    float_to_integers::<Half>(Type::F16);
    float_to_integers::<BFloat>(Type::BF16);
    float_to_integers::<Float8E5M2>(Type::E5M2);
    float_to_integers::<Float8E4M3FN>(Type::E4M3FN);
}
