"""Arrays written by zarr-python (`write DIR`), and those that zarrs has written looked at (`check DIR`): see examples/exchange.rs."""

import itertools
import json
import pathlib
import sys

import numpy as np
import zarr
from zarr.codecs import BytesCodec, CastValue

ROUNDING = ["nearest-even", "nearest-away", "towards-zero", "towards-positive", "towards-negative"]
NAMES = [*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32", "float64"]


def arrays():
    """Name, values and configuration of each: all pairs of the dtypes that zarr-python has by each rule, the roundings in turns."""
    random = np.random.default_rng(1)
    turns = itertools.cycle(ROUNDING)
    for source, target in itertools.product(NAMES, NAMES):
        for rule, rounding in zip((None, "clamp", "wrap"), turns):
            whole = not target.startswith("float")
            if rule == "wrap" and not whole:
                continue
            # Small enough that they come back: what is read is cast by the same rules.
            values = random.integers(0, 127, 50).astype(source)
            if source.startswith("float"):
                values += (random.integers(0, 8, 50) / 8).astype(source)
            how = {"data_type": target, "rounding": rounding}
            if rule == "clamp" and not source.startswith("float") and whole:
                info = np.iinfo(source)
                values = random.integers(info.min, info.max, 50, dtype=source, endpoint=True)
            if rule is not None:
                how["out_of_range"] = rule
            yield f"{source}-{target}-{rounding}-{rule}", values, how
    for target in ("uint8", "int16"):
        values = np.array([1.5, np.nan, 7, np.inf, -np.inf, 0.0, -0.0, 300 if target == "int16" else 30])
        maps = {
            "encode": [("NaN", 100), ("Infinity", 101), ("-Infinity", 102)],
            "decode": [(100, "NaN"), (101, "Infinity"), (102, "-Infinity")],
        }
        yield f"map-{target}", values, {"data_type": target, "scalar_map": maps}


def write(root):
    names = []
    for name, values, how in arrays():
        array = zarr.create_array(
            root / "python" / name, shape=values.shape, chunks=(16,), dtype=values.dtype, fill_value=0,
            filters=[CastValue(**how)], serializer=BytesCodec(), compressors=None,
        )
        array[:] = values
        (root / f"{name}.src").write_bytes(values.tobytes())
        (root / f"{name}.out").write_bytes(array[:].tobytes())
        names.append(name)
    (root / "names").write_text("".join(f"{name}\n" for name in names))


def check(root):
    names = (root / "names").read_text().split()
    for name in names:
        # A codec without configuration is its name alone in what zarrs writes, which zarr-python does not read.
        path = root / "zarrs" / name / "zarr.json"
        metadata = json.loads(path.read_text())
        metadata["codecs"] = [codec if isinstance(codec, dict) else {"name": codec} for codec in metadata["codecs"]]
        path.write_text(json.dumps(metadata))
        found = zarr.open_array(root / "zarrs" / name, mode="r")[:].tobytes()
        assert found == (root / f"{name}.out").read_bytes(), f"{name}: zarr-python reads other values"
        chunks = sorted(path.relative_to(root / "python" / name) for path in (root / "python" / name).glob("c/**/*") if path.is_file())
        assert chunks, name
        for chunk in chunks:
            ours, theirs = (root / by / name / chunk for by in ("zarrs", "python"))
            assert ours.read_bytes() == theirs.read_bytes(), f"{name}: other bytes in {chunk}"
    print(f"{len(names)} arrays of zarrs read by zarr-python, with the same bytes in their chunks")


{"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
