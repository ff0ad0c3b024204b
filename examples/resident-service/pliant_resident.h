/* Calls of a typed service in a resident process: read from standard input, answered on standard output. The frames and the
   encoding of values are described in docs/reference/typed-services.md. Standard C99, for little-endian machines.

   Nothing else may be written to standard output: plr_open() gives printf() standard error. */
#ifndef PLIANT_RESIDENT_H
#define PLIANT_RESIDENT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The types of values: 0 is none, of a parameter that does not go this way. */
enum { PLR_NONE, PLR_CHAR, PLR_INT, PLR_LONG, PLR_FLOAT, PLR_DOUBLE, PLR_STRING, PLR_FILE, PLR_VECTOR, PLR_MATRIX };

/* A value of a call. The elements of vectors and matrices are aligned for any number. */
typedef struct {
    int type;         /* PLR_INT, ... */
    int of;           /* the type of the elements of a vector or a matrix */
    uint64_t rows;    /* elements of a vector, rows of a matrix, bytes of a string or of the path of a file */
    uint64_t columns; /* elements of a row of a matrix; 1 of others */
    void *data;       /* the number, the elements, or the text with a NUL at its end */
} plr_value;

typedef struct {
    FILE *in, *out;
    uint32_t procs, walltime_s; /* of the present call */
    unsigned count;             /* of its values */
    plr_value *values;
    unsigned char *answer;
    size_t used, size;
} plr_calls;

static inline size_t plr_bytes(int type) { return type == PLR_CHAR ? 1 : type == PLR_INT || type == PLR_FLOAT ? 4 : 8; }

static inline int plr_open(plr_calls *calls) {
    int out = dup(1);
    memset(calls, 0, sizeof *calls);
    calls->in = stdin;
    if (out < 0 || dup2(2, 1) < 0 || !(calls->out = fdopen(out, "wb"))) return -1;
    return 0;
}

static inline void plr_release(plr_calls *calls) {
    for (unsigned i = 0; i < calls->count; i++) free(calls->values[i].data);
    free(calls->values);
    calls->values = NULL;
    calls->count = 0;
}

static inline int plr_read(plr_calls *calls, void *to, size_t bytes, uint64_t *left) {
    if (bytes > *left || (bytes > 0 && fread(to, 1, bytes, calls->in) != bytes)) return -1;
    *left -= bytes;
    return 0;
}

static inline int plr_read_value(plr_calls *calls, plr_value *value, uint64_t *left) {
    unsigned char type, of;
    uint32_t length;
    size_t bytes;
    memset(value, 0, sizeof *value);
    if (plr_read(calls, &type, 1, left)) return -1;
    value->type = type;
    value->rows = value->columns = 1;
    if (type == PLR_NONE) return 0;
    if (type < PLR_STRING) {
        bytes = plr_bytes(type);
    } else if (type <= PLR_FILE) {
        if (plr_read(calls, &length, 4, left)) return -1;
        value->rows = bytes = length;
    } else {
        if (type > PLR_MATRIX || plr_read(calls, &of, 1, left) || of < PLR_CHAR || of > PLR_DOUBLE) return -1;
        value->of = of;
        if (plr_read(calls, &value->rows, 8, left)) return -1;
        if (type == PLR_MATRIX && plr_read(calls, &value->columns, 8, left)) return -1;
        if (value->columns > 0 && value->rows > *left / value->columns) return -1;
        if (value->rows * value->columns > *left / plr_bytes(of)) return -1;
        bytes = value->rows * value->columns * plr_bytes(of);
    }
    if (bytes > *left || !(value->data = malloc(bytes + 1))) return -1;
    ((char *)value->data)[bytes] = 0;
    return plr_read(calls, value->data, bytes, left);
}

/* Reads the next call: 1 if there is one, 0 at the end, -1 if the bytes are no call. Values stay until the next call. */
static inline int plr_next(plr_calls *calls) {
    struct { char magic[4]; uint32_t kind; uint64_t length; uint32_t procs, walltime_s; } header;
    char magic[4];
    uint16_t count;
    size_t got = fread(&header, 1, sizeof header, calls->in);
    plr_release(calls);
    calls->used = 0;
    if (got == 0) return 0;
    if (got != sizeof header || memcmp(header.magic, "PLF1", 4) || header.kind != 1) return -1;
    uint64_t left = header.length;
    if (plr_read(calls, magic, 4, &left) || memcmp(magic, "PLV\1", 4) || plr_read(calls, &count, 2, &left)) return -1;
    calls->procs = header.procs;
    calls->walltime_s = header.walltime_s;
    if (!(calls->values = calloc(count ? count : 1, sizeof *calls->values))) return -1;
    for (; calls->count < count; calls->count++)
        if (plr_read_value(calls, &calls->values[calls->count], &left)) {
            calls->count++;
            return -1;
        }
    return left == 0 ? 1 : -1;
}

static inline void plr_append(plr_calls *calls, const void *bytes, size_t count) {
    if (calls->used + count > calls->size) {
        size_t size = 2 * (calls->used + count);
        unsigned char *larger = realloc(calls->answer, size);
        if (!larger) abort();
        calls->answer = larger;
        calls->size = size;
    }
    if (count > 0) memcpy(calls->answer + calls->used, bytes, count);
    calls->used += count;
}

static inline void plr_tag(plr_calls *calls, int type) {
    unsigned char byte = (unsigned char)type;
    plr_append(calls, &byte, 1);
}

/* Adds the result of the next parameter: one for each, in the order of the signature. */
static inline void plr_none(plr_calls *calls) { plr_tag(calls, PLR_NONE); }

static inline void plr_number(plr_calls *calls, int type, const void *number) {
    plr_tag(calls, type);
    plr_append(calls, number, plr_bytes(type));
}

static inline void plr_int(plr_calls *calls, int32_t number) { plr_number(calls, PLR_INT, &number); }

static inline void plr_double(plr_calls *calls, double number) { plr_number(calls, PLR_DOUBLE, &number); }

/* A string, or the path of a file (PLR_FILE). */
static inline void plr_text(plr_calls *calls, int type, const char *text) {
    uint32_t length = (uint32_t)strlen(text);
    plr_tag(calls, type);
    plr_append(calls, &length, 4);
    plr_append(calls, text, length);
}

static inline void plr_vector(plr_calls *calls, int of, uint64_t length, const void *elements) {
    plr_tag(calls, PLR_VECTOR);
    plr_tag(calls, of);
    plr_append(calls, &length, 8);
    plr_append(calls, elements, length * plr_bytes(of));
}

static inline void plr_matrix(plr_calls *calls, int of, uint64_t rows, uint64_t columns, const void *elements) {
    plr_tag(calls, PLR_MATRIX);
    plr_tag(calls, of);
    plr_append(calls, &rows, 8);
    plr_append(calls, &columns, 8);
    plr_append(calls, elements, rows * columns * plr_bytes(of));
}

static inline int plr_send(plr_calls *calls, uint32_t kind, const void *first, size_t bytes, const void *rest, size_t more) {
    struct { char magic[4]; uint32_t kind; uint64_t length; uint32_t procs, walltime_s; } header;
    memcpy(header.magic, "PLF1", 4);
    header.kind = kind;
    header.length = bytes + more;
    header.procs = header.walltime_s = 0;
    fwrite(&header, 1, sizeof header, calls->out);
    fwrite(first, 1, bytes, calls->out);
    if (more > 0) fwrite(rest, 1, more, calls->out);
    return fflush(calls->out);
}

/* Answers the call with the results that were added. */
static inline int plr_done(plr_calls *calls) {
    unsigned char head[6] = {'P', 'L', 'V', 1, (unsigned char)(calls->count & 255), (unsigned char)(calls->count >> 8)};
    return plr_send(calls, 2, head, sizeof head, calls->answer, calls->used);
}

/* Answers the call with the reason why it failed, at most 4096 bytes. */
static inline int plr_failed(plr_calls *calls, const char *reason) {
    size_t length = strlen(reason);
    return plr_send(calls, 3, reason, length > 4096 ? 4096 : length, NULL, 0);
}

#endif
