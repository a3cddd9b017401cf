//! The tables and examples of the contract, written out by hand.

use lanecast_oracle::{
    E8m0Rounding, Mode, NanToFinite, Overflow, Rounding, Type, convert, interesting,
};

const SATURATE: Mode = mode(true, Rounding::NearestEven);
const NO_SATURATE: Mode = mode(false, Rounding::NearestEven);

const fn mode(saturate: bool, rounding: Rounding) -> Mode {
    Mode {
        rounding,
        int_rounding: Rounding::TowardZero,
        saturate,
        float_to_int: Overflow::Saturate,
        int_to_int: Overflow::Wrap,
        nan_to_finite: NanToFinite::NegZero,
        e8m0_rounding: E8m0Rounding::Up,
        narrow_int_rounding: None,
        narrow_float_to_int: None,
    }
}

fn f32_to(to: Type, x: f32, mode: &Mode) -> u128 {
    convert(Type::F32, to, x.to_bits().into(), mode)
}

fn f64_to(to: Type, x: f64, mode: &Mode) -> u128 {
    convert(Type::F64, to, x.to_bits().into(), mode)
}

/// Returns the value of a code of a narrow float, as a float64.
fn value(from: Type, code: u128) -> f64 {
    f64::from_bits(convert(from, Type::F64, code, &SATURATE) as u64)
}

#[test]
fn defaults() {
    assert_eq!(Mode::default(), SATURATE);
}

/// "As uint2, as int2: floats truncate and saturate, integers wrap: 1 -> -1, bool true -> -1."
#[test]
fn single_bits() {
    for (x, unsigned, signed) in [
        (0.0, 0, 0),
        (0.99, 0, 0),
        (1.0, 1, 0),
        (7.0, 1, 0),
        (-0.99, 0, 0),
        (-1.0, 0, 1),
        (-7.0, 0, 1),
        (f32::INFINITY, 1, 0),
        (f32::NEG_INFINITY, 0, 1),
        (f32::NAN, 0, 0),
    ] {
        assert_eq!(f32_to(Type::U1, x, &SATURATE), unsigned, "{x}");
        assert_eq!(f32_to(Type::I1, x, &SATURATE), signed, "{x}");
    }
    for (from, code, wrapped, saturated) in [
        (Type::Bool, 1, [1, 1], [1, 0]),
        (Type::I8, 1, [1, 1], [1, 0]),
        (Type::I8, 2, [0, 0], [1, 0]),
        (Type::I8, 0xFF, [1, 1], [0, 1]),
    ] {
        let clamps = Mode {
            int_to_int: Overflow::Saturate,
            ..SATURATE
        };
        let both = |mode: &Mode| [Type::U1, Type::I1].map(|to| convert(from, to, code, mode));
        assert_eq!(both(&SATURATE), wrapped, "{from:?} {code}");
        assert_eq!(both(&clamps), saturated, "{from:?} {code}");
    }
    assert_eq!([value(Type::U1, 1), value(Type::I1, 1)], [1.0, -1.0]);
}

/// "0-5-3, bias 15; max 114688 = FE; NaN FF alone; no Inf; 00 is 0; smallest 2^-17 = 01."
#[test]
fn a_float_without_a_sign() {
    assert_eq!(value(Type::UE5M3, 0xFE), 114688.0);
    assert_eq!(value(Type::UE5M3, 0x01), 2f64.powi(-17));
    assert_eq!(value(Type::UE5M3, 0x78), 1.0);
    assert_eq!(value(Type::UE5M3, 0x00).to_bits(), 0);
    for (x, saturated, open) in [
        (1.0, 0x78, 0x78),
        (114688.0, 0xFE, 0xFE),
        (118784.0, 0xFE, 0xFE), // a tie
        (118784.01, 0xFE, 0xFF),
        (f64::INFINITY, 0xFE, 0xFF),
        (f64::NAN, 0xFF, 0xFF),
        (0.0, 0x00, 0x00),
        (-0.0, 0x00, 0x00),
        (-1.0, 0x00, 0xFF),
        (-1e-300, 0x00, 0xFF),
        (f64::NEG_INFINITY, 0x00, 0xFF),
        (1e-300, 0x00, 0x00),
        (2f64.powi(-18), 0x00, 0x00), // a tie
        (1.01 * 2f64.powi(-18), 0x01, 0x01),
    ] {
        assert_eq!(f64_to(Type::UE5M3, x, &SATURATE), saturated, "{x}");
        assert_eq!(f64_to(Type::UE5M3, x, &NO_SATURATE), open, "{x}");
    }
    for (rounding, above, below) in [
        (Rounding::Up, 0xFF, 0x01),
        (Rounding::Down, 0xFE, 0x00),
        (Rounding::TowardZero, 0xFE, 0x00),
    ] {
        let mode = mode(false, rounding);
        assert_eq!(f64_to(Type::UE5M3, 1e30, &mode), above, "{rounding:?}");
        assert_eq!(f64_to(Type::UE5M3, 1e-30, &mode), below, "{rounding:?}");
        assert_eq!(f64_to(Type::UE5M3, -1e-30, &mode), 0xFF, "{rounding:?}");
    }
}

/// The dtypes are those of the contract's table, with its codes and widths.
#[test]
fn names_and_order() {
    const PAGE: &str = include_str!("../../../docs/contract.md");
    let table = PAGE
        .lines()
        .skip_while(|line| !line.starts_with("| name (canonical"));
    let mut rows = Vec::new();
    for line in table.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<Vec<&str>> = line
            .split('|')
            .map(|cell| cell.split_whitespace().collect())
            .collect();
        for ((name, code), bits) in cells[1].iter().zip(&cells[3]).zip(&cells[4]) {
            rows.push((
                code.parse::<u8>().unwrap(),
                *name,
                bits.parse::<u32>().unwrap(),
            ));
        }
    }
    rows.sort();
    assert!(
        rows.into_iter()
            .eq(Type::ALL.map(|t| (t as u8, t.name(), t.bits())))
    );
    for (i, t) in Type::ALL.into_iter().enumerate() {
        assert_eq!(t as usize, i);
        assert_eq!(Type::from_name(t.name()), Some(t));
        let kinds = [
            t.is_float(),
            t.is_integer(),
            t.is_complex(),
            t == Type::Bool,
        ];
        assert_eq!(kinds.into_iter().filter(|k| *k).count(), 1);
    }
    assert_eq!(Type::from_name("float8"), None);
    assert_eq!(Type::C64.part(), Type::F32);
    assert_eq!(Type::C128.part(), Type::F64);
    assert_eq!(Type::E8M0FNU.part(), Type::E8M0FNU);
}

/// (dtype, code of the largest number, that number, smallest subnormal)
const LIMITS: [(Type, u128, f64, f64); 12] = [
    (Type::E2M1FN, 0x7, 6.0, 0.5),
    (Type::E2M3FN, 0x1F, 7.5, 0.125),
    (Type::E3M2FN, 0x1F, 28.0, 0.0625),
    (Type::E3M4, 0x6F, 15.5, 1.0 / 64.0),
    (Type::E4M3, 0x77, 240.0, 1.0 / 512.0),
    (Type::E4M3FN, 0x7E, 448.0, 1.0 / 512.0),
    (Type::E4M3FNUZ, 0x7F, 240.0, 1.0 / 1024.0),
    (Type::E4M3B11FNUZ, 0x7F, 30.0, 1.0 / 8192.0),
    (Type::E5M2, 0x7B, 57344.0, 1.0 / 65536.0),
    (Type::E5M2FNUZ, 0x7F, 57344.0, 1.0 / 131072.0),
    (Type::F16, 0x7BFF, 65504.0, 1.0 / 16777216.0),
    // 255 * 2^120 and 2^-133
    (
        Type::BF16,
        0x7F7F,
        3.3895313892515355e38,
        9.183549615799121e-41,
    ),
];

#[test]
fn limits_of_the_formats() {
    for (t, max_code, max, tiny) in LIMITS {
        let sign = 1 << (t.bits() - 1);
        assert_eq!(value(t, max_code), max, "{t:?}");
        assert_eq!(value(t, max_code | sign), -max, "{t:?}");
        assert_eq!(value(t, 1), tiny, "{t:?}");
        assert_eq!(f64_to(t, max, &NO_SATURATE), max_code, "{t:?}");
        assert_eq!(f64_to(t, tiny, &NO_SATURATE), 1, "{t:?}");
        // Half of the smallest subnormal ties to zero; anything above does not.
        assert_eq!(f64_to(t, tiny / 2.0, &SATURATE), 0, "{t:?}");
        assert_eq!(f64_to(t, (tiny / 2.0).next_up(), &SATURATE), 1, "{t:?}");
    }
    assert_eq!(value(Type::E8M0FNU, 0xFE), 2f64.powi(127));
    assert_eq!(value(Type::E8M0FNU, 0x00), 2f64.powi(-127));
    assert_eq!(value(Type::E8M0FNU, 127), 1.0);
}

#[test]
fn every_value_of_a_narrow_format_by_its_formula() {
    // (dtype, exponent bits, mantissa bits, bias)
    let layouts = [
        (Type::E2M1FN, 2, 1, 1),
        (Type::E2M3FN, 2, 3, 1),
        (Type::E3M2FN, 3, 2, 3),
        (Type::E3M4, 3, 4, 3),
        (Type::E4M3, 4, 3, 7),
        (Type::E4M3FN, 4, 3, 7),
        (Type::E4M3FNUZ, 4, 3, 8),
        (Type::E4M3B11FNUZ, 4, 3, 11),
        (Type::E5M2, 5, 2, 15),
        (Type::E5M2FNUZ, 5, 2, 16),
        (Type::F16, 5, 10, 15),
        (Type::BF16, 8, 7, 127),
    ];
    for (t, exponent_bits, mantissa_bits, bias) in layouts {
        let sign_bit = exponent_bits + mantissa_bits;
        let max_code = LIMITS.iter().find(|row| row.0 == t).unwrap().1;
        for code in 0..=max_code {
            let field = (code >> mantissa_bits) as i32;
            let fraction = (code % (1 << mantissa_bits)) as f64 / 2f64.powi(mantissa_bits);
            let expected = if field == 0 {
                fraction * 2f64.powi(1 - bias)
            } else {
                (1.0 + fraction) * 2f64.powi(field - bias)
            };
            assert_eq!(value(t, code), expected, "{t:?} {code:#x}");
            if code > 0 {
                assert_eq!(value(t, code | 1 << sign_bit), -expected, "{t:?} {code:#x}");
            }
            // Every value converts back to its code, in every mode.
            for rounding in Rounding::ALL {
                let mode = mode(false, rounding);
                assert_eq!(f64_to(t, expected, &mode), code, "{t:?} {code:#x}");
            }
        }
    }
}

/// Compares with the nearest number, found by a linear search over all of them in fixed point.
#[test]
fn narrow_formats_by_linear_search() {
    let fixed = |x: f64| -> i128 {
        let scaled = x * 2f64.powi(60);
        assert_eq!(scaled, scaled.trunc());
        scaled as i128
    };
    for (t, max_code, _, tiny) in LIMITS {
        if t.bits() > 8 {
            continue;
        }
        // Overflow is decided against the next number past the largest, as far from it as the one below.
        let mut values: Vec<i128> = (0..=max_code).map(|c| fixed(value(t, c))).collect();
        let top = values.len() - 1;
        let next = 2 * values[top] - values[top - 1];
        values.push(next);
        for code in interesting(Type::F32, t) {
            let x = f64::from(f32::from_bits(code as u32));
            if !(tiny / 8.0..1e5).contains(&x) || x * 2f64.powi(60) % 1.0 != 0.0 {
                continue;
            }
            let x = fixed(x);
            let distance = |i: &usize| ((values[*i] - x).abs(), *i % 2);
            let nearest = (0..values.len()).min_by_key(distance).unwrap();
            let ours = convert(Type::F32, t, code, &SATURATE);
            assert_eq!(ours, nearest.min(top) as u128, "{t:?} {code:#x}");
            let below = (0..=top).rev().find(|i| values[*i] <= x).unwrap();
            let ours = convert(Type::F32, t, code, &mode(false, Rounding::TowardZero));
            assert_eq!(ours, below as u128, "{t:?} {code:#x}");
        }
    }
}

#[test]
fn nan_codes() {
    // (dtype, code of +NaN, code of -NaN)
    let table = [
        (Type::E3M4, 0x78, 0xF8),
        (Type::E4M3, 0x7C, 0xFC),
        (Type::E4M3FN, 0x7F, 0xFF),
        (Type::E4M3FNUZ, 0x80, 0x80),
        (Type::E4M3B11FNUZ, 0x80, 0x80),
        (Type::E5M2, 0x7E, 0xFE),
        (Type::E5M2FNUZ, 0x80, 0x80),
        (Type::E8M0FNU, 0xFF, 0xFF),
    ];
    for (t, positive, negative) in table {
        for (nan, expected) in [
            (0x7F80_0001, positive),
            (0x7FC0_0000, positive),
            (0x7FFF_FFFF, positive),
            (0xFF80_0001, negative),
            (0xFFC0_0000, negative),
            (0xFFFF_FFFF, negative),
        ] {
            for saturate in [true, false] {
                let mode = mode(saturate, Rounding::NearestEven);
                assert_eq!(convert(Type::F32, t, nan, &mode), expected, "{t:?}");
            }
        }
        // To a wider float: the canonical quiet NaN with the sign bit of the code; positive from e8m0.
        let sign = |code: u128| (t != Type::E8M0FNU && code >> 7 != 0) as u128;
        for code in [positive, negative] {
            let wide = |to| convert(t, to, code, &SATURATE);
            assert_eq!(wide(Type::F32), 0x7FC0_0000 | sign(code) << 31, "{t:?}");
            assert_eq!(wide(Type::F16), 0x7E00 | sign(code) << 15, "{t:?}");
            assert_eq!(wide(Type::BF16), 0x7FC0 | sign(code) << 15, "{t:?}");
            assert_eq!(
                wide(Type::F64),
                0x7FF8 << 48 | sign(code) << 63,
                "{t:?} {code:#x}"
            );
        }
    }
    // The other NaN codes of e5m2, e4m3 and e3m4 are NaN too; none has a payload to keep.
    assert_eq!(convert(Type::E5M2, Type::F16, 0x7D, &SATURATE), 0x7E00);
    assert_eq!(convert(Type::E5M2, Type::F16, 0xFF, &SATURATE), 0xFE00);
    assert_eq!(convert(Type::E5M2, Type::E4M3FN, 0xFD, &SATURATE), 0xFF);
    assert_eq!(convert(Type::E3M4, Type::E5M2, 0x71, &SATURATE), 0x7E);
    assert_eq!(convert(Type::E4M3, Type::F32, 0x79, &SATURATE), 0x7FC0_0000);
    assert_eq!(convert(Type::E4M3FNUZ, Type::E5M2, 0x80, &SATURATE), 0xFE);
    assert_eq!(convert(Type::E8M0FNU, Type::E5M2, 0xFF, &SATURATE), 0x7E);
    // The number of NaN codes.
    let count = |t: Type| (0..1 << t.bits()).filter(|c| t.is_nan_code(*c)).count();
    for (t, expected) in [
        (Type::Bool, 0),
        (Type::U8, 0),
        (Type::I16, 0),
        (Type::E2M1FN, 0),
        (Type::E2M3FN, 0),
        (Type::E3M2FN, 0),
        (Type::E3M4, 30),
        (Type::E4M3, 14),
        (Type::E4M3FN, 2),
        (Type::E4M3FNUZ, 1),
        (Type::E4M3B11FNUZ, 1),
        (Type::E5M2, 6),
        (Type::E5M2FNUZ, 1),
        (Type::E8M0FNU, 1),
        (Type::F16, 2046),
        (Type::BF16, 254),
    ] {
        assert_eq!(count(t), expected, "{t:?}");
    }
    assert!(Type::C64.is_nan_code(0x7FC0_0000_0000_0000));
    assert!(Type::C64.is_nan_code(0x7FC0_0000));
    assert!(!Type::C64.is_nan_code(0x7F80_0000_7F80_0000));
}

#[test]
fn nan_payloads_between_wide_floats() {
    let to = |from, to, code| convert(from, to, code, &SATURATE);
    use Type::{BF16, F16, F32, F64};
    // Sign kept, quiet bit set, top payload bits kept.
    assert_eq!(to(F64, F32, 0x7FF0_0000_0000_0001), 0x7FC0_0000);
    assert_eq!(to(F64, F32, 0xFFF0_0000_0000_0001), 0xFFC0_0000);
    assert_eq!(to(F64, F32, 0x7FF4_0000_0000_0000), 0x7FE0_0000);
    assert_eq!(to(F64, F32, 0x7FF0_0000_2000_0000), 0x7FC0_0001);
    assert_eq!(to(F64, F32, 0x7FF0_0000_1FFF_FFFF), 0x7FC0_0000);
    assert_eq!(to(F64, F32, 0xFFFF_FFFF_FFFF_FFFF), 0xFFFF_FFFF);
    assert_eq!(to(F32, F16, 0x7F80_2000), 0x7E01);
    assert_eq!(to(F32, F16, 0x7F80_1FFF), 0x7E00);
    assert_eq!(to(F32, F16, 0xFFFF_FFFF), 0xFFFF);
    assert_eq!(to(F32, BF16, 0x7F80_0001), 0x7FC0);
    assert_eq!(to(F32, BF16, 0x7FBF_FFFF), 0x7FFF);
    assert_eq!(to(F32, BF16, 0xFF81_0000), 0xFFC1);
    assert_eq!(to(F16, BF16, 0x7C08), 0x7FC1);
    assert_eq!(to(F16, BF16, 0x7C07), 0x7FC0);
    assert_eq!(to(BF16, F16, 0x7F81), 0x7E08);
    assert_eq!(to(F16, F32, 0x7C01), 0x7FC0_2000);
    assert_eq!(to(F16, F64, 0xFC01), 0xFFF8_0400_0000_0000);
    assert_eq!(to(F32, F64, 0x7F80_0001), 0x7FF8_0000_2000_0000);
    // A chain: f64 -> f32 -> f16 -> bf16.
    let a = to(F64, F32, 0xFFF5_5555_5555_5555);
    assert_eq!(a, 0xFFEA_AAAA);
    let b = to(F32, F16, a);
    assert_eq!(b, 0xFF55);
    assert_eq!(to(F16, BF16, b), 0xFFEA);
    // A cast to the same dtype changes no bit.
    assert_eq!(to(F32, F32, 0x7F80_0001), 0x7F80_0001);
    assert_eq!(to(Type::E5M2, Type::E5M2, 0x7D), 0x7D);
}

#[test]
fn nan_to_the_formats_without_nan() {
    for nan in [0x7FC0_0000, 0xFFC0_0000, 0x7F80_0001] {
        for (option, f4, f6) in [
            (NanToFinite::NegZero, 0x8, 0x20),
            (NanToFinite::Max, 0x7, 0x1F),
            (NanToFinite::Zero, 0x0, 0x00),
        ] {
            let mode = Mode {
                nan_to_finite: option,
                ..SATURATE
            };
            assert_eq!(convert(Type::F32, Type::E2M1FN, nan, &mode), f4);
            assert_eq!(convert(Type::F32, Type::E2M3FN, nan, &mode), f6);
            assert_eq!(convert(Type::F32, Type::E3M2FN, nan, &mode), f6);
        }
    }
}

#[test]
fn e4m3fn_overflow() {
    let to = |x, mode: &Mode| f32_to(Type::E4M3FN, x, mode);
    for (x, saturated, not) in [
        (448.0, 0x7E, 0x7E),
        (464.0, 0x7E, 0x7E), // ties to 448
        (464.0_f32.next_up(), 0x7E, 0x7F),
        (465.0, 0x7E, 0x7F),
        (480.0, 0x7E, 0x7F),
        (1e30, 0x7E, 0x7F),
        (f32::INFINITY, 0x7E, 0x7F),
    ] {
        assert_eq!(to(x, &SATURATE), saturated, "{x}");
        assert_eq!(to(x, &NO_SATURATE), not, "{x}");
        assert_eq!(to(-x, &SATURATE), saturated | 0x80, "{x}");
        assert_eq!(to(-x, &NO_SATURATE), not | 0x80, "{x}");
    }
    // Ties away: 464 is an overflow.
    assert_eq!(to(464.0, &mode(false, Rounding::NearestAway)), 0x7F);
    assert_eq!(to(463.0, &mode(false, Rounding::NearestAway)), 0x7E);
    // Directed: a finite overflow rounded toward zero gives the maximum, saturate or not; a source Inf is no overflow.
    assert_eq!(to(1e30, &mode(false, Rounding::TowardZero)), 0x7E);
    assert_eq!(to(1e30, &mode(false, Rounding::Down)), 0x7E);
    assert_eq!(to(449.0, &mode(false, Rounding::Up)), 0x7F);
    assert_eq!(to(449.0, &mode(true, Rounding::Up)), 0x7E);
    assert_eq!(to(-1e30, &mode(false, Rounding::Up)), 0xFE);
    assert_eq!(to(-449.0, &mode(false, Rounding::Down)), 0xFF);
    assert_eq!(to(f32::INFINITY, &mode(false, Rounding::TowardZero)), 0x7F);
    assert_eq!(to(f32::INFINITY, &mode(true, Rounding::TowardZero)), 0x7E);
    assert_eq!(to(-f32::INFINITY, &mode(false, Rounding::Up)), 0xFF);
}

#[test]
fn overflow_of_the_other_formats() {
    // e5m2: 61440 is halfway between 57344 and 65536, and ties to the even one: overflow.
    assert_eq!(f32_to(Type::E5M2, 61439.0, &NO_SATURATE), 0x7B);
    assert_eq!(f32_to(Type::E5M2, 61440.0, &NO_SATURATE), 0x7C);
    assert_eq!(f32_to(Type::E5M2, -61440.0, &NO_SATURATE), 0xFC);
    assert_eq!(f32_to(Type::E5M2, 61440.0, &SATURATE), 0x7B);
    assert_eq!(f32_to(Type::E5M2, f32::INFINITY, &NO_SATURATE), 0x7C);
    assert_eq!(f32_to(Type::E5M2, f32::INFINITY, &SATURATE), 0x7B);
    // e4m3 and e3m4, which have infinities: 248 and 15.75 tie to overflow.
    assert_eq!(f32_to(Type::E4M3, 247.9, &NO_SATURATE), 0x77);
    assert_eq!(f32_to(Type::E4M3, 248.0, &NO_SATURATE), 0x78);
    assert_eq!(f32_to(Type::E4M3, 248.0, &SATURATE), 0x77);
    assert_eq!(f32_to(Type::E3M4, 15.7, &NO_SATURATE), 0x6F);
    assert_eq!(f32_to(Type::E3M4, 15.75, &NO_SATURATE), 0x70);
    assert_eq!(f32_to(Type::E3M4, -15.75, &NO_SATURATE), 0xF0);
    // FNUZ: 248, 31 and 61440 tie to overflow, which is NaN.
    for (t, below, tie) in [
        (Type::E4M3FNUZ, 247.9, 248.0),
        (Type::E4M3B11FNUZ, 30.9, 31.0),
        (Type::E5M2FNUZ, 61439.0, 61440.0),
    ] {
        assert_eq!(f32_to(t, below, &NO_SATURATE), 0x7F);
        assert_eq!(f32_to(t, tie, &NO_SATURATE), 0x80);
        assert_eq!(f32_to(t, -tie, &NO_SATURATE), 0x80);
        assert_eq!(f32_to(t, f32::INFINITY, &NO_SATURATE), 0x80);
        assert_eq!(f32_to(t, tie, &SATURATE), 0x7F);
        assert_eq!(f32_to(t, -tie, &SATURATE), 0xFF);
        assert_eq!(f32_to(t, -f32::INFINITY, &SATURATE), 0xFF);
    }
    // float16 and bfloat16 saturate only in a directed mode.
    assert_eq!(f32_to(Type::F16, 65519.9, &SATURATE), 0x7BFF);
    assert_eq!(f32_to(Type::F16, 65520.0, &SATURATE), 0x7C00);
    assert_eq!(f32_to(Type::F16, -65520.0, &SATURATE), 0xFC00);
    assert_eq!(f32_to(Type::BF16, f32::MAX, &SATURATE), 0x7F80);
    let toward_zero = mode(true, Rounding::TowardZero);
    assert_eq!(f32_to(Type::F16, 1e9, &toward_zero), 0x7BFF);
    assert_eq!(f32_to(Type::F16, f32::INFINITY, &toward_zero), 0x7C00);
    assert_eq!(
        f64_to(Type::F32, 1e300, &mode(true, Rounding::Down)),
        0x7F7F_FFFF
    );
    assert_eq!(
        f64_to(Type::F32, -1e300, &mode(true, Rounding::Down)),
        0xFF80_0000
    );
    // F4 and F6 always clamp.
    for saturate in [true, false] {
        for rounding in Rounding::ALL {
            let mode = mode(saturate, rounding);
            for x in [100.0, f32::INFINITY] {
                assert_eq!(f32_to(Type::E2M1FN, x, &mode), 0x7);
                assert_eq!(f32_to(Type::E2M1FN, -x, &mode), 0xF);
                assert_eq!(f32_to(Type::E2M3FN, x, &mode), 0x1F);
                assert_eq!(f32_to(Type::E3M2FN, -x, &mode), 0x3F);
            }
        }
    }
}

#[test]
fn zeros_and_underflow() {
    for (t, _, _, tiny) in LIMITS {
        let fnuz = t.name().ends_with("fnuz");
        let negative_zero = if fnuz { 0 } else { 1 << (t.bits() - 1) };
        assert_eq!(f32_to(t, 0.0, &SATURATE), 0, "{t:?}");
        assert_eq!(f32_to(t, -0.0, &SATURATE), negative_zero, "{t:?}");
        assert_eq!(
            f64_to(t, -tiny / 4.0, &SATURATE),
            negative_zero,
            "{t:?} underflow"
        );
        // Rounded away from zero, underflow gives the smallest number.
        let up = mode(true, Rounding::Up);
        assert_eq!(f64_to(t, f64::MIN_POSITIVE, &up), 1, "{t:?}");
        assert_eq!(f64_to(t, -f64::MIN_POSITIVE, &up), negative_zero, "{t:?}");
        let down = mode(true, Rounding::Down);
        let sign = 1 << (t.bits() - 1);
        assert_eq!(f64_to(t, -f64::MIN_POSITIVE, &down), sign | 1, "{t:?}");
    }
    // Subnormals are neither flushed nor treated as zero.
    assert_eq!(f32_to(Type::BF16, 1e-40, &SATURATE), 0x0001);
    assert_eq!(f64_to(Type::F32, 1e-45, &SATURATE), 0x0000_0001);
    assert_eq!(f32_to(Type::Bool, f32::from_bits(1), &SATURATE), 1);
}

#[test]
fn e2m1_thresholds() {
    let to = |x| f32_to(Type::E2M1FN, x, &SATURATE);
    // The values are 0 .5 1 1.5 2 3 4 6; ties go to the even code.
    for (x, code, above) in [
        (0.25, 0, 1),
        (0.75, 2, 2),
        (1.25, 2, 3),
        (1.75, 4, 4),
        (2.5, 4, 5),
        (3.5, 6, 6),
        (5.0, 6, 7),
    ] {
        assert_eq!(to(x), code, "{x}");
        assert_eq!(to(-x), code | 8, "{x}");
        assert_eq!(to(f32::next_up(x)), above, "{x}");
        let below = if code % 2 == 0 && above == code {
            code - 1
        } else {
            code
        };
        assert_eq!(to(f32::next_down(x)), below, "{x}");
    }
}

#[test]
fn one_rounding_only() {
    // Above a midpoint by less than a float32 can represent: not a tie.
    let tie = 1.0 + 2f64.powi(-4); // of e4m3fn, between 1 and 1.125
    assert_eq!(f64_to(Type::E4M3FN, tie, &SATURATE), 0x38);
    assert_eq!(f64_to(Type::E4M3FN, tie.next_up(), &SATURATE), 0x39);
    let tie = 1.0 + 2f64.powi(-11);
    assert_eq!(f64_to(Type::F16, tie, &SATURATE), 0x3C00);
    assert_eq!(f64_to(Type::F16, tie.next_up(), &SATURATE), 0x3C01);
    let big = (1_u128 << 62) + (1 << 54) + 1; // bfloat16: a tie plus one
    assert_eq!(convert(Type::I64, Type::BF16, big, &SATURATE), 0x5E81);
    assert_eq!(convert(Type::I64, Type::BF16, big - 1, &SATURATE), 0x5E80);
    assert_eq!(
        convert(Type::U64, Type::F32, u64::MAX.into(), &SATURATE),
        0x5F80_0000
    );
}

#[test]
fn e8m0_table() {
    let modes = E8m0Rounding::ALL;
    let to = |x: f64, saturate, e8m0_rounding| {
        let mode = Mode {
            saturate,
            e8m0_rounding,
            ..SATURATE
        };
        f64_to(Type::E8M0FNU, x, &mode)
    };
    let p = |e| 2f64.powi(e);
    for rounding in modes {
        // (x, saturate, no saturate)
        for (x, saturated, not) in [
            (f64::NAN, 0xFF, 0xFF),
            (-f64::NAN, 0xFF, 0xFF),
            (-1.0, 0x00, 0xFF),
            (-f64::MIN_POSITIVE, 0x00, 0xFF),
            (f64::NEG_INFINITY, 0x00, 0xFF),
            (0.0, 0x00, 0xFF),
            (-0.0, 0x00, 0xFF),
            (p(-128), 0x00, 0xFF),
            (p(-127).next_down(), 0x00, 0xFF),
            (p(127).next_up(), 0xFE, 0xFF),
            (p(128), 0xFE, 0xFF),
            (f64::INFINITY, 0xFE, 0xFF),
            (p(127), 0xFE, 0xFE),
            (p(-127), 0x00, 0x00),
            (1.0, 0x7F, 0x7F),
            (4.0, 0x81, 0x81),
        ] {
            assert_eq!(to(x, true, rounding), saturated, "{x}");
            assert_eq!(to(x, false, rounding), not, "{x}");
        }
    }
    // (x, up, down, nearest)
    for (x, up, down, nearest) in [
        (1.0_f64.next_up(), 0x80, 0x7F, 0x7F),
        (1.25, 0x80, 0x7F, 0x7F),
        (1.5_f64.next_down(), 0x80, 0x7F, 0x7F),
        (1.5, 0x80, 0x7F, 0x80),
        (3.0, 0x81, 0x80, 0x81),
        (p(127).next_down(), 0xFE, 0xFD, 0xFE),
        (p(-127).next_up(), 0x01, 0x00, 0x00),
        (1.5 * p(-127), 0x01, 0x00, 0x01),
    ] {
        for saturate in [true, false] {
            let all = modes.map(|rounding| to(x, saturate, rounding));
            assert_eq!(all, [up, down, nearest], "{x}");
        }
    }
    // Other sources.
    assert_eq!(convert(Type::I8, Type::E8M0FNU, 0xFD, &NO_SATURATE), 0xFF);
    assert_eq!(convert(Type::I8, Type::E8M0FNU, 0xFD, &SATURATE), 0x00);
    assert_eq!(convert(Type::U8, Type::E8M0FNU, 3, &SATURATE), 0x81);
    assert_eq!(convert(Type::Bool, Type::E8M0FNU, 1, &NO_SATURATE), 0x7F);
    assert_eq!(convert(Type::Bool, Type::E8M0FNU, 0, &SATURATE), 0x00);
    assert_eq!(convert(Type::Bool, Type::E8M0FNU, 0, &NO_SATURATE), 0xFF);
    // As a source.
    assert_eq!(convert(Type::E8M0FNU, Type::F32, 0, &SATURATE), 0x0040_0000);
    assert_eq!(convert(Type::E8M0FNU, Type::F16, 0xFE, &SATURATE), 0x7C00);
    assert_eq!(convert(Type::E8M0FNU, Type::E4M3FN, 0xFE, &SATURATE), 0x7E);
    assert_eq!(convert(Type::E8M0FNU, Type::I8, 0xFE, &SATURATE), 0x7F);
    assert_eq!(convert(Type::E8M0FNU, Type::I8, 0xFF, &SATURATE), 0);
}

#[test]
fn float_to_integer() {
    let wrap = Mode {
        float_to_int: Overflow::Wrap,
        ..SATURATE
    };
    for (x, saturated, wrapped) in [
        (2.9, 2, 2),
        (-2.9, 0xFE, 0xFE),
        (127.9, 127, 127),
        (128.0, 127, 128),
        (-128.9, 0x80, 0x80),
        (-129.0, 0x80, 0x7F),
        (300.0, 127, 44),
        (1e30, 127, 0),
        (f32::INFINITY, 127, 0),
        (f32::NEG_INFINITY, 0x80, 0),
        (f32::NAN, 0, 0),
    ] {
        assert_eq!(f32_to(Type::I8, x, &SATURATE), saturated, "{x}");
        assert_eq!(f32_to(Type::I8, x, &wrap), wrapped, "{x}");
    }
    assert_eq!(f32_to(Type::U8, -1.0, &SATURATE), 0);
    assert_eq!(f32_to(Type::U8, -1.0, &wrap), 255);
    assert_eq!(f32_to(Type::U8, -0.9, &wrap), 0);
    // (x, nearest even, nearest away, toward zero, up, down)
    for (x, expected) in [
        (0.5, [0, 1, 0, 1, 0]),
        (1.5, [2, 2, 1, 2, 1]),
        (2.5, [2, 3, 2, 3, 2]),
        (2.4, [2, 2, 2, 3, 2]),
        (-0.5, [0, -1, 0, 0, -1]),
        (-1.5, [-2, -2, -1, -1, -2]),
        (-2.5, [-2, -3, -2, -2, -3]),
        (-2.6, [-3, -3, -2, -2, -3]),
        (1e-40, [0, 0, 0, 1, 0]),
        (-1e-40, [0, 0, 0, 0, -1]),
    ] {
        for (int_rounding, expected) in Rounding::ALL.into_iter().zip(expected) {
            let mode = Mode {
                int_rounding,
                ..SATURATE
            };
            let ours = f32_to(Type::I32, x, &mode) as u32 as i32;
            assert_eq!(ours, expected, "{x} {int_rounding:?}");
        }
    }
    // The narrow options are only for targets of fewer than 8 bits.
    let onnx = Mode {
        narrow_int_rounding: Some(Rounding::NearestEven),
        narrow_float_to_int: Some(Overflow::Wrap),
        ..SATURATE
    };
    assert_eq!(f32_to(Type::I4, 7.5, &onnx), 0x8);
    assert_eq!(f32_to(Type::I4, 7.5, &SATURATE), 0x7);
    assert_eq!(f32_to(Type::I4, 9.0, &onnx), 0x9);
    assert_eq!(f32_to(Type::I4, -9.0, &onnx), 0x7);
    assert_eq!(f32_to(Type::I4, -9.0, &SATURATE), 0x8);
    assert_eq!(f32_to(Type::U2, 5.0, &onnx), 1);
    assert_eq!(f32_to(Type::I8, 7.5, &onnx), 7);
    assert_eq!(f32_to(Type::I8, 200.0, &onnx), 127);
}

#[test]
fn integer_to_integer() {
    let saturate = Mode {
        int_to_int: Overflow::Saturate,
        ..SATURATE
    };
    // (from, to, value, wrapped, saturated), in two's complement
    for (from, to, code, wrapped, saturated) in [
        (Type::I16, Type::I8, 200, 0xC8, 0x7F), // 200i16 -> -56i8
        (Type::I16, Type::U8, 0xFFFF, 0xFF, 0x00),
        (Type::I16, Type::U64, 0xFFFF, 0xFFFF_FFFF_FFFF_FFFF, 0),
        (Type::U64, Type::I64, 1 << 63, 1 << 63, (1 << 63) - 1),
        (Type::I4, Type::I8, 0x8, 0xF8, 0xF8),
        (Type::I8, Type::I4, 0x88, 0x8, 0x8),
        (Type::I8, Type::I4, 0x19, 0x9, 0x7),
        (Type::U4, Type::I2, 0x3, 0x3, 0x1),
        (Type::U8, Type::U2, 0xFE, 0x2, 0x3),
        (Type::I2, Type::U4, 0x2, 0xE, 0x0),
    ] {
        assert_eq!(convert(from, to, code, &SATURATE), wrapped);
        assert_eq!(convert(from, to, code, &saturate), saturated);
        // Bits above the width are ignored.
        let noise = if from.bits() < 64 {
            1 << 100 | 1 << from.bits()
        } else {
            1 << 64
        };
        assert_eq!(convert(from, to, code | noise, &SATURATE), wrapped);
    }
}

#[test]
fn bool_rules() {
    // Any non-zero byte is true; bool -> bool is normalised.
    for byte in 0..256 {
        let truth = u128::from(byte != 0);
        for to in [
            Type::Bool,
            Type::U8,
            Type::I4,
            Type::U2,
            Type::I2,
            Type::I64,
        ] {
            assert_eq!(convert(Type::Bool, to, byte, &SATURATE), truth, "{to:?}");
        }
        let f32_one = convert(Type::Bool, Type::F32, byte, &SATURATE);
        assert_eq!(f32_one, truth * 0x3F80_0000);
        assert_eq!(convert(Type::U8, Type::Bool, byte, &SATURATE), truth);
        assert_eq!(convert(Type::E8M0FNU, Type::Bool, byte, &SATURATE), 1);
        let zero = byte & 0x7F == 0;
        assert_eq!(
            convert(Type::E5M2, Type::Bool, byte, &SATURATE),
            u128::from(!zero)
        );
        let zero = byte == 0; // 80 is NaN
        assert_eq!(
            convert(Type::E5M2FNUZ, Type::Bool, byte, &SATURATE),
            u128::from(!zero)
        );
    }
    assert_eq!(convert(Type::Bool, Type::F16, 2, &SATURATE), 0x3C00);
    assert_eq!(convert(Type::Bool, Type::E2M1FN, 255, &SATURATE), 0x2);
    assert_eq!(convert(Type::Bool, Type::E4M3FN, 2, &SATURATE), 0x38);
    assert_eq!(convert(Type::Bool, Type::C64, 255, &SATURATE), 0x3F80_0000);
    for (x, expected) in [
        (0.0, 0),
        (-0.0, 0),
        (1e-45, 1),
        (0.5, 1),
        (-3.0, 1),
        (f32::NAN, 1),
        (f32::INFINITY, 1),
    ] {
        assert_eq!(f32_to(Type::Bool, x, &SATURATE), expected, "{x}");
    }
    assert_eq!(convert(Type::I64, Type::Bool, 1 << 32, &SATURATE), 1);
    assert_eq!(convert(Type::E2M1FN, Type::Bool, 0x8, &SATURATE), 0);
}

#[test]
fn complex_rules() {
    let c64 = |re: f32, im: f32| u128::from(re.to_bits()) | u128::from(im.to_bits()) << 32;
    let c128 = |re: f64, im: f64| u128::from(re.to_bits()) | u128::from(im.to_bits()) << 64;
    let to = |from, to, code| convert(from, to, code, &SATURATE);
    // real -> complex: im = +0
    assert_eq!(to(Type::I8, Type::C64, 0xFF), c64(-1.0, 0.0));
    assert_eq!(to(Type::F16, Type::C128, 0x8000), c128(-0.0, 0.0));
    // complex -> real: the real part alone
    assert_eq!(to(Type::C64, Type::I8, c64(-3.5, f32::NAN)), 0xFD);
    assert_eq!(to(Type::C128, Type::F16, c128(1.0, f64::INFINITY)), 0x3C00);
    assert_eq!(to(Type::C64, Type::E8M0FNU, c64(2.0, -1.0)), 0x80);
    // part by part
    assert_eq!(to(Type::C64, Type::C128, c64(1.5, -0.0)), c128(1.5, -0.0));
    assert_eq!(
        to(Type::C128, Type::C64, c128(1e300, -1e-300)),
        c64(f32::INFINITY, -0.0)
    );
    // A part whose dtype does not change is copied bit for bit, signalling NaN too.
    assert_eq!(to(Type::F32, Type::C64, 0x7F80_0001), 0x7F80_0001);
    assert_eq!(to(Type::C64, Type::F32, 0xABCD_0000_7F80_0001), 0x7F80_0001);
    let signalling = 0xFFF0_0000_0000_0001;
    assert_eq!(to(Type::F64, Type::C128, signalling), signalling);
    assert_eq!(to(Type::C128, Type::F64, 7 << 64 | signalling), signalling);
    assert_eq!(to(Type::C128, Type::C128, 7 << 64 | 9), 7 << 64 | 9);
    // A part whose dtype changes is converted.
    assert_eq!(to(Type::C64, Type::F64, 0x7F80_0001), 0x7FF8_0000_2000_0000);
    // bool: either part non-zero
    for (re, im, expected) in [
        (0.0, 0.0, 0),
        (-0.0, -0.0, 0),
        (0.0, 1e-45, 1),
        (2.0, 0.0, 1),
        (0.0, f32::NAN, 1),
        (f32::NAN, 0.0, 1),
    ] {
        assert_eq!(to(Type::C64, Type::Bool, c64(re, im)), expected);
        let wide = c128(f64::from(re), f64::from(im));
        assert_eq!(to(Type::C128, Type::Bool, wide), expected);
    }
}
