//! The rulesets of promotion: what operands of different dtypes become.
//!
//! A ruleset gives for every dtype the set of dtypes that it may become. Any number of operands promotes to the
//! least element of the intersection of their sets, so their order cannot matter, and there is no pairwise
//! folding. The sets are the transitive closure, made at compile time, of the few edges in a system's own
//! documentation. If there is no least element, the result is that of the ruleset's [`Tie`].

use super::closure::{Edge, close, cut_complex, identity, lossless};
use super::error::PromotionError;
use super::onnx::onnx_dtypes;
use super::scalar::{COMPLEX, Defaults, ScalarKind};
use super::set::DTypeSet;
use crate::formats::dtype::{DTYPES, DType};
use crate::formats::name::NameError;
use DType::*;

/// How the operands of one system promote: a table that is made at compile time.
///
/// ```
/// use lanecast::{promotion::Rules, DType};
///
/// let (a, b) = (DType::I32, DType::F16);
/// assert_eq!(Rules::NUMPY.promote(a, b), Ok(DType::F64)); // keeps every value
/// assert_eq!(Rules::TORCH.promote(a, b), Ok(DType::F16)); // any float before any integer
/// let error = Rules::ARRAY_API.promote(DType::I32, DType::F32).unwrap_err();
/// assert_eq!(error.to_string(), "array_api defines no common dtype of int32, float32");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    name: &'static str,
    /// Empty for a dtype that the system does not have.
    up: [DTypeSet; DTYPES],
    tie: Tie,
    /// Its `can_cast` only compares the kinds.
    casts_by_kind: bool,
    /// The highest kind of Python number that it takes; None if it takes none.
    scalars: Option<ScalarKind>,
    /// Whether bool and other kinds combine where one of the operands is a Python number.
    bool_mixes: bool,
    /// Whether a Python number only combines where an array of its default dtype does.
    numbers_as_arrays: bool,
    defaults: Defaults,
}

/// The result if the common dtypes have no least element.
#[derive(Clone, Copy, Debug)]
enum Tie {
    /// None: it is an error.
    Undefined,
    /// Of the minimal ones, that which comes first in `ORDER`, so an integer before a float.
    Lowest,
    /// This dtype: the default float.
    To(DType),
}

const FLOATS: &[Edge] = &[(F32, &[F64, C64]), (F64, &[C128]), (C64, &[C128])];
const HALVES: &[Edge] = &[(F16, &[F32]), (BF16, &[F32])];
/// Unsigned and signed integers meet in the next wider signed dtype.
const INTS: &[Edge] =
    &[(U8, &[U16, I16]), (I8, &[I16]), (U16, &[U32, I32]), (I16, &[I32]), (U32, &[U64, I64]), (I32, &[I64])];
/// The signed integers with uint8, the only unsigned dtype below a signed one.
const SIGNED_INTS: &[Edge] =
    &[(Bool, &[U8, I8]), (U8, &[I16]), (I8, &[I16]), (I16, &[I32]), (I32, &[I64]), (I64, &[F16, BF16])];
const NARROW_INTS: &[DType] = &[U1, I1, U2, I2, U4, I4];
const NARROW_FLOATS: &[DType] = &[
    F4E2M1,
    F6E2M3,
    F6E3M2,
    F8E3M4,
    F8E4M3,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E4M3B11FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0,
];
const JAX_EDGES: &[&[Edge]] = &[
    &[(Bool, NARROW_INTS), (Bool, &[U8, I8])],
    INTS,
    &[(U64, NARROW_FLOATS), (I64, NARROW_FLOATS), (U64, &[F16, BF16]), (I64, &[F16, BF16])],
    HALVES,
    FLOATS,
];

impl Rules {
    /// NumPy 2: the smallest dtype to which every operand casts safely, an integer if there is one. A cast is safe
    /// if it keeps every value, or is that of a 64-bit integer to float64.
    ///
    /// Deviations: the platform's `longdouble` is missing. So are the dtypes of ml_dtypes, for which
    /// NumPy's results are no lattice, and its "safe" loses values.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType::*};
    /// assert_eq!(Rules::NUMPY.promote(I8, U8), Ok(I16));
    /// assert_eq!(Rules::NUMPY.promote_all([I8, U16, F32]), Ok(F32)); // folded, it would be float64
    /// ```
    pub const NUMPY: Self = Self::new(
        "numpy",
        Tie::Lowest,
        close(&[
            &[
                (Bool, &[U8, I8]),
                (U8, &[U16, I16, F16]),
                (I8, &[I16, F16]),
                (U16, &[U32, I32, F32]),
                (I16, &[I32, F32]),
                (U32, &[U64, I64]),
                (I32, &[I64]),
                (U64, &[F64]),
                (I64, &[F64]),
                (F16, &[F32]),
            ],
            FLOATS,
        ]),
    )
    .defaults([Some(I64), Some(F64), Some(C128), Some(I64)]);

    /// JAX with 64-bit dtypes enabled: complex before float before integer before bool, and the wider of one
    /// kind. Narrow floats combine with integers but no other float, narrow integers only with bool. uint64 with a
    /// signed integer gives the default float.
    ///
    /// Deviations: results have no weak types.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType::*};
    /// assert_eq!(Rules::JAX.promote(I64, F16), Ok(F16));
    /// assert_eq!(Rules::JAX.promote(U64, I8), Ok(F64));
    /// assert!(Rules::JAX.promote(F8E5M2, F16).is_err());
    /// ```
    pub const JAX: Self = Self::new("jax", Tie::To(F64), close(JAX_EDGES)).defaults([
        Some(I64),
        Some(F64),
        Some(C128),
        Some(I64),
    ]);

    /// JAX by default, without 64-bit dtypes: as [`Rules::JAX`], but uint32 with a signed integer of 32 bits or fewer
    /// gives int32. The default dtypes have parts of 32 bits.
    ///
    /// Deviations: this is `promote_types`; `result_type` then narrows results of 64 bits.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType::*};
    /// assert_eq!(Rules::JAX_X32.promote(U32, I8), Ok(I32));
    /// assert_eq!(Rules::JAX.promote(U32, I8), Ok(I64));
    /// ```
    pub const JAX_X32: Self = {
        let [bools, ints, wide, halves, floats] = *JAX_EDGES else { panic!("five lists") };
        let up = close(&[bools, ints, &[(U32, &[I32])], wide, halves, floats]);
        Self::new("jax_x32", Tie::To(F64), up).defaults([Some(I32), Some(F32), Some(C64), Some(I32)])
    };

    /// JAX with `jax_numpy_dtype_promotion='strict'`: only equal dtypes combine. A Python number takes the
    /// dtype of an array of its kind or a higher one, and a Python bool only combines with bool.
    ///
    /// Deviations: as [`Rules::JAX`].
    ///
    /// ```
    /// use lanecast::{promotion::{Rules, ScalarKind}, DType::*};
    /// assert!(Rules::JAX_STRICT.promote(I8, I16).is_err());
    /// assert_eq!(Rules::JAX_STRICT.with_scalar(F16, ScalarKind::Int), Ok(F16));
    /// assert!(Rules::JAX_STRICT.with_scalar(I16, ScalarKind::Float).is_err());
    /// ```
    pub const JAX_STRICT: Self = Self::new("jax_strict", Tie::Undefined, identity(Self::JAX.dtypes()))
        .defaults([Some(I64), Some(F64), Some(C128), Some(I64)])
        .bool_alone();

    /// PyTorch: complex before float before integer before bool, and the wider of one kind. uint16, uint32
    /// and uint64 combine with themselves and with real floats; float8 and the narrow integers only with
    /// themselves.
    ///
    /// Deviations: there are no tensors without dimensions, which count as numbers in PyTorch. Integers of 2 and 4 bits are undefined with floats and
    /// with Python's floats and complex numbers, for which `torch.promote_types` has results but torch has no operations. Integers of 1 bit are
    /// missing.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType::*};
    /// assert_eq!(Rules::TORCH.promote(F16, BF16), Ok(F32));
    /// assert_eq!(Rules::TORCH.promote(U16, F16), Ok(F16));
    /// assert!(Rules::TORCH.promote(U16, I32).is_err());
    /// ```
    pub const TORCH: Self = Self {
        casts_by_kind: true,
        ..Self::new(
            "torch",
            Tie::Undefined,
            cut_complex(
                close(&[
                    SIGNED_INTS,
                    &[(U16, &[F16, BF16]), (U32, &[F16, BF16]), (U64, &[F16, BF16])],
                    &[(U2, &[]), (I2, &[]), (U4, &[]), (I4, &[])],
                    &[(F8E4M3FN, &[]), (F8E4M3FNUZ, &[]), (F8E5M2, &[]), (F8E5M2FNUZ, &[]), (F8E8M0, &[])],
                    HALVES,
                    &[(F16, &[C32]), (BF16, &[BC32]), (C32, &[C64]), (BC32, &[C64])],
                    FLOATS,
                ]),
                &[U16, U32, U64],
            ),
        )
        .defaults([Some(I64), Some(F32), Some(C64), Some(I64)])
    };

    /// The Python Array API standard 2025.12: integers combine with integers, floats and complex numbers with
    /// each other, bool with itself. Other mixtures, and uint64 with a signed integer, are undefined.
    ///
    /// Deviations: an implementation may define what the standard leaves open, and may choose narrower
    /// defaults.
    ///
    /// ```
    /// use lanecast::{promotion::{Rules, ScalarKind}, DType::*};
    /// assert_eq!(Rules::ARRAY_API.promote(U32, I8), Ok(I64));
    /// assert!(Rules::ARRAY_API.promote(Bool, I8).is_err());
    /// assert_eq!(Rules::ARRAY_API.with_scalar(F32, ScalarKind::Complex), Ok(C64));
    /// ```
    pub const ARRAY_API: Self =
        Self::new("array_api", Tie::Undefined, close(&[&[(Bool, &[])], INTS, FLOATS]))
            .defaults([Some(I64), Some(F64), Some(C128), Some(I64)])
            .bool_alone();

    /// MindSpore: complex before float before integer before bool, and the wider of one kind. uint16, uint32
    /// and uint64 only combine with themselves and bool.
    ///
    /// Deviations: in MindSpore an operator that writes a Parameter keeps its dtype, `bool + bool` has no kernel
    /// in graph mode, and `mindspore.numpy.promote_types` has another, older table.
    ///
    /// ```
    /// use lanecast::{promotion::{Rules, ScalarKind}, DType::*};
    /// assert_eq!(Rules::MINDSPORE.promote(U8, I8), Ok(I16));
    /// let error = Rules::MINDSPORE.promote(U16, I8).unwrap_err();
    /// assert_eq!(error.to_string(), "mindspore defines no common dtype of int8, uint16");
    /// assert_eq!(Rules::MINDSPORE.with_scalar(I8, ScalarKind::Float), Ok(F32));
    /// ```
    pub const MINDSPORE: Self = Self {
        numbers_as_arrays: true,
        ..Self::new(
            "mindspore",
            Tie::Undefined,
            close(&[
                SIGNED_INTS,
                &[(Bool, &[U16, U32, U64]), (F8E4M3FN, &[]), (F8E5M2, &[])],
                HALVES,
                FLOATS,
            ]),
        )
        .defaults([Some(I64), Some(F32), Some(C128), Some(I64)])
        .up_to(Some(ScalarKind::Float))
    };

    /// MegEngine as documented: float before integer before bool, and within a kind as in NumPy. There
    /// are no 64-bit dtypes, so the order ends with int16, int32, float16, float32.
    ///
    /// Deviations: from 1.10 on, its runtime promotes tensors differently: different kinds, and float16
    /// with any other dtype, give float32, and integers of different signs are an error.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType::*};
    /// assert_eq!(Rules::MEGENGINE.promote(I8, U8), Ok(I16));
    /// assert_eq!(Rules::MEGENGINE.promote(I32, F16), Ok(F16));
    /// ```
    pub const MEGENGINE: Self = Self::new(
        "megengine",
        Tie::Undefined,
        close(&[&[
            (Bool, &[U8, I8]),
            (U8, &[U16, I16]),
            (I8, &[I16]),
            (U16, &[I32]),
            (I16, &[I32]),
            (I32, &[F16]),
            (F16, &[F32]),
        ]]),
    )
    .defaults([Some(I32), Some(F32), None, Some(I32)])
    .up_to(Some(ScalarKind::Float));

    /// ONNX: an operator binds its operands to one type, so only equal dtypes combine. There are no Python
    /// numbers; the default dtypes are those of the operators `Constant` and `Shape`.
    ///
    /// Deviations: operators with two type variables (`Pow`, `CastLike`, `QuantizeLinear` and others) define
    /// their own results.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType::*};
    /// assert_eq!(Rules::ONNX.promote(F16, F16), Ok(F16));
    /// assert!(Rules::ONNX.promote(F16, F32).is_err());
    /// ```
    pub const ONNX: Self = Self::new("onnx", Tie::Undefined, identity(onnx_dtypes()))
        .defaults([Some(I64), Some(F32), None, Some(I64)])
        .up_to(None);

    /// The first dtype that loses nothing of any operand: no value, no infinity, no NaN, no −0. It follows from
    /// the constants of the formats, and is the one to use when no other system has to be matched.
    ///
    /// No other system does this. There are no Python numbers and no default dtypes.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType::*};
    /// assert_eq!(Rules::LOSSLESS.promote(U4, I2), Ok(I8));
    /// assert_eq!(Rules::LOSSLESS.promote(F8E4M3FN, F8E5M2), Ok(F16));
    /// assert_eq!(Rules::LOSSLESS.promote(F16, BF16), Ok(F32));
    /// assert!(Rules::LOSSLESS.promote(I64, F32).is_err());
    /// ```
    pub const LOSSLESS: Self = Self::new("lossless", Tie::Lowest, lossless()).up_to(None);

    /// Every ruleset. Its length grows with new rulesets: take it as a slice.
    ///
    /// ```
    /// let names = lanecast::promotion::Rules::ALL.map(|rules| rules.name());
    /// assert_eq!(names[..3], ["numpy", "jax", "jax_x32"]);
    /// ```
    pub const ALL: [&'static Self; 10] = [
        &Self::NUMPY,
        &Self::JAX,
        &Self::JAX_X32,
        &Self::JAX_STRICT,
        &Self::TORCH,
        &Self::ARRAY_API,
        &Self::MINDSPORE,
        &Self::MEGENGINE,
        &Self::ONNX,
        &Self::LOSSLESS,
    ];

    const fn new(name: &'static str, tie: Tie, up: [DTypeSet; DTYPES]) -> Self {
        Self {
            name,
            up,
            tie,
            casts_by_kind: false,
            scalars: Some(ScalarKind::Complex),
            bool_mixes: true,
            numbers_as_arrays: false,
            defaults: Defaults { int: None, float: None, complex: None, index: None },
        }
    }

    const fn defaults(self, [int, float, complex, index]: [Option<DType>; 4]) -> Self {
        Self { defaults: Defaults { int, float, complex, index }, ..self }
    }

    const fn bool_alone(self) -> Self {
        Self { bool_mixes: false, ..self }
    }

    const fn up_to(self, scalars: Option<ScalarKind>) -> Self {
        Self { scalars, ..self }
    }

    /// The name of the ruleset, in lower case.
    ///
    /// ```
    /// assert_eq!(lanecast::promotion::Rules::JAX_X32.name(), "jax_x32");
    /// ```
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the ruleset with this name, which must match exactly.
    ///
    /// ```
    /// use lanecast::promotion::Rules;
    /// assert_eq!(Rules::from_name("torch")?.name(), "torch");
    /// let error = Rules::from_name("pytorch").unwrap_err().to_string();
    /// assert!(error.starts_with("no ruleset is named \"pytorch\"; the names are numpy, jax, jax_x32,"));
    /// # Ok::<(), lanecast::NameError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// No ruleset has this name.
    pub fn from_name(name: &str) -> Result<&'static Self, NameError> {
        let found = Self::ALL.into_iter().find(|rules| rules.name == name);
        found.ok_or_else(|| NameError::new("ruleset", name, &Self::ALL.map(Self::name)))
    }

    /// The dtypes that the system has.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType};
    /// assert!(!Rules::NUMPY.dtypes().contains(DType::BF16));
    /// ```
    pub const fn dtypes(&self) -> DTypeSet {
        let mut set = DTypeSet::EMPTY;
        let mut i = 0;
        while i < DTYPES {
            set = set.union(self.up[i]);
            i += 1;
        }
        set
    }

    /// The dtypes that a dtype may become, including itself. Empty if the system does not have it.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType};
    /// assert_eq!(Rules::NUMPY.above(DType::F32).to_string(), "float32, float64, complex64, complex128");
    /// ```
    pub const fn above(&self, dtype: DType) -> DTypeSet {
        self.up[dtype as usize]
    }

    /// Returns the common dtype of two operands.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType};
    /// assert_eq!(Rules::JAX.promote(DType::I8, DType::BF16), Ok(DType::BF16));
    /// ```
    ///
    /// # Errors
    ///
    /// The ruleset does not have one of the dtypes, or defines no result. The error names the ruleset and the dtypes.
    pub const fn promote(&self, a: DType, b: DType) -> Result<DType, PromotionError> {
        self.least(DTypeSet::EMPTY.with(a).with(b))
    }

    /// Returns the common dtype of any number of operands. Neither their order nor repetitions matter.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType::*};
    /// assert_eq!(Rules::JAX.promote_all([U64, I8, F16]), Ok(F16));
    /// assert!(Rules::JAX.promote_all([]).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// There are no operands, the ruleset does not have the dtype of one, or it defines no result.
    pub fn promote_all(&self, operands: impl IntoIterator<Item = DType>) -> Result<DType, PromotionError> {
        self.least(operands.into_iter().collect())
    }

    /// The least dtype that every operand may become, for all rulesets alike.
    const fn least(&self, operands: DTypeSet) -> Result<DType, PromotionError> {
        let rules = self.name;
        let mut common = DTypeSet::ALL;
        let mut i = 0;
        while i < DTYPES {
            if operands.contains(DType::ALL[i]) {
                if self.up[i].is_empty() {
                    let known = self.dtypes();
                    return Err(PromotionError::UnknownDType { rules, dtype: DType::ALL[i], known });
                }
                common = common.intersection(self.up[i]);
            }
            i += 1;
        }
        if operands.is_empty() {
            return Err(PromotionError::NoOperands);
        }
        // No element of the set is below the one that comes first: see `close`.
        let Some(first) = common.lowest() else { return Err(PromotionError::Undefined { rules, operands }) };
        match self.tie {
            _ if common.difference(self.up[first as usize]).is_empty() => Ok(first),
            Tie::Lowest => Ok(first),
            Tie::To(dtype) => Ok(dtype),
            Tie::Undefined => Err(PromotionError::Undefined { rules, operands }),
        }
    }

    /// The system's own `can_cast`: whether promotion may lead from one dtype to the other. PyTorch's only
    /// requires that the kind does not become a lower one, in the order bool, integer, float, complex.
    ///
    /// NumPy's `can_cast` with a level is [`DType::can_cast`].
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType::*};
    /// assert!(Rules::TORCH.can_cast(F64, F16) && !Rules::TORCH.can_cast(F16, I64));
    /// assert!(Rules::ARRAY_API.can_cast(U8, I16) && !Rules::ARRAY_API.can_cast(I16, F32));
    /// ```
    pub const fn can_cast(&self, from: DType, to: DType) -> bool {
        if self.casts_by_kind {
            let known = !self.above(from).is_empty() && !self.above(to).is_empty();
            known && ScalarKind::of(from) as u8 <= ScalarKind::of(to) as u8
        } else {
            self.above(from).contains(to)
        }
    }

    /// Returns the common dtype of an array and a Python number: that of the array, unless the number has a
    /// higher kind. Then it is the complex dtype for a float array, else the default dtype of the number's kind.
    ///
    /// ```
    /// use lanecast::{promotion::{Rules, ScalarKind}, DType::*};
    /// assert_eq!(Rules::TORCH.with_scalar(I8, ScalarKind::Int), Ok(I8));
    /// assert_eq!(Rules::TORCH.with_scalar(I8, ScalarKind::Float), Ok(F32));
    /// assert_eq!(Rules::NUMPY.with_scalar(F32, ScalarKind::Complex), Ok(C64));
    /// ```
    ///
    /// # Errors
    ///
    /// The ruleset does not have the dtype, or defines no result.
    pub const fn with_scalar(&self, dtype: DType, scalar: ScalarKind) -> Result<DType, PromotionError> {
        let rules = self.name;
        if self.above(dtype).is_empty() {
            return Err(PromotionError::UnknownDType { rules, dtype, known: self.dtypes() });
        }
        let array = ScalarKind::of(dtype);
        let taken = matches!(self.scalars, Some(highest) if scalar as u8 <= highest as u8);
        let combines = !self.numbers_as_arrays
            || matches!(self.default_dtype(scalar), Some(default) if self.promote(dtype, default).is_ok());
        let bools_agree = matches!(array, ScalarKind::Bool) == matches!(scalar, ScalarKind::Bool);
        let result = if !taken || !combines || !(self.bool_mixes || bools_agree) {
            None
        } else if scalar as u8 <= array as u8 {
            Some(dtype)
        } else if matches!((array, scalar), (ScalarKind::Float, ScalarKind::Complex)) {
            self.above(dtype).intersection(COMPLEX).lowest()
        } else {
            match self.default_dtype(scalar) {
                Some(default) if self.leads_to(dtype, default) => Some(default),
                _ => None,
            }
        };
        match result {
            Some(result) => Ok(result),
            None => Err(PromotionError::UndefinedScalar { rules, dtype, scalar }),
        }
    }

    /// Whether a dtype may become another, directly or by way of a third. The two only differ where `cut_complex` has made the sets
    /// intransitive.
    const fn leads_to(&self, from: DType, to: DType) -> bool {
        let mut i = 0;
        while i < DTYPES {
            if self.above(from).contains(DType::ALL[i]) && self.up[i].contains(to) {
                return true;
            }
            i += 1;
        }
        false
    }

    /// The default dtype of an array that is made of Python numbers of a kind. None if the system does not define it.
    ///
    /// ```
    /// use lanecast::{promotion::{Rules, ScalarKind}, DType};
    /// assert_eq!(Rules::NUMPY.default_dtype(ScalarKind::Float), Some(DType::F64));
    /// assert_eq!(Rules::TORCH.default_dtype(ScalarKind::Float), Some(DType::F32));
    /// ```
    pub const fn default_dtype(&self, kind: ScalarKind) -> Option<DType> {
        match kind {
            ScalarKind::Bool => self.dtypes().intersection(DTypeSet::EMPTY.with(Bool)).first(),
            ScalarKind::Int => self.defaults.int,
            ScalarKind::Float => self.defaults.float,
            ScalarKind::Complex => self.defaults.complex,
        }
    }

    /// The dtype of the indices that the system returns. None if the system does not define it.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType};
    /// assert_eq!(Rules::MEGENGINE.index_dtype(), Some(DType::I32));
    /// ```
    pub const fn index_dtype(&self) -> Option<DType> {
        self.defaults.index
    }
}
