"""Secure aggregation: the sum and nothing else, whoever is lost and whenever."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.federation import D, FederationContract, make_sites, pooled
from fedspca import FASPCA, FSSPCA, ExactSPCA, LocalFederation, Query, Site, SiteRefusal
from fedspca.attack.reconstruction import reconstruct
from fedspca.door.session import Session
from fedspca.federation import FederationError
from fedspca.federation.conversation import Conversation, SiteLost
from fedspca.federation.secure import SecureFederation, secure_federation
from fedspca.letters.identity import Identity, split_letter
from fedspca.letters.wire import decode
from fedspca.linalg.operators import Frame
from fedspca.masking import party
from fedspca.masking.aggregator import Scale
from fedspca.masking.fixed_point import WIDE, Coding, decode_terms, encode_terms, layout
from fedspca.masking.party import threshold_of
from fedspca.solvers.asking import frame_arrays

STAGES = ("keys", "shares", "masked", "unmask")


class TestSecureFederation(FederationContract):
    def federate(self, sites):
        return secure_federation(sites)


class Unreliable:
    """A channel that loses sites before a given kind of letter, and keeps a transcript of every letter."""

    def __init__(self, inner, lost=None, after=0):
        self.inner, self.lost, self.after = inner, lost or {}, after
        self.gone, self.letters, self.received = set(), [], []

    @property
    def sites(self):
        return self.inner.sites

    def exchange(self, letters, deadline):
        kinds = {site: decode(split_letter(letter)[1]).kind for site, letter in letters.items()}
        for site, kind in kinds.items():
            message = decode(split_letter(letters[site])[1])
            if message.fields.get("round", 0) > self.after and self.lost.get(site) == kind:
                self.gone.add(site)
        here = {site: letter for site, letter in letters.items() if site not in self.gone}
        replies = self.inner.exchange(here, deadline)
        self.letters += [*here.values(), *replies.values()]
        self.received += list(replies.items())
        return replies

    def replies(self, kind):
        opened = [(site, decode(split_letter(letter)[1])) for site, letter in self.received]
        return [(site, message) for site, message in opened if message.kind == kind]


def watched(sites, lost=None, after=0, on_dropout="continue", **settings):
    """A secure federation over a channel that loses sites."""
    federation = secure_federation(sites, on_dropout=on_dropout, **settings)
    conversation = federation._conversation
    channel = Unreliable(conversation._channel, lost, after)
    inside = Conversation(channel, conversation._identity, conversation.agreement, conversation.run)
    return SecureFederation(inside), channel


def step(sites, iteration=0, r=2):
    """A question that a study goes on asking when a site is lost."""
    start = np.linalg.qr(np.random.default_rng(5).standard_normal((D, r)))[0]
    arrays = {"z": start}
    if iteration == 0:
        arrays |= {**frame_arrays(Frame(np.zeros(D), np.ones(D), np.zeros((D, 0)))), "start": start}
    return Query("faspca_step", arrays, {"iteration": iteration, "rho": 50.0, "seed": 1, "deflation": "orthogonal"})


def fits(sites):
    return {
        "exact": ExactSPCA(2, lam=3.0),
        "exact, by cardinality": ExactSPCA(2, n_nonzero=3),
        "faspca": FASPCA(2, lam=3.0, max_rounds=30),
        "fsspca": FSSPCA(2, lam2=3.0, lam1=0.1, max_rounds=30),
    }


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", sorted(fits([])))
def test_every_solver_gives_what_it_gives_without_masks(name):
    def sites():
        return make_sites(sizes=(20, 11, 30))

    plain = fits(sites())[name].fit_federation(LocalFederation(sites()))
    masked = fits(sites())[name].fit_federation(secure_federation(sites()))
    assert np.abs(masked.components_ - plain.components_).max() < 1e-8
    assert np.isclose(masked.objective_, plain.objective_, rtol=1e-8)
    assert np.allclose(masked.explained_variance_, plain.explained_variance_, rtol=1e-8)
    assert len(masked.history_) == len(plain.history_)


def test_columns_of_any_size_keep_their_digits():
    sizes = 10.0 ** np.array([-9, -6, -3, 0, 6, 9])
    tables = [np.random.default_rng(k).standard_normal((30, D)) * sizes + 5 * sizes for k in range(3)]

    def sites():
        return [Site(f"s{k}", table) for k, table in enumerate(tables)]

    plain = ExactSPCA(2, lam=3.0, scale=True).fit_federation(LocalFederation(sites()))
    masked = ExactSPCA(2, lam=3.0, scale=True).fit_federation(secure_federation(sites()))
    assert np.abs(masked.components_ - plain.components_).max() < 1e-8
    assert np.allclose(masked.mean_, plain.mean_, rtol=1e-12)
    assert np.allclose(masked.scale_, plain.scale_, rtol=1e-12)


# -- lost sites --------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


def test_a_consensus_waits_for_a_lost_site_and_earlier_rounds_stay_hidden():
    sites = make_sites(sizes=(5, 3, 9, 4, 6))
    federation, channel = watched(sites, {"clinic-2": "masked"}, after=1)
    federation.sum(step(sites, 0))
    with pytest.raises(SiteLost, match="difference of two sums"):
        federation.sum(step(sites, 1))
    # the key that the others would restore for the lost site is not the one it used in round 1
    keys = [message.arrays["key"].tobytes() for site, message in channel.replies("shares") if site == "clinic-2"]
    keys += [message.arrays["key"].tobytes() for site, message in channel.replies("masked") if site == "clinic-2"]
    assert len(set(keys)) == len(keys) == 2


def test_under_masks_no_other_fit_begins_again_without_the_lost_site():
    sites = make_sites(sizes=(5, 3, 9, 4, 6))
    federation, _ = watched(sites, {"clinic-2": "masked"}, after=1)
    federation.sum(Query("moments"))
    with pytest.raises(SiteLost, match="difference of two sums"):
        federation.sum(Query("deviations", {"mean": np.zeros(D)}))


def test_the_same_question_is_not_summed_over_other_sites():
    sites = make_sites(sizes=(5, 3, 9, 4, 6))
    federation, _ = watched(sites)
    federation.sum(Query("moments"))
    federation.sum(Query("moments"))  # over the same sites it tells nothing new
    federation.sites = federation.sites[1:]  # a coordinator that leaves one out
    with pytest.raises(SiteRefusal, match="difference of the sums"):
        federation.sum(Query("moments"))
    with pytest.raises(SiteRefusal, match="difference of the sums"):  # or puts the question in other words
        federation.sum(Query("deviations", {"mean": np.full(D, 1e-9)}))


def test_the_same_question_is_not_summed_over_other_sites_in_another_run():
    sites = make_sites(sizes=(5, 3, 9, 4, 6))
    federation, _ = watched(sites)
    federation.sum(Query("moments"))
    inside = federation._conversation
    again = SecureFederation(
        Conversation(inside._channel, inside._identity, inside.agreement, "0" * 32), sites=federation.sites[1:]
    )
    with pytest.raises(SiteRefusal, match="difference of the sums"):
        again.sum(Query("moments"))


def test_a_late_answer_is_not_unmasked():
    sites = make_sites(sizes=(5, 3, 9, 4, 6))
    federation, _ = watched(sites, {"clinic-2": "masked"})
    federation.sum(step(sites, 0))
    inside = federation._conversation
    late = ({"survivors": [site.name for site in sites], "query": "faspca_step"}, {})
    for site in federation.sites:
        with pytest.raises(SiteRefusal, match="answered before"):
            inside.ask("unmask", 1, {site: late}, "unmask")


def test_two_sites_are_refused():
    with pytest.raises(FederationError, match="at least 3 sites"):
        secure_federation(make_sites(sizes=(5, 3)))
    assert secure_federation(make_sites(sizes=(5, 3)), min_sites=2).sum(Query("moments")).number("rows") == 8


def test_a_coordinator_that_was_stopped_sends_the_same_letters():
    sites = make_sites()
    federation, channel = watched(sites)
    federation.sum(Query("moments"))
    mean = np.zeros(D)
    kept = federation.snapshot()
    first = federation.sum(Query("deviations", {"mean": mean}))
    again = SecureFederation(federation._conversation)
    again.restore(kept)
    second = again.sum(Query("deviations", {"mean": mean}))
    assert np.array_equal(first["squares"], second["squares"])
    assert channel.inner.endpoints["clinic-0"].site._answered == 2


# -- what can be seen --------------------------------------------------------------------------------------------------


def test_masked_vectors_look_uniform_and_hold_no_term():
    sites = make_sites(sizes=(40, 40, 40))
    federation, channel = watched(sites)
    directions = np.eye(D)
    arrays = {**frame_arrays(Frame(np.zeros(D), np.ones(D), np.zeros((D, 0)))), "directions": directions}
    for number in range(30):
        federation.sum(
            Query("gram_product", {**arrays, "directions": np.roll(directions, number, 1)}, {"precision": "float64"})
        )
    seen = np.concatenate([message.arrays["vector"].view(np.uint8) for _, message in channel.replies("masked")])
    counts = np.bincount(seen, minlength=256)
    chi2 = float(((counts - len(seen) / 256) ** 2 / (len(seen) / 256)).sum())
    assert abs(chi2 - 255) < 6 * np.sqrt(2 * 255)
    bits = np.unpackbits(seen)
    assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(len(bits))
    gram = sites[0]._data.rows.T @ sites[0]._data.rows
    for coding in (WIDE, Coding(1, 40)):
        plain = encode_terms({"product": gram}, layout({"product": gram.shape}, {"product": coding}), 3)
        words = {int(word) for word in plain} - {0, 2**64 - 1}
        told = {int(word) for _, message in channel.replies("masked") for word in message.arrays["vector"]}
        assert not words & told
    everything = b"".join(channel.letters)
    assert not any(value.tobytes() in everything for value in gram.ravel())


def test_the_attack_learns_no_more_than_the_aggregate():
    rng = np.random.default_rng(0)
    d, r = 20, 2
    parts = [rng.standard_normal((60, d)) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d))) for _ in range(3)]
    sites = [Site(f"s{k}", part) for k, part in enumerate(parts)]
    federation, channel = watched(sites)
    asked = []
    frame = frame_arrays(Frame(np.zeros(d), np.ones(d), np.zeros((d, 0))))
    z = np.linalg.qr(rng.standard_normal((d, r)))[0]
    scale = Scale()
    for iteration in range(12):
        arrays = {"z": z, **({**frame, "start": z} if iteration == 0 else {})}
        scalars = {"iteration": iteration, "rho": 400.0, "seed": 1, "deflation": "orthogonal"}
        query = Query("faspca_step", arrays, scalars)
        answer = federation.sum(query)
        asked.append((query, answer))
        z = answer["consensus"] / 3
    target = parts[1].T @ parts[1]

    def error(terms):
        pairs = [(query, each) for (query, _), each in zip(asked, terms, strict=True)]
        return np.linalg.norm(reconstruct(pairs, "s1", d) - target) / np.linalg.norm(target)

    shapes = {name: value.shape for name, value in asked[0][1].arrays.items()}
    segments = layout(shapes, scale.codings(asked[0][0], 3))
    mine = [message.arrays["vector"] for site, message in channel.replies("masked") if site == "s1"]
    # the last place would say that the numbers do not fit; whoever guesses takes them for numbers all the same
    from_masked = error([decode_terms(np.append(vector[:-1], np.uint64(0)), segments) for vector in mine])
    aggregate = sum(part.T @ part for part in parts) / 3
    knowing_the_aggregate = np.linalg.norm(aggregate - target) / np.linalg.norm(target)
    assert from_masked > knowing_the_aggregate
    # nor does it help to take the average for the site's own answer
    assert (
        error([{name: value / 3 for name, value in answer.arrays.items()} for _, answer in asked])
        > 0.5 * knowing_the_aggregate
    )


# -- a coordinator in the middle ---------------------------------------------------------------------------------------


class Meddling(SecureFederation):
    """A coordinator that shows sites other keys than were sent."""

    swap = None

    def _questions(self, ready, query, codings):
        if self.swap == "key":
            ready = ready._replace(keys={**ready.keys, "clinic-1": bytes(range(32))})
        if self.swap == "letter":
            letters = {**ready.letters, "clinic-1": ready.letters["clinic-2"]}
            ready = ready._replace(letters=letters)
        return super()._questions(ready, query, codings)


@pytest.mark.parametrize("swap", ["key", "letter"])
def test_a_swapped_key_is_noticed(swap):
    federation = secure_federation(make_sites())
    meddling = Meddling(federation._conversation)
    meddling.swap = swap
    with pytest.raises(SiteRefusal, match="key shown as"):
        meddling.sum(Query("moments"))


def test_a_forged_certificate_is_noticed():
    federation = secure_federation(make_sites())
    other = secure_federation(make_sites())
    other.sum(Query("moments"))
    federation.sum(Query("moments"))
    fresh = SecureFederation(
        Conversation(
            federation._conversation._channel,
            federation._conversation._identity,
            federation._conversation.agreement,
            "1" * 32,
        )
    )
    gather = fresh._gather

    def forged(kind, *rest):
        answers = gather(kind, *rest)
        if kind == "keys":
            answers["clinic-1"].arrays["certificate"] = other._certificates["clinic-1"]
        return answers

    fresh._gather = forged
    with pytest.raises(SiteRefusal, match="key shown as site 'clinic-1'"):
        fresh.sum(Query("moments"))


def test_no_site_tells_both_secrets_of_another():
    sites = make_sites(sizes=(5, 3, 9, 4, 6))
    federation, _ = watched(sites)
    federation.sum(Query("moments"))
    survivors = [site.name for site in sites][1:]
    for site in survivors:
        with pytest.raises(SiteRefusal, match="answered before"):
            federation._conversation.ask(
                "unmask", 1, {site: ({"survivors": survivors, "query": "moments"}, {})}, "unmask"
            )


def anyhow(monkeypatch, federation, codings):
    """Integers of the coordinator's choice, and sites that take them."""
    monkeypatch.setattr("fedspca.masking.party.unruly", lambda *_: None)
    monkeypatch.setattr(federation._scale, "codings", lambda query, sites: codings)


def test_numbers_that_do_not_fit_are_told_under_masks_and_nobody_is_named():
    federation, channel = watched(make_sites())
    with pytest.MonkeyPatch.context() as patched:
        anyhow(patched, federation, dict.fromkeys(("rows", "counts", "sums"), Coding(1, 62)))
        with pytest.raises(FederationError, match="numbers of one site or more do not fit"):
            federation.sum(Query("moments"))
    assert all(message.kind != "refused" for _, message in channel.replies("masked"))
    assert federation.sum(Query("moments")).number("rows") == len(pooled(make_sites()))  # it ends one round only


def test_a_bound_that_all_sites_but_one_exceed_does_not_tell_that_ones_terms(monkeypatch):
    """Else a coordinator would look for such a bound, and read one site's own terms off the sum."""
    sites = make_sites(sizes=(40, 3, 45))
    federation, _ = watched(sites)
    codings = {"rows": Coding(1, 56), "counts": WIDE, "sums": WIDE}
    assert codings["rows"].limit(3) == 16
    anyhow(monkeypatch, federation, codings)
    monkeypatch.setattr(
        "fedspca.federation.secure.decode_terms",  # a coordinator that takes what it has for numbers all the same
        lambda total, segments: decode_terms(np.append(total[:-1], np.uint64(0)), segments),
    )
    read, alone = federation.sum(Query("moments")), sites[1].answer(Query("moments"))
    assert read["rows"] != alone["rows"]
    assert not np.isclose(read["sums"], alone["sums"]).any()


def test_sites_that_are_asked_different_things_have_masks_that_do_not_cancel():
    """Else a coordinator could ask one site for its covariance, the others for zeros, and call that a sum."""
    sites = make_sites(sizes=(5, 7, 9))
    federation = secure_federation(sites)
    d = sites[0].n_features
    federation.sum(Query("moments"))
    federation.sum(Query("deviations", {"mean": np.zeros(d)}))
    frame = frame_arrays(Frame(np.zeros(d), np.ones(d), np.zeros((d, 0))))
    asked = federation._questions

    def differently(ready, query, codings):
        contents = asked(ready, query, codings)
        for name in list(contents)[1:]:
            fields, arrays = contents[name]
            contents[name] = (fields, {**arrays, "directions": np.eye(d)[:, ::-1]})
        return contents

    federation._questions = differently
    query = Query("gram_product", {**frame, "directions": np.eye(d)}, {"precision": "float64"})
    target = sites[0]._data.rows.T @ sites[0]._data.rows
    try:
        found = federation.sum(query)["product"]
    except FederationError:
        return  # what is left of the masks may also stand in the place that counts who could not answer
    assert np.linalg.norm(found - target) > 1e3 * np.linalg.norm(target)


@pytest.mark.parametrize("on_dropout", ["wait", "abort", "continue"])
def test_a_consensus_never_shrinks(on_dropout):
    from fedspca.door.agreement import Agreement
    from fedspca.door.masked import _party

    sites = make_sites(sizes=(5, 7, 9, 4))
    key = Identity.new().public
    agreement = Agreement(
        "s", key, {s.name: key for s in sites}, sites[0].feature_names, {}, min_sites=3, on_dropout=on_dropout
    )
    session = Session(agreement, sites[0], Identity.new(), run="0" * 32)
    assert "faspca_step" not in _party(session).survives
    assert "private_gram" in _party(session).survives


class Naming(SecureFederation):
    """A coordinator that names others than those with whom secrets were shared."""

    def _questions(self, ready, query, codings):
        contents = super()._questions(ready, query, codings)
        for fields, _ in contents.values():
            fields["present"] = sorted({*fields["present"], "clinic-4"})
        return contents


def test_a_site_that_was_not_there_cannot_be_named():
    federation, _ = watched(make_sites(sizes=(5, 3, 9, 4, 6)), {"clinic-4": "keys"})
    naming = Naming(federation._conversation)
    with pytest.raises(SiteRefusal, match="no secrets were shared"):
        naming.sum(step([]))


def test_a_key_with_which_nothing_secret_can_be_agreed_is_refused():
    federation, _ = watched(make_sites())
    original = party.public_key
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(party, "public_key", lambda seed: bytes(32))  # sites that all sign a point of small order
        with pytest.raises(SiteRefusal, match="nothing secret"):
            federation.sum(Query("moments"))
    assert original is party.public_key
