"""A unit that is wrong is asked about, and sites that merely differ are not."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from fedspca import ExactSPCA, SparsePCAModel
from fedspca.data.units import unlike_sites, unlike_the_others
from fedspca.linalg.profile import Profile
from helpers.commands import fedspca
from helpers.study_files import frame, make_rows

WDBC = load_breast_cancer()
NAMES = list(WDBC.feature_names)


def sites(factor, column=2, benign=1):
    """Three sites; the first holds many malignant tumours, which differ by nature."""
    order = np.argsort(WDBC.target, kind="stable")
    rows = [WDBC.data[order[k::3] if benign else part] for k, part in enumerate(np.array_split(order, 3))]
    rows[1] = rows[1].copy()
    rows[1][:, column] *= factor
    return {f"s{k}": part for k, part in enumerate(rows)}


@pytest.mark.parametrize("factor", [7.5, 18.0, 1000.0, 1 / 7.5, 1 / 18.0])
def test_a_wrong_unit_is_found_and_named(factor):
    told = unlike_sites(NAMES, {name: Profile.of(rows) for name, rows in sites(factor).items()})
    assert len(told) == 1
    assert "'mean perimeter'" in told[0]
    assert "at site 's1'" in told[0]
    assert ("larger" if factor > 1 else "smaller") in told[0]


def test_sites_that_differ_by_nature_are_not_asked_about():
    unlike = sites(1.0, benign=0)
    assert np.mean(unlike["s0"][:, 0]) > 1.3 * np.mean(unlike["s2"][:, 0])
    assert unlike_sites(NAMES, {name: Profile.of(rows) for name, rows in unlike.items()}) == []


def test_a_feature_that_is_constant_at_one_site_is_named():
    rows = sites(1.0)
    rows["s2"] = rows["s2"].copy()
    rows["s2"][:, 4] = 3.0
    (told,) = unlike_sites(NAMES, {name: Profile.of(part) for name, part in rows.items()})
    assert "'mean smoothness' has one value, or none, at site 's2'" in told
    assert unlike_sites(NAMES, {"s0": Profile.of(rows["s0"])}) == []


def test_a_site_finds_out_by_itself_against_the_joint_model():
    rows = sites(7.5)
    joint = np.vstack(list(rows.values()))
    for scale in (True, False):
        fitted = ExactSPCA(2, n_nonzero=5, scale=scale, proof_seconds=0.0).fit(joint)
        (told,) = unlike_the_others(NAMES, Profile.of(rows["s1"]), SparsePCAModel.from_estimator(fitted))
        assert "'mean perimeter' is" in told
        assert "larger here" in told
    owners = np.repeat([0, 1], [300, 269])
    apart = ExactSPCA(2, n_nonzero=5, proof_seconds=0.0).fit(joint, sites=owners, centre="site")
    model = SparsePCAModel.from_estimator(apart)
    assert unlike_the_others(NAMES, Profile.of(rows["s1"]), model) == []  # the joint mean is not known


def test_check_and_fit_warn_of_a_unit(tmp_path):
    for k, name in enumerate("ab"):
        rows = make_rows(60, seed=k) + 60.0
        rows[:, 2] *= 10.0 if name == "b" else 1.0
        frame(rows).to_csv(tmp_path / f"{name}.csv", index=False)
    files = (tmp_path / "a.csv", tmp_path / "b.csv")
    assert re.search(r"'f2' is \S+ times larger at site 'b'", fedspca("check", *files).out)
    ran = fedspca("fit", *files, "--no-path", "-o", tmp_path / "m")
    assert "is it in another unit?" in ran.err
    assert "is it in another unit?" in fedspca("show", tmp_path / "m").out
