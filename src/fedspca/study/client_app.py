"""The ClientApp: take the letter out of Flower's message, hand it to the guard, send back the guard's answer.

A stock SuperNode loads this in a new process for every message, so nothing is imported beyond Flower and the relay.
"""

import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedspca.flower.relay import forward

app = ClientApp()


@app.query("fedspca")
def answer(message: Message, context: Context) -> Message:
    """Answer one letter; what this raises reaches the coordinator as an error reply with the reason."""
    letter = message.content["letter"]["bytes"]
    if not isinstance(letter, bytes):
        raise TypeError("A letter is bytes.")
    guard = context.node_config.get("socket")
    if guard is None:
        reply = _simulated(context, letter)
    else:
        left = message.metadata.created_at + message.metadata.ttl - time.time()
        reply = forward(str(guard), letter, timeout=max(left, 1.0))  # nobody waits for an answer after that
    return Message(RecordDict({"letter": ConfigRecord({"bytes": reply})}), reply_to=message)


def _simulated(context: Context, letter: bytes) -> bytes:
    """In Flower's simulation engine there is no guard: the site is built in this process from the run's settings."""
    from fedspca.study.simulation import endpoint_of

    endpoint = endpoint_of(Path(str(context.run_config["folder"])), int(context.node_config["partition-id"]))
    return endpoint.handle(letter)
