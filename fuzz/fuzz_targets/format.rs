//! Any bytes as elements of any dtype: their texts read as the same elements.

#![no_main]

use lanecast::text::{self, Notation};
use lanecast::{CastOptions, DType, Kind, Packing};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (choice, plain, bytes) = input;
    let dtype = DType::ALL[usize::from(choice) % DType::ALL.len()];
    let notation = if plain { Notation::Plain } else { Notation::Scientific };
    // As many elements as there are whole bytes for.
    let per_eight = dtype.byte_len(8, Packing::LowFirst).expect("it is small");
    let n = bytes.len() / per_eight * 8;
    let bytes = &bytes[..n / 8 * per_eight];
    let options = CastOptions::new();

    let Ok((offsets, text)) = text::format_bytes_with::<i32>(bytes, dtype, n, &options, notation) else {
        assert!(matches!(dtype.kind(), Kind::Complex(_)));
        return;
    };
    let mut back = vec![0; bytes.len()];
    // Without saturation, so that ±Inf comes back; float8_e8m0fnu has none, and needs it for its smallest.
    let options = options.saturate(dtype == DType::F8E8M0);
    text::parse_bytes_with(&offsets, &text, &mut back, dtype, &options)
        .expect("what was written are numbers");
    // Once read, NaN has one code and a bool is 0 or 1, and then the text is the same.
    let (again, same) =
        text::format_bytes_with::<i32>(&back, dtype, n, &CastOptions::new(), notation).expect("as before");
    assert!(again == offsets && same == text, "{dtype}");
});
