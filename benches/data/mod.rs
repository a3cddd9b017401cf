//! The data of the benchmarks: numbers as they occur in practice, the same in every run.

use lanecast::{CastOptions, DType, Kind, Packing, cast_bytes_with};

/// Bytes read + bytes written that fit in an L2 of 512 KiB, but in no L1.
pub(crate) const SMALL: usize = 256 << 10;
/// Bytes read + bytes written that nearly no last-level cache holds.
pub(crate) const LARGE: usize = 64 << 20;

/// Elements after which the data repeats: more than any branch predictor learns, and quick to make. A multiple
/// of 8, so that each repetition of packed elements begins at a byte.
const PERIOD: usize = 1 << 16;

/// A small random number generator, xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number between 0 and 1, exclusive.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Returns a normal number with mean 0 and standard deviation 4. So are weights and activations, and at this
    /// scale narrow floats get small and medium values, the narrowest also values that are too large.
    pub(crate) fn normal(&mut self) -> f64 {
        4.0 * (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Returns `n` elements of `dtype` in the default packing: integers over their whole range, floats normal. There are
/// no NaNs and infinities, which are not cast at the speed of numbers.
pub(crate) fn source(dtype: DType, n: usize) -> Vec<u8> {
    let mut random = Random::new();
    let period = size(dtype, n.min(PERIOD));
    match dtype.kind() {
        Kind::Bool => repeat((0..period).map(|_| (random.bits() >> 63) as u8).collect(), size(dtype, n)),
        Kind::Int(_) => repeat((0..period).map(|_| (random.bits() >> 56) as u8).collect(), size(dtype, n)),
        // float8_e8m0fnu holds no negative numbers.
        _ if dtype == DType::F8E8M0 => numbers(dtype, n, |random| random.normal().abs()),
        _ => numbers(dtype, n, Random::normal),
    }
}

/// Returns `n` elements of `dtype` from numbers that `draw` returns.
pub(crate) fn numbers(dtype: DType, n: usize, mut draw: impl FnMut(&mut Random) -> f64) -> Vec<u8> {
    let mut random = Random::new();
    let part = dtype.part();
    let parts = n.min(PERIOD) * (dtype.bits() / part.bits()) as usize;
    let drawn: Vec<u8> = (0..parts).flat_map(|_| draw(&mut random).to_ne_bytes()).collect();
    let mut data = vec![0; size(part, parts)];
    cast_bytes_with(&drawn, DType::F64, &mut data, part, parts, &CastOptions::new())
        .expect("the buffers have the sizes of their elements");
    repeat(data, size(dtype, n))
}

/// Repeats data up to a number of bytes, with a part of it at the end.
fn repeat(mut data: Vec<u8>, bytes: usize) -> Vec<u8> {
    while data.len() < bytes {
        data.extend_from_within(..data.len().min(bytes - data.len()));
    }
    data
}

/// Returns how many elements make about `traffic` bytes read + written: a round number, so that pairs share
/// their totals.
pub(crate) fn elements(from: DType, to: DType, traffic: usize) -> usize {
    traffic * 8 / (from.bits() + to.bits()) as usize / 1024 * 1024
}

/// Returns the bytes of `n` elements in the default packing.
pub(crate) fn size(dtype: DType, n: usize) -> usize {
    dtype.byte_len(n, Packing::LowFirst).expect("benchmark sizes are far from overflow")
}
