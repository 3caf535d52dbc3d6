import pytest

from fedspca.fit import read_fit_settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[data", "not valid TOML"),
        ("[dta]\n", "no section 'dta'"),
        ("[fit]\nnonzeros = 3\n", "no setting 'nonzeros'"),
        ("[fit]\ncomponents = 'two'\n", "components must be a whole number"),
        ("[fit]\nscale = 1\n", "scale must be true or false"),
        ("[data]\nfiles = 'a.csv'\n", "files must be a list of texts"),
        ("[columns]\ncategories = { sex = 'F' }\n", r"categories.sex must be a list of texts"),
    ],
)
def test_a_wrong_study_is_explained(tmp_path, text, words):
    (tmp_path / "fit.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_fit_settings(tmp_path / "fit.toml")
