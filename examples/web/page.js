// The page: a file or a sample is cast and cast back, timed beside plain loops, and its errors are counted.
import { load } from './lanecast/index.js';
import { CODES, from_float32, to_float32 } from './plain.js';

const $ = (id) => document.getElementById(id);
const count = new Intl.NumberFormat('en');

/** Weights as networks have them, a few outliers among them: the same numbers in every browser. */
function sample(length) {
  let state = 1;
  const uniform = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32 + 2 ** -33;
  const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  return Float32Array.from({ length }, (_, i) => normal() * (i % 1000 === 0 ? 400 : 0.8));
}

/** The numbers of a file: an array of NumPy, or raw. */
function numbers(buffer, name) {
  let data = new Uint8Array(buffer);
  if (String.fromCharCode(...data.subarray(1, 6)) === 'NUMPY') {
    const view = new DataView(buffer);
    const wide = data[6] >= 2;
    const begin = wide ? 12 : 10;
    const end = data.length < begin ? begin : begin + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
    if (data.length < end) throw new Error(`${name} is cut: it ends within its header`);
    const header = new TextDecoder('latin1').decode(data.subarray(begin, end));
    const dtype = /'descr': *('[^']*'|\[.*\])/.exec(header)?.[1];
    if (dtype !== "'<f4'") throw new Error(`${name} has elements ${dtype}: this page takes '<f4', float32`);
    const shape = /'shape': *(\([^)]*\))/.exec(header)?.[1];
    const bytes = 4 * (shape?.match(/\d+/g) ?? []).reduce((product, length) => product * length, 1);
    if (data.length - end < bytes) throw new Error(`${name} is cut: numbers of shape ${shape} are ${count.format(bytes)} bytes, and it has ${count.format(data.length - end)}`);
    data = data.slice(end, end + bytes);
  }
  if (data.length === 0 || data.length % 4 !== 0) throw new Error(`${name} has ${count.format(data.length)} bytes of data, no float32 numbers of 4 bytes each`);
  return new Float32Array(data.buffer, data.byteOffset, data.length / 4);
}

/** The median time of each in milliseconds, in turns, for about as long. */
function race(budget, ...contenders) {
  const times = contenders.map(() => []);
  for (const end = performance.now() + budget; performance.now() < end || times[0].length < 5; ) {
    contenders.forEach((run, i) => {
      const start = performance.now();
      // Clocks of browsers are coarse.
      let runs = 0;
      do run(), runs++;
      while (performance.now() - start < 4);
      times[i].push((performance.now() - start) / runs);
    });
  }
  return times.map((all) => all.sort((a, b) => a - b)[all.length >> 1]);
}

/** How many numbers have an error of so many powers of two. */
function errors(x, back) {
  const bins = new Map();
  let all = 0;
  for (let i = 0; i < x.length; i++) {
    if (!Number.isFinite(x[i]) || x[i] === 0) continue;
    all++;
    const error = Math.abs((back[i] - x[i]) / x[i]);
    const bin = error === 0 ? 'exact' : Number.isNaN(error) || error >= 1 ? '100 % and more' : Math.max(-12, Math.floor(Math.log2(error)));
    bins.set(bin, (bins.get(bin) ?? 0) + 1);
  }
  const percent = (k) => `${+(100 * 2 ** k).toPrecision(2)} %`;
  const names = [...bins.keys()].filter((bin) => typeof bin === 'number');
  const rows = bins.has('exact') ? [['exact', bins.get('exact')]] : [];
  for (let k = Math.min(...names); k <= Math.max(...names); k++) {
    rows.push([k === -12 ? `to ${percent(-11)}` : `${percent(k)} to ${percent(k + 1)}`, bins.get(k) ?? 0]);
  }
  if (bins.has('100 % and more')) rows.push(['100 % and more', bins.get('100 % and more')]);
  return { rows, all };
}

function element(name, text, attributes = {}) {
  const made = Object.assign(document.createElement(name), attributes);
  made.textContent = text;
  return made;
}

let current;
let url;
const lanecast = await load().catch((error) => fail(error));

function fail(error) {
  $('status').textContent = error.message;
  $('status').className = 'error';
}

function show() {
  const { x, name } = current;
  const [dtype, rounding] = [$('dtype').value, $('rounding').value];
  const { bytes, report } = lanecast.castChecked(x, 'float32', dtype, { rounding });
  const back = new Float32Array(lanecast.cast(bytes, dtype, 'float32').buffer);

  $('what').textContent = `${name}: ${count.format(x.length)} numbers, ${count.format(x.byteLength)} bytes become ${count.format(bytes.length)}`;

  // On as many as the caches hold: what is measured is not how fast memory is.
  const few = x.subarray(0, 1 << 16);
  const Codes = CODES[dtype];
  const rows = [];
  const out = new Uint8Array(few.length * (lanecast.dtypes[dtype] / 8));
  const codes = lanecast.cast(few, 'float32', dtype);
  const floats = [new Float32Array(few.length), new Float32Array(few.length)];
  const loops = Codes && { there: new Codes(few.length), here: new Codes(codes.buffer) };
  for (const [title, ours, theirs] of [
    [`float32 → ${dtype}`, () => lanecast.cast(few, 'float32', dtype, { rounding, out }), rounding === 'nearestEven' && Codes && (() => from_float32[dtype](few, loops.there))],
    [`${dtype} → float32`, () => lanecast.cast(codes, dtype, 'float32', { out: floats[0] }), Codes && (() => to_float32[dtype](loops.here, floats[1]))],
  ]) {
    const [mine, plain] = race(250, ours, ...(theirs ? [theirs] : []));
    const speed = (time) => `${((few.byteLength + codes.length) / time / 1e6).toFixed(2)}`;
    const row = document.createElement('tr');
    row.append(element('th', title, { scope: 'row' }), element('td', speed(mine)), element('td', plain ? speed(plain) : '–'), element('td', plain ? (plain / mine).toFixed(1) : '–'));
    rows.push(row);
  }
  $('speed').replaceChildren(...rows);

  const facts = { 'rounded': report.inexact, 'above the range': report.above, 'below the range': report.below, 'NaN': report.nan, 'infinite': report.inf };
  $('report').replaceChildren(...Object.entries(facts).map(([what, n]) => {
    const cell = document.createElement('div');
    cell.append(element('dt', what), element('dd', count.format(n)));
    return cell;
  }));

  const { rows: bins, all } = errors(x, back);
  const most = Math.max(1, ...bins.map(([, n]) => n));
  $('histogram').replaceChildren(...bins.flatMap(([what, n]) => {
    const bar = element('span', '', { className: 'bar' });
    bar.style.width = `${(100 * n) / most}%`;
    return [element('span', what), bar, element('span', `${((100 * n) / Math.max(all, 1)).toFixed(1)} %`, { className: 'share' })];
  }));

  if (url) URL.revokeObjectURL(url);
  url = URL.createObjectURL(new Blob([bytes]));
  Object.assign($('download'), { href: url, download: `${name.replace(/\.[^.]*$/, '')}.${dtype}.bin` });
  $('download').textContent = `Download the codes (${count.format(bytes.length)} bytes)`;
  $('status').className = '';
  $('status').textContent = `Cast by ${lanecast.isa === 'simd128' ? 'instructions on 128 bits (simd128)' : 'the scalar module: this browser has no simd128'}.`;
  $('results').hidden = false;
}

async function take(name, data) {
  $('status').className = '';
  $('status').textContent = 'Casting…';
  await new Promise((done) => setTimeout(done));
  try {
    current = { name, x: await data() };
    show();
  } catch (error) {
    fail(error);
  }
}

if (lanecast) {
  $('status').textContent = 'Ready.';
  const file = (chosen) => chosen && take(chosen.name, async () => numbers(await chosen.arrayBuffer(), chosen.name));
  $('sample').addEventListener('click', () => take('sample', async () => sample(1 << 20)));
  $('file').addEventListener('change', (event) => file(event.target.files[0]));
  for (const id of ['dtype', 'rounding']) $(id).addEventListener('change', () => current && take(current.name, async () => current.x));
  const drop = $('drop');
  drop.addEventListener('dragover', (event) => (event.preventDefault(), drop.classList.add('over')));
  drop.addEventListener('dragleave', () => drop.classList.remove('over'));
  drop.addEventListener('drop', (event) => {
    event.preventDefault();
    drop.classList.remove('over');
    file(event.dataTransfer.files[0]);
  });
  document.documentElement.dataset.ready = 'yes';
}
