#![doc = include_str!("../../docs/scaled.md")]
#![cfg_attr(not(isa = "vector"), allow(dead_code, reason = "what the files that need registers use"))]

// Called: `quantizer.rs`, `dequantizer.rs` and `requantizer.rs`; `front.rs` is what these check, `strided.rs` how they take views,
// `losses.rs` what was lost. What is asked for: `scaling.rs` (what a scaling is) and `shape.rs` (which scale is whose). `error.rs` is what can be
// wrong.
//
// The arithmetic: `rule.rs` (with the profiles) and `exact.rs` (exact values for it). `engine.rs` has the loops of the reference and
// of quantisation by way of float64, which `wide.rs` computes; dequantisation by way of float64 is in `multiply/`. `jobs.rs` cuts a cast into pieces, and into chunks for threads.
//
// Faster, with the same results: `divide/` and `multiply/` run kernels, where these are right. `segment.rs` is the order in which
// kernels walk a grid of scales, `numbers.rs` has scales as float32 for them, and `coded.rs` has tables for elements of 4 bits under
// scales of 8 bits. `codes.rs` casts codes from and to any layout, and `memory.rs` allocates.
//
// From what is called to what runs: a `Quantizer` (public) has a `Quantize` (`rule.rs`: the arithmetic) and a `Decided` (`divide/`:
// the kernels), both decided once. `Quantizing` (`engine.rs`) is one buffer of it, and `Divide` is that by kernels, in which a
// `Division` is for one region. `Way` (`rule.rs`) is how the elements of one block are divided: by which number, rounded to what. Likewise `Dequantizer`, `Dequantize` and
// `Decided`, `Dequantizing`, `Multiply`.
//
// What a thread takes is a piece (whole blocks with their scales) where scales are found, else a chunk. In it, from the largest to
// the smallest: a region, rows with the
// same scales, and some of their columns; a segment, what one call of a kernel casts; a block, the elements that have one scale, which
// `kernels/` calls a group. A tile is what the reference and the way by float64 take at a time.

#[cfg(isa = "vector")]
mod coded;
mod codes;
mod dequantizer;
#[cfg(isa = "vector")]
mod divide;
mod engine;
mod error;
mod exact;
mod front;
mod jobs;
mod losses;
mod memory;
#[cfg(isa = "vector")]
mod multiply;
#[cfg(isa = "vector")]
mod numbers;
mod quantizer;
mod requantizer;
mod rule;
mod scaling;
#[cfg(isa = "vector")]
mod segment;
mod shape;
mod strided;
#[cfg(isa = "vector")]
mod wide;

pub use dequantizer::Dequantizer;
pub use error::Error;
pub use front::Quantized;
pub use losses::Losses;
pub use quantizer::Quantizer;
pub use requantizer::Requantizer;
pub use scaling::{NonFinite, Profile, ScaleLayout, ScaleRule, Scaling, TensorScale};
