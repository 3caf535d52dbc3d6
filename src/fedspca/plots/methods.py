"""The charts as methods of a model, and how a model looks in a notebook."""

from collections.abc import Sequence
from typing import Any

from fedspca.plots.loadings import by_size, plot_biplot, plot_loadings
from fedspca.plots.record import plot_sites
from fedspca.plots.variance import plot_path, plot_scree
from fedspca.reading import Readable
from fedspca.site.errors import count

SHOWN = 8  # most features of a component that a notebook shows


class Drawable(Readable):
    """A model with methods that draw it. They return Altair charts: a notebook shows them, ``save`` writes them."""

    def plot_loadings(self, component: int | None = None) -> Any:
        """Draw the weights of one component, numbered from one, or of all: :func:`fedspca.plots.plot_loadings`."""
        return plot_loadings(self, component)

    def plot_scree(self) -> Any:
        """Draw the variance captured by the first components, and by dense PCA: :func:`fedspca.plots.plot_scree`."""
        return plot_scree(self)

    def plot_path(self) -> Any:
        """Draw the variance captured against non-zeros: :func:`fedspca.plots.plot_path`."""
        return plot_path(self)

    def plot_biplot(
        self, scores: Any = None, *, components: tuple[int, int] = (1, 2), classes: Sequence[object] | None = None
    ) -> Any:
        """Draw features, and rows if they are given, in a plane: :func:`fedspca.plots.plot_biplot`."""
        return plot_biplot(self, scores, components=components, classes=classes)

    def plot_sites(self) -> Any:
        """Draw how well the components fit each site: :func:`fedspca.plots.plot_sites`."""
        return plot_sites(self)

    def to_frame(self) -> Any:
        """Return the loadings as a pandas DataFrame: one row per feature with a weight, one column per component."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise ModuleNotFoundError("A DataFrame needs pandas. Install it with: pip install pandas") from None
        used = [j for j in range(len(self.feature_names)) if self.components[:, j].any()]
        names = [self.feature_names[j] for j in used]
        columns = [f"component {k + 1}" for k in range(self.n_components)]
        return pd.DataFrame(self.components[:, used].T, index=pd.Index(names, name="feature"), columns=columns)

    def __repr__(self) -> str:
        head = (
            f"SparsePCAModel: {count(self.n_components, 'component')} of {count(len(self.feature_names), 'feature')}, "
            f"{self.captured_ratio:.1%} of the variance of {self.source}"
        )
        lines = [head]
        for number, (weights, share) in enumerate(zip(self.components, self.captured_shares, strict=True), 1):
            named = [f"{self.feature_names[j]} {weights[j]:+.2f}" for j in by_size(weights)]
            more = f", and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
            lines.append(f"  {number} ({share:.1%}): {', '.join(named[:SHOWN])}{more}")
        return "\n".join([*lines, *(f"  Caution: {caution}" for caution in self.cautions())])

    def _repr_html_(self) -> str:
        from html import escape

        head, *_ = repr(self).split("\n")
        rows = []
        for number, (weights, share) in enumerate(zip(self.components, self.captured_shares, strict=True), 1):
            named = [f"{escape(self.feature_names[j])} <b>{weights[j]:+.2f}</b>" for j in by_size(weights)]
            more = f", and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
            cells = (str(number), f"{share:.1%}", f"{', '.join(named[:SHOWN])}{more}")
            rows.append("<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>")
        cautions = "".join(f"<p><b>Caution.</b> {escape(caution)}</p>" for caution in self.cautions())
        titles = "".join(f"<th>{title}</th>" for title in ("component", "captures", "features"))
        return f"<p>{escape(head)}</p>{cautions}<table><tr>{titles}</tr>{''.join(rows)}</table>"
