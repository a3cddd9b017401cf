//! The lowest layer: what the dtypes are, how their elements lie in bytes, and the options of casts.
//! Nothing here runs a cast, and nothing here imports from the rest of the crate.

pub(crate) mod dtype;
pub(crate) mod element;
pub(crate) mod isa;
pub(crate) mod layout;
pub(crate) mod list;
pub(crate) mod loss;
pub(crate) mod name;
pub(crate) mod options;
pub(crate) mod route;
#[cfg(feature = "serde")]
mod serde;
pub(crate) mod stochastic;
