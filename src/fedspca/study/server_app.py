"""The ServerApp: run one action of a study over the sites that Flower reaches.

The output of a ServerApp goes to the SuperLink's log, which few people read. So errors are written into the study's
folder, as one sentence followed by the traceback.
"""

import traceback
from functools import partial
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedspca.flower.grid_channel import FlowerChannel
from fedspca.study.flower_app import failure_file
from fedspca.study.run import lead

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Read the study's folder and the action from the run's settings, and carry out the action."""
    folder, action = Path(str(context.run_config["folder"])), str(context.run_config["action"])
    failure = failure_file(folder, context.run_id)
    try:
        lead(folder, action, partial(FlowerChannel, grid))
    except BaseException as error:
        failure.parent.mkdir(parents=True, exist_ok=True)
        failure.write_text(f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}", encoding="utf-8")
        raise
