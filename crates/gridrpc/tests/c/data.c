/*
 * Data that stay at a server between calls, with the functions of grpc.h and of DIET_client.h.
 *
 *     data CLIENT_FILE
 *
 * Two servers offer `mmul` of examples/gridrpc, and keep four values of a user. The exit code is 0 if all outputs are right.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "DIET_client.h"

static const double A[4] = { 1, 2, 3, 4 }, B[4] = { 0, 1, 1, 0 }, AB[4] = { 2, 1, 4, 3 }, ABA[4] = { 5, 8, 13, 20 };

static void must(int is_right, const char *what)
{
    char text[600] = "";
    if (!is_right) {
        pliant_grpc_last_error_text(text, sizeof text);
        fprintf(stderr, "%s (last error: %s)\n", what, text);
        exit(1);
    }
}

static int is_equal(const double *found, const double *expected)
{
    return memcmp(found, expected, 4 * sizeof *found) == 0;
}

static pliant_grpc_data_t entry(size_t position, pliant_grpc_data_mode_t mode, const char *id)
{
    pliant_grpc_data_t entry;
    memset(&entry, 0, sizeof entry);
    entry.position = position;
    entry.mode = mode;
    strncpy(entry.id, id, sizeof entry.id - 1);
    return entry;
}

/* What the first call leaves is multiplied at the server that has it. */
static void of_grpc(void)
{
    grpc_function_handle_t mmul;
    grpc_sessionid_t session;
    pliant_grpc_data_t kept[2], used[3];
    int n = 2;
    double a[4], b[4], c[4] = { 0, 0, 0, 0 };
    void *all[4], *outputs[4];
    all[0] = outputs[0] = &n;
    all[1] = a, all[2] = b, all[3] = outputs[3] = c;
    outputs[1] = outputs[2] = NULL;
    memcpy(a, A, sizeof a);
    memcpy(b, B, sizeof b);
    must(grpc_function_handle_default(&mmul, "mmul") == GRPC_NO_ERROR, "mmul");

    kept[0] = entry(1, PLIANT_GRPC_DATA_KEEP, "");
    kept[1] = entry(3, PLIANT_GRPC_DATA_KEEP, "");
    must(pliant_grpc_call_data(&mmul, all, 4, kept, 2) == GRPC_NO_ERROR, "call_data");
    must(c[0] == 0, "the product came back");
    must(strchr(kept[0].id, '/') != NULL && strcmp(kept[0].id, kept[1].id) != 0, "IDs are wrong");

    used[0] = entry(1, PLIANT_GRPC_DATA_USE, kept[1].id);
    used[1] = entry(2, PLIANT_GRPC_DATA_USE, kept[0].id);
    used[2] = entry(3, PLIANT_GRPC_DATA_KEEP_AND_RETURN, "");
    must(pliant_grpc_call_data_async(&mmul, &session, outputs, 4, used, 3) == GRPC_NO_ERROR, "call_data_async");
    must(strchr(used[2].id, '/') != NULL, "the ID is not there before the session is over");
    must(grpc_wait(session) == GRPC_NO_ERROR && is_equal(c, ABA), "the product at the server is wrong");
    must(strncmp(used[2].id, kept[0].id, strcspn(kept[0].id, "/") + 1) == 0, "the call went to another server");

    /* One more stays, and then no other. */
    kept[1] = entry(2, PLIANT_GRPC_DATA_KEEP, "");
    used[1] = entry(2, PLIANT_GRPC_DATA_KEEP, "");
    must(pliant_grpc_call_data(&mmul, all, 4, used, 2) == GRPC_NO_ERROR, "the fourth value");
    must(pliant_grpc_call_data(&mmul, all, 4, used, 2) == GRPC_RPC_REFUSED, "the fifth value");

    must(pliant_grpc_data_delete(kept[0].id) == GRPC_NO_ERROR, "data_delete");
    used[0] = entry(1, PLIANT_GRPC_DATA_USE, kept[0].id);
    must(pliant_grpc_call_data(&mmul, all, 4, used, 1) == PLIANT_GRPC_NO_DATA, "data that are deleted");
    must(strcmp(grpc_error_string(PLIANT_GRPC_NO_DATA), "PLIANT_GRPC_NO_DATA") == 0, "error_string");
    must(pliant_grpc_call_data(&mmul, all, 4, NULL, 0) == GRPC_NO_ERROR && is_equal(c, AB), "without data");
    must(grpc_function_handle_destruct(&mmul) == GRPC_NO_ERROR, "destruct");
}

static diet_profile_t *product(double *a, diet_persistence_mode_t of_a, double *b, diet_persistence_mode_t of_c)
{
    static int n = 2;
    diet_profile_t *profile = diet_profile_alloc("mmul", 2, 2, 3);
    must(profile != NULL, "profile_alloc");
    must(diet_scalar_set(diet_parameter(profile, 0), &n, DIET_VOLATILE, DIET_INT) == 0, "scalar_set");
    must(a == NULL || diet_matrix_set(diet_parameter(profile, 1), a, of_a, DIET_DOUBLE, 2, 2, DIET_ROW_MAJOR) == 0, "matrix_set");
    must(b == NULL || diet_matrix_set(diet_parameter(profile, 2), b, DIET_VOLATILE, DIET_DOUBLE, 2, 2, DIET_ROW_MAJOR) == 0, "matrix_set");
    must(diet_matrix_set(diet_parameter(profile, 3), NULL, of_c, DIET_DOUBLE, 2, 2, DIET_ROW_MAJOR) == 0, "matrix_set");
    return profile;
}

static void of_diet(void)
{
    double a[4], b[4], *c = b;
    diet_persistence_mode_t mode = DIET_VOLATILE;
    diet_profile_t *first, *second;
    char id[PLIANT_GRPC_DATA_ID_SIZE];
    memcpy(a, A, sizeof a);
    memcpy(b, B, sizeof b);
    first = product(a, DIET_PERSISTENT, b, DIET_STICKY);
    must(pliant_diet_data_id(diet_parameter(first, 3)) == NULL, "an ID before the call");
    must(diet_call(first) == GRPC_NO_ERROR, "call");
    must(diet_matrix_get(diet_parameter(first, 3), &c, &mode, NULL, NULL, NULL) == 0 && c == NULL && mode == DIET_STICKY, "matrix_get");
    must(pliant_diet_data_id(diet_parameter(first, 2)) == NULL, "volatile data have an ID");

    second = product(NULL, DIET_VOLATILE, NULL, DIET_PERSISTENT_RETURN);
    must(diet_use_data(diet_parameter(second, 1), pliant_diet_data_id(diet_parameter(first, 3))) == 0
             && diet_use_data(diet_parameter(second, 2), pliant_diet_data_id(diet_parameter(first, 1))) == 0,
         "use_data");
    must(diet_call(second) == GRPC_NO_ERROR, "call with data");
    must(diet_matrix_get(diet_parameter(second, 3), &c, NULL, NULL, NULL, NULL) == 0 && is_equal(c, ABA), "the product is wrong");
    must(pliant_diet_data_id(diet_parameter(second, 3)) != NULL, "no ID of the product");
    must(diet_free_data(diet_parameter(second, 3)) == 0, "free_data");

    strcpy(id, pliant_diet_data_id(diet_parameter(first, 1)));
    must(diet_free_persistent_data(id) == 1, "free_persistent_data");
    must(diet_free_persistent_data(pliant_diet_data_id(diet_parameter(first, 3))) == 1, "free_persistent_data");
    must(diet_free_persistent_data(pliant_diet_data_id(diet_parameter(second, 3))) == 1, "free_persistent_data");
    must(diet_call(second) == PLIANT_GRPC_NO_DATA, "data that were freed");
    must(diet_profile_free(first) == 0 && diet_profile_free(second) == 0, "profile_free");
}

int main(int count, char **arguments)
{
    must(count == 2 && diet_initialize(arguments[1], count, arguments) == GRPC_NO_ERROR, "initialize");
    of_diet();
    of_grpc();
    must(diet_finalize() == GRPC_NO_ERROR, "finalize");
    printf("right\n");
    return 0;
}
