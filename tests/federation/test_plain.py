import secrets

import numpy as np
import pytest

from contracts.federation import EXACTLY, D, FederationContract, make_sites
from fedspca import FASPCA, FSSPCA, ExactSPCA, LocalFederation, Query
from fedspca.federation.channel import LocalChannel
from fedspca.federation.conversation import Conversation, SiteLost
from fedspca.federation.journal import InvalidCheckpoint, Journal
from fedspca.federation.plain import PlainFederation, RosterChanged
from fedspca.federation.resumable import ResumableFederation
from fedspca.letters.identity import Identity, split_letter
from fedspca.letters.wire import Message, decode, encode
from helpers.letters import COORDINATOR, KEYS, Troubled, agreement_for, conversation_with, doors

SIZES = (20, 11, 30)
SOLVERS = [ExactSPCA(2, lam=5.0), ExactSPCA(2, n_nonzero=2), FASPCA(2, lam=3.0), FSSPCA(2, lam2=3.0)]


class TestRemoteFederation(FederationContract):
    def federate(self, sites):
        return PlainFederation(conversation_with(sites))


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_the_history_and_the_loadings_are_those_of_one_process(solver):
    here = type(solver)(**solver.get_params()).fit_federation(LocalFederation(make_sites(SIZES)))
    there = type(solver)(**solver.get_params()).fit_federation(PlainFederation(conversation_with(make_sites(SIZES))))
    assert np.array_equal(here.components_, there.components_)
    assert [(r.query, r.objective) for r in here.history_] == [(r.query, r.objective) for r in there.history_]


def forged(message, site, key=None):
    return (key or dict(zip(["clinic-0", "clinic-1", "clinic-2"], KEYS, strict=False))[site]).sign(encode(message))


def changed(fields=None, arrays=None, kind=None, key=None):
    """What a site would send if it were broken, or somebody in its place."""

    def trouble(count, site, letter, reply):
        if site != "clinic-1" or count < 3:
            return reply
        told = decode(split_letter(reply)[1])
        put = dict(told.arrays) if arrays is None else arrays(dict(told.arrays))
        return forged(Message(kind or told.kind, {**told.fields, **(fields or {})}, put), site, key)

    return trouble


TROUBLES = {
    "killed": lambda count, site, letter, reply: None if site == "clinic-1" and count >= 3 else reply,
    "altered": lambda count, site, letter, reply: reply[:-1] + b"\x07" if site == "clinic-1" and count >= 3 else reply,
    "noise": lambda count, site, letter, reply: b"noise" if site == "clinic-1" and count >= 3 else reply,
    "another's key": changed(key=Identity.new()),
    "another site": changed(fields={"sender": "clinic-2"}),
    "another run": changed(fields={"run": "0" * 32}),
    "another study": changed(fields={"study": "0" * 64}),
    "another round": changed(fields={"round": 2}),
    "another kind": changed(kind="hello"),
    "another shape": changed(arrays=lambda arrays: {name: array[:-1] for name, array in arrays.items()}),
    "another name": changed(arrays=lambda arrays: {f"my {name}": array for name, array in arrays.items()}),
    "another type": changed(arrays=lambda arrays: {name: array.astype(np.int64) for name, array in arrays.items()}),
    "nothing": changed(arrays=lambda arrays: {}),
    "NaN": changed(arrays=lambda arrays: {name: array * np.nan for name, array in arrays.items()}),
    "infinity": changed(arrays=lambda arrays: {name: np.full_like(array, np.inf) for name, array in arrays.items()}),
    "absurd": changed(arrays=lambda arrays: {name: 1e6 * array for name, array in arrays.items()}),
}


def troubled(trouble, sizes=SIZES, **terms):
    sites = make_sites(sizes)
    conversation = conversation_with(sites, channel=lambda ends: Troubled(ends, trouble), **terms)
    told = []
    return PlainFederation(conversation, notice=told.append), told


@pytest.mark.parametrize("name", TROUBLES)
def test_a_site_that_is_not_to_be_believed_is_named(name):
    federation, _ = troubled(TROUBLES[name], on_dropout="abort")
    with pytest.raises(SiteLost) as caught:
        ExactSPCA(2, lam=5.0).fit_federation(federation)
    assert caught.value.site == "clinic-1"
    assert caught.value.reason


def test_a_lost_site_is_waited_for():
    away = iter([None, None])

    def trouble(count, site, letter, reply):
        return next(away, reply) if site == "clinic-1" and count >= 3 else reply

    import fedspca.federation.roster as remote

    federation, told = troubled(trouble, on_dropout="wait")
    pause, remote.PAUSE = remote.PAUSE, 0.01
    try:
        there = ExactSPCA(2, lam=5.0).fit_federation(federation)
    finally:
        remote.PAUSE = pause
    here = ExactSPCA(2, lam=5.0).fit_federation(LocalFederation(make_sites(SIZES)))
    assert np.array_equal(here.components_, there.components_)
    assert len(told) == 2
    assert all("clinic-1" in text for text in told)


def test_patience_ends():
    federation, _ = troubled(TROUBLES["killed"], on_dropout="wait", patience=0.01)
    with pytest.raises(SiteLost, match="clinic-1"):
        ExactSPCA(2, lam=5.0).fit_federation(federation)


def test_an_exact_fit_begins_again_without_a_lost_site():
    federation, told = troubled(TROUBLES["killed"], on_dropout="continue", min_sites=2)
    with pytest.raises(RosterChanged, match="clinic-1"):
        ExactSPCA(2, lam=5.0).fit_federation(federation)
    assert federation.sites == ("clinic-0", "clinic-2")
    there = ExactSPCA(2, lam=5.0).fit_federation(federation)
    left = [site for site in make_sites(SIZES) if site.name != "clinic-1"]
    here = ExactSPCA(2, lam=5.0).fit_federation(LocalFederation(left))
    assert np.array_equal(here.components_, there.components_)
    assert "going on without clinic-1" in told[0]


def test_a_consensus_goes_on_with_those_that_are_left():
    def trouble(count, site, letter, reply):
        return None if site == "clinic-1" and count >= 12 else reply

    federation, told = troubled(trouble, on_dropout="continue", min_sites=2)
    fitted = FASPCA(2, lam=3.0).fit_federation(federation)
    assert "going on without clinic-1" in told[0]
    assert fitted.n_sites_ == 2
    assert fitted.history_[-1].query == "faspca_step" or fitted.n_rounds_ > 12
    assert np.allclose(fitted.components_ @ fitted.components_.T, np.eye(2), atol=1e-6)


def test_too_few_sites_are_not_summed():
    federation, _ = troubled(TROUBLES["killed"], on_dropout="continue", min_sites=3)
    with pytest.raises(SiteLost, match="2 sites left are fewer than the 3"):
        ExactSPCA(2, lam=5.0).fit_federation(federation)


def test_an_answer_as_large_as_its_rows_allow_is_believed():
    """The bound on a product is sharp for a site whose rows all point the same way."""
    sites = make_sites((4, 4, 4))
    federation = PlainFederation(conversation_with(sites))
    frame = {"mean": np.zeros(D), "scale": np.ones(D), "removed": np.zeros((D, 0))}
    federation.sum(Query("deviations", {"mean": np.zeros(D)}))
    for site in sites:
        _, _, right = np.linalg.svd(site._data.rows)
        federation.sum(Query("gram_product", {**frame, "directions": right.T[:, :1].copy()}, EXACTLY))


class Stopped(Exception):
    """The coordinator is killed."""


@pytest.mark.parametrize("solver", SOLVERS[:3], ids=["lam", "n_nonzero", "FASPCA"])
def test_a_coordinator_killed_at_any_round_goes_on_to_the_same_bits(tmp_path, solver):
    def estimator():
        return type(solver)(**{**solver.get_params(), **({"max_rounds": 12} if isinstance(solver, FASPCA) else {})})

    agreement = agreement_for(make_sites(SIZES))
    whole = PlainFederation(
        Conversation(LocalChannel(doors(make_sites(SIZES), agreement)), COORDINATOR, agreement, "0" * 32)
    )
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = estimator().fit_federation(whole)
        for stop in range(1, reference.n_rounds_ + 1):
            for in_flight in (False, True):
                channel = LocalChannel(doors(make_sites(SIZES), agreement))
                run = secrets.token_hex(16)
                folder = tmp_path / f"{stop}-{in_flight}"

                def federation(limit=None, channel=channel, run=run, folder=folder, in_flight=in_flight):
                    class Mortal(PlainFederation):
                        def sum(self, query):
                            if limit is not None and self._round + 1 >= limit:
                                if in_flight:  # the sites have answered, and nobody has written it down
                                    super().sum(query)
                                raise Stopped
                            return super().sum(query)

                    made = Mortal(Conversation(channel, COORDINATOR, agreement, run))
                    return ResumableFederation(made, Journal(folder, agreement.hash))

                with pytest.raises(Stopped):
                    estimator().fit_federation(federation(stop))
                again = estimator().fit_federation(federation())
                assert again.components_.tobytes() == reference.components_.tobytes()
                assert [r.objective for r in again.history_] == [r.objective for r in reference.history_]


def test_a_resumed_run_remembers_who_was_lost(tmp_path):
    def trouble(count, site, letter, reply):
        return None if site == "clinic-1" and count == 4 else reply

    sites = make_sites(SIZES)
    agreement = agreement_for(sites, on_dropout="continue", min_sites=2)
    channel = Troubled(doors(sites, agreement), trouble)

    def federation():
        return ResumableFederation(
            PlainFederation(Conversation(channel, COORDINATOR, agreement, "1" * 32)), Journal(tmp_path / "run", "x")
        )

    with pytest.raises(RosterChanged):
        ExactSPCA(2, lam=5.0).fit_federation(federation())
    again = federation()
    assert again.replayed == 4
    with pytest.raises(RosterChanged, match="clinic-1"):
        ExactSPCA(2, lam=5.0).fit_federation(again)
    assert again.n_sites == 2
    assert set(again.lost) == {"clinic-1"}
    ExactSPCA(2, lam=5.0).fit_federation(again)


class TestJournal:
    QUERY = Query("deviations", {"mean": np.arange(3.0)}, {"a": 1})

    @pytest.fixture
    def journal(self, tmp_path):
        from fedspca.federation import Aggregate

        made = Journal(tmp_path / "run", "what")
        made.keep(1, self.QUERY, Aggregate({"x": np.arange(4.0)}, 3, 10, 20), Message("state", {"round": 5}))
        return made

    def test_a_round_is_kept(self, journal):
        answer, after = journal.kept(1, self.QUERY)
        assert np.array_equal(answer["x"], np.arange(4.0))
        assert (answer.n_sites, answer.bytes_up, answer.bytes_down) == (3, 10, 20)
        assert after.fields == {"round": 5}
        assert len(journal) == 1

    def test_another_question_is_refused(self, journal):
        with pytest.raises(InvalidCheckpoint, match="asks something else"):
            journal.kept(1, Query("deviations", {"mean": np.arange(1.0, 4.0)}, {"a": 1}))

    def test_a_file_that_is_cut_off_or_altered_is_refused(self, journal):
        path = journal.folder / "000001.round"
        whole = path.read_bytes()
        for at in (0, 10, 40, 100, len(whole) - 1):
            for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
                path.write_bytes(damaged)
                with pytest.raises(InvalidCheckpoint, match="cut off or altered"):
                    journal.kept(1, self.QUERY)

    def test_a_round_under_another_number_is_refused(self, journal):
        (journal.folder / "000001.round").rename(journal.folder / "000002.round")
        with pytest.raises(InvalidCheckpoint, match="another round"):
            journal.kept(2, self.QUERY)

    def test_a_journal_of_something_else_is_refused(self, journal):
        with pytest.raises(InvalidCheckpoint, match="other data, settings or versions"):
            Journal(journal.folder, "else")
        (journal.folder / "study.json").write_text("{")
        with pytest.raises(InvalidCheckpoint, match="cut off"):
            Journal(journal.folder, "what")


def test_frames_travel():
    """Infinite scales, which leave a feature out, are numbers like others."""
    sites = make_sites(SIZES)
    scale = np.ones(D)
    scale[2] = np.inf
    arrays = {"mean": np.zeros(D), "scale": scale, "removed": np.zeros((D, 0)), "directions": np.eye(D)[:, :2]}
    product = PlainFederation(conversation_with(sites)).sum(Query("gram_product", arrays, EXACTLY))["product"]
    assert np.array_equal(product[2], np.zeros(2))
