//! The codes and names of ONNX's `TensorProto.DataType`.

use super::set::DTypeSet;
use crate::formats::dtype::DType::{self, *};

#[rustfmt::skip]
pub(super) const ONNX: &[(i32, &str, DType)] = &[
    (1, "FLOAT", F32), (2, "UINT8", U8), (3, "INT8", I8), (4, "UINT16", U16), (5, "INT16", I16), (6, "INT32", I32),
    (7, "INT64", I64), (9, "BOOL", Bool), (10, "FLOAT16", F16), (11, "DOUBLE", F64), (12, "UINT32", U32),
    (13, "UINT64", U64), (14, "COMPLEX64", C64), (15, "COMPLEX128", C128), (16, "BFLOAT16", BF16),
    (17, "FLOAT8E4M3FN", F8E4M3FN), (18, "FLOAT8E4M3FNUZ", F8E4M3FNUZ), (19, "FLOAT8E5M2", F8E5M2),
    (20, "FLOAT8E5M2FNUZ", F8E5M2FNUZ), (21, "UINT4", U4), (22, "INT4", I4), (23, "FLOAT4E2M1", F4E2M1),
    (24, "FLOAT8E8M0", F8E8M0), (25, "UINT2", U2), (26, "INT2", I2), (27, "FLOAT6E2M3", F6E2M3),
    (28, "FLOAT6E3M2", F6E3M2),
];

pub(super) const fn onnx_dtypes() -> DTypeSet {
    let mut set = DTypeSet::EMPTY;
    let mut i = 0;
    while i < ONNX.len() {
        set = set.with(ONNX[i].2);
        i += 1;
    }
    set
}
