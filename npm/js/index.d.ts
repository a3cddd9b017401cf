/** The dtypes. (The build writes their names.) */
export type DType = string;

export type Rounding = 'nearestEven' | 'nearestAway' | 'towardZero' | 'up' | 'down';
export type Overflow = 'saturate' | 'wrap';
export type Packing = 'lowFirst' | 'highFirst' | 'onePerByte';
export type ByteOrder = 'little' | 'big';

/** Elements in memory. A typed array is one of their dtype (of that of their parts, for complex numbers); or, whatever the dtype, bytes: a
 * Uint8Array, Uint8ClampedArray, DataView or ArrayBuffer. A Uint16Array is also taken as the bits of float16 and bfloat16, an Int8Array
 * as int4, int2 and int1. Any other class is an error. */
export type Elements = ArrayBufferView | ArrayBufferLike;

export interface CastOptions {
  /** The number of elements, for packed ones that do not fill their last byte. Default: as many as the source's bytes hold. */
  length?: number;
  /** The buffer for the result, of exactly its size. Default: a new array. For a cast in place it may overlap the source, if both
   * begin at the same byte and the elements of the result are no wider. */
  out?: Elements;
  /** The options that give the results of another system. Other options override them. */
  profile?: 'onnx' | 'numpy' | 'torch' | 'ml_dtypes' | 'rust_as';
  /** Rounding to a float (not to float8_e8m0fnu). Default: nearestEven. */
  rounding?: Rounding;
  /** Rounding of a float to an integer. Default: towardZero. */
  intRounding?: Rounding;
  /** Whether all floats of 8 bits saturate, or none. Default: true. */
  saturate?: boolean;
  /** Which floats of 8 bits saturate. Default: always. */
  saturation?: 'never' | 'always' | 'fnOnly' | 'unlessInf';
  /** What a float beyond the range of the target integer becomes. Default: saturate. */
  floatToInt?: Overflow;
  /** What an integer beyond the range of the target integer becomes. Default: wrap. */
  intToInt?: Overflow;
  /** What NaN becomes in float4 and float6, which have none. Default: negZero. */
  nanToFinite?: 'negZero' | 'max' | 'zero';
  /** Rounding to float8_e8m0fnu. Default: up. */
  e8m0Rounding?: 'up' | 'down' | 'nearest';
  /** Stochastic rounding to floats of 16 bits and fewer (not to float8_e8m0fnu), in place of `rounding`: a seed, and the index of the first
   * element, with which parts of a long array are cast as in the whole. The same seed gives the same bits everywhere. */
  stochastic?: number | bigint | { seed: number | bigint; first?: number | bigint };
  /** How elements of fewer than 8 bits are packed. Default: lowFirst. */
  srcPacking?: Packing;
  dstPacking?: Packing;
  /** The byte order of elements. Default: little, that of WebAssembly. */
  srcOrder?: ByteOrder;
  dstOrder?: ByteOrder;
  /** The instruction set; 'scalar' is the reference. The results are the same. */
  isa?: 'scalar' | 'simd128';
}

/** The options of `castArray`. */
export type ArrayOptions = Omit<CastOptions, 'out'> & {
  out?: undefined;
  /** The dtype of the array. Default: that of its class, which for bytes is uint8. */
  from?: DType;
};
/** Those with which results may be numbers. */
type NumberOptions = Omit<ArrayOptions, 'dstPacking' | 'dstOrder'> & { dstPacking?: undefined; dstOrder?: 'little' };

/** A named scaling: which elements share a scale, and the dtype of scales. Other scalings are objects: `Scaling`. */
export type Format = 'mx' | 'nvfp4' | 'deepseek' | 'perTensor' | 'perRow';

export interface Scaling {
  /** 'mx' is MXFP8, MXFP6, MXFP4 and MXINT8 (a float8_e8m0fnu scale for 32 elements), 'nvfp4' is NVFP4 (a float8_e4m3fn scale for
   * 16), 'deepseek' has a float32 scale for 128 x 128 elements, and the others one for the tensor or for each row. In place of `block`
   * and `axis`. */
  format?: Format;
  /** The dtype of the scales. Default: that of the format, else float32. */
  scaleDtype?: DType;
  /** The lengths of blocks along the last dimensions; 0 is the whole dimension. */
  block?: number | readonly number[];
  /** One scale for each index along this dimension; with `block`, one for each block of that length along it. */
  axis?: number;
  /** How scales are found from the data. Default: floor for float8_e8m0fnu, else amax. */
  rule?: 'amax' | 'floor' | 'ceil' | 'even' | 'roundUp';
  /** The tensor scale, or 'compute' to find one: elements are code * scale * tensor scale, and with `tensorScaleDivides` code * scale /
   * tensor scale. */
  tensorScale?: number | 'compute';
  tensorScaleDivides?: boolean;
  /** What NaN and Inf do to the scale of their block. Default: propagate. */
  nonfinite?: 'propagate' | 'ignore';
  /** The system whose results are computed, bit for bit. Default: lanecast, which rounds once. */
  profile?:
    | 'lanecast' | 'ocp' | 'onnx' | 'torchao' | 'modelopt' | 'compressed_tensors' | 'hf_fp8' | 'comfy' | 'gpt_oss' | 'f32' | 'output';
  /** The layout of scales in memory. Default: rowMajor. */
  layout?: 'rowMajor' | 'columnMajor' | 'swizzle32x4x4';
  /** Rounding of quotients to integers. Default: nearestEven. */
  intRounding?: Rounding;
  /** With the profile onnx, the dtype of the division. */
  precision?: DType;
}

/** The options of casts that also apply to scaled casts (profile and intRounding are fields of the scaling; integers saturate). With `dstOrder: 'big'`
 * results are bytes, and with `dstPacking` codes are, whatever their TypeScript types. */
export type ScaledOptions = Omit<CastOptions, 'length' | 'out' | 'profile' | 'intRounding' | 'floatToInt' | 'intToInt'>;

/** Quantised elements, and what is needed to dequantise them. */
export interface QuantizedElements {
  codes: Elements;
  /** The dtype of the codes. */
  dtype: DType;
  shape: number | readonly number[];
  scales: Elements;
  scaling: Format | Scaling;
  /** The tensor scale, if there is one; otherwise that of `scaling`. */
  tensorScale?: number | undefined;
  zeroPoints?: Elements | undefined;
  /** How codes and zero points of fewer than 8 bits are packed. Default: lowFirst. */
  packing?: Packing | undefined;
  /** The byte order of codes, scales and zero points. Default: little. */
  order?: ByteOrder | undefined;
}

/** What `quantize` returns: plain data, which `dequantize` and `requantize` take as a whole. */
export interface Quantized<T extends DType = DType, S = TypedArray, Z = ArrayOf<T>> {
  codes: ArrayOf<T>;
  /** The dtype of the codes. */
  dtype: T;
  shape: number[];
  /** The scales that were found, in a typed array if their dtype has one, else in bytes; or those that were given, as they were given. */
  scales: S;
  scaleDtype: DType;
  scaleShape: number[];
  /** The scaling, with the tensor scale as a number, also if it was found. */
  scaling: Scaling;
  /** The tensor scale, if there is one. */
  tensorScale?: number;
  /** The zero points that were found, with `affine: true`, or those that were given, as they were given. */
  zeroPoints?: Z;
  /** `dstPacking` and `dstOrder`, if they were given. */
  packing?: Packing;
  order?: ByteOrder;
}

/** What a cast lost. */
export interface CastReport {
  elements: number;
  /** Elements above the range of the target, and below it. */
  above: number;
  below: number;
  /** Elements of `below` that are negative, if the target is unsigned. */
  negative: number;
  /** NaNs and infinities that the target does not have. */
  nan: number;
  inf: number;
  /** Imaginary parts that were dropped. */
  imaginary: number;
  /** Elements that were rounded. */
  inexact: number;
  /** The index of the first element that was lost other than by rounding, and of the first that was rounded; undefined if there is none. */
  first?: number;
  firstInexact?: number;
}

export type TypedArray =
  | Int8Array | Uint8Array | Uint8ClampedArray | Int16Array | Uint16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array | Float16 | Float32Array | Float64Array;

/** The arrays that a constructor makes; from TypeScript 5.7 on, whose types tell buffers apart, over an ArrayBuffer. */
type New<C extends { of(...items: never[]): unknown }> = ReturnType<C['of']>;
type Bytes = New<Uint8ArrayConstructor>;

/** The typed arrays of the dtypes that have one. That of float16 is there only if the engine has it. */
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

/** Float16Array or bytes, if TypeScript's library declares Float16Array; otherwise bytes. */
type Float16 = typeof globalThis extends { Float16Array: { prototype: infer T } } ? T | Bytes : Bytes;

/** The array that holds a result of this dtype: its typed array, or bytes. */
export type ArrayOf<T extends DType> = T extends keyof TypedArrays ? TypedArrays[T] : Bytes;

/** The error for a wrong dtype, option, type or length. */
export class LanecastError extends Error {}

/** A loaded module, which casts. */
export class Lanecast {
  private constructor();
  /** The bits of an element, by the name of its dtype. */
  readonly dtypes: Readonly<Record<DType, number>>;
  /** The instruction set that the module is compiled for. */
  readonly isa: 'simd128' | 'scalar';
  /** Casts a buffer of one dtype to another, into a new array or into `out`. */
  cast(src: Elements, from: DType, to: DType, options?: CastOptions & { out?: undefined }): Bytes;
  cast(src: Elements, from: DType, to: DType, options?: CastOptions): Uint8Array;
  /** As `cast`, but also returns a report of what was lost. */
  castChecked(
    src: Elements, from: DType, to: DType, options?: CastOptions & { out?: undefined },
  ): { bytes: Bytes; report: CastReport };
  castChecked(
    src: Elements, from: DType, to: DType, options?: CastOptions,
  ): { bytes: Uint8Array; report: CastReport };
  /** Casts a typed array, whose type gives its dtype unless `from` does, to a new typed array, or to bytes if the target has none. The result
   * is also bytes for float16 if the engine has no Float16Array, for packed dtypes, and with `dstPacking` or `dstOrder: 'big'`. */
  castArray<T extends DType>(array: TypedArray, to: T, options?: NumberOptions): ArrayOf<T>;
  castArray<T extends DType>(array: Elements, to: T, options: NumberOptions & { from: DType }): ArrayOf<T>;
  castArray(array: TypedArray, to: DType, options: ArrayOptions & { dstPacking: Packing }): Bytes;
  castArray(array: TypedArray, to: DType, options: ArrayOptions & { dstOrder: 'big' }): Bytes;
  castArray(array: TypedArray, to: DType, options?: ArrayOptions): TypedArray;
  /** Quantises data of this shape: casts it to codes with scales, which are found or given as `scales` (with `zeroPoints`). With `affine`,
   * zero points are found too. Needs a module that was loaded with `scaled: true`. */
  quantize<T extends DType, S extends Elements = TypedArray, Z extends Elements = ArrayOf<T>>(
    src: Elements, from: DType, to: T, shape: number | readonly number[], scaling: Format | Scaling,
    options?: ScaledOptions & { scales?: S; zeroPoints?: Z; affine?: boolean },
  ): Quantized<T, S, Z>;
  /** Dequantises what `quantize` or `requantize` returned to numbers, by default of float32. Options come before what it says of itself. */
  dequantize<T extends DType = 'float32'>(quantized: QuantizedElements, to?: T, options?: ScaledOptions & { zeroPoints?: Elements }): ArrayOf<T>;
  /** Dequantises codes of this shape: casts them, with their scales, to numbers. Needs `scaled: true`. */
  dequantize<T extends DType>(
    codes: Elements, from: DType, to: T, shape: number | readonly number[],
    scales: Elements, scaling: Format | Scaling,
    options?: ScaledOptions & { zeroPoints?: Elements },
  ): ArrayOf<T>;
  /** Casts what `quantize` or `requantize` returned to codes with another scaling, with a single rounding. */
  requantize<T extends DType>(
    quantized: QuantizedElements, to: T, toScaling: Format | Scaling, options?: ScaledOptions & { zeroPoints?: Elements },
  ): Quantized<T>;
  /** Casts codes with one scaling to codes with another, with a single rounding. Needs `scaled: true`. */
  requantize<T extends DType>(
    codes: Elements, from: DType, to: T, shape: number | readonly number[],
    scales: Elements, fromScaling: Format | Scaling, toScaling: Format | Scaling,
    options?: ScaledOptions & { zeroPoints?: Elements },
  ): Quantized<T>;
}

/** Whether this engine has the 128-bit SIMD instructions of WebAssembly. */
export function hasSimd(): boolean;

/** WebAssembly.Module, if TypeScript's library declares it (as those of browsers and workers do). */
type Module = typeof globalThis extends { WebAssembly: { Module: { prototype: infer M } } } ? M : object;

/** Loads the fastest module for this engine. `simd` chooses the one with or without 128-bit SIMD, `scaled: true` one that also does
 * scaled casts; a compiled `module` is used as it is. */
export function load(options?: { simd?: boolean; scaled?: boolean; module?: Module }): Promise<Lanecast>;
