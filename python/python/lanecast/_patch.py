"""patch(): NumPy's own casts run lanecast's kernels."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any

import ml_dtypes
import numpy as np

from lanecast import _lanecast
from lanecast._api import _flag

VARIABLE = "LANECAST_NO_PATCH"


class PatchError(RuntimeError):
    """NumPy's casts cannot be patched, because its internals are not as they are known to be. Nothing was patched.

    >>> import lanecast
    >>> issubclass(lanecast.PatchError, RuntimeError)
    True
    """


PatchError.__module__ = "lanecast"


@dataclass(frozen=True)
class PatchInfo:
    """What is patched, what is not and why, and what has been cast since.

    counts: of each pair, the number of calls, and how often the original was used.
    least: from how many elements on a kernel casts, if they are contiguous and if they are not. None: never, as the original
        is as fast. Measured when patch() is first called.

    >>> import lanecast
    >>> with lanecast.patched():
    ...     info = lanecast.patch_info()
    >>> info.active, len(info.pairs) > 500, ("float32", "float8_e8m0fnu") in info.skipped
    (True, True, True)
    """

    active: bool
    exact: bool | None
    threads: int | None
    numpy: bool | None
    pairs: tuple[tuple[str, str], ...]
    skipped: dict[tuple[str, str], str] = field(repr=False)
    calls: int
    originals: int
    counts: dict[tuple[str, str], tuple[int, int]] = field(repr=False)
    least: dict[tuple[str, str], tuple[int | None, int | None]] = field(repr=False)
    disabled_by: str | None = None

    def __repr__(self) -> str:
        if self.disabled_by:
            return f"PatchInfo(not patched: the environment variable {self.disabled_by} is set)"
        if not self.active:
            return "PatchInfo(not patched)"
        how = f"exact={self.exact}, threads={self.threads}, numpy={self.numpy}"
        what = f"{len(self.pairs)} pairs, {len(self.skipped)} skipped"
        return f"PatchInfo({what}, {how}; {self.calls} calls, the originals used {self.originals} times)"

    def _repr_html_(self) -> str:
        busiest = sorted(self.counts.items(), key=lambda item: -item[1][0])[:20]
        rows = "".join(
            f"<tr><td>{escape(a)}</td><td>{escape(b)}</td><td>{calls}</td><td>{originals}</td></tr>"
            for (a, b), (calls, originals) in busiest
            if calls
        )
        head = "<tr><th>from</th><th>to</th><th>calls</th><th>left to the original</th></tr>"
        return f"<p>{escape(repr(self))}</p><table>{head}{rows}</table>"


def patch_info() -> PatchInfo:
    """What is patched at the moment.

    >>> import lanecast
    >>> lanecast.patch_info()
    PatchInfo(not patched)
    """
    config, pairs, skipped = _lanecast.patch_state()
    exact, threads, numpy = config if config is not None else (None, None, None)
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    least: dict[tuple[str, str], tuple[int | None, int | None]] = {}
    for a, b, calls, originals, few in pairs:
        # C has several integer types of the same size, whose counts are added.
        old = counts.get((a, b), (0, 0))
        counts[a, b] = (old[0] + calls, old[1] + originals)
        least[a, b] = (few[0], few[1])
    disabled = VARIABLE if config is None and _disabled() else None
    return PatchInfo(
        active=config is not None,
        exact=exact,
        threads=None if threads == 0 else threads,
        numpy=numpy,
        pairs=tuple(counts),
        skipped={pair: why for pair, why in skipped.items() if pair not in counts},
        calls=sum(calls for calls, _ in counts.values()),
        originals=sum(originals for _, originals in counts.values()),
        counts=counts,
        least=least,
        disabled_by=disabled,
    )


def _disabled() -> bool:
    return os.environ.get(VARIABLE, "") not in ("", "0")


def patch(*, exact: bool = True, threads: int | None = 1, numpy: bool = True) -> PatchInfo:
    """Make NumPy's casts to, from and between float16 and the dtypes of ml_dtypes run lanecast's kernels.

    The bits and the warnings stay the same. With exact=False, the bits are those of a single rounding, as astype has them
    with profile="ml_dtypes", and there are no warnings. This holds for the whole process until unpatch(); another call with
    other arguments changes it.

    threads: on how many threads a cast of 8 MiB or more may run; None: as many as there are cores.
    numpy: also patch the casts between NumPy's own dtypes (float16 with the others).

    >>> import lanecast, ml_dtypes, numpy as np
    >>> info = lanecast.patch()
    >>> print(np.float32([1.0, 0.3]).astype(ml_dtypes.float8_e4m3fn))
    [1 0.3125]
    >>> lanecast.unpatch()
    """
    _flag("exact", exact)
    _flag("numpy", numpy)
    count = 0 if threads is None else _positive(threads)
    if not _disabled():
        _apply((exact, count, numpy))
    return patch_info()


def _positive(threads: Any) -> int:
    message = f"threads is {threads!r}; it must be a positive integer, or None for all cores"
    if isinstance(threads, (bool, np.bool_)):
        raise TypeError(message)
    try:
        count = operator.index(threads)
    except TypeError:
        raise ValueError(message) from None
    # With more threads than blocks, there are as many as blocks.
    if not 1 <= count < 1 << 63:
        raise ValueError(message)
    return count


def _apply(config: tuple[bool, int, bool]) -> None:
    try:
        _lanecast.patch(*config)
    except (RuntimeError, AttributeError, ImportError) as error:
        versions = f"NumPy {np.__version__}, ml_dtypes {ml_dtypes.__version__}"
        raise PatchError(f"nothing was patched: {error} ({versions})") from None


def unpatch() -> None:
    """Undo patch(): NumPy's casts run their original loops again. What other code has changed since stays as it is.

    >>> import lanecast
    >>> lanecast.unpatch()
    >>> lanecast.is_patched()
    False
    """
    _lanecast.unpatch()


def is_patched() -> bool:
    """Whether casts are patched at the moment.

    >>> import lanecast
    >>> lanecast.is_patched()
    False
    """
    return _lanecast.patch_state()[0] is not None


@contextmanager
def patched(*, exact: bool = True, threads: int | None = 1, numpy: bool = True) -> Iterator[PatchInfo]:
    """patch() for a block of code, after which the state before it is restored; blocks can be nested. It holds for the
    whole process, as patch() does, so blocks of several threads must not overlap.

    >>> import lanecast
    >>> with lanecast.patched():
    ...     lanecast.is_patched()
    True
    >>> lanecast.is_patched()
    False
    """
    before = _lanecast.patch_state()[0]
    try:
        yield patch(exact=exact, threads=threads, numpy=numpy)
    finally:
        if before is None:
            unpatch()
        else:
            _apply(before)
