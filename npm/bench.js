// How many times as fast the module is as the reference (on the 25 pairs of `ratio`, in benches/peers), and as plain loops of JavaScript: node npm/bench.js (after npm/build)
//
// All contenders of a pair take turns, and each counts by its median, so what else the machine does concerns all of them. Against the
// loops whole calls are timed, which copy into the module and out of it; against the reference, the casts in the module.
// With --all it is all pairs that are compared with the reference, and only the mean is printed with the slowest ten (those of two equal dtypes are copies).
// Under scales, both whole calls, the copies and the memory of each included.
// With --check it fails where that is less than is promised: 20 times the reference in the geometric mean, 3 times each loop of casts.
import { readFileSync } from 'node:fs';

import { load } from './dist/index.js';
import { CODES, from_float32, to_float32 } from '../examples/web/plain.js';

const PAIRS = `float32 float16 / float16 float32 / float32 bfloat16 / bfloat16 float32 / bfloat16 float16 / float16 bfloat16 / float64 float16 /
float32 float64 / float64 float32 / float32 float8_e4m3fn / float8_e4m3fn float32 / float32 float8_e5m2 / float8_e5m2 float32 / float32 int8 /
int8 float32 / float32 uint8 / uint8 float32 / float32 int32 / int32 float32 / float64 int64 / int64 float64 / int64 float32 / int64 int32 /
int32 int8 / uint8 uint16`;
const ELEMENTS = 1 << 16;

const lanecast = await load();
if (lanecast.isa !== 'simd128') throw new Error('this engine has no instructions on 128 bits');

/** A module by itself, for what is timed in it. */
function inside(src, from, to, isa) {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(new URL('dist/lanecast.simd128.wasm', import.meta.url))));
  const room = new Uint8Array(exports.memory.buffer, exports.source_room());
  const job = new TextEncoder().encode(`${from}\n${to}\nisa ${isa}`);
  room.set(job);
  const elements = Math.min(exports.prepare(job.length), ELEMENTS);
  room.set(src.subarray(0, (elements * exports.element_bits(0)) / 8));
  return (times) => {
    for (let i = 0; i < times; i++) if (exports.run(elements, 0, 0) === 0) throw new Error(`${from} -> ${to}`);
  };
}

/** Numbers of ordinary sizes, as many positive as negative ones. */
const numbers = Float32Array.from({ length: ELEMENTS }, () => (Math.random() - 0.5) * 2 ** (Math.random() * 12 - 4));

/** The median time of each, in turns. */
function race(rounds, ...contenders) {
  const times = contenders.map(() => []);
  for (let round = 0; round < rounds; round++) {
    contenders.forEach((run, i) => {
      const start = performance.now();
      run();
      times[i].push(performance.now() - start);
    });
  }
  // The first ones are those in which the engine compiles.
  return times.map((all) => all.slice(rounds >> 2).sort((a, b) => a - b)[(all.length - (rounds >> 2)) >> 1]);
}

let failed = false;
console.log('times the reference, in the module');
const all = process.argv.includes('--all');
const names = Object.keys(lanecast.dtypes);
const pairs = all ? names.flatMap((from) => names.map((to) => [from, to])) : PAIRS.split('/').map((pair) => pair.trim().split(/\s+/));
const gains = [];
for (const [from, to] of pairs) {
  const src = lanecast.cast(numbers, 'float32', from);
  const [simd, scalar] = ['simd128', 'scalar'].map((isa) => inside(src, from, to, isa));
  const [fast, slow] = race(all ? 12 : 60, () => simd(8), () => scalar(1));
  gains.push([(slow / fast) * 8, `${from} -> ${to}`]);
}
if (all) gains.sort((a, b) => a[0] - b[0]);
for (const [gain, pair] of gains.slice(0, all ? 10 : undefined)) console.log(`${gain.toFixed(1).padStart(8)}  ${pair}`);
const mean = Math.exp(gains.reduce((sum, [gain]) => sum + Math.log(gain), 0) / gains.length);
console.log(`${mean.toFixed(1).padStart(8)}  geometric mean of ${pairs.length} pairs`);
failed ||= mean < 20;

console.log('times a loop of JavaScript, with the copies');
for (const [dtype, Codes] of Object.entries(CODES)) {
  const codes = new Codes(ELEMENTS);
  const [ours, back, plain] = [new Codes(ELEMENTS), new Float32Array(ELEMENTS), new Float32Array(ELEMENTS)];
  for (const [name, loop, cast, results] of [
    [`float32 -> ${dtype}`, () => from_float32[dtype](numbers, codes), () => lanecast.cast(numbers, 'float32', dtype, { out: ours }), [codes, ours]],
    [`${dtype} -> float32`, () => to_float32[dtype](codes, plain), () => lanecast.cast(codes, dtype, 'float32', { out: back }), [plain, back]],
  ]) {
    const [theirs, mine] = race(300, loop, cast);
    if (!Buffer.from(results[0].buffer).equals(Buffer.from(results[1].buffer))) throw new Error(`${name}: other bits`);
    const gain = theirs / mine;
    console.log(`${gain.toFixed(1).padStart(8)}  ${name}`);
    failed ||= gain < 3;
  }
}

/** The numbers of float4_e2m1fn. */
const FLOAT4 = Float32Array.from([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5, -2, -3, -4, -6]);
/** What dequantizes 1024 x 1024 elements to float32. */
const LOOPS = {
  'MXFP4 -> float32': [
    'float4_e2m1fn', 'mx',
    (codes, scales, out) => {
      for (let i = 0; i < codes.length; i++) {
        const scale = 2 ** (scales[i >> 4] - 127);
        out[2 * i] = FLOAT4[codes[i] & 15] * scale;
        out[2 * i + 1] = FLOAT4[codes[i] >> 4] * scale;
      }
    },
  ],
  'int8 of 128 x 128 -> float32': [
    'int8', 'deepseek',
    (codes, scales, out) => {
      for (let row = 0; row < 1024; row++) {
        for (let i = 0; i < 1024; i++) out[1024 * row + i] = codes[1024 * row + i] * scales[8 * (row >> 7) + (i >> 7)];
      }
    },
  ],
};
/** float32 to int8 by one scale for each 128 x 128, found: the same codes but for ties, which Math.round has up. */
function loopToInt8(x) {
  const [codes, scales] = [new Int8Array(x.length), new Float32Array(64)];
  for (let block = 0; block < 64; block++) {
    const first = (block >> 3) * 128 * 1024 + (block & 7) * 128;
    let amax = 0;
    for (let row = 0; row < 128; row++) {
      for (let i = 0; i < 128; i++) amax = Math.max(amax, Math.abs(x[first + 1024 * row + i]));
    }
    const scale = (scales[block] = amax / 127);
    for (let row = 0; row < 128; row++) {
      for (let i = 0; i < 128; i++) codes[first + 1024 * row + i] = Math.round(x[first + 1024 * row + i] / scale);
    }
  }
  return codes;
}

console.log('times a loop of JavaScript, under scales, with the copies; 1024 x 1024');
const scaled = await load({ scaled: true });
const shape = [1024, 1024];
const wide = Float32Array.from({ length: 1 << 20 }, (_, i) => numbers[i % ELEMENTS]);
for (const [name, [to, scaling, loop]] of Object.entries(LOOPS)) {
  const q = scaled.quantize(wide, 'float32', to, shape, scaling);
  const plain = new Float32Array(1 << 20);
  let ours;
  const [theirs, mine] = race(24, () => loop(q.codes, q.scales, plain), () => (ours = scaled.dequantize(q.codes, to, 'float32', shape, q.scales, scaling)));
  if (!Buffer.from(ours.buffer).equals(Buffer.from(plain.buffer))) throw new Error(`${name}: other bits`);
  console.log(`${(theirs / mine).toFixed(1).padStart(8)}  ${name}`);
}
const [mine, theirs] = race(24, () => scaled.quantize(wide, 'float32', 'int8', shape, 'deepseek'), () => loopToInt8(wide));
console.log(`${(theirs / mine).toFixed(1).padStart(8)}  float32 -> int8 of 128 x 128, scales found`);
if (failed && process.argv.includes('--check')) {
  console.log('less than is promised');
  process.exitCode = 1;
}
