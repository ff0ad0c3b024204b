/*
 * How long calls of a resident service take, and how many there are in a second: a measurement, which fails for wrong results only.
 *
 *     latency CLIENT_FILE SERVER SERIAL TOTAL THREADS
 *
 * The federation offers `mmul` of examples/gridrpc. SERIAL calls one after the other, at the best server and at SERVER; then TOTAL calls of
 * so many threads at SERVER, and TOTAL calls that are under way at the same time.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "grpc.h"

#define THREADS_MAX 256

static double a[4] = { 1, 2, 3, 4 }, unit[4] = { 1, 0, 0, 1 };
static grpc_function_handle_t mmul;
static int calls_per_thread;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int by_size(const void *one, const void *other)
{
    double x = *(const double *)one, y = *(const double *)other;
    return (x > y) - (x < y);
}

static void must(int is_right, const char *what)
{
    char text[600] = "";
    if (!is_right) {
        pliant_grpc_last_error_text(text, sizeof text);
        fprintf(stderr, "%s (last error: %s)\n", what, text);
        exit(1);
    }
}

static void call(void)
{
    double product[4] = { 0, 0, 0, 0 };
    must(grpc_call(&mmul, 2, a, unit, product) == GRPC_NO_ERROR, "call");
    must(memcmp(a, product, sizeof a) == 0, "the product is wrong");
}

static void serial(const char *where, int calls)
{
    double *took_ms = malloc((size_t)calls * sizeof *took_ms), begun;
    int number;
    must(took_ms != NULL, "no memory");
    /* The process is started, and connections are made. */
    for (number = 0; number < 20; number++) {
        call();
    }
    for (number = 0; number < calls; number++) {
        begun = now_s();
        call();
        took_ms[number] = (now_s() - begun) * 1e3;
    }
    qsort(took_ms, (size_t)calls, sizeof *took_ms, by_size);
    printf("%s: p50 %.2f ms, p95 %.2f ms, p99 %.2f ms\n", where, took_ms[calls / 2], took_ms[calls * 95 / 100], took_ms[calls * 99 / 100]);
    free(took_ms);
}

static void *of_thread(void *nothing)
{
    int number;
    for (number = 0; number < calls_per_thread; number++) {
        call();
    }
    return nothing;
}

static void threads(int total, int count)
{
    pthread_t started[THREADS_MAX];
    double begun = now_s();
    int number;
    calls_per_thread = total / count;
    for (number = 0; number < count; number++) {
        must(pthread_create(&started[number], NULL, of_thread, NULL) == 0, "no thread");
    }
    for (number = 0; number < count; number++) {
        must(pthread_join(started[number], NULL) == 0, "join");
    }
    printf("%d threads: %.0f calls/s\n", count, calls_per_thread * count / (now_s() - begun));
}

static void asynchronous(int total)
{
    double (*products)[4] = calloc((size_t)total, sizeof *products), begun = now_s();
    grpc_sessionid_t session;
    int number;
    must(products != NULL, "no memory");
    for (number = 0; number < total; number++) {
        must(grpc_call_async(&mmul, &session, 2, a, unit, products[number]) == GRPC_NO_ERROR, "call_async");
    }
    must(grpc_wait_all() == GRPC_NO_ERROR, "wait_all");
    printf("asynchronous: %.0f calls/s\n", total / (now_s() - begun));
    for (number = 0; number < total; number++) {
        must(memcmp(a, products[number], sizeof a) == 0, "a product is wrong");
    }
    free(products);
}

int main(int count, char **arguments)
{
    int calls, total, threads_count;
    must(count == 6, "expected CLIENT_FILE SERVER SERIAL TOTAL THREADS");
    calls = atoi(arguments[3]);
    total = atoi(arguments[4]);
    threads_count = atoi(arguments[5]);
    must(calls > 0 && total > 0 && threads_count > 0 && threads_count <= THREADS_MAX, "numbers above 0, at most 256 threads");
    must(grpc_initialize(arguments[1]) == GRPC_NO_ERROR, "initialize");
    must(grpc_function_handle_default(&mmul, "mmul") == GRPC_NO_ERROR, "mmul");
    serial("at the best server", calls);
    must(grpc_function_handle_init(&mmul, arguments[2], "mmul") == GRPC_NO_ERROR, "mmul");
    serial("at one server", calls);
    threads(total, threads_count);
    asynchronous(total);
    must(grpc_finalize() == GRPC_NO_ERROR, "finalize");
    return 0;
}
