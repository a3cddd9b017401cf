#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[cfg(feature = "ndarray")]
mod array;
mod cast;
mod checked;
#[cfg(isa = "avx2")]
mod detect;
mod dtype;
mod element;
mod error;
mod facts;
mod in_place;
mod isa;
mod layout;
mod names;
mod numpy;
#[cfg(feature = "onnx")]
pub mod onnx;
mod options;
mod parallel;
mod promotion;
mod route;
mod strided;
mod structured;
#[cfg(feature = "text")]
pub mod text;

#[cfg(doc)]
#[doc = include_str!("../docs/linking.md")]
pub mod linking {}

#[allow(unsafe_code, reason = "the one directory of kernels; its mod.rs has the rules")]
#[path = "../kernels/mod.rs"]
mod kernels;

#[cfg(feature = "ndarray")]
pub use array::Lanecast;
pub use cast::{
    Caster, cast_bytes, cast_slice, cast_slice_uninit, cast_slice_with, cast_vec, cast_vec_with, convert,
    convert_with,
};
pub use checked::{
    CastReport, Loss, Lossy, Validity, cast_slice_checked, cast_slice_validity, same_value_slice,
    try_cast_slice, try_cast_slice_with,
};
pub use dtype::{DType, FloatFormat, IntFormat, Kind, ParseDTypeError};
pub use element::{
    Element, F4E2M1, F6E2M3, F6E3M2, F8E3M4, F8E4M3, F8E4M3B11FNUZ, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ,
    F8E8M0, I2, I4, U2, U4,
};
pub use error::{Error, Side};
pub use facts::{Category, FloatInfo, IntInfo};
pub use half::{bf16, f16};
pub use in_place::{cast_vec_in_place, cast_vec_in_place_with};
pub use isa::{Isa, ParseIsaError};
pub use layout::{ByteOrder, Packing};
pub use names::{Dialect, NameError};
pub use num_complex::Complex;
pub use numpy::OrderedDType;
pub use options::{CastOptions, E8m0Rounding, NanToFinite, Overflow, Rounding, Saturation};
pub use parallel::{Parallel, ParallelFor, Progress};
pub use promotion::{Casting, DTypeSet, Operand, Promotion, PromotionError, Rules, ScalarKind};
pub use strided::{StridedView, StridedViewMut};
pub use structured::{Field, ItemBase, ItemDType, RecordCaster, StructDType, StructError};
