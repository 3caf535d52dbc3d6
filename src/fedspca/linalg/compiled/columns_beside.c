/* Twin of beside.py: one column beside the span of the others. Eigenpairs are found by powers, and where these
   converge slowly by a decomposition; a support that cannot reach a given gain is noticed after a few products. */
#include <math.h>
#include <string.h>

#include "columns.h"

#define ORTHONORMAL 1e-12 /* these are the constants of beside.py and of points.py */
#define DEPENDENT 1e-12
#define NONE 1e-12
#define WITHIN 1e-9
#define CONVERGED 1e-7
#define HELD 1e-8
#define POWERS 8 /* squarings, at most: the 256th power, as in small.py */
#if defined(__GNUC__)
#define ALWAYS inline __attribute__((always_inline)) /* into the functions of known size at the end */
#else
#define ALWAYS inline
#endif
enum { ROWS = 64 }; /* that are added at a time */
#define SCALED 3 /* after this many more than one, the power is scaled */

/* The orthonormal basis of q unit columns, as rows of `basis`: Gram and Schmidt, twice; returns its rank. */
static index_t orthonormalised(Search *search, index_t q, const double *const *columns, double *basis) {
    index_t d = search->d, rank = 0;
    for (index_t j = 0; j < q; j++) {
        double *b = basis + rank * d, size = 1.0;
        memcpy(b, columns[j], (size_t)d * sizeof *b);
        for (int pass = 0; pass < 2; pass++) {
            double most = 0.0;
            for (index_t i = 0; i < rank; i++) {
                double along = dot(d, basis + i * d, b);
                if (fabs(along) > most) most = fabs(along);
                if (along != 0.0) add_scaled(d, -along, basis + i * d, b);
            }
            size = dot(d, b, b);
            if (most < ORTHONORMAL) break;
        }
        if (!(size > DEPENDENT)) continue;
        if (fabs(size - 1.0) > ORTHONORMAL)
            for (index_t f = 0; f < d; f++) b[f] /= sqrt(size);
        rank++;
    }
    return rank;
}

/* The features that each of q columns uses, and its weights there. */
static void note_entries(Search *search, index_t q, const double *const *columns) {
    Beside *beside = &search->beside;
    index_t d = search->d, n = 0;
    memset(beside->uses, 0, (size_t)d);
    for (index_t p = 0; p < q; p++) {
        const double *b = columns[p];
        beside->begin[p] = n;
        for (index_t i = 0; i < d; i++) {
            if (b[i] == 0.0) continue;
            beside->entries[n] = i;
            beside->weights[n++] = b[i];
            beside->uses[i] = 1;
        }
    }
    beside->begin[q] = n;
}

/* Whether columns whose entries are noted are a basis as they are. */
static int orthonormal(const Beside *beside, index_t q, const double *const *columns) {
    for (index_t p = 0; p < q; p++)
        for (index_t o = 0; o <= p; o++) {
            double inner = o == p ? -1.0 : 0.0;
            for (index_t e = beside->begin[p]; e < beside->begin[p + 1]; e++)
                inner += beside->weights[e] * columns[o][beside->entries[e]];
            if (!(fabs(inner) < ORTHONORMAL)) return 0;
        }
    return 1;
}

/* An orthonormal basis of the span of q columns, and its entries. */
static void take_basis(Search *search, index_t q, const double *const *columns) {
    Beside *beside = &search->beside;
    index_t d = search->d;
    const double *rows[MOST_COLUMNS];
    note_entries(search, q, columns);
    beside->q = q;
    if (orthonormal(beside, q, columns)) {
        for (index_t p = 0; p < q; p++) memcpy(beside->basis + p * d, columns[p], (size_t)d * sizeof(double));
        return;
    }
    beside->q = orthonormalised(search, q, columns, beside->basis);
    for (index_t p = 0; p < beside->q; p++) rows[p] = beside->basis + p * d;
    note_entries(search, beside->q, rows);
}

/* S B, the variance that B captures, the R with P S P = S - R B' - B R', and the diagonal of P S P. */
static void deflate(Search *search) {
    Beside *beside = &search->beside;
    const index_t *entries = beside->entries, *begin = beside->begin;
    const double *weights = beside->weights;
    index_t d = search->d, q = beside->q;
    memset(beside->image, 0, (size_t)(q * d) * sizeof(double));
    for (index_t p = 0; p < q; p++)
        for (index_t e = begin[p]; e < begin[p + 1]; e++)
            add_scaled(d, weights[e], search->s + entries[e] * d, beside->image + p * d);
    memcpy(beside->rest, beside->image, (size_t)(q * d) * sizeof(double));
    beside->captured = 0.0;
    for (index_t p = 0; p < q; p++) {
        double *rest = beside->rest + p * d, *image = beside->image + p * d;
        for (index_t o = 0; o < q; o++) {
            double inner = 0.0; /* of B' S B */
            for (index_t e = begin[o]; e < begin[o + 1]; e++) inner += weights[e] * image[entries[e]];
            if (o == p) beside->captured += inner;
            for (index_t e = begin[o]; e < begin[o + 1]; e++) rest[entries[e]] -= 0.5 * inner * weights[e];
        }
    }
    for (index_t i = 0; i < d; i++) beside->diagonal[i] = search->s[i * d + i];
    for (index_t p = 0; p < q; p++)
        for (index_t e = begin[p]; e < begin[p + 1]; e++)
            beside->diagonal[entries[e]] -= 2.0 * beside->rest[p * d + entries[e]] * weights[e];
}

/* From now on columns are searched beside the span of these. */
void stand_beside(Search *search, index_t q, const double *const *columns, int orthogonal) {
    Beside *beside = &search->beside;
    beside->orthogonal = orthogonal;
    take_basis(search, q, columns);
    deflate(search);
    if (beside->q) memset(beside->formed, 0, (size_t)search->d);
}

/* The same beside all columns of a point but one. */
void beside_others(Search *search, const double *w, index_t r, index_t j, int orthogonal) {
    const double *columns[MOST_COLUMNS];
    index_t q = 0;
    for (index_t i = 0; i < r; i++)
        if (i != j) columns[q++] = w + i * search->d;
    stand_beside(search, q, columns, orthogonal);
}

/* Row i of P S P. */
const double *row_beside(Search *search, index_t i) {
    Beside *beside = &search->beside;
    index_t d = search->d, q = beside->q;
    if (!q) return search->s + i * d;
    double *row = beside->rows + i * d;
    if (beside->formed[i]) return row;
    beside->formed[i] = 1;
    memcpy(row, search->s + i * d, (size_t)d * sizeof *row);
    for (index_t p = 0; p < q; p++) {
        double factor = beside->rest[p * d + i];
        for (index_t e = beside->begin[p]; e < beside->begin[p + 1]; e++)
            row[beside->entries[e]] -= factor * beside->weights[e];
    }
    if (beside->uses[i])
        for (index_t p = 0; p < q; p++) {
            double weight = beside->basis[p * d + i];
            if (weight != 0.0) add_scaled(d, -weight, beside->rest + p * d, row);
        }
    return row;
}

/* y + a sum of rows with weights x, in y: four rows at a time, each entry's sum in the order of the rows. */
WIDE_TOO static void add_rows(index_t d, index_t n, const double *const *rows, const double *x, double *restrict y) {
    index_t i = 0;
    for (; i + 3 < n; i += 4) {
        const double *a = rows[i], *b = rows[i + 1], *c = rows[i + 2], *e = rows[i + 3];
        double xa = x[i], xb = x[i + 1], xc = x[i + 2], xe = x[i + 3];
        for (index_t f = 0; f < d; f++) y[f] = (((y[f] + xa * a[f]) + xb * b[f]) + xc * c[f]) + xe * e[f];
    }
    for (; i < n; i++) add_scaled(d, x[i], rows[i], y);
}

/* P S P x for a sparse x. */
void image_beside(Search *search, index_t k, const index_t *support, const double *x, double *image) {
    const double *rows[ROWS];
    memset(image, 0, (size_t)search->d * sizeof *image);
    for (index_t start = 0; start < k; start += ROWS) {
        index_t n = k - start < ROWS ? k - start : ROWS;
        for (index_t i = 0; i < n; i++) rows[i] = row_beside(search, support[start + i]);
        add_rows(search->d, n, rows, x + start, image);
    }
}

/* A power step on the gain of a column: a long step along the gradient. */
void power_step(Search *search, index_t k, const index_t *support, const double *x, double gain, double *scores) {
    Beside *beside = &search->beside;
    index_t d = search->d;
    image_beside(search, k, support, x, scores);
    if (!beside->q || beside->orthogonal) return;
    double left = 1.0, along[MOST_COLUMNS];
    for (index_t p = 0; p < beside->q; p++) {
        along[p] = 0.0;
        for (index_t i = 0; i < k; i++) along[p] += x[i] * beside->basis[p * d + support[i]];
        left -= along[p] * along[p];
    }
    left = 1.0 / (left > HELD ? left : HELD);
    for (index_t f = 0; f < d; f++) scores[f] *= left;
    if (!(gain > 0.0)) return;
    for (index_t p = 0; p < beside->q; p++)
        for (index_t e = beside->begin[p]; e < beside->begin[p + 1]; e++)
            scores[beside->entries[e]] += gain * along[p] * beside->weights[e];
}

/* A symmetric matrix times a vector: sums over rows do not wait for each other. */
static ALWAYS void times(index_t k, const double *a, const double *x, double *y) {
    memset(y, 0, (size_t)k * sizeof *y);
    for (index_t j = 0; j < k; j++) add_scaled(k, x[j], a + j * k, y);
}

/* The square of a symmetric matrix, and its sum of squares. */
static ALWAYS double squared(index_t k, const double *restrict a, double *restrict square) {
    double diagonal = 0.0, above = 0.0;
    for (index_t i = 0; i < k; i++)
        for (index_t j = 0; j <= i; j++) {
            double sum = 0.0;
            for (index_t c = 0; c < k; c++) sum += a[i * k + c] * a[j * k + c];
            square[i * k + j] = square[j * k + i] = sum;
            if (i == j) diagonal += sum * sum;
            else above += sum * sum;
        }
    return diagonal + 2.0 * above;
}

enum { TILE = 4 };

/* Rows i to i + 3 and columns j to j + 3 of the square of a symmetric matrix, whose sums are computed together. */
static inline void squared_tile(index_t k, const double *restrict a, index_t i, index_t j, double *restrict square) {
    double sums[TILE][TILE] = {{0.0}};
    for (index_t c = 0; c < k; c++) {
        const double *left = a + c * k + i, *right = a + c * k + j;
        for (int p = 0; p < TILE; p++)
            for (int q = 0; q < TILE; q++) sums[p][q] += left[p] * right[q];
    }
    for (int p = 0; p < TILE; p++)
        for (int q = 0; q < TILE; q++) square[(i + p) * k + j + q] = square[(j + q) * k + i + p] = sums[p][q];
}

/* The square of a symmetric matrix of at least TILE rows, and its sum of squares: the last tiles overlap others. */
WIDE_TOO static double squared_in_tiles(index_t k, const double *restrict a, double *restrict square) {
    for (index_t i = 0; i < k; i += TILE)
        for (index_t j = 0; j <= i; j += TILE)
            squared_tile(k, a, i < k - TILE ? i : k - TILE, j < k - TILE ? j : k - TILE, square);
    return dot(k * k, square, square);
}

/* The same, compiled for the sizes that are common. */
static double squared_of_size(index_t k, const double *a, double *square) {
    switch (k) {
    case 1: return squared(1, a, square);
    case 2: return squared(2, a, square);
    case 3: return squared(3, a, square);
    case 4: return squared(4, a, square);
    case 5: return squared(5, a, square);
    case 6: return squared(6, a, square);
    default: return squared_in_tiles(k, a, square);
    }
}

static index_t heaviest_diagonal(index_t k, const double *a) {
    index_t at = 0;
    for (index_t i = 1; i < k; i++)
        if (a[i * k + i] > a[at * k + at]) at = i;
    return at;
}

static ALWAYS int scaled_to_unit(index_t k, double *x) {
    double size = sqrt(dot(k, x, x));
    if (!(size > 1e-150)) return 0;
    double scale = 1.0 / size;
    for (index_t i = 0; i < k; i++) x[i] *= scale;
    return 1;
}

enum { FOUND, BELOW, SLOW };

/* The leading eigenpair of a positive semidefinite matrix by its powers: FOUND, BELOW if its eigenvalue is less than
   `floor`, or SLOW. The norm of a power bounds the eigenvalue from above. */
static ALWAYS int by_powers(Search *search, index_t k, const double *a, double floor, double *value, double *x) {
    double size = sqrt(dot(k * k, a, a)), *power = search->power, *other = search->other, *y = search->unit;
    if (!(size > 1e-150)) return SLOW;
    if (size < floor) return BELOW;
    double scale = 1.0 / size;
    for (index_t i = 0; i < k * k; i++) power[i] = a[i] * scale;
    double bar = floor > 0.0 ? floor / size * (floor / size) * (1.0 - 1e-12) : 0.0;
    for (int level = 0; level < POWERS; level++) {
        double sum = squared_of_size(k, power, other);
        bar *= bar;
        if (level <= SCALED && sum < bar) return BELOW;
        if (level == SCALED) { /* nothing that counts may underflow */
            scale = 1.0 / sqrt(sum);
            for (index_t i = 0; i < k * k; i++) other[i] *= scale;
        }
        double *exchanged = power;
        power = other;
        other = exchanged;
        if (level < 2) continue;
        if (level == 2) {
            index_t start = heaviest_diagonal(k, power);
            memcpy(x, power + start * k, (size_t)k * sizeof *x);
        } else {
            times(k, power, x, y);
            memcpy(x, y, (size_t)k * sizeof *x);
        }
        if (!scaled_to_unit(k, x)) return SLOW;
        times(k, a, x, y);
        *value = dot(k, x, y);
        double error = 0.0, most = CONVERGED * *value;
        for (index_t i = 0; i < k; i++) error += (y[i] - *value * x[i]) * (y[i] - *value * x[i]);
        if (error <= most * most) return FOUND;
    }
    return SLOW;
}

/* The largest eigenvalue of a symmetric matrix, and its eigenvector, by a decomposition. */
static double decomposed(Search *search, index_t k, const double *a, double *x) {
    double *vectors = search->power;
    memcpy(vectors, a, (size_t)(k * k) * sizeof *a);
    symmetric_eigenpairs(k, vectors, search->values, search->work);
    for (index_t i = 0; i < k; i++) x[i] = vectors[i * k + k - 1];
    return search->values[k - 1];
}

/* Argmax of x' C x over unit x. */
static ALWAYS double refit_apart(Search *search, index_t k, double floor, double *x) {
    double value = 0.0;
    int how = by_powers(search, k, search->block, floor, &value, x);
    if (how == BELOW) return -INFINITY;
    return how == FOUND && value > WITHIN * search->size ? value : decomposed(search, k, search->block, x);
}

/* An orthonormal basis of the column space of u (k x q), as rows: Gram and Schmidt, the longest column first. */
static ALWAYS index_t spanned(Search *search, index_t k, index_t q, const double *u) {
    double *left = search->metric, *span = search->span; /* left: q x k */
    index_t rank = 0, most = k < q ? k : q;
    for (index_t p = 0; p < q; p++) {
        double *column = left + p * k, size = 0.0;
        for (index_t i = 0; i < k; i++) size += u[i * q + p] * u[i * q + p];
        size = sqrt(size);
        for (index_t i = 0; i < k; i++) column[i] = size > NONE ? u[i * q + p] / size : 0.0;
    }
    for (; rank < most; rank++) {
        double *unit = span + rank * k, longest = WITHIN * WITHIN;
        index_t at = -1;
        for (index_t p = 0; p < q; p++) {
            double size = dot(k, left + p * k, left + p * k);
            if (size > longest) {
                longest = size;
                at = p;
            }
        }
        if (at < 0) break;
        memcpy(unit, left + at * k, (size_t)k * sizeof *unit);
        for (index_t o = 0; o < rank; o++) {
            double along = dot(k, span + o * k, unit);
            for (index_t i = 0; i < k; i++) unit[i] -= along * span[o * k + i];
        }
        double size = sqrt(dot(k, unit, unit));
        if (!(size > WITHIN)) {
            memset(left + at * k, 0, (size_t)k * sizeof *left);
            rank--;
            continue;
        }
        for (index_t i = 0; i < k; i++) unit[i] /= size;
        for (index_t p = 0; p < q; p++) {
            double along = dot(k, unit, left + p * k);
            for (index_t i = 0; i < k; i++) left[p * k + i] -= along * unit[i];
        }
    }
    return rank;
}

/* T a T in place, for the projection T off the span. */
static ALWAYS void project(Search *search, index_t k, index_t rank, double *a) {
    double *along = search->unit;
    for (index_t o = 0; o < rank; o++) {
        const double *unit = search->span + o * k;
        times(k, a, unit, along); /* a is symmetric */
        double inner = dot(k, unit, along);
        for (index_t i = 0; i < k; i++) along[i] -= 0.5 * inner * unit[i];
        for (index_t i = 0; i < k; i++)
            for (index_t j = 0; j < k; j++) a[i * k + j] -= unit[i] * along[j] + along[i] * unit[j];
    }
}

/* Argmax of x' C x over unit x with u' x = 0. */
static ALWAYS double refit_orthogonal(Search *search, index_t k, double floor, double *x) {
    index_t rank = spanned(search, k, search->beside.q, search->inside);
    double value = 0.0, *core = search->block, size = search->size;
    project(search, k, rank, core);
    int how = by_powers(search, k, core, floor, &value, x);
    if (how == BELOW) return -INFINITY;
    if (how == FOUND && value > WITHIN * size) return value;
    /* the projection turns u into zero eigenvalues; the shift lifts the x orthogonal to u above these */
    for (index_t i = 0; i < k; i++)
        for (index_t j = 0; j < k; j++) {
            double inside = 0.0;
            for (index_t o = 0; o < rank; o++) inside += search->span[o * k + i] * search->span[o * k + j];
            core[i * k + j] += size * ((i == j) - inside);
        }
    value = decomposed(search, k, core, x);
    return value > 0.5 * size ? value - size : -INFINITY;
}

/* Argmax of x' C x / x' M x for M = I - u u' that is singular: on the directions where it is not. */
static double whitened(Search *search, index_t k, double *x) {
    double *white = search->other, *core = search->span, *values = search->values;
    index_t q = search->beside.q;
    for (index_t i = 0; i < k; i++)
        for (index_t j = 0; j < k; j++)
            white[i * k + j] = (i == j) - dot(q, search->inside + i * q, search->inside + j * q);
    symmetric_eigenpairs(k, white, values, search->work);
    index_t n = 0;
    for (index_t j = 0; j < k; j++) {
        if (!(values[j] > HELD)) continue;
        double scale = 1.0 / sqrt(values[j]);
        for (index_t i = 0; i < k; i++) white[i * k + n] = white[i * k + j] * scale;
        n++;
    }
    if (!n) return -INFINITY;
    double *half = search->power;
    for (index_t i = 0; i < k; i++)
        for (index_t j = 0; j < n; j++) {
            half[i * n + j] = 0.0;
            for (index_t c = 0; c < k; c++) half[i * n + j] += search->block[i * k + c] * white[c * k + j];
        }
    for (index_t i = 0; i < n; i++)
        for (index_t j = 0; j < n; j++) {
            core[i * n + j] = 0.0;
            for (index_t c = 0; c < k; c++) core[i * n + j] += white[c * k + i] * half[c * n + j];
        }
    double value = decomposed(search, n, core, search->unit);
    for (index_t i = 0; i < k; i++) {
        x[i] = 0.0;
        for (index_t j = 0; j < n; j++) x[i] += white[i * k + j] * search->unit[j];
    }
    scaled_to_unit(k, x);
    return value;
}

/* W a W in place for W = I + factor b b' and a symmetric a. */
static ALWAYS void scale_along(Search *search, index_t k, double factor, const double *b, double *a) {
    double *along = search->unit;
    times(k, a, b, along);
    double half = 0.5 * factor * factor * dot(k, b, along);
    for (index_t i = 0; i < k; i++) along[i] = factor * along[i] + half * b[i];
    for (index_t i = 0; i < k; i++) {
        if (b[i] != 0.0) add_scaled(k, b[i], along, a + i * k);
        add_scaled(k, along[i], b, a + i * k);
    }
}

/* Argmax of x' C x / x' M x for M = I - u u'. One column b of u after the other, I - b b' is whitened by
   W = I + b b' / (s (1 + s)) with s² = 1 - b' b: then W M W = I - (the other columns) (the other columns)'. If a whole
   column of the basis lies on the support, W is the projection off it. */
static ALWAYS double refit_free(Search *search, index_t k, double floor, double *x) {
    index_t q = search->beside.q;
    double *core = search->metric, *y = search->inner, value = 0.0, factors[MOST_COLUMNS], sizes[MOST_COLUMNS];
    double *columns = search->span; /* q x k */
    int held = 0;
    for (index_t p = 0; p < q; p++) {
        for (index_t i = 0; i < k; i++) columns[p * k + i] = search->inside[i * q + p];
        sizes[p] = dot(k, columns + p * k, columns + p * k);
    }
    memcpy(core, search->block, (size_t)(k * k) * sizeof *core);
    for (index_t p = 0; p < q; p++) {
        const double *b = columns + p * k;
        double size = dot(k, b, b), s = sqrt(1.0 - size > HELD ? 1.0 - size : 0.0);
        factors[p] = s > 0.0 ? 1.0 / (s * (1.0 + s)) : -1.0 / size;
        held |= s == 0.0;
        if (s == 0.0 && !(sizes[p] > 1.0 - HELD)) return whitened(search, k, x); /* a combination of columns is held */
        if (size == 0.0) continue;
        for (index_t o = p + 1; o < q; o++)
            add_scaled(k, factors[p] * dot(k, b, columns + o * k), b, columns + o * k);
        scale_along(search, k, factors[p], b, core);
    }
    int how = by_powers(search, k, core, floor, &value, y);
    if (how == BELOW) return -INFINITY;
    if (how != FOUND || !(value > WITHIN * search->size)) {
        if (held) return whitened(search, k, x);
        value = decomposed(search, k, core, y);
    }
    memcpy(x, y, (size_t)k * sizeof *x);
    for (index_t p = q - 1; p >= 0; p--) add_scaled(k, factors[p] * dot(k, columns + p * k, x), columns + p * k, x);
    scaled_to_unit(k, x);
    return value;
}

/* P S P on a support, into `block`, and the rows of the basis, into `inside`; returns whether these are not zero. */
static ALWAYS int gather(Search *search, index_t k, const index_t *support) {
    Beside *beside = &search->beside;
    index_t d = search->d, q = beside->q;
    int touched = 0;
    for (index_t i = 0; i < k; i++) {
        const double *row = row_beside(search, support[i]);
        for (index_t j = 0; j < k; j++) search->block[i * k + j] = row[support[j]];
        touched |= q && beside->uses[support[i]];
    }
    if (touched)
        for (index_t i = 0; i < k; i++)
            for (index_t p = 0; p < q; p++) search->inside[i * q + p] = beside->basis[p * d + support[i]];
    return touched;
}

static ALWAYS double refit_of_size(Search *search, index_t k, const index_t *support, double floor, double *x) {
    if (!gather(search, k, support)) return refit_apart(search, k, floor, x);
    return search->beside.orthogonal ? refit_orthogonal(search, k, floor, x) : refit_free(search, k, floor, x);
}

/* Argmax of the gain on a support: its weights x, and the gain. It is minus infinity if the span contains every vector
   on the support, or if the gain is less than `floor`. A compiler unrolls loops whose lengths it knows. */
double refit(Search *search, index_t k, const index_t *support, double floor, double *x) {
    switch (k) {
    case 3: return refit_of_size(search, 3, support, floor, x);
    case 5: return refit_of_size(search, 5, support, floor, x);
    default: return refit_of_size(search, k, support, floor, x);
    }
}
