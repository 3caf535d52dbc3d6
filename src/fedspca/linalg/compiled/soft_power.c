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

static const index_t SIZES[] = {2, 3, 5, 8, 13, 21, LARGEST};
static const index_t CROWDED[] = {2, 6, 14}, CROWD[] = {40, 16, 6};

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
    double *off, *seen, *overlap;
    ranked_t *order;
    index_t *chosen;
} power_t;

/* x without its part along the columns beside it. */
static void project(const power_t *p, index_t n, double *x) {
    for (index_t k = 0; k < p->m && p->beside; k++) {
        const double *others = p->others + k * p->beside * p->d;
        double *mine = x + k * n * p->d;
        product(p->lapack, 'N', 'T', n, p->beside, p->d, mine, p->d, others, p->d, p->overlap, p->beside);
        for (index_t i = 0; i < n; i++)
            for (index_t j = 0; j < p->beside; j++) {
                double along = p->overlap[i * p->beside + j];
                const double *other = others + j * p->d;
                for (index_t t = 0; t < p->d; t++) mine[i * p->d + t] -= along * other[t];
            }
    }
}

/* P Q P x of all columns. */
static void image_of(const power_t *p, index_t n, const double *x, double *image) {
    const double *from = x;
    if (p->beside) {
        memcpy(p->off, x, (size_t)(p->m * n * p->d) * sizeof(double));
        project(p, n, p->off);
        from = p->off;
    }
    images(p->lapack, p->q, p->m * n, from, image, p->seen);
    project(p, n, image);
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

/* The entries of a column that are among its largest, of length one; a tie is not left to rounding. */
static void truncated(index_t d, const double *column, double least, double *x) {
    double square = 0.0;
    for (index_t i = 0; i < d; i++) {
        x[i] = fabs(column[i]) >= least ? column[i] : 0.0;
        square += x[i] * x[i];
    }
    double norm = sqrt(square), scale = 1.0 / (norm > ORIGIN ? norm : ORIGIN);
    for (index_t i = 0; i < d; i++) x[i] *= scale;
}

/* For each feature the best of its column of P Q P, truncated to several sizes, and its image. The working memory has
   (3 d + LARGEST + 1) entries for every column. */
static void clusters(const power_t *p, index_t n, const int64_t *features, double *best, double *image, double *work) {
    index_t d = p->d, all = p->m * n;
    double *column = work, *x = column + all * d, *its = x + all * d, *ranked = its + all * d;
    double *least = ranked + all * LARGEST;
    memset(best, 0, (size_t)(all * d) * sizeof(double));
    for (index_t i = 0; i < all; i++) best[i * d + features[i % n]] = 1.0;
    image_of(p, n, best, column);
    memcpy(image, column, (size_t)(all * d) * sizeof(double));
    for (index_t i = 0; i < all; i++) {
        least[i] = p->lam[i / n] - column[i * d + features[i % n]];
        largest_entries(d, column + i * d, ranked + i * LARGEST);
    }
    for (size_t k = 0; k < sizeof(SIZES) / sizeof(*SIZES) && SIZES[k] <= d; k++) {
        for (index_t i = 0; i < all; i++)
            truncated(d, column + i * d, TIED * ranked[i * LARGEST + SIZES[k] - 1], x + i * d);
        image_of(p, n, x, its);
        for (index_t i = 0; i < all; i++) {
            double value = column_objective(d, p->lam[i / n], x + i * d, its + i * d);
            if (!(value < least[i])) continue;
            least[i] = value;
            memcpy(best + i * d, x + i * d, (size_t)d * sizeof(double));
            memcpy(image + i * d, its + i * d, (size_t)d * sizeof(double));
        }
    }
}

static int by_value(const void *a, const void *b) {
    const ranked_t *x = a, *y = b;
    int later = (isnan(x->value) != 0) - (isnan(y->value) != 0); /* qsort needs an order of everything */
    if (isnan(x->value) || isnan(y->value)) return later ? later : (x->at > y->at) - (x->at < y->at);
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
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
    qsort(order, (size_t)n, sizeof(*order), by_value);
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
static void tangent_minimiser(index_t d, const double *image, double threshold, double *x) {
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
    index_t d = q->d, count = n + e, all = m * count, seen = q->dense ? 0 : all * q->m;
    index_t entries = all * (6 * d + LARGEST + 1) + seen + count * beside;
    double *memory = malloc((size_t)entries * sizeof(double));
    ranked_t *order = malloc((size_t)(2 * count) * sizeof(*order));
    index_t *chosen = malloc((size_t)all * sizeof(*chosen));
    if (memory == NULL || order == NULL || chosen == NULL) {
        free(memory);
        free(order);
        free(chosen);
        return -1;
    }
    double *image = memory, *spare = image + all * d, *off = spare + all * d, *work = off + all * d;
    double *thin = work + all * (3 * d + LARGEST + 1);
    power_t p = {lapack, q, d, m, beside, others, lam, off, thin, thin + seen, order, chosen};
    clusters(&p, n, features, x, image, work);
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
