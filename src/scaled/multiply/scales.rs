//! From the codes of scales to the numbers and tables that the kernels of a dequantisation take.

use super::decided::{INF, LEAST_OF_TWO, MOST_OF_TWO, MayTie, Tabling, all_codes};
use super::{Buffers, MADE, Multiply};
use crate::cast::Caster;
use crate::kernels::scaled::{By, Factor, Factors, How, Per};
use crate::kernels::scales::{self, Bounds, TIES};
use crate::scaled::error::Error;
use crate::scaled::memory::{array, once};
use crate::scaled::numbers::{LEAST, MOST};
use crate::scaled::rule::Product;
use crate::scaled::scaling::TensorScale;

impl Multiply<'_> {
    /// Computes what the kernel needs of `n` scales from `scale` on, and flags them. Returns the union of the flags; None if there is
    /// no kernel.
    pub(super) fn numbers(&self, scale: usize, n: usize, buffers: &mut Buffers) -> Result<Option<u8>, Error> {
        let Some(mut flags) = self.factors(scale, n, buffers) else { return Ok(None) };
        let decided = self.decided;
        let Buffers { scales, flags: all, deltas, picks, tables, sixteens, made, .. } = buffers;
        let Some(Tabling { by, maker, any_scale, .. }) = self.tabling() else { return Ok(Some(flags)) };
        let each = match by {
            By::Exponent | By::Mantissa => {
                let (deltas, picks) = (&mut deltas[..n], &mut picks[..n]);
                let range = LEAST..MOST;
                flags |= scales::deltas(decided.isa, &scales[..n], &range, deltas, picks, &mut all[..n]);
                return Ok(Some(flags));
            }
            By::Scale => 128,
            By::Sixteen => 16,
        };
        if !any_scale {
            let positive = Bounds { range: 1..INF, zero: false, negative: false };
            flags |= scales::bounded(decided.isa, &scales[..n], &positive, &mut all[..n]);
        }
        let is_new = made.is_none();
        let made = once(made, || array([0; 128]))?;
        let (codes, words) = made.as_flattened_mut().split_at_mut(MADE * 128);
        let options = self.job.read.options();
        if is_new && all_codes(self.job.dequantize.from, &options, each, codes).is_none() {
            return Ok(None);
        }
        let is_odd = self.ties == MayTie::Always || flags & TIES != 0;
        let how = if is_odd { How::Odd } else { How::Near };
        let factors =
            Factors { per: Per::Group(each.into()), how, tensor: decided.tensor.after, ..Factors::NONE };
        if *by == By::Sixteen {
            const TOGETHER: usize = MADE * 128 / 16;
            for (tables, scales) in sixteens[..n].chunks_mut(TOGETHER).zip(scales.chunks(TOGETHER)) {
                maker.fill_sixteens(codes, words, tables, &Factors { scales, ..factors });
            }
        } else {
            for (tables, scales) in tables[..n].chunks_mut(MADE).zip(scales.chunks(MADE)) {
                maker.fill(codes, words, tables, &Factors { scales, ..factors });
            }
        }
        Ok(Some(flags))
    }

    /// Decodes `n` scales from `scale` on to float32, with the factor of the tensor and the zero points, and flags them.
    fn factors(&self, scale: usize, n: usize, buffers: &mut Buffers) -> Option<u8> {
        self.kernel?;
        let given = &self.job.given;
        let bytes = given.scales.native(given.bytes, scale..scale + n, &mut buffers.codes);
        let numbers = &mut buffers.scales[..n];
        let [first, narrow, wide] = self.decided.to_f32;
        first?.fill(bytes, (&mut *numbers).into(), n).ok()?;
        let flags = &mut buffers.flags[..n];
        flags.fill(0);
        let range =
            if self.decided.tensor.after == Factor::NONE && self.decided.tensor.scales == TensorScale::None {
                LEAST..MOST
            } else {
                LEAST_OF_TWO..MOST_OF_TWO
            };
        let bounds = Bounds { range, zero: self.decided.zero_is_right, negative: true };
        let mut all = scales::bounded(self.decided.isa, numbers, &bounds, flags);
        if given.zero_points.is_some() {
            given.zeros(self.decided.zeros.as_ref()?, scale..scale + n, &mut buffers.zeros).ok()?;
            buffers.zeros[..n].iter_mut().for_each(|zero| *zero = -*zero);
        }
        let mut round = |numbers: &mut [f32], narrow: Option<Caster>, wide: Option<Caster>| {
            if let (Some(narrow), Some(wide)) = (narrow, wide) {
                let there = &mut buffers.codes[..2 * n];
                narrow.fill(&*numbers, (&mut *there).into(), n).ok()?;
                wide.fill(&*there, numbers.into(), n).ok()?;
            }
            Some(())
        };
        round(numbers, narrow, wide)?;
        match self.decided.tensor.scales {
            TensorScale::Multiply(g) | TensorScale::Divide(g) => {
                let mut factor = [g];
                if self.job.dequantize.product == Product::Output {
                    let mut one = [0u8; 2];
                    if let [Some(narrow), Some(wide)] = self.decided.rounds {
                        narrow.fill(&factor[..], (&mut one[..]).into(), 1).ok()?;
                        wide.fill(&one[..], (&mut factor[..]).into(), 1).ok()?;
                    }
                }
                let divides = matches!(self.decided.tensor.scales, TensorScale::Divide(_));
                scales::with_tensor(self.decided.isa, Factor { by: factor[0], divides }, numbers);
                let [narrow, wide] = self.decided.rounds;
                round(numbers, narrow, wide)?;
            }
            _ => {}
        }
        if narrow.is_some() || self.decided.tensor.scales != TensorScale::None {
            all |=
                scales::bounded(self.decided.isa, numbers, &Bounds { range: LEAST..MOST, ..bounds }, flags);
        }
        if let MayTie::Some(ties, _) = self.ties {
            all |= scales::ties(self.decided.isa, ties, numbers, flags);
        }
        Some(all)
    }
}
