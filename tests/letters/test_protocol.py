"""Two releases that meet."""

import pytest

from fedspca.letters.protocol import PROTOCOL, introduction, misunderstanding, software_of


def test_the_same_protocol_is_understood_whatever_the_release():
    assert misunderstanding(introduction(), "the site") is None
    assert misunderstanding({**introduction(), "software": "9.9"}, "the site") is None


@pytest.mark.parametrize("spoken", [None, PROTOCOL + 1, 0, "1", True, [PROTOCOL]])
def test_another_protocol_is_told_with_both_releases(spoken):
    words = misunderstanding({"protocol": spoken, "software": "9.9"}, "the site")
    assert "the site runs fedspca 9.9" in words
    assert f"speaks protocol {PROTOCOL}." in words


def test_a_hostile_release_is_short_and_plain():
    assert software_of({"software": "\x1b[31m" + "x" * 1000}) == "[31m" + "x" * 35
