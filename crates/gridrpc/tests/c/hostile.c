/*
 * Hostile use: each of it gives a code, and the program goes on.
 *
 *     hostile CLIENT_FILE BROKEN_FILE
 *
 * The federation offers SUCC and LOOP. The exit code is 0 if every code is the expected one.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
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

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int successes;
static int may_finalize = 1;

static int get(const int *variable)
{
    int value;
    pthread_mutex_lock(&mutex);
    value = *variable;
    pthread_mutex_unlock(&mutex);
    return value;
}

static void set(int *variable, int value)
{
    pthread_mutex_lock(&mutex);
    *variable = value;
    pthread_mutex_unlock(&mutex);
}

/* Initializes and finalizes all the time, while others call. Now and then the library stays until a call has succeeded. */
static void *restart(void *argument)
{
    int round, pause, before, is_first = argument != NULL;
    for (round = 0; round < 20; round++) {
        grpc_initialize(config);
        if (is_first && round % 5 == 0) {
            set(&may_finalize, 0);
            before = get(&successes);
            for (pause = 0; pause < 3000 && get(&successes) == before; pause++) {
                /* The other thread may have finalized the library a moment ago. */
                grpc_initialize(config);
                usleep(20000);
            }
            set(&may_finalize, 1);
        }
        usleep(20000);
        if (is_first || get(&may_finalize)) {
            grpc_finalize();
        }
    }
    return NULL;
}

/* A code that a call may have while another thread restarts the library. */
static grpc_error_t meanwhile(const char *what, grpc_error_t found)
{
    switch (found) {
    case GRPC_NO_ERROR:
    case GRPC_NOT_INITIALIZED:
    case GRPC_INVALID_FUNCTION_HANDLE:
    case GRPC_INVALID_SESSION_ID:
    case GRPC_NONE_COMPLETED:
        break;
    default:
        expect(what, GRPC_NOT_INITIALIZED, found);
    }
    return found;
}

/* Until both threads that restart the library have ended. */
static void *call_meanwhile(void *argument)
{
    grpc_function_handle_t handle;
    grpc_sessionid_t session, ended;
    int result, number = 0;
    while (get(argument) > 0) {
        number++;
        result = 0;
        meanwhile("a handle", grpc_function_handle_default(&handle, "SUCC"));
        meanwhile("an asynchronous call", grpc_call_async(&handle, &session, number, &result));
        meanwhile("a probe", grpc_probe_or(&session, 1, &ended));
        if (meanwhile("a wait", grpc_wait(session)) == GRPC_NO_ERROR && result != number + 1) {
            expect("the output of a session", GRPC_NO_ERROR, GRPC_SESSION_FAILED);
        }
        result = 0;
        if (meanwhile("a call", grpc_call(&handle, number, &result)) == GRPC_NO_ERROR) {
            if (result != number + 1) {
                expect("the output of a call", GRPC_NO_ERROR, GRPC_SESSION_FAILED);
            }
            set(&successes, get(&successes) + 1);
        }
        meanwhile("destruct", grpc_function_handle_destruct(&handle));
    }
    return NULL;
}

/* How many threads of the library there are, which block signals. A thread has its name once it runs. */
static int library_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    char path[400], line[200];
    unsigned long long blocked;
    int threads = 0;
    const unsigned long long expected = 1ULL << (SIGPIPE - 1) | 1ULL << (SIGINT - 1) | 1ULL << (SIGALRM - 1);
    while (tasks != NULL && (task = readdir(tasks)) != NULL) {
        FILE *status;
        int is_ours = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        status = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            is_ours |= strncmp(line, "Name:\tpliant-gridrpc", 20) == 0;
            if (is_ours && sscanf(line, "SigBlk: %llx", &blocked) == 1) {
                threads++;
                if ((blocked & expected) != expected) {
                    printf("FAILED thread %s: it blocks %llx only\n", task->d_name, blocked);
                    wrong++;
                }
            }
        }
        if (status != NULL) {
            fclose(status);
        }
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return threads;
}

/* The threads of the library block signals, and the calling thread does not. */
static void signals(void)
{
    sigset_t own;
    int tries, threads = library_threads();
    for (tries = 0; threads < 2 && tries < 500; tries++) {
        usleep(10000);
        threads = library_threads();
    }
    if (threads < 2) {
        printf("FAILED signals: %d threads of the library\n", threads);
        wrong++;
    }
    if (pthread_sigmask(SIG_BLOCK, NULL, &own) != 0 || sigismember(&own, SIGPIPE)) {
        printf("FAILED signals: the thread of the program blocks SIGPIPE\n");
        wrong++;
    }
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
    int number, restarting = 1;
    if (count != 3) {
        fprintf(stderr, "usage: hostile CLIENT_FILE BROKEN_FILE\n");
        return 2;
    }
    config = arguments[1];
    files(arguments[2]);
    expect("initialize", GRPC_NO_ERROR, grpc_initialize(config));
    signals();
    pointers();
    finalize_during_calls();
    for (number = 0; number < 2; number++) {
        pthread_create(&threads[number], NULL, restart, number == 0 ? &restarting : NULL);
    }
    for (number = 2; number < 5; number++) {
        pthread_create(&threads[number], NULL, call_meanwhile, &restarting);
    }
    for (number = 0; number < 2; number++) {
        pthread_join(threads[number], NULL);
    }
    set(&restarting, 0);
    for (number = 2; number < 5; number++) {
        pthread_join(threads[number], NULL);
    }
    grpc_finalize();
    if (successes < 4) {
        printf("FAILED calls while the library is restarted: %d succeeded\n", successes);
        wrong++;
    }
    printf("%d wrong\n", wrong);
    return wrong > 0;
}
