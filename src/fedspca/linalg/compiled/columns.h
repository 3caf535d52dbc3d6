/* The search for sparse columns of a known S: what its files share. Twins of the modules of `linalg/cardinality`:
   columns_select.c of selection.py, columns_beside.c of beside.py, columns_one.c of column.py, columns_together.c of
   together.py, columns_points.c of points.py, columns_moves.c of moves.py, columns_joint.c of joint.py,
   columns_free.c and columns_refit.c of parts of polish.py.

   A point is r columns of d entries, one after the other: the transpose of numpy's loadings. */
#ifndef FEDSPCA_COLUMNS_H
#define FEDSPCA_COLUMNS_H

#include "small.h"

#define TIE 1e-9   /* as in selection.py */
#define TOGETHER 48 /* as in points.py: with more non-zeros in all, sparse Newton steps are faster */
#define MOST_COLUMNS 64
#define MOST_SWAPS 64
#define GAIN 1e-8  /* as in points.py */

/* The numbers of tuning.py that the search reads. */
typedef struct {
    index_t small, first_wave, starts, few_nonzeros, power_steps, refits, climbs, swaps, steps, beam, points, branches,
        pool, sweeps, finalists, pairs, handovers, few;
    double near;
} Effort;

/* Columns with supports of the same size k: supports (m x k), weights (m x k) and gains (m). */
typedef struct {
    index_t m, k;
    index_t *supports;
    double *weights, *gains;
} Columns;

/* Loadings (m x r x d) and the variance that each captures. */
typedef struct {
    index_t m;
    double *w, *variances;
} Points;

/* An orthonormal basis of q columns, and P S P for the projection P off its span, whose rows are formed when they are
   first read: P S P = S - R B' - B R'. */
typedef struct {
    index_t q;
    int orthogonal;
    double captured;
    double *basis, *image, *rest; /* q x d */
    double *rows, *diagonal;      /* d x d, d */
    index_t *begin, *entries;     /* where the entries of each column begin, and their features */
    double *weights;
    char *uses, *formed;          /* d: whether the basis uses a feature; whether a row is formed */
} Beside;

/* A feature of the support, by its position there, that leaves, a feature that enters, and what that promises. */
typedef struct {
    index_t gone, come;
    double gain;
} Swap;

/* The c columns that are refitted together: n entries, p pairs of columns that share features. */
typedef struct {
    index_t n, c, p;
    double promise; /* what a step gains, if the second derivative is right */
    index_t *features, *where;               /* n; n x c: the entry of the same feature in a column, or -1 */
    index_t *column, *start, *first, *second; /* of the columns, and of the pairs */
    double *blocks, *jacobian, *normal, *error, *multiplier, *reflectors, *scales, *tangent, *half, *reduced, *gradient,
        *slope, *values, *work, *along, *step, *x, *trial, *sizes;
} Frame;

typedef struct {
    index_t d, r, most, n_given; /* `most` is the largest k */
    const double *s;
    const index_t *k;
    int orthogonal, refits, finite; /* `refits`: whether columns are refitted together; `finite`: whether S is */
    int failed;                     /* whether memory was missing */
    const void *lapack;             /* see factors.h */
    double size; /* the largest variance of a feature */
    const double *given;
    double *lengths, *own_bounds; /* of the rows of S; bounds are -1 before they are computed */
    index_t bounded;              /* the number of features that the bounds are for */
    Beside beside;
    Frame frame;
    /* working memory of single functions */
    double *block, *power, *other, *values, *work, *inside, *span, *metric, *unit, *inner, *image, *trial_x, *best_x,
        *top, *bounds, *left, *gram, *turn, *scores, *promised, *step, *stepped, *joined, *moved, *product, *start, *end;
    index_t *support, *trials, *order, *space, *moving, *features, *owners, *named, *lists, *pool;
    uint64_t *table;
    char *stays; /* d: whether a feature stays in its column */
    Swap *swaps;
    Columns found, ended, merged, kept, given_up, one;
    Points first, second, third, scratch;
} Search;

/* In four sums, which do not wait for each other. */
static inline double dot(index_t n, const double *a, const double *b) {
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    index_t i = 0;
    for (; i + 3 < n; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    for (; i < n; i++) s0 += a[i] * b[i];
    return (s0 + s1) + (s2 + s3);
}

/* y + factor a, in y. */
static inline void add_scaled(index_t n, double factor, const double *restrict a, double *restrict y) {
    for (index_t i = 0; i < n; i++) y[i] += factor * a[i];
}

/* columns_select.c */
typedef int (*before_t)(const void *context, index_t a, index_t b);
void stable_sort(index_t n, index_t *order, index_t *space, before_t before, const void *context);
void heaviest(Search *search, const double *values, index_t k, index_t *support);
index_t distinct(Search *search, index_t m, index_t k, const index_t *supports, index_t *kept);
index_t ranked(Search *search, index_t m, index_t k, const double *values, const index_t *supports, index_t *order);
int lower_support(index_t k, const index_t *a, const index_t *b);
uint64_t bits_of(index_t feature);
void sort_features(index_t k, index_t *support);

/* columns_beside.c */
void stand_beside(Search *search, index_t q, const double *const *columns, int orthogonal);
void beside_others(Search *search, const double *w, index_t r, index_t j, int orthogonal);
const double *row_beside(Search *search, index_t i);
double refit(Search *search, index_t k, const index_t *support, double floor, double *x);
void power_step(Search *search, index_t k, const index_t *support, const double *x, double gain, double *scores);
void image_beside(Search *search, index_t k, const index_t *support, const double *x, double *image);

/* columns_one.c */
double row_bound(Search *search, const double *row, index_t k);
double own_row_bound(Search *search, index_t feature, index_t k);
void best_of_each(Search *search, index_t k, const Effort *effort, index_t n_given, const double *given, index_t n,
                  Columns *best);
void climbed(Search *search, Columns *points, const Effort *effort);
double best_of_trials(Search *search, index_t n, index_t k, index_t *trials, double floor, index_t *support,
                      double *x);
void promised_by_swaps(Search *search, index_t k, const index_t *support, const double *x, double gain,
                       const double *scores, index_t n, index_t each, Swap *best);

int lowest(Search *search, index_t k, index_t *support, double *x);

/* columns_together.c */
double refitted(Search *search, double *w, const index_t *const *supports, index_t steps);
int nearest(Search *search, const double *near, const index_t *const *supports, double *w);

/* columns_refit.c */
double refitted_sparsely(Search *search, const double *near, const index_t *const *supports, int retracted, int rough,
                         double *w);

/* columns_free.c */
int nearly_dependent(const Search *search, const double *w);
double free_step(Search *search, double *w, double variance);

/* columns_points.c */
void put(Search *search, double *w, index_t j, index_t k, const index_t *support, const double *x);
void best_points(Search *search, Points *points, index_t r, index_t n, double behind);
void add_point(Search *search, Points *points, const double *w, double variance);
void join_points(Search *search, Points *points, const Points *others);
void supports_of(Search *search, const double *w, index_t *named, const index_t **supports);
double in_order(Search *search, const index_t *const *supports, int orthogonal, double *w);
Effort quick(const Effort *effort);
void pull_of(Search *search, const double *w, double *image, double *inner);
double fitted(Search *search, const double *near, int orthogonal, double *w);
void swept(Search *search, double *w, double *variance, const Effort *effort, index_t sweeps, int everywhere);
double polished(Search *search, double *w, double variance, int rough);

/* columns_moves.c */
void handed_over(Search *search, double *w, double *variance, const Effort *effort);
void redivided(Search *search, double *w, double *variance, const Effort *effort);
void swapped(Search *search, double *w, double *variance, const Effort *effort);
void exchanged(Search *search, double *w, double *variance, const Effort *effort);

#endif
