//! What a conversion loses: of dequantised values, beside those of the source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The losses of one tensor, or of a part of it.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Loss {
    pub(crate) max_abs: f64,
    pub(crate) max_rel: f64,
    /// The element of the largest relative error; where there is none, of the largest error.
    pub(crate) at: u64,
    pub(crate) saturated: u64,
    pub(crate) nan: u64,
    pub(crate) inf: u64,
}

impl Loss {
    /// Adds what became of elements from `first` on. `largest` are the codes without their scale, the largest of them, and how
    /// much larger than it a value must be to count as clamped.
    pub(crate) fn add(&mut self, first: u64, from: &[f64], to: &[f64], largest: Option<(&[f64], f64, f64)>) {
        let (mut abs, mut rel) = (0f64, 0f64);
        let (mut nan, mut inf, mut over) = (0, 0, 0);
        for (&x, &y) in from.iter().zip(to) {
            let error = (x - y).abs();
            // NaN and Inf compare false, and do not count.
            let error = if error < f64::INFINITY { error } else { 0.0 };
            abs = abs.max(error);
            rel = rel.max(if x == 0.0 { 0.0 } else { error / x.abs() });
            nan += u64::from(y.is_nan());
            inf += u64::from(y.is_infinite());
            over += u64::from(y.is_infinite() && x.is_finite());
        }
        if let Some((codes, largest, factor)) = largest {
            for ((&x, &y), &code) in from.iter().zip(to).zip(codes) {
                let clamped = code.abs() == largest && x.is_finite() && x.abs() > y.abs() * factor;
                over += u64::from(clamped);
            }
        }
        let worse = rel > self.max_rel || (rel == self.max_rel && rel == 0.0 && abs > self.max_abs);
        if worse {
            let is = |(x, y): (&f64, &f64)| {
                let error = (x - y).abs();
                if rel > 0.0 { *x != 0.0 && error / x.abs() == rel } else { error == abs }
            };
            self.at = first + from.iter().zip(to).position(is).unwrap_or(0) as u64;
        }
        self.max_abs = self.max_abs.max(abs);
        self.max_rel = self.max_rel.max(rel);
        self.nan += nan;
        self.inf += inf;
        self.saturated += over;
    }

    /// Adds another part of the same tensor: in whatever order, the result is the same.
    pub(crate) fn join(&mut self, other: &Self) {
        let key = |loss: &Self| (loss.max_rel, if loss.max_rel > 0.0 { 0.0 } else { loss.max_abs });
        let (mine, theirs) = (key(self), key(other));
        if theirs > mine || (theirs == mine && other.at < self.at && theirs > (0.0, 0.0)) {
            self.at = other.at;
        }
        self.max_abs = self.max_abs.max(other.max_abs);
        self.max_rel = self.max_rel.max(other.max_rel);
        self.saturated += other.saturated;
        self.nan += other.nan;
        self.inf += other.inf;
    }
}

/// All tensors that went from one dtype or layout to another.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub(crate) tensors: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) loss: Loss,
}

/// One of the worst tensors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Worst {
    pub(crate) name: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) max_abs_error: f64,
    pub(crate) max_rel_error: f64,
    pub(crate) index: Vec<u64>,
}

/// Of a file, or of all.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Losses {
    /// By `from -> to`.
    pub(crate) sums: BTreeMap<String, Sum>,
    pub(crate) worst: Vec<Worst>,
}

impl Losses {
    pub(crate) fn join(&mut self, other: &Self) {
        for (what, sum) in &other.sums {
            let mine = self.sums.entry(what.clone()).or_default();
            mine.tensors += sum.tensors;
            mine.bytes_in += sum.bytes_in;
            mine.bytes_out += sum.bytes_out;
            mine.loss.join(&sum.loss);
        }
        self.worst.extend(other.worst.iter().cloned());
        self.worst.sort_by(|a, b| {
            let key = |worst: &Worst| (worst.max_rel_error, worst.max_abs_error);
            key(b).partial_cmp(&key(a)).expect("no NaN").then_with(|| a.name.cmp(&b.name))
        });
        self.worst.truncate(10);
    }

    pub(crate) fn all(&self) -> Loss {
        let mut all = Loss::default();
        for sum in self.sums.values() {
            all.join(&sum.loss);
        }
        all
    }
}

/// The place of an element in its shape.
pub(crate) fn place(mut at: u64, shape: &[usize]) -> Vec<u64> {
    let mut place: Vec<u64> = shape
        .iter()
        .rev()
        .map(|&length| {
            let i = at % (length as u64).max(1);
            at /= (length as u64).max(1);
            i
        })
        .collect();
    place.reverse();
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_do_not_depend_on_the_parts() {
        let from: Vec<f64> = (0..1000).map(|i| f64::from(i % 37) - 11.0).collect();
        let mut to: Vec<f64> = from.iter().map(|x| x + 0.25 * (x % 3.0)).collect();
        (to[7], to[800]) = (f64::NAN, f64::INFINITY);
        let mut whole = Loss::default();
        whole.add(0, &from, &to, None);
        assert_eq!((whole.nan, whole.inf, whole.saturated), (1, 1, 1));
        for cut in [1, 7, 500, 999] {
            let (mut a, mut b) = (Loss::default(), Loss::default());
            b.add(cut as u64, &from[cut..], &to[cut..], None);
            a.add(0, &from[..cut], &to[..cut], None);
            b.join(&a);
            assert_eq!(b, whole, "cut at {cut}");
        }
        assert_eq!(place(7, &[2, 4]), [1, 3]);
    }
}
