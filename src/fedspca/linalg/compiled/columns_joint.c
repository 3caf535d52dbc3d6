/* Twin of joint.py: the search for all columns together, from its starts to the last move. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"

#define BEHIND 0.1 /* as in joint.py */
enum { FIRST = 1, SWEEPS = 2, MOVES = 4, SINGLE = 8, SINGLES = 16 };
enum { TOOK = 9 }; /* columns that are kept for a feature handed over */

/* Working memory, laid out twice: without a base, to learn its size, and then for use. */
typedef struct {
    char *base;
    size_t used;
} Memory;

static void *take(Memory *memory, index_t n, size_t size) {
    void *place = memory->base ? memory->base + memory->used : 0;
    memory->used += ((size_t)(n > 0 ? n : 1) * size + 15) / 16 * 16;
    return place;
}

static double *take_doubles(Memory *memory, index_t n) { return take(memory, n, sizeof(double)); }

static index_t *take_indices(Memory *memory, index_t n) { return take(memory, n, sizeof(index_t)); }

static index_t larger_of(index_t a, index_t b) { return a > b ? a : b; }

static void take_columns(Memory *memory, Columns *columns, index_t size, index_t k) {
    columns->supports = take_indices(memory, size * k);
    columns->weights = take_doubles(memory, size * k);
    columns->gains = take_doubles(memory, size);
}

static void take_points(Memory *memory, Points *points, index_t size, const Search *search) {
    points->m = 0;
    points->w = take_doubles(memory, size * search->r * search->d);
    points->variances = take_doubles(memory, size);
}

static void lay_out_beside(Memory *memory, Search *search) {
    Beside *beside = &search->beside;
    index_t d = search->d, r = search->r;
    beside->basis = take_doubles(memory, r * d);
    beside->image = take_doubles(memory, r * d);
    beside->rest = take_doubles(memory, r * d);
    beside->rows = take_doubles(memory, r > 1 ? d * d : 0);
    beside->diagonal = take_doubles(memory, d);
    beside->weights = take_doubles(memory, r * d);
    beside->entries = take_indices(memory, r * d);
    beside->begin = take_indices(memory, r + 1);
    beside->uses = take(memory, d, 1);
    beside->formed = take(memory, d, 1);
}

static void lay_out_frame(Memory *memory, Search *search) {
    Frame *frame = &search->frame;
    index_t n = 0, p = search->r * (search->r + 1) / 2;
    for (index_t j = 0; j < search->r; j++) n += search->k[j];
    if (!search->refits) n = p = 0;
    index_t c = search->r;
    frame->features = take_indices(memory, n);
    frame->where = take_indices(memory, n * c);
    frame->column = take_indices(memory, c);
    frame->start = take_indices(memory, c + 1);
    frame->first = take_indices(memory, p);
    frame->second = take_indices(memory, p);
    double **vectors[] = {&frame->gradient, &frame->scales, &frame->values, &frame->work, &frame->along,
                          &frame->slope,    &frame->step,   &frame->x,      &frame->trial};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) *vectors[i] = take_doubles(memory, n);
    double **squares[] = {&frame->reflectors, &frame->tangent, &frame->half, &frame->reduced};
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) *squares[i] = take_doubles(memory, n * n);
    frame->blocks = take_doubles(memory, n * search->most);
    frame->jacobian = take_doubles(memory, p * n);
    frame->normal = take_doubles(memory, p * p);
    frame->sizes = take_doubles(memory, p);
    frame->error = take_doubles(memory, p);
    frame->multiplier = take_doubles(memory, p);
}

/* How many points are kept at a time. */
static index_t most_points(const Search *search, const Effort *effort) {
    index_t r = search->r, first = 2 * effort->points + effort->beam * (effort->branches + 2) + effort->pool;
    first += search->n_given + effort->finalists;
    index_t moves = effort->handovers ? 8 * r * r + effort->swaps + 2 * effort->branches : 0;
    return larger_of(first, moves) + 2;
}

static void lay_out(Memory *memory, Search *search, const Effort *effort) {
    index_t d = search->d, r = search->r, most = search->most, wide = larger_of(most, r);
    index_t columns = d + search->n_given * r + larger_of(effort->climbs, larger_of(effort->beam, effort->branches)) + 2;
    index_t points = most_points(search, effort), sorted = larger_of(columns, points);
    index_t trials = larger_of(larger_of(MOST_SWAPS + 1, most), 2 * r * effort->few + 2);
    lay_out_beside(memory, search);
    lay_out_frame(memory, search);
    double **squares[] = {&search->block, &search->power, &search->other, &search->span, &search->metric,
                          &search->gram,  &search->turn,  &search->inside};
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) *squares[i] = take_doubles(memory, wide * wide);
    double **vectors[] = {&search->values, &search->work,    &search->unit,
                          &search->inner,  &search->trial_x, &search->best_x};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) *vectors[i] = take_doubles(memory, wide);
    double **features[] = {&search->lengths, &search->own_bounds, &search->image, &search->top,
                           &search->bounds,  &search->left,       &search->scores};
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) *features[i] = take_doubles(memory, d);
    double **loadings[] = {&search->step, &search->stepped, &search->joined, &search->moved, &search->start,
                           &search->end};
    for (size_t i = 0; i < sizeof loadings / sizeof *loadings; i++) *loadings[i] = take_doubles(memory, r * d);
    search->product = take_doubles(memory, r * r);
    search->promised = take_doubles(memory, larger_of(trials, search->n_given * r + effort->beam));
    search->support = take_indices(memory, most);
    search->trials = take_indices(memory, trials * most);
    search->pool = take_indices(memory, (effort->beam + search->n_given * r + 1) * most);
    search->named = take_indices(memory, r * most);
    search->lists = take_indices(memory, 2 * r * (most + 1));
    search->features = take_indices(memory, d);
    index_t **orders[] = {&search->order, &search->space, &search->moving, &search->owners};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) *orders[i] = take_indices(memory, sorted);
    search->table = take(memory, 4 * sorted + 8, sizeof(uint64_t));
    search->stays = take(memory, d, 1);
    search->swaps = take(memory, 4 * most, sizeof(Swap));
    Columns *lists[] = {&search->found, &search->ended, &search->merged};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) take_columns(memory, lists[i], 2 * columns, most);
    index_t kept = larger_of(larger_of(effort->beam, effort->branches), larger_of(TOOK, most));
    take_columns(memory, &search->kept, kept, most);
    take_columns(memory, &search->given_up, kept, most);
    take_columns(memory, &search->one, 1, most);
    Points *stacks[] = {&search->first, &search->second, &search->third, &search->scratch};
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) take_points(memory, stacks[i], points, search);
}

/* The lengths of the rows and the largest variance. Returns 0 where these are not finite: an order of scores exists only
   without NaN, and supports come from such orders. */
static int measured(Search *search) {
    index_t d = search->d;
    int finite = 1;
    search->size = 0.0;
    for (index_t i = 0; i < d; i++) {
        const double *row = search->s + i * d;
        double sum = 0.0;
        for (index_t j = 0; j < d; j++) sum += row[j] * row[j];
        search->lengths[i] = sqrt(sum);
        finite &= isfinite(sum) != 0;
        if (row[i] > search->size) search->size = row[i];
    }
    if (search->size == 0.0) search->size = 1.0;
    return finite;
}

/* Supports of the best single columns and of the dense starts, each once, into `pool`; returns how many. */
static index_t fill_pool(Search *search, const Columns *single, const Effort *effort) {
    const index_t *supports[MOST_COLUMNS];
    index_t k = single->k, r = search->r, n = single->m, *pool = search->pool;
    memcpy(pool, single->supports, (size_t)(n * k) * sizeof *pool);
    for (index_t g = 0; g < search->n_given; g++) {
        supports_of(search, search->given + g * r * search->d, search->named, supports);
        for (index_t j = 0; j < r; j++) memcpy(pool + n++ * k, supports[j], (size_t)k * sizeof *pool);
    }
    n = distinct(search, n, k, pool, search->order);
    for (index_t i = 0; i < n; i++) memmove(pool + i * k, pool + search->order[i] * k, (size_t)k * sizeof *pool);
    return n < effort->pool ? n : effort->pool;
}

/* The support of the pool that adds most variance to the span; of those equal up to TIE, the first. */
static index_t best_of_pool(Search *search, index_t n, index_t k) {
    double top = -INFINITY, *gains = search->promised;
    for (index_t i = 0; i < n; i++) {
        double floor = isfinite(top) ? top - 2.0 * TIE * fabs(top) : -INFINITY;
        gains[i] = refit(search, k, search->pool + i * k, floor, search->best_x);
        if (gains[i] > top) top = gains[i];
    }
    if (!isfinite(top)) return 0;
    for (index_t i = 0; i < n; i++)
        if (gains[i] >= top - TIE * fabs(top)) return i;
    return 0;
}

/* Columns from a pool of supports: each in turn is first, then those that add most to the span. Into `first`. */
static void pooled(Search *search, const Columns *single, const Effort *effort) {
    index_t r = search->r, k = search->k[0];
    search->first.m = 0;
    for (index_t j = 1; j < r; j++)
        if (search->k[j] != k) return;
    if (!effort->pool) return;
    index_t n = fill_pool(search, single, effort);
    for (index_t i = 0; i < n; i++) {
        double *w = search->moved, variance = 0.0;
        memset(w, 0, (size_t)(r * search->d) * sizeof *w);
        for (index_t j = 0; j < r; j++) {
            beside_others(search, w, j, j, 0);
            const index_t *support = search->pool + (j ? best_of_pool(search, n, k) : i) * k;
            variance += refit(search, k, support, -INFINITY, search->best_x);
            put(search, w, j, k, support, search->best_x);
        }
        add_point(search, &search->first, w, variance);
    }
    best_points(search, &search->first, r, effort->points, INFINITY);
}

/* Each column beside the first `have` columns of a point, added to some points. */
static void lengthen(Search *search, Points *points, const double *w, double variance, index_t have,
                     const Columns *columns) {
    double *longer = search->moved;
    for (index_t i = 0; i < columns->m; i++) {
        index_t k = columns->k;
        memcpy(longer, w, (size_t)(search->r * search->d) * sizeof *longer);
        put(search, longer, have, k, columns->supports + i * k, columns->weights + i * k);
        add_point(search, points, longer, variance + columns->gains[i]);
    }
}

/* Beam search, into `second`: columns are added one after another. Returns 1 where no column is left to add. */
static int beam(Search *search, const Columns *single, int orthogonal, const Effort *effort) {
    Points *kept = &search->second, *longer = &search->third;
    index_t size = search->r * search->d;
    kept->m = 0;
    memset(search->stepped, 0, (size_t)size * sizeof(double));
    lengthen(search, kept, search->stepped, 0.0, 0, single);
    best_points(search, kept, 1, effort->beam, INFINITY);
    for (index_t j = 1; j < search->r; j++) {
        longer->m = 0;
        for (index_t i = 0; i < kept->m; i++) {
            beside_others(search, kept->w + i * size, j, j, orthogonal);
            best_of_each(search, search->k[j], effort, 0, 0, effort->branches, &search->kept);
            lengthen(search, longer, kept->w + i * size, kept->variances[i], j, &search->kept);
        }
        if (!longer->m) return 1;
        best_points(search, longer, j + 1, effort->beam, INFINITY);
        Points other = *kept;
        *kept = *longer;
        *longer = other;
    }
    return 0;
}

/* Starting points, into `first`. Returns 1 where no column is left to add. */
static int first_points(Search *search, const Effort *effort) {
    Columns *single = &search->given_up;
    Points *first = &search->first, *second = &search->second;
    index_t r = search->r, size = r * search->d, all = 0;
    stand_beside(search, 0, 0, 1);
    best_of_each(search, search->k[0], effort, 0, 0, effort->beam, single);
    if (effort->points > 1) {
        pooled(search, single, effort);
        for (index_t j = 0; j < r; j++) all += search->k[j];
        if (search->orthogonal && all > search->d) { /* columns that were found freely may suit, too */
            if (beam(search, single, 0, effort)) return 1;
            join_points(search, first, second);
            best_points(search, first, r, effort->points, INFINITY);
        }
        index_t n = first->m;
        for (index_t i = 0; search->orthogonal && i < n; i++) {
            double *w = first->w + i * size;
            first->variances[i] = fitted(search, w, 1, search->moved);
            memcpy(w, search->moved, (size_t)size * sizeof *w);
        }
        for (index_t g = 0; g < search->n_given; g++) {
            double variance = fitted(search, search->given + g * size, search->orthogonal, search->moved);
            add_point(search, first, search->moved, variance);
        }
    } else first->m = 0;
    if (beam(search, single, search->orthogonal, effort)) return 1;
    join_points(search, second, first);
    best_points(search, second, r, effort->points, INFINITY);
    Points other = *first;
    *first = *second;
    *second = other;
    return 0;
}

static void sweep_all(Search *search, const Effort *effort, index_t sweeps, int everywhere) {
    Points *points = &search->first;
    for (index_t i = 0; i < points->m; i++)
        swept(search, points->w + i * search->r * search->d, points->variances + i, effort, sweeps, everywhere);
}

/* The finalists, into `first`. Returns 1 where numpy has to find them. */
static int finalists(Search *search, const Effort *effort) {
    Effort less = quick(effort);
    if (first_points(search, &less)) return 1;
    sweep_all(search, &less, 1, 0);
    if (effort->handovers) {
        best_points(search, &search->first, search->r, effort->points / 2, BEHIND);
        sweep_all(search, &less, 1, 0);
        best_points(search, &search->first, search->r, effort->finalists, BEHIND);
    }
    best_points(search, &search->first, search->r, effort->finalists, INFINITY);
    return search->first.m == 0;
}

/* The finalists swept to the end; the best of them stays in `first`. */
static void final(Search *search, const Effort *effort) {
    Points *points = &search->first;
    sweep_all(search, effort, effort->sweeps, 1);
    for (index_t i = 0; i < points->m; i++)
        points->variances[i] = polished(search, points->w + i * search->r * search->d, points->variances[i], 1);
    best_points(search, points, search->r, 1, INFINITY);
}

/* One column, the lowest of equal features selected, into `first`, if there is one. */
static void single(Search *search, const Effort *effort) {
    Columns *best = &search->kept;
    stand_beside(search, 0, 0, 1);
    best_of_each(search, search->k[0], effort, search->n_given, search->given, 1, best);
    if (!best->m) return;
    lowest(search, best->k, best->supports, best->weights);
    put(search, search->moved, 0, best->k, best->supports, best->weights);
    add_point(search, &search->first, search->moved, best->gains[0]);
}

/* The best single columns, into `first`. */
static void singles(Search *search, const Effort *effort) {
    Columns *best = &search->kept;
    stand_beside(search, 0, 0, 1);
    best_of_each(search, search->k[0], effort, 0, 0, effort->beam, best);
    for (index_t i = 0; i < best->m; i++) {
        put(search, search->moved, 0, best->k, best->supports + i * best->k, best->weights + i * best->k);
        add_point(search, &search->first, search->moved, best->gains[i]);
    }
}

static void last_moves(Search *search, const Effort *effort) {
    double *w = search->first.w, *variance = search->first.variances;
    handed_over(search, w, variance, effort);
    redivided(search, w, variance, effort);
    swapped(search, w, variance, effort);
    exchanged(search, w, variance, effort);
    if (!search->orthogonal) *variance = polished(search, w, *variance, 0); /* the refit that follows then needs few steps */
}

static Effort effort_of(const int64_t *numbers, double near) {
    Effort effort;
    index_t *fields[] = {&effort.small,    &effort.first_wave, &effort.starts,    &effort.few_nonzeros,
                         &effort.power_steps, &effort.refits,  &effort.climbs,    &effort.swaps,
                         &effort.steps,    &effort.beam,       &effort.points,    &effort.branches,
                         &effort.pool,     &effort.sweeps,     &effort.finalists, &effort.pairs,
                         &effort.handovers, &effort.few};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) *fields[i] = numbers[i];
    effort.near = near;
    return effort;
}

/* Memory for a search; returns 0 if there is none. */
static void *prepare(Search *search, const Effort *effort) {
    Memory memory = {0, 0};
    search->most = 0;
    for (index_t j = 0; j < search->r; j++) search->most = larger_of(search->most, search->k[j]);
    lay_out(&memory, search, effort);
    memory.base = malloc(memory.used);
    memory.used = 0;
    if (!memory.base) return 0;
    lay_out(&memory, search, effort);
    search->finite = measured(search);
    return memory.base;
}

/* Stages of a search: SINGLE finds one column, if there is one, and SINGLES the best single ones; FIRST finds finalists,
   SWEEPS sweeps them and keeps the best, MOVES moves features between its columns. Points go in (without FIRST) and out
   through w (r x d each) and `variances`. Returns how many there are; 0 where numpy has to search; -1 without memory. */
EXPORT int64_t fedspca_columns(const void *lapack, int64_t d, int64_t r, const double *s, const int64_t *k,
                               int64_t orthogonal, const int64_t *numbers, double near, int64_t n_given, const double *given,
                               int64_t stages, int64_t n_points, double *w, double *variances) {
    Search search = {.d = d, .r = r, .s = s, .k = k, .orthogonal = orthogonal != 0, .refits = 1,
                     .lapack = lapack, .n_given = n_given, .given = given};
    Effort effort = effort_of(numbers, near);
    void *memory = prepare(&search, &effort);
    if (!memory) return -1;
    if (!search.finite) n_points = 0;
    else if (stages & SINGLE) {
        single(&search, &effort);
        n_points = search.first.m;
    } else if (stages & SINGLES) {
        singles(&search, &effort);
        n_points = search.first.m;
    } else if (stages & FIRST) n_points = finalists(&search, &effort) ? 0 : search.first.m;
    else
        for (index_t i = 0; i < n_points; i++) add_point(&search, &search.first, w + i * r * d, variances[i]);
    if (n_points && (stages & SWEEPS)) final(&search, &effort);
    if (n_points && (stages & MOVES) && effort.handovers) last_moves(&search, &effort);
    if (n_points) n_points = search.first.m;
    memcpy(w, search.first.w, (size_t)(n_points * r * d) * sizeof *w);
    memcpy(variances, search.first.variances, (size_t)n_points * sizeof *variances);
    free(memory);
    return search.failed ? -1 : n_points;
}

/* The lowest index selected among equal features, in every column of w (r x d), one after the other. Returns whether a
   column has changed; -1 without memory. */
EXPORT int64_t fedspca_lowest(int64_t d, int64_t r, const double *s, const int64_t *k, int64_t orthogonal, double *w) {
    static const Effort nothing;
    Search search = {.d = d, .r = r, .s = s, .k = k};
    void *memory = prepare(&search, &nothing);
    if (!memory) return -1;
    int64_t changed = 0;
    for (index_t j = 0; j < r && search.finite; j++) {
        index_t n = 0, *support = search.pool;
        for (index_t i = 0; i < d; i++)
            if (w[j * d + i] != 0.0) support[n++] = i;
        if (!n) continue;
        beside_others(&search, w, r, j, orthogonal != 0);
        if (!lowest(&search, n, support, search.one.weights)) continue;
        put(&search, w, j, n, support, search.one.weights);
        changed = 1;
    }
    free(memory);
    return changed;
}

/* For tests: the gains (m) and weights (m x k) of m supports beside the span of q columns (q x d). */
EXPORT int64_t fedspca_refit_beside(int64_t d, int64_t q, const double *s, const double *columns, int64_t orthogonal,
                             int64_t m, int64_t k, const int64_t *supports, double *gains, double *weights) {
    static const Effort nothing;
    index_t sizes[MOST_COLUMNS];
    const double *others[MOST_COLUMNS];
    for (index_t j = 0; j <= q; j++) sizes[j] = k;
    for (index_t j = 0; j < q; j++) others[j] = columns + j * d;
    Search search = {.d = d, .r = q + 1, .s = s, .k = sizes};
    void *memory = prepare(&search, &nothing);
    if (!memory) return -1;
    stand_beside(&search, q, others, orthogonal != 0);
    for (index_t i = 0; i < m; i++) gains[i] = refit(&search, k, supports + i * k, -INFINITY, weights + i * k);
    free(memory);
    return 0;
}

/* For tests: orthonormal w (r x d) refitted on supports of k features each (r x k); its variance goes to the last. */
EXPORT int64_t fedspca_refitted(int64_t d, int64_t r, const double *s, int64_t k, const int64_t *supports,
                                int64_t steps, double *w, double *variance) {
    static const Effort nothing;
    index_t sizes[MOST_COLUMNS];
    const index_t *each[MOST_COLUMNS];
    for (index_t j = 0; j < r; j++) {
        sizes[j] = k;
        each[j] = supports + j * k;
    }
    Search search = {.d = d, .r = r, .s = s, .k = sizes, .orthogonal = 1, .refits = 1};
    void *memory = prepare(&search, &nothing);
    if (!memory) return -1;
    *variance = refitted(&search, w, each, steps);
    free(memory);
    return 0;
}
