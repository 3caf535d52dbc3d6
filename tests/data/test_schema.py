import numpy as np
import pytest

from fedspca import SchemaMismatch
from fedspca.data.profile import Profile, oddities
from fedspca.data.schema import Schema, agree, differences
from helpers.study_files import make_rows


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


def test_profiles_point_at_units_and_constants():
    profiles = {}
    for site, factor in (("a", 1.0), ("b", 1.0), ("c", 1000.0)):
        rows = make_rows(seed=len(profiles))
        rows[:, 2] *= factor
        if site == "b":
            rows[:, 5] = 3.0
        profiles[site] = Profile.of(rows)
    told = oddities([f"f{j}" for j in range(8)], profiles)
    assert len(told) == 2
    assert "'f2' is" in told[0]
    assert "times larger at site 'c'" in told[0]
    assert "'f5' has one value, or none, at site 'b'" in told[1]
    assert oddities(["x"], {"a": profiles["a"]}) == []


def test_a_profile_counts_what_is_there():
    profile = Profile.of(np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, 5.0]]))
    np.testing.assert_allclose(profile.mean, [2, 5])
    np.testing.assert_allclose(profile.spread, [np.sqrt(2), 0])
    np.testing.assert_allclose(profile.missing, [1 / 3, 2 / 3])
