/*
 * A program that forks while sessions are under way: the child does not have the library until it initializes it.
 *
 *     fork CLIENT_FILE
 *
 * The federation offers SUCC and LOOP. The exit code is 0 if every code is the expected one in both processes.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "grpc.h"

static int wrong;

static void expect(const char *what, grpc_error_t expected, grpc_error_t found)
{
    char text[400] = "";
    if (found != expected) {
        pliant_grpc_last_error_text(text, sizeof text);
        fprintf(stderr, "FAILED %s: expected %s, found %s: %s\n", what, grpc_error_string(expected), grpc_error_string(found), text);
        wrong++;
    }
}

static void call(const char *what, grpc_function_handle_t *handle)
{
    int result = 0;
    expect(what, GRPC_NO_ERROR, grpc_call(handle, 41, &result));
    if (result != 42) {
        fprintf(stderr, "FAILED %s: the result is %d\n", what, result);
        wrong++;
    }
}

static int child(const char *config, grpc_function_handle_t *succ, grpc_sessionid_t session)
{
    int result;
    expect("a wait in the child", GRPC_NOT_INITIALIZED, grpc_wait(session));
    expect("a call in the child", GRPC_NOT_INITIALIZED, grpc_call(succ, 1, &result));
    expect("finalize in the child", GRPC_NOT_INITIALIZED, grpc_finalize());
    expect("initialize in the child", GRPC_NO_ERROR, grpc_initialize(config));
    expect("a session of the parent", GRPC_INVALID_SESSION_ID, grpc_wait(session));
    expect("a handle of the parent", GRPC_INVALID_FUNCTION_HANDLE, grpc_call(succ, 1, &result));
    expect("a handle of the child", GRPC_NO_ERROR, grpc_function_handle_default(succ, "SUCC"));
    call("a call of the child", succ);
    expect("finalize", GRPC_NO_ERROR, grpc_finalize());
    return wrong > 0;
}

int main(int count, char **arguments)
{
    grpc_function_handle_t succ, loop;
    grpc_sessionid_t session;
    int round, status;
    pid_t pid;
    if (count != 2) {
        fprintf(stderr, "usage: fork CLIENT_FILE\n");
        return 2;
    }
    expect("initialize", GRPC_NO_ERROR, grpc_initialize(arguments[1]));
    expect("SUCC", GRPC_NO_ERROR, grpc_function_handle_default(&succ, "SUCC"));
    expect("LOOP", GRPC_NO_ERROR, grpc_function_handle_default(&loop, "LOOP"));
    expect("a session", GRPC_NO_ERROR, grpc_call_async(&loop, &session, 1));
    for (round = 0; round < 3; round++) {
        pid = fork();
        if (pid == 0) {
            /* The second one ends by exit(), without finalize. */
            return round == 1 ? grpc_wait(session) != GRPC_NOT_INITIALIZED : child(arguments[1], &succ, session);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            fprintf(stderr, "FAILED child %d: status %d\n", round, status);
            wrong++;
        }
        expect("the session of the parent", GRPC_NOT_COMPLETED, grpc_probe(session));
        call("a call of the parent", &succ);
    }
    expect("cancel", GRPC_NO_ERROR, grpc_cancel(session));
    expect("finalize", GRPC_NO_ERROR, grpc_finalize());
    printf("%d wrong\n", wrong);
    return wrong > 0;
}
