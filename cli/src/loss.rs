//! What a conversion loses: the differences between the values of the source and those of the result, dequantised.

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
    /// The index of the element with the largest relative error or, if there is none above 0, with the largest absolute error.
    pub(crate) at: u64,
    pub(crate) saturated: u64,
    pub(crate) nan: u64,
    pub(crate) inf: u64,
    /// Elements that became NaN or Inf, or were that and became a number: no limit allows for that error.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) strange: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The dtypes in which errors are computed: float32 and float64.
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
    /// The smallest normal number.
    const NORMAL: Self;
    /// Returns the nearest number.
    fn rounded(x: f64) -> Self;
    /// Returns this number or a little less, such that a rounded product with it is at most the exact product with this number.
    fn no_more(self) -> Self;
    fn magnitude(self) -> Self;
    /// Returns the number whose little-endian bytes are in memory.
    fn native(self) -> Self;

    /// Reads numbers from little-endian bytes.
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
        // A product with a power of two is not rounded.
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
        // A product with a power of two is not rounded.
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

/// How many elements are compared at a time.
const SOME: usize = 1 << 10;
/// How many elements are taken together: either all of them or none are divided, and are checked for having been clamped.
const LANES: usize = 64;

/// The largest errors of some elements.
struct Errors<T> {
    abs: T,
    /// The largest relative error; 0 if it is no larger than `least`.
    rel: T,
    /// Whether some element or error is NaN or Inf, in which case the other fields are meaningless.
    is_strange: bool,
}

/// Finds the largest errors of `ys` against `xs`. Relative errors only matter if they are larger than `least`.
///
/// Divisions are slower than everything else here, so elements are only divided if a product, with a margin for its rounding, shows that
/// the quotient may be larger.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn errors<T: Real>(xs: &[T; SOME], ys: &[T; SOME], least: T) -> Errors<T> {
    let (mut abs, mut rel, mut strange) = ([T::ZERO; LANES], least, [T::ZERO; LANES]);
    let mut factor = least.no_more();
    for (xs, ys) in xs.as_chunks::<LANES>().0.iter().zip(ys.as_chunks::<LANES>().0) {
        let mut above = [T::ZERO; LANES];
        for i in 0..LANES {
            let error = (xs[i] - ys[i]).magnitude();
            abs[i] = larger(abs[i], error);
            // Stays 0 unless one of them is Inf or NaN.
            strange[i] = strange[i] + error * T::ZERO;
            let bound = xs[i].magnitude() * factor;
            // A subnormal product may have any relative error.
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

/// Returns the error of an element; 0 with NaN and Inf, which are counted elsewhere. What `T` does not hold is computed in float64.
fn error<T: Real>(x: T, y: T) -> f64 {
    let error = (x - y).magnitude();
    if error < T::INFINITY { error.into() } else { finite(x, y, |x, y| (x - y).abs()) }
}

/// As [`error`], but the relative error; 0 if `x` is 0.
fn relative<T: Real>(x: T, y: T) -> f64 {
    let relative = (x - y).magnitude() / x.magnitude();
    if relative < T::INFINITY { relative.into() } else { finite(x, y, |x, y| (x - y).abs() / x.abs()) }
}

/// Returns a result of finite numbers, at most the largest float64; 0 with NaN and Inf, and of divisions by 0.
fn finite<T: Real>(x: T, y: T, f: impl Fn(f64, f64) -> f64) -> f64 {
    let (x, y): (f64, f64) = (x.into(), y.into());
    if x.is_finite() && y.is_finite() && x != 0.0 { f(x, y).min(f64::MAX) } else { 0.0 }
}

impl Loss {
    /// Compares the elements from index `first` on with what they became, both as bytes of the dtype in which errors are computed.
    pub(crate) fn add<T: Real>(&mut self, mut first: u64, from: &[u8], to: &[u8]) {
        let size = SOME * size_of::<T>();
        let (mut from, mut to) = (from, to);
        // Bytes that are aligned and in native order are compared in place; only the rest is copied.
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
            // The padding is zeros on both sides, which have no error.
            xs[n..].fill(T::ZERO);
            ys[n..].fill(T::ZERO);
            self.some(first, &xs, &ys);
            first += SOME as u64;
        }
    }

    fn some<T: Real>(&mut self, first: u64, xs: &[T; SOME], ys: &[T; SOME]) {
        let Errors { abs, rel, is_strange } = errors(xs, ys, T::rounded(self.max_rel));
        let (mut wide_abs, mut wide_rel): (f64, f64) = (abs.into(), rel.into());
        let is_rare = is_strange || rel == T::INFINITY || T::rounded(self.max_rel) == T::INFINITY;
        let pairs = || xs.iter().zip(ys);
        // NaN, Inf, errors that `T` does not hold, and elements that were 0 and are not are rare. NaN and Inf are counted instead; the
        // last have no relative error.
        if is_rare {
            (wide_abs, wide_rel) = (0.0, 0.0);
            for (&x, &y) in pairs() {
                (wide_abs, wide_rel) = (wide_abs.max(error(x, y)), wide_rel.max(relative(x, y)));
                let (x, y): (f64, f64) = (x.into(), y.into());
                self.nan += u64::from(y.is_nan());
                self.inf += u64::from(y.is_infinite());
                self.strange += u64::from(x.is_nan() != y.is_nan() || x.is_infinite() != y.is_infinite());
                self.saturated +=
                    u64::from(y.is_infinite() && x.is_finite() || x.is_infinite() && y.is_finite());
            }
        }
        if wide_rel > self.max_rel || (wide_rel == self.max_rel && wide_rel == 0.0 && wide_abs > self.max_abs)
        {
            let worst = |(&x, &y): (&T, &T)| {
                if wide_rel > 0.0 { relative(x, y) == wide_rel } else { error(x, y) == wide_abs }
            };
            self.at = first + pairs().position(worst).unwrap_or(0) as u64;
        }
        self.max_abs = self.max_abs.max(wide_abs);
        self.max_rel = self.max_rel.max(wide_rel);
    }

    /// Counts the elements that were clamped: those with the largest code whose value was larger than that by the factor of [`Largest`].
    pub(crate) fn clamped<T: Real>(&mut self, from: &[u8], to: &[u8], codes: &[u8], largest: &Largest) {
        let (size, bytes) = (LANES * size_of::<T>(), LANES / largest.per_byte);
        for ((from, to), codes) in from.chunks(size).zip(to.chunks(size)).zip(codes.chunks(bytes)) {
            // The largest codes are rare in formats of 8 bits.
            if !codes.iter().fold(false, |any, &byte| any | largest.is_in(byte)) {
                continue;
            }
            // The padding is zeros, which do not count as clamped.
            let (mut xs, mut ys) = ([T::ZERO; LANES], [T::ZERO; LANES]);
            for (numbers, bytes) in [(&mut xs, from), (&mut ys, to)] {
                bytemuck::cast_slice_mut(numbers)[..bytes.len()].copy_from_slice(bytes);
                numbers.iter_mut().for_each(|x| *x = x.native());
            }
            self.saturated += beyond(&xs, &ys, &largest.each(codes), largest);
        }
    }

    /// Adds another part of the same tensor. The result does not depend on the order of the parts.
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
        self.strange += other.strange;
    }
}

/// The code of the largest magnitude of a dtype, and by which factor a value must be larger to count as clamped.
pub(crate) struct Largest {
    code: u8,
    /// The bits of a code without the sign; 0 for integers, whose codes do not hold a magnitude.
    mask: u8,
    per_byte: usize,
    /// By how many bits the first element of a byte is shifted.
    first: u32,
    factor: f64,
}

impl Largest {
    /// Returns None if conversions do not clamp to the dtype.
    pub(crate) fn of(elem: DType, packing: Packing) -> Option<Self> {
        let first = if packing == Packing::HighFirst { 4 } else { 0 };
        let (code, per_byte, factor) = match elem {
            DType::I8 => {
                return Some(Self { code: 127, mask: 0, per_byte: 1, first: 0, factor: 127.5 / 127.0 });
            }
            DType::I4 => return Some(Self { code: 7, mask: 0, per_byte: 2, first, factor: 7.5 / 7.0 }),
            DType::F4E2M1 => (0x7, 2, 7.0 / 6.0),
            DType::F8E4M3FN => (0x7E, 1, 464.0 / 448.0),
            DType::F8E5M2 => (0x7B, 1, 61440.0 / 57344.0),
            _ => return None,
        };
        Some(Self { code, mask: if per_byte == 2 { 0x7 } else { 0x7F }, per_byte, first, factor })
    }

    #[inline(always)]
    fn is_code(&self, code: u8) -> bool {
        if self.mask == 0 {
            // The code of an integer may be in the low bits of a byte. For 4 bits, -8 counts as 7 does.
            let unused = 8 - 8 / self.per_byte as u32;
            let magnitude = ((code << unused).cast_signed() >> unused).unsigned_abs();
            magnitude == self.code || magnitude == 8 && self.code == 7
        } else {
            code & self.mask == self.code
        }
    }

    /// Whether a byte holds the largest code.
    fn is_in(&self, byte: u8) -> bool {
        self.is_code(byte) | ((self.per_byte == 2) & self.is_code(byte >> 4))
    }

    /// Returns how many bits an element has.
    pub(crate) fn bits(&self) -> u64 {
        8 / self.per_byte as u64
    }

    /// Returns the codes of some elements, one per byte.
    fn each(&self, bytes: &[u8]) -> [u8; LANES] {
        let mut codes = [0; LANES];
        if self.per_byte == 1 {
            codes[..bytes.len()].copy_from_slice(bytes);
        } else {
            for (codes, byte) in codes.as_chunks_mut().0.iter_mut().zip(bytes) {
                *codes = [byte >> self.first, byte >> (4 - self.first)];
            }
        }
        codes
    }
}

/// Returns how many elements have the largest code, and were larger than what they became by more than the factor of [`Largest`].
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn beyond<T: Real>(xs: &[T; LANES], ys: &[T; LANES], codes: &[u8; LANES], largest: &Largest) -> u64 {
    let mut beyond = 0;
    for i in 0..LANES {
        let (x, y): (f64, f64) = (xs[i].magnitude().into(), ys[i].magnitude().into());
        let is = largest.is_code(codes[i]) & (x < f64::INFINITY) & (x > y * largest.factor);
        beyond += u64::from(is);
    }
    beyond
}

/// The losses of all tensors that went from one dtype or layout to another.
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

/// The losses of a file, or of all files.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Losses {
    /// The sums, by `from -> to`.
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

/// Returns the indices, in each dimension of a shape, of the element with this index.
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
        assert_eq!((whole.nan, whole.inf, whole.saturated, whole.strange), (1, 1, 1, 2));
        for cut in [1, 7, 500, 4096, 5000, 9999] {
            let (mut a, mut b) = (Loss::default(), Loss::default());
            b.add::<T>(cut as u64, &bytes(&from[cut..]), &bytes(&to[cut..]));
            a.add::<T>(0, &bytes(&from[..cut]), &bytes(&to[..cut]));
            b.join(&a);
            assert_eq!(b, whole, "cut at {cut}");
        }
        assert_eq!(place(7, &[2, 4]), [1, 3]);
    }

    /// The largest relative error is the same as that of all quotients, of errors that are alike, exact, of zeros, and of tiny numbers.
    #[test]
    fn the_largest_error_is_that_of_all_quotients() {
        fn case<T: Real>(from: impl Fn(u64) -> f64, to: impl Fn(f64) -> f64) {
            let mut random = 1u64;
            let xs: Vec<f64> = (0..100 * SOME)
                .map(|_| {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    T::rounded(from(random >> 32)).into()
                })
                .collect();
            let ys: Vec<f64> = xs.iter().map(|&x| T::rounded(to(x)).into()).collect();
            let quotient = |(x, y): (&f64, &f64)| -> f64 {
                let (x, y) = (T::rounded(*x), T::rounded(*y));
                relative(x, y)
            };
            let quotients: Vec<f64> = xs.iter().zip(&ys).map(quotient).collect();
            let most = quotients.iter().copied().fold(0.0, f64::max);
            let bytes = |numbers: &[f64]| -> Vec<u8> {
                let native = |&x: &f64| bytemuck::bytes_of(&T::rounded(x).native()).to_vec();
                numbers.iter().flat_map(native).collect()
            };
            let mut loss = Loss::default();
            loss.add::<T>(0, &bytes(&xs), &bytes(&ys));
            assert_eq!(loss.max_rel, most);
            assert_eq!(Some(loss.at), quotients.iter().position(|q| *q == most).map(|at| at as u64));
        }
        fn cases<T: Real>() {
            let near_one = |word: u64| 1.0 + (word % 4096) as f64 / 4096.0;
            let tiny = |word: u64| (word % 64) as f64 * f64::from(f32::from_bits(1));
            case::<T>(near_one, |x| x - x % 0.0625);
            case::<T>(near_one, |x| x * (1.0 + 1.0 / 8192.0));
            // Whose errors are the elements: the largest quotient is a power of two.
            case::<T>(near_one, |x| if x < 1.9 { 0.0 } else { x });
            case::<T>(tiny, |x| x / 3.0);
            case::<T>(|word| if word % 3 == 0 { 0.0 } else { near_one(word) }, |x| x - x % 0.25);
        }
        cases::<f32>();
        cases::<f64>();
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
