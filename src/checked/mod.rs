//! Checked casts: what a cast loses is counted, refused, or marked in a bitmap.
//!
//! The functions here take slices. For bytes there are [`Caster::cast_checked`], [`try_cast`], [`same_value`] and
//! [`cast_validity`]; for views [`cast_strided_checked`], [`try_cast_strided`] and [`same_value_strided`]; for several threads
//! [`par_cast_checked_with`], [`par_try_cast_with`] and [`par_same_value_with`]. [`report`], [`report_strided`] and
//! [`par_report_strided_with`] need no room for the result.
//!
//! There are no nulls on several threads (cut slices and bitmaps at multiples of 8 elements) and none of views, and no checked cast of packed elements
//! that begin within a byte, which [`Caster::cast_from`](crate::Caster::cast_from) casts unchecked.
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
//! # Arrow arrays
//!
//! What the crate arrow-cast makes of integers and floats is [`CastOptions::rust_as`](crate::CastOptions::rust_as) and, by the kind of the cast:
//!
//! | arrow | call | nulls of the result |
//! |---|---|---|
//! | to a float, or to an integer that holds every value | [`cast_slice_uninit_with`](crate::cast_slice_uninit_with) | those of the source |
//! | to another integer, `safe: true` | [`cast_slice_validity_uninit_with`] | the bitmap that it writes |
//! | to another integer, `safe: false` | [`try_cast_slice_validity_uninit_with`] | those of the source |
//!
//! * Not to floats with nulls: here 1e300 is lost in float32, and would be null; in arrow it is infinity.
//! * float64 to float16 is rounded once here, and by way of float32 there.
//! * The slice of an array's values, and the offset of its bits ([`Validity::from_bit`]), cost nothing. The chunks of a chunked array are cast one by one.
//! * The bitmap of the destination has exactly ⌈n / 8⌉ bytes, and begins at its first bit. The result is always new memory.
//! * Arrays of booleans are bits, that is [`DType::U1`](crate::DType::U1): see [`Caster::cast_from`](crate::Caster::cast_from).
//!
//! ```
//! use lanecast::{CastOptions, cast_slice_uninit_with, checked::*, vec_with_capacity};
//! // Four elements of a column, of which the second is null: a slice, whose bits begin at the third one.
//! let (values, nulls, begin) = (&[7i64, 8, 900, -1][..], [0b110111u8], 2);
//! let (valid, arrow) = (Validity::new(&nulls).from_bit(begin), CastOptions::rust_as());
//! // To int8, what it does not hold is null.
//! let mut new = vec_with_capacity::<i8>(values.len())?;
//! let (room, mut bits) = (&mut new.spare_capacity_mut()[..values.len()], vec![0; values.len().div_ceil(8)]);
//! let (made, null_count) = cast_slice_validity_uninit_with(values, Some(valid), room, &mut bits, &arrow)?;
//! assert_eq!(([made[0], made[3]], &bits[..], null_count), ([7, -1], &[0b1001][..], 2));
//! // Or it is an error, unless it is null.
//! let error = try_cast_slice_validity_uninit_with(values, Some(valid), room, &arrow).unwrap_err();
//! assert_eq!(error.to_string(), "element 2, 900, is above the range of int8");
//! // To float32, the nulls are those of the source.
//! let mut new = vec_with_capacity::<f32>(2)?;
//! let room = &mut new.spare_capacity_mut()[..2];
//! assert_eq!(cast_slice_uninit_with(&[0.1f64, 1e300], room, &arrow)?, [0.1, f32::INFINITY]);
//! // A cast with nulls would have made one of the second.
//! let (_, null_count) = cast_slice_validity_uninit_with(&[0.1f64, 1e300], None, room, &mut bits, &arrow)?;
//! assert_eq!((null_count, bits), (1, vec![0b01]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
mod nulling;
mod parallel;
mod parts;
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
pub(crate) use self::parts::read;
#[cfg(feature = "zarr")]
pub(crate) use self::report::Marks;
pub use self::report::{CastReport, Validity};
pub use crate::error::Lossy;
pub use crate::formats::loss::Loss;
