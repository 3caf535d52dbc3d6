/* Twin of column.py: the search for one sparse column beside the basis that `stand_beside` has set. */
#include <math.h>
#include <string.h>

#include "columns.h"

#define COPY 1e-8  /* share of the largest variance, as in column.py */
#define RISE 1e-11 /* relative: a smaller gain of a column is rounding error */
enum { ALL = 200, LONGEST = 32 };

static void cut(index_t k, const index_t *support, const double *values, double *x) {
    for (index_t i = 0; i < k; i++) x[i] = values[support[i]];
}

static int same(index_t k, const index_t *a, const index_t *b) {
    return !memcmp(a, b, (size_t)k * sizeof *a);
}

/* The support that truncated power steps reach from a dense row. */
static void settled(Search *search, const double *row, index_t k, index_t steps, index_t *support) {
    double *x = search->trial_x, *image = search->image;
    index_t *after = search->support;
    heaviest(search, row, k, support);
    cut(k, support, row, x);
    for (index_t step = 0; step < steps; step++) {
        image_beside(search, k, support, x, image);
        heaviest(search, image, k, after);
        if (same(k, after, support)) return;
        memcpy(support, after, (size_t)k * sizeof *support);
        cut(k, support, image, x);
        double size = 0.0;
        for (index_t i = 0; i < k; i++) size += x[i] * x[i];
        size = sqrt(size);
        for (index_t i = 0; i < k; i++) x[i] /= size > 1e-300 ? size : 1e-300;
    }
}

/* The squared norm of the block of P S P on a support, over its trace: at most its largest eigenvalue. */
static double promised(Search *search, index_t k, const index_t *support) {
    double squares = 0.0, trace = 0.0;
    for (index_t i = 0; i < k; i++) {
        const double *row = row_beside(search, support[i]);
        for (index_t j = 0; j < k; j++) squares += row[support[j]] * row[support[j]];
        trace += row[support[i]];
    }
    return squares / (trace > 1e-300 ? trace : 1e-300);
}

static void copy_column(Columns *to, index_t at, const Columns *from, index_t which) {
    index_t k = from->k;
    memmove(to->supports + at * k, from->supports + which * k, (size_t)k * sizeof(index_t));
    memmove(to->weights + at * k, from->weights + which * k, (size_t)k * sizeof(double));
    to->gains[at] = from->gains[which];
}

/* Rank columns by decreasing gain, one for each support, and keep the first n of them in `to`. */
static void take_best(Search *search, const Columns *from, index_t n, Columns *to) {
    index_t m = ranked(search, from->m, from->k, from->gains, from->supports, search->order);
    to->k = from->k;
    to->m = m < n ? m : n;
    for (index_t i = 0; i < to->m; i++) copy_column(to, i, from, search->order[i]);
}

/* Refit the m supports in `found`, and rank them; those that promise most, if there are too many. */
static void refit_found(Search *search, const Effort *effort) {
    Columns *found = &search->found;
    index_t m = found->m, k = found->k;
    for (index_t i = 0; i < m; i++) search->order[i] = i;
    if (m > effort->refits) {
        for (index_t i = 0; i < m; i++) found->gains[i] = promised(search, k, found->supports + i * k);
        m = ranked(search, m, k, found->gains, found->supports, search->order);
        m = m < effort->refits ? m : effort->refits;
    }
    Columns *merged = &search->merged;
    merged->k = k;
    merged->m = 0;
    for (index_t i = 0; i < m; i++) {
        index_t at = merged->m, *support = merged->supports + at * k;
        memcpy(support, found->supports + search->order[i] * k, (size_t)k * sizeof *support);
        merged->gains[at] = refit(search, k, support, -INFINITY, merged->weights + at * k);
        merged->m += isfinite(merged->gains[at]) != 0;
    }
    take_best(search, merged, merged->m, found);
}

/* Leave out the supports of `found` that have occurred before. */
static void make_distinct(Search *search) {
    Columns *found = &search->found;
    index_t k = found->k, n = distinct(search, found->m, k, found->supports, search->order);
    for (index_t i = 0; i < n; i++)
        memmove(found->supports + i * k, found->supports + search->order[i] * k, (size_t)k * sizeof(index_t));
    found->m = n;
}

static void start_from(Search *search, const double *row, const Effort *effort) {
    Columns *found = &search->found;
    settled(search, row, found->k, effort->power_steps, found->supports + found->m++ * found->k);
}

static void start_from_given(Search *search, const Effort *effort, index_t n_given, const double *given) {
    for (index_t i = 0; i < n_given; i++) start_from(search, given + i * search->d, effort);
}

static void from_all(Search *search, const Effort *effort, index_t n_given, const double *given) {
    for (index_t i = 0; i < search->d; i++) start_from(search, row_beside(search, i), effort);
    start_from_given(search, effort, n_given, given);
    make_distinct(search);
    refit_found(search, effort);
}

typedef struct {
    const double *values;
} Descending;

static int greater(const void *context, index_t a, index_t b) {
    const Descending *descending = context;
    return descending->values[a] > descending->values[b];
}

static void sort_by_bound(Search *search, index_t n, index_t *features) {
    Descending descending = {search->bounds};
    stable_sort(n, features, search->space, greater, &descending);
}

/* Features to start from, their row bounds in `bounds`, largest first; returns how many. */
static index_t candidates(Search *search, index_t k, const Effort *effort) {
    index_t d = search->d, n = d, *features = search->features;
    double *bounds = search->bounds, *left = search->left;
    if (k > effort->few_nonzeros) {
        n = d * effort->few_nonzeros / k;
        n = n > effort->first_wave ? n : effort->first_wave;
    }
    for (index_t i = 0; i < d; i++) features[i] = i;
    index_t all = d;
    if (!search->beside.q) {
        for (index_t i = 0; i < d; i++) bounds[i] = sqrt((double)k) * search->lengths[i];
        sort_by_bound(search, d, features);
        index_t longest = d < LONGEST ? d : LONGEST;
        for (index_t i = 0; i < longest; i++)
            bounds[features[i]] = own_row_bound(search, features[i], k);
    } else if (d <= ALL) {
        for (index_t i = 0; i < d; i++) bounds[i] = row_bound(search, row_beside(search, i), k);
    } else {
        n = n < effort->starts ? n : effort->starts;
        for (index_t i = 0; i < d; i++) {
            double own = search->s[i * d + i], share = search->beside.diagonal[i] / (own > 1e-300 ? own : 1e-300);
            left[i] = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
            bounds[i] = search->lengths[i] * left[i];
        }
        heaviest(search, bounds, n, features);
        all = n;
        for (index_t i = 0; i < n; i++)
            bounds[features[i]] = own_row_bound(search, features[i], k) * left[features[i]];
    }
    sort_by_bound(search, all, features);
    return n < all ? n : all;
}

/* Starts from the features of largest row bounds, then from those that can still win. */
static void in_waves(Search *search, const Effort *effort, index_t n_given, const double *given) {
    Columns *found = &search->found;
    index_t k = found->k, n = candidates(search, k, effort), *features = search->features;
    index_t first = n < effort->first_wave ? n : effort->first_wave;
    for (index_t i = 0; i < first; i++) start_from(search, row_beside(search, features[i]), effort);
    start_from_given(search, effort, n_given, given);
    make_distinct(search);
    index_t before = found->m;
    memcpy(search->ended.supports, found->supports, (size_t)(before * k) * sizeof(index_t));
    refit_found(search, effort);
    double best = found->m ? found->gains[0] : -INFINITY, above;
    for (index_t i = 1; i < found->m; i++) best = found->gains[i] > best ? found->gains[i] : best;
    above = best * (1.0 + TIE);
    index_t more = 0;
    for (index_t i = first; i < n; i++) {
        if (!(search->bounds[features[i]] > above)) continue;
        if (!search->beside.q && !(own_row_bound(search, features[i], k) > above)) continue;
        features[first + more++] = features[i];
    }
    if (!more) return;
    memcpy(found->supports, search->ended.supports, (size_t)(before * k) * sizeof(index_t));
    found->m = before;
    for (index_t i = 0; i < more; i++) start_from(search, row_beside(search, features[first + i]), effort);
    make_distinct(search);
    refit_found(search, effort);
}

/* The n best columns of k features beside the basis, best first. */
void best_of_each(Search *search, index_t k, const Effort *effort, index_t n_given, const double *given, index_t n,
                  Columns *best) {
    Columns *found = &search->found, *ended = &search->ended, *merged = &search->merged;
    found->k = k;
    found->m = 0;
    if (search->d <= effort->small) from_all(search, effort, n_given, given);
    else in_waves(search, effort, n_given, given);
    index_t climbs = search->beside.q ? effort->climbs / 3 : effort->climbs;
    climbs = climbs > n ? climbs : n;
    ended->k = k;
    ended->m = found->m < climbs ? found->m : climbs;
    for (index_t i = 0; i < ended->m; i++) copy_column(ended, i, found, i);
    climbed(search, ended, effort);
    merged->k = k;
    merged->m = 0;
    for (index_t i = 0; i < ended->m; i++) copy_column(merged, merged->m++, ended, i);
    for (index_t i = 0; i < found->m; i++) copy_column(merged, merged->m++, found, i);
    take_best(search, merged, n, best);
}

/* Put a swap in its place among the n best so far, which are ordered by gain; returns the least of them. */
static double insert_swap(Swap *best, index_t n, Swap swap) {
    index_t at = n - 1;
    for (; at > 0 && best[at - 1].gain < swap.gain; at--) best[at] = best[at - 1];
    best[at] = swap;
    return best[n - 1].gain;
}

/* The swaps that promise most: the n best of all, or with `each` the n best for each feature that leaves (k x n). */
void promised_by_swaps(Search *search, index_t k, const index_t *support, const double *x, double gain,
                       const double *scores, index_t n, index_t each, Swap *best) {
    index_t d = search->d;
    const double *own = search->beside.diagonal;
    for (index_t i = 0; i < n * (each ? k : 1); i++) best[i] = (Swap){0, 0, -INFINITY};
    double least = -INFINITY;
    for (index_t i = 0; i < k; i++) {
        const double *row = row_beside(search, support[i]);
        double weight = x[i] * x[i];
        weight = weight < 1.0 - 1e-12 ? weight : 1.0 - 1e-12;
        double rest = 1.0 - weight, scale = k == 1 ? 0.0 : 1.0 / sqrt(rest);
        double kept = k == 1 ? 0.0 : (gain - 2.0 * x[i] * scores[support[i]] + weight * own[support[i]]) / rest;
        Swap *list = each ? best + i * n : best;
        if (each) least = -INFINITY;
        index_t next = 0; /* features of the support are left out */
        for (index_t f = 0; f < d; f++) {
            if (next < k && support[next] == f) {
                next++;
                continue;
            }
            double cross = (scores[f] - x[i] * row[f]) * scale, half = 0.5 * (kept - own[f]);
            double room = least - own[f] - half, inner = half * half + cross * cross;
            if (room >= 0.0 && inner <= room * room) continue;
            double value = own[f] + half + sqrt(inner);
            if (value > least) least = insert_swap(list, n, (Swap){i, f, value});
        }
    }
}

/* Supports with one feature exchanged, the n most promising ones; returns how many. */
static index_t promising_swaps(Search *search, const Columns *points, index_t at, const double *scores, index_t n,
                               index_t *trials) {
    Swap best[MOST_SWAPS];
    index_t k = points->k, d = search->d;
    const index_t *support = points->supports + at * k;
    n = n < MOST_SWAPS ? n : MOST_SWAPS;
    n = n < k * (d - k) ? n : k * (d - k);
    if (!n) return 0;
    promised_by_swaps(search, k, support, points->weights + at * k, points->gains[at], scores, n, 0, best);
    for (index_t i = 0; i < n; i++) {
        index_t *trial = trials + i * k;
        memcpy(trial, support, (size_t)k * sizeof *trial);
        trial[best[i].gone] = best[i].come;
        sort_features(k, trial);
    }
    return n;
}

/* The position of the best of n trials, the lowest features of those that are equal up to TIE, its gain, and, unless
   it is `here`, its weights. Trials below `floor` are left out. A trial on the support `here`, if there is one, has the gain
   that is known. */
static index_t winner(Search *search, index_t n, index_t k, const index_t *trials, double floor, const index_t *here,
                      double known, double *gain, double *weights) {
    double top = -INFINITY, *x = search->trial_x;
    index_t won = -1, first = -1; /* the first of the largest, whose weights are kept */
    for (index_t i = 0; i < n; i++) {
        const index_t *trial = trials + i * k;
        double slack = TIE * fabs(top), limit = isfinite(top) && top - 2.0 * slack > floor ? top - 2.0 * slack : floor;
        int unchanged = here && same(k, trial, here);
        double value = unchanged ? known : refit(search, k, trial, limit, x);
        search->promised[i] = value;
        if (!(value > top)) continue;
        top = value;
        first = i;
        if (!unchanged) memcpy(weights, x, (size_t)k * sizeof *x);
    }
    *gain = top;
    if (!isfinite(top)) return 0;
    for (index_t i = 0; i < n; i++) {
        if (!(search->promised[i] >= top - TIE * fabs(top))) continue;
        if (won < 0 || lower_support(k, trials + i * k, trials + won * k)) won = i;
    }
    *gain = search->promised[won];
    if (won != first && !(here && same(k, trials + won * k, here)))
        refit(search, k, trials + won * k, -INFINITY, weights);
    return won;
}

/* Replace a point by the best of its trials where that gains; returns whether it did. */
static int accepted(Search *search, Columns *points, index_t at, index_t n, const index_t *trials) {
    index_t k = points->k, *support = points->supports + at * k;
    double before = points->gains[at], gain, floor = before - 2.0 * TIE * fabs(before), *x = search->best_x;
    index_t won = winner(search, n, k, trials, floor, support, before, &gain, x);
    if (!(gain > before + RISE * fabs(before))) return 0;
    points->gains[at] = gain;
    memcpy(points->weights + at * k, x, (size_t)k * sizeof *x);
    memcpy(support, trials + won * k, (size_t)k * sizeof *support);
    return 1;
}

/* Where two points have reached the same support, only the first continues. */
static index_t still_distinct(const Columns *points, index_t m, index_t *moving) {
    index_t n = 0, k = points->k;
    for (index_t i = 0; i < m; i++) {
        index_t j = 0;
        while (j < n && !same(k, points->supports + moving[i] * k, points->supports + moving[j] * k)) j++;
        if (j == n) moving[n++] = moving[i];
    }
    return n;
}

/* Improve refitted supports by power steps and by swaps of two features, while these gain. */
void climbed(Search *search, Columns *points, const Effort *effort) {
    index_t k = points->k, m = points->m, *moving = search->moving, *trials = search->trials;
    double *scores = search->scores;
    for (index_t i = 0; i < m; i++) moving[i] = i;
    for (index_t step = 0; step < effort->steps && m; step++) {
        index_t left = 0;
        for (index_t i = 0; i < m; i++) {
            index_t at = moving[i], n = 1;
            power_step(search, k, points->supports + at * k, points->weights + at * k, points->gains[at], scores);
            heaviest(search, scores, k, trials);
            if (effort->swaps) n += promising_swaps(search, points, at, scores, effort->swaps, trials + k);
            if (accepted(search, points, at, n, trials)) moving[left++] = at;
        }
        m = still_distinct(points, left, moving);
    }
}

/* The best of n supports, each sorted first, refitted. */
double best_of_trials(Search *search, index_t n, index_t k, index_t *trials, double floor, index_t *support,
                      double *x) {
    double gain;
    for (index_t i = 0; i < n; i++) sort_features(k, trials + i * k);
    index_t won = winner(search, n, k, trials, floor, 0, 0.0, &gain, x);
    memcpy(support, trials + won * k, (size_t)k * sizeof *support);
    return gain;
}

/* Whether two features are copies of each other beside the basis, up to sign, but for what other columns decide. */
static int alike(Search *search, index_t k, const index_t *support, index_t at, index_t other) {
    const double *own = search->beside.diagonal;
    index_t feature = support[at];
    double most = COPY * search->size;
    if (!(fabs(own[other] - own[feature]) <= most)) return 0;
    for (index_t i = 0; i < k; i++) {
        const double *row = row_beside(search, support[i]);
        if (i < at && support[i] == other) return 0;
        if (i != at && !(fabs(fabs(row[other]) - fabs(row[feature])) <= most)) return 0;
    }
    return 1;
}

/* Replace a selected feature by a copy of lower index that gains as much; returns whether there is one. */
static int lowered(Search *search, index_t k, index_t *support, double *gain) {
    index_t *trial = search->trials;
    for (index_t at = k - 1; at >= 0; at--)
        for (index_t other = 0; other < support[at]; other++) {
            if (!alike(search, k, support, at, other)) continue;
            memcpy(trial, support, (size_t)k * sizeof *trial);
            trial[at] = other;
            sort_features(k, trial);
            double there = refit(search, k, trial, -INFINITY, search->best_x);
            if (!(there >= *gain * (1.0 - TIE))) continue;
            memcpy(support, trial, (size_t)k * sizeof *trial);
            *gain = there;
            return 1;
        }
    return 0;
}

/* The same column with the copy of lowest index in the place of each feature that has one; returns whether it changed,
   and its weights in x. */
int lowest(Search *search, index_t k, index_t *support, double *x) {
    double gain = refit(search, k, support, -INFINITY, x);
    int changed = 0;
    while (lowered(search, k, support, &gain)) changed = 1;
    if (changed) refit(search, k, support, -INFINITY, x);
    return changed;
}
