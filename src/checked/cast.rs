//! The checked casts of bytes and of slices.

use core::mem::MaybeUninit;

use super::check::{Check, REPORT_TILE, memory_for};
use super::parts::CheckCasters;
use super::report::{CastReport, Marks, Stop, Validity};
use crate::cast::{Caster, check_size, typed};
use crate::error::{Error, Side};
use crate::formats::element::Element;
use crate::formats::options::CastOptions;
use crate::kernels::memory::{Destination, bytes_of};

impl Caster {
    /// Casts `n` elements as [`cast`](Self::cast) does, and reports what that lost.
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
    /// A buffer does not have the size of `n` elements, and nothing was written; or there is no memory for the check, and the
    /// contents of the destination are unspecified.
    pub fn cast_checked(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<CastReport, Error> {
        Ok(self.checked(src, dst.into(), n, Marks::REPORT)?.1)
    }

    /// As [`Caster::cast_checked`], but to memory that need not be initialised, and on request with a bitmap.
    ///
    /// A bit is 0 if the element is lost, else 1. There are ⌈n / 8⌉ bytes, with the first element in the lowest bit of the first one.
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
    /// As [`Caster::cast_checked`]; or the bitmap does not have its size, and nothing was written.
    pub fn cast_checked_uninit<'a>(
        &self,
        src: &[u8],
        dst: &'a mut [MaybeUninit<u8>],
        n: usize,
        validity: Option<&mut [u8]>,
    ) -> Result<(&'a mut [u8], CastReport), Error> {
        let marks = Marks { validity, ..Marks::REPORT };
        let (bytes, report, _) = self.checked(src, dst.into(), n, marks)?;
        Ok((bytes, report))
    }

    /// Casts `n` elements, unless that loses one: rounding is no loss here. After an [`Error::Lossy`], the contents of the
    /// destination are unspecified.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::F64, DType::F32, &CastOptions::new())?;
    /// let src: Vec<u8> = [0.1, 1e39].iter().flat_map(|x: &f64| x.to_ne_bytes()).collect();
    /// let mut dst = [0u8; 8];
    /// caster.try_cast(&src[..8], &mut dst[..4], 1)?;
    /// let error = caster.try_cast(&src, &mut dst, 2).unwrap_err();
    /// assert_eq!(error.to_string(), "element 1, 1e39, is above the range of float32");
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first element that is lost; else as [`Caster::cast_checked`].
    pub fn try_cast(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<(), Error> {
        self.checked(src, dst.into(), n, Marks::stopping(Some(Stop::Lost))).map(drop)
    }

    /// As [`Caster::try_cast`], but with elements of the source that are null by `src_validity`, whose loss is no error.
    ///
    /// ```
    /// use lanecast::{checked::Validity, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I8, DType::U8, &CastOptions::new())?;
    /// let mut dst = [0u8; 3];
    /// caster.try_cast_validity(&[1, 0xFF, 3], Validity::new(&[0b101]), &mut dst, 3)?;
    /// assert_eq!([dst[0], dst[2]], [1, 3]);
    /// let error = caster.try_cast_validity(&[1, 0xFF, 3], Validity::new(&[0b110]), &mut dst, 3).unwrap_err();
    /// assert_eq!(error.to_string(), "element 1, -1, is below the range of uint8");
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first element that is lost and not null; or the bitmap does not have the size of `n` elements, and nothing was written; else as
    /// [`Caster::cast_checked`].
    pub fn try_cast_validity(
        &self,
        src: &[u8],
        src_validity: Validity<'_>,
        dst: &mut [u8],
        n: usize,
    ) -> Result<(), Error> {
        let marks = Marks { source: Some(src_validity), stops: Some(Stop::Lost), ..Marks::default() };
        self.checked(src, dst.into(), n, marks).map(drop)
    }

    /// Casts `n` elements, unless that changes the value of one, as NumPy's `casting="same_value"`. A NaN stays one, and −0
    /// equals 0. After an [`Error::Lossy`], the contents of the destination are unspecified.
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
    /// The first element that changes; else as [`Caster::cast_checked`].
    pub fn same_value(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<(), Error> {
        self.checked(src, dst.into(), n, Marks::stopping(Some(Stop::Inexact))).map(drop)
    }

    /// Casts `n` elements, makes those null that are lost, and returns how many are null.
    ///
    /// All bits of a lost element are 0, and so is its bit in `dst_validity`, which has ⌈n / 8⌉ bytes, with the first element in
    /// the lowest bit of the first one. What is null in the source stays null, and is cast, or lost, as any other element is.
    ///
    /// ```
    /// use lanecast::{checked::Validity, CastOptions, Caster, DType};
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
    /// A bitmap does not have the size of `n` elements, and nothing was written; else as [`Caster::cast_checked`].
    pub fn cast_validity(
        &self,
        src: &[u8],
        src_validity: Option<Validity<'_>>,
        dst: &mut [u8],
        dst_validity: &mut [u8],
        n: usize,
    ) -> Result<usize, Error> {
        Ok(self.checked(src, dst.into(), n, Marks::nulls(src_validity, dst_validity))?.2)
    }

    /// As [`Caster::cast_validity`], but to memory that need not be initialised, which is returned initialised, with the number of nulls.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use lanecast::{CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I8, DType::U8, &CastOptions::new())?;
    /// let (mut memory, mut valid) = ([MaybeUninit::uninit(); 3], [0u8; 1]);
    /// let (out, nulls) = caster.cast_validity_uninit(&[1, 0xFF, 3], None, &mut memory, &mut valid, 3)?;
    /// assert_eq!((out, valid, nulls), (&mut [1, 0, 3][..], [0b101], 1));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Caster::cast_validity`].
    pub fn cast_validity_uninit<'a>(
        &self,
        src: &[u8],
        src_validity: Option<Validity<'_>>,
        dst: &'a mut [MaybeUninit<u8>],
        dst_validity: &mut [u8],
        n: usize,
    ) -> Result<(&'a mut [u8], usize), Error> {
        let marks = Marks::nulls(src_validity, dst_validity);
        let (bytes, _, nulls) = self.checked(src, dst.into(), n, marks)?;
        Ok((bytes, nulls))
    }

    /// Returns what a cast of `n` elements would lose. It needs no destination, and less than 100 KiB of memory, whatever the
    /// size of the source.
    ///
    /// ```
    /// use lanecast::{CastOptions, Caster, DType};
    /// // The narrowest integers that hold these.
    /// let src: Vec<u8> = [100i64, -300, 7].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let holds = |dtype: &DType| {
    ///     let caster = Caster::new(DType::I64, *dtype, &CastOptions::new())?;
    ///     Ok::<bool, lanecast::Error>(caster.report(&src, 3)?.is_exact())
    /// };
    /// assert!(!holds(&DType::I8)?);
    /// assert!(holds(&DType::I16)?);
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The source does not have the size of `n` elements, or there is no memory for the check.
    pub fn report(&self, src: &[u8], n: usize) -> Result<CastReport, Error> {
        check_size(Side::Source, self.from(), self.options().src_packing, n, src.len())?;
        let casters = CheckCasters::default();
        casters.fill(self)?;
        let check = Check::new(self, n, true, &casters);
        let mut report = CastReport { elements: n, ..CastReport::default() };
        if check.finds_nothing() {
            return Ok(report);
        }
        let [source, target] = self.layouts().map(|layout| move |n| layout.size(n));
        // A multiple of 8 elements is whole bytes.
        let most = n.min(8 * (REPORT_TILE / source(8).max(target(8))));
        let (mut results, mut marks) =
            (memory_for(self.to(), most, target(most))?, Marks { drops_results: true, ..Marks::REPORT });
        for first in (0..n).step_by(most.max(1)) {
            let end = n.min(first + most);
            let (src, out) =
                (&src[source(first)..source(end)], &mut results.spare_capacity_mut()[..target(end - first)]);
            let found = check.part(src, out.into(), end - first, first, &mut marks)?;
            report.merge(found, &|i| first + i);
            marks.knows_inexact = report.first_inexact.is_some();
        }
        Ok(report)
    }

    /// Casts, checks and marks. Returns the destination, the report, and how many elements are null.
    pub(crate) fn checked<'a>(
        &self,
        src: &[u8],
        mut dst: Destination<'a, u8>,
        n: usize,
        mut marks: Marks<'_>,
    ) -> Result<(&'a mut [u8], CastReport, usize), Error> {
        self.check(src.len(), dst.size(), n)?;
        marks.check(n)?;
        let casters = CheckCasters::default();
        casters.fill(self)?;
        let check = Check::new(self, n, marks.counts_inexact(), &casters);
        let (report, lost) = check.run(src, dst.reborrow(), n, &mut marks)?;
        #[allow(unsafe_code, reason = "what the kernels have initialised is handed back")]
        // SAFETY: `run` has initialised every byte unless it returns an error.
        let bytes = unsafe { dst.assume_init() };
        Ok((bytes, report, marks.finish(n, lost)))
    }
}

/// Casts a slice into another as [`lanecast::cast_slice`](crate::cast_slice) does, and reports what that lost.
///
/// ```
/// use lanecast::{checked, f16};
/// let mut out = [f16::ZERO; 3];
/// let report = checked::cast_slice(&[1.0f32, 0.1, 1e6], &mut out)?;
/// assert_eq!((report.above, report.inexact, report.first), (1, 1, Some(2)));
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// As [`cast_slice_with`].
pub fn cast_slice<S: Element, D: Element>(src: &[S], dst: &mut [D]) -> Result<CastReport, Error> {
    cast_slice_with(src, dst, &CastOptions::new())
}

/// Casts a slice into another as [`lanecast::cast_slice_with`](crate::cast_slice_with) does, and reports what that lost.
///
/// ```
/// use lanecast::{checked, CastOptions, Rounding};
/// let up = CastOptions::new().int_rounding(Rounding::Up);
/// let report = checked::cast_slice_with(&[254.5f32, 255.5], &mut [0u8; 2], &up)?;
/// assert_eq!((report.above, report.inexact), (1, 1));
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// The lengths differ, or the instruction set that the options or `LANECAST_ISA` name is not available, and nothing was written; or there
/// is no memory for the plan or the check, and the contents of the destination are unspecified.
pub fn cast_slice_with<S: Element, D: Element>(
    src: &[S],
    dst: &mut [D],
    options: &CastOptions,
) -> Result<CastReport, Error> {
    Ok(slices(src, dst.into(), options, Marks::REPORT)?.0)
}

/// Casts a slice into another with the default options, unless that loses an element: see [`Caster::try_cast`].
///
/// ```
/// use lanecast::checked::try_cast_slice;
/// let mut out = [0i32; 2];
/// try_cast_slice(&[1.5f64, -3e9], &mut out).expect_err("the second is below -2^31");
/// try_cast_slice(&[1.5f64, -2e9], &mut out)?;
/// assert_eq!(out, [1, -2_000_000_000]);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// The first element that is lost; else as [`cast_slice`].
pub fn try_cast_slice<S: Element, D: Element>(src: &[S], dst: &mut [D]) -> Result<(), Error> {
    try_cast_slice_with(src, dst, &CastOptions::new())
}

/// Casts a slice into another, unless that loses an element: see [`Caster::try_cast`].
///
/// ```
/// use lanecast::{checked::try_cast_slice_with, CastOptions, Rounding};
/// let up = CastOptions::new().int_rounding(Rounding::Up);
/// let error = try_cast_slice_with(&[255.5f32], &mut [0u8], &up).unwrap_err();
/// assert_eq!(error.to_string(), "element 0, 255.5, is above the range of uint8");
/// ```
///
/// # Errors
///
/// The first element that is lost; else as [`cast_slice_with`].
pub fn try_cast_slice_with<S: Element, D: Element>(
    src: &[S],
    dst: &mut [D],
    options: &CastOptions,
) -> Result<(), Error> {
    slices(src, dst.into(), options, Marks::stopping(Some(Stop::Lost))).map(drop)
}

/// As [`try_cast_slice_with`], but to memory that need not be initialised, which is returned initialised, and with elements
/// that may be null, whose loss is no error: see [`Caster::try_cast_validity`].
///
/// ```
/// use core::mem::MaybeUninit;
/// use lanecast::{CastOptions, checked::{Validity, try_cast_slice_validity_uninit_with}};
/// let (mut memory, options) = ([MaybeUninit::<u8>::uninit(); 3], CastOptions::new());
/// let first_is_null = Validity::new(&[0b110]);
/// let out = try_cast_slice_validity_uninit_with(&[-1i16, 7, 8], Some(first_is_null), &mut memory, &options)?;
/// assert_eq!(out[1..], [7, 8]);
/// let error = try_cast_slice_validity_uninit_with(&[-1i16, 7, 8], None, &mut memory, &options).unwrap_err();
/// assert_eq!(error.to_string(), "element 0, -1, is below the range of uint8");
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// The first element that is lost and not null; or the bitmap does not have the size of the elements; else as [`cast_slice_with`].
pub fn try_cast_slice_validity_uninit_with<'a, S: Element, D: Element>(
    src: &[S],
    src_validity: Option<Validity<'_>>,
    dst: &'a mut [MaybeUninit<D>],
    options: &CastOptions,
) -> Result<&'a mut [D], Error> {
    let marks = Marks { source: src_validity, ..Marks::stopping(Some(Stop::Lost)) };
    Ok(slices_uninit(src, dst, options, marks)?.0)
}

/// Casts a slice into another with the default options, unless that changes a value: see [`Caster::same_value`].
///
/// ```
/// use lanecast::checked::same_value_slice;
/// let mut out = [0i8; 3];
/// same_value_slice(&[1.0f32, -128.0, 0.0], &mut out)?;
/// assert_eq!(out, [1, -128, 0]);
/// let error = same_value_slice(&[1.0f32, 0.5, 0.0], &mut out).unwrap_err();
/// assert_eq!(error.to_string(), "element 1, 0.5, is not exact in int8");
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// The first element that changes; else as [`cast_slice`].
pub fn same_value_slice<S: Element, D: Element>(src: &[S], dst: &mut [D]) -> Result<(), Error> {
    same_value_slice_with(src, dst, &CastOptions::new())
}

/// Casts a slice into another, unless that changes a value: see [`Caster::same_value`].
///
/// ```
/// use lanecast::{checked::same_value_slice_with, CastOptions};
/// let mut out = [0f32; 2];
/// same_value_slice_with(&[1.0f64, f64::INFINITY], &mut out, &CastOptions::numpy())?;
/// assert_eq!(out, [1.0, f32::INFINITY]);
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// The first element that changes; else as [`cast_slice_with`].
pub fn same_value_slice_with<S: Element, D: Element>(
    src: &[S],
    dst: &mut [D],
    options: &CastOptions,
) -> Result<(), Error> {
    slices(src, dst.into(), options, Marks::stopping(Some(Stop::Inexact))).map(drop)
}

/// Casts a slice into another with the default options, makes those elements null that are lost, and returns how many are null:
/// see [`Caster::cast_validity`].
///
/// ```
/// use lanecast::checked::cast_slice_validity;
/// let (mut out, mut valid) = ([0u8; 3], [0u8; 1]);
/// let nulls = cast_slice_validity(&[1.0f64, f64::NAN, 300.0], None, &mut out, &mut valid)?;
/// assert_eq!((out, valid, nulls), ([1, 0, 0], [0b001], 2));
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// A bitmap does not have the size of the elements; else as [`cast_slice`].
pub fn cast_slice_validity<S: Element, D: Element>(
    src: &[S],
    src_validity: Option<Validity<'_>>,
    dst: &mut [D],
    dst_validity: &mut [u8],
) -> Result<usize, Error> {
    cast_slice_validity_with(src, src_validity, dst, dst_validity, &CastOptions::new())
}

/// Casts a slice into another, makes those elements null that are lost, and returns how many are null: see [`Caster::cast_validity`].
///
/// ```
/// use lanecast::{checked::cast_slice_validity_with, CastOptions, Rounding};
/// let (mut out, mut valid) = ([0u8; 2], [0u8; 1]);
/// let up = CastOptions::new().int_rounding(Rounding::Up);
/// let nulls = cast_slice_validity_with(&[254.5f64, 255.5], None, &mut out, &mut valid, &up)?;
/// assert_eq!((out, valid, nulls), ([255, 0], [0b01], 1));
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// A bitmap does not have the size of the elements; else as [`cast_slice_with`].
pub fn cast_slice_validity_with<S: Element, D: Element>(
    src: &[S],
    src_validity: Option<Validity<'_>>,
    dst: &mut [D],
    dst_validity: &mut [u8],
    options: &CastOptions,
) -> Result<usize, Error> {
    Ok(slices(src, dst.into(), options, Marks::nulls(src_validity, dst_validity))?.1)
}

/// As [`cast_slice_validity_with`], but to memory that need not be initialised, which is returned initialised, with the number of nulls.
///
/// ```
/// use core::mem::MaybeUninit;
/// use lanecast::{checked::cast_slice_validity_uninit_with, CastOptions};
/// let (mut memory, mut valid) = ([MaybeUninit::<u8>::uninit(); 2], [0u8; 1]);
/// let (out, nulls) = cast_slice_validity_uninit_with(&[7i16, -1], None, &mut memory, &mut valid, &CastOptions::new())?;
/// assert_eq!((out, valid, nulls), (&mut [7, 0][..], [0b01], 1));
/// # Ok::<(), lanecast::Error>(())
/// ```
///
/// # Errors
///
/// As [`cast_slice_validity_with`].
pub fn cast_slice_validity_uninit_with<'a, S: Element, D: Element>(
    src: &[S],
    src_validity: Option<Validity<'_>>,
    dst: &'a mut [MaybeUninit<D>],
    dst_validity: &mut [u8],
    options: &CastOptions,
) -> Result<(&'a mut [D], usize), Error> {
    slices_uninit(src, dst, options, Marks::nulls(src_validity, dst_validity))
}

/// Casts slices, and returns the destination and how many elements are null.
fn slices_uninit<'a, S: Element, D: Element>(
    src: &[S],
    dst: &'a mut [MaybeUninit<D>],
    options: &CastOptions,
    marks: Marks<'_>,
) -> Result<(&'a mut [D], usize), Error> {
    let mut dst = Destination::from(dst);
    let (_, nulls) = slices(src, dst.reborrow(), options, marks)?;
    #[allow(unsafe_code, reason = "what the kernels have initialised is handed back")]
    // SAFETY: `slices` has initialised every element unless it returns an error.
    let elements = unsafe { dst.assume_init() };
    Ok((elements, nulls))
}

fn slices<S: Element, D: Element>(
    src: &[S],
    dst: Destination<'_, D>,
    options: &CastOptions,
    marks: Marks<'_>,
) -> Result<(CastReport, usize), Error> {
    if src.len() != dst.len() {
        return Err(Error::LengthMismatch { source: src.len(), destination: dst.len() });
    }
    let (caster, n) = (typed::<S, D>(options)?, src.len());
    #[allow(unsafe_code, reason = "the checks work on bytes")]
    // SAFETY: `checked` writes what the caster of `D` writes, and zeros, which are elements of every type.
    let dst = unsafe { dst.into_bytes() };
    let (_, report, nulls) = caster.checked(bytes_of(src), dst, n, marks)?;
    Ok((report, nulls))
}
