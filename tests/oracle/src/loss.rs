//! What a conversion loses: models the contract's section on checked casts, sentence by sentence.

use crate::exact::{Dyadic, round_to_integer};
use crate::types::{Number, Type};
use crate::{Mode, beyond_max, parts};

/// The contract's classes of losses. An element is in at most one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    Above,
    /// `negative`: "those of them that are negative, where the target has no sign".
    Below {
        negative: bool,
    },
    Nan,
    Inf,
    Imaginary,
    Inexact,
}

impl Loss {
    /// "Every class but inexact."
    pub fn is_lost(self) -> bool {
        self != Loss::Inexact
    }
}

/// Returns the class of an element, or `None` if it loses nothing.
pub fn loss(from: Type, to: Type, code: u128, mode: &Mode) -> Option<Loss> {
    let (re, im) = parts(from, crate::types::low_bits(code, from.bits()));
    let of = |code| part_loss(from.part(), to.part(), code, mode);
    let is_zero = |code| matches!(Number::decode(from.part(), code), Number::Finite { magnitude, .. } if magnitude.is_zero());
    if !from.is_complex() {
        return of(re);
    }
    if to == Type::Bool {
        // "of a complex element that is neither 0 nor 1"
        return if is_zero(im) {
            of(re)
        } else {
            Some(Loss::Inexact)
        };
    }
    if to.is_complex() {
        // "the class of the real part if that is lost, else that of the imaginary part if that is, else
        // inexact if either is"
        let (re, im) = (of(re), of(im));
        return match (re, im) {
            (Some(class), _) if class.is_lost() => Some(class),
            (_, Some(class)) if class.is_lost() => Some(class),
            _ => re.or(im),
        };
    }
    match of(re) {
        Some(class) if class.is_lost() => Some(class),
        _ if !is_zero(im) => Some(Loss::Imaginary),
        class => class,
    }
}

/// Returns the class of a real element, or of a part of a complex one.
fn part_loss(from: Type, to: Type, code: u128, mode: &Mode) -> Option<Loss> {
    if from == to {
        return None; // "What keeps its dtype loses nothing."
    }
    let number = Number::decode(from, code);
    let one = Dyadic::power_of_two(0);
    if to == Type::Bool {
        // "To bool nothing is lost; what is neither 0 nor 1 is inexact."
        return match number {
            Number::Finite { magnitude, .. } if magnitude.is_zero() => None,
            Number::Finite {
                negative: false,
                magnitude,
            } if magnitude == one => None,
            _ => Some(Loss::Inexact),
        };
    }
    if to == Type::E8M0FNU {
        return e8m0_loss(number);
    }
    if let Some(format) = to.format() {
        return match number {
            // "A negative finite value is below, and counted as negative; -Inf is inf."
            Number::Finite {
                negative: true,
                magnitude,
            } if !format.has_sign() => {
                (!magnitude.is_zero()).then_some(Loss::Below { negative: true })
            }
            Number::Infinity { .. } if !format.has_sign() => Some(Loss::Inf),
            Number::Nan { .. } if format.has_nan() => None,
            Number::Nan { .. } => Some(Loss::Nan),
            Number::Infinity { negative } => {
                // "±Inf is lost where it does not become ±Inf"
                let infinity = format
                    .infinity()
                    .map(|magnitude| format.with_sign(negative, magnitude));
                (infinity != Some(beyond_max(to, format, negative, mode))).then_some(Loss::Inf)
            }
            Number::Finite {
                negative,
                magnitude,
            } => {
                // "rounded with unbounded exponent"
                let rounded = format.round(negative, magnitude, mode.rounding);
                if rounded > format.max_finite() {
                    Some(if negative {
                        Loss::Below { negative: false }
                    } else {
                        Loss::Above
                    })
                } else {
                    (format.value(rounded) != magnitude).then_some(Loss::Inexact)
                }
            }
        };
    }
    let (min, max) = to.integer_limits();
    match number {
        Number::Nan { .. } => Some(Loss::Nan),
        Number::Infinity { .. } => Some(Loss::Inf),
        Number::Finite {
            negative,
            magnitude,
        } => {
            let rounded = round_to_integer(negative, magnitude, mode.int_rounding_for(to));
            let limit = Dyadic::new(if negative { min } else { max }.unsigned_abs(), 0);
            if rounded <= limit {
                (rounded != magnitude).then_some(Loss::Inexact)
            } else if negative {
                Some(Loss::Below { negative: min == 0 })
            } else {
                Some(Loss::Above)
            }
        }
    }
}

/// "float8_e8m0fnu: on the value before rounding".
fn e8m0_loss(number: Number) -> Option<Loss> {
    match number {
        Number::Nan { .. } => None,
        Number::Infinity { .. } => Some(Loss::Inf),
        Number::Finite {
            negative,
            magnitude,
        } => {
            if magnitude.is_zero() {
                Some(Loss::Below { negative: false })
            } else if negative {
                Some(Loss::Below { negative: true })
            } else if magnitude < Dyadic::power_of_two(-127) {
                Some(Loss::Below { negative: false })
            } else if magnitude > Dyadic::power_of_two(127) {
                Some(Loss::Above)
            } else {
                let power = Dyadic::power_of_two(magnitude.floor_log2());
                (magnitude != power).then_some(Loss::Inexact)
            }
        }
    }
}
