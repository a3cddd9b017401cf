/* lanecast: casts buffers between 30 dtypes. What the bits are, the contract of the Rust crate says.
 *
 * Generated from capi/src/lib.rs; `cargo test -p lanecast-capi` says when and how to make it anew.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef LANECAST_H
#define LANECAST_H

#include <stddef.h>
#include <stdint.h>
typedef uint8_t lanecast_dtype;  /* LANECAST_DTYPE_BOOL, ... */
typedef int32_t lanecast_status; /* LANECAST_OK, or negative: LANECAST_ERR_NULL, ... */


/*
 Done.
 */
#define LANECAST_OK 0

/*
 A pointer is NULL that must not be.
 */
#define LANECAST_ERR_NULL -1

/*
 No dtype has this code.
 */
#define LANECAST_ERR_DTYPE -2

/*
 No dtype, profile, ruleset or level of casting has this name.
 */
#define LANECAST_ERR_NAME -3

/*
 The options: a size that is too small, a value out of its range, or something unknown that is not zero.
 */
#define LANECAST_ERR_OPTIONS -4

/*
 The instruction set that the options or LANECAST_ISA name is not available here.
 */
#define LANECAST_ERR_ISA -5

/*
 The size of a buffer overflows size_t or is not that of its elements, or the buffer would pass the end of the
 address space; or the numbers of a shape or of strides are not aligned.
 */
#define LANECAST_ERR_SIZE -6

/*
 The buffers overlap, or elements of a strided destination do.
 */
#define LANECAST_ERR_OVERLAP -7

/*
 A defect of the library. Please report it.
 */
#define LANECAST_ERR_INTERNAL -8

/*
 The ruleset defines no common dtype of the operands, or there are none.
 */
#define LANECAST_ERR_UNDEFINED -9

/*
 The progress callback has stopped the cast: some chunks of the destination are written, and others are not.
 */
#define LANECAST_ERR_CANCELLED -11

/*
 A strided view of elements of fewer than 8 bits that are packed.
 */
#define LANECAST_ERR_PACKED -12

/*
 The cast is done, and lost elements.
 */
#define LANECAST_ERR_LOSSY -10

/*
 The version of this interface. It grows when something is added.
 */
#define LANECAST_ABI_VERSION 3

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

/*
 How to cast. lanecast_options_init sets the defaults; an all-zero structure is not a valid one.

 New fields are only ever added at the end, and `size` says how much of the structure the caller knows.
 */
typedef struct lanecast_options {
    /*
     The number of bytes the caller has set, this field included. A larger one than the library knows
     is fine while the unknown rest is zero.
     */
    uint32_t size;
    /*
     To floats: 0 nearest, ties to even (default); 1 nearest, ties away from zero; 2 toward zero; 3 up;
     4 down.
     */
    uint8_t rounding;
    /*
     Float to integer: the same codes. Default 2, toward zero.
     */
    uint8_t int_rounding;
    /*
     Floats of 8 bits or fewer whose overflow gives the largest value, not Inf or NaN: 1 all of them
     (default); 0 none; 2 float8_e4m3fn alone; 3 those without Inf.
     */
    uint8_t saturate;
    /*
     Float to integer, out of range: 0 saturate (default); 1 wrap.
     */
    uint8_t float_to_int;
    /*
     Integer to integer, out of range: 0 wrap (default); 1 saturate.
     */
    uint8_t int_to_int;
    /*
     NaN to float4 and float6: 0 negative zero (default); 1 the largest value; 2 zero.
     */
    uint8_t nan_to_finite;
    /*
     To float8_e8m0fnu: 0 up (default); 1 down; 2 nearest, ties up.
     */
    uint8_t e8m0_rounding;
    /*
     0 the best that is available, or what LANECAST_ISA says (default); 1 scalar; 2 avx2; 3 avx512; 4 neon.
     */
    uint8_t isa;
    /*
     Source of fewer than 8 bits an element: 0 low bits first (default); 1 one element per byte;
     2 high bits first.
     */
    uint8_t src_packing;
    /*
     Destination: the same codes.
     */
    uint8_t dst_packing;
    /*
     Byte order of the source: 0 native (default); 1 little; 2 big.
     */
    uint8_t src_order;
    /*
     Byte order of the destination: the same codes.
     */
    uint8_t dst_order;
    /*
     Float to 2- and 4-bit integers: 0 as int_rounding (default), else 1 + a rounding code.
     */
    uint8_t narrow_int_rounding;
    /*
     Float to 2- and 4-bit integers: 0 as float_to_int (default); 1 saturate; 2 wrap.
     */
    uint8_t narrow_float_to_int;
    /*
     Zero.
     */
    uint8_t reserved[2];
} lanecast_options;

/*
 What a checked cast lost. Output only. An element is in one class at most.
 */
typedef struct lanecast_report {
    /*
     Elements that were looked at.
     */
    uint64_t elements;
    /*
     Rounded, larger than the largest value of the target.
     */
    uint64_t above;
    /*
     Rounded, smaller than the smallest value of the target; of unsigned targets, negative.
     */
    uint64_t below;
    /*
     A NaN that the target cannot hold.
     */
    uint64_t nan;
    /*
     An Inf that the target cannot hold, or that the options do not let it become.
     */
    uint64_t inf;
    /*
     An imaginary part that is not zero, and is dropped.
     */
    uint64_t imaginary;
    /*
     In range, but rounded.
     */
    uint64_t inexact;
    /*
     The index of the first element of any class but inexact; UINT64_MAX when there is none.
     */
    uint64_t first;
    /*
     The index of the first inexact element; UINT64_MAX when there is none.
     */
    uint64_t first_inexact;
} lanecast_report;

/*
 A piece of work: job is what came with it, index its number.
 */
typedef void (*lanecast_task)(void *job, size_t index);

/*
 A parallel loop of the caller's: calls task(job, i) for every i below tasks, on any threads and in any order,
 and returns when all calls have. A task that is not called is done after that, by the thread that called the
 cast.
 */
typedef void (*lanecast_parallel_for)(void *context, size_t tasks, lanecast_task task, void *job);

/*
 Hears after each chunk, on the thread that has cast it, that so many elements of total are done. Of calls from
 several threads, one that says less may come after one that says more. Anything but 0 stops the cast: no further
 chunk begins, and what has been written stays.
 */
typedef int (*lanecast_progress)(void *context, size_t done, size_t total);

/*
 On which threads to cast. lanecast_parallel_init sets the defaults.

 New fields are only ever added at the end, and `size` says how much of the structure the caller knows.
 */
typedef struct lanecast_parallel {
    /*
     The number of bytes the caller has set, this field included. A larger one than the library knows
     is fine while the unknown rest is zero.
     */
    uint32_t size;
    /*
     0 a pool of as many threads as there are cores, kept for the next cast (default); else so many threads,
     started for this cast. With parallel_for: how many it has, for the size of a chunk; 0 as many as there are cores.
     */
    uint32_t threads;
    /*
     Elements of a chunk; 0 as many as are useful (default).
     */
    size_t chunk;
    /*
     A loop of the caller's instead of threads of the library's; NULL for none (default).
     */
    lanecast_parallel_for parallel_for;
    /*
     The first argument of parallel_for.
     */
    void *parallel_for_context;
    /*
     NULL for none (default). It may be called from several threads at once.
     */
    lanecast_progress progress;
    /*
     The first argument of progress.
     */
    void *progress_context;
} lanecast_parallel;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Sets every option to its default, and `size` to the size of the first block.

 # Safety
 `o` is NULL or writable.
 */
lanecast_status lanecast_options_init(struct lanecast_options *o);

/*
 Sets every option to what a system does: "onnx" "numpy" "torch" "ml_dtypes" "rust_as".

 # Safety
 `o` is NULL or writable; `name` is NULL or a C string.
 */
lanecast_status lanecast_options_profile(struct lanecast_options *o, const char *name);

/*
 The dtype of a canonical name, such as "float8_e4m3fn".

 # Safety
 `name` is NULL or a C string; `out` is NULL or writable.
 */
lanecast_status lanecast_dtype_from_name(const char *name, lanecast_dtype *out);

/*
 The canonical name of a dtype; NULL for a bad code. It lives forever.
 */
const char *lanecast_dtype_name(lanecast_dtype t);

/*
 The width of an element in bits; 0 for a bad code.
 */
uint32_t lanecast_dtype_bits(lanecast_dtype t);

/*
 Casts n elements. o may be NULL. src and dst may have any alignment and may be NULL when n is 0; they
 must not overlap. A packed buffer of n elements of w bits has ceil(n * w / 8) bytes.

 # Safety
 `src` is readable and `dst` writable for `n` elements; `o` is NULL or points to `o->size` readable bytes.
 */
lanecast_status lanecast_cast(lanecast_dtype from,
                              const void *src,
                              lanecast_dtype to,
                              void *dst,
                              size_t n,
                              const struct lanecast_options *o);

/*
 Casts n elements as lanecast_cast does, and says what that loses. The destination is written in every case
 that is no other error; LANECAST_ERR_LOSSY says that an element is of a class other than inexact. report may be
 NULL. validity is NULL, or gets a bitmap of ceil(n / 8) bytes: bit i % 8 of byte i / 8 is 0 for an element i
 of such a class, and 1 for any other; the bits of no element are 0. No two buffers may overlap.

 # Safety
 As for `lanecast_cast`; `report` is NULL or writable, `validity` NULL or writable for ceil(n / 8) bytes.
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
 The dtype that count operands become together. Neither their order nor repetitions matter. rules: "numpy"
 "jax" "jax_x32" "jax_strict" "torch" "array_api" "mindspore" "megengine" "onnx" "lossless".

 # Safety
 `rules` is NULL or a C string; `operands` is NULL or readable for `count` dtypes; `out` is NULL or
 writable.
 */
lanecast_status lanecast_promote(const char *rules,
                                 const lanecast_dtype *operands,
                                 size_t count,
                                 lanecast_dtype *out);

/*
 Writes 1 if a cast may be done at this level, else 0: "no" "equiv" "safe" "same_kind" "same_value"
 "unsafe".

 # Safety
 `level` is NULL or a C string; `out` is NULL or writable.
 */
lanecast_status lanecast_can_cast(lanecast_dtype from, lanecast_dtype to, const char *level, int *out);

/*
 LANECAST_ABI_VERSION of the library.
 */
uint32_t lanecast_abi_version(void);

/*
 What a status means, in English. Never NULL; it lives forever.
 */
const char *lanecast_strerror(lanecast_status s);

/*
 1 if a cast with this `isa` option can run here, else 0.
 */
int lanecast_isa_available(uint8_t isa);

/*
 Sets every field to its default, and `size` to the size of the structure.

 # Safety
 `p` is NULL or writable.
 */
lanecast_status lanecast_parallel_init(struct lanecast_parallel *p);

/*
 lanecast_cast on several threads: 0 for a pool with as many as there are cores, else so many that start for this
 cast. What is too small to gain from that, a forked child, and a process that cannot start threads cast on the
 calling thread. The result is the same.

 # Safety
 As for `lanecast_cast`.
 */
lanecast_status lanecast_cast_parallel(lanecast_dtype from,
                                       const void *src,
                                       lanecast_dtype to,
                                       void *dst,
                                       size_t n,
                                       const struct lanecast_options *o,
                                       uint32_t threads);

/*
 lanecast_cast on threads of the caller's, in chunks of a size, with a callback that hears of progress. how must not be
 NULL: lanecast_parallel_init has the defaults.

 # Safety
 As for `lanecast_cast`; `how` points to `how->size` readable bytes, or is NULL, which is an error; its callbacks do
 what they should, and do not unwind.
 */
lanecast_status lanecast_cast_parallel_with(lanecast_dtype from,
                                            const void *src,
                                            lanecast_dtype to,
                                            void *dst,
                                            size_t n,
                                            const struct lanecast_options *o,
                                            const struct lanecast_parallel *how);

/*
 Casts the first n elements of a buffer to its first n elements. buf_bytes is the size of n elements of from or
 of to, whichever is larger; bytes behind the destination stay as they are. buf may be NULL when n is 0.

 # Safety
 `buf` is writable for `buf_bytes` bytes, and readable for `n` elements of `from`; `o` is NULL or points to
 `o->size` readable bytes.
 */
lanecast_status lanecast_cast_in_place(lanecast_dtype from,
                                       lanecast_dtype to,
                                       void *buf,
                                       size_t buf_bytes,
                                       size_t n,
                                       const struct lanecast_options *o);

/*
 Casts the elements of a view to those of another of the same shape. src and dst point to the first element of each,
 from where ndim strides lead to the others: bytes, of any sign, unaligned; 0 repeats a source. Elements of fewer
 than 8 bits lie one per byte (src_packing and dst_packing of the options). What lies between elements is neither
 read nor written.

 A destination may not have a stride smaller than an element along a dimension of several; if its elements
 overlap otherwise, it is not said which of them remains. The views may lie between each other, but must not
 overlap. Where there are no elements, src and dst may be NULL; for ndim 0, shape and strides may be.

 # Safety
 Every element of `src` is readable and every one of `dst` writable; `shape` and the strides are readable for `ndim`
 numbers; `o` is NULL or points to `o->size` readable bytes.
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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LANECAST_H */
