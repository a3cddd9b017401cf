/* Casts measurements to int8, and shows what does not fit: the counts, the first element, and a bitmap.
 *
 *   cargo build --release -p lanecast-capi
 *   cc -Icapi/include capi/examples/checked.c target/release/liblanecast.a -lpthread -ldl -lm -o checked
 */
#include <math.h>
#include <stdio.h>

#include "lanecast.h"

int main(void)
{
    const double x[6] = {1.0, 20.25, 300.0, -1e9, NAN, 127.9};
    signed char narrow[6];
    uint8_t valid[1];
    lanecast_report report;
    lanecast_status status;
    int i;

    status = lanecast_cast_checked(LANECAST_DTYPE_FLOAT64, x, LANECAST_DTYPE_INT8, narrow, 6, NULL, &report, valid);
    if (status != LANECAST_OK && status != LANECAST_ERR_LOSSY)
        return fprintf(stderr, "%s\n", lanecast_error_message()), 1;
    printf("%s: %u above, %u below, %u NaN, %u rounded\n", lanecast_strerror(status), (unsigned)report.above,
           (unsigned)report.below, (unsigned)report.nan, (unsigned)report.inexact);
    if (report.first != UINT64_MAX)
        printf("the first is element %u: %g\n", (unsigned)report.first, x[report.first]);
    for (i = 0; i < 6; i++) {
        if (valid[i / 8] >> i % 8 & 1)
            printf("%g -> %d\n", x[i], narrow[i]);
        else
            printf("%g -> null\n", x[i]);
    }
    return status == LANECAST_ERR_LOSSY && report.first == 2 && valid[0] == 0x23 ? 0 : 1;
}
