import pytest

from fedspca.experiments.methods import fit, model, rounds_to
from fedspca.experiments.watch import SimulatedFederation
from helpers.experiments import OWNERS


def test_a_fit_notes_each_loading_of_each_stage(rows):
    paper = model("FASPCA", "paper", 0, {"lam": 5.0, "rho": "auto", "init": "warm"})
    found = fit(paper, SimulatedFederation(rows, OWNERS, watch=True))
    assert found.converged
    assert len(found.alignments) == 2
    assert [curve[-1] for curve in found.alignments] == pytest.approx([1, 1], abs=1e-6)
    assert found.rounds > len(found.objectives) - 2 > 0
    assert sum(map(len, found.residuals)) == len(found.objectives)
    tol = paper.tol
    assert rounds_to(found.residuals, tol) == len(found.objectives)  # each stage stopped where it reached its tolerance
    assert 0 < rounds_to(found.residuals, 10 * tol) < len(found.objectives)
    assert rounds_to(found.residuals, 0.0) is None
