//! Runs of equal results over the codes of a 32-bit source.

use crate::{Mode, Overflow, Type, convert};

/// Calls `f(first, last, result)` for each run of equal results in `lo..=hi`, in order and without
/// gaps. The end of a run is found by doubling steps, then by bisection, so equal results must be
/// contiguous in the interval (see [`monotone_intervals`]).
pub fn runs(
    from: Type,
    to: Type,
    mode: &Mode,
    lo: u32,
    hi: u32,
    f: &mut dyn FnMut(u32, u32, u128),
) {
    assert_eq!(from.bits(), 32, "runs are for 32-bit sources");
    let (mut first, hi) = (u64::from(lo), u64::from(hi));
    while first <= hi {
        let result = convert(from, to, first.into(), mode);
        let is_same = |code: u64| convert(from, to, code.into(), mode) == result;
        // `same` is in the run; `beyond` is not, or lies past the interval.
        let (mut same, mut beyond) = (first, hi + 1);
        let mut step = 1;
        while same + step <= hi {
            if !is_same(same + step) {
                beyond = same + step;
                break;
            }
            same += step;
            step *= 2;
        }
        while beyond - same > 1 {
            let middle = same + (beyond - same) / 2;
            if is_same(middle) {
                same = middle;
            } else {
                beyond = middle;
            }
        }
        f(first as u32, same as u32, result);
        first = same + 1;
    }
}

/// Splits the codes of a 32-bit source into intervals within which equal results are contiguous.
/// Returns none where a few intervals do not suffice (wrapping integers).
pub fn monotone_intervals(from: Type, to: Type, mode: &Mode) -> Vec<(u32, u32)> {
    assert_eq!(from.bits(), 32, "intervals are for 32-bit sources");
    if wraps(from, to, mode) {
        return Vec::new();
    }
    match from {
        // Zero is separate because a non-saturating e8m0 gives NaN for zero and for negatives.
        Type::U32 => vec![(0, 0), (1, u32::MAX)],
        Type::I32 => vec![(0, 0), (1, 0x7FFF_FFFF), (0x8000_0000, u32::MAX)],
        Type::F32 => vec![
            // [0, 1) and [1, Inf) are separate because a non-saturating e8m0 gives NaN at both ends.
            (0, 0x3F7F_FFFF),
            (0x3F80_0000, 0x7F7F_FFFF),
            (0x7F80_0000, 0x7F80_0000),
            // Signalling and quiet NaNs are separate because both come out quiet, so results repeat.
            (0x7F80_0001, 0x7FBF_FFFF),
            (0x7FC0_0000, 0x7FFF_FFFF),
            (0x8000_0000, 0xBF7F_FFFF),
            (0xBF80_0000, 0xFF7F_FFFF),
            (0xFF80_0000, 0xFF80_0000),
            (0xFF80_0001, 0xFFBF_FFFF),
            (0xFFC0_0000, 0xFFFF_FFFF),
        ],
        _ => unreachable!("no other dtype has 32 bits"),
    }
}

/// Whether distant source values share a result because an integer target keeps only the low bits.
fn wraps(from: Type, to: Type, mode: &Mode) -> bool {
    if !to.is_integer() {
        false
    } else if from.is_float() {
        mode.float_to_int_for(to) == Overflow::Wrap
    } else {
        mode.int_to_int == Overflow::Wrap && to.bits() < from.bits()
    }
}
