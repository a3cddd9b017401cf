//! Plain copies, and the scalar reference, tile by tile. The loops of the vector kernels are in `vector.rs`.

use core::mem::MaybeUninit;
use core::slice;

use super::layout::{load, store};
use super::plan::Planned;
use super::run::Run;
use super::scalar::{self, DECODE, ENCODE, Value};
use crate::formats::layout::Packing;
use crate::formats::route::{Parts, Route, Work};

/// Elements in a tile: a multiple of 8, so that every tile of a packed buffer starts at a byte; and few, so that one element
/// does not pay for zeroing a large tile (with 256, that costs 100 ns and gains nothing).
const TILE: usize = 64;

/// Runs [`Work::Copy`].
///
/// # Safety
/// As for every [`PlanKernel`](super::plan::PlanKernel).
pub(super) unsafe fn copy(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_by(Run::plainly, plan, src, dst, n) }
}

/// As [`copy`]; `bytes` copies the whole bytes.
///
/// # Safety
/// As for every [`PlanKernel`](super::plan::PlanKernel).
#[inline(always)]
pub(super) unsafe fn copy_by(
    bytes: impl FnOnce(Run),
    plan: &Planned,
    src: *const u8,
    dst: *mut u8,
    n: usize,
) {
    let route = &plan.route;
    let bits = route.src.bits as usize * route.src.parts;
    // `whole` is n * bits / 8 without overflow: 8 elements are `bits` bytes.
    let (whole, rest) = (n / 8 * bits + n % 8 * bits / 8, n % 8 * bits % 8);
    // SAFETY: `whole` bytes, and one more if `rest` bits remain, are the size of both buffers, which do not overlap.
    unsafe {
        bytes(Run::new(src, dst, whole));
        if rest != 0 {
            let used = match route.src.packing {
                Packing::HighFirst => !(0xFF >> rest),
                _ => !(0xFF << rest),
            };
            dst.add(whole).write(src.add(whole).read() & used);
        }
    }
}

/// Casts any route by the scalar reference, a tile at a time.
///
/// # Safety
/// As for every [`PlanKernel`](super::plan::PlanKernel).
pub(super) unsafe fn scalar(plan: &Planned, src: *const u8, dst: *mut u8, n: usize) {
    let route = &plan.route;
    // SAFETY: so many bytes are the elements that the caller promises, and none of them is in both buffers. Those of the source
    // are initialised, because its elements are.
    let (src, dst) = unsafe {
        let dst = dst.cast::<MaybeUninit<u8>>();
        (slice::from_raw_parts(src, route.src.size(n)), slice::from_raw_parts_mut(dst, route.dst.size(n)))
    };
    let mut codes = [0; TILE];
    let mut other = [0; TILE];
    let mut values = [Value::ZERO; TILE];
    // Every tile but the last has `TILE` elements, which begin and end at whole bytes.
    let sizes = [&route.src, &route.dst].map(|layout| layout.size(TILE));
    for (i, (src, dst)) in src.chunks(sizes[0]).zip(dst.chunks_mut(sizes[1])).enumerate() {
        let first = i * TILE;
        let codes = &mut codes[..TILE.min(n - first)];
        let other = &mut other[..codes.len()];
        // Every part of every destination element is stored.
        load(&route.src, src, 0, codes);
        convert(plan, first, codes, &mut values);
        match route.parts {
            Parts::One | Parts::Real => {}
            Parts::Extend => store(&route.dst, dst, 1, other),
            Parts::Two => {
                load(&route.src, src, 1, other);
                convert(plan, first, other, &mut values);
                store(&route.dst, dst, 1, other);
            }
            Parts::Either => {
                load(&route.src, src, 1, other);
                convert(plan, first, other, &mut values);
                for (code, other) in codes.iter_mut().zip(&*other) {
                    *code |= other;
                }
            }
        }
        store(&route.dst, dst, 0, codes);
    }
}

/// Casts the codes of a tile, whose first element has the index `first`.
fn convert(plan: &Planned, first: usize, codes: &mut [u64], values: &mut [Value; TILE]) {
    let Route { from, to, policy, work, is_stochastic, .. } = &plan.route;
    if *work != Work::Convert {
        return;
    }
    let values = &mut values[..codes.len()];
    DECODE[*from as usize](codes, values);
    if !is_stochastic {
        return ENCODE[*to as usize](values, codes, policy);
    }
    for (i, (code, &value)) in codes.iter_mut().zip(&*values).enumerate() {
        let word = plan.stochastic.word((first + i) as u64);
        *code = scalar::encode_stochastic(*to, value, policy, word);
    }
}
