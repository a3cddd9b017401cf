//! Checks the parts of elements: whether they fit, and which of them are lost or inexact.

use core::cell::OnceCell;
use core::mem::MaybeUninit;

use super::bits::ones;
use super::range::{self, compares_signed, home, keeps};
use super::report::CastReport;
use crate::cast::Caster;
use crate::error::Error;
use crate::formats::dtype::{DType, Kind};
use crate::formats::loss::Loss;
use crate::formats::options::{CastOptions, Overflow, Policy};
use crate::formats::route::{Parts, Route, Work};
use crate::kernels::check::{Codes, Exact, Fit, Found, Loops, Verdict};
use crate::kernels::limits::Limits;
use crate::kernels::once::Once;
use crate::kernels::scalar;

/// Bytes of both parts of the widest element.
pub(super) const WIDEST: usize = 16;

/// A buffer for the codes of a piece.
pub(super) type Buffer = [MaybeUninit<u8>];

/// How parts are checked.
pub(super) struct PartCheck<'a> {
    caster: &'a Caster,
    /// A dtype that holds every part of the source exactly, with codes of 16, 32 or 64 bits.
    pub(super) home: DType,
    pub(super) to: DType,
    pub(super) policy: &'a Policy,
    /// Parts of an element: 2 or 1.
    pub(super) units: usize,
    /// The caster from the source to codes of `home`. None if they are the same.
    pub(super) to_home: Option<&'a Caster>,
    /// What a scan of codes of `home` compares with.
    fit: Fit,
    /// What a scan of the source as it is compares with, and the bytes of its codes, if it can be scanned.
    pub(super) plain: Option<(Fit, usize)>,
    pub(super) counts_inexact: bool,
    pub(super) exact: Exactness,
    casters: &'a CheckCasters,
    /// The limits, and whether Inf and NaN are lost. They are kept with the plan, because finding them takes longer than casting hundreds of
    /// elements.
    limits: &'static Once<(Limits, [bool; 2])>,
}

/// `n` elements from `first` on, which are being checked.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) src: &'a [u8],
    /// Codes of `home`, and those of the imaginary parts, if these are lost.
    pub(super) codes: &'a [u8],
    pub(super) imaginary: &'a [u8],
    pub(super) first: usize,
    pub(super) n: usize,
    /// Whether they have been cast already, apart from what is to be done about losses.
    pub(super) is_cast: bool,
}

/// The casters that a check may need. They are made on demand and in place, because they are large; the first two are made
/// before the check.
#[derive(Default)]
pub(super) struct CheckCasters {
    to_home: OnceCell<Caster>,
    pub(super) imaginary: OnceCell<[Caster; 2]>,
    /// The caster back to `home`.
    back: OnceCell<Caster>,
}

/// Returns the value of a cell, made first if there is none: a `get_or_init` of something that may fail.
fn made<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
    match cell.get() {
        Some(made) => Ok(made),
        None => {
            let made = make()?;
            Ok(cell.get_or_init(|| made))
        }
    }
}

/// How to tell whether parts are exact.
pub(super) enum Exactness {
    /// All are exact, or it does not matter.
    All,
    /// Parts that are integers are exact.
    Whole,
    /// Parts that are the same after they were cast back are exact.
    Back,
}

impl CheckCasters {
    /// Makes the casters to native codes, if the cast needs them.
    #[inline(never)] // To save code size.
    pub(super) fn fill(&self, caster: &Caster) -> Result<(), Error> {
        let (route, real) = (caster.route(), is_of_real_parts(caster.route()));
        let (from, home) = (route.from, home(route.from));
        if from == home && !route.src.swapped && !real {
            return Ok(());
        }
        let options = caster.options();
        let source = native(caster).src_order(options.src_order).src_packing(options.src_packing);
        if real {
            made(&self.imaginary, || {
                Ok([Caster::new(caster.from(), from, &source)?, Caster::new(from, from, &source)?])
            })?;
        }
        if loses_parts(route) {
            made(&self.to_home, || Caster::new(if real { caster.from() } else { from }, home, &source))?;
        }
        Ok(())
    }
}

/// Whether the imaginary part of a complex source is lost.
fn is_of_real_parts(route: &Route) -> bool {
    matches!(route.parts, Parts::Real | Parts::Either)
}

/// Whether a part can lose anything.
pub(super) fn loses_parts(route: &Route) -> bool {
    route.work == Work::Convert && !keeps(route.from, route.to, &route.policy)
}

impl<'a> PartCheck<'a> {
    #[inline] // Moving what it returns takes noticeable time.
    pub(super) fn new(caster: &'a Caster, counts_inexact: bool, casters: &'a CheckCasters) -> Self {
        let route = caster.route();
        let (from, to, policy) = (route.from, route.to, &route.policy);
        let (home, to_home) = (home(from), casters.to_home.get());
        let fit = range::fit(home, to, policy);
        Self {
            caster,
            home,
            to,
            policy,
            units: if route.parts == Parts::Two { 2 } else { 1 },
            to_home,
            fit,
            plain: match from.kind() {
                Kind::Int(format) if format.bits == 8 => Some((range::fit(from, to, policy), 1)),
                _ if to_home.is_none() => Some((fit, width(home))),
                _ => None,
            },
            counts_inexact,
            exact: match (home.is_int(), to.is_int()) {
                _ if !counts_inexact => Exactness::All,
                (true, true) => Exactness::All,
                (false, true) => Exactness::Whole,
                _ => Exactness::Back,
            },
            casters,
            limits: &caster.plan().plan.limits,
        }
    }

    /// Returns the codes of `n` elements in `home`: the source itself, or what is filled into `room`.
    pub(super) fn codes<'r>(&self, src: &'r [u8], n: usize, room: &'r mut Buffer) -> Result<&'r [u8], Error> {
        match self.to_home {
            None => Ok(src),
            Some(caster) => {
                let units = self.units * n;
                Ok(caster.cast_uninit(src, &mut room[..units * width(self.home)], units)?)
            }
        }
    }

    pub(super) fn scan(&self, loops: Loops, codes: &[u8]) -> Found {
        loops.scan(Codes { bytes: codes, width: width(self.home) }, &self.fit, self.counts_inexact)
    }

    /// Returns the caster back to `home`.
    #[inline(never)] // To save code size.
    pub(super) fn back(&self) -> Result<&Caster, Error> {
        made(&self.casters.back, || {
            let (options, caster) = (self.caster.options(), self.caster);
            let to = if self.units == 2 { self.to } else { caster.to() };
            let options = native(caster).src_order(options.dst_order).src_packing(options.dst_packing);
            // Wrapping, so that what was rounded up to 2^63 does not come back as the largest integer.
            Caster::new(to, self.home, &options.float_to_int(Overflow::Wrap))
        })
    }

    /// Judges the parts of `n` elements.
    #[allow(clippy::too_many_arguments, reason = "codes, where they go, and room")]
    #[inline(never)] // To save code size.
    pub(super) fn judge(
        &self,
        loops: Loops,
        codes: &[u8],
        dst: &[u8],
        n: usize,
        limits: &Limits,
        verdict: &mut Verdict,
        room: &mut Buffer,
    ) -> Result<(), Error> {
        let (width, units) = (width(self.home), self.units * n);
        let exact = match &self.exact {
            Exactness::All => Exact::All,
            Exactness::Whole => Exact::Whole,
            Exactness::Back => {
                let caster = self.back()?;
                Exact::Back(caster.cast_uninit(dst, &mut room[..units * width], units)?)
            }
        };
        loops.judge(Codes { bytes: codes, width }, exact, limits, verdict);
        Ok(())
    }

    /// Counts lost parts by class.
    #[inline(never)] // To save stack.
    pub(super) fn count(&self, loops: Loops, codes: &[u8], verdict: &Verdict, report: &mut CastReport) {
        let (width, (limits, loses)) = (width(self.home), self.limits());
        let mut add = |codes: &[u8]| {
            let counts = loops.count(Codes { bytes: codes, width }, &limits);
            report.above += counts.above;
            report.below += counts.below;
            report.negative += counts.negative;
            report.inf += if loses[0] { counts.inf } else { 0 };
            report.nan += if loses[1] { counts.nan } else { 0 };
        };
        if self.units == 1 && verdict.losses * width > codes.len() / 16 {
            return add(codes);
        }
        // An element of two parts is in one class: that of its real part, if that is lost.
        let is_lost = |i: usize| verdict.lost[i / 64] >> (i % 64) & 1 != 0;
        let mut parts = ones(&verdict.lost).filter(|i| self.units == 1 || i % 2 == 0 || !is_lost(i - 1));
        let mut room = [0; 1 << 10];
        loop {
            let mut end = 0;
            for (to, i) in room.chunks_exact_mut(width).zip(&mut parts) {
                to.copy_from_slice(&codes[i * width..][..width]);
                end += width;
            }
            if end == 0 {
                break;
            }
            add(&room[..end]);
        }
    }

    pub(super) fn loss(&self, code: u64, word: Option<u32>) -> Option<(Loss, bool)> {
        loss(self.home, self.to, self.policy, code, word)
    }

    #[inline(never)]
    pub(super) fn limits(&self) -> (Limits, [bool; 2]) {
        let loss = |code| self.loss(code, None).map(|(loss, _)| loss);
        let find = || range::limits(self.home, self.to, loss);
        // Without memory to keep them, they are found again each time.
        self.limits.get_or_make(|| Some(find())).copied().unwrap_or_else(find)
    }
}

/// Returns what is lost of a code by the reference, and whether the value is negative where the target has no sign.
fn loss(from: DType, to: DType, policy: &Policy, code: u64, word: Option<u32>) -> Option<(Loss, bool)> {
    let value = scalar::decode(from, code);
    let is_negative = value.is_negative() && !compares_signed(to);
    scalar::loss(to, value, policy, word).map(|loss| (loss, is_negative))
}

/// Returns the options of casts to native codes and back.
fn native(caster: &Caster) -> CastOptions {
    CastOptions::new().isa(caster.isa()).stream_from(usize::MAX)
}

/// Reads a native code of 1, 2, 4 or 8 bytes.
pub(crate) fn read(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// Returns the bytes of a code of 8 bits or more.
pub(super) fn width(dtype: DType) -> usize {
    dtype.bits() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::options::Rounding;
    use crate::kernels::check::Scan;

    /// What a scan is content with is in the range that the reference finds, in every mode; and to integers, by the
    /// default mode, it is all of what is in the range both ways.
    #[test]
    fn what_fits_is_in_the_range() {
        let homes =
            [DType::U16, DType::I16, DType::U32, DType::I32, DType::U64, DType::I64, DType::F32, DType::F64];
        for (home, to) in homes.into_iter().flat_map(|home| DType::ALL.map(|to| (home, to))) {
            for rounding in Rounding::ALL {
                let options = CastOptions::new().rounding(rounding).int_rounding(rounding);
                let route = crate::formats::route::route(home, to, &options);
                if route.work != Work::Convert || keeps(home, route.to, &route.policy) {
                    continue;
                }
                let (to, policy) = (route.to, &route.policy);
                let (fit, what) = (range::fit(home, to, policy), format!("{home} -> {to}, {rounding:?}"));
                let sign = 1u64 << (home.bits() - 1);
                let loss = |code: u64| loss(home, to, policy, code, None).map(|(loss, _)| loss);
                let lost = |code: u64| loss(code).is_some_and(|loss| loss != Loss::Inexact);
                match fit.scan {
                    Scan::Integers => {
                        let all = u64::MAX >> (64 - home.bits());
                        let most = (all & !fit.limit) + 1;
                        for code in [0, most / 2, most - 1].map(|k| fit.low.wrapping_add(k) & all) {
                            assert_eq!(loss(code), None, "{what}: {code:#x}");
                        }
                    }
                    _ => {
                        assert!(!lost(fit.inside) && !lost(fit.limit), "{what}");
                        if matches!(fit.scan, Scan::Floats | Scan::Whole) {
                            assert!(!lost(sign | fit.limit), "{what}");
                        }
                        if matches!(to.kind(), Kind::Int(_)) {
                            assert!(lost(fit.limit + 1), "{what}: {:#x}", fit.limit);
                        }
                    }
                }
            }
        }
    }
}
