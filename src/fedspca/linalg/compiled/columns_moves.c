/* Twin of moves.py: moves of one solution that change two columns at once. */
#include <math.h>
#include <string.h>

#include "columns.h"

enum { CLIMBED = 8, TRIED = 3, TRADES = 4 };

static size_t bytes_of(const Search *search) { return (size_t)(search->r * search->d) * sizeof(double); }

/* Whether the best of some points gains; if so, it takes the place of w. */
static int better(Search *search, Points *points, double *w, double *variance) {
    best_points(search, points, search->r, 1, INFINITY);
    if (!points->m || !(points->variances[0] > *variance * (1.0 + GAIN))) return 0;
    memcpy(w, points->w, bytes_of(search));
    *variance = points->variances[0];
    return 1;
}

/* For each feature of column i, the best column in which another feature replaces it, into `given_up`. */
static void replacements(Search *search, const double *w, index_t i) {
    Columns *given_up = &search->given_up;
    index_t d = search->d, k = 0, *support = search->pool, *trials = search->trials;
    double *x = search->best_x, *scores = search->scores, gain = 0.0;
    Swap *best = search->swaps;
    for (index_t f = 0; f < d; f++)
        if (w[i * d + f] != 0.0) {
            x[k] = w[i * d + f];
            support[k++] = f;
        }
    index_t n = d - k < TRIED ? d - k : TRIED;
    given_up->k = k;
    given_up->m = n > 0 ? k : 0;
    if (!given_up->m) return;
    beside_others(search, w, search->r, i, search->orthogonal);
    image_beside(search, k, support, x, scores);
    for (index_t a = 0; a < k; a++) gain += scores[support[a]] * x[a];
    promised_by_swaps(search, k, support, x, gain, scores, n, 1, best);
    for (index_t a = 0; a < k; a++) {
        for (index_t t = 0; t < n; t++) {
            memcpy(trials + t * k, support, (size_t)k * sizeof *trials);
            trials[t * k + a] = best[a * n + t].come;
        }
        given_up->gains[a] = best_of_trials(search, n, k, trials, -INFINITY, given_up->supports + a * k,
                                            given_up->weights + a * k);
    }
}

static int contains(index_t k, const index_t *support, index_t feature) {
    for (index_t i = 0; i < k; i++)
        if (support[i] == feature) return 1;
    return 0;
}

/* The point without its feature number `at` of column i, and P S P beside all of its columns but j. */
static void give_up(Search *search, const double *w, index_t i, index_t j, index_t at, double *moved) {
    Columns *given_up = &search->given_up;
    index_t k = given_up->k;
    memcpy(moved, w, bytes_of(search));
    put(search, moved, i, k, given_up->supports + at * k, given_up->weights + at * k);
    beside_others(search, moved, search->r, j, search->orthogonal);
}

typedef struct {
    const double *values;
} Values;

static int above(const void *context, index_t a, index_t b) {
    const Values *values = context;
    return values->values[a] > values->values[b];
}

/* Points in which column j takes a feature that column i gave up, the promising ones improved by swaps. */
static void taken(Search *search, const double *w, double variance, index_t i, index_t j, const Effort *effort) {
    Columns *given_up = &search->given_up, *took = &search->kept, *one = &search->one;
    index_t kj = search->k[j], *support = search->named, *trials = search->trials, n = 0;
    double *moved = search->moved, values[CLIMBED + 1], level = variance * effort->near;
    index_t features[CLIMBED + 1], whose[CLIMBED + 1];
    heaviest(search, w + j * search->d, kj, support);
    took->k = kj;
    for (index_t at = 0; at < given_up->m; at++) {
        index_t feature = search->pool[at];
        if (!isfinite(given_up->gains[at]) || contains(kj, support, feature)) continue;
        give_up(search, w, i, j, at, moved);
        for (index_t t = 0; t < kj; t++) {
            memcpy(trials + t * kj, support, (size_t)kj * sizeof *trials);
            trials[t * kj + t] = feature;
        }
        double captured = search->beside.captured, floor = level - captured - 1e-12 * fabs(level);
        index_t place = n < CLIMBED ? n : CLIMBED;
        double gain = best_of_trials(search, kj, kj, trials, floor, took->supports + place * kj,
                                     took->weights + place * kj);
        if (!(captured + gain > level)) continue;
        took->gains[place] = gain;
        whose[place] = at;
        values[place] = captured + gain;
        if (n < CLIMBED) {
            n++;
            continue;
        }
        index_t worst = 0; /* the last of the least */
        for (index_t t = 0; t <= CLIMBED; t++)
            if (values[t] < values[worst] || (values[t] == values[worst] && whose[t] > whose[worst])) worst = t;
        if (worst == CLIMBED) continue;
        memcpy(took->supports + worst * kj, took->supports + CLIMBED * kj, (size_t)kj * sizeof(index_t));
        memcpy(took->weights + worst * kj, took->weights + CLIMBED * kj, (size_t)kj * sizeof(double));
        took->gains[worst] = gain;
        whose[worst] = at;
        values[worst] = values[CLIMBED];
    }
    Values by = {values};
    for (index_t t = 0; t < n; t++) features[t] = t;
    stable_sort(n, features, search->space, above, &by);
    for (index_t t = 0; t < n; t++) {
        index_t at = features[t];
        give_up(search, w, i, j, whose[at], moved);
        one->k = kj;
        one->m = 1;
        memcpy(one->supports, took->supports + at * kj, (size_t)kj * sizeof(index_t));
        memcpy(one->weights, took->weights + at * kj, (size_t)kj * sizeof(double));
        one->gains[0] = took->gains[at];
        climbed(search, one, effort);
        put(search, moved, j, kj, one->supports, one->weights);
        add_point(search, &search->second, moved, search->beside.captured + one->gains[0]);
    }
}

/* Move single features from one column to another while that gains. */
void handed_over(Search *search, double *w, double *variance, const Effort *effort) {
    for (index_t sweep = 0; sweep < effort->sweeps; sweep++) {
        search->second.m = 0;
        for (index_t i = 0; i < search->r; i++) {
            replacements(search, w, i);
            for (index_t j = 0; j < search->r; j++)
                if (j != i) taken(search, w, *variance, i, j, effort);
        }
        if (!better(search, &search->second, w, variance)) break;
        swept(search, w, variance, effort, 2, 1);
    }
}

/* P S P beside all columns of w but two. */
static void beside_all_but(Search *search, const double *w, index_t one, index_t two) {
    const double *columns[MOST_COLUMNS];
    index_t q = 0;
    for (index_t j = 0; j < search->r; j++)
        if (j != one && j != two) columns[q++] = w + j * search->d;
    stand_beside(search, q, columns, search->orthogonal);
}

/* One of two columns that trade features. Its image is P S P x. */
typedef struct {
    index_t k, *support;
    double gain, *x, *image;
} Half;

/* The best column on the support of a half, in place. */
static void refit_half(Search *search, Half *half) {
    sort_features(half->k, half->support);
    half->gain = refit(search, half->k, half->support, -INFINITY, half->x);
    if (isfinite(half->gain)) image_beside(search, half->k, half->support, half->x, half->image);
}

/* What a half gains where its entry number `at` leaves and a feature enters, as `promised_by_swaps` tells it. */
static double promise(Search *search, const Half *half, index_t at, index_t feature) {
    const double *own = search->beside.diagonal;
    index_t leaves = half->support[at];
    if (half->k == 1) return own[feature];
    double x = half->x[at], weight = x * x < 1.0 - 1e-12 ? x * x : 1.0 - 1e-12, rest = 1.0 - weight;
    double kept = (half->gain - 2.0 * x * half->image[leaves] + weight * own[leaves]) / rest;
    double cross = (half->image[feature] - x * row_beside(search, leaves)[feature]) / sqrt(rest);
    double middle = 0.5 * (kept - own[feature]);
    return own[feature] + middle + sqrt(middle * middle + cross * cross);
}

/* Trade the feature of each half for one of the other that promises most, of those that do not stay; returns 0 where
   there is none. */
static int trade(Search *search, Half *one, Half *two, char *stays) {
    double most = -INFINITY;
    index_t give = -1, take = -1;
    for (index_t i = 0; i < one->k; i++) {
        if (stays[one->support[i]]) continue;
        for (index_t j = 0; j < two->k; j++) {
            if (stays[two->support[j]]) continue;
            double promised = promise(search, one, i, two->support[j]) + promise(search, two, j, one->support[i]);
            if (!(promised > most)) continue;
            most = promised;
            give = i;
            take = j;
        }
    }
    if (give < 0) return 0;
    index_t feature = one->support[give];
    one->support[give] = two->support[take];
    two->support[take] = feature;
    stays[one->support[give]] = stays[feature] = 1;
    refit_half(search, one);
    refit_half(search, two);
    return 1;
}

static Half half_of(Search *search, const double *column, index_t *support, double *x, double *image) {
    Half half = {0, support, -INFINITY, x, image};
    for (index_t f = 0; f < search->d; f++)
        if (column[f] != 0.0) support[half.k++] = f;
    if (half.k) refit_half(search, &half);
    return half;
}

/* The point after the best number of trades between two columns, added to `second`. A feature that both have, or that
   was traded before, stays where it is. */
static void division(Search *search, const double *w, index_t one, index_t two) {
    index_t d = search->d, size = search->most;
    double best = -INFINITY, *moved = search->moved;
    char *stays = search->stays;
    beside_all_but(search, w, one, two);
    Half mine = half_of(search, w + one * d, search->trials, search->best_x, search->step);
    Half yours = half_of(search, w + two * d, search->trials + size, search->trial_x, search->step + d);
    for (index_t f = 0; f < d; f++) stays[f] = w[one * d + f] != 0.0 && w[two * d + f] != 0.0;
    for (int turn = 0; turn < TRADES && isfinite(mine.gain + yours.gain); turn++) {
        if (!trade(search, &mine, &yours, stays)) break;
        if (!(mine.gain + yours.gain > best)) continue;
        best = mine.gain + yours.gain;
        memcpy(moved, w, bytes_of(search));
        put(search, moved, one, mine.k, mine.support, mine.x);
        put(search, moved, two, yours.k, yours.support, yours.x);
    }
    if (!isfinite(best)) return;
    double after = fitted(search, moved, search->orthogonal, search->stepped);
    add_point(search, &search->second, search->stepped, after);
}

/* Let two columns divide their features anew while that gains. */
void redivided(Search *search, double *w, double *variance, const Effort *effort) {
    for (index_t sweep = 0; sweep < effort->sweeps; sweep++) {
        search->second.m = 0;
        for (index_t one = 0; one < search->r; one++)
            for (index_t two = one + 1; two < search->r; two++) division(search, w, one, two);
        if (!better(search, &search->second, w, variance)) break;
        swept(search, w, variance, effort, 2, 1);
    }
}

/* The `few` features of largest (or, with sign -1, of least) values, in order; ties by index. */
static void extremes(index_t d, const double *values, double sign, index_t few, index_t *chosen) {
    index_t n = 0;
    for (index_t i = 0; i < d; i++) {
        if (n == few && !(sign * values[i] > sign * values[chosen[n - 1]])) continue;
        index_t at = n < few ? n++ : few - 1;
        for (; at > 0 && sign * values[chosen[at - 1]] < sign * values[i]; at--) chosen[at] = chosen[at - 1];
        chosen[at] = i;
    }
}

typedef struct {
    index_t come, gone, column;
    double gain;
} Exchange;

/* Keep an exchange among the n best so far; of equal ones the one that was found first stands first. */
static index_t keep_exchange(Exchange *best, index_t n, index_t most, Exchange exchange) {
    if (n == most && !(exchange.gain > best[n - 1].gain)) return n;
    index_t at = n < most ? n++ : most - 1;
    for (; at > 0 && best[at - 1].gain < exchange.gain; at--) best[at] = best[at - 1];
    best[at] = exchange;
    return n;
}

/* The features that may enter column j and those that may leave it, `few` of each, and what that gains or costs. */
static void enter_and_leave(Search *search, const double *w, index_t j, const double *pull, double own, index_t few,
                            index_t *come, index_t *gone, double *worth) {
    index_t d = search->d;
    double *enter = search->scores, *leave = search->image;
    for (index_t i = 0; i < d; i++) {
        double room = own - search->s[i * d + i], weight = w[j * d + i];
        room = room > 1e-2 * own ? room : 1e-2 * own;
        enter[i] = weight == 0.0 ? pull[j * d + i] * pull[j * d + i] / room : -INFINITY;
        leave[i] = weight != 0.0 ? weight * weight * own : INFINITY;
    }
    extremes(d, enter, 1.0, few, come);
    extremes(d, leave, -1.0, few, gone);
    for (index_t f = 0; f < few; f++) {
        worth[2 * f] = enter[come[f]];
        worth[2 * f + 1] = leave[gone[f]];
    }
}

/* The most promising exchanges of one feature, by the estimated gain of entry and cost of removal. */
static index_t promising(Search *search, const double *w, const Effort *effort, Exchange *best) {
    index_t d = search->d, r = search->r, few = effort->few < d ? effort->few : d, n = 0;
    double *pull = search->step, *inner = search->product, *worth = search->promised; /* r x few x 2 */
    index_t *come = search->trials, *gone = search->trials + r * few;
    index_t most = effort->swaps < MOST_SWAPS ? effort->swaps : MOST_SWAPS;
    pull_of(search, w, pull, inner);
    for (index_t j = 0; j < r; j++) {
        double own = inner[j * r + j] > 1e-300 ? inner[j * r + j] : 1e-300;
        enter_and_leave(search, w, j, pull, own, few, come + j * few, gone + j * few, worth + 2 * j * few);
    }
    for (index_t f = 0; f < few; f++)
        for (index_t i = 0; i < few; i++)
            for (index_t j = 0; j < r; j++) {
                double gain = worth[2 * (j * few + f)] - worth[2 * (j * few + i) + 1];
                Exchange exchange = {come[j * few + f], gone[j * few + i], j, gain};
                if (isfinite(gain)) n = keep_exchange(best, n, most, exchange);
            }
    return n;
}

/* Swap one feature of one column and refit all columns together, while that gains. */
void swapped(Search *search, double *w, double *variance, const Effort *effort) {
    Exchange best[MOST_SWAPS];
    index_t d = search->d;
    for (index_t sweep = 0; sweep < effort->sweeps; sweep++) {
        Points *points = &search->second;
        index_t n = promising(search, w, effort, best);
        points->m = 0;
        for (index_t t = 0; t < n; t++) {
            double *z = search->moved, *trial = search->stepped;
            memcpy(z, w, bytes_of(search));
            z[best[t].column * d + best[t].come] = w[best[t].column * d + best[t].gone];
            z[best[t].column * d + best[t].gone] = 0.0;
            double after = fitted(search, z, search->orthogonal, trial);
            add_point(search, points, trial, after);
        }
        if (!better(search, points, w, variance)) break;
        swept(search, w, variance, effort, 2, 1);
    }
}

/* Points with two new columns, the first of them found before the second, added to `second`. */
static void pair(Search *search, const double *w, index_t one, index_t two, const Effort *effort) {
    Columns *first = &search->given_up, *then = &search->kept;
    double *moved = search->moved;
    beside_all_but(search, w, one, two);
    best_of_each(search, search->k[one], effort, 0, 0, effort->branches, first);
    for (index_t t = 0; t < first->m; t++) {
        memcpy(moved, w, bytes_of(search));
        put(search, moved, one, first->k, first->supports + t * first->k, first->weights + t * first->k);
        beside_others(search, moved, search->r, two, search->orthogonal);
        best_of_each(search, search->k[two], effort, 0, 0, 1, then);
        if (!then->m) continue;
        put(search, moved, two, then->k, then->supports, then->weights);
        add_point(search, &search->second, moved, search->beside.captured + then->gains[0]);
    }
}

/* Remove two columns and search them again, in either order, from several starts; keep the result if it gains. */
void exchanged(Search *search, double *w, double *variance, const Effort *effort) {
    index_t left = effort->pairs;
    for (index_t one = 0; one < search->r; one++)
        for (index_t two = one + 1; two < search->r && left; two++, left--) {
            search->second.m = 0;
            pair(search, w, one, two, effort);
            if (search->k[one] != search->k[two]) pair(search, w, two, one, effort);
            if (better(search, &search->second, w, variance)) swept(search, w, variance, effort, effort->sweeps, 1);
        }
}
