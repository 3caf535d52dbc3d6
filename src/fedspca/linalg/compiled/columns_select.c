/* Twin of selection.py: the k largest of many scores, and the order of columns. Rules settle ties. */
#include <math.h>
#include <string.h>

#include "columns.h"

enum { SHORT = 24 }; /* so many are sorted, or kept sorted, by insertion */

static void insertion_sort(index_t n, index_t *order, before_t before, const void *context) {
    for (index_t i = 1; i < n; i++) {
        index_t moved = order[i], j = i;
        for (; j > 0 && before(context, moved, order[j - 1]); j--) order[j] = order[j - 1];
        order[j] = moved;
    }
}

/* Sort positions; those of which neither has to stand before the other keep their order. */
void stable_sort(index_t n, index_t *order, index_t *space, before_t before, const void *context) {
    for (index_t start = 0; start < n; start += SHORT)
        insertion_sort(n - start < SHORT ? n - start : SHORT, order + start, before, context);
    for (index_t width = SHORT; width < n; width *= 2) {
        for (index_t start = 0; start < n; start += 2 * width) {
            index_t a = start, middle = start + width < n ? start + width : n, b = middle;
            index_t end = start + 2 * width < n ? start + 2 * width : n;
            for (index_t i = start; i < end; i++) {
                int second = a >= middle || (b < end && before(context, order[b], order[a]));
                space[i] = second ? order[b++] : order[a++];
            }
        }
        memcpy(order, space, (size_t)n * sizeof *order);
    }
}

/* The k-th largest magnitude of d values, and the largest one, by insertion into a short list. */
static double kth_by_insertion(index_t d, const double *values, index_t k, double *top) {
    index_t filled = 0;
    for (index_t i = 0; i < d; i++) {
        double size = fabs(values[i]);
        if (filled == k && size <= top[k - 1]) continue;
        index_t j = filled < k ? filled++ : k - 1;
        for (; j > 0 && top[j - 1] < size; j--) top[j] = top[j - 1];
        top[j] = size;
    }
    return top[k - 1];
}

/* The same without branches, for a k that the compiler knows: each value sinks through the list. */
static inline double kth_by_sinking(index_t d, const double *values, int k, double *top) {
    double list[8];
    for (int j = 0; j < k; j++) list[j] = -1.0;
    for (index_t i = 0; i < d; i++) {
        double value = fabs(values[i]);
        for (int j = 0; j < k; j++) {
            double high = list[j] > value ? list[j] : value;
            value = list[j] > value ? value : list[j];
            list[j] = high;
        }
    }
    for (int j = 0; j < k; j++) top[j] = list[j];
    return list[k - 1];
}

/* The least of the largest magnitudes of k parts of the values: at most the k-th largest of all. */
static double no_more_than_kth(index_t d, const double *values, index_t k) {
    double least = INFINITY;
    index_t width = d / k;
    for (index_t part = 0; part < k; part++) {
        double most = 0.0;
        for (index_t i = part * width; i < (part + 1) * width; i++) {
            double size = fabs(values[i]);
            most = size > most ? size : most;
        }
        least = most < least ? most : least;
    }
    return least;
}

/* The same by Hoare's selection, for a larger k, among the values that may be it; `top` has d entries, and the largest
   is not its first. */
static double kth_by_selection(index_t d, const double *values, index_t k, double *top) {
    double least = no_more_than_kth(d, values, k);
    index_t n = 0;
    for (index_t i = 0; i < d; i++) {
        top[n] = fabs(values[i]);
        n += top[n] >= least;
    }
    if (n < k) /* only among NaN */
        for (n = 0; n < d; n++) top[n] = fabs(values[n]);
    index_t low = 0, high = n - 1, at = k - 1;
    while (low < high) {
        double pivot = top[(low + high) / 2];
        index_t i = low, j = high;
        while (i <= j) {
            while (top[i] > pivot) i++;
            while (top[j] < pivot) j--;
            if (i > j) break;
            double entry = top[i];
            top[i++] = top[j];
            top[j--] = entry;
        }
        if (at <= j) high = j;
        else if (at >= i) low = i;
        else break;
    }
    return top[at];
}

static double kth_largest(index_t d, const double *values, index_t k, double *top) {
    switch (k) {
    case 1: return kth_by_sinking(d, values, 1, top);
    case 2: return kth_by_sinking(d, values, 2, top);
    case 3: return kth_by_sinking(d, values, 3, top);
    case 4: return kth_by_sinking(d, values, 4, top);
    case 5: return kth_by_sinking(d, values, 5, top);
    case 6: return kth_by_sinking(d, values, 6, top);
    default: return k <= SHORT ? kth_by_insertion(d, values, k, top) : kth_by_selection(d, values, k, top);
    }
}

static double largest(index_t d, const double *values) {
    double most = 0.0;
    for (index_t i = 0; i < d; i++)
        if (fabs(values[i]) > most) most = fabs(values[i]);
    return most;
}

/* The k features with the largest magnitudes, ascending. Magnitudes equal up to TIE of the largest go by index. */
void heaviest(Search *search, const double *values, index_t k, index_t *support) {
    index_t d = search->d, n = 0;
    if (k >= d) {
        for (index_t i = 0; i < d; i++) support[i] = i;
        return;
    }
    double kth = kth_largest(d, values, k, search->top);
    double slack = TIE * (k <= SHORT ? search->top[0] : largest(d, values));
    for (index_t i = 0; i < d && n <= k; i++) {
        if (fabs(values[i]) < kth - slack) continue;
        if (n < k) support[n] = i;
        n++;
    }
    if (n == k) return;
    for (; n < k; n++) support[n] = n; /* only among NaN are there too few */
    index_t sure = 0;
    for (index_t i = 0; i < d; i++) sure += fabs(values[i]) > kth + slack;
    index_t wanted = k - sure;
    n = 0;
    for (index_t i = 0; i < d && n < k; i++) {
        double size = fabs(values[i]);
        if (size > kth + slack || (size >= kth - slack && wanted-- > 0)) support[n++] = i;
    }
}

/* The sum of the k largest magnitudes of a row. */
double row_bound(Search *search, const double *row, index_t k) {
    double sum = 0.0;
    index_t d = search->d;
    if (k >= d) {
        for (index_t i = 0; i < d; i++) sum += fabs(row[i]);
        return sum;
    }
    double *top = search->top, kth = kth_largest(d, row, k, top);
    if (k <= SHORT) {
        for (index_t i = 0; i < k; i++) sum += top[i];
        return sum;
    }
    index_t above = 0;
    for (index_t i = 0; i < d; i++)
        if (fabs(row[i]) > kth) {
            sum += fabs(row[i]);
            above++;
        }
    return sum + (double)(k - above) * kth;
}

/* The same for a row of S, computed once: searches beside different columns ask for it again. */
double own_row_bound(Search *search, index_t feature, index_t k) {
    if (search->bounded != k) {
        for (index_t i = 0; i < search->d; i++) search->own_bounds[i] = -1.0;
        search->bounded = k;
    }
    double *bound = search->own_bounds + feature;
    if (*bound < 0.0) *bound = row_bound(search, search->s + feature * search->d, k);
    return *bound;
}

int lower_support(index_t k, const index_t *a, const index_t *b) {
    for (index_t i = 0; i < k; i++)
        if (a[i] != b[i]) return a[i] < b[i];
    return 0;
}

void sort_features(index_t k, index_t *support) {
    for (index_t i = 1; i < k; i++) {
        index_t moved = support[i], j = i;
        for (; j > 0 && support[j - 1] > moved; j--) support[j] = support[j - 1];
        support[j] = moved;
    }
}

/* 64 bits for each feature, as if drawn at random (splitmix64). */
uint64_t bits_of(index_t feature) {
    uint64_t z = ((uint64_t)feature + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Positions of the first of each support; returns how many. */
index_t distinct(Search *search, index_t m, index_t k, const index_t *supports, index_t *kept) {
    uint64_t *table = search->table, mask = 8;
    while (mask < 2 * (uint64_t)m) mask *= 2;
    memset(table, 0, mask * sizeof *table);
    mask--;
    index_t n = 0;
    for (index_t i = 0; i < m; i++) {
        uint64_t key = 0;
        for (index_t j = 0; j < k; j++) key += bits_of(supports[i * k + j]);
        key |= 1; /* zero marks a free place */
        uint64_t at = (key >> 7) & mask;
        while (table[at] && table[at] != key) at = (at + 1) & mask;
        if (table[at]) continue;
        table[at] = key;
        kept[n++] = i;
    }
    return n;
}

typedef struct {
    index_t k;
    const double *values;
    const index_t *supports, *group;
} Ranking;

static int larger(const void *context, index_t a, index_t b) {
    const Ranking *ranking = context;
    return ranking->values[a] > ranking->values[b];
}

static int earlier(const void *context, index_t a, index_t b) {
    const Ranking *ranking = context;
    if (ranking->group[a] != ranking->group[b]) return ranking->group[a] < ranking->group[b];
    index_t k = ranking->k;
    return lower_support(k, ranking->supports + a * k, ranking->supports + b * k);
}

/* Positions by decreasing value, ties by their features, repetitions left out; returns how many. */
index_t ranked(Search *search, index_t m, index_t k, const double *values, const index_t *supports, index_t *order) {
    Ranking ranking = {k, values, supports, search->owners};
    for (index_t i = 0; i < m; i++) order[i] = i;
    stable_sort(m, order, search->space, larger, &ranking);
    index_t *group = search->owners, number = 0;
    for (index_t i = 0; i < m; i++) {
        double before = i ? values[order[i - 1]] : 0.0;
        if (i && values[order[i]] < before - TIE * fabs(before)) number++;
        group[order[i]] = number;
    }
    if (number + 1 >= m) return m;
    stable_sort(m, order, search->space, earlier, &ranking);
    index_t n = m ? 1 : 0;
    for (index_t i = 1; i < m; i++) /* repetitions have equal values: they are neighbours now */
        if (memcmp(supports + order[i] * k, supports + order[n - 1] * k, (size_t)k * sizeof *supports))
            order[n++] = order[i];
    return n;
}
