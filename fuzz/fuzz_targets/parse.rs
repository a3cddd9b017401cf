//! Any bytes as texts: nothing panics, `parse_slice` agrees with std, and parsed elements survive being formatted.

#![no_main]

use lanecast::text::{self, Notation};
use lanecast::{CastOptions, DType, Packing, Rounding, bf16, f16};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, Vec<i32>, &[u8])| {
    let (choice, offsets, bytes) = input;
    let to = DType::ALL[usize::from(choice) % DType::ALL.len()];
    let options = CastOptions::new().rounding(Rounding::ALL[usize::from(choice) % 5]);

    // Arbitrary offsets, which are most likely invalid, must not panic.
    let n = offsets.len().saturating_sub(1);
    let mut out = vec![0; to.byte_len(n, Packing::LowFirst).unwrap_or(0)];
    let _ = text::parse_bytes_with(&offsets, bytes, &mut out, to, &options);

    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let mut wide = [0f64];
    let read = text::parse_slice(&[text], &mut wide).is_ok();
    assert_eq!(read, text.trim_ascii().parse::<f64>().is_ok(), "the grammar is that of std");

    // An element parsed through offsets is the same after it was formatted and parsed again.
    let joined = [0, bytes.len() as i64];
    let mut packed = vec![0; to.byte_len(1, Packing::LowFirst).unwrap_or(0)];
    let result = text::parse_bytes_with(&joined, bytes, &mut packed, to, &options);
    if let Ok((offsets, bytes)) = text::format_bytes_with::<i64>(&packed, to, 1, &options, Notation::Plain) {
        if result.is_ok() {
            let mut again = vec![0; packed.len()];
            // Rounded to nearest, whatever rounding made the element.
            text::parse_bytes_with(
                &offsets,
                &bytes,
                &mut again,
                to,
                &CastOptions::new().saturate(to == DType::F8E8M0),
            )
            .expect("what was written is a number");
            let nan = bytes == b"NaN";
            assert!(nan || again == packed, "{to} {text:?}");
        }
    }
    if read {
        let x: f64 = text.trim_ascii().parse().expect("the same grammar");
        assert!(text.len() >= 1 << 15 || wide[0].to_bits() == x.to_bits());
        let mut single = [0f32];
        text::parse_slice(&[text], &mut single).expect("a number");
        let x: f32 = text.trim_ascii().parse().expect("the same grammar");
        assert!(text.len() >= 1 << 15 || single[0].to_bits() == x.to_bits());
        // Rounding is monotone, so the narrow results are those of rounding the f64, or adjacent to them.
        let (mut half, mut brain) = ([f16::ZERO], [bf16::ZERO]);
        text::parse_slice(&[text], &mut half).expect("a number");
        text::parse_slice(&[text], &mut brain).expect("a number");
        assert!(
            u32::from(half[0].to_bits()).abs_diff(lanecast::convert::<f64, f16>(wide[0]).to_bits().into())
                <= 1
        );
        assert!(
            u32::from(brain[0].to_bits()).abs_diff(lanecast::convert::<f64, bf16>(wide[0]).to_bits().into())
                <= 1
        );
    }
});
