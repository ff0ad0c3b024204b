/*
 * An exploration (paper 004): the amplitude of an oscillator at 200 frequencies. Twenty of them, spread over the range, must be completed; the
 * others as far as cores are free before the deadline.
 *
 *     cc -o exploration exploration.c $(pkg-config --cflags --libs pliant-gridrpc)
 *     ./exploration FOLDER [CLIENT_FILE]
 */
#include <stdio.h>
#include "grpc.h"

#define POINTS 200
#define MANDATORY 20

int main(int count, char **arguments)
{
    char frequencies[8 * POINTS] = "frequency=", path[1000], text[1000];
    const char *options[] = { "amplitude", "--vary", frequencies, "--min", "20", "--deadline", "3s" };
    pliant_grpc_exploration_t completed;
    double amplitude, largest = 0;
    unsigned int found = 0;
    int point, length = 10, best = 0;
    grpc_error_t error;
    if (count < 2) {
        fprintf(stderr, "usage: exploration FOLDER [CLIENT_FILE]\n");
        return 2;
    }
    /* The first ones are mandatory: every tenth frequency, and then the others. */
    for (point = 0; point < POINTS; point++) {
        int hundredths = point < MANDATORY ? 10 * point : (point - MANDATORY) / 9 * 10 + (point - MANDATORY) % 9 + 1;
        length += snprintf(frequencies + length, sizeof frequencies - (size_t)length, "%s%.2f", point > 0 ? "," : "", hundredths / 100.0);
    }
    error = grpc_initialize(count > 2 ? arguments[2] : NULL);
    if (error == GRPC_NO_ERROR) {
        error = pliant_grpc_explore(options, sizeof options / sizeof options[0], arguments[1], &completed);
    }
    if (error != GRPC_NO_ERROR) {
        pliant_grpc_last_error_text(text, sizeof text);
        fprintf(stderr, "%s: %s\n", grpc_error_string(error), text);
        return 1;
    }
    for (point = 0; point < POINTS; point++) {
        FILE *output;
        snprintf(path, sizeof path, "%s/out/%d", arguments[1], point);
        output = fopen(path, "r");
        if (output == NULL) {
            continue;
        }
        if (fscanf(output, "%lf", &amplitude) == 1) {
            found++;
            if (amplitude > largest) {
                largest = amplitude;
                best = point;
            }
        }
        fclose(output);
    }
    fprintf(stderr, "%u optional points were completed in time\n", completed.optional);
    printf("%u mandatory points, largest amplitude %.2f at point %d\n", completed.mandatory, largest, best);
    return grpc_finalize() != GRPC_NO_ERROR || found != completed.mandatory + completed.optional;
}
