import re

from fedspca import demo


def test_the_demo_shows_what_a_person_wants_to_see(capsys, tmp_path):
    demo.main(tmp_path / "report.html")
    shown = capsys.readouterr().out
    for words in (
        "mean area",
        "non-zero weights",
        "variance captured by 2",
        "rounds",
        "sent by each site",
        "pooled",
    ):
        assert words in shown
    assert re.search(r"stopped because\s+the search found nothing better", shown)
    assert "(0 of them random features)" in shown
    assert str(tmp_path / "report.html") in shown
    assert "worst perimeter" in (tmp_path / "report.html").read_text(encoding="utf-8")
