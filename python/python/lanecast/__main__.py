"""python -m lanecast: info, bench, run."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import runpy
import sys
import types
import zipfile
from collections import Counter
from collections.abc import Sequence

import lanecast
from lanecast import _lanecast


def info() -> int:
    """Print versions, the instruction set, and what patch() would do."""
    import ml_dtypes
    import numpy as np

    best, available = _lanecast.isa()
    print(f"lanecast {lanecast.__version__}, {_lanecast.__file__}")
    print(f"instruction set {best} (available: {', '.join(available)})")
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, ml_dtypes {ml_dtypes.__version__}")
    dtypes = lanecast.dtypes()
    missing = [name for name, dtype in dtypes.items() if dtype is None]
    print(f"dtypes: {len(dtypes) - len(missing)} of {len(dtypes)}" + (f"; ml_dtypes has no {', '.join(missing)}" if missing else ""))
    try:
        with lanecast.patched() as patch:
            print(f"patch(): {patch!r}")
            for why, count in Counter(patch.skipped.values()).items():
                print(f"  not patched: {count} pairs, {why}")
    except lanecast.PatchError as error:
        print(f"patch(): {error}")
        return 1
    return 0


def run(arguments: Sequence[str]) -> int:
    """Run a program with NumPy patched, as python would run it."""
    usage = "usage: python -m lanecast run [-m module | -c code | script | -] [arguments]"
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage, file=sys.stderr)
        return 0 if arguments else 2
    first, *rest = arguments
    if first not in ("-m", "-c", "-") and not os.path.exists(first):
        print(f"there is no file {first}; {usage}", file=sys.stderr)
        return 2
    lanecast.patch()
    if first in ("-m", "-c"):
        if not rest:
            print(f"{first} needs a {'module' if first == '-m' else 'program'}; {usage}", file=sys.stderr)
            return 2
        what, *rest = rest
        sys.argv = [first, *rest]
        _first_place(os.getcwd() if first == "-m" else "")
        if first == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            _as_main(what, "<string>")
        return 0
    sys.argv = [first, *rest]
    if first == "-":
        _first_place("")
        _as_main(sys.stdin.buffer.read(), "<stdin>")
        return 0
    path = os.path.abspath(first)
    if os.path.isdir(path) or path.endswith(".pyc") or (os.path.isfile(path) and zipfile.is_zipfile(path)):
        _first_place(path)
        runpy.run_path(path, run_name="__main__")
        return 0
    # For a link, the directory is the one that it leads to.
    _first_place(os.path.dirname(os.path.realpath(path)))
    # Read only once, as it may be a pipe.
    with open(path, "rb") as file:
        source = file.read()
    _as_main(source, path)
    return 0


def _first_place(place: str) -> None:
    # With -P and -I, sys.path does not begin with a directory of the program.
    if not sys.flags.safe_path:
        sys.path[0] = place


def _as_main(source: str | bytes, name: str) -> None:
    """Run a program in a module of its own, in which pickle finds what it defines."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    if not name.startswith("<"):
        module.__file__ = name
    sys.modules["__main__"] = module
    exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] == "run":
        return run(given[1:])
    parser = argparse.ArgumentParser(prog="python -m lanecast", description="Fast casts for NumPy and ml_dtypes.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="versions, the instruction set, and what patch() would do")
    bench = commands.add_parser("bench", help="a table of speeds beside those of NumPy and ml_dtypes, measured now")
    bench.add_argument("--quick", action="store_true", help="fewer repetitions")
    bench.add_argument("--markdown", action="store_true", help="the table as docs/python.md has it")
    bench.add_argument("--chart", metavar="FILE", help="write a chart (SVG)")
    bench.add_argument("--patch", action="store_true", help="patched casts of all pairs and many shapes, compared with the originals")
    bench.add_argument("--zarr", action="store_true", help="the codec cast_value of Zarr: cast-value-rs and lanecast.zarr")
    bench.add_argument("--check", action="store_true", help="fail if a promise of docs/python.md does not hold")
    commands.add_parser("run", help="run an unchanged program with NumPy patched: -m module, -c code, or a script")
    chosen = parser.parse_args(given)
    if chosen.command == "info":
        return info()
    from lanecast import _bench

    if chosen.zarr:
        for module in ("zarr", "cast_value_rs"):
            if importlib.util.find_spec(module) is None:
                print(f"--zarr compares with cast-value-rs, by way of zarr: pip install zarr cast-value-rs ({module} is not installed)", file=sys.stderr)
                return 2
        return _bench.chunks(seconds=0.1 if chosen.quick else 0.5)
    if chosen.patch:
        return _bench.sweep(seconds=0.5 if chosen.quick else 2.0, check=chosen.check)
    return _bench.main(quick=chosen.quick, markdown=chosen.markdown, chart_file=chosen.chart, check=chosen.check)


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        sys.exit(run(sys.argv[2:]))
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone (`| head`): that is no error, and nothing is flushed into the pipe at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)
