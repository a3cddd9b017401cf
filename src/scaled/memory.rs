//! Allocations of scaled casts, whose failure is an error and does not end the process.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::error::Error;
use crate::error::Error as CastError;
use crate::formats::dtype::DType;

/// Collects an iterator into a vector.
pub(super) fn collect<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    match all.try_reserve_exact(items.len()) {
        Ok(()) => all.extend(items),
        Err(_) => return Err(no_room(items.len().saturating_mul(size_of::<T>()))),
    }
    Ok(all)
}

#[cold]
fn no_room(bytes: usize) -> Error {
    CastError::Allocation { dtype: DType::U8, elements: bytes }.into()
}

/// Returns an array on the heap.
#[inline(never)] // Within a caller, stores for each element may be unrolled.
pub(super) fn array<T: Clone, const N: usize>(value: T) -> Result<Box<[T; N]>, Error> {
    let all = collect(core::iter::repeat_n(value, N))?.into_boxed_slice();
    let wrong = || Error::Unsupported { what: "an array of another length" };
    all.try_into().map_err(|_| wrong())
}

/// Copies a shape, for an error to show.
pub(super) fn kept(shape: &[usize]) -> Result<Vec<usize>, Error> {
    collect(shape.iter().copied())
}

/// Returns the error of a shape whose elements do not fit into the address space.
pub(super) fn overflow(shape: &[usize]) -> Error {
    kept(shape).map_or_else(|error| error, |shape| Error::ShapeOverflow { shape })
}

/// Returns the value of an `Option`, made first if there is none: a `get_or_insert_with` of something that may fail.
pub(super) fn once<T>(
    place: &mut Option<T>,
    make: impl FnOnce() -> Result<T, Error>,
) -> Result<&mut T, Error> {
    let made = match place.take() {
        Some(made) => made,
        None => make()?,
    };
    Ok(place.insert(made))
}
