/* The function of numbers.c: the next letter, twice a number, one more, each letter's next one, and two matrices transposed. */
#include <stdint.h>

int transpose(int32_t n, unsigned char letter, float f, int64_t large, const float *a, const double *matrix, unsigned char *letters,
              unsigned char *next, float *twice, int64_t *larger, float *b, double *transposed)
{
    int32_t row, column;
    *next = letter + 1;
    *twice = 2 * f;
    *larger = large + 1;
    for (column = 0; column < n; column++) {
        letters[column]++;
        for (row = 0; row < 2; row++) {
            b[column * 2 + row] = a[row * n + column];
            transposed[column * 2 + row] = matrix[row * n + column];
        }
    }
    return 0;
}
