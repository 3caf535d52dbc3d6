from helpers.commands import fedspca
from helpers.small_study import FIT


def test_a_study_file_says_everything(study):
    assert fedspca("init", "north.csv", "south.parquet").code == 0
    assert "--force" in fedspca("init").err
    assert fedspca("fit", "fit.toml", "--nonzero", "3", "--no-path", "-o", "m1").code == 0
    assert fedspca(*FIT, "-o", "m2").code == 0
    for file in (study / "m1").glob("*.npy"):
        assert file.read_bytes() == (study / "m2" / file.name).read_bytes()
