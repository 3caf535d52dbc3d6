/* Twin of `sparse_stiefel.py`: NormalEquations, Tangent, retract, with all equations factorised. */
#include "stiefel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double RIDGE = 1e-14;  /* disjoint supports make a constraint vacuous: its row of the matrix is zero */
static const double UNSEEN = 1e-15; /* share of the largest diagonal entry below which a constraint counts as vacuous */
static const double CHORD = 0.05;   /* a step that leaves less of the excess lets the next one reuse its factor */
static const double HALTING = 0.5;  /* a step that leaves more of the excess failed */
static const double ROUNDED = 1e-15; /* an entry this small is zero */
enum { PATIENCE = 2 };              /* more failures in a row end a retraction */

index_t support_room(index_t n, index_t r, index_t m) { return 3 * m + n + r + 2; }

void support_in(Support *t, index_t n, index_t r, index_t m, index_t *room) {
    t->n = n;
    t->r = r;
    t->m = 0;
    t->first = room;
    t->start = t->first + r + 1;
    t->row = t->start + n + 1;
    t->column = t->row + m;
    t->list = t->column + m;
}

void list_rows(Support *t) {
    memset(t->start, 0, (size_t)(t->n + 1) * sizeof *t->start);
    for (index_t e = 0; e < t->m; e++) t->start[t->row[e] + 1]++;
    for (index_t i = 0; i < t->n; i++) t->start[i + 1] += t->start[i];
    for (index_t e = 0; e < t->m; e++) t->list[t->start[t->row[e]]++] = e; /* each start moves to the next one */
    for (index_t i = t->n; i > 0; i--) t->start[i] = t->start[i - 1];
    t->start[0] = 0;
}

void support_of(Support *t, const double *dense) {
    t->m = 0;
    for (index_t j = 0; j < t->r; j++) {
        t->first[j] = t->m;
        for (index_t i = 0; i < t->n; i++)
            if (dense[i * t->r + j] != 0.0) {
                t->row[t->m] = i;
                t->column[t->m++] = j;
            }
    }
    t->first[t->r] = t->m;
    list_rows(t);
}

void support_within(Support *t, const Support *of, const double *v, double *u) {
    t->m = 0;
    for (index_t j = 0; j < of->r; j++) {
        t->first[j] = t->m;
        for (index_t e = of->first[j]; e < of->first[j + 1]; e++)
            if (v[e] != 0.0) {
                t->row[t->m] = of->row[e];
                t->column[t->m] = j;
                u[t->m++] = v[e];
            }
    }
    t->first[t->r] = t->m;
    list_rows(t);
}

void support_without_zeros(Support *t, double *v) {
    index_t count = 0, from = 0;
    for (index_t e = 0; e < t->m; e++) count += fabs(v[e]) > ROUNDED;
    if (count == t->m) return;
    count = 0;
    for (index_t j = 0; j < t->r; j++) {
        index_t to = t->first[j + 1];
        for (; from < to; from++)
            if (fabs(v[from]) > ROUNDED) {
                t->row[count] = t->row[from];
                t->column[count] = j;
                v[count++] = v[from];
            }
        t->first[j + 1] = count;
    }
    t->m = count;
    list_rows(t);
}

index_t normal_integers(index_t r) { return 2 * r * r + r; }

index_t normal_doubles(index_t r) {
    index_t pairs = r * (r + 1) / 2;
    return r * r * r + 2 * pairs * pairs + pairs;
}

void normal_in(Normal *normal, const Lapack *lapack, index_t r, index_t *integers, double *doubles) {
    index_t pairs = r * (r + 1) / 2;
    normal->lapack = lapack;
    normal->r = r;
    normal->pairs = 0;
    normal->first = integers;
    normal->second = normal->first + pairs;
    normal->place = normal->second + pairs;
    normal->inner = doubles;
    normal->matrix = normal->inner + r * r * r;
    normal->factor = normal->matrix + pairs * pairs;
    normal->right = normal->factor + pairs * pairs;
}

/* inner[g][a][b], a <= b: the inner product of columns a and b over the support of column g. */
static void inner_products(const Support *t, const double *v, double *inner) {
    index_t r = t->r;
    memset(inner, 0, (size_t)(r * r * r) * sizeof *inner);
    for (index_t i = 0; i < t->n; i++) {
        const index_t *here = t->list + t->start[i];
        index_t count = t->start[i + 1] - t->start[i];
        for (index_t g = 0; g < count; g++) {
            double *own = inner + t->column[here[g]] * r * r;
            for (index_t a = 0; a < count; a++) {
                double *line = own + t->column[here[a]] * r, x = v[here[a]];
                for (index_t b = a; b < count; b++) line[t->column[here[b]]] += x * v[here[b]];
            }
        }
    }
}

/* The pairs of columns with an equation, and the largest diagonal entry. */
static double list_pairs(Normal *normal) {
    index_t r = normal->r;
    const double *inner = normal->inner;
    double largest = 0.0;
    for (index_t i = 0; i < r; i++)
        for (index_t j = i; j < r; j++)
            largest = fmax(largest, inner[(i * r + j) * r + j] + inner[(j * r + i) * r + i]);
    normal->pairs = 0;
    for (index_t i = 0; i < r; i++)
        for (index_t j = i; j < r; j++) {
            int seen = inner[(i * r + j) * r + j] + inner[(j * r + i) * r + i] > UNSEEN * largest;
            if (seen) {
                normal->first[normal->pairs] = i;
                normal->second[normal->pairs] = j;
            }
            normal->place[i * r + j] = normal->place[j * r + i] = seen ? normal->pairs++ : -1;
        }
    return largest;
}

/* The inner products of the gradients of the constraints. Two pairs have a common term for each column g of both: the
   inner product of their other columns over the support of g. A column beside itself counts twice. */
static void assemble(Normal *normal) {
    index_t r = normal->r, pairs = normal->pairs;
    double *matrix = normal->matrix;
    memset(matrix, 0, (size_t)(pairs * pairs) * sizeof *matrix);
    for (index_t g = 0; g < r; g++) {
        const index_t *place = normal->place + g * r;
        const double *inner = normal->inner + g * r * r;
        for (index_t j = 0; j < r; j++) {
            if (place[j] < 0) continue;
            double twice = j == g ? 2.0 : 1.0;
            for (index_t k = j; k < r; k++) {
                if (place[k] < 0) continue;
                double term = inner[j * r + k] * twice * (k == g ? 2.0 : 1.0);
                index_t high = place[j] > place[k] ? place[j] : place[k], low = place[j] + place[k] - high;
                matrix[high * pairs + low] += term;
            }
        }
    }
}

void normal_of(Normal *normal, double damping) {
    index_t r = normal->r;
    double largest = list_pairs(normal), sum = 0.0;
    assemble(normal);
    for (index_t i = 0; i < r * r; i++) sum += normal->inner[i * r + i % r];
    double ridge = RIDGE * largest + damping * 2.0 * sum / (double)(r * r);
    for (index_t p = 0; p < normal->pairs; p++)
        normal->matrix[p * normal->pairs + p] += ridge * (normal->first[p] == normal->second[p] ? 2.0 : 1.0);
    positive_factor(normal->lapack, normal->pairs, normal->matrix, normal->factor);
}

void normal_at(Normal *normal, const Support *t, const double *v) {
    inner_products(t, v, normal->inner);
    normal_of(normal, 0.0);
}

void normal_solve(const Normal *normal, const double *rhs, double *l) {
    index_t r = normal->r, pairs = normal->pairs;
    double *x = normal->right;
    for (index_t p = 0; p < pairs; p++) x[p] = rhs[normal->first[p] * r + normal->second[p]];
    solve_factored(pairs, normal->factor, x);
    memset(l, 0, (size_t)(r * r) * sizeof *l);
    for (index_t p = 0; p < pairs; p++) {
        index_t i = normal->first[p], j = normal->second[p];
        l[i * r + j] = l[j * r + i] = i == j ? 2.0 * x[p] : x[p];
    }
}

void multiplier_of(const Normal *normal, const Support *t, const double *v, const double *y, double *l, double *work) {
    index_t r = t->r;
    memset(work, 0, (size_t)(r * r) * sizeof *work);
    for (index_t i = 0; i < t->n; i++)
        for (index_t a = t->start[i]; a < t->start[i + 1]; a++) {
            index_t one = t->list[a];
            for (index_t b = t->start[i]; b < t->start[i + 1]; b++) {
                index_t other = t->list[b];
                work[t->column[one] * r + t->column[other]] += v[one] * y[other];
            }
        }
    for (index_t i = 0; i < r; i++)
        for (index_t j = i; j < r; j++) work[i * r + j] += work[j * r + i];
    normal_solve(normal, work, l);
}

void subtract_product(const Support *t, const double *v, const double *l, double *y) {
    index_t r = t->r;
    for (index_t i = 0; i < t->n; i++)
        for (index_t a = t->start[i]; a < t->start[i + 1]; a++) {
            index_t e = t->list[a];
            double sum = 0.0;
            for (index_t b = t->start[i]; b < t->start[i + 1]; b++)
                sum += v[t->list[b]] * l[t->column[t->list[b]] * r + t->column[e]];
            y[e] -= sum;
        }
}

/* Divide every column by its length. Returns the least length. */
static double normalise(const Support *t, double *v) {
    double least = INFINITY;
    for (index_t j = 0; j < t->r; j++) {
        double square = 0.0;
        for (index_t e = t->first[j]; e < t->first[j + 1]; e++) square += v[e] * v[e];
        double length = sqrt(square);
        if (!(length >= least)) least = length;
        if (!(length > 0.0)) return length;
        for (index_t e = t->first[j]; e < t->first[j + 1]; e++) v[e] /= length;
    }
    return least;
}

/* Two unit columns u and v, in closed form. On the features c that both may use, u - a c v and v - a c u are orthogonal
   at the smaller root of s a^2 - (c' u^2 + c' v^2) a + s = 0 with s = u' v. */
static int retract_pair(const Support *t, double *v) {
    for (int pass = 0; pass < 3; pass++) { /* nearly parallel columns need another pass, because of rounding errors */
        double overlap = 0.0, shared = 0.0;
        for (index_t i = 0; i < t->n; i++)
            if (t->start[i + 1] - t->start[i] == 2) {
                double a = v[t->list[t->start[i]]], b = v[t->list[t->start[i] + 1]];
                overlap += a * b;
                shared += a * a + b * b;
            }
        if (fabs(overlap) <= 1e-15) return 1;
        double root = sqrt(fmax(shared * shared - 4.0 * overlap * overlap, 0.0));
        double turn = 2.0 * overlap / (shared + root);
        for (index_t i = 0; i < t->n; i++)
            if (t->start[i + 1] - t->start[i] == 2) {
                double *a = v + t->list[t->start[i]], *b = v + t->list[t->start[i] + 1], before = *a;
                *a -= turn * *b;
                *b -= turn * before;
            }
        double least = normalise(t, v);
        if (!(least > 1e-6)) return 0;
        if (least > 0.1) return 1;
    }
    return 1;
}

/* w' w - I, and its largest entry. */
static double excess_of(const Support *t, const double *v, double *excess) {
    index_t r = t->r;
    memset(excess, 0, (size_t)(r * r) * sizeof *excess);
    for (index_t i = 0; i < t->n; i++)
        for (index_t a = t->start[i]; a < t->start[i + 1]; a++) {
            index_t one = t->list[a];
            for (index_t b = a; b < t->start[i + 1]; b++)
                excess[t->column[one] * r + t->column[t->list[b]]] += v[one] * v[t->list[b]];
        }
    double largest = 0.0;
    for (index_t i = 0; i < r; i++) {
        excess[i * r + i] -= 1.0;
        for (index_t j = i; j < r; j++) {
            double size = fabs(excess[i * r + j]);
            if (isnan(size)) return size;
            if (size > largest) largest = size;
        }
    }
    return largest;
}

index_t retract_room(index_t r, index_t m) { return 2 * r * r + m; }

int retract(const Support *t, double *v, double tol, index_t max_iter, Normal *normal, double *work) {
    index_t r = t->r;
    if (!(normalise(t, v) > 0.0)) return 0;
    if (r == 2) return retract_pair(t, v);
    double *excess = work, *l = work + r * r, *before = work + 2 * r * r;
    double previous = INFINITY;
    int stuck = 0;
    for (index_t step = 0; step < max_iter; step++) {
        double size = excess_of(t, v, excess);
        if (size <= tol || (size <= 1e3 * tol && size >= 0.5 * previous)) return 1;
        stuck = size > HALTING * previous ? stuck + 1 : 0;
        if (!(size <= 1e3) || stuck > PATIENCE) return 0; /* NaN, divergence, or no such matrix exists */
        if (step == 0 || size > CHORD * previous) normal_at(normal, t, v);
        previous = size;
        normal_solve(normal, excess, l);
        memcpy(before, v, (size_t)t->m * sizeof *v);
        subtract_product(t, before, l, v);
    }
    return excess_of(t, v, excess) <= 1e-10;
}

EXPORT int64_t fedspca_retract(const Lapack *lapack, int64_t n, int64_t r, const double *z, const double *mask,
                               double tol, int64_t max_iter, double *w) {
    index_t m = 0;
    for (index_t i = 0; i < n * r; i++) m += (mask ? mask : z)[i] != 0.0;
    index_t integers = support_room(n, r, m) + normal_integers(r);
    index_t doubles = normal_doubles(r) + retract_room(r, m) + m;
    char *room = malloc((size_t)integers * sizeof(index_t) + (size_t)doubles * sizeof(double));
    if (!room) return -1;
    Support t;
    Normal normal;
    index_t *places = (index_t *)room;
    double *v = (double *)(places + integers), *work = v + m;
    support_in(&t, n, r, m, places);
    normal_in(&normal, lapack, r, places + support_room(n, r, m), work + retract_room(r, m));
    support_of(&t, mask ? mask : z);
    for (index_t e = 0; e < m; e++) v[e] = z[t.row[e] * r + t.column[e]];
    int found = retract(&t, v, tol, max_iter, &normal, work);
    if (found) {
        memset(w, 0, (size_t)(n * r) * sizeof *w);
        for (index_t e = 0; e < m; e++) w[t.row[e] * r + t.column[e]] = v[e];
    }
    free(room);
    return found;
}
