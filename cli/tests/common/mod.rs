//! What tests share: checkpoints that are made, and the program that is run.
#![allow(dead_code, reason = "no test needs all")]

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::Value;

pub(crate) type Tensors = Vec<(String, Dtype, Vec<usize>, Vec<u8>)>;

/// Numbers that look random and are not.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// Finite codes of float8_e4m3fn.
    pub(crate) fn e4m3(&mut self, n: usize) -> Vec<u8> {
        (0..n)
            .map(|_| {
                let code = self.next() as u8;
                if code & 0x7F == 0x7F { code ^ 1 } else { code }
            })
            .collect()
    }

    pub(crate) fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| ((self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * 0.25).collect()
    }
}

pub(crate) fn le(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub(crate) fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&x| f32::from_le_bytes(x)).collect()
}

/// The nearest bfloat16, ties to even: of finite numbers.
pub(crate) fn bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16
}

pub(crate) fn bf16s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|&x| bf16(x).to_le_bytes()).collect()
}

/// The value of a code of float8_e4m3fn, by its definition.
pub(crate) fn from_e4m3(code: u8) -> f32 {
    let (e, m) = (i32::from(code >> 3 & 15), f32::from(code & 7));
    let x = if e == 0 { m / 8.0 * 2f32.powi(-6) } else { (1.0 + m / 8.0) * 2f32.powi(e - 7) };
    if code & 0x7F == 0x7F {
        f32::NAN
    } else if code & 0x80 != 0 {
        -x
    } else {
        x
    }
}

/// The value of a code of float4_e2m1fn.
pub(crate) fn from_e2m1(code: u8) -> f32 {
    let x = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(code & 7)];
    if code & 8 != 0 { -x } else { x }
}

pub(crate) fn write(path: &Path, tensors: &Tensors, metadata: Option<HashMap<String, String>>) {
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    std::fs::write(path, safetensors::serialize(views, metadata).unwrap()).unwrap();
}

pub(crate) fn read(path: &Path) -> HashMap<String, (Dtype, Vec<usize>, Vec<u8>)> {
    let bytes = std::fs::read(path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(name, t)| (name.to_owned(), (t.dtype(), t.shape().to_vec(), t.data().to_vec())))
        .collect()
}

/// Name and bytes of every file, hidden ones too.
pub(crate) fn listing(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap_or_default())
        })
        .collect();
    all.sort();
    all
}

/// Runs a command line; its words are separated by spaces, and DIR is the directory.
pub(crate) fn line(dir: &Path, line: &str) -> Output {
    let words: Vec<String> =
        line.split(' ').filter(|w| !w.is_empty()).map(|w| w.trim_matches('\'').to_owned()).collect();
    Command::new(env!("CARGO_BIN_EXE_lanecast")).args(&words).current_dir(dir).output().unwrap()
}

#[track_caller]
pub(crate) fn ok(dir: &Path, text: &str) -> Value {
    let out = line(dir, text);
    let error = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{text}: {error}");
    serde_json::from_slice(&out.stdout).unwrap_or(Value::Null)
}

#[track_caller]
pub(crate) fn fails(dir: &Path, text: &str, code: i32) -> String {
    let out = line(dir, text);
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(code), "{text}: {error}");
    assert!(!error.contains("panicked"), "{error}");
    error
}
