import subprocess
import sys

import pandas as pd
import pytest

from fedspca import ExactSPCA, SparsePCAModel
from fedspca.study.owner import POLICY, read_policy
from fedspca.study.run import run_study
from helpers.commands import fedspca
from helpers.studies import NAMES, SITES, study, table


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("min_row = 3", "no setting 'min_row'"),
        ("min_rows = 'ten'", "wrong kind"),
        ("min_rows = true", "wrong kind"),
        ("min_rows = 0", "at least 1"),
        ("masking = 1", "wrong kind"),
        ("epsilon = -1", "positive"),
        ("allowed_queries = ['rows']", "no question 'rows'"),
        ("min_rows", "not valid TOML"),
    ],
)
def test_a_policy_that_cannot_be_read_says_why(tmp_path, text, words):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_policy(path)


def test_a_policy_says_less_and_stays_safe(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text("min_rows = 20")
    policy = read_policy(path)
    assert (policy.min_rows, policy.min_sites, policy.masking) == (20, 3, True)


def test_an_owner_is_warned_of_a_unit_that_is_not_the_others(between):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    rows = table()
    rows[25:50, 3] *= 10.0  # as if north had measured in another unit
    pd.DataFrame(rows[25:50], columns=NAMES).to_csv(sites["north"].data.files[0], index=False)
    model = SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=3, scale=True).fit(pd.DataFrame(rows, columns=NAMES)))
    for site in sites.values():
        assert site.cautions() == []
        model.save(site.store.model_folder(site.latest().hash))
    told = {name: site.cautions() for name, site in sites.items()}
    assert "'f3'" in told["north"][0]
    assert "larger here" in told["north"][0]
    ran = fedspca("site", "status", "--site", sites["north"].path)
    assert "CAUTION: 'f3'" in ran.out
    sites["north"].leave()
    assert sites["north"].cautions() == []  # of a study that the site has left


def test_a_command_that_asks_how_a_site_is_does_not_wait_for_scikit_learn():
    pytest.importorskip("cryptography")
    code = "import sys, fedspca.study.guard; print([m for m in ('sklearn', 'pandas', 'flwr') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_example_of_a_policy_allows_an_ordinary_study(tmp_path):
    (line,) = [line for line in POLICY.splitlines() if line.startswith("# allowed_queries")]
    (tmp_path / "policy.toml").write_text(line.removeprefix("# "))
    asked = study().agreement("key", dict.fromkeys(SITES, "k"), tuple(NAMES), tmp_path).questions
    assert read_policy(tmp_path / "policy.toml").allowed_queries == set(asked)
