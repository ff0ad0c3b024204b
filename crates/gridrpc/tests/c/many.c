/*
 * Many sessions that run for long: the end of another one is noticed, and they are cancelled.
 *
 *     many CLIENT_FILE BUSY_SERVER FREE_SERVER SESSIONS
 *
 * Both servers offer SUCC and LOOP. The exit code is 0 if every code is the expected one.
 */
#include <stdio.h>
#include <stdlib.h>
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

int main(int count, char **arguments)
{
    grpc_function_handle_t succ, loop;
    grpc_sessionid_t *sessions, quick, ended;
    int result = 0, number, session_count;
    if (count != 5 || (session_count = atoi(arguments[4])) < 2) {
        fprintf(stderr, "usage: many CLIENT_FILE BUSY_SERVER FREE_SERVER SESSIONS\n");
        return 2;
    }
    sessions = calloc((size_t)session_count, sizeof *sessions);
    expect("initialize", GRPC_NO_ERROR, grpc_initialize(arguments[1]));
    expect("LOOP", GRPC_NO_ERROR, grpc_function_handle_init(&loop, arguments[2], "LOOP"));
    expect("SUCC", GRPC_NO_ERROR, grpc_function_handle_init(&succ, arguments[3], "SUCC"));
    for (number = 0; number < session_count && wrong == 0; number++) {
        expect("a call of LOOP", GRPC_NO_ERROR, grpc_call_async(&loop, &sessions[number], 1));
    }
    expect("a call of SUCC", GRPC_NO_ERROR, grpc_call_async(&succ, &quick, 1, &result));
    expect("the end of it", GRPC_NO_ERROR, grpc_wait_any(&ended));
    if (ended != quick || result != 2) {
        printf("FAILED the end of SUCC: session %d, result %d\n", ended, result);
        wrong++;
    }
    expect("no other end", GRPC_NONE_COMPLETED, grpc_probe_or(sessions, (size_t)session_count, &ended));
    expect("cancel the last one", GRPC_NO_ERROR, grpc_cancel(sessions[session_count - 1]));
    expect("it has ended", GRPC_SESSION_FAILED, grpc_probe(sessions[session_count - 1]));
    expect("cancel all", GRPC_NO_ERROR, grpc_cancel_all());
    for (number = 0; number < session_count; number++) {
        expect("a cancelled session", GRPC_SESSION_FAILED, grpc_probe(sessions[number]));
    }
    expect("none has failed", GRPC_NO_ERROR, grpc_get_failed_sessionid(&ended));
    if (ended != GRPC_SESSIONID_VOID) {
        printf("FAILED: session %d is said to have failed\n", ended);
        wrong++;
    }
    expect("finalize", GRPC_NO_ERROR, grpc_finalize());
    free(sessions);
    printf("%d sessions, %d wrong\n", session_count, wrong);
    return wrong > 0;
}
