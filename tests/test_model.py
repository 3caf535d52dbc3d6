import csv
import hashlib
import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedspca import FASPCA, ExactSPCA, __version__
from fedspca.linalg.beside import NOTHING
from fedspca.model import (
    InvalidModel,
    SparsePCAModel,
    _plain,
    certainty_in_words,
    feature_certainty,
    replace_preparation,
)
from fedspca.site.preparation import Own, Preparation, own_view
from helpers.study_files import NAMES, frame, make_rows


@pytest.fixture(scope="module")
def fitted():
    rows = frame(make_rows())
    return ExactSPCA(2, n_nonzero=3, scale=True).fit(rows, sites=np.arange(len(rows)) % 3)


@pytest.fixture
def saved(fitted, tmp_path):
    SparsePCAModel.from_estimator(fitted, note="größe").save(tmp_path / "model")
    return tmp_path / "model"


def test_a_model_comes_back_as_it_was(fitted, saved):
    model = SparsePCAModel.load(saved)
    rows = make_rows(seed=5)
    np.testing.assert_allclose(model.transform(rows), fitted.transform(frame(rows)), atol=1e-10)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(rows)),
        fitted.inverse_transform(fitted.transform(frame(rows))),
        atol=1e-9,
    )
    assert model.feature_names == tuple(NAMES)
    assert model.nonzeros == [3, 3]
    assert model.facts["note"] == "größe"
    explained = 1 - model.reconstruction_errors(rows).sum() / np.sum(model.standardised(rows) ** 2)
    assert explained == pytest.approx(fitted.score(frame(rows)))


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


def test_the_same_fit_is_the_same_bytes(fitted, saved, tmp_path):
    SparsePCAModel.from_estimator(fitted, note="größe").save(tmp_path / "again")
    for file in sorted(saved.iterdir()):
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


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


@pytest.mark.parametrize("file", ["manifest.json", "components.npy", "mean.npy"])
def test_a_changed_byte_is_found(saved, file):
    content = bytearray((saved / file).read_bytes())
    content[len(content) - 9] ^= 1
    (saved / file).write_bytes(content)
    with pytest.raises(InvalidModel, match=file):
        SparsePCAModel.load(saved)


def test_foreign_missing_and_newer_models_are_refused_clearly(saved, tmp_path):
    with pytest.raises(InvalidModel, match="not a model"):
        SparsePCAModel.load(tmp_path)
    (saved / "scale.npy").unlink()
    with pytest.raises(InvalidModel, match=r"not complete; scale.npy"):
        SparsePCAModel.load(saved)
    content = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps({**content, "format_version": 9}))
    with pytest.raises(InvalidModel, match="format 9"):
        SparsePCAModel.load(saved)
    (saved / "manifest.json").write_text(json.dumps({"format": "other"}))
    with pytest.raises(InvalidModel, match="not written by fedspca"):
        SparsePCAModel.load(saved)
    (saved / "manifest.json").write_text("{")
    with pytest.raises(InvalidModel, match="not JSON"):
        SparsePCAModel.load(saved)


def test_pickles_are_never_opened(saved):
    import hashlib

    from fedspca import model as module

    np.save(saved / "mean.npy", np.array([print], dtype=object), allow_pickle=True)
    content = json.loads((saved / "manifest.json").read_text())
    del content["checksum"]
    content["arrays"]["mean"] = hashlib.sha256((saved / "mean.npy").read_bytes()).hexdigest()
    content["checksum"] = module._checksum(module._canonical(content))
    (saved / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(InvalidModel, match="damaged"):
        SparsePCAModel.load(saved)


def test_nothing_else_is_written_over(fitted, saved, tmp_path):
    model = SparsePCAModel.from_estimator(fitted)
    with pytest.raises(FileExistsError, match="--force"):
        model.save(saved)
    model.save(saved, overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="something else"):
        model.save(tmp_path / "mine", overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "model"]


def test_rows_must_fit(saved):
    model = SparsePCAModel.load(saved)
    with pytest.raises(ValueError, match="8 features"):
        model.transform(np.zeros((2, 7)))
    with pytest.raises(ValueError, match=r"missing values.*'f2'"):
        model.transform(np.where(np.arange(8) == 2, np.nan, 1.0)[None])
    with pytest.raises(ValueError, match="infinity"):
        model.transform(np.full((1, 8), np.inf))


def test_the_loadings_as_csv(fitted, saved, tmp_path):
    import pandas as pd

    SparsePCAModel.load(saved).to_csv(tmp_path / "loadings.csv")
    table = pd.read_csv(tmp_path / "loadings.csv", index_col="feature")
    np.testing.assert_array_equal(table.to_numpy().T, fitted.components_)
    shutil.rmtree(saved)


# -- the numbers, by definition ----------------------------------------------------------------------------------------


@pytest.fixture
def oblique():
    """Components that are neither orthogonal nor of length one."""
    rng = np.random.default_rng(1)
    components = rng.standard_normal((3, 6))
    components[0, :3] = 0.0
    spread = rng.standard_normal((3, 3))
    return SparsePCAModel(
        components=components,
        mean=rng.standard_normal(6),
        scale=rng.uniform(0.5, 2.0, 6),
        explained_variance=np.array([3.0, 2.0, 1.0]),
        explained_variance_ratio=np.array([0.3, 0.2, 0.1]),
        missing_share=np.zeros(6),
        covariance=spread @ spread.T,
        feature_names=tuple("abcdef"),
        n_samples=20,
        n_sites=2,
        total_variance=10.0,
    )


def test_scores_of_oblique_components_give_the_rows_of_their_span_back(oblique):
    """With Wᵀ in the place of the pseudo-inverse, rows would come back stretched and mixed."""
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((7, 3))
    rows = (weights @ oblique.components) * oblique.scale + oblique.mean
    scores = oblique.transform(rows)
    assert np.allclose(scores, weights @ oblique.components @ oblique.components.T)
    assert np.allclose(oblique.inverse_transform(scores), rows)
    assert np.allclose(oblique.inverse_transform(scores.tolist()), rows)
    assert oblique.reconstruction_errors(rows).max() < 1e-20


def test_of_other_rows_the_nearest_of_the_span_come_back_and_the_rest_is_the_error(oblique):
    rows = np.random.default_rng(3).standard_normal((7, 6))
    back = oblique.inverse_transform(oblique.transform(rows))
    left = (rows - back) / oblique.scale
    assert np.allclose(left @ oblique.components.T, 0.0)
    assert np.allclose(oblique.reconstruction_errors(rows), (left**2).sum(axis=1))
    assert np.allclose(oblique.standardised(rows), (rows - oblique.mean) / oblique.scale)


def test_what_the_span_captures_does_not_depend_on_its_basis(oblique):
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((200, 6))
    scores = rows @ oblique.components.T
    basis = np.linalg.qr(oblique.components.T)[0]
    found = replace(oblique, covariance=scores.T @ scores, total_variance=np.sum(rows**2)).captured_ratio
    assert found == pytest.approx(np.sum((rows @ basis) ** 2) / np.sum(rows**2))


def test_counts_and_correlations(oblique):
    assert oblique.n_components == 3
    assert oblique.nonzeros == [3, 6, 6]
    spread = np.sqrt(np.diag(oblique.covariance))
    expected = oblique.covariance / np.outer(spread, spread)
    assert np.allclose(oblique.correlation, expected)
    assert np.allclose(np.diag(oblique.correlation), 1.0)
    silent = replace(oblique, covariance=np.diag([4.0, 0.0, 1.0]))
    assert np.array_equal(silent.correlation, np.eye(3))


def test_missing_values_stand_at_the_mean_where_they_were_allowed(oblique):
    allowed = replace(oblique, facts={"max_missing": 0.2})
    rows = np.random.default_rng(5).standard_normal((4, 6))
    rows[1, 2] = np.nan
    assert allowed.standardised(rows)[1, 2] == 0.0
    assert np.allclose(
        np.delete(allowed.standardised(rows), 1, axis=0),
        np.delete(oblique.standardised(np.nan_to_num(rows)), 1, axis=0),
    )
    for facts in ({}, {"max_missing": 0.0}):
        with pytest.raises(ValueError, match="for example in 'c', and the model was fitted without"):
            replace(oblique, facts=facts).standardised(rows)


@pytest.mark.parametrize("rows", [np.zeros(6), np.zeros((2, 5)), np.zeros((2, 7)), np.zeros((1, 2, 6))])
def test_rows_of_another_shape_are_refused(oblique, rows):
    with pytest.raises(ValueError, match=r"model's 6 features. Got shape \("):
        oblique.standardised(rows)


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
    assert _plain(None) is None
    assert [_plain(value) for value in (True, 3, 2.5, "x")] == [True, 3, 2.5, "x"]
    assert type(_plain(np.int64(3))) is int
    assert _plain(np.array([1.0, 2.0])) == [1.0, 2.0]
    assert _plain((1, [2, np.float64(3.0)])) == [1, [2, 3.0]]
    assert _plain(object()) is NotImplemented
    assert _plain([1, object()]) is NotImplemented
    assert _plain({1, 2}) is NotImplemented


def test_a_folder_holds_numbers_and_a_manifest_that_others_may_read(saved):
    assert sorted(path.name for path in saved.iterdir()) == sorted(
        ["manifest.json", "basis.npy", *(f"{name}.npy" for name in SparsePCAModel.ARRAYS)]
    )
    assert saved.stat().st_mode & 0o777 == 0o755
    text = (saved / "manifest.json").read_bytes()
    assert text.endswith(b"}\n")
    assert text.isascii()
    content = json.loads(text)
    assert (content["format"], content["format_version"]) == ("fedspca-model", 1)
    assert content["fedspca_version"] == __version__
    assert text.decode().splitlines()[1] == ' "format": "fedspca-model",'
    for name, checksum in content["arrays"].items():
        assert hashlib.sha256((saved / f"{name}.npy").read_bytes()).hexdigest() == checksum


def resigned(saved, **changes):
    """A manifest that was changed by somebody who knows how it is sealed."""
    content = json.loads((saved / "manifest.json").read_text()) | changes
    content.pop("checksum", None)
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    content["checksum"] = hashlib.sha256(text).hexdigest()
    (saved / "manifest.json").write_text(json.dumps(content))


@pytest.mark.parametrize("array", [np.zeros(8, np.float32), np.full(8, np.nan), np.full(8, np.inf)])
def test_arrays_must_hold_finite_numbers_in_double_precision(saved, array):
    np.save(saved / "mean.npy", array)
    arrays = json.loads((saved / "manifest.json").read_text())["arrays"]
    arrays["mean"] = hashlib.sha256((saved / "mean.npy").read_bytes()).hexdigest()
    resigned(saved, arrays=arrays)
    with pytest.raises(InvalidModel, match=r"mean.npy must hold finite numbers in double"):
        SparsePCAModel.load(saved)


def test_what_a_manifest_says_comes_back(saved):
    resigned(saved, n_samples=91, facts={"note": 1}, feature_names=list("abcdefgh"))
    model = SparsePCAModel.load(saved)
    assert (model.n_samples, model.facts, model.feature_names) == (91, {"note": 1}, tuple("abcdefgh"))


@pytest.mark.parametrize("name", ["=x", "+x", "-x", "@x", "\tx", "\rx", "x=", "'x"])
def test_names_that_a_spreadsheet_would_compute_get_an_apostrophe(oblique, tmp_path, name):
    made = replace(oblique, feature_names=(name, *"bcdef"))
    made.to_csv(tmp_path / "loadings.csv")
    with (tmp_path / "loadings.csv").open(newline="", encoding="utf-8") as file:
        header, first, *_ = csv.reader(file)
    assert header == ["feature", "component 1", "component 2", "component 3"]
    assert first[0] == (f"'{name}" if name[0] in "=+-@\t\r" else name)
    assert [float(weight) for weight in first[1:]] == oblique.components[:, 0].tolist()


@pytest.mark.parametrize("name", [*SparsePCAModel.ARRAYS, "feature_names"])
def test_arrays_that_do_not_fit_together_are_refused(saved, name):
    if name == "feature_names":
        resigned(saved, feature_names=list("abcdefg"))
    else:
        array = np.load(saved / f"{name}.npy")
        np.save(saved / f"{name}.npy", array[..., :-1] if name != "components" else array[0])
        arrays = json.loads((saved / "manifest.json").read_text())["arrays"]
        resigned(saved, arrays=arrays | {name: hashlib.sha256((saved / f"{name}.npy").read_bytes()).hexdigest()})
    with pytest.raises(InvalidModel, match="do not fit together"):
        SparsePCAModel.load(saved)


def test_a_model_is_written_into_an_empty_folder_and_over_nothing_else(oblique, tmp_path):
    (tmp_path / "empty").mkdir()
    oblique.save(tmp_path / "empty")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="something else is there"):
        oblique.save(tmp_path / "file", overwrite=True)
    with pytest.raises(FileExistsError, match="there is a model already"):
        oblique.save(tmp_path / "empty")
    assert np.array_equal(SparsePCAModel.load(tmp_path / "empty").components, oblique.components)


@pytest.mark.parametrize("content", ["[]", "3", '{"format": "other", "format_version": 1}'])
def test_a_manifest_of_something_else_is_refused(saved, content):
    (saved / "manifest.json").write_text(content)
    with pytest.raises(InvalidModel, match="not written by fedspca"):
        SparsePCAModel.load(saved)
    (saved / "manifest.json").write_bytes('{"größe": 1}'.encode())
    with pytest.raises(InvalidModel, match="not JSON"):
        SparsePCAModel.load(saved)


def test_an_adjusted_model_is_kept_and_used_with_its_covariates(tmp_path):
    rng = np.random.default_rng(0)
    x, known = rng.standard_normal((60, 5)), {"age": rng.normal(50, 9, 60)}
    x[:, 0] += known["age"]
    about = pd.DataFrame(known)
    for centre in ("joint", "site"):
        fitted = ExactSPCA(2, n_nonzero=2, scale=True).fit(x, covariates=about, centre=centre)
        folder = tmp_path / centre
        SparsePCAModel.from_estimator(fitted).save(folder)
        assert json.loads((folder / "manifest.json").read_text())["format_version"] == 2
        model = SparsePCAModel.load(folder)
        lines = model.preparation.design.encode("new", about)
        assert np.allclose(model.transform(x, covariates=lines), fitted.transform(x, covariates=about), atol=1e-12)
        back = model.to_estimator()
        assert np.allclose(back.transform(x, covariates=about), fitted.transform(x, covariates=about), atol=1e-12)
        with pytest.raises(ValueError, match="adjusted for age: new rows need"):
            model.transform(x)
        with pytest.raises(ValueError, match="must have the shape"):
            model.transform(x, covariates=lines[:3])
    plain = SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=2).fit(x))
    assert plain.adjusted() == []
    with pytest.raises(ValueError, match="the model knows none"):
        plain.transform(x, covariates=lines)


def resealed(saved, **changes):
    """Change a manifest, and put the right checksum on it, as no damage does."""
    from fedspca import model as module

    content = {**json.loads((saved / "manifest.json").read_text()), **changes}
    del content["checksum"]
    content["checksum"] = module._checksum(module._canonical(content))
    (saved / "manifest.json").write_text(json.dumps(content))
    return saved


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"feature_names": [1, 2]}, "names or facts"),
        ({"facts": []}, "names or facts"),
        ({"n_sites": "three"}, "numbers"),
        ({"total_variance": True}, "numbers"),
    ],
)
def test_names_facts_and_numbers_of_another_kind_are_refused(saved, changes, words):
    with pytest.raises(InvalidModel, match=f"{words} of this model are not as fedspca writes them"):
        SparsePCAModel.load(resealed(saved, **changes))


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, None),
        ({"optimality_gap": 1e-6}, "It is proved that no loadings with as few non-zeros are better."),
        ({"optimality_gap": 1.5e-6}, "as few non-zeros are better by more than 0.001 %."),
        ({"optimality_gap": 0.00099}, "better by more than 0.099 %."),
        ({"optimality_gap": 0.001}, "better by more than 0.1 %."),
        ({"optimality_gap": 0.00151}, "better by more than 0.2 %."),
        (
            {"optimality_gap": 0.0234, "bound_is_dense": True},
            "more than dense PCA, which captures at most 2.4 % more than these.",
        ),
    ],
)
def test_a_model_says_what_is_proved_and_rounds_a_gap_up(oblique, facts, told):
    said = replace(oblique, facts=facts).optimality()
    assert said is None if told is None else said.endswith(told)


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


def test_a_model_says_what_was_taken_out_before_the_fit(oblique):
    adjusted = {"preparation": {"adjust": ["age", "bmi"]}, "covariate_variance": {"all": 0.3, "age": 0.2, "bmi": 0.05}}
    assert replace(oblique, facts=adjusted).adjusted() == [
        (
            "Taken out of the features: age, bmi. Together they explain 30.0% of the variance; "
            "each beyond the others: age 20.0%, bmi 5.0%."
        )
    ]
    own = {"centre": "site", "scale_by": "site", "weight": "w", "site_weight": "equal"}
    shares = {"before": 0.25, "after": 0.125}
    assert replace(oblique, facts={"preparation": own, "between_sites": shares}).adjusted() == [
        "Each site's rows were seen about its own mean, divided by its own spread.",
        "Rows counted as often as their weights say.",
        "Every site counted alike, however many rows it has.",
        "25.0% of the variance lay between the sites' means before, and 12.5% after.",
    ]
    assert replace(oblique, facts={"preparation": {"centre": "site"}}).adjusted() == [
        "Each site's rows were seen about its own mean."
    ]
    assert replace(oblique, facts={"between_sites": shares}).adjusted() == [
        "25.0% of the variance lay between the sites' means."
    ]
    some = {"preparation": {"adjust": ["age", "bmi"]}, "covariate_variance": {"all": 0.3, "age": 0.2}}
    assert replace(oblique, facts=some).adjusted()[0].endswith("each beyond the others: age 20.0%.")


def test_rows_are_seen_about_their_sites_own_mean_and_spread(oblique):
    rows = np.random.default_rng(5).standard_normal((9, 6)) * 3 + 7
    own = Own(np.full(6, 7.0), np.full(6, 4.0))
    expected = ((rows - 7.0) / 4.0 - oblique.mean) / oblique.scale
    assert np.allclose(oblique.standardised(rows, own=own), expected)
    facts = {"max_missing": 0.2, "preparation": {"centre": "site", "scale_by": "site"}}
    made = replace(oblique, facts=facts)
    assert np.allclose(made.standardised(rows, own=own), expected)
    rows[1, 2] = np.nan  # of these rows themselves where nothing else is given, and of the values that are there
    own = own_view(rows, NOTHING, Preparation(centre="site", scale="site"), missing=True)
    assert np.allclose(own.scale, np.nanstd(rows, axis=0, ddof=1))
    expected = ((rows - np.nanmean(rows, axis=0)) / own.scale - oblique.mean) / oblique.scale
    assert np.allclose(made.standardised(rows), np.where(np.isnan(rows), 0.0, expected))


def test_all_covariates_that_were_taken_out_are_named(oblique):
    adjustment = {"covariate_mean": np.zeros(2), "coefficients": np.zeros((2, 6))}
    made = replace(oblique, facts={"preparation": {"adjust": ["age", "bmi"]}}, **adjustment)
    with pytest.raises(ValueError, match="adjusted for age, bmi: new rows need"):
        made.transform(np.zeros((2, 6)))


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


def test_only_numbers_are_written(oblique, tmp_path):
    with pytest.raises(ValueError, match="Object arrays"):
        replace(oblique, mean=np.array([print] * 6, dtype=object)).save(tmp_path / "model")
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(oblique, facts={"gap": np.nan}).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_preparation_is_replaced_in_part(oblique):
    made = replace(oblique, facts={"note": 1, "preparation": {"adjust": ["age"], "centre": "site"}})
    changed = replace_preparation(made, centre="joint")
    assert changed.facts == {"note": 1, "preparation": {"adjust": ["age"], "centre": "joint"}}
    assert made.facts["preparation"]["centre"] == "site"
    assert replace_preparation(oblique, centre="site").facts == {"preparation": {"centre": "site"}}


def test_what_half_samples_say_is_told_in_words(oblique):
    """Features a, b and c have no weight in the first component; d, e and f have one."""
    frequencies = {0: 0.2, 1: 0.4, 2: 0.3, 3: 0.95, 4: 0.9, 5: 0.5}
    features = [{"feature": j, "frequency": share, "stable": share >= 0.9} for j, share in frequencies.items()]
    stand_ins = [[3, 1, 0.876], [4, 2, -0.7], [5, 0, 0.6], [5, 1, 0.5]]
    about = {"features": features, "threshold": 0.9, "false_selections": 0.125, "stand_ins": stand_ins}
    empty = {"features": features[3:], "threshold": 0.9, "false_selections": 0.125, "stand_ins": []}
    model = replace(oblique, facts={"certainty": {"components": [about, empty, empty]}})
    first = [
        "2 feature(s) are stable: at least 90% of the half samples select them.",
        "At most 0.12 of these would be expected by chance alone.",
    ]
    assert certainty_in_words(model, 0) == [
        *first,
        "Not selected, but in some half samples: b (40%), c (30%), a (20%).",
        "b stands in for d in some half samples (correlation 0.88).",
        "c stands in for e in some half samples (correlation -0.70).",
        "a stands in for f in some half samples (correlation 0.60).",
    ]
    assert certainty_in_words(model, 0, most=1)[2:] == [
        "Not selected, but in some half samples: b (40%).",
        "b stands in for d in some half samples (correlation 0.88).",
    ]
    assert certainty_in_words(model, 1) == first  # nothing missed, nothing that stands in
    assert feature_certainty(model, 0)[3] == features[3]
    assert certainty_in_words(oblique, 0) == []
    assert feature_certainty(oblique, 0) == {}
