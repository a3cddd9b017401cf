// Serves the page, with the package of npm/build beside it: node examples/web/serve.mjs [port]
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

const TYPES = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.wasm': 'application/wasm' };

/** A server of it on a port of this machine; 0 is any. */
export async function serve(port) {
  const server = createServer(async (request, response) => {
    const path = new URL(request.url, 'http://localhost').pathname;
    // Names without directories, of two directories.
    const [, name] = /^\/(?:lanecast\/)?([\w.-]+)$/.exec(path) ?? [, 'index.html'];
    const folder = path.startsWith('/lanecast/') ? '../../npm/dist/' : './';
    try {
      const body = await readFile(new URL(folder + name, import.meta.url));
      response.writeHead(200, { 'content-type': TYPES[extname(name)] ?? 'application/octet-stream' }).end(body);
    } catch {
      response.writeHead(404).end(`no ${path}: npm/build makes the package`);
    }
  });
  await new Promise((done) => server.listen(port, '127.0.0.1', done));
  return server;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = await serve(Number(process.argv[2] ?? 8000));
  console.log(`http://127.0.0.1:${server.address().port}/`);
}
