import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from fedspca import __version__
from fedspca.model import InvalidModel, SparsePCAModel
from fedspca.model.folder import ARRAYS
from helpers.study_files import NAMES, frame, make_rows


def resealed(saved, **changes):
    """A manifest that was changed by somebody who knows how it is sealed."""
    content = json.loads((saved / "manifest.json").read_text()) | changes
    content.pop("checksum", None)
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    content["checksum"] = hashlib.sha256(text).hexdigest()
    (saved / "manifest.json").write_text(json.dumps(content))
    return saved


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
    np.save(saved / "mean.npy", np.array([print], dtype=object), allow_pickle=True)
    arrays = json.loads((saved / "manifest.json").read_text())["arrays"]
    resealed(saved, arrays=arrays | {"mean": hashlib.sha256((saved / "mean.npy").read_bytes()).hexdigest()})
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


def test_a_folder_holds_numbers_and_a_manifest_that_others_may_read(saved):
    assert sorted(path.name for path in saved.iterdir()) == sorted(
        ["manifest.json", "basis.npy", *(f"{name}.npy" for name in ARRAYS)]
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


@pytest.mark.parametrize("array", [np.zeros(8, np.float32), np.full(8, np.nan), np.full(8, np.inf)])
def test_arrays_must_hold_finite_numbers_in_double_precision(saved, array):
    np.save(saved / "mean.npy", array)
    arrays = json.loads((saved / "manifest.json").read_text())["arrays"]
    arrays["mean"] = hashlib.sha256((saved / "mean.npy").read_bytes()).hexdigest()
    resealed(saved, arrays=arrays)
    with pytest.raises(InvalidModel, match=r"mean.npy must hold finite numbers in double"):
        SparsePCAModel.load(saved)


def test_what_a_manifest_says_comes_back(saved):
    resealed(saved, n_samples=91, facts={"note": 1}, feature_names=list("abcdefgh"))
    model = SparsePCAModel.load(saved)
    assert (model.n_samples, model.facts, model.feature_names) == (91, {"note": 1}, tuple("abcdefgh"))


@pytest.mark.parametrize("name", [*ARRAYS, "feature_names"])
def test_arrays_that_do_not_fit_together_are_refused(saved, name):
    if name == "feature_names":
        resealed(saved, feature_names=list("abcdefg"))
    else:
        array = np.load(saved / f"{name}.npy")
        np.save(saved / f"{name}.npy", array[..., :-1] if name != "components" else array[0])
        arrays = json.loads((saved / "manifest.json").read_text())["arrays"]
        resealed(saved, arrays=arrays | {name: hashlib.sha256((saved / f"{name}.npy").read_bytes()).hexdigest()})
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


def test_only_numbers_are_written(oblique, tmp_path):
    with pytest.raises(ValueError, match="Object arrays"):
        replace(oblique, mean=np.array([print] * 6, dtype=object)).save(tmp_path / "model")
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(oblique, facts={"gap": np.nan}).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
