//! Turns the codes of scales into the numbers and tables that the kernels of a dequantisation take.

use super::decided::{INF, LEAST_OF_TWO, MOST_OF_TWO, MayTie, Tabling, all_codes};
use super::{Buffers, MADE, Multiply};
use crate::cast::Caster;
use crate::formats::isa::Isa;
use crate::kernels::scaled::scales::{self, Bounds, TIES};
use crate::kernels::scaled::{By, Factor, How, Others, Per, ScaleArrays, Table16};
use crate::kernels::sizes::KERNEL_BLOCK;
use crate::scaled::coded::{ALL, Coded, EVERY, is_for};
use crate::scaled::error::Error;
use crate::scaled::memory::{array, once};
use crate::scaled::numbers::{LEAST, MOST};
use crate::scaled::rule::Product;
use crate::scaled::scaling::TensorScale;

/// Tables for all codes of a scale pay from this many elements on; on AVX-512 from this many groups on, as longer groups are
/// faster there by products in registers.
const CODED: usize = 1 << 14;
const CODED_GROUPS: usize = 1 << 11;

impl Multiply<'_> {
    /// Computes what the kernel needs of `n` scales from `scale` on, and flags them. Returns the union of the flags, or None if
    /// there is no kernel.
    pub(super) fn numbers(&self, scale: usize, n: usize, buffers: &mut Buffers) -> Result<Option<u8>, Error> {
        if let Some(coded) = &self.coded {
            let Buffers { codes, places, flags, .. } = buffers;
            let given = &self.job.given;
            let codes = given.scales.native(given.bytes, scale..scale + n, codes);
            return Ok(Some(coded.find(self.job.grid, codes, places, flags)));
        }
        let Some(mut flags) = self.decoded(scale, n, buffers) else { return Ok(None) };
        let decided = self.decided;
        let Buffers { scales, flags: all, deltas, tables, sixteens, made, .. } = buffers;
        let Some(Tabling { by, maker, any_scale, .. }) = self.tabling() else { return Ok(Some(flags)) };
        let each = match by {
            By::Exponent => {
                let (deltas, all) = (&mut deltas[..n], &mut all[..n]);
                flags |= scales::deltas(decided.isa, &scales[..n], &(LEAST..MOST), deltas, all);
                return Ok(Some(flags));
            }
            By::Code => return Ok(Some(flags)),
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
        let arrays = ScaleArrays {
            per: Per::Group(each.into()),
            how,
            tensor: decided.tensor.after,
            ..ScaleArrays::NONE
        };
        if *by == By::Sixteen {
            const TOGETHER: usize = MADE * 128 / 16;
            for (tables, scales) in sixteens[..n].chunks_mut(TOGETHER).zip(scales.chunks(TOGETHER)) {
                maker.fill_sixteens(codes, words, tables, &ScaleArrays { scales, ..arrays });
            }
        } else {
            for (tables, scales) in tables[..n].chunks_mut(MADE).zip(scales.chunks(MADE)) {
                maker.fill(codes, words, tables, &ScaleArrays { scales, ..arrays });
            }
        }
        Ok(Some(flags))
    }

    /// Returns the tables of all codes of a scale, if elements are looked up that way. None if there are too few elements to
    /// pay for them, or no memory.
    pub(super) fn coded(&self) -> Option<Coded> {
        let Tabling { by: By::Code, maker, .. } = self.decided.tabling.as_ref()? else { return None };
        let grid = self.job.grid;
        let is_wide = self.decided.isa.isa() == Isa::Avx512;
        let pays = grid.count >= if is_wide { CODED_GROUPS * grid.block() } else { CODED };
        if !is_for(grid) || !pays || self.job.given.zero_points.is_some() {
            return None;
        }
        // A kernel reads whole blocks, hence the room behind the scales.
        let (mut scales, mut flags, mut room) = ([0.0; ALL + KERNEL_BLOCK], [0; ALL], [0; 2 * ALL]);
        self.decided.to_f32[0]?.fill(&EVERY[..], (&mut scales[..ALL]).into(), ALL).ok()?;
        self.bound(&mut scales[..ALL], &mut flags, &mut room)?;
        let right = Coded::right(&flags);
        let mut codes = [0; ALL * 16 / 2];
        all_codes(self.job.dequantize.from, &self.job.read.options(), 16, &mut codes)?;
        let mut tables = array(Table16::ZEROS).ok()?;
        let arrays = ScaleArrays {
            per: Per::Group(16),
            how: if self.ties == MayTie::Never { How::Near } else { How::Odd },
            tensor: self.decided.tensor.after,
            scales: &scales[right.start.min(ALL)..],
            others: Others { loses_sign: self.job.dequantize.loses_sign, ..Others::NONE },
            ..ScaleArrays::NONE
        };
        maker.fill_coded(&codes, &mut tables[right.clone()], &arrays);
        Coded::new(tables, right)
    }

    /// Decodes `n` scales from `scale` on to float32, with the tensor scale, and their zero points, and flags the scales.
    fn decoded(&self, scale: usize, n: usize, buffers: &mut Buffers) -> Option<u8> {
        self.kernel?;
        let given = &self.job.given;
        let bytes = given.scales.native(given.bytes, scale..scale + n, &mut buffers.codes);
        self.decided.to_f32[0]?.fill(bytes, (&mut buffers.scales[..n]).into(), n).ok()?;
        if given.zero_points.is_some() {
            given.zeros(self.decided.zeros.as_ref()?, scale..scale + n, &mut buffers.zeros).ok()?;
            buffers.zeros[..n].iter_mut().for_each(|zero| *zero = -*zero);
        }
        self.bound(&mut buffers.scales[..n], &mut buffers.flags[..n], &mut buffers.codes)
    }

    /// Applies the tensor scale, and the roundings of profiles, to scales, and flags them.
    fn bound(&self, numbers: &mut [f32], flags: &mut [u8], room: &mut [u8]) -> Option<u8> {
        let n = numbers.len();
        let [_, narrow, wide] = self.decided.to_f32;
        flags.fill(0);
        let range =
            if self.decided.tensor.after == Factor::NONE && self.decided.tensor.scales == TensorScale::None {
                LEAST..MOST
            } else {
                LEAST_OF_TWO..MOST_OF_TWO
            };
        let bounds = Bounds { range, zero: self.decided.zero_is_right, negative: true };
        let mut all = scales::bounded(self.decided.isa, numbers, &bounds, flags);
        let mut round = |numbers: &mut [f32], narrow: Option<Caster>, wide: Option<Caster>| {
            if let (Some(narrow), Some(wide)) = (narrow, wide) {
                let there = &mut room[..2 * n];
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
