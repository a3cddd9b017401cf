"""What is not worth writing in Rust: reports, errors, facts, and the arguments of the functions behind them."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanecast import _lanecast

Array = NDArray[Any]


class LossError(ValueError):
    """A cast was refused, because it would have lost an element.

    >>> import lanecast
    >>> try:
    ...     lanecast.try_astype([1, -2], "uint8")
    ... except lanecast.LossError as error:
    ...     print(error, error.index, error.value, error.loss)
    element 1, -2, is below the range of uint8 (1,) -2 below
    """

    def __init__(self, message: str, flat_index: int, index: tuple[int, ...], value: Any, loss: str) -> None:
        super().__init__(message)
        self.flat_index = flat_index
        self.index = index
        self.value = value
        self.loss = loss
        self.report: Report | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.flat_index, self.index, self.value, self.loss), {"report": self.report}


class PromotionError(TypeError):
    """Operands have no common dtype.

    >>> import lanecast
    >>> lanecast.promote_types("int32", "float32", rules="array_api")
    Traceback (most recent call last):
    lanecast.PromotionError: array_api defines no common dtype of int32, float32
    """


LossError.__module__ = PromotionError.__module__ = "lanecast"


@dataclass(frozen=True)
class Report:
    """What a cast lost: how many elements of each class, and the flat index (C order) of the first.

    >>> import lanecast
    >>> array, report = lanecast.checked([1.0, 300.0, float("nan")], "uint8")
    >>> print(report)
    3 elements: 1 above, 1 nan; the first lost is element 1
    >>> report.lost, report.ok
    (2, False)
    """

    elements: int
    above: int
    below: int
    negative: int
    nan: int
    inf: int
    imaginary: int
    inexact: int
    first: int | None
    first_inexact: int | None

    @property
    def lost(self) -> int:
        """The elements of every class except inexact."""
        return self.above + self.below + self.nan + self.inf + self.imaginary

    @property
    def ok(self) -> bool:
        """Whether nothing is lost. Rounding is not counted as a loss here."""
        return self.lost == 0

    def _classes(self) -> list[tuple[str, int]]:
        names = ("above", "below", "nan", "inf", "imaginary", "inexact")
        return [(name, getattr(self, name)) for name in names]

    def __str__(self) -> str:
        found = [f"{count} {name}" for name, count in self._classes() if count]
        text = f"{_count(self.elements, 'element')}: {', '.join(found) or 'all exact'}"
        return text if self.first is None else f"{text}; the first lost is element {self.first}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td style='text-align:right'>{count}</td></tr>"
            for name, count in [("elements", self.elements), *self._classes()]
        )
        first = "" if self.first is None else f"<tr><td>first lost</td><td>{self.first}</td></tr>"
        return f"<table><caption>lanecast: what the cast lost</caption>{rows}{first}</table>"


def _count(n: int, what: str) -> str:
    """A number of things, whose plural ends in s: 1 byte."""
    return f"{n} {what}{'' if n == 1 else 's'}"


#: True and False, of Python and of NumPy.
BOOLS = (bool, np.bool_)


def _flag(name: str, value: Any) -> None:
    if not isinstance(value, BOOLS):
        raise TypeError(f"{name} is {value!r}; it must be True or False")


def _of_integers(given: Any, array: Array) -> Array:
    """The array that NumPy has made of a list, but exact if that is of integers: it makes float64 of those that are below 0
    and those that are above int64 together, of the latter beside small ones, and of its own of uint64 and of signed ones."""
    if array.dtype != np.float64 or not (np.abs(array) > 2.0**53 - 1).any():
        return array
    objects = np.asarray(given, dtype=object)
    if not all(isinstance(x, (int, np.integer)) for x in objects.reshape(-1)):
        return array
    if max(objects.reshape(-1)) < 2**63:
        return objects.astype(np.int64)
    if min(objects.reshape(-1)) < 0:
        raise TypeError(
            "x has integers below 0 and above 2**63 - 1, which no integer dtype holds together; numpy.asarray(x, float) rounds them"
        )
    return objects.astype(np.uint64)


def _extents(name: str, given: Any, one: bool = False) -> tuple[int, ...]:
    """Lengths along dimensions: an integer, or a sequence of them; with one=True only an integer."""
    # Arrays have __index__, whatever their shape is.
    is_one = one or not getattr(given, "ndim", 0) and hasattr(given, "__index__")
    try:
        parts = (given,) if is_one else tuple(given)
        if any(isinstance(part, bool) for part in parts):
            raise TypeError
        extents = tuple(operator.index(part) for part in parts)
    except TypeError:
        needed = "an integer" if one else "an integer, or a sequence of them"
        raise TypeError(f"{name} is {given!r}; it must be {needed}") from None
    if not all(0 <= extent <= sys.maxsize for extent in extents):
        what = "it" if is_one else "each of its integers"
        raise ValueError(f"{name} is {given!r}; {what} must be from 0 to {sys.maxsize}")
    return extents


def checked(
    x: Any,
    dtype: Any,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
    **options: Any,
) -> tuple[Array, Report]:
    """Cast as astype does, and report what that lost. The result is in C order.

    >>> import lanecast
    >>> array, report = lanecast.checked([0.1, -7.0, 1e9], "uint8")
    >>> array
    array([  0,   0, 255], dtype=uint8)
    >>> report.above, report.below, report.negative, report.inexact, report.first
    (1, 1, 1, 1, 1)
    """
    array, numbers = _lanecast.checked(x, dtype, threads, progress, options)
    return array, Report(*numbers)


def report(
    x: Any,
    dtype: Any,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
    **options: Any,
) -> Report:
    """What astype would lose. No result is made: beside x, it takes less than 100 KiB of memory for each thread.

    >>> import lanecast, numpy as np
    >>> x = np.array([100, -300, 7])
    >>> [name for name in ("int8", "int16", "int32") if lanecast.report(x, name).ok]
    ['int16', 'int32']
    >>> print(lanecast.report(np.float32([0.1, 0.5, 1e6]), "float16"))
    3 elements: 1 above, 1 inexact; the first lost is element 2
    """
    return Report(*_lanecast.report(x, dtype, threads, progress, options))


def try_astype(
    x: Any,
    dtype: Any,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
    **options: Any,
) -> Array:
    """Cast as astype does, unless that loses an element: then raise a LossError, whose report counts all losses. Rounding
    is not counted as a loss here.

    >>> import lanecast
    >>> lanecast.try_astype([1.5, 255.9], "uint8")
    array([  1, 255], dtype=uint8)
    >>> lanecast.try_astype([1.5, 256.0], "uint8")
    Traceback (most recent call last):
    lanecast.LossError: element 1, 256.0, is above the range of uint8
    """
    return _lanecast.try_cast(x, dtype, threads, progress, options)


def masked(
    x: Any,
    dtype: Any,
    valid: Any = None,
    *,
    bitmap: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
    **options: Any,
) -> tuple[Array, Array]:
    """Cast, and make null what is lost: its bits are zero, and its place in the second array is False. What valid says is
    null stays null, and has the bits that a cast of its bits has.

    valid: which elements are not null, as bools of the shape of x. None: those that the mask of a masked array leaves, those
        of an Arrow array (of pyarrow, polars, ..; read by pyarrow) that are not null, and all elements of anything else. A
        valid that is given replaces such a mask. With bitmap=True, valid and the second result are bitmaps as Arrow has them:
        uint8, element i in bit i % 8 of byte i // 8, in C order.
    threads, progress: as in astype.

    >>> import lanecast
    >>> array, valid = lanecast.masked([1.0, 300.0, 7.0], "uint8", [True, True, False])
    >>> valid
    array([ True, False, False])
    >>> lanecast.masked([1.0, 300.0, 7.0], "uint8", bitmap=True)[1]
    array([5], dtype=uint8)
    """
    _flag("bitmap", bitmap)
    bits: bytes | None = None
    shape: tuple[int, ...] | None = None
    there: Array | None = None
    if isinstance(x, np.ma.MaskedArray):
        there = ~np.ma.getmaskarray(x)
    elif any(hasattr(x, name) for name in _ARROW) and not isinstance(getattr(x, "dtype", None), np.dtype):
        x, there = _from_arrow(x)
    if valid is None and there is not None:
        valid = np.packbits(there.reshape(-1), bitorder="little") if bitmap else there
    if valid is not None:
        array = np.asarray(valid)
        if bitmap:
            if array.dtype != np.uint8 or array.ndim != 1:
                raise ValueError(
                    f"valid has dtype {array.dtype} and shape {array.shape}; a bitmap must be uint8, with one dimension"
                )
            bits = array.tobytes()
        else:
            if array.dtype != np.bool_:
                raise ValueError(f"valid has dtype {array.dtype}; it must be bool")
            shape = array.shape
            bits = np.packbits(array.reshape(-1), bitorder="little").tobytes()
    result, marks = _lanecast.masked(x, dtype, bits, shape, threads, progress, options)
    found = np.frombuffer(bytearray(marks), np.uint8)
    if bitmap:
        return result, found
    unpacked = np.unpackbits(found, count=result.size, bitorder="little")
    return result, unpacked.view(np.bool_).reshape(result.shape)


# What an Arrow array has, or an extension array of pandas, which pyarrow reads. A series of pandas of NumPy's dtypes may have
# them, too.
_ARROW = ("__arrow_c_array__", "__arrow_c_stream__", "__arrow_array__", "isna")


def _from_arrow(x: Any) -> tuple[Any, Array | None]:
    """The numbers of an Arrow array, and which of them are not null; None: all. What is no array, as a table, as it is."""
    try:
        import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        nulls = getattr(x, "null_count", 0)
        nulls = nulls() if callable(nulls) else nulls
        if not isinstance(nulls, int) or nulls == 0:
            return x, None
        what = type(x).__qualname__
        raise TypeError(f"reading a {what} with nulls needs pyarrow: pip install pyarrow") from error
    if isinstance(x, (pa.Array, pa.ChunkedArray)):
        array = x
    else:
        is_stream = hasattr(x, "__arrow_c_stream__") and not hasattr(x, "__arrow_c_array__")
        try:
            array = pa.chunked_array(x) if is_stream else pa.array(x)
        except pa.ArrowException:
            # pyarrow does not read it: NumPy may, or astype says what it is.
            return x, None
    if isinstance(array, pa.ChunkedArray):
        # Empty chunks that came by a stream may have no buffers.
        array = pa.chunked_array([chunk for chunk in array.chunks if len(chunk)], type=array.type)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_struct(array.type):
        return x, None
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        array = array.cast(pa.int8())
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_boolean(array.type)):
        elements = _of_lists(x)
        needed = f"{elements} has the elements of its lists" if elements else "its elements must be integers, floats or bools"
        raise TypeError(f"cannot cast an Arrow array of {array.type}; {needed}")
    first, end = array.offset, array.offset + len(array)

    def bits(buffer: Any) -> Array:
        return np.unpackbits(np.frombuffer(buffer, np.uint8), count=end, bitorder="little")[first:].view(np.bool_)

    validity, data = array.buffers()
    there = bits(validity) if array.null_count else None
    if data is None or end == 0:
        return np.empty(0, array.type.to_pandas_dtype()), None
    if pa.types.is_boolean(array.type):
        return bits(data), there
    return np.frombuffer(data, array.type.to_pandas_dtype(), count=end)[first:], there


def _of_lists(x: Any) -> str | None:
    """How a column of lists, of pyarrow or polars, gives the elements of these; None: it is no such column."""
    try:
        dtype = getattr(x, "dtype", None)
        if hasattr(dtype, "inner"):
            # Arrays of polars have a shape, and nulls of as many elements.
            return "x.reshape((-1,))" if hasattr(dtype, "shape") else "x.explode()"
        if re.match(r"(fixed_size_|large_)?list(_view)?<", str(getattr(x, "type", ""))):
            return "x.combine_chunks().flatten()" if hasattr(x, "combine_chunks") else "x.flatten()"
    except Exception:
        # Raised by a property, or by the text of a type: such a column is not one of pyarrow or polars. The answer is a part
        # of another error, which says what is wrong.
        pass
    return None


def _descr(name: str) -> np.dtype[Any]:
    return _lanecast.dtype(name)


def _dtype(x: Any) -> Any:
    """The dtype of an array or a tensor; what is none, as it is."""
    return x if isinstance(x, (str, type)) else getattr(x, "dtype", x)


def promote_types(a: Any, b: Any, rules: str = "numpy") -> np.dtype[Any]:
    """The dtype that two dtypes become, by the rules of numpy, jax, jax_x32, jax_strict, torch, array_api, mindspore,
    megengine, onnx or lossless.

    >>> import lanecast
    >>> lanecast.promote_types("int8", "uint8")
    dtype('int16')
    >>> lanecast.promote_types("int32", "float16", rules="torch")
    dtype('float16')
    >>> lanecast.promote_types("float8_e4m3fn", "float8_e5m2", rules="lossless")
    dtype('float16')
    """
    return _descr(_lanecast.promote([a, b], rules))


_NUMBERS: tuple[tuple[type, str], ...] = ((bool, "bool"), (int, "int"), (float, "float"), (complex, "complex"))


def result_type(*xs: Any, rules: str = "numpy") -> np.dtype[Any]:
    """The dtype that arrays, dtypes and Python numbers become together. Their order does not matter.

    >>> import lanecast, numpy as np
    >>> lanecast.result_type(np.zeros(3, np.int8), "uint16", "float32")
    dtype('float32')
    >>> lanecast.result_type(np.zeros(3, np.float32), 1j)
    dtype('complex64')
    """
    if not xs:
        raise ValueError("result_type has no operands; it needs at least one")
    dtypes: list[Any] = []
    kinds: list[str] = []
    for x in xs:
        kind = next((name for kind, name in _NUMBERS if type(x) is kind), None)
        if kind is not None:
            kinds.append(kind)
        else:
            dtypes.append(_dtype(x))
    order = [name for _, name in _NUMBERS]
    highest = max(kinds, key=order.index) if kinds else None
    if not dtypes:
        assert highest is not None
        found = _lanecast.default_dtype(highest, rules)
        if found is None:
            raise PromotionError(f"{rules} defines no dtype of a Python {highest}")
        return _descr(found)
    name = _lanecast.promote(dtypes, rules)
    return _descr(name if highest is None else _lanecast.with_scalar(name, highest, rules))


def can_cast(a: Any, b: Any, casting: str = "safe") -> bool:
    """Whether a may be cast to b at this level: "no", "equiv", "safe", "same_kind", "same_value" or "unsafe". A safe cast
    keeps every value and the sign of 0, or is one between NumPy's own dtypes that NumPy calls safe.

    >>> import lanecast
    >>> lanecast.can_cast("float8_e5m2", "float16"), lanecast.can_cast("float8_e4m3", "float8_e4m3fn")
    (True, False)
    """
    return _lanecast.can_cast(_dtype(a), b, casting)


@dataclass(frozen=True)
class FloatInfo:
    """What lanecast.finfo gives.

    >>> import lanecast
    >>> info = lanecast.finfo("float8_e4m3fn")
    >>> info.max, info.eps, info.has_inf
    (448.0, 0.125, False)
    """

    name: str
    bits: int
    eps: float
    min: float
    max: float
    tiny: float
    smallest_subnormal: float
    nmant: int
    nexp: int
    has_inf: bool
    has_nan: bool
    has_neg_zero: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype that these are the limits of."""
        return _descr(self.name)

    @property
    def smallest_normal(self) -> float:
        """The smallest normal value above zero."""
        return self.tiny

    @property
    def resolution(self) -> float:
        """The approximate decimal resolution, 10 ** -precision."""
        return float(10.0**-self.precision)

    @property
    def precision(self) -> int:
        """How many decimal digits are kept, as NumPy counts them: 0 where eps is above 0.1. (ml_dtypes says 1 for every float of
        8 bits.)"""
        return int(-np.log10(self.eps))


@dataclass(frozen=True)
class IntInfo:
    """What lanecast.iinfo gives.

    >>> import lanecast
    >>> info = lanecast.iinfo("int4")
    >>> info.min, info.max, info.bits
    (-8, 7, 4)
    """

    name: str
    bits: int
    min: int
    max: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype that these are the limits of."""
        return _descr(self.name)


def _facts(d: Any) -> dict[str, Any]:
    return _lanecast.facts(_dtype(d))


def finfo(d: Any) -> FloatInfo:
    """The limits of a floating-point dtype, or of the parts of a complex one, as numpy.finfo has them.

    >>> import lanecast
    >>> lanecast.finfo("bfloat16").eps
    0.0078125
    """
    facts = _facts(d)
    if facts["kind"] not in ("float", "complex"):
        raise ValueError(f"{facts['name']} is not a floating-point dtype; use iinfo for integers")
    if facts["kind"] == "complex":
        facts = _lanecast.facts(facts["part"])
    return FloatInfo(**{name: facts[name] for name in FloatInfo.__dataclass_fields__})


def iinfo(d: Any) -> IntInfo:
    """The limits of an integer dtype, as numpy.iinfo has them.

    >>> import lanecast
    >>> lanecast.iinfo("uint2").max
    3
    """
    facts = _facts(d)
    if facts["kind"] != "int":
        help = "" if facts["kind"] == "bool" else "; use finfo for floats"
        raise ValueError(f"{facts['name']} is not an integer dtype{help}")
    return IntInfo(**{name: facts[name] for name in IntInfo.__dataclass_fields__})


def dtypes() -> dict[str, np.dtype[Any] | None]:
    """The name of every dtype of lanecast, and NumPy's dtype of it; None if the installed ml_dtypes has none.

    >>> import lanecast
    >>> lanecast.dtypes()["float8_e4m3fn"]
    dtype(float8_e4m3fn)
    """
    return _lanecast.dtypes()


def parse(texts: Any, dtype: Any, **options: Any) -> Array:
    """Read texts as numbers, each rounded once from its decimal digits: a list, or an array of str or StringDType.
    Integers that do not fit are errors; for floats, the options say what they become, as in astype.

    A number is an optional sign and decimal digits with an optional point (5. and .5, too) and an optional exponent; or inf,
    infinity or nan in any case. To bool, true and false are read, too. ASCII whitespace around it is skipped. There are no
    hexadecimal numbers and no separators. Errors count elements in C order.

    >>> import lanecast
    >>> lanecast.parse(["0.1", "-1e9", "nan"], "float16")
    array([ 0.1, -inf,  nan], dtype=float16)
    >>> lanecast.parse(["7", "7 kg"], "int8")
    Traceback (most recent call last):
    ValueError: element 1, "7 kg", is not a number
    """
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts is one {type(texts).__name__}; parse needs a list or an array of str")
    array = texts if isinstance(texts, np.ndarray) else _objects(texts)
    if array.dtype.kind not in "UOT":
        raise TypeError(f"texts has dtype {array.dtype}; parse needs str, StringDType or a list of str")
    flat = array.reshape(-1).tolist()
    for i, text in enumerate(flat):
        if not isinstance(text, str):
            raise TypeError(f"element {i}, {text!r}, is of type {type(text).__name__}; parse needs str")
    try:
        return _lanecast.parse(flat, np.empty(array.shape, np.uint8), dtype, options)
    except UnicodeEncodeError as error:
        # A lone surrogate, which is in no number.
        raise ValueError(f"element {flat.index(error.object)}, {error.object!r}, is not a number") from None


def _objects(texts: Any) -> Array:
    """An array of the elements of a list, or of what libraries of tables have."""
    if hasattr(texts, "itercolumns"):
        return np.stack([_objects(column) for column in texts.itercolumns()], axis=-1)
    # to_pylist first: NumPy reads dictionaries in chunks by way of pyarrow, with other texts for nulls.
    return np.asarray(texts.to_pylist() if hasattr(texts, "to_pylist") else texts, dtype=object)


def format(x: Any, *, scientific: bool = False) -> Array:
    """Write each element as the shortest text that parse reads as that element again: an array of str, of the shape of x.
    (Inf of float8 needs saturate=False in parse, or it becomes the largest value, as in every cast. The least
    float8_e8m0fnu needs saturate=True, the default.)

    >>> import lanecast, numpy as np
    >>> lanecast.format(np.float16([1 / 3, 65504]))
    array(['0.3333', '65500.0'], dtype='<U7')
    """
    _flag("scientific", scientific)
    texts, shape = _lanecast.format(x, scientific)
    return np.array(texts, dtype=str).reshape(shape)


class PackedArray:
    """Elements of fewer than 8 bits, packed into bytes, as pack makes them and as checkpoints store them.

    The bytes are one stream of bits over the elements in C order, from the low bits of each byte up; with high_first from
    the high bits down.

    data: bytes, or an array or a tensor of uint8 of any shape.
    shape: the shape of the elements. None: that of the data, with as many elements in the last dimension as its bytes hold.

    >>> import lanecast, numpy as np
    >>> packed = lanecast.pack(lanecast.astype([1.0, -6.0, 0.5], "float4_e2m1fn"))
    >>> packed
    PackedArray(3 elements of float4_e2m1fn, shape (3,), 2 bytes)
    >>> packed.data
    array([242,   1], dtype=uint8)
    >>> packed.astype("float32")
    array([ 1. , -6. ,  0.5], dtype=float32)
    >>> weights = np.zeros((2880, 1440), np.uint8)
    >>> lanecast.PackedArray(weights, "float4_e2m1fn")
    PackedArray(8294400 elements of float4_e2m1fn, shape (2880, 2880), 4147200 bytes)
    """

    __slots__ = ("data", "dtype", "high_first", "shape")

    def __init__(
        self, data: Any, dtype: Any, shape: int | Sequence[int] | None = None, high_first: bool = False
    ) -> None:
        facts = _lanecast.facts(dtype)
        if facts["bits"] >= 8:
            raise TypeError(f"{facts['name']} has {facts['bits']} bits; only dtypes of fewer than 8 bits can be packed")
        _flag("high_first", high_first)
        self.dtype: str = facts["name"]
        self.high_first = bool(high_first)
        try:
            buffer = np.asarray(data if hasattr(data, "__array__") else memoryview(data))
        except TypeError:
            raise TypeError(
                f"data is of type {type(data).__name__}; it must be bytes, or an array of uint8 (lanecast.pack packs elements)"
            ) from None
        if buffer.dtype.char in "cSb":
            # These dtypes are bytes by other names: an array of them keeps its shape.
            buffer = buffer.view(np.uint8) if buffer.dtype.itemsize == 1 else np.frombuffer(data, np.uint8)
        if buffer.dtype != np.uint8:
            raise ValueError(f"data has dtype {buffer.dtype}; it must be uint8")
        if shape is None:
            row = buffer.shape[-1] if buffer.ndim else 1
            if row * 8 % facts["bits"]:
                raise ValueError(f"rows of {_count(row, 'byte')} do not hold whole elements of {self.dtype}; pass their shape")
            shape = (*buffer.shape[:-1], row * 8 // facts["bits"])
        self.shape: tuple[int, ...] = _extents("shape", shape)
        needed = (self.size * facts["bits"] + 7) // 8
        if buffer.size != needed:
            raise ValueError(f"data has {_count(buffer.size, 'byte')}; shape {self.shape} of {self.dtype} needs {needed}")
        self.data: Array = np.ascontiguousarray(buffer).reshape(-1)

    @property
    def size(self) -> int:
        """How many elements there are."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    @property
    def nbytes(self) -> int:
        """How many bytes the elements take."""
        return self.data.nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.data, self.dtype, self.shape, self.high_first)

    def __repr__(self) -> str:
        order = ", high bits first" if self.high_first else ""
        elements, data = _count(self.size, "element"), _count(self.data.size, "byte")
        return f"PackedArray({elements} of {self.dtype}, shape {self.shape}, {data}{order})"

    def astype(self, dtype: Any, **options: Any) -> Array:
        """Cast from the packed bytes, without unpacking them first."""
        return _lanecast.astype(self, dtype, **options)

    def unpack(self) -> Array:
        """An array of the same dtype, which has one element per byte."""
        return self.astype(self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("packed elements are unpacked to a new array, which copy=False forbids")
        return self.unpack() if dtype is None else self.astype(dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if self.high_first:
            raise BufferError(
                "DLPack packs elements from the low bits up, but this array has high_first=True; pass lanecast.pack(a.unpack())"
            )
        data = _exported(self.data, dl_device, copy)
        packed = (self.dtype, self.shape)
        return _lanecast.dlpack_capsule(data, _is_versioned(max_version), bool(copy), packed)


def _exported(array: Array, dl_device: tuple[int, int] | None, copy: bool | None) -> Array:
    if dl_device is not None and tuple(dl_device) != (1, 0):
        raise BufferError(f"dl_device is {tuple(dl_device)}; it must be (1, 0), the CPU")
    return array.copy() if copy else array


def _is_versioned(max_version: tuple[int, int] | None) -> bool:
    return max_version is not None and max_version[0] >= 1


def pack(x: Any, *, high_first: bool = False) -> PackedArray:
    """Pack an array of a dtype of fewer than 8 bits, which NumPy stores as one element per byte.

    >>> import lanecast
    >>> lanecast.pack(lanecast.astype([1, 2, 3], "uint4")).data
    array([33,  3], dtype=uint8)
    """
    _flag("high_first", high_first)
    data, name, shape = _lanecast.pack(x, high_first)
    return PackedArray(data, name, shape, high_first)


class _Exporter:
    """An array as an object that DLPack can be asked for."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __repr__(self) -> str:
        return f"lanecast.dlpack({self._array.dtype} array of shape {self._array.shape})"

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        array = _exported(self._array, dl_device, copy)
        return _lanecast.dlpack_capsule(array, _is_versioned(max_version), bool(copy))


def dlpack(a: Any) -> Any:
    """An object that exports the memory of an array by DLPack, also of the dtypes of ml_dtypes, which NumPy's own arrays
    do not export: ``torch.from_dlpack(lanecast.dlpack(a))``.

    >>> import lanecast
    >>> exported = lanecast.dlpack(lanecast.astype([1.0, 2.0], "float8_e5m2"))
    >>> print(lanecast.from_dlpack(exported))
    [1 2]
    """
    if isinstance(a, PackedArray):
        return a
    if not isinstance(a, np.ndarray):
        raise TypeError(f"a is of type {type(a).__name__}; it must be an ndarray or a PackedArray")
    return _Exporter(a)


def from_dlpack(x: Any) -> Array | PackedArray:
    """An array over the memory of a DLPack object, not a copy, also of the dtypes of ml_dtypes. Packed elements, such as
    those of torch.float4_e2m1fn_x2, become a PackedArray.

    >>> import lanecast, numpy as np
    >>> lanecast.from_dlpack(np.arange(3, dtype=np.int16))
    array([0, 1, 2], dtype=int16)
    >>> lanecast.from_dlpack(lanecast.pack(lanecast.astype([1, 2, 3], "int4")))
    PackedArray(3 elements of int4, shape (3,), 2 bytes)
    """
    given = _lanecast.from_dlpack(x)
    return given if isinstance(given, np.ndarray) else PackedArray(*given)
