import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca import Policy, Site
from fedspca.door.agreement import InvalidAgreement, objections, owners_objections, read_agreement
from helpers.door import rows
from helpers.letters import agreement_for


def test_objections_name_what_the_policy_refuses():
    site = Site("north", rows())
    fit = {"components": 1, "folds": 10, "seed": 0}
    agreement = agreement_for([site], max_rounds=100, max_components=30, fit=fit)
    policy = Policy(
        min_rows=50,
        min_sites=2,
        masking=True,
        max_rounds=10,
        max_components=5,
        max_folds=4,
        allowed_queries={"moments"},
        epsilon=1.0,
    )
    found = " ".join(objections(agreement, policy, rows=20, features=site.feature_names))
    for words in (
        "fewer rows than the 50",
        "1 sites",
        "masks",
        "curvature",
        "100 questions",
        "30 directions",
        "by 10 folds and its policy allows at most 4",
        "differential privacy",
    ):
        assert words in found
    assert objections(agreement, Policy(), rows=20, features=site.feature_names) == []
    assert "not more than the 1 components" in owners_objections(agreement, rows=1)[0]
    assert owners_objections(agreement, rows=2) == []


def test_a_sample_is_objected_to_where_a_policy_does_not_allow_so_few_rows():
    site = Site("north", rows())
    agreement = agreement_for([site], fit={"components": 1, "sample": 10, "seed": 0})

    def objected(policy):
        return " ".join(objections(agreement, policy, rows=200, features=site.feature_names))

    assert objected(Policy(min_rows=20)) == ""
    assert "a sample of one row in 10 holds fewer rows than the 21" in objected(Policy(min_rows=21))
    assert "fewer rows than the 30" in objected(Policy(min_fold_rows=30))
    assert "no sums over parts of them" in objected(Policy(max_folds=0))
    for given_too in ({"fit": {"sample": 10, "folds": 4}}, {"privacy": {"epsilon": 1.0, "delta": 1e-6}}):
        with pytest.raises(InvalidAgreement, match="has no sample of the rows"):
            agreement_for([site], **{"fit": {"sample": 10}, **given_too})


@given(
    st.binary(max_size=100)
    | st.text(max_size=100)
    | st.recursive(st.integers() | st.text(max_size=3), lambda i: st.dictionaries(st.text(max_size=3), i)).map(str)
)
def test_no_text_breaks_the_reading_of_terms(text):
    with pytest.raises(InvalidAgreement):
        read_agreement(text)


@given(
    st.sampled_from(
        [
            "study",
            "coordinator",
            "sites",
            "features",
            "fit",
            "questions",
            "max_rounds",
            "masked",
            "privacy",
            "min_sites",
            "on_dropout",
            "deadline",
            "version",
        ]
    ),
    st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.lists(st.integers(), max_size=2) | st.floats(),
)
def test_terms_with_a_wrong_part_are_refused_or_the_same_kind_of_terms(name, value):
    content = json.loads(agreement_for([Site("north", rows())]).text())
    content[name] = value
    with contextlib.suppress(InvalidAgreement):
        assert read_agreement(json.dumps(content)).text()
