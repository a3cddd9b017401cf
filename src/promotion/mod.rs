//! Promotion: the common dtype of operands of different dtypes, how much a cast may lose, and what other systems
//! call the dtypes.
//!
//! ```
//! use lanecast::{DType, promotion::Rules};
//! assert_eq!(Rules::NUMPY.promote(DType::I8, DType::U8)?, DType::I16);
//! assert_eq!(Rules::TORCH.promote(DType::I8, DType::BF16)?, DType::BF16);
//! # Ok::<(), lanecast::promotion::PromotionError>(())
//! ```

mod casting;
mod closure;
mod error;
mod names;
mod onnx;
mod plan;
mod rules;
mod scalar;
mod set;

pub use casting::Casting;
pub use error::PromotionError;
pub use names::Dialect;
pub use plan::{Operand, Promotion};
pub use rules::Rules;
pub use scalar::ScalarKind;
pub use set::DTypeSet;
