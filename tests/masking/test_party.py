"""A site under masks: what it refuses to a coordinator in the middle."""

import numpy as np
import pytest

from contracts.federation import D, make_sites
from fedspca import Query, SiteRefusal
from fedspca.federation import FederationError
from fedspca.federation.conversation import Conversation
from fedspca.federation.secure import SecureFederation, secure_federation
from fedspca.linalg.operators import Frame
from fedspca.masking import party
from fedspca.solvers.asking import frame_arrays
from helpers.masks import step, watched


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
            contents[name] = (fields, {**arrays, "directions": np.zeros((d, d))})
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
