//! Finds the largest magnitudes of groups of floats.

use super::super::backend::on;
use super::super::codec::width::registers;
use super::super::present::Present;
use super::super::simd::{Simd, Task};

/// Raises `found`, the largest magnitude of each group of `group` floats of 16 or 32 bits, to the largest of these elements.
/// Magnitudes are the bits without the sign, which compare as integers; NaN is the largest.
pub(crate) fn largest(isa: Present, src: &[u8], bits: u32, group: usize, found: &mut [u32]) {
    extremes(isa, src, bits, group, &mut [], found);
}

/// As [`largest`], of the negative elements in `low` and of the others in `high`; of all in `high` if `low` is empty.
pub(crate) fn extremes(isa: Present, src: &[u8], bits: u32, group: usize, low: &mut [u32], high: &mut [u32]) {
    Groups { src, bits, group, low, high, wide: None }.run(isa);
}

/// Which float64s count in [`largest_f64`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    All,
    Negative,
    Positive,
}

/// As [`largest`], for float64s. Magnitudes above `limit`, and numbers that are not on this side of zero, do not count.
pub(crate) fn largest_f64(
    isa: Present,
    values: &[f64],
    limit: u64,
    side: Side,
    group: usize,
    found: &mut [u64],
) {
    let wide = Some(Wide { values, limit, side, found });
    let ran =
        on!(isa, isa => isa.run(Groups { src: &[], bits: 64, group, low: &mut [], high: &mut [], wide }));
    debug_assert!(ran.is_some());
}

/// The arguments of [`extremes`] and [`largest_f64`]: one task for both, so that there is one kernel. If `wide` is given, all other
/// fields but `group` are ignored.
struct Groups<'a> {
    src: &'a [u8],
    bits: u32,
    group: usize,
    low: &'a mut [u32],
    high: &'a mut [u32],
    /// For [`largest_f64`].
    wide: Option<Wide<'a>>,
}

impl Groups<'_> {
    #[inline(never)] // It is called from two places.
    fn run(self, isa: Present) {
        let ran = on!(isa, isa => isa.run(self));
        debug_assert!(ran.is_some());
    }
}

struct Wide<'a> {
    values: &'a [f64],
    limit: u64,
    side: Side,
    found: &'a mut [u64],
}

impl Wide<'_> {
    #[inline(always)]
    fn groups(self, group: usize) {
        const LANES: usize = 8;
        let Self { values, limit, side, found } = self;
        // As signed integers, which AVX2 can compare. Numbers on the other side become less than zero.
        let limit = limit as i64;
        let (flipped, kept) = match side {
            Side::All => (0, i64::MAX),
            Side::Negative => (i64::MIN, -1),
            Side::Positive => (0, -1),
        };
        let counted = |x: &f64| {
            let bits = x.to_bits() as i64;
            if bits & i64::MAX <= limit { (bits ^ flipped) & kept } else { 0 }
        };
        if group == 1 {
            for (found, x) in found.iter_mut().zip(values) {
                *found = (*found as i64).max(counted(x)) as u64;
            }
            return;
        }
        for (found, elements) in found.iter_mut().zip(values.chunks(group.max(1))) {
            let (registers, rest) = elements.as_chunks::<LANES>();
            let mut most = [0; LANES];
            for register in registers {
                for (most, x) in most.iter_mut().zip(register) {
                    *most = counted(x).max(*most);
                }
            }
            let rest = rest.iter().map(counted);
            *found = most.into_iter().chain(rest).fold(*found as i64, i64::max) as u64;
        }
    }
}

impl<I: Simd> Task<I> for Groups<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self, isa: I) {
        let Self { src, bits, group, low, high: found, wide } = self;
        if let Some(wide) = wide {
            return wide.groups(group);
        }
        if !low.is_empty() {
            return match bits {
                32 => both::<I, 4>(isa, src, group, low, found),
                _ => both::<I, 2>(isa, src, group, low, found),
            };
        }
        if group == 1 {
            // Every element is a group.
            match bits {
                32 => {
                    for (found, x) in found.iter_mut().zip(src.as_chunks::<4>().0) {
                        *found = (*found).max(u32::from_ne_bytes(*x) & (u32::MAX >> 1));
                    }
                }
                _ => {
                    for (found, x) in found.iter_mut().zip(src.as_chunks::<2>().0) {
                        *found = (*found).max(u32::from(u16::from_ne_bytes(*x) & (u16::MAX >> 1)));
                    }
                }
            }
            return;
        }
        // First, whole short groups by the loops for those; then what is left.
        let size = bits as usize / 8 * group;
        // The size of a group in halves of registers.
        let done = match (bits, 2 * size / I::BYTES, 2 * size % I::BYTES) {
            (16, 1, 0) if const { I::BYTES == 64 } => halves(isa, found, src),
            (16, 2, 0) => eight::<I, 1>(isa, found, src),
            (16, 4, 0) => eight::<I, 2>(isa, found, src),
            (32, 2, 0) => four::<I, 1>(isa, found, src),
            (32, 4, 0) => four::<I, 2>(isa, found, src),
            _ => 0,
        };
        let found = found.get_mut(done..).unwrap_or_default();
        let src = src.get(done * size..).unwrap_or_default();
        for (found, elements) in found.iter_mut().zip(src.chunks(size.max(1))) {
            let most = if bits == 32 { most::<I, 4>(isa, elements) } else { most::<I, 2>(isa, elements) };
            *found = (*found).max(most);
        }
    }
}

/// Raises `low` and `high` to the largest magnitudes of the negative and of the other elements of each group. As unsigned integers,
/// negative elements are the largest; as signed ones, the others are.
#[inline(always)]
fn both<I: Simd, const WIDTH: usize>(isa: I, src: &[u8], group: usize, low: &mut [u32], high: &mut [u32]) {
    let sign = const { 1 << (8 * WIDTH - 1) };
    for ((low, high), mut elements) in low.iter_mut().zip(high).zip(src.chunks((WIDTH * group).max(1))) {
        let mut all = [isa.splat32(0); 2];
        while let Some(x) = next(isa, &mut elements) {
            all[0] = larger::<I, WIDTH>(isa, all[0], x);
            all[1] = if WIDTH == 4 { isa.max_s32(all[1], x) } else { isa.max_s16(all[1], x) };
        }
        let (least, most) = (of_register::<I, WIDTH>(isa, all[0]), of_register::<I, WIDTH>(isa, all[1]));
        *low = (*low).max(least.saturating_sub(sign));
        *high = (*high).max(most);
    }
}

/// Loads the next register of a group; the last one is followed by zeros, which change no largest magnitude.
#[inline(always)]
fn next<I: Simd>(isa: I, elements: &mut &[u8]) -> Option<I::V> {
    if elements.is_empty() || elements.len() >= I::BYTES {
        return isa.load_next(elements);
    }
    let mut room = [0; 64];
    isa.fill(&mut room[..I::BYTES], elements);
    *elements = &[];
    isa.load_next(&mut &room[..])
}

/// The largest lane.
#[inline(always)]
fn of_register<I: Simd, const WIDTH: usize>(isa: I, all: I::V) -> u32 {
    if WIDTH == 4 { isa.most_u32(all) } else { isa.most_u16(all) }
}

#[inline(always)]
fn larger<I: Simd, const WIDTH: usize>(isa: I, a: I::V, b: I::V) -> I::V {
    if WIDTH == 4 { isa.max_u32(a, b) } else { isa.max_u16(a, b) }
}

/// Handles groups of `REGISTERS` registers of 16-bit lanes, eight groups at a time. Returns how many groups were done.
#[inline(always)]
fn eight<I: Simd, const REGISTERS: usize>(isa: I, found: &mut [u32], src: &[u8]) -> usize {
    let (eights, _) = found.as_chunks_mut::<8>();
    let size = const { 8 * REGISTERS * I::BYTES };
    let n = eights.len().min(src.len() / size);
    for (found, src) in eights.iter_mut().zip(src.chunks_exact(size)) {
        for piece in of_eight::<I, REGISTERS>(isa, src).as_chunks::<16>().0 {
            for (found, x) in found.iter_mut().zip(piece.as_chunks::<2>().0) {
                *found = (*found).max(u16::from_ne_bytes(*x).into());
            }
        }
    }
    8 * n
}

/// Handles groups of half a register of 16-bit lanes (with AVX-512, 16 elements, as NVFP4 has them), sixteen at a time; fewer are
/// followed by zeros. Returns how many groups were done: all.
#[inline(always)]
fn halves<I: Simd>(isa: I, found: &mut [u32], mut src: &[u8]) -> usize {
    let size = const { 8 * I::BYTES };
    let mut room = [0; 8 * 64];
    for found in found.chunks_mut(16) {
        if src.is_empty() {
            break;
        }
        let (mut some, rest) = src.split_at(src.len().min(size));
        src = rest;
        if some.len() < size {
            isa.fill(&mut room[..size], some);
            some = &room[..size];
        }
        let bytes = of_eight::<I, 1>(isa, some);
        // The first half of the pieces belongs to the first group in each register.
        let lanes = bytes.as_chunks::<2>().0;
        let mut most = [0; 16];
        for at in 0..I::BYTES / 16 {
            for lane in 0..8 {
                let found = &mut most[2 * lane + at * 32 / I::BYTES];
                *found = u32::from(u16::from_ne_bytes(lanes[8 * at + lane])).max(*found);
            }
        }
        for (found, most) in found.iter_mut().zip(&most) {
            *found = (*found).max(*most);
        }
    }
    found.len()
}

/// The largest magnitudes of eight runs of `REGISTERS` registers of 16-bit lanes. They are zipped into one register, in which
/// every piece of 16 bytes has a lane of each run.
#[inline(always)]
fn of_eight<I: Simd, const REGISTERS: usize>(isa: I, mut src: &[u8]) -> [u8; 64] {
    let mask = isa.splat32(unsigned::<2>());
    let mut all = [isa.splat32(0); 8];
    for most in &mut all {
        for _ in 0..REGISTERS {
            let Some(x) = isa.load_next(&mut src) else { break };
            *most = isa.max_u16(*most, isa.and(x, mask));
        }
    }
    let pairs = registers!(4, K => zipped::<I, 2>(isa, all[2 * K], all[2 * K + 1]));
    let fours = registers!(2, K => zipped::<I, 4>(isa, pairs[2 * K], pairs[2 * K + 1]));
    let mut bytes = [0; 64];
    isa.store_next(&mut (&mut bytes[..]).into(), zipped::<I, 8>(isa, fours[0], fours[1]));
    bytes
}

/// The maxima of the lower and the upper halves of the pieces of two registers, in one register of 16-bit lanes: `BYTES` bytes
/// of `a` and of `b` by turns.
#[inline(always)]
fn zipped<I: Simd, const BYTES: usize>(isa: I, a: I::V, b: I::V) -> I::V {
    let [low, high] = isa.zip_pieces::<BYTES>(a, b);
    isa.max_u16(low, high)
}

/// Handles groups of `REGISTERS` registers of 32-bit lanes, four groups at a time: their registers are zipped into one, in which
/// every piece of 16 bytes has a lane of each group. Returns how many groups were done.
#[inline(always)]
fn four<I: Simd, const REGISTERS: usize>(isa: I, found: &mut [u32], src: &[u8]) -> usize {
    let (fours, _) = found.as_chunks_mut::<4>();
    let size = const { 4 * REGISTERS * I::BYTES };
    let n = fours.len().min(src.len() / size);
    let mask = isa.splat32(unsigned::<4>());
    for (found, mut src) in fours.iter_mut().zip(src.chunks_exact(size)) {
        let mut all = [isa.splat32(0); 4];
        for most in &mut all {
            for _ in 0..REGISTERS {
                let Some(x) = isa.load_next(&mut src) else { break };
                *most = isa.max_u32(*most, isa.and(x, mask));
            }
        }
        let first = isa.zip_pieces::<4>(all[0], all[1]);
        let second = isa.zip_pieces::<4>(all[2], all[3]);
        let both = [isa.max_u32(first[0], first[1]), isa.max_u32(second[0], second[1])];
        let zipped = isa.zip_pieces::<8>(both[0], both[1]);
        let mut bytes = [0; 64];
        isa.store_next(&mut (&mut bytes[..]).into(), isa.max_u32(zipped[0], zipped[1]));
        for piece in bytes.as_chunks::<16>().0 {
            for (found, x) in found.iter_mut().zip(piece.as_chunks::<4>().0) {
                *found = (*found).max(u32::from_ne_bytes(*x));
            }
        }
    }
    4 * n
}

/// The mask of all bits but the signs.
#[inline(always)]
fn unsigned<const WIDTH: usize>() -> u32 {
    if WIDTH == 4 { u32::MAX >> 1 } else { 0x7FFF_7FFF }
}

/// The largest magnitude of one group.
#[inline(always)]
fn most<I: Simd, const WIDTH: usize>(isa: I, mut elements: &[u8]) -> u32 {
    let lanes = isa.splat32(unsigned::<WIDTH>());
    let mut all = [isa.splat32(0); 2];
    while let Some((mut both, rest)) = elements.split_at_checked(2 * I::BYTES)
        && let (Some(a), Some(b)) = (isa.load_next(&mut both), isa.load_next(&mut both))
    {
        all[0] = larger::<I, WIDTH>(isa, all[0], isa.and(a, lanes));
        all[1] = larger::<I, WIDTH>(isa, all[1], isa.and(b, lanes));
        elements = rest;
    }
    while let Some(x) = next(isa, &mut elements) {
        all[0] = larger::<I, WIDTH>(isa, all[0], isa.and(x, lanes));
    }
    of_register::<I, WIDTH>(isa, larger::<I, WIDTH>(isa, all[0], all[1]))
}
