"""The codec cast_value of Zarr, by lanecast: needs zarr 3.4 or later, which needs Python 3.12.

Zarr itself has a codec of this name. Choose this one with::

    zarr.config.set({"codecs.cast_value": "lanecast.zarr.CastValue"})

What is stored is the same: files of either are read by the other.

With this module Zarr knows the dtypes of ml_dtypes that the codec may cast and that Zarr does not have: bfloat16, float8, float6, float4, and
integers of 2 and 4 bits, for what is stored and for arrays in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanecast import _lanecast
from lanecast._api import _of_integers

try:
    from zarr.codecs import cast_value  # type: ignore[import-not-found, unused-ignore]

    from lanecast import _zarr_dtypes
except ImportError as error:
    # For an older Python, pip installs an older Zarr without a warning.
    raise ImportError(f"lanecast.zarr needs Python 3.12 and zarr 3.4, or later: pip install 'zarr>=3.4' ({error})") from None

__all__ = ["CastValue", "cast_array"]

_zarr_dtypes.register()

_ROUNDING = {
    "nearest-even": "nearest_even",
    "nearest-away": "nearest_away",
    "towards-zero": "toward_zero",
    "towards-positive": "up",
    "towards-negative": "down",
}


def cast_array(
    arr: Any,
    *,
    target_dtype: Any,
    rounding_mode: str = "nearest-even",
    out_of_range_mode: str | None = None,
    scalar_map_entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None = None,
) -> NDArray[Any]:
    """Cast an array by the rules of cast_value: values in the map become what it says, exact values stay the same, and
    others are rounded; out_of_range_mode says what values out of range become. Any other value is a ValueError.

    scalar_map_entries: source values and what they become, as a mapping or as pairs. NaN matches any NaN, 0 matches -0, and
        the first match counts.

    >>> import numpy as np
    >>> from lanecast.zarr import cast_array
    >>> cast_array([1.5, 300, np.nan], target_dtype="uint8", out_of_range_mode="clamp", scalar_map_entries={np.nan: 7})
    array([  2, 255,   7], dtype=uint8)
    """
    if rounding_mode not in _ROUNDING:
        raise ValueError(f"Unknown rounding mode: {rounding_mode}; it must be one of {', '.join(_ROUNDING)}")
    if out_of_range_mode not in (None, "clamp", "wrap"):
        raise ValueError(f"Unknown out_of_range mode: {out_of_range_mode}; it must be clamp, wrap or None")
    x = np.asarray(arr)
    if not isinstance(arr, np.ndarray):
        x = _of_integers(arr, x)
    result, refused = _lanecast.cast_value(x, target_dtype, _ROUNDING[rounding_mode], out_of_range_mode, scalar_map_entries)
    if refused is not None:
        # A signaling NaN would cause a warning.
        with np.errstate(all="ignore"):
            raise _error(x.reshape(-1)[refused], _lanecast.facts(target_dtype))
    return result


def _error(value: Any, target: dict[str, Any]) -> ValueError:
    number = int(value) if np.isfinite(value.astype(np.float64)) and value == np.trunc(float(value)) else float(value)
    if isinstance(number, float) and not np.isfinite(number):
        text = "NaN" if number != number else f"{number:g}"
        what = "integer type" if target["kind"] == "int" else target["name"]
        return ValueError(f"Cannot cast {text} to {what} without scalar_map")
    low, high = (int(limit) if limit == int(limit) else limit for limit in (target["min"], target["max"]))
    ways = "out_of_range='clamp' or out_of_range='wrap'" if target["kind"] == "int" else "out_of_range='clamp'"
    end = "map it to ±Infinity" if target.get("has_inf") else "handle this"
    return ValueError(f"Value {number} out of range [{low}, {high}]. Set {ways} to {end}.")


def _first(entries: Any) -> Any:
    if entries is None or isinstance(entries, Mapping):
        return entries
    first: dict[Any, Any] = {}
    for key, value in entries:
        first.setdefault(key, value)
    return first


def _number(scalar: Any, dtype: np.dtype[Any]) -> Any:
    """What a scalar of a map is, which is written as fill values are: "NaN", or the bits of a float ("0x7fc0")."""
    # Integers are not read by way of a float.
    if dtype.kind in "iu" or "int" in dtype.name:
        return int(scalar)
    if isinstance(scalar, str) and scalar.startswith("0x"):
        return float(np.array([int(scalar, 16)], f"u{dtype.itemsize}").view(dtype.newbyteorder("="))[0])
    return float(scalar)


class CastValue(cast_value.CastValue):  # type: ignore[misc, unused-ignore]
    """The codec cast_value of Zarr, whose casts are those of lanecast; it is otherwise the same as zarr.codecs.CastValue.

    >>> import numpy as np, zarr
    >>> from lanecast.zarr import CastValue
    >>> array = zarr.create_array({}, shape=4, dtype="float64", filters=[CastValue(data_type="uint8", out_of_range="clamp")])
    >>> array[:] = [1, 2.5, 300, -7]
    >>> array[:].tolist()
    [1.0, 2.0, 255.0, 0.0]
    """

    def __init__(self, *, scalar_map: Any = None, **options: Any) -> None:
        if isinstance(scalar_map, (list, tuple)) or isinstance(scalar_map, Mapping) and scalar_map.keys() - {"encode", "decode"}:
            raise ValueError(f"scalar_map is {scalar_map!r}; it must have the keys 'encode' and 'decode', or one of them")
        # Of equal keys the first counts, as the specification says: a dict of the pairs would keep the last.
        if isinstance(scalar_map, Mapping):
            scalar_map = {way: _first(entries) for way, entries in scalar_map.items()}
        super().__init__(scalar_map=scalar_map, **options)

    def resolve_metadata(self, chunk_spec: Any) -> Any:
        try:
            return super().resolve_metadata(chunk_spec)
        except ValueError as error:
            raise ValueError(f"the fill value, {chunk_spec.fill_value}: {error}") from error

    def _do_cast(
        self, arr: NDArray[Any], *, target_dtype: np.dtype[Any], scalar_map: Mapping[Any, Any] | None
    ) -> NDArray[Any]:
        entries = None
        if scalar_map is not None:
            entries = [(_number(key, arr.dtype), _number(value, target_dtype)) for key, value in scalar_map.items()]
        return cast_array(
            arr,
            target_dtype=target_dtype,
            rounding_mode=self.rounding,
            out_of_range_mode=self.out_of_range,
            scalar_map_entries=entries,
        )
