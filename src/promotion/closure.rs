//! Makes the sets of a ruleset from a few edges, at compile time, and asserts that every edge goes up in [`ORDER`].

use super::set::{DTypeSet, ORDER, place};
use crate::formats::dtype::{DTYPES, DType};

/// A dtype, and the dtypes just above it.
pub(super) type Edge = (DType, &'static [DType]);

/// The transitive closure of `edges`. A dtype that no edge names is not in the ruleset.
pub(super) const fn close(edges: &[&[Edge]]) -> [DTypeSet; DTYPES] {
    let mut up = [DTypeSet::EMPTY; DTYPES];
    let mut list = 0;
    while list < edges.len() {
        let mut edge = 0;
        while edge < edges[list].len() {
            let (from, above) = edges[list][edge];
            up[from as usize] = up[from as usize].with(from);
            let mut i = 0;
            while i < above.len() {
                // So no element of a set is below the one that comes first in `ORDER`, on which `Rules::least` relies.
                assert!(place(from) < place(above[i]), "every edge goes up");
                up[from as usize] = up[from as usize].with(above[i]);
                up[above[i] as usize] = up[above[i] as usize].with(above[i]);
                i += 1;
            }
            edge += 1;
        }
        list += 1;
    }
    // From the top down, so that the sets of the dtypes above are already complete.
    let mut i = DTYPES;
    while i > 0 {
        i -= 1;
        let from = ORDER[i] as usize;
        let mut above = i + 1;
        while above < DTYPES {
            if up[from].contains(ORDER[above]) {
                up[from] = up[from].union(up[ORDER[above] as usize]);
            }
            above += 1;
        }
    }
    up
}

/// Sets in which each dtype of `set` may only become itself.
pub(super) const fn identity(set: DTypeSet) -> [DTypeSet; DTYPES] {
    let mut up = [DTypeSet::EMPTY; DTYPES];
    let mut i = 0;
    while i < DTYPES {
        if set.contains(DType::ALL[i]) {
            up[i] = up[i].with(DType::ALL[i]);
        }
        i += 1;
    }
    up
}

/// Sets in which each dtype may become those that hold all of its values.
pub(super) const fn lossless() -> [DTypeSet; DTYPES] {
    let mut up = [DTypeSet::EMPTY; DTYPES];
    let mut from = 0;
    while from < DTYPES {
        let mut to = 0;
        while to < DTYPES {
            // bool and uint1 hold the same values. To put one below the other, bool may become uint1, and nothing becomes bool.
            let (a, b) = (DType::ALL[from], DType::ALL[to]);
            if a.is_lossless_to(b) && !(matches!(b, DType::Bool) && from != to) {
                assert!(place(a) <= place(b), "every edge goes up");
                up[from] = up[from].with(DType::ALL[to]);
            }
            to += 1;
        }
        from += 1;
    }
    up
}

/// Removes the complex dtypes from what the dtypes `of` may become. The sets are then no longer transitive.
pub(super) const fn cut_complex(mut up: [DTypeSet; DTYPES], of: &[DType]) -> [DTypeSet; DTYPES] {
    let mut i = 0;
    while i < of.len() {
        up[of[i] as usize] = up[of[i] as usize].difference(super::scalar::COMPLEX);
        i += 1;
    }
    up
}
