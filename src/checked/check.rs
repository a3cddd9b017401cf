//! Checks the elements of a cast, piece by piece.

use alloc::vec::Vec;
use core::mem::MaybeUninit;

use super::bits::{clear, count_ones, either, first_one, or, without};
use super::nulling::{Cut, Nulling};
use super::parts::{Buffer, CheckCasters, Exactness, PartCheck, Piece, WIDEST, loses_parts, read, width};
use super::report::{CastReport, Marks, Stop};
use crate::cast::Caster;
use crate::error::{Error, Lossy};
use crate::formats::dtype::{DType, Kind};
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::loss::Loss;
use crate::kernels::check::{self, Bits, Codes, Exact, Fit, Found, Fused, Loops, MAX_CODES, Scan, Verdict};
use crate::kernels::limits::Limits;
use crate::kernels::memory::Destination;
use crate::kernels::scratch::Scratch;
use crate::room::vec_with_capacity;

/// How many elements are judged at a time where that takes buffers: half of [`MAX_CODES`], since complex ones have two parts. It
/// is a multiple of 8, which makes whole bytes of bitmaps and packed buffers.
const PIECE: usize = MAX_CODES / 2;
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
/// Bytes, on the wider side, that are cast and checked at a time where only a report is wanted: both sides stay in L1.
pub(super) const REPORT_TILE: usize = 16 << 10;
/// Elements of a piece whose buffers are on the stack, which may be small: for few elements, and where there is no memory.
const SMALL_PIECE: usize = 16;
/// How many buffers for codes a piece needs.
const BUFFERS: usize = 3;

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

/// Allocates memory for the results of `elements` elements, which are `bytes` bytes.
pub(super) fn memory_for(to: DType, elements: usize, bytes: usize) -> Result<Vec<u8>, Error> {
    vec_with_capacity(bytes).map_err(|_| Error::Allocation { dtype: to, elements })
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
            parts.to_home.is_none() && (self.are_few || !matches!(parts.exact, Exactness::Back))
        })?;
        self.imaginary.is_none().then_some(MAX_CODES / parts.units)
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
        let parts = self.parts.as_ref().filter(|parts| parts.units == 1 && parts.to_home.is_none())?;
        if !matches!(parts.exact, Exactness::All) {
            return None;
        }
        let (from, bits, layout) = (width(parts.home), parts.to.bits() as usize, &self.caster.route().dst);
        let is_whole = bits.is_multiple_of(8) && layout.size(8) == bits && !layout.swapped;
        let cut = Cut::new(parts);
        let narrows =
            (parts.home.is_int() || cut.is_some()) && parts.to.is_int() && is_whole && bits / 8 <= from;
        let to = narrows.then_some(bits / 8);
        let nulling = Nulling { caster: self.caster, loops, limits: parts.limits().0, from, to, cut };
        Some(nulling.pieces(chunk, dst, marks).map(|lost| (false, lost)))
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
            clear(&self.caster.route().dst, dst, lost);
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
