"""How much memory `lanecast convert` takes at its peak, of large matrices and of many tensors: of the process, as the system counts it.

    python tests/memory.py target/release/lanecast [directory] [words that a source has]

It is asked for every millisecond. The bound is the budget and 64 MiB, and 64 MiB more for 100,000 tensors, of the
default budget, 192 MiB, and of 32 MiB. A row is converted at once, which takes 16 bytes for each element whatever the budget is.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(sys.argv[1]).resolve()
CHOSEN = sys.argv[3] if len(sys.argv) > 3 else ""
WIDTHS = {"BF16": 2, "F8_E4M3": 1, "F32": 4, "U8": 1}


def write(path, tensors):
    """A file of zeros, of which the disk holds the header alone."""
    header, end = {}, 0
    for name, dtype, shape in tensors:
        size = WIDTHS[dtype]
        for length in shape:
            size *= length
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    return end


def source(place, what, tensors):
    """A file; or a directory with an index."""
    if "files" not in what:
        return place / "dst.safetensors", place / "src.safetensors", write(place / "src.safetensors", tensors)
    src, map, size = place / "src", {}, 0
    src.mkdir()
    for i in range(10):
        file = f"model-{i + 1:05}-of-00010.safetensors"
        size += write(src / file, tensors[i::10])
        map |= {name: file for name, *_ in tensors[i::10]}
    (src / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": map}))
    return place / "dst", src, size


def peak(words):
    """In MiB. What the system says at the end would hold the peak of this process, too."""
    most = 0
    with subprocess.Popen(words) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
            most = max(most, int(found[1]) if found else 0)
            time.sleep(0.001)
    assert process.returncode == 0, words
    return most / 1024


ROWS, COLUMNS = 8192, 18432
MATRIX = [("l.weight", "BF16", [ROWS, COLUMNS])]
BLOCKS = [("l.weight_scale_inv", "F32", [ROWS // 128, COLUMNS // 128]), ("l.weight", "F8_E4M3", [ROWS, COLUMNS])]
EXPERTS = [("l.experts.down_proj_blocks", "U8", [4, 4096, 144, 16]), ("l.experts.down_proj_scales", "U8", [4, 4096, 144])]
MANY = [(f"layers.{i}.weight", "BF16", [16, 32]) for i in range(100_000)]
MANY_BLOCKS = [
    part
    for i in range(50_000)
    for part in [(f"layers.{i}.weight_scale_inv", "F32", [1, 1]), (f"layers.{i}.weight", "F8_E4M3", [16, 32])]
]
LONG = [("l.weight", "BF16", [2, 30_000_000])]
JOBS = [
    *[("bfloat16, 18,432 columns", MATRIX, to) for to in ["f32", "e4m3", "fp8-block", "mxfp4", "nvfp4", "fp8-tensor", "int8-channel"]],
    ("fp8-block, 18,432 columns", BLOCKS, "bf16"),
    ("fp8-block, 18,432 columns", BLOCKS, "mxfp4"),
    ("gpt-oss, 4,096 rows", EXPERTS, "bf16"),
    *[("rows of 30,000,000", LONG, to) for to in ["f16", "mxfp4", "nvfp4", "fp8-tensor"]],
    ("100,000 tensors", MANY, "f32"),
    ("100,000 tensors", MANY, "nvfp4"),
    ("100,000 tensors, ten files", MANY, "nvfp4"),
    ("100,000 tensors, fp8-block", MANY_BLOCKS, "bf16"),
]

print(f"{'source':26} {'to':13} {'MB read':>8} {'peak, MiB':>10} {'with --memory 32M':>18}")
failed = False
with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as place:
    for what, tensors, to in JOBS:
        if CHOSEN not in what:
            continue
        dst, src, size = source(Path(place), what, tensors)
        peaks = []
        for more in [], ["--memory", "32M"]:
            words = [PROGRAM, "convert", src, dst, "--to", to, "--quiet", "--force", "--progress", "none", *more]
            peaks.append(peak(words))
        room = 128 if len(tensors) > 1000 else 64
        row = 0 if to == "f16" else 16 * tensors[0][2][-1] / 2**20
        failed |= peaks[0] > room + max(192, row) or peaks[1] > room + max(32, row)
        print(f"{what:26} {to:13} {size / 1e6:8.0f} {peaks[0]:10.0f} {peaks[1]:18.0f}", flush=True)
sys.exit("more than the bound" if failed else 0)
