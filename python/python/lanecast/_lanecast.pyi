from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str

class Cancelled(Exception): ...

def astype(
    x: Any,
    dtype: Any,
    *,
    out: Any = None,
    order: str = "K",
    casting: str = "unsafe",
    threads: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
    rounding: str = ...,
    int_rounding: str = ...,
    saturate: bool | str = ...,
    float_to_int: str = ...,
    int_to_int: str = ...,
    nan_to_finite: str = ...,
    e8m0_rounding: str = ...,
    profile: str | None = ...,
    stochastic: int | tuple[int, int] | None = ...,
) -> NDArray[Any]: ...
def can_cast(from_: Any, to: Any, casting: str, /) -> bool: ...
def cast_value(
    x: Any, dtype: Any, rounding: str, out_of_range: str | None, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None
) -> tuple[NDArray[Any], int | None]: ...
def checked(
    x: Any,
    dtype: Any,
    threads: int | None,
    progress: Callable[[int, int], Any] | None,
    options: dict[str, Any] | None,
) -> tuple[NDArray[Any], tuple[int, int, int, int, int, int, int, int, int | None, int | None]]: ...
def default_dtype(kind: str, rules: str) -> str | None: ...
def dequantize(
    codes: Any,
    scales: Any,
    scaling: Any,
    dtype: Any,
    zero_points: Any,
    out: Any,
    threads: int | None,
    progress: Callable[[int, int], Any] | None,
    options: dict[str, Any] | None,
) -> NDArray[Any]: ...
def dlpack_capsule(
    array: NDArray[Any], versioned: bool, copied: bool, packed: tuple[Any, tuple[int, ...]] | None = None
) -> Any: ...
def dtype(name: Any) -> np.dtype[Any]: ...
def dtypes() -> dict[str, np.dtype[Any] | None]: ...
def facts(dtype: Any) -> dict[str, Any]: ...
def format(x: Any, scientific: bool) -> tuple[list[str], tuple[int, ...]]: ...
def from_dlpack(x: Any) -> NDArray[Any] | tuple[NDArray[Any], str, tuple[int, ...]]: ...
def isa() -> tuple[str, list[str]]: ...
def leave_few(elements: int, /) -> None: ...
def masked(
    x: Any,
    dtype: Any,
    valid: bytes | None,
    shape: tuple[int, ...] | None,
    threads: int | None,
    progress: Callable[[int, int], Any] | None,
    options: dict[str, Any] | None,
) -> tuple[NDArray[Any], bytes]: ...
def pack(x: Any, high_first: bool) -> tuple[NDArray[Any], str, tuple[int, ...]]: ...
def parse(texts: list[str], like: NDArray[Any], dtype: Any, options: dict[str, Any] | None) -> NDArray[Any]: ...
def patch(exact: bool, threads: int, numpy: bool) -> None: ...
def patch_state() -> tuple[
    tuple[bool, int, bool] | None, list[tuple[str, str, int, int, tuple[int | None, int | None]]], dict[tuple[str, str], str]
]: ...
def promote(dtypes: list[Any], rules: str) -> str: ...
def quantize(
    x: Any,
    dtype: Any,
    scaling: Any,
    scales: Any,
    zero_points: Any,
    affine: bool,
    packed: bool | None,
    threads: int | None,
    progress: Callable[[int, int], Any] | None,
    options: dict[str, Any] | None,
) -> tuple[tuple[int, ...], NDArray[Any], NDArray[Any], NDArray[Any] | None, float | None]: ...
def report(
    x: Any,
    dtype: Any,
    threads: int | None,
    progress: Callable[[int, int], Any] | None,
    options: dict[str, Any] | None,
) -> tuple[int, int, int, int, int, int, int, int, int | None, int | None]: ...
def requantize(
    codes: Any,
    scales: Any,
    scaling: Any,
    dtype: Any,
    to_scaling: Any,
    zero_points: Any,
    packed: bool | None,
    threads: int | None,
    progress: Callable[[int, int], Any] | None,
    options: dict[str, Any] | None,
) -> tuple[tuple[int, ...], NDArray[Any], NDArray[Any], NDArray[Any] | None, float | None]: ...
def scale_shape(scaling: Any, shape: tuple[int, ...]) -> tuple[int, ...]: ...
def try_cast(
    x: Any,
    dtype: Any,
    threads: int | None,
    progress: Callable[[int, int], Any] | None,
    options: dict[str, Any] | None,
) -> NDArray[Any]: ...
def unpatch() -> None: ...
def with_scalar(dtype: Any, kind: str, rules: str) -> str: ...
def program(arguments: list[str]) -> int: ...
