"""Who may open the page, and what it lets others do: nothing."""

import asyncio
import json

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

import httpx

from fedspca.study.page.server import make_app

HOST = "127.0.0.1:5000"
TOKEN = "t" * 43


class Shown:
    title = "<script>alert(1)</script>"

    def __init__(self):
        self.acts = []

    def parts(self):
        return {"standing": "<p>here</p>"}

    def act(self, action, given):
        if action != "approve":
            raise ValueError("no")
        self.acts.append(given)
        return "done"

    def document(self, name):
        return {"report": "<p>report</p>"}[name]


class Client:
    """Asks an application as a browser would, without a port."""

    def __init__(self, app):
        self._transport = httpx.ASGITransport(app)

    def ask(self, method, path, **given):
        async def asked():
            async with httpx.AsyncClient(transport=self._transport, base_url=f"http://{HOST}") as client:
                return await client.request(method, path, **given)

        return asyncio.run(asked())

    def get(self, path, **given):
        return self.ask("GET", path, **given)

    def post(self, path, **given):
        return self.ask("POST", path, **given)


@pytest.fixture
def page():
    return Shown()


@pytest.fixture
def client(page):
    return Client(make_app(page, TOKEN, (HOST,)))


def entered(client):
    return {"authorization": f"Bearer {client.post('/enter', content=TOKEN).text}"}


def test_the_token_opens_the_page_once(client):
    assert client.post("/enter", content="x").status_code == 403
    assert client.post("/enter", content="x" * 20_000).text == "The form is too long."
    assert len(client.post("/enter", content=TOKEN).text) > 40
    assert client.post("/enter", content=TOKEN).status_code == 403


def test_without_the_key_nothing_is_told_or_done(client, page):
    for path in ("/happening", "/act/approve", "/link/report"):
        assert client.post(path, content="{}").status_code == 401
        assert client.post(path, content="{}", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 401
    assert client.get("/document/report").status_code == 403
    assert page.acts == []


def test_with_the_key_forms_are_taken_and_reasons_told(client, page):
    key = entered(client)
    assert client.post("/act/approve", content='{"phrase": "x"}', headers=key).json() == {"done": "done"}
    assert page.acts == [{"phrase": "x"}]
    assert client.post("/act/other", content="{}", headers=key).json() == {"error": "no"}
    for form in ("[]", '{"a": 1}', "no json", "x" * 20_000):
        assert list(client.post("/act/approve", content=form, headers=key).json()) == ["error"]
    assert len(page.acts) == 1


def test_another_host_name_or_page_is_refused_even_with_the_key(client, page):
    """A name that leads to this machine, as in DNS rebinding, and a form on another site."""
    key = entered(client)
    for headers in (
        {"host": "evil.example.org"},
        {"origin": "http://evil.example.org"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ):
        assert client.post("/act/approve", content="{}", headers=key | headers).status_code == 403
        assert client.post("/enter", content=TOKEN, headers=headers).status_code == 403
    assert page.acts == []
    # the file that opens the page is another page, and is led to the frame, which tells nothing
    assert client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200


def test_a_document_is_shown_once(client):
    link = client.post("/link/report", headers=entered(client)).text
    assert client.get(link).text == "<p>report</p>"
    assert client.get(link).status_code == 403


def test_every_answer_forbids_to_load_from_elsewhere_and_to_frame(client):
    for path in ("/", "/page.js", "/page.css", "/none"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert "set-cookie" not in headers
    text = client.get("/").text
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert "http" not in text.replace("http-equiv", "")


def test_what_changed_is_sent_as_it_changes(page):
    from fedspca.study.page import server

    class Request:
        left = 3

        async def is_disconnected(self):
            self.left -= 1
            return self.left < 0

    async def seen():
        return [json.loads(event.removeprefix("data: ")) async for event in server._changes(page, Request())]

    old, server.LOOK = server.LOOK, 0.0
    try:
        assert asyncio.run(seen()) == [{"standing": "<p>here</p>"}]
    finally:
        server.LOOK = old
