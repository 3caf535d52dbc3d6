"""What a person reads at the command line names options, never Python's parameters."""

import numpy as np
import pytest

from fedspca.cli.words import in_options
from helpers.commands import fedspca
from helpers.study_files import frame, make_rows, write


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("The 'n_components' parameter of ExactSPCA must be at most 5.", "--components must be at most 5."),
        ("Impute them first, or fit with max_missing.", "Impute them first, or fit with --max-missing."),
        ("Try more rounds (max_rounds), or ExactSPCA.", "Try more rounds (--max-rounds), or --solver exact."),
        ("There is no column 'max_missing'.", "There is no column 'max_missing'."),
    ],
)
def test_sentences_of_the_library_in_the_words_of_the_command_line(said, told):
    assert in_options(said) == told


@pytest.mark.parametrize(
    ("arguments", "option", "parameter"),
    [
        (("-r", "99"), "--components", "n_components"),
        (("--nonzero", "0"), "--nonzero", "n_nonzero"),
        (("--max-missing", "7"), "--max-missing", "max_missing"),
        (("--nonzero", "0"), "--nonzero must be a whole number of at least 1", "array-like"),
        (("--seed", "-1"), "--seed must be a seed, which is a whole number", "numpy"),
        (("--proof-seconds", "-1"), "--proof-seconds must be a number of at least 0", "parameter"),
        (("--folds", "3"), "--folds must be an even number of at least 4", "parameter"),
        (("--sample", "1", "--nonzero", "2"), "--sample must be a whole number of at least 2", "parameter"),
        (("--search", "all"), "--search must be 'auto', 'products' or 'thorough'", "parameter"),
        (("--solver", "fsspca", "--lam", "-1", "--lam1", "1"), "--lam must be a number of at least 0", "lam2"),
    ],
)
def test_a_wrong_option_is_named_as_it_was_typed(arguments, option, parameter, tmp_path):
    path = write(tmp_path / "a.csv", make_rows())
    ran = fedspca("fit", path, *arguments, "-o", tmp_path / "m")
    assert ran.code == 2
    assert option in ran.err
    assert parameter not in ran.err


def test_missing_values_name_the_option_that_allows_them(tmp_path):
    rows = frame(make_rows())
    rows.iloc[:60, 2] = np.nan
    rows.to_csv(tmp_path / "a.csv", index=False)
    ran = fedspca("fit", tmp_path / "a.csv", "-o", tmp_path / "m")
    assert "--max-missing" in ran.err
    assert "that max_missing" not in ran.err
    ran = fedspca("fit", tmp_path / "a.csv", "--max-missing", "0", "-o", tmp_path / "m")
    assert "or set --max-missing to allow for missing values" in ran.err


def test_a_settings_file_keeps_its_own_names(tmp_path):
    (tmp_path / "fit.toml").write_text('[fit]\nmax_missing = "much"\n')
    ran = fedspca("fit", tmp_path / "fit.toml", "-o", tmp_path / "m")
    assert "max_missing must be a number" in ran.err
    assert "--max-missing" not in ran.err
