"""lanecast.zarr: the codec cast_value beside the one that Zarr has. Run where zarr is (ci/python --foreign)."""

import itertools
import pickle
import subprocess
import sys

import ml_dtypes
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


def test_the_map_of_a_codec_is_as_zarr_has_read_it():
    """Numbers may be texts there, integers of 64 bits are no floats, the sign of 0 counts where it is stored."""
    codec = CastValue(data_type="float32", scalar_map={"encode": [("9007199254740993", "-0"), (2**63 - 1, "NaN")]})
    x = np.array([2**53, 2**53 + 1, 2**63 - 1, 2**63 - 2], np.int64)
    result = codec._do_cast(x, target_dtype=np.dtype("float32"), scalar_map=codec._get_scalar_map("encode"))
    np.testing.assert_array_equal(result, np.float32([2**53, 0, np.nan, 2**63]))
    assert np.signbit(result[1])
    # It is still what Zarr writes and sends to workers.
    again = pickle.loads(pickle.dumps(codec))
    assert again == codec and again.to_dict() == codec.to_dict()


def test_maps_are_read_as_the_specification_has_them():
    # Of equal keys the first counts.
    for pairs, x, written in (([("NaN", 1), ("NaN", 2)], np.nan, 1), ([(0.0, 1), (-0.0, 2)], -0.0, 1)):
        codec = CastValue(data_type="uint8", scalar_map={"encode": pairs})
        again = CastValue.from_dict({"name": "cast_value", "configuration": {"data_type": "uint8", "scalar_map": {"encode": pairs}}})
        assert codec == again
        array = zarr.create_array({}, shape=2, dtype="float64", filters=[codec], fill_value=5)
        array[:] = [x, 7]
        assert array[:].tolist() == [written, 7]
    # Scalars are written as fill values are.
    codec = CastValue(data_type="bfloat16", scalar_map={"encode": [("0x7ff8000000000000", -1)], "decode": [("0xbf80", "0x7ff8000000000000")]})
    array = zarr.create_array({}, shape=2, dtype="float64", filters=[codec])
    array[:] = [np.nan, 2]
    assert np.isnan(array[0]) and array[1] == 2


def test_maps_without_their_keys_are_errors():
    for wrong in ({"encoding": [(1, 2)]}, [(1, 2)]):
        with pytest.raises(ValueError, match="scalar_map is .*; it must have the keys 'encode' and 'decode', or one of them"):
            CastValue(data_type="uint8", scalar_map=wrong)


def test_lists_of_integers_stay_exact():
    assert cast_array([2**63 + 1, 1], target_dtype="uint64").tolist() == [2**63 + 1, 1]


def test_what_a_fill_value_cannot_be_is_said():
    with pytest.raises(ValueError, match=r"the fill value, 0.0: Value 0 out of range"):
        zarr.create_array({}, shape=2, dtype="float64", filters=[CastValue(data_type="float8_e8m0fnu")])
    zarr.create_array({}, shape=2, dtype="float64", filters=[CastValue(data_type="float8_e8m0fnu")], fill_value=1)


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
        (1.0, {"scalar_map_entries": [(1, 2, 3)]}, "pair"),
    ],
)
def test_errors(value, how, message):
    with pytest.raises(ValueError, match=message):
        cast_array(np.array([1, value]), target_dtype="uint8", **how)


@pytest.mark.parametrize(("target", "end"), [("float32", "clamp' to map it to ±Infinity."), ("int64", "wrap' to handle this.")])
def test_errors_say_what_clamp_makes(target, end):
    for function in (cast_array, theirs.cast_array):
        with pytest.raises(ValueError) as error:
            function(np.array([1e300]), target_dtype=target, rounding_mode="nearest-even")
        assert str(error.value).endswith(end)


@pytest.mark.parametrize(
    ("source", "how"),
    [
        ("float64", {"scalar_map_entries": {1: 2, 5: 300}}),
        ("float64", {"scalar_map_entries": {1: 2.0}}),
        ("float64", {"scalar_map_entries": {None: 2}}),
        ("float32", {"scalar_map_entries": [("x", 2)]}),
        ("int8", {"scalar_map_entries": {1.0: 2}}),
        ("float64", {"scalar_map_entries": 7}),
        ("bool", {}),
    ],
)
def test_errors_of_types(source, how):
    errors = []
    for function in (cast_array, theirs.cast_array):
        with pytest.raises(TypeError) as error:
            function(np.zeros(1, source), target_dtype="uint8", **{"rounding_mode": "nearest-even", **how})
        errors.append(str(error.value))
    # Of two of them the words are others.
    assert errors[0] == errors[1] or all("numpy dtype" in text for text in errors) or all("iterable" in text for text in errors)


def test_maps_of_pairs():
    x = np.array([1.0, np.nan, 3])
    for entries in ([(np.nan, 9), (3, 4)], ((np.nan, 9), [3, 4]), iter([[np.nan, 9], [3, 4], [3, 5]]), {np.nan: 9, 3: 4}):
        assert cast_array(x, target_dtype="uint8", scalar_map_entries=entries).tolist() == [1, 9, 4]


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


NARROW = [
    *("int2", "int4", "uint2", "uint4", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3"),
    *("float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "bfloat16"),
]


def elements(name):
    """The finite values of a dtype, ascending, and which of them are even."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    if "int" in name:
        info = ml_dtypes.iinfo(dtype)
        values = np.arange(int(info.min), int(info.max) + 1)
        return values.astype(np.float64), values % 2 == 0
    bits = ml_dtypes.finfo(dtype).bits
    codes = np.arange(1 << bits, dtype=f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):  # Of signalling NaN.
        values = codes.view(dtype).astype(np.float64)
    order = np.argsort(values[np.isfinite(values)], kind="stable")
    values, codes = values[np.isfinite(values)][order], codes[np.isfinite(values)][order]
    values, first = np.unique(values, return_index=True)
    return values, codes[first] % 2 == 0


def test_the_names_are_those_of_the_specification():
    assert sorted(NAMES + NARROW) == sorted(cast_value.PERMITTED_DATA_TYPE_NAMES)


@pytest.mark.parametrize("name", NARROW)
def test_what_zarr_has_no_dtype_for(name):
    """Beside arithmetic: every element, the middle between two of them, and what is next to that."""
    values, even = elements(name)
    low, high = values[:-1], values[1:]
    middle = low + (high - low) / 2
    # Powers of two are all as even: then the larger one.
    ties = np.where(even[:-1] & (name != "float8_e8m0fnu"), low, high)
    x = np.concatenate([values, middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)])
    expected = np.concatenate([values, ties, low, high])
    dtype = np.dtype(getattr(ml_dtypes, name))
    there = cast_array(x, target_dtype=dtype)
    assert there.dtype == dtype
    np.testing.assert_array_equal(there.astype(np.float64), expected)
    np.testing.assert_array_equal(cast_array(there, target_dtype="float64"), expected)
    toward = cast_array(x, target_dtype=dtype, rounding_mode="towards-negative")
    np.testing.assert_array_equal(toward.astype(np.float64), np.concatenate([values, low, low, low]))
    # What is out of range, and what is no number.
    beyond = np.array([values[-1] * 2 + 1])
    with pytest.raises(ValueError, match="out of range"):
        cast_array(beyond, target_dtype=dtype)
    most = np.inf if name in ("float8_e3m4", "float8_e4m3", "float8_e5m2", "bfloat16") else values[-1]
    assert cast_array(beyond, target_dtype=dtype, out_of_range_mode="clamp").astype(np.float64) == most
    if "int" in name:
        wrapped = cast_array(beyond, target_dtype=dtype, out_of_range_mode="wrap").astype(np.int64)
        assert (wrapped - beyond.astype(np.int64)) % len(values) == 0 and values[0] <= wrapped <= values[-1]
    if most != np.inf:
        with pytest.raises(ValueError, match="without scalar_map"):
            cast_array(np.array([-np.inf]), target_dtype=dtype, out_of_range_mode="clamp")
    mapped = cast_array(np.array([1, np.nan]), target_dtype=dtype, scalar_map_entries={np.nan: 1})
    assert (mapped.astype(np.float64) == 1).all()


@pytest.mark.parametrize("name", NARROW)
def test_arrays_of_what_zarr_has_no_dtype_for(tmp_path, name):
    """Stored, and in memory; read again by the metadata alone."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = np.resize(elements(name)[0], (7, 9))
    with chosen("ours"):
        stored = zarr.create_array(
            tmp_path / "a", shape=x.shape, chunks=(2, 4), dtype="float64", fill_value=1, filters=[CastValue(data_type=name)]
        )
        stored[:] = x
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "a")[:], x)
        held = zarr.create_array(tmp_path / "b", shape=x.shape, chunks=(2, 4), dtype=dtype, fill_value=1)
        held[:5] = x[:5].astype(dtype)
        again = zarr.open_array(tmp_path / "b")
        assert again.dtype == dtype and again.fill_value == 1 and again.metadata.to_dict()["data_type"] == name
        np.testing.assert_array_equal(again[:5].astype(np.float64), x[:5])
        assert (again[5:].astype(np.float64) == 1).all()
        # Held so, and stored as something else.
        wide = zarr.create_array(
            tmp_path / "c",
            shape=x.shape,
            chunks=(2, 4),
            dtype=dtype,
            fill_value=1,
            filters=[CastValue(data_type="float32")],
            serializer=zarr.codecs.BytesCodec(),
        )
        wide[:] = x.astype(dtype)
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "c")[:].astype(np.float64), x)


@pytest.mark.parametrize(
    ("name", "given", "code", "written"),
    [
        ("bfloat16", "NaN", 0x7FC0, "NaN"),
        ("bfloat16", "0x7fc1", 0x7FC1, "0x7fc1"),
        ("bfloat16", 1.5, 0x3FC0, 1.5),
        ("float8_e5m2", "-Infinity", 0xFC, "-Infinity"),
        ("float8_e4m3fnuz", "0x80", 0x80, "NaN"),
        ("float4_e2m1fn", -6, 0xF, -6.0),
        ("uint4", 15, 15, 15),
    ],
)
def test_fill_values(name, given, code, written):
    zdtype = zarr.dtype.data_type_registry.match_json(name, zarr_format=3)
    value = zdtype.from_json_scalar(given, zarr_format=3)
    assert int(np.array([value]).view(f"u{value.dtype.itemsize}")[0]) == code
    assert zdtype.to_json_scalar(value, zarr_format=3) == written


def test_fill_values_of_new_arrays():
    for given, code in (("NaN", 0x7FC0), ("-Infinity", 0xFF80), ("0x7fc1", 0x7FC1), (1.5, 0x3FC0)):
        array = zarr.create_array({}, shape=1, dtype="bfloat16", fill_value=given)
        assert int(array[:].view("u2")[0]) == code
    with pytest.raises((TypeError, ValueError), match="'NaN' is not a value of int4"):
        zarr.create_array({}, shape=1, dtype="int4", fill_value="NaN")
    # No 0: the smallest number.
    assert zarr.create_array({}, shape=1, dtype="float8_e8m0fnu")[:].view("u1").tolist() == [0]


@pytest.mark.parametrize(
    ("name", "given"),
    [("int4", 8), ("int4", 0.5), ("uint2", True), ("uint2", "NaN"), ("float4_e2m1fn", "NaN"), ("float8_e4m3fnuz", "Infinity"), ("bfloat16", "0x7f")],
)
def test_fill_values_that_are_none(name, given):
    zdtype = zarr.dtype.data_type_registry.match_json(name, zarr_format=3)
    with pytest.raises((TypeError, ValueError), match="is not a value of|is out of the range of"):
        zdtype.from_json_scalar(given, zarr_format=3)


def test_dask_on_a_local_cluster(tmp_path):
    pytest.importorskip("distributed")
    program = """
import sys
import ml_dtypes, numpy as np, zarr, dask.array as da
from dask.distributed import Client, LocalCluster
from lanecast.zarr import CastValue

def main():
    zarr.config.set({"codecs.cast_value": "lanecast.zarr.CastValue"})
    with LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, Client(cluster) as client:
        client.run(lambda: __import__("zarr").config.set({"codecs.cast_value": "lanecast.zarr.CastValue"}))
        x = np.arange(10000.0).reshape(100, 100) / 7
        array = zarr.create_array(sys.argv[1], shape=x.shape, chunks=(20, 50), dtype="float64",
                                  filters=[CastValue(data_type="float16")])
        da.from_array(x, chunks=(20, 50)).store(array, lock=False)
        back = da.from_zarr(sys.argv[1])
        total = back.sum().compute()
        expected = x.astype(np.float16).astype(np.float64)
        assert (back.compute() == expected).all() and total == expected.sum()
        # A dtype that Zarr does not have, which each worker must know of.
        array = zarr.create_array(sys.argv[1] + "b", shape=x.shape, chunks=(20, 50), dtype="float64",
                                  filters=[CastValue(data_type="bfloat16")])
        da.from_array(x, chunks=(20, 50)).store(array, lock=False)
        assert (da.from_zarr(sys.argv[1] + "b").compute() == x.astype(ml_dtypes.bfloat16).astype(np.float64)).all()
        assert len(client.scheduler_info()["workers"]) == 3
    print("the same")

if __name__ == "__main__":
    main()
"""
    script = tmp_path / "program.py"
    script.write_text(program)
    ran = subprocess.run([sys.executable, str(script), str(tmp_path / "d.zarr")], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "the same\n", ran
