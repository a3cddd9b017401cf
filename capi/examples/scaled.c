/* Quantises weights to MXFP8, and to NVFP4 with a tensor scale, and dequantises them again.
 *
 *   cargo build --release -p lanecast-capi
 *   cc -Icapi/include capi/examples/scaled.c target/release/liblanecast.a -lpthread -ldl -lm -o scaled
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lanecast.h"

enum { ROWS = 4, COLUMNS = 64, ELEMENTS = ROWS * COLUMNS };

static void check(const char *what, lanecast_status status)
{
    if (status != LANECAST_OK) {
        fprintf(stderr, "%s: %s\n", what, lanecast_error_message());
        exit(1);
    }
}

/* Casts x to a dtype under a scaling and back, and returns the largest error, relative to the largest element. */
static double round_trip(const char *name, const float *x, lanecast_dtype to, lanecast_scaling *scaling)
{
    const size_t shape[2] = {ROWS, COLUMNS};
    unsigned char codes[ELEMENTS]; /* enough for elements of 8 bits or fewer */
    float back[ELEMENTS], factor = 1.0f;
    size_t of_scales[2], bytes;
    unsigned char *scales;
    double worst = 0.0, largest = 0.0;
    int i;

    /* How many scales there are, and how large their buffer is. */
    check("the shape of the scales", lanecast_scale_shape(shape, 2, scaling, of_scales, &bytes));
    scales = (unsigned char *)malloc(bytes);
    if (scales == NULL)
        return fprintf(stderr, "no memory\n"), 1.0;

    /* compute is 1: scales are found from the data, and so is the tensor scale, if the scaling says so. */
    check("quantize", lanecast_quantize(LANECAST_DTYPE_FLOAT32, x, to, codes, shape, 2, scaling, scales, NULL, 1, &factor,
                                        NULL, NULL));
    printf("%s: %u x %u scales of %s, a factor of %g\n", name, (unsigned)of_scales[0], (unsigned)of_scales[1],
           lanecast_dtype_name(scaling->scale_dtype), factor);

    /* To read the elements, the scaling must have the factor that was found. */
    if (scaling->tensor_form == LANECAST_TENSOR_SCALE_COMPUTE_MULTIPLY) {
        scaling->tensor_form = LANECAST_TENSOR_SCALE_MULTIPLY;
        scaling->tensor_scale = factor;
    }
    check("dequantize", lanecast_dequantize(to, codes, LANECAST_DTYPE_FLOAT32, back, shape, 2, scaling, scales, NULL, NULL,
                                            NULL));
    free(scales);
    for (i = 0; i < ELEMENTS; i++) {
        worst = fmax(worst, fabs(back[i] - x[i]));
        largest = fmax(largest, fabs(x[i]));
    }
    return worst / largest;
}

int main(void)
{
    float x[ELEMENTS];
    lanecast_scaling scaling;
    double mxfp8, nvfp4;
    int i;

    for (i = 0; i < ELEMENTS; i++)
        x[i] = 0.02f * sinf(0.7f * (float)i);

    check("mx", lanecast_scaling_init(&scaling, "mx"));
    scaling.rule = LANECAST_RULE_ROUND_UP; /* nothing saturates */
    mxfp8 = round_trip("MXFP8", x, LANECAST_DTYPE_FLOAT8_E4M3FN, &scaling);

    check("nvfp4", lanecast_scaling_init(&scaling, "nvfp4"));
    scaling.tensor_form = LANECAST_TENSOR_SCALE_COMPUTE_MULTIPLY;
    nvfp4 = round_trip("NVFP4", x, LANECAST_DTYPE_FLOAT4_E2M1FN, &scaling);

    printf("the largest errors: %.1f%% and %.1f%%\n", 100.0 * mxfp8, 100.0 * nvfp4);
    return mxfp8 < 0.0625 && nvfp4 < 0.17 ? 0 : 1;
}
