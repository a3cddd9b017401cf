#!/usr/bin/env python3
"""Scaled casts of lanecast beside torchao, compressed-tensors and transformers on the CPU: the same tensors, in the same run.

Prints a Markdown table and writes nothing: how many times as long the package takes. Ends with an error if a bit differs, and with
`--check` if one is below 5.

    python3 -m venv v && v/bin/pip install -r tests/fixtures/requirements-scaled.txt && v/bin/pip install ./python
    v/bin/python benches/peers/scaled.py [--check] [words of the rows that are wanted]

Everyone is called from Python with tensors of torch, on one thread, and returns results in new memory. They take turns; the least
times are compared.
"""

import sys
import time
from types import SimpleNamespace

import lanecast
import numpy as np
import torch
from lanecast import PackedArray, Scaling

SHAPES = {"64 Ki": (128, 512), "4 Mi": (2048, 2048)}
NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


def raw(x):
    """The bytes of a result of anyone."""
    if isinstance(x, PackedArray):
        return x.data
    if isinstance(x, torch.Tensor):
        return x.contiguous().view(torch.uint8).flatten().numpy()
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def parts(made):
    """Codes and scales, if there are scales that were found."""
    if isinstance(made, lanecast.Quantized):
        return [raw(made.codes), raw(made.scales)]
    return [raw(part) for part in (made if isinstance(made, tuple) else (made,))]


def packed(codes, shape, high_first=False):
    return PackedArray(raw(codes), "float4_e2m1fn", shape, high_first)


def array(x, dtype):
    """A tensor as an array of a dtype of the same bytes, where it lies."""
    return x.contiguous().view(torch.uint8).numpy().view(lanecast.dtypes()[dtype])


def race(calls, seconds):
    """The least time of each, which take turns."""
    best = [float("inf")] * len(calls)
    counts = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        counts.append(max(1, int(2e-3 / (time.perf_counter() - start))))
    end, turns = time.perf_counter() + seconds, 0
    while turns < 5 or time.perf_counter() < end:
        for i, (call, n) in enumerate(zip(calls, counts)):
            start = time.perf_counter()
            for _ in range(n):
                call()
            best[i] = min(best[i], (time.perf_counter() - start) / n)
        turns += 1
    return best


def quantize(x, dtype, scaling, **more):
    return lanecast.quantize(x, dtype, scaling, threads=1, **more)


def dequantize(codes, scales, scaling, dtype, **more):
    return lanecast.dequantize(codes, scales, scaling, NAMES[dtype], threads=1, **more)


def torchao(x):
    """What it is called, the package's, and ours."""
    from torchao.prototype.blockwise_fp8_training.kernels import torch_blockwise_scale_act_quant_lhs, torch_blockwise_scale_weight_quant
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_dtype, to_mx
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, nvfp4_quantize, per_tensor_amax_to_scale
    from torchao.quantization import quant_primitives as affine

    shape, dtype = tuple(x.shape), x.dtype
    fp4, fp8 = torch.float4_e2m1fn_x2, torch.float8_e4m3fn

    def by(rule):
        return Scaling.mx(profile="torchao", rule=rule)

    for rule, mode in (("floor", "FLOOR"), ("even", "EVEN"), ("round_up", "RCEIL")):
        mode = ScaleCalculationMode[mode]
        yield f"`to_mx`, float8_e4m3fn, {rule}", lambda: to_mx(x, fp8, 32, mode)[::-1], lambda: quantize(x, "float8_e4m3fn", by(rule))
    mode = ScaleCalculationMode.FLOOR
    yield "`to_mx`, float4", lambda: to_mx(x, fp4, 32, mode)[::-1], lambda: quantize(x, "float4_e2m1fn", by("floor"), packed=True)
    yield "`to_mx`, float6_e2m3", lambda: to_mx(x, "fp6_e2m3", 32, mode)[::-1], lambda: quantize(x, "float6_e2m3fn", by("floor"))
    out = Scaling.mx(profile="output")
    scales, codes = to_mx(x, fp8, 32, mode)
    named = array(scales, "float8_e8m0fnu")
    yield "`to_dtype`, float8_e4m3fn", lambda: to_dtype(codes, scales, fp8, 32, dtype), lambda: dequantize(codes, named, out, dtype)
    scales4, codes4 = to_mx(x, fp4, 32, mode)
    named4, nibbles = array(scales4, "float8_e8m0fnu"), packed(codes4, shape)
    yield "`to_dtype`, float4", lambda: to_dtype(codes4, scales4, fp4, 32, dtype), lambda: dequantize(nibbles, named4, out, dtype)

    g = per_tensor_amax_to_scale(x.abs().max())
    nv = Scaling.nvfp4(profile="torchao", tensor_scale=float(g))
    yield "`nvfp4_quantize`", lambda: nvfp4_quantize(x, 16, g)[::-1], lambda: quantize(x, "float4_e2m1fn", nv, packed=True)
    nv_scales, nv_codes = nvfp4_quantize(x, 16, g)
    nv_tensor = NVFP4Tensor(nv_codes, nv_scales, 16, dtype, g)
    nv_nibbles, nv_named = packed(nv_codes, shape), array(nv_scales, "float8_e4m3fn").reshape(shape[0], -1)
    nv_back = Scaling.nvfp4(profile="f32", tensor_scale=float(g))
    yield "`NVFP4Tensor.dequantize`", lambda: nv_tensor.dequantize(dtype), lambda: dequantize(nv_nibbles, nv_named, nv_back, dtype)

    deepseek = Scaling.deepseek(profile="torchao")
    yield (
        "`torch_blockwise_scale_weight_quant`",
        lambda: torch_blockwise_scale_weight_quant(x),
        lambda: quantize(x, "float8_e4m3fn", deepseek),
    )
    lines = Scaling.blocks(128, profile="torchao")
    yield (
        "`torch_blockwise_scale_act_quant_lhs`",
        lambda: torch_blockwise_scale_act_quant_lhs(x),
        lambda: quantize(x, "float8_e4m3fn", lines),
    )

    rows = (x.float().abs().amax(-1, keepdim=True) / 448).contiguous()
    row = Scaling.per_axis(0, profile="onnx", precision="float32")
    yield (
        "`_quantize_affine_float8`, rows",
        lambda: affine._quantize_affine_float8(x, rows, fp8),
        lambda: quantize(x, "float8_e4m3fn", row, scales=rows).codes,
    )
    eights = affine._quantize_affine_float8(x, rows, fp8)
    back = Scaling.per_axis(0, profile="f32")
    yield (
        "`_dequantize_affine_float8`, rows",
        lambda: affine._dequantize_affine_float8(eights, rows, dtype),
        lambda: dequantize(eights, rows, back, dtype),
    )

    block, steps = (1, shape[1]), rows * 448 / 127
    zeros = torch.randint(-128, 128, (shape[0], 1), generator=torch.Generator().manual_seed(2), dtype=torch.int32)
    points = zeros.to(torch.int8)
    per_row = Scaling.per_axis(0, profile="torchao")
    yield (
        "`quantize_affine`, int8 rows",
        lambda: affine.quantize_affine(x, block, steps, zeros, torch.int8, -128, 127),
        lambda: quantize(x, "int8", per_row, scales=steps, zero_points=points).codes,
    )
    ints = affine.quantize_affine(x, block, steps, zeros, torch.int8, -128, 127)
    yield (
        "`dequantize_affine`, int8 rows",
        lambda: affine.dequantize_affine(ints, block, steps, zeros, torch.int8, -128, 127, output_dtype=dtype),
        lambda: dequantize(ints, steps, per_row, dtype, zero_points=points),
    )


def compressed_tensors(x):
    from compressed_tensors.compressors.mx_utils import compress_mx_scale, decompress_mx_scale
    from compressed_tensors.compressors.nvfp4.base import NVFP4PackedCompressor
    from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8, unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize as back
    from compressed_tensors.quantization.lifecycle.forward import quantize as cast
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    shape, dtype, name = tuple(x.shape), x.dtype, NAMES[x.dtype]

    def case(what, element, args, scaling, size, kind):
        args = QuantizationArgs(**args)
        g = generate_gparam(x.amin(), x.amax(), dtype=dtype).to(torch.float32) if kind == "nvfp4" else None
        if g is not None:
            scaling = Scaling.nvfp4(profile="compressed_tensors", tensor_scale=float(g), tensor_scale_divides=True)

        def found():
            grouped = x.unflatten(-1, (-1, size))
            low, high = torch.aminmax(grouped, dim=-1)
            scales, _ = calculate_qparams(low, high, args, global_scale=g)
            return cast(x, scales, None, args, global_scale=g), scales

        def theirs():
            codes, scales = found()
            if kind == "nvfp4":
                return pack_fp4_to_uint8(codes), scales.to(torch.float8_e4m3fn)
            if kind == "mx":
                return pack_fp4_to_uint8(codes), compress_mx_scale(scales, torch.uint8)
            return codes.to(getattr(torch, element)), scales

        is_packed = {"packed": True} if kind else {}
        yield f"`quantize`, {what}, scales found", theirs, lambda: quantize(x, element, scaling, **is_packed)
        codes, scales = theirs()
        if kind == "nvfp4":
            state = {"weight_packed": codes, "weight_scale": scales, "weight_global_scale": g.reshape(1)}
            scheme = QuantizationScheme(targets=["Linear"], weights=args)
            if dtype == torch.bfloat16:
                nibbles = packed(codes, shape)
                yield (
                    f"`decompress`, {what}",
                    lambda: NVFP4PackedCompressor.decompress(dict(state), scheme)["weight"],
                    lambda: dequantize(nibbles, scales, scaling, dtype),
                )
        elif kind == "mx":
            nibbles, named = packed(codes, shape), array(scales, "float8_e8m0fnu").reshape(shape[0], -1)
            yield (
                f"`dequantize`, {what}, with `unpack`",
                lambda: back(unpack_fp4_from_uint8(codes, *shape), decompress_mx_scale(scales), args=args, dtype=dtype),
                lambda: dequantize(nibbles, named, scaling, dtype),
            )
        else:
            yield (
                f"`dequantize`, {what}",
                lambda: back(codes, scales, args=args, dtype=dtype),
                lambda: dequantize(codes, scales, scaling, dtype),
            )

    profile = {"profile": "compressed_tensors"}
    row = Scaling.per_axis(0, name, **profile)
    channel = {"symmetric": True, "strategy": "channel"}
    yield from case("float8 rows", "float8_e4m3fn", {"num_bits": 8, "type": "float", **channel}, row, shape[1], None)
    yield from case("int8 rows", "int8", {"num_bits": 8, "type": "int", **channel}, row, shape[1], None)
    group = {"symmetric": True, "strategy": "group", "group_size": 32, "scale_dtype": torch.uint8, "zp_dtype": torch.uint8}
    yield from case("MXFP4", "float4_e2m1fn", {"num_bits": 4, "type": "float", **group}, Scaling.mx(**profile), 32, "mx")
    group = {"symmetric": True, "strategy": "tensor_group", "group_size": 16, "scale_dtype": torch.float8_e4m3fn}
    yield from case("NVFP4", "float4_e2m1fn", {"num_bits": 4, "type": "float", **group}, None, 16, "nvfp4")


def transformers(x):
    from transformers.integrations.finegrained_fp8 import Fp8Quantize, _dequantize_fp8_weight
    from transformers.integrations.mxfp4 import _convert_moe_packed_tensors

    shape, dtype = tuple(x.shape), x.dtype
    scaling = Scaling.deepseek(profile="hf_fp8")
    for scale, fmt in (("float32", "float"), ("float8_e8m0fnu", "ue8m0")):
        config = SimpleNamespace(weight_block_size=[128, 128], scale_fmt=fmt)
        op = Fp8Quantize(SimpleNamespace(quantization_config=config))

        def theirs(op=op):
            made = op._quantize_one("w", x)
            return made["w"], made["w_scale_inv"]

        ours = Scaling.blocks((128, 128), scale, profile="hf_fp8")
        yield f"`Fp8Quantize`, scales of {scale}", theirs, lambda ours=ours: quantize(x, "float8_e4m3fn", ours)
    made = quantize(x, "float8_e4m3fn", scaling)
    codes, scales = torch.from_dlpack(lanecast.dlpack(made.codes)), torch.from_numpy(np.asarray(made.scales))
    back = Scaling.deepseek(profile="output")
    yield (
        "`_dequantize_fp8_weight`",
        lambda: _dequantize_fp8_weight(codes, scales, [128, 128], dtype),
        lambda: dequantize(codes, scales, back, dtype),
    )
    if dtype == torch.bfloat16:
        four = quantize(x, "float4_e2m1fn", "mx", packed=True)
        blocks = torch.from_numpy(four.codes.data).reshape(1, shape[0], -1, 16)
        exponents = torch.from_numpy(raw(four.scales)).reshape(1, shape[0], -1)
        # It returns them turned, and so are the bits that are compared: its rows are the last dimension.
        yield (
            "`_convert_moe_packed_tensors`, but for its transposition",
            lambda: _convert_moe_packed_tensors(blocks, exponents, dtype=dtype).transpose(1, 2),
            lambda: dequantize(four.codes, four.scales, Scaling.mx(profile="gpt_oss"), dtype),
        )


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    torch.set_num_threads(1)
    lines, failed = {}, []
    for place, shape in SHAPES.items():
        for dtype, name in NAMES.items():
            x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
            for package in (torchao, compressed_tensors, transformers):
                for what, theirs, ours in package(x):
                    row = f"{package.__name__.replace('_', '-')} {what}"
                    if not all(word in f"{row} {name} {place}" for word in words):
                        continue
                    try:
                        pairs = list(zip(parts(theirs()), parts(ours()), strict=True))
                    except Exception as error:
                        raise RuntimeError(f"{row}, {name}") from error
                    for a, b in pairs:
                        if a.shape != b.shape or (a != b).any():
                            count = f"{(a != b).sum()} of {a.size}" if a.shape == b.shape else f"{a.shape} and {b.shape}"
                            failed.append(f"{row}, {name}, {place}: {count} bytes differ")
                    slow, fast = race([theirs, ours], 0.3 if place == "64 Ki" else 1.0)
                    lines.setdefault(row, {})[name, place] = slow / fast
                    print(f"{row}, {name}, {place}: {slow / fast:.1f}", file=sys.stderr, flush=True)
                    if "--check" in sys.argv and slow / fast < 5:
                        failed.append(f"{row}, {name}, {place}: {slow / fast:.1f} times")
    columns = [(name, place) for name in NAMES.values() for place in SHAPES]
    print("| | " + " | ".join(f"{name}, {place}" for name, place in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for row, ratios in lines.items():
        print(f"| {row} | " + " | ".join(f"{ratios[c]:.1f}" if c in ratios else "–" for c in columns) + " |")
    for what in failed:
        print(f"FAILED: {what}")
    return 1 if failed else 0


sys.exit(main())
