"""What several tests need: dtypes, values that are hard to cast, and arrays in every layout."""

import itertools

import lanecast
import numpy as np

DTYPES = [dtype for dtype in lanecast.dtypes().values() if dtype is not None]
NAMES = {dtype: name for name, dtype in lanecast.dtypes().items() if dtype is not None}
LIMITS = {name: (lanecast.iinfo if "int" in name else lanecast.finfo)(name) for name in NAMES.values() if name != "bool"}
PACKED_BITS = {name: limits.bits for name, limits in LIMITS.items() if limits.bits < 8}
# What DLPack has no code for, by the names of ml_dtypes.
NOT_IN_DLPACK = {"bcomplex32", "float8_e5m3fnu"}


def is_complex(dtype):
    """Of NumPy or of ml_dtypes, whose complex dtypes have a kind of their own."""
    return "complex" in NAMES[np.dtype(dtype).newbyteorder("=")]


def parts(array):
    """The real and imaginary parts of complex elements, in turns; or the array itself."""
    name = NAMES[array.dtype.newbyteorder("=")]
    return array.view(lanecast.finfo(name).dtype) if "complex" in name else array


def codes(array):
    """The bits of an array, as unsigned integers."""
    array = np.ascontiguousarray(array)
    size = array.dtype.itemsize
    if is_complex(array.dtype):
        return array.view(f"u{size // 2}")
    return array.view(f"u{size}")


def from_codes(values, dtype):
    """An array of a dtype that has these bits."""
    dtype = np.dtype(dtype)
    part = dtype.itemsize // 2 if is_complex(dtype) else dtype.itemsize
    return np.asarray(values, dtype=f"u{part}").view(dtype)


def hard(dtype, seed=1, random=2000):
    """All values of a dtype of 16 bits or fewer, else its boundaries and those of narrower ones, and random ones."""
    dtype = np.dtype(dtype)
    name = NAMES[dtype]
    if name == "bool":
        return np.array([False, True])
    if dtype.itemsize == 1:
        return from_codes(np.arange(1 << PACKED_BITS.get(name, 8)), dtype)
    if dtype.itemsize == 2:
        return from_codes(np.arange(1 << 16), dtype)
    if dtype.itemsize == 4 and is_complex(dtype):
        parts = np.arange(1 << 16, dtype=np.uint16)
        return from_codes(np.stack([parts, np.roll(parts, 7)], axis=-1).reshape(-1), dtype)
    rng = np.random.default_rng(seed)
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        edges = [1 << i for i in range(bits)] + [0]
        values = {(sign * edge + off) % (1 << bits) for edge in edges for off in range(-3, 4) for sign in (1, -1)}
        noise = rng.integers(0, 1 << bits, random, dtype=f"u{dtype.itemsize}", endpoint=False)
        noise >>= rng.integers(0, bits, random).astype(noise.dtype)
        return from_codes(np.concatenate([np.array(sorted(values), noise.dtype), noise]), dtype)
    part = np.dtype(np.float32 if name in ("float32", "complex64") else np.float64)
    mantissa, exponents = (23, 256) if part.itemsize == 4 else (52, 2048)
    heads = np.arange(exponents, dtype=f"u{part.itemsize}") << mantissa
    bias = exponents // 2 - 1
    near = np.abs(np.arange(exponents) - bias) <= 160
    heads = heads[near | (np.arange(exponents) < 3) | (np.arange(exponents) > exponents - 3)]
    tails = {0, 1, 2, (1 << mantissa) - 1}
    for keep in (0, 1, 2, 3, 4, 7, 10, 11):
        half = 1 << (mantissa - keep - 1)
        for head in range(1 << min(keep, 3)):
            top = head << (mantissa - min(keep, 3)) if keep else 0
            tails |= {(top | half) + off for off in (-1, 0, 1)} | {top, top + 1}
    tails = np.array(sorted(tails), heads.dtype)
    positive = (heads[:, None] | tails[None, :]).reshape(-1)
    sign = np.array(1 << (8 * part.itemsize - 1), heads.dtype)
    noise = rng.integers(0, 1 << (8 * part.itemsize), random, dtype=heads.dtype, endpoint=False)
    normal = rng.standard_normal(random).astype(part).view(heads.dtype)
    values = np.concatenate([positive, positive | sign, noise, normal])
    if dtype.kind == "c":
        values = np.stack([values, np.roll(values, 7)], axis=-1).reshape(-1)
    return from_codes(values, dtype)


def random_values(dtype, n, seed=1):
    """So many of the hard values, in no order."""
    values = hard(dtype)
    return values[np.random.default_rng(seed).integers(0, len(values), n)]


def layouts(array):
    """Views and copies with the values of a 1-d array of 24 elements, in many layouts."""
    n = array.size
    yield "contiguous", array.copy()
    for step in (2, 3, -1, -2):
        base = np.empty(n * abs(step), array.dtype)
        view = base[::step] if step > 0 else base[::-1][::-step][:n]
        view = view[:n]
        view[...] = array
        yield f"step {step}", view
    raw = np.empty(n * array.itemsize + 1, np.uint8)[1:].view(array.dtype)
    raw[...] = array
    yield "unaligned", raw
    yield "2-d", array.copy().reshape(4, n // 4)
    yield "transposed", array.copy().reshape(4, n // 4).T
    yield "Fortran", np.asfortranarray(array.copy().reshape(2, 3, n // 6))
    yield "3-d, one axis backwards", array.copy().reshape(2, 3, n // 6)[:, ::-1]
    yield "broadcast", np.broadcast_to(array[:3].copy()[:, None], (3, 5))
    yield "0-d", array[5:6].copy().reshape(())
    yield "empty", array[:0].copy().reshape(3, 0)


PAIRS = list(itertools.product(DTYPES, DTYPES))
