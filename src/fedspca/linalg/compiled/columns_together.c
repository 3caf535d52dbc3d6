/* Twin of together.py: all columns of orthonormal loadings refitted together, on fixed supports that may overlap.
   The Newton step is computed in a basis of the tangent space, whose dimension is less than half of the entries. */
#include <math.h>
#include <string.h>

#include "columns.h"

#define RADIUS 0.7 /* these are the constants of together.py */
#define RIDGE 1e-9
#define VACUOUS 1e-14
#define FLAT 1e-3
#define ORTHONORMAL 1e-13
enum { RETRACTIONS = 12, LENGTHS = 3 };
static const double lengths[LENGTHS] = {1.0, 0.3, 0.09};

static double dot(index_t n, const double *a, const double *b) {
    double sum = 0.0;
    for (index_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Where the entries are, column by column. */
static void frame_on(Search *search, const index_t *const *supports) {
    Frame *frame = &search->frame;
    frame->n = 0;
    frame->p = search->r * (search->r + 1) / 2;
    for (index_t j = 0; j < search->r; j++)
        for (index_t i = 0; i < search->k[j]; i++) {
            frame->features[frame->n] = supports[j][i];
            frame->columns[frame->n++] = j;
        }
}

static void flat(Search *search, const double *w, double *x) {
    Frame *frame = &search->frame;
    for (index_t e = 0; e < frame->n; e++) x[e] = w[frame->columns[e] * search->d + frame->features[e]];
}

static void scattered(Search *search, const double *x, double *w) {
    Frame *frame = &search->frame;
    memset(w, 0, (size_t)(search->r * search->d) * sizeof *w);
    for (index_t e = 0; e < frame->n; e++) w[frame->columns[e] * search->d + frame->features[e]] = x[e];
}

/* S between entries of the same column, times x. */
static void image_of(Search *search, const double *x, double *image) {
    Frame *frame = &search->frame;
    index_t start = 0;
    for (index_t j = 0; j < search->r; j++) {
        index_t end = start + search->k[j];
        for (index_t a = start; a < end; a++) {
            const double *row = search->s + frame->features[a] * search->d;
            double sum = 0.0;
            for (index_t b = start; b < end; b++) sum += row[frame->features[b]] * x[b];
            image[a] = sum;
        }
        start = end;
    }
}

static double variance_of(Search *search, const double *x) {
    image_of(search, x, search->frame.gradient);
    return dot(search->frame.n, x, search->frame.gradient);
}

/* w_p' w_q minus one or zero for each pair of columns, and the largest of these errors. */
static double errors(Search *search, const double *w) {
    Frame *frame = &search->frame;
    index_t d = search->d, pair = 0;
    double most = 0.0;
    for (index_t e = 0; e < frame->p; e++) frame->error[e] = 0.0;
    for (index_t p = 0; p < search->r; p++)
        for (index_t q = p; q < search->r; q++, pair++) {
            double inner = p == q ? -1.0 : 0.0;
            for (index_t e = 0; e < frame->n; e++)
                if (frame->columns[e] == p)
                    inner += w[p * d + frame->features[e]] * w[q * d + frame->features[e]];
            frame->error[pair] = inner;
            if (fabs(inner) > most) most = fabs(inner);
        }
    return most;
}

/* The gradients of these constraints with regard to the entries: p x n. */
static void constraints(Search *search, const double *w) {
    Frame *frame = &search->frame;
    index_t d = search->d, n = frame->n;
    double *row = frame->jacobian;
    for (index_t p = 0; p < search->r; p++)
        for (index_t q = p; q < search->r; q++, row += n)
            for (index_t e = 0; e < n; e++) {
                index_t column = frame->columns[e], feature = frame->features[e];
                row[e] = (column == p ? w[q * d + feature] : 0.0) + (column == q ? w[p * d + feature] : 0.0);
            }
}

/* The factor of J J', with a one on the diagonal for a constraint without a gradient. */
static int factorised(Search *search) {
    Frame *frame = &search->frame;
    index_t n = frame->n, p = frame->p;
    double *normal = frame->normal, most = 0.0;
    for (index_t i = 0; i < p; i++)
        for (index_t j = 0; j <= i; j++)
            normal[i * p + j] = dot(n, frame->jacobian + i * n, frame->jacobian + j * n);
    for (index_t i = 0; i < p; i++)
        if (normal[i * p + i] > most) most = normal[i * p + i];
    for (index_t i = 0; i < p; i++) {
        double *own = normal + i * p + i;
        *own += (*own <= VACUOUS * most ? most : RIDGE * most) + 1e-300;
    }
    return cholesky(p, normal);
}

/* The nearest orthonormal loadings by least-norm corrections, x and w in place; returns whether there are any near. */
static int retracted(Search *search, double *x, double *w) {
    Frame *frame = &search->frame;
    double before = INFINITY;
    scattered(search, x, w);
    for (int step = 0; step < RETRACTIONS; step++) {
        double size = errors(search, w);
        if (!(size <= 0.5 * before || size <= ORTHONORMAL)) return 0;
        if (size <= ORTHONORMAL) return 1;
        before = size;
        constraints(search, w);
        if (factorised(search)) return 0;
        cholesky_solve(frame->p, frame->normal, 1, frame->error);
        for (index_t c = 0; c < frame->p; c++) {
            const double *row = frame->jacobian + c * frame->n, factor = frame->error[c];
            if (factor != 0.0)
                for (index_t e = 0; e < frame->n; e++) x[e] -= factor * row[e];
        }
        scattered(search, x, w);
    }
    return errors(search, w) <= 1e3 * ORTHONORMAL;
}

/* Reflections whose product turns the gradients of the constraints (rows of `jacobian`, overwritten) into the first
   coordinates, the longest first; returns how many gradients are independent. */
static index_t reflections(Frame *frame) {
    index_t n = frame->n, rank = 0;
    double *rows = frame->jacobian, largest = 0.0;
    for (index_t most = n < frame->p ? n : frame->p; rank < most; rank++) {
        index_t at = -1;
        double longest = -1.0;
        for (index_t c = rank; c < frame->p; c++) {
            double size = dot(n - rank, rows + c * n + rank, rows + c * n + rank);
            if (size > longest) {
                longest = size;
                at = c;
            }
        }
        if (!rank) largest = longest;
        if (!(longest > RIDGE * largest) || longest <= 1e-300) break;
        double *v = frame->reflectors + rank * n, *row = rows + at * n;
        memset(v, 0, (size_t)n * sizeof *v);
        memcpy(v + rank, row + rank, (size_t)(n - rank) * sizeof *v);
        memcpy(row, rows + rank * n, (size_t)n * sizeof *row);
        v[rank] += v[rank] >= 0.0 ? sqrt(longest) : -sqrt(longest);
        frame->scales[rank] = 2.0 / dot(n - rank, v + rank, v + rank);
        for (index_t c = rank + 1; c < frame->p; c++) {
            double *other = rows + c * n, along = frame->scales[rank] * dot(n - rank, v + rank, other + rank);
            for (index_t e = rank; e < n; e++) other[e] -= along * v[e];
        }
    }
    return rank;
}

/* An orthonormal basis of the tangent space, as rows; returns its dimension. */
static index_t tangent_basis(Frame *frame) {
    index_t n = frame->n, rank = reflections(frame);
    for (index_t t = rank; t < n; t++) {
        double *z = frame->tangent + (t - rank) * n;
        memset(z, 0, (size_t)n * sizeof *z);
        z[t] = 1.0;
        for (index_t o = rank - 1; o >= 0; o--) {
            const double *v = frame->reflectors + o * n;
            double along = frame->scales[o] * dot(n - o, v + o, z + o);
            for (index_t e = o; e < n; e++) z[e] -= along * v[e];
        }
    }
    return n - rank;
}

/* Twice the blocks of S, minus the multipliers between entries of the same feature: n x n. */
static void curvature(Search *search) {
    Frame *frame = &search->frame;
    index_t n = frame->n, r = search->r;
    for (index_t a = 0; a < n; a++)
        for (index_t b = 0; b < n; b++) {
            index_t p = frame->columns[a], q = frame->columns[b];
            double entry = p == q ? 2.0 * search->s[frame->features[a] * search->d + frame->features[b]] : 0.0;
            if (frame->features[a] == frame->features[b]) {
                index_t low = p < q ? p : q, high = p < q ? q : p;
                double multiplier = frame->multiplier[low * r - low * (low - 1) / 2 + high - low];
                entry -= p == q ? 2.0 * multiplier : multiplier;
            }
            frame->curvature[a * n + b] = entry;
        }
}

/* The Newton step in the tangent space, with absolute curvatures; returns 0 if there is none. */
static int newton_step(Search *search, const double *w, const double *x) {
    Frame *frame = &search->frame;
    index_t n = frame->n;
    constraints(search, w);
    if (factorised(search)) return 0;
    image_of(search, x, frame->gradient);
    for (index_t e = 0; e < n; e++) frame->gradient[e] *= 2.0;
    for (index_t c = 0; c < frame->p; c++) frame->multiplier[c] = dot(n, frame->jacobian + c * n, frame->gradient);
    cholesky_solve(frame->p, frame->normal, 1, frame->multiplier);
    curvature(search);
    index_t t = tangent_basis(frame);
    for (index_t i = 0; i < t; i++)
        for (index_t e = 0; e < n; e++)
            frame->half[i * n + e] = dot(n, frame->tangent + i * n, frame->curvature + e * n);
    for (index_t i = 0; i < t; i++)
        for (index_t j = 0; j <= i; j++)
            frame->reduced[i * t + j] = frame->reduced[j * t + i] =
                dot(n, frame->half + i * n, frame->tangent + j * n);
    if (symmetric_eigenpairs(t, frame->reduced, frame->values, frame->work)) return 0;
    double most = 0.0;
    for (index_t i = 0; i < t; i++) most = fabs(frame->values[i]) > most ? fabs(frame->values[i]) : most;
    for (index_t i = 0; i < t; i++) frame->work[i] = dot(n, frame->tangent + i * n, frame->gradient);
    for (index_t i = 0; i < t; i++) {
        double size = fabs(frame->values[i]), least = FLAT * most + 1e-300;
        frame->along[i] = 0.0;
        for (index_t j = 0; j < t; j++) frame->along[i] += frame->reduced[j * t + i] * frame->work[j];
        frame->along[i] /= size > least ? size : least;
    }
    memset(frame->step, 0, (size_t)n * sizeof(double));
    for (index_t i = 0; i < t; i++) {
        double factor = 0.0;
        for (index_t j = 0; j < t; j++) factor += frame->reduced[i * t + j] * frame->along[j];
        for (index_t e = 0; e < n; e++) frame->step[e] += factor * frame->tangent[i * n + e];
    }
    double longest = sqrt(dot(n, frame->step, frame->step)), radius = RADIUS * sqrt((double)search->r);
    if (longest > radius)
        for (index_t e = 0; e < n; e++) frame->step[e] *= radius / longest;
    return 1;
}

/* Argmax of tr(w' S w) over orthonormal w on given supports, from orthonormal w in place; returns the variance. */
double refitted(Search *search, double *w, const index_t *const *supports, index_t steps) {
    Frame *frame = &search->frame;
    frame_on(search, supports);
    flat(search, w, frame->x);
    double value = variance_of(search, frame->x);
    for (index_t step = 0; step < steps; step++) {
        int gained = 0;
        if (!newton_step(search, w, frame->x)) break;
        for (int length = 0; length < LENGTHS && !gained; length++) {
            for (index_t e = 0; e < frame->n; e++) frame->trial[e] = frame->x[e] + lengths[length] * frame->step[e];
            if (!retracted(search, frame->trial, frame->w)) continue;
            double after = variance_of(search, frame->trial);
            if (!(after > value * (1.0 + 1e-10))) continue;
            gained = 1;
            value = after;
            memcpy(frame->x, frame->trial, (size_t)frame->n * sizeof(double));
            memcpy(w, frame->w, (size_t)(search->r * search->d) * sizeof *w);
        }
        if (!gained) break;
    }
    return value;
}

/* Orthonormal loadings on given supports near others, in w; returns whether there are any. */
int nearest(Search *search, const double *near, const index_t *const *supports, double *w) {
    Frame *frame = &search->frame;
    frame_on(search, supports);
    flat(search, near, frame->x);
    index_t start = 0;
    for (index_t j = 0; j < search->r; j++) {
        double *x = frame->x + start, size = sqrt(dot(search->k[j], x, x));
        for (index_t i = 0; i < search->k[j]; i++) x[i] /= size > 1e-300 ? size : 1e-300;
        start += search->k[j];
    }
    return retracted(search, frame->x, w);
}
