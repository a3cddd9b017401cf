#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[cfg(feature = "ndarray")]
mod array;
mod available;
mod bits;
mod cast;
mod checked;
mod choice;
#[cfg(isa = "avx2")]
mod detect;
mod error;
mod formats;
mod in_place;
mod numpy;
#[cfg(feature = "onnx")]
pub mod onnx;
mod parallel;
mod promotion;
mod records;
#[cfg(feature = "text")]
pub mod text;
mod threads;
mod views;

#[cfg(doc)]
#[doc = include_str!("../docs/linking.md")]
pub mod linking {}

#[allow(unsafe_code, reason = "the one directory of kernels; its mod.rs has the rules")]
#[path = "../kernels/mod.rs"]
mod kernels;

#[cfg(feature = "ndarray")]
pub use array::Lanecast;
pub use bits::{
    F4E2M1, F6E2M3, F6E3M2, F8E3M4, F8E4M3, F8E4M3B11FNUZ, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0,
    I2, I4, U2, U4,
};
pub use cast::{
    Caster, cast_bytes, cast_slice, cast_slice_uninit, cast_slice_with, cast_vec, cast_vec_with, convert,
    convert_with,
};
pub use checked::{
    CastReport, Loss, Lossy, Validity, cast_slice_checked, cast_slice_validity, same_value_slice,
    try_cast_slice, try_cast_slice_with,
};
pub use error::{Error, Side};
pub use formats::dtype::{DType, FloatFormat, IntFormat, Kind};
pub use formats::element::Element;
pub use formats::isa::Isa;
pub use formats::layout::{ByteOrder, Packing};
pub use formats::name::NameError;
pub use formats::options::{CastOptions, E8m0Rounding, NanToFinite, Overflow, Rounding, Saturation};
pub use half::{bf16, f16};
pub use in_place::{cast_vec_in_place, cast_vec_in_place_with};
pub use num_complex::Complex;
pub use numpy::{Category, FloatInfo, IntInfo, OrderedDType};
pub use parallel::{Parallel, ParallelFor, Progress};
pub use promotion::{Casting, DTypeSet, Dialect, Operand, Promotion, PromotionError, Rules, ScalarKind};
pub use records::{Field, ItemBase, ItemDType, RecordCaster, StructDType, StructError};
pub use views::{StridedView, StridedViewMut};
