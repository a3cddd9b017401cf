//! Checks the elements of a cast, piece by piece.

use alloc::vec::Vec;
use core::cell::OnceCell;
use core::mem::MaybeUninit;

use super::bits::{count_ones, each_some, either, first_one, ones, or, without};
use super::range::{self, compares_signed, home, keeps};
use super::report::{CastReport, Marks, Stop};
use crate::cast::Caster;
use crate::error::{Error, Lossy};
use crate::formats::dtype::{DType, Kind};
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::loss::Loss;
use crate::formats::options::{CastOptions, Overflow, Policy, Rounding};
use crate::formats::route::{Parts, Route, Work};
use crate::kernels::check::{self, Bits, Codes, Exact, Fit, Found, Fused, Kept, Loops, MOST, Scan, Verdict};
use crate::kernels::limits::Limits;
use crate::kernels::memory::Destination;
use crate::kernels::once::Once;
use crate::kernels::scalar;
use crate::kernels::scratch::Scratch;
use crate::kernels::sizes::KERNEL_BLOCK;
use crate::room::vec_with_capacity;

/// How many elements are judged at a time: half of [`MOST`], since complex ones have two parts. It is a multiple of 8, which makes
/// whole bytes of bitmaps and packed buffers.
const PIECE: usize = MOST / 2;
/// Bytes of a chunk on the larger side: it stays in L1 while it is scanned and cast.
const CHUNK: usize = 16 << 10;
/// As [`CHUNK`], where one loop does both. L1 does not matter then, but not too much should have to be done again if an element
/// does not fit.
const FUSED_CHUNK: usize = 64 << 10;
/// Bytes of the first chunk, which is small because losses often show up early. Each next chunk is four times as large.
const FIRST_CHUNK: usize = 4 << 10;
/// For fewer elements than this, finding the limits does not pay: the reference checks each element. If it finds losses, the
/// limits are found and kept for the next time.
const FEW: usize = 128;
/// As [`FEW`], where the limits are known and no buffers are needed.
const FEWEST: usize = 4;
/// Bytes, on the side where elements are wider, of what is looked at together where nobody wants the results: both sides stay in L1.
pub(super) const BOX: usize = 16 << 10;
/// Elements of a piece whose buffers are on the stack, which may be small: for few elements, and where there is no memory.
const SMALL_PIECE: usize = 16;
/// Bytes of both parts of the widest element.
const WIDEST: usize = 16;
/// How many buffers for codes a piece needs.
const BUFFERS: usize = 3;

/// A buffer for the codes of a piece.
type Buffer = [MaybeUninit<u8>];

/// The buffers of a piece.
#[derive(Default)]
struct Buffers<'r> {
    codes: &'r mut Buffer,
    imaginary: &'r mut Buffer,
    /// For elements that were cast back, and for temporary results.
    back: &'r mut Buffer,
}

impl<'r> Buffers<'r> {
    fn new(room: &'r mut Buffer) -> Self {
        let (codes, rest) = room.split_at_mut(room.len() / BUFFERS);
        let (imaginary, back) = rest.split_at_mut(codes.len());
        Self { codes, imaginary, back }
    }
}

/// How the elements of one cast are checked.
pub(super) struct Check<'a> {
    caster: &'a Caster,
    /// How parts are checked. None if they cannot lose anything.
    parts: Option<PartCheck<'a>>,
    /// If imaginary parts are lost, the casters to native codes: that of all real parts, and that of a single part.
    imaginary: Option<&'a [Caster; 2]>,
    casters: &'a CheckCasters,
    /// The loop that casts and scans at once, if there is one.
    fused: Option<Fused<'a>>,
    /// The loops that scan and judge. None for the reference.
    loops: Option<Loops>,
    /// Whether there are fewer than [`FEWEST`] elements, or fewer than [`FEW`] and the limits are not known.
    are_few: bool,
}

/// How parts are checked.
struct PartCheck<'a> {
    caster: &'a Caster,
    /// A dtype that holds every part of the source exactly, with codes of 16, 32 or 64 bits.
    home: DType,
    to: DType,
    policy: &'a Policy,
    /// Parts of an element: 2 or 1.
    units: usize,
    /// The caster from the source to codes of `home`. None if they are the same.
    homes: Option<&'a Caster>,
    /// What a scan of codes of `home` compares with.
    fit: Fit,
    /// What a scan of the source as it is compares with, and the bytes of its codes, if it can be scanned.
    plain: Option<(Fit, usize)>,
    counts_inexact: bool,
    exact: Exactness,
    casters: &'a CheckCasters,
    /// The limits, and whether Inf and NaN are lost. They are kept with the plan, because finding them takes longer than casting hundreds of
    /// elements.
    limits: &'static Once<(Limits, [bool; 2])>,
}

/// `n` elements from `first` on, which are being checked.
#[derive(Clone, Copy)]
struct Piece<'a> {
    src: &'a [u8],
    /// Codes of `home`, and those of the imaginary parts, if these are lost.
    codes: &'a [u8],
    imaginary: &'a [u8],
    first: usize,
    n: usize,
    /// Whether they have been cast already, apart from what is to be done about losses.
    is_cast: bool,
}

/// The casters that a check may need. They are made on demand and in place, because they are large; the first two are made
/// before the check.
#[derive(Default)]
pub(super) struct CheckCasters {
    homes: OnceCell<Caster>,
    imaginary: OnceCell<[Caster; 2]>,
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
enum Exactness {
    /// All are exact, or it does not matter.
    All,
    /// Parts that are integers are exact.
    Whole,
    /// Parts that are the same after they were cast back are exact.
    Back,
}

impl CheckCasters {
    /// Makes the casters to native codes, if the cast needs them.
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
            made(&self.homes, || Caster::new(if real { caster.from() } else { from }, home, &source))?;
        }
        Ok(())
    }
}

/// Allocates memory for the results of `elements` elements, which are `bytes` bytes.
pub(super) fn memory_for(to: DType, elements: usize, bytes: usize) -> Result<Vec<u8>, Error> {
    vec_with_capacity(bytes).map_err(|_| Error::Allocation { dtype: to, elements })
}

/// Whether the imaginary part of a complex source is lost.
fn is_of_real_parts(route: &Route) -> bool {
    matches!(route.parts, Parts::Real | Parts::Either)
}

/// Whether a part can lose anything.
fn loses_parts(route: &Route) -> bool {
    route.work == Work::Convert && !keeps(route.from, route.to, &route.policy)
}

impl<'a> Check<'a> {
    /// Decides how to check. `casters` must have been filled for the caster. (It returns no `Result`, because moving one that
    /// large takes noticeable time.)
    pub(super) fn new(caster: &'a Caster, n: usize, counts_inexact: bool, casters: &'a CheckCasters) -> Self {
        let route = caster.route();
        let loses = loses_parts(route);
        // Where exactness is told by casting back, which needs buffers, [`FEW`] applies all the same.
        let knows = caster.plan().plan.limits.get().is_some() && (!counts_inexact || route.to.is_int());
        Self {
            caster,
            parts: loses.then(|| PartCheck::new(caster, counts_inexact, casters)),
            imaginary: casters.imaginary.get(),
            casters,
            fused: if loses { check::fused(caster.plan(), counts_inexact) } else { None },
            // The loops know nothing of stochastic rounding.
            loops: Loops::of(caster.present()).filter(|_| !route.is_stochastic),
            are_few: n < if knows { FEWEST } else { FEW },
        }
    }

    /// Whether nothing can be lost.
    pub(super) fn finds_nothing(&self) -> bool {
        self.parts.is_none() && self.imaginary.is_none()
    }

    /// Casts `n` elements and checks them. Returns the report, of which only what was asked for is right, and how many elements
    /// are lost. If nobody wants the results, what a scan accepts is not cast.
    pub(super) fn run(
        &self,
        src: &[u8],
        mut dst: Destination<'_, u8>,
        n: usize,
        marks: &mut Marks<'_>,
    ) -> Result<(CastReport, usize), Error> {
        let mut report = CastReport { elements: n, ..CastReport::default() };
        if self.finds_nothing() {
            self.caster.fill(src, dst, n)?;
            marks.write(0, n, None);
            return Ok((report, 0));
        }
        let route = self.caster.route();
        // Sizes of multiples of 8 elements, which are whole bytes.
        let [src_at, dst_at] = [&route.src, &route.dst].map(|layout| |n| layout.size(n));
        let widest = src_at(8).max(dst_at(8));
        let mut bytes = FIRST_CHUNK;
        let (mut next, mut lost) = (0, 0);
        let mut scratch = None;
        // Where one element does not fit, others are likely nearby, and scanning does not pay. The next `unscanned` chunks are
        // then judged without a scan, more of them after each chunk that was scanned in vain.
        let (mut unscanned, mut vain) = (0, 0u32);
        while next < n {
            let first = next;
            let end = n.min(first + (8 * bytes / widest / PIECE).max(1) * PIECE);
            // If elements do not fit, a large chunk would be scanned in vain.
            let most = if self.fused.is_some() && vain == 0 { FUSED_CHUNK } else { CHUNK };
            (next, bytes) = (end, most.min(4 * bytes));
            let src = &src[src_at(first)..src_at(end)];
            let mut chunk = Piece { src, codes: src, imaginary: &[], first, n: end - first, is_cast: false };
            let mut dst = dst.part(dst_at(first)..dst_at(end));
            let scans = unscanned == 0;
            let mut scans_pieces = scans;
            if scans {
                let (found, done) = self.scan_plain(src, &mut dst, marks.drops_results);
                let accepts = self.accepts(found, marks);
                if let Some(Found { inexact, .. }) = found.filter(|_| accepts && marks.drops_results)
                    && (inexact == 0 || marks.knows_inexact || report.first_inexact.is_some())
                {
                    report.inexact += inexact;
                    vain = 0;
                    continue;
                }
                // If lost integers become zeros, the loop that casts and scans has already written all others.
                chunk.is_cast = done > 0 && marks.clears && matches!(route.to.kind(), Kind::Int(_));
                if accepts || chunk.is_cast {
                    let rest = dst_at(done)..dst.size();
                    if !rest.is_empty() {
                        self.caster.fill(&src[src_at(done)..], dst.part(rest), chunk.n - done)?;
                    }
                }
                if accepts {
                    #[allow(unsafe_code, reason = "what the kernels have initialised")]
                    // SAFETY: all of it is initialised: the first elements by the fused loop, the others by the caster.
                    let dst = unsafe { dst.assume_init() };
                    self.report_inexact(found, chunk, dst, &mut report)?;
                    marks.write(first, chunk.n, None);
                    vain = 0;
                    continue;
                }
                // If the chunk is a single piece, it has just been scanned in vain.
                scans_pieces = found.is_none() || chunk.n > self.piece_without_room().unwrap_or(PIECE);
            }
            let (all_fit, more) = self.pieces(chunk, dst, scans_pieces, &mut report, marks, &mut scratch)?;
            lost += more;
            if !scans {
                unscanned -= 1;
            } else if all_fit {
                vain = 0;
            } else {
                vain = (vain + 1).min(4);
                unscanned = 1 << vain;
            }
        }
        Ok((report, lost))
    }

    /// Casts and checks `n` elements, which begin at number `first` of those that the check is of, and returns their report.
    pub(super) fn part(
        &self,
        src: &[u8],
        dst: Destination<'_, u8>,
        n: usize,
        first: usize,
        marks: &mut Marks<'_>,
    ) -> Result<CastReport, Error> {
        let found = if self.caster.route().is_stochastic {
            let caster = self.caster.at(first);
            Check::new(&caster, n, marks.counts_inexact(), self.casters).run(src, dst, n, marks)
        } else {
            self.run(src, dst, n, marks)
        };
        Ok(found?.0)
    }

    /// Casts elements and checks them, piece by piece. Returns whether scans were enough, and how many elements are lost.
    fn pieces(
        &self,
        chunk: Piece<'_>,
        mut dst: Destination<'_, u8>,
        scans: bool,
        report: &mut CastReport,
        marks: &mut Marks<'_>,
        scratch: &mut Option<Scratch>,
    ) -> Result<(bool, usize), Error> {
        if !scans && let Some(nulled) = self.nulled(chunk, dst.reborrow(), marks) {
            return nulled;
        }
        if let Some(parts) = &self.parts
            && matches!(parts.exact, Exactness::Back)
            && !self.are_few
        {
            // Made here, before deeper calls, because making its table takes much stack.
            parts.back()?;
        }
        if let Some(most) = self.piece_without_room() {
            return self.pieces_in(chunk, dst, scans, report, marks, most, &mut Buffers::default());
        }
        if chunk.n > SMALL_PIECE && scratch.is_none() {
            *scratch = Scratch::new(BUFFERS * WIDEST * PIECE);
        }
        match scratch {
            Some(scratch) => {
                let mut buffers = Buffers::new(scratch.bytes());
                self.pieces_in(chunk, dst, scans, report, marks, PIECE, &mut buffers)
            }
            None => self.small_pieces(chunk, dst, scans, report, marks),
        }
    }

    /// Returns how many elements can be judged at a time without buffers, if the source has the codes that are judged and
    /// nothing is cast back. (Allocating buffers takes as long as casting hundreds of elements.)
    fn piece_without_room(&self) -> Option<usize> {
        let parts = self.parts.as_ref().filter(|parts| {
            parts.homes.is_none() && (self.are_few || !matches!(parts.exact, Exactness::Back))
        })?;
        self.imaginary.is_none().then_some(MOST / parts.units)
    }

    /// As [`Self::pieces_in`], but with buffers on the stack.
    #[inline(never)]
    fn small_pieces(
        &self,
        chunk: Piece<'_>,
        dst: Destination<'_, u8>,
        scans: bool,
        report: &mut CastReport,
        marks: &mut Marks<'_>,
    ) -> Result<(bool, usize), Error> {
        let mut room = [MaybeUninit::uninit(); BUFFERS * WIDEST * SMALL_PIECE];
        self.pieces_in(chunk, dst, scans, report, marks, SMALL_PIECE, &mut Buffers::new(&mut room))
    }

    /// As [`Self::pieces`], but with the caller's buffers, and at most `most` elements at a time.
    #[allow(clippy::too_many_arguments, reason = "what is looked at, where it goes, and room")]
    #[inline(never)] // To save stack.
    fn pieces_in(
        &self,
        chunk: Piece<'_>,
        mut dst: Destination<'_, u8>,
        scans: bool,
        report: &mut CastReport,
        marks: &mut Marks<'_>,
        most: usize,
        buffers: &mut Buffers<'_>,
    ) -> Result<(bool, usize), Error> {
        let route = self.caster.route();
        let [src_at, dst_at] = [&route.src, &route.dst].map(|layout| |n| layout.size(n));
        let (mut all_fit, mut lost) = (true, 0);
        for at in (0..chunk.n).step_by(most) {
            let n = most.min(chunk.n - at);
            let src = &chunk.src[src_at(at)..src_at(at + n)];
            let first = chunk.first + at;
            let dst = dst.part(dst_at(at)..dst_at(at + n));
            let dst = if chunk.is_cast {
                #[allow(unsafe_code, reason = "what the kernels have initialised")]
                // SAFETY: all of it was cast, and so is initialised.
                unsafe {
                    dst.assume_init()
                }
            } else {
                self.caster.at(first).fill(src, dst, n)?
            };
            let piece = Piece { src, codes: &[], imaginary: &[], first, n, is_cast: true };
            let (fit, more) = match self.imaginary {
                None => self.piece(piece, dst, scans, report, marks, [buffers.codes, buffers.back])?,
                Some(casters) => {
                    let imaginary = imaginary_parts(casters, src, n, buffers.imaginary)?;
                    let piece = Piece { imaginary, ..piece };
                    self.piece(piece, dst, scans, report, marks, [buffers.codes, buffers.back])?
                }
            };
            all_fit &= fit;
            lost += more;
        }
        Ok((all_fit, lost))
    }

    /// Makes lost elements null, if nothing else is asked for and the codes of the source can be judged as they are. Else returns None.
    #[inline(never)] // To save stack.
    fn nulled(
        &self,
        chunk: Piece<'_>,
        dst: Destination<'_, u8>,
        marks: &mut Marks<'_>,
    ) -> Option<Result<(bool, usize), Error>> {
        let loops = self.loops.filter(|_| marks.clears && !self.are_few && self.imaginary.is_none())?;
        let parts = self.parts.as_ref().filter(|parts| parts.units == 1 && parts.homes.is_none())?;
        if !matches!(parts.exact, Exactness::All) {
            return None;
        }
        let (from, bits, layout) = (width(parts.home), parts.to.bits() as usize, &self.caster.route().dst);
        let is_whole = bits.is_multiple_of(8) && layout.size(8) == bits && !layout.swapped;
        let cut = Cut::new(parts);
        let narrows =
            (parts.home.is_int() || cut.is_some()) && parts.to.is_int() && is_whole && bits / 8 <= from;
        let to = narrows.then_some(bits / 8);
        let nulling = Nulling { check: self, loops, limits: parts.limits().0, from, to, cut };
        Some(nulling.pieces(chunk, dst, marks))
    }

    /// Whether what a scan found is all that has to be known, except which inexact element is the first.
    fn accepts(&self, found: Option<Found>, marks: &Marks<'_>) -> bool {
        let is_one = self.parts.as_ref().is_none_or(|parts| parts.units == 1);
        found.is_some_and(|Found { fits, inexact }| {
            fits && (inexact == 0 || is_one && marks.stops != Some(Stop::Inexact))
        })
    }

    /// Adds inexact elements that a scan has counted to the report, and looks for the first one. The elements must have been cast.
    #[inline(never)] // To save stack.
    fn report_inexact(
        &self,
        found: Option<Found>,
        Piece { codes, first, n, .. }: Piece<'_>,
        dst: &[u8],
        report: &mut CastReport,
    ) -> Result<(), Error> {
        let (Some(Found { inexact: inexact @ 1.., .. }), Some(parts)) = (found, &self.parts) else {
            return Ok(());
        };
        report.inexact += inexact;
        let Some(loops) = self.loops.filter(|_| report.first_inexact.is_none()) else { return Ok(()) };
        let (all, layout) = (Limits::new(parts.home), &self.caster.route().dst);
        // One is enough, and usually found soon.
        let mut back = [MaybeUninit::uninit(); WIDEST * SMALL_PIECE];
        for at in (0..n).step_by(SMALL_PIECE) {
            let (len, width) = (SMALL_PIECE.min(n - at), width(parts.home));
            let [begin, end] = [at, at + len].map(|n| layout.size(n));
            let codes = &codes[at * width..(at + len) * width];
            let mut verdict = Verdict::default();
            parts.judge(loops, codes, &dst[begin..end], len, &all, &mut verdict, &mut back)?;
            report.first_inexact = first_one(&verdict.inexact).map(|i| first + at + i);
            if report.first_inexact.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Scans the source as it is, if that can be done. If there is a loop that casts and scans, and results are wanted, it also
    /// casts. Returns what was found, and how many elements were cast.
    fn scan_plain(
        &self,
        src: &[u8],
        dst: &mut Destination<'_, u8>,
        drops_results: bool,
    ) -> (Option<Found>, usize) {
        let (Some(loops), Some(parts)) = (self.loops, &self.parts) else { return (None, 0) };
        let Some((fit, width)) = parts.plain.filter(|_| self.imaginary.is_none()) else { return (None, 0) };
        let (mut done, mut found) = (0, Found { fits: true, inexact: 0 });
        if let Some(fused) = self.fused.as_ref().filter(|_| !drops_results) {
            (done, found) = fused.cast(&fit, src, dst);
        }
        let codes = Codes { bytes: &src[done * width..], width };
        if found.fits && !codes.bytes.is_empty() {
            let rest = loops.scan(codes, &fit, parts.counts_inexact);
            found = Found { fits: rest.fits, inexact: found.inexact + rest.inexact };
        }
        (Some(found), done)
    }

    /// Checks elements that have been cast, and marks them. Returns whether a scan was enough, and how many of them are lost.
    /// It fills in the codes of the piece.
    #[inline(never)] // To save stack: where all elements fit, nothing here is needed.
    fn piece(
        &self,
        piece: Piece<'_>,
        dst: &mut [u8],
        scans: bool,
        report: &mut CastReport,
        marks: &mut Marks<'_>,
        [codes, back]: [&mut Buffer; 2],
    ) -> Result<(bool, usize), Error> {
        let codes = match &self.parts {
            Some(parts) => parts.codes(piece.src, piece.n, codes)?,
            None => &[],
        };
        let piece = Piece { codes, ..piece };
        let Piece { first, n, .. } = piece;
        if scans {
            let found = self.scan(piece);
            if self.accepts(found, marks) {
                self.report_inexact(found, piece, dst, report)?;
                marks.write(first, n, None);
                return Ok((true, 0));
            }
        }
        let mut verdict = Verdict::default();
        match self.loops.filter(|_| !self.are_few) {
            Some(loops) => self.judge(loops, piece, dst, report, marks, &mut verdict, back)?,
            None => self.judge_few(piece, report, &mut verdict),
        }
        let Verdict { lost, inexact, losses, inexacts } = &verdict;
        let stops = match marks.stops {
            None => None,
            Some(Stop::Lost) => Some(*lost),
            Some(Stop::Inexact) => Some(or(lost, inexact)),
        };
        if let Some(i) = stops.and_then(|stops| first_one(&marks.there(first, stops))) {
            return Err(self.lossy(piece, i));
        }
        if marks.counts {
            report.inexact += inexacts;
            report.first = report.first.or_else(|| Some(first + first_one(lost)?));
            report.first_inexact = report.first_inexact.or_else(|| Some(first + first_one(inexact)?));
        }
        marks.write(first, n, Some(lost));
        if marks.clears && *losses > 0 {
            self.clear(dst, lost);
        }
        Ok((false, *losses))
    }

    /// Scans a piece. Returns None if elements may not fit.
    fn scan(&self, Piece { codes, imaginary, .. }: Piece<'_>) -> Option<Found> {
        let loops = self.loops?;
        if self.imaginary.is_some() {
            let zero = Fit { scan: Scan::Floats, low: 0, limit: 0, least: 0, cut: 0, inside: 0 };
            let codes = Codes { bytes: imaginary, width: width(self.caster.route().from) };
            loops.scan(codes, &zero, false).fits.then_some(())?;
        }
        match &self.parts {
            Some(parts) => Some(parts.scan(loops, codes)),
            None => Some(Found { fits: true, inexact: 0 }),
        }
    }

    /// Judges a piece: finds which elements are lost or inexact, and counts those of each class in the report.
    #[allow(clippy::too_many_arguments, reason = "what is found, where it goes, and room")]
    fn judge(
        &self,
        loops: Loops,
        Piece { codes, imaginary, n, .. }: Piece<'_>,
        dst: &[u8],
        report: &mut CastReport,
        marks: &Marks<'_>,
        verdict: &mut Verdict,
        back: &mut Buffer,
    ) -> Result<(), Error> {
        if let Some(parts) = &self.parts {
            parts.judge(loops, codes, dst, n, &parts.limits().0, verdict, back)?;
            if marks.counts && verdict.losses > 0 {
                parts.count(loops, codes, verdict, report);
            }
            if parts.units == 2 {
                either_part(verdict);
            }
        }
        if self.imaginary.is_some() {
            self.judge_imaginary(loops, imaginary, report, verdict, back);
        }
        Ok(())
    }

    /// Adds elements whose imaginary part is lost to a verdict.
    #[inline(never)] // To save stack.
    fn judge_imaginary(
        &self,
        loops: Loops,
        imaginary: &[u8],
        report: &mut CastReport,
        verdict: &mut Verdict,
        back: &mut Buffer,
    ) {
        let more = without(&nonzero(loops, self.caster.route().from, imaginary, back), &verdict.lost);
        // To bool both parts count, and nothing is lost: elements other than 0 and 1 are inexact.
        *verdict = if self.caster.to() == DType::Bool {
            Verdict::new(verdict.lost, or(&verdict.inexact, &more))
        } else {
            report.imaginary += count_ones(&more);
            Verdict::new(or(&verdict.lost, &more), without(&verdict.inexact, &more))
        };
    }

    /// As [`Self::judge`], but by the reference.
    fn judge_few(&self, piece: Piece<'_>, report: &mut CastReport, verdict: &mut Verdict) {
        for i in 0..piece.n {
            let bit = 1 << (i % 64);
            match self.loss(piece, i) {
                None => {}
                Some((Loss::Inexact, _)) => {
                    verdict.inexact[i / 64] |= bit;
                    verdict.inexacts += 1;
                }
                Some((loss, is_negative)) => {
                    report.add(loss, is_negative);
                    verdict.lost[i / 64] |= bit;
                    verdict.losses += 1;
                }
            }
        }
        if let Some(parts) = self.parts.as_ref().filter(|_| verdict.losses > 0 && self.loops.is_some()) {
            parts.limits();
        }
    }

    /// Returns what is lost of an element by the reference, and whether the element is negative where the target has no sign.
    fn loss(&self, Piece { codes, imaginary, first, n, .. }: Piece<'_>, i: usize) -> Option<(Loss, bool)> {
        let word = self.caster.plan().stochastic().map(|words| words.word((first + i) as u64));
        let loss = self.parts.as_ref().and_then(|parts| {
            let width = width(parts.home);
            let codes = codes[parts.units * width * i..].chunks_exact(width);
            let mut part = codes.map(|code| parts.loss(read(code), word));
            let first = part.next().flatten();
            match first {
                Some((loss, _)) if loss != Loss::Inexact => first,
                _ if parts.units == 2 => part.next().flatten().or(first),
                _ => first,
            }
        });
        let width = imaginary.len() / n;
        let is_zero = |part: &[u8]| read(part) << (64 - 8 * width + 1) == 0;
        match loss {
            None | Some((Loss::Inexact, _)) if width > 0 && !is_zero(&imaginary[i * width..][..width]) => {
                let is_bool = self.caster.to() == DType::Bool;
                Some((if is_bool { Loss::Inexact } else { Loss::Imaginary }, false))
            }
            _ => loss,
        }
    }

    /// Writes zeros for lost elements.
    fn clear(&self, dst: &mut [u8], lost: &Bits) {
        let layout = &self.caster.route().dst;
        match (layout.size(8), layout.packing) {
            (8 | 16 | 32 | 64 | 128, _) => {
                let size = layout.size(8) / 8;
                each_some(&lost[..(dst.len() / size).div_ceil(64)], &mut |some| {
                    // By width, so that the compiler knows the size of a store.
                    match size {
                        1 => clear_each::<1>(dst, some),
                        2 => clear_each::<2>(dst, some),
                        4 => clear_each::<4>(dst, some),
                        8 => clear_each::<8>(dst, some),
                        _ => clear_each::<16>(dst, some),
                    }
                });
            }
            (bits, packing) => {
                for bit in ones(lost).flat_map(|i| i * bits..(i + 1) * bits) {
                    let in_byte = if packing == Packing::HighFirst { 7 - bit % 8 } else { bit % 8 };
                    dst[bit / 8] &= !(1 << in_byte);
                }
            }
        }
    }

    /// Returns the error of the element `i` of a piece.
    #[cold]
    fn lossy(&self, piece: Piece<'_>, i: usize) -> Error {
        let (caster, options) = (self.caster, self.caster.options());
        let from = caster.from();
        let native = options.dst_packing(Packing::OnePerByte).dst_order(ByteOrder::Native);
        let loss = self.loss(piece, i).map_or(Loss::Inexact, |(loss, _)| loss);
        // Eight elements, which are whole bytes in every packing.
        let (at, mut room) = (i / 8 * 8, [MaybeUninit::uninit(); 8 * WIDEST]);
        let n = 8.min(piece.n - at);
        let [begin, end] = [at, at + n].map(|n| caster.route().src.size(n));
        let codes = Caster::new(from, from, &native).and_then(|caster| {
            let size = from.byte_len(n, Packing::OnePerByte).unwrap_or(0);
            let elements = caster.cast_uninit(&piece.src[begin..end], &mut room[..size], n)?;
            let width = from.part().bits().div_ceil(8) as usize;
            let mut parts = elements[size / n * (i - at)..][..size / n].chunks(width);
            Ok([(); 2].map(|()| parts.next().map_or(0, read)))
        });
        match codes {
            Ok(codes) => Error::Lossy(Lossy { index: piece.first + i, loss, from, to: caster.to(), codes }),
            Err(error) => error,
        }
    }
}

impl<'a> PartCheck<'a> {
    fn new(caster: &'a Caster, counts_inexact: bool, casters: &'a CheckCasters) -> Self {
        let route = caster.route();
        let (from, to, policy) = (route.from, route.to, &route.policy);
        let (home, homes) = (home(from), casters.homes.get());
        let fit = range::fit(home, to, policy);
        Self {
            caster,
            home,
            to,
            policy,
            units: if route.parts == Parts::Two { 2 } else { 1 },
            homes,
            fit,
            plain: match from.kind() {
                Kind::Int(format) if format.bits == 8 => Some((range::fit(from, to, policy), 1)),
                _ if homes.is_none() => Some((fit, width(home))),
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
    fn codes<'r>(&self, src: &'r [u8], n: usize, room: &'r mut Buffer) -> Result<&'r [u8], Error> {
        match self.homes {
            None => Ok(src),
            Some(caster) => {
                let units = self.units * n;
                Ok(caster.cast_uninit(src, &mut room[..units * width(self.home)], units)?)
            }
        }
    }

    fn scan(&self, loops: Loops, codes: &[u8]) -> Found {
        loops.scan(Codes { bytes: codes, width: width(self.home) }, &self.fit, self.counts_inexact)
    }

    /// Returns the caster back to `home`.
    fn back(&self) -> Result<&Caster, Error> {
        made(&self.casters.back, || {
            let (options, caster) = (self.caster.options(), self.caster);
            let to = if self.units == 2 { self.to } else { caster.to() };
            let options = native(caster).src_order(options.dst_order).src_packing(options.dst_packing);
            // Wrapping, so that what was rounded up to 2^63 does not come back as the largest integer.
            Caster::new(to, self.home, &options.float_to_int(Overflow::Wrap))
        })
    }

    /// Judges the parts of `n` elements.
    #[allow(clippy::too_many_arguments, reason = "as above")]
    fn judge(
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
    fn count(&self, loops: Loops, codes: &[u8], verdict: &Verdict, report: &mut CastReport) {
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

    fn loss(&self, code: u64, word: Option<u32>) -> Option<(Loss, bool)> {
        loss(self.home, self.to, self.policy, code, word)
    }

    #[inline(never)]
    fn limits(&self) -> (Limits, [bool; 2]) {
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

/// Makes lost elements null, piece by piece, where scanning would be in vain.
struct Nulling<'a> {
    check: &'a Check<'a>,
    loops: Loops,
    limits: Limits,
    /// Bytes of a code of the source.
    from: usize,
    /// Bytes of an element of the target, if one loop casts and judges. Where both are integers and the target is no wider,
    /// elements that are not lost just lose their upper bytes.
    to: Option<usize>,
    /// How one loop casts and judges from float64 to integers that an int64 holds.
    cut: Option<Cut>,
}

/// How float64 is judged by the int64 that it is truncated to.
struct Cut {
    limits: Limits,
    /// A code that is not lost, whatever that int64 says.
    spared: u64,
}

impl Cut {
    fn new(parts: &PartCheck<'_>) -> Option<Self> {
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
    /// Makes lost elements null. Returns false, as scans were not enough, and how many elements are lost.
    fn pieces(
        &self,
        chunk: Piece<'_>,
        mut dst: Destination<'_, u8>,
        marks: &mut Marks<'_>,
    ) -> Result<(bool, usize), Error> {
        let route = self.check.caster.route();
        let [src_at, dst_at] = [&route.src, &route.dst].map(|layout| |n| layout.size(n));
        let (mut at, mut lost) = (0, 0);
        while at < chunk.n {
            let left = MOST.min(chunk.n - at);
            // The loop that casts and judges takes whole blocks only.
            let n = if self.to.is_some() && left > KERNEL_BLOCK { left - left % KERNEL_BLOCK } else { left };
            let src = &chunk.src[src_at(at)..src_at(at + n)];
            let piece = Piece { src, first: chunk.first + at, n, ..chunk };
            lost += self.piece(piece, dst.part(dst_at(at)..dst_at(at + n)), marks)?;
            at += n;
        }
        Ok((false, lost))
    }

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
                self.check.caster.at(first).fill(src, dst, n)?
            };
            if verdict.losses > 0 {
                self.check.clear(dst, &verdict.lost);
            }
        }
        marks.write(first, n, Some(&verdict.lost));
        Ok(verdict.losses)
    }
}

/// Writes zeros for some elements of `SIZE` bytes.
fn clear_each<const SIZE: usize>(dst: &mut [u8], some: &[u16]) {
    let (elements, _) = dst.as_chunks_mut::<SIZE>();
    some.iter().for_each(|&i| elements[usize::from(i)] = [0; SIZE]);
}

/// Returns the options of casts to native codes and back.
fn native(caster: &Caster) -> CastOptions {
    CastOptions::new().isa(caster.isa()).stream_from(usize::MAX)
}

/// Turns bits of parts into bits of elements, which have two parts each.
#[inline(never)] // To save stack.
fn either_part(verdict: &mut Verdict) {
    let (lost, inexact) = (either(&verdict.lost), either(&verdict.inexact));
    *verdict = Verdict::new(lost, without(&inexact, &lost));
}

/// Returns the native codes of the imaginary parts of `n` elements, in `room`.
fn imaginary_parts<'r>(
    [reals, single]: &[Caster; 2],
    src: &[u8],
    n: usize,
    room: &'r mut Buffer,
) -> Result<&'r [u8], Error> {
    let width = width(single.from());
    let room = zeros(&mut room[..n * width]);
    let (most, last) = room.split_at_mut((n - 1) * width);
    // From the first imaginary part on, imaginary parts lie as real parts do, except that of the last element.
    reals.cast(&src[width..src.len() - width], most, n - 1)?;
    single.cast(&src[src.len() - width..], last, 1)?;
    Ok(room)
}

/// Returns which codes of a float are not zeros. `room` has space for as many codes.
fn nonzero(loops: Loops, dtype: DType, codes: &[u8], room: &mut Buffer) -> Bits {
    // By comparing with zeros, as if those had come back.
    let (zeros, mut verdict) = (zeros(&mut room[..codes.len()]), Verdict::default());
    loops.judge(
        Codes { bytes: codes, width: width(dtype) },
        Exact::Back(zeros),
        &Limits::new(dtype),
        &mut verdict,
    );
    verdict.inexact
}

/// Fills a buffer with zeros.
fn zeros(room: &mut Buffer) -> &mut [u8] {
    room.fill(MaybeUninit::new(0));
    #[allow(unsafe_code, reason = "what was filled is initialised")]
    // SAFETY: all of it has just been filled.
    unsafe {
        room.assume_init_mut()
    }
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
fn width(dtype: DType) -> usize {
    dtype.bits() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

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
