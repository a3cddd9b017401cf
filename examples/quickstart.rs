//! Casts 64 MiB of f32 to float8_e4m3fn and back, checks every element, and prints the speed.
//!
//! `cargo run --release --example quickstart`

use std::time::Instant;

use lanecast::bits::F8E4M3FN;
use lanecast::{DType, Isa, cast_slice};

const N: usize = 16 << 20;
const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let weights: Vec<f32> = (0..N as u32).map(weight).collect();
    let mut narrow = vec![F8E4M3FN::default(); N];
    let mut back = vec![0f32; N];

    // A cast between two slices: the element types say what is cast, and the lengths must agree.
    cast_slice(&weights, &mut narrow)?;
    cast_slice(&narrow, &mut back)?;

    // A cast to float8 rounds to the nearest, so the error is at most half a unit in the last place.
    // Beyond the largest value, the default is to saturate.
    let format = DType::F8E4M3FN.float_format().ok_or("not a float")?;
    let (max, mut saturated, mut worst) = (format.max() as f32, 0, 0f32);
    for (i, (&x, &y)) in weights.iter().zip(&back).enumerate() {
        if x.abs() > max {
            saturated += 1;
            if y != max.copysign(x) {
                return Err(format!("element {i}: {x} became {y}, not ±{max}").into());
            }
        } else {
            let power =
                f32::from_bits(x.to_bits() & f32::INFINITY.to_bits()).max(format.min_positive() as f32);
            let error = (x - y).abs() / (power / (1 << format.mantissa_bits()) as f32);
            // If the error is NaN, the comparison is false, which fails too.
            if error <= 0.5 {
                worst = worst.max(error);
            } else {
                return Err(format!("element {i}: {x} became {y}, {error} units away").into());
            }
        }
    }
    println!("float32 -> float8_e4m3fn -> float32, {N} elements:");
    println!("  all within {worst:.4} units in the last place; {saturated} beyond ±{max}, saturated\n");

    // For comparison, a memcpy that reads and writes as many bytes. The three take turns, so that other
    // load on the machine affects all of them.
    let half = (size_of_val(&weights[..]) + size_of_val(&narrow[..])) / 2;
    let (from, mut to) = (vec![1u8; half], vec![2u8; half]);
    let mut seconds = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        cast_slice(&weights, &mut narrow)?;
        seconds[0].push(start.elapsed().as_secs_f64());

        let start = Instant::now();
        cast_slice(&narrow, &mut back)?;
        seconds[1].push(start.elapsed().as_secs_f64());

        let start = Instant::now();
        to.copy_from_slice(&from);
        std::hint::black_box(&mut to);
        seconds[2].push(start.elapsed().as_secs_f64());
    }
    println!("median of {ROUNDS} rounds, bytes read + bytes written, on {}:", Isa::best()?);
    for (what, mut seconds) in ["to float8", "from float8", "memcpy"].into_iter().zip(seconds) {
        seconds.sort_by(f64::total_cmp);
        println!("  {what:<12}{:7.2} GB/s", 2.0 * half as f64 / seconds[ROUNDS / 2] / 1e9);
    }
    Ok(())
}

/// Returns a random number of either sign from 2^-12 to 2^9: some are too small and some too large for float8.
fn weight(i: u32) -> f32 {
    let random = (u64::from(i) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let exponent = 127 - 12 + (random >> 16) as u32 % 21;
    f32::from_bits((random >> 32) as u32 & 0x807F_FFFF | exponent << 23)
}
