//! From a few edges to the sets of a ruleset, at compile time. That every edge goes up is asserted here.

use super::set::{DTypeSet, ORDER, place};
use crate::formats::dtype::{DTYPES, DType};

/// From a dtype to those just above it.
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
                // Then no element of a set is below the one that is first in this order: `Rules::least` relies on it.
                assert!(place(from) < place(above[i]), "every edge goes up");
                up[from as usize] = up[from as usize].with(above[i]);
                up[above[i] as usize] = up[above[i] as usize].with(above[i]);
                i += 1;
            }
            edge += 1;
        }
        list += 1;
    }
    // From the top down, so that the sets of the dtypes above are complete.
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

/// Each dtype of the set may become itself alone.
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

/// Each dtype may become those that hold all of its values.
pub(super) const fn lossless() -> [DTypeSet; DTYPES] {
    let mut up = [DTypeSet::EMPTY; DTYPES];
    let mut from = 0;
    while from < DTYPES {
        let mut to = 0;
        while to < DTYPES {
            // (bool and uint1 hold the same values. So that one is below the other, bool may become uint1 and nothing becomes bool.)
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

/// Takes the complex dtypes out of what some dtypes may become. The sets are no longer transitive then.
pub(super) const fn cut_complex(mut up: [DTypeSet; DTYPES], of: &[DType]) -> [DTypeSet; DTYPES] {
    let mut i = 0;
    while i < of.len() {
        up[of[i] as usize] = up[of[i] as usize].difference(super::scalar::COMPLEX);
        i += 1;
    }
    up
}
