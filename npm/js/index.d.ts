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
  /** How elements of fewer than 8 bits are packed. Default: lowFirst. */
  srcPacking?: Packing;
  dstPacking?: Packing;
  /** Default: little, as WebAssembly has it. */
  srcOrder?: ByteOrder;
  dstOrder?: ByteOrder;
  /** What casts: 'scalar' is the reference. The results are the same. */
  isa?: 'scalar' | 'simd128';
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

/** The typed arrays of dtypes that have one; of float16 where the engine has it. */
export interface TypedArrays {
  int8: Int8Array;
  uint8: Uint8Array;
  int16: Int16Array;
  uint16: Uint16Array;
  int32: Int32Array;
  uint32: Uint32Array;
  int64: BigInt64Array;
  uint64: BigUint64Array;
  float16: Float16;
  float32: Float32Array;
  float64: Float64Array;
}

/** Float16Array, where the types of the language have it. */
type Float16 = typeof globalThis extends { Float16Array: { prototype: infer T } } ? T | Uint8Array : Uint8Array;

/** What an array of a dtype is. */
export type ArrayOf<T extends DType> = T extends keyof TypedArrays ? TypedArrays[T] : Uint8Array;

/** A wrong dtype, option, type or length. */
export class LanecastError extends Error {}

export class Lanecast {
  private constructor();
  /** The bits of an element by the name of its dtype. */
  readonly dtypes: Readonly<Record<DType, number>>;
  /** What the module is compiled for. */
  readonly isa: 'simd128' | 'scalar';
  /** Casts a buffer of one dtype to a new one of another, or to `out`. */
  cast(src: ArrayBufferView | ArrayBufferLike, from: DType, to: DType, options?: CastOptions): Uint8Array;
  /** The same, and what was lost. */
  castChecked(
    src: ArrayBufferView | ArrayBufferLike, from: DType, to: DType, options?: CastOptions,
  ): { bytes: Uint8Array; report: CastReport };
  /** Casts a typed array, whose type is its dtype; to a typed array, where the target has one, or to bytes: so are float16
   * where the engine has no Float16Array, what is packed, and what is given a packing. */
  castArray<T extends DType>(
    array: TypedArray, to: T, options?: Omit<CastOptions, 'out' | 'dstPacking'> & { out?: undefined; dstPacking?: undefined },
  ): ArrayOf<T>;
  castArray(array: TypedArray, to: DType, options: Omit<CastOptions, 'out'> & { out?: undefined; dstPacking: Packing }): Uint8Array;
  castArray(array: TypedArray, to: DType, options?: Omit<CastOptions, 'out'> & { out?: undefined }): TypedArray;
}

/** Has this engine the instructions on 128 bits? */
export function hasSimd(): boolean;

/** Loads the module that this engine runs best, or the one that is asked for. */
export function load(options?: { simd?: boolean; module?: WebAssembly.Module }): Promise<Lanecast>;
