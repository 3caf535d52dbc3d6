/* Twin of `small.py`: positive_factor, solve_factored, largest_eigenpairs. */
#include "factors.h"

#include <math.h>
#include <string.h>

enum { SMALL = 24 }; /* with at most this many rows, a call of LAPACK takes longer than its work */

static const double LIFTS[] = {0.0, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5}; /* shares of the largest diagonal entry */

int factorised(const Lapack *lapack, index_t n, double *a) {
    if (!lapack || n <= SMALL) return cholesky(n, a);
    int order = (int)n, info = 0;
    lapack->dpotrf("U", &order, a, &order, &info); /* upper by columns is lower by rows */
    return info != 0;
}

void positive_factor(const Lapack *lapack, index_t n, const double *a, double *l) {
    double largest = 0.0;
    for (index_t i = 0; i < n; i++) largest = fmax(largest, a[i * n + i]);
    for (size_t attempt = 0; attempt < sizeof LIFTS / sizeof *LIFTS; attempt++) {
        memcpy(l, a, (size_t)(n * n) * sizeof *l);
        for (index_t i = 0; i < n; i++) l[i * n + i] += LIFTS[attempt] * largest;
        if (!factorised(lapack, n, l)) return;
    }
}

void forward(const Lapack *lapack, index_t n, const double *l, index_t m, double *b) {
    if (lapack && n > SMALL) {
        int rows = (int)m, order = (int)n;
        double one = 1.0;
        lapack->dtrsm("R", "U", "N", "N", &rows, &order, &one, (double *)l, &order, b, &rows);
        return;
    }
    for (index_t i = 0; i < n; i++) {
        double *row = b + i * m;
        for (index_t k = 0; k < i; k++) {
            double factor = l[i * n + k];
            const double *other = b + k * m;
            for (index_t c = 0; c < m; c++) row[c] -= factor * other[c];
        }
        for (index_t c = 0; c < m; c++) row[c] /= l[i * n + i];
    }
}

void backward(index_t n, const double *l, double *b) {
    for (index_t i = n - 1; i >= 0; i--) {
        const double *row = l + i * n;
        double x = b[i] /= row[i];
        for (index_t k = 0; k < i; k++) b[k] -= x * row[k];
    }
}

void gram(const Lapack *lapack, index_t n, index_t m, const double *y, double *g) {
    if (lapack && n > SMALL && m > 2) {
        int order = (int)m, inner = (int)n;
        double one = 1.0, zero = 0.0;
        lapack->dsyrk("U", "N", &order, &inner, &one, (double *)y, &order, &zero, g, &order);
        return;
    }
    memset(g, 0, (size_t)(m * m) * sizeof *g);
    for (index_t k = 0; k < n; k++) {
        const double *row = y + k * m;
        for (index_t i = 0; i < m; i++)
            for (index_t j = 0; j <= i; j++) g[i * m + j] += row[i] * row[j];
    }
}

void inverse_of_factor(const Lapack *lapack, index_t n, double *l) {
    if (lapack && n > SMALL) {
        int order = (int)n, info = 0;
        lapack->dpotri("U", &order, l, &order, &info);
    } else {
        for (index_t j = 0; j < n; j++) { /* L^-1 in place, column by column */
            l[j * n + j] = 1.0 / l[j * n + j];
            for (index_t i = j + 1; i < n; i++) {
                double sum = 0.0;
                for (index_t k = j; k < i; k++) sum -= l[i * n + k] * l[k * n + j];
                l[i * n + j] = sum / l[i * n + i];
            }
        }
        for (index_t i = 0; i < n; i++) /* L'^-1 L^-1: row i of it needs rows i and later of L^-1 only */
            for (index_t j = 0; j <= i; j++) {
                double sum = 0.0;
                for (index_t k = i; k < n; k++) sum += l[k * n + i] * l[k * n + j];
                l[i * n + j] = sum;
            }
    }
    for (index_t i = 0; i < n; i++)
        for (index_t j = 0; j < i; j++) l[j * n + i] = l[i * n + j];
}

index_t leading_room(index_t n) { return 33 * n + 8; }

/* By LAPACK: only the largest pair is computed. */
static int leading_by_lapack(const Lapack *lapack, index_t n, double *a, double *value, double *vector, double *work) {
    int order = (int)n, found = 0, info = 0, support[2], length = 26 * order, integers = 10 * order;
    double none = 0.0, *values = work, *room = work + n;
    int *places = (int *)(work + 27 * n);
    lapack->dsyevr("V", "I", "U", &order, a, &order, &none, &none, &order, &order, &none, &found, values, vector,
                   &order, support, room, &length, places, &integers, &info);
    *value = values[0];
    return info || found < 1;
}

int leading_eigenpair(const Lapack *lapack, index_t n, double *a, double *value, double *vector, double *work) {
    if (n == 1) {
        *value = a[0];
        *vector = 1.0;
        return 0;
    }
    if (lapack && n > SMALL) return leading_by_lapack(lapack, n, a, value, vector, work);
    int failed = symmetric_eigenpairs(n, a, work, work + n);
    *value = work[n - 1];
    for (index_t i = 0; i < n; i++) vector[i] = a[i * n + n - 1];
    return failed;
}
