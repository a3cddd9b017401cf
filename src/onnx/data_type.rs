//! The element types of ONNX, and the versions of the operators that take them.

use core::fmt;

use crate::formats::dtype::DType;

macro_rules! data_types {
    ($($variant:ident = $code:literal, $name:literal, $dtype:expr, $since:expr;)*) => {
        /// The element type of a tensor: the `DataType` of `TensorProto`, with its codes.
        ///
        /// ```
        /// use lanecast::{DType, onnx::DataType};
        /// assert_eq!(DataType::from_code(17), Some(DataType::Float8E4M3FN));
        /// assert_eq!(DataType::Float8E4M3FN.name(), "FLOAT8E4M3FN");
        /// assert_eq!(DataType::Float8E4M3FN.dtype(), Some(DType::F8E4M3FN));
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum DataType { $(#[doc = concat!("`", $name, "`")] $variant = $code,)* }

        impl DataType {
            /// Every element type, in the order of the codes. Its length grows with new types: take it as a slice.
            ///
            /// ```
            /// use lanecast::onnx::DataType;
            /// assert_eq!(DataType::ALL.len(), 28);
            /// ```
            pub const ALL: [Self; 28] = [$(Self::$variant),*];

            /// The name in `TensorProto`.
            ///
            /// ```
            /// assert_eq!(lanecast::onnx::DataType::Double.name(), "DOUBLE");
            /// ```
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The dtype of the elements; None for strings.
            ///
            /// ```
            /// use lanecast::{DType, onnx::DataType};
            /// assert_eq!(DataType::Float4E2M1.dtype(), Some(DType::F4E2M1));
            /// assert_eq!(DataType::String.dtype(), None);
            /// ```
            pub const fn dtype(self) -> Option<DType> {
                match self { $(Self::$variant => $dtype,)* }
            }

            /// The first version of `Cast` that takes and returns this type.
            pub(super) const fn since(self) -> u32 {
                match self { $(Self::$variant => $since,)* }
            }
        }
    };
}

/// A number above every version: none takes the type.
pub(super) const NEVER: u32 = u32::MAX;

data_types! {
    Float          = 1,  "FLOAT",          Some(DType::F32),        1;
    Uint8          = 2,  "UINT8",          Some(DType::U8),         1;
    Int8           = 3,  "INT8",           Some(DType::I8),         1;
    Uint16         = 4,  "UINT16",         Some(DType::U16),        1;
    Int16          = 5,  "INT16",          Some(DType::I16),        1;
    Int32          = 6,  "INT32",          Some(DType::I32),        1;
    Int64          = 7,  "INT64",          Some(DType::I64),        1;
    String         = 8,  "STRING",         None,                    9;
    Bool           = 9,  "BOOL",           Some(DType::Bool),       1;
    Float16        = 10, "FLOAT16",        Some(DType::F16),        1;
    Double         = 11, "DOUBLE",         Some(DType::F64),        1;
    Uint32         = 12, "UINT32",         Some(DType::U32),        1;
    Uint64         = 13, "UINT64",         Some(DType::U64),        1;
    Complex64      = 14, "COMPLEX64",      Some(DType::C64),        NEVER;
    Complex128     = 15, "COMPLEX128",     Some(DType::C128),       NEVER;
    Bfloat16       = 16, "BFLOAT16",       Some(DType::BF16),       13;
    Float8E4M3FN   = 17, "FLOAT8E4M3FN",   Some(DType::F8E4M3FN),   19;
    Float8E4M3FNUZ = 18, "FLOAT8E4M3FNUZ", Some(DType::F8E4M3FNUZ), 19;
    Float8E5M2     = 19, "FLOAT8E5M2",     Some(DType::F8E5M2),     19;
    Float8E5M2FNUZ = 20, "FLOAT8E5M2FNUZ", Some(DType::F8E5M2FNUZ), 19;
    Uint4          = 21, "UINT4",          Some(DType::U4),         21;
    Int4           = 22, "INT4",           Some(DType::I4),         21;
    Float4E2M1     = 23, "FLOAT4E2M1",     Some(DType::F4E2M1),     23;
    Float8E8M0     = 24, "FLOAT8E8M0",     Some(DType::F8E8M0),     24;
    Uint2          = 25, "UINT2",          Some(DType::U2),         25;
    Int2           = 26, "INT2",           Some(DType::I2),         25;
    Float6E2M3     = 27, "FLOAT6E2M3",     Some(DType::F6E2M3),     28;
    Float6E3M2     = 28, "FLOAT6E3M2",     Some(DType::F6E3M2),     28;
}

impl DataType {
    /// The number in `TensorProto`.
    ///
    /// ```
    /// assert_eq!(lanecast::onnx::DataType::Bfloat16.code(), 16);
    /// ```
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The type with this number in `TensorProto`, if there is one.
    ///
    /// ```
    /// use lanecast::onnx::DataType;
    /// assert_eq!(DataType::from_code(10), Some(DataType::Float16));
    /// assert_eq!(DataType::from_code(0), None); // UNDEFINED
    /// ```
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|data_type| i64::from(data_type.code()) == code)
    }

    /// The type with this name in `TensorProto`, which must match exactly.
    ///
    /// ```
    /// use lanecast::onnx::DataType;
    /// assert_eq!(DataType::from_name("FLOAT16"), Some(DataType::Float16));
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|data_type| data_type.name() == name)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
