/*
 * DIET_client.h: functions for clients with the names of DIET's, a thin layer of Pliant over grpc.h.
 *
 * A program for DIET's own header compiles against this one if it uses these functions only, and the parameters of profiles only
 * through diet_parameter. Guide: docs/guides/gridrpc-diet.md. Error codes are those of grpc.h; functions that return int return 0 or one
 * of them. pliant_grpc_last_error_text has the text of an error.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef PLIANT_DIET_CLIENT_H
#define PLIANT_DIET_CLIENT_H

#include <stddef.h>
#include "../grpc.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef grpc_error_t diet_error_t;
typedef grpc_sessionid_t diet_reqID_t;

/* A function with its arguments, and one of these arguments. */
typedef struct pliant_diet_profile diet_profile_t;
typedef struct pliant_diet_argument diet_arg_t;

/* The types of numbers. */
typedef enum { DIET_CHAR = 0, DIET_INT = 2, DIET_LONGINT = 3, DIET_FLOAT = 4, DIET_DOUBLE = 5 } diet_base_type_t;

/* How a matrix is stored. */
typedef enum { DIET_COL_MAJOR = 0, DIET_ROW_MAJOR = 1 } diet_matrix_order_t;

/*
 * Where an argument is after a call: with the client (volatile), at the server, or at both (return). No data move between servers, so
 * persistent ones are sticky, too. Vectors, matrices and strings with a capacity in the signature can stay at a server. Numbers, files and
 * other strings do not: with a mode that ends in _RETURN they come back only, with DIET_PERSISTENT and DIET_STICKY the call is an error.
 */
typedef enum {
    DIET_VOLATILE = 0,
    DIET_PERSISTENT_RETURN = 1,
    DIET_PERSISTENT = 2,
    DIET_STICKY = 3,
    DIET_STICKY_RETURN = 4
} diet_persistence_mode_t;

/* Reads the client's file, as grpc_initialize does; the other arguments are not used. */
diet_error_t diet_initialize(const char *config_file, int argc, char **argv);
/* As grpc_finalize. Profiles stay. */
diet_error_t diet_finalize(void);

/*
 * A profile of a function: arguments up to the position last_in are inputs, then up to last_inout both, then up to last_out
 * outputs; -1 means none. A null pointer if these numbers do not rise, or there are more than 64 arguments.
 */
diet_profile_t *diet_profile_alloc(const char *function_name, int last_in, int last_inout, int last_out);
/* Frees a profile, but not the data of its arguments. A session of it goes on. */
int diet_profile_free(diet_profile_t *profile);
/* The argument at a position; a null pointer if there is none. */
diet_arg_t *diet_parameter(diet_profile_t *profile, int position);

/*
 * Set the data of an argument. The profile keeps the address: inputs are read by each call. What goes both ways is written to the same
 * memory, except strings. Of an output the address may be null; then the call allocates memory, which diet_free_data or free frees.
 */
int diet_scalar_set(diet_arg_t *argument, void *value, diet_persistence_mode_t mode, diet_base_type_t type);
int diet_vector_set(diet_arg_t *argument, void *values, diet_persistence_mode_t mode, diet_base_type_t type, size_t size);
int diet_matrix_set(diet_arg_t *argument, void *values, diet_persistence_mode_t mode, diet_base_type_t type, size_t rows, size_t columns,
                    diet_matrix_order_t order);
int diet_string_set(diet_arg_t *argument, char *text, diet_persistence_mode_t mode);
/* A null path of an output means a new file in the folder for temporary files. */
int diet_file_set(diet_arg_t *argument, const char *path, diet_persistence_mode_t mode);

/* Get the address of the data of an argument, into the pointer whose address is given, and what is not a null pointer of the rest. */
int diet_scalar_get(diet_arg_t *argument, void *value, diet_persistence_mode_t *mode);
int diet_vector_get(diet_arg_t *argument, void *values, diet_persistence_mode_t *mode, size_t *size);
int diet_matrix_get(diet_arg_t *argument, void *values, diet_persistence_mode_t *mode, size_t *rows, size_t *columns,
                    diet_matrix_order_t *order);
int diet_string_get(diet_arg_t *argument, char **text, diet_persistence_mode_t *mode);
/* With the size of the file in bytes. */
int diet_file_get(diet_arg_t *argument, char **path, diet_persistence_mode_t *mode, size_t *size);
/*
 * Has an input be data that an earlier call has left at its server: instead of the functions that set it, or after one of them, which says
 * the mode of what goes both ways. The call goes to that server. PLIANT_GRPC_NO_DATA of diet_call says that the data are gone.
 */
int diet_use_data(diet_arg_t *argument, const char *id);
/*
 * The ID of the data that the last call has left for an argument, or that the argument is; a null pointer if there are none. DIET has it
 * in profile->parameters[position].desc.id. The text is valid until the argument is set, its profile is called or freed.
 */
const char *pliant_diet_data_id(diet_arg_t *argument);
/* Deletes data at a server. 1 if they are gone, 0 if the server does not answer or the ID is none, as in DIET. */
int diet_free_persistent_data(const char *id);
/* Frees the memory that a call has allocated for an output; of a file it frees the path. */
int diet_free_data(diet_arg_t *argument);

/*
 * Call the function at the server that would complete it first. The profile and its data belong to the library until the call has returned,
 * or until the end of its session was reported (grpc.h).
 */
diet_error_t diet_call(diet_profile_t *profile);
diet_error_t diet_call_async(diet_profile_t *profile, diet_reqID_t *session);

/* As the functions of these names in grpc.h. */
diet_error_t diet_probe(diet_reqID_t session);
diet_error_t diet_probe_or(diet_reqID_t *sessions, size_t length, diet_reqID_t *ended);
diet_error_t diet_cancel(diet_reqID_t session);
diet_error_t diet_cancel_all(void);
diet_error_t diet_wait(diet_reqID_t session);
diet_error_t diet_wait_and(diet_reqID_t *sessions, size_t length);
diet_error_t diet_wait_or(diet_reqID_t *sessions, size_t length, diet_reqID_t *ended);
diet_error_t diet_wait_all(void);
diet_error_t diet_wait_any(diet_reqID_t *ended);
char *diet_error_string(diet_error_t error_code);
diet_error_t diet_get_error(diet_reqID_t session);

#ifdef __cplusplus
}
#endif

#endif
