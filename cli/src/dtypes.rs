//! The dtypes of files, of the library, and of the command line.

use lanecast::promotion::Dialect;
use lanecast::{CastOptions, DType};
use safetensors::Dtype;

use crate::error::{Failure, Result, suggestion};

/// Returns the library's dtype of one in a file. None if the program does not cast it.
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

/// Returns the dtype in a file of one of the library. None if safetensors does not have it.
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

/// Returns the shortest name of a dtype.
pub(crate) fn short(dtype: DType) -> &'static str {
    SHORT.iter().find(|(_, other)| *other == dtype).map_or(dtype.name(), |(short, _)| short)
}

/// Returns the dtype of a name on the command line: one of [`SHORT`], of the library, or of other programs (`fp16`, `fp8_e4m3fn`,
/// safetensors' `F8_E4M3`), in any case.
pub(crate) fn named(name: &str) -> Option<DType> {
    let lower = name.to_lowercase();
    let bare = lower.strip_prefix("fp8_").or(lower.strip_prefix("f8_")).unwrap_or(&lower);
    let bare = match bare {
        "fp16" | "half" => "f16",
        "fp32" => "f32",
        "fp64" => "f64",
        other => other,
    };
    let short = SHORT.iter().find(|(short, _)| *short == bare).map(|&(_, dtype)| dtype);
    short
        .or_else(|| lower.parse().ok())
        .or_else(|| format!("float8_{bare}").parse().ok())
        .or_else(|| DType::parse(Dialect::Safetensors, &name.to_uppercase()).ok())
}

/// Lists the names that contain a word, as `fp8-block` contains `fp8`; all names if none does.
pub(crate) fn those_with(word: &str, names: &[&'static str]) -> String {
    let some: Vec<&str> = names.iter().copied().filter(|name| name.contains(word)).collect();
    if some.is_empty() { names.join(", ") } else { some.join(", ") }
}

/// As [`named`], or an error with what was probably meant.
pub(crate) fn parse(name: &str, others: &[&'static str]) -> Result<DType> {
    named(name).ok_or_else(|| {
        // Names of layouts have fp8 and fp4 where those of dtypes have float8 and float4.
        let word = name.to_lowercase().replace("float", "fp");
        if others.len() > 1 && others.iter().any(|other| other.contains(&word)) {
            let error = Failure::usage(format!("no dtype and no layout is called '{name}'"));
            let close = those_with(&word, others);
            let one_of = if close.contains(',') { "one of " } else { "" };
            return error.help(format!("did you mean {one_of}{close}?"));
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
            None if others.len() > 1 => error.help(format!(
                "a dtype (bf16, f16, f32, f64, e4m3, e5m2), or a layout: {}",
                others.join(", ")
            )),
            None => error.help("bf16, f16, f32, f64, e4m3, e5m2, or another that `lanecast info` lists"),
        }
    })
}

/// Returns the options of casts from and to files, which are little-endian.
pub(crate) fn options() -> CastOptions {
    CastOptions::new().src_order(lanecast::ByteOrder::Little).dst_order(lanecast::ByteOrder::Little)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtypes_have_the_names_of_other_programs() {
        for (names, dtype) in [
            (&["f16", "fp16", "half", "float16", "F16", "FP16"][..], DType::F16),
            (&["bf16", "BF16", "bfloat16"], DType::BF16),
            (&["fp32", "F32", "float32"], DType::F32),
            (&["e4m3", "e4m3fn", "fp8_e4m3fn", "fp8_e4m3", "F8_E4M3", "float8_e4m3fn"], DType::F8E4M3FN),
            (&["e5m2", "F8_E5M2", "fp8_e5m2"], DType::F8E5M2),
            (&["float8_e4m3"], DType::F8E4M3),
            (&["e4m3fnuz", "F8_E4M3FNUZ"], DType::F8E4M3FNUZ),
            (&["e2m1", "F4", "float4_e2m1fn"], DType::F4E2M1),
            (&["e8m0", "F8_E8M0"], DType::F8E8M0),
            (&["int8", "i8", "I8"], DType::I8),
            (&["bool", "BOOL"], DType::Bool),
        ] {
            for name in names {
                assert_eq!(named(name), Some(dtype), "{name}");
            }
        }
        // Every dtype of a file by its name there, which `inspect` shows.
        for dtype in DType::ALL.into_iter().filter(|&dtype| in_file(dtype).is_some()) {
            assert_eq!(named(&in_file(dtype).unwrap().to_string()), Some(dtype));
        }
        for name in ["fp8", "float8", "nf4", "", "f8_", "q4_0"] {
            assert_eq!(named(name), None, "{name}");
        }
    }
}
