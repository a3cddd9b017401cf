//! arrow-cast as published, whose casts are those of the patched one while `LANECAST` is set.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub use cast::*;
pub use theirs::{base64, display, parse};
#[cfg(feature = "prettyprint")]
pub use theirs::pretty;

/// Which of the two casts.
pub static LANECAST: AtomicBool = AtomicBool::new(false);
/// How many arrays each of them has cast.
pub static CASTS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

pub mod cast {
    use super::*;
    use arrow_array::{Array, ArrayRef};
    use arrow_schema::{ArrowError, DataType};

    pub use theirs::cast::*;

    pub fn cast(array: &dyn Array, to: &DataType) -> Result<ArrayRef, ArrowError> {
        cast_with_options(array, to, &CastOptions::default())
    }

    pub fn cast_with_options(
        array: &dyn Array,
        to: &DataType,
        options: &CastOptions,
    ) -> Result<ArrayRef, ArrowError> {
        let lanecast = LANECAST.load(Ordering::Relaxed);
        CASTS[usize::from(lanecast)].fetch_add(1, Ordering::Relaxed);
        if lanecast {
            // The queries here cast numbers, which are not formatted.
            let options = ours::cast::CastOptions { safe: options.safe, ..Default::default() };
            ours::cast::cast_with_options(array, to, &options)
        } else {
            theirs::cast::cast_with_options(array, to, options)
        }
    }
}
