"""A third party checks a finished study: whatever was altered is noticed, by name."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from fedspca.cli.app import app
from fedspca.federation.channel import LocalChannel
from fedspca.federation.secure import SecureFederation
from fedspca.letters.identity import Identity, split_letter
from fedspca.letters.wire import Message, decode, encode
from fedspca.masking.messages import PREVIOUS
from fedspca.model import SparsePCAModel
from fedspca.study import verify as module
from fedspca.study.bundle import InvalidBundle, read_manifest, read_round, read_rounds, read_terms
from fedspca.study.owner import SiteFolder
from fedspca.study.run import run_study
from fedspca.study.simulation import endpoints
from fedspca.study.verify import verify
from helpers.bundles import SITES, finished, signed_anew


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("verify"))


@pytest.fixture
def bundle(folder, tmp_path):
    return shutil.copytree(folder.bundle, tmp_path / "bundle")


def failed(path, **logs):
    return {finding.name: finding.told for finding in verify(path, logs) if not finding.holds}


def test_an_honest_study_holds(folder, bundle):
    logs = {site: SiteFolder(folder.path / "sites" / site).path / "log.jsonl" for site in SITES}
    findings = verify(bundle, logs)
    assert [finding.name for finding in findings] == list(module.CHECKS)
    assert [finding.told for finding in findings if not finding.holds] == []
    assert "3 sites computed the same ones" in findings[6].told


def noticed(path):
    """What is wrong with the files alone; with another agreement nobody signed anything."""
    found = module._found("files", module.CHECKS["files"], module.Bundle(path))
    return "" if found.holds else found.told


def test_what_anyone_alters_is_noticed_by_its_name(bundle):
    for path in sorted(path for path in bundle.rglob("*") if path.is_file()):
        content = path.read_bytes()
        at = len(content) * 2 // 3
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        name = path.relative_to(bundle).as_posix()
        told = noticed(bundle)
        path.write_bytes(content)
        assert name in told or "manifest" in told or name == "agreement.json", name
        assert told, name
    assert noticed(bundle) == ""


@pytest.mark.parametrize(("gone", "words"), [(True, "rounds/000002 is missing"), (False, "extra was added")])
def test_files_that_came_or_went_are_noticed(bundle, gone, words):
    (bundle / "rounds" / "000002").unlink() if gone else (bundle / "extra").touch()
    assert words in failed(bundle)["files"]


def rewritten(path, change):
    message = decode(path.read_bytes())
    path.write_bytes(encode(change(message)))


def other_sum(message):
    vector = message.arrays[PREVIOUS].copy()
    vector[0] ^= np.uint64(1)
    return Message(message.kind, message.fields, {**message.arrays, PREVIOUS: vector})


def other_mean(message):
    return Message(message.kind, message.fields, {**message.arrays, "mean": message.arrays["mean"] + 1.0})


def fewer_sites(message):
    return Message(message.kind, {**message.fields, "summed": ["east"]}, message.arrays)


@pytest.mark.parametrize(
    ("number", "change", "expected"),
    [
        (2, other_sum, {"sums": "states other questions or sums"}),
        (2, other_mean, {"questions": "mean differs", "sums": "states other", "model": "mean differs"}),
        (3, fewer_sites, {"questions": "fewer, than were agreed on", "sums": "states other"}),
    ],
)
def test_what_the_coordinator_alters_is_noticed_although_it_signs_anew(folder, bundle, number, change, expected):
    rewritten(bundle / "rounds" / f"{number:06d}", change)
    signed_anew(bundle, folder.identity, folder.agreement())
    found = failed(bundle)
    assert "files" not in found
    assert all(words in found[name] for name, words in expected.items()), found


def test_another_model_does_not_follow_from_the_sums(folder, bundle):
    model = SparsePCAModel.load(bundle / "model")
    other = dataclasses.replace(model, components=model.components[::-1].copy())
    other.save(bundle / "model", overwrite=True)
    signed_anew(bundle, folder.identity, folder.agreement())
    assert failed(bundle) == {"model": "the model has other loadings than follow from the sums"}


def test_statements_and_approvals_of_others_do_not_count(folder, bundle):
    stranger = Identity.new()
    payload = split_letter((bundle / "statements" / "north").read_bytes())[1]
    (bundle / "statements" / "north").write_bytes(stranger.sign(payload))
    shutil.copyfile(bundle / "approvals" / "east", bundle / "approvals" / "south")
    signed_anew(bundle, folder.identity, folder.agreement())
    found = failed(bundle)
    assert "north" in found["sums"]
    assert "south" in found["approvals"]


def test_a_site_that_found_another_model_is_named(folder, bundle):
    site = SiteFolder(folder.path / "sites" / "north")
    message = decode(split_letter((bundle / "statements" / "north").read_bytes())[1])
    other = Message(message.kind, message.fields, {"components": -message.arrays["components"]})
    (bundle / "statements" / "north").write_bytes(site.identity.sign(encode(other)))
    signed_anew(bundle, folder.identity, folder.agreement())
    assert failed(bundle) == {"model": "site 'north' has other loadings than follow from the sums"}


def test_a_log_that_was_cut_back_or_changed_is_noticed(folder, bundle, tmp_path):
    lines = (folder.path / "sites" / "north" / "log.jsonl").read_text().splitlines(keepends=True)
    log = tmp_path / "log.jsonl"
    log.write_text("".join(lines[:-3]))
    assert "others hold the head" in failed(bundle, north=log)["logs"]
    log.write_text("".join(lines).replace('"answered"', '"refused"', 1))
    assert "was changed" in failed(bundle, north=log)["logs"]
    assert "no site 'west'" in failed(bundle, west=log)["logs"]
    assert "no such log" in failed(bundle, north=tmp_path / "none")["logs"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_private_study_holds_and_a_ledger_that_says_less_does_not(tmp_path):
    folder = finished(tmp_path, rows=1500, epsilon=15.0)
    assert failed(folder.bundle) == {}
    path = folder.bundle / "statements" / "north"
    message = decode(split_letter(path.read_bytes())[1])
    less = Message(message.kind, {**message.fields, "spent": 1.0}, message.arrays)
    path.write_bytes(SiteFolder(folder.path / "sites" / "north").identity.sign(encode(less)))
    signed_anew(folder.bundle, folder.identity, folder.agreement())
    assert "'north' states that it spent ε = 1.0" in failed(folder.bundle)["ledger"]


@pytest.mark.parametrize("fields", [{}, {"beside": True}, {"beside": 1, "transcript": None, "spent": "1"}])
def test_a_site_that_states_nonsense_is_named(folder, bundle, fields):
    site = SiteFolder(folder.path / "sites" / "north")
    (bundle / "statements" / "north").write_bytes(site.identity.sign(encode(Message("finish", fields))))
    signed_anew(bundle, folder.identity, folder.agreement())
    assert all("'north'" in told for told in failed(bundle).values())
    assert {"sums", "model"} == failed(bundle).keys()


def test_links_are_not_followed(bundle):
    """A bundle may come from anyone, and what a link points to may have no end, or be somebody's own."""
    (bundle / "rounds" / "000002").unlink()
    (bundle / "rounds" / "000002").symlink_to("/dev/zero")
    with pytest.raises(InvalidBundle, match="no plain file"):
        verify(bundle)


def test_a_link_to_a_folder_is_not_followed_either(bundle, tmp_path):
    (bundle / "model").rename(tmp_path / "elsewhere")
    (bundle / "model").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidBundle, match="no plain file"):
        verify(bundle)


def test_a_folder_that_is_no_bundle_is_refused(tmp_path):
    with pytest.raises(InvalidBundle, match="no such folder"):
        verify(tmp_path / "none")
    assert all(not finding.holds for finding in verify(tmp_path))


# -- what a run leaves -----------------------------------------------------------------------------------------------


def test_a_run_leaves_the_papers_of_every_site_and_every_round(folder):
    bundle, agreement = folder.bundle, folder.agreement()
    names = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    papers = {f"{kind}/{site}" for kind in ("approvals", "statements") for site in SITES}
    assert papers | {"agreement.json", "manifest", "rounds/000001", "model/manifest.json"} <= names
    assert read_terms(bundle).hash == agreement.hash
    assert set(read_manifest(bundle, agreement)) == names - {"manifest"}
    rounds = [read_round(path) for path in read_rounds(bundle)]
    assert [kept.query.name for kept in rounds[:2]] == ["moments", "deviations"]
    assert all(kept.sites == SITES for kept in rounds)


def test_it_holds_no_masked_vector_of_a_site(folder):
    """A statement has a digest and loadings, and an approval a signature: neither tells of one site's rows."""
    for site in SITES:
        text = split_letter((folder.bundle / "statements" / site).read_bytes())[1]
        header = json.loads(text[12 : 12 + int.from_bytes(text[8:12], "little")])
        assert {name for name, _, _ in header["arrays"]} == {"components"}
        assert header["fields"]["beside"] is True


@pytest.mark.parametrize("content", [b"", b"fedspca1", b"{}"])
def test_a_file_that_is_no_round_is_refused(tmp_path, content):
    (tmp_path / "000001").write_bytes(content)
    with pytest.raises(InvalidBundle, match="000001"):
        read_round(tmp_path / "000001")


def test_a_gap_among_the_rounds_is_refused(tmp_path):
    (tmp_path / "rounds").mkdir()
    (tmp_path / "rounds" / "000002").touch()
    with pytest.raises(InvalidBundle, match="missing"):
        read_rounds(tmp_path)


def test_a_resumed_run_leaves_the_whole_transcript(tmp_path, monkeypatch):
    folder = finished(tmp_path, run=False)
    original = SecureFederation.sum

    def killed(self, query):
        if self._round == 3:
            raise KeyboardInterrupt
        return original(self, query)

    with monkeypatch.context() as patched:
        patched.setattr(SecureFederation, "sum", killed)
        with pytest.raises(KeyboardInterrupt):
            run_study(folder, LocalChannel(endpoints(folder)), "run")
    assert not folder.bundle.exists()
    run_study(folder, LocalChannel(endpoints(folder)), "resume")
    assert all(finding.holds for finding in verify(folder.bundle))


# -- the command -----------------------------------------------------------------------------------------------------


def command(*arguments):
    result = CliRunner().invoke(app, ["verify", *map(str, arguments)])
    return result.exit_code, result.output + str(result.exception or "")


def test_it_says_what_holds(folder):
    code, said = command(folder.bundle, "--log", f"north={folder.path / 'sites' / 'north' / 'log.jsonl'}")
    assert code == 0
    assert said.count("ok ") == 8
    assert json.loads(command(folder.bundle, "--json")[1])[0]["holds"] is True


def test_it_says_what_does_not(bundle):
    (bundle / "extra").touch()
    code, said = command(bundle)
    assert code == 1
    assert "FAILED files: extra was added since the coordinator signed" in said


def test_a_log_needs_its_site(folder):
    code, said = command(folder.bundle, "--log", "log.jsonl")
    assert code != 0
    assert "SITE=FILE" in said
