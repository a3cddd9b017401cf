// The page in a real browser, without a window: node examples/web/test.mjs [directory for screenshots] (after npm/build)
//
// Chromium is spoken to by its own protocol, over pipes. Where there is none, that is said, and is no failure.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { load } from '../../npm/dist/index.js';
import { serve } from './serve.mjs';

const names = [process.env.CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome'].filter(Boolean);
const program = names.find((name) => spawnSync(name, ['--version']).status === 0);
if (!program) {
  console.log('NOT RUN: the page of examples/web: there is no Chromium here');
  process.exit(0);
}
const screenshots = process.argv[2];
const profile = mkdtempSync(join(tmpdir(), 'lanecast-web-'));
const server = await serve(0);
const browser = spawn(
  program,
  ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--remote-debugging-pipe', `--user-data-dir=${profile}`],
  { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] },
);

const waiting = new Map();
const problems = [];
let rest = '';
let number = 0;
browser.stdio[4].setEncoding('utf8').on('data', (text) => {
  const messages = (rest + text).split('\0');
  rest = messages.pop();
  for (const { id, result, error, method, params } of messages.map((message) => JSON.parse(message))) {
    if (method === 'Runtime.exceptionThrown') problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (!waiting.has(id)) continue;
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    error ? reject(new Error(error.message)) : resolve(result);
  }
});

let sessionId;
function send(method, params = {}) {
  const id = ++number;
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

async function evaluate(expression) {
  const { result, exceptionDetails } = await send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

/** Waits until an expression is true. */
async function until(expression) {
  for (const end = Date.now() + 60_000; Date.now() < end; ) {
    if (await evaluate(expression).catch(() => false)) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`not within a minute: ${expression}; the page says: ${await evaluate('document.body.innerText')} ${problems}`);
}

const text = (id) => evaluate(`document.getElementById('${id}').textContent`);
const results = (name) => until(`document.getElementById('what').textContent.startsWith(${JSON.stringify(name)}) && document.getElementById('status').textContent.startsWith('Cast by')`);

async function screenshot(name) {
  if (!screenshots) return;
  const { data } = await send('Page.captureScreenshot', { captureBeyondViewport: true });
  writeFileSync(join(screenshots, `${name}.png`), Buffer.from(data, 'base64'));
}

const patience = setTimeout(() => {
  console.log('the browser does not answer');
  browser.kill();
  process.exit(1);
}, 180_000);
try {
  const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
  ({ sessionId } = await send('Target.attachToTarget', { targetId, flatten: true }));
  await send('Page.enable');
  await send('Runtime.enable');
  await send('DOM.enable');
  await send('Emulation.setDeviceMetricsOverride', { width: 1000, height: 1250, deviceScaleFactor: 1, mobile: false });
  await send('Page.navigate', { url: `http://127.0.0.1:${server.address().port}/` });
  await until(`document.documentElement.dataset.ready === 'yes'`);
  await screenshot('empty');

  // The sample.
  await evaluate(`document.getElementById('sample').click()`);
  await results('sample');
  assert.match(await text('what'), /1,048,576 numbers, 4,194,304 bytes become 1,048,576/);
  assert.match(await text('status'), /simd128/, 'this browser has the instructions');
  const cells = await evaluate(`[...document.querySelectorAll('#speed td')].map((cell) => +cell.textContent)`);
  assert.equal(cells.length, 6);
  assert.ok(cells.every((cell) => cell > 0), `speeds: ${cells}`);
  const share = await evaluate(`[...document.querySelectorAll('.share')].reduce((sum, cell) => sum + parseFloat(cell.textContent), 0)`);
  assert.ok(Math.abs(share - 100) < 2, `the histogram is of all: ${share} %`);
  await screenshot('sample');

  // A file that is chosen, whose codes are those of the package.
  const x = Float32Array.from({ length: 1000 }, (_, i) => (i - 500) / 7);
  x[3] = NaN;
  x[4] = 1e9;
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }`.padEnd(117) + '\n';
  const npyOf = (header, data) => Buffer.concat([Buffer.from([0x93]), Buffer.from('NUMPY\x01\x00'), Buffer.from([header.length, 0]), Buffer.from(header), Buffer.from(data)]);
  const npy = npyOf(header, x.buffer);
  writeFileSync(join(profile, 'numbers.npy'), npy);
  const { root } = await send('DOM.getDocument');
  const { nodeId } = await send('DOM.querySelector', { nodeId: root.nodeId, selector: '#file' });
  await send('DOM.setFileInputFiles', { nodeId, files: [join(profile, 'numbers.npy')] });
  await results('numbers.npy');
  const lanecast = await load();
  const codes = () => evaluate(`fetch(document.getElementById('download').href).then((r) => r.arrayBuffer()).then((b) => [...new Uint8Array(b)])`);
  assert.deepEqual(await codes(), [...lanecast.castArray(x, 'float8_e4m3fn')]);
  assert.match(await text('report'), /above the range1/);

  // Another target and rounding, then the same dropped.
  await evaluate(`document.getElementById('rounding').value = 'up'; const d = document.getElementById('dtype'); d.value = 'bfloat16'; d.dispatchEvent(new Event('change'))`);
  await until(`document.getElementById('what').textContent.endsWith("2,000") && document.getElementById('status').textContent.startsWith('Cast by')`);
  assert.deepEqual(await codes(), [...lanecast.castArray(x, 'bfloat16', { rounding: 'up' })]);
  await evaluate(`(() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([new Float32Array([1, 2, 3])], 'dropped.bin'));
    document.getElementById('drop').dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
  })()`);
  await results('dropped.bin');
  assert.deepEqual(await codes(), [0x80, 0x3f, 0, 0x40, 0x40, 0x40]);

  // What is no such file.
  for (const [name, data, said] of [
    ['odd.bin', Buffer.alloc(7), /^odd.bin has 7 bytes/],
    ['float64.npy', npyOf("{'descr': '<f8', 'shape': (1,), }", Buffer.alloc(8)), /^float64.npy has elements '<f8': this page takes '<f4'/],
    ['fields.npy', npyOf("{'descr': [('a', '<f4')], 'shape': (2,), }", Buffer.alloc(8)), /^fields.npy has elements \[\('a', '<f4'\)\]: /],
    ['short.npy', npyOf("{'descr': '<f4', 'shape': (3, 4), }", Buffer.alloc(40)), /^short.npy is cut: numbers of shape \(3, 4\) are 48 bytes, and it has 40$/],
    ['shorter.npy', npy.subarray(0, 100), /^shorter.npy is cut: it ends within its header$/],
    ['shortest.npy', npy.subarray(0, 7), /^shortest.npy is cut: it ends within its header$/],
  ]) {
    writeFileSync(join(profile, name), data);
    await send('DOM.setFileInputFiles', { nodeId, files: [join(profile, name)] });
    await until(`document.getElementById('status').className === 'error' && document.getElementById('status').textContent.startsWith('${name}')`);
    assert.match(await text('status'), said);
  }
  writeFileSync(join(profile, 'scalar.npy'), npyOf("{'descr': '<f4', 'shape': (), }", new Float32Array([3, 7]).buffer));
  await send('DOM.setFileInputFiles', { nodeId, files: [join(profile, 'scalar.npy')] });
  await results('scalar.npy: 1 numbers, ');

  // By night, on a telephone.
  await send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: 'dark' }] });
  await send('Emulation.setDeviceMetricsOverride', { width: 390, height: 1500, deviceScaleFactor: 1, mobile: true });
  await evaluate(`const t = document.getElementById('dtype'); t.value = 'float8_e5m2'; document.getElementById('sample').click()`);
  await results('sample');
  assert.ok(await evaluate('document.documentElement.scrollWidth <= innerWidth'), 'the page is as wide as the screen');
  await screenshot('dark');
  assert.deepEqual(problems, []);
  console.log('ok: the page casts a sample, a chosen file and a dropped one');
} finally {
  clearTimeout(patience);
  const gone = new Promise((done) => browser.once('exit', done));
  browser.kill();
  await gone;
  server.close();
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
