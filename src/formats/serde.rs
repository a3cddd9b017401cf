//! Serialisation (feature `serde`) of what is no plain enum: dtypes and instruction sets by their names, a narrow element by its bits,
//! as the crate half does.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::dtype::DType;
use super::element::*;
use super::isa::Isa;

/// Reads a name.
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

macro_rules! named {
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
named!(DType, Isa);

macro_rules! bits {
    ($($type:ident),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_u8(self.to_bits())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let bits = u8::deserialize(deserializer)?;
                let element = Self::from_bits(bits);
                if element.to_bits() == bits {
                    Ok(element)
                } else {
                    let needed = format!("the {} bits of a {}", Self::DTYPE.bits(), Self::DTYPE);
                    Err(de::Error::invalid_value(Unexpected::Unsigned(bits.into()), &needed.as_str()))
                }
            }
        }
    )*};
}
bits!(
    F4E2M1,
    F6E2M3,
    F6E3M2,
    F8E3M4,
    F8E4M3,
    F8E4M3B11FNUZ,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0,
    I2,
    I4,
    U2,
    U4
);
