//! The codes of dtypes and of options. Their names follow those in the Rust crate.

#![allow(missing_docs, reason = "of some, the names say it")]

pub const LANECAST_DTYPE_BOOL: u8 = 0;
pub const LANECAST_DTYPE_UINT2: u8 = 1;
pub const LANECAST_DTYPE_INT2: u8 = 2;
pub const LANECAST_DTYPE_UINT4: u8 = 3;
pub const LANECAST_DTYPE_INT4: u8 = 4;
pub const LANECAST_DTYPE_UINT8: u8 = 5;
pub const LANECAST_DTYPE_INT8: u8 = 6;
pub const LANECAST_DTYPE_UINT16: u8 = 7;
pub const LANECAST_DTYPE_INT16: u8 = 8;
pub const LANECAST_DTYPE_UINT32: u8 = 9;
pub const LANECAST_DTYPE_INT32: u8 = 10;
pub const LANECAST_DTYPE_UINT64: u8 = 11;
pub const LANECAST_DTYPE_INT64: u8 = 12;
pub const LANECAST_DTYPE_FLOAT4_E2M1FN: u8 = 13;
pub const LANECAST_DTYPE_FLOAT6_E2M3FN: u8 = 14;
pub const LANECAST_DTYPE_FLOAT6_E3M2FN: u8 = 15;
pub const LANECAST_DTYPE_FLOAT8_E3M4: u8 = 16;
pub const LANECAST_DTYPE_FLOAT8_E4M3: u8 = 17;
pub const LANECAST_DTYPE_FLOAT8_E4M3FN: u8 = 18;
pub const LANECAST_DTYPE_FLOAT8_E4M3FNUZ: u8 = 19;
pub const LANECAST_DTYPE_FLOAT8_E4M3B11FNUZ: u8 = 20;
pub const LANECAST_DTYPE_FLOAT8_E5M2: u8 = 21;
pub const LANECAST_DTYPE_FLOAT8_E5M2FNUZ: u8 = 22;
pub const LANECAST_DTYPE_FLOAT8_E8M0FNU: u8 = 23;
pub const LANECAST_DTYPE_FLOAT16: u8 = 24;
pub const LANECAST_DTYPE_BFLOAT16: u8 = 25;
pub const LANECAST_DTYPE_FLOAT32: u8 = 26;
pub const LANECAST_DTYPE_FLOAT64: u8 = 27;
pub const LANECAST_DTYPE_COMPLEX64: u8 = 28;
pub const LANECAST_DTYPE_COMPLEX128: u8 = 29;
pub const LANECAST_DTYPE_UINT1: u8 = 30;
pub const LANECAST_DTYPE_INT1: u8 = 31;
pub const LANECAST_DTYPE_FLOAT8_UE5M3: u8 = 32;
pub const LANECAST_DTYPE_COMPLEX32: u8 = 33;
pub const LANECAST_DTYPE_BCOMPLEX32: u8 = 34;

/// Rounds to the nearest value, ties to the one with the even code.
pub const LANECAST_ROUNDING_NEAREST_EVEN: u8 = 0;
/// Rounds to the nearest value, ties away from zero.
pub const LANECAST_ROUNDING_NEAREST_AWAY: u8 = 1;
/// Rounds toward zero.
pub const LANECAST_ROUNDING_TOWARD_ZERO: u8 = 2;
/// Rounds up, to the larger neighbour.
pub const LANECAST_ROUNDING_UP: u8 = 3;
/// Rounds down, to the smaller neighbour.
pub const LANECAST_ROUNDING_DOWN: u8 = 4;

/// No float of 8 bits or fewer saturates: overflow gives Inf, or NaN where the format has no Inf. (float4 and float6 have
/// neither, and always saturate.)
pub const LANECAST_SATURATE_NEVER: u8 = 0;
/// All floats of 8 bits or fewer saturate: overflow gives the largest value, with its sign.
pub const LANECAST_SATURATE_ALWAYS: u8 = 1;
/// Only float8_e4m3fn saturates.
pub const LANECAST_SATURATE_FN_ONLY: u8 = 2;
/// Floats of 8 bits or fewer that have no Inf saturate.
pub const LANECAST_SATURATE_UNLESS_INF: u8 = 3;

/// A float beyond the range of an integer dtype becomes the nearest value of that dtype.
pub const LANECAST_FLOAT_TO_INT_SATURATE: u8 = 0;
/// A float beyond the range of an integer dtype becomes the low bits of its rounded value, in two's complement.
pub const LANECAST_FLOAT_TO_INT_WRAP: u8 = 1;

/// An integer beyond the range of the destination becomes its low bits, in two's complement.
pub const LANECAST_INT_TO_INT_WRAP: u8 = 0;
/// An integer beyond the range of the destination becomes the nearest value of that.
pub const LANECAST_INT_TO_INT_SATURATE: u8 = 1;

/// A NaN becomes -0 in float4 and float6, which have no NaN.
pub const LANECAST_NAN_TO_FINITE_NEG_ZERO: u8 = 0;
/// A NaN becomes the largest value in float4 and float6, with a positive sign.
pub const LANECAST_NAN_TO_FINITE_MAX: u8 = 1;
/// A NaN becomes +0 in float4 and float6.
pub const LANECAST_NAN_TO_FINITE_ZERO: u8 = 2;

/// A value between two powers of two becomes the larger power.
pub const LANECAST_E8M0_ROUNDING_UP: u8 = 0;
/// A value between two powers of two becomes the smaller power.
pub const LANECAST_E8M0_ROUNDING_DOWN: u8 = 1;
/// A value between two powers of two becomes the nearer power; 1.5 times a power goes up.
pub const LANECAST_E8M0_ROUNDING_NEAREST: u8 = 2;

/// The best instruction set that is available, or the one that the environment variable LANECAST_ISA names.
pub const LANECAST_ISA_BEST: u8 = 0;
pub const LANECAST_ISA_SCALAR: u8 = 1;
pub const LANECAST_ISA_AVX2: u8 = 2;
pub const LANECAST_ISA_AVX512: u8 = 3;
pub const LANECAST_ISA_NEON: u8 = 4;
pub const LANECAST_ISA_SIMD128: u8 = 5;

/// Elements of fewer than 8 bits are packed, the first in the low bits of a byte.
pub const LANECAST_PACKING_LOW_FIRST: u8 = 0;
/// Elements of fewer than 8 bits lie one per byte.
pub const LANECAST_PACKING_ONE_PER_BYTE: u8 = 1;
/// Elements of fewer than 8 bits are packed, the first in the high bits of a byte.
pub const LANECAST_PACKING_HIGH_FIRST: u8 = 2;

/// The byte order of the machine.
pub const LANECAST_ORDER_NATIVE: u8 = 0;
/// Little-endian: the low byte first.
pub const LANECAST_ORDER_LITTLE: u8 = 1;
/// Big-endian: the high byte first.
pub const LANECAST_ORDER_BIG: u8 = 2;

/// lanecast's own rule: the exact quotient or product is rounded once.
pub const LANECAST_PROFILE_LANECAST: u8 = 0;
/// The OCP Microscaling formats: the same arithmetic as LANECAST_PROFILE_LANECAST.
pub const LANECAST_PROFILE_OCP: u8 = 1;
pub const LANECAST_PROFILE_ONNX: u8 = 2;
pub const LANECAST_PROFILE_TORCHAO: u8 = 3;
pub const LANECAST_PROFILE_MODELOPT: u8 = 4;
pub const LANECAST_PROFILE_COMPRESSED_TENSORS: u8 = 5;
/// transformers' fine-grained float8.
pub const LANECAST_PROFILE_HF_FP8: u8 = 6;
/// comfy-kitchen.
pub const LANECAST_PROFILE_COMFY: u8 = 7;
pub const LANECAST_PROFILE_GPT_OSS: u8 = 8;
/// The product is computed in float32, then cast to the dtype of the output. Dequantises only.
pub const LANECAST_PROFILE_F32: u8 = 9;
/// Code, zero point and scale are cast to the dtype of the output and multiplied there. Dequantises only.
pub const LANECAST_PROFILE_OUTPUT: u8 = 10;

/// The default for the dtype of the scales: LANECAST_RULE_FLOOR for float8_e8m0fnu, LANECAST_RULE_AMAX for the others.
pub const LANECAST_RULE_DEFAULT: u8 = 0;
/// The scale is amax / max, where amax is the largest magnitude in a block and max the largest value of the target. For
/// scales with a mantissa.
pub const LANECAST_RULE_AMAX: u8 = 1;
/// The exponent of a float8_e8m0fnu scale is floor(log2 amax) - floor(log2 max).
pub const LANECAST_RULE_FLOOR: u8 = 2;
/// The exponent of a float8_e8m0fnu scale is ceil(log2 amax) - floor(log2 max).
pub const LANECAST_RULE_CEIL: u8 = 3;
/// As LANECAST_RULE_FLOOR, but with amax rounded to the mantissa width of the target.
pub const LANECAST_RULE_EVEN: u8 = 4;
/// The exponent of a float8_e8m0fnu scale is ceil(log2(amax / max)), so that nothing saturates.
pub const LANECAST_RULE_ROUND_UP: u8 = 5;

/// A NaN makes the scale of its block NaN; without one, an Inf makes it the largest finite scale.
pub const LANECAST_NONFINITE_PROPAGATE: u8 = 0;
/// NaN and Inf are ignored: the scale is that of the finite elements.
pub const LANECAST_NONFINITE_IGNORE: u8 = 1;

/// Scales lie in row-major order: the last dimension varies fastest.
pub const LANECAST_SCALE_LAYOUT_ROW_MAJOR: u8 = 0;
/// Scales lie in column-major order: the first dimension varies fastest.
pub const LANECAST_SCALE_LAYOUT_COLUMN_MAJOR: u8 = 1;
/// Scales of one byte lie in tiles of 128 x 4, 512 bytes each: the layout of the tensor cores.
pub const LANECAST_SCALE_LAYOUT_SWIZZLE_32X4X4: u8 = 2;

/// There is no tensor scale.
pub const LANECAST_TENSOR_SCALE_NONE: u8 = 0;
/// The value of an element is code * scale * tensor_scale.
pub const LANECAST_TENSOR_SCALE_MULTIPLY: u8 = 1;
/// The value of an element is code * scale / tensor_scale.
pub const LANECAST_TENSOR_SCALE_DIVIDE: u8 = 2;
/// A tensor scale to multiply by is computed from the data.
pub const LANECAST_TENSOR_SCALE_COMPUTE_MULTIPLY: u8 = 3;
/// A tensor scale to divide by is computed from the data.
pub const LANECAST_TENSOR_SCALE_COMPUTE_DIVIDE: u8 = 4;
