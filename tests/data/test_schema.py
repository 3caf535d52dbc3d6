import hashlib
import json

import pytest

from fedspca import SchemaMismatch
from fedspca.data.columns import Feature
from fedspca.data.schema import Difference, Schema, agree, differences


def schema(*names, dtypes=None):
    return Schema(names, dtypes or ("number",) * len(names))


def test_reordered_columns_are_matched_by_name_and_told():
    names, told = agree({"a": schema("x", "y"), "b": schema("y", "x")})
    assert names == ("x", "y")
    assert told == ["site 'b' has its columns in another order; they are matched by name"]


def test_missing_extra_and_retyped_are_refused_with_what_differs():
    sites = {"a": schema("x", "y"), "b": schema("x", "z"), "c": schema("x", "y", dtypes=("number", "category"))}
    assert [d.site for d in differences(sites)] == ["b", "c"]
    with pytest.raises(SchemaMismatch, match=r"'b' lacks 'y'.*has 'z'.*'c' has another type for 'y'.*--common"):
        agree(sites)
    names, told = agree(sites, common=True)
    assert names == ("x",)
    assert told[-1] == "left out, since not every site has them: 'y', 'z'"


def test_nothing_in_common_is_refused():
    with pytest.raises(SchemaMismatch, match="no feature in common"):
        agree({"a": schema("x"), "b": schema("y")}, common=True)


def test_a_schema_travels_and_shows_tampering():
    original = schema("größe", "a,b", '<b>"')
    assert Schema.from_json(original.to_json()) == original
    assert Schema.from_json(original.to_json()).hash == original.hash
    assert original.hash != schema("a,b", "größe", '<b>"').hash
    with pytest.raises(SchemaMismatch, match="changed after"):
        Schema.from_json(original.to_json().replace("a,b", "ab"))
    with pytest.raises(SchemaMismatch, match="not a schema"):
        Schema.from_json("[]")


def test_the_hash_is_of_names_types_and_their_order():
    """Two sites with the same hash can be analysed together as they are, so types must be in it."""
    one = schema("x", "y")
    assert one.hash == schema("x", "y").hash
    others = [
        schema("y", "x"),
        schema("x"),
        schema("x", "y", "z"),
        schema("x", "y", dtypes=("number", "category")),
        schema("x", "y", dtypes=("category", "number")),
        schema("x,y"),
        schema('x","y'),
    ]
    assert len({one.hash, *(other.hash for other in others)}) == 1 + len(others)
    assert one.hash == hashlib.sha256(b'[["x","y"],["number","number"]]').hexdigest()
    assert schema("ü").hash == hashlib.sha256('[["ü"],["number"]]'.encode()).hexdigest()


def test_features_of_a_table_are_numbers_or_categories():
    found = Schema.of([Feature("age", "age", None, "float64"), Feature("sex=F", "sex", "F", "float64")])
    assert found == Schema(("age", "sex=F"), ("number", "category"))


def test_what_is_written_is_read_by_people_and_programs():
    text = schema("größe", "x", dtypes=("number", "category")).to_json()
    assert text.endswith("}\n")
    assert "größe" in text
    content = json.loads(text)
    assert (content["format"], content["version"]) == ("fedspca-schema", 1)
    assert content["features"] == [{"name": "größe", "dtype": "number"}, {"name": "x", "dtype": "category"}]
    assert text.splitlines()[1] == ' "format": "fedspca-schema",'


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "does not know"),
        ({"version": 2}, "does not know"),
        ({"hash": "0"}, "changed after"),
        ({"hash": None}, "changed after"),
        ({"features": [{"name": "x", "dtype": "category"}, {"name": "y", "dtype": "number"}]}, "changed after"),
        ({"features": [{"name": "x"}]}, "not a schema"),
        ({"features": 3}, "not a schema"),
    ],
)
def test_a_schema_that_was_changed_is_refused(change, words):
    content = json.loads(schema("x", "y").to_json())
    with pytest.raises(SchemaMismatch, match=words):
        Schema.from_json(json.dumps(content | change))
    del content[next(iter(change))]
    with pytest.raises(SchemaMismatch):
        Schema.from_json(json.dumps(content))


def test_a_difference_says_in_sentences_what_it_is():
    different = Difference("b", ("x", "y"), ("z",), ("w",), True)
    assert different.fatal
    assert different.sentences("a") == [
        "site 'b' lacks 'x', 'y', which 'a' has",
        "site 'b' has 'z', which 'a' lacks",
        "site 'b' has another type for 'w'",
        "site 'b' has its columns in another order; they are matched by name",
    ]
    assert Difference("b").sentences("a") == []
    assert not Difference("b").fatal
    assert not Difference("b", reordered=True).fatal
    assert all(Difference("b", **{kind: ("x",)}).fatal for kind in ("missing", "extra", "retyped"))


def test_every_difference_is_found_and_no_other():
    sites = {
        "a": schema("x", "y", "z"),
        "same": schema("x", "y", "z"),
        "fewer": schema("x", "z"),
        "more": schema("x", "y", "w", "z"),
        "turned": schema("z", "y", "x"),
        "both": schema("z", "w", "x", dtypes=("category", "number", "number")),
    }
    assert differences(sites) == [
        Difference("fewer", missing=("y",)),
        Difference("more", extra=("w",)),
        Difference("turned", reordered=True),
        Difference("both", missing=("y",), extra=("w",), retyped=("z",), reordered=True),
    ]
    assert differences({"a": schema("x")}) == []


def test_common_features_are_those_of_every_site_with_the_same_type():
    sites = {
        "a": schema("x", "y", "z", "w"),
        "b": schema("w", "z", "y", "v", dtypes=("number", "category", "number", "number")),
    }
    names, told = agree(sites, common=True)
    assert names == ("y", "w")
    assert told[-1] == "left out, since not every site has them: 'x', 'z', 'v'"
    assert len(told) == 5
    assert agree({"a": schema("x", "y")}, common=True) == (("x", "y"), [])
    many = {"a": schema(*(f"f{k}" for k in range(60))), "b": schema("f0")}
    assert agree(many, common=True)[1][-1].count("'f") == 50
    assert "and 9 more" in agree(many, common=True)[1][-1]


@pytest.mark.parametrize(("missing", "extra", "asked"), [("a--b", "AB", True), ("abc", "abd", False)])
def test_near_names_are_asked_about_by_their_letters_alone(missing, extra, asked):
    told = Difference("south", missing=(missing,), extra=(extra,)).sentences("north")
    assert any(f"{extra!r} for {missing!r} meant?" in sentence for sentence in told) == asked


def test_a_schema_without_some_names_keeps_the_others_in_order():
    whole = Schema(("age", "sex", "bmi"), ("number", "category", "number"))
    assert whole.without(["sex"]) == Schema(("age", "bmi"), ("number", "number"))
