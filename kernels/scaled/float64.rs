//! Computes with elements as float64s, many at a time, and compares them with what they became.

use core::ops::Range;

use super::super::backend::on;
use super::super::environment::Environment;
use super::super::present::Present;
use super::super::simd::{Simd, Task};
use crate::formats::options::Rounding;

/// An operation on float64s, rounded to nearest even.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Multiply,
    Divide,
}

/// `values[i] op= by[i]`.
pub(crate) fn arithmetic(isa: Present, operation: Operation, values: &mut [f64], by: &[f64]) {
    each(isa, Work::Arithmetic(operation, values), by);
}

/// A bit for each 8 of up to 1,024 values: 1 if one of these values is not zero and its magnitude has bits outside `range`, or
/// if its `by` is zero.
pub(crate) fn outside(isa: Present, values: &[f64], range: Range<u64>, by: &[f64]) -> u128 {
    each(isa, Work::Outside(values, range), by)
}

/// Rounds values to integers, to nearest even, adds `plus` to each, and clamps to `limits`.
pub(crate) fn integers(isa: Present, values: &mut [f64], plus: &[f64], limits: [f64; 2]) {
    each(isa, Work::Integers(values, limits), plus);
}

/// Rounds to an integer, to nearest even. Beyond 2^40, which is out of every range, the result is arbitrary.
#[inline(always)]
pub(crate) fn nearest(value: f64) -> f64 {
    /// A float64 to which this is added loses its bits below 1.
    const WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
    const FAR: f64 = (1u64 << 40) as f64;
    between(value, -FAR, FAR) + WHOLE - WHOLE
}

/// Clamps a number. (Unlike `f64::clamp`, it compiles to two instructions.)
#[inline(always)]
pub(crate) fn between(value: f64, min: f64, max: f64) -> f64 {
    let value = if value < min { min } else { value };
    if value > max { max } else { value }
}

/// What [`each`] does to values, each of which has a number beside it.
enum Work<'a> {
    Arithmetic(Operation, &'a mut [f64]),
    Outside(&'a [f64], Range<u64>),
    Integers(&'a mut [f64], [f64; 2]),
}

/// Runs a kind of work; there is a single kernel for all kinds. Must not be called on the scalar reference.
fn each(isa: Present, work: Work<'_>, numbers: &[f64]) -> u128 {
    /// Not a closure: see `Task`.
    struct Each<'a>(Work<'a>, &'a [f64]);

    impl<I> Task<I> for Each<'_> {
        type Output = u128;

        #[inline(always)]
        fn call(self, _: I) -> u128 {
            let Self(work, numbers) = self;
            let has_inverse = |by: &f64| {
                let bits = by.to_bits() as i64;
                (bits & ((1 << 52) - 1) == 0) & (1 << 52..2046 << 52).contains(&bits)
            };
            match work {
                Work::Arithmetic(Operation::Multiply, values) => {
                    values.iter_mut().zip(numbers).for_each(|(value, by)| *value *= by);
                }
                // By powers of two with normal inverses: multiplying gives the same results in less than half of the time.
                Work::Arithmetic(Operation::Divide, values)
                    if numbers.iter().fold(true, |all, by| all & has_inverse(by)) =>
                {
                    let inverse = |by: &f64| f64::from_bits((2046 << 52) - by.to_bits());
                    values.iter_mut().zip(numbers).for_each(|(value, by)| *value *= inverse(by));
                }
                Work::Arithmetic(Operation::Divide, values) => {
                    values.iter_mut().zip(numbers).for_each(|(value, by)| *value /= by);
                }
                Work::Outside(values, range) => {
                    // As signed integers, which AVX2 can compare.
                    let [least, most] = [range.start as i64, range.end as i64];
                    let is_right = |(value, by): (&f64, &f64)| {
                        let magnitude = value.to_bits() as i64 & i64::MAX;
                        ((magnitude == 0) | (magnitude >= least) & (magnitude < most)) & (*by != 0.0)
                    };
                    let mut found = 0;
                    if values.iter().zip(numbers).fold(true, |all, both| all & is_right(both)) {
                        return found;
                    }
                    for (i, (values, by)) in values.chunks(8).zip(numbers.chunks(8)).enumerate() {
                        found |= u128::from(!values.iter().zip(by).all(is_right)) << i;
                    }
                    return found;
                }
                Work::Integers(values, [min, max]) => {
                    values
                        .iter_mut()
                        .zip(numbers)
                        .for_each(|(value, plus)| *value = between(nearest(*value) + plus, min, max));
                }
            }
            0
        }
    }

    let _environment = Environment::new(Rounding::NearestEven);
    let ran = on!(isa, isa => isa.run(Each(work, numbers)));
    debug_assert!(ran.is_some());
    ran.unwrap_or(0)
}

/// Bounds of the elements of a block, below and above: within `safe`, none saturates; outside `beyond`, all finite ones do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    pub(crate) safe: [f64; 2],
    pub(crate) beyond: [f64; 2],
}

impl Ends {
    /// Whether it is certain that a number does not saturate. NaN is not safe.
    #[inline(always)]
    pub(crate) fn is_safe(&self, x: f64) -> bool {
        (x > self.safe[0]) & (x < self.safe[1])
    }

    /// Whether it is certain that a number saturates.
    #[inline(always)]
    pub(crate) fn is_beyond(&self, x: f64) -> bool {
        (x < self.beyond[0]) | (x > self.beyond[1])
    }
}

/// Counts over elements that are finite, stay finite, and of which it is certain whether they have saturated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) saturated: usize,
    pub(crate) underflowed: usize,
    pub(crate) max_error: f64,
}

/// Compares elements with what they became, both as float64, and writes the error of each. None if some elements are not as [`Settled`] says.
pub(crate) fn compared(
    isa: Present,
    xs: &[[u8; 8]],
    became: &[[u8; 8]],
    ends: &Ends,
    errors: &mut [f64],
) -> Option<Settled> {
    struct Each<'a>(&'a [[u8; 8]], &'a [[u8; 8]], &'a Ends, &'a mut [f64]);

    impl<I> Task<I> for Each<'_> {
        type Output = Option<Settled>;

        #[inline(always)]
        fn call(self, _: I) -> Option<Settled> {
            let Self(xs, became, ends, errors) = self;
            let (mut finite, mut not_safe, mut saturated) = (0u64, 0u64, 0u64);
            let (mut zeros, mut both_zeros, mut most) = (0u64, 0u64, 0u64);
            for ((&x, &y), error) in xs.iter().zip(became).zip(&mut *errors) {
                let (x, y) = (f64::from_ne_bytes(x), f64::from_ne_bytes(y));
                let sum = x.abs() + y.abs();
                finite += u64::from(sum < f64::INFINITY);
                not_safe += u64::from(!ends.is_safe(x));
                saturated += u64::from(ends.is_beyond(x));
                zeros += u64::from(y == 0.0);
                both_zeros += u64::from(sum == 0.0);
                *error = (x - y).abs();
                // Magnitudes compare as their bits do.
                most = most.max(error.to_bits());
            }
            let is_settled = finite == xs.len() as u64 && not_safe == saturated;
            is_settled.then(|| Settled {
                saturated: saturated as usize,
                underflowed: (zeros - both_zeros) as usize,
                max_error: f64::from_bits(most),
            })
        }
    }

    on!(isa, isa => isa.run(Each(xs, became, ends, errors))).flatten()
}

#[cfg(all(test, isa = "vector"))]
mod tests {
    use std::vec;

    use super::{Operation, arithmetic, outside};
    use crate::formats::isa::Isa;
    use crate::kernels::backend::Backend;

    const SPECIAL: [f64; 12] = [
        0.0,
        -0.0,
        5e-324,
        f64::MIN_POSITIVE,
        1.5 * f64::MIN_POSITIVE,
        0.1,
        -3.0,
        1e300,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];

    /// Also by powers of two, of which those with a normal inverse are divided by multiplying with it.
    #[test]
    fn quotients() {
        let powers = [-1074, -1023, -1022, -1021, -2, 0, 1, 700, 1021, 1022, 1023].map(|e| 2f64.powi(e));
        let others = [-2.0, 3.0, 0.0, f64::INFINITY, f64::NAN];
        for isa in Isa::available().iter().filter(|isa| **isa != Isa::Scalar) {
            let present = Backend::present(*isa).unwrap();
            for by in powers.into_iter().chain(others) {
                let mut values = SPECIAL;
                arithmetic(present, Operation::Divide, &mut values, &[by; SPECIAL.len()]);
                let wanted = SPECIAL.map(|value| value / by);
                for (value, wanted) in values.into_iter().zip(wanted) {
                    let is_right = value.to_bits() == wanted.to_bits() || value.is_nan() && wanted.is_nan();
                    assert!(is_right, "{isa}: {value} for {wanted}, by {by}");
                }
            }
        }
    }

    /// One bit stands for eight values, wherever the wrong one among them is.
    #[test]
    fn what_is_outside() {
        let range = 1f64.to_bits()..2f64.to_bits();
        for isa in Isa::available().iter().filter(|isa| **isa != Isa::Scalar) {
            let present = Backend::present(*isa).unwrap();
            for n in [1, 8, 9, 100, 1024] {
                let (values, by) = (vec![-1.5; n], vec![3.0; n]);
                assert_eq!(outside(present, &values, range.clone(), &by), 0);
                for at in [0, n / 2, n - 1] {
                    let [mut wrong, mut zero] = [values.clone(), by.clone()];
                    for value in [2.0, 0.99, -f64::NAN, 5e-324] {
                        wrong[at] = value;
                        assert_eq!(
                            outside(present, &wrong, range.clone(), &by),
                            1 << (at / 8),
                            "{isa}: {value}"
                        );
                    }
                    (wrong[at], zero[at]) = (-0.0, -0.0);
                    assert_eq!(outside(present, &wrong, range.clone(), &by), 0);
                    assert_eq!(outside(present, &wrong, range.clone(), &zero), 1 << (at / 8));
                }
            }
        }
    }
}
