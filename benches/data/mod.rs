//! What the benchmarks cast: numbers as they occur, the same in every run.

use lanecast::{CastOptions, DType, Kind, Packing, cast_bytes_with};

/// Bytes read + bytes written that stay in an L2 of 512 KiB and do not fit in any L1.
pub(crate) const SMALL: usize = 256 << 10;
/// More than nearly every last-level cache holds.
pub(crate) const LARGE: usize = 64 << 20;

/// Elements before the data repeats: more than any branch predictor learns, and quick to make. A multiple
/// of 8, so that a repetition of packed elements begins at a byte.
const PERIOD: usize = 1 << 16;

/// A small generator (xorshift64*): the data need be neither secret nor of high quality.
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

    /// From 0 to 1, without the ends.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Normal, with mean 0 and deviation 4: as weights and activations are, at a scale where narrow floats
    /// meet small, middling and (the narrowest) too large values.
    pub(crate) fn normal(&mut self) -> f64 {
        4.0 * (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// `n` elements of `dtype`, packed as by default: integers over their whole range, floats normal. Neither
/// NaNs nor infinities, whose speed is not that of numbers.
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

/// `n` elements of `dtype` from numbers drawn one after the other.
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

/// Whole periods, and what fits of a last one.
fn repeat(mut data: Vec<u8>, bytes: usize) -> Vec<u8> {
    while data.len() < bytes {
        data.extend_from_within(..data.len().min(bytes - data.len()));
    }
    data
}

/// As many elements as make about `traffic` bytes read + written. A round number, so that pairs share their
/// totals.
pub(crate) fn elements(from: DType, to: DType, traffic: usize) -> usize {
    traffic * 8 / (from.bits() + to.bits()) as usize / 1024 * 1024
}

/// The bytes of `n` elements, packed as by default.
pub(crate) fn size(dtype: DType, n: usize) -> usize {
    dtype.byte_len(n, Packing::LowFirst).expect("benchmark sizes are far from overflow")
}
