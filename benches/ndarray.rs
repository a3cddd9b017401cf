//! Casts of arrays of the crate ndarray beside its own `mapv`, in turns: the median ratio of their times, `mapv`'s to the cast's.
//!
//! `cargo bench --bench ndarray --features ndarray`

use std::hint::black_box;

use lanecast::{Element, Lanecast, bf16, f16};
use ndarray::{Array2, ArrayView2, s};

#[path = "../integrations/turns.rs"]
mod turns;

/// Returns how many times as long `mapv` takes as the cast, whose results must be the same. `mapv` is compiled for the two types, as in
/// a program that names them.
fn ratio<S: Element, D: Element + PartialEq>(x: ArrayView2<'_, S>, each: impl Fn(S) -> D + Copy) -> String {
    assert!(x.mapv(each) == x.lanecast::<D>().expect("an instruction set"));
    let ratio = turns::ratio(
        x.len(),
        || black_box(&x).mapv(each),
        || black_box(&x).lanecast::<D>().expect("an instruction set"),
    );
    format!("{ratio:.2}")
}

fn row<S: Element, D: Element + PartialEq>(name: &str, value: fn(usize) -> S, each: impl Fn(S) -> D + Copy) {
    let array = |rows, columns| Array2::from_shape_fn((rows, columns), |(i, j)| value(i * columns + j));
    let dense = [(1, 16), (16, 32), (256, 256), (1024, 1024)].map(|(n, m)| ratio(array(n, m).view(), each));
    let square = array(256, 256);
    let wide = array(256, 512);
    let others = [ratio(square.t().slice(s![.., ..;-1]), each), ratio(wide.slice(s![.., ..;2]), each)];
    let rows = [20, 100, 500].map(|n| ratio(array(64, n + 7).slice(s![.., ..n]), each));
    println!("| {name} | {} | {} | {} |", dense.join(" | "), others.join(" | "), rows.join(" | "));
}

fn main() {
    if std::env::args().any(|word| word == "--test") {
        return;
    }
    println!(
        "| cast | 16 | 512 | 65,536 | 1,048,576 | 256 x 256, transposed and turned | every second of 256 x 512 \
         | 64 rows, 20 columns of 27 | 100 of 107 | 500 of 507 |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    row("float64 to float32", |i| i as f64 * 0.1, |x| x as f32);
    row("float32 to float64", |i| i as f32 * 0.1, f64::from);
    row("float32 to float16", |i| (i % 60000) as f32 * 0.1, f16::from_f32);
    row("float16 to float32", |i| f16::from_f32((i % 60000) as f32), f16::to_f32);
    row("float32 to bfloat16", |i| i as f32 * 0.1, bf16::from_f32);
    row("bfloat16 to float32", |i| bf16::from_f32(i as f32), bf16::to_f32);
    row("float32 to int32", |i| i as f32 * 0.1, |x| x as i32);
    row("float64 to uint8", |i| i as f64 * 0.1, |x| x as u8);
    row("float64 to int64", |i| i as f64 * 0.1, |x| x as i64);
    row("int64 to int32", |i| i as i64 * 99999, |x| x as i32);
    row("int32 to int8", |i| i as i32, |x| x as i8);
    row("uint8 to float32", |i| i as u8, f32::from);
    row("int16 to int64", |i| i as i16, i64::from);
    row("int32 to float32", |i| i as i32, |x| x as f32);
    row("int64 to float64", |i| i as i64, |x| x as f64);
    row("uint64 to float32", |i| i as u64, |x| x as f32);
}
