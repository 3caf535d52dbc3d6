import json
import socket
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedspca import ExactSPCA, SchemaMismatch
from fedspca.cli.app import app
from fedspca.door.agreement import roster_phrase
from fedspca.federation import FederationError
from fedspca.federation.channel import LocalChannel
from fedspca.fit.settings import FitSettings
from fedspca.flower.relay import forward
from fedspca.letters.identity import Identity, signed_payload
from fedspca.letters.wire import Message, decode, encode
from fedspca.model import SparsePCAModel
from fedspca.report import report_html
from fedspca.study.coordinator import StudyFolder
from fedspca.study.guard import keep_guard
from fedspca.study.owner import SiteFolder, read_policy
from fedspca.study.papers import InvalidPaper, Invitation, Reply, parse_paper, read_paper
from fedspca.study.run import lead, run_study
from fedspca.study.settings import StudySettings
from fedspca.study.simulation import endpoint_of, endpoints, make_simulation
from helpers.letters import Troubled

SITES = ("east", "north", "south")
NAMES = [f"f{j}" for j in range(6)]


def table(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((75, 6))
    x[:, 1] += 2 * x[:, 0]
    return x


@pytest.fixture
def files(tmp_path):
    for name, part in zip(SITES, np.array_split(table(), 3), strict=True):
        frame = pd.DataFrame(part, columns=NAMES)
        frame = frame if name != "south" else frame[NAMES[::-1]]  # columns are told apart by name
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def study(**given):
    return StudySettings(**{"name": "trial", "sites": SITES, "masked": False, "nonzero": 3, "deadline": 5.0, **given})


def join(folder, home, name, policy=""):
    site = SiteFolder.create(home / name, FitSettings(files=(str(home / f"{name}.csv"),)))
    (site.path / "policy.toml").write_text(f"masking = false\n{policy}")
    site.join(folder.path / "invitations" / f"{name}.invitation")
    folder.admit(site.reply_file(name))
    return site


@pytest.fixture
def between(files):
    folder = StudyFolder.create(files / "trial", study())
    sites = {name: join(folder, files, name) for name in SITES}
    return folder, sites, LocalChannel({name: site.endpoint() for name, site in sites.items()})


def approve(sites):
    for site in sites.values():
        site.store.approve(site.latest())


def told(folder, event):
    return [line for _, line in folder.events() if line["event"] == event]


def test_a_study_between_institutions_gives_what_one_process_does(between):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    assert told(folder, "sites")[-1]["said"] == dict.fromkeys(SITES, "not approved")
    approve(sites)
    model = run_study(folder, channel, "run")
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(table(), sites=np.repeat(SITES, 25))
    assert np.allclose(model.components, here.components_, atol=1e-10)
    assert model.feature_names == tuple(NAMES)
    kept = SparsePCAModel.load(folder.model)
    page = report_html(kept)
    assert "was not masked" in page
    assert folder.agreement().hash in page
    assert np.array_equal(kept.components, model.components)
    assert kept.facts["site_names"] == list(SITES)
    assert [line["query"] for line in told(folder, "round")][:2] == ["moments", "deviations"]
    assert told(folder, "done")
    assert not folder.journal.exists()
    asked = [line for line in sites["north"].audit().lines() if line["verdict"] == "answered" and line["kind"] == "ask"]
    assert len(asked) == len(model.facts["history"]) + len(model.facts["asked_after"])
    assert sites["north"].audit().verify() > len(asked)


def test_without_every_approval_the_study_does_not_start(between):
    folder, sites, channel = between
    with pytest.raises(FederationError, match="east: not approved; north: not approved; south: not approved"):
        run_study(folder, channel, "run")
    approve({name: sites[name] for name in ("east", "north")})
    del channel.endpoints["north"]
    with pytest.raises(FederationError, match="north: not here; south: not approved") as caught:
        run_study(folder, channel, "run")
    assert "east" not in str(caught.value)
    asked = [line["kind"] for line in sites["east"].audit().lines()]
    assert set(asked) == {"propose"}


def test_changed_terms_ask_for_approval_again(between):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    approve(sites)
    settings = folder.path / "study.toml"
    settings.write_text(settings.read_text().replace("nonzero = 3", "nonzero = 4"))
    with pytest.raises(FederationError, match="not approved"):
        run_study(folder, channel, "run")


def test_a_policy_that_refuses_says_why(files):
    folder = StudyFolder.create(files / "trial", study())
    sites = {name: join(folder, files, name, "min_rows = 50" if name == "north" else "") for name in SITES}
    channel = LocalChannel({name: site.endpoint() for name, site in sites.items()})
    with pytest.raises(FederationError, match="north: it holds fewer rows than the 50 that its policy requires"):
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


class Killed(BaseException):
    """The coordinator's process is no more."""


def killed_at(limit, sites):
    """A channel whose coordinator is killed at a certain letter, or never."""

    def trouble(count, site, letter, reply):
        if count == limit:
            raise Killed
        return reply

    return Troubled(sites, trouble)


def test_a_run_that_is_stopped_is_resumed_to_the_same_bits(between):
    folder, sites, _ = between

    def channel(limit):
        return killed_at(limit, {name: site.endpoint() for name, site in sites.items()})

    run_study(folder, channel(None), "status")
    approve(sites)
    whole = run_study(folder, channel(None), "run")
    with pytest.raises(ValueError, match="no run to resume"):
        run_study(folder, channel(None), "resume")
    for limit in (2, 4, 6, 9):
        with pytest.raises(Killed):
            run_study(folder, channel(limit), "run")
        again = run_study(folder, channel(None), "resume")
        assert again.components.tobytes() == whole.components.tobytes()
        assert again.covariance.tobytes() == whole.covariance.tobytes()


def test_a_checkpoint_of_other_terms_is_not_resumed(between):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    approve(sites)
    channel.endpoints["north"].handle = lambda letter: b""
    settings = folder.path / "study.toml"
    settings.write_text(settings.read_text().replace('on_dropout = "wait"', 'on_dropout = "abort"'))
    del channel.endpoints["north"].handle
    run_study(folder, channel, "status")
    approve(sites)

    calls = []

    def dies(letters, deadline):
        calls.append(1)
        return {} if len(calls) > 4 else LocalChannel.exchange(channel, letters, deadline)

    channel.exchange = dies
    with pytest.raises(RuntimeError, match="did not answer"):
        run_study(folder, channel, "run")
    settings.write_text(settings.read_text().replace("nonzero = 3", "nonzero = 4"))
    with pytest.raises(ValueError, match="changed since the run began"):
        run_study(folder, channel, "resume")


def test_what_goes_wrong_in_the_server_is_told_in_the_folder(between):
    folder, _sites, channel = between
    names = []

    def make_channel(hello, identify, known):
        assert known == {}
        names.extend(identify(endpoint.handle(hello)) for endpoint in channel.endpoints.values())
        names.append(identify(b"noise"))
        stranger = Identity.new()
        names.append(identify(stranger.sign(channel.endpoints["east"].handle(hello)[105:])))
        return channel

    with pytest.raises(FederationError):
        lead(folder.path, "run", make_channel)
    assert names == [*SITES, None, None]
    assert "not approved" in told(folder, "failed")[-1]["error"]
    with pytest.raises(ValueError, match="no action"):
        lead(folder.path, "delete", make_channel)


def test_a_lost_site_and_the_study_goes_on(files):
    folder = StudyFolder.create(files / "trial", study(on_dropout="continue", min_sites=2))
    sites = {name: join(folder, files, name, "min_sites = 2") for name in SITES}

    def trouble(count, site, letter, reply):
        return None if site == "north" and count >= 5 else reply

    channel = Troubled({name: site.endpoint() for name, site in sites.items()}, trouble)
    run_study(folder, channel, "status")
    approve(sites)
    model = run_study(folder, channel, "run")
    left = np.vstack(np.array_split(table(), 3)[::2])
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(left, sites=np.repeat(["east", "south"], 25))
    assert np.allclose(model.components, here.components_, atol=1e-10)
    assert model.facts["site_names"] == ["east", "south"]
    assert "north" in model.facts["told"][0]
    assert any("begins again" in line["text"] for line in told(folder, "notice"))


def test_the_guard_alone_answers_at_its_socket(between):
    folder, sites, _ = between
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="fs-") as home:
        socket = Path(home) / "guard"
        guard = threading.Thread(target=keep_guard, args=(sites["north"], socket, lambda line: None, stop))
        guard.start()
        try:
            until = time.monotonic() + 20
            while not socket.exists() and time.monotonic() < until:
                time.sleep(0.02)
            hello = folder.identity.sign(encode(Message("hello", {"study": ""})))
            answer = decode(signed_payload(forward(socket, hello), sites["north"].identity.public, "north"))
        finally:
            stop.set()
            guard.join()
    assert (answer.kind, answer.fields["sender"]) == ("hello", "north")


class TestPapers:
    def test_replies_are_taken_from_the_invited_only(self, files):
        folder = StudyFolder.create(files / "trial", study())
        other = StudyFolder.create(files / "other", study(name="other"))
        site = SiteFolder.create(files / "north", FitSettings(files=(str(files / "north.csv"),)))
        site.join(other.path / "invitations" / "north.invitation")
        with pytest.raises(ValueError, match="does not answer the invitation"):
            folder.admit(site.reply_file("north"))
        other.admit(site.reply_file("north"))
        with pytest.raises(ValueError, match="another study, with another coordinator"):
            site.join(folder.path / "invitations" / "north.invitation")
        again = SiteFolder.create(files / "again", FitSettings(files=(str(files / "north.csv"),)))
        again.join(other.path / "invitations" / "north.invitation")
        with pytest.raises(ValueError, match="replied before with another key"):
            other.admit(again.reply_file("north"))
        with pytest.raises(ValueError, match="No reply yet from east, south"):
            other.agreement()

    def test_no_value_of_any_row_is_in_a_reply(self, between):
        _folder, sites, _ = between
        text = sites["north"].reply_file("north").read_text()
        content = json.loads(json.loads(text)["content"])
        assert set(content) == {"format", "study", "site", "token", "public", "node", "schema"}
        features = json.loads(content["schema"])["features"]
        assert [feature["name"] for feature in features] == NAMES
        assert all(set(feature) == {"name", "dtype"} for feature in features)

    @pytest.mark.parametrize("change", ["host", "port", "authority", "coordinator", "token", "site"])
    def test_an_altered_invitation_is_refused(self, files, change):
        folder = StudyFolder.create(files / "trial", study())
        path = folder.path / "invitations" / "north.invitation"
        outer = json.loads(path.read_text())
        content = json.loads(outer["content"])
        content[change] = 1234 if change == "port" else "other"
        path.write_text(json.dumps({**outer, "content": json.dumps(content)}))
        with pytest.raises(InvalidPaper, match="altered"):
            read_paper(path, Invitation, "coordinator")

    @given(
        st.text(max_size=60)
        | st.dictionaries(st.sampled_from(["content", "signature"]), st.text(max_size=20) | st.integers()).map(
            json.dumps
        )
    )
    def test_no_text_breaks_the_reading_of_papers(self, text):
        for kind, key in ((Invitation, "coordinator"), (Reply, "public")):
            with pytest.raises(InvalidPaper):
                parse_paper(text, kind, key)

    def test_names_that_are_no_names_are_refused(self, tmp_path):
        for name in ("../north", "", ".hidden", "a/b", "x" * 99):
            with pytest.raises(ValueError, match="name of a site"):
                StudyFolder.create(tmp_path / "trial", study(sites=(name, "b", "c")))
        assert not (tmp_path / "trial").exists()


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


def test_a_simulation_runs_with_every_site_on_this_machine(files):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    folder = make_simulation(files / "trial", study(), data)
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    assert model.n_sites == 3
    assert endpoint_of(folder.path, 1).site.name == "north"


class TestCommands:
    @pytest.fixture
    def run(self, files, monkeypatch):
        monkeypatch.chdir(files)
        runner = CliRunner()

        def command(*arguments, code=0, given=None):
            result = runner.invoke(app, list(arguments), input=given)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                if code == 0:
                    raise result.exception
                return str(result.exception)
            assert result.exit_code == code, result.output
            return " ".join(result.output.split())

        return command

    def test_from_invitation_to_approval(self, run, files):
        assert "Send each site its invitation" in run(
            "study", "init", "heart", "--sites", "east,north,south", "--nonzero", "3"
        )
        for name in SITES:
            assert "25 rows, 6 features" in run("site", "init", f"{name}.csv", "-o", name)
            said = run("site", "join", f"heart/invitations/{name}.invitation", "--site", name, "--reply-only")
            assert "Send this reply to the coordinator" in said
        assert "Still to come: north, south" in run("study", "admit", "heart", "east/east.reply")
        assert "All are here" in run("study", "admit", "heart", "north/north.reply", "south/south.reply")
        assert "No study was proposed" in run("site", "show", "--site", "north", code=1)
        folder = StudyFolder(files / "heart")
        channel = LocalChannel({name: SiteFolder(files / name).endpoint() for name in SITES})
        run_study(folder, channel, "status")
        said = run("site", "show", "--site", "north")
        for words in (
            "2 sparse principal components of 6 features",
            "Masked:",
            "No row leaves",
            "You have not approved it",
            "gram_product:",
        ):
            assert words in said
        digest = folder.agreement().hash
        assert "does not begin with" in run("site", "approve", "--site", "north", "--hash", "zz", code=1)
        phrase = roster_phrase(folder.agreement())
        assert phrase in said
        run("site", "approve", "--site", "north", given=f"{phrase}\nn\n", code=1)
        assert SiteFolder(files / "north").store.approved(digest) is None
        assert digest in run("site", "approve", "--site", "north", "--hash", digest[:8], given=f"{phrase}\ny\n")
        assert json.loads(run("site", "show", "--site", "north", "--json"))["approved"] is True
        assert json.loads(run("site", "show", "--site", "north", "--json"))["objections"] == []
        assert "Withdrawn" in run("site", "approve", "--site", "north", "--withdraw")
        assert "1 lines, unbroken" in run("site", "log", "--site", "north", "--verify")
        assert json.loads(run("site", "log", "--site", "north", "--verify", "--json"))["lines"] == 1
        assert all(words in run("site", "log", "--site", "north") for words in ("propose", "answered", "no numbers"))
        assert json.loads(run("site", "log", "--site", "north", "--json"))[0]["kind"] == "propose"
        log = files / "north" / "log.jsonl"
        log.write_text(log.read_text().replace("propose", "depose"))
        assert "was changed after it was written" in run("site", "log", "--site", "north", "--verify", code=1)

    def test_mistakes_are_told_in_words(self, run, files):
        assert "there is no study here" in run("study", "status", "none", code=1)
        assert "there is no site here" in run("site", "show", code=1)
        run("study", "init", "heart", "--sites", "east,north,south")
        assert "it is there already" in run("study", "init", "heart", "--sites", "a,b,c", code=1)
        assert "No reply yet from east, north, south" in run("study", "status", "heart", code=1)
        assert "is not a fedspca reply" in run("study", "admit", "heart", "east.csv", code=1)
        assert "there is no such file" in run("study", "admit", "heart", "none.reply", code=1)
        run("site", "init", "east.csv", "-o", "east")
        assert "no invitation yet" in run("site", "join", "--site", "east", code=1)
        assert "it is there already" in run("site", "init", "east.csv", "-o", "east", code=1)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--sites", "a,b,c", "--port", "-1"), "port must be from 1 to 65535"),
            (("--sites", "a,b,c", "--on-dropout", "pray"), "on_dropout must be one of"),
            (("--sites", "a,b"), "min_sites is 3 and there are 2 sites"),
            (("--sites", "a,a,b"), "list of different names"),
            ((), "list of different names"),
            (("--sites", "a,b,c", "--solver", "magic"), "no solver"),
            (("--sites", "a,b,c", "--nonzero", "0"), "'n_nonzero' parameter"),
            (("--sites", "a,b,c", "--epsilon", "-1"), "A budget needs"),
            (("--sites", "a,b,c", "--epsilon", "1", "--mechanism", "magic"), "gram or product"),
            (("--sites", "a,b", "--min-sites", "2"), "at least three"),
        ],
    )
    def test_settings_with_which_no_study_can_start_are_refused_at_once(self, run, files, options, words):
        assert words in run("study", "init", "heart", *options, code=1)
        assert not (files / "heart").exists()

    def test_without_the_simulation_engine_it_says_what_to_install(self, run, files, monkeypatch):
        monkeypatch.setattr("fedspca.cli.study.find_spec", lambda name: None)
        assert "fedspca[simulation]" in run("study", "simulate", "east.csv", "north.csv", "south.csv", code=1)
        assert not (files / "study").exists()

    def test_a_port_that_is_taken_is_named(self, files):
        engine = pytest.importorskip("fedspca.study.engine", exc_type=ImportError)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            number = taken.getsockname()[1]
            for name in ("port", "control_port"):
                folder = StudyFolder.create(files / name, study(**{"port": 1, "control_port": 1, name: number}))
                with pytest.raises(OSError, match=f"Port {number} of this machine is in use.*another {name} in"):
                    engine.Engine(folder).start()
                assert not folder.flower.exists()  # nothing was started beside it

    def test_a_simulation_that_cannot_start_leaves_nothing(self, run, files, monkeypatch):
        monkeypatch.setattr("fedspca.cli.study.find_spec", lambda name: name)  # it does not get as far as Flower
        (files / "odd.csv").write_text("x,y\n1,2\n")
        for names, words in (
            (("east.csv", "north.csv", "none.csv"), "there is no such file"),
            (("east.csv", "north.csv", "odd.csv"), "do not hold the same features"),
            (("east.csv", "north.csv"), "at least three"),
        ):
            assert words in run("study", "simulate", *names, "-o", "trial", code=1)
            assert not (files / "trial").exists()

    def test_the_plain_commands_can_be_seen(self, run):
        run("study", "init", "heart", "--sites", "east,north,south", "--port", "4433")
        said = run("study", "start", "heart", "--show")
        for words in (
            "flower-superlink",
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
            "--port 4433",
        ):
            assert words in said
        run("site", "init", "east.csv", "-o", "east")
        said = run("site", "join", "heart/invitations/east.invitation", "--site", "east", "--show")
        for words in ("flower-supernode", "--root-certificates", "--auth-supernode-private-key", "localhost:4433"):
            assert words in said


FASPCA_TOO = {"solver": "faspca", "nonzero": None, "lam": 5.0, "max_rounds": 6, "consensus_under_masks": True}


@pytest.mark.parametrize("given", [{}, FASPCA_TOO])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_masked_studies_give_what_plain_ones_do_and_are_resumed(files, given):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    plain = make_simulation(files / "plain", study(**given), data)
    reference = run_study(plain, LocalChannel(endpoints(plain)), "run")
    folder = make_simulation(files / "masked", study(masked=True, **given), data)

    def channel(limit):
        return killed_at(limit, endpoints(folder))

    model = run_study(folder, channel(None), "run")
    assert np.allclose(model.components, reference.components, atol=1e-8)
    for limit in (2, 3, 4, 5, 8, 9):  # keys, shares, masked, unmask, and later
        with pytest.raises(Killed):
            run_study(folder, channel(limit), "run")
        again = run_study(folder, channel(None), "resume")
        assert again.components.tobytes() == model.components.tobytes()


def test_a_private_study_releases_once_and_says_what_it_spent(files):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    (files / "ranges.csv").write_text("feature,centre,scale\n" + "".join(f"{name},0,1\n" for name in NAMES))
    folder = make_simulation(files / "trial", study(masked=True, epsilon=8.0, stated=str(files / "ranges.csv")), data)
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    assert 0 < model.facts["institutions"]["privacy"]["epsilon"] <= 8.0
    page = report_html(model)
    assert "Differentially private for each row" in page
    assert "private_gram" in page
    ledger = SiteFolder(folder.path / "sites" / "north").ledger()
    assert [line["what"] for line in ledger.entries()] == ["private_lengths", "private_gram"]
    with pytest.raises(RuntimeError, match="the study may spend 8"):
        run_study(folder, LocalChannel(endpoints(folder)), "run")


def test_what_is_stated_of_features_must_be_there(files):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    (files / "ranges.csv").write_text("feature,centre,scale\nf0,0,1\n")
    with pytest.raises(ValueError, match="nothing is stated of 'f1'"):
        make_simulation(files / "trial", study(epsilon=1.0, stated=str(files / "ranges.csv")), data)
    (files / "ranges.csv").write_text("feature,mean\nf0,0\n")
    with pytest.raises(ValueError, match="columns feature, centre and scale"):
        make_simulation(files / "other", study(epsilon=1.0, stated=str(files / "ranges.csv")), data)
