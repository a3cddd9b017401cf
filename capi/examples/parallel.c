/* Casts a large buffer on all cores, and then on two threads, where a progress callback stops the cast half way.
 *
 *   cargo build --release -p lanecast-capi
 *   cc -Icapi/include capi/examples/parallel.c target/release/liblanecast.a -lpthread -ldl -lm -o parallel
 */
#include <stdio.h>
#include <stdlib.h>

#include "lanecast.h"

/* Called after each chunk, on the thread that cast it. Anything but 0 stops the cast. */
static int stop_half_way(void *context, size_t done, size_t total)
{
    (void)context;
    return done >= total / 2;
}

int main(void)
{
    const size_t n = 4000000;
    double *x = malloc(n * sizeof *x);
    int *ints = malloc(n * sizeof *ints);
    lanecast_parallel how;
    lanecast_status status;
    size_t i, wrong = 0;

    if (x == NULL || ints == NULL)
        return fprintf(stderr, "no memory\n"), 1;
    for (i = 0; i < n; i++)
        x[i] = (double)i + 0.75;
    status = lanecast_cast_parallel(LANECAST_DTYPE_FLOAT64, x, LANECAST_DTYPE_INT32, ints, n, NULL, 0);
    if (status != LANECAST_OK)
        return fprintf(stderr, "%s\n", lanecast_error_message()), 1;
    for (i = 0; i < n; i++)
        wrong += ints[i] != (int)i;
    printf("%u elements, %u wrong\n", (unsigned)n, (unsigned)wrong);

    lanecast_parallel_init(&how);
    how.threads = 2;
    how.chunk = 10000;
    how.progress = stop_half_way;
    status = lanecast_cast_parallel_with(LANECAST_DTYPE_FLOAT64, x, LANECAST_DTYPE_INT32, ints, n, NULL, &how);
    printf("stopped: %s\n", lanecast_strerror(status));
    free(x);
    free(ints);
    return wrong == 0 && status == LANECAST_ERR_CANCELLED ? 0 : 1;
}
