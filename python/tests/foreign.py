"""Runs test-suites of others, unpatched and patched, and compares the outcomes test by test.

    python tests/foreign.py

The suites of ml_dtypes and of Zarr are taken from the sources of the installed releases, by pip; NumPy's tests come with it.
What cannot be had is called NOT RUN.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from typing import Any

import ml_dtypes
import numpy

FILES = ("test_casting_unittests.py", "test_half.py", "test_casting_floatingpoint_errors.py")


def outcomes(
    arguments: list[str], where: pathlib.Path, patched: bool, asyncio: bool = False
) -> tuple[dict[str, str], str]:
    """What each test came to, and the last line of pytest."""
    report = where / f"report-{patched}.xml"
    pytest = ["pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *arguments]
    if not asyncio:
        # It warns of its own settings.
        pytest += ["-p", "no:asyncio"]
    command = [sys.executable, "-m", *(["lanecast", "run", "-m"] if patched else []), *pytest]
    ran = subprocess.run(command, cwd=where, capture_output=True, text=True)
    if not report.exists():
        raise SystemExit(f"{' '.join(command)} gave no report:\n{ran.stdout}\n{ran.stderr}")
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        name = f"{case.get('classname')}::{case.get('name')}"
        # Subtests have the name of their test.
        while name in found:
            name += "'"
        found[name] = ",".join(kinds) or "passed"
    last = [line for line in ran.stdout.splitlines() if re.search(r"\d+ (passed|failed)", line)]
    return found, last[-1] if last else "no tests"


def compare(title: str, arguments: list[str], where: pathlib.Path) -> bool:
    """Runs a suite both ways. True if no outcome differs, and some test passed."""
    (plain, one), (patched, other) = (outcomes(arguments, where, patched) for patched in (False, True))
    differ = {name for name in plain.keys() | patched.keys() if plain.get(name) != patched.get(name)}
    print(f"{title}\n  unpatched: {one}\n  patched:   {other}\n  outcomes that differ: {len(differ)} of {len(plain)}")
    for name in sorted(differ)[:20]:
        print(f"    {name}: {plain.get(name)} -> {patched.get(name)}")
    return not differ and "passed" in plain.values()


def download(package: str, version: str, where: pathlib.Path) -> pathlib.Path | None:
    """The folder of the source of a release. None: it cannot be had here."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", package]
    ran = subprocess.run([*command, f"{package}=={version}", "-d", str(where)], capture_output=True, text=True)
    archives = list(where.glob(f"{package}-*.tar.gz"))
    if not archives:
        print(ran.stderr)
        return None
    with tarfile.open(archives[0]) as archive:
        archive.extractall(where, filter="data")
    return next(path for path in where.glob(f"{package}-*") if path.is_dir())


def source_of_ml_dtypes(where: pathlib.Path) -> pathlib.Path | None:
    """The tests in the source of the installed release."""
    source = download("ml_dtypes", ml_dtypes.__version__, where)
    tests = list(source.glob("ml_dtypes/tests")) if source else []
    # Elsewhere: beside the sources they would import those. One of them reads the description of the project.
    return shutil.copytree(tests[0], where / "suite" / "a" / "tests") if tests else None


#: Loaded into pytest before Zarr's tests: its codec casts by lanecast. What Zarr checks of the other package stays.
PLUGIN = """
import zarr.codecs.cast_value as codec
import lanecast.zarr
codec.cast_array_rs = lanecast.zarr.cast_array
"""


def zarr_tests(where: pathlib.Path) -> bool:
    """Zarr's own tests of the codec cast_value, with its cast and with ours; the codec of ours."""
    names = ("zarr", "cast_value_rs", "pytest_asyncio")
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        print(f"NOT RUN: the tests of lanecast.zarr, and Zarr's own: {', '.join(missing)} is not installed")
        return True
    zarr: Any = importlib.import_module("zarr")
    source = download("zarr", zarr.__version__, where)
    if source is None:
        print(f"NOT RUN: the tests of Zarr {zarr.__version__}: its source cannot be had here")
        return True
    (source / "lanecast_in_zarr.py").write_text(PLUGIN)
    # They need more of the project's tools than these.
    pytest = ["-o", "addopts=", "-o", "filterwarnings=", "tests/test_codecs/test_cast_value.py"]
    found = []
    for plugin in ([], ["-p", "lanecast_in_zarr"]):
        results, last = outcomes([*plugin, *pytest], source, patched=False, asyncio=True)
        found.append(results)
        print(f"Zarr {zarr.__version__}, its tests of cast_value, by {'lanecast' if plugin else 'cast-value-rs'}\n  {last}")
    differ = {name for name in found[0].keys() | found[1].keys() if found[0].get(name) != found[1].get(name)}
    print(f"  outcomes that differ: {sorted(differ)}")
    tests = pathlib.Path(__file__).parent / "test_zarr.py"
    ours = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", str(tests)])
    return not differ and "passed" in found[0].values() and ours.returncode == 0


def main() -> int:
    fine = True
    with tempfile.TemporaryDirectory() as name:
        where = pathlib.Path(name)
        tests = source_of_ml_dtypes(where)
        if tests is None:
            print(f"NOT RUN: the test-suite of ml_dtypes {ml_dtypes.__version__}: its source cannot be had here")
        else:
            files = sorted(str(file) for file in tests.glob("*_test.py"))
            title = f"ml_dtypes {ml_dtypes.__version__}, its own test-suite"
            fine &= compare(title, ["-W", "error", *files], tests)
        folder = pathlib.Path(numpy.__file__).parent / "_core" / "tests"
        files = [str(folder / file) for file in FILES if (folder / file).exists()]
        if len(files) < len(FILES) or importlib.util.find_spec("hypothesis") is None:
            print(f"NOT RUN: {', '.join(FILES)} of NumPy {numpy.__version__}: not all of them are there")
        else:
            fine &= compare(f"NumPy {numpy.__version__}, {', '.join(FILES)}", files, where)
        fine &= zarr_tests(where)
    print("NOT RUN: array-api-tests, and the tests of jax and of onnx: they are in no package")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
