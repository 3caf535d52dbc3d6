"""Throw altered inputs at every decoder and at the door: whatever comes, the error is one that says what is wrong.

``make fuzz SECONDS=600``, or ``PYTHONPATH=tests python tests/fuzz/decoders.py 600 [SEED]``. A failure is printed with
the seed that repeats it.
"""

import hashlib
import json
import logging
import secrets
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from fedspca import ExactSPCA, Query, Site
from fedspca.data.schema import Schema
from fedspca.door.agreement import InvalidAgreement, read_agreement
from fedspca.federation.base import Aggregate, FederationError
from fedspca.federation.channel import LocalChannel
from fedspca.federation.journal import Journal
from fedspca.federation.secure import SecureFederation
from fedspca.letters.audit import Audit, BrokenLog
from fedspca.letters.identity import InvalidSignature, split_letter
from fedspca.letters.wire import Message, WireError, decode, encode
from fedspca.masking.messages import PREVIOUS, SUMMED
from fedspca.model import InvalidModel, SparsePCAModel
from fedspca.report import report_html
from fedspca.study.bundle import InvalidBundle, read_round, write_bundle
from fedspca.study.owner import read_policy
from fedspca.study.papers import InvalidPaper, Invitation, parse_paper
from fedspca.study.verify import verify
from helpers.bundles import signed_anew
from helpers.letters import COORDINATOR, agreement_for, conversation_with, doors

ATOMS = [None, True, -1, 0, 1, 2**70, 1e308, -0.0, "", "x", "\ud800", "=1", [], {}, [[]], {"a": [1]}, "1" * 400]

OFTEN = dict.fromkeys(("wire", "split", "agreements", "schemas", "papers", "rounds"), 100)
OFTEN |= {"policies": 20, "letters": 20, "logs": 10}


def altered_bytes(rng, data):
    """Flip, cut, double or fill in bytes."""
    data = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data) + 1)) if data else 0
        kind = rng.integers(5)
        if kind == 0 and data:
            data[at % len(data)] = int(rng.integers(256))
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = rng.bytes(int(rng.integers(1, 9)))
        elif kind == 3:
            data[at:at] = data[: int(rng.integers(1, 40))]
        else:
            data[at:at] = b"[" * int(rng.choice([1, 50, 5000]))
    return bytes(data)


def altered_json(rng, value, depth=0):
    """Put something else in one place of a tree of JSON."""
    if depth < 6 and isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[int(rng.integers(len(value)))]
        changed = dict(value)
        if rng.random() < 0.15:
            changed.pop(key)
        else:
            changed[key] = altered_json(rng, value[key], depth + 1)
        return changed
    if depth < 6 and isinstance(value, list) and value and rng.random() < 0.8:
        at = int(rng.integers(len(value)))
        return [*value[:at], altered_json(rng, value[at], depth + 1), *value[at + 1 :]]
    return ATOMS[int(rng.integers(len(ATOMS)))]


def altered_text(rng, text):
    """Alter a text of JSON, as a tree or as bytes."""
    if rng.random() < 0.6:
        return json.dumps(altered_json(rng, json.loads(text)))
    return altered_bytes(rng, text.encode()).decode("utf-8", "replace")


def check_door(door, reply, fields):
    """Raise if a letter brought about an error that nobody foresaw: the door then says that it could not compute."""
    reason = str(decode(split_letter(reply)[1]).fields.get("reason", ""))
    if reason == "it could not be computed." and not list(door.audit.lines())[-1].get("failed"):
        raise AssertionError(f"a letter broke the door: {fields!r}")


class Meddling(LocalChannel):
    """A coordinator that alters some of its letters, and signs them."""

    def __init__(self, endpoints, rng):
        super().__init__(endpoints)
        self.rng = rng

    def exchange(self, letters, deadline):
        answers = {}
        for site, letter in letters.items():
            sent, fields = self._altered(letter) if self.rng.random() < 0.04 else (letter, None)
            answers[site] = self.endpoints[site].handle(sent)
            check_door(self.endpoints[site], answers[site], fields)
        return answers

    def _altered(self, letter):
        message = decode(split_letter(letter)[1])
        fields, arrays = dict(message.fields), dict(message.arrays)
        if arrays and self.rng.random() < 0.4:
            name = list(arrays)[int(self.rng.integers(len(arrays)))]
            changed = altered_bytes(self.rng, arrays[name].tobytes())
            arrays[name] = np.frombuffer(changed, np.uint8)
            if len(changed) == message.arrays[name].nbytes:
                arrays[name] = arrays[name].view(message.arrays[name].dtype).reshape(message.arrays[name].shape)
        else:
            fields = altered_json(self.rng, fields)
            fields = fields if isinstance(fields, dict) else {}
        return COORDINATOR.sign(encode(Message(message.kind, fields, arrays))), fields


class Fuzzer:
    """One of each thing that is read, and how it is altered and read again."""

    def __init__(self, home):
        self.home = home
        rows = np.random.default_rng(0).standard_normal((30, 4))
        self.sites = [Site(f"s{k}", rows + k) for k in range(3)]
        self.agreement = agreement_for(self.sites)
        self.letter = encode(Message("ask", {"query": "moments", "scalars": {"a": 1}}, {"mean": np.zeros(4)}))
        self.schema = json.dumps(json.loads(Schema(("a", "b"), ("number", "number")).to_json()))
        self.paper = json.dumps({"content": json.dumps({"format": "fedspca-invitation-1"}), "signature": "00"})
        self.model = SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=2).fit(rows))
        self.model.save(home / "model")
        self.manifest = json.loads((home / "model" / "manifest.json").read_text())
        self.signed = COORDINATOR.sign(self.letter)
        kept = {"query": "moments", "scalars": {}, PREVIOUS: 1, SUMMED: ["s0", "s1", "s2"]}
        self.kept = encode(Message("round", kept, {PREVIOUS: np.zeros(84, np.uint64)}))
        self.bundle = self._bundle(home / "bundle")
        self.door = doors(self.sites, self.agreement)["s0"]
        log = Audit(home / "log.jsonl")
        for kind in "abc":
            log.add(kind=kind)
        self.log = (home / "log.jsonl").read_bytes()

    def _bundle(self, path):
        """The bundle of a study, as a coordinator who can sign would alter it."""
        rounds = path.with_name("kept")
        rounds.mkdir()
        (rounds / "000001").write_bytes(self.kept)
        papers = {kind: dict.fromkeys(self.agreement.sites, self.signed) for kind in ("approvals", "statements")}
        write_bundle(path, self.agreement, COORDINATOR, rounds, papers, self.model)
        return path

    def rounds(self, rng):
        path = self.home / "000001"
        path.write_bytes(altered_bytes(rng, self.kept))
        read_round(path)

    def bundles(self, rng):
        """One file altered, and the whole signed anew; what is wrong is a finding."""
        paths = [path for path in sorted(self.bundle.rglob("*")) if path.is_file()]
        path = paths[int(rng.integers(len(paths)))]
        content = path.read_bytes()
        try:
            path.write_bytes(altered_bytes(rng, content))
            if rng.random() < 0.8:
                signed_anew(self.bundle, COORDINATOR, self.agreement)
            verify(self.bundle)
        finally:
            path.write_bytes(content)

    def wire(self, rng):
        decode(altered_bytes(rng, self.letter))

    def split(self, rng):
        split_letter(altered_bytes(rng, self.signed))

    def agreements(self, rng):
        read_agreement(altered_text(rng, self.agreement.text()))

    def schemas(self, rng):
        Schema.from_json(altered_text(rng, self.schema))

    def papers(self, rng):
        parse_paper(altered_text(rng, self.paper), Invitation, "coordinator")

    def policies(self, rng):
        path = self.home / "policy.toml"
        path.write_bytes(altered_bytes(rng, b'min_rows = 10\nmasking = true\nallowed_queries = ["moments"]\n'))
        read_policy(path)

    def models(self, rng):
        """A manifest that was altered by someone who can compute a checksum, and what is made of the model."""
        content = altered_json(rng, {name: value for name, value in self.manifest.items() if name != "checksum"})
        if isinstance(content, dict):
            canonical = json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")
            content["checksum"] = hashlib.sha256(canonical).hexdigest()
        (self.home / "model" / "manifest.json").write_text(json.dumps(content), encoding="ascii")
        model = SparsePCAModel.load(self.home / "model")
        report_html(model)
        model.to_estimator()

    def journals(self, rng):
        folder = self.home / "journal"
        journal = Journal(folder, "study")
        query = Query("moments")
        journal.keep(1, query, Aggregate({"rows": np.array(3.0)}, 3, 8, 8), Message("rounds", {"round": 1}))
        content = (folder / "000001.round").read_bytes()[32:]
        message = decode(content)
        if rng.random() < 0.5:
            changed = altered_json(rng, dict(message.fields))
            content = encode(Message("round", changed if isinstance(changed, dict) else {}, message.arrays))
        else:
            content = altered_bytes(rng, content)
        (folder / "000001.round").write_bytes(hashlib.sha256(content).digest() + content)
        journal.kept(1, query)

    def logs(self, rng):
        path = self.home / "log.jsonl"
        path.write_bytes(altered_bytes(rng, self.log))
        Audit(path).verify()

    def letters(self, rng):
        """Signed letters to a door; each gets a reply."""
        fields = {
            "study": self.agreement.hash,
            "run": secrets.token_hex(16),
            "round": 1,
            "query": str(
                rng.choice(["moments", "deviations", "gram_product", "curvature", "row_errors", "faspca_step"])
            ),
            "scalars": {"precision": "float64"} if rng.random() < 0.5 else {"reference": 1.0},
        }
        arrays = {name: rng.standard_normal(4) for name in ("mean", "scale") if rng.random() < 0.5}
        kind = str(rng.choice(["ask", "ask", "hello", "propose", "masked", "keys", "shares", "unmask", "?"]))
        if rng.random() < 0.7:
            changed = altered_json(rng, fields)
            fields = changed if isinstance(changed, dict) else fields
        payload = encode(Message(kind, fields, arrays))
        if rng.random() < 0.3:
            payload = altered_bytes(rng, payload)
        check_door(self.door, self.door.handle(COORDINATOR.sign(payload)), fields)

    def masked(self, rng):
        """A masked run of a few questions, with a coordinator that meddles with some of its letters."""
        about = {"masked": True, "min_sites": 3, "consensus_under_masks": True}
        federation = SecureFederation(conversation_with(self.sites, lambda doors: Meddling(doors, rng), **about))
        frame = {"mean": rng.standard_normal(4), "scale": np.ones(4), "removed": np.zeros((4, 0))}
        directions = np.linalg.qr(rng.standard_normal((4, 2)))[0] * 10.0 ** rng.choice([0, 0, 0, 20, -20])
        product = Query("gram_product", {**frame, "directions": directions}, {"precision": "float64"})
        deviations = Query("deviations", {"mean": frame["mean"] * 10.0 ** rng.choice([0, 0, 15, 29])})
        for query in (Query("moments"), deviations, product, Query("curvature", frame, {"reference": 1e-20})):
            federation.sum(query)

    KNOWN = (WireError, InvalidSignature, InvalidAgreement, InvalidPaper, InvalidModel, InvalidBundle, BrokenLog)
    KNOWN = (*KNOWN, FederationError)

    def targets(self):
        """Return every target by name."""
        names = ["wire", "split", "agreements", "schemas", "papers", "rounds", "policies", "models", "journals", "logs"]
        return {name: getattr(self, name) for name in [*names, "bundles", "letters", "masked"]}


def typed(error, name):
    """Whether an error is one that the decoder promises."""
    from fedspca.site.errors import SiteError

    if isinstance(error, (*Fuzzer.KNOWN, SiteError)):
        return True
    return name == "policies" and type(error) is ValueError  # it names the file and the line


def fuzz(seconds, seed):
    """Run for so many seconds; return how many inputs each target had, and the failures."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    counts, failures, number = Counter(), [], 0
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as home:
        targets = Fuzzer(Path(home)).targets()
        while time.monotonic() < until:
            for name, target in (pair for pair in targets.items() for _ in range(OFTEN.get(pair[0], 1))):
                number += 1
                rng = np.random.default_rng([seed, number])
                counts[name] += 1
                try:
                    target(rng)
                except Exception as error:
                    if not typed(error, name):
                        failures.append(f"{name}, seed {seed}, input {number}: {type(error).__name__}: {error}"[:300])
    logging.disable(logging.NOTSET)
    return counts, failures


def main():
    """Fuzz for the seconds that the command names."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbelow(2**31)
    counts, failures = fuzz(seconds, seed)
    print(f"seed {seed}: {sum(counts.values())} inputs, {dict(counts)}")
    print("\n".join(failures[:50]) or "Every error says what is wrong.")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
