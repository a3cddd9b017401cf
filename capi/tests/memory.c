/* Every function of the library, where an allocation fails: the first, the second, and so on to the last, or that and all after it.
   Each call is the first of its process. It may say that there is no memory; else it must do its work. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lanecast.h"

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

/* Allocations that succeed before one fails; negative where none is to fail. */
static atomic_long left = -1;
static atomic_int all_after, counts, seen;

static int fails(void)
{
    if (!counts)
        return 0;
    seen++;
    long n = atomic_fetch_sub(&left, 1);
    int fails = n == 0 || (n < 0 && all_after);
    if (fails)
        errno = ENOMEM;
    return fails;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}
void *realloc(void *old, size_t n)
{
    return fails() ? NULL : __libc_realloc(old, n);
}
void *memalign(size_t alignment, size_t n)
{
    return fails() ? NULL : __libc_memalign(alignment, n);
}
void *aligned_alloc(size_t alignment, size_t n)
{
    return memalign(alignment, n);
}
int posix_memalign(void **out, size_t alignment, size_t n)
{
    void *made = memalign(alignment, n);
    if (made == NULL)
        return ENOMEM;
    *out = made;
    return 0;
}

enum { N = 9 << 20 };
static uint8_t src[N], dst[N], same[N], bits[N / 8];

static int is(int said, int expected)
{
    return said == expected || said == LANECAST_ERR_MEMORY;
}

/* A cast that keeps every byte. */
static int kept(int said, size_t n)
{
    return said == LANECAST_ERR_MEMORY || (said == LANECAST_OK && memcmp(src, dst, n) == 0);
}

static int plain(void)
{
    return kept(lanecast_cast(LANECAST_DTYPE_UINT8, src, LANECAST_DTYPE_INT8, dst, 100000, NULL), 100000);
}
/* One that has a table, and back by another. */
static int table(void)
{
    lanecast_options o;
    lanecast_options_profile(&o, "ml_dtypes");
    return lanecast_cast(LANECAST_DTYPE_FLOAT8_E4M3FN, src, LANECAST_DTYPE_FLOAT16, same, 5000, &o) == LANECAST_OK &&
           kept(lanecast_cast(LANECAST_DTYPE_FLOAT16, same, LANECAST_DTYPE_FLOAT8_E4M3FN, dst, 5000, &o), 5000);
}
static int checked(void)
{
    lanecast_report report;
    int said = lanecast_cast_checked(LANECAST_DTYPE_UINT8, src, LANECAST_DTYPE_INT8, dst, 50000, NULL, &report, bits);
    return is(said, LANECAST_ERR_LOSSY) && (said != LANECAST_ERR_LOSSY || (report.above > 0 && memcmp(src, dst, 50000) == 0));
}
static int pool(void)
{
    return kept(lanecast_cast_parallel(LANECAST_DTYPE_UINT8, src, LANECAST_DTYPE_INT8, dst, N, NULL, 0), N);
}
static int threads(void)
{
    lanecast_parallel how;
    lanecast_parallel_init(&how);
    how.threads = 3;
    how.chunk = 10000;
    return kept(lanecast_cast_parallel_with(LANECAST_DTYPE_UINT8, src, LANECAST_DTYPE_INT8, dst, 100000, NULL, &how), 100000);
}
static int some_threads(void)
{
    return kept(lanecast_cast_parallel(LANECAST_DTYPE_UINT8, src, LANECAST_DTYPE_INT8, dst, N, NULL, 2), N);
}
static void loop(void *context, size_t tasks, lanecast_task task, void *job)
{
    (void)context;
    for (size_t i = 0; i < tasks; i++)
        task(job, i);
}
static int go_on(void *context, size_t done, size_t total)
{
    (void)context;
    return done > total;
}
static int host(void)
{
    lanecast_parallel how;
    lanecast_parallel_init(&how);
    how.parallel_for = loop;
    how.progress = go_on;
    return kept(lanecast_cast_parallel_with(LANECAST_DTYPE_UINT8, src, LANECAST_DTYPE_INT8, dst, N, NULL, &how), N);
}
static int in_place(void)
{
    memcpy(dst, src, 100000);
    return kept(lanecast_cast_in_place(LANECAST_DTYPE_UINT8, LANECAST_DTYPE_INT8, dst, 100000, 100000, NULL), 100000);
}
static int transposed(void)
{
    size_t shape[2] = {2048, 2048};
    ptrdiff_t rows[2] = {2048, 1}, columns[2] = {1, 2048};
    int said = lanecast_cast_strided(LANECAST_DTYPE_UINT8, src, rows, LANECAST_DTYPE_INT8, same, columns, shape, 2, NULL);
    return is(said, LANECAST_OK) &&
           kept(lanecast_cast_strided(LANECAST_DTYPE_INT8, same, columns, LANECAST_DTYPE_UINT8, dst, rows, shape, 2, NULL),
                2048 * 2048);
}
static int names(void)
{
    lanecast_dtype t;
    lanecast_options o;
    int can = 0;
    lanecast_dtype both[2] = {LANECAST_DTYPE_UINT8, LANECAST_DTYPE_FLOAT16}, odd[2] = {LANECAST_DTYPE_FLOAT6_E2M3FN, LANECAST_DTYPE_INT2};
    return is(lanecast_dtype_from_name("bfloat16", &t), LANECAST_OK) &&
           is(lanecast_dtype_from_name("bfloat17", &t), LANECAST_ERR_NAME) &&
           is(lanecast_options_profile(&o, "nobody"), LANECAST_ERR_NAME) &&
           is(lanecast_promote("numpy", both, 2, &t), LANECAST_OK) &&
           is(lanecast_promote("nobody", both, 2, &t), LANECAST_ERR_NAME) &&
           is(lanecast_promote("torch", odd, 2, &t), LANECAST_ERR_UNDEFINED) &&
           is(lanecast_promote("torch", odd, 0, &t), LANECAST_ERR_UNDEFINED) &&
           is(lanecast_can_cast(0, 1, "safe", &can), LANECAST_OK) &&
           is(lanecast_can_cast(0, 1, "sound", &can), LANECAST_ERR_NAME) && lanecast_dtype_name(3)[0] == 'u' &&
           lanecast_dtype_bits(3) == 4 && lanecast_strerror(LANECAST_ERR_MEMORY)[0] == 't' &&
           lanecast_abi_version() == LANECAST_ABI_VERSION && lanecast_isa_available(1) == 1 &&
           lanecast_isa_best() >= LANECAST_ISA_SCALAR;
}
/* Scaled casts of integers, whose scales are 1: they come back as they were. */
enum { ROWS = 150, COLUMNS = 256, SCALES = 2 * 2 };
static float singles[ROWS * COLUMNS], singles_back[ROWS * COLUMNS];
static double doubles[ROWS * COLUMNS], doubles_back[ROWS * COLUMNS];
static int8_t codes[ROWS * COLUMNS], moved[ROWS * COLUMNS];
static float scales[SCALES];
static lanecast_losses lost[SCALES];
static const size_t shape[2] = {ROWS, COLUMNS};

/* There and back, of floats for which there are kernels or not, with scales in one order or the other. */
static int there_and_back(int is_double, int layout, const lanecast_parallel *how)
{
    lanecast_scaling s;
    lanecast_losses all;
    lanecast_dtype from = is_double ? LANECAST_DTYPE_FLOAT64 : LANECAST_DTYPE_FLOAT32;
    const void *data = is_double ? (const void *)doubles : (const void *)singles;
    void *back = is_double ? (void *)doubles_back : (void *)singles_back;
    size_t size = is_double ? sizeof doubles : sizeof singles;
    if (lanecast_scaling_init(&s, "deepseek") != LANECAST_OK)
        return 0;
    s.scale_layout = (uint8_t)layout;
    int said = lanecast_quantize(from, data, LANECAST_DTYPE_INT8, codes, shape, 2, &s, scales, NULL, 1, NULL, NULL, how);
    if (said != LANECAST_OK)
        return said == LANECAST_ERR_MEMORY;
    said = lanecast_dequantize(LANECAST_DTYPE_INT8, codes, from, back, shape, 2, &s, scales, NULL, NULL, how);
    if (said != LANECAST_OK)
        return said == LANECAST_ERR_MEMORY;
    said = lanecast_quantize(from, data, LANECAST_DTYPE_INT8, moved, shape, 2, &s, scales, NULL, 0, NULL, NULL, how);
    if (said != LANECAST_OK)
        return said == LANECAST_ERR_MEMORY;
    said = lanecast_quantize_losses(from, data, LANECAST_DTYPE_INT8, codes, shape, 2, &s, scales, NULL, NULL, &all, lost);
    if (said == LANECAST_OK) {
        lanecast_losses once;
        memset(moved, 1, sizeof moved);
        int again = lanecast_quantize_with_losses(from, data, LANECAST_DTYPE_INT8, moved, shape, 2, &s, scales, NULL, 0, NULL, NULL, &once, lost);
        if (again != LANECAST_OK)
            return again == LANECAST_ERR_MEMORY;
        if (memcmp(&once, &all, sizeof all) != 0)
            return 0;
    }
    return memcmp(data, back, size) == 0 && memcmp(codes, moved, sizeof codes) == 0 &&
           (said == LANECAST_ERR_MEMORY || (said == LANECAST_OK && all.total_error == 0 && lost[SCALES - 1].elements == 22 * 128));
}
static int scaled(void)
{
    return there_and_back(0, 0, NULL);
}
static int scaled_by_columns(void)
{
    return there_and_back(0, 1, NULL);
}
static int scaled_exactly(void)
{
    return there_and_back(1, 1, NULL);
}
static int scaled_on_threads(void)
{
    lanecast_parallel how;
    lanecast_parallel_init(&how);
    how.threads = 3;
    how.chunk = 10000;
    return there_and_back(0, 0, &how) && there_and_back(1, 0, &how);
}
static int requantized(void)
{
    lanecast_scaling rows, tensor;
    float one[ROWS], all;
    for (size_t i = 0; i < ROWS; i++)
        one[i] = 1;
    if (lanecast_scaling_init(&rows, "per_row") != LANECAST_OK || lanecast_scaling_init(&tensor, "per_tensor") != LANECAST_OK)
        return 0;
    return is(lanecast_requantize(LANECAST_DTYPE_INT8, codes, &rows, one, NULL, LANECAST_DTYPE_INT8, moved, &tensor, &all, shape, 2,
                                  NULL, NULL, NULL),
              LANECAST_OK);
}
static int affine(void)
{
    lanecast_scaling s;
    static int8_t zeros[ROWS];
    static float of_rows[ROWS];
    if (lanecast_scaling_init(&s, "per_row") != LANECAST_OK)
        return 0;
    s.profile = 5;
    int said = lanecast_quantize(LANECAST_DTYPE_FLOAT32, singles, LANECAST_DTYPE_INT8, codes, shape, 2, &s, of_rows, zeros, 1, NULL,
                                 NULL, NULL);
    return is(said, LANECAST_OK) && (said != LANECAST_OK || is(lanecast_dequantize(LANECAST_DTYPE_INT8, codes, LANECAST_DTYPE_FLOAT32,
                                                                                   singles_back, shape, 2, &s, of_rows, zeros, NULL, NULL),
                                                               LANECAST_OK));
}
/* Errors that keep shapes. */
static int shapes(void)
{
    lanecast_scaling s;
    size_t out[2], bytes, huge[2] = {SIZE_MAX, 2}, flat[1] = {5};
    return is(lanecast_scaling_init(&s, "deepseek"), LANECAST_OK) && is(lanecast_scale_shape(shape, 2, &s, out, &bytes), LANECAST_OK) &&
           is(lanecast_scale_shape(huge, 2, &s, out, &bytes), LANECAST_ERR_SIZE) &&
           is(lanecast_scale_shape(flat, 1, &s, out, &bytes), LANECAST_ERR_SHAPE) &&
           is(lanecast_scaling_init(&s, "nobody"), LANECAST_ERR_NAME);
}
/* An error that keeps what the variable says. */
static int variable(void)
{
    int cast = lanecast_cast(LANECAST_DTYPE_UINT8, src, LANECAST_DTYPE_INT8, dst, 10, NULL), best = lanecast_isa_best();
    return is(cast, LANECAST_ERR_ISA) && lanecast_isa_available(0) == 0 && is(best, LANECAST_ERR_ISA) &&
           (best != LANECAST_ERR_ISA || strstr(lanecast_error_message(), "LANECAST_ISA") != NULL);
}

static const struct {
    const char *name;
    int (*run)(void);
} calls[] = {{"plain", plain},       {"table", table},     {"checked", checked},   {"pool", pool},
             {"threads", threads},   {"some threads", some_threads}, {"host", host}, {"in place", in_place},
             {"strided", transposed}, {"names", names},     {"variable", variable},
             {"scaled", scaled},     {"scaled by columns", scaled_by_columns}, {"scaled exactly", scaled_exactly},
             {"scaled on threads", scaled_on_threads}, {"requantized", requantized}, {"affine", affine}, {"shapes", shapes}};

/* Says how many allocations there were, and whether the call did what it should. */
static int run(int call, long k, int all)
{
    counts = 0;
    left = k;
    all_after = all;
    seen = 0;
    counts = 1;
    int is_right = calls[call].run();
    counts = 0;
    return is_right ? (seen > 250 ? 250 : seen) : 255;
}

int main(void)
{
    for (size_t i = 0; i < N; i++)
        src[i] = (uint8_t)(i * 2654435761u >> 16) & 0x7F;
    /* Something to find. */
    src[777] = 200;
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        singles[i] = (float)(i % 128) - 127;
        doubles[i] = singles[i];
    }
    for (int call = 0; call < (int)(sizeof calls / sizeof *calls); call++) {
        int most = 0;
        for (int all = 0; all < 2; all++) {
            for (long k = 0; k <= most; k++) {
                fflush(stdout);
                pid_t child = fork();
                if (child == 0) {
                    alarm(20);
                    if (calls[call].run == variable)
                        setenv("LANECAST_ISA", "sse9", 1);
                    _exit(run(call, k, all));
                }
                int status = 0;
                if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) == 255) {
                    printf("%s: wrong or at its end (%#x) where allocation %ld fails%s\n", calls[call].name, status, k,
                           all ? ", and all after it" : "");
                    return 1;
                }
                /* Where one fails, there may be others in its place. */
                if (WEXITSTATUS(status) > most)
                    most = WEXITSTATUS(status);
            }
        }
        printf("%s: %d allocations\n", calls[call].name, most);
    }
    puts("every call ends");
    return 0;
}
