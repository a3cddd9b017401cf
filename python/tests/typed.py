"""Not run, but read by type checkers: what the stubs must say of the package as a program uses it."""

from typing import Any, assert_type

import lanecast
import numpy as np
from numpy.typing import NDArray

x = np.zeros(3, np.float32)
assert_type(lanecast.astype(x, "float8_e4m3fn", saturate=False, out=None), NDArray[Any])
assert_type(lanecast.checked(x, "int8", rounding="up"), tuple[NDArray[Any], lanecast.Report])
assert_type(lanecast.checked(x, "int8")[1].first, int | None)
assert_type(lanecast.report(x, "int8", progress=None, rounding="up"), lanecast.Report)
assert_type(lanecast.promote_types("int8", "uint8", rules="jax"), np.dtype[Any])
assert_type(lanecast.pack(x).astype("float32"), NDArray[Any])
assert_type(lanecast.from_dlpack(x), NDArray[Any] | lanecast.PackedArray)
quantized = lanecast.quantize(x, "int8", lanecast.Scaling.per_axis(0), affine=True)
assert_type(quantized, lanecast.Quantized)
assert_type(quantized.dequantize("bfloat16"), NDArray[Any])
with lanecast.patched(threads=None) as info:
    assert_type(info, lanecast.PatchInfo)
    assert_type(info.least, dict[tuple[str, str], tuple[int | None, int | None]])
