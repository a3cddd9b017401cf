//! Prints a table of how fast lanecast and other libraries cast the same buffers.
//!
//! With words as arguments, only pairs whose names contain one of them.

use lanecast::Isa;
use lanecast_peers::{Contest, Length, PAIRS, ratios, ratios_head, sizes};

const LENGTH: Length = Length { rounds: 31, turn: 1e-3 };

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let pairs = PAIRS.iter().copied().filter(|pair| {
        let name = pair.to_string();
        wanted.is_empty() || wanted.iter().any(|word| name.contains(word))
    });
    if pairs.clone().next().is_none() {
        let names: Vec<String> = PAIRS.iter().map(ToString::to_string).collect();
        return Err(format!("no pair contains any of {wanted:?}; there are {}", names.join(", ")).into());
    }
    let best = Isa::best()?;

    for pair in pairs.clone() {
        Contest::new(pair, sizes()[0]).check("in range");
        Contest::on_any_bits(pair).check("any bits");
    }
    for &traffic in sizes() {
        println!(
            "\n{} KiB read + written, medians of {} interleaved rounds; how many times as fast as:\n",
            traffic >> 10,
            LENGTH.rounds
        );
        println!("{}", ratios_head(best));
        for pair in pairs.clone() {
            println!("{}", ratios(&mut Contest::new(pair, traffic), best, LENGTH).0);
        }
    }
    Ok(())
}
