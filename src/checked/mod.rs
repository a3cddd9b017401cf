//! Checked casts: what a cast loses is counted, refused, or marked in a bitmap.
//!
//! The functions here take slices. For bytes there are [`Caster::cast_checked`], [`try_cast`], [`same_value`] and
//! [`cast_validity`]; for views [`cast_strided_checked`], [`try_cast_strided`] and [`same_value_strided`]; for several threads
//! [`par_cast_checked_with`], [`par_try_cast_with`] and [`par_same_value_with`]. [`report`], [`report_strided`] and
//! [`par_report_strided_with`] need no room for the result.
//!
//! ```
//! use lanecast::checked;
//! let mut out = [0u8; 4];
//! let report = checked::cast_slice(&[1.0f32, 300.0, -7.0, f32::NAN], &mut out)?;
//! assert_eq!((report.above, report.below, report.nan, report.first), (1, 1, 1, Some(1)));
//! assert!(checked::try_cast_slice(&[1.0f32, 300.0, -7.0, f32::NAN], &mut out).is_err());
//! # Ok::<(), lanecast::Error>(())
//! ```
//!
//! [`Caster::cast_checked`]: crate::Caster::cast_checked
//! [`try_cast`]: crate::Caster::try_cast
//! [`same_value`]: crate::Caster::same_value
//! [`cast_validity`]: crate::Caster::cast_validity
//! [`cast_strided_checked`]: crate::Caster::cast_strided_checked
//! [`try_cast_strided`]: crate::Caster::try_cast_strided
//! [`same_value_strided`]: crate::Caster::same_value_strided
//! [`par_cast_checked_with`]: crate::Caster::par_cast_checked_with
//! [`par_try_cast_with`]: crate::Caster::par_try_cast_with
//! [`par_same_value_with`]: crate::Caster::par_same_value_with
//! [`report`]: crate::Caster::report
//! [`report_strided`]: crate::Caster::report_strided
//! [`par_report_strided_with`]: crate::Caster::par_report_strided_with

// Each piece of the source is scanned while it is in L1, and then cast by the kernel of the unchecked cast; or one loop does
// both. As long as all elements fit, that is all. If some do not, elements are judged: which are lost or inexact, and how many
// of each class. For this, sources are cast to codes of a few dtypes that hold them exactly and whose order is that of the
// values. The classes of the contract are then ranges of codes, whose limits the reference finds.

mod bits;
mod cast;
mod check;
mod parallel;
mod range;
mod report;
mod views;

#[cfg(feature = "zarr")]
pub(crate) use self::bits::each_some;
pub use self::cast::{
    cast_slice, cast_slice_validity, cast_slice_validity_uninit_with, cast_slice_validity_with,
    cast_slice_with, same_value_slice, same_value_slice_with, try_cast_slice,
    try_cast_slice_validity_uninit_with, try_cast_slice_with,
};
#[cfg(feature = "zarr")]
pub(crate) use self::check::read;
#[cfg(feature = "zarr")]
pub(crate) use self::report::Marks;
pub use self::report::{CastReport, Validity};
pub use crate::error::Lossy;
pub use crate::formats::loss::Loss;
