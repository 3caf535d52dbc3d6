#include "blas.h"

#include <stdlib.h>
#include <string.h>

/* Below this many multiplications a call takes longer than a plain loop. */
#define SMALL_PRODUCT 700
/* With so few terms a product only reads and writes: a plain loop is as fast. */
#define THIN_PRODUCT 4
/* Beyond this size LAPACK's divide and conquer is faster. */
#define SMALL_EIGEN 12

double dot(index_t n, const double *a, const double *b) {
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    index_t i = 0;
    for (; i + 4 <= n; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    for (; i < n; i++) s0 += a[i] * b[i];
    return (s0 + s2) + (s1 + s3);
}

void small_product(char ta, char tb, index_t m, index_t n, index_t k, const double *a, index_t lda,
                   const double *b, index_t ldb, double *c, index_t ldc) {
    if (ta == 'N' && tb == 'T') {
        for (index_t i = 0; i < m; i++)
            for (index_t j = 0; j < n; j++) c[i * ldc + j] = dot(k, a + i * lda, b + j * ldb);
        return;
    }
    for (index_t i = 0; i < m; i++) {
        double *row = c + i * ldc;
        for (index_t j = 0; j < n; j++) row[j] = 0.0;
        for (index_t t = 0; t < k; t++) {
            double factor = ta == 'N' ? a[i * lda + t] : a[t * lda + i];
            if (tb == 'N') {
                const double *other = b + t * ldb;
                for (index_t j = 0; j < n; j++) row[j] += factor * other[j];
            } else {
                for (index_t j = 0; j < n; j++) row[j] += factor * b[j * ldb + t];
            }
        }
    }
}

void product(const Lapack *lapack, char ta, char tb, index_t m, index_t n, index_t k, const double *a, index_t lda,
             const double *b, index_t ldb, double *c, index_t ldc) {
    if (m * n * k <= SMALL_PRODUCT) {
        small_product(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
        return;
    }
    /* in column-major order these arrays are the transposes, and c' = op(b)' op(a)' */
    int rows = (int)n, columns = (int)m, terms = (int)k, first = (int)ldb, second = (int)lda, last = (int)ldc;
    double one = 1.0, zero = 0.0;
    lapack->dgemm(&tb, &ta, &rows, &columns, &terms, &one, (double *)b, &first, (double *)a, &second, &zero, c,
                  &last);
}

void take_off(const Lapack *lapack, index_t m, index_t n, index_t k, const double *a, const double *b, double *c) {
    if (k <= THIN_PRODUCT) {
        for (index_t i = 0; i < m; i++)
            for (index_t t = 0; t < k; t++) {
                double factor = a[i * k + t];
                for (index_t j = 0; j < n; j++) c[i * n + j] -= factor * b[t * n + j];
            }
        return;
    }
    int rows = (int)n, columns = (int)m, terms = (int)k;
    double minus = -1.0, one = 1.0;
    lapack->dgemm("N", "N", &rows, &columns, &terms, &minus, (double *)b, &rows, (double *)a, &terms, &one, c, &rows);
}

void images(const Lapack *lapack, const quadratic_t *q, index_t n, const double *x, double *out, double *seen) {
    index_t d = q->d, m = q->m;
    if (q->dense) {
        product(lapack, 'N', 'N', n, d, d, x, d, q->factor, d, out, d);
    } else {
        product(lapack, 'N', 'N', n, m, d, x, d, q->factor, m, seen, m);
        if (q->signs != NULL)
            for (index_t i = 0; i < n; i++)
                for (index_t j = 0; j < m; j++) seen[i * m + j] *= q->signs[j];
        product(lapack, 'N', 'T', n, d, m, seen, m, q->factor, m, out, d);
    }
    if (q->shift != 0.0)
        for (index_t i = 0; i < n * d; i++) out[i] += q->shift * x[i];
}

index_t eigen_work(index_t n) {
    return n <= SMALL_EIGEN ? n : 1 + 6 * n + 2 * n * n + 3 + 5 * n + n * n;
}

int eigenpairs(const Lapack *lapack, index_t n, double *a, double *values, double *work) {
    if (n <= SMALL_EIGEN) return symmetric_eigenpairs(n, a, values, work);
    int order = (int)n, info = 0, sizes = (int)(1 + 6 * n + 2 * n * n), whole = (int)(3 + 5 * n);
    double *turned = work + sizes + whole;
    lapack->dsyevd("V", "L", &order, a, &order, values, work, &sizes, (int *)(work + sizes), &whole, &info);
    if (info) return 1;
    for (index_t i = 0; i < n; i++) /* LAPACK's columns are rows here */
        for (index_t j = 0; j < n; j++) turned[j * n + i] = a[i * n + j];
    memcpy(a, turned, (size_t)(n * n) * sizeof(double));
    return 0;
}

int nearest_by_svd(const Lapack *lapack, index_t d, index_t r, const double *x, double *out) {
    int rows = (int)d, columns = (int)r, info = 0, query = -1;
    double size = 0.0, one = 1.0, zero = 0.0;
    int *whole = malloc((size_t)(8 * r) * sizeof(int));
    double *memory = malloc((size_t)(2 * d * r + r * r + r) * sizeof(double));
    if (whole == NULL || memory == NULL) {
        free(whole);
        free(memory);
        return -1;
    }
    double *copy = memory, *left = copy + d * r, *right = left + d * r, *values = right + r * r;
    memcpy(copy, x, (size_t)(d * r) * sizeof(double));
    lapack->dgesdd("S", &rows, &columns, copy, &rows, values, left, &rows, right, &columns, &size, &query, whole, &info);
    int length = (int)size;
    double *work = malloc((size_t)length * sizeof(double));
    if (work != NULL) {
        lapack->dgesdd("S", &rows, &columns, copy, &rows, values, left, &rows, right, &columns, work, &length, whole,
                     &info);
        if (info == 0)
            lapack->dgemm("N", "N", &rows, &columns, &columns, &one, left, &rows, right, &columns, &zero, out, &rows);
    }
    int status = work == NULL ? -1 : info != 0;
    free(work);
    free(whole);
    free(memory);
    return status;
}
