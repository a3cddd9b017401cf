//! The oracle against `as`, where that is defined to do what the default options do.

use lanecast_oracle::{Mode, Type, convert, interesting};

fn check(from: Type, to: Type, expected: impl Fn(u128) -> Option<u128>) {
    let mode = Mode::default();
    for code in interesting(from, to) {
        if let Some(expected) = expected(code) {
            let ours = convert(from, to, code, &mode);
            assert_eq!(ours, expected, "{from:?} -> {to:?} {code:#x}");
        }
    }
}

macro_rules! for_each_integer {
    ($callback:ident, $($arguments:tt)*) => {
        $callback!($($arguments)*, u8, u8, U8);
        $callback!($($arguments)*, i8, u8, I8);
        $callback!($($arguments)*, u16, u16, U16);
        $callback!($($arguments)*, i16, u16, I16);
        $callback!($($arguments)*, u32, u32, U32);
        $callback!($($arguments)*, i32, u32, I32);
        $callback!($($arguments)*, u64, u64, U64);
        $callback!($($arguments)*, i64, u64, I64);
    };
}

macro_rules! float_to_integer {
    ($float:ty, $bits:ty, $from:ident, $integer:ty, $code:ty, $to:ident) => {
        check(Type::$from, Type::$to, |code| {
            let x = <$float>::from_bits(code as $bits);
            Some((x as $integer as $code).into())
        });
    };
}

macro_rules! integer_to_float {
    ($float:ty, $bits:ty, $to:ident, $integer:ty, $code:ty, $from:ident) => {
        check(Type::$from, Type::$to, |code| {
            Some((code as $code as $integer as $float).to_bits().into())
        });
    };
}

macro_rules! integer_to_integer {
    ($source:ty, $from:ident, $target:ty, $code:ty, $to:ident) => {
        check(Type::$from, Type::$to, |code| {
            Some((code as $source as $target as $code).into())
        });
    };
}

#[test]
fn float_to_integer_truncates_and_saturates() {
    for_each_integer!(float_to_integer, f32, u32, F32);
    for_each_integer!(float_to_integer, f64, u64, F64);
}

#[test]
fn integer_to_float_rounds_to_nearest_even() {
    for_each_integer!(integer_to_float, f32, u32, F32);
    for_each_integer!(integer_to_float, f64, u64, F64);
}

#[test]
fn integer_to_integer_wraps() {
    for_each_integer!(integer_to_integer, u8, U8);
    for_each_integer!(integer_to_integer, i8, I8);
    for_each_integer!(integer_to_integer, u16, U16);
    for_each_integer!(integer_to_integer, i16, I16);
    for_each_integer!(integer_to_integer, u32, U32);
    for_each_integer!(integer_to_integer, i32, I32);
    for_each_integer!(integer_to_integer, u64, U64);
    for_each_integer!(integer_to_integer, i64, I64);
}

#[test]
fn float_to_float_rounds_to_nearest_even() {
    check(Type::F64, Type::F32, |code| {
        let x = f64::from_bits(code as u64);
        (!x.is_nan()).then(|| (x as f32).to_bits().into())
    });
    check(Type::F32, Type::F64, |code| {
        let x = f32::from_bits(code as u32);
        (!x.is_nan()).then(|| f64::from(x).to_bits().into())
    });
}
