/* The service `mmul`: matrices come as files in the folder of the job, numbers as they are in memory. */
#include <stdio.h>
#include <stdlib.h>

static double *matrix(const char *name, size_t size)
{
    double *elements = calloc(size, sizeof *elements);
    FILE *file = name != NULL ? fopen(name, "rb") : NULL;
    if (elements == NULL || (file != NULL && fread(elements, sizeof *elements, size, file) != size)) {
        exit(1);
    }
    return elements;
}

int main(int count, char **arguments)
{
    int n = count > 1 ? atoi(arguments[1]) : 0, i, j, k;
    size_t size = (size_t)n * (size_t)n;
    double *a = matrix("a", size), *b = matrix("b", size), *c = matrix(NULL, size);
    FILE *out = fopen("c", "wb");
    for (i = 0; i < n; i++)
        for (k = 0; k < n; k++)
            for (j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
    return out == NULL || fwrite(c, sizeof *c, size, out) != size || fclose(out) != 0;
}
