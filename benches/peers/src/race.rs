//! Races: everyone takes a turn in every round, so that whatever else the machine does meets all of them,
//! and the medians are compared.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

/// How long a race is.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Turns that everyone takes.
    pub rounds: usize,
    /// Seconds that one turn should take at least: far above what the clock resolves. However short it is,
    /// there is one run in a turn.
    pub turn: f64,
}

/// How often a turn that was interrupted is taken again.
const AGAIN: usize = 3;

/// How often the system has taken the CPU away from this thread; 0 where it does not say.
fn interruptions() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The median time of one run by each of `contenders`, in seconds.
pub fn race(contenders: usize, length: Length, mut run: impl FnMut(usize)) -> Vec<f64> {
    let mut turn = |contender: usize, runs: usize| {
        let start = Instant::now();
        for _ in 0..runs {
            run(black_box(contender));
        }
        start.elapsed().as_secs_f64() / runs as f64
    };
    let runs: Vec<usize> = (0..contenders)
        .map(|contender| {
            // The first run warms up. It is slow, but not 10 times.
            let first = turn(contender, 1);
            if first > 10.0 * length.turn { 1 } else { (length.turn / turn(contender, 3)).ceil() as usize }
        })
        .collect();
    let mut seconds = vec![Vec::new(); contenders];
    for round in 0..length.rounds {
        // Every other round backwards: nobody always comes after the same one.
        for i in 0..contenders {
            let contender = if round % 2 == 0 { i } else { contenders - 1 - i };
            // A time in which another program ran says nothing.
            let mut took = 0.0;
            for _ in 0..=AGAIN {
                // A turn of one run finds in the caches what was left there: by itself, not by the one before. Who streams past them
                // leaves nothing for the next one, and finds lines there that are to be written first.
                if runs[contender] == 1 {
                    turn(contender, 1);
                }
                let before = interruptions();
                took = turn(contender, runs[contender]);
                if interruptions() == before {
                    break;
                }
            }
            seconds[contender].push(took);
        }
    }
    seconds
        .into_iter()
        .map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            seconds[length.rounds / 2]
        })
        .collect()
}
