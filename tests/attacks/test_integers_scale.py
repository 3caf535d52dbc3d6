"""The scale of the integers as the coordinator likes it: whether numbers fit would tell each of them by bisection."""

import numpy as np
import pytest

from fedspca import ExactSPCA, InvalidQuery, Query, Site
from fedspca.door import session
from fedspca.masking.coding import STEP, base_of, codings, stated_base, unruly
from fedspca.masking.fixed_point import WIDE, Coding
from helpers.hostile import fails, frame, masked

D = 4


def sites():
    return [Site(f"s{k}", np.random.default_rng(k).standard_normal((n, D))) for k, n in enumerate((20, 50, 90))]


def with_coding(federation, **chosen):
    federation._scale.codings = lambda query, sites: {**codings(query, None), **chosen}
    return federation


def test_without_the_rule_the_largest_site_is_found_by_bisection(monkeypatch):
    monkeypatch.setattr("fedspca.masking.party.unruly", lambda *_: None)
    monkeypatch.setattr(session, "MOST_FAILURES", 10**9)
    federation = masked(sites())
    exponent = 0
    # whether rows·2^e fits: each power of two tells a bit, and coarser roundings of other terms tell the rest
    while not fails(with_coding(federation, rows=Coding(1, exponent)), Query("moments")):
        exponent += 1
    bound = Coding(1, exponent).limit(3)
    assert bound <= 90 < 2 * bound


@pytest.mark.parametrize(
    "chosen", [{"rows": Coding(1, 56)}, {"rows": Coding(2, 0)}, {"sums": Coding(1, 10)}, {"sums": Coding(8, 255)}]
)
def test_another_coding_is_refused(chosen):
    with pytest.raises(InvalidQuery, match="by the rule"):
        with_coding(masked(sites()), **chosen).sum(Query("moments"))


def product(columns=2):
    return Query("gram_product", {**frame(D), "directions": np.eye(D, columns)}, {"precision": "float64"})


def test_a_study_has_one_scale():
    federation = masked(sites())
    with pytest.raises(InvalidQuery, match="by the rule"):
        with_coding(federation, product=Coding(1, 41)).sum(product())
    with_coding(federation, product=Coding(1, 40)).sum(product())
    with_coding(federation, product=WIDE).sum(product())  # what nothing bounds is always possible
    for run in (federation, _another_run(federation)):
        with pytest.raises(InvalidQuery, match="one scale"):
            with_coding(run, product=Coding(1, 48)).sum(product())


def _another_run(federation):
    inside = federation._conversation
    return type(federation)(type(inside)(inside._channel, inside._identity, inside.agreement, "1" * 32))


def test_the_rule_gives_every_question_of_a_fit_the_same_scale():
    federation = masked(sites())
    bases = set()
    asked = federation._questions

    def seen(ready, query, given):
        if (base := stated_base(query, given)) is not None:
            bases.add(base)
            assert unruly(query, {name: list(coding) for name, coding in given.items()}, base) is None
        return asked(ready, query, given)

    federation._questions = seen
    ExactSPCA(2, n_nonzero=2).fit_federation(federation)
    assert len(bases) == 1
    assert bases.pop() % STEP == 0


def test_the_scale_leaves_room_for_the_trace():
    for trace in (1e-20, 0.7, 1.0, 5.0, 1e20):
        base = base_of(trace, 5)
        assert 5 * trace < 2.0**63 / 2.0**base <= 2.0 ** (STEP + 5) * trace
