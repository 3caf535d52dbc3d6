"""The coordinator's side of a run: signed and numbered letters, and replies that are accepted only if valid.

A reply counts if it has the site's signature, names this study, run and round, and is of the expected kind. Otherwise
the site has either refused (it says why), or is lost (no answer in time, or an invalid one).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import Agreement
from fedspca.federation.channel import Channel
from fedspca.letters.identity import Identity, InvalidSignature, signed_payload
from fedspca.letters.protocol import introduction, misunderstanding, software_of
from fedspca.letters.wire import Message, WireError, decode, encode
from fedspca.masking.messages import FINISH
from fedspca.site.errors import InvalidQuery, SiteError, SiteRefusal

LONGEST_PROPOSAL = 30.0  # seconds; no computation is needed, and a lost connection may look alive for a minute
ABSENT, FAILING = "not here", "here, but failing: "  # how a site that does not answer is described
Content: TypeAlias = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]


class SiteLost(SiteError):
    """A site did not answer in time, or its answer was invalid."""


@dataclass
class Replies:
    """What came back in one exchange: messages of the sites that answered, and why others count as lost."""

    answered: dict[str, Message] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)


class Conversation:
    """One run of a study, as the coordinator leads it.

    Parameters
    ----------
    channel : Channel
        The way to the sites.
    identity : Identity
        The coordinator's keys.
    agreement : Agreement
        The agreement, which names the sites and their public keys.
    run : str
        The run's name: 32 hexadecimal digits, never used before.
    """

    def __init__(self, channel: Channel, identity: Identity, agreement: Agreement, run: str) -> None:
        self.agreement = agreement
        self.run = run
        self._channel = channel
        self._identity = identity
        self.software: dict[str, str] = {}  # the release that each site runs
        self.heads: dict[str, str] = {}  # the last hash of each site's log; it shows later whether the log was cut
        self.approvals: dict[str, bytes] = {}  # each owner's signature under the agreement
        self.statements: dict[str, bytes] = {}  # what each site stated at the end, as it signed it

    def ask(self, kind: str, number: int, contents: Mapping[str, Content], expect: str) -> Replies:
        """Send each site its content as one letter of this round, and return the valid replies.

        Parameters
        ----------
        kind : str
            The kind of the letters.
        number : int
            The round.
        contents : mapping of str to (fields, arrays)
            What each site is sent.
        expect : str
            The kind of reply that counts.

        Raises
        ------
        SiteRefusal, InvalidQuery
            A site refused to answer; the error gives its reason.
        """
        heading = {"study": self.agreement.hash, "run": self.run, "round": number, "sender": "coordinator"}
        signed: dict[int, bytes] = {}  # the same content for every site is signed once
        letters = {}
        for site, (fields, arrays) in contents.items():
            key = id(contents[site])
            if key not in signed:
                signed[key] = self._identity.sign(encode(Message(kind, {**fields, **heading}, arrays)))
            letters[site] = signed[key]
        received = self._channel.exchange(letters, self.agreement.deadline)
        replies = Replies()
        for site in sorted(contents):
            if site not in received:
                replies.lost[site] = self._why(site)
                continue
            try:
                replies.answered[site] = self._believed(site, received[site], number, expect)
                self.statements |= {site: received[site]} if kind == FINISH else {}
            except (WireError, InvalidSignature) as error:
                replies.lost[site] = str(error)
        return replies

    def propose(self) -> dict[str, str]:
        """Send the agreement to every site that can be reached; return each site's reply."""
        text = np.frombuffer(self.agreement.text().encode(), np.uint8)
        fields = {"study": self.agreement.hash, **introduction()}
        letter = self._identity.sign(encode(Message("propose", fields, {"agreement": text})))
        named = [site for site in self._channel.sites if site in self.agreement.sites]
        received = self._channel.exchange(dict.fromkeys(named, letter), min(self.agreement.deadline, LONGEST_PROPOSAL))
        failing = getattr(self._channel, "failures", {})
        said = {
            site: f"{FAILING}{failing.get(site, 'it did not answer')}" if site in named else ABSENT
            for site in self.agreement.sites
        }
        for site, reply in received.items():
            try:
                message = decode(signed_payload(reply, self.agreement.sites[site], f"site {site!r}"))
                said[site] = self._state(site, message)
                if "approval" in message.arrays:
                    self.approvals[site] = message.arrays["approval"].tobytes()
            except (WireError, InvalidSignature) as error:
                said[site] = str(error)
        return said

    def _state(self, site: str, message: Message) -> str:
        """Return a site's reply to the agreement, and record which release of the software it runs."""
        if message.kind == "refused":
            return message.text("reason")
        self.software[site] = software_of(message.fields)
        return misunderstanding(message.fields, "the site") or message.text("state")

    def _why(self, site: str) -> str:
        told: Mapping[str, str] = getattr(self._channel, "failures", {})
        return told.get(site, f"no answer within {self.agreement.deadline:g} s.")

    def _believed(self, site: str, letter: bytes, number: int, expect: str) -> Message:
        message = decode(signed_payload(letter, self.agreement.sites[site], f"site {site!r}"))
        if message.kind == "refused":
            error = InvalidQuery if message.fields.get("error") == "InvalidQuery" else SiteRefusal
            raise error(site, str(message.fields.get("query", "?")), message.text("reason", 10_000))
        heading = (message.text("study"), message.text("run"), message.number("round"), message.text("sender"))
        if heading != (self.agreement.hash, self.run, number, site) or message.kind != expect:
            raise WireError(f"It answered for another study, run or round, or something else than {expect!r}.")
        self.heads[site] = message.text("log", 64)
        return message
