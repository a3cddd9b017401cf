"""Runs test-suites of others, unpatched and patched, and compares the outcomes test by test.

    python tests/foreign.py

The suite of ml_dtypes is taken from the source of the installed release, by pip; NumPy's tests come with it. What cannot be
had is called NOT RUN.
"""

from __future__ import annotations

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree

import ml_dtypes
import numpy

FILES = ("test_casting_unittests.py", "test_half.py", "test_casting_floatingpoint_errors.py")


def outcomes(arguments: list[str], where: pathlib.Path, patched: bool) -> tuple[dict[str, str], str]:
    """What each test came to, and the last line of pytest."""
    report = where / f"report-{patched}.xml"
    pytest = ["pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *arguments]
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


def source_of_ml_dtypes(where: pathlib.Path) -> pathlib.Path | None:
    """The tests in the source of the installed release."""
    wanted = f"ml_dtypes=={ml_dtypes.__version__}"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "ml_dtypes", wanted]
    ran = subprocess.run([*command, "-d", str(where)], capture_output=True, text=True)
    archives = list(where.glob("ml_dtypes-*.tar.gz"))
    if ran.returncode != 0 or not archives:
        return None
    with tarfile.open(archives[0]) as archive:
        archive.extractall(where, filter="data")
    tests = list(where.glob("ml_dtypes-*/ml_dtypes/tests"))
    # Elsewhere: beside the sources they would import those. One of them reads the description of the project.
    return shutil.copytree(tests[0], where / "suite" / "a" / "tests") if tests else None


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
    print("NOT RUN: array-api-tests and the tests of jax: neither is in a package")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
