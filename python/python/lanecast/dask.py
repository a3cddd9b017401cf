"""Checkpoints on the workers of a Dask cluster, one task for each file of the result."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path as FilePath
from typing import Any

from lanecast._convert import ConvertError, ConvertReport, Path, _is_false, _named, _place, _report, _run, _words
from lanecast._convert import convert as _convert
from lanecast._lanecast import Cancelled

__all__ = ["convert"]

# What the program writes beside tensors and reads with them.
_CONFIGS = ("config.json", "hf_quant_config.json", "quantize_config.json", "quant_config.json")


def _shard(
    src: str, dst: str, to: str, ranks: dict[str, Any], options: dict[str, Any]
) -> ConvertReport | ConvertError:
    # With as many ranks as files, each rank has one file.
    try:
        return _convert(src, dst, to=to, **ranks, **options)
    except ConvertError as error:
        # A conversion that is refused is not tried again.
        if error.kind in ("refused", "usage", "limit"):
            return error
        raise


def _begin_anew(dst: str) -> None:
    """Removes what an earlier conversion, complete or not, has made: its files of tensors, indexes, configurations and states."""
    place = FilePath(dst)
    record, states = place / "lanecast.json", place / ".lanecast"
    if not record.is_file() and not states.is_dir():
        return
    made: list[dict[str, Any]] = json.loads(record.read_bytes()).get("files", []) if record.is_file() else []
    made += [json.loads(state.read_bytes()) for state in states.glob("*.json")]
    for index in place.glob("*.safetensors.index*.json"):
        index.unlink()
    for name in [*_CONFIGS, *(file["name"] for file in made)]:
        if os.path.basename(name) == name:
            (place / name).unlink(missing_ok=True)
    shutil.rmtree(states, ignore_errors=True)
    # By this directory, tasks know that DST is being made.
    states.mkdir(exist_ok=True)
    record.unlink(missing_ok=True)


def convert(
    src: Path,
    dst: Path,
    *,
    to: Any,
    client: Any = None,
    progress: Callable[[int, int], object] | None = None,
    retries: int = 3,
    **options: Any,
) -> ConvertReport:
    """:func:`lanecast.convert` on a cluster, whose workers share ``src`` and ``dst``; in one of its own if there is no client. (That
    starts processes, which import the main module: a script needs ``if __name__ == "__main__":``.)

    A task makes one file of the result, and can be run again: if its worker is lost, another one runs it. Complete files are not
    made twice, and the bytes are those of one process. ``progress`` is called with the number of files done and of all files; if
    it returns False, ``lanecast.Cancelled`` is raised.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise ImportError(f"lanecast.dask.convert needs a Dask cluster: pip install distributed ({error})") from None
    src, dst = os.path.abspath(_place("src", src)), os.path.abspath(_place("dst", dst))
    to = _named(to)
    # What would be refused is refused here, before there are tasks.
    force, resume = bool(options.pop("force", False)), options.pop("resume", None)
    dry = bool(options.pop("dry_run", False))
    begin: dict[str, Any] = {"force": True} if force else {"resume": resume}
    plan = _report(_run(["convert", src, dst, f"--to={to}", "--json", "--dry-run", *_words(options | begin)])[1])
    if dry:
        return plan
    files = len(plan.files)
    # The tasks, or a run before them, have begun the directory: each task checks itself what it may not replace.
    limits: dict[str, Any] = {name: options.pop(name) for name in ("max_abs_error", "max_rel_error", "fail_on") if name in options}
    finish = {**options, **limits, "resume": resume or True}
    if os.path.isdir(src):
        if force:
            _begin_anew(dst)
        elif os.path.isfile(os.path.join(dst, "lanecast.json")):
            # It is complete already, by this plan, or by another one, which is refused.
            return _convert(src, dst, to=to, **finish)
        ranks: list[dict[str, Any]] = [{"rank": rank, "of": files} for rank in range(files)]
        each = options if resume is None else {**options, "resume": resume}
    else:
        if not force and os.path.lexists(dst):
            # It is refused, as it would be without a cluster.
            return _convert(src, dst, to=to, **options, **limits)
        # One file has no ranks. If it is there when its task is run again, the worker was lost just after writing it.
        ranks = [{}]
        each = {**options, **limits, "force": True}
    with distributed.Client() if client is None else nullcontext(client) as cluster:
        tasks = [cluster.submit(_shard, src, dst, to, rank, each, retries=retries, pure=False) for rank in ranks]
        done, report = 0, plan
        for task in distributed.as_completed(tasks):
            found = task.result()
            if isinstance(found, ConvertError):
                cluster.cancel(tasks)
                raise found
            report = found
            done += 1
            if progress and _is_false(progress(done, files)):
                cluster.cancel(tasks)
                raise Cancelled(f"progress returned False after {done} of {files} files")
    if not os.path.isdir(src):
        return report
    # All files are made: this removes what lost workers have left, and reads the record.
    return _convert(src, dst, to=to, **finish)
