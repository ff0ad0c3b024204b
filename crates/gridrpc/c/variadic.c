/*
 * grpc_call and grpc_call_async: reads variable arguments by the signature of the handle's function, and passes on one
 * address for each. Stable Rust can call functions with variable arguments, but not define them.
 *
 * The exported functions of these names are in src/boundary/variadic.rs, and jump here.
 */
#include <stdarg.h>
#include "grpc.h"

/* How an argument is passed. The numbers are those of `Passed` in src/boundary/calls.rs. */
enum passed { BY_CHAR = 0, BY_INT = 1, BY_LONG = 2, BY_FLOAT = 3, BY_DOUBLE = 4, BY_ADDRESS = 5 };

/* PARAMETERS_MAX of crates/calls; checked in src/boundary/calls.rs. */
#define PARAMETERS_MAX 64

/* Neither exported by the library nor replaced by functions of programs. */
#define HIDDEN __attribute__((visibility("hidden")))

/*
 * Functions of Rust. The number of the binding shows whether another thread has bound the handle anew in between. These declarations hide
 * their definitions, too: a linker takes the narrowest visibility.
 */
HIDDEN grpc_error_t pliant_gridrpc_signature(grpc_function_handle_t *handle, unsigned long long *binding,
                                      unsigned char passed[PARAMETERS_MAX], size_t *count);
HIDDEN grpc_error_t pliant_gridrpc_call(grpc_function_handle_t *handle, unsigned long long binding, void **arguments,
                                        size_t count);
HIDDEN grpc_error_t pliant_gridrpc_call_async(grpc_function_handle_t *handle, unsigned long long binding, grpc_sessionid_t *session,
                                       void **arguments, size_t count);

/* Arguments that were passed by value, and the address of each argument. */
struct arguments {
    union {
        unsigned char as_char;
        int as_int;
        long as_long;
        float as_float;
        double as_double;
    } values[PARAMETERS_MAX];
    void *addresses[PARAMETERS_MAX];
};

static void read_arguments(struct arguments *read, const unsigned char *passed, size_t count, va_list list)
{
    size_t number;
    for (number = 0; number < count; number++) {
        read->addresses[number] = &read->values[number];
        switch (passed[number]) {
        case BY_CHAR:
            read->values[number].as_char = (unsigned char)va_arg(list, int);
            break;
        case BY_INT:
            read->values[number].as_int = va_arg(list, int);
            break;
        case BY_LONG:
            read->values[number].as_long = va_arg(list, long);
            break;
        case BY_FLOAT:
            read->values[number].as_float = (float)va_arg(list, double);
            break;
        case BY_DOUBLE:
            read->values[number].as_double = va_arg(list, double);
            break;
        default:
            read->addresses[number] = va_arg(list, void *);
            break;
        }
    }
}

HIDDEN grpc_error_t pliant_gridrpc_variadic_call(grpc_function_handle_t *handle, ...)
{
    struct arguments read;
    unsigned char passed[PARAMETERS_MAX];
    unsigned long long binding;
    size_t count;
    va_list list;
    grpc_error_t error = pliant_gridrpc_signature(handle, &binding, passed, &count);
    if (error != GRPC_NO_ERROR) {
        return error;
    }
    va_start(list, handle);
    read_arguments(&read, passed, count, list);
    va_end(list);
    return pliant_gridrpc_call(handle, binding, read.addresses, count);
}

HIDDEN grpc_error_t pliant_gridrpc_variadic_call_async(grpc_function_handle_t *handle, grpc_sessionid_t *session, ...)
{
    struct arguments read;
    unsigned char passed[PARAMETERS_MAX];
    unsigned long long binding;
    size_t count;
    va_list list;
    grpc_error_t error;
    if (session != NULL) {
        *session = GRPC_SESSIONID_VOID;
    }
    error = pliant_gridrpc_signature(handle, &binding, passed, &count);
    if (error != GRPC_NO_ERROR) {
        return error;
    }
    va_start(list, session);
    read_arguments(&read, passed, count, list);
    va_end(list);
    return pliant_gridrpc_call_async(handle, binding, session, read.addresses, count);
}
