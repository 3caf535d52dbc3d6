import numpy as np
import pytest
import scipy.sparse as sp

from fedspca import ExactSPCA
from fedspca.data.transforms import transformed
from fedspca.fit import FitSettings, fit_files
from fedspca.model import SparsePCAModel
from fedspca.site import InvalidData
from helpers.commands import fedspca
from helpers.study_files import NAMES, frame

COUNTS = np.random.default_rng(0).poisson(np.linspace(1, 30, 8), (90, 8)).astype(float)


def normalised(counts):
    return np.log1p(1e4 * counts / counts.sum(axis=1, keepdims=True))


def test_dense_and_sparse_rows_are_transformed_alike():
    sparse = transformed("here", sp.csr_array(COUNTS), ["library", "log1p"])
    assert sp.issparse(sparse)
    assert np.allclose(sparse.toarray(), normalised(COUNTS))
    assert np.allclose(transformed("here", COUNTS, ["library", "log1p"]), normalised(COUNTS))
    gap = COUNTS[:2].copy()
    gap[0, 0] = np.nan
    assert np.isclose(np.nansum(transformed("here", gap, ["library"])[0]), 1e4)
    logs = np.log(COUNTS + 1)
    assert np.allclose(transformed("here", COUNTS + 1, ["clr"]), logs - logs.mean(axis=1, keepdims=True))


@pytest.mark.parametrize("in_memory", [None, 0])
def test_files_are_transformed_row_by_row_and_so_are_new_rows(tmp_path, monkeypatch, in_memory):
    if in_memory is not None:
        monkeypatch.setattr("fedspca.data.prepare.IN_MEMORY", in_memory)
    monkeypatch.chdir(tmp_path)
    for name, part in zip("abc", np.split(COUNTS, 3), strict=True):
        frame(part).to_csv(tmp_path / f"{name}.csv", index=False)
    settings = FitSettings(
        files=("a.csv", "b.csv", "c.csv"), nonzero=3, path=False, transform=("library", "log1p"), cache="cache"
    )
    model = fit_files(settings)
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(normalised(COUNTS))
    assert np.allclose(model.components, here.components_, atol=1e-8)
    model.save(tmp_path / "m")
    assert fedspca("transform", "m", "b.csv", "-o", "s.npy").code == 0
    kept = SparsePCAModel.load(tmp_path / "m")
    assert np.allclose(np.load("s.npy"), here.transform(normalised(COUNTS[30:60])), atol=1e-8)
    assert len(kept.feature_names) == len(NAMES)


@pytest.mark.parametrize(
    ("rows", "names", "told"),
    [
        (COUNTS, ["root"], "no transform 'root'; there are library, log1p, clr"),
        (COUNTS - 5, ["library"], "values that are negative"),
        (COUNTS - 50, ["log1p"], "values that are -1 or less"),
        (np.zeros((2, 3)), ["library"], "row 0 has no counts"),
        (np.zeros((2, 3)), ["clr"], "zero or negative"),
        (sp.csr_array(COUNTS), ["clr"], "sparse rows have zeros"),
        (COUNTS, ["clr", "log1p"], "Use it without others"),
        (COUNTS, ["log1p", "library"], "must come before log1p. Write library,log1p"),
    ],
)
def test_what_cannot_be_transformed_is_refused(rows, names, told):
    with pytest.raises(InvalidData, match=told):
        transformed("here", rows, names)
