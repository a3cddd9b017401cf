//! Checked casts: what a cast loses, counted, refused, or marked in a bitmap.
//!
//! A piece of the source is scanned while it is in L1, before it is cast by the kernel that casts it unchecked, or in one
//! loop with that. As long as all elements fit, that is all; where some do not, it is found which, and how many of each
//! class. All sources are brought to the codes of a few dtypes that hold them exactly, whose order is that of the
//! values: the classes of the contract are ranges there, with limits that the reference finds.

mod bits;
mod look;
mod range;

use core::fmt;
use core::mem::MaybeUninit;

use self::look::{Check, Rooms};
use crate::cast::{Caster, typed};
use crate::dtype::{DType, Kind};
use crate::element::Element;
use crate::error::{Error, Side};
use crate::kernels::check::Bits;
use crate::kernels::memory::{Destination, bytes_of};
use crate::kernels::scalar;
use crate::options::{CastOptions, Policy};

/// What a cast loses of an element, by the definitions of the contract.
///
/// ```
/// use lanecast::{CastOptions, Error, Loss, try_cast_slice};
/// let loss = |x: f64| match try_cast_slice(&[x], &mut [0u8]) {
///     Err(Error::Lossy(lossy)) => Some(lossy.loss),
///     _ => None,
/// };
/// assert_eq!(loss(255.9), None); // rounded, which a cast to an integer is meant to do
/// assert_eq!(loss(256.0), Some(Loss::Above));
/// assert_eq!(loss(-1.0), Some(Loss::Below));
/// assert_eq!(loss(f64::NAN), Some(Loss::NaN));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Loss {
    /// Rounded, it is larger than the largest value of the target.
    Above,
    /// Rounded, it is smaller than the smallest value of the target.
    Below,
    /// A NaN, which the target does not have.
    NaN,
    /// ±Inf, which the target does not have, or which the options do not let it become.
    Inf,
    /// An imaginary part that is not zero, which the target does not have.
    Imaginary,
    /// It is in the range of the target, and rounded.
    Inexact,
}

/// The element for which a checked cast was refused.
///
/// ```
/// use lanecast::{DType, Error, Loss, try_cast_slice};
/// let Err(Error::Lossy(lossy)) = try_cast_slice(&[1i64, -2], &mut [0u8; 2]) else { unreachable!() };
/// assert_eq!((lossy.index, lossy.loss), (1, Loss::Below));
/// assert_eq!((lossy.from, lossy.to), (DType::I64, DType::U8));
/// assert_eq!(lossy.value(), Some(-2i64));
/// assert_eq!(lossy.to_string(), "element 1, -2, is below what uint8 holds");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Lossy {
    /// Its index.
    pub index: usize,
    /// What it would have lost.
    pub loss: Loss,
    /// Its dtype.
    pub from: DType,
    /// The dtype it did not fit in.
    pub to: DType,
    codes: [u64; 2],
}

impl Lossy {
    /// The element itself; None if `S` is not the element type of [`from`](Self::from).
    ///
    /// ```
    /// use lanecast::{Error, try_cast_slice};
    /// let Err(Error::Lossy(lossy)) = try_cast_slice(&[300u16], &mut [0i8]) else { unreachable!() };
    /// assert_eq!(lossy.value::<u16>(), Some(300));
    /// assert_eq!(lossy.value::<i32>(), None);
    /// ```
    pub fn value<S: Element>(&self) -> Option<S> {
        (S::DTYPE == self.from).then(|| S::from_codes(self.codes))
    }
}

impl fmt::Display for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, loss, from, to, codes } = *self;
        write!(f, "element {index}, ")?;
        match from.kind() {
            Kind::Bool => write!(f, "{}", codes[0] != 0)?,
            Kind::Int(format) if format.signed => {
                let unused = 64 - format.bits;
                write!(f, "{}", (codes[0] << unused) as i64 >> unused)?;
            }
            Kind::Int(_) => write!(f, "{}", codes[0])?,
            Kind::Float(_) => write_float(f, from, codes[0], false)?,
            Kind::Complex(_) => {
                write_float(f, from.part(), codes[0], false)?;
                write_float(f, from.part(), codes[1], true)?;
                f.write_str("i")?;
            }
        }
        match loss {
            Loss::Above => write!(f, ", is above what {to} holds"),
            Loss::Below => write!(f, ", is below what {to} holds"),
            Loss::NaN | Loss::Inf => write!(f, ", has no value in {to}"),
            Loss::Imaginary => write!(f, ", has an imaginary part, which {to} has not"),
            Loss::Inexact => write!(f, ", is not exact in {to}"),
        }
    }
}

/// Writes a float in the precision of its dtype, or that of f32 if it has less.
fn write_float(f: &mut fmt::Formatter<'_>, dtype: DType, code: u64, signed: bool) -> fmt::Result {
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let code = scalar::encode(wide, scalar::decode(dtype, code), &Policy::DEFAULT);
    match (wide, signed) {
        (DType::F64, false) => write!(f, "{:?}", f64::from_bits(code)),
        (DType::F64, true) => write!(f, "{:+?}", f64::from_bits(code)),
        (_, false) => write!(f, "{:?}", f32::from_bits(code as u32)),
        (_, true) => write!(f, "{:+?}", f32::from_bits(code as u32)),
    }
}

/// What a cast lost: how many elements of each class, and which was the first.
///
/// An element is in one class at most; only `negative` counts some of `below` again. The default is that of no
/// elements.
///
/// ```
/// use lanecast::{CastOptions, cast_slice_checked};
/// let mut out = [0u8; 6];
/// let report = cast_slice_checked(&[1.0f32, 1.5, 300.0, -7.0, f32::NAN, -0.0], &mut out, &CastOptions::new())?;
/// assert_eq!(out, [1, 1, 255, 0, 0, 0]); // as an unchecked cast
/// assert_eq!((report.elements, report.above, report.below, report.negative), (6, 1, 1, 1));
/// assert_eq!((report.nan, report.inf, report.imaginary, report.inexact), (1, 0, 0, 1));
/// assert_eq!((report.first, report.first_inexact), (Some(2), Some(1)));
/// # Ok::<(), lanecast::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct CastReport {
    /// Elements that were looked at.
    pub elements: usize,
    /// [`Loss::Above`].
    pub above: usize,
    /// [`Loss::Below`].
    pub below: usize,
    /// Those of `below` that are negative, where the target has no sign.
    pub negative: usize,
    /// [`Loss::NaN`].
    pub nan: usize,
    /// [`Loss::Inf`].
    pub inf: usize,
    /// [`Loss::Imaginary`].
    pub imaginary: usize,
    /// [`Loss::Inexact`].
    pub inexact: usize,
    /// The index of the first element of any class but `inexact`.
    pub first: Option<usize>,
    /// The index of the first element that is inexact.
    pub first_inexact: Option<usize>,
}

impl CastReport {
    /// Elements that are lost: of every class but `inexact`.
    ///
    /// ```
    /// use lanecast::{CastOptions, cast_slice_checked};
    /// let report = cast_slice_checked(&[-1i32, 256, 7], &mut [0u8; 3], &CastOptions::new())?;
    /// assert_eq!(report.lost(), 2);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn lost(&self) -> usize {
        self.above + self.below + self.nan + self.inf + self.imaginary
    }

    /// Has every element kept its value?
    ///
    /// ```
    /// use lanecast::{CastOptions, cast_slice_checked};
    /// let options = CastOptions::new();
    /// assert!(cast_slice_checked(&[0.5f64, -0.0], &mut [0f32; 2], &options)?.is_exact());
    /// assert!(!cast_slice_checked(&[0.1f64, -0.0], &mut [0f32; 2], &options)?.is_exact());
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    pub const fn is_exact(&self) -> bool {
        self.lost() == 0 && self.inexact == 0
    }

    /// Counts an element of a class, but for what is inexact.
    fn add(&mut self, loss: Loss, is_negative: bool) {
        match loss {
            Loss::Above => self.above += 1,
            Loss::Below => {
                self.below += 1;
                self.negative += usize::from(is_negative);
            }
            Loss::NaN => self.nan += 1,
            Loss::Inf => self.inf += 1,
            Loss::Imaginary => self.imaginary += 1,
            Loss::Inexact => {}
        }
    }
}

/// Which elements of a source are there: a bitmap, the first element in the lowest bit of the first byte, as Arrow
/// has it. An element whose bit is 0 is null.
///
/// ```
/// use lanecast::{CastOptions, Validity, cast_slice_validity};
/// let mut out = [0i8; 3];
/// let mut valid = [0u8; 1];
/// // The bits of the three elements begin at the second one.
/// let source = Validity::new(&[0b1010]).from_bit(1);
/// let nulls = cast_slice_validity(&[7i32, 8, 900], Some(source), &mut out, &mut valid, &CastOptions::new())?;
/// assert_eq!((out[0], valid, nulls), (7, [0b001], 2));
/// # Ok::<(), lanecast::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Validity<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Validity<'a> {
    /// A bitmap whose first bit is that of the first element. It may have more bits than there are elements.
    ///
    /// ```
    /// let all_of_eight = lanecast::Validity::new(&[0xFF]);
    /// ```
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// The same bitmap, where the first element has another bit.
    ///
    /// ```
    /// let last_of_eight = lanecast::Validity::new(&[0xFF]).from_bit(7);
    /// ```
    pub const fn from_bit(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// Eight bits from that of an element on; 0 where there are none.
    fn byte(&self, element: usize) -> u8 {
        let bit = self.offset + element;
        let byte = |i: usize| u16::from(self.bytes.get(i).copied().unwrap_or(0));
        ((byte(bit / 8) | byte(bit / 8 + 1) << 8) >> (bit % 8)) as u8
    }
}

impl Caster {
    /// Casts `n` elements as [`cast`](Self::cast) does, and says what that lost.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I16, DType::I8, &CastOptions::new())?;
    /// let src: Vec<u8> = [100i16, 200, -200].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let mut dst = [0u8; 3];
    /// let report = caster.cast_checked(&src, &mut dst, 3)?;
    /// assert_eq!(dst, [100, 200, 56]);
    /// assert_eq!((report.above, report.below, report.first), (1, 1, Some(1)));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size of `n` elements. Nothing was written.
    pub fn cast_checked(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<CastReport, Error> {
        Ok(self.checked(src, dst.into(), n, Marks::REPORT)?.0)
    }

    /// The same, to memory that need not be initialised, and on request with a bitmap: 0 for the elements that
    /// are lost, 1 for the others. It has ⌈n / 8⌉ bytes, the first element in the lowest bit of the first one.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I8, DType::U8, &CastOptions::new())?;
    /// let (mut memory, mut bits) = ([MaybeUninit::uninit(); 3], [0u8; 1]);
    /// let (out, report) = caster.cast_checked_uninit(&[1, 0xFF, 3], &mut memory, 3, Some(&mut bits))?;
    /// assert_eq!((out, bits, report.negative), (&mut [1, 0xFF, 3][..], [0b101], 1));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size of `n` elements. Nothing was written.
    pub fn cast_checked_uninit<'a>(
        &self,
        src: &[u8],
        dst: &'a mut [MaybeUninit<u8>],
        n: usize,
        validity: Option<&mut [u8]>,
    ) -> Result<(&'a mut [u8], CastReport), Error> {
        let mut dst = Destination::from(dst);
        let whole = 0..dst.len();
        let marks = Marks { validity, ..Marks::REPORT };
        let (report, _) = self.checked(src, dst.part(whole), n, marks)?;
        #[allow(unsafe_code, reason = "what the kernels have initialised is handed back")]
        // SAFETY: `checked` has initialised every byte when it is no error.
        let bytes = unsafe { dst.assume_init() };
        Ok((bytes, report))
    }

    /// Casts `n` elements, unless that loses one: rounding is no loss here. What is in the destination after an
    /// [`Error::Lossy`] is not said.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::F64, DType::F32, &CastOptions::new())?;
    /// let src: Vec<u8> = [0.1, 1e39].iter().flat_map(|x: &f64| x.to_ne_bytes()).collect();
    /// let mut dst = [0u8; 8];
    /// caster.try_cast(&src[..8], &mut dst[..4], 1)?;
    /// let error = caster.try_cast(&src, &mut dst, 2).unwrap_err();
    /// assert_eq!(error.to_string(), "element 1, 1e39, is above what float32 holds");
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first element that is lost. Or a buffer does not have the size of `n` elements: then nothing was
    /// written.
    pub fn try_cast(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<(), Error> {
        self.checked(src, dst.into(), n, Marks { stops: Some(Stop::Lost), ..Marks::default() }).map(drop)
    }

    /// Casts `n` elements, unless that changes the value of one: NumPy's `casting="same_value"`. A NaN stays one,
    /// and −0 equals 0. What is in the destination after an [`Error::Lossy`] is not said.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::F64, DType::F32, &CastOptions::new())?;
    /// let src: Vec<u8> = [0.5, 0.1].iter().flat_map(|x: &f64| x.to_ne_bytes()).collect();
    /// let mut dst = [0u8; 8];
    /// let error = caster.same_value(&src, &mut dst, 2).unwrap_err();
    /// assert_eq!(error.to_string(), "element 1, 0.1, is not exact in float32");
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first element that changes. Or a buffer does not have the size of `n` elements: then nothing was
    /// written.
    pub fn same_value(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<(), Error> {
        self.checked(src, dst.into(), n, Marks { stops: Some(Stop::Inexact), ..Marks::default() }).map(drop)
    }

    /// Casts `n` elements, and makes those null that are lost: all their bits are 0, and so is the bit in
    /// `dst_validity`, which has ⌈n / 8⌉ bytes, the first element in the lowest bit of the first one. What is null
    /// in the source stays null. Says how many are null.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType, Validity};
    /// let caster = Caster::new(DType::I8, DType::U8, &CastOptions::new())?;
    /// let (mut dst, mut valid) = ([0xA5u8; 4], [0xA5u8; 1]);
    /// let nulls = caster.cast_validity(&[1, 0xFF, 3, 4], None, &mut dst, &mut valid, 4)?;
    /// assert_eq!((dst, valid, nulls), ([1, 0, 3, 4], [0b1101], 1));
    /// let null = Validity::new(&[0b0111]);
    /// let nulls = caster.cast_validity(&[1, 0xFF, 3, 4], Some(null), &mut dst, &mut valid, 4)?;
    /// assert_eq!((valid, nulls), ([0b0101], 2));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer or a bitmap does not have the size of `n` elements. Nothing was written.
    pub fn cast_validity(
        &self,
        src: &[u8],
        src_validity: Option<Validity<'_>>,
        dst: &mut [u8],
        dst_validity: &mut [u8],
        n: usize,
    ) -> Result<usize, Error> {
        Ok(self.checked(src, dst.into(), n, Marks::nulls(src_validity, dst_validity))?.1)
    }

    /// Casts, looks, and marks. The report, and how many elements are null.
    fn checked(
        &self,
        src: &[u8],
        dst: Destination<'_, u8>,
        n: usize,
        mut marks: Marks<'_>,
    ) -> Result<(CastReport, usize), Error> {
        self.check(src.len(), dst.size(), n)?;
        marks.check(n)?;
        let rooms = Rooms::default();
        let check = Check::new(self, n, marks.counts_inexact(), &rooms)?;
        let (report, lost) = check.run(src, dst, n, &mut marks)?;
        Ok((report, marks.finish(n, lost)))
    }
}

/// Casts a slice into another as [`cast_slice_with`](crate::cast_slice_with) does, and says what that lost.
///
/// ```
/// use lanecast::{CastOptions, cast_slice_checked, f16};
/// let mut out = [f16::ZERO; 3];
/// let report = cast_slice_checked(&[1.0f32, 0.1, 1e6], &mut out, &CastOptions::new())?;
/// assert_eq!((report.above, report.inexact, report.first), (1, 1, Some(2)));
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// The lengths differ, or the instruction set that the options or `LANECAST_ISA` name is not available. Nothing
/// was written.
pub fn cast_slice_checked<S: Element, D: Element>(
    src: &[S],
    dst: &mut [D],
    options: &CastOptions,
) -> Result<CastReport, Error> {
    Ok(slices(src, dst, options, Marks::REPORT)?.0)
}

/// Casts a slice into another with the default options, unless that loses an element: see [`Caster::try_cast`].
///
/// ```
/// use lanecast::try_cast_slice;
/// let mut out = [0i32; 2];
/// try_cast_slice(&[1.5f64, -3e9], &mut out).expect_err("the second is below -2^31");
/// try_cast_slice(&[1.5f64, -2e9], &mut out)?;
/// assert_eq!(out, [1, -2_000_000_000]);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// The first element that is lost; else as [`cast_slice_checked`].
pub fn try_cast_slice<S: Element, D: Element>(src: &[S], dst: &mut [D]) -> Result<(), Error> {
    try_cast_slice_with(src, dst, &CastOptions::new())
}

/// Casts a slice into another, unless that loses an element: see [`Caster::try_cast`].
///
/// ```
/// use lanecast::{CastOptions, Rounding, try_cast_slice_with};
/// let up = CastOptions::new().int_rounding(Rounding::Up);
/// let error = try_cast_slice_with(&[255.5f32], &mut [0u8], &up).unwrap_err();
/// assert_eq!(error.to_string(), "element 0, 255.5, is above what uint8 holds");
/// ```
///
/// # Errors
///
/// The first element that is lost; else as [`cast_slice_checked`].
pub fn try_cast_slice_with<S: Element, D: Element>(
    src: &[S],
    dst: &mut [D],
    options: &CastOptions,
) -> Result<(), Error> {
    slices(src, dst, options, Marks { stops: Some(Stop::Lost), ..Marks::default() }).map(drop)
}

/// Casts a slice into another, unless that changes a value: see [`Caster::same_value`].
///
/// ```
/// use lanecast::{CastOptions, same_value_slice};
/// let mut out = [0i8; 3];
/// same_value_slice(&[1.0f32, -128.0, 0.0], &mut out, &CastOptions::new())?;
/// assert_eq!(out, [1, -128, 0]);
/// let error = same_value_slice(&[1.0f32, 0.5, 0.0], &mut out, &CastOptions::new()).unwrap_err();
/// assert_eq!(error.to_string(), "element 1, 0.5, is not exact in int8");
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// The first element that changes; else as [`cast_slice_checked`].
pub fn same_value_slice<S: Element, D: Element>(
    src: &[S],
    dst: &mut [D],
    options: &CastOptions,
) -> Result<(), Error> {
    slices(src, dst, options, Marks { stops: Some(Stop::Inexact), ..Marks::default() }).map(drop)
}

/// Casts a slice into another, and makes those elements null that are lost: see [`Caster::cast_validity`].
///
/// ```
/// use lanecast::{CastOptions, cast_slice_validity};
/// let (mut out, mut valid) = ([0u8; 3], [0u8; 1]);
/// let nulls = cast_slice_validity(&[1.0f64, f64::NAN, 300.0], None, &mut out, &mut valid, &CastOptions::new())?;
/// assert_eq!((out, valid, nulls), ([1, 0, 0], [0b001], 2));
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// A bitmap does not have the size of the elements; else as [`cast_slice_checked`].
pub fn cast_slice_validity<S: Element, D: Element>(
    src: &[S],
    src_validity: Option<Validity<'_>>,
    dst: &mut [D],
    dst_validity: &mut [u8],
    options: &CastOptions,
) -> Result<usize, Error> {
    Ok(slices(src, dst, options, Marks::nulls(src_validity, dst_validity))?.1)
}

fn slices<S: Element, D: Element>(
    src: &[S],
    dst: &mut [D],
    options: &CastOptions,
    marks: Marks<'_>,
) -> Result<(CastReport, usize), Error> {
    if src.len() != dst.len() {
        return Err(Error::LengthMismatch { source: src.len(), destination: dst.len() });
    }
    let (caster, n) = (typed::<S, D>(options)?, src.len());
    #[allow(unsafe_code, reason = "the checks work on bytes")]
    // SAFETY: `checked` writes what the caster of `D` writes, and zeros, which are elements of every type.
    let dst = unsafe { Destination::from(dst).into_bytes() };
    caster.checked(bytes_of(src), dst, n, marks)
}

/// What to do about elements that are lost.
#[derive(Default)]
struct Marks<'a> {
    /// They are counted by class.
    counts: bool,
    /// Which are there at all.
    source: Option<Validity<'a>>,
    /// Where to write which are there.
    validity: Option<&'a mut [u8]>,
    /// Lost elements become zeros.
    clears: bool,
    /// What ends the cast.
    stops: Option<Stop>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Lost,
    /// That too.
    Inexact,
}

impl<'a> Marks<'a> {
    const REPORT: Self = Self { counts: true, source: None, validity: None, clears: false, stops: None };

    fn nulls(source: Option<Validity<'a>>, validity: &'a mut [u8]) -> Self {
        Self { source, validity: Some(validity), clears: true, ..Self::default() }
    }

    /// Does it matter what is inexact?
    fn counts_inexact(&self) -> bool {
        self.counts || self.stops == Some(Stop::Inexact)
    }

    /// Have the bitmaps the size of `n` elements?
    fn check(&self, n: usize) -> Result<(), Error> {
        if let Some(source) = &self.source {
            let bits = n.checked_add(source.offset);
            let needed = bits.map_or(usize::MAX, |bits| bits.div_ceil(8));
            let given = source.bytes.len();
            if given < needed {
                return Err(Error::BitmapSize { side: Side::Source, elements: n, needed, given });
            }
        }
        match &self.validity {
            Some(bits) if bits.len() != n.div_ceil(8) => {
                let (needed, given) = (n.div_ceil(8), bits.len());
                Err(Error::BitmapSize { side: Side::Destination, elements: n, needed, given })
            }
            _ => Ok(()),
        }
    }

    /// Writes the bits of `n` elements from `first` on, a multiple of 8.
    fn write(&mut self, first: usize, n: usize, lost: Option<&Bits>) {
        let Some(validity) = &mut self.validity else { return };
        let bytes = &mut validity[first / 8..(first + n).div_ceil(8)];
        match lost {
            None => bytes.fill(0xFF),
            Some(lost) => {
                let (words, rest) = bytes.as_chunks_mut();
                let mut lost = lost.iter().map(|word| (!word).to_le_bytes());
                words.iter_mut().zip(&mut lost).for_each(|(word, valid)| *word = valid);
                rest.iter_mut().zip(lost.next().unwrap_or_default()).for_each(|(byte, valid)| *byte = valid);
            }
        }
        if let Some(source) = &self.source {
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte &= source.byte(first + 8 * i);
            }
        }
    }

    /// Clears the bits of no element, and counts the nulls among `n`, of which so many are lost.
    fn finish(self, n: usize, lost: usize) -> usize {
        let Some(validity) = self.validity else { return 0 };
        if let (Some(last), rest @ 1..) = (validity.last_mut(), n % 8) {
            *last &= (1 << rest) - 1;
        }
        if self.source.is_none() {
            return lost;
        }
        let (words, rest) = validity.as_chunks();
        let ones = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones());
        n - ones.chain(rest.iter().map(|byte| byte.count_ones())).map(|ones| ones as usize).sum::<usize>()
    }
}
