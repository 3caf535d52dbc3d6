/* Factors and eigenpairs of dense matrices of any size, in row-major order.

   Small ones are computed here. Larger ones are left to LAPACK, whose functions the caller hands over: those that scipy
   was built with. Without them (a null pointer) all sizes are computed here. */
#ifndef FEDSPCA_FACTORS_H
#define FEDSPCA_FACTORS_H

#include "small.h"

/* The functions of BLAS and LAPACK that are used, in the order of `factors.py`. */
typedef struct {
    void (*dpotrf)(char *, int *, double *, int *, int *);
    void (*dpotri)(char *, int *, double *, int *, int *);
    void (*dtrsm)(char *, char *, char *, char *, int *, int *, double *, double *, int *, double *, int *);
    void (*dsyrk)(char *, char *, int *, int *, double *, double *, int *, double *, double *, int *);
    void (*dgemm)(char *, char *, int *, int *, int *, double *, double *, int *, double *, int *, double *, double *,
                  int *);
    void (*dsymv)(char *, int *, double *, double *, int *, double *, int *, double *, double *, int *);
    void (*dsyevr)(char *, char *, char *, int *, double *, int *, double *, double *, int *, int *, double *, int *,
                   double *, double *, int *, int *, double *, int *, int *, int *, int *);
    void (*dsyevd)(char *, char *, int *, double *, int *, double *, double *, int *, int *, int *, int *);
    void (*dgesdd)(char *, int *, int *, double *, int *, double *, double *, int *, double *, int *, double *, int *,
                   int *, int *);
    void (*sgemm)(char *, char *, int *, int *, int *, float *, float *, int *, float *, int *, float *, float *, int *);
} Lapack;

/* The lower factor L of a = L L', in place in the lower triangle. Returns 0, or 1 where a is not positive definite. */
int factorised(const Lapack *lapack, index_t n, double *a);

/* The same of a matrix that is positive definite up to rounding: its diagonal is raised until it is. `l` gets L. */
void positive_factor(const Lapack *lapack, index_t n, const double *a, double *l);

/* b becomes L^-1 b, for m right-hand sides: b is n x m. */
void forward(const Lapack *lapack, index_t n, const double *l, index_t m, double *b);

/* b becomes L'^-1 b, for one right-hand side. */
void backward(index_t n, const double *l, double *b);

/* b becomes the x with L L' x = b, for one right-hand side: both factors are read row by row. */
void solve_factored(index_t n, const double *l, double *b);

/* y = a x, for a symmetric a. */
void symmetric_product(const Lapack *lapack, index_t n, const double *a, const double *x, double *y);

/* The lower triangle of y' y (m x m), for y of n x m. */
void gram(const Lapack *lapack, index_t n, index_t m, const double *y, double *g);

/* L becomes the inverse of L L', both of its triangles. */
void inverse_of_factor(const Lapack *lapack, index_t n, double *l);

/* Room that `leading_eigenpair` needs, in doubles. */
index_t leading_room(index_t n);

/* The largest eigenvalue of a symmetric matrix and its eigenvector. `a` is overwritten. Returns 1 where the iterations
   did not converge, else 0. */
int leading_eigenpair(const Lapack *lapack, index_t n, double *a, double *value, double *vector, double *work);

/* Room that `leading_near` needs, in doubles. */
index_t near_room(index_t n);

/* The same from a vector near it, which is replaced: Lanczos iterations, for larger matrices. `a` is overwritten only
   where they do not converge. */
int leading_near(const Lapack *lapack, index_t n, double *a, double *value, double *vector, double *work);

#endif
