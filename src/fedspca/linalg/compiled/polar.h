/* The orthonormal matrix nearest to a matrix x, x (x' x)^(-1/2). Twin: orthonormal in linalg/splitting.py. */
#ifndef FEDSPCA_POLAR_H
#define FEDSPCA_POLAR_H

#include "blas.h"

/* What is kept of a matrix for the next one, which differs little: the eigenvectors of its x' x. */
typedef struct {
    double *vectors; /* r x r */
    int *fresh;      /* whether there are none yet */
} earlier_t;

/* Entries of working memory that `nearest` needs. */
index_t polar_work(index_t r);

/* The columns of x and out, of length d, are the r rows of these arrays. `earlier` may be NULL. Returns 0, 1 where
   LAPACK did not converge, -1 without memory. */
int nearest_orthonormal(const Lapack *lapack, index_t d, index_t r, const double *x, double *out, earlier_t *earlier, double *work);

#endif
