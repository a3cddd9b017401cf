//! Makes lost elements null.

use super::bits::clear;
use super::parts::{PartCheck, Piece};
use super::report::Marks;
use crate::cast::Caster;
use crate::error::Error;
use crate::formats::dtype::{DType, Kind};
use crate::formats::options::Rounding;
use crate::kernels::check::{Codes, Exact, Kept, Loops, MAX_CODES, Verdict};
use crate::kernels::limits::Limits;
use crate::kernels::memory::Destination;
use crate::kernels::sizes::KERNEL_BLOCK;

/// Makes lost elements null, piece by piece, where losses are so frequent that scanning first does not pay.
pub(super) struct Nulling<'a> {
    pub(super) caster: &'a Caster,
    pub(super) loops: Loops,
    pub(super) limits: Limits,
    /// Bytes of a code of the source.
    pub(super) from: usize,
    /// Bytes of an element of the target, if one loop casts and judges. Where both are integers and the target is no wider,
    /// elements that are not lost just lose their upper bytes.
    pub(super) to: Option<usize>,
    /// How one loop casts and judges from float64 to integers that an int64 holds.
    pub(super) cut: Option<Cut>,
}

/// How float64 is judged by the int64 that it is truncated to.
pub(super) struct Cut {
    limits: Limits,
    /// A code that is kept although its int64 is out of the limits: -2^63 for int64, whose result is also that of overflow. Else 0.
    spared: u64,
}

impl Cut {
    #[inline(never)] // To save code size.
    pub(super) fn new(parts: &PartCheck<'_>) -> Option<Self> {
        let Kind::Int(format) = parts.to.kind() else { return None };
        let is_cut = parts.home == DType::F64 && parts.policy.rounding == Rounding::TowardZero;
        let (bits, all) = (format.bits(), Limits::new(DType::I64));
        let (low, high, spared) = match (bits, format.is_signed()) {
            // What int64 does not hold becomes the minimum, too.
            (64, true) => (i64::MIN + 1, i64::MAX, (i64::MIN as f64).to_bits()),
            (64, false) => return None,
            (_, true) => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits), 0),
            (_, false) => (0, (1 << bits) - 1, 0),
        };
        is_cut.then_some(Self { limits: Limits { low, high, ..all }, spared })
    }
}

impl Nulling<'_> {
    /// Makes lost elements null. Returns how many elements are lost.
    pub(super) fn pieces(
        &self,
        chunk: Piece<'_>,
        mut dst: Destination<'_, u8>,
        marks: &mut Marks<'_>,
    ) -> Result<usize, Error> {
        let route = self.caster.route();
        let [src_at, dst_at] = [&route.src, &route.dst].map(|layout| |n| layout.size(n));
        let (mut at, mut lost) = (0, 0);
        while at < chunk.n {
            let left = MAX_CODES.min(chunk.n - at);
            // The loop that casts and judges takes whole blocks only.
            let n = if self.to.is_some() && left > KERNEL_BLOCK { left - left % KERNEL_BLOCK } else { left };
            let src = &chunk.src[src_at(at)..src_at(at + n)];
            let piece = Piece { src, first: chunk.first + at, n, ..chunk };
            lost += self.piece(piece, dst.part(dst_at(at)..dst_at(at + n)), marks)?;
            at += n;
        }
        Ok(lost)
    }

    #[inline(never)] // To save code size.
    fn piece(
        &self,
        Piece { src, first, n, is_cast, .. }: Piece<'_>,
        mut dst: Destination<'_, u8>,
        marks: &mut Marks<'_>,
    ) -> Result<usize, Error> {
        let (mut verdict, codes) = (Verdict::default(), Codes { bytes: src, width: self.from });
        let is_done = self.to.is_some_and(|width| {
            let (limits, cut) = match &self.cut {
                None => (&self.limits, None),
                Some(Cut { limits, spared }) => (limits, Some(*spared)),
            };
            self.loops.keep(codes, limits, &mut verdict, Kept { dst: dst.reborrow(), width, cut })
        });
        if !is_done {
            // Judged before the cast, which then reads from L1.
            self.loops.judge(codes, Exact::All, &self.limits, &mut verdict);
            let dst = if is_cast {
                #[allow(unsafe_code, reason = "what the kernels have initialised")]
                // SAFETY: all of it was cast, and so is initialised.
                unsafe {
                    dst.assume_init()
                }
            } else {
                self.caster.at(first).fill(src, dst, n)?
            };
            if verdict.losses > 0 {
                clear(&self.caster.route().dst, dst, &verdict.lost);
            }
        }
        marks.write(first, n, Some(&verdict.lost));
        Ok(verdict.losses)
    }
}
