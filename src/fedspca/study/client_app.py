"""The ClientApp of Flower's simulation engine: take the letter out of a message, and answer it as the site would.

All sites of a simulation are on one machine and belong to one person, so there is no guard: each is built where its
message is, from the run's settings. Between institutions nothing loads this: there :mod:`fedspca.flower.executor`
carries letters to the guard.
"""

from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedspca.study.simulation import endpoint_of

app = ClientApp()


@app.query("fedspca")
def answer(message: Message, context: Context) -> Message:
    """Answer one letter; what this raises reaches the coordinator as an error reply with the reason."""
    letter = message.content["letter"]["bytes"]
    if not isinstance(letter, bytes):
        raise TypeError("A letter is bytes.")
    endpoint = endpoint_of(Path(str(context.run_config["folder"])), int(context.node_config["partition-id"]))
    return Message(RecordDict({"letter": ConfigRecord({"bytes": endpoint.handle(letter)})}), reply_to=message)
