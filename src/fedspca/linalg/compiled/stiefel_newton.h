/* Newton steps on the sparse Stiefel manifold. */
#ifndef FEDSPCA_STIEFEL_NEWTON_H
#define FEDSPCA_STIEFEL_NEWTON_H

#include "stiefel.h"

/* -tr(w' Q w) - 2 <C, w> + <lam, |w|>, with Q of n x n and C of n x r. C or lam may be null pointers: zero. */
typedef struct {
    index_t n, r;
    const double *q, *linear, *lam;
} Surrogate;

/* Q between the entries of each column, one column after another. Q is n x n. */
void gather_blocks(index_t n, const double *q, const Support *t, double *blocks);

/* y = Q x on the support. */
void multiply_blocks(const Lapack *lapack, const Support *t, const double *blocks, const double *x, double *y);

/* The Hessian of the Lagrangian between the entries (m x m), its lower triangle. Returns its largest entry. */
double hessian_of(const Support *t, const double *blocks, const double *multiplier, double *a);

/* The gradients of the constraints with respect to the entries (m x width): one column for each pair, then zeros. That of
   columns a and b is w_b in column a, and w_a in column b. */
void constraint_gradients(const Normal *normal, const Support *t, const double *v, index_t width, double *columns);

/* a += stiff N N' for these gradients N: nothing on the tangent space. */
void stiffen(const Normal *normal, const Support *t, index_t width, const double *columns, double stiff, double *a);

/* How to polish: the first-order residual to reach, relative to the gradient, and at most how many steps. */
typedef struct {
    double tol;
    index_t max_newton;
    int keep_signs;
} Effort;

/* Room that `polish` needs for m entries, in integers and in doubles. `longest` is the largest number in a column. */
index_t polish_integers(index_t n, index_t r, index_t m);
index_t polish_doubles(index_t r, index_t m, index_t longest);

/* Minimise the surrogate from the entries v on the support t. Both change: entries whose sign would flip leave the
   support. `scale` is twice the norm of Q w + C. Returns how many steps were taken. `multiplier` (r x r) and `known` get
   the last multiplier and whether there is one. */
index_t polish(const Lapack *lapack, const Surrogate *p, Support *t, double *v, double scale, double *value,
               const Effort *effort, double *radius, double *multiplier, int *known, index_t *integers,
               double *doubles);

#endif
