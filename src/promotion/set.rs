//! A set of dtypes, as the bits of one word.

use core::fmt;

use crate::formats::dtype::{DTYPES, DType, Kind};

/// A set of dtypes. It is printed and iterated in the order of their codes.
///
/// ```
/// use lanecast::{promotion::DTypeSet, DType};
/// let set: DTypeSet = [DType::F32, DType::I8, DType::F32].into_iter().collect();
/// assert_eq!(set.to_string(), "int8, float32");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DTypeSet(u64);

/// Every dtype, sorted by kind (bool, integer, float, complex), then by width, then by code.
pub(super) const ORDER: [DType; DTYPES] = {
    let mut order = DType::ALL;
    let mut sorted = 1;
    while sorted < DTYPES {
        let mut i = sorted;
        while i > 0 && rank(order[i]) < rank(order[i - 1]) {
            (order[i - 1], order[i]) = (order[i], order[i - 1]);
            i -= 1;
        }
        sorted += 1;
    }
    order
};

/// The sort key of [`ORDER`]: kind, then width.
const fn rank(dtype: DType) -> u32 {
    let kind = match dtype.kind() {
        Kind::Bool => 0,
        Kind::Int(_) => 1,
        Kind::Float(_) => 2,
        Kind::Complex(_) => 3,
    };
    kind << 8 | dtype.bits()
}

/// The index of a dtype in [`ORDER`].
pub(super) const fn place(dtype: DType) -> usize {
    let mut i = 0;
    while ORDER[i] as u8 != dtype as u8 {
        i += 1;
    }
    i
}

const _: () = assert!(DTYPES <= u64::BITS as usize, "a dtype has no bit");

impl DTypeSet {
    /// The empty set.
    ///
    /// ```
    /// assert!(lanecast::promotion::DTypeSet::EMPTY.is_empty());
    /// ```
    pub const EMPTY: Self = Self(0);

    /// The set of all dtypes.
    ///
    /// ```
    /// assert_eq!(lanecast::promotion::DTypeSet::ALL.len(), lanecast::DType::ALL.len());
    /// ```
    pub const ALL: Self = Self(u64::MAX >> (u64::BITS as usize - DTYPES));

    /// Adds a dtype.
    ///
    /// ```
    /// use lanecast::{promotion::DTypeSet, DType};
    /// assert!(DTypeSet::EMPTY.with(DType::F16).contains(DType::F16));
    /// ```
    #[must_use]
    pub const fn with(self, dtype: DType) -> Self {
        Self(self.0 | 1 << dtype.code())
    }

    /// Whether the dtype is in the set.
    ///
    /// ```
    /// use lanecast::{promotion::DTypeSet, DType};
    /// assert!(DTypeSet::ALL.contains(DType::Bool) && !DTypeSet::EMPTY.contains(DType::Bool));
    /// ```
    pub const fn contains(self, dtype: DType) -> bool {
        self.0 >> dtype.code() & 1 == 1
    }

    /// The dtypes that are in either set.
    ///
    /// ```
    /// use lanecast::{promotion::DTypeSet, DType};
    /// let [a, b] = [DType::I8, DType::U8].map(|t| DTypeSet::EMPTY.with(t));
    /// assert_eq!(a.union(b).len(), 2);
    /// ```
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The dtypes that are in both sets.
    ///
    /// ```
    /// use lanecast::promotion::{DTypeSet, Rules};
    /// let shared = Rules::NUMPY.dtypes().intersection(Rules::MEGENGINE.dtypes());
    /// assert_eq!(shared.to_string(), "bool, uint8, int8, uint16, int16, int32, float16, float32");
    /// ```
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The dtypes that are in this set and not in the other.
    ///
    /// ```
    /// use lanecast::promotion::{DTypeSet, Rules};
    /// assert_eq!(Rules::MINDSPORE.dtypes().difference(Rules::NUMPY.dtypes()).len(), 3);
    /// ```
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The dtype with the lowest code; None if the set is empty.
    ///
    /// ```
    /// use lanecast::{promotion::DTypeSet, DType};
    /// assert_eq!(DTypeSet::ALL.first(), Some(DType::Bool));
    /// assert_eq!(DTypeSet::EMPTY.first(), None);
    /// ```
    pub const fn first(self) -> Option<DType> {
        // For the empty set this is 64, which is no dtype's code.
        DType::from_code(self.0.trailing_zeros() as u8)
    }

    /// The dtype that comes first in [`ORDER`].
    pub(super) const fn lowest(self) -> Option<DType> {
        let mut i = 0;
        while i < DTYPES {
            if self.contains(ORDER[i]) {
                return Some(ORDER[i]);
            }
            i += 1;
        }
        None
    }

    /// The number of dtypes.
    ///
    /// ```
    /// assert_eq!(lanecast::promotion::Rules::ARRAY_API.dtypes().len(), 13);
    /// ```
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set has no dtypes.
    ///
    /// ```
    /// assert!(!lanecast::promotion::DTypeSet::ALL.is_empty());
    /// ```
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the dtypes of the set, in the order of their codes.
    ///
    /// ```
    /// use lanecast::{promotion::DTypeSet, DType};
    /// assert!(DTypeSet::ALL.iter().eq(DType::ALL));
    /// ```
    pub fn iter(self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(move |&dtype| self.contains(dtype))
    }
}

impl FromIterator<DType> for DTypeSet {
    fn from_iter<I: IntoIterator<Item = DType>>(dtypes: I) -> Self {
        dtypes.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for DTypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, dtype) in self.iter().enumerate() {
            write!(f, "{}{dtype}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for DTypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
