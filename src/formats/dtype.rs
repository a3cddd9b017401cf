//! The dtypes and the constants of their formats.

use core::fmt;
use core::str::FromStr;

use super::layout::{Packing, checked_bytes};
use super::list::dtypes;
use super::name::NameError;

macro_rules! define_dtype {
    ($($variant:ident = $code:literal, $name:literal, $element:ty, $kind:expr;)*) => {
        /// A dtype: what the bits of one element mean.
        ///
        /// The discriminants are stable and are also the codes of the C interface.
        ///
        /// ```
        /// use lanecast::DType;
        ///
        /// let t: DType = "float8_e4m3fn".parse()?;
        /// assert_eq!(t, DType::F8E4M3FN);
        /// assert_eq!((t.name(), t.bits(), t.code()), ("float8_e4m3fn", 8, 18));
        /// # Ok::<(), lanecast::NameError>(())
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum DType { $(#[doc = concat!("`", $name, "`")] $variant = $code,)* }

        impl DType {
            /// Every dtype, in the order of the codes. Its length grows with new dtypes: take it as a slice.
            ///
            /// ```
            /// use lanecast::DType;
            /// assert!(DType::ALL.iter().enumerate().all(|(i, t)| t.code() as usize == i));
            /// ```
            pub const ALL: [Self; DTYPES] = [$(Self::$variant),*];

            /// The canonical name, as in ml_dtypes and NumPy.
            ///
            /// ```
            /// assert_eq!(lanecast::DType::F6E3M2.name(), "float6_e3m2fn");
            /// ```
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The kind of the elements, with the constants of their format.
            ///
            /// ```
            /// use lanecast::{DType, Kind};
            /// let Kind::Int(format) = DType::I4.kind() else { unreachable!() };
            /// assert_eq!((format.min(), format.max()), (-8, 7));
            /// ```
            #[inline]
            pub const fn kind(self) -> Kind {
                // A table takes one load, where a match would be a branch for each dtype.
                static KINDS: [Kind; DTYPES] = [$($kind),*];
                KINDS[self as usize]
            }
        }
    };
}
dtypes!(define_dtype);

macro_rules! count {
    ($($variant:ident = $code:literal, $name:literal, $element:ty, $kind:expr;)*) => { [$($code),*].len() };
}
pub(crate) const DTYPES: usize = dtypes!(count);

/// The kind of a dtype's elements; see [`DType::kind`].
///
/// ```
/// use lanecast::{DType, Kind};
/// assert_eq!(DType::Bool.kind(), Kind::Bool);
/// assert!(matches!(DType::C64.kind(), Kind::Complex(part) if part.mantissa_bits() == 23));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// One byte: zero is false, and on input any other value is true.
    Bool,
    /// A binary integer.
    Int(IntFormat),
    /// A real floating-point number.
    Float(FloatFormat),
    /// A real and an imaginary part of this format.
    Complex(FloatFormat),
}

/// The constants of an integer format. [`DType::kind`] returns those of a dtype; there are no others.
///
/// ```
/// use lanecast::{DType, Kind};
/// let Kind::Int(format) = DType::U64.kind() else { unreachable!() };
/// assert_eq!((format.bits(), format.is_signed(), format.max()), (64, false, u64::MAX.into()));
/// ```
///
/// A format of 0 bits, whose limits would be meaningless, cannot be constructed:
///
/// ```compile_fail,E0451
/// lanecast::IntFormat { bits: 0, signed: true }.min();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IntFormat {
    /// Width in bits.
    pub(crate) bits: u32,
    /// Two's complement if set.
    pub(crate) signed: bool,
}

impl IntFormat {
    const fn signed(bits: u32) -> Self {
        Self { bits, signed: true }
    }

    const fn unsigned(bits: u32) -> Self {
        Self { bits, signed: false }
    }

    /// Width in bits.
    ///
    /// ```
    /// # use lanecast::{DType, Kind};
    /// # let Kind::Int(format) = DType::I2.kind() else { unreachable!() };
    /// assert_eq!(format.bits(), 2);
    /// ```
    #[inline]
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// Whether there are negative values, in two's complement.
    ///
    /// ```
    /// # use lanecast::{DType, Kind};
    /// # let Kind::Int(format) = DType::U2.kind() else { unreachable!() };
    /// assert!(!format.is_signed());
    /// ```
    #[inline]
    pub const fn is_signed(self) -> bool {
        self.signed
    }

    /// The smallest value.
    ///
    /// ```
    /// # use lanecast::{DType, Kind};
    /// # let Kind::Int(format) = DType::I8.kind() else { unreachable!() };
    /// assert_eq!(format.min(), -128);
    /// ```
    pub const fn min(self) -> i128 {
        if self.signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    /// The largest value.
    ///
    /// ```
    /// # use lanecast::{DType, Kind};
    /// # let Kind::Int(format) = DType::U2.kind() else { unreachable!() };
    /// assert_eq!(format.max(), 3);
    /// ```
    pub const fn max(self) -> i128 {
        (1 << (self.bits - self.signed as u32)) - 1
    }
}

/// The constants of a floating-point format. [`DType::float_format`] returns those of a dtype; there are no others.
///
/// ```
/// use lanecast::DType;
/// let f = DType::F8E4M3FN.float_format().unwrap();
/// assert_eq!((f.exponent_bits(), f.mantissa_bits(), f.bias()), (4, 3, 7));
/// assert_eq!((f.has_inf(), f.has_nan(), f.has_neg_zero()), (false, true, true));
/// assert_eq!(f.max(), 448.0);
/// assert_eq!(f.min_positive_subnormal(), 0.001953125); // 2^-9, subnormal
/// ```
///
/// The constants cannot be changed:
///
/// ```compile_fail,E0616
/// lanecast::DType::F16.float_format().unwrap().exponent_bits = 0;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FloatFormat {
    pub(crate) exponent_bits: u32,
    /// Without the hidden bit.
    pub(crate) mantissa_bits: u32,
    pub(crate) bias: i32,
    pub(crate) has_inf: bool,
    pub(crate) has_nan: bool,
    pub(crate) has_neg_zero: bool,
    pub(crate) has_sign: bool,
}

impl FloatFormat {
    pub(crate) const E8M0: Self = Self {
        exponent_bits: 8,
        mantissa_bits: 0,
        bias: 127,
        has_inf: false,
        has_nan: true,
        has_neg_zero: false,
        has_sign: false,
    };

    /// IEEE 754 layout: the top exponent holds Inf and the NaNs.
    const fn ieee(exponent_bits: u32, mantissa_bits: u32) -> Self {
        let bias = (1 << (exponent_bits - 1)) - 1;
        let fn_ = Self::fn_(exponent_bits, mantissa_bits, bias);
        Self { has_inf: true, ..fn_ }
    }

    /// `fn`: no Inf; the code with every bit but the sign set is NaN.
    const fn fn_(exponent_bits: u32, mantissa_bits: u32, bias: i32) -> Self {
        Self {
            exponent_bits,
            mantissa_bits,
            bias,
            has_inf: false,
            has_nan: true,
            has_neg_zero: true,
            has_sign: true,
        }
    }

    /// `fnuz`: no Inf and no −0, whose code is the only NaN.
    const fn fnuz(exponent_bits: u32, mantissa_bits: u32, bias: i32) -> Self {
        let fn_ = Self::fn_(exponent_bits, mantissa_bits, bias);
        Self { has_neg_zero: false, ..fn_ }
    }

    /// No sign and no Inf; the code with every bit set is NaN.
    const fn unsigned(exponent_bits: u32, mantissa_bits: u32) -> Self {
        let bias = (1 << (exponent_bits - 1)) - 1;
        let fn_ = Self::fn_(exponent_bits, mantissa_bits, bias);
        Self { has_neg_zero: false, has_sign: false, ..fn_ }
    }

    /// Every code is a finite number.
    const fn finite(exponent_bits: u32, mantissa_bits: u32, bias: i32) -> Self {
        let fn_ = Self::fn_(exponent_bits, mantissa_bits, bias);
        Self { has_nan: false, ..fn_ }
    }

    /// Width of the exponent field.
    ///
    /// ```
    /// assert_eq!(lanecast::DType::F8E5M2.float_format().unwrap().exponent_bits(), 5);
    /// ```
    #[inline]
    pub const fn exponent_bits(self) -> u32 {
        self.exponent_bits
    }

    /// Width of the mantissa field, without the hidden bit.
    ///
    /// ```
    /// assert_eq!(lanecast::DType::BF16.float_format().unwrap().mantissa_bits(), 7);
    /// ```
    #[inline]
    pub const fn mantissa_bits(self) -> u32 {
        self.mantissa_bits
    }

    /// The exponent bias: the exponent field minus the exponent.
    ///
    /// ```
    /// assert_eq!(lanecast::DType::F8E8M0.float_format().unwrap().bias(), 127);
    /// ```
    #[inline]
    pub const fn bias(self) -> i32 {
        self.bias
    }

    /// Whether there are codes for ±Inf.
    ///
    /// ```
    /// assert!(lanecast::DType::F8E4M3.float_format().unwrap().has_inf());
    /// ```
    #[inline]
    pub const fn has_inf(self) -> bool {
        self.has_inf
    }

    /// Whether there is at least one code for NaN.
    ///
    /// ```
    /// assert!(!lanecast::DType::F4E2M1.float_format().unwrap().has_nan());
    /// ```
    #[inline]
    pub const fn has_nan(self) -> bool {
        self.has_nan
    }

    /// Whether there is a negative zero.
    ///
    /// ```
    /// assert!(!lanecast::DType::F8E4M3FNUZ.float_format().unwrap().has_neg_zero());
    /// ```
    #[inline]
    pub const fn has_neg_zero(self) -> bool {
        self.has_neg_zero
    }

    /// Whether there is a sign bit.
    ///
    /// ```
    /// assert!(!lanecast::DType::F8E8M0.float_format().unwrap().has_sign());
    /// ```
    #[inline]
    pub const fn has_sign(self) -> bool {
        self.has_sign
    }

    /// Whether there is a zero. A format with neither sign nor mantissa has only powers of two.
    ///
    /// ```
    /// assert!(!lanecast::DType::F8E8M0.float_format().unwrap().has_zero());
    /// ```
    #[inline]
    pub const fn has_zero(self) -> bool {
        self.has_sign || self.mantissa_bits > 0
    }

    /// Width in bits.
    ///
    /// ```
    /// assert_eq!(lanecast::DType::F6E2M3.float_format().unwrap().bits(), 6);
    /// ```
    #[inline]
    pub const fn bits(self) -> u32 {
        self.has_sign as u32 + self.exponent_bits + self.mantissa_bits
    }

    /// The largest finite value, which is exact, as every format fits in an f64.
    ///
    /// ```
    /// assert_eq!(lanecast::DType::F16.float_format().unwrap().max(), 65504.0);
    /// ```
    pub const fn max(self) -> f64 {
        self.magnitude(self.max_code())
    }

    /// The smallest value above zero, subnormals included.
    ///
    /// ```
    /// let e8m0 = lanecast::DType::F8E8M0.float_format().unwrap();
    /// assert_eq!(e8m0.min_positive_subnormal(), 2f64.powi(-127));
    /// ```
    pub const fn min_positive_subnormal(self) -> f64 {
        self.magnitude(self.has_zero() as u64)
    }

    /// The smallest normal value.
    ///
    /// ```
    /// let e5m2 = lanecast::DType::F8E5M2.float_format().unwrap();
    /// assert_eq!(e5m2.min_positive(), 2f64.powi(-14));
    /// ```
    pub const fn min_positive(self) -> f64 {
        self.magnitude((self.has_zero() as u64) << self.mantissa_bits)
    }

    /// The distance from 1 to the next value above.
    ///
    /// ```
    /// assert_eq!(lanecast::DType::BF16.float_format().unwrap().epsilon(), 2f64.powi(-7));
    /// ```
    pub const fn epsilon(self) -> f64 {
        1.0 / (1u64 << self.mantissa_bits) as f64
    }

    /// The smallest finite value: −max, or the value closest to zero in a format without negative values.
    ///
    /// ```
    /// assert_eq!(lanecast::DType::F4E2M1.float_format().unwrap().min(), -6.0);
    /// ```
    pub const fn min(self) -> f64 {
        match (self.has_sign, self.has_zero()) {
            (true, _) => -self.max(),
            (false, true) => 0.0,
            (false, false) => self.min_positive_subnormal(),
        }
    }

    /// The value of a finite code without its sign, computed as a whole number of steps (units in the last place) of its exponent.
    const fn magnitude(self, code: u64) -> f64 {
        let (field, fraction) = (code >> self.mantissa_bits, code & ((1 << self.mantissa_bits) - 1));
        // Without a zero there are no subnormals either.
        let is_subnormal = field == 0 && self.has_zero();
        let steps = if is_subnormal { fraction } else { 1 << self.mantissa_bits | fraction };
        let step = field as i32 + is_subnormal as i32 - self.bias - self.mantissa_bits as i32;
        if steps == 0 {
            return 0.0;
        }
        let top = steps.ilog2();
        let exponent = step + top as i32;
        f64::from_bits(if exponent < -1022 {
            steps << (step + 1074)
        } else {
            ((exponent + 1023) as u64) << 52 | (steps << (52 - top) & ((1 << 52) - 1))
        })
    }

    /// The code of the largest finite value. Codes without the sign are in the order of their values,
    /// so overflow begins at `max_code() + 1`, which is Inf if the format has one.
    #[inline(always)]
    pub(crate) const fn max_code(self) -> u64 {
        let codes = 1u64 << (self.bits() - self.has_sign as u32);
        if self.has_inf {
            codes - (1 << self.mantissa_bits) - 1
        } else if self.has_nan && (self.has_neg_zero || !self.has_sign) {
            codes - 2
        } else {
            codes - 1
        }
    }

    /// Exponent of the smallest normal value.
    #[inline]
    pub(crate) const fn min_exponent(self) -> i32 {
        1 - self.bias
    }

    /// The sign bit, in place.
    #[inline]
    pub(crate) const fn sign_bit(self) -> u64 {
        (self.has_sign as u64) << (self.exponent_bits + self.mantissa_bits)
    }

    /// The top mantissa bit, which makes a NaN quiet. Zero if there is no mantissa.
    #[inline]
    pub(crate) const fn quiet_bit(self) -> u64 {
        (1 << self.mantissa_bits) >> 1
    }
}

/// The results of [`DType::part`] for every dtype.
static PARTS: [DType; DTYPES] = {
    let mut parts = DType::ALL;
    let mut i = 0;
    while i < DTYPES {
        parts[i] = parts[i].find_part();
        i += 1;
    }
    parts
};

impl DType {
    /// Width of one element in bits.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!([DType::I2, DType::F6E2M3, DType::C128].map(DType::bits), [2, 6, 128]);
    /// ```
    #[inline]
    pub const fn bits(self) -> u32 {
        static BITS: [u8; DTYPES] = {
            let mut bits = [0; DTYPES];
            let mut i = 0;
            while i < DTYPES {
                bits[i] = match DType::ALL[i].kind() {
                    Kind::Bool => 8,
                    Kind::Int(format) => format.bits,
                    Kind::Float(format) => format.bits(),
                    Kind::Complex(part) => 2 * part.bits(),
                } as u8;
                i += 1;
            }
            bits
        };
        BITS[self as usize] as u32
    }

    /// The stable number of this dtype, also its code in the C interface.
    ///
    /// ```
    /// assert_eq!(lanecast::DType::BF16.code(), 25);
    /// ```
    #[inline]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The dtype with this code, if there is one.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!(DType::from_code(24), Some(DType::F16));
    /// assert_eq!(DType::from_code(u8::MAX), None);
    /// ```
    pub const fn from_code(code: u8) -> Option<Self> {
        if (code as usize) < DTYPES { Some(Self::ALL[code as usize]) } else { None }
    }

    /// The constants of a real floating-point dtype; None for any other dtype.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!(DType::BF16.float_format().unwrap().mantissa_bits(), 7);
    /// assert!(DType::I8.float_format().is_none());
    /// ```
    pub const fn float_format(self) -> Option<FloatFormat> {
        match self.kind() {
            Kind::Float(format) => Some(format),
            _ => None,
        }
    }

    /// The dtype of the parts of a complex dtype. An element of any other dtype is its own only part.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!(DType::C64.part(), DType::F32);
    /// assert_eq!(DType::I8.part(), DType::I8);
    /// ```
    #[must_use]
    #[inline]
    pub const fn part(self) -> Self {
        PARTS[self as usize]
    }

    /// Finds the float dtype with the format of the parts.
    const fn find_part(self) -> Self {
        let Kind::Complex(part) = self.kind() else { return self };
        let mut i = 0;
        while i < DTYPES {
            // The widths suffice: all formats of parts have a sign, Inf and NaN.
            if let Kind::Float(format) = Self::ALL[i].kind()
                && format.exponent_bits == part.exponent_bits
                && format.mantissa_bits == part.mantissa_bits
            {
                return Self::ALL[i];
            }
            i += 1;
        }
        panic!("a complex dtype whose parts are no dtype")
    }

    /// Whether the dtype has fewer than 8 bits, so that [`Packing`] says how its elements lie in bytes.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert!(DType::F6E2M3.is_packed() && !DType::Bool.is_packed());
    /// ```
    pub const fn is_packed(self) -> bool {
        self.bits() < 8
    }

    pub(crate) const fn is_int(self) -> bool {
        matches!(self.kind(), Kind::Int(_))
    }

    /// NumPy's character for the kind: `b` bool, `u` unsigned, `i` signed, `f` float, `c` complex.
    ///
    /// The dtypes of ml_dtypes have these characters, too, although NumPy has `V` for most of them.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!([DType::Bool, DType::U4, DType::BF16].map(DType::kind_char), ['b', 'u', 'f']);
    /// ```
    pub const fn kind_char(self) -> char {
        match self.kind() {
            Kind::Bool => 'b',
            Kind::Int(format) if format.signed => 'i',
            Kind::Int(_) => 'u',
            Kind::Float(_) => 'f',
            Kind::Complex(_) => 'c',
        }
    }

    /// The number of bytes of a single element; one of fewer than 8 bits takes a byte.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!([DType::I4, DType::F16, DType::C128].map(DType::itemsize), [1, 2, 16]);
    /// ```
    pub const fn itemsize(self) -> usize {
        self.bits().div_ceil(8) as usize
    }

    /// The alignment that NumPy requires, in bytes: the size of one part.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!([DType::I4, DType::F64, DType::C128].map(DType::alignment), [1, 8, 8]);
    /// ```
    pub const fn alignment(self) -> usize {
        self.part().itemsize()
    }

    /// The size in bytes of a buffer of `n` elements; None if that overflows `usize`.
    ///
    /// `packing` only matters for dtypes of fewer than 8 bits.
    ///
    /// ```
    /// use lanecast::{DType, Packing};
    /// assert_eq!(DType::F6E2M3.byte_len(5, Packing::LowFirst), Some(4)); // 30 bits
    /// assert_eq!(DType::F6E2M3.byte_len(5, Packing::OnePerByte), Some(5));
    /// assert_eq!(DType::F64.byte_len(usize::MAX, Packing::LowFirst), None);
    /// ```
    pub const fn byte_len(self, n: usize, packing: Packing) -> Option<usize> {
        checked_bytes(n, self.bits_in_memory(packing) as usize)
    }

    /// The bits that an element takes in a buffer.
    pub(crate) const fn bits_in_memory(self, packing: Packing) -> u32 {
        if self.is_packed() && matches!(packing, Packing::OnePerByte) { 8 } else { self.bits() }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = NameError;

    /// Returns the dtype with this canonical name, which must match exactly.
    fn from_str(name: &str) -> Result<Self, NameError> {
        let found = Self::ALL.into_iter().find(|dtype| dtype.name() == name);
        found.ok_or_else(|| NameError::new("dtype", name, &Self::ALL.map(Self::name)).near(near(name)))
    }
}

/// Common names of dtypes elsewhere, compared without regard to case. `f4` is left out: it may be a float of 4 bits, or NumPy's of 4 bytes.
const ELSEWHERE: [(&str, DType); 25] = [
    ("f16", DType::F16),
    ("fp16", DType::F16),
    ("half", DType::F16),
    ("bf16", DType::BF16),
    ("f32", DType::F32),
    ("fp32", DType::F32),
    ("float", DType::F32),
    ("single", DType::F32),
    ("f64", DType::F64),
    ("fp64", DType::F64),
    ("double", DType::F64),
    ("i8", DType::I8),
    ("i16", DType::I16),
    ("i32", DType::I32),
    ("i64", DType::I64),
    ("u8", DType::U8),
    ("u16", DType::U16),
    ("u32", DType::U32),
    ("u64", DType::U64),
    ("f8_e4m3", DType::F8E4M3FN),
    ("e4m3", DType::F8E4M3FN),
    ("f8_e5m2", DType::F8E5M2),
    ("e5m2", DType::F8E5M2),
    ("f8_e8m0", DType::F8E8M0),
    ("fp4", DType::F4E2M1),
];

/// The canonical name of the dtype that a name such as `f32` or `torch.int8` may mean.
#[cold]
fn near(name: &str) -> Option<&'static str> {
    let name = name.trim().rsplit('.').next().unwrap_or(name);
    let is_it = |other: &str| other.eq_ignore_ascii_case(name);
    let ours = DType::ALL.into_iter().find(|dtype| is_it(dtype.name()));
    let meant =
        ours.or_else(|| ELSEWHERE.into_iter().find(|(other, _)| is_it(other)).map(|(_, dtype)| dtype));
    meant.map(DType::name)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    /// The limits of formats that Rust and the crate half have are theirs; float8_e8m0fnu and float8_ue5m3 have known ones.
    #[test]
    fn limits_are_those_of_rust() {
        let of = |dtype: DType| {
            let f = dtype.float_format().unwrap();
            [f.max(), f.min(), f.min_positive(), f.min_positive_subnormal(), f.epsilon()]
        };
        let single = [f32::MAX, f32::MIN, f32::MIN_POSITIVE, f32::from_bits(1), f32::EPSILON];
        assert_eq!(of(DType::F32), single.map(f64::from));
        assert_eq!(of(DType::F64), [f64::MAX, f64::MIN, f64::MIN_POSITIVE, f64::from_bits(1), f64::EPSILON]);
        let half = [f16::MAX, f16::MIN, f16::MIN_POSITIVE, f16::MIN_POSITIVE_SUBNORMAL, f16::EPSILON];
        assert_eq!(of(DType::F16), half.map(f64::from));
        let brain = [bf16::MAX, bf16::MIN, bf16::MIN_POSITIVE, bf16::MIN_POSITIVE_SUBNORMAL, bf16::EPSILON];
        assert_eq!(of(DType::BF16), brain.map(f64::from));
        let least = 2f64.powi(-127);
        assert_eq!(of(DType::F8E8M0), [2f64.powi(127), least, least, least, 1.0]);
        assert_eq!(of(DType::F8UE5M3), [114688.0, 0.0, 2f64.powi(-14), 2f64.powi(-17), 0.125]);
    }

    #[test]
    fn names_and_codes_round_trip() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
            assert_eq!(DType::from_code(dtype.code()), Some(dtype));
            assert_eq!(format!("{dtype:>20}").trim_start(), dtype.name());
        }
        for wrong in ["", "Bool", "float32 ", "f32", "float8_e4m3fnu"] {
            assert!(wrong.parse::<DType>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_of_others_are_near_ours() {
        for (name, expected) in [
            ("f32", Some("float32")),
            ("bf16", Some("bfloat16")),
            ("Half", Some("float16")),
            ("BOOL", Some("bool")),
            ("torch.int8", Some("int8")),
            ("float32 ", Some("float32")),
            ("F8_E4M3", Some("float8_e4m3fn")),
            ("fp4", Some("float4_e2m1fn")),
            ("f4", None),
            ("string", None),
            ("", None),
        ] {
            assert_eq!(near(name), expected, "{name:?}");
        }
        let message = |name: &str| name.parse::<DType>().unwrap_err().to_string();
        assert!(
            message("f32")
                .starts_with("no dtype is named \"f32\"; did you mean float32? The names are bool, ")
        );
        assert!(message("string").starts_with("no dtype is named \"string\"; the names are bool, "));
    }

    #[test]
    fn byte_len_never_wraps() {
        for dtype in DType::ALL {
            for n in [0, 1, 7, 8, 9, usize::MAX / 16, usize::MAX - 1, usize::MAX] {
                for packing in [Packing::LowFirst, Packing::OnePerByte, Packing::HighFirst] {
                    let width =
                        if packing == Packing::OnePerByte { dtype.bits().max(8) } else { dtype.bits() };
                    let exact = (n as u128 * u128::from(width)).div_ceil(8);
                    assert_eq!(
                        dtype.byte_len(n, packing).map(|b| b as u128),
                        usize::try_from(exact).ok().map(|b| b as u128),
                        "{dtype} x {n} {packing:?}"
                    );
                }
            }
        }
    }
}
