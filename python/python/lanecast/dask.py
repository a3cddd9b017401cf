"""Checkpoints on the workers of a Dask cluster, one task for each file of the result."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from lanecast._convert import ConvertReport, Path, _report, _run, _words
from lanecast._convert import convert as _convert

__all__ = ["convert"]


def _shard(src: str, dst: str, to: str, rank: int, of: int, options: dict[str, Any]) -> ConvertReport:
    # With as many ranks as files, each has one.
    return _convert(src, dst, to=to, rank=rank, of=of, **options)


def convert(
    src: Path,
    dst: Path,
    *,
    to: str,
    client: Any = None,
    progress: Callable[[int, int], object] | None = None,
    retries: int = 3,
    **options: Any,
) -> ConvertReport:
    """:func:`lanecast.convert` on a cluster, whose workers share ``src`` and ``dst``; in a cluster of its own if there is none.

    A task makes one file of the result, and can be run again: one whose worker is lost goes to another, and files that are complete
    are not made twice. The bytes are those of one process. ``progress`` is called with the files that are done, and all files.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise ImportError(f"lanecast.dask.convert needs a Dask cluster: pip install distributed ({error})") from None
    if client is None:
        with distributed.Client() as own:
            return convert(src, dst, to=to, client=own, progress=progress, retries=retries, **options)
    src, dst = os.path.abspath(src), os.path.abspath(dst)
    # What is refused is refused here, before there are tasks.
    plan = _report(_run(["convert", src, dst, f"--to={to}", "--json", "--dry-run", *_words(options)])[1])
    files = len(plan.files)
    # The tasks have begun the directory, or a run before them: what they may not replace is for each of them to say.
    limits = {name: options.pop(name) for name in ("max_abs_error", "max_rel_error", "fail_on") if name in options}
    tasks = [
        client.submit(_shard, src, dst, to, rank, files, options, retries=retries, pure=False) for rank in range(files)
    ]
    done = 0
    for task in distributed.as_completed(tasks):
        task.result()
        done += 1
        if progress:
            progress(done, files)
    # Nothing is left to be made: this removes what lost workers have left, and reads the record.
    return _convert(src, dst, to=to, resume=True, **options, **limits)
