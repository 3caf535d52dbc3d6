/* Small dense problems, in row-major order: at these sizes a call of LAPACK costs more than its arithmetic. */
#ifndef FEDSPCA_SMALL_H
#define FEDSPCA_SMALL_H

#include <stdint.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* A function that is compiled twice, the second time for vectors of four; which one runs is decided when the library is
   loaded. Sums keep their order, so that both give the same bits. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE_TOO __attribute__((target_clones("avx2", "default")))
#else
#define WIDE_TOO
#endif

typedef int64_t index_t; /* numpy's intp on 64-bit machines */

/* All eigenvalues of a symmetric n x n matrix, ascending, and its eigenvectors as columns. `a` is overwritten by the
   eigenvectors; `work` has n entries. Returns 0, or 1 where the iterations did not converge. */
int symmetric_eigenpairs(index_t n, double *a, double *values, double *work);

/* The lower factor L of a = L L', in place in the lower triangle. Returns 0, or 1 where a is not positive definite. */
int cholesky(index_t n, double *a);

/* b becomes the x with L L' x = b, for m right-hand sides: b is n x m. */
void cholesky_solve(index_t n, const double *l, index_t m, double *b);

#endif
