#![doc = include_str!("../../docs/scaled.md")]

mod codes;
mod engine;
mod error;
mod exact;
mod front;
mod rule;
mod scaling;
mod shape;

pub use crate::formats::stochastic::Stochastic;
pub use error::Error;
pub use front::{Dequantizer, Quantized, Quantizer, Requantizer};
pub use scaling::{NonFinite, Profile, ScaleLayout, ScaleRule, Scaling, TensorScale};
