import json

from helpers.commands import fedspca
from helpers.small_study import FIT


def test_compare(study):
    fedspca(*FIT, "-o", "a")
    fedspca("fit", "north.csv", "south.parquet", "--nonzero", "2", "--exclude", "f7", "--no-path", "-o", "b")
    result = json.loads(fedspca("compare", "a", "b", "--json").out)
    assert result["only_in_a"] == ["f7"]
    assert all(pair["shared"] == 2 and pair["cosine"] > 0.7 for pair in result["pairs"])
    assert result["settings"]["nonzero"] == [3, 2]
    assert "Setting nonzero: 3 in A, 2 in B." in fedspca("compare", "a", "b").out


def test_compare_leaves_components_alone_that_have_nothing_in_common(study):
    fedspca("fit", "north.csv", "-r", "1", "--nonzero", "3", "--features", "f0,f1,f2,f7", "--no-path", "-o", "a")
    fedspca("fit", "north.csv", "-r", "1", "--nonzero", "3", "--features", "f3,f4,f5,f7", "--no-path", "-o", "b")
    result = json.loads(fedspca("compare", "a", "b", "--json").out)
    assert result["pairs"] == []
    assert (result["alone_in_a"], result["alone_in_b"]) == ([1], [1])
    assert "no match" in fedspca("compare", "a", "b").out


def test_a_component_beyond_those_of_the_other_model_is_said_to_be_that(study):
    fedspca("fit", "north.csv", "-r", "2", "--nonzero", "3", "--no-path", "-o", "a")
    fedspca("fit", "north.csv", "-r", "1", "--lam", "3", "--no-path", "-o", "b")
    told = fedspca("compare", "a", "b").out
    assert "of A: no match (B has no component left)." in told
    assert "of B: no match (A has no component left)." in fedspca("compare", "b", "a").out
    assert "Setting nonzero: 3 in A, not set in B." in told
    assert "None" not in told
