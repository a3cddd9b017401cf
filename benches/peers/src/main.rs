//! Prints a table of how fast lanecast and other libraries cast the same buffers.
//!
//! Everyone takes a turn in every round, so that whatever else the machine does meets all of them, and
//! the medians are compared. Words as arguments keep only pairs that contain one of them.

use std::hint::black_box;
use std::time::Instant;

use lanecast::Isa;
use lanecast_peers::{Contest, PAIRS, lanecast, sizes};

const ROUNDS: usize = 31;

/// Seconds that one turn should take at least: far above what the clock resolves.
const TURN: f64 = 1e-3;

fn main() -> Result<(), lanecast::Error> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let pairs = PAIRS.iter().copied().filter(|pair| {
        let name = pair.to_string();
        wanted.is_empty() || wanted.iter().any(|word| name.contains(word))
    });
    let best = lanecast(Isa::best()?);

    for pair in pairs.clone() {
        Contest::new(pair, sizes()[0]).check("in range");
        Contest::on_any_bits(pair).check("any bits");
    }
    for &traffic in sizes() {
        println!("\n{} KiB read + written, medians of {ROUNDS} interleaved rounds\n", traffic >> 10);
        println!("| pair | peer | GB/s | of memcpy | {best} / peer |");
        println!("|---|---|---:|---:|---:|");
        for pair in pairs.clone() {
            let mut contest = Contest::new(pair, traffic);
            let medians = race(&mut contest);
            let names: Vec<&str> = contest.names().collect();
            let ours = names.iter().position(|&name| name == best).expect("the best is available");
            for (name, &seconds) in names.iter().zip(&medians) {
                let speed = contest.bytes() as f64 / seconds / 1e9;
                println!(
                    "| {pair} | {name} | {speed:.2} | {:.3} | {:.2} |",
                    medians[0] / seconds,
                    seconds / medians[ours]
                );
            }
        }
    }
    Ok(())
}

/// The median time of one cast by each.
fn race(contest: &mut Contest) -> Vec<f64> {
    let contenders = contest.names().len();
    let mut turn = |contender: usize, casts: usize| {
        let start = Instant::now();
        for _ in 0..casts {
            contest.run(black_box(contender));
        }
        start.elapsed().as_secs_f64() / casts as f64
    };
    let casts: Vec<usize> = (0..contenders)
        .map(|contender| {
            // The first cast warms up.
            turn(contender, 1);
            (TURN / turn(contender, 3)).ceil() as usize
        })
        .collect();
    let mut seconds = vec![Vec::new(); contenders];
    for round in 0..ROUNDS {
        // Every other round backwards: nobody always comes after the same one.
        for i in 0..contenders {
            let contender = if round % 2 == 0 { i } else { contenders - 1 - i };
            seconds[contender].push(turn(contender, casts[contender]));
        }
    }
    seconds
        .into_iter()
        .map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            seconds[ROUNDS / 2]
        })
        .collect()
}
