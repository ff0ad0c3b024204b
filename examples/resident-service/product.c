/* A resident service: the product of two square matrices.

   signature = ["in int n", "in double a[n][n]", "in double b[n][n]", "out double c[n][n]"] */
#include "pliant_resident.h"

int main(void) {
    plr_calls calls;
    int next;
    if (plr_open(&calls)) return 1;
    while ((next = plr_next(&calls)) == 1) {
        uint64_t n = calls.values[1].rows;
        const double *a = calls.values[1].data, *b = calls.values[2].data;
        double *c = calloc(n * n + 1, sizeof *c);
        if (!c) {
            plr_failed(&calls, "out of memory");
            continue;
        }
        for (uint64_t i = 0; i < n; i++)
            for (uint64_t k = 0; k < n; k++)
                for (uint64_t j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
        plr_none(&calls); /* n, a and b do not come back */
        plr_none(&calls);
        plr_none(&calls);
        plr_matrix(&calls, PLR_DOUBLE, n, n, c);
        free(c);
        plr_done(&calls);
    }
    return next == 0 ? 0 : 1;
}
