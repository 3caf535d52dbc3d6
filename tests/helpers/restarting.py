"""Sites that are started anew, from their folders, for every letter."""

from contracts.federation import make_sites
from fedspca import Site
from fedspca.door.agreement import Agreement
from fedspca.door.endpoint import Endpoint
from fedspca.door.store import FolderStore
from fedspca.dp.accounting import Budget
from fedspca.dp.ledger import Ledger
from fedspca.federation.conversation import Conversation
from fedspca.federation.journal import Journal
from fedspca.federation.resumable import ResumableFederation
from fedspca.federation.secure import masked_federation
from fedspca.letters.audit import Audit
from fedspca.letters.identity import Identity

RUN = "0" * 32


class Restarting:
    """A channel to sites that are started anew, from their folders, for every letter."""

    def __init__(self, folder, sizes, privacy=None, **terms):
        self.folder, self.tables = folder, {site.name: site._data.rows for site in make_sites(sizes)}
        self.identities = {name: Identity.new() for name in self.tables}
        self.coordinator = Identity.new()
        features = tuple(f"x{j}" for j in range(6))
        public = {name: identity.public for name, identity in self.identities.items()}
        self.agreement = Agreement(
            "study", self.coordinator.public, public, features, {}, privacy=privacy, patience=60.0, **terms
        )
        for name, identity in self.identities.items():
            store = FolderStore(folder / name, identity)
            store.propose(self.agreement)
            store.approve(self.agreement)
        self.drop = lambda count, site: False
        self.count = 0

    @property
    def sites(self):
        return tuple(sorted(self.tables))

    def exchange(self, letters, deadline):
        replies = {}
        for name, letter in letters.items():
            self.count += 1
            reply = self.endpoint(name).handle(letter)
            if not self.drop(self.count, name):  # the reply was written down, and lost on its way
                replies[name] = reply
        return replies

    def endpoint(self, name):
        site = Site(name, self.tables[name])
        home = self.folder / name
        site.ledger = Ledger(Budget(2.0, 1e-6) if self.agreement.privacy else None, home / "ledger.jsonl")
        store = FolderStore(home, self.identities[name])
        return Endpoint(site, self.identities[name], self.coordinator.public, store, Audit(home / "log.jsonl"))

    def federation(self, journal=None):
        federation = masked_federation(Conversation(self, self.coordinator, self.agreement, RUN))
        return ResumableFederation(federation, Journal(journal, "this")) if journal else federation


class Stopped(Exception):
    """The coordinator is killed."""
