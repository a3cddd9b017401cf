#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[cfg(feature = "ndarray")]
mod array;
mod available;
pub mod bits;
mod cast;
pub mod checked;
mod choice;
#[cfg(isa = "avx2")]
mod detect;
mod error;
mod formats;
pub mod in_place;
pub mod numpy;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod parallel;
pub mod promotion;
pub mod records;
#[cfg(feature = "text")]
pub mod text;
mod threads;
pub mod views;

#[cfg(doc)]
#[doc = include_str!("../docs/linking.md")]
pub mod linking {}

#[allow(unsafe_code, reason = "the one directory of kernels; its mod.rs has the rules")]
#[path = "../kernels/mod.rs"]
mod kernels;

#[cfg(feature = "ndarray")]
pub use array::Lanecast;
pub use cast::{
    Caster, cast_bytes, cast_bytes_with, cast_slice, cast_slice_uninit, cast_slice_uninit_with,
    cast_slice_with, cast_vec, cast_vec_with, convert, convert_with,
};
pub use error::{Error, Side};
pub use formats::dtype::{DType, FloatFormat, IntFormat, Kind};
pub use formats::element::Element;
pub use formats::isa::Isa;
pub use formats::layout::{ByteOrder, Packing};
pub use formats::name::NameError;
pub use formats::options::{CastOptions, E8m0Rounding, NanToFinite, Overflow, Rounding, Saturation};
pub use half::{bf16, f16};
pub use num_complex::Complex;
