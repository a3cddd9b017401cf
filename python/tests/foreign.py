"""Runs test-suites of others, unpatched and patched, and compares the outcomes test by test.

    python tests/foreign.py

The suites of ml_dtypes, onnx, Zarr and cast-value-rs are taken from the sources of the installed releases, by pip; NumPy's tests come with it.
What cannot be had is called NOT RUN.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
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
    arguments: list[str], where: pathlib.Path, patched: bool, asyncio: bool = False, environment: dict[str, str] | None = None
) -> tuple[dict[str, str], str]:
    """What each test came to, and the last line of pytest."""
    report = where / f"report-{patched}.xml"
    report.unlink(missing_ok=True)
    pytest = ["pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *arguments]
    if not asyncio:
        # It warns of its own settings.
        pytest += ["-p", "no:asyncio"]
    command = [sys.executable, "-m", *(["lanecast", "run", "-m"] if patched else []), *pytest]
    ran = subprocess.run(command, cwd=where, capture_output=True, text=True, env={**os.environ, **(environment or {})})
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
    archives = list(where.glob(f"{package.replace('-', '_')}-*.tar.gz"))
    if not archives:
        print(ran.stderr)
        return None
    with tarfile.open(archives[0]) as archive:
        archive.extractall(where, filter="data")
    return next(path for path in where.glob(f"{package.replace('-', '_')}-*") if path.is_dir())


def source_of_ml_dtypes(where: pathlib.Path) -> pathlib.Path | None:
    """The tests in the source of the installed release."""
    source = download("ml_dtypes", ml_dtypes.__version__, where)
    tests = list(source.glob("ml_dtypes/tests")) if source else []
    # Elsewhere: beside the sources they would import those. One of them reads the description of the project.
    return shutil.copytree(tests[0], where / "suite" / "a" / "tests") if tests else None


def onnx_tests(where: pathlib.Path) -> bool:
    """onnx's tests of its reference evaluator, which casts by NumPy and ml_dtypes."""
    if importlib.util.find_spec("onnx") is None:
        print("NOT RUN: onnx's tests of its reference evaluator: onnx is not installed")
        return True
    onnx: Any = importlib.import_module("onnx")
    source = download("onnx", onnx.__version__, where)
    tests = list(source.glob("tests/python")) if source else []
    if not tests:
        print(f"NOT RUN: the tests of onnx {onnx.__version__}: their source cannot be had here")
        return True
    # Elsewhere: beside the sources they would import those.
    folder = shutil.copytree(tests[0], where / "suite" / "onnx")
    files = ["backend_reference_test.py", *sorted(file.name for file in folder.glob("reference_evaluator*_test.py"))]
    return compare(f"onnx {onnx.__version__}, {', '.join(files)}", files, folder)


#: Loaded into pytest before Zarr's tests: the codec of lanecast is chosen, by the name that they import as well.
IN_ZARR = """
import os
os.environ["ZARR_CODECS__CAST_VALUE"] = "lanecast.zarr.CastValue"
import zarr.codecs.cast_value
import lanecast.zarr
zarr.codecs.CastValue = zarr.codecs.cast_value.CastValue = lanecast.zarr.CastValue
"""

#: That of Zarr refuses to cast by an old cast-value-rs; ours does not ask for it.
OF_ANOTHER = ("::test_encode_rejects_outdated_backend",)

#: The same before the tests of cast-value-rs, whose own extension module is left with what is no cast: it refuses a wrong output.
IN_CAST_VALUE_RS = """
import cast_value_rs
import lanecast.zarr

refuse = cast_value_rs._cast_array_into

def cast_array_into(arr, out, **how):
    if arr.shape != out.shape or not out.flags.c_contiguous:
        refuse(arr, out, **how)
    out[...] = lanecast.zarr.cast_array(arr, target_dtype=out.dtype, **how)

cast_value_rs._cast_array = lanecast.zarr.cast_array
cast_value_rs._cast_array_into = cast_array_into
"""


def codec_tests(package: str, where: pathlib.Path, tests: str, plugin: str, asyncio: bool, but: tuple[str, ...] = ()) -> bool:
    """A package's own tests of the codec cast_value, by cast-value-rs and by lanecast. With an instruction set that no machine has lanecast casts
    nothing: then fewer pass, or it was not lanecast."""
    version = importlib.metadata.version(package)
    source = download(package, version, where)
    if source is None:
        print(f"NOT RUN: the tests of {package} {version}: its source cannot be had here")
        return True
    # Elsewhere: beside the sources they would import those.
    suite = source
    if (source / package.replace("-", "_")).is_dir():
        suite = where / f"suite of {package}"
        shutil.copytree(source / tests, suite / tests)
    (suite / "lanecast_in_tests.py").write_text(plugin)
    # They need more of the project's tools than these.
    pytest = ["-o", "addopts=", "-o", "filterwarnings=", tests]
    ours = ["-p", "lanecast_in_tests"]
    print(f"{package} {version}, its tests of cast_value")
    found = []
    for who, more, isa in (("cast-value-rs", [], {}), ("lanecast", ours, {}), ("neither", ours, {"LANECAST_ISA": "none"})):
        results, last = outcomes([*more, *pytest], suite, patched=False, asyncio=asyncio, environment=isa)
        print(f"  by {who}: {last}")
        found.append({name: result for name, result in results.items() if not name.endswith(but)})
    differ = {name for name in found[0].keys() | found[1].keys() if found[0].get(name) != found[1].get(name)}
    print(f"  outcomes that differ: {sorted(differ)}")
    return not differ and "passed" in found[0].values() and found[2] != found[1]


def zarr_tests(where: pathlib.Path) -> bool:
    """The tests of the codec cast_value that Zarr and cast-value-rs have, with the cast of that and with ours; the codec of ours."""
    names = ("zarr", "cast_value_rs", "pytest_asyncio")
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        print(f"NOT RUN: the tests of lanecast.zarr, and Zarr's own: {', '.join(missing)} is not installed")
        return True
    fine = codec_tests("zarr", where, "tests/test_codecs/test_cast_value.py", IN_ZARR, asyncio=True, but=OF_ANOTHER)
    fine &= codec_tests("cast-value-rs", where, "python/tests", IN_CAST_VALUE_RS, asyncio=False)
    tests = pathlib.Path(__file__).parent / "test_zarr.py"
    ours = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", str(tests)])
    return fine and ours.returncode == 0


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
        fine &= onnx_tests(where)
        fine &= zarr_tests(where)
    print("NOT RUN: array-api-tests, which array_namespace.py says how to run, and the tests of jax: they are in no package")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
