/* Twin of `fewest.py`: _refitted, _reaching; and of `polish.py`: groups, refit_orthogonal. */
#include "fewest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double ROUGH = 1e-4; /* share of the variance: a rough refit is nearer than this to a full one */
static const Effort FULLY = {1e-11, 40, 0}, ROUGHLY = {1e-4, 3, 0};

index_t nonzeros(const Search *search, const double *w) {
    index_t count = 0;
    for (index_t i = 0; i < search->d * search->r; i++) count += w[i] != 0.0;
    return count;
}

void groups_of(const Search *search, const double *w, index_t *group) {
    index_t d = search->d, r = search->r;
    for (index_t j = 0; j < r; j++) group[j] = j;
    for (index_t i = 0; i < d; i++) {
        index_t before = -1;
        for (index_t j = 0; j < r; j++) {
            if (w[i * r + j] == 0.0) continue;
            if (before >= 0 && group[before] != group[j]) {
                index_t low = group[before] < group[j] ? group[before] : group[j];
                index_t high = group[before] + group[j] - low;
                for (index_t k = 0; k < r; k++)
                    if (group[k] == high) group[k] = low;
            }
            before = j;
        }
    }
}

/* One group of columns: where they are, and what they hold. */
typedef struct {
    index_t count, n, m, longest;
    index_t *columns, *rows;
} Group;

/* The columns and rows of a group. */
static void gather_group(const Search *search, const double *z, const index_t *group, index_t name, Group *found) {
    index_t d = search->d, r = search->r;
    found->count = found->n = found->m = found->longest = 0;
    for (index_t j = 0; j < r; j++)
        if (group[j] == name) found->columns[found->count++] = j;
    for (index_t i = 0; i < d; i++) {
        index_t here = 0;
        for (index_t j = 0; j < found->count; j++) here += z[i * r + found->columns[j]] != 0.0;
        if (here) found->rows[found->n++] = i;
        found->m += here;
    }
    for (index_t j = 0; j < found->count; j++) {
        index_t length = 0;
        for (index_t i = 0; i < found->n; i++) length += z[found->rows[i] * r + found->columns[j]] != 0.0;
        if (length > found->longest) found->longest = length;
    }
}

/* S between the rows of a group. */
static void gather_part(const Search *search, const Group *group, double *part) {
    for (index_t i = 0; i < group->n; i++) {
        const double *line = search->s + group->rows[i] * search->d;
        for (index_t k = 0; k < group->n; k++) *part++ = line[group->rows[k]];
    }
}

/* One column: the leading eigenvector of its features. */
static int refit_alone(const Search *search, const Group *group, const double *z, double *w, double *variance) {
    index_t n = group->n;
    double *part = malloc((size_t)(n * n + n + near_room(n)) * sizeof *part);
    if (!part) return -1;
    double *vector = part + n * n;
    gather_part(search, group, part);
    for (index_t i = 0; i < n; i++) vector[i] = z[group->rows[i] * search->r + group->columns[0]];
    int failed = leading_near(search->lapack, n, part, variance, vector, vector + n);
    for (index_t i = 0; i < n; i++) w[group->rows[i] * search->r + group->columns[0]] = vector[i];
    free(part);
    return !failed;
}

/* Columns that stay as they are. */
static void keep_columns(const Search *search, const Group *group, const double *z, double *w, double *variance) {
    index_t r = search->r, d = search->d;
    double sum = 0.0;
    for (index_t j = 0; j < group->count; j++) {
        index_t column = group->columns[j];
        for (index_t i = 0; i < group->n; i++) {
            double x = z[group->rows[i] * r + column];
            if (x == 0.0) continue;
            w[group->rows[i] * r + column] = x;
            const double *line = search->s + group->rows[i] * d;
            for (index_t k = 0; k < group->n; k++) sum += x * line[group->rows[k]] * z[group->rows[k] * r + column];
        }
    }
    *variance = sum;
}

static int same_columns(const Search *search, const Group *group, const double *z, const double *before) {
    index_t r = search->r;
    for (index_t i = 0; i < search->d; i++)
        for (index_t j = 0; j < group->count; j++)
            if (z[i * r + group->columns[j]] != before[i * r + group->columns[j]]) return 0;
    return 1;
}

static int same_support(const Support *t, index_t a, index_t b) {
    index_t count = t->first[a + 1] - t->first[a];
    if (count != t->first[b + 1] - t->first[b]) return 0;
    return memcmp(t->row + t->first[a], t->row + t->first[b], (size_t)count * sizeof *t->row) == 0;
}

/* Columns that share their whole support, rotated to be uncorrelated: the variance does not change. `alike` and `work`
   have r and 2 r r + 2 r + n entries. */
static void uncorrelate(const Support *t, index_t n, const double *part, double *v, index_t *alike, double *work) {
    for (index_t a = 0; a < t->r; a++) {
        index_t q = 0, first = 0;
        for (; first < a && !same_support(t, first, a); first++) continue;
        if (first < a) continue; /* done with an earlier column */
        for (index_t b = a; b < t->r; b++)
            if (same_support(t, a, b)) alike[q++] = b;
        if (q < 2) continue;
        index_t count = t->first[a + 1] - t->first[a];
        const index_t *rows = t->row + t->first[a];
        double *inner = work, *values = inner + q * q, *spare = values + q, *line = spare + q;
        for (index_t x = 0; x < q; x++) {
            const double *one = v + t->first[alike[x]];
            for (index_t i = 0; i < count; i++) {
                double sum = 0.0;
                for (index_t k = 0; k < count; k++) sum += part[rows[i] * n + rows[k]] * one[k];
                line[i] = sum;
            }
            for (index_t y = 0; y < q; y++) {
                const double *other = v + t->first[alike[y]];
                double sum = 0.0;
                for (index_t i = 0; i < count; i++) sum += line[i] * other[i];
                inner[x * q + y] = sum;
            }
        }
        if (symmetric_eigenpairs(q, inner, values, spare)) continue;
        for (index_t i = 0; i < count; i++) {
            for (index_t y = 0; y < q; y++) {
                double sum = 0.0;
                for (index_t x = 0; x < q; x++) sum += v[t->first[alike[x]] + i] * inner[x * q + q - 1 - y];
                line[y] = sum;
            }
            for (index_t y = 0; y < q; y++) v[t->first[alike[y]] + i] = line[y];
        }
    }
}

/* The norm of S w, and minus the inner product of w with it. */
static double product_norm(const Support *t, index_t n, const double *part, const double *v, double *line,
                           double *value) {
    double square = 0.0;
    *value = 0.0;
    for (index_t j = 0; j < t->r; j++) {
        memset(line, 0, (size_t)n * sizeof *line);
        for (index_t e = t->first[j]; e < t->first[j + 1]; e++) {
            const double *row = part + t->row[e] * n;
            for (index_t i = 0; i < n; i++) line[i] += v[e] * row[i];
        }
        for (index_t i = 0; i < n; i++) square += line[i] * line[i];
        for (index_t e = t->first[j]; e < t->first[j + 1]; e++) *value -= v[e] * line[t->row[e]];
    }
    return sqrt(square);
}

/* Columns that share features: Newton steps, after a retraction where z is not orthonormal. */
static int refit_together(const Search *search, const Group *group, const double *z, Refit how, double *w,
                          double *variance) {
    index_t n = group->n, q = group->count, m = group->m;
    index_t integers = support_room(n, q, m) + polish_integers(n, q, m) + q;
    index_t doubles = n * n + m + n + q + 4 * q * q + polish_doubles(q, m, group->longest);
    char *room = malloc((size_t)integers * sizeof(index_t) + (size_t)doubles * sizeof(double));
    if (!room) return -1;
    index_t *places = (index_t *)room, *alike = places, *steps = alike + q + support_room(n, q, m);
    double *part = (double *)(places + integers), *v = part + n * n, *line = v + m, *square = line + n + q;
    double *work = square + 4 * q * q, radius = INFINITY, value;
    Support t;
    int known, found = 1;
    gather_part(search, group, part);
    support_in(&t, n, q, m, alike + q);
    for (index_t j = 0; j < q; j++) {
        t.first[j] = t.m;
        for (index_t i = 0; i < n; i++) {
            double x = z[group->rows[i] * search->r + group->columns[j]];
            if (x == 0.0) continue;
            t.row[t.m] = i;
            t.column[t.m] = j;
            v[t.m++] = x;
        }
    }
    t.first[q] = t.m;
    list_rows(&t);
    if (how.retracted) {
        Normal normal;
        normal_in(&normal, search->lapack, q, steps, work);
        found = retract(&t, v, 1e-13, 24, &normal, work + normal_doubles(q));
    }
    if (found) {
        Surrogate p = {n, q, part, NULL, NULL};
        double scale = 2.0 * product_norm(&t, n, part, v, line, &value);
        polish(search->lapack, &p, &t, v, scale, &value, how.rough ? &ROUGHLY : &FULLY, &radius, square, &known, steps,
               work);
        *variance = -value;
        uncorrelate(&t, n, part, v, alike, work);
        for (index_t e = 0; e < t.m; e++)
            w[group->rows[t.row[e]] * search->r + group->columns[t.column[e]]] = v[e];
    }
    free(room);
    return found;
}

int refit(const Search *search, const double *z, const Fit *before, Refit how, Fit *after) {
    index_t d = search->d, r = search->r;
    index_t *room = malloc((size_t)(2 * r + d) * sizeof *room);
    if (!room) return -1;
    Group group = {0, 0, 0, 0, room + r, room + 2 * r};
    index_t *names = room;
    int found = 1;
    groups_of(search, z, names);
    memset(after->w, 0, (size_t)(d * r) * sizeof *after->w);
    after->variance = 0.0;
    for (index_t name = 0; name < r && found > 0; name++) {
        double variance = 0.0;
        if (names[name] != name) continue;
        gather_group(search, z, names, name, &group);
        if (!group.n) { /* a column without an entry: S has too low a rank for so many */
            found = !how.retracted;
            continue;
        }
        if (group.count == 1)
            found = refit_alone(search, &group, z, after->w, &variance);
        else if (before && same_columns(search, &group, z, before->w))
            keep_columns(search, &group, z, after->w, &variance);
        else
            found = refit_together(search, &group, z, how, after->w, &variance);
        after->variance += variance;
    }
    free(room);
    return found;
}

int refitted(const Search *search, const double *z, const Fit *before, Fit *after) {
    Refit how = {1, 1};
    return refit(search, z, before, how, after);
}

int refit_orthogonal(const Search *search, const double *w, Fit *after) {
    Refit how = {0, 0};
    return refit(search, w, NULL, how, after);
}

int reaching(const Search *search, const double *z, const Fit *before, Fit *after) {
    int found = refitted(search, z, before, after);
    if (found <= 0 || after->variance >= search->target || after->variance < search->target * (1.0 - ROUGH))
        return found;
    double *near = malloc((size_t)(search->d * search->r) * sizeof *near);
    if (!near) return -1;
    memcpy(near, after->w, (size_t)(search->d * search->r) * sizeof *near);
    found = refit_orthogonal(search, near, after);
    free(near);
    return found;
}
