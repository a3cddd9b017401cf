//! Where the losses of a cast begin.

/// Where the classes begin, as keys: codes in the order of their values, as signed integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Floats, whose negative codes have a magnitude that is reversed to make a key.
    pub(crate) is_float: bool,
    /// Exclusive-ored with a code to make its key: the sign bit of unsigned integers.
    pub(crate) flip: u64,
    /// The bits that are 0 in a zero.
    pub(crate) nonzero: u64,
    /// The largest and the smallest key that is in range.
    pub(crate) high: i64,
    pub(crate) low: i64,
    /// Magnitudes above that are not lost, whatever `high` and `low` say: Inf and NaN of a target that has them.
    pub(crate) kept: i64,
    /// The largest finite key, and that of Inf. Those of the negative ones are −1 minus them.
    pub(crate) finite: i64,
    pub(crate) inf: i64,
    /// Keys below that, if they are too low, are those of negative values.
    pub(crate) negative: i64,
}
