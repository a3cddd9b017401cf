//! The cast of Zarr's codec [`cast_value`](https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value): a map replaces
//! given values by others, and values that the destination does not have are refused.

use alloc::vec::Vec;
use core::fmt;
use core::mem::MaybeUninit;

use crate::cast::Caster;
use crate::checked::{Marks, each_some, read};
use crate::error::{Error, Lossy};
use crate::formats::dtype::{DType, Kind};
use crate::formats::layout::Packing;
use crate::formats::loss::Loss;
use crate::formats::options::{CastOptions, Overflow, Rounding};
use crate::kernels::check::{Bits, CodeRange, Codes, Fit, Loops, MAX_CODES, Scan};
use crate::kernels::memory::Destination;
use crate::room::{collected, filled, vec_with_capacity};

/// Why a codec could not be made, or a cast failed.
///
/// ```
/// use lanecast::{zarr::{ValueCaster, ZarrError}, DType, Rounding};
/// let error = ValueCaster::new(DType::C64, DType::F32, Rounding::NearestEven, None, &[]).unwrap_err();
/// assert_eq!(error, ZarrError::Unsupported { dtype: DType::C64 });
/// assert_eq!(error.to_string(), "cast_value casts only integers and floats; complex64 is neither");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ZarrError {
    /// The codec has no rule for bool and complex numbers.
    Unsupported {
        /// The dtype.
        dtype: DType,
    },
    /// Neither the map nor a rule says what an element becomes. The contents of the destination are unspecified.
    Refused(Lossy),
    /// An error of the cast itself: nothing was written if a buffer has a wrong size; if memory is missing, the contents of the destination
    /// are unspecified.
    Cast(Error),
}

impl fmt::Display for ZarrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { dtype } => {
                write!(f, "cast_value casts only integers and floats; {dtype} is neither")
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

/// The bytes, on either side, that are cast before mapped and refused elements are looked for among them: near caches still have them.
const TILE: usize = 128 << 10;

/// A range that contains no code.
const NO_CODES: CodeRange = CodeRange { mask: 0, low: 1, high: 1 };

/// The codes of infinity and those of NaN in a float; no codes for an integer.
#[inline(never)]
fn special(dtype: DType) -> [CodeRange; 2] {
    let Some(format) = dtype.float_format() else { return [NO_CODES; 2] };
    let magnitude = u64::MAX >> (64 - dtype.bits() + u32::from(format.has_sign()));
    let one = |code| CodeRange { mask: magnitude, low: code, high: code };
    if format.has_inf() {
        // All exponent bits are set.
        let inf = magnitude >> format.mantissa_bits() << format.mantissa_bits();
        return [one(inf), CodeRange { low: inf + 1, high: magnitude, ..one(0) }];
    }
    let all = all(dtype);
    let nan = match (format.has_nan(), format.has_neg_zero() || !format.has_sign()) {
        (false, _) => NO_CODES,
        (true, true) => one(magnitude),
        // NaN has the code that -0 would have.
        (true, false) => CodeRange { mask: all, low: all ^ magnitude, high: all ^ magnitude },
    };
    [NO_CODES, nan]
}

/// The codes of `from` that have no value in `to`: infinity, NaN, or both in one range, as the codes of NaN follow that of infinity.
fn refused(from: DType, to: DType) -> Option<CodeRange> {
    let (has_inf, has_nan) = to.float_format().map_or((false, false), |to| (to.has_inf(), to.has_nan()));
    let [inf, nan] = special(from);
    match (has_inf || inf.mask == 0, has_nan || nan.mask == 0) {
        (true, true) => None,
        (true, false) => Some(nan),
        (false, true) => Some(inf),
        (false, false) => Some(CodeRange { high: nan.high, ..inf }),
    }
}

/// The codes whose values equal that of `code`: -0 equals 0, and every NaN equals every other.
fn equal(dtype: DType, code: u64) -> CodeRange {
    let (all, [_, nan]) = (all(dtype), special(dtype));
    if nan.has(code & all) {
        return nan;
    }
    match dtype.float_format() {
        Some(format) if format.has_neg_zero() && code & (all >> 1) == 0 => {
            CodeRange { mask: all >> 1, low: 0, high: 0 }
        }
        _ => CodeRange { mask: all, low: code & all, high: code & all },
    }
}

/// The key, or for zero, which has two codes, a key for each of them.
fn ones(dtype: DType, key: CodeRange) -> impl Iterator<Item = CodeRange> {
    let all = all(dtype);
    let one = |code| CodeRange { mask: all, low: code, high: code };
    let is_zero = key.mask != all && key.high == 0;
    let keys = if is_zero { [Some(one(0)), Some(one(all ^ key.mask))] } else { [Some(key), None] };
    keys.into_iter().flatten()
}

/// Moves the keys of a single code before all others, because they are found faster.
fn ones_first(keys: &mut [CodeRange], bytes: usize) {
    let mut ones = 0;
    for i in 0..keys.len() {
        if keys[i].is_single(bytes) {
            keys.swap(ones, i);
            ones += 1;
        }
    }
}

/// Whether negative elements have their highest bit set.
fn has_sign(dtype: DType) -> bool {
    match dtype.kind() {
        Kind::Int(format) => format.is_signed(),
        Kind::Float(format) => format.has_sign(),
        Kind::Bool | Kind::Complex(_) => false,
    }
}

/// A mask of all bits of a code.
fn all(dtype: DType) -> u64 {
    u64::MAX >> (64 - dtype.bits())
}

/// Writes a code in native byte order, as `read` reads it.
fn put(element: &mut [u8], code: u64) {
    match element.len() {
        1 => element.copy_from_slice(&(code as u8).to_ne_bytes()),
        2 => element.copy_from_slice(&(code as u16).to_ne_bytes()),
        4 => element.copy_from_slice(&(code as u32).to_ne_bytes()),
        _ => element.copy_from_slice(&code.to_ne_bytes()),
    }
}

/// Adds to `made` what the caster makes of the codes that match `keys`; there is room for four of each key.
#[inline(never)]
fn add_made(caster: &Caster, keys: &[CodeRange], made: &mut Vec<CodeRange>) -> Result<(), Error> {
    /// How many keys have their codes cast at once: a call of the kernel takes longer than its elements.
    const AT_ONCE: usize = 16;
    let (from, to) = (caster.from(), caster.to());
    let ([size, made_size], [_, nan]) = ([from, to].map(DType::itemsize), special(to));
    for keys in keys.chunks(AT_ONCE) {
        let (mut ends, mut n) = ([0; 4 * AT_ONCE], 0);
        for &CodeRange { mask, low, high } in keys {
            // These cover both zeros, infinities of both signs, and NaN, all codes of which become the same integer.
            let sign = all(from) & !mask;
            ends[n..n + 4].copy_from_slice(&[low, high, low | sign, high | sign]);
            // A key of a single code has only this one.
            n += if low == high && sign == 0 { 1 } else { 4 };
        }
        let (mut codes, mut becomes) = ([0; 4 * 8 * AT_ONCE], [0; 4 * 8 * AT_ONCE]);
        codes.chunks_exact_mut(size).zip(&ends[..n]).for_each(|(element, &code)| put(element, code));
        let becomes = &mut becomes[..n * made_size];
        caster.cast(&codes[..n * size], becomes, n)?;
        for code in becomes.chunks_exact(made_size).map(|element| read(element) & all(to)) {
            // For NaN all its codes: which one results may depend on the source's.
            let key = if nan.has(code) { nan } else { CodeRange { mask: all(to), low: code, high: code } };
            if made.iter().all(|made| made.low != key.low) {
                made.push(key);
            }
        }
    }
    Ok(())
}

/// The codec for one pair of dtypes and one set of rules. Make one, and keep it. Elements are whole bytes in the byte order of the machine;
/// those of fewer than 8 bits take a byte each.
///
/// The first of these that applies decides what an element becomes:
///
/// 1. `map`: pairs of the code of a source value and the code that it becomes. The first match counts; a NaN matches any NaN, and −0 matches 0.
/// 2. The same value, if the destination has it.
/// 3. `rounding`; and if the result is out of range, `out_of_range`: [`Saturate`](Overflow::Saturate), which Zarr calls `clamp`, gives the
///    nearest value, or infinity if the destination has it; [`Wrap`](Overflow::Wrap), for integers only, takes the result modulo 2 to the
///    number of their bits.
///
/// All other elements are refused: those out of range without a rule for these, and NaN and infinity if the destination does not have them.
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
/// assert_eq!(lossy.to_string(), "element 2, inf, is not preserved in uint8");
/// # Ok::<(), ZarrError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ValueCaster {
    caster: Caster,
    /// The codes of source values that are mapped, and the code that each becomes.
    map: Vec<(CodeRange, u64)>,
    /// The codes that are looked for after the cast: those of mapped values that the destination has; and those that it does not have, unless the
    /// cast marks these.
    keys: Vec<CodeRange>,
    /// The code that every element with one of the keys becomes, if it is the same for all, and none is refused.
    only: Option<u64>,
    /// A range of elements that have none of the keys, for floats without a map: scanning for it is faster than looking for the keys.
    finite: Option<Fit>,
    /// What elements with one of the keys become, if it is faster to look for these first, because they have fewer bytes.
    made: Vec<CodeRange>,
    /// Whether the cast marks lost elements, which are then mapped, become infinity, or are refused.
    marks: bool,
    /// The codes of the source that the destination does not have.
    refused: Option<CodeRange>,
    /// The code of infinity, if the rounding may stop at the largest value instead.
    stops: Option<u64>,
}

impl ValueCaster {
    /// Makes the codec of a pair of dtypes. [`CastOptions::zarr`] says how values are rounded.
    ///
    /// ```
    /// use lanecast::{zarr::{ValueCaster, ZarrError}, DType, Rounding};
    /// // No rule for what is out of range, and no map: 300 is refused.
    /// let caster = ValueCaster::new(DType::I16, DType::U8, Rounding::NearestEven, None, &[])?;
    /// let refused = caster.cast(&300i16.to_ne_bytes(), &mut [0], 1).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "element 0, 300, is above the range of uint8; neither out_of_range nor scalar_map says what it becomes",
    /// );
    /// # Ok::<(), ZarrError>(())
    /// ```
    ///
    /// If the destination is a float, [`Overflow::Wrap`] is the same as no `out_of_range`. Only the low bits of the codes in `map` count, as many as
    /// an element has.
    ///
    /// # Errors
    ///
    /// A dtype is neither an integer nor a float, the environment variable `LANECAST_ISA` names no instruction set that is available, or there is no
    /// memory for the codec.
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
        let [inf, _] = special(to);
        let directed = !matches!(rounding, Rounding::NearestEven | Rounding::NearestAway);
        let no_memory = |_| Error::PlanAllocation { from, to };
        let mut keys = vec_with_capacity(2 * map.len() + 1).map_err(no_memory)?;
        let map = collected(map.iter().map(|&(key, value)| (equal(from, key), value & all(to))))
            .map_err(no_memory)?;
        let refused = refused(from, to);
        let stops = (inf.mask != 0 && directed && out_of_range.is_some()).then_some(inf.low);
        let marks = (out_of_range.is_none() || stops.is_some()) && !from.is_lossless_to(to);
        let is_refused = |key: &CodeRange| refused.is_some_and(|refused| refused.has(key.low));
        let mapped = map.iter().map(|&(key, _)| key).filter(|key| !is_refused(key));
        keys.extend(mapped.chain(refused.filter(|_| !marks)).flat_map(|key| ones(from, key)));
        ones_first(&mut keys, from.itemsize());
        let only = map.first().map(|&(_, value)| value);
        let only =
            only.filter(|only| map.iter().all(|(_, value)| value == only) && (marks || refused.is_none()));
        let caster = Caster::new(from, to, &options)?;
        let mut made = Vec::new();
        // The refused codes have the largest magnitudes: those of NaN, and mostly of infinity.
        let finite = refused.filter(|key| map.is_empty() && key.high > key.low);
        let finite = finite.map(|key| Fit {
            scan: Scan::Floats,
            low: 0,
            limit: key.low - 1,
            least: 0,
            cut: 0,
            inside: 0,
        });
        // With more keys than this, only the source is searched: what each of them becomes would have to be found.
        if to.itemsize() < from.itemsize() && !map.is_empty() && keys.len() <= 64 {
            made = vec_with_capacity(4 * keys.len()).map_err(no_memory)?;
            add_made(&caster, &keys, &mut made)?;
            ones_first(&mut made, to.itemsize());
        }
        Ok(Self { caster, map, keys, only, finite, made, marks, refused, stops })
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
    /// An element is refused, of which the error names the first, or there is no memory for what the cast records about its elements: the
    /// contents of the destination are then unspecified. Or a buffer does not have the size of `n` elements, and nothing was written.
    pub fn cast(&self, src: &[u8], dst: &mut [u8], n: usize) -> Result<(), ZarrError> {
        self.fill(src, dst.into(), n).map(|_| ())
    }

    /// As [`cast`](Self::cast), to memory that need not be initialised and is returned initialised.
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
        self.fill(src, dst.into(), n)
    }

    #[allow(unsafe_code, reason = "what was written is initialised")]
    fn fill<'a>(
        &self,
        src: &[u8],
        mut dst: Destination<'a, u8>,
        n: usize,
    ) -> Result<&'a mut [u8], ZarrError> {
        self.caster.check(src.len(), dst.size(), n)?;
        let sizes = [self.from(), self.to()].map(DType::itemsize);
        let most = if self.keys.is_empty() { n.max(1) } else { TILE / sizes[0].max(sizes[1]) };
        let no_memory = |_| Error::Allocation { dtype: self.to(), elements: n };
        let bits = if self.marks { n.min(most) } else { 0 };
        let mut valid = filled(0, bits.div_ceil(8)).map_err(no_memory)?;
        for first in (0..n).step_by(most) {
            let end = n.min(first + most);
            let src = &src[first * sizes[0]..end * sizes[0]];
            let dst = dst.part(first * sizes[1]..end * sizes[1]);
            self.piece(src, dst, end - first, &mut valid).map_err(|error| match error {
                ZarrError::Refused(lossy) => {
                    ZarrError::Refused(Lossy { index: first + lossy.index, ..lossy })
                }
                other => other,
            })?;
        }
        // SAFETY: the pieces cover the whole destination, and each of them has been cast.
        Ok(unsafe { dst.assume_init() })
    }

    /// Casts a piece, and looks for mapped and refused elements in it.
    fn piece(
        &self,
        src: &[u8],
        dst: Destination<'_, u8>,
        n: usize,
        valid: &mut [u8],
    ) -> Result<(), ZarrError> {
        let dst = if self.marks {
            let valid = &mut valid[..n.div_ceil(8)];
            let (dst, _, lost) = self.caster.checked(src, dst, n, Marks::nulls(None, valid))?;
            if lost > 0 {
                self.of_lost(src, dst, valid)?;
            }
            dst
        } else {
            self.caster.fill(src, dst, n)?
        };
        self.of_keys(src, dst)
    }

    /// Maps or refuses the lost elements, whose bits in `valid` are clear, or makes them infinity.
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

    /// Looks for the keys after the cast, and maps or refuses the elements that have one.
    fn of_keys(&self, src: &[u8], dst: &mut [u8]) -> Result<(), ZarrError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let [size, made_size] = [self.from(), self.to()].map(DType::itemsize);
        if let Some(fit) = &self.finite
            && let Some(loops) = Loops::of(self.caster.present())
            && loops.scan(Codes { bytes: src, width: size }, fit, false).fits
        {
            return Ok(());
        }
        for (piece, codes) in src.chunks(MAX_CODES * size).enumerate() {
            let (first, n) = (piece * MAX_CODES, codes.len() / size);
            let mut bits = Bits::default();
            let made = &mut dst[first * made_size..(first + n) * made_size];
            if !self.suspects(codes, made, n, &mut bits) {
                continue;
            }
            let mut is_refused = None;
            each_some(&bits[..n.div_ceil(64)], &mut |some| {
                is_refused = is_refused.or(match made_size {
                    1 => self.replace::<1>(codes, made, some),
                    2 => self.replace::<2>(codes, made, some),
                    4 => self.replace::<4>(codes, made, some),
                    _ => self.replace::<8>(codes, made, some),
                });
            });
            if let Some(i) = is_refused {
                return Err(self.error(src, first + i));
            }
        }
        Ok(())
    }

    /// Replaces some elements, of `SIZE` bytes each, by what the map makes of them. Returns the first one that is refused.
    fn replace<const SIZE: usize>(&self, codes: &[u8], made: &mut [u8], some: &[u16]) -> Option<usize> {
        let ((elements, _), size) = (made.as_chunks_mut::<SIZE>(), self.from().itemsize());
        if let Some(value) = self.only.filter(|_| self.made.is_empty()) {
            let mut element = [0; SIZE];
            put(&mut element, value);
            some.iter().for_each(|&i| elements[usize::from(i)] = element);
            return None;
        }
        let mut is_refused = None;
        for i in some.iter().map(|&i| usize::from(i)) {
            let code = read(&codes[i * size..][..size]);
            match self.mapped(code) {
                Some(value) => put(&mut elements[i], value),
                None if self.refused.is_some_and(|refused| refused.has(code)) => {
                    is_refused = is_refused.or(Some(i));
                }
                // Another value, which becomes the same element as one with a key.
                None => {}
            }
        }
        is_refused
    }

    /// Sets the bits of all elements that have one of the keys, and possibly of a few others. Returns whether any bits are set.
    fn suspects(&self, codes: &[u8], made: &[u8], n: usize, bits: &mut Bits) -> bool {
        if !self.made.is_empty() {
            let found = self.find(made, self.to().itemsize(), &self.made, bits);
            if found <= n / 16 {
                return found > 0;
            }
            *bits = Bits::default();
        }
        self.find(codes, self.from().itemsize(), &self.keys, bits) > 0
    }

    /// Sets the bits of the codes that have one of some keys. Returns how many they are, or a larger number.
    fn find(&self, bytes: &[u8], width: usize, keys: &[CodeRange], bits: &mut Bits) -> usize {
        if let Some(loops) = Loops::of(self.caster.present()) {
            return loops.find(Codes { bytes, width }, keys, bits);
        }
        let mut found = 0;
        for (i, element) in bytes.chunks_exact(width).enumerate() {
            let code = read(element);
            if keys.iter().any(|key| key.has(code)) {
                bits[i / 64] |= 1 << (i % 64);
                found += 1;
            }
        }
        found
    }

    /// What the map makes of a code.
    fn mapped(&self, code: u64) -> Option<u64> {
        self.map.iter().find(|(key, _)| key.has(code)).map(|&(_, value)| value)
    }

    fn write(&self, dst: &mut [u8], i: usize, code: u64) {
        let size = self.to().itemsize();
        put(&mut dst[i * size..][..size], code);
    }

    /// The error of an element that is refused.
    fn error(&self, src: &[u8], i: usize) -> ZarrError {
        let (from, to, mut room) = (self.from(), self.to(), [0; 8]);
        let element = &src[i * from.itemsize()..][..from.itemsize()];
        // A checked cast of this element alone says what it would lose.
        match self.caster.try_cast(element, &mut room[..to.itemsize()], 1) {
            Err(Error::Lossy(lossy)) => ZarrError::Refused(Lossy { index: i, ..lossy }),
            Err(error) => ZarrError::Cast(error),
            // Not reached, because a refused element would lose something.
            Ok(()) => {
                let codes = [read(element), 0];
                ZarrError::Refused(Lossy { index: i, loss: Loss::Inexact, from, to, codes })
            }
        }
    }
}
