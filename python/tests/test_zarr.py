"""lanecast.zarr: the codec cast_value beside the one that Zarr has. Run where zarr is (ci/python --foreign)."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from common import codes, hard

zarr = pytest.importorskip("zarr", minversion="3.4")
theirs = pytest.importorskip("cast_value_rs")
cast_value = pytest.importorskip("zarr.codecs.cast_value")

from lanecast.zarr import CastValue, cast_array  # noqa: E402

NAMES = [*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32", "float64"]
ROUNDING = ["nearest-even", "nearest-away", "towards-zero", "towards-positive", "towards-negative"]


def answer(function, x, **how):
    """What a cast gives, or the kind of its error."""
    try:
        return function(x, **how)
    except ValueError as error:
        text = str(error)
        return "range" if "out of range" in text else "scalar_map" if "without scalar_map" in text else text


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_the_same_as_cast_value_rs(source, target):
    """Element by element, because one that is refused hides the others."""
    values = np.random.default_rng(1).permutation(hard(np.dtype(source), random=100))[:60]
    maps = [None, {0: 5, 3: 4}]
    if source.startswith("float"):
        maps = [None, {np.nan: 1, np.inf: 2, -np.inf: 3, 0: 5}]
    for rounding, mode, entries in itertools.product(ROUNDING, (None, "clamp", "wrap"), maps):
        if mode == "wrap" and target.startswith("float"):
            continue
        how = {"target_dtype": target, "rounding_mode": rounding, "out_of_range_mode": mode, "scalar_map_entries": entries}
        kept = []
        for x in values.reshape(-1, 1):
            ours, expected = answer(cast_array, x, **how), answer(theirs.cast_array, x, **how)
            if isinstance(expected, str):
                assert ours == expected, (x, how)
                continue
            assert ours.dtype == expected.dtype
            assert codes(ours) == codes(expected) or (np.isnan(ours) and np.isnan(expected)), (x, how)
            kept.append(x)
        # And together, those that are cast.
        if kept:
            together = np.concatenate(kept)
            ours, expected = cast_array(together, **how), theirs.cast_array(together, **how)
            np.testing.assert_array_equal(ours, expected)


def test_layouts():
    x = np.arange(24.0).reshape(2, 3, 4)
    x[1, 2, 3] = np.nan
    for view in (x, x.T, x[:, ::-1, ::2], np.asfortranarray(x), x.astype(">f8"), x[1, 2, 3:], x[0, 0, 0], x[:0]):
        result = cast_array(view, target_dtype="int16", scalar_map_entries={np.nan: -9})
        expected = np.where(np.isnan(view), -9, view).astype("int16")
        assert result.shape == view.shape and (result == expected).all()


@pytest.mark.parametrize(
    ("value", "how", "message"),
    [
        (300.0, {}, r"Value 300 out of range \[0, 255\]. Set out_of_range='clamp' or out_of_range='wrap'"),
        (np.nan, {}, "Cannot cast NaN to integer type without scalar_map"),
        (-np.inf, {"out_of_range_mode": "clamp"}, "Cannot cast -inf to integer type without scalar_map"),
        (1.0, {"rounding_mode": "up"}, "Unknown rounding mode: up"),
        (1.0, {"out_of_range_mode": "saturate"}, "Unknown out_of_range mode: saturate"),
        (1.0, {"scalar_map_entries": {1: 300}}, "scalar_map target value 300 is out of the range of dtype uint8"),
    ],
)
def test_errors(value, how, message):
    with pytest.raises(ValueError, match=message):
        cast_array(np.array([1, value]), target_dtype="uint8", **how)


CODECS = {"ours": CastValue, "theirs": cast_value.CastValue}
MAP = {"encode": [("NaN", 0)], "decode": [(0, "NaN")]}


def chosen(who):
    """Zarr's registry finds the codec of the name that is configured."""
    codec = CODECS[who]
    zarr.registry.register_codec("cast_value", codec)
    return zarr.config.set({"codecs.cast_value": f"{codec.__module__}.{codec.__qualname__}"})


@pytest.mark.parametrize(("writer", "reader"), list(itertools.product(CODECS, CODECS)))
def test_files_are_exchanged(tmp_path, writer, reader):
    x = np.random.default_rng(1).standard_normal((50, 70)) * 40 + 100
    x[3, 4] = np.nan
    how = {"data_type": "uint8", "rounding": "towards-zero", "out_of_range": "clamp", "scalar_map": MAP}
    with chosen(writer):
        array = zarr.create_array(
            tmp_path / "a.zarr", shape=x.shape, chunks=(16, 32), dtype="float64", filters=[CODECS[writer](**how)]
        )
        array[:] = x
    with chosen(reader):
        again = zarr.open_array(tmp_path / "a.zarr")
        assert type(again.filters[0]) is CODECS[reader]
        expected = np.clip(np.trunc(x), 0, 255)
        expected[expected == 0] = np.nan
        np.testing.assert_array_equal(again[:], expected)
        np.testing.assert_array_equal(again[7:20, ::3], expected[7:20, ::3])


def test_dask_on_a_local_cluster(tmp_path):
    pytest.importorskip("distributed")
    program = """
import sys
import numpy as np, zarr, dask.array as da
from dask.distributed import Client, LocalCluster
from lanecast.zarr import CastValue

def main():
    zarr.config.set({"codecs.cast_value": "lanecast.zarr.CastValue"})
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, Client(cluster) as client:
        client.run(lambda: __import__("zarr").config.set({"codecs.cast_value": "lanecast.zarr.CastValue"}))
        x = np.arange(10000.0).reshape(100, 100) / 7
        array = zarr.create_array(sys.argv[1], shape=x.shape, chunks=(20, 50), dtype="float64",
                                  filters=[CastValue(data_type="float16")])
        da.from_array(x, chunks=(20, 50)).store(array, lock=False)
        back = da.from_zarr(sys.argv[1])
        total = back.sum().compute()
        expected = x.astype(np.float16).astype(np.float64)
        assert (back.compute() == expected).all() and total == expected.sum()
    print("the same")

if __name__ == "__main__":
    main()
"""
    script = tmp_path / "program.py"
    script.write_text(program)
    ran = subprocess.run([sys.executable, str(script), str(tmp_path / "d.zarr")], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "the same\n", ran
