"""Run exactly what the owners agreed to: one function of the agreement and the sums, for the coordinator and each site.

The coordinator runs this function to ask its questions. Every site runs it too, and answers a question only if its own
run asks the same one: see :mod:`fedspca.door.replay`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from fedspca.door.agreement import Agreement
from fedspca.door.replay import Ask, Work
from fedspca.federation.base import Aggregate, Federation
from fedspca.federation.private import PrivateFederation, under_agreement
from fedspca.federation.release_plan import Privacy
from fedspca.fit.run import fitted_model
from fedspca.fit.settings import SolverSettings
from fedspca.fit.solvers import make_estimator
from fedspca.linalg.compiled.library import numpy_only
from fedspca.model import SparsePCAModel
from fedspca.site.policy import GRAM
from fedspca.site.preparation import Preparation
from fedspca.site.question import Query
from fedspca.solvers.exact.loop import Earlier
from fedspca.solvers.rounds import Round
from fedspca.study.settings import ODD_UNITS


def agreed_settings(agreement: Agreement) -> SolverSettings:
    """Return the settings of the fit that owners signed; a ValueError if one is missing or no solver accepts them."""
    known = {about.name for about in fields(SolverSettings)}
    if set(agreement.fit) != known:
        raise ValueError(f"The settings of the fit must be {', '.join(sorted(known))}.")
    settings = SolverSettings(**agreement.fit)
    make_estimator(settings, [])
    if agreement.privacy is not None:
        Privacy.from_mapping(agreement.privacy)
    return settings


def agreed_model(
    agreement: Agreement,
    sums: Federation,
    lost: Callable[[], dict[str, str]],
    *,
    private: PrivateFederation | None = None,
    callback: Callable[[Round], object] = lambda _: None,
    told: tuple[str, ...] = (),
) -> SparsePCAModel:
    """Fit what owners agreed to.

    Parameters
    ----------
    agreement : Agreement
        The terms.
    sums : Federation
        The federation that answers the questions.
    lost : callable
        Returns which sites are no longer asked, and why.
    private : PrivateFederation, optional
        The wrapper that adds noise in a private study, from :func:`~fedspca.federation.private.under_agreement`.
    callback : callable, optional
        Called with each round.
    told : tuple of str
        Further remarks for the reader of the report.
    """
    settings = agreed_settings(agreement)
    estimator = make_estimator(settings, [callback])
    with _alike(agreement):
        earlier = None if agreement.update is None else earlier_of(agreement.update)
        asks_units = ODD_UNITS in agreement.questions
        model = fitted_model(settings, estimator, private or sums, earlier=earlier, units=asks_units, told=list(told))
    gone = lost()
    facts = {
        "study": {"name": agreement.study, "agreement": agreement.hash, **agreement.fit, "files": []},
        "institutions": {
            "agreement": agreement.hash,
            "masked": agreement.masked,
            "lost": gone,
            "privacy": None if private is None else private.spent(),
        },
        "schema": agreement.hash,
        "site_names": [site for site in agreement.sites if site not in gone],
    }
    return replace(model, facts={**model.facts, **facts})


def earlier_of(update: Mapping[str, Any]) -> Earlier:
    """Return where the model ended that an agreement updates."""
    w, basis = (np.array(update[name], dtype=np.float64) for name in ("components", "basis"))
    return Earlier(w.T, basis.T if basis.size else np.zeros((w.shape[1], 0)))


def planned_update(model: SparsePCAModel, adds: Sequence[str]) -> dict[str, Any]:
    """Return what an agreement says of the update of a model.

    Parameters
    ----------
    model : SparsePCAModel
        The model of an earlier run, as the coordinator has it.
    adds : sequence of str
        The sites that add rows or join.
    """
    w, basis = model.earlier
    # any directions near these do, so short numbers keep the text short
    shown = [[float(f"{number:.5g}") for number in column] for column in basis.T]
    of = model.facts["institutions"]["agreement"]
    return {"of": of, "adds": sorted(adds), "components": w.T.tolist(), "basis": shown}


@contextmanager
def _alike(agreement: Agreement) -> Iterator[None]:
    """Compute as every site does, if sites compare results.

    The last digits of products depend on the number of threads, so there is one. Not every site may have had a C
    compiler, so numpy does all the work.
    """
    if not agreement.masked:
        yield
        return
    with numpy_only(), ThreadpoolController().limit(limits=1, user_api="blas"):
        yield


def agreed_work(agreement: Agreement) -> Work:
    """Return the work that a site runs in parallel to the coordinator; a ValueError if the agreement lacks settings."""
    agreed_settings(agreement)

    def work(ask: Ask) -> SparsePCAModel:
        sums = _Sums(agreement, ask)
        private = None if agreement.privacy is None else under_agreement(sums, agreement)
        return agreed_model(agreement, sums, sums.lost, private=private)

    return work


class _Sums:
    """A federation for a site that knows only the sums.

    Parameters
    ----------
    agreement : Agreement
        The terms, which name the sites and the features.
    ask : callable
        Returns the sum of a question, once the coordinator has sent the sum back.
    """

    def __init__(self, agreement: Agreement, ask: Ask) -> None:
        self._agreement = agreement
        self._ask = ask
        self._sites = tuple(agreement.sites)
        self._blas = ThreadpoolController()
        self._threads = max((library.num_threads for library in self._blas.lib_controllers), default=1)

    @property
    def n_sites(self) -> int:
        """How many sites take part."""
        return len(self._sites)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features that the sites agreed on."""
        return self._agreement.features

    @property
    def preparation(self) -> Preparation:
        """How the sites agreed to prepare their rows."""
        return Preparation.of(self._agreement.fit)

    def answers_gram(self) -> bool:
        """Whether the sites agreed to release the whole covariance. The coordinator uses the same rule."""
        return GRAM in self._agreement.questions

    def most_directions(self) -> int | None:
        """About how many directions the sites agreed to be asked at once. The coordinator uses the same rule."""
        return self._agreement.max_components

    def sum(self, query: Query) -> Aggregate:
        """Return the sum of a question's terms."""
        with self._blas.limit(limits=self._threads, user_api="blas"):  # the site answers meanwhile, with all threads
            summed = self._ask(query)
        self._sites = summed.sites
        return Aggregate(summed.arrays, len(summed.sites), 0, 0)

    def lost(self) -> dict[str, str]:
        """Return the sites of the agreement that are no longer in the sums."""
        return {site: "it is no longer in the sums" for site in self._agreement.sites if site not in self._sites}
