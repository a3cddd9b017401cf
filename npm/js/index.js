// lanecast in JavaScript: casts between numeric formats by a WebAssembly module. It comes in two builds, with and without 128-bit
// SIMD, and in two larger ones that also do scaled casts.

/** A module whose one function has a 128-bit SIMD instruction: valid only where the engine has these. */
const PROBE = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

/** The dtype of each typed array. */
const OF_ARRAY = {
  Int8Array: 'int8',
  Uint8Array: 'uint8',
  Uint8ClampedArray: 'uint8',
  Int16Array: 'int16',
  Uint16Array: 'uint16',
  Int32Array: 'int32',
  Uint32Array: 'uint32',
  BigInt64Array: 'int64',
  BigUint64Array: 'uint64',
  Float16Array: 'float16',
  Float32Array: 'float32',
  Float64Array: 'float64',
};

/** The typed array of each dtype that has one. */
const TO_ARRAY = {
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float32: Float32Array,
  float64: Float64Array,
};
if (globalThis.Float16Array) TO_ARRAY.float16 = globalThis.Float16Array;

/** The dtype of either part of a complex number. */
const PARTS = { complex32: 'float16', bcomplex32: 'bfloat16', complex64: 'float32', complex128: 'float64' };

/** The counts of a report, in the order in which the module has them. */
const COUNTS = ['elements', 'above', 'below', 'negative', 'nan', 'inf', 'imaginary', 'inexact'];

/** The error for a wrong dtype, option, type or length. */
export class LanecastError extends Error {
  name = 'LanecastError';
}

/** Whether this engine has the 128-bit SIMD instructions of WebAssembly. */
export function hasSimd() {
  return WebAssembly.validate(PROBE);
}

/** The addresses of the modules. Bundlers look for expressions of exactly this form. */
const MODULES = {
  simd128: () => new URL('./lanecast.simd128.wasm', import.meta.url),
  scalar: () => new URL('./lanecast.scalar.wasm', import.meta.url),
  scaledSimd128: () => new URL('./lanecast.scaled.simd128.wasm', import.meta.url),
  scaledScalar: () => new URL('./lanecast.scaled.scalar.wasm', import.meta.url),
};

async function compiled(url) {
  if (url.protocol === 'file:') {
    // Imported through a variable, so that bundlers for web pages do not try to resolve it.
    const files = 'node:fs/promises';
    const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ files);
    return WebAssembly.compile(await readFile(url));
  }
  const response = await fetch(url);
  if (!response.ok) throw new LanecastError(`${url} cannot be loaded: ${response.status} ${response.statusText}`);
  // Not compileStreaming, which requires a media type that not every server sends.
  const bytes = await response.arrayBuffer();
  try {
    return await WebAssembly.compile(bytes);
  } catch (cause) {
    // Some servers answer with a page where there is no such file.
    const why = new DataView(bytes).byteLength >= 4 && new DataView(bytes).getUint32(0) === 0x0061736d
      ? cause.message
      : 'what the server sent is no WebAssembly module, so the modules are not where index.js looks for them (README: Bundlers)';
    throw new LanecastError(`${url} cannot be loaded: ${why}`, { cause });
  }
}

/**
 * Loads the fastest module for this engine: with `simd: false` one without 128-bit SIMD, with `scaled: true` one that also does
 * scaled casts. A compiled `module` is used as it is.
 */
export async function load(options = {}) {
  const { simd = hasSimd(), scaled = false, module, ...others } = objectOf(options, '{ scaled: true }');
  for (const name of Object.keys(others)) throw new LanecastError(`load has no option ${shown(name)}; its options are simd, scaled, module`);
  for (const [name, value] of Object.entries({ simd, scaled })) {
    if (typeof value !== 'boolean') throw new LanecastError(`${name} is ${shown(value)}; it must be true or false`);
  }
  if (module !== undefined) return instance(module);
  const [plain, more] = simd ? [MODULES.simd128, MODULES.scaledSimd128] : [MODULES.scalar, MODULES.scaledScalar];
  return instance(await compiled(scaled ? more() : plain()));
}

async function instance(module) {
  // By the tag, which a module of another realm has, too.
  if (kind(module) !== 'WebAssembly.Module') {
    throw new LanecastError(`module is ${shown(module)}; it must be a WebAssembly.Module, which WebAssembly.compile makes of bytes`);
  }
  const own = WebAssembly.Module.imports(module).length === 0 && WebAssembly.Module.exports(module).some(({ name }) => name === 'destination_room');
  if (!own) throw new LanecastError('module is not one of the modules of this package');
  return new Lanecast(await WebAssembly.instantiate(module, {}));
}

/** The class of a value, 'Object', 'ArrayBuffer' and so on; also right for values of another realm (a frame, a context of Node's vm). */
const kind = (value) => Object.prototype.toString.call(value).slice(8, -1);

/** A value as text, for an error message. */
function shown(value) {
  if (typeof value === 'string') return JSON.stringify(value.length > 100 ? `${value.slice(0, 100)}…` : value);
  if (typeof value === 'bigint') return `${value}n`;
  return (typeof value === 'object' && value !== null) || typeof value === 'function' ? `of type ${kind(value)}` : String(value);
}

/** The name of a typed array's class, which for a subclass, such as Node's Buffer, is that of the typed array; undefined for other values. */
const nameOf = Function.prototype.call.bind(Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get);

/**
 * Throws if `data` are a typed array for another dtype. Arrays of unsigned 8 bits, a DataView and an ArrayBuffer are bytes of any dtype;
 * a Uint16Array may be the bits of floats of 16 bits, and an Int8Array have narrower integers.
 */
function mustHold(data, dtype, what) {
  const [name, part] = [nameOf(data), PARTS[dtype] ?? dtype];
  const held = OF_ARRAY[name];
  if (held === undefined || held === 'uint8' || held === part) return;
  if (held === 'uint16' && (part === 'float16' || part === 'bfloat16')) return;
  if (held === 'int8' && ['int1', 'int2', 'int4'].includes(part)) return;
  const article = (word) => `${word.startsWith('I') ? 'an' : 'a'} ${word}`;
  const array = part === 'float16' || part === 'bfloat16' ? 'a Uint16Array of their bits' : article((TO_ARRAY[part] ?? Uint8Array).name);
  throw new LanecastError(
    `${what} is ${article(name)}, but its dtype is ${dtype}: it must be ${array}; to take its bytes as they are, give new Uint8Array(x.buffer, x.byteOffset, x.byteLength)`,
  );
}

function bytesOf(data, what) {
  try {
    if (ArrayBuffer.isView(data)) {
      // A typed array whose buffer has become too short reports 0 bytes, but `keys` throws.
      if (data.byteLength === 0) data.keys?.();
      return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    }
    if (['ArrayBuffer', 'SharedArrayBuffer'].includes(kind(data))) return new Uint8Array(data);
  } catch (cause) {
    throw new LanecastError(`${what} has no bytes: its ArrayBuffer was transferred, or has become too short`, { cause });
  }
  throw new LanecastError(`${what} is ${shown(data)}; it must be a typed array, a DataView or an ArrayBuffer`);
}

/** What `for` finds in an object, inherited or its own, except what all objects have, and fields that are undefined. */
function fieldsOf(object) {
  // (An object without a prototype is slow to take apart, which a small cast would notice.)
  const all = {};
  for (const name in object) {
    if (object[name] !== undefined && (!(name in Object.prototype) || Object.hasOwn(object, name))) all[name] = object[name];
  }
  return all;
}

/** Returns the fields of options; throws if they are no object of fields, but an array, a Map or a buffer, for example. */
function objectOf(options, such = "{ rounding: 'up' }") {
  if (kind(options) === 'Object') return fieldsOf(options);
  throw new LanecastError(`the options are ${shown(options)}; they must be an object such as ${such}`);
}

/** Returns a shape or a block, which is a number or an iterable of numbers, as a number or an array; its text has commas. */
function lengthsOf(lengths, what) {
  const isIt = lengths !== null && typeof lengths === 'object' && typeof lengths[Symbol.iterator] === 'function';
  // Iterated once: an iterator has its elements only once.
  const all = isIt ? [...lengths] : [lengths];
  if ((isIt || typeof lengths === 'number') && all.every((length) => Number.isSafeInteger(length) && length >= 0)) return isIt ? all : lengths;
  throw new LanecastError(`${what} is ${isIt ? `[${all.map(shown)}]` : shown(lengths)}; it must be a length, or an array of lengths such as [2, 64]`);
}

/** The fields of a scaling, which is a name or an object; an iterable block is an array in them. */
function scalingOf(scaling) {
  if (typeof scaling === 'string') return { format: scaling };
  if (kind(scaling) !== 'Object') {
    throw new LanecastError(`the scaling is ${shown(scaling)}; it must be a name such as 'mx', or an object such as { block: [1, 128] }`);
  }
  const fields = fieldsOf(scaling);
  if (fields.block !== undefined) fields.block = lengthsOf(fields.block, 'block');
  return fields;
}

/** The lines of text for the fields of a scaling; `side` is 'from' or 'to'. */
const linesOf = (fields, side) =>
  Object.entries(fields).map(([name, value]) => `${side}.${name} ${name === 'block' || typeof value === 'string' ? value : shown(value)}`);

/** The option `stochastic` as text: its seed, and the index of the first element. */
function wordsOf(value) {
  const { seed, first = 0, ...others } = kind(value) === 'Object' ? fieldsOf(value) : { seed: value };
  for (const name of Object.keys(others)) throw new LanecastError(`stochastic has no field ${shown(name)}; its fields are seed, first`);
  for (const [name, number] of Object.entries({ seed, first })) {
    const isIt = Number.isSafeInteger(number) ? number >= 0 : typeof number === 'bigint' && number >= 0n && number < 1n << 64n;
    if (!isIt) throw new LanecastError(`the ${name} of stochastic is ${shown(number)}; it must be a non-negative safe integer, or a non-negative BigInt below 2n ** 64n`);
  }
  return `${seed} ${first}`;
}

/** A new array of bytes; an error if there is no memory for them, or no array is as long. */
function room(bytes) {
  try {
    return new Uint8Array(bytes);
  } catch (cause) {
    throw new LanecastError(`no memory for a result of ${bytes} bytes`, { cause });
  }
}

/** The array that the user gets: a typed array over the bytes where the dtype has one, otherwise the bytes. */
const arrayOf = (bytes, dtype, { dstPacking, dstOrder }) =>
  (TO_ARRAY[dtype] && dstPacking === undefined && dstOrder !== 'big' ? new TO_ARRAY[dtype](bytes.buffer) : bytes);

/** Whether a value has elements and their scales, as `quantize` returns them, and is no buffer. */
const isQuantized = (value) => value !== null && typeof value === 'object' && !ArrayBuffer.isView(value) && 'codes' in value;

/** The scaling of quantised elements, with their tensor scale, which may have been found. */
function scalingIn({ scaling, tensorScale }) {
  const fields = scalingOf(scaling);
  if (tensorScale === undefined) return fields;
  const other = fields.tensorScale;
  if (typeof other === 'number' && Math.fround(other) !== Math.fround(tensorScale)) {
    throw new LanecastError(`the tensorScale of the quantised elements is ${shown(tensorScale)}, and that of their scaling ${other}`);
  }
  return { ...fields, tensorScale };
}

/** The options by which quantised elements are read; what is given comes first. */
function optionsIn({ zeroPoints, packing, order }, given) {
  return { zeroPoints, srcPacking: packing, srcOrder: order, ...objectOf(given) };
}

/** Whether two views have bytes in common. */
function overlap(a, b) {
  if (a.buffer !== b.buffer || a.length === 0 || b.length === 0) return false;
  return a.byteOffset < b.byteOffset + b.length && b.byteOffset < a.byteOffset + a.length;
}

/** A loaded module, which casts. */
export class Lanecast {
  #exports;
  #memory;
  #text;

  constructor({ exports }) {
    this.#exports = exports;
    this.#memory = new Uint8Array(exports.memory.buffer);
    const lines = this.#read(exports.destination_room(), exports.dtypes()).trim().split('\n');
    /** The bits of an element, by the name of its dtype. */
    this.dtypes = Object.freeze(Object.fromEntries(lines.map((line) => line.split(' ')).map(([k, v]) => [k, +v])));
    /** The instruction set that the module is compiled for. */
    this.isa = exports.isa() === 5 ? 'simd128' : 'scalar';
  }

  /** The memory of the module. When it grows, the old buffer is detached and there is a new one. */
  get #bytes() {
    if (this.#memory.length === 0) this.#memory = new Uint8Array(this.#exports.memory.buffer);
    return this.#memory;
  }

  #read(at, length) {
    return new TextDecoder().decode(this.#bytes.slice(at, at + length));
  }

  #fail() {
    throw new LanecastError(this.#read(this.#exports.destination_room(), this.#exports.error_length()));
  }

  /** Dtypes and options as text, one on each line: the lines `first`, the dtypes, the lines `last`, the options. */
  #lines(from, to, options, first = [], last = []) {
    for (const [what, dtype] of [['source', from], ['result', to]]) {
      if (typeof dtype !== 'string') throw new LanecastError(`the dtype of the ${what} is ${shown(dtype)}; it must be a name such as 'float32'`);
    }
    const lines = [...first, from, to, ...last];
    for (const [name, value] of Object.entries(options)) {
      if (/[. ]/.test(name)) throw new LanecastError(`there is no option ${shown(name)}`);
      lines.push(`${name} ${name === 'stochastic' ? wordsOf(value) : typeof value === 'string' ? value : shown(value)}`);
    }
    if (lines.some((line) => String(line).includes('\n'))) throw new LanecastError('a dtype, an option or a field of a scaling has a line break');
    return lines.join('\n');
  }

  /** Passes a text to a function of the module and returns its result; throws the module's error if that is 0. */
  #told(text, prepare) {
    const encoded = new TextEncoder().encode(text);
    if (encoded.length > 4096) throw new LanecastError(`dtypes, shape, options and scalings are ${encoded.length} bytes of text; at most 4096 are supported`);
    this.#bytes.set(encoded, this.#exports.source_room());
    const given = prepare(encoded.length);
    if (given === 0) this.#fail();
    return given;
  }

  /** Prepares a job in the module, unless it is its present one; returns how many elements a chunk may have. */
  #prepare(from, to, options) {
    const text = this.#lines(from, to, options);
    if (this.#text?.[0] !== text) {
      this.#text = undefined;
      this.#text = [text, this.#told(text, this.#exports.prepare)];
    }
    return this.#text[1];
  }

  #run(src, from, to, given, checked) {
    const { length, out, ...options } = objectOf(given);
    const source = bytesOf(src, 'the source');
    const own = out === undefined ? undefined : bytesOf(out, 'out');
    const chunk = this.#prepare(from, to, options);
    mustHold(src, from, 'the source');
    mustHold(out, to, 'out');
    const { element_bits, run, source_room, destination_room } = this.#exports;
    const bits = [element_bits(0), element_bits(1)];
    const size = (n, side) => Math.ceil((n * bits[side]) / 8);
    const n = length === undefined ? Math.floor((source.length * 8) / bits[0]) : length;
    if (!Number.isSafeInteger(n) || n < 0) throw new LanecastError(`length is ${shown(n)}; it must be a number of elements, a non-negative integer`);
    if (size(n, 0) !== source.length) {
      const needed = length === undefined ? `not a whole number of elements of ${bits[0]} bits` : `but ${n} elements of ${bits[0]} bits take ${size(n, 0)}`;
      throw new LanecastError(`the source has ${source.length} bytes, ${needed}`);
    }
    const result = own ?? room(size(n, 1));
    if (result.length !== size(n, 1)) {
      throw new LanecastError(`out has ${result.length} bytes, but ${n} elements of ${to} take ${size(n, 1)}`);
    }
    // Chunks are cast in order, so if both sides begin together and elements do not become wider, none is written before it is read.
    const inPlace = source.byteOffset === result.byteOffset && bits[1] <= bits[0];
    if (!inPlace && overlap(source, result)) {
      throw new LanecastError(
        `out overlaps the source; it may do so only if it begins at the same byte (it begins at ${result.byteOffset}, the source at ` +
          `${source.byteOffset}) and its elements are not wider (they have ${bits[1]} bits, those of the source ${bits[0]})`,
      );
    }
    const [from_room, to_room] = [source_room(), destination_room()];
    const report = { elements: 0 };
    for (const name of COUNTS) report[name] = 0;
    for (let first = 0; first < n; first += chunk) {
      const some = Math.min(chunk, n - first);
      const [read, write] = [size(first, 0), size(first, 1)];
      this.#bytes.set(source.subarray(read, read + size(some, 0)), from_room);
      if (run(some, checked ? 1 : 0, first) === 0) this.#fail();
      result.set(this.#bytes.subarray(to_room, to_room + size(some, 1)), write);
      if (checked) {
        const found = new Float64Array(this.#exports.memory.buffer, this.#exports.report(), 10);
        COUNTS.forEach((name, i) => (report[name] += found[i]));
        if (found[8] >= 0) report.first ??= first + found[8];
        if (found[9] >= 0) report.firstInexact ??= first + found[9];
      }
    }
    return checked ? { bytes: result, report } : result;
  }

  /** Casts a buffer of one dtype to another, into a new array or into `out`. */
  cast(src, from, to, options = {}) {
    return this.#run(src, from, to, options, false);
  }

  /** As `cast`, but also returns a report of what was lost. */
  castChecked(src, from, to, options = {}) {
    return this.#run(src, from, to, options, true);
  }

  /** Casts a typed array, whose type gives its dtype unless `from` does, to a new typed array, or to bytes if the target has none. */
  castArray(array, to, options = {}) {
    const { from = OF_ARRAY[nameOf(array)], ...fields } = objectOf(options);
    if (from === undefined) {
      const help = Array.isArray(array) ? 'Float32Array.from(..) makes one, for example' : "from says what bytes are, as in { from: 'float32' }";
      throw new LanecastError(`the source is not a typed array: ${help}`);
    }
    if (fields.out !== undefined) throw new LanecastError('castArray() always makes a new array: use cast(), which takes out');
    return arrayOf(this.cast(array, from, to, fields), to, fields);
  }

  /** Runs a scaled cast. `read` has the elements, and their scales and zero points if they are given; what is written is returned. */
  #scaled(what, from, to, shape, scalings, given, read) {
    const { scaled_prepare, scaled_source, scaled_run, scaled_result, scaled_length, scaled_tensor, scaled_end } = this.#exports;
    if (scaled_prepare === undefined) throw new LanecastError('this module has no scaled casts: load({ scaled: true }) loads one that has them');
    if (given.intRounding !== undefined) throw new LanecastError("intRounding is a field of the scaling here, as in { format: 'perRow', intRounding: 'up' }");
    const sources = ['the source', 'scales', 'zeroPoints'].map((name, i) => (read[i] === undefined ? new Uint8Array() : bytesOf(read[i], name)));
    const extents = lengthsOf(shape, 'shape');
    const fields = scalings.map(scalingOf);
    const lines = [extents, ...fields.flatMap((one, i) => linesOf(one, ['from', 'to'][i]))];
    if (read[2] !== undefined) lines.push('zeroPoints');
    const text = this.#lines(from, to, given, [what], lines);
    try {
      const [scalesRead, dtype, lengths] = this.#read(this.#exports.destination_room(), this.#told(text, scaled_prepare)).split('\n');
      mustHold(read[0], from, 'the source');
      mustHold(read[1], scalesRead, 'scales');
      mustHold(read[2], what === 'given' ? to : from, 'zeroPoints');
      sources.forEach((bytes, i) => {
        if (bytes.length >= 2 ** 32) throw new LanecastError(`a buffer of ${bytes.length} bytes is too large; a module has at most 4 GiB of memory`);
        const at = scaled_source(i, bytes.length) >>> 0;
        if (at === 0) this.#fail();
        this.#bytes.set(bytes, at);
      });
      if (scaled_run() === 0) this.#fail();
      const [codes, scales, zeros] = [0, 1, 2].map((i) => {
        const [at, length] = [scaled_result(i) >>> 0, scaled_length(i) >>> 0];
        const made = room(length);
        made.set(this.#bytes.subarray(at, at + length));
        return made;
      });
      const tensorScale = scaled_tensor() === -1 ? {} : { tensorScale: scaled_tensor() };
      const zeroPoints = what === 'affine' ? arrayOf(zeros, to, given) : what === 'given' ? read[2] : undefined;
      return {
        codes: arrayOf(codes, to, given),
        dtype: to,
        shape: [extents].flat(),
        scales: what === 'given' ? read[1] : arrayOf(scales, dtype, { dstOrder: given.dstOrder }),
        scaleDtype: dtype,
        scaleShape: lengths === '' ? [] : lengths.split(',').map(Number),
        scaling: { ...fields.at(-1), ...tensorScale },
        ...tensorScale,
        ...(zeroPoints === undefined ? {} : { zeroPoints }),
        ...(given.dstPacking === undefined ? {} : { packing: given.dstPacking }),
        ...(given.dstOrder === undefined ? {} : { order: given.dstOrder }),
      };
    } finally {
      scaled_end();
    }
  }

  /** Quantises data of this shape: casts it to codes with scales, which are found or given as `scales`. */
  quantize(src, from, to, shape, scaling, options = {}) {
    const { scales, zeroPoints, affine = false, ...rest } = objectOf(options);
    if (typeof affine !== 'boolean') throw new LanecastError(`affine is ${shown(affine)}; it must be true or false`);
    if (scales === undefined && zeroPoints !== undefined) throw new LanecastError('zeroPoints are given without scales: give both, or find both with affine: true');
    if (affine && !['int4', 'int8', 'uint8'].includes(to)) {
      throw new LanecastError(`affine: true finds zero points of int4 and int8, and from float32 to uint8 by the profile onnx, not of ${shown(to)}, for which scales and zeroPoints must be given`);
    }
    if (scales !== undefined && affine) throw new LanecastError('affine: true finds scales and zero points: give no scales with it');
    const what = scales !== undefined ? 'given' : affine ? 'affine' : 'found';
    return this.#scaled(what, from, to, shape, [scaling], rest, [src, scales, zeroPoints]);
  }

  /** Dequantises codes of this shape: casts them, with their scales, to numbers. Or `dequantize(quantized, to, options)`. */
  dequantize(codes, from, to, shape, scales, scaling, options = {}) {
    if (isQuantized(codes)) return this.dequantize(codes.codes, codes.dtype, from ?? 'float32', codes.shape, codes.scales, scalingIn(codes), optionsIn(codes, to ?? {}));
    const { zeroPoints, ...rest } = objectOf(options);
    return this.#scaled('dequantize', from, to, shape, [scaling], rest, [codes, scales, zeroPoints]).codes;
  }

  /** Casts codes with one scaling to codes with another, with a single rounding. Or `requantize(quantized, to, toScaling, options)`. */
  requantize(codes, from, to, shape, scales, fromScaling, toScaling, options = {}) {
    if (isQuantized(codes)) return this.requantize(codes.codes, codes.dtype, from, codes.shape, codes.scales, scalingIn(codes), to, optionsIn(codes, shape ?? {}));
    const { zeroPoints, ...rest } = objectOf(options);
    return this.#scaled('requantize', from, to, shape, [fromScaling, toScaling], rest, [codes, scales, zeroPoints]);
  }
}
