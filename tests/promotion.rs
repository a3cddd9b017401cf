//! The rulesets against the recorded answers of the systems they describe, the laws of a lattice, the levels
//! of casting, and the plans that choose kernels.
//!
//! `tests/fixtures/README.md` says what the files are.

#[path = "../examples/promotion.rs"]
#[allow(dead_code, reason = "its main")]
mod example;
mod recorded;

use std::collections::{BTreeMap, BTreeSet};

use lanecast::{promotion::*, *};
use proptest::prelude::*;
use recorded::{block, blocks, dtype, rows};

fn rules(name: &str) -> &'static Rules {
    Rules::from_name(name).unwrap()
}

/// Parses a recorded result: a dtype, or `None` for an error.
fn result(name: &str) -> Option<DType> {
    (name != "-").then(|| dtype(name).unwrap_or_else(|| panic!("{name} is not here")))
}

fn scalar(name: &str) -> ScalarKind {
    ScalarKind::ALL.into_iter().find(|kind| kind.name() == name).unwrap()
}

/// Every recorded pair.
#[test]
fn every_recorded_pair() {
    // At least so many pairs are recorded.
    let recorded = [
        ("numpy", 196),
        ("jax", 1024),
        ("jax_x32", 1024),
        ("torch", 484),
        ("mindspore", 225),
        ("array_api", 169),
        ("megengine", 64),
    ];
    assert_eq!(blocks("promote"), recorded.map(|(name, _)| name));
    for (name, pairs) in recorded {
        let mut tested = 0;
        for (a, b, answer) in block(&format!("promote {name}")) {
            let (a, b) = (dtype(a).unwrap(), dtype(b).unwrap());
            let got = rules(name).promote(a, b);
            assert_eq!(got.ok(), result(answer), "{name}: {a}, {b}");
            if let Err(error) = got {
                let message = error.to_string();
                assert!(message.contains(a.name()) && message.contains(b.name()), "{message}");
                assert!(message.starts_with(name), "{message}");
            }
            tested += 1;
        }
        assert!(tested >= pairs, "{name}: {tested}");
    }
}

/// Rulesets under which only equal dtypes combine. No fixture records them, since that is the whole rule.
#[test]
fn the_identity_rulesets() {
    assert_eq!(Rules::JAX_STRICT.dtypes(), Rules::JAX.dtypes());
    assert!(Rules::ONNX.dtypes().iter().eq(DType::ALL.into_iter().filter(|dtype| dtype.to_onnx().is_some())));
    for name in ["jax_strict", "onnx"] {
        for a in rules(name).dtypes().iter() {
            for b in rules(name).dtypes().iter() {
                assert_eq!(rules(name).promote(a, b).ok(), (a == b).then_some(a), "{name}: {a}, {b}");
            }
        }
    }
}

/// The dtypes of a ruleset are those of its fixture, and those here.
#[test]
fn dtypes_that_no_fixture_has() {
    let more = [
        ("numpy", ""),
        ("jax", ""),
        ("jax_x32", ""),
        ("torch", "uint2, int2, uint4, int4"),
        ("mindspore", "float8_e4m3fn, float8_e5m2"),
        ("array_api", ""),
        ("megengine", ""),
    ];
    for (name, more) in more {
        let cells = block(&format!("promote {name}"));
        let recorded: DTypeSet = cells.into_iter().filter_map(|(a, ..)| dtype(a)).collect();
        assert!(recorded.difference(rules(name).dtypes()).is_empty(), "{name}");
        assert_eq!(rules(name).dtypes().difference(recorded).to_string(), more, "{name}");
        for dtype in rules(name).dtypes().difference(recorded).iter() {
            assert_eq!(rules(name).above(dtype), DTypeSet::EMPTY.with(dtype), "{name}: {dtype} stands alone");
        }
    }
}

/// The fixture was recorded with `+`, which the Array API does not define for two bools. Their `result_type` is bool.
const NO_PLUS: (&str, &str, &str, &str) = ("array_api", "bool", "bool", "-");

#[test]
fn every_recorded_python_number() {
    let mut cells = Vec::new();
    for name in blocks("scalar") {
        cells.extend(
            block(&format!("scalar {name}")).into_iter().map(|(a, kind, answer)| (name, a, kind, answer)),
        );
    }
    let blocks = cells.len();
    assert!(blocks >= 325, "{blocks}");
    for row in rows("scalar") {
        let [name, a, answers @ ..] = &row[..] else { panic!("{row:?}") };
        cells.extend(
            ScalarKind::ALL.iter().zip(answers).map(|(kind, answer)| (*name, *a, kind.name(), *answer)),
        );
    }
    assert!(cells.len() - blocks >= 4 * (30 + 30 + 26));
    let mut skipped = 0;
    for (name, a, kind, answer) in cells {
        let Some(array) = dtype(a) else {
            skipped += 1;
            continue;
        };
        let got = rules(name).with_scalar(array, scalar(kind));
        if (name, a, kind, answer) == NO_PLUS {
            assert_eq!(got, Ok(DType::Bool));
        } else {
            assert_eq!(got.ok(), result(answer), "{name}: {a} and {kind}");
        }
        if let Err(error) = got {
            assert_eq!(
                error.to_string(),
                format!("{name} defines no common dtype of {a} and a Python {kind}"),
            );
        }
    }
    assert_eq!(skipped, 4, "float4_e2m1fn_x2 of torch");
}

/// The two tables of MindSpore's documentation, 15 x 15 and 15 x 3, with its order of the dtypes and its dashes.
#[test]
fn the_tables_of_mindspore() {
    let names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 \
                 complex64 complex128";
    let names: Vec<_> = names.split(' ').collect();
    let table: BTreeMap<_, _> =
        block("promote mindspore").into_iter().map(|(a, b, answer)| ((a, b), answer)).collect();
    let (mut cells, mut dashes) = (0, 0);
    for a in &names {
        for b in &names {
            let got = Rules::MINDSPORE.promote(a.parse().unwrap(), b.parse().unwrap());
            match (table[&(*a, *b)], got) {
                ("-", Err(error)) => {
                    let mut both: [DType; 2] = [a, b].map(|name| name.parse().unwrap());
                    both.sort();
                    let [low, high] = both;
                    assert_eq!(
                        error.to_string(),
                        format!("mindspore defines no common dtype of {low}, {high}")
                    );
                    dashes += 1;
                }
                (answer, got) => assert_eq!(got, Ok(answer.parse().unwrap()), "{a} {b}"),
            }
            cells += 1;
        }
    }
    assert_eq!((cells, dashes), (225, 72));
    let numbers = block("scalar mindspore");
    assert_eq!(numbers.len(), 45);
    assert_eq!(numbers.iter().filter(|(.., answer)| *answer == "-").count(), 6);
    for name in names {
        let complex = Rules::MINDSPORE.with_scalar(name.parse().unwrap(), ScalarKind::Complex);
        assert!(complex.is_err(), "{name}: MindSpore takes no Python complex");
    }
}

#[test]
fn the_recorded_defaults() {
    let default = |name: &str, kind: &str| match kind {
        "index" => rules(name).index_dtype(),
        kind => rules(name).default_dtype(scalar(kind)),
    };
    for row in rows("default") {
        let [name, kind, answer] = row[..] else { panic!("{row:?}") };
        assert_eq!(default(name, kind), result(answer), "{name} {kind}");
    }
    // Columns: bool, int, float, complex and index.
    let others = [
        ("numpy", "bool int64 float64 complex128 int64"),
        ("torch", "bool int64 float32 complex64 int64"),
        ("array_api", "bool int64 float64 complex128 int64"),
        ("mindspore", "bool int64 float32 complex128 int64"),
        ("megengine", "bool int32 float32 - int32"),
        ("onnx", "bool int64 float32 - int64"),
        ("lossless", "bool - - - -"),
    ];
    for (name, answers) in others {
        for (kind, answer) in ["bool", "int", "float", "complex", "index"].into_iter().zip(answers.split(' '))
        {
            assert_eq!(default(name, kind), result(answer), "{name} {kind}");
        }
    }
}

/// Promotes all operands at once: every recorded subset of two, three and four.
#[test]
fn every_recorded_subset() {
    let mut subsets = BTreeMap::<_, usize>::new();
    for row in rows("nary") {
        let [name, answer, words] = row[..] else { panic!("{row:?}") };
        let letters = rows("letters").into_iter().find(|row| row[0] == name).unwrap();
        let dtypes: Vec<DType> = letters[1].split(',').map(|name| name.parse().unwrap()).collect();
        for word in words.split(' ') {
            let index = |letter: u8| usize::from(letter - if letter < b'a' { b'A' } else { b'a' - 26 });
            let operands: Vec<_> = word.bytes().map(|letter| dtypes[index(letter)]).collect();
            let got = rules(name).promote_all(operands.iter().copied());
            assert_eq!(got.ok(), result(answer), "{name}: {operands:?}");
            *subsets.entry(name).or_default() += 1;
        }
    }
    assert_eq!(subsets, BTreeMap::from([("numpy", 91 + 364 + 1001), ("jax", 4060)]));
}

/// Returns the dtypes above all operands, by definition. The laws are checked against this.
fn upper_bounds(rules: &Rules, operands: &[DType]) -> Vec<DType> {
    DType::ALL.into_iter().filter(|&to| operands.iter().all(|&from| rules.above(from).contains(to))).collect()
}

#[test]
fn the_laws_of_a_lattice() {
    for rules in Rules::ALL {
        let name = rules.name();
        for a in DType::ALL {
            let known = rules.dtypes().contains(a);
            assert_eq!(
                rules.promote(a, a),
                if known {
                    Ok(a)
                } else {
                    Err(PromotionError::UnknownDType { rules: name, dtype: a, known: rules.dtypes() })
                }
            );
            for b in DType::ALL {
                let got = rules.promote(a, b);
                assert_eq!(got, rules.promote(b, a), "{name}: {a}, {b}");
                assert_eq!(got, rules.promote_all([b, a, a, b]), "{name}: {a}, {b}");
                let bounds = upper_bounds(rules, &[a, b]);
                match got {
                    Ok(c) => assert!(bounds.contains(&c), "{name}: {c} is above {a} and {b}"),
                    // An error means that the upper bounds have no least one.
                    Err(_) => {
                        let least =
                            bounds.iter().find(|c| bounds.iter().all(|d| rules.above(**c).contains(*d)));
                        assert_eq!(least, None, "{name}: {a}, {b}");
                    }
                }
                // If there is a least bound, it is the result.
                if let Some(least) =
                    bounds.iter().find(|c| bounds.iter().all(|d| rules.above(**c).contains(*d)))
                {
                    assert_eq!(got, Ok(*least), "{name}: {a}, {b}");
                }
            }
        }
    }
}

/// No two dtypes may become each other, and the sets of dtypes above one are closed, except PyTorch's: above
/// uint16, uint32 and uint64 it has no complex dtypes.
#[test]
fn the_sets_are_closed() {
    let mut open = BTreeSet::new();
    for rules in Rules::ALL {
        for a in rules.dtypes().iter() {
            assert!(rules.above(a).contains(a));
            for b in rules.above(a).iter() {
                assert!(a == b || !rules.above(b).contains(a), "{}: {a} below {b}", rules.name());
                for c in rules.above(b).difference(rules.above(a)).iter() {
                    open.insert((rules.name(), a.name(), c.name()));
                }
            }
        }
    }
    let cut = ["uint16", "uint32", "uint64"]
        .map(|a| ["bcomplex32", "complex128", "complex32", "complex64"].map(|c| ("torch", a, c)));
    assert!(open.iter().eq(cut.as_flattened()), "{open:?}");
}

/// Under which rulesets pairs may be folded in any order. Under the others, only `promote_all` is right.
#[test]
fn associativity_and_its_exceptions() {
    let mut exceptions = BTreeMap::new();
    for rules in Rules::ALL {
        let fold = |x: Result<DType, _>, c| x.and_then(|x| rules.promote(x, c)).ok();
        let mut differ = 0;
        for a in rules.dtypes().iter() {
            for b in rules.dtypes().iter() {
                for c in rules.dtypes().iter() {
                    let left = fold(rules.promote(a, b), c);
                    let right = fold(rules.promote(b, c), a);
                    let all = rules.promote_all([a, b, c]).ok();
                    differ += usize::from(left != right);
                    if !NOT_ASSOCIATIVE.iter().any(|(name, _)| *name == rules.name()) {
                        assert_eq!(left, all, "{}: {a}, {b}, {c}", rules.name());
                    }
                }
            }
        }
        if differ > 0 {
            exceptions.insert(rules.name(), differ);
        }
    }
    // This ruleset has every dtype, so the number grows with that of dtypes.
    assert!(exceptions["lossless"] >= NOT_ASSOCIATIVE[4].1);
    exceptions.insert("lossless", NOT_ASSOCIATIVE[4].1);
    assert_eq!(exceptions, BTreeMap::from(NOT_ASSOCIATIVE));
}

/// The number of ordered triples whose folds differ; an error counts as a result.
const NOT_ASSOCIATIVE: [(&str, usize); 5] =
    [("numpy", 28), ("jax", 240), ("jax_x32", 240), ("torch", 528), ("lossless", 2126)];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Neither order nor repetition of operands matters, to results or to errors.
    #[test]
    fn promote_all_ignores_the_order(
        which in 0..10usize,
        operands in prop::collection::vec(0..DType::ALL.len() as u8, 1..9),
        seed in any::<prop::sample::Index>(),
    ) {
        let rules = Rules::ALL[which];
        let operands: Vec<DType> = operands.into_iter().filter_map(DType::from_code).collect();
        let expected = rules.promote_all(operands.iter().copied());
        let mut shuffled = operands.clone();
        shuffled.rotate_left(seed.index(operands.len()));
        shuffled.push(operands[seed.index(operands.len())]);
        prop_assert_eq!(rules.promote_all(shuffled.iter().rev().copied()), expected);
        prop_assert_eq!(rules.promote_all(shuffled), expected);
        if let Ok(dtype) = expected {
            prop_assert!(upper_bounds(rules, &operands).contains(&dtype));
        }
    }
}

/// 256 pairs of NumPy, of which 60 have a long double.
#[test]
fn every_recorded_can_cast() {
    let (mut tested, mut skipped) = (0, 0);
    for (from, to, least) in block("can_cast numpy") {
        let (Some(from), Some(to)) = (dtype(from), dtype(to)) else {
            skipped += 1;
            continue;
        };
        let least: Casting = least.parse().unwrap();
        for level in Casting::ALL.into_iter().filter(|level| *level != Casting::SameValue) {
            assert_eq!(from.can_cast(to, level), level >= least, "{from} -> {to}, {level}");
        }
        assert!(from.can_cast(to, Casting::SameValue), "only the values can tell");
        assert_eq!(Rules::NUMPY.can_cast(from, to), least <= Casting::Safe, "{from} -> {to}");
        tested += 1;
    }
    assert_eq!((tested, skipped), (196, 60));
}

/// For all dtypes, also those that NumPy lacks: safe is sound, and what one level allows, the next allows.
#[test]
fn can_cast_is_sound() {
    for from in DType::ALL {
        for to in DType::ALL {
            let allowed = Casting::ALL.map(|level| from.can_cast(to, level));
            assert!(allowed.is_sorted(), "{from} -> {to}");
            assert_eq!(from.can_cast(to, Casting::No), from == to);
            assert!(!from.is_lossless_to(to) || from.can_cast(to, Casting::Safe), "{from} -> {to}");
            if from.can_cast(to, Casting::Safe) && !from.is_lossless_to(to) {
                let numpy = matches!(from, DType::I64 | DType::U64) && matches!(to, DType::F64 | DType::C128);
                assert!(numpy, "{from} -> {to} is no exception of NumPy's");
            }
        }
    }
}

#[test]
fn can_cast_of_torch_and_the_array_api() {
    // Bool, integer, float, complex: PyTorch requires that the category does not decrease.
    let category = |t: DType| match t.name() {
        "bool" => 0,
        name if name.contains("int") => 1,
        name if name.contains("complex") => 3,
        _ => 2,
    };
    for a in Rules::TORCH.dtypes().iter() {
        for b in Rules::TORCH.dtypes().iter() {
            assert_eq!(Rules::TORCH.can_cast(a, b), category(a) <= category(b), "{a} -> {b}");
        }
        assert!(!Rules::TORCH.can_cast(a, DType::F8E3M4) && !Rules::TORCH.can_cast(DType::F8E3M4, a));
    }
    for (a, b, answer) in block("promote array_api") {
        let (from, to) = (dtype(a).unwrap(), dtype(b).unwrap());
        assert_eq!(Rules::ARRAY_API.can_cast(from, to), answer == b, "{a} -> {b}");
    }
}

#[test]
fn every_recorded_lossless_cast() {
    let (mut tested, mut skipped) = (0, 0);
    for (from, to, lossless) in block("lossless") {
        let (Some(from), Some(to)) = (dtype(from), dtype(to)) else {
            skipped += 1;
            continue;
        };
        // ml_dtypes 0.6 has no cast of these pairs, which is recorded as a loss.
        let none = [(DType::U2, DType::I4), (DType::U1, DType::I2), (DType::U1, DType::I4)];
        let no_cast = none.contains(&(from, to));
        let expected = (lossless == "yes") != no_cast;
        assert_eq!(from.is_lossless_to(to), expected, "{from} -> {to}");
        // uint1 and bool hold each other's values, so one must be below the other: bool.
        let is_above = expected && (from, to) != (DType::U1, DType::Bool);
        assert_eq!(Rules::LOSSLESS.can_cast(from, to), is_above, "{from} -> {to}");
        tested += 1;
    }
    assert!(tested >= 24 * 32 && skipped <= 24, "{tested}, {skipped}");
}

/// Compares the rule with the kernels: a cast is lossless if every code of a source of 16 bits or fewer comes back,
/// and no two codes give the same result.
#[test]
fn lossless_is_what_the_casts_keep() {
    let options = CastOptions::new().src_packing(Packing::OnePerByte).dst_packing(Packing::OnePerByte);
    for from in DType::ALL.into_iter().filter(|t| t.bits() <= 16) {
        let codes = if from == DType::Bool { 2 } else { 1u32 << from.bits() };
        let size = from.itemsize();
        let bytes: Vec<u8> = (0..codes).flat_map(|code| code.to_le_bytes()[..size].to_vec()).collect();
        let n = codes as usize;
        let cast = |from: DType, to: DType, src: &[u8]| {
            let mut out = vec![0; n * to.itemsize()];
            let little = options.src_order(ByteOrder::Little).dst_order(ByteOrder::Little);
            cast_bytes_with(src, from, &mut out, to, n, &little).unwrap();
            out
        };
        let values = |t, bytes: &[u8]| -> Vec<f64> {
            let wide = cast(t, DType::F64, bytes);
            wide.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
        };
        let exact = values(from, &bytes);
        for to in DType::ALL {
            let got = values(to, &cast(from, to, &bytes));
            let same = |(a, b): (&f64, &f64)| a.is_nan() && b.is_nan() || a.to_bits() == b.to_bits();
            assert_eq!(exact.iter().zip(&got).all(same), from.is_lossless_to(to), "{from} -> {to}");
        }
    }
}

#[test]
fn lossless_of_the_wide() {
    use DType::*;
    for (from, to) in
        [(I32, F64), (U32, F64), (F32, F64), (F32, C64), (F32, C128), (F64, C128), (C64, C128), (U32, I64)]
    {
        assert!(from.is_lossless_to(to) && !to.is_lossless_to(from), "{from} -> {to}");
    }
    for (from, to) in
        [(I32, F32), (U64, F64), (I64, F64), (F64, F32), (F64, C64), (U64, I64), (I64, C128), (F32, I64)]
    {
        assert!(!from.is_lossless_to(to), "{from} -> {to}");
    }
}

/// Returns a buffer of small values of a dtype.
fn sample(dtype: DType, n: usize) -> Vec<u8> {
    let values: Vec<u8> = (0..n).map(|i| (i % 2) as u8).collect();
    let mut out = vec![0; dtype.byte_len(n, Packing::LowFirst).unwrap()];
    cast_bytes_with(&values, DType::U8, &mut out, dtype, n, &CastOptions::new()).unwrap();
    out
}

/// For every pair of every ruleset, the plan has the casts of `Caster`, and none where there is nothing to cast.
#[test]
fn plans_choose_the_casts() {
    const N: usize = 9;
    for rules in Rules::ALL {
        for a in DType::ALL {
            for b in DType::ALL {
                let plan = match (rules.plan(&[a, b]), rules.promote(a, b)) {
                    (Ok(plan), Ok(dtype)) => {
                        assert_eq!(plan.dtype(), dtype);
                        plan
                    }
                    (Err(error), Err(expected)) => {
                        assert_eq!(error, expected);
                        continue;
                    }
                    (plan, dtype) => panic!("{plan:?} {dtype:?}"),
                };
                let to = plan.dtype();
                let size = to.byte_len(N, Packing::LowFirst).unwrap();
                let (src_a, src_b) = (sample(a, N), sample(b, N));
                let mut out = [vec![0xA5; size], vec![0xA5; size]];
                let [out_a, out_b] = &mut out;
                assert_eq!(rules.promote_into((a, &src_a), (b, &src_b), out_a, out_b, N), Ok(to));
                for (((from, src), operand), out) in
                    [(a, src_a), (b, src_b)].into_iter().zip(plan.operands()).zip(&out)
                {
                    let mut expected = vec![0; size];
                    cast_bytes_with(&src, from, &mut expected, to, N, &CastOptions::new()).unwrap();
                    assert_eq!(*out, expected, "{from} -> {to}");
                    match operand {
                        Operand::AsIs => assert_eq!(from, to),
                        Operand::Cast(caster) => {
                            assert_ne!(from, to);
                            assert_eq!((caster.from(), caster.to()), (from, to));
                            let mut got = vec![0; size];
                            caster.cast(&src, &mut got, N).unwrap();
                            assert_eq!(got, expected, "{from} -> {to}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn another_layout_is_not_as_is() {
    let other = if cfg!(target_endian = "big") { ByteOrder::Little } else { ByteOrder::Big };
    let as_is = |dtype, options: CastOptions| {
        let plan = Rules::LOSSLESS.plan_with(&[dtype], &options).unwrap();
        matches!(plan.operands(), [Operand::AsIs])
    };
    let default = CastOptions::new();
    for dtype in DType::ALL {
        assert!(as_is(dtype, default), "{dtype}");
        assert_eq!(as_is(dtype, default.src_order(other)), dtype.bits() <= 8, "{dtype}");
        assert!(as_is(dtype, default.src_order(other).dst_order(other)), "{dtype}");
        assert_eq!(as_is(dtype, default.dst_packing(Packing::HighFirst)), dtype.bits() >= 8, "{dtype}");
    }
}

#[test]
fn promote_into_writes_nothing_on_an_error() {
    let (a, b) = ([1u8; 4], [0u8; 16]);
    for (len_a, len_b, n) in [(16, 15, 4), (15, 16, 4), (16, 16, 3), (16, 0, 4)] {
        let (mut out_a, mut out_b) = (vec![0xA5; len_a], vec![0xA5; len_b]);
        let error = Rules::NUMPY.promote_into((DType::U8, &a), (DType::F32, &b), &mut out_a, &mut out_b, n);
        assert!(matches!(error, Err(PromotionError::Cast(Error::BufferSize { .. }))), "{error:?}");
        assert!(out_a.iter().chain(&out_b).all(|byte| *byte == 0xA5));
    }
    let isa = Isa::ALL.into_iter().find(|isa| !isa.is_available());
    if let Some(isa) = isa {
        let error =
            Rules::NUMPY.plan_with(&[DType::U8, DType::F32], &CastOptions::new().isa(isa)).unwrap_err();
        assert_eq!(error, PromotionError::Cast(Error::IsaUnavailable { isa }));
        assert_eq!(error.to_string(), Error::IsaUnavailable { isa }.to_string());
    }
}

#[test]
fn errors_say_what_was_given_and_what_is_needed() {
    use DType::*;
    let message = |error: PromotionError| error.to_string();
    assert_eq!(
        message(Rules::NUMPY.promote_all([]).unwrap_err()),
        "there are no operands; promotion needs at least one"
    );
    assert_eq!(
        message(Rules::TORCH.promote_all([C64, U16, F32, U16]).unwrap_err()),
        "torch defines no common dtype of uint16, float32, complex64"
    );
    assert_eq!(
        message(Rules::MEGENGINE.promote(F64, Bool).unwrap_err()),
        "megengine has no float64; it has bool, uint8, int8, uint16, int16, int32, float16, float32"
    );
    assert_eq!(
        message(Rules::ONNX.with_scalar(F32, ScalarKind::Int).unwrap_err()),
        "onnx defines no common dtype of float32 and a Python int"
    );
    assert_eq!(
        Rules::from_name("NumPy").unwrap_err().to_string(),
        "no ruleset is named \"NumPy\"; the names are numpy, jax, jax_x32, jax_strict, torch, array_api, mindspore, \
         megengine, onnx, lossless"
    );
    for rules in Rules::ALL {
        assert_eq!(Rules::from_name(rules.name()).unwrap().name(), rules.name());
        let unknown = DTypeSet::ALL.difference(rules.dtypes());
        if let Some(dtype) = unknown.first() {
            assert!(matches!(
                rules.with_scalar(dtype, ScalarKind::Bool),
                Err(PromotionError::UnknownDType { .. })
            ));
        }
    }
    for level in Casting::ALL {
        assert_eq!(level.to_string().parse(), Ok(level));
    }
}

#[test]
fn the_page_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/promotion.md");
    let fresh = example::markdown();
    if std::env::var_os("LANECAST_BLESS").is_some() {
        std::fs::write(path, &fresh).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        checked_in.replace("\r\n", "\n") == fresh,
        "docs/promotion.md is stale; make it anew with: LANECAST_BLESS=1 cargo test --test promotion"
    );
}

/// The example's sums show rounding in bfloat16, and errors.
#[test]
fn the_example_adds() {
    let text = example::sums().unwrap();
    let line =
        |name: &str| text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap().to_owned();
    for name in ["jax", "torch", "mindspore", "lossless"] {
        assert!(line(name).ends_with("bfloat16 [1.5, 101.0, 9856.0]"), "{text}");
    }
    assert!(line("numpy").contains("error: numpy has no bfloat16; it has bool"), "{text}");
    assert!(line("onnx").ends_with("error: onnx defines no common dtype of int8, bfloat16"), "{text}");
}
