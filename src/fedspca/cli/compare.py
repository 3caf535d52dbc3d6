"""``fedspca compare``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedspca.cli.options import AsJson
from fedspca.cli.output import cells, console, print_json, print_table, table, visible
from fedspca.data.columns import listed

if TYPE_CHECKING:
    from fedspca.model.model import Array, SparsePCAModel

LEAST = 0.1  # least cosine of a pair: below it, one component explains less than 1 % of the other


def compare(
    first: Annotated[Path, typer.Argument(help="A model's folder.", metavar="MODEL_A")],
    second: Annotated[Path, typer.Argument(help="Another model's folder.", metavar="MODEL_B")],
    as_json: AsJson = False,
) -> None:
    """Compare the loadings of two models: which components match, and how well.

    For example:

      fedspca compare model_a model_b
    """
    from fedspca.model import SparsePCAModel

    result = compared(SparsePCAModel.load(first), SparsePCAModel.load(second))
    if as_json:
        print_json(result)
        return
    out = console()
    for side, path in (("only_in_a", first), ("only_in_b", second)):
        if result[side]:
            out.print(f"Features only in {visible(str(path))}: {listed(result[side])}.", soft_wrap=True)
    rows = table(
        *((h, "right") for h in ("A", "B", "cosine", "shared", "only A", "only B", "variance A", "variance B"))
    )
    for pair in result["pairs"]:
        counts = (pair["shared"], pair["only_a"], pair["only_b"])
        shares = (f"{pair['explained_a']:.1%}", f"{pair['explained_b']:.1%}")
        rows.add_row(*cells(pair["a"], pair["b"], f"{pair['cosine']:.4f}", *counts, *shares))
    if result["pairs"]:
        print_table(rows)
        out.print("A cosine of 1 means the same loading up to its sign; shared counts features with a weight in both.")
    for side, other in (("a", "b"), ("b", "a")):
        if alone := result[f"alone_in_{side}"]:
            named = f"Component{'s' if len(alone) > 1 else ''} {', '.join(map(str, alone))} of {side.upper()}"
            why = (
                f"every cosine left is below {LEAST}"
                if result[f"alone_in_{other}"]
                else f"{other.upper()} has no component left"
            )
            out.print(f"{named}: no match ({why}).", soft_wrap=True)
    for name, (a, b) in result["settings"].items():
        out.print(f"Setting {name}: {_set(a)} in A, {_set(b)} in B.", soft_wrap=True)


def _set(value: Any) -> str:
    """Return the value of a setting in words."""
    return "not set" if value is None else visible(str(value))


def compared(a: "SparsePCAModel", b: "SparsePCAModel") -> dict[str, Any]:
    """Match the components of two models by the size of their cosines, over the features that both have.

    Components that are left with a cosine below ``LEAST`` are no pair: each is named as being alone.
    """
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    at = {name: j for j, name in enumerate(b.feature_names)}
    shared = [name for name in a.feature_names if name in at]
    if not shared:
        raise ValueError("The two models have no feature in common.")
    mine = a.components[:, [j for j, name in enumerate(a.feature_names) if name in at]]
    theirs = b.components[:, [at[name] for name in shared]]
    norms = np.outer(np.linalg.norm(a.components, axis=1), np.linalg.norm(b.components, axis=1))
    cosines = np.abs(mine @ theirs.T) / np.where(norms > 0, norms, 1.0)
    matched = zip(*linear_sum_assignment(-cosines), strict=True)
    pairs = [(int(i), int(j)) for i, j in matched if cosines[i, j] >= LEAST]
    here, there = a.facts.get("study", {}), b.facts.get("study", {})
    return {
        "only_in_a": [name for name in a.feature_names if name not in at],
        "only_in_b": sorted(set(b.feature_names) - set(shared)),
        "pairs": [_pair(a, b, i, j, mine[i], theirs[j], float(cosines[i, j])) for i, j in pairs],
        "alone_in_a": sorted(set(range(1, a.n_components + 1)) - {i + 1 for i, _ in pairs}),
        "alone_in_b": sorted(set(range(1, b.n_components + 1)) - {j + 1 for _, j in pairs}),
        "settings": {
            name: [here.get(name), there.get(name)]
            for name in sorted({*here, *there})
            if here.get(name) != there.get(name)
        },
    }


def _pair(a: Any, b: Any, i: int, j: int, mine: "Array", theirs: "Array", cosine: float) -> dict[str, Any]:
    return {
        "a": i + 1,
        "b": j + 1,
        "cosine": cosine,
        "shared": int(((mine != 0) & (theirs != 0)).sum()),
        "only_a": int(((mine != 0) & (theirs == 0)).sum()),
        "only_b": int(((mine == 0) & (theirs != 0)).sum()),
        "explained_a": float(a.captured_shares[i]),
        "explained_b": float(b.captured_shares[j]),
    }
