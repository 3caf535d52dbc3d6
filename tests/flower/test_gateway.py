"""Only Fleet passes the gateway, and what passes is not changed."""

import asyncio
import socket

import pytest

pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

import httpx

from fedspca.flower.commands import free_port
from fedspca.flower.gateway import Gateway, listener


def ask(path="/v1/fleet/pull-messages", method="POST", body=b"letter", headers=(), query=b"", upstream=None, **limits):
    """The status and body that a site gets, and the requests that the SuperLink saw."""
    seen, sent = [], []

    class Stream(httpx.AsyncByteStream):
        async def __aiter__(self):
            yield b"ans"
            yield b"wer"

    def superlink(request):
        seen.append((request.method, request.url.path, request.read(), request.headers))
        return httpx.Response(200, stream=Stream(), headers={"x-flower": "1", "connection": "close"})

    async def run():
        events = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            return events.pop(0)

        async def send(event):
            sent.append(event)

        transport = httpx.MockTransport(upstream or superlink)
        async with httpx.AsyncClient(base_url="https://127.0.0.1:1", transport=transport) as client:
            scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": list(headers)}
            await Gateway(client, **limits)(scope, receive, send)

    asyncio.run(run())
    return sent[0]["status"], b"".join(event.get("body", b"") for event in sent[1:]), seen, dict(sent[0]["headers"])


def test_fleet_passes_with_its_signature():
    signed = [(b"flwr-signature", b"c2ln"), (b"host", b"study.example.org"), (b"connection", b"keep-alive")]
    status, body, [(method, path, letter, headers)], answered = ask(headers=signed)
    assert (status, body, method, path, letter) == (200, b"answer", "POST", "/v1/fleet/pull-messages", b"letter")
    assert headers["flwr-signature"] == "c2ln"
    assert headers["host"] == "127.0.0.1:1"
    assert answered[b"x-flower"] == b"1"
    assert b"connection" not in answered


@pytest.mark.parametrize(
    "path",
    [
        "/v1/control/start-run",
        "/v1/runtime/acquire-task",
        "/docs",
        "/openapi.json",
        "/",
        "/v1/fleet",
        "/v1/fleet/",
        "/v1/fleet/../control/start-run",
        "/v1/fleet//v1/control/start-run",
        "/v1/fleet/pull-messages\n",
        "//v1/fleet/pull-messages",
        "/V1/fleet/pull-messages",
    ],
)
def test_nothing_else_does(path):
    status, _, seen, _ = ask(path)
    assert (status, seen) == (404, [])


def test_no_other_method_and_no_query():
    assert ask(method="GET")[0] == 404
    assert ask(query=b"a=b")[0] == 404


def test_a_letter_that_is_too_long_is_refused():
    assert ask(headers=[(b"content-length", b"1000")], max_bytes=10)[0] == 413
    assert ask(body=b"x" * 1000, max_bytes=10)[0] == 413  # whatever it said of its length


def test_a_superlink_that_is_not_there():
    def refuse(request):
        raise httpx.ConnectError("refused")

    assert ask(upstream=refuse)[0] == 502


def test_it_listens_to_both_families():
    port = free_port()
    with listener("::", port) as opened:
        families = {"127.0.0.1", "::1"} if opened.family == socket.AF_INET6 else {"127.0.0.1"}
        for host in families:
            socket.create_connection((host, port), timeout=5.0).close()
    with listener("127.0.0.1", free_port()) as opened:
        assert opened.family == socket.AF_INET
