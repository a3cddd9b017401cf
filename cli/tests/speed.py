"""How fast `lanecast convert` is beside `cp` of as many bytes, and beside the script in Python that people use for the same job.

    python tests/speed.py target/release/lanecast [megabytes of each source] [directory] [words that a job has]

In turns, in one run, on a RAM disk; the best of some. A ratio of 1 is as fast as `cp`: bytes read and written, in the time. `sha256` is what
hashing the result takes, and nothing else: a file has one hash, which one core computes, so that no conversion of one file is faster. Where it
says "files", source and result are directories of four. Without torch the scripts are not run.
"""

import hashlib
import shutil
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
CHOSEN = sys.argv[4] if len(sys.argv) > 4 else ""
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


def script_packages(quantise):
    """The arithmetic of the package that has the layout, a tensor at a time."""

    def run(src, dst):
        made = {}
        with safe_open(src, "pt") as file:
            for name in file.keys():
                for i, part in enumerate(quantise(file.get_tensor(name))):
                    made[f"{name}.{i}"] = part.view(torch.uint8).contiguous()
        torch_save(made, dst)

    return run


def torchao():
    from torchao.prototype.mx_formats.mx_tensor import MXTensor

    def quantise(x):
        made = MXTensor.to_mx(x, torch.float4_e2m1fn_x2, 32)
        return made.qdata, made.scale

    return script_packages(quantise)


def modelopt():
    from modelopt.torch.quantization.qtensor import NVFP4QTensor

    def quantise(x):
        made, scales, factor = NVFP4QTensor.quantize(x, 16)
        return made._quantized_data, scales, factor.reshape(1)

    return script_packages(quantise)


def transformers():
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    def run(src, dst):
        made = {}
        with safe_open(src, "pt") as file:
            for name in file.keys():
                if name.endswith("_blocks"):
                    base = name.removesuffix("_blocks")
                    blocks, scales = file.get_tensor(name), file.get_tensor(f"{base}_scales")
                    made[base] = convert_moe_packed_tensors(blocks, scales).contiguous()
        torch_save(made, dst)

    return run


def timed(act):
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def each_file(script):
    """The script for a directory: one file after the other, as DeepSeek's does it."""

    def run(src, dst):
        if src.is_file():
            return script(src, dst)
        dst.mkdir()
        for path in sorted(src.iterdir()):
            script(path, dst / path.name)

    return run


def source(path, width, files):
    if files > 1:
        path.mkdir()
        for i in range(files):
            part(path / f"model-{i + 1:05}-of-{files:05}.safetensors", width, range(i * 8 // files, (i + 1) * 8 // files))
    else:
        part(path, width, range(8))


def part(path, width, numbers):
    rng = np.random.default_rng(1)
    if width == 0.5:
        shape = (4, (MEGABYTES << 20) // (8 * 4 * 2048), 128)
        tensors = {}
        for i in numbers:
            name = f"model.layers.{i}.mlp.experts.down_proj"
            tensors[f"{name}_blocks"] = rng.integers(0, 256, (*shape, 16), dtype=np.uint8)
            tensors[f"{name}_scales"] = rng.integers(115, 125, shape, dtype=np.uint8)
        return save_file(tensors, path)
    columns = 4096
    rows = (MEGABYTES << 20) // (8 * columns * width) // 128 * 128
    tensors = {}
    for i in numbers:
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


def size(path):
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.iterdir() if file.is_file())


def digest(path):
    for file in [path] if path.is_file() else path.glob("*.safetensors"):
        with open(file, "rb", buffering=0) as opened:
            hashlib.file_digest(opened, "sha256")


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


JOBS = [
    ("float32 -> bfloat16", 4, 1, "bf16", lambda: script_cast(torch.bfloat16)),
    ("bfloat16 -> float32", 2, 1, "f32", lambda: script_cast(torch.float32)),
    ("bfloat16 -> float16", 2, 1, "f16", lambda: script_cast(torch.float16)),
    ("float32 -> e4m3", 4, 1, "e4m3", lambda: script_cast(torch.float8_e4m3fn)),
    ("fp8-block -> bfloat16", 1, 1, "bf16", lambda: script_block),
    ("bfloat16 -> fp8-block", 2, 1, "fp8-block", lambda: script_quantise),
    ("bfloat16 -> mxfp4, torchao", 2, 1, "mxfp4", torchao),
    ("bfloat16 -> nvfp4, ModelOpt", 2, 1, "modelopt-nvfp4", modelopt),
    ("gpt-oss -> bfloat16", 0.5, 1, "bf16", transformers),
    ("fp8-block -> bfloat16, files", 1, 4, "bf16", lambda: script_block),
    ("bfloat16 -> fp8-block, files", 2, 4, "fp8-block", lambda: script_quantise),
]

with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else "/dev/shm") as place:
    place = Path(place)
    print(f"{'job':29} {'of cp':>6} {'not read back':>14} {'sha256':>7} {'times the script':>17}")
    for job, width, files, to, script in JOBS:
        if CHOSEN not in job:
            continue
        ending = ".safetensors" if files == 1 else ""
        src, dst, copy, other = (place / f"{name}{ending}" for name in ["src", "dst", "copy", "other"])
        source(src, width, files)

        def convert(*more):
            words = [PROGRAM, "convert", src, dst, "--to", to, "--quiet", "--force", "--progress", "none", *more]
            subprocess.run(words, check=True)

        acts = {
            "cp": lambda: subprocess.run(["cp", "-r", src, copy], check=True),
            "not read back": lambda: convert("--no-verify"),
            "convert": convert,
            "sha256": lambda: digest(dst),
        }
        if torch:
            try:
                made_by = each_file(script())
                acts["script"] = lambda: made_by(src, other)
            except ImportError as error:
                print(f"NOT RUN: the script of {job}:", error)
        best = dict.fromkeys(acts, float("inf"))
        for turn in range(TIMES):
            for name, act in acts.items():
                # Some take half a minute.
                if name == "script" and turn > 1 and best[name] > 3:
                    continue
                if name != "sha256":
                    for made in [dst, copy, other]:
                        remove(made)
                best[name] = min(best[name], timed(act))
                if name == "convert":
                    moved = (size(src) + size(dst)) / (2 * size(src))
        cp, not_read, digested = (best["cp"] / best[name] * moved for name in ["convert", "not read back", "sha256"])
        times = f"{best['script'] / best['convert']:.1f}" if "script" in best else "-"
        print(f"{job:29} {cp:6.2f} {not_read:14.2f} {digested:7.2f} {times:>17}", flush=True)
        for made in [src, dst, copy, other]:
            remove(made)
