//! The cast of cast_value, of bytes: nothing here knows a trait of zarrs.

use std::fmt;

use lanecast::{CastOptions, Caster, DType, Kind, Overflow, Packing};
use serde::Deserialize;

/// How what a data type does not have is rounded.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// To the nearest, ties to even.
    #[default]
    NearestEven,
    /// Toward zero.
    TowardsZero,
    /// Up.
    TowardsPositive,
    /// Down.
    TowardsNegative,
    /// To the nearest, ties away from zero.
    NearestAway,
}

/// What becomes of what is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutOfRange {
    /// The nearest value, or infinity where there is one.
    Clamp,
    /// What is the same modulo 2 to the bits of an integer.
    Wrap,
}

/// Why elements are not cast.
#[derive(Clone, Debug)]
pub enum Error {
    /// An element becomes nothing that the target has.
    Lost(lanecast::Error),
    /// Anything else.
    Other(lanecast::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(error) => {
                write!(f, "cast_value: {error}; neither out_of_range nor scalar_map says what it becomes")
            }
            Self::Other(error) => write!(f, "cast_value: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// The dtype of a data type's name, if the specification lets it be cast.
pub fn dtype(name: &str) -> Option<DType> {
    const NAMES: &str = "int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 \
        float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2 \
        float8_e5m2fnuz float8_e8m0fnu bfloat16 float16 float32 float64";
    NAMES.split(' ').any(|known| known == name).then(|| name.parse().ok()).flatten()
}

/// Bytes of an element: those of fewer than 8 bits have one each.
pub(crate) fn size(dtype: DType) -> usize {
    dtype.bits().div_ceil(8) as usize
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

    /// What is infinite and what is NaN, in one: NaN has the codes after infinity. None if neither is.
    fn both([inf, nan]: [Self; 2]) -> Option<Self> {
        match (inf.mask, nan.mask) {
            (0, 0) => None,
            (0, _) => Some(nan),
            (_, 0) => Some(inf),
            _ => Some(Self { high: nan.high, ..inf }),
        }
    }

    fn has(&self, code: u64) -> bool {
        (code & self.mask).wrapping_sub(self.low) <= self.high - self.low
    }
}

/// The codes of a float that are infinite, and those that are NaN.
fn special(dtype: DType) -> [Codes; 2] {
    let Some(format) = dtype.float_format() else { return [Codes::NONE; 2] };
    let magnitude = u64::MAX >> (64 - dtype.bits() + u32::from(format.has_sign()));
    let one = |code| Codes { mask: magnitude, low: code, high: code };
    if format.has_inf() {
        // All ones in the exponent.
        let inf = magnitude >> format.mantissa_bits() << format.mantissa_bits();
        return [one(inf), Codes { low: inf + 1, high: magnitude, ..one(0) }];
    }
    let all = u64::MAX >> (64 - dtype.bits());
    let nan = match (format.has_nan(), format.has_neg_zero() || !format.has_sign()) {
        (false, _) => Codes::NONE,
        (true, true) => one(magnitude),
        // Where -0 would be.
        (true, false) => Codes { mask: all, low: all ^ magnitude, high: all ^ magnitude },
    };
    [Codes::NONE, nan]
}

/// The codes that equal one: -0 is 0, and any NaN is any other.
fn equal(dtype: DType, code: u64) -> Codes {
    let all = u64::MAX >> (64 - dtype.bits());
    let [_, nan] = special(dtype);
    if nan.has(code & all) {
        return nan;
    }
    match dtype.float_format() {
        Some(format) if format.has_neg_zero() && code & (all >> 1) == 0 => {
            Codes { mask: all >> 1, low: 0, high: 0 }
        }
        _ => Codes { mask: all, low: code & all, high: code & all },
    }
}

/// A cast of elements in native bytes.
#[derive(Clone, Debug)]
pub struct Cast {
    caster: Caster,
    out_of_range: Option<OutOfRange>,
    /// The source values that become something else, and what: the first that matches counts.
    map: Vec<(Codes, Vec<u8>)>,
    /// What of the source the target does not have, and no rule says what becomes of it.
    refused: [Codes; 2],
    /// Rounding stops at the largest value where out of range is infinity.
    stops: bool,
}

impl Cast {
    /// A cast of `from` to `to`. Both sides of a map are elements in native bytes.
    ///
    /// # Errors
    ///
    /// The instruction set that `LANECAST_ISA` names is not available.
    pub fn new(
        from: DType,
        to: DType,
        rounding: Rounding,
        out_of_range: Option<OutOfRange>,
        map: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<Self, Error> {
        let rounded = match rounding {
            Rounding::NearestEven => lanecast::Rounding::NearestEven,
            Rounding::NearestAway => lanecast::Rounding::NearestAway,
            Rounding::TowardsZero => lanecast::Rounding::TowardZero,
            Rounding::TowardsPositive => lanecast::Rounding::Up,
            Rounding::TowardsNegative => lanecast::Rounding::Down,
        };
        // Only integers wrap.
        let out_of_range =
            out_of_range.filter(|&rule| rule == OutOfRange::Clamp || matches!(to.kind(), Kind::Int(_)));
        let overflow =
            if out_of_range == Some(OutOfRange::Wrap) { Overflow::Wrap } else { Overflow::Saturate };
        let options = CastOptions::zarr(rounded, overflow)
            .src_packing(Packing::OnePerByte)
            .dst_packing(Packing::OnePerByte);
        let (has_inf, has_nan) = to.float_format().map_or((false, false), |to| (to.has_inf(), to.has_nan()));
        let [inf, nan] = special(from);
        let map = map.iter().map(|(key, value)| (equal(from, read(key)), value.clone())).collect();
        Ok(Self {
            caster: Caster::new(from, to, &options).map_err(Error::Other)?,
            out_of_range,
            map,
            refused: [if has_inf { Codes::NONE } else { inf }, if has_nan { Codes::NONE } else { nan }],
            stops: has_inf && !matches!(rounding, Rounding::NearestEven | Rounding::NearestAway),
        })
    }

    /// Casts elements.
    ///
    /// # Errors
    ///
    /// The first that becomes nothing. Or the bytes are no whole number of elements.
    pub fn cast(&self, src: &[u8]) -> Result<Vec<u8>, Error> {
        let (from, to) = (self.caster.from(), self.caster.to());
        let n = src.len() / size(from);
        let mut out = Vec::with_capacity(n * size(to));
        let len = n * size(to);
        let room = &mut out.spare_capacity_mut()[..len];
        // Where a rule says what becomes of all that is finite, nobody needs to know what is out of range.
        let looks = self.out_of_range.is_none() || self.stops;
        let mut valid = vec![0; if looks { n.div_ceil(8) } else { 0 }];
        let lost = match self.out_of_range {
            None => self.caster.cast_validity_uninit(src, None, room, &mut valid, n).map(|(_, lost)| lost),
            Some(_) if looks => {
                let checked = self.caster.cast_checked_uninit(src, room, n, Some(&mut valid));
                checked.map(|(_, report)| report.lost())
            }
            Some(_) => self.caster.cast_uninit(src, room, n).map(|_| 0),
        }
        .map_err(Error::Other)?;
        // SAFETY: the cast has initialised all of it.
        unsafe { out.set_len(len) };
        sign_extend(to, &mut out);
        if lost > 0 {
            self.of_lost(src, &mut out, &valid)?;
        }
        let width = size(to);
        let refused = Codes::both(self.refused).filter(|_| self.out_of_range.is_some());
        if let Some(codes) = &refused {
            self.find(src, codes, |at, code| {
                let mapped = self.map.iter().find(|(codes, _)| codes.has(code));
                let (_, value) = mapped.ok_or_else(|| self.error(src, at))?;
                out[at * width..][..width].copy_from_slice(value);
                Ok(())
            })?;
        }
        for (i, (codes, value)) in self.map.iter().enumerate() {
            // Those are already what they become.
            if refused.is_some_and(|refused| refused.has(codes.low)) {
                continue;
            }
            self.find(src, codes, |at, code| {
                if !self.map[..i].iter().any(|(before, _)| before.has(code)) {
                    out[at * width..][..width].copy_from_slice(value);
                }
                Ok(())
            })?;
        }
        Ok(out)
    }

    /// What becomes of elements that are out of range, which have no bit.
    fn of_lost(&self, src: &[u8], out: &mut [u8], valid: &[u8]) -> Result<(), Error> {
        let (from, to) = (self.caster.from(), self.caster.to());
        let (width, [inf, _]) = (size(to), special(to));
        let n = src.len() / size(from);
        for i in (0..n).filter(|&i| valid[i / 8] >> (i % 8) & 1 == 0) {
            let code = read(&src[i * size(from)..][..size(from)]);
            if self.is_mapped(code) {
                continue;
            }
            if self.out_of_range.is_none() || self.refused.iter().any(|codes| codes.has(code)) {
                return Err(self.error(src, i));
            }
            if self.stops {
                let element = &mut out[i * width..][..width];
                let sign = read(element) & !(inf.mask) & u64::MAX >> (64 - to.bits());
                write(element, inf.low | sign);
            }
        }
        Ok(())
    }

    fn is_mapped(&self, code: u64) -> bool {
        self.map.iter().any(|(codes, _)| codes.has(code))
    }

    /// Calls with every element that is one of some codes.
    fn find(
        &self,
        src: &[u8],
        codes: &Codes,
        each: impl FnMut(usize, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match size(self.caster.from()) {
            1 => find(src, codes, |[a]: [u8; 1]| a.into(), each),
            2 => find(src, codes, |code| u16::from_ne_bytes(code).into(), each),
            4 => find(src, codes, |code| u32::from_ne_bytes(code).into(), each),
            _ => find(src, codes, u64::from_ne_bytes, each),
        }
    }

    /// What is wrong with an element.
    fn error(&self, src: &[u8], i: usize) -> Error {
        let (from, to) = (self.caster.from(), self.caster.to());
        let mut room = [0; 8];
        let element = &src[i * size(from)..][..size(from)];
        // The same cast of this one alone says what it is.
        match self.caster.try_cast(element, &mut room[..size(to)], 1) {
            Err(lanecast::Error::Lossy(mut lossy)) => {
                lossy.index = i;
                Error::Lost(lanecast::Error::Lossy(lossy))
            }
            Err(error) => Error::Other(error),
            Ok(()) => unreachable!("what is refused is lost"),
        }
    }
}

/// Elements at a time of which a loop without branches says whether one of them is looked for.
const RUN: usize = 64;

fn find<const BYTES: usize>(
    src: &[u8],
    codes: &Codes,
    read: impl Fn([u8; BYTES]) -> u64,
    mut each: impl FnMut(usize, u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let (elements, _) = src.as_chunks::<BYTES>();
    for (run, elements) in elements.chunks(RUN).enumerate() {
        if elements.iter().fold(false, |any, &element| any | codes.has(read(element))) {
            for (i, code) in elements.iter().map(|&element| read(element)).enumerate() {
                if codes.has(code) {
                    each(run * RUN + i, code)?;
                }
            }
        }
    }
    Ok(())
}

/// Integers of fewer than 8 bits have their sign in all upper bits of their byte in zarrs, and zeros there in lanecast.
fn sign_extend(dtype: DType, bytes: &mut [u8]) {
    if let Kind::Int(format) = dtype.kind()
        && format.is_signed()
        && format.bits() < 8
    {
        let unused = 8 - format.bits();
        bytes.iter_mut().for_each(|byte| *byte = ((*byte << unused) as i8 >> unused) as u8);
    }
}

/// A native code of up to 8 bytes.
fn read(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

fn write(bytes: &mut [u8], code: u64) {
    match bytes.len() {
        1 => bytes.copy_from_slice(&(code as u8).to_ne_bytes()),
        2 => bytes.copy_from_slice(&(code as u16).to_ne_bytes()),
        4 => bytes.copy_from_slice(&(code as u32).to_ne_bytes()),
        _ => bytes.copy_from_slice(&code.to_ne_bytes()),
    }
}
