import io

import numpy as np
import pytest

from fedspca import ExactSPCA, ExactState, LocalFederation, Site


def saved(state):
    """Through a file and back, without pickle."""
    buffer = io.BytesIO()
    np.savez(buffer, **state.to_arrays())
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as arrays:
        return ExactState.from_arrays(dict(arrays))


@pytest.mark.parametrize("sparsity", [{"lam": 60.0}, {"n_nonzero": 4}, {"variance_kept": 0.9}])
def test_a_fit_interrupted_anywhere_goes_on_to_the_same_bits(rows, sparsity):
    def federation():
        return LocalFederation([Site("a", rows[:25]), Site("b", rows[25:])])

    states = []
    sparsity = {**sparsity, "search": "products"}
    whole = ExactSPCA(3, **sparsity).fit_federation(federation(), on_state=states.append)
    assert len(states) >= 3
    for state in states[:-1]:
        again = ExactSPCA(3, **sparsity).fit_federation(federation(), state=saved(state))
        assert again.components_.tobytes() == whole.components_.tobytes()
        assert again.n_rounds_ == whole.n_rounds_ - 2 - state.loop.round  # and nothing is asked twice
    once = ExactSPCA(3, **sparsity).fit_federation(federation(), state=saved(whole.state_))
    assert once.n_rounds_ == 1
    assert np.allclose(once.components_, whole.components_, atol=1e-10)


def test_a_state_of_another_fit_is_refused(rows):
    federation = LocalFederation([Site("a", rows)])
    state = ExactSPCA(2, lam=60.0, search="products").fit_federation(federation).state_
    with pytest.raises(ValueError, match="other settings"):
        ExactSPCA(2, lam=61.0, search="products").fit_federation(federation, state=state)
    arrays = state.to_arrays()
    flat, short = arrays["factors"].ravel(), arrays["factors_widths"][:-1]
    for damage in ({"factors": flat}, {"factors_widths": short}):
        with pytest.raises(ValueError, match="not a saved state"):
            ExactState.from_arrays(arrays | damage)
    del arrays["mean"]
    with pytest.raises(ValueError, match="not a saved state"):
        ExactState.from_arrays(arrays)
