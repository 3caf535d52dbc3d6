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

void solve_factored(index_t n, const double *l, double *b) {
    for (index_t i = 0; i < n; i++) {
        const double *row = l + i * n;
        double sum = b[i];
        for (index_t k = 0; k < i; k++) sum -= row[k] * b[k];
        b[i] = sum / row[i];
    }
    backward(n, l, b);
}

void symmetric_product(const Lapack *lapack, index_t n, const double *a, const double *x, double *y) {
    if (lapack && n > SMALL) {
        int order = (int)n, step = 1;
        double one = 1.0, zero = 0.0;
        lapack->dsymv("U", &order, &one, (double *)a, &order, (double *)x, &step, &zero, y, &step);
        return;
    }
    memset(y, 0, (size_t)n * sizeof *y);
    for (index_t k = 0; k < n; k++)
        for (index_t i = 0; i < n; i++) y[i] += x[k] * a[k * n + i];
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

enum { NEAR = 64 };  /* with fewer rows, all reflections of a matrix take less time than Lanczos iterations */
enum { STEPS = 48 }; /* of Lanczos iterations, at most */
static const double RESIDUAL = 1e-11; /* relative: the eigenvalue is then off by the square of it */
static const double IRREGULAR = 0.01; /* share of a fixed vector in a start: no matrix is orthogonal to it by design */

index_t near_room(index_t n) {
    index_t steps = (STEPS + 1) * n + STEPS * STEPS + 4 * STEPS, whole = leading_room(n);
    return steps > whole ? steps : whole;
}

static double norm(index_t n, const double *x) {
    double sum = 0.0;
    for (index_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

/* x without its parts along `count` orthonormal vectors, twice, because of rounding errors. */
static void orthogonalise(index_t n, index_t count, const double *basis, double *x) {
    for (int pass = 0; pass < 2; pass++)
        for (index_t k = 0; k < count; k++) {
            const double *each = basis + k * n;
            double along = 0.0;
            for (index_t i = 0; i < n; i++) along += each[i] * x[i];
            for (index_t i = 0; i < n; i++) x[i] -= along * each[i];
        }
}

/* The largest eigenpair of the tridiagonal matrix of `count` steps. Returns the residual, or -1 if there is none. */
static double ritz_pair(index_t count, const double *alpha, const double *beta, double *matrix, double *values,
                        double *work, double *value) {
    memset(matrix, 0, (size_t)(count * count) * sizeof *matrix);
    for (index_t k = 0; k < count; k++) {
        matrix[k * count + k] = alpha[k];
        if (k) matrix[k * count + k - 1] = matrix[(k - 1) * count + k] = beta[k - 1];
    }
    if (symmetric_eigenpairs(count, matrix, values, work)) return -1.0;
    *value = values[count - 1];
    return fabs(beta[count - 1] * matrix[count * count - 1]);
}

/* Lanczos iterations. Returns whether they converged. */
static int lanczos(const Lapack *lapack, index_t n, const double *a, double *value, double *vector, double *work) {
    double *basis = work, *matrix = basis + (STEPS + 1) * n, *alpha = matrix + STEPS * STEPS, *beta = alpha + STEPS;
    double *values = beta + STEPS, *spare = values + STEPS, size = norm(n, vector);
    for (index_t i = 0; i < n; i++) {
        double at = (double)(i + 1);
        basis[i] = vector[i] + IRREGULAR * size / sqrt((double)n) * cos(0.7 * at * at);
    }
    size = norm(n, basis);
    if (!(size > 0.0)) return 0;
    for (index_t i = 0; i < n; i++) basis[i] /= size;
    for (index_t k = 0; k < STEPS; k++) {
        const double *here = basis + k * n;
        double *next = basis + (k + 1) * n;
        symmetric_product(lapack, n, a, here, next);
        alpha[k] = 0.0;
        for (index_t i = 0; i < n; i++) alpha[k] += here[i] * next[i];
        orthogonalise(n, k + 1, basis, next);
        beta[k] = norm(n, next);
        int ended = !(beta[k] > 1e-14 * fabs(alpha[0]));
        if (ended || k == 7 || k == 11 || k == 17 || k == 24 || k == 34 || k == STEPS - 1) {
            double residual = ritz_pair(k + 1, alpha, beta, matrix, values, spare, value);
            if (residual >= 0.0 && residual <= RESIDUAL * fabs(*value)) {
                memset(vector, 0, (size_t)n * sizeof *vector);
                for (index_t j = 0; j <= k; j++)
                    for (index_t i = 0; i < n; i++) vector[i] += matrix[j * (k + 1) + k] * basis[j * n + i];
                return 1;
            }
            if (ended) return 0;
        }
        for (index_t i = 0; i < n; i++) next[i] /= beta[k];
    }
    return 0;
}

int leading_near(const Lapack *lapack, index_t n, double *a, double *value, double *vector, double *work) {
    if (n >= NEAR && lanczos(lapack, n, a, value, vector, work)) return 0;
    return leading_eigenpair(lapack, n, a, value, vector, work);
}
