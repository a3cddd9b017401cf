// What one would write without a library: a loop over typed arrays for each pair. The bits are lanecast's.

/** The dtypes that there are loops for, each with the typed array of its codes. */
export const CODES = { float16: Uint16Array, bfloat16: Uint16Array, float8_e4m3fn: Uint8Array };

/** A float's mantissa shifted to where the subnormal numbers have theirs, to nearest even. */
function subnormal(a, shift) {
  if (shift > 24) return 0;
  const mantissa = (a & 0x7fffff) | 0x800000;
  const code = mantissa >>> shift;
  const rest = mantissa & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  return rest > half || (rest === half && code & 1) ? code + 1 : code;
}

export const from_float32 = {
  float16(src, dst) {
    const bits = new Uint32Array(src.buffer, src.byteOffset, src.length);
    for (let i = 0; i < bits.length; i++) {
      const x = bits[i];
      const a = x & 0x7fffffff;
      let code;
      if (a > 0x7f800000) code = 0x7e00 | ((a >>> 13) & 0x3ff);
      else if (a >= 0x477ff000) code = 0x7c00;
      else if (a >= 0x38800000) code = (a - 0x38000000 + 0xfff + ((a >>> 13) & 1)) >>> 13;
      else code = subnormal(a, 126 - (a >>> 23));
      dst[i] = code | ((x >>> 16) & 0x8000);
    }
  },
  bfloat16(src, dst) {
    const bits = new Uint32Array(src.buffer, src.byteOffset, src.length);
    for (let i = 0; i < bits.length; i++) {
      const x = bits[i];
      dst[i] = (x & 0x7fffffff) > 0x7f800000 ? (x >>> 16) | 0x40 : (x + 0x7fff + ((x >>> 16) & 1)) >>> 16;
    }
  },
  float8_e4m3fn(src, dst) {
    const bits = new Uint32Array(src.buffer, src.byteOffset, src.length);
    for (let i = 0; i < bits.length; i++) {
      const x = bits[i];
      const a = x & 0x7fffffff;
      let code;
      if (a > 0x7f800000) code = 0x7f;
      else if (a >= 0x43e00000) code = 0x7e;
      else if (a >= 0x3c800000) code = (a - 0x3c000000 + 0x7ffff + ((a >>> 20) & 1)) >>> 20;
      else code = subnormal(a, 141 - (a >>> 23));
      dst[i] = code | ((x >>> 24) & 0x80);
    }
  },
};

function table(exponents, mantissas, bias, of) {
  const numbers = new Float32Array(1 << (1 + exponents + mantissas));
  for (let code = 0; code < numbers.length; code++) {
    const sign = code >> (exponents + mantissas) ? -1 : 1;
    const exponent = (code >> mantissas) & ((1 << exponents) - 1);
    const mantissa = code & ((1 << mantissas) - 1);
    const size = exponent === 0 ? mantissa * 2 ** (1 - bias - mantissas) : (1 + mantissa / 2 ** mantissas) * 2 ** (exponent - bias);
    numbers[code] = sign * (of(exponent, mantissa) ?? size);
  }
  return numbers;
}

const FLOAT16 = table(5, 10, 15, (e, m) => (e === 31 ? (m ? NaN : Infinity) : undefined));
const E4M3 = table(4, 3, 7, (e, m) => (e === 15 && m === 7 ? NaN : undefined));

export const to_float32 = {
  float16(src, dst) {
    for (let i = 0; i < src.length; i++) dst[i] = FLOAT16[src[i]];
  },
  bfloat16(src, dst) {
    const bits = new Uint32Array(dst.buffer, dst.byteOffset, dst.length);
    for (let i = 0; i < src.length; i++) bits[i] = src[i] << 16;
  },
  float8_e4m3fn(src, dst) {
    for (let i = 0; i < src.length; i++) dst[i] = E4M3[src[i]];
  },
};
