"""The page on the methods of the literature: one table, with equal numbers of non-zeros."""

from collections.abc import Callable, Sequence

from fedspca.experiments.literature import FEW_FITS, FITS, HUGE, LARGE, NETS, REPEATS, SITES, STEPS
from fedspca.experiments.records import select, table, values_of
from fedspca.experiments.runner import Record

OURS = ("ExactSPCA", "ExactSPCA, products")


def literature(records: Sequence[Record]) -> str:
    """All methods on all data sets."""
    fits = select(records, what="fit")
    sent = [record for record in records if record["what"] != "left out"]
    names = values_of(records, "data")
    return f"""
## The methods that the paper names

[literature.md](literature.md) says what each method is. Every row is one method over {SITES} sites, the columns are
data sets. Loadings are cut to the same number of weights each: 15 for WDBC*, 10 for synthetic data, digits and
expression, 4 for diabetes, 12 for spikes. The spikes are three, near the limit of detection: weak, overlapping or in
correlated noise (150 rows, 400 features), or wide (60 rows, 3000 features); they are the first draw of workload W6 of the
benchmarks. Expression is log counts of 765 genes in 700 blood cells, from a file inside scanpy (`pip install --no-deps
scanpy`); without it that column is left out.

Methods that take a penalty are fitted at {FITS} (above {LARGE} features at {FEW_FITS}), sought by bisection, and the fit with the
fewest weights that are enough is cut. Fantope and DSPCA decompose a matrix as large as S in every step, and the elastic net
solves two nets: above {LARGE} features they take {STEPS} and {NETS} steps at most. Methods whose coordinator works on S itself are left
out above {HUGE} features (–), and private ones above {LARGE}: so few rows drown in their noise. Times, and what private methods
reach, differ from run to run; they are in [reproduction/literature-times.md](reproduction/literature-times.md). Online
oversampling PCA scores rows and has PAST's loadings; [anomalies.md](anomalies.md) has its figures.

### Explained variance of the span, in per cent

{_grid(fits, names, lambda record: f"{100 * record['explained']:.2f}")}

### Recovery error, where the truth is known

{_grid([r for r in fits if r["recovery"] is not None], names, lambda record: f"{record['recovery']:.3f}")}

### Rounds, and what each site sends in kB

{_grid(sent, names, lambda record: f"{record['rounds']}, {record['bytes_up'] / 1e3:.0f}")}

### What a site reveals, beyond sums for means and spreads

{_reveals(sent)}

### Where ours does not win

{_losses(fits, names)}
"""


def literature_times(times: Sequence[Record]) -> str:
    """Write the page of the methods' times, which differ from run to run."""
    private = select(times, what="private")
    known = [record for record in private if record["varying"][0]["recovery"] is not None]
    names = values_of(times, "data")
    return f"""# The methods that the paper names: times and private methods

What differs from run to run. See [the page](../reproduction.md#the-methods-that-the-paper-names) for the rest.

## Seconds

Processor time of a fit, {SITES} sites and the coordinator in one process on one core. For a method with a penalty it is
the one fit that is shown, of up to {FITS}. Compare within a column: another machine takes other times.

{_grid(times, names, lambda record: f"{record['seconds']:.2g}")}

## Private methods: explained variance of the span, in per cent

The least and the most of {REPEATS} fits with other noise, δ = 10⁻⁶ for each row. Rows are shortened to √d in units that were
chosen without them. A few hundred rows are too few for a smaller ε.

{_grid(private, names, lambda record: _range([100 * fit["explained"] for fit in record["varying"]]))}

## Private methods: recovery error, where the truth is known

{_grid(known, names, lambda record: _range([fit["recovery"] for fit in record["varying"]]))}
"""


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _grid(fits: Sequence[Record], names: Sequence[str], shown: Callable[[Record], str]) -> str:
    names = [name for name in names if select(fits, data=name)]
    rows = []
    for method in values_of(fits, "method"):
        cells = [select(fits, method=method, data=name) for name in names]
        rows.append([method, *(shown(cell[0]) if cell else "–" for cell in cells)])
    return table(["method", *names], rows)


def _reveals(fits: Sequence[Record]) -> str:
    seen: dict[str, list[str]] = {}
    for method in values_of(fits, "method"):
        seen.setdefault(select(fits, method=method)[0]["reveals"], []).append(method)
    return table(["a site reveals", "methods"], [[words, "; ".join(methods)] for words, methods in seen.items()])


def _losses(fits: Sequence[Record], names: Sequence[str]) -> str:
    """Say, for each data set, which methods explain more than ExactSPCA or recover the truth better."""
    lines = []
    for name in names:
        here = select(fits, data=name)
        ours = select(here, method="ExactSPCA")
        if not ours:
            continue
        more = [r for r in here if r["explained"] > ours[0]["explained"] * (1 + 1e-6) and r["method"] not in OURS]
        best = sorted(more, key=lambda record: -record["explained"])[:3]
        if best:
            said = ", ".join(f"{r['method']} ({100 * r['explained']:.2f})" for r in best)
            lines.append(f"- {name}: more variance than ExactSPCA's {100 * ours[0]['explained']:.2f} % by {said}.")
        nearer = [
            r
            for r in here
            if r["recovery"] is not None and r["recovery"] < ours[0]["recovery"] - 1e-6 and r["method"] not in OURS
        ]
        if nearer:
            said = ", ".join(
                f"{r['method']} ({r['recovery']:.3f})" for r in sorted(nearer, key=lambda r: r["recovery"])[:3]
            )
            lines.append(f"- {name}: nearer to the truth than ExactSPCA's {ours[0]['recovery']:.3f} by {said}.")
    lines.append(_cheaper(fits, names))
    lines.append(_unsettled(fits))
    lines.append(
        "- The loadings of ExactSPCA are orthogonal, those of methods that deflate or thin out a block are not: the "
        "span of overlapping loadings may hold more variance at as many weights."
    )
    return "\n".join(lines)


def _unsettled(fits: Sequence[Record]) -> str:
    """Say which methods stopped before they converged, and on how many data sets."""
    methods = values_of(fits, "method")
    counts = {m: sum(not record["converged"] for record in select(fits, method=m)) for m in methods}
    said = ", ".join(f"{method} ({count})" for method, count in counts.items() if count)
    return f"- The fit shown had not converged for these, on so many data sets: {said or 'none'}."


def _cheaper(fits: Sequence[Record], names: Sequence[str]) -> str:
    """Say which methods send less than either form of ExactSPCA, and on how many data sets."""
    counts: dict[str, int] = {}
    for name in names:
        here = select(fits, data=name)
        least = min((r["bytes_up"] for r in here if r["method"] in OURS), default=0)
        for record in here:
            if record["method"] not in OURS and record["bytes_up"] < least:
                counts[record["method"]] = counts.get(record["method"], 0) + 1
    said = ", ".join(f"{method} ({count})" for method, count in sorted(counts.items(), key=lambda item: -item[1]))
    return (
        f"- Bytes: less is sent than by ExactSPCA in its cheaper form by these, on so many data sets: {said or 'none'}."
    )
