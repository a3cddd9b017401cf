//! The cast of Zarr's codec [`cast_value`](https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value): some values
//! become others by a map, and what has no value in the target is refused.

use alloc::vec::Vec;
use core::fmt;
use core::mem::MaybeUninit;

use crate::cast::Caster;
use crate::checked::CastReport;
use crate::error::{Error, Lossy};
use crate::formats::dtype::{DType, Kind};
use crate::formats::layout::Packing;
use crate::formats::options::{CastOptions, Overflow, Rounding};

/// Elements of which a loop without branches says whether one that is looked for is among them.
const RUN: usize = 16;

/// Why a codec cannot be, or does not cast.
///
/// ```
/// use lanecast::{zarr::{ValueCaster, ZarrError}, DType, Rounding};
/// let error = ValueCaster::new(DType::C64, DType::F32, Rounding::NearestEven, None, &[]).unwrap_err();
/// assert_eq!(error, ZarrError::Unsupported { dtype: DType::C64 });
/// assert_eq!(error.to_string(), "cast_value casts integers and floats: complex64 is neither");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ZarrError {
    /// The codec has no rule for bool and complex numbers.
    Unsupported {
        /// The dtype.
        dtype: DType,
    },
    /// An element of which neither the map nor a rule says what it becomes. What is in the destination is not said.
    Refused(Lossy),
    /// Of the cast itself; nothing was written.
    Cast(Error),
}

impl fmt::Display for ZarrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { dtype } => {
                write!(f, "cast_value casts integers and floats: {dtype} is neither")
            }
            Self::Refused(lossy) => {
                write!(f, "{lossy}; neither out_of_range nor scalar_map says what it becomes")
            }
            Self::Cast(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ZarrError {}

impl From<Error> for ZarrError {
    fn from(error: Error) -> Self {
        match error {
            Error::Lossy(lossy) => Self::Refused(lossy),
            other => Self::Cast(other),
        }
    }
}

/// Codes from `low` to `high`, of which some bits do not count.
#[derive(Clone, Copy, Debug)]
struct Codes {
    mask: u64,
    low: u64,
    high: u64,
}

impl Codes {
    const NONE: Self = Self { mask: 0, low: 1, high: 1 };

    /// The codes of a float that are infinite, and those that are NaN.
    fn special(dtype: DType) -> [Self; 2] {
        let Some(format) = dtype.float_format() else { return [Self::NONE; 2] };
        let magnitude = u64::MAX >> (64 - dtype.bits() + u32::from(format.has_sign()));
        let one = |code| Self { mask: magnitude, low: code, high: code };
        if format.has_inf() {
            // All ones in the exponent.
            let inf = magnitude >> format.mantissa_bits() << format.mantissa_bits();
            return [one(inf), Self { low: inf + 1, high: magnitude, ..one(0) }];
        }
        let all = all(dtype);
        let nan = match (format.has_nan(), format.has_neg_zero() || !format.has_sign()) {
            (false, _) => Self::NONE,
            (true, true) => one(magnitude),
            // Where -0 would be.
            (true, false) => Self { mask: all, low: all ^ magnitude, high: all ^ magnitude },
        };
        [Self::NONE, nan]
    }

    /// What of `from` has no value in `to`: infinity, NaN, or both, as NaN has the codes after infinity.
    fn refused(from: DType, to: DType) -> Option<Self> {
        let (has_inf, has_nan) = to.float_format().map_or((false, false), |to| (to.has_inf(), to.has_nan()));
        let [inf, nan] = Self::special(from);
        match (has_inf || inf.mask == 0, has_nan || nan.mask == 0) {
            (true, true) => None,
            (true, false) => Some(nan),
            (false, true) => Some(inf),
            (false, false) => Some(Self { high: nan.high, ..inf }),
        }
    }

    /// Those that equal one: -0 is 0, and any NaN is any other.
    fn equal(dtype: DType, code: u64) -> Self {
        let (all, [_, nan]) = (all(dtype), Self::special(dtype));
        if nan.has(code & all) {
            return nan;
        }
        match dtype.float_format() {
            Some(format) if format.has_neg_zero() && code & (all >> 1) == 0 => {
                Self { mask: all >> 1, low: 0, high: 0 }
            }
            _ => Self { mask: all, low: code & all, high: code & all },
        }
    }

    fn has(&self, code: u64) -> bool {
        (code & self.mask).wrapping_sub(self.low) <= self.high - self.low
    }
}

/// Has a negative element its highest bit set?
fn has_sign(dtype: DType) -> bool {
    match dtype.kind() {
        Kind::Int(format) => format.is_signed(),
        Kind::Float(format) => format.has_sign(),
        Kind::Bool | Kind::Complex(_) => false,
    }
}

/// All bits of a code.
fn all(dtype: DType) -> u64 {
    u64::MAX >> (64 - dtype.bits())
}

/// The codec, decided: one pair of dtypes, one set of rules. Make one, keep it. Elements have whole bytes, those of fewer than 8 bits one
/// each, in the order of the machine.
///
/// What an element becomes, the first of these that says it:
///
/// 1. `map`: pairs of codes, of a source value and of what it becomes. The first that matches counts; NaN is any NaN, −0 is 0.
/// 2. The same value, if the target has it.
/// 3. `rounding`; and if that is out of range, `out_of_range`: [`Saturate`](Overflow::Saturate), which Zarr calls `clamp`, is the nearest value,
///    or infinity where the target has it; [`Wrap`](Overflow::Wrap), for integers alone, is the same modulo 2 to their bits.
///
/// All else is refused: what is out of range where nothing says what it becomes, and NaN and infinity where the target has none.
///
/// ```
/// use lanecast::{zarr::{ValueCaster, ZarrError}, DType, Overflow, Rounding};
/// let map = [(u64::from(f32::NAN.to_bits()), 7)];
/// let caster = ValueCaster::new(DType::F32, DType::U8, Rounding::NearestEven, Some(Overflow::Saturate), &map)?;
/// let bytes = |x: &[f32]| x.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
/// let mut dst = [0; 3];
/// caster.cast(&bytes(&[2.5, f32::NAN, 1e9]), &mut dst, 3)?;
/// assert_eq!(dst, [2, 7, 255]);
/// let Err(ZarrError::Refused(lossy)) = caster.cast(&bytes(&[1.0, 2.0, f32::INFINITY]), &mut dst, 3) else { unreachable!() };
/// assert_eq!(lossy.to_string(), "element 2, inf, has no value in uint8");
/// # Ok::<(), ZarrError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ValueCaster {
    caster: Caster,
    out_of_range: Option<Overflow>,
    /// The source values that become something else, and what.
    map: Vec<(Codes, u64)>,
    /// What of the source the target does not have.
    refused: Option<Codes>,
    /// The code of infinity, where rounding stops at the largest value in place of it.
    stops: Option<u64>,
}

impl ValueCaster {
    /// Decides. [`CastOptions::zarr`] has the rounding.
    ///
    /// ```
    /// use lanecast::{zarr::{ValueCaster, ZarrError}, DType, Rounding};
    /// // No rule for what is out of range, and no map: 300 is refused.
    /// let caster = ValueCaster::new(DType::I16, DType::U8, Rounding::NearestEven, None, &[])?;
    /// let refused = caster.cast(&300i16.to_ne_bytes(), &mut [0], 1).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "element 0, 300, is above what uint8 holds; neither out_of_range nor scalar_map says what it becomes",
    /// );
    /// # Ok::<(), ZarrError>(())
    /// ```
    ///
    /// `out_of_range` of [`Overflow::Wrap`] is none where the target is a float. Of codes in `map` the lowest bits count, as many as an element has.
    ///
    /// # Errors
    ///
    /// A dtype is no integer and no float. Or the environment variable `LANECAST_ISA` names no instruction set that is available.
    pub fn new(
        from: DType,
        to: DType,
        rounding: Rounding,
        out_of_range: Option<Overflow>,
        map: &[(u64, u64)],
    ) -> Result<Self, ZarrError> {
        let known = |dtype: &DType| matches!(dtype.kind(), Kind::Int(_) | Kind::Float(_));
        if let Some(dtype) = [from, to].into_iter().find(|dtype| !known(dtype)) {
            return Err(ZarrError::Unsupported { dtype });
        }
        let is_float = matches!(to.kind(), Kind::Float(_));
        let out_of_range = out_of_range.filter(|&rule| rule == Overflow::Saturate || !is_float);
        let options = CastOptions::zarr(rounding, out_of_range.unwrap_or(Overflow::Saturate))
            .src_packing(Packing::OnePerByte)
            .dst_packing(Packing::OnePerByte);
        let [inf, _] = Codes::special(to);
        let directed = !matches!(rounding, Rounding::NearestEven | Rounding::NearestAway);
        Ok(Self {
            caster: Caster::new(from, to, &options)?,
            out_of_range,
            map: map.iter().map(|&(key, value)| (Codes::equal(from, key), value & all(to))).collect(),
            refused: Codes::refused(from, to),
            stops: (inf.mask != 0 && directed && out_of_range.is_some()).then_some(inf.low),
        })
    }

    /// The dtype of the source.
    ///
    /// ```
    /// use lanecast::{zarr::ValueCaster, DType, Rounding};
    /// let caster = ValueCaster::new(DType::I16, DType::F8E4M3, Rounding::NearestEven, None, &[])?;
    /// assert_eq!((caster.from(), caster.to()), (DType::I16, DType::F8E4M3));
    /// # Ok::<(), lanecast::zarr::ZarrError>(())
    /// ```
    pub const fn from(&self) -> DType {
        self.caster.from()
    }

    /// The dtype of the destination.
    ///
    /// ```
    /// use lanecast::{zarr::ValueCaster, DType, Overflow, Rounding};
    /// let caster = ValueCaster::new(DType::F32, DType::I8, Rounding::Down, Some(Overflow::Wrap), &[])?;
    /// assert_eq!(caster.to().itemsize(), 1);
    /// # Ok::<(), lanecast::zarr::ZarrError>(())
    /// ```
    pub const fn to(&self) -> DType {
        self.caster.to()
    }

    /// Casts `n` elements.
    ///
    /// ```
    /// use lanecast::{zarr::ValueCaster, DType, Overflow, Rounding};
    /// let caster = ValueCaster::new(DType::U16, DType::U8, Rounding::NearestEven, Some(Overflow::Wrap), &[(0xFFFF, 0)])?;
    /// let src: Vec<u8> = [1u16, 0x102, 0xFFFF].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let mut dst = [0; 3];
    /// caster.cast(&src, &mut dst, 3)?;
    /// assert_eq!(dst, [1, 2, 0]);
    /// # Ok::<(), lanecast::zarr::ZarrError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first element that is refused. Or a buffer does not have the size of `n` elements: then nothing was written.
    pub fn cast(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<(), ZarrError> {
        let found = match self.look() {
            Look::Bits => {
                let mut valid = vec![0; n.div_ceil(8)];
                let lost = self.caster.cast_validity(src, None, dst, &mut valid, n)?;
                Found::lost(valid, lost)
            }
            Look::Special => Found::special(self.caster.cast_checked(src, dst, n)?),
            Look::Nothing => {
                self.caster.cast(src, dst, n)?;
                Found::default()
            }
        };
        self.finish(src, dst, &found)
    }

    /// The same to memory that need not be initialised, and returns it initialised.
    ///
    /// ```
    /// use lanecast::{zarr::ValueCaster, DType, Rounding};
    /// let caster = ValueCaster::new(DType::I8, DType::U8, Rounding::NearestEven, None, &[(0xFF, 200)])?;
    /// let mut dst = Vec::with_capacity(3);
    /// assert_eq!(caster.cast_uninit(&[1, 0xFF, 3], &mut dst.spare_capacity_mut()[..3], 3)?, [1, 200, 3]);
    /// # Ok::<(), lanecast::zarr::ZarrError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`cast`](Self::cast).
    pub fn cast_uninit<'a>(
        &self,
        src: &[u8],
        dst: &'a mut [MaybeUninit<u8>],
        n: usize,
    ) -> Result<&'a mut [u8], ZarrError> {
        let (dst, found) = match self.look() {
            Look::Bits => {
                let mut valid = vec![0; n.div_ceil(8)];
                let (dst, lost) = self.caster.cast_validity_uninit(src, None, dst, &mut valid, n)?;
                (dst, Found::lost(valid, lost))
            }
            Look::Special => {
                let (dst, report) = self.caster.cast_checked_uninit(src, dst, n, None)?;
                (dst, Found::special(report))
            }
            Look::Nothing => (self.caster.cast_uninit(src, dst, n)?, Found::default()),
        };
        self.finish(src, dst, &found)?;
        Ok(dst)
    }

    /// What the cast has to say, for all else to be known.
    fn look(&self) -> Look {
        match self.out_of_range {
            None => Look::Bits,
            Some(_) if self.stops.is_some() => Look::Bits,
            Some(_) if self.refused.is_some() => Look::Special,
            Some(_) => Look::Nothing,
        }
    }

    /// After the cast: what is lost, and what is mapped.
    fn finish(&self, src: &[u8], dst: &mut [u8], found: &Found) -> Result<(), ZarrError> {
        self.of_lost(src, dst, &found.lost)?;
        // What the target does not have is already what it becomes, or is looked for at once.
        let refused = |codes: &Codes| self.refused.is_some_and(|refused| refused.has(codes.low));
        let keys = self.map.iter().map(|(codes, _)| *codes).filter(|codes| !refused(codes));
        for codes in keys.chain(self.refused.filter(|_| found.special)) {
            let Codes { mask, low, high } = codes;
            macro_rules! of_code {
                ($code:ident) => {{
                    let (mask, low, range) = (mask as $code, low as $code, (high - low) as $code);
                    if range == 0 {
                        self.of_codes(src, dst, |code| $code::from_ne_bytes(code) & mask == low)
                    } else {
                        self.of_codes(src, dst, |code| {
                            ($code::from_ne_bytes(code) & mask).wrapping_sub(low) <= range
                        })
                    }
                }};
            }
            match self.from().itemsize() {
                1 => of_code!(u8),
                2 => of_code!(u16),
                4 => of_code!(u32),
                _ => of_code!(u64),
            }?;
        }
        Ok(())
    }

    /// Elements that are lost, which have no bit.
    fn of_lost(&self, src: &[u8], dst: &mut [u8], valid: &[u8]) -> Result<(), ZarrError> {
        let size = self.from().itemsize();
        for (at, &byte) in valid.iter().enumerate().filter(|&(_, &byte)| byte != 0xFF) {
            for i in (8 * at..8 * at + 8).filter(|i| byte >> (i % 8) & 1 == 0) {
                let Some(element) = src.get(i * size..(i + 1) * size) else { break };
                let code = read(element);
                let value = match (self.mapped(code), self.stops) {
                    (Some(value), _) => value,
                    (None, Some(inf)) if !self.refused.is_some_and(|refused| refused.has(code)) => {
                        let is_negative = has_sign(self.from()) && code >> (self.from().bits() - 1) & 1 == 1;
                        inf | u64::from(is_negative) << (self.to().bits() - 1)
                    }
                    _ => return Err(self.error(src, i)),
                };
                self.write(dst, i, value);
            }
        }
        Ok(())
    }

    /// Elements whose codes are looked for: they are mapped, or refused.
    fn of_codes<const BYTES: usize>(
        &self,
        src: &[u8],
        dst: &mut [u8],
        wanted: impl Fn([u8; BYTES]) -> bool,
    ) -> Result<(), ZarrError> {
        let (elements, _) = src.as_chunks::<BYTES>();
        for (run, elements) in elements.chunks(RUN).enumerate() {
            if !elements.iter().fold(false, |any, &element| any | wanted(element)) {
                continue;
            }
            for (i, element) in elements.iter().enumerate().filter(|&(_, &element)| wanted(element)) {
                match self.mapped(read(element)) {
                    Some(value) => self.write(dst, run * RUN + i, value),
                    None => return Err(self.error(src, run * RUN + i)),
                }
            }
        }
        Ok(())
    }

    /// What the map makes of a code.
    fn mapped(&self, code: u64) -> Option<u64> {
        self.map.iter().find(|(codes, _)| codes.has(code)).map(|&(_, value)| value)
    }

    fn write(&self, dst: &mut [u8], i: usize, code: u64) {
        let size = self.to().itemsize();
        let element = &mut dst[i * size..][..size];
        match size {
            1 => element.copy_from_slice(&(code as u8).to_ne_bytes()),
            2 => element.copy_from_slice(&(code as u16).to_ne_bytes()),
            4 => element.copy_from_slice(&(code as u32).to_ne_bytes()),
            _ => element.copy_from_slice(&code.to_ne_bytes()),
        }
    }

    /// What is wrong with an element.
    fn error(&self, src: &[u8], i: usize) -> ZarrError {
        let (size, mut room) = (self.from().itemsize(), [0; 8]);
        // The same cast of this one alone says what it is.
        match self.caster.try_cast(&src[i * size..][..size], &mut room[..self.to().itemsize()], 1) {
            Err(Error::Lossy(lossy)) => ZarrError::Refused(Lossy { index: i, ..lossy }),
            Err(error) => ZarrError::Cast(error),
            Ok(()) => unreachable!("what is refused is lost"),
        }
    }
}

/// What a cast has to say.
enum Look {
    /// Which elements are lost.
    Bits,
    /// Whether there is NaN or infinity that the target does not have.
    Special,
    Nothing,
}

/// What it has said.
#[derive(Default)]
struct Found {
    /// A bit that is 0 for each element that is lost; none if none is.
    lost: Vec<u8>,
    /// There may be NaN or infinity that the target does not have, and that `lost` has not.
    special: bool,
}

impl Found {
    fn lost(valid: Vec<u8>, lost: usize) -> Self {
        Self { lost: if lost > 0 { valid } else { Vec::new() }, special: false }
    }

    fn special(report: CastReport) -> Self {
        Self { lost: Vec::new(), special: report.nan > 0 || report.inf > 0 }
    }
}

/// A native code of up to 8 bytes.
fn read(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => unreachable!("an element has 1, 2, 4 or 8 bytes"),
    }
}
