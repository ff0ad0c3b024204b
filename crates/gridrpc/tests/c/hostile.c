/*
 * Hostile use: each of it gives a code, and the program goes on.
 *
 *     hostile CLIENT_FILE BROKEN_FILE
 *
 * The federation offers SUCC and LOOP. The exit code is 0 if every code is the expected one.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "grpc.h"

static int wrong;

static void expect(const char *what, grpc_error_t expected, grpc_error_t found)
{
    char text[400] = "";
    if (found != expected) {
        pliant_grpc_last_error_text(text, sizeof text);
        printf("FAILED %s: expected %s, found %s: %s\n", what, grpc_error_string(expected), grpc_error_string(found), text);
        wrong++;
    }
}

static grpc_function_handle_t loop;
static const char *config;

/* A call that waits until another thread finalizes the library. */
static void *call(void *argument)
{
    (void)argument;
    return (void *)(size_t)grpc_call(&loop, 1);
}

static void *wait_all(void *argument)
{
    (void)argument;
    return (void *)(size_t)grpc_wait_all();
}

/* Initializes and finalizes all the time, while others call. */
static void *restart(void *argument)
{
    int round;
    (void)argument;
    for (round = 0; round < 20; round++) {
        grpc_initialize(config);
        usleep(20000);
        grpc_finalize();
    }
    return NULL;
}

static void *call_meanwhile(void *argument)
{
    grpc_function_handle_t handle;
    grpc_sessionid_t session, ended;
    int result, round;
    (void)argument;
    for (round = 0; round < 60; round++) {
        grpc_function_handle_default(&handle, "SUCC");
        grpc_call_async(&handle, &session, round, &result);
        grpc_probe_or(&session, 1, &ended);
        grpc_call(&handle, round, &result);
        grpc_wait(session);
        grpc_function_handle_destruct(&handle);
    }
    return NULL;
}

static void finalize_during_calls(void)
{
    pthread_t threads[4];
    grpc_sessionid_t session;
    void *code;
    int number;
    expect("LOOP", GRPC_NO_ERROR, grpc_function_handle_default(&loop, "LOOP"));
    expect("LOOP async", GRPC_NO_ERROR, grpc_call_async(&loop, &session, 1));
    for (number = 0; number < 4; number++) {
        pthread_create(&threads[number], NULL, number < 2 ? call : wait_all, NULL);
    }
    usleep(500000);
    expect("finalize during calls", GRPC_NO_ERROR, grpc_finalize());
    for (number = 0; number < 4; number++) {
        pthread_join(threads[number], &code);
        expect("a call that was under way", GRPC_NOT_INITIALIZED, (grpc_error_t)(size_t)code);
    }
    expect("a session of before", GRPC_NOT_INITIALIZED, grpc_wait(session));
    expect("a second finalize", GRPC_NOT_INITIALIZED, grpc_finalize());
    expect("initialize again", GRPC_NO_ERROR, grpc_initialize(config));
    expect("a session of before", GRPC_INVALID_SESSION_ID, grpc_wait(session));
    expect("a handle of before", GRPC_INVALID_FUNCTION_HANDLE, grpc_call(&loop, 1));
    expect("finalize", GRPC_NO_ERROR, grpc_finalize());
}

static void files(const char *broken)
{
    expect("a missing file", GRPC_CONFIGFILE_NOT_FOUND, grpc_initialize("/nonexistent/client.toml"));
    expect("an empty name", GRPC_CONFIGFILE_NOT_FOUND, grpc_initialize(""));
    expect("a broken file", GRPC_CONFIGFILE_ERROR, grpc_initialize(broken));
    expect("nothing is initialized", GRPC_NOT_INITIALIZED, grpc_finalize());
}

static void pointers(void)
{
    grpc_function_handle_t handle, *freed, *found;
    grpc_sessionid_t session = 1, sessions[3] = { -1, 0, 2147483647 };
    int result = 7;
    double vector[4];
    void *arguments[2];
    memset(&handle, 0xff, sizeof handle);
    expect("a null handle", GRPC_INVALID_FUNCTION_HANDLE, grpc_function_handle_default(NULL, "SUCC"));
    expect("a null name", GRPC_FUNCTION_NOT_FOUND, grpc_function_handle_default(&handle, NULL));
    expect("an empty name", GRPC_FUNCTION_NOT_FOUND, grpc_function_handle_default(&handle, ""));
    expect("an unknown function", GRPC_FUNCTION_NOT_FOUND, grpc_function_handle_default(&handle, "no-such-function"));
    expect("an unknown server", GRPC_SERVER_NOT_FOUND, grpc_function_handle_init(&handle, "no-such-server", "SUCC"));
    expect("a wrong server", GRPC_SERVER_NOT_FOUND, grpc_function_handle_init(&handle, "not a name!", "SUCC"));
    expect("a handle that is not initialized", GRPC_INVALID_FUNCTION_HANDLE, grpc_call(&handle, 1, &result));
    expect("a null handle", GRPC_INVALID_FUNCTION_HANDLE, grpc_call(NULL, 1, &result));
    expect("a null handle", GRPC_INVALID_FUNCTION_HANDLE, grpc_call_async(NULL, &session, 1, &result));
    expect("a null handle", GRPC_INVALID_FUNCTION_HANDLE, grpc_function_handle_destruct(NULL));
    expect("an address that is none", GRPC_INVALID_FUNCTION_HANDLE, grpc_function_handle_destruct((grpc_function_handle_t *)3));

    freed = malloc(sizeof *freed);
    expect("SUCC", GRPC_NO_ERROR, grpc_function_handle_default(freed, "SUCC"));
    expect("a call", GRPC_NO_ERROR, grpc_call(freed, 1, &result));
    expect("destruct", GRPC_NO_ERROR, grpc_function_handle_destruct(freed));
    expect("destruct again", GRPC_INVALID_FUNCTION_HANDLE, grpc_function_handle_destruct(freed));
    found = freed;
    free(freed);
    expect("a freed handle", GRPC_INVALID_FUNCTION_HANDLE, grpc_call(found, 1, &result));

    expect("SUCC", GRPC_NO_ERROR, grpc_function_handle_default(&handle, "SUCC"));
    expect("a null output", GRPC_OTHER_ERROR_CODE, grpc_call(&handle, 1, NULL));
    expect("a null session", GRPC_OTHER_ERROR_CODE, grpc_call_async(&handle, NULL, 1, &result));
    arguments[0] = &result;
    arguments[1] = vector;
    expect("too few arguments", GRPC_OTHER_ERROR_CODE, pliant_grpc_call_array(&handle, arguments, 1));
    expect("too many arguments", GRPC_OTHER_ERROR_CODE, pliant_grpc_call_array(&handle, arguments, (size_t)-1));
    expect("no arguments", GRPC_OTHER_ERROR_CODE, pliant_grpc_call_array(&handle, NULL, 2));
    expect("sessions that are none", GRPC_INVALID_SESSION_ID, grpc_wait_and(sessions, 3));
    expect("sessions that are none", GRPC_INVALID_SESSION_ID, grpc_wait_or(sessions, 3, &session));
    expect("sessions that are none", GRPC_INVALID_SESSION_ID, grpc_probe_or(sessions, 3, &session));
    expect("a wrong count", GRPC_INVALID_SESSION_ID, grpc_wait_and(sessions, (size_t)-1));
    expect("no sessions", GRPC_INVALID_SESSION_ID, grpc_wait_or(NULL, 0, &session));
    expect("a null result", GRPC_OTHER_ERROR_CODE, grpc_wait_any(NULL));
    expect("a null result", GRPC_OTHER_ERROR_CODE, grpc_get_failed_sessionid(NULL));
    expect("a null result", GRPC_INVALID_SESSION_ID, grpc_get_handle(NULL, 5));
    expect("a void session", GRPC_INVALID_SESSION_ID, grpc_cancel(GRPC_SESSIONID_VOID));
    expect("a void session", GRPC_INVALID_SESSION_ID, grpc_get_error(GRPC_SESSIONID_VOID));
    pliant_grpc_last_error_text(NULL, 100);
    pliant_grpc_error_text(12345, NULL, 0);
}

int main(int count, char **arguments)
{
    pthread_t threads[5];
    int number;
    if (count != 3) {
        fprintf(stderr, "usage: hostile CLIENT_FILE BROKEN_FILE\n");
        return 2;
    }
    config = arguments[1];
    files(arguments[2]);
    expect("initialize", GRPC_NO_ERROR, grpc_initialize(config));
    pointers();
    finalize_during_calls();
    for (number = 0; number < 5; number++) {
        pthread_create(&threads[number], NULL, number < 2 ? restart : call_meanwhile, NULL);
    }
    for (number = 0; number < 5; number++) {
        pthread_join(threads[number], NULL);
    }
    /* Whichever thread was last. */
    grpc_finalize();
    printf("%d wrong\n", wrong);
    return wrong > 0;
}
