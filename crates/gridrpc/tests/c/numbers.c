/*
 * Numbers and matrices of every type, through a federation.
 *
 *     numbers CLIENT_FILE
 *
 * The federation offers `transpose` of transpose.c. The exit code is 0 if all outputs are right.
 */
#include <stdio.h>
#include <string.h>
#include "grpc.h"

static int must(int is_right, const char *what)
{
    char text[600] = "";
    if (!is_right) {
        pliant_grpc_last_error_text(text, sizeof text);
        fprintf(stderr, "%s (last error: %s)\n", what, text);
    }
    return is_right;
}

int main(int count, char **arguments)
{
    grpc_function_handle_t handle;
    char letter = 'a', next = 0, letters[4] = { 'w', 'x', 'y', '!' };
    float f = 1.25f, twice = 0, a[2][3] = { { 1, 2, 3 }, { 4, 5, 6.5f } }, b[3][2];
    double matrix[2][3] = { { 1e300, -2, 3 }, { 4, 5, 0.1 } }, transposed[3][2];
    long large = 1L << 40, larger = 0;
    int row, column, n = 3, is_right;
    memset(b, 0, sizeof b);
    memset(transposed, 0, sizeof transposed);
    is_right = must(count == 2 && grpc_initialize(arguments[1]) == GRPC_NO_ERROR, "initialize")
        && must(grpc_function_handle_default(&handle, "transpose") == GRPC_NO_ERROR, "transpose")
        && must(grpc_call(&handle, n, letter, f, large, a, matrix, letters, &next, &twice, &larger, b, transposed) == GRPC_NO_ERROR, "call")
        && must(next == 'b' && twice == 2.5f && larger == (1L << 40) + 1, "a number is wrong")
        && must(memcmp(letters, "xyz!", 4) == 0, "the letters are wrong");
    for (row = 0; row < 2; row++) {
        for (column = 0; column < 3; column++) {
            is_right = is_right && must(b[column][row] == a[row][column], "the matrix of float is wrong")
                && must(transposed[column][row] == matrix[row][column], "the matrix of double is wrong");
        }
    }
    is_right = must(grpc_finalize() == GRPC_NO_ERROR, "finalize") && is_right;
    printf("%s\n", is_right ? "right" : "wrong");
    return !is_right;
}
