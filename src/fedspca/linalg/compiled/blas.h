/* Products of matrices and decompositions by the BLAS and LAPACK that SciPy brings: its functions are handed over as
   pointers, so nothing is linked. All matrices are row-major here. */
#ifndef FEDSPCA_BLAS_H
#define FEDSPCA_BLAS_H

#include "small.h"

typedef struct {
    void (*dgemm)(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
                  const int *, const double *, const int *, const double *, double *, const int *);
    void (*dsyevd)(const char *, const char *, const int *, double *, const int *, double *, double *, const int *,
                   int *, const int *, int *);
    void (*dgesdd)(const char *, const int *, const int *, double *, const int *, double *, double *, const int *,
                   double *, const int *, double *, const int *, int *, int *);
} blas_t;

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
void product(const blas_t *blas, char ta, char tb, index_t m, index_t n, index_t k, const double *a, index_t lda,
             const double *b, index_t ldb, double *c, index_t ldc);

/* The same by plain loops. */
void small_product(char ta, char tb, index_t m, index_t n, index_t k, const double *a, index_t lda, const double *b,
                   index_t ldb, double *c, index_t ldc);

/* out = the products with the matrix of n vectors, the rows of x; `seen` has n * m entries, unless it is dense. */
void images(const blas_t *blas, const quadratic_t *q, index_t n, const double *x, double *out, double *seen);

/* All eigenpairs of a symmetric n x n matrix, as symmetric_eigenpairs, by the faster of two methods. `work` has
   eigen_work(n) entries. */
int eigenpairs(const blas_t *blas, index_t n, double *a, double *values, double *work);
index_t eigen_work(index_t n);

/* The orthonormal matrix nearest to x by an SVD, which completes a basis where x has too low a rank. The columns of
   both matrices, of length d, are the r rows of x and of out. Returns 0, 1 without convergence, -1 without memory. */
int nearest_by_svd(const blas_t *blas, index_t d, index_t r, const double *x, double *out);

/* Sums of products in four parts, which a processor adds at once. */
double dot(index_t n, const double *a, const double *b);

#endif
