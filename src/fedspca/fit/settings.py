"""Every setting of a fit, in one place: the command line, ``fit.toml`` and its comments all come from here."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from fedspca.data.columns import MAX_FEATURES, Columns
from fedspca.data.formats import TextOptions

WORKERS = (  # of fsspca alone
    "lam1",
    "mu",
    "line_search",
    "direction",
    "retraction",
    "local_steps",
    "local_tol",
    "local_start",
)
CONSENSUS = ("rho", "block_sizes", "deflation", "finish", "init")  # of both of the paper's methods
OF_THE_PAPER = ("preset", *CONSENSUS, *WORKERS)
AUTO = "auto"  # a number that is chosen from the data
LAM = "Or: the weight of the l1 norm; one number, or one for each component (every solver)."
SECTIONS = ("study", "data", "columns", "adjust", "fit", "federation", "privacy", "policy")


def setting(section: str, help: str, default: Any = None, example: str = "", choices: tuple[str, ...] = ()) -> Any:
    """Declare a setting.

    Parameters
    ----------
    section : str
        The section of the settings file.
    help : str
        What it means.
    default : object
        Its default; None if it has none.
    example : str
        What the settings file shows where there is no default.
    choices : tuple of str
        The values that a shell offers when it completes the option.
    """
    about = {"section": section, "help": help, "example": example, "choices": choices}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=about)
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class SolverSettings:
    """What is to be fitted."""

    solver: str = setting("fit", "exact, faspca or fsspca.", "exact", choices=("exact", "faspca", "fsspca"))
    components: int | str = setting(
        "fit", "How many components; auto counts those that are more than chance (exact).", 2
    )
    nonzero: int | str | tuple[int, ...] | None = setting(
        "fit",
        "Non-zero weights of each component: one number, or one for each; auto finds one by cross-validation (exact).",
        example="10",
    )
    variance_kept: float | None = setting(
        "fit", "Or: the share of dense PCA's variance to keep, by default 0.95 (exact).", example="0.95"
    )
    lam: float | tuple[float, ...] | None = setting("fit", LAM, example="100.0")
    lam1: float | tuple[float, ...] | None = setting(
        "fit",
        "The weight of each site's smoothed norm; one number, or one for each component. 0 is the method of Tan et al. "
        "(fsspca).",
        example="10.0",
    )
    preset: str | None = setting(
        "fit",
        "paper: every choice of the paper that is not given here (faspca, fsspca).",
        example='"paper"',
        choices=("paper",),
    )
    rho: float | None = setting(
        "fit",
        "How strongly sites are pulled to consensus; by default computed from the data (faspca, fsspca).",
        example="1e3",
    )
    mu: float | None = setting("fit", "The width of the smoothing (fsspca).", example="1e-3")
    block_sizes: tuple[int, ...] | None = setting(
        "fit", "How many components are solved for at once, stage by stage (faspca, fsspca).", example="[1, 1]"
    )
    deflation: str | None = setting(
        "fit",
        "How later stages are kept apart from earlier ones: orthogonal, generalized (paper), literal (faspca, fsspca).",
        example='"orthogonal"',
        choices=("orthogonal", "generalized", "literal"),
    )
    finish: str | None = setting(
        "fit",
        "The last step: sparse, or qf, which may fill zeros in (faspca, fsspca).",
        example='"sparse"',
        choices=("sparse", "qf"),
    )
    init: str | None = setting(
        "fit",
        "Where sites begin: warm, a common point, or random (faspca, fsspca).",
        example='"warm"',
        choices=("warm", "random"),
    )
    line_search: str | None = setting(
        "fit",
        "Step sizes at the sites: armijo or wolfe (fsspca).",
        example='"armijo"',
        choices=("armijo", "wolfe"),
    )
    direction: str | None = setting(
        "fit",
        "Where a site's steps go: steepest (as printed in the paper), conjugate or newton (fsspca).",
        example='"steepest"',
        choices=("steepest", "conjugate", "newton"),
    )
    retraction: str | None = setting(
        "fit", "How a step returns to the manifold: qr or polar (fsspca).", example='"qr"', choices=("qr", "polar")
    )
    local_steps: int | None = setting("fit", "The largest number of steps of a site in a round (fsspca).", example="5")
    local_tol: float | None = setting(
        "fit", "The share of its first gradient at which a site stops in a round (fsspca).", example="0.05"
    )
    local_start: str | None = setting(
        "fit",
        "Where a site's steps begin in each round: last, or random (fsspca).",
        example='"last"',
        choices=("last", "random"),
    )
    scale: bool = setting(
        "fit", "Divide features by their joint standard deviation; in Python the default is not to.", True
    )
    max_missing: float = setting(
        "fit",
        "The largest share of missing values that a feature may have; they count as the joint mean. In Python: 0.",
        0.2,
    )
    missing: str | None = setting(
        "fit",
        "What missing values count as: mean (the joint mean), em (what the row's other values make expect), or em-once "
        "(one step of em, for masked studies) (exact).",
        example='"em"',
        choices=("mean", "em", "em-once"),
    )
    search: str | None = setting(
        "fit",
        "Ask for the whole covariance in one sum: auto, thorough (always) or products (never) (exact).",
        example='"auto"',
    )
    proof_seconds: float | None = setting(
        "fit", "Seconds to prove how good the loadings are; 0 turns it off (exact).", example="10.0"
    )
    tol: float | None = setting("fit", "The tolerance at which to stop; by default the solver's own.", example="1e-6")
    max_rounds: int | None = setting("fit", "The largest number of rounds; by default the solver's own.", example="500")
    folds: int | None = setting(
        "fit",
        "Deal rows into this many folds, to say how sure the loadings are; no further round (exact).",
        example="10",
    )
    sample: int | None = setting(
        "fit",
        "First fit to one row in so many, dealt by the seed at each site; then a few passes over all rows (exact).",
        example="20",
    )
    seed: int = setting("fit", "The seed of the random numbers.", 0)
    between_sites: bool = setting(
        "fit", "Also compute the variance between the sites' means, before and after adjusting, for the report.", True
    )
    path: bool = setting(
        "fit",
        "Also fit a path of sparsities, for a chart in the report (exact; up to a dozen rounds more). A path can take "
        "several times as long as the fit; false (--no-path) leaves it out.",
        True,
    )

    transform: tuple[str, ...] = setting(
        "adjust",
        "What is done to values first. Of each row: library (counts to 10,000 a row), log1p, clr (centred log-ratio). "
        "Of features over all sites: pearson (residuals of counts), normal (rank-based), winsorise or winsorise:0.05.",
        (),
        '["library", "log1p"]',
        choices=("library", "log1p", "clr", "pearson", "normal", "winsorise"),
    )
    variable: int | None = setting(
        "adjust", "Keep this many features: those of the largest variance after transforms.", example="2000"
    )
    adjust: tuple[str, ...] = setting(
        "adjust", "Columns to take out of the features, such as age or batch; age:sex is an interaction.", (), '["age"]'
    )
    protect: tuple[str, ...] = setting(
        "adjust", "With --centre combat: columns whose part of the features is to stay, such as age.", (), '["age"]'
    )
    levels: Mapping[str, tuple[str, ...]] = setting(
        "adjust",
        "The levels of columns of text in adjust or protect, the one to compare with first; by default those found.",
        {},
        '{ sex = ["F", "M"] }',
    )
    weight: str | None = setting("adjust", "The column that says how often a row counts.", example='"weight"')
    site_weight: str = setting(
        "adjust",
        "How much a site counts: rows (by its number of rows) or equal (every site the same).",
        "rows",
        choices=("rows", "equal"),
    )
    centre: str = setting(
        "adjust",
        "Whose mean is subtracted: joint, site (each site's own), or combat (each site's shift and spread, shrunk).",
        "joint",
        choices=("joint", "site", "combat"),
    )
    scale_by: str = setting(
        "adjust",
        "By whose spread features are divided: joint, site for each site's own, or allele (genotypes: √2p(1−p)).",
        "joint",
        choices=("joint", "site", "allele"),
    )

    @property
    def auto(self) -> bool:
        """Whether the data are to say how many components or non-zeros there are."""
        return AUTO in (self.components, self.nonzero)

    def number_of_components(self, what: str) -> int:
        """Return the number of components; a ValueError for what takes no "auto"."""
        if isinstance(self.components, str):
            told = f"{what} needs a number of components: give one, such as fedspca choose recommends."
            raise ValueError(told)  # noqa: TRY004 - "auto" is of the right type, and of no use here
        return self.components

    def with_given(self, given: Mapping[str, Any]) -> Self:
        """Return the settings with these in place of its own; None changes nothing."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True)
class FitSettings(SolverSettings):
    """What is to be fitted to what. A list of files makes one site each, unless a column names the sites."""

    lam: float | tuple[float, ...] | None = setting(
        "fit",
        f"{LAM} It is compared with sums over all rows: with --covariance give --covariance-rows too, or n - 1 counts "
        "as 1.",
        example="100.0",
    )
    files: tuple[str, ...] = setting("data", "The tables; each file is a site.", (), '["north.csv", "south.parquet"]')
    site_column: str | None = setting("data", "The column that names each row's site.", example='"hospital"')
    common: bool = setting("data", "Use only the features that every site has, and list the others.", False)
    encoding: str | None = setting("data", "The encoding of text tables; by default detected.", example='"cp1252"')
    separator: str | None = setting("data", "The sign between values; by default detected.", example='";"')
    decimal: str | None = setting("data", "The decimal sign of text tables; by default detected.", example='","')
    sheet: str | None = setting("data", "The sheet of a workbook; by default its first.", example='"baseline"')
    query: str | None = setting(
        "data",
        "The rows of a database, in SQL; its URL stands in place of a file, such as duckdb:///rows.db.",
        example='"SELECT * FROM patients"',
    )
    covariance: str | None = setting(
        "data",
        "Instead of tables: a CSV with a covariance or correlation matrix, the features' names in its first row.",
        example='"S.csv"',
    )
    covariance_rows: int | None = setting(
        "data",
        "The number of rows behind that covariance. Without it the number is unknown, and --lam is compared with the "
        "covariance itself.",
        example="180",
    )
    cache: str | None = setting("data", "Where prepared copies of large files are kept.", example='"/scratch/cache"')

    features: tuple[str, ...] | None = setting("columns", "The features, in order.", example='["age", "bmi"]')
    exclude: tuple[str, ...] = setting("columns", "Columns to leave out.", ())
    id: str | None = setting("columns", "The column that names rows.", example='"patient"')
    label: str | None = setting("columns", "A column with labels, which is not a feature.", example='"diagnosis"')
    categories: Mapping[str, tuple[str, ...]] = setting(
        "columns",
        "Columns of text to encode, with the categories that all sites agree on, the reference level first.",
        {},
        '{ sex = ["F", "M"] }',
    )
    rename: Mapping[str, tuple[str, ...]] = setting(
        "columns",
        "Features that have other names in some files, each with those names.",
        {},
        '{ age = ["AGE", "Age_y"] }',
    )
    max_features: int = setting("columns", "The largest number of features taken from one table.", MAX_FEATURES)

    min_rows: int = setting("policy", "A site with fewer rows refuses: a sum over few rows says much about each.", 5)
    leave_out_small: bool = setting("policy", "Leave out the sites with fewer rows than that, and name them.", False)
    show_sites: bool = setting(
        "policy", "Show how well the components fit each site in the report, and not only sums over all sites.", False
    )

    @property
    def covariates(self) -> tuple[str, ...]:
        """The columns that are taken out of the features, or protected."""
        return tuple(dict.fromkeys(part for term in (*self.adjust, *self.protect) for part in term.split(":")))

    def columns(self) -> Columns:
        """Return what each column is for."""
        return Columns(
            features=self.features,
            exclude=self.exclude,
            id=self.id,
            label=self.label,
            site=self.site_column,
            covariates=self.covariates,
            transform=tuple(self.transform),
            weight=self.weight,
            categories=self.categories,
            rename={old: new for new, others in self.rename.items() for old in others},
            max_features=self.max_features,
        )

    def text_options(self) -> TextOptions:
        """Return how text tables are written."""
        return TextOptions(self.encoding, self.separator, self.decimal, self.sheet, self.query)


def by_section(kind: type[SolverSettings]) -> dict[str, list[Any]]:
    """Return the settings of each section, in the order in which a file has them."""
    sections: dict[str, list[Any]] = {}
    for about in fields(kind):
        sections.setdefault(about.metadata["section"], []).append(about)
    return {name: sections[name] for name in SECTIONS if name in sections}


def each_in_words(given: Any) -> str:
    """Return a setting that is one number, or one for each component, as text."""
    return " and ".join(map(str, given)) if isinstance(given, tuple | list) else str(given)
