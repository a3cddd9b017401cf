//! Any bytes as elements of any dtype: their texts are parsed as the same elements.

#![no_main]

use lanecast::text::{self, Notation};
use lanecast::{CastOptions, DType, Kind, Packing};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (choice, plain, bytes) = input;
    let dtype = DType::ALL[usize::from(choice) % DType::ALL.len()];
    let notation = if plain { Notation::Plain } else { Notation::Scientific };
    // As many elements, by the eight, as the bytes hold.
    let per_eight = dtype.byte_len(8, Packing::LowFirst).expect("it is small");
    let n = bytes.len() / per_eight * 8;
    let bytes = &bytes[..n / 8 * per_eight];
    let options = CastOptions::new();

    let Ok((offsets, text)) = text::format_bytes_with::<i32>(bytes, dtype, n, &options, notation) else {
        assert!(matches!(dtype.kind(), Kind::Complex(_)));
        return;
    };
    let mut back = vec![0; bytes.len()];
    // Without saturation, so that ±Inf comes back; float8_e8m0fnu has no Inf, and needs saturation for its smallest value.
    let options = options.saturate(dtype == DType::F8E8M0);
    text::parse_bytes_with(&offsets, &text, &mut back, dtype, &options)
        .expect("what was written are numbers");
    // Parsed elements have one code for NaN, and bools that are 0 or 1, so they may differ from `bytes`; their text must not.
    let (again, same) =
        text::format_bytes_with::<i32>(&back, dtype, n, &CastOptions::new(), notation).expect("as before");
    assert!(again == offsets && same == text, "{dtype}");
});
