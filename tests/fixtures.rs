//! The recorded answers of other libraries, and where lanecast differs from them on purpose.
//!
//! `tests/fixtures/README.md` says what the files are and how to make them anew.

mod bridge;

use std::collections::BTreeMap;

use bridge::{Suite, bytes_of, cast_bytes, codes_of, type_of};
use lanecast::{ByteOrder, CastOptions, Caster, DType, E8m0Rounding, Isa, Overflow, Rounding};

fn main() {
    let mut suite = Suite::new();
    suite.test("numpy", |isa| peer(isa, include_str!("fixtures/numpy.tsv"), 3000));
    suite.test("ml_dtypes", |isa| peer(isa, include_str!("fixtures/ml_dtypes.tsv"), 20_000));
    suite.test("torch", |isa| peer(isa, include_str!("fixtures/torch.tsv"), 7000));
    suite.test("zarr", |isa| peer(isa, include_str!("fixtures/zarr.tsv"), 2500));
    suite.test("onnx conformance", |isa| peer(isa, include_str!("fixtures/onnx.tsv"), 2500));
    suite.test("deviations", |isa| deviations(isa, include_str!("fixtures/deviations.tsv")));
    suite.run().exit();
}

/// One line of a fixture.
struct Row<'a> {
    from: DType,
    to: DType,
    options: CastOptions,
    words: &'a str,
    inputs: Vec<u128>,
    outputs: Vec<u128>,
    /// Whether a NaN in the outputs stands for any NaN.
    nan_is_a_class: bool,
    /// The columns behind the first six.
    rest: Vec<&'a str>,
}

fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [from, to, words, inputs, outputs, nan, rest @ ..] = &columns[..] else { panic!("{line}") };
        let dtype = |name: &str| name.parse::<DType>().unwrap();
        let (from, to) = (dtype(from), dtype(to));
        Row {
            from,
            to,
            options: options(words),
            words,
            inputs: hex(from, inputs),
            outputs: hex(to, outputs),
            nan_is_a_class: *nan == "class",
            rest: rest.to_vec(),
        }
    })
}

/// Parses fixed-width hexadecimal codes without separators; of a complex number, the real part comes first.
fn hex(dtype: DType, digits: &str) -> Vec<u128> {
    let part = dtype.part().bits();
    let width = part.div_ceil(4) as usize;
    assert!(digits.is_ascii() && digits.len().is_multiple_of(width), "{dtype}: {digits}");
    let parts: Vec<u128> = (0..digits.len())
        .step_by(width)
        .map(|i| u128::from_str_radix(&digits[i..i + width], 16).unwrap())
        .collect();
    match dtype.bits() / part {
        1 => parts,
        _ => parts.chunks_exact(2).map(|parts| parts[1] << part | parts[0]).collect(),
    }
}

/// Parses the option words: a profile, and what the row sets besides.
fn options(words: &str) -> CastOptions {
    let words: BTreeMap<&str, &str> =
        words.split(',').filter(|word| *word != "-").map(|word| word.split_once('=').unwrap()).collect();
    let rounding = |name| match name {
        "nearest_even" => Rounding::NearestEven,
        "nearest_away" => Rounding::NearestAway,
        "toward_zero" => Rounding::TowardZero,
        "up" => Rounding::Up,
        "down" => Rounding::Down,
        _ => panic!("rounding {name}"),
    };
    let out_of_range = |name| match name {
        "clamp" => Overflow::Saturate,
        "wrap" => Overflow::Wrap,
        _ => panic!("out_of_range {name}"),
    };
    let mut options = match words.get("profile").copied() {
        None => CastOptions::new(),
        Some("numpy") => CastOptions::numpy(),
        Some("ml_dtypes") => CastOptions::ml_dtypes(),
        Some("torch") => CastOptions::torch(),
        Some("onnx") => CastOptions::onnx(),
        Some("zarr") => CastOptions::zarr(
            words.get("rounding").map_or(Rounding::NearestEven, |name| rounding(name)),
            words.get("out_of_range").map_or(Overflow::Saturate, |name| out_of_range(name)),
        ),
        Some(name) => panic!("profile {name}"),
    };
    let profile = words.get("profile").copied();
    for (word, value) in words {
        options = match (word, value) {
            ("profile" | "case", _) => options,
            ("rounding" | "out_of_range", _) if profile == Some("zarr") => options,
            // PyTorch's profile determines which formats saturate; the row's word only repeats it.
            ("saturate", _) if profile == Some("torch") => options,
            ("saturate", _) => options.saturate(value == "1"),
            ("e8m0_rounding", "up") => options.e8m0_rounding(E8m0Rounding::Up),
            ("e8m0_rounding", "down") => options.e8m0_rounding(E8m0Rounding::Down),
            ("e8m0_rounding", "nearest") => options.e8m0_rounding(E8m0Rounding::Nearest),
            _ => panic!("option {word}={value}"),
        };
    }
    options
}

fn run(isa: Isa, row: &Row<'_>) -> Vec<u128> {
    let options = row.options.isa(isa).src_order(ByteOrder::Little).dst_order(ByteOrder::Little);
    let caster = Caster::new(row.from, row.to, &options).unwrap();
    let n = row.inputs.len();
    codes_of(row.to, &cast_bytes(&caster, &bytes_of(row.from, &row.inputs), n), n)
}

/// Our results are those of the other library.
fn peer(isa: Isa, text: &str, least: usize) {
    let mut elements = 0;
    for row in rows(text) {
        let got = run(isa, &row);
        assert_eq!(got.len(), row.outputs.len(), "{} -> {} {}", row.from, row.to, row.words);
        for ((input, got), &expected) in row.inputs.iter().zip(got).zip(&row.outputs) {
            let to = type_of(row.to);
            let same_nan = row.nan_is_a_class && to.is_nan_code(got) && to.is_nan_code(expected);
            assert!(
                got == expected || same_nan,
                "{} {input:#x} -> {}: {got:#x}, the peer has {expected:#x} ({})",
                row.from,
                row.to,
                row.words
            );
            elements += 1;
        }
    }
    assert!(elements >= least, "only {elements} elements");
}

/// Where another library differs from the contract, our results are the contract's; each row names the rule.
fn deviations(isa: Isa, text: &str) {
    let mut rules = BTreeMap::<&str, usize>::new();
    for row in rows(text) {
        let [expected, rule] = row.rest[..] else { panic!("columns of {} -> {}", row.from, row.to) };
        let (expected, got) = (hex(row.to, expected), run(isa, &row));
        for (i, (&expected, &got)) in expected.iter().zip(&got).enumerate() {
            let what = format!("{} {:#x} -> {} ({rule})", row.from, row.inputs[i], row.to);
            assert_eq!(got, expected, "{what}");
            assert_ne!(got, row.outputs[i], "{what}: the peer does not differ");
        }
        *rules.entry(rule).or_default() += expected.len();
    }
    assert!(rules.len() >= 5, "{rules:#?}");
}
