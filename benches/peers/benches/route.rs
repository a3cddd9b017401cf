//! Prints what casting in registers gains over a tile in L1, for the casts that programs do most.

use lanecast_peers::{Length, routes};

fn main() -> Result<(), lanecast::Error> {
    print!("{}", routes::table(Length { rounds: 31, turn: 1e-4 })?);
    Ok(())
}
