from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedspca import FASPCA, ExactSPCA
from fedspca.model import InvalidModel, SparsePCAModel
from fedspca.model.estimator import plain
from helpers.study_files import frame, make_rows


def test_a_model_whose_rounds_speak_of_an_agreement_still_loads(tmp_path):
    # models written while the cosine between workers was called an agreement
    rows = frame(make_rows())
    fitted = FASPCA(1, lam=5.0, max_rounds=500).fit(rows, sites=np.arange(len(rows)) % 2)
    model = SparsePCAModel.from_estimator(fitted)
    history = [{"agreement" if k == "alignment" else k: v for k, v in r.items()} for r in model.facts["history"]]
    replace(model, facts={**model.facts, "history": history}).save(tmp_path / "old")
    again = SparsePCAModel.load(tmp_path / "old").to_estimator()
    assert [r.alignment for r in again.history_] == [r.alignment for r in fitted.history_]
    assert any(r.alignment is not None for r in again.history_)


def test_the_estimator_comes_back(fitted, saved):
    estimator = SparsePCAModel.load(saved).to_estimator()
    rows = frame(make_rows(seed=5))
    np.testing.assert_array_equal(estimator.transform(rows), fitted.transform(rows))
    assert estimator.get_params() == fitted.get_params()
    assert estimator.converged_ == fitted.converged_
    assert list(estimator.get_feature_names_out()) == list(fitted.get_feature_names_out())


def test_consensus_models_come_back_too(tmp_path):
    rows = make_rows()
    fitted = FASPCA(2, lam=[5.0, 6.0], scale=True, block_sizes=(1, 1)).fit(rows)
    SparsePCAModel.from_estimator(fitted).save(tmp_path / "model")
    estimator = SparsePCAModel.load(tmp_path / "model").to_estimator()
    np.testing.assert_array_equal(estimator.transform(rows), fitted.transform(rows))
    assert estimator.n_rounds_ == fitted.n_rounds_


def test_an_estimator_without_names_or_a_covariance_gives_a_model_all_the_same():
    fitted = ExactSPCA(2, n_nonzero=3, max_missing=0.1).fit(make_rows())
    model = SparsePCAModel.from_estimator(fitted)
    assert model.feature_names == tuple(f"x{j}" for j in range(8))
    assert np.array_equal(model.covariance, fitted.score_covariance_)
    assert model.facts["max_missing"] == 0.1
    assert model.facts["estimator"]["class"] == "ExactSPCA"
    assert model.facts["estimator"]["params"]["n_nonzero"] == 3
    assert "callbacks" not in model.facts["estimator"]["params"]
    assert model.facts["stop_reason"] == fitted.stop_reason_.value
    assert (model.n_samples, model.n_sites, model.total_variance) == (90, 1, fitted.total_variance_)
    assert len(model.facts["history"]) == fitted.n_rounds_
    assert all("seconds" not in record for record in model.facts["history"])
    given = SparsePCAModel.from_estimator(fitted, covariance=[[1, 0], [0, 2]])
    assert given.covariance.dtype == np.float64
    again = model.to_estimator()
    assert not hasattr(again, "feature_names_in_")
    for name in (
        "components_",
        "mean_",
        "scale_",
        "explained_variance_",
        "explained_variance_ratio_",
        "missing_share_",
        "score_covariance_",
        "captured_variance_ratio_",
    ):
        assert np.array_equal(getattr(again, name), getattr(fitted, name))
    for name in ("n_samples_", "n_sites_", "total_variance_", "n_features_in_", "objective_", "n_rounds_"):
        assert getattr(again, name) == getattr(fitted, name), name
    assert again.stop_reason_ is fitted.stop_reason_
    assert again.n_components_ == 2
    assert np.array_equal(again.constant_features_, fitted.constant_features_)
    again.components_[0] = 0.0
    assert model.components[0].any()  # the estimator has its own


def test_an_estimator_that_this_version_does_not_have_is_named(oblique):
    made = replace(oblique, facts={"estimator": {"class": "Magic", "params": {}}})
    with pytest.raises(InvalidModel, match="no estimator called 'Magic'"):
        made.to_estimator()


def test_settings_are_kept_as_json_can_hold_them():
    assert plain(None) is None
    assert [plain(value) for value in (True, 3, 2.5, "x")] == [True, 3, 2.5, "x"]
    assert type(plain(np.int64(3))) is int
    assert plain(np.array([1.0, 2.0])) == [1.0, 2.0]
    assert plain((1, [2, np.float64(3.0)])) == [1, [2, 3.0]]
    assert plain(object()) is NotImplemented
    assert plain([1, object()]) is NotImplemented
    assert plain({1, 2}) is NotImplemented


def test_what_is_proved_comes_back_with_the_estimator(fitted, saved):
    again = SparsePCAModel.load(saved).to_estimator()
    for name in ("upper_bound_", "optimality_gap_", "bound_is_dense_"):
        assert getattr(again, name) == getattr(fitted, name)


def test_the_share_of_missing_values_is_kept():
    rows = make_rows()
    rows[::4, 1] = np.nan
    fitted = ExactSPCA(2, n_nonzero=3, max_missing=0.5).fit(rows)
    model = SparsePCAModel.from_estimator(fitted)
    assert model.missing_share[1] == pytest.approx(np.isnan(rows[:, 1]).mean())
    assert model.facts["max_missing"] == 0.5


def test_how_rows_were_weighted_is_kept(tmp_path):
    rng = np.random.default_rng(0)
    x, about = rng.standard_normal((60, 5)), pd.DataFrame({"sex": ["F", "M"] * 30})
    fitted = ExactSPCA(2, n_nonzero=2).fit(
        x, sites=np.arange(60) % 3, covariates=about, sample_weight=rng.uniform(1, 2, 60)
    )
    model = SparsePCAModel.from_estimator(fitted)
    usual = {"adjust": ["sex"], "levels": {"sex": ["F", "M"]}, "centre": "joint", "scale_by": "joint"}
    assert model.facts["preparation"] == {**usual, "weight": "weight", "site_weight": "rows"}
    model = SparsePCAModel.from_estimator(fitted, covariate_variance=fitted.covariate_variance_)
    model.save(tmp_path / "model")
    again = SparsePCAModel.load(tmp_path / "model").to_estimator()
    assert again.covariate_variance_ == fitted.covariate_variance_ != {}
    settings = {"site_weight": "equal", "centre": "site", "scale_by": "site"}
    equal = ExactSPCA(2, n_nonzero=2).fit(x, sites=np.arange(60) % 3, **settings)
    model = SparsePCAModel.from_estimator(equal)
    assert model.facts["preparation"] == {"adjust": [], "levels": {}, "weight": None, **settings}
    assert model.facts["weight_factor"] == model.to_estimator().weight_factor_ == equal.weight_factor_ != 1.0


def test_what_a_fit_found_is_kept_under_its_name(fitted, saved):
    model = SparsePCAModel.load(saved)
    assert model.facts["converged"] is fitted.converged_ is True
    assert model.facts["spread"] == fitted.spread_.tolist()
    assert not {"callbacks", "verbose"} & set(model.facts["estimator"]["params"])
    again = model.to_estimator()
    assert np.array_equal(again.spread_, fitted.spread_)
    assert [record.seconds for record in again.history_] == [0.0] * fitted.n_rounds_
    assert (again.weight_factor_, again.covariate_variance_) == (1.0, {})
    without = SparsePCAModel.from_estimator(fitted)
    del without.facts["spread"]
    assert without.to_estimator() is not None


def test_facts_that_make_no_estimator_are_told(oblique):
    with pytest.raises(InvalidModel, match=r"facts of this model make no estimator \(KeyError\)"):
        oblique.to_estimator()
