/*
 * The 50 cases of the interoperability test of GridRPC (OGF GFD.102), against a federation.
 *
 *     cases CLIENT_FILE SERVER [disturb]
 *
 * The server offers SUCC (in int, out int: the successor), SLEEP (in int: seconds), LOOP (in int: runs for long) and EXIT
 * (in int: fails). With `disturb`, the program prints "disturb" where sessions are under way, and goes on once it has read a line:
 * meanwhile, a test kills the server and starts it again.
 *
 * One line for each case, then how many passed. The exit code is 0 if all did.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "grpc.h"

#define SESSIONS 4

static int is_disturbed;
static int passed;
static int failed;
static const char *server;

static void check(const char *group, int number, int is_right, const char *what)
{
    char text[600] = "";
    if (is_right) {
        passed++;
        printf("ok %s %d\n", group, number);
    } else {
        failed++;
        pliant_grpc_last_error_text(text, sizeof text);
        printf("FAILED %s %d: %s (last error: %s)\n", group, number, what, text);
    }
    fflush(stdout);
}

/* The case passes if the code is the expected one. */
static void expect(const char *group, int number, grpc_error_t expected, grpc_error_t found)
{
    char what[160];
    snprintf(what, sizeof what, "expected %s, found %s", grpc_error_string(expected), grpc_error_string(found));
    check(group, number, found == expected, what);
}

/* The case passes if the code is the expected one and something else holds, too. */
static void expect_and(const char *group, int number, grpc_error_t expected, grpc_error_t found, int holds, const char *what)
{
    if (found != expected) {
        expect(group, number, expected, found);
    } else {
        check(group, number, holds, what);
    }
}

/* A step on the way to a case: without it the program cannot go on. */
static void must(grpc_error_t found, const char *what)
{
    char text[600] = "";
    if (found != GRPC_NO_ERROR) {
        pliant_grpc_last_error_text(text, sizeof text);
        printf("FAILED on the way, %s: %s: %s\n", what, grpc_error_string(found), text);
        _exit(1);
    }
}

static void disturb(void)
{
    char line[16];
    if (is_disturbed) {
        printf("disturb\n");
        fflush(stdout);
        if (fgets(line, sizeof line, stdin) == NULL) {
            _exit(1);
        }
    }
}

/* An ID that no session has. */
#define INVALID 2000000000

static void before_initialize(grpc_function_handle_t *handle, char *config)
{
    grpc_function_handle_t *found;
    grpc_sessionid_t session = 1, ended;
    int result;
    (void)config;
    expect("finalize", 2, GRPC_NOT_INITIALIZED, grpc_finalize());
    expect("handle", 2, GRPC_NOT_INITIALIZED, grpc_function_handle_default(handle, "SUCC"));
    expect("handle", 4, GRPC_NOT_INITIALIZED, grpc_function_handle_init(handle, server, "SUCC"));
    expect("handle", 6, GRPC_NOT_INITIALIZED, grpc_function_handle_destruct(handle));
    expect("handle", 9, GRPC_NOT_INITIALIZED, grpc_get_handle(&found, session));
    expect("call", 2, GRPC_NOT_INITIALIZED, grpc_call(handle, 1, &result));
    expect("call", 4, GRPC_NOT_INITIALIZED, grpc_call_async(handle, &session, 1, &result));
    expect("wait", 3, GRPC_NOT_INITIALIZED, grpc_wait(session));
    expect("wait", 6, GRPC_NOT_INITIALIZED, grpc_wait_and(&session, 1));
    expect("wait", 9, GRPC_NOT_INITIALIZED, grpc_wait_or(&session, 1, &ended));
    expect("wait", 11, GRPC_NOT_INITIALIZED, grpc_wait_all());
    expect("wait", 13, GRPC_NOT_INITIALIZED, grpc_wait_any(&ended));
    expect("probe", 4, GRPC_NOT_INITIALIZED, grpc_probe(session));
    expect("probe", 8, GRPC_NOT_INITIALIZED, grpc_probe_or(&session, 1, &ended));
    expect("cancel", 3, GRPC_NOT_INITIALIZED, grpc_cancel(session));
    expect("cancel", 5, GRPC_NOT_INITIALIZED, grpc_cancel_all());
}

static void handles(void)
{
    grpc_function_handle_t handle, other, *found = NULL;
    grpc_sessionid_t session;
    int result = 0, again = 0;
    grpc_error_t error;
    expect("handle", 1, GRPC_NO_ERROR, grpc_function_handle_default(&handle, "SUCC"));
    expect("handle", 3, GRPC_NO_ERROR, grpc_function_handle_init(&other, server, "SUCC"));
    must(grpc_call_async(&other, &session, 6, &result), "SUCC");
    error = grpc_get_handle(&found, session);
    must(grpc_wait(session), "wait");
    expect_and("handle", 7, GRPC_NO_ERROR, error,
               found == &other && grpc_call(found, result, &again) == GRPC_NO_ERROR && again == 8, "the handle cannot be called");
    expect("handle", 8, GRPC_INVALID_SESSION_ID, grpc_get_handle(&found, INVALID));
    must(grpc_function_handle_destruct(&other), "destruct");
    expect("handle", 5, GRPC_NO_ERROR, grpc_function_handle_destruct(&handle));
}

static void calls(grpc_function_handle_t *succ)
{
    grpc_sessionid_t session = GRPC_SESSIONID_VOID;
    int result = 0;
    grpc_error_t error = grpc_call(succ, 41, &result);
    expect_and("call", 1, GRPC_NO_ERROR, error, result == 42, "the output is wrong");
    error = grpc_call_async(succ, &session, 99, &result);
    disturb();
    must(grpc_wait(session), "wait");
    expect_and("call", 3, GRPC_NO_ERROR, error, session != GRPC_SESSIONID_VOID && result == 100, "the session is void, or its output is wrong");
}

static void start(grpc_function_handle_t *handle, grpc_sessionid_t *sessions, int count, int seconds)
{
    int number;
    for (number = 0; number < count; number++) {
        must(grpc_call_async(handle, &sessions[number], seconds), "a call");
    }
}

/* True if each of these sessions has this code. */
static int all_have(grpc_error_t code, const grpc_sessionid_t *sessions, int count)
{
    int number, have = 1;
    for (number = 0; number < count; number++) {
        have &= grpc_probe(sessions[number]) == code;
    }
    return have;
}

static void waits(grpc_function_handle_t *sleep_handle)
{
    grpc_sessionid_t sessions[SESSIONS], session, ended = GRPC_SESSIONID_VOID;
    grpc_error_t error;
    start(sleep_handle, &session, 1, 1);
    disturb();
    error = grpc_wait(session);
    expect_and("wait", 1, GRPC_NO_ERROR, error, all_have(GRPC_NO_ERROR, &session, 1), "the session has not completed");
    expect("wait", 2, GRPC_INVALID_SESSION_ID, grpc_wait(INVALID));

    start(sleep_handle, sessions, SESSIONS, 1);
    disturb();
    error = grpc_wait_and(sessions, SESSIONS);
    expect_and("wait", 4, GRPC_NO_ERROR, error, all_have(GRPC_NO_ERROR, sessions, SESSIONS), "a session has not completed");
    sessions[1] = INVALID;
    expect("wait", 5, GRPC_INVALID_SESSION_ID, grpc_wait_and(sessions, SESSIONS));

    start(sleep_handle, sessions, SESSIONS, 1);
    disturb();
    error = grpc_wait_or(sessions, SESSIONS, &ended);
    expect_and("wait", 7, GRPC_NO_ERROR, error, grpc_probe(ended) == GRPC_NO_ERROR, "the session has not completed");
    session = sessions[1];
    sessions[1] = INVALID;
    expect("wait", 8, GRPC_INVALID_SESSION_ID, grpc_wait_or(sessions, SESSIONS, &ended));
    sessions[1] = session;
    must(grpc_wait_and(sessions, SESSIONS), "the others");

    start(sleep_handle, sessions, SESSIONS, 1);
    disturb();
    error = grpc_wait_all();
    expect_and("wait", 10, GRPC_NO_ERROR, error, all_have(GRPC_NO_ERROR, sessions, SESSIONS), "a session has not completed");

    start(sleep_handle, sessions, SESSIONS, 1);
    disturb();
    error = grpc_wait_any(&ended);
    expect_and("wait", 12, GRPC_NO_ERROR, error, grpc_probe(ended) == GRPC_NO_ERROR, "the session has not completed");
    must(grpc_wait_all(), "the others");
}

static void probes(grpc_function_handle_t *succ, grpc_function_handle_t *loop)
{
    grpc_sessionid_t completed, running, sessions[2], ended = INVALID;
    int result;
    grpc_error_t error;
    must(grpc_call_async(succ, &completed, 1, &result), "SUCC");
    must(grpc_wait(completed), "wait");
    expect("probe", 1, GRPC_NO_ERROR, grpc_probe(completed));
    start(loop, &running, 1, 1);
    disturb();
    expect("probe", 2, GRPC_NOT_COMPLETED, grpc_probe(running));
    expect("probe", 3, GRPC_INVALID_SESSION_ID, grpc_probe(INVALID));
    sessions[0] = running;
    sessions[1] = completed;
    error = grpc_probe_or(sessions, 2, &ended);
    expect_and("probe", 5, GRPC_NO_ERROR, error, ended == completed, "it is another session");
    error = grpc_probe_or(&running, 1, &ended);
    expect_and("probe", 6, GRPC_NONE_COMPLETED, error, ended == GRPC_SESSIONID_VOID, "it is a session");
    sessions[1] = INVALID;
    expect("probe", 7, GRPC_INVALID_SESSION_ID, grpc_probe_or(sessions, 2, &ended));
    must(grpc_cancel(running), "cancel");
}

static void cancels(grpc_function_handle_t *loop)
{
    grpc_sessionid_t sessions[SESSIONS];
    grpc_error_t error;
    start(loop, sessions, 1, 1);
    disturb();
    error = grpc_cancel(sessions[0]);
    expect_and("cancel", 1, GRPC_NO_ERROR, error, all_have(GRPC_SESSION_FAILED, sessions, 1), "the session has not ended");
    expect("cancel", 2, GRPC_INVALID_SESSION_ID, grpc_cancel(INVALID));
    start(loop, sessions, SESSIONS, 1);
    disturb();
    error = grpc_cancel_all();
    expect_and("cancel", 4, GRPC_NO_ERROR, error, all_have(GRPC_SESSION_FAILED, sessions, SESSIONS), "a session is under way");
}

static void errors(grpc_function_handle_t *succ, grpc_function_handle_t *exit_handle)
{
    static const struct {
        grpc_error_t code;
        const char *name;
    } names[] = {
#define NAME(code) { code, #code }
        NAME(GRPC_NO_ERROR), NAME(GRPC_NOT_INITIALIZED), NAME(GRPC_CONFIGFILE_NOT_FOUND), NAME(GRPC_CONFIGFILE_ERROR),
        NAME(GRPC_SERVER_NOT_FOUND), NAME(GRPC_FUNCTION_NOT_FOUND), NAME(GRPC_INVALID_FUNCTION_HANDLE),
        NAME(GRPC_INVALID_SESSION_ID), NAME(GRPC_RPC_REFUSED), NAME(GRPC_COMMUNICATION_FAILED), NAME(GRPC_SESSION_FAILED),
        NAME(GRPC_NOT_COMPLETED), NAME(GRPC_NONE_COMPLETED), NAME(GRPC_OTHER_ERROR_CODE), NAME(GRPC_UNKNOWN_ERROR_CODE),
        NAME(GRPC_ALREADY_INITIALIZED), NAME(GRPC_LAST_ERROR_CODE),
    };
    size_t number;
    int result, are_right = 1, is_known;
    grpc_sessionid_t session, sessions[3], found;
    grpc_error_t error;
    for (number = 0; number < sizeof names / sizeof names[0]; number++) {
        are_right &= strcmp(grpc_error_string(names[number].code), names[number].name) == 0;
    }
    check("errors", 1, are_right, "a name is wrong");
    check("errors", 2, strcmp(grpc_error_string((grpc_error_t)1234), "GRPC_UNKNOWN_ERROR_CODE") == 0, "another name");
    must(grpc_call_async(succ, &session, 1, &result), "SUCC");
    must(grpc_wait(session), "wait");
    expect("errors", 3, GRPC_NO_ERROR, grpc_get_error(session));
    expect("errors", 4, GRPC_INVALID_SESSION_ID, grpc_get_error(INVALID));
    found = INVALID;
    error = grpc_get_failed_sessionid(&found);
    expect_and("errors", 5, GRPC_NO_ERROR, error, found == GRPC_SESSIONID_VOID, "a session");

    start(exit_handle, &session, 1, 3);
    disturb();
    if (grpc_wait(session) != GRPC_SESSION_FAILED || grpc_get_error(session) != GRPC_SESSION_FAILED) {
        printf("FAILED on the way: EXIT did not fail\n");
        failed++;
    }
    error = grpc_get_failed_sessionid(&found);
    expect_and("errors", 6, GRPC_NO_ERROR, error, found == session, "another session");

    start(exit_handle, sessions, 3, 3);
    if (grpc_wait_and(sessions, 3) != GRPC_SESSION_FAILED) {
        printf("FAILED on the way: wait_and of failed sessions\n");
        failed++;
    }
    is_known = 0;
    for (number = 0; number < 3; number++) {
        error = grpc_get_failed_sessionid(&found);
        is_known |= (found == sessions[0]) << 0 | (found == sessions[1]) << 1 | (found == sessions[2]) << 2;
    }
    error = grpc_get_failed_sessionid(&found);
    expect_and("errors", 7, GRPC_NO_ERROR, error, is_known == 7 && found == GRPC_SESSIONID_VOID, "not each of them once");
}

int main(int count, char **arguments)
{
    grpc_function_handle_t succ, sleep_handle, loop, exit_handle;
    if (count < 3) {
        fprintf(stderr, "usage: cases CLIENT_FILE SERVER [disturb]\n");
        return 2;
    }
    server = arguments[2];
    is_disturbed = count > 3 && strcmp(arguments[3], "disturb") == 0;

    before_initialize(&succ, arguments[1]);
    expect("initialize", 1, GRPC_NO_ERROR, grpc_initialize(arguments[1]));
    expect("initialize", 2, GRPC_ALREADY_INITIALIZED, grpc_initialize(arguments[1]));
    handles();
    must(grpc_function_handle_default(&succ, "SUCC"), "SUCC");
    must(grpc_function_handle_default(&sleep_handle, "SLEEP"), "SLEEP");
    must(grpc_function_handle_default(&loop, "LOOP"), "LOOP");
    must(grpc_function_handle_default(&exit_handle, "EXIT"), "EXIT");
    calls(&succ);
    waits(&sleep_handle);
    probes(&succ, &loop);
    cancels(&loop);
    errors(&succ, &exit_handle);
    expect("finalize", 1, GRPC_NO_ERROR, grpc_finalize());

    printf("%d of 50 passed, %d failed\n", passed, failed);
    return failed > 0 || passed != 50;
}
