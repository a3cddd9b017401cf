//! Tests of `modes`, `interesting`, `monotone_intervals` and `runs`.

use lanecast_oracle::{
    E8m0Rounding, Mode, NanToFinite, Overflow, Rounding, Type, convert, interesting, modes,
    monotone_intervals, runs,
};
use std::collections::HashMap;
use std::sync::OnceLock;

const SOURCES_32: [Type; 3] = [Type::F32, Type::I32, Type::U32];

/// Returns a random mode.
fn some_mode(state: &mut u64) -> Mode {
    let mut pick = |n: u64| {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(99);
        ((*state >> 33) % n) as usize
    };
    Mode {
        rounding: Rounding::ALL[pick(5)],
        int_rounding: Rounding::ALL[pick(5)],
        saturate: pick(2) == 0,
        float_to_int: Overflow::ALL[pick(2)],
        int_to_int: Overflow::ALL[pick(2)],
        nan_to_finite: NanToFinite::ALL[pick(3)],
        e8m0_rounding: E8m0Rounding::ALL[pick(3)],
        narrow_int_rounding: [None, Some(Rounding::ALL[pick(5)])][pick(2)],
        narrow_float_to_int: [None, Some(Overflow::ALL[pick(2)])][pick(2)],
    }
}

/// Whether all modes and codes are tested (`LANECAST_TESTS=all`).
fn is_whole() -> bool {
    std::env::var_os("LANECAST_TESTS").is_some()
}

/// Checks the interesting codes of a pair, and returns some that tell modes apart. They are found
/// once for all tests, because that takes longer than what is done with them.
fn sample(from: Type, to: Type) -> &'static [u128] {
    const TYPES: usize = Type::ALL.len();
    static SAMPLES: [[OnceLock<Vec<u128>>; TYPES]; TYPES] =
        [const { [const { OnceLock::new() }; TYPES] }; TYPES];
    SAMPLES[from as usize][to as usize].get_or_init(|| {
        let codes = interesting(from, to);
        are_interesting(from, to, &codes);
        let (some, ends) = if is_whole() { (3000, 300) } else { (700, 150) };
        let step = codes.len() / some + 1;
        let ends = ends.min(codes.len());
        let last = codes.len() - ends;
        let middle = codes.iter().step_by(step);
        let both_ends = codes[..ends].iter().chain(&codes[last..]);
        both_ends.chain(middle).copied().collect()
    })
}

/// Asserts that codes are in order, each once, and that there are enough of them.
fn are_interesting(from: Type, to: Type, codes: &[u128]) {
    let ascending = codes.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(ascending, "{from:?} -> {to:?}");
    if from.bits() < 128 {
        assert!(*codes.last().unwrap() < 1 << from.bits());
    }
    if from.bits() <= 16 {
        assert_eq!(codes.len(), 1 << from.bits());
    } else {
        assert!(codes.len() > 10_000, "{from:?} -> {to:?}");
        assert!(codes.len() < 5_000_000, "{from:?} -> {to:?}");
    }
}

#[test]
fn modes_are_complete_and_each_once() {
    let mut state = 1;
    let others = if is_whole() { 40 } else { 16 };
    for from in Type::ALL {
        for to in Type::ALL {
            let modes = modes(from, to);
            assert_eq!(modes[0], Mode::default(), "{from:?} -> {to:?}");
            for (i, mode) in modes.iter().enumerate() {
                assert!(!modes[..i].contains(mode), "{from:?} -> {to:?} {mode:?}");
            }
            let codes = sample(from, to);
            let results = |mode: &Mode| -> Vec<u128> {
                let convert = |code: &u128| convert(from, to, *code, mode);
                codes.iter().map(convert).collect()
            };
            let known: HashMap<Vec<u128>, Mode> = modes.iter().map(|m| (results(m), *m)).collect();
            for _ in 0..others {
                let mode = some_mode(&mut state);
                assert!(
                    known.contains_key(&results(&mode)),
                    "{from:?} -> {to:?} {mode:?}"
                );
            }
        }
    }
}

#[test]
fn modes_by_hand() {
    let count = |from, to| modes(from, to).len();
    assert_eq!(count(Type::F32, Type::F16), 5);
    assert_eq!(count(Type::F32, Type::F32), 1);
    assert_eq!(count(Type::F32, Type::F64), 1);
    assert_eq!(count(Type::F32, Type::C128), 1);
    assert_eq!(count(Type::C64, Type::F32), 1);
    assert_eq!(count(Type::C128, Type::C64), 5);
    assert_eq!(count(Type::F32, Type::E4M3FN), 10);
    assert_eq!(count(Type::F32, Type::E2M1FN), 15);
    assert_eq!(count(Type::F32, Type::E8M0FNU), 6);
    assert_eq!(count(Type::F32, Type::I8), 10);
    assert_eq!(count(Type::F32, Type::I4), 22);
    assert_eq!(count(Type::F32, Type::Bool), 1);
    assert_eq!(count(Type::I16, Type::I8), 2);
    assert_eq!(count(Type::U8, Type::I16), 1);
    assert_eq!(count(Type::I64, Type::F32), 5);
    assert_eq!(count(Type::I32, Type::F64), 1);
    assert_eq!(count(Type::Bool, Type::E4M3FN), 1);
    assert_eq!(count(Type::Bool, Type::E8M0FNU), 2);
}

#[test]
fn interesting_codes() {
    // In the opposite order to the next test, so that neither waits for samples that the other finds.
    for from in Type::ALL.into_iter().rev() {
        for to in Type::ALL {
            assert!(!sample(from, to).is_empty());
        }
    }
    // Every code of a narrow target except NaNs is the result of some source code.
    for to in [
        Type::E4M3FN,
        Type::E5M2FNUZ,
        Type::F16,
        Type::BF16,
        Type::I16,
    ] {
        let mut hit = vec![false; 1 << to.bits()];
        for code in interesting(Type::F64, to) {
            hit[convert(Type::F64, to, code, &Mode::default()) as usize] = true;
        }
        let mut codes = (0..1 << to.bits()).filter(|c| !to.is_nan_code(*c));
        assert!(codes.all(|c| hit[c as usize]), "{to:?}");
    }
    let codes = interesting(Type::F64, Type::E4M3FN);
    for x in [464.0_f64, 0.0, -0.0, f64::MAX, 1e-323, 2147483647.5, -128.5] {
        for bits in [x.to_bits(), x.next_up().to_bits(), x.next_down().to_bits()] {
            assert!(codes.binary_search(&bits.into()).is_ok(), "{x} {bits:#x}");
        }
    }
    for nan in [0x7FF0_0000_0000_0001, 0xFFF7_FFFF_FFFF_FFFF, u64::MAX] {
        assert!(codes.binary_search(&nan.into()).is_ok(), "{nan:#x}");
    }
}

#[test]
fn intervals_cover_everything() {
    for from in SOURCES_32 {
        for to in Type::ALL {
            for mode in modes(from, to) {
                let intervals = monotone_intervals(from, to, &mode);
                if intervals.is_empty() {
                    assert!(to.is_integer());
                    continue;
                }
                let mut next = 0;
                for (first, last) in intervals {
                    assert_eq!(u64::from(first), next);
                    assert!(first <= last);
                    next = u64::from(last) + 1;
                }
                assert_eq!(next, 1 << 32);
            }
        }
    }
}

/// The runs of a 32-bit source have no gaps and no equal neighbours within an interval, and agree with
/// `convert` on interesting and random codes.
#[test]
fn runs_agree_with_convert() {
    for from in SOURCES_32 {
        for to in Type::ALL.into_iter().filter(|to| to.bits() <= 16) {
            let codes = interesting(from, to);
            for mode in modes(from, to) {
                let step = if is_whole() { 1 } else { 5 };
                let mut codes = codes.iter().copied().step_by(step).peekable();
                let mut state = 7_u64;
                let mut covered = 0_u64;
                for (lo, hi) in monotone_intervals(from, to, &mode) {
                    let mut previous = None;
                    runs(from, to, &mode, lo, hi, &mut |first, last, result| {
                        assert_eq!(u64::from(first), covered);
                        assert!(first <= last && last <= hi);
                        assert_ne!(previous, Some(result));
                        covered = u64::from(last) + 1;
                        previous = Some(result);
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                        let span = u64::from(last - first) + 1;
                        let inside = u64::from(first) + (state >> 16) % span;
                        let what = || format!("{from:?} -> {to:?} {mode:?} {inside:#x}");
                        let ours = convert(from, to, inside.into(), &mode);
                        assert_eq!(ours, result, "{}", what());
                        while let Some(code) = codes.next_if(|c| *c <= last.into()) {
                            let ours = convert(from, to, code, &mode);
                            assert_eq!(ours, result, "{from:?} -> {to:?} {mode:?} {code:#x}");
                        }
                    });
                    assert_eq!(covered, u64::from(hi) + 1);
                }
            }
        }
    }
}

/// Runs agree with `convert` on every code of a few ranges.
#[test]
fn runs_one_by_one() {
    for from in SOURCES_32 {
        for to in Type::ALL {
            let mode = Mode::default();
            for (lo, hi) in monotone_intervals(from, to, &mode) {
                for start in [lo, lo / 2 + hi / 2, hi.saturating_sub(3000).max(lo)] {
                    let end = start.saturating_add(3000).min(hi);
                    let mut next = start;
                    runs(from, to, &mode, start, end, &mut |first, last, result| {
                        assert_eq!(first, next);
                        for code in first..=last {
                            assert_eq!(convert(from, to, code.into(), &mode), result);
                        }
                        next = last.wrapping_add(1);
                    });
                    assert_eq!(next, end.wrapping_add(1));
                }
            }
        }
    }
}
