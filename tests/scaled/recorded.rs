//! Scaled casts against `tests/fixtures/scaled.tsv`: results of packages, and of exact rational numbers.

use std::collections::HashMap;
use std::panic::catch_unwind;

use lanecast::parallel::Parallel;
use lanecast::scaled::{
    Dequantizer, Profile, Quantizer, Requantizer, ScaleLayout, ScaleRule, Scaling, TensorScale,
};
use lanecast::{ByteOrder, CastOptions, DType, Isa, Kind, Packing};

use crate::bridge::Suite;

const ROWS: &str = include_str!("../fixtures/scaled.tsv");

pub(crate) fn tests(suite: &mut Suite) {
    suite.test("recorded", |isa| {
        let (mut cases, mut elements, mut failed) = (0, 0, Vec::new());
        for row in ROWS.lines().filter(|row| !row.starts_with('#')) {
            let row: Vec<&str> = row.split('\t').collect();
            match row[0] {
                "quantize" | "dequantize" | "requantize" => {
                    match catch_unwind(|| Case::new(isa, &row).check()) {
                        Ok(n) => elements += n,
                        Err(_) => failed.push(row[1]),
                    }
                }
                "swizzle" => swizzle(isa, &row),
                "cast" if row[8] == "-" => cast(isa, &row),
                // `tests/stochastic.rs` tests these.
                "word" | "cast" => continue,
                other => panic!("{other}"),
            }
            cases += 1;
        }
        assert!(failed.is_empty(), "{failed:?}");
        assert!(cases >= 80 && elements > 15_000, "{cases} cases of {elements} elements");
    });
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect(text)).collect()
}

/// Checks a row of a cast without a scale.
fn cast(isa: Isa, row: &[&str]) {
    let [from, to] = [row[3], row[4]].map(|name| name.parse::<DType>().expect(name));
    let little = CastOptions::new().isa(isa).src_order(ByteOrder::Little).dst_order(ByteOrder::Little);
    let (expected, n) = (hex(row[11]), row[5].parse().expect("a number"));
    let mut dst = vec![0xA5; expected.len()];
    lanecast::cast_bytes_with(&hex(row[9]), from, &mut dst, to, n, &little).expect("sizes that fit");
    assert_eq!(dst, expected, "{}", row[1]);
}

fn lengths(text: &str) -> Vec<usize> {
    text.split('x').map(|length| length.parse().expect(text)).collect()
}

struct Case<'a> {
    id: &'a str,
    op: &'a str,
    profile: &'a str,
    from: DType,
    to: DType,
    shape: Vec<usize>,
    words: HashMap<&'a str, &'a str>,
    scaling: Scaling,
    options: CastOptions,
    src: Vec<u8>,
    scale: Vec<u8>,
    dst: Vec<u8>,
    is_package: bool,
}

impl<'a> Case<'a> {
    fn new(isa: Isa, row: &[&'a str]) -> Self {
        let [op, id, profile, from, to, shape, block, scale_dtype, words, src, scale, dst, made_by] = *row
        else {
            panic!("{row:?}");
        };
        let words: HashMap<&str, &str> = words.split(',').filter_map(|word| word.split_once('=')).collect();
        let dtype = |name: &str| name.parse::<DType>().expect(name);
        let mut options =
            CastOptions::new().isa(isa).src_order(ByteOrder::Little).dst_order(ByteOrder::Little);
        let mut scaling = Scaling::blocks(&lengths(block), dtype(scale_dtype)).profile(match profile {
            "lanecast" => Profile::Lanecast,
            "torchao" => Profile::Torchao,
            "modelopt" => Profile::Modelopt,
            "compressed_tensors" => Profile::CompressedTensors,
            "hf_fp8" => Profile::HfFp8,
            "comfy" => Profile::Comfy,
            "gpt_oss" => Profile::GptOss,
            "f32" => Profile::F32,
            "output" => Profile::Output,
            other => panic!("{other}"),
        });
        if words.get("layout").is_some_and(|&layout| layout == "swizzle_32_4_4") {
            scaling = scaling.layout(ScaleLayout::Swizzle32x4x4);
        }
        if words.get("packing").is_some_and(|&packing| packing == "high_first") {
            options = options.src_packing(Packing::HighFirst).dst_packing(Packing::HighFirst);
        }
        if let (Some(seed), Some(first)) = (words.get("seed"), words.get("first")) {
            options = options.stochastic(seed.parse().expect(id), first.parse().expect(id));
        }
        let rule = words.get("rule").map(|&rule| match rule {
            "floor" => ScaleRule::Floor,
            "ceil" => ScaleRule::Ceil,
            "even" => ScaleRule::Even,
            "round_up" => ScaleRule::RoundUp,
            other => panic!("{other}"),
        });
        // For a requantisation, the rule is the destination's.
        if let Some(rule) = rule.filter(|_| op != "requantize") {
            scaling = scaling.rule(rule);
        }
        let factor = words.get("g").map(|g| f32::from_le_bytes(hex(g).try_into().expect("four bytes")));
        if let (Some(&form), Some(g)) = (words.get("tensor"), factor) {
            scaling = scaling.tensor_scale(match form {
                "multiply" => TensorScale::Multiply(g),
                "divide" => TensorScale::Divide(g),
                "compute_multiply" => TensorScale::ComputeMultiply,
                "compute_divide" => TensorScale::ComputeDivide,
                other => panic!("{other}"),
            });
        }
        Self {
            id,
            op,
            profile,
            from: dtype(from),
            to: dtype(to),
            shape: lengths(shape),
            words,
            scaling,
            options,
            src: hex(src),
            scale: hex(scale),
            dst: hex(dst),
            is_package: made_by != "exact rationals",
        }
    }

    fn zero_points(&self) -> Option<Vec<u8>> {
        let integer = if self.op == "dequantize" { self.from } else { self.to };
        self.words.get("zero").map(|zeros| {
            let codes: Vec<u8> =
                zeros.split('/').map(|zero| zero.parse::<i16>().expect(zero) as u8).collect();
            let bits = integer.bits() as usize;
            let mut bytes = vec![0; (codes.len() * bits).div_ceil(8)];
            for (i, code) in codes.iter().enumerate() {
                bytes[i * bits / 8] |= (code & (0xFF >> (8 - bits))) << (i * bits % 8);
            }
            bytes
        })
    }

    fn check(&self) -> usize {
        let mut dst = vec![0xA5; self.dst.len()];
        let mut scales = vec![0xA5; self.scale.len()];
        let zero_points = self.zero_points();
        let zeros = zero_points.as_deref();
        let (id, profile) = (self.id, self.profile);
        macro_rules! ok {
            ($result:expr) => {
                $result.unwrap_or_else(|error| panic!("{profile} {id}: {error}"))
            };
        }
        match self.op {
            "dequantize" => {
                let d = ok!(Dequantizer::new(self.from, self.to, &self.scaling, &self.options));
                ok!(d.dequantize(&self.src, &self.shape, &self.scale, zeros, &mut dst));
                scales.clone_from(&self.scale);
            }
            "quantize" => {
                let q = ok!(Quantizer::new(self.from, self.to, &self.scaling, &self.options));
                if self.words.contains_key("given") {
                    ok!(q.quantize_given(&self.src, &self.shape, &self.scale, zeros, &mut dst));
                    scales.clone_from(&self.scale);
                } else if let Some(zeros) = zeros {
                    let mut found = vec![0xA5; zeros.len()];
                    ok!(q.quantize_affine(&self.src, &self.shape, &mut dst, &mut scales, &mut found));
                    assert_eq!(found, zeros, "{profile} {id}: zero points");
                    let [mut also, mut of, mut with] =
                        [&dst, &scales, &found].map(|all| vec![0xA5; all.len()]);
                    let how = Parallel::new().threads(3).chunk(1);
                    ok!(q.par_quantize_affine(&self.src, &self.shape, &mut also, &mut of, &mut with, &how));
                    assert_eq!(
                        (also, of, with),
                        (dst.clone(), scales.clone(), found),
                        "{profile} {id}: on threads"
                    );
                } else {
                    let found = q.quantize(&self.src, &self.shape, &mut dst, &mut scales).expect(id);
                    let g = self.words.get("g").map(|g| hex(g));
                    let bits = found.tensor_scale.map(|g| g.to_le_bytes().to_vec());
                    assert_eq!(bits, g, "{profile} {id}: the tensor scale");
                }
            }
            _ => {
                let block = lengths(self.words["dst_block"]);
                let mut to = Scaling::blocks(&block, self.words["dst_scale_dtype"].parse().expect("a dtype"));
                if self.words.get("rule").is_some_and(|&rule| rule == "round_up") {
                    to = to.rule(ScaleRule::RoundUp);
                }
                let r = ok!(Requantizer::new((self.from, &self.scaling), (self.to, &to), &self.options));
                let src_scale = hex(self.words["src_scale"]);
                r.requantize(&self.src, &self.shape, &src_scale, None, &mut dst, &mut scales).expect(id);
            }
        }
        let scale_dtype = self
            .words
            .get("dst_scale_dtype")
            .map_or(self.scaling.scale_dtype, |name| name.parse().expect("a dtype"));
        self.compare("scale", scale_dtype, &scales, &self.scale);
        self.compare("element", self.to, &dst, &self.dst);
        self.shape.iter().product()
    }

    /// Compares results; where a package gave a NaN, any NaN will do.
    fn compare(&self, what: &str, dtype: DType, got: &[u8], expected: &[u8]) {
        let width = (dtype.bits() as usize / 8).max(1);
        let is_nan = |code: &[u8]| {
            let mut bytes = [0; 16];
            bytes[..width].copy_from_slice(code);
            matches!(dtype.kind(), Kind::Float(_))
                && dtype.bits() >= 8
                && crate::bridge::type_of(dtype).is_nan_code(u128::from_le_bytes(bytes))
        };
        let mut wrong = Vec::new();
        for (i, (g, e)) in got.chunks(width).zip(expected.chunks(width)).enumerate() {
            if g != e && !(self.is_package && is_nan(g) && is_nan(e)) {
                wrong.push(format!("{i}: {g:02x?} for {e:02x?}"));
            }
        }
        let (profile, id, n) = (self.profile, self.id, wrong.len());
        wrong.truncate(6);
        assert_eq!(n, 0, "{profile} {id}: {what}: {wrong:?}");
    }
}

/// Checks a row of the layout in tiles of 128 x 4 scales, padded with zeros.
fn swizzle(isa: Isa, row: &[&str]) {
    let shape = lengths(row[2]);
    let (src, expected) = (hex(row[3]), hex(row[4]));
    // Blocks of one element, so that each element determines its own scale.
    let scaling = Scaling::blocks(&[1], DType::F8E8M0).layout(ScaleLayout::Swizzle32x4x4);
    // 2^(code - 127) has the scale 2^(code - 127 - 15).
    let data: Vec<u8> = src
        .iter()
        .flat_map(|&code| 2f64.powi(i32::from(code) - 127 + 15).min(f64::MAX).to_ne_bytes())
        .collect();
    let options = CastOptions::new().isa(isa);
    let q = Quantizer::new(DType::F64, DType::F8E5M2, &scaling, &options).expect("MX");
    let mut scales = vec![0xA5; expected.len()];
    q.quantize(&data, &shape, &mut vec![0; src.len()], &mut scales).expect("a swizzle");
    assert_eq!(scales, expected, "{shape:?}");
}
