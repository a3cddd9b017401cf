//! The codec [`cast_value`](https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value) of Zarr for
//! [zarrs](https://docs.rs/zarrs): an array is stored in another data type than it has in memory. [`register`] makes zarrs use it; [`CastValue`] is the codec, with an example.
//!
//! ```
//! zarrs_lanecast::register();
//! ```

mod cast;
mod codec;

use std::sync::Once;

use zarrs_codec::{CodecRuntimePluginV3, CodecTraitsV3, register_codec_v3};

pub use cast::{OutOfRange, Rounding};
pub use codec::CastValue;

/// Makes zarrs use this codec for `cast_value` in metadata, before any other codec of that name. Further calls do nothing.
///
/// ```
/// zarrs_lanecast::register();
/// zarrs_lanecast::register();
/// ```
pub fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // The handle, which could unregister the codec, is dropped: the codec stays registered.
        register_codec_v3(CodecRuntimePluginV3::new(|name| name == "cast_value", CastValue::create));
    });
}
