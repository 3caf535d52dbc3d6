"""What every method of the literature must hold: the pooled answer, whatever the sites, plain or masked."""

import warnings
from abc import ABC, abstractmethod

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from contracts.solver import owners
from fedspca import Site, secure_federation


def apart(found, expected):
    """The largest difference between loadings, whatever their signs."""
    signs = np.sign(np.sum(found * expected, axis=1, keepdims=True))
    return float(np.abs(found - signs * expected).max())


STEPS = 12  # a method and its reference take as many, converged or not: so all of them are compared
FEW = {"max_rounds": STEPS, "tol": 1e-300}


def centred(rows):
    return rows - rows.mean(axis=0)


class RowsContract(ABC):
    """Inherit it and implement :meth:`make`: rows that cannot be analysed are refused, with where and why."""

    sees_constants = True

    @abstractmethod
    def make(self, **settings): ...

    @pytest.mark.parametrize(
        ("spoil", "words"),
        [
            (lambda x: np.where(np.arange(12) == 3, np.nan, x), r"'1'.*'x3'"),
            (lambda x: x[:1], "1 sample"),
        ],
    )
    def test_bad_rows_are_named(self, rows, spoil, words):
        bad = spoil(rows)
        with pytest.raises(ValueError, match=words):
            self.make().fit(bad, sites=np.ones(len(bad), dtype=int))

    def test_rows_without_any_variance_are_refused(self, rows):
        if self.sees_constants:
            with pytest.raises(ValueError, match="constant over all sites"):
                self.make().fit(np.ones_like(rows), sites=np.ones(len(rows), dtype=int))


class LiteratureContract(RowsContract):
    """Inherit it, implement :meth:`make` and :meth:`reference`."""

    tolerance = 1e-8
    distance = staticmethod(apart)

    @abstractmethod
    def reference(self, a):
        """Loadings (r × d) of the pooled, centred rows, written in numpy from the source."""

    @pytest.fixture(autouse=True)
    def _quiet(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            yield

    def test_it_is_the_pooled_reference_whatever_the_number_of_sites(self, rows):
        expected = self.reference(centred(rows))
        for k in (1, 3, 10):
            model = self.make().fit(rows, sites=owners(len(rows), k))
            assert self.distance(model.components_, expected) < self.tolerance
            assert np.allclose(np.linalg.norm(model.components_, axis=1), 1.0)

    def test_masks_change_nothing(self, rows):
        parts = owners(len(rows), 3)
        plain = self.make().fit(rows, sites=parts)
        masked = self.make().fit_federation(secure_federation([Site(f"s{k}", rows[parts == k]) for k in range(3)]))
        assert self.distance(masked.components_, plain.components_) < max(self.tolerance, 1e-7)

    def test_it_has_scikit_learns_shape(self, rows):
        model = self.make(scale=True)
        assert clone(model).get_params() == model.get_params()
        assert model.fit(rows).transform(rows).shape == (60, len(model.components_))
        assert model.n_rounds_ == len(model.history_)
        assert model.reveals
