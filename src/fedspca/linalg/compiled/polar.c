#include "polar.h"

#include <math.h>
#include <string.h>

#define DEPENDENT 1e-10 /* share of the largest eigenvalue of x' x at which columns count as dependent */
#define CLEARLY 1e-8    /* the same where eigenvalues are only estimated */
#define TURNED 0.05     /* eigenvectors of an earlier matrix are used while no two columns are nearer than this */
#define CORRECTIONS 8   /* of an inverse root, at most */
#define ROUNDING 1e-14
#define FEW 8           /* with at most so many columns, inverses are faster than anything */
#define HALVINGS 30     /* of the error, at most */
#define NEAR 1e-2       /* from this distance on the iterations need no scaling */
#define LAST 1e-3       /* from this distance on, five terms of a series have all digits */

index_t polar_work(index_t r) { return 8 * r * r + 2 * r + eigen_work(r); }

static void gram_matrix(const Lapack *lapack, index_t d, index_t r, const double *x, double *gram) {
    if (r * r * d > 4000) {
        product(lapack, 'N', 'T', r, r, d, x, d, x, d, gram, r);
        return;
    }
    for (index_t i = 0; i < r; i++)
        for (index_t j = 0; j <= i; j++) gram[i * r + j] = gram[j * r + i] = dot(d, x + i * d, x + j * d);
}

/* The inverse root of a 2 x 2 matrix G is that of (G + s I) / t, s^2 = det G, t^2 = tr G + 2 s. */
static int pair_root(const double *gram, double *root) {
    double a = gram[0], b = gram[1], c = gram[3], total = a + c, determinant = a * c - b * b;
    if (!(determinant - DEPENDENT * total * total > 0.0) || !(determinant > 1e-280) || isinf(determinant)) return 1;
    double s = sqrt(determinant), t = sqrt(total + 2.0 * s), scale = 1.0 / (s * t);
    root[0] = (c + s) * scale;
    root[3] = (a + s) * scale;
    root[1] = root[2] = -b * scale;
    return 0;
}

/* The inverse of a positive definite matrix in place, by Gauss-Jordan. Returns 1 where a pivot is not positive. */
static inline int invert(index_t r, double *a) {
    for (index_t p = 0; p < r; p++) {
        double *row = a + p * r, pivot = row[p];
        if (!(pivot > 0.0)) return 1;
        double inverse = 1.0 / pivot;
        row[p] = 1.0;
        for (index_t j = 0; j < r; j++) row[j] *= inverse;
        for (index_t i = 0; i < r; i++) {
            if (i == p) continue;
            double *other = a + i * r, factor = other[p];
            other[p] = 0.0;
            for (index_t j = 0; j < r; j++) other[j] -= factor * row[j];
        }
    }
    return 0;
}

/* out = a b, all r x r and apart. */
static inline void small_square(index_t r, const double *a, const double *b, double *restrict out) {
    for (index_t i = 0; i < r; i++) {
        for (index_t j = 0; j < r; j++) out[i * r + j] = a[i * r] * b[j];
        for (index_t t = 1; t < r; t++)
            for (index_t j = 0; j < r; j++) out[i * r + j] += a[i * r + t] * b[t * r + j];
    }
}

/* y becomes y (I + E)^(-1/2) for a small E, by five terms of the series: products take less time than inverses. */
static inline void last_correction(index_t r, const double *e, double *y, double *work) {
    index_t size = r * r;
    double *square = work, *high = square + size, *sum = high + size;
    small_square(r, e, e, square);
    for (index_t i = 0; i < size; i++) high[i] = -0.3125 * e[i] + 0.2734375 * square[i];
    small_square(r, square, high, sum);
    for (index_t i = 0; i < size; i++) sum[i] += -0.5 * e[i] + 0.375 * square[i];
    for (index_t i = 0; i < r; i++) sum[i * r + i] += 1.0;
    memcpy(high, y, (size_t)size * sizeof(double));
    small_square(r, high, sum, y);
}

/* The inverse root Y by the product form of Denman and Beavers (Cheng, Higham, Kenney, Laub 2001): with M = G, Y = I,
   M becomes (I + (M + 1/M) / 2) / 2 and Y becomes Y (I + 1/M) / 2. M is scaled while it is far from I. Returns 1 where
   the matrix is so nearly singular that its eigenvalues have to be looked at. */
static inline int root_by_inverses(index_t r, const double *gram, double *root, double *work) {
    double *m = work, *inverse = m + r * r, *old = inverse + r * r;
    index_t size = r * r;
    memcpy(m, gram, (size_t)size * sizeof(double));
    double error = 1.0;
    for (int k = 0; k < HALVINGS; k++) {
        memcpy(inverse, m, (size_t)size * sizeof(double));
        if (invert(r, inverse)) return 1;
        double square = 1.0;
        if (error > NEAR) {
            double norm = sqrt(dot(size, m, m)), other = sqrt(dot(size, inverse, inverse));
            if (k == 0 && !(norm * other * CLEARLY < 1.0)) return 1;
            square = sqrt(other / norm);
        }
        double scale = 0.5 * sqrt(square), up = 0.25 * square, down = 0.25 / square, part = scale / square;
        for (index_t i = 0; i < size; i++) m[i] = up * m[i] + down * inverse[i];
        for (index_t i = 0; i < size; i++) inverse[i] *= part;
        for (index_t i = 0; i < size; i += r + 1) {
            m[i] -= 0.5; /* M - I */
            inverse[i] += scale;
        }
        if (k == 0) {
            memcpy(root, inverse, (size_t)size * sizeof(double));
        } else {
            memcpy(old, root, (size_t)size * sizeof(double));
            small_square(r, old, inverse, root);
        }
        error = 0.0;
        for (index_t i = 0; i < size; i++) {
            double entry = fabs(m[i]);
            error = entry > error ? entry : error;
        }
        if (error * (double)r <= LAST) {
            last_correction(r, m, root, inverse);
            return 0;
        }
        for (index_t i = 0; i < size; i += r + 1) m[i] += 1.0;
    }
    return 1;
}

/* The same: a compiler unrolls loops whose lengths it knows. */
WIDE_TOO static int few_root(index_t r, const double *gram, double *root, double *work) {
    switch (r) {
        case 3: return root_by_inverses(3, gram, root, work);
        case 4: return root_by_inverses(4, gram, root, work);
        case 5: return root_by_inverses(5, gram, root, work);
        default: return root_by_inverses(r, gram, root, work);
    }
}

/* The inverse root by eigenpairs. Returns 1 where the matrix counts as singular, or there was no convergence. */
static int root_by_eigenpairs(const Lapack *lapack, index_t r, const double *gram, double *root, double *vectors,
                              double *work) {
    double *values = work, *scaled = values + r, *rest = scaled + r * r;
    memcpy(vectors, gram, (size_t)(r * r) * sizeof(double));
    if (eigenpairs(lapack, r, vectors, values, rest)) return 1;
    if (!(values[0] - DEPENDENT * values[r - 1] > 0.0)) return 1;
    for (index_t j = 0; j < r; j++) values[j] = 1.0 / sqrt(values[j]);
    for (index_t i = 0; i < r; i++)
        for (index_t j = 0; j < r; j++) scaled[i * r + j] = vectors[i * r + j] * values[j];
    product(lapack, 'N', 'T', r, r, r, scaled, r, vectors, r, root, r);
    return 0;
}

/* root = vectors * inner * vectors' */
static void turned_back(const Lapack *lapack, index_t r, const double *vectors, const double *inner, double *root,
                        double *work) {
    product(lapack, 'N', 'N', r, r, r, vectors, r, inner, r, work, r);
    product(lapack, 'N', 'T', r, r, r, work, r, vectors, r, root, r);
}

/* The inverse root from the eigenvectors V of an earlier matrix: B = V' G V is nearly diagonal, with roots s of its
   diagonal. The inverse root P of B solves P B P = I, and P + R / (s_i + s_j) is nearer to it for R = I - P B P. The
   result does not depend on V, up to rounding. Returns 1 where V is too far off. */
static int root_by_corrections(const Lapack *lapack, index_t r, const double *gram, double *root, const double *vectors,
                               double *work) {
    double *b = work, *p = b + r * r, *t = p + r * r, *left = t + r * r, *s = left + r * r;
    product(lapack, 'N', 'N', r, r, r, gram, r, vectors, r, t, r);
    product(lapack, 'T', 'N', r, r, r, vectors, r, t, r, b, r);
    double least = b[0], most = b[0], off = 0.0;
    for (index_t i = 0; i < r; i++) {
        double entry = b[i * r + i];
        least = entry < least ? entry : least;
        most = entry > most ? entry : most;
        s[i] = entry > 0.0 ? sqrt(entry) : 0.0;
    }
    if (!(least > CLEARLY * most)) return 1;
    for (index_t i = 0; i < r; i++) {
        for (index_t j = 0; j < i; j++) {
            double entry = 0.5 * (b[i * r + j] + b[j * r + i]), share = fabs(entry) / (s[i] * s[j]);
            b[i * r + j] = b[j * r + i] = entry;
            off = share > off ? share : off;
            p[i * r + j] = p[j * r + i] = -entry / (s[i] * s[j] * (s[i] + s[j]));
        }
        p[i * r + i] = 1.0 / s[i];
    }
    if (!(off <= TURNED)) return 1;
    double before = 0.0;
    for (int k = 0; k < CORRECTIONS; k++) {
        product(lapack, 'N', 'N', r, r, r, b, r, p, r, t, r);
        product(lapack, 'N', 'N', r, r, r, p, r, t, r, left, r);
        double error = 0.0;
        for (index_t i = 0; i < r; i++) {
            for (index_t j = 0; j <= i; j++) {
                double entry = (i == j) - 0.5 * (left[i * r + j] + left[j * r + i]), size = fabs(entry);
                if (!isfinite(size)) return 1; /* products of three roots underflow long before the roots do */
                error = size > error ? size : error;
                p[i * r + j] += entry / (s[i] + s[j]);
                p[j * r + i] = p[i * r + j];
            }
        }
        double rate = k ? error / before : (double)r * off;
        if (error * (rate < 1.0 ? rate : 1.0) <= ROUNDING) {
            turned_back(lapack, r, vectors, p, root, t);
            return 0;
        }
        if (k && rate > 0.5) return 1;
        before = error;
    }
    return 1;
}

static int inverse_root(const Lapack *lapack, index_t r, const double *gram, double *root, earlier_t *earlier,
                        double *work) {
    if (r == 2) return pair_root(gram, root);
    if (r <= FEW && few_root(r, gram, root, work) == 0) return 0;
    double *vectors = work, *rest = work + r * r;
    if (earlier != NULL) {
        vectors = earlier->vectors;
        if (!*earlier->fresh && root_by_corrections(lapack, r, gram, root, vectors, rest) == 0) return 0;
        *earlier->fresh = 1;
    }
    if (root_by_eigenpairs(lapack, r, gram, root, vectors, rest)) return 1;
    if (earlier != NULL) *earlier->fresh = 0;
    return 0;
}

/* out = root x, where the columns are rows here. */
WIDE_TOO static void turned_columns(const Lapack *lapack, index_t d, index_t r, const double *root, const double *x,
                                    double *restrict out) {
    if (r * r * d > 4000) {
        product(lapack, 'N', 'N', r, d, r, root, r, x, d, out, d);
        return;
    }
    for (index_t j = 0; j < r; j++) {
        double *column = out + j * d;
        for (index_t i = 0; i < d; i++) column[i] = root[j * r] * x[i];
        for (index_t k = 1; k < r; k++) {
            double factor = root[j * r + k];
            const double *other = x + k * d;
            for (index_t i = 0; i < d; i++) column[i] += factor * other[i];
        }
    }
}

int nearest_orthonormal(const Lapack *lapack, index_t d, index_t r, const double *x, double *out, earlier_t *earlier, double *work) {
    double *gram = work, *root = gram + r * r, *rest = root + r * r;
    gram_matrix(lapack, d, r, x, gram);
    if (inverse_root(lapack, r, gram, root, earlier, rest)) return nearest_by_svd(lapack, d, r, x, out);
    turned_columns(lapack, d, r, root, x, out);
    return 0;
}
