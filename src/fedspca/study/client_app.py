"""The ClientApp of Flower's simulation engine: take the letter out of a message, and answer it as the site would.

All sites of a simulation are on one machine and belong to one person, so there is no guard. Each site is built from the
run's settings, in the process that received the message. A study between institutions does not use this module: there
:mod:`fedspca.flower.executor` carries letters to the guard.
"""

from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedspca.study.simulation import endpoint_of

app = ClientApp()


@app.query("fedspca")
def answer(message: Message, context: Context) -> Message:
    """Answer one letter. An exception reaches the coordinator as an error reply with the reason."""
    letter = message.content["letter"]["bytes"]
    if not isinstance(letter, bytes):
        raise TypeError("A letter is bytes.")
    endpoint = endpoint_of(Path(str(context.run_config["folder"])), int(context.node_config["partition-id"]))
    return Message(RecordDict({"letter": ConfigRecord({"bytes": endpoint.handle(letter)})}), reply_to=message)
