/* Twin of polish._newton: a Newton step of all columns together, on fixed supports, that need not be orthogonal. With P
   the projection on their span, B = w (w' w)^-1, Q = I - P and N = Q S B, the second derivative with regard to the
   entries (a, i) and (b, j) is twice (Q S Q)_ab (w' w)^-1_ij - Q_ab (B' S B)_ij - B_aj N_bi - N_aj B_bi. */
#include <math.h>
#include <string.h>

#include "columns.h"

#define RIDGE 1e-9 /* these are the constants of polish.py */
#define FLAT 1e-3
#define PARALLEL 5e-4
enum { LENGTHS = 3 };
static const double lengths[LENGTHS] = {1.0, 0.3, 0.09};

/* The non-zeros of w: their features, their columns, and how many there are. */
static index_t entries_of(const Search *search, const double *w, index_t *features, index_t *columns) {
    index_t n = 0;
    for (index_t j = 0; j < search->r; j++)
        for (index_t i = 0; i < search->d; i++)
            if (w[j * search->d + i] != 0.0) {
                features[n] = i;
                columns[n++] = j;
            }
    return n;
}

/* The Cholesky factor of w' w into `gram`; returns 1 where w is dependent. */
static int factor_gram(const Search *search, const double *w) {
    index_t d = search->d, r = search->r;
    double *gram = search->gram;
    for (index_t i = 0; i < r; i++)
        for (index_t j = 0; j < r; j++) gram[i * r + j] = dot(d, w + i * d, w + j * d);
    return cholesky(r, gram);
}

/* Twin of polish.nearly_dependent. */
int nearly_dependent(const Search *search, const double *w) {
    if (factor_gram(search, w)) return 1;
    for (index_t j = 0; j < search->r; j++)
        if (search->gram[j * search->r + j] < PARALLEL) return 1;
    return 0;
}

/* (w' w)^-1 into `inverse`; returns 1 where w is dependent. */
static int inverse_gram(const Search *search, const double *w, double *inverse) {
    index_t r = search->r;
    memset(inverse, 0, (size_t)(r * r) * sizeof *inverse);
    for (index_t i = 0; i < r; i++) inverse[i * r + i] = 1.0;
    if (factor_gram(search, w)) return 1;
    cholesky_solve(r, search->gram, r, inverse);
    return 0;
}

/* B, S B, B' S B and N = Q S B, for P S P beside all columns. */
static void dual_basis(Search *search, const double *w, const double *inverse, double *dual, double *core,
                       double *slope) {
    index_t d = search->d, r = search->r;
    memset(dual, 0, (size_t)(r * d) * sizeof *dual);
    memset(slope, 0, (size_t)(r * d) * sizeof *slope);
    for (index_t i = 0; i < r; i++) {
        for (index_t j = 0; j < r; j++) add_scaled(d, inverse[j * r + i], w + j * d, dual + i * d);
        for (index_t a = 0; a < d; a++)
            if (dual[i * d + a] != 0.0) add_scaled(d, dual[i * d + a], search->s + a * d, slope + i * d);
    }
    for (index_t i = 0; i < r; i++)
        for (index_t j = 0; j < r; j++) core[i * r + j] = dot(d, dual + i * d, slope + j * d);
    for (index_t i = 0; i < r; i++)
        for (index_t p = 0; p < search->beside.q; p++) {
            const double *b = search->beside.basis + p * d;
            add_scaled(d, -dot(d, b, slope + i * d), b, slope + i * d);
        }
}

/* The second derivative, n x n, negative where the length of a column changes; returns its largest diagonal entry. */
static double second_derivative(Search *search, index_t n, const double *w, const double *inverse, const double *core) {
    Frame *frame = &search->frame;
    const double *dual = search->step, *slope = search->stepped;
    index_t d = search->d, r = search->r, q = search->beside.q;
    double *hessian = frame->reduced, size = 0.0;
    for (index_t e = 0; e < n; e++) {
        index_t a = frame->features[e], i = frame->where[e];
        const double *row = row_beside(search, a);
        for (index_t f = 0; f < n; f++) {
            index_t b = frame->features[f], j = frame->where[f];
            double off = a == b;
            for (index_t p = 0; p < q; p++) off -= search->beside.basis[p * d + a] * search->beside.basis[p * d + b];
            hessian[e * n + f] = row[b] * inverse[i * r + j] - off * core[i * r + j] -
                                 dual[j * d + a] * slope[i * d + b] - slope[j * d + a] * dual[i * d + b];
        }
        if (fabs(hessian[e * n + e]) > size) size = fabs(hessian[e * n + e]);
    }
    for (index_t e = 0; e < n; e++) {
        for (index_t f = 0; f < n; f++)
            if (frame->where[e] == frame->where[f])
                hessian[e * n + f] -= size * w[frame->where[e] * d + frame->features[e]] *
                                      w[frame->where[f] * d + frame->features[f]];
        hessian[e * n + e] -= RIDGE * size;
    }
    return size;
}

/* The slope over the curvature, in `step`: absolute curvatures where the second derivative is indefinite. */
static int solve_step(Frame *frame, index_t n, double size) {
    double *vectors = frame->reduced, *negative = frame->half;
    for (index_t i = 0; i < n * n; i++) negative[i] = -vectors[i];
    memcpy(frame->step, frame->slope, (size_t)n * sizeof(double));
    if (!cholesky(n, negative)) {
        cholesky_solve(n, negative, 1, frame->step);
        return 1;
    }
    if (symmetric_eigenpairs(n, vectors, frame->values, frame->work)) return 0;
    for (index_t i = 0; i < n; i++) {
        double curvature = fabs(frame->values[i]), sum = 0.0;
        for (index_t j = 0; j < n; j++) sum += vectors[j * n + i] * frame->slope[j];
        frame->work[i] = sum / (curvature > FLAT * size ? curvature : FLAT * size);
    }
    for (index_t i = 0; i < n; i++) frame->step[i] = dot(n, vectors + i * n, frame->work);
    return 1;
}

/* w moved along the step, its columns of length one; returns the variance of their span, if they are far enough apart. */
static double moved_along(Search *search, index_t n, double length, const double *w, double *trial) {
    Frame *frame = &search->frame;
    index_t d = search->d, r = search->r;
    memcpy(trial, w, (size_t)(r * d) * sizeof *trial);
    for (index_t e = 0; e < n; e++) trial[frame->where[e] * d + frame->features[e]] += length * frame->step[e];
    for (index_t j = 0; j < r; j++) {
        double size = sqrt(dot(d, trial + j * d, trial + j * d));
        if (!(size > 1e-150) || !isfinite(size)) return -INFINITY;
        for (index_t i = 0; i < d; i++) trial[j * d + i] /= size;
    }
    if (nearly_dependent(search, trial)) return -INFINITY;
    beside_others(search, trial, r, r, 0);
    return search->beside.captured;
}

/* The best of some lengths of a Newton step, if it gains: w in place; returns the variance. */
double free_step(Search *search, double *w, double variance) {
    Frame *frame = &search->frame;
    index_t d = search->d, n = entries_of(search, w, frame->features, frame->where);
    double *inverse = search->product, *core = search->turn, *dual = search->step, *slope = search->stepped;
    if (inverse_gram(search, w, inverse)) return variance;
    beside_others(search, w, search->r, search->r, 0);
    dual_basis(search, w, inverse, dual, core, slope);
    double size = second_derivative(search, n, w, inverse, core);
    for (index_t e = 0; e < n; e++) frame->slope[e] = slope[frame->where[e] * d + frame->features[e]];
    if (!(size > 0.0) || !solve_step(frame, n, size)) return variance;
    double best = variance, *trial = search->stepped, *kept = search->step;
    for (int length = 0; length < LENGTHS; length++) {
        double after = moved_along(search, n, lengths[length], w, trial);
        if (!(after > best)) continue;
        best = after;
        memcpy(kept, trial, (size_t)(search->r * d) * sizeof *trial);
    }
    if (best > variance) memcpy(w, kept, (size_t)(search->r * d) * sizeof *w);
    return best;
}
