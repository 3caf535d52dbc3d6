"""A site under masks: what it refuses to a coordinator in the middle."""

from dataclasses import replace

import numpy as np
import pytest

from contracts.federation import D, make_sites
from fedspca import InvalidQuery, Query, SiteRefusal
from fedspca.federation import FederationError
from fedspca.federation.conversation import Conversation
from fedspca.federation.secure import SecureFederation, secure_federation
from fedspca.letters.wire import Message, WireError, encode
from fedspca.linalg.operators import Frame
from fedspca.masking import party
from fedspca.masking.fixed_point import Coding, add_into, layout
from fedspca.masking.party import (
    MaskingState,
    add_masks,
    announce_key,
    certified_key,
    key_of_tags,
    mask_terms,
    masks_are_for,
    own_key,
    pair_key,
    share,
    threshold_of,
    unmask,
)
from fedspca.masking.secret_sharing import SEALED, SEED, derive, join, key_stream, public_key
from fedspca.site.queries import PRIVATE
from fedspca.site.question import query_hash
from fedspca.solvers.asking import frame_arrays
from helpers.masks import step, watched
from helpers.private import query as private_query
from helpers.protocol import FEATURES, IDENTITIES, MOMENTS, NAMES, RUN, STUDY, Protocol, terms_of


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


# -- message by message, without a channel -----------------------------------------------------------------------------


@pytest.fixture
def ready():
    made = Protocol()
    made.share()
    return made


def test_more_than_two_thirds_of_the_sites_are_needed_and_as_many_as_were_agreed():
    assert [threshold_of(sites, 1) for sites in range(1, 10)] == [2, 2, 3, 3, 4, 5, 5, 6, 7]
    assert threshold_of(4, 4) == 4
    assert threshold_of(1, 1) == 2
    for sites in range(3, 40):
        assert 3 * threshold_of(sites, 1) > 2 * sites  # two groups of so many share more than a third


def test_only_releases_survive_a_loss():
    assert Protocol().parties["a"].survives == PRIVATE


def test_what_a_site_keeps_comes_back():
    state = MaskingState("00", {"a": "11"}, {"round": 1}, {"round": 0, "told": None})
    assert MaskingState.from_array(state.to_array()) == state
    assert state.to_array().dtype == np.uint8
    assert MaskingState("00") == MaskingState("00", {}, {}, {})


def test_a_key_is_announced_for_one_study_run_and_site(ready):
    party = ready.parties["a"]
    key = certified_key(party, "b", ready.certificates["b"].tobytes())
    assert key == public_key(bytes.fromhex(ready.states["b"].seed))
    for changed in ({"study": "another"}, {"run": "another"}):
        with pytest.raises(SiteRefusal, match="'b''s is one of another run"):
            certified_key(replace(party, **changed), "b", ready.certificates["b"].tobytes())
    with pytest.raises(SiteRefusal, match="key shown as site 'c''s is not"):
        certified_key(party, "c", ready.certificates["b"].tobytes())
    signed = IDENTITIES["b"].sign(encode(Message("certificate", {"study": STUDY, "run": RUN, "site": "b"})))
    with pytest.raises(SiteRefusal, match="key shown as site 'b''s is not"):
        certified_key(party, "b", signed)
    arrays = {"key": np.zeros(32, np.uint8)}
    for kind, site in (("letter", "b"), ("certificate", "c")):
        signed = IDENTITIES["b"].sign(encode(Message(kind, {"study": STUDY, "run": RUN, "site": site}, arrays)))
        with pytest.raises(SiteRefusal, match="one of another run"):
            certified_key(party, "b", signed)
    assert announce_key(party)[1].kind == "keys"


def test_secrets_are_shared_with_everyone_who_was_named(ready):
    told = Protocol().share()
    for name, message in told.items():
        assert message.kind == "shares"
        assert message.fields == {}
        assert message.arrays["key"].shape == message.arrays["commitment"].shape == (32,)
        assert message.arrays["shares"].shape == (4, SEALED)
        mine = message.arrays["shares"][NAMES.index(name)]
        assert not mine.any()  # a site needs no letter to itself
    state = ready.states["a"]
    assert set(state.peers) == set(NAMES)
    assert (state.ready["round"], state.ready["sites"]) == (1, list(NAMES))
    assert ready.ready.keys["a"] == public_key(bytes.fromhex(state.ready["key"]))
    assert ready.ready.commitments["a"] == derive(bytes.fromhex(state.ready["own"]), "commitment")
    assert state.held == {}


def test_keys_are_taken_once_and_later_only_fewer_sites_may_be_named(ready):
    before = ready.states["a"].peers
    state, _ = share(ready.parties["a"], ready.states["a"], Message("shares", {"round": 2, "sites": ["a", "b", "c"]}))
    assert state.peers == before
    assert (state.ready["round"], state.ready["sites"]) == (2, ["a", "b", "c"])
    fewer = Protocol()
    fewer.share(names=("a", "b", "c"))
    with pytest.raises(SiteRefusal, match="was not there when keys were exchanged"):
        share(fewer.parties["a"], fewer.states["a"], Message("shares", {"round": 2, "sites": list(NAMES)}))


def test_a_site_notices_if_another_key_is_shown_as_its_own():
    made = Protocol()
    _, told = announce_key(made.parties["a"])  # also signed by the site, and not the one that it keeps
    made.certificates["a"] = told.arrays["certificate"]
    with pytest.raises(SiteRefusal, match="this site's own is not"):
        share(made.parties["a"], made.states["a"], made.introduction())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda fields, arrays: fields.update(lengths=None),
        lambda fields, arrays: fields.update(lengths=fields["lengths"][1:]),
        lambda fields, arrays: fields.update(lengths=[*fields["lengths"][1:], "1"]),
        lambda fields, arrays: fields.update(lengths=[0, fields["lengths"][0] * 2, *fields["lengths"][2:]]),
        lambda fields, arrays: fields.update(lengths=[-1, *fields["lengths"][1:]]),
        lambda fields, arrays: fields.update(lengths=[10_000, *fields["lengths"][1:]]),
        lambda fields, arrays: arrays.clear(),
        lambda fields, arrays: arrays.update(certificates=arrays["certificates"].astype(np.int64)),
        lambda fields, arrays: arrays.update(certificates=arrays["certificates"][1:]),
    ],
)
def test_certificates_must_be_there_in_full(spoil):
    made = Protocol()
    message = made.introduction()
    fields, arrays = dict(message.fields), dict(message.arrays)
    spoil(fields, arrays)
    with pytest.raises(SiteRefusal, match="certificate of each site's key"):
        share(made.parties["a"], made.states["a"], Message("shares", fields, arrays))


@pytest.mark.parametrize(
    ("length", "words"),
    [(0, "certificate of each"), (10_000, "certificate of each"), (1, "key shown as"), (9_999, "key shown as")],
)
def test_a_certificate_has_a_sensible_length(length, words):
    made = Protocol()
    message = made.introduction()
    lengths = [length, *message.fields["lengths"][1:]]
    joined = np.concatenate([np.zeros(length, np.uint8), *(made.certificates[name] for name in NAMES[1:])])
    fields = {**message.fields, "lengths": lengths}
    with pytest.raises(SiteRefusal, match=words):
        share(made.parties["a"], made.states["a"], Message("shares", fields, {"certificates": joined}))


def test_keys_have_the_labels_of_the_protocol(ready):
    """Sites of other releases derive the same keys, so a label changes only with the protocol's version."""
    context, seed, ours = (STUDY, RUN, 1, "about"), bytes(range(32)), ready.parties["a"]
    assert own_key(seed, context) == derive(seed, *context, "own mask")
    assert pair_key(seed, "b", "a", context) == derive(seed, *context, "pair mask", "a", "b")
    letters = {name: bytes(SEED) + bytes(SEED) + name.encode() * SEED for name in ("b", "a")}  # two shares and a part
    parts = b"a" * SEED + b"b" * SEED
    letters = {name: letter.hex() for name, letter in letters.items()}
    assert key_of_tags(letters, context) == derive(parts, *context, "tags", ["a", "b"])
    secret = bytes.fromhex(ready.states["a"].peers["b"])
    for pair in (("a", "b"), ("b", "a")):
        key = party._letter_key(ours, ready.states["a"], 3, *pair)
        assert key == derive(secret, STUDY, RUN, "letter", 3, *pair)


@pytest.mark.parametrize(
    ("sites", "error", "words"),
    [
        ("abcd", WireError, "list of sites"),
        (None, WireError, "list of sites"),
        (["a", "b", 3], WireError, "list of sites"),
        (["b", "a", "c"], SiteRefusal, "out of order"),
        (["a", "a", "b", "c"], SiteRefusal, "names sites twice"),
        (["a", "b", "c", "x"], SiteRefusal, "not in the study"),
        (["b", "c", "d"], SiteRefusal, "goes on without this site"),
        (["a", "b"], SiteRefusal, "2 sites is fewer than the 3"),
    ],
)
def test_sites_are_named_in_order_and_enough_of_them(ready, sites, error, words):
    for kind, handle in (
        ("shares", lambda m: share(ready.parties["a"], ready.states["a"], m)),
        ("masked", lambda m: mask_terms(ready.parties["a"], ready.states["a"], m, MOMENTS, FEATURES, None)),
        ("unmask", lambda m: unmask(ready.parties["a"], ready.states["a"], m, {})),
    ):
        field = {"shares": "sites", "masked": "present", "unmask": "survivors"}[kind]
        with pytest.raises(error, match=words):
            handle(Message(kind, {"round": 1, field: sites}))


def test_a_round_needs_its_own_secrets(ready):
    for number in (0, 2):
        message = ready.question("a", MOMENTS, number)
        with pytest.raises(SiteRefusal, match=f"secrets of round {number} were not shared"):
            mask_terms(ready.parties["a"], ready.states["a"], message, MOMENTS, FEATURES, None)


@pytest.mark.parametrize("array", ["keys", "commitments", "shares"])
def test_what_the_coordinator_passes_on_must_be_the_senders(ready, array):
    """A key or a commitment that was changed on its way opens no sealed letter, whoever it is said to be of."""
    for row, words in ((1, "key shown as site 'b''s is not"), (0, "this site's own is not")):
        message = ready.question("a", MOMENTS)
        changed = message.arrays[array].copy()
        changed[row, 20] ^= 1
        message = Message("masked", message.fields, {**message.arrays, array: changed})
        if row == 0 and array != "keys":
            continue  # a site looks at its own key only
        with pytest.raises(SiteRefusal, match=words):
            mask_terms(ready.parties["a"], ready.states["a"], message, MOMENTS, FEATURES, None)
    message = ready.question("a", MOMENTS)
    short = Message("masked", message.fields, {**message.arrays, array: message.arrays[array][:-1]})
    with pytest.raises(WireError, match=f"'{array}' of a 'masked' message must be"):
        mask_terms(ready.parties["a"], ready.states["a"], short, MOMENTS, FEATURES, None)


def test_masks_of_every_pair_cancel_and_one_of_its_own_is_left(ready):
    terms = terms_of()
    answers = ready.mask(MOMENTS, terms)
    vectors = {name: reply.arrays["vector"] for name, reply in answers.items()}
    for name, reply in answers.items():
        assert reply.kind == "masked"
        state = ready.states[name]
        assert (state.held["round"], state.held["name"], state.held["told"]) == (1, "moments", None)
        assert state.held["question"] == query_hash(MOMENTS)
        assert set(state.held["shares"]) == set(NAMES)
        assert (state.ready["round"], state.ready["sites"]) == (2, list(NAMES))
        assert reply.arrays["shares"].shape == (4, SEALED)
    assert len({vector.tobytes() for vector in vectors.values()}) == 4


def pair_of(context, present=("a", "b")):
    """Two vectors of zeros after both have added their masks, and their own masks taken off."""
    segments = layout({"x": (5,)}, {"x": Coding(2, 64)})
    seeds = {name: {"own": bytes([k]) * 16, "key": bytes([k + 9]) * 16} for k, name in enumerate(present)}
    public = {name: public_key(seed["key"]) for name, seed in seeds.items()}
    vectors = []
    for k, name in enumerate(present):
        vector = np.zeros(segments[-1].stop, np.uint64)
        mine = context[k] if isinstance(context, list) else context
        add_masks(vector, segments, name, seeds[name], public, mine)
        add_into(vector, key_stream(own_key(seeds[name]["own"], mine), len(vector)), segments, subtract=True)
        vectors.append(vector)
    total = vectors[0].copy()
    add_into(total, vectors[1], segments)
    return vectors, total


def test_what_one_of_a_pair_adds_the_other_takes_away():
    vectors, total = pair_of((STUDY, RUN, 1, "about"))
    assert all(np.count_nonzero(vector) == len(vector) for vector in vectors)
    assert not total.any()


@pytest.mark.parametrize(
    "other", [("study2", RUN, 1, "x"), (STUDY, "run2", 1, "x"), (STUDY, RUN, 2, "x"), (STUDY, RUN, 1, "y")]
)
def test_masks_for_different_things_do_not_cancel(other):
    _, total = pair_of([(STUDY, RUN, 1, "x"), other])
    assert np.count_nonzero(total) == len(total)


def test_masks_are_for_one_question_coding_and_group():
    other = Query("deviations", {"mean": np.zeros(FEATURES)})
    seen = {
        masks_are_for(MOMENTS, {"rows": [1, 0], "sums": [8, 256]}, NAMES),
        masks_are_for(other, {"rows": [1, 0], "sums": [8, 256]}, NAMES),
        masks_are_for(MOMENTS, {"rows": [1, 1], "sums": [8, 256]}, NAMES),
        masks_are_for(MOMENTS, {"rows": [1, 0]}, NAMES),
        masks_are_for(MOMENTS, {"rows": [1, 0], "sums": [8, 256]}, NAMES[1:]),
    }
    assert len(seen) == 5
    assert masks_are_for(MOMENTS, {"sums": Coding(8, 256), "rows": Coding(1, 0)}, NAMES) in seen


def test_shares_of_the_seed_are_told_of_those_who_answered_and_of_the_key_of_those_who_did_not(ready):
    ready.mask(MOMENTS, terms_of(), lost=("d",))
    own = {n: [bytes.fromhex(ready.states[m].held["shares"][n])[:SEED] for m in NAMES] for n in NAMES}
    key = {n: [bytes.fromhex(ready.states[m].held["shares"][n])[SEED : 2 * SEED] for m in NAMES] for n in NAMES}
    told = ready.unmask(("a", "b", "c"))
    for helper, shares in told.items():
        at = NAMES.index(helper)
        assert [row.tobytes() for row in shares] == [own["a"][at], own["b"][at], own["c"][at], key["d"][at]]
        held = ready.states[helper].held
        assert (held["round"], held["told"], held["shares"]) == (1, ["a", "b", "c"], {})
    assert join({k: told[name][3].tobytes() for k, name in enumerate("abc")}, 3).hex() != ""


def test_a_round_is_unmasked_once_and_only_the_one_that_was_answered(ready):
    message = Message("unmask", {"round": 1, "survivors": list(NAMES)})
    with pytest.raises(SiteRefusal, match="round 1 is not waiting"):
        unmask(ready.parties["a"], ready.states["a"], message, {})
    ready.mask(MOMENTS, terms_of())
    with pytest.raises(SiteRefusal, match="round 2 is not waiting"):
        unmask(ready.parties["a"], ready.states["a"], Message("unmask", {"round": 2, "survivors": list(NAMES)}), {})
    ready.unmask(NAMES)
    with pytest.raises(SiteRefusal, match="round 1 is not waiting"):
        unmask(ready.parties["a"], ready.states["a"], message, {})


def test_whom_no_secrets_were_shared_with_cannot_be_unmasked():
    made = Protocol()
    made.share(names=("a", "b", "c"))
    made.mask(MOMENTS, terms_of())
    with pytest.raises(SiteRefusal, match="whose secrets were not shared"):
        unmask(made.parties["a"], made.states["a"], Message("unmask", {"round": 1, "survivors": list(NAMES)}), {})


def test_the_same_sum_may_be_taken_again_over_the_same_sites_only(ready):
    ready.mask(MOMENTS, terms_of())
    ready.unmask(NAMES)
    asked = ready.asked["a"]
    assert set(asked) == {query_hash(MOMENTS), "all other questions"}
    held = {"round": 3, "shares": dict.fromkeys(NAMES, "00" * 32), "name": "moments", "told": None}
    for question in (query_hash(MOMENTS), "another"):
        state = replace(ready.states["a"], held={**held, "question": question})
        for group, allowed in ((list(NAMES), True), (["a", "b", "c"], False)):
            message = Message("unmask", {"round": 3, "survivors": group})
            if allowed:
                assert unmask(ready.parties["a"], state, message, asked)[1].keys() >= asked.keys()
                continue
            with pytest.raises(SiteRefusal, match="difference of the sums"):
                unmask(ready.parties["a"], state, message, asked)


@pytest.mark.parametrize(("name", "survives"), [("faspca_step", False), ("moments", False), ("private_gram", True)])
def test_only_a_release_may_be_summed_over_fewer_sites_than_before(ready, name, survives):
    held = {"round": 3, "shares": dict.fromkeys(NAMES, "00" * 32), "name": name, "told": None}

    def after(question, group, asked):
        state = replace(ready.states["a"], held={**held, "question": question})
        return unmask(ready.parties["a"], state, Message("unmask", {"round": 3, "survivors": group}), asked)[1]

    asked = after("first", list(NAMES), {})
    assert set(asked) == ({"first"} if survives else {"first", "all other questions"})
    if survives:
        assert set(after("second", ["a", "b", "c"], asked)) == {"first", "second"}
    else:
        with pytest.raises(SiteRefusal, match="difference of the sums"):
            after("second", ["a", "b", "c"], asked)
    with pytest.raises(SiteRefusal, match="difference of the sums"):  # the very same question over others
        after("first", ["a", "b", "c"], asked)


@pytest.mark.parametrize(
    ("codings", "words"),
    [
        (None, "how each term becomes integers"),
        ({"rows": [1, 0]}, "how each term becomes integers"),
        ({"rows": [1, 0], "counts": [1, 0], "sums": "x"}, "how each term becomes integers"),
        ({"rows": [1, 0], "counts": [1, 0], "sums": [1]}, "how each term becomes integers"),
        ({"rows": [1, 0], "counts": [1, 0], "sums": [1, 0.5]}, "how each term becomes integers"),
        ({"rows": [1, 0], "counts": [1, 0], "sums": [True, 0]}, "how each term becomes integers"),
        ({"rows": [1, 0], "counts": [1, 0], "sums": [0, 0]}, "by the rule that both sides know"),
        ({"rows": [1, 0], "counts": [1, 0], "sums": [9, 0]}, "by the rule that both sides know"),
        ({"rows": [1, 0], "counts": [1, 0], "sums": [8, 1001]}, "by the rule that both sides know"),
        ({"rows": [1, 0], "counts": [1, 0], "sums": [8, -1001]}, "by the rule that both sides know"),
        ({"rows": [1, 0], "counts": [1, 0], "sums": [1, 0]}, "by the rule that both sides know"),
        ({"rows": [1, 1], "counts": [1, 0], "sums": [8, 256]}, "by the rule that both sides know"),
    ],
)
def test_integers_that_are_not_by_the_rule_are_refused(ready, codings, words):
    message = ready.question("a", MOMENTS)
    message = Message("masked", {**message.fields, "coding": codings}, message.arrays)
    with pytest.raises(InvalidQuery, match=words):
        mask_terms(ready.parties["a"], ready.states["a"], message, MOMENTS, FEATURES, None)


def test_a_site_is_told_the_bounds_of_its_terms_and_may_say_that_it_cannot_answer(ready):
    seen = []
    message = ready.question("a", MOMENTS)
    _, reply = mask_terms(
        ready.parties["a"], ready.states["a"], message, MOMENTS, FEATURES, lambda _, limits: seen.append(limits)
    )
    assert seen == [{"rows": 2.0**60, "counts": 2.0**60, "sums": 2.0**252}]
    assert len(reply.arrays["vector"]) == 1 + FEATURES + 8 * FEATURES + 10 + 1  # and a tag, and a zero


def test_a_question_that_is_none_is_refused_before_anything_is_answered(ready):
    message = ready.question("a", MOMENTS)
    with pytest.raises(InvalidQuery, match="no such question; there are"):
        mask_terms(ready.parties["a"], ready.states["a"], message, Query("rows"), FEATURES, None)
    with pytest.raises(InvalidQuery, match="lacks mean"):
        mask_terms(ready.parties["a"], ready.states["a"], message, Query("deviations"), FEATURES, None)


def test_with_noise_only_the_noises_own_grid_is_taken(ready):
    asked = private_query("private_moments", d=FEATURES, grid=24)
    answer = {"moments": np.zeros(2 * FEATURES + 1)}
    for coding, allowed in (([1, 24], True), ([1, 23], False), ([2, 24], False), ([1, 25], False)):
        message = ready.question("a", asked, codings={"moments": coding})
        if allowed:
            mask_terms(ready.parties["a"], ready.states["a"], message, asked, FEATURES, lambda *_: answer)
            continue
        with pytest.raises(InvalidQuery, match="noise's own grid"):
            mask_terms(ready.parties["a"], ready.states["a"], message, asked, FEATURES, lambda *_: answer)


def test_a_study_that_waits_is_summed_over_every_site_or_not_at_all():
    held = {"round": 3, "shares": dict.fromkeys(NAMES, "00" * 32), "question": "q", "told": None}
    made = Protocol(whole=True)

    def after(name, group):
        state = replace(made.states["a"], held={**held, "name": name})
        return unmask(made.parties["a"], state, Message("unmask", {"round": 3, "survivors": group}), {})

    after("moments", list(NAMES))
    after("private_gram", ["a", "b", "c"])  # its noise covers the difference
    with pytest.raises(SiteRefusal, match=r"waits for a lost site or ends.*the terms of those who are left out\.$"):
        after("moments", ["a", "b", "c"])


def test_a_refused_difference_says_what_to_do(ready):
    held = {"round": 3, "shares": dict.fromkeys(NAMES, "00" * 32), "question": "q", "name": "moments", "told": None}
    state = replace(ready.states["a"], held=held)
    message = Message("unmask", {"round": 3, "survivors": ["a", "b", "c"]})
    with pytest.raises(SiteRefusal, match=r"Wait for the lost site, or agree on a new study without it\.$"):
        unmask(ready.parties["a"], state, message, {"q": "other sites"})


# -- the sum comes back -----------------------------------------------------------------------------------------------
