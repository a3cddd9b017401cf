//! The codec by what its specification says.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde_json::{Value, json};
use zarrs::array::{Array, ArrayBuilder, ArrayBytes, ArraySubset, DataType, FillValue};
use zarrs::metadata::FillValueMetadata;
use zarrs::metadata::v3::MetadataV3;
use zarrs::storage::store::MemoryStore;
use zarrs_codec::{ArrayToArrayCodecTraits, Codec, CodecOptions};
use zarrs_lanecast::{CastValue, OutOfRange, Rounding, register};

const INTEGERS: [&str; 12] = [
    "int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8", "uint16", "uint32",
    "uint64",
];
const FLOATS: [&str; 14] = [
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "bfloat16",
    "float16",
    "float32",
    "float64",
];

fn data_type(name: &str) -> DataType {
    DataType::from_metadata(&MetadataV3::new(name)).unwrap()
}

fn codec(configuration: Value) -> Result<Arc<dyn ArrayToArrayCodecTraits>, String> {
    register();
    let metadata = json!({"name": "cast_value", "configuration": configuration});
    let metadata: MetadataV3 = serde_json::from_value(metadata).map_err(|error| error.to_string())?;
    match Codec::from_metadata(&metadata).map_err(|error| error.to_string())? {
        Codec::ArrayToArray(codec) => Ok(codec),
        _ => panic!("it is from array to array"),
    }
}

/// What elements of a data type become, or why they do not.
fn encode(from: &str, configuration: Value, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let (codec, from) = (codec(configuration)?, data_type(from));
    let size = from.fixed_size().unwrap();
    let shape = [NonZeroU64::new((bytes.len() / size) as u64).unwrap()];
    // One is the same in every data type, there and back.
    let fill = from.fill_value_v3(&FillValueMetadata::from(1)).unwrap_or(FillValue::new(vec![0; size]));
    let encoded = codec.encode(bytes.into(), &shape, &from, &fill, &CodecOptions::default());
    Ok(encoded.map_err(|error| error.to_string())?.into_fixed().unwrap().into_owned())
}

macro_rules! elements {
    ($t:ty: $($x:expr),*) => {{
        let elements: &[$t] = &[$($x),*];
        elements.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>()
    }};
}

fn read<const N: usize, T>(bytes: &[u8], of: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&bytes| of(bytes)).collect()
}

/// Values at and around halves and the limits of integers.
fn numbers() -> Vec<f64> {
    let mut numbers = vec![0.0, -0.0, 0.25, 1e300, -1e300, f64::MIN_POSITIVE];
    for bits in [1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 65, 127, 130] {
        for near in [-2.0, -1.5, -1.0, -0.75, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5] {
            let power = 2f64.powi(bits);
            numbers.extend([power + near, -power + near, power.next_down(), (-power).next_down()]);
        }
    }
    numbers
}

fn rounded(x: f64, rounding: &str) -> f64 {
    match rounding {
        "nearest-even" => x.round_ties_even(),
        "nearest-away" => x.round(),
        "towards-zero" => x.trunc(),
        "towards-positive" => x.ceil(),
        _ => x.floor(),
    }
}

const ROUNDINGS: [&str; 5] =
    ["nearest-even", "nearest-away", "towards-zero", "towards-positive", "towards-negative"];

/// Floats to every integer, by the arithmetic of `f64` and `i128`.
#[test]
fn floats_to_integers() {
    for to in INTEGERS {
        let (signed, bits) = (
            to.starts_with('i'),
            to.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().unwrap(),
        );
        let (low, high) = match signed {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        };
        for rounding in ROUNDINGS {
            for rule in [None, Some("clamp"), Some("wrap")] {
                let mut configuration = json!({"data_type": to, "rounding": rounding});
                if let Some(rule) = rule {
                    configuration["out_of_range"] = rule.into();
                }
                for x in numbers() {
                    let whole = rounded(x, rounding);
                    // Of what is larger than i128 the lower bits are 0.
                    let value = if whole.abs() < 2f64.powi(126) { whole as i128 } else { 0 };
                    let fits = whole.abs() < 2f64.powi(126) && (low..=high).contains(&value);
                    let expected = match rule {
                        _ if fits => Some(value),
                        None => None,
                        Some("clamp") => Some(if whole < 0.0 { low } else { high }),
                        _ => {
                            let wrapped = value & ((1 << bits) - 1);
                            Some(if wrapped > high { wrapped - (1 << bits) } else { wrapped })
                        }
                    };
                    let found = encode("float64", configuration.clone(), elements![f64: x]);
                    let expected =
                        expected.map(|value| value.to_le_bytes()[..bits.div_ceil(8) as usize].to_vec());
                    let found = found.map(|mut bytes| {
                        if cfg!(target_endian = "big") {
                            bytes.reverse();
                        }
                        bytes
                    });
                    assert_eq!(found.clone().ok(), expected, "{x:e} to {to}, {configuration}: {found:?}");
                }
            }
        }
    }
}

/// float64 to float32 in every rounding, by the neighbours of what `as` gives.
#[test]
fn floats_to_floats() {
    let numbers: Vec<f64> = (0..2000u64)
        .map(|i| f64::from_bits(0x3FF0_0000_0000_0000 | i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 12))
        .chain((0..64).map(|i| 1.0 + f64::from(i) * 2f64.powi(-26)))
        .flat_map(|x| [x, -x])
        .collect();
    for rounding in ROUNDINGS {
        let expected = numbers.iter().map(|&x| {
            let near = x as f32;
            let [below, above] = match f64::from(near) {
                y if y > x => [near.next_down(), near],
                y if y < x => [near, near.next_up()],
                _ => return near,
            };
            let middle = (f64::from(below) + f64::from(above)) / 2.0;
            match rounding {
                "nearest-even" => near,
                "nearest-away" if x == middle => {
                    if x < 0.0 {
                        below
                    } else {
                        above
                    }
                }
                "nearest-away" => near,
                "towards-zero" => {
                    if x < 0.0 {
                        above
                    } else {
                        below
                    }
                }
                "towards-positive" => above,
                _ => below,
            }
        });
        let bytes = numbers.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let found = encode("float64", json!({"data_type": "float32", "rounding": rounding}), bytes).unwrap();
        assert!(read(&found, f32::from_ne_bytes).into_iter().eq(expected), "{rounding}");
    }
}

/// What is out of range of a float is an error or infinity, in directed roundings too; where there is no infinity, the largest.
#[test]
fn floats_out_of_range() {
    for rounding in ROUNDINGS {
        let to = |name: &str| json!({"data_type": name, "rounding": rounding, "out_of_range": "clamp"});
        let found =
            encode("float64", to("float32"), elements![f64: 1e300f64, -1e300, f64::INFINITY, f64::NAN])
                .unwrap();
        let found = read(&found, f32::from_ne_bytes);
        assert_eq!(found[..3], [f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY], "{rounding}");
        assert!(found[3].is_nan());
        let found = encode("int64", to("float16"), elements![i64: i64::MAX, i64::MIN, 65504i64]).unwrap();
        assert_eq!(read(&found, u16::from_ne_bytes), [0x7C00, 0xFC00, 0x7BFF], "{rounding}");
        assert_eq!(
            encode("float32", to("float4_e2m1fn"), elements![f32: 1e9f32, -1e9f32]).unwrap(),
            [0x7, 0xF],
            "{rounding}"
        );
        encode("float32", to("float4_e2m1fn"), elements![f32: f32::INFINITY]).unwrap_err();
        encode("float32", to("float4_e2m1fn"), elements![f32: f32::NAN]).unwrap_err();
        let strict = json!({"data_type": "float32", "rounding": rounding});
        let error = encode("float64", strict.clone(), elements![f64: 1f64, 1e300]).unwrap_err();
        assert!(error.contains("element 1, 1e300"), "{error}");
        encode("float64", strict, elements![f64: f64::INFINITY, f64::NAN, -0.0]).unwrap();
    }
}

/// NaN and infinity become no integer, whatever out_of_range says; but they may be mapped.
#[test]
fn maps() {
    for rule in [json!(null), json!("clamp"), json!("wrap")] {
        let mut configuration = json!({"data_type": "uint8"});
        if !rule.is_null() {
            configuration["out_of_range"] = rule;
        }
        for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            encode("float64", configuration.clone(), elements![f64: 1.0, x]).unwrap_err();
        }
        // The first of a key counts; -0 is 0, any NaN is NaN.
        configuration["scalar_map"] = json!({"encode": [["NaN", 7], [0.0, 9], [0.0, 10], ["Infinity", 1], ["-Infinity", 2], [2.5, 42], [1e9, 3]]});
        let odd = f64::from_bits(0xFFF0_0000_0000_0001);
        let values =
            elements![f64: f64::NAN, odd, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 2.5, 1e9, 4.0];
        assert_eq!(encode("float64", configuration, values).unwrap(), [7, 7, 9, 9, 1, 2, 42, 3, 4]);
    }
    // Keys of 64-bit integers are not read by way of a float.
    let map = json!({"encode": [[9_007_199_254_740_993u64, 5]]});
    let configuration = json!({"data_type": "uint8", "out_of_range": "clamp", "scalar_map": map});
    let values = elements![u64: 9_007_199_254_740_993u64, 9_007_199_254_740_992];
    assert_eq!(encode("uint64", configuration, values).unwrap(), [5, 255]);
    // In a source of one byte.
    let configuration = json!({"data_type": "float32", "scalar_map": {"encode": [[-1, "NaN"]]}});
    let found = read(&encode("int4", configuration, vec![0xFF, 1]).unwrap(), f32::from_ne_bytes);
    assert!(found[0].is_nan() && found[1] == 1.0);
    // Many, some of which are hit, in runs of more than one loop.
    let values: Vec<u8> = (0..1000).flat_map(|i| f64::from(i % 200).to_ne_bytes()).collect();
    let configuration = json!({"data_type": "uint8", "scalar_map": {"encode": [[199, 0], [3, 4]]}});
    let expected: Vec<u8> = (0..1000)
        .map(|i| (i % 200) as u8)
        .map(|x| {
            if x == 199 {
                0
            } else if x == 3 {
                4
            } else {
                x
            }
        })
        .collect();
    assert_eq!(encode("float64", configuration, values).unwrap(), expected);
}

/// 1 goes through every pair of data types, and comes back.
#[test]
fn every_pair() {
    for from in INTEGERS.iter().chain(&FLOATS) {
        let one = encode("float64", json!({"data_type": from}), elements![f64: 1f64, 1.0, 1.0]).unwrap();
        for to in INTEGERS.iter().chain(&FLOATS) {
            let there = encode(from, json!({"data_type": to}), one.clone()).unwrap();
            let back = encode(to, json!({"data_type": "float64"}), there).unwrap();
            assert_eq!(read(&back, f64::from_ne_bytes), [1.0; 3], "{from} to {to}");
        }
    }
    // A sign in all upper bits, as zarrs has it.
    assert_eq!(encode("int8", json!({"data_type": "int4"}), vec![0xFD, 7]).unwrap(), [0xFD, 7]);
    assert_eq!(encode("int4", json!({"data_type": "int8"}), vec![0xFD, 7]).unwrap(), [0xFD, 7]);
    for wrong in ["bool", "complex64", "float8_e4m3fn"] {
        assert!(codec(json!({"data_type": wrong})).is_err(), "{wrong}");
    }
    encode("bool", json!({"data_type": "uint8"}), vec![1]).unwrap_err();
}

/// An error names the field, and what is wrong with it.
#[test]
fn what_is_no_configuration() {
    codec(json!({"data_type": "uint8"})).unwrap();
    let null = json!({"data_type": "uint8", "rounding": null, "out_of_range": null, "scalar_map": null});
    codec(null).unwrap();
    codec(json!({"data_type": "uint8", "scalar_map": {"encode": null, "decode": []}})).unwrap();
    for (wrong, what) in [
        (json!({}), "data_type is missing"),
        (json!({"data_type": 7}), "data_type is 7"),
        (json!({"data_type": "uint7"}), "data_type: data type uint7"),
        (json!({"data_type": "complex64"}), "data_type is complex64, which is not supported"),
        (json!({"data_type": "uint8", "more": 1}), "configuration: \"more\" is not a known key"),
        (json!({"data_type": "uint8", "rounding": "up"}), "rounding is \"up\""),
        (json!({"data_type": "uint8", "rounding": 3}), "rounding is 3"),
        (json!({"data_type": "uint8", "out_of_range": "saturate"}), "out_of_range is \"saturate\""),
        (json!({"data_type": "float32", "out_of_range": "wrap"}), "\"wrap\", but float32 is not an integer"),
        (json!({"data_type": "uint8", "scalar_map": []}), "scalar_map is []"),
        (json!({"data_type": "uint8", "scalar_map": [[], []]}), "scalar_map is [[],[]]"),
        (
            json!({"data_type": "uint8", "scalar_map": {"other": []}}),
            "scalar_map: \"other\" is not a known key; the keys are encode, decode",
        ),
        (json!({"data_type": "uint8", "scalar_map": {"encode": {}}}), "scalar_map: encode is {}"),
        (
            json!({"data_type": "uint8", "scalar_map": {"encode": [[1, 2], [1]]}}),
            "scalar_map: encode[1] is [1]",
        ),
        (json!({"data_type": "uint8", "scalar_map": {"decode": [[1, 2, 3]]}}), "decode[0] is [1,2,3]"),
        (
            json!({"data_type": "uint8", "scalar_map": {"encode": [[1, 300]]}}),
            "scalar_map: 300 is not a value of uint8",
        ),
        (
            json!({"data_type": "uint8", "scalar_map": {"decode": [["x", 1]]}}),
            "scalar_map: \"x\" is not a value of uint8",
        ),
    ] {
        let Err(error) = codec(wrong.clone()) else { panic!("{wrong}") };
        assert!(error.starts_with("cast_value: ") && error.contains(what), "{wrong}: {error}");
    }
    // What depends on the data type of the array.
    let map = json!({"encode": [["nan", 3]]});
    let configuration = json!({"data_type": "uint8", "scalar_map": map});
    let error = encode("float64", configuration, elements![f64: 1f64]).unwrap_err();
    assert_eq!(error, "cast_value: scalar_map: \"nan\" is not a value of float64");
}

/// The fill value is cast as an element is, and must come back.
#[test]
fn fill_values() {
    let from = data_type("float64");
    let fill = |configuration, x: f64| {
        let encoded = codec(configuration).unwrap().encoded_fill_value(&from, &FillValue::from(x));
        encoded.map(|value| value.as_ne_bytes().to_vec()).map_err(|error| error.to_string())
    };
    assert_eq!(fill(json!({"data_type": "uint8"}), 7.0), Ok(vec![7]));
    for wrong in [0.5, 300.0, f64::NAN] {
        fill(json!({"data_type": "uint8", "out_of_range": "clamp"}), wrong).unwrap_err();
    }
    let map = json!({"encode": [["NaN", 0]], "decode": [[0, "NaN"]]});
    assert_eq!(fill(json!({"data_type": "uint8", "scalar_map": map}), f64::NAN), Ok(vec![0]));
    // Zeros are given for arrays of other fill values, too.
    let map = json!({"encode": [[0.0, 9], [0.5, 8]]});
    assert_eq!(fill(json!({"data_type": "uint8", "scalar_map": map}), 0.0), Ok(vec![9]));
    fill(json!({"data_type": "uint8", "scalar_map": map}), 0.5).unwrap_err();
    assert_eq!(fill(json!({"data_type": "float8_e8m0fnu"}), 0.0), Ok(vec![0]));
}

/// Fill values are compared by what they are: a NaN is any other, of whatever sign and payload, and -0 is 0.
#[test]
fn fill_values_of_other_bits() {
    let there_and_back = |to: &str, x: f64| {
        let (codec, from) = (codec(json!({"data_type": to})).unwrap(), data_type("float64"));
        let (fill, shape, options) = (FillValue::from(x), [NonZeroU64::MIN], CodecOptions::default());
        codec.encoded_fill_value(&from, &fill).map_err(|error| error.to_string())?;
        let bytes = x.to_ne_bytes().to_vec();
        let encoded = codec.encode(bytes.into(), &shape, &from, &fill, &options).unwrap();
        let decoded = codec.decode(encoded, &shape, &from, &fill, &options).unwrap();
        Ok::<f64, String>(read(&decoded.into_fixed().unwrap(), f64::from_ne_bytes)[0])
    };
    let nans = [0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0000, 0x7FF0_0000_0000_0001, 0x7FF8_1234_5678_9ABC];
    for to in FLOATS {
        for nan in nans.map(f64::from_bits) {
            // float4 and float6 have no NaN.
            match there_and_back(to, nan) {
                Ok(found) => assert!(found.is_nan(), "{to}: {found}"),
                Err(error) => assert!(to.starts_with("float4") || to.starts_with("float6"), "{to}: {error}"),
            }
        }
        // The powers of two have no 0.
        assert_eq!(there_and_back(to, -0.0).ok(), (to != "float8_e8m0fnu").then_some(0.0), "{to}");
    }
    for to in INTEGERS {
        assert_eq!(there_and_back(to, -0.0), Ok(0.0), "{to}");
        there_and_back(to, f64::NAN).unwrap_err();
    }
    // From float8 to float8, too.
    for (from, nan, to) in
        [("float8_e5m2", 0x7E, "float8_e4m3fnuz"), ("float8_e5m2fnuz", 0x80, "float8_e4m3")]
    {
        let codec = codec(json!({"data_type": to})).unwrap();
        codec.encoded_fill_value(&data_type(from), &FillValue::new(vec![nan])).unwrap();
    }
}

/// One codec of many arrays: casters are kept by the data type, and each fill value is checked.
#[test]
fn one_codec_of_several_arrays() {
    let map = json!({"encode": [[7, 1]], "decode": [[1, 7]]});
    let codec = codec(json!({"data_type": "uint8", "scalar_map": map})).unwrap();
    let (shape, options) = ([NonZeroU64::MIN], CodecOptions::default());
    let [wide, float] = ["int16", "float64"].map(data_type);
    for _ in 0..2 {
        for (from, fill, bytes, is_taken) in [
            (&wide, FillValue::from(7i16), elements![i16: 7i16], true),
            (&float, FillValue::from(0.0f64), elements![f64: 7f64], true),
            (&wide, FillValue::from(2i16), elements![i16: 7i16], true),
            (&wide, FillValue::from(1i16), elements![i16: 7i16], false),
            (&float, FillValue::from(0.5f64), elements![f64: 7f64], false),
        ] {
            let encoded = codec.encode(bytes.clone().into(), &shape, from, &fill, &options);
            assert_eq!(encoded.is_ok(), is_taken, "{fill}");
            assert_eq!(codec.encoded_fill_value(from, &fill).is_ok(), is_taken, "{fill}");
            if let Ok(encoded) = encoded {
                assert_eq!(*encoded.clone().into_fixed().unwrap(), [1]);
                let decoded = codec.decode(encoded, &shape, from, &fill, &options).unwrap();
                assert_eq!(*decoded.into_fixed().unwrap(), bytes);
            }
        }
    }
}

/// A codec that is built is written to the metadata, and read again.
#[test]
fn a_codec_that_is_built() {
    register();
    let codec = CastValue::new(data_type("int8")).unwrap().rounding(Rounding::TowardsZero);
    let codec = codec.out_of_range(OutOfRange::Wrap).unwrap();
    let codec = codec.scalar_map([("NaN".into(), FillValueMetadata::from(-1))], []).unwrap();
    let store = Arc::new(MemoryStore::new());
    let array = ArrayBuilder::new(vec![4], vec![4], data_type("float64"), 0.0)
        .array_to_array_codecs(vec![Arc::new(codec)])
        .build(store.clone(), "/")
        .unwrap();
    array.store_metadata().unwrap();
    array.store_chunk(&[0], &[1.75, 130.0, f64::NAN, 0.0][..]).unwrap();
    let array = Array::open(store, "/").unwrap();
    assert_eq!(array.retrieve_chunk::<Vec<f64>>(&[0]).unwrap(), [1.0, -126.0, -1.0, 0.0]);
    let metadata = serde_json::to_value(array.metadata()).unwrap();
    let written = json!({"name": "cast_value", "configuration": {
        "data_type": "int8", "rounding": "towards-zero", "out_of_range": "wrap",
        "scalar_map": {"encode": [["NaN", -1]], "decode": []},
    }});
    assert_eq!(metadata["codecs"][0], written);
    for (wrong, what) in [
        (CastValue::new(data_type("bool")), "bool, which is not supported"),
        (CastValue::new(data_type("float32")).unwrap().out_of_range(OutOfRange::Wrap), "not an integer"),
        (
            CastValue::new(data_type("uint8")).unwrap().scalar_map([], [(300.into(), 1.into())]),
            "300 is not a value",
        ),
    ] {
        let error = wrong.unwrap_err().to_string();
        assert!(error.starts_with("cast_value: ") && error.contains(what), "{error}");
    }
}

/// An array may map zero, or be stored as a data type that has none, unless that is its fill value.
#[test]
fn zeros() {
    register();
    let array = |fill: Value, cast: Value, sharded: bool| {
        let mut codecs = json!([{"name": "cast_value", "configuration": cast}, {"name": "bytes"}]);
        if sharded {
            codecs = json!([{"name": "sharding_indexed", "configuration": {
                "chunk_shape": [2], "codecs": codecs, "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            }}]);
        }
        let metadata = json!({
            "zarr_format": 3, "node_type": "array", "shape": [6], "data_type": "float64", "fill_value": fill,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [6]}},
            "chunk_key_encoding": {"name": "default"}, "codecs": codecs,
        });
        let store = Arc::new(MemoryStore::new());
        Array::new_with_metadata(store, "/", serde_json::from_value(metadata).unwrap()).unwrap()
    };
    let map = json!({"encode": [["NaN", 0]], "decode": [[0, "NaN"]]});
    let mapped = json!({"data_type": "uint8", "scalar_map": map});
    let powers = json!({"data_type": "float8_e8m0fnu"});
    for sharded in [false, true] {
        let of_nan = array("NaN".into(), mapped.clone(), sharded);
        of_nan
            .store_array_subset(&of_nan.subset_all(), &[f64::NAN, f64::NAN, 1.0, 2.0, f64::NAN, 3.0][..])
            .unwrap();
        let found = of_nan.retrieve_array_subset::<Vec<f64>>(&of_nan.subset_all()).unwrap();
        assert!(found[0].is_nan() && found[1].is_nan() && found[4].is_nan(), "{found:?}");
        assert_eq!([found[2], found[3], found[5]], [1.0, 2.0, 3.0]);
        let of_one = array(1.into(), powers.clone(), sharded);
        of_one.store_array_subset(&of_one.subset_all(), &[1.0, 1.0, 2.0, 4.0, 1.0, 0.5][..]).unwrap();
        let found = of_one.retrieve_array_subset::<Vec<f64>>(&of_one.subset_all()).unwrap();
        assert_eq!(found, [1.0, 1.0, 2.0, 4.0, 1.0, 0.5]);
        for (cast, value) in [(&mapped, 1.0), (&powers, 2.0)] {
            let of_zero = array(0.into(), cast.clone(), sharded);
            let error = of_zero.store_array_subset(&of_zero.subset_all(), &[value; 6][..]).unwrap_err();
            assert!(error.to_string().contains("the fill value"), "{error}");
            let part = ArraySubset::new_with_start_shape(vec![1], vec![2]).unwrap();
            // What is not there is zero, or an error, but no other value.
            if let Ok(found) = of_zero.retrieve_array_subset::<Vec<f64>>(&part) {
                assert_eq!(found, [0.0; 2]);
            }
        }
    }
}

/// An array of zarrs, in whole and in part, and its metadata.
#[test]
fn arrays() {
    register();
    let metadata = json!({
        "zarr_format": 3, "node_type": "array", "shape": [6, 10], "data_type": "float64", "fill_value": 1.0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 5]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [
            {"name": "cast_value", "configuration": {"data_type": "int16", "out_of_range": "clamp"}},
            {"name": "bytes", "configuration": {"endian": "big"}},
        ],
    });
    let store = Arc::new(MemoryStore::new());
    let array =
        Array::new_with_metadata(store.clone(), "/", serde_json::from_value(metadata).unwrap()).unwrap();
    array.store_metadata().unwrap();
    let values: Vec<f64> = (0..60).map(|i| f64::from(i) * 1000.5).collect();
    array.store_array_subset(&array.subset_all(), &values[..]).unwrap();
    let array = Array::open(store, "/").unwrap();
    let expected: Vec<f64> = values.iter().map(|x| x.round_ties_even().min(32767.0)).collect();
    assert_eq!(array.retrieve_array_subset::<Vec<f64>>(&array.subset_all()).unwrap(), expected);
    let part = ArraySubset::new_with_ranges(&[3..5, 4..7]);
    let expected = [3, 4].map(|row| expected[10 * row + 4..10 * row + 7].to_vec()).concat();
    assert_eq!(array.retrieve_array_subset::<Vec<f64>>(&part).unwrap(), expected);
    array.store_array_subset(&part, &[5.5; 6][..]).unwrap();
    assert_eq!(array.retrieve_array_subset::<Vec<f64>>(&part).unwrap(), [6.0; 6]);
    let _: ArrayBytes = array.retrieve_array_subset(&part).unwrap();
    let stored = array.metadata().to_string_pretty();
    assert!(stored.contains("\"clamp\""), "{stored}");
}
