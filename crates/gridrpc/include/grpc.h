/*
 * grpc.h: the GridRPC interface for end users (OGF GFD.52), as Pliant implements it.
 *
 * Every function may be called from any thread. Functions that return grpc_error_t return GRPC_NO_ERROR or a code; the
 * full text of an error is given by the pliant_grpc_ functions at the end. Guide: docs/guides/gridrpc.md.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef PLIANT_GRPC_H
#define PLIANT_GRPC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    GRPC_NO_ERROR = 0,                 /* the call succeeded */
    GRPC_NOT_INITIALIZED = 1,          /* grpc_initialize has not been called, or grpc_finalize has */
    GRPC_CONFIGFILE_NOT_FOUND = 2,     /* the client's file does not exist or cannot be read */
    GRPC_CONFIGFILE_ERROR = 3,         /* the client's file, or a certificate that it names, is not valid */
    GRPC_SERVER_NOT_FOUND = 4,         /* the federation has no such server */
    GRPC_FUNCTION_NOT_FOUND = 5,       /* no server offers such a function */
    GRPC_INVALID_FUNCTION_HANDLE = 6,  /* not initialized, or destructed */
    GRPC_INVALID_SESSION_ID = 7,       /* not the ID of a session, or of one that is long over */
    GRPC_RPC_REFUSED = 8,              /* servers refuse the call, for example because of its arguments */
    GRPC_COMMUNICATION_FAILED = 9,     /* no agent or server answers */
    GRPC_SESSION_FAILED = 10,          /* the call ended without a result */
    GRPC_NOT_COMPLETED = 11,           /* the call is still under way */
    GRPC_NONE_COMPLETED = 12,          /* all of these calls are still under way */
    GRPC_OTHER_ERROR_CODE = 13,        /* another error: see its text */
    GRPC_UNKNOWN_ERROR_CODE = 14,      /* its name is what grpc_error_string returns for an undefined code */
    GRPC_ALREADY_INITIALIZED = 15,     /* grpc_initialize has been called before */
    GRPC_LAST_ERROR_CODE = 16,         /* the largest code of the standard */
    PLIANT_GRPC_NO_DATA = 31           /* data of an earlier call are gone: pass the value itself */
} grpc_error_t;

/*
 * A function, at a named server or at the best one. The address of the variable identifies the handle: pass pointers to
 * it, and do not copy or move the variable. The library never reads or writes its content.
 */
typedef struct {
    void *reserved[2];
} grpc_function_handle_t;

/* An asynchronous call. */
typedef int grpc_sessionid_t;

/* No session. */
#define GRPC_SESSIONID_VOID (-1)

/* Reads the client's file; a null pointer means the file that the command `pliant` would take. Connects with the first call. */
grpc_error_t grpc_initialize(const char *config_file);
/*
 * Cancels the calls that are under way, ends the threads of the library and frees everything. Functions that wait in other
 * threads return GRPC_NOT_INITIALIZED. A forked child does not have the library until it calls grpc_initialize itself.
 */
grpc_error_t grpc_finalize(void);

/* A handle of a function, each call of which goes to the server that would complete it first. */
grpc_error_t grpc_function_handle_default(grpc_function_handle_t *handle, const char *function_name);
/* A handle of a function at this server; a null pointer means the best one. */
grpc_error_t grpc_function_handle_init(grpc_function_handle_t *handle, const char *server_name, const char *function_name);
/* Frees a handle. Its sessions go on. */
grpc_error_t grpc_function_handle_destruct(grpc_function_handle_t *handle);
/* The handle that a session was started with. */
grpc_error_t grpc_get_handle(grpc_function_handle_t **handle, grpc_sessionid_t session);

/*
 * Calls a function and waits for its outputs. Arguments are in the order of the signature: inputs that are scalars by
 * value; strings and paths of files as char *; vectors, matrices, and scalars that are outputs by pointer. A string that
 * is an output is written into a buffer of the capacity in the signature, a file that is an output to the path given.
 */
grpc_error_t grpc_call(grpc_function_handle_t *handle, ...);
/*
 * The same without waiting. Inputs are read before it returns, outputs are written by the function that first reports the
 * end: one that waits or probes.
 *
 * The memory of outputs belongs to the library from the call on, until such a function, grpc_cancel or grpc_cancel_all has
 * returned for the session, or grpc_finalize has returned GRPC_NO_ERROR. Until then the program must not use, free or reuse
 * it. GRPC_NOT_INITIALIZED, which other threads get during grpc_finalize, does not end that.
 */
grpc_error_t grpc_call_async(grpc_function_handle_t *handle, grpc_sessionid_t *session, ...);

/*
 * Cancels a session, or each that no function that waits has reported, and returns once they have ended, within a minute.
 * Outputs that are not written then are lost, also if the call had completed. If it fails, the sessions go on.
 */
grpc_error_t grpc_cancel(grpc_sessionid_t session);
grpc_error_t grpc_cancel_all(void);

/*
 * GRPC_NO_ERROR if the session has completed, GRPC_NOT_COMPLETED if it is under way, GRPC_SESSION_FAILED if it failed. Its
 * outputs are written. Functions that wait report it all the same.
 */
grpc_error_t grpc_probe(grpc_sessionid_t session);
/*
 * One of the sessions that has ended, with its outcome: GRPC_SESSION_FAILED if it failed. GRPC_NONE_COMPLETED and
 * GRPC_SESSIONID_VOID if none has. `ended` may be an element of the array.
 */
grpc_error_t grpc_probe_or(grpc_sessionid_t *sessions, size_t length, grpc_sessionid_t *ended);

/*
 * Wait for one session, for each of several, for one of several, for all, for any. GRPC_SESSION_FAILED if one has failed. An
 * ID may be in an array several times.
 */
grpc_error_t grpc_wait(grpc_sessionid_t session);
grpc_error_t grpc_wait_and(grpc_sessionid_t *sessions, size_t length);
grpc_error_t grpc_wait_or(grpc_sessionid_t *sessions, size_t length, grpc_sessionid_t *ended);
grpc_error_t grpc_wait_all(void);
/* Each session once; GRPC_SESSIONID_VOID if functions that wait have reported all. */
grpc_error_t grpc_wait_any(grpc_sessionid_t *ended);

/* The name of a code. */
char *grpc_error_string(grpc_error_t error_code);
/* Why a session failed; GRPC_NO_ERROR if it has not. */
grpc_error_t grpc_get_error(grpc_sessionid_t session);
/* A session that has failed, each once; GRPC_SESSIONID_VOID if there is none left. */
grpc_error_t grpc_get_failed_sessionid(grpc_sessionid_t *session);

/*
 * Extensions of Pliant.
 *
 * The text functions write at most `size` bytes with the final zero, and return the length of the whole text without it.
 */

/* What the last error of the calling thread was: what was expected, what was found, what to do. */
size_t pliant_grpc_last_error_text(char *buffer, size_t size);
/* Why a session failed; an empty text if it has not. */
size_t pliant_grpc_error_text(grpc_sessionid_t session, char *buffer, size_t size);

/*
 * Calls with one address for each argument, for languages without variable arguments: inputs that are scalars by pointer,
 * too, and the others as above.
 */
grpc_error_t pliant_grpc_call_array(grpc_function_handle_t *handle, void **arguments, size_t count);
grpc_error_t pliant_grpc_call_array_async(grpc_function_handle_t *handle, grpc_sessionid_t *session, void **arguments, size_t count);

/*
 * Data that stay at servers. A vector, a matrix or a string with a capacity in the signature can stay at the server after a call, and be
 * an input of later calls of the same user, which then go to that server. Its ID is a text, which may be copied, and used by other programs.
 * Data expire a day after the last call that named them, and may be gone before: then a call that names them is not made, and
 * returns PLIANT_GRPC_NO_DATA.
 */
#define PLIANT_GRPC_DATA_ID_SIZE 128

typedef enum {
    PLIANT_GRPC_DATA_USE = 0,            /* the input is the data with this ID; its address is not used and may be null */
    PLIANT_GRPC_DATA_KEEP = 1,           /* the value stays at the server and does not come back; the address of an output may be null */
    PLIANT_GRPC_DATA_KEEP_AND_RETURN = 2 /* an output stays at the server and comes back, too */
} pliant_grpc_data_mode_t;

/* What a call takes from its server, or leaves there, for one of its arguments. */
typedef struct {
    size_t position;                   /* of the argument, from 0 */
    pliant_grpc_data_mode_t mode;
    char id[PLIANT_GRPC_DATA_ID_SIZE]; /* read in the first mode, written in the others */
} pliant_grpc_data_t;

/*
 * As pliant_grpc_call_array and pliant_grpc_call_array_async, with such entries. An argument that goes both ways may have one entry to use data
 * and one to keep its result. Of an input, its argument stays. IDs are written before the function returns, an empty text if no server has
 * accepted the call; the data are there once the call has completed.
 */
grpc_error_t pliant_grpc_call_data(grpc_function_handle_t *handle, void **arguments, size_t count, pliant_grpc_data_t *data, size_t data_count);
grpc_error_t pliant_grpc_call_data_async(grpc_function_handle_t *handle, grpc_sessionid_t *session, void **arguments, size_t count,
                                         pliant_grpc_data_t *data, size_t data_count);
/* Deletes data. It is no error if they are gone. */
grpc_error_t pliant_grpc_data_delete(const char *id);

/* What an exploration has completed. */
typedef struct {
    unsigned int mandatory; /* mandatory requests that are completed */
    unsigned int optional;  /* optional requests that are completed */
    unsigned int failed;    /* requests that have failed */
    double late_s;          /* seconds from the deadline to the end of the last mandatory request; 0 if it was in time */
} pliant_grpc_exploration_t;

/*
 * Calls a service with many sets of arguments, on cores that servers have for explorations. The mandatory requests are completed in any
 * case, the optional ones as far as cores are free before the deadline. The options are those of the command `pliant explore`,
 * without --out, for example "simulate", "--vary", "seed=1..100", "--min", "10", "--deadline", "30s". The output of request N is
 * the file out/N in the folder, which must be empty or have an earlier exploration with the same options; that one is resumed.
 * Returns once the exploration is over; the last pointer may be null.
 */
grpc_error_t pliant_grpc_explore(const char *const *options, size_t count, const char *folder, pliant_grpc_exploration_t *exploration);

#ifdef __cplusplus
}
#endif

#endif
