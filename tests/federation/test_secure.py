"""Secure aggregation: the sum and nothing else, whoever is lost and whenever."""

import numpy as np
import pytest

from contracts.federation import D, FederationContract, make_sites
from fedspca import FASPCA, FSSPCA, ExactSPCA, LocalFederation, Query, Site
from fedspca.attack.reconstruction import reconstruct
from fedspca.federation import FederationError
from fedspca.federation.conversation import SiteLost
from fedspca.federation.secure import SecureFederation, secure_federation
from fedspca.linalg.operators import Frame
from fedspca.masking.aggregator import Scale
from fedspca.masking.fixed_point import WIDE, Coding, decode_terms, encode_terms, layout
from fedspca.solvers.asking import frame_arrays
from helpers.masks import step, watched


class TestSecureFederation(FederationContract):
    def federate(self, sites):
        return secure_federation(sites)


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
