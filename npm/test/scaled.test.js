// node --test npm/test (after npm/build)
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { LanecastError, hasSimd, load } from '../dist/index.js';

/** What `load` has made its casts of. */
const instances = [];
const { instantiate } = WebAssembly;
WebAssembly.instantiate = async (...given) => {
  instances.push(await instantiate(...given));
  return instances.at(-1);
};
const both = [await load({ scaled: true, simd: false }), ...(hasSimd() ? [await load({ scaled: true, simd: true })] : [])];
const fails = (run, text) => assert.throws(run, (e) => e instanceof LanecastError && text.test(e.message));

/** Numbers that are the same in every run, of many sizes; with zeros, and where it is asked for with Inf and NaN. */
function numbers(count, others = false) {
  const x = new Float32Array(count);
  for (let i = 0, state = 0x9e3779b9; i < count; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    x[i] = (state / 2 ** 31) * 2 ** ((i % 23) - 9);
    if (i % 31 === 0) x[i] = 0;
    if (others && i % 97 === 96) x[i] = [NaN, Infinity, -Infinity][i % 3];
  }
  return x;
}

for (const lanecast of both) {
  test(`${lanecast.isa}: MXFP4, NVFP4, int8 and blocks of 128 x 128 are what the formats say`, () => {
    const row = new Float32Array(64);
    row.set([1, -6, 0.5, 3.4]);
    row.set([0.5], 32);
    const mx = lanecast.quantize(row, 'float32', 'float4_e2m1fn', [1, 64], 'mx');
    assert.deepEqual([...mx.codes.slice(0, 3), mx.codes[16]], [0xf2, 0x51, 0, 0x06]); // 1 -6, 0.5 3; 4 by 2^-3
    assert.deepEqual([...mx.scales, ...mx.scaleShape, mx.scaleDtype], [127, 124, 1, 2, 'float8_e8m0fnu']);
    const back = lanecast.dequantize(mx.codes, 'float4_e2m1fn', 'float32', [1, 64], mx.scales, 'mx');
    assert.ok(back instanceof Float32Array);
    assert.deepEqual([...back.slice(0, 4), back[32]], [1, -6, 0.5, 3, 0.5]);

    const nv = lanecast.quantize(new Float32Array([2688, 1]), 'float32', 'float4_e2m1fn', [2], { format: 'nvfp4', tensorScale: 'compute' });
    assert.deepEqual([nv.tensorScale, ...nv.scales, ...nv.codes], [1, 0x7e, 0x07]);
    const half = lanecast.dequantize(nv.codes, 'float4_e2m1fn', 'float32', [2], nv.scales, { format: 'nvfp4', tensorScale: 0.5 });
    assert.deepEqual([...half], [1344, 0]);

    const of = (x, tensorScale, options) => lanecast.quantize(new Float32Array(x), 'float32', 'float4_e2m1fn', [1], { format: 'nvfp4', tensorScale }, options);
    assert.deepEqual([of([1]).tensorScale, of([1], 0.5).tensorScale, of([1], 0.5, { scales: new Uint8Array([0x38]) }).tensorScale], [undefined, 0.5, 0.5]);

    const rows = lanecast.quantize(new Float32Array([127, 1, -254, 3]), 'float32', 'int8', [2, 2], 'perRow');
    assert.ok(rows.codes instanceof Int8Array && rows.scales instanceof Float32Array);
    assert.deepEqual([...rows.codes, ...rows.scales, ...rows.scaleShape], [127, 1, -127, 2, 1, 2, 2, 1]);

    const blocks = lanecast.quantize(numbers(130 * 200), 'float32', 'float8_e4m3fn', [130, 200], 'deepseek');
    assert.deepEqual(blocks.scaleShape, [2, 2]);
    const same = lanecast.quantize(numbers(130 * 200), 'float32', 'float8_e4m3fn', [130, 200], { block: [128, 128] });
    assert.deepEqual({ ...same, scaling: { format: 'deepseek' } }, blocks);
  });

  test(`${lanecast.isa}: scales and zero points that are given, found, or of another layout`, () => {
    const x = new Float32Array([0.5, -2.5, 1e9]);
    const given = { scales: new Float32Array([0.5]), zeroPoints: new Uint8Array([128]) };
    const q = lanecast.quantize(x, 'float32', 'uint8', 3, 'perTensor', given);
    assert.deepEqual([...q.codes], [129, 123, 255]);
    assert.equal(q.scales, given.scales);
    const values = lanecast.dequantize(q.codes, 'uint8', 'float64', 3, q.scales, 'perTensor', { zeroPoints: given.zeroPoints });
    assert.deepEqual([...values], [0.5, -2.5, 63.5]);

    const affine = lanecast.quantize(new Float32Array([0, 255]), 'float32', 'int8', [1, 2], { format: 'perRow', profile: 'compressed_tensors' }, { affine: true });
    assert.deepEqual([...affine.codes, ...affine.zeroPoints, ...affine.scales], [-128, 127, -128, 1]);

    const found = Object.keys(lanecast.dtypes).filter((to) => {
      try {
        return lanecast.quantize(x, 'float32', to, 3, { format: 'perTensor', profile: 'compressed_tensors' }, { affine: true });
      } catch (error) {
        assert.equal(error.message, to === 'uint8' ? 'the profile compressed_tensors does not quantize with elements of uint8 and scales of float32'
          : `affine: true finds zero points of int4 and int8, and from float32 to uint8 by the profile onnx, not of "${to}", for which scales and zeroPoints must be given`);
      }
    });
    const dynamic = lanecast.quantize(new Float32Array([-1, 254]), 'float32', 'uint8', 2, { format: 'perTensor', profile: 'onnx' }, { affine: true });
    assert.deepEqual([...dynamic.codes, ...dynamic.zeroPoints, ...dynamic.scales], [0, 255, 1, 1]);
    assert.deepEqual(found, ['int4', 'int8']);
    fails(() => lanecast.quantize(x, 'float32', 'int8', 3, 'perTensor', { affine: true }), /^the profile lanecast finds no zero points .* use the profile compressed_tensors/);

    const mx = lanecast.quantize(numbers(200 * 256), 'float32', 'float8_e4m3fn', [200, 256], 'mx');
    const tiles = lanecast.quantize(numbers(200 * 256), 'float32', 'float8_e4m3fn', [200, 256], { format: 'mx', layout: 'swizzle32x4x4' });
    assert.deepEqual([mx.scales.length, tiles.scales.length, ...tiles.scaleShape], [1600, 2048, 200, 8]);
    assert.deepEqual(tiles.codes, mx.codes);

    const again = lanecast.requantize(mx.codes, 'float8_e4m3fn', 'int8', [200, 256], mx.scales, 'mx', 'perTensor');
    const floats = lanecast.dequantize(mx.codes, 'float8_e4m3fn', 'float64', [200, 256], mx.scales, 'mx');
    const direct = lanecast.quantize(floats, 'float64', 'int8', [200, 256], 'perTensor');
    assert.deepEqual(again, direct);
    const empty = lanecast.quantize(new Float32Array(0), 'float32', 'int8', [0, 32], 'mx');
    assert.deepEqual([empty.codes.length, empty.scales.length, ...empty.scaleShape], [0, 0, 0, 1]);
  });

  test(`${lanecast.isa}: dequantize and requantize take what quantize returns`, () => {
    const x = numbers(64 * 32);
    const [shape, bytes] = [[64, 32], lanecast.cast(x, 'float32', 'bfloat16')];
    const back = (q, scaling, options) => lanecast.dequantize(q.codes, q.dtype, 'float32', shape, q.scales, scaling, options);
    for (const [to, scaling] of [['float4_e2m1fn', 'mx'], ['int8', { block: [8, 0], scaleDtype: 'float16' }], ['float8_e5m2', { axis: 1 }], ['float8_e4m3fn', { format: 'mx', layout: 'swizzle32x4x4' }]]) {
      const q = lanecast.quantize(bytes, 'bfloat16', to, shape, scaling);
      assert.deepEqual([q.dtype, q.shape, q.scaling], [to, shape, typeof scaling === 'string' ? { format: scaling } : scaling]);
      assert.deepEqual(Object.keys(q), ['codes', 'dtype', 'shape', 'scales', 'scaleDtype', 'scaleShape', 'scaling']);
      assert.deepEqual(lanecast.dequantize(q), back(q, scaling));
      assert.deepEqual(lanecast.dequantize(structuredClone(q), 'float64', { rounding: 'up' }), lanecast.dequantize(q.codes, to, 'float64', shape, q.scales, scaling, { rounding: 'up' }));
      const rows = lanecast.requantize(q, 'int8', 'perRow');
      assert.deepEqual(rows, lanecast.requantize(q.codes, to, 'int8', shape, q.scales, scaling, 'perRow'));
      assert.deepEqual([rows.scaling, rows.dtype, lanecast.dequantize(rows)], [{ format: 'perRow' }, 'int8', back(rows, 'perRow')]);
    }

    // The tensor scale, found or given, to multiply by or to divide by.
    for (const tensorScaleDivides of [true, false]) {
      const q = lanecast.quantize(x, 'float32', 'float4_e2m1fn', shape, { format: 'nvfp4', tensorScale: 'compute', tensorScaleDivides });
      assert.deepEqual(q.scaling, { format: 'nvfp4', tensorScale: q.tensorScale, tensorScaleDivides });
      assert.ok(q.tensorScale > 0 && lanecast.dequantize(q).every((number, i) => Math.abs(number - x[i]) <= 8192 / 5));
      assert.deepEqual(lanecast.dequantize(q), back(q, q.scaling));
      assert.deepEqual(lanecast.dequantize({ ...q, scaling: { format: 'nvfp4', tensorScaleDivides } }), lanecast.dequantize(q));
      assert.deepEqual(lanecast.requantize(q, 'float4_e2m1fn', q.scaling).codes, q.codes);
      fails(() => lanecast.dequantize({ ...q, tensorScale: 3 }), /^the tensorScale of the quantised elements is 3, and that of their scaling /);
    }
    const given = lanecast.quantize(x, 'float32', 'float4_e2m1fn', shape, { format: 'nvfp4', tensorScale: 0.1 });
    assert.deepEqual([given.tensorScale, given.scaling.tensorScale], [Math.fround(0.1), Math.fround(0.1)]);
    assert.deepEqual(lanecast.dequantize(given), back(given, { format: 'nvfp4', tensorScale: 0.1 }));

    // Zero points, found and given; packing and byte order.
    const profile = { format: 'perRow', profile: 'compressed_tensors' };
    const affine = lanecast.quantize(x, 'float32', 'int4', shape, profile, { affine: true, dstPacking: 'highFirst' });
    assert.equal(affine.packing, 'highFirst');
    assert.deepEqual(lanecast.dequantize(affine), back(affine, profile, { zeroPoints: affine.zeroPoints, srcPacking: 'highFirst' }));
    assert.notDeepEqual(lanecast.dequantize(affine, 'float32', { srcPacking: 'lowFirst' }), lanecast.dequantize(affine));
    const own = { scales: new Float32Array([2]), zeroPoints: new Uint8Array([100]) };
    const zeros = lanecast.quantize(x, 'float32', 'uint8', shape, 'perTensor', own);
    assert.equal(zeros.zeroPoints, own.zeroPoints);
    assert.deepEqual(lanecast.dequantize(zeros), back(zeros, 'perTensor', { zeroPoints: own.zeroPoints }));
    const big = lanecast.quantize(x, 'float32', 'int16', shape, 'perRow', { dstOrder: 'big' });
    assert.equal(big.order, 'big');
    assert.deepEqual(lanecast.dequantize(big), lanecast.dequantize(lanecast.quantize(x, 'float32', 'int16', shape, 'perRow')));

    const [iterator, length] = [[8, 32].values(), lanecast.quantize(x, 'float32', 'int8', 2048, { block: 8 })];
    assert.deepEqual(lanecast.quantize(x, 'float32', 'int8', shape, { block: iterator }).scaling, { block: [8, 32] });
    assert.deepEqual([length.shape, length.scaling], [[2048], { block: 8 }]);
    fails(() => lanecast.dequantize({ codes: length.codes, shape: 2048, scaling: 'mx' }), /^the dtype of the source is undefined/);
    fails(() => lanecast.dequantize({ ...length, scaling: undefined }), /^the scaling is undefined/);
    fails(() => lanecast.dequantize(length, 'int8', 'float32'), /^the options are "float32"; they must be an object/);
    fails(() => lanecast.requantize(length, 'int8'), /^the scaling is undefined/);
  });

  test(`${lanecast.isa}: the memory of a call is that of the next one`, () => {
    const x = numbers(1 << 18);
    const run = () => lanecast.quantize(x, 'float32', 'float8_e4m3fn', [512, 512], 'mx');
    const first = run();
    const { memory } = instances[both.indexOf(lanecast)].exports;
    const before = memory.buffer.byteLength;
    for (let i = 0; i < 20; i++) run();
    assert.deepEqual(run(), first);
    assert.equal(memory.buffer.byteLength, before);
    assert.equal(lanecast.castArray(new Float32Array([1.5]), 'int8')[0], 1, 'casts go on');
  });

  test(`${lanecast.isa}: errors of scaled casts say what was given`, () => {
    const x = new Float32Array(64);
    const q = (...given) => () => lanecast.quantize(x, 'float32', 'int8', ...given);
    fails(q([4, 15], 'mx'), /^the source has 256 bytes; elements of float32 of shape \[4, 15\] need exactly 240/);
    fails(q([64], 'mxfp4'), /^scaling is "mxfp4"; it must be one of mx, nvfp4, deepseek, perTensor, perRow/);
    fails(q([64], { blocks: [32] }), /^a scaling has no field "blocks"; its fields are format, scaleDtype, block/);
    fails(q([64], { format: 'mx', block: 32 }), /^a scaling with a format cannot have a block or an axis/);
    fails(q([64], { rule: 'round_down' }), /^rule is "round_down"; it must be one of amax, floor, ceil, even, roundUp/);
    fails(q([64], { profile: 'pytorch' }), /^profile is "pytorch"; it must be one of lanecast, ocp, .*compressed_tensors/);
    fails(q([64], { tensorScale: 'found' }), /^tensorScale is "found"; it must be a number or 'compute'/);
    fails(q([64], { scaleDtype: 'f32' }), /did you mean float32\?/);
    fails(q([64], { axis: 1 }), /^data of shape \[64\] have no axis 1/);
    fails(q([64], null), /^the scaling is null; it must be a name such as 'mx'/);
    fails(q([64], undefined), /^the scaling is undefined/);
    fails(q('64', 'mx'), /^shape is "64"; it must be a length, or an array of lengths/);
    fails(q([8, -8], 'mx'), /^shape is \[8,-8\]; it must be a length, or an array of lengths/);
    fails(q([2 ** 31, 2 ** 31], 'mx'), /address space/);
    fails(q([4, 15].values(), 'mx'), /of shape \[4, 15\] need exactly 240/);
    fails(q([64], 'mx', { profile: 'torchao' }), /^profile is a field of the scaling/);
    fails(q([64], 'perRow', { intRounding: 'up' }), /^intRounding is a field of the scaling here/);
    for (const name of ['floatToInt', 'intToInt']) {
      const text = new RegExp(`^${name} is an option of casts without scales; quantised integers saturate$`);
      for (const value of ['wrap', 'saturate']) fails(q([64], 'perRow', { [name]: value }), text);
      fails(() => lanecast.dequantize(q([64], 'mx')(), 'float32', { [name]: 'wrap' }), text);
      fails(() => lanecast.requantize(q([64], 'mx')(), 'int8', 'perRow', { [name]: 'wrap' }), text);
    }
    fails(q([64], 'mx', { length: 64 }), /^there is no option "length"; the options are scales, zeroPoints, affine, rounding, saturate, saturation, nanToFinite, /);
    fails(() => lanecast.dequantize(q([64], 'mx')(), 'float32', { scales: x }), /^there is no option "scales"; the options are zeroPoints, rounding, saturate/);
    fails(q([64], 'mx', { 'from.rule': 'ceil' }), /^there is no option "from.rule"/);
    fails(q([64], 'perTensor', { zeroPoints: new Int8Array(1) }), /^zeroPoints are given without scales/);
    fails(q([64], 'perTensor', { scales: new Float32Array(1), affine: true }), /^affine: true finds scales/);
    fails(q([64], 'perTensor', { affine: 1 }), /^affine is 1/);
    fails(q([64], [32]), /^the scaling is of type Array; it must be a name/);
    fails(q([64], new Map([['block', 32]])), /^the scaling is of type Map; it must be a name/);
    assert.deepEqual(q([64], Object.create({ block: 32 }))().scaling, { block: 32 });
    fails(q([64], Object.create({ blocks: 32 })), /^a scaling has no field "blocks"/);
    fails(q([64], 'perTensor', { scales: new Float32Array(2) }), /\[1\] scales of float32, which take 4 bytes; there are 8 bytes/);
    fails(q([64], 'perTensor', { scales: [1] }), /^scales is of type Array; it must be a typed array/);
    fails(() => lanecast.dequantize(new Uint8Array(256), 'int8', 'float32', [64], new Uint8Array(2), 'mx'), /^the source has 256 bytes/);
    fails(q([64], 'perTensor', { scales: new Uint32Array(1) }), /^scales is a Uint32Array, but its dtype is float32: it must be a Float32Array; /);
    fails(q([64], 'mx', { scales: new Float32Array(2) }), /^scales is a Float32Array, but its dtype is float8_e8m0fnu: it must be a Uint8Array; /);
    fails(q([64], 'perTensor', { scales: new Float32Array(1), zeroPoints: new Int32Array(1) }), /^zeroPoints is an Int32Array, but its dtype is int8: it must be an Int8Array; /);
    fails(() => lanecast.quantize(new Float64Array(32), 'float32', 'int8', [64], 'mx'), /^the source is a Float64Array, but its dtype is float32/);
    const [codes, one] = [new Int8Array(64), new Float32Array(1)];
    fails(() => lanecast.dequantize(codes, 'uint8', 'float32', [64], one, 'perTensor'), /^the source is an Int8Array, but its dtype is uint8/);
    fails(() => lanecast.dequantize(codes, 'int8', 'float32', [64], new Float64Array(1), 'perTensor'), /^scales is a Float64Array, but its dtype is float32/);
    fails(() => lanecast.dequantize(codes, 'int8', 'float32', [64], one, 'perTensor', { zeroPoints: new Int16Array(1) }), /^zeroPoints is an Int16Array/);
    fails(() => lanecast.requantize(codes, 'int8', 'float8_e4m3fn', [64], new Uint16Array(1), 'perTensor', 'mx'), /^scales is a Uint16Array, but its dtype is float32/);
    lanecast.requantize(codes, 'int8', 'int4', [64], new Uint16Array(1), { scaleDtype: 'bfloat16' }, 'perTensor');
    assert.equal(q([64], 'mx')().scales.length, 2, 'an error leaves it as it was');
  });
}

test('both modules give the same bits under scales', () => {
  assert.equal(both.length, 2, 'this engine has the instructions');
  const shape = [6, 331];
  const data = { float32: numbers(6 * 331, true) };
  for (const dtype of ['float16', 'bfloat16', 'float64']) data[dtype] = both[0].cast(data.float32, 'float32', dtype);
  const targets = ['float8_e4m3fn', 'float8_e5m2', 'float6_e2m3fn', 'float6_e3m2fn', 'float4_e2m1fn', 'int8', 'uint8', 'int4'];
  const scalings = ['mx', { format: 'nvfp4', tensorScale: 'compute' }, 'deepseek', 'perTensor', 'perRow', { axis: 0, block: 2, scaleDtype: 'float16' }];
  const profiles = ['torchao', 'compressed_tensors', 'modelopt', 'hf_fp8'];
  scalings.push(...profiles.map((profile) => ({ format: 'mx', profile })), ...profiles.map((profile) => ({ format: 'perRow', profile })));
  let done = 0;
  for (const scaling of scalings) {
    for (const to of targets) {
      for (const [from, x] of Object.entries(data)) {
        const [a, b] = both.map((lanecast) => {
          try {
            const q = lanecast.quantize(x, from, to, shape, scaling);
            const back = { ...(typeof scaling === 'string' ? { format: scaling } : scaling), tensorScale: q.tensorScale };
            return [q, ...['float32', 'bfloat16', 'float16'].map((into) => lanecast.dequantize(q.codes, to, into, shape, q.scales, back))];
          } catch (error) {
            // (What a profile does not do is an error.)
            if (!(error instanceof LanecastError)) throw error;
            return error.message;
          }
        });
        assert.deepEqual(a, b, `${from} -> ${to}, ${JSON.stringify(scaling)}`);
        if (typeof a !== 'string') done += 1;
      }
    }
  }
  assert.ok(done > 200, `${done} of them`);
});

test('a module without scales says so', async () => {
  const plain = await load();
  fails(() => plain.quantize(new Float32Array(32), 'float32', 'int8', [32], 'mx'), /^this module has no scaled casts: load\(\{ scaled: true \}\)/);
});
