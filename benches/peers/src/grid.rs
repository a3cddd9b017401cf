//! Times all pairs beside memcpy and the null cast.

use std::hint::black_box;

use arrow_buffer::MutableBuffer;
use lanecast::{CastOptions, Caster, DType, Error, Isa};

use crate::data::{SMALL, elements, size, source};
use crate::null::Null;
use crate::race::{Length, race};

/// The median times, in seconds, of one cast of a pair, of memcpy of the same total, and of the null cast.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The dtype of the source.
    pub from: DType,
    /// The dtype of the destination.
    pub to: DType,
    /// Bytes read + bytes written, by the cast as by memcpy.
    pub bytes: usize,
    /// memcpy of half as many bytes.
    pub memcpy: f64,
    /// The cast on each of the instruction sets.
    pub casts: Vec<f64>,
    /// The null cast with the registers of each instruction set: with ordinary or non-temporal stores, whichever are
    /// faster. `None` for the reference.
    pub nulls: Vec<Option<f64>>,
}

/// Races each pair on `isas` with the null casts and memcpy, on about `traffic` bytes.
///
/// # Errors
///
/// An instruction set is not available.
pub fn grid(
    pairs: impl IntoIterator<Item = (DType, DType)>,
    isas: &[Isa],
    traffic: usize,
    length: Length,
) -> Result<Vec<Timed>, Error> {
    // Allocated and written to once, so that page faults are not timed. Aligned for any vector register, as the
    // buffers of array libraries are.
    let [mut src, mut dst] = [(); 2].map(|()| {
        let mut memory = MutableBuffer::from_len_zeroed(traffic);
        memory.fill(1);
        memory
    });
    // Non-temporal stores are never faster where the caches hold everything.
    let ways: &[bool] = if traffic > SMALL { &[false, true] } else { &[false] };
    let mut timed = Vec::new();
    let mut last = None;
    for (from, to) in pairs {
        if last.replace(from) != Some(from) {
            let data = source(from, traffic * 8 / from.bits() as usize);
            src[..data.len()].copy_from_slice(&data);
        }
        let n = elements(from, to, traffic);
        let (src_size, dst_size) = (size(from, n), size(to, n));
        let half = (src_size + dst_size) / 2;
        let casters = casters(from, to, isas)?;
        let nulls: Vec<(usize, Null, bool)> = (isas.iter().enumerate())
            .filter_map(|(i, &isa)| Some((i, Null::new(from, to, isa)?)))
            .flat_map(|(i, null)| ways.iter().map(move |&way| (i, null, way)))
            .collect();
        let mut medians = race(1 + isas.len() + nulls.len(), length, |contender| match contender {
            0 => black_box(&mut dst[..half]).copy_from_slice(black_box(&src[..half])),
            i if i <= isas.len() => cast(&casters[i - 1], &src[..src_size], &mut dst[..dst_size], n),
            i => {
                let (_, null, way) = nulls[i - 1 - isas.len()];
                null.run(black_box(&src[..src_size]), black_box(&mut dst[..dst_size]), way);
            }
        });
        let mut least = vec![None; isas.len()];
        for ((i, ..), took) in nulls.iter().zip(medians.split_off(1 + isas.len())) {
            least[*i] = Some(least[*i].map_or(took, |least: f64| least.min(took)));
        }
        let casts = medians.split_off(1);
        timed.push(Timed { from, to, bytes: src_size + dst_size, memcpy: medians[0], casts, nulls: least });
    }
    Ok(timed)
}

/// Returns the median times, in seconds, of a cast whose results go past the caches, of one whose results stay in them, and of one that
/// chooses. A turn should be longer than several casts, so that each finds in the caches what it has left there itself.
///
/// # Errors
///
/// The instruction set is not available.
pub fn ways(from: DType, to: DType, isa: Isa, traffic: usize, length: Length) -> Result<[f64; 3], Error> {
    let n = elements(from, to, traffic);
    let [mut src, mut dst] = [size(from, n), size(to, n)].map(MutableBuffer::from_len_zeroed);
    src.copy_from_slice(&source(from, n));
    let by = |options: CastOptions| Caster::new(from, to, &options.isa(isa));
    let options = CastOptions::new();
    let casters = [by(options.stream_from(0))?, by(options.stream_from(usize::MAX))?, by(options)?];
    let medians = race(3, length, |contender| cast(&casters[contender], &src, &mut dst, n));
    Ok([0, 1, 2].map(|i| medians[i]))
}

/// Returns all pairs: those from the first dtype to all targets, then those from the second.
pub fn all() -> impl Iterator<Item = (DType, DType)> {
    DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|to| (from, to)))
}

/// Returns how fast memory is only read (a sum) and only written (a fill), as fractions of the speed of memcpy, which reads
/// half of the bytes and writes half.
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

/// Returns the median times, in seconds, of one memcpy that moves as many bytes, and of one cast of `n` elements on each of `isas`.
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
