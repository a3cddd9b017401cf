"""patch(): nobody can tell a patched cast from an unpatched one, but by the clock."""

import os
import subprocess
import sys
import sysconfig
import threading
import warnings

import lanecast
import ml_dtypes
import numpy as np
import pytest
from common import DTYPES, NAMES, PACKED_BITS, codes, from_codes, hard, is_complex, random_values
from lanecast import _lanecast


@pytest.fixture(autouse=True)
def unpatched():
    """Kernels cast whatever they can, even where the originals are faster: else these would be compared with themselves."""
    lanecast.unpatch()
    _lanecast.leave_few(1)
    yield
    _lanecast.leave_few(0)
    lanecast.unpatch()


def events_of(call):
    """What a call gives, and every warning and floating-point error on the way, in order."""
    events = []
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="call", call=lambda e, _: events.append(e)):
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:  # noqa: BLE001  (whatever it is must be the same)
            result, events = None, [*events, (type(error), str(error))]
    return result, events, [(w.category, str(w.message)) for w in caught]


def look(result):
    """All that can be seen of an array."""
    if not isinstance(result, np.ndarray):
        return type(result), repr(result)
    return result.dtype, result.shape, result.strides, result.flags.c_contiguous, codes(result).tobytes()


def both(calls, **how):
    """Runs calls unpatched and patched; each must look the same."""
    calls = list(calls)

    def run(call):
        result, events, caught = events_of(call)
        return look(result), events, caught

    expected = [run(call) for call in calls]
    info = lanecast.patch(**how)
    assert info.active
    found = [run(call) for call in calls]
    info = lanecast.patch_info()
    lanecast.unpatch()
    for i, (a, b) in enumerate(zip(expected, found)):
        assert a == b, i
    return info


@pytest.mark.parametrize("source", DTYPES, ids=NAMES.get)
def test_every_pair_in_small_calls(source):
    """Small, so that most calls have nothing for the original: else one element of it would hide all others."""
    values = hard(source, random=500)
    if source.itemsize > 2:
        rng = np.random.default_rng(3)
        values = values[rng.permutation(len(values))[:6000]] if len(values) > 6000 else values
    values = np.resize(values, -(-len(values) // 256) * 256)
    # As they come, in which neighbours are alike, and mixed.
    sets = [values] if source.itemsize == 2 else [values, values[np.random.default_rng(1).permutation(len(values))]]
    blocks = [part for whole in sets for part in np.split(whole, len(whole) // 256)]
    blocks += [part[::2] for whole in sets for part in np.split(np.repeat(whole, 2), len(whole) // 128)]
    for target in DTYPES:
        if target != source:
            both([lambda block=block, target=target: block.astype(target) for block in blocks])


@pytest.mark.parametrize("source", DTYPES, ids=NAMES.get)
def test_every_pair_in_one_call(source):
    values = hard(source)
    if is_complex(source) and source.itemsize == 4:
        values = values[::7]  # NumPy warns of every element.
    for order in (values, np.resize(values, 9001)[::-1], np.repeat(values, 2)[::2]):
        both([lambda target=target, order=order: order.astype(target) for target in DTYPES])


@pytest.mark.parametrize("source", DTYPES, ids=NAMES.get)
def test_every_pair_left_to_the_original(source):
    """By NumPy's loop, or without it where that only calls a function."""
    _lanecast.leave_few(1 << 40)
    values = np.resize(hard(source, random=500), 4096)
    rows = values.reshape(-1, 64)[:, :60]
    for target in DTYPES:
        if target != source:
            both([lambda x=x, target=target: x.astype(target) for x in (*np.split(values, 16), values[::2], rows, rows[:, ::3])])


@pytest.mark.parametrize("name", ["bool", *PACKED_BITS])
def test_bits_that_no_element_has(name):
    """A view of other bytes has them, and every original treats them in its own way."""
    dtype = lanecast.dtypes()[name]
    whole = np.repeat(np.arange(256, dtype=np.uint8), 200).view(dtype)
    mixed = np.where(np.arange(6000) == 4321, 255, 1).astype(np.uint8).view(dtype)
    for target in DTYPES:
        if target != dtype:
            both([lambda x=x, target=target: x.astype(target) for x in (*np.split(whole, 256), whole[::3], mixed)])


def quiet(dtype, n):
    """Values that no cast warns of."""
    return (1 + np.arange(n) % 3).astype(dtype)


CHOSEN = [
    ("float32", "float8_e4m3fn"), ("float8_e4m3fn", "float32"), ("float32", "float8_e5m2"), ("float8_e5m2", "float32"),
    ("float16", "float8_e4m3fn"), ("bfloat16", "float8_e4m3fn"), ("float8_e4m3fn", "bfloat16"),
    ("float8_e4m3fn", "float16"), ("float32", "bfloat16"), ("bfloat16", "float32"), ("float32", "float16"),
    ("float16", "float32"), ("float64", "bfloat16"), ("bfloat16", "float64"), ("float64", "float16"),
    ("float16", "float64"), ("float64", "float8_e5m2fnuz"), ("float32", "float8_e8m0fnu"), ("float8_e8m0fnu", "float32"),
    ("float32", "float4_e2m1fn"), ("float4_e2m1fn", "float32"), ("float32", "float6_e3m2fn"), ("float32", "int4"),
    ("int4", "float32"), ("int4", "int8"), ("int64", "bfloat16"), ("uint32", "float16"), ("int32", "float8_e4m3fn"),
    ("bfloat16", "int8"), ("float8_e5m2", "int32"), ("float16", "int16"), ("complex64", "bfloat16"),
    ("complex128", "float8_e4m3fn"), ("float16", "complex64"), ("bfloat16", "complex128"), ("bool", "float8_e3m4"),
]


@pytest.mark.parametrize(("source", "target"), CHOSEN)
@pytest.mark.parametrize("kind", ["quiet", "hard"])
def test_lattice(source, target, kind):
    source, target = lanecast.dtypes()[source], lanecast.dtypes()[target]
    size = 4200
    values = quiet(source, size) if kind == "quiet" else random_values(source, size)
    lengths = [*range(0, 41), 100, *range(126, 131), *range(1022, 1027), *range(4094, 4099)]
    calls = []
    for n in lengths:
        calls.append(lambda n=n: values[:n].astype(target))

        def into(n=n):
            out = np.zeros(n, target)
            out[...] = values[:n]
            return out

        calls.append(into)
    for step in (2, 3, 5, -1, -2):
        for n in (0, 1, 15, 16, 17, 128, 700):
            view = values[:: abs(step)][:n]
            view = view if step > 0 else values[: n * -step][::step]
            calls.append(lambda view=view: view.astype(target))

            def scattered(view=view, step=step):
                out = np.zeros((len(view) + 1) * abs(step), target)
                part = out[::step][: len(view)]
                part[...] = view
                return out

            calls.append(scattered)
    calls.append(lambda: np.broadcast_to(values[:1], 300).astype(target))
    raw = np.zeros(values.nbytes + 1, np.uint8)[1:].view(source)
    raw[...] = values
    calls += [lambda: raw[:999].astype(target), lambda: raw[:999:3].astype(target)]
    swapped = [values.astype(source.newbyteorder())] if source.itemsize > 1 and source.isbuiltin == 1 else []
    for other in swapped:
        calls += [lambda other=other: other.astype(target), lambda other=other: other[::-3].astype(target)]
    if target.itemsize > 1 and target.isbuiltin == 1:
        calls.append(lambda: values.astype(target.newbyteorder()))
    cube = values[:4096].reshape(8, 16, 32)
    for axes in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        for order in "CFKA":
            calls.append(lambda axes=axes, order=order: cube.transpose(axes).astype(target, order=order))
    calls += [lambda: cube[:, ::-2, 3:].astype(target), lambda: cube[..., :5].astype(target)]
    both(calls)


@pytest.mark.parametrize(("source", "target"), CHOSEN)
def test_routes(source, target):
    source, target = lanecast.dtypes()[source], lanecast.dtypes()[target]
    values = random_values(source, 2000)
    mask = np.arange(2000) % 3 == 0

    def assigned(index):
        out = np.zeros(2000, target)
        out[index] = values[index]
        return out

    def masked():
        out = np.zeros(2000, target)
        np.copyto(out, values, where=mask, casting="unsafe")
        return out

    def record():
        out = np.zeros(2000, [("a", target), ("b", "u1"), ("c", target)])
        out["a"] = values
        out["c"] = values[::-1]
        return np.stack([out["a"], out["c"]])

    def structs():
        given = np.zeros(2000, [("a", source), ("b", "i2")])
        given["a"] = values
        return given.astype([("a", target), ("b", "i4")])["a"].copy()

    def iterated():
        with np.nditer([values], ["buffered"], [["readonly"]], op_dtypes=[target], casting="unsafe") as it:
            return np.array([x.item() for x in it][:5], dtype=object).astype(str).tolist()

    def overlapping(start, step):
        base = np.zeros(8000 * max(source.itemsize, target.itemsize), np.uint8)
        given = base[: 2000 * source.itemsize].view(source)
        given[...] = values
        end = start + 2000 * step * target.itemsize
        out = base[start:end].view(target)[::step][:2000]
        out[...] = given[: len(out)]
        return base

    calls = [
        lambda: np.array(values, dtype=target),
        lambda: np.asarray(values, dtype=target),
        lambda: assigned(slice(3, 1999, 2)),
        lambda: assigned(np.arange(1, 2000, 7)),
        lambda: assigned(mask),
        masked,
        record,
        structs,
        lambda: np.concatenate([values, values[::2]], dtype=target, casting="unsafe"),
        lambda: np.stack([values, values[::-1]], dtype=target, casting="unsafe"),
        lambda: np.ma.masked_array(values, mask).astype(target).data,
        lambda: np.fromiter(values[:50], target),
        lambda: np.where(mask, values, np.zeros(1, target)),
        lambda: np.add(values[:200], values[:200], dtype=target, casting="unsafe"),
        lambda: np.add.reduce(values[:200], dtype=target),
        lambda: values.copy().astype(target, copy=False),
        iterated,
        *(lambda start=start, step=step: overlapping(start, step) for start in (0, 8, 64) for step in (1, 2)),
    ]
    if NAMES[source] not in ("bool",):
        calls += [
            lambda level=level: values[:100].astype(target, casting=level)
            for level in ("no", "equiv", "safe", "same_kind", "same_value", "unsafe")
        ]
    both(calls)


@pytest.mark.parametrize("how", ["ignore", "warn", "raise", "call"])
@pytest.mark.parametrize("kind", ["over", "under", "invalid"])
def test_errstate(how, kind):
    arrays = {
        "float32": [np.full(100, 1e30), np.full(100, 1e-30), np.full(100, np.nan), np.full(100, np.inf)],
        "float64": [np.full(100, 1e300), np.full(100, 1e-300), np.full(100, np.nan), np.full(100, np.inf)],
        "float16": [np.full(100, 60000.0), np.full(100, 1e-7), np.full(100, np.nan)],
        "bfloat16": [np.full(100, 1e38), np.full(100, 1e-38), np.full(100, np.nan), np.full(100, -5.0)],
    }
    signaling = {"float32": 0x7F800001, "float64": 0x7FF0000000000001, "float16": 0x7C01, "bfloat16": 0x7F81}
    calls = []
    for name, values in arrays.items():
        dtype = lanecast.dtypes()[name]
        with np.errstate(all="ignore"):
            given = [value.astype(dtype) for value in values]
        given.append(from_codes([signaling[name]] * 100, dtype))
        mixed = np.ones(5000, dtype)
        for i, value in enumerate(given):
            mixed[i * 700 + 31] = value[0]
        for x in [*given, mixed]:
            for target in DTYPES:

                def call(x=x, target=target):
                    seen = []
                    with np.errstate(**{kind: how}, call=lambda e, _: seen.append(e)):
                        result = x.astype(target)
                    # Seen besides what is raised or warned of.
                    return np.frombuffer(codes(result).tobytes() + repr(seen).encode(), np.uint8)

                calls.append(call)
    both(calls)


def test_flags_of_others_do_not_hide_ours():
    """A flag that is raised before a cast is cleared by NumPy, and one of a cast does not stay for the next."""
    tiny, ones = np.full(300, 1e-30, np.float32), np.ones(300, np.float32)
    both([lambda x=x: x.astype(np.float16) for x in (tiny, ones, tiny, tiny, ones)])


def test_nested_and_idempotent():
    assert not lanecast.is_patched()
    with lanecast.patched() as outer:
        assert lanecast.is_patched() and outer.exact
        with lanecast.patched(exact=False, threads=2, numpy=False) as inner:
            assert (inner.exact, inner.threads, inner.numpy) == (False, 2, False)
            assert ("float32", "float16") not in inner.pairs and ("float32", "float8_e8m0fnu") in inner.pairs
        info = lanecast.patch_info()
        assert (info.exact, info.threads, info.numpy) == (True, 1, True)
        assert ("float32", "float16") in info.pairs
        again = lanecast.patch()
        assert again.pairs == info.pairs
        with pytest.raises(ZeroDivisionError), lanecast.patched():
            1 // 0
        assert lanecast.is_patched()
    assert not lanecast.is_patched()
    assert repr(lanecast.patch_info()) == "PatchInfo(not patched)"


def test_inexact_is_the_contract():
    x = np.concatenate([hard(np.float64), np.full(40, np.nan)])
    lanecast.patch(exact=False)
    for target in ("bfloat16", "float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn"):
        target = lanecast.dtypes()[target]
        result, events, caught = events_of(lambda target=target: x.astype(target))
        assert not events and not caught
        expected = codes(lanecast.astype(x, target, profile="ml_dtypes"))
        assert (codes(result) == expected).all()
        # As many as there may be, and over each other.
        for n in (1, 7, 100):
            assert (codes(x[-n:].astype(target)) == expected[-n:]).all()
        base = x.copy()
        out = base.view(np.uint8)[: len(x) * target.itemsize].view(target)
        out[...] = base
        assert (codes(out) == expected).all()


def test_bad_arguments_change_nothing():
    for how, error, message in (
        ({"threads": 0}, ValueError, "threads is 0; it must be a positive integer, or None for all cores"),
        ({"threads": -1}, ValueError, "threads is -1; it must be"),
        ({"threads": 1 << 70}, ValueError, "threads is 1180591620717411303424; it must be"),
        ({"threads": "two"}, ValueError, "threads is 'two'; it must be"),
        ({"threads": 1.5}, ValueError, "threads is 1.5; it must be"),
        ({"threads": True}, TypeError, "threads is True; it must be"),
        ({"exact": 1}, TypeError, "exact is 1; it must be True or False"),
        ({"numpy": None}, TypeError, "numpy is None; it must be True or False"),
    ):
        with pytest.raises(error, match=message):
            lanecast.patch(**how)
        with pytest.raises(error, match=message), lanecast.patched(**how):
            pass
    with pytest.raises(TypeError):
        lanecast.patch(True)
    assert not lanecast.is_patched()
    assert lanecast.patch(threads=np.int64(2)).threads == 2


def test_info():
    info = lanecast.patch()
    assert info.skipped["float32", "float8_e8m0fnu"].startswith("float8_e8m0fnu of subnormals")
    assert info.skipped["complex64", "int4"] == "casts of complex to integers of 2 and 4 bits would gain little"
    assert "skipped" in repr(info)
    before = info.counts["float32", "float8_e5m2"][0]
    np.ones(100, np.float32).astype(ml_dtypes.float8_e5m2)
    assert lanecast.patch_info().counts["float32", "float8_e5m2"][0] == before + 1
    assert "<table>" in lanecast.patch_info()._repr_html_()


def test_the_variable():
    program = "import lanecast; print(lanecast.patch(), lanecast.is_patched())"
    environment = {**os.environ, "LANECAST_NO_PATCH": "1"}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert ran.stdout == "PatchInfo(not patched: the environment variable LANECAST_NO_PATCH is set) False\n", ran


def test_importing_patches_nothing():
    program = "import lanecast; print(lanecast.is_patched())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "False\n", ran


def test_casts_while_others_patch():
    x = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = [codes(x.astype(target)) for target in (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, np.float16)]
    wrong, stop = [], threading.Event()

    def work():
        with np.errstate(all="ignore"):
            while not stop.is_set():
                for target, codes_of in zip((ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, np.float16), expected):
                    if (codes(x.astype(target)) != codes_of).any():
                        wrong.append(target)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for i in range(40):
        lanecast.patch(threads=1 + i % 2)
        lanecast.unpatch()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    # A free-threaded Python has not been given a GIL by a module that does not say that it needs none.
    assert not sysconfig.get_config_var("Py_GIL_DISABLED") or not sys._is_gil_enabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_casts():
    program = """
import os, sys, warnings
import numpy as np, ml_dtypes, lanecast
warnings.simplefilter("ignore")
lanecast.patch(threads=None)
x = np.ones(1 << 23, np.float32)
expected = x.astype(ml_dtypes.bfloat16).tobytes()
lanecast.astype(x, "float16")
child = os.fork()
if child == 0:
    same = x.astype(ml_dtypes.bfloat16).tobytes() == expected and lanecast.is_patched()
    lanecast.astype(x, "float16")
    os._exit(0 if same else 1)
print(os.waitpid(child, 0)[1])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "0\n", ran


def test_large_casts_on_threads():
    x = np.random.default_rng(1).standard_normal(5_000_003).astype(np.float32)
    x[::1_000_000] = np.nan
    x[123_456] = from_codes([0x7F800001], np.float32)[0]
    for threads in (2, None):
        both(
            [lambda target=target: x.astype(target) for target in (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16,
                                                                   ml_dtypes.float4_e2m1fn, np.float16)],
            threads=threads,
        )


def test_what_is_quiet_is_ours():
    """Of values that no cast warns of, the original is never asked: else the tests above would compare it with itself."""
    info = lanecast.patch()
    # ml_dtypes had fewer casts before 0.5.2.
    assert len(info.pairs) > (550 if ml_dtypes.__version__ in ("0.5.0", "0.5.1") else 600)
    table = lanecast.dtypes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for source, target in info.pairs:
            # 2 and 3 are no values of int2 (and float8_e8m0fnu has 4 instead of 3), for which ml_dtypes warns from 0.7 on.
            x = np.ones(3000, table[source]) if target in ("int2", "uint2") else quiet(table[source], 3000)
            before = lanecast.patch_info().counts[source, target]
            x.astype(table[target])
            x[::2].astype(table[target])
            after = lanecast.patch_info().counts[source, target]
            assert (after[0] - before[0], after[1]) == (2, before[1]), (source, target)


def test_few_elements_are_left_to_what_is_faster():
    _lanecast.leave_few(0)
    info = lanecast.patch()
    assert info.least.keys() == info.counts.keys()
    for pair, both_ways in info.least.items():
        for least in both_ways:
            assert least is None or 8 <= least <= 4096, pair
    # To look which is faster takes time once.
    assert lanecast.patch().least == info.least
    least = info.least["float32", "float8_e5m2"][0]
    assert least is not None and least <= 256
    counts = [info.counts["float32", "float8_e5m2"][0]]
    for n in (least - 1, least, 5000):
        np.ones(n, np.float32).astype(ml_dtypes.float8_e5m2)
        counts.append(lanecast.patch_info().counts["float32", "float8_e5m2"][0])
    assert [b - a for a, b in zip(counts, counts[1:])] == [0, 1, 1]
    # What is never cast by a kernel has NumPy's own loop, before which nothing counts. (C has integers of 64 bits twice.)
    table = lanecast.dtypes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (source, target), (dense, _) in info.least.items():
            if "int64" in source + target:
                continue
            before = lanecast.patch_info().counts[source, target]
            quiet(table[source], 5000).astype(table[target])
            calls = lanecast.patch_info().counts[source, target][0] - before[0]
            assert calls == (0 if dense is None else 1), (source, target)
    # Where the original would answer otherwise, it is not asked.
    inexact = lanecast.patch(exact=False)
    assert set(inexact.least.values()) == {(0, 0)}


def method_of(source, target):
    """The address of the method of a cast."""
    import ctypes

    from numpy._core._multiarray_umath import _get_castingimpl

    dtypes = lanecast.dtypes()
    bound = _get_castingimpl(type(dtypes[source]), type(dtypes[target]))
    return ctypes.c_size_t.from_address(id(bound) + object.__basicsize__ + ctypes.sizeof(ctypes.c_size_t)).value


def test_what_a_stranger_changes_stays():
    import ctypes

    place = method_of("float32", "float8_e5m2") + object.__basicsize__ + 6 * 8
    pointer = ctypes.c_size_t.from_address(place)
    before = pointer.value
    lanecast.patch()
    assert pointer.value != before
    # Anything but ours; what was there before does no harm.
    pointer.value = before
    lanecast.unpatch()
    info = lanecast.patch_info()
    assert pointer.value == before and not info.active
    assert info.skipped == {("float32", "float8_e5m2"): "other code has changed it since patch(); it was left as it is"}
    lanecast.patch()
    assert pointer.value != before


def test_an_unknown_layout_is_refused():
    import ctypes

    # A flag that no method of a cast has, and of which NumPy takes no notice.
    flags = ctypes.c_int.from_address(method_of("float16", "float32") + object.__basicsize__ + 8 + 3 * 4)
    flags.value |= 1 << 25
    try:
        with pytest.raises(lanecast.PatchError, match="nothing was patched: the cast of float16 to float32: its method"):
            lanecast.patch()
    finally:
        flags.value &= ~(1 << 25)
    assert not lanecast.is_patched()
    assert lanecast.patch().active


def test_the_benchmark_finds_what_is_slow(capsys):
    """Kernels cast four elements here, which NumPy casts in a third of the time: in every process."""
    from lanecast import _bench

    pairs = [("float16", "float32"), ("float32", "float8_e4m3fn")]
    how = {"seconds": 1, "check": True, "pairs": pairs}
    assert _bench.sweep(**how, shapes=[(1024, 4, 1), (1, 1000, 1)], few=1) == 1
    shown = capsys.readouterr().out
    assert "FAILED: 1024 inner loops of 4: " in shown and "FAILED: 1000" not in shown
    assert "float16 to float32: 0." in shown and "were measured again in 6 more processes" in shown
    # Left to NumPy's own loop they are fast enough.
    assert _bench.sweep(**how, shapes=[(1024, 4, 1)]) == 0
    assert "FAILED" not in capsys.readouterr().out


def test_filters_of_warnings_are_not_touched():
    """Threads that patch leave the filters as they are, and another thread loses no warning meanwhile."""
    before, done, lost = list(warnings.filters), threading.Event(), []

    def warn():
        while not done.is_set():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warnings.warn("x")
            lost.extend([None] * (len(caught) != 1))

    def patch():
        for _ in range(5):
            lanecast.patch()
            lanecast.unpatch()

    warner = threading.Thread(target=warn)
    warner.start()
    patch()
    done.set()
    warner.join()
    assert not lost
    patchers = [threading.Thread(target=patch) for _ in range(4)]
    for thread in patchers:
        thread.start()
    for thread in patchers:
        thread.join()
    lanecast.unpatch()
    assert warnings.filters == before
