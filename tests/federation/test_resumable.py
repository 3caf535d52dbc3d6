import secrets

import pytest

from contracts.federation import make_sites
from fedspca import FASPCA, ExactSPCA
from fedspca.federation.channel import LocalChannel
from fedspca.federation.conversation import Conversation
from fedspca.federation.journal import Journal
from fedspca.federation.plain import PlainFederation, RosterChanged
from fedspca.federation.resumable import ResumableFederation
from helpers.letters import COORDINATOR, Troubled, agreement_for, doors
from helpers.troubles import SIZES, SOLVERS


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
        ExactSPCA(2, lam=5.0, search="products").fit_federation(federation())
    again = federation()
    assert again.replayed == 4
    with pytest.raises(RosterChanged, match="clinic-1"):
        ExactSPCA(2, lam=5.0, search="products").fit_federation(again)
    assert again.n_sites == 2
    assert set(again.lost) == {"clinic-1"}
    ExactSPCA(2, lam=5.0, search="products").fit_federation(again)
