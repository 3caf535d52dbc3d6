import pytest

from fedspca.study.owner import read_policy


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
