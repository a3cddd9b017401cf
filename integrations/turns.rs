// The times of two libraries in one program: a module of the programs of integrations/, and of benches/ndarray.rs.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How much longer theirs takes than ours to cast so many elements: the median of turns.
pub(crate) fn ratio<T, O>(elements: usize, theirs: impl Fn() -> T, ours: impl Fn() -> O) -> f64 {
    // As many calls as take a while, so that the clock does not matter.
    let calls = (200_000 / elements).clamp(1, 400);
    let their = || time(calls, &theirs);
    let our = || time(calls, &ours);
    let (start, mut ratios) = (Instant::now(), Vec::new());
    while ratios.len() < 31 || start.elapsed() < Duration::from_millis(150) {
        let (a, b, c, d) = (their(), our(), our(), their());
        ratios.push((a + d).as_secs_f64() / (b + c).as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

fn time<R>(calls: usize, call: impl Fn() -> R) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed()
}
