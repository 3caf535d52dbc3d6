"""Print how well one site's covariance is known after each plain message: `python -m fedspca.attack`."""

import warnings
from typing import Any

import numpy as np

from fedspca.attack.reconstruction import Transcript, error_by_round
from fedspca.estimators import FASPCA, FSSPCA, ExactSPCA
from fedspca.site.queries import AVERAGED
from fedspca.site.site import Site

TARGET = "site 1"


def example_sites(d: int = 20, rows: int = 60, sites: int = 3, seed: int = 0) -> list[Site]:
    """Sites whose covariances have a common part and a part that differs between sites."""
    rng = np.random.default_rng(seed)
    shared = np.eye(d) + 0.3 * rng.standard_normal((d, d))
    parts = [shared + 0.3 * rng.standard_normal((d, d)) for _ in range(sites)]
    return [Site(f"site {k}", rng.standard_normal((rows, d)) @ part) for k, part in enumerate(parts)]


def attack(estimator: Any, sites: list[Site]) -> list[float]:
    """Fit with plain messages, read those of the target, and return the error after each informative message."""
    transcript = Transcript(sites, TARGET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few rounds are enough for the attack; the fit need not converge
        estimator.fit_federation(transcript)
    # only consensus messages: the products of a warm start would reveal as much in fewer rounds
    steps = [message for message in transcript.messages if message[0].name in AVERAGED]
    rows = next(site for site in sites if site.name == TARGET)._data.rows
    centred = rows - estimator.mean_
    return error_by_round(steps or transcript.messages, TARGET, centred.T @ centred)


def main(rounds: int = 15) -> None:
    """Attack the three solvers on 20 features, two components, three sites."""
    fits = {
        "FASPCA": FASPCA(2, lam=3.0, max_rounds=rounds),
        "FSSPCA, local problem solved": FSSPCA(2, lam2=3.0, local_steps=3000, local_tol=1e-9, max_rounds=rounds),
        "FSSPCA, five local steps": FSSPCA(2, lam2=3.0, max_rounds=rounds),
        "ExactSPCA": ExactSPCA(2, lam=3.0),
    }
    errors = {name: attack(fit, example_sites()) for name, fit in fits.items()}
    print("Relative error of one site's AᵀA (d = 20, r = 2, K = 3), reconstructed from its plain messages\n")
    print("| round | " + " | ".join(errors) + " |\n| ---: |" + " ---: |" * len(errors))
    for number in range(rounds):
        cells = [f"{each[number]:.0e}" if number < len(each) else "" for each in errors.values()]
        print(f"| {number + 1} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
