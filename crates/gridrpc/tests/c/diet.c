/*
 * A client with the functions of DIET_client.h: numbers, vectors, matrices, strings and files, with and without waiting.
 *
 *     diet CLIENT_FILE
 *
 * The federation offers `everything` and `transpose`, as for types.c and numbers.c, and LOOP. The exit code is 0 if all outputs are right.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "DIET_client.h"
#include "DIET_grpc.h"

static void must(int is_right, const char *what)
{
    char text[600] = "";
    if (!is_right) {
        pliant_grpc_last_error_text(text, sizeof text);
        fprintf(stderr, "%s (last error: %s)\n", what, text);
        exit(1);
    }
}

/* Strings, files and an array that changes. */
static void everything(void)
{
    diet_profile_t *profile = diet_profile_alloc("everything", -1, -1, -1);
    int n = 3;
    long v[3] = { 1, -3000000000000L, 5 }, *doubled = NULL;
    char *shouted = NULL, *path = NULL, line[32] = "";
    float *half = NULL;
    size_t size = 0;
    diet_persistence_mode_t mode;
    FILE *source = fopen("diet-source.txt", "w");
    must(source != NULL && fputs("a line\n", source) >= 0 && fclose(source) == 0, "diet-source.txt");
    must(profile != NULL && diet_call(profile) != GRPC_NO_ERROR, "a profile without arguments");
    must(diet_profile_free(profile) == 0, "profile_free");

    profile = diet_profile_alloc("everything", 2, 3, 6);
    must(diet_scalar_set(diet_parameter(profile, 0), &n, DIET_VOLATILE, DIET_INT) == 0
             && diet_string_set(diet_parameter(profile, 1), "federation", DIET_VOLATILE) == 0
             && diet_file_set(diet_parameter(profile, 2), "diet-source.txt", DIET_VOLATILE) == 0
             && diet_vector_set(diet_parameter(profile, 3), v, DIET_VOLATILE, DIET_LONGINT, 3) == 0
             && diet_string_set(diet_parameter(profile, 4), NULL, DIET_VOLATILE) == 0
             && diet_file_set(diet_parameter(profile, 5), NULL, DIET_PERSISTENT_RETURN) == 0
             && diet_scalar_set(diet_parameter(profile, 6), NULL, DIET_VOLATILE, DIET_FLOAT) == 0,
         "set");
    must(diet_call(profile) == GRPC_NO_ERROR, "call");
    must(diet_vector_get(diet_parameter(profile, 3), &doubled, &mode, &size) == 0 && doubled == v && size == 3, "vector_get");
    must(v[0] == 2 && v[1] == -6000000000000L && v[2] == 10, "the vector is wrong");
    must(diet_string_get(diet_parameter(profile, 4), &shouted, NULL) == 0 && strcmp(shouted, "FEDERATION") == 0, "the string is wrong");
    must(diet_file_get(diet_parameter(profile, 5), &path, NULL, &size) == 0 && size == 7, "file_get");
    source = fopen(path, "r");
    must(source != NULL && fgets(line, sizeof line, source) != NULL && strcmp(line, "a line\n") == 0, "the file is wrong");
    fclose(source);
    must(remove(path) == 0, "the file cannot be removed");
    must(diet_scalar_get(diet_parameter(profile, 6), &half, NULL) == 0 && *half == 1.5f, "the number is wrong");
    free(half);
    must(diet_free_data(diet_parameter(profile, 4)) == 0 && diet_free_data(diet_parameter(profile, 5)) == 0, "free_data");
    must(diet_profile_free(profile) == 0, "profile_free");
}

/* A matrix that is stored column by column comes back row by row. */
static diet_profile_t *matrices(int *n, char *letter, float *f, long *large, float *a, double *matrix, char *letters)
{
    diet_profile_t *profile = diet_profile_alloc("transpose", 5, 6, 11);
    must(profile != NULL, "transpose");
    must(diet_scalar_set(diet_parameter(profile, 0), n, DIET_VOLATILE, DIET_INT) == 0
             && diet_scalar_set(diet_parameter(profile, 1), letter, DIET_VOLATILE, DIET_CHAR) == 0
             && diet_scalar_set(diet_parameter(profile, 2), f, DIET_VOLATILE, DIET_FLOAT) == 0
             && diet_scalar_set(diet_parameter(profile, 3), large, DIET_VOLATILE, DIET_LONGINT) == 0
             && diet_matrix_set(diet_parameter(profile, 4), a, DIET_VOLATILE, DIET_FLOAT, 2, 3, DIET_ROW_MAJOR) == 0
             && diet_matrix_set(diet_parameter(profile, 5), matrix, DIET_VOLATILE, DIET_DOUBLE, 2, 3, DIET_COL_MAJOR) == 0
             && diet_vector_set(diet_parameter(profile, 6), letters, DIET_VOLATILE, DIET_CHAR, 3) == 0
             && diet_scalar_set(diet_parameter(profile, 7), NULL, DIET_VOLATILE, DIET_CHAR) == 0
             && diet_scalar_set(diet_parameter(profile, 8), NULL, DIET_VOLATILE, DIET_FLOAT) == 0
             && diet_scalar_set(diet_parameter(profile, 9), NULL, DIET_VOLATILE, DIET_LONGINT) == 0
             && diet_matrix_set(diet_parameter(profile, 10), NULL, DIET_VOLATILE, DIET_FLOAT, 3, 2, DIET_COL_MAJOR) == 0
             && diet_matrix_set(diet_parameter(profile, 11), NULL, DIET_VOLATILE, DIET_DOUBLE, 3, 2, DIET_ROW_MAJOR) == 0,
         "set");
    return profile;
}

static void asynchronous(void)
{
    enum { CALLS = 4 };
    diet_profile_t *profiles[CALLS];
    diet_reqID_t sessions[CALLS], ended;
    int n = 3, number, index;
    char letter = 'a', letters[CALLS][3], *next;
    float f = 1.25f, a[6] = { 1, 2, 3, 4, 5, 6 }, *b;
    double matrix[6] = { 1, 4, 2, 5, 3, 6 }, *transposed;
    long large = 1L << 40, *larger;
    size_t rows, columns;
    diet_matrix_order_t order;
    for (number = 0; number < CALLS; number++) {
        memcpy(letters[number], "wxy", 3);
        profiles[number] = matrices(&n, &letter, &f, &large, a, matrix, letters[number]);
        must(diet_call_async(profiles[number], &sessions[number]) == GRPC_NO_ERROR, "call_async");
    }
    must(diet_wait_or(sessions, CALLS, &ended) == GRPC_NO_ERROR && diet_probe(ended) == GRPC_NO_ERROR, "wait_or");
    must(diet_wait_and(sessions, CALLS) == GRPC_NO_ERROR, "wait_and");
    must(diet_wait(sessions[0]) == GRPC_NO_ERROR && diet_get_error(sessions[0]) == GRPC_NO_ERROR, "wait");
    for (number = 0; number < CALLS; number++) {
        must(diet_scalar_get(diet_parameter(profiles[number], 7), &next, NULL) == 0 && *next == 'b', "the char is wrong");
        must(diet_scalar_get(diet_parameter(profiles[number], 9), &larger, NULL) == 0 && *larger == large + 1, "the long is wrong");
        must(memcmp(letters[number], "xyz", 3) == 0, "the letters are wrong");
        must(diet_matrix_get(diet_parameter(profiles[number], 10), &b, NULL, &rows, &columns, &order) == 0
                 && rows == 3 && columns == 2 && order == DIET_COL_MAJOR,
             "matrix_get");
        must(diet_matrix_get(diet_parameter(profiles[number], 11), &transposed, NULL, NULL, NULL, NULL) == 0, "matrix_get");
        for (index = 0; index < 6; index++) {
            /* Stored column by column, the transposed matrix is the original one row by row. */
            must(b[index] == a[index], "the matrix of float is wrong");
            must(transposed[index] == matrix[index], "the matrix of double is wrong");
        }
        for (index = 7; index < 12; index++) {
            must(diet_free_data(diet_parameter(profiles[number], index)) == 0, "free_data");
        }
        must(diet_profile_free(profiles[number]) == 0, "profile_free");
    }
}

static void cancelled(void)
{
    diet_profile_t *profile = diet_profile_alloc("LOOP", 0, 0, 0);
    diet_reqID_t session;
    int n = 1;
    must(profile != NULL && diet_scalar_set(diet_parameter(profile, 0), &n, DIET_VOLATILE, DIET_INT) == 0, "LOOP");
    must(diet_call_async(profile, &session) == GRPC_NO_ERROR, "call_async");
    must(diet_probe(session) == GRPC_NOT_COMPLETED, "probe");
    must(diet_cancel(session) == GRPC_NO_ERROR && diet_probe(session) == GRPC_SESSION_FAILED, "cancel");
    must(diet_profile_free(profile) == 0, "profile_free");
}

int main(int count, char **arguments)
{
    must(count == 2 && diet_initialize(arguments[1], count, arguments) == GRPC_NO_ERROR, "initialize");
    everything();
    asynchronous();
    cancelled();
    must(diet_finalize() == GRPC_NO_ERROR, "finalize");
    printf("right\n");
    return 0;
}
