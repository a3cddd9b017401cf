//! Casts buffers between dtypes: every ordered pair, from 1 bit to complex numbers of two 64-bit floats, in every rounding and overflow mode, at the speed of memory.
//! Every bit of a result is specified by [the contract](contract); it does not depend on the CPU, the length, the alignment or the
//! caller's floating-point environment.
//!
//! ```
//! use lanecast::{bf16, bits::F8E4M3FN, cast_slice, cast_vec, convert, CastOptions, Caster, DType, Packing, Rounding};
//!
//! // Slices: the types say what to cast.
//! let mut narrow = [bf16::ZERO; 3];
//! cast_slice(&[1.0f32, 3.14159265, 1e30], &mut narrow)?;
//! let ints: Vec<u8> = cast_vec(&[1.5f64, 300.0, -1.0])?;
//! assert_eq!(ints, [1, 255, 0]);
//!
//! // Single values, rounded once from any source.
//! assert_eq!(convert::<f64, F8E4M3FN>(1.0 + 2f64.powi(-4) + 2f64.powi(-40)).to_bits(), 0x39);
//!
//! // Buffers whose dtypes are known at run time. A `Caster` is the decision made once: keep it.
//! let options = CastOptions::new().rounding(Rounding::Up).dst_packing(Packing::HighFirst);
//! let caster = Caster::new("float32".parse()?, DType::F4E2M1, &options)?;
//! let src: Vec<u8> = [0.1f32, 2.0, -3.5].iter().flat_map(|x| x.to_ne_bytes()).collect();
//! let mut dst = [0u8; 2];
//! caster.cast(&src, &mut dst, 3)?;
//! assert_eq!(dst, [0x14, 0xD0]); // 0.5, 2; -3, padding
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is where
//!
//! The crate root has the dtypes, the casts of slices, bytes and single values, [`Caster`] and its [`CastOptions`]. A function whose name ends in
//! `_with` takes options, or says how (threads, a notation); the one without the suffix uses the defaults. The rest is in modules:
//!
//! | module | what for |
//! |---|---|
//! | [`bits`] | the narrow floats and integers |
//! | [`checked`] | elements that a cast would lose: counted, refused, or made null |
//! | [`parallel`] | large casts on several threads |
//! | [`views`] | strided elements |
//! | [`in_place`] | casts inside one buffer or vector |
//! | `scaled` | blocks of narrow elements with scales: MXFP8, NVFP4 and related formats (feature `scaled`) |
//! | [`promotion`] | what operands of different dtypes become, and what other systems call a dtype |
//! | `records` | named fields (feature `records`) |
//! | [`numpy`] | byte orders, type strings, limits, categories |
//! | `zarr` | Zarr's codec `cast_value`: maps given values to others, and refuses what the destination cannot hold (feature `zarr`) |
//! | `text` | texts to numbers and back (feature `text`) |
//! | `onnx` | the operators `Cast`, `CastLike`, `QuantizeLinear` and `DequantizeLinear` (feature `onnx`) |
//!
//! The feature `ndarray` implements the trait `Lanecast` for arrays of the crate ndarray 0.17. The feature `bytemuck` implements `Pod` and
//! `Zeroable` for the element types; the feature `serde` implements `Serialize` and `Deserialize` for dtypes, options, scalings and element types. All other
//! features are on by default. For casts alone, `default-features = false, features = ["std"]` compiles in 0.6 of the time, to less than two thirds of the code.
//!
//! Without the default features the crate needs only `core` and `alloc`, on targets with atomic operations: the instruction set is then the best that
//! every CPU of the target has (`-C target-feature`, `-C target-cpu`), `LANECAST_ISA` is not read, and no threads are started. All features except `std`,
//! `parallel` and `ndarray` work there too.
//!
//! WebAssembly cannot detect instructions at run time: a module that is compiled with `-C target-feature=+simd128` casts with those instructions, any other
//! with the reference. With threads (`+atomics`), modules need the feature `std`.
//!
//! In a debug build a cast takes a hundred times as long, unless your Cargo.toml says `[profile.dev.package.lanecast] opt-level = 3`.
//!
//! # Dtypes
//!
//! `bool`; integers of 1, 2, 4, 8, 16, 32 and 64 bits; floats of 4, 6 and 8 bits, in every variant in use, and of 16, 32 and 64; complex numbers of two
//! floats of 16, 32 or 64 bits. [`DType`] has them all, and [the contract](contract) the table of their widths, exponents, limits and special codes.
//! Element types are the primitives, `f16` and `bf16` of the crate half, `Complex` of the crate num-complex, and for narrower dtypes the types in [`bits`],
//! such as [`F8E4M3FN`](bits::F8E4M3FN), [`F4E2M1`](bits::F4E2M1) and [`I4`](bits::I4).
//!
//! A typed slice holds one narrow element per byte. Packed data is passed as bytes and a number of elements. It is by default a little-endian bit
//! stream (two 4-bit elements per byte, the first in the low nibble; four 6-bit elements in three bytes); [`Packing`] has the alternatives.
//!
//! # The contract in brief
//!
//! * **To a float** the exact value is rounded once, to nearest even by default. Subnormals are kept, and so is −0 where the format has it.
//! * **Overflow** gives ±Inf in float16 and wider. In float8 and narrower it gives ±max with `saturate`, the default; without it, ±Inf where the
//!   format has it, and NaN where it does not. Float4 and float6 always clamp.
//! * **NaN** stays NaN with its sign; between float16 and wider it also keeps the top of its payload. To float4 and float6, which have no NaN,
//!   it becomes −0 by default; to an integer, 0; to bool, true.
//! * **Float to integer** truncates and saturates by default; **integer to integer** wraps by default.
//! * **Complex** to real takes the real part; to bool, it is true if either part is.
//! * **The same dtype** is a copy, bit for bit.
//!
//! An [`Error`] says what was given and what is needed, and nothing has been written. The exceptions are casts that have begun: those refused for an
//! element (what it loses, a text that is no number), stopped by their caller, or short of memory on the way. Nothing panics except your own callbacks.
//! `LANECAST_ISA=scalar` in the environment pins the instruction set.
//!
//! Threads, forks, memory and stack: see [the page on linking](linking#call).
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![deny(unsafe_code)]

#[macro_use]
extern crate alloc;

#[cfg(feature = "ndarray")]
mod array;
mod available;
pub mod bits;
mod cast;
pub mod checked;
mod choice;
#[cfg(all(isa = "avx2", feature = "std"))]
mod detect;
mod error;
mod formats;
pub mod in_place;
pub mod numpy;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod parallel;
pub mod promotion;
#[cfg(feature = "records")]
pub mod records;
mod room;
#[cfg(feature = "scaled")]
pub mod scaled;
#[cfg(feature = "text")]
pub mod text;
mod threads;
pub mod views;
#[cfg(feature = "zarr")]
pub mod zarr;

#[cfg(doc)]
#[doc = include_str!("../docs/contract.md")]
pub mod contract {}
#[cfg(doc)]
#[doc = include_str!("../docs/linking.md")]
pub mod linking {}
/// The README, so that its examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub mod readme {}

#[allow(unsafe_code, reason = "the one directory of kernels; its mod.rs has the rules")]
#[cfg_attr(
    not(all(feature = "scaled", feature = "zarr")),
    allow(dead_code, reason = "what those alone take; a build with both says what nobody does")
)]
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
pub use formats::stochastic::Stochastic;
pub use half::{bf16, f16};
pub use num_complex::Complex;
pub use room::vec_with_capacity;
