/* One sparse column from many starts at once. Twin: soft_power in linalg/soft_power.py.

   Columns of length d are rows here. There are m problems, with n columns each: x is (m, n, d). */
#include "blas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAME 1e-9 /* two columns count as the same if their objectives differ by less, relative to the larger */
#define TIED (1.0 - 1e-9)
#define ORIGIN 1e-300
#define LARGEST 34 /* the last of the sizes */
#define SPARSE 4 /* BLAS is faster than sums of rows if more than one in so many entries are not zero */
#define BLOCK 128 /* columns that BLAS multiplies at once: what they and their images take stays in the cache */
#define FEW 64 /* at most so many entries are sorted by insertion */

static const index_t SIZES[] = {2, 3, 5, 8, 13, 21, LARGEST};
static const index_t CROWDED[] = {0, 2, 6, 14}, CROWD[] = {80, 40, 16, 6};

typedef struct {
    double value;
    index_t at;
} ranked_t;

typedef struct {
    const Lapack *lapack;
    const quadratic_t *q;
    index_t d, m, beside; /* how many columns each problem's column must be orthogonal to */
    const double *others; /* (m, beside, d) */
    const double *lam;    /* of each problem */
    double *across;       /* (m, beside, d): the images of the others */
    double *inner;        /* (m, beside, beside): their inner products with the others */
    double *off, *to, *seen, *overlap, *entries;
    ranked_t *order;
    index_t *chosen, *at, *aside;
} power_t;

/* The sum of some rows of a matrix, each times a number; four at once. */
static void sum_rows(index_t length, const double *matrix, index_t count, const index_t *at, const double *by,
                     double *restrict out) {
    index_t t = 0;
    memset(out, 0, (size_t)length * sizeof(double));
    for (; t + 4 <= count; t += 4) {
        const double *a = matrix + at[t] * length, *b = matrix + at[t + 1] * length;
        const double *c = matrix + at[t + 2] * length, *e = matrix + at[t + 3] * length;
        double fa = by[t], fb = by[t + 1], fc = by[t + 2], fe = by[t + 3];
        for (index_t i = 0; i < length; i++) out[i] += (fa * a[i] + fb * b[i]) + (fc * c[i] + fe * e[i]);
    }
    for (; t < count; t++) {
        const double *a = matrix + at[t] * length;
        double factor = by[t];
        for (index_t i = 0; i < length; i++) out[i] += factor * a[i];
    }
}

/* The non-zeros of a column, and where they are. */
static void gather(const power_t *p, const double *column) {
    index_t count = 0;
    for (index_t t = 0; t < p->d; t++) {
        p->at[count] = t;
        p->entries[count] = column[t];
        count += column[t] != 0.0;
    }
}

/* The products of the rows that were put aside. */
static void dense_rows(const power_t *p, index_t count, index_t length, const double *matrix, double *out) {
    if (!count) return;
    product(p->lapack, 'N', 'N', count, length, p->d, p->off, p->d, matrix, length, p->to, length);
    for (index_t i = 0; i < count; i++)
        memcpy(out + p->aside[i] * length, p->to + i * length, (size_t)length * sizeof(double));
}

/* out = x times a matrix with d rows. Of sparse rows of x only the non-zeros are multiplied. */
static void times(const power_t *p, index_t n, const double *x, index_t length, const double *matrix, double *out) {
    index_t d = p->d, full = 0;
    for (index_t i = 0; i < n; i++) {
        index_t count = 0;
        for (index_t t = 0; t < d; t++) count += x[i * d + t] != 0.0;
        if (SPARSE * count <= d) {
            gather(p, x + i * d);
            sum_rows(length, matrix, count, p->at, p->entries, out + i * length);
            continue;
        }
        memcpy(p->off + full * d, x + i * d, (size_t)d * sizeof(double));
        p->aside[full++] = i;
        if (full == BLOCK) {
            dense_rows(p, full, length, matrix, out);
            full = 0;
        }
    }
    dense_rows(p, full, length, matrix, out);
}

/* Q x of n columns. */
static void plain_images(const power_t *p, index_t n, const double *x, double *image) {
    const quadratic_t *q = p->q;
    if (q->dense) {
        times(p, n, x, p->d, q->factor, image);
    } else {
        times(p, n, x, q->m, q->factor, p->seen);
        for (index_t i = 0; i < n * q->m && q->signs != NULL; i++) p->seen[i] *= q->signs[i % q->m];
        product(p->lapack, 'N', 'T', n, p->d, q->m, p->seen, q->m, q->factor, q->m, image, p->d);
    }
    for (index_t i = 0; i < n * p->d && q->shift != 0.0; i++) image[i] += q->shift * x[i];
}

/* P Q P x = P (Q x - Q B (B' x)) of all columns, where B are the columns beside: x itself stays sparse. */
static void image_of(const power_t *p, index_t n, const double *x, double *image) {
    index_t d = p->d, beside = p->beside;
    plain_images(p, p->m * n, x, image);
    for (index_t k = 0; k < p->m && beside; k++) {
        const double *others = p->others + k * beside * d;
        double *mine = image + k * n * d;
        product(p->lapack, 'N', 'T', n, beside, d, x + k * n * d, d, others, d, p->overlap, beside);
        take_off(p->lapack, n, d, beside, p->overlap, p->across + k * beside * d, mine);
        product(p->lapack, 'N', 'T', n, beside, d, mine, d, others, d, p->overlap, beside);
        take_off(p->lapack, n, d, beside, p->overlap, others, mine);
    }
}

static double column_objective(index_t d, double lam, const double *x, const double *image) {
    double norm = 0.0;
    for (index_t i = 0; i < d; i++) norm += fabs(x[i]);
    return lam * norm - dot(d, x, image);
}

static void objectives(const power_t *p, index_t n, const double *x, const double *image, double *values) {
    for (index_t i = 0; i < p->m * n; i++)
        values[i] = column_objective(p->d, p->lam[i / n], x + i * p->d, image + i * p->d);
}

static int by_value(const void *a, const void *b) {
    const ranked_t *x = a, *y = b;
    int later = (isnan(x->value) != 0) - (isnan(y->value) != 0); /* qsort needs an order of everything */
    if (isnan(x->value) || isnan(y->value)) return later ? later : (x->at > y->at) - (x->at < y->at);
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* A few entries, which is the usual case, are sorted faster by insertion than by calls of a comparison. */
static void sort_by_value(index_t n, ranked_t *order) {
    if (n > FEW) {
        qsort(order, (size_t)n, sizeof(*order), by_value);
        return;
    }
    for (index_t i = 1; i < n; i++) {
        ranked_t moved = order[i];
        index_t at = i;
        for (; at > 0 && by_value(&moved, order + at - 1) < 0; at--) order[at] = order[at - 1];
        order[at] = moved;
    }
}

/* The largest magnitudes of a column, descending, at most LARGEST of them. */
static void largest_entries(index_t d, const double *column, double *ranked) {
    index_t count = 0;
    for (index_t i = 0; i < d; i++) {
        double size = fabs(column[i]);
        if (count == LARGEST && !(size > ranked[LARGEST - 1])) continue;
        index_t at = count < LARGEST ? count++ : LARGEST - 1;
        for (; at > 0 && ranked[at - 1] < size; at--) ranked[at] = ranked[at - 1];
        ranked[at] = size;
    }
}

/* A column that grows entry by entry: what its objective consists of, before it is scaled to length one. */
typedef struct {
    index_t count;
    double norm, square, form; /* sums of magnitudes and of squares; x' Q x, if Q is dense */
    double *along, *slope;     /* B' x and (Q B)' x */
    double *seen;              /* factor' x, if Q is not dense */
} grown_t;

static void grow(const power_t *p, grown_t *g, index_t problem, index_t at, double entry) {
    const quadratic_t *q = p->q;
    if (q->dense) {
        const double *row = q->factor + at * p->d;
        double cross = 0.0;
        for (index_t t = 0; t < g->count; t++) cross += p->entries[t] * row[p->at[t]];
        g->form += entry * (entry * row[at] + 2.0 * cross);
    } else {
        for (index_t t = 0; t < q->m; t++) g->seen[t] += entry * q->factor[at * q->m + t];
    }
    for (index_t j = 0; j < p->beside; j++) {
        index_t other = (problem * p->beside + j) * p->d + at;
        g->along[j] += entry * p->others[other];
        g->slope[j] += entry * p->across[other];
    }
    p->at[g->count] = at;
    p->entries[g->count++] = entry;
    g->norm += fabs(entry);
    g->square += entry * entry;
}

/* x' P Q P x */
static double captured(const power_t *p, const grown_t *g, index_t problem) {
    double sum = g->form + p->q->shift * g->square;
    for (index_t t = 0; t < p->q->m && !p->q->dense; t++)
        sum += g->seen[t] * g->seen[t] * (p->q->signs == NULL ? 1.0 : p->q->signs[t]);
    const double *inner = p->inner + problem * p->beside * p->beside;
    for (index_t j = 0; j < p->beside; j++)
        sum += g->along[j] * (dot(p->beside, inner + j * p->beside, g->along) - 2.0 * g->slope[j]);
    return sum;
}

/* The entries of a column that may be among its largest, in the order of their size; a tie is not left to rounding. */
static index_t ordered(const power_t *p, const double *column, double least) {
    index_t count = 0;
    for (index_t i = 0; i < p->d; i++)
        if (fabs(column[i]) >= least && column[i] != 0.0) p->order[count++] = (ranked_t){-fabs(column[i]), i};
    sort_by_value(count, p->order);
    return count;
}

/* Entries of a cluster are roots of the column's: in between those of one factor, and equal ones. */
static double root(double entry) { return copysign(sqrt(fabs(entry)), entry); }

/* x = the best of a column's truncations to several sizes, of length one, if any is better than `least`. Supports are
   nested, so each truncation is the one before and some more entries. */
static void best_truncation(const power_t *p, index_t problem, const double *column, double least, double *x) {
    double ranked[LARGEST];
    size_t sizes = 0;
    while (sizes < sizeof(SIZES) / sizeof(*SIZES) && SIZES[sizes] <= p->d) sizes++;
    if (!sizes) return;
    largest_entries(p->d, column, ranked);
    index_t most = ordered(p, column, TIED * ranked[SIZES[sizes - 1] - 1]), best = 0;
    index_t seen = p->q->dense ? 0 : p->q->m;
    grown_t g = {.along = p->overlap, .slope = p->overlap + p->beside, .seen = p->seen};
    memset(p->overlap, 0, (size_t)(2 * p->beside) * sizeof(double));
    for (index_t t = 0; t < seen; t++) g.seen[t] = 0.0;
    double scale = 1.0;
    for (size_t k = 0; k < sizes; k++) {
        double smallest = TIED * ranked[SIZES[k] - 1];
        while (g.count < most && -p->order[g.count].value >= smallest)
            grow(p, &g, problem, p->order[g.count].at, root(column[p->order[g.count].at]));
        double norm = sqrt(g.square);
        norm = norm > ORIGIN ? norm : ORIGIN;
        double value = p->lam[problem] * (g.norm / norm) - captured(p, &g, problem) / norm / norm;
        if (!(value < least)) continue;
        least = value;
        best = g.count;
        scale = 1.0 / norm;
    }
    if (!best) return;
    memset(x, 0, (size_t)p->d * sizeof(double));
    for (index_t t = 0; t < best; t++) x[p->at[t]] = p->entries[t] * scale;
}

/* For each feature the best of its column of P Q P, truncated to several sizes, and its image. */
static void clusters(const power_t *p, index_t n, const int64_t *features, double *best, double *image) {
    index_t d = p->d, all = p->m * n;
    memset(best, 0, (size_t)(all * d) * sizeof(double));
    for (index_t i = 0; i < all; i++) best[i * d + features[i % n]] = 1.0;
    image_of(p, n, best, image);
    for (index_t i = 0; i < all; i++) {
        double least = p->lam[i / n] - image[i * d + features[i % n]];
        best_truncation(p, i / n, image + i * d, least, best + i * d);
    }
    image_of(p, n, best, image);
}

static int by_place(const void *a, const void *b) {
    const ranked_t *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Orders columns by increasing value, each value once, then the rest, whose values become infinite. Among equals the
   earlier one comes first. Returns how many are apart; `repeated` has n entries of working memory. */
static index_t distinct(index_t n, const double *values, ranked_t *order, ranked_t *repeated) {
    double largest = 0.0;
    for (index_t i = 0; i < n; i++) {
        order[i] = (ranked_t){values[i], i};
        largest = fabs(values[i]) > largest ? fabs(values[i]) : largest;
    }
    sort_by_value(n, order);
    index_t count = 0, rest = 0;
    for (index_t from = 0, to = 0; from < n; from = to) {
        for (to = from + 1; to < n && !(order[to].value - order[to - 1].value > SAME * largest);) to++;
        if (to > from + 1) qsort(order + from, (size_t)(to - from), sizeof(*order), by_place);
        ranked_t first = order[from];
        for (index_t i = from + 1; i < to; i++) repeated[rest++] = (ranked_t){INFINITY, order[i].at};
        order[count++] = first;
    }
    memcpy(order + count, repeated, (size_t)rest * sizeof(*order));
    return count;
}

/* Keeps the `most` best columns of every problem, and their images, in place. Returns how many are kept. */
static index_t keep_best(const power_t *p, index_t n, index_t most, double *x, double *image, double *values,
                         double *spare) {
    index_t d = p->d, kept = 1;
    objectives(p, n, x, image, values);
    for (index_t k = 0; k < p->m; k++) {
        index_t apart = distinct(n, values + k * n, p->order, p->order + n);
        for (index_t i = 0; i < n; i++) p->chosen[k * n + i] = p->order[i].at;
        apart = apart < most ? apart : most;
        kept = apart > kept ? apart : kept;
    }
    double *arrays[] = {x, image};
    for (int a = 0; a < 2; a++) {
        for (index_t k = 0; k < p->m; k++)
            for (index_t i = 0; i < kept; i++)
                memcpy(spare + (k * kept + i) * d, arrays[a] + (k * n + p->chosen[k * n + i]) * d,
                       (size_t)d * sizeof(double));
        memcpy(arrays[a], spare, (size_t)(p->m * kept * d) * sizeof(double));
    }
    return kept;
}

/* Argmin over unit x of -<image, x> + threshold ||x||_1: where nothing is left, the coordinate of largest magnitude. */
WIDE_TOO static void tangent_minimiser(index_t d, const double *image, double threshold, double *x) {
    double square = 0.0;
    for (index_t i = 0; i < d; i++) {
        double part = image[i] < -threshold ? -threshold : image[i];
        part = part > threshold ? threshold : part;
        x[i] = image[i] - part;
        square += x[i] * x[i];
    }
    if (square == 0.0) {
        index_t peak = 0;
        for (index_t i = 1; i < d; i++)
            if (fabs(image[i]) > fabs(image[peak])) peak = i;
        memset(x, 0, (size_t)d * sizeof(double));
        x[peak] = image[peak] < 0.0 ? -1.0 : 1.0;
        return;
    }
    double scale = 1.0 / sqrt(square);
    for (index_t i = 0; i < d; i++) x[i] *= scale;
}

static index_t power_steps(const power_t *p, index_t n, index_t steps, double *x, double *image, double *values,
                           double *spare) {
    for (index_t now = 0; now < steps; now++) {
        for (size_t c = 0; c < sizeof(CROWD) / sizeof(*CROWD); c++)
            if (CROWDED[c] == now && n > CROWD[c]) n = keep_best(p, n, CROWD[c], x, image, values, spare);
        for (index_t i = 0; i < p->m * n; i++)
            tangent_minimiser(p->d, image + i * p->d, 0.5 * p->lam[i / n], x + i * p->d);
        image_of(p, n, x, image);
    }
    return n;
}

/* `starts` are e further unit columns (e, d), before those of the n features. x (m, n + e, d) and values (m, n + e)
   are where the columns go, best first. Returns how many there are for each problem; -1 without memory. */
EXPORT int64_t fedspca_soft_power(const Lapack *lapack, const quadratic_t *q, int64_t m, const double *lam, int64_t n,
                                  const int64_t *features, int64_t beside, const double *others, int64_t e,
                                  const double *starts, int64_t steps, double *x, double *values) {
    index_t d = q->d, count = n + e, all = m * count, longest = q->m > d ? q->m : d;
    index_t seen = q->dense ? 0 : (count > beside ? count : beside) * m * q->m, overlap = (count + 2) * beside;
    index_t entries = 2 * all * d + BLOCK * (d + longest) + seen + overlap + d + m * beside * (d + beside);
    double *memory = malloc((size_t)entries * sizeof(double));
    ranked_t *order = malloc((size_t)(2 * count > d ? 2 * count : d) * sizeof(*order));
    index_t *chosen = malloc((size_t)(all + d + BLOCK) * sizeof(*chosen));
    if (memory == NULL || order == NULL || chosen == NULL) {
        free(memory);
        free(order);
        free(chosen);
        return -1;
    }
    double *image = memory, *spare = image + all * d, *off = spare + all * d, *to = off + BLOCK * d;
    double *thin = to + BLOCK * longest, *across = thin + seen + overlap + d, *inner = across + m * beside * d;
    power_t p = {.lapack = lapack, .q = q, .d = d, .m = m, .beside = beside, .others = others, .lam = lam,
                 .across = across, .inner = inner, .off = off, .to = to, .seen = thin,
                 .overlap = thin + seen, .entries = thin + seen + overlap, .order = order, .chosen = chosen,
                 .at = chosen + all, .aside = chosen + all + d};
    images(lapack, q, m * beside, others, across, p.seen);
    for (index_t k = 0; k < m; k++)
        product(lapack, 'N', 'T', beside, beside, d, across + k * beside * d, d, others + k * beside * d, d,
                inner + k * beside * beside, beside);
    clusters(&p, n, features, x, image);
    if (e) { /* make room for the further starts in front of each problem's columns */
        for (index_t k = m - 1; k >= 0; k--)
            memmove(x + (k * count + e) * d, x + k * n * d, (size_t)(n * d) * sizeof(double));
        for (index_t k = 0; k < m; k++) memcpy(x + k * count * d, starts, (size_t)(e * d) * sizeof(double));
        image_of(&p, count, x, image);
    }
    count = power_steps(&p, count, steps, x, image, values, spare);
    objectives(&p, count, x, image, spare);
    memcpy(image, x, (size_t)(m * count * d) * sizeof(double));
    for (index_t k = 0; k < m; k++) {
        distinct(count, spare + k * count, order, order + count);
        for (index_t i = 0; i < count; i++) {
            values[k * count + i] = order[i].value;
            memcpy(x + (k * count + i) * d, image + (k * count + order[i].at) * d, (size_t)d * sizeof(double));
        }
    }
    free(memory);
    free(order);
    free(chosen);
    return count;
}
