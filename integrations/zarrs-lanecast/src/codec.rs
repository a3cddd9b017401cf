//! The codec `cast_value`, by the traits of zarrs.

use std::any::Any;
use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use lanecast::zarr::{ValueCaster, ZarrError};
use lanecast::{DType, Kind};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use zarrs_codec::{
    ArrayBytes, ArrayCodecTraits, ArrayToArrayCodecTraits, Codec, CodecError, CodecMetadataOptions,
    CodecOptions, CodecTraits, CodecTraitsV3, PartialDecoderCapability, PartialEncoderCapability,
    RecommendedConcurrency,
};
use zarrs_data_type::{DataType, FillValue};
use zarrs_metadata::v3::MetadataV3;
use zarrs_metadata::{Configuration, FillValueMetadata};
use zarrs_plugin::{ExtensionName, PluginCreateError, ZarrVersion};

use crate::cast::{OutOfRange, Rounding, cast, dtype, read, same, size};

/// The codec `cast_value`, which stores an array in another data type than it has in memory.
///
/// [`register`](crate::register) makes zarrs create it from metadata. To build an array with it:
///
/// ```
/// use std::sync::Arc;
/// use zarrs::array::{ArrayBuilder, data_type};
/// use zarrs::storage::store::MemoryStore;
/// use zarrs_lanecast::{CastValue, OutOfRange};
///
/// zarrs_lanecast::register(); // for whoever opens the array
/// let codec = CastValue::new(data_type::uint8())?
///     .out_of_range(OutOfRange::Clamp)?
///     .scalar_map([("NaN".into(), 0.into())], [(0.into(), "NaN".into())])?;
/// let array = ArrayBuilder::new(vec![4], vec![4], data_type::float64(), f64::NAN)
///     .array_to_array_codecs(vec![Arc::new(codec)])
///     .build(Arc::new(MemoryStore::new()), "/")?;
/// array.store_chunk(&[0], &[1.0, 2.5, 300.0, f64::NAN])?;
/// let found: Vec<f64> = array.retrieve_chunk(&[0])?;
/// assert_eq!(found[..3], [1.0, 2.0, 255.0]);
/// assert!(found[3].is_nan());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CastValue {
    target: DataType,
    rounding: Rounding,
    out_of_range: Option<OutOfRange>,
    scalar_map: ScalarMap,
    /// What the metadata have, by which it can be made again.
    configuration: Configuration,
    /// The casters of the data types of arrays that have been cast, one for each data type at most.
    kept: Arc<RwLock<Vec<Arc<Casters>>>>,
}

/// The casters between the data type of an array and the one that is stored.
#[derive(Debug)]
struct Casters {
    data_type: DataType,
    encoder: ValueCaster,
    decoder: ValueCaster,
    /// The first fill value that was found to survive, and what it is encoded: an array has one, but its codec is asked for every chunk.
    fill: OnceLock<(FillValue, FillValue)>,
}

impl Casters {
    /// What a fill value is encoded, if it is the one that is known to survive.
    fn known(&self, fill_value: &FillValue) -> Option<FillValue> {
        self.fill.get().filter(|(known, _)| known == fill_value).map(|(_, encoded)| encoded.clone())
    }
}

zarrs_plugin::impl_extension_aliases!(CastValue, v3: "cast_value");

/// Values and what they become, each in the form of a fill value of its data type.
type Entries = Vec<(FillValueMetadata, FillValueMetadata)>;

#[derive(Clone, Default, Debug)]
struct ScalarMap {
    encode: Entries,
    decode: Entries,
}

/// Returns a field of the configuration, or the default if it is missing or null. An error names the field.
fn field<T: DeserializeOwned + Default>(fields: &Map<String, Value>, name: &str) -> Result<T, String> {
    let Some(value) = fields.get(name).filter(|value| !value.is_null()) else { return Ok(T::default()) };
    T::deserialize(value).map_err(|error| format!("{name} is {value}: {error}"))
}

/// Returns the pairs of `scalar_map` for one direction, "encode" or "decode".
fn entries(map: &Map<String, Value>, name: &str) -> Result<Entries, String> {
    let pairs: Vec<Value> = field(map, name)?;
    let pair = |(i, pair)| {
        <(FillValueMetadata, FillValueMetadata)>::deserialize(pair)
            .map_err(|_| format!("{name}[{i}] is {pair}; it must be a pair of a value and what it becomes"))
    };
    pairs.iter().enumerate().map(pair).collect()
}

/// Returns an error if there are other keys than the known ones.
fn check_keys(fields: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("{key:?} is not a known key; the keys are {}", known.join(", "))),
        None => Ok(()),
    }
}

impl CastValue {
    /// The codec that stores `target`, rounds to the nearest with ties to even, maps nothing, and makes an error of what is out of range.
    ///
    /// # Errors
    ///
    /// The codec does not cast this data type.
    pub fn new(target: DataType) -> Result<Self, PluginCreateError> {
        let (name, own) = (name(&target), target.configuration_v3());
        let data_type =
            if own.is_empty() { json!(name) } else { json!({"name": name, "configuration": own}) };
        Self::with(Configuration::default(), "data_type", data_type)
    }

    /// The same codec with another rounding.
    ///
    /// ```
    /// use zarrs::array::data_type;
    /// use zarrs_lanecast::{CastValue, Rounding};
    /// let codec = CastValue::new(data_type::int16())?.rounding(Rounding::TowardsZero);
    /// # Ok::<(), zarrs::plugin::PluginCreateError>(())
    /// ```
    #[must_use]
    pub fn rounding(self, rounding: Rounding) -> Self {
        let mut fields = Map::from(self.configuration);
        fields.insert("rounding".into(), rounding.name().into());
        Self { rounding, configuration: fields.into(), kept: Arc::default(), ..self }
    }

    /// The same codec with a rule for what is out of range.
    ///
    /// # Errors
    ///
    /// It is [`OutOfRange::Wrap`], and what is stored is no integer.
    pub fn out_of_range(self, rule: OutOfRange) -> Result<Self, PluginCreateError> {
        Self::with(self.configuration, "out_of_range", rule.name().into())
    }

    /// The same codec with other maps: pairs of a value and what it becomes when it is encoded, and when it is decoded. Each is
    /// written as a fill value of its data type is.
    ///
    /// # Errors
    ///
    /// One of the values that are stored is none of the stored data type. Those of the array are checked when the array is made.
    pub fn scalar_map(
        self,
        encode: impl IntoIterator<Item = (FillValueMetadata, FillValueMetadata)>,
        decode: impl IntoIterator<Item = (FillValueMetadata, FillValueMetadata)>,
    ) -> Result<Self, PluginCreateError> {
        let (encode, decode): (Entries, Entries) =
            (encode.into_iter().collect(), decode.into_iter().collect());
        Self::with(self.configuration, "scalar_map", json!({"encode": encode, "decode": decode}))
    }

    /// The codec of a configuration with one more field.
    fn with(configuration: Configuration, field: &str, value: Value) -> Result<Self, PluginCreateError> {
        let mut fields = Map::from(configuration);
        fields.insert(field.into(), value);
        Self::of(fields.into()).map_err(|error| PluginCreateError::Other(format!("cast_value: {error}")))
    }

    /// The codec of a configuration.
    fn of(configuration: Configuration) -> Result<Self, String> {
        let fields = &*configuration;
        check_keys(fields, &["data_type", "rounding", "out_of_range", "scalar_map"])
            .map_err(|error| format!("the configuration: {error}"))?;
        let data_type = fields.get("data_type").ok_or("data_type is missing")?;
        let data_type = MetadataV3::deserialize(data_type)
            .map_err(|_| format!("data_type is {data_type}; it must be a name, or an object with a name"))?;
        let target = DataType::from_metadata(&data_type).map_err(|error| format!("data_type: {error}"))?;
        let to =
            known(&target).map_err(|_| format!("data_type is {}, which is not supported", name(&target)))?;
        let out_of_range = field(fields, "out_of_range")?;
        if out_of_range == Some(OutOfRange::Wrap) && !matches!(to.kind(), Kind::Int(_)) {
            return Err(format!("out_of_range is \"wrap\", but {} is not an integer", name(&target)));
        }
        let map: Map<String, Value> = field(fields, "scalar_map")?;
        let in_map = |error| format!("scalar_map: {error}");
        check_keys(&map, &["encode", "decode"]).map_err(in_map)?;
        let encode = entries(&map, "encode").map_err(in_map)?;
        let decode = entries(&map, "decode").map_err(in_map)?;
        // The data type of the array is not known yet, so only the values of the stored data type can be checked.
        for value in encode.iter().map(|(_, value)| value).chain(decode.iter().map(|(key, _)| key)) {
            scalar(&target, value)?;
        }
        Ok(Self {
            target,
            rounding: field(fields, "rounding")?,
            out_of_range,
            scalar_map: ScalarMap { encode, decode },
            configuration,
            kept: Arc::default(),
        })
    }
}

impl CodecTraitsV3 for CastValue {
    fn create(metadata: &MetadataV3) -> Result<Codec, PluginCreateError> {
        match Self::of(metadata.configuration().cloned().unwrap_or_default()) {
            Ok(codec) => Ok(Codec::ArrayToArray(Arc::new(codec))),
            Err(error) => Err(PluginCreateError::Other(format!("cast_value: {error}"))),
        }
    }
}

fn name(data_type: &DataType) -> Cow<'static, str> {
    data_type.name(ZarrVersion::V3).unwrap_or_else(|| data_type.to_string().into())
}

/// Returns the code of a value in `scalar_map`.
fn scalar(data_type: &DataType, value: &FillValueMetadata) -> Result<u64, String> {
    let element = data_type.fill_value_v3(value).map(|value| read(value.as_ne_bytes()));
    element.map_err(|_| format!("scalar_map: {value} is not a value of {}", name(data_type)))
}

/// Returns the dtype of a data type, or an error if the codec does not cast it.
fn known(data_type: &DataType) -> Result<DType, CodecError> {
    let found = data_type.name(ZarrVersion::V3).and_then(|name| dtype(&name));
    let found = found.filter(|&found| data_type.fixed_size() == Some(size(found)));
    found.ok_or_else(|| CodecError::UnsupportedDataType(data_type.clone(), "cast_value".into()))
}

impl CastValue {
    /// Returns the caster of one data type to another, with the entries of one direction of `scalar_map`.
    fn caster(&self, from: &DataType, to: &DataType, entries: &Entries) -> Result<ValueCaster, CodecError> {
        let scalar = |data_type, value| {
            scalar(data_type, value).map_err(|error| CodecError::Other(format!("cast_value: {error}")))
        };
        let (source, target) = (known(from)?, known(to)?);
        let map = entries.iter().map(|(key, value)| Ok((scalar(from, key)?, scalar(to, value)?)));
        let map = map.collect::<Result<Vec<_>, CodecError>>()?;
        let rule = self.out_of_range.map(Into::into);
        ValueCaster::new(source, target, self.rounding.into(), rule, &map).map_err(other)
    }

    /// Returns the casters of a data type, which are made once.
    fn casters(&self, data_type: &DataType) -> Result<Arc<Casters>, CodecError> {
        let find = |kept: &[Arc<Casters>]| kept.iter().find(|kept| kept.data_type == *data_type).cloned();
        // Whoever panicked has left the list as it was, or with one more.
        if let Some(found) = find(&self.kept.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(found);
        }
        let made = Arc::new(Casters {
            data_type: data_type.clone(),
            encoder: self.caster(data_type, &self.target, &self.scalar_map.encode)?,
            decoder: self.caster(&self.target, data_type, &self.scalar_map.decode)?,
            fill: OnceLock::new(),
        });
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster.
        if let Some(found) = find(&kept) {
            return Ok(found);
        }
        kept.push(Arc::clone(&made));
        Ok(made)
    }

    /// Returns the casters of a data type, and the encoded fill value, or an error if that does not decode to the same value.
    fn checked(
        &self,
        data_type: &DataType,
        fill_value: &FillValue,
    ) -> Result<(Arc<Casters>, FillValue), CodecError> {
        let casters = self.casters(data_type)?;
        if let Some(encoded) = casters.known(fill_value) {
            return Ok((casters, encoded));
        }
        let refused = |error| CodecError::Other(format!("cast_value: the fill value: {error}"));
        let encoded = cast(&casters.encoder, fill_value.as_ne_bytes()).map_err(refused)?;
        let back = cast(&casters.decoder, &encoded).map_err(refused)?;
        if !same(casters.encoder.from(), &back, fill_value.as_ne_bytes()).map_err(refused)? {
            return Err(CodecError::Other(format!(
                "cast_value: the fill value of {} changes when it is cast to {} and back",
                name(data_type),
                name(&self.target)
            )));
        }
        let encoded = FillValue::new(encoded);
        // If another one is kept, this one is checked again the next time.
        _ = casters.fill.set((fill_value.clone(), encoded.clone()));
        Ok((casters, encoded))
    }
}

fn other(error: ZarrError) -> CodecError {
    CodecError::Other(format!("cast_value: {error}"))
}

impl CodecTraits for CastValue {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn configuration(&self, _: ZarrVersion, _: &CodecMetadataOptions) -> Option<Configuration> {
        Some(self.configuration.clone())
    }

    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        PartialDecoderCapability { partial_read: true, partial_decode: true }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        PartialEncoderCapability { partial_encode: true }
    }
}

impl ArrayCodecTraits for CastValue {
    fn recommended_concurrency(
        &self,
        _: &[NonZeroU64],
        _: &DataType,
    ) -> Result<RecommendedConcurrency, CodecError> {
        Ok(RecommendedConcurrency::new_maximum(1))
    }
}

impl ArrayToArrayCodecTraits for CastValue {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn ArrayToArrayCodecTraits> {
        self
    }

    fn encoded_data_type(&self, decoded: &DataType) -> Result<DataType, CodecError> {
        known(decoded)?;
        Ok(self.target.clone())
    }

    /// Returns the encoded fill value, which must decode to the same value. For zero, this is checked only when chunks are cast: zarrs calls
    /// this function with zeros for arrays of any fill value, to determine the number of threads.
    fn encoded_fill_value(
        &self,
        data_type: &DataType,
        fill_value: &FillValue,
    ) -> Result<FillValue, CodecError> {
        let bytes = fill_value.as_ne_bytes();
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(self.checked(data_type, fill_value)?.1);
        }
        let casters = self.casters(data_type)?;
        if let Some(encoded) = casters.known(fill_value) {
            return Ok(encoded);
        }
        let encoded = match cast(&casters.encoder, bytes) {
            Err(ZarrError::Refused(_)) => Ok(vec![0; size(known(&self.target)?)]),
            encoded => encoded,
        };
        Ok(FillValue::new(encoded.map_err(other)?))
    }

    fn encode<'a>(
        &self,
        bytes: ArrayBytes<'a>,
        _: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
        _: &CodecOptions,
    ) -> Result<ArrayBytes<'a>, CodecError> {
        let (casters, _) = self.checked(data_type, fill_value)?;
        Ok(cast(&casters.encoder, &bytes.into_fixed()?).map_err(other)?.into())
    }

    fn decode<'a>(
        &self,
        bytes: ArrayBytes<'a>,
        _: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
        _: &CodecOptions,
    ) -> Result<ArrayBytes<'a>, CodecError> {
        let (casters, _) = self.checked(data_type, fill_value)?;
        Ok(cast(&casters.decoder, &bytes.into_fixed()?).map_err(other)?.into())
    }
}
