/*
 * Many asynchronous calls from many threads.
 *
 *     stress CLIENT_FILE THREADS CALLS
 *
 * Each thread starts its share of the calls of SUCC (in int, out int: the successor), at most 200 at a time, and waits for them in
 * one of four ways. Half of the threads share one handle, the others have one each. Every output is checked. The exit code is 0 if all are right.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "grpc.h"

#define AT_ONCE 200

static int calls_each;
static grpc_function_handle_t shared;

struct work {
    int number;
    int wrong;
};

static void complain(struct work *work, const char *what, grpc_error_t error)
{
    char text[400] = "";
    pliant_grpc_last_error_text(text, sizeof text);
    fprintf(stderr, "thread %d: %s: %s: %s\n", work->number, what, grpc_error_string(error), text);
    work->wrong++;
}

static grpc_error_t wait_for(grpc_sessionid_t *sessions, int count, int how)
{
    grpc_error_t error = GRPC_NO_ERROR;
    grpc_sessionid_t ended;
    int number, left = count;
    switch (how) {
    case 0:
        return grpc_wait_and(sessions, (size_t)count);
    case 1:
        for (number = 0; number < count && error == GRPC_NO_ERROR; number++) {
            error = grpc_wait(sessions[number]);
        }
        return error;
    case 2:
        while (left > 0 && error == GRPC_NO_ERROR) {
            error = grpc_wait_or(sessions, (size_t)left, &ended);
            for (number = 0; number < left; number++) {
                if (sessions[number] == ended) {
                    sessions[number] = sessions[--left];
                    break;
                }
            }
        }
        return error;
    default:
        for (number = count - 1; number >= 0; number--) {
            while ((error = grpc_probe(sessions[number])) == GRPC_NOT_COMPLETED) {
                if ((error = grpc_wait(sessions[number])) != GRPC_NO_ERROR) {
                    return error;
                }
            }
            if (error != GRPC_NO_ERROR) {
                return error;
            }
        }
        return error;
    }
}

static void *run(void *argument)
{
    struct work *work = argument;
    grpc_function_handle_t own, *handle = work->number % 2 == 0 ? &shared : &own;
    grpc_sessionid_t sessions[AT_ONCE];
    int results[AT_ONCE];
    int done, number, count, round = 0;
    grpc_error_t error = handle == &own ? grpc_function_handle_default(&own, "SUCC") : GRPC_NO_ERROR;
    if (error != GRPC_NO_ERROR) {
        complain(work, "handle", error);
        return NULL;
    }
    for (done = 0; done < calls_each && work->wrong == 0; done += count, round++) {
        count = calls_each - done < AT_ONCE ? calls_each - done : AT_ONCE;
        for (number = 0; number < count; number++) {
            results[number] = 0;
            error = grpc_call_async(handle, &sessions[number], done + number, &results[number]);
            if (error != GRPC_NO_ERROR) {
                complain(work, "call_async", error);
                return NULL;
            }
        }
        error = wait_for(sessions, count, (work->number + round) % 4);
        if (error != GRPC_NO_ERROR) {
            complain(work, "wait", error);
        }
        for (number = 0; number < count; number++) {
            if (results[number] != done + number + 1) {
                fprintf(stderr, "thread %d: expected %d, found %d\n", work->number, done + number + 1, results[number]);
                work->wrong++;
            }
        }
    }
    if (handle == &own) {
        grpc_function_handle_destruct(&own);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[64];
    struct work works[64];
    int number, thread_count, wrong = 0;
    grpc_error_t error;
    if (count != 4 || (thread_count = atoi(arguments[2])) < 1 || thread_count > 64) {
        fprintf(stderr, "usage: stress CLIENT_FILE THREADS CALLS\n");
        return 2;
    }
    calls_each = atoi(arguments[3]) / thread_count;
    error = grpc_initialize(arguments[1]);
    if (error == GRPC_NO_ERROR) {
        error = grpc_function_handle_default(&shared, "SUCC");
    }
    if (error != GRPC_NO_ERROR) {
        fprintf(stderr, "%s\n", grpc_error_string(error));
        return 1;
    }
    for (number = 0; number < thread_count; number++) {
        works[number].number = number;
        works[number].wrong = 0;
        pthread_create(&threads[number], NULL, run, &works[number]);
    }
    for (number = 0; number < thread_count; number++) {
        pthread_join(threads[number], NULL);
        wrong += works[number].wrong;
    }
    error = grpc_finalize();
    printf("%d calls, %d wrong, finalized with %s\n", calls_each * thread_count, wrong, grpc_error_string(error));
    return wrong > 0 || error != GRPC_NO_ERROR;
}
