//! What each system calls the dtypes. A name is always read in the dialect of one system: `float` has 32
//! bits in PyTorch and 64 in NumPy, `byte` is signed in NumPy, and `i8` has eight bytes there and eight
//! bits elsewhere.

use alloc::borrow::Cow;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use super::onnx::ONNX;
use super::rules::Rules;
use super::set::DTypeSet;
use crate::formats::dtype::{DType, Kind};
use crate::formats::name::NameError;
use DType::*;

/// A system whose names of dtypes [`DType::parse`] reads and [`DType::name_in`] returns.
///
/// ```
/// use lanecast::{promotion::Dialect, DType};
/// assert_eq!(DType::parse(Dialect::NumPy, "float")?, DType::F64);
/// assert_eq!(DType::parse(Dialect::Torch, "float")?, DType::F32);
/// assert!(DType::parse(Dialect::Canonical, "float").is_err());
/// # Ok::<(), lanecast::NameError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Dialect {
    /// Only the names of [`DType::name`], which are those of ml_dtypes and NumPy.
    Canonical,
    /// NumPy 2 with ml_dtypes: names, C names, characters, and type strings without a byte order
    /// ([`OrderedDType`](crate::numpy::OrderedDType) reads those with one). `long` is the C type of 64-bit Unix; on
    /// Windows it has 32 bits.
    NumPy,
    /// PyTorch, with or without `torch.` in front. `float4_e2m1fn_x2`, which is two elements in one, is not
    /// included.
    Torch,
    /// MindSpore, with or without `mindspore.` in front: the aliases of all its versions.
    MindSpore,
    /// MegEngine. Its `intb2` and `intb4` are not included, because they hold odd numbers.
    MegEngine,
    /// The Python Array API standard.
    ArrayApi,
    /// ONNX: the names of `TensorProto.DataType`, and type strings such as `tensor(float16)`.
    Onnx,
    /// JAX.
    Jax,
    /// The headers of safetensors files.
    Safetensors,
    /// DLPack: code, bits and lanes as numbers, such as `2,32,1`.
    Dlpack,
}

impl Dialect {
    /// Every dialect. Its length grows with new dialects: take it as a slice.
    ///
    /// ```
    /// use lanecast::{promotion::Dialect, DType};
    /// let names = Dialect::ALL.map(|dialect| DType::F32.name_in(dialect).unwrap());
    /// assert_eq!(names[6..], ["FLOAT", "float32", "F32", "2,32,1"]);
    /// ```
    pub const ALL: [Self; 10] = [
        Self::Canonical,
        Self::NumPy,
        Self::Torch,
        Self::MindSpore,
        Self::MegEngine,
        Self::ArrayApi,
        Self::Onnx,
        Self::Jax,
        Self::Safetensors,
        Self::Dlpack,
    ];

    /// The name of the system.
    ///
    /// ```
    /// assert_eq!(lanecast::promotion::Dialect::ArrayApi.name(), "Array API");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Canonical => "canonical",
            Self::NumPy => "NumPy",
            Self::Torch => "PyTorch",
            Self::MindSpore => "MindSpore",
            Self::MegEngine => "MegEngine",
            Self::ArrayApi => "Array API",
            Self::Onnx => "ONNX",
            Self::Jax => "JAX",
            Self::Safetensors => "safetensors",
            Self::Dlpack => "DLPack",
        }
    }

    /// The error of a name that this system does not have.
    #[cold]
    pub(crate) fn has_no(self, name: &str) -> NameError {
        let known = DType::ALL.into_iter().flat_map(move |dtype| dtype.names_in(self));
        NameError::in_dialect(self.name(), name, known)
    }

    /// An optional prefix of names: the module that has the system's dtypes.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Torch => "torch.",
            Self::MindSpore => "mindspore.",
            _ => "",
        }
    }

    /// The dtypes that the system calls by their canonical names.
    const fn canonical(self) -> DTypeSet {
        match self {
            Self::Canonical | Self::NumPy => DTypeSet::ALL,
            Self::Torch => Rules::TORCH.dtypes(),
            Self::MindSpore => Rules::MINDSPORE.dtypes(),
            Self::MegEngine => Rules::MEGENGINE.dtypes().with(BF16).with(C64),
            Self::ArrayApi => Rules::ARRAY_API.dtypes(),
            Self::Jax => Rules::JAX.dtypes(),
            Self::Onnx | Self::Safetensors | Self::Dlpack => DTypeSet::EMPTY,
        }
    }

    /// The system's other names of dtypes.
    const fn aliases(self) -> &'static [(&'static str, DType)] {
        match self {
            Self::NumPy => NUMPY,
            Self::Torch => TORCH,
            Self::MindSpore => MINDSPORE,
            Self::Jax => JAX,
            Self::Safetensors => SAFETENSORS,
            _ => &[],
        }
    }
}

/// The first single character of each dtype is its `char` in NumPy.
#[rustfmt::skip]
const NUMPY: &[(&str, DType)] = &[
    ("?", Bool), ("b", I8), ("B", U8), ("h", I16), ("H", U16), ("i", I32), ("I", U32), ("l", I64), ("L", U64),
    ("q", I64), ("Q", U64), ("p", I64), ("P", U64), ("n", I64), ("N", U64),
    ("e", F16), ("f", F32), ("d", F64), ("F", C64), ("D", C128),
    ("bool_", Bool), ("byte", I8), ("ubyte", U8), ("short", I16), ("ushort", U16), ("intc", I32), ("uintc", U32),
    ("int", I64), ("int_", I64), ("uint", U64), ("intp", I64), ("uintp", U64), ("long", I64), ("ulong", U64),
    ("longlong", I64), ("ulonglong", U64), ("half", F16), ("single", F32), ("float", F64), ("double", F64),
    ("csingle", C64), ("complex", C128), ("cdouble", C128),
];
const TORCH: &[(&str, DType)] = &[
    ("short", I16),
    ("int", I32),
    ("long", I64),
    ("half", F16),
    ("float", F32),
    ("double", F64),
    ("cfloat", C64),
    ("cdouble", C128),
];
/// The names of the newer documentation, then those of the older one.
#[rustfmt::skip]
const MINDSPORE: &[(&str, DType)] = &[
    ("short", I16), ("int", I32), ("long", I64), ("half", F16), ("float", F32), ("double", F64),
    ("cfloat", C64), ("cdouble", C128),
    ("bool_", Bool), ("byte", I8), ("intc", I32), ("intp", I64), ("ubyte", U8), ("ushort", U16), ("uintc", U32),
    ("uintp", U64), ("single", F32),
];
const JAX: &[(&str, DType)] =
    &[("bool_", Bool), ("single", F32), ("double", F64), ("csingle", C64), ("cdouble", C128)];
#[rustfmt::skip]
const SAFETENSORS: &[(&str, DType)] = &[
    ("BOOL", Bool), ("U8", U8), ("I8", I8), ("U16", U16), ("I16", I16), ("U32", U32), ("I32", I32), ("U64", U64),
    ("I64", I64), ("F4", F4E2M1), ("F6_E2M3", F6E2M3), ("F6_E3M2", F6E3M2), ("F8_E4M3", F8E4M3FN),
    ("F8_E4M3FNUZ", F8E4M3FNUZ), ("F8_E5M2", F8E5M2), ("F8_E5M2FNUZ", F8E5M2FNUZ), ("F8_E8M0", F8E8M0),
    ("F16", F16), ("BF16", BF16), ("F32", F32), ("F64", F64), ("C64", C64),
];
impl DType {
    /// Returns the dtype that a system calls by this name, which must match exactly.
    ///
    /// ```
    /// use lanecast::{promotion::Dialect, DType};
    /// assert_eq!(DType::parse(Dialect::NumPy, "u4")?, DType::U32); // four bytes
    /// assert_eq!(DType::parse(Dialect::MindSpore, "intc")?, DType::I32);
    /// assert_eq!(DType::parse(Dialect::Safetensors, "F8_E4M3")?, DType::F8E4M3FN);
    /// let error = DType::parse(Dialect::Torch, "single").unwrap_err().to_string();
    /// assert!(error.starts_with("there is no dtype here that PyTorch names \"single\"; its names are bool, uint2,"));
    /// # Ok::<(), lanecast::NameError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The system has no dtype of this name, or it is not one of [`DType::ALL`].
    pub fn parse(dialect: Dialect, name: &str) -> Result<Self, NameError> {
        let bare = name.strip_prefix(dialect.prefix()).unwrap_or(name);
        let found = Self::ALL.into_iter().find(|dtype| dtype.names_in(dialect).any(|known| known == bare));
        found.ok_or_else(|| dialect.has_no(name))
    }

    /// The usual name of this dtype in a system. None if the system does not have the dtype.
    ///
    /// ```
    /// use lanecast::{promotion::Dialect, DType};
    /// assert_eq!(DType::F8E4M3FN.name_in(Dialect::Onnx).unwrap(), "FLOAT8E4M3FN");
    /// assert_eq!(DType::F8E4M3FN.name_in(Dialect::ArrayApi), None);
    /// ```
    pub fn name_in(self, dialect: Dialect) -> Option<Cow<'static, str>> {
        self.names_in(dialect).next()
    }

    /// Every name by which a system calls this dtype, the usual one first.
    ///
    /// ```
    /// use lanecast::{promotion::Dialect, DType};
    /// assert!(DType::I8.names_in(Dialect::NumPy).eq(["int8", "b", "byte", "i1"]));
    /// assert!(DType::F32.names_in(Dialect::Onnx).eq(["FLOAT", "tensor(float)"]));
    /// ```
    pub fn names_in(self, dialect: Dialect) -> impl Iterator<Item = Cow<'static, str>> {
        let canonical = dialect.canonical().contains(self).then_some(self.name());
        let aliases =
            dialect.aliases().iter().filter(move |(_, dtype)| *dtype == self).map(|(name, _)| *name);
        // Names that are composed.
        let mut made = Vec::new();
        match dialect {
            Dialect::NumPy => made.extend(self.numpy_code()),
            Dialect::Dlpack => {
                made.extend(self.to_dlpack().map(|(code, bits, lanes)| format!("{code},{bits},{lanes}")));
            }
            Dialect::Onnx => {
                for (_, name, _) in ONNX.iter().filter(|(_, _, dtype)| *dtype == self) {
                    made.extend([(*name).to_owned(), format!("tensor({})", name.to_lowercase())]);
                }
            }
            _ => {}
        }
        canonical.into_iter().chain(aliases).map(Cow::Borrowed).chain(made.into_iter().map(Cow::Owned))
    }

    /// NumPy's character of the kind and number of bytes, such as `f4`. None for the dtypes of ml_dtypes.
    pub(crate) fn numpy_code(self) -> Option<String> {
        let core = Rules::NUMPY.dtypes().contains(self);
        core.then(|| format!("{}{}", self.kind_char(), self.itemsize()))
    }

    /// The number in ONNX's `TensorProto.DataType`. None if ONNX does not have the dtype.
    ///
    /// ```
    /// assert_eq!(lanecast::DType::F32.to_onnx(), Some(1));
    /// ```
    pub fn to_onnx(self) -> Option<i32> {
        ONNX.iter().find(|(_, _, dtype)| *dtype == self).map(|(code, _, _)| *code)
    }

    /// Returns the dtype with a number in ONNX's `TensorProto.DataType`. None for types that are not a [`DType`].
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!(DType::from_onnx(16), Some(DType::BF16));
    /// assert_eq!(DType::from_onnx(8), None); // a string
    /// ```
    pub fn from_onnx(code: i32) -> Option<Self> {
        ONNX.iter().find(|(known, _, _)| *known == code).map(|(_, _, dtype)| *dtype)
    }

    /// The DLPack type: code, bits, lanes. None if DLPack does not have the dtype.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!(DType::BF16.to_dlpack(), Some((4, 16, 1)));
    /// assert_eq!(DType::C64.to_dlpack(), Some((5, 64, 1)));
    /// ```
    pub const fn to_dlpack(self) -> Option<(u8, u8, u16)> {
        let code = match (self.kind(), self.part()) {
            (Kind::Int(format), _) => !format.signed as u8,
            (Kind::Complex(_), F16 | F32 | F64) => 5,
            (Kind::Complex(_), _) => return None,
            (Kind::Bool, _) => 6,
            (_, F8E3M4) => 7,
            (_, F8E4M3) => 8,
            (_, F8E4M3B11FNUZ) => 9,
            (_, F8E4M3FN) => 10,
            (_, F8E4M3FNUZ) => 11,
            (_, F8E5M2) => 12,
            (_, F8E5M2FNUZ) => 13,
            (_, F8E8M0) => 14,
            (_, F6E2M3) => 15,
            (_, F6E3M2) => 16,
            (_, F4E2M1) => 17,
            (_, BF16) => 4,
            (Kind::Float(_), _) if self.bits() >= 16 => 2,
            (Kind::Float(_), _) => return None,
        };
        Some((code, self.bits() as u8, 1))
    }

    /// Returns the dtype of a DLPack type of one lane. None for types that are not a [`DType`].
    ///
    /// Several lanes are several elements: the caller has to include them in the shape.
    ///
    /// ```
    /// use lanecast::DType;
    /// assert_eq!(DType::from_dlpack(1, 4, 1), Some(DType::U4));
    /// assert_eq!(DType::from_dlpack(2, 32, 4), None);
    /// ```
    pub fn from_dlpack(code: u8, bits: u8, lanes: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.to_dlpack() == Some((code, bits, lanes)))
    }
}
