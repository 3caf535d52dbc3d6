"""Let sites reach the Fleet of a SuperLink, and nothing else of it.

A SuperLink serves Fleet, Runtime and Control on one port, and its open-source edition does not authenticate the users
of Control: anyone who reaches the port may register keys and run code on the coordinator's machine. So the SuperLink
listens on loopback only. This small proxy listens to the network with the same certificate, and passes on only requests
to Fleet. Fleet checks the signature of the node's key on every request.

Flower itself uses uvicorn as server and httpx as client. The gateway uses the same two, so both parse HTTP alike.
"""

import argparse
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from fedspca.flower.relay import MAX_BYTES

ANY = "::"  # every address of this machine
FLEET = re.compile(r"/v1/fleet/[a-z]+(-[a-z]+)*")
# headers of a connection, not of a request; httpx and uvicorn set `host` and `content-length` themselves
NOT_PASSED_ON = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
FRAMING = 1 << 16  # bytes that Flower may add to a letter

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Gateway:
    """An ASGI application that passes requests to Fleet on to the SuperLink, as they come, byte for byte."""

    def __init__(self, client: httpx.AsyncClient, max_bytes: int = MAX_BYTES + FRAMING) -> None:
        self._client, self._max_bytes = client, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        if scope["method"] != "POST" or not FLEET.fullmatch(scope["path"]) or scope["query_string"]:
            await _refuse(send, 404)
        elif _length(scope) > self._max_bytes:
            await _refuse(send, 413)
        else:
            await self._pass_on(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = self._client.build_request(
            "POST",
            scope["path"],
            headers=[(key, value) for key, value in scope["headers"] if key not in NOT_PASSED_ON | {b"host"}],
            content=self._body(receive),
        )
        try:
            response = await self._client.send(request, stream=True)
        except (httpx.HTTPError, _TooLong) as error:
            await _refuse(send, 413 if isinstance(error, _TooLong) else 502)
            return
        try:
            kept = [(key, value) for key, value in response.headers.raw if key.lower() not in NOT_PASSED_ON]
            await send({"type": "http.response.start", "status": response.status_code, "headers": kept})
            async for piece in response.aiter_raw():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await response.aclose()

    async def _body(self, receive: Receive) -> AsyncIterator[bytes]:
        received, more = 0, True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise httpx.ReadError("the site went away")
            received += len(event.get("body", b""))
            if received > self._max_bytes:
                raise _TooLong
            yield event.get("body", b"")
            more = event.get("more_body", False)


class _TooLong(Exception):
    pass


def _length(scope: Scope) -> int:
    # uvicorn has already refused a length that is not a number
    return max((int(value) for key, value in scope["headers"] if key == b"content-length"), default=0)


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def main() -> None:
    """Run the gateway until it is told to stop."""
    parser = argparse.ArgumentParser(description="Let sites reach the Fleet of a SuperLink, and nothing else of it.")
    parser.add_argument("--host", default=ANY)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--superlink-port", type=int, required=True)
    for name in ("authority", "certificate", "key"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args()
    client = httpx.AsyncClient(
        base_url=f"https://127.0.0.1:{given.superlink_port}",
        verify=ssl.create_default_context(cafile=given.authority),
        timeout=httpx.Timeout(120.0, connect=5.0),
        trust_env=False,  # use no proxy for a process on this machine
    )
    config = uvicorn.Config(
        Gateway(client),
        ssl_certfile=str(given.certificate),
        ssl_keyfile=str(given.key),
        lifespan="off",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    with listener(given.host, given.port) as opened:
        uvicorn.Server(config).run(sockets=[opened])


def listener(host: str, port: int) -> socket.socket:
    """A socket that accepts connections; over IPv4 and IPv6 alike, if the host is ``::`` and the machine has both."""
    if host == ANY and socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # IPv6 may be switched off
            return socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)
    host = "0.0.0.0" if host == ANY else host
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


if __name__ == "__main__":
    main()
