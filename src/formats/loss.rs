//! What a cast can lose.

/// What a cast loses of an element, by the definitions of the contract.
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
pub enum Loss {
    /// Rounded, it is larger than the largest value of the target.
    Above,
    /// Rounded, it is smaller than the smallest value of the target.
    Below,
    /// A NaN, which the target does not have.
    NaN,
    /// ±Inf, which the target does not have, or which the options do not let it become.
    Inf,
    /// An imaginary part that is not zero, which the target does not have.
    Imaginary,
    /// It is in the range of the target, and rounded.
    Inexact,
}
