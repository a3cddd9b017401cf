"""lanecast.comfy: the backend for comfy-kitchen beside the one that it has. Run where that is (ci/python --comfy)."""

import fnmatch
import itertools
import pathlib

import pytest

torch = pytest.importorskip("torch")
kitchen = pytest.importorskip("comfy_kitchen")

from comfy_kitchen.registry import registry  # noqa: E402

import lanecast.comfy as ours  # noqa: E402

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
EIGHTS = (torch.float8_e4m3fn, torch.float8_e5m2)


def bits(tensor):
    """The codes of a tensor's elements."""
    code = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.dtype.itemsize]
    return tensor.contiguous().view(code)


def same(name, *arguments, **named):
    """Both backends give the same codes, dtypes and shapes."""
    theirs = getattr(kitchen.backends.eager, name)(*arguments, **named)
    mine = getattr(ours, name)(*arguments, **named)
    for one, other in zip(*(result if isinstance(result, tuple) else (result,) for result in (theirs, mine)), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        differ = bits(one) != bits(other)
        assert not differ.any(), (name, one[differ][:5], other[differ][:5])
    return theirs


def hard(dtype, rows=64, columns=512):
    """Values of all exponents, and some that are special."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, columns, generator=generator) * torch.exp2(torch.randint(-20, 14, (rows, 1), generator=generator))
    flat = x.view(-1)
    flat[::97], flat[1::89], flat[2::83] = 0.0, -0.0, 448.0
    return x.to(dtype)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(EIGHTS, FLOATS)))
def test_dequantize_per_tensor_fp8(source, target):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).repeat(64, 16).view(source)
    numbers = (torch.arange(1 << 16, dtype=torch.int32) % 251).to(torch.uint8).view(source).reshape(256, 256)
    numbers.view(torch.uint8)[numbers.isnan()] = 0x80
    for scale in (torch.tensor(1.0), torch.tensor(0.37), torch.tensor([1e-3]), torch.tensor(1e30), torch.tensor([[[2.0]]])):
        for x in (codes, numbers, numbers.t(), numbers[:, ::3], numbers[0, :5], numbers.view(-1)):
            same("dequantize_per_tensor_fp8", x, scale, target)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(FLOATS, EIGHTS)))
def test_quantize_per_tensor_fp8(source, target):
    every = torch.arange(1 << 16, dtype=torch.int32)
    every = (every << 16).view(torch.float32) if source == torch.float32 else every.to(torch.int16).view(source)
    numbers = torch.where(every.isnan(), 0.0, every).to(source).reshape(256, 256)
    for scale in (torch.tensor(1.0), torch.tensor(0.37), torch.tensor([1e-3]), torch.tensor(1e30), torch.tensor([[2.0]])):
        for x in (every, numbers, numbers.t(), numbers[:, ::3], numbers[0, :5], hard(source)):
            before = x.clone()
            same("quantize_per_tensor_fp8", x, scale, target)
            assert (bits(x) == bits(before)).all()


@pytest.mark.parametrize("source", FLOATS)
def test_nvfp4(source):
    for x, scale, high in itertools.product((hard(source), hard(source, 131, 80)), (1.0, 0.01, 3e4, 0.0), (True, False)):
        scale = torch.tensor(scale)
        packed, scales = same("quantize_nvfp4", x, scale, hi_first=high)
        for target in FLOATS:
            same("dequantize_nvfp4", packed, scale, scales, target, hi_first=high)
    same("quantize_nvfp4", hard(source, 37, 101), torch.tensor(0.1), pad_16x=True)
    special = hard(source)
    special[0, 0], special[1, 1], special[2, 2] = float("inf"), float("nan"), float("-inf")
    same("quantize_nvfp4", special, torch.tensor(0.1))
    special[1, 1] = 0
    same("quantize_nvfp4", special, torch.tensor(0.1))
    same("quantize_nvfp4", hard(source)[:2, :32], torch.tensor(0.1))


@pytest.mark.parametrize("source", FLOATS)
def test_quantize_mxfp8(source):
    special = hard(source)
    special[0, 0], special[1, 1], special[2, 2] = float("inf"), float("nan"), float("-inf")
    special[3], special[4], special[5, :32] = 0.0, torch.finfo(source).tiny, torch.finfo(source).max
    special[6, :64] = -0.0
    for x in (hard(source), special, hard(source).t(), hard(source, 300, 96), hard(source, 3, 32)):
        same("quantize_mxfp8", x)
    same("quantize_mxfp8", hard(source, 137, 201), pad_32x=True)
    same("quantize_mxfp8", hard(source, 128, 224), pad_32x=True)
    with pytest.raises(AssertionError, match="divisible by 32"):
        ours.quantize_mxfp8(hard(source, 137, 201))


@pytest.mark.parametrize("target", FLOATS)
def test_dequantize_mxfp8(target):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).repeat(130, 1).view(torch.float8_e4m3fn)
    scales = torch.randint(0, 256, (256, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    same("dequantize_mxfp8", codes, scales.view(torch.float8_e8m0fnu), target)
    packed, scales = kitchen.backends.eager.quantize_mxfp8(hard(torch.float32))
    same("dequantize_mxfp8", packed, scales, target)


def test_each_function_is_served_or_left_out():
    """Of all that comfy-kitchen registers for any machine; a pattern of what it does not have any more is none."""
    registered = {name for backend in registry.list_backends().values() for name in backend["capabilities"]}
    registered |= {name for _, name in registry._constraints}
    assert set(ours.FUNCTIONS) <= registered
    patterns = [pattern for patterns in ours.LEFT_OUT.values() for pattern in patterns]
    for name in registered:
        found = [pattern for pattern in patterns if fnmatch.fnmatchcase(name, pattern)]
        assert len(found) == (name not in ours.FUNCTIONS), (name, found)
    assert [pattern for pattern in patterns if not fnmatch.filter(registered, pattern)] == []
    # The page has the same list.
    page = (pathlib.Path(__file__).parents[2] / "integrations" / "README.md").read_text()
    for reason, patterns in ours.LEFT_OUT.items():
        assert f"| {', '.join(f'`{pattern}`' for pattern in patterns)} | {reason} |" in page


def test_the_registry_chooses_it():
    before = list(registry._priority)
    try:
        ours.register()
        ours.register()
        assert registry._priority.count(ours.NAME) == 1
        x = hard(torch.float32)
        for name in ours.FUNCTIONS:
            assert registry.get_implementation(name) is getattr(ours, name)
        assert registry.get_capable_backend("stochastic_rounding_fp8") == "eager"
        given = kitchen.quantize_nvfp4(x, torch.tensor(0.5))
        expected = kitchen.backends.eager.quantize_nvfp4(x, torch.tensor(0.5))
        assert all((bits(one) == bits(other)).all() for one, other in zip(given, expected, strict=True))
    finally:
        registry.set_priority(before)
