"""Casts under scales: quantize, dequantize, requantize."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from numpy.typing import NDArray

from lanecast import _lanecast
from lanecast._api import BOOLS, PackedArray, _extents, _flag

Array = NDArray[Any]
Progress = Callable[[int, int], Any]


@dataclass(frozen=True)
class Scaling:
    """Which elements share a scale, what scales are, and where they come from: made by mx(), nvfp4(), deepseek(),
    per_tensor(), per_axis(), along_axis() or blocks(), each with the fields below as keywords.

    rule: how scales are computed from the data: "floor", "ceil", "even" or "round_up" for float8_e8m0fnu, "amax" for other
        scales. None: "floor" or "amax".
    tensor_scale: one scale of the whole tensor, a number or "compute" (with scales of float8_e4m3fn). Elements stand for
        code * scale * factor, with tensor_scale_divides=True for code * scale / factor.
    nonfinite: what NaN and Inf do to the scale of their block: "propagate" or "ignore".
    profile: whose bits: "lanecast" "ocp" "onnx" "torchao" "modelopt" "compressed_tensors" "hf_fp8" "comfy" "gpt_oss"
        "f32" "output".
    layout: the order of scales in memory: "row_major", "column_major", or "swizzle_32x4x4" (tiles of the tensor cores, as
        one buffer).
    int_rounding: how quotients are rounded to integers, as in astype.
    precision: for the profile "onnx": the dtype of the division.

    >>> import lanecast
    >>> lanecast.Scaling.deepseek().scale_shape((512, 7168))
    (4, 56)
    >>> lanecast.Scaling.mx(rule="round_up").rule
    'round_up'
    """

    scale_dtype: Any
    block: tuple[int, ...] | None = None
    axis: int | None = None
    rule: str | None = None
    tensor_scale: float | Literal["compute"] | None = None
    tensor_scale_divides: bool = False
    nonfinite: str = "propagate"
    profile: str = "lanecast"
    layout: str = "row_major"
    int_rounding: str = "nearest_even"
    precision: Any = None

    def __post_init__(self) -> None:
        if self.axis is not None and (isinstance(self.axis, bool) or not hasattr(self.axis, "__index__")):
            raise TypeError(f"axis is {self.axis!r}; it must be an integer, or None")
        if self.block is not None:
            object.__setattr__(self, "block", _extents("block", self.block))
        _flag("tensor_scale_divides", self.tensor_scale_divides)
        if isinstance(self.tensor_scale, BOOLS):
            raise TypeError(f"tensor_scale is {self.tensor_scale}; it must be a number, 'compute' or None")
        # By its name, so that equal scalings are equal.
        object.__setattr__(self, "scale_dtype", _lanecast.facts(self.scale_dtype)["name"])

    @classmethod
    def per_tensor(cls, scale_dtype: Any = "float32", **fields: Any) -> Scaling:
        """One scale for all elements."""
        return cls(scale_dtype, **fields)

    @classmethod
    def per_axis(cls, axis: int, scale_dtype: Any = "float32", **fields: Any) -> Scaling:
        """One scale for each index along a dimension: per channel, per row, per token."""
        return cls(scale_dtype, axis=axis, **fields)

    @classmethod
    def along_axis(cls, axis: int, length: int, scale_dtype: Any = "float32", **fields: Any) -> Scaling:
        """Blocks of length elements along a dimension, and of one along the others, as in ONNX."""
        return cls(scale_dtype, _extents("length", length, one=True), axis, **fields)

    @classmethod
    def blocks(cls, lengths: int | Sequence[int], scale_dtype: Any = "float32", **fields: Any) -> Scaling:
        """Blocks of these lengths along the last dimensions; 0 stands for a whole dimension."""
        return cls(scale_dtype, _extents("lengths", lengths), **fields)

    @classmethod
    def mx(cls, **fields: Any) -> Scaling:
        """MXFP8, MXFP6, MXFP4, MXINT8: float8_e8m0fnu scales of 32 elements along the last dimension. int8 elements
        count in units of 1/64, as under every float8_e8m0fnu scale."""
        return cls("float8_e8m0fnu", (32,), **fields)

    @classmethod
    def nvfp4(cls, **fields: Any) -> Scaling:
        """NVFP4: float8_e4m3fn scales of 16 elements along the last dimension, and a factor, tensor_scale."""
        return cls("float8_e4m3fn", (16,), **fields)

    @classmethod
    def deepseek(cls, **fields: Any) -> Scaling:
        """float32 scales of blocks of 128 x 128."""
        return cls("float32", (128, 128), **fields)

    def scale_shape(self, shape: int | Sequence[int]) -> tuple[int, ...]:
        """The shape of the scales of data of a shape."""
        return _lanecast.scale_shape(self, _extents("shape", shape))


Scaling.__module__ = "lanecast"
_NAMED = {"mx": Scaling.mx, "nvfp4": Scaling.nvfp4, "deepseek": Scaling.deepseek, "per_tensor": Scaling.per_tensor}


def _scaling(given: Scaling | str) -> Scaling:
    if isinstance(given, Scaling):
        return given
    if isinstance(given, str) and given in _NAMED:
        return _NAMED[given]()
    names = ", ".join(f"'{name}'" for name in _NAMED)
    help = " ('mx' is MXFP8, MXFP6, MXFP4 or MXINT8, by the dtype)" if "mx" in str(given).lower() else ""
    raise ValueError(f"scaling is {given!r}; it must be a lanecast.Scaling, or one of {names}{help}")


@dataclass(frozen=True, eq=False, repr=False)
class Quantized:
    """Elements and their scales: what quantize gives.

    >>> import lanecast, numpy as np
    >>> q = lanecast.quantize(np.float32([[1.0, -6.0, 0.5]]), "float4_e2m1fn", "mx", packed=True)
    >>> q
    Quantized(float4_e2m1fn, shape (1, 3), scales of float8_e8m0fnu, shape (1, 1))
    >>> q.dequantize("bfloat16").tolist()
    [[1.0, -6.0, 0.5]]
    >>> q.nbytes
    3
    """

    codes: Array | PackedArray
    scales: Array
    scaling: Scaling
    zero_points: Array | PackedArray | None = None

    @property
    def dtype(self) -> str:
        """The name of the dtype of the elements."""
        return str(self.codes.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the data."""
        return self.codes.shape

    @property
    def tensor_scale(self) -> float | None:
        """The tensor scale, if there is one."""
        value = self.scaling.tensor_scale
        # A factor that was to be computed is not known if codes and scales were given.
        return None if value is None or isinstance(value, str) else float(value)

    @property
    def nbytes(self) -> int:
        """How many bytes elements, scales and zero points take."""
        zeros = 0 if self.zero_points is None else self.zero_points.nbytes
        return self.codes.nbytes + self.scales.nbytes + zeros

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError("a Quantized holds elements and scales; its dequantize(dtype) gives an array")

    def __repr__(self) -> str:
        factor = "" if self.tensor_scale is None else f", tensor_scale {self.tensor_scale:g}"
        scales = f"scales of {self.scales.dtype}, shape {self.scales.shape}"
        return f"Quantized({self.dtype}, shape {self.shape}, {scales}{factor})"

    def _repr_html_(self) -> str:
        zeros = "none" if self.zero_points is None else f"{self.zero_points.dtype} {self.zero_points.shape}"
        rows = [
            ("elements", f"{self.dtype} {self.shape}" + (", packed" if isinstance(self.codes, PackedArray) else "")),
            ("scales", f"{self.scales.dtype} {self.scales.shape}, {self.scaling.layout}"),
            ("zero points", zeros),
            ("tensor scale", "none" if self.tensor_scale is None else f"{self.tensor_scale:g}"),
        ]
        cells = "".join(f"<tr><td>{name}</td><td>{text}</td></tr>" for name, text in rows)
        return f"<table><caption>lanecast: quantised elements</caption>{cells}</table>"

    def dequantize(self, dtype: Any = "float32", **how: Any) -> Array:
        """What dequantize gives for these elements."""
        return dequantize(self.codes, self.scales, self.scaling, dtype, zero_points=self.zero_points, **how)

    def requantize(self, dtype: Any, scaling: Scaling | str, **how: Any) -> Quantized:
        """What requantize gives for these elements."""
        return requantize(self.codes, self.scales, self.scaling, dtype, scaling, zero_points=self.zero_points, **how)


Quantized.__module__ = "lanecast"


def _made(
    made: tuple[tuple[int, ...], Array, Array, Array | None, float | None],
    dtype: Any,
    scaling: Scaling,
    packed: bool,
    high_first: bool,
    zero_points: Any,
) -> Quantized:
    shape, codes, scales, zeros, factor = made

    def shown(codes: Array, shape: tuple[int, ...]) -> Array | PackedArray:
        return PackedArray(codes, dtype, shape, high_first) if packed else codes

    if zeros is not None:
        zero_points = shown(zeros, scaling.scale_shape(shape))
    known = scaling if factor is None else replace(scaling, tensor_scale=factor)
    return Quantized(shown(codes, shape), scales, known, zero_points)


def _no_order(packed: bool, high_first: bool) -> None:
    if high_first and not packed:
        raise TypeError("high_first=True is an order of packed elements, and needs packed=True")


def _no_options_of_integers(options: dict[str, Any]) -> None:
    if "int_rounding" in options:
        raise TypeError("int_rounding belongs to the scaling, as in lanecast.Scaling.per_tensor(int_rounding='up')")
    for name in ("float_to_int", "int_to_int"):
        if name in options:
            raise TypeError(f"{name} is an option of casts without scales; quantised integers saturate")


def quantize(
    x: Any,
    dtype: Any,
    scaling: Scaling | str,
    *,
    scales: Any = None,
    zero_points: Any = None,
    affine: bool = False,
    packed: bool = False,
    high_first: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Quantized:
    """Cast floats to elements under scales, which are computed from the data or given: each element is x / scale, rounded
    once.

    x: floats of 16 bits or more, as astype takes them. An array that is not in C order is copied first.
    dtype: float8, float6, float4, or an integer dtype.
    scaling: a Scaling, or "mx", "nvfp4", "deepseek", "per_tensor".
    scales: the scales, one for each block (they are not broadcast). None: they are computed.
    zero_points: for integers with given scales: one for each scale, of the dtype of the elements, and packed (by
        lanecast.pack) if these are.
    affine: compute zero points too (profile "compressed_tensors", int4 and int8; "onnx", float32 to uint8).
    packed: pack elements of fewer than 8 bits into bytes; high_first as in pack.
    progress: called with the number of pieces of the work done and of all pieces; it begins anew after a first pass that
        only finds something: the tensor scale, the one scale of all, or scales with zero points. If it returns False,
        Cancelled is raised. (A block and those beside it are one piece, however tall they are.)
    options: those of astype, except for those of integers, which saturate; int_rounding belongs to the scaling.
        stochastic=seed or (seed, first) rounds by chance.

    >>> import lanecast, numpy as np
    >>> q = lanecast.quantize(np.float32([[0.5, -2.54], [100.0, 7.0]]), "int8", lanecast.Scaling.per_axis(0))
    >>> q.codes.tolist(), q.scales.shape
    ([[25, -127], [127, 9]], (2, 1))
    >>> lanecast.quantize(np.ones((2, 64)), "float8_e4m3fn", "mx", scales=np.ones((2, 3)).astype(q.scales.dtype))
    Traceback (most recent call last):
    TypeError: scales have dtype float32; it must be float8_e8m0fnu
    """
    scaling = _scaling(scaling)
    for name, flag in (("affine", affine), ("packed", packed), ("high_first", high_first)):
        _flag(name, flag)
    _no_order(packed, high_first)
    if scales is None and zero_points is not None:
        raise TypeError("zero_points are given but scales are not; pass both, or affine=True to compute both")
    if scales is not None and affine:
        raise TypeError("scales are given, but affine=True computes scales and zero points; pass zero_points instead of affine=True")
    _no_options_of_integers(options)
    made = _lanecast.quantize(
        x, dtype, scaling, scales, zero_points, affine, high_first if packed else None, threads, progress, options
    )
    return _made(made, dtype, scaling, packed, high_first, zero_points)


def dequantize(
    codes: Any,
    scales: Any,
    scaling: Scaling | str,
    dtype: Any = "float32",
    *,
    zero_points: Any = None,
    out: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Array:
    """Cast elements under scales to floats: (code - zero point) * scale, rounded once.

    codes: an array with one element per byte, a PackedArray, or a tensor of torch (float8, float4_e2m1fn_x2).
    scales, zero_points, progress: as in quantize.

    >>> import lanecast, numpy as np
    >>> codes = lanecast.astype([[1.0, 448.0]], "float8_e4m3fn")
    >>> lanecast.dequantize(codes, np.float32([[0.5]]), "deepseek", "float16")
    array([[  0.5, 224. ]], dtype=float16)
    >>> lanecast.dequantize(np.zeros((512, 7168), "int8"), np.ones((56, 4), "float32"), "deepseek")
    Traceback (most recent call last):
    ValueError: scales have shape (56, 4); it must be (4, 56) for data of shape (512, 7168)
    """
    for name in ("int_rounding", "float_to_int", "int_to_int"):
        if name in options:
            raise TypeError(f"{name} has no effect here: elements under scales become floats, by rounding=")
    return _lanecast.dequantize(
        codes, scales, _scaling(scaling), dtype, zero_points, out, threads, progress, options
    )


def requantize(
    codes: Any,
    scales: Any,
    scaling: Scaling | str,
    dtype: Any,
    to_scaling: Scaling | str,
    *,
    zero_points: Any = None,
    packed: bool = False,
    high_first: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Quantized:
    """Cast elements under one scaling to elements under another, with a single rounding.

    >>> import lanecast, numpy as np
    >>> codes = lanecast.astype(np.ones((128, 64)), "float8_e4m3fn")
    >>> lanecast.requantize(codes, np.float32([[0.5]]), "deepseek", "float4_e2m1fn", "mx", packed=True)
    Quantized(float4_e2m1fn, shape (128, 64), scales of float8_e8m0fnu, shape (128, 2))
    """
    to = _scaling(to_scaling)
    for name, flag in (("packed", packed), ("high_first", high_first)):
        _flag(name, flag)
    _no_order(packed, high_first)
    _no_options_of_integers(options)
    made = _lanecast.requantize(
        codes, scales, _scaling(scaling), dtype, to, zero_points, high_first if packed else None, threads, progress, options
    )
    return _made(made, dtype, to, packed, high_first, None)
