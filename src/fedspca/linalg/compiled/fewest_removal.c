/* Twin of `removal.py`.

   The order of removals is a pivoted Cholesky factorisation of C, the inverse of the Hessian: its columns are computed
   when they are needed. C itself is formed only if many of them will be. */
#include "fewest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double STIFF = 1e4; /* curvature off the tangent space, relative to the largest on it */
static const double FLAT = 1e-3; /* the least curvature, relative to the largest: w may be near a saddle point */
static const double TIE = 1e-9;  /* share of the largest variance: costs that differ by less count as equal */
enum { OFTEN = 12 };             /* with fewer entries for each that is left out, all columns of C are computed at once */
enum { LARGE = 800 };            /* entries: with more, their inverse takes longer than it saves */

/* Where the entries of one group are, column by column. */
static void list_group(const Search *search, const double *w, const index_t *group, index_t name, index_t *place) {
    index_t r = search->r, n = 0;
    for (index_t j = 0; j < r; j++)
        for (index_t i = 0; group[j] == name && i < search->d; i++)
            if (w[i * r + j] != 0.0) place[n++] = i * r + j;
}

/* The entries of a part as a support. Its rows are numbered by `rows`, and `number` has the number of each feature. */
static void support_of_part(const Search *search, const index_t *place, index_t count, index_t *rows, index_t *number,
                            Support *t) {
    index_t r = search->r;
    memset(number, 0, (size_t)search->d * sizeof *number);
    for (index_t e = 0; e < count; e++) number[place[e] / r] = 1;
    t->n = t->m = t->r = 0;
    for (index_t i = 0; i < search->d; i++)
        if (number[i]) {
            rows[t->n] = i;
            number[i] = t->n++;
        }
    for (index_t e = 0; e < count; e++) {
        if (!e || place[e] % r != place[e - 1] % r) t->first[t->r++] = e;
        t->row[e] = number[place[e] / r];
        t->column[e] = t->r - 1;
    }
    t->first[t->r] = t->m = count;
    list_rows(t);
}

/* The factor of the lower triangle of a Hessian. Where it is not positive definite, it is lifted until it is. The upper
   triangle and `diagonal` keep the Hessian until then. */
static int lifted_factor(const Lapack *lapack, index_t n, double largest, double *a, double *diagonal) {
    for (index_t i = 0; i < n; i++) {
        diagonal[i] = a[i * (n + 1)];
        for (index_t k = 0; k < i; k++) a[k * n + i] = a[i * n + k];
    }
    if (!factorised(lapack, n, a)) return 1;
    double *other = malloc((size_t)(n * n + n + leading_room(n)) * sizeof *other), least;
    if (!other) return -1;
    for (index_t i = 0; i < n; i++) {
        other[i * (n + 1)] = -diagonal[i];
        for (index_t k = 0; k < i; k++) other[i * n + k] = other[k * n + i] = -a[k * n + i];
    }
    leading_eigenpair(lapack, n, other, &least, other + n * n, other + n * n + n);
    free(other);
    for (index_t i = 0; i < n; i++) {
        a[i * (n + 1)] = diagonal[i] + FLAT * largest + least;
        for (index_t k = 0; k < i; k++) a[i * n + k] = a[k * n + i];
    }
    return !factorised(lapack, n, a);
}

/* The X with C = X' X, for the inverse C of the Hessian between the entries of a part, on the tangent space. */
static int root_of_part(const Search *search, const double *w, const index_t *place, index_t m, double *x) {
    index_t d = search->d, r = search->r, pairs = r * (r + 1) / 2;
    index_t integers = support_room(d, r, m) + normal_integers(r) + 2 * d;
    index_t doubles = normal_doubles(r) + 2 * r * r + 2 * m + m * m + m * pairs;
    char *room = malloc((size_t)integers * sizeof(index_t) + (size_t)doubles * sizeof(double));
    if (!room) return -1;
    index_t *rows = (index_t *)room, *places = rows + 2 * d;
    double *v = (double *)(rows + integers), *image = v + m, *multiplier = image + m, *work = multiplier + r * r;
    double *columns = work + r * r, *doubles_left = columns + m * pairs, *blocks = doubles_left + normal_doubles(r);
    Support t;
    Normal normal;
    support_in(&t, d, r, m, places);
    support_of_part(search, place, m, rows, rows + d, &t);
    normal_in(&normal, search->lapack, t.r, places + support_room(d, r, m), doubles_left);
    for (index_t e = 0; e < m; e++) v[e] = w[place[e]];
    double *block = blocks;
    for (index_t j = 0; j < t.r; j++)
        for (index_t one = t.first[j]; one < t.first[j + 1]; one++) {
            const double *line = search->s + rows[t.row[one]] * d;
            for (index_t other = t.first[j]; other < t.first[j + 1]; other++) *block++ = line[rows[t.row[other]]];
        }
    multiply_blocks(search->lapack, &t, blocks, v, image);
    for (index_t e = 0; e < m; e++) image[e] *= 2.0;
    normal_at(&normal, &t, v);
    multiplier_of(&normal, &t, v, image, multiplier, work);
    double largest = hessian_of(&t, blocks, multiplier, x);
    if (!(largest > 0.0)) largest = 1.0;
    constraint_gradients(&normal, &t, v, normal.pairs, columns);
    stiffen(&normal, &t, normal.pairs, columns, STIFF * largest, x);
    int found = lifted_factor(search->lapack, m, largest, x, image);
    if (found > 0) inverse_of_factor(search->lapack, m, x);
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
    size_t bytes = (size_t)(3 * n) * sizeof(index_t) + (size_t)(3 * n + 2 * squares) * sizeof(double) +
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
    removals->room_of = removals->costs + n;
    removals->part = (Part *)(removals->room_of + n + 2 * squares);
    return 1;
}

static void add_part(Removals *removals, index_t first, index_t count, double **room) {
    Part *part = removals->part + removals->parts;
    for (index_t e = first; e < first + count; e++) removals->of[e] = removals->parts;
    part->first = first;
    part->count = count;
    part->gone = 0;
    part->formed = count == 1;
    part->inverse = *room;
    part->pulls = part->inverse + count * count;
    *room += 2 * count * count;
    removals->parts++;
}

/* The diagonal of C. An X of one entry becomes C. */
static void diagonal_of(Part *part, double *room) {
    index_t n = part->count;
    memset(room, 0, (size_t)n * sizeof *room);
    for (index_t k = 0; k < n; k++)
        for (index_t i = 0; i <= k; i++) room[i] += part->inverse[k * n + i] * part->inverse[k * n + i];
    if (n == 1) part->inverse[0] = room[0];
}

/* One column of C. */
static void column_of(const Part *part, index_t at, double *column) {
    index_t n = part->count;
    if (part->formed) {
        memcpy(column, part->inverse + at * n, (size_t)n * sizeof *column);
        return;
    }
    memset(column, 0, (size_t)n * sizeof *column);
    for (index_t k = at; k < n; k++) {
        const double *line = part->inverse + k * n;
        for (index_t i = 0; i <= k; i++) column[i] += line[at] * line[i];
    }
}

/* Form C where more than one entry in `OFTEN` may be left out, going by what each costs alone. */
static void form_inverses(const Search *search, double spare, Removals *removals, double *work) {
    index_t n = removals->n, many = 0;
    for (index_t e = 0; e < n; e++)
        work[e] = 0.5 * removals->weight[e] * removals->weight[e] / fmax(removals->room_of[e], 1e-300);
    qsort(work, (size_t)n, sizeof *work, ascending);
    for (double sum = 0.0; many < n && sum <= spare; many++) sum += work[many];
    if (OFTEN * many <= n) return;
    for (index_t p = 0; p < removals->parts; p++) {
        Part *part = removals->part + p;
        if (!part->formed) inverse_from_root(search->lapack, part->count, part->inverse);
        part->formed = 1;
    }
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
            removals->room_of[e] = rescaled(search, own, w[at], at / r);
            *removals->part[removals->of[e]].inverse = removals->room_of[e];
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
    double *room = removals->room_of + n;
    index_t first = 0;
    for (index_t name = 0; name < r && found > 0; name++) {
        if (!size[name]) continue;
        list_group(search, w, group, name, removals->place + first);
        if (size[name] <= LARGE) {
            add_part(removals, first, size[name], &room);
            Part *part = removals->part + removals->parts - 1;
            found = root_of_part(search, w, removals->place + first, size[name], part->inverse);
            diagonal_of(part, removals->room_of + first);
        } else {
            add_entries(search, w, first, size[name], removals, &room);
        }
        first += size[name];
    }
    free(group);
    for (index_t e = 0; e < n && found > 0; e++) removals->weight[e] = w[removals->place[e]];
    if (found <= 0) removals_free(removals); /* the places of later parts are not known */
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
    column_of(part, at, pull);
    for (index_t k = 0; k < part->gone; k++) {
        const double *other = part->pulls + k * n;
        double factor = other[at];
        for (index_t i = 0; i < n; i++) pull[i] -= factor * other[i];
    }
    for (index_t i = 0; i < n; i++) pull[i] /= root;
    part->gone++;
    return pull;
}

/* Whether entry `a` comes before entry `b`: by their parts, then row by row. This settles ties. */
static int comes_before(const Removals *removals, index_t a, index_t b) {
    if (removals->of[a] != removals->of[b]) return removals->of[a] < removals->of[b];
    return removals->place[a] < removals->place[b];
}

/* The first entry that costs at most so much. */
static index_t first_of(const Removals *removals, const double *cost, double most) {
    index_t at = -1;
    for (index_t e = 0; e < removals->n; e++)
        if (cost[e] <= most && isfinite(cost[e]) && (at < 0 || comes_before(removals, e, at))) at = e;
    return at;
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
    form_inverses(search, spare, removals, cost);
    memcpy(room, removals->room_of, (size_t)n * sizeof *room);
    while (total <= spare) {
        double least = INFINITY;
        for (index_t e = 0; e < n; e++) {
            int able = !gone[e] && left[removals->place[e] % r] > 1;
            cost[e] = able ? 0.5 * x[e] * x[e] / fmax(room[e], 1e-300) : INFINITY;
            least = fmin(least, cost[e]);
        }
        if (!isfinite(least)) break;
        index_t at = first_of(removals, cost, least + tie);
        if (at < 0) break; /* only if the tie is not finite */
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

/* Sort the entries in `order` by cost. */
static void sort_by_cost(const double *cost, Removals *removals) {
    index_t *order = removals->order;
    for (index_t i = 1; i < removals->count; i++) {
        index_t each = order[i], k = i;
        for (; k > 0; k--) {
            index_t other = order[k - 1];
            if (cost[other] < cost[each] || (cost[other] == cost[each] && comes_before(removals, other, each))) break;
            order[k] = other;
        }
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
        double room = fmax(removals->room_of[e], 1e-300), x = removals->weight[e];
        removals->costs[e] = left[removals->place[e] % r] > 1 ? 0.5 * x * x / room : INFINITY;
        if (removals->costs[e] <= spare) removals->order[removals->count++] = e;
    }
    sort_by_cost(removals->costs, removals);
    free(left);
    return 1;
}

void without_one(const Search *search, const Removals *removals, const double *w, index_t which, double *z) {
    index_t at = removals->order[which];
    const Part *part = removals->part + removals->of[at];
    double *line = part->pulls; /* nothing else was left out */
    column_of(part, at - part->first, line);
    double share = removals->weight[at] / line[at - part->first];
    memcpy(z, w, (size_t)(search->d * search->r) * sizeof *z);
    for (index_t i = 0; i < part->count; i++) z[removals->place[part->first + i]] -= line[i] * share;
    z[removals->place[at]] = 0.0;
}
