"""What `lanecast` writes, read by the library of safetensors and by NumPy, beside arithmetic in NumPy and ml_dtypes.

    python tests/reference.py target/debug/lanecast
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

PROGRAM = Path(sys.argv[1]).resolve()
random = np.random.default_rng(1)


def run(*words):
    subprocess.run([PROGRAM, *words, "--quiet"], check=True)


def bits(x):
    return x.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[x.dtype.itemsize])


def same(a, b, what):
    assert a.dtype == b.dtype and a.shape == b.shape, (what, a.dtype, b.dtype, a.shape, b.shape)
    assert (bits(a) == bits(b)).all(), what
    print("equal:", what)


def arrays(at):
    x = random.standard_normal((300, 70)).astype(np.float32)
    for order in "CF":
        np.save(at / "x.npy", np.asarray(x, order=order))
        run("cast", at / "x.npy", at / "y.npy", "--to", "f16", "--force")
        same(np.load(at / "y.npy"), x.astype(np.float16), f"f16, order {order}")
        run("cast", at / "x.npy", at / "y.npy", "--to", "bf16", "--force")
        same(np.load(at / "y.npy").view(ml_dtypes.bfloat16), x.astype(ml_dtypes.bfloat16), f"bf16, order {order}")
    np.save(at / "x.npy", x.astype(">f8"))
    run("cast", at / "x.npy", at / "y.npy", "--to", "f32", "--force")
    same(np.load(at / "y.npy"), x, "big-endian f64 to f32")
    for order in "FC":
        np.save(at / "x.npy", np.asarray(x, order=order))
        scaled(at, x)


def scaled(at, x):
    run("cast", at / "x.npy", at / "q.npy", "--to", "int8", "--scale", "row", "--force")
    scale = (np.abs(x).max(axis=1) / np.float32(127)).astype(np.float32)
    same(np.load(at / "q.scale.npy"), scale, "a scale for each row")
    codes = np.rint(x.astype(np.float64) / scale.astype(np.float64)[:, None]).clip(-127, 127).astype(np.int8)
    same(np.load(at / "q.npy"), codes, "int8 codes")


def checkpoints(at):
    weight = random.standard_normal((256, 384)).astype(np.float32)
    save_file({"l.weight": weight, "n": weight[0]}, at / "a.safetensors")
    run("convert", at / "a.safetensors", at / "b.safetensors", "--to", "fp8-block")
    with safe_open(at / "b.safetensors", "np") as file:
        scale = file.get_tensor("l.weight_scale_inv")
        assert sorted(file.keys()) == ["l.weight", "l.weight_scale_inv", "n"]
    blocks = weight.reshape(2, 128, 3, 128)
    same(scale, (np.abs(blocks).max(axis=(1, 3)).astype(np.float64) / 448).astype(np.float32), "scales of blocks")
    run("convert", at / "b.safetensors", at / "c.safetensors", "--to", "f64")
    values = load_file(at / "c.safetensors")["l.weight"]
    exact = blocks.astype(np.float64) / scale.astype(np.float64)[:, None, :, None]
    codes = exact.clip(-448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    assert (values.reshape(blocks.shape) == codes * scale[:, None, :, None].astype(np.float64)).all()
    print("equal: values of blocks")
    run("convert", at / "a.safetensors", at / "d.safetensors", "--to", "f16")
    half = load_file(at / "d.safetensors")
    same(half["l.weight"], weight.astype(np.float16), "f16")
    # The bytes are those of the library for the same tensors.
    save_file(half, at / "e.safetensors")
    assert (at / "d.safetensors").read_bytes() == (at / "e.safetensors").read_bytes()
    print("equal: the bytes of the file")


with tempfile.TemporaryDirectory() as place:
    arrays(Path(place))
    checkpoints(Path(place))
