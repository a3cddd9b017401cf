//! Times of `cast_with_options` as published and with lanecast, in turns: the median of their ratios.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::DataType;

/// Values that the target holds, or some that it does not; every seventh null, if there are nulls.
fn array<T: ArrowPrimitiveType>(n: usize, value: impl Fn(usize) -> T::Native, nulls: bool) -> ArrayRef {
    let values = (0..n).map(|i| (!nulls || i % 7 != 3).then(|| value(i)));
    Arc::new(PrimitiveArray::<T>::from_iter(values))
}

/// How much longer theirs takes than ours.
fn ratio(array: &dyn Array, to: &DataType, safe: bool) -> f64 {
    let (their, our) = (
        theirs::cast::CastOptions { safe, ..Default::default() },
        ours::cast::CastOptions { safe, ..Default::default() },
    );
    let expected = theirs::cast::cast_with_options(array, to, &their).unwrap();
    assert_eq!(&expected, &ours::cast::cast_with_options(array, to, &our).unwrap());
    // As many calls as take a while, so that the clock does not matter.
    let calls = (200_000 / array.len()).clamp(1, 400);
    let time = |call: &dyn Fn() -> ArrayRef| {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(call());
        }
        start.elapsed()
    };
    let their = || time(&|| theirs::cast::cast_with_options(black_box(array), to, &their).unwrap());
    let our = || time(&|| ours::cast::cast_with_options(black_box(array), to, &our).unwrap());
    let (start, mut ratios) = (Instant::now(), Vec::new());
    while ratios.len() < 31 || start.elapsed() < Duration::from_millis(150) {
        let (a, b, c, d) = (their(), our(), our(), their());
        ratios.push((a + d).as_secs_f64() / (b + c).as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

fn main() {
    println!("| cast | nulls | lost | 512 | 4,096 | 65,536 |\n|---|---|---|---|---|---|");
    let row = |name: &str, to: DataType, nulls: bool, lost: bool, make: &dyn Fn(usize) -> ArrayRef| {
        let ratios = [512, 4096, 65536].map(|n| ratio(&*make(n), &to, true));
        let mark = |yes| if yes { "yes" } else { "" };
        println!("| {name} | {} | {} | {:.2} | {:.2} | {:.2} |", mark(nulls), mark(lost), ratios[0], ratios[1], ratios[2]);
    };
    for nulls in [false, true] {
        macro_rules! narrow {
            ($($name:literal: $from:ty => $to:ident, $fits:expr, $lost:expr;)*) => {$(
                row($name, DataType::$to, nulls, false, &|n| array::<$from>(n, $fits, nulls));
                row($name, DataType::$to, nulls, true, &|n| array::<$from>(n, |i| if i % 50 == 9 { $lost } else { $fits(i) }, nulls));
            )*};
        }
        macro_rules! all {
            ($($name:literal: $from:ty => $to:ident, $value:expr;)*) => {$(
                row($name, DataType::$to, nulls, false, &|n| array::<$from>(n, $value, nulls));
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
