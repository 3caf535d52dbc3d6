"""What masks cost, what it costs that sites check the sums, and what it costs that they run the study beside.

Masks: 1e6 numbers for ten sites, against the bare time of the ten key streams that any such mask needs. Tags: a round
over WDBC* with all sites in this process, with and without. Many sites: a round over 100 and over 1,000, and what the
safety of their graph rests on. Replay: what a site plans, against what a coordinator does. Noise: drawing it. Times
are of one BLAS thread: others that wait for it would count.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from threadpoolctl import threadpool_limits

from fedspca import LocalFederation, Query, Site
from fedspca.door.replay import Replay, Summed
from fedspca.dp.gaussian import discrete_gaussian
from fedspca.federation.base import Aggregate, Around
from fedspca.federation.secure import SecureFederation, secure_federation
from fedspca.fit.run import fitted_model
from fedspca.fit.settings import SolverSettings
from fedspca.fit.solvers import make_estimator
from fedspca.masking.fixed_point import Coding, encode_terms, layout
from fedspca.masking.graph import choices_of, tolerated, unsafe
from fedspca.masking.party import add_masks
from fedspca.masking.secret_sharing import new_seed, public_key

ENTRIES = 1_000_000
SITES = 10
AT_MOST = 3.0
REPEATS = 7
CHECKED_AT_MOST = 1.2
DIRECTIONS = 14
MANY = {100: 2.0, 1000: 30.0}  # how long a round over so many sites may take
DRAWS, DRAWN_AT_MOST = 2_000_000, 1.0


def main() -> None:
    """Print what each of them costs."""
    with threadpool_limits(1, user_api="blas"):
        _masks()
        for sites in (3, 10):
            _tags(sites)
        for many, at_most in MANY.items():
            _many(many, at_most)
        _noise()
        for settings in (SolverSettings(nonzero=12, path=False), SolverSettings(lam=190.0, path=False)):
            _replay(settings)


def _masks() -> None:
    values = np.random.default_rng(0).standard_normal(ENTRIES)
    segments = layout({"product": (ENTRIES,)}, {"product": Coding(1, 40)})
    names = [f"site {k}" for k in range(SITES)]
    seeds = {"own": new_seed(), "key": new_seed()}
    public = {name: public_key(new_seed()) for name in names}

    zeros, stream = bytes(8 * ENTRIES), bytearray(8 * ENTRIES)

    def streams() -> None:
        for _ in range(SITES):
            Cipher(ChaCha20(os.urandom(32), bytes(16)), mode=None).encryptor().update_into(zeros, stream)

    def masked() -> None:
        vector = encode_terms({"product": values}, segments, SITES)
        add_masks(vector, segments, names[0], seeds, public, ("study", "run", 1))

    bare, whole = _fastest(streams), _fastest(masked)
    verdict = "met" if whole <= AT_MOST * bare else "NOT MET"
    print(
        f"Masking {ENTRIES} numbers for {SITES} sites: {1e3 * whole:.0f} ms, {whole / bare:.2f} times the {SITES} bare"
    )
    print(f"key streams ({1e3 * bare:.0f} ms); at most {AT_MOST:g} times: {verdict}")


def _wdbc_star(sites: int) -> list[Site]:
    """WDBC*: 569 rows of 830 features, dealt to so many sites."""
    from sklearn.datasets import load_breast_cancer

    rows = np.hstack([load_breast_cancer().data, np.random.default_rng(1).random((569, 800))])
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    return [Site(f"site {k}", part) for k, part in enumerate(np.array_split(rows, sites))]


def _tags(count: int) -> None:
    """Time a round with and without tags, in turns, by the time that this process computes."""
    sites = _wdbc_star(count)
    d = sites[0].n_features
    frame = {"mean": np.zeros(d), "scale": np.ones(d), "removed": np.zeros((d, 0))}
    directions = np.linalg.qr(np.random.default_rng(0).standard_normal((d, DIRECTIONS)))[0]
    query = Query("gram_product", {**frame, "directions": directions}, {"precision": "float64"})
    times: dict[bool, list[float]] = {True: [], False: []}
    federations: dict[bool, SecureFederation] = {}
    for checked in times:
        with _checking(checked):
            federations[checked] = secure_federation(sites)
            federations[checked].sum(Query("moments"))
            federations[checked].sum(Query("deviations", {"mean": np.zeros(d)}))
            federations[checked].sum(query)
    for _ in range(REPEATS):
        for checked, federation in federations.items():
            with _checking(checked):
                began = time.process_time()
                federation.sum(query)
                times[checked].append(time.process_time() - began)
    checked_time, bare = min(times[True]), min(times[False])
    verdict = "met" if checked_time <= CHECKED_AT_MOST * bare else "NOT MET"
    print(
        f"A masked round over {count} sites, {d} features and {DIRECTIONS} directions: {1e3 * checked_time:.0f} ms "
        f"with sums that sites check,\n{checked_time / bare:.2f} times that without ({1e3 * bare:.0f} ms); at most "
        f"{CHECKED_AT_MOST:g} times: {verdict}"
    )


def _many(count: int, at_most: float) -> None:
    """Time a round over many small sites: what all of them and the coordinator compute together."""
    rng, d = np.random.default_rng(0), 830
    federation = secure_federation([Site(f"site {k:04d}", rng.standard_normal((12, d))) for k in range(count)])
    began = time.process_time()
    federation.sum(Query("moments"))
    first = time.process_time() - began
    federation.sum(Query("deviations", {"mean": np.zeros(d)}))
    frame = {"mean": np.zeros(d), "scale": np.ones(d), "removed": np.zeros((d, 0))}
    directions = np.linalg.qr(rng.standard_normal((d, DIRECTIONS)))[0]
    began = time.process_time()
    federation.sum(Query("gram_product", {**frame, "directions": directions}, {"precision": "float64"}))
    took = time.process_time() - began
    verdict = "met" if took <= at_most else "NOT MET"
    choices, allies = choices_of(count), tolerated(count)
    print(
        f"A masked round over {count} sites in one process: {took:.1f} s; at most {at_most:g} s: {verdict}\n"
        f"(the first, with keys: {first:.0f} s). Each site chooses {choices} neighbours; with {allies} sites on the "
        f"coordinator's side\nthe others' masks fail with probability 2^{unsafe(count, allies, choices):.1f} at most"
    )


def _noise() -> None:
    """Time the drawing of discrete Gaussian noise on a fine grid."""
    began = time.process_time()
    discrete_gaussian(1.3 * 2.0**22, DRAWS)
    each = 1e6 * (time.process_time() - began) / DRAWS
    verdict = "met" if each <= DRAWN_AT_MOST else "NOT MET"
    print(f"Exact noise: {each:.2f} µs an entry; at most {DRAWN_AT_MOST:g} µs: {verdict}")


@contextmanager
def _checking(checked: bool) -> Iterator[None]:
    """Switch off all that has to do with tags, unless they are wanted."""
    if checked:
        yield
        return
    with (
        patch("fedspca.masking.party.stamp", lambda *_: None),
        patch("fedspca.door.masked.take_sum", lambda _, state, __: (state, None)),
        patch.object(SecureFederation, "_returned", lambda _: ({}, {})),
    ):
        yield


class _Watched(Around):
    """Sites whose sums are noted, with the time that they took."""

    seconds = 0.0

    def __init__(self, federation: LocalFederation) -> None:
        super().__init__(federation)
        self.sums: list[Aggregate] = []

    def sum(self, query: Query) -> Aggregate:
        began = time.process_time()
        self.sums.append(self._federation.sum(query))
        self.seconds += time.process_time() - began
        return self.sums[-1]


def _replay(settings: SolverSettings) -> None:
    """Time what a site plans when it runs a study beside."""
    watched = _Watched(LocalFederation(_wdbc_star(10)))
    began = time.process_time()
    fitted_model(settings, make_estimator(settings, []), watched)
    planning = time.process_time() - began - watched.seconds

    class Sums(Around):
        def __init__(self, ask: Callable[[Query], Summed]) -> None:
            super().__init__(watched)
            self._ask = ask

        def sum(self, query: Query) -> Aggregate:
            return Aggregate(self._ask(query).arrays, self.n_sites, 0, 0)

    began = time.process_time()
    replay = Replay(lambda ask: fitted_model(settings, make_estimator(settings, []), Sums(ask)))
    for answer in watched.sums:
        replay.feed(Summed(answer.arrays, ()))
    replay.result()
    beside = time.process_time() - began
    what = f"lam = {settings.lam:g}" if settings.lam else f"{settings.nonzero} non-zeros"
    print(
        f"A study beside the coordinator's ({what}, {len(watched.sums)} rounds): {1e3 * beside:.0f} ms in all, "
        f"{beside / planning:.2f} times what the coordinator plans ({1e3 * planning:.0f} ms)"
    )


def _fastest(work: Callable[[], None]) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)
