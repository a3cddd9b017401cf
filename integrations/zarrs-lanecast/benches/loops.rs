//! The cast of the codec, a kept `ValueCaster`, beside a loop over the elements, in turns: the median of their ratios. Then the codec itself, as
//! zarrs calls it for a chunk.

use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::Instant;

use lanecast::zarr::ValueCaster;
use lanecast::{DType, Overflow, Rounding};
use serde_json::json;
use zarrs::array::{DataType, FillValue};
use zarrs::metadata::v3::MetadataV3;
use zarrs_codec::{Codec, CodecOptions};

#[path = "../../turns.rs"]
mod turns;

/// How much longer a loop takes than the codec, which must give the same.
fn ratio(src: &[u8], cast: &dyn Fn(&[u8]) -> Vec<u8>, plain: &dyn Fn(&[u8]) -> Vec<u8>) -> f64 {
    assert!(cast(src) == plain(src), "the loop does not do the same");
    turns::ratio(src.len() / 2, || plain(black_box(src)), || cast(black_box(src)))
}

/// Prints how many nanoseconds the codec takes to encode a chunk, and to decode it: the fastest of many turns.
fn chunks(from: &str, to: &str, configuration: &str) {
    zarrs_lanecast::register();
    let metadata = json!({"name": "cast_value", "configuration": serde_json::from_str::<serde_json::Value>(configuration).unwrap()});
    let metadata: MetadataV3 = serde_json::from_value(metadata).unwrap();
    let Ok(Codec::ArrayToArray(codec)) = Codec::from_metadata(&metadata) else { panic!("no codec") };
    let data_type = DataType::from_metadata(&MetadataV3::new(from)).unwrap();
    let (size, options) = (data_type.fixed_size().unwrap(), CodecOptions::default());
    let fill = FillValue::new(vec![0; size]);
    let times = [64, 65536].map(|n| {
        let (decoded, shape) = (vec![0u8; n * size], [NonZeroU64::new(n as u64).unwrap()]);
        let encode =
            || codec.encode(black_box(&decoded[..]).into(), &shape, &data_type, &fill, &options).unwrap();
        let encoded = encode().into_fixed().unwrap();
        let decode =
            || codec.decode(black_box(&encoded[..]).into(), &shape, &data_type, &fill, &options).unwrap();
        let calls = 1_000_000 / n.max(1000);
        let fastest = |call: &dyn Fn()| {
            let turns = (0..300).map(|_| {
                let start = Instant::now();
                (0..calls).for_each(|_| call());
                start.elapsed().as_nanos() / calls as u128
            });
            turns.min().unwrap()
        };
        [fastest(&|| drop(encode())), fastest(&|| drop(decode()))]
    });
    let [[encode, decode], [encode_large, decode_large]] = times;
    println!("| {from} to {to} | {encode} | {decode} | {encode_large} | {decode_large} |");
}

fn main() {
    println!(
        "| nanoseconds a chunk | encode 64 | decode 64 | encode 65,536 | decode 65,536 |\n|---|---|---|---|---|"
    );
    chunks("float64", "uint8, clamp", r#"{"data_type": "uint8", "out_of_range": "clamp"}"#);
    let map = r#"{"data_type": "uint8", "out_of_range": "clamp", "scalar_map": {"encode": [["NaN", 255]], "decode": [[255, "NaN"]]}}"#;
    chunks("float64", "uint8, clamp, NaN mapped", map);
    chunks("float32", "float16", r#"{"data_type": "float16"}"#);
    println!();
    println!("| cast | 4,096 | 65,536 | 1,048,576 |\n|---|---|---|---|");
    macro_rules! row {
        ($name:literal, $from:ty, $source:ident => $to:ident, $rule:expr, $map:expr, $value:expr, $element:expr) => {{
            let caster =
                ValueCaster::new(DType::$source, DType::$to, Rounding::NearestEven, $rule, $map).unwrap();
            let cast = |src: &[u8]| {
                let n = src.len() / DType::$source.itemsize();
                let mut out = Vec::with_capacity(n * DType::$to.itemsize());
                let len = caster
                    .cast_uninit(src, &mut out.spare_capacity_mut()[..n * DType::$to.itemsize()], n)
                    .unwrap()
                    .len();
                // SAFETY: the cast has initialised so many.
                unsafe { out.set_len(len) };
                out
            };
            let plain = |src: &[u8]| -> Vec<u8> {
                let (elements, _) = src.as_chunks();
                let mut dst = vec![0; elements.len() * DType::$to.bits() as usize / 8];
                let (room, _) = dst.as_chunks_mut();
                for (y, &x) in room.iter_mut().zip(elements) {
                    *y = ($element)(<$from>::from_ne_bytes(x)).to_ne_bytes();
                }
                dst
            };
            let ratios = [4096, 65536, 1 << 20].map(|n| {
                let src: Vec<u8> = (0..n)
                    .flat_map(|i| {
                        let x: $from = ($value)(i);
                        x.to_ne_bytes()
                    })
                    .collect();
                ratio(&src, &cast, &plain)
            });
            println!("| {} | {:.2} | {:.2} | {:.2} |", $name, ratios[0], ratios[1], ratios[2]);
        }};
    }
    // The loops check as the codec does: what is lost is a panic, or is clamped.
    let clamp = Some(Overflow::Saturate);
    let real = |i: usize| (i % 1000) as f64 * 0.2;
    row!("float64 to uint8, clamp", f64, F64 => U8, clamp, &[], real, |x: f64| {
        assert!(x.is_finite());
        x.round_ties_even() as u8
    });
    row!("float64 to int32", f64, F64 => I32, None, &[], real, |x: f64| {
        let x = x.round_ties_even();
        assert!((-2147483648.0..=2147483647.0).contains(&x));
        x as i32
    });
    row!("float32 to uint8, clamp", f32, F32 => U8, clamp, &[], |i| real(i) as f32, |x: f32| {
        assert!(x.is_finite());
        x.round_ties_even() as u8
    });
    row!("float64 to float32", f64, F64 => F32, None, &[], real, |x: f64| {
        let y = x as f32;
        assert!(y.is_finite() || !x.is_finite());
        y
    });
    row!("int64 to int16, wrap", i64, I64 => I16, Some(Overflow::Wrap), &[], |i| i as i64 * 77, |x: i64| x as i16);
    row!("int16 to float32", i16, I16 => F32, None, &[], |i| i as i16, f32::from);
    let map = [(f64::NAN.to_bits(), 255), (7f64.to_bits(), 0)];
    let with_nan = |i: usize| if i.is_multiple_of(100) { f64::NAN } else { real(i) };
    row!("float64 to uint8, clamp, a map of 2 of which one is in a hundred", f64, F64 => U8, clamp, &map, with_nan, |x: f64| {
        if x.is_nan() {
            255
        } else if x == 7.0 {
            0
        } else {
            assert!(x.is_finite());
            x.round_ties_even() as u8
        }
    });
}
