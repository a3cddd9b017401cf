#![doc = include_str!("../../docs/onnx.md")]

mod cast;
mod data_type;
mod error;
mod tensor;

pub use cast::{Attribute, Cast, CastLike, FnuzInfinity, Operator, Options};
pub use data_type::DataType;
pub use error::Error;
pub use tensor::{Strings, Tensor};
