/* Twin of `trades.py`. */
#include "fewest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double WORTH = 1e-9; /* share of the variance: a pair that promises less is left out */
static const double ROOM = 0.05;  /* share of a column's variance: the least curvature for the weight of a new entry */
static const double FLAT = 1e-3;  /* the same for the cost of an entry */
enum { MOST = 200 };              /* entries that are exchanged at once */
enum { LARGE = 500 };             /* weights in all: with more that are not zero, BLAS multiplies faster */

void image_of(const Search *search, const double *w, double *image) {
    index_t d = search->d, r = search->r;
    if (search->lapack && d * r > LARGE && 4 * nonzeros(search, w) > d * r) {
        int rows = (int)d, columns = (int)r;
        double one = 1.0, zero = 0.0;
        search->lapack->dgemm("N", "T", &rows, &columns, &rows, &one, (double *)search->s, &rows, (double *)w, &columns,
                              &zero, image, &rows);
        return;
    }
    memset(image, 0, (size_t)(d * r) * sizeof *image);
    for (index_t k = 0; k < d; k++)
        for (index_t j = 0; j < r; j++) {
            double x = w[k * r + j], *line = image + j * d;
            const double *row = search->s + k * d;
            if (x == 0.0) continue;
            for (index_t i = 0; i < d; i++) line[i] += x * row[i];
        }
}

void inner_of(const Search *search, const double *w, const double *image, double *inner) {
    index_t d = search->d, r = search->r;
    memset(inner, 0, (size_t)(r * r) * sizeof *inner);
    for (index_t k = 0; k < d; k++)
        for (index_t a = 0; a < r; a++) {
            double x = w[k * r + a];
            if (x == 0.0) continue;
            for (index_t b = 0; b < r; b++) inner[a * r + b] += x * image[b * d + k];
        }
}

void margins_at(const Search *search, const double *w, const Margins *margins, double *work) {
    index_t d = search->d, r = search->r;
    double *image = work, *inner = work + d * r;
    index_t *left = (index_t *)(inner + r * r);
    image_of(search, w, image);
    inner_of(search, w, image, inner);
    memset(left, 0, (size_t)r * sizeof *left);
    for (index_t i = 0; i < d * r; i++) left[i % r] += w[i] != 0.0;
    for (index_t i = 0; i < d; i++) {
        const double *x = w + i * r;
        double diagonal = search->s[i * d + i];
        int used = 0;
        for (index_t j = 0; j < r; j++) used |= x[j] != 0.0;
        for (index_t j = 0; j < r; j++) {
            index_t at = i * r + j;
            double pull = image[j * d + i], own = fmax(inner[j * r + j], 1e-300);
            for (index_t b = 0; used && b < r; b++) pull -= x[b] * inner[b * r + j];
            double half = 0.5 * (diagonal - own), room = own - diagonal, share = x[j] * x[j];
            margins->gain[at] = x[j] == 0.0 ? half + sqrt(half * half + pull * pull) : -INFINITY;
            margins->shared[at] = x[j] == 0.0 && used ? pull * pull / own : margins->gain[at];
            margins->cost[at] = INFINITY;
            if (x[j] != 0.0 && left[j] > 1)
                margins->cost[at] = share * fmax(room, FLAT * own) / fmax(1.0 - share, 1e-12);
            margins->weights[at] = x[j] + pull / fmax(room, ROOM * own);
        }
    }
}

int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    if (isnan(a) || isnan(b)) return (isnan(a) != 0) - (isnan(b) != 0);
    return (a > b) - (a < b);
}

static int by_key(const void *one, const void *other) {
    const Ranked *a = one, *b = other;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

index_t rank_values(index_t count, const double *values, double sign, Ranked *ranked) {
    double scale = 0.0;
    index_t n = 0;
    for (index_t i = 0; i < count; i++)
        if (isfinite(values[i])) scale = fmax(scale, fabs(values[i]));
    if (scale == 0.0) scale = 1.0;
    for (index_t i = 0; i < count; i++)
        if (isfinite(values[i])) {
            ranked[n].key = rint(sign * values[i] / scale * 1e9);
            ranked[n++].at = i;
        }
    qsort(ranked, (size_t)n, sizeof *ranked, by_key);
    return n;
}

/* A pair of entries, and what it promises. */
typedef struct {
    index_t *enter, *leave;
    double *net;
    index_t n;
} Trades;

static void add_trade(Trades *trades, index_t enter, index_t leave, double net) {
    trades->enter[trades->n] = enter;
    trades->leave[trades->n] = leave;
    trades->net[trades->n++] = net;
}

/* Any entry that enters, in the place of any that leaves. Two columns that share a single feature are not orthogonal. So
   an entry enters only where its column shares other features already with each column that uses its feature. */
static void add_swaps(const Search *search, const double *w, const Margins *margins, Trades *trades, double *gain,
                      char *apart, Ranked *first, Ranked *second) {
    index_t d = search->d, r = search->r;
    memset(apart, 1, (size_t)(r * r));
    for (index_t i = 0; i < d; i++)
        for (index_t a = 0; a < r; a++) {
            if (w[i * r + a] == 0.0) continue;
            for (index_t b = 0; b < r; b++)
                if (w[i * r + b] != 0.0) apart[a * r + b] = 0;
        }
    for (index_t i = 0; i < d; i++)
        for (index_t j = 0; j < r; j++) {
            int able = 1;
            for (index_t b = 0; b < r; b++) able &= w[i * r + b] == 0.0 || !apart[b * r + j];
            gain[i * r + j] = able ? margins->shared[i * r + j] : -INFINITY;
        }
    index_t entering = rank_values(d * r, gain, -1.0, first), leaving = rank_values(d * r, margins->cost, 1.0, second);
    for (index_t k = 0; k < MOST && k < entering && k < leaving; k++)
        add_trade(trades, first[k].at, second[k].at, gain[first[k].at] - margins->cost[second[k].at]);
}

/* A feature that one column gives to another. */
static void add_transfers(const Search *search, const double *w, const Margins *margins, Trades *trades) {
    index_t r = search->r;
    for (index_t i = 0; i < search->d; i++) {
        index_t count = 0, giver = 0, taker = 0;
        for (index_t j = 0; j < r; j++) {
            if (w[i * r + j] != 0.0) {
                count++;
                giver = j;
            }
            if (margins->gain[i * r + j] > margins->gain[i * r + taker]) taker = j;
        }
        if (count == 1)
            add_trade(trades, i * r + taker, i * r + giver, margins->gain[i * r + taker] - margins->cost[i * r + giver]);
    }
}

/* Another feature for a column that has only one, in the order of their variances. */
static void add_lone_swaps(const Search *search, const double *w, Trades *trades, double *values, index_t *lone,
                           Ranked *first, Ranked *second) {
    index_t d = search->d, r = search->r, n = 0;
    for (index_t j = 0; j < r; j++) {
        index_t count = 0, feature = 0;
        for (index_t i = 0; i < d; i++)
            if (w[i * r + j] != 0.0) {
                count++;
                feature = i;
            }
        if (count != 1) continue;
        lone[n] = feature * r + j;
        values[n++] = search->s[feature * (d + 1)];
    }
    if (!n) return;
    n = rank_values(n, values, 1.0, second);
    for (index_t i = 0; i < d; i++) {
        int used = 0;
        for (index_t j = 0; j < r; j++) used |= w[i * r + j] != 0.0;
        values[i] = used ? INFINITY : search->s[i * (d + 1)];
    }
    index_t able = rank_values(d, values, -1.0, first);
    for (index_t k = 0; k < n && k < able; k++) {
        index_t from = lone[second[k].at], feature = first[k].at;
        double net = search->s[feature * (d + 1)] - search->s[(from / r) * (d + 1)];
        add_trade(trades, feature * r + from % r, from, net);
    }
}

/* The most trades that there can be. */
static index_t most_trades(const Search *search) { return MOST + search->d + search->r; }

size_t trades_room(const Search *search) {
    size_t all = (size_t)(search->d * search->r), most = (size_t)most_trades(search), r = (size_t)search->r;
    size_t ranks = all > most ? all : most, values = all > (size_t)search->d ? all : (size_t)search->d;
    return 2 * ranks * sizeof(Ranked) + (values + most) * sizeof(double) + (2 * most + r) * sizeof(index_t) + r * r +
           all;
}

index_t promising_trades(const Search *search, const double *w, const Margins *margins, index_t *enter, index_t *leave,
                         char *room) {
    index_t all = search->d * search->r, most = most_trades(search), r = search->r, kept = 0;
    index_t ranks = all > most ? all : most;
    Ranked *first = (Ranked *)room, *second = first + ranks;
    double *values = (double *)(second + ranks), *net = values + all;
    index_t *entering = (index_t *)(net + most), *leaving = entering + most, *lone = leaving + most;
    char *apart = (char *)(lone + r), *used = apart + r * r;
    Trades trades = {entering, leaving, net, 0};
    add_swaps(search, w, margins, &trades, values, apart, first, second);
    add_transfers(search, w, margins, &trades);
    add_lone_swaps(search, w, &trades, values, lone, first, second);
    memset(used, 0, (size_t)all);
    index_t finite = rank_values(trades.n, net, -1.0, first);
    for (index_t k = 0; k < finite; k++) {
        index_t at = first[k].at;
        if (!(net[at] > WORTH * search->heaviest) || used[entering[at]] || used[leaving[at]]) continue;
        used[entering[at]] = used[leaving[at]] = 1;
        enter[kept] = entering[at];
        leave[kept++] = leaving[at];
    }
    return kept;
}
