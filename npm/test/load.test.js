// node --test npm/test (after npm/build)
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

import { LanecastError, load } from '../dist/index.js';

const file = (name) => new URL(`../dist/${name}`, import.meta.url);
const fails = (run, text) => assert.rejects(run, (e) => e instanceof LanecastError && text.test(e.message));
const empty = new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]));

test('load takes a module of this package, and says what it was given', async () => {
  const bytes = readFileSync(file('lanecast.scalar.wasm'));
  const module = await WebAssembly.compile(bytes);
  assert.equal((await load({ module })).isa, 'scalar');
  await fails(() => load({ module: bytes }), /^module is of type Uint8Array; it must be a WebAssembly\.Module, which WebAssembly\.compile makes of bytes$/);
  await fails(() => load({ module: WebAssembly.compile(bytes) }), /^module is of type Promise/);
  await fails(() => load({ module: empty }), /^module is not one of the modules of this package/);
  await fails(() => load({ scale: true }), /^load has no option "scale"; its options are simd, scaled, module/);
  await fails(() => load({ simd: 'no' }), /^simd is "no"; it must be true or false/);
  await fails(() => load(null), /^the options are null; they must be an object such as \{ scaled: true \}/);
});

test('a worker loads the module that was sent to it', async () => {
  const code = `
    const { parentPort, workerData: { index, module, x } } = require('node:worker_threads');
    import(index).then(({ load }) => load({ module })).then((lanecast) => parentPort.postMessage(lanecast.castArray(x, 'int8')));`;
  const module = await WebAssembly.compile(readFileSync(file('lanecast.scalar.wasm')));
  const worker = new Worker(code, { eval: true, workerData: { index: file('index.js').href, module, x: new Float32Array([1.5, -300]) } });
  const codes = await new Promise((done, failed) => worker.once('message', done).once('error', failed));
  assert.deepEqual([...codes], [1, -128]);
  await worker.terminate();
});

test('a server that has no module, or a page in its place, is an error that says so', async () => {
  const code = readFileSync(file('index.js'));
  const server = createServer((request, response) => {
    if (request.url.startsWith('/none/')) return response.writeHead(404).end();
    response.end('<!doctype html>');
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  try {
    for (const [folder, text] of [['none', /\/none\/lanecast\.scalar\.wasm cannot be loaded: 404/], ['page', /\/page\/lanecast\.scalar\.wasm cannot be loaded: .* no WebAssembly module/]]) {
      const at = `http://127.0.0.1:${server.address().port}/${folder}/index.js`;
      // As if it had come from there.
      const moved = await import(`data:text/javascript,${encodeURIComponent(String(code).replaceAll('import.meta.url', JSON.stringify(at)))}`);
      await assert.rejects(() => moved.load({ simd: false }), (e) => e instanceof moved.LanecastError && text.test(e.message));
    }
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

test('the modules have addresses of their own', () => {
  const { exports, files } = JSON.parse(readFileSync(file('package.json')));
  assert.equal(exports['./*.wasm'], './*.wasm');
  assert.equal(files.filter((name) => name.endsWith('.wasm')).length, 4);
  // (A package may import itself by its name.)
  const inside = createRequire(file('index.js'));
  for (const name of [...files.filter((name) => name.endsWith('.wasm')), 'package.json']) assert.equal(inside.resolve(`lanecast/${name}`), inside.resolve(`./${name}`));
});
