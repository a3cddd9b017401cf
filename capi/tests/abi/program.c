/* A program of the first header: it calls every function that header has, and knows nothing of what came later. */
#include <stdio.h>
#include <string.h>

#include "lanecast.h"

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s\n", __LINE__, #what); \
            return 1; \
        } \
    } while (0)

/* What this header's structures look like to the programs that were compiled with it. */
typedef char options_of_20_bytes[sizeof(lanecast_options) == 20 ? 1 : -1];
typedef char report_of_72_bytes[sizeof(lanecast_report) == 72 ? 1 : -1];

static void serial(void *context, size_t tasks, lanecast_task task, void *job)
{
    size_t i;
    ++*(int *)context;
    for (i = 0; i < tasks; i++) {
        task(job, i);
    }
}

static int progress(void *context, size_t done, size_t total)
{
    *(size_t *)context = total - done;
    return 0;
}

int main(void)
{
    /* What lies behind a structure is the caller's, however much a later library knows. */
    struct { lanecast_options o; unsigned char canary[64]; } options;
    struct { lanecast_parallel p; unsigned char canary[64]; } parallel;
    struct { lanecast_report r; unsigned char canary[64]; } report;
    unsigned char canary[64];
    const float src[4] = {1.5f, 300.0f, -1.0f, 2.5f};
    uint8_t dst[4], valid[1];
    float buffer[4];
    int16_t shorts[4];
    const size_t shape[1] = {4};
    const ptrdiff_t forward[1] = {4}, backward[1] = {-1};
    const lanecast_dtype operands[2] = {LANECAST_DTYPE_INT8, LANECAST_DTYPE_UINT8};
    lanecast_dtype dtype;
    int can = 0, calls = 0;
    size_t left = 1;

    memset(canary, 0xA5, sizeof canary);
    memset(&options, 0xA5, sizeof options);
    memset(&parallel, 0xA5, sizeof parallel);
    memset(&report, 0xA5, sizeof report);

    CHECK(lanecast_abi_version() >= LANECAST_ABI_VERSION);
    CHECK(lanecast_options_init(&options.o) == LANECAST_OK);
    CHECK(options.o.size <= sizeof options.o);
    CHECK(options.o.rounding == 0 && options.o.int_rounding == 2 && options.o.saturate == 1 && options.o.isa == 0);
    options.o.size = sizeof options.o;
    CHECK(lanecast_parallel_init(&parallel.p) == LANECAST_OK);
    CHECK(parallel.p.size <= sizeof parallel.p);
    CHECK(memcmp(options.canary, canary, sizeof canary) == 0);
    CHECK(memcmp(parallel.canary, canary, sizeof canary) == 0);

    CHECK(lanecast_dtype_from_name("float8_e4m3fn", &dtype) == LANECAST_OK && dtype == LANECAST_DTYPE_FLOAT8_E4M3FN);
    CHECK(strcmp(lanecast_dtype_name(LANECAST_DTYPE_COMPLEX128), "complex128") == 0);
    CHECK(lanecast_dtype_bits(LANECAST_DTYPE_FLOAT6_E2M3FN) == 6);
    CHECK(lanecast_isa_available(1) == 1);
    CHECK(lanecast_strerror(LANECAST_ERR_OVERLAP)[0] != 0);
    CHECK(lanecast_promote("numpy", operands, 2, &dtype) == LANECAST_OK && dtype == LANECAST_DTYPE_INT16);
    CHECK(lanecast_promote("onnx", operands, 2, &dtype) == LANECAST_ERR_UNDEFINED);
    CHECK(lanecast_can_cast(LANECAST_DTYPE_INT8, LANECAST_DTYPE_FLOAT16, "safe", &can) == LANECAST_OK && can == 1);

    CHECK(lanecast_cast(LANECAST_DTYPE_FLOAT32, src, LANECAST_DTYPE_UINT8, dst, 4, &options.o) == LANECAST_OK);
    CHECK(memcmp(dst, "\x01\xff\x00\x02", 4) == 0);
    options.o.int_rounding = 3;
    CHECK(lanecast_cast(LANECAST_DTYPE_FLOAT32, src, LANECAST_DTYPE_UINT8, dst, 4, &options.o) == LANECAST_OK);
    CHECK(memcmp(dst, "\x02\xff\x00\x03", 4) == 0);
    CHECK(lanecast_options_profile(&options.o, "torch") == LANECAST_OK && options.o.saturate == 2);
    CHECK(memcmp(options.canary, canary, sizeof canary) == 0);
    options.o.rounding = 9;
    CHECK(lanecast_cast(LANECAST_DTYPE_FLOAT32, src, LANECAST_DTYPE_UINT8, dst, 4, &options.o) == LANECAST_ERR_OPTIONS);
    CHECK(lanecast_cast(255, src, LANECAST_DTYPE_UINT8, dst, 4, NULL) == LANECAST_ERR_DTYPE);
    CHECK(lanecast_cast(LANECAST_DTYPE_FLOAT32, src, LANECAST_DTYPE_UINT8, NULL, 4, NULL) == LANECAST_ERR_NULL);

    CHECK(lanecast_cast_checked(LANECAST_DTYPE_FLOAT32, src, LANECAST_DTYPE_UINT8, dst, 4, NULL, &report.r, valid) ==
          LANECAST_ERR_LOSSY);
    CHECK(report.r.elements == 4 && report.r.above == 1 && report.r.below == 1 && report.r.inexact == 2);
    CHECK(report.r.nan == 0 && report.r.inf == 0 && report.r.imaginary == 0);
    CHECK(report.r.first == 1 && report.r.first_inexact == 0 && valid[0] == 0x9);
    CHECK(memcmp(report.canary, canary, sizeof canary) == 0);

    CHECK(lanecast_cast_parallel(LANECAST_DTYPE_FLOAT32, src, LANECAST_DTYPE_UINT8, dst, 4, NULL, 2) == LANECAST_OK);
    CHECK(memcmp(dst, "\x01\xff\x00\x02", 4) == 0);
    parallel.p.chunk = 2;
    parallel.p.parallel_for = serial;
    parallel.p.parallel_for_context = &calls;
    parallel.p.progress = progress;
    parallel.p.progress_context = &left;
    CHECK(lanecast_cast_parallel_with(LANECAST_DTYPE_FLOAT32, src, LANECAST_DTYPE_INT16, shorts, 4, NULL, &parallel.p) ==
          LANECAST_OK);
    CHECK(shorts[0] == 1 && shorts[1] == 300 && shorts[2] == -1 && shorts[3] == 2 && calls == 1 && left == 0);

    memcpy(buffer, src, sizeof src);
    CHECK(lanecast_cast_in_place(LANECAST_DTYPE_FLOAT32, LANECAST_DTYPE_UINT8, buffer, sizeof buffer, 4, NULL) ==
          LANECAST_OK);
    CHECK(memcmp(buffer, "\x01\xff\x00\x02", 4) == 0);
    CHECK(lanecast_cast_strided(LANECAST_DTYPE_FLOAT32, src, forward, LANECAST_DTYPE_UINT8, dst + 3, backward, shape, 1,
                                NULL) == LANECAST_OK);
    CHECK(memcmp(dst, "\x02\x00\xff\x01", 4) == 0);

    puts("an old program runs");
    return 0;
}
