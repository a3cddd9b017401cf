// What TypeScript is to take, and what not (types.test.js).
import { load, type ArrayOf, type CastOptions, type DType, type Lanecast, type LanecastError, type Quantized, type Scaling } from 'lanecast';

const lanecast: Lanecast = await load({ scaled: true });
const x = new Float32Array(64 * 96);
const shape: readonly number[] = [64, 96];

// The page's examples.
const codes = lanecast.castArray(x, 'float8_e4m3fn');
export const bytes: Uint8Array = codes;
export const back: Float32Array = lanecast.castArray(codes, 'float32', { from: 'float8_e4m3fn' });
export const buffer: Float64Array = lanecast.castArray(new ArrayBuffer(4), 'float64', { from: 'bfloat16', rounding: 'up' });
lanecast.cast(codes, 'float8_e4m3fn', 'float32', { out: new Float32Array(codes.length) });
export const numbers: Float64Array = lanecast.castArray(new Int32Array([1, 300]), 'float64');
export const first: number | undefined = lanecast.castChecked(x, 'float32', 'int8').report.first;
const q = lanecast.quantize(x, 'float32', 'float4_e2m1fn', shape, 'mx');
export const values: Float32Array = lanecast.dequantize(q.codes, 'float4_e2m1fn', 'float32', shape, q.scales, 'mx');
export const rows: Int8Array = lanecast.requantize(q.codes, 'float4_e2m1fn', 'int8', shape, q.scales, 'mx', { block: [1, 0] }).codes;

// Scales that were found are a typed array, and those that were given are what they were.
export const count: number = q.scales.length;
export const given: Float32Array = lanecast.quantize(x, 'float32', 'int8', shape, 'perTensor', { scales: new Float32Array(1) }).scales;


// What quantize returns dequantize takes, also with scales and zero points of one's own, or what has the same fields.
export const floats: Float32Array = lanecast.dequantize(q);
export const doubles: Float64Array = lanecast.dequantize(q, 'float64', { rounding: 'up' });
export const eights: Int8Array = lanecast.requantize(q, 'int8', 'perRow').codes;
const own_scales = lanecast.quantize(x, 'float32', 'uint8', shape, 'perTensor', { scales: new ArrayBuffer(4), zeroPoints: new DataView(new ArrayBuffer(1)) });
export const point: DataView | undefined = own_scales.zeroPoints;
lanecast.dequantize(own_scales);
lanecast.dequantize(lanecast.quantize(x, 'float32', 'int8' as DType, shape, 'mx'));
lanecast.dequantize({ codes, dtype: 'float8_e4m3fn', shape, scales: new Float32Array(1), scaling: 'deepseek' });
export const quantised: Quantized<'int8'> = lanecast.quantize(x, 'float32', 'int8', shape, 'perTensor');

export function cast<T extends DType>(to: T): ArrayOf<T> {
  return lanecast.castArray(x, to);
}
export const any: number = lanecast.castArray(x, 'int8' as DType).byteLength;
export const shared: Uint8Array = lanecast.cast(new SharedArrayBuffer(8), 'float32', 'int8', { out: new SharedArrayBuffer(2) });
export const part: BlobPart = lanecast.cast(codes, 'float8_e4m3fn', 'float32');
const options: CastOptions = { rounding: 'up', saturate: false, stochastic: 7n };
export const scaling: Scaling = { format: 'nvfp4', tensorScale: 'compute' };
lanecast.cast(codes, 'float8_e4m3fn', 'float32', options);
export const text = (error: LanecastError): string => error.message;
export const own = async (bytes: ArrayBuffer): Promise<Lanecast> => load({ module: await WebAssembly.compile(bytes) });

// @ts-expect-error there is no such dtype
lanecast.castArray(x, 'float9');
// @ts-expect-error there is no such option
lanecast.castArray(x, 'int8', { round: 'up' });
// @ts-expect-error no option has this value
lanecast.castArray(x, 'int8', { rounding: 'sideways' });
// @ts-expect-error not a typed array
lanecast.castArray([1, 2], 'int8');
// @ts-expect-error not a typed array, and no dtype
lanecast.castArray(new ArrayBuffer(4), 'int8');
// @ts-expect-error castArray makes a new array
lanecast.castArray(x, 'int8', { out: new Int8Array(x.length) });
// @ts-expect-error no scales
lanecast.dequantize(codes, 'float8_e4m3fn', 'float32', shape, undefined, 'mx');
// @ts-expect-error no scaling
lanecast.dequantize({ codes, dtype: 'float8_e4m3fn', shape, scales: new Float32Array(1) });
// @ts-expect-error there is no such scaling
lanecast.quantize(x, 'float32', 'int8', shape, 'mxfp4');
// @ts-expect-error there is no such option
await load({ scale: true });
// @ts-expect-error integers are rounded as the scaling says
lanecast.quantize(x, 'float32', 'int8', shape, 'perRow', { intRounding: 'up' });
// @ts-expect-error integers saturate under scales
lanecast.quantize(x, 'float32', 'int8', shape, 'perRow', { floatToInt: 'wrap' });
