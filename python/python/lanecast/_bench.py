"""python -m lanecast bench: casts by NumPy and ml_dtypes, by the same calls patched, and by others that are installed."""

from __future__ import annotations

import gc
import importlib
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Any

import ml_dtypes
import numpy as np

import lanecast
from lanecast import _lanecast

#: Pairs, and how many times as fast patched casts of contiguous arrays in L2 are promised to be.
PAIRS: tuple[tuple[str, str, float], ...] = (
    ("float32", "float8_e4m3fn", 30),
    ("float8_e4m3fn", "float32", 30),
    ("float32", "float8_e5m2", 30),
    ("float8_e5m2", "float32", 30),
    ("float16", "float8_e4m3fn", 20),
    ("bfloat16", "float8_e4m3fn", 20),
    ("float8_e4m3fn", "bfloat16", 0),
    ("float8_e4m3fn", "float16", 0),
    ("float32", "bfloat16", 0),
    ("bfloat16", "float32", 0),
    ("float32", "float16", 0),
    ("float16", "float32", 0),
    ("float64", "bfloat16", 0),
    ("float32", "float4_e2m1fn", 0),
    ("float4_e2m1fn", "float32", 0),
    ("float32", "float6_e3m2fn", 0),
    ("float32", "int4", 0),
    ("int8", "bfloat16", 0),
)
#: How many elements arrays in L2 have, and arrays in memory.
SMALL, LARGE = 1 << 16, 1 << 24

Cast = Callable[[], Any]
Shape = tuple[int, int, int]
Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Row:
    """Nanoseconds per element of one pair, by who casts."""

    source: str
    target: str
    elements: int
    times: dict[str, float]

    def ratio(self) -> float:
        """How many times as fast the patched cast is."""
        return self.times["NumPy"] / self.times["patched"]


def interleaved(casts: dict[str, Cast], seconds: float, switch: Callable[[str], None]) -> dict[str, float]:
    """The shortest time of each, measured in turns, so that what else the machine does hits all of them."""
    best = dict.fromkeys(casts, float("inf"))
    repeats: dict[str, int] = {}
    for name, cast in casts.items():
        switch(name)
        cast()
        start = time.perf_counter()
        cast()
        repeats[name] = max(1, min(1000, int(5e-4 / max(time.perf_counter() - start, 1e-7))))
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < 5 or time.perf_counter() < end:
        for name, cast in casts.items():
            switch(name)
            count = range(repeats[name])
            start = time.perf_counter()
            for _ in count:
                cast()
            best[name] = min(best[name], (time.perf_counter() - start) / len(count))
        rounds += 1
    return best


def peers() -> dict[str, Callable[[Any, str], Cast | None]]:
    """Who else casts here: of an array and a dtype, a call that casts into memory of its own."""
    found: dict[str, Callable[[Any, str], Cast | None]] = {}
    try:
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(1)

        def by_torch(x: Any, target: str) -> Cast | None:
            to = getattr(torch, target, None)
            if to is None:
                return None
            try:
                given = torch.from_dlpack(lanecast.dlpack(x))
                out = torch.empty(given.shape, dtype=to)
                out.copy_(given)
            except (BufferError, RuntimeError, TypeError, NotImplementedError):
                return None
            return lambda: out.copy_(given)

        found[f"torch {torch.__version__}"] = by_torch
    except ImportError:
        pass
    try:
        jax: Any = importlib.import_module("jax")

        def by_jax(x: Any, target: str) -> Cast | None:
            try:
                with jax.default_device(jax.devices("cpu")[0]):
                    given = jax.numpy.asarray(x)
                    cast = jax.jit(lambda a: a.astype(target))
                    cast(given).block_until_ready()
            except (TypeError, ValueError, NotImplementedError, RuntimeError):
                return None
            return lambda: cast(given).block_until_ready()

        found[f"jax {jax.__version__}"] = by_jax
    except ImportError:
        pass
    try:
        numkong: Any = importlib.import_module("numkong")

        def by_numkong(x: Any, target: str) -> Cast | None:
            names = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float6_e3m2fn": "e3m2"}
            source = str(x.dtype)
            try:
                # Arrays of numkong are made from those that have a buffer.
                given = numkong.Tensor(x.astype(np.float32)).astype(names.get(source, source))
                to = names.get(target, target)
                given.astype(to)
            except Exception:  # noqa: BLE001  (whatever it cannot do it does not do here)
                return None
            return lambda: given.astype(to)

        found["NumKong"] = by_numkong
    except ImportError:
        pass
    return found


def measure(source: str, target: str, n: int, seconds: float, others: dict[str, Any]) -> Row:
    """The times of one pair."""
    dtypes = lanecast.dtypes()
    from_, to = dtypes[source], dtypes[target]
    assert from_ is not None and to is not None
    values = np.random.default_rng(1).standard_normal(n).astype(np.float32)
    if from_.kind in "iu":
        values = (values * 30).clip(-100, 100)
    with np.errstate(all="ignore"):
        x = values.astype(from_)
        out, ours = np.empty(n, to), np.empty(n, to)

        def by_numpy() -> None:
            np.copyto(out, x, casting="unsafe")

        casts: dict[str, Cast] = {
            "NumPy": by_numpy,
            "patched": by_numpy,
            "astype": lambda: lanecast.astype(x, to, out=ours, threads=1),
        }
        for name, make in others.items():
            cast = make(x, target)
            if cast is not None:
                casts[name] = cast

        def switch(name: str) -> None:
            (lanecast.patch if name == "patched" else lanecast.unpatch)()

        try:
            times = interleaved(casts, seconds, switch)
        finally:
            lanecast.unpatch()
    return Row(source, target, n, {name: 1e9 * t / n for name, t in times.items()})


def table(rows: list[Row], names: list[str], markdown: bool) -> str:
    """Nanoseconds per element, and how many times as fast the patched cast is."""
    head = ["from", "to", *names, "patched is"]
    lines = [
        [r.source, r.target, *(f"{r.times[name]:.3f}" if name in r.times else "" for name in names), f"{r.ratio():.1f} x"]
        for r in rows
    ]
    if markdown:
        ruler = ["---", "---", *("---:" for _ in [*names, ""])]
        return "\n".join("| " + " | ".join(line) + " |" for line in [head, ruler, *lines])
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    return "\n".join("  ".join(word.rjust(width) for word, width in zip(line, widths)) for line in [head, *lines])


#: The colours of the bars: that of patched casts, and those of the others in turn.
COLOURS = ("#1f5fa8", "#e0a030", "#7a9e5a", "#b06a8c", "#999999")


def chart(rows: list[Row], names: list[str], title: str) -> str:
    """How many times as fast as NumPy everybody is, as bars (SVG) on a logarithmic scale; who is slower has one to the left."""
    left, width, bar = 230, 460, 7
    step = bar * len(names) + 9
    ratios = {(row, name): row.times["NumPy"] / row.times[name] for row in rows for name in names if name in row.times}
    low, high = min(0.5, *ratios.values()), max(2.0, *ratios.values())

    def place(ratio: float) -> float:
        return left + width * float(np.log(ratio / low) / np.log(high / low))

    top = 52
    bottom = top + step * len(rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{bottom + 30}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="18" font-size="14">{escape(title)}</text>',
    ]
    x = 10
    for colour, name in zip(COLOURS, names):
        label = "patched by lanecast" if name == "patched" else name
        lines.append(f'<rect x="{x}" y="28" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x + 14}" y="37">{escape(label)}</text>')
        x += 34 + 6 * len(label)
    for mark in (0.1, 0.3, 1, 3, 10, 30, 100):
        if low <= mark <= high:
            shade = "#666666" if mark == 1 else "#dddddd"
            at = f"{place(mark):.1f}"
            lines.append(f'<line x1="{at}" y1="{top - 6}" x2="{at}" y2="{bottom}" stroke="{shade}"/>')
            lines.append(f'<text x="{at}" y="{bottom + 16}" text-anchor="middle">{mark:g} x</text>')
    figures: list[str] = []
    for i, row in enumerate(rows):
        y = top + i * step
        middle = y + bar * len(names) / 2 + 4
        lines.append(f'<text x="{left - 8}" y="{middle:.1f}" text-anchor="end">{row.source} to {row.target}</text>')
        for k, (colour, name) in enumerate(zip(COLOURS, names)):
            ratio = ratios.get((row, name))
            if ratio is None:
                continue
            start, end = sorted((place(1.0), place(ratio)))
            shape = f'x="{start:.1f}" y="{y + k * bar}" width="{max(end - start, 1.0):.1f}" height="{bar - 1}"'
            lines.append(f'<rect {shape} fill="{colour}"/>')
            if name == "patched":
                # The figure lies over the bars of others, with a rim.
                rim = 'paint-order="stroke" stroke="white" stroke-width="3"'
                figures.append(f'<text x="{end + 4:.1f}" y="{y + k * bar + 7}" font-size="10" {rim}>{ratio:.1f}</text>')
    lines += figures
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def cpu() -> str:
    """What this machine is called."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


#: Shapes of casts: how many inner loops, of how many elements, and whether these are every second one (step 2).
SHAPES: tuple[Shape, ...] = (
    *((1, n, step) for n in (3, 20, 50, 128, 300, 1000, 65536) for step in (1, 2)),
    *((loops, n, step) for loops, n in ((1024, 4), (512, 20), (256, 64)) for step in (1, 2)),
)
#: For many loops of fewer elements than this, less is promised of a patched cast.
LEAST = 16


def inner_loops(dtype: np.dtype[Any], shape: Shape, value: float | None = None) -> Any:
    """An array that NumPy casts in so many loops: there is a gap behind each."""
    loops, n, step = shape
    base = np.ones((loops, (n + (loops > 1)) * step), dtype)
    with np.errstate(all="ignore"):
        # Values of which no cast warns, in an order that branch predictors cannot learn.
        base[...] = np.random.default_rng(1).integers(1, 3, base.shape) if value is None else value
    array = base[:, : n * step : step]
    return array if loops > 1 else array[0]


Memory = tuple[dict[str, Any], dict[str, Any]]
#: What looks slow is measured again in this many other processes, each time among this many other pairs.
AGAIN, OTHERS = 6, 50


def memory(shape: Shape, value: float | None) -> Memory:
    """New arrays of all dtypes, to cast from (of NaN only those that have one) and to."""
    dtypes = {name: dtype for name, dtype in lanecast.dtypes().items() if dtype is not None}
    sources = {name: inner_loops(dtype, shape, value) for name, dtype in dtypes.items() if value is None or _has_nan(name)}
    return sources, {name: inner_loops(dtype, shape) for name, dtype in dtypes.items()}


@dataclass
class Sweep:
    """Casts of one shape, all of one value if there is one, and their speed beside the originals'."""

    shape: Shape
    value: float | None
    pairs: list[Pair]
    #: For each pair, one entry for each process: the ratio of the patched cast, and that of the original beside itself.
    ratios: dict[Pair, list[tuple[float, float]]] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """The shape in words."""
        loops, n, step = self.shape
        if self.value is not None:
            return f"{n} NaN"
        what = f"{n} elements" if loops == 1 else f"{loops} inner loops of {n}"
        return what + (", every second" if step == 2 else "")

    @property
    def aim(self) -> float:
        """The least speed of a patched cast."""
        loops, n, _ = self.shape
        if self.value is not None:
            return 0.9
        return 0.8 if loops > 1 and n < LEAST else 0.95

    def below(self) -> list[Pair]:
        """What looks slow, patched or as the original beside itself."""
        return [pair for pair, both in self.ratios.items() if min(both[0]) < self.aim]

    def medians(self, which: int) -> dict[Pair, float]:
        """Of each pair, over the processes."""
        return {pair: statistics.median(both[which] for both in all_) for pair, all_ in self.ratios.items()}


def once_more(job: str) -> str:
    """What `sweep` asks of another process, and gets: JSON."""
    few, seconds, sweeps = json.loads(job)
    _lanecast.leave_few(few)
    answer = []
    for shape, value, pairs, others in sweeps:
        chosen = [(a, b) for a, b in [*pairs, *others]]
        found = _beside(chosen, memory(tuple(shape), value), seconds)
        answer.append([found[a, b] for a, b in pairs])
    return json.dumps(answer)


def sweep(
    *, seconds: float, check: bool, pairs: Sequence[Pair] | None = None, shapes: Sequence[Shape] = SHAPES, few: int = 0
) -> int:
    """Patched casts beside their originals, over all pairs and many shapes: what they cost where there is nothing to gain.
    With `few`, kernels cast so few elements as that: for tests."""
    _lanecast.leave_few(few)
    with lanecast.patched() as info:
        pairs = info.pairs if pairs is None else pairs
    sweeps = [Sweep(shape, None, list(pairs)) for shape in shapes]
    sweeps.append(Sweep((1, 5000, 1), float("nan"), [pair for pair in pairs if _has_nan(pair[0])]))
    for one in sweeps:
        if sys.stderr.isatty():
            print(f"\r{one.what:40}", end="", file=sys.stderr, flush=True)
        one.ratios = {pair: [both] for pair, both in _beside(one.pairs, memory(one.shape, one.value), seconds).items()}
    # Where code and memory lie in a process decides how the branch predictor takes a loop, NumPy's own as well as ours: 20
    # elements of one take 38 or 44 ns. And of thousands of measurements, some are hit by other programs.
    again = [(one, below) for one in sweeps if (below := one.below())]
    for number in range(AGAIN if again else 0):
        if sys.stderr.isatty():
            print(f"\r{f'again, process {number + 1} of {AGAIN}':40}", end="", file=sys.stderr, flush=True)
        jobs = []
        for one, below in again:
            rest = [pair for pair in one.pairs if pair not in below]
            jobs.append((one.shape, one.value, below, random.sample(rest, min(OTHERS, len(rest)))))
        program = "import sys; from lanecast import _bench; print(_bench.once_more(sys.stdin.read()))"
        command = [sys.executable, "-W", "ignore", "-c", program]
        ran = subprocess.run(command, input=json.dumps((few, 3 * seconds, jobs)), stdout=subprocess.PIPE, text=True, check=True)
        for (one, below), found in zip(again, json.loads(ran.stdout)):
            for pair, (ratio, itself) in zip(below, found):
                one.ratios[pair].append((ratio, itself))
    if sys.stderr.isatty():
        print(f"\r{'':40}\r", end="", file=sys.stderr, flush=True)
    figures, measured_again = sum(len(one.ratios) for one in sweeps), sum(len(below) for _, below in again)
    print(
        f"Speed of patched casts as a share of the originals' ({len(pairs)} pairs; medians of interleaved runs), and of the\n"
        "originals as a share of their own, measured in the same way: what is no further from 1 than that is chance."
    )
    if measured_again:
        least = min(min(both) for one, below in again for pair in below for both in one.ratios[pair])
        print(
            f"{measured_again} of {figures} had one of both below the aim, and were measured again in {AGAIN} more processes, in other orders: of\n"
            f"those the median counts (the least of all was {least:.2f})."
        )
    print()
    print(f"{'':34}  slowest   5 %  median   95 %   itself: slowest   5 %")
    failed: list[str] = []
    for one in sweeps:
        if not one.ratios:
            continue
        ordered = sorted((ratio, pair) for pair, ratio in one.medians(0).items())
        values, control = [ratio for ratio, _ in ordered], sorted(one.medians(1).values())
        k = len(values)
        print(
            f"{one.what:34} {values[0]:7.2f} {values[k // 20]:6.2f} {values[k // 2]:7.2f} {values[k - 1 - k // 20]:6.2f}"
            f" {control[0]:17.2f} {control[k // 20]:6.2f}"
        )
        slow = [(ratio, pair) for ratio, pair in ordered if ratio < one.aim]
        for ratio, (a, b) in slow[:5]:
            print(f"    {a} to {b}: {ratio:.3f}, the median of {', '.join(f'{ratio:.2f}' for ratio, _ in one.ratios[a, b])}")
        if slow:
            failed.append(f"{one.what}: {len(slow)} of {k} pairs are below {one.aim:g}")
    for line in failed if check else []:
        print(f"FAILED: {line}")
    return 1 if check and failed else 0


def _has_nan(name: str) -> bool:
    """Has the dtype a NaN, so that a cast must look for it?"""
    facts = _lanecast.facts(name)
    return facts["kind"] == "complex" or bool(facts.get("has_nan"))


def _beside(pairs: Sequence[Pair], arrays: Memory, seconds: float) -> dict[Pair, tuple[float, float]]:
    """How fast patched casts of these arrays are beside their originals, and those beside themselves. `seconds` for 100 pairs."""
    if not pairs:
        return {}
    turns: tuple[Callable[[], object], ...] = (lanecast.unpatch, lanecast.patch, lanecast.unpatch)
    times: dict[Pair, list[list[float]]] = {pair: [[] for _ in turns] for pair in pairs}
    repeats: dict[Pair, int] = {}

    def measure(pair: Pair) -> float:
        x, out = arrays[0][pair[0]], arrays[1][pair[1]]
        count = range(repeats.get(pair, 1))
        least = float("inf")
        # The first turn finds the caches and the branch predictor as other casts have left them. The clock is that of the
        # thread, which stands while another program has the CPU.
        for _ in range(3):
            start = time.thread_time()
            for _ in count:
                np.copyto(out, x, casting="unsafe")
            least = min(least, time.thread_time() - start)
        return least / len(count)

    end, rounds = time.perf_counter() + seconds * len(pairs) / 100, 0
    # Each time in another order: the same loop may take a quarter longer for as long as the branch predictor remembers it
    # badly, which depends on what ran before. The median of the orders is free of that, their minimum is not.
    order = list(pairs)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for pair in pairs:
            measure(pair)
            repeats[pair] = max(1, min(500, int(5e-5 / max(measure(pair), 1e-7))))
        while rounds < 9 or time.perf_counter() < end:
            for i in random.sample(range(len(turns)), len(turns)):
                turns[i]()
                random.shuffle(order)
                for pair in order:
                    times[pair][i].append(measure(pair))
            rounds += 1
    lanecast.unpatch()
    medians = {pair: [statistics.median(of) for of in each] for pair, each in times.items()}
    return {pair: (original / patched, original / again) for pair, (original, patched, again) in medians.items()}


#: Source, target, what happens out of range, and the mapped values.
CHUNKS: tuple[tuple[str, str, str | None, tuple[float, ...]], ...] = (
    ("float64", "uint8", "clamp", ()),
    ("float64", "uint8", "clamp", (float("nan"), float("inf"), float("-inf"))),
    ("float64", "uint8", "clamp", (-1.0, 100.0, 101.0)),
    ("float64", "int32", None, ()),
    ("float64", "float32", None, ()),
    ("float64", "float32", None, (-1.0, 100.0, 101.0)),
    ("float32", "uint8", "clamp", ()),
    ("float32", "float16", None, ()),
    ("float32", "float16", None, (-1.0, 100.0, 101.0)),
    ("int64", "int16", "wrap", ()),
    ("int16", "float32", None, ()),
    ("int16", "float32", None, (-1.0, 100.0, 101.0)),
    ("uint8", "uint16", None, ()),
    ("uint8", "uint16", None, (100.0, 101.0, 102.0)),
    ("uint8", "float64", None, ()),
    ("uint8", "float64", None, (0.0,)),
)


def chunks(*, seconds: float) -> int:
    """The codec cast_value of Zarr: cast-value-rs beside lanecast.zarr; in brackets, ours with a map beside ours without one. The last
    column is ours beside NumPy's copy to a new array that reads and writes as many bytes, of the largest chunk: what memory leaves room for."""
    theirs: Any = importlib.import_module("cast_value_rs")
    ours: Any = importlib.import_module("lanecast.zarr")
    sizes = (1 << 12, 1 << 16, 1 << 20)
    print("| from | to | out of range | mapped | " + " | ".join(f"{n:,} elements" for n in sizes) + " | by a copy |")
    print("| --- | --- | --- | --- |" + " ---: |" * (len(sizes) + 1))
    for source, target, mode, keys in CHUNKS:
        cells, by_copy = [], 0.0
        for n in sizes:
            plain = (np.random.default_rng(1).random(n) * 90).astype(source)
            # Both are copies, because where memory lies makes more of a difference than a map.
            x, plain = plain.copy(), plain.copy()
            if keys and not np.isfinite(keys[0]):
                x[::97] = keys[0]
            entries = {key if source.startswith("float") else int(key): 1 for key in keys} or None
            how = {"target_dtype": target, "out_of_range_mode": mode, "rounding_mode": "nearest-even"}
            casts: dict[str, Cast] = {
                who.__name__: partial(who.cast_array, x, scalar_map_entries=entries, **how) for who in (theirs, ours)
            }
            if entries:
                casts["no map"] = partial(ours.cast_array, plain, scalar_map_entries=None, **how)
            moved = np.ones((x.nbytes + n * np.dtype(target).itemsize) // 2, "uint8")
            casts["copy"] = moved.copy
            times = interleaved(casts, seconds, lambda _: None)
            by_copy = times[ours.__name__] / times["copy"]
            ratio = f"{times[theirs.__name__] / times[ours.__name__]:.2f}"
            cells.append(ratio + (f" ({times[ours.__name__] / times['no map']:.2f})" if entries else ""))
        mapped = ", ".join(f"{key:g}" for key in keys)
        print(f"| {source} | {target} | {mode or 'an error'} | {mapped} | {' | '.join(cells)} | {by_copy:.2f} |", flush=True)
    return 0


def main(*, quick: bool, markdown: bool, chart_file: str | None, check: bool) -> int:
    """Prints the tables, writes the chart, and says which promise does not hold."""
    others = peers()
    names = ["NumPy", "patched", "astype", *others]
    gc.disable()
    all_rows: list[Row] = []
    seconds = 0.05 if quick else 0.4
    print(
        f"{cpu()}, {_lanecast.isa()[0]}, {os.cpu_count()} CPUs; one thread. Python {platform.python_version()}, "
        f"NumPy {np.__version__}, ml_dtypes {ml_dtypes.__version__}, lanecast {lanecast.__version__}.\n"
        "Nanoseconds per element, the least of interleaved runs."
        + (f" {', '.join(others)}: into new memory, but for torch." if others else "")
    )
    for n in (SMALL,) if quick else (SMALL, LARGE):
        rows = [measure(source, target, n, seconds, others) for source, target, _ in PAIRS]
        all_rows += rows
        where = "contiguous, in L2" if n == SMALL else "contiguous, in memory"
        print(f"\n{n} elements, {where}:\n")
        print(table(rows, names, markdown))
    if chart_file is not None:
        with open(chart_file, "w", encoding="utf-8") as file:
            small = [row for row in all_rows if row.elements == SMALL]
            file.write(chart(small, ["patched", *others], f"Casts of {SMALL:,} elements: how many times as fast as NumPy and ml_dtypes"))
    failed = [
        f"{row.source} to {row.target} is {row.ratio():.1f} times as fast, promised is {promised:g}"
        for row, (_, _, promised) in zip(all_rows, PAIRS)
        if row.ratio() < promised
    ]
    for line in failed if check else []:
        print(f"FAILED: {line}")
    return 1 if check and failed else 0

