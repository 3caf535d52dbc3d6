"""Take a run from the SuperLink and lead it from this process, without loading its app.

Flower itself would start a process for each run and load the app into it. The run's token would be among the arguments
of that process, where every account of the machine can read it. Here, the process that starts a run also takes it: it
proves that it can read the study's secret, gets the token over the connection, and leads the run with its own code.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fedspca.flower.commands import FlowerProcessError

if TYPE_CHECKING:
    from flwr.serverapp import Grid

ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
SERVER_APP = "flwr-serverapp"
PATIENCE, PAUSE = 30.0, 0.1
LONGEST_REASON = 500


@contextlib.contextmanager
def lead_run(address: str, authority: Path, secret: Path, run_id: int) -> Iterator["Grid"]:
    """Yield the grid over which a run that was just started reaches its nodes, and tell Flower how it ended.

    Parameters
    ----------
    address : str
        The SuperLink's own address on this machine.
    authority, secret : Path
        The authority's certificate, and the file that only the coordinator's account reads.
    run_id : int
        The run.
    """
    from flwr.common.serde import run_from_proto
    from flwr.proto.runtime_pb2 import PullTaskInputRequest, PushTaskOutputRequest
    from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.superlink.grid import HttpGrid

    certificate = authority.read_bytes()
    grid = HttpGrid(address, False, certificate, token=_token(address, certificate, secret.read_bytes(), run_id))
    client = grid._runtime_client
    heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(client))
    heartbeat.start()
    status, details = "failed", "it was interrupted"
    try:
        task = client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id = task.task_id, task.run.run_id
        TaskIdentity.node_id = task.context.node_id
        grid.set_run(run_from_proto(task.run))
        yield grid
        status, details = "completed", ""
    except Exception as error:
        details = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
        raise
    finally:
        grid._retry_invoker.max_tries = 1  # nobody waits for what Flower makes of it
        with contextlib.suppress(Exception):
            client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=details))
        heartbeat.stop()
        grid.close()


def _token(address: str, certificate: bytes, secret: bytes, run_id: int) -> str:
    """The token of the run's task. Tasks of other runs are taken too, and then expire."""
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor, SuperExecAuthHttpInterceptor
    from flwr.supercore.retry import make_simple_http_retry_invoker
    from flwr.supercore.runtime import RuntimeHttpClient

    interceptors: list[RuntimeVersionHttpInterceptor | SuperExecAuthHttpInterceptor] = [
        RuntimeVersionHttpInterceptor(component_name="SuperExec"),
        SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={ACQUIRE}),
    ]
    client = RuntimeHttpClient.from_server_address(
        address, False, certificate, interceptors, retry_invoker=make_simple_http_retry_invoker()
    )
    end = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            taken = client.AcquireTask(AcquireTaskRequest(supported_task_types=[SERVER_APP]))
            if taken.token and taken.task.run_id == run_id:
                return str(taken.token)
            time.sleep(PAUSE)
    finally:
        client.close()
    raise FlowerProcessError(f"Flower's server did not hand out run {run_id} within {PATIENCE:.0f} seconds.")
