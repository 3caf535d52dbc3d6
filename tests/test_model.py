import json
import shutil

import numpy as np
import pytest

from fedspca import FASPCA, ExactSPCA
from fedspca.model import InvalidModel, SparsePCAModel
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
    with pytest.raises(ValueError, match="allow_pickle"):
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
