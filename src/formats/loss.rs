//! What a cast can lose of an element.

/// What a cast loses of an element, as the contract defines it.
///
/// ```
/// use lanecast::{checked::{Loss, try_cast_slice}, CastOptions, Error};
/// let loss = |x: f64| match try_cast_slice(&[x], &mut [0u8]) {
///     Err(Error::Lossy(lossy)) => Some(lossy.loss),
///     _ => None,
/// };
/// assert_eq!(loss(255.9), None); // rounded, which a cast to an integer is meant to do
/// assert_eq!(loss(256.0), Some(Loss::Above));
/// assert_eq!(loss(-1.0), Some(Loss::Below));
/// assert_eq!(loss(f64::NAN), Some(Loss::NaN));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Loss {
    /// After rounding, the value is above the largest of the destination dtype.
    Above,
    /// After rounding, the value is below the smallest of the destination dtype.
    Below,
    /// The value is NaN, which the destination dtype does not have.
    NaN,
    /// The value is ±Inf, which the destination dtype does not have, or which saturates under the options.
    Inf,
    /// The imaginary part is not zero, and the destination is real.
    Imaginary,
    /// The value is in the range of the destination dtype, but is rounded.
    Inexact,
}
