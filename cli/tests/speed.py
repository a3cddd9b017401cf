"""How fast `lanecast convert` is beside `cp` of as many bytes, and beside the script in Python that people use for the same job.

    python tests/speed.py target/release/lanecast [megabytes of each source] [directory]

In turns, in one run, on a RAM disk; the best of some. A ratio of 1 is as fast as `cp`: bytes read and written, in the time. Peaks of
memory are of the whole process. Without torch the scripts are not run.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file as torch_save
except ImportError as error:
    torch = None
    print("NOT RUN: the scripts in Python:", error)

PROGRAM = Path(sys.argv[1]).resolve()
MEGABYTES = int(sys.argv[2]) if len(sys.argv) > 2 else 512
TIMES = 5


def script_block(src, dst):
    """What DeepSeek's script does, on a CPU: each weight times its scales, a tile of 128 x 128 at a time, to bfloat16."""
    made = {}
    with safe_open(src, "pt") as file:
        for name in file.keys():
            if name.endswith("_scale_inv"):
                continue
            x = file.get_tensor(name)
            if x.element_size() == 1:
                s = file.get_tensor(f"{name}_scale_inv")
                s = s.repeat_interleave(128, 0).repeat_interleave(128, 1)[: x.shape[0], : x.shape[1]]
                x = (x.to(torch.float32) * s).to(torch.bfloat16)
            made[name] = x
    torch_save(made, dst)


def script_cast(to):
    def run(src, dst):
        with safe_open(src, "pt") as file:
            made = {name: file.get_tensor(name).to(to) for name in file.keys()}
        torch_save(made, dst)

    return run


def script_quantise(src, dst):
    made = {}
    with safe_open(src, "pt") as file:
        for name in file.keys():
            x = file.get_tensor(name).to(torch.float32)
            blocks = x.reshape(x.shape[0] // 128, 128, x.shape[1] // 128, 128)
            s = blocks.abs().amax(dim=(1, 3)) / 448
            made[name] = (blocks / s[:, None, :, None]).clamp(-448, 448).to(torch.float8_e4m3fn).reshape(x.shape)
            made[f"{name}_scale_inv"] = s
    torch_save(made, dst)


def timed(act):
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def source(path, width, scaled=False):
    rng = np.random.default_rng(1)
    columns, count = 4096, 8
    rows = (MEGABYTES << 20) // (count * columns * width) // 128 * 128
    tensors = {}
    for i in range(count):
        name = f"model.layers.{i}.mlp.down_proj.weight"
        x = rng.standard_normal((rows, columns), dtype=np.float32)
        if width == 4:
            tensors[name] = x
        elif width == 2:
            tensors[name] = (x.view(np.uint32) >> 16).astype(np.uint16)
        else:
            tensors[name] = rng.integers(0, 126, (rows, columns), dtype=np.uint8)
            tensors[f"{name}_scale_inv"] = np.abs(x[: rows // 128, : columns // 128]) / 448
    save_file(tensors, path)
    # NumPy has no bfloat16 and no float8: the header says what the bytes are.
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + n]
    for old, new in [(b'"U16"', b'"BF16"'), (b'"U8"', b'"F8_E4M3"')]:
        header = header.replace(old, new)
    header = header.rstrip()
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + n :])


JOBS = [
    ("float32 -> bfloat16", 4, "bf16", lambda: script_cast(torch.bfloat16)),
    ("bfloat16 -> float32", 2, "f32", lambda: script_cast(torch.float32)),
    ("bfloat16 -> float16", 2, "f16", lambda: script_cast(torch.float16)),
    ("float32 -> e4m3", 4, "e4m3", lambda: script_cast(torch.float8_e4m3fn)),
    ("fp8-block -> bfloat16", 1, "bf16", lambda: script_block),
    ("bfloat16 -> fp8-block", 2, "fp8-block", lambda: script_quantise),
]

with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else "/dev/shm") as place:
    place = Path(place)
    print(f"{'job':24} {'of cp':>8} {'of cp, not read back':>22} {'times the script':>18}")
    for job, width, to, script in JOBS:
        src, dst, copy, other = (place / f"{name}.safetensors" for name in ["src", "dst", "copy", "other"])
        source(src, width)

        def convert(*more):
            words = [PROGRAM, "convert", src, dst, "--to", to, "--quiet", "--force", "--progress", "none", *more]
            subprocess.run(words, check=True)

        acts = {
            "cp": lambda: subprocess.run(["cp", src, copy], check=True),
            "convert": convert,
            "not read back": lambda: convert("--no-verify"),
        }
        if torch:
            acts["script"] = lambda: script()(src, other)
        best = dict.fromkeys(acts, float("inf"))
        for _ in range(TIMES):
            for name, act in acts.items():
                for made in [dst, copy, other]:
                    made.unlink(missing_ok=True)
                best[name] = min(best[name], timed(act))
                if name == "convert":
                    moved = (src.stat().st_size + dst.stat().st_size) / (2 * src.stat().st_size)
        ratios = [best["cp"] / best[name] * moved for name in ["convert", "not read back"]]
        times = f"{best['script'] / best['convert']:.1f}" if torch else "-"
        print(f"{job:24} {ratios[0]:8.2f} {ratios[1]:22.2f} {times:>18}", flush=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
print(f"peak of memory of all that was started: {peak} MiB")
