//! What a conversion loses: of dequantised values, beside those of the source.

use std::collections::BTreeMap;
use std::ops::{Add, Div, Mul, Sub};

use bytemuck::Pod;
use lanecast::{DType, Packing};
use multiversion::multiversion;
use serde::{Deserialize, Serialize};

/// The losses of one tensor, or of a part of it.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Loss {
    pub(crate) max_abs: f64,
    pub(crate) max_rel: f64,
    /// The element of the largest relative error; where there is none, of the largest error.
    pub(crate) at: u64,
    pub(crate) saturated: u64,
    pub(crate) nan: u64,
    pub(crate) inf: u64,
}

/// float32 or float64: what errors are computed in.
pub(crate) trait Real:
    Pod
    + PartialOrd
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Add<Output = Self>
    + Into<f64>
{
    const ZERO: Self;
    const INFINITY: Self;
    /// The smallest one that has all its bits.
    const NORMAL: Self;
    /// The nearest one.
    fn rounded(x: f64) -> Self;
    /// It, or a little less: a factor by which a product, rounded, is no larger than that by this number.
    fn no_more(self) -> Self;
    fn magnitude(self) -> Self;
    /// A number whose bytes, little-endian, were copied as they are.
    fn native(self) -> Self;

    /// Numbers from little-endian bytes.
    fn read(bytes: &[u8]) -> impl Iterator<Item = Self> {
        bytes.chunks_exact(size_of::<Self>()).map(|x| bytemuck::pod_read_unaligned::<Self>(x).native())
    }
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const INFINITY: Self = f32::INFINITY;
    const NORMAL: Self = f32::MIN_POSITIVE;

    fn rounded(x: f64) -> Self {
        x as f32
    }

    fn no_more(self) -> Self {
        // By a power of two nothing is rounded.
        let is_power = self.to_bits() << 9 == 0;
        if is_power { self } else { self * (1.0 - 1.0 / 65536.0) }
    }

    #[inline(always)]
    fn magnitude(self) -> Self {
        self.abs()
    }

    fn native(self) -> Self {
        Self::from_bits(u32::from_le(self.to_bits()))
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const INFINITY: Self = f64::INFINITY;
    const NORMAL: Self = f64::MIN_POSITIVE;

    fn rounded(x: f64) -> Self {
        x
    }

    fn no_more(self) -> Self {
        // By a power of two nothing is rounded.
        let is_power = self.to_bits() << 12 == 0;
        if is_power { self } else { self * (1.0 - 1.0 / 65536.0) }
    }

    #[inline(always)]
    fn magnitude(self) -> Self {
        self.abs()
    }

    fn native(self) -> Self {
        Self::from_bits(u64::from_le(self.to_bits()))
    }
}

/// Elements that are looked at together, in a cache.
const SOME: usize = 1 << 10;
/// Bytes of codes that are looked at together.
const SOME_CODES: usize = 64;
/// Elements of which either all are divided, or none.
const LANES: usize = 64;

/// The largest errors of some elements.
struct Errors<T> {
    abs: T,
    /// 0, if it is no larger than what was asked for.
    rel: T,
    /// Is NaN or Inf among them? Then the others mean nothing.
    is_strange: bool,
}

/// Finds them, where an error is relative to an element, and of interest if larger than `least`.
///
/// To divide takes longer than all else here: what cannot be larger is known by a product, which may be off by its rounding.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn errors<T: Real>(xs: &[T; SOME], ys: &[T; SOME], least: T) -> Errors<T> {
    let (mut abs, mut rel, mut strange) = ([T::ZERO; LANES], least, [T::ZERO; LANES]);
    let mut factor = least.no_more();
    for (xs, ys) in xs.as_chunks::<LANES>().0.iter().zip(ys.as_chunks::<LANES>().0) {
        let mut above = [T::ZERO; LANES];
        for i in 0..LANES {
            let error = (xs[i] - ys[i]).magnitude();
            abs[i] = larger(abs[i], error);
            // 0, unless one is Inf or NaN.
            strange[i] = strange[i] + error * T::ZERO;
            let bound = xs[i].magnitude() * factor;
            // What is subnormal may be off by any factor.
            let bound = if bound < T::NORMAL { T::ZERO } else { bound };
            above[i] = error - bound;
        }
        if above.iter().fold(false, |any, above| any | (*above > T::ZERO)) {
            let mut quotients = [T::ZERO; LANES];
            for i in 0..LANES {
                quotients[i] = (xs[i] - ys[i]).magnitude() / xs[i].magnitude();
            }
            rel = quotients.into_iter().fold(rel, larger);
            factor = rel.no_more();
        }
    }
    Errors {
        abs: abs.into_iter().fold(T::ZERO, larger),
        rel: if rel > least { rel } else { T::ZERO },
        is_strange: strange.iter().fold(false, |any, x| any | (*x != T::ZERO)),
    }
}

#[inline(always)]
fn larger<T: Real>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

fn error<T: Real>(x: T, y: T) -> T {
    let error = (x - y).magnitude();
    // NaN and Inf do not count.
    if error < T::INFINITY { error } else { T::ZERO }
}

fn relative<T: Real>(x: T, y: T) -> T {
    let relative = error(x, y) / x.magnitude();
    if relative < T::INFINITY { relative } else { T::ZERO }
}

impl Loss {
    /// Adds what became of elements from `first` on: both as bytes of the same float, in which errors are computed.
    pub(crate) fn add<T: Real>(&mut self, mut first: u64, from: &[u8], to: &[u8]) {
        let size = SOME * size_of::<T>();
        let (mut from, mut to) = (from, to);
        // Where memory holds them as they are, nothing is copied but the rest.
        if cfg!(target_endian = "little")
            && let (Ok(xs), Ok(ys)) = (bytemuck::try_cast_slice(from), bytemuck::try_cast_slice(to))
        {
            let (xs, ys) = (xs.as_chunks().0, ys.as_chunks().0);
            for (xs, ys) in xs.iter().zip(ys) {
                self.some::<T>(first, xs, ys);
                first += SOME as u64;
            }
            (from, to) = (&from[xs.len() * size..], &to[xs.len() * size..]);
        }
        let (mut xs, mut ys) = ([T::ZERO; SOME], [T::ZERO; SOME]);
        for (from, to) in from.chunks(size).zip(to.chunks(size)) {
            let n = from.len() / size_of::<T>();
            for (numbers, bytes) in [(&mut xs, from), (&mut ys, to)] {
                bytemuck::cast_slice_mut(&mut numbers[..n]).copy_from_slice(bytes);
                numbers.iter_mut().for_each(|x| *x = x.native());
            }
            // Zeros that are equal do no harm.
            xs[n..].fill(T::ZERO);
            ys[n..].fill(T::ZERO);
            self.some(first, &xs, &ys);
            first += SOME as u64;
        }
    }

    fn some<T: Real>(&mut self, first: u64, xs: &[T; SOME], ys: &[T; SOME]) {
        let Errors { mut abs, mut rel, is_strange } = errors(xs, ys, T::rounded(self.max_rel));
        let pairs = || xs.iter().zip(ys);
        // Such numbers are rare, and so is what was 0 and is not: they are counted, and left out.
        if is_strange || rel == T::INFINITY {
            (abs, rel) = (T::ZERO, T::ZERO);
            for (&x, &y) in pairs() {
                (abs, rel) = (larger(abs, error(x, y)), larger(rel, relative(x, y)));
                let (x, y): (f64, f64) = (x.into(), y.into());
                self.nan += u64::from(y.is_nan());
                self.inf += u64::from(y.is_infinite());
                self.saturated += u64::from(y.is_infinite() && x.is_finite());
            }
        }
        let (wide_abs, wide_rel): (f64, f64) = (abs.into(), rel.into());
        if wide_rel > self.max_rel || (wide_rel == self.max_rel && wide_rel == 0.0 && wide_abs > self.max_abs)
        {
            let worst =
                |(&x, &y): (&T, &T)| if wide_rel > 0.0 { relative(x, y) == rel } else { error(x, y) == abs };
            self.at = first + pairs().position(worst).unwrap_or(0) as u64;
        }
        self.max_abs = self.max_abs.max(wide_abs);
        self.max_rel = self.max_rel.max(wide_rel);
    }

    /// Counts what was clamped: has the largest code, and was larger than that by some factor.
    pub(crate) fn clamped<T: Real>(&mut self, from: &[u8], to: &[u8], codes: &[u8], largest: &Largest) {
        let size = size_of::<T>();
        let number = |bytes: &[u8], i: usize| -> f64 {
            bytemuck::pod_read_unaligned::<T>(&bytes[i * size..][..size]).native().into()
        };
        // Such codes are rare: some bytes are looked at together.
        for (i, bytes) in codes.chunks(SOME_CODES).enumerate() {
            if !bytes.iter().fold(false, |any, &byte| any | largest.is_in(byte)) {
                continue;
            }
            let n = bytes.len() * largest.per_byte;
            for at in i * SOME_CODES * largest.per_byte..i * SOME_CODES * largest.per_byte + n {
                if !largest.is(codes, at) || (at + 1) * size > from.len() {
                    continue;
                }
                let (x, y) = (number(from, at), number(to, at));
                self.saturated += u64::from(x.abs() < f64::INFINITY && x.abs() > y.abs() * largest.factor);
            }
        }
    }

    /// Adds another part of the same tensor: in whatever order, the result is the same.
    pub(crate) fn join(&mut self, other: &Self) {
        let key = |loss: &Self| (loss.max_rel, if loss.max_rel > 0.0 { 0.0 } else { loss.max_abs });
        let (mine, theirs) = (key(self), key(other));
        if theirs > mine || (theirs == mine && other.at < self.at && theirs > (0.0, 0.0)) {
            self.at = other.at;
        }
        self.max_abs = self.max_abs.max(other.max_abs);
        self.max_rel = self.max_rel.max(other.max_rel);
        self.saturated += other.saturated;
        self.nan += other.nan;
        self.inf += other.inf;
    }
}

/// The codes of the largest magnitude, and how much larger a value must be to count as clamped.
pub(crate) struct Largest {
    code: u8,
    /// Without the sign; of an int8 it is no bit.
    mask: u8,
    per_byte: usize,
    /// Bits of a byte that are above those of its first element.
    first: u32,
    factor: f64,
}

impl Largest {
    /// Of a dtype that values are clamped to.
    pub(crate) fn of(elem: DType, packing: Packing) -> Option<Self> {
        let first = if packing == Packing::HighFirst { 4 } else { 0 };
        let (code, per_byte, factor) = match elem {
            DType::I8 => {
                return Some(Self { code: 127, mask: 0, per_byte: 1, first: 0, factor: 127.5 / 127.0 });
            }
            DType::F4E2M1 => (0x7, 2, 7.0 / 6.0),
            DType::F8E4M3FN => (0x7E, 1, 464.0 / 448.0),
            DType::F8E5M2 => (0x7B, 1, 61440.0 / 57344.0),
            _ => return None,
        };
        Some(Self { code, mask: if per_byte == 2 { 0x7 } else { 0x7F }, per_byte, first, factor })
    }

    fn is_code(&self, code: u8) -> bool {
        if self.mask == 0 {
            code.cast_signed().unsigned_abs() == self.code
        } else {
            code & self.mask == self.code
        }
    }

    /// Has this byte one?
    fn is_in(&self, byte: u8) -> bool {
        self.is_code(byte) | ((self.per_byte == 2) & self.is_code(byte >> 4))
    }

    /// Bits of an element.
    pub(crate) fn bits(&self) -> u64 {
        8 / self.per_byte as u64
    }

    /// Is this element one?
    fn is(&self, codes: &[u8], at: usize) -> bool {
        let shift = if self.per_byte == 2 { self.first ^ (at as u32 % 2 * 4) } else { 0 };
        self.is_code(codes[at / self.per_byte] >> shift)
    }
}

/// All tensors that went from one dtype or layout to another.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub(crate) tensors: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) loss: Loss,
}

/// One of the worst tensors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Worst {
    pub(crate) name: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) max_abs_error: f64,
    pub(crate) max_rel_error: f64,
    pub(crate) index: Vec<u64>,
}

/// Of a file, or of all.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Losses {
    /// By `from -> to`.
    pub(crate) sums: BTreeMap<String, Sum>,
    pub(crate) worst: Vec<Worst>,
}

impl Losses {
    pub(crate) fn join(&mut self, other: &Self) {
        for (what, sum) in &other.sums {
            let mine = self.sums.entry(what.clone()).or_default();
            mine.tensors += sum.tensors;
            mine.bytes_in += sum.bytes_in;
            mine.bytes_out += sum.bytes_out;
            mine.loss.join(&sum.loss);
        }
        self.worst.extend(other.worst.iter().cloned());
        self.worst.sort_by(|a, b| {
            let key = |worst: &Worst| (worst.max_rel_error, worst.max_abs_error);
            key(b).partial_cmp(&key(a)).expect("no NaN").then_with(|| a.name.cmp(&b.name))
        });
        self.worst.truncate(10);
    }

    pub(crate) fn all(&self) -> Loss {
        let mut all = Loss::default();
        for sum in self.sums.values() {
            all.join(&sum.loss);
        }
        all
    }
}

/// The place of an element in its shape.
pub(crate) fn place(mut at: u64, shape: &[usize]) -> Vec<u64> {
    let mut place: Vec<u64> = shape
        .iter()
        .rev()
        .map(|&length| {
            let i = at % (length as u64).max(1);
            at /= (length as u64).max(1);
            i
        })
        .collect();
    place.reverse();
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_do_not_depend_on_the_parts() {
        parts::<f64>(&|x| x.to_le_bytes().to_vec());
        parts::<f32>(&|x| (x as f32).to_le_bytes().to_vec());
    }

    fn parts<T: Real>(bytes: &dyn Fn(f64) -> Vec<u8>) {
        let from: Vec<f64> = (0..10_000).map(|i| f64::from(i % 37) - 11.0).collect();
        let mut to: Vec<f64> = from.iter().map(|x| x + 0.25 * (x % 3.0)).collect();
        (to[7], to[800]) = (f64::NAN, f64::INFINITY);
        let bytes = |values: &[f64]| values.iter().flat_map(|&x| bytes(x)).collect::<Vec<u8>>();
        let mut whole = Loss::default();
        whole.add::<T>(0, &bytes(&from), &bytes(&to));
        assert_eq!((whole.nan, whole.inf, whole.saturated), (1, 1, 1));
        for cut in [1, 7, 500, 4096, 5000, 9999] {
            let (mut a, mut b) = (Loss::default(), Loss::default());
            b.add::<T>(cut as u64, &bytes(&from[cut..]), &bytes(&to[cut..]));
            a.add::<T>(0, &bytes(&from[..cut]), &bytes(&to[..cut]));
            b.join(&a);
            assert_eq!(b, whole, "cut at {cut}");
        }
        assert_eq!(place(7, &[2, 4]), [1, 3]);
    }

    #[test]
    fn the_largest_codes_of_larger_values_are_counted() {
        let count = |elem, packing, values: &[f32], results: &[f32], codes: &[u8]| {
            let mut loss = Loss::default();
            let bytes = |x: &[f32]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
            let largest = Largest::of(elem, packing).unwrap();
            loss.clamped::<f32>(&bytes(values), &bytes(results), codes, &largest);
            loss.saturated
        };
        // Beyond what would have been rounded to it; in the first, the second and the last register.
        let (mut values, mut codes) = (vec![1.0; 200], vec![0x38; 200]);
        let mut results = values.clone();
        for (at, value, code) in [
            (0, 464.0, 0x7E),
            (63, 465.0, 0x7E),
            (64, -465.0, 0xFE),
            (199, 1e9, 0x7E),
            (5, f32::INFINITY, 0x7E),
        ] {
            (values[at], codes[at]) = (value, code);
            results[at] = if value < 0.0 { -448.0 } else { 448.0 };
        }
        assert_eq!(count(DType::F8E4M3FN, Packing::LowFirst, &values, &results, &codes), 3);
        assert_eq!(count(DType::I8, Packing::LowFirst, &[127.4, -128.0], &[127.0, -127.0], &[127, 0x81]), 1);
        let four = [(Packing::LowFirst, [0x17, 0x0F]), (Packing::HighFirst, [0x71, 0xF0])];
        for (packing, codes) in four {
            let found = count(DType::F4E2M1, packing, &[9.0, 9.0, -9.0], &[6.0, 0.5, -6.0], &codes);
            assert_eq!(found, 2, "{packing:?}");
        }
    }
}
