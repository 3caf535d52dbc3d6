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
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "worst perimeter" in report
    ours, theirs = (
        float(share) for share in re.search(r"variance captured by 2 +([0-9.]+)% +([0-9.]+)%", shown).groups()
    )
    told = re.search(r"captures ([0-9.]+)% with as many components; the sparse weights keep ([0-9.]+)%", report)
    assert float(told[1]) == round(theirs, 1)
    assert abs(float(told[2]) - 100 * ours / theirs) < 0.3  # both are printed with two digits after the point
