"""A fit: sites from files, a solver, a checkpoint while it runs, and the model that comes of it."""

import hashlib
import json
import platform
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from fedspca._version import __version__
from fedspca.data.urls import source_name
from fedspca.estimators.base import FederatedSparsePCA
from fedspca.estimators.certainty import plain_certainty
from fedspca.federation import Federation, LocalFederation
from fedspca.federation.checkpoint import CheckpointedFederation
from fedspca.fit.facts import judge
from fedspca.fit.given import check_settings, read_covariance
from fedspca.fit.grid import default_grid, follow_path
from fedspca.fit.inputs import Inputs, make_sites, open_inputs
from fedspca.fit.settings import FitSettings, SolverSettings
from fedspca.fit.solvers import fit_from, make_estimator
from fedspca.linalg.feature_sums import column_sums
from fedspca.model import SparsePCAModel
from fedspca.model.estimator import plain_round
from fedspca.site import Site
from fedspca.solvers.exact.loop import Earlier
from fedspca.solvers.mapping import through
from fedspca.solvers.rounds import Round, Rounds

Callback = Callable[[Round], object]


def fit_files(
    settings: FitSettings,
    *,
    callback: Callback | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    inputs: Inputs | None = None,
    earlier: Earlier | None = None,
) -> SparsePCAModel:
    """Fit what the settings ask for to their files.

    Parameters
    ----------
    settings : FitSettings
        Every setting.
    callback : callable, optional
        Called with each round.
    checkpoint : Path, optional
        Where the state of the fit is kept while it runs. It is removed at the end, and stays if the fit is interrupted.
    resume : bool, default=False
        Whether to go on from that checkpoint rather than begin anew.
    inputs : Inputs, optional
        The files, if they are read already.
    earlier : Earlier, optional
        Where a fit to fewer rows ended; see :mod:`fedspca.fit.update`.
    """
    if settings.covariance_rows is not None:
        raise ValueError("--covariance-rows is for --covariance, and tables are given: leave it out.")
    estimator = make_estimator(settings, [callback] if callback else [])
    inputs = inputs or open_inputs(settings)
    sites = make_sites(settings, inputs)
    local = LocalFederation(sites)
    if checkpoint is None:
        return _fitted_to_files(settings, inputs, estimator, local, sites, earlier)
    if not resume:
        shutil.rmtree(checkpoint, ignore_errors=True)
    elif not checkpoint.exists():
        raise ValueError(f"{checkpoint}: there is no checkpoint to resume. Fit without --resume.")
    kept = CheckpointedFederation(local, sites, checkpoint, _identity(settings, inputs))
    try:
        model = _fitted_to_files(settings, inputs, estimator, kept, sites, earlier)
    except KeyboardInterrupt:
        kept.save()
        raise
    except BaseException:
        kept.remove()
        raise
    kept.remove()
    return model


def fit_covariance_file(settings: FitSettings, *, callback: Callback | None = None) -> SparsePCAModel:
    """Fit what the settings ask for to the covariance that they name.

    Parameters
    ----------
    settings : FitSettings
        Every setting.
    callback : callable, optional
        Called with each round.
    """
    check_settings(settings)
    estimator = make_estimator(settings, [callback] if callback else [])
    given = read_covariance(Path(str(settings.covariance)), settings)
    kept = {name: value for name, value in asdict(settings).items() if name not in {"files", "cache"}}
    return fitted_model(
        settings, estimator, given.federation, study=kept, told=list(given.told), site_names=["covariance"]
    )


def _fitted_to_files(
    settings: FitSettings,
    inputs: Inputs,
    estimator: FederatedSparsePCA,
    federation: Federation,
    sites: Sequence[Site],
    earlier: Earlier | None,
) -> SparsePCAModel:
    kept = {name: value for name, value in asdict(settings).items() if name not in {"files", "cache"}}
    return fitted_model(
        settings,
        estimator,
        federation,
        sites=sites,
        earlier=earlier,
        study={**kept, "files": [source_name(file) for file in settings.files]},
        told=list(inputs.told),
        oddities=list(inputs.oddities),
        schema=inputs.schema.hash,
        site_names=sorted(site.name for site in sites),
    )


def fitted_model(
    settings: SolverSettings,
    estimator: FederatedSparsePCA,
    federation: Federation,
    *,
    sites: Sequence[Site] = (),
    earlier: Earlier | None = None,
    units: bool = False,
    **facts: Any,
) -> SparsePCAModel:
    """Fit, ask what the report shows beside the loadings, and return all of it as a model.

    Parameters
    ----------
    settings : SolverSettings
        What is to be fitted.
    estimator : estimator
        The solver that they ask for.
    federation : Federation
        The sites, wherever they are.
    sites : sequence of Site
        Those in this process, whose own figures are shown if they allow it.
    earlier : Earlier, optional
        Where a fit to other rows ended: this one begins there.
    units : bool, default=False
        Whether to ask the sites whose units look wrong; files are compared before a fit, without a question.
    **facts
        Further facts to keep with the model.
    """
    gram = fit_from(estimator, federation, earlier)
    completed = estimator._completed
    federation = through(federation, estimator.feature_map_) if completed is None else completed.federation
    asking = Rounds(federation)
    between = settings.between_sites and completed is None  # a covariance in place of the rows knows no sites
    units = units and completed is None
    judgement = judge(asking, sites, estimator, gram=gram, between=between, units=units)
    followed = settings.path and settings.solver == "exact"
    settled = replace(settings, components=estimator.n_components_, missing=None)  # these sites know no gaps any more
    path = follow_path(settled, asking, default_grid(len(federation.feature_names))) if followed else None
    return SparsePCAModel.from_estimator(
        estimator,
        versions=versions(),
        path=path,
        certainty=plain_certainty(estimator),
        selection=selection.to_plain() if (selection := getattr(estimator, "selection_", None)) else None,
        asked_after=[plain_round(record) for record in asking.history],
        **facts,
        **judgement.to_model,
    )


def versions() -> dict[str, str]:
    """Return what a fit was computed with."""
    return {
        "fedspca": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def _identity(settings: FitSettings, inputs: Inputs) -> str:
    """Return a hash of the settings, the versions and the data. Sums over each site's rows stand for the rows."""
    kept = {name: value for name, value in asdict(settings).items() if name != "cache"}
    digest = hashlib.sha256(json.dumps([kept, versions(), inputs.feature_names]).encode())
    for site in inputs.sites:
        digest.update(f"{site.site}\0{site.rows.shape}".encode())
        digest.update(column_sums(site.rows, missing=True).tobytes())
        for name, values in site.beside.items():
            digest.update(name.encode())
            for start in range(0, len(values), 1 << 16):  # as a whole the text takes many times the values
                digest.update(json.dumps(values[start : start + (1 << 16)].tolist()).encode())
    return digest.hexdigest()
