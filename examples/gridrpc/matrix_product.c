/*
 * A matrix product in blocks: one call of `mmul` for each pair of blocks, all of them under way at once.
 *
 *     cc -o matrix_product matrix_product.c $(pkg-config --cflags --libs pliant-gridrpc)
 *     ./matrix_product [CLIENT_FILE]
 */
#include <stdio.h>
#include <stdlib.h>
#include "grpc.h"

#define BLOCKS 3 /* in each direction */
#define N 4      /* rows and columns of a block */

static double a[BLOCKS][BLOCKS][N][N], b[BLOCKS][BLOCKS][N][N];
/* products[i][j][k] is a[i][k] times b[k][j]. */
static double products[BLOCKS][BLOCKS][BLOCKS][N][N];

static void check(grpc_error_t error, const char *what)
{
    char text[500];
    if (error != GRPC_NO_ERROR) {
        pliant_grpc_last_error_text(text, sizeof text);
        fprintf(stderr, "%s: %s: %s\n", what, grpc_error_string(error), text);
        exit(1);
    }
}

/* An element of the whole matrix. */
static double element(double blocks[BLOCKS][BLOCKS][N][N], int row, int column)
{
    return blocks[row / N][column / N][row % N][column % N];
}

int main(int count, char **arguments)
{
    grpc_function_handle_t mmul;
    grpc_sessionid_t sessions[BLOCKS * BLOCKS * BLOCKS];
    int i, j, k, row, column, number = 0;
    double worst = 0;
    for (row = 0; row < BLOCKS * N; row++) {
        for (column = 0; column < BLOCKS * N; column++) {
            a[row / N][column / N][row % N][column % N] = row + 2 * column;
            b[row / N][column / N][row % N][column % N] = row - column;
        }
    }
    check(grpc_initialize(count > 1 ? arguments[1] : NULL), "initialize");
    check(grpc_function_handle_default(&mmul, "mmul"), "mmul");
    for (i = 0; i < BLOCKS; i++)
        for (j = 0; j < BLOCKS; j++)
            for (k = 0; k < BLOCKS; k++)
                check(grpc_call_async(&mmul, &sessions[number++], N, a[i][k], b[k][j], products[i][j][k]), "call");
    check(grpc_wait_and(sessions, (size_t)number), "wait");
    /* The sum over k is the product. It is compared with the one that is calculated here. */
    for (row = 0; row < BLOCKS * N; row++) {
        for (column = 0; column < BLOCKS * N; column++) {
            double sum = 0;
            for (k = 0; k < BLOCKS; k++)
                sum += products[row / N][column / N][k][row % N][column % N];
            for (k = 0; k < BLOCKS * N; k++)
                sum -= element(a, row, k) * element(b, k, column);
            worst = sum > worst ? sum : -sum > worst ? -sum : worst;
        }
    }
    check(grpc_finalize(), "finalize");
    printf("%d calls, largest error %g\n", number, worst);
    return worst != 0;
}
