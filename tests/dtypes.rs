//! Names in every dialect, type strings, and the properties that NumPy and the Array API give of dtypes.

mod recorded;

use std::collections::{BTreeMap, BTreeSet};

use lanecast::{numpy::*, promotion::*, *};
use recorded::rows;

#[test]
fn every_name_of_every_dialect_comes_back() {
    let mut names = BTreeMap::new();
    for dialect in Dialect::ALL {
        let mut seen = BTreeSet::new();
        for dtype in DType::ALL {
            let all: Vec<_> = dtype.names_in(dialect).collect();
            assert_eq!(dtype.name_in(dialect), all.first().cloned());
            for name in all {
                assert_eq!(DType::parse(dialect, &name), Ok(dtype), "{} {name}", dialect.name());
                assert!(seen.insert(name.clone()), "{} has {name} twice", dialect.name());
                let wrong = [format!("{name} "), format!(" {name}"), format!("{name}~"), format!("x.{name}")];
                for wrong in wrong {
                    assert!(DType::parse(dialect, &wrong).is_err(), "{} {wrong:?}", dialect.name());
                }
            }
        }
        names.insert(dialect.name(), seen.len());
    }
    let expected = [
        ("canonical", DType::ALL.len()),
        ("NumPy", DType::ALL.len() + 57),
        ("PyTorch", 34),
        ("MindSpore", 34),
        ("MegEngine", 10),
        ("Array API", 13),
        ("ONNX", 54),
        ("JAX", 37),
        ("safetensors", 22),
        ("DLPack", 33),
    ];
    assert_eq!(names, BTreeMap::from(expected));
}

/// Names that mean different dtypes, with a column for each dialect: NumPy, PyTorch, MindSpore, canonical.
#[test]
fn names_that_systems_disagree_about() {
    let table = [
        ("float", "float64 float32 float32 -"),
        ("int", "int64 int32 int32 -"),
        ("long", "int64 int64 int64 -"),
        ("byte", "int8 - int8 -"),
        ("uint", "uint64 - - -"),
        ("intp", "int64 - int64 -"),
        ("uintp", "uint64 - uint64 -"),
        ("intc", "int32 - int32 -"),
        ("half", "float16 float16 float16 -"),
        ("short", "int16 int16 int16 -"),
        ("double", "float64 float64 float64 -"),
        ("single", "float32 - float32 -"),
        ("cfloat", "- complex64 complex64 -"),
        ("cdouble", "complex128 complex128 complex128 -"),
        ("complex", "complex128 - - -"),
        ("f8", "float64 - - -"),
        ("i8", "int64 - - -"),
        ("u4", "uint32 - - -"),
        ("i4", "int32 - - -"),
        ("bool_", "bool - bool -"),
        ("torch.float32", "- float32 - -"),
        ("mindspore.float32", "- - float32 -"),
        ("float32", "float32 float32 float32 float32"),
        ("float8_e3m4", "float8_e3m4 - - float8_e3m4"),
    ];
    for (name, answers) in table {
        let dialects = [Dialect::NumPy, Dialect::Torch, Dialect::MindSpore, Dialect::Canonical];
        for (dialect, answer) in dialects.into_iter().zip(answers.split(' ')) {
            let got = DType::parse(dialect, name);
            assert_eq!(got.ok(), answer.parse().ok(), "{} {name}", dialect.name());
        }
    }
}

/// Both alias tables of MindSpore's documentation: the newer one, then the older one.
#[test]
fn the_aliases_of_mindspore() {
    let newer = "short=int16 int=int32 long=int64 half=float16 float=float32 double=float64 cfloat=complex64 \
                 cdouble=complex128";
    let older = "bool_=bool byte=int8 short=int16 intc=int32 intp=int64 ubyte=uint8 ushort=uint16 uintc=uint32 \
                 uintp=uint64 half=float16 single=float32 double=float64";
    for pair in newer.split(' ').chain(older.split(' ')) {
        let (alias, name) = pair.split_once('=').unwrap();
        assert_eq!(DType::parse(Dialect::MindSpore, alias), Ok(name.parse().unwrap()), "{alias}");
    }
}

/// What NumPy makes of every name, character and code, and of texts that are none of these.
#[test]
fn every_recorded_name_of_numpy() {
    let mut known = 0;
    for row in rows("name") {
        let [text, name, string] = row[..] else { panic!("{row:?}") };
        let text = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap();
        let got = text.parse::<OrderedDType>();
        if name == "-" {
            assert!(got.is_err(), "{text:?} is {got:?}");
            continue;
        }
        let got = got.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(got.dtype().name(), name, "{text:?}");
        if !text.starts_with(['<', '>', '=', '|']) {
            assert_eq!(DType::parse(Dialect::NumPy, text), Ok(got.dtype()), "{text:?}");
        }
        // Recorded on a little-endian machine, whose native order is `<`.
        if string != "-" && (cfg!(target_endian = "little") || text.starts_with(['<', '>'])) {
            assert_eq!(got.to_string(), string, "{text:?}");
        }
        known += 1;
    }
    assert!(known >= 100, "{known}");
}

#[test]
fn every_type_string_comes_back() {
    for dtype in DType::ALL {
        for order in [ByteOrder::Native, ByteOrder::Little, ByteOrder::Big] {
            let ordered = OrderedDType::new(dtype, order);
            assert_eq!(ordered.to_string().parse(), Ok(ordered), "{ordered}");
            assert_eq!(ordered.swapped().swapped(), ordered);
            assert_eq!(ordered.swapped() == ordered, dtype.part().bits() <= 8, "{ordered}");
            assert_eq!(ordered.new_byteorder(ByteOrder::Native), OrderedDType::from(dtype));
        }
        let [little, big] = [ByteOrder::Little, ByteOrder::Big].map(|order| OrderedDType::new(dtype, order));
        assert_eq!(little == big, dtype.part().bits() <= 8, "{dtype}");
        let level = if little == big { Casting::No } else { Casting::Equiv };
        assert_eq!(little.casting_to(big), level, "{dtype}");
    }
    // The type strings that numpy.save writes for these lose the dtype; ours keep it.
    assert_eq!(OrderedDType::from(DType::BF16).to_string(), "bfloat16");
    for wrong in ["", "<", "<<f4", "<f", ">float32", "<bool_", "|V2", "f4,", "é", "<é", "<int8"] {
        let got = wrong.parse::<OrderedDType>();
        assert_eq!(got.is_ok(), wrong == "<f", "{wrong:?}: {got:?}");
    }
}

#[test]
fn the_recorded_facts_of_dtypes() {
    for row in rows("dtype") {
        let [string, name, kind, char, itemsize, alignment, byteorder, native] = row[..] else {
            panic!("{row:?}")
        };
        let dtype: OrderedDType = string.parse().unwrap();
        assert_eq!(dtype.dtype().name(), name);
        assert_eq!(dtype.dtype().kind_char().to_string(), kind, "{name}");
        assert_eq!(dtype.dtype().char().unwrap().to_string(), char, "{name}");
        assert_eq!(dtype.dtype().itemsize().to_string(), itemsize, "{name}");
        assert_eq!(dtype.dtype().alignment().to_string(), alignment, "{name}");
        // Recorded on a little-endian machine.
        if cfg!(target_endian = "little") {
            assert_eq!(dtype.byteorder().to_string(), byteorder, "{string}");
            assert_eq!(u8::from(dtype.is_native()).to_string(), native, "{string}");
        }
    }
    for dtype in DType::ALL.into_iter().filter(|dtype| !Rules::NUMPY.dtypes().contains(*dtype)) {
        assert_eq!(dtype.char(), None, "{dtype}");
    }
}

#[test]
fn the_recorded_limits() {
    let mut seen = DTypeSet::EMPTY;
    for row in rows("iinfo") {
        let [name, bits, min, max] = row[..] else { panic!("{row:?}") };
        let dtype: DType = name.parse().unwrap();
        let info = dtype.iinfo().unwrap();
        assert_eq!(info.bits.to_string(), bits, "{name}");
        assert_eq!((info.min.to_string(), info.max.to_string()), (min.to_owned(), max.to_owned()), "{name}");
        assert!(dtype.finfo().is_none());
        seen = seen.with(dtype);
    }
    for row in rows("finfo") {
        let [name, bits, numbers @ ..] = &row[..] else { panic!("{row:?}") };
        let dtype: DType = name.parse().unwrap();
        let info = dtype.finfo().unwrap();
        let numbers: Vec<f64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
        assert_eq!(info.bits.to_string(), *bits, "{name}");
        assert_eq!([info.eps, info.min, info.max, info.tiny, info.smallest_subnormal], numbers[..], "{name}");
        assert!(dtype.iinfo().is_none());
        seen = seen.with(dtype);
    }
    assert!(seen.len() >= 33, "{seen}");
    assert!(DType::Bool.iinfo().is_none() && DType::Bool.finfo().is_none());
}

#[test]
fn the_categories_of_the_array_api() {
    for dtype in DType::ALL {
        let name = dtype.name();
        let complex = name.contains("complex");
        let unsigned = name.starts_with("uint");
        let signed = name.starts_with("int");
        let expected = [
            ("bool", name == "bool"),
            ("signed integer", signed),
            ("unsigned integer", unsigned),
            ("integral", signed || unsigned),
            ("real floating", name.contains("float")),
            ("complex floating", complex),
            ("numeric", name != "bool"),
        ];
        assert_eq!(expected.map(|(category, _)| category), Category::ALL.map(Category::name));
        assert_eq!(expected.map(|(category, _)| category.to_owned()), Category::ALL.map(|c| c.to_string()));
        for (category, member) in expected {
            assert_eq!(dtype.is_kind(category.parse().unwrap()), member, "{dtype} {category}");
        }
    }
    assert_eq!(
        "floating".parse::<Category>().unwrap_err().to_string(),
        "no category is named \"floating\"; the names are bool, signed integer, unsigned integer, integral, \
         real floating, complex floating, numeric"
    );
}

#[test]
fn onnx_and_dlpack_numbers() {
    for code in -1..64 {
        if let Some(dtype) = DType::from_onnx(code) {
            assert_eq!(dtype.to_onnx(), Some(code));
        }
    }
    let onnx: Vec<_> = (0..40).filter(|code| DType::from_onnx(*code).is_some()).collect();
    assert!(onnx.iter().copied().eq((1..=28).filter(|code| *code != 8)), "{onnx:?}");
    assert_eq!(DType::ALL.into_iter().filter(|dtype| dtype.to_onnx().is_some()).count(), onnx.len());
    // Names and numbers of TensorProto.DataType.
    for (name, code) in
        [("FLOAT", 1), ("BOOL", 9), ("DOUBLE", 11), ("BFLOAT16", 16), ("FLOAT8E8M0", 24), ("INT2", 26)]
    {
        assert_eq!(DType::parse(Dialect::Onnx, name).unwrap().to_onnx(), Some(code), "{name}");
    }
    let mut found = 0;
    for code in 0..=255 {
        for bits in 0..=255 {
            for lanes in 0..3 {
                if let Some(dtype) = DType::from_dlpack(code, bits, lanes) {
                    assert_eq!(dtype.to_dlpack(), Some((code, bits, lanes)));
                    assert_eq!((u32::from(bits), lanes), (dtype.bits(), 1));
                    found += 1;
                }
            }
        }
    }
    assert_eq!(DType::ALL.into_iter().filter(|dtype| dtype.to_dlpack().is_some()).count(), found);
    // From dlpack.h, one dtype of each code.
    let header = [
        (0, "int32"),
        (1, "uint8"),
        (2, "float64"),
        (4, "bfloat16"),
        (5, "complex128"),
        (5, "complex32"),
        (0, "int1"),
        (1, "uint1"),
        (6, "bool"),
        (7, "float8_e3m4"),
        (8, "float8_e4m3"),
        (9, "float8_e4m3b11fnuz"),
        (10, "float8_e4m3fn"),
        (11, "float8_e4m3fnuz"),
        (12, "float8_e5m2"),
        (13, "float8_e5m2fnuz"),
        (14, "float8_e8m0fnu"),
        (15, "float6_e2m3fn"),
        (16, "float6_e3m2fn"),
        (17, "float4_e2m1fn"),
    ];
    for (code, name) in header {
        assert_eq!(name.parse::<DType>().unwrap().to_dlpack().unwrap().0, code, "{name}");
    }
}

/// The table of the contract has every dtype, and agrees with its constants.
#[test]
fn the_table_of_the_contract() {
    const PAGE: &str = include_str!("../docs/contract.md");
    let table = PAGE.lines().skip_while(|line| !line.starts_with("| name (canonical")).skip(2);
    let mut seen = DTypeSet::EMPTY;
    for line in table.take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, names, _, codes, bits, layout, max, inf, nan, negative_zero, _] = cells[..] else {
            panic!("{line}")
        };
        let all = |cell: &'static str| cell.split(' ').collect::<Vec<_>>();
        let (names, codes, bits) = (all(names), all(codes), all(bits));
        assert!(names.len() == codes.len() && names.len() == bits.len(), "{line}");
        for ((name, code), bits) in names.into_iter().zip(codes).zip(bits) {
            let dtype: DType = name.parse().unwrap();
            assert_eq!(
                (dtype.code().to_string(), dtype.bits().to_string()),
                (code.into(), bits.into()),
                "{name}"
            );
            assert!(!seen.contains(dtype), "{name} is there twice");
            seen = seen.with(dtype);
            let Some(format) = dtype.float_format() else {
                assert_eq!([max, inf, nan, negative_zero], [""; 4], "{name}");
                continue;
            };
            let fields = [format.has_sign().into(), format.exponent_bits(), format.mantissa_bits()];
            assert_eq!(
                format!("{}, {}", fields.map(|n| n.to_string()).join("-"), format.bias()),
                layout,
                "{name}"
            );
            let yes = |is: bool| if is { "yes" } else { "no" };
            assert_eq!([inf, negative_zero], [format.has_inf(), format.has_neg_zero()].map(yes), "{name}");
            // The table gives the codes of NaN where there are at most two.
            let codes = 0..if dtype.bits() <= 8 { 1 << dtype.bits() } else { 0 };
            let nans = codes.filter(|&code| value_of(dtype, code).is_nan());
            let nans = nans.map(|code| format!("{code:X}")).collect::<Vec<_>>();
            let has_nan = yes(format.has_nan()).to_owned();
            assert_eq!(if (1..=2).contains(&nans.len()) { nans.join(" ") } else { has_nan }, nan, "{name}");
            // The table gives no largest value for bfloat16, float32 and float64.
            if let Some((value, code)) = max.split_once(" = ") {
                let code = u32::from_str_radix(code, 16).unwrap();
                let value = match value.strip_prefix("2^") {
                    Some(power) => 2f64.powi(power.parse().unwrap()),
                    None => value.parse().unwrap(),
                };
                assert_eq!((value_of(dtype, code), value), (format.max(), format.max()), "{name}");
            } else {
                assert!(max.is_empty() && dtype.bits() >= 16, "{name}");
            }
        }
    }
    assert_eq!(seen, DTypeSet::ALL);
}

/// Returns the value of a code.
fn value_of(dtype: DType, code: u32) -> f64 {
    let little = CastOptions::new().src_order(ByteOrder::Little);
    let mut value = [0; 8];
    let code = &code.to_le_bytes()[..dtype.bits().div_ceil(8) as usize];
    cast_bytes_with(code, dtype, &mut value, DType::F64, 1, &little).unwrap();
    f64::from_ne_bytes(value)
}

/// The README states the number of dtypes.
#[test]
fn the_number_of_dtypes() {
    let page = include_str!("../README.md");
    assert!(page.contains(&format!("every ordered pair of {} dtypes", DType::ALL.len())));
}
