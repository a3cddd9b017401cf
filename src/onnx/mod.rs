#![doc = include_str!("../../docs/onnx.md")]

mod cast;
mod data_type;
mod error;
mod linear;
mod operator;
mod tensor;

pub use cast::{Attribute, Cast, CastLike, FnuzInfinity, Options};
pub use data_type::DataType;
pub use error::Error;
pub use linear::{DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear};
pub use operator::Operator;
pub use tensor::{Strings, Tensor};
