"""Charts of a model, by Altair: for a notebook, for a paper, and for the report. They need the extra ``report``."""

from fedspca.plots.loadings import plot_biplot, plot_correlation, plot_loadings
from fedspca.plots.record import plot_convergence, plot_sent, plot_sites
from fedspca.plots.theme import PAGE, PAPER, Palette, chart_svg, save_chart
from fedspca.plots.variance import plot_path, plot_scree

__all__ = [
    "PAGE",
    "PAPER",
    "Palette",
    "chart_svg",
    "plot_biplot",
    "plot_convergence",
    "plot_correlation",
    "plot_loadings",
    "plot_path",
    "plot_scree",
    "plot_sent",
    "plot_sites",
    "save_chart",
]
