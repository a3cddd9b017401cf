/* Casts the green channel of an image, upside down, to floats in transposed order, with strides on both sides.
 *
 *   cargo build --release -p lanecast-capi
 *   cc -Icapi/include capi/examples/strided.c target/release/liblanecast.a -lpthread -ldl -lm -o strided
 */
#include <stdio.h>

#include "lanecast.h"

enum { ROWS = 3, COLUMNS = 4, CHANNELS = 3 };

int main(void)
{
    unsigned char image[ROWS][COLUMNS][CHANNELS];
    float green[COLUMNS][ROWS];
    const size_t shape[2] = {ROWS, COLUMNS};
    /* In bytes. The rows are taken backwards, so the first element is in the last row. */
    const ptrdiff_t from[2] = {-(ptrdiff_t)sizeof image[0], CHANNELS};
    const ptrdiff_t to[2] = {sizeof(float), sizeof green[0]};
    lanecast_status status;
    int row, column, wrong = 0;

    for (row = 0; row < ROWS; row++)
        for (column = 0; column < COLUMNS; column++) {
            image[row][column][0] = image[row][column][2] = 255;
            image[row][column][1] = (unsigned char)(10 * row + column);
        }
    status = lanecast_cast_strided(LANECAST_DTYPE_UINT8, &image[ROWS - 1][0][1], from, LANECAST_DTYPE_FLOAT32, green, to,
                                   shape, 2, NULL);
    if (status != LANECAST_OK)
        return fprintf(stderr, "%s\n", lanecast_error_message()), 1;
    for (column = 0; column < COLUMNS; column++)
        for (row = 0; row < ROWS; row++) {
            printf("%g%s", green[column][row], row == ROWS - 1 ? "\n" : " ");
            wrong += green[column][row] != (float)(10 * (ROWS - 1 - row) + column);
        }
    return wrong == 0 ? 0 : 1;
}
