/** The dtypes. (The build writes their names.) */
export type DType = string;

export type Rounding = 'nearestEven' | 'nearestAway' | 'towardZero' | 'up' | 'down';
export type Overflow = 'saturate' | 'wrap';
export type Packing = 'lowFirst' | 'highFirst' | 'onePerByte';
export type ByteOrder = 'little' | 'big';

export interface CastOptions {
  /** How many elements there are: for packed ones that do not fill their last byte. */
  length?: number;
  /** Where the result goes, of exactly its bytes. Default: a new array. It may overlap the source only where it begins with it
   * and its elements are no wider: a cast in place. */
  out?: ArrayBufferView | ArrayBufferLike;
  /** What a system does, which the other options then change. */
  profile?: 'onnx' | 'numpy' | 'torch' | 'ml_dtypes' | 'rust_as';
  /** Rounding to a float (not to float8_e8m0fnu). Default: nearestEven. */
  rounding?: Rounding;
  /** Rounding of a float to an integer. Default: towardZero. */
  intRounding?: Rounding;
  /** Do floats of 8 bits saturate, all of them or none? Default: true. */
  saturate?: boolean;
  /** Which of them saturate. Default: always. */
  saturation?: 'never' | 'always' | 'fnOnly' | 'unlessInf';
  /** A float beyond the range of an integer. Default: saturate. */
  floatToInt?: Overflow;
  /** An integer beyond the range of an integer. Default: wrap. */
  intToInt?: Overflow;
  /** A NaN to float4 or float6. Default: negZero. */
  nanToFinite?: 'negZero' | 'max' | 'zero';
  /** Rounding to float8_e8m0fnu. Default: up. */
  e8m0Rounding?: 'up' | 'down' | 'nearest';
  /** Rounding by chance to floats of 16 bits and fewer (not to float8_e8m0fnu), in place of `rounding`: a seed, and the number of the first
   * element, by which the pieces of a long array are what the whole would be. The same seed gives the same bits everywhere. */
  stochastic?: number | bigint | { seed: number | bigint; first?: number | bigint };
  /** How elements of fewer than 8 bits are packed. Default: lowFirst. */
  srcPacking?: Packing;
  dstPacking?: Packing;
  /** Default: little, as WebAssembly has it. */
  srcOrder?: ByteOrder;
  dstOrder?: ByteOrder;
  /** What casts: 'scalar' is the reference. The results are the same. */
  isa?: 'scalar' | 'simd128';
}

/** Which elements share a scale, and what scales are: one of these names, or an object. */
export type Format = 'mx' | 'nvfp4' | 'deepseek' | 'perTensor' | 'perRow';

export interface Scaling {
  /** MXFP8, MXFP6, MXFP4 and MXINT8 (float8_e8m0fnu scales of 32 elements); NVFP4 (float8_e4m3fn scales of 16 elements);
   * DeepSeek's (float32 scales of 128 x 128); one float32 scale, or one for each row. In place of `block` and `axis`. */
  format?: Format;
  /** The dtype of the scales. Default: that of the format, else float32. */
  scaleDtype?: DType;
  /** Lengths of blocks along the last dimensions; 0 is a whole dimension. */
  block?: number | readonly number[];
  /** One scale for each index along this dimension; with a `block`, of so many elements along it. */
  axis?: number;
  /** How scales follow from the data. Default: floor for float8_e8m0fnu, else amax. */
  rule?: 'amax' | 'floor' | 'ceil' | 'even' | 'roundUp';
  /** A factor of the whole tensor, or 'compute'; with `tensorScaleDivides` elements count code * scale / factor. */
  tensorScale?: number | 'compute';
  tensorScaleDivides?: boolean;
  /** What NaN and Inf do to the scale of their block. Default: propagate. */
  nonfinite?: 'propagate' | 'ignore';
  /** Whose bits. Default: lanecast, which rounds once. */
  profile?:
    | 'lanecast' | 'ocp' | 'onnx' | 'torchao' | 'modelopt' | 'compressed_tensors' | 'hf_fp8' | 'comfy' | 'gpt_oss' | 'f32' | 'output';
  /** How scales lie. Default: rowMajor. */
  layout?: 'rowMajor' | 'columnMajor' | 'swizzle32x4x4';
  /** Rounding of quotients to integers. Default: nearestEven. */
  intRounding?: Rounding;
  /** Of the profile onnx: the dtype of the division. */
  precision?: DType;
}

/** Those of casts that are of use under scales. With `dstOrder: 'big'` what is made is bytes, whatever its type says. */
export type ScaledOptions = Omit<CastOptions, 'length' | 'out' | 'profile'>;

export interface Quantized<T extends DType = DType> {
  codes: ArrayOf<T>;
  /** Those that were found, or those that were given. */
  scales: TypedArray | ArrayBufferView | ArrayBufferLike;
  scaleDtype: DType;
  scaleShape: number[];
  /** The factor of the tensor, where there is one. */
  tensorScale?: number;
  /** Those that were found: with `affine`. */
  zeroPoints?: ArrayOf<T>;
}

/** What a cast lost. */
export interface CastReport {
  elements: number;
  /** Above the range of the target. */
  above: number;
  below: number;
  /** Those of `below` that are negative where the target has no sign. */
  negative: number;
  /** NaN, and infinities, that the target does not have. */
  nan: number;
  inf: number;
  /** Imaginary parts that were dropped. */
  imaginary: number;
  /** Rounded. */
  inexact: number;
  /** The index of the first element that was lost, but for inexact ones; undefined if there is none. */
  first?: number;
  firstInexact?: number;
}

export type TypedArray =
  | Int8Array | Uint8Array | Uint8ClampedArray | Int16Array | Uint16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array | Float16 | Float32Array | Float64Array;

/** The arrays of a constructor, over an ArrayBuffer of their own where the types of the language tell buffers apart (TypeScript 5.7). */
type New<C extends { of(...items: never[]): unknown }> = ReturnType<C['of']>;
type Bytes = New<Uint8ArrayConstructor>;

/** The typed arrays of dtypes that have one; of float16 where the engine has it. */
export interface TypedArrays {
  int8: New<Int8ArrayConstructor>;
  uint8: New<Uint8ArrayConstructor>;
  int16: New<Int16ArrayConstructor>;
  uint16: New<Uint16ArrayConstructor>;
  int32: New<Int32ArrayConstructor>;
  uint32: New<Uint32ArrayConstructor>;
  int64: New<BigInt64ArrayConstructor>;
  uint64: New<BigUint64ArrayConstructor>;
  float16: Float16;
  float32: New<Float32ArrayConstructor>;
  float64: New<Float64ArrayConstructor>;
}

/** Float16Array, where the types of the language have it. */
type Float16 = typeof globalThis extends { Float16Array: { prototype: infer T } } ? T | Bytes : Bytes;

/** What an array of a dtype is. */
export type ArrayOf<T extends DType> = T extends keyof TypedArrays ? TypedArrays[T] : Bytes;

/** A wrong dtype, option, type or length. */
export class LanecastError extends Error {}

export class Lanecast {
  private constructor();
  /** The bits of an element by the name of its dtype. */
  readonly dtypes: Readonly<Record<DType, number>>;
  /** What the module is compiled for. */
  readonly isa: 'simd128' | 'scalar';
  /** Casts a buffer of one dtype to a new one of another, or to `out`. */
  cast(src: ArrayBufferView | ArrayBufferLike, from: DType, to: DType, options?: CastOptions & { out?: undefined }): Bytes;
  cast(src: ArrayBufferView | ArrayBufferLike, from: DType, to: DType, options?: CastOptions): Uint8Array;
  /** The same, and what was lost. */
  castChecked(
    src: ArrayBufferView | ArrayBufferLike, from: DType, to: DType, options?: CastOptions & { out?: undefined },
  ): { bytes: Bytes; report: CastReport };
  castChecked(
    src: ArrayBufferView | ArrayBufferLike, from: DType, to: DType, options?: CastOptions,
  ): { bytes: Uint8Array; report: CastReport };
  /** Casts a typed array, whose type is its dtype; to a typed array, where the target has one, or to bytes: so are float16
   * where the engine has no Float16Array, what is packed, and what is given a packing or `dstOrder: 'big'`. */
  castArray<T extends DType>(
    array: TypedArray, to: T, options?: Omit<CastOptions, 'out' | 'dstPacking' | 'dstOrder'> & { out?: undefined; dstPacking?: undefined; dstOrder?: 'little' },
  ): ArrayOf<T>;
  castArray(array: TypedArray, to: DType, options: Omit<CastOptions, 'out'> & { out?: undefined; dstPacking: Packing }): Bytes;
  castArray(array: TypedArray, to: DType, options: Omit<CastOptions, 'out'> & { out?: undefined; dstOrder: 'big' }): Bytes;
  castArray(array: TypedArray, to: DType, options?: Omit<CastOptions, 'out'> & { out?: undefined }): TypedArray;
  /** Casts data of a shape to codes under scales, which are found, or given as `scales` (and `zeroPoints`); with `affine` zero points
   * are found, too. Of a module that was loaded with `scaled: true`. */
  quantize<T extends DType>(
    src: ArrayBufferView | ArrayBufferLike, from: DType, to: T, shape: number | readonly number[], scaling: Format | Scaling,
    options?: ScaledOptions & { scales?: ArrayBufferView | ArrayBufferLike; zeroPoints?: ArrayBufferView | ArrayBufferLike; affine?: boolean },
  ): Quantized<T>;
  /** Casts codes of a shape under scales to numbers. */
  dequantize<T extends DType>(
    codes: ArrayBufferView | ArrayBufferLike, from: DType, to: T, shape: number | readonly number[],
    scales: ArrayBufferView | ArrayBufferLike, scaling: Format | Scaling,
    options?: ScaledOptions & { zeroPoints?: ArrayBufferView | ArrayBufferLike },
  ): ArrayOf<T>;
  /** Casts codes under one scaling to codes under another, in one rounding. */
  requantize<T extends DType>(
    codes: ArrayBufferView | ArrayBufferLike, from: DType, to: T, shape: number | readonly number[],
    scales: ArrayBufferView | ArrayBufferLike, fromScaling: Format | Scaling, toScaling: Format | Scaling,
    options?: ScaledOptions & { zeroPoints?: ArrayBufferView | ArrayBufferLike },
  ): Quantized<T>;
}

/** Has this engine the instructions on 128 bits? */
export function hasSimd(): boolean;

/** Loads the module that this engine runs best, or the one that is asked for; with `scaled` one that casts under scales, too. */
export function load(options?: { simd?: boolean; scaled?: boolean; module?: WebAssembly.Module }): Promise<Lanecast>;
