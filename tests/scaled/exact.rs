//! Random scaled casts of every kind against exact rational numbers.

use lanecast::parallel::Parallel;
use lanecast::scaled::{
    Dequantizer, NonFinite, Profile, Quantizer, Requantizer, ScaleLayout, ScaleRule, Scaling, TensorScale,
};
use lanecast::{ByteOrder, CastOptions, DType, Isa, Packing};
use lanecast_oracle as oracle;
use oracle::scaled::{Factor, Rule};
use oracle::{Mode, Type};

use crate::bridge::{self, Suite, type_of};

/// Returns the number of random casts of each kind.
fn cases() -> usize {
    std::env::var("LANECAST_SCALED").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
}

pub(crate) fn tests(suite: &mut Suite) {
    suite.test("scales found, and undone", |isa| each(isa, found));
    suite.test("scales given", |isa| each(isa, given));
    suite.test("another scaling", |isa| each(isa, again));
    suite.test("DynamicQuantizeLinear", |isa| each(isa, dynamic));
    suite.test("DynamicQuantizeLinear of more than a chunk", dynamic_in_chunks);
    suite.test("powers of two change nothing but scales", powers_of_two);
    suite.test("NVFP4 with scales of float8_ue5m3", by_ue5m3);
    suite.test("int32 by scales of 8 bits", int32_by_bytes);
    suite.test("dtypes that there are not", refused);
    suite.test("what is printed of them", printed);
}

fn each(isa: Isa, case: impl Fn(&mut Random, Isa)) {
    for seed in 0..cases() as u64 {
        case(&mut Random::new(seed), isa);
    }
}

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.word() as usize % n
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

const DATA: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
const ELEMENTS: [DType; 22] = [
    DType::U2,
    DType::I2,
    DType::U4,
    DType::I4,
    DType::U8,
    DType::I8,
    DType::U16,
    DType::I16,
    DType::I32,
    DType::F4E2M1,
    DType::F6E2M3,
    DType::F6E3M2,
    DType::F8E3M4,
    DType::F8E4M3,
    DType::F8E4M3FN,
    DType::F8E4M3FNUZ,
    DType::F8E4M3B11FNUZ,
    DType::F8E5M2,
    DType::F8E5M2FNUZ,
    DType::F16,
    DType::BF16,
    DType::I8,
];
const SCALES: [DType; 8] = [
    DType::F8E8M0,
    DType::F8E8M0,
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F8E4M3FN,
    DType::F8E5M2FNUZ,
    DType::F8UE5M3,
];

/// A scaling, for the crate and for the oracle.
struct Case {
    shape: Vec<usize>,
    block: Vec<usize>,
    element: DType,
    scaling: Scaling,
    oracle: oracle::scaled::Scaling,
}

impl Case {
    fn new(random: &mut Random, shape: &[usize], element: DType) -> Self {
        let dims = random.below(shape.len() + 1);
        let mut block: Vec<usize> = (0..dims).map(|_| random.pick(&[0, 1, 3, 8, 16, 24, 32, 128])).collect();
        let scale = random.pick(&SCALES);
        let mut scaling = Scaling::blocks(&block, scale);
        if random.one_in(4) && !shape.is_empty() {
            let axis = random.below(shape.len());
            scaling = Scaling::along_axis(axis, 5, scale);
            block = (0..shape.len()).map(|i| if i == axis { 5 } else { 1 }).collect();
        } else {
            block.splice(0..0, vec![1; shape.len() - dims]);
        }
        let e8m0 = scale == DType::F8E8M0;
        let rules = [
            (ScaleRule::Floor, Rule::Floor),
            (ScaleRule::Ceil, Rule::Ceil),
            (ScaleRule::Even, Rule::Even),
            (ScaleRule::RoundUp, Rule::RoundUp),
        ];
        let rule = if e8m0 { random.pick(&rules) } else { (ScaleRule::Amax, Rule::Amax) };
        scaling = scaling.rule(rule.0);
        let factor = random.one_in(3).then(|| {
            let value = f32::from_bits(0x3000_0000 + random.below(0x2000_0000) as u32);
            Factor { code: value.to_bits(), divides: random.one_in(2) }
        });
        let ignores_nonfinite = random.one_in(3);
        if ignores_nonfinite {
            scaling = scaling.nonfinite(NonFinite::Ignore);
        }
        let modes = oracle::Rounding::ALL;
        let i = if random.one_in(3) { random.below(5) } else { 0 };
        scaling = scaling.int_rounding(lanecast::Rounding::ALL[i]);
        let oracle = oracle::scaled::Scaling {
            element: type_of(element),
            scale: type_of(scale),
            rule: rule.1,
            factor,
            int_rounding: modes[i],
            ignores_nonfinite,
        };
        scaling = scaling.layout(match random.below(6) {
            0 => ScaleLayout::ColumnMajor,
            1 if scale.bits() == 8 => ScaleLayout::Swizzle32x4x4,
            _ => ScaleLayout::RowMajor,
        });
        let mut case = Self { shape: shape.to_vec(), block, element, scaling, oracle };
        if let Some(factor) = factor {
            case.computed(factor);
        }
        case
    }

    /// Has the factor computed, sometimes where it can be. Returns whether it then divides.
    fn computes(&mut self, random: &mut Random) -> Option<bool> {
        if self.dtype() != DType::F8E4M3FN || random.one_in(3) {
            return None;
        }
        let divides = random.one_in(2);
        let tensor = if divides { TensorScale::ComputeDivide } else { TensorScale::ComputeMultiply };
        self.scaling = self.scaling.tensor_scale(tensor);
        Some(divides)
    }

    /// Sets the factor, or replaces one that was to be computed.
    fn computed(&mut self, factor: Factor) {
        let value = f32::from_bits(factor.code);
        let tensor = if factor.divides { TensorScale::Divide(value) } else { TensorScale::Multiply(value) };
        self.scaling = self.scaling.tensor_scale(tensor);
        self.oracle.factor = Some(factor);
    }

    /// Returns the factor, as it is reported.
    fn factor(&self) -> Option<f32> {
        self.oracle.factor.map(|factor| f32::from_bits(factor.code))
    }

    fn scale_shape(&self) -> Vec<usize> {
        let of = |(&n, &block): (&usize, &usize)| if block == 0 { n.min(1) } else { n.div_ceil(block) };
        self.shape.iter().zip(&self.block).map(of).collect()
    }

    /// Returns the index of the scale of each element, from the element's place in every dimension.
    fn scale_of_each(&self) -> Vec<usize> {
        let scales = self.scale_shape();
        let n: usize = self.shape.iter().product();
        let place = |element: usize| {
            let (mut rest, mut at, mut stride) = (element, 0, 1);
            for i in (0..self.shape.len()).rev() {
                let index = rest % self.shape[i];
                rest /= self.shape[i];
                at += index.checked_div(self.block[i]).unwrap_or(0) * stride;
                stride *= scales[i];
            }
            at
        };
        (0..n).map(place).collect()
    }

    fn dtype(&self) -> DType {
        self.scaling.scale_dtype
    }

    /// Returns the codes of the scales in their buffer, in row-major order, and asserts that the rest of the buffer is zero.
    fn scales(&self, bytes: &[u8]) -> Vec<u128> {
        let shape = self.scale_shape();
        let columns = shape.last().copied().unwrap_or(1);
        let rows = shape.iter().product::<usize>().checked_div(columns).unwrap_or(0);
        let width = self.dtype().bits() as usize / 8;
        let mut used = vec![false; bytes.len()];
        let mut codes = Vec::new();
        for (r, c) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
            let at = match self.scaling.layout {
                ScaleLayout::ColumnMajor => (c * rows + r) * width,
                ScaleLayout::Swizzle32x4x4 => {
                    ((r / 128) * columns.div_ceil(4) + c / 4) * 512 + (r % 32) * 16 + (r / 32 % 4) * 4 + c % 4
                }
                _ => (r * columns + c) * width,
            };
            let mut code = [0; 16];
            code[..width].copy_from_slice(&bytes[at..at + width]);
            used[at..at + width].fill(true);
            codes.push(u128::from_le_bytes(code));
        }
        assert!(
            bytes.iter().zip(used).all(|(&byte, used)| used || byte == 0),
            "the padding of scales is zero"
        );
        codes
    }
}

fn shape(random: &mut Random) -> Vec<usize> {
    match random.below(8) {
        0 => vec![random.below(200)],
        1 => vec![random.below(4), random.below(9), random.below(40)],
        2 => vec![2, 3, 4, 1 + random.below(9)],
        3 => vec![1 + random.below(140), 1 + random.below(9)],
        4 => vec![],
        _ => vec![1 + random.below(9), 1 + random.below(140)],
    }
}

/// Returns codes of floats that lie near each other, and of some that do not.
fn codes(random: &mut Random, dtype: DType, n: usize) -> Vec<u128> {
    let format = dtype.float_format().expect("a float");
    let (mantissa, bits) = (format.mantissa_bits(), dtype.bits());
    let fields = 1u64 << format.exponent_bits();
    let middle = if random.one_in(4) { random.word() % fields } else { (format.bias() + 2) as u64 };
    let is_coarse = random.one_in(3);
    let specials = random.one_in(4);
    (0..n)
        .map(|_| {
            if specials && random.one_in(40) {
                let top = fields - 1;
                return u128::from(random.pick(&[
                    0,
                    top << mantissa,
                    top << mantissa | 1 << (mantissa - 1),
                    1,
                ]));
            }
            let field = (middle + random.word() % 8).saturating_sub(4).min(fields - 2);
            let mut fraction = random.word() % (1 << mantissa);
            if is_coarse {
                // Makes ties, and exact quotients, more likely.
                fraction &= !0 << mantissa.saturating_sub(4);
            }
            u128::from(field << mantissa | fraction) | u128::from(random.word() & 1) << (bits - 1)
        })
        .collect()
}

/// Returns random codes of elements.
fn elements(random: &mut Random, dtype: DType, n: usize) -> Vec<u128> {
    (0..n).map(|_| u128::from(random.word()) & ((1 << dtype.bits()) - 1)).collect()
}

/// Returns random options, the oracle's mode for them, and the packing.
fn options(random: &mut Random, isa: Isa) -> (CastOptions, Mode, Packing) {
    let mut mode = Mode::default();
    if random.one_in(3) {
        mode.rounding = random.pick(&oracle::Rounding::ALL);
    }
    mode.saturate = !random.one_in(4);
    mode.nan_to_finite = random.pick(&oracle::NanToFinite::ALL);
    let packing =
        random.pick(&[Packing::LowFirst, Packing::LowFirst, Packing::HighFirst, Packing::OnePerByte]);
    let options = bridge::options(&mode).isa(isa).src_order(ByteOrder::Little).dst_order(ByteOrder::Little);
    (options.src_packing(packing).dst_packing(packing), mode, packing)
}

fn pack(dtype: DType, codes: &[u128], packing: Packing) -> Vec<u8> {
    let packing = match packing {
        Packing::LowFirst => oracle::packing::Packing::LowFirst,
        Packing::OnePerByte => oracle::packing::Packing::OnePerByte,
        Packing::HighFirst => oracle::packing::Packing::HighFirst,
    };
    oracle::packing::pack(codes, dtype.bits(), packing)
}

fn unpack(dtype: DType, bytes: &[u8], n: usize, packing: Packing) -> Vec<u128> {
    let packing = match packing {
        Packing::LowFirst => oracle::packing::Packing::LowFirst,
        Packing::OnePerByte => oracle::packing::Packing::OnePerByte,
        Packing::HighFirst => oracle::packing::Packing::HighFirst,
    };
    oracle::packing::unpack(bytes, n, dtype.bits(), packing)
}

/// ONNX's DynamicQuantizeLinear, of a tensor and of groups.
fn dynamic(random: &mut Random, isa: Isa) {
    let shape = [1 + random.below(6), 1 + random.below(140)];
    let n = shape[0] * shape[1];
    let (scaling, row, group) = match random.below(3) {
        0 => (Scaling::per_tensor(DType::F32), n, n),
        1 => (Scaling::per_axis(0), shape[1], shape[1]),
        _ => (Scaling::blocks(&[16], DType::F32), shape[1], 16),
    };
    let mut src = if random.one_in(3) { halves(random, n) } else { codes(random, DType::F32, n) };
    let sides = random.below(6);
    for code in &mut src {
        match sides {
            0 => *code &= 0x7FFF_FFFF,
            1 => *code |= 0x8000_0000,
            _ => {}
        }
    }
    let groups: Vec<&[u128]> = src.chunks(row).flat_map(|row| row.chunks(group)).collect();
    dynamic_of(isa, &scaling, &shape, &groups, &threads(random));
}

/// With both extremes in any of several chunks, of different threads.
fn dynamic_in_chunks(isa: Isa) {
    let random = &mut Random::new(11);
    for _ in 0..3 {
        let n = 40_000 + random.below(3000);
        let mut src: Vec<u128> =
            (0..n).map(|_| ((random.below(512) as f32 - 300.0) / 512.0).to_bits().into()).collect();
        for extreme in [0.8f32, -0.9] {
            src[random.below(n)] = extreme.to_bits().into();
        }
        let how = Parallel::new().threads(3).chunk(1);
        dynamic_of(isa, &Scaling::per_tensor(DType::F32), &[n], &[&src], &how);
    }
}

fn dynamic_of(isa: Isa, scaling: &Scaling, shape: &[usize], groups: &[&[u128]], how: &Parallel<'_>) {
    let options = CastOptions::new().isa(isa).src_order(ByteOrder::Little).dst_order(ByteOrder::Little);
    let scaling = scaling.profile(Profile::Onnx);
    let q = Quantizer::new(DType::F32, DType::U8, &scaling, &options).expect("a pair");
    let src = groups.concat();
    let (mut dst, mut scales, mut zeros) =
        (vec![0xA5; src.len()], vec![0xA5; 4 * groups.len()], vec![0xA5; groups.len()]);
    let packed = pack(DType::F32, &src, Packing::LowFirst);
    q.par_quantize_affine(&packed, shape, &mut dst, &mut scales, &mut zeros, how).expect("sizes that fit");
    let mut rest = &dst[..];
    for (i, group) in groups.iter().enumerate() {
        let (y, scale, zero) = oracle::scaled::dynamic_quantize(group);
        let what = format!("{isa} {shape:?} group {i} of {group:x?}");
        assert_eq!(u128::from(u32::from_le_bytes(scales.as_chunks().0[i])), scale, "scale: {what}");
        assert_eq!(u128::from(zeros[i]), zero, "zero point: {what}");
        let (codes, others) = rest.split_at(group.len());
        assert!(codes.iter().map(|&code| u128::from(code)).eq(y), "elements: {what}: {codes:x?}");
        rest = others;
    }
}

/// Returns codes of float32s that are halves of a power of two, which is their scale, so that elements and zero points are ties.
fn halves(random: &mut Random, n: usize) -> Vec<u128> {
    let (unit, zero) = (2f32.powi(random.below(245) as i32 - 126), random.below(511) as f32 / 2.0);
    let each = |i: usize| match i % 16 {
        0 => 0.0,
        1 => 255.0,
        _ => random.below(511) as f32 / 2.0,
    };
    (0..n).map(each).map(|x| ((x - zero) * unit).to_bits().into()).collect()
}

fn threads<'a>(random: &mut Random) -> Parallel<'a> {
    match random.below(3) {
        0 => Parallel::new().threads(1),
        1 => Parallel::new().threads(3).chunk(1),
        _ => Parallel::new(),
    }
}

/// Sets stochastic rounding, sometimes where that can be. Returns its seed and its first element.
fn stochastic(random: &mut Random, element: DType, options: &mut CastOptions) -> Option<(u64, u64)> {
    let rounds = element.float_format().is_some_and(|format| format.bits() <= 16);
    let chance = (random.one_in(4) && rounds).then(|| (random.word(), random.word()));
    if let Some((seed, first)) = chance {
        *options = options.stochastic(seed, first);
    }
    chance
}

/// Returns the random word of an element.
fn word(chance: Option<(u64, u64)>, element: usize) -> Option<u32> {
    chance.map(|(seed, first)| oracle::scaled::word(seed, first.wrapping_add(element as u64)))
}

fn found(random: &mut Random, isa: Isa) {
    let (shape, from, element) = (shape(random), random.pick(&DATA), random.pick(&ELEMENTS));
    let mut case = Case::new(random, &shape, element);
    let (mut options, mode, packing) = options(random, isa);
    let n: usize = shape.iter().product();
    let source = codes(random, from, n);
    let chance = stochastic(random, element, &mut options);
    let computes = case.computes(random);
    let q = Quantizer::new(from, element, &case.scaling, &options).expect("a quantisation");
    let what = format!("{shape:?} {from} -> {element}, {:?}, {options:?}", case.scaling);
    let mut dst = vec![0xA5; q.code_bytes(&shape).expect("a size")];
    let mut scales = vec![0xA5; q.scale_bytes(&shape).expect("a size")];
    let src = pack(from, &source, Packing::LowFirst);
    let made = q.par_quantize_with(&src, &shape, &mut dst, &mut scales, &threads(random));
    if let Some(divides) = computes {
        case.computed(oracle::scaled::factor(&case.oracle, type_of(from), &source, divides));
    }
    assert_eq!(made.expect("sizes that fit").tensor_scale, case.factor(), "the factor: {what}");
    let of_each = case.scale_of_each();
    let mut blocks = vec![Vec::new(); case.scale_shape().iter().product()];
    for (&scale, &code) in of_each.iter().zip(&source) {
        blocks[scale].push(code);
    }
    let found = case.scales(&scales);
    for (i, (block, &scale)) in blocks.iter().zip(&found).enumerate() {
        let expected = oracle::scaled::find(&case.oracle, type_of(from), block);
        assert_eq!(scale, expected, "scale {i}: {what}");
    }
    let got = unpack(element, &dst, n, packing);
    for i in 0..n {
        let (word, scale) = (word(chance, i), found[of_each[i]]);
        let expected =
            oracle::scaled::quantize(&case.oracle, type_of(from), source[i], scale, 0, &mode, word);
        assert_eq!(got[i], expected, "element {i}, {:x} by {scale:x}: {what}", source[i]);
    }
    // Dequantise the result.
    let to = random.pick(&DATA);
    undo(random, &case, to, &options, &mode, &got, &dst, &found, &scales, None);
}

#[expect(clippy::too_many_arguments, reason = "everything that a dequantisation has")]
fn undo(
    random: &mut Random,
    case: &Case,
    to: DType,
    options: &CastOptions,
    mode: &Mode,
    codes: &[u128],
    src: &[u8],
    scales: &[u128],
    scale_bytes: &[u8],
    zeros: Option<(&[u128], &[u8])>,
) {
    let d = Dequantizer::new(case.element, to, &case.scaling, options).expect("a dequantisation");
    let mut dst = vec![0xA5; codes.len() * to.bits() as usize / 8];
    d.par_dequantize_with(src, &case.shape, scale_bytes, zeros.map(|z| z.1), &mut dst, &threads(random))
        .expect("sizes that fit");
    let got = unpack(to, &dst, codes.len(), Packing::LowFirst);
    for (i, &scale) in case.scale_of_each().iter().enumerate() {
        let zero = zeros.map_or(0, |z| signed(case.element, z.0[scale]));
        let expected =
            oracle::scaled::dequantize(&case.oracle, type_of(to), codes[i], scales[scale], zero, mode);
        assert_eq!(
            got[i], expected,
            "element {i}, {:x} by {:x} less {zero} -> {to}: {:?} {options:?}",
            codes[i], scales[scale], case.scaling
        );
    }
}

fn signed(dtype: DType, code: u128) -> i128 {
    let bits = dtype.bits();
    if Type::is_signed_integer(type_of(dtype)) && code >> (bits - 1) != 0 {
        code as i128 - (1 << bits)
    } else {
        code as i128
    }
}

/// Returns codes of scales as a buffer in the case's layout.
fn scale_buffer(case: &Case, codes: &[u128]) -> Vec<u8> {
    let shape = case.scale_shape();
    let columns = shape.last().copied().unwrap_or(1);
    let rows = codes.len().checked_div(columns).unwrap_or(0);
    let width = case.dtype().bits() as usize / 8;
    let mut bytes = vec![0; case.scaling.scale_bytes(&case.shape).expect("a size")];
    for (i, code) in codes.iter().enumerate() {
        let (r, c) = (i / columns, i % columns);
        let at = match case.scaling.layout {
            ScaleLayout::ColumnMajor => (c * rows + r) * width,
            ScaleLayout::Swizzle32x4x4 => {
                ((r / 128) * columns.div_ceil(4) + c / 4) * 512 + (r % 32) * 16 + (r / 32 % 4) * 4 + c % 4
            }
            _ => i * width,
        };
        bytes[at..at + width].copy_from_slice(&code.to_le_bytes()[..width]);
    }
    bytes
}

/// Casts under given scales of any codes: zeros, negative ones, Inf and NaN too.
fn given(random: &mut Random, isa: Isa) {
    let (shape, from, element) = (shape(random), random.pick(&DATA), random.pick(&ELEMENTS));
    let case = Case::new(random, &shape, element);
    let (mut options, mode, packing) = options(random, isa);
    let chance = stochastic(random, element, &mut options);
    let n: usize = shape.iter().product();
    let count = case.scale_shape().iter().product();
    let scales = if random.one_in(2) {
        elements(random, case.dtype(), count)
    } else {
        // Scales near 1.
        let format = case.dtype().float_format().expect("a float");
        let one = (format.bias() as u128) << format.mantissa_bits();
        (0..count).map(|_| one.saturating_add_signed(random.below(9) as i128 - 4)).collect()
    };
    let scale_bytes = scale_buffer(&case, &scales);
    let is_integer = element.float_format().is_none();
    let zeros = (is_integer && random.one_in(2)).then(|| elements(random, element, count));
    let zero_bytes = zeros.as_ref().map(|zeros| pack(element, zeros, packing));
    let source = codes(random, from, n);
    let q = Quantizer::new(from, element, &case.scaling, &options).expect("a quantisation");
    let mut dst = vec![0xA5; q.code_bytes(&shape).expect("a size")];
    let src = pack(from, &source, Packing::LowFirst);
    q.par_quantize_given(&src, &shape, &scale_bytes, zero_bytes.as_deref(), &mut dst, &threads(random))
        .expect("sizes that fit");
    let got = unpack(element, &dst, n, packing);
    for (i, &at) in case.scale_of_each().iter().enumerate() {
        let zero = zeros.as_ref().map_or(0, |zeros| signed(element, zeros[at]));
        let (code, scale, word) = (source[i], scales[at], word(chance, i));
        let expected = oracle::scaled::quantize(&case.oracle, type_of(from), code, scale, zero, &mode, word);
        assert_eq!(
            got[i], expected,
            "element {i}, {code:x} by {scale:x} and {zero}: {from} -> {element}, {:?}, {options:?}",
            case.scaling
        );
    }
    let source = elements(random, element, n);
    let src = pack(element, &source, packing);
    let to = random.pick(&DATA);
    let zeros = zeros.as_deref().zip(zero_bytes.as_deref());
    undo(random, &case, to, &options, &mode, &source, &src, &scales, &scale_bytes, zeros);
}

/// Casts from one scaling into another.
fn again(random: &mut Random, isa: Isa) {
    let shape = shape(random);
    let (from, to) = (random.pick(&ELEMENTS), random.pick(&ELEMENTS));
    let (source, mut target) = (Case::new(random, &shape, from), Case::new(random, &shape, to));
    let (mut options, mode, packing) = options(random, isa);
    let (chance, computes) = (stochastic(random, to, &mut options), target.computes(random));
    let n: usize = shape.iter().product();
    let count = source.scale_shape().iter().product();
    let (codes, scales) = (elements(random, from, n), elements(random, source.dtype(), count));
    let is_integer = from.float_format().is_none();
    let zeros = (is_integer && random.one_in(2)).then(|| elements(random, from, count));
    let zero_bytes = zeros.as_ref().map(|zeros| pack(from, zeros, packing));
    let r = Requantizer::new((from, &source.scaling), (to, &target.scaling), &options).expect("a pair");
    let what = format!("{shape:?} {from} -> {to}, {:?} -> {:?}, {options:?}", source.scaling, target.scaling);
    let mut dst = vec![0xA5; to.byte_len(n, packing).expect("a size")];
    let mut found = vec![0xA5; target.scaling.scale_bytes(&shape).expect("a size")];
    let (src, src_scales) = (pack(from, &codes, packing), scale_buffer(&source, &scales));
    let (zero_points, how) = (zero_bytes.as_deref(), threads(random));
    let made = r.par_requantize_with(&src, &shape, &src_scales, zero_points, &mut dst, &mut found, &how);
    let zero = |at: usize| zeros.as_ref().map_or(0, |zeros| signed(from, zeros[at]));
    let elements: Vec<_> =
        source.scale_of_each().iter().zip(&codes).map(|(&at, &code)| (code, scales[at], zero(at))).collect();
    if let Some(divides) = computes {
        target.computed(oracle::scaled::refactor(&target.oracle, &source.oracle, &elements, divides));
    }
    assert_eq!(made.expect("sizes that fit").tensor_scale, target.factor(), "the factor: {what}");
    let of_each = target.scale_of_each();
    let mut blocks = vec![Vec::new(); target.scale_shape().iter().product()];
    for (&at, &element) in of_each.iter().zip(&elements) {
        blocks[at].push(element);
    }
    let found = target.scales(&found);
    for (i, (block, &scale)) in blocks.iter().zip(&found).enumerate() {
        let expected = oracle::scaled::refind(&target.oracle, &source.oracle, block);
        assert_eq!(scale, expected, "scale {i}: {what}");
    }
    let got = unpack(to, &dst, n, packing);
    for i in 0..n {
        let (word, scale, element) = (word(chance, i), found[of_each[i]], elements[i]);
        let expected =
            oracle::scaled::requantize(&target.oracle, &source.oracle, element, scale, &mode, word);
        assert_eq!(got[i], expected, "element {i}, {element:x?} by {scale:x}: {what}");
    }
}

/// Data multiplied by 2^k get the same codes, with scales multiplied by 2^k; dequantised values quantise to themselves.
fn powers_of_two(isa: Isa) {
    let mut random = Random(7);
    let (rows, columns) = (5, 96);
    for (scaling, to) in [
        (Scaling::mx(), DType::F8E4M3FN),
        (Scaling::mx().rule(ScaleRule::RoundUp), DType::F4E2M1),
        (Scaling::mx().rule(ScaleRule::Even), DType::I8),
        (Scaling::blocks(&[1, 0], DType::F32), DType::I8),
        (Scaling::deepseek(), DType::F8E4M3FN),
    ] {
        let q = Quantizer::new(DType::F32, to, &scaling, &CastOptions::new().isa(isa)).expect("a pair");
        let d = Dequantizer::new(to, DType::F32, &scaling, &CastOptions::new().isa(isa)).expect("a pair");
        let data: Vec<f32> =
            (0..rows * columns).map(|_| (random.below(2001) as f32 - 1000.0) / 64.0).collect();
        let shape = [rows, columns];
        let run = |data: &[f32]| {
            let src: Vec<u8> = data.iter().flat_map(|x| x.to_ne_bytes()).collect();
            let mut codes = vec![0; q.code_bytes(&shape).expect("a size")];
            let mut scales = vec![0; q.scale_bytes(&shape).expect("a size")];
            q.quantize(&src, &shape, &mut codes, &mut scales).expect("sizes that fit");
            let mut back = vec![0; src.len()];
            d.dequantize(&codes, &shape, &scales, None, &mut back).expect("sizes that fit");
            let (back, _) = back.as_chunks();
            (codes, back.iter().map(|&x| f32::from_ne_bytes(x)).collect::<Vec<_>>())
        };
        let (codes, back) = run(&data);
        let (larger, larger_back) = run(&data.iter().map(|x| x * 32.0).collect::<Vec<_>>());
        assert_eq!(codes, larger, "{to} {scaling:?}");
        assert!(back.iter().zip(&larger_back).all(|(x, y)| x * 32.0 == *y), "{to} {scaling:?}");
        // The dequantised values lead to the same power of two as scale, which the largest code determines.
        if scaling.scale_dtype == DType::F8E8M0 && to != DType::I8 {
            assert_eq!(run(&back).1, back, "{to} {scaling:?}");
        }
    }
}

/// A block of each kind, computed by hand: the scale is amax / 6 rounded to 3 bits of mantissa, from 2^-17 (01) to 114688 (FE); FF is NaN.
fn by_ue5m3(isa: Isa) {
    let (max, nan) = (f32::INFINITY, f32::NAN);
    /// The first elements of a block (the others are 0), its scale, the codes of these elements, and the values of the codes.
    type Block = ([f32; 3], u8, [u8; 3], [f32; 3]);
    #[rustfmt::skip]
    let blocks: [Block; 8] = [
        ([7.5, -2.5, 0.625],       0x7A, [0x7, 0xC, 0x1], [7.5, -2.5, 0.625]),       // 1.25
        ([6.4, 3.2, -1.0],         0x79, [0x7, 0x5, 0xA], [6.75, 3.375, -1.125]),    // 1.0667: 1.125 is nearer than 1
        ([7e5, -3e5, 1e5],         0xFE, [0x7, 0xD, 0x2], [688128.0, -344064.0, 114688.0]), // 116667: no more than 114688
        ([1e30, 114688.0, 0.0],    0xFE, [0x7, 0x2, 0x0], [688128.0, 114688.0, 0.0]),
        ([1e-9, -1e-4, 6e-6],      0x02, [0x0, 0xF, 0x1], [0.0, -9.1552734e-5, 7.6293945e-6]), // 1.67e-5: 2 * 2^-17
        ([0.0, -0.0, 0.0],         0x78, [0x0, 0x8, 0x0], [0.0, -0.0, 0.0]),         // only zeros: 1
        ([1e-9, -1e-9, 0.0],       0x01, [0x0, 0x8, 0x0], [0.0, -0.0, 0.0]),         // rounds to 0: the smallest
        ([1.0, max, -max],         0xFE, [0x0, 0x7, 0xF], [0.0, 688128.0, -688128.0]),
    ];
    let scaling = Scaling::nvfp4().scale(DType::F8UE5M3);
    let options =
        CastOptions::new().isa(isa).dst_packing(Packing::OnePerByte).src_packing(Packing::OnePerByte);
    let q = Quantizer::new(DType::F32, DType::F4E2M1, &scaling, &options).expect("a pair");
    let d = Dequantizer::new(DType::F4E2M1, DType::F32, &scaling, &options).expect("a pair");
    let row = |first: [f32; 3]| first.into_iter().chain([0.0; 13]);
    let data: Vec<u8> = blocks.iter().flat_map(|block| row(block.0)).flat_map(f32::to_ne_bytes).collect();
    let shape = [blocks.len(), 16];
    let (mut codes, mut scales, mut back) =
        (vec![0xA5; 16 * blocks.len()], vec![0xA5; blocks.len()], data.clone());
    q.quantize(&data, &shape, &mut codes, &mut scales).expect("sizes that fit");
    d.dequantize(&codes, &shape, &scales, None, &mut back).expect("sizes that fit");
    for (i, (_, scale, of, values)) in blocks.into_iter().enumerate() {
        assert_eq!((scales[i], &codes[16 * i..][..3]), (scale, &of[..]), "{isa}: block {i}");
        let expected: Vec<u8> = row(values).flat_map(f32::to_ne_bytes).collect();
        assert!(back[64 * i..][..64] == expected, "{isa}: block {i}");
    }
    // A NaN makes the scale NaN, and under that scale every element is NaN.
    let data: Vec<u8> = row([1.0, nan, 2.0]).flat_map(f32::to_ne_bytes).collect();
    let (codes, mut scale, mut back) = (&mut codes[..16], [0], [0; 64]);
    q.quantize(&data, &[16], codes, &mut scale).expect("sizes that fit");
    d.dequantize(codes, &[16], &scale, None, &mut back).expect("sizes that fit");
    assert_eq!(scale, [0xFF]);
    assert!(back.as_chunks().0.iter().all(|&x| f32::from_ne_bytes(x).is_nan()));
}

/// ONNX's profile divides int32 in float32 where scales have 8 bits, whether or not they have a mantissa.
fn int32_by_bytes(isa: Isa) {
    let src: Vec<u8> = [7i32, -5, 16_777_217, 100].iter().flat_map(|x| x.to_ne_bytes()).collect();
    for (scale, two) in [(DType::F8E8M0, 128), (DType::F8E4M3FN, 0x40), (DType::F8UE5M3, 0x80)] {
        let scaling = Scaling::per_tensor(scale).profile(Profile::Onnx);
        let q =
            Quantizer::new(DType::I32, DType::F32, &scaling, &CastOptions::new().isa(isa)).expect("a pair");
        let mut out = [0; 16];
        q.quantize_given(&src, &[4], &[two], None, &mut out).expect("sizes that fit");
        let out: Vec<f32> = out.as_chunks().0.iter().map(|&x| f32::from_ne_bytes(x)).collect();
        assert_eq!(out, [3.5, -2.5, 8_388_608.0, 50.0], "{isa} {scale}");
    }
}

/// Dtypes of one bit and floats without a sign are refused as quantised elements; bools, integers and complex numbers as scales.
fn refused(isa: Isa) {
    let options = CastOptions::new().isa(isa);
    let says = |error: lanecast::scaled::Error, start: String| {
        assert!(error.to_string().starts_with(&start), "{error}")
    };
    for dtype in [DType::U1, DType::I1, DType::F8UE5M3, DType::F8E8M0, DType::Bool, DType::C32] {
        let scaling = Scaling::per_tensor(DType::F32);
        let error = Quantizer::new(DType::F32, dtype, &scaling, &options).unwrap_err();
        says(error, format!("cannot quantize from float32 to {dtype}: data must be real floats"));
        let error = Dequantizer::new(dtype, DType::F32, &scaling, &options).unwrap_err();
        says(error, format!("cannot dequantize from {dtype} to float32: data must be real floats"));
    }
    let onnx = Scaling::per_tensor(DType::F32).profile(Profile::Onnx);
    let error = Quantizer::new(DType::I16, DType::I8, &onnx, &options).unwrap_err().to_string();
    assert!(error.contains("(quantized under the profile onnx, also int32)"), "{error}");
    for dtype in [DType::U1, DType::U8, DType::Bool, DType::F6E3M2, DType::F64, DType::BC32] {
        let scaling = Scaling::per_tensor(dtype);
        let error = Quantizer::new(DType::F32, DType::I8, &scaling, &options).unwrap_err();
        for error in [error, scaling.scale_bytes(&[4]).unwrap_err()] {
            says(error, format!("scales cannot be of {dtype}; they must be real floats"));
        }
    }
    // The error names what refuses the cast, and what to do about it.
    let error = |from, to, scaling: Scaling| Quantizer::new(from, to, &scaling, &options).unwrap_err();
    let nvfp4 = Scaling::nvfp4();
    for (profile, tensor_scale, what) in [
        (Profile::Modelopt, TensorScale::None, "multiplies by a tensor scale in NVFP4: give one"),
        (Profile::Comfy, TensorScale::Divide(2.0), "multiplies by a tensor scale in NVFP4: give one"),
        (Profile::CompressedTensors, TensorScale::None, "divides by a tensor scale in NVFP4: give one"),
        (
            Profile::Torchao,
            TensorScale::ComputeDivide,
            "does not divide by a tensor scale in NVFP4: give one",
        ),
    ] {
        let scaling = nvfp4.profile(profile).tensor_scale(tensor_scale);
        says(error(DType::F32, DType::F4E2M1, scaling), format!("the profile {profile} {what}"));
    }
    let mx = Scaling::mx().profile(Profile::Torchao);
    says(
        error(DType::F32, DType::F8E4M3FN, mx.tensor_scale(TensorScale::Multiply(2.0))),
        "the profile torchao has no tensor scale for these dtypes: give none".to_owned(),
    );
    let onnx = Scaling::per_tensor(DType::F32).profile(Profile::Onnx);
    let q = Quantizer::new(DType::F32, DType::I8, &onnx, &options).expect("a pair");
    says(
        q.quantize(&[0; 16], &[4], &mut [0; 4], &mut [0; 4]).unwrap_err(),
        "the profile onnx finds no scales for these dtypes: they must be given".to_owned(),
    );
    says(
        q.quantize_affine(&[0; 16], &[4], &mut [0; 4], &mut [0; 4], &mut [0]).unwrap_err(),
        "the profile onnx finds no zero points for these dtypes: give them, or use the profile compressed_tensors"
            .to_owned(),
    );
    let e4m3 = DType::F8E4M3FN;
    let compressed = Scaling::per_tensor(DType::F32).profile(Profile::CompressedTensors);
    let q = Quantizer::new(DType::F32, e4m3, &compressed, &options).expect("a pair");
    says(
        q.quantize_affine(&[0; 16], &[4], &mut [0; 4], &mut [0; 4], &mut [0; 4]).unwrap_err(),
        "floats have no zero point".to_owned(),
    );
    says(
        error(DType::F32, DType::I8, Scaling::per_tensor(DType::F32).rule(ScaleRule::Floor)),
        "scales of float8_e8m0fnu need a rule other than amax; all other scales need the rule amax"
            .to_owned(),
    );
    let refused = |from, to| Requantizer::new((e4m3, from), (e4m3, to), &options).unwrap_err();
    for (from, to) in [(&Scaling::mx(), &mx), (&mx, &Scaling::mx())] {
        let start = "the profile torchao does not requantize, which rounds only once: use the profile lanecast or ocp";
        says(refused(from, to), start.to_owned());
    }
    let compressed = nvfp4.profile(Profile::CompressedTensors);
    says(
        Dequantizer::new(DType::F4E2M1, DType::F32, &compressed, &options).unwrap_err(),
        "the profile compressed_tensors dequantizes NVFP4 only to bfloat16".to_owned(),
    );
    // The error shows sizes that are too large as they were given.
    let half = 1 << (usize::BITS / 2 - 1);
    let d =
        Dequantizer::new(DType::I32, DType::F32, &Scaling::per_tensor(DType::F32), &options).expect("a pair");
    let start = format!("a buffer for shape [{half}, {half}] does not fit");
    says(d.code_bytes(&[half, half]).unwrap_err(), start);
    // No dimension, however large, is mistaken for "none".
    for axis in [2, 7, 8, 9, usize::MAX] {
        for scaling in [Scaling::per_axis(axis), Scaling::along_axis(axis, 0, DType::F32)] {
            let error = scaling.scale_shape(&[4, 64]).unwrap_err();
            assert_eq!(error.to_string(), format!("data of shape [4, 64] have no axis {axis}"));
        }
    }
}

/// `{:?}` shows what the caller asked for, and not how it is done.
fn printed(isa: Isa) {
    let (options, scaling) = (CastOptions::new().isa(isa), Scaling::mx());
    let (float, code) = (DType::F32, DType::F4E2M1);
    let says = |debug: String, name: &str, from: &str, to: &str| {
        assert!(debug.starts_with(&format!("{name} {{ from: {from}, to: {to}, ")), "{debug}");
        assert!(debug.ends_with(&format!(", options: {options:?} }}")), "{debug}");
    };
    let quantizer = Quantizer::new(float, code, &scaling, &options).expect("a pair");
    says(format!("{quantizer:?}"), "Quantizer", "float32", &format!("float4_e2m1fn, scaling: {scaling:?}"));
    let dequantizer = Dequantizer::new(code, float, &scaling, &options).expect("a pair");
    says(
        format!("{dequantizer:?}"),
        "Dequantizer",
        "float4_e2m1fn",
        &format!("float32, scaling: {scaling:?}"),
    );
    let requantizer = Requantizer::new((code, &scaling), (code, &scaling), &options).expect("a pair");
    let side = format!("(float4_e2m1fn, {scaling:?})");
    says(format!("{requantizer:?}"), "Requantizer", &side, &side);
}
