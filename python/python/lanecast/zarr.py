"""The codec cast_value of Zarr, by lanecast: needs zarr 3.4 or later, which needs Python 3.12.

Where both are installed, Zarr knows two codecs of this name. Say which::

    zarr.config.set({"codecs.cast_value": "lanecast.zarr.CastValue"})

What is stored is the same: files of either are read by the other.

With this module Zarr knows the dtypes of ml_dtypes that the codec may cast and that Zarr does not have: bfloat16, float8, float6, float4, and
integers of 2 and 4 bits, for what is stored and for arrays in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.codecs import cast_value  # type: ignore[import-not-found, unused-ignore]

from lanecast import _lanecast, _zarr_dtypes
from lanecast._api import Report

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
    scalar_map_entries: Mapping[Any, Any] | None = None,
) -> NDArray[Any]:
    """Cast an array by the rules of cast_value: mapped values first, then what is exact, then by rounding, then by what
    out of range is to become. Everything else is a ValueError.

    scalar_map_entries: source values and what they become. NaN matches any NaN, 0 matches -0, the first match counts.

    >>> import numpy as np
    >>> from lanecast.zarr import cast_array
    >>> cast_array([1.5, 300, np.nan], target_dtype="uint8", out_of_range_mode="clamp", scalar_map_entries={np.nan: 7})
    array([  2, 255,   7], dtype=uint8)
    """
    if rounding_mode not in _ROUNDING:
        raise ValueError(f"Unknown rounding mode: {rounding_mode}; it must be one of {', '.join(_ROUNDING)}")
    if out_of_range_mode not in (None, "clamp", "wrap"):
        raise ValueError(f"Unknown out_of_range mode: {out_of_range_mode}; it must be clamp, wrap or None")
    overflow = "wrap" if out_of_range_mode == "wrap" else "saturate"
    rounding = _ROUNDING[rounding_mode]
    options = {
        "rounding": rounding,
        "int_rounding": rounding,
        "float_to_int": overflow,
        "int_to_int": overflow,
        "saturate": "without_inf",
        # Powers of two: where both are as near, the larger one.
        "e8m0_rounding": {"up": "up", "down": "down", "toward_zero": "down"}.get(rounding, "nearest"),
    }
    x = np.asarray(arr)
    result, numbers = _lanecast.checked(x, target_dtype, options)
    report = Report(*numbers)
    if not report.lost and not scalar_map_entries:
        return result
    source, target = _lanecast.facts(x.dtype), _lanecast.facts(result.dtype)
    flat, out = x.reshape(-1), result.reshape(-1)
    entries = list((scalar_map_entries or {}).items())
    keys = _typed([key for key, _ in entries], x.dtype)
    values = _typed([value for _, value in entries], result.dtype)

    lost = np.empty(0, np.intp)
    if report.lost:
        bits = np.frombuffer(_lanecast.masked(x, target_dtype, None, options)[1], np.uint8)
        lost = np.flatnonzero(np.unpackbits(bits, count=x.size, bitorder="little") == 0)
    given = flat[lost]
    finite = np.isfinite(given) if source["kind"] == "float" else np.ones(given.size, np.bool_)
    # NaN and Inf become nothing that the target does not have; what is too large may become its limit, or wrap.
    refused = ~finite if out_of_range_mode is not None else np.ones(given.size, np.bool_)
    for key in keys:
        refused &= ~_matches(given, key)
    if refused.any():
        raise _error(given[refused.argmax()], target)
    # A cast that rounds toward zero stops at the largest value; here what is out of range is Inf, where there is one.
    if target.get("has_inf") and out_of_range_mode == "clamp":
        out[lost[finite]] = np.where(given[finite] < 0, -np.inf, np.inf).astype(out.dtype)
    for key, value in reversed(list(zip(keys, values))):
        out[_places(flat, key, lost, given, target)] = value
    return result


def _typed(values: list[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Scalars as elements of a dtype."""
    if _lanecast.facts(dtype)["kind"] == "int":
        whole = [int(value) for value in values]
        limits = _lanecast.facts(dtype)
        for value in whole:
            if not limits["min"] <= value <= limits["max"]:
                raise ValueError(f"scalar_map target value {value} is out of the range of dtype {dtype}")
        return np.array(whole, dtype=np.int64 if limits["min"] < 0 else np.uint64).astype(dtype)
    return np.array([float(value) for value in values]).astype(dtype)


def _matches(array: NDArray[Any], key: Any) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.isnan(array) if key != key else array == key
    return found


def _places(
    flat: NDArray[Any], key: Any, lost: NDArray[np.intp], given: NDArray[Any], target: dict[str, Any]
) -> NDArray[np.intp]:
    """Where an array has the key. What the target does not have is among what the cast has lost."""
    is_lost = target["kind"] == "int" or not target["has_nan" if key != key else "has_inf"]
    if is_lost and not np.isfinite(key.astype(np.float64)):
        return lost[_matches(given, key)]
    return np.flatnonzero(_matches(flat, key))


def _error(value: Any, target: dict[str, Any]) -> ValueError:
    number = int(value) if np.isfinite(value.astype(np.float64)) and value == np.trunc(float(value)) else float(value)
    if isinstance(number, float) and not np.isfinite(number):
        text = "NaN" if number != number else f"{number:g}"
        what = "integer type" if target["kind"] == "int" else target["name"]
        return ValueError(f"Cannot cast {text} to {what} without scalar_map")
    low, high = (int(limit) if limit == int(limit) else limit for limit in (target["min"], target["max"]))
    ways = "out_of_range='clamp' or out_of_range='wrap'" if target["kind"] == "int" else "out_of_range='clamp'"
    return ValueError(f"Value {number} out of range [{low}, {high}]. Set {ways} to handle this.")


class CastValue(cast_value.CastValue):  # type: ignore[misc, unused-ignore]
    """The codec cast_value of Zarr, cast by lanecast: as zarr.codecs.CastValue, of which it has everything else.

    >>> import numpy as np, zarr
    >>> from lanecast.zarr import CastValue
    >>> array = zarr.create_array({}, shape=4, dtype="float64", filters=[CastValue(data_type="uint8", out_of_range="clamp")])
    >>> array[:] = [1, 2.5, 300, -7]
    >>> array[:].tolist()
    [1.0, 2.0, 255.0, 0.0]
    """

    def _do_cast(
        self, arr: NDArray[Any], *, target_dtype: np.dtype[Any], scalar_map: Mapping[Any, Any] | None
    ) -> NDArray[Any]:
        entries = None
        if scalar_map is not None:
            # Integers are not read by way of a float.
            of = [int if _lanecast.facts(dtype)["kind"] == "int" else float for dtype in (arr.dtype, target_dtype)]
            entries = {of[0](key): of[1](value) for key, value in scalar_map.items()}
        return cast_array(
            arr,
            target_dtype=target_dtype,
            rounding_mode=self.rounding,
            out_of_range_mode=self.out_of_range,
            scalar_map_entries=entries,
        )
