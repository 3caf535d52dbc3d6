"""Serve a page to one person on this machine.

The server listens on loopback only. The address that the command prints ends in ``#`` and a token; browsers do not send
this part of an address. The page's script exchanges the token once for a key, and sends the key with every request.
Only this page knows the key. So no other website and no other tab can read or approve anything: there is no cookie that
a browser would add by itself. Requests under another host name are refused, and the page may load nothing from
elsewhere.
"""

import asyncio
import json
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

LOOK = 0.5  # seconds between looks at the folder
BEAT = 15.0  # seconds between signs of life to the page, by which a closed page is detected
LONGEST_FORM = 10_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
ASSETS = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}


class Page(Protocol):
    """The content of a page, and the actions that it allows."""

    title: str

    def parts(self) -> Mapping[str, str]:
        """Return the parts of the page as they now are, each as markup."""

    def act(self, action: str, given: Mapping[str, str]) -> str:
        """Do what a person asked for, and return in words what was done; a ValueError says why it failed."""

    def document(self, name: str) -> str:
        """Return a separate document, such as the report; a KeyError if no document has this name."""


class _Keys:
    """The token that opens the page once, the key of whoever opened it, and names under which documents are shown."""

    def __init__(self, token: str) -> None:
        self._lock = threading.Lock()
        self._token: str | None = token
        self._key: str | None = None
        self.documents: dict[str, str] = {}

    def enter(self, token: str) -> str | None:
        """Return a key for the token; None if the token is wrong or was used before."""
        with self._lock:
            if self._token is None or not secrets.compare_digest(token.encode(), self._token.encode()):
                return None
            self._token, self._key = None, secrets.token_urlsafe(32)
            return self._key

    def fits(self, key: str) -> bool:
        return self._key is not None and secrets.compare_digest(key.encode(), self._key.encode())


def make_app(page: Page, token: str, hosts: tuple[str, ...]) -> Starlette:
    """Return the application.

    Parameters
    ----------
    page : Page
        What is shown.
    token : str
        The token that opens the page. It can be used once.
    hosts : tuple of str
        The names, with the port, under which it may be asked for.
    """
    keys = _Keys(token)

    async def enter(request: Request) -> Response:
        try:
            key = keys.enter(await _body(request))
        except ValueError as error:  # any program on this machine may send anything
            return _no(str(error))
        return _no("This address was used before. Type the command again.") if key is None else PlainTextResponse(key)

    async def happening(request: Request) -> Response:
        return StreamingResponse(_changes(page, request), media_type="text/event-stream")

    async def act(request: Request) -> Response:
        try:
            done = await run_in_threadpool(page.act, request.path_params["action"], _form(await _body(request)))
        except (ValueError, OSError, RuntimeError) as error:
            return JSONResponse({"error": str(error)})  # a normal response, whose text is shown to the person
        return JSONResponse({"done": done})

    async def link(request: Request) -> Response:
        name = secrets.token_urlsafe(16)
        keys.documents[name] = request.path_params["name"]
        return PlainTextResponse(f"/document/{name}")

    async def document(request: Request) -> Response:
        try:
            content = await run_in_threadpool(page.document, keys.documents.pop(request.path_params["name"]))
        except KeyError:
            return _no("There is no such page, or it was opened before. Use the button again.")
        except (ValueError, OSError) as error:
            return _no(str(error))
        return HTMLResponse(content)  # its own content policy forbids it to load anything

    routes = [Route(path, _asset(*about, page.title)) for path, about in ASSETS.items()]
    routes += [
        Route("/enter", enter, methods=["POST"]),
        Route("/happening", happening, methods=["POST"]),
        Route("/act/{action}", act, methods=["POST"]),
        Route("/link/{name}", link, methods=["POST"]),
        Route("/document/{name}", document),
    ]
    app = Starlette(routes=routes)
    app.add_middleware(BaseHTTPMiddleware, dispatch=_guarded(keys, hosts))
    return app


def _guarded(keys: _Keys, hosts: tuple[str, ...]) -> Callable[..., Awaitable[Response]]:
    """Return the filter of requests: a known host, this page, and its key (not for fixed files and documents)."""
    origins = {f"http://{host}" for host in hosts}
    open_paths = {*ASSETS, "/enter"}

    async def dispatch(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        path, sent = request.url.path, request.headers
        if sent.get("host") not in hosts:
            answer: Response = _no("This page is served to this machine alone.")
        elif sent.get("origin", next(iter(origins))) not in origins or _from_elsewhere(request):
            answer = _no("Another page may not ask for this.")
        elif path not in open_paths and not path.startswith("/document/") and not keys.fits(_key(request)):
            answer = _no("This page is no longer open. Type the command again.", 401)
        else:
            answer = await call_next(request)
        for name, value in HEADERS.items():
            if not (name == "content-security-policy" and path.startswith("/document/") and answer.status_code == 200):
                answer.headers[name] = value
        return answer

    return dispatch


def _from_elsewhere(request: Request) -> bool:
    """Whether another website sent the request. The empty frame is exempt: it may be opened from a file."""
    return bool(request.headers.get("sec-fetch-site") == "cross-site" and request.url.path != "/")


def _key(request: Request) -> str:
    return str(request.headers.get("authorization", "")).removeprefix("Bearer ")


def _form(text: str) -> dict[str, str]:
    given = json.loads(text)
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ValueError("What was sent is no form.")
    return given


async def _body(request: Request) -> str:
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > LONGEST_FORM:
            raise ValueError("The form is too long.")
    return content.decode(errors="replace")


async def _changes(page: Page, request: Request) -> AsyncIterator[str]:
    """Yield the parts of the page that changed, as server-sent events, until the page is closed."""
    shown: dict[str, str] = {}
    silent = 0.0
    while not await request.is_disconnected():
        try:
            now = dict(await run_in_threadpool(page.parts))
        except (ValueError, OSError) as error:
            now = {"trouble": str(error)}
        changed = {name: markup for name, markup in now.items() if shown.get(name) != markup}
        if changed or silent > BEAT:
            yield f"data: {json.dumps(changed)}\n\n"
            silent = 0.0
        shown |= changed
        await asyncio.sleep(LOOK)
        silent += LOOK


def _asset(name: str, kind: str, title: str) -> Callable[[Request], Awaitable[Response]]:
    from html import escape

    content = files("fedspca.study.page").joinpath(name).read_text(encoding="utf-8")
    if kind == "text/html":
        content = content.replace("{title}", escape(title))

    async def asset(request: Request) -> Response:
        del request
        return Response(content, media_type=kind)

    return asset


def _no(reason: str, status: int = 403) -> Response:
    return PlainTextResponse(reason, status)


def open_page(page: Page, tell: Callable[[str], object], port: int = 0) -> None:
    """Serve a page on loopback until Ctrl-C; ``tell`` is given its address, which can be used once."""
    token = secrets.token_urlsafe(32)
    with socket.create_server(("127.0.0.1", port)) as listener:
        here = listener.getsockname()[1]
        app = make_app(page, token, (f"127.0.0.1:{here}", f"localhost:{here}"))
        config = uvicorn.Config(app, lifespan="off", access_log=False, log_level="error", timeout_graceful_shutdown=1)
        tell(f"http://127.0.0.1:{here}/#{token}")
        uvicorn.Server(config).run(sockets=[listener])
