#![doc = include_str!("../../docs/scaled.md")]
#![cfg_attr(not(isa = "vector"), allow(dead_code, reason = "what the files that need registers use"))]

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
