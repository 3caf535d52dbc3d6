/* Steps of ADMM between orthonormal and sparse matrices. Twins: split and settle in linalg/splitting.py.

   The columns of every matrix, of length d, are rows here, so that all loops run along them. */
#include "polar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 0.02 /* a column's penalty parameter is at least this share of the largest */
#define STIFF 2.0  /* and at least this many times lam */
#define REFRESH 10
#define PATIENCE 200
#define ADAPTED 200
#define RELAXED 1.6
#define SETTLING 1.8
#define AHEAD 0.7
#define NEAR 1e-4
#define SLOW 0.5
#define NO_HELP 0.9
#define COARSE 1.5e-6 /* single precision is enough down to this distance from a stationary point */
#define ORIGIN 1e-300

typedef struct {
    const Lapack *lapack;
    const quadratic_t *q;
    index_t d, r;
    const double *lam, *linear;                          /* linear may be NULL */
    double *w, *z, *dual, *gradient, *rho, *vectors;     /* of every start */
    int *fresh;
    double *x, *seen, *polar;                            /* working memory */
    const float *single;                                 /* the matrix in single precision, while that is enough */
    float *from, *to;                                    /* as large as w */
} admm_t;

static double *reserve(admm_t *s, index_t n, index_t more) {
    index_t size = n * s->d * s->r, seen = s->q->dense ? 0 : n * s->r * s->q->m;
    index_t vectors = n * s->r * s->r, scratch = s->d * s->r;
    index_t total = 2 * size + n * s->r + vectors + scratch + seen + polar_work(s->r) + more;
    double *memory = malloc((size_t)total * sizeof(double));
    s->fresh = malloc((size_t)n * sizeof(int));
    if (memory == NULL || s->fresh == NULL) {
        free(memory);
        free(s->fresh);
        return NULL;
    }
    s->dual = memory;
    s->gradient = s->dual + size;
    s->rho = s->gradient + size;
    s->vectors = s->rho + n * s->r;
    s->x = s->vectors + vectors;
    s->seen = s->x + scratch;
    s->polar = s->seen + seen;
    for (index_t i = 0; i < n; i++) s->fresh[i] = 1;
    for (index_t i = 0; i < n * s->r; i++) s->rho[i] = 1.0;
    return memory;
}

/* The products of a symmetric dense matrix in single precision: these take half the time. */
static void coarse_images(const admm_t *s, const double *w, double *out) {
    index_t size = s->d * s->r;
    int rows = (int)s->d, columns = (int)s->r;
    float one = 1.0f, zero = 0.0f;
    for (index_t i = 0; i < size; i++) s->from[i] = (float)w[i];
    /* the transpose is the same matrix, and OpenBLAS is twice as fast with it */
    s->lapack->sgemm("T", "N", &rows, &columns, &rows, &one, (float *)s->single, &rows, s->from, &rows, &zero, s->to,
                     &rows);
    for (index_t i = 0; i < size; i++) out[i] = (double)s->to[i] + s->q->shift * w[i];
}

static void gradients(const admm_t *s, index_t n, const double *w, double *gradient) {
    index_t size = n * s->d * s->r;
    if (s->single != NULL)
        coarse_images(s, w, gradient);
    else
        images(s->lapack, s->q, n * s->r, w, gradient, s->seen);
    if (s->linear != NULL)
        for (index_t i = 0; i < size; i++) gradient[i] += s->linear[i];
    for (index_t i = 0; i < size; i++) gradient[i] *= 2.0;
}

/* lam ||w||_1 - <w, gradient> / 2 */
static double objective(const admm_t *s, const double *w, const double *gradient) {
    double value = -0.5 * dot(s->d * s->r, w, gradient);
    for (index_t j = 0; j < s->r; j++) {
        double norm = 0.0;
        for (index_t i = 0; i < s->d; i++) norm += fabs(w[j * s->d + i]);
        value += s->lam[j] * norm;
    }
    return value;
}

/* The lower of the objectives at w and at the orthonormal matrix nearest to z. `at` and `slope` are as large as w. */
static int lowest(const admm_t *s, index_t n, double *values, double *at, double *slope) {
    index_t size = s->d * s->r;
    for (index_t i = 0; i < n; i++) {
        int status = nearest_orthonormal(s->lapack, s->d, s->r, s->z + i * size, at + i * size, NULL, s->polar);
        if (status) return status;
    }
    gradients(s, n, at, slope);
    for (index_t i = 0; i < n; i++) {
        double one = objective(s, s->w + i * size, s->gradient + i * size);
        double other = objective(s, at + i * size, slope + i * size);
        values[i] = other < one ? other : one;
    }
    return 0;
}

/* One penalty parameter per column, its curvature; the scaled dual is rescaled with it. */
static void penalties(const admm_t *s, index_t start) {
    index_t d = s->d, r = s->r, size = d * r;
    double *rho = s->rho + start * r, *dual = s->dual + start * size, largest = ORIGIN;
    double *curvature = s->x;
    for (index_t j = 0; j < r; j++) {
        index_t at = start * size + j * d;
        curvature[j] = dot(d, s->w + at, s->gradient + at);
        largest = curvature[j] > largest ? curvature[j] : largest;
    }
    for (index_t j = 0; j < r; j++) {
        double next = curvature[j];
        next = next < LEAST * largest ? LEAST * largest : next;
        next = next < STIFF * s->lam[j] ? STIFF * s->lam[j] : next;
        double scale = rho[j] / next;
        for (index_t i = 0; i < d; i++) dual[j * d + i] *= scale;
        rho[j] = next;
    }
}

/* One step of a start, given its gradient. */
WIDE_TOO static int step(const admm_t *s, index_t start, double relaxed) {
    index_t d = s->d, r = s->r, at = start * d * r;
    double *w = s->w + at, *z = s->z + at, *dual = s->dual + at, *gradient = s->gradient + at, *rho = s->rho + start * r;
    for (index_t j = 0; j < r; j++)
        for (index_t i = j * d; i < (j + 1) * d; i++) s->x[i] = gradient[i] + (z[i] - dual[i]) * rho[j];
    earlier_t earlier = {s->vectors + start * r * r, s->fresh + start};
    int status = nearest_orthonormal(s->lapack, d, r, s->x, w, &earlier, s->polar);
    if (status) return status;
    double kept = 1.0 - relaxed;
    for (index_t j = 0; j < r; j++) {
        double threshold = s->lam[j] / rho[j];
        for (index_t i = j * d; i < (j + 1) * d; i++) {
            double moved = relaxed * w[i] + kept * z[i] + dual[i], part = moved < -threshold ? -threshold : moved;
            part = part > threshold ? threshold : part;
            dual[i] = part;
            z[i] = moved - part;
        }
    }
    return 0;
}

/* The subgradient of lam ||w||_1 nearest to gradient - w L, in place of the dual. */
static void first_dual(const admm_t *s, index_t start, const double *multiplier) {
    index_t d = s->d, r = s->r, at = start * d * r;
    const double *w = s->w + at, *gradient = s->gradient + at;
    double *dual = s->dual + at;
    product(s->lapack, 'N', 'N', r, d, r, multiplier, r, w, d, s->x, d);
    for (index_t j = 0; j < r; j++) {
        double lam = s->lam[j];
        for (index_t i = j * d; i < (j + 1) * d; i++) {
            double slope = gradient[i] - s->x[i];
            slope = slope < -lam ? -lam : slope > lam ? lam : slope;
            dual[i] = w[i] == 0.0 ? slope : w[i] > 0.0 ? lam : -lam;
        }
    }
}

/* x = gradient - dual * rho, and the symmetric L for which w L is nearest to it. */
static void multiplier_of(const admm_t *s, index_t start, double *multiplier) {
    index_t d = s->d, r = s->r, at = start * d * r;
    for (index_t j = 0; j < r; j++)
        for (index_t i = j * d; i < (j + 1) * d; i++)
            s->x[i] = s->gradient[at + i] - s->dual[at + i] * s->rho[start * r + j];
    product(s->lapack, 'N', 'T', r, r, d, s->w + at, d, s->x, d, multiplier, r);
    for (index_t i = 0; i < r; i++)
        for (index_t j = 0; j < i; j++) {
            double entry = 0.5 * (multiplier[i * r + j] + multiplier[j * r + i]);
            multiplier[i * r + j] = multiplier[j * r + i] = entry;
        }
}

/* Marks the `most` lowest values, the earlier of equals; returns how many are marked. */
static index_t mark_lowest(index_t n, const double *values, index_t most, char *marked) {
    index_t count = 0;
    memset(marked, 0, (size_t)n);
    for (; count < most && count < n; count++) {
        index_t best = 0;
        while (marked[best]) best++;
        for (index_t i = best + 1; i < n; i++)
            if (!marked[i] && values[i] < values[best]) best = i;
        marked[best] = 1;
    }
    return count;
}

/* Only the marked starts go on. */
static void drop(admm_t *s, index_t n, const char *marked, double *values, int64_t *start) {
    index_t size = s->d * s->r, square = s->r * s->r, to = 0;
    for (index_t i = 0; i < n; i++) {
        if (!marked[i]) continue;
        if (to < i) {
            memcpy(s->w + to * size, s->w + i * size, (size_t)size * sizeof(double));
            memcpy(s->z + to * size, s->z + i * size, (size_t)size * sizeof(double));
            memcpy(s->dual + to * size, s->dual + i * size, (size_t)size * sizeof(double));
            memcpy(s->gradient + to * size, s->gradient + i * size, (size_t)size * sizeof(double));
            memcpy(s->vectors + to * square, s->vectors + i * square, (size_t)square * sizeof(double));
            memcpy(s->rho + to * s->r, s->rho + i * s->r, (size_t)s->r * sizeof(double));
            s->fresh[to] = s->fresh[i];
            values[to] = values[i];
            start[to] = start[i];
        }
        to++;
    }
}

static double farthest(index_t n, const double *a, const double *b) {
    double most = 0.0;
    for (index_t i = 0; i < n; i++) {
        double size = fabs(a[i] - b[i]);
        most = size > most ? size : most;
    }
    return most;
}

typedef struct {
    index_t n, steps, cuts;
    const int64_t *when, *keep; /* after when[c] steps, keep[c] starts go on */
    double tol, aim;
    double *last, *at, *values;
    int64_t *start;
    char *marked;
} race_t;

/* Drops starts where that is due. Returns 1 if all are given up, 2 on an error, else 0. */
static int cut(admm_t *s, race_t *race, index_t now) {
    for (index_t c = 0; c < race->cuts; c++) {
        if (race->when[c] != now) continue;
        if (lowest(s, race->n, race->values, race->at, race->at + race->n * s->d * s->r)) return 2;
        double least = race->values[0];
        for (index_t i = 1; i < race->n; i++) least = race->values[i] < least ? race->values[i] : least;
        if (c == race->cuts - 1 && least > race->aim) return 1;
        if (race->keep[c] < race->n) {
            index_t left = mark_lowest(race->n, race->values, race->keep[c], race->marked);
            drop(s, race->n, race->marked, race->values, race->start);
            race->n = left;
        }
    }
    return 0;
}

static int run(admm_t *s, race_t *race) {
    index_t size = s->d * s->r, compared = 0;
    for (index_t now = 0; now < race->steps; now++) {
        gradients(s, race->n, s->w, s->gradient);
        int ended = cut(s, race, now);
        if (ended == 2) return 1;
        if (ended) break;
        if (now % REFRESH == 0) {
            if (now && compared == race->n && farthest(race->n * size, s->w, race->last) <= race->tol) break;
            memcpy(race->last, s->w, (size_t)(race->n * size) * sizeof(double));
            compared = race->n;
            for (index_t i = 0; i < race->n; i++) penalties(s, i);
        }
        for (index_t i = 0; i < race->n; i++)
            if (step(s, i, RELAXED)) return 1;
    }
    gradients(s, race->n, s->w, s->gradient);
    return lowest(s, race->n, race->values, race->at, race->at + race->n * size) ? 1 : 0;
}

/* w (n, r, d) holds the starts, and in the end the points that are left, z likewise; `given` are the multipliers of
   the starts (n, r, r), or NULL. Cuts are in the order of their steps. Returns how many are left; -1 without memory,
   -2 where LAPACK did not converge. */
EXPORT int64_t fedspca_split(const Lapack *lapack, const quadratic_t *q, int64_t n, int64_t r, const double *lam,
                             double *w, double *z, const double *given, int64_t steps, double tol, int64_t cuts,
                             const int64_t *when, const int64_t *keep, double aim, double *values, int64_t *start,
                             double *multipliers) {
    admm_t s = {.lapack = lapack, .q = q, .d = q->d, .r = r, .lam = lam, .w = w, .z = z};
    index_t size = n * s.d * r;
    double *memory = reserve(&s, n, 3 * size);
    char *marked = malloc((size_t)n);
    if (memory == NULL || marked == NULL) {
        if (memory != NULL) free(s.fresh);
        free(memory);
        free(marked);
        return -1;
    }
    double *last = s.polar + polar_work(r);
    race_t race = {n, steps, cuts, when, keep, tol, aim, last, last + size, values, start, marked};
    for (index_t i = 0; i < n; i++) start[i] = i;
    memcpy(z, w, (size_t)size * sizeof(double));
    memset(s.dual, 0, (size_t)size * sizeof(double));
    if (given != NULL) {
        gradients(&s, n, w, s.gradient);
        for (index_t i = 0; i < n; i++) first_dual(&s, i, given + i * r * r);
    }
    int failed = run(&s, &race);
    for (index_t i = 0; i < race.n && !failed; i++) multiplier_of(&s, i, multipliers + i * r * r);
    free(memory);
    free(s.fresh);
    free(marked);
    return failed ? -2 : race.n;
}

/* How far from a stationary point: how far w and z differ, and gradient - subgradient from w L; both relative. */
static double distance(const admm_t *s, double *multiplier, double *fitted) {
    index_t size = s->d * s->r;
    multiplier_of(s, 0, multiplier);
    product(s->lapack, 'N', 'N', s->r, s->d, s->r, multiplier, s->r, s->w, s->d, fitted, s->d);
    for (index_t i = 0; i < size; i++) fitted[i] = s->x[i] - fitted[i];
    double scale = dot(size, s->gradient, s->gradient), left = dot(size, fitted, fitted) / (scale != 0.0 ? scale : 1.0);
    for (index_t i = 0; i < size; i++) fitted[i] = s->w[i] - s->z[i];
    double apart = dot(size, fitted, fitted) / (double)s->r;
    return sqrt(left > apart ? left : apart);
}

/* How many more steps it takes from `now` to `tol`, if it took PATIENCE from `before` to `now`. */
static double needed(double before, double now, double tol) {
    return now < before ? PATIENCE * log(now / tol) / log(before / now) : INFINITY;
}

/* The gradient extrapolated from that of the step before, in place. */
static void look_ahead(index_t n, double ahead, double *gradient, double *before) {
    for (index_t i = 0; i < n; i++) {
        double now = gradient[i];
        gradient[i] = now + ahead * (now - before[i]);
        before[i] = now;
    }
}

static int settle(admm_t *s, index_t steps, double tol, double *multiplier, double *fitted, double *before) {
    index_t size = s->d * s->r;
    double last = INFINITY, lately = INFINITY, most = AHEAD, ahead = 0.0;
    memcpy(before, s->gradient, (size_t)size * sizeof(double));
    for (index_t now = 0; now < steps; now++) {
        if (now % REFRESH == 0 && now) {
            double far = distance(s, multiplier, fitted);
            if (far <= tol && s->single == NULL) return 1;
            if (far <= COARSE || now > ADAPTED) s->single = NULL;
            if (ahead > 0.0 && far > NO_HELP * lately) most = ahead = 0.0;
            if (far <= NEAR && far > SLOW * lately) ahead = most;
            lately = far;
            if (now % PATIENCE == 0) {
                if (now > PATIENCE && needed(last, far, tol) > (double)(steps - now)) return 0;
                last = far;
            }
            if (now <= ADAPTED) penalties(s, 0);
        }
        look_ahead(size, ahead, s->gradient, before);
        if (step(s, 0, SETTLING)) return -2;
        gradients(s, 1, s->w, s->gradient);
    }
    return 0;
}

/* w (r, d) holds the start, and in the end the orthonormal point, z the sparse one. `linear` and `given`, the
   multiplier of the start, may be NULL, and so may `single`, a dense matrix in single precision. Returns whether the steps settled; -1 and -2 as above. */
EXPORT int64_t fedspca_settle(const Lapack *lapack, const quadratic_t *q, int64_t r, const double *lam, double *w,
                              double *z, const double *linear, const double *given, const float *single,
                              int64_t steps, double tol, double *multiplier) {
    admm_t s = {.lapack = lapack, .q = q, .d = q->d, .r = r, .lam = lam, .linear = linear, .w = w, .z = z};
    index_t size = s.d * r;
    double *memory = reserve(&s, 1, 3 * size);
    if (memory == NULL) return -1;
    double *fitted = s.polar + polar_work(r), *before = fitted + size;
    s.from = (float *)(before + size);
    s.to = s.from + size;
    memcpy(z, w, (size_t)size * sizeof(double));
    memset(s.dual, 0, (size_t)size * sizeof(double));
    gradients(&s, 1, w, s.gradient);
    if (given != NULL) first_dual(&s, 0, given);
    penalties(&s, 0);
    s.single = single;
    int status = settle(&s, steps, tol, multiplier, fitted, before);
    if (status >= 0) multiplier_of(&s, 0, multiplier);
    free(memory);
    free(s.fresh);
    return status;
}

/* The orthonormal matrix nearest to each of n: x and out are (n, r, d). */
EXPORT int64_t fedspca_nearest(const Lapack *lapack, int64_t n, int64_t d, int64_t r, const double *x, double *out) {
    double *work = malloc((size_t)polar_work(r) * sizeof(double));
    int status = work == NULL ? -1 : 0;
    for (index_t i = 0; i < n && !status; i++) status = nearest_orthonormal(lapack, d, r, x + i * d * r, out + i * d * r, NULL, work);
    free(work);
    return status > 0 ? -2 : status;
}

/* The objective at each of n points: w is (n, r, d). Returns 0, or -1 without memory. */
EXPORT int64_t fedspca_objectives(const Lapack *lapack, const quadratic_t *q, int64_t n, int64_t r, const double *lam,
                                  const double *w, double *values) {
    admm_t s = {.lapack = lapack, .q = q, .d = q->d, .r = r, .lam = lam};
    index_t size = n * s.d * r, seen = q->dense ? 0 : n * r * q->m;
    double *gradient = malloc((size_t)(size + seen + 1) * sizeof(double));
    if (gradient == NULL) return -1;
    s.seen = gradient + size;
    gradients(&s, n, w, gradient);
    for (index_t i = 0; i < n; i++) values[i] = objective(&s, w + i * s.d * r, gradient + i * s.d * r);
    free(gradient);
    return 0;
}
