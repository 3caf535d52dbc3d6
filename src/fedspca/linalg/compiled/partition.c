/* Twin of `partition.py`. */
#include "fewest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 30 }; /* most divisions settle in ten */

/* A division of the features, and its memory. */
typedef struct {
    Search search;
    double *w, *image, *explained, *variance;
    index_t *owner, *before, *size;
} Division;

/* The component that explains most of each feature; no component is left without one. */
static void divide(Division *at) {
    index_t d = at->search.d, r = at->search.r;
    for (index_t i = 0; i < d; i++) {
        const double *line = at->explained + i * r;
        at->owner[i] = 0;
        for (index_t j = 1; j < r; j++)
            if (line[j] > line[at->owner[i]]) at->owner[i] = j;
    }
    memset(at->size, 0, (size_t)r * sizeof *at->size);
    for (index_t i = 0; i < d; i++) at->size[at->owner[i]]++;
    for (index_t j = 0; j < r; j++) {
        if (at->size[j]) continue;
        index_t worst = -1; /* explained worst, of those that are not alone */
        double most = -INFINITY;
        for (index_t i = 0; i < d; i++) {
            double rest = at->search.s[i * (d + 1)] - at->explained[i * r + at->owner[i]];
            if (at->size[at->owner[i]] > 1 && (worst < 0 || rest > most)) {
                worst = i;
                most = rest;
            }
        }
        if (worst < 0) continue;
        at->size[at->owner[worst]]--;
        at->owner[worst] = j;
        at->size[j] = 1;
    }
}

/* Each component becomes the leading eigenvector of its features. */
static int leading_columns(Division *at) {
    index_t d = at->search.d, r = at->search.r, most = 0;
    for (index_t j = 0; j < r; j++)
        if (at->size[j] > most) most = at->size[j];
    double *part = malloc((size_t)(most * most + most + near_room(most)) * sizeof *part + (size_t)most * sizeof(index_t));
    if (!part) return -1;
    double *vector = part + most * most, *work = vector + most, value;
    index_t *rows = (index_t *)(work + near_room(most));
    memcpy(at->image, at->w, (size_t)(d * r) * sizeof *at->w); /* the weights before: a start */
    memset(at->w, 0, (size_t)(d * r) * sizeof *at->w);
    int found = 1;
    for (index_t j = 0; j < r && found; j++) {
        index_t n = 0;
        for (index_t i = 0; i < d; i++)
            if (at->owner[i] == j) rows[n++] = i;
        for (index_t i = 0; i < n; i++) {
            vector[i] = at->image[rows[i] * r + j];
            for (index_t k = 0; k < n; k++) part[i * n + k] = at->search.s[rows[i] * d + rows[k]];
        }
        found = n == 0 || !leading_near(at->search.lapack, n, part, &value, vector, work);
        for (index_t i = 0; i < n; i++) at->w[rows[i] * r + j] = vector[i];
    }
    free(part);
    return found;
}

/* S w and the variance of each column, at least `least`. */
static void multiply_columns(Division *at, double least) {
    index_t d = at->search.d, r = at->search.r;
    image_of(&at->search, at->w, at->image);
    for (index_t j = 0; j < r; j++) {
        double sum = 0.0;
        for (index_t i = 0; i < d; i++) sum += at->w[i * r + j] * at->image[j * d + i];
        at->variance[j] = fmax(sum, least);
    }
}

static int settle_division(Division *at) {
    index_t d = at->search.d, r = at->search.r;
    multiply_columns(at, 0.0);
    for (index_t i = 0; i < d * r; i++) at->explained[i] = at->w[i] * at->w[i] * at->variance[i % r];
    divide(at);
    for (int turn = 0; turn < TURNS; turn++) {
        int found = leading_columns(at);
        if (found <= 0) return found;
        multiply_columns(at, 1e-300);
        for (index_t i = 0; i < d; i++)
            for (index_t j = 0; j < r; j++)
                at->explained[i * r + j] = at->image[j * d + i] * at->image[j * d + i] / at->variance[j];
        memcpy(at->before, at->owner, (size_t)d * sizeof *at->owner);
        divide(at);
        if (memcmp(at->before, at->owner, (size_t)d * sizeof *at->owner) == 0) break;
    }
    return 1;
}

/* `w` is read and replaced. Returns 0 where an eigenproblem failed. */
EXPORT int64_t fedspca_partition(const Lapack *lapack, int64_t d, int64_t r, const double *s, double *w) {
    char *room = malloc((size_t)(2 * d * r + r) * sizeof(double) + (size_t)(2 * d + r) * sizeof(index_t));
    if (!room) return -1;
    double *image = (double *)room;
    index_t *owner = (index_t *)(image + 2 * d * r + r);
    Division at = {{lapack, d, r, s, 0.0, 0.0, NULL}, w,     image,     image + d * r, image + 2 * d * r,
                   owner,                             owner + d, owner + 2 * d};
    int found = settle_division(&at);
    free(room);
    return found;
}
