//! The operators Cast and CastLike: what each version allows, and what they do.

use alloc::borrow::ToOwned;
use alloc::string::ToString;
use core::fmt;

use super::data_type::{DataType, NEVER};
use super::error::Error;
use super::operator::Operator;
use super::tensor::{Elements, Strings, Tensor};
use crate::cast::Caster;
use crate::formats::dtype::DType;
use crate::formats::layout::ByteOrder;
use crate::formats::options::{CastOptions, E8m0Rounding, NanToFinite, Overflow, Rounding};
use crate::room::filled;
use crate::text::{self, Notation};

/// The value of an attribute.
///
/// ```
/// use lanecast::onnx::{Attribute, DataType};
/// assert_eq!(Attribute::from(DataType::Float16), Attribute::Int(10));
/// assert_eq!(Attribute::from("down"), Attribute::String("down"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attribute<'a> {
    /// `INT`
    Int(i64),
    /// `STRING`
    String(&'a str),
}

impl From<i64> for Attribute<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<DataType> for Attribute<'_> {
    fn from(value: DataType) -> Self {
        Self::Int(value.code().into())
    }
}

impl<'a> From<&'a str> for Attribute<'a> {
    fn from(value: &'a str) -> Self {
        Self::String(value)
    }
}

/// What ±Inf becomes with `saturate` in the float8 FNUZ types, which do not have it.
///
/// ```
/// use lanecast::onnx::{Cast, DataType, FnuzInfinity, Options, Tensor};
/// let inf = f32::INFINITY.to_le_bytes();
/// let inf = Tensor::new(&[1], DataType::Float, &inf)?;
/// let cast = Cast::new(19, DataType::Float8E4M3FNUZ, &[])?;
/// assert_eq!(cast.run(&inf)?.bytes(), Some(&[0x7F][..]));
/// let old = cast.with(Options::new().fnuz_infinity(FnuzInfinity::Nan));
/// assert_eq!(old.run(&inf)?.bytes(), Some(&[0x80][..]));
/// # Ok::<(), lanecast::onnx::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FnuzInfinity {
    /// ±max: the conformance data of every opset, and the text since opset 24.
    #[default]
    Max,
    /// NaN: the text of the opsets 19 to 23.
    Nan,
}

/// Choices where the specification leaves open or contradicts what the result is, and there is more than one documented answer.
///
/// ```
/// use lanecast::onnx::{Cast, DataType, Options, Tensor};
/// use lanecast::Overflow;
///
/// let input = 9f32.to_le_bytes();
/// let input = Tensor::new(&[1], DataType::Float, &input)?;
/// let cast = Cast::new(25, DataType::Int4, &[])?;
/// assert_eq!(cast.run(&input)?.bytes(), Some(&[0x09][..])); // -7: the low bits
/// let clamped = cast.with(Options::new().small_int_overflow(Overflow::Saturate));
/// assert_eq!(clamped.run(&input)?.bytes(), Some(&[0x07][..]));
/// # Ok::<(), lanecast::onnx::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[must_use = "options do nothing until a cast takes them"]
pub struct Options {
    /// What a NaN becomes in float4 and float6. Default: −0.
    pub nan_to_finite: NanToFinite,
    /// What a float beyond the range of an integer of 8 bits or more becomes. Default: saturate.
    pub int_overflow: Overflow,
    /// What a float beyond the range of a 2- or 4-bit integer becomes. Default: wrap.
    pub small_int_overflow: Overflow,
    /// The rounding of floats to 2- and 4-bit integers. Default: nearest, ties to even.
    pub small_int_rounding: Rounding,
    /// What ±Inf becomes in a float8 FNUZ type with `saturate`. Default: ±max.
    pub fnuz_infinity: FnuzInfinity,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// Returns the defaults, which the current conformance data require.
    ///
    /// ```
    /// use lanecast::{Overflow, onnx::Options};
    /// assert_eq!(Options::new().small_int_overflow, Overflow::Wrap);
    /// ```
    pub const fn new() -> Self {
        Self {
            nan_to_finite: NanToFinite::NegZero,
            int_overflow: Overflow::Saturate,
            small_int_overflow: Overflow::Wrap,
            small_int_rounding: Rounding::NearestEven,
            fnuz_infinity: FnuzInfinity::Max,
        }
    }

    /// Sets what a NaN gives in float4 and float6.
    ///
    /// ```
    /// use lanecast::{NanToFinite, onnx::Options};
    /// assert_eq!(Options::new().nan_to_finite(NanToFinite::Max).nan_to_finite, NanToFinite::Max);
    /// ```
    pub const fn nan_to_finite(self, nan_to_finite: NanToFinite) -> Self {
        Self { nan_to_finite, ..self }
    }

    /// Sets what a float beyond the range of an integer of 8 bits or more gives.
    ///
    /// ```
    /// use lanecast::{Overflow, onnx::Options};
    /// assert_eq!(Options::new().int_overflow(Overflow::Wrap).int_overflow, Overflow::Wrap);
    /// ```
    pub const fn int_overflow(self, int_overflow: Overflow) -> Self {
        Self { int_overflow, ..self }
    }

    /// Sets what a float beyond the range of a 2- or 4-bit integer gives.
    ///
    /// ```
    /// use lanecast::{Overflow, onnx::Options};
    /// let options = Options::new().small_int_overflow(Overflow::Saturate);
    /// assert_eq!(options.small_int_overflow, Overflow::Saturate);
    /// ```
    pub const fn small_int_overflow(self, small_int_overflow: Overflow) -> Self {
        Self { small_int_overflow, ..self }
    }

    /// Sets the rounding of floats to 2- and 4-bit integers.
    ///
    /// ```
    /// use lanecast::{Rounding, onnx::Options};
    /// let options = Options::new().small_int_rounding(Rounding::NearestAway);
    /// assert_eq!(options.small_int_rounding, Rounding::NearestAway);
    /// ```
    pub const fn small_int_rounding(self, small_int_rounding: Rounding) -> Self {
        Self { small_int_rounding, ..self }
    }

    /// Sets what ±Inf gives in the float8 FNUZ types with `saturate`.
    ///
    /// ```
    /// use lanecast::onnx::{FnuzInfinity, Options};
    /// let options = Options::new().fnuz_infinity(FnuzInfinity::Nan);
    /// assert_eq!(options.fnuz_infinity, FnuzInfinity::Nan);
    /// ```
    pub const fn fnuz_infinity(self, fnuz_infinity: FnuzInfinity) -> Self {
        Self { fnuz_infinity, ..self }
    }
}

/// What both operators have: a version, its attributes, and the choices where the specification is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Schema {
    operator: Operator,
    version: u32,
    saturate: bool,
    round_mode: E8m0Rounding,
    options: Options,
}

impl Schema {
    fn new(operator: Operator, opset: u32, attributes: &[(&str, Attribute<'_>)]) -> Result<Self, Error> {
        let version = operator.version(opset).ok_or(Error::Opset { operator, opset })?;
        let mut schema =
            Self { operator, version, saturate: true, round_mode: E8m0Rounding::Up, options: Options::new() };
        for (i, &(name, value)) in attributes.iter().enumerate() {
            if attributes[..i].iter().any(|&(earlier, _)| earlier == name) {
                return Err(Error::Repeated { name: name.to_owned() });
            }
            schema.set(name, value)?;
        }
        Ok(schema)
    }

    fn set(&mut self, name: &str, value: Attribute<'_>) -> Result<(), Error> {
        // The type of the attribute, and the version of Cast that introduced it.
        let (expected, brought) = match name {
            "saturate" => ("INT", 19),
            "round_mode" => ("STRING", 24),
            _ => ("", NEVER),
        };
        let (operator, version) = (self.operator, self.version);
        if (operator, name) == (Operator::Cast, "to") {
            return Err(Error::Repeated { name: name.to_owned() });
        }
        if version < brought {
            let since = operator.since(brought);
            return Err(Error::Attribute { operator, version, name: name.to_owned(), since });
        }
        let invalid = |value: &dyn fmt::Debug, expected| Error::AttributeValue {
            name: name.to_owned(),
            value: format!("{value:?}"),
            expected,
        };
        match (name, value) {
            ("saturate", Attribute::Int(value)) => match value {
                0 | 1 => self.saturate = value == 1,
                _ => return Err(invalid(&value, "0 or 1")),
            },
            ("round_mode", Attribute::String(value)) => {
                self.round_mode = match value {
                    "up" => E8m0Rounding::Up,
                    "down" => E8m0Rounding::Down,
                    "nearest" => E8m0Rounding::Nearest,
                    _ => return Err(invalid(&value, "\"up\", \"down\" or \"nearest\"")),
                }
            }
            _ => {
                let name = name.to_owned();
                return Err(Error::AttributeType { operator, version, name, expected, other: None });
            }
        }
        Ok(())
    }

    /// Checks that this version takes and returns the type.
    fn check(&self, data_type: DataType) -> Result<(), Error> {
        let (operator, version) = (self.operator, self.version);
        if version < data_type.since() {
            let since = operator.since(data_type.since());
            return Err(Error::DataType { operator, version, data_type, place: "", since });
        }
        Ok(())
    }

    fn run(&self, input: &Tensor<'_>, to: DataType) -> Result<Tensor<'static>, Error> {
        self.check(input.data_type())?;
        let options = CastOptions::new()
            .saturate(self.saturate)
            .e8m0_rounding(self.round_mode)
            .nan_to_finite(self.options.nan_to_finite)
            .float_to_int(self.options.int_overflow)
            .narrow_float_to_int(self.options.small_int_overflow)
            .narrow_int_rounding(self.options.small_int_rounding)
            .src_order(ByteOrder::Little)
            .dst_order(ByteOrder::Little);
        let (n, shape) = (input.count(), input.shape());
        let Some(to_dtype) = to.dtype() else {
            let strings = match input.elements() {
                Elements::Strings(strings) => strings.try_clone()?,
                Elements::Numbers(_, from, bytes) => {
                    let (offsets, bytes) =
                        text::format_bytes_with(bytes, *from, n, &options, Notation::Plain)?;
                    Strings::new(offsets, bytes)?
                }
            };
            return Tensor::strings(shape, strings);
        };
        let bytes = to_dtype.byte_len(n, options.dst_packing);
        let bytes = bytes.ok_or_else(|| Error::ShapeOverflow { shape: shape.to_vec() })?;
        let mut output = match input.elements() {
            Elements::Strings(strings) => {
                let no_memory = |_| crate::error::Error::Allocation { dtype: to_dtype, elements: n };
                let mut output = filled(0, bytes).map_err(no_memory)?;
                text::parse_bytes_with(strings.offsets(), strings.bytes(), &mut output, to_dtype, &options)?;
                output
            }
            Elements::Numbers(_, from, source) => {
                Caster::new(*from, to_dtype, &options)?.vec::<u8, u8>(source, n, bytes)?
            }
        };
        let is_fnuz = matches!(to, DataType::Float8E4M3FNUZ | DataType::Float8E5M2FNUZ);
        if is_fnuz && self.saturate && self.options.fnuz_infinity == FnuzInfinity::Nan {
            nan_of_infinities(input, &options, &mut output)?;
        }
        Tensor::new(shape, to, output)
    }
}

/// Makes the codes of FNUZ types NaN whose source elements are ±Inf, and not only too large.
fn nan_of_infinities(input: &Tensor<'_>, options: &CastOptions, codes: &mut [u8]) -> Result<(), Error> {
    /// How many elements are cast at a time.
    const STEP: usize = 512;
    const NAN: u8 = 0x80;

    let (from, bytes) = match input.elements() {
        // The strings have been parsed as numbers, of which only a word for infinity has an i.
        Elements::Strings(strings) => {
            let infinities = codes.iter_mut().zip(strings.iter()).filter(|(_, s)| s.contains(['i', 'I']));
            infinities.for_each(|(code, _)| *code = NAN);
            return Ok(());
        }
        Elements::Numbers(_, from, bytes) => (*from, bytes),
    };
    let caster = Caster::new(from, DType::F64, options)?;
    let size = |n| from.byte_len(n, options.src_packing).unwrap_or(bytes.len());
    let mut room = [0; 8 * STEP];
    for (i, codes) in codes.chunks_mut(STEP).enumerate() {
        let (first, n) = (i * STEP, codes.len());
        let wide = &mut room[..8 * n];
        caster.cast(&bytes[size(first)..size(first + n)], wide, n)?;
        for (code, &bytes) in codes.iter_mut().zip(wide.as_chunks().0) {
            if f64::from_le_bytes(bytes).is_infinite() {
                *code = NAN;
            }
        }
    }
    Ok(())
}

/// The operator `Cast` in one of its versions.
///
/// ```
/// use lanecast::onnx::{Cast, DataType, Tensor};
///
/// let bytes: Vec<u8> = [1.5f32, -3.0, 1e9].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let input = Tensor::new(&[3], DataType::Float, &bytes)?;
/// let cast = Cast::new(24, DataType::Float8E4M3FN, &[("saturate", 0.into())])?;
/// assert_eq!(cast.run(&input)?, Tensor::new(&[3], DataType::Float8E4M3FN, &[0x3C, 0xC4, 0x7F])?);
/// # Ok::<(), lanecast::onnx::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "it casts nothing until it is run"]
pub struct Cast {
    to: DataType,
    schema: Schema,
}

impl Cast {
    /// Makes the operator of an opset. `to` and `attributes`, which are the others, are checked against its version there.
    ///
    /// Up to opset 5, `to` is a string; later it is a number of [`DataType`].
    ///
    /// ```
    /// use lanecast::onnx::{Cast, DataType};
    ///
    /// assert!(Cast::new(1, "FLOAT16", &[]).is_ok());
    /// assert!(Cast::new(24, DataType::Float8E8M0, &[("round_mode", "nearest".into())]).is_ok());
    /// let error = Cast::new(13, DataType::Float16, &[("saturate", 0.into())]).unwrap_err();
    /// assert_eq!(error.to_string(), "Cast-13 has no attribute \"saturate\"; Cast-19 and later have it");
    /// ```
    ///
    /// # Errors
    ///
    /// The opset has no `Cast`; its version there does not have an attribute, or not with this type or value; or it
    /// does not return this type.
    pub fn new<'a>(
        opset: u32,
        to: impl Into<Attribute<'a>>,
        attributes: &[(&str, Attribute<'_>)],
    ) -> Result<Self, Error> {
        /// The first version whose `to` is a number.
        const NUMBERED: u32 = 6;

        let schema = Schema::new(Operator::Cast, opset, attributes)?;
        let (operator, version, name) = (schema.operator, schema.version, "to".to_owned());
        let (value, data_type, expected) = match to.into() {
            Attribute::Int(_) if version < NUMBERED => {
                let (expected, other) = ("STRING", Some(NUMBERED));
                return Err(Error::AttributeType { operator, version, name, expected, other });
            }
            Attribute::String(_) if version >= NUMBERED => {
                let (expected, other) = ("INT", Some(1));
                return Err(Error::AttributeType { operator, version, name, expected, other });
            }
            Attribute::Int(code) => (code.to_string(), DataType::from_code(code), "a code of a DataType"),
            Attribute::String(type_name) => {
                (format!("{type_name:?}"), DataType::from_name(type_name), "a name of a DataType")
            }
        };
        let to = data_type.ok_or(Error::AttributeValue { name, value, expected })?;
        schema.check(to)?;
        Ok(Self { to, schema })
    }

    /// Returns the operator with other choices where the specification is open.
    ///
    /// ```
    /// use lanecast::onnx::{Cast, DataType, Options, Tensor};
    /// use lanecast::NanToFinite;
    /// let cast = Cast::new(23, DataType::Float4E2M1, &[])?;
    /// let before_1_19 = cast.with(Options::new().nan_to_finite(NanToFinite::Max));
    /// let nan = f32::NAN.to_le_bytes();
    /// let nan = Tensor::new(&[], DataType::Float, &nan)?;
    /// assert_eq!(before_1_19.run(&nan)?.bytes(), Some(&[0x07][..])); // 6
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    pub const fn with(self, options: Options) -> Self {
        Self { schema: Schema { options, ..self.schema }, ..self }
    }

    /// The target type.
    ///
    /// ```
    /// use lanecast::onnx::{Cast, DataType};
    /// assert_eq!(Cast::new(5, "FLOAT16", &[])?.to(), DataType::Float16);
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    pub const fn to(&self) -> DataType {
        self.to
    }

    /// The version of the operator, which is the opset that introduced it.
    ///
    /// ```
    /// use lanecast::onnx::{Cast, DataType};
    /// assert_eq!(Cast::new(18, DataType::Float16, &[])?.version(), 13);
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    pub const fn version(&self) -> u32 {
        self.schema.version
    }

    /// Casts a tensor.
    ///
    /// ```
    /// use lanecast::onnx::{Cast, DataType, Strings, Tensor};
    ///
    /// let texts: Strings = ["100.5", "-1e2"].iter().collect();
    /// let ints = Cast::new(9, DataType::Int8, &[])?.run(&Tensor::strings(&[2], texts)?)?;
    /// assert_eq!(ints.bytes(), Some(&[100, -100i8 as u8][..]));
    /// let back = Cast::new(9, DataType::String, &[])?.run(&ints)?;
    /// assert!(back.as_strings().unwrap().iter().eq(["100", "-100"]));
    ///
    /// let texts: Strings = ["0.5", "abc"].iter().collect();
    /// let error = Cast::new(9, DataType::Float, &[])?.run(&Tensor::strings(&[2], texts)?).unwrap_err();
    /// assert_eq!(error.to_string(), "element 1, \"abc\", is not a number");
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The version does not take the type of the input; a string is not a number, or not one that the
    /// target type holds; or there is no memory for the result.
    pub fn run(&self, input: &Tensor<'_>) -> Result<Tensor<'static>, Error> {
        self.schema.run(input, self.to)
    }
}

/// The operator `CastLike` in one of its versions.
///
/// ```
/// use lanecast::onnx::{CastLike, DataType, Tensor};
///
/// let input = Tensor::new(&[2], DataType::Uint8, &[1, 200])?;
/// let like = Tensor::new(&[0], DataType::Int4, &[])?;
/// assert_eq!(CastLike::new(21, &[])?.run(&input, &like)?, Tensor::new(&[2], DataType::Int4, &[0x81])?);
/// # Ok::<(), lanecast::onnx::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "it casts nothing until it is run"]
pub struct CastLike {
    schema: Schema,
}

impl CastLike {
    /// Makes the operator of an opset. The attributes are checked against its version there.
    ///
    /// ```
    /// use lanecast::onnx::CastLike;
    /// assert_eq!(CastLike::new(14, &[]).unwrap_err().to_string(), "opset 14 has no operator CastLike; CastLike-15 is its first version");
    /// ```
    ///
    /// # Errors
    ///
    /// The opset has no `CastLike`, or its version there does not have an attribute, or not with this type or value.
    pub fn new(opset: u32, attributes: &[(&str, Attribute<'_>)]) -> Result<Self, Error> {
        Ok(Self { schema: Schema::new(Operator::CastLike, opset, attributes)? })
    }

    /// Returns the operator with other choices where the specification is open.
    ///
    /// ```
    /// use lanecast::onnx::{CastLike, Options};
    /// use lanecast::Rounding;
    /// let options = Options::new().small_int_rounding(Rounding::NearestAway);
    /// assert_ne!(CastLike::new(25, &[])?.with(options), CastLike::new(25, &[])?);
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    pub const fn with(self, options: Options) -> Self {
        Self { schema: Schema { options, ..self.schema } }
    }

    /// The version of the operator, which is the opset that introduced it.
    ///
    /// ```
    /// assert_eq!(lanecast::onnx::CastLike::new(28, &[])?.version(), 25);
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    pub const fn version(&self) -> u32 {
        self.schema.version
    }

    /// Casts a tensor to the type of another, of which only the type matters.
    ///
    /// ```
    /// use lanecast::onnx::{CastLike, DataType, Tensor};
    /// let one = Tensor::new(&[], DataType::Bool, &[1])?;
    /// let like = Tensor::new(&[3], DataType::Int16, &[0; 6])?;
    /// assert_eq!(CastLike::new(15, &[])?.run(&one, &like)?.bytes(), Some(&[1, 0][..]));
    /// # Ok::<(), lanecast::onnx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The version does not take the type of an input; a string is not a number, or not one that the
    /// target type holds; or there is no memory for the result.
    pub fn run(&self, input: &Tensor<'_>, like: &Tensor<'_>) -> Result<Tensor<'static>, Error> {
        self.schema.check(like.data_type())?;
        self.schema.run(input, like.data_type())
    }
}
