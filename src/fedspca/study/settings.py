"""The settings of a study between institutions: what the coordinator writes into ``study.toml``."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedspca.fit.settings import SolverSettings, setting
from fedspca.fit.settings_file import read_settings

if TYPE_CHECKING:  # slow imports (numpy, scikit-learn): methods import them, so that --help is fast
    from fedspca.door.agreement import Agreement

OPENING = """\
# A study between institutions. Every setting is here with its default; lines that begin with # are not used.
# Owners sign what is in this file: a change after they approved asks for their approval again.
"""
SEARCH = 20  # directions that a solver may ask for in addition to three times the components
UPDATE = 100  # directions that a new site's policy allows
AFTER = 60  # questions for the figures beside the loadings, and for the path
ROUNDS = {"exact": 100, "faspca": 1000, "fsspca": 1000}
QUESTIONS = {
    "exact": ("gram_product", "gram_sketch"),
    "faspca": ("gram_product", "gram_sketch", "curvature", "faspca_step"),
    "fsspca": ("gram_product", "gram_sketch", "curvature", "fsspca_step"),
}
CONSENSUS = ("faspca", "fsspca")
WITHIN = ("covariate_sums", "within_moments")
COMBAT = ("within_squares", "harmonised")
COVARIATES = ("covariate_sums", "covariate_moments", "residuals")
ODD_UNITS = "odd_units"
ALWAYS = ("moments", "deviations", "captured_variance", "row_errors")


@dataclass(frozen=True)
class StudySettings(SolverSettings):
    """What is to be fitted to the rows of several institutions, and how they talk to each other."""

    between_sites: bool = setting(
        "fit", "Also compute the variance between the sites' means, before and after adjusting, for the report.", False
    )
    units: bool = setting(
        "fit", "Also count the sites where a feature's unit looks wrong (one more sum of small whole numbers).", True
    )
    path: bool = setting(
        "fit", "Also fit a path of sparsities, for a chart in the report (exact; up to a dozen rounds more).", False
    )

    name: str = setting("study", "The study's name, as owners will see it.", "study")
    sites: tuple[str, ...] = setting("study", "The sites, each with a name.", (), '["north", "south", "east"]')
    host: str = setting("study", "The name or address under which sites reach the coordinator.", "localhost")
    port: int = setting("study", "The port that sites connect to.", 9092)
    control_port: int = setting("study", "A port for the coordinator's own commands; not to be opened to sites.", 9093)
    common: bool = setting("study", "Use only the features that every site has.", False)

    masked: bool = setting("federation", "Mask what sites send, so that only the sum is ever seen.", True)
    consensus_under_masks: bool = setting(
        "federation", "Run faspca or fsspca under masks, although their sums reveal single sites.", False
    )
    min_sites: int = setting("federation", "The fewest sites that a sum may be over.", 3)
    on_dropout: str = setting(
        "federation",
        "When a site is lost: wait, continue without it, or abort.",
        "wait",
        choices=("wait", "continue", "abort"),
    )
    deadline: float = setting("federation", "Seconds that a site has to answer a question.", 120.0)
    patience: float = setting("federation", "Seconds to wait for a site that is lost.", 3600.0)

    epsilon: float | None = setting(
        "privacy",
        "Differential privacy for each row: the ε that the study spends; without it, sums are exact.",
        example="1.0",
    )
    delta: float = setting("privacy", "The δ of that guarantee.", 1e-6)
    clip: float | None = setting(
        "privacy", "The length to which rows are shortened; by default it is found with a part of ε.", example="5.0"
    )
    stated: str | None = setting(
        "privacy",
        "A CSV with feature, centre and scale: what is known of features without looking at these rows.",
        example='"reference-ranges.csv"',
    )
    colluding: int = setting("privacy", "How many sites may reveal their noise without harm to others' rows.", 1)
    expected_rows: int | None = setting(
        "privacy", "About how many rows there are in all, to predict the error.", example="20000"
    )
    mechanism: str = setting(
        "privacy",
        "gram (one release), product (for many features), or auto.",
        "auto",
        choices=("gram", "product", "auto"),
    )

    def check(self) -> None:
        """Raise a ValueError for settings with which no study can start."""
        from fedspca.fit.solvers import make_estimator

        self.check_terms()
        _check_common_start(make_estimator(self, []))  # refuses settings that no solver accepts

    def check_terms(self) -> None:
        """Check all but the solver's own settings: that check imports scikit-learn, which takes a second."""
        from fedspca.door.agreement import ON_DROPOUT

        if self.solver not in QUESTIONS:
            raise ValueError(f"There is no solver {self.solver!r}; there are {', '.join(QUESTIONS)}.")
        if len(set(self.sites)) != len(self.sites) or not self.sites:
            raise ValueError("sites must be a list of different names.")
        if self.min_sites > len(self.sites):
            raise ValueError(f"min_sites is {self.min_sites} and there are {len(self.sites)} sites.")
        if self.on_dropout not in ON_DROPOUT:
            raise ValueError(f"on_dropout must be one of {', '.join(ON_DROPOUT)}. Got {self.on_dropout!r} instead.")
        for name in ("port", "control_port"):
            if not 0 < getattr(self, name) < 1 << 16:
                raise ValueError(f"{name} must be from 1 to 65535. Got {getattr(self, name)} instead.")
        if self.masked and self.min_sites < 3:
            raise ValueError(
                f"Masks hide a site among at least three, and here a sum may be over {self.min_sites}: with two, each "
                "could subtract its own part. Have more sites and a larger min_sites, or no masks (--no-masked)."
            )
        if self.auto and self.folds is None:
            raise ValueError("auto needs folds, which owners approve: add --folds 10, or give numbers.")
        self._check_sample()
        self._check_masks()
        self._check_preparation()
        self._privacy_settings()

    def _check_sample(self) -> None:
        """Refuse a sample beside what releases sums in another way."""
        if self.sample is None:
            return
        from fedspca.site.preparation import Preparation

        if self.epsilon is not None:
            raise ValueError(
                "A private study has no sample: its noise is planned for one release over all rows, and a sample would "
                "be a second one. Leave out --sample, or the noise."
            )
        if self.folds is not None:
            raise ValueError("Rows are dealt in one way that owners approve: leave out --sample, or --folds.")
        if not Preparation.of(self.fit_settings()).plain:
            raise ValueError(
                "A sample is of rows as they are: leave out --sample, or covariates, weights, the sites' own means and "
                "transforms over all sites."
            )

    def _check_masks(self) -> None:
        """Refuse what masks cannot hide, unless the coordinator requests it explicitly, so that owners can read it."""
        from fedspca.door.agreement import BETWEEN_AT_LEAST

        if self.missing == "em" and self.masked and self.epsilon is None:
            raise ValueError(
                "missing = em is not for studies with masks: every round is a covariance again, and the differences "
                "between rounds tell of the few rows that lack a value. Fill them in once (missing = em-once), where "
                "enough rows are told of together; or take missing values at the mean."
            )
        if self.missing in ("em", "em-once") and self.epsilon is not None:
            raise ValueError(
                f"missing = {self.missing} is not for studies with noise: what it would release is not planned. Take "
                "missing values at the mean, which is the stated centre there."
            )
        if not self.masked or self.epsilon is not None:
            return
        if self.solver in CONSENSUS and not self.consensus_under_masks:
            raise ValueError(
                f"Under masks the sums of {self.solver} still tell each site's own covariance matrix, if there are "
                "enough rounds. Take the solver exact, whose sums do not; or ask the owners to approve it "
                "(--consensus-under-masks); or add noise (--epsilon)."
            )
        if self.between_sites and len(self.sites) < BETWEEN_AT_LEAST:
            raise ValueError(
                "Under masks what lies between sites is told of four sites or more: of three, each could solve for the "
                "means of the other two. Leave out between_sites, or have more sites."
            )
        if self.on_dropout == "continue":
            raise ValueError(
                "Under masks a study does not go on without a lost site: the difference of two sums would be that "
                "site's own. Wait for it (--on-dropout wait), or abort; with noise (--epsilon) it may continue."
            )

    def _check_preparation(self) -> None:
        """Refuse covariates and weights that are invalid, and combinations whose privacy was not analysed."""
        from fedspca.data.transforms import check_transforms
        from fedspca.dp.quantiles import PRIVATE_MAPS
        from fedspca.site.preparation import Preparation, unusual

        joint = Preparation.of(self.fit_settings()).joint
        check_transforms(self.transform)
        asked = [
            *unusual(self.fit_settings()),
            *([] if joint is None or joint[0] in PRIVATE_MAPS else [f"transform {joint[0]}"]),
            *(["between_sites"] if self.between_sites else []),
        ]
        if self.epsilon is not None and asked:
            raise ValueError(
                f"A private study takes no {', '.join(asked)}: what that would release is not planned, so nothing is "
                "known of what it costs. Leave it out, or leave out the noise."
            )

    def fit_settings(self) -> dict[str, Any]:
        """Return the settings of the fit alone."""
        return {name: getattr(self, name) for name in SolverSettings.__dataclass_fields__}

    def _questions(self, n_features: int) -> tuple[str, ...]:
        from fedspca.site.policy import GRAM
        from fedspca.site.preparation import Preparation
        from fedspca.site.queries import PRIVATE

        if self.epsilon is not None:
            joint = Preparation(transform=tuple(self.transform)).joint
            return tuple(sorted(PRIVATE if joint is not None else PRIVATE - {"private_counts"}))
        gram = {GRAM} if self._asks_gram(n_features) else set()
        gram |= {"permuted_gram"} if self.auto else set()
        return tuple(sorted({*ALWAYS, *QUESTIONS[self.solver], *QUESTIONS["exact"], *gram, *self._beside()}))

    def _beside(self) -> set[str]:
        """Return the questions about covariates, weights, and differences between sites."""
        from fedspca.site.preparation import Preparation, unusual

        weighted = self.weight is not None or self.site_weight != "rows"
        joint = Preparation(transform=tuple(self.transform)).joint
        changed = unusual(self.fit_settings()) or joint is not None or self.missing in ("em", "em-once")
        return {
            *(COVARIATES if self.adjust else ()),
            *(WITHIN if self.protect else ()),
            *(("counts_below",) if joint is not None and joint[0] != "pearson" else ()),
            *(("gap_moments",) if self.missing == "em" else ()),
            *(("gap_sites", "gram", "filled_once") if self.missing == "em-once" else ()),
            *(COMBAT if self.centre == "combat" else ()),
            *(("weighted_moments",) if weighted else ()),
            *(("between_sites",) if self.between_sites else ()),
            *(("covariates_between",) if self.between_sites and self.adjust else ()),
            *((ODD_UNITS,) if self.units and not changed else ()),
        }

    def _most_components(self) -> int:
        if isinstance(self.components, int):
            return self.components
        from fedspca.estimators.selection import MOST

        return MOST

    def _most_directions(self, updates: bool, n_features: int) -> int:
        """Return how many directions one question asks at most. An update asks the old features one by one."""
        usual = 3 * self._most_components() + SEARCH  # noisy products need twelve
        by_products = self.solver == "exact" and self.epsilon is None and not self._asks_gram(n_features)
        return max(usual, UPDATE) if updates and by_products else usual

    def _asks_gram(self, n_features: int) -> bool:
        """Whether owners are asked to release the whole covariance, in one sum."""
        from fedspca.site.policy import MAX_GRAM_FEATURES

        if self.solver != "exact" or self.search == "products":
            return False
        return self.search == "thorough" or n_features <= MAX_GRAM_FEATURES

    def _privacy_settings(self) -> dict[str, Any]:
        """Return the settings of privacy that are in this file, checked."""
        names = ("epsilon", "delta", "mechanism", "clip", "colluding", "expected_rows")
        promised = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.epsilon is not None:
            from fedspca.dp.plan import mechanism_of
            from fedspca.federation.release_plan import Privacy, check_folds

            check_folds(mechanism_of(Privacy.from_mapping(promised).mechanism, 1), self.folds or 0)
        return promised

    def _privacy(self, home: Path, features: tuple[str, ...]) -> dict[str, Any] | None:
        """Return the checked privacy guarantee for every row; None without one."""
        if self.epsilon is None:
            return None
        from fedspca.dp.plan import mechanism_of
        from fedspca.federation.release_plan import Privacy, check_folds

        promised = self._privacy_settings()
        if self.stated is not None:
            promised |= _stated(home / self.stated, features)
        check_folds(mechanism_of(Privacy.from_mapping(promised).mechanism, len(features)), self.folds or 0)
        return promised

    def agreement(
        self,
        coordinator: str,
        sites: dict[str, str],
        features: tuple[str, ...],
        home: Path,
        update: dict[str, Any] | None = None,
    ) -> "Agreement":
        """Return the agreement that owners are asked to approve. Files that the settings name are in ``home``."""
        from fedspca.door.agreement import Agreement

        rounds = self.max_rounds or ROUNDS[self.solver]
        return Agreement(
            study=self.name,
            coordinator=coordinator,
            sites=dict(sorted(sites.items())),
            features=features,
            fit=self.fit_settings(),
            questions=self._questions(len(features)),
            max_rounds=rounds + AFTER,
            max_components=min(len(features), self._most_directions(update is not None, len(features))),
            masked=self.masked,
            consensus_under_masks=self.masked and self.consensus_under_masks and self.solver in CONSENSUS,
            privacy=self._privacy(home, features),
            min_sites=self.min_sites,
            on_dropout=self.on_dropout,
            deadline=float(self.deadline),
            patience=float(self.patience),
            update=update,
        )


def _check_common_start(estimator: Any) -> None:
    """Refuse what a site's door refuses: a start that differs by site, and directions that are not orthonormal."""
    refused = {"init": ("random", "warm"), "local_start": ("random", "last"), "deflation": ("literal", "generalized")}
    for name, (value, instead) in refused.items():
        if getattr(estimator, name, None) == value:
            raise ValueError(
                f"Between institutions sites begin at a common point and see orthonormal directions only: "
                f'{name} = "{value}" is refused there. Write {name} = "{instead}" (--{name.replace("_", "-")} '
                f"{instead})."
            )


def _stated(path: Path, features: tuple[str, ...]) -> dict[str, list[float]]:
    """Read the values that a file states for the features."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        found = {row["feature"]: (float(row["centre"]), float(row["scale"])) for row in rows}
    except (KeyError, ValueError, TypeError):
        raise ValueError(f"{path}: it must be a CSV with the columns feature, centre and scale.") from None
    if missing := [name for name in features if name not in found]:
        raise ValueError(f"{path}: nothing is stated of {', '.join(map(repr, missing[:5]))}.")
    return {"centre": [found[name][0] for name in features], "scale": [found[name][1] for name in features]}


def read_joint_study(path: Path, *, whole: bool = False) -> StudySettings:
    """Read the coordinator's ``study.toml``, and check it: the terms, or the whole with the solver's own settings."""
    study = read_settings(path, StudySettings, "fedspca study init")
    try:
        (study.check if whole else study.check_terms)()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return study
