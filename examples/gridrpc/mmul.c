/* The service `mmul`: a function of a shared library, which the server calls in a process of its own. `c` begins with zeros. */
int mmul(int n, const double *a, const double *b, double *c)
{
    int i, j, k;
    for (i = 0; i < n; i++)
        for (k = 0; k < n; k++)
            for (j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
    return 0;
}
