"""The main job on embedded data: a federated sparse PCA of WDBC* over ten sites, next to PCA on pooled data."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from fedspca.estimators import ExactSPCA
from fedspca.estimators.base import FederatedSparsePCA
from fedspca.experiments.data import Table, sites_in_order, wdbc_star
from fedspca.federation import LocalFederation
from fedspca.fit.facts import judge
from fedspca.fit.inputs import SHOWN_ALONE
from fedspca.fit.run import versions
from fedspca.metrics import explained_variance_ratio, n_nonzeros, reconstruction_error
from fedspca.model import SparsePCAModel
from fedspca.report import write_report
from fedspca.site import Policy, Site

REPORT = Path("fedspca-demo.html")
N_SITES = 10
SHOWN = 12


def main(report: Path = REPORT) -> None:
    """Run the demonstration, print what a person would want to see, and write the report."""
    data = wdbc_star()
    print(
        f"WDBC*: {data.rows.shape[0]} patients, {data.rows.shape[1]} features (30 measured, 800 random), "
        f"held by {N_SITES} sites that do not share rows.\n"
    )
    model = ExactSPCA(n_components=2, n_nonzero=12, scale=True)
    owners = sites_in_order(len(data.rows), N_SITES)
    model.fit(data.rows, sites=owners)
    standardised = (data.rows - model.mean_) / model.scale_
    dense = PCA(n_components=2, svd_solver="full").fit(standardised)
    for number, weights in enumerate(model.components_, start=1):
        _print_loading(number, weights, data)
    _print_comparison(model, dense.components_, standardised)
    try:
        _write_report(model, data, owners, standardised, report)
    except ModuleNotFoundError as error:
        print(f"\nNo report was written. {error}")
        return
    print(f"\nThe report is in {report.resolve()}. Open it in any browser; it needs no network.")


def _write_report(
    model: FederatedSparsePCA, data: Table, owners: np.ndarray, standardised: np.ndarray, path: Path
) -> None:
    # simulated sites may show their own figures; real ones decide for themselves
    policy = Policy(alone=SHOWN_ALONE)
    sites = [Site(str(name), data.rows[owners == name], policy=policy) for name in np.unique(owners)]
    judgement = judge(LocalFederation(sites), sites, model, gram=standardised.T @ standardised)
    shown = SparsePCAModel.from_estimator(model, versions=versions(), **judgement.to_model)
    write_report(replace(shown, feature_names=data.feature_names), path)


def _print_loading(number: int, weights: np.ndarray, data: Table) -> None:
    order = np.argsort(-np.abs(weights))
    nonzero = int(np.count_nonzero(weights))
    noise = int(np.count_nonzero(weights[30:]))
    print(f"Component {number}: {nonzero} of {len(weights)} weights are not zero ({noise} of them random features)")
    for j in order[: min(SHOWN, nonzero)]:
        bar = "#" * max(1, round(60 * abs(weights[j])))
        print(f"  {data.feature_names[j]:<26}{weights[j]:+8.4f}  {bar}")
    if nonzero > SHOWN:
        print(f"  … and {nonzero - SHOWN} smaller weights, the largest {abs(weights[order[SHOWN]]):.4f}")
    print()


def _print_comparison(model: FederatedSparsePCA, dense: np.ndarray, standardised: np.ndarray) -> None:
    ours, theirs = model.captured_variance_ratio_, np.cumsum(explained_variance_ratio(standardised, dense))
    sent = sum(record.bytes_up for record in model.history_)
    rows = [
        ("", f"{type(model).__name__}, {model.n_sites_} sites", "PCA, pooled data"),
        ("non-zero weights", f"{n_nonzeros(model.components_)}", f"{n_nonzeros(dense)}"),
        *((f"variance captured by {j + 1}", f"{ours[j]:.2%}", f"{theirs[j]:.2%}") for j in range(len(ours))),
        (
            "reconstruction error",
            f"{reconstruction_error(standardised, model.components_):.3f}",
            f"{reconstruction_error(standardised, dense):.3f}",
        ),
        ("rounds", f"{model.n_rounds_}", "-"),
        (
            "sent by each site",
            f"{sent / 1e6:.2f} MB",
            f"all its rows: {standardised.nbytes / model.n_sites_ / 1e6:.2f} MB",
        ),
        ("stopped because", model.stop_reason_.value, "-"),
    ]
    for label, mine, other in rows:
        print(f"{label:<24}{mine:>28}{other:>26}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
