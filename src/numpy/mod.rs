//! What NumPy and the Array API say about dtypes: byte orders and type strings, limits, categories.
//!
//! ```
//! use lanecast::{ByteOrder, DType, numpy::OrderedDType};
//! let big: OrderedDType = ">i2".parse()?;
//! assert_eq!((big.dtype(), big.order()), (DType::I16, ByteOrder::Big));
//! assert_eq!(DType::F16.finfo().unwrap().max, 65504.0);
//! # Ok::<(), lanecast::NameError>(())
//! ```

mod facts;
mod ordered;

pub use facts::{Category, FloatInfo, IntInfo};
pub use ordered::OrderedDType;
