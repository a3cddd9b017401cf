// node --test npm/test (after npm/build)
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';

import { LanecastError, hasSimd, load } from '../dist/index.js';

const both = await Promise.all([load({ simd: false }), ...(hasSimd() ? [load({ simd: true })] : [])]);
const bytesOf = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** Bits that are the same in every run: numbers of every size, Inf and NaN among them. */
function bits(count) {
  const words = new Uint32Array(count);
  for (let i = 0, state = 0x9e3779b9; i < count; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
  return words;
}

for (const lanecast of both) {
  test(`${lanecast.isa}: numbers become what the contract says`, () => {
    const x = new Float32Array([1, -0.3, 1e9, NaN, Infinity, 0, -0]);
    assert.deepEqual([...lanecast.castArray(x, 'float8_e4m3fn')], [0x38, 0xaa, 0x7e, 0x7f, 0x7e, 0, 0x80]);
    assert.deepEqual([...lanecast.castArray(x, 'int8')], [1, 0, 127, 0, 127, 0, 0]);
    assert.deepEqual([...lanecast.castArray(new Int32Array([1, 300, -1]), 'uint8')], [1, 44, 255]);
    assert.deepEqual([...lanecast.castArray(new BigInt64Array([-5n, 1n << 40n]), 'float64')], [-5, 2 ** 40]);
    assert.deepEqual([...lanecast.castArray(Buffer.from([1, 200]), 'float32')], [1, 200]);
    const codes = lanecast.castArray(x, 'bfloat16');
    assert.ok(codes instanceof Uint8Array && codes.length === 14);
    assert.deepEqual([...lanecast.castArray(new Float32Array([1.5, 2, -3]), 'float4_e2m1fn')], [0x43, 0x0d]);
    // Of what dtype bytes are castArray is told.
    const eights = lanecast.castArray(x, 'float8_e4m3fn');
    assert.deepEqual(lanecast.castArray(eights, 'float32', { from: 'float8_e4m3fn' }), new Float32Array([1, -0.3125, 448, NaN, 448, 0, -0]));
    assert.deepEqual(lanecast.castArray(new DataView(codes.buffer, 0, 2), 'float64', { from: 'bfloat16' }), new Float64Array([1]));
    assert.deepEqual(lanecast.castArray(codes.buffer, 'int8', { from: 'bfloat16', length: 7 }), new Int8Array([1, 0, 127, 0, 127, 0, 0]));
  });

  test(`${lanecast.isa}: options`, () => {
    const x = new Float32Array([1.03, -1.03, 1e9]);
    const to = (options) => [...lanecast.castArray(x, 'float8_e4m3fn', options)];
    assert.deepEqual(to({ rounding: 'up' }), [0x39, 0xb8, 0x7e]);
    assert.deepEqual(to({ rounding: 'down' }), [0x38, 0xb9, 0x7e]);
    assert.deepEqual(to({ rounding: 'towardZero', saturate: false }), [0x38, 0xb8, 0x7e]);
    const large = (options) => Array.from(lanecast.cast(new Float32Array([1e9, 1.0625]), 'float32', 'float8_e4m3fn', options));
    assert.deepEqual(large({ profile: 'torch' }), [0x7e, 0x38]);
    assert.deepEqual(large({ profile: 'ml_dtypes' }), [0x7f, 0x38]);
    assert.deepEqual(large({ rounding: 'up', profile: 'ml_dtypes' }), [0x7f, 0x39]);
    assert.deepEqual(to({ saturate: false }), [0x38, 0xb8, 0x7f]);
    assert.deepEqual(to({ saturation: 'never' }), [0x38, 0xb8, 0x7f]);
    const ints = (options) => [...lanecast.castArray(new Float32Array([2.5, -2.5, 300]), 'int8', options)];
    assert.deepEqual(ints({}), [2, -2, 127]);
    assert.deepEqual(ints({ intRounding: 'nearestAway', floatToInt: 'wrap' }), [3, -3, 44]);
    // Bytes in another order are no numbers.
    assert.deepEqual(lanecast.castArray(new Float32Array([1]), 'int16', { dstOrder: 'big' }), new Uint8Array([0, 1]));
    assert.deepEqual(lanecast.castArray(new Float32Array([1]), 'int16', { dstOrder: 'little' }), new Int16Array([1]));
    // What the profile says of integers of 4 bits alone, too.
    const narrow = (options) => [...lanecast.castArray(new Float32Array([2.5, 20]), 'int4', { dstPacking: 'onePerByte', ...options })];
    assert.deepEqual(narrow({ profile: 'onnx' }), [2, 4]);
    assert.deepEqual(narrow({ intRounding: 'up', profile: 'onnx', floatToInt: 'saturate' }), [3, 7]);
    assert.deepEqual([...lanecast.castArray(new Uint8Array([1, 2, 3]), 'uint4', { dstPacking: 'highFirst' })], [0x12, 0x30]);
    assert.deepEqual([...lanecast.cast(new Uint8Array([1, 2]), 'uint16', 'uint8', { srcOrder: 'big' })], [2]);
    const packed = new Uint8Array([0x21, 0x03]);
    assert.deepEqual([...lanecast.cast(packed, 'uint4', 'uint8', { length: 3 })], [1, 2, 3]);
    assert.deepEqual([...lanecast.cast(packed, 'uint4', 'uint8')], [1, 2, 3, 0]);
    const out = new Float32Array(2);
    const returned = lanecast.cast(new Uint8Array([0x38, 0xaa]), 'float8_e4m3fn', 'float32', { out });
    assert.ok(out[0] === 1 && out[1] === -0.3125 && returned.buffer === out.buffer);
  });

  test(`${lanecast.isa}: options that are inherited count as those of one's own`, () => {
    const x = new Float32Array([1.03, -1.03, 1e9]);
    const up = [0x39, 0xb8, 0x7e];
    class Settings {
      rounding = 'up';
      saturate = undefined;
      help() {}
    }
    for (const options of [Object.create({ rounding: 'up' }), new Settings(), Object.assign(Object.create(null), { rounding: 'up' }), Object.create({ rounding: 'down' }, { rounding: { value: 'up', enumerable: true } })]) {
      assert.deepEqual([...lanecast.castArray(x, 'float8_e4m3fn', options)], up);
      assert.deepEqual([...lanecast.cast(x, 'float32', 'float8_e4m3fn', options)], up);
    }
    const out = new Uint8Array(3);
    lanecast.cast(x, 'float32', 'float8_e4m3fn', Object.create({ out, rounding: 'up', length: 3 }));
    assert.deepEqual([...out], up);
    assert.ok(lanecast.castArray(x, 'int16', Object.create({ dstOrder: 'big' })) instanceof Uint8Array);
    assert.throws(() => lanecast.castArray(x, 'int8', Object.create({ colour: 'red' })), /no option "colour"/);
    Object.prototype.rounding = 'up';
    try {
      assert.deepEqual([...lanecast.castArray(x, 'float8_e4m3fn', {})], [0x38, 0xb8, 0x7e], 'what all objects have is nobody\'s option');
    } finally {
      delete Object.prototype.rounding;
    }
  });

  test(`${lanecast.isa}: stochastic rounding, the same in pieces, and beyond a chunk`, () => {
    const x = new Float32Array(200_001).fill(1 + 1 / 512);
    const cast = (array, stochastic) => lanecast.castArray(array, 'bfloat16', { stochastic });
    const words = new Uint16Array(cast(x, 7).buffer);
    const ups = words.filter((word) => word === 0x3f81).length;
    assert.ok(words.every((word) => word === 0x3f80 || word === 0x3f81));
    // (A quarter is rounded up; 194 is the deviation of that.)
    assert.ok(Math.abs(ups - 50_000) < 5 * 194, `${ups} of 200001`);
    assert.deepEqual(cast(x, 7n), cast(x, 7));
    assert.notDeepEqual(cast(x, 8), cast(x, 7));
    const rest = cast(x.subarray(70_001), { seed: 7, first: 70_001 });
    assert.deepEqual(rest, cast(x, { seed: 7 }).subarray(2 * 70_001));
    // The bits that every other host has: those of Rust's `CastOptions::stochastic(7, 0)`.
    const first = Array.from({ length: 100 }, (_, i) => i).filter((i) => words[i] === 0x3f81);
    assert.deepEqual(first, [13, 22, 28, 30, 35, 37, 44, 48, 50, 51, 52, 54, 65, 69, 70, 76, 77, 87, 91, 94, 95]);
    for (const wrong of [-1, 0.5, '7', null, {}, { seed: 1, first: -1n }, 1n << 64n]) {
      assert.throws(() => cast(x, wrong), (e) => e instanceof LanecastError && /of stochastic is .*; it must be a non-negative safe integer/.test(e.message));
    }
  });

  test(`${lanecast.isa}: a checked cast counts, across the chunks of a long one`, () => {
    const x = new Float32Array(200_001);
    x[70_000] = 0.5;
    x[150_000] = 1e9;
    x[190_000] = NaN;
    const { bytes, report } = lanecast.castChecked(x, 'float32', 'int8');
    const { elements, above, nan, inexact, first, firstInexact } = report;
    assert.deepEqual({ elements, above, nan, inexact }, { elements: 200_001, above: 1, nan: 1, inexact: 1 });
    assert.deepEqual([first, firstInexact, bytes[150_000]], [150_000, 70_000, 127]);
    const exact = lanecast.castChecked(new Uint8Array(9), 'uint8', 'float32').report;
    assert.ok(exact.first === undefined && exact.inexact === 0 && exact.elements === 9);
    assert.equal(lanecast.castChecked(new Uint8Array(0), 'uint8', 'float32').report.elements, 0);
  });

  test(`${lanecast.isa}: in place, longer than a chunk; no other overlap`, () => {
    const n = 200_001;
    const x = Float32Array.from(bits(n), (word) => word % 251);
    const expected = lanecast.castArray(x, 'uint8');
    const room = new ArrayBuffer(4 * n + 8);
    new Float32Array(room, 4, n).set(x);
    const same = { out: new Uint8Array(room, 4, n) };
    assert.deepEqual(lanecast.cast(new Float32Array(room, 4, n), 'float32', 'uint8', same), expected);
    const swapped = new Uint8Array([1, 2, 3, 4]);
    lanecast.cast(swapped, 'uint16', 'uint16', { out: swapped, dstOrder: 'big' });
    assert.deepEqual([...swapped], [2, 1, 4, 3]);

    const refused = (src, from, to, out) => {
      const before = new Uint8Array(room.slice());
      const text = /^out overlaps the source; .* begins at \d+, the source at \d+.* have \d+ bits/;
      assert.throws(() => lanecast.cast(src, from, to, { out }), (e) => e instanceof LanecastError && text.test(e.message));
      assert.deepEqual(new Uint8Array(room), before, 'nothing is written');
    };
    refused(new Uint8Array(room, 0, n), 'uint8', 'float32', new Float32Array(room, 0, n));
    refused(new Uint8Array(room, 3 * n, n), 'uint8', 'float32', new Float32Array(room, 0, n));
    refused(new Float32Array(room, 0, n), 'float32', 'uint8', new Uint8Array(room, 1, n));
    refused(new Float32Array(room, 4, n), 'float32', 'float32', new Float32Array(room, 0, n));
    lanecast.cast(new Uint8Array(room, 4, 4), 'uint8', 'float32', { out: new Float32Array(room, 8, 4) });
    lanecast.cast(new Uint8Array(room, 4, 0), 'uint8', 'float32', { out: new Float32Array(room, 0, 0) });
    lanecast.cast(new Uint8Array(4), 'uint8', 'float32', { out: new Float32Array(room, 0, 4) });
  });

  test(`${lanecast.isa}: a buffer that was transferred is an error`, () => {
    const [gone, x] = [new ArrayBuffer(8), new Uint8Array(2)];
    const views = [gone, new Float32Array(gone), new DataView(gone)];
    structuredClone(gone, { transfer: [gone] });
    const fails = (run, text) => assert.throws(run, (e) => e instanceof LanecastError && text.test(e.message));
    for (const view of views) {
      fails(() => lanecast.cast(view, 'float32', 'int8'), /^the source has no bytes: its ArrayBuffer was transferred/);
      fails(() => lanecast.cast(x, 'uint8', 'float32', { out: view }), /^out has no bytes/);
    }
    fails(() => lanecast.castArray(views[1], 'int8'), /^the source has no bytes/);
  });

  test(`${lanecast.isa}: a view that its buffer has become too short for is an error`, { skip: !ArrayBuffer.prototype.resize }, () => {
    const room = new ArrayBuffer(16, { maxByteLength: 16 });
    const [fixed, view, tracking] = [new Float32Array(room, 4, 3), new DataView(room, 4, 12), new Float32Array(room)];
    room.resize(8);
    const fails = (run, text) => assert.throws(run, (e) => e instanceof LanecastError && text.test(e.message));
    for (const short of [fixed, view]) {
      fails(() => lanecast.cast(short, 'float32', 'int8'), /^the source has no bytes: .* too short/);
      fails(() => lanecast.cast(new Uint8Array(0), 'uint8', 'int8', { out: short }), /^out has no bytes/);
    }
    fails(() => lanecast.castArray(fixed, 'int8'), /^the source has no bytes/);
    assert.equal(lanecast.castArray(tracking, 'int8').length, 2);
    assert.equal(lanecast.castArray(new Float32Array(0), 'int8').length, 0);
  });

  test(`${lanecast.isa}: buffers of another realm`, () => {
    const other = (code) => runInNewContext(code);
    const x = other('new Float32Array([1, -2])');
    assert.deepEqual([...lanecast.castArray(x, 'int8')], [1, -2]);
    for (const src of [x.buffer, other('new DataView(new Float32Array([1, -2]).buffer)')]) {
      assert.deepEqual([...lanecast.cast(src, 'float32', 'uint8')], [1, 0]);
    }
    assert.equal(lanecast.cast(other('new SharedArrayBuffer(8)'), 'float32', 'uint8').length, 2);
  });

  test(`${lanecast.isa}: a typed array is one of its dtype, or bytes`, () => {
    const classes = {
      Int8Array: ['int8', 'int1', 'int2', 'int4'],
      Int16Array: ['int16'],
      Uint16Array: ['uint16', 'float16', 'bfloat16', 'complex32', 'bcomplex32'],
      Int32Array: ['int32'],
      Uint32Array: ['uint32'],
      BigInt64Array: ['int64'],
      BigUint64Array: ['uint64'],
      Float16Array: ['float16', 'complex32'],
      Float32Array: ['float32', 'complex64'],
      Float64Array: ['float64', 'complex128'],
    };
    const names = Object.keys(lanecast.dtypes);
    for (const name of ['Uint8Array', 'Uint8ClampedArray', ...Object.keys(classes)]) {
      const Class = globalThis[name];
      if (Class === undefined) continue;
      for (const dtype of names) {
        const array = new Class(96 / Class.BYTES_PER_ELEMENT);
        const length = 768 / lanecast.dtypes[dtype];
        const casts = { 'the source': () => lanecast.cast(array, dtype, 'int8'), out: () => lanecast.cast(new Int8Array(length), 'int8', dtype, { out: array }) };
        for (const [what, cast] of Object.entries(casts)) {
          if ((classes[name] ?? names).includes(dtype)) assert.ok(cast() instanceof Uint8Array);
          else assert.throws(cast, (e) => e instanceof LanecastError && e.message.startsWith(`${what} is ${name.startsWith('I') ? 'an' : 'a'} ${name}, but its dtype is ${dtype}: it must be a`));
        }
      }
    }
    const fails = (run, text) => assert.throws(run, (e) => e instanceof LanecastError && text.test(e.message));
    fails(() => lanecast.castChecked(new Uint32Array(2), 'float32', 'int8'), /^the source is a Uint32Array, but its dtype is float32: it must be a Float32Array; to take its bytes/);
    fails(() => lanecast.cast(new Float32Array(2), 'bfloat16', 'int8'), /: it must be a Uint16Array of their bits; to take its bytes as they are, give new Uint8Array\(x\.buffer, x\.byte/);
    fails(() => lanecast.cast(new Int8Array(2), 'float8_e4m3fn', 'int8'), /: it must be a Uint8Array; /);
    fails(() => lanecast.cast(runInNewContext('new Float64Array(2)'), 'float32', 'int8'), /^the source is a Float64Array/);
    class Samples extends Float32Array {
      get [Symbol.toStringTag]() {
        return 'Int32Array';
      }
    }
    assert.deepEqual([...lanecast.castArray(new Samples([1, 2]), 'int8')], [1, 2]);
    for (const Class of [ArrayBuffer, SharedArrayBuffer]) assert.equal(lanecast.cast(new DataView(new Class(8)), 'float32', 'int8').length, 2);
  });

  test(`${lanecast.isa}: a result that there is no memory for is an error`, () => {
    const bytes = new Uint8Array(1000);
    const { Uint8Array: Own } = globalThis;
    const construct = (Class, given) => {
      if (given[0] === 16_000) throw new RangeError('Array buffer allocation failed');
      return Reflect.construct(Class, given);
    };
    globalThis.Uint8Array = new Proxy(Own, { construct });
    try {
      const isIt = (e) => e instanceof LanecastError && e.message === 'no memory for a result of 16000 bytes' && e.cause instanceof RangeError;
      assert.throws(() => lanecast.cast(bytes, 'uint8', 'complex128'), isIt);
      assert.throws(() => lanecast.castArray(new Int8Array(2000), 'float64'), isIt);
    } finally {
      globalThis.Uint8Array = Own;
    }
  });

  test(`${lanecast.isa}: errors say what was given`, () => {
    const fails = (run, text) => assert.throws(run, (e) => e instanceof LanecastError && text.test(e.message));
    const x = new Float32Array(2);
    fails(() => lanecast.cast(x, 'float32', 'float9'), /float9/);
    fails(() => lanecast.cast(x, 'float\n32', 'int8'), /line break/);
    fails(() => lanecast.cast(x, 'int8'), /the dtype of the result is undefined/);
    fails(() => lanecast.castArray([1, 2], 'int8'), /not a typed array: Float32Array\.from/);
    fails(() => lanecast.castArray(x, 'int8', { round: 'up' }), /no option "round"; the options are length, out, profile, rounding, intR/);
    fails(() => lanecast.cast(new Uint8Array(7), 'float32', 'int8'), /^the source has 7 bytes, not a whole number of elements of 32 bits$/);
    fails(() => lanecast.cast(x, 'float32', 'int8', { length: 3 }), /^the source has 8 bytes, but 3 elements of 32 bits take 12$/);
    fails(() => lanecast.cast(x, 'float32', 'int8', { length: -1 }), /length is -1/);
    fails(() => lanecast.cast(x, 'float32', 'int8', { out: new Uint8Array(3) }), /3 bytes.*take 2/);
    fails(() => lanecast.cast([1, 2], 'float32', 'int8'), /it must be a typed array/);
    fails(() => lanecast.cast(x, 'float32', 'int8', { rounding: 'sideways' }), /nearestEven/);
    fails(() => lanecast.cast(x, 'float32', 'int8', { profile: 'pytorch' }), /onnx, numpy, torch/);
    fails(() => lanecast.cast(x, 'float32', 'int8', { colour: 'red' }), /no option "colour"/);
    fails(() => lanecast.castArray([1], 'int8'), /not a typed array/);
    fails(() => lanecast.castArray(x.buffer, 'int8'), /not a typed array: from says what bytes are, as in \{ from: 'float32' \}$/);
    fails(() => lanecast.castArray(x, 'int8', { from: 'float64' }), /^the source is a Float32Array, but its dtype is float64/);
    fails(() => lanecast.castArray(x, 'int8', { from: 5 }), /^the dtype of the source is 5/);
    fails(() => lanecast.cast(x, 'float32', 'int8', { from: 'float32' }), /^there is no option "from"/);
    if (lanecast.isa === 'scalar') fails(() => lanecast.cast(x, 'float32', 'int8', { isa: 'simd128' }), /simd128/);
    fails(() => lanecast.cast(x, 'float32', 'int8', null), /^the options are null; they must be an object/);
    fails(() => lanecast.cast(x, 'float32', 'int8', 'up'), /^the options are "up"; they must be an object/);
    fails(() => lanecast.castArray(x, 'int8', null), /^the options are null/);
    fails(() => lanecast.cast(x, 'float32', 'int8', new Int8Array(2)), /^the options are of type Int8Array; they must be an object/);
    fails(() => lanecast.cast(x, 'float32', 'int8', []), /^the options are of type Array/);
    for (const options of [new Map([['rounding', 'up']]), new ArrayBuffer(2), () => {}]) {
      fails(() => lanecast.cast(x, 'float32', 'int8', options), /^the options are of type (Map|ArrayBuffer|Function); they must be an object/);
    }
    fails(() => lanecast.cast(x, 'float32', 'bfloat16', { stochastic: { seed: 1, index: 2 } }), /^stochastic has no field "index"; its fields are seed, first$/);
    fails(() => lanecast.cast(x, 'float32', 'int8', { rounding: Symbol('up') }), /^rounding is "Symbol\(up\)"; it must be one of nearestEven/);
    fails(() => lanecast.cast(x, 'float32', 'int8', { rounding: Object.create(null) }), /^rounding is "of type Object"; it must be one of/);
    fails(() => lanecast.cast(x, 'float32', 'int8', { length: '2' }), /^length is "2"; it must be a number of elements/);
    fails(() => lanecast.cast(x, Symbol('float32'), 'int8'), /^the dtype of the source is Symbol\(float32\); it must be a name/);
    fails(() => lanecast.cast({}, 'float32', 'int8'), /^the source is of type Object; it must be a typed array/);
    assert.equal(lanecast.castArray(x, 'int8').length, 2, 'an error leaves it as it was');
  });
}

test('both modules give the same bits, of every pair and in every rounding', () => {
  assert.equal(both.length, 2, 'this engine has the instructions');
  const [scalar, simd] = both;
  assert.deepEqual([scalar.isa, simd.isa], ['scalar', 'simd128']);
  const names = Object.keys(scalar.dtypes);
  assert.ok(names.length >= 35);
  const data = bytesOf(bits(192));
  for (const from of names) {
    for (const to of names) {
      for (const rounding of ['nearestEven', 'nearestAway', 'towardZero', 'up', 'down']) {
        const options = { rounding, intRounding: rounding };
        const [a, b] = both.map((lanecast) => lanecast.castChecked(data, from, to, options));
        assert.deepEqual(a, b, `${from} -> ${to}, ${rounding}`);
      }
    }
  }
});

test('bundlers find all modules, and nothing of Node', () => {
  const code = readFileSync(new URL('../dist/index.js', import.meta.url), 'utf8');
  for (const name of ['simd128', 'scalar', 'scaled.simd128', 'scaled.scalar']) assert.ok(code.includes(`new URL('./lanecast.${name}.wasm', import.meta.url)`), name);
  assert.doesNotMatch(code, /(import|require)\(['"]|from 'node:/);
});

test('the types name every dtype, and the package has its files', () => {
  const types = readFileSync(new URL('../dist/index.d.ts', import.meta.url), 'utf8');
  const kinds = types.slice(types.indexOf('interface TypedArrays'), types.indexOf('type Float16'));
  for (const name of Object.keys(both[0].dtypes)) {
    assert.ok(types.includes(`'${name}'`), name);
    // What castArray is said to make it makes.
    const made = both[0].castArray(new Float32Array(8), name).constructor.name;
    if (name !== 'float16') assert.equal(kinds.match(new RegExp(`^  ${name}: New<(\\w+)Constructor>;`, 'm'))?.[1] ?? 'Uint8Array', made, name);
  }
  const { files } = JSON.parse(readFileSync(new URL('../dist/package.json', import.meta.url)));
  for (const file of files) assert.ok(readFileSync(new URL(`../dist/${file}`, import.meta.url)).length > 0, file);
});
