/* Twin of `fewest.py`. */
#include "fewest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double GAIN = 1e-7;   /* relative: a trade that gains less is not worth another */
static const double HOPE = 1.3;    /* leaving entries out costs a little less than is predicted, more often than not */
static const double SINGLE = 2.5;  /* one entry costs at least so many times less than is predicted */
static const double GROWTH = 0.5;  /* entries that are added at once, of those that there are */
static const double FILL = 0.25;   /* the same while the target is not reached yet */
static const double TIE = 1e-9;    /* relative: variances that differ by less count as equal, and the first one stays */
enum { COLUMNS = 15 };             /* with more, a start that needs more entries than an earlier one has never won */
enum { COARSE = 16 };              /* the first search ends if less than one entry in so many could be removed */

/* A search, and the memory of its steps. */
typedef struct {
    Search search;
    index_t size;      /* d r */
    double *z, *work;  /* loadings that are tried; r d + r r + r */
    Fit after, trial;  /* what they become; loadings of a longer trial */
    Margins margins;
    index_t *enter, *leave;
    Ranked *ranked;
    char *trades, *room;
} Bench;

static double heaviest(index_t d, const double *s) {
    double most = s[0];
    for (index_t i = 1; i < d; i++) most = fmax(most, s[i * (d + 1)]);
    return most;
}

static int bench_at(Bench *b, const Lapack *lapack, index_t d, index_t r, const double *s, double target,
                    int64_t (*late)(void)) {
    Search search = {lapack, d, r, s, target, heaviest(d, s), late};
    index_t size = d * r, trades = d + r + 200, doubles = 8 * size + r * r + r;
    b->search = search;
    b->size = size;
    b->room = malloc((size_t)doubles * sizeof(double) + (size_t)(2 * trades) * sizeof(index_t) +
                     (size_t)size * sizeof(Ranked) + trades_room(&search));
    if (!b->room) return -1;
    double *each = (double *)b->room;
    b->z = each;
    b->after.w = each + size;
    b->trial.w = each + 2 * size;
    b->margins.gain = each + 3 * size;
    b->margins.shared = each + 4 * size;
    b->margins.cost = each + 5 * size;
    b->margins.weights = each + 6 * size;
    b->work = each + 7 * size;
    b->ranked = (Ranked *)(each + doubles);
    b->enter = (index_t *)(b->ranked + size);
    b->leave = b->enter + trades;
    b->trades = (char *)(b->leave + trades);
    return 1;
}

static int late(const Bench *b) { return b->search.late && b->search.late(); }

static void copy_fit(const Bench *b, Fit *to, const Fit *from) {
    memcpy(to->w, from->w, (size_t)b->size * sizeof *to->w);
    to->variance = from->variance;
}

static index_t count(const Bench *b, const Fit *fit) { return nonzeros(&b->search, fit->w); }

/* Non-zeros left when the smallest entries, by their share of the variance, use up the allowance. */
static index_t first_guess(Bench *b, const Fit *fit) {
    index_t d = b->search.d, r = b->search.r, n = 0, gone = 0;
    double *image = b->work, *inner = b->work + d * r, *loss = b->z, sum = 0.0;
    image_of(&b->search, fit->w, image);
    inner_of(&b->search, fit->w, image, inner);
    for (index_t i = 0; i < b->size; i++)
        if (fit->w[i] != 0.0) loss[n++] = fit->w[i] * fit->w[i] * inner[(i % r) * (r + 1)];
    qsort(loss, (size_t)n, sizeof *loss, ascending);
    for (; gone < n; gone++) {
        sum += loss[gone];
        if (!(sum < fit->variance - b->search.target)) break;
    }
    return n - gone;
}

/* A step along the gradient, into z, and the variance of each column, into the returned array. */
static double *ascent(Bench *b, const double *w) {
    index_t d = b->search.d, r = b->search.r;
    double *image = b->work, *inner = image + d * r, *weight = inner + r * r, largest = 0.0;
    image_of(&b->search, w, image);
    inner_of(&b->search, w, image, inner);
    for (index_t i = 0; i < r * r; i++) largest = fmax(largest, fabs(inner[i]));
    for (index_t j = 0; j < r; j++) weight[j] = fmax(inner[j * (r + 1)], 1e-3 * largest + 1e-300);
    for (index_t i = 0; i < d; i++)
        for (index_t j = 0; j < r; j++) {
            double pull = image[j * d + i];
            for (index_t a = 0; a < r; a++) pull -= w[i * r + a] * inner[a * r + j];
            b->z[i * r + j] = w[i * r + j] + pull / weight[j];
        }
    return weight;
}

/* The n largest entries of a step along the gradient, each by its share of the variance, refitted. */
static int cut(Bench *b, const Fit *fit, index_t n) {
    index_t r = b->search.r;
    const double *weight = ascent(b, fit->w);
    double *score = b->margins.gain;
    for (index_t i = 0; i < b->size; i++) score[i] = fabs(b->z[i]) * sqrt(weight[i % r]);
    index_t ranks = rank_values(b->size, score, -1.0, b->ranked);
    for (index_t k = n; k < ranks; k++) b->z[b->ranked[k].at] = 0.0;
    return refit_changed(&b->search, b->z, fit, &b->after);
}

/* Cut off the smallest entries of a gradient step, by trials over the number of non-zeros. */
static int thin(Bench *b, Fit *fit) {
    double target = b->search.target, least = 0.0;
    index_t lower = b->search.r - 1, guess = first_guess(b, fit);
    while (!late(b)) {
        index_t upper = count(b, fit), coarse = upper / COARSE > 1 ? upper / COARSE : 1;
        index_t trial = guess > lower + 1 ? guess : lower + 1;
        if (trial > upper - 1) trial = upper - 1;
        if (upper - trial < coarse || trial <= lower) break;
        int found = cut(b, fit, trial);
        if (found < 0) return found;
        if (found && b->after.variance >= target) {
            copy_fit(b, fit, &b->after);
            guess = first_guess(b, fit);
        } else {
            guess = lower = trial;
            if (found) least = fmax(b->after.variance, least);
        }
        if (guess <= lower) { /* where a straight line between the two ends meets the target; refits bend it */
            double share = (target - least) / fmax(fit->variance - least, 1e-300);
            guess = lower + (index_t)rint((double)(count(b, fit) - lower) * fmin(fmax(share, 0.2), 0.8));
        }
    }
    return 1;
}

/* Exchange entries while that gains: all pairs that promise to, and if that fails, fewer of them. Returns 0 where none
   was exchanged. */
static int trade(Bench *b, Fit *fit) {
    int exchanged = 0;
    while (!late(b)) {
        margins_at(&b->search, fit->w, &b->margins, b->work);
        index_t size = promising_trades(&b->search, fit->w, &b->margins, b->enter, b->leave, b->trades);
        for (; size; size /= 3) {
            memcpy(b->z, fit->w, (size_t)b->size * sizeof *b->z);
            for (index_t k = 0; k < size; k++) b->z[b->leave[k]] = 0.0;
            for (index_t k = 0; k < size; k++) b->z[b->enter[k]] = b->margins.weights[b->enter[k]];
            int found = refit_changed(&b->search, b->z, fit, &b->after);
            if (found < 0) return found;
            if (found && b->after.variance > fit->variance * (1.0 + GAIN)) break;
        }
        if (!size) break;
        copy_fit(b, fit, &b->after);
        exchanged = 1;
    }
    return exchanged;
}

/* As many of these entries left out as possible. A trial that misses the target tells how much removals cost, compared
   with what was predicted. */
static int leave_out(Bench *b, Fit *fit, const Removals *removals) {
    double target = b->search.target;
    index_t size = removals->count;
    while (size) {
        if (without(&b->search, removals, fit->w, size, b->z) < 0) return -1;
        int found = reaching(&b->search, b->z, fit, &b->after);
        if (found < 0) return found;
        if (found && b->after.variance >= target) {
            copy_fit(b, fit, &b->after);
            return 1;
        }
        index_t fewer = size / 2;
        if (found) {
            double ratio = (fit->variance - b->after.variance) / fmax(removals->costs[size - 1], 1e-300);
            double most = (fit->variance - target) / ratio;
            index_t able = 0, step = size - 1 - size / 8;
            while (able < removals->count && removals->costs[able] <= most) able++;
            if (step > fewer) fewer = step;
            if (able < fewer) fewer = able;
        }
        size = fewer;
    }
    return 0;
}

/* Leave entries out, many at once, as long as the refitted loadings still capture the target. */
static int eliminate(Bench *b, Fit *fit) {
    while (!late(b)) {
        Removals removals;
        int found = removals_at(&b->search, fit->w, &removals);
        if (found <= 0) return found < 0 ? found : 1;
        found = cheapest_removals(&b->search, fit->w, HOPE * (fit->variance - b->search.target), &removals);
        if (found > 0) found = leave_out(b, fit, &removals);
        removals_free(&removals);
        if (found < 0) return found;
        if (!found) break;
    }
    return 1;
}

/* Leave out one entry, whichever can be. */
static int leave_one_out(Bench *b, Fit *fit, Removals *removals) {
    int found = single_removals(&b->search, fit->w, SINGLE * (fit->variance - b->search.target), removals);
    for (index_t k = 0; found >= 0 && k < removals->count; k++) {
        without_one(&b->search, removals, fit->w, k, b->z);
        found = reaching(&b->search, b->z, fit, &b->after);
        if (found > 0 && b->after.variance >= b->search.target) {
            copy_fit(b, fit, &b->after);
            return 1;
        }
    }
    return found < 0 ? found : 0;
}

/* Leave out single entries: in the end, none can be. */
static int leave_none_spare(Bench *b, Fit *fit) {
    while (!late(b)) {
        Removals removals;
        int found = removals_at(&b->search, fit->w, &removals);
        if (found <= 0) return found < 0 ? found : 1;
        found = leave_one_out(b, fit, &removals);
        removals_free(&removals);
        if (found < 0) return found;
        if (!found) break;
        if (eliminate(b, fit) < 0) return -1;
    }
    return 1;
}

/* Exchange entries and leave entries out, in turn, until that removes none. No entry can be left out before the first
   exchange. */
static int settle(Bench *b, Fit *fit) {
    while (!late(b)) {
        index_t before = count(b, fit);
        int exchanged = trade(b, fit);
        if (exchanged < 0) return exchanged;
        if (!exchanged) break;
        if (eliminate(b, fit) < 0) return -1;
        if (count(b, fit) >= before) break;
    }
    return 1;
}

/* Add the entries that promise most; only at unused features, if the others admit no orthonormal loadings. The answer
   is in `after`. */
static int grow(Bench *b, const Fit *fit, double share) {
    index_t r = b->search.r, before = count(b, fit), more = (index_t)(share * (double)before);
    margins_at(&b->search, fit->w, &b->margins, b->work);
    double *gain = b->margins.shared;
    for (int unused = 0; unused < 2; unused++) {
        for (index_t i = 0; unused && i < b->search.d; i++) {
            int used = 0;
            for (index_t j = 0; j < r; j++) used |= fit->w[i * r + j] != 0.0;
            for (index_t j = 0; used && j < r; j++) gain[i * r + j] = -INFINITY;
        }
        index_t able = rank_values(b->size, gain, -1.0, b->ranked), n = more > 1 ? more : 1;
        if (n > able) n = able;
        if (!n) continue;
        memcpy(b->z, fit->w, (size_t)b->size * sizeof *b->z);
        for (index_t k = 0; k < n; k++) b->z[b->ranked[k].at] = b->margins.weights[b->ranked[k].at];
        int found = refit_changed(&b->search, b->z, fit, &b->after);
        if (found < 0) return found;
        if (found && count(b, &b->after) > before) return 1;
    }
    return 0;
}

/* Add many entries and leave out as many as possible, as long as fewer are left. */
static int oscillate(Bench *b, Fit *fit) {
    while (!late(b)) {
        int found = grow(b, fit, GROWTH);
        if (found < 0) return found;
        if (!found || b->after.variance < b->search.target) break;
        copy_fit(b, &b->trial, &b->after);
        if (eliminate(b, &b->trial) < 0 || settle(b, &b->trial) < 0) return -1;
        if (count(b, &b->trial) >= count(b, fit)) break;
        copy_fit(b, fit, &b->trial);
    }
    return 1;
}

/* Add entries until the target is reached. Returns 0 if it cannot be, or only with more than `most` of them. */
static int fill(Bench *b, Fit *fit, index_t most) {
    while (fit->variance < b->search.target) {
        if (late(b) || count(b, fit) > most) return 0;
        int found = grow(b, fit, FILL);
        if (found <= 0) return found;
        copy_fit(b, fit, &b->after);
    }
    return 1;
}

static double captured(Bench *b, const double *w) {
    index_t d = b->search.d, r = b->search.r;
    double *image = b->work, sum = 0.0;
    image_of(&b->search, w, image);
    for (index_t i = 0; i < b->size; i++) sum += w[i] * image[(i % r) * d + i / r];
    return sum;
}

/* The sparsest loadings that the starts lead to, in `best`. */
static int from_starts(Bench *b, index_t n, const double *starts, Fit *fit, Fit *best) {
    int any = 0;
    for (index_t k = 0; k < n; k++) {
        memcpy(fit->w, starts + k * b->size, (size_t)b->size * sizeof *fit->w);
        fit->variance = captured(b, fit->w);
        int found = fill(b, fit, any && b->search.r > COLUMNS ? count(b, best) : b->size);
        if (found < 0) return found;
        if (!found) continue;
        if (thin(b, fit) < 0 || eliminate(b, fit) < 0 || settle(b, fit) < 0) return -1;
        index_t now = count(b, fit), least = any ? count(b, best) : 0;
        if (!any || now < least || (now == least && fit->variance > best->variance * (1.0 + TIE)))
            copy_fit(b, best, fit);
        any = 1;
    }
    return any;
}

/* fewest_nonzeros. `w` and `variance` get the answer. `room` has d r entries. */
EXPORT int64_t fedspca_fewest(const Lapack *lapack, int64_t d, int64_t r, const double *s, double target,
                              int64_t (*is_late)(void), int64_t n, const double *starts, double *w, double *variance) {
    Bench b;
    if (bench_at(&b, lapack, d, r, s, target, is_late) < 0) return -1;
    double *memory = malloc((size_t)b.size * sizeof *memory);
    Fit fit = {memory, 0.0}, best = {w, 0.0};
    int found = memory ? from_starts(&b, n, starts, &fit, &best) : -1;
    if (found > 0 && r > 1) found = oscillate(&b, &best);
    if (found > 0) found = leave_none_spare(&b, &best);
    if (found > 0) {
        found = refit_orthogonal(&b.search, best.w, &fit);
        copy_fit(&b, &best, &fit);
    }
    *variance = best.variance;
    free(memory);
    free(b.room);
    return found;
}

/* Entries left out and exchanged, from loadings that reach the target. `w` and `variance` are read and replaced. */
EXPORT int64_t fedspca_fewer(const Lapack *lapack, int64_t d, int64_t r, const double *s, double target,
                             int64_t (*is_late)(void), double *w, double *variance) {
    Bench b;
    if (bench_at(&b, lapack, d, r, s, target, is_late) < 0) return -1;
    Fit fit = {w, *variance};
    int failed = eliminate(&b, &fit) < 0 || settle(&b, &fit) < 0 || leave_none_spare(&b, &fit) < 0;
    *variance = fit.variance;
    free(b.room);
    return failed ? -1 : 1;
}

/* The variance of the k largest entries in each column of a gradient step, refitted; 0 if they admit no refit. */
EXPORT int64_t fedspca_cut_alike(const Lapack *lapack, int64_t d, int64_t r, const double *s, const double *w,
                                 int64_t k, double *variance) {
    Bench b;
    Fit before = {(double *)w, 0.0};
    if (bench_at(&b, lapack, d, r, s, 0.0, NULL) < 0) return -1;
    ascent(&b, w);
    double *size = b.margins.gain;
    for (index_t j = 0; j < r; j++) {
        for (index_t i = 0; i < d; i++) size[i] = fabs(b.z[i * r + j]);
        index_t ranks = rank_values(d, size, -1.0, b.ranked);
        for (index_t i = k; i < ranks; i++) b.z[b.ranked[i].at * r + j] = 0.0;
    }
    int found = refit_changed(&b.search, b.z, &before, &b.after);
    *variance = found > 0 ? b.after.variance : 0.0;
    free(b.room);
    return found;
}

/* refit_orthogonal and nearest_orthogonal of `polish.py`. */
EXPORT int64_t fedspca_refit(const Lapack *lapack, int64_t d, int64_t r, const double *s, const double *w,
                             int64_t retracted, int64_t rough, double *z, double *variance) {
    Search search = {lapack, d, r, s, 0.0, 0.0, NULL};
    Fit fit = {z, 0.0};
    Refit how = {retracted != 0, rough != 0};
    int found = refit_loadings(&search, w, NULL, how, &fit);
    *variance = fit.variance;
    return found;
}
