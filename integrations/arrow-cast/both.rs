//! `cast_with_options` as published and with lanecast, in one program: what both make of every pair of numeric types, or their times in turns.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

mod turns;

/// Values that the target holds, or some that it does not; every seventh null, if there are nulls.
fn array<T: ArrowPrimitiveType>(n: usize, value: impl Fn(usize) -> T::Native, nulls: bool) -> ArrayRef {
    let values = (0..n).map(|i| (!nulls || i % 7 != 3).then(|| value(i)));
    Arc::new(PrimitiveArray::<T>::from_iter(values))
}

/// Numbers of all sizes and signs, and the bits of everything else.
fn bits(i: usize) -> u64 {
    let mut x = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (x ^ x >> 32) >> (i % 64)
}

/// Elements about the limits of what types hold, and any others.
fn hostile(n: usize, nulls: bool) -> Vec<ArrayRef> {
    const FLOATS: [f64; 20] = [
        0.0, -0.0, 0.5, -0.5, -0.999, 1.0, -1.0, 127.9, -128.9, 255.9, 256.0, 32767.5, 65519.9999, 65520.0,
        2147483647.5, 4294967295.9, 9.3e18, 1e39, f64::NAN, f64::NEG_INFINITY,
    ];
    let float = |i: usize| match i % 3 {
        0 => FLOATS[bits(i) as usize % FLOATS.len()],
        1 => f64::from_bits(bits(i * 64)),
        _ => (bits(i) as i64 % 1000) as f64 * 0.125,
    };
    let valid = nulls.then(|| NullBuffer::from_iter((0..n).map(|i| bits(64 * i + 1) % 5 != 0)));
    macro_rules! arrays {
        ($($type:ty: $value:expr;)*) => {
            vec![$(Arc::new(PrimitiveArray::<$type>::new((0..n).map($value).collect(), valid.clone())) as ArrayRef),*]
        };
    }
    arrays! {
        Int8Type: |i| bits(i) as i8;
        Int16Type: |i| bits(i) as i16;
        Int32Type: |i| bits(i) as i32;
        Int64Type: |i| bits(i) as i64;
        UInt8Type: |i| bits(i) as u8;
        UInt16Type: |i| bits(i) as u16;
        UInt32Type: |i| bits(i) as u32;
        UInt64Type: bits;
        Float16Type: |i| if i % 2 == 0 { half::f16::from_bits(bits(i) as u16) } else { half::f16::from_f64(float(i)) };
        Float32Type: |i| if i % 2 == 0 { f32::from_bits(bits(i) as u32) } else { float(i) as f32 };
        Float64Type: float;
    }
}

/// Does arrow-cast round such a pair twice?
fn may_differ(from: &DataType, to: &DataType) -> bool {
    (from, to) == (&DataType::Float64, &DataType::Float16)
}

/// The same elements, the same nulls, or the same error, for slices of every alignment of bits.
fn compare() {
    let (mut results, mut errors, mut differ) = (0, 0, BTreeMap::new());
    let slices = [(0, 4000), (1, 999), (3, 64), (7, 1), (8, 0), (9, 130), (13, 2048), (64, 511), (65, 77), (100, 3), (257, 1024), (1000, 3000)];
    for nulls in [false, true] {
        let arrays = hostile(4000, nulls);
        let types: Vec<_> = arrays.iter().map(|array| array.data_type().clone()).collect();
        for (array, to, safe) in arrays.iter().flat_map(|a| types.iter().flat_map(move |to| [true, false].map(|safe| (a, to, safe)))) {
            let mut slices: Vec<_> = slices.map(|(first, n)| array.slice(first, n)).into();
            // Of one element each, so that some have no error.
            slices.extend((0..200).map(|i| array.slice(i, 1)));
            for slice in &slices {
                let their = theirs::cast::cast_with_options(slice, to, &theirs::cast::CastOptions { safe, ..Default::default() });
                let our = ours::cast::cast_with_options(slice, to, &ours::cast::CastOptions { safe, ..Default::default() });
                let what = format!("{} to {to}, safe: {safe}, from {} on {} elements", array.data_type(), slice.offset(), slice.len());
                match (their, our) {
                    (Ok(their), Ok(our)) => {
                        results += 1;
                        our.to_data().validate_full().unwrap();
                        assert_eq!(their.null_count(), our.null_count(), "{what}");
                        let differing = (0..their.len()).filter(|&i| their.slice(i, 1) != our.slice(i, 1)).count();
                        assert!(differing == 0 || may_differ(array.data_type(), to), "{what}: {differing} differ");
                        *differ.entry(format!("{} to {to}", array.data_type())).or_insert(0) += differing;
                    }
                    (Err(their), Err(our)) => {
                        errors += 1;
                        assert_eq!(their.to_string(), our.to_string(), "{what}");
                    }
                    (their, our) => panic!("{what}: {their:?}, {our:?}"),
                }
            }
        }
    }
    println!("{} pairs of types: {results} arrays with the same elements and nulls, {errors} errors of the same text", differ.len());
    for (pair, count) in differ.iter().filter(|(_, count)| **count > 0) {
        println!("but {pair}, which is rounded once: {count} elements");
    }
}

/// How much longer theirs takes than ours. (An error is a result, too.)
fn ratio(array: &dyn Array, to: &DataType, safe: bool) -> f64 {
    let (their, our) = (
        theirs::cast::CastOptions { safe, ..Default::default() },
        ours::cast::CastOptions { safe, ..Default::default() },
    );
    let text = |error: arrow_schema::ArrowError| error.to_string();
    let theirs = || theirs::cast::cast_with_options(black_box(array), to, &their).map_err(text);
    let ours = || ours::cast::cast_with_options(black_box(array), to, &our).map_err(text);
    assert_eq!(theirs(), ours());
    turns::ratio(array.len(), theirs, ours)
}

fn bench() {
    println!("| cast | nulls | lost | 64 | 512 | 4,096 | 65,536 |\n|---|---|---|---|---|---|---|");
    let row = |name: &str, to: DataType, nulls: bool, (lost, safe): (&str, bool), make: &dyn Fn(usize) -> ArrayRef| {
        let ratios = [64, 512, 4096, 65536].map(|n| format!("{:.2}", ratio(&*make(n), &to, safe)));
        let safe = if safe { "" } else { ", `safe: false`" };
        println!("| {name}{safe} | {} | {lost} | {} |", if nulls { "yes" } else { "" }, ratios.join(" | "));
    };
    for nulls in [false, true] {
        macro_rules! narrow {
            ($($name:literal: $from:ty => $to:ident, $fits:expr, $lost:expr;)*) => {$(
                for safe in [true, false] {
                    row($name, DataType::$to, nulls, ("", safe), &|n| array::<$from>(n, $fits, nulls));
                }
                row($name, DataType::$to, nulls, ("one in 50", true), &|n| array::<$from>(n, |i| if i % 50 == 9 { $lost } else { $fits(i) }, nulls));
                row($name, DataType::$to, nulls, ("the first", false), &|n| array::<$from>(n, |i| if i == 0 { $lost } else { $fits(i) }, nulls));
            )*};
        }
        macro_rules! all {
            ($($name:literal: $from:ty => $to:ident, $value:expr;)*) => {$(
                row($name, DataType::$to, nulls, ("", true), &|n| array::<$from>(n, $value, nulls));
            )*};
        }
        narrow! {
            "int64 to int32": Int64Type => Int32, |i: usize| i as i64 - 99, i64::MAX;
            "int64 to int8": Int64Type => Int8, |i: usize| i as i64 % 100, 1000;
            "uint32 to uint16": UInt32Type => UInt16, |i: usize| i as u32 % 60000, 70000;
            "int32 to uint8": Int32Type => UInt8, |i: usize| i as i32 % 200, -1;
            "float64 to int32": Float64Type => Int32, |i: usize| i as f64 * 0.5, f64::NAN;
            "float64 to int64": Float64Type => Int64, |i: usize| i as f64 * 0.5, 1e300;
            "float32 to int8": Float32Type => Int8, |i: usize| i as f32 % 100.0, 1000.0;
            "float16 to int32": Float16Type => Int32, |i: usize| half::f16::from_f32(i as f32 % 999.0), half::f16::NAN;
        }
        all! {
            "int8 to int32": Int8Type => Int32, |i: usize| i as i8;
            "int32 to int64": Int32Type => Int64, |i: usize| i as i32;
            "int8 to float32": Int8Type => Float32, |i: usize| i as i8;
            "int64 to float64": Int64Type => Float64, |i: usize| i as i64;
            "int32 to float64": Int32Type => Float64, |i: usize| i as i32;
            "float32 to float16": Float32Type => Float16, |i: usize| i as f32 * 0.1;
            "float16 to float32": Float16Type => Float32, |i: usize| half::f16::from_f32(i as f32 * 0.1);
            "float64 to float16": Float64Type => Float16, |i: usize| i as f64 * 0.125;
            "float64 to float32": Float64Type => Float32, |i: usize| i as f64 * 0.1;
            "float32 to float64": Float32Type => Float64, |i: usize| i as f32 * 0.1;
        }
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("bits") => compare(),
        Some("bench") => bench(),
        _ => panic!("bits or bench"),
    }
}
