//! The codec [`cast_value`](https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value) of Zarr for
//! [zarrs](https://docs.rs/zarrs): an array is stored in another data type than it has in memory. [`register`] makes zarrs take it.
//!
//! ```
//! zarrs_lanecast::register();
//! ```

mod cast;
mod codec;

use std::sync::Once;

use zarrs_codec::{CodecRuntimePluginV3, CodecTraitsV3, register_codec_v3};

pub use cast::{OutOfRange, Rounding, dtype};
pub use codec::CastValue;

/// Makes zarrs take this codec wherever metadata say `cast_value`, before any other of that name. Once is enough, and more do nothing.
///
/// ```
/// zarrs_lanecast::register();
/// zarrs_lanecast::register();
/// ```
pub fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // It stays: the handle, which could take it back, is not kept.
        register_codec_v3(CodecRuntimePluginV3::new(|name| name == "cast_value", CastValue::create));
    });
}
