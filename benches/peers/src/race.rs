//! Races: every contender takes a turn in every round, so that other load on the machine affects all of them,
//! and the medians are compared.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

/// How long a race is.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// The turns that each contender takes.
    pub rounds: usize,
    /// The seconds that a turn should take at least: far above the resolution of the clock. A turn has at least
    /// one run.
    pub turn: f64,
}

/// How often an interrupted turn is repeated at most.
const AGAIN: usize = 3;

/// Returns how often the system has preempted this thread; 0 where it does not report that.
fn interruptions() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Returns the median time of one run by each of `contenders`, in seconds.
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
            // The first run warms up: it is slower, but not 10 times.
            let first = turn(contender, 1);
            if first > 10.0 * length.turn { 1 } else { (length.turn / turn(contender, 3)).ceil() as usize }
        })
        .collect();
    let mut seconds = vec![Vec::new(); contenders];
    for round in 0..length.rounds {
        // Every second round is in reverse order, so that no contender always follows the same one.
        for i in 0..contenders {
            let contender = if round % 2 == 0 { i } else { contenders - 1 - i };
            // A turn in which another program ran is repeated.
            let mut took = 0.0;
            for _ in 0..=AGAIN {
                // A turn of one run should find in the caches what the same contender left there, not what the previous one did. One with
                // non-temporal stores would leave nothing for the next, and find dirty lines that must be written back first.
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
