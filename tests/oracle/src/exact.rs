//! Exact dyadic rationals and the one rounding decision of the model.

use std::cmp::Ordering;

/// The non-negative number `m * 2^q`, exactly.
#[derive(Clone, Copy, Debug)]
pub struct Dyadic {
    pub m: u128,
    pub q: i32,
}

impl Dyadic {
    pub const ZERO: Dyadic = Dyadic { m: 0, q: 0 };

    pub fn new(m: u128, q: i32) -> Dyadic {
        Dyadic { m, q }
    }

    pub fn power_of_two(q: i32) -> Dyadic {
        Dyadic { m: 1, q }
    }

    pub fn is_zero(self) -> bool {
        self.m == 0
    }

    /// `floor(log2(self))`; the number must not be zero.
    pub fn floor_log2(self) -> i32 {
        assert!(self.m != 0, "zero has no logarithm");
        self.q + (127 - self.m.leading_zeros() as i32)
    }

    /// Returns `floor(self / 2^q)`, which must fit in 128 bits.
    pub fn units(self, q: i32) -> u128 {
        if self.q >= q {
            assert!(self.q - q < self.m.leading_zeros() as i32);
            self.m << (self.q - q)
        } else {
            self.m.checked_shr(q.abs_diff(self.q)).unwrap_or(0)
        }
    }

    /// Returns the midpoint of two numbers whose exponents `q` differ by little (neighbours in a format).
    pub fn midpoint(a: Dyadic, b: Dyadic) -> Dyadic {
        let q = a.q.min(b.q);
        let on_common_scale = |x: Dyadic| x.m << (x.q - q);
        Dyadic::new(on_common_scale(a) + on_common_scale(b), q - 1)
    }
}

/// Exact comparison: by the position of the leading bit and, where that is the same, by the bits
/// aligned to it.
impl Ord for Dyadic {
    fn cmp(&self, other: &Dyadic) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.floor_log2().cmp(&other.floor_log2()).then_with(|| {
                let aligned = |x: &Dyadic| x.m << x.m.leading_zeros();
                aligned(self).cmp(&aligned(other))
            }),
        }
    }
}

impl PartialOrd for Dyadic {
    fn partial_cmp(&self, other: &Dyadic) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Equality of values: `2 * 2^0 == 1 * 2^1`.
impl PartialEq for Dyadic {
    fn eq(&self, other: &Dyadic) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Dyadic {}

/// A direction of rounding (IEEE 754).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    NearestEven,
    NearestAway,
    TowardZero,
    Up,
    Down,
}

impl Rounding {
    pub const ALL: [Rounding; 5] = [
        Rounding::NearestEven,
        Rounding::NearestAway,
        Rounding::TowardZero,
        Rounding::Up,
        Rounding::Down,
    ];

    /// Whether a directed mode moves numbers of this sign toward zero.
    pub(crate) fn is_toward_zero(self, negative: bool) -> bool {
        match self {
            Rounding::NearestEven | Rounding::NearestAway => false,
            Rounding::TowardZero => true,
            Rounding::Up => negative,
            Rounding::Down => !negative,
        }
    }

    /// Whether `x` rounds to the successor of `lower` rather than to `lower`. All are magnitudes, with
    /// `lower <= x < successor`; `middle` is the midpoint of these two, `lower_is_odd` the parity of `lower`.
    pub(crate) fn picks_successor(
        self,
        negative: bool,
        x: Dyadic,
        lower: Dyadic,
        middle: Dyadic,
        lower_is_odd: bool,
    ) -> bool {
        if x == lower {
            return false; // exact in every mode
        }
        match self {
            Rounding::NearestEven => match x.cmp(&middle) {
                Ordering::Less => false,
                Ordering::Equal => lower_is_odd,
                Ordering::Greater => true,
            },
            Rounding::NearestAway => x >= middle,
            Rounding::TowardZero | Rounding::Up | Rounding::Down => !self.is_toward_zero(negative),
        }
    }
}

/// Rounds `x` to an integer. The result has `q >= 0`.
pub(crate) fn round_to_integer(negative: bool, x: Dyadic, rounding: Rounding) -> Dyadic {
    if x.q >= 0 {
        return x; // already an integer
    }
    let floor = x.units(0);
    let middle = Dyadic::new(2 * floor + 1, -1);
    let up = rounding.picks_successor(negative, x, Dyadic::new(floor, 0), middle, floor % 2 == 1);
    Dyadic::new(floor + u128::from(up), 0)
}
