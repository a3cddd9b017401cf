//! Any bytes as data or codes of any shape with any scaling: every instruction set, and several threads, give the bits of the
//! reference, a buffer of the wrong size is an error, and no other byte is written.

#![no_main]

use lanecast::parallel::Parallel;
use lanecast::scaled::{
    Dequantizer, NonFinite, Profile, Quantizer, ScaleLayout, ScaleRule, Scaling, TensorScale,
};
use lanecast::{ByteOrder, CastOptions, DType, Isa, Packing, Rounding};
use libfuzzer_sys::fuzz_target;

const CANARY: u8 = 0xC5;

fn pick<T: Copy>(values: &[T], choice: u8) -> T {
    values[usize::from(choice) % values.len()]
}

fn scaling(shape: &[usize], mode: [u8; 12], factor: u32) -> Scaling {
    let scales = [DType::F8E8M0, DType::F32, DType::F16, DType::BF16, DType::F8E4M3FN, DType::F8E5M2FNUZ];
    let scale = pick(&scales, mode[0]);
    let lengths = [0, 1, 2, 3, 8, 16, 24, 32];
    let block = [pick(&lengths, mode[1]), pick(&lengths, mode[2])];
    let mut scaling = match mode[3] % 4 {
        0 => Scaling::per_tensor(scale),
        1 => Scaling::along_axis(usize::from(mode[1]) % shape.len(), block[0].max(1), scale),
        _ => Scaling::blocks(&block[..1 + usize::from(mode[3] & 4 != 0)], scale),
    };
    if mode[4] & 1 != 0 {
        scaling = scaling.rule(pick(&ScaleRule::ALL, mode[4] >> 1));
    }
    let factor = f32::from_bits(factor);
    scaling = scaling.tensor_scale(match mode[5] % 8 {
        1 => TensorScale::Multiply(factor),
        2 => TensorScale::Divide(factor),
        3 => TensorScale::ComputeMultiply,
        4 => TensorScale::ComputeDivide,
        _ => TensorScale::None,
    });
    if mode[6] & 1 != 0 {
        scaling = scaling.nonfinite(NonFinite::Ignore);
    }
    if mode[7] & 1 != 0 {
        scaling = scaling.profile(pick(&Profile::ALL, mode[7] >> 1));
    }
    if mode[8] & 1 != 0 {
        scaling = scaling.layout(pick(&ScaleLayout::ALL, mode[8] >> 1));
    }
    if mode[9] & 1 != 0 {
        scaling = scaling.row_bytes(usize::from(mode[9]));
    }
    if mode[10] & 1 != 0 {
        scaling = scaling.scale_row_bytes(usize::from(mode[10]));
    }
    scaling.int_rounding(pick(&Rounding::ALL, mode[11]))
}

/// Returns a buffer of `n` bytes and 32 more, all canaries.
fn buffer(n: usize) -> Vec<u8> {
    vec![CANARY; n + 32]
}

fn is_canary(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == CANARY)
}

fuzz_target!(|input: ([u8; 2], [u8; 2], [u8; 12], [u8; 4], u32, &[u8])| {
    let (dtypes, extents, mode, choices, factor, bytes) = input;
    let floats = [DType::F16, DType::BF16, DType::F32, DType::F64];
    let (data, element) = (pick(&floats, dtypes[0]), pick(&DType::ALL, dtypes[1]));
    let packings = [Packing::LowFirst, Packing::OnePerByte, Packing::HighFirst];
    let orders = [ByteOrder::Native, ByteOrder::Little, ByteOrder::Big];
    let packing = pick(&packings, choices[0]);
    let mut options = CastOptions::new()
        .src_packing(packing)
        .dst_packing(packing)
        .src_order(pick(&orders, choices[1]))
        .dst_order(pick(&orders, choices[1] / 3))
        .rounding(pick(&Rounding::ALL, choices[2]))
        .saturate(choices[2] & 128 == 0);
    if choices[3] & 1 != 0 {
        options = options.stochastic(choices[3].into(), factor.into());
    }
    let shape = [usize::from(extents[0] % 9), usize::from(extents[1] % 100)];
    let scaling = scaling(&shape, mode, factor);
    let n = shape[0] * shape[1];
    let fill = |size: usize| -> Vec<u8> { bytes.iter().copied().chain([0x3C]).cycle().take(size).collect() };

    let quantize = |isa: Isa, how: &Parallel<'_>| {
        let q = Quantizer::new(data, element, &scaling, &options.isa(isa)).ok()?;
        let (size, scales_size) = (q.code_bytes(&shape).ok()?, q.scale_bytes(&shape).ok()?);
        let src = fill(n * data.itemsize());
        let (mut codes, mut scales) = (buffer(size), buffer(scales_size));
        let found = q.par_quantize_with(&src, &shape, &mut codes[..size], &mut scales[..scales_size], how);
        assert!(is_canary(&codes[size..]) && is_canary(&scales[scales_size..]), "{isa}: {scaling:?}");
        if size > 0 {
            assert!(
                q.par_quantize_with(&src, &shape, &mut codes[..size - 1], &mut scales[..scales_size], how)
                    .is_err()
            );
        }
        let given = fill(scales_size);
        let mut by_given = buffer(size);
        let ok = q.par_quantize_given(&src, &shape, &given, None, &mut by_given[..size], how).is_ok();
        assert!(is_canary(&by_given[size..]), "{isa}: {scaling:?}");
        Some((found.ok().map(|found| found.tensor_scale.map(f32::to_bits)), codes, scales, ok, by_given))
    };
    let dequantize = |isa: Isa, how: &Parallel<'_>| {
        let d = Dequantizer::new(element, data, &scaling, &options.isa(isa)).ok()?;
        let q = Quantizer::new(data, element, &scaling, &options.isa(isa)).ok()?;
        let (size, scales_size) = (q.code_bytes(&shape).ok()?, d.scale_bytes(&shape).ok()?);
        let (src, scales) = (fill(size), fill(scales_size));
        let mut out = buffer(n * data.itemsize());
        let len = out.len() - 32;
        let ok = d.par_dequantize_with(&src, &shape, &scales, None, &mut out[..len], how).is_ok();
        assert!(is_canary(&out[len..]), "{isa}: {scaling:?}");
        Some((ok, out))
    };
    let alone = Parallel::new().threads(1);
    let (codes, values) = (quantize(Isa::Scalar, &alone), dequantize(Isa::Scalar, &alone));
    let several = Parallel::new().threads(3).chunk(8);
    for &isa in Isa::available() {
        let how = if isa == Isa::Scalar { &several } else { &alone };
        assert!(
            quantize(isa, how) == codes,
            "{isa}: {data} -> {element}, {shape:?}, {scaling:?}, {options:?}"
        );
        assert!(
            dequantize(isa, how) == values,
            "{isa}: {element} -> {data}, {shape:?}, {scaling:?}, {options:?}"
        );
    }
});
