//! Checked casts: what a cast loses, counted, refused, or marked in a bitmap.
//!
//! A piece of the source is scanned while it is in L1, before it is cast by the kernel that casts it unchecked, or in one
//! loop with that. As long as all elements fit, that is all; where some do not, it is found which, and how many of each
//! class. All sources are brought to the codes of a few dtypes that hold them exactly, whose order is that of the
//! values: the classes of the contract are ranges there, with limits that the reference finds.

mod bits;
mod cast;
mod look;
mod range;
mod report;

pub use self::cast::{
    cast_slice_checked, cast_slice_validity, same_value_slice, try_cast_slice, try_cast_slice_with,
};
pub use self::report::{CastReport, Validity};
pub use crate::error::Lossy;
pub use crate::formats::loss::Loss;
