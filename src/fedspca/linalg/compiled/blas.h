/* Products of matrices of any size, row-major, by the functions that the caller hands over. */
#ifndef FEDSPCA_BLAS_H
#define FEDSPCA_BLAS_H

#include "factors.h"

/* The symmetric d x d matrix factor * diag(signs) * factor', where factor is d x m; signs may be NULL. If it is dense,
   the factor is the matrix itself, and m is d. The shift, a multiple of the identity, is added. */
typedef struct {
    index_t d, m;
    const double *factor, *signs;
    double shift;
    int dense;
} quadratic_t;

/* c = op(a) op(b), with m rows, n columns, and k terms in each sum; `ta` and `tb` are 'N' or 'T'. The leading
   dimensions are the lengths of the rows as stored. */
void product(const Lapack *lapack, char ta, char tb, index_t m, index_t n, index_t k, const double *a, index_t lda,
             const double *b, index_t ldb, double *c, index_t ldc);

/* The same by plain loops. */
void small_product(char ta, char tb, index_t m, index_t n, index_t k, const double *a, index_t lda, const double *b,
                   index_t ldb, double *c, index_t ldc);

/* c -= a b, where a is m x k, and b is k x n. */
void take_off(const Lapack *lapack, index_t m, index_t n, index_t k, const double *a, const double *b, double *c);

/* out = the products with the matrix of n vectors, the rows of x; `seen` has n * m entries, unless it is dense. */
void images(const Lapack *lapack, const quadratic_t *q, index_t n, const double *x, double *out, double *seen);

/* All eigenpairs of a symmetric n x n matrix, as symmetric_eigenpairs, by the faster of two methods. `work` has
   eigen_work(n) entries. */
int eigenpairs(const Lapack *lapack, index_t n, double *a, double *values, double *work);
index_t eigen_work(index_t n);

/* The orthonormal matrix nearest to x by an SVD, which completes a basis where x has too low a rank. The columns of
   both matrices, of length d, are the r rows of x and of out. Returns 0, 1 without convergence, -1 without memory. */
int nearest_by_svd(const Lapack *lapack, index_t d, index_t r, const double *x, double *out);

/* Sums of products in four parts, which a processor adds at once. */
double dot(index_t n, const double *a, const double *b);

#endif
