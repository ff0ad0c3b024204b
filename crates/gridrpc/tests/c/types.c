/*
 * Strings, files and an array that changes, through a federation.
 *
 *     types CLIENT_FILE
 *
 * The federation offers `everything`: it doubles `v`, writes `word` in capitals, copies a file, and halves `n`. It is called with
 * variable arguments and with an array of addresses. The exit code is 0 if all outputs are right.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "grpc.h"

static void must(int is_right, const char *what)
{
    char text[600] = "";
    if (!is_right) {
        pliant_grpc_last_error_text(text, sizeof text);
        fprintf(stderr, "%s (last error: %s)\n", what, text);
        exit(1);
    }
}

static void expect_outputs(const long *v, const char *shouted, const char *path, float half)
{
    char line[32] = "";
    FILE *copy = fopen(path, "r");
    must(v[0] == 2 && v[1] == -6000000000000L && v[2] == 10, "the vector is wrong");
    must(strcmp(shouted, "FEDERATION") == 0, "the string is wrong");
    must(half == 1.5f, "the number is wrong");
    must(copy != NULL && fgets(line, sizeof line, copy) != NULL && strcmp(line, "a line\n") == 0, "the file is wrong");
    fclose(copy);
    must(remove(path) == 0, "the file cannot be removed");
}

int main(int count, char **arguments)
{
    grpc_function_handle_t handle;
    grpc_sessionid_t session;
    long v[4] = { 1, -3000000000000L, 5, 7 };
    int n = 3;
    char shouted[33];
    float half = 0;
    void *addresses[7];
    FILE *source = fopen("source.txt", "w");
    must(count == 2 && source != NULL && fputs("a line\n", source) >= 0 && fclose(source) == 0, "source.txt");
    must(grpc_initialize(arguments[1]) == GRPC_NO_ERROR, "initialize");
    must(grpc_function_handle_default(&handle, "everything") == GRPC_NO_ERROR, "everything");

    shouted[32] = 'x';
    must(grpc_call(&handle, n, v, "federation", shouted, "source.txt", "copy.txt", &half) == GRPC_NO_ERROR, "call");
    expect_outputs(v, shouted, "copy.txt", half);
    must(v[3] == 7 && shouted[32] == 'x', "something is written behind an output");

    v[0] = 1, v[1] = -3000000000000L, v[2] = 5;
    memset(shouted, 0, sizeof shouted);
    half = 0;
    addresses[0] = &n, addresses[1] = v, addresses[2] = "federation", addresses[3] = shouted;
    addresses[4] = "source.txt", addresses[5] = "copy.txt", addresses[6] = &half;
    must(pliant_grpc_call_array_async(&handle, &session, addresses, 7) == GRPC_NO_ERROR, "call_array_async");
    must(grpc_wait(session) == GRPC_NO_ERROR, "wait");
    expect_outputs(v, shouted, "copy.txt", half);

    must(grpc_call(&handle, n, v, "federation", shouted, "missing.txt", "copy.txt", &half) == GRPC_OTHER_ERROR_CODE,
         "a missing file");
    must(grpc_call(&handle, n, v, "federation", shouted, "source.txt", "no-folder/copy.txt", &half)
             == GRPC_OTHER_ERROR_CODE,
         "a folder that is missing");
    must(grpc_finalize() == GRPC_NO_ERROR, "finalize");
    printf("right\n");
    return 0;
}
