//! The operators QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear: what each version allows, and the scalings that they use.

use alloc::borrow::{Cow, ToOwned};
use alloc::vec::Vec;

use super::cast::{Attribute, Cast};
use super::data_type::DataType;
use super::error::Error;
use super::operator::Operator;
use super::tensor::{Elements, Tensor};
use crate::error::Error as CastError;
use crate::formats::dtype::DType;
use crate::formats::layout::{ByteOrder, Packing};
use crate::formats::options::{CastOptions, NanToFinite};
use crate::room::filled;
use crate::scaled::{Dequantizer, Error as ScaledError, Profile, Quantizer, Scaling};

/// A version of one of the operators, with its attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rules {
    operator: Operator,
    version: u32,
    axis: i64,
    saturate: bool,
    block_size: usize,
    output_dtype: Option<DataType>,
    precision: Option<DataType>,
    nan_to_finite: NanToFinite,
}

/// The first version in which quantised elements may have a type.
const fn since(data_type: DataType) -> Option<u32> {
    match data_type {
        DataType::Uint8 | DataType::Int8 => Some(10),
        DataType::Float8E4M3FN
        | DataType::Float8E4M3FNUZ
        | DataType::Float8E5M2
        | DataType::Float8E5M2FNUZ => Some(19),
        DataType::Uint16 | DataType::Int16 | DataType::Uint4 | DataType::Int4 => Some(21),
        DataType::Float4E2M1 => Some(23),
        DataType::Uint2 | DataType::Int2 => Some(25),
        DataType::Float6E2M3 | DataType::Float6E3M2 => Some(28),
        _ => None,
    }
}

/// The first version in which unquantised data may have a type.
const fn data_since(data_type: DataType) -> Option<u32> {
    match data_type {
        DataType::Float | DataType::Int32 => Some(10),
        DataType::Float16 | DataType::Bfloat16 => Some(19),
        _ => None,
    }
}

/// The first version in which scales may have a type.
const fn scale_since(data_type: DataType) -> Option<u32> {
    match data_type {
        DataType::Float => Some(10),
        DataType::Float16 | DataType::Bfloat16 => Some(19),
        DataType::Float8E8M0 => Some(24),
        _ => None,
    }
}

impl Rules {
    fn new(operator: Operator, opset: u32, attributes: &[(&str, Attribute<'_>)]) -> Result<Self, Error> {
        let version = operator.version(opset).ok_or(Error::Opset { operator, opset })?;
        let mut rules = Self {
            operator,
            version,
            axis: 1,
            saturate: true,
            block_size: 0,
            output_dtype: None,
            precision: None,
            nan_to_finite: NanToFinite::NegZero,
        };
        for (i, &(name, value)) in attributes.iter().enumerate() {
            if attributes[..i].iter().any(|&(earlier, _)| earlier == name) {
                return Err(Error::Repeated { name: name.to_owned() });
            }
            rules.set(name, value)?;
        }
        Ok(rules)
    }

    fn set(&mut self, name: &str, value: Attribute<'_>) -> Result<(), Error> {
        let (operator, version) = (self.operator, self.version);
        let quantizes = operator == Operator::QuantizeLinear;
        let brought = match name {
            "axis" => Some(13),
            "saturate" if quantizes => Some(19),
            "block_size" => Some(21),
            "output_dtype" => Some(if quantizes { 21 } else { 23 }),
            "precision" if quantizes => Some(23),
            _ => None,
        };
        if brought.is_none_or(|brought| version < brought) {
            let since = brought.and_then(|brought| operator.since(brought));
            return Err(Error::Attribute { operator, version, name: name.to_owned(), since });
        }
        let name = name.to_owned();
        let Attribute::Int(value) = value else {
            return Err(Error::AttributeType { operator, version, name, expected: "INT", other: None });
        };
        let invalid = |name, expected| Error::AttributeValue { name, value: format!("{value:?}"), expected };
        match name.as_str() {
            "axis" => self.axis = value,
            "saturate" if value == 0 || value == 1 => self.saturate = value == 1,
            "saturate" => return Err(invalid(name, "0 or 1")),
            "block_size" => {
                self.block_size = usize::try_from(value).map_err(|_| invalid(name, "0 or more"))?;
            }
            // For types, 0 is UNDEFINED, the default.
            _ if value == 0 => {}
            other => {
                let data_type = DataType::from_code(value)
                    .ok_or_else(|| invalid(other.to_owned(), "0 or a code of a DataType"))?;
                if other == "precision" {
                    self.precision = Some(data_type);
                } else {
                    self.output_dtype = Some(data_type);
                }
            }
        }
        Ok(())
    }

    /// Checks that this version takes the type for the input, output or attribute `place`, where the version `brought` introduced it.
    #[inline(never)] // It is called from many places.
    fn check(&self, data_type: DataType, brought: Option<u32>, place: &'static str) -> Result<DType, Error> {
        let (operator, version) = (self.operator, self.version);
        if brought.is_none_or(|brought| version < brought) {
            let since = brought.and_then(|brought| operator.since(brought));
            return Err(Error::DataType { operator, version, data_type, place, since });
        }
        data_type.dtype().ok_or(Error::NotBytes)
    }

    /// The scaling of data of one shape by scales of another.
    fn scaling(&self, shape: &[usize], scales: &[usize], scale: DType) -> Result<Scaling, Error> {
        let invalid = |name: &str, value: &dyn core::fmt::Debug, expected| Error::AttributeValue {
            name: name.to_owned(),
            value: format!("{value:?}"),
            expected,
        };
        let is_blocked =
            self.block_size > 0 && !shape.is_empty() && (scales.len() == shape.len() || !is_one(scales));
        if !is_blocked && is_one(scales) {
            return Ok(Scaling::per_tensor(scale).profile(Profile::Onnx));
        }
        if self.version < 13 {
            return Err(Error::ScaleShape { needed: Vec::new(), given: scales.to_vec() });
        }
        let rank = shape.len() as i64;
        let axis = if self.axis < 0 { self.axis + rank } else { self.axis };
        let axis = usize::try_from(axis).ok().filter(|&axis| axis < shape.len());
        let axis = axis.ok_or_else(|| invalid("axis", &self.axis, "a dimension of the input"))?;
        let (scaling, needed) = if is_blocked {
            let scaling = Scaling::along_axis(axis, self.block_size, scale);
            (scaling, scaling.scale_shape(shape)?)
        } else {
            (Scaling::per_axis(axis).scale(scale), vec![shape[axis]])
        };
        if scales != needed {
            return Err(Error::ScaleShape { needed, given: scales.to_vec() });
        }
        Ok(scaling.profile(Profile::Onnx))
    }

    /// The quantisation of data of one shape by scales of another.
    #[inline(never)]
    fn quantizer(
        &self,
        shape: &[usize],
        scales: &[usize],
        [from, to, scale]: [DType; 3],
    ) -> Result<Quantizer, Error> {
        let mut scaling = self.scaling(shape, scales, scale)?;
        if let Some(precision) = self.precision {
            scaling = scaling.precision(self.check(precision, data_since(precision), "precision")?);
        }
        Ok(Quantizer::new(from, to, &scaling, &self.options())?)
    }

    fn options(&self) -> CastOptions {
        CastOptions::new()
            .saturate(self.saturate)
            .nan_to_finite(self.nan_to_finite)
            .src_order(ByteOrder::Little)
            .dst_order(ByteOrder::Little)
    }
}

/// Whether this is the shape of a single scale for all elements.
fn is_one(scales: &[usize]) -> bool {
    matches!(scales, [] | [1])
}

/// The bytes of a tensor of numbers.
fn numbers<'a>(tensor: &'a Tensor<'_>) -> Result<&'a [u8], Error> {
    match tensor.elements() {
        Elements::Numbers(.., bytes) => Ok(bytes),
        Elements::Strings(_) => Err(Error::NotBytes),
    }
}

/// The bytes of zero points. Unless they may count, they must be zero, only their type is used, and the result is None.
fn zero_points<'a>(
    zero: Option<&'a Tensor<'_>>,
    scale: &Tensor<'_>,
    may_count: bool,
) -> Result<Option<&'a [u8]>, Error> {
    let Some(zero) = zero else { return Ok(None) };
    if zero.shape() != scale.shape() && !(is_one(zero.shape()) && is_one(scale.shape())) {
        return Err(Error::ScaleShape { needed: scale.shape().to_vec(), given: zero.shape().to_vec() });
    }
    let bytes = numbers(zero)?;
    if may_count {
        return Ok(Some(bytes));
    }
    // Compared as float32, so that -0 is zero, too.
    let floats = Cast::new(28, DataType::Float, &[])?.run(zero)?;
    if numbers(&floats)?.as_chunks().0.iter().any(|&bytes| f32::from_le_bytes(bytes) != 0.0) {
        let what = "zero points of floats must be 0 (only those of float4 and float6 in QuantizeLinear may be other numbers)";
        return Err(ScaledError::Unsupported { what }.into());
    }
    Ok(None)
}

/// The operator `QuantizeLinear` in one of its versions.
///
/// ```
/// use lanecast::onnx::{DataType, QuantizeLinear, Tensor};
///
/// let bytes: Vec<u8> = [1.5f32, -3.0, 1e9].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let x = Tensor::new(&[3], DataType::Float, &bytes)?;
/// let scale = Tensor::new(&[], DataType::Float, 0.5f32.to_le_bytes().to_vec())?;
/// let zero = Tensor::new(&[], DataType::Uint8, &[128])?;
/// let y = QuantizeLinear::new(10, &[])?.run(&x, &scale, Some(&zero))?;
/// assert_eq!(y, Tensor::new(&[3], DataType::Uint8, &[131, 122, 255])?);
/// # Ok::<(), lanecast::onnx::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuantizeLinear {
    rules: Rules,
}

impl QuantizeLinear {
    /// Makes the operator of an opset, with its attributes.
    ///
    /// ```
    /// use lanecast::onnx::QuantizeLinear;
    /// let error = QuantizeLinear::new(19, &[("block_size", 32.into())]).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "QuantizeLinear-19 has no attribute \"block_size\"; QuantizeLinear-21 and later have it"
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// The opset has no such operator, or its version there does not have an attribute, or not with this type or value.
    pub fn new(opset: u32, attributes: &[(&str, Attribute<'_>)]) -> Result<Self, Error> {
        Ok(Self { rules: Rules::new(Operator::QuantizeLinear, opset, attributes)? })
    }

    /// Quantises a tensor. The type of the result is that of the zero point, else `output_dtype`, else UINT8. A tensor without
    /// elements gives one without elements, but its scales are checked.
    ///
    /// ```
    /// use lanecast::onnx::{DataType, QuantizeLinear, Tensor};
    /// let x = Tensor::new(&[2], DataType::Float16, &[0x00, 0x3C, 0x00, 0xC0])?;
    /// let scale = Tensor::new(&[1], DataType::Float16, &[0x00, 0x3C])?;
    /// let fp4 = QuantizeLinear::new(23, &[("output_dtype", DataType::Float4E2M1.into())])?;
    /// assert_eq!(fp4.run(&x, &scale, None)?.bytes(), Some(&[0xC2][..]));
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The version does not take one of the types, or not together; the scales do not have the shape that the input,
    /// `axis` and `block_size` need; or there is no memory for the result.
    pub fn run(
        &self,
        x: &Tensor<'_>,
        y_scale: &Tensor<'_>,
        y_zero_point: Option<&Tensor<'_>>,
    ) -> Result<Tensor<'static>, Error> {
        let rules = &self.rules;
        let from = rules.check(x.data_type(), data_since(x.data_type()), "x")?;
        let scale = rules.check(y_scale.data_type(), scale_since(y_scale.data_type()), "y_scale")?;
        if rules.version < 23 && scale != from && from != DType::I32 {
            return Err(Error::Types { first: x.data_type(), second: y_scale.data_type() });
        }
        let to_type = match (y_zero_point.map(Tensor::data_type), rules.output_dtype) {
            (Some(first), Some(second)) if first != second => return Err(Error::Types { first, second }),
            (Some(given), _) | (None, Some(given)) => given,
            (None, None) => DataType::Uint8,
        };
        let to = rules.check(to_type, since(to_type), "y")?;
        let q = rules.quantizer(x.shape(), y_scale.shape(), [from, to, scale])?;
        let is_float8 = to.float_format().is_some_and(|format| format.bits() == 8);
        let zeros = zero_points(y_zero_point, y_scale, !is_float8)?;
        let scales = numbers(y_scale)?;
        made(x, to_type, to, &mut |data, output| q.quantize_given(data, x.shape(), scales, zeros, output))
    }
}

/// The operator `DequantizeLinear` in one of its versions.
///
/// ```
/// use lanecast::onnx::{DataType, DequantizeLinear, Tensor};
///
/// let x = Tensor::new(&[2], DataType::Uint8, &[131, 122])?;
/// let scale = Tensor::new(&[], DataType::Float, 0.5f32.to_le_bytes().to_vec())?;
/// let zero = Tensor::new(&[], DataType::Uint8, &[128])?;
/// let y = DequantizeLinear::new(10, &[])?.run(&x, &scale, Some(&zero))?;
/// assert_eq!(y.bytes().unwrap(), [1.5f32, -3.0].map(f32::to_le_bytes).concat());
/// # Ok::<(), lanecast::onnx::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DequantizeLinear {
    rules: Rules,
}

impl DequantizeLinear {
    /// Makes the operator of an opset, with its attributes.
    ///
    /// ```
    /// use lanecast::onnx::DequantizeLinear;
    /// assert!(DequantizeLinear::new(21, &[("block_size", 32.into()), ("axis", (-1).into())]).is_ok());
    /// assert!(DequantizeLinear::new(21, &[("saturate", 1.into())]).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// As [`QuantizeLinear::new`].
    pub fn new(opset: u32, attributes: &[(&str, Attribute<'_>)]) -> Result<Self, Error> {
        Ok(Self { rules: Rules::new(Operator::DequantizeLinear, opset, attributes)? })
    }

    /// Dequantises a tensor. The type of the result is `output_dtype`, else that of the scale, or FLOAT if that is FLOAT8E8M0.
    ///
    /// ```
    /// use lanecast::onnx::{DataType, DequantizeLinear, Tensor};
    /// let x = Tensor::new(&[2], DataType::Float4E2M1, &[0xC2])?;
    /// let scale = Tensor::new(&[1], DataType::Float16, &[0x00, 0x3C])?;
    /// let y = DequantizeLinear::new(23, &[])?.run(&x, &scale, None)?;
    /// assert_eq!(y, Tensor::new(&[2], DataType::Float16, &[0x00, 0x3C, 0x00, 0xC0])?);
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`QuantizeLinear::run`].
    pub fn run(
        &self,
        x: &Tensor<'_>,
        x_scale: &Tensor<'_>,
        x_zero_point: Option<&Tensor<'_>>,
    ) -> Result<Tensor<'static>, Error> {
        let rules = &self.rules;
        let takes = if x.data_type() == DataType::Int32 { Some(10) } else { since(x.data_type()) };
        let from = rules.check(x.data_type(), takes, "x")?;
        let scale = rules.check(x_scale.data_type(), scale_since(x_scale.data_type()), "x_scale")?;
        let to_type = match rules.output_dtype {
            Some(given) => given,
            None if scale == DType::F8E8M0 => DataType::Float,
            None => x_scale.data_type(),
        };
        let to = rules.check(to_type, data_since(to_type).filter(|_| to_type != DataType::Int32), "y")?;
        if let Some(zero) = x_zero_point.filter(|zero| zero.data_type() != x.data_type()) {
            return Err(Error::Types { first: x.data_type(), second: zero.data_type() });
        }
        let scaling = rules.scaling(x.shape(), x_scale.shape(), scale)?;
        let zeros = zero_points(x_zero_point, x_scale, from.float_format().is_none())?;
        let d = Dequantizer::new(from, to, &scaling, &rules.options())?;
        let scales = numbers(x_scale)?;
        made(x, to_type, to, &mut |data, output| d.dequantize(data, x.shape(), scales, zeros, output))
    }
}

/// The operator `DynamicQuantizeLinear`: one scale and one zero point for the tensor, found from its extremes and 0.
///
/// ```
/// use lanecast::onnx::{DataType, DynamicQuantizeLinear, Tensor};
///
/// let bytes: Vec<u8> = [0f32, 2.0, -3.0, 1.5].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let x = Tensor::new(&[2, 2], DataType::Float, &bytes)?;
/// let [y, y_scale, y_zero_point] = DynamicQuantizeLinear::new(11, &[])?.run(&x)?;
/// assert_eq!(y_scale, Tensor::new(&[], DataType::Float, (5f32 / 255.0).to_le_bytes().to_vec())?);
/// assert_eq!(y_zero_point, Tensor::new(&[], DataType::Uint8, &[153])?);
/// assert_eq!(y, Tensor::new(&[2, 2], DataType::Uint8, &[153, 255, 0, 229])?);
/// # Ok::<(), lanecast::onnx::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DynamicQuantizeLinear {
    rules: Rules,
}

impl DynamicQuantizeLinear {
    /// Makes the operator of an opset. It has no attributes.
    ///
    /// ```
    /// use lanecast::onnx::DynamicQuantizeLinear;
    /// assert!(DynamicQuantizeLinear::new(28, &[]).is_ok());
    /// assert_eq!(
    ///     DynamicQuantizeLinear::new(10, &[]).unwrap_err().to_string(),
    ///     "opset 10 has no operator DynamicQuantizeLinear; DynamicQuantizeLinear-11 is its first version"
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// The opset has no such operator, or there are attributes.
    pub fn new(opset: u32, attributes: &[(&str, Attribute<'_>)]) -> Result<Self, Error> {
        Ok(Self { rules: Rules::new(Operator::DynamicQuantizeLinear, opset, attributes)? })
    }

    /// Quantises a tensor of FLOAT. Returns `y`, which is UINT8, and the scalars `y_scale` and `y_zero_point`.
    ///
    /// ```
    /// use lanecast::onnx::{DataType, DequantizeLinear, DynamicQuantizeLinear, Tensor};
    /// let x = Tensor::new(&[2], DataType::Float, [255f32, 7.0].map(f32::to_le_bytes).concat())?;
    /// let [y, y_scale, y_zero_point] = DynamicQuantizeLinear::new(11, &[])?.run(&x)?;
    /// assert_eq!(DequantizeLinear::new(10, &[])?.run(&y, &y_scale, Some(&y_zero_point))?, x);
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The input is not of FLOAT, or there is no memory for the result.
    pub fn run(&self, x: &Tensor<'_>) -> Result<[Tensor<'static>; 3], Error> {
        let takes = if x.data_type() == DataType::Float { Some(11) } else { None };
        self.rules.check(x.data_type(), takes, "x")?;
        let q = self.rules.quantizer(x.shape(), &[], [DType::F32, DType::U8, DType::F32])?;
        // Without elements these are those of zeros.
        let (mut scale, mut zero) = (1f32.to_le_bytes(), [0]);
        let y = made(x, DataType::Uint8, DType::U8, &mut |data, output| {
            q.quantize_affine(data, x.shape(), output, &mut scale, &mut zero).map(drop)
        })?;
        let y_scale = scalar(DataType::Float, DType::F32, &scale);
        Ok([y, y_scale, scalar(DataType::Uint8, DType::U8, &zero)])
    }
}

/// Makes a tensor of one element.
#[inline(never)]
fn scalar(of: DataType, dtype: DType, bytes: &[u8]) -> Tensor<'static> {
    Tensor::made(&[], of, dtype, Cow::Owned(bytes.to_vec()))
}

/// What computes the bytes of a result from those of the data.
type Run<'a> = &'a mut dyn FnMut(&[u8], &mut [u8]) -> Result<(), ScaledError>;

/// Makes a tensor with the shape of `x`. `run` gets the bytes of `x` and those to fill, unless there are no elements.
fn made(x: &Tensor<'_>, to: DataType, dtype: DType, run: Run<'_>) -> Result<Tensor<'static>, Error> {
    let (data, elements) = (numbers(x)?, x.count());
    let bytes = dtype.byte_len(elements, Packing::LowFirst);
    let bytes = bytes.ok_or_else(|| Error::ShapeOverflow { shape: x.shape().to_vec() })?;
    let mut output = filled(0, bytes).map_err(|_| CastError::Allocation { dtype, elements })?;
    if elements > 0 {
        run(data, &mut output)?;
    }
    Ok(Tensor::made(x.shape(), to, dtype, Cow::Owned(output)))
}
