import numpy as np

from fedspca.linalg.profile import Profile
from helpers.study_files import make_rows


def test_a_profile_counts_what_is_there():
    profile = Profile.of(np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, 5.0]]))
    np.testing.assert_allclose(profile.mean, [2, 5])
    np.testing.assert_allclose(profile.spread, [np.sqrt(2), 0])
    np.testing.assert_allclose(profile.missing, [1 / 3, 2 / 3])


def test_profiles_are_joined_and_taken_apart():
    rows = make_rows()
    rows[::7, 2] = np.nan
    parts = [Profile.of(rows[:30]), Profile.of(rows[30:50]), Profile.of(rows[50:])]
    whole = Profile.of(rows)
    for made in (Profile.joint(parts), Profile.joint([parts[0], Profile.of(rows).without(parts[0])])):
        for name in ("mean", "spread", "missing"):
            np.testing.assert_allclose(getattr(made, name), getattr(whole, name), rtol=1e-9, atol=1e-12)
