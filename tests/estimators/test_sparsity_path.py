import sys

import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.experiments.data import sites_in_order


class TestPath:
    def test_over_lam(self, wdbc):
        model = ExactSPCA(2, scale=True)
        path = model.path(wdbc, lam=[100, 150, 200, 300, 400], sites=sites_in_order(569, 5))
        assert [point.setting for point in path] == [100, 150, 200, 300, 400]
        counts = [point.n_nonzeros for point in path]
        assert counts == sorted(counts, reverse=True)
        assert path.n_rounds <= 12 + 2 * 4
        direct = ExactSPCA(2, lam=300, scale=True).fit(wdbc)
        assert abs(path[3].n_nonzeros - np.count_nonzero(direct.components_)) <= 2
        assert np.abs(path[3].components - direct.components_).max() < 1e-2

    def test_over_non_zeros_and_ways_to_choose(self, wdbc):
        path = ExactSPCA(2, scale=True).path(wdbc[:, :60], n_nonzero=[2, 4, 8, 16])
        ratios = [point.explained_variance_ratio for point in path]
        assert ratios == sorted(ratios)
        assert path.choose("share", share=0.6).n_nonzeros < path.choose("share", share=0.85).n_nonzeros
        assert path.choose("knee") in path
        assert path.choose("bic") in path
        assert len(path.to_dict()["rounds"]) == 4
        with pytest.raises(ValueError, match="No solution of the path keeps 99%"):
            path.choose("share", share=0.99)
        with pytest.raises(ValueError, match="knee"):
            path.choose("luck")

    def test_without_matplotlib_the_extra_is_named(self, wdbc, monkeypatch):
        path = ExactSPCA(1, scale=True).path(wdbc[:, :10], n_nonzero=[2, 4])
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'fedspca\[reproduce\]'"):
            path.plot()

    def test_grids_that_do_not_fit_are_named(self, rows):
        with pytest.raises(ValueError, match="either 'lam' or 'n_nonzero'"):
            ExactSPCA().path(rows)
        with pytest.raises(ValueError, match="empty"):
            ExactSPCA().path(rows, lam=[])
