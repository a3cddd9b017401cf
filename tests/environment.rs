//! Results do not depend on the caller's floating-point environment (flush-to-zero, denormals-are-zero, every
//! rounding mode, unmasked exceptions), and a cast leaves that environment as it was.

mod bridge;

use bridge::Suite;
use lanecast::views::{StridedView, StridedViewMut};
use lanecast::{ByteOrder, CastOptions, Caster, DType, Isa, Packing};

fn main() {
    let mut suite = Suite::new();
    for &(name, bits) in control::HOSTILE {
        suite.test(name, move |isa| hostile(isa, bits));
        suite.test(&format!("views, {name}"), move |isa| views(isa, bits));
        suite.test(&format!("scaled, {name}"), move |isa| scaled(isa, bits));
        suite.test(&format!("tensor scales, {name}"), move |isa| factors(isa, bits));
        suite.test(&format!("zero points, {name}"), move |isa| zero_points(isa, bits));
        suite.test(&format!("scales and zero points of ONNX, {name}"), move |isa| dynamic(isa, bits));
        suite.test(&format!("scales of every size, {name}"), move |isa| scales(isa, bits));
    }
    if control::HOSTILE.is_empty() {
        println!("NOT RUN: no access to the floating-point environment of this architecture");
    }
    suite.run().exit();
}

/// Elements of a short call; so many fill whole bytes of any dtype.
const FEW: usize = 8;

/// Every pair on codes of every kind: in the default mode, in one where nothing is default, and stochastic.
fn hostile(isa: Isa, bits: u64) {
    let odd = CastOptions::new()
        .rounding(lanecast::Rounding::Up)
        .int_rounding(lanecast::Rounding::NearestEven)
        .saturate(false)
        .float_to_int(lanecast::Overflow::Wrap)
        .int_to_int(lanecast::Overflow::Saturate);
    let chance = CastOptions::new().stochastic(7, u64::from(u32::MAX) - 700);
    for from in DType::ALL {
        // For wide sources, a few of each kind; the conformance suite takes all.
        let step = if from.bits() <= 16 { 1 } else { 7 };
        let codes: Vec<u128> = bridge::codes(from, DType::F8E5M2).iter().copied().step_by(step).collect();
        let src = bridge::bytes_of(from, &codes);
        for to in bridge::share("hostile", isa, from, 3) {
            for options in [CastOptions::new(), odd, chance] {
                let little = options.src_order(ByteOrder::Little).dst_order(ByteOrder::Little);
                let caster = Caster::new(from, to, &little.isa(isa)).unwrap();
                let mut calm = vec![0x5A; bridge::size(to, codes.len())];
                let mut wild = vec![0xA5; calm.len()];
                caster.cast(&src, &mut calm, codes.len()).unwrap();
                let (result, found, left) =
                    control::under(bits, || caster.cast(&src, &mut wild, codes.len()));
                result.unwrap();
                assert_eq!(
                    found, left,
                    "{isa}: {from} -> {to} changed the environment: {found:x} to {left:x}"
                );
                assert!(calm == wild, "{isa}: {from} -> {to} depends on the environment ({options:?})");
                let report = caster.cast_checked(&src, &mut calm, codes.len());
                let (result, found, left) =
                    control::under(bits, || caster.cast_checked(&src, &mut wild, codes.len()));
                assert_eq!(
                    found, left,
                    "{isa}: {from} -> {to}, checked, changed the environment: {found:x} to {left:x}"
                );
                assert!(report == result, "{isa}: {from} -> {to}, checked, depends on it ({options:?})");
                if options == chance {
                    continue;
                }
                // A few elements may have a kernel of their own.
                wild.fill(0xA5);
                let (from_bytes, to_bytes) = (bridge::size(from, FEW), bridge::size(to, FEW));
                let ((), found, left) = control::under(bits, || {
                    let pieces = src.chunks(from_bytes).zip(wild.chunks_mut(to_bytes));
                    for (i, (src, dst)) in pieces.enumerate() {
                        caster.cast(src, dst, FEW.min(codes.len() - i * FEW)).unwrap();
                    }
                });
                assert_eq!(
                    found, left,
                    "{isa}: {from} -> {to}, a few, changed the environment: {found:x} to {left:x}"
                );
                assert!(
                    calm == wild,
                    "{isa}: {from} -> {to}, a few, depends on the environment ({options:?})"
                );
            }
        }
    }
}

/// Scaled casts, and the losses that they report.
fn scaled(isa: Isa, bits: u64) {
    use lanecast::scaled::{Dequantizer, Profile, Quantizer, Requantizer, ScaleRule, Scaling, TensorScale};
    let nvfp4 = |tensor| Scaling::nvfp4().tensor_scale(tensor);
    let affinely = Scaling::per_axis(0).profile(Profile::CompressedTensors);
    let target = (DType::F4E2M1, &nvfp4(TensorScale::Divide(1e-40)));
    let up = CastOptions::new().rounding(lanecast::Rounding::Up).int_rounding(lanecast::Rounding::Up);
    let chance = CastOptions::new().stochastic(3, 4);
    for (scaling, to, options) in [
        (Scaling::mx(), DType::F8E4M3FN, CastOptions::new()),
        (Scaling::mx().rule(ScaleRule::RoundUp), DType::F4E2M1, chance),
        (Scaling::nvfp4(), DType::F4E2M1, CastOptions::new()),
        (nvfp4(TensorScale::Divide(1e-40)), DType::F4E2M1, CastOptions::new()),
        (nvfp4(TensorScale::Multiply(1e-40)), DType::F4E2M1, chance),
        (Scaling::deepseek(), DType::F8E5M2, chance),
        (Scaling::per_axis(0), DType::I8, CastOptions::new()),
        (affinely, DType::I8, CastOptions::new()),
        // These go by way of float64, whatever the source.
        (Scaling::mx(), DType::I8, CastOptions::new()),
        (Scaling::per_axis(1), DType::I16, up),
        (Scaling::per_tensor(DType::F16), DType::F16, up),
    ] {
        for from in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let n = 1024;
            let src = bridge::bytes(n * from.itemsize());
            let shape = [8, 128];
            let q = Quantizer::new(from, to, &scaling, &options.isa(isa)).unwrap();
            let d = Dequantizer::new(to, from, &scaling, &options.isa(isa)).unwrap();
            let again = Requantizer::new((to, &scaling), target, &CastOptions::new().isa(isa)).ok();
            assert_eq!(again.is_some(), scaling != affinely);
            let run = |step: &dyn Fn(&str, &mut dyn FnMut()), back: &mut Vec<u8>| {
                let room =
                    || (vec![0; q.code_bytes(&shape).unwrap()], vec![0; q.scale_bytes(&shape).unwrap()]);
                let [(mut codes, mut scales), (mut given, _), (mut affine, mut steps)] =
                    [(); 3].map(|()| room());
                // Zero points: one for each scale, which is a float32.
                let mut zeros = vec![0; scales.len() / 4 * to.itemsize()];
                let mut other = (vec![0; n / 2], vec![0; n / 16]);
                step("quantised", &mut || {
                    q.quantize(&src, &shape, &mut codes, &mut scales).unwrap();
                });
                step("given", &mut || q.quantize_given(&src, &shape, &scales, None, &mut given).unwrap());
                step("affine", &mut || {
                    let made = q.quantize_affine(&src, &shape, &mut affine, &mut steps, &mut zeros);
                    assert_eq!(made.is_ok(), scaling == affinely);
                });
                step("requantised", &mut || {
                    if let Some(again) = &again {
                        again.requantize(&codes, &shape, &scales, None, &mut other.0, &mut other.1).unwrap();
                    }
                });
                step("dequantised", &mut || d.dequantize(&codes, &shape, &scales, None, back).unwrap());
                let mut losses = Default::default();
                step("losses", &mut || {
                    losses = q.losses(&src, &shape, &codes, &scales, None, None).unwrap();
                });
                let errors = [losses.max_error, losses.total_error].map(f64::to_bits);
                let counts = [losses.saturated, losses.underflowed, losses.compared];
                ([codes, scales, given, affine, steps, zeros, other.0, other.1], errors, counts)
            };
            let [mut calm, mut wild] = [(); 2].map(|()| vec![0; src.len()]);
            let expected = run(&|_, step| step(), &mut calm);
            let hostile = |what: &str, step: &mut dyn FnMut()| {
                let ((), found, left) = control::under(bits, step);
                assert_eq!(
                    found, left,
                    "{isa}: {from} -> {to}, {what}, changed the environment: {found:x} to {left:x}"
                );
            };
            let got = run(&hostile, &mut wild);
            assert!(got == expected && calm == wild, "{isa}: {from} -> {to} depends on the environment");
        }
    }
}

/// Tensor scales that are subnormal float32s, given and computed: they are no zeros where such numbers count as zero.
fn factors(isa: Isa, bits: u64) {
    use lanecast::scaled::{Quantizer, Scaling, TensorScale};
    for from in [DType::BF16, DType::F32] {
        let mut src = vec![0; 32 * from.itemsize()];
        lanecast::cast_bytes(&1e-35f32.to_ne_bytes().repeat(32), DType::F32, &mut src, from, 32).unwrap();
        for tensor in [TensorScale::ComputeMultiply, TensorScale::ComputeDivide, TensorScale::Multiply(1e-40)]
        {
            let run = || {
                let scaling = Scaling::nvfp4().tensor_scale(tensor);
                let q = Quantizer::new(from, DType::F4E2M1, &scaling, &CastOptions::new().isa(isa)).unwrap();
                let (mut codes, mut scales) = ([0; 16], [0; 2]);
                let found = q.quantize(&src, &[32], &mut codes, &mut scales).unwrap();
                (codes, scales, found.tensor_scale.map(f32::to_bits))
            };
            let expected = run();
            assert_ne!(expected.2, Some(1f32.to_bits()), "{from}, {tensor:?}: no factor was computed");
            let (got, found, left) = control::under(bits, run);
            assert_eq!(
                found, left,
                "{isa}: {from}, {tensor:?}, changed the environment: {found:x} to {left:x}"
            );
            assert_eq!(got, expected, "{isa}: {from}, {tensor:?}, depends on the environment");
        }
    }
}

/// Zero points of numbers without NaN and Inf, some of them subnormal: each group has magnitudes of its own.
fn zero_points(isa: Isa, bits: u64) {
    use lanecast::scaled::{Profile, Quantizer, Scaling};
    let values: Vec<u8> = (0..1024)
        .flat_map(|i| {
            let x = ((i * 37) % 101) as f32 - 40.3;
            (x * 2f32.powi(-i / 32 * 5)).to_ne_bytes()
        })
        .collect();
    for from in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let mut src = vec![0; 1024 * from.itemsize()];
        lanecast::cast_bytes(&values, DType::F32, &mut src, from, 1024).unwrap();
        for to in [DType::I8, DType::I4] {
            let scaling = Scaling::blocks(&[32], from).profile(Profile::CompressedTensors);
            let Ok(q) = Quantizer::new(from, to, &scaling, &CastOptions::new().isa(isa)) else { continue };
            let run = || {
                let (mut codes, mut scales, mut zeros) = ([0; 1024], [0; 32 * 8], [0; 32]);
                let [codes_here, scales_here, zeros_here] = [
                    &mut codes[..q.code_bytes(&[1024]).unwrap()],
                    &mut scales[..q.scale_bytes(&[1024]).unwrap()],
                    &mut zeros[..to.byte_len(32, CastOptions::new().dst_packing).unwrap()],
                ];
                q.quantize_affine(&src, &[1024], codes_here, scales_here, zeros_here).unwrap();
                (codes, scales, zeros)
            };
            let expected = run();
            let (got, found, left) = control::under(bits, run);
            assert_eq!(found, left, "{isa}: {from} -> {to} changed the environment: {found:x} to {left:x}");
            assert!(got == expected, "{isa}: {from} -> {to} depends on the environment");
        }
    }
}

/// ONNX's scales and zero points, of the tensor and of rows: with numbers and scales that are subnormal, and with ties.
fn dynamic(isa: Isa, bits: u64) {
    use lanecast::scaled::{Profile, Quantizer, Scaling};
    for scaling in [Scaling::per_tensor(DType::F32), Scaling::per_axis(0)] {
        let options = CastOptions::new().isa(isa);
        let q = Quantizer::new(DType::F32, DType::U8, &scaling.profile(Profile::Onnx), &options).unwrap();
        for unit in [1e-40f32, 3e-39, 1e-36, 0.5, 1e-3, 3e36] {
            let src: Vec<u8> =
                (0..640).flat_map(|i| (((i * 37 % 256) as f32 - 100.5) * unit).to_ne_bytes()).collect();
            let run = || {
                let n = q.scale_bytes(&[8, 80]).unwrap() / 4;
                let (mut codes, mut scales, mut zeros) = (vec![0; 640], vec![0; 4 * n], vec![0; n]);
                q.quantize_affine(&src, &[8, 80], &mut codes, &mut scales, &mut zeros).unwrap();
                (codes, scales, zeros)
            };
            let expected = run();
            let (got, found, left) = control::under(bits, run);
            assert_eq!(found, left, "{isa}: {unit:e} changed the environment: {found:x} to {left:x}");
            assert_eq!(got, expected, "{isa}: {unit:e} depends on the environment");
        }
    }
}

/// Views of every pair, which prepare the environment once for many rows, tiles or panels.
fn views(isa: Isa, bits: u64) {
    for from in DType::ALL {
        let all = bridge::codes(from, DType::F8E5M2);
        let s = from.itemsize();
        for to in bridge::share("views", isa, from, 3) {
            let d = to.itemsize();
            let options = CastOptions::new()
                .isa(isa)
                .src_packing(Packing::OnePerByte)
                .dst_packing(Packing::OnePerByte)
                .src_order(ByteOrder::Little);
            // A panel or two for some sources; for most pairs, tiles alone.
            let has_panels = [DType::F64, DType::F32, DType::F16].contains(&from);
            let [rows, columns] = if has_panels { [256 / d + 3, 1024 / s + 1] } else { [19, 67] };
            // Codes spread over the whole list; the odd step reaches different ones for each pair.
            let step = (all.len() / (rows * columns)).max(1) | 1;
            let codes = (0..rows * columns).map(|i| all[i * step % all.len()]);
            let src: Vec<u8> = codes.flat_map(|code| code.to_le_bytes().into_iter().take(s)).collect();
            let shape = [rows, columns];
            let (along, across) = ([(columns * s) as isize, s as isize], [s as isize, (rows * s) as isize]);
            // Rows to rows with a gap behind each, then transposes, in tiles and in panels.
            for (what, options, strides) in [
                ("rows", options, along),
                ("tiles", options, across),
                ("panels", options.stream_from(0), across),
            ] {
                let caster = Caster::new(from, to, &options).unwrap();
                let gap = if what == "rows" { d } else { 0 };
                let row = columns * d + gap;
                let cast = |dst: &mut [u8]| {
                    let strides_out = [row as isize, d as isize];
                    let from = StridedView::new(&src, 0, &shape, &strides);
                    caster
                        .cast_strided(&from, &mut StridedViewMut::new(dst, 0, &shape, &strides_out))
                        .unwrap();
                };
                let [mut calm, mut wild] = [(); 2].map(|()| vec![0x5A; rows * row]);
                cast(&mut calm);
                let ((), found, left) = control::under(bits, || cast(&mut wild));
                assert_eq!(
                    found, left,
                    "{isa}: {from} -> {to}, {what}, changed the environment: {found:x} to {left:x}"
                );
                assert!(calm == wild, "{isa}: {from} -> {to}, {what}, depends on the environment");
            }
        }
    }
}

/// Scaled casts, there and back: of numbers of every size, with subnormal scales and with blocks of NaN and Inf.
fn scales(isa: Isa, bits: u64) {
    use lanecast::scaled::{Dequantizer, Quantizer, Scaling, TensorScale};
    let mx_rules = lanecast::scaled::ScaleRule::ALL.into_iter().skip(1);
    let nvfp4 = Scaling::nvfp4().tensor_scale(TensorScale::Multiply(0.003));
    let per_tensor = Scaling::per_tensor(DType::F32);
    let mut all = vec![Scaling::per_axis(0), Scaling::blocks(&[3, 48], DType::F16), nvfp4, per_tensor];
    all.extend(mx_rules.map(|rule| Scaling::mx().rule(rule)));
    let shape = [67, 200];
    for from in [DType::F32, DType::BF16, DType::F16] {
        let codes = bridge::codes(from, DType::F8E5M2);
        // Elements of a block mostly lie near each other in the list.
        let n = shape.iter().product();
        let source: Vec<u128> = (0..n).map(|i| codes[(i / 7 * 3 + i % 7) % codes.len()]).collect();
        let src = bridge::bytes_of(from, &source);
        for element in [DType::F8E4M3FN, DType::F4E2M1, DType::I8, DType::I4, DType::F6E2M3] {
            for scaling in &all {
                let options = CastOptions::new().isa(isa).src_order(ByteOrder::Little);
                let q = Quantizer::new(from, element, scaling, &options).expect("a quantisation");
                let d = Dequantizer::new(element, from, scaling, &options).expect("a dequantisation");
                let cast = || {
                    let mut codes = vec![0; q.code_bytes(&shape).expect("a size")];
                    let mut scales = vec![0; q.scale_bytes(&shape).expect("a size")];
                    let mut back = vec![0; src.len()];
                    q.quantize(&src, &shape, &mut codes, &mut scales).expect("sizes that fit");
                    d.dequantize(&codes, &shape, &scales, None, &mut back).expect("sizes that fit");
                    (codes, scales, back)
                };
                let calm = cast();
                let (wild, found, left) = control::under(bits, cast);
                assert_eq!(
                    found, left,
                    "{isa}: {from}, {element}, {scaling:?} changed the environment: {found:x} to {left:x}"
                );
                assert!(calm == wild, "{isa}: {from}, {element}, {scaling:?} depend on the environment");
            }
        }
    }
}

/// Calls `run` on a stack full of subnormal numbers, as float32 and as float64. If the compiler hoists a floating-point operation
/// above the test whether its operand exists (such as the number of an enum variant), it reads one of these and sets a flag.
fn littered<T>(run: impl FnOnce() -> T) -> T {
    #[inline(never)]
    fn litter() {
        core::hint::black_box(&mut [1u32; 1 << 13]);
    }

    #[inline(never)]
    fn behind<T>(run: impl FnOnce() -> T) -> T {
        run()
    }

    litter();
    behind(run)
}

/// The control register of this architecture.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod control {
    use core::arch::asm;

    /// Values of MXCSR: 1F80 masks exceptions, 8000 is FTZ, 40 is DAZ, 6000 is the rounding.
    pub(crate) const HOSTILE: &[(&str, u64)] = &[
        ("flush to zero", 0x9F80),
        ("denormals are zero", 0x1FC0),
        ("flush to zero, denormals are zero", 0x9FC0),
        ("rounding down", 0x3F80),
        ("rounding up", 0x5F80),
        ("rounding toward zero, flush to zero", 0xFF80),
        ("sticky flags set", 0x1FBF),
        ("unmasked exceptions", 0x0000),
        ("unmasked exceptions, rounding up", 0x4000),
    ];

    /// Runs a function with the register set to `bits`. Returns its result, the bits that it found, and those that it left.
    pub(crate) fn under<T>(bits: u64, run: impl FnOnce() -> T) -> (T, u64, u64) {
        let (before, bits, mut left) = (0u32, bits as u32, 0u32);
        // SAFETY: the register is restored before any floating-point operation of this program. Only the cast runs in
        // between: it has none, or keeps them from the caller's environment.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &before, options(nostack));
            asm!("ldmxcsr [{}]", in(reg) &bits, options(nostack));
        }
        let result = super::littered(run);
        // SAFETY: as above.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &mut left, options(nostack));
            asm!("ldmxcsr [{}]", in(reg) &before, options(nostack));
        }
        (result, bits.into(), left.into())
    }
}

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
mod control {
    use core::arch::asm;

    /// Values of FPCR: 1 << 24 is FZ, 1 << 25 DN, 1 << 26 AHP, 3 << 22 the rounding.
    pub(crate) const HOSTILE: &[(&str, u64)] = &[
        ("flush to zero", 1 << 24),
        ("default NaN", 1 << 25),
        ("alternative half precision", 1 << 26),
        ("rounding up", 1 << 22),
        ("rounding down, flush to zero", 2 << 22 | 1 << 24),
        ("rounding toward zero, all of them", 3 << 22 | 7 << 24),
    ];

    /// Runs a function with the register set to `bits`. Returns its result, the bits that it found, and those that it left.
    pub(crate) fn under<T>(bits: u64, run: impl FnOnce() -> T) -> (T, u64, u64) {
        let (before, left): (u64, u64);
        // SAFETY: the register is restored before any floating-point operation of this program. Only the cast runs in
        // between: it has none, or keeps them from the caller's environment.
        unsafe {
            asm!("mrs {}, fpcr", out(reg) before);
            asm!("msr fpcr, {}", in(reg) bits);
        }
        let result = super::littered(run);
        // SAFETY: as above.
        unsafe {
            asm!("mrs {}, fpcr", out(reg) left);
            asm!("msr fpcr, {}", in(reg) before);
        }
        (result, bits, left)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub(crate) const HOSTILE: &[(&str, u64)] = &[];

    pub(crate) fn under<T>(_: u64, run: impl FnOnce() -> T) -> (T, u64, u64) {
        (super::littered(run), 0, 0)
    }
}
