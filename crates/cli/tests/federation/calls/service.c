/* The resident service of the tests: what a call does is its first argument.
   in int mode, in int n, in double a[n][n], inout double b[n], in file data, out int pid, out string text[64], out file copy,
   in string gate */
#include <signal.h>

#include "pliant_resident.h"

static void copy(const char *from, const char *to) {
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    int byte;
    while (in && out && (byte = fgetc(in)) != EOF) fputc(byte, out);
    if (in) fclose(in);
    if (out) fclose(out);
}

int main(void) {
    plr_calls calls;
    int next;
    if (plr_open(&calls)) return 1;
    while ((next = plr_next(&calls)) == 1) {
        int mode = *(int32_t *)calls.values[0].data;
        uint64_t n = calls.values[3].rows;
        const double *a = calls.values[2].data;
        double *b = calls.values[3].data, c[n + 1];
        const char *gate = calls.values[8].data;
        fprintf(stderr, "mode %d\n", mode);
        if (mode == 1) {
            plr_failed(&calls, "the matrix is singular");
            continue;
        }
        if (mode == 2) raise(SIGKILL);
        if (mode == 4) printf("not a frame"), fwrite("rubbish rubbish rubbish rubbish", 1, 31, calls.out), fflush(calls.out);
        if (mode == 8 && fork() == 0)
            while (1) if (write(2, "flood ", 6) < 0) usleep(1000);
        if (mode == 9 && fork() == 0) {
            FILE *child = fopen(gate, "w");
            setsid();
            if (child) fprintf(child, "%d\n", (int)getpid()), fclose(child);
            while (1) sleep(1);
        }
        if (mode == 9) {
            while (access(gate, F_OK)) usleep(1000);
            raise(SIGKILL);
        }
        if (mode == 5 || mode == 6) {
            FILE *begun = fopen(gate, "a");
            if (begun) fputs("begun\n", begun), fclose(begun);
        }
        while (mode == 5) sleep(1);
        if (mode == 6) {
            char open[4096];
            snprintf(open, sizeof open, "%s.open", gate);
            while (access(open, F_OK)) usleep(10000);
        }
        for (uint64_t i = 0; i < n; i++) {
            c[i] = 0;
            for (uint64_t j = 0; j < n; j++) c[i] += a[i * n + j] * b[j];
        }
        copy(calls.values[4].data, calls.values[7].data);
        for (int i = 0; i < 3; i++) plr_none(&calls);
        plr_vector(&calls, PLR_DOUBLE, mode == 3 ? n - 1 : n, c);
        plr_none(&calls);
        plr_int(&calls, (int32_t)getpid());
        plr_text(&calls, PLR_STRING, "done");
        plr_text(&calls, PLR_FILE, calls.values[7].data);
        plr_none(&calls);
        plr_done(&calls);
        if (mode == 7) plr_failed(&calls, "the answer to no call");
    }
    return next == 0 ? 0 : 1;
}
