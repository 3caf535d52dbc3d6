import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from fedspca import SchemaMismatch
from fedspca.federation import FederationError
from fedspca.study.coordinator import StudyFolder
from fedspca.study.run import lead, run_study
from helpers.studies import NAMES, SITES, approve, join, study, told


def test_changed_terms_ask_for_approval_again(between):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    approve(sites)
    settings = folder.path / "study.toml"
    settings.write_text(settings.read_text().replace("nonzero = 3", "nonzero = 4"))
    with pytest.raises(FederationError, match="not approved"):
        run_study(folder, channel, "run")


def test_a_schema_that_differs_is_named(files):
    pd.DataFrame(np.zeros((20, 5)), columns=NAMES[:5]).to_csv(files / "north.csv", index=False)
    folder = StudyFolder.create(files / "trial", study())
    for name in SITES:
        join(folder, files, name)
    with pytest.raises(SchemaMismatch, match="north"):
        folder.agreement()
    settings = folder.path / "study.toml"
    settings.write_text(settings.read_text().replace("common = false", "common = true"))
    assert folder.agreement().features == tuple(NAMES[:5])


def test_settings_that_no_solver_accepts_are_refused_before_a_site_is_asked(between):
    folder, _, _ = between
    settings = folder.path / "study.toml"
    settings.write_text(settings.read_text().replace("nonzero = 3", "nonzero = 3\nlam = 5.0"))
    assert folder.agreement().fit["lam"] == 5.0  # commands that only look do not check it
    with pytest.raises(ValueError, match=r"study\.toml: Sparsity is asked for in more than one way"):
        lead(folder.path, "status", lambda *_: pytest.fail("a site was asked"))
    assert "more than one way" in told(folder, "failed")[-1]["error"]
    settings.write_text(settings.read_text().replace('solver = "exact"', 'solver = "exakt"'))
    with pytest.raises(ValueError, match="no solver 'exakt'"):
        folder.agreement()


def test_the_agreement_is_made_without_slow_imports(between):
    code = "import sys; from pathlib import Path; from fedspca.study.coordinator import StudyFolder; "
    code += f"StudyFolder(Path({str(between[0].path)!r})).agreement(); "
    code += "print([m for m in ('sklearn', 'scipy.optimize', 'pandas', 'flwr') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_another_host_asks_sites_to_join_anew_and_their_replies_stay_valid(between, tmp_path):
    pytest.importorskip("cryptography")
    from fedspca.flower.certificates import make_certificates
    from fedspca.flower.reaching import try_certificate

    folder, sites, _ = between
    agreement = folder.agreement()
    assert folder.renew() == []  # the same host, port and authority
    settings = folder.path / "study.toml"
    settings.write_text(settings.read_text().replace('host = "localhost"', 'host = "new.example.org"'))
    assert folder.renew() == list(SITES)
    assert try_certificate(folder.served, "new.example.org") is None
    reply = sites["north"].join(folder.path / "invitations" / "north.invitation")
    assert sites["north"].invitation.host == "new.example.org"
    assert reply == folder.replies()["north"]
    assert folder.agreement() == agreement  # so approvals stay valid too
    given = make_certificates(tmp_path / "hospital", ["new.example.org"], "hospital")
    assert folder.renew(given) == list(SITES)
    assert folder.served.certificate.read_bytes() == given.certificate.read_bytes()
    sites["north"].join(folder.path / "invitations" / "north.invitation")
    assert sites["north"].invitation.authority == given.authority.read_text()
    with pytest.raises(ValueError, match=r"not for new\.example\.org"):
        folder.renew(make_certificates(tmp_path / "other", ["other.example.org"]))
    assert folder.served.certificate.read_bytes() == given.certificate.read_bytes()
    assert folder.renew() == list(SITES)  # back to the study's own
    assert folder.served == folder.certificates
