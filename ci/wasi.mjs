// Runs a program that is compiled for wasm32-wasip1, by Node's own WASI: what cargo is told to run the tests of that target with.
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
  // Fixtures are read by their path.
  preopens: { '/': '/' },
  // The program ends the process: Node 20 may fault in what it does after a program that has run for long.
  returnOnExit: false,
});
const module = await WebAssembly.compile(await readFile(program));
wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
