//! All 900 pairs beside memcpy.

use std::hint::black_box;

use arrow_buffer::MutableBuffer;
use lanecast::{CastOptions, Caster, DType, Error, Isa};

use crate::data::{elements, size, source};
use crate::race::{Length, race};

/// How long one cast of a pair takes, and memcpy of the same total. Medians, in seconds.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The dtype of the source.
    pub from: DType,
    /// The dtype of the destination.
    pub to: DType,
    /// Bytes read + bytes written, by either.
    pub bytes: usize,
    /// memcpy of half as many bytes.
    pub memcpy: f64,
    /// The cast, on each of the instruction sets asked for.
    pub casts: Vec<f64>,
}

/// Races every pair on `isas` and memcpy, each pair on about `traffic` bytes. Row after row: all targets of
/// the first dtype, then of the second.
///
/// # Errors
///
/// An instruction set is not available.
pub fn grid(isas: &[Isa], traffic: usize, length: Length) -> Result<Vec<Timed>, Error> {
    // Allocated and written to once: the speed of page faults is not what is measured. Aligned for any
    // vector, as the buffers of array libraries are.
    let [mut src, mut dst] = [(); 2].map(|()| {
        let mut memory = MutableBuffer::from_len_zeroed(traffic);
        memory.fill(1);
        memory
    });
    let mut timed = Vec::new();
    for from in DType::ALL {
        let data = source(from, traffic * 8 / from.bits() as usize);
        src[..data.len()].copy_from_slice(&data);
        for to in DType::ALL {
            let n = elements(from, to, traffic);
            let (src_size, dst_size) = (size(from, n), size(to, n));
            let half = (src_size + dst_size) / 2;
            let casters = casters(from, to, isas)?;
            let mut medians = race(1 + isas.len(), length, |contender| match contender {
                0 => black_box(&mut dst[..half]).copy_from_slice(black_box(&src[..half])),
                i => cast(&casters[i - 1], &src[..src_size], &mut dst[..dst_size], n),
            });
            let casts = medians.split_off(1);
            timed.push(Timed { from, to, bytes: src_size + dst_size, memcpy: medians[0], casts });
        }
    }
    Ok(timed)
}

/// How fast memory is read alone, added up, and written alone, filled: as fractions of the speed of memcpy, of which half
/// the bytes are read and half are written.
pub fn alone(traffic: usize, length: Length) -> [f64; 2] {
    let [src, mut dst] = [(); 2].map(|()| vec![1u64; traffic / 8]);
    let half = src.len() / 2;
    let medians = race(3, length, |contender| match contender {
        0 => black_box(&mut dst[..half]).copy_from_slice(black_box(&src[..half])),
        1 => _ = black_box(black_box(&src).iter().fold(0u64, |sum, x| sum.wrapping_add(*x))),
        _ => black_box(&mut dst).fill(black_box(7)),
    });
    [1, 2].map(|i| medians[0] / medians[i])
}

/// The median time of one memcpy that moves as many bytes, and of one cast of `n` elements on each of `isas`, in seconds.
///
/// # Errors
///
/// An instruction set is not available.
pub fn few(from: DType, to: DType, n: usize, isas: &[Isa], length: Length) -> Result<Vec<f64>, Error> {
    let (src, mut dst) = (source(from, n), vec![1; size(to, n)]);
    let [copied, mut copy] = [(); 2].map(|()| vec![1u8; src.len() + dst.len()]);
    let half = (src.len() + dst.len()).div_ceil(2);
    let casters = casters(from, to, isas)?;
    Ok(race(1 + isas.len(), length, |contender| match contender {
        0 => black_box(&mut copy[..black_box(half)]).copy_from_slice(black_box(&copied[..half])),
        i => cast(&casters[i - 1], &src, &mut dst, n),
    }))
}

fn casters(from: DType, to: DType, isas: &[Isa]) -> Result<Vec<Caster>, Error> {
    isas.iter().map(|&isa| Caster::new(from, to, &CastOptions::new().isa(isa))).collect()
}

fn cast(caster: &Caster, src: &[u8], dst: &mut [u8], n: usize) {
    caster.cast(black_box(src), black_box(dst), n).expect("the sizes agree");
}
