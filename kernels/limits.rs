//! The limits of what a cast keeps: what is beyond them is lost.

/// The limits as keys. A key is a code made comparable: keys as signed integers are in the order of the values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Whether keys are those of floats: the magnitude bits of negative codes are inverted.
    pub(crate) is_float: bool,
    /// What is xored with a code to make its key: the top bit for unsigned integers.
    pub(crate) flip: u64,
    /// The bits that are 0 in a zero.
    pub(crate) nonzero: u64,
    /// The largest and the smallest key in range.
    pub(crate) high: i64,
    pub(crate) low: i64,
    /// Magnitudes above this are kept, whatever `high` and `low` say: those of Inf and NaN, if the target has them.
    pub(crate) kept: i64,
    /// The largest finite key, and that of Inf. The keys of their negatives are −1 minus them.
    pub(crate) finite: i64,
    pub(crate) inf: i64,
    /// Keys that are too low and also below this belong to negative values.
    pub(crate) negative: i64,
}

impl Limits {
    /// Returns the bits of a negative code that are inverted to make its key.
    pub(crate) fn reverse(&self) -> u64 {
        if self.is_float { self.nonzero } else { 0 }
    }
}
