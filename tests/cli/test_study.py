import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from fedspca.cli.app import app
from fedspca.door.agreement import roster_phrase
from fedspca.federation.channel import LocalChannel
from fedspca.fit.settings import FitSettings
from fedspca.study.coordinator import StudyFolder
from fedspca.study.log_words import released, with_figures
from fedspca.study.owner import SiteFolder
from fedspca.study.run import run_study
from fedspca.study.simulation import endpoints, make_simulation
from helpers.studies import SITES, study, write_tables


@pytest.fixture
def files(tmp_path):
    return write_tables(tmp_path)


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
            "and the other sites see the sum over all sites",
            "the sum over 2 sites, this one among them",  # what another site can work out
            "(21 numbers for 6 features)",
            "A run usually asks about 5 questions",
            "a seal of this site's log",
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

    def test_an_update_needs_a_model_and_a_site_is_invited_later(self, run):
        run("study", "init", "heart", "--sites", "east,north,south", "--nonzero", "3")
        assert "no model to update yet" in run("study", "run", "heart", "--update", "east,north,south", code=2)
        assert "heart/invitations/west.invitation" in run("study", "invite", "heart", "west").replace(" ", "")
        assert "takes part already" in run("study", "invite", "heart", "west", code=2)

    def test_status_warns_of_a_unit_and_names_no_site(self, run, files):
        for name in SITES:
            rows = pd.read_csv(files / f"{name}.csv") + 10.0
            rows["f3"] *= 18.0 if name == "north" else 1.0
            rows.to_csv(files / f"{name}.csv", index=False)
        data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
        folder = make_simulation(files / "heart", study(), data)
        assert "CAUTION" not in run("study", "status", "heart")
        run_study(folder, LocalChannel(endpoints(folder)), "run")
        assert "CAUTION: At some site a unit may be wrong: 'f3'." in run("study", "status", "heart")
        assert "'f3'" in json.loads(run("study", "status", "heart", "--json"))["cautions"][0]
        settings = folder.path / "study.toml"
        settings.write_text(settings.read_text().replace("components = 2", "components = 1"))
        assert "CAUTION" not in run("study", "status", "heart")  # the model is of other terms

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
            "env FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1",
            "flower-superlink",
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
            "--port 4433",
        ):
            assert words in said
        run("site", "init", "east.csv", "-o", "east")
        said = run("site", "join", "heart/invitations/east.invitation", "--site", "east", "--show")
        for words in ("fedspca.flower.executor", "--authority", "--key", "localhost:4433", "--app fedspca/"):
            assert words in said


@pytest.mark.parametrize(
    ("arrays", "words", "figures"),
    [
        ({"vector": [66], "key": [32], "shares": [3, 76]}, "66 masked words, keys of the masks (99 bytes)", True),
        ({"product": [6, 2]}, "product 6×2 (99 bytes)", True),
        ({"shares": [3, 16]}, "keys of the masks (99 bytes)", False),
        ({"approval": [207]}, "the signed approval (99 bytes)", False),
        ({"components": [2, 6]}, "the loadings, computed here from the sums, 2×6 (99 bytes)", False),
        ({}, "no numbers", False),
    ],
)
def test_a_line_of_the_log_says_in_words_what_left(arrays, words, figures):
    line = {"verdict": "answered", "bytes": 99, "released": [[name, "<f8", shape] for name, shape in arrays.items()]}
    assert released(line) == words
    assert with_figures(line) is figures
