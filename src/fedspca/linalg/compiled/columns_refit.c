/* Twin of polish.refit_orthogonal and polish.nearest_orthogonal, by the refit of fewest.c. */
#include <math.h>

#include "columns.h"
#include "factors.h"

int64_t fedspca_refit(const Lapack *lapack, int64_t d, int64_t r, const double *s, const double *w, int64_t retracted,
                      int64_t rough, double *z, double *variance);

/* The best orthonormal loadings on given supports from those of `near`, which are made orthonormal first if asked; into
   w, which may be `near`. Few digits are enough if it may be `rough`. Returns the variance: minus infinity where supports admit none. */
double refitted_sparsely(Search *search, const double *near, const index_t *const *supports, int retracted, int rough,
                         double *w) {
    index_t d = search->d, r = search->r;
    double *start = search->start, *end = search->end, variance;
    for (index_t i = 0; i < d * r; i++) start[i] = 0.0;
    for (index_t j = 0; j < r; j++)
        for (index_t i = 0; i < search->k[j]; i++) start[supports[j][i] * r + j] = near[j * d + supports[j][i]];
    int64_t found = fedspca_refit(search->lapack, d, r, search->s, start, retracted, rough, end, &variance);
    if (found < 0) search->failed = 1;
    if (found <= 0) return -INFINITY;
    for (index_t j = 0; j < r; j++)
        for (index_t i = 0; i < d; i++) w[j * d + i] = end[i * r + j];
    return variance;
}
