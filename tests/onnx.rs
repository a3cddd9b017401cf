//! The operators `Cast` and `CastLike` against the conformance data, the schemas of every version, and the recorded
//! answers of onnx's reference evaluator and of ONNX Runtime. `tests/fixtures/README.md` says what the files are.

#![cfg(feature = "onnx")]

use std::collections::{BTreeMap, BTreeSet};

use lanecast::onnx::{
    Attribute, Cast, CastLike, DataType, DequantizeLinear, DynamicQuantizeLinear, Error, FnuzInfinity,
    Operator, Options, QuantizeLinear, Strings, Tensor,
};
use lanecast::{DType, NanToFinite, Overflow, Packing, Rounding, text};
use lanecast_oracle as oracle;

fn rows(file: &str) -> impl Iterator<Item = Vec<&str>> {
    file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

fn data_type(name: &str) -> DataType {
    DataType::from_name(name).unwrap_or_else(|| panic!("no type {name}"))
}

fn type_of(data_type: DataType) -> oracle::Type {
    oracle::Type::from_name(data_type.dtype().expect("not strings").name())
        .expect("the oracle has every dtype")
}

/// Parses fixed-width hexadecimal codes without separators.
fn hex(of: DataType, digits: &str) -> Vec<u128> {
    let width = type_of(of).bits().div_ceil(4) as usize;
    assert!(digits.len().is_multiple_of(width), "{of}: {digits}");
    let codes = (0..digits.len()).step_by(width);
    codes.map(|i| u128::from_str_radix(&digits[i..i + width], 16).unwrap()).collect()
}

/// Returns a tensor of codes as ONNX lays them out: one little-endian bit stream.
fn tensor(of: DataType, codes: &[u128]) -> Tensor<'static> {
    let bytes = oracle::packing::pack(codes, type_of(of).bits(), oracle::packing::Packing::LowFirst);
    Tensor::new(&[codes.len()], of, bytes).unwrap()
}

fn codes(tensor: &Tensor<'_>) -> Vec<u128> {
    let (n, bits) = (tensor.shape().iter().product(), type_of(tensor.data_type()).bits());
    let bytes = tensor.bytes().unwrap();
    let codes = oracle::packing::unpack(bytes, n, bits, oracle::packing::Packing::LowFirst);
    let again = oracle::packing::pack(&codes, bits, oracle::packing::Packing::LowFirst);
    assert_eq!(bytes, again, "the pad bits are zero");
    codes
}

fn strings<'a>(texts: impl IntoIterator<Item = &'a str>) -> Tensor<'static> {
    let strings: Strings = texts.into_iter().collect();
    Tensor::strings(&[strings.len()], strings).unwrap()
}

fn same(of: DataType, a: u128, b: u128) -> bool {
    let of = type_of(of);
    a == b || of.is_nan_code(a) && of.is_nan_code(b)
}

/// All 172 node tests of the current release, in the opsets and with the operators that they are for.
#[test]
fn conformance() {
    let mut cases = 0;
    for row in rows(include_str!("fixtures/onnx.tsv")) {
        let [from, to, words, inputs, outputs, nan] = row[..] else { panic!("{row:?}") };
        let words: BTreeMap<_, _> = words.split(',').map(|word| word.split_once('=').unwrap()).collect();
        let of = |name: &str| {
            let dtype: DType = name.parse().unwrap();
            DataType::ALL.into_iter().find(|data_type| data_type.dtype() == Some(dtype)).unwrap()
        };
        let (from, to) = (of(from), of(to));
        let input = tensor(from, &hex(from, inputs));
        let saturate = ("saturate", Attribute::Int(words["saturate"].parse().unwrap()));
        let attributes = [saturate, ("round_mode", Attribute::String(words["e8m0_rounding"]))];
        let case = words["case"];
        let output = if !case.starts_with("test_castlike") {
            Cast::new(28, to, &attributes).unwrap().run(&input)
        } else if case.ends_with("_expanded") {
            Cast::new(25, to, &attributes).unwrap().run(&input)
        } else {
            let like = Tensor::new(&[0], to, &[]).unwrap();
            CastLike::new(25, &attributes).unwrap().run(&input, &like)
        };
        let output = output.unwrap();
        assert_eq!((output.data_type(), output.shape()), (to, input.shape()), "{case}");
        for (got, expected) in codes(&output).into_iter().zip(hex(to, outputs)) {
            let equal = if nan == "class" { same(to, got, expected) } else { got == expected };
            assert!(equal, "{case}: {got:#x}, not {expected:#x}");
        }
        cases += 1;
    }
    assert_eq!(cases, 172);
}

/// One version of an operator, as the onnx package has it.
struct Schema<'a> {
    operator: Operator,
    since: u32,
    attributes: BTreeMap<&'a str, &'a str>,
    types: BTreeSet<&'a str>,
}

fn schemas() -> Vec<Schema<'static>> {
    rows(include_str!("fixtures/onnx_schemas.tsv"))
        .map(|row| {
            let [operator, since, attributes, types] = row[..] else { panic!("{row:?}") };
            let operators = [Operator::Cast, Operator::CastLike];
            Schema {
                operator: operators.into_iter().find(|o| o.to_string() == operator).unwrap(),
                since: since.parse().unwrap(),
                attributes: attributes.split(',').filter_map(|word| word.split_once(':')).collect(),
                types: types.split(',').collect(),
            }
        })
        .collect()
}

/// In every opset, every type on either side and every attribute is accepted or refused according to the schema of its
/// version; the error names the first version that accepts it.
#[test]
fn every_version_allows_what_its_schema_does() {
    let all = schemas();
    assert_eq!(all.len(), 16);
    for operator in [Operator::Cast, Operator::CastLike] {
        let versions: Vec<&Schema<'_>> = all.iter().filter(|schema| schema.operator == operator).collect();
        assert!(operator.versions().iter().copied().eq(versions.iter().map(|schema| schema.since)));
        for opset in 0..=40 {
            let Some(schema) = versions.iter().rfind(|schema| schema.since <= opset) else {
                let error = Error::Opset { operator, opset };
                let got = match operator {
                    Operator::Cast => Cast::new(opset, "FLOAT", &[]).map(drop),
                    _ => CastLike::new(opset, &[]).map(drop),
                };
                assert_eq!((operator.version(opset), got), (None, Err(error)));
                continue;
            };
            let version = schema.since;
            assert_eq!(operator.version(opset), Some(version));
            for data_type in DataType::ALL {
                let allows = |schema: &&&Schema<'_>| schema.types.contains(data_type.name());
                let since = versions.iter().find(allows).map(|schema| schema.since);
                let expected = match schema.types.contains(data_type.name()) {
                    true => Ok(()),
                    false => Err(Error::DataType { operator, version, data_type, place: "", since }),
                };
                // As the target, and as the source of a cast to float.
                let empty = match data_type {
                    DataType::String => strings([]),
                    _ => Tensor::new(&[0], data_type, &[]).unwrap(),
                };
                let float = Tensor::new(&[0], DataType::Float, &[]).unwrap();
                let (target, source) = match operator {
                    Operator::Cast => {
                        let to = |data_type: DataType| match schema.attributes["to"] {
                            "INT" => Attribute::from(data_type),
                            _ => Attribute::String(data_type.name()),
                        };
                        let cast = Cast::new(opset, to(DataType::Float), &[]).unwrap();
                        (Cast::new(opset, to(data_type), &[]).map(drop), cast.run(&empty).map(drop))
                    }
                    _ => {
                        let cast = CastLike::new(opset, &[]).unwrap();
                        (cast.run(&float, &empty).map(drop), cast.run(&empty, &float).map(drop))
                    }
                };
                assert_eq!(target, expected, "{operator} in opset {opset} to {data_type}");
                assert_eq!(source, expected, "{operator} in opset {opset} from {data_type}");
            }
            attributes_of(operator, opset, schema, &versions);
        }
    }
}

/// Tests the attributes that a version has, and others.
fn attributes_of(operator: Operator, opset: u32, schema: &Schema<'static>, versions: &[&Schema<'static>]) {
    let version = schema.since;
    let values = [
        ("saturate", Attribute::Int(0)),
        ("saturate", Attribute::String("0")),
        ("round_mode", Attribute::String("down")),
        ("round_mode", Attribute::Int(1)),
        ("axis", Attribute::Int(1)),
    ];
    for (name, value) in values {
        let has = |schema: &&&Schema<'_>| schema.attributes.contains_key(name);
        let since = versions.iter().find(has).map(|schema| schema.since);
        let kind = match value {
            Attribute::Int(_) => "INT",
            Attribute::String(_) => "STRING",
        };
        let owned = name.to_owned();
        let expected = match schema.attributes.get(name).map(|t| t.split('=').next().unwrap()) {
            Some(t) if t == kind => Ok(()),
            Some(expected) => {
                let other = None;
                Err(Error::AttributeType { operator, version, name: owned, expected, other })
            }
            None => Err(Error::Attribute { operator, version, name: owned, since }),
        };
        let got = match operator {
            Operator::Cast if version < 6 => Cast::new(opset, "FLOAT", &[(name, value)]).map(drop),
            Operator::Cast => Cast::new(opset, DataType::Float, &[(name, value)]).map(drop),
            _ => CastLike::new(opset, &[(name, value)]).map(drop),
        };
        assert_eq!(got, expected, "{operator} in opset {opset} with {name} {value:?}");
    }
}

#[test]
fn attributes_are_checked() {
    let message = |opset, to: Attribute<'_>, attributes: &[(&str, Attribute<'_>)]| {
        Cast::new(opset, to, attributes).unwrap_err().to_string()
    };
    let float = Attribute::from(DataType::Float);
    for (got, expected) in [
        (
            message(5, float, &[]),
            "the attribute \"to\" of Cast-1 must be of type STRING; in Cast-6 it has the type that was given",
        ),
        (
            message(9, "FLOAT".into(), &[]),
            "the attribute \"to\" of Cast-9 must be of type INT; in Cast-1 it has the type that was given",
        ),
        (message(9, 0.into(), &[]), "the attribute \"to\" is 0; it must be a code of a DataType"),
        (message(9, 29.into(), &[]), "the attribute \"to\" is 29; it must be a code of a DataType"),
        (
            message(1, "float".into(), &[]),
            "the attribute \"to\" is \"float\"; it must be a name of a DataType",
        ),
        (message(19, float, &[("saturate", 2.into())]), "the attribute \"saturate\" is 2; it must be 0 or 1"),
        (
            message(24, float, &[("round_mode", "UP".into())]),
            "the attribute \"round_mode\" is \"UP\"; it must be \"up\", \"down\" or \"nearest\"",
        ),
        (
            message(23, float, &[("round_mode", "up".into())]),
            "Cast-23 has no attribute \"round_mode\"; Cast-24 and later have it",
        ),
        (
            message(28, float, &[("axis", 0.into())]),
            "Cast-28 has no attribute \"axis\"; no version of Cast has it",
        ),
        (
            message(28, float, &[("saturate", 1.into()), ("saturate", 1.into())]),
            "the attribute \"saturate\" is given twice",
        ),
        (message(28, float, &[("to", 1.into())]), "the attribute \"to\" is given twice"),
        (message(28, 14.into(), &[]), "Cast-28 does not support COMPLEX64; no version of Cast does"),
        (message(27, 27.into(), &[]), "Cast-25 does not support FLOAT6E2M3; Cast-28 and later do"),
        (message(0, float, &[]), "opset 0 has no operator Cast; Cast-1 is its first version"),
    ] {
        assert_eq!(got, expected);
    }
    let like = Tensor::new(&[0], DataType::Float6E3M2, &[]).unwrap();
    let error = CastLike::new(28, &[]).unwrap().run(&like, &like).unwrap_err();
    assert_eq!(error.to_string(), "CastLike-25 does not support FLOAT6E3M2; no version of CastLike does");
}

fn attributes<'a>(to: DataType, saturate: &str, round_mode: &'a str) -> Vec<(&'static str, Attribute<'a>)> {
    // Attributes that do not matter to a target are ignored, so half of the targets get defaults as attributes too.
    let all = [("saturate", Attribute::Int(saturate.parse().unwrap())), ("round_mode", round_mode.into())];
    if saturate == "1" && round_mode == "up" && to.code().is_multiple_of(2) { vec![] } else { all.to_vec() }
}

/// The recorded answers of the peers that agree with the specification or with us are our results.
#[test]
fn the_peers_agree() {
    let mut elements = BTreeMap::<&str, usize>::new();
    let mut pairs = BTreeSet::new();
    for row in rows(include_str!("fixtures/onnx_peers.tsv")) {
        let [peers, from, to, saturate, round_mode, inputs, outputs] = row[..] else { panic!("{row:?}") };
        let (from, to) = (data_type(from), data_type(to));
        let cast = Cast::new(28, to, &attributes(to, saturate, round_mode)).unwrap();
        let (inputs, outputs) = (hex(from, inputs), hex(to, outputs));
        let got = codes(&cast.run(&tensor(from, &inputs)).unwrap());
        assert_eq!((got.len(), outputs.len()), (inputs.len(), inputs.len()), "{row:?}");
        for ((&input, &got), &expected) in inputs.iter().zip(&got).zip(&outputs) {
            let what = format!("{from} {input:#x} -> {to}: {got:#x}, {peers} {expected:#x}");
            assert!(same(to, got, expected), "{what} (saturate {saturate}, round_mode {round_mode})");
        }
        *elements.entry(peers).or_default() += inputs.len();
        pairs.insert((from.code(), to.code()));
    }
    // Neither peer casts the other seven (between FLOAT6E2M3 and 4-bit integers, FLOAT8E8M0 to FLOAT4 and FLOAT6).
    assert_eq!(pairs.len(), 25 * 25 - 7);
    assert!(elements["both"] > 10_000, "{elements:?}");
}

/// Where a peer's answer differs, ours is the expected one and not the peer's, and the row says why.
#[test]
fn the_deviations_of_the_peers_are_known() {
    let mut rules = BTreeMap::<&str, usize>::new();
    let mut refused = 0;
    for row in rows(include_str!("fixtures/onnx_deviations.tsv")) {
        match row[..] {
            [_, _, _, "refused"] => refused += 1,
            [_, from, to, saturate, round_mode, inputs, theirs, expected, rule] => {
                let (from, to) = (data_type(from), data_type(to));
                let cast = Cast::new(28, to, &attributes(to, saturate, round_mode)).unwrap();
                let got = codes(&cast.run(&tensor(from, &hex(from, inputs))).unwrap());
                let wanted = hex(to, expected);
                assert_eq!(got, wanted, "{row:?}");
                for (theirs, ours) in hex(to, theirs).into_iter().zip(got) {
                    assert!(!same(to, theirs, ours), "{row:?}: the peer does not differ");
                }
                *rules.entry(rule).or_default() += 1;
            }
            [_, from, to, input, theirs, expected, rule] => {
                let ours = one(data_type(from), data_type(to), &unquoted(input).unwrap());
                assert_eq!(ours, unquoted(expected), "{row:?}");
                assert_ne!(ours, unquoted(theirs), "{row:?}: the peer does not differ");
                *rules.entry(rule).or_default() += 1;
            }
            _ => panic!("{row:?}"),
        }
    }
    assert!(rules.len() >= 15 && refused > 20, "{refused} {rules:#?}");
}

/// Parses JSON's null, or a string without escapes.
fn unquoted(json: &str) -> Option<String> {
    let quoted = |s: &str| s.strip_prefix('"')?.strip_suffix('"').map(str::to_owned);
    if json == "null" { None } else { Some(quoted(json).unwrap_or_else(|| panic!("{json}"))) }
}

/// Casts one element from or to a string, with the number as hexadecimal digits; returns `None` for an error.
fn one(from: DataType, to: DataType, input: &str) -> Option<String> {
    let cast = Cast::new(28, to, &[]).unwrap();
    if from == DataType::String {
        let output = cast.run(&strings([input])).ok()?;
        let width = type_of(to).bits().div_ceil(4) as usize;
        Some(format!("{:0width$x}", codes(&output)[0]))
    } else {
        let output = cast.run(&tensor(from, &hex(from, input))).unwrap();
        output.as_strings().unwrap().get(0).map(str::to_owned)
    }
}

/// The golden strings of the last release that has any, strings on which a peer agrees, and those of an exact model.
#[test]
fn strings_are_as_recorded() {
    let mut by_peer = BTreeMap::<&str, usize>::new();
    for row in rows(include_str!("fixtures/onnx_strings.tsv")) {
        let [peer, from, to, input, expected] = row[..] else { panic!("{row:?}") };
        let (from, to) = (data_type(from), data_type(to));
        let (got, expected) = (one(from, to, &unquoted(input).unwrap()), unquoted(expected));
        let same_nan = || match (&got, &expected) {
            (Some(got), Some(expected)) if to != DataType::String => {
                same(to, hex(to, got)[0], hex(to, expected)[0])
            }
            _ => false,
        };
        assert!(got == expected || same_nan(), "{row:?}: {got:?}");
        *by_peer.entry(peer).or_default() += 1;
    }
    assert_eq!(by_peer["golden"], 24);
    assert!(by_peer.values().sum::<usize>() > 1500, "{by_peer:?}");
}

#[test]
fn a_wrong_string_is_named() {
    let texts: Vec<String> =
        (0..50_000).map(|i| if i == 31_234 { "12 apples".into() } else { i.to_string() }).collect();
    let input = strings(texts.iter().map(String::as_str));
    let error = Cast::new(9, DataType::Float, &[]).unwrap().run(&input).unwrap_err();
    assert_eq!(error.to_string(), "element 31234, \"12 apples\", is not a number");
    let error = Cast::new(9, DataType::Uint8, &[]).unwrap().run(&input).unwrap_err();
    let Error::Text(text::Error::Element { index, dtype, reason, .. }) = error else { panic!("{error:?}") };
    assert_eq!((index, dtype, reason), (256, DType::U8, text::Reason::OutOfRange));
}

/// Each documented alternative gives what its side of the contradiction requires.
#[test]
fn the_alternatives_are_there() {
    let floats = |values: &[f32]| {
        let codes: Vec<u128> = values.iter().map(|x| x.to_bits().into()).collect();
        tensor(DataType::Float, &codes)
    };
    let run = |to, options: Options, values: &[f32]| {
        codes(&Cast::new(28, to, &[]).unwrap().with(options).run(&floats(values)).unwrap())
    };
    let new = Options::new;
    // C3: float4.md and the data of opset 23.
    assert_eq!(run(DataType::Float4E2M1, new(), &[f32::NAN]), [0x8]);
    assert_eq!(run(DataType::Float4E2M1, new().nan_to_finite(NanToFinite::Max), &[f32::NAN]), [0x7]);
    assert_eq!(run(DataType::Float6E3M2, new().nan_to_finite(NanToFinite::Max), &[f32::NAN]), [0x1F]);
    // C4: the reference truncates, ONNX Runtime rounds ties away.
    let ties = [0.5, 1.5, 2.5, -0.5];
    assert_eq!(run(DataType::Int4, new(), &ties), [0, 2, 2, 0]);
    let round = |rounding| run(DataType::Int4, new().small_int_rounding(rounding), &ties);
    assert_eq!(round(Rounding::TowardZero), [0, 1, 2, 0]);
    assert_eq!(round(Rounding::NearestAway), [1, 2, 3, 0xF]);
    // C5: the data of the releases 1.16 to 1.18 clamp.
    let beyond = [-9.0, 8.0, f32::NAN, f32::INFINITY];
    assert_eq!(run(DataType::Int4, new(), &beyond), [0x7, 0x8, 0, 0]);
    assert_eq!(
        run(DataType::Int4, new().small_int_overflow(Overflow::Saturate), &beyond),
        [0x8, 0x7, 0, 0x7]
    );
    assert_eq!(run(DataType::Uint4, new().small_int_overflow(Overflow::Saturate), &[-3.0]), [0]);
    // Overflow to other integers, which ONNX leaves undefined.
    assert_eq!(run(DataType::Uint8, new(), &[300.0, -1.0]), [255, 0]);
    assert_eq!(run(DataType::Uint8, new().int_overflow(Overflow::Wrap), &[300.0, -1.0]), [44, 255]);
    // C1: the text of opsets 19 to 23. Finite values still saturate, and so does everything in formats other than FNUZ.
    let nan = new().fnuz_infinity(FnuzInfinity::Nan);
    let values = [f32::INFINITY, -f32::INFINITY, 1e30, f32::NAN, 1.0];
    assert_eq!(run(DataType::Float8E4M3FNUZ, new(), &values), [0x7F, 0xFF, 0x7F, 0x80, 0x40]);
    assert_eq!(run(DataType::Float8E4M3FNUZ, nan, &values), [0x80, 0x80, 0x7F, 0x80, 0x40]);
    assert_eq!(run(DataType::Float8E4M3FN, nan, &values), [0x7E, 0xFE, 0x7E, 0x7F, 0x38]);
    let texts = strings(["inf", "-Infinity", "1e400", "nan", "1"]);
    let cast = Cast::new(19, DataType::Float8E5M2FNUZ, &[]).unwrap();
    assert_eq!(codes(&cast.run(&texts).unwrap()), [0x7F, 0xFF, 0x7F, 0x80, 0x40]);
    assert_eq!(codes(&cast.with(nan).run(&texts).unwrap()), [0x80, 0x80, 0x7F, 0x80, 0x40]);
    let huge = tensor(DataType::Double, &[1e300f64.to_bits().into(), f64::INFINITY.to_bits().into()]);
    assert_eq!(codes(&cast.with(nan).run(&huge).unwrap()), [0x7F, 0x80]);
}

/// The attributes of CastLike count, although its function body drops `round_mode` (C8).
#[test]
fn castlike_honours_its_attributes() {
    let input = tensor(DataType::Float, &[1.5f32.to_bits().into(), 3.0f32.to_bits().into()]);
    let like = Tensor::new(&[0], DataType::Float8E8M0, &[]).unwrap();
    let cast =
        |mode: &str| CastLike::new(24, &[("round_mode", mode.into())]).unwrap().run(&input, &like).unwrap();
    assert_eq!(
        [codes(&cast("up")), codes(&cast("down")), codes(&cast("nearest"))],
        [[0x80, 0x81], [0x7F, 0x80], [0x80, 0x81]]
    );
}

#[test]
fn shapes_are_kept_and_checked() {
    let scalar = Tensor::new(&[], DataType::Int32, &[7, 0, 0, 0]).unwrap();
    let to_string = Cast::new(21, DataType::String, &[]).unwrap();
    let text = to_string.run(&scalar).unwrap();
    assert_eq!((text.shape(), text.as_strings().unwrap().get(0)), (&[][..], Some("7")));
    let none = Tensor::new(&[3, 0, usize::MAX, 2], DataType::Int4, &[]).unwrap();
    assert_eq!(to_string.run(&none).unwrap().shape(), none.shape());
    assert_eq!(Cast::new(21, DataType::Double, &[]).unwrap().run(&none).unwrap().bytes(), Some(&[][..]));
    let short = Tensor::new(&[3], DataType::Int4, &[0]);
    assert!(matches!(short, Err(Error::Cast(lanecast::Error::BufferSize { needed: 2, given: 1, .. }))));
    let huge = Tensor::new(&[usize::MAX, 2], DataType::Bool, &[]);
    assert_eq!(huge, Err(Error::ShapeOverflow { shape: vec![usize::MAX, 2] }));
    assert_eq!(Tensor::new(&[0], DataType::String, &[]), Err(Error::NotBytes));
    let one: Strings = ["a"].iter().collect();
    assert_eq!(Tensor::strings(&[2], one.clone()), Err(Error::Strings { elements: 2, strings: 1 }));
    let copy = to_string.run(&Tensor::borrowed_strings(&[1, 1], &one).unwrap()).unwrap();
    assert_eq!((copy.shape(), copy.as_strings()), (&[1, 1][..], Some(&one)));
}

#[test]
fn the_same_type_is_a_copy_with_clean_pad_bits() {
    let dirty = Tensor::new(&[3], DataType::Int4, &[0x21, 0xF3]).unwrap();
    let copy = Cast::new(25, DataType::Int4, &[]).unwrap().run(&dirty).unwrap();
    assert_eq!(copy.bytes(), Some(&[0x21, 0x03][..]));
    for (of, bytes) in [(DataType::Float8E5M2, [0x7C, 0x7D]), (DataType::Float8E8M0, [0x00, 0xFF])] {
        let input = Tensor::new(&[2], of, &bytes).unwrap();
        assert_eq!(Cast::new(25, of, &[]).unwrap().run(&input).unwrap(), input);
    }
}

#[test]
fn codes_and_names_round_trip() {
    for data_type in DataType::ALL {
        assert_eq!(DataType::from_code(data_type.code().into()), Some(data_type));
        assert_eq!(DataType::from_name(data_type.name()), Some(data_type));
    }
    assert_eq!(DataType::ALL.map(|t| t.code()), core::array::from_fn(|i| i as u8 + 1));
    assert_eq!(
        (DataType::from_code(0), DataType::from_code(257), DataType::from_name("float")),
        (None, None, None)
    );
}

/// The linear operators give what onnx's reference evaluator gives.
#[test]
fn linear_operators_are_those_of_the_reference() {
    let tensor = |text: &str| {
        let [dtype, shape, data] = text.split(':').collect::<Vec<_>>()[..] else { panic!("{text}") };
        let of = DataType::ALL
            .into_iter()
            .find(|t| t.dtype().is_some_and(|t| t.name() == dtype))
            .unwrap_or_else(|| panic!("no type {dtype}"));
        let shape: Vec<usize> =
            shape.split('x').filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect();
        let bytes: Vec<u8> =
            (0..data.len()).step_by(2).map(|i| u8::from_str_radix(&data[i..i + 2], 16).unwrap()).collect();
        Tensor::new(&shape, of, bytes).unwrap()
    };
    let mut cases = 0;
    for row in rows(include_str!("fixtures/onnx_linear.tsv")) {
        let [id, operator, opset, attributes, inputs, output] = row[..] else { panic!("{row:?}") };
        let inputs: Vec<_> = inputs.split(' ').map(|text| (text != "-").then(|| tensor(text))).collect();
        let attributes: Vec<(&str, Attribute<'_>)> = attributes
            .split(',')
            .filter_map(|attribute| attribute.split_once('='))
            .map(|(name, value)| {
                let number = value.parse().unwrap_or_else(|_| {
                    let of = DataType::ALL.into_iter().find(|t| t.dtype().is_some_and(|t| t.name() == value));
                    of.unwrap_or_else(|| panic!("{id}: {name} is {value}")).code().into()
                });
                (name, Attribute::Int(number))
            })
            .collect();
        let (opset, expected) = (opset.parse().unwrap(), tensor(output));
        let (x, scale) = (inputs[0].as_ref().unwrap(), inputs[1].as_ref().unwrap());
        let zero = inputs.get(2).and_then(Option::as_ref);
        let got = match operator {
            "QuantizeLinear" => QuantizeLinear::new(opset, &attributes).unwrap().run(x, scale, zero),
            _ => DequantizeLinear::new(opset, &attributes).unwrap().run(x, scale, zero),
        };
        assert_eq!(got.as_ref(), Ok(&expected), "{id}");
        cases += 1;
    }
    assert_eq!(cases, 32);
}

/// A feature that a version of the linear operators lacks is an error that names the version that has it.
#[test]
fn linear_operators_refuse_what_a_version_does_not_have() {
    let float = |shape: &[usize], value: f32| {
        let n: usize = shape.iter().product();
        Tensor::new(shape, DataType::Float, value.to_le_bytes().repeat(n)).unwrap()
    };
    let (x, one) = (float(&[2, 4], 3.0), float(&[], 1.0));
    let message = |result: Result<Tensor<'static>, Error>| result.unwrap_err().to_string();
    let q = QuantizeLinear::new(13, &[]).unwrap();
    let zero = Tensor::new(&[], DataType::Float8E4M3FN, &[0]).unwrap();
    assert_eq!(
        message(q.run(&x, &one, Some(&zero))),
        "QuantizeLinear-13 does not support FLOAT8E4M3FN as y; QuantizeLinear-19 and later do"
    );
    let ints = Tensor::new(&[], DataType::Int32, &[1, 0, 0, 0]).unwrap();
    assert_eq!(
        message(QuantizeLinear::new(23, &[]).unwrap().run(&x, &ints, None)),
        "QuantizeLinear-23 does not support INT32 as y_scale; no version of QuantizeLinear does"
    );
    assert_eq!(q.run(&x, &one, None).unwrap(), Tensor::new(&[2, 4], DataType::Uint8, &[3; 8]).unwrap());
    assert_eq!(
        message(q.run(&x, &float(&[3], 1.0), None)),
        "the scales or zero points have the shape [3]; they need the shape [4]"
    );
    // The first version has only one scale, for the whole tensor.
    assert!(QuantizeLinear::new(10, &[]).unwrap().run(&x, &float(&[4], 1.0), None).is_err());
    let blocked = QuantizeLinear::new(21, &[("block_size", 3.into()), ("axis", (-1).into())]).unwrap();
    assert!(blocked.run(&x, &float(&[2, 2], 1.0), None).is_ok());
    assert!(blocked.run(&x, &float(&[2, 1], 1.0), None).is_err());
    // With blocks, scales of one dimension are not taken for those of an axis.
    assert!(blocked.run(&x, &float(&[4], 1.0), None).is_err());
    let eights = Tensor::new(&[2, 4], DataType::Float8E4M3FN, &[0x38; 8]).unwrap();
    assert!(
        DequantizeLinear::new(21, &[("block_size", 2.into())])
            .unwrap()
            .run(&eights, &float(&[4], 1.0), None)
            .is_err()
    );
    let signed = Tensor::new(&[], DataType::Int8, &[1]).unwrap();
    let output = [("output_dtype", DataType::Uint8.into())];
    assert!(QuantizeLinear::new(21, &output).unwrap().run(&x, &one, Some(&signed)).is_err());
    let nonzero = Tensor::new(&[], DataType::Float8E5M2, &[1]).unwrap();
    assert!(QuantizeLinear::new(21, &[]).unwrap().run(&x, &one, Some(&nonzero)).is_err());
    assert!(DequantizeLinear::new(9, &[]).is_err());
}

/// A single scale and its zero point are each a scalar or have one dimension, independently, as in node tests of onnx; and zeros count as zero
/// whatever their signs and pad bits.
#[test]
fn one_zero_point_is_one_zero_point() {
    let one = |shape: &[usize]| Tensor::new(shape, DataType::Float, 2f32.to_le_bytes().to_vec()).unwrap();
    for (scale, zero) in [([].as_slice(), [1].as_slice()), (&[1], &[]), (&[], &[]), (&[1], &[1])] {
        let point = Tensor::new(zero, DataType::Uint8, &[3]).unwrap();
        let codes = Tensor::new(&[2], DataType::Uint8, &[4, 5]).unwrap();
        let floats = Tensor::new(&[2], DataType::Float, [2f32, 4.0].map(f32::to_le_bytes).concat()).unwrap();
        assert_eq!(
            DequantizeLinear::new(21, &[]).unwrap().run(&codes, &one(scale), Some(&point)).unwrap(),
            floats
        );
        assert_eq!(
            QuantizeLinear::new(21, &[]).unwrap().run(&floats, &one(scale), Some(&point)).unwrap(),
            codes
        );
    }
    let ones = [
        (DataType::Float4E2M1, 0x22, 0xF8),
        (DataType::Float8E4M3FN, 0x38, 0x80),
        (DataType::Float6E2M3, 0x08, 0xE0),
    ];
    for (data_type, code, zero) in ones {
        let x = Tensor::new(&[1], data_type, vec![code]).unwrap();
        let run = |zero: u8| {
            let zero = Tensor::new(&[], data_type, vec![zero]).unwrap();
            DequantizeLinear::new(28, &[]).unwrap().run(&x, &one(&[]), Some(&zero))
        };
        assert_eq!(run(zero).unwrap().bytes().unwrap(), 2f32.to_le_bytes(), "{data_type}");
        assert!(run(code).is_err(), "{data_type}");
    }
    // In types without -0, its code is NaN.
    let x = Tensor::new(&[1], DataType::Float8E5M2FNUZ, &[0x40]).unwrap();
    let nan = Tensor::new(&[], DataType::Float8E5M2FNUZ, &[0x80]).unwrap();
    assert!(DequantizeLinear::new(28, &[]).unwrap().run(&x, &one(&[]), Some(&nan)).is_err());
}

/// A tensor without elements needs the scales of its rank and axis, as one with elements does, and they are checked.
#[test]
fn linear_operators_take_tensors_without_elements() {
    let of = |shape: &[usize], data_type: DataType| {
        let n: usize = shape.iter().product();
        let bytes = data_type.dtype().unwrap().byte_len(n, Packing::LowFirst).unwrap();
        Tensor::new(shape, data_type, vec![0; bytes]).unwrap()
    };
    let both = |shape: &[usize], scale: &[usize], axis: i64, block: i64| {
        let mut attributes = vec![("axis", Attribute::Int(axis))];
        if block > 0 {
            attributes.push(("block_size", block.into()));
        }
        let scale = of(scale, DataType::Float);
        let mut results = vec![];
        for data_type in [DataType::Uint8, DataType::Int4, DataType::Float4E2M1, DataType::Float8E4M3FN] {
            let (floats, codes) = (of(shape, DataType::Float), of(shape, data_type));
            let zero = of(scale.shape(), data_type);
            let q = QuantizeLinear::new(23, &attributes).unwrap().run(&floats, &scale, Some(&zero));
            let d = DequantizeLinear::new(23, &attributes).unwrap();
            let d = [None, Some(&zero)].map(|zero| d.run(&codes, &scale, zero));
            results.push(q.map(|made| made == codes));
            results.extend(d.map(|made| made.map(|made| made == floats)));
        }
        results
    };
    let empty: [(&[usize], &[usize], i64, i64); 8] = [
        (&[0], &[], 0, 0),
        (&[0, 4], &[], 1, 0),
        (&[0, 4], &[1], 1, 0),
        (&[0, 4], &[4], 1, 0),
        (&[2, 0, 3], &[2], -3, 0),
        (&[4, 0], &[0], 1, 0),
        (&[0, 4], &[0, 2], 1, 2),
        (&[4, 0], &[2, 0], 0, 2),
    ];
    for (shape, scale, axis, block) in empty {
        for result in both(shape, scale, axis, block) {
            assert_eq!(result, Ok(true), "{shape:?}, scales {scale:?}, axis {axis}, blocks of {block}");
        }
    }
    let wrong: [(&[usize], &[usize], i64, i64); 5] = [
        (&[0, 4], &[3], 1, 0),
        (&[0, 4], &[0, 1], 1, 0),
        (&[0, 4], &[4], 2, 0),
        (&[4, 0], &[4], 1, 0),
        (&[0, 4], &[0, 4], 1, 2),
    ];
    for (shape, scale, axis, block) in wrong {
        for result in both(shape, scale, axis, block) {
            assert!(result.is_err(), "{shape:?}, scales {scale:?}, axis {axis}, blocks of {block}");
        }
    }
}

/// DynamicQuantizeLinear gives what both peers give, or one of them, or what the text leaves open and the row expects: three
/// answers, of which the oracle says the same.
#[test]
fn dynamic_quantization_is_as_recorded() {
    let (mut agreed, mut rules) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    for row in rows(include_str!("fixtures/onnx_dynamic.tsv")) {
        let (peer, x, expected, theirs) = match row[..] {
            [peer, x, y, scale, zero] => (peer, x, [y, scale, zero], None),
            [peer, x, y, scale, zero, our_y, our_scale, our_zero, rule] => {
                *rules.entry(rule).or_default() += 1;
                (peer, x, [our_y, our_scale, our_zero], Some([y, scale, zero]))
            }
            _ => panic!("{row:?}"),
        };
        match theirs {
            Some(theirs) => assert_ne!(theirs, expected, "{row:?}: the peer does not differ"),
            None => *agreed.entry(peer).or_default() += 1,
        }
        let all = hex(DataType::Float, x.trim_matches('-'));
        let types = [DataType::Uint8, DataType::Float, DataType::Uint8];
        let expected = [0, 1, 2].map(|i| hex(types[i], expected[i].trim_matches('-')));
        let got = DynamicQuantizeLinear::new(11, &[]).unwrap().run(&tensor(DataType::Float, &all)).unwrap();
        assert_eq!(got.each_ref().map(Tensor::data_type), types);
        assert_eq!(got.each_ref().map(Tensor::shape), [&[all.len()][..], &[], &[]]);
        assert_eq!(got.each_ref().map(codes), expected, "{row:?}");
        let (y, scale, zero) = oracle::scaled::dynamic_quantize(&all);
        assert_eq!([y, vec![scale], vec![zero]], expected, "{row:?}: the oracle");
    }
    assert!(agreed["both"] >= 70 && agreed["onnxruntime"] == 4 && rules.len() == 4, "{agreed:?} {rules:#?}");
}

#[test]
fn dynamic_quantization_takes_one_type_and_no_attribute() {
    let message = |result: Result<[Tensor<'static>; 3], Error>| result.unwrap_err().to_string();
    let dynamic = DynamicQuantizeLinear::new(28, &[]).unwrap();
    let half = Tensor::new(&[], DataType::Float16, &[0, 0]).unwrap();
    assert_eq!(
        message(dynamic.run(&half)),
        "DynamicQuantizeLinear-11 does not support FLOAT16 as x; no version of DynamicQuantizeLinear does"
    );
    assert!(dynamic.run(&strings(["1"])).is_err());
    for name in ["axis", "block_size", "to"] {
        let error = DynamicQuantizeLinear::new(21, &[(name, 1.into())]).unwrap_err().to_string();
        let expected = format!(
            "DynamicQuantizeLinear-11 has no attribute {name:?}; no version of DynamicQuantizeLinear has it"
        );
        assert_eq!(error, expected);
    }
    assert_eq!(
        DynamicQuantizeLinear::new(10, &[]),
        Err(Error::Opset { operator: Operator::DynamicQuantizeLinear, opset: 10 })
    );
    // Any shape: the extremes are those of the whole tensor.
    for shape in [&[][..], &[1, 1, 1], &[2, 0, 3], &[0, usize::MAX], &[4, 3, 2]] {
        let n = if shape.contains(&0) { 0 } else { shape.iter().product() };
        let bytes: Vec<u8> = (1..=n).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let [y, scale, zero] = dynamic.run(&Tensor::new(shape, DataType::Float, bytes).unwrap()).unwrap();
        let most = if n == 0 { 255.0 } else { n as f32 };
        assert_eq!((y.shape(), scale.bytes().unwrap()), (shape, &(most / 255.0).to_le_bytes()[..]));
        assert_eq!(
            (y.bytes().unwrap().len(), y.bytes().unwrap().last()),
            (n, [255].first().filter(|_| n > 0))
        );
        assert_eq!(zero.bytes(), Some(&[0][..]));
    }
}
