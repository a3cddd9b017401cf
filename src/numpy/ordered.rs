//! A dtype with a byte order, which NumPy's type strings name.

use core::fmt;
use core::str::FromStr;

use crate::formats::dtype::DType;
use crate::formats::layout::ByteOrder;
use crate::formats::name::NameError;
use crate::promotion::{Casting, Dialect};

/// A dtype with a byte order, like NumPy's `dtype`. It parses and prints type strings such as `<f4` and `|b1`.
///
/// The order is that of the machine or the opposite one, and always the former for a single byte, so two
/// of these are equal if their elements have the same bytes. A dtype of ml_dtypes is printed by its name, which
/// NumPy's own strings lose.
///
/// ```
/// use lanecast::{numpy::OrderedDType, ByteOrder, DType};
///
/// let big: OrderedDType = ">i2".parse()?;
/// assert_eq!((big.dtype(), big.order()), (DType::I16, ByteOrder::Big));
/// assert_eq!(big.to_string(), ">i2");
/// assert_eq!("|b1".parse::<OrderedDType>()?, DType::Bool.into());
/// assert_eq!("=f8".parse::<OrderedDType>()?, DType::F64.into());
/// # Ok::<(), lanecast::NameError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OrderedDType {
    dtype: DType,
    swapped: bool,
}

impl OrderedDType {
    /// Makes a dtype with a byte order.
    ///
    /// ```
    /// use lanecast::{numpy::OrderedDType, ByteOrder, DType};
    /// assert_eq!(OrderedDType::new(DType::F32, ByteOrder::Little).to_string(), "<f4");
    /// ```
    pub const fn new(dtype: DType, order: ByteOrder) -> Self {
        Self { dtype, swapped: order.is_swapped() && dtype.part().bits() > 8 }
    }

    /// The dtype.
    ///
    /// ```
    /// # use lanecast::{numpy::OrderedDType, DType};
    /// assert_eq!(">f8".parse::<OrderedDType>()?.dtype(), DType::F64);
    /// # Ok::<(), lanecast::NameError>(())
    /// ```
    pub const fn dtype(self) -> DType {
        self.dtype
    }

    /// The byte order. That of the machine is always `Native`.
    ///
    /// ```
    /// use lanecast::{numpy::OrderedDType, ByteOrder};
    /// assert_eq!("=f8".parse::<OrderedDType>()?.order(), ByteOrder::Native);
    /// # Ok::<(), lanecast::NameError>(())
    /// ```
    pub const fn order(self) -> ByteOrder {
        match (self.swapped, cfg!(target_endian = "big")) {
            (false, _) => ByteOrder::Native,
            (true, true) => ByteOrder::Little,
            (true, false) => ByteOrder::Big,
        }
    }

    /// NumPy's character for the byte order: `=` that of the machine, `<` little, `>` big, `|` if it does not
    /// matter.
    ///
    /// ```
    /// use lanecast::{numpy::OrderedDType, DType};
    /// assert_eq!(OrderedDType::from(DType::I8).byteorder(), '|');
    /// assert_eq!(OrderedDType::from(DType::I16).byteorder(), '=');
    /// ```
    pub const fn byteorder(self) -> char {
        match self.order() {
            _ if self.dtype.itemsize() == 1 => '|',
            ByteOrder::Native => '=',
            ByteOrder::Little => '<',
            ByteOrder::Big => '>',
        }
    }

    /// Whether the byte order is that of this machine.
    ///
    /// ```
    /// use lanecast::{numpy::OrderedDType, DType};
    /// assert!(OrderedDType::from(DType::F32).is_native());
    /// ```
    pub const fn is_native(self) -> bool {
        !self.swapped
    }

    /// Returns the same dtype in another byte order.
    ///
    /// ```
    /// use lanecast::{numpy::OrderedDType, ByteOrder, DType};
    /// assert_eq!(OrderedDType::from(DType::U32).new_byteorder(ByteOrder::Big).to_string(), ">u4");
    /// ```
    #[must_use]
    pub const fn new_byteorder(self, order: ByteOrder) -> Self {
        Self::new(self.dtype, order)
    }

    /// Returns the same dtype in the opposite byte order.
    ///
    /// ```
    /// use lanecast::{numpy::OrderedDType, DType};
    /// assert!(!OrderedDType::from(DType::F32).swapped().is_native());
    /// assert!(OrderedDType::from(DType::I8).swapped().is_native());
    /// ```
    #[must_use]
    pub const fn swapped(self) -> Self {
        Self { swapped: !self.swapped && self.dtype.part().bits() > 8, ..self }
    }

    /// The least level that allows a cast to `to`.
    ///
    /// ```
    /// use lanecast::{numpy::OrderedDType, promotion::Casting, DType};
    /// let native = OrderedDType::from(DType::I32);
    /// assert_eq!(native.casting_to(native.swapped()), Casting::Equiv);
    /// ```
    pub const fn casting_to(self, to: Self) -> Casting {
        match self.dtype.casting_to(to.dtype) {
            Casting::No if self.swapped != to.swapped => Casting::Equiv,
            level => level,
        }
    }

    /// Whether the level allows a cast to `to`.
    ///
    /// ```
    /// use lanecast::{numpy::OrderedDType, promotion::Casting};
    /// let [little, big]: [OrderedDType; 2] = ["<i4".parse()?, ">i4".parse()?];
    /// assert!(little.can_cast(big, Casting::Equiv) && !little.can_cast(big, Casting::No));
    /// # Ok::<(), lanecast::NameError>(())
    /// ```
    pub const fn can_cast(self, to: Self, level: Casting) -> bool {
        self.casting_to(to) as u8 <= level as u8
    }
}

impl From<DType> for OrderedDType {
    /// Converts to the byte order of the machine.
    fn from(dtype: DType) -> Self {
        Self { dtype, swapped: false }
    }
}

impl fmt::Display for OrderedDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.dtype.numpy_code();
        let native = if cfg!(target_endian = "big") { '>' } else { '<' };
        match (self.byteorder(), code) {
            ('=', Some(code)) => write!(f, "{native}{code}"),
            (order, Some(code)) => write!(f, "{order}{code}"),
            // NumPy has no string for these, so the name is written, in front of which another order than the
            // machine's is given.
            ('=' | '|', None) => f.write_str(self.dtype.name()),
            (order, None) => write!(f, "{order}{}", self.dtype),
        }
    }
}

impl FromStr for OrderedDType {
    type Err = NameError;

    /// Parses what NumPy's `dtype(..)` takes as the string of a single dtype: a name, or an optional byte order
    /// and a character or a code such as `f4`. `|` is the order of the machine.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let (order, code) = match text.as_bytes().first() {
            Some(b'<') => (ByteOrder::Little, &text[1..]),
            Some(b'>') => (ByteOrder::Big, &text[1..]),
            Some(b'=' | b'|') => (ByteOrder::Native, &text[1..]),
            _ => return DType::parse(Dialect::NumPy, text).map(Self::from),
        };
        let error = || Dialect::NumPy.has_no(text);
        let dtype = DType::parse(Dialect::NumPy, code).map_err(|_| error())?;
        // An order may only stand before a character or a code, or before the name of a dtype that has no code.
        let is_code = code.len() == 1 || dtype.numpy_code().is_none_or(|known| known == code);
        if is_code { Ok(Self::new(dtype, order)) } else { Err(error()) }
    }
}
