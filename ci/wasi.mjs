// Runs a program compiled for wasm32-wasip1 with Node's own WASI. It is cargo's runner for the tests of that target:
//
//   CARGO_TARGET_WASM32_WASIP1_RUNNER='node --no-warnings ci/wasi.mjs' cargo test --target wasm32-wasip1
import { readFile } from 'node:fs/promises';
import process from 'node:process';
import { WASI } from 'node:wasi';

const [program, ...args] = process.argv.slice(2);
const wasi = new WASI({
  version: 'preview1',
  args: [program, ...args],
  env: process.env,
  // Tests read fixtures by their absolute paths.
  preopens: { '/': '/' },
  // The program ends the process itself, because Node 20 may crash after the return of a program that ran for long.
  returnOnExit: false,
});
const module = await WebAssembly.compile(await readFile(program));
wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
