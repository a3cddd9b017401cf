//! Prints the times of checked casts as multiples of the unchecked cast's.
//!
//! `cargo run --release -p lanecast-peers --bin checked`; with `LANECAST_BENCH_LARGE=1` also on buffers that no cache
//! holds. With words as arguments, only pairs whose names contain one of them.

use lanecast::Isa;
use lanecast_peers::{Length, checked, sizes};

const LENGTH: Length = Length { rounds: 31, turn: 1e-3 };

fn main() -> Result<(), lanecast::Error> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for &traffic in sizes() {
        for &isa in Isa::available().iter().filter(|isa| **isa != Isa::Scalar) {
            println!(
                "\n{isa}, {} KiB read + written, medians of {} interleaved rounds: how many times the time of the \
                 unchecked cast\n\n{}",
                traffic >> 10,
                LENGTH.rounds,
                checked::HEAD
            );
            for (from, to) in checked::PAIRS {
                let name = format!("{from}->{to}");
                if wanted.is_empty() || wanted.iter().any(|word| name.contains(word)) {
                    for elements in [checked::Elements::InRange, checked::Elements::SomeLost] {
                        println!("{}", checked::row(from, to, isa, traffic, elements, LENGTH)?);
                    }
                }
            }
        }
    }
    Ok(())
}
