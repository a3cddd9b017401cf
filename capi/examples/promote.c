/* Prints what an int8 and a bfloat16 operand are promoted to by each ruleset, and whether the cast of the int8 to that is safe.
 *
 *   cargo build --release -p lanecast-capi
 *   cc -Icapi/include capi/examples/promote.c target/release/liblanecast.a -lpthread -ldl -lm -o promote
 */
#include <stdio.h>

#include "lanecast.h"

int main(void)
{
    static const char *const rules[] = {"numpy",     "jax",       "jax_x32",   "jax_strict", "torch",
                                        "array_api", "mindspore", "megengine", "onnx",       "lossless"};
    const lanecast_dtype operands[2] = {LANECAST_DTYPE_INT8, LANECAST_DTYPE_BFLOAT16};
    size_t i;

    for (i = 0; i < sizeof rules / sizeof *rules; i++) {
        lanecast_dtype common;
        int safe;
        lanecast_status status = lanecast_promote(rules[i], operands, 2, &common);

        printf("%-11s int8 + bfloat16 ", rules[i]);
        if (status == LANECAST_ERR_UNDEFINED) {
            printf("is undefined\n");
            continue;
        }
        if (status == LANECAST_OK)
            status = lanecast_can_cast(operands[0], common, "safe", &safe);
        if (status != LANECAST_OK)
            return fprintf(stderr, "%s: %s\n", rules[i], lanecast_error_message()), 1;
        printf("= %s, and %s\n", lanecast_dtype_name(common), safe ? "safe" : "not safe");
    }
    return 0;
}
