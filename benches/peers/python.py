#!/usr/bin/env python3
"""lanecast beside NumPy, ml_dtypes and PyTorch: the same buffers, in the same run.

Prints a Markdown table and writes nothing. Needs NumPy and ml_dtypes; PyTorch takes part if it is there.

    cargo build --release -p lanecast-capi
    python3 -m venv peers-venv && peers-venv/bin/pip install numpy ml_dtypes torch
    peers-venv/bin/python benches/peers/python.py [path of liblanecast.so]

Everyone reads the same source, runs on one thread, and writes to memory of its own that exists and was
written to before; in every round everyone takes a turn, and the medians are compared. A turn in which the
system ran another program is taken again. Where an element has fewer than 8 bits, NumPy stores one in a
byte, and so does lanecast here. Inputs are in range of the target.
"""

import argparse
import ctypes
import resource
import statistics
import time

import ml_dtypes
import numpy as np

try:
    import torch
except ImportError:
    torch = None

SIZES = {"in L2": 256 << 10, "large": 64 << 20}  # bytes read + written
TURN = 1e-3  # seconds that one turn should take at least

# What a name is elsewhere, where NumPy or PyTorch has another.
NUMPY = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")
}
TORCH = {"float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32", "float64", "int8", "int32", "int64", "uint8"}

PAIRS = """
    float32 float64, float64 float32, float32 float16, float16 float32, float32 int32, int32 float32,
    int64 int32, int32 int8, uint8 float32, float32 uint8, int64 float64, int64 float32,
    float32 bfloat16, bfloat16 float32, float32 float8_e4m3fn, float8_e4m3fn float32,
    float32 float8_e5m2, float8_e5m2 float32, float32 float4_e2m1fn
"""


class Options(ctypes.Structure):
    """lanecast_options."""

    _fields_ = [("size", ctypes.c_uint32)] + [
        (name, ctypes.c_uint8)
        for name in (
            "rounding", "int_rounding", "saturate", "float_to_int", "int_to_int", "nan_to_finite",
            "e8m0_rounding", "isa", "src_packing", "dst_packing", "src_order", "dst_order",
            "narrow_int_rounding", "narrow_float_to_int",
        )
    ] + [("reserved", ctypes.c_uint8 * 2)]  # fmt: skip


class Lanecast:
    """The C library."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.lanecast_cast.argtypes = [
            ctypes.c_uint8, ctypes.c_void_p, ctypes.c_uint8, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
        ]  # fmt: skip
        self.options = Options()
        self.call(self.lib.lanecast_options_init, ctypes.byref(self.options))
        self.options.src_packing = self.options.dst_packing = 1  # one element per byte

    def call(self, function, *arguments):
        status = function(*arguments)
        if status != 0:
            self.lib.lanecast_strerror.restype = ctypes.c_char_p
            raise RuntimeError(self.lib.lanecast_strerror(status).decode())

    def code(self, name):
        code = ctypes.c_uint8()
        self.call(self.lib.lanecast_dtype_from_name, name.encode(), ctypes.byref(code))
        return code.value

    def cast(self, source, source_name, target, target_name):
        arguments = (
            self.code(source_name), source.ctypes.data, self.code(target_name), target.ctypes.data, source.size,
            ctypes.byref(self.options),
        )  # fmt: skip
        return lambda: self.call(self.lib.lanecast_cast, *arguments)


def numpy_dtype(name):
    return NUMPY.get(name) or np.dtype(name)


def aligned(array):
    """A copy that is aligned for any vector, as PyTorch's memory is: NumPy's own is to 16 bytes."""
    memory = np.ones(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


def make_source(source, target, n):
    """n numbers that both hold: integers evenly over what they share, floats normal with deviation 4."""
    random = np.random.default_rng(1)
    integers = [np.iinfo(name) for name in (source, target) if "int" in name]
    if integers:
        low, high = max(i.min for i in integers), min(i.max for i in integers)
        if not ("int" in source and "int" in target) and "int" in target:
            low, high = low // 2, high // 2  # a float source, in range after any rounding
        numbers = random.integers(low, high, min(n, 1 << 16), endpoint=True)
        if "float" in source:
            numbers = numbers + random.random(numbers.size)
    else:
        numbers = 4 * random.standard_normal(min(n, 1 << 16))
    return aligned(np.resize(numbers.astype(numpy_dtype(source)), n))


def contenders(lanecast, source_name, target_name, traffic):
    """Bytes read + written, and who casts the pair: by name, the call and the memory it writes to."""
    source_dtype, target_dtype = numpy_dtype(source_name), numpy_dtype(target_name)
    n = traffic // (source_dtype.itemsize + target_dtype.itemsize)
    source = make_source(source_name, target_name, n)
    ours, theirs = (aligned(np.ones(n, target_dtype)) for _ in range(2))
    half = aligned(np.ones((source.nbytes + ours.nbytes) // 2, np.uint8))
    copied = aligned(half)
    arguments = copied.ctypes.data, half.ctypes.data, half.nbytes
    peer = "ml_dtypes" if source_name in NUMPY or target_name in NUMPY else "numpy"
    result = {
        "lanecast": (lanecast.cast(source, source_name, ours, target_name), ours),
        "memcpy": (lambda: ctypes.memmove(*arguments), (half, copied)),
        peer: (lambda: np.copyto(theirs, source, casting="unsafe"), theirs),
    }
    if torch is not None and {source_name, target_name} <= TORCH:
        # PyTorch knows NumPy's memory, but not its foreign dtypes: those go by their bytes.
        bytes_of = torch.from_numpy(source.view(np.uint8))
        tensor = bytes_of.view(getattr(torch, source_name))
        into = torch.ones(n, dtype=torch.float32).to(getattr(torch, target_name))
        result["torch"] = (lambda: into.copy_(tensor), into.view(torch.uint8).numpy())
    return source.nbytes + ours.nbytes, result


def check(pair, result):
    """Says where a result is not lanecast's: all cast numbers in range, to nearest even."""
    wanted = result["lanecast"][1].view(np.uint8)
    for name, (_, memory) in result.items():
        if name != "memcpy" and not np.array_equal(wanted, memory.view(np.uint8)):
            print(f"differs: {name} {pair}")


def interruptions():
    """How often the system has taken the CPU away from this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def race(runs, rounds):
    """The median time of each, in seconds."""

    def turn(run, times):
        start = time.perf_counter()
        for _ in range(times):
            run()
        return (time.perf_counter() - start) / times

    times = []
    for run in runs:
        first = turn(run, 1)  # warms up
        times.append(1 if first > TURN else max(1, int(TURN / turn(run, 3))))
    seconds = [[] for _ in runs]
    for round in range(rounds):
        # Every other round backwards: nobody always comes after the same one.
        order = range(len(runs)) if round % 2 == 0 else reversed(range(len(runs)))
        for i in order:
            for _ in range(4):
                before = interruptions()
                took = turn(runs[i], times[i])
                if interruptions() == before:
                    break
            seconds[i].append(took)
    return [statistics.median(turns) for turns in seconds]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="?", default="target/release/liblanecast.so")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    lanecast = Lanecast(arguments.library)
    versions = [f"NumPy {np.__version__}", f"ml_dtypes {ml_dtypes.__version__}"]
    if torch is not None:
        torch.set_num_threads(1)
        versions.append(f"PyTorch {torch.__version__}")

    print(f"{', '.join(versions)}; one thread, medians of {arguments.rounds} interleaved rounds.")
    print("The last three columns: how many times as fast lanecast is.")
    for name, traffic in SIZES.items():
        print(f"\n{name}: {traffic >> 10} KiB read + written\n")
        print("| pair | lanecast GB/s | of memcpy | / NumPy | / ml_dtypes | / PyTorch |")
        print("|---|---:|---:|---:|---:|---:|")
        for pair in PAIRS.split(","):
            source, target = pair.split()
            total, result = contenders(lanecast, source, target, traffic)
            medians = dict(zip(result, race([run for run, _ in result.values()], arguments.rounds)))
            ours = medians["lanecast"]
            ratios = [
                f"{medians[peer] / ours:.2f}" if peer in medians else "" for peer in ("numpy", "ml_dtypes", "torch")
            ]
            print(
                f"| {source} to {target} | {total / ours / 1e9:.1f} | {medians['memcpy'] / ours:.2f} |",
                " | ".join(ratios),
                "|",
                flush=True,
            )
            check(f"{source} to {target}", result)


if __name__ == "__main__":
    main()
