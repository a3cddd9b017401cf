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
 The size of a buffer overflows size_t, or the buffer would pass the end of the address space.
 */
#define LANECAST_ERR_SIZE -6

/*
 The buffers overlap.
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
 The version of this interface. It grows when something is added.
 */
#define LANECAST_ABI_VERSION 2

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
                              uintptr_t n,
                              const struct lanecast_options *o);

/*
 The dtype that count operands become together. Neither their order nor repetitions matter. rules: "numpy"
 "jax" "jax_x32" "jax_strict" "torch" "array_api" "mindspore" "megengine" "onnx" "lossless".

 # Safety
 `rules` is NULL or a C string; `operands` is NULL or readable for `count` dtypes; `out` is NULL or
 writable.
 */
lanecast_status lanecast_promote(const char *rules,
                                 const lanecast_dtype *operands,
                                 uintptr_t count,
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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LANECAST_H */
