//! Quantisation to float4 under scales of 8 bits by thresholds: for each code of a scale, the magnitudes from which on an
//! element becomes the next code.

use super::{Buffers, Divide};
use crate::kernels::scaled::scales::WRONG;
use crate::kernels::scaled::{Factor, How, Table16};
use crate::scaled::coded::{ALL, Coded, EVERY, is_for};
use crate::scaled::memory::array;
use crate::scaled::numbers::{LEAST, MOST};

/// Tables for all codes of a scale pay from this many elements on.
const PAYS_FROM: usize = 1 << 14;
/// The ties of float4_e2m1fn, each halfway between one magnitude and the next.
const TIES: [f64; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];

/// For each code but 0, the bits of the first bfloat16 that becomes it.
type Thresholds = [u16; TIES.len()];

impl Divide<'_> {
    /// Returns the tables of all codes of a scale, if there is a kernel for them. None if there are too few elements to pay for
    /// them, or no memory.
    #[inline(never)] // It is seldom called, and where little is inlined already.
    pub(super) fn code_tables(&self) -> Option<Coded> {
        let (quantize, grid) = (self.job.quantize, self.job.grid);
        self.decided.by_thresholds?;
        // One table for powers of two is faster, where there is a kernel for that.
        if quantize.scale.bits() != 8
            || !is_for(grid)
            || grid.count < PAYS_FROM
            || self.by_mantissas().is_some()
        {
            return None;
        }
        let mut buffers = Buffers::new(ALL, self, false, false).ok()?;
        self.numbers(&EVERY, ALL, false, &mut buffers);
        let numbers = if self.decided.how == How::Near { &buffers.inverses } else { &buffers.scales };
        let (mut tables, mut flags) = (array(Table16::ZEROS).ok()?, [WRONG; ALL]);
        // Scales that differ by a power of two have the same mantissas in their thresholds.
        let mut known = [None; 8];
        for (code, &number) in numbers[..ALL].iter().enumerate() {
            let bits = number.to_bits();
            if buffers.flags[code] & WRONG != 0 || !(LEAST..MOST).contains(&bits) {
                continue;
            }
            let normal = bits & 0x7F_FFFF | 1f32.to_bits();
            let place = &mut known[(normal >> 20) as usize % 8];
            let made = place.filter(|&(of, _)| of == normal);
            let (_, table) =
                made.unwrap_or_else(|| (normal, Table::new(&self.thresholds_of(f32::from_bits(normal)))));
            *place = Some((normal, table));
            let exponent = (bits >> 23) as i32 - 127;
            let more = if self.decided.how == How::Near { -exponent } else { exponent };
            (tables[code], flags[code]) = (table.times(more), 0);
        }
        Coded::new(tables, Coded::right(&flags))
    }

    /// Returns the thresholds where elements are divided by `number`, or multiplied with it.
    ///
    /// That a profile rounds quotients to bfloat16 changes none of them. A tie times a scale has up to 8 bits, so it is a bfloat16
    /// itself, with the quotient exactly at the tie; its neighbours have quotients that are more than half an ulp of bfloat16 away
    /// from the tie, so none of them is rounded to it.
    fn thresholds_of(&self, number: f32) -> Thresholds {
        let Factor { by, divides } = self.factor;
        let (g, over) = if divides { (1.0, f64::from(by)) } else { (f64::from(by), 1.0) };
        let scale = match self.decided.how {
            How::Near => 1.0 / f64::from(number),
            _ => f64::from(number) * g / over,
        };
        core::array::from_fn(|i| {
            let (tie, is_even) = (TIES[i], i % 2 == 1);
            let is_there = |bits: u16| {
                let x = f32::from_bits(u32::from(bits) << 16);
                // Products of so few bits are exact in float64.
                let (x, tie) = match self.decided.how {
                    How::Odd => (f64::from(x) * over, tie * f64::from(number) * g),
                    How::Near => (f64::from(x * number), tie),
                    _ => (f64::from(x / number), tie),
                };
                x > tie || is_even && x == tie
            };
            let mut threshold = (((tie * scale) as f32).to_bits() >> 16) as u16;
            while is_there(threshold) {
                threshold -= 1;
            }
            while !is_there(threshold) {
                threshold += 1;
            }
            threshold
        })
    }
}

/// The table of some thresholds, as `ByThresholds` in kernels/codec/scaled/thresholds.rs reads it.
#[derive(Clone, Copy)]
struct Table {
    rows: [[u8; 16]; 2],
    first: i32,
}

impl Table {
    fn new(thresholds: &Thresholds) -> Self {
        let exponents = thresholds.map(|threshold| threshold >> 7);
        let first = exponents[0] - 1;
        let [mut mantissas, mut codes] = [[0xFF; 16], [0; 16]];
        for (e, code) in codes[..8].iter_mut().enumerate() {
            let mut here = (0..TIES.len()).filter(|&i| usize::from(exponents[i] - first) == e);
            for row in [e, e + 8] {
                mantissas[row] = here.next().map_or(0xFF, |i| (thresholds[i] << 1) as u8);
            }
            debug_assert!(here.next().is_none());
            // The kernel subtracts 1 for each of the two thresholds that an element does not reach, or that does not exist.
            *code = 2 + exponents.iter().filter(|&&exponent| usize::from(exponent - first) < e).count() as u8;
        }
        Self { rows: [mantissas, codes], first: first.into() }
    }

    /// Returns the table of the thresholds times 2^`more`, which must be normal numbers.
    fn times(self, more: i32) -> Table16 {
        let first = self.first + more;
        debug_assert!((1..=246).contains(&first));
        let [mantissas, mut codes] = self.rows;
        codes[8..].fill(first as u8);
        Table16::new([mantissas, codes])
    }
}
