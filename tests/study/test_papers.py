import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca.fit.settings import FitSettings
from fedspca.study.coordinator import StudyFolder
from fedspca.study.owner import SiteFolder
from fedspca.study.papers import InvalidPaper, Invitation, Reply, parse_paper, read_paper
from helpers.studies import NAMES, study


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
