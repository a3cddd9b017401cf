//! Checked casts: what a cast loses, counted, refused, or marked in a bitmap.
//!
//! A piece of the source is looked at while it is in L1, before it is cast by the kernel that casts it unchecked, or
//! in one loop with that. As long as all elements fit, that is all; where some do not, their classes are found. All
//! sources are brought to the codes of a few dtypes that hold them exactly, whose order is that of the
//! values: the classes of the contract are ranges there, with limits that the reference finds.

use core::cell::OnceCell;
use core::fmt;
use core::mem::MaybeUninit;

use crate::cast::{Caster, typed};
use crate::dtype::{DType, FloatFormat, Kind};
use crate::element::Element;
use crate::error::{Error, Side};
use crate::isa::Isa;
use crate::kernels::check::{self, Codes, Fit, Found, Fused, Limits, Scan, class};
use crate::kernels::memory::{Destination, bytes_of};
use crate::kernels::scalar;
use crate::layout::{ByteOrder, Packing};
use crate::options::{CastOptions, Overflow, Policy, Rounding};
use crate::route::{Parts, Work};

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

impl Loss {
    /// The first loss among joined classes. An element has one at most, but for `NEGATIVE`.
    fn of(classes: u8) -> Option<Self> {
        const LOSSES: [(u8, Loss); 6] = [
            (class::ABOVE, Loss::Above),
            (class::BELOW, Loss::Below),
            (class::NAN, Loss::NaN),
            (class::INF, Loss::Inf),
            (class::IMAGINARY, Loss::Imaginary),
            (class::INEXACT, Loss::Inexact),
        ];
        LOSSES.into_iter().find(|(bit, _)| classes & bit != 0).map(|(_, loss)| loss)
    }
}

/// Every class but [`Loss::Inexact`].
const LOST: u8 = !class::INEXACT;

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

    /// Adds the classes of the elements from one on.
    fn add(&mut self, first: usize, classes: &[u8], joined: u8) {
        let index = |of: u8| classes.iter().position(|class| class & of != 0).map(|i| first + i);
        for (bit, count) in [
            (class::ABOVE, &mut self.above),
            (class::BELOW, &mut self.below),
            (class::NEGATIVE, &mut self.negative),
            (class::NAN, &mut self.nan),
            (class::INF, &mut self.inf),
            (class::IMAGINARY, &mut self.imaginary),
            (class::INEXACT, &mut self.inexact),
        ] {
            if joined & bit != 0 {
                // In bytes, so few that they do not overflow: 16 at a time on every machine.
                let few = |classes: &[u8]| classes.iter().map(|class| u8::from(class & bit != 0)).sum::<u8>();
                *count += classes.chunks(128).map(|classes| usize::from(few(classes))).sum::<usize>();
            }
        }
        if joined & LOST != 0 && self.first.is_none() {
            self.first = index(LOST);
        }
        if joined & class::INEXACT != 0 && self.first_inexact.is_none() {
            self.first_inexact = index(class::INEXACT);
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
        Ok(self.checked(src, dst.into(), n, Marks::default())?.0)
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
        let marks = Marks { validity, ..Marks::default() };
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
        self.checked(src, dst.into(), n, Marks { stops: LOST, ..Marks::default() }).map(drop)
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
        self.checked(src, dst.into(), n, Marks { stops: LOST | class::INEXACT, ..Marks::default() }).map(drop)
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
        let report = Check::new(self, n)?.run(src, dst, n, &mut marks)?;
        let nulls = marks.finish(&report);
        Ok((report, nulls))
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
    Ok(slices(src, dst, options, Marks::default())?.0)
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
    slices(src, dst, options, Marks { stops: LOST, ..Marks::default() }).map(drop)
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
    slices(src, dst, options, Marks { stops: LOST | class::INEXACT, ..Marks::default() }).map(drop)
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
    /// Which are there at all.
    source: Option<Validity<'a>>,
    /// Where to write which are there.
    validity: Option<&'a mut [u8]>,
    /// Lost elements become zeros.
    clears: bool,
    /// Classes that end the cast.
    stops: u8,
}

impl<'a> Marks<'a> {
    fn nulls(source: Option<Validity<'a>>, validity: &'a mut [u8]) -> Self {
        Self { source, validity: Some(validity), clears: true, stops: 0 }
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

    /// Writes the bits of `n` elements from `first` on, a multiple of 8. Without classes none is lost.
    fn write(&mut self, first: usize, n: usize, classes: Option<&[u8]>) {
        let Some(validity) = &mut self.validity else { return };
        let bytes = &mut validity[first / 8..(first + n).div_ceil(8)];
        match classes {
            None => bytes.fill(0xFF),
            Some(classes) => {
                for (byte, classes) in bytes.iter_mut().zip(classes.chunks(8)) {
                    let mut eight = [0; 8];
                    eight[..classes.len()].copy_from_slice(classes);
                    *byte = !lost_of(eight);
                }
            }
        }
        if let Some(source) = &self.source {
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte &= source.byte(first + 8 * i);
            }
        }
    }

    /// Clears the bits of no element, and counts the nulls.
    fn finish(self, report: &CastReport) -> usize {
        let n = report.elements;
        let Some(validity) = self.validity else { return 0 };
        if let (Some(last), rest @ 1..) = (validity.last_mut(), n % 8) {
            *last &= (1 << rest) - 1;
        }
        if self.source.is_none() {
            return report.lost();
        }
        let (words, rest) = validity.as_chunks();
        let ones = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones());
        n - ones.chain(rest.iter().map(|byte| byte.count_ones())).map(|ones| ones as usize).sum::<usize>()
    }
}

/// Which of eight elements are lost: a bit for each, the lowest for the first.
fn lost_of(classes: [u8; 8]) -> u8 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // No class has the top bit: what is not zero carries into it, and no further.
    let nonzero = (u64::from_le_bytes(classes) & (EACH * u64::from(LOST & 0x7F))) + EACH * 0x7F;
    // The product has the bit of byte i, which is 8 i, times 2^(56 - 7 i), in its top byte.
    ((nonzero >> 7 & EACH).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Elements whose classes are found at a time: whole bytes of every bitmap and packed buffer.
const PIECE: usize = 512;
/// Bytes on either side of a cast that are looked at and cast while they are in L1.
const CHUNK: usize = 16 << 10;
/// The same where one loop does both: more, because then L1 does not matter, and not so many that to do it again, where
/// an element does not fit, matters.
const FUSED_CHUNK: usize = 64 << 10;
/// The first: fewer, because whoever loses anything often does so soon. The next are four times as large.
const FIRST_CHUNK: usize = 4 << 10;
/// Fewer elements than pay for finding the limits: the reference looks at each.
const FEW: usize = 128;
/// Bytes of the widest codes of a piece, of both parts.
const TILE: usize = PIECE * 16;

type Tile = [MaybeUninit<u8>; TILE];

const fn tile() -> Tile {
    [MaybeUninit::uninit(); TILE]
}

/// How the elements of one cast are looked at.
struct Check<'a> {
    caster: &'a Caster,
    /// What can be lost of the parts; None if nothing.
    parts: Option<Look>,
    /// The imaginary parts are lost: what makes native codes of the real parts, or of one part.
    imaginary: Option<[Caster; 2]>,
    /// What casts and scans at once.
    fused: Option<Fused<'a>>,
}

/// How parts are looked at.
struct Look {
    /// Holds every part of the source, and has codes of 16, 32 or 64 bits.
    home: DType,
    to: DType,
    policy: Policy,
    /// Parts in an element: 2 or 1.
    units: usize,
    /// What makes codes of the home of the source; None if it has them.
    homes: Option<Caster>,
    /// What every part of the source fits in that a scan is content with; None on the reference.
    fit: Option<Fit>,
    /// Destination and options of what makes codes of the home of it; None if no part is ever inexact.
    back: Option<(DType, CastOptions)>,
    /// There are elements enough to pay for the limits.
    has_limits: bool,
    classifier: OnceCell<Classifier>,
}

/// What finds the classes of parts, made when the first part does not fit.
struct Classifier {
    limits: Option<Limits>,
    back: Option<Caster>,
}

impl<'a> Check<'a> {
    #[inline(always)] // It is large, and would be copied.
    fn new(caster: &'a Caster, n: usize) -> Result<Self, Error> {
        let (route, options) = (caster.route(), caster.options());
        let plain = CastOptions::new().isa(caster.isa()).stream_from(usize::MAX);
        let source = plain.src_order(options.src_order).src_packing(options.src_packing);
        let (from, to) = (route.from, route.to);
        let real = matches!(route.parts, Parts::Real | Parts::Either);
        let imaginary = match real {
            true => Some([Caster::new(caster.from(), from, &source)?, Caster::new(from, from, &source)?]),
            false => None,
        };
        if route.work != Work::Convert || keeps(from, to, &route.policy) {
            return Ok(Self { caster, parts: None, imaginary, fused: None });
        }
        let home = home(from);
        let units = if route.parts == Parts::Two { 2 } else { 1 };
        let is_home = home == from && !route.src.swapped && !real;
        let homes = match is_home {
            true => None,
            false => Some(Caster::new(if real { caster.from() } else { from }, home, &source)?),
        };
        let is_integer = |dtype: DType| matches!(dtype.kind(), Kind::Int(_));
        let back = if is_integer(home) && is_integer(to) {
            None
        } else {
            // Wrapping: what was rounded up to 2^63 does not come back as the largest integer.
            let options = plain.src_order(options.dst_order).src_packing(options.dst_packing);
            let to = if units == 2 { to } else { caster.to() };
            Some((to, options.float_to_int(Overflow::Wrap)))
        };
        let has_loops = caster.isa() != Isa::Scalar;
        let fit = has_loops.then(|| fit(home, to, &route.policy));
        let (has_limits, classifier) = (has_loops && n >= FEW, OnceCell::new());
        let policy = route.policy;
        let parts = Some(Look { home, to, policy, units, homes, fit, back, has_limits, classifier });
        Ok(Self { caster, parts, imaginary, fused: Fused::new(caster.isa(), caster.plan()) })
    }

    fn run(
        &self,
        src: &[u8],
        mut dst: Destination<'_, u8>,
        n: usize,
        marks: &mut Marks<'_>,
    ) -> Result<CastReport, Error> {
        let mut report = CastReport { elements: n, ..CastReport::default() };
        if self.parts.is_none() && self.imaginary.is_none() {
            self.caster.fill(src, dst, n)?;
            marks.write(0, n, None);
            return Ok(report);
        }
        let route = self.caster.route();
        // At multiples of 8 elements, which are whole bytes; no overflow: inside of a buffer.
        let [src_at, dst_at] =
            [&route.src, &route.dst].map(|layout| |n: usize| layout.byte_len(n).unwrap_or(usize::MAX));
        let widest = src_at(8).max(dst_at(8));
        let most = if self.fused.is_some() { FUSED_CHUNK } else { CHUNK };
        let mut bytes = FIRST_CHUNK;
        let mut classes = [0; 2 * PIECE];
        let mut next = 0;
        while next < n {
            let first = next;
            let end = n.min(first + (8 * bytes / widest / PIECE).max(1) * PIECE);
            (next, bytes) = (end, most.min(4 * bytes));
            let src = &src[src_at(first)..src_at(end)];
            let mut dst = dst.part(dst_at(first)..dst_at(end));
            let (found, done) = self.scan_whole(src, &mut dst);
            if self.accepts(found, src, first, &mut report, marks) {
                let rest = end - first - done;
                if rest > 0 {
                    self.caster.fill(&src[src_at(done)..], dst.part(dst_at(done)..dst.size()), rest)?;
                }
                marks.write(first, end - first, None);
                continue;
            }
            let dst = self.caster.fill(src, dst, end - first)?;
            for piece in (0..end - first).step_by(PIECE) {
                let len = PIECE.min(end - first - piece);
                let src = &src[src_at(piece)..src_at(piece + len)];
                let dst = &mut dst[dst_at(piece)..dst_at(piece + len)];
                let at = first + piece;
                let Some(joined) = self.piece(src, dst, len, at, &mut report, marks, &mut classes)? else {
                    marks.write(at, len, None);
                    continue;
                };
                let classes = &classes[..len];
                if joined & marks.stops != 0 {
                    return Err(self.lossy(src, len, at, classes, marks.stops));
                }
                report.add(at, classes, joined);
                marks.write(at, len, Some(classes));
                if marks.clears && joined & LOST != 0 {
                    self.clear(dst, classes);
                }
            }
        }
        Ok(report)
    }

    /// Is what a scan found of the codes from an element on all there is to know? Then it goes into the report.
    fn accepts(
        &self,
        found: Option<Found>,
        codes: &[u8],
        first: usize,
        report: &mut CastReport,
        marks: &Marks<'_>,
    ) -> bool {
        let Some(Found { fits: true, inexact }) = found else { return false };
        if inexact == 0 {
            return true;
        }
        let Some(parts) = self.parts.as_ref().filter(|parts| parts.units == 1) else { return false };
        if marks.stops & class::INEXACT != 0 {
            return false;
        }
        if report.first_inexact.is_none() {
            report.first_inexact = Some(first + parts.first_inexact(self.caster.isa(), codes));
        }
        report.inexact += inexact;
        true
    }

    /// Scans the source as it is, if it has codes to look at, and casts it if that is one: so many elements.
    fn scan_whole(&self, src: &[u8], dst: &mut Destination<'_, u8>) -> (Option<Found>, usize) {
        let isa = self.caster.isa();
        let Some(parts) =
            self.parts.as_ref().filter(|parts| parts.homes.is_none() && self.imaginary.is_none())
        else {
            return (None, 0);
        };
        let (Some(fused), Some(fit)) = (&self.fused, &parts.fit) else { return (parts.scan(isa, src), 0) };
        let (done, found) = fused.cast(fit, src, dst);
        let rest = &src[done * width(parts.home)..];
        if rest.is_empty() {
            return (Some(found), done);
        }
        let both = parts
            .scan(isa, rest)
            .map(|rest| Found { fits: found.fits && rest.fits, inexact: found.inexact + rest.inexact });
        (both, done)
    }

    /// Looks at `n` elements, which have been cast. None if what there is to know of them is in the report; else their
    /// classes, and all of them together.
    #[allow(clippy::too_many_arguments, reason = "it is the body of a loop")]
    fn piece(
        &self,
        src: &[u8],
        dst: &[u8],
        n: usize,
        first: usize,
        report: &mut CastReport,
        marks: &Marks<'_>,
        classes: &mut [u8; 2 * PIECE],
    ) -> Result<Option<u8>, Error> {
        let isa = self.caster.isa();
        let mut room = tile();
        let mut imaginary_room = self.imaginary.is_some().then_some([0; TILE]);
        let codes = match &self.parts {
            Some(parts) => parts.codes(src, n, &mut room)?,
            None => &[],
        };
        let imaginary = match (&self.imaginary, &mut imaginary_room) {
            (Some(casters), Some(room)) => imaginary_parts(casters, src, n, room)?,
            _ => &[],
        };
        let found = match &self.parts {
            Some(parts) => parts.scan(isa, codes),
            None => Some(Found { fits: true, inexact: 0 }),
        };
        let part = self.caster.route().from;
        let zero = Fit { scan: Scan::Floats, low: 0, limit: 0, least: 0, cut: 0, inside: 0 };
        let is_real = self.imaginary.is_none()
            || check::scan(isa, Codes { bytes: imaginary, width: width(part) }, &zero)
                .is_some_and(|found| found.fits);
        if is_real && self.accepts(found, codes, first, report, marks) {
            return Ok(None);
        }

        let mut joined = 0;
        match &self.parts {
            Some(parts) => {
                let units = &mut classes[..parts.units * n];
                joined = parts.classes(isa, codes, dst, n, units)?;
                if parts.units == 2 {
                    for i in 0..n {
                        let [re, im] = [classes[2 * i], classes[2 * i + 1]];
                        classes[i] = if re & LOST != 0 || im == 0 { re } else { im };
                    }
                    joined = classes[..n].iter().fold(0, |a, b| a | b);
                }
            }
            None => classes[..n].fill(0),
        }
        if !is_real {
            // To bool both parts count, and nothing is lost: then it is no 0 and no 1.
            let is_bool = self.caster.to() == DType::Bool;
            let class = if is_bool { class::INEXACT } else { class::IMAGINARY };
            for (element, part) in classes[..n].iter_mut().zip(imaginary.chunks_exact(width(part))) {
                if *element & LOST == 0 && read(part) << (64 - 8 * part.len() + 1) != 0 {
                    *element = class;
                }
            }
            joined = classes[..n].iter().fold(0, |a, b| a | b);
        }
        Ok(Some(joined))
    }

    /// Zeros for the elements that are lost.
    fn clear(&self, dst: &mut [u8], classes: &[u8]) {
        let layout = &self.caster.route().dst;
        let lost = classes.iter().enumerate().filter(|(_, class)| **class & LOST != 0).map(|(i, _)| i);
        match (layout.byte_len(8).unwrap_or(0), layout.packing) {
            (bytes @ 8.., _) => lost.for_each(|i| dst[i * bytes / 8..][..bytes / 8].fill(0)),
            (bits, packing) => {
                for bit in lost.flat_map(|i| i * bits..(i + 1) * bits) {
                    let in_byte = if packing == Packing::HighFirst { 7 - bit % 8 } else { bit % 8 };
                    dst[bit / 8] &= !(1 << in_byte);
                }
            }
        }
    }

    /// The first element of these classes, among `n` at an index.
    #[cold]
    fn lossy(&self, src: &[u8], n: usize, at: usize, classes: &[u8], stops: u8) -> Error {
        let (caster, options) = (self.caster, self.caster.options());
        let from = caster.from();
        let native = options.dst_packing(Packing::OnePerByte).dst_order(ByteOrder::Native);
        let i = classes.iter().position(|class| class & stops != 0).unwrap_or(0);
        let loss = Loss::of(classes.get(i).copied().unwrap_or(0)).unwrap_or(Loss::Inexact);
        let mut room = tile();
        let codes = Caster::new(from, from, &native).and_then(|caster| {
            let size = from.byte_len(n, Packing::OnePerByte).unwrap_or(0);
            let elements = caster.cast_uninit(src, &mut room[..size], n)?;
            let mut parts =
                elements[size / n * i..][..size / n].chunks(from.part().bits().div_ceil(8) as usize);
            Ok([(); 2].map(|()| parts.next().map_or(0, read)))
        });
        match codes {
            Ok(codes) => Error::Lossy(Lossy { index: at + i, loss, from, to: caster.to(), codes }),
            Err(error) => error,
        }
    }
}

impl Look {
    /// The codes of `n` elements.
    fn codes<'r>(&self, src: &'r [u8], n: usize, room: &'r mut Tile) -> Result<&'r [u8], Error> {
        match &self.homes {
            None => Ok(src),
            Some(caster) => {
                let units = self.units * n;
                Ok(caster.cast_uninit(src, &mut room[..units * width(self.home)], units)?)
            }
        }
    }

    fn scan(&self, isa: Isa, codes: &[u8]) -> Option<Found> {
        check::scan(isa, Codes { bytes: codes, width: width(self.home) }, self.fit.as_ref()?)
    }

    /// The index of the first code that a scan counts as inexact, of some where it counts one. The first ones are
    /// looked at first: where there are many, one of those is.
    fn first_inexact(&self, isa: Isa, codes: &[u8]) -> usize {
        let width = width(self.home);
        let (mut first, mut count, mut is_among) = (0, 1, false);
        while count > 0 {
            let end = codes.len().min((first + count) * width);
            let found = self.scan(isa, &codes[first * width..end]);
            if found.is_some_and(|found| found.inexact > 0) {
                (count, is_among) = (count / 2, true);
            } else {
                first += count;
                count = if is_among { count / 2 } else { 2 * count };
            }
        }
        first
    }

    fn classifier(&self) -> Result<&Classifier, Error> {
        if let Some(classifier) = self.classifier.get() {
            return Ok(classifier);
        }
        let back =
            self.back.as_ref().map(|(to, options)| Caster::new(*to, self.home, options)).transpose()?;
        let limits = self.has_limits.then(|| self.limits());
        Ok(self.classifier.get_or_init(|| Classifier { limits, back }))
    }

    /// The classes of the parts of `n` elements, and all of them together.
    fn classes(&self, isa: Isa, codes: &[u8], dst: &[u8], n: usize, classes: &mut [u8]) -> Result<u8, Error> {
        let width = width(self.home);
        let Classifier { limits, back } = self.classifier()?;
        if let Some(limits) = limits {
            let mut room = tile();
            let back: Option<&[u8]> = match back {
                Some(caster) => {
                    let units = self.units * n;
                    Some(caster.cast_uninit(dst, &mut room[..units * width], units)?)
                }
                None => None,
            };
            if let Some(joined) = check::classes(isa, Codes { bytes: codes, width }, back, limits, classes) {
                return Ok(joined);
            }
        }
        let mut joined = 0;
        for (class, code) in classes.iter_mut().zip(codes.chunks_exact(width)) {
            *class = self.class(read(code));
            joined |= *class;
        }
        Ok(joined)
    }

    /// The reference: the class of a code of the home.
    fn class(&self, code: u64) -> u8 {
        let value = scalar::decode(self.home, code);
        match scalar::loss(self.to, value, &self.policy) {
            None => 0,
            Some(Loss::Above) => class::ABOVE,
            Some(Loss::Below) if value.is_negative() && !has_sign(self.to) => class::BELOW | class::NEGATIVE,
            Some(Loss::Below) => class::BELOW,
            Some(Loss::NaN) => class::NAN,
            Some(Loss::Inf) => class::INF,
            Some(Loss::Imaginary) => class::IMAGINARY,
            Some(Loss::Inexact) => class::INEXACT,
        }
    }

    /// Where the classes begin, found by the reference.
    fn limits(&self) -> Limits {
        let bits = self.home.bits();
        let sign = 1u64 << (bits - 1);
        let (all, magnitude) = (u64::MAX >> (64 - bits), sign - 1);
        let top = magnitude as i64;
        let one = |code: u64| if self.to == DType::F8E8M0 { code } else { 0 };
        let mut limits = Limits {
            flip: 0,
            reverse: 0,
            nonzero: all,
            high: top,
            low: -1 - top,
            finite: top,
            inf: top,
            negative: -1 - top,
            inf_class: 0,
            nan_class: 0,
        };
        // A key that is in the range of every target: that of 0, or of 1.
        let inside = match self.home.kind() {
            Kind::Float(format) | Kind::Complex(format) => {
                let inf = format.max_code() + 1;
                limits.reverse = magnitude;
                limits.nonzero = magnitude;
                if self.to != DType::Bool {
                    (limits.finite, limits.inf) = (inf as i64 - 1, inf as i64);
                    (limits.inf_class, limits.nan_class) = (self.class(inf), self.class(inf + 1));
                }
                one((format.bias as u64) << format.mantissa_bits) as i64
            }
            Kind::Int(format) if format.signed => one(1) as i64,
            _ => {
                limits.flip = sign;
                -1 - top + one(1) as i64
            }
        };
        if self.to != DType::Bool {
            let class = |key: i64| self.class(limits.code(key) & all);
            let ends = |end: i64, out: u8| last(inside, end, |key| class(key) & out == 0);
            (limits.high, limits.low) =
                (ends(limits.finite, class::ABOVE), ends(-1 - limits.finite, class::BELOW));
            if !has_sign(self.to) {
                // −0 comes right before 0.
                limits.negative = limits.key_of_zero(top);
            }
        }
        limits
    }
}

impl Limits {
    /// The code of a key; its upper bits do not matter.
    fn code(&self, key: i64) -> u64 {
        let reversed = if key < 0 { self.reverse } else { 0 };
        key as u64 ^ reversed ^ self.flip
    }

    /// The key above that of every negative value.
    fn key_of_zero(&self, top: i64) -> i64 {
        match (self.reverse, self.flip) {
            (0, 0) => 0,
            (0, _) => -1 - top,
            _ => -1,
        }
    }
}

/// What a scan compares codes of `home` with: a part of the range of `to`, in which it is right about what is exact.
/// In closed form, because small casts have no time to look for the [`Limits`].
fn fit(home: DType, to: DType, policy: &Policy) -> Fit {
    let Some(format) = home.float_format() else { return fit_of_integers(home, to) };
    let power = |exponent: i32| ((exponent + format.bias) as u64) << format.mantissa_bits;
    let fit = Fit { scan: Scan::Floats, low: 1, limit: power(0), least: 0, cut: 0, inside: 0 };
    // The largest value that is in the range, and its negative too, whatever else is rounded to that.
    let largest = |to: FloatFormat| match home {
        DType::F64 => to.max().to_bits(),
        _ if to.max() > f32::MAX.into() => format.max_code(),
        _ => u64::from((to.max() as f32).to_bits()),
    };
    match to.kind() {
        // 0 and 1 alone.
        Kind::Bool => Fit { scan: Scan::Positive, least: power(0) - 1, ..fit },
        Kind::Int(to) => {
            // Below 2^digits, by a step, a half and a step, or one.
            let (digits, mantissa) = (to.bits - u32::from(to.signed), 1 << format.mantissa_bits);
            let below = match policy.rounding {
                Rounding::TowardZero | Rounding::Down => 1,
                Rounding::NearestEven | Rounding::NearestAway => (mantissa >> digits.min(63)) + 1,
                Rounding::Up => ((2 * mantissa) >> digits.min(63)).max(1),
            };
            // The range reaches as far down as up, or further; or no negative is in it.
            let scan = if to.signed { Scan::Whole } else { Scan::Natural };
            Fit { scan, limit: power(digits as i32) - below, ..fit }
        }
        // From the smallest normal value of the home on, powers of two have no mantissa.
        Kind::Float(to) if !to.has_sign => Fit {
            scan: Scan::Positive,
            low: 0,
            limit: largest(to),
            least: power(to.min_exponent().max(format.min_exponent())),
            cut: (1 << format.mantissa_bits) - 1,
            inside: power(0),
        },
        Kind::Float(to) | Kind::Complex(to) => {
            // Below, the steps of the target grow; unless those of the home do as well.
            let grows = to.min_exponent() > format.min_exponent();
            let least = if grows { power(to.min_exponent()) - 1 } else { 0 };
            let cut = format.mantissa_bits.saturating_sub(to.mantissa_bits);
            Fit { limit: largest(to), least, cut: (1 << cut) - 1, ..fit }
        }
    }
}

/// The same of integers: a range of as many values as a power of two, in which all are exact.
fn fit_of_integers(home: DType, to: DType) -> Fit {
    let (bits, signed) = (home.bits(), has_sign(home));
    let most = (1i128 << (bits - u32::from(signed))) - 1;
    // The largest value, up to where all are exact, and the smallest.
    let (exact, low, high) = match to.kind() {
        Kind::Bool => (1, 0, 1),
        Kind::Int(to) => (64, to.min(), to.max()),
        Kind::Float(to) | Kind::Complex(to) => {
            // Rounded toward zero, and what is too large for that is larger than all integers.
            let high = to.max() as i128;
            (to.mantissa_bits + 1, if to.has_sign { -high } else { 0 }, high)
        }
    };
    // The largest 2^k that all values from 0 up to one below it fit in.
    let reach = 1i128 << exact.min((high.min(most) + 1).ilog2());
    let (low, count) = match to {
        // No 0.
        DType::F8E8M0 => (1, 1),
        _ if signed && low <= -reach => (-reach, 2 * reach),
        _ => (0, reach),
    };
    let all = u64::MAX >> (64 - bits);
    let limit = all & !((count - 1) as u64);
    Fit { scan: Scan::Integers, low: low as u64, limit, least: 0, cut: 0, inside: 0 }
}

/// The last key from `inside` to `end` that is good. From there on none is.
fn last(inside: i64, end: i64, is_good: impl Fn(i64) -> bool) -> i64 {
    if is_good(end) {
        return end;
    }
    let (mut good, mut bad) = (i128::from(inside), i128::from(end));
    while good.abs_diff(bad) > 1 {
        let middle = (good + bad) / 2;
        // Exact: between two i64.
        *(if is_good(middle as i64) { &mut good } else { &mut bad }) = middle;
    }
    good as i64
}

/// The native codes of the imaginary parts of `n` elements.
fn imaginary_parts<'r>(
    [reals, single]: &[Caster; 2],
    src: &[u8],
    n: usize,
    room: &'r mut [u8; TILE],
) -> Result<&'r [u8], Error> {
    let width = width(single.from());
    let room = &mut room[..n * width];
    let (most, last) = room.split_at_mut((n - 1) * width);
    // From the first imaginary part on, they are where real parts are; but of the last element.
    reals.cast(&src[width..src.len() - width], most, n - 1)?;
    single.cast(&src[src.len() - width..], last, 1)?;
    Ok(room)
}

/// A native code of so many bytes.
fn read(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// Bytes of a code of 8 bits or more.
fn width(dtype: DType) -> usize {
    dtype.bits() as usize / 8
}

/// A dtype with codes of 16, 32 or 64 bits that holds every element of another one, which is no complex one.
fn home(dtype: DType) -> DType {
    match dtype.kind() {
        Kind::Bool => DType::U16,
        Kind::Int(format) if format.bits <= 8 && format.signed => DType::I16,
        Kind::Int(format) if format.bits <= 8 => DType::U16,
        Kind::Int(_) => dtype,
        Kind::Float(format) if format.bits() == 64 => dtype,
        Kind::Float(_) | Kind::Complex(_) => DType::F32,
    }
}

fn has_sign(dtype: DType) -> bool {
    match dtype.kind() {
        Kind::Bool => true,
        Kind::Int(format) => format.signed,
        Kind::Float(format) | Kind::Complex(format) => format.has_sign,
    }
}

/// Does no part lose anything under these options? Options can lose only what is Inf.
fn keeps(from: DType, to: DType, policy: &Policy) -> bool {
    let keeps_inf = from.float_format().is_none_or(|format| {
        !format.has_inf || scalar::loss(to, scalar::decode(from, format.max_code() + 1), policy).is_none()
    });
    from.is_lossless_to(to) && keeps_inf
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_elements_have_a_bit_each() {
        let classes = [
            class::ABOVE,
            0,
            class::INEXACT,
            class::BELOW | class::NEGATIVE,
            class::IMAGINARY,
            0,
            0,
            class::INF,
        ];
        assert_eq!(lost_of(classes), 0b1001_1001);
        assert_eq!((lost_of([class::INEXACT; 8]), lost_of([class::NAN; 8])), (0, 0xFF));
    }

    /// What a scan is content with is in the range that the reference finds, in every mode; and to integers, by the
    /// default mode, it is all of what is in the range both ways.
    #[test]
    fn what_fits_is_in_the_range() {
        let homes =
            [DType::U16, DType::I16, DType::U32, DType::I32, DType::U64, DType::I64, DType::F32, DType::F64];
        for (home, to) in homes.into_iter().flat_map(|home| DType::ALL.map(|to| (home, to))) {
            for rounding in Rounding::ALL {
                let options = CastOptions::new().rounding(rounding).int_rounding(rounding);
                let route = crate::route::route(home, to, &options);
                if route.work != Work::Convert || keeps(home, route.to, &route.policy) {
                    continue;
                }
                let caster = Caster::new(home, to, &options).unwrap();
                let check = Check::new(&caster, 0).unwrap();
                let look = check.parts.unwrap();
                let (fit, what) = (fit(home, look.to, &look.policy), format!("{home} -> {to}, {rounding:?}"));
                let sign = 1u64 << (home.bits() - 1);
                let lost = |code: u64| look.class(code) & LOST != 0;
                match fit.scan {
                    Scan::Integers => {
                        let all = u64::MAX >> (64 - home.bits());
                        let most = (all & !fit.limit) + 1;
                        for code in [0, most / 2, most - 1].map(|k| fit.low.wrapping_add(k) & all) {
                            assert_eq!(look.class(code) & !class::NEGATIVE, 0, "{what}: {code:#x}");
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
