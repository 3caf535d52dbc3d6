import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.federation import make_sites
from fedspca import Query
from fedspca.federation.conversation import SiteLost
from fedspca.letters.wire import Message, WireError
from fedspca.masking.aggregator import Scale, check_reply, collected, stacked
from fedspca.masking.fixed_point import WIDE, Coding
from fedspca.masking.party import threshold_of
from fedspca.masking.secret_sharing import SEALED, BrokenSecret
from helpers.masks import step, watched
from helpers.private import query as private_query
from helpers.protocol import MOMENTS, NAMES, Protocol, terms_of

STAGES = ("keys", "shares", "masked", "unmask")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lost=st.dictionaries(st.integers(0, 5), st.sampled_from(STAGES), max_size=4), rounds=st.integers(0, 1))
def test_the_sum_is_that_of_the_survivors_or_there_is_none(lost, rounds):
    sites = make_sites(sizes=(5, 3, 9, 4, 6, 7))
    names = [site.name for site in sites]
    threshold = threshold_of(6, 3)
    assert threshold == 5
    if rounds:  # keys and shares go before the first round only
        lost = {k: stage for k, stage in lost.items() if stage in ("masked", "unmask")}
    federation, channel = watched(sites, {names[k]: stage for k, stage in lost.items()}, after=rounds)
    for iteration in range(rounds):
        federation.sum(step(sites, iteration))
    answered = [site for k, site in enumerate(names) if lost.get(k) in (None, "unmask")]
    if rounds and len(answered) < len(names):  # what was summed over all of them is not summed over fewer
        with pytest.raises(SiteLost):
            federation.sum(step(sites, rounds))
        return
    helping = [site for k, site in enumerate(names) if k not in lost]
    if len(answered) < threshold or len(helping) < threshold:
        told = len(channel.replies("unmask"))
        with pytest.raises(SiteLost):
            federation.sum(step(sites, rounds))
        shares = len(channel.replies("unmask")) - told
        assert shares < threshold  # fewer shares than that tell nothing
        return
    answer = federation.sum(step(sites, rounds))
    twins = {site.name: site for site in make_sites(sizes=(5, 3, 9, 4, 6, 7))}
    for iteration in range(rounds):
        [twin.answer(step(sites, iteration)) for twin in twins.values()]
    expected = [twins[name].answer(step(sites, rounds)) for name in answered]
    assert answer.n_sites == len(answered)
    for term in expected[0]:
        assert np.allclose(answer[term], sum(each[term] for each in expected), rtol=1e-12, atol=1e-12)


# -- message by message, without a channel -----------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [(), ("a",), ("b",), ("d",)])
def test_masks_come_off_the_sum_of_those_who_answered(lost):
    made, terms = Protocol(), terms_of()
    made.share()
    answers = made.mask(MOMENTS, terms, lost=lost)
    found = made.total(MOMENTS, answers, made.unmask(answers))
    for name in ("rows", "counts", "sums"):
        assert np.allclose(found[name], sum(terms[site][name] for site in answers), atol=1e-12)


def test_enough_helpers_will_do_and_too_few_will_not():
    made, terms = Protocol(), terms_of()
    made.share()
    answers = made.mask(MOMENTS, terms)
    shares = made.unmask(NAMES)
    some = {name: shares[name] for name in ("b", "c", "d")}
    assert made.total(MOMENTS, answers, some)["rows"] == 2 + 3 + 4 + 5
    with pytest.raises(BrokenSecret, match="2 shares, where 3"):
        made.total(MOMENTS, answers, {name: shares[name] for name in ("b", "c")})


@pytest.mark.parametrize(("site", "words"), [("b", "seed of site 'b'"), ("d", "key of site 'd'")])
def test_a_site_that_tells_a_wrong_share_is_noticed(site, words):
    """Without the commitment, one wrong share would leave masks in the sum, and nobody would know."""
    made = Protocol()
    made.share()
    answers = made.mask(MOMENTS, terms_of(), lost=("d",))
    shares = made.unmask(answers)
    wrong = shares["a"].copy()
    wrong[NAMES.index(site), 3] ^= 1
    with pytest.raises(BrokenSecret, match=f"{words} do not fit together"):
        made.total(MOMENTS, answers, {**shares, "a": wrong})


def test_replies_are_collected_by_site():
    made = Protocol()
    told = made.share()
    found = collected({name: told[name] for name in reversed(NAMES)}, NAMES)
    assert found.sites == found.recipients == NAMES
    for name in NAMES:
        assert found.keys[name] == told[name].arrays["key"].tobytes()
        assert found.commitments[name] == told[name].arrays["commitment"].tobytes()
        assert np.array_equal(found.letters[name], told[name].arrays["shares"])


def product(directions, mean=None, scale=None):
    d = len(directions)
    frame = {"mean": np.zeros(d) if mean is None else mean, "scale": np.ones(d) if scale is None else scale}
    arrays = {**frame, "removed": np.zeros((d, 0)), "directions": directions}
    return Query("gram_product", arrays, {"precision": "float64"})


class TestScale:
    @pytest.fixture
    def scale(self):
        made = Scale()
        made.learn(Query("moments"), {"rows": np.array(10.0), "counts": np.full(3, 10.0), "sums": np.zeros(3)})
        made.learn(Query("deviations", {"mean": np.array([1.0, 2.0, 3.0])}), {"squares": np.array([4.0, 9.0, 16.0])})
        return made

    def test_counts_are_whole_and_what_has_no_bound_is_wide(self):
        assert Scale().codings(Query("moments"), 3) == {"rows": Coding(1, 0), "counts": Coding(1, 0), "sums": WIDE}
        assert Scale().codings(Query("deviations", {"mean": np.zeros(3)}), 3)["squares"] == WIDE
        assert Scale().codings(product(np.eye(3)), 3) == {"product": WIDE}
        assert Scale().codings(step([]), 3)["consensus"] == Coding(2, 64)

    def test_with_noise_the_grid_is_the_noises_own(self):
        assert Scale().codings(private_query("private_gram", grid=21), 3) == {"gram": Coding(1, 21)}

    def test_squares_count_only_after_rows(self):
        made = Scale()
        made.learn(Query("deviations", {"mean": np.zeros(3)}), {"squares": np.ones(3)})
        assert made.arrays == {}
        made.learn(product(np.eye(3)), {"product": np.eye(3), "rows": np.array(1.0), "squares": np.ones(3)})
        assert made.arrays == {}
        kept = Scale({"rows": np.array([1.0])})
        assert set(kept.arrays) == {"rows"}

    def test_weighted_rows_and_residuals_bound_later_sums_too(self):
        made = Scale()
        counts = {"used": np.array([4.0, 6.0]), "rows": np.array(99.0)}  # the rows with a weight, in two folds
        made.learn(Query("weighted_moments"), counts)
        assert made.arrays["rows"].tolist() == [10.0]
        made.learn(Query("residuals", {"mean": np.ones(3)}), {"squares": np.array([[1.0, 2.0, 3.0]] * 2)})
        assert made.arrays["squares"].tolist() == [2.0, 4.0, 6.0]
        assert made.arrays["mean"].tolist() == [1.0, 1.0, 1.0]

    @pytest.mark.parametrize("sites", [2, 3, 4, 5])
    def test_a_bound_holds_and_wastes_at_most_a_byte(self, scale, sites):
        mean, units = np.array([1.0, -98.0, 3.0]), np.array([1.0, 2.0, 0.5])
        asked = product(np.full((3, 1), 1 / np.sqrt(3.0)), mean, units)
        # Σ(x − m)² ≤ 2Σ(x − μ)² + 2n(μ − m)², in the units of the frame
        trace = 2.01 * np.sum((np.array([4.0, 9.0, 16.0]) + 10.0 * np.array([0.0, 100.0**2, 0.0])) / units**2)
        for name, query in (("product", asked), ("captured", Query("captured_variance", dict(asked.arrays)))):
            codings = scale.codings(query, sites)
            assert set(codings) == {name}
            assert codings[name].words == 1
            assert trace <= codings[name].limit(sites) < 2 * 2**8 * trace
            assert scale._trace(query) == pytest.approx(trace, rel=1e-12)

    def test_a_small_trace_is_a_bound_too(self, scale):
        scale.arrays |= {"squares": np.full(3, 1e-6), "mean": np.zeros(3)}
        assert scale.codings(product(np.eye(3)), 3)["product"].words == 1

    def test_a_bound_is_only_for_products(self, scale):
        assert scale.codings(Query("moments"), 3) == Scale().codings(Query("moments"), 3)

    @pytest.mark.parametrize("squares", [np.zeros(3), np.full(3, np.inf), np.full(3, np.nan)])
    def test_without_a_trace_words_are_wide(self, scale, squares):
        scale.arrays["squares"] = squares
        scale.arrays["mean"] = np.zeros(3)
        with np.errstate(all="ignore"):
            assert scale.codings(product(np.eye(3)), 3) == {"product": WIDE}


class TestReplies:
    def reply(self, kind="masked", **changed):
        arrays = {
            "key": np.zeros(32, np.uint8),
            "commitment": np.zeros(32, np.uint8),
            "shares": np.zeros((3, SEALED), np.uint8),
            "vector": np.zeros(7, np.uint64),
            "certificate": np.zeros(200, np.uint8),
        }
        arrays |= {name: array for name, array in changed.items() if array is not None}
        return Message(kind, {}, {name: array for name, array in arrays.items() if changed.get(name, 0) is not None})

    @pytest.mark.parametrize("kind", ["keys", "shares", "masked"])
    def test_a_reply_of_the_right_form_is_taken(self, kind):
        check_reply(kind, self.reply(kind), 3, 7)

    @pytest.mark.parametrize(
        ("kind", "name", "array"),
        [
            ("keys", "certificate", None),
            ("keys", "certificate", np.zeros(9, np.uint64)),
            ("keys", "certificate", np.zeros((2, 9), np.uint8)),
            ("shares", "key", None),
            ("shares", "key", np.zeros(31, np.uint8)),
            ("shares", "commitment", np.zeros(33, np.uint8)),
            ("shares", "shares", np.zeros((2, SEALED), np.uint8)),
            ("shares", "shares", np.zeros((3, SEALED), np.uint64)),
            ("masked", "key", None),
            ("masked", "vector", None),
            ("masked", "vector", np.zeros(8, np.uint64)),
            ("masked", "vector", np.zeros(6, np.uint64)),
            ("masked", "vector", np.zeros(7)),
            ("masked", "vector", np.zeros((7, 1), np.uint64)),
        ],
    )
    def test_a_reply_of_another_form_is_not(self, kind, name, array):
        with pytest.raises(WireError, match=name):
            check_reply(kind, self.reply(kind, **{name: array}), 3, 7)

    def test_keys_come_without_shares_and_shares_without_a_vector(self):
        check_reply("keys", self.reply("keys", key=None, shares=None, vector=None), 3, 7)
        check_reply("shares", self.reply("shares", vector=None, certificate=None), 3, 7)


def test_pieces_become_rows():
    assert np.array_equal(stacked([b"ab", b"cd"]), [[97, 98], [99, 100]])
    assert stacked(iter([b"ab"])).dtype == np.uint8
