//! Structured dtypes, as in NumPy: records of named fields, and casts of buffers of records.
//!
//! ```
//! use lanecast::{promotion::Rules, records::StructDType};
//! let [a, b]: [StructDType; 2] = ["[('x', '<i4'), ('y', '>f4')]".parse()?, "[('x', '<i2'), ('y', '<f8')]".parse()?];
//! assert_eq!(a.promote(&b, &Rules::NUMPY)?.descr()?, "[('x', '<i4'), ('y', '<f8')]");
//! # Ok::<(), lanecast::records::StructError>(())
//! ```

mod cast;
mod descr;
mod dtype;
mod error;

pub use cast::RecordCaster;
pub use dtype::{Field, ItemBase, ItemDType, StructDType};
pub use error::StructError;
