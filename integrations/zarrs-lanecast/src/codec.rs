//! The codec `cast_value`, by the traits of zarrs.

use std::any::Any;
use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use lanecast::zarr::{ValueCaster, ZarrError};
use lanecast::{DType, Kind};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
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
#[derive(Clone, Debug)]
pub struct CastValue {
    target: DataType,
    rounding: Rounding,
    out_of_range: Option<OutOfRange>,
    scalar_map: ScalarMap,
    /// The configuration that it was made from.
    configuration: Option<Configuration>,
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
    fn new(configuration: Option<&Configuration>) -> Result<Self, String> {
        let none = Map::new();
        let fields = configuration.map_or(&none, |configuration| configuration);
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
            configuration: configuration.cloned(),
        })
    }
}

impl CodecTraitsV3 for CastValue {
    fn create(metadata: &MetadataV3) -> Result<Codec, PluginCreateError> {
        match Self::new(metadata.configuration()) {
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

    /// Returns the encoded fill value, or an error if it does not decode to the same value.
    fn checked_fill_value(
        &self,
        data_type: &DataType,
        fill_value: &FillValue,
    ) -> Result<FillValue, CodecError> {
        let refused = |error| CodecError::Other(format!("cast_value: the fill value: {error}"));
        let encoded = cast(&self.encoder(data_type)?, fill_value.as_ne_bytes()).map_err(refused)?;
        let back = cast(&self.decoder(data_type)?, &encoded).map_err(refused)?;
        if !same(known(data_type)?, &back, fill_value.as_ne_bytes()).map_err(refused)? {
            return Err(CodecError::Other(format!(
                "cast_value: the fill value of {} changes when it is cast to {} and back",
                name(data_type),
                name(&self.target)
            )));
        }
        Ok(FillValue::new(encoded))
    }

    fn encoder(&self, data_type: &DataType) -> Result<ValueCaster, CodecError> {
        self.caster(data_type, &self.target, &self.scalar_map.encode)
    }

    fn decoder(&self, data_type: &DataType) -> Result<ValueCaster, CodecError> {
        self.caster(&self.target, data_type, &self.scalar_map.decode)
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
        self.configuration.clone()
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
            return self.checked_fill_value(data_type, fill_value);
        }
        let encoded = match cast(&self.encoder(data_type)?, bytes) {
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
        self.checked_fill_value(data_type, fill_value)?;
        Ok(cast(&self.encoder(data_type)?, &bytes.into_fixed()?).map_err(other)?.into())
    }

    fn decode<'a>(
        &self,
        bytes: ArrayBytes<'a>,
        _: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
        _: &CodecOptions,
    ) -> Result<ArrayBytes<'a>, CodecError> {
        self.checked_fill_value(data_type, fill_value)?;
        Ok(cast(&self.decoder(data_type)?, &bytes.into_fixed()?).map_err(other)?.into())
    }
}
