//! `cast_with_options` as published and with lanecast, in one program: what both make of every pair of numeric types, or their times in turns.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};

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

/// Elements about the limits of what types hold, and any others; all of them, or one of so many among small integers.
fn hostile(n: usize, nulls: bool, one_of: u64) -> Vec<ArrayRef> {
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
            vec![$({
                let value = $value;
                let small = |i: usize| <$type as ArrowPrimitiveType>::Native::usize_as(i % 100);
                let values = (0..n).map(|i| if bits(64 * i + 2) % one_of == 0 { value(i) } else { small(i) });
                Arc::new(PrimitiveArray::<$type>::new(values.collect(), valid.clone())) as ArrayRef
            }),*]
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

/// Does the target have all values of the source, or is it a float?
fn cannot_fail(from: &DataType, to: &DataType) -> bool {
    let (narrow, wide) = (from.primitive_width(), to.primitive_width());
    to.is_floating()
        || from.is_integer() && from.is_signed_integer() == to.is_signed_integer() && narrow <= wide
        || from.is_unsigned_integer() && to.is_signed_integer() && narrow < wide
}

/// All pairs of numbers: slices that begin at every bit of a byte, most of them of so many elements that lanecast casts them.
fn numbers(mut each: impl FnMut(&ArrayRef, &DataType, bool)) {
    let mut slices = vec![(0, 20_000), (5, 17_000), (3, 1_500), (13, 2_048), (257, 1_024), (10_001, 3_000), (7, 128)];
    slices.extend((0..60).map(|i| (i * 293, 128 + i * 37)));
    slices.extend([(3, 127), (7, 1), (8, 0), (100, 3)]);
    for (nulls, one_of) in [(false, 1), (true, 1), (false, 600), (true, 600)] {
        let arrays = hostile(20_000, nulls, one_of);
        for (from, to) in arrays.iter().flat_map(|from| arrays.iter().map(move |to| (from, to.data_type()))) {
            for &(first, n) in &slices {
                for safe in [true, false] {
                    each(&from.slice(first, n), to, safe);
                }
            }
        }
    }
}

/// Arrays that hold numbers: runs, dictionaries, lists; and times, which are cast by way of numbers.
fn nested(mut each: impl FnMut(&ArrayRef, &DataType, bool)) {
    let runs = |ends: DataType, values: DataType| {
        DataType::RunEndEncoded(Field::new("run_ends", ends, false).into(), Field::new("values", values, true).into())
    };
    let dictionary = |keys: DataType, values: DataType| DataType::Dictionary(keys.into(), values.into());
    let list = |of: DataType| DataType::List(Field::new_list_field(of, true).into());
    for n in [3, 127, 128, 1_023, 1_024, 3_000] {
        let texts = StringArray::from_iter_values((0..n).map(|i| i.to_string()));
        let ends = Int64Array::from_iter_values(1..=n as i64);
        let of_64: ArrayRef = Arc::new(RunArray::try_new(&ends, &texts).unwrap());
        let ends = Int16Array::from_iter_values(1..=n as i16);
        let of_16: ArrayRef = Arc::new(RunArray::try_new(&ends, &texts).unwrap());
        let numbers = hostile(n, true, 2).swap_remove(10);
        let keys = UInt16Array::from_iter_values((0..n as u16).rev());
        let of_keys: ArrayRef = Arc::new(DictionaryArray::new(keys, numbers.clone()));
        let lengths = OffsetBuffer::from_lengths([n / 3, 0, n - n / 3]);
        let field = Field::new_list_field(DataType::Float64, true);
        let of_lists: ArrayRef = Arc::new(ListArray::new(field.into(), lengths, numbers.clone(), None));
        let times: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values((0..n).map(|i| bits(i) as i64)));
        for safe in [true, false] {
            each(&of_64, &runs(DataType::Int16, DataType::Utf8), safe);
            each(&of_64, &runs(DataType::Int32, DataType::Utf8), safe);
            each(&of_16, &runs(DataType::Int64, DataType::Utf8), safe);
            each(&of_keys, &dictionary(DataType::Int8, DataType::Float64), safe);
            each(&of_keys, &dictionary(DataType::UInt64, DataType::Int32), safe);
            each(&of_lists, &list(DataType::Int32), safe);
            each(&numbers, &DataType::Timestamp(TimeUnit::Second, None), safe);
            each(&times, &DataType::Int32, safe);
        }
    }
}

fn cast_by_theirs(array: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef, ArrowError> {
    theirs::cast::cast_with_options(array, to, &theirs::cast::CastOptions { safe, ..Default::default() })
}

fn cast_by_ours(array: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef, ArrowError> {
    ours::cast::cast_with_options(array, to, &ours::cast::CastOptions { safe, ..Default::default() })
}

/// Which of the casts are lanecast's: with an instruction set that no machine has, those are errors.
fn whose() {
    let which = std::cell::RefCell::new(String::new());
    let each = |array: &ArrayRef, to: &DataType, safe: bool| {
        let is_ours = cast_by_ours(array, to, safe).is_err_and(|error| error.to_string().contains("LANECAST_ISA is"));
        which.borrow_mut().push(if is_ours { '1' } else { '0' });
    };
    numbers(each);
    nested(each);
    print!("{}", which.take());
}

/// The same elements, the same nulls, or the same error.
fn compare(version: &str) {
    let program = std::env::current_exe().unwrap();
    let output = std::process::Command::new(program).arg("whose").env("LANECAST_ISA", "none").output().unwrap();
    let which = String::from_utf8(output.stdout).unwrap();
    let mut which = which.chars().map(|which| which == '1');
    // Version 59 makes a null buffer even where nothing can be null.
    let before_60 = version.starts_with("59.");
    let (mut results, mut errors, mut others, mut differ) = (0, 0, 0, BTreeMap::new());
    numbers(|array, to, safe| {
        let (from, is_ours) = (array.data_type(), which.next().unwrap());
        let what = format!("{from} to {to}, safe: {safe}, from {} on {} elements", array.offset(), array.len());
        let pair = differ.entry(format!("{from} to {to}")).or_insert(0);
        match (cast_by_theirs(array, to, safe), cast_by_ours(array, to, safe)) {
            (Ok(their), Ok(our)) => {
                *if is_ours { &mut results } else { &mut others } += 1;
                our.to_data().validate_full().unwrap();
                assert_eq!(their.null_count(), our.null_count(), "{what}");
                if !(before_60 && cannot_fail(from, to) && array.nulls().is_none()) {
                    assert_eq!(their.nulls().is_some(), our.nulls().is_some(), "{what}");
                }
                if *their != *our {
                    let differing = (0..their.len()).filter(|&i| their.slice(i, 1) != our.slice(i, 1)).count();
                    assert!(may_differ(from, to), "{what}: {differing} differ");
                    *pair += differing;
                }
            }
            (Err(their), Err(our)) => {
                *if is_ours { &mut errors } else { &mut others } += 1;
                assert_eq!(their.to_string(), our.to_string(), "{what}");
            }
            (their, our) => panic!("{what}: {their:?}, {our:?}"),
        }
    });
    println!("{} pairs of types: {results} arrays of lanecast with the same elements and nulls, {errors} errors of the same text", differ.len());
    println!("{others} arrays and errors are arrow's own by both");
    for (pair, count) in differ.iter().filter(|(_, count)| **count > 0) {
        println!("but {pair}, which is rounded once: {count} elements");
    }
    let (mut same, mut of_lanecast) = (0, 0);
    nested(|array, to, safe| {
        let what = format!("{} to {to}, safe: {safe}, {} elements", array.data_type(), array.len());
        of_lanecast += usize::from(which.next().unwrap());
        same += 1;
        match (cast_by_theirs(array, to, safe), cast_by_ours(array, to, safe)) {
            (Ok(their), Ok(our)) => assert!(*their == *our, "{what}"),
            (Err(their), Err(our)) => assert_eq!(their.to_string(), our.to_string(), "{what}"),
            (their, our) => panic!("{what}: {their:?}, {our:?}"),
        }
    });
    println!("runs, dictionaries, lists and times: {same} arrays or errors are the same, {of_lanecast} by lanecast");
    assert!(which.next().is_none());
}

/// How much longer theirs takes than ours. (An error is a result, too.)
fn ratio(array: &dyn Array, to: &DataType, safe: bool) -> f64 {
    let (their, our) = (
        theirs::cast::CastOptions { safe, ..Default::default() },
        ours::cast::CastOptions { safe, ..Default::default() },
    );
    let text = |error: ArrowError| error.to_string();
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
        Some("bits") => compare(&std::env::args().nth(2).unwrap()),
        Some("whose") => whose(),
        Some("bench") => bench(),
        _ => panic!("bits or bench"),
    }
}
