//! The dtypes of files, of the library, and of the command line.

use lanecast::{CastOptions, DType};
use safetensors::Dtype;

use crate::error::{Failure, Result, suggestion};

/// The dtype of the library. None if the program does not cast it.
pub(crate) fn of(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::BOOL => DType::Bool,
        Dtype::F4 => DType::F4E2M1,
        Dtype::F6_E2M3 => DType::F6E2M3,
        Dtype::F6_E3M2 => DType::F6E3M2,
        Dtype::U8 => DType::U8,
        Dtype::I8 => DType::I8,
        Dtype::F8_E5M2 => DType::F8E5M2,
        Dtype::F8_E4M3 => DType::F8E4M3FN,
        Dtype::F8_E8M0 => DType::F8E8M0,
        Dtype::F8_E4M3FNUZ => DType::F8E4M3FNUZ,
        Dtype::F8_E5M2FNUZ => DType::F8E5M2FNUZ,
        Dtype::I16 => DType::I16,
        Dtype::U16 => DType::U16,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I32 => DType::I32,
        Dtype::U32 => DType::U32,
        Dtype::F32 => DType::F32,
        Dtype::C64 => DType::C64,
        Dtype::F64 => DType::F64,
        Dtype::I64 => DType::I64,
        Dtype::U64 => DType::U64,
        _ => return None,
    })
}

/// The dtype in a file. None if safetensors does not have it.
pub(crate) fn in_file(dtype: DType) -> Option<Dtype> {
    const ALL: [Dtype; 22] = [
        Dtype::BOOL,
        Dtype::F4,
        Dtype::F6_E2M3,
        Dtype::F6_E3M2,
        Dtype::U8,
        Dtype::I8,
        Dtype::F8_E5M2,
        Dtype::F8_E4M3,
        Dtype::F8_E8M0,
        Dtype::F8_E4M3FNUZ,
        Dtype::F8_E5M2FNUZ,
        Dtype::I16,
        Dtype::U16,
        Dtype::F16,
        Dtype::BF16,
        Dtype::I32,
        Dtype::U32,
        Dtype::F32,
        Dtype::C64,
        Dtype::F64,
        Dtype::I64,
        Dtype::U64,
    ];
    ALL.into_iter().find(|&candidate| of(candidate) == Some(dtype))
}

/// Whether a dtype is a float with a mantissa, which conversions change.
pub(crate) fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64) || is_narrow(dtype)
}

/// Whether a dtype is a float of at most 8 bits.
pub(crate) fn is_narrow(dtype: Dtype) -> bool {
    matches!(
        dtype,
        Dtype::F4
            | Dtype::F6_E2M3
            | Dtype::F6_E3M2
            | Dtype::F8_E5M2
            | Dtype::F8_E4M3
            | Dtype::F8_E4M3FNUZ
            | Dtype::F8_E5M2FNUZ
    )
}

const SHORT: [(&str, DType); 13] = [
    ("bf16", DType::BF16),
    ("f16", DType::F16),
    ("f32", DType::F32),
    ("f64", DType::F64),
    ("e4m3", DType::F8E4M3FN),
    ("e5m2", DType::F8E5M2),
    ("e8m0", DType::F8E8M0),
    ("e2m1", DType::F4E2M1),
    ("i8", DType::I8),
    ("u8", DType::U8),
    ("i16", DType::I16),
    ("i32", DType::I32),
    ("i64", DType::I64),
];

/// The dtype of a name on the command line.
pub(crate) fn named(name: &str) -> Option<DType> {
    let short = SHORT.iter().find(|(short, _)| *short == name).map(|&(_, dtype)| dtype);
    short.or_else(|| name.parse().ok())
}

/// The names that contain a word, as `fp8-block` contains `fp8`; all names if none does.
pub(crate) fn those_with(word: &str, names: &[&'static str]) -> String {
    let some: Vec<&str> = names.iter().copied().filter(|name| name.contains(word)).collect();
    if some.is_empty() { names.join(", ") } else { some.join(", ") }
}

/// As [`named`], or an error with what was probably meant.
pub(crate) fn parse(name: &str, others: &[&'static str]) -> Result<DType> {
    named(name).ok_or_else(|| {
        if others.len() > 1 && others.iter().any(|other| other.contains(name)) {
            let error = Failure::usage(format!("no dtype and no layout is called '{name}'"));
            return error.help(format!("one of {}?", those_with(name, others)));
        }
        let all = SHORT
            .iter()
            .map(|(short, _)| *short)
            .chain(DType::ALL.map(DType::name))
            .chain(others.iter().copied());
        let what = if others.len() > 1 { "dtype and no layout" } else { "dtype" };
        let error = Failure::usage(format!("no {what} is called '{name}'"));
        match suggestion(name, all) {
            Some(close) => error.help(format!("did you mean '{close}'?")),
            None if others.len() > 1 => {
                error.help(format!("bf16, f16, f32, f64, e4m3, e5m2, or a layout: {}", others.join(", ")))
            }
            None => error.help("bf16, f16, f32, f64, e4m3, e5m2, or a name that `lanecast info` lists"),
        }
    })
}

/// The options of casts from and to files, which are little-endian.
pub(crate) fn options() -> CastOptions {
    CastOptions::new().src_order(lanecast::ByteOrder::Little).dst_order(lanecast::ByteOrder::Little)
}
