/* lanecast: casts buffers between dtypes. docs/contract.md says which bits result.
 *
 * Generated from capi/src; `cargo test -p lanecast-capi` says when and how to generate it again.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef LANECAST_H
#define LANECAST_H

#include <stddef.h>
#include <stdint.h>
typedef uint8_t lanecast_dtype;  /* LANECAST_DTYPE_BOOL, ... */
typedef int32_t lanecast_status; /* LANECAST_OK, or negative: LANECAST_ERR_NULL, ... */

/* The comment of each function lists the statuses that it returns, with the arguments that cause them: "_DTYPE (from)" is
 * LANECAST_ERR_DTYPE because of from. Every function may also return LANECAST_ERR_INTERNAL. What a status means is said at
 * its definition. */


/*
 The call succeeded. A call with any other status has written nothing, except with LANECAST_ERR_LOSSY,
 LANECAST_ERR_CANCELLED, LANECAST_ERR_INTERNAL, and LANECAST_ERR_MEMORY of scaled and checked casts.
 */
#define LANECAST_OK 0

/*
 A pointer that must not be NULL is NULL.
 */
#define LANECAST_ERR_NULL -1

/*
 No dtype has this code, or there is no scaled cast of these dtypes.
 */
#define LANECAST_ERR_DTYPE -2

/*
 No dtype, profile, scaling, ruleset or level of casting has this name.
 */
#define LANECAST_ERR_NAME -3

/*
 A structure has a size that is too small, a value out of range, or unknown bytes that are not zero. Or there is no such
 scaled cast: scaling, dtypes and arguments do not go together.
 */
#define LANECAST_ERR_OPTIONS -4

/*
 The instruction set that the options or the environment variable LANECAST_ISA name is not available here.
 */
#define LANECAST_ERR_ISA -5

/*
 The size of a buffer overflows size_t or is not that of its elements, or the buffer would extend beyond the end of the
 address space. Or a pointer to a shape or to strides is not aligned.
 */
#define LANECAST_ERR_SIZE -6

/*
 Buffers overlap, or elements of a strided destination do.
 */
#define LANECAST_ERR_OVERLAP -7

/*
 The library has a defect. Please report it.
 */
#define LANECAST_ERR_INTERNAL -8

/*
 The ruleset defines no common dtype of the operands, or there are no operands.
 */
#define LANECAST_ERR_UNDEFINED -9

/*
 The progress callback stopped the cast: some chunks of the destination are written, and others are not.
 */
#define LANECAST_ERR_CANCELLED -11

/*
 A strided view is of packed elements. Elements of fewer than 8 bits must lie one per byte there.
 */
#define LANECAST_ERR_PACKED -12

/*
 There is no memory for what the call needs. (The first pairs of dtypes and options need none: the library has static room
 for them.)
 */
#define LANECAST_ERR_MEMORY -13

/*
 The blocks of a scaling do not fit the shape of the data: the blocks have more dimensions than the data, the data have
 more than 8, or a row takes more bytes than there are from one row to the next.
 */
#define LANECAST_ERR_SHAPE -14

/*
 The cast loses elements. A function that casts has done so all the same; lanecast_check and lanecast_check_strided cast
 nothing.
 */
#define LANECAST_ERR_LOSSY -10

/*
 The version of this interface. It increases with a release that adds something.
 */
#define LANECAST_ABI_VERSION 5

#define LANECAST_DTYPE_BOOL 0

#define LANECAST_DTYPE_UINT2 1

#define LANECAST_DTYPE_INT2 2

#define LANECAST_DTYPE_UINT4 3

#define LANECAST_DTYPE_INT4 4

#define LANECAST_DTYPE_UINT8 5

#define LANECAST_DTYPE_INT8 6

#define LANECAST_DTYPE_UINT16 7

#define LANECAST_DTYPE_INT16 8

#define LANECAST_DTYPE_UINT32 9

#define LANECAST_DTYPE_INT32 10

#define LANECAST_DTYPE_UINT64 11

#define LANECAST_DTYPE_INT64 12

#define LANECAST_DTYPE_FLOAT4_E2M1FN 13

#define LANECAST_DTYPE_FLOAT6_E2M3FN 14

#define LANECAST_DTYPE_FLOAT6_E3M2FN 15

#define LANECAST_DTYPE_FLOAT8_E3M4 16

#define LANECAST_DTYPE_FLOAT8_E4M3 17

#define LANECAST_DTYPE_FLOAT8_E4M3FN 18

#define LANECAST_DTYPE_FLOAT8_E4M3FNUZ 19

#define LANECAST_DTYPE_FLOAT8_E4M3B11FNUZ 20

#define LANECAST_DTYPE_FLOAT8_E5M2 21

#define LANECAST_DTYPE_FLOAT8_E5M2FNUZ 22

#define LANECAST_DTYPE_FLOAT8_E8M0FNU 23

#define LANECAST_DTYPE_FLOAT16 24

#define LANECAST_DTYPE_BFLOAT16 25

#define LANECAST_DTYPE_FLOAT32 26

#define LANECAST_DTYPE_FLOAT64 27

#define LANECAST_DTYPE_COMPLEX64 28

#define LANECAST_DTYPE_COMPLEX128 29

#define LANECAST_DTYPE_UINT1 30

#define LANECAST_DTYPE_INT1 31

#define LANECAST_DTYPE_FLOAT8_UE5M3 32

#define LANECAST_DTYPE_COMPLEX32 33

#define LANECAST_DTYPE_BCOMPLEX32 34

/*
 Rounds to the nearest value, ties to the one with the even code.
 */
#define LANECAST_ROUNDING_NEAREST_EVEN 0

/*
 Rounds to the nearest value, ties away from zero.
 */
#define LANECAST_ROUNDING_NEAREST_AWAY 1

/*
 Rounds toward zero.
 */
#define LANECAST_ROUNDING_TOWARD_ZERO 2

/*
 Rounds up, to the larger neighbour.
 */
#define LANECAST_ROUNDING_UP 3

/*
 Rounds down, to the smaller neighbour.
 */
#define LANECAST_ROUNDING_DOWN 4

/*
 No float of 8 bits or fewer saturates: overflow gives Inf, or NaN where the format has no Inf. (float4 and float6 have
 neither, and always saturate.)
 */
#define LANECAST_SATURATE_NEVER 0

/*
 All floats of 8 bits or fewer saturate: overflow gives the largest value, with its sign.
 */
#define LANECAST_SATURATE_ALWAYS 1

/*
 Only float8_e4m3fn saturates.
 */
#define LANECAST_SATURATE_FN_ONLY 2

/*
 Floats of 8 bits or fewer that have no Inf saturate.
 */
#define LANECAST_SATURATE_UNLESS_INF 3

/*
 A float beyond the range of an integer dtype becomes the nearest value of that dtype.
 */
#define LANECAST_FLOAT_TO_INT_SATURATE 0

/*
 A float beyond the range of an integer dtype becomes the low bits of its rounded value, in two's complement.
 */
#define LANECAST_FLOAT_TO_INT_WRAP 1

/*
 An integer beyond the range of the destination becomes its low bits, in two's complement.
 */
#define LANECAST_INT_TO_INT_WRAP 0

/*
 An integer beyond the range of the destination becomes the nearest value of that.
 */
#define LANECAST_INT_TO_INT_SATURATE 1

/*
 A NaN becomes -0 in float4 and float6, which have no NaN.
 */
#define LANECAST_NAN_TO_FINITE_NEG_ZERO 0

/*
 A NaN becomes the largest value in float4 and float6, with a positive sign.
 */
#define LANECAST_NAN_TO_FINITE_MAX 1

/*
 A NaN becomes +0 in float4 and float6.
 */
#define LANECAST_NAN_TO_FINITE_ZERO 2

/*
 A value between two powers of two becomes the larger power.
 */
#define LANECAST_E8M0_ROUNDING_UP 0

/*
 A value between two powers of two becomes the smaller power.
 */
#define LANECAST_E8M0_ROUNDING_DOWN 1

/*
 A value between two powers of two becomes the nearer power; 1.5 times a power goes up.
 */
#define LANECAST_E8M0_ROUNDING_NEAREST 2

/*
 The best instruction set that is available, or the one that the environment variable LANECAST_ISA names.
 */
#define LANECAST_ISA_BEST 0

#define LANECAST_ISA_SCALAR 1

#define LANECAST_ISA_AVX2 2

#define LANECAST_ISA_AVX512 3

#define LANECAST_ISA_NEON 4

#define LANECAST_ISA_SIMD128 5

/*
 Elements of fewer than 8 bits are packed, the first in the low bits of a byte.
 */
#define LANECAST_PACKING_LOW_FIRST 0

/*
 Elements of fewer than 8 bits lie one per byte.
 */
#define LANECAST_PACKING_ONE_PER_BYTE 1

/*
 Elements of fewer than 8 bits are packed, the first in the high bits of a byte.
 */
#define LANECAST_PACKING_HIGH_FIRST 2

/*
 The byte order of the machine.
 */
#define LANECAST_ORDER_NATIVE 0

/*
 Little-endian: the low byte first.
 */
#define LANECAST_ORDER_LITTLE 1

/*
 Big-endian: the high byte first.
 */
#define LANECAST_ORDER_BIG 2

/*
 lanecast's own rule: the exact quotient or product is rounded once.
 */
#define LANECAST_PROFILE_LANECAST 0

/*
 The OCP Microscaling formats: the same arithmetic as LANECAST_PROFILE_LANECAST.
 */
#define LANECAST_PROFILE_OCP 1

#define LANECAST_PROFILE_ONNX 2

#define LANECAST_PROFILE_TORCHAO 3

#define LANECAST_PROFILE_MODELOPT 4

#define LANECAST_PROFILE_COMPRESSED_TENSORS 5

/*
 transformers' fine-grained float8.
 */
#define LANECAST_PROFILE_HF_FP8 6

/*
 comfy-kitchen.
 */
#define LANECAST_PROFILE_COMFY 7

#define LANECAST_PROFILE_GPT_OSS 8

/*
 The product is computed in float32, then cast to the dtype of the output. Dequantises only.
 */
#define LANECAST_PROFILE_F32 9

/*
 Code, zero point and scale are cast to the dtype of the output and multiplied there. Dequantises only.
 */
#define LANECAST_PROFILE_OUTPUT 10

/*
 The default for the dtype of the scales: LANECAST_RULE_FLOOR for float8_e8m0fnu, LANECAST_RULE_AMAX for the others.
 */
#define LANECAST_RULE_DEFAULT 0

/*
 The scale is amax / max, where amax is the largest magnitude in a block and max the largest value of the target. For
 scales with a mantissa.
 */
#define LANECAST_RULE_AMAX 1

/*
 The exponent of a float8_e8m0fnu scale is floor(log2 amax) - floor(log2 max).
 */
#define LANECAST_RULE_FLOOR 2

/*
 The exponent of a float8_e8m0fnu scale is ceil(log2 amax) - floor(log2 max).
 */
#define LANECAST_RULE_CEIL 3

/*
 As LANECAST_RULE_FLOOR, but with amax rounded to the mantissa width of the target.
 */
#define LANECAST_RULE_EVEN 4

/*
 The exponent of a float8_e8m0fnu scale is ceil(log2(amax / max)), so that nothing saturates.
 */
#define LANECAST_RULE_ROUND_UP 5

/*
 A NaN makes the scale of its block NaN; without one, an Inf makes it the largest finite scale.
 */
#define LANECAST_NONFINITE_PROPAGATE 0

/*
 NaN and Inf are ignored: the scale is that of the finite elements.
 */
#define LANECAST_NONFINITE_IGNORE 1

/*
 Scales lie in row-major order: the last dimension varies fastest.
 */
#define LANECAST_SCALE_LAYOUT_ROW_MAJOR 0

/*
 Scales lie in column-major order: the first dimension varies fastest.
 */
#define LANECAST_SCALE_LAYOUT_COLUMN_MAJOR 1

/*
 Scales of one byte lie in tiles of 128 x 4, 512 bytes each: the layout of the tensor cores.
 */
#define LANECAST_SCALE_LAYOUT_SWIZZLE_32X4X4 2

/*
 There is no tensor scale.
 */
#define LANECAST_TENSOR_SCALE_NONE 0

/*
 The value of an element is code * scale * tensor_scale.
 */
#define LANECAST_TENSOR_SCALE_MULTIPLY 1

/*
 The value of an element is code * scale / tensor_scale.
 */
#define LANECAST_TENSOR_SCALE_DIVIDE 2

/*
 A tensor scale to multiply by is computed from the data.
 */
#define LANECAST_TENSOR_SCALE_COMPUTE_MULTIPLY 3

/*
 A tensor scale to divide by is computed from the data.
 */
#define LANECAST_TENSOR_SCALE_COMPUTE_DIVIDE 4

/*
 How to cast. lanecast_options_init sets the defaults; a structure of zeros is not valid.

 New fields are only ever added at the end, and size says how much of the structure the caller knows.
 */
typedef struct lanecast_options {
    /*
     How many bytes of the structure the caller has set, this field included. It may be more than the library knows, if the
     bytes that the library does not know are zero.
     */
    uint32_t size;
    /*
     Rounding to a float, but not to float8_e8m0fnu: LANECAST_ROUNDING_*. Default: nearest, ties to even.
     */
    uint8_t rounding;
    /*
     Rounding of a float to an integer: LANECAST_ROUNDING_*. Default: toward zero.
     */
    uint8_t int_rounding;
    /*
     Which floats of 8 bits or fewer saturate, so that overflow gives the largest value and not Inf or NaN:
     LANECAST_SATURATE_*. Default: all of them.
     */
    uint8_t saturate;
    /*
     What a float beyond the range of an integer dtype becomes: LANECAST_FLOAT_TO_INT_*. Default: saturate.
     */
    uint8_t float_to_int;
    /*
     What an integer beyond the range of an integer dtype becomes: LANECAST_INT_TO_INT_*. Default: wrap.
     */
    uint8_t int_to_int;
    /*
     What a NaN becomes in float4 and float6: LANECAST_NAN_TO_FINITE_*. Default: negative zero.
     */
    uint8_t nan_to_finite;
    /*
     Rounding to float8_e8m0fnu: LANECAST_E8M0_ROUNDING_*. Default: up.
     */
    uint8_t e8m0_rounding;
    /*
     The instruction set to run on: LANECAST_ISA_*. Default: the best.
     */
    uint8_t isa;
    /*
     How a source of fewer than 8 bits per element is packed: LANECAST_PACKING_*. Default: low bits first.
     */
    uint8_t src_packing;
    /*
     How a destination of fewer than 8 bits per element is packed: LANECAST_PACKING_*. Default: low bits first.
     */
    uint8_t dst_packing;
    /*
     Byte order of the source, and of its scales and zero points: LANECAST_ORDER_*. Default: native.
     */
    uint8_t src_order;
    /*
     Byte order of the destination, and of its scales and zero points: LANECAST_ORDER_*. Default: native.
     */
    uint8_t dst_order;
    /*
     Rounding of a float to an integer of fewer than 8 bits: 1 + LANECAST_ROUNDING_*, or 0 for that of int_rounding
     (default).
     */
    uint8_t narrow_int_rounding;
    /*
     What a float beyond the range of an integer of fewer than 8 bits becomes: 1 + LANECAST_FLOAT_TO_INT_*, or 0 for what
     float_to_int says (default).
     */
    uint8_t narrow_float_to_int;
    /*
     Must be zero.
     */
    uint8_t reserved[2];
    /*
     1: casts to floats of 16 bits or fewer, but not to float8_e8m0fnu, round stochastically, by seed and first, not by the
     option rounding. 0: they do not (default). This field and those behind it are only read if size covers them. The size
     that lanecast_options_init sets does not; lanecast_options_stochastic sets the fields and a size that does.
     */
    uint8_t stochastic;
    /*
     Must be zero.
     */
    uint8_t reserved2[11];
    /*
     The seed: casts with different seeds round differently. Only read if size covers it.
     */
    uint64_t seed;
    /*
     The number of the first element. A caller that casts in pieces adds the elements of the pieces before. Only read if
     size covers it.
     */
    uint64_t first;
} lanecast_options;

/*
 What a checked cast lost: how many elements of each class. Output only. An element is in one class at most. There is no size,
 because this structure never gets another field.
 */
typedef struct lanecast_report {
    /*
     Elements that were checked.
     */
    uint64_t elements;
    /*
     Elements that are, once rounded, larger than the largest value of the target.
     */
    uint64_t above;
    /*
     Elements that are, once rounded, smaller than the smallest value of the target: negative ones, if it is unsigned.
     */
    uint64_t below;
    /*
     NaNs that the target cannot hold.
     */
    uint64_t nan;
    /*
     Infs that the target cannot hold, or that the options do not let it become.
     */
    uint64_t inf;
    /*
     Elements with an imaginary part other than zero, which is dropped.
     */
    uint64_t imaginary;
    /*
     Elements that are in range, but are rounded.
     */
    uint64_t inexact;
    /*
     The index of the first element of any class but inexact; UINT64_MAX if there is none.
     */
    uint64_t first;
    /*
     The index of the first inexact element; UINT64_MAX if there is none.
     */
    uint64_t first_inexact;
} lanecast_report;

/*
 A scaling: which elements share a scale, what the scales are, and where they come from. lanecast_scaling_init sets one by its
 name.

 New fields are only ever added at the end, and size says how much of the structure the caller knows.
 */
typedef struct lanecast_scaling {
    /*
     How many bytes of the structure the caller has set, this field included. It may be more than the library knows, if the
     bytes that the library does not know are zero.
     */
    uint32_t size;
    /*
     Whose results the cast gives bit for bit: LANECAST_PROFILE_*. Default: lanecast's own, by one rounding.
     */
    uint8_t profile;
    /*
     The dtype of the scales.
     */
    lanecast_dtype scale_dtype;
    /*
     How scales follow from the data: LANECAST_RULE_*. Of the profiles of packages, torchao's follows it, for MX; the others
     have rules of their own.
     */
    uint8_t rule;
    /*
     What a NaN or Inf does to the scale of its block: LANECAST_NONFINITE_*. Default: the scale becomes NaN, or the largest
     one.
     */
    uint8_t nonfinite;
    /*
     How scales are laid out: LANECAST_SCALE_LAYOUT_*. Default: row-major.
     */
    uint8_t scale_layout;
    /*
     Whether there is a tensor scale, and how it is applied: LANECAST_TENSOR_SCALE_*. Default: none.
     */
    uint8_t tensor_form;
    /*
     Rounding of quotients to integers: LANECAST_ROUNDING_*. Default: nearest, ties to even, which is what the profiles of
     packages do in any case.
     */
    uint8_t int_rounding;
    /*
     With LANECAST_PROFILE_ONNX: the dtype of the division, a float of 16 bits or more; 0: the wider one of the dtypes of the
     data and the scales (default).
     */
    lanecast_dtype precision;
    /*
     The tensor scale, if tensor_form says that it is given.
     */
    float tensor_scale;
    /*
     Dimensions of a block, 8 at most; 0: one scale for all elements.
     */
    uint32_t ndim;
    /*
     Lengths of a block. The last one belongs to the last dimension of the data; lengths that are missing in front are 1. A
     length of 0 is that of the whole dimension.
     */
    size_t block[8];
    /*
     Bytes from one row of quantised elements to the next, so that each row begins at a byte of its own; 0: no gaps
     (default). Each row takes this many bytes, the last one too. The bytes behind its elements are written as zeros, so
     nothing else can be kept there.
     */
    size_t row_bytes;
    /*
     Bytes from one row of row-major scales to the next; 0: no gaps (default). The last row has its gap, too. Gaps are written
     as zeros.
     */
    size_t scale_row_bytes;
} lanecast_scaling;

/*
 A task of a parallel loop. job is what the loop got together with the task, and index is the number of the task.
 */
typedef void (*lanecast_task)(void *job, size_t index);

/*
 A parallel loop of the caller's. It calls task(job, i) for every i below tasks, on any threads and in any order, and returns
 when all calls have returned. Tasks that it does not call are done after that by the thread that called the cast.
 */
typedef void (*lanecast_parallel_for)(void *context, size_t tasks, lanecast_task task, void *job);

/*
 A progress callback. It is called after each chunk, on the thread that cast the chunk.

 done elements of total are cast. In a scaled cast both count pieces of work; they start again, perhaps with another total,
 after a pass that only finds something: the tensor scale, the one scale of all elements, or scales with zero points. Calls
 come from several threads, so a smaller done may follow a larger one. Any result but 0 stops the cast: no further chunk
 begins, and what was written stays.
 */
typedef int (*lanecast_progress)(void *context, size_t done, size_t total);

/*
 On which threads to cast, in which chunks, and whom to tell. lanecast_parallel_init sets the defaults.

 New fields are only ever added at the end, and size says how much of the structure the caller knows.
 */
typedef struct lanecast_parallel {
    /*
     How many bytes of the structure the caller has set, this field included. It may be more than the library knows, if the
     bytes that the library does not know are zero.
     */
    uint32_t size;
    /*
     0: as many threads as there are cores; on Unix they are a pool, kept for the next cast (default). Else this many threads,
     started for this cast. With parallel_for, the number of its threads, from which the size of a chunk follows; 0: as many
     as there are cores.
     */
    uint32_t threads;
    /*
     Elements of a chunk; 0: as many as are useful (default). Scaled casts have pieces of their own size.
     */
    size_t chunk;
    /*
     A loop of the caller's, in place of threads of the library; NULL for none (default).
     */
    lanecast_parallel_for parallel_for;
    /*
     The first argument of parallel_for.
     */
    void *parallel_for_context;
    /*
     A progress callback, which may be called from several threads at once; NULL for none (default).
     */
    lanecast_progress progress;
    /*
     The first argument of progress.
     */
    void *progress_context;
} lanecast_parallel;

/*
 What a quantisation lost, of a whole tensor or of a block. Output only. There is no size, because this structure never gets
 another field.
 */
typedef struct lanecast_losses {
    /*
     Elements that were looked at.
     */
    uint64_t elements;
    /*
     Finite elements that lie, once rounded, beyond the codes of their block.
     */
    uint64_t saturated;
    /*
     Finite elements other than 0 that became 0.
     */
    uint64_t underflowed;
    /*
     Elements other than NaN that became NaN.
     */
    uint64_t made_nan;
    /*
     NaNs that became something else.
     */
    uint64_t lost_nan;
    /*
     Finite elements that became finite values. The errors below are those of these elements.
     */
    uint64_t compared;
    /*
     The largest distance from an element to what it became, in units of the data.
     */
    double max_error;
    /*
     The sum of these distances.
     */
    double total_error;
} lanecast_losses;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Sets every option to its default. Fields from stochastic on are not written, and size is set so that they are not read.
 Returns LANECAST_OK, or LANECAST_ERR_NULL (o).

 # Safety
 o is NULL or writable.
 */
lanecast_status lanecast_options_init(struct lanecast_options *o);

/*
 Makes casts round stochastically: sets the fields from stochastic on, and a size that covers them. seed and first are the
 values of the fields of these names. Options that were set before stay as they are. The random word of an element depends on
 the seed and the number of the element alone.
 Returns LANECAST_OK, or LANECAST_ERR_NULL (o), _OPTIONS (the size in o, or what is behind the structure).

 # Safety
 o is NULL, or a whole structure of this header, writable, that an init function has set.
 */
lanecast_status lanecast_options_stochastic(struct lanecast_options *o,
                                            uint64_t seed,
                                            uint64_t first);

/*
 Sets every option so that casts do what another system does, where name is "onnx", "numpy", "torch", "ml_dtypes" or
 "rust_as". Sets size as lanecast_options_init does.
 Returns LANECAST_OK, or LANECAST_ERR_NULL (o, name), _NAME.

 # Safety
 o is NULL or writable; name is NULL or a C string.
 */
lanecast_status lanecast_options_profile(struct lanecast_options *o,
                                         const char *name);

/*
 Writes the dtype of a canonical name, such as "float8_e4m3fn", to out.
 Returns LANECAST_OK, or LANECAST_ERR_NULL (name, out), _NAME.

 # Safety
 name is NULL or a C string; out is NULL or writable.
 */
lanecast_status lanecast_dtype_from_name(const char *name, lanecast_dtype *out);

/*
 Returns the canonical name of a dtype, a static string; NULL if no dtype has this code.
 */
const char *lanecast_dtype_name(lanecast_dtype t);

/*
 Returns the width of an element in bits; 0 if no dtype has this code.
 */
uint32_t lanecast_dtype_bits(lanecast_dtype t);

/*
 Casts n elements from src to dst.

 src and dst may have any alignment, and must not overlap. They may be NULL if n is 0. A packed buffer of n elements of w
 bits has ceil(n * w / 8) bytes. o may be NULL for the default options.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src, dst), _SIZE (n), _OVERLAP, _MEMORY.

 # Safety
 src is readable and dst writable for n elements; o is NULL or points to o->size readable bytes.
 */
lanecast_status lanecast_cast(lanecast_dtype from,
                              const void *src,
                              lanecast_dtype to,
                              void *dst,
                              size_t n,
                              const struct lanecast_options *o);

/*
 Casts the n elements from index offset on of a source of offset + n elements.

 A packed element at that index may begin within a byte, as in an Arrow bitmap with an offset, whose dtype is uint1. All else
 is as for lanecast_cast. With stochastic rounding, the element at index offset has the number that
 the field first of the options says.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src, dst), _SIZE (offset + n), _OVERLAP, _MEMORY.

 # Safety
 src is readable for offset + n elements and dst writable for n; o is NULL or points to o->size readable bytes.
 */
lanecast_status lanecast_cast_from(lanecast_dtype from,
                                   const void *src,
                                   size_t offset,
                                   lanecast_dtype to,
                                   void *dst,
                                   size_t n,
                                   const struct lanecast_options *o);

/*
 Casts n elements as lanecast_cast does, and reports what that loses.

 An element is lost if it is in any class of lanecast_report but inexact. If any is lost, the status is LANECAST_ERR_LOSSY;
 the destination is written all the same. report may be NULL. validity is NULL, or receives a bitmap of ceil(n / 8) bytes:
 bit i % 8 of byte i / 8 is 0 if element i is lost, and 1 if not. Unused bits of the last byte are 0. After
 LANECAST_ERR_MEMORY, dst has unspecified contents, and bits of validity may be 0. No two buffers may overlap.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src, dst), _SIZE (n), _OVERLAP (validity, too), _MEMORY,
 _LOSSY.

 # Safety
 As for lanecast_cast; report is NULL or writable, validity is NULL or writable for ceil(n / 8) bytes.
 */
lanecast_status lanecast_cast_checked(lanecast_dtype from,
                                      const void *src,
                                      lanecast_dtype to,
                                      void *dst,
                                      size_t n,
                                      const struct lanecast_options *o,
                                      struct lanecast_report *report,
                                      uint8_t *validity);

/*
 Reports what a cast of n elements would lose, as lanecast_cast_checked does, but casts nothing and needs no room for
 results. report may be NULL.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src), _SIZE (n), _MEMORY, _LOSSY.

 # Safety
 src is readable for n elements; o is NULL or points to o->size readable bytes; report is NULL or writable.
 */
lanecast_status lanecast_check(lanecast_dtype from,
                               const void *src,
                               lanecast_dtype to,
                               size_t n,
                               const struct lanecast_options *o,
                               struct lanecast_report *report);

/*
 Promotes count operands by a ruleset, and writes their common dtype to out.

 rules is the name of the ruleset: "numpy", "jax", "jax_x32", "jax_strict", "torch", "array_api", "mindspore", "megengine",
 "onnx" or "lossless". Neither the order of the operands nor repetitions matter.
 Returns LANECAST_OK, or LANECAST_ERR_NULL (rules, operands, out), _NAME, _SIZE (count), _DTYPE (operands), _UNDEFINED.

 # Safety
 rules is NULL or a C string; operands is NULL or readable for count dtypes; out is NULL or writable.
 */
lanecast_status lanecast_promote(const char *rules,
                                 const lanecast_dtype *operands,
                                 size_t count,
                                 lanecast_dtype *out);

/*
 Writes 1 to out if a cast is permitted at a level of casting, else 0. level is "no", "equiv", "safe", "same_kind",
 "same_value" or "unsafe".
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _NULL (level, out), _NAME.

 # Safety
 level is NULL or a C string; out is NULL or writable.
 */
lanecast_status lanecast_can_cast(lanecast_dtype from,
                                  lanecast_dtype to,
                                  const char *level,
                                  int *out);

/*
 Returns the LANECAST_ABI_VERSION of the library. If it is less than that of the header, the library is older than the header.
 */
uint32_t lanecast_abi_version(void);

/*
 Returns what a status means, in English: a static string, never NULL. lanecast_error_message says more.
 */
const char *lanecast_strerror(lanecast_status s);

/*
 Returns 1 if casts with this value of the option isa can run here, else 0.
 */
int lanecast_isa_available(uint8_t isa);

/*
 Returns the instruction set that casts run on by default, as LANECAST_ISA_*; or LANECAST_ERR_ISA if the environment variable
 LANECAST_ISA names one that is not available here.
 */
int lanecast_isa_best(void);

/*
 Returns the message of the last call of this thread that failed: what was given, and what is needed.

 If there is no more to say than what the status means, it is the text of lanecast_strerror; if no call has failed, "". Calls
 that fail with LANECAST_ERR_MEMORY leave the message of an earlier call in place. The result is never NULL, and is valid until
 the next call of this thread fails.
 */
const char *lanecast_error_message(void);

/*
 Sets s to the scaling of a name, and size to the size of the structure. name is one of these:
 - "mx": blocks of 32, float8_e8m0fnu scales
 - "nvfp4": blocks of 16, float8_e4m3fn scales
 - "deepseek": blocks of 128 x 128, float32 scales
 - "per_tensor": one float32 scale
 - "per_row": one float32 scale for each row along the last dimension
 - a profile: "torchao", "modelopt", "compressed_tensors", "comfy" and "gpt_oss" have the blocks and scales of "mx", "onnx" has
   those of "per_tensor", and "hf_fp8" those of "deepseek"

 Returns LANECAST_OK, or LANECAST_ERR_NULL (s, name), _NAME.

 # Safety
 s is NULL or writable; name is NULL or a C string.
 */
lanecast_status lanecast_scaling_init(struct lanecast_scaling *s,
                                      const char *name);

/*
 Writes the shape of the scales for data of a shape to out, and the size of their buffer in bytes to bytes. out receives ndim
 lengths; shape may be NULL if ndim is 0. out and bytes may be NULL. In scaled casts ndim is a uint32_t, in
 casts of strided views a size_t.
 Returns LANECAST_OK, or LANECAST_ERR_NULL (shape, s), _DTYPE (of s), _OPTIONS (s), _SHAPE, _SIZE (shape), _MEMORY.

 # Safety
 shape is readable for ndim numbers; s points to s->size readable bytes, or is NULL, which is an error; out is NULL or writable
 for ndim numbers, bytes is NULL or writable.
 */
lanecast_status lanecast_scale_shape(const size_t *shape,
                                     uint32_t ndim,
                                     const struct lanecast_scaling *s,
                                     size_t *out,
                                     size_t *bytes);

/*
 Casts floats of a shape to elements under scales.

 compute is 0 or 1. 0: scales are given, and so are zero points, if zero_points is not NULL. 1: scales are found from the data
 and written; so are zero points, if zero_points is not NULL, which is an error if the profile does not find them.

 src holds the data in row-major order, and dst the elements. scales has the bytes that lanecast_scale_shape says. zero_points
 has one element of dtype to for each scale, in row-major order without gaps, packed as dst is. Scales and zero points have the
 byte order dst_order of the options. tensor_scale is NULL, or receives the tensor scale, if there is one. how may be
 NULL for the calling thread. No two buffers may overlap. Buffers of no bytes may be NULL. After LANECAST_ERR_MEMORY, dst, and
 scales and zero_points if they are found, have unspecified contents.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to, of s), _OPTIONS (s, o, how, compute, zero_points), _ISA, _NULL (shape, s, buffers),
 _SHAPE, _SIZE (shape), _OVERLAP, _MEMORY, _CANCELLED (progress).

 # Safety
 src is readable and dst writable for elements of the shape; shape is readable for ndim numbers; scales is readable for the
 bytes that lanecast_scale_shape says, and zero_points for as many elements as there are scales; both are writable if they are
 found, or NULL where that is allowed; s, o and how point to as many readable bytes as their size says, or are NULL;
 tensor_scale is NULL or writable.
 */
lanecast_status lanecast_quantize(lanecast_dtype from,
                                  const void *src,
                                  lanecast_dtype to,
                                  void *dst,
                                  const size_t *shape,
                                  uint32_t ndim,
                                  const struct lanecast_scaling *s,
                                  void *scales,
                                  void *zero_points,
                                  uint8_t compute,
                                  float *tensor_scale,
                                  const struct lanecast_options *o,
                                  const struct lanecast_parallel *how);

/*
 Casts elements of a shape under scales to floats.

 scales and zero_points are as in lanecast_quantize, but zero points have the dtype from and are packed as src is, and both have
 the byte order src_order of the options. zero_points may be NULL, and how may be NULL for the calling thread. No two buffers
 may overlap. Buffers of no bytes may be NULL. After LANECAST_ERR_MEMORY, dst has unspecified contents.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to, of s), _OPTIONS (s, o, how, zero_points), _ISA, _NULL (shape, s, buffers), _SHAPE,
 _SIZE (shape), _OVERLAP, _MEMORY, _CANCELLED (progress).

 # Safety
 As for lanecast_quantize; all but dst is only read.
 */
lanecast_status lanecast_dequantize(lanecast_dtype from,
                                    const void *src,
                                    lanecast_dtype to,
                                    void *dst,
                                    const size_t *shape,
                                    uint32_t ndim,
                                    const struct lanecast_scaling *s,
                                    const void *scales,
                                    const void *zero_points,
                                    const struct lanecast_options *o,
                                    const struct lanecast_parallel *how);

/*
 Casts elements of a shape under one scaling to elements under another, whose scales are found and written to to_scales.

 from_scales and zero_points are those of the source, as in lanecast_dequantize; zero_points may be NULL. tensor_scale is NULL,
 or receives the new tensor scale, if there is one. how may be NULL for the calling thread. No two buffers may overlap.
 Buffers of no bytes may be NULL. After LANECAST_ERR_MEMORY, dst and to_scales have unspecified contents.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to, of scalings), _OPTIONS (scalings, o, how, zero_points), _ISA,
 _NULL (shape, scalings, buffers), _SHAPE, _SIZE (shape), _OVERLAP, _MEMORY, _CANCELLED (progress).

 # Safety
 As for lanecast_quantize; from_scales and zero_points are read, to_scales is written.
 */
lanecast_status lanecast_requantize(lanecast_dtype from,
                                    const void *src,
                                    const struct lanecast_scaling *from_scaling,
                                    const void *from_scales,
                                    const void *zero_points,
                                    lanecast_dtype to,
                                    void *dst,
                                    const struct lanecast_scaling *to_scaling,
                                    void *to_scales,
                                    const size_t *shape,
                                    uint32_t ndim,
                                    float *tensor_scale,
                                    const struct lanecast_options *o,
                                    const struct lanecast_parallel *how);

/*
 Reports what a quantisation lost, from the data src, and from the codes, scales and zero_points that lanecast_quantize wrote or
 was given. It is an exact pass of its own, on the calling thread.

 zero_points is NULL if there are none. A tensor scale that was computed must be given in s. all is NULL, or receives the
 losses of all elements. blocks is NULL, or receives those of each block: one for each scale, in their row-major order. Buffers
 of no bytes may be NULL.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to, of s), _OPTIONS (s, o, zero_points), _ISA, _NULL (shape, s, buffers), _SHAPE,
 _SIZE (shape), _MEMORY.

 # Safety
 As for lanecast_quantize; codes, scales and zero_points are read; all and blocks are NULL or writable.
 */
lanecast_status lanecast_quantize_losses(lanecast_dtype from,
                                         const void *src,
                                         lanecast_dtype to,
                                         const void *codes,
                                         const size_t *shape,
                                         uint32_t ndim,
                                         const struct lanecast_scaling *s,
                                         const void *scales,
                                         const void *zero_points,
                                         const struct lanecast_options *o,
                                         struct lanecast_losses *all,
                                         struct lanecast_losses *blocks);

/*
 Casts as lanecast_quantize does, and reports what that lost, as lanecast_quantize_losses does, in one pass on the calling
 thread: what was cast is compared while it is in a cache.

 compute is 0 or 1. 0: scales are given, and so are zero points, if zero_points is not NULL. 1: scales are found from the data
 and written, and zero_points must be NULL. tensor_scale is NULL, or receives the tensor scale, if there is one. all is
 NULL, or receives the losses of all elements. blocks is NULL, or receives those of each block: one for each scale, in their
 row-major order. After LANECAST_ERR_MEMORY, dst, and scales if they are found, have unspecified contents.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to, of s), _OPTIONS (s, o, compute, zero_points), _ISA, _NULL (shape, s, buffers), _SHAPE,
 _SIZE (shape), _OVERLAP, _MEMORY.

 # Safety
 As for lanecast_quantize; all and blocks are NULL or writable.
 */
lanecast_status lanecast_quantize_with_losses(lanecast_dtype from,
                                              const void *src,
                                              lanecast_dtype to,
                                              void *dst,
                                              const size_t *shape,
                                              uint32_t ndim,
                                              const struct lanecast_scaling *s,
                                              void *scales,
                                              const void *zero_points,
                                              uint8_t compute,
                                              float *tensor_scale,
                                              const struct lanecast_options *o,
                                              struct lanecast_losses *all,
                                              struct lanecast_losses *blocks);

/*
 Sets every field to its default, and size to the size of the structure.
 Returns LANECAST_OK, or LANECAST_ERR_NULL (p).

 # Safety
 p is NULL or writable.
 */
lanecast_status lanecast_parallel_init(struct lanecast_parallel *p);

/*
 Casts n elements as lanecast_cast does, on several threads. The result is the same.

 threads is 0 for as many threads as there are cores, which on Unix are a pool that is kept; else this many are started for
 this cast. (In Rust, Parallel::threads(0) is the calling thread alone.) The calling thread casts alone if there are too few
 elements to gain from threads, if threads cannot be started, and, with threads 0, in a forked child of the process that
 started the pool.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (src, dst), _SIZE (n), _OVERLAP, _MEMORY.

 # Safety
 As for lanecast_cast.
 */
lanecast_status lanecast_cast_parallel(lanecast_dtype from,
                                       const void *src,
                                       lanecast_dtype to,
                                       void *dst,
                                       size_t n,
                                       const struct lanecast_options *o,
                                       uint32_t threads);

/*
 Casts n elements as lanecast_cast does, on the threads, in the chunks and with the progress callback that how says. how must
 not be NULL: lanecast_parallel_init sets the defaults.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o, how), _ISA, _NULL (src, dst, how), _SIZE (n), _OVERLAP, _MEMORY,
 _CANCELLED (progress).

 # Safety
 As for lanecast_cast; how points to how->size readable bytes, or is NULL, which is an error; its callbacks do what their
 types say, and do not unwind.
 */
lanecast_status lanecast_cast_parallel_with(lanecast_dtype from,
                                            const void *src,
                                            lanecast_dtype to,
                                            void *dst,
                                            size_t n,
                                            const struct lanecast_options *o,
                                            const struct lanecast_parallel *how);

/*
 Casts as lanecast_cast_parallel_with does, and reports what that loses, as lanecast_cast_checked does. The report does not
 depend on the threads. report may be NULL.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o, how), _ISA, _NULL (src, dst, how), _SIZE (n), _OVERLAP, _MEMORY,
 _CANCELLED (progress), _LOSSY.

 # Safety
 As for lanecast_cast_parallel_with; report is NULL or writable.
 */
lanecast_status lanecast_cast_checked_parallel(lanecast_dtype from,
                                               const void *src,
                                               lanecast_dtype to,
                                               void *dst,
                                               size_t n,
                                               const struct lanecast_options *o,
                                               const struct lanecast_parallel *how,
                                               struct lanecast_report *report);

/*
 Casts the first n elements of a buffer in place.

 buf_bytes is the size of n elements of from or of to, whichever is larger. Bytes behind the n results stay as they are. buf
 may be NULL if n is 0.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _NULL (buf), _SIZE (buf_bytes), _MEMORY.

 # Safety
 buf is writable for buf_bytes bytes, and readable for n elements of from; o is NULL or points to o->size readable bytes.
 */
lanecast_status lanecast_cast_in_place(lanecast_dtype from,
                                       lanecast_dtype to,
                                       void *buf,
                                       size_t buf_bytes,
                                       size_t n,
                                       const struct lanecast_options *o);

/*
 Casts the elements of a strided view to those of another view of the same shape.

 src and dst point to the element of each view whose indices are all 0. shape has ndim lengths, and src_strides and
 dst_strides have ndim strides; ndim is a size_t here, and a uint32_t in scaled casts. A stride is the number of bytes from
 an element to the next along its dimension. It may be negative and need not be a multiple of the alignment; a stride of 0
 repeats elements of a source. Elements of fewer than 8 bits must lie one per byte (src_packing and dst_packing of the
 options). What lies between elements is neither read nor written.

 Along a dimension of several elements, no stride of the destination may be smaller than an element. If elements of the
 destination overlap in other ways, it is unspecified which of them remains. Elements of one view may lie between those of the
 other, but must not overlap them. If there are no elements, src and dst may be NULL; if ndim is 0, shape and the strides may
 be.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _PACKED, _NULL (src, dst, shape, strides), _SIZE, _OVERLAP,
 _MEMORY.

 # Safety
 Every element of src is readable and every one of dst writable; shape and the strides are readable for ndim numbers; o is NULL
 or points to o->size readable bytes.
 */
lanecast_status lanecast_cast_strided(lanecast_dtype from,
                                      const void *src,
                                      const ptrdiff_t *src_strides,
                                      lanecast_dtype to,
                                      void *dst,
                                      const ptrdiff_t *dst_strides,
                                      const size_t *shape,
                                      size_t ndim,
                                      const struct lanecast_options *o);

/*
 Casts as lanecast_cast_strided does, on several threads, which take slices along one dimension. If elements of the destination
 overlap, the calling thread casts alone. how must not be NULL: lanecast_parallel_init sets the defaults.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o, how), _ISA, _PACKED, _NULL (src, dst, shape, strides, how), _SIZE,
 _OVERLAP, _MEMORY, _CANCELLED (progress).

 # Safety
 As for lanecast_cast_strided, from every thread; how as for lanecast_cast_parallel_with.
 */
lanecast_status lanecast_cast_strided_parallel(lanecast_dtype from,
                                               const void *src,
                                               const ptrdiff_t *src_strides,
                                               lanecast_dtype to,
                                               void *dst,
                                               const ptrdiff_t *dst_strides,
                                               const size_t *shape,
                                               size_t ndim,
                                               const struct lanecast_options *o,
                                               const struct lanecast_parallel *how);

/*
 Casts as lanecast_cast_strided does, and reports what that loses, as lanecast_cast_checked does. Elements are counted in
 row-major order: the last index changes fastest. report may be NULL.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _PACKED, _NULL (src, dst, shape, strides), _SIZE, _OVERLAP,
 _MEMORY, _LOSSY.

 # Safety
 As for lanecast_cast_strided; report is NULL or writable.
 */
lanecast_status lanecast_cast_strided_checked(lanecast_dtype from,
                                              const void *src,
                                              const ptrdiff_t *src_strides,
                                              lanecast_dtype to,
                                              void *dst,
                                              const ptrdiff_t *dst_strides,
                                              const size_t *shape,
                                              size_t ndim,
                                              const struct lanecast_options *o,
                                              struct lanecast_report *report);

/*
 Reports what a cast of a strided view would lose, as lanecast_cast_strided_checked does, but casts nothing and needs no room
 for results. dst_packing of the options does not matter. report may be NULL.
 Returns LANECAST_OK, or LANECAST_ERR_DTYPE (from, to), _OPTIONS (o), _ISA, _PACKED, _NULL (src, shape, src_strides), _SIZE, _MEMORY,
 _LOSSY.

 # Safety
 Every element of src is readable; shape and src_strides are readable for ndim numbers; o is NULL or points to o->size readable
 bytes; report is NULL or writable.
 */
lanecast_status lanecast_check_strided(lanecast_dtype from,
                                       const void *src,
                                       const ptrdiff_t *src_strides,
                                       lanecast_dtype to,
                                       const size_t *shape,
                                       size_t ndim,
                                       const struct lanecast_options *o,
                                       struct lanecast_report *report);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LANECAST_H */
