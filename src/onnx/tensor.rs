//! Tensors: a shape, and numbers in ONNX's layout, or strings.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::data_type::DataType;
use super::error::Error;
use crate::cast::check_size;
use crate::error::Side;
use crate::formats::dtype::DType;
use crate::formats::layout::Packing;
use crate::text;

/// Strings in one buffer, as in Arrow: string `i` is `bytes[offsets[i]..offsets[i + 1]]`.
///
/// ```
/// use lanecast::onnx::Strings;
/// let strings: Strings = ["1.5", "-INF"].iter().collect();
/// assert_eq!((strings.len(), strings.get(1)), (2, Some("-INF")));
/// assert_eq!(strings, Strings::new(vec![0, 3, 7], b"1.5-INF".to_vec())?);
/// # Ok::<(), lanecast::text::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strings {
    offsets: Vec<i64>,
    bytes: Vec<u8>,
}

impl Strings {
    /// Makes strings of a buffer and offsets.
    ///
    /// ```
    /// use lanecast::onnx::Strings;
    /// assert_eq!(Strings::new(vec![0, 1, 3], b"abc".to_vec())?.get(1), Some("bc"));
    /// # Ok::<(), lanecast::text::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The offsets do not ascend, go beyond the bytes, or delimit bytes that are not UTF-8.
    pub fn new(offsets: Vec<i64>, bytes: Vec<u8>) -> Result<Self, text::Error> {
        text::check_offsets(&offsets, &bytes)?;
        Ok(Self { offsets, bytes })
    }

    /// Clones the strings, if there is memory for that.
    pub(super) fn try_clone(&self) -> Result<Self, text::Error> {
        let (mut offsets, mut bytes) = (Vec::new(), Vec::new());
        let reserved =
            offsets.try_reserve_exact(self.offsets.len()).and(bytes.try_reserve_exact(self.bytes.len()));
        reserved.map_err(|_| text::Error::Allocation {
            bytes: size_of_val(&self.offsets[..]) + self.bytes.len(),
        })?;
        offsets.extend_from_slice(&self.offsets);
        bytes.extend_from_slice(&self.bytes);
        Ok(Self { offsets, bytes })
    }

    /// The number of strings.
    ///
    /// ```
    /// # use lanecast::onnx::Strings;
    /// assert_eq!(["a", "b"].iter().collect::<Strings>().len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no strings.
    ///
    /// ```
    /// # use lanecast::onnx::Strings;
    /// assert!([""; 0].iter().collect::<Strings>().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The string with this index.
    ///
    /// ```
    /// # use lanecast::onnx::Strings;
    /// let strings: Strings = ["a", "b"].iter().collect();
    /// assert_eq!((strings.get(0), strings.get(2)), (Some("a"), None));
    /// ```
    pub fn get(&self, index: usize) -> Option<&str> {
        let place = |index| self.offsets.get(index).and_then(|&offset| usize::try_from(offset).ok());
        core::str::from_utf8(self.bytes.get(place(index)?..place(index.checked_add(1)?)?)?).ok()
    }

    /// Iterates over the strings in order.
    ///
    /// ```
    /// # use lanecast::onnx::Strings;
    /// let strings: Strings = ["a", "b"].iter().collect();
    /// assert_eq!(strings.iter().collect::<String>(), "ab");
    /// ```
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }

    /// The offsets, of which there is one more than strings.
    ///
    /// ```
    /// # use lanecast::onnx::Strings;
    /// assert_eq!(["a", "bc"].iter().collect::<Strings>().offsets(), [0, 1, 3]);
    /// ```
    pub fn offsets(&self) -> &[i64] {
        &self.offsets
    }

    /// The buffer.
    ///
    /// ```
    /// # use lanecast::onnx::Strings;
    /// assert_eq!(["a", "bc"].iter().collect::<Strings>().bytes(), b"abc");
    /// ```
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<S: AsRef<str>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut all = Self { offsets: vec![0], bytes: Vec::new() };
        for string in strings {
            all.bytes.extend_from_slice(string.as_ref().as_bytes());
            all.offsets.push(all.bytes.len() as i64);
        }
        all
    }
}

/// A tensor, which borrows or owns its elements.
///
/// ```
/// use lanecast::onnx::{DataType, Tensor};
/// let tensor = Tensor::new(&[2], DataType::Float16, &[0x00, 0x3C, 0x00, 0xC0])?;
/// assert_eq!((tensor.shape(), tensor.data_type()), (&[2][..], DataType::Float16));
/// # Ok::<(), lanecast::onnx::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor<'a> {
    shape: Vec<usize>,
    elements: Elements<'a>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Elements<'a> {
    Numbers(DataType, DType, Cow<'a, [u8]>),
    Strings(Cow<'a, Strings>),
}

impl<'a> Tensor<'a> {
    /// Makes a tensor of numbers in the layout of `raw_data` of `TensorProto`: little-endian, with elements of fewer than 8 bits
    /// packed from the low bits of each byte up, over the flattened tensor.
    ///
    /// ```
    /// use lanecast::onnx::{DataType, Tensor};
    /// let borrowed = Tensor::new(&[3], DataType::Int4, &[0x21, 0x03])?;
    /// let owned = Tensor::new(&[3], DataType::Int4, vec![0x21, 0x03])?;
    /// assert_eq!(borrowed, owned);
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The bytes do not have the size of the shape's elements, or the type is STRING.
    pub fn new(shape: &[usize], data_type: DataType, bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self, Error> {
        Self::of_bytes(shape, data_type, bytes.into())
    }

    #[inline(never)] // It is called from many places.
    fn of_bytes(shape: &[usize], data_type: DataType, bytes: Cow<'a, [u8]>) -> Result<Self, Error> {
        let dtype = data_type.dtype().ok_or(Error::NotBytes)?;
        check_size(Side::Source, dtype, Packing::LowFirst, count(shape)?, bytes.len())?;
        Ok(Self::made(shape, data_type, dtype, bytes))
    }

    /// Makes a tensor of bytes that have the size of its elements.
    #[inline(never)]
    pub(super) fn made(shape: &[usize], data_type: DataType, dtype: DType, bytes: Cow<'a, [u8]>) -> Self {
        Self { shape: shape.to_vec(), elements: Elements::Numbers(data_type, dtype, bytes) }
    }

    /// Makes a tensor of strings.
    ///
    /// ```
    /// use lanecast::onnx::{DataType, Strings, Tensor};
    /// let strings: Strings = ["0.5", "nan"].iter().collect();
    /// assert_eq!(Tensor::strings(&[2, 1], strings)?.data_type(), DataType::String);
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There are not as many strings as the shape has elements.
    pub fn strings(shape: &[usize], strings: Strings) -> Result<Self, Error> {
        Self::of_strings(shape, Cow::Owned(strings))
    }

    /// Makes a tensor that borrows its strings.
    ///
    /// ```
    /// use lanecast::onnx::{Strings, Tensor};
    /// let strings: Strings = ["0.5", "nan"].iter().collect();
    /// assert_eq!(Tensor::borrowed_strings(&[2], &strings)?.as_strings(), Some(&strings));
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Tensor::strings`].
    pub fn borrowed_strings(shape: &[usize], strings: &'a Strings) -> Result<Self, Error> {
        Self::of_strings(shape, Cow::Borrowed(strings))
    }

    fn of_strings(shape: &[usize], strings: Cow<'a, Strings>) -> Result<Self, Error> {
        let elements = count(shape)?;
        if elements != strings.len() {
            return Err(Error::Strings { elements, strings: strings.len() });
        }
        Ok(Self { shape: shape.to_vec(), elements: Elements::Strings(strings) })
    }

    /// The length of each dimension; empty for a scalar.
    ///
    /// ```
    /// use lanecast::onnx::{DataType, Tensor};
    /// assert_eq!(Tensor::new(&[2, 3], DataType::Bool, &[0; 6])?.shape(), [2, 3]);
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of the elements.
    ///
    /// ```
    /// use lanecast::onnx::{DataType, Tensor};
    /// assert_eq!(Tensor::new(&[], DataType::Bool, &[1])?.data_type(), DataType::Bool);
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    pub const fn data_type(&self) -> DataType {
        match &self.elements {
            Elements::Numbers(data_type, ..) => *data_type,
            Elements::Strings(_) => DataType::String,
        }
    }

    /// The bytes, unless the elements are strings.
    ///
    /// ```
    /// use lanecast::onnx::{DataType, Tensor};
    /// assert_eq!(Tensor::new(&[2], DataType::Uint4, &[0x21])?.bytes(), Some(&[0x21][..]));
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.elements {
            Elements::Numbers(.., bytes) => Some(bytes),
            Elements::Strings(_) => None,
        }
    }

    /// The strings, if the elements are strings.
    ///
    /// ```
    /// use lanecast::onnx::{DataType, Tensor};
    /// assert_eq!(Tensor::new(&[2], DataType::Uint4, &[0x21])?.as_strings(), None);
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    pub fn as_strings(&self) -> Option<&Strings> {
        match &self.elements {
            Elements::Numbers(..) => None,
            Elements::Strings(strings) => Some(strings),
        }
    }

    pub(super) const fn elements(&self) -> &Elements<'a> {
        &self.elements
    }

    /// The number of elements.
    pub(super) fn count(&self) -> usize {
        // Overflow was checked when the tensor was made. A product with a factor 0 is 0, even if it overflows on the way.
        self.shape.iter().fold(1, |n: usize, &length| n.wrapping_mul(length))
    }
}

/// The number of elements of a shape: 0 if a dimension has length 0, however long the others are.
fn count(shape: &[usize]) -> Result<usize, Error> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = shape.iter().try_fold(1usize, |n, &length| n.checked_mul(length));
    product.ok_or_else(|| Error::ShapeOverflow { shape: shape.to_vec() })
}
