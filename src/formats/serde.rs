//! Serialisation (feature `serde`) that cannot be derived: dtypes and instruction sets by their names, and narrow elements by their bits,
//! as in the crate half.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::dtype::DType;
use super::isa::Isa;

/// Reads a name with [`FromStr`].
struct Name<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Name<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<T, E> {
        name.parse().map_err(E::custom)
    }
}

macro_rules! by_name {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Name(PhantomData))
            }
        }
    )*};
}
by_name!(DType, Isa);

/// Implements both traits for the type of a narrow element.
macro_rules! bits {
    ($type:ident) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_u8(self.to_bits())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use serde::de::{Error, Unexpected};
                let bits = <u8 as serde::Deserialize>::deserialize(deserializer)?;
                let element = Self::from_bits(bits);
                if element.to_bits() == bits {
                    Ok(element)
                } else {
                    let needed = format!("the {} bits of a {}", Self::DTYPE.bits(), Self::DTYPE);
                    Err(D::Error::invalid_value(Unexpected::Unsigned(bits.into()), &needed.as_str()))
                }
            }
        }
    };
}
pub(super) use bits;
