"""A backend for comfy-kitchen, the kernels of ComfyUI: on the CPU, its casts of narrow floats by lanecast.

comfy-kitchen must be installed. `register()` once, before or after anything else of it is used.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
from comfy_kitchen.backends import eager  # type: ignore[import-not-found, unused-ignore]
from comfy_kitchen.float_utils import (  # type: ignore[import-not-found, unused-ignore]
    F4_E2M1_MAX,
    F8_E4M3_MAX,
    F8_E5M2_MAX,
    e8m0_to_f32,
    from_blocked,
    roundup,
    to_blocked,
)
from comfy_kitchen.registry import registry  # type: ignore[import-not-found, unused-ignore]

import lanecast

__all__ = [
    "dequantize_mxfp8",
    "dequantize_nvfp4",
    "dequantize_per_tensor_fp8",
    "quantize_mxfp8",
    "quantize_nvfp4",
    "quantize_per_tensor_fp8",
    "register",
]

Tensor = Any

#: The name of the backend.
NAME = "lanecast"
#: The functions of comfy-kitchen that this module has.
FUNCTIONS = (
    "dequantize_mxfp8",
    "dequantize_nvfp4",
    "dequantize_per_tensor_fp8",
    "quantize_mxfp8",
    "quantize_nvfp4",
    "quantize_per_tensor_fp8",
)
#: Its other functions by name, as patterns of the shell ("*"), and why they are not here.
LEFT_OUT = {
    "no cast: normalisation, rotary embedding, attention, convolution": (
        *("adaln", "rms_adaln", "rms_gated_residual", "group_norm_*", "fp16_conv3d*", "na3d", "sol_attn"),
        *("apply_rope*", "rms_rope*"),
    ),
    "a product of matrices, in which the casts are the smallest part": (
        *("fp16_linear", "int8_linear*", "w4a8_int8_linear", "w4a8_packed_linear", "convrot_w4a4_linear"),
        *("scaled_mm_*", "gemv_awq_w4a16"),
    ),
    "a rotation by a matrix, in which the casts are the smallest part": (
        *("*_convrot_weight", "*_convrot_weight_dtype", "*_convrot_w4a4_weight", "quantize_and_rotate_rowwise"),
        *("*quantize_w4a8_int8_weight", "dequantize_int8_embedding"),
    ),
    "int8 and int4 elements by arithmetic of float32 that torch does, rounding too; the cast of what is whole is the smallest part": (
        *("quantize_int8_tensorwise", "quantize_int8_rowwise", "dequantize_int8_simple", "dequantize_int8_simple_dtype"),
        *("quantize_svdquant_w4a4", "prepare_int4_weight_for_int8_linear"),
    ),
    "its rounding by chance is arithmetic of float16, with logarithms and powers: no cast has its bits": ("stochastic_rounding_fp8",),
}
#: Fewer elements are left to torch: handing them over takes as long as casting them.
FEW = 16384
#: The same limit for casts to float4, for which torch has no function.
FEW_FOURS = 512

_CODES = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
#: The largest value of a float8, and its largest code that is not NaN.
_EIGHTS = {torch.float8_e4m3fn: (F8_E4M3_MAX, 0x7E), torch.float8_e5m2: (F8_E5M2_MAX, 0x7C)}
_DTYPES = {dtype: np.dtype(lanecast.dtypes()[str(dtype).removeprefix("torch.")]) for dtype in (*_FLOATS, *_EIGHTS)}


def register() -> None:
    """Make comfy-kitchen prefer this backend to its own for the CPU. The bits of the results stay the same.

    >>> import lanecast.comfy
    >>> lanecast.comfy.register()
    """
    capabilities = {}
    for name in FUNCTIONS:
        constraints = registry.get_constraints("eager", name)
        if constraints is not None:
            capabilities[name] = replace(constraints, default_devices=frozenset({"cpu"}))
    registry.register(NAME, sys.modules[__name__], capabilities)
    # The registry has a function that sets the order of the backends, but none that returns it.
    order = [name for name in registry._priority if name != NAME]
    at = order.index("eager") if "eager" in order else len(order)
    registry.set_priority([*order[:at], NAME, *order[at:]])


def _array(tensor: Tensor) -> Any:
    """An array of NumPy or ml_dtypes over the elements of a tensor."""
    return tensor.detach().view(_CODES[tensor.dtype.itemsize]).numpy().view(_DTYPES[tensor.dtype])


def _has_nan(eights: Tensor) -> bool:
    """Has a tensor of float8 a NaN?"""
    codes = np.bitwise_and(eights.detach().view(torch.uint8).numpy(), 0x7F)
    return bool(codes.max() > _EIGHTS[eights.dtype][1])


def _cast(tensor: Tensor, dtype: Any) -> Tensor:
    """A tensor's elements in another dtype, as torch casts them; one of both is a float8."""
    # Which bits a NaN gets is torch's own choice.
    if tensor.numel() < FEW or tensor.dtype in _EIGHTS and _has_nan(tensor):
        return tensor.to(dtype)
    out = torch.empty_like(tensor, dtype=dtype)
    lanecast.astype(_array(tensor), _DTYPES[dtype], out=_array(out), profile="torch", threads=torch.get_num_threads())
    # float8_e4m3fn has only one NaN.
    if dtype == torch.float8_e5m2 and _has_nan(out):
        return tensor.to(dtype)
    return out


def quantize_per_tensor_fp8(x: Tensor, scale: Tensor, output_type: Any = torch.float8_e4m3fn) -> Tensor:
    """x / scale, clamped."""
    if x.numel() < FEW or x.dtype not in _FLOATS or output_type not in _EIGHTS:
        return eager.quantize_per_tensor_fp8(x, scale, output_type)
    largest, _ = _EIGHTS[output_type]
    values = x * (1.0 / scale).to(x.dtype)
    return _cast(values.clamp_(-largest, largest), output_type)


def dequantize_per_tensor_fp8(x: Tensor, scale: Tensor, output_type: Any = torch.bfloat16) -> Tensor:
    """x * scale."""
    if x.dtype not in _EIGHTS or x.numel() < FEW or scale.numel() != 1 or output_type not in _FLOATS or scale.dim() > x.dim():
        return eager.dequantize_per_tensor_fp8(x, scale, output_type)
    return _cast(x, output_type).mul_(scale.to(dtype=output_type))


def _eager_nvfp4(*arguments: Any) -> tuple[Tensor, Tensor]:
    packed, scales = eager.quantize_nvfp4(*arguments)
    return packed, scales


def quantize_nvfp4(
    x: Tensor, per_tensor_scale: Tensor, epsilon: float = 0.0, pad_16x: bool = False, hi_first: bool = True
) -> tuple[Tensor, Tensor]:
    """float4 elements, two in a byte, and a float8 scale for each 16 of them."""
    given = x
    if x.numel() < FEW_FOURS or x.dtype not in _FLOATS:
        return _eager_nvfp4(given, per_tensor_scale, epsilon, pad_16x, hi_first)
    if pad_16x:
        rows, columns = x.shape
        x = torch.nn.functional.pad(x, (0, roundup(columns, 16) - columns, 0, roundup(rows, 16) - rows))
    blocks = x.reshape(x.shape[0], -1, 16)
    largest = torch.amax(torch.abs(blocks), dim=-1)
    scales = torch.clamp(largest.to(torch.float32) / F4_E2M1_MAX / per_tensor_scale, max=F8_E4M3_MAX)
    codes = scales.to(torch.float8_e4m3fn)
    total = per_tensor_scale * _cast(codes, torch.float32)
    if not bool(torch.isfinite(total).all()):
        # A float4 has no NaN, so what becomes of one is left to eager.
        return _eager_nvfp4(given, per_tensor_scale, epsilon, pad_16x, hi_first)
    is_zero = total == 0
    values = blocks.float() / torch.where(is_zero, 1.0, total).unsqueeze(-1)
    if bool(is_zero.any()):
        values.masked_fill_(is_zero.unsqueeze(-1), 0.0)
    shape = (*x.shape[:-1], x.shape[-1] // 2)
    fours = lanecast.astype(_array(values), "float4_e2m1fn", profile="torch", threads=torch.get_num_threads())
    packed = torch.from_numpy(lanecast.pack(fours, high_first=hi_first).data).view(shape)
    return packed, to_blocked(codes, flatten=False)


def dequantize_nvfp4(
    qx: Tensor, per_tensor_scale: Tensor, block_scales: Tensor, output_type: Any = torch.bfloat16, hi_first: bool = True
) -> Tensor:
    """What quantize_nvfp4 gave, as floats."""
    rows, columns = qx.shape[0], 2 * qx.shape[-1]
    if qx.numel() < FEW or qx.dim() != 2 or output_type not in _FLOATS:
        return eager.dequantize_nvfp4(qx, per_tensor_scale, block_scales, output_type, hi_first)
    packed = lanecast.PackedArray(qx.detach().contiguous().numpy().reshape(-1), "float4_e2m1fn", (rows, columns), hi_first)
    values = torch.from_numpy(packed.astype(_DTYPES[output_type]).view(f"i{output_type.itemsize}")).view(output_type)
    scales = from_blocked(block_scales, num_rows=rows, num_cols=columns // 16)
    total = per_tensor_scale.to(output_type) * _cast(scales.contiguous(), output_type)
    values.view(rows, -1, 16).mul_(total.unsqueeze(-1))
    return values


def dequantize_mxfp8(qx: Tensor, block_scales: Tensor, output_type: Any = torch.bfloat16) -> Tensor:
    """Floats of float8 elements and a power of two for each 32 of them."""
    rows, columns = qx.shape
    if qx.numel() < FEW or qx.dtype != torch.float8_e4m3fn:
        return eager.dequantize_mxfp8(qx, block_scales, output_type)
    scales = from_blocked(block_scales.view(torch.uint8), num_rows=rows, num_cols=columns // 32)
    # Only the exponents, as eager reads them: the code 255 is infinity there.
    powers = (scales.to(torch.int32) << 23).view(torch.float32)
    values = _cast(qx.contiguous(), torch.float32)
    values.view(rows, -1, 32).mul_(powers.unsqueeze(-1))
    return values.to(output_type)


def quantize_mxfp8(x: Tensor, pad_32x: bool = False) -> tuple[Tensor, Tensor]:
    """float8 elements, and a power of two for each 32 of them."""
    given, size = x, 32
    if x.numel() < FEW or x.dtype not in _FLOATS or x.dim() != 2 or not pad_32x and x.shape[1] % size:
        codes, scales = eager.quantize_mxfp8(given, pad_32x)
        return codes, scales
    if pad_32x:
        rows, columns = x.shape
        x = torch.nn.functional.pad(x, (0, roundup(columns, size) - columns, 0, roundup(rows, size) - rows))
    blocks = x.reshape(x.shape[0], -1, size)
    largest = torch.amax(torch.abs(blocks), dim=-1)
    needed = torch.clamp(largest.float() / F8_E4M3_MAX, min=2**-127)
    powers = torch.clamp(torch.ceil(torch.log2(needed)).to(torch.int32) + 127, 0, 254).to(torch.uint8)
    is_zero = largest == 0
    divisors = torch.where(is_zero, 1.0, e8m0_to_f32(powers))
    values = blocks.float() / divisors.unsqueeze(-1)
    if bool(is_zero.any()):
        values.masked_fill_(is_zero.unsqueeze(-1), 0.0)
    eights = _cast(values.clamp_(-F8_E4M3_MAX, F8_E4M3_MAX).reshape(x.shape), torch.float8_e4m3fn)
    scales = to_blocked(torch.where(is_zero, 0, powers), flatten=False)
    return eights, scales.view(torch.float8_e8m0fnu)
