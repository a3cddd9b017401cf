//! The checked casts on several threads.

use core::mem::MaybeUninit;

use super::report::{CastReport, Marks, Stop, numbered};
use crate::cast::Caster;
use crate::error::Error;
use crate::kernels::memory::Destination;
use crate::parallel::{self, Parallel};
use crate::threads::Lock;

impl Caster {
    /// As [`Caster::cast_checked`], but on the threads, in the chunks and with the callback of `how`. The report does not depend on these.
    ///
    /// ```
    /// use lanecast::{parallel::Parallel, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I8, DType::U8, &CastOptions::new())?;
    /// let (mut src, mut dst) = (vec![1; 4 << 20], vec![0; 4 << 20]);
    /// src[3_000_000] = 0xFF;
    /// let report = caster.par_cast_checked_with(&src, &mut dst, 4 << 20, &Parallel::new())?;
    /// assert_eq!((report.below, report.first), (1, Some(3_000_000)));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A buffer does not have the size of `n` elements, and nothing was written; or there is no memory for the check, or the callback stopped
    /// the cast, and the contents of the destination are unspecified.
    pub fn par_cast_checked_with(
        &self,
        src: &[u8],
        dst: &mut [u8],
        n: usize,
        how: &Parallel<'_>,
    ) -> Result<CastReport, Error> {
        self.par_checked(src, dst.into(), n, how, None)
    }

    /// As [`Caster::par_cast_checked_with`], but to memory that need not be initialised, which is returned initialised, with the report.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use lanecast::{parallel::Parallel, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I8, DType::U8, &CastOptions::new())?;
    /// let mut memory = [MaybeUninit::uninit(); 2];
    /// let (out, report) = caster.par_cast_checked_uninit_with(&[1, 0xFF], &mut memory, 2, &Parallel::new())?;
    /// assert_eq!((out, report.first), (&mut [1, 0xFF][..], Some(1)));
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Caster::par_cast_checked_with`].
    pub fn par_cast_checked_uninit_with<'a>(
        &self,
        src: &[u8],
        dst: &'a mut [MaybeUninit<u8>],
        n: usize,
        how: &Parallel<'_>,
    ) -> Result<(&'a mut [u8], CastReport), Error> {
        let mut dst = Destination::from(dst);
        let report = self.par_checked(src, dst.reborrow(), n, how, None)?;
        #[allow(unsafe_code, reason = "the chunks are the whole")]
        // SAFETY: every chunk was cast, which initialises all of its bytes, and none was left out: nothing is refused here.
        Ok((unsafe { dst.assume_init() }, report))
    }

    /// As [`Caster::try_cast`], but on the threads, in the chunks and with the callback of `how`. The error does not depend on
    /// these: it is that of the first element.
    ///
    /// ```
    /// use lanecast::{parallel::Parallel, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::I8, DType::U8, &CastOptions::new())?;
    /// let how = Parallel::new().threads(2).chunk(2);
    /// let error = caster.par_try_cast_with(&[1, 2, 3, 0xFF, 0xFE], &mut [0; 5], 5, &how).unwrap_err();
    /// assert_eq!(error.to_string(), "element 3, -1, is below the range of uint8");
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first element that is lost, or as [`Caster::par_cast_checked_with`].
    pub fn par_try_cast_with(
        &self,
        src: &[u8],
        dst: &mut [u8],
        n: usize,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        self.par_checked(src, dst.into(), n, how, Some(Stop::Lost)).map(drop)
    }

    /// As [`Caster::same_value`], but on the threads, in the chunks and with the callback of `how`. The error does not depend
    /// on these: it is that of the first element.
    ///
    /// ```
    /// use lanecast::{parallel::Parallel, CastOptions, Caster, DType};
    /// let caster = Caster::new(DType::U16, DType::BF16, &CastOptions::new())?;
    /// let src: Vec<u8> = [1u16, 256, 257].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let error = caster.par_same_value_with(&src, &mut [0; 6], 3, &Parallel::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "element 2, 257, is not exact in bfloat16");
    /// # Ok::<(), lanecast::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first element that changes, or as [`Caster::par_cast_checked_with`].
    pub fn par_same_value_with(
        &self,
        src: &[u8],
        dst: &mut [u8],
        n: usize,
        how: &Parallel<'_>,
    ) -> Result<(), Error> {
        self.par_checked(src, dst.into(), n, how, Some(Stop::Inexact)).map(drop)
    }

    #[inline(never)]
    fn par_checked(
        &self,
        src: &[u8],
        dst: Destination<'_, u8>,
        n: usize,
        how: &Parallel<'_>,
        stops: Option<Stop>,
    ) -> Result<CastReport, Error> {
        let all = Lock::new(CastReport { elements: n, ..CastReport::default() });
        parallel::run(self, src, dst, n, how, &|caster, src, dst, n, first| {
            let number = |i| first + i;
            let checked = caster.checked(src, dst, n, Marks::stopping(stops));
            let (_, report, _) = checked.map_err(|error| numbered(error, &number))?;
            all.lock().merge(report, &number);
            Ok(())
        })?;
        let report = *all.lock();
        Ok(report)
    }
}
