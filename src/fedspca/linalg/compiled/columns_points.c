/* Twin of points.py: solutions whose columns are updated in turn. Here one point is treated after the other. */
#include <math.h>
#include <string.h>

#include "columns.h"

enum { STEPS = 2, SWEEPS = 3, POLISHING = 6, TURNS = 6, ROUNDS = 4, MOST_ROUNDS = 150 };
#define LITTLE 1e-6 /* share of the variance: a round that gains less is the last */
#define ALMOST_STILL 1e-8 /* the same where columns are nearly parallel, and would become so without end */
#define STILL 1e-12 /* the same at the end, where columns nearly parallel gain little for long */

static size_t bytes_of(const Search *search) { return (size_t)(search->r * search->d) * sizeof(double); }

Effort quick(const Effort *effort) {
    Effort less = *effort;
    less.swaps = 2;
    less.steps = 3;
    return less;
}

void add_point(Search *search, Points *points, const double *w, double variance) {
    memcpy(points->w + points->m * search->r * search->d, w, bytes_of(search));
    points->variances[points->m++] = variance;
}

void join_points(Search *search, Points *points, const Points *others) {
    for (index_t i = 0; i < others->m; i++)
        add_point(search, points, others->w + i * search->r * search->d, others->variances[i]);
}

/* Replace column j of a point. */
void put(Search *search, double *w, index_t j, index_t k, const index_t *support, const double *x) {
    double *column = w + j * search->d;
    memset(column, 0, (size_t)search->d * sizeof *column);
    for (index_t i = 0; i < k; i++) column[support[i]] = x[i];
}

/* A number for each set of supports, whatever the order of the columns. */
static uint64_t key_of(index_t d, index_t r, const double *w) {
    uint64_t sum = 0;
    for (index_t j = 0; j < r; j++) {
        uint64_t key = 0;
        for (index_t i = 0; i < d; i++)
            if (w[j * d + i] != 0.0) key += bits_of(i);
        key ^= key >> 29; /* so that features moved between columns change the sum */
        key *= 0xBF58476D1CE4E5B9u;
        sum += key ^ (key >> 32);
    }
    return sum;
}

/* The features of each column, each list filled up with -1, which is no feature; the lists in ascending order. */
static void list_features(Search *search, index_t r, const double *w, index_t *lists) {
    index_t d = search->d, width = search->most + 1;
    for (index_t j = 0; j < r; j++) {
        index_t n = 0, *list = lists + j * width;
        for (index_t i = 0; i < d; i++)
            if (w[j * d + i] != 0.0) list[n++] = i;
        for (; n < width; n++) list[n] = -1; /* a list that ends sooner stands first */
    }
    for (index_t j = 1; j < r; j++)
        for (index_t i = j; i > 0 && lower_support(width, lists + i * width, lists + (i - 1) * width); i--)
            for (index_t c = 0; c < width; c++) {
                index_t feature = lists[i * width + c];
                lists[i * width + c] = lists[(i - 1) * width + c];
                lists[(i - 1) * width + c] = feature;
            }
}

typedef struct {
    Search *search;
    const Points *points;
    index_t r;
    const index_t *group;
} Order;

static int more(const void *context, index_t a, index_t b) {
    const Order *order = context;
    return order->points->variances[a] > order->points->variances[b];
}

static int first_of_equals(const void *context, index_t a, index_t b) {
    const Order *order = context;
    if (order->group[a] != order->group[b]) return order->group[a] < order->group[b];
    Search *search = order->search;
    index_t size = search->r * search->d, length = order->r * (search->most + 1), *lists = search->lists;
    list_features(search, order->r, order->points->w + a * size, lists);
    list_features(search, order->r, order->points->w + b * size, lists + length);
    return lower_support(length, lists, lists + length);
}

/* Leave out what is far behind the best, and what has the supports of a better point; returns how many are left. */
static index_t without_repetitions(Search *search, const Points *points, index_t r, double behind, index_t *order) {
    uint64_t *keys = search->table;
    index_t n = 0;
    double least = points->m ? points->variances[order[0]] * (1.0 - behind) : 0.0;
    for (index_t i = 0; i < points->m; i++) {
        double variance = points->variances[order[i]];
        if (!isfinite(variance) || (isfinite(behind) && !(variance >= least))) continue;
        uint64_t key = key_of(search->d, r, points->w + order[i] * search->r * search->d);
        index_t j = 0;
        while (j < n && keys[j] != key) j++;
        if (j < n) continue;
        keys[n] = key;
        order[n++] = order[i];
    }
    return n;
}

/* Keep the n best points with different sets of supports, best first; r of their columns are filled. */
void best_points(Search *search, Points *points, index_t r, index_t n, double behind) {
    index_t *order = search->order, *group = search->owners, number = 0, size = search->r * search->d;
    Order by = {search, points, r, group};
    for (index_t i = 0; i < points->m; i++) order[i] = i;
    stable_sort(points->m, order, search->space, more, &by);
    index_t left = without_repetitions(search, points, r, behind, order);
    for (index_t i = 0; i < left; i++) {
        if (i && points->variances[order[i]] < points->variances[order[i - 1]] * (1.0 - TIE)) number++;
        group[order[i]] = number;
    }
    if (number + 1 < left) stable_sort(left, order, search->space, first_of_equals, &by);
    Points *scratch = &search->scratch;
    scratch->m = 0;
    for (index_t i = 0; i < left && i < n; i++)
        add_point(search, scratch, points->w + order[i] * size, points->variances[order[i]]);
    Points exchanged = *points;
    *points = *scratch;
    *scratch = exchanged;
}

void supports_of(Search *search, const double *w, index_t *named, const index_t **supports) {
    for (index_t j = 0; j < search->r; j++) {
        heaviest(search, w + j * search->d, search->k[j], named + j * search->most);
        supports[j] = named + j * search->most;
    }
}

/* Loadings on given supports, each column the best beside those before it; returns the variance. */
double in_order(Search *search, const index_t *const *supports, int orthogonal, double *w) {
    double variance = 0.0;
    memset(w, 0, bytes_of(search));
    for (index_t j = 0; j < search->r; j++) {
        double *x = search->best_x;
        beside_others(search, w, j, j, orthogonal);
        double gain = refit(search, search->k[j], supports[j], -INFINITY, x);
        if (!isfinite(gain)) return -INFINITY;
        variance += gain;
        put(search, w, j, search->k[j], supports[j], x);
    }
    return variance;
}

/* Whether columns share features. */
static int overlap(const Search *search, const double *w) {
    index_t d = search->d;
    for (index_t i = 0; i < d; i++) {
        int used = 0;
        for (index_t j = 0; j < search->r; j++) used += w[j * d + i] != 0.0;
        if (used > 1) return 1;
    }
    return 0;
}

/* Column j of a point refitted on its support, where that gains. */
static void replace(Search *search, double *w, double *variance, index_t j, const index_t *support) {
    double *x = search->best_x;
    beside_others(search, w, search->r, j, 0);
    double after = search->beside.captured + refit(search, search->k[j], support, -INFINITY, x);
    if (!(after > *variance * (1.0 + GAIN))) return;
    put(search, w, j, search->k[j], support, x);
    *variance = after;
}

/* Columns that may overlap, refitted in turn, until a sweep gains less than the share `worth`. */
static double in_turn(Search *search, double *w, double variance, const index_t *const *supports, index_t sweeps,
                      double worth) {
    for (index_t sweep = 0; sweep < sweeps; sweep++) {
        double before = variance;
        for (index_t j = 0; j < search->r; j++) replace(search, w, &variance, j, supports[j]);
        if (!(variance > before * (1.0 + worth))) break;
    }
    return variance;
}

static int many(const Search *search) {
    index_t all = 0;
    for (index_t j = 0; j < search->r; j++) all += search->k[j];
    return all > TOGETHER;
}

/* Orthogonal columns refitted together from those nearest to some others. Where the way to these is long, sparse Newton
   steps go it; where there are none, the refit begins from w. */
static double joint(Search *search, const double *near, double *w, double variance, const index_t *const *supports) {
    double *start = search->joined, after = -INFINITY;
    memcpy(start, w, bytes_of(search));
    if (many(search)) after = refitted_sparsely(search, w, supports, 0, 1, start);
    else if (!nearest(search, near, supports, start)) after = refitted_sparsely(search, near, supports, 1, 1, start);
    if (!isfinite(after)) after = refitted(search, start, supports, STEPS);
    if (!(after > variance)) return variance;
    memcpy(w, start, bytes_of(search));
    return after;
}

/* The best loadings on the supports of others, cut off at k, in w; returns their variance. */
double fitted(Search *search, const double *near, int orthogonal, double *w) {
    const index_t *supports[MOST_COLUMNS];
    supports_of(search, near, search->named, supports);
    if (orthogonal && many(search)) {
        double approached = refitted_sparsely(search, near, supports, 1, 1, w);
        if (isfinite(approached)) return approached;
    }
    double variance = in_order(search, supports, orthogonal, w);
    if (!isfinite(variance) || !overlap(search, w)) return variance;
    if (orthogonal) return joint(search, near, w, variance, supports);
    return in_turn(search, w, variance, supports, SWEEPS, 0.0);
}

/* The better of two columns: the larger gain, or the lower features if these are equal up to TIE. */
static int better_column(const Columns *a, const Columns *b) {
    double high = a->gains[0] > b->gains[0] ? a->gains[0] : b->gains[0];
    if (fabs(a->gains[0] - b->gains[0]) > TIE * fabs(high)) return a->gains[0] > b->gains[0];
    return !lower_support(a->k, b->supports, a->supports);
}

/* Column j improved by swaps or, with `everywhere`, searched from every feature; accepted where that gains. */
static void update(Search *search, double *w, double *variance, index_t j, const Effort *effort, int everywhere) {
    Columns *one = &search->one, *other = &search->kept, *found = one;
    index_t k = search->k[j];
    beside_others(search, w, search->r, j, search->orthogonal);
    one->k = k;
    one->m = 1;
    heaviest(search, w + j * search->d, k, one->supports);
    one->gains[0] = refit(search, k, one->supports, -INFINITY, one->weights);
    one->m = isfinite(one->gains[0]) != 0;
    climbed(search, one, effort);
    if (everywhere) {
        Effort less = quick(effort);
        best_of_each(search, k, &less, 0, 0, 1, other);
        if (other->m && !(one->m && better_column(one, other))) found = other;
    }
    if (!found->m) return;
    double after = search->beside.captured + found->gains[0];
    if (!(after > *variance * (1.0 + GAIN))) return;
    put(search, w, j, k, found->supports, found->weights);
    *variance = after;
}

/* Orthogonal columns whose supports overlap, refitted together. */
static void together(Search *search, double *w, double *variance) {
    const index_t *supports[MOST_COLUMNS];
    if (!overlap(search, w)) return;
    supports_of(search, w, search->named, supports);
    double *trial = search->joined, after;
    memcpy(trial, w, bytes_of(search));
    if (many(search)) after = refitted_sparsely(search, w, supports, 0, 1, trial);
    else after = refitted(search, trial, supports, STEPS);
    if (!(after > *variance)) return;
    memcpy(w, trial, bytes_of(search));
    *variance = after;
}

/* S w, and w' S w. */
static void products(Search *search, const double *w, double *image, double *inner) {
    index_t d = search->d, r = search->r;
    memset(image, 0, bytes_of(search));
    for (index_t j = 0; j < r; j++)
        for (index_t i = 0; i < d; i++) {
            double weight = w[j * d + i];
            if (weight != 0.0)
                for (index_t f = 0; f < d; f++) image[j * d + f] += weight * search->s[i * d + f];
        }
    for (index_t p = 0; p < r; p++)
        for (index_t q = 0; q < r; q++) {
            inner[p * r + q] = 0.0;
            for (index_t i = 0; i < d; i++)
                if (w[p * d + i] != 0.0) inner[p * r + q] += w[p * d + i] * image[q * d + i];
        }
}

/* What the gradient changes: S w - w w' S w, into `image`; the variances of the columns are the diagonal of `inner`. */
void pull_of(Search *search, const double *w, double *image, double *inner) {
    index_t d = search->d, r = search->r;
    products(search, w, image, inner);
    for (index_t j = 0; j < r; j++)
        for (index_t p = 0; p < r; p++)
            for (index_t i = 0; i < d; i++) image[j * d + i] -= inner[p * r + j] * w[p * d + i];
}

/* A gradient step of all columns at once, truncated and refitted, accepted if it gains. */
static void stepped(Search *search, double *w, double *variance) {
    index_t d = search->d, r = search->r;
    double *step = search->step, *inner = search->product, *trial = search->stepped, most = 0.0;
    const index_t *supports[MOST_COLUMNS];
    pull_of(search, w, step, inner);
    for (index_t i = 0; i < r * r; i++) most = fabs(inner[i]) > most ? fabs(inner[i]) : most;
    for (index_t j = 0; j < r; j++) {
        double own = inner[j * r + j], least = 1e-3 * most + 1e-300, weight = own > least ? own : least;
        for (index_t i = 0; i < d; i++) step[j * d + i] = w[j * d + i] + step[j * d + i] / weight;
    }
    supports_of(search, step, search->named, supports);
    int moved = 0;
    for (index_t j = 0; j < r; j++) {
        index_t n = 0;
        for (index_t i = 0; i < d; i++) n += w[j * d + i] != 0.0;
        moved |= n != search->k[j];
        for (index_t i = 0; i < search->k[j]; i++) moved |= w[j * d + supports[j][i]] == 0.0;
    }
    if (!moved) return;
    double after = fitted(search, step, 1, trial);
    if (!(after > *variance * (1.0 + GAIN))) return;
    memcpy(w, trial, bytes_of(search));
    *variance = after;
}

/* Update columns in turn until nothing gains. A column is updated again only if a column has changed since. */
void swept(Search *search, double *w, double *variance, const Effort *effort, index_t sweeps, int everywhere) {
    index_t r = search->r, n_stale = r;
    char stale[MOST_COLUMNS];
    memset(stale, 1, (size_t)r);
    for (index_t sweep = 0; sweep < sweeps && n_stale; sweep++) {
        int moved = sweep == 0;
        for (index_t j = 0; j < r; j++) {
            if (!stale[j]) continue;
            double before = *variance;
            update(search, w, variance, j, effort, everywhere);
            stale[j] = 0;
            if (!(*variance > before * (1.0 + GAIN))) continue;
            memset(stale, 1, (size_t)r);
            moved = 1;
        }
        if (search->orthogonal && moved) {
            double before = *variance;
            together(search, w, variance);
            if (effort->points > 1 && (everywhere || r > 2)) stepped(search, w, variance);
            if (*variance > before * (1.0 + GAIN)) memset(stale, 1, (size_t)r);
        }
        n_stale = 0;
        for (index_t j = 0; j < r; j++) n_stale += stale[j];
    }
}

/* Sweeps over all columns, which always gain, and Newton steps, which leave saddle points; as in polish.py, few where
   columns are nearly parallel. */
static double polished_freely(Search *search, double *w, double variance, const index_t *const *supports, int rough) {
    for (index_t round = 0; round < (rough ? ROUNDS : MOST_ROUNDS); round++) {
        double before = in_turn(search, w, variance, supports, TURNS, LITTLE);
        variance = free_step(search, w, before);
        double worth = rough ? LITTLE : nearly_dependent(search, w) ? ALMOST_STILL : STILL;
        if (!(variance > before * (1.0 + worth))) break;
    }
    return variance;
}

/* All columns refitted together on their supports, kept if that gains; returns the variance. Points that are only
   compared may be `rough`. */
double polished(Search *search, double *w, double variance, int rough) {
    const index_t *supports[MOST_COLUMNS];
    double *trial = search->joined, after;
    supports_of(search, w, search->named, supports);
    memcpy(trial, w, bytes_of(search));
    if (!overlap(search, w)) return variance; /* each is the best on its support already */
    if (search->orthogonal && many(search)) after = refitted_sparsely(search, w, supports, 0, 0, trial);
    else if (search->orthogonal) after = refitted(search, trial, supports, POLISHING);
    else after = polished_freely(search, trial, variance, supports, rough);
    if (!(after > variance)) return variance;
    memcpy(w, trial, bytes_of(search));
    return after;
}
