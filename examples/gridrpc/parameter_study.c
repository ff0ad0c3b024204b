/*
 * A parameter study: the frequency at which a damped oscillator has its largest amplitude. Each point is a call of
 * `oscillator`; results are taken as they come, and a point that failed is named and left out.
 *
 *     cc -o parameter_study parameter_study.c $(pkg-config --cflags --libs pliant-gridrpc)
 *     ./parameter_study [CLIENT_FILE]
 */
#include <stdio.h>
#include <stdlib.h>
#include "grpc.h"

#define POINTS 40

int main(int count, char **arguments)
{
    grpc_function_handle_t oscillator;
    grpc_sessionid_t sessions[POINTS], ended;
    double amplitudes[POINTS];
    int point, best = -1;
    char text[500];
    grpc_error_t error = grpc_initialize(count > 1 ? arguments[1] : NULL);
    if (error == GRPC_NO_ERROR) {
        error = grpc_function_handle_default(&oscillator, "oscillator");
    }
    for (point = 0; point < POINTS && error == GRPC_NO_ERROR; point++) {
        error = grpc_call_async(&oscillator, &sessions[point], 0.05 * point, 0.2, &amplitudes[point]);
    }
    if (error != GRPC_NO_ERROR) {
        pliant_grpc_last_error_text(text, sizeof text);
        fprintf(stderr, "%s: %s\n", grpc_error_string(error), text);
        return 1;
    }
    while ((error = grpc_wait_any(&ended)), ended != GRPC_SESSIONID_VOID) {
        for (point = 0; sessions[point] != ended; point++) {
        }
        if (error != GRPC_NO_ERROR) {
            pliant_grpc_error_text(ended, text, sizeof text);
            fprintf(stderr, "frequency %.2f: %s\n", 0.05 * point, text);
        } else if (best < 0 || amplitudes[point] > amplitudes[best]) {
            best = point;
        }
    }
    if (best >= 0) {
        printf("largest amplitude %.2f at frequency %.2f\n", amplitudes[best], 0.05 * best);
    }
    return grpc_finalize() != GRPC_NO_ERROR || best < 0;
}
