import numpy as np

from fedspca.data.profile import Profile, oddities
from helpers.study_files import make_rows


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
