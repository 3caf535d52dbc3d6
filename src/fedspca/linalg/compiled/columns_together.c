/* Twin of together.py: all columns of orthonormal loadings refitted together, on fixed supports that may overlap.
   Columns that share no feature with another are the best on their supports already, and stay as they are. The Newton
   step is computed in a basis of the tangent space, whose dimension is less than half of the entries. */
#include <math.h>
#include <string.h>

#include "columns.h"

#define RADIUS 0.7 /* these are the constants of together.py */
#define RIDGE 1e-9
#define VACUOUS 1e-14
#define FLAT 1e-3
#define ORTHONORMAL 1e-13
#define RISE 1e-10
enum { RETRACTIONS = 12, LENGTHS = 3 };
static const double lengths[LENGTHS] = {1.0, 0.3, 0.09};

/* As in small.h, for one right-hand side: sums that do not wait for each other, and a division for each column only. The
   sums of a column are independent; those of a row would wait for each other. */
static int factor(index_t n, double *a) {
    for (index_t j = 0; j < n; j++) {
        double *row = a + j * n, pivot = row[j] - dot(j, row, row);
        if (!(pivot > 0.0)) return 1;
        double inverse = row[j] = 1.0 / sqrt(pivot); /* the inverse is what is needed */
        for (index_t i = j + 1; i < n; i++) a[i * n + j] = (a[i * n + j] - dot(j, a + i * n, row)) * inverse;
    }
    return 0;
}

static void solve(index_t n, const double *l, double *b) {
    for (index_t i = 0; i < n; i++) b[i] = (b[i] - dot(i, l + i * n, b)) * l[i * n + i];
    for (index_t i = n - 1; i >= 0; i--) {
        b[i] *= l[i * n + i];
        add_scaled(i, -b[i], l + i * n, b);
    }
}

static int share_a_feature(index_t m, const index_t *a, index_t n, const index_t *b) {
    for (index_t i = 0, j = 0; i < m && j < n;) {
        if (a[i] == b[j]) return 1;
        if (a[i] < b[j]) i++;
        else j++;
    }
    return 0;
}

/* Whether a column shares a feature with another. */
static int linked(const Search *search, const index_t *const *supports, index_t j) {
    for (index_t i = 0; i < search->r; i++)
        if (i != j && share_a_feature(search->k[i], supports[i], search->k[j], supports[j])) return 1;
    return 0;
}

/* The columns that share features, their entries one after the other, and the pairs of columns that do. */
static void frame_on(Search *search, const index_t *const *supports) {
    Frame *frame = &search->frame;
    const index_t *k = search->k;
    frame->n = frame->c = frame->p = 0;
    for (index_t j = 0; j < search->r; j++) {
        if (!linked(search, supports, j)) continue;
        frame->start[frame->c] = frame->n;
        frame->column[frame->c++] = j;
        for (index_t i = 0; i < k[j]; i++) frame->features[frame->n++] = supports[j][i];
    }
    frame->start[frame->c] = frame->n;
    for (index_t p = 0; p < frame->c; p++)
        for (index_t q = p; q < frame->c; q++) {
            index_t i = frame->column[p], j = frame->column[q];
            if (p != q && !share_a_feature(k[i], supports[i], k[j], supports[j])) continue;
            frame->first[frame->p] = p;
            frame->second[frame->p++] = q;
        }
    for (index_t e = 0; e < frame->n; e++)
        for (index_t q = 0; q < frame->c; q++) {
            index_t at = frame->start[q];
            while (at < frame->start[q + 1] && frame->features[at] != frame->features[e]) at++;
            frame->where[e * frame->c + q] = at < frame->start[q + 1] ? at : -1;
        }
    double *block = frame->blocks;
    for (index_t q = 0; q < frame->c; q++)
        for (index_t a = frame->start[q]; a < frame->start[q + 1]; a++)
            for (index_t b = frame->start[q]; b < frame->start[q + 1]; b++)
                *block++ = search->s[frame->features[a] * search->d + frame->features[b]];
}

static void flat(Search *search, const double *w, double *x) {
    Frame *frame = &search->frame;
    for (index_t q = 0; q < frame->c; q++)
        for (index_t e = frame->start[q]; e < frame->start[q + 1]; e++)
            x[e] = w[frame->column[q] * search->d + frame->features[e]];
}

static void scatter(Search *search, const double *x, double *w) {
    Frame *frame = &search->frame;
    for (index_t q = 0; q < frame->c; q++) {
        double *column = w + frame->column[q] * search->d;
        memset(column, 0, (size_t)search->d * sizeof *column);
        for (index_t e = frame->start[q]; e < frame->start[q + 1]; e++) column[frame->features[e]] = x[e];
    }
}

/* S between entries of the same column, times x. */
static void image_of(const Frame *frame, const double *x, double *image) {
    const double *row = frame->blocks;
    for (index_t q = 0; q < frame->c; q++) {
        index_t start = frame->start[q], k = frame->start[q + 1] - start;
        for (index_t a = 0; a < k; a++, row += k) image[start + a] = dot(k, row, x + start);
    }
}

static double variance_of(Frame *frame, const double *x) {
    image_of(frame, x, frame->gradient);
    return dot(frame->n, x, frame->gradient);
}

/* The variance of all columns. */
static double variance_in_all(Search *search, const double *w, const index_t *const *supports) {
    index_t d = search->d;
    double sum = 0.0;
    for (index_t j = 0; j < search->r; j++)
        for (index_t a = 0; a < search->k[j]; a++) {
            const double *row = search->s + supports[j][a] * d;
            double image = 0.0;
            for (index_t b = 0; b < search->k[j]; b++) image += row[supports[j][b]] * w[j * d + supports[j][b]];
            sum += w[j * d + supports[j][a]] * image;
        }
    return sum;
}

/* w_p' w_q minus one or zero for each pair of columns, and the largest of these errors. */
static double errors(Frame *frame, const double *x) {
    double most = 0.0;
    for (index_t i = 0; i < frame->p; i++) {
        index_t p = frame->first[i], q = frame->second[i];
        double inner = p == q ? -1.0 : 0.0;
        for (index_t e = frame->start[p]; e < frame->start[p + 1]; e++) {
            index_t other = frame->where[e * frame->c + q];
            if (other >= 0) inner += x[e] * x[other];
        }
        frame->error[i] = inner;
        if (fabs(inner) > most) most = fabs(inner);
    }
    return most;
}

/* The weights in column q of the features of column p: what a constraint gains there. */
static void gradient_of(const Frame *frame, const double *x, index_t p, index_t q, double factor, double *row) {
    for (index_t e = frame->start[p]; e < frame->start[p + 1]; e++) {
        index_t other = frame->where[e * frame->c + q];
        row[e] = other >= 0 ? factor * x[other] : 0.0;
    }
}

/* The gradients of the constraints with regard to the entries: p x n. */
static void constraints(Frame *frame, const double *x) {
    memset(frame->jacobian, 0, (size_t)(frame->p * frame->n) * sizeof(double));
    for (index_t i = 0; i < frame->p; i++) {
        index_t p = frame->first[i], q = frame->second[i];
        double *row = frame->jacobian + i * frame->n;
        gradient_of(frame, x, p, q, p == q ? 2.0 : 1.0, row);
        if (p != q) gradient_of(frame, x, q, p, 1.0, row);
    }
}

static double dot_on_column(const Frame *frame, index_t q, const double *a, const double *b) {
    index_t start = frame->start[q];
    return dot(frame->start[q + 1] - start, a + start, b + start);
}

/* The factor of J J', with a one on the diagonal for a constraint without a gradient. */
static int factorised(Frame *frame) {
    index_t n = frame->n, m = frame->p;
    double *normal = frame->normal, most = 0.0;
    for (index_t i = 0; i < m; i++)
        for (index_t j = 0; j <= i; j++) { /* gradients meet in the columns that both pairs have */
            index_t p = frame->first[i], q = frame->second[i], o = frame->first[j], u = frame->second[j];
            const double *a = frame->jacobian + i * n, *b = frame->jacobian + j * n;
            double sum = p == o || p == u ? dot_on_column(frame, p, a, b) : 0.0;
            if (q != p && (q == o || q == u)) sum += dot_on_column(frame, q, a, b);
            normal[i * m + j] = sum;
        }
    for (index_t i = 0; i < m; i++)
        if (normal[i * m + i] > most) most = normal[i * m + i];
    for (index_t i = 0; i < m; i++) {
        double *own = normal + i * m + i;
        *own += (*own <= VACUOUS * most ? most : RIDGE * most) + 1e-300;
    }
    return factor(m, normal);
}

/* The nearest orthonormal loadings by least-norm corrections, in place; returns whether there are any near: every
   correction must halve the error. */
static int retracted(Frame *frame, double *x) {
    double before = INFINITY;
    for (int step = 0; step < RETRACTIONS; step++) {
        double size = errors(frame, x);
        if (size <= ORTHONORMAL) return 1;
        if (!(size <= 0.5 * before)) return 0;
        before = size;
        constraints(frame, x);
        if (factorised(frame)) return 0;
        solve(frame->p, frame->normal, frame->error);
        for (index_t c = 0; c < frame->p; c++)
            add_scaled(frame->n, -frame->error[c], frame->jacobian + c * frame->n, x);
    }
    return errors(frame, x) <= 1e3 * ORTHONORMAL;
}

/* Reflections whose product turns the gradients of the constraints (rows of `jacobian`, overwritten) into the first
   coordinates, the longest first; returns how many gradients are independent. */
static index_t reflections(Frame *frame) {
    index_t n = frame->n, rank = 0;
    double *rows = frame->jacobian, *sizes = frame->sizes, largest = 0.0;
    for (index_t c = 0; c < frame->p; c++) sizes[c] = dot(n, rows + c * n, rows + c * n);
    for (index_t most = n < frame->p ? n : frame->p; rank < most; rank++) {
        index_t at = rank;
        for (index_t c = rank + 1; c < frame->p; c++)
            if (sizes[c] > sizes[at]) at = c;
        double *v = frame->reflectors + rank * n, *row = rows + at * n;
        double longest = dot(n - rank, row + rank, row + rank);
        if (!rank) largest = longest;
        if (!(longest > RIDGE * largest) || longest <= 1e-300) break;
        sizes[at] = sizes[rank];
        memcpy(v + rank, row + rank, (size_t)(n - rank) * sizeof *v);
        memmove(row, rows + rank * n, (size_t)n * sizeof *row);
        v[rank] += v[rank] >= 0.0 ? sqrt(longest) : -sqrt(longest);
        frame->scales[rank] = 2.0 / dot(n - rank, v + rank, v + rank);
        for (index_t c = rank + 1; c < frame->p; c++) {
            double *other = rows + c * n, along = frame->scales[rank] * dot(n - rank, v + rank, other + rank);
            add_scaled(n - rank, -along, v + rank, other + rank);
            frame->sizes[c] -= other[rank] * other[rank];
        }
    }
    return rank;
}

/* An orthonormal basis of the tangent space, as rows; returns its dimension. */
static index_t tangent_basis(Frame *frame) {
    index_t n = frame->n, rank = reflections(frame);
    memset(frame->tangent, 0, (size_t)((n - rank) * n) * sizeof(double));
    for (index_t t = rank; t < n; t++) frame->tangent[(t - rank) * n + t] = 1.0;
    for (index_t o = rank - 1; o >= 0; o--) { /* rows do not wait for each other */
        const double *v = frame->reflectors + o * n;
        for (index_t t = rank; t < n; t++) {
            double *z = frame->tangent + (t - rank) * n, along = frame->scales[o] * dot(n - o, v + o, z + o);
            add_scaled(n - o, -along, v + o, z + o);
        }
    }
    return n - rank;
}

/* The second derivative times z: twice the blocks of S, minus the multipliers between entries of the same feature. */
static void curved(Frame *frame, const double *z, double *y) {
    image_of(frame, z, y);
    for (index_t e = 0; e < frame->n; e++) y[e] *= 2.0;
    for (index_t i = 0; i < frame->p; i++) {
        index_t p = frame->first[i], q = frame->second[i];
        double factor = frame->multiplier[i] * (p == q ? 2.0 : 1.0);
        for (index_t e = frame->start[p]; e < frame->start[p + 1]; e++) {
            index_t other = frame->where[e * frame->c + q];
            if (other < 0) continue;
            y[e] -= factor * z[other];
            if (p != q) y[other] -= factor * z[e];
        }
    }
}

/* The step in the tangent space where all curvatures are negative, and none of them is flat: returns 0 elsewhere. A
   factorisation takes a tenth of the time of eigenpairs. */
static int plain_step(Frame *frame, index_t t) {
    double *lifted = frame->half, *negative = frame->reflectors, size = 0.0;
    for (index_t i = 0; i < t * t; i++) size += frame->reduced[i] * frame->reduced[i];
    size = FLAT * sqrt(size);
    for (index_t i = 0; i < t * t; i++) lifted[i] = negative[i] = -frame->reduced[i];
    for (index_t i = 0; i < t; i++) lifted[i * t + i] -= size;
    if (factor(t, lifted) || factor(t, negative)) return 0;
    memcpy(frame->along, frame->slope, (size_t)t * sizeof(double));
    solve(t, negative, frame->along);
    return 1;
}

/* The same by eigenpairs, with absolute curvatures; returns 0 where these do not converge. */
static int absolute_step(Frame *frame, index_t t) {
    double most = 0.0, *vectors = frame->reduced;
    if (symmetric_eigenpairs(t, vectors, frame->values, frame->work)) return 0;
    for (index_t i = 0; i < t; i++) most = fabs(frame->values[i]) > most ? fabs(frame->values[i]) : most;
    for (index_t i = 0; i < t; i++) {
        double size = fabs(frame->values[i]), least = FLAT * most + 1e-300, sum = 0.0;
        for (index_t j = 0; j < t; j++) sum += vectors[j * t + i] * frame->slope[j];
        frame->work[i] = sum / (size > least ? size : least);
    }
    for (index_t i = 0; i < t; i++) frame->along[i] = dot(t, vectors + i * t, frame->work);
    return 1;
}

/* The Newton step in the tangent space, and what it promises to gain; returns 0 if there is none. */
static int newton_step(Search *search, const double *x) {
    Frame *frame = &search->frame;
    index_t n = frame->n;
    constraints(frame, x);
    if (factorised(frame)) return 0;
    image_of(frame, x, frame->gradient);
    for (index_t e = 0; e < n; e++) frame->gradient[e] *= 2.0;
    for (index_t c = 0; c < frame->p; c++) frame->multiplier[c] = dot(n, frame->jacobian + c * n, frame->gradient);
    solve(frame->p, frame->normal, frame->multiplier);
    index_t t = tangent_basis(frame);
    for (index_t i = 0; i < t; i++) {
        double *half = frame->half;
        curved(frame, frame->tangent + i * n, half);
        for (index_t j = 0; j <= i; j++)
            frame->reduced[i * t + j] = frame->reduced[j * t + i] = dot(n, half, frame->tangent + j * n);
        frame->slope[i] = dot(n, frame->tangent + i * n, frame->gradient);
    }
    if (!plain_step(frame, t) && !absolute_step(frame, t)) return 0;
    memset(frame->step, 0, (size_t)n * sizeof(double));
    for (index_t i = 0; i < t; i++)
        add_scaled(n, frame->along[i], frame->tangent + i * n, frame->step);
    frame->promise = 0.5 * dot(t, frame->slope, frame->along);
    double longest = sqrt(dot(n, frame->step, frame->step)), radius = RADIUS * sqrt((double)search->r);
    if (longest > radius)
        for (index_t e = 0; e < n; e++) frame->step[e] *= radius / longest;
    return 1;
}

/* Newton steps of the columns of the frame, while these gain; returns the variance of all columns. */
static double climb(Search *search, double *w, double value, index_t steps) {
    Frame *frame = &search->frame;
    flat(search, w, frame->x);
    double apart = value - variance_of(frame, frame->x);
    for (index_t step = 0; step < steps; step++) {
        int gained = 0;
        if (!newton_step(search, frame->x) || !(frame->promise > 0.2 * RISE * value)) break;
        for (int length = 0; length < LENGTHS && !gained; length++) {
            for (index_t e = 0; e < frame->n; e++) frame->trial[e] = frame->x[e] + lengths[length] * frame->step[e];
            if (!retracted(frame, frame->trial)) continue;
            double after = apart + variance_of(frame, frame->trial);
            if (!(after > value * (1.0 + RISE))) continue;
            gained = 1;
            value = after;
            memcpy(frame->x, frame->trial, (size_t)frame->n * sizeof(double));
        }
        if (!gained) break;
    }
    scatter(search, frame->x, w);
    return value;
}

/* Argmax of tr(w' S w) over orthonormal w on given supports, from orthonormal w in place; returns the variance. */
double refitted(Search *search, double *w, const index_t *const *supports, index_t steps) {
    double value = variance_in_all(search, w, supports);
    frame_on(search, supports);
    return search->frame.n ? climb(search, w, value, steps) : value;
}

/* Orthonormal loadings on given supports near others, written over orthonormal w where there are any. Columns that
   share no feature stay. Returns whether there are some. */
int nearest(Search *search, const double *near, const index_t *const *supports, double *w) {
    Frame *frame = &search->frame;
    frame_on(search, supports);
    flat(search, near, frame->x);
    for (index_t q = 0; q < frame->c; q++) {
        index_t start = frame->start[q], k = frame->start[q + 1] - start;
        double *x = frame->x + start, size = sqrt(dot(k, x, x));
        for (index_t i = 0; i < k; i++) x[i] /= size > 1e-300 ? size : 1e-300;
    }
    if (!retracted(frame, frame->x)) return 0;
    scatter(search, frame->x, w);
    return 1;
}
