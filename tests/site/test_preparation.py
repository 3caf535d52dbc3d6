import numpy as np
import pytest

from fedspca.federation import FederationError, LocalFederation
from fedspca.federation.private import PrivateFederation
from fedspca.federation.release_plan import Privacy
from fedspca.site import InvalidData, InvalidQuery, Query, Site
from fedspca.site.preparation import Design, Preparation, checked_weights, columns_beside, level_text, unusual

AGE = np.array([30.0, 40.0, 50.0, 60.0])
SEX = ["F", "M", "M", "F"]


def test_a_design_has_a_column_for_each_level_but_the_first_and_for_each_interaction():
    design = Design(("age", "sex", "age:sex"), {"sex": ("F", "M", "X")})
    assert [line.name for line in design.lines] == ["age", "sex=M", "sex=X", "age:sex=M", "age:sex=X"]
    assert [line.term for line in design.lines] == ["age", "sex", "sex", "age:sex", "age:sex"]
    assert design.names == ("age", "sex")
    encoded = design.encode("here", {"age": AGE, "sex": SEX})
    male = np.array([0.0, 1.0, 1.0, 0.0])
    assert np.array_equal(encoded, np.column_stack([AGE, male, 0 * male, AGE * male, 0 * male]))


def test_a_design_of_any_number_of_columns_is_refused_before_it_is_made():
    """A study is proposed by anyone: a short letter must not take all memory."""
    levels = {name: tuple(map(str, range(1000))) for name in "abcd"}
    with pytest.raises(InvalidData, match=f"have {999**4} columns, and at most 10000"):
        Design(("a:b:c:d",), levels)
    assert len(Design(("a", "b"), levels).lines) == 2 * 999


def test_numbers_may_be_levels_too():
    assert level_text(2.0) == "2"
    assert np.array_equal(Design(("b",), {"b": ("1", "2")}).encode("here", {"b": [1.0, 2.0]}), [[0.0], [1.0]])


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"age": [1.0, None, 3.0], "sex": SEX[:3]}, "'age' has no value in 1 of 3 rows, the first of them row 1"),
        ({"age": ["old", "1", "2"], "sex": SEX[:3]}, "'age' does not hold numbers"),
        ({"age": [1.0, np.inf, 3.0], "sex": SEX[:3]}, "'age' has infinite values"),
        ({"age": [1.0, 2.0, 3.0], "sex": ["F", "D", "M"]}, "'sex' has the level 'D', which is not among"),
        ({"sex": SEX[:3]}, "there is no covariate 'age'"),
    ],
)
def test_covariates_that_cannot_be_used_are_named(values, told):
    with pytest.raises(InvalidData, match=told):
        Design(("age", "sex"), {"sex": ("F", "M")}).encode("here", values)


@pytest.mark.parametrize(
    ("terms", "levels", "told"),
    [
        (("age", "age"), {}, "named more than once"),
        (("age:",), {}, "no covariate, nor an interaction"),
        (("sex",), {"sex": ("F",)}, "two or more different levels"),
    ],
)
def test_a_design_that_makes_no_sense_is_refused(terms, levels, told):
    with pytest.raises(InvalidData, match=told):
        Design(terms, levels)


def test_a_spread_of_its_own_needs_a_mean_of_its_own():
    with pytest.raises(InvalidData, match=r"add centre='site' \(--centre site\)"):
        Preparation(scale="site")
    with pytest.raises(InvalidData, match="scale_by must be joint, site or allele"):
        Preparation(scale="own")
    with pytest.raises(InvalidData, match="centre must be joint, site or combat"):
        Preparation(centre="home")
    with pytest.raises(InvalidData, match="site_weight must be rows or equal"):
        Preparation.of({"site_weight": "same"})


def test_settings_say_what_is_unusual():
    assert unusual({"adjust": [], "levels": {}, "centre": "joint", "solver": "exact"}) == {}
    assert unusual({"adjust": ["age"], "centre": "joint"}) == {"adjust": ["age"]}
    assert Preparation.of({"weight": "w", "centre": "site"}) == Preparation(weighted=True, centre="site")
    assert Preparation.of({}).plain
    assert columns_beside({"adjust": ("age:sex", "age"), "weight": "w"}) == ("age", "sex", "w")


def test_a_covariate_is_no_feature():
    with pytest.raises(InvalidData, match="'age' is a covariate that is taken out, and also a feature"):
        Site("s", np.ones((4, 1)), feature_names=["age"], preparation=Preparation(Design(("age",))))


@pytest.mark.parametrize(
    ("weights", "told"),
    [([1.0, -1.0, 1.0], "finite and not negative"), ([0.0, 0.0, 0.0], "every weight is zero"), ([1.0], "one weight")],
)
def test_weights_that_count_nothing_are_refused(weights, told):
    with pytest.raises(InvalidData, match=told):
        Site("s", np.ones((3, 2)), preparation=Preparation(weighted=True), weights=weights)


def test_sites_of_a_federation_see_their_rows_alike():
    rows = np.random.default_rng(0).standard_normal((5, 2))
    one = Site("one", rows)
    other = Site("other", rows, preparation=Preparation(centre="site"))
    with pytest.raises(FederationError, match="must see their rows alike"):
        LocalFederation([one, other])


def test_a_question_about_covariates_that_a_site_has_not_is_refused():
    with pytest.raises(InvalidQuery, match="0 column"):
        Site("s", np.eye(3)).answer(Query("covariate_sums", {"covariates": np.zeros(2)}))
    weighted = Site("s", np.eye(3), preparation=Preparation(weighted=True), weights=[1, 2, 3])
    with pytest.raises(InvalidQuery, match="weighted_moments"):
        weighted.answer(Query("moments"))


def test_a_private_study_takes_nothing_out():
    sites = [Site("s", np.eye(3), preparation=Preparation(centre="site"))]
    with pytest.raises(FederationError, match="not planned"):
        PrivateFederation(LocalFederation(sites), Privacy(1.0, 1e-6))


@pytest.mark.parametrize(("weight", "told"), [(-1.0, "row 2 has the weight -1"), (np.nan, "row 2 has no weight")])
def test_the_row_of_a_weight_that_cannot_count_is_told(weight, told):
    with pytest.raises(InvalidData, match=f"1 of 4 are not: {told}"):
        checked_weights("Site 'a'", [1.0, 2.0, weight, 0.0], 4)


def test_a_preparation_follows_from_its_settings():
    for centre, terms in (("combat", ("age",)), ("site", ("age", "sex", "age:sex"))):
        levels = {"sex": ("F", "M")} if "sex" in terms else {}
        once = {} if centre == "combat" else {"weighted": True, "equal_sites": True, "scale": "site"}
        found = Preparation(Design(terms, levels), centre=centre, transform=("log1p",), **once)
        assert Preparation.of(found.settings) == found
