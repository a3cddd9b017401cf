"""quantize, dequantize and requantize against the recorded answers of packages, in every layout, and what they refuse."""

import pathlib

import lanecast
import ml_dtypes
import numpy as np
import pytest
from common import PACKED_BITS, codes, from_codes, layouts

FIXTURES = pathlib.Path(__file__).parents[2] / "tests" / "fixtures"


def rows():
    for number, line in enumerate((FIXTURES / "scaled.tsv").read_text().splitlines()):
        if line.startswith(("quantize", "dequantize", "requantize")):
            row = line.split("\t")
            yield pytest.param(row, id=f"scaled.tsv:{number + 1}:{row[1]}")


def elements(text, name, shape, high_first=False):
    """An array with these bytes, or a PackedArray."""
    data = np.frombuffer(bytes.fromhex(text), np.uint8)
    if name in PACKED_BITS:
        return lanecast.PackedArray(data, name, shape, high_first)
    return data.view(lanecast.dtypes()[name]).reshape(shape)


def lengths(text):
    return tuple(int(length) for length in text.split("x"))


def the_same(ours, theirs, is_package):
    ours, theirs = (a.unpack() if isinstance(a, lanecast.PackedArray) else a for a in (ours, theirs))
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    same = codes(ours) == codes(theirs)
    if is_package:
        with np.errstate(all="ignore"):
            same |= np.isnan(ours.astype(np.float64)) & np.isnan(theirs.astype(np.float64))
    assert same.all()


@pytest.mark.parametrize("row", list(rows()))
def test_recorded(row):
    op, _, profile, source, target, shape, block, scale_dtype, words, src, scale, dst, made_by = row
    if any(lanecast.dtypes()[name] is None for name in (source, target, scale_dtype)):
        pytest.skip("the installed ml_dtypes has no such dtype")
    words = dict(word.split("=") for word in words.split(",") if "=" in word)
    shape, is_package, high = lengths(shape), made_by != "exact rationals", words.get("packing") == "high_first"
    fields = {"profile": profile}
    if "layout" in words:
        fields["layout"] = "swizzle_32x4x4"
    if "g" in words and "tensor" in words:
        g = float(np.frombuffer(bytes.fromhex(words["g"]), np.float32)[0])
        is_computed = words["tensor"].startswith("compute")
        fields["tensor_scale"] = "compute" if is_computed else g
        fields["tensor_scale_divides"] = words["tensor"].endswith("divide")
    if "rule" in words and op != "requantize":
        fields["rule"] = words["rule"]
    scaling = lanecast.Scaling.blocks(lengths(block), scale_dtype, **fields)
    options = {"stochastic": (int(words["seed"]), int(words["first"]))} if "seed" in words else {}
    if words.get("saturate") == "0":
        options["saturate"] = False
    scale_shape = scaling.scale_shape(shape) if "layout" not in words else (-1,)
    src = elements(src, source, shape, high)
    dst = elements(dst, target, shape, high)
    how = {"packed": isinstance(dst, lanecast.PackedArray), "high_first": high, **options}
    integer = target if op == "quantize" else source
    zeros = None
    if "zero" in words:
        values = [int(zero) for zero in words["zero"].split("/")]
        zeros = from_codes(np.array(values, np.int16).astype(np.uint8), lanecast.dtypes()[integer]).reshape(scale_shape)
        if integer in PACKED_BITS:
            zeros = lanecast.pack(lanecast.astype(zeros, integer), high_first=high)
    if op == "requantize":
        to = lanecast.Scaling.blocks(lengths(words["dst_block"]), words["dst_scale_dtype"], rule=words.get("rule"))
        given = elements(words["src_scale"], scale_dtype, scale_shape)
        made = lanecast.requantize(src, given, scaling, target, to, **how)
        the_same(made.codes, dst, is_package)
        the_same(made.scales, elements(scale, words["dst_scale_dtype"], to.scale_shape(shape)), is_package)
        return
    scales = elements(scale, scale_dtype, scale_shape)
    if op == "dequantize":
        result = lanecast.dequantize(src, scales, scaling, target, zero_points=zeros, **options)
        the_same(result, dst, is_package)
        if isinstance(src, lanecast.PackedArray):
            plain = zeros.unpack() if isinstance(zeros, lanecast.PackedArray) else zeros
            result = lanecast.dequantize(src.unpack(), scales, scaling, target, zero_points=plain, **options)
            the_same(result, dst, is_package)
        return
    if "given" in words:
        made = lanecast.quantize(src, target, scaling, scales=scales, zero_points=zeros, **how)
    else:
        made = lanecast.quantize(src, target, scaling, affine=zeros is not None, **how)
        the_same(made.scales, scales, is_package)
        if zeros is not None:
            the_same(made.zero_points, zeros, is_package)
        if fields.get("tensor_scale") == "compute":
            assert made.tensor_scale == g
    the_same(made.codes, dst, is_package)
    assert made.dtype == target and made.shape == shape


SCALINGS = {
    "mx": lanecast.Scaling.mx(),
    "nvfp4": lanecast.Scaling.nvfp4(tensor_scale="compute"),
    "rows": lanecast.Scaling.per_axis(0),
    "last": lanecast.Scaling.per_axis(-1, "bfloat16"),
    "along": lanecast.Scaling.along_axis(-2, 3, "float16"),
    "tensor": lanecast.Scaling.per_tensor(),
}


@pytest.mark.parametrize("scaling", SCALINGS.values(), ids=SCALINGS)
@pytest.mark.parametrize("source", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("target", ["float8_e4m3fn", "float4_e2m1fn", "int8", "int4"])
def test_layouts(source, target, scaling):
    if target.startswith("int") and scaling.scale_dtype in ("float8_e4m3fn",):
        pytest.skip("no such scaling")
    values = np.random.default_rng(1).standard_normal(24).astype(lanecast.dtypes()[source])
    for name, x in layouts(values):
        dims = -scaling.axis if scaling.axis is not None and scaling.axis < 0 else len(scaling.block or ())
        if x.ndim < max(dims, 0 if scaling.axis is None else 1):
            continue
        plain = np.ascontiguousarray(x).reshape(x.shape)
        expected = lanecast.quantize(plain, target, scaling)
        made = lanecast.quantize(x, target, scaling)
        assert made.shape == x.shape and (codes(made.codes) == codes(expected.codes)).all(), name
        assert (codes(made.scales) == codes(expected.scales)).all() and made.scales.dtype == scaling.scale_dtype
        back = made.dequantize(source)
        assert back.shape == x.shape and back.dtype == values.dtype
        if x.size and target != "int4":
            near = np.abs(back.astype(np.float64) - plain.astype(np.float64)).max()
            assert near <= 0.35 * np.abs(plain.astype(np.float64)).max(), name
        # Given, the scales that were found do the same.
        known = made.scaling
        again = lanecast.quantize(x, target, known, scales=made.scales)
        assert (codes(again.codes) == codes(made.codes)).all()
        # Codes and results in other layouts.
        turned = np.array(made.codes, order="F")
        out = np.zeros((*x.shape, 2), values.dtype)[..., 0]
        assert lanecast.dequantize(turned, made.scales, known, source, out=out) is out
        assert (codes(out) == codes(back)).all()
        if source in ("float32", "float64", "float16"):
            swapped = x.astype(x.dtype.newbyteorder())
            assert (codes(lanecast.quantize(swapped, target, scaling).codes) == codes(made.codes)).all()
            other = lanecast.dequantize(made.codes, made.scales, known, swapped.dtype)
            assert other.dtype == swapped.dtype and (codes(other.byteswap().view(back.dtype)) == codes(back)).all()
        if target in PACKED_BITS:
            for high in (False, True):
                packed = lanecast.quantize(x, target, scaling, packed=True, high_first=high)
                assert (codes(packed.codes.unpack()) == codes(made.codes)).all()
                assert (codes(packed.dequantize(source)) == codes(back)).all()


def test_layouts_of_scales():
    x = np.random.default_rng(1).standard_normal((3, 70, 100)).astype(np.float32)
    for dtype, scaling in (("float8_e4m3fn", lanecast.Scaling.mx), ("float8_e5m2", lanecast.Scaling.deepseek)):
        rows, columns = (lanecast.quantize(x, dtype, scaling(layout=how)) for how in ("row_major", "column_major"))
        assert (codes(rows.scales) == codes(columns.scales)).all() and rows.scales.shape == columns.scales.shape
        assert columns.scales.strides[-1] >= columns.scales.strides[0]
        assert (codes(rows.codes) == codes(columns.codes)).all()
        back = codes(rows.dequantize())
        assert (codes(columns.dequantize()) == back).all()
        # Scales are the same wherever they lie.
        assert (codes(lanecast.dequantize(rows.codes, rows.scales, columns.scaling)) == back).all()
        turned = np.asfortranarray(rows.scales)
        assert (codes(lanecast.dequantize(rows.codes, turned, rows.scaling)) == back).all()
    tiles = lanecast.quantize(x, "float8_e4m3fn", lanecast.Scaling.mx(layout="swizzle_32x4x4"))
    rows = lanecast.quantize(x, "float8_e4m3fn", "mx")
    assert tiles.scales.shape == (256 * 4,)
    flat = codes(rows.scales).reshape(210, 4)
    for r, c in ((0, 0), (31, 3), (32, 1), (127, 2), (128, 0), (209, 3)):
        place = (r // 128) * 512 + (r % 32) * 16 + (r // 32 % 4) * 4 + c
        assert codes(tiles.scales)[place] == flat[r, c]
    assert (codes(tiles.dequantize()) == codes(rows.dequantize())).all()


def test_byte_orders_of_scales():
    codes_, scales = np.arange(8, dtype=np.int8).reshape(2, 4), np.float32([[0.5], [2]])
    expected = lanecast.dequantize(codes_, scales, lanecast.Scaling.per_axis(0))
    for given in (scales.astype(">f4"), scales.reshape(2), np.float32([[0.5, 0], [2, 0]])[:, :1]):
        assert (lanecast.dequantize(codes_, given, lanecast.Scaling.per_axis(0)) == expected).all()
    assert (expected == codes_ * scales).all()


def test_zero_points():
    x = np.float32([[-1, 0, 3], [10, 10, 11]])
    scaling = lanecast.Scaling.per_axis(0, profile="compressed_tensors")
    for dtype in ("int4", "int8"):
        made = lanecast.quantize(x, dtype, scaling, affine=True)
        assert made.zero_points.shape == (2, 1) and made.zero_points.dtype == made.codes.dtype
        expected = (made.codes.astype(np.float32) - made.zero_points.astype(np.float32)) * made.scales
        assert np.abs(made.dequantize() - expected).max() < 1e-5
        if dtype == "int4":
            packed = lanecast.quantize(x, dtype, scaling, affine=True, packed=True)
            assert isinstance(packed.zero_points, lanecast.PackedArray)
            assert (packed.dequantize() == made.dequantize()).all()
            with pytest.raises(ValueError, match="zero_points must be packed, as the elements are: lanecast.pack.zero_points.$"):
                lanecast.dequantize(packed.codes, packed.scales, scaling, zero_points=made.zero_points)
    given = lanecast.quantize(
        np.float32([0.5, -2]), "uint8", "per_tensor", scales=np.float32(0.25), zero_points=np.uint8([128])
    )
    assert given.codes.tolist() == [130, 120]
    assert given.dequantize().tolist() == [0.5, -2]


def test_requantize():
    x = np.random.default_rng(1).standard_normal((130, 70)).astype(np.float32)
    first = lanecast.quantize(x, "float8_e4m3fn", "deepseek")
    made = first.requantize("float4_e2m1fn", "mx", packed=True)
    exact = first.codes.astype(np.float64) * np.kron(first.scales.astype(np.float64), np.ones((128, 128)))[:130, :70]
    expected = lanecast.quantize(exact, "float4_e2m1fn", "mx", packed=True)
    assert (made.codes.data == expected.codes.data).all() and (codes(made.scales) == codes(expected.scales)).all()


def test_stochastic():
    x = np.full((1, 4096), 1 + 2**-6, np.float32)
    once, again, other = (
        lanecast.quantize(x, "float8_e4m3fn", "per_tensor", scales=np.float32(1), stochastic=seed).codes
        for seed in (1, (1, 0), 2)
    )
    assert (codes(once) == codes(again)).all() and (codes(once) != codes(other)).any()
    assert 0.05 < (once.astype(np.float32) > 1).mean() < 0.2
    with pytest.raises(ValueError, match="stochastic is 'x'; it must be a seed"):
        lanecast.quantize(x, "float8_e4m3fn", "per_tensor", stochastic="x")


def test_threads_and_progress():
    x = np.random.default_rng(1).standard_normal((300, 1000)).astype(np.float32)
    expected = lanecast.quantize(x, "float8_e4m3fn", "mx", threads=1)
    for threads in (None, 2, 5):
        made = lanecast.quantize(x, "float8_e4m3fn", "mx", threads=threads)
        assert (codes(made.codes) == codes(expected.codes)).all() and (codes(made.scales) == codes(expected.scales)).all()
        assert (made.dequantize(threads=threads) == expected.dequantize(threads=1)).all()
    seen = []
    lanecast.quantize(x, "float8_e4m3fn", "mx", progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1]
    with pytest.raises(lanecast.Cancelled, match=r"after 1 of \d+ pieces"):
        expected.dequantize(progress=lambda done, total: False, threads=1)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_progress_begins_anew_and_ends_at_all(threads):
    """In every pass over the data, and in every call, whichever thread tells of a piece."""
    x = np.random.default_rng(1).standard_normal((512, 4096)).astype(np.float32)
    nvfp4 = lanecast.Scaling.nvfp4(tensor_scale="compute")
    affine = lanecast.Scaling.per_axis(0, profile="compressed_tensors")
    mx, deepseek = (lanecast.quantize(x, "float8_e4m3fn", name) for name in ("mx", "deepseek"))
    calls = [
        (1, lambda **how: lanecast.quantize(x, "float8_e4m3fn", "mx", **how)),
        (2, lambda **how: lanecast.quantize(x, "float4_e2m1fn", nvfp4, **how)),
        (2, lambda **how: lanecast.quantize(x, "int8", "per_tensor", **how)),
        (2, lambda **how: lanecast.quantize(x, "int8", affine, affine=True, **how)),
        (1, lambda **how: mx.dequantize(**how)),
        (1, lambda **how: mx.requantize("float4_e2m1fn", "mx", **how)),
        (2, lambda **how: mx.requantize("float4_e2m1fn", nvfp4, **how)),
        (2, lambda **how: mx.requantize("int8", "per_tensor", **how)),
        # Both passes have as many pieces.
        (2, lambda **how: deepseek.requantize("int8", "per_tensor", **how)),
    ]
    for i, (passes, call) in enumerate(calls):
        for _ in range(2):
            seen, begins = [], 0
            call(threads=threads, progress=lambda *now, seen=seen: seen.append(now))
            for _ in range(passes):
                # One word for each piece. The first is of one that any thread has ended, before which none was told.
                total = seen[begins][1]
                one = seen[begins : begins + total]
                assert one == sorted(one) and {all_of for _, all_of in one} == {total}, i
                assert len(one) == total > threads >= one[0][0] >= 1 and one[-1] == (total, total), i
                begins += total
            assert begins == len(seen), i


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: lanecast.quantize(x, "float8_e4m3fn", "mxfp8"), ValueError, "scaling is 'mxfp8'; it must be .*'mx' is MXFP8, MXFP6, MXFP4 or MXINT8"),
        (lambda x: lanecast.quantize(x, "int64", "mx"), TypeError, "from float32 to int64"),
        (lambda x: lanecast.quantize(x.astype("int32"), "int8", "mx"), TypeError, "cannot quantize from int32 to int8: data must be real floats"),
        (lambda x: lanecast.quantize(x, "float8_e4m3fn", "mx", packed=True), TypeError, "float8_e4m3fn cannot be packed"),
        (lambda x: lanecast.quantize(x, "int8", "mx", zero_points=np.int8([0])), TypeError, "zero_points are given but scales are not; pass both"),
        (lambda x: lanecast.quantize(x, "int8", "mx", scales=x, affine=True), TypeError, "scales are given, but affine=True computes scales"),
        (lambda x: lanecast.quantize(x, "int8", lanecast.Scaling.per_axis(5)), ValueError,
         "axis is 5; the data have 2 dimensions, so it must be from -2 to 1"),
        (lambda x: lanecast.quantize(x, "int8", lanecast.Scaling.per_axis(-3)), ValueError, "the data have 2 dimensions"),
        (lambda x: lanecast.quantize(x, "int8", lanecast.Scaling.per_axis(1 << 70)), ValueError,
         "axis is 1180591620717411303424; the data have 2 dimensions"),
        (lambda x: lanecast.quantize(x, "int8", lanecast.Scaling.per_axis((1 << 63) - 1)), ValueError, "the data have 2 dim"),
        (lambda x: lanecast.quantize(x[0, 0], "int8", lanecast.Scaling.per_axis(0)), ValueError, "the data have 0 dim"),
        (lambda x: lanecast.Scaling.nvfp4(tensor_scale=True), TypeError, "tensor_scale is True; it must be a number, 'compute' or None"),
        (lambda x: lanecast.dequantize(np.int8([1]), x, "per_tensor", int_rounding="up"), TypeError, "int_rounding has no effect here"),
        (lambda x: lanecast.Scaling.per_axis(1.5), TypeError, "axis is 1.5; it must be an integer, or None"),
        (lambda x: lanecast.Scaling.blocks(-1), ValueError, "lengths is -1; it must be from 0 to 9"),
        (lambda x: lanecast.Scaling.blocks((1, -1)), ValueError, r"lengths is \(1, -1\); each of its integers must be from 0 to 9"),
        (lambda x: lanecast.Scaling.blocks("ab"), TypeError, "lengths is 'ab'; it must be an integer, or a sequence of"),
        (lambda x: lanecast.Scaling.along_axis(0, 1.5), TypeError, "length is 1.5; it must be an integer$"),
        (lambda x: lanecast.Scaling.along_axis(0, (32,)), TypeError, r"length is \(32,\); it must be an integer$"),
        (lambda x: lanecast.Scaling.along_axis(0, -1), ValueError, "length is -1; it must be from 0 to 9"),
        (lambda x: lanecast.Scaling.per_axis(np.True_), TypeError, "axis is np.True_; it must be an integer"),
        (lambda x: lanecast.Scaling("float32", block=(32, None)), TypeError, r"block is \(32, None\); it must be"),
        (lambda x: lanecast.Scaling.mx(tensor_scale_divides=7), TypeError, "tensor_scale_divides is 7; it must be True or"),
        (lambda x: lanecast.Scaling.mx().scale_shape((-1,)), ValueError, r"shape is \(-1,\); each of its integers must be from"),
        (lambda x: lanecast.Scaling.mx().scale_shape((1 << 70,)), ValueError, "must be from 0 to 9223372036854775807"),
        (lambda x: lanecast.Scaling.mx().scale_shape(None), TypeError, "shape is None; it must be an integer, or"),
        (lambda x: lanecast.quantize(x, "int8", ["mx"]), ValueError, r"scaling is \['mx'\]; it must be"),
        (lambda x: lanecast.quantize(x, "int8", "mx", affine=7), TypeError, "affine is 7; it must be True or False"),
        (lambda x: lanecast.quantize(x, "int4", "mx", packed="no"), TypeError, "packed is 'no'; it must be True or False"),
        (lambda x: lanecast.quantize(x, "int4", "mx", high_first=7), TypeError, "high_first is 7; it must be True or False"),
        (lambda x: lanecast.quantize(x, "nf4", "mx"), TypeError, "there is no dtype nf4; NF4 is a table of 16 numbers"),
        (lambda x: lanecast.quantize(x, "int8", lanecast.Scaling.blocks((1, 2, 3))), ValueError,
         r"blocks of \[1, 2, 3\] have more dimensions than data of shape \[4, 70\]"),
        (lambda x: lanecast.quantize(x, "int8", lanecast.Scaling.mx(rule="best")), ValueError,
         "rule is 'best'; it must be one of 'amax'"),
        (lambda x: lanecast.quantize(x, "int8", lanecast.Scaling.mx(profile="tensorflow")), ValueError, "profile is"),
        (lambda x: lanecast.quantize(x, "float8_e4m3fn", lanecast.Scaling.mx(profile="onnx")), ValueError,
         "the profile onnx finds no scales for these dtypes: they must be given"),
        (lambda x: lanecast.quantize(x, "int8", lanecast.Scaling.mx(tensor_scale="x")), ValueError, "tensor_scale is 'x'"),
        (lambda x: lanecast.quantize(x, "int8", lanecast.Scaling.mx(tensor_scale=-1.0)), ValueError,
         "tensor_scale is -1; it must be finite and positive"),
        (lambda x: lanecast.quantize(x, "int8", "mx", profile="torchao"), ValueError,
         r"profile is 'torchao'; it must be one of 'onnx', .*; .* as in lanecast.Scaling.mx\(profile='torchao'\)$"),
        (lambda x: lanecast.dequantize(x, x, "mx", profile="modelopt"), ValueError, "its scaling says, as in lanecast.Scaling"),
        (lambda x: lanecast.astype(x, "int8", profile="torchao"), ValueError, "profile is 'torchao'; it must be one of [a-z_', ]*$"),
        (lambda x: lanecast.quantize(x[0], "int8", lanecast.Scaling.per_axis(1)), ValueError,
         "axis is 1; the data have 1 dimension, so it must be from -1 to 0"),
        (lambda x: lanecast.dequantize(x.astype(ml_dtypes.float8_e5m2), np.float32(1), "per_tensor", zero_points=np.uint8([1])),
         ValueError, "zero_points are for integers; elements of float8_e5m2 have no zero points, so leave them out"),
        (lambda x: lanecast.quantize(x, "float8_e5m2", lanecast.Scaling.per_tensor(profile="onnx"), scales=np.float32(1),
                                     zero_points=np.uint8([1])), ValueError, "leave them out"),
        (lambda x: lanecast.quantize(x, "float4_e2m1fn", lanecast.Scaling.nvfp4(tensor_scale=1e-60)), ValueError,
         "tensor_scale is 1e-60, which is 0 or infinite as a float32"),
        (lambda x: lanecast.quantize(x, "int4", "per_tensor", high_first=True), TypeError, "needs packed=True"),
        (lambda x: lanecast.Scaling.per_axis(True), TypeError, "axis is True; it must be an integer"),
        (lambda x: lanecast.Scaling.blocks(True), TypeError, "lengths is True; it must be an integer"),
        (lambda x: lanecast.quantize(x, "int8", "mx", satturate=1), TypeError, "did you mean 'saturate'"),
        (lambda x: lanecast.quantize(x, "int8", lanecast.Scaling.per_tensor("int32")), TypeError, "scales cannot be of int32.*; they must be real"),
        (lambda x: lanecast.dequantize(x.astype("int8"), np.ones((3, 4), "f4"), lanecast.Scaling.blocks((2, 32))),
         ValueError, r"scales have shape \(3, 4\); it must be \(2, 3\) for data of shape \(4, 70\)"),
        # One for each row is none for each column, as many as there are.
        (lambda x: lanecast.dequantize(np.ones((2, 4), "int8"), np.ones((1, 2), "f4"), lanecast.Scaling.per_axis(0)),
         ValueError, r"scales have shape \(1, 2\); it must be \(2, 1\) for data of shape \(2, 4\)"),
        (lambda x: lanecast.dequantize(x.astype("int8"), np.ones((2, 3), "f8"), lanecast.Scaling.blocks((2, 32))),
         TypeError, "scales have dtype float64; it must be float32"),
        (lambda x: lanecast.dequantize(x.astype("int8"), np.float32(1), "per_tensor", zero_points=np.int8([1, 2])),
         ValueError, r"zero_points have shape \(2,\); it must be \(1, 1\) for data of shape \(4, 70\)"),
        (lambda x: lanecast.dequantize(x.astype(ml_dtypes.float8_e5m2), np.float32(1), "per_tensor",
                                       zero_points=np.ones(1, ml_dtypes.float8_e5m2)), ValueError, "no zero point"),
        (lambda x: lanecast.dequantize(x.astype("int8"), np.float32(1), "per_tensor", out=np.zeros(3, "f4")),
         ValueError, r"out has shape \(3,\); it must be \(4, 70\)"),
        (lambda x: lanecast.dequantize(x.astype("int64"), np.float32(1), "per_tensor"), TypeError, "from int64"),
        (lambda x: lanecast.requantize(x.astype("int8"), np.float32(1), "per_tensor", "float8_e5m2",
                                       lanecast.Scaling.mx(profile="torchao")), ValueError, "rounds only once"),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(np.ones((4, 70), np.float32))


def test_options_that_would_be_ignored():
    x = np.float32([[2.5]])
    up = lanecast.quantize(x, "int8", lanecast.Scaling.per_tensor(int_rounding="up"), scales=np.float32([[1]]))
    assert up.codes.tolist() == [[3]]
    for name, value in (("int_rounding", "up"), ("float_to_int", "wrap"), ("int_to_int", "wrap")):
        with pytest.raises(TypeError, match=name):
            lanecast.quantize(x, "int8", "per_tensor", **{name: value})
        with pytest.raises(TypeError, match=name):
            lanecast.requantize(up.codes, up.scales, "per_tensor", "int8", "per_tensor", **{name: value})


def test_bytes_of_checkpoints():
    """MXFP4 as gpt-oss has it: bytes of two codes, in rows of blocks, and bytes of scales."""
    random = np.random.default_rng(3)
    blocks = random.integers(0, 256, (2, 5, 3, 16), np.uint8)
    scales = random.integers(100, 150, (2, 5, 3), np.uint8)
    weights = lanecast.PackedArray(blocks.reshape(2, 5, 48), "float4_e2m1fn")
    found = lanecast.dequantize(weights, scales.view("float8_e8m0fnu"), "mx", "bfloat16")
    values = np.float64([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = np.concatenate([values, -values])
    each = np.stack([values[blocks & 15], values[blocks >> 4]], axis=-1).reshape(2, 5, 3, 32)
    expected = (each * 2.0 ** (scales[..., None] - 127.0)).reshape(2, 5, 96).astype(ml_dtypes.bfloat16)
    assert found.dtype == expected.dtype and (codes(found) == codes(expected)).all()
    with pytest.raises(TypeError, match=r"it must be float8_e8m0fnu; if they are its codes, pass scales.view\('float8_e8m0fnu'\)"):
        lanecast.dequantize(weights, scales, "mx")
    tensor = type("Tensor", (), {"__module__": "torch", "__array__": lambda self, dtype=None, copy=None: scales})()
    with pytest.raises(TypeError, match=r"scales.view\(torch.float8_e8m0fnu\)"):
        lanecast.dequantize(weights, tensor, "mx")


def test_html():
    made = lanecast.quantize(np.ones((4, 64), np.float32), "float4_e2m1fn", SCALINGS["nvfp4"], packed=True)
    assert made._repr_html_().startswith("<table>") and "packed" in made._repr_html_()
    assert "tensor_scale" in repr(made)


def test_bytes_and_arrays():
    groups = lanecast.Scaling.along_axis(-1, 32, profile="compressed_tensors")
    made = lanecast.quantize(np.ones((4, 64)), "int4", groups, packed=True, affine=True)
    assert made.nbytes == 4 * 64 // 2 + 8 * 4 + 8 // 2
    # (Not an array of one object.)
    for call in (np.asarray, lambda x: lanecast.astype(x, "float32"), lambda x: lanecast.quantize(x, "int8", "per_tensor")):
        with pytest.raises(TypeError, match=r"its dequantize\(dtype\) gives an array"):
            call(made)


def test_torch():
    torch = pytest.importorskip("torch")
    x = torch.randn(4, 64, dtype=torch.bfloat16)
    made = lanecast.quantize(x, "float8_e4m3fn", "mx")
    assert (codes(made.codes) == codes(lanecast.quantize(lanecast.from_dlpack(x), "float8_e4m3fn", "mx").codes)).all()
    given = [torch.from_dlpack(lanecast.dlpack(part)) for part in (made.codes, made.scales)]
    out = torch.zeros(4, 64)
    assert lanecast.dequantize(*given, "mx", "float32", out=out) is out
    assert (out.numpy() == made.dequantize()).all()
    packed = lanecast.quantize(x, "float4_e2m1fn", "mx", packed=True)
    fours = torch.from_dlpack(lanecast.dlpack(packed.codes))
    assert fours.dtype == torch.float4_e2m1fn_x2 and fours.shape == (4, 32)
    assert (lanecast.dequantize(fours, packed.scales, "mx") == packed.dequantize()).all()
    assert (lanecast.from_dlpack(fours).data == packed.codes.data).all()
    scales = torch.from_dlpack(made.scales.view(np.uint8))
    with pytest.raises(TypeError, match=r"pass scales.view\(torch.float8_e8m0fnu\)"):
        lanecast.dequantize(given[0], scales, "mx", "float32")
    assert (lanecast.dequantize(given[0], scales.view(torch.float8_e8m0fnu), "mx", "float32") == made.dequantize()).all()


def test_scalings_are_what_they_say():
    assert lanecast.Scaling.per_tensor("float32") == lanecast.Scaling.per_tensor(np.float32)
    swizzled = lanecast.Scaling.nvfp4(layout="swizzle_32x4x4")
    made = lanecast.quantize(np.ones((64, 128), np.float32), "float4_e2m1fn", swizzled, packed=True)
    assert swizzled.scale_shape((64, 128)) == made.scales.shape == (1024,)
    turned = lanecast.Scaling.nvfp4(layout="column_major")
    assert turned.scale_shape((64, 128)) == (64, 8)
    given = lanecast.Quantized(made.codes, made.scales, lanecast.Scaling.nvfp4(tensor_scale="compute"))
    assert given.tensor_scale is None and "Quantized(" in repr(given)


def test_arguments_that_another_call_takes():
    """An error names what this call takes, not what its kin do."""
    x = np.ones((2, 32), np.float32)
    q = lanecast.quantize(x, "int8", "per_tensor")
    for call, message in (
        (lambda: lanecast.quantize(x, ">i2", "per_tensor"), "dtype is >i2; codes must have the machine's byte order: 'int16'"),
        (lambda: lanecast.quantize(x, "int8", "per_tensor", out=x), "there is no option 'out'; the options are rounding, saturate, nan_to_finite"),
        (lambda: lanecast.dequantize(q.codes, q.scales, "per_tensor", "float32", affine=True), "there is no option 'affine'; the"),
        (lambda: lanecast.dequantize(q.codes, None, "per_tensor", "float32"), "cannot read a NoneType as an array; lanecast needs an ndarray"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
