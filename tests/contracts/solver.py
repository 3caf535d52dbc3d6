"""What every solver must hold, whatever its mathematics."""

from abc import ABC, abstractmethod

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedspca import (
    ConstantFeatureWarning,
    LocalFederation,
    Policy,
    Round,
    Site,
    SiteRefusal,
    SparsePCAModel,
    StopFit,
    StopReason,
)
from fedspca.linalg.stiefel import orthonormality_error
from fedspca.metrics import reconstruction_error, recovery_error


def owners(n, k):
    return np.arange(n) * k // n


class SolverContract(ABC):
    """Inherit it in a test class, implement :meth:`make`, and name the penalty that makes loadings sparse."""

    penalty = "lam"

    @abstractmethod
    def make(self, n_components=2, *, penalty=0.0, **settings): ...

    @pytest.mark.parametrize("k", [1, 2, 7])
    @pytest.mark.parametrize("scale", [False, True])
    def test_no_penalty_gives_pcas_subspace(self, rows, k, scale):
        model = self.make(penalty=0.0, scale=scale, tol=1e-9).fit(rows, sites=owners(len(rows), k))
        table = StandardScaler().fit_transform(rows) if scale else rows
        dense = PCA(2, svd_solver="full").fit(table)
        assert np.sqrt(recovery_error(model.components_, dense.components_)) < 1e-6
        assert model.converged_

    @pytest.mark.parametrize("k", [1, 5])
    def test_loadings_are_sparse_and_orthonormal_with_fixed_signs(self, rows, k):
        model = self.make(penalty=60.0).fit(rows, sites=owners(len(rows), k))
        w = model.components_
        assert 0 < np.count_nonzero(w) < w.size
        assert orthonormality_error(w.T) < 1e-8
        assert all(row[np.argmax(np.abs(row))] > 0 for row in w)

    def test_a_larger_penalty_leaves_fewer_weights(self, rows):
        counts = [
            np.count_nonzero(self.make(penalty=lam).fit(rows, sites=owners(len(rows), 3)).components_)
            for lam in (0.0, 10.0, 40.0, 160.0, 640.0)
        ]
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] < counts[0]

    def test_the_order_of_sites_and_rows_does_not_matter(self, rows):
        sites = owners(len(rows), 4)
        model = self.make(penalty=20.0).fit(rows, sites=sites)
        shuffled = np.random.default_rng(0).permutation(len(rows))
        again = self.make(penalty=20.0).fit(rows[shuffled], sites=sites[shuffled])
        assert np.allclose(model.components_, again.components_, atol=1e-6)
        names = [f"s{3 - site}" for site in sites]  # the same parts, answering in another order
        renamed = self.make(penalty=20.0).fit(rows, sites=names)
        assert np.allclose(model.components_, renamed.components_, atol=1e-6)

    def test_the_same_fit_has_the_same_bits(self, rows):
        first, second = (self.make(penalty=20.0).fit(rows, sites=owners(len(rows), 4)) for _ in range(2))
        assert np.array_equal(first.components_, second.components_)

    @pytest.mark.parametrize("c", [1e-6, 1e-2, 1e4])
    def test_units_do_not_matter(self, rows, c):
        sites = owners(len(rows), 3)
        model = self.make(penalty=20.0).fit(rows, sites=sites)
        other = self.make(penalty=20.0 * c**2).fit(c * rows, sites=sites)
        assert np.allclose(model.components_, other.components_, atol=1e-6)

    def test_precision_and_sparsity_of_the_input_do_not_matter(self, rows):
        sites = owners(len(rows), 3)
        model = self.make(penalty=20.0).fit(rows, sites=sites)
        single = self.make(penalty=20.0).fit(rows.astype(np.float32), sites=sites)
        csr = self.make(penalty=20.0).fit(sp.csr_array(rows), sites=sites)
        assert np.allclose(model.components_, single.components_, atol=1e-4)
        assert np.allclose(model.components_, csr.components_, atol=1e-6)

    def test_explained_variance_is_that_of_the_scores(self, rows):
        model = self.make(penalty=30.0, scale=True).fit(rows, sites=owners(len(rows), 3))
        upper = np.linalg.qr(model.transform(rows), mode="r")
        assert np.allclose(model.explained_variance_, np.diag(upper) ** 2 / (len(rows) - 1), rtol=1e-8)
        assert np.allclose(model.explained_variance_ratio_, model.explained_variance_ / rows.shape[1], rtol=1e-8)

    def test_history_tells_of_every_round(self, rows):
        seen = []
        model = self.make(penalty=20.0, callbacks=[seen.append]).fit(rows, sites=owners(len(rows), 3))
        assert seen == model.history_
        assert [record.number for record in seen] == list(range(1, model.n_rounds_ + 1))
        assert all(isinstance(record, Round) and record.bytes_up > 0 for record in seen)
        assert np.isclose(seen[-1].objective, model.objective_)
        assert len(pd.DataFrame(seen)) == model.n_rounds_

    def test_a_callback_may_stop_it(self, rows):
        def enough(record):
            if record.objective is not None:
                raise StopFit

        model = self.make(penalty=20.0, callbacks=[enough]).fit(rows)
        assert model.stop_reason_ is StopReason.CALLBACK
        assert orthonormality_error(model.components_.T) < 1e-8

    def test_verbose_shows_a_bar(self, rows, capsys):
        self.make(penalty=20.0, verbose=1).fit(rows)
        shown = capsys.readouterr().err
        assert "round" in shown
        assert "non-zeros" in shown

    def test_scores_and_back(self, rows):
        model = self.make(n_components=12, scale=True).fit(rows)
        assert np.allclose(model.inverse_transform(model.transform(rows)), rows, atol=1e-8)
        assert np.isclose(model.score(rows), 1.0)
        few = self.make(scale=True).fit(rows)
        standardised = (rows - few.mean_) / few.scale_
        lost = reconstruction_error(standardised, few.components_) ** 2 / np.sum(standardised**2)
        assert np.isclose(few.score(rows), 1 - lost, rtol=1e-6)
        with pytest.raises(ValueError, match="2 components, got 3"):
            few.inverse_transform(np.zeros((1, 3)))

    def test_it_keeps_to_scikit_learns_ways(self, rows):
        frame = pd.DataFrame(rows, columns=[f"gene {j}" for j in range(12)])
        model = self.make(penalty=5.0).set_output(transform="pandas").fit(frame)
        assert list(model.feature_names_in_) == list(frame.columns)
        assert list(model.transform(frame).columns) == list(model.get_feature_names_out())
        assert clone(model).get_params() == model.get_params()
        pipeline = make_pipeline(StandardScaler(), self.make(penalty=5.0))
        assert pipeline.fit(frame).transform(frame).shape == (60, 2)
        with config_context(enable_metadata_routing=True):
            search = GridSearchCV(
                self.make().set_fit_request(sites=True),
                {self.penalty: [0.0, 1000.0]},
                cv=3,
                error_score="raise",
            )
            search.fit(rows, sites=owners(len(rows), 2))
        assert search.best_params_ == {self.penalty: 0.0}

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"n_components": 0}, "n_components"),
            ({"n_components": 13}, r"at most min\(n_samples, n_features\) = min\(60, 12\)"),
            ({"tol": 0.0}, "tol"),
            ({"max_rounds": 0}, "max_rounds"),
            ({"penalty": -1.0}, "lam"),
        ],
    )
    def test_bad_settings_are_named(self, rows, change, words):
        with pytest.raises(ValueError, match=words):
            self.make(**change).fit(rows)

    @pytest.mark.parametrize(
        ("spoil", "words"),
        [
            (lambda x: np.where(np.arange(12) == 3, np.nan, x), r"'1'.*'x3'"),
            (lambda x: np.full(x.shape, "tall"), "could not convert"),
            (lambda x: x[:1], "1 sample"),
            (lambda x: x[:0], "0 sample"),
            (lambda x: x[0], "2D array"),
            (np.ones_like, "constant over all sites"),
        ],
    )
    def test_bad_rows_are_named(self, rows, spoil, words):
        bad = spoil(rows)
        sites = np.ones(len(bad)) if bad.ndim == 2 else None
        with pytest.raises(ValueError, match=words):
            self.make().fit(bad, sites=None if sites is None else sites.astype(int))

    def test_sites_must_name_every_row(self, rows):
        with pytest.raises(ValueError, match="owner of each of the 60 rows"):
            self.make().fit(rows, sites=[1, 2])
        for missing in (None, float("nan"), pd.NA):
            with pytest.raises(ValueError, match="some are missing"):
                self.make().fit(rows, sites=["a", "b", missing] * 20)
        assert self.make().fit(rows, sites=["a", 1, 2.5] * 20).n_sites_ == 3

    def test_a_text_column_is_named(self, rows):
        table = pd.DataFrame(rows, columns=[f"gene {j}" for j in range(12)])
        table["gene 7"] = "tall"
        with pytest.raises(ValueError, match="'gene 7' is not numeric"):
            self.make().fit(table)

    def test_a_column_of_dates_is_named(self, rows):
        table = pd.DataFrame(rows, columns=[f"gene {j}" for j in range(12)])
        table["seen"] = pd.Timestamp("2020-01-01")
        with pytest.raises(ValueError, match="'seen' holds dates or times: leave it out"):
            self.make().fit(table)

    def test_new_rows_with_missing_values_are_told_what_would_allow_them(self, rows):
        table = pd.DataFrame(rows, columns=[f"gene {j}" for j in range(12)])
        gaps = table.copy()
        gaps.iloc[3, 5] = np.nan
        fitted = self.make().fit(table)
        for use in (fitted.transform, fitted.score):
            with pytest.raises(ValueError, match=r"NaN.* for example in 'gene 5', .* fit with max_missing"):
                use(gaps)
        with pytest.raises(ValueError, match=r"NaN.* for example in 'x5'"):
            self.make().fit(rows).transform(sp.csr_array(gaps.to_numpy()))

    def test_masked_values_are_missing_values(self, rows):
        masked = np.ma.masked_array(rows, mask=np.zeros(rows.shape, dtype=bool))
        fitted = self.make().fit(masked)
        assert np.array_equal(fitted.components_, self.make().fit(rows).components_)
        masked[0, 2] = np.ma.masked
        for use in (fitted.fit, fitted.transform, SparsePCAModel.from_estimator(fitted).transform):
            with pytest.raises(ValueError, match="NaN"):
                use(masked)
        with pytest.raises(ValueError, match="NaN"):
            Site("a", masked)

    def test_a_sparse_frame_may_leave_out_other_values_than_zero(self, rows):
        rounded = np.round(rows)
        columns = {f"x{j}": pd.arrays.SparseArray(column, fill_value=1.0) for j, column in enumerate(rounded.T)}
        same = self.make().fit(pd.DataFrame(columns)).components_
        assert np.array_equal(same, self.make().fit(rounded).components_)

    def test_true_is_no_number(self, rows):
        with pytest.raises(ValueError, match=r"'n_components' .* must be a whole number .* Got True instead"):
            self.make(n_components=True).fit(rows)

    def test_a_model_of_what_is_not_fitted_is_refused_in_words(self):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            SparsePCAModel.from_estimator(self.make())

    def test_what_is_not_a_federation_is_said(self, rows):
        with pytest.raises(TypeError, match="LocalFederation"):
            self.make().fit_federation([Site("a", rows)])
        with pytest.raises(TypeError, match="callable"):
            self.make(callbacks=[3]).fit(rows)

    def test_a_refit_forgets_the_first(self, rows):
        model = self.make().fit(pd.DataFrame(rows, columns=[f"gene {j}" for j in range(12)]))
        model.fit_federation(LocalFederation([Site("a", rows[:, :5])]))
        assert model.n_features_in_ == 5
        assert not hasattr(model, "feature_names_in_")
        assert model.transform(rows[:, :5]).shape == (60, 2)

    @pytest.mark.parametrize("c", [1e80, 1e-100])
    def test_values_beyond_the_numbers_are_said(self, rows, c):
        with pytest.raises(ValueError, match=r"too large|so small"):
            self.make().fit(c * rows)

    def test_constant_features_are_said_and_get_no_weight(self, rows):
        rows[:, 5] = 0.1
        with pytest.warns(ConstantFeatureWarning, match="x5"):
            model = self.make(penalty=1.0, scale=True).fit(rows, sites=owners(len(rows), 3))
        assert list(model.constant_features_) == [5]
        assert np.all(model.components_[:, 5] == 0.0)
        with (
            pytest.warns(ConstantFeatureWarning),
            pytest.raises(ValueError, match=r"min\(60, 11\) \(features that vary"),
        ):
            self.make(12).fit(rows)
        assert model.scale_[5] == 1.0

    def test_a_feature_that_varies_only_between_sites_varies(self, rows):
        rows[:, 5] = owners(len(rows), 3)  # constant at each site
        model = self.make(penalty=1.0, scale=True).fit(rows, sites=owners(len(rows), 3))
        assert np.isclose(model.scale_[5], rows[:, 5].std(ddof=1))
        assert np.allclose(model.mean_, rows.mean(axis=0))

    def test_sites_may_hold_fewer_rows_than_components(self, rows):
        model = self.make(penalty=20.0).fit(rows)
        split = self.make(penalty=20.0).fit(rows, sites=np.arange(len(rows)))  # one row each
        assert split.n_sites_ == 60
        assert np.isclose(split.objective_, model.objective_, rtol=1e-4)

    def test_a_refusal_reaches_the_coordinator(self, rows):
        sites = [Site("open", rows[:50]), Site("closed", rows[50:], policy=Policy(min_rows=30))]
        with pytest.raises(SiteRefusal, match=r"'closed'.*fewer rows than the 30"):
            self.make().fit_federation(LocalFederation(sites))

    def test_a_small_spread_about_a_large_mean_is_a_spread(self):
        x = np.random.default_rng(0).standard_normal((5000, 4)) * 0.05
        model = self.make(1, scale=True).fit(x + 1.7e9, sites=owners(5000, 3))
        assert not len(model.constant_features_)
        assert np.allclose(model.scale_, (x + 1.7e9).std(axis=0, ddof=1), rtol=1e-6)
