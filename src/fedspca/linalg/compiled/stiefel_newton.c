/* Twin of `newton.py`: polish, for a dense quadratic. */
#include "stiefel_newton.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LENGTHS[] = {1.0, 0.3, 0.09}; /* of a Newton step */
static const double SHRUNK = 0.03; /* the trust radius is multiplied by this if none of these lengths descends */
static const double STIFF = 1e4;   /* curvature off the tangent space, relative to the largest on it */
static const double DUST = 1e-9;   /* an entry this small is a zero that rounding has missed */
enum { FEW = 300 };                /* with at most this many entries, a factorisation is faster than iterations */

/* All that a step needs, beside the point. */
typedef struct {
    const Surrogate *p;
    Normal normal;
    Support support, trial;  /* of the point, and of a trial point */
    double *v, *z;           /* their entries */
    double *blocks;          /* Q between the entries of each column, one column after another */
    double *image, *slope;   /* Q w on the support, and twice (Q w + C) there */
    double *pull, *gradient, *move;
    double *residual, *direction, *curved; /* of conjugate gradients */
    double *multiplier, *inner, *work;     /* r x r, r x r; for retractions */
    double *system, *columns, *forces, *factor; /* of the direct solution */
} Newton;

index_t polish_integers(index_t n, index_t r, index_t m) { return 2 * support_room(n, r, m) + normal_integers(r); }

/* Entries of a direct solution, and pairs of columns. */
static index_t few(index_t m) { return m < FEW ? m : FEW; }
static index_t all_pairs(index_t r) { return r * (r + 1) / 2; }

index_t polish_doubles(index_t r, index_t m, index_t longest) {
    index_t order = few(m), columns = all_pairs(r) + 1;
    return normal_doubles(r) + retract_room(r, m) + 2 * r * r + 10 * m + m * longest + order * order +
           order * columns + 3 * columns * columns;
}

static void newton_in(Newton *at, const Lapack *lapack, const Surrogate *p, index_t m, index_t longest,
                      index_t *integers, double *doubles) {
    index_t r = p->r, order = few(m), columns = all_pairs(r) + 1;
    at->p = p;
    support_in(&at->support, p->n, r, m, integers);
    integers += support_room(p->n, r, m);
    support_in(&at->trial, p->n, r, m, integers);
    integers += support_room(p->n, r, m);
    normal_in(&at->normal, lapack, r, integers, doubles);
    doubles += normal_doubles(r);
    double **each[] = {&at->v,        &at->z,    &at->image,    &at->slope,     &at->pull,
                       &at->gradient, &at->move, &at->residual, &at->direction, &at->curved};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        *each[i] = doubles;
        doubles += m;
    }
    at->multiplier = doubles;
    at->inner = at->multiplier + r * r;
    at->work = at->inner + r * r;
    at->blocks = at->work + retract_room(r, m);
    at->system = at->blocks + m * longest;
    at->columns = at->system + order * order;
    at->forces = at->columns + order * columns;
    at->factor = at->forces + columns * columns;
}

static double dot(index_t n, const double *x, const double *y) {
    double sum = 0.0;
    for (index_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

static double sign(double x) { return (x > 0.0) - (x < 0.0); }

void gather_blocks(index_t n, const double *q, const Support *t, double *blocks) {
    for (index_t j = 0; j < t->r; j++) {
        const index_t *rows = t->row + t->first[j];
        index_t count = t->first[j + 1] - t->first[j];
        for (index_t i = 0; i < count; i++) {
            const double *line = q + rows[i] * n;
            for (index_t k = 0; k < count; k++) *blocks++ = line[rows[k]];
        }
    }
}

void multiply_blocks(const Lapack *lapack, const Support *t, const double *blocks, const double *x, double *y) {
    for (index_t j = 0; j < t->r; j++) {
        index_t count = t->first[j + 1] - t->first[j];
        symmetric_product(lapack, count, blocks, x + t->first[j], y + t->first[j]);
        blocks += count * count;
    }
}

/* The surrogate at a point, given Q w on its support. */
static double surrogate(const Surrogate *p, const Support *t, const double *v, const double *image) {
    double energy = dot(t->m, v, image), linear = 0.0, size = 0.0;
    for (index_t e = 0; p->linear && e < t->m; e++) linear += p->linear[t->row[e] * p->r + t->column[e]] * v[e];
    for (index_t e = 0; p->lam && e < t->m; e++) size += p->lam[t->column[e]] * fabs(v[e]);
    return -energy - 2.0 * linear + size;
}

static void slope_at(const Surrogate *p, const Support *t, const double *image, double *slope) {
    for (index_t e = 0; e < t->m; e++)
        slope[e] = 2.0 * (image[e] + (p->linear ? p->linear[t->row[e] * p->r + t->column[e]] : 0.0));
}

/* The multiplier and the gradient on the tangent space. Returns the gradient's norm. */
static double gradient_at(Newton *at) {
    const Support *t = &at->support;
    normal_at(&at->normal, t, at->v);
    for (index_t e = 0; e < t->m; e++)
        at->pull[e] = at->slope[e] - (at->p->lam ? at->p->lam[t->column[e]] * sign(at->v[e]) : 0.0);
    multiplier_of(&at->normal, t, at->v, at->pull, at->multiplier, at->inner);
    memcpy(at->gradient, at->pull, (size_t)t->m * sizeof *at->pull);
    subtract_product(t, at->v, at->multiplier, at->gradient);
    return sqrt(dot(t->m, at->gradient, at->gradient));
}

double hessian_of(const Support *t, const double *blocks, const double *multiplier, double *a) {
    index_t m = t->m, r = t->r;
    double largest = 0.0;
    memset(a, 0, (size_t)(m * m) * sizeof *a);
    for (index_t j = 0; j < r; j++) {
        index_t first = t->first[j], count = t->first[j + 1] - first;
        for (index_t i = 0; i < count; i++, blocks += count)
            for (index_t k = 0; k <= i; k++) a[(first + i) * m + first + k] = -2.0 * blocks[k];
    }
    for (index_t i = 0; i < t->n; i++)
        for (index_t x = t->start[i]; x < t->start[i + 1]; x++)
            for (index_t y = t->start[i]; y <= x; y++) {
                index_t one = t->list[x], other = t->list[y];
                a[one * m + other] += multiplier[t->column[one] * r + t->column[other]];
            }
    for (index_t i = 0; i < m; i++)
        for (index_t k = 0; k <= i; k++) largest = fmax(largest, fabs(a[i * m + k]));
    return largest;
}

void constraint_gradients(const Normal *normal, const Support *t, const double *v, index_t width, double *columns) {
    index_t r = t->r;
    memset(columns, 0, (size_t)(t->m * width) * sizeof *columns);
    for (index_t i = 0; i < t->n; i++)
        for (index_t x = t->start[i]; x < t->start[i + 1]; x++)
            for (index_t y = t->start[i]; y < t->start[i + 1]; y++) {
                index_t one = t->list[x], other = t->list[y];
                index_t pair = normal->place[t->column[one] * r + t->column[other]];
                if (pair >= 0) columns[one * width + pair] = (one == other ? 2.0 : 1.0) * v[other];
            }
}

void stiffen(const Normal *normal, const Support *t, index_t width, const double *columns, double stiff, double *a) {
    index_t m = t->m, r = t->r;
    for (index_t i = 0; i < m; i++) {
        const index_t *place = normal->place + t->column[i] * r;
        const double *own = columns + i * width;
        for (index_t b = 0; b < r; b++) { /* only pairs with the column of i concern i */
            if (place[b] < 0 || own[place[b]] == 0.0) continue;
            double factor = stiff * own[place[b]];
            for (index_t k = 0; k <= i; k++) a[i * m + k] += factor * columns[k * width + place[b]];
        }
    }
}

/* The Newton step by a factorisation. Returns 0 if there are too many entries, if the curvature is negative somewhere, or
   if the step leaves the trust region. */
static int direct_direction(Newton *at, double radius) {
    const Lapack *lapack = at->normal.lapack;
    index_t m = at->support.m, pairs = at->normal.pairs, width = pairs + 1;
    if (m > FEW) return 0;
    double *a = at->system, *columns = at->columns, *inner = at->forces;
    double largest = hessian_of(&at->support, at->blocks, at->multiplier, a);
    constraint_gradients(&at->normal, &at->support, at->v, width, columns);
    for (index_t e = 0; e < m; e++) columns[e * width + pairs] = at->gradient[e];
    stiffen(&at->normal, &at->support, width, columns, STIFF * (largest > 0.0 ? largest : 1.0), a);
    if (factorised(lapack, m, a)) return 0;
    forward(lapack, m, a, width, columns);
    gram(lapack, m, width, columns, inner);
    double *force = inner + pairs * width; /* the last row: the inner products with the gradient */
    double *compact = at->factor, *factor = at->factor + pairs * pairs;
    for (index_t p = 0; p < pairs; p++) memcpy(compact + p * pairs, inner + p * width, (size_t)pairs * sizeof *inner);
    positive_factor(lapack, pairs, compact, factor);
    solve_factored(pairs, factor, force);
    for (index_t e = 0; e < m; e++) at->move[e] = columns[e * width + pairs] - dot(pairs, columns + e * width, force);
    backward(m, a, at->move);
    return dot(m, at->move, at->move) < radius * radius;
}

/* Steihaug's conjugate gradients: the step within the trust region. Directions of negative curvature are followed to the
   boundary. Returns whether the step ends there. */
static int iterated_direction(Newton *at, double rtol, double radius, index_t max_iter) {
    const Support *t = &at->support;
    index_t m = t->m;
    double *x = at->move, *residual = at->residual, *direction = at->direction, *curved = at->curved;
    memset(x, 0, (size_t)m * sizeof *x);
    memcpy(residual, at->gradient, (size_t)m * sizeof *x);
    memcpy(direction, at->gradient, (size_t)m * sizeof *x);
    double rr = dot(m, residual, residual), stop = rtol * rtol * rr;
    for (index_t step = 0; step < max_iter; step++) {
        multiply_blocks(at->normal.lapack, t, at->blocks, direction, curved);
        for (index_t e = 0; e < m; e++) curved[e] *= 2.0;
        subtract_product(t, direction, at->multiplier, curved);
        for (index_t e = 0; e < m; e++) curved[e] = -curved[e];
        multiplier_of(&at->normal, t, at->v, curved, at->work, at->inner);
        subtract_product(t, at->v, at->work, curved);
        double curvature = dot(m, direction, curved), alpha = curvature > 0.0 ? rr / curvature : INFINITY;
        double dd = dot(m, direction, direction), xd = dot(m, x, direction), xx = dot(m, x, x);
        if (isinf(alpha) || xx + 2.0 * alpha * xd + alpha * alpha * dd >= radius * radius) {
            double reach = (-xd + sqrt(fmax(xd * xd + dd * (radius * radius - xx), 0.0))) / fmax(dd, 1e-300);
            for (index_t e = 0; e < m; e++) x[e] += reach * direction[e];
            return 1;
        }
        for (index_t e = 0; e < m; e++) {
            x[e] += alpha * direction[e];
            residual[e] -= alpha * curved[e];
        }
        double old = rr;
        rr = dot(m, residual, residual);
        if (rr <= stop) break;
        for (index_t e = 0; e < m; e++) direction[e] = residual[e] + (rr / old) * direction[e];
    }
    return 0;
}

/* Take over the trial point. */
static void accept(Newton *at) {
    Support support = at->support;
    double *v = at->v;
    at->support = at->trial;
    at->trial = support;
    at->v = at->z;
    at->z = v;
}

/* The longest of three steps that decreases the objective. Entries that change their sign become zero. Returns its
   length, or 0. */
static double backtrack(Newton *at, double *value, double slack, int keep_signs) {
    const Support *t = &at->support;
    double *z = at->pull; /* no longer needed */
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        for (index_t e = 0; e < t->m; e++) {
            z[e] = at->v[e] + LENGTHS[i] * at->move[e];
            if ((keep_signs && z[e] * at->v[e] < 0.0) || !(fabs(z[e]) > DUST)) z[e] = 0.0;
        }
        support_within(&at->trial, t, z, at->z);
        if (!retract(&at->trial, at->z, 1e-13, 24, &at->normal, at->work)) continue;
        support_without_zeros(&at->trial, at->z);
        int fewer = at->trial.m < t->m;
        if (fewer) gather_blocks(at->p->n, at->p->q, &at->trial, at->blocks);
        multiply_blocks(at->normal.lapack, &at->trial, at->blocks, at->z, at->image);
        double reached = surrogate(at->p, &at->trial, at->z, at->image);
        if (reached < *value + slack * fabs(*value)) {
            *value = reached;
            accept(at);
            return LENGTHS[i];
        }
        if (fewer) gather_blocks(at->p->n, at->p->q, t, at->blocks);
    }
    return 0.0;
}

index_t polish(const Lapack *lapack, const Surrogate *p, Support *t, double *v, double scale, double *value,
               const Effort *effort, double *radius, double *multiplier, int *known, index_t *integers,
               double *doubles) {
    index_t longest = 0, steps = 0, r = p->r;
    for (index_t j = 0; j < r; j++)
        if (t->first[j + 1] - t->first[j] > longest) longest = t->first[j + 1] - t->first[j];
    Newton at;
    newton_in(&at, lapack, p, t->m, longest, integers, doubles);
    support_within(&at.support, t, v, at.v);
    gather_blocks(p->n, p->q, &at.support, at.blocks);
    multiply_blocks(lapack, &at.support, at.blocks, at.v, at.image);
    int rough = effort->tol > 1e-4; /* only ranks starts: it has to leave saddle points, but needs few digits */
    index_t max_newton = rough && effort->max_newton > 2 ? 2 : effort->max_newton, max_cg = rough ? 12 : 40;
    if (!(scale > 0.0)) scale = 1.0;
    *radius = fmin(*radius, 0.5 * sqrt((double)r));
    *known = 0;
    for (; steps < max_newton; steps++) {
        slope_at(p, &at.support, at.image, at.slope);
        double size = gradient_at(&at);
        *known = 1;
        memcpy(multiplier, at.multiplier, (size_t)(r * r) * sizeof *multiplier);
        if (size <= effort->tol * scale) break;
        double rtol = fmax(fmin(0.1, size / scale), 0.3 * effort->tol * scale / size);
        int on_boundary = 0;
        if (rough || !direct_direction(&at, *radius))
            on_boundary = iterated_direction(&at, rtol, *radius, max_cg);
        double length = backtrack(&at, value, size < 1e-5 * scale ? 1e-12 : 0.0, effort->keep_signs);
        if (length == 0.0) {
            *radius *= SHRUNK;
            break;
        }
        if (length < 1.0)
            *radius *= length;
        else if (on_boundary)
            *radius *= 2.0;
    }
    if (steps) support_within(t, &at.support, at.v, v);
    return steps;
}

/* Q w + C as a dense matrix; `line` has n entries. */
static void half_gradient(const Surrogate *p, const Support *t, const double *v, double *line, double *half) {
    index_t n = p->n, r = p->r;
    for (index_t j = 0; j < r; j++) {
        memset(line, 0, (size_t)n * sizeof *line);
        for (index_t e = t->first[j]; e < t->first[j + 1]; e++) {
            const double *row = p->q + t->row[e] * n;
            for (index_t i = 0; i < n; i++) line[i] += v[e] * row[i];
        }
        for (index_t i = 0; i < n; i++) half[i * r + j] = line[i] + (p->linear ? p->linear[i * r + j] : 0.0);
    }
}

/* `w`, `half`, `value` and `radius` are read, and replaced where a step was taken. Returns 0 if none was and there is no
   multiplier, 1 if none was, 2 if one was. */
EXPORT int64_t fedspca_polish(const Lapack *lapack, int64_t n, int64_t r, const double *q, const double *linear,
                              const double *lam, double tol, int64_t max_newton, int64_t keep_signs, double *w,
                              double *half, double *value, double *radius, double *multiplier) {
    index_t m = 0, longest = 0;
    double square = 0.0;
    for (index_t j = 0; j < r; j++) {
        index_t count = 0;
        for (index_t i = 0; i < n; i++) {
            count += w[i * r + j] != 0.0;
            square += half[i * r + j] * half[i * r + j];
        }
        if (count > longest) longest = count;
        m += count;
    }
    index_t integers = support_room(n, r, m) + polish_integers(n, r, m);
    index_t doubles = m + polish_doubles(r, m, longest) + n;
    char *room = malloc((size_t)integers * sizeof(index_t) + (size_t)doubles * sizeof(double));
    if (!room) return -1;
    index_t *places = (index_t *)room;
    double *v = (double *)(places + integers), *line = v + m;
    Surrogate p = {n, r, q, linear, lam};
    Effort effort = {tol, max_newton, keep_signs != 0};
    Support t;
    int known = 0;
    support_in(&t, n, r, m, places);
    support_of(&t, w);
    for (index_t e = 0; e < m; e++) v[e] = w[t.row[e] * r + t.column[e]];
    index_t steps = polish(lapack, &p, &t, v, 2.0 * sqrt(square), value, &effort, radius, multiplier, &known,
                           places + support_room(n, r, m), line + n);
    if (steps) {
        memset(w, 0, (size_t)(n * r) * sizeof *w);
        for (index_t e = 0; e < t.m; e++) w[t.row[e] * r + t.column[e]] = v[e];
        half_gradient(&p, &t, v, line, half);
    }
    free(room);
    return steps ? 2 : known;
}
