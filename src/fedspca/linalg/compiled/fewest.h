/* The fewest non-zeros that keep a share of the variance. All loadings are dense, d x r, row by row.

   Functions return 1, or 0 where there is no answer, or -1 where there is no memory. */
#ifndef FEDSPCA_FEWEST_H
#define FEDSPCA_FEWEST_H

#include <stddef.h>

#include "stiefel_newton.h"

/* What is searched for: the fewest non-zeros of orthonormal w (d x r) with tr(w' S w) >= target. */
typedef struct {
    const Lapack *lapack;
    index_t d, r;
    const double *s;
    double target, heaviest; /* the largest variance of a feature */
    int64_t (*late)(void);   /* whether time is up; a null pointer if there is no limit */
} Search;

/* Loadings and the variance that they capture. */
typedef struct {
    double *w;
    double variance;
} Fit;

/* ---- fewest_refit.c ---- */

/* The number of non-zeros. */
index_t nonzeros(const Search *search, const double *w);

/* The group of each column: columns that share features, directly or through others, have the same. A group is named by
   its first column. */
void groups_of(const Search *search, const double *w, index_t *group);

/* How to refit: whether the loadings are made orthonormal first, and whether few digits are enough. */
typedef struct {
    int retracted, rough;
} Refit;

/* The best orthonormal loadings on the supports of z, each group of columns by itself. Those that are the same as before
   stay, if there is a `before`. A column without an entry stays empty, or has no retraction. */
int refit_loadings(const Search *search, const double *z, const Fit *before, Refit how, Fit *after);

/* The same after a retraction, roughly. */
int refit_changed(const Search *search, const double *z, const Fit *before, Fit *after);

/* The same, to full precision where that decides whether the target is reached. */
int reaching(const Search *search, const double *z, const Fit *before, Fit *after);

/* The best orthonormal loadings on the supports of w, which is orthonormal, to full precision. */
int refit_orthogonal(const Search *search, const double *w, Fit *after);

/* ---- fewest_removal.c ---- */

/* The entries of columns that share features, and the inverse of the Hessian between them on the tangent space. */
typedef struct {
    index_t first, count; /* of the entries */
    double *inverse;      /* count x count: C, or the X with C = X' X, below the diagonal */
    int formed;           /* whether it is C */
    double *pulls;        /* one row of count entries for each that was left out */
    index_t gone;         /* number of those */
} Part;

/* Entries that may be left out, those of one part after another. */
typedef struct {
    index_t n, parts;
    index_t *place;  /* n: i * r + j */
    index_t *of;     /* n: the part */
    double *weight;  /* n: the weights before anything is left out */
    double *room_of; /* n: the diagonal of C */
    Part *part;
    index_t count;   /* number of entries that are left out, in their order: */
    index_t *order;  /* which one */
    double *costs;   /* what it costs, with all before it */
    char *room;      /* all memory */
} Removals;

/* The parts at loadings that are the best on their supports. To be freed if the answer is 1. */
int removals_at(const Search *search, const double *w, Removals *removals);
void removals_free(Removals *removals);

/* Leave out the entries that cost least, each given those before it, until they cost more than `spare`. */
int cheapest_removals(const Search *search, const double *w, double spare, Removals *removals);

/* z: the loadings w without the first n of them, orthonormal and refitted to first order. */
int without(const Search *search, const Removals *removals, const double *w, index_t n, double *z);

/* Entries whose removal alone costs at most `spare`, the cheapest first, into `order`. */
int single_removals(const Search *search, const double *w, double spare, Removals *removals);

/* z: the loadings w without one of them. */
void without_one(const Search *search, const Removals *removals, const double *w, index_t which, double *z);

/* ---- fewest_trades.c ---- */

/* What single entries are worth; see `Margins` in trades.py. Arrays of d x r. */
typedef struct {
    double *gain, *shared, *cost, *weights;
} Margins;

/* S w, column by column: r x d. */
void image_of(const Search *search, const double *w, double *image);

/* w' S w (r x r) from S w. */
void inner_of(const Search *search, const double *w, const double *image, double *inner);

/* At orthonormal loadings that are the best on their supports. `work` has r d + r r + r entries. */
void margins_at(const Search *search, const double *w, const Margins *margins, double *work);

/* The order of two doubles, for qsort: NaN comes last. */
int ascending(const void *one, const void *other);

/* A value and its position. */
typedef struct {
    double key;
    index_t at;
} Ranked;

/* The finite ones of many values, times a sign, the smallest first, into `ranked`, which has room for all. Values equal
   up to rounding stay in order. Returns their number. */
index_t rank_values(index_t count, const double *values, double sign, Ranked *ranked);

/* Room that `promising_trades` needs, in bytes; `enter` and `leave` have room for d + r + 200 each. */
size_t trades_room(const Search *search);

/* Pairs of entries that enter and leave and promise a gain, the most promising first. Returns their number. */
index_t promising_trades(const Search *search, const double *w, const Margins *margins, index_t *enter, index_t *leave,
                         char *room);

#endif
