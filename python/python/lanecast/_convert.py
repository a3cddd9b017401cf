"""Checkpoints: the program ``lanecast``, called from Python. docs/checkpoints.md says what it does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

from lanecast import _lanecast
from lanecast._api import BOOLS
from lanecast._lanecast import Cancelled

__all__ = ["ConvertError", "ConvertReport", "convert", "inspect", "verify"]

Path = str | os.PathLike[str]


class ConvertError(Exception):
    """A checkpoint was refused, a limit was exceeded, or the system failed.

    ``kind`` is "limit", "usage", "refused", "system" or "interrupted"; ``tensor`` and ``help`` may be None. If a limit was
    exceeded, the result is kept, and ``report`` says what was lost.

    >>> import lanecast
    >>> try:
    ...     lanecast.inspect("no such file.safetensors")
    ... except lanecast.ConvertError as error:
    ...     print(error.kind)
    refused
    """

    def __init__(self, kind: str, tensor: str | None, message: str, help: str | None, report: ConvertReport | None) -> None:
        super().__init__(": ".join(part for part in (tensor, message) if part) + (f" ({help})" if help else ""))
        self.kind, self.tensor, self.message, self.help, self.report = kind, tensor, message, help, report

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers of a cluster return it pickled.
        return type(self), (self.kind, self.tensor, self.message, self.help, self.report)


ConvertError.__module__ = "lanecast"


@dataclass(frozen=True)
class ConvertReport:
    """What a conversion did and what it lost, with the largest errors and the tensors that have them.

    >>> import dataclasses, lanecast
    >>> [field.name for field in dataclasses.fields(lanecast.ConvertReport)][:2]
    ['src_layout', 'dst_layout']
    """

    src_layout: str
    dst_layout: str
    tensors: dict[str, int]
    bytes_in: int
    bytes_out: int
    max_abs_error: float
    max_rel_error: float
    saturated: int
    nan: int
    inf: int
    dropped: list[str]
    dropped_kinds: dict[str, int]
    worst: list[dict[str, Any]]
    files: list[dict[str, Any]]


def _report(value: dict[str, Any]) -> ConvertReport:
    return ConvertReport(src_layout=value.pop("from"), dst_layout=value.pop("to"), **value)


def main() -> int:
    """The program, on the command line of the process."""
    # Python would note Ctrl-C and wait for the program to return. Commands that have something to remove listen themselves.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _lanecast.program(["lanecast", *sys.argv[1:]])


def _words(options: dict[str, Any]) -> list[str]:
    words = []
    for name, value in options.items():
        # from_ and as_ stand for keywords of Python.
        flag = "--" + name.rstrip("_").replace("_", "-")
        if name == "fuse" and isinstance(value, BOOLS):
            value = "on" if value else "off"
        if isinstance(value, BOOLS):
            words += [flag] if value else []
        elif value is None:
            pass
        elif isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"{name} is {value!r}; it must be a str, a number or a path, or several of these")
        elif isinstance(value, Iterable) and not isinstance(value, str):
            words += [f"{flag}={one}" for one in value]
        else:
            words.append(f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return words


# An option as the program spells it, with what stands for its value (<N>), or its value where the context tells what that is.
_FLAG = re.compile(
    r"(?<![\w/-])--([a-z][a-z-]*[a-z])(?:\[?[ =]<[^>]*>\]?|[ =]('[^']*'|(?=\S*[\d*])[\w*/-]+(?:\.[\w*/-]+)*|[\w*/-]+(?=:)|(?:amax|awq|gpt-oss|gptq|nan,inf,saturated|row|LAYOUT)\b))?"
)
_SWITCHES = {"dry-run", "force", "json", "quiet", "resume", "strict"}
_WRONG_VALUE = re.compile(r"(?:invalid|unexpected) value '(.*)' for '(\w+)=(?:True)?':? (.*)")
# The arguments of the program that are no options, but not in names of files and in what is quoted.
_PLACE = re.compile(r"(?<![\w/.'-])(SRC|DST)(?!['/-]|\.?\w)")
# What is wrong with a value, as the program says it and as Python does.
_REASONS = (
    (r"invalid digit found in string", "it must be an integer, 0 or more"),
    (r"found; no more were expected", "it must be True or False"),
    (r"\[possible values: (.*)\]", r"it must be one of \1"),
)


def _as_keywords(text: str) -> str:
    """What the program says, with the arguments as they are given here: `--group-size 32` is group_size=32, and `SRC` is src."""

    def keyword(match: re.Match[str]) -> str:
        name, value = match[1].replace("-", "_"), match[2]
        if value is None:
            value = "True" if match[1] in _SWITCHES else ""
        elif not re.fullmatch(r"'.*|\d+(\.\d+)?|LAYOUT", value):
            value = repr(value)
        return f"{name}{'_' if iskeyword(name) else ''}={value}"

    text = _PLACE.sub(lambda match: match[0].lower(), _FLAG.sub(keyword, text))
    if wrong := _WRONG_VALUE.fullmatch(text):
        value, name, why = wrong.groups()
        for theirs, ours in _REASONS:
            why = re.sub(theirs, ours, why)
        if name == "resume":
            why = why.replace("one of ", "True or one of ")
        return f"{name} is {value!r}; {why}"
    return text


def _is_false(answer: object) -> bool:
    return isinstance(answer, BOOLS) and not answer


class _Listener(threading.Thread):
    """Reads what the program says, and calls back; what a callback raises, or False, ends the program."""

    def __init__(self, process: subprocess.Popen[str], progress: Callable[[int, int, str], object] | None) -> None:
        super().__init__()
        self.process, self.progress = process, progress
        self.rest: list[str] = []
        self.raised: BaseException | None = None

    def run(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                self.hear(line)
            except BaseException as error:
                # The rest is read all the same, or the program would wait.
                self.raised, self.progress = error, None
                self.process.terminate()

    def hear(self, line: str) -> None:
        numbers, _, name = line.rstrip("\n").rpartition("   ")
        words = numbers.split()
        if len(words) <= 3 or words[1] != "of" or words[3] != "bytes":
            self.rest.append(line)
        elif self.progress and _is_false(self.progress(int(words[0]), int(words[2]), name)):
            raise Cancelled(f"progress returned False after {words[0]} of {words[2]} bytes")


def _place(name: str, path: Path) -> str:
    place = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(place, str):
        raise TypeError(f"{name} is {path!r}; it must be a str or a path, such as a pathlib.Path")
    # A path that begins with a dash is not taken for an option.
    return os.path.join(os.curdir, place) if place.startswith("-") else place


def _named(to: Any) -> str:
    # A layout is a name. A dtype may be NumPy's, or its class.
    return to if isinstance(to, str) else _lanecast.facts(to)["name"]


def _usage(said: str) -> str:
    # Keeps what is wrong and the option that is probably meant, not the usage of the command line.
    return " ".join(said.split("\n\nUsage:")[0].removeprefix("error: ").split())


def _run(words: list[str], progress: Callable[[int, int, str], object] | None = None) -> tuple[int, Any, str]:
    # The program runs in a process of its own, so that Ctrl-C, or whatever else ends it, does not end this one. With -P,
    # modules in the working directory are not imported there. The package is that of this process, wherever it was found.
    place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from lanecast._convert import main; sys.exit(main())"
    if not sys.executable:
        message = f"lanecast runs this in a process of its own, with the Python at sys.executable, which is {sys.executable!r}"
        raise ConvertError("system", None, message, None, None)
    command = [sys.executable, "-P", "-c", code, place, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None
        listener = _Listener(process, progress)
        listener.start()
        try:
            text = process.stdout.read()
        except BaseException:
            process.terminate()
            raise
        finally:
            listener.join()
    if listener.raised:
        raise listener.raised
    said = "".join(listener.rest)
    try:
        value = json.loads(text)
    except ValueError:
        value = {"error": {"kind": "usage" if process.returncode == 2 else "system", "tensor": None,
                           "message": _usage(said) or f"exit code {process.returncode}", "help": None}}
    if "error" in value:
        error = value["error"]
        help = error["help"] and _as_keywords(error["help"])
        raise ConvertError(error["kind"], error["tensor"], _as_keywords(error["message"]), help, None)
    return process.returncode, value, said


def convert(
    src: Path, dst: Path, *, to: Any, progress: Callable[[int, int, str], object] | None = None, **options: Any
) -> ConvertReport:
    """Convert a checkpoint, a safetensors file or a directory, to a dtype or a quantisation layout (``to="mxfp8"``).

    Options are those of ``lanecast convert``, with underscores: ``keep=["*img_in*"]``, ``max_rel_error=0.01``, ``resume=True``, ``from_="gptq"``.
    ``progress`` is called with the bytes done, all bytes, and the file that is complete. If it raises, or returns False (which
    raises ``lanecast.Cancelled``), the conversion ends; ``resume=True`` continues it. Of a
    single file it is called once, when that is complete, and False stops nothing.

    >>> import json, lanecast, os, struct, tempfile
    >>> header = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    >>> place = tempfile.mkdtemp()
    >>> path = os.path.join(place, "a.safetensors")
    >>> with open(path, "wb") as file:
    ...     _ = file.write(struct.pack("<Q", len(header)) + header + struct.pack("<f", 1.5))
    >>> report = lanecast.convert(path, os.path.join(place, "b.safetensors"), to="bf16")
    >>> report.tensors["converted"], report.max_rel_error
    (1, 0.0)
    """
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is {progress!r}; it must be a function of the bytes done, all bytes and a file, or None")
    words = ["convert", _place("src", src), _place("dst", dst), f"--to={_named(to)}", "--json", "--progress=plain", *_words(options)]
    if progress is not None and os.path.isfile(src):
        told = progress

        def progress(done: int, size: int, name: str) -> None:
            told(done, size, name)

    code, value, said = _run(words, progress)
    report = _report(value)
    lines = said.splitlines()
    for line in lines:
        if line.startswith("warning: "):
            warnings.warn(_as_keywords(line.removeprefix("warning: ")), stacklevel=2)
    if code:
        message = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), said.strip())
        raise ConvertError("limit", None, _as_keywords(message), "the result is kept", report)
    return report


def inspect(path: Path, *, stats: bool = False) -> dict[str, Any]:
    """What a checkpoint holds, from its headers (with ``stats=True``, also from its data): ``layout``, ``because``, ``tensors``,
    ``problems``.

    >>> import json, lanecast, os, struct, tempfile
    >>> header = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    >>> place = tempfile.mkdtemp()
    >>> path = os.path.join(place, "a.safetensors")
    >>> with open(path, "wb") as file:
    ...     _ = file.write(struct.pack("<Q", len(header)) + header + struct.pack("<f", 1.5))
    >>> len(lanecast.inspect(path)["tensors"]), lanecast.inspect(path)["problems"]
    (1, [])
    """
    found = dict(_run(["inspect", _place("path", path), "--json", *_words({"stats": stats})])[1])
    for problem in found["problems"]:
        problem.update({key: text and _as_keywords(text) for key, text in problem.items() if key in ("message", "help")})
    return found


def verify(a: Path, b: Path, **options: Any) -> dict[str, Any]:
    """Compare two checkpoints of any layouts: ``equal``, ``compared``, ``differ``, ``only_a``, ``only_b``.

    Options are those of ``lanecast verify``; ``as_`` is the dtype to which both are converted first.

    >>> import json, lanecast, os, struct, tempfile
    >>> header = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    >>> place = tempfile.mkdtemp()
    >>> path = os.path.join(place, "a.safetensors")
    >>> with open(path, "wb") as file:
    ...     _ = file.write(struct.pack("<Q", len(header)) + header + struct.pack("<f", 1.5))
    >>> lanecast.verify(path, path)["equal"]
    True
    """
    return dict(_run(["verify", _place("a", a), _place("b", b), "--json", *_words(options)])[1])
