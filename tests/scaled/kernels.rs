//! Every instruction set against the reference: all formats, profiles, lengths, alignments, and blocks that are not numbers.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicUsize, Ordering};

use lanecast::bits::F8E4M3FN;
use lanecast::parallel::Parallel;
use lanecast::scaled::{
    Dequantizer, Error, Losses, NonFinite, Profile, Quantizer, Requantizer, ScaleLayout, ScaleRule, Scaling,
    TensorScale,
};
use lanecast::{CastOptions, DType, Isa, NanToFinite, Packing, Rounding};
use lanecast_oracle as oracle;
use oracle::scaled::{Factor, Rule};

use crate::bridge::{Suite, type_of};
use crate::exact::Random;

/// Returns the number of random casts of each kind.
fn cases() -> u64 {
    std::env::var("LANECAST_SCALED").ok().and_then(|n| n.parse().ok()).unwrap_or(3000)
}

pub(crate) fn tests(suite: &mut Suite) {
    suite.test_beside_reference("dequantised as by the reference", |isa| each(isa, dequantised));
    suite.test_beside_reference("every code less every zero point", every_difference);
    suite.test_beside_reference("quantised as by the reference", |isa| each(isa, quantised));
    suite
        .test_beside_reference("scales and zero points found as by the reference", |isa| each(isa, affinely));
    suite.test_beside_reference("the formats of packages quantised as by the reference", packages);
    suite.test_beside_reference("blocks of rows that are apart", rows_apart);
    suite.test("bytes between rows under scales of columns", gaps_between_rows);
    suite.test("payloads of NaN under scales", payloads);
    suite.test_beside_reference("pieces of quotients", pieces_of_quotients);
    suite.test_beside_reference("packed elements under scales of columns", packed_columns);
    suite.test_beside_reference("short and odd blocks of several rows", odd_blocks);
    suite.test_beside_reference("magnitudes that a profile ignores", ignored_magnitudes);
    suite.test_beside_reference("one quotient of a block beside a tie", beside_ties);
    suite.test_beside_reference("quotients of packages beside ties", packages_beside_ties);
    suite.test_beside_reference("quotients of 16 bits beside ties, subnormal ones too", ties_between_halves);
    suite.test_beside_reference("quotients of float64 beside what roundings hinge on", beside_hinges);
    suite.test_beside_reference("scales of short blocks of float64 beside what they hinge on", short_blocks);
    suite
        .test_beside_reference("floats of 16 bits under scales of which multiples are ties", ties_of_16_bits);
    suite.test_beside_reference("a product divided by a factor beside a tie", divided_beside_ties);
    suite.test_beside_reference("bfloat16s under scales of every exponent", exponents_of_scales);
    suite.test_beside_reference("every code under scales that have words of their own", words_of_scales);
    suite.test_beside_reference("codes of 4 bits under every scale of 8 bits", every_short_scale);
    suite.test_beside_reference("float4 around its ties, under every scale of 8 bits", every_step);
    suite.test_beside_reference("requantised as by the reference", |isa| each(isa, requantised));
    suite.test("a factor of the source that divides", factor_of_the_source);
    suite.test_beside_reference("products beside what powers of two hinge on", products_beside_hinges);
    suite.test_beside_reference("a factor of the target beside a power of two", factor_beside_powers);
    suite.test_beside_reference("every short length", every_length);
    suite.test_beside_reference("more than a chunk", more_than_a_chunk);
    suite.test_beside_reference("zero points of more than a piece", affine_pieces);
    suite.test("stopped at the end of a pass", stopped);
    suite.test("factors under which a scale is no number", small_factors);
    suite.test("scales and losses at the ends of what dtypes hold", at_the_ends);
    suite.test("nothing to round before a scale of torchao's is found", nothing_to_round);
}

fn each(isa: Isa, case: impl Fn(&mut Random, Isa)) {
    for seed in 1..=cases() {
        case(&mut Random::new(seed), isa);
    }
}

const DATA: [DType; 4] = [DType::BF16, DType::F16, DType::F32, DType::F64];
const CODES: [DType; 21] = [
    DType::F8E4M3FN,
    DType::F8E4M3FN,
    DType::F8E5M2,
    DType::F4E2M1,
    DType::F4E2M1,
    DType::I8,
    DType::U8,
    DType::I4,
    DType::U4,
    DType::F6E2M3,
    DType::F6E3M2,
    DType::F8E3M4,
    DType::F8E4M3FNUZ,
    DType::F8E5M2FNUZ,
    DType::I2,
    DType::U2,
    DType::I16,
    DType::I32,
    DType::BF16,
    DType::F16,
    DType::F32,
];

/// Returns a random shape, and a scaling that suits it.
fn scaling(random: &mut Random, element: DType) -> (Vec<usize>, Scaling) {
    let shape = match random.below(5) {
        0 => vec![random.below(700)],
        1 => vec![1 + random.below(5), 1 + random.below(300)],
        2 => vec![1 + random.below(5), 64 * (1 + random.below(6))],
        3 => vec![1 + random.below(40), 1 + random.below(40)],
        _ => vec![2, 3, 1 + random.below(100)],
    };
    let scaling = scaling_of(random, element, shape.len());
    (shape, scaling)
}

/// Returns a random scaling of data of so many dimensions.
fn scaling_of(random: &mut Random, element: DType, dims: usize) -> Scaling {
    let all = [
        DType::F32,
        DType::F32,
        DType::F8E8M0,
        DType::F16,
        DType::BF16,
        DType::F8E4M3FN,
        DType::F8E5M2,
        DType::F8UE5M3,
    ];
    let scale = random.pick(&all);
    let block: Vec<usize> = (0..random.below(dims + 1))
        .map(|_| random.pick(&[0, 0, 1, 5, 16, 16, 32, 32, 48, 64, 128]))
        .collect();
    let scaling = match random.below(8) {
        0 => Scaling::mx(),
        1 => Scaling::nvfp4(),
        2 => Scaling::per_axis(random.below(dims)),
        3 => Scaling::per_tensor(scale),
        _ => Scaling::blocks(&block, scale),
    };
    let scaling = if scaling.scale_dtype == DType::F8E8M0 {
        scaling.rule(random.pick(&[ScaleRule::Floor, ScaleRule::Ceil, ScaleRule::Even, ScaleRule::RoundUp]))
    } else {
        scaling
    };
    let scaling =
        scaling.profile(if random.one_in(2) { Profile::Lanecast } else { random.pick(&Profile::ALL) });
    let scaling = if random.one_in(4) { scaling.int_rounding(random.pick(&Rounding::ALL)) } else { scaling };
    let scaling = if random.one_in(4) { scaling.precision(random.pick(&DATA)) } else { scaling };
    let g = f32::from_bits(0x3800_0000 + random.below(0x1000_0000) as u32);
    let scaling = match random.below(6) {
        0 => scaling.tensor_scale(TensorScale::Multiply(g)),
        1 => scaling.tensor_scale(TensorScale::Divide(random.pick(&[g, g, 0.125, 3.0, 2688.0]))),
        2 => scaling.tensor_scale(TensorScale::Multiply(0.25)),
        3 if element == DType::F4E2M1 => scaling.tensor_scale(TensorScale::ComputeMultiply),
        _ => scaling,
    };
    let layouts =
        [ScaleLayout::RowMajor, ScaleLayout::RowMajor, ScaleLayout::ColumnMajor, ScaleLayout::Swizzle32x4x4];
    let layout = random.pick(&layouts);
    let is_byte = scaling.scale_dtype.bits() == 8;
    let scaling =
        if layout == ScaleLayout::Swizzle32x4x4 && !is_byte { scaling } else { scaling.layout(layout) };
    if random.one_in(5) { scaling.nonfinite(NonFinite::Ignore) } else { scaling }
}

fn options(random: &mut Random) -> CastOptions {
    let packing =
        random.pick(&[Packing::LowFirst, Packing::LowFirst, Packing::HighFirst, Packing::OnePerByte]);
    let mut options = CastOptions::new().src_packing(packing).dst_packing(packing);
    if random.one_in(6) {
        options = options.rounding(random.pick(&Rounding::ALL));
    }
    if random.one_in(6) {
        options = options.saturate(false);
    }
    if random.one_in(8) {
        options = options.stochastic(random.word(), random.word() >> 8);
    }
    if random.one_in(3) { options.stream_from(0) } else { options }
}

/// Returns bytes of random scales: numbers around 1, ones that make ties, and any codes.
fn scales(random: &mut Random, dtype: DType, bytes: usize) -> Vec<u8> {
    let wild = random.one_in(3);
    let width = dtype.bits() as usize / 8;
    let format = dtype.float_format().expect("a float");
    let m = format.mantissa_bits();
    let mut all = Vec::new();
    while all.len() < bytes {
        let code = if wild && random.one_in(8) {
            random.word()
        } else {
            let field = (format.bias() + random.below(24) as i32 - 12).max(0) as u64;
            // Any fraction, one of few significant bits, or one just beside such.
            let fraction = match random.below(4) {
                0 => random.word(),
                1 => random.word() << (m.max(3) - 3),
                2 => (random.word() << (m / 2)).wrapping_add(1),
                _ => (random.word() << (m / 2)).wrapping_sub(1),
            };
            field << m | fraction & ((1 << m) - 1)
        };
        all.extend_from_slice(&code.to_ne_bytes()[..width]);
    }
    all.truncate(bytes);
    all
}

/// Returns bytes of random data: values near each other, with some zeros, ties, Inf and NaN.
fn data(random: &mut Random, dtype: DType, n: usize) -> Vec<u8> {
    let format = dtype.float_format().expect("a float");
    let (m, width) = (format.mantissa_bits(), dtype.bits() as usize / 8);
    let middle =
        if random.one_in(5) { random.below(1 << format.exponent_bits()) as i32 } else { format.bias() };
    let top = (1 << format.exponent_bits()) - 1;
    let (coarse, specials, zeros) = (random.one_in(3), random.one_in(6), random.one_in(4));
    (0..n)
        .flat_map(|_| {
            let field = (middle + random.below(12) as i32 - 6).clamp(0, top - 1) as u64;
            let mut fraction = random.word() & ((1 << m) - 1);
            if coarse {
                fraction &= !0 << (m - 4);
            }
            let mut code = field << m | fraction;
            if specials && random.one_in(50) {
                // Inf; NaN without a payload, with any, and with one of all ones; the smallest subnormal; zero.
                let inf = (top as u64) << m;
                let nans = [inf | 1 << (m - 1), inf | fraction.max(1), inf | ((1 << m) - 1)];
                code = random.pick(&[inf, nans[0], nans[1], nans[2], 1, 0]);
            }
            if zeros && random.one_in(2) {
                code = 0;
            }
            (code | (random.word() & 1) << (dtype.bits() - 1)).to_ne_bytes().into_iter().take(width)
        })
        .collect()
}

/// Casts into a buffer at a random offset, asserts that nothing is written around it, and returns its bytes.
fn within(random: &mut Random, n: usize, cast: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let before = random.below(70);
    let mut room = vec![0xA5; before + n + 70];
    cast(&mut room[before..before + n]);
    assert!(room[..before].iter().chain(&room[before + n..]).all(|&byte| byte == 0xA5));
    room[before..before + n].to_vec()
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}

/// Returns the scaling, sometimes with rows that begin at whole bytes and have bytes between them.
fn with_gaps(
    random: &mut Random,
    scaling: Scaling,
    shape: &[usize],
    element: DType,
    packing: Packing,
) -> Scaling {
    let row = element.byte_len(shape[shape.len() - 1], packing).expect("a size");
    if random.one_in(6) { scaling.row_bytes(row + random.below(4)) } else { scaling }
}

/// Returns the number of bytes of the elements of a shape.
fn code_bytes(scaling: &Scaling, shape: &[usize], element: DType, packing: Packing) -> usize {
    let n: usize = shape.iter().product();
    match scaling.row_bytes {
        Some(bytes) if n > 0 => n / shape[shape.len() - 1] * bytes,
        _ => element.byte_len(n, packing).expect("a size"),
    }
}

fn dequantised(random: &mut Random, isa: Isa) {
    let (from, to) = (random.pick(&CODES), random.pick(&DATA));
    let (shape, scaling) = scaling(random, from);
    let options = options(random);
    let scaling = with_gaps(random, scaling, &shape, from, options.src_packing);
    let row = scaling.scale_shape(&shape).ok().and_then(|lengths| lengths.last().copied()).unwrap_or(1);
    let row = row * scaling.scale_dtype.itemsize();
    let has_rows = scaling.layout == ScaleLayout::RowMajor && random.one_in(6);
    let scaling = if has_rows { scaling.scale_row_bytes(row + random.below(4)) } else { scaling };
    dequantised_of(random, isa, [from, to], &shape, scaling, options);
}

fn dequantised_of(
    random: &mut Random,
    isa: Isa,
    [from, to]: [DType; 2],
    shape: &[usize],
    scaling: Scaling,
    options: CastOptions,
) {
    let Ok(reference) = Dequantizer::new(from, to, &scaling, &options.isa(Isa::Scalar)) else { return };
    let fast =
        Dequantizer::new(from, to, &scaling, &options.isa(isa)).expect("the same on every instruction set");
    let n: usize = shape.iter().product();
    let len = code_bytes(&scaling, shape, from, options.src_packing);
    let offset = random.below(9);
    let src: Vec<u8> = (0..offset + len).map(|_| random.word() as u8).collect();
    let src = &src[offset..];
    let scales = scales(random, scaling.scale_dtype, fast.scale_bytes(shape).expect("a size"));
    let groups: usize = fast.scale_shape(shape).expect("a shape").iter().product();
    let zeros: Option<Vec<u8>> =
        (!matches!(from.kind(), lanecast::Kind::Float(_)) && random.one_in(2)).then(|| {
            let len = from.byte_len(groups, options.src_packing).expect("a size");
            (0..len).map(|_| random.word() as u8).collect()
        });
    let size = n * to.bits() as usize / 8;
    let mut expected = vec![0; size];
    reference.dequantize(src, shape, &scales, zeros.as_deref(), &mut expected).expect("sizes that fit");
    let how = if random.one_in(4) { Parallel::new().threads(2).chunk(1) } else { Parallel::new().threads(1) };
    let found = within(random, size, |dst| {
        fast.par_dequantize_with(src, shape, &scales, zeros.as_deref(), dst, &how).expect("sizes that fit");
    });
    if let Some(at) = first_difference(&found, &expected) {
        let width = to.bits() as usize / 8;
        let i = at / width;
        let (f, e) = (&found[i * width..][..width], &expected[i * width..][..width]);
        panic!(
            "{isa} {from} -> {to} {shape:?} element {i}: {f:02x?}, not {e:02x?}; {scaling:?} {options:?} zeros {}",
            zeros.is_some()
        );
    }
}

/// Integers less zero points, which some profiles round to the dtype of the output before they multiply.
fn every_difference(isa: Isa) {
    let random = &mut Random::new(47);
    for from in [DType::I2, DType::U2, DType::I4, DType::U4, DType::I8, DType::U8] {
        let codes: Vec<u8> = (0..=u8::MAX >> (8 - from.bits())).collect();
        let shape = [codes.len(); 2];
        let src = codes.repeat(codes.len());
        for (to, profile) in DATA.into_iter().flat_map(|to| Profile::ALL.map(|profile| (to, profile))) {
            let scaling =
                Scaling::per_axis(0).scale(if to == DType::F64 { DType::F32 } else { to }).profile(profile);
            let options = CastOptions::new().src_packing(Packing::OnePerByte);
            let new = |isa| Dequantizer::new(from, to, &scaling, &options.isa(isa)).ok();
            let (Some(reference), Some(d)) = (new(Isa::Scalar), new(isa)) else { continue };
            let scales = scales(random, scaling.scale_dtype, d.scale_bytes(&shape).expect("a size"));
            let [mut found, mut expected] = [0, 1].map(|byte| vec![byte; src.len() * to.itemsize()]);
            d.dequantize(&src, &shape, &scales, Some(&codes), &mut found).expect("sizes that fit");
            reference.dequantize(&src, &shape, &scales, Some(&codes), &mut expected).expect("sizes that fit");
            let at = first_difference(&found, &expected);
            assert_eq!(at, None, "{isa} {from} -> {to}, {profile}");
        }
    }
}

fn quantised(random: &mut Random, isa: Isa) {
    let (from, to) = (random.pick(&DATA), random.pick(&CODES));
    let (shape, scaling) = scaling(random, to);
    let options = options(random);
    let scaling = with_gaps(random, scaling, &shape, to, options.dst_packing);
    quantised_of(random, isa, [from, to], &shape, scaling, options);
}

fn quantised_of(
    random: &mut Random,
    isa: Isa,
    [from, to]: [DType; 2],
    shape: &[usize],
    scaling: Scaling,
    options: CastOptions,
) {
    let Ok(reference) = Quantizer::new(from, to, &scaling, &options.isa(Isa::Scalar)) else { return };
    let fast =
        Quantizer::new(from, to, &scaling, &options.isa(isa)).expect("the same on every instruction set");
    let n: usize = shape.iter().product();
    let offset = random.below(9);
    let mut src = vec![0; offset];
    src.extend(data(random, from, n));
    let src = &src[offset..];
    let scale_bytes = fast.scale_bytes(shape).expect("a size");
    let size = fast.code_bytes(shape).expect("a size");
    let (mut expected, mut expected_scales) = (vec![0; size], vec![0; scale_bytes]);
    let how = if random.one_in(4) { Parallel::new().threads(2).chunk(1) } else { Parallel::new().threads(1) };
    let found_scales;
    let found;
    let mut lost_scales = Vec::new();
    let mut zeros = None;
    let is_given =
        random.one_in(3) || reference.quantize(src, shape, &mut expected, &mut expected_scales).is_err();
    if is_given {
        if matches!(scaling.tensor_scale, TensorScale::ComputeMultiply | TensorScale::ComputeDivide) {
            return;
        }
        let scales = scales(random, scaling.scale_dtype, scale_bytes);
        let groups: usize = fast.scale_shape(shape).expect("a shape").iter().product();
        zeros = (!matches!(to.kind(), lanecast::Kind::Float(_)) && random.one_in(2)).then(|| -> Vec<u8> {
            let len = to.byte_len(groups, options.dst_packing).expect("a size");
            (0..len).map(|_| random.word() as u8).collect()
        });
        reference
            .quantize_given(src, shape, &scales, zeros.as_deref(), &mut expected)
            .expect("sizes that fit");
        found = within(random, size, |dst| {
            fast.par_quantize_given(src, shape, &scales, zeros.as_deref(), dst, &how)
                .expect("sizes that fit");
        });
        found_scales = expected_scales.clone();
        lost_scales = scales;
    } else {
        let mut scales = vec![0xA5; scale_bytes];
        found = within(random, size, |dst| {
            fast.par_quantize_with(src, shape, dst, &mut scales, &how).expect("sizes that fit");
        });
        found_scales = scales;
    }
    if lost_scales.is_empty() {
        lost_scales = expected_scales.clone();
    }
    let what = format!("{isa} {from} -> {to} {shape:?} given {is_given}; {scaling:?} {options:?}");
    if let Some(at) = first_difference(&found_scales, &expected_scales) {
        let [found, expected] =
            [&found_scales, &expected_scales].map(|scales| &scales[at..scales.len().min(at + 8)]);
        panic!("scale at {at}: {found:02x?}, not {expected:02x?}; {what}");
    }
    if let Some(at) = first_difference(&found, &expected) {
        panic!("byte {at}: {:02x}, not {:02x}; {what}", found[at], expected[at]);
    }
    let given =
        Given { src, shape, codes: &expected, scales: &lost_scales, zeros: zeros.as_deref(), is_given };
    let losses = [reference, fast].map(|q| given.losses(&q, &expected_scales, &what));
    assert_eq!(losses[0], losses[1], "{what}");
}

/// Scales and zero points are those of the reference, and elements those that it gives under them: with blocks on both sides of zero, on
/// one side, and of zeros, and where a sum overflows the dtype of the data.
fn affinely(random: &mut Random, isa: Isa) {
    let is_onnx = random.one_in(3);
    let (from, to, profile) = if is_onnx {
        (DType::F32, DType::U8, Profile::Onnx)
    } else {
        (random.pick(&DATA), random.pick(&[DType::I4, DType::I8]), Profile::CompressedTensors)
    };
    let (shape, scaling) = scaling(random, to);
    let scaling = scaling.tensor_scale(TensorScale::None).profile(profile);
    let scaling = if random.one_in(4) { scaling.nonfinite(NonFinite::Ignore) } else { scaling };
    let options = options(random);
    let scaling = with_gaps(random, scaling, &shape, to, options.dst_packing);
    let new = |isa| Quantizer::new(from, to, &scaling, &options.isa(isa)).ok();
    let Some(reference) = new(Isa::Scalar) else { return };
    let q = new(isa).expect("the same on every instruction set");
    let width = from.itemsize();
    let mut src = data(random, from, shape.iter().product());
    let (clears, sets) = random.pick(&[(0, 0), (0, 0), (0x80, 0), (0x80, 0x80)]);
    let is_far = random.one_in(8);
    for number in src.chunks_exact_mut(width) {
        let top = if cfg!(target_endian = "big") { 0 } else { width - 1 };
        number[top] = number[top] & !clears | sets;
        if is_far && random.one_in(4) {
            // Beside the largest numbers, of which two overflow.
            let most = if from == DType::F16 { 0x7B } else { 0x7F };
            number[top] = number[top] & 0x80 | most;
        }
    }
    let groups: usize = q.scale_shape(&shape).expect("a shape").iter().product();
    let zero_bytes = to.byte_len(groups, options.dst_packing).expect("a size");
    let size = q.code_bytes(&shape).expect("a size");
    let [mut scales, mut expected_scales] =
        [0xA5, 0x5A].map(|byte| vec![byte; q.scale_bytes(&shape).expect("a size")]);
    let [mut zeros, mut expected_zeros] = [0xA5, 0x5A].map(|byte| vec![byte; zero_bytes]);
    let mut expected = vec![0; size];
    let found =
        reference.quantize_affine(&src, &shape, &mut expected, &mut expected_scales, &mut expected_zeros);
    if found.is_err() {
        let (dst, how) = (&mut vec![0; size], &Parallel::new().threads(1));
        let error = q.par_quantize_affine(&src, &shape, dst, &mut scales, &mut zeros, how);
        assert_eq!(error, found);
        return;
    }
    let how = if random.one_in(4) { Parallel::new().threads(2).chunk(1) } else { Parallel::new().threads(1) };
    let codes = within(random, size, |dst| {
        q.par_quantize_affine(&src, &shape, dst, &mut scales, &mut zeros, &how).expect("sizes that fit");
    });
    let what = format!("{isa} {from} -> {to} {shape:?}; {scaling:?} {options:?}");
    assert_eq!(first_difference(&scales, &expected_scales), None, "scales: {what}");
    assert_eq!(first_difference(&zeros, &expected_zeros), None, "zero points: {what}");
    assert_eq!(first_difference(&codes, &expected), None, "elements: {what}");
}

/// A finished cast whose losses are to be counted.
struct Given<'a> {
    src: &'a [u8],
    shape: &'a [usize],
    codes: &'a [u8],
    scales: &'a [u8],
    zeros: Option<&'a [u8]>,
    /// Whether the scales were given by the caller, not found.
    is_given: bool,
}

impl Given<'_> {
    /// Returns the losses of the whole and of each block as text, counted after the cast; asserts that counting them with the cast
    /// gives the same.
    fn losses(&self, q: &Quantizer, found: &[u8], what: &str) -> String {
        let Self { src, shape, codes: expected, scales, zeros, is_given } = *self;
        let none = vec![Losses::default(); q.scale_shape(shape).expect("a shape").iter().product()];
        let (mut blocks, mut again) = (none.clone(), none);
        let all = q.losses(src, shape, expected, scales, zeros, Some(&mut blocks)).ok();
        // Counting without a cast needs a factor that is known; one that is computed is only known to the cast.
        let mut codes = vec![0xA5; expected.len()];
        let at_once = if !is_given {
            let mut scales = vec![0xA5; found.len()];
            let made = q.quantize_losses(src, shape, &mut codes, &mut scales, Some(&mut again)).ok();
            assert!(made.is_none() || scales == found, "{what}");
            made.map(|(_, all)| all)
        } else {
            q.quantize_given_losses(src, shape, scales, zeros, &mut codes, Some(&mut again)).ok()
        };
        if at_once.is_some() {
            assert!(codes == expected, "{what}");
        }
        if all.is_some() {
            assert_eq!(format!("{at_once:?} {again:?}"), format!("{all:?} {blocks:?}"), "{what}");
        }
        format!("{all:?} {blocks:?} {at_once:?} {again:?}")
    }
}

/// Formats that registers quantise by the steps of a package.
fn steps_of_packages() -> Vec<(DType, Scaling)> {
    use DType::{F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E5M2, I4, I8, U8};
    let by = |profile, scaling: Scaling| scaling.profile(profile);
    let (row, groups) = (Scaling::per_axis(0), Scaling::blocks(&[32], DType::F32));
    let multiply = Scaling::nvfp4().tensor_scale(TensorScale::ComputeMultiply);
    let divide = Scaling::nvfp4().tensor_scale(TensorScale::ComputeDivide);
    let tensor = Scaling::per_tensor(DType::F32);
    let mut all = vec![
        (F4E2M1, by(Profile::Torchao, Scaling::nvfp4())),
        (F4E2M1, by(Profile::Torchao, multiply)),
        (F8E4M3FN, by(Profile::Torchao, Scaling::deepseek())),
        (F8E4M3FN, by(Profile::Torchao, Scaling::blocks(&[128], DType::F32))),
        (F4E2M1, by(Profile::Modelopt, multiply)),
        (F8E4M3FN, by(Profile::Modelopt, Scaling::mx())),
        (F4E2M1, by(Profile::Modelopt, Scaling::mx())),
        (F4E2M1, by(Profile::CompressedTensors, divide)),
        (F4E2M1, by(Profile::CompressedTensors, Scaling::mx())),
        (F8E4M3FN, by(Profile::CompressedTensors, Scaling::mx())),
        (F6E2M3, by(Profile::CompressedTensors, Scaling::mx())),
        (F6E3M2, by(Profile::CompressedTensors, Scaling::mx())),
        (F8E4M3FN, by(Profile::HfFp8, Scaling::deepseek())),
        (F8E4M3FN, by(Profile::HfFp8, Scaling::blocks(&[1, 128], DType::F8E8M0))),
        (F4E2M1, by(Profile::Comfy, multiply)),
        (F8E4M3FN, by(Profile::Comfy, Scaling::mx())),
        (F8E4M3FN, by(Profile::Comfy, tensor)),
        (F8E5M2, by(Profile::Comfy, row)),
        (F8E5M2, by(Profile::Onnx, row)),
        (F8E5M2, by(Profile::Onnx, row.scale(DType::F16))),
    ];
    for element in [F8E4M3FN, I8, I4] {
        for scale in [DType::F32, DType::BF16, DType::F16] {
            for scaling in [row, groups, tensor, Scaling::deepseek()] {
                all.push((element, by(Profile::CompressedTensors, scaling.scale(scale))));
                all.push((element, by(Profile::Onnx, scaling.scale(scale))));
                if element != F8E4M3FN {
                    all.push((element, by(Profile::Torchao, scaling.scale(scale))));
                    all.push((U8, by(Profile::Torchao, scaling.scale(scale))));
                }
            }
        }
    }
    for rule in [ScaleRule::Floor, ScaleRule::Ceil, ScaleRule::Even, ScaleRule::RoundUp] {
        for element in [F8E4M3FN, F8E5M2, F6E2M3, F6E3M2, F4E2M1] {
            all.push((element, by(Profile::Torchao, Scaling::mx().rule(rule))));
        }
    }
    all
}

/// Casts that registers quantise by the steps of a package.
fn packages(isa: Isa) {
    let random = &mut Random::new(9);
    for _ in 0..(cases() / 300).max(3) {
        for (element, scaling) in &steps_of_packages() {
            for from in &DATA {
                let shape = [1 + random.below(4), 8 * (1 + random.below(40))];
                quantised_of(random, isa, [*from, *element], &shape, *scaling, CastOptions::new());
            }
        }
    }
}

/// Quotients at every tie of a target and on both sides of it, each among zeros: kernels examine blocks in which there may be a tie.
fn beside_ties(isa: Isa) {
    use DType::{F4E2M1, F8E4M3FN, F8E5M2, F16, F32, F64, I4, I8, U4, U8};
    let random = &mut Random::new(11);
    let value = |dtype: DType, code: u8| {
        let (one, mut bytes) = (CastOptions::new().src_packing(Packing::OnePerByte), [0; 8]);
        lanecast::cast_bytes_with(&[code], dtype, &mut bytes, F64, 1, &one).expect("sizes that fit");
        f64::from_ne_bytes(bytes)
    };
    for to in [F8E4M3FN, F8E5M2, F4E2M1, DType::F6E2M3, I8, U8, I4, U4] {
        let codes = (0..=u8::MAX >> (8 - to.bits())).map(|code| value(to, code));
        let mut values: Vec<f64> = codes.filter(|x| x.is_finite() && *x >= 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let beyond = 2.0 * values[values.len() - 1] - values[values.len() - 2];
        values.push(beyond);
        for round in 0..8 {
            let factor = f32::from_bits(0x3A00_0000 + random.below(0x0400_0000) as u32);
            let (scaling, scale, by) = match round {
                // A power of two, whose quotients are exact.
                0 => (Scaling::per_tensor(F32), 0.5f32.to_ne_bytes().to_vec(), 0.5),
                1 => (Scaling::per_tensor(F32), factor.to_ne_bytes().to_vec(), f64::from(factor)),
                // A product or quotient of more bits than a float32 has. With a factor of few bits, some of its multiples are elements.
                _ => {
                    let code = 0x28 + random.below(0x30) as u8;
                    let scale = value(F8E4M3FN, code);
                    let few = random.pick(&[3.0, 0.75, 10.0, 21.0]);
                    let (tensor, by) = match round {
                        2 | 3 => (TensorScale::Multiply(factor), scale * f64::from(factor)),
                        4 | 5 => (TensorScale::Divide(factor), scale / f64::from(factor)),
                        _ => (TensorScale::Divide(few), scale / f64::from(few)),
                    };
                    (Scaling::per_tensor(F8E4M3FN).tensor_scale(tensor), vec![code], by)
                }
            };
            let from = if round == 0 { random.pick(&[F16, F32]) } else { F32 };
            let mut data = Vec::new();
            for pair in values.windows(2) {
                let tie = ((pair[0] + pair[1]) / 2.0 * by) as f32;
                for _ in 0..4 {
                    let x = f32::from_bits(tie.to_bits() + random.below(13) as u32 - 6);
                    let x = if round == 0 { tie } else { x };
                    let mut block = [0f32; 64];
                    block[random.below(64)] = if random.one_in(2) { x } else { -x };
                    data.extend_from_slice(&block);
                }
            }
            let mut src = vec![0; data.len() * from.bits() as usize / 8];
            let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_ne_bytes()).collect();
            lanecast::cast_bytes(&bytes, F32, &mut src, from, data.len()).expect("sizes that fit");
            let options = CastOptions::new().saturate(random.one_in(2));
            let [expected, found] = [Isa::Scalar, isa].map(|isa| {
                let q = Quantizer::new(from, to, &scaling, &options.isa(isa)).expect("a pair");
                let mut codes = vec![0; q.code_bytes(&[data.len()]).expect("a size")];
                q.quantize_given(&src, &[data.len()], &scale, None, &mut codes).expect("sizes that fit");
                codes
            });
            let at = first_difference(&expected, &found);
            let x =
                at.map(|at| data[at * 8 / to.bits() as usize..][..8 / to.bits().min(8) as usize].to_vec());
            assert_eq!(at, None, "{isa} {from} -> {to} by {by}: {x:?} {options:?}");
        }
    }
}

/// The same by the steps of a package, which may round quotients to the dtype of the data first: beside ties of that, too.
fn packages_beside_ties(isa: Isa) {
    use DType::{BF16, F16, F32, F64};
    let random = &mut Random::new(43);
    let cast = |src: &[u8], from, to: DType, n| {
        let (one, mut bytes) =
            (CastOptions::new().src_packing(Packing::OnePerByte), vec![0; n * to.itemsize()]);
        lanecast::cast_bytes_with(src, from, &mut bytes, to, n, &one).expect("sizes that fit");
        bytes
    };
    let floats = |bytes: &[u8], dtype, n| -> Vec<f64> {
        cast(bytes, dtype, F64, n).as_chunks().0.iter().map(|x| f64::from_ne_bytes(*x)).collect()
    };
    let beside =
        |x: f64, ulps: usize| (x as f32).to_bits().wrapping_add(ulps as u32).wrapping_sub(3).to_ne_bytes();
    let shape = [32, 64];
    let n = shape[0] * shape[1];
    let (all, mut ran) = (steps_of_packages(), 0);
    for &(to, plain) in &all {
        let codes: Vec<u8> = (0..=u8::MAX >> (8 - to.bits())).collect();
        let mut values = floats(&codes, to, codes.len());
        values.retain(|x| x.is_finite() && *x >= 0.0);
        values.sort_by(f64::total_cmp);
        values.dedup();
        for (from, round) in [F32, BF16, F16].into_iter().flat_map(|from| (0..8).map(move |i| (from, i))) {
            let factor = f32::from_bits(0x3F00_0000 + random.below(1 << 24) as u32);
            let (tensor, factor) = match plain.tensor_scale {
                TensorScale::ComputeMultiply => (TensorScale::Multiply(factor), f64::from(factor)),
                TensorScale::ComputeDivide => (TensorScale::Divide(factor), 1.0 / f64::from(factor)),
                _ => (TensorScale::None, 1.0),
            };
            let scaling = plain.tensor_scale(tensor);
            let new = |isa| Quantizer::new(from, to, &scaling, &CastOptions::new().isa(isa)).ok();
            let (Some(reference), Some(q)) = (new(Isa::Scalar), new(isa)) else { continue };
            ran += 1;
            let significant = if from == BF16 { 8.0 } else { 11.0 };
            let size = q.scale_bytes(&shape).expect("a size");
            let groups = size * 8 / scaling.scale_dtype.bits() as usize;
            let (mut src, mut scales) = (Vec::new(), Vec::new());
            for _ in 0..groups {
                // A tie of the target; or a number halfway from there to the next one of the dtype of the data.
                let tie = |random: &mut Random| {
                    let low = random.below(values.len() - 1);
                    let tie = (values[low] + values[low + 1]) / 2.0;
                    let half = (tie.log2().floor() - significant).exp2();
                    tie + random.pick(&[0.0, half, -half])
                };
                // An element, and a scale by which its quotient lies beside a tie.
                let x = cast(&(1.0 + random.below(1 << 11) as f64 / 2048.0).to_ne_bytes(), F64, from, 1);
                let scale = beside(floats(&x, from, 1)[0] / tie(random) / factor, random.below(7));
                let scale = cast(&scale, F32, scaling.scale_dtype, 1);
                let by = floats(&scale, scaling.scale_dtype, 1)[0] * factor;
                let at = random.below(n / groups);
                for i in 0..n / groups {
                    // Others among them, which have the bits for that if they are float32.
                    let quotient = if round % 2 == 1 && i % 64 == at % 64 {
                        tie(random)
                    } else {
                        random.below(999) as f64 / 99.0
                    };
                    let other = cast(&beside(quotient * by, random.below(7)), F32, from, 1);
                    src.extend_from_slice(if i == at { &x } else { &other });
                }
                scales.extend_from_slice(&scale);
            }
            let [expected, found] = [reference, q].map(|q| {
                let mut codes = vec![0; q.code_bytes(&shape).expect("a size")];
                q.quantize_given(&src, &shape, &scales, None, &mut codes).expect("sizes that fit");
                codes
            });
            let at = first_difference(&expected, &found).map(|at| at * 8 / to.bits() as usize);
            let x = at.map(|at| (at, floats(&src[at * from.itemsize()..][..from.itemsize()], from, 1)));
            assert_eq!(x, None, "{isa} {from} -> {to}: {scaling:?}");
        }
    }
    assert!(2 * ran > 3 * 8 * all.len(), "{ran} of {}", 3 * 8 * all.len());
}

/// Quotients next to ties between floats of 16 bits, and at ties: under scales of few bits, or that a package rounds to 16 bits. Where these
/// are subnormal in bfloat16 they also are in float32, and lose bits there.
fn ties_between_halves(isa: Isa) {
    use DType::{BF16, F8E8M0, F16, F32};
    let random = &mut Random::new(37);
    for to in [BF16, F16] {
        for from in [F32, BF16, F16] {
            for round in 0..24 {
                // From 2^-2 to 2^16, so that dividends are normal float32 if possible.
                let exponent = random.below(19) as i32 - 2;
                let mantissa = random.below(1 << 23) & random.pick(&[!0, !0xFFFF, !0x1F_FFFF]);
                let s = f32::from_bits(((127 + exponent) as u32) << 23 | mantissa as u32);
                let (scale, code, s) = match round % 2 {
                    0 => (F32, s.to_ne_bytes().to_vec(), s),
                    _ => (F8E8M0, vec![(127 + exponent) as u8], (exponent as f32).exp2()),
                };
                let value = |code: u16| {
                    let mut bytes = [0; 8];
                    lanecast::cast_bytes(&code.to_ne_bytes(), to, &mut bytes, DType::F64, 1)
                        .expect("sizes that fit");
                    f64::from_ne_bytes(bytes)
                };
                let data: Vec<f32> = (0..1000)
                    .flat_map(|_| {
                        let code = random.below(0x7000) as u16 >> random.below(12);
                        let tie = (value(code) + value(code + 1)) / 2.0;
                        let x = ((tie * f64::from(s)) as f32).to_bits();
                        [x.saturating_sub(1), x, x + 1].map(f32::from_bits)
                    })
                    .collect();
                let mut src = vec![0; data.len() * from.itemsize()];
                let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_ne_bytes()).collect();
                lanecast::cast_bytes(&bytes, F32, &mut src, from, data.len()).expect("sizes that fit");
                let scalings = [Scaling::per_tensor(scale), Scaling::blocks(&[32], scale)];
                // These round quotients to float32, or to the dtype of the data, and those to the target.
                let packages: &[Profile] =
                    if scale == F8E8M0 { &[Profile::Torchao, Profile::CompressedTensors] } else { &[] };
                let scalings = scalings.into_iter().flat_map(|plain| {
                    let onnx = plain.profile(Profile::Onnx);
                    let mut all = vec![plain, onnx, onnx.precision(from)];
                    all.extend(packages.iter().map(|profile| plain.profile(*profile)));
                    all
                });
                for scaling in scalings {
                    let made = |isa: Isa| {
                        let options = CastOptions::new().isa(isa);
                        let q = Quantizer::new(from, to, &scaling, &options).expect("a pair");
                        let shape = [data.len()];
                        let mut codes = vec![0; q.code_bytes(&shape).expect("a size")];
                        let mut scales = vec![0; q.scale_bytes(&shape).expect("a size")];
                        if scaling.profile != Profile::Onnx {
                            q.quantize(&src, &shape, &mut codes, &mut scales).expect("sizes that fit");
                        }
                        let found = (codes.clone(), scales.clone());
                        let given = code.repeat(scales.len() / code.len());
                        q.quantize_given(&src, &shape, &given, None, &mut codes).expect("sizes that fit");
                        (found, codes)
                    };
                    let (expected, found) = (made(Isa::Scalar), made(isa));
                    let at = first_difference(&expected.1, &found.1).map(|at| data[at / 2]);
                    assert_eq!(at, None, "{isa} {from} -> {to} by {s}: {scaling:?}");
                    assert!(
                        expected.0 == found.0,
                        "{isa} {from} -> {to}, scales that are found: {scaling:?}"
                    );
                }
            }
        }
    }
}

/// Quotients at the numbers of a target and halfway between two, and next to either, in all rounding modes. They are first rounded to
/// float64.
fn beside_hinges(isa: Isa) {
    use DType::{BF16, F4E2M1, F6E2M3, F8E4M3FN, F8E5M2, F8E8M0, F16, F32, F64, I4, I8, I16, U8};
    let random = &mut Random::new(29);
    for to in [F8E4M3FN, F8E5M2, F4E2M1, F6E2M3, BF16, F16, F32, I4, I8, U8, I16] {
        for round in 0..30 {
            let rounding = random.pick(&Rounding::ALL);
            let scale = match round % 3 {
                0 => F8E8M0,
                1 => F8E4M3FN,
                _ => F32,
            };
            let factor = f32::from_bits(0x3A00_0000 + random.below(0x0400_0000) as u32);
            let (tensor, by) = match round % 5 {
                0 => (TensorScale::Multiply(factor), f64::from(factor)),
                1 => (TensorScale::Divide(factor), 1.0 / f64::from(factor)),
                2 => (TensorScale::Divide(0.25), 4.0),
                _ => (TensorScale::None, 1.0),
            };
            let (code, s) = match scale {
                F32 => (factor.to_ne_bytes().to_vec(), f64::from(factor)),
                // From 2^-7 to 2^7; below, from 1 to 15/8.
                F8E8M0 => {
                    let exponent = random.below(15) as u8;
                    (vec![120 + exponent], 2f64.powi(i32::from(exponent) - 7))
                }
                _ => {
                    let fraction = random.below(8) as u8;
                    (vec![0x38 + fraction], 1.0 + f64::from(fraction) / 8.0)
                }
            };
            let s = if to == I8 && scale == F8E8M0 { s / 64.0 } else { s };
            let zeros = (to == U8 || to == I4) && random.one_in(2);
            let data: Vec<f64> = (0..1500)
                .map(|_| {
                    let bits = to.float_format().map_or(0, |format| format.mantissa_bits() + 2);
                    let hinge = match to.float_format() {
                        // One bit more than the format has, in and around its range.
                        Some(_) => {
                            (random.word() >> (64 - bits) | 1 << (bits - 1)) as f64
                                * 2f64.powi(random.below(22) as i32 - 13 - bits as i32)
                        }
                        None => random.below(1 << (to.bits() + 2)) as f64 / 2.0,
                    };
                    let x = hinge * s * by;
                    let x = f64::from_bits(x.to_bits().wrapping_add(random.below(5) as u64).wrapping_sub(2));
                    if random.one_in(2) { -x } else { x }
                })
                .collect();
            let n = data.len();
            let src: Vec<u8> = data.iter().flat_map(|x| x.to_ne_bytes()).collect();
            for from in DATA {
                let mut src = src.clone();
                let mut narrow = vec![0; n * from.bits() as usize / 8];
                lanecast::cast_bytes(&src, F64, &mut narrow, from, n).expect("sizes that fit");
                std::mem::swap(&mut src, &mut narrow);
                let scaling = Scaling::per_tensor(scale).tensor_scale(tensor).int_rounding(rounding);
                let options = CastOptions::new()
                    .rounding(rounding)
                    .saturate(random.one_in(2))
                    .dst_packing(Packing::OnePerByte);
                let zero = zeros.then(|| [random.below(1 << to.bits()) as u8]);
                let [expected, found] = [Isa::Scalar, isa].map(|isa| {
                    let q = Quantizer::new(from, to, &scaling, &options.isa(isa)).expect("a pair");
                    let mut codes = vec![0; q.code_bytes(&[n]).expect("a size")];
                    q.quantize_given(&src, &[n], &code, zero.as_ref().map(|zero| &zero[..]), &mut codes)
                        .expect("sizes that fit");
                    codes
                });
                let at = first_difference(&expected, &found).map(|at| at * 8 / to.bits().max(8) as usize);
                assert_eq!(
                    at,
                    None,
                    "{isa} {from} -> {to} by {s:e} {tensor:?}: {:e} {options:?}",
                    data[at.unwrap_or(0)]
                );
            }
        }
    }
}

/// Short blocks whose largest magnitude gives a scale at a number of its dtype, halfway between two, or next to either; some elements
/// are NaN, Inf or far out of range.
fn short_blocks(isa: Isa) {
    use DType::{BF16, F4E2M1, F6E2M3, F8E4M3FN, F8E5M2, F8E8M0, F16, F32, F64, I4, I8};
    let random = &mut Random::new(31);
    let rules = [ScaleRule::Floor, ScaleRule::Ceil, ScaleRule::Even, ScaleRule::RoundUp];
    let mut all = Vec::new();
    for to in [F4E2M1, F8E4M3FN, F8E5M2, F6E2M3, I8, I4, BF16] {
        for block in [16, 32, 48] {
            let factor = f32::from_bits(0x3A00_0000 + random.below(0x0400_0000) as u32);
            let factors = [TensorScale::None, TensorScale::Multiply(factor), TensorScale::Divide(0.25)];
            for scale in [F8E4M3FN, DType::F8UE5M3, F16, BF16, F32] {
                let scaling = Scaling::blocks(&[block], scale);
                all.extend(factors.map(|factor| (to, scaling.tensor_scale(factor))));
            }
            for scaling in rules.map(|rule| Scaling::blocks(&[block], F8E8M0).rule(rule)) {
                all.extend(factors.map(|factor| (to, scaling.tensor_scale(factor))));
                all.extend(Profile::ALL.map(|profile| (to, scaling.profile(profile))));
            }
        }
    }
    for (to, scaling) in all {
        let element =
            to.float_format().map_or(to.bits() as i32 - 1, |format| format.mantissa_bits() as i32 + 1);
        let largest = match to {
            F4E2M1 => 6.0,
            F8E4M3FN => 448.0,
            F8E5M2 => 57344.0,
            F6E2M3 => 7.5,
            BF16 => f64::from(f32::from_bits(0x7F7F_0000)),
            _ => 2f64.powi(element) - 1.0,
        };
        let by = match scaling.tensor_scale {
            TensorScale::Multiply(g) => f64::from(g),
            TensorScale::Divide(g) => 1.0 / f64::from(g),
            _ => 1.0,
        };
        let bits = scaling.scale_dtype.float_format().expect("a float").mantissa_bits() + 2;
        let shape = [3, 480];
        let mut data = Vec::new();
        for i in 0..shape[0] * shape[1] {
            // A large value; below, one element in sixteen keeps it, and the others are much smaller.
            let hinge = match random.below(3) {
                0 => (random.word() >> (64 - bits) | 1 << (bits - 1)) as f64,
                // Powers of two, and values at which their rounding changes.
                1 => 1.0,
                _ => 2.0 - 2f64.powi(-random.pick(&[2, 3, 4, 7, 8])),
            };
            let divisor = if random.one_in(2) { largest } else { 1.0 };
            let x = hinge * divisor * by * 2f64.powi(random.below(6) as i32 - 3);
            let x = f64::from_bits(x.to_bits().wrapping_add(random.below(3) as u64).wrapping_sub(1));
            let x = if i % 16 == 5 { x } else { x * 2f64.powi(-12) };
            let x = match random.below(900) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => 2f64.powi(800),
                3 => f64::from(f32::MAX) * 1.1,
                4 => 0.0,
                _ => x,
            };
            // A block of zeros, one of subnormal numbers, and one of numbers too small for float32.
            let x = match i / 48 % 30 {
                7 => 0.0,
                13 => f64::from_bits(1 + random.word() % 99),
                17 => x * 2f64.powi(-148),
                _ => x,
            };
            data.push(if random.one_in(2) { x } else { -x });
        }
        let src: Vec<u8> = data.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let scaling = if random.one_in(4) { scaling.nonfinite(NonFinite::Ignore) } else { scaling };
        let made = [Isa::Scalar, isa].map(|isa| {
            let q = Quantizer::new(F64, to, &scaling, &CastOptions::new().isa(isa)).ok()?;
            let mut codes = vec![0; q.code_bytes(&shape).expect("a size")];
            let mut scales = vec![0; q.scale_bytes(&shape).expect("a size")];
            q.quantize(&src, &shape, &mut codes, &mut scales).ok()?;
            let mut again = vec![0; codes.len()];
            q.quantize_given(&src, &shape, &scales, None, &mut again).expect("sizes that fit");
            Some((scales, codes, again))
        });
        let [expected, found] = made;
        if expected != found {
            let (expected, found) = (expected.expect("a pair"), found.expect("a pair"));
            let scale = first_difference(&expected.0, &found.0);
            let codes = [first_difference(&expected.1, &found.1), first_difference(&expected.2, &found.2)];
            panic!("{isa} float64 -> {to}: scale at {scale:?}, codes at {codes:?}; {scaling:?}");
        }
    }
}

/// Factors by which the product of a code and a scale, divided, becomes a tie of a float of 16 bits, or nearly one that is a tie when
/// rounded to float32.
fn divided_beside_ties(isa: Isa) {
    use DType::{BF16, F4E2M1, F8E4M3FN, F16, F64, I8};
    let random = &mut Random::new(23);
    let value = |dtype: DType, code: u8| {
        let mut bytes = [0; 8];
        let one = CastOptions::new().src_packing(Packing::OnePerByte);
        lanecast::cast_bytes_with(&[code], dtype, &mut bytes, F64, 1, &one).expect("sizes that fit");
        f64::from_ne_bytes(bytes)
    };
    for (from, least, codes) in [(F4E2M1, 1, 7), (F8E4M3FN, 0x20, 0x50), (I8, 1, 127)] {
        for (to, bits) in [(BF16, 9), (F16, 12)] {
            for round in 0..80 {
                let code = least + random.below(codes) as u8;
                let scale = 0x28 + random.below(0x30) as u8;
                let odd = (1 << (bits - 1)) + 2 * random.below(1 << (bits - 2)) + 1;
                let tie = odd as f64 / f64::from(1u32 << (bits - 1));
                let factor = (value(from, code) * value(F8E4M3FN, scale) / tie) as f32;
                let factor = f32::from_bits(factor.to_bits() + random.below(5) as u32 - 2);
                // Scales of short blocks, of longer ones, which have tables, and of the whole tensor.
                let block = [16, 128, 0][round % 3];
                let scaling = Scaling::blocks(&[block], F8E4M3FN).tensor_scale(TensorScale::Divide(factor));
                let n = 512;
                let code = if from.bits() == 4 { code | code << 4 } else { code };
                let src = vec![code; n * from.bits() as usize / 8];
                let [expected, found] = [Isa::Scalar, isa].map(|isa| {
                    let d =
                        Dequantizer::new(from, to, &scaling, &CastOptions::new().isa(isa)).expect("a pair");
                    let scales = vec![scale; d.scale_bytes(&[n]).expect("a size")];
                    let mut out = vec![0; 2 * n];
                    d.dequantize(&src, &[n], &scales, None, &mut out).expect("sizes that fit");
                    out
                });
                let at = first_difference(&expected, &found);
                assert_eq!(at, None, "{isa} {from} {code:#x} * {scale:#x} / {factor:e} -> {to} in {block}");
            }
        }
    }
}

/// All mantissas of 16-bit floats, in blocks under scales as they are found, of few bits, products, and quotients. For most scales a kernel
/// finds an inverse with which it need not examine ties. It examines them for the remaining scales or, if those are many, for all.
fn ties_of_16_bits(isa: Isa) {
    use DType::{BF16, F4E2M1, F6E2M3, F8E3M4, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F16, F32, I4, I8, U8};
    let random = &mut Random::new(17);
    for (from, mantissa) in [(BF16, 7), (F16, 10)] {
        for (to, max) in [
            (F8E4M3FN, 448.0),
            (F8E5M2, 57344.0),
            (F4E2M1, 6.0),
            (F6E2M3, 7.5),
            (F8E3M4, 15.5),
            (F8E4M3FNUZ, 240.0),
            (I8, 127.0),
            (U8, 255.0),
            (I4, 7.0),
        ] {
            // 8-bit integers have so many ties that this does not pay for shorter blocks.
            let block = if matches!(to, I8 | U8) { 8192 } else { 1024 };
            for round in 0..10 {
                let factor = match round {
                    9 => random.pick(&[3.0, 5.0, 21.0, 1.75]),
                    _ => f32::from_bits(0x3F80_0000 + random.below(1 << 23) as u32),
                };
                let (mut scales, mut scale_codes, mut data) = (Vec::new(), Vec::new(), Vec::new());
                for _ in 0..12 {
                    let amax = ((1 << mantissa) + random.below(1 << mantissa)) as f64;
                    let exponent = 2f64.powi(random.below(6) as i32 - 3);
                    let scale = match round {
                        0 => (1 + random.below(36)) as f64 / 64.0,
                        // A few such scales among those that are found.
                        1 if random.one_in(12) => 0.75,
                        7 => 1.0 + random.below(1 << 23) as f64 / 2f64.powi(23),
                        _ => f64::from((amax / max * exponent) as f32),
                    };
                    scales.extend_from_slice(&(scale as f32).to_ne_bytes());
                    // A float8_e4m3fn scale from 1/8 to 15, which a factor multiplies or divides.
                    let code = 0x20 + random.below(0x38) as u8;
                    scale_codes.push(code);
                    let scale = match round {
                        6 => f64::from(f32::from(8 + code % 8) * factor),
                        8 | 9 => f64::from(f32::from(8 + code % 8) / factor),
                        _ => scale,
                    };
                    let least = (scale.log2().floor() as i32 - 3 + random.below(10) as i32).max(-14);
                    for i in (0..block).map(|i| i % 1024) {
                        let m = (i % (1 << mantissa)) as f64 + f64::from(1 << mantissa);
                        let x = m * 2f64.powi(least + (i >> mantissa) as i32 - mantissa);
                        data.extend_from_slice(&(if random.one_in(2) { x } else { -x }).to_ne_bytes());
                    }
                }
                let n = data.len() / 8;
                let mut src = vec![0; 2 * n];
                lanecast::cast_bytes(&data, DType::F64, &mut src, from, n).expect("sizes that fit");
                let tensor = match round {
                    6 => Some(TensorScale::Multiply(factor)),
                    8 | 9 => Some(TensorScale::Divide(factor)),
                    _ => None,
                };
                let (scaling, scales) = match tensor {
                    Some(tensor) => (Scaling::blocks(&[block], F8E4M3FN).tensor_scale(tensor), &scale_codes),
                    None => (Scaling::blocks(&[block], F32), &scales),
                };
                let options = CastOptions::new().saturate(random.one_in(2));
                let [expected, found] = [Isa::Scalar, isa].map(|isa| {
                    let q = Quantizer::new(from, to, &scaling, &options.isa(isa)).expect("a pair");
                    let mut codes = vec![0; q.code_bytes(&[n]).expect("a size")];
                    q.quantize_given(&src, &[n], scales, None, &mut codes).expect("sizes that fit");
                    codes
                });
                let at = first_difference(&expected, &found).map(|at| at * 8 / to.bits() as usize);
                let x =
                    at.map(|at| f64::from_ne_bytes(data[8 * at..8 * at + 8].try_into().expect("8 bytes")));
                assert_eq!(at, None, "{isa} {from} -> {to}, round {round}: {x:?} {options:?}");
            }
        }
    }
}

/// Casts that look up exponents and mantissas separately: scales of every exponent, including the ends of the range that can be looked
/// up, with elements around each target's smallest and largest number, subnormal ones, zeros, Inf and NaN.
fn exponents_of_scales(isa: Isa) {
    use DType::{BF16, F4E2M1, F6E2M3, F6E3M2, F8E3M4, F8E4M3, F8E4M3FN, F8E5M2, F8E8M0, F32};
    let random = &mut Random::new(23);
    // The exponents of the scales of a call lie near each other: one that cannot be looked up makes the whole call go another way.
    let scales = [(F8E8M0, 32, 16), (F8E8M0, 128, 6), (F32, 1024, 2), (BF16, 1024, 2)];
    let targets = [F8E4M3FN, F8E5M2, F8E4M3, F8E3M4, F4E2M1, F6E2M3, F6E3M2];
    for least in (0..1024).map(|i| i / 8 * 2) {
        for to in targets {
            let (scale, block, groups) = random.pick(&scales);
            let profile = if random.one_in(2) { Profile::Lanecast } else { random.pick(&Profile::ALL) };
            let scaling = Scaling::blocks(&[block], scale).profile(profile);
            let options = CastOptions::new()
                .saturate(random.one_in(2))
                .dst_packing(random.pick(&[Packing::LowFirst, Packing::HighFirst]));
            let new = |isa| Quantizer::new(BF16, to, &scaling, &options.isa(isa)).ok();
            let Some(reference) = new(Isa::Scalar) else { continue };
            let fast = new(isa).expect("the same on every instruction set");
            let is_number = random.one_in(2);
            let (mut codes, mut src) = (Vec::new(), Vec::new());
            for group in 0..groups {
                let exponent = (least + group % 4).min(255);
                let any = random.below(128);
                let mantissa = random.pick(&[0, 1, 0x40, any, 127]) as u16;
                let high = (exponent as u16) << 7 | mantissa;
                match scale {
                    F8E8M0 => codes.push(exponent as u8),
                    BF16 => codes.extend_from_slice(&high.to_ne_bytes()),
                    _ => codes.extend_from_slice(
                        &(u32::from(high) << 16 | random.below(1 << 16) as u32).to_ne_bytes(),
                    ),
                }
                // Some blocks are all zeros.
                let is_zero = random.one_in(12);
                for _ in 0..block {
                    let near = exponent as i32 + random.below(44) as i32 - 24;
                    let x = match random.below(8) {
                        0 => random.word() as u16,
                        1 => random.pick(&[0, 1, 0x7F, 0x80, 0x7F7F, 0x7F80, 0x7F81, 0x7FFF]),
                        _ => (near.clamp(0, 254) as u16) << 7 | random.below(128) as u16,
                    };
                    let is_left_out = is_zero || is_number && x & 0x7FFF >= 0x7F80;
                    let x = if is_left_out { 0 } else { x } | (random.below(2) as u16) << 15;
                    src.extend_from_slice(&x.to_ne_bytes());
                }
            }
            let shape = [groups * block];
            let [expected, found] = [&reference, &fast].map(|q| {
                let mut all = [0; 2].map(|_| vec![0; q.code_bytes(&shape).expect("a size")]);
                let mut scales = vec![0; q.scale_bytes(&shape).expect("a size")];
                q.quantize_given(&src, &shape, &codes, None, &mut all[0]).expect("sizes that fit");
                // A profile may have no rule to find scales for these dtypes.
                let made = q.quantize(&src, &shape, &mut all[1], &mut scales).is_ok();
                (all, scales, made)
            });
            for (given, (expected, found)) in expected.0.iter().zip(&found.0).enumerate() {
                let at = first_difference(expected, found).map(|at| at * 8 / to.bits() as usize);
                let x = at.map(|at| [src[2 * at], src[2 * at + 1]]);
                assert_eq!(at, None, "{isa} bfloat16 -> {to} {given} {x:x?} {scaling:?} {options:?}");
            }
            assert_eq!((expected.1, expected.2), (found.1, found.2), "{isa} {to} {scaling:?}");
        }
    }
}

/// Blocks of several dimensions, whose rows are not adjacent: rows of other blocks lie between them.
fn rows_apart(isa: Isa) {
    let random = &mut Random::new(10);
    for (shape, block) in [
        (vec![2, 3, 4, 7], vec![32, 32, 3, 3]),
        (vec![4, 6, 64], vec![2, 3, 32]),
        (vec![4, 6, 64], vec![4, 2, 0]),
        (vec![3, 4, 5, 16], vec![1, 2, 2, 16]),
        (vec![3, 4, 5, 16], vec![3, 1, 2, 16]),
    ] {
        for from in &DATA {
            for (to, scale) in [(DType::F8E4M3FN, DType::F32), (DType::I8, DType::F16)] {
                for _ in 0..9 {
                    let scaling = Scaling::blocks(&block, scale);
                    quantised_of(random, isa, [*from, to], &shape, scaling, CastOptions::new());
                }
            }
        }
    }
}

/// Short rows with bytes between them, under the same scales of columns. Rows without such bytes are dequantised several at once.
fn gaps_between_rows(isa: Isa) {
    let scaling = Scaling::blocks(&[0, 1], DType::F32).row_bytes(5);
    let options = CastOptions::new().isa(isa);
    let d = Dequantizer::new(DType::F8E4M3FN, DType::F32, &scaling, &options).expect("a pair");
    // Rows of 1 2 4 and 8 16 32, with NaN between them.
    let codes = [0x38, 0x40, 0x48, 0x7F, 0x7F, 0x50, 0x58, 0x60, 0x7F, 0x7F];
    let scales: Vec<u8> = [1f32, 0.5, 0.25].iter().flat_map(|x| x.to_ne_bytes()).collect();
    let mut out = [0; 24];
    d.dequantize(&codes, &[2, 3], &scales, None, &mut out).expect("sizes that fit");
    let found: Vec<f32> = out.as_chunks().0.iter().map(|x| f32::from_ne_bytes(*x)).collect();
    assert_eq!(found, [1.0, 1.0, 1.0, 8.0, 8.0, 8.0]);
}

/// A NaN in the data keeps its sign but not its payload, even where bfloat16 has room for it. The codes of NaN with
/// all ones are at or near the largest 32-bit integer. Kernels have float32 quotients on the way to bfloat16 by the profile only.
fn payloads(isa: Isa) {
    let froms = [DType::BF16, DType::F16, DType::F32];
    let profiles = [Profile::Lanecast, Profile::Onnx];
    for (from, profile) in froms.into_iter().flat_map(|from| profiles.map(|profile| (from, profile))) {
        let scaling = Scaling::per_tensor(DType::F32).profile(profile);
        let q = Quantizer::new(from, DType::BF16, &scaling, &CastOptions::new().isa(isa));
        let data: Vec<u8> = match from {
            DType::F32 => [0x7F81_2345u32, 0xFFFF_FFFF].iter().flat_map(|x| x.to_ne_bytes()).collect(),
            DType::BF16 => [0x7F81u16, 0xFFFF].iter().flat_map(|x| x.to_ne_bytes()).collect(),
            _ => [0x7C01u16, 0xFFFF].iter().flat_map(|x| x.to_ne_bytes()).collect(),
        };
        let mut codes = [0; 4];
        let scale = 0.5f32.to_ne_bytes();
        q.expect("a pair").quantize_given(&data, &[2], &scale, None, &mut codes).expect("sizes that fit");
        assert_eq!(
            codes.as_chunks().0.iter().map(|x| u16::from_ne_bytes(*x)).collect::<Vec<_>>(),
            [0x7FC0, 0xFFC0],
            "{isa} {from} {profile}"
        );
    }
}

/// Casts in which a separate kernel turns float32 quotients into elements, of more quotients than are held at once: rows that are cut,
/// with scales of groups and of the whole, and so many rows that they are made some at a time.
fn pieces_of_quotients(isa: Isa) {
    let random = &mut Random::new(23);
    let blocks = |lengths: &[usize]| Scaling::blocks(lengths, DType::F32);
    for (shape, scaling) in [
        (vec![3, 5000], Scaling::per_tensor(DType::F32)),
        (vec![2, 8192], blocks(&[32])),
        (vec![2, 8192], blocks(&[4096])),
        (vec![2, 8192], blocks(&[2048])),
        (vec![2, 6144], blocks(&[3000])),
        (vec![2, 6000], blocks(&[5])),
        (vec![70, 128], Scaling::per_axis(1)),
        (vec![5, 3000], Scaling::per_axis(1)),
        (vec![40, 300], blocks(&[32, 64])),
    ] {
        for from in &DATA {
            for to in [DType::F8E3M4, DType::F8E5M2FNUZ, DType::F6E2M3, DType::F6E3M2, DType::I16] {
                quantised_of(random, isa, [*from, to], &shape, scaling, CastOptions::new());
            }
        }
    }
}

/// Packed elements that share a byte but not a scale: scales of columns, of groups of rows as in AWQ's and GPTQ's weights, and of blocks of two
/// and four columns.
fn packed_columns(isa: Isa) {
    let random = &mut Random::new(29);
    let blocks = |lengths: &[usize]| Scaling::blocks(lengths, DType::F32);
    let targets = [DType::I4, DType::U4, DType::F4E2M1, DType::F6E2M3, DType::F6E3M2];
    for (shape, scaling, times) in [
        (vec![40, 24], Scaling::per_axis(1), 90),
        (vec![3, 1032], Scaling::per_axis(1), 40),
        (vec![256, 520], Scaling::along_axis(0, 128, DType::F32), 5),
        (vec![70, 48], Scaling::along_axis(0, 32, DType::F16), 40),
        (vec![2, 30, 16], Scaling::along_axis(1, 10, DType::BF16), 40),
        (vec![50, 64], blocks(&[8, 2]), 40),
        (vec![50, 64], blocks(&[8, 4]), 40),
        (vec![9, 600], blocks(&[0, 1]), 40),
        (vec![1, 1000], blocks(&[1, 4]), 40),
    ] {
        for _ in 0..times {
            let packing = random.pick(&[Packing::LowFirst, Packing::LowFirst, Packing::HighFirst]);
            let options = CastOptions::new().dst_packing(packing);
            let profiles = [Profile::Lanecast, Profile::CompressedTensors, Profile::Torchao];
            let scaling = scaling.profile(random.pick(&profiles));
            let pair = [random.pick(&DATA), random.pick(&targets)];
            quantised_of(random, isa, pair, &shape, scaling, options);
        }
    }
    // So many rows that regions end within a row, which could be after an odd number of blocks.
    for _ in 0..2 {
        let pair = [DType::F32, DType::F6E2M3];
        quantised_of(random, isa, pair, &[1103, 1000], blocks(&[0, 2]), CastOptions::new());
    }
}

/// compressed-tensors' MX scales ignore magnitudes that are subnormal in the dtype of the data: in rows that kernels divide, and in rows
/// that go by way of float64 because they begin within a byte.
fn ignored_magnitudes(isa: Isa) {
    let scaling = Scaling::mx().profile(Profile::CompressedTensors);
    for (float, width) in [(DType::F16, 2), (DType::BF16, 2), (DType::F32, 4), (DType::F64, 8)] {
        for (to, columns) in
            [(DType::F4E2M1, 31), (DType::F4E2M1, 32), (DType::F6E3M2, 33), (DType::F8E4M3FN, 40)]
        {
            // From the smallest subnormal of the dtype to its largest number.
            for k in 0..width * 8 - 1 {
                let number = (1u64 << k).to_le_bytes();
                let data: Vec<u8> = (0..2 * columns).flat_map(|_| number[..width].to_vec()).collect();
                let made = |isa| {
                    let options = CastOptions::new().isa(isa).src_order(lanecast::ByteOrder::Little);
                    let it = Quantizer::new(float, to, &scaling, &options).unwrap();
                    let shape = [2, columns];
                    let mut codes = vec![0; it.code_bytes(&shape).unwrap()];
                    let mut scales = vec![0; it.scale_bytes(&shape).unwrap()];
                    it.quantize(&data, &shape, &mut codes, &mut scales).unwrap();
                    (codes, scales)
                };
                assert_eq!(made(isa), made(Isa::Scalar), "{float}, bit {k}, to {to}, rows of {columns}");
            }
        }
    }
}

/// Blocks of several rows whose numbers are repeated for each element: with rows that take several calls of a kernel, or several of which
/// one call takes, and with blocks that are cut.
fn odd_blocks(isa: Isa) {
    let random = &mut Random::new(31);
    for (block, shape, times) in [
        ([4, 2], [21, 1400], 6),
        ([8, 4], [40, 2100], 6),
        ([3, 5], [19, 1031], 6),
        ([16, 12], [33, 1200], 6),
        ([10, 100], [43, 1350], 6),
        ([4, 500], [18, 1300], 6),
        ([6, 600], [13, 1900], 6),
        ([0, 4], [300, 520], 4),
        // Rows so short that several are cast as one.
        ([0, 1], [1301, 3], 8),
        ([0, 1], [700, 8], 12),
        ([40, 1], [333, 16], 12),
        ([64, 2], [150, 24], 12),
        ([0, 3], [90, 200], 12),
        ([7, 1], [100, 130], 6),
    ] {
        for _ in 0..times {
            let options = options(random);
            let scale = random.pick(&[DType::F32, DType::F16, DType::BF16, DType::F8E4M3FN]);
            let scaling = Scaling::blocks(&block, scale);
            let (code, float) = (random.pick(&CODES), random.pick(&DATA));
            quantised_of(random, isa, [float, code], &shape, scaling, options);
            dequantised_of(random, isa, [code, float], &shape, scaling, options);
        }
    }
}

/// All codes, NaN and Inf too, in blocks for each of which kernels look up what its first codes become: under scales of all
/// kinds, some of which make ties, and by every profile.
fn words_of_scales(isa: Isa) {
    use DType::{BF16, F4E2M1, F8E4M3, F8E4M3FN, F8E5M2, F8E8M0, F16, F32, I4, U4};
    let random = &mut Random::new(19);
    for from in [F8E4M3FN, F8E4M3, F8E5M2, F4E2M1, I4, U4] {
        for (to, scale) in
            [(BF16, F32), (F16, F32), (BF16, F16), (BF16, BF16), (BF16, F8E4M3FN), (BF16, F8E8M0)]
        {
            for profile in Profile::ALL {
                for block in [32, 64, 128, 1024, 0] {
                    let n = if block == 0 { 1024 } else { 12 * block };
                    let groups = if block == 0 { 1 } else { 12 };
                    let packing = random.pick(&[Packing::LowFirst, Packing::HighFirst]);
                    let mut scaling = Scaling::blocks(&[block], scale).profile(profile);
                    if random.one_in(3) {
                        scaling = scaling.tensor_scale(TensorScale::Multiply(0.37));
                    }
                    let options = CastOptions::new().src_packing(packing);
                    let new = |isa| Dequantizer::new(from, to, &scaling, &options.isa(isa)).ok();
                    let Some(reference) = new(Isa::Scalar) else { continue };
                    let fast = new(isa).expect("the same on every instruction set");
                    // All codes, again and again.
                    let src: Vec<u8> =
                        (0..n * from.bits() as usize / 8).map(|i| (i * 37 + i / 256) as u8).collect();
                    let scales: Vec<f32> = (0..groups)
                        .map(|_| {
                            let bits = match random.below(8) {
                                0 => (random.below(256) as u32) << 16,
                                1 => {
                                    (127 - 60 + random.below(120) as u32) << 23 | random.below(1 << 23) as u32
                                }
                                _ => 0x3C00_0000 + random.below(0x0600_0000) as u32,
                            };
                            let positive = f32::from_bits(bits);
                            if random.one_in(24) { -positive } else { positive }
                        })
                        .collect();
                    let bytes: Vec<u8> = scales.iter().flat_map(|x| x.to_ne_bytes()).collect();
                    let mut scales = vec![0; groups * scale.bits() as usize / 8];
                    lanecast::cast_bytes(&bytes, F32, &mut scales, scale, groups).expect("sizes that fit");
                    let [mut expected, mut found] = [vec![0; 2 * n], vec![0; 2 * n]];
                    reference.dequantize(&src, &[n], &scales, None, &mut expected).expect("sizes that fit");
                    fast.dequantize(&src, &[n], &scales, None, &mut found).expect("sizes that fit");
                    let at = first_difference(&found, &expected).map(|at| at / 2);
                    assert_eq!(at, None, "{isa} {from} -> {to} {scaling:?} {options:?}");
                }
            }
        }
    }
}

/// Enough 4-bit codes to pay for a table for each value of an 8-bit scale, some of which are NaN, Inf, zero, or beyond what kernels
/// multiply with.
fn every_short_scale(isa: Isa) {
    use DType::{BF16, F4E2M1, F16, I4, U4};
    let random = &mut Random::new(29);
    let scales: Vec<DType> =
        DType::ALL.into_iter().filter(|dtype| dtype.bits() == 8 && dtype.float_format().is_some()).collect();
    let factors = [TensorScale::None, TensorScale::Multiply(0.37), TensorScale::Divide(2688.5)];
    for from in [F4E2M1, I4, U4] {
        for to in [BF16, F16] {
            for &scale in &scales {
                for profile in Profile::ALL {
                    let block = random.pick(&[16, 16, 32, 64]);
                    let scaling =
                        Scaling::blocks(&[block], scale).profile(profile).tensor_scale(random.pick(&factors));
                    let options = CastOptions::new()
                        .src_packing(random.pick(&[Packing::LowFirst, Packing::HighFirst]))
                        .stream_from(random.pick(&[0, usize::MAX]));
                    let new = |isa| Dequantizer::new(from, to, &scaling, &options.isa(isa)).ok();
                    let Some(reference) = new(Isa::Scalar) else { continue };
                    let fast = new(isa).expect("the same on every instruction set");
                    // Rows that end with a block, or within one.
                    let width = random.pick(&[1024, 1000, 4096 * block + 6]);
                    let shape = [(2100 * block).div_ceil(width), width];
                    let n = shape[0] * shape[1];
                    let codes: Vec<u8> = (0..n / 2).map(|i| (i * 37 + i / 256) as u8).collect();
                    // All scales, or those around 1.
                    let (first, most) = random.pick(&[(0, 256), (0x38, 16), (0x70, 16)]);
                    let scales: Vec<u8> = (0..reference.scale_bytes(&shape).expect("a size"))
                        .map(|_| (first + random.below(most)) as u8)
                        .collect();
                    let [expected, found] = [&reference, &fast].map(|d| {
                        let mut values = vec![0; 2 * n + 2];
                        d.dequantize(&codes, &shape, &scales, None, &mut values[2..])
                            .expect("sizes that fit");
                        values
                    });
                    let at = first_difference(&found, &expected).map(|at| at / 2 - 1);
                    let of = at.map(|at| scales[at / width * width.div_ceil(block) + at % width / block]);
                    assert_eq!(at, None, "{isa} {from} -> {to} {of:x?} {shape:?} {scaling:?} {options:?}");
                }
            }
        }
    }
}

/// Enough bfloat16s to pay for the thresholds of float4 under each value of an 8-bit scale: values around the thresholds, and of all kinds.
fn every_step(isa: Isa) {
    use DType::{BF16, F4E2M1, F32};
    let random = &mut Random::new(31);
    let scales: Vec<DType> =
        DType::ALL.into_iter().filter(|dtype| dtype.bits() == 8 && dtype.float_format().is_some()).collect();
    let factors = [TensorScale::None, TensorScale::Multiply(0.37), TensorScale::Divide(2688.5)];
    for case in 0..4 * scales.len() * Profile::ALL.len() {
        let scale = scales[case % scales.len()];
        let block = random.pick(&[16, 16, 32, 64]);
        let scaling = Scaling::blocks(&[block], scale)
            .profile(Profile::ALL[case / scales.len() % Profile::ALL.len()])
            .tensor_scale(random.pick(&factors));
        let options = CastOptions::new()
            .saturate(random.one_in(2))
            .nan_to_finite(random.pick(&[NanToFinite::NegZero, NanToFinite::Max, NanToFinite::Zero]))
            .dst_packing(random.pick(&[Packing::LowFirst, Packing::HighFirst]));
        let new = |isa| Quantizer::new(BF16, F4E2M1, &scaling, &options.isa(isa)).ok();
        let Some(reference) = new(Isa::Scalar) else { continue };
        let fast = new(isa).expect("the same on every instruction set");
        // Rows that end with a block, or within one.
        let width = random.pick(&[1024, 1000, 512 * block + 8]);
        let shape = [16_384_usize.div_ceil(width), width];
        let blocks = width.div_ceil(block);
        // All scales, or those around 1.
        let (first, most) = random.pick(&[(0, 256), (0x38, 16), (0x70, 16)]);
        let codes: Vec<u8> = (0..shape[0] * blocks).map(|_| (first + random.below(most)) as u8).collect();
        let mut decoded = vec![0; 4 * codes.len()];
        lanecast::cast_bytes(&codes, scale, &mut decoded, F32, codes.len()).expect("sizes that fit");
        let decoded: Vec<f32> = decoded.as_chunks().0.iter().map(|x| f32::from_ne_bytes(*x)).collect();
        let is_number = random.one_in(2);
        let mut src = Vec::new();
        for row in 0..shape[0] {
            for column in 0..width {
                let s = match scaling.tensor_scale {
                    TensorScale::Multiply(g) => decoded[row * blocks + column / block] * g,
                    TensorScale::Divide(g) => decoded[row * blocks + column / block] / g,
                    _ => decoded[row * blocks + column / block],
                };
                let step = random.pick(&[0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]) * s;
                let x = match random.below(if is_number { 6 } else { 64 }) {
                    0 => random.below(0x7F80) as u16,
                    1 => random.pick(&[0, 1, 0x7F, 0x80, 0x7F7F]),
                    6 => random.pick(&[0x7F80, 0x7F81, 0x7FC0, 0x7FFF]),
                    _ => ((step.abs().to_bits() >> 16) as u16 + random.below(4) as u16).saturating_sub(1),
                };
                let x =
                    if is_number && x >= 0x7F80 { 0 } else { x & 0x7FFF } | (random.below(2) as u16) << 15;
                src.extend_from_slice(&x.to_ne_bytes());
            }
        }
        let [expected, found] = [&reference, &fast].map(|q| {
            let mut all = [0; 2].map(|_| vec![0; q.code_bytes(&shape).expect("a size")]);
            let mut made = vec![0; q.scale_bytes(&shape).expect("a size")];
            q.quantize_given(&src, &shape, &codes, None, &mut all[0]).expect("sizes that fit");
            // A profile may have no rule to find scales for these dtypes.
            let finds = q.quantize(&src, &shape, &mut all[1], &mut made).is_ok();
            (all, made, finds)
        });
        for (given, (expected, found)) in expected.0.iter().zip(&found.0).enumerate() {
            let at = first_difference(expected, found).map(|at| 2 * at);
            let of = at.map(|at| (&src[2 * at..2 * at + 4], codes[at / width * blocks + at % width / block]));
            assert_eq!(at, None, "{isa} -> {F4E2M1} {given} {of:x?} {shape:?} {scaling:?} {options:?}");
        }
        assert_eq!((expected.1, expected.2), (found.1, found.2), "{isa} {scaling:?}");
    }
}

/// Casts from one scaling to another.
fn requantised(random: &mut Random, isa: Isa) {
    let (from, to) = (random.pick(&CODES), random.pick(&CODES));
    let (shape, source) = scaling(random, from);
    let common = [
        Scaling::mx().rule(random.pick(&[ScaleRule::Floor, ScaleRule::Even, ScaleRule::RoundUp])),
        Scaling::nvfp4(),
        Scaling::nvfp4().tensor_scale(TensorScale::ComputeMultiply),
        Scaling::blocks(&[32], DType::F16),
        Scaling::per_tensor(DType::F8E8M0),
        Scaling::per_tensor(DType::F32),
    ];
    let target = if random.one_in(3) { scaling_of(random, to, shape.len()) } else { random.pick(&common) };
    let (source, target) = (source.profile(Profile::Lanecast), target.profile(Profile::Lanecast));
    let options = options(random);
    let source = with_gaps(random, source, &shape, from, options.src_packing);
    let target = with_gaps(random, target, &shape, to, options.dst_packing);
    let requantizer = |isa| Requantizer::new((from, &source), (to, &target), &options.isa(isa)).ok();
    let [Some(reference), Some(fast)] = [Isa::Scalar, isa].map(requantizer) else { return };
    let len = code_bytes(&source, &shape, from, options.src_packing);
    let src: Vec<u8> = (0..len).map(|_| random.word() as u8).collect();
    let scales = scales(random, source.scale_dtype, source.scale_bytes(&shape).expect("a size"));
    let size = code_bytes(&target, &shape, to, options.dst_packing);
    let Ok(scale_bytes) = target.scale_bytes(&shape) else { return };
    let groups: usize = source.scale_shape(&shape).expect("a shape").iter().product();
    let zeros: Option<Vec<u8>> =
        (!matches!(from.kind(), lanecast::Kind::Float(_)) && random.one_in(2)).then(|| {
            let len = from.byte_len(groups, options.src_packing).expect("a size");
            (0..len).map(|_| random.word() as u8).collect()
        });
    let how = if random.one_in(4) { Parallel::new().threads(2).chunk(1) } else { Parallel::new().threads(1) };
    let [expected, found] = [reference, fast].map(|r| {
        let (mut codes, mut made) = (vec![0; size], vec![0; scale_bytes]);
        r.par_requantize_with(&src, &shape, &scales, zeros.as_deref(), &mut codes, &mut made, &how)
            .map(|found| (made, codes, found.tensor_scale))
            .ok()
    });
    assert_eq!(expected, found, "{isa} {from} -> {to} {shape:?} {source:?} {target:?} {options:?}");
}

/// Products that need more bits than a float32, under a factor such that a scale of float8_e8m0fnu hinges on these bits: rounded to
/// odd, the largest product is on the other side.
fn factor_beside_powers(isa: Isa) {
    let bits = f32::from_bits;
    for (scale, tensor) in [
        (16777214.0, TensorScale::Multiply(31457278.0)),
        (bits(0x3F7F_FFFE), TensorScale::Multiply(bits(0x3FEF_FFFF))),
        (bits(0x3F1E_2FEB), TensorScale::Divide(bits(0x3F5C_F4F0))),
    ] {
        let from = Scaling::per_tensor(DType::F32);
        let to = Scaling::per_tensor(DType::F8E8M0).rule(ScaleRule::Floor).tensor_scale(tensor);
        let made = |isa| {
            let (from, to) = ((DType::F8E4M3FN, &from), (DType::F4E2M1, &to));
            let it = Requantizer::new(from, to, &CastOptions::new().isa(isa)).unwrap();
            let (mut codes, mut scales) = ([0; 4], [0]);
            it.requantize(&[0x3F; 8], &[8], &f32::to_ne_bytes(scale), None, &mut codes, &mut scales).unwrap();
            (codes, scales)
        };
        assert_eq!(made(Isa::Scalar).1, [124]);
        assert_eq!(made(isa), made(Isa::Scalar), "{scale} and {tensor:?}");
    }
}

/// Products of more bits than a float32 has, beside ties of a target under scales of float8_e8m0fnu, and beside the numbers at which its
/// scales change: rounded to nearest float32, many of them would be at these.
fn products_beside_hinges(isa: Isa) {
    use DType::{F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E5M2, F64, I4};
    let random = &mut Random::new(47);
    let value = |dtype: DType, code: u8| {
        let (one, mut bytes) = (CastOptions::new().src_packing(Packing::OnePerByte), [0; 8]);
        lanecast::cast_bytes_with(&[code], dtype, &mut bytes, F64, 1, &one).expect("sizes that fit");
        f64::from_ne_bytes(bytes)
    };
    let source = Scaling::blocks(&[32], DType::F32);
    for to in [F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E5M2, I4] {
        let codes = (0..=u8::MAX >> (8 - to.bits())).map(|code| value(to, code));
        let mut values: Vec<f64> = codes.filter(|x| x.is_finite() && *x >= 0.0).collect();
        values.sort_by(f64::total_cmp);
        let max = values[values.len() - 1];
        // As a number from 64 on and below 128, where a code and a scale between 1 and 2 have such a product.
        let near = |x: f64| x * (6.0 - x.log2().floor()).exp2();
        for rule in [ScaleRule::Floor, ScaleRule::Ceil, ScaleRule::Even, ScaleRule::RoundUp] {
            let (mut codes, mut scales) = (Vec::new(), Vec::new());
            for i in 0..600 {
                let low = random.below(values.len() - 1);
                let tie = (values[low] + values[low + 1]) / 2.0;
                // Under 127, which is always there then, 2^7 is the scale of the largest power of two in the target.
                let under = tie * (7.0 - max.log2().floor()).exp2();
                let hinge = if i % 2 == 0 { under } else { near(random.pick(&[1.0, max, tie])) };
                let least = (hinge / 2.0) as usize + 1;
                let code = least + random.below(((hinge / 1.01) as usize).saturating_sub(least) + 1);
                if code > 127 {
                    continue;
                }
                let beside = (hinge / code as f64) as f32;
                let scale = f32::from_bits((beside.to_bits() + random.below(3) as u32).wrapping_sub(1));
                let mut block = [0u8; 32];
                block.fill_with(|| random.below(code + 1) as u8);
                block[random.below(16)] = if i % 2 == 0 { 127 } else { 0 };
                block[16 + random.below(16)] =
                    if random.one_in(2) { code as u8 } else { (code as u8).wrapping_neg() };
                codes.extend_from_slice(&block);
                scales.extend_from_slice(&scale.to_ne_bytes());
            }
            let target = Scaling::mx().rule(rule);
            let made = |isa| {
                let r = Requantizer::new((DType::I8, &source), (to, &target), &CastOptions::new().isa(isa));
                let mut made = vec![0; to.byte_len(codes.len(), Packing::LowFirst).expect("a size")];
                let mut found = vec![0; codes.len() / 32];
                r.expect("a pair")
                    .requantize(&codes, &[codes.len()], &scales, None, &mut made, &mut found)
                    .expect("sizes that fit");
                (found, made)
            };
            let (expected, found) = (made(Isa::Scalar), made(isa));
            let what = format!("{isa} int8 -> {to} by {rule:?}");
            assert_eq!(first_difference(&expected.0, &found.0), None, "scales: {what}");
            assert_eq!(first_difference(&expected.1, &found.1), None, "elements: {what}");
        }
    }
}

/// A source with a tensor scale, as compressed-tensors has it in NVFP4: no factor of the target is returned, and losses are in
/// units of the data. Codes and scales are those of exact numbers.
fn factor_of_the_source(isa: Isa) {
    let random = &mut Random::new(31);
    let (shape, n, options) = ([8, 256], 8 * 256, CastOptions::new().isa(isa));
    for g in [2.7, 3e-5, 81_930.5] {
        let from = Scaling::nvfp4().tensor_scale(TensorScale::Divide(g));
        for (to, scaling) in [
            (DType::F8E4M3FN, Scaling::deepseek()),
            (DType::F8E5M2, Scaling::per_axis(0)),
            (DType::F4E2M1, Scaling::nvfp4()),
            (DType::F4E2M1, Scaling::mx()),
            (DType::I4, Scaling::blocks(&[32], DType::F16)),
            (DType::I8, Scaling::per_axis(0)),
        ] {
            let r = Requantizer::new((DType::F4E2M1, &from), (to, &scaling), &options).expect("two formats");
            let src: Vec<u8> = (0..n / 2).map(|_| random.word() as u8).collect();
            let src_scales: Vec<u8> = (0..n / 16).map(|_| 0x30 + random.below(24) as u8).collect();
            let mut codes = vec![0; to.byte_len(n, Packing::LowFirst).expect("a size")];
            let mut scales = vec![0; scaling.scale_bytes(&shape).expect("a size")];
            let found = r.requantize(&src, &shape, &src_scales, None, &mut codes, &mut scales);
            assert_eq!(found.expect("sizes that fit").tensor_scale, None);
            let rule = if scaling.scale_dtype == DType::F8E8M0 { Rule::Floor } else { Rule::Amax };
            let [source, target] =
                [(DType::F4E2M1, &from, Some(g)), (to, &scaling, None)].map(|(element, scaling, g)| {
                    oracle::scaled::Scaling {
                        element: type_of(element),
                        scale: type_of(scaling.scale_dtype),
                        rule,
                        factor: g.map(|g: f32| Factor { code: g.to_bits(), divides: true }),
                        int_rounding: oracle::Rounding::NearestEven,
                        ignores_nonfinite: false,
                    }
                });
            let low = oracle::packing::Packing::LowFirst;
            let xs = oracle::packing::unpack(&src, n, 4, low);
            let xs: Vec<_> = (0..n).map(|i| (xs[i], u128::from(src_scales[i / 16]), 0)).collect();
            let lengths = scaling.scale_shape(&shape).expect("a shape");
            let width = scaling.scale_dtype.itemsize();
            let got = oracle::packing::unpack(&codes, n, to.bits(), low);
            for (at, scale) in scales.chunks(width).enumerate() {
                let is_here =
                    |&i: &usize| i / 256 * lengths[0] / 8 * lengths[1] + i % 256 * lengths[1] / 256 == at;
                let here: Vec<usize> = (0..n).filter(is_here).collect();
                let block: Vec<_> = here.iter().map(|&i| xs[i]).collect();
                let mut code = [0; 16];
                code[..width].copy_from_slice(scale);
                if cfg!(target_endian = "big") {
                    code[..width].reverse();
                }
                let code = u128::from_le_bytes(code);
                let what = format!("{isa} {to} {scaling:?}, scale {at}");
                assert_eq!(code, oracle::scaled::refind(&target, &source, &block), "{what}");
                for (i, x) in here.into_iter().zip(block) {
                    let mode = oracle::Mode::default();
                    let expected = oracle::scaled::requantize(&target, &source, x, code, &mode, None);
                    assert_eq!(got[i], expected, "{what}, element {i}");
                }
            }
            let losses =
                r.losses(&src, &shape, &src_scales, None, (&codes, &scales), None).expect("as above");
            let (mut again, mut again_scales) = (codes.clone(), scales.clone());
            let made = (&mut again[..], &mut again_scales[..]);
            let both = r.requantize_losses(&src, &shape, &src_scales, None, made, None).expect("as above");
            assert_eq!((both.0.tensor_scale, both.1), (None, losses));
            assert_eq!((again, again_scales), (codes.clone(), scales.clone()));
            let f64s = |from: DType, scaling: &Scaling, codes: &[u8], scales: &[u8]| -> Vec<f64> {
                let d = Dequantizer::new(from, DType::F64, scaling, &options).expect("a pair");
                let mut bytes = vec![0; 8 * n];
                d.dequantize(codes, &shape, scales, None, &mut bytes).expect("sizes that fit");
                bytes.as_chunks::<8>().0.iter().map(|&x| f64::from_ne_bytes(x)).collect()
            };
            let [xs, ys] =
                [f64s(DType::F4E2M1, &from, &src, &src_scales), f64s(to, &scaling, &codes, &scales)];
            let most = xs.iter().zip(&ys).fold(0f64, |most, (x, y)| most.max((x - y).abs()));
            assert!(
                (most - losses.max_error).abs() <= 1e-12 * most,
                "{isa} {to} {scaling:?}: {most} {losses:?}"
            );
        }
    }
}

/// Casts of every length below 300.
fn every_length(isa: Isa) {
    let random = &mut Random::new(7);
    for n in 0..300 {
        for (element, scaling) in [
            (DType::F8E4M3FN, Scaling::per_tensor(DType::F32)),
            (DType::F4E2M1, Scaling::mx()),
            (DType::F4E2M1, Scaling::nvfp4().tensor_scale(TensorScale::Multiply(0.003))),
            (DType::I4, Scaling::blocks(&[32], DType::F16)),
            (DType::I8, Scaling::blocks(&[100], DType::F32)),
        ] {
            let src = data(random, DType::BF16, n);
            let [reference, fast] = [Isa::Scalar, isa].map(|isa| {
                let q = Quantizer::new(DType::BF16, element, &scaling, &CastOptions::new().isa(isa))
                    .expect("a pair");
                let mut scales = vec![0; q.scale_bytes(&[n]).expect("a size")];
                let mut codes = vec![0; q.code_bytes(&[n]).expect("a size")];
                q.quantize(&src, &[n], &mut codes, &mut scales).expect("sizes that fit");
                let d = Dequantizer::new(element, DType::F32, &scaling, &CastOptions::new().isa(isa))
                    .expect("a pair");
                let mut back = vec![0; 4 * n];
                d.dequantize(&codes, &[n], &scales, None, &mut back).expect("sizes that fit");
                (codes, scales, back)
            });
            assert_eq!(reference, fast, "{isa}: {n} of {element} {scaling:?}");
        }
    }
}

/// Casts of several chunks, and with non-temporal stores.
fn more_than_a_chunk(isa: Isa) {
    let random = &mut Random::new(8);
    for (element, scaling, shape) in [
        (DType::F8E4M3FN, Scaling::deepseek(), vec![300, 1000]),
        // With more bytes in 128 rows than are examined together.
        (DType::F8E4M3FN, Scaling::deepseek(), vec![129, 8700]),
        (DType::F8E4M3FN, Scaling::per_axis(0), vec![3, 100_001]),
        (DType::F8E4M3FN, Scaling::per_axis(1), vec![100, 3001]),
        (DType::F4E2M1, Scaling::mx(), vec![290, 1024]),
        (DType::I8, Scaling::per_tensor(DType::F32), vec![300_007]),
    ] {
        let n: usize = shape.iter().product();
        let src = data(random, DType::F32, n);
        let all = [Isa::Scalar, isa].map(|isa| {
            let options = CastOptions::new().isa(isa).stream_from(0);
            let q = Quantizer::new(DType::F32, element, &scaling, &options).expect("a pair");
            let mut scales = vec![0; q.scale_bytes(&shape).expect("a size")];
            let mut codes = vec![0; q.code_bytes(&shape).expect("a size")];
            let how = Parallel::new().threads(2).chunk(1);
            q.par_quantize_with(&src, &shape, &mut codes, &mut scales, &how).expect("sizes that fit");
            let d = Dequantizer::new(element, DType::BF16, &scaling, &options).expect("a pair");
            let mut back = vec![0; 2 * n + 6];
            d.par_dequantize_with(&codes, &shape, &scales, None, &mut back[6..], &how)
                .expect("sizes that fit");
            (codes, scales, back)
        });
        let [reference, fast] = &all;
        assert!(reference.1 == fast.1, "{isa}: scales of {element} {scaling:?}");
        assert_eq!(first_difference(&reference.0, &fast.0), None, "{isa}: {element} {scaling:?}");
        assert_eq!(first_difference(&reference.2, &fast.2), None, "{isa}: {element} {scaling:?}");
    }
}

/// Zero points and scales of several pieces, some of them with a block that is left to the reference.
fn affine_pieces(isa: Isa) {
    let random = &mut Random::new(9);
    for (from, to, scaling, shape) in [
        (DType::BF16, DType::I4, Scaling::blocks(&[32], DType::BF16), [300, 2048]),
        (DType::F32, DType::I8, Scaling::per_axis(0), [5, 120_001]),
        (DType::F32, DType::I4, Scaling::per_axis(1), [200, 2001]),
        (DType::F64, DType::I8, Scaling::blocks(&[48], DType::F32), [100, 4000]),
    ] {
        let scaling = scaling.profile(Profile::CompressedTensors);
        let n = shape[0] * shape[1];
        let mut src = data(random, from, n);
        let width = from.itemsize();
        // One NaN, far from the beginning.
        src[(n - n / 3) * width..][..width].fill(0xFF);
        let all = [Isa::Scalar, isa].map(|isa| {
            let q = Quantizer::new(from, to, &scaling, &CastOptions::new().isa(isa)).expect("a pair");
            let groups = q.scale_shape(&shape).expect("a shape").iter().product();
            let size = |bytes: Result<usize, _>| vec![0; bytes.expect("a size")];
            let (mut codes, mut scales) = (size(q.code_bytes(&shape)), size(q.scale_bytes(&shape)));
            let mut zeros = vec![0; to.byte_len(groups, CastOptions::new().dst_packing).expect("a size")];
            let how = Parallel::new().threads(2);
            q.par_quantize_affine(&src, &shape, &mut codes, &mut scales, &mut zeros, &how).expect("sizes");
            [codes, scales, zeros]
        });
        for (what, (expected, found)) in ["codes", "scales", "zeros"].iter().zip(all[0].iter().zip(&all[1])) {
            assert_eq!(first_difference(expected, found), None, "{isa}: {what} of {from} {scaling:?}");
        }
    }
}

/// A cast that is stopped at the end of a pass that only finds something does not begin the next one.
fn stopped(isa: Isa) {
    let options = CastOptions::new().isa(isa);
    let shape = [4, 64];
    let src: Vec<u8> = (0..256).flat_map(|i| (i as f32).to_ne_bytes()).collect();
    let rows = Scaling::per_axis(0).profile(Profile::CompressedTensors);
    for (to, scaling, affine, passes) in [
        (DType::I8, Scaling::per_axis(0), false, 1),
        (DType::I8, Scaling::per_tensor(DType::F32), false, 2),
        (DType::F4E2M1, Scaling::nvfp4().tensor_scale(TensorScale::ComputeMultiply), false, 2),
        (DType::I8, rows, true, 2),
    ] {
        let q = Quantizer::new(DType::F32, to, &scaling, &options).expect("a pair");
        let mut scales = vec![0; q.scale_bytes(&shape).expect("a size")];
        let mut run = |at: usize| {
            let calls = AtomicUsize::new(0);
            let progress = |_| match calls.fetch_add(1, Ordering::Relaxed) + 1 == at {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            let how = Parallel::new().threads(1).progress(&progress);
            let mut codes = vec![0x55; q.code_bytes(&shape).expect("a size")];
            let result = if affine {
                q.par_quantize_affine(&src, &shape, &mut codes, &mut scales, &mut [0; 4], &how).map(|_| ())
            } else {
                q.par_quantize_with(&src, &shape, &mut codes, &mut scales, &how).map(|_| ())
            };
            (result, codes, calls.into_inner())
        };
        assert_eq!(run(0).2, passes, "{scaling:?}: one piece in each pass");
        for pass in 1..=passes {
            let (result, codes, calls) = run(pass);
            assert_eq!(calls, pass);
            if pass < passes {
                assert_eq!(result, Err(Error::Cancelled), "{scaling:?}");
                assert!(codes.iter().all(|code| *code == 0x55), "{scaling:?}: a pass too many");
            } else {
                assert_eq!(result, Ok(()), "{scaling:?}: all was done");
            }
        }
    }
}

/// The product of scale and factor is too small for float32, but large enough elements still do not become 0.
fn small_factors(isa: Isa) {
    let codes: Vec<u8> = (0..=u8::MAX).collect();
    for (scale, factor) in [(1, -3), (8, -9), (1 << 20, -30)] {
        let scaling = Scaling::per_tensor(DType::F32).tensor_scale(TensorScale::Multiply(2f32.powi(factor)));
        let options = CastOptions::new().isa(isa);
        let d = Dequantizer::new(DType::F8E4M3FN, DType::F32, &scaling, &options).unwrap();
        let mut out = vec![0; 4 * codes.len()];
        d.dequantize(&codes, &[codes.len()], &f32::from_bits(scale).to_ne_bytes(), None, &mut out).unwrap();
        for (code, found) in out.as_chunks().0.iter().enumerate() {
            let element = f64::from(lanecast::convert::<_, f32>(F8E4M3FN::from_bits(code as u8)));
            // Products of so few bits are exact in float64, so this rounds once.
            let expected = (element * f64::from(f32::from_bits(scale)) * 2f64.powi(factor)) as f32;
            let found = f32::from_ne_bytes(*found);
            assert!(
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                "{code:#04x} by {scale:#x} by 2^{factor}: {found:e}, not {expected:e}"
            );
        }
    }
}

/// Steps whose result is out of the range of their dtype: a divisor of scales, data in float32, the inverse of a scale in float16.
fn at_the_ends(isa: Isa) {
    use DType::{BF16, F4E2M1, F8E8M0, F16, F32, F64, I4};
    let options = CastOptions::new().isa(isa);
    let bytes = |values: &[f64], dtype: DType| {
        let all: Vec<u8> = values.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let mut out = vec![0; values.len() * dtype.bits() as usize / 8];
        lanecast::cast_bytes(&all, F64, &mut out, dtype, values.len()).expect("sizes that fit");
        out
    };
    // amax / (the largest bfloat16 * 8), which is a subnormal float32.
    let scaling = Scaling::blocks(&[16], F32).tensor_scale(TensorScale::Divide(0.125));
    let q = Quantizer::new(F16, BF16, &scaling, &options).expect("a pair");
    let (mut codes, mut scales) = ([0; 64], [0; 8]);
    q.quantize(&bytes(&[30000.0; 32], F16), &[32], &mut codes, &mut scales).expect("sizes that fit");
    let expected = (30000.0 / 8.0 / f64::from(f32::from_bits(0x7F7F_0000))) as f32;
    assert_eq!(scales, bytes(&[expected.into(); 2], F32)[..], "{isa}");

    // The largest float32 is Inf in bfloat16, in which ONNX divides here.
    let scaling = Scaling::per_tensor(F32).profile(Profile::Onnx).precision(BF16);
    let q = Quantizer::new(F32, BF16, &scaling, &options).expect("a pair");
    let (src, scale) = (bytes(&[f32::MAX.into(); 16], F32), 2f32.to_ne_bytes());
    let mut codes = [0; 32];
    q.quantize_given(&src, &[16], &scale, None, &mut codes).expect("sizes that fit");
    let lost = q.losses(&src, &[16], &codes, &scale, None, None).expect("sizes that fit");
    assert_eq!(
        (lost.saturated, codes),
        (16, bytes(&[f64::INFINITY; 16], BF16)[..].try_into().unwrap()),
        "{isa}"
    );

    // Data that become Inf in float16, in which ONNX divides here, by scales that are or become Inf, and by NaN: the zero point.
    for (from, scale, x, by) in [
        (DType::I32, F16, 1e5, f64::INFINITY),
        (F32, F32, 1e5, 1e5),
        (F32, F32, 1e5, f64::NAN),
        (F64, F32, 7.0, f64::INFINITY),
    ] {
        let scaling = Scaling::per_tensor(scale).profile(Profile::Onnx).precision(F16);
        let q = Quantizer::new(from, DType::U8, &scaling, &options).expect("a pair");
        let (src, mut codes) = (bytes(&[x; 16], from), [0; 16]);
        q.quantize_given(&src, &[16], &bytes(&[by], scale), Some(&[5]), &mut codes).expect("sizes that fit");
        assert_eq!(codes, [5; 16], "{isa}: {from} {x} by {by}");
    }

    // 2^129 under the scale 2^127 is in the range of float4, but 2^129 itself is Inf in float32.
    let scaling = Scaling::mx().profile(Profile::Torchao);
    let q = Quantizer::new(F64, F4E2M1, &scaling, &options).expect("a pair");
    assert_eq!(scaling.scale_dtype, F8E8M0);
    let src = bytes(&[2f64.powi(129); 32], F64);
    let mut codes = [0; 16];
    q.quantize_given(&src, &[32], &[254], None, &mut codes).expect("sizes that fit");
    let lost = q.losses(&src, &[32], &codes, &[254], None, None).expect("sizes that fit");
    assert_eq!((codes, lost.saturated), ([0x77; 16], 32), "{isa}");

    // The inverse of 2^-24 is Inf in float16.
    let scaling = Scaling::per_tensor(F16).profile(Profile::Torchao);
    let q = Quantizer::new(F64, I4, &scaling, &options).expect("a pair");
    let src = bytes(&[2f64.powi(-24); 32], F64);
    q.quantize_given(&src, &[32], &1u16.to_ne_bytes(), None, &mut codes).expect("sizes that fit");
    let lost = q.losses(&src, &[32], &codes, &1u16.to_ne_bytes(), None, None).expect("sizes that fit");
    assert_eq!((codes, lost.saturated), ([0x77; 16], 32), "{isa}");
}

/// To float32 elements there is nothing to round, since they have the mantissas of the data: `Even` gives what `Floor` gives.
fn nothing_to_round(isa: Isa) {
    let random = &mut Random::new(12);
    let src = data(random, DType::F32, 640);
    let [even, floor] = [ScaleRule::Even, ScaleRule::Floor].map(|rule| {
        let scaling = Scaling::mx().rule(rule).profile(Profile::Torchao);
        let q =
            Quantizer::new(DType::F32, DType::F32, &scaling, &CastOptions::new().isa(isa)).expect("a pair");
        let (mut codes, mut scales) = (vec![0; src.len()], vec![0; 20]);
        q.quantize(&src, &[640], &mut codes, &mut scales).expect("sizes that fit");
        (codes, scales)
    });
    assert_eq!(even, floor, "{isa}");
}
