import pytest

from fedspca import SchemaMismatch
from fedspca.data.schema import Schema, agree, differences


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
