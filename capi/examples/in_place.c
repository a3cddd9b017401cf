/* Casts a buffer of floats to bfloat16 in place, and gives back the half of the memory that is no longer needed.
 *
 *   cargo build --release -p lanecast-capi
 *   cc -Icapi/include capi/examples/in_place.c target/release/liblanecast.a -lpthread -ldl -lm -o in_place
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lanecast.h"

int main(void)
{
    const size_t n = 1000;
    float *x = malloc(n * sizeof *x);
    unsigned short *halves, wanted;
    float bits;
    lanecast_status status;
    size_t i;
    int wrong = 0;

    if (x == NULL)
        return fprintf(stderr, "no memory\n"), 1;
    for (i = 0; i < n; i++)
        x[i] = (float)i;

    /* The buffer must have the size of the larger side, which is that of the floats here. */
    status = lanecast_cast_in_place(LANECAST_DTYPE_FLOAT32, LANECAST_DTYPE_BFLOAT16, x, n * sizeof *x, n, NULL);
    if (status != LANECAST_OK)
        return fprintf(stderr, "%s\n", lanecast_error_message()), 1;
    halves = realloc(x, n * sizeof *halves);
    if (halves == NULL)
        return fprintf(stderr, "no memory\n"), 1;

    /* All integers up to 256 are exact in bfloat16, which has the upper half of the bits of a float. */
    for (i = 0; i <= 256; i++) {
        unsigned int word;
        bits = (float)i;
        memcpy(&word, &bits, sizeof word);
        wanted = (unsigned short)(word >> 16);
        wrong += halves[i] != wanted;
    }
    printf("%u floats in place, %d of 257 wrong\n", (unsigned)n, wrong);
    free(halves);

    /* A buffer of any other size is an error, and nothing is written. */
    status = lanecast_cast_in_place(LANECAST_DTYPE_FLOAT32, LANECAST_DTYPE_BFLOAT16, &bits, 2, 1, NULL);
    printf("2 bytes for a float: %s\n", lanecast_error_message());
    return wrong == 0 && status == LANECAST_ERR_SIZE ? 0 : 1;
}
