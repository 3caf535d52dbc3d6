/* The sparse Stiefel manifold: orthonormal n x r matrices that vanish outside a fixed support.

   A matrix is given by its entries on the support, column by column. Loops then cost as much as the entries that share
   a row or a column, and not n r^2. */
#ifndef FEDSPCA_STIEFEL_H
#define FEDSPCA_STIEFEL_H

#include "factors.h"

/* The places of m entries. Entry e is at row[e] and column[e]. */
typedef struct {
    index_t n, r, m;
    index_t *first;  /* r + 1: where the entries of a column begin */
    index_t *row;    /* m */
    index_t *column; /* m */
    index_t *start;  /* n + 1: where the entries of a row begin in `list` */
    index_t *list;   /* m: the entries row by row */
} Support;

/* Room for the places of at most m entries, in integers. */
index_t support_room(index_t n, index_t r, index_t m);

/* An empty support in this room. */
void support_in(Support *t, index_t n, index_t r, index_t m, index_t *room);

/* The places where a dense row-major matrix is not zero. */
void support_of(Support *t, const double *dense);

/* The lists by rows, from the rows of all entries. */
void list_rows(Support *t);

/* `t` gets the places of `of` where v is not zero, and u the entries there. */
void support_within(Support *t, const Support *of, const double *v, double *u);

/* Drops the places where v is zero up to rounding, and these entries of v. Two columns that share one row cannot both
   keep it: a retraction leaves a zero there, and the equation of such a pair is vacuous. */
void support_without_zeros(Support *t, double *v);

/* The linear equations for the symmetric multiplier of the constraints w' w = I. */
typedef struct {
    const Lapack *lapack;
    index_t r, pairs;
    index_t *first, *second; /* the columns of each pair that shares a row */
    index_t *place;          /* r x r: which pair two columns are, or -1 */
    double *inner;           /* r x r x r: inner products of two columns on the support of a third */
    double *matrix, *factor; /* pairs x pairs */
    double *right;           /* pairs */
} Normal;

/* Room for the equations of r columns: in integers, and in doubles. */
index_t normal_integers(index_t r);
index_t normal_doubles(index_t r);

/* No equations yet, in this room. */
void normal_in(Normal *normal, const Lapack *lapack, index_t r, index_t *integers, double *doubles);

/* Set the equations up at a point and factorise them. */
void normal_at(Normal *normal, const Support *t, const double *v);

/* The same from the inner products, which may be weighted; `damping` is a share of the mean diagonal, added to it. */
void normal_of(Normal *normal, double damping);

/* The symmetric L (r x r) with w' (mask * (w L)) + its transpose = rhs. */
void normal_solve(const Normal *normal, const double *rhs, double *l);

/* Argmin over symmetric L of || mask * (y - w L) ||, for y on the support. `work` has r x r entries. */
void multiplier_of(const Normal *normal, const Support *t, const double *v, const double *y, double *l, double *work);

/* y becomes y - mask * (w L). */
void subtract_product(const Support *t, const double *v, const double *l, double *y);

/* Room that `retract` needs, in doubles. */
index_t retract_room(index_t r, index_t m);

/* v becomes orthonormal on its support, near v. Returns 1, or 0 where no such matrix was found. */
int retract(const Support *t, double *v, double tol, index_t max_iter, Normal *normal, double *work);

#endif
