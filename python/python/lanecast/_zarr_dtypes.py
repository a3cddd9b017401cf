"""Dtypes of Zarr for what the codec cast_value may cast and Zarr does not have: those of ml_dtypes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Self

import ml_dtypes
import numpy as np
from zarr.codecs import cast_value  # type: ignore[import-not-found, unused-ignore]
from zarr.core.dtype.common import HasEndianness, HasItemSize  # type: ignore[import-not-found, unused-ignore]
from zarr.dtype import ZDType, data_type_registry  # type: ignore[import-not-found, unused-ignore]
from zarr.errors import DataTypeValidationError  # type: ignore[import-not-found, unused-ignore]

from lanecast import _lanecast

#: The dtypes that the codec may cast and NumPy does not have: one byte each in memory and in chunks.
_BYTES = tuple(sorted(name for name in cast_value.PERMITTED_DATA_TYPE_NAMES - {"bfloat16"} if not hasattr(np, name)))
_SPECIAL = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}


@dataclass(frozen=True, kw_only=True)
class _Named(ZDType[Any, Any], HasItemSize):  # type: ignore[misc, unused-ignore]
    """A dtype of ml_dtypes, by its name."""

    name: str

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        return tuple(name for name in _BYTES if name not in _taken)

    @classmethod
    def from_native_dtype(cls, dtype: np.dtype[Any]) -> Self:
        if dtype.name in cls._names() and dtype == np.dtype(getattr(ml_dtypes, dtype.name)):
            return cls(name=dtype.name)
        raise DataTypeValidationError(f"Invalid data type: {dtype}. Expected one of {', '.join(cls._names())}")

    def to_native_dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.name))
        return dtype

    @classmethod
    def _from_json_v2(cls, data: object) -> Self:
        raise DataTypeValidationError(f"{data!r} is not {cls.__name__}; Zarr format 2 has no data types of ml_dtypes")

    @classmethod
    def _from_json_v3(cls, data: object) -> Self:
        if isinstance(data, str) and data in cls._names():
            return cls(name=data)
        raise DataTypeValidationError(f"Invalid data type: {data!r}. Expected one of {', '.join(cls._names())}")

    def to_json(self, zarr_format: int) -> Any:
        if zarr_format != 3:
            raise ValueError(f"Zarr format {zarr_format} has no {self.name}; use format 3")
        return self.name

    @property
    def item_size(self) -> int:
        return self.to_native_dtype().itemsize

    def _check_scalar(self, data: object) -> bool:
        return isinstance(data, (int, float, np.generic))

    def cast_scalar(self, data: Any) -> Any:
        if isinstance(data, str):
            return self.from_json_scalar(data, zarr_format=3)
        if not self._check_scalar(data):
            raise TypeError(f"{data!r} is not a value of {self.name}")
        if isinstance(data, self.to_native_dtype().type):
            return data
        facts, value = _lanecast.facts(self.to_native_dtype()), float(data)
        if facts["kind"] == "int" and not (value == int(data) and facts["min"] <= value <= facts["max"]):
            raise ValueError(f"{data!r} is not a value of {self.name}")
        if facts["kind"] != "int" and (np.isnan(value) and not facts["has_nan"] or np.isinf(value) and not facts["has_inf"]):
            raise ValueError(f"{data!r} is not a value of {self.name}")
        if facts["kind"] != "int" and np.isfinite(value) and not facts["min"] <= value <= facts["max"]:
            raise ValueError(f"{data!r} is out of the range of {self.name}, {facts['min']} to {facts['max']}")
        return self.to_native_dtype().type(int(data) if facts["kind"] == "int" else value)

    def default_scalar(self) -> Any:
        return np.zeros((), self.to_native_dtype())[()]

    def from_json_scalar(self, data: Any, *, zarr_format: int) -> Any:
        if isinstance(data, bool) or not isinstance(data, (int, float, str)):
            raise TypeError(f"{data!r} is not a value of {self.name}")
        if not isinstance(data, str):
            return self.cast_scalar(data)
        native = self.to_native_dtype()
        if _lanecast.facts(native)["kind"] == "int":
            raise TypeError(f"{data!r} is not a value of {self.name}")
        if data in _SPECIAL:
            return self.cast_scalar(_SPECIAL[data])
        # The bits, with as many digits as the element has.
        if not data.startswith("0x") or len(data) != 2 + 2 * native.itemsize:
            raise ValueError(f"{data!r} is not a value of {self.name}; its bits are 0x and {2 * native.itemsize} digits")
        return np.array([int(data, 16)], f"u{native.itemsize}").view(native)[0]

    def to_json_scalar(self, data: Any, *, zarr_format: int) -> Any:
        value = self.cast_scalar(data)
        native = self.to_native_dtype()
        if _lanecast.facts(native)["kind"] == "int":
            return int(value)
        number = float(value)
        if np.isfinite(number):
            return number
        for text, special in _SPECIAL.items():
            # A NaN with other bits is written as its bits.
            if (number == special or number != number and special != special) and self.cast_scalar(special).tobytes() == value.tobytes():
                return text
        bits = int(np.array([value], native).view(f"u{native.itemsize}")[0])
        return f"0x{bits:0{2 * native.itemsize}x}"


@dataclass(frozen=True, kw_only=True)
class OneByte(_Named):
    """A dtype of ml_dtypes of one byte."""


@dataclass(frozen=True, kw_only=True)
class BFloat16(_Named, HasEndianness):  # type: ignore[misc, unused-ignore]
    """bfloat16 of ml_dtypes, which is in the order of the machine."""

    name: str = "bfloat16"

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        return ("bfloat16",) if "bfloat16" not in _taken else ()

    def to_native_dtype(self) -> np.dtype[Any]:
        if self.endianness != sys.byteorder:
            raise ValueError(f"bfloat16 of ml_dtypes is {sys.byteorder}-endian on this machine; it cannot be {self.endianness}-endian")
        dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return dtype


#: Names that other code has registered: Zarr refuses data that two dtypes match.
_taken: set[str] = set()


def register() -> None:
    """Tell Zarr of those that nobody else has told it of."""
    for name in (*_BYTES, "bfloat16"):
        try:
            found = data_type_registry.match_json(name, zarr_format=3)
        except ValueError:
            continue
        if not isinstance(found, _Named):
            _taken.add(name)
    data_type_registry.register("lanecast.one_byte", OneByte)
    data_type_registry.register("lanecast.bfloat16", BFloat16)
