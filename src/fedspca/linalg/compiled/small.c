#include "small.h"

#include <float.h>
#include <math.h>

EXPORT int64_t fedspca_interface(void) { return 3; }

/* Householder's reduction to a tridiagonal matrix: its diagonal d, the entries e beside it, and the product of the
   reflections in place of a (Golub and Van Loan, 8.3). */
static void tridiagonal(index_t n, double *a, double *d, double *e) {
    for (index_t i = n - 1; i > 0; i--) {
        double *row = a + i * n;
        double h = 0.0, scale = 0.0;
        if (i > 1)
            for (index_t k = 0; k < i; k++) scale += fabs(row[k]);
        if (scale == 0.0) {
            e[i] = row[i - 1];
            d[i] = 0.0;
            continue;
        }
        for (index_t k = 0; k < i; k++) {
            row[k] /= scale;
            h += row[k] * row[k];
        }
        double f = row[i - 1], g = f >= 0.0 ? -sqrt(h) : sqrt(h);
        e[i] = scale * g;
        h -= f * g;
        row[i - 1] = f - g;
        f = 0.0;
        for (index_t j = 0; j < i; j++) {
            a[j * n + i] = row[j] / h;
            g = 0.0;
            for (index_t k = 0; k <= j; k++) g += a[j * n + k] * row[k];
            for (index_t k = j + 1; k < i; k++) g += a[k * n + j] * row[k];
            e[j] = g / h;
            f += e[j] * row[j];
        }
        double half = f / (h + h);
        for (index_t j = 0; j < i; j++) {
            f = row[j];
            e[j] = g = e[j] - half * f;
            for (index_t k = 0; k <= j; k++) a[j * n + k] -= f * e[k] + g * row[k];
        }
        d[i] = h;
    }
    d[0] = e[0] = 0.0;
    for (index_t i = 0; i < n; i++) {
        double *row = a + i * n;
        if (d[i] != 0.0) {
            for (index_t j = 0; j < i; j++) {
                double g = 0.0;
                for (index_t k = 0; k < i; k++) g += row[k] * a[k * n + j];
                for (index_t k = 0; k < i; k++) a[k * n + j] -= g * a[k * n + i];
            }
        }
        d[i] = row[i];
        row[i] = 1.0;
        for (index_t j = 0; j < i; j++) row[j] = a[j * n + i] = 0.0;
    }
}

/* Implicit QL steps with Wilkinson's shift; the columns of a are turned along. */
static int diagonal(index_t n, double *a, double *d, double *e) {
    for (index_t i = 1; i < n; i++) e[i - 1] = e[i];
    e[n - 1] = 0.0;
    for (index_t l = 0; l < n; l++) {
        for (int iteration = 0;; iteration++) {
            index_t m = l;
            for (; m < n - 1; m++) {
                double size = fabs(d[m]) + fabs(d[m + 1]);
                if (fabs(e[m]) <= DBL_EPSILON * size || fabs(e[m]) < DBL_MIN) break;
            }
            if (m == l) break;
            if (iteration == 60) return 1;
            double g = (d[l + 1] - d[l]) / (2.0 * e[l]), r = hypot(g, 1.0);
            g = d[m] - d[l] + e[l] / (g + (g >= 0.0 ? r : -r));
            double s = 1.0, c = 1.0, p = 0.0;
            index_t i = m - 1;
            for (; i >= l; i--) {
                double f = s * e[i], b = c * e[i];
                e[i + 1] = r = sqrt(f * f + g * g);
                if (r == 0.0) {
                    d[i + 1] -= p;
                    e[m] = 0.0;
                    break;
                }
                s = f / r;
                c = g / r;
                g = d[i + 1] - p;
                r = (d[i] - g) * s + 2.0 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                for (index_t k = 0; k < n; k++) {
                    double *pair = a + k * n + i;
                    f = pair[1];
                    pair[1] = s * pair[0] + c * f;
                    pair[0] = c * pair[0] - s * f;
                }
            }
            if (r == 0.0 && i >= l) continue;
            d[l] -= p;
            e[l] = g;
            e[m] = 0.0;
        }
    }
    return 0;
}

/* A tridiagonal matrix whose squares would overflow or vanish is divided by its largest entry. Returns what it was
   divided by, or 1. */
static double scaled(index_t n, double *d, double *e) {
    double size = 0.0;
    for (index_t i = 0; i < n; i++) size = fmax(size, fmax(fabs(d[i]), fabs(e[i])));
    if (!(size > 0.0) || !isfinite(size) || (size > 1e-140 && size < 1e140)) return 1.0;
    for (index_t i = 0; i < n; i++) {
        d[i] /= size;
        e[i] /= size;
    }
    return size;
}

int symmetric_eigenpairs(index_t n, double *a, double *values, double *work) {
    if (n == 0) return 0;
    tridiagonal(n, a, values, work);
    double size = scaled(n, values, work);
    if (diagonal(n, a, values, work)) return 1;
    for (index_t i = 0; size != 1.0 && i < n; i++) values[i] *= size;
    for (index_t i = 0; i < n - 1; i++) {
        index_t least = i;
        for (index_t j = i + 1; j < n; j++)
            if (values[j] < values[least]) least = j;
        if (least == i) continue;
        double value = values[i];
        values[i] = values[least];
        values[least] = value;
        for (index_t k = 0; k < n; k++) {
            double entry = a[k * n + i];
            a[k * n + i] = a[k * n + least];
            a[k * n + least] = entry;
        }
    }
    return 0;
}

int cholesky(index_t n, double *a) {
    for (index_t j = 0; j < n; j++) {
        double *row = a + j * n, pivot = row[j];
        for (index_t k = 0; k < j; k++) pivot -= row[k] * row[k];
        if (!(pivot > 0.0)) return 1;
        row[j] = pivot = sqrt(pivot);
        for (index_t i = j + 1; i < n; i++) {
            double *other = a + i * n, sum = other[j];
            for (index_t k = 0; k < j; k++) sum -= other[k] * row[k];
            other[j] = sum / pivot;
        }
    }
    return 0;
}

void cholesky_solve(index_t n, const double *l, index_t m, double *b) {
    for (index_t i = 0; i < n; i++) {
        for (index_t k = 0; k < i; k++) {
            double factor = l[i * n + k];
            for (index_t c = 0; c < m; c++) b[i * m + c] -= factor * b[k * m + c];
        }
        for (index_t c = 0; c < m; c++) b[i * m + c] /= l[i * n + i];
    }
    for (index_t i = n - 1; i >= 0; i--) {
        for (index_t k = i + 1; k < n; k++) {
            double factor = l[k * n + i];
            for (index_t c = 0; c < m; c++) b[i * m + c] -= factor * b[k * m + c];
        }
        for (index_t c = 0; c < m; c++) b[i * m + c] /= l[i * n + i];
    }
}

/* For tests: the same through pointers of numpy. */
EXPORT int64_t fedspca_eigenpairs(int64_t n, double *a, double *values, double *work) {
    return symmetric_eigenpairs(n, a, values, work);
}
