/* Newton steps on the sparse Stiefel manifold. */
#ifndef FEDSPCA_STIEFEL_NEWTON_H
#define FEDSPCA_STIEFEL_NEWTON_H

#include "stiefel.h"

/* -tr(w' Q w) - 2 <C, w> + <lam, |w|>, with Q of n x n and C of n x r. C or lam may be null pointers: zero. */
typedef struct {
    index_t n, r;
    const double *q, *linear, *lam;
} Surrogate;

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
