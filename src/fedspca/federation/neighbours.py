"""The coordinator's side of secure aggregation among many sites: each site masks with its neighbours.

See :mod:`fedspca.masking.neighbours`. The coordinator passes on the certificates and adds up the vectors. A round is
one exchange with the same letter for every site; before the first one come ``keys`` and ``shares``.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedspca.door.session import put_question
from fedspca.federation.conversation import Content
from fedspca.federation.secure import SecureFederation, Summed, nbytes
from fedspca.letters.identity import InvalidSignature
from fedspca.letters.wire import Message, WireError
from fedspca.masking.aggregator import check_reply
from fedspca.masking.fixed_point import Coding, Segment, add_into
from fedspca.masking.messages import KEYS, LETTER, LETTERS, MASKED, SHARES
from fedspca.masking.neighbours import SEALED_KEY, check_masked, choice_in, opened_certificate
from fedspca.masking.party import rows_of_bytes
from fedspca.site.question import Query


class NeighbourFederation(SecureFederation):
    """Many sites whose terms are masked: the coordinator sees the sum over all of them only."""

    def _summed(self, query: Query, codings: Mapping[str, Coding], segments: list[Segment]) -> Summed:
        """Ask every site, and add up their vectors: the masks cancel."""
        letters = {} if self._introduced else self._introduce(query)
        contents = self._asked(query, codings, letters)
        answers = self._gather(MASKED, contents, query, segments[-1].stop)
        self._introduced, self._certificates = True, {}
        total = np.zeros(segments[-1].stop, np.uint64)
        for answer in answers.values():
            add_into(total, answer.arrays["vector"], segments)
        site = self.sites[0]
        return Summed(total, sorted(answers), nbytes(answers[site].arrays), nbytes(contents[site][1]))

    def _introduce(self, query: Query) -> Mapping[str, Mapping[str, Any]]:
        """Show each site its neighbours; return the letter to each site that holds the key of tags."""
        if not self._certificates:
            keys = self._gather(KEYS, dict.fromkeys(self.sites, ({}, {})), query)
            self._certificates = {site: message.arrays["certificate"] for site, message in keys.items()}
        shown = self._neighbours()
        replies = self._gather(SHARES, {site: self._certificates_of(shown[site]) for site in self.sites}, query)
        letters = replies[self.sites[0]].arrays[LETTERS]
        return {site: {LETTER: letter} for site, letter in zip(self.sites, letters, strict=True)}

    def _neighbours(self) -> dict[str, list[str]]:
        """Return whose certificates each site is shown: its neighbours' and the first site's. The first sees all."""
        names, first = list(self.sites), self.sites[0]
        shown = {site: {first} for site in names}
        shown[first] = set(names)
        for site in names:
            chosen = choice_in(opened_certificate(self._certificates[site].tobytes()), names)
            shown[site] |= set(chosen)
            for other in chosen:
                shown[other].add(site)
        return {site: sorted(others - {site}) for site, others in shown.items()}

    def _certificates_of(self, sites: list[str]) -> Content:
        certificates = [self._certificates[site] for site in sites]
        fields = {"sites": sites, "lengths": [len(certificate) for certificate in certificates]}
        return fields, {"certificates": np.concatenate(certificates)}

    def _asked(
        self, query: Query, codings: Mapping[str, Coding], letters: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Content]:
        """Return what each site is sent: the same question, and before the first round its letter too."""
        fields, arrays = put_question(query)
        fields |= {"coding": {name: list(coding) for name, coding in codings.items()}, "present": list(self.sites)}
        before = self._returned()
        content = ({**fields, **before[0]}, {**arrays, **before[1]})
        if not letters:
            return dict.fromkeys(self.sites, content)
        return {site: (content[0], {**content[1], **letters[site]}) for site in self.sites}

    def _check(self, kind: str, message: Message, sites: int, length: int) -> None:
        """Raise :class:`WireError` unless a reply has the form that the protocol gives to its kind."""
        if kind == MASKED:
            check_masked(message, length)
        elif kind == KEYS:
            check_reply(kind, message, sites, length)
            try:
                choice_in(opened_certificate(message.arrays["certificate"].tobytes()), list(self.sites))
            except InvalidSignature as error:
                raise WireError(str(error)) from None
        elif message.fields["sender"] == self.sites[0]:
            rows_of_bytes(message, LETTERS, SEALED_KEY, sites)
