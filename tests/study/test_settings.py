import pytest

from fedspca.door.agreement import read_agreement
from fedspca.fit.settings import FitSettings
from fedspca.fit.solvers import make_estimator
from fedspca.study.agreed import agreed_settings
from fedspca.study.settings import read_joint_study
from fedspca.study.simulation import make_simulation
from fedspca.study.words import sparsity_in_words
from helpers.studies import SITES, study


def test_what_is_stated_of_features_must_be_there(files):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    (files / "ranges.csv").write_text("feature,centre,scale\nf0,0,1\n")
    with pytest.raises(ValueError, match="nothing is stated of 'f1'"):
        make_simulation(files / "trial", study(epsilon=1.0, stated=str(files / "ranges.csv")), data)
    (files / "ranges.csv").write_text("feature,mean\nf0,0\n")
    with pytest.raises(ValueError, match="columns feature, centre and scale"):
        make_simulation(files / "other", study(epsilon=1.0, stated=str(files / "ranges.csv")), data)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"preset": "paper"}, r'init = "random" is refused there. Write init = "warm" \(--init warm\)'),
        ({"preset": "paper", "init": "warm", "deflation": "literal"}, 'Write deflation = "generalized"'),
        ({"preset": "paper", "init": "warm", "local_start": "random", "solver": "fsspca", "lam1": 1.0}, "local_start"),
    ],
)
def test_what_doors_refuse_of_the_paper_is_refused_before_owners_are_asked(given, words):
    settings = study(**{"solver": "faspca", "lam": 170.0, "masked": False, "nonzero": None, **given}, sites=SITES)
    with pytest.raises(ValueError, match=words):
        settings.check()


def test_the_paper_runs_between_institutions_from_a_common_start(files):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    given = {"solver": "faspca", "preset": "paper", "init": "warm", "lam": 5.0, "block_sizes": (1, 1), "nonzero": None}
    folder = make_simulation(files / "paper", study(**given, masked=False), data)
    agreement = folder.agreement()
    assert agreed_settings(agreement).preset == "paper"
    assert list(agreed_settings(agreement).block_sizes) == [1, 1]


def test_a_penalty_for_each_component_comes_through_the_agreement(tmp_path):
    (tmp_path / "study.toml").write_text('[study]\nsites = ["east", "north", "south"]\n[fit]\nlam = [60, 600.5]\n')
    settings = read_joint_study(tmp_path / "study.toml")
    assert settings.lam == (60.0, 600.5)
    agreed = read_agreement(settings.agreement("key", dict.fromkeys(SITES, "k"), ("f", "g"), tmp_path).text())
    assert make_estimator(agreed_settings(agreed), [])._penalty().tolist() == [60.0, 600.5]
    assert "60.0 and 600.5" in sparsity_in_words(agreed.fit)
    (tmp_path / "study.toml").write_text('[study]\nsites = ["a", "b", "c"]\n[fit]\nlam = [1, 2, 3]\n')
    with pytest.raises(ValueError, match="--lam has 3 numbers, and there are 2 components"):
        read_joint_study(tmp_path / "study.toml", whole=True)
