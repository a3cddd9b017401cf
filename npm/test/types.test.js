// node --test npm/test (after npm/build)
//
// What TypeScript says of types.ts, where there is a `tsc`: that of a package `typescript` above this folder, or of the PATH.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

function compiler() {
  try {
    return [process.execPath, join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')];
  } catch {
    const found = (process.env.PATH ?? '').split(delimiter).find((folder) => existsSync(join(folder, 'tsc')));
    return found && [join(found, 'tsc')];
  }
}

const tsc = compiler();
test('the types are right under tsc --strict', { skip: !tsc && 'there is no tsc' }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'lanecast-types-'));
  try {
    const here = (path) => fileURLToPath(new URL(path, import.meta.url));
    mkdirSync(join(folder, 'node_modules'));
    cpSync(here('../dist'), join(folder, 'node_modules/lanecast'), { recursive: true });
    cpSync(here('types.ts'), join(folder, 'types.ts'));
    writeFileSync(join(folder, 'least.ts'), "import { load } from 'lanecast';\nexport const codes = (await load()).castArray(new Float32Array(2), 'int8');\n");
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
    const run = (files, options) => {
      const compilerOptions = { strict: true, exactOptionalPropertyTypes: true, target: 'es2022', noEmit: true, types: [], ...options };
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
      const { status, stdout, stderr } = spawnSync(tsc[0], [...tsc.slice(1), '-p', folder], { encoding: 'utf8' });
      assert.equal(status, 0, `${JSON.stringify(options)}: ${stdout}${stderr}`);
    };
    for (const moduleResolution of ['node16', 'nodenext', 'bundler']) {
      run(['types.ts', 'least.ts'], { moduleResolution, module: moduleResolution === 'bundler' ? 'esnext' : moduleResolution, lib: ['es2022', 'dom'] });
    }
    // Without the library of browsers, which is where TypeScript has WebAssembly.
    run(['least.ts'], { module: 'nodenext', lib: ['es2022'] });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
