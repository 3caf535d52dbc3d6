from helpers.commands import fedspca
from helpers.study_files import NAMES, frame, make_rows


def test_check_says_what_differs(study):
    assert "The sites hold the same features." in fedspca("check", "north.csv", "south.parquet").out
    rows = frame(make_rows(30, seed=3))
    rows.assign(f2=rows.f2 * 1000, f5=1.0)[NAMES[::-1]].to_csv(study / "east.csv", index=False)
    ran = fedspca("check", "north.csv", "east.csv")
    assert ran.code == 0
    for words in ("another order", "'f2' is", "in another unit?", "'f5' has one value"):
        assert words in ran.out
    rows.drop(columns="f0").assign(new=1.0).to_csv(study / "odd.csv", index=False)
    ran = fedspca("check", "north.csv", "odd.csv")
    assert ran.code == 1
    assert "lacks 'f0'" in ran.out
    assert "has 'new'" in ran.out
    assert (
        "left out, since not every site has them: 'f0', 'new'"
        in fedspca("check", "north.csv", "odd.csv", "--common").out.lower()
    )


def test_a_schema_is_written_and_checked_elsewhere(study):
    assert fedspca("check", "north.csv", "--write", "schema.json").code == 0
    assert fedspca("check", "south.parquet", "--against", "schema.json").code == 0
    frame(make_rows()).drop(columns="f1").to_csv(study / "bad.csv", index=False)
    assert fedspca("check", "bad.csv", "--against", "schema.json").code == 1


def test_much_variance_between_sites_is_told(study):
    for name, shift in (("x.csv", 0.0), ("y.csv", 300.0)):
        (frame(make_rows(40)) + shift).to_csv(study / name, index=False)
    said = fedspca("check", "x.csv", "y.csv").out
    assert "of the variance lies between the sites' means" in said
    assert "--centre site" in said
    assert "between the sites' means" not in fedspca("check", "x.csv", "y.csv", "--centre", "site").out
