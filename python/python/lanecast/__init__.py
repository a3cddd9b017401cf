"""Casts between all dtypes of NumPy and ml_dtypes arrays: fast, and every bit of them defined.

``lanecast.astype`` casts anything to anything; ``lanecast.patch()`` makes NumPy's own ``astype`` as fast, with the bits
and warnings of before. Importing the package patches nothing.
"""

from __future__ import annotations

import ml_dtypes as _ml_dtypes  # noqa: F401  (registers its dtypes with NumPy)
import numpy as _numpy  # noqa: F401

from lanecast._api import (
    FloatInfo,
    IntInfo,
    LossError,
    PackedArray,
    PromotionError,
    Report,
    can_cast,
    checked,
    dlpack,
    dtypes,
    finfo,
    format,
    from_dlpack,
    iinfo,
    masked,
    pack,
    parse,
    promote_types,
    report,
    result_type,
    try_astype,
)
from lanecast._convert import ConvertError, ConvertReport, convert, inspect, verify
from lanecast._lanecast import Cancelled, astype
from lanecast._lanecast import __version__ as __version__
from lanecast._patch import PatchError, PatchInfo, is_patched, patch, patch_info, patched, unpatch
from lanecast._scaled import Quantized, Scaling, dequantize, quantize, requantize

__all__ = [
    "Cancelled",
    "ConvertError",
    "ConvertReport",
    "FloatInfo",
    "IntInfo",
    "LossError",
    "PackedArray",
    "PatchError",
    "PatchInfo",
    "PromotionError",
    "Quantized",
    "Report",
    "Scaling",
    "astype",
    "can_cast",
    "checked",
    "convert",
    "dequantize",
    "dlpack",
    "dtypes",
    "finfo",
    "format",
    "from_dlpack",
    "iinfo",
    "inspect",
    "is_patched",
    "masked",
    "pack",
    "parse",
    "patch",
    "patch_info",
    "patched",
    "promote_types",
    "quantize",
    "report",
    "requantize",
    "result_type",
    "try_astype",
    "unpatch",
    "verify",
]
