/* Casts a few floats to 8-bit floats and back, and to packed 4-bit floats, and shows what an error looks like.
 *
 *   cargo build --release -p lanecast-capi
 *   cc -Icapi/include capi/examples/cast.c target/release/liblanecast.a -lpthread -ldl -lm -o cast
 */
#include <stdio.h>
#include <string.h>

#include "lanecast.h"

/* Prints the message of the last call of this thread that failed. */
static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, lanecast_error_message());
    return 1;
}

int main(void)
{
    const float x[5] = {1.0f, -0.3f, 448.0f, 1e6f, 6.5f};
    const unsigned char expected[5] = {0x38, 0xAA, 0x7E, 0x7E, 0x4D};
    unsigned char f8[5], f4[3];
    float back[5];
    lanecast_options options;
    lanecast_dtype dtype;
    lanecast_status status;
    int i;

    if (lanecast_abi_version() < LANECAST_ABI_VERSION)
        return fprintf(stderr, "the library is older than the header\n"), 1;

    /* NULL for the options means the defaults. */
    status = lanecast_cast(LANECAST_DTYPE_FLOAT32, x, LANECAST_DTYPE_FLOAT8_E4M3FN, f8, 5, NULL);
    if (status != LANECAST_OK)
        return fail("to float8");
    if (memcmp(f8, expected, sizeof f8) != 0)
        return fprintf(stderr, "to float8: wrong bits\n"), 1;
    status = lanecast_cast(LANECAST_DTYPE_FLOAT8_E4M3FN, f8, LANECAST_DTYPE_FLOAT32, back, 5, NULL);
    if (status != LANECAST_OK)
        return fail("from float8");
    for (i = 0; i < 5; i++)
        printf("%g -> 0x%02x -> %g\n", x[i], f8[i], back[i]);

    /* 4-bit floats: two elements in a byte, the first one in the high bits. */
    lanecast_options_init(&options);
    options.dst_packing = LANECAST_PACKING_HIGH_FIRST;
    status = lanecast_dtype_from_name("float4_e2m1fn", &dtype);
    if (status != LANECAST_OK)
        return fail("float4_e2m1fn");
    status = lanecast_cast(LANECAST_DTYPE_FLOAT32, x, dtype, f4, 5, &options);
    if (status != LANECAST_OK)
        return fail("to float4");
    printf("%s, %u bits: %02x %02x %02x\n", lanecast_dtype_name(dtype), (unsigned)lanecast_dtype_bits(dtype), f4[0],
           f4[1], f4[2]);
    if (f4[0] != 0x29 || f4[1] != 0x77 || f4[2] != 0x70)
        return fprintf(stderr, "to float4: wrong bits\n"), 1;

    /* A call that fails with an error writes nothing. */
    options.rounding = 9;
    status = lanecast_cast(LANECAST_DTYPE_FLOAT32, x, dtype, f4, 5, &options);
    if (status != LANECAST_ERR_OPTIONS)
        return fprintf(stderr, "a bad option was taken\n"), 1;
    printf("a bad option: %s\n", lanecast_error_message());
    return 0;
}
