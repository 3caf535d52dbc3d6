"""Charts of how certain a model is: dense components against shuffled data, and prediction of held-out rows."""

from collections.abc import Mapping
from typing import Any

from fedspca.plots.theme import HEIGHT, PAPER, WIDTH, Palette, Rows, altair, data, dressed
from fedspca.reading import Readable


def plot_chance(model: Readable, *, palette: Palette = PAPER) -> Any:
    """Draw the variance of dense components and that of columns shuffled within each site; mark the chosen number.

    Parameters
    ----------
    model : SparsePCAModel
        A model fitted with ``n_components="auto"`` or ``n_nonzero="auto"``.
    palette : Palette
        The colours.
    """
    told = model.facts.get("selection")
    if not told:
        raise ValueError("Nothing was chosen for this model. Fit it with --components auto.")
    return dressed(_chance(told, palette), palette)


def plot_selection(told: Mapping[str, Any], *, palette: Palette = PAPER) -> Any:
    """Draw the dense components beside chance, and how well each number of non-zeros predicts held-out rows.

    Parameters
    ----------
    told : mapping
        What :meth:`~fedspca.estimators.selection.Selection.to_plain` returns.
    palette : Palette
        The colours.
    """
    chance, sparse = _chance(told, palette), told["by_nonzeros"]
    if sparse is None:
        return dressed(chance, palette)
    scores = dict(zip(sparse["grid"], sparse["score"], strict=True))
    return dressed(altair().hconcat(chance, _scores(scores, told["n_nonzero"], palette)), palette)


def _chance(told: Mapping[str, Any], palette: Palette) -> Any:
    alt = altair()
    rows: Rows = [
        {"component": at, "variance": value, "mean": mean, "high": high, "chosen": at == told["n_components"],
         "told": f"component {at}: {value:.3g}, by chance at most {high:.3g}"}
        for at, (value, mean, high) in enumerate(
            zip(told["eigenvalues"], told["null_mean"], told["null_high"], strict=True), 1
        )
    ]  # fmt: skip
    x = alt.X("component:Q", title="component", axis=alt.Axis(format="d", tickMinStep=1, grid=False))
    base = alt.Chart(data(rows)).encode(x=x)
    y = alt.Y("variance:Q", title="variance")
    drawn = alt.layer(
        base.mark_area(color=palette.soft, opacity=0.4, aria=False).encode(y=alt.Y("mean:Q"), y2="high:Q"),
        base.mark_line(color=palette.plus, strokeWidth=2, aria=False).encode(y=y),
        base.mark_circle(color=palette.plus, size=44, opacity=1).encode(y=y, description="told:N", tooltip="told:N"),
        base.transform_filter("datum.chosen")
        .mark_point(color=palette.mark, size=170, strokeWidth=2.5, aria=False)
        .encode(y=y),
    )
    return drawn.properties(width=WIDTH, height=HEIGHT)


def plot_scores(model: Readable, *, palette: Palette = PAPER) -> Any:
    """Draw how well held-out rows are predicted, for each number of features; mark the number nearest to this model's.

    Parameters
    ----------
    model : SparsePCAModel
        A model fitted with cross-validation folds.
    palette : Palette
        The colours.
    """
    told = model.facts.get("certainty")
    if not told:
        raise ValueError("This model was fitted without folds. Fit it with --folds 10.")
    used = sum(model.nonzeros) / len(model.nonzeros)
    nearest = min(told["cv_nonzeros"], key=lambda k: abs(k - used))
    return dressed(
        _scores(dict(zip(told["cv_nonzeros"], told["cv_score"][-1], strict=True)), nearest, palette), palette
    )


def _scores(scores: Mapping[int, float], marked: int | None, palette: Palette) -> Any:
    alt = altair()
    rows: Rows = [
        {"features": k, "score": score, "here": k == marked, "told": f"{k} features each: {score:.3f}"}
        for k, score in scores.items()
    ]
    scale = alt.Scale(type="log", nice=False)
    axis = alt.Axis(values=list(scores), format="d", grid=False)
    base = alt.Chart(data(rows)).encode(
        x=alt.X("features:Q", title="features of each component", scale=scale, axis=axis),
        y=alt.Y("score:Q", title="cross-validated Q²"),
    )
    drawn = alt.layer(
        base.mark_line(color=palette.plus, strokeWidth=2, aria=False),
        base.mark_circle(color=palette.plus, size=40, opacity=1).encode(description="told:N", tooltip="told:N"),
        base.transform_filter("datum.here").mark_point(color=palette.mark, size=170, strokeWidth=2.5, aria=False),
    )
    return drawn.properties(width=WIDTH, height=HEIGHT)
