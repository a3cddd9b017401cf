//! The common dtype of operands with a caster for each of them.

use alloc::vec::Vec;

use super::error::PromotionError;
use super::rules::Rules;
use crate::cast::Caster;
use crate::error::Error;
use crate::formats::dtype::DType;
use crate::formats::options::CastOptions;
use crate::formats::route::route;

/// The common dtype of some operands, and what has to be done to each; made by [`Rules::plan`].
///
/// ```
/// use lanecast::{promotion::{Operand, Rules}, DType};
///
/// let plan = Rules::TORCH.plan(&[DType::I8, DType::BF16])?;
/// assert_eq!(plan.dtype(), DType::BF16);
/// let [Operand::Cast(caster), Operand::AsIs] = plan.operands() else { unreachable!() };
///
/// let mut out = [0; 4];
/// caster.cast(&[1, 0xFE], &mut out, 2)?;
/// assert_eq!(out[2..], lanecast::bf16::from_f32(-2.0).to_ne_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Promotion {
    dtype: DType,
    operands: Vec<Operand>,
}

/// What has to be done to one operand.
///
/// ```
/// use lanecast::{promotion::{Operand, Rules}, DType};
/// let plan = Rules::NUMPY.plan(&[DType::F64, DType::F32])?;
/// assert!(matches!(plan.operands()[0], Operand::AsIs));
/// assert_eq!(plan.operands()[1].caster().unwrap().to(), DType::F64);
/// # Ok::<(), lanecast::promotion::PromotionError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "a plan has a few operands and is made for one operation")]
pub enum Operand {
    /// Nothing: it has the common dtype and the layout of the result, and can be used in place.
    AsIs,
    /// It has to be cast by this caster.
    Cast(Caster),
}

impl Operand {
    /// The caster, if the operand has to be cast.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType};
    /// let plan = Rules::NUMPY.plan(&[DType::F64, DType::F64])?;
    /// assert!(plan.operands().iter().all(|operand| operand.caster().is_none()));
    /// # Ok::<(), lanecast::promotion::PromotionError>(())
    /// ```
    pub const fn caster(&self) -> Option<&Caster> {
        match self {
            Self::AsIs => None,
            Self::Cast(caster) => Some(caster),
        }
    }
}

impl Promotion {
    /// The common dtype.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType};
    /// assert_eq!(Rules::JAX.plan(&[DType::U8, DType::I8])?.dtype(), DType::I16);
    /// # Ok::<(), lanecast::promotion::PromotionError>(())
    /// ```
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// What has to be done to each operand, in their order.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType};
    /// assert_eq!(Rules::JAX.plan(&[DType::U8; 3])?.operands().len(), 3);
    /// # Ok::<(), lanecast::promotion::PromotionError>(())
    /// ```
    pub fn operands(&self) -> &[Operand] {
        &self.operands
    }
}

impl Rules {
    /// Returns the common dtype of some operands, and a caster for each that needs one.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType::*};
    /// let plan = Rules::NUMPY.plan(&[I8, U16, F32])?;
    /// assert_eq!(plan.dtype(), F32);
    /// let casts: Vec<_> = plan.operands().iter().map(|operand| operand.caster().is_some()).collect();
    /// assert_eq!(casts, [true, true, false]);
    /// # Ok::<(), lanecast::promotion::PromotionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Rules::promote_all`]; or the instruction set that `LANECAST_ISA` names is not available.
    pub fn plan(&self, operands: &[DType]) -> Result<Promotion, PromotionError> {
        self.plan_with(operands, &CastOptions::new())
    }

    /// As [`Rules::plan`], with options: all operands have the layout that these give for the source, and all
    /// results that for the destination.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, ByteOrder, CastOptions, DType};
    /// let both_orders = CastOptions::new().src_order(ByteOrder::Big).dst_order(ByteOrder::Little);
    /// let plan = Rules::NUMPY.plan_with(&[DType::I16], &both_orders)?;
    /// assert!(plan.operands()[0].caster().is_some()); // the same dtype, in another order
    /// # Ok::<(), lanecast::promotion::PromotionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Rules::promote_all`]; or the instruction set that the options or `LANECAST_ISA` name is not
    /// available.
    pub fn plan_with(&self, operands: &[DType], options: &CastOptions) -> Result<Promotion, PromotionError> {
        let dtype = self.promote_all(operands.iter().copied())?;
        let decide = |&from: &DType| -> Result<Operand, Error> {
            let route = route(from, dtype, options);
            let same = from == dtype && route.src == route.dst;
            Ok(if same { Operand::AsIs } else { Operand::Cast(Caster::new(from, dtype, options)?) })
        };
        Ok(Promotion { dtype, operands: operands.iter().map(decide).collect::<Result<_, Error>>()? })
    }

    /// Casts `n` elements of each of two operands to their common dtype, which is returned. An operand that
    /// has it already is copied; [`Rules::plan`] lets the caller use it in place.
    ///
    /// ```
    /// use lanecast::{promotion::Rules, DType};
    /// let (a, b) = ([1u8, 2], [0.5f64.to_ne_bytes(), 4f64.to_ne_bytes()].concat());
    /// let mut out = [[0; 16]; 2];
    /// let [out_a, out_b] = &mut out;
    /// let dtype = Rules::NUMPY.promote_into((DType::U8, &a), (DType::F64, &b), out_a, out_b, 2)?;
    /// assert_eq!(dtype, DType::F64);
    /// assert_eq!(out[0], [1f64.to_ne_bytes(), 2f64.to_ne_bytes()].concat()[..]);
    /// assert_eq!(out[1], b[..]);
    /// # Ok::<(), lanecast::promotion::PromotionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Rules::promote`]; or a buffer does not have the size of `n` elements; or the instruction set that
    /// `LANECAST_ISA` names is not available. Nothing was written.
    pub fn promote_into(
        &self,
        a: (DType, &[u8]),
        b: (DType, &[u8]),
        out_a: &mut [u8],
        out_b: &mut [u8],
        n: usize,
    ) -> Result<DType, PromotionError> {
        let dtype = self.promote(a.0, b.0)?;
        let options = CastOptions::new();
        let casters = [Caster::new(a.0, dtype, &options)?, Caster::new(b.0, dtype, &options)?];
        // Checks all buffers before anything is written.
        casters[0].check(a.1.len(), out_a.len(), n)?;
        casters[1].check(b.1.len(), out_b.len(), n)?;
        casters[0].cast(a.1, out_a, n)?;
        casters[1].cast(b.1, out_b, n)?;
        Ok(dtype)
    }
}
