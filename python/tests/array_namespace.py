"""NumPy's namespace, with the dtype functions of the Array API by lanecast: for the array-api-tests.

    git clone --recursive https://github.com/data-apis/array-api-tests && cd array-api-tests
    ARRAY_API_TESTS_MODULE=array_namespace PYTHONPATH=../python/tests python -m pytest \\
        array_api_tests/test_data_type_functions.py array_api_tests/test_operators_and_elementwise_functions.py
"""

import lanecast
import numpy as np
from numpy import *  # noqa: F403

__array_api_version__ = "2024.12"
_RULES = "array_api"


def __getattr__(name):
    return getattr(np, name)


def astype(x, dtype, /, *, copy=True, device=None):
    """As the specification has it: a new array, unless that is not asked for."""
    if device not in (None, "cpu"):
        raise ValueError(f"device is {device!r}; there is the CPU alone")
    if not copy and x.dtype == dtype:
        return x
    return lanecast.astype(x, dtype)


def can_cast(from_, to, /):
    """By the rules of the specification: what promotes to `to` may be cast to it."""
    from_ = from_.dtype if isinstance(from_, np.ndarray) else from_
    try:
        return lanecast.promote_types(from_, to, rules=_RULES) == to
    except lanecast.PromotionError:
        return False


def result_type(*arrays_and_dtypes):
    return lanecast.result_type(*arrays_and_dtypes, rules=_RULES)


def finfo(type, /):
    return lanecast.finfo(type)


def iinfo(type, /):
    return lanecast.iinfo(type)
