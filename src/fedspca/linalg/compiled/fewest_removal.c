/* Twin of `removal.py`.

   The order of removals is a pivoted Cholesky factorisation of C, the inverse of the Hessian: its columns are computed
   when they are needed, and C itself does not change. */
#include "fewest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double STIFF = 1e4; /* curvature off the tangent space, relative to the largest on it */
static const double FLAT = 1e-3; /* the least curvature, relative to the largest: w may be near a saddle point */
static const double TIE = 1e-9;  /* share of the largest variance: costs that differ by less count as equal */
enum { LARGE = 800 };            /* entries: with more, their inverse takes longer than it saves */

/* Where the entries of one group are. */
static index_t list_group(const Search *search, const double *w, const index_t *group, index_t name, index_t *place) {
    index_t r = search->r, n = 0;
    for (index_t i = 0; i < search->d; i++)
        for (index_t j = 0; j < r; j++)
            if (group[j] == name && w[i * r + j] != 0.0) place[n++] = i * r + j;
    return n;
}

/* Features and columns of the entries of a part, numbered from 0, and the entries as a support. */
typedef struct {
    index_t n, q, longest;
    index_t *rows, *columns;         /* the features and the columns */
    index_t *row_of, *column_of;     /* their numbers */
    index_t *entry;                  /* where entry e of the support is among those of the part, which go row by row */
} Local;

static void number_places(const Search *search, const index_t *place, index_t count, Local *local) {
    index_t r = search->r;
    local->n = local->q = 0;
    for (index_t j = 0; j < r; j++) local->column_of[j] = -1;
    for (index_t e = 0; e < count; e++) {
        index_t i = place[e] / r, j = place[e] % r;
        if (!local->n || local->rows[local->n - 1] != i) local->rows[local->n++] = i;
        local->row_of[e] = local->n - 1;
        local->column_of[j] = 0;
    }
    for (index_t j = 0; j < r; j++)
        if (!local->column_of[j]) {
            local->columns[local->q] = j;
            local->column_of[j] = local->q++;
        }
}

static void support_of_part(const Search *search, const index_t *place, index_t count, Local *local, Support *t) {
    t->m = local->longest = 0;
    for (index_t j = 0; j < local->q; j++) {
        t->first[j] = t->m;
        for (index_t e = 0; e < count; e++)
            if (place[e] % search->r == local->columns[j]) {
                t->row[t->m] = local->row_of[e];
                t->column[t->m] = j;
                local->entry[t->m++] = e;
            }
        if (t->m - t->first[j] > local->longest) local->longest = t->m - t->first[j];
    }
    t->first[local->q] = t->m;
    list_rows(t);
}

/* Where the Hessian is not positive definite, it is lifted until it is. `copy` holds its lower triangle. */
static int lifted_factor(const Lapack *lapack, index_t n, double largest, double *a, double *copy) {
    memcpy(copy, a, (size_t)(n * n) * sizeof *a);
    if (!factorised(lapack, n, a)) return 1;
    for (index_t i = 0; i < n; i++)
        for (index_t k = 0; k < i; k++) copy[k * n + i] = copy[i * n + k];
    double *other = malloc((size_t)(n * n + leading_room(n)) * sizeof *other), least;
    if (!other) return -1;
    for (index_t i = 0; i < n * n; i++) other[i] = -copy[i];
    leading_eigenpair(lapack, n, other, &least, a, other + n * n); /* a has room for the vector */
    free(other);
    memcpy(a, copy, (size_t)(n * n) * sizeof *a);
    for (index_t i = 0; i < n; i++) a[i * n + i] += FLAT * largest + least;
    return factorised(lapack, n, a) ? 0 : 1;
}

/* The inverse of the Hessian between the entries of a part, on the tangent space, in the order of the entries. */
static int inverse_of_part(const Search *search, const double *w, const index_t *place, index_t count, double *out) {
    index_t r = search->r, pairs = r * (r + 1) / 2, m = count;
    index_t integers = support_room(m, r, m) + normal_integers(r) + 3 * m + 2 * r;
    index_t square = m * m, doubles = normal_doubles(r) + 2 * r * r + 2 * m + 3 * square + m * pairs;
    char *room = malloc((size_t)integers * sizeof(index_t) + (size_t)doubles * sizeof(double));
    if (!room) return -1;
    index_t *places = (index_t *)room;
    double *v = (double *)(places + integers), *image = v + m, *multiplier = image + m, *work = multiplier + r * r;
    double *blocks = work + r * r, *a = blocks + square, *copy = a + square, *columns = copy + square;
    Local local = {0, 0, 0, places, places + m, places + m + r, places + 2 * m + r, places + 2 * m + 2 * r};
    places += 3 * m + 2 * r;
    Support t;
    Normal normal;
    number_places(search, place, count, &local);
    support_in(&t, local.n, local.q, m, places);
    normal_in(&normal, search->lapack, local.q, places + support_room(m, r, m), columns + m * pairs);
    support_of_part(search, place, count, &local, &t);
    for (index_t e = 0; e < m; e++) v[e] = w[place[local.entry[e]]];
    double *block = blocks;
    for (index_t j = 0; j < local.q; j++)
        for (index_t x = t.first[j]; x < t.first[j + 1]; x++)
            for (index_t y = t.first[j]; y < t.first[j + 1]; y++)
                *block++ = search->s[local.rows[t.row[x]] * search->d + local.rows[t.row[y]]];
    multiply_blocks(search->lapack, &t, blocks, v, image);
    for (index_t e = 0; e < m; e++) image[e] *= 2.0;
    normal_at(&normal, &t, v);
    multiplier_of(&normal, &t, v, image, multiplier, work);
    double largest = hessian_of(&t, blocks, multiplier, a);
    if (!(largest > 0.0)) largest = 1.0;
    constraint_gradients(&normal, &t, v, normal.pairs, columns);
    stiffen(&normal, &t, normal.pairs, columns, STIFF * largest, a);
    int found = lifted_factor(search->lapack, m, largest, a, copy);
    if (found > 0) {
        inverse_of_factor(search->lapack, m, a);
        for (index_t x = 0; x < m; x++)
            for (index_t y = 0; y < m; y++) out[local.entry[x] * m + local.entry[y]] = a[x * m + y];
    }
    free(room);
    return found;
}

/* The diagonal of C at one entry, if the others of its column only keep their proportions. */
static double rescaled(const Search *search, double own, double x, index_t i) {
    double room = fmax(own - search->s[i * search->d + i], FLAT * own) / fmax(1.0 - x * x, 1e-12);
    return 0.5 / fmax(room, 1e-300);
}

/* The variance of one column. */
static double column_variance(const Search *search, const double *w, index_t j) {
    index_t d = search->d, r = search->r;
    double sum = 0.0;
    for (index_t i = 0; i < d; i++) {
        double x = w[i * r + j], line = 0.0;
        if (x == 0.0) continue;
        for (index_t k = 0; k < d; k++) line += search->s[i * d + k] * w[k * r + j];
        sum += x * line;
    }
    return sum;
}

void removals_free(Removals *removals) { free(removals->room); }

/* Memory for n entries in parts that have `squares` pairs of entries in all. */
static int removals_in(Removals *removals, index_t n, index_t parts, index_t squares) {
    size_t bytes = (size_t)(3 * n) * sizeof(index_t) + (size_t)(2 * n + 2 * squares) * sizeof(double) +
                   (size_t)parts * sizeof(Part);
    removals->room = malloc(bytes ? bytes : 1);
    if (!removals->room) return -1;
    removals->n = n;
    removals->parts = removals->count = 0;
    removals->place = (index_t *)removals->room;
    removals->of = removals->place + n;
    removals->order = removals->of + n;
    removals->weight = (double *)(removals->order + n);
    removals->costs = removals->weight + n;
    removals->part = (Part *)(removals->costs + n + 2 * squares);
    return 1;
}

static void add_part(Removals *removals, index_t first, index_t count, double **room) {
    Part *part = removals->part + removals->parts;
    for (index_t e = first; e < first + count; e++) removals->of[e] = removals->parts;
    part->first = first;
    part->count = count;
    part->gone = 0;
    part->inverse = *room;
    part->pulls = part->inverse + count * count;
    *room += 2 * count * count;
    removals->parts++;
}

/* Entries of a group that is too large for an inverse: each is a part of its own. */
static void add_entries(const Search *search, const double *w, index_t first, index_t count, Removals *removals,
                        double **room) {
    index_t r = search->r;
    for (index_t e = first; e < first + count; e++) add_part(removals, e, 1, room);
    for (index_t j = 0; j < r; j++) {
        double own = -1.0;
        for (index_t e = first; e < first + count; e++) {
            index_t at = removals->place[e];
            if (at % r != j) continue;
            if (own < 0.0) own = column_variance(search, w, j);
            *removals->part[removals->of[e]].inverse = rescaled(search, own, w[at], at / r);
        }
    }
}

int removals_at(const Search *search, const double *w, Removals *removals) {
    index_t r = search->r, n = nonzeros(search, w), squares = 0, parts = 0;
    index_t *group = malloc((size_t)(2 * r + 1) * sizeof *group);
    if (!group) return -1;
    index_t *size = group + r;
    groups_of(search, w, group);
    for (index_t name = 0; name < r; name++) {
        size[name] = 0;
        for (index_t i = 0; i < search->d; i++)
            for (index_t j = 0; j < r; j++) size[name] += group[j] == name && w[i * r + j] != 0.0;
        squares += size[name] <= LARGE ? size[name] * size[name] : size[name];
        parts += size[name] <= LARGE ? 1 : size[name];
    }
    int found = removals_in(removals, n, parts, squares);
    if (found < 0) {
        free(group);
        return found;
    }
    double *room = removals->costs + n;
    index_t first = 0;
    for (index_t name = 0; name < r && found > 0; name++) {
        if (!size[name]) continue;
        list_group(search, w, group, name, removals->place + first);
        if (size[name] <= LARGE) {
            add_part(removals, first, size[name], &room);
            found = inverse_of_part(search, w, removals->place + first, size[name],
                                    removals->part[removals->parts - 1].inverse);
        } else {
            add_entries(search, w, first, size[name], removals, &room);
        }
        first += size[name];
    }
    free(group);
    for (index_t e = 0; e < n; e++) removals->weight[e] = w[removals->place[e]];
    if (found <= 0) removals_free(removals);
    return found;
}

/* Number of entries of each column. */
static void count_columns(const Search *search, const double *w, index_t *left) {
    memset(left, 0, (size_t)search->r * sizeof *left);
    for (index_t i = 0; i < search->d * search->r; i++) left[i % search->r] += w[i] != 0.0;
}

/* The next column of the pivoted factorisation, for entry `at` of a part. */
static double *next_pull(Part *part, index_t at, double room) {
    index_t n = part->count;
    double *pull = part->pulls + part->gone * n, root = sqrt(fmax(room, 1e-300));
    memcpy(pull, part->inverse + at * n, (size_t)n * sizeof *pull);
    for (index_t k = 0; k < part->gone; k++) {
        const double *other = part->pulls + k * n;
        double factor = other[at];
        for (index_t i = 0; i < n; i++) pull[i] -= factor * other[i];
    }
    for (index_t i = 0; i < n; i++) pull[i] /= root;
    part->gone++;
    return pull;
}

int cheapest_removals(const Search *search, const double *w, double spare, Removals *removals) {
    index_t n = removals->n, r = search->r;
    char *memory = malloc((size_t)(3 * n) * sizeof(double) + (size_t)r * sizeof(index_t) + (size_t)n + 1);
    if (!memory) return -1;
    double *x = (double *)memory, *room = x + n, *cost = room + n, total = 0.0, tie = TIE * search->heaviest;
    index_t *left = (index_t *)(cost + n);
    char *gone = (char *)(left + r);
    memcpy(x, removals->weight, (size_t)n * sizeof *x);
    memset(gone, 0, (size_t)n);
    count_columns(search, w, left);
    for (index_t e = 0; e < n; e++) {
        const Part *part = removals->part + removals->of[e];
        room[e] = part->inverse[(e - part->first) * (part->count + 1)];
    }
    while (total <= spare) {
        double least = INFINITY;
        for (index_t e = 0; e < n; e++) {
            int able = !gone[e] && left[removals->place[e] % r] > 1;
            cost[e] = able ? 0.5 * x[e] * x[e] / fmax(room[e], 1e-300) : INFINITY;
            least = fmin(least, cost[e]);
        }
        if (!isfinite(least)) break;
        index_t at = 0;
        while (!(cost[at] <= least + tie)) at++;
        Part *part = removals->part + removals->of[at];
        const double *pull = next_pull(part, at - part->first, room[at]);
        double share = x[at] / sqrt(fmax(room[at], 1e-300));
        gone[at] = 1;
        for (index_t i = 0; i < part->count; i++) {
            index_t e = part->first + i;
            x[e] = gone[e] ? 0.0 : x[e] - pull[i] * share;
            room[e] -= pull[i] * pull[i];
        }
        left[removals->place[at] % r]--;
        total += cost[at];
        removals->order[removals->count] = at;
        removals->costs[removals->count++] = total;
    }
    free(memory);
    return 1;
}

int without(const Search *search, const Removals *removals, const double *w, index_t n, double *z) {
    char *memory = malloc((size_t)removals->n * sizeof(double) + (size_t)removals->parts * sizeof(index_t) + 1);
    if (!memory) return -1;
    double *x = (double *)memory;
    index_t *used = (index_t *)(x + removals->n); /* how many of the pulls of a part */
    memcpy(x, removals->weight, (size_t)removals->n * sizeof *x);
    memset(used, 0, (size_t)removals->parts * sizeof *used);
    for (index_t step = 0; step < n; step++) {
        index_t at = removals->order[step], of = removals->of[at];
        const Part *part = removals->part + of;
        const double *pull = part->pulls + used[of]++ * part->count;
        double share = x[at] / pull[at - part->first];
        for (index_t i = 0; i < part->count; i++) x[part->first + i] -= pull[i] * share;
    }
    for (index_t step = 0; step < n; step++) x[removals->order[step]] = 0.0;
    memcpy(z, w, (size_t)(search->d * search->r) * sizeof *z);
    for (index_t e = 0; e < removals->n; e++) z[removals->place[e]] = x[e];
    free(memory);
    return 1;
}

/* Sort by cost; entries of the same cost stay in order. */
static void sort_by_cost(index_t n, const double *cost, index_t *order) {
    for (index_t i = 1; i < n; i++) {
        index_t each = order[i], k = i;
        for (; k > 0 && cost[order[k - 1]] > cost[each]; k--) order[k] = order[k - 1];
        order[k] = each;
    }
}

int single_removals(const Search *search, const double *w, double spare, Removals *removals) {
    index_t n = removals->n, r = search->r;
    index_t *left = malloc((size_t)r * sizeof *left);
    if (!left) return -1;
    count_columns(search, w, left);
    removals->count = 0;
    for (index_t e = 0; e < n; e++) {
        const Part *part = removals->part + removals->of[e];
        double room = fmax(part->inverse[(e - part->first) * (part->count + 1)], 1e-300), x = removals->weight[e];
        removals->costs[e] = left[removals->place[e] % r] > 1 ? 0.5 * x * x / room : INFINITY;
        if (removals->costs[e] <= spare) removals->order[removals->count++] = e;
    }
    sort_by_cost(removals->count, removals->costs, removals->order);
    free(left);
    return 1;
}

void without_one(const Search *search, const Removals *removals, const double *w, index_t which, double *z) {
    index_t at = removals->order[which];
    const Part *part = removals->part + removals->of[at];
    const double *line = part->inverse + (at - part->first) * part->count;
    double share = removals->weight[at] / line[at - part->first];
    memcpy(z, w, (size_t)(search->d * search->r) * sizeof *z);
    for (index_t i = 0; i < part->count; i++) z[removals->place[part->first + i]] -= line[i] * share;
    z[removals->place[at]] = 0.0;
}
