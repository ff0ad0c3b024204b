/*
 * Calls that no server takes.
 *
 *     refusals CLIENT_FILE
 *
 * The federation offers SUCC, which takes no negative number. The program prints "kill" and goes on once it has read a line:
 * meanwhile, a test kills the agent and the server. The exit code is 0 if every code is the expected one.
 */
#include <stdio.h>
#include <string.h>
#include "grpc.h"

static int wrong;

static void expect(const char *what, grpc_error_t expected, grpc_error_t found, const char *text)
{
    char last[1000] = "";
    pliant_grpc_last_error_text(last, sizeof last);
    if (found != expected || strstr(last, text) == NULL) {
        printf("FAILED %s: expected %s, found %s: %s\n", what, grpc_error_string(expected), grpc_error_string(found), last);
        wrong++;
    }
}

int main(int count, char **arguments)
{
    grpc_function_handle_t succ, other;
    grpc_sessionid_t session = 5;
    char line[16];
    int result = 7;
    if (count != 2 || grpc_initialize(arguments[1]) != GRPC_NO_ERROR || grpc_function_handle_default(&succ, "SUCC") != GRPC_NO_ERROR) {
        printf("FAILED initialize\n");
        return 1;
    }
    expect("a negative number", GRPC_RPC_REFUSED, grpc_call(&succ, -1, &result), "`n`");
    expect("the same without waiting", GRPC_RPC_REFUSED, grpc_call_async(&succ, &session, -1, &result), "`n`");
    if (session != GRPC_SESSIONID_VOID || result != 7) {
        printf("FAILED a refused call has the session %d and the result %d\n", session, result);
        wrong++;
    }
    printf("kill\n");
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL) {
        return 1;
    }
    /* SIGPIPE ends the program unless the library prevents it. */
    expect("a handle without an agent", GRPC_COMMUNICATION_FAILED, grpc_function_handle_default(&other, "SUCC"), "agent");
    expect("a call of it", GRPC_INVALID_FUNCTION_HANDLE, grpc_call(&other, 1, &result), "address");
    expect("finalize", GRPC_NO_ERROR, grpc_finalize(), "");
    printf("%d wrong\n", wrong);
    return wrong > 0;
}
