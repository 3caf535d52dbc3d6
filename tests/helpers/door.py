"""Letters to one door in this process, and what it replies."""

import secrets

import numpy as np

from fedspca.letters.identity import signed_payload
from fedspca.letters.wire import Message, decode, encode
from helpers.letters import COORDINATOR

RUN = secrets.token_hex(16)


D = 5


def rows(seed=0, n=20):
    return np.random.default_rng(seed).standard_normal((n, D))


def letter(door, kind="ask", number=1, run=RUN, arrays=None, signer=COORDINATOR, **fields):
    heading = {"study": door.study, "run": run, "round": number, "sender": "coordinator"}
    if kind == "ask":
        heading |= {"query": "moments", "scalars": {}}
    return signer.sign(encode(Message(kind, {**heading, **fields}, arrays or {})))


def reply(door, *arguments, **given):
    answer = door.handle(letter(door, *arguments, **given))
    return decode(signed_payload(answer, door.identity.public, "the site"))


FRAME = {"mean": np.zeros(D), "scale": np.ones(D), "removed": np.zeros((D, 0))}
