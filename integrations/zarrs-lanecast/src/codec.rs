//! The codec as zarrs asks for it.

use std::any::Any;
use std::num::NonZeroU64;
use std::sync::Arc;

use lanecast::zarr::{ValueCaster, ZarrError};
use lanecast::{DType, Kind};
use serde::Deserialize;
use zarrs_codec::{
    ArrayBytes, ArrayCodecTraits, ArrayToArrayCodecTraits, Codec, CodecError, CodecMetadataOptions,
    CodecOptions, CodecTraits, CodecTraitsV3, PartialDecoderCapability, PartialEncoderCapability,
    RecommendedConcurrency,
};
use zarrs_data_type::{DataType, FillValue};
use zarrs_metadata::v3::MetadataV3;
use zarrs_metadata::{Configuration, FillValueMetadata};
use zarrs_plugin::{ExtensionName, PluginCreateError, ZarrVersion};

use crate::cast::{OutOfRange, Rounding, cast, dtype, read, size};

/// The codec `cast_value`.
#[derive(Clone, Debug)]
pub struct CastValue {
    target: DataType,
    rounding: Rounding,
    out_of_range: Option<OutOfRange>,
    scalar_map: ScalarMap,
    /// As it was given.
    configuration: Option<Configuration>,
}

zarrs_plugin::impl_extension_aliases!(CastValue, v3: "cast_value");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    data_type: MetadataV3,
    #[serde(default)]
    rounding: Rounding,
    out_of_range: Option<OutOfRange>,
    #[serde(default)]
    scalar_map: ScalarMap,
}

/// Values and what they become, each as the fill value of its data type.
type Entries = Vec<(FillValueMetadata, FillValueMetadata)>;

#[derive(Clone, Default, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScalarMap {
    #[serde(default)]
    encode: Entries,
    #[serde(default)]
    decode: Entries,
}

impl CodecTraitsV3 for CastValue {
    fn create(metadata: &MetadataV3) -> Result<Codec, PluginCreateError> {
        let Fields { data_type, rounding, out_of_range, scalar_map } = metadata.to_typed_configuration()?;
        let target = DataType::from_metadata(&data_type)?;
        let to = known(&target).map_err(|error| PluginCreateError::Other(error.to_string()))?;
        if out_of_range == Some(OutOfRange::Wrap) && !matches!(to.kind(), Kind::Int(_)) {
            return Err(PluginCreateError::Other(format!(
                "cast_value: {target} does not wrap, as it is no integer"
            )));
        }
        let configuration = metadata.configuration().cloned();
        Ok(Codec::ArrayToArray(Arc::new(Self { target, rounding, out_of_range, scalar_map, configuration })))
    }
}

/// What it is in lanecast, if it may be cast.
fn known(data_type: &DataType) -> Result<DType, CodecError> {
    let found = data_type.name(ZarrVersion::V3).and_then(|name| dtype(&name));
    let found = found.filter(|&found| data_type.fixed_size() == Some(size(found)));
    found.ok_or_else(|| CodecError::UnsupportedDataType(data_type.clone(), "cast_value".into()))
}

impl CastValue {
    /// The cast of one data type to another, by one of the maps.
    fn caster(&self, from: &DataType, to: &DataType, entries: &Entries) -> Result<ValueCaster, CodecError> {
        let scalar = |data_type: &DataType, value: &FillValueMetadata| {
            let element = data_type.fill_value_v3(value).map(|value| read(value.as_ne_bytes()));
            element.map_err(|_| {
                CodecError::Other(format!("cast_value: {value:?} in scalar_map is no {data_type}"))
            })
        };
        let (source, target) = (known(from)?, known(to)?);
        let map = entries.iter().map(|(key, value)| Ok((scalar(from, key)?, scalar(to, value)?)));
        let map = map.collect::<Result<Vec<_>, CodecError>>()?;
        let rule = self.out_of_range.map(Into::into);
        ValueCaster::new(source, target, self.rounding.into(), rule, &map).map_err(other)
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

    /// The fill value, cast; it must be the same when it comes back.
    fn encoded_fill_value(
        &self,
        data_type: &DataType,
        fill_value: &FillValue,
    ) -> Result<FillValue, CodecError> {
        let encoded = cast(&self.encoder(data_type)?, fill_value.as_ne_bytes()).map_err(other)?;
        let back = cast(&self.decoder(data_type)?, &encoded).map_err(other)?;
        if back != fill_value.as_ne_bytes() {
            return Err(CodecError::Other(format!(
                "cast_value: the fill value of {data_type} is another one after it was cast to {} and back",
                self.target
            )));
        }
        Ok(FillValue::new(encoded))
    }

    fn encode<'a>(
        &self,
        bytes: ArrayBytes<'a>,
        _: &[NonZeroU64],
        data_type: &DataType,
        _: &FillValue,
        _: &CodecOptions,
    ) -> Result<ArrayBytes<'a>, CodecError> {
        Ok(cast(&self.encoder(data_type)?, &bytes.into_fixed()?).map_err(other)?.into())
    }

    fn decode<'a>(
        &self,
        bytes: ArrayBytes<'a>,
        _: &[NonZeroU64],
        data_type: &DataType,
        _: &FillValue,
        _: &CodecOptions,
    ) -> Result<ArrayBytes<'a>, CodecError> {
        Ok(cast(&self.decoder(data_type)?, &bytes.into_fixed()?).map_err(other)?.into())
    }
}
