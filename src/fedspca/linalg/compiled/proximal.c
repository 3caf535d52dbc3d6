/* The l1 problem on the Stiefel manifold: proximal and Newton steps. Twin: _solve in linalg/proximal.py.

   The columns of w, of length n, are rows here, unless a name says otherwise. */
#include "blas.h"
#include "stiefel_newton.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double UNDAMPED = 1e-10; /* the least damping, as a share of the mean curvature of the dual */
static const double LENGTHS[] = {1.0, 0.4, 0.16, 0.064, 0.0256, 0.01}; /* of a Newton step on the dual */
static const double DUST = 1e-9;
static const double FLATTEST = 0.02; /* the least curvature of a step, as a share of the gradient */
static const double MOST_BOOST = 1e6;
enum { DUAL_STEPS = 15, RETRACTIONS = 24, POLISHING = 6 };

typedef struct {
    double *multiplier, *z, *excess; /* r x r, of the size of w, r x r */
    double value, distance;
} DualPoint;

typedef struct {
    const Lapack *lapack;
    const quadratic_t *q;
    Surrogate surrogate;
    index_t n, r;
    const double *lam, *linear; /* linear as w, or NULL */
    double *w, *half, *trial, *image, *lagrange, *step, *pull, *newton;
    double *flat; /* n x r, row-major */
    DualPoint here, there;
    Normal normal;
    Support support;
    double *entries, *work; /* of the support; for retractions and Newton steps */
    index_t *room;
} Solver;

static void flatten(index_t n, index_t r, const double *w, double *flat) {
    for (index_t j = 0; j < r; j++)
        for (index_t i = 0; i < n; i++) flat[i * r + j] = w[j * n + i];
}

/* The surrogate at w, and Q w in `image`. */
static double value_at(const Solver *s, const double *w, double *image) {
    index_t n = s->n, r = s->r;
    images(s->lapack, s->q, r, w, image, NULL);
    double value = -dot(n * r, w, image);
    if (s->linear != NULL) value -= 2.0 * dot(n * r, s->linear, w);
    for (index_t j = 0; j < r; j++) {
        double norm = 0.0;
        for (index_t i = 0; i < n; i++) norm += fabs(w[j * n + i]);
        value += s->lam[j] * norm;
    }
    return value;
}

/* Q w + C, given Q w. */
static void set_half(Solver *s, const double *image) {
    index_t size = s->n * s->r;
    if (s->linear == NULL)
        memcpy(s->half, image, (size_t)size * sizeof(double));
    else
        for (index_t i = 0; i < size; i++) s->half[i] = image[i] + s->linear[i];
}

/* sym(w' (2 half - lam sign w)) */
static void first_multiplier(Solver *s) {
    index_t n = s->n, r = s->r;
    for (index_t j = 0; j < r; j++)
        for (index_t i = j * n; i < (j + 1) * n; i++)
            s->image[i] = 2.0 * s->half[i] - s->lam[j] * ((s->w[i] > 0.0) - (s->w[i] < 0.0));
    product(s->lapack, 'N', 'T', r, r, n, s->w, n, s->image, n, s->lagrange, r);
    for (index_t i = 0; i < r; i++)
        for (index_t j = 0; j < i; j++) {
            double entry = 0.5 * (s->lagrange[i * r + j] + s->lagrange[j * r + i]);
            s->lagrange[i * r + j] = s->lagrange[j * r + i] = entry;
        }
}

/* One step per column: -tr(w' Q w) is concave, so only the curvature of the retraction limits it. */
static void set_steps(Solver *s, double scale, double boost) {
    index_t r = s->r;
    for (index_t j = 0; j < r; j++) {
        double sum = 0.0, own = s->lagrange[j * r + j];
        for (index_t i = 0; i < r; i++) sum += fabs(s->lagrange[i * r + j]);
        double curvature = sum - fabs(own) + own;
        s->step[j] = 1.0 / (boost * (curvature > FLATTEST * scale ? curvature : FLATTEST * scale));
    }
}

/* The dual at a multiplier: D(L) = min over z of -<pull, z> + sum_j ||z_j||^2 / (2 step_j) + lam ||z||_1 + <L, w'z - I>. */
static void dual_at(const Solver *s, DualPoint *at) {
    index_t n = s->n, r = s->r;
    product(s->lapack, 'N', 'N', r, n, r, at->multiplier, r, s->w, n, at->z, n);
    at->value = 0.0;
    for (index_t j = 0; j < r; j++) {
        double *z = at->z + j * n, lam = s->lam[j], step = s->step[j];
        const double *pull = s->pull + j * n;
        for (index_t i = 0; i < n; i++) {
            double force = pull[i] - z[i], part = force < -lam ? -lam : force;
            part = part > lam ? lam : part;
            z[i] = step * (force - part);
        }
        /* at the minimiser, linear term plus norm equals minus twice the quadratic term */
        at->value -= 0.5 * dot(n, z, z) / step + at->multiplier[j * r + j];
    }
    product(s->lapack, 'N', 'T', r, r, n, s->w, n, at->z, n, at->excess, r);
    at->distance = 0.0;
    for (index_t i = 0; i < r; i++)
        for (index_t j = 0; j <= i; j++) {
            double entry = at->excess[i * r + j] + at->excess[j * r + i] - (i == j ? 2.0 : 0.0);
            at->excess[i * r + j] = at->excess[j * r + i] = entry;
            if (!(fabs(entry) <= at->distance)) at->distance = fabs(entry);
        }
}

/* The equations of a Newton step on the dual: inner products of columns of w over the support of each column of z. */
static void dual_equations(Solver *s, const double *z, double damping) {
    index_t n = s->n, r = s->r;
    double *inner = s->normal.inner;
    memset(inner, 0, (size_t)(r * r * r) * sizeof(double));
    for (index_t i = 0; i < n; i++) {
        const double *row = s->flat + i * r;
        for (index_t g = 0; g < r; g++) {
            if (z[g * n + i] == 0.0) continue;
            double *own = inner + g * r * r;
            for (index_t a = 0; a < r; a++) {
                double factor = s->step[g] * row[a];
                if (factor == 0.0) continue;
                for (index_t b = a; b < r; b++) own[a * r + b] += factor * row[b];
            }
        }
    }
    normal_of(&s->normal, damping);
}

static void swap_points(Solver *s) {
    DualPoint here = s->here;
    s->here = s->there;
    s->there = here;
}

/* The longest Newton step that increases the dual, or, if rounding hides that, brings z nearer to the tangent space.
   Returns its length, or 0. */
static double dual_step(Solver *s) {
    index_t square = s->r * s->r;
    double rise = 0.5 * dot(square, s->newton, s->here.excess);
    for (size_t k = 0; k < sizeof LENGTHS / sizeof *LENGTHS; k++) {
        for (index_t i = 0; i < square; i++)
            s->there.multiplier[i] = s->here.multiplier[i] + LENGTHS[k] * s->newton[i];
        dual_at(s, &s->there);
        if (s->there.value >= s->here.value + 1e-4 * LENGTHS[k] * rise || s->there.distance < 0.5 * s->here.distance) {
            swap_points(s);
            return LENGTHS[k];
        }
    }
    return 0.0;
}

/* The proximal point of w, with its multiplier, in `here`. */
static void proximal_point(Solver *s, double tol) {
    index_t n = s->n, r = s->r;
    for (index_t j = 0; j < r; j++)
        for (index_t i = j * n; i < (j + 1) * n; i++) s->pull[i] = s->w[i] / s->step[j] + 2.0 * s->half[i];
    memcpy(s->here.multiplier, s->lagrange, (size_t)(r * r) * sizeof(double));
    flatten(n, r, s->w, s->flat);
    dual_at(s, &s->here);
    double damping = UNDAMPED, enough = tol > 1e-12 ? tol : 1e-12;
    for (int k = 0; k < DUAL_STEPS && !(s->here.distance <= enough); k++) {
        /* damping: where two columns share no support yet, the dual is flat, and its Newton step unbounded */
        dual_equations(s, s->here.z, damping);
        normal_solve(&s->normal, s->here.excess, s->newton);
        double length = dual_step(s);
        if (length == 0.0) {
            if (damping > 1.0) break;
            damping = fmax(100.0 * damping, 1e-4); /* the step turns towards the gradient */
        } else if (length == 1.0) {
            damping = UNDAMPED;
        }
    }
}

/* z on its own support, made orthonormal, in `trial`, with Q times it in `image`. Returns whether the objective falls,
   or near convergence stays the same up to rounding. */
static int descend(Solver *s, const double *z, double *value, double slack) {
    index_t n = s->n, r = s->r;
    for (index_t j = 0; j < r; j++)
        for (index_t i = 0; i < n; i++) {
            double entry = z[j * n + i];
            s->flat[i * r + j] = fabs(entry) > DUST ? entry : 0.0;
        }
    Support *t = &s->support;
    support_of(t, s->flat);
    for (index_t e = 0; e < t->m; e++) s->entries[e] = s->flat[t->row[e] * r + t->column[e]];
    if (!retract(t, s->entries, 1e-13, RETRACTIONS, &s->normal, s->work)) return 0;
    support_without_zeros(t, s->entries);
    memset(s->trial, 0, (size_t)(n * r) * sizeof(double));
    for (index_t e = 0; e < t->m; e++) s->trial[t->column[e] * n + t->row[e]] = s->entries[e];
    double reached = value_at(s, s->trial, s->image);
    if (!(reached < *value + slack * fabs(*value))) return 0;
    *value = reached;
    return 1;
}

/* Takes the trial point over. Returns how many entries entered or left the support; `nonzeros` are those it has. */
static index_t accept(Solver *s, index_t *nonzeros) {
    index_t changed = 0, count = 0;
    for (index_t i = 0; i < s->n * s->r; i++) {
        changed += (s->trial[i] != 0.0) != (s->w[i] != 0.0);
        count += s->trial[i] != 0.0;
    }
    double *w = s->w;
    s->w = s->trial;
    s->trial = w;
    *nonzeros = count;
    return changed;
}

/* Newton steps on the support of w, which `support` and `entries` hold. */
static void newton_steps(Solver *s, double tol, double *value, double *radius) {
    index_t n = s->n, r = s->r;
    Effort effort = {tol, POLISHING, 1};
    int known = 0;
    double scale = 2.0 * sqrt(dot(n * r, s->half, s->half));
    index_t steps = polish(s->lapack, &s->surrogate, &s->support, s->entries, scale > 0.0 ? scale : 1.0, value, &effort,
                           radius, s->newton, &known, s->room, s->work);
    if (known) memcpy(s->lagrange, s->newton, (size_t)(r * r) * sizeof(double));
    if (!steps) return;
    memset(s->w, 0, (size_t)(n * r) * sizeof(double));
    for (index_t e = 0; e < s->support.m; e++) s->w[s->support.column[e] * n + s->support.row[e]] = s->entries[e];
    images(s->lapack, s->q, r, s->w, s->image, NULL);
    set_half(s, s->image);
}

/* Proximal steps; a Newton step whenever the support has (almost) stopped changing. Returns whether they converged. */
static int steps(Solver *s, double tol, index_t max_iter, double *value, double *residual, int64_t *taken) {
    double boost = 1.0, radius = INFINITY;
    index_t n = s->n, r = s->r, nonzeros = 0;
    *residual = INFINITY;
    for (*taken = 0; *taken < max_iter;) {
        ++*taken;
        double scale = 2.0 * sqrt(dot(n * r, s->half, s->half)), square = 0.0;
        scale = scale != 0.0 ? scale : 1.0;
        set_steps(s, scale, boost);
        proximal_point(s, 1e-2 * tol);
        memcpy(s->lagrange, s->here.multiplier, (size_t)(r * r) * sizeof(double));
        for (index_t j = 0; j < r; j++)
            for (index_t i = j * n; i < (j + 1) * n; i++) {
                double move = (s->here.z[i] - s->w[i]) / s->step[j];
                square += move * move;
            }
        *residual = sqrt(square) / scale;
        int converged = *residual <= tol, fell = descend(s, s->here.z, value, *residual < 1e-5 ? 1e-12 : 0.0);
        if (converged) {
            /* take this last step too: w may contain a small entry that is zero in z and would spoil the certificate */
            if (fell) accept(s, &nonzeros);
            return 1;
        }
        if (!fell) {
            boost *= 3.0;
            if (boost > MOST_BOOST) break;
            continue;
        }
        boost = boost > 2.0 ? boost / 2.0 : 1.0;
        index_t changed = accept(s, &nonzeros);
        set_half(s, s->image);
        double few = 0.1 * (double)nonzeros;
        if ((double)changed <= (few > 2.0 ? few : 2.0)) {
            radius *= 4.0;
            newton_steps(s, 0.1 * tol, value, &radius);
        }
    }
    return 0;
}

/* Room for everything, in doubles and integers; sets the solver up in it. */
static index_t solver_doubles(index_t n, index_t r) {
    index_t size = n * r, square = r * r, polishing = polish_doubles(r, size, n), retracting = retract_room(r, size);
    return 9 * size + 6 * square + r + normal_doubles(r) + (polishing > retracting ? polishing : retracting);
}

static index_t solver_integers(index_t n, index_t r) {
    return support_room(n, r, n * r) + normal_integers(r) + polish_integers(n, r, n * r);
}

static void solver_in(Solver *s, index_t *integers, double *doubles) {
    index_t n = s->n, r = s->r, size = n * r, square = r * r;
    double **large[] = {&s->w, &s->half, &s->trial, &s->image, &s->pull, &s->flat, &s->here.z, &s->there.z, &s->entries};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++, doubles += size) *large[i] = doubles;
    double **small[] = {&s->lagrange,      &s->newton,           &s->here.multiplier,
                        &s->here.excess,   &s->there.multiplier, &s->there.excess};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++, doubles += square) *small[i] = doubles;
    s->step = doubles;
    doubles += r;
    support_in(&s->support, n, r, size, integers);
    integers += support_room(n, r, size);
    normal_in(&s->normal, s->lapack, r, integers, doubles);
    s->room = integers + normal_integers(r);
    s->work = doubles + normal_doubles(r);
}

/* `w` (n x r) is the start, and in the end the point; `linear` (n x r) may be NULL. `multiplier` is read if `given`.
   `numbers` gets the value and the residual, `taken` the number of steps. Returns whether they converged; -1 without
   memory. */
EXPORT int64_t fedspca_minimise(const Lapack *lapack, const quadratic_t *q, int64_t r, const double *lam,
                                const double *linear, double tol, int64_t max_iter, int64_t given, double *w,
                                double *multiplier, double *numbers, int64_t *taken) {
    index_t n = q->d, size = n * r, integers = solver_integers(n, r), doubles = solver_doubles(n, r) + size;
    char *room = malloc((size_t)integers * sizeof(index_t) + (size_t)doubles * sizeof(double));
    if (!room) return -1;
    double *own = (double *)(room + (size_t)integers * sizeof(index_t));
    Solver s = {.lapack = lapack, .q = q, .surrogate = {n, r, q->factor, linear, lam}, .n = n, .r = r, .lam = lam};
    solver_in(&s, (index_t *)room, own + size);
    if (linear != NULL) {
        for (index_t i = 0; i < size; i++) own[(i % r) * n + i / r] = linear[i];
        s.linear = own;
    }
    for (index_t i = 0; i < size; i++) s.w[(i % r) * n + i / r] = w[i];
    double value = value_at(&s, s.w, s.image), residual = INFINITY;
    set_half(&s, s.image);
    if (given)
        memcpy(s.lagrange, multiplier, (size_t)(r * r) * sizeof(double));
    else
        first_multiplier(&s);
    int converged = steps(&s, tol, max_iter, &value, &residual, taken);
    flatten(n, r, s.w, w);
    memcpy(multiplier, s.lagrange, (size_t)(r * r) * sizeof(double));
    numbers[0] = value;
    numbers[1] = residual;
    free(room);
    return converged;
}
